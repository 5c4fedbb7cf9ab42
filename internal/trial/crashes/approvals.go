package crashes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/org"
	"github.com/cofferpay/coffer/internal/people"
	"github.com/cofferpay/coffer/internal/pg"
)

// secondApprover is a person beside the one of the local world.
const secondApprover = "second@approvers.test"

// heldPayment is a payment that a person has to allow.
func (s *stage) heldPayment(ctx context.Context) (*payment, error) {
	p := s.newPayment()
	p.body["requireApproval"] = true
	return p, s.accepted(ctx, p)
}

// byCommand has somebody decide about a payment in a process of its own.
func (s *stage) byCommand(verb, email string, p *payment) (*process, error) {
	return s.command("withdrawals", verb, "--as", email, p.made.WithdrawalID)
}

func (s *stage) owner() string { return s.world.Info.Users[0].Email }

// commanded has a command pass the point, where it dies, is cut off, or stands while the
// fault happens. held, unless nil, is done while it stands there.
func (s *stage) commanded(ctx context.Context, start func() (*process, error)) error {
	file, what := s.point.place(), "wait"
	switch {
	case s.fault == Kill && s.held == nil:
		what = "kill"
	case s.point.commit && (s.fault == Cut || s.fault == Postgres):
		file += ".commit"
	}
	if err := s.arm(file, what); err != nil {
		return err
	}
	first, err := start()
	if err != nil {
		return err
	}
	err = s.arrived(ctx, file)
	if err == nil && s.held != nil {
		err = s.held(ctx)
	}
	if err != nil {
		return errors.Join(err, first.kill(), fmt.Errorf("it said %s", first.log))
	}
	s.reached = true
	switch {
	case what == "kill":
		err = first.killed(ctx)
	case s.fault == Kill:
		err = first.kill()
	case file != s.point.place():
		err = s.unanswered(ctx, file)
	default:
		err = s.inflict(ctx, func() error { return s.release(file) })
	}
	if err != nil {
		return errors.Join(err, first.kill())
	}
	<-first.done
	return nil
}

// status asks how a payment stands.
func (s *stage) status(ctx context.Context, p *payment) (string, error) {
	_, err := s.call(ctx, http.MethodGet, "/withdrawals/"+p.made.WithdrawalID, nil, &p.last)
	return p.last.Status, err
}

// goes gives a command again until the payment does not wait any more.
func (s *stage) goes(ctx context.Context, p *payment, again func() (*process, error)) error {
	return until(ctx, "the decision has come through", sceneMax, func(ctx context.Context) (bool, error) {
		if is, err := s.status(ctx, p); err != nil || is != "AWAITING_APPROVAL" {
			return err == nil, err
		}
		c, err := again()
		if err != nil {
			return false, err
		}
		<-c.done
		return false, c.err()
	})
}

// decidedOnce counts what ended the wait of a payment.
func (s *stage) decidedOnce(ctx context.Context, p *payment) error {
	var n int
	err := s.query(ctx, `SELECT count(*) FROM withdrawal_decisions WHERE withdrawal_id = $1 AND act IN ('APPROVED', 'REMOVED', 'CANCELLED')`, []any{p.made.WithdrawalID}, &n)
	if err == nil && n != 1 {
		err = fmt.Errorf("%s was decided about %d times, want once", p.made.WithdrawalID, n)
	}
	return err
}

// approved is a payment that a person allows, with the command, which dies or
// is cut off; it is given again until it is done.
func approved(ctx context.Context, s *stage) error {
	p, err := s.heldPayment(ctx)
	if err != nil {
		return err
	}
	approve := func() (*process, error) { return s.byCommand("approve", s.owner(), p) }
	if err := s.commanded(ctx, approve); err != nil {
		return err
	}
	if err := s.goes(ctx, p, approve); err != nil {
		return err
	}
	return errors.Join(s.completed(ctx, p, paid), s.decidedOnce(ctx, p))
}

// approvedAndRemoved is decided by two processes at once, one of which stands in its
// transaction, and the other waits for it, when the fault comes. It ends in one way.
func approvedAndRemoved(ctx context.Context, s *stage) error {
	p, err := s.heldPayment(ctx)
	if err != nil {
		return err
	}
	var rival *process
	s.held = func(ctx context.Context) (err error) {
		if rival, err = s.byCommand("remove", s.owner(), p); err != nil {
			return err
		}
		return s.queues(ctx)
	}
	err = s.commanded(ctx, func() (*process, error) { return s.byCommand("approve", s.owner(), p) })
	if rival != nil {
		<-rival.done
	}
	if err != nil {
		return err
	}
	if err := s.goes(ctx, p, func() (*process, error) { return s.byCommand("remove", s.owner(), p) }); err != nil {
		return err
	}
	return errors.Join(s.completed(ctx, p, paid, removed), s.decidedOnce(ctx, p))
}

// hire makes the second person, once in a town.
func (s *stage) hire(ctx context.Context) error {
	return s.insist(ctx, "there is a second person", func(ctx context.Context) error {
		err := s.tools.DB().InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
			_, err := people.Add(ctx, tx, audit.Operator("trial"), s.world.Info.OrganizationID, secondApprover, "Second", people.Approver)
			return err
		})
		if fault.Is(err, fault.InvalidState) {
			return nil
		}
		return err
	})
}

// approvedByTwo needs two people, who approve at once: the first stands in its
// transaction, the second waits for it, when the fault comes. Each counts once, and only
// both together let it go.
func approvedByTwo(ctx context.Context, s *stage) error {
	if err := errors.Join(s.hire(ctx), s.set(ctx, org.Changes{"approvalQuorum": json.RawMessage("2")})); err != nil {
		return err
	}
	p, err := s.heldPayment(ctx)
	if err := errors.Join(err, s.set(ctx, org.Changes{"approvalQuorum": json.RawMessage("1")})); err != nil {
		return err
	}
	var rival *process
	s.held = func(ctx context.Context) (err error) {
		if rival, err = s.byCommand("approve", secondApprover, p); err != nil {
			return err
		}
		return s.queues(ctx)
	}
	one := func() (*process, error) { return s.byCommand("approve", s.owner(), p) }
	err = s.commanded(ctx, one)
	if rival != nil {
		<-rival.done
	}
	if err != nil {
		return err
	}
	turn := 0
	err = until(ctx, "both have approved", sceneMax, func(ctx context.Context) (bool, error) {
		is, err := s.status(ctx, p)
		if err != nil || is != "AWAITING_APPROVAL" {
			return err == nil, err
		}
		by := []string{s.owner(), secondApprover}[turn%2]
		turn++
		c, err := s.byCommand("approve", by, p)
		if err != nil {
			return false, err
		}
		<-c.done // whoever has approved is refused, and the other is next
		return false, c.err()
	})
	if err != nil {
		return err
	}
	var n, of int
	err = s.query(ctx, `SELECT count(*), count(DISTINCT approver_id) FROM withdrawal_approvals WHERE withdrawal_id = $1`, []any{p.made.WithdrawalID}, &n, &of)
	if err != nil {
		return err
	}
	if n != 2 || of != 2 {
		return fmt.Errorf("%d approvals of %d people let it go, want two of two", n, of)
	}
	return errors.Join(s.completed(ctx, p, paid), s.decidedOnce(ctx, p))
}

// wordsChanged has the payee of a payment changed in the database, by whoever can, after
// the person saw it and before the approval: it does not go out, to anybody, until it says
// again what was asked for.
func wordsChanged(ctx context.Context, s *stage) error {
	p, err := s.heldPayment(ctx)
	if err != nil {
		return err
	}
	payee := func(ctx context.Context, to string) error {
		return s.query(ctx, fmt.Sprintf(`BEGIN; SET LOCAL session_replication_role = replica;
			UPDATE withdrawals SET to_address = '%s' WHERE withdrawal_id = '%s'; COMMIT`, to, p.made.WithdrawalID), nil)
	}
	thief := s.nobody()
	s.held = func(ctx context.Context) error { return payee(ctx, thief) }
	approve := func() (*process, error) { return s.byCommand("approve", s.owner(), p) }
	if err := s.commanded(ctx, approve); err != nil {
		return err
	}
	again, err := approve()
	if err != nil {
		return err
	}
	<-again.done
	if is, err := s.status(ctx, p); err != nil || is != "AWAITING_APPROVAL" || again.err() == nil {
		return errors.Join(err, fmt.Errorf("it goes to somebody else now, is %s, and approving it ends with %w", is, orClean(again.err())))
	}
	if err := payee(ctx, p.to); err != nil {
		return err
	}
	if err := s.goes(ctx, p, approve); err != nil {
		return err
	}
	return errors.Join(s.completed(ctx, p, paid), s.decidedOnce(ctx, p))
}
