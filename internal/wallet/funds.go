package wallet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// Part is a share of what a wallet holds of a mint.
type Part string

// Parts of a wallet's funds. Checks of the table limit their sums.
const (
	Credited    Part = "CREDITED"     // all that ever arrived and counts
	Held        Part = "HELD"         // the flagged part of Credited
	Reserved    Part = "RESERVED"     // the part of Credited that is promised to orders that are not final
	Swept       Part = "SWEPT"        // the part of Credited that has left
	Gas         Part = "GAS"          // native coin of the operator, for fees
	GasReserved Part = "GAS_RESERVED" // the part of Gas that is promised to orders that are not final
	Dust        Part = "DUST"         // arrived and does not count

	// Reversed and GasReversed are what reorgs removed from Credited and Gas. A movement into one
	// of them reduces the other, whatever was done with the funds in the meantime. The row then
	// says what is missing, see Funds.Shortfall. They only grow.
	Reversed    Part = "REVERSED"
	GasReversed Part = "GAS_REVERSED"
)

// Movement changes one part of what a wallet holds of a mint: it adds Plus and then subtracts
// Minus.
type Movement struct {
	WalletID, OrgID string
	MintID          int
	Part            Part
	Plus, Minus     money.Amount
}

// ErrInsufficient says that a movement would promise or take more than there is. The transaction
// must be rolled back.
var ErrInsufficient = errors.New("the wallet does not have that much")

type partChange struct{ plus, minus money.Amount }

type fundsKey struct {
	wallet string
	mint   int
}

// MoveFunds changes what wallets hold, in a system transaction. One call takes all movements of a
// transaction, so that rows are locked in one order. Only the outcome is checked: a part may be
// below zero between two movements. Error: ErrInsufficient.
func MoveFunds(ctx context.Context, tx pg.Tx, movements ...Movement) error {
	orgs := map[fundsKey]string{}
	parts := map[fundsKey]map[Part]partChange{}
	var rows []fundsKey
	for _, m := range movements {
		h := fundsKey{m.WalletID, m.MintID}
		if parts[h] == nil {
			parts[h], orgs[h] = map[Part]partChange{}, m.OrgID
			rows = append(rows, h)
		}
		if orgs[h] != m.OrgID {
			return fmt.Errorf("move funds of wallet %s: it belongs to %s or to %s", m.WalletID, orgs[h], m.OrgID)
		}
		if !slices.Contains(partOrder, m.Part) {
			return fmt.Errorf("move funds of wallet %s: %q is not a use of funds", m.WalletID, m.Part)
		}
		if (m.Part == Reversed || m.Part == GasReversed) && !m.Minus.IsZero() {
			return fmt.Errorf("move funds of wallet %s: the reversed amount can only grow", m.WalletID)
		}
		c := parts[h][m.Part]
		var err, errMinus error
		c.plus, err = c.plus.Add(m.Plus)
		c.minus, errMinus = c.minus.Add(m.Minus)
		if err := errors.Join(err, errMinus); err != nil {
			return fmt.Errorf("move funds of wallet %s: %w", m.WalletID, err)
		}
		parts[h][m.Part] = c
	}
	if len(rows) == 0 {
		return nil
	}
	slices.SortFunc(rows, func(a, b fundsKey) int {
		return cmp.Or(cmp.Compare(a.wallet, b.wallet), cmp.Compare(a.mint, b.mint))
	})
	n := len(rows)
	wallets, mints, owners := make([]string, n), make([]int, n), make([]string, n)
	used := map[Part]bool{}
	for i, h := range rows {
		wallets[i], mints[i], owners[i] = h.wallet, h.mint, orgs[h]
		for part := range parts[h] {
			used[part] = true
		}
	}
	updateSQL, usedParts := updateFundsSQL(used)
	args := []any{wallets, mints, owners}
	for _, part := range usedParts {
		plus, minus := make([]money.Amount, n), make([]money.Amount, n)
		for i, h := range rows {
			c := parts[h][part]
			plus[i], minus[i] = c.plus, c.minus
		}
		args = append(args, plus, minus)
	}
	var batch pgx.Batch
	// INSERT with ON CONFLICT checks the proposed row even when it ends as an update, so rows are
	// inserted empty. They are locked in one order and can then be updated in any order.
	batch.Queue(`
		INSERT INTO address_funds (wallet_id, mint_id, org_id)
		SELECT w.wallet_id, w.mint_id, w.org_id FROM unnest($1::text[], $2::int[], $3::text[]) WITH ORDINALITY AS w (wallet_id, mint_id, org_id, nth)
		WHERE (SELECT f.wallet_id FROM address_funds f WHERE f.wallet_id = w.wallet_id AND f.mint_id = w.mint_id) IS NULL
		ORDER BY w.nth
		ON CONFLICT ON CONSTRAINT address_funds_pkey DO NOTHING`, wallets, mints, owners)
	batch.Queue(`
		SELECT FROM address_funds f JOIN unnest($1::text[], $2::int[]) AS w (wallet_id, mint_id) ON f.wallet_id = w.wallet_id AND f.mint_id = w.mint_id
		ORDER BY f.wallet_id, f.mint_id FOR NO KEY UPDATE OF f`, wallets, mints)
	batch.Queue(updateSQL, args...)
	description := fmt.Sprintf("wallet %s, mint %d", wallets[0], mints[0])
	if n > 1 {
		description += fmt.Sprintf(", and %d more", n-1)
	}
	results := tx.SendBatch(ctx, &batch)
	defer results.Close()
	if _, err := results.Exec(); err != nil {
		return fmt.Errorf("open the funds of %s: %w", description, err)
	}
	if _, err := results.Exec(); err != nil {
		return fmt.Errorf("lock the funds of %s: %w", description, err)
	}
	tag, err := results.Exec()
	if pg.ViolatesConstraint(err, "address_funds_covered") ||
		pg.ViolatesConstraint(err, "address_funds_gas_covered") ||
		pg.ViolatesConstraint(err, "address_funds_not_negative") {
		return fmt.Errorf("move funds of %s: %w: %w", description, ErrInsufficient, err)
	}
	if err != nil {
		return fmt.Errorf("move funds of %s: %w", description, err)
	}
	if tag.RowsAffected() != int64(n) {
		return fmt.Errorf(
			"move funds of %s: %d belong to another owner", description, int64(n)-tag.RowsAffected(),
		)
	}
	if err := results.Close(); err != nil {
		return fmt.Errorf("move funds of %s: %w", description, err)
	}
	return nil
}

// updateFundsSQL returns the statement that moves these parts, and the parts in the order in which it takes their two
// arrays. A block of credits moves one part, so the statement names no other.
func updateFundsSQL(used map[Part]bool) (sql string, parts []Part) {
	var sets, types, names []string
	deltas := map[Part]string{}
	for _, part := range partOrder {
		if !used[part] {
			continue
		}
		n := len(parts)
		plus, minus := fmt.Sprintf("plus%d", n), fmt.Sprintf("minus%d", n)
		parts, names = append(parts, part), append(names, plus, minus)
		types = append(types, fmt.Sprintf("$%d::numeric[], $%d::numeric[]", 2*n+4, 2*n+5))
		deltas[part] += " + m." + plus + " - m." + minus
		if reduced, ok := reducedBy[part]; ok {
			deltas[reduced] += " - m." + plus
		}
	}
	for _, part := range partOrder {
		if delta := deltas[part]; delta != "" {
			column := strings.ToLower(string(part))
			sets = append(sets, column+" = "+column+delta)
		}
	}
	// No index answers IS NOT DISTINCT FROM. While the table was small, the index that begins with
	// the organization looked as good as the key. A session that keeps such a plan reads all rows
	// of an organization for each one.
	return `
		UPDATE address_funds f SET ` + strings.Join(sets, ", ") + `
		FROM unnest($1::text[], $2::int[], $3::text[], ` + strings.Join(types, ", ") + `)
			AS m (wallet_id, mint_id, org_id, ` + strings.Join(names, ", ") + `)
		WHERE f.wallet_id = m.wallet_id AND f.mint_id = m.mint_id AND f.org_id IS NOT DISTINCT FROM m.org_id`, parts
}

// reducedBy has the part that a movement into another one reduces.
var reducedBy = map[Part]Part{Reversed: Credited, GasReversed: Gas}

// partOrder is the order of the parts in the statement.
var partOrder = []Part{Credited, Held, Reserved, Swept, Gas, GasReserved, Dust, Reversed, GasReversed}

// Funds is what a wallet holds of a mint, in atomic units.
type Funds struct {
	Credited, Held, Reserved, Swept, Gas, GasReserved, Dust money.Amount
	// Shortfall and GasShortfall are what is promised or gone beyond what arrived, because a reorg
	// removed deposits. They shrink by themselves as more arrives.
	Shortfall, GasShortfall money.Amount
}

// Spendable returns what may still be promised: credited less held, reserved and swept.
// Rule DEP-28.
func (f Funds) Spendable() money.Amount {
	if !f.Shortfall.IsZero() {
		return money.Zero
	}
	return subtractAll(f.Credited, f.Held, f.Reserved, f.Swept)
}

// OnAddress returns what is on the address, promised or not: credited less swept.
func (f Funds) OnAddress() money.Amount {
	if !f.Shortfall.IsZero() {
		return money.Zero
	}
	return subtractAll(f.Credited, f.Swept)
}

// GasSpendable returns the part of the gas that may still be promised.
func (f Funds) GasSpendable() money.Amount {
	if !f.GasShortfall.IsZero() {
		return money.Zero
	}
	return subtractAll(f.Gas, f.GasReserved)
}

func subtractAll(amount money.Amount, parts ...money.Amount) money.Amount {
	for _, part := range parts {
		var err error
		if amount, err = amount.Sub(part); err != nil {
			panic("wallet: a row that its own checks refuse")
		}
	}
	return amount
}

// LoadFunds returns what a wallet holds of a mint; zero for a wallet that never held any.
func LoadFunds(ctx context.Context, tx pg.Tx, walletID string, mintID int) (Funds, error) {
	var f Funds
	err := tx.QueryRow(ctx, `
		SELECT credited, held, reserved, swept, greatest(gas, 0), gas_reserved, dust, short, gas_short
		FROM address_funds WHERE wallet_id = $1 AND mint_id = $2`, walletID, mintID).
		Scan(
			&f.Credited, &f.Held, &f.Reserved, &f.Swept, &f.Gas, &f.GasReserved, &f.Dust, &f.Shortfall,
			&f.GasShortfall,
		)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return Funds{}, fmt.Errorf("read the funds of wallet %s in mint %d: %w", walletID, mintID, err)
	}
	return f, nil
}

// Holding is what one wallet holds of one mint, for reports.
type Holding struct {
	WalletID string
	MintID   int
	Funds
}

// ListHoldings returns everything that an organization's wallets hold, by wallet and mint.
func ListHoldings(ctx context.Context, tx pg.Tx, org string) ([]Holding, error) {
	rows, err := tx.Query(ctx, `
		SELECT wallet_id, mint_id, credited, held, reserved, swept, greatest(gas, 0), gas_reserved, dust, short, gas_short
		FROM address_funds WHERE org_id = $1 ORDER BY wallet_id, mint_id`, org)
	if err != nil {
		return nil, fmt.Errorf("read the funds of the wallets of %s: %w", org, err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (h Holding, err error) {
		err = row.Scan(
			&h.WalletID, &h.MintID, &h.Credited, &h.Held, &h.Reserved, &h.Swept, &h.Gas, &h.GasReserved,
			&h.Dust, &h.Shortfall, &h.GasShortfall,
		)
		return h, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the funds of the wallets of %s: %w", org, err)
	}
	return found, nil
}
