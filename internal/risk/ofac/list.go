package ofac

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/seal"
	"github.com/cofferpay/coffer/internal/risk"
)

const (
	// Name is the name of the provider in the API.
	Name = "OFAC"

	// AgeMaxDefault is the maximum age of a list, which is published about every week.
	AgeMaxDefault = 14 * 24 * time.Hour

	source         = "OFAC_SDN"
	listPrefix     = "slt"
	partBytesMax   = 512 << 10
	unpackBytesMax = 64 << 20
)

// Store stores lists, each sealed as a whole. A party that can write the database can therefore not
// remove an address from a list.
type Store struct {
	DB   *pg.DB
	Seal *seal.Keyset
}

// StoredList is an imported list.
type StoredList struct {
	ID        string    `json:"id"`
	Published time.Time `json:"published"`
	Imported  time.Time `json:"imported"`
	Digest    string    `json:"digest"` // SHA-256 of the file, hex
	Entries   []Entry   `json:"entries"`
}

func partBinding(listID string, part int) seal.Binding {
	return seal.Binding{Kind: "sanctions_list", ID: listID, Version: part}
}

// Import stores a list, which applies from then on. Errors: INVALID_STATE for a list that is older
// than the present one or, unless allowShrunk is set, has less than half of its addresses;
// INVALID_REQUEST for a date in the future.
func (s *Store) Import(ctx context.Context, actor audit.Actor, l List, allowShrunk bool) (StoredList, error) {
	now := s.DB.Clock()()
	if l.Published.Sub(now) > futureMax {
		return StoredList{}, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"The list is of %s, which is in the future.", l.Published.Format(time.DateOnly)).
			WithAdvice("Check the file and this machine's clock.")
	}
	current, err := s.LoadNewest(ctx)
	switch {
	case errors.Is(err, errNoList):
	case errors.Is(err, seal.ErrUnsealed): // an unreadable list can only be replaced
	case err != nil:
		return StoredList{}, err
	case l.Published.Before(current.Published):
		return StoredList{},
			fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
				"The list is of %s and the present one of %s.",
				l.Published.Format(time.DateOnly), current.Published.Format(time.DateOnly)).
				WithAdvice("Download the list again.")
	case len(l.Entries) < len(current.Entries)/2 && !allowShrunk:
		return StoredList{}, fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
			"The list has %d addresses and the present one %d.", len(l.Entries), len(current.Entries)).
			WithStep(fault.ImportShrunk)
	}
	var stored StoredList
	err = s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		stored = StoredList{
			ID: id.New(listPrefix, tx.Now), Published: l.Published, Imported: tx.Now,
			Digest: hex.EncodeToString(l.Digest[:]), Entries: l.Entries,
		}
		sealed, err := s.sealList(stored)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx,
			`INSERT INTO sanctions_lists (list_id, source, published_at, imported_at, addresses, digest, sealed) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
			stored.ID, source, stored.Published, stored.Imported, len(stored.Entries), l.Digest[:], sealed)
		if err != nil {
			return fmt.Errorf("store the sanctions list: %w", err)
		}
		return audit.Record(ctx, tx, audit.Entry{
			Actor: actor, Action: "sanctions_list.imported", ResourceKind: "SANCTIONS_LIST", ResourceID: stored.ID,
			Detail: map[string]any{
				"source":    source,
				"published": stored.Published, "addresses": len(stored.Entries), "digest": stored.Digest,
			},
		})
	})
	return stored, err
}

func (s *Store) sealList(k StoredList) (parts [][]byte, err error) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if err := json.NewEncoder(z).Encode(k); err != nil {
		return nil, fmt.Errorf("pack the sanctions list: %w", err)
	}
	if err := z.Close(); err != nil {
		return nil, fmt.Errorf("pack the sanctions list: %w", err)
	}
	for part := range (packed.Len() + partBytesMax - 1) / partBytesMax {
		text := packed.Bytes()[part*partBytesMax : min((part+1)*partBytesMax, packed.Len())]
		sealed, err := s.Seal.Seal(text, partBinding(k.ID, part))
		if err != nil {
			return nil, err
		}
		parts = append(parts, sealed)
	}
	return parts, nil
}

func (s *Store) unsealList(listID string, parts [][]byte) (k StoredList, err error) {
	var packed bytes.Buffer
	for part, sealed := range parts {
		text, err := s.Seal.Unseal(sealed, partBinding(listID, part))
		if err != nil {
			return k, err
		}
		packed.Write(text)
	}
	z, err := gzip.NewReader(&packed)
	if err != nil {
		return k, fmt.Errorf("unpack the list %s: %w", listID, err)
	}
	text, err := io.ReadAll(io.LimitReader(z, unpackBytesMax)) // up to the checksum at its end
	if err != nil {
		return k, fmt.Errorf("unpack the list %s: %w", listID, err)
	}
	if err := json.Unmarshal(text, &k); err != nil {
		return k, fmt.Errorf("read the list %s: %w", listID, err)
	}
	if k.ID != listID || len(k.Entries) == 0 {
		return k, fmt.Errorf("read the list %s: its content differs", listID)
	}
	return k, nil
}

var errNoList = errors.New("no sanctions list was imported yet: coffer risk import FILE")

// newestID finds the list in force, which is the last imported one. Ids rise with the time of their
// creation.
func (s *Store) newestID(ctx context.Context) (listID string, err error) {
	err = s.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(
			ctx, `SELECT list_id FROM sanctions_lists WHERE source = $1 ORDER BY list_id DESC LIMIT 1`, source,
		).Scan(&listID)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return "", errNoList
	}
	if err != nil {
		return "", fmt.Errorf("look up the sanctions list: %w", err)
	}
	return listID, nil
}

// LoadNewest returns the list in force. It fails if there is none or if it cannot be unsealed.
func (s *Store) LoadNewest(ctx context.Context) (StoredList, error) {
	listID, err := s.newestID(ctx)
	if err != nil {
		return StoredList{}, err
	}
	return s.loadByID(ctx, listID)
}

func (s *Store) loadByID(ctx context.Context, listID string) (StoredList, error) {
	var parts [][]byte
	err := s.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, `SELECT sealed FROM sanctions_lists WHERE list_id = $1`, listID).Scan(&parts)
	})
	if err != nil {
		return StoredList{}, fmt.Errorf("read the list %s: %w", listID, err)
	}
	return s.unsealList(listID, parts)
}

// Screener answers from the list that was imported last.
type Screener struct {
	Store  *Store
	AgeMax time.Duration // an older list gives no answer

	mu     sync.Mutex
	listID string
	list   StoredList
	byAddr map[string]Entry
}

// Name returns OFAC.
func (*Screener) Name() string { return Name }

// Covers returns true for every chain: an entry applies on all chains with addresses of its form.
func (*Screener) Covers(ch chain.Name) bool { return ch.Family() != "" }

// Screen looks up the address: SEVERE if it is on the list, otherwise NONE.
func (s *Screener) Screen(ctx context.Context, subject risk.Subject) (risk.Verdict, error) {
	list, entry, listed, err := s.findEntry(ctx, risk.CanonicalAddress(string(subject.Address)))
	if err != nil {
		return risk.Verdict{}, risk.NotRetryable("%w", err)
	}
	now := s.Store.DB.Clock()()
	// A listed address counts, however old the list is.
	if age := now.Sub(list.Published); !listed && (age > s.AgeMax || age < -futureMax) {
		return risk.Verdict{},
			risk.NotRetryable("the sanctions list is of %s, and may be at most %s old: download it and import it "+
				"with coffer risk import",
				list.Published.Format(time.DateOnly), s.AgeMax)
	}
	v := risk.Verdict{
		Provider: Name, Severity: risk.None, IsKnown: true, Direct: true, GivenAt: now,
		Reference: fmt.Sprintf("SDN list of %s, %s", list.Published.Format(time.DateOnly), list.ID),
	}
	answer := map[string]any{"list": list.ID, "published": list.Published, "digest": list.Digest, "entry": nil}
	if listed {
		v.Severity, v.Entity, v.Categories = risk.Severe, "OFAC SDN "+entry.Party+": "+entry.Name, []string{"SANCTIONS"}
		answer["entry"] = entry
	}
	if v.Raw, err = json.Marshal(answer); err != nil {
		return risk.Verdict{}, risk.Unavailable("%w", err)
	}
	return v, nil
}

// findEntry looks up an address and reloads the list if another was imported.
func (s *Screener) findEntry(ctx context.Context, address string) (list StoredList, e Entry, listed bool, err error) {
	newest, err := s.Store.newestID(ctx)
	if err != nil {
		return list, e, false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if newest != s.listID {
		stored, err := s.Store.loadByID(ctx, newest)
		if err != nil {
			return list, e, false, err
		}
		s.listID, s.list, s.byAddr = newest, stored, make(map[string]Entry, len(stored.Entries))
		for _, e := range stored.Entries {
			s.byAddr[risk.CanonicalAddress(e.Address)] = e
		}
	}
	e, listed = s.byAddr[address]
	return s.list, e, listed, nil
}
