package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/payout"
	"github.com/cofferpay/coffer/internal/payout/contenthash"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/signer/signpolicy"
)

// datedPrices are prices of one moment; a mint that is not among them has none.
type datedPrices struct {
	prices map[int]money.USD
	at     time.Time
}

func (p datedPrices) USD(_ context.Context, mintID int) (price.Quote, error) {
	usd, ok := p.prices[mintID]
	if !ok {
		return price.Quote{}, errors.New("no price")
	}
	return price.Quote{Price: usd, QuotedAt: p.at, Source: "test"}, nil
}

// The list is worth 0.006 dollars.
const listValue = "0.006"

// newAutoEnv is a payoutEnv whose organization has paid the payees before, and whose operator lets batches below an
// amount be paid without a person. The signer pays such a batch up to 6000 units, and 12000 a day.
func newAutoEnv(t *testing.T, below string) *payoutEnv {
	t.Helper()
	h := newUnapprovedEnv(t, map[chain.Address]signpolicy.UnapprovedLimit{
		signertest.Token: {BatchMax: money.Units(6000), DayMax: money.Units(12_000)},
	})
	h.payBefore()
	h.set("batchAutoApproveUsd", below)
	return h
}

// payBefore pays the list once, with an approval.
func (h *payoutEnv) payBefore() {
	h.Helper()
	b := h.approved()
	h.expand(b)
	h.endWithdrawals(b, "COMPLETED", "COMPLETED", "COMPLETED")
	h.expand(b)
	h.wantStatus(b.ID, payout.Completed)
}

// set sets a setting of the organization; "" is null.
func (h *payoutEnv) set(name, value string) {
	h.Helper()
	text := json.RawMessage("null")
	if value != "" {
		text, _ = json.Marshal(value)
	}
	err := h.DB.InSystem(h.Context(), func(ctx context.Context, tx pg.Tx) error {
		_, err := org.ChangeSettings(ctx, tx, audit.Operator("op"), h.org, org.Changes{name: text})
		return err
	})
	if err != nil {
		h.Fatal(err)
	}
}

// A batch below the operator's amount is paid without a person, in one commit with an audit row that says why, and the
// signer pays it as far as its own policy says. Rules BP-60 and BP-63.
func TestABatchBelowTheOperatorsAmountNeedsNoPerson(t *testing.T) {
	t.Parallel()
	h := newAutoEnv(t, "0.0061")
	b := h.submitted()
	if b.Status != payout.Processing || b.Required != 0 || b.Approvals != 0 || b.AutoBelow == nil ||
		b.AutoBelow.String() != "0.0061" || b.AutoValue.String() != listValue || b.ApprovedAt == nil {
		t.Fatalf("got %s with %d of %d approvals, below %v, worth %v", b.Status, b.Approvals, b.Required, b.AutoBelow,
			b.AutoValue)
	}
	h.wantAudited(b.ID, "usr_maker payout.created", "usr_maker payout.submitted", "payout payout.approved")
	var detail string
	err := pgtest.OwnerPool(t, h.DB).QueryRow(t.Context(), `SELECT concat_ws(' ', detail ->> 'setting',
		detail ->> 'below', detail ->> 'value', detail -> 'prices' ->> '1', detail -> 'totals' -> 0 ->> 'amount', detail ->> 'required')
		FROM audit_log WHERE resource_id = $1 AND action = 'payout.approved'`, b.ID).Scan(&detail)
	if want := "batchAutoApproveUsd 0.0061 0.006 1 6000 0"; err != nil || detail != want {
		t.Errorf("got %q, %v in the audit log, want %q", detail, err, want)
	}
	h.expand(b)
	for n, i := range h.intents(b) {
		if _, err := h.signer.AdmitIntent(t.Context(), i); err != nil || !i.IsUnapproved() {
			t.Errorf("row %d: got %v, want it admitted", n+1, err)
		}
	}
	_, err = h.Approve(t.Context(), h.org, b.ID, b.ContentHash, firstApprover)
	h.wantCode("an approval", err, fault.InvalidState)
}

// Everything else waits for people, and the audit log says why. Rules BP-63 to BP-66.
func TestABatchThatMayNotGoByItselfWaitsForPeople(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		below  string
		change func(h *payoutEnv)
		why    string
	}{
		"no amount":      {"", nil, ""},
		"an amount of 0": {"0", nil, "It is worth 0.006 dollars"},
		"worth as much":  {listValue, nil, "batchAutoApproveUsd is 0.006"},
		"worth more":     {"0.0059", nil, "batchAutoApproveUsd is 0.0059"},
		"no price": {"500", func(h *payoutEnv) {
			h.withdrawals.Prices = datedPrices{at: time.Now()}
		}, "Mint 1 has no price"},
		"no source": {"500", func(h *payoutEnv) { h.withdrawals.Prices = nil }, "Mint 1 has no price"},
		"above the organization's threshold": {"500", func(h *payoutEnv) {
			h.set("twoFactorUsdThreshold", "0.0059")
		}, "twoFactorUsdThreshold of the organization is 0.0059"},
		"an old price": {"500", func(h *payoutEnv) {
			h.withdrawals.Prices = datedPrices{
				prices: map[int]money.USD{payoutUSDC: money.MustParseUSD("1")}, at: time.Now().Add(-240 * time.Hour),
			}
		}, "Mint 1 has no price"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newAutoEnv(t, c.below)
			if c.change != nil {
				c.change(h)
			}
			b := h.submitted()
			if b.Status != payout.AwaitingApproval || b.Required != 1 || b.AutoBelow != nil {
				t.Errorf("got %s, which needs %d people", b.Status, b.Required)
			}
			h.wantPeopleBecause(b, c.why)
			b = h.must(h.Approve(t.Context(), h.org, b.ID, b.ContentHash, firstApprover))
			h.expand(b)
			if _, err := h.signer.AdmitIntent(t.Context(), h.intents(b)[0]); err != nil {
				t.Errorf("with an approval: got %v", err)
			}
		})
	}
}

// wantPeopleBecause checks why the audit log says that people have to look at a batch; "" for no reason.
func (h *payoutEnv) wantPeopleBecause(b payout.Batch, want string) {
	h.Helper()
	var got string
	err := pgtest.OwnerPool(h.T, h.DB).QueryRow(h.Context(), `SELECT coalesce(detail ->> 'people', '') FROM audit_log
		WHERE resource_id = $1 AND action = 'payout.checked'`, b.ID).Scan(&got)
	if err != nil || (want == "") != (got == "") || !strings.Contains(got, want) {
		h.Errorf("got %q, %v in the audit log, want %q", got, err, want)
	}
}

// The threshold of the organization is the value above which its own withdrawals wait. A batch of as much goes by
// itself.
func TestTheOrganizationsThresholdHoldsWhatIsAboveIt(t *testing.T) {
	t.Parallel()
	h := newAutoEnv(t, "500")
	h.set("twoFactorUsdThreshold", listValue)
	b := h.submitted()
	if b.Status != payout.Processing {
		t.Fatalf("got %s", b.Status)
	}
	// It is lowered before the rows are paid: no approval stands for those that they need now. Rule BP-65.
	h.set("twoFactorUsdThreshold", "0.002")
	h.expand(b)
	items, err := h.Items(t.Context(), h.org, b.ID)
	var got []string
	for _, i := range items {
		got = append(got, i.WithdrawalStatus)
	}
	if want := []string{"PROCESSING", "PROCESSING", "AWAITING_APPROVAL"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}

// No address gets its first payment without a person, and none that looks like another one. Rule BP-64.
func TestNoStrangerIsPaidWithoutAPerson(t *testing.T) {
	t.Parallel()
	h := newUnapprovedEnv(t, nil)
	h.set("batchAutoApproveUsd", "500")
	b := h.submitted()
	if b.Status != payout.AwaitingApproval {
		t.Errorf("a first payment: got %s", b.Status)
	}
	h.wantPeopleBecause(b, "Nothing was paid to the address of row 1 before")
	h.must(h.Cancel(t.Context(), h.org, b.ID, batchMaker))
	h.payBefore()
	b = h.create()
	b = h.must(h.submit(b.ID, b.ContentHash, batchMaker))
	// A look-alike that was warned of at the submission stays one, whatever was paid since.
	tamper(h, `INSERT INTO payout_warnings (batch_id, row_no, kind, org_id, text, needs_tick, ticked)
		VALUES ($1, 2, 'LOOK_ALIKE', $2, 'x', true, true)`, b.ID, h.org)
	h.validate(b)
	h.wantStatus(b.ID, payout.AwaitingApproval)
	h.wantPeopleBecause(b, "The address of row 2 looks like another one")
}

// The setting counts as it is with the last verdict. Rule BP-63.
func TestTheSettingOfTheLastVerdictCounts(t *testing.T) {
	t.Parallel()
	h := newAutoEnv(t, "500")
	b := h.create()
	b = h.must(h.submit(b.ID, b.ContentHash, batchMaker))
	h.set("batchAutoApproveUsd", "")
	h.validate(b)
	h.wantStatus(b.ID, payout.AwaitingApproval)
	h.must(h.Cancel(t.Context(), h.org, b.ID, batchMaker))
	b = h.create()
	b = h.must(h.submit(b.ID, b.ContentHash, batchMaker))
	h.set("batchAutoApproveUsd", "500")
	h.validate(b)
	h.wantStatus(b.ID, payout.Processing)
}

// A freeze leaves a batch that would go by itself where it is.
func TestAFrozenBatchDoesNotGoByItself(t *testing.T) {
	t.Parallel()
	h := newAutoEnv(t, "500")
	b := h.create()
	b = h.must(h.submit(b.ID, b.ContentHash, batchMaker))
	h.Payments = freezingPayments{h.Payments, h}
	h.validate(b)
	h.wantStatus(b.ID, payout.Validating)
	h.liftFreezes()
	h.Payments = h.Payments.(freezingPayments).Payments
	h.validate(b)
	h.wantStatus(b.ID, payout.Processing)
}

// freezingPayments freeze the organization when they are asked for a price, which is after the rows were checked.
type freezingPayments struct {
	payout.Payments
	h *payoutEnv
}

func (p freezingPayments) FreshPrice(ctx context.Context, mintID int) (money.USD, bool) {
	p.h.freeze(freeze.Freeze{Scope: freeze.ScopeOrganization, OrgID: p.h.org})
	return p.Payments.FreshPrice(ctx, mintID)
}

// A PARTIAL batch goes by itself under its final hash: what is left of it counts, and no earlier hash is paid.
func TestAPartialBatchGoesByItselfUnderItsFinalHash(t *testing.T) {
	t.Parallel()
	h := newAutoEnv(t, "0.0055") // below the whole list, above its first two rows
	b := h.must(h.Create(t.Context(), h.org, payout.CreateRequest{
		Lines: list(t), Mode: contenthash.Partial, Actor: batchMaker,
	}))
	first := b.ContentHash
	b = h.must(h.submit(b.ID, first, batchMaker))
	tamper(h, `UPDATE payout_items SET refused = 'no' WHERE batch_id = $1 AND row_no = 3`, b.ID)
	h.validate(b)
	b = h.must(h.ByID(t.Context(), h.org, b.ID))
	if b.Status != payout.Processing || b.ContentHash == first || b.Required != 0 || b.AutoValue.String() != "0.003" {
		t.Fatalf("got %s worth %v under %s, before %s", b.Status, b.AutoValue, b.ContentHash, first)
	}
	h.expand(b)
	h.wantBalances("two rows are held for payments", "91000", "0", "9000")
}

// What the signer holds up waits visibly, and the next batch in that coin asks people. Who does not want to wait
// cancels the batch, and people approve its retry. Rule BP-66.
func TestPeopleAreAskedWhileTheSignerHoldsUpSuchBatches(t *testing.T) {
	t.Parallel()
	h := newAutoEnv(t, "500")
	b := h.submitted()
	h.expand(b)
	tamper(h, `UPDATE dispatch_orders SET waiting_for = 'FEE_LIMIT' WHERE batch ->> 'batchId' = $1`, b.ID)
	next := h.submitted()
	if next.Status != payout.AwaitingApproval {
		t.Errorf("the next batch: got %s", next.Status)
	}
	h.wantPeopleBecause(next, "A limit of the signer holds up batch "+b.ID)
	h.must(h.Cancel(t.Context(), h.org, next.ID, batchMaker))
	h.endWithdrawals(b, "FAILED", "FAILED", "FAILED")
	h.expand(b)
	retry := h.must(h.Retry(t.Context(), h.org, b.ID, nil, batchMaker))
	retry = h.must(h.submit(retry.ID, retry.ContentHash, batchMaker))
	h.validate(retry)
	h.wantStatus(retry.ID, payout.AwaitingApproval)
	h.wantPeopleBecause(retry, "It pays again")
}

// Without an entry in its own policy the signer pays nothing of such a batch. Rule BP-60.
func TestASignerWithoutAnEntryPaysNoBatchWithoutAPerson(t *testing.T) {
	t.Parallel()
	h := newPayoutEnv(t)
	h.payBefore()
	h.set("batchAutoApproveUsd", "500")
	b := h.submitted()
	h.expand(b)
	for n, i := range h.intents(b) {
		_, err := h.signer.AdmitIntent(t.Context(), i)
		var refusal *signer.Refusal
		if !errors.As(err, &refusal) || refusal.Code != signer.PolicyLimit {
			t.Errorf("row %d: got %v, want %s", n+1, err, signer.PolicyLimit)
		}
	}
}

// Who has the database, and no key, makes no batch that needs no person: the number of approvals has a MAC, and the
// rows are those of the submission. Rule BP-67.
func TestWhoHasTheDatabaseMakesNoBatchThatNeedsNoPerson(t *testing.T) {
	t.Parallel()
	const letGo = `UPDATE payout_batches SET status = 'PROCESSING', approvals_required = 0, auto_below = 500,
		auto_value = 1, approved_at = now(), look_at = now(), version = version + 1, updated_at = now()`
	for name, attack := range map[string]func(h *payoutEnv, b payout.Batch){
		"the number alone": func(h *payoutEnv, b payout.Batch) {
			tamper(h, letGo+` WHERE batch_id = $1`, b.ID)
		},
		"with the MAC of another batch": func(h *payoutEnv, b payout.Batch) {
			h.set("batchAutoApproveUsd", "500")
			free := h.submitted()
			h.set("batchAutoApproveUsd", "")
			tamper(h, letGo+`, request_mac = (SELECT request_mac FROM payout_batches WHERE batch_id = $2)
				WHERE batch_id = $1`, b.ID, free.ID)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newAutoEnv(t, "")
			b := h.submitted()
			attack(h, b)
			if err := h.Expand(t.Context(), h.org, b.ID); err == nil || !strings.Contains(err.Error(), "were changed") {
				t.Errorf("got %v, want that nothing is granted", err)
			}
			var orders int
			err := pgtest.OwnerPool(t, h.DB).QueryRow(t.Context(),
				`SELECT count(*) FROM dispatch_orders WHERE batch ->> 'batchId' = $1`, b.ID).Scan(&orders)
			if err != nil || orders != 0 {
				t.Errorf("got %d orders, %v, want none", orders, err)
			}
		})
	}
	t.Run("rows that were changed before the verdict", func(t *testing.T) {
		t.Parallel()
		h := newAutoEnv(t, "500")
		b := h.create()
		b = h.must(h.submit(b.ID, b.ContentHash, batchMaker))
		tamper(h, `UPDATE payout_items SET to_address = $2 WHERE batch_id = $1 AND row_no = 1`, b.ID, payees[1])
		if err := h.Validate(t.Context(), h.org, b.ID); err != nil {
			t.Fatal(err)
		}
		h.wantStatus(b.ID, payout.AwaitingApproval)
		h.wantPeopleBecause(b, "differ from what was submitted")
	})
}

// The tables admit a batch without an approval in one step alone: from its check to its payments, with the amount and
// the value, for a batch that pays no one for the first time.
func TestTheTablesAdmitABatchWithoutAPersonInOneStep(t *testing.T) {
	t.Parallel()
	h := newAutoEnv(t, "")
	change := func(b payout.Batch, set string) error {
		return h.DB.InOrg(t.Context(), h.org, func(ctx context.Context, tx pg.Tx) error {
			_, err := tx.Exec(ctx, fmt.Sprintf(`UPDATE payout_batches SET version = version + 1, updated_at = now(), %s
				WHERE batch_id = $1`, set), b.ID)
			return err
		})
	}
	const (
		letGo  = `status = 'PROCESSING', approved_at = now(), look_at = now()`
		worth1 = `, auto_below = 500, auto_value = 1`
	)
	draft := h.create()
	checking := h.must(h.submit(draft.ID, draft.ContentHash, batchMaker))
	for _, c := range []struct{ name, set, constraint string }{
		{"without the amount", letGo + `, approvals_required = 0`, "payout_batches_auto_once"},
		{"of as much", letGo + `, approvals_required = 0, auto_below = 1, auto_value = 1`, "payout_batches_auto"},
		{"with an approval too few", letGo + worth1, "payout_batches_auto"},
		{"before its verdicts", letGo + worth1 + `, approvals_required = 0, request_mac = 'x'`, "payout_batches_checked"},
	} {
		if err := change(checking, c.set); !pg.ViolatesConstraint(err, c.constraint) {
			t.Errorf("%s: got %v, want %s", c.name, err, c.constraint)
		}
	}
	if err := h.Validate(t.Context(), h.org, checking.ID); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, set, constraint string }{
		{"past the people", letGo + worth1 + `, approvals_required = 0`, "payout_batches_auto_once"},
		{"past the people, without the amount", letGo + `, approvals_required = 0`, "payout_batches_submitted_once"},
		{"with one approval", letGo, "payout_batches_approved_by_enough"},
	} {
		if err := change(checking, c.set); !pg.ViolatesConstraint(err, c.constraint) {
			t.Errorf("%s: got %v, want %s", c.name, err, c.constraint)
		}
	}
	h.must(h.Cancel(t.Context(), h.org, checking.ID, batchMaker))
	h.set("batchAutoApproveUsd", "500")
	free := h.submitted()
	err := change(free, `status = status, auto_below = 600`)
	if !pg.ViolatesConstraint(err, "payout_batches_auto_once") {
		t.Errorf("another amount later: got %v", err)
	}
	strange := h.create()
	strange = h.must(h.submit(strange.ID, strange.ContentHash, batchMaker))
	tamper(h, `INSERT INTO payout_warnings (batch_id, row_no, kind, org_id, text, needs_tick, ticked)
		VALUES ($1, 1, 'FIRST_PAYMENT', $2, 'x', false, false)`, strange.ID, h.org)
	tamper(h, `UPDATE payout_items SET checked_at = now() WHERE batch_id = $1`, strange.ID)
	err = change(strange, letGo+worth1+`, approvals_required = 0, request_mac = 'x'`)
	if !pg.ViolatesConstraint(err, "payout_batches_auto_known") {
		t.Errorf("a first payment: got %v", err)
	}
}
