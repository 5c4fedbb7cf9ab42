package console

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/ledger/ledgertest"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

const oneEther = 1_000_000_000_000_000_000

// give puts gas and tokens on a wallet, on the chain and in the books.
func (h *testEnv) give(w wallet.Wallet, gas, tokens uint64) {
	h.t.Helper()
	h.chain.Mint(w.Address, "", money.Units(gas))
	h.chain.Mint(w.Address, contract, money.Units(tokens))
	err := h.db.InSystem(h.t.Context(), func(ctx context.Context, tx pg.Tx) error {
		post := func(mintID int, part wallet.Part, credit ledger.Account, units uint64) error {
			if units == 0 {
				return nil
			}
			if err := wallet.MoveFunds(ctx, tx, wallet.Movement{
				WalletID: w.ID, OrgID: h.orgID, MintID: mintID, Part: part, Plus: money.Units(units),
			}); err != nil {
				return err
			}
			credit.OrgID, credit.MintID = h.orgID, mintID
			return ledgertest.PostWithCauses(ctx, tx, ledger.Posting{
				Cause: ledger.Cause{Kind: ledger.Deposit, ID: "given " + w.ID + mintText(mintID)},
				Legs: []ledger.Leg{{
					Debit:  ledger.Account{OrgID: h.orgID, MintID: mintID, Kind: ledger.Custody},
					Credit: credit, Amount: money.Units(units),
				}},
			})
		}
		if err := post(2, wallet.Gas, ledger.Account{Kind: ledger.Gas}, gas); err != nil {
			return err
		}
		return post(usdc, wallet.Credited, ledger.Account{Kind: ledger.Customer, Subject: "alice"}, tokens)
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

// treasury returns the treasury of the organization, with gas and the money of a customer.
func (h *testEnv) treasury() wallet.Wallet {
	h.t.Helper()
	h.mine() // The first blocks are proven by the scan, before anything else is in the books.
	w, err := h.book.Treasury(h.t.Context(), h.orgID, chain.EVM)
	if err != nil {
		h.t.Fatal(err)
	}
	h.give(w, oneEther, 50_000_000)
	return w
}

// pay requests a withdrawal of a customer, and brings it as far as it comes without a block.
func (h *testEnv) pay() withdrawal.Withdrawal {
	h.t.Helper()
	h.treasury()
	w, _, err := h.payments.Request(h.t.Context(), h.orgID, withdrawal.Request{
		MintID: usdc, CustomerID: "alice", Amount: "12500000", ToAddress: elsewhere, Actor: audit.APIKey(h.orgID),
		Limit: func() error { return nil },
	})
	if err != nil {
		h.t.Fatal(err)
	}
	h.run()
	return w
}

// run has the worker work until nothing changes any more.
func (h *testEnv) run() {
	h.t.Helper()
	for range 50 {
		busy, err := h.worker.RunRound(h.t.Context())
		if err != nil {
			h.t.Fatal(err)
		}
		if !busy {
			return
		}
	}
	h.t.Fatal("the worker does not come to rest")
}

// wantOrder checks the state of an order.
func (h *testEnv) wantOrder(id string, want dispatch.Status) {
	h.t.Helper()
	if n := h.count(`SELECT count(*) FROM dispatch_orders WHERE order_id = $1 AND status = $2`, id, want); n != 1 {
		h.t.Errorf("the order %s is not %s", id, want)
	}
}

// hiddenValue returns what a hidden field of a page has.
func hiddenValue(t *testing.T, body, name string) string {
	t.Helper()
	_, rest, found := strings.Cut(body, `name="`+name+`" value="`)
	if !found {
		t.Fatalf("the page has no field %s", name)
	}
	value, _, _ := strings.Cut(rest, `"`)
	return value
}

// Of two operators who raise the same fee at the same moment one does. The other is led to the order as it
// is, with the colleague's name, and so is an old page. Nothing is paid twice. Rule PAGE-43.
func TestTwoOperatorsRaiseAFeeOnce(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.worker = h.newWorker(h.running)
	paid := h.pay()
	h.wantOrder(paid.ID, dispatch.Broadcast)
	ann, bob := h.signInAs(h.ann), h.signInAs(h.bob)
	path := Prefix + "/orders/" + paid.ID
	body := h.get(ann, path).want(t, http.StatusOK, "Raise the fee", "Sent, not final").body
	version := hiddenValue(t, body, "version")
	h.post(ann, path+"/raise-fee", "version", version, "code", "wrong").want(t, http.StatusUnauthorized)
	h.post(ann, path+"/raise-fee", "version", "many", "code", rightCode+"0").location(t) // it names no transaction
	if n := h.count(`SELECT count(*) FROM dispatch_attempts`); n != 1 {
		t.Fatalf("got %d transactions of refused forms, want the first alone", n)
	}
	var wg sync.WaitGroup
	for token, code := range map[string]string{ann: "1", bob: "2"} {
		wg.Go(func() {
			to := h.post(token, path+"/raise-fee", "version", version, "code", rightCode+code).location(t)
			if to != path {
				t.Errorf("got %s, want the page of the order", to)
			}
		})
	}
	wg.Wait()
	if n := h.count(`SELECT count(*) FROM dispatch_attempts`); n != 2 {
		t.Errorf("got %d transactions, want one new one", n)
	}
	if n := h.count(`SELECT count(*) FROM audit_log WHERE action = 'order.replaced'`); n != 1 {
		t.Errorf("got %d rows of the audit log, want 1", n)
	}
	body = h.get(h.signInAs(h.eve), path).want(t, http.StatusOK, "an operator", "Raised the fee").body
	if strings.Contains(body, "Ann Operator") == strings.Contains(body, "Bob Operator") {
		t.Errorf("got a page that does not name the one operator who raised the fee: %s", body)
	}
	if to := h.post(
		bob, path+"/raise-fee", "version", version, "code", rightCode+"3",
	).location(t); to != path {
		t.Errorf("an old page: got %s, want the page of the order", to)
	}
	h.run()
	h.mine()
	h.run()
	h.wantOrder(paid.ID, dispatch.Paid)
	h.get(ann, path).want(t, http.StatusOK, "There is nothing to do by hand")
	if n := h.count(`SELECT count(*) FROM dispatch_attempts`); n != 2 {
		t.Errorf("got %d transactions at the end, want 2", n)
	}
}

// silentToken is a chain whose token reports transfers that it does not show.
type silentToken struct{ chain.Sender }

func (s silentToken) Outcome(ctx context.Context, txs []chain.TxHash, ps ...chain.Payment) (*chain.Outcome, error) {
	o, err := s.Sender.Outcome(ctx, txs, ps...)
	if o != nil {
		o.Paid = false
	}
	return o, err
}

// A stuck order stands first among what needs an operator, and ends by what the chain proves. While the
// providers have no old state it stays stuck, and the page says what holds. Rules WD-9 and PAGE-43.
func TestAStuckOrderIsResolvedOnce(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	on := h.running
	on.Sender = silentToken{on.Sender}
	h.worker = h.newWorker(on)
	paid := h.pay()
	h.mine()
	h.run()
	h.wantOrder(paid.ID, dispatch.Stuck)
	ann, bob := h.signInAs(h.ann), h.signInAs(h.bob)
	path := Prefix + "/orders/" + paid.ID
	h.get(ann, Prefix).want(t, http.StatusOK, "1 stuck order")
	h.get(ann, Prefix+"/orders?status=STUCK").want(t, http.StatusOK, "Stuck")
	h.get(ann, path).want(t, http.StatusOK, "Resolve by what the chain proves")
	h.post(h.signInAs(h.eve), path+"/resolve", "code", rightCode+"0").want(t, http.StatusForbidden)
	h.chain.Provider(0).Prune(true)
	h.post(ann, path+"/resolve", "code", rightCode+"1").
		want(t, http.StatusServiceUnavailable, "The payment is still stuck, and its amount is still held.")
	h.wantOrder(paid.ID, dispatch.Stuck)
	h.chain.Provider(0).Prune(false)
	var wg sync.WaitGroup
	for token, code := range map[string]string{ann: "2", bob: "3"} {
		wg.Go(func() {
			if to := h.post(token, path+"/resolve", "code", rightCode+code).location(t); to != path {
				t.Errorf("got %s, want the page of the order", to)
			}
		})
	}
	wg.Wait()
	h.wantOrder(paid.ID, dispatch.Paid)
	if n := h.count(`SELECT count(*) FROM audit_log WHERE action = 'order.resolved'`); n != 1 {
		t.Errorf("got %d rows of the audit log, want 1", n)
	}
	h.get(bob, path).want(t, http.StatusOK, "Resolved it", "There is nothing to do by hand")
	h.get(ann, Prefix+"/withdrawals/"+h.orgID+"/"+paid.ID).want(t, http.StatusOK, "Paid")
}

// A return that failed on the chain is completed by an operator once: a second click and a colleague see
// the return, and one new transaction goes to the same address. Rules DEP-31 and PAGE-3.
func TestAStuckReturnIsCompletedOnce(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.worker = h.newWorker(h.running)
	id := h.flag()
	ann, bob := h.signInAs(h.ann), h.signInAs(h.bob)
	path := Prefix + "/flagged/" + id
	h.post(ann, path+"/complete", "note", "", "code", rightCode+"0").location(t) // nothing to complete
	h.post(ann, path+"/reject", "note", "", "code", rightCode+"1").want(t, http.StatusSeeOther)
	h.giveGasTo(id)
	h.run()
	h.chain.RefuseTransfers(contract, sender, "blacklisted")
	h.mine()
	h.run()
	h.wantDeposit(id, deposit.ResolutionStuck)
	h.get(ann, Prefix).want(t, http.StatusOK, "1 stuck return of a flagged deposit")
	h.get(ann, Prefix+"/flagged?status=RESOLUTION_STUCK").want(t, http.StatusOK, id)
	h.get(ann, path).want(t, http.StatusOK, "Send 1 USDC again", "Return is stuck")
	h.post(h.signInAs(h.eve), path+"/complete", "note", "", "code", rightCode+"2").want(t, http.StatusForbidden)
	h.post(ann, path+"/complete", "note", "", "code", "wrong").want(t, http.StatusUnauthorized)
	h.chain.RefuseTransfers(contract, sender, "")
	var wg sync.WaitGroup
	for token, code := range map[string]string{ann: "3", bob: "4"} {
		wg.Go(func() {
			if to := h.post(token, path+"/complete", "note", "again", "code", rightCode+code).location(t); to != path {
				t.Errorf("got %s, want the page of the deposit", to)
			}
		})
	}
	wg.Wait()
	if n := h.count(`SELECT count(*) FROM dispatch_orders WHERE purpose = 'RETURN'`); n != 2 {
		t.Fatalf("got %d orders, want the failed one and one more", n)
	}
	h.get(bob, path).want(t, http.StatusOK, "Being returned")
	h.run()
	h.mine()
	h.run()
	h.wantDeposit(id, deposit.Rejected)
	h.get(bob, path).want(t, http.StatusOK, "Returned")
}

func (h *testEnv) wantDeposit(id string, want deposit.Status) {
	h.t.Helper()
	if n := h.count(`SELECT count(*) FROM deposits WHERE deposit_id = $1 AND status = $2`, id, want); n != 1 {
		h.t.Errorf("the deposit %s is not %s", id, want)
	}
}

// giveGasTo puts gas on the address of a deposit.
func (h *testEnv) giveGasTo(depositID string) {
	h.t.Helper()
	var walletID string
	err := pgtest.OwnerPool(h.t, h.db).QueryRow(h.t.Context(),
		`SELECT wallet_id FROM deposits WHERE deposit_id = $1`, depositID).Scan(&walletID)
	if err != nil {
		h.t.Fatal(err)
	}
	var w wallet.Wallet
	err = h.db.ReadSystem(h.t.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		w, err = wallet.ByID(ctx, tx, walletID)
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	h.give(w, oneEther, 0)
}

// The page of a gas station has the whole address, its picture, and what is free. It is no page for a wallet
// that pays no fees, and none without the token. The page of a withdrawal has the whole address and leads to
// its order. Rule PAGE-4.
func TestGasStationsAndWithdrawalsAreShownWhole(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.worker = h.newWorker(h.running)
	paid := h.pay()
	eve := h.signInAs(h.eve)
	treasury, err := h.book.Treasury(t.Context(), h.orgID, chain.EVM)
	if err != nil {
		t.Fatal(err)
	}
	body := h.get(eve, Prefix+"/gas").want(t, http.StatusOK, "Has gas", treasury.ID).body
	if !strings.Contains(body, "/gas/"+treasury.ID+"?mintId=2") {
		t.Errorf("got a list that does not lead to the gas station: %s", body)
	}
	station := Prefix + "/gas/" + treasury.ID
	body = h.get(eve, station+"?mintId=2").want(
		t, http.StatusOK, "Send ETH on Ethereum", `class="qr"`, "QR code of the address", "Free",
		"House "+`&lt;b&gt;&amp;`).body
	if text := strings.NewReplacer("<b>", "", "</b>", "", " ", "", "\n", "").Replace(body); !strings.Contains(
		text, string(treasury.Address),
	) && !strings.Contains(body, string(treasury.Address)) {
		t.Errorf("got a page without the whole address %s: %s", treasury.Address, body)
	}
	for name, path := range map[string]string{
		"no token": station, "a token that pays no fees": station + "?mintId=1",
		"an unknown token": station + "?mintId=99", "an unknown wallet": Prefix + "/gas/wal_unknown?mintId=2",
	} {
		if got := h.get(eve, path); got.status != http.StatusNotFound {
			t.Errorf("%s: got %d, want 404", name, got.status)
		}
	}
	h.get(eve, Prefix+"/withdrawals?status=BROADCAST").want(t, http.StatusOK, "12.5", "Sent, not final", "alice")
	h.get(eve, Prefix+"/withdrawals/"+h.orgID+"/"+paid.ID).want(
		t, http.StatusOK, "12.5", "USDC", elsewhere, "Sent, not final", Prefix+"/orders/"+paid.ID,
		Prefix+"/audit?resourceId="+paid.ID, "alice")
	for _, path := range []string{
		h.orgID + "/wd_01J9ZW3M8Q4S5T6V7W8X9YZABC", "org_01J9ZW3M8Q4S5T6V7W8X9YZABC/" + paid.ID,
	} {
		h.get(eve, Prefix+"/withdrawals/"+path).want(t, http.StatusNotFound)
	}
	if rows := strings.Count(h.get(eve, Prefix+"/withdrawals.csv").body, paid.ID); rows != 1 {
		t.Errorf("got %d rows in the table, want 1", rows)
	}
}

// The page of the chains has each provider by its host, with its last answer and failure, its heights, how far it is
// behind, whether it contradicts the others, and whether it is left alone. It says whose knowledge that is, and
// what a provider writes is no markup. Rule PAGE-70.
func TestEachProviderIsShown(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	eve := h.signInAs(h.eve)
	h.get(eve, Prefix+"/chains").want(t, http.StatusOK, "No provider is known here")
	now := h.now()
	h.providers = []chain.ProviderState{
		{
			Name: "provider 1 (one.example)", IsIdentified: true, AnsweredAt: now, HeadsAt: now,
			Latest: 20_000_100, Final: 20_000_000,
		},
		{
			Name: "provider 2 (two.example)", IsIdentified: true, AnsweredAt: now, HeadsAt: now,
			Latest: 20_000_093, Final: 19_999_999, ContradictedAt: now.Add(-time.Hour),
		},
		{
			Name: "provider 3 (three.example)", IsIdentified: true, FailedAt: now, Failure: hostile, Failures: 1,
			PausedUntil: now.Add(time.Minute),
		},
		{Name: "provider 4 (four.example)", FailedAt: now, Failure: "connection refused", Failures: 4},
		{Name: "provider 5 (five.example)"},
	}
	body := h.get(eve, Prefix+"/chains").want(
		t, http.StatusOK, "provider 1 (one.example)", "Answers", "Contradicts the others",
		"Left alone: it asked for a pause", "Does not answer", "4 failures in a row", "connection refused",
		"Not asked yet", "What this process has seen of each provider", ">7<").body
	if strings.Contains(body, "<script>alert") || strings.Contains(body, "\u202e") {
		t.Error("what a provider wrote is markup or hidden on the page")
	}
}

// A person who asks too often gets a plain page that says when to come back, on pages, forms and tables each
// by its rate, whatever number of sessions the person has. Others are not affected, and nothing is written.
// Rule PAGE-46.
func TestAPersonHasALimitOfRequests(t *testing.T) {
	t.Parallel()
	few := func(n int) kernel.Rate { return kernel.Rate{Count: 1, Period: time.Hour, Burst: n} }
	h := newLimitedEnv(t, kernel.Limits{Reads: few(3), Writes: few(2), Exports: few(1)})
	first, second, bob := h.signInAs(h.ann), h.signInAs(h.ann), h.signInAs(h.bob)
	for _, token := range []string{first, second, first} {
		h.get(token, Prefix+"/jobs").want(t, http.StatusOK)
	}
	got := h.get(second, Prefix+"/jobs").want(
		t, http.StatusTooManyRequests, "There were too many requests.", "This did nothing.", "then load the page again")
	if got.header.Get("Retry-After") != "3600" {
		t.Errorf("got Retry-After %q, want an hour", got.header.Get("Retry-After"))
	}
	path := Prefix + "/freezes/create"
	fields := []string{
		"scope", "ORGANIZATION", "organizationId", h.orgID, "customerId", "", "chain", "", "reason", "A question",
		"code", "wrong",
	}
	for range 2 {
		h.post(first, path, fields...).want(t, http.StatusUnauthorized)
	}
	fields[len(fields)-1] = rightCode + "1"
	h.post(second, path, fields...).want(t, http.StatusTooManyRequests, "send the form again")
	if n := h.count(`SELECT count(*) FROM freezes`); n != 0 {
		t.Errorf("got %d freezes of a refused form, want none", n)
	}
	h.get(first, Prefix+"/jobs.csv").want(t, http.StatusOK)
	h.get(second, Prefix+"/jobs.csv").want(t, http.StatusTooManyRequests, "download the table again")
	h.get(bob, Prefix+"/jobs").want(t, http.StatusOK)
	h.post(bob, path, fields...).want(t, http.StatusSeeOther)
	h.get("", Prefix+"/sign-in").want(t, http.StatusOK)
}
