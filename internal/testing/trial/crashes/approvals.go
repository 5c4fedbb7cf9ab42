package crashes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/member"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// secondApprover is the e-mail address of a second person, next to the one of the local world.
const secondApprover = "second@approvers.test"

// requestHeldPayment requests a payment that a person has to approve.
func (s *cellRun) requestHeldPayment(ctx context.Context) (*payment, error) {
	p := s.newPayment()
	p.body["requireApproval"] = true
	return p, s.requestPayment(ctx, p)
}

// decideByCommand starts a process in which a person decides about a payment.
func (s *cellRun) decideByCommand(verb, email string, p *payment) (*process, error) {
	return s.startCommand("withdrawals", verb, "--as", email, p.created.WithdrawalID)
}

func (s *cellRun) ownerEmail() string { return s.world.Info.Users[0].Email }

// playThroughCommand starts a command that reaches the point. There the command dies, loses its
// connection, or waits while the fault happens. atPoint, unless nil, runs while the command waits.
func (s *cellRun) playThroughCommand(ctx context.Context, start func() (*process, error)) error {
	file, action := s.point.sourceName(), "wait"
	switch {
	case s.fault == Kill && s.atPoint == nil:
		action = "kill"
	case s.point.commit && (s.fault == Cut || s.fault == Postgres):
		file += ".commit"
	}
	if err := s.armFailpoint(file, action); err != nil {
		return err
	}
	first, err := start()
	if err != nil {
		return err
	}
	err = s.waitReached(ctx, file)
	if err == nil && s.atPoint != nil {
		err = s.atPoint(ctx)
	}
	if err != nil {
		return errors.Join(err, first.killProcess(), fmt.Errorf("it said %s", first.log))
	}
	s.reached = true
	switch {
	case action == "kill":
		err = first.waitKilled(ctx)
	case s.fault == Kill:
		err = first.killProcess()
	case file != s.point.sourceName():
		err = s.loseCommitAnswer(ctx, file)
	default:
		err = s.inflictFault(ctx, func() error { return s.releaseFailpoint(file) })
	}
	if err != nil {
		return errors.Join(err, first.killProcess())
	}
	<-first.exited
	return nil
}

// readStatus reads the status of a payment.
func (s *cellRun) readStatus(ctx context.Context, p *payment) (string, error) {
	_, err := s.callAPI(ctx, http.MethodGet, "/withdrawals/"+p.created.WithdrawalID, nil, &p.current)
	return p.current.Status, err
}

// decideUntilDone repeats a command until the payment no longer waits.
func (s *cellRun) decideUntilDone(ctx context.Context, p *payment, repeat func() (*process, error)) error {
	return waitUntil(ctx, "the decision has come through", sceneMax, func(ctx context.Context) (bool, error) {
		if status, err := s.readStatus(ctx, p); err != nil || status != "AWAITING_APPROVAL" {
			return err == nil, err
		}
		c, err := repeat()
		if err != nil {
			return false, err
		}
		<-c.exited
		return false, c.err()
	})
}

// checkDecidedOnce checks that one decision ended the wait of a payment.
func (s *cellRun) checkDecidedOnce(ctx context.Context, p *payment) error {
	var n int
	err := s.queryRow(
		ctx,
		`SELECT count(*) FROM withdrawal_decisions WHERE withdrawal_id = $1 AND act IN ('APPROVED', 'REMOVED', 'CANCELLED')`,
		[]any{p.created.WithdrawalID}, &n,
	)
	if err == nil && n != 1 {
		err = fmt.Errorf("%s was decided about %d times, want once", p.created.WithdrawalID, n)
	}
	return err
}

// playApproval plays the approval of a payment by a command. The command dies or loses its
// connection, and is repeated until it succeeds.
func playApproval(ctx context.Context, s *cellRun) error {
	p, err := s.requestHeldPayment(ctx)
	if err != nil {
		return err
	}
	approve := func() (*process, error) { return s.decideByCommand("approve", s.ownerEmail(), p) }
	if err := s.playThroughCommand(ctx, approve); err != nil {
		return err
	}
	if err := s.decideUntilDone(ctx, p, approve); err != nil {
		return err
	}
	return errors.Join(s.waitPaymentEnd(ctx, p, paid), s.checkDecidedOnce(ctx, p))
}

// playApproveAndRemove plays two processes that decide about one payment at once. One waits in its
// transaction and the other waits for it when the fault comes. The payment ends in one way.
func playApproveAndRemove(ctx context.Context, s *cellRun) error {
	p, err := s.requestHeldPayment(ctx)
	if err != nil {
		return err
	}
	var rival *process
	s.atPoint = func(ctx context.Context) (err error) {
		if rival, err = s.decideByCommand("remove", s.ownerEmail(), p); err != nil {
			return err
		}
		return s.waitLockWaiter(ctx)
	}
	err = s.playThroughCommand(ctx, func() (*process, error) { return s.decideByCommand("approve", s.ownerEmail(), p) })
	if rival != nil {
		<-rival.exited
	}
	if err != nil {
		return err
	}
	if err := s.decideUntilDone(
		ctx, p, func() (*process, error) { return s.decideByCommand("remove", s.ownerEmail(), p) },
	); err != nil {
		return err
	}
	return errors.Join(s.waitPaymentEnd(ctx, p, paid, removed), s.checkDecidedOnce(ctx, p))
}

// addApprover creates the second person, once in a scenario.
func (s *cellRun) addApprover(ctx context.Context) error {
	return s.retryUntilDone(ctx, "there is a second person", func(ctx context.Context) error {
		err := s.tools.DB().InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
			_, err := member.Add(
				ctx, tx, audit.Operator("trial"), s.world.Info.OrganizationID, secondApprover, "Second",
				identity.Approver,
			)
			return err
		})
		if fault.HasCode(err, fault.InvalidState) {
			return nil
		}
		return err
	})
}

// playTwoApprovals plays a payment that needs two people, who approve at once. The first waits in
// its transaction and the second waits for it when the fault comes. Each counts once, and only both
// together release the payment.
func playTwoApprovals(ctx context.Context, s *cellRun) error {
	if err := errors.Join(
		s.addApprover(ctx), s.changeSettings(ctx, org.Changes{"approvalQuorum": json.RawMessage("2")}),
	); err != nil {
		return err
	}
	p, err := s.requestHeldPayment(ctx)
	if err := errors.Join(err, s.changeSettings(ctx, org.Changes{"approvalQuorum": json.RawMessage("1")})); err != nil {
		return err
	}
	var rival *process
	s.atPoint = func(ctx context.Context) (err error) {
		if rival, err = s.decideByCommand("approve", secondApprover, p); err != nil {
			return err
		}
		return s.waitLockWaiter(ctx)
	}
	approve := func() (*process, error) { return s.decideByCommand("approve", s.ownerEmail(), p) }
	err = s.playThroughCommand(ctx, approve)
	if rival != nil {
		<-rival.exited
	}
	if err != nil {
		return err
	}
	turn := 0
	err = waitUntil(ctx, "both have approved", sceneMax, func(ctx context.Context) (bool, error) {
		status, err := s.readStatus(ctx, p)
		if err != nil || status != "AWAITING_APPROVAL" {
			return err == nil, err
		}
		approver := []string{s.ownerEmail(), secondApprover}[turn%2]
		turn++
		c, err := s.decideByCommand("approve", approver, p)
		if err != nil {
			return false, err
		}
		<-c.exited // a person who has approved is refused, and the other is next
		return false, c.err()
	})
	if err != nil {
		return err
	}
	var n, approvers int
	err = s.queryRow(
		ctx, `SELECT count(*), count(DISTINCT approver_id) FROM withdrawal_approvals WHERE withdrawal_id = $1`,
		[]any{p.created.WithdrawalID}, &n, &approvers,
	)
	if err != nil {
		return err
	}
	if n != 2 || approvers != 2 {
		return fmt.Errorf("%d approvals of %d people let it go, want two of two", n, approvers)
	}
	return errors.Join(s.waitPaymentEnd(ctx, p, paid), s.checkDecidedOnce(ctx, p))
}

// playChangedPayee changes the payee of a payment in the database, after the person saw it and
// before the approval. The payment goes to no address until the row has the requested payee again.
func playChangedPayee(ctx context.Context, s *cellRun) error {
	p, err := s.requestHeldPayment(ctx)
	if err != nil {
		return err
	}
	setPayee := func(ctx context.Context, recipient string) error {
		return s.queryRow(ctx, fmt.Sprintf(`BEGIN; SET LOCAL session_replication_role = replica;
			UPDATE withdrawals SET to_address = '%s' WHERE withdrawal_id = '%s'; COMMIT`,
			recipient, p.created.WithdrawalID), nil)
	}
	thief := s.newUnusedAddress()
	s.atPoint = func(ctx context.Context) error { return setPayee(ctx, thief) }
	approve := func() (*process, error) { return s.decideByCommand("approve", s.ownerEmail(), p) }
	if err := s.playThroughCommand(ctx, approve); err != nil {
		return err
	}
	repeated, err := approve()
	if err != nil {
		return err
	}
	<-repeated.exited
	if status, err := s.readStatus(ctx, p); err != nil || status != "AWAITING_APPROVAL" || repeated.err() == nil {
		return errors.Join(
			err,
			fmt.Errorf(
				"the address belongs to another owner now: it is %s, and approving it ends with %w",
				status, orClean(repeated.err()),
			),
		)
	}
	if err := setPayee(ctx, p.recipient); err != nil {
		return err
	}
	if err := s.decideUntilDone(ctx, p, approve); err != nil {
		return err
	}
	return errors.Join(s.waitPaymentEnd(ctx, p, paid), s.checkDecidedOnce(ctx, p))
}
