package payout

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/payout/rowfile"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// Bounds of what is kept of a row that cannot be read.
const (
	badFieldRunesMax = 300
	badMessagesMax   = 12
)

// BadRow is a row of a list that cannot be read. It is shown and never paid, and no hash covers it.
type BadRow struct {
	Position int // in the list, from 1
	Line     int // in the text of the list
	// Fields are the values as they were given; long ones are cut.
	Fields   rowfile.Line
	Problems []rowfile.Problem
}

// newBadRows returns the rows that have problems, in their order.
func newBadRows(lines []rowfile.Line, problems []rowfile.Problem) (bad []BadRow) {
	byRow := map[int][]rowfile.Problem{}
	for _, p := range problems {
		byRow[p.Row] = append(byRow[p.Row], p)
	}
	for i, l := range lines {
		found := byRow[l.Number]
		if len(found) == 0 {
			continue
		}
		for k := range found {
			found[k].Message = keepText(found[k].Message, refusalRunesMax)
		}
		values := l.Values()
		for k := range values {
			values[k] = keepText(values[k], badFieldRunesMax)
		}
		bad = append(bad, BadRow{
			Position: i + 1, Line: l.Line, Fields: rowfile.NewLine(i+1, l.Line, values),
			Problems: found[:min(len(found), badMessagesMax)],
		})
	}
	return bad
}

// keepText returns a text as the database keeps it: without zero characters, and not longer than runesMax.
func keepText(text string, runesMax int) string {
	text = strings.ReplaceAll(text, "\x00", string(utf8.RuneError))
	if utf8.RuneCountInString(text) <= runesMax {
		return text
	}
	return string([]rune(text)[:runesMax-1]) + "…"
}

// BadRows returns the rows of a batch's list that cannot be read, in their order, each with all its problems. Error:
// fault NOT_FOUND. Rule BP-7.
func (s *Service) BadRows(ctx context.Context, org, batchID string) (bad []BadRow, err error) {
	err = s.DB.ReadOrg(ctx, org, func(ctx context.Context, tx pg.Tx) error {
		if _, err := readBatch(ctx, tx, org, batchID); err != nil {
			return err
		}
		bad, err = loadBadRows(ctx, tx, batchID)
		return err
	})
	return bad, err
}

func loadBadRows(ctx context.Context, tx pg.Tx, batchID string) ([]BadRow, error) {
	rows, err := tx.Query(ctx, `
		SELECT position, line, fields, problems FROM payout_bad_rows WHERE batch_id = $1 ORDER BY position`, batchID)
	if err != nil {
		return nil, fmt.Errorf("read the rows of batch %s that cannot be read: %w", batchID, err)
	}
	bad, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (b BadRow, err error) {
		var values []string
		if err := row.Scan(&b.Position, &b.Line, &values, &b.Problems); err != nil {
			return b, err
		}
		b.Fields = rowfile.NewLine(b.Position, b.Line, values)
		return b, nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the rows of batch %s that cannot be read: %w", batchID, err)
	}
	return bad, nil
}
