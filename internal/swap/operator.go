package swap

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/failpoint"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// OperatorFilter narrows the list of an operator. A zero field does not narrow it.
type OperatorFilter struct {
	Filter
	OrgID, Provider string
	Kind            Kind
	// OpenClaims leaves the swaps whose value is with a provider. Invariant I-72.
	OpenClaims bool
}

// ListAll returns a page of the swaps of all organizations, of both kinds.
func (s *Service) ListAll(
	ctx context.Context, f OperatorFilter, p pagination.Page,
) (page pagination.Result[Swap], err error) {
	q := f.query(pagination.NewQuery(selectSwaps + ` WHERE true`))
	if f.OrgID != "" {
		q.AddCondition("s.org_id = ?", f.OrgID)
	}
	if f.Kind != "" {
		q.AddCondition("s.kind = ?", string(f.Kind))
	}
	if f.Provider != "" {
		q.AddCondition("s.provider = ?", f.Provider)
	}
	if f.OpenClaims {
		q.AddCondition("s.paid_at IS NOT NULL AND s.amount_out IS NULL AND s.refunded + s.short < s.amount_in")
	}
	err = s.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		page, err = listPage(ctx, tx, q, p)
		return err
	})
	return page, err
}

// Detail is a swap with all that an operator needs to talk to its provider.
type Detail struct {
	Swap
	ProviderAddress string // the deposit address as the provider writes it
	DeliveryAddress chain.Address
	RefundAddress   chain.Address
	Reports         []Report
	Arrivals        []Arrival
}

// ByIDForOperator returns a swap of any organization with its reports and arrivals. It checks that the
// signer attested both addresses, because a person may tell them to a provider.
func (s *Service) ByIDForOperator(ctx context.Context, swapID string) (d Detail, err error) {
	err = s.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		if d.Swap, err = loadAny(ctx, tx, swapID); err != nil {
			return err
		}
		err := tx.QueryRow(ctx, `SELECT deposit_address FROM swap_offers WHERE swap_id = $1`,
			swapID).Scan(&d.ProviderAddress)
		if errors.Is(err, pgx.ErrNoRows) && !d.hasOffer() {
			err = nil
		}
		if err != nil {
			return fmt.Errorf("read the offer of swap %s: %w", swapID, err)
		}
		if d.Reports, err = ListReports(ctx, tx, swapID); err != nil {
			return err
		}
		d.Arrivals, err = listArrivals(ctx, tx, ` WHERE a.swap_id = $1 ORDER BY a.created_at, a.deposit_id`, swapID)
		return err
	})
	if err != nil {
		return d, err
	}
	delivery, err := s.Wallets.Address(ctx, deliveryRef(d.OrgID, swapID, d.To.Chain))
	if err != nil {
		return d, fmt.Errorf("delivery wallet of swap %s: %w", swapID, err)
	}
	refund, err := s.Wallets.Address(ctx, refundRef(d.OrgID, swapID, d.From.Chain))
	if err != nil {
		return d, fmt.Errorf("refund wallet of swap %s: %w", swapID, err)
	}
	d.DeliveryAddress, d.RefundAddress = delivery.Address, refund.Address
	return d, nil
}

// Fail has an operator end a swap that makes no progress. Its claim on the provider stays open, and what
// comes back later is counted. Errors: faults NOT_FOUND, INVALID_STATE. Rule SWAP-24.
func (s *Service) Fail(ctx context.Context, swapID, note string, requester audit.Actor) (w Swap, err error) {
	if err := checkNote(note); err != nil {
		return w, err
	}
	err = s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		locked, err := lock(ctx, tx, swapID)
		if err != nil {
			return err
		}
		refuse := func(format string, args ...any) error {
			return fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten, format, args...).
				WithExtra("currentStatus", string(locked.Status))
		}
		switch {
		case locked.isDelivered():
			return refuse("The output of this swap has arrived.")
		case locked.Status != Processing || locked.PaidAt == nil:
			return refuse("Only a swap whose payment is final can be ended as failed, and this one is %s.",
				locked.Status)
		case tx.Now.Before(locked.ExpiresAt):
			return refuse("The provider may deliver until %s.", locked.ExpiresAt.UTC().Format(time.RFC3339))
		case tx.Now.Sub(*locked.PaidAt) < s.conf.StuckAfter:
			return refuse("The payment is final since %s, and a swap may take %s.",
				locked.PaidAt.UTC().Format(time.RFC3339), s.conf.StuckAfter)
		}
		current := followed{Swap: locked}
		if err := current.loadFacts(ctx, tx); err != nil {
			return err
		}
		if !current.arriving.Less(locked.MinOut) {
			return refuse("A whole delivery has arrived and waits for its confirmations or its mint.")
		}
		nextLook := tx.Now.Add(lookRare)
		postings, err := s.fail(ctx, tx, locked, failure{
			reason: UnknownFailure, message: "The operator of this service ended it.", refunded: locked.Refunded,
			refundReport: locked.RefundReport, lookAt: &nextLook, requester: requester, note: note,
		})
		if err != nil {
			return err
		}
		if err := ledger.Post(ctx, tx, postings...); err != nil {
			return fmt.Errorf("fail swap %s: %w", swapID, err)
		}
		w, err = loadAny(ctx, tx, swapID)
		return err
	})
	return w, err
}

func checkNote(note string) error {
	if note == "" || len(note) > 1000 {
		return fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"A note of 1 to 1000 bytes says why.").WithParam("note")
	}
	return nil
}

// LookNow makes the worker look at a swap at once. Error: fault NOT_FOUND. Rule SWAP-27.
func (s *Service) LookNow(ctx context.Context, swapID string, requester audit.Actor) (w Swap, err error) {
	err = s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		if w, err = lock(ctx, tx, swapID); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `UPDATE swaps SET look_at = $2 WHERE swap_id = $1`, swapID, tx.Now)
		if err != nil {
			return fmt.Errorf("make the worker look at swap %s: %w", swapID, err)
		}
		w.LookAt = &tx.Now
		return audit.Record(ctx, tx, newEntry(w, requester, "looked_at", nil))
	})
	return w, err
}

// Arrival is a final arrival at a wallet of a swap.
type Arrival struct {
	DepositID  string
	OrgID      string
	SwapID     string
	CustomerID string // of the swap; "" if it is a product's, or this database does not have it
	Product    string // of an organization's swap
	Role       string
	Reason     StrayReason
	MintID     int
	Symbol     string
	Decimals   int
	Chain      chain.Name
	Amount     money.Amount
	Address    chain.Address
	TxHash     chain.TxHash
	CreatedAt  time.Time
	Decision   *string // CREDITED or KEPT; nil: no one has decided
	Note       *string
	DecidedBy  *string
	DecidedAt  *time.Time
}

const selectArrivals = `
	SELECT a.deposit_id, a.org_id, a.swap_id, coalesce(s.customer_id, ''), coalesce(s.product, ''), a.role, a.reason,
		d.mint_id, m.symbol, m.decimals, d.chain,
		d.amount, d.address, d.tx_hash, a.created_at, a.decision, a.note, a.decided_by, a.decided_at
	FROM swap_arrivals a JOIN deposits d ON d.deposit_id = a.deposit_id JOIN mints m ON m.mint_id = d.mint_id
		LEFT JOIN swaps s ON s.swap_id = a.swap_id`

func listArrivals(ctx context.Context, tx pg.Tx, conditions string, args ...any) ([]Arrival, error) {
	rows, err := tx.Query(ctx, selectArrivals+conditions, args...)
	if err != nil {
		return nil, fmt.Errorf("read arrivals of swaps: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Arrival])
	if err != nil {
		return nil, fmt.Errorf("read arrivals of swaps: %w", err)
	}
	return found, nil
}

// ListStrays returns a page of the stray arrivals: all of them, or those that no one has decided about.
func (s *Service) ListStrays(
	ctx context.Context, onlyOpen bool, p pagination.Page,
) (page pagination.Result[Arrival], err error) {
	q := pagination.NewQuery(selectArrivals + ` WHERE a.role = 'STRAY'`)
	if onlyOpen {
		q.AddCondition("a.decision IS NULL")
	}
	sql, args := q.BuildPage(p, "a.created_at", "a.deposit_id")
	err = s.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Arrival])
		page = pagination.CutPage(p, found, func(a Arrival) pagination.Cursor {
			return pagination.Cursor{CreatedAt: a.CreatedAt, ID: a.DepositID}
		})
		return err
	})
	if err != nil {
		return page, fmt.Errorf("list the stray arrivals of swaps: %w", err)
	}
	return page, nil
}

// StrayByID returns a stray arrival. Error: fault NOT_FOUND, also for an arrival that its swap expects.
func (s *Service) StrayByID(ctx context.Context, depositID string) (a Arrival, err error) {
	err = s.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		found, err := listArrivals(ctx, tx, ` WHERE a.deposit_id = $1 AND a.role = 'STRAY'`, depositID)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return newNoArrival()
		}
		a = found[0]
		return nil
	})
	return a, err
}

func newNoArrival() error {
	return fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten, "There is no such arrival.")
}

// ArrivalDecision is what a person decides about a stray arrival.
type ArrivalDecision string

// The decisions.
const (
	CreditArrival ArrivalDecision = "CREDITED" // to the customer or the product of the swap
	KeepArrival   ArrivalDecision = "KEPT"     // it stays in suspense
)

// DecideArrival has an operator decide about a stray arrival, once. A credit is announced to the
// organization as a deposit. If it is the late delivery of a failed swap of which nothing came back, it
// also ends the claim on the provider. Errors: faults NOT_FOUND, INVALID_STATE. Rule SWAP-26.
func (s *Service) DecideArrival(
	ctx context.Context, depositID string, decision ArrivalDecision, note string, requester audit.Actor,
) (a Arrival, err error) {
	if err := checkNote(note); err != nil {
		return a, err
	}
	if decision != CreditArrival && decision != KeepArrival {
		return a, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"decision has to be CREDITED or KEPT.").WithParam("decision")
	}
	err = s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		a, err = s.decideArrival(ctx, tx, depositID, decision, note, requester)
		failpoint.HitBeforeCommit("Q23")
		return err
	})
	if err == nil {
		failpoint.Hit("Q23")
	}
	return a, err
}

func (s *Service) decideArrival(
	ctx context.Context, tx pg.Tx, depositID string, decision ArrivalDecision, note string, requester audit.Actor,
) (Arrival, error) {
	found, err := listArrivals(ctx, tx, ` WHERE a.deposit_id = $1`, depositID)
	if err != nil {
		return Arrival{}, err
	}
	if len(found) == 0 {
		return Arrival{}, newNoArrival()
	}
	a := found[0]
	switch {
	case a.Role != "STRAY":
		return a, newDecided("This arrival is a %s and needs no decision.", a.Role)
	case decision == CreditArrival && a.CustomerID == "" && a.Product == "":
		return a, newDecided("No swap of this database says whose this arrival is, so it can only be kept.")
	}
	entries := []audit.Entry{{
		OrgID: a.OrgID, Actor: requester, Action: "swap.arrival_decided", ResourceKind: resourceKind,
		ResourceID: a.SwapID,
		Detail: map[string]any{
			"deposit": depositID, "decision": decision, "note": note, "amount": a.Amount, "mint": a.MintID,
		},
	}}
	writeDecision := func() error {
		tag, err := tx.Exec(ctx, `
			UPDATE swap_arrivals SET decision = $2, note = $3, decided_by = $4, decided_at = $5
			WHERE deposit_id = $1 AND role = 'STRAY' AND decision IS NULL`,
			depositID, string(decision), note, requester.Kind+" "+requester.ID, tx.Now)
		if err != nil {
			return fmt.Errorf("decide about arrival %s: %w", depositID, err)
		}
		if tag.RowsAffected() != 1 {
			return newAlreadyDecided()
		}
		return nil
	}
	switch {
	case a.Decision != nil:
		return a, newAlreadyDecided()
	case decision == KeepArrival:
		if err := writeDecision(); err != nil {
			return a, err
		}
	default:
		credited, err := s.creditArrival(ctx, tx, a, requester, writeDecision)
		if err != nil {
			return a, err
		}
		entries = append(entries, credited.Audit)
	}
	if err := audit.Record(ctx, tx, entries...); err != nil {
		return a, err
	}
	found, err = listArrivals(ctx, tx, ` WHERE a.deposit_id = $1`, depositID)
	if err == nil && len(found) == 0 {
		err = errors.New("an arrival vanished")
	}
	if err != nil {
		return a, err
	}
	return found[0], nil
}

// creditArrival credits a stray to the owner of its swap, and announces it. The whole late delivery of
// a failed swap of which nothing came back ends the claim on the provider, too. writeDecision is called
// behind the locks of the deposit and the swap.
func (s *Service) creditArrival(
	ctx context.Context, tx pg.Tx, a Arrival, requester audit.Actor, writeDecision func() error,
) (CreditedStray, error) {
	credited, err := s.Deposits.CreditStray(ctx, tx, a.DepositID, requester) // locks the deposit before the swap
	if err != nil {
		return credited, err
	}
	w, err := lock(ctx, tx, a.SwapID)
	if err != nil {
		return credited, err
	}
	if err := writeDecision(); err != nil {
		return credited, err
	}
	postings := []ledger.Posting{credited.Posting}
	isWhole, err := isLateDelivery(ctx, tx, w)
	if err != nil {
		return credited, err
	}
	if isWhole && w.Refunded.IsZero() {
		short, err := s.keepShort(ctx, tx, w.ID, money.SubOrZero(w.AmountIn, w.Short))
		if err != nil {
			return credited, err
		}
		postings = append(postings, short...)
	}
	if err := ledger.Post(ctx, tx, postings...); err != nil {
		return credited, fmt.Errorf("credit arrival %s: %w", a.DepositID, err)
	}
	_, err = s.Events.Record(ctx, tx, credited.Event)
	return credited, err
}

// isLateDelivery reports whether what was credited of late deliveries to a failed swap reaches its
// minimum. Less ends no claim: that takes a second operator.
func isLateDelivery(ctx context.Context, tx pg.Tx, w Swap) (bool, error) {
	if w.Status != FailedStatus || w.PaidAt == nil || w.isDelivered() {
		return false, nil
	}
	var credited money.Amount
	err := tx.QueryRow(ctx, `
		SELECT coalesce(sum(d.amount), 0) FROM swap_arrivals a JOIN deposits d ON d.deposit_id = a.deposit_id
		WHERE a.swap_id = $1 AND a.reason = $2 AND a.decision = $3 AND d.wallet_id = $4 AND d.mint_id = $5`,
		w.ID, AfterEnd, CreditArrival, w.DeliveryWalletID, w.To.ID).Scan(&credited)
	if err != nil {
		return false, fmt.Errorf("read the late deliveries of swap %s: %w", w.ID, err)
	}
	return !credited.Less(w.MinOut), nil
}

func newAlreadyDecided() error { return newDecided("This arrival is decided already.") }

func newDecided(format string, args ...any) error {
	return fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten, format, args...)
}
