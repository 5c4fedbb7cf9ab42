package transfer_test

import (
	"context"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/freeze"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/page"
	"github.com/cofferpay/coffer/internal/pg"
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
	h := newHouse(t)
	h.fund(h.one, ann, 1000)
	reference := "order-7"
	r := ask("k1", ann, custody, "400")
	r.Reference, r.Metadata = &reference, map[string]string{"a": "b"}
	out := h.must(r)
	if out.Replayed || out.Transfer.Amount != "400" || out.Transfer.AmountDecimal != "0.0004" || *out.Transfer.From.CustomerID != "ann" || *out.Transfer.To.Product != "CUSTODIAL" {
		t.Errorf("got %+v, want 400 from ann to CUSTODIAL", out)
	}
	h.wantBalance(h.one, ann, 600)
	h.wantBalance(h.one, custody, 400)
	// Back to a customer who was never seen, and between two products.
	h.must(ask("k2", custody, customer("new"), "150"))
	h.must(ask("k3", custody, product("CHECKOUT"), "50"))
	h.wantBalance(h.one, customer("new"), 150)
	h.wantBalance(h.one, product("CHECKOUT"), 50)
	h.wantTransfers(3)
	got, err := h.service.ByID(t.Context(), h.one, out.Transfer.TransferID)
	if err != nil || got.TransferID != out.Transfer.TransferID || *got.Reference != reference || got.Metadata["a"] != "b" || got.CreatedAt != out.Transfer.CreatedAt {
		t.Errorf("got %+v, %v, want what was answered", got, err)
	}
	if _, err := h.service.ByID(t.Context(), h.two, out.Transfer.TransferID); !fault.Is(err, fault.CodeNotFound) {
		t.Errorf("another organization: got %v, want %v", err, fault.CodeNotFound)
	}
	half := ask("k4", ann, bob, "0.0001")
	half.UseDecimal = true
	if out := h.must(half); out.Transfer.Amount != "100" {
		t.Errorf("got %v, want 100 units", out.Transfer.Amount)
	}
}

// Rules TR-3, TR-4, TR-5, REQ-3.
func TestARefusedTransferWritesNothing(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.fund(h.one, ann, 1000)
	h.fund(h.one, custody, 1000)
	h.fund(h.two, bob, 1000)
	with := func(change func(*transfer.Request)) transfer.Request {
		r := ask("k", ann, bob, "10")
		change(&r)
		return r
	}
	for name, c := range map[string]struct {
		r     transfer.Request
		code  fault.Code
		param string
	}{
		"no key":               {ask("", ann, bob, "10"), fault.InvalidRequest, "idempotencyKey"},
		"a key with a space":   {ask("a b", ann, bob, "10"), fault.InvalidRequest, "idempotencyKey"},
		"a long key":           {ask(strings.Repeat("k", 256), ann, bob, "10"), fault.InvalidRequest, "idempotencyKey"},
		"to itself":            {ask("k", ann, ann, "10"), fault.SameAccount, "to"},
		"a product to itself":  {ask("k", custody, custody, "10"), fault.SameAccount, "to"},
		"from nobody":          {ask("k", transfer.Party{}, bob, "10"), fault.InvalidRequest, "from"},
		"to two":               {ask("k", ann, transfer.Party{CustomerID: bob.CustomerID, Product: custody.Product}, "10"), fault.InvalidRequest, "to"},
		"an unknown product":   {ask("k", ann, product("SAVINGS"), "10"), fault.InvalidRequest, "to.product"},
		"a customer with NUL":  {ask("k", ann, customer("a\x00"), "10"), fault.InvalidRequest, "to.customerId"},
		"no customer":          {ask("k", customer(""), bob, "10"), fault.InvalidRequest, "from.customerId"},
		"nothing":              {ask("k", ann, bob, "0"), fault.InvalidAmount, "amount"},
		"a fraction of a unit": {with(func(r *transfer.Request) { r.Amount, r.UseDecimal = "0.0000001", true }), fault.InvalidAmount, "amount"},
		"an unknown mint":      {with(func(r *transfer.Request) { r.MintID = 99 }), fault.MintNotFound, "mintId"},
		"more than there is":   {ask("k", ann, bob, "1001"), fault.InsufficientBalance, "amount"},
		"from a stranger":      {ask("k", customer("nobody"), bob, "1"), fault.InsufficientBalance, "amount"},
		"from another's":       {ask("k", bob, ann, "1"), fault.InsufficientBalance, "amount"},
		"of another mint":      {with(func(r *transfer.Request) { r.MintID = eth }), fault.InsufficientBalance, "amount"},
		"a reference with NUL": {with(func(r *transfer.Request) { s := "\x00"; r.Reference = &s }), fault.InvalidRequest, "reference"},
		"metadata with NUL":    {with(func(r *transfer.Request) { r.Metadata = map[string]string{"a": "\x00"} }), fault.InvalidRequest, "metadata"},
	} {
		t.Log(name)
		h.refused(c.r, c.code, c.param)
	}
	h.wantTransfers(0)
	var accounts, customers int
	err := h.db.ReadOrg(t.Context(), h.one, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, `SELECT (SELECT count(*) FROM ledger_accounts), (SELECT count(*) FROM customers)`).Scan(&accounts, &customers)
	})
	if err != nil || accounts != 3 || customers != 1 {
		t.Errorf("got %d accounts and %d customers (%v), want 3 and 1", accounts, customers, err)
	}
	// None of them has used up its key.
	h.must(ask("k", ann, bob, "10"))
}

// Rules TR-6, TR-7.
func TestAKeyAnswersTheSameTransferForEver(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.fund(h.one, ann, 100)
	h.fund(h.two, ann, 100)
	first := h.must(ask("k", ann, bob, "100"))
	// Nothing is left, and the payer is frozen: a replay is answered all the same.
	h.freeze(freeze.Freeze{Scope: freeze.Customer, OrgID: h.one, CustomerID: "ann", Source: freeze.ByOrganization})
	again := ask("k", ann, bob, "0.0001")
	again.UseDecimal = true
	again.Metadata = map[string]string{"not": "compared"}
	again.Limit = func() error { t.Error("a replay was counted"); return nil }
	if out := h.must(again); !out.Replayed || out.Transfer.TransferID != first.Transfer.TransferID || len(out.Transfer.Metadata) != 0 {
		t.Errorf("got %+v, want %v again", out, first.Transfer.TransferID)
	}
	for _, r := range []transfer.Request{
		ask("k", ann, bob, "99"), ask("k", bob, ann, "100"), ask("k", ann, custody, "100"), ask("k", ann, ann, "100"), ask("k", ann, bob, "x"),
		{MintID: eth, Amount: "100", From: ann, To: bob, IdempotencyKey: "k"},
		{MintID: 99, Amount: "100", From: ann, To: bob, IdempotencyKey: "k"},
		referring(ask("k", ann, bob, "100"), "order 7"),
	} {
		_, err := h.do(r)
		if f := fault.Of(err); f == nil || f.Code != fault.IdempotencyConflict || f.Extra["existingId"] != first.Transfer.TransferID {
			t.Errorf("%+v: got %v, want a conflict with %v", r, err, first.Transfer.TransferID)
		}
	}
	// A key belongs to one organization.
	out, err := h.service.Request(t.Context(), h.two, ask("k", ann, bob, "1"))
	if err != nil || out.Replayed {
		t.Errorf("another organization: got %+v, %v, want a transfer of its own", out, err)
	}
	h.wantTransfers(2)
}

func referring(r transfer.Request, reference string) transfer.Request {
	r.Reference = &reference
	return r
}

// One key for two orders of one amount is the caller's mistake, and no answer may say
// that both are paid: neither from the row nor from the group that the first is in.
// Rule TR-7.
func TestAKeyStandsForOneReference(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.fund(h.one, ann, 100)
	first := h.must(referring(ask("k", ann, bob, "10"), "order 7"))
	if out := h.must(referring(ask("k", ann, bob, "10"), "order 7")); !out.Replayed || out.Transfer.TransferID != first.Transfer.TransferID {
		t.Errorf("the same order: got %+v, want %v again", out, first.Transfer.TransferID)
	}
	for _, r := range []transfer.Request{referring(ask("k", ann, bob, "10"), "order 8"), ask("k", ann, bob, "10")} {
		_, err := h.do(r)
		if f := fault.Of(err); f == nil || f.Code != fault.IdempotencyConflict || f.Extra["existingId"] != first.Transfer.TransferID {
			t.Errorf("another order: got %v, want a conflict with %v", err, first.Transfer.TransferID)
		}
	}
	h.wantTransfers(1)
}

func (h *house) freeze(f freeze.Freeze) {
	h.t.Helper()
	f.Reason, f.By = "test", audit.Operator("test")
	if err := h.db.InSystem(h.t.Context(), func(ctx context.Context, tx pg.Tx) error { return freeze.Put(ctx, tx, f) }); err != nil {
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
		"the customer":     {freeze.Freeze{Scope: freeze.Customer, CustomerID: "ann", Source: freeze.ByOrganization}, fault.CustomerFrozen, "from.customerId", true},
		"the organization": {freeze.Freeze{Scope: freeze.Organization, Source: freeze.ByOperator}, fault.OrganizationFrozen, "", false},
		"the chain":        {freeze.Freeze{Scope: freeze.Chain, Chain: chain.Ethereum, Source: freeze.ByFinality}, fault.WithdrawalsSuspended, "mintId", false},
		"everything":       {freeze.Freeze{Scope: freeze.All, Source: freeze.ByVerify}, fault.WithdrawalsSuspended, "mintId", false},
		"another chain":    {freeze.Freeze{Scope: freeze.Chain, Chain: "SOLANA", Source: freeze.ByFinality}, "", "", true},
		"another customer": {freeze.Freeze{Scope: freeze.Customer, CustomerID: "carl", Source: freeze.ByOrganization}, "", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			h.fund(h.one, ann, 100)
			h.fund(h.one, bob, 100)
			if c.freeze.Scope == freeze.Customer || c.freeze.Scope == freeze.Organization {
				c.freeze.OrgID = h.one
			}
			h.freeze(c.freeze)
			if c.code == "" {
				h.must(ask("k", ann, bob, "1"))
			} else {
				h.refused(ask("k", ann, bob, "1"), c.code, c.param)
			}
			if c.others { // also to the one who is frozen
				h.must(ask("k2", bob, ann, "1"))
			} else {
				h.refused(ask("k2", bob, ann, "1"), c.code, c.param)
			}
		})
	}
	t.Run("a quarantined mint", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		h.fund(h.one, ann, 100)
		if err := h.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error { return mint.Quarantine(ctx, tx, usdc, "test") }); err != nil {
			t.Fatal(err)
		}
		h.refused(ask("k", ann, bob, "1"), fault.WithdrawalsSuspended, "mintId")
	})
}

// Rule LIST-1.
func TestTransfersAreListed(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.fund(h.one, ann, 1000)
	for _, key := range []string{"a", "b", "c", "d", "e"} {
		h.must(ask(key, ann, bob, "10"))
	}
	h.must(ask("f", bob, custody, "10"))
	usd, none := usdc, eth
	for name, c := range map[string]struct {
		f    transfer.Filter
		want int
	}{
		"all": {transfer.Filter{}, 6}, "ann": {transfer.Filter{CustomerID: "ann"}, 5}, "bob": {transfer.Filter{CustomerID: "bob"}, 6},
		"product": {transfer.Filter{Product: "CUSTODIAL"}, 1}, "mint": {transfer.Filter{MintID: &usd}, 6}, "other mint": {transfer.Filter{MintID: &none}, 0},
		"key": {transfer.Filter{IdempotencyKey: "c"}, 1},
	} {
		seen := map[string]bool{}
		p := page.Page{Limit: 2}
		for {
			got, err := h.service.List(t.Context(), h.one, c.f, p)
			if err != nil {
				t.Fatal(err)
			}
			for _, item := range got.Items {
				seen[item.TransferID] = true
			}
			if p.Cursor = got.Next; p.Cursor == nil {
				break
			}
		}
		if len(seen) != c.want {
			t.Errorf("%s: got %d, want %d", name, len(seen), c.want)
		}
	}
	if got, err := h.service.List(t.Context(), h.two, transfer.Filter{}, page.Page{}); err != nil || len(got.Items) != 0 {
		t.Errorf("another organization: got %v, %v, want none", got.Items, err)
	}
}
