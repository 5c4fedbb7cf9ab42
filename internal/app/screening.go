package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/outside"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/risk/chainalysis"
	"github.com/cofferpay/coffer/internal/risk/elliptic"
	"github.com/cofferpay/coffer/internal/risk/ofac"
	"github.com/cofferpay/coffer/internal/risk/oracle"
	"github.com/cofferpay/coffer/internal/risk/trm"
	"github.com/cofferpay/coffer/internal/seal"
)

// Risk says who screens senders and destinations, and what their silence means.
type Risk struct {
	Providers       []string `toml:"providers,omitempty" comment:"who is asked; the highest severity counts; none: nothing is screened"`
	Quorum          int      `toml:"quorum,omitempty" comment:"how many have to answer; 0: all that know addresses of the chain"`
	UnknownSeverity string   `toml:"unknown_severity,omitempty" comment:"what an address counts as that a provider does not know: HOLD or LOW"`
	SanctionsFloor  string   `toml:"sanctions_floor,omitempty" comment:"ON: the lists among the providers are asked below an organization's threshold in dollars as well; OFF"`
	// SanctionedReject is sanctionedRejectPolicy of the interface.
	SanctionedReject string       `toml:"sanctioned_reject,omitempty" comment:"BLOCK: what came from an address on a list of sanctions is not sent back, only redirected; WARN: people are told"`
	Grace            Duration     `toml:"grace,omitempty" comment:"how long a deposit waits for an answer before it is flagged"`
	Keep             Duration     `toml:"keep,omitempty" comment:"how long an answer is used again"`
	AnswersKept      Duration     `toml:"answers_kept,omitempty" comment:"how long an answer is kept that no decision refers to; the others stay"`
	Rescreen         RiskRescreen `toml:"rescreen,omitempty"`

	Chainalysis          RiskService  `toml:"chainalysis,omitempty"`
	ChainalysisSanctions RiskService  `toml:"chainalysis_sanctions,omitempty"`
	TRM                  RiskTRM      `toml:"trm,omitempty"`
	TRMSanctions         RiskService  `toml:"trm_sanctions,omitempty"`
	Elliptic             RiskElliptic `toml:"elliptic,omitempty"`
	Oracle               RiskOracle   `toml:"oracle,omitempty"`
	OFAC                 RiskOFAC     `toml:"ofac,omitempty"`
}

// RiskRescreen says how senders are asked about again.
type RiskRescreen struct {
	Off   bool     `toml:"off,omitempty" comment:"nobody is asked about again by itself; coffer deposits rescreen still asks"`
	For   Duration `toml:"for,omitempty" comment:"for how long after its last deposit a sender is asked about again"`
	Every Duration `toml:"every,omitempty" comment:"how often each is"`
	Pace  Duration `toml:"pace,omitempty" comment:"between two senders, for all processes together"`
}

// The bounds of asking again.
const (
	rescreenForMax   = 366 * 24 * time.Hour
	rescreenEveryMin = time.Hour
	rescreenPaceMax  = time.Hour
)

// conf is what the feature takes.
func (r RiskRescreen) conf() deposit.RescreenConfig {
	return deposit.RescreenConfig{For: time.Duration(r.For), Every: time.Duration(r.Every), Pace: time.Duration(r.Pace)}
}

func (r RiskRescreen) check(errs *faults) {
	if time.Duration(r.For) > rescreenForMax {
		errs.bad("risk.rescreen.for", "is %s; set it to %s at most", time.Duration(r.For), rescreenForMax)
	}
	if r.Every != 0 && time.Duration(r.Every) < rescreenEveryMin {
		errs.bad("risk.rescreen.every", "is %s; set it to %s at least, for every sender is a question to each provider", time.Duration(r.Every), rescreenEveryMin)
	}
	if time.Duration(r.Pace) > rescreenPaceMax {
		errs.bad("risk.rescreen.pace", "is %s; set it to %s at most", time.Duration(r.Pace), rescreenPaceMax)
	}
}

// RiskService is a provider that is asked over HTTPS.
type RiskService struct {
	URL     string   `toml:"url,omitempty" comment:"instead of the provider's own"`
	KeyFile string   `toml:"key_file,omitempty"`
	Rate    *Rate    `toml:"rate,omitempty" comment:"how often it is asked by one process"`
	Ignore  []string `toml:"ignore,omitempty" comment:"members of its answers that were looked at and say nothing that counts; any other that is new is no answer"`

	key seal.Secret
}

// RiskTRM is TRM.
type RiskTRM struct {
	RiskService
	EmptyPassword       bool `toml:"empty_password,omitempty" comment:"the key is the user alone"`
	CounterpartyPercent *int `toml:"counterparty_percent,omitempty" comment:"how much counts of what an address dealt with"`
}

// RiskElliptic is Elliptic.
type RiskElliptic struct {
	RiskService
	SecretFile   string `toml:"secret_file,omitempty"`
	Milliseconds bool   `toml:"milliseconds,omitempty" comment:"the time that is signed is in milliseconds"`
	Medium       string `toml:"medium,omitempty" comment:"scores of 10 from which on something is MEDIUM, HIGH and SEVERE"`
	High         string `toml:"high,omitempty"`
	Severe       string `toml:"severe,omitempty"`

	secret seal.Secret
}

// RiskOracle is the contract of sanctioned addresses.
type RiskOracle struct {
	Contracts map[string]string `toml:"contracts,omitempty" comment:"by chain; without it, those that are known"`
}

// RiskOFAC is the imported list.
type RiskOFAC struct {
	AgeMax Duration `toml:"age_max,omitempty" comment:"an older list is no answer"`
}

// The words for those who can be asked.
const (
	riskLocal                = "local"
	riskOFAC                 = "ofac"
	riskOracle               = "oracle"
	riskChainalysis          = "chainalysis"
	riskChainalysisSanctions = "chainalysis_sanctions"
	riskTRM                  = "trm"
	riskTRMSanctions         = "trm_sanctions"
	riskElliptic             = "elliptic"
)

// riskProviders are all words, and riskLists those of them that read lists.
var (
	riskProviders = []string{riskOFAC, riskOracle, riskChainalysisSanctions, riskTRMSanctions, riskChainalysis, riskTRM, riskElliptic, riskLocal}
	riskLists     = []string{riskOFAC, riskOracle, riskChainalysisSanctions, riskTRMSanctions, riskLocal}
)

const (
	// keepUsual is how long an answer is used again where nothing else is set.
	keepUsual = time.Hour
	// keepMax bounds it: what is known of an address changes.
	keepMax = 7 * 24 * time.Hour
)

// How often providers are asked where nothing else is set: below what they document,
// for there may be several processes.
var (
	rateOfFew      = Rate{Count: 1, Every: Duration(time.Second), Burst: 1}
	rateOfMany     = Rate{Count: 10, Every: Duration(time.Second), Burst: 20}
	rateOfElliptic = Rate{Count: 7, Every: Duration(time.Second), Burst: 7}
)

// services are the providers over HTTPS, each with its settings.
func (r *Risk) services() map[string]*RiskService {
	return map[string]*RiskService{
		riskChainalysis: &r.Chainalysis, riskChainalysisSanctions: &r.ChainalysisSanctions,
		riskTRM: &r.TRM.RiskService, riskTRMSanctions: &r.TRMSanctions, riskElliptic: &r.Elliptic.RiskService,
	}
}

// screens tells whether a process asks the providers.
func (c Config) screens() bool { return len(c.Risk.Providers) > 0 && c.has(RoleAPI, RoleWorkers) }

// cuts are the scores of Elliptic that are severities.
func (e RiskElliptic) cuts() (elliptic.Cuts, error) {
	cuts := elliptic.CutsUsual
	for _, c := range []struct {
		text string
		into **big.Rat
	}{{e.Medium, &cuts.Medium}, {e.High, &cuts.High}, {e.Severe, &cuts.Severe}} {
		if c.text == "" {
			continue
		}
		v, err := outside.Number(c.text).Rat()
		if err != nil {
			return cuts, fmt.Errorf("%q is not a score such as 7.5", c.text)
		}
		*c.into = v
	}
	return cuts, cuts.Check()
}

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
	if !slices.Contains([]string{"", "WARN", "BLOCK"}, r.SanctionedReject) {
		errs.bad("risk.sanctioned_reject", "is %q; set it to WARN or BLOCK", r.SanctionedReject)
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
	if c.screens() {
		errs.need("keys.seal", c.Keys.Seal, "the keyset file that coffer keys create makes")
	}
	r.Rescreen.check(errs)
	if r.AnswersKept != 0 && time.Duration(r.AnswersKept) < risk.KeptMin {
		errs.bad("risk.answers_kept", "is %s; set it to %s at least, for answers are used again", time.Duration(r.AnswersKept), risk.KeptMin)
	}
	for p, s := range r.services() {
		s.check("risk."+p, errs)
		if seen[p] && c.screens() && s.key.Empty() && p != riskTRMSanctions {
			errs.bad("risk."+p+".key_file", "is missing while %s is among risk.providers; write the key into a file (mode 0600) and name it", p)
		}
	}
	if seen[riskElliptic] && c.screens() && r.Elliptic.secret.Empty() {
		errs.bad("risk.elliptic.secret_file", "is missing while elliptic is among risk.providers; write the secret into a file (mode 0600) and name it")
	}
	if _, err := r.Elliptic.cuts(); err != nil {
		errs.bad("risk.elliptic.severe", "%v", err)
	}
	if p := r.TRM.CounterpartyPercent; p != nil && (*p < 0 || *p > 100) {
		errs.bad("risk.trm.counterparty_percent", "is %d; it is between 0 and 100", *p)
	}
	for name, contract := range r.Oracle.Contracts {
		if _, ok := c.Chains[chain.Name(name)]; !ok {
			errs.bad("risk.oracle.contracts", "%s does not stand among chains; configure it, or remove the contract", name)
		} else if _, err := evmtx.Bytes(chain.Address(contract)); err != nil {
			errs.bad("risk.oracle.contracts", "%q of %s is not an address with its checksum", contract, name)
		}
	}
	if seen[riskOracle] && len(r.Oracle.Contracts) == 0 && c.Network != chain.Mainnet {
		errs.bad("risk.oracle.contracts", "is missing; the contracts that are known are those of main networks")
	}
}

func (s RiskService) check(at string, errs *faults) {
	if s.URL != "" {
		if _, err := outside.New(s.URL, 0); err != nil {
			errs.bad(at+".url", "%v", err)
		}
	}
	if s.Rate != nil {
		s.Rate.check(at+".rate", errs)
	}
}

// readKeys reads the secrets of those that are asked. content reads a file.
func (r *Risk) readKeys(content func(setting, file string, needed bool) string) {
	for p, s := range r.services() {
		if text := content("risk."+p+".key_file", s.KeyFile, slices.Contains(r.Providers, p)); text != "" {
			s.key = seal.NewSecret(text)
		}
	}
	if text := content("risk.elliptic.secret_file", r.Elliptic.SecretFile, slices.Contains(r.Providers, riskElliptic)); text != "" {
		r.Elliptic.secret = seal.NewSecret(text)
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
		m, err := a.member(p, sealed)
		if err != nil {
			return fmt.Errorf("risk.%s: %w", p, err)
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

// member makes one provider, with how it may be asked. Lists of this installation are
// read each time: they cost nothing, and a change counts at once.
func (a *App) member(provider string, sealed *seal.Keyset) (risk.Member, error) {
	conf := a.conf.Risk
	switch provider {
	case riskLocal:
		return risk.Member{Screener: risk.Local{DB: a.db}}, nil
	case riskOFAC:
		return risk.Member{Screener: &ofac.Screener{Store: &ofac.Store{DB: a.db, Seal: sealed}, AgeMax: cmp.Or(time.Duration(conf.OFAC.AgeMax), ofac.AgeMaxUsual)}}, nil
	case riskOracle:
		feeds, err := a.oracleFeeds()
		return risk.Member{Screener: oracle.Screener{Feeds: feeds}}, err
	}
	service := conf.services()[provider]
	m := risk.Member{Keep: cmp.Or(time.Duration(conf.Keep), keepUsual)}
	url, usual := "", rateOfMany
	switch provider {
	case riskChainalysis:
		url = chainalysis.ScreeningURL
	case riskChainalysisSanctions:
		url = chainalysis.SanctionsURL
	case riskTRM:
		url = trm.URL
	case riskTRMSanctions:
		url, usual = trm.URL, rateOfFew
	case riskElliptic:
		url, usual = elliptic.URL, rateOfElliptic
	default:
		panic("app: unchecked configuration: " + provider)
	}
	client, err := outside.New(cmp.Or(service.URL, url), 0, service.Ignore...)
	if err != nil {
		return m, err
	}
	switch provider {
	case riskChainalysis:
		m.Screener = chainalysis.Screening{Client: client, Key: service.key}
	case riskChainalysisSanctions:
		m.Screener = chainalysis.Sanctions{Client: client, Key: service.key}
	case riskTRM:
		percent := 100
		if conf.TRM.CounterpartyPercent != nil {
			percent = *conf.TRM.CounterpartyPercent
		}
		m.Screener = trm.Screening{Client: client, Key: service.key, EmptyPassword: conf.TRM.EmptyPassword, CounterpartyPercent: percent}
	case riskTRMSanctions:
		m.Screener = trm.Sanctions{Client: client, Key: service.key}
	case riskElliptic:
		cuts, err := conf.Elliptic.cuts()
		if err != nil {
			return m, err
		}
		m.Screener = elliptic.Screener{Client: client, Key: service.key, Secret: conf.Elliptic.secret, Cuts: cuts, Milliseconds: conf.Elliptic.Milliseconds}
	}
	r := usual
	if service.Rate != nil {
		r = *service.Rate
	}
	if r.Count > 0 {
		m.Limit = rate.NewLimiter(rate.Every(time.Duration(r.Every)/time.Duration(r.Count)), r.Burst)
	}
	return m, nil
}

// caller is how contracts of a chain are asked.
func (a *App) caller(name chain.Name) (chain.Caller, error) {
	ch, ok := a.chains[name]
	if !ok {
		return nil, fmt.Errorf("%s does not stand among chains", name)
	}
	c, ok := ch.Reader.(chain.Caller)
	if !ok {
		return nil, fmt.Errorf("its contract on %s cannot be asked: give this process endpoints of the chain", name)
	}
	return c, nil
}

// oracleFeeds are the configured contracts, or the known ones of the chains that run.
func (a *App) oracleFeeds() (map[chain.Name]oracle.Feed, error) {
	contracts := a.conf.Risk.Oracle.Contracts
	if len(contracts) == 0 {
		contracts = map[string]string{}
		for name := range a.chains {
			switch name {
			case chain.Base:
				contracts[string(name)] = oracle.OnBase
			case chain.Ethereum, chain.Arbitrum, chain.Optimism, chain.Polygon, chain.BSC, chain.Avalanche:
				contracts[string(name)] = oracle.Usual
			}
		}
	}
	feeds := map[chain.Name]oracle.Feed{}
	for name, contract := range contracts {
		c, err := a.caller(chain.Name(name))
		if err != nil {
			return nil, err
		}
		feeds[chain.Name(name)] = oracle.Feed{Caller: c, Contract: chain.Address(contract)}
	}
	return feeds, nil
}

// Rescreener asks again about senders, when it is told to.
func (a *App) Rescreener() *deposit.Rescreener {
	return deposit.NewRescreener(a.db, a.screens, a.conf.Risk.Rescreen.conf(), a.log)
}

// Screening is the policy by which this installation screens.
func (a *App) Screening() risk.Policy { return a.screens }

// ImportSanctions reads a file of the Treasury's list and keeps it. Errors: those of
// ofac.Read and of Store.Import.
func (a *App) ImportSanctions(ctx context.Context, by audit.Actor, file string, shrunk bool) (ofac.Kept, []string, error) {
	store, err := a.sanctions()
	if err != nil {
		return ofac.Kept{}, nil, err
	}
	f, err := os.Open(file)
	if err != nil {
		return ofac.Kept{}, nil, fmt.Errorf("open the list of sanctions: %w", err)
	}
	defer f.Close()
	list, err := ofac.Read(io.Reader(f))
	if err != nil {
		return ofac.Kept{}, nil, err
	}
	kept, err := store.Import(ctx, by, list, shrunk)
	return kept, list.Odd, err
}

// SanctionsList is the imported list that counts, and how old it may be.
func (a *App) SanctionsList(ctx context.Context) (ofac.Kept, time.Duration, error) {
	store, err := a.sanctions()
	if err != nil {
		return ofac.Kept{}, 0, err
	}
	kept, err := store.Newest(ctx)
	return kept, cmp.Or(time.Duration(a.conf.Risk.OFAC.AgeMax), ofac.AgeMaxUsual), err
}

func (a *App) sanctions() (*ofac.Store, error) {
	if a.conf.Keys.Seal == "" {
		return nil, errors.New("keys.seal: is missing; the list is kept sealed: run this where the service's keys are")
	}
	sealed, err := a.openSeal()
	if err != nil {
		return nil, err
	}
	return &ofac.Store{DB: a.db, Seal: sealed}, nil
}
