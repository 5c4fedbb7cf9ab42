package surfacetest

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/journal"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/ledger/ledgertest"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/scan"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
)

// A row to an address of the service or to a token's contract, and a row of a coin that is switched off or quarantined
// make a batch invalid. The sentence names the row and says why, and the rows get no withdrawals. Rules BP-4 and BP-92.
func TestARowThatNothingMayPayIsNamedInASentence(t *testing.T) {
	t.Parallel()
	change := func(sql string) func(h *testEnv) string {
		return func(h *testEnv) string {
			if _, err := pgtest.Superuser(t, h.db).Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
			return stranger
		}
	}
	issued := func(customerID string) func(h *testEnv) string {
		return func(h *testEnv) string {
			return h.wantStatus(h.call(h.one, "POST", "/deposit",
				map[string]any{"mintId": usdc, "customerId": customerID}), 200).text("address")
		}
	}
	to := func(address chain.Address) func(h *testEnv) string {
		return func(*testEnv) string { return string(address) }
	}
	const (
		ours = "Payouts to this address are not allowed: it belongs to this installation, which credits no transfer " +
			"of its own."
		contract = "Payouts to this address are not allowed: it is a token's contract, which would keep the money " +
			"permanently."
	)
	for name, c := range map[string]struct {
		prepare func(h *testEnv) (address string)
		want    string
	}{
		"the address of a customer with money":    {issued(alice), ours},
		"the address of a customer without money": {issued("bob"), ours},
		"the treasury": {func(h *testEnv) string {
			treasury, err := h.book.Treasury(t.Context(), h.one.id, chain.EVM)
			if err != nil {
				t.Fatal(err)
			}
			return string(treasury.Address)
		}, ours},
		"the treasury of another organization": {func(h *testEnv) string {
			treasury, err := h.book.Treasury(t.Context(), h.two.id, chain.EVM)
			if err != nil {
				t.Fatal(err)
			}
			return string(treasury.Address)
		}, ours},
		"the contract of the token": {to(usdcAddress), contract},
		"a coin that is switched off": {
			change(`UPDATE mints SET withdraw_enabled = false WHERE mint_id = 1`),
			"Withdrawals of this mint are switched off.",
		},
		"a quarantined coin": {
			change(`UPDATE mints SET quarantined_at = now(), quarantine_reason = 'BALANCE_DELTA' WHERE mint_id = 1`),
			"The balances of this token contradict its transfers, so it is quarantined.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newTestEnv(t)
			h.fundBatches(h.one, 10_000)
			made := h.makeBatch(h.one, "list", "rows",
				[]any{batchRow("good", otherPayee, "2000"), batchRow("bad", c.prepare(h), "1000")})
			h.wantStatus(h.submitBatch(h.one, made), 202)
			id := made.text("batchPayoutId")
			if err := h.conf.Payouts.Validate(t.Context(), h.one.id, id); err != nil {
				t.Fatal(err)
			}
			shown := h.getBatch(h.one, id)
			problem := shown.text("problem")
			if shown.text("status") != "INVALID" || !strings.HasPrefix(problem, "Row ") ||
				!strings.HasSuffix(problem, ": "+c.want) {
				t.Errorf("got %s, want it invalid because of a row: %s", shown.raw, c.want)
			}
			var written, held string
			err := pgtest.OwnerPool(t, h.db).QueryRow(t.Context(), `
				SELECT (SELECT count(*) FROM withdrawals) || ' ' || (SELECT count(*) FROM dispatch_orders),
					(SELECT string_agg(b.balance::text, ' ') FROM ledger_balances b
						JOIN ledger_accounts a USING (account_id)
						WHERE a.kind = 'BATCH_HELD')`).Scan(&written, &held)
			if err != nil || written != "0 0" || held != "0" {
				t.Errorf("got %s withdrawals and orders, %s held, %v, want none", written, held, err)
			}
		})
	}

	t.Run("an unknown coin", func(t *testing.T) {
		t.Parallel()
		h := newTestEnv(t)
		before := h.rowCounts()
		row := batchRow("unknown", stranger, "1000")
		row["mintId"] = 99
		made := h.call(h.one, "POST", "/batch-payouts", batchBody("unknown", "rows", []any{row}))
		if made.status != 400 && made.status != 422 || !strings.Contains(string(made.raw), "There is no mint 99") {
			t.Errorf("got %d %s, want the row's problem", made.status, made.raw)
		}
		if after := h.rowCounts(); after != before {
			t.Errorf("got %s, want nothing written: %s", after, before)
		}
	})
}

// feeSender says at once what the network takes, or not before the caller's patience ends.
type feeSender struct {
	chain.Sender
	isSilent bool
}

// TransferFees implements chain.Sender.
func (s feeSender) TransferFees(ctx context.Context) (chain.Fees, error) {
	if s.isSilent {
		<-ctx.Done()
		return chain.Fees{}, ctx.Err()
	}
	return chain.Fees{NonGas: money.Units(1_000_000_000_000_000)}, nil
}

// Quote implements chain.Sender.
func (s feeSender) Quote(ctx context.Context, _ ...chain.Payment) (chain.Fees, error) {
	return s.TransferFees(ctx)
}

// The answer about one batch has what the networks would take in dollars, at the price of the coin, until people have
// approved it. Without a price or an answer of the chain it has none. Rule BP-92.
func TestTheFeeOfABatchIsEstimatedInDollars(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.fundBatches(h.one, 10_000)
	answerAs := func(s feeSender) {
		c := h.conf.Chains[chain.Ethereum]
		s.Sender = c.Sender
		c.Sender = s
		h.conf.Chains[chain.Ethereum] = c
	}
	answerAs(feeSender{})
	made := h.makeBatch(h.one, "priced")
	id := made.text("batchPayoutId")
	if got := made.body["estimatedNetworkFeeUsd"]; got != nil {
		t.Errorf("without a price of the coin: got %v, want null", got)
	}
	h.conf.Withdrawals.Prices = price.Fixed{Prices: map[int]money.USD{
		usdc: money.MustParseUSD("0.9998"), eth: money.MustParseUSD("2000"),
	}}
	if got := h.getBatch(h.one, id).body["estimatedNetworkFeeUsd"]; got != "4.00" {
		t.Errorf("two rows of 0.001 ETH: got %v, want 4.00", got)
	}
	answerAs(feeSender{isSilent: true})
	if got := h.getBatch(h.one, id).body["estimatedNetworkFeeUsd"]; got != nil {
		t.Errorf("a chain that does not answer: got %v, want null", got)
	}
	answerAs(feeSender{})
	h.wantStatus(h.submitBatch(h.one, made), 202)
	h.approveBatch(h.one, id)
	if got := h.getBatch(h.one, id).body["estimatedNetworkFeeUsd"]; got != nil {
		t.Errorf("an approved batch: got %v, want null", got)
	}
}

// payingChain is the chain of a testEnv, with the Worker that makes payments on it and the Walker that proves its
// blocks.
type payingChain struct {
	*sim.Chain
	worker *dispatch.Worker
	walker *scan.Walker
}

// runAll has Worker and Walker do all that they can before the next block.
func (c payingChain) runAll(t testing.TB) {
	t.Helper()
	for _, run := range []func(context.Context) (bool, error){c.walker.StepFinal, c.worker.RunRound} {
		for isBusy := true; isBusy; {
			var err error
			if isBusy, err = run(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// startPaying gives the treasury of the first organization what the books say that it has, and gas.
func (h *testEnv) startPaying(units uint64) payingChain {
	h.t.Helper()
	const gas = 1_000_000_000_000_000_000
	c := payingChain{Chain: sim.New(sim.Config{FinalityDepth: 1})}
	ch := h.conf.Chains[chain.Ethereum]
	ch.Sender = c.Chain
	h.conf.Chains[chain.Ethereum] = ch
	treasury, err := h.book.Treasury(h.t.Context(), h.one.id, chain.EVM)
	if err != nil {
		h.t.Fatal(err)
	}
	c.Mint(treasury.Address, usdcAddress, money.Units(units))
	c.Mint(treasury.Address, "", money.Units(gas))
	err = h.db.InSystem(h.t.Context(), func(ctx context.Context, tx pg.Tx) error {
		err := wallet.MoveFunds(ctx, tx, wallet.Movement{
			WalletID: treasury.ID, OrgID: h.one.id, MintID: eth, Part: wallet.Gas, Plus: money.Units(gas),
		})
		if err != nil {
			return err
		}
		return ledgertest.PostWithCauses(ctx, tx, ledger.Posting{
			Cause: ledger.Cause{Kind: ledger.Deposit, ID: "dep_gas"},
			Legs: []ledger.Leg{{
				Debit:  ledger.Account{OrgID: h.one.id, MintID: eth, Kind: ledger.Custody},
				Credit: ledger.Account{OrgID: h.one.id, MintID: eth, Kind: ledger.Gas}, Amount: money.Units(gas),
			}},
		})
	})
	if err != nil {
		h.t.Fatal(err)
	}
	c.worker = dispatch.New(h.db, c.ToChain(), h.signer, journal.RecordEntry,
		map[signer.Purpose]dispatch.Listener{signer.Payment: h.conf.Withdrawals},
		dispatch.Config{}, newLogger(h.logs))
	c.walker = scan.New(h.db, scan.Config{Chain: chain.Ethereum, Reader: c, Start: new(uint64)}, h.conf.Deposits,
		newLogger(h.logs))
	return c
}

// payOut makes the payments of a batch until it has ended. The token refuses some payees after their payments are sent.
func (h *testEnv) payOut(c payingChain, batchID string, refused ...chain.Address) {
	h.t.Helper()
	c.runAll(h.t)
	for _, payee := range refused {
		c.RefuseTransfers(usdcAddress, payee, "it is on the list of the issuer")
	}
	for range 20 {
		c.Mine(1)
		c.runAll(h.t)
		err := h.conf.Payouts.Expand(h.t.Context(), h.one.id, batchID)
		if err != nil {
			h.t.Fatal(err)
		}
		if h.getBatch(h.one, batchID).body["endedAt"] != nil {
			return
		}
	}
	h.t.Fatalf("got %s after 20 blocks, want it ended: %s", h.getBatch(h.one, batchID).raw, h.logs)
}

// The end of a batch is posted to the endpoints of its organization once, with its status and what became of its rows,
// which the chain has paid or reverted. Rules BP-18 and BP-92.
func TestTheEndOfABatchIsPostedToEndpoints(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		refused       []chain.Address // payees that the token refuses
		event, status string
		paid, unpaid  float64
	}{
		"every row is paid": {nil, "BATCH_PAYOUT_COMPLETED", "COMPLETED", 2, 0},
		"a row is not paid": {[]chain.Address{otherPayee}, "BATCH_PAYOUT_COMPLETED", "PARTIALLY_COMPLETED", 1, 1},
		"no row is paid":    {[]chain.Address{stranger, otherPayee}, "BATCH_PAYOUT_FAILED", "FAILED", 0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newTestEnv(t)
			h.fundBatches(h.one, 10_000)
			net := h.startPaying(10_000)
			receiver := newWebhookReceiver(t)
			h.endpoint(receiver.URL, map[string]any{
				"events": []string{"BATCH_PAYOUT_COMPLETED", "BATCH_PAYOUT_FAILED"},
			})
			id := h.processingBatch(h.one, "ends")
			h.deliverEvents()
			if got := receiver.bodies(); len(got) != 0 {
				t.Fatalf("got %q before the end, want nothing", got)
			}
			h.payOut(net, id, c.refused...)
			if err := h.conf.Payouts.Expand(t.Context(), h.one.id, id); err != nil { // finds it ended
				t.Fatal(err)
			}
			h.deliverEvents()
			heard := receiver.bodies()
			if len(heard) != 1 {
				t.Fatalf("got %d posts, want one: %q", len(heard), heard)
			}
			var event map[string]any
			if err := json.Unmarshal([]byte(heard[0]), &event); err != nil {
				t.Fatal(err)
			}
			data, _ := event["data"].(map[string]any)
			counts, _ := data["counts"].(map[string]any)
			if event["type"] != c.event || data["batchPayoutId"] != id || data["status"] != c.status ||
				counts["paid"] != c.paid || counts["unpaid"] != c.unpaid || data["endedAt"] == nil {
				t.Errorf("got %s, want %s with %s, %v paid and %v not", heard[0], c.event, c.status, c.paid, c.unpaid)
			}
			if shown := h.getBatch(h.one, id); shown.text("status") != c.status {
				t.Errorf("got %s, want %s", shown.raw, c.status)
			}
			for payee, units := range map[chain.Address]uint64{stranger: 1000, otherPayee: 2000} {
				if slices.Contains(c.refused, payee) {
					units = 0
				}
				if got := net.Balance(payee, usdcAddress); got != money.Units(units) {
					t.Errorf("%s has %s, want %d", payee, got, units)
				}
			}
		})
	}
}
