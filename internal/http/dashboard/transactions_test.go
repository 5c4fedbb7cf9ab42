package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/transfer"
	"github.com/cofferpay/coffer/internal/wire"
)

// stranger is a customer's id as a stranger would choose it. It has a letter that looks like another and
// is the beginning of a formula.
const stranger = `=<script>alert("x")</script>Аlice`

// seeDeposits has a customer receive n deposits in blocks that are not final, and returns the id that lists
// show first. All of them are in one transaction.
func (h *testEnv) seeDeposits(who tenant, customerID string, mintID, n int, hash string) (depositID string) {
	h.t.Helper()
	counter := &deposit.AddressService{
		DB: h.db, Chains: h.withdrawals.Chains, Wallets: h.book, Actor: audit.APIKey(who.id),
	}
	issued, err := counter.IssueForCustomer(h.t.Context(), who.id, mintID, customerID, "")
	if err != nil {
		h.t.Fatal(err)
	}
	err = h.db.InSystem(h.t.Context(), func(ctx context.Context, tx pg.Tx) error {
		for i := range n {
			made := id.Derive("dep", who.id, hash, fmt.Sprint(i))
			depositID = max(depositID, made) // of the same moment, the greatest is the newest
			_, err := tx.Exec(ctx, `
				INSERT INTO deposits (deposit_id, org_id, wallet_id, purpose, customer_id, mint_id, chain, contract,
					amount, address, from_address, tx_hash, kind, position, log_index, height, block_hash, status,
					chain_status, created_at)
				SELECT $1, w.org_id, w.wallet_id, w.purpose, w.subject, m.mint_id, m.chain, m.contract,
					2500000, w.address, $5, $6, 'TOKEN', $7::bigint::text, $7::bigint, 101, '0xe', 'CONFIRMING',
				'INCLUDED', $8
				FROM wallets w, mints m WHERE w.org_id = $2 AND w.address = $3 AND m.mint_id = $4`,
				made, who.id, issued.Address, mintID, recipient, hash, i, tx.Now)
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return depositID
}

// transfer moves money of a customer to the organization.
func (h *testEnv) transfer(who tenant, customerID string, mintID int, key, reference string) transfer.Transfer {
	h.t.Helper()
	product := "CUSTODIAL"
	made, err := transfer.New(h.db, wire.NewRecorder()).Request(h.t.Context(), who.id, transfer.Request{
		MintID: mintID, Amount: "1000", From: transfer.Party{CustomerID: &customerID},
		To: transfer.Party{Product: &product}, IdempotencyKey: key, Reference: &reference, Actor: audit.APIKey(who.id),
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return made.Transfer
}

const (
	firstHash  = "0x00000000000000000000000000000000000000000000000000000000000000a1"
	secondHash = "0x00000000000000000000000000000000000000000000000000000000000000a2"
)

// An empty list says what comes first, and what it says has the address of the interface.
func TestAnEmptyListOfTransactionsHasTheFirstCall(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	token := h.signIn(h.one, identity.Viewer)
	for kind, text := range map[string]string{
		"": "No deposit yet", "?kind=WITHDRAWAL": "No withdrawal yet", "?kind=TRANSFER": "No transfer yet",
	} {
		h.get(token, Prefix+"/transactions"+kind).want(t, http.StatusOK, text, "curl -X POST", "/v1/")
	}
	h.get(token, Prefix+"/transactions?status=CREDITED").want(t, http.StatusOK, "Nothing fits these filters")
	h.get(token, Prefix+"/transactions/search").want(t, http.StatusOK, "Search for a transaction")
	h.get(token, Prefix+"/transactions/search?q=nothing").want(t, http.StatusOK, "Nothing was found")
}

// The list shows what its filters select, and nothing of another organization. What a stranger chose is text.
// Rules PAGE-4, PAGE-6 and PAGE-10.
func TestTransactionsAreListedByTheirFilters(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.fund(h.one, stranger, evil, 50_000_000)
	h.fund(h.two, "alice", usdc, 50_000_000)
	arrived := h.seeDeposits(h.one, stranger, evil, 1, firstHash)
	foreign := h.seeDeposits(h.two, "alice", usdc, 1, secondHash)
	asked := h.request(h.one, stranger, evil, "1000000")
	moved := h.transfer(h.one, stranger, evil, "key-1", hostile)
	token := h.signIn(h.one, identity.Viewer)
	day := asked.CreatedAt.UTC().Format("2006-01-02")
	customer := url.QueryEscape(stranger)
	for query, want := range map[string][]string{
		"": {arrived},
		"?kind=DEPOSIT&status=&mintId=&from=&to=":                {arrived},
		"?status=CONFIRMING&mintId=2&from=" + day + "&to=" + day: {arrived},
		"?status=CREDITED": nil,
		"?mintId=1":        nil,
		"?to=2020-01-01":   nil,
		"?txHash=" + strings.ToUpper(firstHash[2:]):   nil,
		"?txHash=0x" + strings.ToUpper(firstHash[2:]): {arrived},
		"?customerId=" + customer:                     {arrived},
		"?customerId=alice":                           nil,
		"?kind=WITHDRAWAL":                            {asked.ID},
		"?kind=WITHDRAWAL&status=AWAITING_APPROVAL&address=" + strings.ToLower(recipient): {asked.ID},
		"?kind=WITHDRAWAL&status=COMPLETED":                                               nil,
		"?kind=TRANSFER":                                                                  {moved.ID},
		"?kind=TRANSFER&reference=" + url.QueryEscape(*moved.Reference):                   {moved.ID},
		"?kind=TRANSFER&reference=x":                                                      nil,
	} {
		body := h.get(token, Prefix+"/transactions"+query).want(t, http.StatusOK).body
		for _, transactionID := range []string{arrived, foreign, asked.ID, moved.ID} {
			isShown := strings.Contains(body, transactionID)
			isWanted := slices.Contains(want, transactionID)
			if isShown != isWanted {
				t.Errorf("%s: %s is shown: %v, want %v", query, transactionID, isShown, isWanted)
			}
		}
		for _, markup := range []string{"<script>alert", "\u202e", "<b>U</b>", ">Аlice", "script>Аlice"} {
			if strings.Contains(keptFilter.ReplaceAllString(body, ""), markup) {
				t.Errorf("%s: the page has %q as the stranger wrote it", query, markup)
			}
		}
		if len(want) > 0 && !strings.Contains(body, templEscaped(ui.EscapeForeign(stranger))) {
			t.Errorf("%s: got no customer: %s", query, body)
		}
	}
	for _, query := range []string{
		"?kind=TRANSFER&status=CREDITED", "?kind=WITHDRAWAL&status=CREDITED", "?kind=TRANSFER&txHash=" + firstHash,
		"?reference=x", "?from=tomorrow", "?to=2026-02-30", "?kind=SWAP", "?amount=5", "?mintId=0", "?status=X",
		"?kind=DEPOSIT&kind=DEPOSIT", "?cursor=x",
	} {
		h.get(token, Prefix+"/transactions"+query).want(t, http.StatusBadRequest, "Nothing was changed")
	}
	other := h.get(h.signIn(h.two, identity.Owner), Prefix+"/transactions").want(t, http.StatusOK, foreign).body
	if strings.Contains(other, arrived) {
		t.Error("another organization sees the deposit")
	}
}

// keptFilter is a filter that a form keeps and no person sees.
var keptFilter = regexp.MustCompile(`<input type="hidden"[^>]*>`)

// templEscaped writes a text as it stands in a document.
func templEscaped(text string) string {
	return strings.NewReplacer("<", "&lt;", ">", "&gt;", `"`, "&#34;").Replace(text)
}

// One search finds transactions of all kinds by each of their texts, and an id leads to its page. It finds
// nothing of another organization. Rule PAGE-10.
func TestOneSearchFindsEveryKindOfTransaction(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.fund(h.one, "alice", usdc, 50_000_000)
	h.fund(h.two, "alice", usdc, 50_000_000)
	arrived := h.seeDeposits(h.one, "alice", usdc, 12, firstHash)
	foreign := h.request(h.two, "alice", usdc, "1000000")
	asked := h.request(h.one, "alice", usdc, "1000000")
	moved := h.transfer(h.one, "alice", usdc, "key-1", "invoice 7")
	token := h.signIn(h.one, identity.Developer)
	search := func(text string) reply {
		return h.get(token, Prefix+"/transactions/search?q="+url.QueryEscape(text))
	}
	for text, want := range map[string][]string{
		firstHash: {arrived}, "alice": {asked.ID, moved.ID}, "invoice 7": {moved.ID},
		strings.ToLower(recipient): {asked.ID}, recipient: {asked.ID},
	} {
		body := search(text).want(t, http.StatusOK, want...).body
		if strings.Contains(body, foreign.ID) {
			t.Errorf("%q found a withdrawal of another organization", text)
		}
	}
	search("alice").want(t, http.StatusOK, "All deposits of this customer", "kind=DEPOSIT")
	h.get(token, Prefix+"/customers/alice").want(t, http.StatusOK, "Recent transactions",
		"/transactions/deposits/"+arrived, "/transactions/withdrawals/"+asked.ID, "/transactions/transfers/"+moved.ID)
	for text, path := range map[string]string{
		arrived: "deposits", asked.ID: "withdrawals", moved.ID: "transfers",
	} {
		got := search(text).want(t, http.StatusSeeOther).header.Get("Location")
		if want := Prefix + "/transactions/" + path + "/" + text; got != want {
			t.Errorf("got a redirect to %q, want %q", got, want)
		}
	}
	for _, text := range []string{foreign.ID, "alic", "invoice", "' OR 1=1", hostile} {
		search(text).want(t, http.StatusOK, "Nothing was found")
	}
	h.get(token, Prefix+"/transactions/search?q="+strings.Repeat("x", 1021)).want(t, http.StatusBadRequest)
}

// A list has pages of 50, and every row is on one of them. A cursor is one of its filters and its
// organization.
func TestTransactionsHavePages(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.seeDeposits(h.one, "alice", usdc, 60, firstHash)
	token := h.signIn(h.one, identity.Viewer)
	rows := regexp.MustCompile(`transactions/deposits/(dep_\w+)`)
	next := regexp.MustCompile(`href="([^"]*cursor=[^"]*)"`)
	seen, path := map[string]bool{}, Prefix+"/transactions?status=CONFIRMING"
	for _, want := range []int{50, 10} {
		body := h.get(token, path).want(t, http.StatusOK).body
		found := rows.FindAllStringSubmatch(body, -1)
		for _, row := range found {
			seen[row[1]] = true
		}
		if len(found) != want {
			t.Errorf("got %d rows, want %d", len(found), want)
		}
		if link := next.FindStringSubmatch(body); link != nil {
			path = strings.ReplaceAll(link[1], "&amp;", "&")
		}
	}
	if len(seen) != 60 {
		t.Errorf("got %d deposits on the pages, want all 60", len(seen))
	}
	h.get(token, strings.Replace(path, "CONFIRMING", "SCREENING", 1)).want(t, http.StatusBadRequest)
	h.get(h.signIn(h.two, identity.Viewer), path).want(t, http.StatusBadRequest)
}

// The table of each kind has the columns of the interface, no cell that a spreadsheet computes, and only
// what the filters select. The roles that export records get it. Rules PAGE-6 and PAGE-11.
func TestTheTableOfTransactionsIsThatOfTheInterface(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.fund(h.one, stranger, evil, 50_000_000)
	arrived := h.seeDeposits(h.one, stranger, evil, 1, firstHash)
	asked := h.request(h.one, stranger, evil, "1000000")
	moved := h.transfer(h.one, stranger, evil, "key-1", "=1+1")
	token := h.signIn(h.one, identity.Finance)
	for query, want := range map[string][]string{
		"":                 {"depositId,createdAt,customerId,product,customerEmail,mintId", arrived, ",2500000,2.5,"},
		"?kind=WITHDRAWAL": {"withdrawalId,createdAt,type,idempotencyKey,reference", asked.ID},
		"?kind=TRANSFER":   {"transferId,createdAt,idempotencyKey,reference", moved.ID, ",'=1+1,"},
	} {
		body := h.get(token, Prefix+"/transactions.csv"+query).want(t, http.StatusOK, want...).body
		if !strings.Contains(body, `"'=<script>`) {
			t.Errorf("%s: got a customer that is a formula: %s", query, body)
		}
		none := h.get(h.signIn(h.two, identity.Finance), Prefix+"/transactions.csv"+query).want(t, http.StatusOK).body
		if strings.Count(none, "\n") != 1 {
			t.Errorf("%s: got rows of another organization: %s", query, none)
		}
	}
	body := h.get(token, Prefix+"/transactions.csv?mintId=1").want(t, http.StatusOK).body
	if strings.Contains(body, arrived) {
		t.Error("the table has a row that the filter excludes")
	}
	for _, role := range roles {
		person, status := h.signIn(h.one, role), http.StatusOK
		if role == identity.Developer || role == identity.Viewer {
			status = http.StatusForbidden
		}
		h.get(person, Prefix+"/transactions.csv").want(t, status)
		body := h.get(person, Prefix+"/transactions").want(t, http.StatusOK).body
		if strings.Contains(body, "transactions.csv") != (status == http.StatusOK) {
			t.Errorf("%s: the link to the table and the right to it differ", role)
		}
	}
	h.get(h.signIn(h.one, identity.Viewer), Prefix+"/transactions.csv").
		want(t, http.StatusForbidden, "Owner, Admin, Approver or Finance")
}

// Every page of the list follows what changes.
func TestTheListOfTransactionsFollowsTheLog(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.get(h.signIn(h.one, identity.Viewer), Prefix+"/transactions").
		want(t, http.StatusOK, "data-live=", "DEPOSIT%2CWITHDRAWAL%2CTRANSFER")
}
