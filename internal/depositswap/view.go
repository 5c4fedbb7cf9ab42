package depositswap

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/swap/signedquote"
	"github.com/cofferpay/coffer/internal/wallet"
)

const selectDepositSwaps = `
	SELECT s.deposit_swap_id, s.org_id, s.customer_id, coalesce(s.idempotency_key, ''), s.request_digest,
		s.origin_chain, s.origin_contract, s.origin_symbol, s.origin_decimals,
		m.mint_id, m.symbol, m.name, m.chain, m.decimals, m.contract,
		s.deposit_address, s.amount_in, s.estimated_out, s.min_out, s.expires_at, s.refund_address, s.status,
		s.received_amount, s.amount_out, s.refunded_amount, s.origin_tx_hash, s.destination_tx_hash, s.failure_reason,
		ARRAY(SELECT d.deposit_id FROM deposits d WHERE d.deposit_swap_id = s.deposit_swap_id AND NOT d.is_hidden
			AND d.status <> 'ORPHANED' ORDER BY d.created_at, d.deposit_id),
		s.provider, s.scheme, s.signed_quote, s.origin_asset, s.destination_asset, s.mac,
		w.wallet_id, w.org_id, w.family, w.purpose, w.subject, w.path, w.address, w.proof, w.form,
		s.known_payments, s.known_refunds, coalesce(s.origin_payers, '{}'), coalesce(s.payer_source, ''),
		s.success_said_at, s.failure_said_at, s.look_count, s.created_at, s.updated_at, s.completed_at
	FROM deposit_swaps s JOIN mints m ON m.mint_id = s.to_mint_id JOIN wallets w ON w.wallet_id = s.wallet_id`

func scanDepositSwap(row pgx.CollectableRow) (d DepositSwap, err error) {
	t, w := &d.stored, &d.stored.wallet
	err = row.Scan(&d.ID, &d.OrgID, &d.CustomerID, &d.IdempotencyKey, &t.digest,
		&d.Token.Chain, &d.Token.Contract, &d.Token.Symbol, &d.Token.Decimals,
		&d.To.ID, &d.To.Symbol, &d.To.Name, &d.To.Chain, &d.To.Decimals, &d.To.Contract,
		&d.DepositAddress, &d.AmountIn, &d.EstimatedOut, &d.MinOut, &d.ExpiresAt, &d.RefundAddress, &d.Status,
		&d.Received, &d.AmountOut, &d.Refunded, &d.OriginTxHash, &d.DestinationTxHash, &d.FailureReason,
		&d.DepositIDs,
		&d.Provider, &t.scheme, &t.signedQuote, &t.originAsset, &t.destinationAsset, &t.mac,
		&w.ID, &w.OrgID, &w.Family, &w.Purpose, &w.Subject, &w.Path, &w.Address, &w.Proof, &w.Form,
		&t.knownPayments, &t.knownRefunds, &t.payers, &t.payerSource,
		&t.successSaidAt, &t.failureSaidAt, &t.lookCount, &d.CreatedAt, &d.UpdatedAt, &d.CompletedAt)
	d.Token.ID = tokenID(d.Token.Token)
	return d, err
}

// load returns a deposit swap of any organization that the transaction sees. Error: fault NOT_FOUND.
func load(ctx context.Context, tx pg.Tx, depositSwapID string) (DepositSwap, error) {
	if !id.IsValid(idPrefix, depositSwapID) {
		return DepositSwap{}, newGone()
	}
	rows, err := tx.Query(ctx, selectDepositSwaps+` WHERE s.deposit_swap_id = $1`, depositSwapID)
	if err != nil {
		return DepositSwap{}, fmt.Errorf("read deposit swap %s: %w", depositSwapID, err)
	}
	d, err := pgx.CollectExactlyOneRow(rows, scanDepositSwap)
	if errors.Is(err, pgx.ErrNoRows) {
		return DepositSwap{}, newGone()
	}
	if err != nil {
		return DepositSwap{}, fmt.Errorf("read deposit swap %s: %w", depositSwapID, err)
	}
	return d, nil
}

// newGone returns the answer to an id that this organization does not have.
func newGone() error {
	return fault.New(fault.NotFound, fault.CodeNotFound, fault.ReadOnly, "There is no such deposit swap.")
}

// errTampered says that the address of a deposit swap is not shown: a payment to it could go elsewhere.
var errTampered = errors.New("the row does not hold together")

// verify checks what stands between a database that an attacker changed and an address that a customer pays: the
// signed quote with the pinned keys, its recipient against a wallet that our signer attested, its refund address,
// and the MAC over the row. The address of one that has ended is withheld if the configuration has no key any more
// that verifies its quote: no one has to pay it. Its MAC is right, which covers the terms of the caller, the wallet and
// the provider. The MAC covers neither expires_at, estimated_out, min_out and scheme, which stand in the quote, nor
// origin_symbol, so these are shown unverified. A changed expires_at withholds an address, and shows none. Error: no
// fault; the caller answers INTERNAL. Rule DSW-6, invariant I-71.
func (s *Service) verify(ctx context.Context, d *DepositSwap) error {
	err := s.checkRow(*d)
	var unverifiable *unverifiableError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &unverifiable) && d.hasEnded(s.DB.Clock()()):
		s.Log.DebugContext(ctx, "depositswap: the address of an ended deposit swap is withheld", "depositSwap", d.ID,
			"provider", d.Provider, "error", err)
		d.DepositAddress = ""
		return nil
	}
	s.Log.ErrorContext(ctx, "depositswap: the address of a deposit swap is not shown; the database was changed by "+
		"hand, or the keys of its provider were removed", "depositSwap", d.ID, "org", d.OrgID, "provider", d.Provider,
		"error", err)
	if s.OnTampered != nil {
		s.OnTampered(d.ID)
	}
	return fmt.Errorf("deposit swap %s: %w: %w", d.ID, errTampered, err)
}

// unverifiableError says that no key of the configuration verifies the signed quote of a row whose MAC is right.
type unverifiableError struct{ cause error }

// Error returns the cause.
func (e *unverifiableError) Error() string { return e.cause.Error() }

// Unwrap returns the cause.
func (e *unverifiableError) Unwrap() error { return e.cause }

// hasEnded reports whether no one is to pay the address any more.
func (d DepositSwap) hasEnded(now time.Time) bool {
	switch d.Status {
	case Completed, Refunded, Failed, Expired:
		return true
	}
	return !now.Before(d.ExpiresAt)
}

func (s *Service) checkRow(d DepositSwap) error {
	w := d.stored.wallet
	if w.OrgID != d.OrgID || w.Purpose != wallet.DepositSwap || w.Subject != d.ID || w.Family != d.To.Chain.Family() {
		return errors.New("its wallet is another one's")
	}
	if err := s.Wallets.VerifyAttestation(w); err != nil {
		return err
	}
	if !s.GrantKey.VerifyDepositSwap(d.terms(), d.stored.mac) {
		return errors.New("its MAC is not that of this row")
	}
	quote, err := s.Panel.VerifyQuote(d.Provider, d.stored.signedQuote)
	if err != nil {
		return &unverifiableError{err}
	}
	err = quote.CheckTerms(signedquote.Terms{
		IsFlexible: true, OriginAsset: d.stored.originAsset, DestinationAsset: d.stored.destinationAsset,
		Recipient: string(w.Address), RefundTo: d.RefundAddress, SlippageBpsMax: slippageBps,
	})
	switch {
	case err != nil:
		return err
	case quote.DepositAddress != d.DepositAddress || string(quote.Scheme) != d.stored.scheme:
		return errors.New("its signed quote has another address")
	case quote.AmountOut != d.EstimatedOut || quote.MinAmountOut != d.MinOut:
		return errors.New("its signed quote has other amounts")
	case !quote.Deadline.Equal(d.ExpiresAt):
		return errors.New("its signed quote ends at another time")
	}
	return nil
}

// ByID returns a deposit swap as it is now. Error: fault NOT_FOUND, also for the id of another organization. Rule
// DSW-6.
func (s *Service) ByID(ctx context.Context, orgID, depositSwapID string) (d DepositSwap, err error) {
	err = s.DB.ReadOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) (err error) {
		d, err = load(ctx, tx, depositSwapID)
		return err
	})
	if err != nil {
		return DepositSwap{}, err
	}
	if err := s.verify(ctx, &d); err != nil {
		return DepositSwap{}, err
	}
	return d, nil
}

// Filter narrows a list. A zero field does not narrow it.
type Filter struct {
	CustomerID     string
	Status         string
	IdempotencyKey string
	CreatedAfter   time.Time // exclusive
	CreatedBefore  time.Time // exclusive
}

func (f Filter) query(orgID string) *pagination.Query {
	return f.narrow(pagination.NewQuery(selectDepositSwaps+` WHERE s.org_id = ?`, orgID))
}

func (f Filter) narrow(q *pagination.Query) *pagination.Query {
	if f.CustomerID != "" {
		q.AddCondition("s.customer_id = ?", f.CustomerID)
	}
	if f.Status != "" {
		q.AddCondition("s.status = ?", f.Status)
	}
	if f.IdempotencyKey != "" {
		q.AddCondition("s.key_hash = ?", keyHash(f.IdempotencyKey))
	}
	q.SetTimeRange(f.CreatedAfter, f.CreatedBefore)
	return q
}

// List returns a page of an organization's deposit swaps in the order of (creation time, id). Error: one whose
// address may not be shown fails the page.
func (s *Service) List(
	ctx context.Context, orgID string, f Filter, p pagination.Page,
) (page pagination.Result[DepositSwap], err error) {
	q := f.query(orgID)
	err = s.DB.ReadOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) error {
		page, err = listPage(ctx, tx, q, p)
		return err
	})
	return s.verifyPage(ctx, page, err)
}

// verifyPage returns a page that was read, unless the address of one of its deposit swaps may not be shown.
func (s *Service) verifyPage(
	ctx context.Context, page pagination.Result[DepositSwap], err error,
) (pagination.Result[DepositSwap], error) {
	if err != nil {
		return page, err
	}
	for i := range page.Items {
		if err := s.verify(ctx, &page.Items[i]); err != nil {
			return pagination.Result[DepositSwap]{}, err
		}
	}
	return page, nil
}

func listPage(
	ctx context.Context, tx pg.Tx, q *pagination.Query, p pagination.Page,
) (page pagination.Result[DepositSwap], err error) {
	sql, args := q.BuildPage(p, "s.created_at", "s.deposit_swap_id")
	rows, err := tx.Query(ctx, sql, pg.Planned(q.Filtered(), args)...)
	if err != nil {
		return page, fmt.Errorf("list deposit swaps: %w", err)
	}
	found, err := pgx.CollectRows(rows, scanDepositSwap)
	if err != nil {
		return page, fmt.Errorf("list deposit swaps: %w", err)
	}
	return pagination.CutPage(p, found, func(d DepositSwap) pagination.Cursor {
		return pagination.Cursor{CreatedAt: d.CreatedAt, ID: d.ID}
	}), nil
}

// ForEach calls fn for all of an organization's deposit swaps that match the filter, in list order and from one
// snapshot. The first error ends it.
func (s *Service) ForEach(ctx context.Context, orgID string, f Filter, desc bool, fn func(DepositSwap) error) error {
	sql, args := f.query(orgID).BuildAll(desc, "s.created_at", "s.deposit_swap_id")
	err := s.DB.SnapshotOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) error {
		return pg.ForEachRow(ctx, tx, sql, args, scanDepositSwap, func(d DepositSwap) error {
			if err := s.verify(ctx, &d); err != nil {
				return err
			}
			return fn(d)
		})
	})
	if err != nil {
		return fmt.Errorf("read the deposit swaps of %s: %w", orgID, err)
	}
	return nil
}
