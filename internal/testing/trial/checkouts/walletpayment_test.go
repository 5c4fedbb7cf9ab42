package checkouts

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/money"
)

// requestNode is a chain whose wallets are asked for payments. Its answer is what it was asked for.
type requestNode struct {
	*sim.Chain
	asked []chain.PaymentRequest
	err   error
	hangs bool
}

// BuildRequest implements chain.PaymentRequests.
func (n *requestNode) BuildRequest(ctx context.Context, r chain.PaymentRequest) ([]byte, error) {
	n.asked = append(n.asked, r)
	if n.hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return []byte("unsigned " + r.Amount.String()), n.err
}

// withNode gives the chain of a shop a node that builds requests.
func (e *testEnv) withNode() *requestNode {
	node := &requestNode{Chain: e.nets[chain.Solana]}
	ch := e.Checkouts.Chains[chain.Solana]
	ch.Reader = node
	e.Checkouts.Chains[chain.Solana] = ch
	return node
}

// wantRefused checks why a wallet gets no transaction.
func (e *testEnv) wantRefused(name string, err error, want checkout.WalletRefusal) {
	e.Helper()
	f := fault.Find(err)
	if f == nil || f.Details[checkout.RefusalDetail] != string(want) {
		e.Errorf("%s: got %v, want the refusal %s", name, err, want)
	}
}

// A wallet gets a transaction over exactly what is still due, to the shared address with the reference of the option,
// and nothing of the checkout changes by it. What it pays completes the checkout like every payment with the reference.
// Rules CO-116 and CO-117.
func TestAWalletIsAskedForExactlyWhatIsDue(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	node := e.withNode()
	id := e.checkout(request(e.product()), dollars, solanaDollars)
	option := e.option(id, solanaDollars)
	wallet := string(sim.SolanaAddress("a payer"))
	before := e.load(id).Version
	ask := func(r checkout.WalletRequest) (checkout.WalletPayment, error) {
		return e.Checkouts.PublicWalletPayment(e.ctx, id, r)
	}
	want := chain.PaymentRequest{
		Payer: chain.Address(wallet), Payee: option.Shared.Address, Contract: solanaToken,
		Amount: money.Units(100 * million), Reference: [32]byte(option.Ref),
	}
	for _, r := range []checkout.WalletRequest{
		{Account: wallet}, {MintID: solanaDollars, Account: wallet, Amount: fmt.Sprint(100 * million)},
	} {
		got, err := ask(r)
		e.must(err)
		last := node.asked[len(node.asked)-1]
		if last != want || string(got.Transaction) != "unsigned "+want.Amount.String() || got.Amount != want.Amount ||
			got.Mint.ID != solanaDollars || got.ShopName != "Acme" {
			t.Errorf("got %+v for the request %+v, want %+v", got, last, want)
		}
	}
	if after := e.load(id).Version; after != before {
		t.Errorf("got version %d, want %d: nothing changes", after, before)
	}
	for name, c := range map[string]struct {
		request checkout.WalletRequest
		want    checkout.WalletRefusal
	}{
		"no address":             {checkout.WalletRequest{Account: "x"}, checkout.AccountRefused},
		"an address of Ethereum": {checkout.WalletRequest{Account: string(payer)}, checkout.AccountRefused},
		"the shared address": {
			checkout.WalletRequest{Account: string(option.Shared.Address)}, checkout.AccountRefused,
		},
		"the own address": {
			checkout.WalletRequest{Account: string(option.Wallet.Address)}, checkout.AccountRefused,
		},
		"another amount":   {checkout.WalletRequest{Account: wallet, Amount: "1"}, checkout.AmountRefused},
		"a mint of no use": {checkout.WalletRequest{Account: wallet, MintID: dollars}, checkout.OptionRefused},
		"an absent mint":   {checkout.WalletRequest{Account: wallet, MintID: 999}, checkout.OptionRefused},
	} {
		asked := len(node.asked)
		_, err := ask(c.request)
		e.wantRefused(name, err, c.want)
		if len(node.asked) != asked {
			t.Errorf("%s: got a node that was asked", name)
		}
	}
	for name, c := range map[string]struct {
		err  error
		want checkout.WalletRefusal
	}{
		"no funds":    {&chain.RevertedError{Reason: "it has 3", Cause: chain.CauseFunds}, checkout.FundsRefused},
		"frozen":      {&chain.RevertedError{Reason: "frozen", Cause: chain.CauseAccount}, checkout.UnreadyRefused},
		"not ready":   {&chain.RevertedError{Reason: "no account", Cause: chain.CausePayee}, checkout.UnreadyRefused},
		"no node":     {errors.New("https://node.example/secret: connection refused"), checkout.NodeRefused},
		"all is fine": {nil, ""},
	} {
		node.err = c.err
		_, err := ask(checkout.WalletRequest{Account: wallet})
		if c.want == "" {
			e.must(err)
			continue
		}
		if e.wantRefused(name, err, c.want); strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v, want no word of the node", name, err)
		}
	}
	node.err, node.hangs = nil, true
	began := time.Now()
	ctx, cancel := context.WithTimeout(e.ctx, 50*time.Millisecond)
	defer cancel()
	_, err := e.Checkouts.PublicWalletPayment(ctx, id, checkout.WalletRequest{Account: wallet})
	if e.wantRefused("a node that hangs", err, checkout.NodeRefused); time.Since(began) > time.Minute {
		t.Errorf("waited %v for a node", time.Since(began))
	}
	node.hangs = false

	// A part arrives, and the next transaction is over the rest.
	e.seen(id, dollars, 40*million)
	got, err := ask(checkout.WalletRequest{Account: wallet})
	if e.must(err); got.Amount != money.Units(60*million) {
		t.Errorf("got %v after a part, want the rest", got.Amount)
	}
	_, err = ask(checkout.WalletRequest{Account: wallet, Amount: fmt.Sprint(100 * million)})
	e.wantRefused("the amount of before", err, checkout.AmountRefused)

	// Without a rate for what is left, no wallet is asked for the amount of before.
	e.prices.set(solanaDollars, "")
	e.seen(id, dollars, 10*million)
	_, err = ask(checkout.WalletRequest{Account: wallet})
	e.wantRefused("no rate for the rest", err, checkout.OptionRefused)
	e.prices.set(solanaDollars, "1")
	e.prices.set(ether, "")
	e.seen(id, ether, milliCoin)
	_, err = ask(checkout.WalletRequest{Account: wallet})
	e.wantRefused("a payment that has no value yet", err, checkout.OptionRefused)
	e.prices.set(ether, "2000")
	e.pass(time.Minute)
	got, err = ask(checkout.WalletRequest{Account: wallet})
	if e.must(err); got.Amount != money.Units(48*million) {
		t.Errorf("got %v with a rate again, want the rest", got.Amount)
	}

	unopened := e.checkout(request(e.product(), otherOf("key-2")), dollars)
	_, err = e.Checkouts.PublicWalletPayment(e.ctx, unopened, checkout.WalletRequest{Account: wallet})
	e.wantRefused("an option that is not opened", err, checkout.OptionRefused)
	cancelled := e.checkout(request(e.product(), otherOf("key-3")), solanaDollars)
	_, err = e.Checkouts.CancelCheckout(e.ctx, e.org, cancelled, audit.Operator("ann"))
	e.must(err)
	_, err = e.Checkouts.PublicWalletPayment(e.ctx, cancelled, checkout.WalletRequest{Account: wallet})
	e.wantRefused("a cancelled checkout", err, checkout.ClosedRefused)
	for _, absent := range []string{"co_01J9ZW3M8Q4S5T6V7W8X9YZABC", "x"} {
		_, err = e.Checkouts.PublicWalletPayment(e.ctx, absent, checkout.WalletRequest{Account: wallet})
		e.wantFault(err, fault.CodeNotFound)
	}
}

// A chain that builds no requests has no such way to pay.
func TestAChainWithoutRequestsAsksNoWallet(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	id := e.checkout(request(e.product()), solanaDollars)
	_, err := e.Checkouts.PublicWalletPayment(e.ctx, id, checkout.WalletRequest{
		Account: string(sim.SolanaAddress("a payer")),
	})
	e.wantRefused("a chain without requests", err, checkout.OptionRefused)
}

// Payers open no more options of an organization than its limit, and the organization itself opens more. Rule CO-123.
func TestPayersOpenOptionsWithinTheLimitOfTheOrganization(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	id := e.checkout(request(e.product()))
	left := 1
	e.Checkouts.CountOpening = func(orgID string) bool {
		if orgID != e.org {
			t.Errorf("got %s counted, want %s", orgID, e.org)
		}
		left--
		return left >= 0
	}
	e.must(e.Checkouts.OpenPublic(e.ctx, id, dollars))
	f := e.wantFault(e.Checkouts.OpenPublic(e.ctx, id, solanaDollars), fault.RateLimited)
	if f != nil && f.Kind != fault.Limited {
		t.Errorf("got %v, want a limit", f)
	}
	if got := e.load(id).Options; len(got) != 1 {
		t.Errorf("got %d options, want the one within the limit", len(got))
	}
	_, err := e.Checkouts.OpenOption(e.ctx, e.org, id, solanaDollars)
	e.must(err)
	e.wantFault(e.Checkouts.OpenPublic(e.ctx, "co_01J9ZW3M8Q4S5T6V7W8X9YZABC", dollars), fault.CodeNotFound)
}
