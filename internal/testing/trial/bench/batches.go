package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/ledger/ledgertest"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/payout"
	"github.com/cofferpay/coffer/internal/payout/contenthash"
	"github.com/cofferpay/coffer/internal/payout/rowfile"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
)

const (
	batchRows       = contenthash.RowsMax
	batchRowUnits   = 1_000_000
	batchReadTarget = 3 * time.Second
	batchReadBytes  = 64 << 20
	batchExpandGoal = 1_000 // rows a second
	grantTarget     = 200 * time.Microsecond
	grantChecks     = 20_000
)

// fundBatches gives the treasury money, and BATCH_PAYOUT a balance of it.
func (e *checkoutEnv) fundBatches(ctx context.Context, amount money.Amount) (wallet.Wallet, error) {
	treasury, err := e.Wallets.Treasury(ctx, e.org, chain.EVM)
	if err != nil {
		return treasury, err
	}
	err = e.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		if _, _, err := customer.Ensure(ctx, tx, e.org, "payer", ""); err != nil {
			return err
		}
		err := wallet.MoveFunds(ctx, tx, wallet.Movement{
			WalletID: treasury.ID, OrgID: e.org, MintID: checkoutToken, Part: wallet.Credited, Plus: amount,
		})
		if err != nil {
			return err
		}
		return ledgertest.PostWithCauses(ctx, tx, ledger.Posting{
			Cause: ledger.Cause{Kind: ledger.Deposit, ID: "dep_batches"},
			Legs: []ledger.Leg{{
				Debit:  ledger.Account{OrgID: e.org, MintID: checkoutToken, Kind: ledger.Custody},
				Credit: ledger.CustomerOwner("payer").SpendingAccount(e.org, checkoutToken), Amount: amount,
			}},
		})
	})
	if err != nil {
		return treasury, err
	}
	return treasury, e.db.InOrg(ctx, e.org, func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(ctx, `
			INSERT INTO transfers (transfer_id, org_id, idempotency_key, request_digest, mint_id, amount, from_customer,
				to_product, created_at) VALUES ('tr_batches', $1, 'k', '', $2, $3, 'payer', 'BATCH_PAYOUT', $4)`,
			e.org, checkoutToken, amount, tx.Now)
		if err != nil {
			return err
		}
		return ledger.Post(ctx, tx, ledger.Posting{
			Cause: ledger.Cause{Kind: ledger.Transfer, ID: "tr_batches"},
			Legs: []ledger.Leg{{
				Debit:  ledger.CustomerOwner("payer").SpendingAccount(e.org, checkoutToken),
				Credit: ledger.ProductOwner(ledger.BatchProduct).SpendingAccount(e.org, checkoutToken), Amount: amount,
			}},
		})
	})
}

// newBatchFile returns a list of as many rows as a batch may have, to as many payees.
func newBatchFile() []byte {
	var file strings.Builder
	file.WriteString("reference,customerId,mintId,toAddress,amount\n")
	for i := range batchRows {
		fmt.Fprintf(&file, "invoice %d,payee-%d,%d,%s,%d\n", i, i, checkoutToken, sim.Address(fmt.Sprint("payee ", i)),
			batchRowUnits)
	}
	return []byte(file.String())
}

// benchPayouts measures a batch of rows, and then what its payments cost on the chains.
func benchPayouts(ctx context.Context, w *benchEnv) error {
	return errors.Join(benchBatches(ctx, w), benchPayments(ctx, w))
}

// benchBatches measures a batch of the greatest size: its list is read, its rows pass the gates, they become
// withdrawals, and the signer checks one of them with its path.
func benchBatches(ctx context.Context, w *benchEnv) (err error) {
	e, err := w.newCheckoutEnv(ctx, "batches")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.closeAll()) }()
	treasury, err := e.fundBatches(ctx, money.Units(2*batchRows*batchRowUnits))
	if err != nil {
		return err
	}
	lines, err := w.benchBatchRead(ctx, e)
	if err != nil {
		return err
	}
	maker := audit.User("usr_maker")
	b, err := e.Payouts.Create(ctx, e.org, payout.CreateRequest{Lines: lines, Actor: maker})
	if err != nil {
		return err
	}
	b, err = e.Payouts.Submit(ctx, e.org, b.ID, payout.SubmitRequest{ContentHash: b.ContentHash, Actor: maker})
	if err != nil {
		return err
	}
	if err := w.execAsSuperuser(ctx, "batches", `ANALYZE`); err != nil {
		return err
	}
	began := time.Now()
	if err := e.Payouts.Validate(ctx, e.org, b.ID); err != nil {
		return err
	}
	took := time.Since(began)
	w.table.addRow(row{
		figure: fmt.Sprintf("%d rows of a batch through all gates, without screening", batchRows),
		result: formatDuration(took), compared: fmt.Sprintf("%.0f rows/s", batchRows/took.Seconds()),
		target: formatTarget(took < batchReadTarget, "3 s"),
	})
	if b, err = e.Payouts.Approve(ctx, e.org, b.ID, b.ContentHash, audit.User("usr_approver")); err != nil {
		return err
	}
	workBefore := w.readWork()
	began = time.Now()
	if err := e.Payouts.Expand(ctx, e.org, b.ID); err != nil {
		return err
	}
	took = time.Since(began)
	spent := w.readWork().subtract(workBefore)
	var made int
	err = e.db.ReadOrg(ctx, e.org, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, `
			SELECT count(*) FROM withdrawals WHERE batch_id = $1 AND status = 'PROCESSING'`, b.ID).Scan(&made)
	})
	if err != nil {
		return err
	}
	if made != batchRows {
		return fmt.Errorf("%d of %d rows became withdrawals", made, batchRows)
	}
	rate := batchRows / took.Seconds()
	w.table.addRow(row{
		figure: fmt.Sprintf("%d rows become withdrawals", batchRows), result: fmt.Sprintf("%.0f/s", rate),
		compared: joinParts(formatRatio(rate, w.table.tpcb8, "pgbench at 8 clients"), spent.formatEach(batchRows)),
		target:   formatTarget(rate >= batchExpandGoal, fmt.Sprintf("%d/s", batchExpandGoal)),
	})
	return w.benchRowGrant(ctx, e, treasury, b)
}

// benchBatchRead measures what a list of the greatest size costs until all its problems are known.
func (w *benchEnv) benchBatchRead(ctx context.Context, e *checkoutEnv) (lines []rowfile.Line, err error) {
	file := newBatchFile()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	began := time.Now()
	if lines, err = rowfile.ReadCSV(file); err != nil {
		return nil, err
	}
	problems, err := e.Payouts.Check(ctx, lines, false)
	if err != nil {
		return nil, err
	}
	took := time.Since(began)
	runtime.ReadMemStats(&after)
	if len(problems) > 0 || len(lines) != batchRows {
		return nil, fmt.Errorf("%d rows have %d problems", len(lines), len(problems))
	}
	allocated := after.TotalAlloc - before.TotalAlloc
	w.table.addRow(row{
		figure:   fmt.Sprintf("a CSV of %d rows read and checked", batchRows),
		result:   fmt.Sprintf("%s, %.1f MB allocated", formatDuration(took), float64(allocated)/(1<<20)),
		compared: fmt.Sprintf("%.1f MB of text", float64(len(file))/(1<<20)),
		target:   formatTarget(took < batchReadTarget && allocated < batchReadBytes, "3 s, 64 MB"),
	})
	return lines, nil
}

// benchRowGrant measures how long the signer needs to check that a row with its path is what people approved.
func (w *benchEnv) benchRowGrant(ctx context.Context, e *checkoutEnv, treasury wallet.Wallet, b payout.Batch) error {
	i := signer.Intent{Purpose: signer.Payment, From: treasury.Ref()}
	err := e.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, `
			SELECT order_id, chain, to_address, contract, amount, mint_id, coalesce(product, ''), key_hash, authority,
				batch
			FROM dispatch_orders WHERE order_id = $1`, signer.BatchWithdrawalID(e.org, b.ID, batchRows/2)).
			Scan(&i.ID, &i.Chain, &i.To, &i.Contract, &i.Amount, &i.MintID, &i.Product, &i.IdempotencyKeyHash, &i.Grant,
				&i.Batch)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("row %d has no order", batchRows/2)
	}
	if err != nil {
		return err
	}
	grants := e.Payouts.GrantKey
	began := time.Now()
	for range grantChecks {
		if refusal := grants.CheckGrant(i); refusal != nil {
			return refusal
		}
	}
	took := time.Since(began) / grantChecks
	changed := i
	changed.Amount = money.Units(batchRowUnits + 1)
	if grants.CheckGrant(changed) == nil {
		return errors.New("the signer accepts another amount than the approved one")
	}
	w.table.addRow(row{
		figure:   "the signer's check of a row with its path",
		result:   fmt.Sprintf("%.1f µs", float64(took)/float64(time.Microsecond)),
		compared: fmt.Sprintf("a path of %d hashes, in a batch of %d rows", len(i.Grant.Batch.Path), batchRows),
		target:   formatTarget(took < grantTarget, "0.2 ms"),
	})
	return nil
}
