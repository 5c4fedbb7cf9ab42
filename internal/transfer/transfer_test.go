package transfer_test

import (
	"context"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/fault"
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
	again.Limit = func() error { t.Error("a replay was counted"); return nil }
	if out := h.mustTransfer(again); !out.Replayed || out.Transfer.ID != first.Transfer.ID ||
		len(out.Transfer.Metadata) != 0 {
		t.Errorf("got %+v, want %v again", out, first.Transfer.ID)
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
