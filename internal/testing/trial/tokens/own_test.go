package tokens

import (
	"context"
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/params"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/member"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/localworld/evmtoken"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

const vault = "wla_01J9ZW3M8Q4S5T6V7W8X9YZABC"

// shopOnly is a whitelist with only the shop's address.
type shopOnly struct{}

func (shopOnly) Usable(_ context.Context, _ pg.Tx, _, id string) (withdrawal.WhitelistEntry, error) {
	if id != vault {
		return withdrawal.WhitelistEntry{}, fault.New(
			fault.Unprocessable, fault.AddressNotWhitelisted, fault.NothingHeld, "It is not on the list.",
		)
	}
	return withdrawal.WhitelistEntry{Chain: chain.Ethereum, Address: evmtx.Canonical(shop)}, nil
}

// productBalance returns the balance of a product, in units.
func (h *testEnv) productBalance(name string, mintID int) (units string) {
	h.Helper()
	h.mustSucceed(h.db.ReadOrg(h.ctx, h.org, func(ctx context.Context, tx pg.Tx) error {
		got, err := ledger.Balance(ctx, tx, ledger.Account{
			OrgID: h.org, MintID: mintID, Kind: ledger.Product, Subject: name,
		})
		units = got.String()
		return err
	}))
	return units
}

// The whole balance of a product, of a token and of a coin, is paid out to the unit, and customers'
// balances stay. Rules OW-3, OW-4.
func TestAllOfAProductsBalanceIsPaidToTheListedAddress(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t, tokenList{usdc: newUsualToken(evmtoken.Token)})
	h.Withdrawals.Whitelist = shopOnly{}
	signertest.EndorseAddress(t, h.sign, h.org, vault, evmtx.Canonical(shop))
	var ann member.Member
	h.mustSucceed(h.db.InSystem(h.ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		ann, err = member.Add(ctx, tx, audit.Operator("op"), h.org, "ann@example.com", "Ann", identity.Owner)
		return err
	}))
	own, err := h.Wallets.Address(h.ctx, signer.WalletRef{
		OrgID: h.org, Family: chain.EVM, Purpose: wallet.OrganizationDeposit, Subject: "CHECKOUT",
	})
	h.mustSucceed(err)
	h.sendCoin(raw(own.Address), params.Ether)
	h.sendTokens(usdc, raw(own.Address), 700_000)
	customers := h.customerAddress("CHECKOUT") // a customer with the product's name
	h.sendCoin(customers, params.Ether)
	h.sendTokens(usdc, customers, 300_000)
	h.settleAll()

	all := withdrawal.OrganizationRequest{Product: "CHECKOUT", MintID: usdc, WhitelistedAddressID: vault, Max: true}
	token, _, err := h.Withdrawals.RequestOrganization(h.ctx, ann, all)
	h.mustSucceed(err)
	h.waitWithdrawalEnd(token.ID)
	h.wantWithdrawal(token.ID, "COMPLETED")
	h.wantChainBalance(usdc, shop, 700_000)
	if got := h.productBalance("CHECKOUT", usdc); got != "0" {
		t.Errorf("CHECKOUT has %s of the token, want nothing", got)
	}
	h.checkBooks()

	all.MintID = eth
	coin, _, err := h.Withdrawals.RequestOrganization(h.ctx, ann, all)
	h.mustSucceed(err)
	fee := coin.NetworkFee.Big()
	pays := new(big.Int).Sub(big.NewInt(params.Ether), fee)
	if coin.Amount.String() != pays.String() {
		t.Errorf("the maximum is %s with a fee of %v, want %v", coin.Amount, fee, pays)
	}
	h.waitWithdrawalEnd(coin.ID)
	h.wantWithdrawal(coin.ID, "COMPLETED")
	h.wantChainBalance(eth, shop, pays.Int64())
	if got := h.productBalance("CHECKOUT", eth); got != "0" {
		t.Errorf("CHECKOUT has %s of the coin, want nothing", got)
	}
	// The organization is billed what the network took for all orders, less what it has paid of
	// that.
	took := h.word(`SELECT coalesce(sum(fee), 0)::text FROM dispatch_orders WHERE status = 'PAID'`)
	due, _ := new(big.Int).SetString(took, 10)
	due.Sub(fee, due)
	h.mustSucceed(h.db.ReadSystem(h.ctx, func(ctx context.Context, tx pg.Tx) error {
		got, err := ledger.Sum(ctx, tx, ledger.Account{OrgID: h.org, MintID: eth, Kind: ledger.FeesDue})
		if err == nil && got.Cmp(due) != 0 {
			t.Errorf("fees due: got %v, want %v", got, due)
		}
		return err
	}))
	h.wantBalance("CHECKOUT", usdc, 300_000)
	h.wantBalance("CHECKOUT", eth, params.Ether)
	h.checkBooks()
}
