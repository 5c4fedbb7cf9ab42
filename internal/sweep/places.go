package sweep

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/id"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
)

// PlacesMax is the most places that a treasury is given: some numbers are left for those
// that a stranger has spoilt.
const PlacesMax = 32

// A lacking treasury has fewer places than it should.
type lacking struct {
	Treasury wallet.Wallet
	Kept     int // made or being made, by our rows
}

// places has every treasury make the places that it lacks, on a chain that leases them.
// They are wanted before the first payment is: each takes until it is final.
func (s *Sweeper) places(ctx context.Context) (made int, err error) {
	if s.chain.Places == nil {
		return 0, nil
	}
	if err := s.treasuries(ctx); err != nil {
		return 0, err
	}
	var short []lacking
	err = s.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		short = short[:0]
		// What was refused rests: the signer's policy does not change by being asked.
		rows, err := tx.Query(ctx, `
			SELECT w.wallet_id, count(*) FILTER (WHERE p.status IN ('OPEN', 'DONE'))
			FROM wallets w LEFT JOIN places p ON p.wallet_id = w.wallet_id AND p.chain = $1
			WHERE w.purpose = 'TREASURY' AND w.family = $2
			GROUP BY w.wallet_id
			HAVING count(*) FILTER (WHERE p.status IN ('OPEN', 'DONE')) < $3
				AND coalesce(max(p.ended_at) FILTER (WHERE p.status = 'REFUSED'), '-infinity') <= $4
			ORDER BY w.wallet_id`, s.chain.Name, s.chain.Name.Family(), s.conf.Places, tx.Now.Add(-s.conf.RestAfterFail))
		if err != nil {
			return err
		}
		type found struct {
			WalletID string
			Kept     int
		}
		all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[found])
		if err != nil {
			return err
		}
		for _, f := range all {
			if !s.due(f.WalletID, tx.Now) || len(short) == s.conf.PlanMax {
				continue
			}
			w, err := wallet.ByID(ctx, tx, f.WalletID)
			if err != nil {
				return err
			}
			short = append(short, lacking{w, f.Kept})
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("find the treasuries that lack places: %w", err)
	}
	for _, l := range short {
		n, e := s.provide(ctx, l)
		made += n
		if e != nil {
			err = errors.Join(err, fmt.Errorf("places of treasury %s: %w", l.Treasury.ID, e))
		}
	}
	return made, err
}

// treasuries issues those that organizations lack: one has to have its places before
// somebody wants to be paid.
func (s *Sweeper) treasuries(ctx context.Context) error {
	var without []string
	err := s.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, `
			SELECT org_id FROM organizations o
			WHERE NOT EXISTS (SELECT FROM wallets w WHERE w.org_id = o.org_id AND w.family = $1 AND w.purpose = 'TREASURY')
			ORDER BY org_id LIMIT $2`, s.chain.Name.Family(), s.conf.PlanMax)
		if err != nil {
			return err
		}
		without, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err != nil {
		return fmt.Errorf("find the organizations without a treasury: %w", err)
	}
	for _, org := range without {
		if _, err := s.book.Treasury(ctx, org, s.chain.Name.Family()); err != nil {
			return err
		}
	}
	return nil
}

func (s *Sweeper) due(walletID string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !now.Before(s.rests[walletID])
}

// rest has a treasury left alone for a while: the chain is asked about 64 accounts.
func (s *Sweeper) rest(walletID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rests[walletID] = s.db.Clock()().Add(s.conf.RestAfterFail)
}

// provide plans what a treasury lacks, by what is on the chain: rows may have been lost,
// and what is there serves without one. The numbers that are tried begin with the lowest;
// where something else is, none will ever be.
func (s *Sweeper) provide(ctx context.Context, l lacking) (made int, err error) {
	t := l.Treasury
	if err := s.book.Prove(t); err != nil {
		return 0, err
	}
	acct, err := s.chain.Sender.Account(ctx, t.Address)
	if err != nil {
		return 0, err
	}
	there := 0
	for _, lease := range acct.Leases {
		if lease.Latest != "" {
			there++
		}
	}
	var rows map[chain.Address]string
	if err := s.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		rows, err = placesOf(ctx, tx, t.ID, s.chain.Name)
		return err
	}); err != nil {
		return 0, err
	}
	coming := 0
	for at, status := range rows {
		if _, final := acct.Used(chain.Slot{Lease: string(at)}); status == "OPEN" && !final {
			coming++
		}
	}
	lacks := min(s.conf.Places-l.Kept, s.conf.Places-there-coming)
	for n := 0; made < lacks; n++ {
		p, err := s.chain.Places.Place(t.Address, n)
		if err != nil {
			s.rest(t.ID)
			s.log.Error("a treasury has fewer places than it should, and there are no more numbers for any", "treasury", t.ID, "lacks", lacks-made)
			return made, nil
		}
		if status := rows[p.To]; status == "OPEN" || status == "DONE" {
			continue
		}
		if latest, final := acct.Used(chain.Slot{Lease: string(p.To)}); latest || final {
			s.log.Warn("a number is left out: where its place would be is something already", "treasury", t.ID, "number", n, "at", string(p.To))
			continue
		}
		if rows[p.To] == "FAILED" {
			continue
		}
		ok, err := s.plan(ctx, t, p)
		if err != nil {
			return made, err
		}
		if !ok {
			return made, nil // somebody else plans at this moment
		}
		made++
		s.log.Info("place planned", "treasury", t.ID, "number", n, "at", string(p.To))
	}
	if lacks <= 0 {
		s.rest(t.ID)
	}
	return made, nil
}

// placesOf are where a treasury has places, or tried to make one, and how that stands.
func placesOf(ctx context.Context, tx pg.Tx, walletID string, name chain.Name) (map[chain.Address]string, error) {
	rows, err := tx.Query(ctx, `SELECT address, status FROM places WHERE wallet_id = $1 AND chain = $2 AND status <> 'REFUSED'`, walletID, name)
	if err != nil {
		return nil, fmt.Errorf("read the places of treasury %s: %w", walletID, err)
	}
	type row struct {
		At     chain.Address
		Status string
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[row])
	if err != nil {
		return nil, fmt.Errorf("read the places of treasury %s: %w", walletID, err)
	}
	at := map[chain.Address]string{}
	for r := range slices.Values(all) {
		at[r.At] = r.Status
	}
	return at, nil
}

// plan writes a place with its order; false when there is one already.
func (s *Sweeper) plan(ctx context.Context, t wallet.Wallet, p chain.Payment) (bool, error) {
	err := s.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		var native int
		if err := tx.QueryRow(ctx, `SELECT mint_id FROM mints WHERE chain = $1 AND contract = ''`, s.chain.Name).Scan(&native); err != nil {
			return fmt.Errorf("native coin of %s: %w", s.chain.Name, err)
		}
		placeID := id.New("place", tx.Now)
		if err := dispatch.Place(ctx, tx, dispatch.Order{
			ID: placeID, OrgID: t.OrgID, Purpose: signer.Place, Chain: s.chain.Name, WalletID: t.ID, To: p.To, MintID: native, Amount: p.Amount,
		}); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `
			INSERT INTO places (place_id, org_id, chain, wallet_id, address, amount, status, created_at)
			VALUES ($1, $2, $3, $4, $5, $6, 'OPEN', $7)`, placeID, t.OrgID, s.chain.Name, t.ID, p.To, p.Amount, tx.Now)
		return err
	})
	if pg.Violates(err, "places_address_once") {
		return false, nil
	}
	return err == nil, err
}

// Places hears of the orders that make places.
type Places struct{ untold }

var _ dispatch.Listener = Places{}

// Ended closes the place and has what waits for one looked at again. What it cost is the
// fee of its order, the part that stays there too.
func (Places) Ended(ctx context.Context, tx pg.Tx, o dispatch.Order, e dispatch.End) ([]ledger.Posting, error) {
	to := "DONE"
	if !e.Paid {
		to = "FAILED"
	}
	if err := endPlace(ctx, tx, o.ID, to); err != nil || !e.Paid {
		return nil, err
	}
	return nil, dispatch.Brought(ctx, tx, o.WalletID, o.Chain, dispatch.WantSlot)
}

// Refused closes the place. What the signer refuses may be tried again.
func (Places) Refused(ctx context.Context, tx pg.Tx, o dispatch.Order, r *signer.Refusal) error {
	to := "REFUSED"
	if r.Code == dispatch.PlaceTaken {
		to = "FAILED"
	}
	return endPlace(ctx, tx, o.ID, to)
}

// Withdrawn closes the place, which may be tried again.
func (Places) Withdrawn(ctx context.Context, tx pg.Tx, o dispatch.Order, _ audit.Actor) error {
	return endPlace(ctx, tx, o.ID, "REFUSED")
}

func endPlace(ctx context.Context, tx pg.Tx, placeID, to string) error {
	tag, err := tx.Exec(ctx, `UPDATE places SET status = $2, ended_at = $3 WHERE place_id = $1 AND status = 'OPEN'`, placeID, to, tx.Now)
	return ended("place "+placeID, tag, err)
}
