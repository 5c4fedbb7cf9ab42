// Package ledger keeps the books: what every customer is owed, what is held for their withdrawals,
// what the addresses of Coffer hold for all of them, and the cause of every movement.
//
// A row is a ledger transfer: an amount of one mint from one account to another, so every entry
// balances. A cause posts once: the settlement and the release of a hold are the same cause, so a
// hold cannot end twice. The database itself keeps the balances with a floor, in the transaction of
// the transfer. The program's roles may insert transfers; they cannot touch a balance, or edit or
// delete a transfer. A mistake is corrected by another transfer.
//
// Invariants:
//
//   - An account with a floor never has a negative balance.
//   - A transfer is never edited.
//   - Every posting has a cause.
//
// After a crash a posting is whole or absent. Repeating it with the same cause returns ErrPosted.
package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// Kind says what an account is for.
type Kind string

// Kinds with a floor: what is owed, or may be spent for fees. A credit raises the balance, and
// nothing takes it below zero.
const (
	Customer    Kind = "CUSTOMER"    // what a customer may spend; the subject is the customer's id
	Withdrawing Kind = "WITHDRAWING" // held for a customer's withdrawals; the subject is the customer's id
	// InSwap is held for a customer's swaps, or came back from one and is not restored; the subject is
	// the customer's id.
	InSwap   Kind = "IN_SWAP"
	Product  Kind = "PRODUCT"  // the organization's own balance; the subject is the product
	Gas      Kind = "GAS"      // native coin that the operator provided for network fees
	Suspense Kind = "SUSPENSE" // arrived or restored, with an owner that is not decided

	// ProductWithdrawing is held for the organization's own withdrawals; the subject is the
	// product.
	ProductWithdrawing Kind = "PRODUCT_WITHDRAWING"
	// ProductInSwap is held for the organization's own swaps; the subject is the product.
	ProductInSwap Kind = "PRODUCT_IN_SWAP"
	// RefundOwed is owed to payers of checkouts; the subject is CheckoutProduct.
	RefundOwed Kind = "REFUND_OWED"
	// BatchHeld is held for the rows of submitted batches that no withdrawal pays yet; the subject is BatchProduct.
	BatchHeld Kind = "BATCH_HELD"
)

// Kinds without a floor: what is owned, due or lost. Their balances are sums over their transfers,
// so concurrent postings do not contend for them.
const (
	Custody    Kind = "CUSTODY"     // what the organization's addresses hold on chain
	FeesDue    Kind = "FEES_DUE"    // network fees that the organization owes the operator
	FeesBilled Kind = "FEES_BILLED" // the contra account of FEES_DUE
	ReorgLoss  Kind = "REORG_LOSS"  // credited, then removed by a reorg
	// AtProvider is the claim on a swap provider, the subject. It is a debt to the provider while a
	// provider has delivered before our payment is final.
	AtProvider     Kind = "AT_PROVIDER"
	SwapFeesDue    Kind = "SWAP_FEES_DUE"    // fees of swaps that the organization owes the operator
	SwapFeesBilled Kind = "SWAP_FEES_BILLED" // the contra account of SWAP_FEES_DUE
	// Restored is owed by a customer for a payment that a restored backup lacked; the subject is
	// the customer's id.
	Restored Kind = "RESTORED"
)

// ProductRestored is owed by a product for a payment that a restored backup lacked; the subject is
// the product. It has no floor either.
const ProductRestored Kind = "PRODUCT_RESTORED"

// CheckoutProduct is the product that checkouts credit, and BatchProduct the one that pays batches.
const (
	CheckoutProduct = "CHECKOUT"
	BatchProduct    = "BATCH_PAYOUT"
)

// Products are the subjects of the accounts of the kinds Product, ProductWithdrawing, ProductInSwap
// and ProductRestored.
var Products = []string{"CUSTODIAL", CheckoutProduct, BatchProduct}

// HasFloor reports whether accounts of the kind have a balance that cannot fall below zero.
func (k Kind) HasFloor() bool {
	switch k {
	case Customer, Withdrawing, InSwap, Product, ProductWithdrawing, ProductInSwap, RefundOwed, BatchHeld, Gas,
		Suspense:
		return true
	}
	return false
}

// Account identifies an account of the books. Its first posting opens it.
type Account struct {
	OrgID   string
	MintID  int
	Kind    Kind
	Subject string // the customer's id, the product or the swap provider; "" for the other kinds
}

// String describes the account for errors and for people.
func (a Account) String() string {
	s := fmt.Sprintf("%s of %s in mint %d", a.Kind, a.OrgID, a.MintID)
	if a.Subject != "" {
		s += fmt.Sprintf(" for %q", a.Subject)
	}
	return s
}

// Leg moves an amount from the debited to the credited account. Both belong to one organization and
// one mint.
type Leg struct {
	Debit, Credit Account
	Amount        money.Amount
}

// CauseKind is the kind of event that a posting follows from.
type CauseKind string

// Kinds of causes, each with what the cause's ID names.
const (
	Deposit         CauseKind = "DEPOSIT"          // the deposit
	DepositHold     CauseKind = "DEPOSIT_HOLD"     // the deposit that was flagged
	DepositRelease  CauseKind = "DEPOSIT_RELEASE"  // the deposit whose flag was resolved
	DepositFee      CauseKind = "DEPOSIT_FEE"      // the deposit that was refunded less the fee
	DepositReversal CauseKind = "DEPOSIT_REVERSAL" // the deposit that a reorg removed
	WithdrawalHold  CauseKind = "WITHDRAWAL_HOLD"  // the withdrawal
	WithdrawalEnd   CauseKind = "WITHDRAWAL_END"   // the withdrawal, settled or released
	WithdrawalFee   CauseKind = "WITHDRAWAL_FEE"   // the withdrawal whose customer or product paid the network fee
	// WithdrawalCharge names the withdrawal whose customer is charged its costs.
	// WithdrawalChargeReturn names one that was paid and cost less than was held for the charge.
	WithdrawalCharge       CauseKind = "WITHDRAWAL_CHARGE"
	WithdrawalChargeReturn CauseKind = "WITHDRAWAL_CHARGE_RETURN"

	// FeePrepaid names the organization's own withdrawal whose product paid the fee, which is
	// deducted from the bill.
	FeePrepaid CauseKind = "FEE_PREPAID"
	Transfer   CauseKind = "TRANSFER"    // the transfer between customers and products
	NetworkFee CauseKind = "NETWORK_FEE" // the dispatch order
	// FeeChange names the dispatch order and, after a slash, the fork in which its transaction had
	// another fee.
	FeeChange CauseKind = "FEE_CHANGE"
	Restore   CauseKind = "RESTORE" // the restored withdrawal; /1, /2, … for what is collected later

	// The swap: when it is created, when its payment is final, and when it is completed.
	SwapHold CauseKind = "SWAP_HOLD"
	SwapPaid CauseKind = "SWAP_PAID"
	SwapEnd  CauseKind = "SWAP_END"
	SwapFee  CauseKind = "SWAP_FEE"
	// The failed swap and, after a slash, 1, 2, …: what its customer has again, and what its provider
	// keeps.
	SwapRestore CauseKind = "SWAP_RESTORE"
	SwapShort   CauseKind = "SWAP_SHORT"
	Arrival     CauseKind = "ARRIVAL" // the stray deposit that a person credited

	// The refund of a checkout: when its amount is taken from the balance, and when it ended without paying.
	RefundHold    CauseKind = "REFUND_HOLD"
	RefundRelease CauseKind = "REFUND_RELEASE"

	// The invoice that was paid, and the credit note of one that was not: what they take off the fees that are
	// due. A leg for each mint and kind of fee.
	InvoicePaid CauseKind = "INVOICE_PAID"
	CreditNote  CauseKind = "CREDIT_NOTE"
	// The batch and, after a slash, the mint: what its submission holds, and what a batch that ends before its
	// approval gives back. A row that nothing pays is named by batch, "row" and number.
	BatchHold    CauseKind = "BATCH_HOLD"
	BatchRelease CauseKind = "BATCH_RELEASE"
)

// Cause identifies the one event that a posting follows from.
type Cause struct {
	Kind CauseKind
	ID   string
}

// Posting holds everything that one cause moves.
type Posting struct {
	Cause Cause
	Legs  []Leg
}

var (
	// ErrOverdraft says that an account with a floor holds less than the postings take. Nothing was
	// posted, and the transaction has failed.
	ErrOverdraft = errors.New("account would be overdrawn")
	// ErrPosted says that one of the causes has posted before. Nothing was posted, and the
	// transaction has failed.
	ErrPosted = errors.New("cause is already posted")
)

// Post writes postings, all or none, and moves the balances that they touch. It opens accounts that
// do not exist.
//
// A transaction calls Post once, with all its postings, after it has locked its other resources.
// One call locks the balances in the order of their ids, so two transactions never deadlock.
// Errors: ErrOverdraft, ErrPosted; after any error the transaction can only be rolled back.
func Post(ctx context.Context, tx pg.Tx, postings ...Posting) error {
	if len(postings) == 0 {
		return nil
	}
	b := &pgx.Batch{}
	if err := QueuePostings(b, tx.Now, postings...); err != nil {
		return err
	}
	if err := MapRefusal(tx.SendBatch(ctx, b).Close()); err != nil {
		return fmt.Errorf("post %s: %w", describePostings(postings), err)
	}
	return nil
}

// QueuePostings adds the statements of Post to a batch that the caller sends in one round trip,
// after the statements that lock its resources. A batch takes one call, and now is the
// transaction's time. MapRefusal maps the error of the batch. An invalid posting is returned as an
// error.
func QueuePostings(b *pgx.Batch, now time.Time, postings ...Posting) error {
	return QueueKnown(b, now, nil, postings...)
}

// QueueKnown queues postings like QueuePostings, with accounts that QueueLookup found in the same
// transaction and that need no second look-up. The database checks of each account whether the
// posting may touch it, in both cases.
func QueueKnown(b *pgx.Batch, now time.Time, found KnownAccounts, postings ...Posting) error {
	c, err := newColumns(found, postings)
	if err != nil {
		return err
	}
	if len(c.wanted.orgs) == 0 {
		b.Queue(`
			INSERT INTO ledger_transfers
				(org_id, mint_id, debit_account, credit_account, amount, cause_kind, cause_id, leg, created_at)
			SELECT l.org_id, l.mint_id, l.debit, l.credit, l.amount, l.cause_kind, l.cause_id, l.leg, $9
			FROM unnest($1::text[], $2::int[], $3::bigint[], $4::bigint[], $5::numeric[], $6::text[], $7::text[], $8::smallint[])
				AS l (org_id, mint_id, debit, credit, amount, cause_kind, cause_id, leg)
			ORDER BY l.cause_kind, l.cause_id, l.leg`,
			c.orgs, c.mints, c.debits, c.credits, c.amounts, c.causeKinds, c.causes, c.legs, now)
		return nil
	}
	// Each account has a subquery of its own, which PostgreSQL answers from the index whatever its
	// statistics say. A join would now and then read all accounts.
	b.Queue(`
		INSERT INTO ledger_accounts (org_id, mint_id, kind, subject, created_at)
		SELECT w.org_id, w.mint_id, w.kind, w.subject, $5
		FROM unnest($1::text[], $2::int[], $3::text[], $4::text[]) AS w (org_id, mint_id, kind, subject)
		WHERE (SELECT a.account_id FROM ledger_accounts a
			WHERE a.org_id = w.org_id AND a.mint_id = w.mint_id AND a.kind = w.kind AND a.subject = w.subject) IS NULL
		ORDER BY w.org_id, w.mint_id, w.kind, w.subject
		ON CONFLICT ON CONSTRAINT ledger_accounts_unique DO NOTHING`,
		c.wanted.orgs, c.wanted.mints, c.wanted.kinds, c.wanted.subjects, now)
	// This statement has a snapshot of its own, so it sees an account that another transaction was
	// opening while the first statement waited.
	queueNamed(b, now, c)
	return nil
}

// QueueNamed queues postings between accounts that exist, and opens none: an account that is missing refuses the
// transaction.
func QueueNamed(b *pgx.Batch, now time.Time, postings ...Posting) error {
	c, err := newColumns(nil, postings)
	if err == nil {
		queueNamed(b, now, c)
	}
	return err
}

// queueNamed queues postings whose accounts are looked up by their names. A leg with an invisible account, such as
// another organization's, gets NULL. The column is NOT NULL, so the whole transaction fails.
func queueNamed(b *pgx.Batch, now time.Time, c columns) {
	b.Queue(`
		INSERT INTO ledger_transfers
			(org_id, mint_id, debit_account, credit_account, amount, cause_kind, cause_id, leg, created_at)
		SELECT l.org_id, l.mint_id,
			(SELECT a.account_id FROM ledger_accounts a
			 WHERE a.org_id = l.org_id AND a.mint_id = l.mint_id AND a.kind = l.debit_kind AND a.subject = l.debit_subject),
			(SELECT a.account_id FROM ledger_accounts a
			 WHERE a.org_id = l.org_id AND a.mint_id = l.mint_id AND a.kind = l.credit_kind AND a.subject = l.credit_subject),
			l.amount, l.cause_kind, l.cause_id, l.leg, $11
		FROM unnest($1::text[], $2::int[], $3::text[], $4::text[], $5::text[], $6::text[],
			$7::numeric[], $8::text[], $9::text[], $10::smallint[])
			AS l (org_id, mint_id, debit_kind, debit_subject, credit_kind, credit_subject, amount, cause_kind, cause_id, leg)
		ORDER BY l.cause_kind, l.cause_id, l.leg`,
		c.orgs, c.mints, c.debitKinds, c.debitSubjects, c.creditKinds, c.creditSubjects,
		c.amounts, c.causeKinds, c.causes, c.legs, now)
}

// MapRefusal wraps err in ErrOverdraft or ErrPosted when the database refused a posting, and else
// returns err unchanged.
func MapRefusal(err error) error {
	switch {
	case pg.ViolatesConstraint(err, "ledger_balances_not_overdrawn"):
		return fmt.Errorf("%w: %w", ErrOverdraft, err)
	case pg.ViolatesConstraint(err, "ledger_transfers_cause_once"):
		return fmt.Errorf("%w: %w", ErrPosted, err)
	}
	return err
}

func describePostings(postings []Posting) string {
	s := fmt.Sprintf("%s %s", postings[0].Cause.Kind, postings[0].Cause.ID)
	if len(postings) > 1 {
		s += fmt.Sprintf(" and %d more", len(postings)-1)
	}
	return s
}

// columns holds postings as the arrays that the statements take.
type columns struct {
	wanted struct {
		orgs, kinds, subjects []string
		mints                 []int
	}
	orgs, debitKinds, debitSubjects, creditKinds, creditSubjects, causeKinds, causes []string

	mints           []int
	debits, credits []int64
	amounts         []money.Amount
	legs            []int16
}

// newColumns converts postings to columns. wanted has the accounts that are not in found. The
// account ids are complete if wanted is empty.
func newColumns(found KnownAccounts, postings []Posting) (columns, error) {
	var c columns
	var wanted []Account
	for _, p := range postings {
		if p.Cause.ID == "" || len(p.Legs) == 0 {
			return c, fmt.Errorf("post %s %q: a posting has a cause and at least one leg", p.Cause.Kind, p.Cause.ID)
		}
		for i, l := range p.Legs {
			switch {
			case l.Debit.OrgID != l.Credit.OrgID || l.Debit.MintID != l.Credit.MintID:
				return c, fmt.Errorf(
					"post %s %s: %v and %v are not of one organization and mint", p.Cause.Kind, p.Cause.ID,
					l.Debit, l.Credit,
				)
			case l.Debit == l.Credit:
				return c, fmt.Errorf("post %s %s: %v to itself", p.Cause.Kind, p.Cause.ID, l.Debit)
			case l.Amount.IsZero():
				return c, fmt.Errorf("post %s %s: an amount of zero from %v", p.Cause.Kind, p.Cause.ID, l.Debit)
			}
			debit, isKnown := found[l.Debit]
			if !isKnown {
				wanted = append(wanted, l.Debit)
			}
			credit, isKnown := found[l.Credit]
			if !isKnown {
				wanted = append(wanted, l.Credit)
			}
			c.debits, c.credits = append(c.debits, debit.id), append(c.credits, credit.id)
			c.orgs, c.mints = append(c.orgs, l.Debit.OrgID), append(c.mints, l.Debit.MintID)
			c.debitKinds, c.debitSubjects = append(c.debitKinds, string(l.Debit.Kind)),
				append(c.debitSubjects, l.Debit.Subject)
			c.creditKinds, c.creditSubjects = append(c.creditKinds, string(l.Credit.Kind)),
				append(c.creditSubjects, l.Credit.Subject)
			c.amounts = append(c.amounts, l.Amount)
			c.causeKinds, c.causes = append(c.causeKinds, string(p.Cause.Kind)), append(c.causes, p.Cause.ID)
			c.legs = append(c.legs, int16(i))
		}
	}
	slices.SortFunc(wanted, func(a, b Account) int {
		return cmp.Or(cmp.Compare(a.OrgID, b.OrgID), cmp.Compare(a.MintID, b.MintID),
			cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Subject, b.Subject))
	})
	for _, a := range slices.Compact(wanted) {
		c.wanted.orgs, c.wanted.mints = append(c.wanted.orgs, a.OrgID), append(c.wanted.mints, a.MintID)
		c.wanted.kinds, c.wanted.subjects = append(c.wanted.kinds, string(a.Kind)), append(c.wanted.subjects, a.Subject)
	}
	return c, nil
}

// Balance returns the balance of an account with a floor, in atomic units; zero for one that was
// never opened. It locks nothing: only a posting decides whether the balance suffices. It panics
// for an account without a floor; see Sum.
func Balance(ctx context.Context, tx pg.Tx, a Account) (money.Amount, error) {
	if !a.Kind.HasFloor() {
		panic(fmt.Sprintf("ledger: %v has no balance row", a))
	}
	var balance money.Amount
	err := tx.QueryRow(ctx, `
		SELECT b.balance
		FROM ledger_accounts a JOIN ledger_balances b USING (account_id)
		WHERE a.org_id = $1 AND a.mint_id = $2 AND a.kind = $3 AND a.subject = $4`,
		a.OrgID, a.MintID, string(a.Kind), a.Subject).Scan(&balance)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return money.Zero, fmt.Errorf("read the balance of %v: %w", a, err)
	}
	return balance, nil
}

// KnownAccounts are accounts that were looked up. An account that is missing was never opened and
// holds nothing. An account never changes. A balance is valid only until the next posting: it is a
// reason to try, and the posting decides.
type KnownAccounts map[Account]KnownAccount

// KnownAccount is the result of a look-up.
type KnownAccount struct {
	id      int64
	Balance money.Amount // set for the accounts in paying
}

// QueueLookup queues the look-up of accounts with a floor: paying with their balances, paid
// without. The result is set once the batch was sent.
func QueueLookup(b *pgx.Batch, paying, paid []Account) KnownAccounts {
	found := make(KnownAccounts, len(paying)+len(paid))
	var wanted []Account
	var mints []int
	var orgs, kinds, subjects []string
	var balances []bool
	for i, accounts := range [][]Account{paying, paid} {
		for _, a := range accounts {
			if !a.Kind.HasFloor() {
				panic(fmt.Sprintf("ledger: %v has no balance row", a))
			}
			if _, isRepeated := found[a]; isRepeated {
				continue
			}
			found[a] = KnownAccount{}
			wanted = append(wanted, a)
			orgs, mints, kinds, subjects = append(orgs, a.OrgID), append(mints, a.MintID),
				append(kinds, string(a.Kind)), append(subjects, a.Subject)
			balances = append(balances, i == 0)
		}
	}
	clear(found)
	b.Queue(`
		SELECT w.nth, f.account_id, coalesce(CASE WHEN w.balance THEN (SELECT b.balance FROM ledger_balances b WHERE b.account_id = f.account_id) END, 0)
		FROM unnest($1::text[], $2::int[], $3::text[], $4::text[], $5::bool[]) WITH ORDINALITY AS w (org_id, mint_id, kind, subject, balance, nth)
		CROSS JOIN LATERAL (
			SELECT a.account_id FROM ledger_accounts a
			WHERE a.org_id = w.org_id AND a.mint_id = w.mint_id AND a.kind = w.kind AND a.subject = w.subject LIMIT 1) f`,
		orgs, mints, kinds, subjects, balances).Query(func(rows pgx.Rows) error {
		var nth int64
		var s KnownAccount
		_, err := pgx.ForEachRow(rows, []any{&nth, &s.id, &s.Balance}, func() error {
			found[wanted[nth-1]] = s
			return nil
		})
		return err
	})
	return found
}

// KindTotal is what all accounts of one kind hold of a mint, separately for each product.
type KindTotal struct {
	MintID  int
	Kind    Kind
	Subject string // the product, else ""
	Balance money.Amount
}

// OwnAccountsSQL is the condition for an organization's own accounts with a floor, a. The lists are
// text and no parameters: for an array of unknown length PostgreSQL plans the statement again for
// each request, which takes longer than running it.
var OwnAccountsSQL = fmt.Sprintf("a.subject = ANY ('{\"\",%s}') AND a.kind IN ('%s', '%s', '%s', '%s', '%s', '%s', "+
	"'%s')",
	strings.Join(Products, ","), Product, ProductWithdrawing, ProductInSwap, RefundOwed, BatchHeld, Gas, Suspense)

// LoadTotals returns what an organization and its customers have in accounts with a floor, by mint,
// kind and product. The totals of customers are not sums over their balances: the database keeps
// them, see Folder.
func LoadTotals(ctx context.Context, tx pg.Tx, org string) ([]KindTotal, error) {
	rows, err := tx.Query(ctx, `
		SELECT t.mint_id, k.kind, '',
			CASE k.kind WHEN 'CUSTOMER' THEN t.available WHEN 'WITHDRAWING' THEN t.withdrawing ELSE t.in_swap END
		FROM (SELECT mint_id, sum(available) AS available, sum(withdrawing) AS withdrawing, sum(in_swap) AS in_swap
			FROM (SELECT mint_id, available, withdrawing, in_swap FROM organization_totals WHERE org_id = $1
				UNION ALL
				SELECT mint_id, available, withdrawing, in_swap FROM organization_total_changes WHERE org_id = $1) parts
			GROUP BY 1) t
		CROSS JOIN (VALUES ('CUSTOMER'), ('WITHDRAWING'), ('IN_SWAP')) AS k (kind)
		-- A mint of which only addresses hold something has a total as well. The order makes
		-- the look-up one by the key.
		WHERE (SELECT true FROM ledger_accounts a WHERE a.org_id = $1 AND a.mint_id = t.mint_id AND a.kind = k.kind ORDER BY a.subject LIMIT 1)
		UNION ALL
		SELECT a.mint_id, a.kind, a.subject, (SELECT b.balance FROM ledger_balances b WHERE b.account_id = a.account_id)
		FROM ledger_accounts a WHERE a.org_id = $1 AND `+OwnAccountsSQL+`
		ORDER BY 1, 2, 3`, org)
	if err != nil {
		return nil, fmt.Errorf("sum up the balances of %s: %w", org, err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[KindTotal])
	if err != nil {
		return nil, fmt.Errorf("sum up the balances of %s: %w", org, err)
	}
	return found, nil
}

// Sum returns credits minus debits of any account over all its transfers. It is for reports and
// checks, not for hot paths. Owned accounts, such as CUSTODY, are negative here.
func Sum(ctx context.Context, tx pg.Tx, a Account) (*big.Int, error) {
	var n pgtype.Numeric
	err := tx.QueryRow(ctx, `
		SELECT coalesce(sum(delta), 0)
		FROM (
			SELECT t.amount AS delta FROM ledger_transfers t JOIN ledger_accounts a ON a.account_id = t.credit_account
			WHERE a.org_id = $1 AND a.mint_id = $2 AND a.kind = $3 AND a.subject = $4
			UNION ALL
			SELECT -t.amount FROM ledger_transfers t JOIN ledger_accounts a ON a.account_id = t.debit_account
			WHERE a.org_id = $1 AND a.mint_id = $2 AND a.kind = $3 AND a.subject = $4
		) moved`,
		a.OrgID, a.MintID, string(a.Kind), a.Subject).Scan(&n)
	if err != nil {
		return nil, fmt.Errorf("sum the transfers of %v: %w", a, err)
	}
	if n.NaN || n.Exp < 0 {
		panic(fmt.Sprintf("ledger: the sum of %v is not a whole number", a))
	}
	return new(big.Int).Mul(n.Int, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n.Exp)), nil)), nil
}

// AccountBalance is the balance of one account with a floor.
type AccountBalance struct {
	Account
	Balance money.Amount
}

// CustomerBalances returns the balances of customers, available and held for withdrawals and swaps, by
// customer, mint and kind. A mint appears once an account in it exists.
func CustomerBalances(ctx context.Context, tx pg.Tx, org string, customers ...string) ([]AccountBalance, error) {
	rows, err := tx.Query(ctx, `
		SELECT a.org_id, a.mint_id, a.kind, a.subject, b.balance
		FROM ledger_accounts a JOIN ledger_balances b USING (account_id)
		WHERE a.org_id = $1 AND a.subject = ANY ($2) AND a.kind IN ('CUSTOMER', 'WITHDRAWING', 'IN_SWAP')
		ORDER BY a.subject, a.mint_id, a.kind`, org, customers)
	if err != nil {
		return nil, fmt.Errorf("read the balances of %d customers of %s: %w", len(customers), org, err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (h AccountBalance, err error) {
		err = row.Scan(&h.OrgID, &h.MintID, &h.Kind, &h.Subject, &h.Balance)
		return h, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the balances of %d customers of %s: %w", len(customers), org, err)
	}
	return found, nil
}
