// Package payout pays lists of addresses of an organization, its batches. People approve a batch by one hash over
// all its rows, and each row is then an ordinary withdrawal of the organization's own money.
//
// Invariants:
//
//   - What is held for batches is the sum of the rows that neither a withdrawal nor a refusal has taken out.
//   - A row has at most one withdrawal, whose id follows from batch and row.
//   - No row is paid before enough people, and not the maker, have approved the hash that covers it. A batch below the
//     operator's amount needs none, and the signer's own policy bounds what such batches take.
//   - A row never changes. The signer pays only what leads to the approved hash, so a change would pay nothing.
//   - A batch that leaves rows out has another hash, once, before anyone may approve it.
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
	"github.com/cofferpay/coffer/internal/platform/pagination"
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
	Completed          Status = "COMPLETED"           // every included row was paid
	PartiallyCompleted Status = "PARTIALLY_COMPLETED" // some rows were paid
	Failed             Status = "FAILED"              // no row was paid
	Cancelled          Status = "CANCELLED"           // its organization took it back, and no row was paid
	Rejected           Status = "REJECTED"            // a person refused to approve it
)

// EndStatus returns the status of a batch whose included rows have all ended. It follows from the rows, and from
// whether a person cancelled the batch while it was being paid.
func EndStatus(included, paid int, isStopped bool) Status {
	switch {
	case paid == included:
		return Completed
	case paid > 0:
		return PartiallyCompleted
	case isStopped:
		return Cancelled
	}
	return Failed
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
	// Required is the number of approvals that it needs, from its submission on. It is 0 for one that needed no person.
	Required   int
	Approvals  int
	Problem    string // why it is INVALID or REJECTED
	CreatedAt  time.Time
	SubmitAt   *time.Time
	ApprovedAt *time.Time
	EndedAt    *time.Time

	BadRows     int      // rows of the list that cannot be read; none of them is ever paid
	UsesDecimal bool     // the list has amounts in whole tokens
	Columns     []string // those that the list names, in its order
	RetryOf     string   // the batch whose unpaid rows it has, or ""
	DuplicateOf string   // the batch of the same list that its submission acknowledged, or ""
	// PausedAt is when a person, or a restore, stopped its payments; nil while they go on.
	PausedAt    *time.Time
	PauseReason string // of a pause by the service; "" for one by a person
	// StoppedAt is when a person cancelled it while it was being paid. What has no slot then is taken back.
	StoppedAt *time.Time
	Stopper   *audit.Actor
	// AutoBelow is batchAutoApproveUsd, below which it needed no person, and AutoValue what it was worth then. Both are
	// nil for every other batch.
	AutoBelow, AutoValue *money.USD
	Counts               Counts // of batches that ByID and List return

	digest, mac   []byte
	submittedHash []byte
}

// Counts are how many rows of a batch there are of each kind. The last four add up to Included.
type Counts struct {
	Bad        int // rows of the list that cannot be read
	Included   int
	Waiting    int // without a payment, or with one that waits for people
	Processing int
	Paid       int
	Unpaid     int // never paid by this batch
}

// Item is a row of a batch, with what became of it.
type Item struct {
	contenthash.Row
	Line     int    // in the text of the list
	Position int    // in the list, from 1; it counts the rows that cannot be read, too
	Refused  string // why it is never paid, or ""
	// WaitsFor is why the row has no payment yet, or "".
	WaitsFor string
	// WithdrawalID pays the row; "" while none does. WithdrawalStatus is its status.
	WithdrawalID     string
	WithdrawalStatus string
	TxHash           *string
	NetworkFee       *money.Amount // units of the chain's native coin; nil while it is not final

	isChecked    bool
	reasons      []string // why its withdrawal waits for people
	endedBecause string   // why its withdrawal was not paid
	orderWait    string   // why its order has no slot yet, or ""
	orderDetail  string
}

// RowPayment is the payment of a row.
type RowPayment struct {
	OrgID     string
	Row       signer.BatchRow
	MintID    int
	Amount    money.Amount
	ToAddress chain.Address
	Reference string
	// IsUnapproved says that the batch needed no person. Then no approval stands for one that the row needs.
	IsUnapproved bool
}

// Payments makes the payments of rows, as withdrawals out of what is held for batches.
type Payments interface {
	// CheckRow says why a row could not be paid now, or "". It writes nothing. An error says nothing about the row.
	CheckRow(ctx context.Context, p RowPayment) (refused string, err error)
	// CheckRows returns the numbers of the rows of one batch that can be paid now and need no person. It writes
	// nothing, and leaves the others to CheckRow, which says why.
	CheckRows(ctx context.Context, rows []RowPayment) (passed []int, err error)
	// RequestRow requests the withdrawal of a row. A row that is known keeps its withdrawal. refused says why the
	// row is never paid by this batch, or "". An error leaves the row waiting.
	RequestRow(ctx context.Context, p RowPayment) (refused string, err error)
	// RequestRows requests the withdrawals of rows of one batch in one transaction, and returns the numbers of those
	// that have one now. It leaves the others to RequestRow, which says why. After an error none has one, unless the
	// answer of the commit was lost.
	RequestRows(ctx context.Context, rows []RowPayment) (accepted []int, err error)
	// RecallRow takes back the withdrawal of a row that has no slot. One that has a slot stays, and so does one that
	// has ended: neither is an error.
	RecallRow(ctx context.Context, p RowPayment, actor audit.Actor) error
	// FreshPrice returns the price of a whole unit of a mint, and whether it is recent enough to decide by. It asks
	// the source of prices, so it is called outside of transactions.
	FreshPrice(ctx context.Context, mintID int) (price money.USD, isFresh bool)
}

// Publisher records the events of batches.
type Publisher interface {
	// PublishBatch records the event of the status that a batch has reached, in the transaction that changed it. Most
	// statuses have none.
	PublishBatch(ctx context.Context, tx pg.Tx, b Batch) error
}

// Service makes batches and carries them to their end. It is safe for concurrent use.
type Service struct {
	DB       *pg.DB
	Chains   chain.Chains
	Payments Payments
	// Events tells the organization; nil: no one is told.
	Events Publisher
	// Approvers knows rules and passkeys; nil: no organization has a rule.
	Approvers Approvers
	// ApprovalPage returns the page on which people sign a batch; nil: unknown.
	ApprovalPage func(batchID string) string
	// GrantKey binds approvals to the hash that was approved, for the signer; nil if the signer requires no grants.
	GrantKey *signer.GrantKey
	Log      *slog.Logger
}

const selectBatches = `
	SELECT b.batch_id, b.org_id, b.version, b.status, b.header, b.content_hash, b.idempotency_key, b.maker_kind,
		b.maker_id,
		b.submitter_kind, b.submitter_id, b.approvals_required,
		(SELECT count(DISTINCT (a.approver_kind, a.approver_id)) FROM payout_approvals a
			WHERE a.batch_id = b.batch_id AND (b.status <> 'AWAITING_APPROVAL' OR a.signature IS NULL
				OR (a.signature ->> 'notAfter')::timestamptz > now() + interval '2 minutes')),
		coalesce(b.problem, ''), b.created_at,
		b.submitted_at, b.approved_at, b.ended_at, b.request_digest, b.request_mac, b.bad_count, b.is_decimal,
		b.list_columns, coalesce(b.retry_of, ''), coalesce(b.duplicate_of, ''), b.paused_at,
		coalesce(b.pause_reason, ''), b.stopped_at, b.stopper_kind, b.stopper_id, b.submitted_hash, b.auto_below,
		b.auto_value
	FROM payout_batches b `

func scanBatch(row pgx.CollectableRow) (b Batch, err error) {
	var header, hash []byte
	var submitterKind, submitterID, stopperKind, stopperID *string
	err = row.Scan(&b.ID, &b.OrgID, &b.Version, &b.Status, &header, &hash, &b.IdempotencyKey, &b.Maker.Kind,
		&b.Maker.ID,
		&submitterKind, &submitterID, &b.Required, &b.Approvals, &b.Problem, &b.CreatedAt, &b.SubmitAt, &b.ApprovedAt,
		&b.EndedAt, &b.digest, &b.mac, &b.BadRows, &b.UsesDecimal, &b.Columns, &b.RetryOf, &b.DuplicateOf, &b.PausedAt,
		&b.PauseReason, &b.StoppedAt, &stopperKind, &stopperID, &b.submittedHash, &b.AutoBelow,
		&b.AutoValue)
	if err != nil {
		return b, err
	}
	copy(b.ContentHash[:], hash)
	b.Submitter, b.Stopper = newActor(submitterKind, submitterID), newActor(stopperKind, stopperID)
	if err := json.Unmarshal(header, &b.Header); err != nil {
		return b, fmt.Errorf("read the header of batch %s: %w", b.ID, err)
	}
	return b, nil
}

func newActor(kind, id *string) *audit.Actor {
	if kind == nil || id == nil {
		return nil
	}
	return &audit.Actor{Kind: *kind, ID: *id}
}

func newNotFound() error {
	return fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten,
		"Your organization has no batch payout with this id.")
}

// readBatch returns a batch as the transaction sees it.
func readBatch(ctx context.Context, tx pg.Tx, org, batchID string) (Batch, error) {
	if !id.IsValid(batchPrefix, batchID) {
		return Batch{}, newNotFound()
	}
	rows, err := tx.Query(ctx, selectBatches+`WHERE b.org_id = $1 AND b.batch_id = $2`, org, batchID)
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

// lockBatch locks a batch, which puts what happens to it in an order, and returns it as it is then. The statement that
// waits for the lock would count the approvals of the time before it waited.
func lockBatch(ctx context.Context, tx pg.Tx, org, batchID string) (Batch, error) {
	_, err := tx.Exec(ctx, `SELECT 1 FROM payout_batches WHERE org_id = $1 AND batch_id = $2 FOR NO KEY UPDATE`, org,
		batchID)
	if err != nil {
		return Batch{}, fmt.Errorf("lock batch %s: %w", batchID, err)
	}
	return readBatch(ctx, tx, org, batchID)
}

// loadCounts counts the rows of batches by what became of them.
func loadCounts(ctx context.Context, tx pg.Tx, batches ...*Batch) error {
	byID, ids := map[string]*Batch{}, make([]string, 0, len(batches))
	for _, b := range batches {
		b.Counts.Bad = b.BadRows
		byID[b.ID], ids = b, append(ids, b.ID)
	}
	rows, err := tx.Query(ctx, `
		SELECT i.batch_id, count(*), count(*) FILTER (WHERE w.status IN ('PROCESSING', 'BROADCAST')),
			count(*) FILTER (WHERE w.status = 'COMPLETED'),
			count(*) FILTER (WHERE i.refused IS NOT NULL OR w.status IN ('FAILED', 'REJECTED', 'CANCELLED'))
		FROM payout_items i LEFT JOIN withdrawals w ON w.batch_id = i.batch_id AND w.batch_row = i.row_no
		WHERE i.batch_id = ANY ($1) AND i.included GROUP BY i.batch_id`, ids)
	if err != nil {
		return fmt.Errorf("count the rows of %d batches: %w", len(ids), err)
	}
	var batchID string
	var c Counts
	_, err = pgx.ForEachRow(rows, []any{&batchID, &c.Included, &c.Processing, &c.Paid, &c.Unpaid}, func() error {
		c.Bad, c.Waiting = byID[batchID].BadRows, c.Included-c.Processing-c.Paid-c.Unpaid
		byID[batchID].Counts = c
		return nil
	})
	if err != nil {
		return fmt.Errorf("count the rows of %d batches: %w", len(ids), err)
	}
	return nil
}

// ByID returns a batch as it is now. Error: fault NOT_FOUND, also for one of another organization.
func (s *Service) ByID(ctx context.Context, org, batchID string) (b Batch, err error) {
	err = s.DB.ReadOrg(ctx, org, func(ctx context.Context, tx pg.Tx) (err error) {
		if b, err = readBatch(ctx, tx, org, batchID); err != nil {
			return err
		}
		return loadCounts(ctx, tx, &b)
	})
	return b, err
}

// Filter narrows a list of batches. A zero field does not narrow it.
type Filter struct {
	Status        string
	CreatedAfter  time.Time // exclusive
	CreatedBefore time.Time // exclusive
}

// List returns a page of an organization's batches in the order of (creation time, id).
func (s *Service) List(
	ctx context.Context, org string, f Filter, p pagination.Page,
) (page pagination.Result[Batch], err error) {
	err = s.DB.ReadOrg(ctx, org, func(ctx context.Context, tx pg.Tx) (err error) {
		page, err = readPage(ctx, tx, org, f, p)
		return err
	})
	if err != nil {
		return page, fmt.Errorf("list the batches of %s: %w", org, err)
	}
	return page, nil
}

func readPage(
	ctx context.Context, tx pg.Tx, org string, f Filter, p pagination.Page,
) (page pagination.Result[Batch], err error) {
	q := pagination.NewQuery(selectBatches+`WHERE b.org_id = ?`, org)
	if f.Status != "" {
		q.AddCondition("b.status = ?", f.Status)
	}
	q.SetTimeRange(f.CreatedAfter, f.CreatedBefore)
	sql, args := q.BuildPage(p, "b.created_at", "b.batch_id")
	rows, err := tx.Query(ctx, sql, pg.Planned(q.Filtered(), args)...)
	if err != nil {
		return page, err
	}
	found, err := pgx.CollectRows(rows, scanBatch)
	if err != nil {
		return page, err
	}
	page = pagination.CutPage(p, found, func(b Batch) pagination.Cursor {
		return pagination.Cursor{CreatedAt: b.CreatedAt, ID: b.ID}
	})
	pointers := make([]*Batch, len(page.Items))
	for i := range page.Items {
		pointers[i] = &page.Items[i]
	}
	return page, loadCounts(ctx, tx, pointers...)
}

// Items returns the rows of a batch in their order. Error: fault NOT_FOUND.
func (s *Service) Items(ctx context.Context, org, batchID string) (items []Item, err error) {
	_, items, err = s.load(ctx, org, batchID)
	return items, err
}

// load returns a batch and its rows.
func (s *Service) load(ctx context.Context, orgID, batchID string) (b Batch, items []Item, err error) {
	err = s.DB.ReadOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) (err error) {
		if b, err = readBatch(ctx, tx, orgID, batchID); err != nil {
			return err
		}
		items, err = loadItems(ctx, tx, batchID)
		return err
	})
	return b, items, err
}

// itemPayments are the withdrawals and orders of items. Each is looked up by its key, see pg.ByKey: while a batch
// becomes withdrawals the statistics of the tables are older than its rows.
var itemPayments = `
		LEFT JOIN LATERAL (SELECT * FROM withdrawals x
			WHERE x.batch_id = i.batch_id AND ` + pg.ByKey("x.batch_row", "i.row_no") + ` LIMIT 1) w ON true
		LEFT JOIN LATERAL (SELECT waiting_for, last_error FROM dispatch_orders x
			WHERE ` + pg.ByKey("x.order_id", "w.withdrawal_id") + ` LIMIT 1) o ON true`

// noPayments leaves them out.
const noPayments = `
		LEFT JOIN withdrawals w ON false LEFT JOIN dispatch_orders o ON false`

// loadItems returns the rows of a batch with what became of them.
func loadItems(ctx context.Context, tx pg.Tx, batchID string) ([]Item, error) {
	return readItems(ctx, tx, batchID, itemPayments)
}

// loadApprovedItems returns the rows of a batch as people approved them.
func loadApprovedItems(ctx context.Context, tx pg.Tx, batchID string) ([]Item, error) {
	return readItems(ctx, tx, batchID, noPayments)
}

func readItems(ctx context.Context, tx pg.Tx, batchID, payments string) ([]Item, error) {
	fail := func(err error) ([]Item, error) {
		return nil, fmt.Errorf("read the rows of batch %s: %w", batchID, err)
	}
	b := &pgx.Batch{}
	if payments != noPayments {
		pg.QueueKeyPlans(b)
	}
	var items []Item
	b.Queue(`
		SELECT i.row_no, i.line, i.salt, i.mint_id, i.chain, i.contract, i.to_address, i.amount, i.customer_id,
			i.reference, i.included, i.checked_at IS NOT NULL, coalesce(i.refused, ''), coalesce(i.waits_for, ''),
			coalesce(w.withdrawal_id, ''), coalesce(w.status, ''), w.tx_hash, w.network_fee,
			coalesce(w.approval_reasons, '{}'), coalesce(w.failure_reason, w.rejected_reason, ''),
			coalesce(o.waiting_for, ''), coalesce(o.last_error, '')
		FROM payout_items i`+payments+`
		WHERE i.batch_id = $1 ORDER BY i.row_no`, batchID).Query(func(rows pgx.Rows) (err error) {
		items, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (i Item, err error) {
			return i, row.Scan(&i.Number, &i.Line, &i.Salt, &i.MintID, &i.Chain, &i.Contract, &i.ToAddress, &i.Amount,
				&i.CustomerID, &i.Reference, &i.IsIncluded, &i.isChecked, &i.Refused, &i.WaitsFor, &i.WithdrawalID,
				&i.WithdrawalStatus, &i.TxHash, &i.NetworkFee, &i.reasons, &i.endedBecause, &i.orderWait,
				&i.orderDetail)
		})
		return err
	})
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fail(err)
	}
	rows, err := tx.Query(ctx, `SELECT position FROM payout_bad_rows WHERE batch_id = $1 ORDER BY position`, batchID)
	if err != nil {
		return fail(err)
	}
	bad, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		return fail(err)
	}
	position := 1
	for i := range items {
		for len(bad) > 0 && bad[0] == position {
			bad, position = bad[1:], position+1
		}
		items[i].Position, position = position, position+1
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
		Amount: i.Amount, ToAddress: i.ToAddress, Reference: i.Reference, IsUnapproved: b.AutoBelow != nil,
	}
}
