package dashboard

import (
	"context"
	"log/slog"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/checkout/outcome"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/scan"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/internal/wire"
)

// paymentsOwner hands what arrives at the wallets of checkouts to the checkouts.
type paymentsOwner struct {
	deposit.CheckoutOwner
	h *testEnv
}

var statusesOfPayments = map[deposit.Status]outcome.PaymentStatus{
	deposit.Confirming: outcome.PaymentSeen, deposit.Screening: outcome.PaymentSeen,
	deposit.Credited: outcome.PaymentCredited, deposit.Flagged: outcome.PaymentFlagged,
	deposit.BelowMinimum: outcome.PaymentUnusable,
}

// OnUpdates implements deposit.Owner.
func (o paymentsOwner) OnUpdates(ctx context.Context, tx pg.Tx, updates []deposit.Update) error {
	arrivals := make([]checkout.Arrival, len(updates))
	for i, u := range updates {
		arrivals[i] = checkout.Arrival{
			DepositID: u.DepositID, OrgID: u.OrgID, CheckoutID: u.CheckoutID, IsShared: o.IsShared, MintID: u.MintID,
			Chain: u.Chain, Amount: u.Amount, Tx: u.Tx, IsNew: u.From == "", IsRecent: u.To == deposit.Confirming,
			Status: statusesOfPayments[u.To], BlockTime: u.BlockTime, References: u.References,
		}
	}
	return o.h.checkouts.OnArrivals(ctx, tx, arrivals)
}

// newCheckouts makes checkouts that can be paid on the simulated chain.
func (h *testEnv) newCheckouts(chains chain.Chains, log *slog.Logger) *checkout.Service {
	return &checkout.Service{
		DB: h.db, Images: &h.images, Wallets: h.book, Chains: chains, Events: wire.NewRecorder(), Log: log,
		Prices: price.Fixed{Clock: h.now, Prices: map[int]money.USD{
			usdc: money.MustParseUSD("1"), eth: money.MustParseUSD("2000"),
		}},
		PageURL: func(checkoutID string) string { return "https://pay.example/c/" + checkoutID + "#k=the-key" },
		ClaimURL: func(refundID, claimKey string) string {
			return "https://pay.example/r/" + refundID + "#k=" + claimKey
		},
		LinkURL:     func(slug string) string { return "https://pay.example/p/" + slug },
		NonceSecret: make([]byte, 32),
		PaymentStatuses: map[string]outcome.PaymentStatus{
			string(deposit.Credited): outcome.PaymentCredited, string(deposit.Confirming): outcome.PaymentSeen,
		},
	}
}

// world is a simulated chain with what walks it.
type world struct {
	chain    *sim.Chain
	deposits *deposit.Service
	walker   *scan.Walker
}

// payer pays on the simulated chain.
const payer = chain.Address(recipient)

// openWorld returns the simulated chain of the test.
func (h *testEnv) openWorld() *world {
	h.t.Helper()
	if h.world != nil {
		return h.world
	}
	c := sim.New(sim.Config{FinalityDepth: 3, Start: h.now()})
	c.Mint(payer, contract, money.Units(1_000_000_000_000))
	c.Mint(payer, "", money.MustParse("1000000000000000000000"))
	log, start := slog.New(slog.DiscardHandler), uint64(0)
	w := &world{chain: c, deposits: &deposit.Service{
		Events: wire.NewRecorder(), DB: h.db, Chains: chain.Chains{chain.Ethereum: c.ToChain()}, Wallets: h.book,
		Owners: h.deposits.Owners, Prices: price.Fixed{Prices: map[int]money.USD{usdc: money.MustParseUSD("1")}},
		Risk: risk.Policy{Providers: severeScreener{}, UnknownAs: risk.TreatUnknownAsHold, Grace: time.Hour},
		Log:  log,
	}}
	w.walker = scan.New(h.db, scan.Config{Chain: chain.Ethereum, Reader: c, Start: &start}, w.deposits, log)
	h.world = w
	return w
}

// walk makes what was paid final and credits it, or flags it.
func (h *testEnv) walk() {
	h.t.Helper()
	w := h.openWorld()
	w.chain.Mine(1)
	w.chain.MineEmpty(5)
	var err error
	for moved := true; moved; {
		if moved, err = w.walker.StepFinal(h.t.Context()); err != nil {
			h.t.Fatal(err)
		}
	}
	if _, err := w.deposits.CreditWaiting(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
}

// settle brings the checkouts up to date with what was paid, and ends those whose time is over. No walk of recent
// blocks runs, so the service that settles knows no chain that would have to be walked.
func (h *testEnv) settle() {
	h.t.Helper()
	s := h.newCheckouts(nil, slog.New(slog.DiscardHandler))
	for {
		n, err := s.SettleDue(h.t.Context())
		if err != nil {
			h.t.Fatal(err)
		}
		if n == 0 {
			break
		}
	}
	if err := s.ExpireDue(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
}

// addCheckout makes a checkout of 10 dollars that takes USDC, with texts of strangers.
func (h *testEnv) addCheckout(who tenant, reference string) checkout.Checkout {
	h.t.Helper()
	c, _, err := h.checkouts.CreateCheckout(h.t.Context(), who.id, checkout.CheckoutRequest{
		AdHoc:     &checkout.AdHocItem{Name: "<b>Tea</b> Аlice", Price: "10", Currency: checkout.USD},
		Reference: &reference, CustomerID: new("<i>user"), SuccessURL: new("https://shop.example/ok"),
		AcceptedMintIDs: []int{usdc}, ExpiresIn: new(300), Metadata: map[string]string{"<i>": hostile},
		Actor: audit.APIKey(who.id),
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return c
}

// openCheckout opens the one option of a checkout.
func (h *testEnv) openCheckout(who tenant, checkoutID string) checkout.Checkout {
	h.t.Helper()
	c, err := h.checkouts.OpenOption(h.t.Context(), who.id, checkoutID, usdc)
	if err != nil {
		h.t.Fatal(err)
	}
	return c
}

// pay pays a checkout, whose option is opened. Nothing is final before walk.
func (h *testEnv) pay(c checkout.Checkout, asset chain.Address, n uint64) {
	h.openWorld().chain.Pay(payer, c.Options[0].Wallet.Address, asset, n)
}

// addPaid makes a checkout and pays it.
func (h *testEnv) addPaid(who tenant, reference string, asset chain.Address, n uint64) checkout.Checkout {
	h.t.Helper()
	c := h.openCheckout(who, h.addCheckout(who, reference).ID)
	h.pay(c, asset, n)
	return c
}

// addUnmatched pays the address of a checkout that the database lacks.
func (h *testEnv) addUnmatched(who tenant, n uint64) {
	h.t.Helper()
	issued, err := h.book.Addresses(h.t.Context(), signer.WalletRef{
		OrgID: who.id, Family: chain.EVM, Purpose: wallet.Checkout, Subject: id.New("co", h.now()),
	})
	if err != nil {
		h.t.Fatal(err)
	}
	h.openWorld().chain.Pay(payer, issued[0].Address, contract, n)
}

// dollar is a dollar of USDC, and tenthEther is worth 200.
const (
	dollar     = 1_000_000
	tenthEther = 100_000_000_000_000_000
)

func checkoutAddress(c checkout.Checkout) string { return Prefix + "/checkouts/" + c.ID }

// The list shows what its filters select, and nothing of another organization. What a stranger chose is text. Rules
// PAGE-4, PAGE-6 and PAGE-83.
func TestCheckoutsAreListedByTheirFilters(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	viewer, foreigner := h.signIn(h.one, identity.Viewer), h.signIn(h.two, identity.Owner)
	list := Prefix + "/checkouts"
	h.get(viewer, list).want(t, http.StatusOK, "No checkout yet", "curl -X POST", "/v1/checkouts")
	h.get(viewer, list+"/decisions").want(t, http.StatusOK, "No checkout needs a decision")
	h.get(viewer, list+"/unmatched").want(t, http.StatusOK, "No payment is unmatched")
	open := h.addCheckout(h.one, "order-open")
	paid := h.addPaid(h.one, "order-paid", contract, 12*dollar)
	h.walk()
	h.settle()
	h.get(viewer, list).want(t, http.StatusOK, open.ID, paid.ID, "order-open", "order-paid",
		"&lt;b&gt;Tea&lt;/b&gt; Аlice",
		"Completed", "Paid too much", "12.00").wantNo(t, "<b>Tea", "<i>user")
	today := h.now().UTC().Format(time.DateOnly)
	tomorrow := h.now().UTC().AddDate(0, 0, 1).Format(time.DateOnly)
	for query, shown := range map[string][2]bool{ // the open one, the paid one
		"status=OPEN":                  {true, false},
		"status=COMPLETED":             {false, true},
		"exception=OVERPAID":           {false, true},
		"exception=UNDERPAID":          {false, false},
		"reference=order-open":         {true, false},
		"customerId=%3Ci%3Euser":       {true, true},
		"customerId=unknown":           {false, false},
		"from=" + today:                {true, true},
		"to=" + today:                  {true, true},
		"from=" + tomorrow:             {false, false},
		"status=OPEN&from=" + tomorrow: {false, false},
	} {
		got := h.get(viewer, list+"?"+query).want(t, http.StatusOK)
		for i, c := range []checkout.Checkout{open, paid} {
			if strings.Contains(got.body, c.ID) != shown[i] {
				t.Errorf("%s: shows %s: %v, want %v", query, *c.Reference, !shown[i], shown[i])
			}
		}
	}
	h.get(viewer, list+"?status=OLD").want(t, http.StatusBadRequest)
	h.get(viewer, list+"?from=soon").want(t, http.StatusBadRequest)
	h.get(foreigner, list).want(t, http.StatusOK, "No checkout yet")
	table := h.get(h.signIn(h.one, identity.Finance), list+".csv?status=COMPLETED").
		want(t, http.StatusOK, paid.ID, "OVERPAID", "10.00", "12.00", "order-paid")
	if strings.Contains(table.body, open.ID) || strings.Contains(table.body, h.one.id) {
		t.Errorf("got a table with more than its filter selects: %s", table.body)
	}
	h.get(viewer, list+".csv").want(t, http.StatusForbidden)
}

// The page shows terms, amounts, ways to pay, payments with their meaning, and what happened in its order. Rules
// PAGE-4, PAGE-6 and PAGE-84.
func TestThePageOfACheckoutShowsWhatWasPaid(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	viewer := h.signIn(h.one, identity.Viewer)
	c := h.addCheckout(h.one, "order-77")
	page := checkoutAddress(c)
	h.get(viewer, page).want(t, http.StatusOK, "No payment was seen yet.", "&lt;b&gt;Tea&lt;/b&gt; Аlice", "order-77",
		"50 basis points", "USDC on Ethereum", "counts if it is enough at the price of its moment",
		"https://shop.example/ok", `href="https://pay.example/c/`+c.ID+`#k=the-key"`, "None. A coin gets its address").
		wantNo(t, "<b>Tea", "<i>user", "<script>alert", "Accept what was paid", "Cancel this checkout")
	c = h.openCheckout(h.one, c.ID)
	h.pay(c, contract, 4*dollar)
	h.walk()
	h.settle()
	deposits := h.listPayments(h.one, c.ID)
	got := h.get(viewer, page).want(t, http.StatusOK, "A part is paid.", "Paid too little", "1 USDC is $1",
		"quote 1", "in time",
		"It counts. It is in the balance of your checkout.", "/transactions/deposits/"+deposits[0],
		`<data class="amount" value="4.00">`, `<data class="amount" value="6.00">`,
		`<data class="amount" value="9.95">`,
		"A way to pay was opened", "A payment was seen", "An owner, an admin or finance can accept what was paid.")
	opened, seen := strings.Index(got.body, "A way to pay was opened"), strings.Index(got.body, "A payment was seen")
	if made := strings.Index(got.body, ">Made<"); made < 0 || opened < made || seen < opened {
		t.Errorf("got the steps at %d, %d and %d, want them in the order of time", made, opened, seen)
	}
	h.get(viewer, Prefix+"/transactions/deposits/"+deposits[0]).want(t, http.StatusOK, `href="`+page+`"`)
	h.get(h.signIn(h.two, identity.Owner), page).want(t, http.StatusNotFound)
	h.get(viewer, Prefix+"/checkouts/co_unknown").want(t, http.StatusNotFound)

	h.pass(time.Hour)
	h.settle()
	h.get(viewer, page).want(t, http.StatusOK, "A part was paid until its time was over.", "Became: Expired")
	h.openWorld().chain.SkipTime(time.Hour)
	h.pay(c, contract, dollar)
	h.walk()
	h.settle()
	h.get(viewer, page).want(t, http.StatusOK, "late: ", "Paid too late", "price of the market")
}

// listPayments returns the deposits of a checkout, the oldest first.
func (h *testEnv) listPayments(who tenant, checkoutID string) (ids []string) {
	h.t.Helper()
	c, err := h.checkouts.CheckoutByID(h.t.Context(), who.id, checkoutID)
	if err != nil || len(c.Payments) == 0 {
		h.t.Fatalf("got %+v, %v, want a checkout with payments", c, err)
	}
	for _, p := range c.Payments {
		ids = append(ids, p.DepositID)
	}
	return ids
}

// wantCheckout checks the status of a checkout and how often a person changed it.
func (h *testEnv) wantCheckout(c checkout.Checkout, status outcome.Status, changes int) {
	h.t.Helper()
	got, err := h.checkouts.CheckoutByID(h.t.Context(), h.one.id, c.ID)
	n := h.count(`SELECT count(*) FROM audit_log WHERE resource_id = $1 AND actor_kind = 'USER'`, c.ID)
	if err != nil || got.Status != status || n != changes {
		h.t.Errorf("got %s, %v and %d changes of people, want %s and %d", got.Status, err, n, status, changes)
	}
}

// A person accepts what was paid once, with a reason and a factor. Rules PAGE-3, PAGE-85 and CO-17.
func TestWhatWasPaidIsAcceptedOnce(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	c := h.addPaid(h.one, "order-short", contract, 4*dollar)
	page := checkoutAddress(c)
	accept := page + "/" + acceptCheckoutAct
	finance := h.signIn(h.one, identity.Finance)
	h.get(finance, page).want(t, http.StatusOK).wantNo(t, "Why it is enough")
	h.post(finance, accept, "reason", "early", "code", rightCode+"0").
		want(t, http.StatusConflict, "Nothing that was paid for this checkout is credited.")
	h.walk()
	h.settle()
	for _, role := range []identity.Role{identity.Approver, identity.Developer, identity.Viewer} {
		token := h.signIn(h.one, role)
		h.get(token, page).want(t, http.StatusOK).wantNo(t, "Why it is enough")
		h.post(token, accept, "reason", "me", "code", rightCode+string(role)).want(t, http.StatusForbidden)
	}
	h.post(h.signIn(h.two, identity.Owner), accept, "reason", "mine", "code", rightCode+"two").
		want(t, http.StatusNotFound)
	h.post(finance, accept, "reason", "", "code", rightCode+"1").
		want(t, http.StatusUnprocessableEntity, "Enter why it is enough.")
	h.post(finance, accept, "reason", "a regular", "code", "000000").
		want(t, http.StatusUnauthorized, "This code is wrong", `value="a regular"`)
	h.post(finance, accept, "reason", "a\u202eregular", "code", rightCode+"2").
		want(t, http.StatusBadRequest, "bidirectional")
	h.wantCheckout(c, outcome.Open, 0)
	h.get(finance, page).want(t, http.StatusOK, "It completes the checkout with what is credited: 4.00 counts "+
		"until now, and 10.00 USD is due.", "No money moves")
	for i := range 2 {
		h.post(finance, accept, "reason", "a regular <b>guest</b>", "code", rightCode+"3"+strconv.Itoa(i)).
			want(t, http.StatusSeeOther)
	}
	h.wantCheckout(c, outcome.Completed, 1)
	h.get(finance, page).want(t, http.StatusOK, "A person accepted what was paid.", "a regular &lt;b&gt;guest",
		"What was paid was accepted", "By You").wantNo(t, "Why it is enough", "Cancel this checkout")
	completions := `SELECT count(*) FROM events WHERE resource_id = $1 AND type = 'CHECKOUT_COMPLETED'`
	if n := h.count(completions, c.ID); n != 1 {
		t.Errorf("got %d events of the completion, want one", n)
	}
}

// An open checkout without a payment is cancelled once, with a factor of the last ten minutes. Rules PAGE-30, PAGE-85
// and CO-16.
func TestACheckoutIsCancelledBeforeItIsPaid(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	c, paid := h.addCheckout(h.one, "order-1"), h.addPaid(h.one, "order-2", contract, 4*dollar)
	h.walk()
	h.settle()
	page := checkoutAddress(c)
	for _, role := range []identity.Role{identity.Approver, identity.Finance, identity.Viewer} {
		token := h.signIn(h.one, role)
		h.get(token, page).want(t, http.StatusOK).wantNo(t, "Cancel this checkout")
		h.post(token, page+"/"+cancelCheckoutAct).want(t, http.StatusForbidden)
	}
	h.post(h.signIn(h.two, identity.Owner), page+"/"+cancelCheckoutAct).want(t, http.StatusNotFound)
	developer := h.signIn(h.one, identity.Developer)
	h.get(developer, page).want(t, http.StatusOK, "Cancel this checkout")
	h.get(developer, checkoutAddress(paid)).want(t, http.StatusOK).wantNo(t, "Cancel this checkout")
	h.post(developer, checkoutAddress(paid)+"/"+cancelCheckoutAct).
		want(t, http.StatusConflict, "A payment for this checkout was seen.")
	h.wantCheckout(paid, outcome.Open, 0)
	h.wantCheckout(c, outcome.Open, 0)
	h.pass(sudoLasts + time.Minute)
	h.post(developer, page+"/"+cancelCheckoutAct).want(t, http.StatusForbidden, "Confirm that it is you")
	h.wantCheckout(c, outcome.Open, 0)
	again := h.signIn(h.one, identity.Developer)
	for range 2 {
		h.post(again, page+"/"+cancelCheckoutAct).want(t, http.StatusSeeOther)
	}
	h.wantCheckout(c, outcome.Cancelled, 1)
	h.get(again, page).want(t, http.StatusOK, "It was cancelled before any payment.").wantNo(t, "Cancel this checkout")
}

// What waits for a person stands in one list, is counted, and says why. Rule PAGE-86.
func TestWhatNeedsADecisionStandsInOneList(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	owner := h.signIn(h.one, identity.Owner)
	wrong := h.addPaid(h.one, "order-wrong", "", tenthEther)
	part := h.addPaid(h.one, "order-part", contract, 4*dollar)
	whole := h.addPaid(h.one, "order-whole", contract, 10*dollar)
	over := h.addPaid(h.one, "order-over", contract, 20*dollar)
	unpaid := h.openCheckout(h.one, h.addCheckout(h.one, "order-unpaid").ID)
	h.addUnmatched(h.one, 10*dollar)
	h.walk()
	h.settle()
	decisions := Prefix + "/checkouts/decisions"
	wantShown := func(want ...checkout.Checkout) {
		t.Helper()
		got := h.get(owner, decisions).want(t, http.StatusOK, `<span class="count">`+strconv.Itoa(len(want))+`</span>`)
		for _, c := range []checkout.Checkout{wrong, part, whole, over, unpaid} {
			isWanted := false
			for _, w := range want {
				isWanted = isWanted || w.ID == c.ID
			}
			if strings.Contains(got.body, c.ID) != isWanted {
				t.Errorf("shows %s: %v, want %v", *c.Reference, !isWanted, isWanted)
			}
		}
	}
	wantShown(wrong)
	h.get(owner, checkoutAddress(wrong)).want(t, http.StatusOK, "It was paid in a coin that it does not take.",
		"The checkout does not take this coin, so it counts for nothing.")
	h.get(owner, Prefix).want(t, http.StatusOK, "1 checkout to decide")
	h.get(owner, Prefix+"/checkouts/unmatched").want(t, http.StatusOK,
		"It was paid to the address of a checkout that this service does not have", "It counts for no checkout",
		`href="`+Prefix+`/checkouts?from=`+h.now().UTC().Format(time.DateOnly), "status=OPEN")
	h.get(h.signIn(h.two, identity.Owner), Prefix+"/checkouts/unmatched").
		want(t, http.StatusOK, "No payment is unmatched")

	h.pass(time.Hour)
	h.settle()
	wantShown(wrong, part)
	h.set(h.one, "screeningSeverityThreshold", `"HIGH"`)
	h.set(h.one, "screeningUsdThreshold", `"0.5"`)
	h.pay(unpaid, contract, 10*dollar)
	h.walk()
	h.settle()
	wantShown(wrong, part, unpaid)
	flagged := h.listPayments(h.one, unpaid.ID)[0]
	h.get(owner, checkoutAddress(unpaid)).want(t, http.StatusOK, "Screening holds a payment.",
		"/approvals/deposits/"+flagged).wantNo(t, "Why it is enough")
	accepting := checkoutAddress(part) + "/" + acceptCheckoutAct
	h.post(owner, accepting, "reason", "enough", "code", rightCode).want(t, http.StatusSeeOther)
	wantShown(wrong, unpaid)
}

// The settings are replaced as a whole, by those who may, and no old form overwrites them. Rules PAGE-2, PAGE-21,
// PAGE-30 and PAGE-87.
func TestTheSettingsOfCheckoutsAreNotOverwritten(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	page := Prefix + "/checkouts/settings"
	save := page + "/" + saveCheckoutsAct
	admin := h.signIn(h.one, identity.Admin)
	fieldsWith := func(seen string, changes ...string) []string {
		fields := []string{
			seenName, seen, "shopName", "Tea <b>House</b>", "accentColor", "#0A7D4F",
			"supportUrl", "mailto:help@example.com",
			"underUsd", "0.50", "costMaxBps", "250", embedOriginsName, "https://shop.example  https://b.example",
		}
		for i := 0; i < len(changes); i += 2 {
			for j := 0; j < len(fields); j += 2 {
				if fields[j] == changes[i] {
					fields[j+1] = changes[i+1]
				}
			}
		}
		return fields
	}
	seen := h.get(admin, page).want(t, http.StatusOK, `value="0.00"`, `value="300"`).hidden(t, seenName)
	for _, role := range []identity.Role{identity.Approver, identity.Finance, identity.Developer, identity.Viewer} {
		token := h.signIn(h.one, role)
		h.get(token, page).want(t, http.StatusOK, "Example Marketplace, the name of your organization", "up to $0.00").
			wantNo(t, "Save the settings")
		h.post(token, save, fieldsWith(seen)...).want(t, http.StatusForbidden)
	}
	for words, change := range map[string][]string{
		"has to be a color":               {"accentColor", "green"},
		"bidirectional":                   {"shopName", "Tea\u202e"},
		"supportUrl is not a URL":         {"supportUrl", "javascript:alert(1)"},
		"one plain e-mail address":        {"supportUrl", "mailto:a@b.example?subject=x"},
		"has to be 0 to 1000 dollars":     {"underUsd", "1000.01"},
		"such as 0.50":                    {"underUsd", "0.001"},
		"Give a whole number":             {"costMaxBps", "many"},
		"has to be 1 to 10000":            {"costMaxBps", "0"},
		"This form is not one of this":    {seenName, "x"},
		"has to have origins such as":     {embedOriginsName, "https://shop.example/cart"},
		"Give an amount in dollars, or 0": {"underUsd", ""},
	} {
		got := h.post(admin, save, fieldsWith(seen, change...)...)
		if got.status < 400 || !strings.Contains(got.body, words) {
			t.Errorf("%s: got %d, want the form with the reason: %s", words, got.status, got.body)
		}
	}
	if n := h.count(`SELECT count(*) FROM checkout_settings`) +
		h.count(`SELECT count(*) FROM audit_log WHERE resource_kind = 'CHECKOUT_SETTINGS'`); n != 0 {
		t.Errorf("got %d rows after refused forms, want none", n)
	}
	h.post(admin, save, fieldsWith(seen)...).want(t, http.StatusSeeOther)
	h.get(admin, page).want(t, http.StatusOK, `value="Tea &lt;b&gt;House&lt;/b&gt;"`, `value="#0a7d4f"`, `value="0.50"`,
		`value="250"`, `value="mailto:help@example.com"`, `value="https://shop.example https://b.example"`).
		wantNo(t, "<b>House")
	h.post(admin, save, fieldsWith(seen, "shopName", "Old")...).
		want(t, http.StatusConflict, "changed since you opened them", `value="Old"`)
	second := h.get(admin, page).hidden(t, seenName)
	h.post(admin, save, fieldsWith(second)...).want(t, http.StatusSeeOther) // The same again writes nothing.
	bare := fieldsWith(second, "shopName", "", "accentColor", "", "supportUrl", "", embedOriginsName, "")
	h.post(h.signIn(h.one, identity.Owner), save, bare...).want(t, http.StatusSeeOther)
	h.get(h.signIn(h.one, identity.Viewer), page).want(t, http.StatusOK, "up to $0.50", "250 basis points",
		"that of the page")
	settings, err := h.checkouts.LoadSettings(t.Context(), h.one.id)
	if want := (checkout.Settings{Version: 2, UnderUSD: money.MustParseUSD("0.5"), CostMaxBps: 250}); err != nil ||
		!reflect.DeepEqual(settings, want) {
		t.Errorf("got %+v, %v, want the second version", settings, err)
	}
	if n := h.count(`SELECT count(*) FROM audit_log WHERE resource_kind = 'CHECKOUT_SETTINGS' AND actor_kind = 'USER'
		AND resource_id = $1`, h.one.id); n != 2 {
		t.Errorf("got %d rows in the audit log, want one for each change", n)
	}
	h.get(h.signIn(h.two, identity.Owner), page).want(t, http.StatusOK, `value="300"`).wantNo(t, "Tea &lt;")
	h.pass(sudoLasts + time.Minute)
	h.post(admin, save, fieldsWith("2", "shopName", "Late")...).
		want(t, http.StatusForbidden, "Confirm that it is you", `value="Late"`)
}
