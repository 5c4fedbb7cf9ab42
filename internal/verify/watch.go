package verify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// reasonBreachesMax is how many breaches the reason of a freeze lists.
const reasonBreachesMax = 3

// noBalance is the reason of a quarantine if the token's balances cannot be read.
const noBalance = "NO_BALANCE"

// CheckAndFreeze makes every check once, including those against the chains; it is called on a
// schedule. If it finds a breach, it stops all outgoing payments: a freeze of scope ALL by VERIFY,
// which only an operator lifts. An error means that it could not check, or could not freeze.
func CheckAndFreeze(
	ctx context.Context, db *pg.DB, chains chain.Chains, log *slog.Logger, options ...Option,
) (Report, error) {
	r, err := RunChecks(ctx, db, options...)
	onChain, chainErr := CompareWithChains(ctx, db, chains)
	err = errors.Join(err, chainErr)
	r.Outcomes = append(r.Outcomes, onChain.Outcomes...)
	r.Breaches = append(r.Breaches, onChain.Breaches...)
	r.Remarks = append(r.Remarks, onChain.Remarks...)
	for _, b := range r.Remarks {
		log.Warn("verify: remark", "check", b.Check, "subject", b.Subject, "detail", b.Detail)
	}
	if r.CheckedAt.IsZero() {
		r.CheckedAt = onChain.CheckedAt
	}
	if len(r.unknownSteps) > 0 {
		log.Warn(
			"verify: the schema has steps that this program does not know, so its guards are not compared; replace "+
				"the program, or find out who wrote them",
			"steps", r.unknownSteps,
		)
	}
	r.doubtful = onChain.doubtful
	for mintID, detail := range r.doubtful {
		log.Error("verify: a token returns no balance, so its mint is quarantined", "mint", mintID, "detail", detail)
		quarantineErr := db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
			return mint.Quarantine(ctx, tx, mintID, noBalance)
		})
		err = errors.Join(err, quarantineErr)
	}
	return r, errors.Join(err, freezeOnBreach(ctx, db, log, r))
}

// CheckAddressesAndFreeze checks every address as CheckAddresses does, and freezes everything as
// CheckAndFreeze does.
func CheckAddressesAndFreeze(ctx context.Context, db *pg.DB, prover Prover, log *slog.Logger) (Report, error) {
	r, err := CheckAddresses(ctx, db, prover)
	return r, errors.Join(err, freezeOnBreach(ctx, db, log, r))
}

// freezeOnBreach logs breaches and freezes everything. Without a breach it does nothing.
func freezeOnBreach(ctx context.Context, db *pg.DB, log *slog.Logger, r Report) error {
	if r.IsIntact() {
		return nil
	}
	for _, b := range r.Breaches {
		log.Error("verify: breach", "check", b.Check, "org", b.OrgID, "subject", b.Subject, "detail", b.Detail)
	}
	err := db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		return freeze.Create(
			ctx, tx, freeze.Freeze{Scope: freeze.ScopeAll, Source: freeze.SourceVerify, Reason: freezeReason(r)},
		)
	})
	if err != nil {
		log.Error("verify: breach found and nothing was frozen", "error", err)
		return fmt.Errorf("freeze everything after a breach: %w", err)
	}
	return nil
}

func freezeReason(r Report) string {
	var parts []string
	for _, b := range r.Breaches[:min(len(r.Breaches), reasonBreachesMax)] {
		parts = append(parts, fmt.Sprintf("%s: %s %s", b.Check, b.Subject, b.Detail))
	}
	s := strings.Join(parts, "; ")
	total := 0
	for _, o := range r.Outcomes {
		total += o.Breaches
	}
	if hidden := total - len(parts); hidden > 0 {
		s += fmt.Sprintf("; and %d more", hidden)
	}
	return s
}
