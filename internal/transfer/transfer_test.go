package transfer_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/transfer"
)

var (
	ann     = customer("ann")
	bob     = customer("bob")
	custody = product("CUSTODIAL")
)

// Rules TR-1, TR-2.
func TestATransferMovesTheAmountAtOnce(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.fundParty(h.one, ann, 1000)
	reference := "order-7"
	r := newRequest("k1", ann, custody, "400")
	r.Reference, r.Metadata = &reference, map[string]string{"a": "b"}
	out := h.mustTransfer(r)
	if out.Replayed || out.Transfer.Amount.String() != "400" || out.Transfer.Mint.Decimals != 6 ||
		*out.Transfer.From.CustomerID != "ann" || *out.Transfer.To.Product != "CUSTODIAL" {
		t.Errorf("got %+v, want 400 from ann to CUSTODIAL", out)
	}
	h.wantBalance(h.one, ann, 600)
	h.wantBalance(h.one, custody, 400)
	// Back to a customer who does not exist yet, and between two products.
	h.mustTransfer(newRequest("k2", custody, customer("new"), "150"))
	h.mustTransfer(newRequest("k3", custody, product("CHECKOUT"), "50"))
	h.wantBalance(h.one, customer("new"), 150)
	h.wantBalance(h.one, product("CHECKOUT"), 50)
	h.wantTransfers(3)
	got, err := h.service.ByID(t.Context(), h.one, out.Transfer.ID)
	if err != nil || got.ID != out.Transfer.ID || *got.Reference != reference ||
		got.Metadata["a"] != "b" || got.CreatedAt != out.Transfer.CreatedAt {
		t.Errorf("got %+v, %v, want what was answered", got, err)
	}
	if _, err := h.service.ByID(t.Context(), h.two, out.Transfer.ID); !fault.HasCode(err, fault.CodeNotFound) {
		t.Errorf("another organization: got %v, want %v", err, fault.CodeNotFound)
	}
	half := newRequest("k4", ann, bob, "0.0001")
	half.UseDecimal = true
	if out := h.mustTransfer(half); out.Transfer.Amount.String() != "100" {
		t.Errorf("got %v, want 100 units", out.Transfer.Amount)
	}
}

// Rules TR-3, TR-4, TR-5, REQ-3.
func TestARefusedTransferWritesNothing(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.fundParty(h.one, ann, 1000)
	h.fundParty(h.one, custody, 1000)
	h.fundParty(h.two, bob, 1000)
	with := func(change func(*transfer.Request)) transfer.Request {
		r := newRequest("k", ann, bob, "10")
		change(&r)
		return r
	}
	for name, c := range map[string]struct {
		r     transfer.Request
		code  fault.Code
		param string
	}{
		"no key":             {newRequest("", ann, bob, "10"), fault.InvalidRequest, "idempotencyKey"},
		"a key with a space": {newRequest("a b", ann, bob, "10"), fault.InvalidRequest, "idempotencyKey"},
		"a long key": {
			newRequest(strings.Repeat("k", 256), ann, bob, "10"), fault.InvalidRequest, "idempotencyKey",
		},
		"to itself":           {newRequest("k", ann, ann, "10"), fault.SameAccount, "to"},
		"a product to itself": {newRequest("k", custody, custody, "10"), fault.SameAccount, "to"},
		"from nobody":         {newRequest("k", transfer.Party{}, bob, "10"), fault.InvalidRequest, "from"},
		"to two": {
			newRequest("k", ann, transfer.Party{CustomerID: bob.CustomerID, Product: custody.Product}, "10"),
			fault.InvalidRequest, "to",
		},
		"an unknown product":  {newRequest("k", ann, product("SAVINGS"), "10"), fault.InvalidRequest, "to.product"},
		"a customer with NUL": {newRequest("k", ann, customer("a\x00"), "10"), fault.InvalidRequest, "to.customerId"},
		"no customer":         {newRequest("k", customer(""), bob, "10"), fault.InvalidRequest, "from.customerId"},
		"nothing":             {newRequest("k", ann, bob, "0"), fault.InvalidAmount, "amount"},
		"a fraction of a unit": {
			with(func(r *transfer.Request) { r.Amount, r.UseDecimal = "0.0000001", true }), fault.InvalidAmount,
			"amount",
		},
		"an unknown mint":       {with(func(r *transfer.Request) { r.MintID = 99 }), fault.MintNotFound, "mintId"},
		"more than the balance": {newRequest("k", ann, bob, "1001"), fault.InsufficientBalance, "amount"},
		"from a stranger":       {newRequest("k", customer("nobody"), bob, "1"), fault.InsufficientBalance, "amount"},
		"from another's":        {newRequest("k", bob, ann, "1"), fault.InsufficientBalance, "amount"},
		"of another mint": {
			with(func(r *transfer.Request) { r.MintID = eth }), fault.InsufficientBalance, "amount",
		},
		"a reference with NUL": {
			with(func(r *transfer.Request) { s := "\x00"; r.Reference = &s }), fault.InvalidRequest, "reference",
		},
		"metadata with NUL": {
			with(func(r *transfer.Request) { r.Metadata = map[string]string{"a": "\x00"} }), fault.InvalidRequest,
			"metadata",
		},
	} {
		t.Log(name)
		h.wantFault(c.r, c.code, c.param)
		if c.r.IdempotencyKey == "" { // A preview without a key is one of a new key.
			continue
		}
		if f := fault.Find(h.service.Preview(t.Context(), h.one, c.r)); f == nil || f.Code != c.code ||
			f.Param != c.param {
			t.Errorf("%s, previewed: got %v, want %v on %q", name, f, c.code, c.param)
		}
	}
	h.wantTransfers(0)
	var accounts, customers int
	err := h.db.ReadOrg(t.Context(), h.one, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(
			ctx, `SELECT (SELECT count(*) FROM ledger_accounts), (SELECT count(*) FROM customers)`,
		).Scan(&accounts, &customers)
	})
	if err != nil || accounts != 3 || customers != 1 {
		t.Errorf("got %d accounts and %d customers (%v), want 3 and 1", accounts, customers, err)
	}
	// No refused request has used up its key.
	h.mustTransfer(newRequest("k", ann, bob, "10"))
}

// Rule TR-11.
func TestAPreviewOfATransferDecidesAsTheRequestAndWritesNothing(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.fundParty(h.one, custody, 1000)
	preview := func(r transfer.Request) error { return h.service.Preview(t.Context(), h.one, r) }
	for _, key := range []string{"", "k"} {
		if err := preview(newRequest(key, custody, ann, "1000")); err != nil {
			t.Errorf("key %q: got %v, want a transfer that would be made", key, err)
		}
	}
	h.wantTransfers(0)
	h.wantBalance(h.one, custody, 1000)
	h.mustTransfer(newRequest("k", custody, ann, "1000"))
	// The known key is answered before the balance, which is empty now.
	if err := preview(newRequest("k", custody, ann, "1000")); err != nil {
		t.Errorf("got %v, want the transfer of the key", err)
	}
	if err := preview(newRequest("k", custody, ann, "1")); !fault.HasCode(err, fault.IdempotencyConflict) {
		t.Errorf("got %v, want a conflict", err)
	}
	if err := preview(newRequest("", custody, ann, "1")); !fault.HasCode(err, fault.InsufficientBalance) {
		t.Errorf("got %v, want an empty balance", err)
	}
	h.wantTransfers(1)
	h.createFreeze(freeze.Freeze{
		Scope: freeze.ScopeOrganization, OrgID: h.one, Source: freeze.SourceOperator,
	})
	if err := preview(newRequest("", custody, ann, "1")); !fault.HasCode(err, fault.OrganizationFrozen) {
		t.Errorf("got %v, want the freeze", err)
	}
}

// Rules TR-6, TR-7.
func TestAKeyAnswersTheSameTransferForEver(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.fundParty(h.one, ann, 100)
	h.fundParty(h.two, ann, 100)
	first := h.mustTransfer(newRequest("k", ann, bob, "100"))
	// Nothing is left, and the payer is frozen: a replay is answered all the same.
	h.createFreeze(freeze.Freeze{
		Scope: freeze.ScopeCustomer, OrgID: h.one, CustomerID: "ann", Source: freeze.SourceOrganization,
	})
	again := newRequest("k", ann, bob, "0.0001")
	again.UseDecimal = true
	again.Metadata = map[string]string{"not": "compared"}
	counted := 0
	again.Limit, again.Unlimit = func() error { counted++; return nil }, func() { counted-- }
	if out := h.mustTransfer(again); !out.Replayed || out.Transfer.ID != first.Transfer.ID ||
		len(out.Transfer.Metadata) != 0 {
		t.Errorf("got %+v, want %v again", out, first.Transfer.ID)
	}
	if counted != 0 {
		t.Errorf("got %d counted, want a replay to be free", counted)
	}
	for _, r := range []transfer.Request{
		newRequest("k", ann, bob, "99"), newRequest("k", bob, ann, "100"), newRequest("k", ann, custody, "100"),
		newRequest("k", ann, ann, "100"), newRequest("k", ann, bob, "x"),
		{MintID: eth, Amount: "100", From: ann, To: bob, IdempotencyKey: "k"},
		{MintID: 99, Amount: "100", From: ann, To: bob, IdempotencyKey: "k"},
		referring(newRequest("k", ann, bob, "100"), "order 7"),
	} {
		_, err := h.requestTransfer(r)
		if f := fault.Find(err); f == nil || f.Code != fault.IdempotencyConflict ||
			f.Extra["existingId"] != first.Transfer.ID {
			t.Errorf("%+v: got %v, want a conflict with %v", r, err, first.Transfer.ID)
		}
	}
	// A key belongs to one organization.
	out, err := h.service.Request(t.Context(), h.two, newRequest("k", ann, bob, "1"))
	if err != nil || out.Replayed {
		t.Errorf("another organization: got %+v, %v, want a transfer of its own", out, err)
	}
	h.wantTransfers(2)
}

func referring(r transfer.Request, reference string) transfer.Request {
	r.Reference = &reference
	return r
}

// One key for two orders of one amount is the caller's mistake. No answer may say that both are
// paid, neither from the row nor from the group of the first. Rule TR-7.
func TestAKeyStandsForOneReference(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.fundParty(h.one, ann, 100)
	first := h.mustTransfer(referring(newRequest("k", ann, bob, "10"), "order 7"))
	if out := h.mustTransfer(referring(newRequest("k", ann, bob, "10"), "order 7")); !out.Replayed ||
		out.Transfer.ID != first.Transfer.ID {
		t.Errorf("the same order: got %+v, want %v again", out, first.Transfer.ID)
	}
	for _, r := range []transfer.Request{
		referring(newRequest("k", ann, bob, "10"), "order 8"), newRequest("k", ann, bob, "10"),
	} {
		_, err := h.requestTransfer(r)
		if f := fault.Find(err); f == nil || f.Code != fault.IdempotencyConflict ||
			f.Extra["existingId"] != first.Transfer.ID {
			t.Errorf("another order: got %v, want a conflict with %v", err, first.Transfer.ID)
		}
	}
	h.wantTransfers(1)
}

func (h *testEnv) createFreeze(f freeze.Freeze) {
	h.t.Helper()
	f.Reason, f.Actor = "test", audit.Operator("test")
	if err := h.db.InSystem(
		h.t.Context(), func(ctx context.Context, tx pg.Tx) error { return freeze.Create(ctx, tx, f) },
	); err != nil {
		h.t.Fatal(err)
	}
}

// Rule TR-8.
func TestWhatIsStoppedDoesNotLeaveABalance(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		freeze freeze.Freeze
		code   fault.Code
		param  string
		others bool // another customer's transfers go on
	}{
		"the customer": {
			freeze.Freeze{Scope: freeze.ScopeCustomer, CustomerID: "ann", Source: freeze.SourceOrganization},
			fault.CustomerFrozen, "from.customerId", true,
		},
		"the organization": {
			freeze.Freeze{Scope: freeze.ScopeOrganization, Source: freeze.SourceOperator},
			fault.OrganizationFrozen, "",
			false,
		},
		"the chain": {
			freeze.Freeze{Scope: freeze.ScopeChain, Chain: chain.Ethereum, Source: freeze.SourceFinality},
			fault.WithdrawalsSuspended, "mintId", false,
		},
		"everything": {
			freeze.Freeze{Scope: freeze.ScopeAll, Source: freeze.SourceVerify},
			fault.WithdrawalsSuspended, "mintId",
			false,
		},
		"another chain": {
			freeze.Freeze{Scope: freeze.ScopeChain, Chain: "SOLANA", Source: freeze.SourceFinality}, "", "", true,
		},
		"another customer": {
			freeze.Freeze{Scope: freeze.ScopeCustomer, CustomerID: "carl", Source: freeze.SourceOrganization},
			"", "",
			true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newTestEnv(t)
			h.fundParty(h.one, ann, 100)
			h.fundParty(h.one, bob, 100)
			if c.freeze.Scope == freeze.ScopeCustomer || c.freeze.Scope == freeze.ScopeOrganization {
				c.freeze.OrgID = h.one
			}
			h.createFreeze(c.freeze)
			if c.code == "" {
				h.mustTransfer(newRequest("k", ann, bob, "1"))
			} else {
				h.wantFault(newRequest("k", ann, bob, "1"), c.code, c.param)
			}
			if c.others { // also to the frozen one
				h.mustTransfer(newRequest("k2", bob, ann, "1"))
			} else {
				h.wantFault(newRequest("k2", bob, ann, "1"), c.code, c.param)
			}
		})
	}
	t.Run("a quarantined mint", func(t *testing.T) {
		t.Parallel()
		h := newTestEnv(t)
		h.fundParty(h.one, ann, 100)
		if err := h.db.InSystem(
			t.Context(), func(ctx context.Context, tx pg.Tx) error { return mint.Quarantine(ctx, tx, usdc, "test") },
		); err != nil {
			t.Fatal(err)
		}
		h.wantFault(newRequest("k", ann, bob, "1"), fault.WithdrawalsSuspended, "mintId")
	})
}

// Rule LIST-1.
func TestTransfersAreListed(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.fundParty(h.one, ann, 1000)
	for _, key := range []string{"a", "b", "c", "d", "e"} {
		h.mustTransfer(newRequest(key, ann, bob, "10"))
	}
	h.mustTransfer(newRequest("f", bob, custody, "10"))
	usd, none := usdc, eth
	for name, c := range map[string]struct {
		f    transfer.Filter
		want int
	}{
		"all": {transfer.Filter{}, 6}, "ann": {transfer.Filter{CustomerID: "ann"}, 5},
		"bob":     {transfer.Filter{CustomerID: "bob"}, 6},
		"product": {transfer.Filter{Product: "CUSTODIAL"}, 1}, "mint": {transfer.Filter{MintID: &usd}, 6},
		"other mint": {transfer.Filter{MintID: &none}, 0},
		"key":        {transfer.Filter{IdempotencyKey: "c"}, 1},
	} {
		seen := map[string]bool{}
		p := pagination.Page{Limit: 2}
		for {
			got, err := h.service.List(t.Context(), h.one, c.f, p)
			if err != nil {
				t.Fatal(err)
			}
			for _, item := range got.Items {
				seen[item.ID] = true
			}
			if p.Cursor = got.NextCursor; p.Cursor == nil {
				break
			}
		}
		if len(seen) != c.want {
			t.Errorf("%s: got %d, want %d", name, len(seen), c.want)
		}
	}
	if got, err := h.service.List(t.Context(), h.two, transfer.Filter{}, pagination.Page{}); err != nil ||
		len(got.Items) != 0 {
		t.Errorf("another organization: got %v, %v, want none", got.Items, err)
	}
}

// The books take a posting of a transfer only between the accounts of its row, in its mint and its organization: an
// account that the program remembers wrongly moves nothing.
func TestAPostingOfATransferHasTheAccountsOfItsRow(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	for _, orgID := range []string{h.one, h.two} {
		for _, name := range []string{"ann", "bob", "eve"} {
			h.fundParty(orgID, customer(name), 100)
		}
	}
	if _, err := h.owner.Exec(t.Context(), `
		INSERT INTO ledger_accounts (org_id, mint_id, kind, subject, created_at) VALUES
			($1, 2, 'CUSTOMER', 'ann', now()), ($1, 2, 'CUSTOMER', 'bob', now()),
			($1, 1, 'PRODUCT', 'CUSTODIAL', now())`,
		h.one); err != nil {
		t.Fatal(err)
	}
	if _, err := h.owner.Exec(t.Context(), `UPDATE ledger_balances SET balance = 100 WHERE mint_id = 2`); err != nil {
		t.Fatal(err)
	}
	accountID := func(orgID string, mintID int, kind ledger.Kind, subject string) (id int64) {
		t.Helper()
		err := h.owner.QueryRow(t.Context(), `SELECT account_id FROM ledger_accounts
			WHERE (org_id, mint_id, kind, subject) = ($1, $2, $3, $4)`, orgID, mintID, kind, subject).Scan(&id)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	ann, bob := accountID(h.one, 1, ledger.Customer, "ann"), accountID(h.one, 1, ledger.Customer, "bob")
	elsewhere := func(orgID string, mintID int, subject string) int64 {
		return accountID(orgID, mintID, ledger.Customer, subject)
	}
	const refused = "ledger_transfers_of_cause"
	for name, c := range map[string]struct {
		mintID        int
		debit, credit int64
		amount        int
		want          string // the constraint, or "" for what is posted
	}{
		"its own accounts":         {1, ann, bob, 5, ""},
		"the other way round":      {1, bob, ann, 5, refused},
		"another amount":           {1, ann, bob, 6, refused},
		"another payer":            {1, elsewhere(h.one, 1, "eve"), bob, 5, refused},
		"a product as payee":       {1, ann, accountID(h.one, 1, ledger.Product, "CUSTODIAL"), 5, refused},
		"a payer in another mint":  {1, elsewhere(h.one, 2, "ann"), bob, 5, refused},
		"a payee in another mint":  {1, ann, elsewhere(h.one, 2, "bob"), 5, refused},
		"a payer of another house": {1, elsewhere(h.two, 1, "ann"), bob, 5, refused},
		"a payee of another house": {1, ann, elsewhere(h.two, 1, "bob"), 5, refused},
		"another mint":             {2, elsewhere(h.one, 2, "ann"), elsewhere(h.one, 2, "bob"), 5, refused},
		"no account":               {1, ann, 1_000_000, 5, refused},
	} {
		tx, err := h.owner.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, err = tx.Exec(t.Context(), `
			INSERT INTO transfers (transfer_id, org_id, idempotency_key, request_digest, mint_id, amount, from_customer,
				to_customer, created_at) VALUES ('tr_1', $1, 'k', '', 1, 5, 'ann', 'bob', now())`, h.one)
		if err != nil {
			t.Fatal(err)
		}
		_, err = tx.Exec(t.Context(), `
			INSERT INTO ledger_transfers (org_id, mint_id, debit_account, credit_account, amount, cause_kind, cause_id,
				leg, created_at) VALUES ($1, $2, $3, $4, $5, 'TRANSFER', 'tr_1', 0, now())`,
			h.one, c.mintID, c.debit, c.credit, c.amount)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: got %v, want it posted", name, err)
		case c.want != "" && !pg.ViolatesConstraint(err, c.want):
			t.Errorf("%s: got %v, want a violation of %s", name, err, c.want)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// The total of what customers have follows transfers from and to products, in one group and in several; transfers
// between customers add no row to it.
func TestTheTotalOfCustomersFollowsTransfers(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	for _, name := range []string{"ann", "bob"} {
		h.fundParty(h.one, customer(name), 1000)
	}
	h.fundParty(h.one, product("CHECKOUT"), 500)
	changes := func() (n int) {
		t.Helper()
		if err := h.owner.QueryRow(
			t.Context(), `SELECT count(*) FROM organization_total_changes`,
		).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	wantTotal := func(want string) {
		t.Helper()
		var got string
		if err := h.owner.QueryRow(
			t.Context(), `SELECT sum(available)::text FROM organization_total_changes WHERE org_id = $1`, h.one,
		).Scan(&got); err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("got a total of %s, want %s", got, want)
		}
	}
	wantTotal("2000")
	before := changes()
	h.mustTransfer(newRequest("1", ann, bob, "10"))
	if n := changes(); n != before {
		t.Errorf("got %d rows of changes after a transfer between customers, want %d", n, before)
	}
	h.mustTransfer(newRequest("2", ann, custody, "7"))
	wantTotal("1993")
	h.mustTransfer(newRequest("3", product("CHECKOUT"), bob, "5"))
	wantTotal("1998")
	h.mustTransfer(newRequest("4", product("CHECKOUT"), custody, "3"))
	wantTotal("1998")
	var wg sync.WaitGroup
	for i := range 40 {
		from, to := ann, custody
		if i%4 == 0 {
			from, to = custody, ann
		}
		wg.Go(func() {
			if _, err := h.requestTransfer(newRequest(fmt.Sprint("many-", i), from, to, "1")); err != nil {
				t.Errorf("transfer %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	wantTotal("1978")
}
