package payout

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// referenceDays is how far back a reference counts as used.
const referenceDays = 90

// WarningKind says what a person has to look at.
type WarningKind string

// The kinds of warnings.
const (
	DuplicateRow  WarningKind = "DUPLICATE_ROW"  // an earlier row has the same coin, address and amount
	ReferenceSeen WarningKind = "REFERENCE_SEEN" // the list, or a payment of the last 90 days, has its reference
	LookAlike     WarningKind = "LOOK_ALIKE"     // its address looks like another one
	FirstPayment  WarningKind = "FIRST_PAYMENT"  // nothing was ever paid to its address
)

// Warning says what a person should look at before a row is paid. It refuses nothing by itself.
type Warning struct {
	Row       int // the number in the batch
	Kind      WarningKind
	Text      string
	NeedsTick bool // the submission has to name the row
	IsTicked  bool // it did
}

// Warnings returns the warnings of a batch in the order of its rows. Those of a draft are as of now, and those of a
// submitted batch as of its submission, which kept them. Error: fault NOT_FOUND. Rule BP-10.
func (s *Service) Warnings(ctx context.Context, org, batchID string) (warnings []Warning, err error) {
	err = s.DB.ReadOrg(ctx, org, func(ctx context.Context, tx pg.Tx) error {
		b, err := readBatch(ctx, tx, org, batchID)
		if err != nil {
			return err
		}
		if b.Submitter != nil {
			warnings, err = loadWarnings(ctx, tx, batchID)
			return err
		}
		items, err := loadItems(ctx, tx, batchID)
		if err != nil {
			return err
		}
		warnings, err = findWarnings(ctx, tx, b, items)
		return err
	})
	return warnings, err
}

func loadWarnings(ctx context.Context, tx pg.Tx, batchID string) ([]Warning, error) {
	rows, err := tx.Query(ctx, `
		SELECT row_no, kind, text, needs_tick, ticked FROM payout_warnings WHERE batch_id = $1 ORDER BY row_no, kind`,
		batchID)
	if err != nil {
		return nil, fmt.Errorf("read the warnings of batch %s: %w", batchID, err)
	}
	warnings, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Warning])
	if err != nil {
		return nil, fmt.Errorf("read the warnings of batch %s: %w", batchID, err)
	}
	return warnings, nil
}

// history is what the organization's payments say about a row.
type history struct {
	row       int
	ends      string        // the ends of the address, which look-alikes share
	isKnown   bool          // a payment to the address was let go
	alike     chain.Address // another address of the past with the same ends, or ""
	isFirst   bool
	reference string // what has used the row's reference, or ""
}

// findWarnings looks at the rows of a batch and at what the organization has paid before.
func findWarnings(ctx context.Context, tx pg.Tx, b Batch, items []Item) ([]Warning, error) {
	histories, err := loadHistory(ctx, tx, b)
	if err != nil {
		return nil, err
	}
	type payment struct {
		mintID          int
		address, amount string
	}
	payments, references := map[payment]int{}, map[string]int{}
	addresses := map[string][]chain.Address{} // by their ends
	for k, i := range items {
		ends := histories[k].ends
		if !slices.Contains(addresses[ends], i.ToAddress) {
			addresses[ends] = append(addresses[ends], i.ToAddress)
		}
	}
	var warnings []Warning
	for k, i := range items {
		add := func(kind WarningKind, format string, args ...any) {
			warnings = append(warnings, Warning{
				Row: i.Number, Kind: kind, Text: fmt.Sprintf(format, args...), NeedsTick: kind == LookAlike,
			})
		}
		h, paid := histories[k], payment{i.MintID, string(i.ToAddress), i.Amount.String()}
		if earlier, isThere := payments[paid]; isThere {
			add(DuplicateRow, "Row %d pays the same amount of the same coin to the same address.", earlier)
		} else {
			payments[paid] = i.Number
		}
		if h.isFirst {
			add(FirstPayment, "Nothing was paid to this address before.")
		}
		alike := h.alike
		for _, address := range addresses[h.ends] {
			if alike == "" && address != i.ToAddress {
				alike = address
			}
		}
		if alike != "" && !h.isKnown {
			add(LookAlike, "The address begins and ends like %s and is another one. Compare every character of it.",
				alike)
		}
		if i.Reference == "" {
			continue
		}
		if earlier, isThere := references[i.Reference]; isThere {
			add(ReferenceSeen, "Row %d has the same reference.", earlier)
			continue
		}
		references[i.Reference] = i.Number
		if h.reference != "" {
			add(ReferenceSeen, "%s has the same reference and is not older than %d days.", h.reference, referenceDays)
		}
	}
	return warnings, nil
}

// loadHistory returns what is known of each row of a batch, in their order. A look-alike is what withdrawals take for
// one: an address that no payment was let go to, with the ends of another one that the organization has paid or owns.
func loadHistory(ctx context.Context, tx pg.Tx, b Batch) ([]history, error) {
	rows, err := tx.Query(ctx, `
		SELECT i.row_no, i.ends,
			EXISTS (SELECT FROM withdrawals w WHERE w.org_id = $1 AND w.to_address = i.to_address
				AND w.status NOT IN ('AWAITING_APPROVAL', 'REJECTED', 'CANCELLED', 'BLOCKED')),
			coalesce((SELECT min(a.address) FROM (
				SELECT w.to_address AS address FROM withdrawals w WHERE w.org_id = $1 AND w.to_prefix_suffix = i.ends
					AND w.status NOT IN ('REJECTED', 'CANCELLED', 'BLOCKED')
				UNION ALL
				SELECT x.address FROM wallets x WHERE x.org_id = $1 AND x.prefix_suffix = i.ends) a
				WHERE a.address <> i.to_address), ''),
			NOT EXISTS (SELECT FROM withdrawals w WHERE w.org_id = $1 AND w.to_address = i.to_address
				AND w.chain = i.chain AND w.status IN ('BROADCAST', 'COMPLETED')),
			coalesce((SELECT 'Withdrawal ' || w.withdrawal_id FROM withdrawals w WHERE i.reference <> ''
					AND w.org_id = $1 AND w.reference = i.reference AND w.created_at > $3
					AND w.status NOT IN ('FAILED', 'REJECTED', 'CANCELLED', 'BLOCKED')
					ORDER BY w.created_at DESC, w.withdrawal_id LIMIT 1),
				(SELECT 'Row ' || j.row_no || ' of ' || j.batch_id
					FROM payout_items j JOIN payout_batches o USING (batch_id)
					WHERE i.reference <> '' AND j.org_id = $1 AND j.reference = i.reference AND j.reference <> ''
					AND j.batch_id <> $2 AND j.refused IS NULL AND o.submitted_at > $3
					AND o.status IN ('VALIDATING', 'AWAITING_APPROVAL', 'PROCESSING')
					ORDER BY o.submitted_at DESC, j.batch_id, j.row_no LIMIT 1), '')
		FROM (SELECT row_no, chain, to_address, reference, address_prefix_suffix(to_address) AS ends
			FROM payout_items WHERE batch_id = $2) i ORDER BY i.row_no`,
		b.OrgID, b.ID, tx.Now.AddDate(0, 0, -referenceDays))
	if err != nil {
		return nil, fmt.Errorf("read what was paid before batch %s: %w", b.ID, err)
	}
	histories, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (h history, err error) {
		return h, row.Scan(&h.row, &h.ends, &h.isKnown, &h.alike, &h.isFirst, &h.reference)
	})
	if err != nil {
		return nil, fmt.Errorf("read what was paid before batch %s: %w", b.ID, err)
	}
	return histories, nil
}

// UntickedDetail names the rows that still need a tick in the details of the fault of Submit.
const UntickedDetail = "untickedRows"

// refuseUnticked refuses a submission that does not name every look-alike.
func refuseUnticked(warnings []Warning, ticked []int) error {
	unticked := []int{}
	for _, w := range warnings {
		if w.NeedsTick && !slices.Contains(ticked, w.Row) {
			unticked = append(unticked, w.Row)
		}
	}
	if len(unticked) == 0 {
		return nil
	}
	return fault.New(fault.Conflict, fault.InvalidState, fault.NothingHeld,
		"The addresses of %d rows look like other ones: such addresses are offered to be copied by mistake.",
		len(unticked)).
		WithAdvice("Compare every character of each address, and name each of these rows in ticked.").
		WithParam("ticked").WithExtra("currentStatus", string(Draft)).WithDetail(UntickedDetail, unticked)
}

// keepWarnings writes what was warned of at the submission.
func keepWarnings(ctx context.Context, tx pg.Tx, b Batch, warnings []Warning, ticked []int) error {
	queue := &pgx.Batch{}
	for _, w := range warnings {
		queue.Queue(`
			INSERT INTO payout_warnings (batch_id, row_no, kind, org_id, text, needs_tick, ticked)
			VALUES ($1, $2, $3, $4, $5, $6, $7)`,
			b.ID, w.Row, w.Kind, b.OrgID, w.Text, w.NeedsTick, w.NeedsTick && slices.Contains(ticked, w.Row))
	}
	if err := tx.SendBatch(ctx, queue).Close(); err != nil {
		return fmt.Errorf("keep the warnings of batch %s: %w", b.ID, err)
	}
	return nil
}
