package signer

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
)

// DepositSwapTerms are the fields of a deposit swap without which its address may not be shown.
type DepositSwapTerms struct {
	OrgID, DepositSwapID, CustomerID string
	OriginChain                      chain.Name
	OriginContract                   chain.Address
	OriginAsset, DestinationAsset    string // as the provider names them
	OriginDecimals, ToMintID         int
	AmountIn                         *money.Amount // nil: the caller named none
	WalletID                         string
	WalletAddress                    chain.Address
	RefundAddress                    string
	Provider, DepositAddress         string
	SignedQuote                      []byte
}

// depositSwapVersion begins what the MAC of a deposit swap covers.
const depositSwapVersion = "coffer-deposit-swap-1"

// DepositSwapMAC binds a row to the terms that it was made with.
func (k *GrantKey) DepositSwapMAC(t DepositSwapTerms) []byte {
	amountIn := ""
	if t.AmountIn != nil {
		amountIn = t.AmountIn.String()
	}
	quote := sha256.Sum256(t.SignedQuote)
	return k.computeMAC(
		depositSwapVersion, t.OrgID, t.DepositSwapID, t.CustomerID, string(t.OriginChain), string(t.OriginContract),
		t.OriginAsset, t.DestinationAsset, strconv.Itoa(t.OriginDecimals), strconv.Itoa(t.ToMintID), amountIn,
		t.WalletID, string(t.WalletAddress), t.RefundAddress, t.Provider, t.DepositAddress,
		hex.EncodeToString(quote[:]),
	)
}

// VerifyDepositSwap reports whether the row was made with these terms.
func (k *GrantKey) VerifyDepositSwap(t DepositSwapTerms, mac []byte) bool {
	return k == nil || hmac.Equal(k.DepositSwapMAC(t), mac)
}
