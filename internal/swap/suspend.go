package swap

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/swap/provider"
)

// Suspensions keeps in the database which providers get no new swaps, for all processes. It is safe for
// concurrent use.
type Suspensions struct{ DB *pg.DB }

var _ provider.Suspensions = Suspensions{}

// ListSuspended implements provider.Suspensions.
func (s Suspensions) ListSuspended(ctx context.Context) (names []string, err error) {
	err = s.DB.ReadSystemBatch(ctx, func(b *pgx.Batch) {
		b.Queue(`SELECT provider FROM swap_providers WHERE state = 'SUSPENDED' ORDER BY provider`).
			Query(func(rows pgx.Rows) (err error) {
				names, err = pgx.CollectRows(rows, pgx.RowTo[string])
				return err
			})
	})
	if err != nil {
		return nil, fmt.Errorf("read the suspended swap providers: %w", err)
	}
	return names, nil
}

// Suspend implements provider.Suspensions.
func (s Suspensions) Suspend(ctx context.Context, name, reason string) error {
	return s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		return suspend(ctx, tx, name, reason, actor)
	})
}

// errSuspended says that a provider was suspended after its firm quote. It counts as one that cannot be asked now.
var errSuspended = fmt.Errorf("%w: it was suspended meanwhile", provider.ErrUnavailable)

// queueSuspended queues the look in the transaction that writes a swap whether its provider was suspended since the
// firm quote. It comes after the gates, where a transaction may wait. The function that it returns gives errSuspended
// once the batch was sent. The look locks nothing: a suspension that commits between it and the commit of the swap
// counts for the next one. Rule SWAP-28.
func queueSuspended(b *pgx.Batch, name string) func() error {
	isSuspended := false
	b.Queue(`SELECT EXISTS (SELECT FROM swap_providers WHERE provider = $1 AND state = 'SUSPENDED')`, name).
		QueryRow(func(row pgx.Row) error { return row.Scan(&isSuspended) })
	return func() error {
		if isSuspended {
			return errSuspended
		}
		return nil
	}
}

// checkSuspended is queueSuspended in a round trip of its own.
func checkSuspended(ctx context.Context, tx pg.Tx, name string) error {
	var b pgx.Batch
	check := queueSuspended(&b, name)
	if err := tx.SendBatch(ctx, &b).Close(); err != nil {
		return fmt.Errorf("look whether swap provider %s is suspended: %w", name, err)
	}
	return check()
}

// reasonRunesMax bounds the stored reason.
const reasonRunesMax = 500

// suspend stores that a provider gets no new swaps. A suspended provider keeps its first reason.
func suspend(ctx context.Context, tx pg.Tx, name, reason string, requester audit.Actor) error {
	if runes := []rune(reason); len(runes) > reasonRunesMax {
		reason = string(runes[:reasonRunesMax])
	}
	tag, err := tx.Exec(ctx, `
		INSERT INTO swap_providers (provider, state, reason, since, changed_by) VALUES ($1, 'SUSPENDED', $2, $3, $4)
		ON CONFLICT (provider) DO UPDATE SET state = excluded.state, reason = excluded.reason, since = excluded.since,
			changed_by = excluded.changed_by
		WHERE swap_providers.state = 'ACTIVE'`, name, reason, tx.Now, requester.Kind+" "+requester.ID)
	if err != nil {
		return fmt.Errorf("suspend swap provider %s: %w", name, err)
	}
	if tag.RowsAffected() != 1 {
		return nil
	}
	return audit.Record(ctx, tx, audit.Entry{
		Actor: requester, Action: "swap_provider.suspended", ResourceKind: "SWAP_PROVIDER", ResourceID: name,
		Detail: map[string]any{"reason": reason},
	})
}

// Suspend stores that a provider gets no new swaps until a person lifts it.
func (s *Service) Suspend(ctx context.Context, name, reason string) error {
	s.Log.ErrorContext(ctx, "swap: a provider is suspended", "provider", name, "why", reason)
	return Suspensions{s.DB}.Suspend(ctx, name, reason)
}

// ProviderState is a provider as an operator sees it.
type ProviderState struct {
	Name        string
	IsSuspended bool
	Reason      string // why it is suspended
	ChangedAt   *time.Time
	ChangedBy   string
	// BrokenSince is since when this process does not ask it, because it failed too often.
	BrokenSince *time.Time
	OpenSwaps   int        // whose value is with it
	OldestAt    *time.Time // of these
	// Outstanding is what is with it, or is about to be paid to it. OutstandingUSDMax is the most that may be; nil:
	// it has no limit.
	Outstanding       Exposure
	OutstandingUSDMax *money.USD
}

// IsAtLimit reports whether nothing more may be with the provider.
func (p ProviderState) IsAtLimit() bool {
	return p.OutstandingUSDMax != nil && (p.Outstanding.Unvalued > 0 || p.OutstandingUSDMax.Cmp(p.Outstanding.USD) <= 0)
}

// ListProviders returns every provider that the configuration names or that has swaps.
func (s *Service) ListProviders(ctx context.Context) ([]ProviderState, error) {
	var states []ProviderState
	var names []string
	var claims map[string][]claim
	broken := map[string]time.Time{}
	for _, h := range s.Panel.ListHealth() {
		names = append(names, h.Provider)
		if !h.OpenSince.IsZero() {
			broken[h.Provider] = h.OpenSince
		}
	}
	err := s.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, `
			WITH open AS (
				SELECT provider, count(*) AS swaps, min(paid_at) AS oldest FROM swaps
				WHERE paid_at IS NOT NULL AND amount_out IS NULL AND refunded + short < amount_in GROUP BY provider),
			known AS (SELECT unnest($1::text[]) AS provider UNION SELECT provider FROM swap_providers
				UNION SELECT provider FROM open)
			SELECT k.provider, coalesce(p.state = 'SUSPENDED', false), coalesce(p.reason, ''), p.since,
				coalesce(p.changed_by, ''),
				coalesce(o.swaps, 0), o.oldest
			FROM known k LEFT JOIN swap_providers p ON p.provider = k.provider
				LEFT JOIN open o ON o.provider = k.provider
			ORDER BY k.provider`, names)
		if err != nil {
			return err
		}
		states, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (p ProviderState, err error) {
			err = row.Scan(&p.Name, &p.IsSuspended, &p.Reason, &p.ChangedAt, &p.ChangedBy, &p.OpenSwaps, &p.OldestAt)
			if brokenAt, ok := broken[p.Name]; ok {
				p.BrokenSince = &brokenAt
			}
			return p, err
		})
		if err != nil {
			return err
		}
		names := make([]string, len(states))
		for i, p := range states {
			names[i] = p.Name
		}
		claims, err = loadClaims(ctx, tx, names...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the swap providers: %w", err)
	}
	prices := s.loadClaimPrices(ctx, claims)
	for i := range states {
		p := &states[i]
		p.OutstandingUSDMax = s.Panel.OutstandingUSDMax(p.Name)
		if p.Outstanding, err = sumClaims(claims[p.Name], prices); err != nil {
			return nil, fmt.Errorf("list the swap providers: %w", err)
		}
	}
	return states, nil
}

func checkReason(reason string) error {
	if reason == "" || utf8.RuneCountInString(reason) > reasonRunesMax {
		return fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"A reason of 1 to %d characters says why.", reasonRunesMax).WithParam("reason")
	}
	return nil
}

// SuspendProvider has a person suspend a provider: it gets no new swaps, and its open ones go on. A
// provider that is suspended keeps its first reason. Error: fault NOT_FOUND. Rule SWAP-28.
func (s *Service) SuspendProvider(ctx context.Context, name, reason string, requester audit.Actor) error {
	if err := checkReason(reason); err != nil {
		return err
	}
	if err := s.requireKnown(ctx, name); err != nil {
		return err
	}
	return s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		return suspend(ctx, tx, name, reason,
			requester)
	})
}

// ResumeProvider has a person lift a suspension. A provider that is not suspended stays as it is. Error:
// fault NOT_FOUND. Rule SWAP-28.
func (s *Service) ResumeProvider(ctx context.Context, name, reason string, requester audit.Actor) error {
	if err := checkReason(reason); err != nil {
		return err
	}
	if err := s.requireKnown(ctx, name); err != nil {
		return err
	}
	return s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		tag, err := tx.Exec(ctx, `
			UPDATE swap_providers SET state = 'ACTIVE', reason = $2, since = $3, changed_by = $4
			WHERE provider = $1 AND state = 'SUSPENDED'`, name, reason, tx.Now, requester.Kind+" "+requester.ID)
		if err != nil {
			return fmt.Errorf("resume swap provider %s: %w", name, err)
		}
		if tag.RowsAffected() != 1 {
			return nil
		}
		return audit.Record(ctx, tx, audit.Entry{
			Actor: requester, Action: "swap_provider.resumed", ResourceKind: "SWAP_PROVIDER", ResourceID: name,
			Detail: map[string]any{"reason": reason},
		})
	})
}

func (s *Service) requireKnown(ctx context.Context, name string) error {
	states, err := s.ListProviders(ctx)
	if err != nil {
		return err
	}
	for _, p := range states {
		if p.Name == name {
			return nil
		}
	}
	return fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten,
		"There is no swap provider of this name.")
}

// isGone reports whether an error says that there is no such swap.
func isGone(err error) bool {
	return errors.Is(err, pgx.ErrNoRows) || fault.HasCode(err, fault.CodeNotFound)
}
