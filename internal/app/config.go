package app

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/catalogue"
	"github.com/cofferpay/coffer/internal/chain/solana"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/whitelist"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/config"
	"github.com/cofferpay/coffer/internal/platform/inbound"
	"github.com/cofferpay/coffer/internal/platform/mail"
	"github.com/cofferpay/coffer/internal/platform/seal"
	"github.com/cofferpay/coffer/internal/signer/remote"
)

// Config holds all settings of an installation. It is read from a TOML file; each secret is in a
// separate file that the configuration names.
type Config struct {
	Network   chain.Network        `toml:"network" comment:"MAINNET, TESTNET or LOCAL; every chain below belongs to this network"`
	Roles     []Role               `toml:"roles,omitempty" comment:"parts that this process runs: api, approvals, workers, scan, dispatch, signer; default: all"`
	Database  Database             `toml:"database"`
	API       API                  `toml:"api"`
	Dashboard Dashboard            `toml:"dashboard,omitempty"`
	Approvals Approvals            `toml:"approvals,omitempty"`
	Checkout  Checkout             `toml:"checkout,omitempty"`
	Operator  Operator             `toml:"operator,omitempty"`
	Console   Console              `toml:"console,omitempty"`
	Ops       Ops                  `toml:"ops"`
	Keys      Keys                 `toml:"keys"`
	Signer    Signer               `toml:"signer"`
	Chains    map[chain.Name]Chain `toml:"chains"`
	Mints     []Mint               `toml:"mints"`
	Prices    Prices               `toml:"prices"`
	Risk      Risk                 `toml:"risk,omitempty"`
	Swaps     Swaps                `toml:"swaps,omitempty"`
	Webhooks  Webhooks             `toml:"webhooks"`
	Mail      mail.Config          `toml:"mail,omitempty"`
	Intervals Intervals            `toml:"paces"`
	Log       Log                  `toml:"log"`
	Trace     Trace                `toml:"trace,omitempty"`
}

// Database locates PostgreSQL. The URLs contain passwords, so each can be in a file instead.
type Database struct {
	URL     string `toml:"url,omitempty" comment:"the service's login; or url_file"`
	URLFile string `toml:"url_file,omitempty"`
	// ReadURL locates a streaming replica that may answer reads of the API and of the dashboard.
	ReadURL      string `toml:"read_url,omitempty" comment:"the service's login on a streaming replica, for reads; or read_url_file"`
	ReadURLFile  string `toml:"read_url_file,omitempty"`
	OwnerURL     string `toml:"owner_url,omitempty" comment:"the owner's login, for coffer migrate only; or owner_url_file"`
	OwnerURLFile string `toml:"owner_url_file,omitempty"`
	MaxConns     int    `toml:"max_conns" comment:"connections of one process"`
}

// API configures the organizations' listener.
type API struct {
	Listen string `toml:"listen" comment:"address and port, such as 127.0.0.1:8080"`
	URL    string `toml:"url" comment:"the public URL, without /v1"`
	// TrustedProxies are addresses and networks, such as 10.0.0.0/8.
	TrustedProxies []string `toml:"trusted_proxies,omitempty" comment:"proxies whose X-Forwarded-For counts; default: none"`
	Limits         Limits   `toml:"limits,omitempty" comment:"request limits; a class that is left out has its default, and no limit on network LOCAL"`
	// MaxConnections and MaxConnectionsPerAddress limit open connections; 0 means the default.
	MaxConnections           int `toml:"max_connections,omitempty" comment:"open at the same time; 4096"`
	MaxConnectionsPerAddress int `toml:"max_connections_per_address,omitempty" comment:"of them from one address, except trusted proxies and this machine; 512"`
}

// The default limits of open connections.
const (
	connectionsDefault           = 4096
	connectionsPerAddressDefault = 512
)

// connectionLimits returns the limits of the listener, from a checked configuration.
func (a API) connectionLimits() inbound.Limits {
	return inbound.Limits{
		Connections: cmp.Or(a.MaxConnections, connectionsDefault),
		PerAddress:  cmp.Or(a.MaxConnectionsPerAddress, connectionsPerAddressDefault),
		Proxy: func(addr netip.Addr) bool {
			trusted, err := parseProxies(a.TrustedProxies)
			return addr.IsLoopback() || err == nil && trusted.IsTrusted(addr)
		},
		BodyWait: bodyWaitMax, BodyRate: bodyRateMin,
	}
}

// Limits are rates by class of requests: those of an organization, and wrong keys from one address.
type Limits struct {
	Reads    *Rate `toml:"reads,omitempty"`
	Writes   *Rate `toml:"writes,omitempty"`
	Quotes   *Rate `toml:"quotes,omitempty"`
	Exports  *Rate `toml:"exports,omitempty"`
	Failures *Rate `toml:"failures,omitempty"`
}

// apiLimits returns the limits on a network: the configured ones, or the defaults.
// Rules LIM-1 and LIM-4.
func (l Limits) apiLimits(network chain.Network) kernel.Limits {
	rates := kernel.UsualLimits
	if network == chain.Local {
		rates = kernel.Limits{} // a development network has no limits by default
	}
	for _, class := range []struct {
		set  *Rate
		into *kernel.Rate
	}{
		{l.Reads, &rates.Reads},
		{l.Writes, &rates.Writes},
		{l.Quotes, &rates.Quotes},
		{l.Exports, &rates.Exports},
		{l.Failures, &rates.Failures},
	} {
		if class.set != nil {
			*class.into = kernel.Rate{
				Count: class.set.Count, Period: time.Duration(class.set.Period), Burst: class.set.Burst,
			}
		}
	}
	return rates
}

// UsualLimits returns the default rates of a network other than LOCAL, as a configuration sets
// them.
func UsualLimits() Limits {
	set := func(r kernel.Rate) *Rate { return &Rate{Count: r.Count, Period: Duration(r.Period), Burst: r.Burst} }
	u := kernel.UsualLimits
	return Limits{
		Reads: set(u.Reads), Writes: set(u.Writes), Quotes: set(u.Quotes), Exports: set(u.Exports),
		Failures: set(u.Failures),
	}
}

func (l Limits) checkLimits(errs *configErrors) {
	for setting, r := range map[string]*Rate{
		"reads": l.Reads, "writes": l.Writes, "quotes": l.Quotes, "exports": l.Exports, "failures": l.Failures,
	} {
		if r != nil {
			r.Check("api.limits."+setting, errs.addProblem)
		}
	}
}

// parseProxies parses the networks of trusted_proxies. Error: the first invalid one.
func parseProxies(names []string) (kernel.Proxies, error) {
	var prefixes kernel.Proxies
	for _, text := range names {
		p, err := org.ParsePrefix(text)
		switch {
		case err != nil:
			return nil, err
		case p.Bits() == 0:
			return nil, fmt.Errorf("%q contains every address, so a caller could claim any address", text)
		}
		prefixes = append(prefixes, p)
	}
	return prefixes, nil
}

// Operator configures the operators' listener. Without an address there is none.
type Operator struct {
	Listen string   `toml:"listen,omitempty" comment:"address and port, such as 127.0.0.1:8081; empty: no such listener"`
	URL    string   `toml:"url,omitempty" comment:"the URL for operators, without /v1; default: http:// and listen"`
	Allow  []string `toml:"allow,omitempty" comment:"addresses and networks that may call; default: this machine"`
	// TrustedProxies are addresses and networks, as for the API.
	TrustedProxies []string `toml:"trusted_proxies,omitempty" comment:"proxies of this listener whose X-Forwarded-For counts, also for allow; default: none"`
	// FourEyes requires two operators for a change that loosens a control, if there are two.
	FourEyes bool `toml:"four_eyes,omitempty" comment:"a change that loosens a control needs a second operator, as soon as there are two"`
	// WhitelistCoolingOff is text, because "0s" differs from an unset value.
	WhitelistCoolingOff string `toml:"whitelist_cooling_off,omitempty" comment:"how long a new whitelist entry is not usable: default 24h, 0s for none; the signer's policy has its own"`
}

// coolingOff returns WhitelistCoolingOff of a checked configuration.
func (o Operator) coolingOff() time.Duration {
	if o.WhitelistCoolingOff == "" {
		return whitelist.CoolingOff
	}
	d, err := time.ParseDuration(o.WhitelistCoolingOff)
	if err != nil {
		return whitelist.CoolingOffMax
	}
	return d
}

// loopbackPrefixes are the networks that may call the operators' listener by default.
var loopbackPrefixes = []string{"127.0.0.0/8", "::1/128"}

// allowedPrefixes returns the networks that may call.
func (o Operator) allowedPrefixes() (prefixes []netip.Prefix, err error) {
	names := o.Allow
	if len(names) == 0 {
		names = loopbackPrefixes
	}
	for _, name := range names {
		p, err := org.ParsePrefix(name)
		switch {
		case err != nil:
			return nil, err
		case p.Bits() == 0:
			return nil, fmt.Errorf("%q contains every address", name)
		}
		prefixes = append(prefixes, p)
	}
	return prefixes, nil
}

// publicURL returns the URL at which operators reach the listener.
func (o Operator) publicURL() string { return cmp.Or(o.URL, "http://"+o.Listen) }

func (o Operator) checkOperator(network chain.Network, errs *configErrors) {
	if d, err := time.ParseDuration(o.WhitelistCoolingOff); o.WhitelistCoolingOff != "" &&
		(err != nil || d < 0 || d > whitelist.CoolingOffMax) {
		errs.addProblem(
			"operator.whitelist_cooling_off",
			"is %q; set it to a length of time from 0s to %s, such as 24h", o.WhitelistCoolingOff,
			whitelist.CoolingOffMax,
		)
	}
	if o.Listen == "" {
		if o.URL != "" || len(o.Allow) > 0 {
			errs.addProblem(
				"operator.listen",
				"is missing although operator has other settings; set it to an address such as 127.0.0.1:8081, or "+
					"remove them",
			)
		}
		return
	}
	host, _, err := net.SplitHostPort(o.Listen)
	if err != nil {
		errs.addProblem("operator.listen", "%q is not an address with a port, such as 127.0.0.1:8081", o.Listen)
		return
	}
	if _, err := o.allowedPrefixes(); err != nil {
		errs.addProblem("operator.allow", "%v; name the addresses and networks that may call, such as 10.0.7.0/24", err)
	}
	if _, err := parseProxies(o.TrustedProxies); err != nil {
		errs.addProblem("operator.trusted_proxies",
			"%v; name the addresses or networks of the proxies of this listener, such as 10.0.0.0/8", err)
	}
	if !isLoopback(host) && len(o.Allow) == 0 {
		errs.addProblem("operator.allow",
			"is missing, and operator.listen is not on this machine; name the addresses and networks that may call")
	}
	if u, err := url.Parse(o.publicURL()); err != nil || u.Host == "" {
		errs.addProblem("operator.url", "%q is not a URL; set the URL that operators call", o.URL)
	} else if u.Scheme != "https" && network != chain.Local && !isLoopback(host) {
		errs.addProblem(
			"operator.url",
			"has to be https when operator.listen is not on this machine: every call sends an operator's key",
		)
	}
}

// isLoopback reports whether a host is this machine.
func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}

// Ops configures the private listener for health and metrics.
type Ops struct {
	Listen string `toml:"listen"`
	Public bool   `toml:"public,omitempty" comment:"listen may be outside this machine and private networks: another protection keeps others out"`
}

// isExposed reports whether the listener has an address outside this machine and private networks.
// It serves plain HTTP and asks for no key.
func (o Ops) isExposed() bool {
	host, _, err := net.SplitHostPort(o.Listen)
	if err != nil || isLoopback(host) {
		return false
	}
	addr, err := netip.ParseAddr(host)
	return err != nil || !addr.Unmap().IsPrivate() && !addr.IsLinkLocalUnicast()
}

// Keys names the key files that the service itself needs; coffer keys create makes the missing
// ones.
type Keys struct {
	Seal          string `toml:"seal" comment:"keyset that encrypts secrets at rest"`
	Attest        string `toml:"attest" comment:"public key of the signer's attestations; not secret"`
	Webhook       string `toml:"webhook" comment:"key that signs webhooks, in addition to each endpoint's secret"`
	WebhookFormer string `toml:"webhook_former,omitempty" comment:"the previous key, which also signs until every receiver has the new one"`
	// WebhookPublic is enough for a process that answers requests and posts nothing, not even
	// samples.
	WebhookPublic string `toml:"webhook_public,omitempty" comment:"public halves of both, for a process with the role api and not workers"`
	Cursor        string `toml:"cursor" comment:"key that protects the cursors of lists with a MAC"`
	Approvals     string `toml:"approvals" comment:"key that MACs grants; the service and the signer have it, the database does not"`
}

// Signer locates the signer: at the socket of a separate process, at the address of a separate
// host, or in this process with its files.
type Signer struct {
	Socket  string      `toml:"socket,omitempty" comment:"unix socket of coffer signer; or address; or the four files below for a signer in this process"`
	Address string      `toml:"address,omitempty" comment:"host and port of a signer on another host, by mutual TLS"`
	TLS     SignerTLS   `toml:"tls,omitempty"`
	Seed    string      `toml:"seed,omitempty"`
	Wrap    string      `toml:"wrap,omitempty" comment:"key that encrypts the seed file"`
	Journal string      `toml:"journal,omitempty"`
	Policy  string      `toml:"policy,omitempty" comment:"JSON file with the limits"`
	Serve   SignerServe `toml:"serve,omitempty"`
}

// SignerTLS holds how a process authenticates to the signer at an address, and how it authenticates
// the signer.
type SignerTLS struct {
	Certificate string `toml:"certificate,omitempty" comment:"PEM; read again when it changes"`
	Key         string `toml:"key,omitempty"`
	CA          string `toml:"ca,omitempty" comment:"CA of the signer's certificate; or pin"`
	Pin         string `toml:"pin,omitempty" comment:"sha256/ and the base64 of the hash of the signer's public key"`
	Name        string `toml:"name,omitempty" comment:"name in the signer's certificate, if it is not the host of the address"`
}

// SignerServe names where the signer of this process serves other processes.
type SignerServe struct {
	Socket      string         `toml:"socket,omitempty" comment:"unix socket, for processes of the same user"`
	Listen      string         `toml:"listen,omitempty" comment:"address and port, for other hosts, by mutual TLS"`
	Certificate string         `toml:"certificate,omitempty" comment:"PEM; read again when it changes"`
	Key         string         `toml:"key,omitempty"`
	CA          string         `toml:"ca,omitempty" comment:"CA of the clients' certificates"`
	Clients     []SignerClient `toml:"clients,omitempty"`
}

// SignerClient is a process on another host that the signer serves.
type SignerClient struct {
	Name       string `toml:"name" comment:"common name of its certificate"`
	Pin        string `toml:"pin,omitempty" comment:"instead of the CA: sha256/ and the base64 of the hash of its public key"`
	Permission string `toml:"may" comment:"READ, ISSUE or PAY"`
}

// isRemote reports whether the signer is another process.
func (s Signer) isRemote() bool { return s.Socket != "" || s.Address != "" }

// Mint is an entry of the catalogue.
type Mint struct {
	ID                    int        `toml:"id"`
	Chain                 chain.Name `toml:"chain"`
	Contract              string     `toml:"contract,omitempty" comment:"empty for the native coin"`
	Program               string     `toml:"program,omitempty" comment:"SOLANA: TOKEN_2022 for a token of that program; default: the other program"`
	Extensions            []uint16   `toml:"extensions,omitempty" comment:"SOLANA: the extensions that a token of TOKEN_2022 may have besides metadata and groups, by number; reviewed"`
	Symbol                string     `toml:"symbol"`
	Name                  string     `toml:"name"`
	Decimals              int        `toml:"decimals"`
	LogoURL               string     `toml:"logo_url,omitempty"`
	DepositEnabled        bool       `toml:"deposit_enabled"`
	WithdrawEnabled       bool       `toml:"withdraw_enabled"`
	MinDeposit            string     `toml:"min_deposit" comment:"atomic units"`
	MinWithdraw           string     `toml:"min_withdraw" comment:"atomic units"`
	ConfirmationsRequired int        `toml:"confirmations_required"`
	Finality              string     `toml:"finality"`
}

// Webhooks configures the webhooks to organizations.
type Webhooks struct {
	Development bool `toml:"development,omitempty" comment:"allow http to this machine; LOCAL only"`
}

// Intervals are the intervals of the loops; none of them affects a decision about money.
type Intervals struct {
	Scan     Duration `toml:"scan"`
	Dispatch Duration `toml:"dispatch"`
	Sweep    Duration `toml:"sweep"`
	Verify   Duration `toml:"verify"`
	Resend   Duration `toml:"resend" comment:"until a transaction in no block is broadcast again"`
	Bump     Duration `toml:"bump" comment:"until the oldest unmined transaction gets a higher fee"`
	Anchor   Duration `toml:"anchor" comment:"between two anchors of the audit log, which the signer signs"`
	Events   Duration `toml:"events,omitempty" comment:"between two looks for events to number and webhooks to send; 50ms"`
}

// Log configures the log on standard error.
type Log struct {
	Level string `toml:"level"`
	JSON  bool   `toml:"json"`
}

// Trace configures where spans are sent. Without an endpoint there are none.
type Trace struct {
	Endpoint string `toml:"endpoint,omitempty" comment:"OTLP over HTTP, such as http://127.0.0.1:4318/v1/traces"`
	Percent  int    `toml:"percent,omitempty" comment:"share of the traces that are kept; 100"`
}

// sampleRatio returns the fraction of the traces that is kept.
func (t Trace) sampleRatio() float64 { return float64(cmp.Or(t.Percent, 100)) / 100 }

// The types of settings that several packages have.
type (
	Duration = config.Duration
	Rate     = config.Rate
)

// DefaultConfig returns a configuration with every setting that has a sensible default.
func DefaultConfig() Config {
	return Config{
		Database: Database{MaxConns: 20},
		API:      API{Listen: "127.0.0.1:8080", URL: "http://127.0.0.1:8080"},
		Ops:      Ops{Listen: "127.0.0.1:8082"},
		Prices:   Prices{MaxAge: Duration(5 * time.Minute)},
		Intervals: Intervals{
			Scan: Duration(time.Second), Dispatch: Duration(time.Second), Sweep: Duration(10 * time.Second),
			Verify: Duration(5 * time.Minute),
			Resend: Duration(15 * time.Second), Bump: Duration(time.Minute), Anchor: Duration(audit.AnchorInterval),
		},
		Log: Log{Level: "info"},
	}
}

// ReadConfig reads and checks a configuration file. The error lists everything that is wrong, each
// with the setting and the remedy. roles replace those in the file, and determine which settings it
// needs.
func ReadConfig(path string, roles ...Role) (Config, error) {
	conf, err := decodeFile(path)
	if err != nil {
		return conf, err
	}
	if len(roles) > 0 {
		conf.Roles = roles
	}
	if err := errors.Join(conf.resolveFiles(filepath.Dir(path)), conf.Check()); err != nil {
		return conf, fmt.Errorf("%s:\n%w", path, err)
	}
	return conf, nil
}

// ReadSignerConfig reads the configuration of a signer in a separate process, and checks only what
// that needs. The machine that holds the seed needs no database password and no endpoint of a
// chain.
func ReadSignerConfig(path string) (Config, error) {
	conf, err := decodeFile(path)
	if err != nil {
		return conf, err
	}
	conf.makePathsAbsolute(filepath.Dir(path))
	conf.Roles = []Role{RoleSigner}
	var errs configErrors
	if conf.Signer.isRemote() && conf.Signer.Seed == "" {
		errs.addProblem("signer."+conf.Signer.remoteSetting(),
			"points to another signer; give coffer signer a configuration with the seed, the journal and the policy")
	} else {
		errs.requireValue("keys.attest", conf.Keys.Attest, "the attest.pub file that coffer keys create makes")
		conf.checkSigner(&errs)
	}
	if err := errs.joinProblems(); err != nil {
		return conf, fmt.Errorf("%s:\n%w", path, err)
	}
	return conf, nil
}

// configErrors collects the problems of a configuration.
type configErrors []error

func (f *configErrors) addProblem(setting, format string, args ...any) {
	*f = append(*f, fmt.Errorf("%s: %s", setting, fmt.Sprintf(format, args...)))
}

func (f *configErrors) requireValue(setting, value, hint string) {
	if value == "" {
		f.addProblem(setting, "is missing; set it to %s", hint)
	}
}

func (f configErrors) joinProblems() error {
	slices.SortFunc(f, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(f...)
}

// decodeFile reads a configuration file over the defaults.
func decodeFile(path string) (Config, error) {
	conf := DefaultConfig()
	f, err := os.Open(path)
	if err != nil {
		return conf, fmt.Errorf("open the configuration: %w", err)
	}
	defer f.Close()
	err = toml.NewDecoder(f).DisallowUnknownFields().Decode(&conf)
	var unknown *toml.StrictMissingError
	var wrong *toml.DecodeError
	switch {
	case errors.As(err, &unknown):
		return conf, fmt.Errorf("%s has settings that do not exist:\n%s", path, unknown.String())
	case errors.As(err, &wrong):
		return conf, fmt.Errorf("%s cannot be read:\n%s", path, wrong.String())
	case err != nil:
		return conf, fmt.Errorf("read %s: %w", path, err)
	}
	return conf, nil
}

// makePathsAbsolute resolves the paths of files against the directory of the configuration.
func (c *Config) makePathsAbsolute(dir string) {
	for _, p := range []*string{
		&c.Keys.Seal, &c.Keys.Attest, &c.Keys.Webhook, &c.Keys.WebhookFormer, &c.Keys.WebhookPublic, &c.Keys.Cursor,
		&c.Keys.Approvals,
		&c.Signer.Socket, &c.Signer.Seed, &c.Signer.Wrap, &c.Signer.Journal, &c.Signer.Policy,
		&c.Signer.TLS.Certificate, &c.Signer.TLS.Key, &c.Signer.TLS.CA,
		&c.Mail.Files,
		&c.Signer.Serve.Socket, &c.Signer.Serve.Certificate, &c.Signer.Serve.Key, &c.Signer.Serve.CA,
	} {
		if *p != "" && !filepath.IsAbs(*p) {
			*p = filepath.Join(dir, *p)
		}
	}
}

// resolveFiles makes paths absolute and reads the settings that are in separate files. The error
// lists all that could not be read.
func (c *Config) resolveFiles(dir string) error {
	c.makePathsAbsolute(dir)
	var errs configErrors
	content := func(setting, file string, direct, needed bool) string {
		if file == "" {
			return ""
		}
		if !filepath.IsAbs(file) {
			file = filepath.Join(dir, file)
		}
		b, err := os.ReadFile(file)
		text := strings.TrimSpace(string(b))
		switch {
		case direct:
			errs.addProblem(setting, "is set together with %s; remove one of them",
				strings.TrimSuffix(setting, "_file"))
		case errors.Is(err, fs.ErrNotExist) && !needed:
			// All hosts may share one configuration file: a secret is only where its role is.
		case errors.Is(err, fs.ErrNotExist):
			errs.addProblem(setting, "%s does not exist; write the value into it (mode 0600)", file)
		case err != nil:
			errs.addProblem(setting, "%v; make the file readable for the service", err)
		case text == "":
			errs.addProblem(setting, "%s is empty; write the value into it (mode 0600)", file)
		}
		return text
	}
	for _, p := range []struct {
		setting, file string
		value         *string
		needed        bool
	}{
		{"database.url_file", c.Database.URLFile, &c.Database.URL, !c.IsSignerOnly()},
		{"database.read_url_file", c.Database.ReadURLFile, &c.Database.ReadURL, c.hasRole(RoleAPI)},
		{"database.owner_url_file", c.Database.OwnerURLFile, &c.Database.OwnerURL, len(c.Roles) == 0},
	} {
		if text := content(p.setting, p.file, *p.value != "", p.needed); *p.value == "" {
			*p.value = text
		}
	}
	secretOf := func(roles ...Role) func(setting, file string, asked bool) string {
		return func(setting, file string, asked bool) string {
			return content(setting, file, false, asked && c.hasRole(roles...))
		}
	}
	c.Risk.readKeys(secretOf(RoleAPI, RoleApprovals, RoleWorkers))
	c.Prices.readKeys(secretOf(RoleAPI, RoleApprovals, RoleWorkers))
	c.Swaps.readKeys(secretOf(RoleAPI, RoleWorkers))
	if text := content("mail.password_file", c.Mail.PasswordFile, false, c.hasRole(RoleWorkers)); text != "" {
		c.Mail.Password = seal.NewSecret(text)
	}
	for name, ch := range c.Chains {
		if text := content(
			"chains."+string(name)+".endpoints_file", ch.EndpointsFile, len(ch.Endpoints) > 0, c.asksChains(),
		); text != "" {
			ch.Endpoints = strings.Fields(text)
		}
		if text := content(
			"chains."+string(name)+".archives_file", ch.ArchivesFile, len(ch.Archives) > 0, c.asksChains(),
		); text != "" {
			ch.Archives = strings.Fields(text)
		}
		c.Chains[name] = ch
	}
	return errs.joinProblems()
}

// Check finds all problems for the roles of this process, each with the setting's name and the
// remedy.
func (c Config) Check() error {
	var errs configErrors
	bad, need := errs.addProblem, errs.requireValue
	for _, r := range c.Roles {
		if !slices.Contains(allRoles, r) {
			bad("roles", "%q is not a role; the roles are %s", r, formatRoles(allRoles))
		}
	}
	need("keys.attest", c.Keys.Attest, "the attest.pub file that coffer keys create makes")
	c.checkSigner(&errs)
	if c.hasRole(RoleAPI, RoleApprovals, RoleWorkers, RoleSigner) {
		need("keys.approvals", c.Keys.Approvals,
			"the key file that coffer keys create makes; the service and the signer have the same one")
	}
	if !slices.Contains([]string{"debug", "info", "warn", "error"}, c.Log.Level) {
		bad("log.level", "is %q; set it to debug, info, warn or error", c.Log.Level)
	}
	if u, err := url.Parse(c.Trace.Endpoint); c.Trace.Endpoint != "" &&
		(err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		bad("trace.endpoint", "%q is not a URL such as http://127.0.0.1:4318/v1/traces", c.Trace.Endpoint)
	}
	if c.Trace.Percent < 0 || c.Trace.Percent > 100 {
		bad("trace.percent", "is %d; it is between 1 and 100", c.Trace.Percent)
	}
	if c.IsSignerOnly() {
		return errs.joinProblems()
	}
	if !slices.Contains([]chain.Network{chain.Mainnet, chain.Testnet, chain.Local}, c.Network) {
		bad("network", "is %q; set it to MAINNET, TESTNET or LOCAL", c.Network)
	}
	if c.Database.URLFile == "" { // an unreadable file was already reported
		need("database.url", c.Database.URL, "postgres://coffer:…@host/coffer, or name a file in database.url_file")
	}
	if c.Database.MaxConns < 4 {
		bad("database.max_conns", "is %d; the service needs at least 4", c.Database.MaxConns)
	}
	address := func(setting, addr string) {
		if _, _, err := net.SplitHostPort(addr); err != nil {
			bad(setting, "%q is not an address with a port, such as 127.0.0.1:8080", addr)
		}
	}
	address("ops.listen", c.Ops.Listen)
	if c.Ops.isExposed() && !c.Ops.Public {
		bad(
			"ops.listen",
			"%q can be reached from anywhere, and /metrics needs no key; listen on this machine or a private "+
				"network, or set ops.public where a container or firewall keeps others out",
			c.Ops.Listen,
		)
	}
	if c.hasRole(RoleAPI) {
		address("api.listen", c.API.Listen)
		if u, err := url.Parse(c.API.URL); err != nil || u.Host == "" {
			bad("api.url", "%q is not a URL; set the public URL", c.API.URL)
		} else if u.Scheme != "https" && c.Network != chain.Local {
			bad("api.url", "has to be https: every call sends an API key")
		}
		if _, err := parseProxies(c.API.TrustedProxies); err != nil {
			bad(
				"api.trusted_proxies",
				"%v; name the addresses or networks of the proxies in front of this service, such as 10.0.0.0/8", err,
			)
		}
		c.API.Limits.checkLimits(&errs)
		if c.API.MaxConnections < 0 {
			bad("api.max_connections", "is %d; leave it out for %d, or set more than 0", c.API.MaxConnections,
				connectionsDefault)
		}
		if c.API.MaxConnectionsPerAddress < 0 {
			bad("api.max_connections_per_address", "is %d; leave it out for %d, or set more than 0",
				c.API.MaxConnectionsPerAddress, connectionsPerAddressDefault)
		}
		c.Dashboard.checkDashboard(&errs)
		c.checkCheckout(&errs)
	}
	if c.hasRole(RoleAPI, RoleApprovals) {
		need("keys.cursor", c.Keys.Cursor, "the key file that coffer keys create makes")
		c.checkApprovals(&errs)
	}
	if c.hasRole(RoleAPI, RoleApprovals, RoleWorkers) {
		need("keys.seal", c.Keys.Seal, "the keyset file that coffer keys create makes")
	}
	switch {
	case c.hasRole(RoleWorkers):
		need("keys.webhook", c.Keys.Webhook, "the key file that coffer keys create makes")
	case c.hasRole(RoleAPI) && c.Keys.WebhookPublic == "":
		need("keys.webhook_public", c.Keys.Webhook, "the webhook.pub file that coffer keys create makes")
	}
	c.Operator.checkOperator(c.Network, &errs)
	c.Console.checkConsole(c.Operator.Listen, &errs)
	if len(c.Chains) == 0 {
		bad("chains", "is empty; configure at least one, such as [chains.ETHEREUM]")
	}
	for name, ch := range c.Chains {
		ch.checkChain("chains."+string(name), name, c.asksChains(), &errs)
	}
	c.checkNetworks(&errs)
	c.checkMints(&errs)
	c.checkPrices(&errs)
	c.checkRisk(&errs)
	c.checkSwaps(&errs)
	c.Mail.Check(errs.addProblem, c.Network != chain.Mainnet)
	if c.Webhooks.Development && c.Network != chain.Local {
		bad("webhooks.development", "is for network LOCAL only: it allows webhooks to this machine")
	}
	return errs.joinProblems()
}

// remoteSetting returns the name of the setting that locates a remote signer.
func (s Signer) remoteSetting() string {
	if s.Socket != "" {
		return "socket"
	}
	return "address"
}

// checkSigner checks that a process can reach its signer, or is one.
func (c Config) checkSigner(errs *configErrors) {
	s := c.Signer
	files := strings.Join([]string{s.Seed, s.Wrap, s.Journal, s.Policy}, "")
	switch {
	case len(c.Roles) == 0 && s.isRemote() && files != "":
		errs.addProblem(
			"signer."+s.remoteSetting(),
			"is set together with files of a signer in this process; there is only one signer: remove one of them, "+
				"or say which roles this process has",
		)
	case c.hasRole(RoleSigner):
		errs.requireValue("signer.seed", s.Seed, "the seed file that coffer keys create makes, or set signer.socket")
		errs.requireValue("signer.wrap", s.Wrap, "the key file that encrypts the seed")
		errs.requireValue("signer.journal", s.Journal,
			"the signer's journal file, on a disk that no database backup rolls back")
		errs.requireValue("signer.policy", s.Policy, "the JSON file with the signer's limits")
		s.Serve.checkServe(errs)
	case s.Socket != "" && s.Address != "":
		errs.addProblem("signer.address",
			"is set together with signer.socket; there is only one signer: remove one of them")
	case s.Address != "":
		s.checkAddress(errs)
	case s.Socket == "":
		errs.addProblem(
			"signer.socket",
			"is missing; a process without the role signer has to name the address of the signer: its socket, or "+
				"signer.address",
		)
	}
}

// checkAddress checks how a signer on another host is reached and authenticated.
func (s Signer) checkAddress(errs *configErrors) {
	if _, _, err := net.SplitHostPort(s.Address); err != nil {
		errs.addProblem("signer.address", "%q is not a host with a port, such as signer.internal:8090", s.Address)
	}
	errs.requireValue("signer.tls.certificate", s.TLS.Certificate,
		"the certificate of this process; the signer accepts no connection without TLS")
	errs.requireValue("signer.tls.key", s.TLS.Key, "the key of signer.tls.certificate")
	switch {
	case s.TLS.Pin != "" && s.TLS.CA != "":
		errs.addProblem("signer.tls.pin",
			"is set together with signer.tls.ca; use one of them to recognize the signer")
	case s.TLS.Pin != "":
		if err := remote.CheckPin(s.TLS.Pin); err != nil {
			errs.addProblem("signer.tls.pin", "%v", err)
		}
	case s.TLS.CA == "":
		errs.addProblem(
			"signer.tls.ca",
			"is missing; set it to the CA of the signer's certificate, or signer.tls.pin to its key",
		)
	}
}

// checkServe checks where a signer serves other processes, and which.
func (s SignerServe) checkServe(errs *configErrors) {
	if s.Listen == "" {
		if s.Certificate != "" || s.Key != "" || s.CA != "" || len(s.Clients) > 0 {
			errs.addProblem("signer.serve.listen",
				"is missing although certificates and clients are set; set it to an address and a port")
		}
		return
	}
	if _, _, err := net.SplitHostPort(s.Listen); err != nil {
		errs.addProblem("signer.serve.listen", "%q is not an address with a port, such as 10.0.7.2:8090", s.Listen)
	}
	errs.requireValue("signer.serve.certificate", s.Certificate,
		"the certificate of this signer; it accepts no connection without TLS")
	errs.requireValue("signer.serve.key", s.Key, "the key of signer.serve.certificate")
	if len(s.Clients) == 0 {
		errs.addProblem("signer.serve.clients", "is empty; name each process that may ask, and what it may do")
	}
	names := map[string]bool{}
	for i, c := range s.Clients {
		path := fmt.Sprintf("signer.serve.clients[%d]", i)
		if c.Name == "" || names[c.Name] {
			errs.addProblem(path+".name", "is %q; every client needs its own, the common name of its "+
				"certificate", c.Name)
		}
		names[c.Name] = true
		if !remote.Permission(c.Permission).IsValid() {
			errs.addProblem(path+".may", "is %q; set it to READ, ISSUE or PAY", c.Permission)
		}
		if c.Pin == "" && s.CA == "" {
			errs.addProblem(
				path+".pin", "is missing, and so is signer.serve.ca; one of them is needed to recognize a client",
			)
		}
		if c.Pin != "" {
			if err := remote.CheckPin(c.Pin); err != nil {
				errs.addProblem(path+".pin", "%v", err)
			}
		}
	}
}

func (c Config) checkMints(errs *configErrors) {
	bad := errs.addProblem
	ids := map[int]bool{}
	tokens := map[[2]string]bool{}
	native := map[chain.Name]bool{}
	for i, m := range c.Mints {
		path := fmt.Sprintf("mints[%d] (%s on %s)", i, m.Symbol, m.Chain)
		if m.ID < 1 || ids[m.ID] {
			bad(path+".id", "is %d; every mint needs its own id above 0, which never changes", m.ID)
		}
		ids[m.ID] = true
		if _, ok := c.Chains[m.Chain]; !ok {
			bad(path+".chain", "%q is not configured under chains", m.Chain)
		}
		contract := m.Contract
		if contract == "" {
			native[m.Chain] = true
		} else if g := c.addressCodec(m.Chain); g != nil {
			if parsed, err := g.ParseContract(contract); err != nil {
				bad(
					path+".contract",
					"%q is not the address of a token there (%v); copy it from the issuer of the token, with its "+
						"checksum",
					contract, err,
				)
			} else {
				contract = string(parsed)
			}
		}
		if m.Program != "" && (m.Program != token2022 || m.Chain != chain.Solana || m.Contract == "") {
			bad(path+".program", "is %q; it has to be %s, for a token of SOLANA, or empty", m.Program, token2022)
		}
		for _, kind := range m.Extensions {
			if m.Program != token2022 || !solana.CanAllowExtension(kind) {
				bad(
					path+".extensions",
					"has %d; a token of %s may have 3, 4, 6, 10 or 12, because with any other the amount that "+
						"arrives can differ from the payment",
					kind, token2022,
				)
			}
		}
		if token := [2]string{string(m.Chain), contract}; tokens[token] {
			bad(path+".contract", "is the token of another mint, too; every token is one mint")
		} else {
			tokens[token] = true
		}
		if m.ConfirmationsRequired < 0 {
			bad(path+".confirmations_required", "is %d; it is for display and cannot be below 0",
				m.ConfirmationsRequired)
		}
		for setting, units := range map[string]string{"min_deposit": m.MinDeposit, "min_withdraw": m.MinWithdraw} {
			if n, err := money.Parse(units); err != nil || n.IsZero() {
				bad(path+"."+setting, "%q is not a number of atomic units above 0", units)
			}
		}
		if m.Symbol == "" || m.Name == "" {
			bad(path, "needs a symbol and a name")
		}
		c.checkReviewed(m, chain.Address(contract), path, errs)
	}
	for name := range c.Chains {
		if !native[name] {
			bad("mints", "the native coin of %s is missing; it pays the fees, so the books need it", name)
		}
	}
}

// checkNetworks compares chain ids with the built-in list. A signature for a chain id is valid
// wherever that id is used, so a test installation must not sign for a network with real money.
// Rule MINT-3.
func (c Config) checkNetworks(errs *configErrors) {
	bad := errs.addProblem
	chainsByID := map[uint64]chain.Name{}
	for _, name := range slices.Sorted(maps.Keys(c.Chains)) {
		switch name.Family() {
		case chain.EVM:
		case chain.SolanaFamily, chain.BitcoinFamily:
			c.checkGenesis(name, errs)
			continue
		default:
			continue
		}
		id, path := c.Chains[name].ChainID, "chains."+string(name)
		if sameID, twice := chainsByID[id]; twice && id != 0 {
			bad(path+".chain_id", "is %d, which %s has, too; every chain has its own", id, sameID)
		}
		chainsByID[id] = name
		known, listed := catalogue.Find(c.Network, name)
		real, ok := catalogue.ByChainID(id)
		switch {
		case c.Network == chain.Mainnet && listed && id != 0 && id != known.ChainID:
			bad(path+".chain_id", "is %d; %s is %d", id, known.Name, known.ChainID)
		case (c.Network == chain.Testnet || c.Network == chain.Local) && ok && real.Network == chain.Mainnet:
			bad(
				path+".chain_id",
				"is %d, which is %s, while network is %s; set network to MAINNET or use the chain id of a test network",
				id, real.Name, c.Network,
			)
		}
	}
}

// checkReviewed compares a mint with the built-in list, which has some of the existing tokens.
// Rule MINT-3.
func (c Config) checkReviewed(m Mint, contract chain.Address, path string, errs *configErrors) {
	network, isListed := c.knownNetwork(m.Chain)
	known, hasMint := network.ByContract(contract)
	switch {
	case m.Decimals < 0 || m.Decimals > 36:
		errs.addProblem(path+".decimals", "is %d; it has to be between 0 and 36", m.Decimals)
	case isListed && hasMint && m.Decimals != known.Decimals:
		errs.addProblem(path+".decimals", "is %d; %s on %s has %d", m.Decimals, known.Symbol, network.Name,
			known.Decimals)
	}
	if isListed && hasMint && m.Program != known.Program {
		errs.addProblem(path+".program", "is %q; that of %s on %s is %q", m.Program, known.Symbol, network.Name,
			known.Program)
	}
	if c.Network == chain.Local {
		return // it has its own tokens and ids
	}
	if ownerNetwork, owner, taken := catalogue.ByID(
		m.ID,
	); taken && !(isListed && ownerNetwork.Network == network.Network && ownerNetwork.Chain == network.Chain &&
		owner.Contract == contract) {
		errs.addProblem(path+".id", "is %d, which is always %s on %s; give this token an id from %d on", m.ID,
			owner.Symbol, ownerNetwork.Name, catalogue.CustomIDsFrom)
	}
}

// mintCatalogue converts the configured mints for the mint package. The configuration was checked.
func (c Config) mintCatalogue(chains chain.Chains) ([]mint.Mint, error) {
	var mints []mint.Mint
	for _, m := range c.Mints {
		kind, contract := mint.Native, chain.Address("")
		if m.Contract != "" {
			var err error
			if contract, err = chains[m.Chain].AddressCodec.ParseContract(m.Contract); err != nil {
				return nil, fmt.Errorf("mints: contract of mint %d: %w", m.ID, err)
			}
			kind = mint.Token
		}
		mints = append(mints, mint.Mint{
			ID: m.ID, Chain: m.Chain, Network: c.Network, Kind: kind, Contract: contract,
			Symbol: m.Symbol, Name: m.Name, Decimals: m.Decimals, LogoURL: m.LogoURL,
			DepositEnabled: m.DepositEnabled, WithdrawEnabled: m.WithdrawEnabled,
			MinDeposit: money.MustParse(m.MinDeposit), MinWithdraw: money.MustParse(m.MinWithdraw),
			ConfirmationsRequired: m.ConfirmationsRequired, Finality: m.Finality,
		})
	}
	return mints, nil
}

// fixedPrices returns the configured price table.
func (c Config) fixedPrices() map[int]money.USD {
	prices := map[int]money.USD{}
	for id, p := range c.Prices.Fixed {
		n, err := strconv.Atoi(id)
		if err != nil {
			panic("app: unchecked configuration: " + err.Error())
		}
		prices[n] = money.MustParseUSD(p)
	}
	return prices
}

// WriteConfig writes a configuration file with mode 0600.
func WriteConfig(path string, c Config) error {
	b, err := toml.Marshal(c)
	if err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	return os.WriteFile(path, b, 0o600)
}
