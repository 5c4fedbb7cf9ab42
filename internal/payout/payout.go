// Package payout pays lists of addresses of an organization, its batches. People approve a batch by one hash over
// all its rows, and each row is then an ordinary withdrawal of the organization's own money.
//
// Invariants:
//
//   - What is held for batches is the sum of the rows that neither a withdrawal nor a refusal has taken out.
//   - A row has at most one withdrawal, whose id follows from batch and row.
//   - No row is paid before enough people, and not the maker, have approved the hash that covers it.
//   - A row never changes. The signer pays only what leads to the approved hash, so a change would pay nothing.
//
// After a crash every batch is in the state of its last commit, and the worker goes on from its rows: no cursor is
// kept.
package payout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/payout/contenthash"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
)

const batchPrefix = "bp"

// Status says where a batch is.
type Status string

// The statuses of a batch.
const (
	Draft              Status = "DRAFT"               // nothing is held
	Validating         Status = "VALIDATING"          // its sum is held, and its rows are checked
	Invalid            Status = "INVALID"             // a row cannot be paid; its sum was returned
	AwaitingApproval   Status = "AWAITING_APPROVAL"   // people look at its hash
	Processing         Status = "PROCESSING"          // rows become withdrawals
	Completed          Status = "COMPLETED"           // every row was paid
	PartiallyCompleted Status = "PARTIALLY_COMPLETED" // some rows were paid
	Failed             Status = "FAILED"              // no row was paid
	Cancelled          Status = "CANCELLED"           // its organization took it back before its approval
	Rejected           Status = "REJECTED"            // a person refused to approve it
)

// EndStatus returns the status of a batch whose rows have all ended. It follows from the rows alone.
func EndStatus(rows, paid int) Status {
	switch paid {
	case rows:
		return Completed
	case 0:
		return Failed
	}
	return PartiallyCompleted
}

// Batch is a batch as its organization sees it.
type Batch struct {
	ID             string
	OrgID          string
	Version        int64
	Status         Status
	Header         contenthash.Header
	ContentHash    contenthash.Hash
	IdempotencyKey *string
	Maker          audit.Actor
	Submitter      *audit.Actor
	// Required is the number of approvals that it needs, from its submission on.
	Required   int
	Approvals  int
	Problem    string // why it is INVALID or REJECTED
	CreatedAt  time.Time
	SubmitAt   *time.Time
	ApprovedAt *time.Time
	EndedAt    *time.Time

	digest, mac []byte
}

// Item is a row of a batch, with what became of it.
type Item struct {
	contenthash.Row
	Line    int
	Refused string // why it is never paid, or ""
	// WithdrawalID pays the row; "" while none does. WithdrawalStatus is its status.
	WithdrawalID     string
	WithdrawalStatus string
	TxHash           *string

	isChecked bool
}

// RowPayment is the payment of a row.
type RowPayment struct {
	OrgID     string
	Row       signer.BatchRow
	MintID    int
	Amount    money.Amount
	ToAddress chain.Address
	Reference string
}

// Payments makes the payments of rows, as withdrawals out of what is held for batches.
type Payments interface {
	// CheckRow says why a row could not be paid now, or "". It writes nothing. An error says nothing about the row.
	CheckRow(ctx context.Context, p RowPayment) (refused string, err error)
	// CheckRows returns the numbers of the rows of one batch that can be paid now and need no person. It writes nothing,
	// and leaves the others to CheckRow, which says why.
	CheckRows(ctx context.Context, rows []RowPayment) (passed []int, err error)
	// RequestRow requests the withdrawal of a row. A row that is known keeps its withdrawal. refused says why the
	// row is never paid by this batch, or "". An error leaves the row waiting.
	RequestRow(ctx context.Context, p RowPayment) (refused string, err error)
	// RequestRows requests the withdrawals of rows of one batch in one transaction, and returns the numbers of those
	// that have one now. It leaves the others to RequestRow, which says why. After an error none has one, unless the
	// answer of the commit was lost.
	RequestRows(ctx context.Context, rows []RowPayment) (accepted []int, err error)
}

// Service makes batches and carries them to their end. It is safe for concurrent use.
type Service struct {
	DB       *pg.DB
	Chains   chain.Chains
	Payments Payments
	// GrantKey binds approvals to the hash that was approved, for the signer; nil if the signer requires no grants.
	GrantKey *signer.GrantKey
	Log      *slog.Logger
}

const selectBatches = `
	SELECT b.batch_id, b.org_id, b.version, b.status, b.header, b.content_hash, b.idempotency_key, b.maker_kind,
		b.maker_id,
		b.submitter_kind, b.submitter_id, b.approvals_required,
		(SELECT count(*) FROM payout_approvals a WHERE a.batch_id = b.batch_id), coalesce(b.problem, ''), b.created_at,
		b.submitted_at, b.approved_at, b.ended_at, b.request_digest, b.request_mac
	FROM payout_batches b `

func scanBatch(row pgx.CollectableRow) (b Batch, err error) {
	var header, hash []byte
	var submitterKind, submitterID *string
	err = row.Scan(&b.ID, &b.OrgID, &b.Version, &b.Status, &header, &hash, &b.IdempotencyKey, &b.Maker.Kind,
		&b.Maker.ID,
		&submitterKind, &submitterID, &b.Required, &b.Approvals, &b.Problem, &b.CreatedAt, &b.SubmitAt, &b.ApprovedAt,
		&b.EndedAt, &b.digest, &b.mac)
	if err != nil {
		return b, err
	}
	copy(b.ContentHash[:], hash)
	if submitterKind != nil && submitterID != nil {
		b.Submitter = &audit.Actor{Kind: *submitterKind, ID: *submitterID}
	}
	if err := json.Unmarshal(header, &b.Header); err != nil {
		return b, fmt.Errorf("read the header of batch %s: %w", b.ID, err)
	}
	return b, nil
}

func newNotFound() error {
	return fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten,
		"Your organization has no batch payout with this id.")
}

// readBatch returns a batch as the transaction sees it; lock is "" or a clause that locks its row.
func readBatch(ctx context.Context, tx pg.Tx, org, batchID, lock string) (Batch, error) {
	if !id.IsValid(batchPrefix, batchID) {
		return Batch{}, newNotFound()
	}
	rows, err := tx.Query(ctx, selectBatches+`WHERE b.org_id = $1 AND b.batch_id = $2`+lock, org, batchID)
	if err != nil {
		return Batch{}, fmt.Errorf("read batch %s: %w", batchID, err)
	}
	b, err := pgx.CollectExactlyOneRow(rows, scanBatch)
	if errors.Is(err, pgx.ErrNoRows) {
		return Batch{}, newNotFound()
	}
	if err != nil {
		return Batch{}, fmt.Errorf("read batch %s: %w", batchID, err)
	}
	return b, nil
}

func lockBatch(ctx context.Context, tx pg.Tx, org, batchID string) (Batch, error) {
	return readBatch(ctx, tx, org, batchID, ` FOR NO KEY UPDATE OF b`)
}

// ByID returns a batch as it is now. Error: fault NOT_FOUND, also for one of another organization.
func (s *Service) ByID(ctx context.Context, org, batchID string) (b Batch, err error) {
	err = s.DB.ReadOrg(ctx, org, func(ctx context.Context, tx pg.Tx) (err error) {
		b, err = readBatch(ctx, tx, org, batchID, "")
		return err
	})
	return b, err
}

// Items returns the rows of a batch in their order. Error: fault NOT_FOUND.
func (s *Service) Items(ctx context.Context, org, batchID string) (items []Item, err error) {
	err = s.DB.ReadOrg(ctx, org, func(ctx context.Context, tx pg.Tx) error {
		if _, err := readBatch(ctx, tx, org, batchID, ""); err != nil {
			return err
		}
		items, err = loadItems(ctx, tx, batchID)
		return err
	})
	return items, err
}

func loadItems(ctx context.Context, tx pg.Tx, batchID string) ([]Item, error) {
	rows, err := tx.Query(ctx, `
		SELECT i.row_no, i.line, i.salt, i.mint_id, i.chain, i.contract, i.to_address, i.amount, i.customer_id,
			i.reference,
			i.checked_at IS NOT NULL, coalesce(i.refused, ''), coalesce(w.withdrawal_id, ''), coalesce(w.status, ''),
				w.tx_hash
		FROM payout_items i LEFT JOIN withdrawals w ON w.batch_id = i.batch_id AND w.batch_row = i.row_no
		WHERE i.batch_id = $1 ORDER BY i.row_no`, batchID)
	if err != nil {
		return nil, fmt.Errorf("read the rows of batch %s: %w", batchID, err)
	}
	items, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (i Item, err error) {
		i.IsIncluded = true
		return i, row.Scan(&i.Number, &i.Line, &i.Salt, &i.MintID, &i.Chain, &i.Contract, &i.ToAddress, &i.Amount,
			&i.CustomerID, &i.Reference, &i.isChecked, &i.Refused, &i.WithdrawalID, &i.WithdrawalStatus, &i.TxHash)
	})
	if err != nil {
		return nil, fmt.Errorf("read the rows of batch %s: %w", batchID, err)
	}
	return items, nil
}

// contentRows returns the part of rows that people approve.
func contentRows(items []Item) []contenthash.Row {
	rows := make([]contenthash.Row, 0, len(items))
	for _, i := range items {
		rows = append(rows, i.Row)
	}
	return rows
}

// sealStored returns the header of the rows that the database has now.
func (b Batch) sealStored(items []Item) (contenthash.Header, error) {
	return contenthash.Seal(b.OrgID, b.ID, b.Header.Mode, actorName(b.Maker), contentRows(items))
}

// isIntact reports whether the rows that the database has are those of the hash, and whether the batch still has the
// terms that it was submitted with.
func (s *Service) isIntact(b Batch, items []Item) bool {
	sealed, err := b.sealStored(items)
	return err == nil && sealed.ComputeHash() == b.ContentHash &&
		s.GrantKey.VerifyBatchRequest(b.ContentHash, b.Required, b.mac)
}

// actorName identifies a person or a program, as approvals do.
func actorName(a audit.Actor) string { return string(a.Kind) + " " + a.ID }

// payment returns the payment of a row.
func (b Batch) payment(i Item) RowPayment {
	return RowPayment{
		OrgID: b.OrgID, Row: signer.BatchRow{BatchID: b.ID, Row: i.Number, ContentHash: b.ContentHash},
		MintID: i.MintID,
		Amount: i.Amount, ToAddress: i.ToAddress, Reference: i.Reference,
	}
}
