package checkouts

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/http/payerpages"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/sweep"
	"github.com/cofferpay/coffer/internal/wire"
)

// accountsOf are the token accounts that providers say exist.
type accountsOf struct {
	chain.TokenAccounts
	exist map[chain.Holding]bool
	asked int
	err   error
}

// Existing implements chain.TokenAccounts.
func (a *accountsOf) Existing(_ context.Context, holdings []chain.Holding) ([]bool, error) {
	a.asked++
	exists := make([]bool, len(holdings))
	for i, h := range holdings {
		exists[i] = a.exist[h]
	}
	return exists, a.err
}

// As long as the shared address has no account for a token, its option has the checkout's own address alone: no wallet
// is asked, on the page and by the API, also while the address has an account for another token. The account is planned
// once, and again after a pause that grows if it is refused. As soon as the chain has it, also from another person,
// wallets are offered and the order that waits is recalled.
// Rules CO-136, CO-138 and CO-139.
func TestWalletsAreOfferedOnceTheSharedAddressHasAnAccount(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	node := e.withNode()
	accounts := &accountsOf{exist: map[chain.Holding]bool{}}
	ch := e.Checkouts.Chains[chain.Solana]
	ch.TokenAccounts = accounts
	e.Checkouts.Chains[chain.Solana] = ch
	sweeper := sweep.New(e.db, ch, e.Wallets, e.prices, sweep.Config{}, slog.New(slog.DiscardHandler))
	plan := func(what string, want int) {
		t.Helper()
		made, err := sweeper.Plan(e.ctx)
		if e.must(err); made != want {
			t.Errorf("%s: got %d planned or recorded, want %d", what, made, want)
		}
	}
	orders := func(what, want string) {
		t.Helper()
		got := strings.Join(e.texts(`
			SELECT concat_ws(' ', status, amount, contract = $1 AND to_address = w.address, w.purpose)
			FROM dispatch_orders o JOIN wallets w ON w.wallet_id = o.to_wallet_id
			WHERE o.purpose = 'TOKEN_ACCOUNT' ORDER BY o.created_at, o.order_id`, string(solanaToken)), ", ")
		if got != want {
			t.Errorf("%s: got the orders %q, want %q", what, got, want)
		}
	}
	const queued, refused = "QUEUED 0 t CHECKOUT_SHARED", "REFUSED 0 t CHECKOUT_SHARED"
	id := e.checkout(request(e.product()), dollars)
	plan("no option of the chain", 0)
	if _, err := e.Checkouts.OpenOption(e.ctx, e.org, id, solanaDollars); err != nil {
		t.Fatal(err)
	}
	option := e.option(id, solanaDollars)
	source := payerpages.Source{
		Service: e.Checkouts, Chains: e.Checkouts.Chains, IsLocal: true, Clock: e.clock,
		Log: slog.New(slog.DiscardHandler),
	}
	shown := func() (payerpages.Option, int64) {
		t.Helper()
		view, err := source.View(e.ctx, id)
		e.must(err)
		i := slices.IndexFunc(view.Options, func(o payerpages.Option) bool { return o.MintID == solanaDollars })
		return view.Options[i], view.Version
	}
	pay := checkout.WalletRequest{MintID: solanaDollars, Account: string(sim.SolanaAddress("a payer"))}
	isOwnAlone := func(what string) int64 {
		t.Helper()
		o, version := shown()
		if !o.IsOpen || o.Address != string(option.Wallet.Address) || o.QRText != o.Address || o.WalletLink != "" ||
			o.SharedAddress != "" || o.Solana != nil {
			t.Errorf("%s: got the page %+v, want its own address alone", what, o)
		}
		told := wire.PaymentOption(e.load(id), solanaDollars)
		if told.Address == nil || told.Amount == nil || told.SharedAddress != nil || told.PaymentURI != nil {
			t.Errorf("%s: got the API %+v, want its own address alone", what, told)
		}
		_, err := e.Checkouts.PublicWalletPayment(e.ctx, id, pay)
		e.wantRefused(what, err, checkout.OptionRefused)
		pay.MintID = 0
		_, err = e.Checkouts.PublicWalletPayment(e.ctx, id, pay)
		e.wantRefused(what, err, checkout.OptionRefused)
		pay.MintID = solanaDollars
		return version
	}
	isOwnAlone("before the first look")
	if accounts.asked != 0 {
		t.Error("the chain was asked about a token that nothing is paid in")
	}
	accounts.err = errors.New("no provider answers")
	if _, err := sweeper.Plan(e.ctx); err == nil {
		t.Error("no provider answers: got no error")
	}
	orders("nothing is known", "")
	accounts.err = nil
	plan("it lacks one", 1)
	orders("it lacks one", queued)
	asked := accounts.asked
	plan("at once again", 0)
	if accounts.asked != asked {
		t.Error("the chain was asked twice within a moment")
	}
	before := isOwnAlone("while it waits")
	e.look()
	refuse := func() {
		e.exec(`UPDATE dispatch_orders SET status = 'REFUSED', ended_at = $1 WHERE status = 'QUEUED'
			AND purpose = 'TOKEN_ACCOUNT'`, e.clock())
	}
	refuse()
	e.tick(2 * time.Minute)
	plan("soon after a refusal", 0)
	e.tick(9 * time.Minute)
	plan("after the pause", 1)
	orders("after the pause", refused+", "+queued)
	refuse()
	e.tick(11 * time.Minute)
	plan("after the same pause again", 0)
	e.tick(10 * time.Minute)
	plan("after twice the pause", 1)
	e.look()
	accounts.exist[chain.Holding{Address: option.Shared.Address, Contract: solanaToken}] = true
	e.tick(time.Minute)
	id2 := e.checkout(request(e.product(), otherOf("key-2")), solanaDollars)
	id, id2 = id2, id // The first one is over.
	option = e.option(id, solanaDollars)
	isOwnAlone("before the next look")
	other := catalogue()[4]
	other.ID, other.Contract = 99, sim.SolanaAddress("other dollars")
	e.must(mint.Sync(e.ctx, e.db, append(catalogue(), other)))
	e.exec(`INSERT INTO token_accounts (wallet_id, mint_id, org_id, found_at) VALUES ($1, $2, $3, $4)`,
		option.Shared.ID, other.ID, e.org, e.clock())
	isOwnAlone("while the account of another token exists")
	plan("it exists", 1)
	orders("it exists", refused+", "+refused+", WITHDRAWN 0 t CHECKOUT_SHARED")
	versions, err := e.Checkouts.PublicVersions(e.ctx, []string{id2})
	if e.must(err); versions[id2] <= before {
		t.Errorf("got version %d after %d, want open pages told", versions[id2], before)
	}
	o, _ := shown()
	if o.Address != string(option.Wallet.Address) || o.SharedAddress != string(option.Shared.Address) ||
		!strings.HasPrefix(o.WalletLink, "solana:"+o.SharedAddress+"?") || o.QRText != o.WalletLink || o.Solana == nil {
		t.Errorf("got the page %+v, want its wallets asked to pay the shared address", o)
	}
	told := wire.PaymentOption(e.load(id), solanaDollars)
	if told.SharedAddress == nil || *told.SharedAddress != o.SharedAddress || told.PaymentURI == nil {
		t.Errorf("got the API %+v, want the shared address", told)
	}
	_, err = e.Checkouts.PublicWalletPayment(e.ctx, id, pay)
	if e.must(err); len(node.asked) != 1 || node.asked[0].Payee != option.Shared.Address {
		t.Errorf("got %+v asked of the node, want one payment to the shared address", node.asked)
	}
	asked = accounts.asked
	e.tick(time.Hour)
	plan("it is known", 0)
	if accounts.asked != asked {
		t.Error("the chain was asked about an account that is known")
	}
	e.look()
}

// An account that a policy of the signer refuses for months is tried again at its longest pause, and stops no other
// one.
// Rule CO-136.
func TestAnAccountThatIsRefusedForMonthsStopsNoOther(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	ch := e.Checkouts.Chains[chain.Solana]
	ch.TokenAccounts = &accountsOf{exist: map[chain.Holding]bool{}}
	e.Checkouts.Chains[chain.Solana] = ch
	sweeper := sweep.New(e.db, ch, e.Wallets, e.prices, sweep.Config{}, slog.New(slog.DiscardHandler))
	e.checkout(request(e.product()), solanaDollars)
	plan := func(what string, want int) {
		t.Helper()
		made, err := sweeper.Plan(e.ctx)
		if e.must(err); made != want {
			t.Errorf("%s: got %d planned, want %d", what, made, want)
		}
	}
	plan("at first", 1)
	e.exec(`UPDATE dispatch_orders SET status = 'REFUSED', ended_at = $1 WHERE purpose = 'TOKEN_ACCOUNT'`, e.clock())
	e.exec(`ALTER TABLE dispatch_orders DISABLE TRIGGER ALL`)
	e.exec(`
		INSERT INTO dispatch_orders (order_id, org_id, purpose, chain, wallet_id, to_wallet_id, to_address, mint_id,
			contract, amount, trigger, status, attempt_after, created_at, ended_at)
		SELECT 'ta_' || n, org_id, purpose, chain, wallet_id, to_wallet_id, to_address, mint_id, contract, amount,
			trigger, status, attempt_after, created_at, ended_at
		FROM dispatch_orders, generate_series(1, 1200) n WHERE purpose = 'TOKEN_ACCOUNT'`)
	e.exec(`ALTER TABLE dispatch_orders ENABLE TRIGGER ALL`)
	e.tick(time.Hour)
	plan("within the longest pause", 0)
	e.tick(time.Hour)
	plan("after the longest pause", 1)
}
