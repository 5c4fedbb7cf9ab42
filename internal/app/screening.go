package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/platform/seal"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/risk/ofac"
)

// Risk configures which providers screen senders and destinations, and what a missing answer means.
type Risk struct {
	Providers       []string `toml:"providers,omitempty" comment:"the risk providers; the highest severity counts; none: no screening"`
	Quorum          int      `toml:"quorum,omitempty" comment:"how many providers have to answer; 0: all that support the chain"`
	UnknownSeverity string   `toml:"unknown_severity,omitempty" comment:"the result for an address that a provider does not know: HOLD or LOW"`
	SanctionsFloor  string   `toml:"sanctions_floor,omitempty" comment:"ON: also screen against the sanctions lists below an organization's dollar threshold; OFF"`
	// SanctionedReject is sanctionedRejectPolicy of the interface.
	SanctionedReject string       `toml:"sanctioned_reject,omitempty" comment:"BLOCK: a deposit from an address on a sanctions list is not sent back, only redirected; WARN: the operator sees a warning"`
	Grace            Duration     `toml:"grace,omitempty" comment:"how long a deposit waits for an answer before it is flagged"`
	Keep             Duration     `toml:"keep,omitempty" comment:"how long an answer is reused"`
	AnswersKept      Duration     `toml:"answers_kept,omitempty" comment:"how long to keep an answer to which no decision refers; the others stay"`
	Rescreen         RiskRescreen `toml:"rescreen,omitempty"`

	RiskVendors
}

// RiskRescreen configures how senders are screened again.
type RiskRescreen struct {
	Disabled bool     `toml:"off,omitempty" comment:"no screening again by itself; coffer deposits rescreen still works"`
	Window   Duration `toml:"for,omitempty" comment:"how long after its last deposit a sender is screened again"`
	Interval Duration `toml:"every,omitempty" comment:"how often each sender is screened"`
	Pace     Duration `toml:"pace,omitempty" comment:"between two senders, over all processes"`
}

// The bounds of rescreening.
const (
	rescreenWindowMax   = 366 * 24 * time.Hour
	rescreenIntervalMin = time.Hour
	rescreenPaceMax     = time.Hour
)

// rescreenConfig returns the configuration of the rescreener.
func (r RiskRescreen) rescreenConfig() deposit.RescreenConfig {
	return deposit.RescreenConfig{
		Window: time.Duration(r.Window), Interval: time.Duration(r.Interval), Pause: time.Duration(r.Pace),
	}
}

func (r RiskRescreen) checkRescreen(errs *configErrors) {
	if time.Duration(r.Window) > rescreenWindowMax {
		errs.addProblem("risk.rescreen.for", "is %s; set it to %s at most", time.Duration(r.Window), rescreenWindowMax)
	}
	if r.Interval != 0 && time.Duration(r.Interval) < rescreenIntervalMin {
		errs.addProblem(
			"risk.rescreen.every",
			"is %s; set it to %s at least, because every sender is a question to each provider",
			time.Duration(r.Interval),
			rescreenIntervalMin,
		)
	}
	if time.Duration(r.Pace) > rescreenPaceMax {
		errs.addProblem("risk.rescreen.pace", "is %s; set it to %s at most", time.Duration(r.Pace), rescreenPaceMax)
	}
}

// riskLocal is the provider of the list that a person writes. It has no section.
const riskLocal = "local"

// providerNames returns the names of all providers, or of those that read lists.
func (r *Risk) providerNames(onlyLists bool) (names []string) {
	for _, v := range r.list() {
		if v.value.IsList() || !onlyLists {
			names = append(names, v.name)
		}
	}
	return append(names, riskLocal)
}

const (
	// keepDefault is how long an answer is reused by default.
	keepDefault = time.Hour
	// keepMax bounds it, because the knowledge about an address changes.
	keepMax = 7 * 24 * time.Hour
)

// asksScreening reports whether a process asks the providers.
func (c Config) asksScreening() bool {
	return len(c.Risk.Providers) > 0 && c.hasRole(RoleAPI, RoleApprovals, RoleWorkers)
}

func (c Config) checkRisk(errs *configErrors) {
	r := c.Risk
	names, lists, named := r.providerNames(false), r.providerNames(true), map[string]bool{}
	for _, p := range r.Providers {
		switch {
		case !slices.Contains(names, p):
			errs.addProblem("risk.providers", "%q is not a provider; the providers are "+
				"%s", p, strings.Join(names, ", "))
		case named[p]:
			errs.addProblem("risk.providers", "%q is named twice; name it once", p)
		// Rule RISK-10.
		case p == riskLocal && c.Network == chain.Mainnet:
			errs.addProblem(
				"risk.providers",
				"%q is a list that you write, and never allowed for network MAINNET; name a provider that knows "+
					"addresses",
				p,
			)
		}
		named[p] = true
	}
	if r.Quorum < 0 || r.Quorum > len(r.Providers) {
		errs.addProblem("risk.quorum", "is %d; set it between 0, which means all, and the number of "+
			"providers", r.Quorum)
	}
	if !slices.Contains(
		[]string{"", string(risk.TreatUnknownAsHold), string(risk.TreatUnknownAsLow)}, r.UnknownSeverity,
	) {
		errs.addProblem("risk.unknown_severity", "is %q; set it to HOLD or LOW", r.UnknownSeverity)
	}
	if !slices.Contains([]string{"", "WARN", "BLOCK"}, r.SanctionedReject) {
		errs.addProblem("risk.sanctioned_reject", "is %q; set it to WARN or BLOCK", r.SanctionedReject)
	}
	switch {
	case !slices.Contains([]string{"", "OFF", "ON"}, r.SanctionsFloor):
		errs.addProblem("risk.sanctions_floor", "is %q; set it to ON or OFF", r.SanctionsFloor)
	case r.SanctionsFloor == "ON" && !slices.ContainsFunc(r.Providers,
		func(p string) bool { return slices.Contains(lists, p) }):
		errs.addProblem("risk.sanctions_floor", "is ON and no sanctions list is among risk.providers; add one of %s",
			strings.Join(lists, ", "))
	}
	if time.Duration(r.Keep) > keepMax {
		errs.addProblem("risk.keep", "is %s; screening asks about an address again after %s at the latest",
			time.Duration(r.Keep), keepMax)
	}
	if c.asksScreening() {
		errs.requireValue("keys.seal", c.Keys.Seal, "the keyset file that coffer keys create makes")
	}
	r.Rescreen.checkRescreen(errs)
	if r.AnswersKept != 0 && time.Duration(r.AnswersKept) < risk.RetentionMin {
		errs.addProblem("risk.answers_kept", "is %s; set it to %s at least, because answers are reused",
			time.Duration(r.AnswersKept), risk.RetentionMin)
	}
	for _, v := range r.list() {
		v.value.Check(risk.VendorCheck{
			Name: v.name, IsNamed: named[v.name], IsAsked: named[v.name] && c.asksScreening(), Network: c.Network,
			HasChain: func(name chain.Name) bool { _, ok := c.Chains[name]; return ok },
			Report: func(setting, format string, args ...any) {
				errs.addProblem("risk."+v.name+"."+setting, format, args...)
			},
		})
	}
}

// readKeys reads the secrets of the active providers. content reads a file.
func (r *Risk) readKeys(content func(setting, file string, needed bool) string) {
	for _, v := range r.list() {
		v.value.ReadSecrets(func(setting, file string) string {
			return content("risk."+v.name+"."+setting, file, slices.Contains(r.Providers, v.name))
		})
	}
}

// openRisk builds the screening policy.
func (a *App) openRisk() error {
	conf := a.conf.Risk
	a.parts.Risk = risk.Policy{
		SanctionsFloor: conf.SanctionsFloor == "ON",
		UnknownAs:      risk.UnknownTreatment(cmp.Or(conf.UnknownSeverity, string(risk.TreatUnknownAsHold))),
		Grace:          cmp.Or(time.Duration(conf.Grace), risk.GraceDefault),
	}
	if !a.conf.asksScreening() {
		return nil
	}
	sealed, err := a.openSeal()
	if err != nil {
		return err
	}
	env := risk.VendorEnv{
		DB: a.parts.DB, Seal: sealed, TTL: cmp.Or(time.Duration(conf.Keep), keepDefault),
		Chains: slices.Collect(maps.Keys(a.parts.Chains)), ContractCaller: a.contractCaller,
	}
	panel, lists := a.newPanel(sealed), a.newPanel(sealed)
	panel.Quorum = conf.Quorum
	listNames := conf.providerNames(true)
	for _, p := range conf.Providers {
		m, err := conf.openMember(p, env)
		if err != nil {
			return fmt.Errorf("risk.%s: %w", p, err)
		}
		panel.Members = append(panel.Members, m)
		if slices.Contains(listNames, p) {
			lists.Members = append(lists.Members, m)
		}
	}
	a.parts.Risk.Providers = panel
	if len(lists.Members) > 0 {
		a.parts.Risk.Lists = lists
	}
	return nil
}

func (a *App) newPanel(sealed *seal.Keyset) *risk.Panel {
	return &risk.Panel{Answers: &risk.AnswerStore{DB: a.parts.DB, Seal: sealed}, Log: a.log}
}

// openMember builds a provider of a checked configuration.
func (r *Risk) openMember(provider string, env risk.VendorEnv) (risk.Member, error) {
	if provider == riskLocal {
		return risk.Member{Screener: risk.LocalScreener{DB: env.DB}}, nil
	}
	for _, v := range r.list() {
		if v.name == provider {
			return v.value.Open(env)
		}
	}
	panic("app: unchecked configuration: " + provider)
}

// contractCaller returns the caller for contracts of a chain.
func (a *App) contractCaller(name chain.Name) (chain.ContractCaller, error) {
	ch, ok := a.parts.Chains[name]
	if !ok {
		return nil, fmt.Errorf("%s is not among chains", name)
	}
	c, ok := ch.Reader.(chain.ContractCaller)
	if !ok {
		return nil, fmt.Errorf("its contract on %s has no endpoint: give this process endpoints of the chain", name)
	}
	return c, nil
}

// ScreeningPolicy returns the screening policy of this installation.
func (a *App) ScreeningPolicy() risk.Policy { return a.parts.Risk }

// ImportSanctions reads a file of the Treasury's list and stores it. Errors: those of ofac.ReadList
// and of Store.Import.
func (a *App) ImportSanctions(
	ctx context.Context, actor audit.Actor, file string, shrunk bool,
) (ofac.StoredList, []string, error) {
	store, err := a.sanctionsStore()
	if err != nil {
		return ofac.StoredList{}, nil, err
	}
	f, err := os.Open(file)
	if err != nil {
		return ofac.StoredList{}, nil, fmt.Errorf("open the sanctions list: %w", err)
	}
	defer f.Close()
	list, err := ofac.ReadList(io.Reader(f))
	if err != nil {
		return ofac.StoredList{}, nil, err
	}
	imported, err := store.Import(ctx, actor, list, shrunk)
	return imported, list.Unreadable, err
}

// SanctionsList returns the newest imported list and its maximum age.
func (a *App) SanctionsList(ctx context.Context) (ofac.StoredList, time.Duration, error) {
	store, err := a.sanctionsStore()
	if err != nil {
		return ofac.StoredList{}, 0, err
	}
	imported, err := store.LoadNewest(ctx)
	return imported, a.conf.Risk.OFAC.MaxAge(), err
}

func (a *App) sanctionsStore() (*ofac.Store, error) {
	if a.conf.Keys.Seal == "" {
		return nil, errors.New("keys.seal: is missing; the list is stored encrypted: run this command where the " +
			"service's keys are")
	}
	sealed, err := a.openSeal()
	if err != nil {
		return nil, err
	}
	return &ofac.Store{DB: a.parts.DB, Seal: sealed}, nil
}
