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
	"github.com/cofferpay/coffer/internal/httpjson"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/risk/chainalysis"
	"github.com/cofferpay/coffer/internal/risk/elliptic"
	"github.com/cofferpay/coffer/internal/risk/ofac"
	"github.com/cofferpay/coffer/internal/risk/oracle"
	"github.com/cofferpay/coffer/internal/risk/trm"
	"github.com/cofferpay/coffer/internal/seal"
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

	Chainalysis          RiskService  `toml:"chainalysis,omitempty"`
	ChainalysisSanctions RiskService  `toml:"chainalysis_sanctions,omitempty"`
	TRM                  RiskTRM      `toml:"trm,omitempty"`
	TRMSanctions         RiskService  `toml:"trm_sanctions,omitempty"`
	Elliptic             RiskElliptic `toml:"elliptic,omitempty"`
	Oracle               RiskOracle   `toml:"oracle,omitempty"`
	OFAC                 RiskOFAC     `toml:"ofac,omitempty"`
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

// RiskService configures a provider that is asked over HTTPS.
type RiskService struct {
	URL     string   `toml:"url,omitempty" comment:"instead of the provider's own"`
	KeyFile string   `toml:"key_file,omitempty"`
	Rate    *Rate    `toml:"rate,omitempty" comment:"how often one process asks it"`
	Ignore  []string `toml:"ignore,omitempty" comment:"fields of its answers that you have checked and that do not matter; any other new field makes an answer invalid"`

	key seal.Secret
}

// RiskTRM configures TRM.
type RiskTRM struct {
	RiskService
	EmptyPassword       bool `toml:"empty_password,omitempty" comment:"the key is the user name, with an empty password"`
	CounterpartyPercent *int `toml:"counterparty_percent,omitempty" comment:"the share of an address's counterparties that counts"`
}

// RiskElliptic configures Elliptic.
type RiskElliptic struct {
	RiskService
	SecretFile   string `toml:"secret_file,omitempty"`
	Milliseconds bool   `toml:"milliseconds,omitempty" comment:"the signed time is in milliseconds"`
	Medium       string `toml:"medium,omitempty" comment:"the scores of 10 from which on an answer is MEDIUM, HIGH and SEVERE"`
	High         string `toml:"high,omitempty"`
	Severe       string `toml:"severe,omitempty"`

	secret seal.Secret
}

// RiskOracle configures the contract of sanctioned addresses.
type RiskOracle struct {
	Contracts map[string]string `toml:"contracts,omitempty" comment:"by chain; default: the known ones"`
}

// RiskOFAC configures the imported list.
type RiskOFAC struct {
	AgeMax Duration `toml:"age_max,omitempty" comment:"an older list does not count"`
}

// The names of the providers.
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

// riskProviders are all names, and riskLists those of providers that read lists.
var (
	riskProviders = []string{
		riskOFAC, riskOracle, riskChainalysisSanctions, riskTRMSanctions, riskChainalysis, riskTRM, riskElliptic,
		riskLocal,
	}
	riskLists = []string{riskOFAC, riskOracle, riskChainalysisSanctions, riskTRMSanctions, riskLocal}
)

const (
	// keepDefault is how long an answer is reused by default.
	keepDefault = time.Hour
	// keepMax bounds it, because the knowledge about an address changes.
	keepMax = 7 * 24 * time.Hour
)

// The default rates of the providers. They are below the documented limits, because there may be
// several processes.
var (
	rateLow      = Rate{Count: 1, Period: Duration(time.Second), Burst: 1}
	rateHigh     = Rate{Count: 10, Period: Duration(time.Second), Burst: 20}
	rateElliptic = Rate{Count: 7, Period: Duration(time.Second), Burst: 7}
)

// httpProviders returns the providers over HTTPS with their settings.
func (r *Risk) httpProviders() map[string]*RiskService {
	return map[string]*RiskService{
		riskChainalysis: &r.Chainalysis, riskChainalysisSanctions: &r.ChainalysisSanctions,
		riskTRM: &r.TRM.RiskService, riskTRMSanctions: &r.TRMSanctions, riskElliptic: &r.Elliptic.RiskService,
	}
}

// asksScreening reports whether a process asks the providers.
func (c Config) asksScreening() bool {
	return len(c.Risk.Providers) > 0 && c.hasRole(RoleAPI, RoleWorkers)
}

// severityCuts returns the scores of Elliptic from which a severity applies.
func (e RiskElliptic) severityCuts() (elliptic.Thresholds, error) {
	cuts := elliptic.DefaultThresholds
	for _, c := range []struct {
		text string
		into **big.Rat
	}{{e.Medium, &cuts.Medium}, {e.High, &cuts.High}, {e.Severe, &cuts.Severe}} {
		if c.text == "" {
			continue
		}
		v, err := httpjson.Number(c.text).Rat()
		if err != nil {
			return cuts, fmt.Errorf("%q is not a score such as 7.5", c.text)
		}
		*c.into = v
	}
	return cuts, cuts.Validate()
}

func (c Config) checkRisk(errs *configErrors) {
	r := c.Risk
	named := map[string]bool{}
	for _, p := range r.Providers {
		switch {
		case !slices.Contains(riskProviders, p):
			errs.addProblem("risk.providers", "%q is not a provider; the providers are "+
				"%s", p, strings.Join(riskProviders, ", "))
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
		func(p string) bool { return slices.Contains(riskLists, p) }):
		errs.addProblem("risk.sanctions_floor", "is ON and no sanctions list is among risk.providers; add one of %s",
			strings.Join(riskLists, ", "))
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
	for p, s := range r.httpProviders() {
		s.checkService("risk."+p, errs)
		if named[p] && c.asksScreening() && s.key.IsEmpty() && p != riskTRMSanctions {
			errs.addProblem("risk."+p+".key_file",
				"is missing while %s is among risk.providers; write the key into a file (mode 0600) and name it", p)
		}
	}
	if named[riskElliptic] && c.asksScreening() && r.Elliptic.secret.IsEmpty() {
		errs.addProblem("risk.elliptic.secret_file",
			"is missing while elliptic is among risk.providers; write the secret into a file (mode 0600) and name it")
	}
	if _, err := r.Elliptic.severityCuts(); err != nil {
		errs.addProblem("risk.elliptic.severe", "%v", err)
	}
	if p := r.TRM.CounterpartyPercent; p != nil && (*p < 0 || *p > 100) {
		errs.addProblem("risk.trm.counterparty_percent", "is %d; it has to be between 0 and 100", *p)
	}
	for name, contract := range r.Oracle.Contracts {
		if _, ok := c.Chains[chain.Name(name)]; !ok {
			errs.addProblem("risk.oracle.contracts",
				"%s is not among chains; configure it, or remove the contract", name)
		} else if _, err := evmtx.Bytes(chain.Address(contract)); err != nil {
			errs.addProblem("risk.oracle.contracts", "%q of %s is not an address with its checksum", contract, name)
		}
	}
	if named[riskOracle] && len(r.Oracle.Contracts) == 0 && c.Network != chain.Mainnet {
		errs.addProblem("risk.oracle.contracts", "is missing; the known contracts are those of main networks")
	}
}

func (s RiskService) checkService(path string, errs *configErrors) {
	if s.URL != "" {
		if _, err := httpjson.NewClient(s.URL, 0); err != nil {
			errs.addProblem(path+".url", "%v", err)
		}
	}
	if s.Rate != nil {
		s.Rate.checkRate(path+".rate", errs)
	}
}

// readKeys reads the secrets of the active providers. content reads a file.
func (r *Risk) readKeys(content func(setting, file string, needed bool) string) {
	for p, s := range r.httpProviders() {
		if text := content("risk."+p+".key_file", s.KeyFile, slices.Contains(r.Providers, p)); text != "" {
			s.key = seal.NewSecret(text)
		}
	}
	if text := content(
		"risk.elliptic.secret_file", r.Elliptic.SecretFile, slices.Contains(r.Providers, riskElliptic),
	); text != "" {
		r.Elliptic.secret = seal.NewSecret(text)
	}
}

// openRisk builds the screening policy.
func (a *App) openRisk() error {
	conf := a.conf.Risk
	a.screening = risk.Policy{
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
	panel, lists := a.newPanel(sealed), a.newPanel(sealed)
	panel.Quorum = conf.Quorum
	for _, p := range conf.Providers {
		m, err := a.newMember(p, sealed)
		if err != nil {
			return fmt.Errorf("risk.%s: %w", p, err)
		}
		panel.Members = append(panel.Members, m)
		if slices.Contains(riskLists, p) {
			lists.Members = append(lists.Members, m)
		}
	}
	a.screening.Providers = panel
	if len(lists.Members) > 0 {
		a.screening.Lists = lists
	}
	return nil
}

func (a *App) newPanel(sealed *seal.Keyset) *risk.Panel {
	return &risk.Panel{Answers: &risk.AnswerStore{DB: a.db, Seal: sealed}, Log: a.log}
}

// newMember builds one provider with its rate. Lists of this installation are read each time: that
// costs nothing, and a change takes effect at once.
func (a *App) newMember(provider string, sealed *seal.Keyset) (risk.Member, error) {
	conf := a.conf.Risk
	switch provider {
	case riskLocal:
		return risk.Member{Screener: risk.LocalScreener{DB: a.db}}, nil
	case riskOFAC:
		return risk.Member{Screener: &ofac.Screener{
			Store:  &ofac.Store{DB: a.db, Seal: sealed},
			AgeMax: cmp.Or(time.Duration(conf.OFAC.AgeMax), ofac.AgeMaxDefault),
		}}, nil
	case riskOracle:
		feeds, err := a.oracleFeeds()
		return risk.Member{Screener: oracle.Screener{Feeds: feeds}}, err
	}
	service := conf.httpProviders()[provider]
	m := risk.Member{TTL: cmp.Or(time.Duration(conf.Keep), keepDefault)}
	url, usual := "", rateHigh
	switch provider {
	case riskChainalysis:
		url = chainalysis.ScreeningURL
	case riskChainalysisSanctions:
		url = chainalysis.SanctionsURL
	case riskTRM:
		url = trm.URL
	case riskTRMSanctions:
		url, usual = trm.URL, rateLow
	case riskElliptic:
		url, usual = elliptic.URL, rateElliptic
	default:
		panic("app: unchecked configuration: " + provider)
	}
	client, err := httpjson.NewClient(cmp.Or(service.URL, url), 0, service.Ignore...)
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
		m.Screener = trm.Screening{
			Client: client, Key: service.key, EmptyPassword: conf.TRM.EmptyPassword, CounterpartyPercent: percent,
		}
	case riskTRMSanctions:
		m.Screener = trm.Sanctions{Client: client, Key: service.key}
	case riskElliptic:
		cuts, err := conf.Elliptic.severityCuts()
		if err != nil {
			return m, err
		}
		m.Screener = elliptic.Screener{
			Client: client, Key: service.key, Secret: conf.Elliptic.secret, Thresholds: cuts,
			Milliseconds: conf.Elliptic.Milliseconds,
		}
	}
	r := usual
	if service.Rate != nil {
		r = *service.Rate
	}
	if r.Count > 0 {
		m.Limit = rate.NewLimiter(rate.Every(time.Duration(r.Period)/time.Duration(r.Count)), r.Burst)
	}
	return m, nil
}

// contractCaller returns the caller for contracts of a chain.
func (a *App) contractCaller(name chain.Name) (chain.ContractCaller, error) {
	ch, ok := a.chains[name]
	if !ok {
		return nil, fmt.Errorf("%s is not among chains", name)
	}
	c, ok := ch.Reader.(chain.ContractCaller)
	if !ok {
		return nil, fmt.Errorf("its contract on %s has no endpoint: give this process endpoints of the chain", name)
	}
	return c, nil
}

// oracleFeeds returns the configured contracts, or the known ones of the configured chains.
func (a *App) oracleFeeds() (map[chain.Name]oracle.Feed, error) {
	contracts := a.conf.Risk.Oracle.Contracts
	if len(contracts) == 0 {
		contracts = map[string]string{}
		for name := range a.chains {
			switch name {
			case chain.Base:
				contracts[string(name)] = oracle.BaseContract
			case chain.Ethereum, chain.Arbitrum, chain.Optimism, chain.Polygon, chain.BSC, chain.Avalanche:
				contracts[string(name)] = oracle.DefaultContract
			}
		}
	}
	feeds := map[chain.Name]oracle.Feed{}
	for name, contract := range contracts {
		c, err := a.contractCaller(chain.Name(name))
		if err != nil {
			return nil, err
		}
		feeds[chain.Name(name)] = oracle.Feed{Caller: c, Contract: chain.Address(contract)}
	}
	return feeds, nil
}

// NewRescreener builds the rescreener of senders, which runs on request.
func (a *App) NewRescreener() *deposit.Rescreener {
	return deposit.NewRescreener(a.db, a.screening, a.conf.Risk.Rescreen.rescreenConfig(), a.log)
}

// ScreeningPolicy returns the screening policy of this installation.
func (a *App) ScreeningPolicy() risk.Policy { return a.screening }

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
	return imported, cmp.Or(time.Duration(a.conf.Risk.OFAC.AgeMax), ofac.AgeMaxDefault), err
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
	return &ofac.Store{DB: a.db, Seal: sealed}, nil
}
