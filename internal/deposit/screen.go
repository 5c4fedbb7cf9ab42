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
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/org"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/webhook"
)

const (
	askedAtOnce  = 8  // deposits that providers are asked about at the same time
	askedInTurn  = 64 // and in one round, so that those that nobody is asked about wait no longer
	screenFirst  = 2 * time.Second
	screenPauses = 5 // how often the pause after a try without an answer doubles: to a minute
)

// What stands at a deposit that nobody has looked at: somebody will, or, as it is
// credited to nobody, will not.
var (
	pending       = encoded(webhook.Screening{Status: string(risk.StatusPending)})
	skipped       = encoded(webhook.Screening{Status: string(risk.StatusSkipped)})
	notConfigured = encoded(webhook.Screening{Status: string(risk.StatusNotConfigured)})
)

func encoded(v any) json.RawMessage {
	body, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("deposit: %T cannot be encoded: %v", v, err))
	}
	return body
}

// priced is a price with what a decision keeps of it, or why there is none.
type priced struct {
	quote   *risk.Quote
	missing string
}

// usd is the price for display; nil when there is none that is fresh.
func (p priced) usd() *money.USD {
	if p.quote == nil {
		return nil
	}
	return &p.quote.USD
}

// price asks what a whole token is worth, once for each mint.
func (d *Desk) price(ctx context.Context, asked map[int]priced, mintID int) priced {
	p, known := asked[mintID]
	if known {
		return p
	}
	quote, err := d.prices.USD(ctx, mintID)
	ageMax := d.ageOf(mintID)
	if err == nil {
		err = price.Fresh(quote, d.db.Clock()(), ageMax)
	}
	if err != nil {
		p.missing = risk.Text(err.Error())
	} else {
		p.quote = risk.PriceOf(quote, ageMax)
	}
	asked[mintID] = p
	return p
}

// caseOf is what is known of a deposit before anybody was asked about its sender.
func (d *Desk) caseOf(r row, symbol string, decimals int, s org.Settings, p priced, now time.Time) risk.DepositCase {
	c := risk.DepositCase{
		Subject: risk.Subject{
			Chain: r.chain, Address: r.from, MintID: *r.mintID, Symbol: symbol, Amount: r.amount, Tx: r.tx, Direction: risk.Incoming,
		},
		Senders: r.senders, Decimals: decimals, Flagged: r.flag != nil, USDThreshold: s.ScreeningUSDThreshold,
		UnknownAs: d.screens.UnknownAs, SanctionsFloor: d.screens.SanctionsFloor, Grace: d.screens.Grace,
		Price: p.quote, PriceMissing: p.missing, Now: now.UTC(), Since: now.UTC(),
	}
	if s.ScreeningSeverityThreshold != "" {
		severity := risk.Severity(s.ScreeningSeverityThreshold)
		c.SeverityThreshold = &severity
	}
	if r.confirmedAt != nil {
		c.Since = r.confirmedAt.UTC()
	}
	return c
}

// screenable tells whether anybody is asked about a deposit at all: what reaches a
// treasury is the operator's own.
func (d row) screenable() bool { return !wallet.Operators(d.purpose) }

// screening is how an object shows a decision.
func screening(rec risk.DepositRecord) json.RawMessage {
	s := webhook.Screening{Status: string(rec.Decision.Status)}
	if v := rec.Decision.Verdict; v != nil {
		severity := string(v.Severity)
		s.Provider, s.Severity, s.Score, s.ScreenedAt = &v.Provider, &severity, v.Score, webhook.AtOrNil(&v.At)
		s.Reference = null(v.Reference)
	}
	return encoded(s)
}

// flagOf is why and for whom a deposit is held. keyed says that its sender is no
// contract; whoever does not know says false.
func flagOf(r row, rec risk.DepositRecord, keyed bool, now time.Time) *flag {
	reason := webhook.FlagReason{Code: rec.Decision.Reason, Categories: webhook.List[string]{}}
	f := &flag{risk: string(rec.Decision.RiskOfFunds), at: now, returnTo: string(r.from), returnRisk: returnNone}
	v := rec.Decision.Verdict
	if v != nil && rec.Decision.Reason == risk.ReasonAbove {
		severity := string(v.Severity)
		reason.Score, reason.Severity, reason.Entity, reason.Provider = v.Score, &severity, null(v.Entity), &v.Provider
		reason.Categories, reason.Sanctioned = v.Categories, sanctioned(*v)
	}
	switch {
	case r.from == "":
		f.returnRisk = returnSeveral
	case r.kind == chain.Internal || !keyed:
		f.returnRisk = returnContract // only a contract sends an internal transfer
	case v != nil && exchange(*v):
		f.returnRisk = returnExchange
	}
	f.reason = encoded(reason)
	return f
}

// What speaks against sending a deposit back.
const (
	returnNone     = "NONE"
	returnSeveral  = "MULTIPLE_INPUTS" // nobody sent it alone
	returnContract = "CONTRACT"
	returnExchange = "KNOWN_EXCHANGE"
)

// exchange tells whether any of those who were asked says that an address is an
// exchange's, whatever the severity is. Who dealt with one is somebody else.
func exchange(v risk.Verdict) bool {
	return slices.ContainsFunc(v.Of, exchange) || slices.ContainsFunc(v.Owner, func(c string) bool {
		return strings.Contains(strings.ToLower(c), "exchange")
	})
}

// sanctioned tells whether an address itself is on a list of sanctions, by the word of
// any of those who were asked; of several senders, whether any of them is.
func sanctioned(v risk.Verdict) bool {
	if slices.ContainsFunc(v.Of, sanctioned) {
		return true
	}
	return v.Direct && v.Severity.Above(risk.None) && slices.ContainsFunc(v.Categories, func(c string) bool {
		return strings.Contains(strings.ToLower(c), "sanction")
	})
}

// prepare makes the case of each deposit and decides those that nobody has to be asked
// about. asks are the others.
func (d *Desk) prepare(ctx context.Context, page []candidate, settings map[string]org.Settings) (decided, asks []candidate) {
	prices := map[int]priced{}
	for _, c := range page {
		p := d.price(ctx, prices, *c.mintID)
		c.usd = value(c.amount, c.decimals, p.usd())
		if !c.screenable() {
			c.screening = notConfigured
			decided = append(decided, c)
			continue
		}
		open := d.caseOf(c.row, c.symbol, c.decimals, settings[c.orgID], p, d.db.Clock()())
		c.settings = settings[c.orgID]
		c.decide(risk.DepositRecord{Case: open, Decision: risk.DecideDeposit(open)})
		if outcome := c.record.Decision.Outcome; outcome == risk.Ask || outcome == risk.AskLists {
			asks = append(asks, c)
			continue
		}
		decided = append(decided, c)
	}
	return decided, asks
}

func (c *candidate) decide(rec risk.DepositRecord) {
	c.record, c.screening = &rec, screening(rec)
}

// ask asks the providers about deposits, all of them at the same time and outside any
// transaction.
func (d *Desk) ask(ctx context.Context, of []candidate) {
	var asking sync.WaitGroup
	for i := range of {
		asking.Go(func() {
			of[i].decide(d.screens.Decide(ctx, of[i].record.Case))
			if of[i].record.Decision.Outcome == risk.Flag {
				of[i].keyed = d.keyed(ctx, of[i].row)
			}
		})
	}
	asking.Wait()
}

// How a chain is asked who a sender is.
const (
	senderTries = 3
	senderTry   = 5 * time.Second
)

// keyed tells whether the chain says that a deposit's sender is no contract, as of the
// block that the deposit is in. Whatever else comes of asking is false: what is sent back
// to a contract may be lost, and to warn without need costs a look.
func (d *Desk) keyed(ctx context.Context, r row) bool {
	if r.kind == chain.Internal || r.from == "" {
		return false
	}
	on, ok := d.chains[r.chain]
	if !ok || on.Reader == nil {
		return false
	}
	var kind chain.AccountKind
	var err error
	for range senderTries {
		if kind, err = d.senderKind(ctx, on.Reader, r); err == nil || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		d.log.Warn("deposit: nobody says whether the sender is a contract; it is taken for one", "deposit", r.id, "chain", string(r.chain), "sender", string(r.from), "error", err)
	}
	return err == nil && kind == chain.Keyed
}

func (d *Desk) senderKind(ctx context.Context, reader chain.Reader, r row) (chain.AccountKind, error) {
	ctx, cancel := context.WithTimeout(ctx, senderTry)
	defer cancel()
	return reader.Kind(ctx, chain.Block{Height: r.height, Hash: r.blockHash}, r.from)
}

// decisions keeps what was decided, with all that it was made of. What nobody had set
// a threshold for is not worth a row.
func decisions(ctx context.Context, tx pg.Tx, of []candidate) error {
	var ids, orgs, outcomes, records []string
	for _, e := range of {
		if e.record == nil || e.record.Decision.Reason == risk.ReasonNotConfigured {
			continue
		}
		ids, orgs, outcomes = append(ids, e.id), append(orgs, e.orgID), append(outcomes, string(e.record.Decision.Outcome))
		records = append(records, string(encoded(e.record)))
	}
	if len(ids) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO deposit_decisions (org_id, deposit_id, at, outcome, record)
		SELECT d.org_id, d.deposit_id, $5, d.outcome, d.record::jsonb FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS d (org_id, deposit_id, outcome, record)`,
		orgs, ids, outcomes, records, tx.Now)
	if err != nil {
		return fmt.Errorf("keep %d decisions about deposits: %w", len(ids), err)
	}
	return nil
}

// put leaves deposits for later about which nobody could say anything.
func (d *Desk) put(ctx context.Context, waiting []candidate) error {
	if len(waiting) == 0 {
		return nil
	}
	err := d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		for _, w := range waiting {
			pause := screenFirst << min(w.tries, screenPauses)
			tag, err := tx.Exec(ctx, `
				UPDATE deposits SET screen_after = $2, screen_tries = screen_tries + 1, screening = $4::jsonb
				WHERE deposit_id = $1 AND status = 'SCREENING' AND screen_tries = $3`, w.id, tx.Now.Add(pause), w.tries, string(w.screening))
			if err != nil {
				return fmt.Errorf("leave deposit %s for later: %w", w.id, err)
			}
			if tag.RowsAffected() == 0 {
				continue // another process was at it
			}
			if err := decisions(ctx, tx, []candidate{w}); err != nil {
				return err
			}
			d.log.Warn("deposit: nobody can say whether it may be credited; it is asked again", "deposit", w.id, "again", pause.String(), "why", unavailable(*w.record))
		}
		return nil
	})
	return err
}

func unavailable(rec risk.DepositRecord) string {
	for _, a := range []*risk.Answer{rec.Case.Answer, rec.Case.Lists} {
		if a != nil && a.Unavailable != "" {
			return a.Unavailable
		}
	}
	return rec.Decision.Reason
}

// settingsOf reads the settings of the organizations of deposits.
func settingsOf(ctx context.Context, tx pg.Tx, orgs map[string]bool) (map[string]org.Settings, error) {
	all := make(map[string]org.Settings, len(orgs))
	for id := range orgs {
		s, err := org.SettingsOf(ctx, tx, id)
		if err != nil {
			return nil, err
		}
		all[id] = s
	}
	return all, nil
}

// unchanged tells of which organizations the settings are still those that were
// decided by, and keeps them so until the transaction ends. It comes before every
// other lock.
func unchanged(ctx context.Context, tx pg.Tx, decidedBy map[string]org.Settings) (map[string]bool, error) {
	same := make(map[string]bool, len(decidedBy))
	for _, id := range slices.Sorted(maps.Keys(decidedBy)) {
		if err := org.HoldSettings(ctx, tx, id); err != nil {
			return nil, err
		}
		now, err := org.SettingsOf(ctx, tx, id)
		if err != nil {
			return nil, err
		}
		same[id] = now.UpdatedAt.Equal(decidedBy[id].UpdatedAt)
	}
	return same, nil
}
