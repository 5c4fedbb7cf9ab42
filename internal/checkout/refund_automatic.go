package checkout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/checkout/outcome"
	"github.com/cofferpay/coffer/internal/checkout/pricing"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/failpoint"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/policy"
	"github.com/cofferpay/coffer/internal/request"
)

const (
	turnBatchMax  = 64
	turnRetry     = 30 * time.Second // the first pause before a checkout is looked at again; it doubles
	turnRefundMax = 2 * acceptedMintsMax
)

// refundTurn is a checkout whose policies make refunds, and that the worker looks at.
type refundTurn struct{ checkoutID, orgID, problem string }

// dueBack is what a policy gives back of one checkout in one mint.
type dueBack struct {
	cause  outcome.Exception
	mint   mint.Mint
	parts  []RefundPart
	amount money.Amount
}

// refundKey names the one refund that a policy makes of a checkout.
type refundKey struct {
	mintID int
	cause  outcome.Exception
}

// payoutCost is what the network takes for a payment, and what a whole token of the refund is worth.
type payoutCost struct{ fee, price money.USD }

// hasRefundPolicy reports whether a policy of a sale makes refunds.
func (sale Sale) hasRefundPolicy() bool {
	return sale.OverPolicy == RefundLinkSurplus || sale.LatePolicy == RefundLinkLate
}

// beginRefundTurn makes the worker look at a checkout that was settled and whose policies make refunds. The settlement
// makes none itself: a balance that lacks the money, or a defect, would keep a sale from being completed.
func beginRefundTurn(ctx context.Context, tx pg.Tx, c Checkout) error {
	if c.Status == outcome.Open || !c.hasRefundPolicy() {
		return nil
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO refund_turns (checkout_id, org_id, look_at, updated_at) VALUES ($1, $2, $3, $3)
		ON CONFLICT (checkout_id) DO UPDATE SET look_at = EXCLUDED.look_at, tries = 0,
			updated_at = greatest(refund_turns.updated_at, EXCLUDED.updated_at)`, c.ID, c.OrgID, tx.Now)
	if err != nil {
		return fmt.Errorf("look at the refunds of checkout %s: %w", c.ID, err)
	}
	return nil
}

// RefundAutomatically makes the refunds that the policies of settled checkouts ask for, once for each checkout, mint
// and cause. Such a refund waits for an address and has no key: its payer gets one from the page of the checkout, or
// the organization issues one. A refund for which the balance lacks the money is tried again. Any number of processes
// may call it. Rules CO-110 and CO-112.
func (s *Service) RefundAutomatically(ctx context.Context) error {
	var turns []refundTurn
	err := s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		turns = nil
		rows, err := tx.Query(ctx, `
			UPDATE refund_turns SET tries = tries + 1,
				look_at = $1::timestamptz + least($2::interval * power(2, least(tries, 16)), $3::interval)
			WHERE checkout_id IN (
				SELECT checkout_id FROM refund_turns WHERE look_at <= $1 ORDER BY look_at, checkout_id LIMIT $4
				FOR NO KEY UPDATE SKIP LOCKED)
			RETURNING checkout_id, org_id, coalesce(problem, '')`, tx.Now, turnRetry, retryMax, turnBatchMax)
		if err != nil {
			return err
		}
		var t refundTurn
		_, err = pgx.ForEachRow(rows, []any{&t.checkoutID, &t.orgID, &t.problem}, func() error {
			turns = append(turns, t)
			return nil
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("claim the checkouts whose policies make refunds: %w", err)
	}
	var errs []error
	for _, t := range turns {
		if err := s.takeRefundTurn(ctx, t); err != nil {
			errs = append(errs, fmt.Errorf("refunds of checkout %s by its policies: %w", t.checkoutID, err))
		}
	}
	return errors.Join(errs...)
}

// takeRefundTurn takes back what lost its reason, and then makes one refund after the other, each in a transaction of
// its own.
func (s *Service) takeRefundTurn(ctx context.Context, t refundTurn) error {
	if err := s.takeBackRefunds(ctx, t); err != nil {
		return err
	}
	costs, err := s.payoutCosts(ctx, t)
	if err != nil {
		return err
	}
	for range turnRefundMax {
		if isMade, err := s.makeDueRefund(ctx, t, costs); err != nil || !isMade {
			return err
		}
	}
	return nil
}

// payoutCosts returns what paying a refund costs now, by mint. A mint whose cost or price nothing says is left out, and
// then nothing depends on it. It asks for prices and writes nothing.
func (s *Service) payoutCosts(ctx context.Context, t refundTurn) (map[int]payoutCost, error) {
	if s.IsLocal { // the coin of a local network is worth nothing
		return nil, nil
	}
	var c Checkout
	var mints mint.Catalogue
	err := s.DB.ReadOrg(ctx, t.orgID, func(ctx context.Context, tx pg.Tx) (err error) {
		if mints, err = mint.LoadCatalogue(ctx, tx); err != nil {
			return err
		}
		c, err = loadCheckout(ctx, tx, `c.checkout_id = $1`, t.checkoutID)
		return err
	})
	if err != nil {
		return nil, err
	}
	costs := map[int]payoutCost{}
	for _, p := range c.Payments {
		if p.Mint == nil || p.available().IsZero() {
			continue
		}
		if _, isKnown := costs[p.Mint.ID]; isKnown {
			continue
		}
		fee := s.transferFee(ctx, *p.Mint, mints)
		q, err := s.priceOf(ctx, p.Mint.ID)
		if fee != nil && err == nil {
			costs[p.Mint.ID] = payoutCost{*fee, q.Price}
		}
	}
	return costs, nil
}

// makeDueRefund makes the next refund that a policy of a checkout asks for. Without one it ends the turn and notes why
// something stays with the organization. Rules CO-110, CO-111 and CO-112.
func (s *Service) makeDueRefund(ctx context.Context, t refundTurn, costs map[int]payoutCost) (isMade bool, err error) {
	var planned Refund
	err = s.DB.InOrg(ctx, t.orgID, func(ctx context.Context, tx pg.Tx) error {
		isMade = false
		c, err := lockWithPayments(ctx, tx, t.checkoutID)
		if err != nil {
			return err
		}
		made, err := listMade(ctx, tx, t.checkoutID)
		if err != nil {
			return err
		}
		owed, problem := c.nextDueBack(made, costs)
		if owed == nil {
			return endRefundTurn(ctx, tx, c, t, problem)
		}
		planned = c.newAutomaticRefund(*owed)
		active, err := freeze.Active(ctx, tx, freeze.Target{OrgID: t.orgID})
		if err != nil {
			return err
		}
		if refusal := policy.CheckFrozen(active, "", fault.NothingWritten); refusal != nil {
			return refusal
		}
		isMade = true
		planned.CreatedAt, planned.ExpiresAt = tx.Now, tx.Now.Add(refundTime)
		return writeRefund(ctx, tx, planned, claimKeyPair{})
	})
	switch {
	case errors.Is(err, ledger.ErrOverdraft):
		return false, s.delayRefund(ctx, t, planned, "the balance of CHECKOUT is smaller")
	case fault.HasCode(err, fault.OrganizationFrozen):
		return false, s.delayRefund(ctx, t, planned, "the organization is frozen")
	case pg.ViolatesConstraint(err, "refunds_pkey"), pg.ViolatesConstraint(err, "automatic_refunds_pkey"):
		return true, nil // another process was first
	case err != nil:
		return false, err
	}
	if isMade {
		failpoint.Hit("C11")
	}
	return isMade, nil
}

// newAutomaticRefund returns the refund that a policy makes. Its id follows from checkout, mint and cause: a database
// that was restored from before it makes the same one, whose payment the signer admits once. Rule CO-115.
func (c Checkout) newAutomaticRefund(owed dueBack) Refund {
	mintID := strconv.Itoa(owed.mint.ID)
	r := Refund{
		ID:    id.Derive(refundPrefix, c.OrgID, c.ID, mintID, string(owed.cause)),
		OrgID: c.OrgID, CheckoutID: c.ID, Version: 1, Mint: owed.mint, Amount: owed.amount, Parts: owed.parts,
		Kind: AmountRefund, FeeMode: FeeOrganization, Status: RefundAwaitingAddress, Cause: owed.cause,
		Requester: actor,
		digest:    request.Digest("coffer-automatic-refund-1", c.ID, mintID, string(owed.cause)),
	}
	switch {
	case owed.cause == outcome.Overpaid:
		r.Kind = OverpaidRefund
	case owed.amount == sumAvailable(c.refundable(owed.mint.ID)):
		r.Kind = FullRefund
	}
	return r
}

// listMade returns the refunds that policies have made of a checkout.
func listMade(ctx context.Context, tx pg.Tx, checkoutID string) (map[refundKey]string, error) {
	rows, err := tx.Query(ctx, `SELECT mint_id, cause, refund_id FROM automatic_refunds WHERE checkout_id = $1`,
		checkoutID)
	made := map[refundKey]string{}
	if err == nil {
		var key refundKey
		var refundID string
		_, err = pgx.ForEachRow(rows, []any{&key.mintID, &key.cause, &refundID}, func() error {
			made[key] = refundID
			return nil
		})
	}
	if err != nil {
		return nil, fmt.Errorf("list the refunds that policies made of checkout %s: %w", checkoutID, err)
	}
	return made, nil
}

// nextDueBack returns the first refund that a policy asks for and that can be made, or nil and why something stays with
// the organization. Rules CO-111 and CO-112.
func (c Checkout) nextDueBack(made map[refundKey]string, costs map[int]payoutCost) (first *dueBack, problem string) {
	if c.awaitsPayment() {
		return nil, ""
	}
	var problems []string
	for _, owed := range c.dueBack() {
		if problem := owed.problem(made, costs); problem != "" {
			problems = append(problems, problem)
			continue
		}
		return &owed, ""
	}
	return nil, strings.Join(problems, " ")
}

// awaitsPayment reports whether a payment is not final or has no value yet. Its next change makes another turn, which
// knows all of what is due back.
func (c Checkout) awaitsPayment() bool {
	return slices.ContainsFunc(c.Payments, func(p Payment) bool {
		return p.Status == outcome.PaymentSeen || p.Status == outcome.PaymentCredited && p.needsValue()
	})
}

// problem says why what is due back stays with the organization; "" if it does not.
func (owed dueBack) problem(made map[refundKey]string, costs map[int]payoutCost) string {
	text := owed.amount.Decimal(owed.mint.Decimals) + " " + owed.mint.Symbol + " on " + string(owed.mint.Chain)
	if _, isMade := made[refundKey{owed.mint.ID, owed.cause}]; isMade {
		return text + " stays with you: a refund was made by itself before, and the next one is for a person."
	}
	if owed.amount.Less(owed.mint.MinWithdraw) {
		return text + " stays with you: the smallest payment is " +
			owed.mint.MinWithdraw.Decimal(owed.mint.Decimals) + " " + owed.mint.Symbol + "."
	}
	cost, isKnown := costs[owed.mint.ID]
	if !isKnown {
		return ""
	}
	worth, err := money.ValueOf(owed.amount, owed.mint.Decimals, cost.price)
	if err == nil && worth.Cmp(cost.fee) <= 0 {
		return text + " stays with you: the network takes as much for its payment."
	}
	return ""
}

// dueBack returns what the policies of a checkout give back, by cause and mint: a surplus once it is completed, and
// what was paid in part or too late once its time is over. A surplus is taken of the newest payments. Late payments of
// more than seven days are for a person. Rules CO-110, CO-111 and CO-113.
func (c Checkout) dueBack() (list []dueBack) {
	hasException := func(e outcome.Exception) bool { return slices.Contains(c.Exceptions, e) }
	isFlagged := func(p Payment) bool { return p.Status == outcome.PaymentFlagged }
	isEnded := c.Status == outcome.Expired || c.Status == outcome.Cancelled
	payments := c.newestAvailable()
	if c.Status == outcome.Completed && c.OverPolicy == RefundLinkSurplus && hasException(outcome.Overpaid) {
		parts, _ := c.takeSurplus(payments)
		list = append(list, c.groupByMint(outcome.Overpaid, parts)...)
	}
	if c.LatePolicy != RefundLinkLate {
		return list
	}
	// A flagged payment may be approved, count by its own moment, and complete the checkout.
	if isEnded && hasException(outcome.Underpaid) && !slices.ContainsFunc(c.Payments, isFlagged) {
		parts := takeAll(payments, func(p Payment) bool { return p.Counts })
		list = append(list, c.groupByMint(outcome.Underpaid, parts)...)
	}
	if isEnded || c.Status == outcome.Completed {
		list = append(list, c.groupByMint(outcome.PaidLate, takeAll(payments, func(p Payment) bool {
			return !p.Counts && p.Counted != nil && p.IsAccepted && !p.IsInTime &&
				!p.Moment.After(c.ExpiresAt.Add(watchTime))
		}))...)
	}
	return list
}

// newestAvailable returns the payments of which something can be refunded in any mint, the newest first.
func (c Checkout) newestAvailable() (payments []Payment) {
	for _, p := range c.Payments {
		if p.Mint != nil && !p.available().IsZero() {
			payments = append(payments, p)
		}
	}
	slices.SortStableFunc(payments, func(a, b Payment) int { return b.PaidAt().Compare(a.PaidAt()) })
	return payments
}

// takeAll takes all that is left of the payments that match.
func takeAll(payments []Payment, matches func(Payment) bool) (parts []RefundPart) {
	for _, p := range payments {
		if matches(p) {
			parts = append(parts, RefundPart{p.DepositID, p.available()})
		}
	}
	return parts
}

// groupByMint makes one refund of the parts in each mint, in the order of the parts.
func (c Checkout) groupByMint(cause outcome.Exception, parts []RefundPart) (list []dueBack) {
	for _, part := range parts {
		p, isKnown := c.paymentByID(part.DepositID)
		if !isKnown || p.Mint == nil {
			continue
		}
		i := slices.IndexFunc(list, func(d dueBack) bool { return d.mint.ID == p.Mint.ID })
		if i < 0 {
			i, list = len(list), append(list, dueBack{cause: cause, mint: *p.Mint})
		}
		sum, err := list[i].amount.Add(part.Amount)
		if err != nil {
			continue // more than any amount: a person gives back the rest
		}
		list[i].amount, list[i].parts = sum, append(list[i].parts, part)
	}
	return list
}

func (c Checkout) paymentByID(depositID string) (p Payment, isKnown bool) {
	i := slices.IndexFunc(c.Payments, func(p Payment) bool { return p.DepositID == depositID })
	if i < 0 {
		return Payment{}, false
	}
	return c.Payments[i], true
}

// endRefundTurn ends the turn of a locked checkout until something about it changes, and writes down why something
// stays with the organization, if that is new.
func endRefundTurn(ctx context.Context, tx pg.Tx, c Checkout, t refundTurn, problem string) error {
	problem = cutProblem(problem)
	_, err := tx.Exec(ctx, `
		UPDATE refund_turns SET look_at = NULL, tries = 0, problem = nullif($2, ''),
			updated_at = greatest(updated_at, $3) WHERE checkout_id = $1`, c.ID, problem, tx.Now)
	if err != nil {
		return fmt.Errorf("end the turn of checkout %s: %w", c.ID, err)
	}
	if problem == "" || problem == t.problem {
		return nil
	}
	return audit.Record(ctx, tx, newCheckoutEntry(c, actor, "refund_kept", map[string]any{"why": problem}))
}

// delayRefund writes down why a refund waits. The claim has set when it is tried again.
func (s *Service) delayRefund(ctx context.Context, t refundTurn, planned Refund, reason string) error {
	problem := cutProblem(fmt.Sprintf("A refund of %s %s on %s waits: %s. It is tried again.",
		planned.Amount.Decimal(planned.Mint.Decimals), planned.Mint.Symbol, planned.Mint.Chain, reason))
	if problem == t.problem {
		return nil
	}
	return s.DB.InOrg(ctx, t.orgID, func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(ctx, `
			UPDATE refund_turns SET problem = $2, updated_at = greatest(updated_at, $3) WHERE checkout_id = $1`,
			t.checkoutID, problem, tx.Now)
		if err != nil {
			return fmt.Errorf("write down why the refund of checkout %s waits: %w", t.checkoutID, err)
		}
		return audit.Record(ctx, tx, newCheckoutEntry(Checkout{ID: t.checkoutID, OrgID: t.orgID}, actor,
			"refund_delayed", map[string]any{"why": problem}))
	})
}

func cutProblem(problem string) string {
	if runes := []rune(problem); len(runes) > reasonRunesMax {
		return string(runes[:reasonRunesMax])
	}
	return problem
}

// takeBackRefunds cancels the refunds that policies made, that no one claimed, and that lost their reason. Rule CO-114.
func (s *Service) takeBackRefunds(ctx context.Context, t refundTurn) error {
	var waiting []string
	err := s.DB.ReadOrg(ctx, t.orgID, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, `
			SELECT r.refund_id FROM automatic_refunds a JOIN refunds r USING (refund_id)
			WHERE a.checkout_id = $1 AND r.status = 'AWAITING_ADDRESS' ORDER BY 1`, t.checkoutID)
		if err != nil {
			return err
		}
		waiting, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err != nil {
		return fmt.Errorf("list the refunds that no one claimed: %w", err)
	}
	for _, refundID := range waiting {
		err := s.DB.InOrg(ctx, t.orgID, func(ctx context.Context, tx pg.Tx) error {
			r, err := lockRefund(ctx, tx, refundID)
			if err != nil || r.Status != RefundAwaitingAddress {
				return err
			}
			c, err := loadCheckout(ctx, tx, `c.checkout_id = $1`, t.checkoutID)
			if err != nil || c.justifies(r) {
				return err
			}
			return endRefund(ctx, tx, r, RefundCancelled, "cancelled", actor)
		})
		if err != nil {
			return fmt.Errorf("take back refund %s: %w", refundID, err)
		}
	}
	return nil
}

// justifies reports whether a refund that a policy made still has its reason: its payments are credited, a surplus is
// as large, and what was paid in part or too late has not completed the checkout after all.
func (c Checkout) justifies(r Refund) bool {
	var worth Price
	isCounted := false
	for _, part := range r.Parts {
		p, isKnown := c.paymentByID(part.DepositID)
		if !isKnown || p.Status != outcome.PaymentCredited {
			return false
		}
		isCounted = isCounted || p.Counts
		if p.Counted != nil {
			worth = plus(worth, pricing.Worth(part.Amount, p.Amount, *p.Counted))
		}
	}
	if r.Cause == outcome.Overpaid {
		return worth.Cmp(c.Surplus()) <= 0
	}
	return !isCounted || c.Status != outcome.Completed && c.Status != outcome.Processing
}

// AutomaticRefundProblem says why something of a checkout that a policy would give back is not given back, or not yet;
// "" for nothing.
func (s *Service) AutomaticRefundProblem(ctx context.Context, orgID, checkoutID string) (problem string, err error) {
	err = s.DB.ReadOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, `
			SELECT coalesce((SELECT problem FROM refund_turns WHERE org_id = $1 AND checkout_id = $2), '')`,
			orgID, checkoutID).Scan(&problem)
	})
	if err != nil {
		return "", fmt.Errorf("read why a refund of checkout %s waits: %w", checkoutID, err)
	}
	return problem, nil
}
