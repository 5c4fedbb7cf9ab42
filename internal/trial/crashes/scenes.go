package crashes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net/http"
	"time"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/org"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/scan"
	"github.com/cofferpay/coffer/webhook"
)

const (
	smallUnits = 1_000_000     // not worth a sweep
	largeUnits = 5_000_000_000 // worth one
	sceneMax   = 30 * time.Second
)

// payment1 is a payment through the point.
func payment1(ctx context.Context, s *stage) error {
	ps := s.newPayments()
	if err := s.through(ctx, s.point.place(), s.pay(ps...)); err != nil {
		return err
	}
	return s.ended(ctx, ps, paid)
}

// moved1 is a transfer through the point, to a customer who was never seen. The
// same key shows the same transfer, whichever of its callers has made it.
func moved1(ctx context.Context, s *stage) error {
	to := "user_" + s.name
	body := map[string]any{
		"idempotencyKey": s.name, "mintId": s.mint.ID, "amount": fmt.Sprint(paymentUnits),
		"from": map[string]string{"customerId": rich}, "to": map[string]string{"customerId": to},
	}
	var made webhook.Transfer
	ask := func(ctx context.Context) error {
		status, err := s.call(ctx, http.MethodPost, "/transfers", body, &made)
		if err == nil && status != http.StatusCreated {
			err = fmt.Errorf("POST /transfers: got %d, want 201", status)
		}
		return err
	}
	err := s.through(ctx, s.point.name, func(ctx context.Context) error {
		s.together(func() error { return ask(ctx) })
		return nil
	})
	if err != nil {
		return err
	}
	if err := s.returned(ctx); err != nil {
		return err
	}
	first := made.TransferID
	if err := ask(ctx); err != nil {
		return err
	}
	if made.TransferID != first {
		return fmt.Errorf("the same key got %s and then %s", first, made.TransferID)
	}
	s.given.Add(s.given, big.NewInt(paymentUnits))
	return s.has(ctx, to, big.NewInt(paymentUnits))
}

// lied is a payment whose provider does not say what it does.
func lied(ctx context.Context, s *stage) error {
	ps := s.newPayments()
	met, honestly := s.provider.tell(lie(s.point.name))
	defer honestly()
	if err := s.pay(ps...)(ctx); err != nil {
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
	return s.ended(ctx, ps, paid)
}

// out waits until a payment's newest version, at least so many of them, was sent.
func (s *stage) out(ctx context.Context, p *payment, versions int) error {
	if err := s.returned(ctx); err != nil {
		return err
	}
	return until(ctx, fmt.Sprintf("version %d is out", versions), sceneMax, func(ctx context.Context) (bool, error) {
		lead, err := s.leads(ctx, p)
		if err != nil {
			return false, err
		}
		var n int
		var said string
		err = s.query(ctx, `
			SELECT count(*) FILTER (WHERE a.last_answer ~ 'accepted|already (imported|have)' AND o.status = 'BROADCAST'),
			       coalesce(string_agg(a.version || ' at ' || a.fee_cap || ': ' || coalesce(a.last_answer, ''), '; '), '')
			FROM dispatch_attempts a JOIN dispatch_orders o USING (order_id) WHERE order_id = $1`, []any{lead}, &n, &said)
		if err == nil && n < versions {
			err = errors.New(said)
		}
		return err == nil, err
	})
}

// still has what is sent wait; goOn ends that.
func (s *stage) still()                     { s.net.pool(s.town, true) }
func (s *stage) goOn(context.Context) error { s.net.pool(s.town, false); return nil }

// waiting asks for payments and leaves them in the pool.
func (s *stage) waiting(ctx context.Context, ps payments) error {
	s.still()
	if err := s.pay(ps...)(ctx); err != nil {
		return err
	}
	return s.out(ctx, ps[0], 1)
}

// replaced waits in the pool until its fee is raised.
func replaced(ctx context.Context, s *stage) error {
	ps := s.newPayments()
	s.meanwhile = s.goOn
	err := s.through(ctx, s.point.place(), func(ctx context.Context) error { return s.waiting(ctx, ps) })
	if err != nil {
		return err
	}
	return s.ended(ctx, ps, paid)
}

// olderMined has the first version mined after the second was sent.
func olderMined(ctx context.Context, s *stage) error {
	ps := s.newPayments()
	if err := s.waiting(ctx, ps); err != nil {
		return err
	}
	if err := s.out(ctx, ps[0], 2); err != nil {
		return err
	}
	s.provider.away(true)
	defer s.provider.away(false)
	lead, err := s.leads(ctx, ps[0])
	if err != nil {
		return err
	}
	var older, newer string
	var raw []byte
	err = s.query(ctx, `
		SELECT a.tx_hash, a.raw, (SELECT tx_hash FROM dispatch_attempts b WHERE b.order_id = a.order_id AND b.raw IS NOT NULL ORDER BY version DESC LIMIT 1)
		FROM dispatch_attempts a WHERE order_id = $1 AND version = 1`, []any{lead}, &older, &raw, &newer)
	if err != nil {
		return err
	}
	if err := s.net.instead(ctx, raw, newer); err != nil {
		return err
	}
	s.meanwhile = func(ctx context.Context) error { s.provider.away(false); return s.goOn(ctx) }
	if err := s.outside(ctx); err != nil {
		return err
	}
	if err := s.ended(ctx, ps, paid); err != nil {
		return err
	}
	for _, p := range ps {
		if p.last.TxHash == nil || *p.last.TxHash != older {
			return fmt.Errorf("the older version %s was mined, and the withdrawal names %v", older, p.last.TxHash)
		}
	}
	return nil
}

// forkedAway is in a block that a fork takes away.
func forkedAway(ctx context.Context, s *stage) error {
	ps := s.newPayments()
	if err := s.waiting(ctx, ps); err != nil {
		return err
	}
	s.held = func(ctx context.Context) error { return s.net.fork(ctx) }
	s.meanwhile = s.goOn
	err := s.through(ctx, s.point.place(), func(ctx context.Context) error { return s.net.mine(ctx) })
	if err != nil {
		return err
	}
	return s.ended(ctx, ps, paid)
}

// reverted is refused by the token after it was signed.
func reverted(ctx context.Context, s *stage) error {
	p := s.newPayment()
	release, err := s.hold(ctx, "W14", s.pay(p))
	if err != nil {
		return err
	}
	if err := s.net.refuse(ctx, s.token(), p.to); err != nil {
		return err
	}
	if err := s.through(ctx, s.point.name, func(context.Context) error { return release() }); err != nil {
		return err
	}
	return s.completed(ctx, p, failed)
}

func ptr[T any](v T) *T { return &v }

// cancelled is taken back while it waits in the pool: it ends either way, and
// in only one.
func cancelled(ctx context.Context, s *stage) error {
	ps := s.newPayments()
	if err := s.waiting(ctx, ps); err != nil {
		return err
	}
	s.meanwhile = s.goOn
	err := s.through(ctx, s.point.place(), func(ctx context.Context) error { return s.cancel(ctx, ps[0].made.WithdrawalID) })
	if err != nil {
		return err
	}
	return s.ended(ctx, ps, paid, failed)
}

// cancel has the operator take an order back.
func (s *stage) cancel(ctx context.Context, orderID string) error {
	desk := dispatch.New(s.tools.DB(), s.tools.Chains()[s.site.chain], nil, nil, nil, dispatch.Config{}, slog.New(slog.DiscardHandler))
	return until(ctx, "the cancel is ordered", sceneMax, func(ctx context.Context) (bool, error) {
		return desk.Cancel(ctx, orderID, audit.Operator("trial"))
	})
}

// filled waits until the providers have the cancel of an order's slot.
func (s *stage) filled(ctx context.Context, orderID string) error {
	return until(ctx, "the cancel is out", sceneMax, func(ctx context.Context) (bool, error) {
		var n int
		err := s.query(ctx, `SELECT count(*) FROM dispatch_attempts WHERE order_id = $1 AND act = 'CANCEL' AND last_answer ~ 'accepted|already'`, []any{orderID}, &n)
		return n > 0, err
	})
}

// taken is taken back while it waits in the pool, and the cancel is what is mined.
func taken(ctx context.Context, s *stage) error {
	ps := s.newPayments()
	if err := s.waiting(ctx, ps); err != nil {
		return err
	}
	lead, err := s.leads(ctx, ps[0])
	if err := errors.Join(err, s.cancel(ctx, lead)); err != nil {
		return err
	}
	if err := s.filled(ctx, lead); err != nil {
		return err
	}
	if err := s.through(ctx, s.point.place(), s.goOn); err != nil {
		return err
	}
	return s.ended(ctx, ps, failed)
}

// deposit1 is a deposit through the point.
func deposit1(ctx context.Context, s *stage) error {
	d := s.newDeposit(smallUnits)
	if err := s.addressed(ctx, d); err != nil {
		return err
	}
	if err := s.through(ctx, s.point.place(), func(ctx context.Context) error { return s.send(ctx, d) }); err != nil {
		return err
	}
	if err := s.net.topUp(ctx, s.town); err != nil {
		return err
	}
	return s.credited(ctx, d)
}

// screened1 is a deposit through the point whose sender is asked about: it is above the
// thresholds that its organization has for so long.
func screened1(ctx context.Context, s *stage) error {
	if err := s.thresholds(ctx, `"MEDIUM"`, `"0.01"`); err != nil {
		return err
	}
	return errors.Join(deposit1(ctx, s), s.thresholds(context.WithoutCancel(ctx), "null", "null"))
}

// thresholds are set as the operator sets them.
func (t *town) thresholds(ctx context.Context, severity, usd string) error {
	return t.set(ctx, org.Changes{"screeningSeverityThreshold": json.RawMessage(severity), "screeningUsdThreshold": json.RawMessage(usd)})
}

// set changes settings of the organization as the operator does. The pool may hold
// connections of a server that is gone, so it is tried until it is done.
func (t *town) set(ctx context.Context, c org.Changes) error {
	return until(ctx, "the settings are changed", sceneMax, func(ctx context.Context) (bool, error) {
		err := t.tools.DB().InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
			_, err := org.Change(ctx, tx, audit.Operator("trial"), t.world.Info.OrganizationID, c)
			return err
		})
		return err == nil, err
	})
}

// credited waits for the credit and compares the balance.
func (s *stage) credited(ctx context.Context, d *deposit) error {
	if err := s.booked(ctx, d); err != nil {
		return err
	}
	return s.has(ctx, d.customer, d.units)
}

// rescanned sets the walk back below a deposit while it is being credited.
func rescanned(ctx context.Context, s *stage) error {
	s.held = func(ctx context.Context) error {
		walker := scan.New(s.tools.DB(), scan.Config{Chain: s.site.chain, Reader: s.tools.Chains()[s.site.chain].Reader}, nil, slog.New(slog.DiscardHandler))
		var at uint64
		if err := s.query(ctx, `SELECT height - 8 FROM scan_cursors WHERE chain = $1`, []any{s.site.chain}, &at); err != nil {
			return err
		}
		return walker.Rewind(ctx, at, audit.Operator("crash trial"))
	}
	return screened1(ctx, s)
}

// twoWalkers has a second service alive: one walks, the other waits for it to fall.
func twoWalkers(ctx context.Context, s *stage) error {
	if err := s.startSecond(ctx); err != nil {
		return err
	}
	err := deposit1(ctx, s)
	if err == nil {
		err = s.drained(ctx, drainMax)
	}
	return errors.Join(err, s.endSecond())
}

// seen is a deposit in the newest block, shown and not final, with its bytes.
func (s *stage) seen(ctx context.Context, d *deposit) ([]byte, error) {
	if err := s.addressed(ctx, d); err != nil {
		return nil, err
	}
	s.still()
	if err := s.send(ctx, d); err != nil {
		return nil, err
	}
	if err := s.net.mine(ctx); err != nil {
		return nil, err
	}
	if err := s.shown(ctx, d, "CONFIRMING"); err != nil {
		return nil, err
	}
	return s.net.raw(ctx, d.tx)
}

func (s *stage) shown(ctx context.Context, d *deposit, status string) error {
	return until(ctx, "the deposit is "+status, sceneMax, func(ctx context.Context) (bool, error) {
		var is string
		err := s.query(ctx, `SELECT coalesce(string_agg(status, ','), '') FROM deposits WHERE customer_id = $1`, []any{d.customer}, &is)
		if err == nil && is != status {
			err = fmt.Errorf("it is %q", is)
		}
		return err == nil, err
	})
}

// forkFound is a deposit that a fork takes away and that comes back.
func forkFound(ctx context.Context, s *stage) error {
	d := s.newDeposit(smallUnits)
	raw, err := s.seen(ctx, d)
	if err != nil {
		return err
	}
	s.meanwhile = func(ctx context.Context) error {
		return errors.Join(s.net.again(ctx, raw), s.goOn(ctx))
	}
	err = s.through(ctx, s.point.name, func(ctx context.Context) error { return s.net.fork(ctx) })
	if err != nil {
		return err
	}
	return s.credited(ctx, d)
}

// includedAgain is in another block, at another place of it, after a fork.
func includedAgain(ctx context.Context, s *stage) error {
	d := s.newDeposit(smallUnits)
	raw, err := s.seen(ctx, d)
	if err != nil {
		return err
	}
	if err := s.net.fork(ctx); err != nil {
		return err
	}
	if err := s.shown(ctx, d, "ORPHANED"); err != nil {
		return err
	}
	s.meanwhile = s.goOn
	err = s.through(ctx, s.point.name, func(ctx context.Context) error {
		return s.net.fork(ctx, raw)
	})
	if err != nil {
		return err
	}
	return s.credited(ctx, d)
}

// undecodable is a block whose receipts are nonsense for a while: the walk
// stands before it, over the fault, and does not skip it.
func undecodable(ctx context.Context, s *stage) error {
	d := s.newDeposit(smallUnits)
	if err := s.addressed(ctx, d); err != nil {
		return err
	}
	s.provider.garble(d.address)
	defer s.provider.garble("")
	if err := s.send(ctx, d); err != nil {
		return err
	}
	block, err := s.net.height(ctx, d.tx)
	if err != nil {
		return err
	}
	standing := func() error {
		return until(ctx, "the walk stands before the block", sceneMax, func(ctx context.Context) (bool, error) {
			head, behind, err := s.net.head(ctx)
			if err != nil {
				return false, err
			}
			var at uint64
			if err := s.query(ctx, `SELECT height FROM scan_cursors WHERE chain = $1`, []any{s.site.chain}, &at); err != nil {
				return false, err
			}
			if at >= block {
				return false, fmt.Errorf("it went over block %d to %d", block, at)
			}
			return head > block+2*behind && at == block-1, nil
		})
	}
	if err := standing(); err != nil {
		return err
	}
	if err := s.outside(ctx); err != nil {
		return err
	}
	if err := standing(); err != nil {
		return err
	}
	s.provider.garble("")
	return s.credited(ctx, d)
}

// swept1 is a deposit that is worth a sweep, which needs gas first.
func swept1(ctx context.Context, s *stage) error {
	d := s.newDeposit(largeUnits)
	if err := s.addressed(ctx, d); err != nil {
		return err
	}
	if err := s.through(ctx, s.point.name, func(ctx context.Context) error { return s.send(ctx, d) }); err != nil {
		return err
	}
	if err := s.credited(ctx, d); err != nil {
		return err
	}
	return s.emptied(ctx, d)
}

// emptied waits until nothing is left at a deposit's address, as the chain says.
func (t *town) emptied(ctx context.Context, d *deposit) error {
	return until(ctx, "the address is swept", drainMax, func(ctx context.Context) (bool, error) {
		left, err := t.net.holds(ctx, t.token(), d.address)
		if err == nil && left.Sign() != 0 {
			err = fmt.Errorf("it holds %s", left)
		}
		return err == nil, err
	})
}

// sweptTwice gets a second deposit at the same address while the sweep of the
// first is about to be signed.
func sweptTwice(ctx context.Context, s *stage) error {
	d := s.newDeposit(largeUnits)
	if err := s.addressed(ctx, d); err != nil {
		return err
	}
	s.held = func(ctx context.Context) error {
		if err := s.send(ctx, d); err != nil {
			return err
		}
		d.credited = 2
		return s.booked(ctx, d)
	}
	if err := s.through(ctx, s.point.name, func(ctx context.Context) error { return s.send(ctx, d) }); err != nil {
		return err
	}
	if err := s.booked(ctx, d); err != nil {
		return err
	}
	if err := s.has(ctx, d.customer, new(big.Int).Mul(d.units, big.NewInt(2))); err != nil {
		return err
	}
	return s.emptied(ctx, d)
}

// endpointGone deletes an endpoint that has failed once: nothing more goes there.
func endpointGone(ctx context.Context, s *stage) error {
	var hook struct{ EndpointID, Secret string }
	path := "/gone-" + s.name
	s.receiver.expect(path, "", true)
	status, err := s.call(ctx, http.MethodPost, "/webhook-endpoints", map[string]any{
		"url": s.receiver.url + path, "events": []webhook.Type{webhook.CustomerWithdraw},
	}, &hook)
	if err != nil || status != http.StatusCreated {
		return fmt.Errorf("register a second webhook: %d %w", status, err)
	}
	s.receiver.expect(path, hook.Secret, true)
	p := s.newPayment()
	if err := s.pay(p)(ctx); err != nil {
		return err
	}
	err = until(ctx, "the second webhook was tried", reachMax, func(context.Context) (bool, error) { return s.receiver.count(path) > 0, nil })
	if err != nil {
		return err
	}
	if _, err := s.call(ctx, http.MethodDelete, "/webhook-endpoints/"+hook.EndpointID, nil, nil); err != nil {
		return err
	}
	if err := s.outside(ctx); err != nil {
		return err
	}
	if err := s.completed(ctx, p, paid); err != nil {
		return err
	}
	if n := s.receiver.count(path); n != 1 {
		return fmt.Errorf("the deleted endpoint got %d posts, want the one before", n)
	}
	return nil
}

// overslept is stopped with a delivery that was answered and not recorded, for
// longer than its lease: the second service delivers again, with the same body,
// and the first's record comes too late to count.
func overslept(ctx context.Context, s *stage) error {
	s.whole = leaseAndMore
	p := s.newPayment()
	if err := s.through(ctx, s.point.place(), s.pay(p)); err != nil {
		return err
	}
	if err := s.completed(ctx, p, paid); err != nil {
		return err
	}
	for _, eventID := range []webhook.Type{webhook.CustomerWithdraw} {
		var again int
		err := s.query(ctx, `SELECT coalesce(max(attempts), 0) FROM deliveries d JOIN events e USING (event_id) WHERE e.resource_id = $1 AND e.type = $2`,
			[]any{p.made.WithdrawalID, string(eventID)}, &again)
		if err != nil {
			return err
		}
		if again != 1 {
			return fmt.Errorf("%d attempts were recorded, want the one of who held the lease last", again)
		}
	}
	return nil
}
