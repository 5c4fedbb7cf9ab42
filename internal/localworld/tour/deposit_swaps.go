package tour

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"net/url"

	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/webhook"
)

// depositSwapWhole is how many whole tokens the customer pays into a deposit swap.
const depositSwapWhole = "20"

// originToken is an element of the answer of GET /deposit-swap/tokens.
type originToken struct {
	OriginTokenID   string  `json:"originTokenId"`
	Symbol          string  `json:"symbol"`
	Decimals        int     `json:"decimals"`
	ContractAddress *string `json:"contractAddress"`
}

// findOriginToken returns the token of a deposit swap as the service lists it.
func (s *tourRun) findOriginToken(ctx context.Context, t localworld.SwapToken) (listed originToken, err error) {
	var list struct {
		Data []originToken `json:"data"`
	}
	query := url.Values{"chain": {t.Chain}, "search": {t.ContractAddress}}
	if err := s.api.getJSON(ctx, "/deposit-swap/tokens?"+query.Encode(), &list); err != nil {
		return listed, err
	}
	if len(list.Data) != 1 || list.Data[0].Symbol != t.Symbol || list.Data[0].Decimals != t.Decimals {
		return listed, fmt.Errorf("the service lists %+v for %s, want the token alone", list.Data, t.ContractAddress)
	}
	return list.Data[0], nil
}

// tourDepositSwap shows a token that no mint is: the customer pays it to a provider, and USDC arrives.
func (s *tourRun) tourDepositSwap(ctx context.Context) error {
	if !s.hasSwaps() || len(s.Info.Swaps.Tokens) == 0 {
		return nil
	}
	token := s.Info.Swaps.Tokens[0]
	s.printTitle("A customer pays in %s, which is no mint", token.Symbol)
	usdc, err := s.findMint("SOLANA", "USDC")
	if err != nil {
		return err
	}
	before, err := s.loadBalance(ctx, usdc)
	if err != nil {
		return err
	}
	d, err := s.requestDepositSwap(ctx, token, usdc)
	if err != nil {
		return err
	}
	units, err := money.ParseDecimal(depositSwapWhole, token.Decimals)
	if err != nil {
		return err
	}
	hash, err := s.payFromFaucet(ctx, token.FaucetMint(), d.DepositAddress, units.Big())
	if err != nil {
		return err
	}
	s.printStep("sent %s %s from outside to the provider's address: %s", depositSwapWhole, token.Symbol, hash)

	var credited webhook.Deposit
	e, err := s.waitEvent(ctx, webhook.CustomerDeposit, &credited, func() bool {
		return orNull(credited.DepositSwapID) == d.DepositSwapID
	})
	if err != nil {
		return err
	}
	if credited.Source != "DEPOSIT_SWAP" || credited.Status != "CREDITED" || credited.Swap != nil ||
		credited.MintID == nil || *credited.MintID != usdc.ID || orNull(credited.CustomerID) != s.customer {
		return fmt.Errorf("CUSTOMER_DEPOSIT of the deposit swap is %+v", credited)
	}
	s.printStep(
		"CUSTOMER_DEPOSIT number %d with this deposit swap: %s %s, delivered by %s", e.Sequence,
		formatWhole(credited.Amount, usdc), usdc.Symbol, credited.TxHash,
	)
	arrived, isNumber := new(big.Int).SetString(credited.Amount, 10)
	promised, ok := new(big.Int).SetString(d.MinAmountOut, 10)
	if !isNumber || !ok || arrived.Cmp(promised) < 0 {
		return fmt.Errorf("%s arrived, and the provider promised %s", credited.Amount, d.MinAmountOut)
	}
	if err := s.checkMoved(ctx, before, arrived, usdc); err != nil {
		return err
	}
	return s.checkDepositSwap(ctx, d.DepositSwapID, hash, units.String(), credited)
}

// requestDepositSwap requests a deposit swap, twice with one key: there is one address.
func (s *tourRun) requestDepositSwap(
	ctx context.Context, token localworld.SwapToken, usdc localworld.Mint,
) (d webhook.DepositSwap, err error) {
	listed, err := s.findOriginToken(ctx, token)
	if err != nil {
		return d, err
	}
	units, err := money.ParseDecimal(depositSwapWhole, token.Decimals)
	if err != nil {
		return d, err
	}
	body := map[string]any{
		"customerId": s.customer, "originTokenId": listed.OriginTokenID, "amountIn": units.String(),
		"refundAddress": newAddress().Hex(), "idempotencyKey": "tour-" + randomHex(8),
	}
	var replay webhook.DepositSwap
	if err := s.api.postJSON(ctx, "/deposit-swap", body, &d); err != nil {
		return d, err
	}
	if err := s.api.postJSON(ctx, "/deposit-swap", body, &replay); err != nil {
		return d, err
	}
	if replay.DepositSwapID != d.DepositSwapID || replay.DepositAddress != d.DepositAddress {
		return d, fmt.Errorf("the same key made another deposit swap, %s", replay.DepositSwapID)
	}
	if d.Status != "AWAITING_DEPOSIT" || d.ToMintID != usdc.ID || d.DepositAddress == "" {
		return d, fmt.Errorf("the deposit swap is %+v", d)
	}
	s.printStep(
		"deposit swap %s of %s: pay %s on %s, and at least %s USDC come; the provider signed the address",
		d.DepositSwapID, listed.OriginTokenID, d.DepositAddress, d.OriginChain, formatWhole(d.MinAmountOut, usdc),
	)
	return d, nil
}

// checkDepositSwap checks what the service shows of a deposit swap that brought a deposit.
func (s *tourRun) checkDepositSwap(
	ctx context.Context, depositSwapID, hash, paid string, credited webhook.Deposit,
) error {
	var d webhook.DepositSwap
	if err := s.waitUntil(ctx, "the deposit swap shows what our node saw of it", func() (bool, error) {
		err := s.api.getJSON(ctx, "/deposit-swap/"+url.PathEscape(depositSwapID), &d)
		return d.Status == "COMPLETED" && d.ReceivedAmount != nil && d.OriginTxHash != nil, err
	}); err != nil {
		return errors.Join(err, fmt.Errorf("the deposit swap is %+v", d))
	}
	if *d.ReceivedAmount != paid || *d.OriginTxHash != hash || orNull(d.AmountOut) != credited.Amount ||
		orNull(d.DepositID) != credited.DepositID || orNull(d.DestinationTxHash) != credited.TxHash {
		return fmt.Errorf("the deposit swap is %+v, and its deposit %+v", d, credited)
	}
	s.printStep(
		"it is %s: our node saw the payment %s, whose sender was screened, and not the provider", d.Status,
		*d.OriginTxHash,
	)
	return nil
}
