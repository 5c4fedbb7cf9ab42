package deposit

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/risk"
)

const (
	screenParallelMax    = 8  // deposits that the providers are asked about at the same time
	screenPerRoundMax    = 64 // per round, so that deposits without a question do not wait longer
	screenRetryFirst     = 2 * time.Second
	screenRetryDoublings = 5 // how often the pause after an attempt without an answer doubles: to a minute
)

// These are the screenings of a deposit without a decision. Pending deposits will be screened.
// Deposits that are never credited are skipped.
var (
	screeningPending       = mustEncode(storedScreening{Status: string(risk.StatusPending)})
	screeningSkipped       = mustEncode(storedScreening{Status: string(risk.StatusSkipped)})
	screeningNotConfigured = mustEncode(storedScreening{Status: string(risk.StatusNotConfigured)})
)

func mustEncode(v any) json.RawMessage {
	body, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("deposit: cannot encode %T: %v", v, err))
	}
	return body
}

// mintPrice is a price as a decision records it, or the reason why there is none.
type mintPrice struct {
	quote         *risk.Quote
	missingReason string
}

// freshUSD returns the price for display, or nil without a fresh one.
func (p mintPrice) freshUSD() *money.USD {
	if p.quote == nil {
		return nil
	}
	return &p.quote.USD
}

// cachedPrice returns the price of a whole token. It asks the price source once for each mint.
func (s *Service) cachedPrice(ctx context.Context, cache map[int]mintPrice, mintID int) mintPrice {
	p, isCached := cache[mintID]
	if isCached {
		return p
	}
	quote, err := s.Prices.USD(ctx, mintID)
	ageMax := s.priceAge(mintID)
	if err == nil {
		err = price.CheckFresh(quote, s.DB.Clock()(), ageMax)
	}
	if err != nil {
		p.missingReason = risk.SanitizeText(err.Error())
	} else {
		p.quote = risk.NewQuote(quote, ageMax)
	}
	cache[mintID] = p
	return p
}

// newCase returns the facts about a deposit that are known before any provider is asked about its
// sender.
func (s *Service) newCase(
	r storedDeposit, symbol string, decimals int, settings org.Settings, p mintPrice, now time.Time,
) risk.DepositCase {
	c := risk.DepositCase{
		Subject: risk.Subject{
			Chain: r.chain, Address: r.from, MintID: *r.mintID, Symbol: symbol, Amount: r.amount, Tx: r.tx,
			Direction: risk.Incoming,
		},
		Senders: r.senders, Decimals: decimals, Flagged: r.flag != nil, USDThreshold: settings.ScreeningUSDThreshold,
		UnknownAs: s.Risk.UnknownAs, SanctionsFloor: s.Risk.SanctionsFloor, Grace: s.Risk.Grace,
		Price: p.quote, PriceMissing: p.missingReason, Now: now.UTC(), WaitingSince: now.UTC(),
	}
	if r.depositSwapID != "" {
		// The provider delivered it. Who paid the provider is known later, see withPayer.
		c.Subject.Address, c.Senders = "", nil
	}
	if settings.ScreeningSeverityThreshold != "" {
		severity := risk.Severity(settings.ScreeningSeverityThreshold)
		c.SeverityThreshold = &severity
	}
	if r.confirmedAt != nil {
		c.WaitingSince = r.confirmedAt.UTC()
	}
	return c
}

// DepositScreening is what risk screening said about where a deposit came from.
type DepositScreening struct {
	Status     string
	Provider   *string
	Severity   *string
	Score      *int
	ScreenedAt *time.Time
	Reference  *string
}

// storedScreening is a DepositScreening as the row has it.
type storedScreening struct {
	Status     string     `json:"status"`
	Provider   *string    `json:"provider"`
	Severity   *string    `json:"severity"`
	Score      *int       `json:"score"`
	ScreenedAt *time.Time `json:"screenedAt"`
	Reference  *string    `json:"reference"`
}

// FlagReason is why a deposit is held.
type FlagReason struct {
	Code       string
	Score      *int
	Severity   *string
	Entity     *string
	Categories []string
	Provider   *string
	Sanctioned bool // the sender itself is on a sanctions list, not a party that it dealt with
}

// storedFlagReason is a FlagReason as the row has it.
type storedFlagReason struct {
	Code       string   `json:"code"`
	Score      *int     `json:"score"`
	Severity   *string  `json:"severity"`
	Entity     *string  `json:"entity"`
	Categories []string `json:"categories"`
	Provider   *string  `json:"provider"`
	Sanctioned bool     `json:"sanctioned,omitempty"`
}

// encodeScreening returns a decision as the row has it.
func encodeScreening(rec risk.DepositRecord) json.RawMessage {
	s := storedScreening{Status: string(rec.Decision.Status)}
	if v := rec.Decision.Verdict; v != nil {
		severity, screenedAt := string(v.Severity), v.GivenAt.UTC().Truncate(time.Millisecond)
		s.Provider, s.Severity, s.Score, s.ScreenedAt = &v.Provider, &severity, v.Score, &screenedAt
		s.Reference = emptyAsNull(v.Reference)
	}
	return mustEncode(s)
}

// newFlag returns the flag of a deposit that screening holds. isKeyAccount says that the sender is
// known to be no contract; it is false if that is unknown.
func newFlag(r storedDeposit, rec risk.DepositRecord, isKeyAccount bool, now time.Time) *flag {
	reason := storedFlagReason{Code: rec.Decision.Reason, Categories: []string{}}
	f := &flag{
		risk: string(rec.Decision.RiskOfFunds), flaggedAt: now, returnTo: string(r.from), returnRisk: returnRiskNone,
	}
	v := rec.Decision.Verdict
	if v != nil && rec.Decision.Reason == risk.ReasonAbove {
		severity := string(v.Severity)
		reason.Score, reason.Severity, reason.Entity, reason.Provider = v.Score, &severity, emptyAsNull(v.Entity),
			&v.Provider
		reason.Categories, reason.Sanctioned = append(reason.Categories, v.Categories...), isSanctioned(*v)
	}
	switch {
	case r.depositSwapID != "":
		f.returnTo, f.returnRisk = "", returnRiskSolver
	case r.from == "":
		f.returnRisk = returnRiskInputs
	case r.kind == chain.Internal || !isKeyAccount:
		// Only a contract sends an internal transfer.
		f.returnRisk = returnRiskContract
	case v != nil && v.IsExchange():
		f.returnRisk = returnRiskExchange
	}
	f.reason = mustEncode(reason)
	return f
}

// These are the risks of returning a deposit to its sender.
const (
	returnRiskNone     = "NONE"
	returnRiskInputs   = "MULTIPLE_INPUTS" // there is no single sender
	returnRiskContract = "CONTRACT"
	returnRiskExchange = "KNOWN_EXCHANGE"
	returnRiskSolver   = "SWAP_SOLVER" // the sender is a swap provider, and not who paid
)

// isSanctioned reports whether any provider says that the address itself is on a sanctions list. Of
// several senders, one is enough.
func isSanctioned(v risk.Verdict) bool {
	if slices.ContainsFunc(v.Parts, isSanctioned) {
		return true
	}
	return v.Direct && v.Severity.Exceeds(risk.None) && slices.ContainsFunc(v.Categories, func(c string) bool {
		return strings.Contains(strings.ToLower(c), "sanction")
	})
}

// buildCases builds the case of each deposit. decided are the deposits that need no answer of a
// provider; toScreen are the others.
func (s *Service) buildCases(
	ctx context.Context, page []candidate, settings map[string]org.Settings,
) (decided, toScreen []candidate) {
	prices := map[int]mintPrice{}
	for _, c := range page {
		p := s.cachedPrice(ctx, prices, *c.mintID)
		c.usd = usdValue(c.amount, c.decimals, p.freshUSD())
		if s.Owners.isOperators(c.storedDeposit) {
			c.screening = screeningNotConfigured
			decided = append(decided, c)
			continue
		}
		depositCase := s.newCase(c.storedDeposit, c.symbol, c.decimals, settings[c.orgID], p, s.DB.Clock()())
		c.settings = settings[c.orgID]
		c.setDecision(risk.DepositRecord{Case: depositCase, Decision: risk.DecideDeposit(depositCase)})
		if outcome := c.record.Decision.Outcome; outcome == risk.ScreenProviders || outcome == risk.ScreenLists {
			if c.depositSwapID != "" {
				isWaiting := false
				if depositCase, isWaiting = c.payer.addTo(depositCase); isWaiting {
					continue // the payer may still become known
				}
				c.setDecision(risk.DepositRecord{Case: depositCase, Decision: risk.DecideDeposit(depositCase)})
				if c.record.Decision.Outcome != risk.ScreenProviders && c.record.Decision.Outcome != risk.ScreenLists {
					decided = append(decided, c)
					continue
				}
			}
			toScreen = append(toScreen, c)
			continue
		}
		decided = append(decided, c)
	}
	return decided, toScreen
}

func (c *candidate) setDecision(rec risk.DepositRecord) {
	c.record, c.screening = &rec, encodeScreening(rec)
}

// askProviders asks the providers about the deposits, all at the same time and outside any
// transaction.
func (s *Service) askProviders(ctx context.Context, candidates []candidate) {
	var asking sync.WaitGroup
	for i := range candidates {
		asking.Go(func() {
			candidates[i].setDecision(s.Risk.DecideDeposit(ctx, candidates[i].record.Case))
			if candidates[i].record.Decision.Outcome == risk.Flag {
				candidates[i].isKeyAccount = s.isKeyAccount(ctx, candidates[i].storedDeposit)
			}
		})
	}
	asking.Wait()
}

// These bound the question to a chain about the kind of a sender.
const (
	senderTries   = 3
	senderTimeout = 5 * time.Second
)

// isKeyAccount reports whether the chain says that the sender of a deposit is a key account, as of
// the block of the deposit. Every other answer and every error is false. A return to a contract may
// be lost, and a needless warning costs only a look. Rule DEP-36.
func (s *Service) isKeyAccount(ctx context.Context, r storedDeposit) bool {
	if r.kind == chain.Internal || r.from == "" || r.depositSwapID != "" {
		return false
	}
	senderChain, ok := s.Chains[r.chain]
	if !ok || senderChain.Reader == nil {
		return false
	}
	var kind chain.AccountKind
	var err error
	for range senderTries {
		if kind, err = s.senderKind(ctx, senderChain.Reader, r); err == nil || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		s.Log.Warn(
			"deposit: cannot find out whether the sender is a contract; treating it as a contract", "deposit", r.id,
			"chain", string(r.chain), "sender", string(r.from), "error", err,
		)
	}
	return err == nil && kind == chain.KeyAccount
}

func (s *Service) senderKind(ctx context.Context, reader chain.Reader, r storedDeposit) (chain.AccountKind, error) {
	ctx, cancel := context.WithTimeout(ctx, senderTimeout)
	defer cancel()
	return reader.Kind(ctx, chain.Block{Height: r.height, Hash: r.blockHash}, r.from)
}

// insertDecisions records decisions with the cases that they are based on. It skips deposits
// without a configured threshold.
func insertDecisions(ctx context.Context, tx pg.Tx, candidates []candidate) error {
	var ids, orgs, outcomes, records []string
	for _, e := range candidates {
		if e.record == nil || e.record.Decision.Reason == risk.ReasonNotConfigured {
			continue
		}
		ids, orgs, outcomes =
			append(ids, e.id), append(orgs, e.orgID), append(outcomes, string(e.record.Decision.Outcome))
		records = append(records, string(mustEncode(e.record)))
	}
	if len(ids) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO deposit_decisions (org_id, deposit_id, at, outcome, record)
		SELECT d.org_id, d.deposit_id, $5, d.outcome, d.record::jsonb FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS d (org_id, deposit_id, outcome, record)`,
		orgs, ids, outcomes, records, tx.Now)
	if err != nil {
		return fmt.Errorf("record %d decisions about deposits: %w", len(ids), err)
	}
	return nil
}

// postponeScreening sets the next attempt for deposits about which no provider gave an answer. The
// pause doubles with each attempt.
func (s *Service) postponeScreening(ctx context.Context, waiting []candidate) error {
	if len(waiting) == 0 {
		return nil
	}
	err := s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		for _, w := range waiting {
			pause := screenRetryFirst << min(w.screenTries, screenRetryDoublings)
			tag, err := tx.Exec(ctx, `
				UPDATE deposits SET screen_after = $2, screen_tries = screen_tries + 1, screening = $4::jsonb
				WHERE deposit_id = $1 AND status = 'SCREENING' AND screen_tries = $3`, w.id, tx.Now.Add(pause), w.screenTries, string(w.screening))
			if err != nil {
				return fmt.Errorf("postpone deposit %s: %w", w.id, err)
			}
			if tag.RowsAffected() == 0 {
				continue // another process decided about it
			}
			if err := insertDecisions(ctx, tx, []candidate{w}); err != nil {
				return err
			}
			s.Log.Warn(
				"deposit: screening does not answer about a deposit; a later cycle asks again", "deposit", w.id,
				"again", pause.String(), "why", unavailableReason(*w.record),
			)
		}
		return nil
	})
	return err
}

func unavailableReason(rec risk.DepositRecord) string {
	for _, a := range []*risk.Answer{rec.Case.Answer, rec.Case.Lists} {
		if a != nil && a.Unavailable != "" {
			return a.Unavailable
		}
	}
	return rec.Decision.Reason
}

// loadSettings reads the settings of organizations, by id.
func loadSettings(ctx context.Context, tx pg.Tx, orgs map[string]bool) (map[string]org.Settings, error) {
	settings := make(map[string]org.Settings, len(orgs))
	for id := range orgs {
		s, err := org.SettingsOf(ctx, tx, id)
		if err != nil {
			return nil, err
		}
		settings[id] = s
	}
	return settings, nil
}

// lockUnchangedSettings reports for each organization whether its settings are still those of the
// decision. It locks the settings until the transaction ends. It takes its locks before every other
// lock.
func lockUnchangedSettings(ctx context.Context, tx pg.Tx, decidedBy map[string]org.Settings) (map[string]bool, error) {
	valid := make(map[string]bool, len(decidedBy))
	for _, id := range slices.Sorted(maps.Keys(decidedBy)) {
		if err := org.LockSettingsShared(ctx, tx, id); err != nil {
			return nil, err
		}
		current, err := org.SettingsOf(ctx, tx, id)
		if err != nil {
			return nil, err
		}
		valid[id] = current.UpdatedAt.Equal(decidedBy[id].UpdatedAt)
	}
	return valid, nil
}
