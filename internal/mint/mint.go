// Package mint holds the catalogue: which tokens on which chains are money in Coffer. A token is
// identified by its chain and contract alone. Its symbol and name are for people and decide
// nothing.
//
// A mint never becomes another token. Its id is in every row of the ledger, so its identity is
// fixed once it is written. A crash leaves a catalogue that was synchronized completely or not at
// all.
package mint

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// Kind distinguishes a chain's native coin from a token.
type Kind string

// These are the kinds of a mint.
const (
	Native Kind = "NATIVE"
	Token  Kind = "TOKEN"
)

// Mint is a token on a chain, or the chain's native coin.
type Mint struct {
	ID                    int // above 0, from the configuration; it never changes
	Chain                 chain.Name
	Network               chain.Network
	Kind                  Kind
	Contract              chain.Address // "" for the native coin
	Symbol, Name          string
	Decimals              int
	LogoURL               string // "" if there is none
	DepositEnabled        bool   // whether new addresses are issued; arrivals are credited in any case
	WithdrawEnabled       bool
	MinDeposit            money.Amount // atomic units, above 0; a smaller deposit is recorded and not credited
	MinWithdraw           money.Amount // atomic units, above 0
	ConfirmationsRequired int          // shown to people; finality decides
	Finality              string       // shown to people, such as FINALIZED
	Quarantined           bool         // its events and its balances differed; no deposit of it is credited
}

const decimalsMax = 36

func (m Mint) validateMint() error {
	var errs []error
	want := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("mint %d: "+format, append([]any{m.ID}, args...)...))
		}
	}
	want(m.ID > 0, "the id must be above 0")
	want(m.Chain != "", "chain is missing")
	want(m.Network == chain.Mainnet || m.Network == chain.Testnet || m.Network == chain.Local,
		"network %q is unknown: use MAINNET, TESTNET or LOCAL", m.Network)
	want(m.Kind == Native && m.Contract == "" || m.Kind == Token && m.Contract != "",
		"kind %q with contract %q: a NATIVE mint has no contract, a TOKEN has one", m.Kind, m.Contract)
	want(m.Symbol != "" && m.Name != "", "symbol or name is missing")
	want(m.Decimals >= 0 && m.Decimals <= decimalsMax, "%d decimals: 0 to %d are possible", m.Decimals, decimalsMax)
	want(!m.MinDeposit.IsZero() && !m.MinWithdraw.IsZero(), "the minimums must be above 0")
	want(m.ConfirmationsRequired >= 0, "confirmations below 0")
	return errors.Join(errs...)
}

// Sync writes the configured mints: it adds new ones and updates limits and names of known ones. It
// refuses the whole list if a mint is malformed or if its id belongs to another token, and names
// every mint at fault. A mint that is no longer configured stays as it was, because its amounts are
// still in the ledger.
func Sync(ctx context.Context, db *pg.DB, mints []Mint) error {
	var errs []error
	ids, contracts := map[int]bool{}, map[[2]string]int{}
	for _, m := range mints {
		errs = append(errs, m.validateMint())
		tokenKey := [2]string{string(m.Chain), string(m.Contract)}
		if ids[m.ID] {
			errs = append(errs, fmt.Errorf("mint %d is in the list twice", m.ID))
		} else if firstID, isRepeated := contracts[tokenKey]; isRepeated {
			errs = append(errs, fmt.Errorf("mints %d and %d are the same token", firstID, m.ID))
		}
		ids[m.ID], contracts[tokenKey] = true, m.ID
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	mints = slices.Clone(mints)
	slices.SortFunc(mints, func(a, b Mint) int { return a.ID - b.ID })
	return db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		for _, m := range mints {
			var logo *string
			if m.LogoURL != "" {
				logo = &m.LogoURL
			}
			err := upsertMint(ctx, tx, m, logo)
			switch {
			case errors.Is(err, errOtherToken) || pg.ViolatesConstraint(err, "mints_identity_fixed"):
				return fmt.Errorf(
					"mint %d is another token in the database: chain, network, contract and decimals of an id never "+
						"change; give the new token a new id",
					m.ID,
				)
			case pg.ViolatesConstraint(err, "mints_contract_unique"):
				return fmt.Errorf(
					"mint %d: contract %q on %s has another id in the database", m.ID, m.Contract, m.Chain,
				)
			case err != nil:
				return fmt.Errorf("sync mint %d: %w", m.ID, err)
			}
		}
		return nil
	})
}

var errOtherToken = errors.New("the id belongs to another token")

// upsertMint adds a mint or updates a known one. Every transaction that writes a row with a mint's
// id holds a key share lock of the mint until it ends. An upsert that sets a key column would wait
// for all of them: a process that hangs would prevent another one from starting. So a known mint is
// updated only if something differs, and its key never is.
func upsertMint(ctx context.Context, tx pg.Tx, m Mint, logo *string) error {
	args := []any{
		m.ID, string(m.Chain), string(m.Network), string(m.Kind), string(m.Contract), m.Symbol, m.Name, m.Decimals,
		logo,
		m.DepositEnabled, m.WithdrawEnabled, m.MinDeposit, m.MinWithdraw, m.ConfirmationsRequired, m.Finality,
	}
	added, err := tx.Exec(ctx, `
		INSERT INTO mints (mint_id, chain, network, kind, contract, symbol, name, decimals, logo_url,
			deposit_enabled, withdraw_enabled, min_deposit, min_withdraw, confirmations_required, finality)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
		ON CONFLICT (mint_id) DO NOTHING`, args...)
	if err != nil || added.RowsAffected() == 1 {
		return err
	}
	var isSame bool
	err = tx.QueryRow(
		ctx, `SELECT chain = $2 AND contract = $3 FROM mints WHERE mint_id = $1`, m.ID, string(m.Chain),
		string(m.Contract),
	).Scan(&isSame)
	if err != nil {
		return err
	}
	if !isSame {
		return errOtherToken
	}
	_, err = tx.Exec(ctx, `
		UPDATE mints SET network = $3, kind = $4, symbol = $6, name = $7, decimals = $8, logo_url = $9,
			deposit_enabled = $10, withdraw_enabled = $11, min_deposit = $12, min_withdraw = $13,
			confirmations_required = $14, finality = $15
		WHERE mint_id = $1 AND chain = $2 AND contract = $5
		  AND (network, kind, symbol, name, decimals, logo_url, deposit_enabled, withdraw_enabled,
		       min_deposit, min_withdraw, confirmations_required, finality)
		      IS DISTINCT FROM ($3, $4, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)`, args...)
	return err
}

// Catalogue holds all mints as of one transaction.
type Catalogue struct {
	mints      []Mint // sorted by id
	byContract map[contractKey]int
}

type contractKey struct {
	chain    chain.Name
	contract chain.Address
}

const selectMints = `
	SELECT mint_id, chain, network, kind, contract, symbol, name, decimals, coalesce(logo_url, ''),
		deposit_enabled, withdraw_enabled, min_deposit, min_withdraw, confirmations_required, finality,
		quarantined_at IS NOT NULL
	FROM mints`

func scanMint(row pgx.CollectableRow) (m Mint, err error) {
	err = row.Scan(&m.ID, &m.Chain, &m.Network, &m.Kind, &m.Contract, &m.Symbol, &m.Name, &m.Decimals, &m.LogoURL,
		&m.DepositEnabled, &m.WithdrawEnabled, &m.MinDeposit, &m.MinWithdraw, &m.ConfirmationsRequired, &m.Finality,
		&m.Quarantined)
	return m, err
}

// LoadCatalogue reads the catalogue.
func LoadCatalogue(ctx context.Context, tx pg.Tx) (Catalogue, error) {
	rows, err := tx.Query(ctx, selectMints+` ORDER BY mint_id`)
	if err != nil {
		return Catalogue{}, fmt.Errorf("read the mints: %w", err)
	}
	mints, err := pgx.CollectRows(rows, scanMint)
	if err != nil {
		return Catalogue{}, fmt.Errorf("read the mints: %w", err)
	}
	return NewCatalogue(mints...), nil
}

// QueueCatalogue queues the query for the mints with these ids. Unknown ids are left out. The
// result is filled when the batch is sent.
func QueueCatalogue(b *pgx.Batch, ids []int) *Catalogue {
	// A number that no column can hold is no id, and it could not be sent.
	ids = slices.DeleteFunc(slices.Clone(ids), func(id int) bool { return id < 1 || id > math.MaxInt32 })
	c := &Catalogue{}
	b.Queue(selectMints+` WHERE mint_id = ANY ($1)`, ids).Query(func(rows pgx.Rows) error {
		mints, err := pgx.CollectRows(rows, scanMint)
		*c = NewCatalogue(mints...)
		return err
	})
	return c
}

// QueueFingerprints queues a look-up of what tells whether the row of a mint has changed, by id. A caller that
// remembers a mint queues this before QueueCatalogue: a fingerprint is then of the remembered row or of one before it.
func QueueFingerprints(b *pgx.Batch, ids []int) map[int]string {
	ids = slices.DeleteFunc(slices.Clone(ids), func(id int) bool { return id < 1 || id > math.MaxInt32 })
	fingerprints := make(map[int]string, len(ids))
	b.Queue(
		`SELECT m.mint_id, md5(m::text) FROM mints m WHERE m.mint_id = ANY ($1)`, ids,
	).Query(func(rows pgx.Rows) error {
		clear(fingerprints)
		var mintID int
		var fingerprint string
		_, err := pgx.ForEachRow(rows, []any{&mintID, &fingerprint}, func() error {
			fingerprints[mintID] = fingerprint
			return nil
		})
		return err
	})
	return fingerprints
}

// QueueAll queues LoadCatalogue. The result is filled when the batch is sent.
func QueueAll(b *pgx.Batch) *Catalogue {
	c := &Catalogue{}
	b.Queue(selectMints + ` ORDER BY mint_id`).Query(func(rows pgx.Rows) error {
		mints, err := pgx.CollectRows(rows, scanMint)
		*c = NewCatalogue(mints...)
		return err
	})
	return c
}

// NewCatalogue returns a catalogue of the given mints.
func NewCatalogue(mints ...Mint) Catalogue {
	c := Catalogue{mints: slices.Clone(mints), byContract: map[contractKey]int{}}
	slices.SortFunc(c.mints, func(a, b Mint) int { return a.ID - b.ID })
	for i, m := range c.mints {
		c.byContract[contractKey{m.Chain, m.Contract}] = i
	}
	return c
}

// ByID returns the mint with an id.
func (c Catalogue) ByID(id int) (Mint, bool) {
	i, ok := slices.BinarySearchFunc(c.mints, id, func(m Mint, id int) int { return m.ID - id })
	if !ok {
		return Mint{}, false
	}
	return c.mints[i], true
}

// ByContract returns the mint of a contract in its canonical form; "" is the chain's native coin.
// Rule MINT-1.
func (c Catalogue) ByContract(chainName chain.Name, contract chain.Address) (Mint, bool) {
	i, ok := c.byContract[contractKey{chainName, contract}]
	if !ok {
		return Mint{}, false
	}
	return c.mints[i], true
}

// IsContract reports whether an address is a token's contract on any chain of a family.
func (c Catalogue) IsContract(f chain.Family, a chain.Address) bool {
	return slices.ContainsFunc(
		c.mints, func(m Mint) bool { return m.Contract != "" && m.Contract == a && m.Chain.Family() == f },
	)
}

// Native returns the mint of a chain's native coin.
func (c Catalogue) Native(chainName chain.Name) (Mint, bool) { return c.ByContract(chainName, "") }

// Filter narrows a list. Nil and "" match everything.
type Filter struct {
	Chain          chain.Name
	Symbol         string // exact match
	Swappable      *bool
	DepositEnabled *bool
	// IsSwappable says of each mint whether it can be swapped, which depends on who asks. It is needed
	// with Swappable alone.
	IsSwappable func(Mint) bool
}

// List returns the mints that match the filter, sorted by id.
func (c Catalogue) List(f Filter) []Mint {
	var found []Mint
	for _, m := range c.mints {
		if (f.Chain == "" || m.Chain == f.Chain) &&
			(f.Symbol == "" || m.Symbol == f.Symbol) &&
			(f.Swappable == nil || f.IsSwappable(m) == *f.Swappable) &&
			(f.DepositEnabled == nil || m.DepositEnabled == *f.DepositEnabled) {
			found = append(found, m)
		}
	}
	return found
}

// Quarantine stops credits of a mint, for example because its events and balances differ. If it is
// quarantined already, the first reason stays. A person releases it.
func Quarantine(ctx context.Context, tx pg.Tx, id int, reason string) error {
	return QuarantineBy(ctx, tx, id, audit.System("mint"), reason)
}

// QuarantineBy does what Quarantine does, in the name of a given actor.
func QuarantineBy(ctx context.Context, tx pg.Tx, id int, actor audit.Actor, reason string) error {
	tag, err := tx.Exec(ctx, `
		UPDATE mints SET quarantined_at = $2, quarantine_reason = $3
		WHERE mint_id = $1 AND quarantined_at IS NULL`, id, tx.Now, reason)
	if err != nil {
		return fmt.Errorf("quarantine mint %d: %w", id, err)
	}
	if tag.RowsAffected() == 0 {
		return nil
	}
	return audit.Record(ctx, tx, audit.Entry{
		Actor: actor, Action: "mint.quarantined",
		ResourceKind: "MINT", ResourceID: fmt.Sprint(id), Detail: map[string]string{"reason": reason},
	})
}

// Usable reports which of these mints are not quarantined. It locks every one until the transaction
// ends: a quarantine is either seen here, or comes after everything that the transaction does.
func Usable(ctx context.Context, tx pg.Tx, ids []int) (map[int]bool, error) {
	rows, err := tx.Query(ctx, `
		SELECT mint_id, quarantined_at IS NULL FROM mints WHERE mint_id = ANY($1) ORDER BY mint_id FOR SHARE`, ids)
	if err != nil {
		return nil, fmt.Errorf("lock %d mints: %w", len(ids), err)
	}
	usable := map[int]bool{}
	var id int
	var isUsable bool
	_, err = pgx.ForEachRow(rows, []any{&id, &isUsable}, func() error {
		usable[id] = isUsable
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("lock %d mints: %w", len(ids), err)
	}
	return usable, nil
}

// ReleaseQuarantine ends a quarantine after a person has looked at it. The reason goes into the
// audit log. What only the quarantine stopped continues: deposits that the balances of their own
// blocks confirmed are credited, and payments leave. Rule DEP-15.
func ReleaseQuarantine(ctx context.Context, tx pg.Tx, id int, actor audit.Actor, reason string) error {
	tag, err := tx.Exec(ctx, `
		UPDATE mints SET quarantined_at = NULL, quarantine_reason = NULL
		WHERE mint_id = $1 AND quarantined_at IS NOT NULL`, id)
	if err != nil {
		return fmt.Errorf("release mint %d: %w", id, err)
	}
	if tag.RowsAffected() == 0 {
		return nil
	}
	return audit.Record(ctx, tx, audit.Entry{
		Actor: actor, Action: "mint.released", ResourceKind: "MINT", ResourceID: fmt.Sprint(id),
		Detail: map[string]string{"reason": reason},
	})
}
