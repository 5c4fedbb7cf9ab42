package payout

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/payout/contenthash"
	"github.com/cofferpay/coffer/internal/payout/rowfile"
	"github.com/cofferpay/coffer/internal/platform/csvcell"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// The states of rows that have no withdrawal; every other row has the status of its withdrawal.
const (
	RowUnreadable = "UNREADABLE" // the row of the list cannot be read
	RowExcluded   = "EXCLUDED"   // the batch leaves it out
	RowRefused    = "REFUSED"    // it is never paid
	RowWaiting    = "WAITING"
)

// State returns what became of the row, in one word.
func (i Item) State() string {
	switch {
	case !i.IsIncluded:
		return RowExcluded
	case i.Refused != "":
		return RowRefused
	case i.WithdrawalID == "" || i.WithdrawalStatus == "BLOCKED":
		return RowWaiting
	}
	return i.WithdrawalStatus
}

// Reason returns why the row is not paid, or what it waits for; "" for one that is on its way.
func (i Item) Reason() string {
	switch {
	case i.Refused != "":
		return i.Refused
	case i.WithdrawalID == "" || i.WithdrawalStatus == "BLOCKED":
		return i.WaitsFor
	case i.WithdrawalStatus == "AWAITING_APPROVAL":
		return "Its withdrawal waits for people: " + strings.Join(i.reasons, ", ") + "."
	case i.WithdrawalStatus != "PROCESSING" || i.orderWait == "":
		return i.endedBecause
	case strings.HasPrefix(i.orderDetail, "batch payout "):
		return "Its batch payout is paused or cancelled."
	}
	return "Its payment waits for " + dispatch.WaitReason(i.orderWait).Cause().Sentence + "."
}

// resultColumns follow the columns of the list in an export.
var resultColumns = []string{"withdrawalId", "status", "txHash", "fee", "reason"}

// WriteCSV writes the rows of a batch in the columns and the order of its list, those that cannot be read too, and
// behind them what became of each. Amounts and fees have the unit of the list. No cell is a formula. Error: fault
// NOT_FOUND. Rule BP-15.
func (s *Service) WriteCSV(ctx context.Context, org, batchID string, w io.Writer) error {
	var b Batch
	var items []Item
	var bad []BadRow
	var mints mint.Catalogue
	err := s.DB.ReadOrg(ctx, org, func(ctx context.Context, tx pg.Tx) (err error) {
		if b, err = readBatch(ctx, tx, org, batchID); err != nil {
			return err
		}
		if items, err = loadItems(ctx, tx, batchID); err != nil {
			return err
		}
		if bad, err = loadBadRows(ctx, tx, batchID); err != nil {
			return err
		}
		mints, err = mint.LoadCatalogue(ctx, tx)
		return err
	})
	if err != nil {
		return err
	}
	if len(b.Columns) == 0 {
		b.Columns = rowfile.Columns
	}
	out := csv.NewWriter(w)
	write := func(cells []string) error {
		for i := range cells {
			cells[i] = csvcell.EscapeFormula(cells[i])
		}
		return out.Write(cells)
	}
	if err := write(append(append([]string{}, b.Columns...), resultColumns...)); err != nil {
		return fmt.Errorf("write the rows of batch %s: %w", batchID, err)
	}
	for len(items) > 0 || len(bad) > 0 {
		var cells []string
		if len(items) == 0 || len(bad) > 0 && bad[0].Position < items[0].Position {
			cells, bad = bad[0].cells(b.Columns), bad[1:]
		} else {
			cells, items = items[0].cells(b, mints), items[1:]
		}
		if err := write(cells); err != nil {
			return fmt.Errorf("write the rows of batch %s: %w", batchID, err)
		}
	}
	if out.Flush(); out.Error() != nil {
		return fmt.Errorf("write the rows of batch %s: %w", batchID, out.Error())
	}
	return nil
}

func (i Item) cells(b Batch, mints mint.Catalogue) []string {
	m, _ := mints.ByID(i.MintID)
	amount, fee, txHash := i.Amount.String(), "", ""
	if b.UsesDecimal {
		amount = i.Amount.Decimal(m.Decimals)
	}
	if i.NetworkFee != nil {
		fee = i.NetworkFee.String()
		if native, hasNative := mints.Native(i.Chain); b.UsesDecimal && hasNative {
			fee = i.NetworkFee.Decimal(native.Decimals)
		}
	}
	if i.TxHash != nil {
		txHash = *i.TxHash
	}
	values := map[string]string{
		"reference": i.Reference, "customerId": i.CustomerID, "mintId": strconv.Itoa(i.MintID),
		"toAddress": string(i.ToAddress), "memo": i.Memo, "amount": amount,
	}
	cells := make([]string, 0, len(b.Columns)+len(resultColumns))
	for _, column := range b.Columns {
		cells = append(cells, values[column])
	}
	return append(cells, i.WithdrawalID, i.State(), txHash, fee, i.Reason())
}

func (r BadRow) cells(columns []string) []string {
	values := map[string]string{}
	for i, value := range r.Fields.Values() {
		values[rowfile.Columns[i]] = value
	}
	cells := make([]string, 0, len(columns)+len(resultColumns))
	for _, column := range columns {
		cells = append(cells, values[column])
	}
	reasons := make([]string, 0, len(r.Problems))
	for _, p := range r.Problems {
		sentence := p.Message
		if p.Column != "" {
			sentence = p.Column + ": " + sentence
		}
		reasons = append(reasons, sentence)
	}
	return append(cells, "", RowUnreadable, "", "", strings.Join(reasons, " "))
}

// ExportList returns a batch with all rows and salts, from which anyone recomputes its hash. Error: fault NOT_FOUND.
func (s *Service) ExportList(ctx context.Context, org, batchID string) (contenthash.List, error) {
	b, items, err := s.load(ctx, org, batchID)
	return contenthash.List{ContentHash: b.ContentHash, Header: b.Header, Rows: contentRows(items)}, err
}

// RowProof returns the proof that a batch has a row, for its payee. It is made of what the database has, and it
// verifies: of rows that were changed since there is none. Error: fault NOT_FOUND, also for a number without a row.
// Rule BP-14.
func (s *Service) RowProof(
	ctx context.Context, org, batchID string, row int,
) (p contenthash.RowProof, err error) {
	list, err := s.ExportList(ctx, org, batchID)
	if err != nil {
		return p, err
	}
	if row < 1 || row > len(list.Rows) {
		return p, fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten,
			"This batch payout has no row %d.", row)
	}
	p = contenthash.NewRowProof(list.Header, list.Rows, row-1)
	if err := errors.Join(list.VerifyList(), p.VerifyRow()); err != nil {
		return contenthash.RowProof{}, fmt.Errorf("prove row %d of batch %s: %w", row, batchID, err)
	}
	return p, nil
}
