package billing

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// FeeReader reads from a chain what the transaction of an order cost, for each order that shares it.
type FeeReader interface {
	ReadFees(ctx context.Context, orderID string) ([]dispatch.ChainFee, error)
}

var _ FeeReader = (*dispatch.Worker)(nil)

// UnreadFee is a line whose transaction no chain showed.
type UnreadFee struct {
	FeeLineID string
	TxHash    string
	Reason    string
}

const (
	chainReadsMax  = 8  // at once
	chainReadBatch = 64 // transactions until the first difference ends the reading
)

// billedOrder is an order whose network fee is on an invoice, with its first line there.
type billedOrder struct {
	LineID, OrderID string
	Chain           chain.Name
	TxHash          string
	Fee             money.Amount // as it is booked, with all corrections
}

// VerifyOnChain does what Verify does, and then compares each network fee with what its chain says that the transaction
// cost. It names the first line, by time, that differs, and every line whose transaction could not be read. What a
// withdrawal prepaid is no cost of a transaction, and is compared with the ledger alone. Errors: those of Verify.
// Rule BI-23.
func (s *Service) VerifyOnChain(ctx context.Context, invoiceID string) (Verification, error) {
	v, err := s.Verify(ctx, invoiceID)
	if err != nil || v.Difference != "" {
		return v, err
	}
	var orders []billedOrder
	err = s.DB.Snapshot(ctx, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, `
			SELECT x.fee_line_id, x.order_id, x.chain, coalesce(x.tx_hash, ''), x.fee FROM (
				SELECT DISTINCT ON (o.order_id) l.fee_line_id, l.incurred_at, o.order_id, o.chain, o.tx_hash, o.fee
				FROM fee_lines l JOIN dispatch_orders o ON o.order_id = split_part(l.source_id, '/', 1)
				WHERE l.invoice_id = $1 AND l.source_kind IN ('NETWORK_FEE', 'FEE_CHANGE')
				ORDER BY o.order_id, l.incurred_at, l.fee_line_id) x
			ORDER BY x.incurred_at, x.fee_line_id`, invoiceID)
		if err != nil {
			return err
		}
		orders, err = pgx.CollectRows(rows, pgx.RowToStructByPos[billedOrder])
		return err
	})
	if err != nil {
		return v, fmt.Errorf("list the transactions of %s: %w", invoiceID, err)
	}
	for batch := range slices.Chunk(orders, chainReadBatch) {
		read, reasons := s.readFees(ctx, batch)
		if ctx.Err() != nil {
			return v, ctx.Err()
		}
		for _, o := range batch {
			found, isRead := read[o.OrderID]
			switch {
			case !isRead:
				v.Unread = append(v.Unread, UnreadFee{o.LineID, o.TxHash, reasons[o.TxHash]})
			case found.Amount != o.Fee || string(found.Hash) != o.TxHash:
				v.Difference = fmt.Sprintf(
					"line %s: the chain says that order %s cost %s, in %s, and the books have %s, in %s",
					o.LineID, o.OrderID, found.Amount, found.Hash, o.Fee, o.TxHash)
				return v, nil
			default:
				v.ChainFees++
			}
		}
	}
	return v, nil
}

// readFees reads what the transactions of orders cost, each once, and returns the fees by order, and why a transaction
// could not be read.
func (s *Service) readFees(
	ctx context.Context, orders []billedOrder,
) (fees map[string]dispatch.ChainFee, reasons map[string]string) {
	fees, reasons = map[string]dispatch.ChainFee{}, map[string]string{}
	isAsked := map[string]bool{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	tokens := make(chan struct{}, chainReadsMax)
	for _, o := range orders {
		if isAsked[o.TxHash] {
			continue
		}
		isAsked[o.TxHash] = true
		tokens <- struct{}{}
		wg.Go(func() {
			defer func() { <-tokens }()
			var found []dispatch.ChainFee
			err := fmt.Errorf("%s is not configured here", o.Chain)
			if reader := s.feeReader(o.Chain); reader != nil {
				found, err = reader.ReadFees(ctx, o.OrderID)
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				reasons[o.TxHash] = err.Error()
			}
			for _, f := range found {
				fees[f.OrderID] = f
			}
		})
	}
	wg.Wait()
	return fees, reasons
}

func (s *Service) feeReader(name chain.Name) FeeReader {
	if s.FeeReaders == nil {
		return nil
	}
	return s.FeeReaders(name)
}
