package verify_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/sweep"
	"github.com/cofferpay/coffer/internal/transfer"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/internal/wire"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

// lister returns SEVERE for one address and LOW for all others.
type lister struct{ thief chain.Address }

func (lister) Name() string           { return "LISTER" }
func (lister) Covers(chain.Name) bool { return true }

func (l lister) Screen(_ context.Context, s risk.Subject) (risk.Verdict, error) {
	v := risk.Verdict{Provider: "LISTER", Severity: risk.Low, IsKnown: true, GivenAt: time.Now()}
	if s.Address == l.thief {
		v.Severity = risk.Severe
	}
	return v, nil
}

// work runs every part for some blocks, without checking the books.
func (s *service) work(blocks int) {
	s.Helper()
	for range blocks {
		for _, step := range s.steps {
			if err := step.Run(s.ctx); err != nil {
				s.Fatalf("%s: %v", step.Name, err)
			}
		}
		s.net.Mine(1)
		s.mu.Lock()
		s.now = s.now.Add(5 * time.Second)
		s.mu.Unlock()
	}
}

func codeOf(err error) fault.Code {
	var f *fault.Fault
	if errors.As(err, &f) {
		return f.Code
	}
	return ""
}

// freezable creates ann with a balance, four flagged deposits of hers, one for each freeze, and a
// treasury with gas and tokens.
func freezable(t *testing.T) (s *service, flagged []string) {
	const coin = 1_000_000_000_000_000_000
	thief, rich := sim.Address("thief"), sim.Address("rich")
	s = newServiceWith(t, risk.Policy{Providers: lister{thief}, UnknownAs: risk.TreatUnknownAsHold, Grace: time.Hour})
	s.must(s.db.InSystem(s.ctx, func(ctx context.Context, tx pg.Tx) error {
		_, err := org.ChangeSettings(ctx, tx, audit.Operator("op_1"), s.org, org.Changes{
			"screeningSeverityThreshold": json.RawMessage(`"MEDIUM"`),
			"screeningUsdThreshold":      json.RawMessage(`"0.01"`),
		})
		return err
	}))
	treasury, err := s.book.Treasury(s.ctx, s.org, chain.EVM)
	s.must(err)
	s.net.Mint(rich, signertest.Token, money.Units(1_000_000_000))
	s.net.Mint(thief, signertest.Token, money.Units(1_000_000_000))
	s.net.Mint(rich, "", money.Units(10*coin))
	ann := s.address("ann")
	s.address("bob")
	s.net.Pay(rich, treasury.Address, "", coin)
	s.net.Pay(rich, ann, signertest.Token, 500_000_000)
	for n := range uint64(4) {
		s.net.Pay(thief, ann, signertest.Token, 1_000_000+n)
	}
	s.work(24) // until the sweep has ended
	s.owed("ann", 1, 500_000_000)
	s.must(s.db.ReadOrg(s.ctx, s.org, func(ctx context.Context, tx pg.Tx) error {
		held, err := deposit.List(ctx, tx, s.org, deposit.Filter{Status: "FLAGGED"}, pagination.Page{})
		for _, d := range held.Items {
			flagged = append(flagged, d.ID)
		}
		return err
	}))
	if len(flagged) != 4 {
		t.Fatalf("got %d flagged, want 4", len(flagged))
	}
	return s, flagged
}

// Rules OP-5, CUS-6, TR-8 and WD-38: what each freeze stops from its commit on, and what it does
// not. Payments that are not the customer's, such as the return of a deposit or a sweep to the
// treasury, go on while the customer is frozen.
func TestEachFreezeStopsAtOnceWhatItNames(t *testing.T) {
	t.Parallel()
	s, flagged := freezable(t)
	// In addition to the service's sweeper, which plans no sweep of so small an amount.
	sweeper := sweep.New(s.db, s.net.ToChain(), s.book, price.Fixed{Clock: s.clock}, sweep.Config{},
		slog.New(slog.DiscardHandler))
	ann, err := s.book.Address(
		s.ctx, signer.WalletRef{OrgID: s.org, Family: chain.EVM, Purpose: wallet.CustomerDeposit, Subject: "ann"},
	)
	s.must(err)
	shop, rich := sim.Address("shop"), sim.Address("rich")
	operator := audit.Operator("op_1")
	transfers := transfer.New(s.db, wire.NewRecorder())
	status := func(orderID string) (status string) {
		t.Helper()
		s.must(s.db.ReadSystem(s.ctx, func(ctx context.Context, tx pg.Tx) error {
			return tx.QueryRow(
				ctx,
				`SELECT status || CASE WHEN status = 'QUEUED' THEN ' ' || coalesce(waiting_for, '') ELSE '' END FROM dispatch_orders WHERE order_id = $1`,
				orderID,
			).Scan(&status)
		}))
		return status
	}
	for n, c := range []struct {
		f       freeze.Freeze
		request fault.Code // of a withdrawal, a transfer and an approval
		move    fault.Code
		approve fault.Code
		returns bool // queued returns and sweeps wait, too
	}{
		{
			freeze.Freeze{Scope: freeze.ScopeCustomer, OrgID: s.org, CustomerID: "ann"},
			fault.CustomerFrozen,
			fault.CustomerFrozen, fault.CustomerFrozen, false,
		},
		{
			freeze.Freeze{Scope: freeze.ScopeOrganization, OrgID: s.org},
			fault.OrganizationFrozen,
			fault.OrganizationFrozen, fault.OrganizationFrozen, true,
		},
		{
			freeze.Freeze{Scope: freeze.ScopeChain, Chain: chain.Ethereum},
			fault.WithdrawalsSuspended,
			fault.WithdrawalsSuspended, fault.WithdrawalsSuspended, true,
		},
		{
			freeze.Freeze{Scope: freeze.ScopeAll},
			fault.WithdrawalsSuspended, fault.WithdrawalsSuspended,
			fault.WithdrawalsSuspended, true,
		},
	} {
		name := string(c.f.Scope)
		s.net.Pay(rich, ann.Address, "", 1_000_000_000_000_000)
		s.work(6)
		// Orders that are in the queue when the freeze is created.
		pays := s.withdraw("ann", 1, "1000000", shop, false)
		held := s.withdraw("ann", 1, "2000000", shop, true)
		_, err := s.flags.Reject(s.ctx, flagged[n], deposit.Actor{Actor: operator}, "")
		s.must(err)
		if ok, err := sweeper.SweepWallet(s.ctx, ann.ID, 2); err != nil || !ok {
			t.Fatalf("%s: sweep: got %v, %v, want one planned", name, ok, err)
		}
		var sends, sweeps string
		s.must(s.db.ReadSystem(s.ctx, func(ctx context.Context, tx pg.Tx) error {
			return tx.QueryRow(ctx,
				`SELECT (SELECT order_id FROM dispatch_orders WHERE purpose = 'RETURN' AND status = 'QUEUED'),
				(SELECT order_id FROM dispatch_orders WHERE purpose = 'SWEEP' AND status = 'QUEUED')`).Scan(
				&sends, &sweeps,
			)
		}))
		c.f.Source, c.f.Reason, c.f.Actor = freeze.SourceOperator, "because of "+name, operator
		var put freeze.Freeze
		s.must(s.db.InSystem(s.ctx, func(ctx context.Context, tx pg.Tx) (err error) {
			put, _, err = freeze.CreateOrFind(ctx, tx, c.f)
			return err
		}))

		before := s.count(`SELECT count(*) FROM ledger_transfers`)
		_, _, err = s.pay.Request(s.ctx, s.org, withdrawal.Request{
			MintID: 1, CustomerID: "ann", Amount: "1000000", ToAddress: string(shop), Actor: audit.APIKey(s.org),
		})
		if got := codeOf(err); got != c.request {
			t.Errorf("%s: a withdrawal: got %v, want %s", name, err, c.request)
		}
		_, err = transfers.Request(s.ctx, s.org, transfer.Request{
			MintID: 1, Amount: "5", From: transfer.Party{CustomerID: new("ann")},
			To: transfer.Party{CustomerID: new("bob")}, IdempotencyKey: "k" + name, Actor: audit.APIKey(s.org),
		})
		if got := codeOf(err); got != c.move {
			t.Errorf("%s: a transfer: got %v, want %s", name, err, c.move)
		}
		_, err = s.pay.Approve(s.ctx, s.org, held, audit.User("usr_1"))
		if got := codeOf(err); got != c.approve {
			t.Errorf("%s: an approval: got %v, want %s", name, err, c.approve)
		}
		if after := s.count(`SELECT count(*) FROM ledger_transfers`); after != before {
			t.Errorf("%s: %d postings more, want none", name, after-before)
		}
		s.work(3)
		for what, o := range map[string]struct {
			id    string
			stops bool
		}{"payment": {pays, true}, "return": {sends, c.returns}, "sweep": {sweeps, c.returns}} {
			if got := status(o.id); (got == "QUEUED FREEZE") != o.stops {
				t.Errorf("%s: a %s in the queue is %s, stopped: want %t", name, what, got, o.stops)
			}
		}
		if n := s.count(
			`SELECT count(*) FROM audit_log WHERE action = 'freeze.put' AND resource_id = $1 AND actor_id = 'op_1'`,
			put.ID,
		); n != 1 {
			t.Errorf("%s: got %d audit rows of who put it, want one", name, n)
		}

		s.must(s.db.InSystem(s.ctx, func(ctx context.Context, tx pg.Tx) error {
			_, err := freeze.LiftByOperator(ctx, tx, put.ID, operator)
			return err
		}))
		if n := s.count(
			`SELECT count(*) FROM audit_log WHERE action = 'freeze.lifted' AND resource_id = $1 AND actor_id = 'op_1'`,
			put.ID,
		); n != 1 {
			t.Errorf("%s: got %d audit rows of who lifted it, want one", name, n)
		}
		_, err = s.pay.Approve(s.ctx, s.org, held, audit.User("usr_1"))
		s.must(err)
		s.work(40)
		for what, id := range map[string]string{
			"payment": pays, "approved one": held, "return": sends, "sweep": sweeps,
		} {
			if got := status(id); got != "PAID" {
				t.Errorf("%s, lifted: the %s is %s, want PAID", name, what, got)
			}
		}
	}
	s.look("all freezes")
}
