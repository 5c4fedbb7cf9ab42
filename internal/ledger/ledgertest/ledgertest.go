// Package ledgertest makes the causes of postings. The ledger accepts no posting without the
// withdrawal, the deposit or the order that causes it. A test of the ledger alone has these made
// for it.
//
// Its rows have only what the ledger checks. A crash leaves no trace that outlives a test.
package ledgertest

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// PostWithCauses calls InsertCauses and then ledger.Post.
func PostWithCauses(ctx context.Context, tx pg.Tx, postings ...ledger.Posting) error {
	if err := InsertCauses(ctx, tx, postings...); err != nil {
		return err
	}
	return ledger.Post(ctx, tx, postings...)
}

// InsertCauses inserts the causes of postings in the caller's transaction, for any role. The causes
// are credited deposits, withdrawals that wait for a person, withdrawals that were paid or removed,
// and sweeps that cost a fee. An existing cause stays unchanged, except for a withdrawal that ends.
func InsertCauses(ctx context.Context, tx pg.Tx, postings ...ledger.Posting) error {
	var role string
	if err := tx.QueryRow(ctx, `SELECT current_user`).Scan(&role); err != nil {
		return err
	}
	type rows struct {
		ids, orgs, kinds, subjects []string
		mints                      []int
		amounts                    []money.Amount
	}
	byKind := map[ledger.CauseKind]*rows{}
	for _, p := range postings {
		if len(p.Legs) == 0 {
			continue
		}
		r := byKind[p.Cause.Kind]
		if r == nil {
			r = &rows{}
			byKind[p.Cause.Kind] = r
		}
		l := p.Legs[0]
		account := l.Credit
		if p.Cause.Kind == ledger.WithdrawalEnd {
			account.Subject = l.Debit.Subject
		}
		r.ids, r.orgs, r.mints = append(r.ids, p.Cause.ID), append(r.orgs, account.OrgID),
			append(r.mints, account.MintID)
		r.kinds, r.subjects, r.amounts = append(r.kinds, string(account.Kind)), append(r.subjects, account.Subject),
			append(r.amounts, l.Amount)
	}
	b := &pgx.Batch{}
	b.Queue(`SET LOCAL ROLE coffer_system`)
	// A session that began with empty tables would keep its plan for empty tables.
	b.Queue(`SET LOCAL enable_seqscan = off`)
	for _, kind := range []ledger.CauseKind{
		ledger.Deposit, ledger.WithdrawalHold, ledger.WithdrawalEnd, ledger.NetworkFee,
	} {
		r := byKind[kind]
		if r == nil {
			continue
		}
		for _, sql := range statements[kind] {
			b.Queue(`WITH c AS (SELECT * FROM unnest($1::text[], $2::text[], $3::int[], $4::text[], $5::text[], $6::numeric[], $7::timestamptz[])
				AS c (id, org_id, mint_id, kind, subject, amount, at)) `+sql,
				r.ids, r.orgs, r.mints, r.kinds, r.subjects, r.amounts, repeatNow(tx, len(r.ids)))
		}
	}
	b.Queue(`SET LOCAL enable_seqscan = on`)
	b.Queue(`SET LOCAL ROLE ` + pgx.Identifier{role}.Sanitize())
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("make the causes of %d postings: %w", len(postings), err)
	}
	return nil
}

func repeatNow(tx pg.Tx, n int) []time.Time {
	times := make([]time.Time, n)
	for i := range times {
		times[i] = tx.Now
	}
	return times
}

// A wallet of the family TEST represents every owner, and the first block all of their blocks.
const (
	customers = `
		INSERT INTO customers (org_id, customer_id, created_at, updated_at)
		SELECT DISTINCT org_id, subject, at, at FROM c WHERE subject <> '' ORDER BY 1, 2 ON CONFLICT DO NOTHING`
	wallets = `
		INSERT INTO wallets (wallet_id, org_id, family, purpose, subject, path, address, proof, created_at)
		SELECT DISTINCT 'test:' || org_id || ':' || subject, org_id, 'TEST', CASE subject WHEN '' THEN 'TREASURY' ELSE 'CUSTOMER_DEPOSIT' END,
			subject, '', 'test:' || org_id || ':' || subject, ''::bytea, at
		FROM c ORDER BY 1 ON CONFLICT DO NOTHING`
	proofs = `
		INSERT INTO finality_proofs (chain, height, hash, parent, block_time, providers, verified, created_at)
		SELECT DISTINCT m.chain, 0, 'test', '', c.at, 1, 'test', c.at FROM c JOIN mints m USING (mint_id) ORDER BY 1 ON CONFLICT DO NOTHING`
)

var statements = map[ledger.CauseKind][]string{
	ledger.Deposit: {customers, wallets, proofs, `
		INSERT INTO deposits (deposit_id, org_id, wallet_id, purpose, customer_id, mint_id, chain, contract, amount, address, from_address,
			tx_hash, kind, position, log_index, height, block_hash, proof_id, status, chain_status, created_at, credited_at)
		SELECT c.id, c.org_id, w.wallet_id, w.purpose, nullif(c.subject, ''), m.mint_id, m.chain, m.contract, c.amount, w.address, 'test',
			c.id, 'TOKEN', '', 0, p.height, p.hash, p.proof_id, 'CREDITED', 'FINALIZED', c.at, c.at
		FROM c JOIN mints m USING (mint_id) JOIN wallets w ON w.wallet_id = 'test:' || c.org_id || ':' || c.subject
		JOIN finality_proofs p ON p.chain = m.chain AND p.height = 0
		ORDER BY c.id ON CONFLICT DO NOTHING`},
	ledger.WithdrawalHold: {customers, `
		INSERT INTO withdrawals (withdrawal_id, org_id, customer_id, mint_id, chain, amount, to_address, request_digest, status,
			requires_approval, approval_reasons, decision, created_at)
		SELECT c.id, c.org_id, c.subject, m.mint_id, m.chain, c.amount, 'test', ''::bytea, 'AWAITING_APPROVAL', true, '{TEST}', '{}', c.at
		FROM c JOIN mints m USING (mint_id) ORDER BY c.id ON CONFLICT DO NOTHING`},
	ledger.WithdrawalEnd: {`, locked AS MATERIALIZED (
			SELECT w.withdrawal_id, c.kind, c.at FROM withdrawals w JOIN c ON c.id = w.withdrawal_id
			WHERE w.status || '' = 'AWAITING_APPROVAL' ORDER BY w.withdrawal_id FOR UPDATE OF w)
		UPDATE withdrawals w SET tx_hash = 'test', approved_at = l.at, status = CASE l.kind WHEN 'CUSTODY' THEN 'COMPLETED' ELSE 'REJECTED' END
		FROM locked l WHERE w.withdrawal_id = l.withdrawal_id`},
	ledger.NetworkFee: {wallets, proofs, `
		INSERT INTO dispatch_orders (order_id, org_id, purpose, chain, wallet_id, to_wallet_id, to_address, mint_id, contract, amount, status,
			attempt_after, created_at, tx_hash, fee, proof_id, ended_at, trigger)
		SELECT c.id, c.org_id, 'SWEEP', m.chain, w.wallet_id, w.wallet_id, w.address, m.mint_id, m.contract, 1, 'PAID',
			c.at, c.at, 'test', c.amount, p.proof_id, c.at, 'PERSON'
		FROM c JOIN mints m USING (mint_id) JOIN wallets w ON w.wallet_id = 'test:' || c.org_id || ':'
		JOIN finality_proofs p ON p.chain = m.chain AND p.height = 0
		ORDER BY c.id ON CONFLICT DO NOTHING`, `
		INSERT INTO internal_orders (order_id, org_id, purpose, trigger)
		SELECT o.order_id, o.org_id, o.purpose, o.trigger
		FROM dispatch_orders o JOIN c ON c.id = o.order_id ORDER BY 1 ON CONFLICT DO NOTHING`, `
		INSERT INTO dispatch_slots (wallet_id, chain, nonce, org_id, order_id, gas_reserved, created_at)
		SELECT o.wallet_id, o.chain, row_number() OVER (PARTITION BY o.wallet_id, o.chain ORDER BY o.order_id) - 1
				+ (SELECT count(*) FROM dispatch_slots s WHERE s.wallet_id = o.wallet_id AND s.chain = o.chain),
			o.org_id, o.order_id, 0, o.created_at
		FROM dispatch_orders o JOIN c ON c.id = o.order_id
		WHERE NOT EXISTS (SELECT FROM dispatch_slots s WHERE s.order_id = o.order_id)`, `
		INSERT INTO dispatch_accounts AS a (wallet_id, chain, org_id, next_nonce)
		SELECT s.wallet_id, s.chain, s.org_id, max(s.nonce) + 1 FROM dispatch_slots s
		WHERE s.wallet_id IN (SELECT 'test:' || org_id || ':' FROM c) GROUP BY 1, 2, 3
		ON CONFLICT (wallet_id, chain) DO UPDATE SET next_nonce = excluded.next_nonce`},
}

// Withdrawal is a withdrawal that its order is about to pay.
type Withdrawal struct {
	ID, OrgID, CustomerID, ToAddress string
	MintID                           int
	Amount                           money.Amount
	FeeMax                           *money.Amount // the caller's limit of the network fee; nil: none
}

// InsertAccepted inserts an accepted withdrawal with its hold and the deposit that funds it, in a
// transaction of the system. A withdrawal that was returned to a person continues.
func InsertAccepted(ctx context.Context, tx pg.Tx, w Withdrawal) error {
	// A returned withdrawal is approved again, by another person each time.
	if _, err := tx.Exec(ctx, `
		INSERT INTO withdrawal_approvals (org_id, withdrawal_id, round, approver_kind, approver_id, at, digest, mac)
		SELECT org_id, withdrawal_id, approval_round, 'USER',
			'usr_' || (SELECT count(*) FROM withdrawal_approvals a WHERE a.withdrawal_id = w.withdrawal_id), $2, '', ''::bytea
		FROM withdrawals w WHERE withdrawal_id = $1 AND status = 'AWAITING_APPROVAL'`, w.ID, tx.Now); err != nil {
		return fmt.Errorf("approve withdrawal %s: %w", w.ID, err)
	}
	tag, err := tx.Exec(ctx, `
		UPDATE withdrawals SET status = 'PROCESSING', approved_at = $2 WHERE withdrawal_id = $1 AND status = 'AWAITING_APPROVAL'`,
		w.ID, tx.Now)
	if err != nil || tag.RowsAffected() == 1 {
		return err
	}
	account := func(k ledger.Kind, subject string) ledger.Account {
		return ledger.Account{OrgID: w.OrgID, MintID: w.MintID, Kind: k, Subject: subject}
	}
	newPosting := func(kind ledger.CauseKind, id string, debit, credit ledger.Account) ledger.Posting {
		return ledger.Posting{Cause: ledger.Cause{Kind: kind, ID: id}, Legs: []ledger.Leg{{
			Debit: debit, Credit: credit, Amount: w.Amount,
		}}}
	}
	deposited := newPosting(
		ledger.Deposit, "for "+w.ID, account(ledger.Custody, ""), account(ledger.Customer, w.CustomerID),
	)
	if err := InsertCauses(ctx, tx, deposited); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `
		INSERT INTO withdrawals (withdrawal_id, org_id, customer_id, mint_id, chain, amount, to_address, request_digest, status,
			requires_approval, approval_reasons, decision, created_at, max_network_fee)
		SELECT $1, $2, $3, mint_id, chain, $5, $6, ''::bytea, 'PROCESSING', false, '{}', '{}', $7, $8 FROM mints WHERE mint_id = $4`,
		w.ID, w.OrgID, w.CustomerID, w.MintID, w.Amount, w.ToAddress, tx.Now, w.FeeMax); err != nil {
		return fmt.Errorf("accept withdrawal %s: %w", w.ID, err)
	}
	// The balances are posted in this order: the hold takes what the deposit brought.
	if err := ledger.Post(ctx, tx, deposited); err != nil {
		return err
	}
	return ledger.Post(
		ctx, tx,
		newPosting(
			ledger.WithdrawalHold, w.ID, account(ledger.Customer, w.CustomerID),
			account(ledger.Withdrawing, w.CustomerID),
		),
	)
}
