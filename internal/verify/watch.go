package verify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/freeze"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/pg"
)

// reasonBreachesMax is how many breaches the reason of a freeze names.
const reasonBreachesMax = 3

// noBalance is why a mint is under quarantine whose token cannot be asked.
const noBalance = "NO_BALANCE"

// Watch makes every check once, those against the chains included, and is
// called on a schedule. When something does not add up it stops everything that
// goes out: a freeze of all, by VERIFY, which only an operator lifts. An error
// means that it could not look, or could not freeze.
func Watch(ctx context.Context, db *pg.DB, chains chain.Chains, log *slog.Logger, options ...Option) (Report, error) {
	r, err := Run(ctx, db, options...)
	onChain, chainErr := OnChain(ctx, db, chains)
	err = errors.Join(err, chainErr)
	r.Outcomes = append(r.Outcomes, onChain.Outcomes...)
	r.Breaches = append(r.Breaches, onChain.Breaches...)
	if r.At.IsZero() {
		r.At = onChain.At
	}
	if len(r.ahead) > 0 {
		log.Warn("verify: the schema has steps that this program does not know, so its guards are not compared; replace the program, or find out who wrote them", "steps", r.ahead)
	}
	r.doubt = onChain.doubt
	for mintID, why := range r.doubt {
		log.Error("verify: a token gives no balance, its mint is under quarantine", "mint", mintID, "detail", why)
		doubted := db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
			return mint.Quarantine(ctx, tx, mintID, noBalance)
		})
		err = errors.Join(err, doubted)
	}
	return r, errors.Join(err, stop(ctx, db, log, r))
}

// WatchAddresses checks every address there is, as Addresses does, and stops everything
// as Watch does.
func WatchAddresses(ctx context.Context, db *pg.DB, prover Prover, log *slog.Logger) (Report, error) {
	r, err := Addresses(ctx, db, prover)
	return r, errors.Join(err, stop(ctx, db, log, r))
}

// stop tells of breaches and freezes everything; without any it does nothing.
func stop(ctx context.Context, db *pg.DB, log *slog.Logger, r Report) error {
	if r.OK() {
		return nil
	}
	for _, b := range r.Breaches {
		log.Error("verify: breach", "check", b.Check, "org", b.OrgID, "subject", b.Subject, "detail", b.Detail)
	}
	err := db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		return freeze.Put(ctx, tx, freeze.Freeze{Scope: freeze.All, Source: freeze.ByVerify, Reason: reason(r)})
	})
	if err != nil {
		log.Error("verify: breach found and nothing was stopped", "error", err)
		return fmt.Errorf("stop everything after a breach: %w", err)
	}
	return nil
}

func reason(r Report) string {
	var parts []string
	for _, b := range r.Breaches[:min(len(r.Breaches), reasonBreachesMax)] {
		parts = append(parts, fmt.Sprintf("%s: %s %s", b.Check, b.Subject, b.Detail))
	}
	s := strings.Join(parts, "; ")
	total := 0
	for _, o := range r.Outcomes {
		total += o.Breaches
	}
	if more := total - len(parts); more > 0 {
		s += fmt.Sprintf("; and %d more", more)
	}
	return s
}
