package withdrawal

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/signer"
)

// hookedVoidSigner calls a function once it has voided a payment, before the caller gets the
// answer.
type hookedVoidSigner struct {
	signer.Signer
	voided func()
}

func (a *hookedVoidSigner) VoidIntent(ctx context.Context, v signer.Void) (signer.Entry, error) {
	e, err := a.Signer.VoidIntent(ctx, v)
	a.voided()
	return e, err
}

// serviceThrough returns the service of a process whose connections to the database use a proxy.
// afterVoid runs between the signer's answer and the release.
func (h *testEnv) serviceThrough(p *pgtest.Proxy, afterVoid func()) *Service {
	h.t.Helper()
	d := pgtest.DatabaseOf(h.t, h.DB)
	d.URL = p.Start(h.t, d.URL)
	db := pgtest.Open(h.t, d, time.Now)
	s, v := *h.Service, *h.Voider
	s.DB, s.Voider = db, &v
	v.DB, v.Signer = db, &hookedVoidSigner{Signer: v.Signer, voided: afterVoid}
	v.Listeners = map[signer.Purpose]dispatch.VoidListener{signer.Payment: &s}
	return &s
}

// A process does not learn whether an end was committed: that of the decision or that of the
// release. The withdrawal ends once all the same: its hold is released once, it has one event, and
// the signer does not admit it any more. Rules WD-24, WD-43 and WD-50.
func TestAnEndWhoseCommitIsUnknownComesOnce(t *testing.T) {
	t.Parallel()
	sentBack := func(h *testEnv) Withdrawal {
		return h.requestReturned(h.newRequest(), &signer.Refusal{Code: signer.PolicyLimit})
	}
	waiting := func(h *testEnv) Withdrawal { return h.requestWaiting(dispatch.WaitProviders) }
	for mode, atCommit := range pgtest.CommitLosses {
		for name, c := range map[string]struct {
			made    func(h *testEnv) Withdrawal
			order   string // its status before the cancel
			release bool   // the COMMIT of the release is lost instead of the first one
		}{
			"the end of one that was never let go":      {made: (*testEnv).requestHeld, order: "none"},
			"the decision about one that waits":         {made: waiting, order: "QUEUED"},
			"the release of one that waits":             {made: waiting, order: "QUEUED", release: true},
			"the decision about one that was sent back": {made: sentBack, order: "REFUSED"},
			"the release of one that was sent back":     {made: sentBack, order: "REFUSED", release: true},
		} {
			t.Run(mode+", "+name, func(t *testing.T) {
				t.Parallel()
				h, f := newVoidEnv(t)
				id := c.made(h).ID
				p := &pgtest.Proxy{}
				s := h.serviceThrough(p, func() { p.CommitAction.Store(atCommit) })
				if !c.release {
					p.CommitAction.Store(atCommit)
				}
				_, err := s.Cancel(t.Context(), h.org, id, audit.APIKey(h.org))
				if c.release {
					wantFault(t, err, fault.CodeUnavailable)
				} else if !errors.Is(err, pg.ErrCommitUnknown) {
					t.Errorf("got %v, want %v", err, pg.ErrCommitUnknown)
				}
				taken, ended := c.release || atCommit == pgtest.AnswerLost, atCommit == pgtest.AnswerLost &&
					(c.release || c.order == "none")
				if got, want := h.orderStatus(id), map[bool]string{
					false: c.order, true: "WITHDRAWN",
				}[taken && c.order != "none"]; got != want {
					t.Errorf("order: got %s, want %s", got, want)
				}
				if got, want := h.loadBalance(ledger.Withdrawing), map[bool]string{
					false: "1000", true: "0",
				}[ended]; got != want {
					t.Errorf("held: got %s, want %s", got, want)
				}

				// Another process finishes the decided end, and the caller asks again.
				if err := h.Voider.RunPass(t.Context()); err != nil {
					t.Error(err)
				}
				if _, err = h.Cancel(t.Context(), h.org, id, audit.APIKey(h.org)); taken {
					wantFault(t, err, fault.InvalidState)
					if fault.Find(err).Extra["currentStatus"] != "CANCELLED" {
						t.Errorf("again: got %v, want the state that it has", fault.Find(err).Extra)
					}
				} else if err != nil {
					t.Errorf("again: got %v", err)
				}
				h.wantBalances("1000000", "0")
				if n := strings.Count(
					strings.Join(h.eventTypes(id), ","), "CUSTOMER_WITHDRAW_CANCELLED CANCELLED",
				); n != 1 {
					t.Errorf("its end was told %d times, want once: %v", n, h.eventTypes(id))
				}
				var releases int
				if err := pgtest.OwnerPool(t, h.DB).QueryRow(
					t.Context(),
					`SELECT count(*) FROM ledger_transfers WHERE cause_kind = 'WITHDRAWAL_END' AND cause_id = $1`,
					id,
				).Scan(&releases); err != nil || releases != 1 {
					t.Errorf("got %d releases %v, want one", releases, err)
				}
				if c.order != "none" {
					h.wantAdmitted(f, id, signer.RefusedVoid)
				}
			})
		}
	}
}
