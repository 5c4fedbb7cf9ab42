package crashes

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/cofferpay/coffer/internal/audit"
	coffer "github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/localworld/evmtoken"
	"github.com/cofferpay/coffer/internal/trial/oracle"
)

// nobody is an address that nothing was ever sent to.
func (s *stage) nobody() string {
	s.strangers++
	return s.net.nobody(fmt.Appendf(nil, "%s%s%d", s.dir, s.name, s.strangers))
}

// ofStranger is a deposit that a stranger is about to make, so that what goes back to
// its sender is told from everything else.
func (s *stage) ofStranger(ctx context.Context, units int64) (d *deposit, from string, err error) {
	d = s.newDeposit(units)
	who, err := s.net.stranger(ctx, s.token(), d.units)
	d.from = &who
	return d, who.address, err
}

// flagged makes a deposit while everybody is above the threshold, and waits until it is
// flagged.
func (s *stage) flagged(ctx context.Context, d *deposit) (depositID string, err error) {
	if err := s.addressed(ctx, d); err != nil {
		return "", err
	}
	if err := s.thresholds(ctx, `"NONE"`, `"0.01"`); err != nil {
		return "", err
	}
	err = s.send(ctx, d)
	if err == nil {
		err = until(ctx, "the deposit is flagged", sceneMax, func(ctx context.Context) (bool, error) {
			err := s.query(ctx, `SELECT coalesce(max(deposit_id), '') FROM deposits WHERE customer_id = $1 AND status = 'FLAGGED'`, []any{d.customer}, &depositID)
			return depositID != "", err
		})
	}
	return depositID, errors.Join(err, s.thresholds(context.WithoutCancel(ctx), "null", "null"))
}

// decide has the organization decide about a flagged deposit through the API, until it is
// answered. It may be asked again: the same decision is answered the same.
func (s *stage) decide(ctx context.Context, depositID, verb string) error {
	status, err := s.decideOnce(ctx, depositID, verb)
	if want := map[string]int{"approve": http.StatusOK, "reject": http.StatusAccepted}[verb]; err == nil && status != want {
		err = fmt.Errorf("POST /deposits/%s/%s: got %d, want %d", depositID, verb, status, want)
	}
	return err
}

func (s *stage) decideOnce(ctx context.Context, depositID, verb string) (status int, err error) {
	return s.call(ctx, http.MethodPost, "/deposits/"+depositID+"/"+verb, map[string]any{}, nil)
}

// deciding starts decide, which may be held up at a point.
func (s *stage) deciding(depositID, verb string) func(context.Context) error {
	return func(ctx context.Context) error {
		s.together(func() error { return s.decide(ctx, depositID, verb) })
		return nil
	}
}

// redirect has the operator send a flagged deposit to an address.
func (s *stage) redirect(ctx context.Context, depositID string, to string) error {
	_, err := s.tools.FlaggedDeposits().Redirect(ctx, depositID, coffer.Decider{Actor: audit.Operator("trial")},
		coffer.Redirection{To: to, Reason: coffer.ComplianceHold, Reference: s.name})
	return err
}

// becomes waits until a deposit has a status.
func (s *stage) becomes(ctx context.Context, depositID, status string) error {
	return until(ctx, "the deposit is "+status, drainMax, func(ctx context.Context) (bool, error) {
		var is string
		err := s.query(ctx, `SELECT status FROM deposits WHERE deposit_id = $1`, []any{depositID}, &is)
		if err == nil && is != status {
			err = fmt.Errorf("it is %s", is)
		}
		return err == nil, err
	})
}

// away waits until a flagged deposit was sent to an address, as the decision says, and
// is claimed there. left is what its customer has then.
func (s *stage) away(ctx context.Context, d *deposit, depositID, status string, to string, left *big.Int) error {
	if err := s.becomes(ctx, depositID, status); err != nil {
		return err
	}
	var hash string
	err := s.query(ctx, `SELECT tx_hash FROM deposit_resolutions WHERE deposit_id = $1 AND status = 'DONE'`, []any{depositID}, &hash)
	if err != nil {
		return err
	}
	s.sentAway = append(s.sentAway, oracle.Claim{ID: depositID, Asset: s.asset(), To: to, Amount: d.units, Paid: true, Tx: hash})
	return errors.Join(s.has(ctx, d.customer, left), s.resolvedOnce(ctx, depositID))
}

// resolvedOnce counts the resolutions of a deposit that stand.
func (s *stage) resolvedOnce(ctx context.Context, depositID string) error {
	var n int
	err := s.query(ctx, `SELECT count(*) FROM deposit_resolutions WHERE deposit_id = $1 AND status <> 'FAILED'`, []any{depositID}, &n)
	if err == nil && n != 1 {
		err = fmt.Errorf("%d resolutions of %s stand, want one", n, depositID)
	}
	return err
}

// stays asks the chain whether an address has what is flagged there, and nothing else.
func (s *stage) stays(ctx context.Context, d *deposit) error {
	return until(ctx, "the address has what is flagged, and no more", drainMax, func(ctx context.Context) (bool, error) {
		got, err := s.net.holds(ctx, s.token(), d.address)
		if err == nil && got.Cmp(d.units) != 0 {
			err = fmt.Errorf("it has %s, and %s is flagged", got, d.units)
		}
		return err == nil, err
	})
}

// approvedFlag is a flagged deposit that the organization approves, through the point: it
// is credited once.
func approvedFlag(ctx context.Context, s *stage) error {
	d := s.newDeposit(smallUnits)
	depositID, err := s.flagged(ctx, d)
	if err != nil {
		return err
	}
	if err := s.through(ctx, s.point.place(), s.deciding(depositID, "approve")); err != nil {
		return err
	}
	if err := s.returned(ctx); err != nil {
		return err
	}
	return errors.Join(s.decide(ctx, depositID, "approve"), s.credited(ctx, d), s.resolvedOnce(ctx, depositID))
}

// rejectedFlag is a flagged deposit that the organization sends back, through the point:
// its sender receives it once.
func rejectedFlag(ctx context.Context, s *stage) error {
	d, sender, err := s.ofStranger(ctx, smallUnits)
	if err != nil {
		return err
	}
	depositID, err := s.flagged(ctx, d)
	if err != nil {
		return err
	}
	if err := s.through(ctx, s.point.place(), s.deciding(depositID, "reject")); err != nil {
		return err
	}
	if err := s.returned(ctx); err != nil {
		return err
	}
	return errors.Join(s.decide(ctx, depositID, "reject"), s.away(ctx, d, depositID, "REJECTED", sender, new(big.Int)))
}

// fuelled is a deposit that is being sent back and whose gas has arrived: what passes a
// point of dispatch next is the return itself. go lets it go on.
func (s *stage) fuelled(ctx context.Context) (d *deposit, depositID string, sender string, goOn func(context.Context) error, err error) {
	if d, sender, err = s.ofStranger(ctx, smallUnits); err != nil {
		return d, "", sender, nil, err
	}
	if depositID, err = s.flagged(ctx, d); err != nil {
		return d, "", sender, nil, err
	}
	// A sweep of what an earlier cell left has its gas, too.
	if err := s.drained(ctx, drainMax); err != nil {
		return d, depositID, sender, nil, err
	}
	if s.site.chain.Pooled() { // the treasury's coins pay for it
		return d, depositID, sender, s.deciding(depositID, "reject"), nil
	}
	release, err := s.hold(ctx, "S03", func(ctx context.Context) error { return s.decide(ctx, depositID, "reject") })
	return d, depositID, sender, func(context.Context) error { return release() }, err
}

// returnedBy is a return that passes a point which everything that leaves passes.
func returnedBy(ctx context.Context, s *stage) error {
	d, depositID, sender, goOn, err := s.fuelled(ctx)
	if err != nil {
		return err
	}
	if err := s.through(ctx, s.point.place(), goOn); err != nil {
		return err
	}
	if err := s.returned(ctx); err != nil {
		return err
	}
	return s.away(ctx, d, depositID, "REJECTED", sender, new(big.Int))
}

// cancelledReturn is taken back while it waits in the pool: the deposit is in no queue any
// more, and the operator has what came back sent again, to the same address.
func cancelledReturn(ctx context.Context, s *stage) error {
	d, depositID, sender, goOn, err := s.fuelled(ctx)
	if err != nil {
		return err
	}
	s.still()
	if err := errors.Join(goOn(ctx), s.returned(ctx)); err != nil {
		return err
	}
	var orderID string
	err = until(ctx, "the return is out", sceneMax, func(ctx context.Context) (bool, error) {
		err := s.query(ctx, `
			SELECT o.order_id FROM deposit_resolutions r JOIN dispatch_orders o ON o.order_id = r.resolution_id
			WHERE r.deposit_id = $1 AND o.status = 'BROADCAST'`, []any{depositID}, &orderID)
		return err == nil, err
	})
	if err := errors.Join(err, s.cancel(ctx, orderID)); err != nil {
		return err
	}
	if err := s.filled(ctx, orderID); err != nil {
		return err
	}
	if err := s.through(ctx, s.point.place(), s.goOn); err != nil {
		return err
	}
	if err := s.becomes(ctx, depositID, "RESOLUTION_STUCK"); err != nil {
		return err
	}
	err = s.insist(ctx, "it is completed", func(ctx context.Context) error {
		_, err := s.tools.FlaggedDeposits().Complete(ctx, depositID, coffer.Decider{Actor: audit.Operator("trial")}, "the transaction was cancelled")
		return err
	})
	if err != nil {
		return err
	}
	return s.away(ctx, d, depositID, "REJECTED", sender, new(big.Int))
}

// lies are the points at which a provider does not say what it does with a return.
var lies = map[string]lie{"F05": unread, "F05b": refused, "F05c": swallow}

// liedReturn is a return whose provider does not say what it does.
func liedReturn(ctx context.Context, s *stage) error {
	d, depositID, sender, goOn, err := s.fuelled(ctx)
	if err != nil {
		return err
	}
	met, honestly := s.provider.tell(lies[s.point.name])
	defer honestly()
	if err := goOn(ctx); err != nil {
		return err
	}
	select {
	case <-met:
	case <-time.After(reachMax):
		return errors.New("nothing was sent")
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := s.inflict(ctx, func() error { honestly(); return nil }); err != nil {
		return err
	}
	if err := s.returned(ctx); err != nil {
		return err
	}
	return s.away(ctx, d, depositID, "REJECTED", sender, new(big.Int))
}

// blacklist has the token refuse an address, or take it back.
func (s *stage) blacklist(ctx context.Context, who string, on bool) error {
	act := "blacklist"
	if !on {
		act = "unBlacklist"
	}
	_, err := s.world.Chain().Do(ctx, common.HexToAddress(s.token()), nil, evmtoken.FiatToken.Call(act, common.HexToAddress(who)))
	return err
}

// revertedReturn is refused by the token after it was signed: it is in no queue any more,
// and the operator has it sent again, to the same address.
func revertedReturn(ctx context.Context, s *stage) error {
	d, depositID, sender, goOn, err := s.fuelled(ctx)
	if err != nil {
		return err
	}
	release, err := s.hold(ctx, "W12", goOn)
	if err != nil {
		return err
	}
	if err := s.blacklist(ctx, sender, true); err != nil {
		return err
	}
	if err := s.through(ctx, s.point.place(), func(context.Context) error { return release() }); err != nil {
		return err
	}
	if err := errors.Join(s.becomes(ctx, depositID, "RESOLUTION_STUCK"), s.stays(ctx, d)); err != nil {
		return err
	}
	for _, verb := range []string{"approve", "reject"} {
		if status, err := s.decideOnce(ctx, depositID, verb); err != nil || status != http.StatusConflict {
			return errors.Join(err, fmt.Errorf("%s of what is stuck: got %d, want 409", verb, status))
		}
	}
	if err := s.blacklist(ctx, sender, false); err != nil {
		return err
	}
	err = s.insist(ctx, "it is completed", func(ctx context.Context) error {
		_, err := s.tools.FlaggedDeposits().Complete(ctx, depositID, coffer.Decider{Actor: audit.Operator("trial")}, "the token takes it again")
		return err
	})
	if err != nil {
		return err
	}
	return s.away(ctx, d, depositID, "REJECTED", sender, new(big.Int))
}

// insist does something until it is done: the pool may hold connections of a server that
// is gone.
func (s *stage) insist(ctx context.Context, what string, do func(context.Context) error) error {
	return until(ctx, what, sceneMax, func(ctx context.Context) (bool, error) {
		err := do(ctx)
		return err == nil, err
	})
}

// redirectedFlag is a flagged deposit that is sent away through the point: its payee
// receives it once.
func redirectedFlag(ctx context.Context, s *stage) error {
	d := s.newDeposit(smallUnits)
	depositID, err := s.flagged(ctx, d)
	if err != nil {
		return err
	}
	to := s.nobody()
	if err := s.through(ctx, s.point.name, func(ctx context.Context) error { return s.redirect(ctx, depositID, to) }); err != nil {
		return err
	}
	return s.away(ctx, d, depositID, "REDIRECTED", to, new(big.Int))
}

// refusedReturn goes to somebody whom the token blocks: it is found out before anything
// is signed, the deposit is in the queue again, and goes elsewhere then.
func refusedReturn(ctx context.Context, s *stage) error {
	d := s.newDeposit(smallUnits)
	depositID, err := s.flagged(ctx, d)
	if err != nil {
		return err
	}
	foe, to := s.nobody(), s.nobody()
	if err := s.blacklist(ctx, foe, true); err != nil {
		return err
	}
	if err := s.through(ctx, s.point.name, func(ctx context.Context) error { return s.redirect(ctx, depositID, foe) }); err != nil {
		return err
	}
	if err := s.becomes(ctx, depositID, "FLAGGED"); err != nil {
		return err
	}
	var tried int
	if err := s.query(ctx, `SELECT count(*) FROM deposit_resolutions WHERE deposit_id = $1 AND status = 'FAILED'`, []any{depositID}, &tried); err != nil {
		return err
	}
	if tried != 1 {
		return fmt.Errorf("%d attempts are kept, want one", tried)
	}
	if err := s.insist(ctx, "it is redirected again", func(ctx context.Context) error { return s.redirect(ctx, depositID, to) }); err != nil {
		return err
	}
	return s.away(ctx, d, depositID, "REDIRECTED", to, new(big.Int))
}

// bothDecide has the organization approve and the operator reject at once, in two
// processes: the first stands in its transaction with the deposit locked, the second
// waits for that, and then the fault comes. One of them comes about.
func bothDecide(ctx context.Context, s *stage) error {
	d, sender, err := s.ofStranger(ctx, smallUnits)
	if err != nil {
		return err
	}
	depositID, err := s.flagged(ctx, d)
	if err != nil {
		return err
	}
	operator := func() (*process, error) {
		return s.command("deposits", "reject", "--operator", depositID)
	}
	var rival *process
	s.held = func(ctx context.Context) (err error) {
		if rival, err = operator(); err != nil {
			return err
		}
		return s.queues(ctx)
	}
	var said int
	err = s.through(ctx, s.point.place(), func(ctx context.Context) error {
		s.together(func() (err error) { said, err = s.decideOnce(ctx, depositID, "approve"); return err })
		return nil
	})
	if rival != nil {
		<-rival.done
	}
	if err := errors.Join(err, s.returned(ctx)); err != nil {
		return err
	}
	var is string
	if err := s.query(ctx, `SELECT status FROM deposits WHERE deposit_id = $1`, []any{depositID}, &is); err != nil {
		return err
	}
	switch {
	case said == http.StatusOK && is == "CREDITED" && rival.err() != nil:
		return errors.Join(s.credited(ctx, d), s.resolvedOnce(ctx, depositID))
	case said == http.StatusConflict && is != "CREDITED" && rival.err() == nil:
		return s.away(ctx, d, depositID, "REJECTED", sender, new(big.Int))
	}
	return fmt.Errorf("the organization was answered %d, the operator %w, and the deposit is %s", said, orClean(rival.err()), is)
}

// command gives a command in a process of its own.
func (s *stage) command(noun, verb string, args ...string) (*process, error) {
	return launch(noun+" "+verb, s.program, nil, s.env(), append([]string{noun, verb, "--config", s.file("service")}, args...)...)
}

// queues waits until somebody waits for a lock.
func (s *stage) queues(ctx context.Context) error {
	return until(ctx, "somebody waits for a lock", sceneMax, func(ctx context.Context) (bool, error) {
		var n int
		err := s.query(ctx, `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'`, nil, &n)
		return n > 0, err
	})
}

// flaggedBeside has a deposit at the same address flagged while a sweep of it is at the
// point. The sweep takes what was credited, and what is flagged stays until it is
// decided about: half of the cells approve it, half send it back.
func flaggedBeside(ctx context.Context, s *stage) error {
	d := s.newDeposit(largeUnits)
	if err := s.addressed(ctx, d); err != nil {
		return err
	}
	bad, sender, err := s.ofStranger(ctx, largeUnits+smallUnits)
	if err := errors.Join(err, s.drained(ctx, drainMax)); err != nil {
		return err
	}
	pay := func(ctx context.Context) error { return s.send(ctx, d) }
	if s.point.at == inSigner { // what the signer sees first is the gas
		release, err := s.hold(ctx, "S03", pay)
		if err != nil {
			return err
		}
		pay = func(context.Context) error { return release() }
	}
	var depositID string
	s.held = func(ctx context.Context) (err error) {
		depositID, err = s.flagged(ctx, bad)
		return err
	}
	if err := s.through(ctx, s.point.place(), pay); err != nil {
		return err
	}
	if err := errors.Join(s.booked(ctx, d), s.has(ctx, d.customer, d.units), s.stays(ctx, bad)); err != nil {
		return err
	}
	if s.fault == Kill || s.fault == Postgres {
		if err := s.decide(ctx, depositID, "approve"); err != nil {
			return err
		}
		d.credited = 2
		return errors.Join(s.booked(ctx, d), s.has(ctx, d.customer, new(big.Int).Add(d.units, bad.units)), s.emptied(ctx, d), s.resolvedOnce(ctx, depositID))
	}
	if err := s.decide(ctx, depositID, "reject"); err != nil {
		return err
	}
	return errors.Join(s.away(ctx, bad, depositID, "REJECTED", sender, d.units), s.emptied(ctx, d))
}
