package app

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/seal"
)

// Risk says who screens senders and destinations, and what their silence means.
type Risk struct {
	Providers       []string `toml:"providers,omitempty" comment:"who is asked; the highest severity counts; none: nothing is screened"`
	Quorum          int      `toml:"quorum,omitempty" comment:"how many have to answer; 0: all that know addresses of the chain"`
	UnknownSeverity string   `toml:"unknown_severity,omitempty" comment:"what an address counts as that a provider does not know: HOLD or LOW"`
	SanctionsFloor  string   `toml:"sanctions_floor,omitempty" comment:"ON: the lists among the providers are asked below an organization's threshold in dollars as well; OFF"`
	Grace           Duration `toml:"grace,omitempty" comment:"how long a deposit waits for an answer before it is flagged"`
	Keep            Duration `toml:"keep,omitempty" comment:"how long an answer is used again; an hour"`
}

// The words for those who can be asked.
const riskLocal = "local"

// riskProviders are all words, and riskLists those of them that read lists.
var (
	riskProviders = []string{riskLocal}
	riskLists     = []string{riskLocal}
)

// keepMax bounds how long an answer is used again: what is known of an address
// changes.
const keepMax = 7 * 24 * time.Hour

// screens tells whether a process asks the providers.
func (c Config) screens() bool { return len(c.Risk.Providers) > 0 && c.has(RoleAPI, RoleWorkers) }

func (c Config) checkRisk(errs *faults) {
	r := c.Risk
	seen := map[string]bool{}
	for _, p := range r.Providers {
		switch {
		case !slices.Contains(riskProviders, p):
			errs.bad("risk.providers", "%q is no provider; they are %s", p, strings.Join(riskProviders, ", "))
		case seen[p]:
			errs.bad("risk.providers", "%q stands there twice; name it once", p)
		case p == riskLocal && c.Network == chain.Mainnet:
			errs.bad("risk.providers", "%q is a list that a person makes up, and never for network MAINNET; name a provider that knows addresses", p)
		}
		seen[p] = true
	}
	if r.Quorum < 0 || r.Quorum > len(r.Providers) {
		errs.bad("risk.quorum", "is %d; set it between 0, which is all, and the number of providers", r.Quorum)
	}
	if !slices.Contains([]string{"", string(risk.UnknownHolds), string(risk.UnknownIsLow)}, r.UnknownSeverity) {
		errs.bad("risk.unknown_severity", "is %q; set it to HOLD or LOW", r.UnknownSeverity)
	}
	switch {
	case !slices.Contains([]string{"", "OFF", "ON"}, r.SanctionsFloor):
		errs.bad("risk.sanctions_floor", "is %q; set it to ON or OFF", r.SanctionsFloor)
	case r.SanctionsFloor == "ON" && !slices.ContainsFunc(r.Providers, func(p string) bool { return slices.Contains(riskLists, p) }):
		errs.bad("risk.sanctions_floor", "is ON and no list is among risk.providers; add one of %s", strings.Join(riskLists, ", "))
	}
	if time.Duration(r.Keep) > keepMax {
		errs.bad("risk.keep", "is %s; an address is asked for again after %s at the latest", time.Duration(r.Keep), keepMax)
	}
}

// openRisk makes the policy by which is screened.
func (a *App) openRisk() error {
	conf := a.conf.Risk
	a.screens = risk.Policy{
		SanctionsFloor: conf.SanctionsFloor == "ON", UnknownAs: risk.Treatment(cmp.Or(conf.UnknownSeverity, string(risk.UnknownHolds))),
		Grace: cmp.Or(time.Duration(conf.Grace), risk.GraceDefault),
	}
	if !a.conf.screens() {
		return nil
	}
	sealed, err := a.openSeal()
	if err != nil {
		return err
	}
	everybody, lists := a.panel(sealed), a.panel(sealed)
	everybody.Quorum = conf.Quorum
	for _, p := range conf.Providers {
		m, err := a.member(p)
		if err != nil {
			return err
		}
		everybody.Members = append(everybody.Members, m)
		if slices.Contains(riskLists, p) {
			lists.Members = append(lists.Members, m)
		}
	}
	a.screens.Providers = everybody
	if len(lists.Members) > 0 {
		a.screens.Lists = lists
	}
	return nil
}

func (a *App) panel(sealed *seal.Keyset) *risk.Panel {
	return &risk.Panel{Answers: &risk.Answers{DB: a.db, Seal: sealed}, Log: a.log}
}

// member makes one provider, with how it may be asked.
func (a *App) member(provider string) (risk.Member, error) {
	switch provider {
	case riskLocal:
		return risk.Member{Screener: risk.Local{DB: a.db}}, nil // a person wants to see a change at once
	}
	panic("app: unchecked configuration: " + provider)
}
