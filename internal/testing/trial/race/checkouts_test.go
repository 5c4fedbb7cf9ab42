package race

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/journal"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/testing/trial/harness"
	"github.com/cofferpay/coffer/internal/verify"
	"github.com/cofferpay/coffer/internal/wallet"
)

// How many checkouts are fought for.
const (
	salesShort = 9
	salesLong  = 60
)

// saleDue is what each checkout asks for, in units of the token.
const saleDue = 25_000_000

// checkoutRace is what the checkouts and their refunds are made and checked with.
type checkoutRace struct {
	*testing.T
	*harness.Harness
	ctx   context.Context
	net   *sim.Chain
	org   string
	extra atomic.Int64 // of the clock
	texts func(sql string, args ...any) []string
	task  checkoutTask
}

func (r *checkoutRace) clock() time.Time { return time.Now().Add(time.Duration(r.extra.Load())) }

func (r *checkoutRace) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// turn lets the parts named work, all of them without a name, and mines a block.
func (r *checkoutRace) turn(names ...string) {
	r.Helper()
	for _, step := range r.ListSteps(nil) {
		isWanted := len(names) == 0
		for _, name := range names {
			isWanted = isWanted || name == step.Name
		}
		if isWanted {
			if err := step.Run(r.ctx); err != nil {
				r.Fatalf("%s: %v", step.Name, err)
			}
		}
	}
	r.net.Mine(1)
}

// sell makes a checkout and opens its option, which returns the address.
func (r *checkoutRace) sell(n int) (checkoutID string, address chain.Address) {
	r.Helper()
	c, _, err := r.Checkouts.CreateCheckout(r.ctx, r.org, checkout.CheckoutRequest{
		AdHoc:           &checkout.AdHocItem{Name: "Gold plan", Price: "25", Currency: checkout.USD},
		AcceptedMintIDs: []int{token}, ExpiresIn: new(300), IdempotencyKey: new(fmt.Sprintf("first-%d", n)),
		Actor: audit.APIKey(r.org),
	})
	r.must(err)
	c, err = r.Checkouts.OpenOption(r.ctx, r.org, c.ID, token)
	r.must(err)
	return c.ID, c.Options[0].Wallet.Address
}

// 64 workers in two processes settle, expire, cancel, refund, claim and assign the same checkouts at the same time.
// Each is completed once, each refund is paid once to one address, one key and one reference make one checkout, and an
// unmatched payment gets one checkout. Rules CO-3, CO-4, CO-15, CO-80, CO-82, CO-88 and CO-102.
func TestSixtyFourWorkersOfTwoProcessesSellAndRefundOnce(t *testing.T) {
	t.Parallel()
	n := salesShort
	if *forFlag > 0 {
		n = salesLong
	}
	r, data, attest := newCheckoutRace(t)
	r.prepare(n)

	sum := result{Accepted: map[string]string{}, Decided: map[string]string{}, Resolved: map[string]string{}}
	began := time.Now()
	for _, got := range runBothProcesses(t, task{
		URL: data.URL, Org: r.org, Attest: attest, CheckoutRace: &r.task,
	}) {
		sum.addResult(got)
	}
	took := time.Since(began)
	for _, w := range sum.Wrong {
		t.Error(w)
	}
	if sum.Deadlocks != 0 {
		t.Errorf("got %d deadlocks, want none", sum.Deadlocks)
	}
	r.drain()
	r.checkSales(sum)
	books, err := verify.RunChecks(r.ctx, r.Payouts.DB)
	r.must(err)
	if !books.IsIntact() {
		var b bytes.Buffer
		_, _ = books.WriteTo(&b)
		t.Errorf("the books: %s", b.String())
	}
	if *forFlag > 0 {
		fmt.Printf("race: %d checkouts, %d workers in two processes: %d acts, %d refused, %d refunds paid, "+
			"%d waits given up, in %v\n", n, 2*workers, sum.Requests, sum.Conflicts,
			len(r.texts(`SELECT refund_id FROM refunds WHERE status = 'COMPLETED'`)), sum.Vain,
			took.Round(time.Millisecond))
	}
}

// newCheckoutRace makes an organization without money on an empty chain, and its service.
func newCheckoutRace(t *testing.T) (r *checkoutRace, data pgtest.Database, attest ed25519.PublicKey) {
	t.Helper()
	data = pgtest.NewDatabase(t)
	r = &checkoutRace{T: t, ctx: t.Context(), net: sim.New(sim.Config{FinalityDepth: 1})}
	db := pgtest.Open(t, data, r.clock)
	owner := pgtest.OwnerPool(t, db)
	r.texts = func(sql string, args ...any) []string {
		rows, err := owner.Query(r.ctx, sql, args...)
		r.must(err)
		found, err := pgx.CollectRows(rows, pgx.RowTo[string])
		r.must(err)
		return found
	}
	r.task.GrantSeed = bytes.Repeat([]byte{7}, signer.GrantKeyBytes)
	grants, err := signer.NewGrantKey(r.task.GrantSeed)
	r.must(err)
	sign, attest := signertest.OpenUnlimited(t, grants, r.clock)
	r.Harness = harness.New(harness.Config{
		DB: db, Chain: r.net.ToChain(), Signer: sign, AttestKey: attest, Grants: grants,
		Prices: price.Fixed{Prices: checkoutPrices, Clock: r.clock}, Log: slog.New(slog.DiscardHandler),
	})
	r.must(journal.Import(r.ctx, db, sign, r.Wallets))
	dollar := mint.Mint{
		ID: token, Chain: chain.Ethereum, Network: chain.Local, Kind: mint.Token, Contract: signertest.Token,
		Symbol: "USDC", Name: "USD Coin", Decimals: 6, DepositEnabled: true, WithdrawEnabled: true,
		MinDeposit: money.Units(1), MinWithdraw: money.Units(1), ConfirmationsRequired: 1, Finality: "FINALIZED",
	}
	native := dollar
	native.ID, native.Kind, native.Contract, native.Symbol, native.Name, native.Decimals =
		ether, mint.Native, "", "ETH", "Ether", 18
	r.must(mint.Sync(r.ctx, db, []mint.Mint{dollar, native}))
	made, _, err := org.Create(r.ctx, db, "Acme")
	r.must(err)
	r.org = made.ID
	return r, data, attest
}

// prepare makes the checkouts: a third is paid, a third is paid in part, and a third is not paid. What arrived is
// credited and not settled, and the time of all of them is over.
func (r *checkoutRace) prepare(n int) {
	r.Helper()
	treasury, err := r.Wallets.Treasury(r.ctx, r.org, chain.EVM)
	r.must(err)
	rich := sim.Address("rich")
	r.net.Mint(rich, signertest.Token, money.Units(1_000_000_000_000))
	r.net.Mint(rich, "", money.MustParse("100000000000000000000"))
	r.net.Pay(rich, treasury.Address, "", 50_000_000_000_000_000)
	r.net.Pay(rich, treasury.Address, signertest.Token, uint64(n)*10*saleDue)
	var firsts []string
	for i := range n {
		checkoutID, address := r.sell(i)
		r.task.Sales = append(r.task.Sales, checkoutID)
		if part := uint64(i%3) * saleDue / 2; part > 0 {
			r.net.Pay(rich, address, signertest.Token, part)
		}
	}
	for i := range max(3, n/10) {
		checkoutID, address := r.sell(n + i)
		firsts = append(firsts, checkoutID)
		r.net.Pay(rich, address, signertest.Token, 2*saleDue)
		lost, err := r.Wallets.Address(r.ctx, signer.WalletRef{
			OrgID: r.org, Family: chain.EVM, Purpose: wallet.Checkout, Subject: id.Derive("co", "lost", fmt.Sprint(i)),
		})
		r.must(err)
		r.net.Pay(rich, lost.Address, signertest.Token, saleDue)
	}
	r.net.Mine(3)
	for range 4 {
		r.turn("head walk", "final walk", "credits")
	}
	for _, checkoutID := range firsts {
		r.must(r.Checkouts.Settle(r.ctx, checkoutID))
		refund, key, _, err := r.Checkouts.RequestRefund(r.ctx, r.org, checkout.RefundRequest{
			CheckoutID: checkoutID, Kind: checkout.OverpaidRefund, Actor: audit.APIKey(r.org),
		})
		r.must(err)
		r.task.Claims = append(r.task.Claims, refundClaim{refund.ID, key})
	}
	r.task.Unmatched = r.texts(`SELECT deposit_id FROM checkout_unmatched ORDER BY deposit_id`)
	r.extra.Store(int64(20 * time.Minute))
	r.task.Ahead = 20 * time.Minute
	for range 2 {
		r.turn("head walk", "final walk", "credits")
	}
	if len(r.task.Unmatched) != len(firsts) {
		r.Fatalf("got %d unmatched payments, want %d", len(r.task.Unmatched), len(firsts))
	}
}

// drain lets everything end, except refunds without an address.
func (r *checkoutRace) drain() {
	r.Helper()
	for range 200 {
		for {
			claimed, err := r.Checkouts.SettleDue(r.ctx)
			r.must(err)
			if claimed == 0 {
				break
			}
		}
		r.must(r.Checkouts.ExpireDue(r.ctx))
		r.must(r.Checkouts.FollowRefunds(r.ctx))
		r.turn()
		r.extra.Add(int64(40 * time.Second))
		if len(r.texts(`SELECT refund_id FROM refunds WHERE status IN ('REQUESTED', 'SENT')
			UNION ALL SELECT deposit_id FROM checkout_payments WHERE try_at IS NOT NULL
			UNION ALL SELECT c.checkout_id FROM checkouts c JOIN checkout_options o USING (checkout_id)
			WHERE c.status IN ('OPEN', 'PROCESSING')`)) == 0 {
			return
		}
	}
	r.Fatalf("refunds have no end: %v", r.texts(`SELECT r.status || ' ' || coalesce(w.status, '') || ' ' ||
		coalesce(o.status, '') || ' ' || coalesce(o.last_error, '') FROM refunds r
		LEFT JOIN withdrawals w USING (withdrawal_id)
		LEFT JOIN dispatch_orders o ON o.order_id = w.withdrawal_id WHERE r.status IN ('REQUESTED', 'SENT') LIMIT 5`))
}

// checkSales compares what the workers were told with the tables and the chain.
func (r *checkoutRace) checkSales(sum result) {
	r.Helper()
	for what, sql := range map[string]string{
		"checkouts that two events complete": `SELECT resource_id FROM events WHERE type = 'CHECKOUT_COMPLETED'
			GROUP BY resource_id HAVING count(*) > 1`,
		"references with two checkouts": `SELECT reference FROM checkouts WHERE one_per_reference
			AND status IN ('OPEN', 'PROCESSING', 'COMPLETED') GROUP BY reference HAVING count(*) > 1`,
		"paid checkouts that are not completed, and were not given back": `SELECT c.checkout_id FROM checkouts c
			WHERE c.counted >= c.need AND c.status <> 'COMPLETED' AND NOT EXISTS (
				SELECT FROM checkout_payments p WHERE p.checkout_id = c.checkout_id AND p.refunding + p.refunded > 0)`,
		"checkouts that are completed with too little": `SELECT checkout_id FROM checkouts
			WHERE status = 'COMPLETED' AND completed_with < need`,
		"open checkouts whose time is over": `SELECT c.checkout_id FROM checkouts c
			JOIN checkout_options o USING (checkout_id) WHERE c.status IN ('OPEN', 'PROCESSING')`,
	} {
		if found := r.texts(sql); len(found) != 0 {
			r.Errorf("got %d %s, want none", len(found), what)
		}
	}
	goals := map[string]bool{}
	for _, row := range r.texts(`SELECT refund_id || ' ' || amount || ' ' || coalesce(to_address, '-') || ' ' || status
		FROM refunds`) {
		var refundID, amount, address, status string
		_, err := fmt.Sscan(row, &refundID, &amount, &address, &status)
		r.must(err)
		// A refund with an address can be taken back until its payment is requested.
		if claimedFor := sum.Decided[refundID]; claimedFor != "" && address != claimedFor && status != "CANCELLED" {
			r.Errorf("the claim of %s was accepted for %s, and the refund is %s for %s", refundID, claimedFor, status,
				address)
		}
		if status != "COMPLETED" {
			continue
		}
		if got := r.net.Received(chain.Address(address), signertest.Token).String(); got != amount && !goals[address] &&
			sum.Decided[refundID] == "" {
			r.Errorf("refund %s of %s is paid, and %s received %s", refundID, amount, address, got)
		}
		goals[address] = true
	}
	for depositID, checkoutID := range sum.Resolved {
		got := r.texts(`SELECT assigned_to FROM checkout_unmatched WHERE deposit_id = $1`, depositID)
		if len(got) != 1 || got[0] != checkoutID {
			r.Errorf("deposit %s was given to %s, and belongs to %v", depositID, checkoutID, got)
		}
	}
	if sum.Requests == 0 || len(goals) == 0 || len(sum.Resolved) == 0 || len(sum.Accepted) == 0 {
		r.Errorf("some workers did nothing: %s", encodeJSON(sum))
	}
	sums := r.texts(`SELECT coalesce(sum(amount), 0)::text FROM refunds WHERE status = 'COMPLETED'`)
	paid, err := money.Parse(sums[0])
	r.must(err)
	received := money.Zero
	for address := range goals {
		received, err = received.Add(r.net.Received(chain.Address(address), signertest.Token))
		r.must(err)
	}
	if received != paid {
		r.Errorf("payers received %v, and refunds of %v are paid", received, paid)
	}
}
