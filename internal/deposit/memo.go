package deposit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

const (
	memoPoll = time.Second
	// memoBatchMax is how many transactions of a chain one step asks about. With memoPoll it bounds
	// the requests to providers, which the scan of the chain needs too.
	memoBatchMax      = 16
	memoWithin        = time.Minute      // of one attempt at a transaction
	memoAgainAfter    = 15 * time.Second // after the first attempt; every later pause is twice as long
	memoAgainMax      = 6 * time.Hour
	memoAttemptsMax   = 20 // over two days
	memoBytesMax      = 4096
	memoErrorBytesMax = 500
)

// queueMemos has the memos of a block's deposits read later, unless they are queued already. It
// leaves out deposits that are unsupported or below the minimum: they are never credited, each
// costs its sender next to nothing, and their memos are mostly advertisements. It leaves out the
// operator's wallets, whose deposits no organization sees, and those of swaps. Rule DEP-54.
func (s *Service) queueMemos(ctx context.Context, tx pg.Tx, ch chain.Name, changes []change) error {
	var hashes []string
	for _, c := range changes {
		if c.after.status != Unsupported && c.after.status != BelowMinimum &&
			s.Owners.forPurpose(c.after.purpose).Terms().isShownEarly() {
			hashes = append(hashes, string(c.after.tx))
		}
	}
	if len(hashes) == 0 {
		return nil
	}
	slices.Sort(hashes)
	_, err := tx.Exec(ctx, `
		INSERT INTO transaction_memos (chain, tx_hash, next_attempt_at, created_at)
		SELECT $1, tx_hash, $3, $3 FROM unnest($2::text[]) AS t (tx_hash)
		ON CONFLICT (chain, tx_hash) DO NOTHING`, ch, slices.Compact(hashes), tx.Now)
	if err != nil {
		return fmt.Errorf("queue the memos of %d transactions on %s: %w", len(hashes), ch, err)
	}
	return nil
}

// dueMemo is a transaction whose memo is read now.
type dueMemo struct {
	Tx       chain.TxHash
	Attempts int
}

// RunMemos reads memos until ctx ends. It returns nil.
func (s *Service) RunMemos(ctx context.Context) error {
	timer := time.NewTimer(memoPoll)
	defer timer.Stop()
	for ctx.Err() == nil {
		if _, err := s.ReadMemos(ctx); err != nil && ctx.Err() == nil {
			s.Log.Warn("deposit: reading memos stopped early", "error", err)
		}
		timer.Reset(memoPoll)
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	return nil
}

// ReadMemos takes one step: it asks about a batch of transactions of each chain with memos, all at
// once, and returns how many it asked about. If no provider's answer is proven, it asks again
// later, at growing intervals. It gives up after memoAttemptsMax attempts.
func (s *Service) ReadMemos(ctx context.Context) (asked int, err error) {
	for name, ch := range s.Chains {
		if ch.Memos == nil {
			continue
		}
		due, err := s.dueMemos(ctx, name)
		if err != nil {
			return asked, err
		}
		errs := make([]error, len(due))
		var all sync.WaitGroup
		for i, m := range due {
			all.Go(func() { errs[i] = s.readMemo(ctx, name, ch.Memos, m) })
		}
		all.Wait()
		asked += len(due)
		if err := errors.Join(errs...); err != nil {
			return asked, err
		}
	}
	return asked, nil
}

// dueMemos returns the memos that are due: half of them due for the longest time, half of them due
// most recently. So a new deposit does not wait for a backlog, and the backlog does not wait for a
// flood of deposits.
func (s *Service) dueMemos(ctx context.Context, ch chain.Name) (due []dueMemo, err error) {
	err = s.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, `
			(SELECT tx_hash, attempts FROM transaction_memos WHERE chain = $1 AND status = 'DUE' AND next_attempt_at <= $2
				ORDER BY next_attempt_at LIMIT $3)
			UNION
			(SELECT tx_hash, attempts FROM transaction_memos WHERE chain = $1 AND status = 'DUE' AND next_attempt_at <= $2
				ORDER BY next_attempt_at DESC LIMIT $3)`, ch, tx.Now, memoBatchMax/2)
		if err != nil {
			return err
		}
		due, err = pgx.CollectRows(rows, pgx.RowToStructByPos[dueMemo])
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look for memos to read on %s: %w", ch, err)
	}
	return due, nil
}

// readMemo makes one attempt at a transaction and writes its outcome. Rule DEP-54.
func (s *Service) readMemo(ctx context.Context, ch chain.Name, memos chain.Memos, m dueMemo) error {
	within, cancel := context.WithTimeout(ctx, memoWithin)
	defer cancel()
	text, refused, failed := memos.Memo(within, m.Tx)
	if ctx.Err() != nil {
		return ctx.Err() // the service stops, and no provider has failed
	}
	if refused != nil {
		s.Log.Warn("deposit: refused a provider's answer about a memo", "chain", ch, "tx", m.Tx, "error", refused)
	}
	attempts := m.Attempts + 1
	abandoned := failed != nil && attempts >= memoAttemptsMax
	err := s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		status, memo, next, ended, said := "READ", emptyAsNull(cleanMemo(text)), tx.Now, &tx.Now, ""
		if failed != nil {
			memo, said = nil, cleanMemo(failed.Error())
			said = strings.ToValidUTF8(said[:min(len(said), memoErrorBytesMax)], "")
			if status = "ABANDONED"; !abandoned {
				status, next, ended = "DUE", tx.Now.Add(min(memoAgainAfter<<m.Attempts, memoAgainMax)), nil
			}
		}
		// Where another process made the same attempt, its outcome stands.
		_, err := tx.Exec(ctx, `
			UPDATE transaction_memos SET status = $3, memo = $4, attempts = $5, last_error = $6, next_attempt_at = $7, ended_at = $8
			WHERE chain = $1 AND tx_hash = $2 AND status = 'DUE' AND attempts < $5`,
			ch, m.Tx, status, memo, attempts, said, next, ended)
		return err
	})
	if err != nil {
		return fmt.Errorf("write the memo of %s on %s: %w", m.Tx, ch, err)
	}
	if abandoned {
		s.Log.Warn(
			"deposit: gave up reading the memo of a transaction; its deposits have no memo", "chain", ch,
			"tx", m.Tx, "error", failed,
		)
	}
	return nil
}

// cleanMemo returns a payer's text as it is stored and shown: valid UTF-8 without control
// characters, except tab and newline, and without characters that change the direction of text.
// U+FFFD replaces what it removes.
func cleanMemo(text string) string {
	text = strings.Map(func(r rune) rune {
		if r != '\t' && r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
			return utf8.RuneError
		}
		return r
	}, text)
	return strings.ToValidUTF8(text[:min(len(text), memoBytesMax)], "")
}
