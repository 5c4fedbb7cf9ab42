package withdrawal

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/risk"
)

// fakeScreener is a provider that gives the configured answer.
type fakeScreener struct {
	mu       sync.Mutex
	severity risk.Severity
	err      error
	asked    int
}

func (*fakeScreener) Name() string             { return "ORACLE" }
func (*fakeScreener) Covers(_ chain.Name) bool { return true }

func (o *fakeScreener) Screen(context.Context, risk.Subject) (risk.Verdict, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked++
	if o.err != nil {
		return risk.Verdict{}, o.err
	}
	return risk.Verdict{
		Provider: "ORACLE", Severity: o.severity, IsKnown: o.severity != risk.Unknown,
		Categories: []string{"SANCTIONS"},
		GivenAt:    time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC),
	}, nil
}

func (o *fakeScreener) setAnswer(s risk.Severity, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.severity, o.err = s, err
}

func (o *fakeScreener) countCalls() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.asked
}

// newScreenedEnv returns an environment that screens destinations.
func newScreenedEnv(t *testing.T) (*testEnv, *fakeScreener) {
	t.Helper()
	h, o := newTestEnv(t), &fakeScreener{severity: risk.Low}
	h.Risk = risk.Policy{Providers: o, UnknownAs: risk.TreatUnknownAsHold}
	return h, o
}

// setSetting writes a setting of the organization.
func (h *testEnv) setSetting(name, value string) {
	h.t.Helper()
	h.inSystem(func(ctx context.Context, tx pg.Tx) error {
		_, err := org.ChangeSettings(ctx, tx, audit.Operator("test"), h.org, org.Changes{name: []byte(value)})
		return err
	})
}

func (h *testEnv) countTransfers() (n int) {
	h.t.Helper()
	if err := pgtest.OwnerPool(h.t, h.DB).QueryRow(
		h.t.Context(), `SELECT count(*) FROM ledger_transfers`,
	).Scan(&n); err != nil {
		h.t.Fatal(err)
	}
	return n
}

// wantReplay repeats the decision of every stored record of a withdrawal and compares it.
func (h *testEnv) wantReplay(withdrawalID string) {
	h.t.Helper()
	rows, err := pgtest.OwnerPool(h.t, h.DB).Query(
		h.t.Context(), `SELECT risk FROM withdrawal_decisions WHERE withdrawal_id = $1 AND risk IS NOT NULL`,
		withdrawalID,
	)
	if err != nil {
		h.t.Fatal(err)
	}
	defer rows.Close()
	n := 0
	for rows.Next() {
		var kept []byte
		if err := rows.Scan(&kept); err != nil {
			h.t.Fatal(err)
		}
		if _, err := risk.ReplayWithdrawal(kept); err != nil {
			h.t.Errorf("replay: %v", err)
		}
		n++
	}
	if n == 0 {
		h.t.Error("got no record of risk, want one with the decision")
	}
}

var errDown = risk.Unavailable("test: down")

// Every row is previewed, requested and looked up again. The gate decides the same for both, the
// stored record gives the same decision again, and only what passes is sent. Rules RISK-6, RISK-7,
// WD-31.
func TestADestinationIsScreenedBeforeAWithdrawalIsAccepted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		severity  risk.Severity
		err       error
		threshold string // the organization's, in JSON
		none      bool   // an installation without providers
		unknownAs risk.UnknownTreatment
		status    Status
		result    Result
		screening string
	}{
		"low": {
			severity: risk.Low, status: Processing, result: ResultPass, screening: "PASSED",
		},
		"high, as the threshold": {
			severity: risk.High, status: Processing, result: ResultPass, screening: "PASSED",
		},
		"severe": {
			severity: risk.Severe, status: Blocked, result: ResultBlock, screening: "BLOCKED",
		},
		"medium above the organization's own": {
			severity: risk.Medium, threshold: `"LOW"`, status: Blocked, result: ResultBlock, screening: "BLOCKED",
		},
		"severe within the organization's own": {
			severity: risk.Severe, threshold: `"SEVERE"`, status: Processing, result: ResultPass, screening: "PASSED",
		},
		"unknown": {
			severity: risk.Unknown, status: AwaitingApproval, result: ResultHold, screening: "UNAVAILABLE",
		},
		"unknown is low": {
			severity: risk.Unknown, unknownAs: risk.TreatUnknownAsLow, status: Processing, result: ResultPass,
			screening: "PASSED",
		},
		"down": {
			err: errDown, status: AwaitingApproval, result: ResultHold, screening: "UNAVAILABLE",
		},
		"an error of any other kind": {
			err: errors.New("boom"), status: AwaitingApproval, result: ResultHold, screening: "UNAVAILABLE",
		},
		"nonsense": {
			severity: "FINE", status: AwaitingApproval, result: ResultHold, screening: "UNAVAILABLE",
		},
		"no provider": {
			none: true, status: Processing, result: ResultNotConfigured, screening: "NOT_CONFIGURED",
		},
		"no provider and a threshold to screen": {
			none: true, threshold: `"HIGH"`, status: AwaitingApproval, result: ResultHold, screening: "UNAVAILABLE",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, o := newScreenedEnv(t)
			o.setAnswer(c.severity, c.err)
			if c.unknownAs != "" {
				h.Risk.UnknownAs = c.unknownAs
			}
			if c.none {
				h.Risk = risk.Policy{}
			}
			if c.threshold != "" {
				h.setSetting("withdrawSeverityThreshold", c.threshold)
			}
			key := "k"
			r := h.newRequest()
			r.IdempotencyKey = &key
			before, posted := h.dumpRows(), h.countTransfers()
			told, err := h.Preview(t.Context(), h.org, r)
			if err != nil || told.WouldBe != c.status {
				t.Fatalf("preview: got %v %v, want %v", told.WouldBe, err, c.status)
			}
			if got := h.dumpRows(); got != before {
				t.Errorf("after the preview: got %v, want %v", got, before)
			}
			w, _, err := h.Request(t.Context(), h.org, r)
			if c.status == Blocked {
				first := wantBlocked(t, err, c.severity)
				if h.countTransfers() != posted {
					t.Error("a blocked withdrawal posted something")
				}
				h.wantBalances("1000000", "0")
				w, err = h.ByID(t.Context(), h.org, first)
				if err != nil || w.Status != Blocked || w.RequiresApproval {
					t.Fatalf("got %+v %v, want a record that is BLOCKED", w, err)
				}
				_, replayed, err := h.Request(t.Context(), h.org, r)
				if again := wantBlocked(t, err, c.severity); again != first || replayed {
					t.Errorf("the same key: got %v, want %v", again, first)
				}
				other := r
				other.Amount = "2000"
				_, _, err = h.Request(t.Context(), h.org, other)
				wantFault(t, err, fault.IdempotencyConflict)
				h.wantEvents(first, "CUSTOMER_WITHDRAW_BLOCKED BLOCKED")
				if got := h.auditActions(first); !slices.Equal(got, []string{"withdrawal.blocked"}) {
					t.Errorf("audit: got %v, want the one row", got)
				}
				_, err = h.Approve(t.Context(), h.org, first, audit.Operator("ann"))
				wantFault(t, err, fault.InvalidState)
			} else if err != nil || string(w.Status) != string(c.status) {
				t.Fatalf("request: got %v %v, want %v", w.Status, err, c.status)
			}
			if c.status == AwaitingApproval {
				if !slices.Equal(reasonTexts(w.ApprovalReasons), []string{"RISK_REVIEW"}) ||
					h.orderStatus(w.ID) != "none" {
					t.Errorf(
						"got reasons %v and order %s, want RISK_REVIEW and none", w.ApprovalReasons,
						h.orderStatus(w.ID),
					)
				}
			}
			if w.Screening.Status != c.screening {
				t.Errorf("screening: got %v, want %v", w.Screening.Status, c.screening)
			}
			kept := h.loadDecisions(w.ID)[0].Gates
			i := slices.IndexFunc(kept, func(s Step) bool { return s.Gate == GateRisk })
			if kept[i].Result != c.result || renderSteps(t, kept) != renderSteps(t, told.Gates) {
				t.Errorf(
					"gates: got %s, want RISK %s and the preview's %s", renderSteps(t, kept), c.result,
					renderSteps(t, told.Gates),
				)
			}
			h.wantReplay(w.ID)
		})
	}
}

// wantBlocked checks a 451 and returns the id of its record.
func wantBlocked(t *testing.T, err error, severity risk.Severity) string {
	t.Helper()
	wantFault(t, err, fault.WithdrawalRiskBlocked)
	f := fault.Find(err)
	if f.Kind != fault.Blocked || f.Details["severity"] != string(severity) ||
		!slices.Equal(f.Details["categories"].([]string), []string{"SANCTIONS"}) {
		t.Errorf("got %v %v, want the severity and the categories", f.Kind, f.Details)
	}
	withdrawalID, _ := f.Extra["withdrawalId"].(string)
	return withdrawalID
}

func (h *testEnv) auditActions(withdrawalID string) (actions []string) {
	h.t.Helper()
	err := pgtest.OwnerPool(h.t, h.DB).QueryRow(
		h.t.Context(), `SELECT array_agg(action ORDER BY audit_id) FROM audit_log WHERE resource_id = $1`,
		withdrawalID,
	).Scan(&actions)
	if err != nil {
		h.t.Fatal(err)
	}
	return actions
}

// A provider does not see a request that is refused without it. 451 comes after every 4xx and
// before every hold.
func TestWhatIsRefusedAnywayIsNotScreened(t *testing.T) {
	t.Parallel()
	h, o := newScreenedEnv(t)
	o.setAnswer(risk.Severe, nil)
	for name, c := range map[string]struct {
		change func(*Request)
		want   fault.Code
	}{
		"below the minimum": {func(r *Request) { r.Amount = "9" }, fault.AmountBelowMinimum},
		"malformed address": {func(r *Request) { r.ToAddress = "0x1" }, fault.InvalidAddress},
		"nobody's address": {
			func(r *Request) { r.ToAddress = "0x" + strings.Repeat("0", 40) }, fault.DestinationNotAllowed,
		},
		"more than the balance": {func(r *Request) { r.Amount = "1000001" }, fault.InsufficientBalance},
		"unknown customer":      {func(r *Request) { r.CustomerID = "nobody" }, fault.InsufficientBalance},
	} {
		r := h.newRequest()
		c.change(&r)
		before := h.dumpRows()
		if _, _, err := h.Request(t.Context(), h.org, r); !fault.HasCode(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
		if _, err := h.Preview(t.Context(), h.org, r); !fault.HasCode(err, c.want) {
			t.Errorf("%s, asked first: got %v, want %v", name, err, c.want)
		}
		if got := h.dumpRows(); got != before {
			t.Errorf("%s: rows: got %v, want %v", name, got, before)
		}
	}
	if got := o.countCalls(); got != 0 {
		t.Errorf("asked %d times, want 0", got)
	}
	r := h.newRequest()
	r.RequireApproval = true
	_, _, err := h.Request(t.Context(), h.org, r)
	wantFault(t, err, fault.WithdrawalRiskBlocked)
}

// Screening also runs between the approval and the payment. Rule WD-32.
func TestAnApprovalScreensAgainAndSendsNothingThatNobodyLookedAt(t *testing.T) {
	t.Parallel()
	h, o := newScreenedEnv(t)
	ann := audit.Operator("ann")
	refuse := func(w Withdrawal, reasons ...string) {
		t.Helper()
		_, err := h.Approve(t.Context(), h.org, w.ID, ann)
		wantFault(t, err, fault.ApprovalRefused)
		now, err := h.ByID(t.Context(), h.org, w.ID)
		if err != nil || now.Status != AwaitingApproval ||
			!slices.Equal(reasonTexts(now.ApprovalReasons), reasons) || h.orderStatus(w.ID) != "none" {
			t.Errorf(
				"got %s %v, order %s, %v, want it to wait with %v", now.Status, now.ApprovalReasons,
				h.orderStatus(w.ID), err, reasons,
			)
		}
		h.wantReplay(w.ID)
	}
	approve := func(w Withdrawal) {
		t.Helper()
		if got, err := h.Approve(t.Context(), h.org, w.ID, ann); err != nil ||
			got.Status != Processing {
			t.Errorf("got %v %v, want PROCESSING", got.Status, err)
		}
	}

	severe := h.requestHeld()
	o.setAnswer(risk.Severe, nil)
	refuse(severe, "REQUIRE_APPROVAL", "RISK_REVIEW")
	refuse(severe, "REQUIRE_APPROVAL", "RISK_REVIEW") // however often
	if got := h.loadDecisions(severe.ID); len(got) != 3 || got[1].Act != ActApprovalRefused ||
		got[1].Actor.ID != "ann" {
		t.Errorf("got %+v, want each refusal in the record", got)
	}
	o.setAnswer(risk.Low, nil)
	approve(severe) // screening does not report it any more

	down := h.requestHeld()
	o.setAnswer("", errDown)
	refuse(down, "REQUIRE_APPROVAL", "RISK_REVIEW")
	refuse(down, "REQUIRE_APPROVAL", "RISK_REVIEW")
	o.setAnswer(risk.Unknown, nil)
	approve(down) // the provider answers, and an approver has seen that the address is unknown to it

	unknown := h.requestScreened(o)
	refuse(unknown, "REQUIRE_APPROVAL", "RISK_REVIEW") // no approver has seen it
	approve(unknown)

	o.setAnswer(risk.Low, nil)
	dear := h.requestHeld()
	empty := money.MustParseUSD("0")
	h.inSystem(func(ctx context.Context, tx pg.Tx) error {
		return org.SetWithdrawThreshold(ctx, tx, audit.Operator("op"), h.org, &empty)
	})
	refuse(dear, "REQUIRE_APPROVAL", "USD_THRESHOLD")
	h.Prices = nil
	refuse(dear, "REQUIRE_APPROVAL", "USD_THRESHOLD", "PRICE_UNAVAILABLE")
	approve(dear)
}

// requestScreened makes a held withdrawal whose address screens as low risk, and then as unknown.
func (h *testEnv) requestScreened(o *fakeScreener) Withdrawal {
	h.t.Helper()
	o.setAnswer(risk.Low, nil)
	w := h.requestHeld()
	o.setAnswer(risk.Unknown, nil)
	return w
}

// The approval allowlist skips the three holds of the interface, for an e-mail that is old enough,
// and nothing else. Rule WD-33.
func TestTheApprovalAllowlistSkipsTheFlagAndTheThresholdAndNothingElse(t *testing.T) {
	t.Parallel()
	h, o := newScreenedEnv(t)
	const email = "Älice@Example.com"
	edit := func(email string) {
		h.inSystem(func(ctx context.Context, tx pg.Tx) error {
			_, err := customer.Edit(ctx, tx, h.org, alice, audit.APIKey(h.org), customer.Change{Email: &email})
			return err
		})
	}
	edit(email)
	empty := money.MustParseUSD("0")
	h.inSystem(func(ctx context.Context, tx pg.Tx) error {
		return org.SetWithdrawThreshold(ctx, tx, audit.Operator("op"), h.org, &empty)
	})
	list := func(entries string) { h.setSetting("approvalAllowlist", entries) }
	flagged := func() Request {
		r := h.newRequest()
		r.RequireApproval = true
		return r
	}
	check := func(name string, r Request, want ...string) {
		t.Helper()
		told, err := h.Preview(t.Context(), h.org, r)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		w := h.mustRequest(r)
		if !slices.Equal(reasonTexts(w.ApprovalReasons), want) || (w.Status == Processing) != (len(want) == 0) ||
			string(told.WouldBe) != string(w.Status) {
			t.Errorf("%s: got %s %v (asked first: %s), want %v", name, w.Status, w.ApprovalReasons, told.WouldBe, want)
		}
	}
	both := []string{"REQUIRE_APPROVAL", "USD_THRESHOLD"}
	check("nobody is on the list", flagged(), both...)
	list(`[{"email":"älice@example.com"}]`)
	check("on the list", flagged())
	steps := h.loadDecisions(h.mustRequest(flagged()).ID)[0].Gates
	for _, s := range steps {
		if skipped := s.Gate == GateApproval || s.Gate == GateUSDThreshold; skipped != (s.Result == ResultSkipped) {
			t.Errorf("got %+v, want the two skipped and said so", s)
		}
	}
	list(`[{"email":"älice@example.com","active":false}]`)
	check("switched off", flagged(), both...)
	list(`[{"email":"älice@example.com","customerId":"bob"}]`)
	check("for somebody else", flagged(), both...)
	list(`[{"email":"älice@example.com","customerId":"alice"}]`)
	check("for this customer", flagged())
	edit("mallory@example.com")
	list(`[{"email":"mallory@example.com"},{"email":"älice@example.com"}]`)
	check("changed a moment ago", flagged(), both...)
	h.execAsOwner(`UPDATE customers SET email_changed_at = email_changed_at - interval '1 day 1 second'`)
	check("changed a day ago", flagged())

	prices := h.Prices
	h.Prices = nil
	check("no price", flagged())
	o.setAnswer("", errDown)
	check("screening is down", flagged(), "RISK_REVIEW")
	h.Prices = prices
	o.setAnswer(risk.Severe, nil)
	_, _, err := h.Request(t.Context(), h.org, flagged())
	wantFault(t, err, fault.WithdrawalRiskBlocked)
	o.setAnswer(risk.Low, nil)
	alike := flagged()
	alike.ToAddress = strings.ToLower(stranger[:6] + strings.Repeat("0", 32) + stranger[38:])
	check("an address like another", alike, "DESTINATION_ADDRESS")
	h.execAsOwner(`UPDATE address_funds SET held = credited WHERE mint_id = 1`)
	check("no liquidity", flagged(), "LOW_LIQUIDITY")
}

// A held lookalike does not become a known destination, or the second one would pass. Rule WD-34.
func TestALookAlikeIsHeldHoweverOftenItIsAskedFor(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.mustRequest(h.newRequest())
	r := h.newRequest()
	r.ToAddress = strings.ToLower(stranger[:6] + strings.Repeat("0", 32) + stranger[38:])
	for range 3 {
		w := h.mustRequest(r)
		if !slices.Equal(reasonTexts(w.ApprovalReasons), []string{"DESTINATION_ADDRESS"}) {
			t.Fatalf("got %s %v, want it held", w.Status, w.ApprovalReasons)
		}
	}
	w := h.mustRequest(r)
	if _, err := h.Approve(t.Context(), h.org, w.ID, audit.Operator("ann")); err != nil {
		t.Fatal(err)
	}
	if w := h.mustRequest(r); w.Status != Processing {
		t.Errorf("got %s %v, want it to pass once a person let one go", w.Status, w.ApprovalReasons)
	}
}
