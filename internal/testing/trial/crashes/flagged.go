package crashes

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/cofferpay/coffer/internal/control/audit"
	coffer "github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/localworld/evmtoken"
	"github.com/cofferpay/coffer/internal/testing/trial/oracle"
)

// newUnusedAddress returns an address that never received anything.
func (s *cellRun) newUnusedAddress() string {
	s.strangers++
	return s.net.unusedAddress(fmt.Appendf(nil, "%s%s%d", s.dir, s.name, s.strangers))
}

// newStrangerDeposit returns a deposit from a new external account, so that a scene can tell what
// returns to its sender from every other payment.
func (s *cellRun) newStrangerDeposit(ctx context.Context, units int64) (d *deposit, sender string, err error) {
	d = s.newDeposit(units)
	account, err := s.net.newStranger(ctx, s.contractAddress(), d.units)
	d.sender = &account
	return d, account.address, err
}

// flagDeposit makes a deposit while every sender is above the threshold, and waits until it is
// flagged.
func (s *cellRun) flagDeposit(ctx context.Context, d *deposit) (depositID string, err error) {
	if err := s.createDepositAddress(ctx, d); err != nil {
		return "", err
	}
	if err := s.setThresholds(ctx, `"NONE"`, `"0.01"`); err != nil {
		return "", err
	}
	err = s.sendDeposit(ctx, d)
	if err == nil {
		err = waitUntil(ctx, "the deposit is flagged", sceneMax, func(ctx context.Context) (bool, error) {
			err := s.queryRow(
				ctx, `SELECT coalesce(max(deposit_id), '') FROM deposits WHERE customer_id = $1 AND status = 'FLAGGED'`,
				[]any{d.customer}, &depositID,
			)
			return depositID != "", err
		})
	}
	return depositID, errors.Join(err, s.setThresholds(context.WithoutCancel(ctx), "null", "null"))
}

// decideDeposit decides about a flagged deposit as the organization, through the API, until it is
// answered. It may be repeated: the same decision has the same answer.
func (s *cellRun) decideDeposit(ctx context.Context, depositID, verb string) error {
	status, err := s.decideOnce(ctx, depositID, verb)
	if want := map[string]int{"approve": http.StatusOK, "reject": http.StatusAccepted}[verb]; err == nil &&
		status != want {
		err = fmt.Errorf("POST /deposits/%s/%s: got %d, want %d", depositID, verb, status, want)
	}
	return err
}

func (s *cellRun) decideOnce(ctx context.Context, depositID, verb string) (status int, err error) {
	return s.callAPI(ctx, http.MethodPost, "/deposits/"+depositID+"/"+verb, map[string]any{}, nil)
}

// startDeciding starts decideDeposit, which may wait at a point.
func (s *cellRun) startDeciding(depositID, verb string) func(context.Context) error {
	return func(ctx context.Context) error {
		s.startAsync(func() error { return s.decideDeposit(ctx, depositID, verb) })
		return nil
	}
}

// redirectDeposit redirects a flagged deposit to an address, as the operator.
func (s *cellRun) redirectDeposit(ctx context.Context, depositID string, recipient string) error {
	_, err := s.tools.Deposits.Redirect(ctx, depositID, coffer.Actor{Actor: audit.Operator("trial")},
		coffer.Redirection{ToAddress: recipient, Reason: coffer.ComplianceHold, Reference: s.name})
	return err
}

// waitDepositStatus waits until a deposit has a status.
func (s *cellRun) waitDepositStatus(ctx context.Context, depositID, status string) error {
	return waitUntil(ctx, "the deposit is "+status, drainMax, func(ctx context.Context) (bool, error) {
		var current string
		err := s.queryRow(ctx, `SELECT status FROM deposits WHERE deposit_id = $1`, []any{depositID}, &current)
		if err == nil && current != status {
			err = fmt.Errorf("it is %s", current)
		}
		return err == nil, err
	})
}

// waitSentAway waits until a flagged deposit was sent to an address, as the decision says, and
// claims it there. left is the customer's balance then.
func (s *cellRun) waitSentAway(
	ctx context.Context, d *deposit, depositID, status string, recipient string, left *big.Int,
) error {
	if err := s.waitDepositStatus(ctx, depositID, status); err != nil {
		return err
	}
	var hash string
	err := s.queryRow(
		ctx, `SELECT tx_hash FROM deposit_resolutions WHERE deposit_id = $1 AND status = 'DONE'`, []any{depositID},
		&hash,
	)
	if err != nil {
		return err
	}
	s.sentAway = append(s.sentAway, oracle.Claim{
		ID: depositID, Asset: s.assetID(), To: recipient, Amount: d.units, Paid: true, Tx: hash,
	})
	return errors.Join(s.checkBalance(ctx, d.customer, left), s.checkResolvedOnce(ctx, depositID))
}

// checkResolvedOnce checks that a deposit has one resolution that did not fail.
func (s *cellRun) checkResolvedOnce(ctx context.Context, depositID string) error {
	var n int
	err := s.queryRow(
		ctx, `SELECT count(*) FROM deposit_resolutions WHERE deposit_id = $1 AND status <> 'FAILED'`, []any{depositID},
		&n,
	)
	if err == nil && n != 1 {
		err = fmt.Errorf("%d resolutions of %s stand, want one", n, depositID)
	}
	return err
}

// waitBalanceKept asks the chain whether an address has the flagged amount and nothing else.
func (s *cellRun) waitBalanceKept(ctx context.Context, d *deposit) error {
	return waitUntil(ctx, "the address has what is flagged, and no more", drainMax, func(ctx context.Context) (
		bool, error,
	) {
		got, err := s.net.readBalance(ctx, s.contractAddress(), d.address)
		if err == nil && got.Cmp(d.units) != 0 {
			err = fmt.Errorf("it has %s, and %s is flagged", got, d.units)
		}
		return err == nil, err
	})
}

// playApprovedDeposit plays a flagged deposit that the organization approves, through the point: it
// is credited once.
func playApprovedDeposit(ctx context.Context, s *cellRun) error {
	d := s.newDeposit(smallUnits)
	depositID, err := s.flagDeposit(ctx, d)
	if err != nil {
		return err
	}
	if err := s.playThrough(ctx, s.point.sourceName(), s.startDeciding(depositID, "approve")); err != nil {
		return err
	}
	if err := s.waitAsync(ctx); err != nil {
		return err
	}
	return errors.Join(
		s.decideDeposit(ctx, depositID, "approve"), s.waitCredited(ctx, d), s.checkResolvedOnce(ctx, depositID),
	)
}

// playRejectedDeposit plays a flagged deposit that the organization rejects, through the point: its
// sender receives it once.
func playRejectedDeposit(ctx context.Context, s *cellRun) error {
	d, sender, err := s.newStrangerDeposit(ctx, smallUnits)
	if err != nil {
		return err
	}
	depositID, err := s.flagDeposit(ctx, d)
	if err != nil {
		return err
	}
	if err := s.playThrough(ctx, s.point.sourceName(), s.startDeciding(depositID, "reject")); err != nil {
		return err
	}
	if err := s.waitAsync(ctx); err != nil {
		return err
	}
	return errors.Join(
		s.decideDeposit(ctx, depositID, "reject"), s.waitSentAway(ctx, d, depositID, "REJECTED", sender, new(big.Int)),
	)
}

// prepareReturn prepares a deposit whose return has its gas: the next order that reaches a point of
// dispatch is the return itself. goOn releases it.
func (s *cellRun) prepareReturn(
	ctx context.Context,
) (d *deposit, depositID string, sender string, goOn func(context.Context) error, err error) {
	if d, sender, err = s.newStrangerDeposit(ctx, smallUnits); err != nil {
		return d, "", sender, nil, err
	}
	if depositID, err = s.flagDeposit(ctx, d); err != nil {
		return d, "", sender, nil, err
	}
	// A sweep of what an earlier cell left has its gas by then, too.
	if err := s.waitDrained(ctx, drainMax); err != nil {
		return d, depositID, sender, nil, err
	}
	if s.site.chain.IsUTXO() { // outputs of the treasury pay its fee
		return d, depositID, sender, s.startDeciding(depositID, "reject"), nil
	}
	release, err := s.holdAtFailpoint(
		ctx, "S03", func(ctx context.Context) error { return s.decideDeposit(ctx, depositID, "reject") },
	)
	return d, depositID, sender, func(context.Context) error { return release() }, err
}

// playReturn plays a return through a point that every outgoing payment passes.
func playReturn(ctx context.Context, s *cellRun) error {
	d, depositID, sender, goOn, err := s.prepareReturn(ctx)
	if err != nil {
		return err
	}
	if err := s.playThrough(ctx, s.point.sourceName(), goOn); err != nil {
		return err
	}
	if err := s.waitAsync(ctx); err != nil {
		return err
	}
	return s.waitSentAway(ctx, d, depositID, "REJECTED", sender, new(big.Int))
}

// playCancelledReturn cancels a return in the mempool. The deposit is in no queue any more, and the
// operator sends the amount again, to the same address.
func playCancelledReturn(ctx context.Context, s *cellRun) error {
	d, depositID, sender, goOn, err := s.prepareReturn(ctx)
	if err != nil {
		return err
	}
	s.holdBroadcasts()
	if err := errors.Join(goOn(ctx), s.waitAsync(ctx)); err != nil {
		return err
	}
	var orderID string
	err = waitUntil(ctx, "the return is out", sceneMax, func(ctx context.Context) (bool, error) {
		err := s.queryRow(ctx, `
			SELECT o.order_id FROM deposit_resolutions r JOIN dispatch_orders o ON o.order_id = r.resolution_id
			WHERE r.deposit_id = $1 AND o.status = 'BROADCAST'`, []any{depositID}, &orderID)
		return err == nil, err
	})
	if err := errors.Join(err, s.cancelOrder(ctx, orderID)); err != nil {
		return err
	}
	if err := s.waitCancelSent(ctx, orderID); err != nil {
		return err
	}
	if err := s.playThrough(ctx, s.point.sourceName(), s.releaseBroadcasts); err != nil {
		return err
	}
	if err := s.waitDepositStatus(ctx, depositID, "RESOLUTION_STUCK"); err != nil {
		return err
	}
	err = s.retryUntilDone(ctx, "it is completed", func(ctx context.Context) error {
		_, err := s.tools.Deposits.Complete(
			ctx, depositID, coffer.Actor{Actor: audit.Operator("trial")}, "the transaction was cancelled",
		)
		return err
	})
	if err != nil {
		return err
	}
	return s.waitSentAway(ctx, d, depositID, "REJECTED", sender, new(big.Int))
}

// returnFaults are the points at which a provider hides what it does with a return.
var returnFaults = map[string]providerFault{"F05": answerUnread, "F05b": answerError, "F05c": answerForgotten}

// playReturnProviderFault plays a return whose provider hides what it does.
func playReturnProviderFault(ctx context.Context, s *cellRun) error {
	d, depositID, sender, goOn, err := s.prepareReturn(ctx)
	if err != nil {
		return err
	}
	reached, restore := s.provider.armFault(returnFaults[s.point.name])
	defer restore()
	if err := goOn(ctx); err != nil {
		return err
	}
	select {
	case <-reached:
	case <-time.After(reachMax):
		return errors.New("nothing was sent")
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := s.inflictFault(ctx, func() error { restore(); return nil }); err != nil {
		return err
	}
	if err := s.waitAsync(ctx); err != nil {
		return err
	}
	return s.waitSentAway(ctx, d, depositID, "REJECTED", sender, new(big.Int))
}

// setBlacklisted lets the token block an address, or unblock it.
func (s *cellRun) setBlacklisted(ctx context.Context, account string, blacklisted bool) error {
	act := "blacklist"
	if !blacklisted {
		act = "unBlacklist"
	}
	_, err := s.world.EthereumNode().SendAndWait(
		ctx, common.HexToAddress(s.contractAddress()), nil,
		evmtoken.FiatToken.CallData(act, common.HexToAddress(account)),
	)
	return err
}

// playRevertedReturn plays a return that the token refuses after it was signed. The deposit is in
// no queue any more, and the operator sends it again, to the same address.
func playRevertedReturn(ctx context.Context, s *cellRun) error {
	d, depositID, sender, goOn, err := s.prepareReturn(ctx)
	if err != nil {
		return err
	}
	release, err := s.holdAtFailpoint(ctx, "W12", goOn)
	if err != nil {
		return err
	}
	if err := s.setBlacklisted(ctx, sender, true); err != nil {
		return err
	}
	if err := s.playThrough(ctx, s.point.sourceName(), func(context.Context) error { return release() }); err != nil {
		return err
	}
	if err := errors.Join(
		s.waitDepositStatus(ctx, depositID, "RESOLUTION_STUCK"), s.waitBalanceKept(ctx, d),
	); err != nil {
		return err
	}
	for _, verb := range []string{"approve", "reject"} {
		if status, err := s.decideOnce(ctx, depositID, verb); err != nil || status != http.StatusConflict {
			return errors.Join(err, fmt.Errorf("%s of what is stuck: got %d, want 409", verb, status))
		}
	}
	if err := s.setBlacklisted(ctx, sender, false); err != nil {
		return err
	}
	err = s.retryUntilDone(ctx, "it is completed", func(ctx context.Context) error {
		_, err := s.tools.Deposits.Complete(
			ctx, depositID, coffer.Actor{Actor: audit.Operator("trial")}, "the token takes it again",
		)
		return err
	})
	if err != nil {
		return err
	}
	return s.waitSentAway(ctx, d, depositID, "REJECTED", sender, new(big.Int))
}

// retryUntilDone repeats an attempt until it succeeds: the pool may have connections of a server
// that is gone.
func (s *cellRun) retryUntilDone(ctx context.Context, title string, attempt func(context.Context) error) error {
	return waitUntil(ctx, title, sceneMax, func(ctx context.Context) (bool, error) {
		err := attempt(ctx)
		return err == nil, err
	})
}

// playRedirectedDeposit plays a flagged deposit that is redirected through the point: its payee
// receives it once.
func playRedirectedDeposit(ctx context.Context, s *cellRun) error {
	d := s.newDeposit(smallUnits)
	depositID, err := s.flagDeposit(ctx, d)
	if err != nil {
		return err
	}
	recipient := s.newUnusedAddress()
	if err := s.playThrough(
		ctx, s.point.name, func(ctx context.Context) error { return s.redirectDeposit(ctx, depositID, recipient) },
	); err != nil {
		return err
	}
	return s.waitSentAway(ctx, d, depositID, "REDIRECTED", recipient, new(big.Int))
}

// playRefusedReturn redirects a deposit to an address that the token blocks. Dispatch finds that
// out before anything is signed. The deposit is in the queue again, and is then redirected
// elsewhere.
func playRefusedReturn(ctx context.Context, s *cellRun) error {
	d := s.newDeposit(smallUnits)
	depositID, err := s.flagDeposit(ctx, d)
	if err != nil {
		return err
	}
	foe, recipient := s.newUnusedAddress(), s.newUnusedAddress()
	if err := s.setBlacklisted(ctx, foe, true); err != nil {
		return err
	}
	if err := s.playThrough(
		ctx, s.point.name, func(ctx context.Context) error { return s.redirectDeposit(ctx, depositID, foe) },
	); err != nil {
		return err
	}
	if err := s.waitDepositStatus(ctx, depositID, "FLAGGED"); err != nil {
		return err
	}
	var tried int
	if err := s.queryRow(
		ctx, `SELECT count(*) FROM deposit_resolutions WHERE deposit_id = $1 AND status = 'FAILED'`, []any{depositID},
		&tried,
	); err != nil {
		return err
	}
	if tried != 1 {
		return fmt.Errorf("%d attempts are kept, want one", tried)
	}
	if err := s.retryUntilDone(
		ctx, "it is redirected again",
		func(ctx context.Context) error { return s.redirectDeposit(ctx, depositID, recipient) },
	); err != nil {
		return err
	}
	return s.waitSentAway(ctx, d, depositID, "REDIRECTED", recipient, new(big.Int))
}

// playTwoDecisions lets the organization approve and the operator reject at once, in two processes.
// The first waits in its transaction with the deposit locked, the second waits for that, and then
// the fault comes. One of the two takes effect.
func playTwoDecisions(ctx context.Context, s *cellRun) error {
	d, sender, err := s.newStrangerDeposit(ctx, smallUnits)
	if err != nil {
		return err
	}
	depositID, err := s.flagDeposit(ctx, d)
	if err != nil {
		return err
	}
	operator := func() (*process, error) {
		return s.startCommand("deposits", "reject", "--operator", depositID)
	}
	var rival *process
	s.atPoint = func(ctx context.Context) (err error) {
		if rival, err = operator(); err != nil {
			return err
		}
		return s.waitLockWaiter(ctx)
	}
	var status int
	err = s.playThrough(ctx, s.point.sourceName(), func(ctx context.Context) error {
		s.startAsync(func() (err error) { status, err = s.decideOnce(ctx, depositID, "approve"); return err })
		return nil
	})
	if rival != nil {
		<-rival.exited
	}
	if err := errors.Join(err, s.waitAsync(ctx)); err != nil {
		return err
	}
	var depositStatus string
	if err := s.queryRow(
		ctx, `SELECT status FROM deposits WHERE deposit_id = $1`, []any{depositID}, &depositStatus,
	); err != nil {
		return err
	}
	switch {
	case status == http.StatusOK && depositStatus == "CREDITED" && rival.err() != nil:
		return errors.Join(s.waitCredited(ctx, d), s.checkResolvedOnce(ctx, depositID))
	case status == http.StatusConflict && depositStatus != "CREDITED" && rival.err() == nil:
		return s.waitSentAway(ctx, d, depositID, "REJECTED", sender, new(big.Int))
	}
	return fmt.Errorf(
		"the organization was answered %d, the operator %w, and the deposit is %s", status, orClean(rival.err()),
		depositStatus,
	)
}

// startCommand runs a command in its own process.
func (s *cellRun) startCommand(noun, verb string, args ...string) (*process, error) {
	return launchProcess(
		noun+" "+verb, s.program, nil, s.failpointEnv(),
		append([]string{noun, verb, "--config", s.configPath("service")}, args...)...,
	)
}

// runCommand runs a command of the operator to its end.
func (t *scenario) runCommand(noun, verb string, args ...string) error {
	p, err := launchProcess(
		noun+" "+verb, t.program, nil, nil,
		append([]string{noun, verb, "--config", t.configPath("service")}, args...)...,
	)
	if err != nil {
		return err
	}
	<-p.exited
	if p.err() != nil {
		return fmt.Errorf("%s %s: %w\n%s", noun, verb, p.err(), p.log)
	}
	return nil
}

// waitLockWaiter waits until a session waits for a lock.
func (s *cellRun) waitLockWaiter(ctx context.Context) error {
	return waitUntil(ctx, "a transaction waits for a lock", sceneMax, func(ctx context.Context) (bool, error) {
		var n int
		err := s.queryRow(ctx, `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'`, nil, &n)
		return n > 0, err
	})
}

// playFlaggedSameAddress flags a deposit while a sweep from the same address is at the point. The
// sweep takes what was credited, and the flagged amount stays until it is decided: half of the
// cells approve it, half reject it.
func playFlaggedSameAddress(ctx context.Context, s *cellRun) error {
	d := s.newDeposit(largeUnits)
	if err := s.createDepositAddress(ctx, d); err != nil {
		return err
	}
	bad, sender, err := s.newStrangerDeposit(ctx, largeUnits+smallUnits)
	if err := errors.Join(err, s.waitDrained(ctx, drainMax)); err != nil {
		return err
	}
	pay := func(ctx context.Context) error { return s.sendDeposit(ctx, d) }
	if s.point.location == inSigner { // the signer sees the gas top-up first
		release, err := s.holdAtFailpoint(ctx, "S03", pay)
		if err != nil {
			return err
		}
		pay = func(context.Context) error { return release() }
	}
	var depositID string
	s.atPoint = func(ctx context.Context) (err error) {
		depositID, err = s.flagDeposit(ctx, bad)
		return err
	}
	if err := s.playThrough(ctx, s.point.sourceName(), pay); err != nil {
		return err
	}
	if err := errors.Join(
		s.waitBooked(ctx, d), s.checkBalance(ctx, d.customer, d.units), s.waitBalanceKept(ctx, bad),
	); err != nil {
		return err
	}
	if s.fault == Kill || s.fault == Postgres {
		if err := s.decideDeposit(ctx, depositID, "approve"); err != nil {
			return err
		}
		d.creditedCount = 2
		return errors.Join(
			s.waitBooked(ctx, d), s.checkBalance(ctx, d.customer, new(big.Int).Add(d.units, bad.units)),
			s.waitSwept(ctx, d), s.checkResolvedOnce(ctx, depositID),
		)
	}
	if err := s.decideDeposit(ctx, depositID, "reject"); err != nil {
		return err
	}
	return errors.Join(s.waitSentAway(ctx, bad, depositID, "REJECTED", sender, d.units), s.waitSwept(ctx, d))
}
