package console

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/swap"
	"github.com/cofferpay/coffer/internal/swap/provider"
	"github.com/cofferpay/coffer/internal/swap/swaptest"
)

// Hashes of the transactions of a swap.
const (
	originHash = "0x00000000000000000000000000000000000000000000000000000000000000b1"
	strayHash  = "0x00000000000000000000000000000000000000000000000000000000000000b2"
)

// newSwapRow returns a swap whose provider has had 300 USDC for two days, and named a failure.
func (h *testEnv) newSwapRow(key, status string) swaptest.Row {
	created := h.now().Add(-48 * time.Hour)
	r := swaptest.Row{
		OrgID: h.orgID, CustomerID: "carol <b>", IdempotencyKey: key, FromMintID: usdc, ToMintID: 2, Chain: "ETHEREUM",
		AmountIn: 300_000_000, EstimatedOut: 298_500_000, Provider: "ONE_CLICK", Status: status, OriginTx: originHash,
		CreatedAt: created, PaidAt: new(created.Add(time.Minute)),
	}
	if status == "FAILED" {
		r.FailureReason, r.EndedAt, r.RefundReport = "PROVIDER_COMPLIANCE", new(created.Add(time.Hour)), "MANUAL"
	}
	return r
}

// insertRows runs a function that inserts rows that no verb made.
func (h *testEnv) insertRows(insert func(ctx context.Context, tx pgx.Tx) error) {
	h.t.Helper()
	err := pgx.BeginFunc(h.t.Context(), pgtest.OwnerPool(h.t, h.db), func(tx pgx.Tx) error {
		if err := swaptest.DisableTriggers(h.t.Context(), tx); err != nil {
			return err
		}
		return insert(h.t.Context(), tx)
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

// addSwap inserts a swap with a report of its provider and an entry of the log.
func (h *testEnv) addSwap(r swaptest.Row, status string) {
	h.t.Helper()
	h.insertRows(func(ctx context.Context, tx pgx.Tx) error {
		if err := swaptest.Insert(ctx, tx, r); err != nil {
			return err
		}
		return swaptest.InsertReports(ctx, tx, r, swaptest.Report{
			Status: "PROCESSING", Word: "KNOWN_DEPOSIT_TX", Refund: "NONE", TxHashes: []string{originHash},
			CreatedAt: r.CreatedAt.Add(2 * time.Minute),
		}, swaptest.Report{
			Status: status, Word: "SAID " + hostile, Refund: "MANUAL", Reason: "a person decides " + hostile,
			CreatedAt: r.CreatedAt.Add(time.Hour),
		})
	})
	err := h.db.InSystem(h.t.Context(), func(ctx context.Context, tx pg.Tx) error {
		return audit.Record(ctx, tx, audit.Entry{
			OrgID: r.OrgID, Actor: audit.APIKey(r.OrgID), Action: "swap.requested", ResourceKind: "SWAP",
			ResourceID: r.ID(),
		})
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

// addStray inserts an arrival at the delivery wallet of a swap that the swap does not expect.
func (h *testEnv) addStray(r swaptest.Row, reason, hash string) (depositID string) {
	h.t.Helper()
	h.insertRows(func(ctx context.Context, tx pgx.Tx) (err error) {
		arrived := r.CreatedAt.Add(2 * time.Hour)
		depositID, err = swaptest.InsertArrival(ctx, tx, r, "STRAY", reason, hash, usdc, 7_000_000, arrived)
		return err
	})
	return depositID
}

// fillSwaps makes at least n swaps and stray arrivals, and returns a swap and a stray arrival of it.
func (h *testEnv) fillSwaps(n int) (swapID, strayID string) {
	h.t.Helper()
	for i := range n {
		r := h.newSwapRow(fmt.Sprint("claim-", i), "PROCESSING")
		h.addSwap(r, "INCOMPLETE")
		h.addStray(r, "OTHER_ASSET", strayHash+fmt.Sprint(i))
	}
	failed := h.newSwapRow("failed", "FAILED")
	h.addSwap(failed, "FAILED")
	// The wallets of a swap exist before it: here its page would be the first to ask for them.
	if _, err := h.swaps.ByIDForOperator(h.t.Context(), failed.ID()); err != nil {
		h.t.Fatal(err)
	}
	return failed.ID(), h.addStray(failed, "AFTER_END", strayHash)
}

// fillOwnSwaps makes n swaps of the organization's own money, of which a withdrawal pays the output of the last one.
func (h *testEnv) fillOwnSwaps(n int, withdrawalID string) (swapID string) {
	h.t.Helper()
	for i := range n {
		r := h.newSwapRow(fmt.Sprint("own-", i), "PROCESSING")
		r.CustomerID, r.Product, r.PayoutAddress = "", "CHECKOUT", "0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB"
		h.addSwap(r, "SUCCESS")
		swapID = r.ID()
	}
	if _, err := h.swaps.ByIDForOperator(h.t.Context(), swapID); err != nil {
		h.t.Fatal(err)
	}
	h.payOut(swapID, withdrawalID)
	return swapID
}

// payOut writes that a swap is delivered, and that a withdrawal pays its output.
func (h *testEnv) payOut(swapID, withdrawalID string) {
	h.t.Helper()
	h.insertRows(func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE swaps SET payout_id = $2, amount_out = estimated_out, delivered_at = now(),
			destination_tx_hash = 'x' WHERE swap_id = $1`, swapID, withdrawalID)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `UPDATE withdrawals SET customer_id = NULL, product = 'CHECKOUT',
			whitelisted_address_id = 'wla_1' WHERE withdrawal_id = $1`, withdrawalID)
		return err
	})
}

// The list has the swaps of all organizations, and its filter leaves those whose value is with a provider, the
// oldest first.
func TestOpenClaimsStandInTheListByAge(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	newer, older := h.newSwapRow("newer", "PROCESSING"), h.newSwapRow("older", "FAILED")
	ended := h.newSwapRow("ended", "FAILED")
	older.CreatedAt = older.CreatedAt.Add(-time.Hour)
	ended.Refunded = ended.AmountIn
	for _, r := range []swaptest.Row{newer, older, ended} {
		h.addSwap(r, "PROCESSING")
	}
	token := h.signInAs(h.eve)
	all := h.get(token, Prefix+"/swaps").
		want(t, http.StatusOK, newer.ID(), older.ID(), ended.ID(), "With the provider").body
	if strings.Contains(all, "<b>carol") {
		t.Error("the page has markup of a stranger")
	}
	for _, path := range []string{"/swaps?openClaims=true", "/swaps.csv?openClaims=true"} {
		body := h.get(token, Prefix+path).want(t, http.StatusOK, newer.ID(), older.ID()).body
		if strings.Contains(body, ended.ID()) {
			t.Errorf("%s has a swap without a claim", path)
		}
		if strings.HasPrefix(path, "/swaps?") && strings.Index(body, older.ID()) > strings.Index(body, newer.ID()) {
			t.Errorf("%s: the oldest claim is not the first", path)
		}
	}
	h.get(token, Prefix+"/swaps?provider=RELAY").want(t, http.StatusOK, "No swap here")
	h.get(token, Prefix+"/swaps?status=FAILED&organizationId="+h.orgID).want(t, http.StatusOK, older.ID())
}

// The page of a swap has what an operator tells the provider: its deposit address, our payment, and both addresses
// as the signer attested them. Rule PAGE-76.
func TestThePageOfASwapHasWhatToTellTheProvider(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	r := h.newSwapRow("swap-1", "FAILED")
	h.addSwap(r, "FAILED")
	stray := h.addStray(r, "AFTER_END", strayHash)
	d, err := h.swaps.ByIDForOperator(t.Context(), r.ID())
	if err != nil {
		t.Fatal(err)
	}
	body := h.get(h.signInAs(h.eve), Prefix+"/swaps/"+r.ID()).want(t, http.StatusOK,
		`data-copy="`+d.ProviderAddress+`"`, `data-copy="`+string(d.DeliveryAddress)+`"`,
		`data-copy="`+string(d.RefundAddress)+`"`, `data-copy="`+originHash+`"`, "SAID ", "KNOWN_DEPOSIT_TX",
		"After the end of the swap", Prefix+"/swap-arrivals/"+stray, "The provider still has money of a failed swap",
		"Your role shows this swap and does not act on it.").body
	if strings.Contains(body, "<script>alert") || strings.Contains(body, "/write-off") {
		t.Error("the page has markup of a stranger, or a form for an auditor")
	}
	h.get(h.signInAs(h.ann), Prefix+"/swaps/cs_00000000000000000000000000").want(t, http.StatusNotFound)
}

// A write-off with four eyes makes one change request, which the page names. Neither a wrong code nor a form
// without its note does. Rules OP-7, PAGE-42 and SWAP-25.
func TestAWriteOffWaitsForAnotherOperator(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	r := h.newSwapRow("swap-1", "FAILED")
	h.addSwap(r, "FAILED")
	path := Prefix + "/swaps/" + r.ID()
	ann := h.signInAs(h.ann)
	h.get(ann, path).want(t, http.StatusOK, "Write off 300 USDC")
	h.post(ann, path+"/write-off", "note", "", "code", rightCode).want(t, http.StatusUnprocessableEntity, "Enter why.")
	h.post(ann, path+"/write-off", "note", "it is gone", "code", "000000").
		want(t, http.StatusUnauthorized, "it is gone")
	h.post(h.signInAs(h.eve), path+"/write-off", "note", "x", "code", rightCode).want(t, http.StatusForbidden)
	change := h.post(ann, path+"/write-off", "note", "it is gone", "code", rightCode).
		want(t, http.StatusSeeOther).header.Get("Location")
	again := h.post(ann, path+"/write-off", "note", "it is gone", "code", rightCode+"b").
		want(t, http.StatusSeeOther).header.Get("Location")
	if !strings.HasPrefix(change, Prefix+"/changes/") || again != change {
		t.Errorf("got the change requests %q and %q, want one", change, again)
	}
	h.get(ann, change).want(t, http.StatusOK, "Write off what a swap provider owes", "300000000", "it is gone", path)
	shown := h.get(ann, path).want(t, http.StatusOK, "The write-off waits for another operator", change).body
	if strings.Contains(shown, path+"/write-off") {
		t.Error("the page offers a second request")
	}
}

// A swap is looked at when an operator says so, and is not ended before its time.
func TestASwapIsLookedAtAndNotEndedTooEarly(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	r := h.newSwapRow("swap-1", "PROCESSING")
	r.CreatedAt = h.now().Add(-time.Hour)
	r.PaidAt = new(r.CreatedAt.Add(time.Minute))
	h.addSwap(r, "SUCCESS")
	path := Prefix + "/swaps/" + r.ID()
	ann := h.signInAs(h.ann)
	h.get(ann, path).
		want(t, http.StatusOK, "The provider says that it delivered", "Looked at next", "nothing is expected")
	h.post(ann, path+"/look").want(t, http.StatusSeeOther)
	shown := h.get(ann, path).body
	if strings.Contains(shown, "nothing is expected") || !strings.Contains(shown, "Looked at") {
		t.Error("the worker was not told to look")
	}
	h.post(ann, path+"/fail", "note", "no answer", "code", rightCode).
		want(t, http.StatusConflict, "The provider may deliver until", `value="no answer"`)
	if d, err := h.swaps.ByIDForOperator(t.Context(), r.ID()); err != nil || d.Status != swap.Processing {
		t.Errorf("got %s, %v, want a swap that goes on", d.Status, err)
	}
}

// A stray arrival is decided once: a second click and a slower colleague get the page with the decision. What no
// swap of this database explains can only be kept. Rules PAGE-3, PAGE-76 and SWAP-26.
func TestAStrayArrivalIsDecidedOnce(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	r := h.newSwapRow("swap-1", "FAILED")
	h.addSwap(r, "FAILED")
	id := h.addStray(r, "AFTER_END", strayHash)
	unknown := h.addStray(h.newSwapRow("of another database", "FAILED"), "NO_SWAP", strayHash+"b")
	ann, path := h.signInAs(h.ann), Prefix+"/swap-arrivals/"+id
	h.get(ann, Prefix+"/swap-arrivals?open=true").want(t, http.StatusOK, path, "After the end of the swap", unknown)
	h.get(ann, path).want(t, http.StatusOK, "Credit 7 USDC", "Keep it in suspense", `data-copy="`+strayHash+`"`)
	body := h.get(ann, Prefix+"/swap-arrivals/"+unknown).want(t, http.StatusOK).body
	if strings.Contains(body, "/credit\"") {
		t.Error("the page credits what no swap explains")
	}
	h.post(h.signInAs(h.eve), path+"/keep", "note", "x", "code", rightCode).want(t, http.StatusForbidden)
	for i, act := range []string{"/keep", "/keep", "/credit"} {
		got := h.post(ann, path+act, "note", "theirs", "code", rightCode+fmt.Sprint(i)).want(t, http.StatusSeeOther)
		if to := got.header.Get("Location"); to != path {
			t.Errorf("%s: got a redirect to %q, want %q", act, to, path)
		}
	}
	h.get(ann, path).want(t, http.StatusOK, "Kept in suspense", "theirs", "It is decided.")
	open := h.get(ann, Prefix+"/swap-arrivals?open=true").want(t, http.StatusOK, unknown).body
	if strings.Contains(open, id) {
		t.Error("the list of open arrivals has one that is decided")
	}
	h.get(ann, Prefix+"/swap-arrivals.csv").want(t, http.StatusOK, id+",", "KEPT,theirs")
}

// A swap of an organization's own money names its product and where its output goes, and a stray arrival of it is
// credited to the product. Rule PAGE-80.
func TestAnOrganizationsSwapNamesItsProduct(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	own := h.newSwapRow("own-1", "FAILED")
	own.CustomerID, own.Product = "carol <b>", "CHECKOUT"
	own.PayoutAddress = "0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB"
	other := h.newSwapRow("swap-1", "FAILED")
	h.addSwap(own, "FAILED")
	h.addSwap(other, "FAILED")
	stray := h.addStray(own, "AFTER_END", strayHash)
	ann := h.signInAs(h.ann)
	list := h.get(ann, Prefix+"/swaps?kind=ORGANIZATION").
		want(t, http.StatusOK, own.ID(), "Its own money, Checkout").body
	if strings.Contains(list, other.ID()) {
		t.Error("the list of organizations' swaps has one of a customer")
	}
	h.get(ann, Prefix+"/swaps.csv?kind=ORGANIZATION").want(t, http.StatusOK, "ORGANIZATION,,CHECKOUT")
	h.get(ann, Prefix+"/swaps/"+own.ID()).
		want(t, http.StatusOK, "Of an organization", `data-copy="`+own.PayoutAddress+`"`, "0 of 0")
	h.get(ann, Prefix+"/swap-arrivals/"+stray).
		want(t, http.StatusOK, "The product Checkout of the organization gets it", "Credit 7 USDC")
}

// The page of an organization's swap leads to the payment of its output, and back. Rule PAGE-80.
func TestASwapOfAnOrganizationAndItsPayoutLeadToEachOther(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	own := h.newSwapRow("own-1", "PROCESSING")
	own.CustomerID, own.Product = "", "CHECKOUT"
	own.PayoutAddress = "0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB"
	h.addSwap(own, "SUCCESS")
	payout := h.withdraw(1)
	h.payOut(own.ID(), payout)
	ann := h.signInAs(h.ann)
	withdrawals, swaps := Prefix+"/withdrawals/"+h.orgID+"/"+payout, Prefix+"/swaps/"+own.ID()
	h.get(ann, swaps).want(t, http.StatusOK, `href="`+withdrawals+`"`)
	h.get(ann, withdrawals).want(t, http.StatusOK, `href="`+swaps+`"`)
}

// A provider is suspended with a reason and resumed, each once.
func TestAProviderIsSuspendedAndResumed(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.addSwap(h.newSwapRow("swap-1", "PROCESSING"), "PROCESSING")
	ann, path := h.signInAs(h.ann), Prefix+"/swap-providers/ONE_CLICK"
	h.get(ann, Prefix+"/swap-providers").want(t, http.StatusOK, "Gets swaps", "ONE_CLICK")
	h.get(ann, Prefix+"/swap-providers/NONE").want(t, http.StatusNotFound)
	h.post(ann, path+"/suspend", "reason", "").want(t, http.StatusUnprocessableEntity, "Enter why.")
	for _, reason := range []string{"it lies " + hostile, "another reason"} {
		h.post(ann, path+"/suspend", "reason", reason).want(t, http.StatusSeeOther)
		shown := h.get(ann, path).want(t, http.StatusOK, "Suspended", "it lies", "Resume this provider").body
		if strings.Contains(shown, "another reason") || strings.Contains(shown, "<script>alert") {
			t.Error("the reason is another one, or markup")
		}
	}
	h.get(ann, Prefix).want(t, http.StatusOK, "suspended swap provider")
	h.post(h.signInAs(h.eve), path+"/resume", "reason", "x").want(t, http.StatusForbidden)
	h.post(ann, path+"/resume", "reason", "its key is in both files").want(t, http.StatusSeeOther)
	h.get(ann, path).want(t, http.StatusOK, "Gets swaps", "its key is in both files", "Suspend this provider",
		url.Values{"openClaims": {"true"}, "provider": {"ONE_CLICK"}}.Encode()[:15])
}

// The list shows what is with a provider and its limit. A claim counts with the value of its swap where there is no
// price.
func TestAProviderShowsWhatIsWithItAndItsLimit(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	row := h.newSwapRow("swap-1", "PROCESSING") // worth 12.50
	row.Provider = swaptest.ScriptedName
	h.addSwap(row, "PROCESSING")
	ann, path := h.signInAs(h.ann), Prefix+"/swap-providers"
	h.get(ann, path).want(t, http.StatusOK, "Gets swaps", "12.50", "none")
	for limit, want := range map[string]string{"12.51": "Gets swaps", "12.50": "At its limit"} {
		h.swaps.Panel = provider.NewPanel([]provider.Member{{
			Provider: &swaptest.ScriptedProvider{Clock: h.now}, OutstandingUSDMax: new(money.MustParseUSD(limit)),
		}}, swap.Suspensions{DB: h.db}, h.now, slog.New(slog.DiscardHandler))
		h.get(ann, path).want(t, http.StatusOK, want, "12.50", limit)
		h.get(ann, path+"/"+row.Provider).want(t, http.StatusOK, want, "Limit in dollars", limit)
	}
}

// Each reason of a stray arrival has words and advice of its own.
func TestEachReasonOfAStrayArrivalHasWords(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, reason := range []swap.StrayReason{
		swap.NoSwap, swap.OtherAsset, swap.TooMuch, swap.AfterEnd, swap.WithoutPaid,
	} {
		for _, text := range []string{strayText(reason), strayAdvice(reason)} {
			if text == "" || seen[text] {
				t.Errorf("%s: got the words %q, want words of its own", reason, text)
			}
			seen[text] = true
		}
	}
}
