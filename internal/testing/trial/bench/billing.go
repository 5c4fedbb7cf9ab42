package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/billing"
	"github.com/cofferpay/coffer/internal/billing/document"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/identity/changerequest"
	"github.com/cofferpay/coffer/internal/identity/operator"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/wire"
)

const (
	billedLines  = 100_000
	billedMint   = 1
	billedMonth  = "2026-01"
	issueGoal    = 5 * time.Second
	filesGoal    = 2 * time.Second
	billDatabase = "bench_billing"
)

// benchBilling measures the invoice of an organization with 100,000 network fees over a month, its PDF and its table.
// It compares the invoice with what PostgreSQL needs to write the same lines once more, with their indexes and without
// any check.
func benchBilling(ctx context.Context, w *benchEnv) (err error) {
	db, conn, s, orgID, err := w.newBilledOrganization(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	began, workBefore := time.Now(), w.readWork()
	r, err := s.IssueInvoices(ctx, billedMonth, orgID, audit.Operator("bench"))
	issued, work := time.Since(began), w.readWork().subtract(workBefore)
	if err == nil && (len(r.Invoices) != 1 || r.Invoices[0].Document.Sections[0].Lines != billedLines) {
		err = fmt.Errorf("got %+v, want an invoice of %d lines", r, billedLines)
	}
	if err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, `CREATE TABLE fee_lines_again (LIKE fee_lines INCLUDING INDEXES)`); err != nil {
		return err
	}
	began = time.Now()
	if _, err := conn.Exec(ctx, `INSERT INTO fee_lines_again SELECT * FROM fee_lines`); err != nil {
		return err
	}
	bare := time.Since(began)
	w.table.addRow(row{
		figure: fmt.Sprintf("the invoice of a month with %d network fees", billedLines), result: formatDuration(issued),
		compared: formatRatio(issued.Seconds(), bare.Seconds(),
			"writing the same lines once more, with their indexes and without any check") +
			formatWork(work),
		target: formatTarget(issued < issueGoal, fmt.Sprintf("under %s", issueGoal)),
	})
	inv := r.Invoices[0]
	began, workBefore = time.Now(), w.readWork()
	if err := inv.Document.PDF(io.Discard); err != nil {
		return err
	}
	pdf := time.Since(began)
	var rows int
	began = time.Now()
	err = db.Snapshot(ctx, func(ctx context.Context, tx pg.Tx) error {
		return document.WriteCSV(io.Discard, inv.Document, billing.Lines(ctx, tx, inv.ID))
	})
	if err != nil {
		return err
	}
	csv := time.Since(began)
	work = w.readWork().subtract(workBefore)
	began = time.Now()
	err = conn.QueryRow(ctx, `
		SELECT count(t::text) FROM (SELECT * FROM fee_lines ORDER BY incurred_at, fee_line_id) t`).Scan(&rows)
	bareRead := time.Since(began)
	if err == nil && rows != billedLines {
		err = fmt.Errorf("the database has %d lines, want %d", rows, billedLines)
	}
	if err != nil {
		return err
	}
	w.table.addRow(row{
		figure: "its PDF of sections and its CSV of all lines",
		result: formatDuration(pdf) + " and " + formatDuration(csv),
		compared: formatRatio(csv.Seconds(), bareRead.Seconds(), "reading all lines in order inside the database") +
			formatWork(work),
		target: formatTarget(pdf+csv < filesGoal, fmt.Sprintf("together under %s", filesGoal)),
	})
	return nil
}

// formatWork formats the processor time of a figure, which other programs on the machine do not change.
func formatWork(c work) string {
	return fmt.Sprintf("; CPU: %s here, %s in the database", formatDuration(c.process), formatDuration(c.database))
}

// newBilledOrganization makes a database with an organization whose network fees of January have lines with values. The
// fees are rows of the ledger without what caused them. The clock stands in February.
func (w *benchEnv) newBilledOrganization(ctx context.Context) (
	db *pg.DB, conn *pgx.Conn, s *billing.Service, orgID string, err error,
) {
	if err := w.execAsSuperuser(ctx, "", `CREATE DATABASE `+billDatabase+` OWNER coffer_owner`); err != nil {
		return nil, nil, nil, "", err
	}
	conf := pg.Config{URL: w.cluster.URL(billDatabase), OwnerURL: w.cluster.OwnerURL(billDatabase)}
	if err := pg.Migrate(ctx, conf); err != nil {
		return nil, nil, nil, "", err
	}
	now := time.Date(2026, 2, 3, 6, 0, 0, 0, time.UTC)
	if db, err = pg.Open(ctx, conf, func() time.Time { return now }); err != nil {
		return nil, nil, nil, "", err
	}
	if conn, err = pgx.Connect(ctx, w.cluster.SuperURL(billDatabase)); err != nil {
		db.Close()
		return nil, nil, nil, "", err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
			db.Close()
		}
	}()
	s = &billing.Service{
		DB: db, Chains: []chain.Name{chain.Solana}, Events: wire.NewRecorder(), Log: slog.New(slog.DiscardHandler),
	}
	err = mint.Sync(ctx, db, []mint.Mint{{
		ID: billedMint, Chain: chain.Solana, Network: chain.Local, Kind: mint.Native, Symbol: "SOL", Name: "SOL",
		Decimals: 9, DepositEnabled: true, WithdrawEnabled: true, MinDeposit: money.Units(1),
		MinWithdraw: money.Units(1), Finality: "FINALIZED",
	}})
	if err != nil {
		return db, conn, s, "", err
	}
	made, _, err := org.Create(ctx, db, "Acme")
	if err != nil {
		return db, conn, s, "", err
	}
	for _, party := range []string{"", made.ID} {
		err := db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
			_, err := s.SaveTerms(ctx, tx, operator.Key{}, changerequest.Rule{}, billing.Terms{
				OrgID: party, Party: document.Party{Name: "Example Ltd", Address: []string{"1 Example Street"}},
			})
			return err
		})
		if err != nil {
			return db, conn, s, "", err
		}
	}
	for _, statement := range []string{
		`SET session_replication_role = replica`,
		`INSERT INTO price_marks (mint_id, price, source, quoted_at, created_at)
		SELECT 1, 150, 'bench', t, t
		FROM generate_series('2026-01-01Z'::timestamptz, '2026-01-31 23:55Z', '5 minutes') t`,
		`INSERT INTO ledger_accounts (org_id, mint_id, kind, subject, floored, created_at)
		SELECT org_id, 1, k, '', false, now() FROM organizations, unnest(ARRAY['FEES_DUE', 'FEES_BILLED']) k`,
		fmt.Sprintf(`INSERT INTO ledger_transfers (org_id, mint_id, debit_account, credit_account, amount, cause_kind,
			cause_id, leg, created_at)
		SELECT d.org_id, 1, d.account_id, c.account_id, 5000, 'NETWORK_FEE', 'wd_' || lpad(n::text, 26, '0'), 1,
			'2026-01-01Z'::timestamptz + n * (interval '31 days' / %d)
		FROM ledger_accounts d JOIN ledger_accounts c USING (org_id), generate_series(0, %d - 1) n
		WHERE d.kind = 'FEES_DUE' AND c.kind = 'FEES_BILLED'`, billedLines, billedLines),
		`SET session_replication_role = origin`,
		`ANALYZE`,
	} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return db, conn, s, "", err
		}
	}
	if _, err := s.CollectLines(ctx, time.Time{}); err != nil {
		return db, conn, s, "", err
	}
	if _, err := s.PriceLines(ctx, time.Time{}); err != nil {
		return db, conn, s, "", err
	}
	_, err = conn.Exec(ctx, `VACUUM ANALYZE`)
	return db, conn, s, made.ID, err
}
