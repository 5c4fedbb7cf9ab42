package app

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/mail"
	"github.com/cofferpay/coffer/internal/platform/seal"
	"github.com/cofferpay/coffer/internal/price/chainlink"
	"github.com/cofferpay/coffer/internal/service"
	"github.com/cofferpay/coffer/internal/signer/keys"
)

// newSoundConfig returns a valid configuration.
func newSoundConfig() Config {
	c := DefaultConfig()
	c.Network = chain.Mainnet
	c.Database.URL = "postgres://coffer:pw@db/coffer"
	c.API.URL = "https://pay.example.com"
	c.Keys, c.Signer = KeyFiles("/keys")
	c.Chains = map[chain.Name]Chain{chain.Ethereum: {
		ChainID: 1, Endpoints: []string{"https://one.example.com", "https://two.example.com"}, Agree: 2,
		FeeCap: "200000000000",
	}}
	c.Mints = []Mint{
		{
			ID: 1, Chain: chain.Ethereum, Contract: "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48", Symbol: "USDC",
			Name: "USD Coin", Decimals: 6, MinDeposit: "1", MinWithdraw: "1",
		},
		{ID: 2, Chain: chain.Ethereum, Symbol: "ETH", Name: "Ether", Decimals: 18, MinDeposit: "1", MinWithdraw: "1"},
	}
	c.Prices.Fixed = map[string]string{"1": "0.9998"}
	return c
}

func TestASoundConfigurationIsTaken(t *testing.T) {
	t.Parallel()
	if err := newSoundConfig().Check(); err != nil {
		t.Errorf("got %v, want no error", err)
	}
	for _, o := range []Ops{
		{Listen: "localhost:8082"},
		{Listen: "[::1]:8082"},
		{Listen: "10.0.0.5:8082"},
		{Listen: "[fd00::5]:8082"},
		{Listen: "0.0.0.0:8082", Public: true},
	} {
		c := newSoundConfig()
		c.Ops = o
		if err := c.Check(); err != nil {
			t.Errorf("%+v: got %v, want no error", o, err)
		}
	}
	for _, o := range []Operator{
		{Listen: "127.0.0.1:8081"},
		{Listen: "[::1]:8081", Allow: []string{"::1", "127.0.0.1"}},
		{Listen: "10.0.0.1:8081", URL: "https://ops.example.com", Allow: []string{"10.0.0.7", "fd00::/8"}},
	} {
		c := newSoundConfig()
		c.Operator = o
		if err := c.Check(); err != nil {
			t.Errorf("%+v: got %v, want no error", o, err)
		}
	}
}

// mistake is a change of a valid configuration, with the setting that the error has to name and a
// word of the fix.
type mistake struct {
	setting, fix string
	change       func(*Config)
}

// mistakes are reported together when all of them are made.
var mistakes = []mistake{
	{"network", "MAINNET, TESTNET or LOCAL", func(c *Config) { c.Network = "MAIN" }},
	{"database.url", "database.url_file", func(c *Config) { c.Database.URL = "" }},
	{"database.max_conns", "at least 4", func(c *Config) { c.Database.MaxConns = 3 }},
	{"api.listen", "127.0.0.1:8080", func(c *Config) { c.API.Listen = "8080" }},
	{"ops.listen", "127.0.0.1:8080", func(c *Config) { c.Ops.Listen = "" }},
	{"api.url", "https", func(c *Config) { c.API.URL = "http://pay.example.com" }},
	{"operator.url", "https", func(c *Config) {
		c.Operator = Operator{Listen: "10.0.0.1:8081", Allow: []string{"10.0.0.0/8"}}
	}},
	{"mail.from", "Coffer <no-reply@pay.example.com>", func(c *Config) { c.Mail.Sender, c.Mail.Host = "x", "smtp" }},
	{"keys.seal", "coffer keys create", func(c *Config) { c.Keys.Seal = "" }},
	{"keys.attest", "coffer keys create", func(c *Config) { c.Keys.Attest = "" }},
	{"keys.webhook", "coffer keys create", func(c *Config) { c.Keys.Webhook = "" }},
	{"keys.cursor", "coffer keys create", func(c *Config) { c.Keys.Cursor = "" }},
	{"keys.approvals", "the same one", func(c *Config) { c.Keys.Approvals = "" }},
	{"signer.seed", "signer.socket", func(c *Config) { c.Signer.Seed = "" }},
	{"signer.wrap", "encrypts the seed", func(c *Config) { c.Signer.Wrap = "" }},
	{"signer.journal", "rolls back", func(c *Config) { c.Signer.Journal = "" }},
	{"signer.policy", "limits", func(c *Config) { c.Signer.Policy = "" }},
	{"mints[0] (USDC on ETHEREUM).id", "above 0", func(c *Config) { c.Mints[0].ID = 0 }},
	{"mints[0] (USDC on ETHEREUM).contract", "checksum", func(c *Config) {
		c.Mints[0].Contract = "0xa0B86991c6218b36c1d19D4a2e9Eb0cE3606eB48"
	}},
	{"mints[0] (USDC on ETHEREUM).min_deposit", "above 0", func(c *Config) { c.Mints[0].MinDeposit = "0" }},
	{"mints[0] (USDC on ETHEREUM).min_withdraw", "atomic units", func(c *Config) { c.Mints[0].MinWithdraw = "1.5" }},
	{"mints[0] (USDC on ETHEREUM).decimals", "between 0 and 36", func(c *Config) { c.Mints[0].Decimals = 37 }},
	{"mints[0] (USDC on ETHEREUM).confirmations_required", "below 0", func(c *Config) {
		c.Mints[0].ConfirmationsRequired = -1
	}},
	{"mints[1] (ETH on ETHEREUM)", "a symbol and a name", func(c *Config) { c.Mints[1].Name = "" }},
	{"chains.ETHEREUM.chain_id", "main network is 1", func(c *Config) {
		changeChain(c, func(ch *Chain) { ch.ChainID = 0 })
	}},
	{"chains.ETHEREUM.endpoints", "http or https", func(c *Config) {
		changeChain(c, func(ch *Chain) { ch.Endpoints[0] = "ws://secret-of-provider" })
	}},
	{"chains.ETHEREUM.agree", "between 1 and their number", func(c *Config) {
		changeChain(c, func(ch *Chain) { ch.Agree = 3 })
	}},
	{"chains.ETHEREUM.fee_cap", "200 gwei", func(c *Config) { changeChain(c, func(ch *Chain) { ch.FeeCap = "0.1" }) }},
	{"chains.ETHEREUM.tip_cap", "above 0", func(c *Config) { changeChain(c, func(ch *Chain) { ch.TipCap = "x" }) }},
	{"chains.ETHEREUM.payee_gas_max", "at most 979000", func(c *Config) {
		changeChain(c, func(ch *Chain) { ch.PayeeGasMax = 979_001 })
	}},
	{"chains.ETHEREUM.trace", "auto, on or off", func(c *Config) {
		changeChain(c, func(ch *Chain) { ch.Trace = "yes" })
	}},
	{"api.trusted_proxies", "networks of the proxies", func(c *Config) {
		c.API.TrustedProxies = []string{"10.0.0.1", "proxy.internal"}
	}},
	{"api.trusted_proxies", "every address", func(c *Config) { c.API.TrustedProxies = []string{"0.0.0.0/0"} }},
	{"api.trusted_proxies", "neither", func(c *Config) { c.API.TrustedProxies = []string{"::ffff:0.0.0.0/0"} }},
	{"api.limits.reads.count", "0 for no limit", func(c *Config) {
		c.API.Limits.Reads = &Rate{Count: -1, Period: Duration(time.Second), Burst: 1}
	}},
	{"api.limits.quotes.every", "such as 1s", func(c *Config) { c.API.Limits.Quotes = &Rate{Count: 1, Burst: 1} }},
	{"api.limits.exports.burst", "at once", func(c *Config) {
		c.API.Limits.Exports = &Rate{Count: 1, Period: Duration(time.Second)}
	}},
	{"api.limits.writes.count", "limits nothing", func(c *Config) {
		c.API.Limits.Writes = &Rate{Count: 1_000_000, Period: Duration(time.Millisecond), Burst: 1}
	}},
	{"prices.fixed", "mint id", func(c *Config) { c.Prices.Fixed["USDC"] = "1" }},
	{"prices.fixed.1", "0.9998", func(c *Config) { c.Prices.Fixed["1"] = "one" }},
	{"risk.providers", "never allowed for network MAINNET", func(c *Config) {
		c.Risk.Providers = append(c.Risk.Providers, "local")
	}},
	{"risk.providers", "is not a provider", func(c *Config) { c.Risk.Providers = append(c.Risk.Providers, "nobody") }},
	{"risk.quorum", "number of providers", func(c *Config) { c.Risk.Quorum = 7 }},
	{"risk.unknown_severity", "HOLD or LOW", func(c *Config) { c.Risk.UnknownSeverity = "NONE" }},
	{"risk.sanctioned_reject", "WARN or BLOCK", func(c *Config) { c.Risk.SanctionedReject = "block" }},
	{"risk.sanctions_floor", "ON or OFF", func(c *Config) { c.Risk.SanctionsFloor = "on" }},
	{"risk.chainalysis.key_file", "mode 0600", func(c *Config) {
		c.Risk.Providers = append(c.Risk.Providers, "chainalysis")
	}},
	{"risk.elliptic.secret_file", "mode 0600", func(c *Config) {
		c.Risk.Elliptic.Key = seal.NewSecret("k")
		c.Risk.Providers = append(c.Risk.Providers, "elliptic")
	}},
	{"risk.elliptic.severe", "rise", func(c *Config) { c.Risk.Elliptic.Medium = "9" }},
	{"risk.trm.counterparty_percent", "0 and 100", func(c *Config) {
		c.Risk.TRM.CounterpartyPercent = new(int)
		*c.Risk.TRM.CounterpartyPercent = 101
	}},
	{"risk.trm.url", "https", func(c *Config) { c.Risk.TRM.URL = "http://api.trmlabs.com" }},
	{"risk.trm_sanctions.rate.burst", "at once", func(c *Config) {
		c.Risk.TRMSanctions.Rate = &Rate{Count: 1, Period: Duration(time.Second)}
	}},
	{"risk.oracle.contracts", "among chains", func(c *Config) {
		c.Risk.Oracle.Contracts = map[string]string{"POLYGON": "0x40C57923924B5c5c5455c48D93317139ADDaC8fb"}
	}},
	{"prices.coingecko.coins", "mint id", func(c *Config) {
		c.Prices.CoinGecko.Coins = map[string]string{"02": "ethereum"}
	}},
	{"prices.oneclick.url", "URL", func(c *Config) { c.Prices.OneClick.URL = "1click" }},
	{"prices.coingecko.keep", "at most", func(c *Config) { c.Prices.CoinGecko.Keep = Duration(time.Hour) }},
	{"prices.required", "number of sources", func(c *Config) { c.Prices.Required = 5 }},
	{"risk.answers_kept", "at least", func(c *Config) { c.Risk.AnswersKept = Duration(24 * time.Hour) }},
	{"risk.rescreen.for", "at most", func(c *Config) { c.Risk.Rescreen.Window = Duration(367 * 24 * time.Hour) }},
	{"risk.rescreen.every", "at least", func(c *Config) { c.Risk.Rescreen.Interval = Duration(time.Minute) }},
	{"risk.rescreen.pace", "at most", func(c *Config) { c.Risk.Rescreen.Pace = Duration(2 * time.Hour) }},
	{"risk.keep", "at the latest", func(c *Config) { c.Risk.Keep = Duration(8 * 24 * time.Hour) }},
	{"swaps.pay_window", "at most", func(c *Config) { c.Swaps.PayWindow = Duration(7 * time.Hour) }},
	{"swaps.pay_window_bitcoin", "at most", func(c *Config) { c.Swaps.PayWindowBitcoin = Duration(7 * time.Hour) }},
	{"swaps.max_loss_bps", "a tenth", func(c *Config) {
		c.Swaps.MaxLossBps = new(int)
		*c.Swaps.MaxLossBps = 1001
	}},
	{"swaps.delayed_after", "at least", func(c *Config) { c.Swaps.DelayedAfter = Duration(time.Second) }},
	{"swaps.stuck_after", "at most", func(c *Config) { c.Swaps.StuckAfter = Duration(31 * 24 * time.Hour) }},
	{"swaps.refund_grace", "at most", func(c *Config) { c.Swaps.RefundGrace = Duration(25 * time.Hour) }},
	{"swaps.providers.one_click.url", "URL", func(c *Config) { c.Swaps.Providers.AddOneClick("1click", nil, nil) }},
	{"swaps.providers.relay.quotes_per_minute", "no limit", func(c *Config) {
		c.Swaps.Providers.Relay = newRelaySection()
		c.Swaps.Providers.Relay.Quotes = new(int)
		*c.Swaps.Providers.Relay.Quotes = -1
	}},
	{"swaps.providers.relay.outstanding_usd_max", "above 0", func(c *Config) {
		if c.Swaps.Providers.Relay == nil {
			c.Swaps.Providers.Relay = newRelaySection()
		}
		c.Swaps.Providers.Relay.OutstandingUSDMax = new(money.USD)
	}},
	{"webhooks.development", "LOCAL only", func(c *Config) { c.Webhooks.Development = true }},
	{"log.level", "debug, info, warn or error", func(c *Config) { c.Log.Level = "loud" }},
}

// alone are mistakes that each need their own section.
var alone = []mistake{
	mailMistake("mail.host", "mail.files", func(c *mail.Config) { c.Host = "" }),
	mailMistake("mail.host", "mail.port", func(c *mail.Config) { c.Host = "smtp.example.com:587" }),
	mailMistake("mail.host", "mail.port", func(c *mail.Config) { c.Host = "smtp://smtp.example.com" }),
	mailMistake("mail.port", "465", func(c *mail.Config) { c.Port = 65536 }),
	mailMistake("mail.password_file", "mail.user", func(c *mail.Config) { c.User = "coffer" }),
	mailMistake("mail.user", "mail.password_file", func(c *mail.Config) { c.PasswordFile = "secrets/smtp" }),
	mailMistake("mail.files", "remove one", func(c *mail.Config) { c.Files = "mail" }),
	mailMistake("mail.files", "MAINNET", func(c *mail.Config) { c.Host, c.Files = "", "mail" }),
	mailMistake("mail.from", "no-reply@", func(c *mail.Config) { c.Sender = "a@example.com, b@example.com" }),
	mailMistake("mail.from", "no-reply@", func(c *mail.Config) { c.Sender = "Coffer <a@example.com>\nX: y" }),
	{"ops.listen", "ops.public", func(c *Config) { c.Ops.Listen = "0.0.0.0:8082" }},
	{"ops.listen", "ops.public", func(c *Config) { c.Ops.Listen = ":8082" }},
	{"ops.listen", "ops.public", func(c *Config) { c.Ops.Listen = "[::]:8082" }},
	{"ops.listen", "ops.public", func(c *Config) { c.Ops.Listen = "203.0.113.5:8082" }},
	{"ops.listen", "ops.public", func(c *Config) { c.Ops.Listen = "ops.example.com:8082" }},
	{"api.max_connections", "more than 0", func(c *Config) { c.API.MaxConnections = -1 }},
	{"api.max_connections_per_address", "more than 0", func(c *Config) { c.API.MaxConnectionsPerAddress = -1 }},
	{"operator.trusted_proxies", "every address", func(c *Config) {
		c.Operator = Operator{Listen: "127.0.0.1:8081", TrustedProxies: []string{"0.0.0.0/0"}}
	}},
	{"operator.listen", "127.0.0.1:8081", func(c *Config) { c.Operator.Listen = "8081" }},
	{"operator.listen", "remove them", func(c *Config) { c.Operator.Allow = []string{"10.0.0.0/8"} }},
	{"operator.allow", "not on this machine", func(c *Config) {
		c.Operator = Operator{Listen: "0.0.0.0:8081", URL: "https://ops.example.com"}
	}},
	{"operator.allow", "every address", func(c *Config) {
		c.Operator = Operator{Listen: "127.0.0.1:8081", Allow: []string{"0.0.0.0/0"}}
	}},
	{"prices.chainlink.2.chain", "among chains", func(c *Config) {
		feed(c, func(f *chainlink.FeedConfig) { f.Chain = "MOON" })
	}},
	{"prices.chainlink.2.contract", "checksum", func(c *Config) {
		feed(c, func(f *chainlink.FeedConfig) { f.Contract = strings.ToLower(f.Contract) + "0" })
	}},
	{"prices.chainlink.2.sequencer", "checksum", func(c *Config) {
		feed(c, func(f *chainlink.FeedConfig) { f.Sequencer = "0x" })
	}},
	{"prices.chainlink.2.heartbeat", "feed's page", func(c *Config) {
		feed(c, func(f *chainlink.FeedConfig) { f.Heartbeat = 0 })
	}},
	{"swaps.stuck_after", "delayed before it is stuck", func(c *Config) {
		c.Swaps.DelayedAfter, c.Swaps.StuckAfter = Duration(2*time.Hour), Duration(time.Hour)
	}},
	{"swaps.providers.one_click.url", "https on a main network", func(c *Config) {
		c.Swaps.Providers.AddOneClick("http://127.0.0.1:9000", nil, nil)
	}},
	{"swaps.providers.relay.url", "https on a main network", func(c *Config) {
		c.Swaps.Providers.Relay = newRelaySection()
		c.Swaps.Providers.Relay.URL = "http://127.0.0.1:9000"
	}},
	{"swaps.providers.one_click.assets", "only a local world has", func(c *Config) {
		c.Swaps.Providers.AddOneClick("", nil, map[string]string{"BITCOIN:native": "local:bitcoin:native"})
	}},
	{"swaps.providers.one_click.assets", "is not a token", func(c *Config) {
		c.Swaps.Providers.AddOneClick("", nil, map[string]string{"bitcoin": "nep141:btc.omft.near"})
	}},
	{"swaps.providers.one_click.keys", "key", func(c *Config) {
		c.Swaps.Providers.AddOneClick("", []string{"ed25519:0"}, nil)
	}},
	{"prices.required", "give it more", func(c *Config) { c.Prices.Required = 2 }},
	{"risk.providers", "twice", func(c *Config) { c.Risk.Providers = []string{"ofac", "ofac"} }},
	{"risk.oracle.contracts", "checksum", func(c *Config) {
		c.Risk.Oracle.Contracts = map[string]string{"ETHEREUM": "0x40c57923924B5c5c5455c48D93317139ADDaC8fb"}
	}},
	{"risk.sanctions_floor", "no sanctions list", func(c *Config) { c.Risk.SanctionsFloor = "ON" }},
	{"operator.whitelist_cooling_off", "length of time", func(c *Config) { c.Operator.WhitelistCoolingOff = "a day" }},
	{"operator.whitelist_cooling_off", "from 0s", func(c *Config) { c.Operator.WhitelistCoolingOff = "-1h" }},
	{"operator.whitelist_cooling_off", "720h", func(c *Config) { c.Operator.WhitelistCoolingOff = "721h" }},
	{"operator.allow", "is not an address", func(c *Config) {
		c.Operator = Operator{Listen: "127.0.0.1:8081", Allow: []string{"office"}}
	}},
}

// mailMistake is a change of a valid section for mails.
func mailMistake(setting, fix string, change func(*mail.Config)) mistake {
	return mistake{setting, fix, func(c *Config) {
		c.Mail = mail.Config{Sender: "Coffer <no-reply@pay.example.com>", Host: "smtp.example.com"}
		change(&c.Mail)
	}}
}

// Only the workers send mails, and only where the section is there. The password is in its own file.
// Rule MAIL-4.
func TestMailsAreSentWhereTheSectionSaysSo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := newSoundConfig()
	c.Keys, c.Signer = KeyFiles(filepath.Join(dir, "keys"))
	if err := CreateKeys(c.Keys, c.Signer); err != nil {
		t.Fatal(err)
	}
	c.Mail = mail.Config{
		Sender: "Coffer <no-reply@pay.example.com>", Host: "smtp.example.com", User: "coffer", PasswordFile: "smtp",
	}
	file := filepath.Join(dir, "coffer.toml")
	if err := WriteConfig(file, c); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadConfig(file); !strings.Contains(problemText(err, "mail.password_file"), "does not exist") {
		t.Errorf("got %v, want the missing password told", err)
	}
	if _, err := ReadConfig(file, RoleAPI); problemText(err, "mail.password_file") != "" {
		t.Errorf("a process that sends none: got %v, want it to need no password", err)
	}
	write(t, filepath.Join(dir, "smtp"), "hunter2\n")
	c, err := ReadConfig(file)
	if err != nil || c.Mail.Password.Reveal() != "hunter2" {
		t.Fatalf("got %v, want the password of the file", err)
	}
	sends := func(change func(*Config)) bool {
		t.Helper()
		conf := c
		change(&conf)
		a := newApp(conf, slog.New(slog.DiscardHandler), func() error { return nil })
		attest, err := keys.ReadAttestKey(conf.Keys.Attest)
		if err := errors.Join(err, a.openWebhookKeys(), a.openMail()); err != nil {
			t.Fatal(err)
		}
		a.parts.AttestKey = attest
		a.Service = service.New(service.Config{NoRescreening: true}, a.parts)
		found := a.Service.MailSender != nil
		loop := slices.ContainsFunc(a.WorkerLoops(), func(l service.Loop) bool { return l.Name == "mail" })
		if found != loop {
			t.Errorf("got a sender %v and its loop %v, want both or none", found, loop)
		}
		return found
	}
	for name, m := range map[string]struct {
		change func(*Config)
		want   bool
	}{
		"a server":        {func(*Config) {}, true},
		"files":           {func(c *Config) { c.Mail = mail.Config{Sender: c.Mail.Sender, Files: dir} }, true},
		"no section":      {func(c *Config) { c.Mail = mail.Config{} }, false},
		"the role api":    {func(c *Config) { c.Roles = []Role{RoleAPI} }, false},
		"the role worker": {func(c *Config) { c.Roles = []Role{RoleWorkers} }, true},
	} {
		if got := sends(m.change); got != m.want {
			t.Errorf("%s: got %v, want %v", name, got, m.want)
		}
	}
	local := c
	local.Network, local.Mail = chain.Local, mail.Config{Sender: "a@example.com", Files: "mail"}
	if err := local.Check(); problemText(err, "mail.files") != "" {
		t.Errorf("files on a local network: got %v, want them", err)
	}
}

// feed adds a valid feed and changes it.
func feed(c *Config, change func(*chainlink.FeedConfig)) {
	f := chainlink.FeedConfig{
		Chain: chain.Ethereum, Contract: "0x5f4eC3Df9cbd43714FE2740f5E3616155c5b8419", Heartbeat: Duration(time.Hour),
	}
	change(&f)
	c.Prices.Chainlink = chainlink.Config{"2": f}
}

func changeChain(c *Config, change func(*Chain)) {
	ch := c.Chains[chain.Ethereum]
	change(&ch)
	c.Chains[chain.Ethereum] = ch
}

// problemText finds the line of an error that is about a setting.
func problemText(err error, setting string) string {
	if err == nil {
		return ""
	}
	for line := range strings.Lines(err.Error()) {
		if strings.HasPrefix(line, setting+": ") {
			return line
		}
	}
	return ""
}

// Rule RISK-10, among others.
func TestAMistakeIsToldByItsSettingAndItsFix(t *testing.T) {
	t.Parallel()
	for _, m := range slices.Concat(mistakes, alone) {
		c := newSoundConfig()
		m.change(&c)
		err := c.Check()
		if line := problemText(err, m.setting); !strings.Contains(line, m.fix) ||
			strings.Count(err.Error(), "\n") != 0 {
			t.Errorf("%s: got %v, want one line of it with %q", m.setting, err, m.fix)
		}
	}
	for setting, c := range map[string]func(*Config){
		"mints":                   func(c *Config) { c.Mints = c.Mints[:1] },
		"chains":                  func(c *Config) { c.Chains, c.Mints = nil, nil },
		"chains.TRON":             func(c *Config) { c.Chains["TRON"] = c.Chains[chain.Ethereum] },
		"chains.BITCOIN.chain_id": func(c *Config) { c.Chains["BITCOIN"] = c.Chains[chain.Ethereum] },
		"chains.SOLANA.fee_cap":   func(c *Config) { c.Chains["SOLANA"] = c.Chains[chain.Ethereum] },
		"chains.ETHEREUM.genesis": func(c *Config) {
			changeChain(c, func(ch *Chain) { ch.Genesis = "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d" })
		},
		"signer.socket":                        func(c *Config) { c.Signer.Socket = "/run/signer.sock" },
		"api.url":                              func(c *Config) { c.API.URL = "pay.example.com" },
		"mints[2] (USDC on ETHEREUM).id":       func(c *Config) { c.Mints = append(c.Mints, c.Mints[0]) },
		"mints[2] (USDC on ETHEREUM).contract": func(c *Config) { c.Mints = append(c.Mints, c.Mints[0]) },
		"mints[0] (USDC on BASE).chain":        func(c *Config) { c.Mints[0].Chain = chain.Base },
		"chains.ETHEREUM.endpoints": func(c *Config) {
			changeChain(c, func(ch *Chain) {
				ch.Endpoints = []string{"https://one.example.com", "https://one.example.com"}
			})
		},
		"chains.ETHEREUM.tip_cap": func(c *Config) { changeChain(c, func(ch *Chain) { ch.TipCap = "200000000001" }) },
		"chains.BITCOIN.endpoints": func(c *Config) {
			*c = three()
			c.Chains[chain.Bitcoin] = Chain{Endpoints: []string{"esplora+https://one.example.com/api"}, Agree: 1}
		},
		"chains.SOLANA.endpoints": func(c *Config) {
			*c = three()
			c.Chains[chain.Solana] = Chain{
				Endpoints: []string{"https://one.example.com", "esplora+https://one.example.com/api"}, Agree: 1,
			}
		},
	} {
		conf := newSoundConfig()
		c(&conf)
		if err := conf.Check(); problemText(err, setting) == "" {
			t.Errorf("%s: got %v, want a line of it", setting, err)
		}
	}
}

// three returns a valid configuration with a chain of each family.
func three() Config {
	c := newSoundConfig()
	c.Chains[chain.Solana] = Chain{
		Endpoints: []string{"https://one.example.com/sol", "https://two.example.com/sol"}, Agree: 2,
	}
	c.Chains[chain.Bitcoin] = Chain{
		Endpoints: []string{"https://u:p@one.example.com", "esplora+https://two.example.com/api"}, Agree: 2,
	}
	c.Mints = append(
		c.Mints,
		Mint{
			ID: 801, Chain: chain.Solana, Symbol: "SOL", Name: "Solana", Decimals: 9, MinDeposit: "1", MinWithdraw: "1",
		},
		Mint{
			ID: 802, Chain: chain.Solana, Contract: "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v", Symbol: "USDC",
			Name: "USD Coin", Decimals: 6, MinDeposit: "1", MinWithdraw: "1",
		},
		Mint{
			ID: 901, Chain: chain.Bitcoin, Symbol: "BTC", Name: "Bitcoin", Decimals: 8, MinDeposit: "1",
			MinWithdraw: "1",
		},
	)
	return c
}

// Each family has its own settings, and a network without a chain id is identified by its first
// block.
func TestWhatIsWrongWithSolanaAndBitcoinIsTold(t *testing.T) {
	t.Parallel()
	if err := three().Check(); err != nil {
		t.Fatalf("got %v, want no error", err)
	}
	of := func(name chain.Name, change func(*Chain)) func(*Config) {
		return func(c *Config) {
			ch := c.Chains[name]
			change(&ch)
			c.Chains[name] = ch
		}
	}
	const devnet, regtest = "EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG",
		"0f9188f13cb7b2c71f2a335e3a4fc328bf5beb436012afca590b1a11466e2206"
	for name, c := range map[string]struct {
		setting, fix string
		change       func(*Config)
	}{
		"another network": {"chains.SOLANA.genesis", "the first block of Solana is 5eykt", of(chain.Solana, func(ch *Chain) {
			ch.Genesis = devnet
		})},
		"another Bitcoin": {"chains.BITCOIN.genesis", "the first block of Bitcoin is 00000000", of(chain.Bitcoin,
			func(ch *Chain) { ch.Genesis = regtest })},
		"half a hash": {"chains.SOLANA.genesis", "not the hash", of(chain.Solana, func(ch *Chain) {
			ch.Genesis = "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"
		})},
		"a hash in capitals": {"chains.BITCOIN.genesis", "not the hash", of(chain.Bitcoin, func(ch *Chain) {
			ch.Genesis = strings.ToUpper(regtest)
		})},
		"a test with money": {"chains.SOLANA.genesis", "while network is TESTNET", func(c *Config) {
			c.Network = chain.Testnet
			of(chain.Solana, func(ch *Chain) { ch.Genesis = "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d" })(c)
		}},
		"a local one without": {"chains.SOLANA.genesis", "getGenesisHash", func(c *Config) {
			c.Network = chain.Local
		}},
		"gas": {"chains.SOLANA.fee_cap", "remove it", of(chain.Solana, func(ch *Chain) {
			ch.FeeCap = "1"
		})},
		"a depth": {"chains.SOLANA.depth", "remove it", of(chain.Solana, func(ch *Chain) {
			ch.Depth = 1
		})},
		"costs below a new account": {"chains.SOLANA.cost_max", "2084080", of(chain.Solana, func(ch *Chain) {
			ch.CostMax = "2084079"
		})},
		"costs in SOL": {"chains.SOLANA.cost_max", "0.01 SOL", of(chain.Solana, func(ch *Chain) {
			ch.CostMax = "0.01"
		})},
		"an account idle for an hour": {"chains.SOLANA.close_idle_after", "720h", of(chain.Solana, func(ch *Chain) {
			ch.CloseIdle = "1h"
		})},
		"an account idle for a word": {"chains.SOLANA.close_idle_after", "0s", of(chain.Solana, func(ch *Chain) {
			ch.CloseIdle = "never"
		})},
		"an idle coin": {"chains.BITCOIN.close_idle_after", "remove it", of(chain.Bitcoin,
			func(ch *Chain) { ch.CloseIdle = "720h" })},
		"a price beyond sense": {"chains.SOLANA.price_max", "millionths", of(chain.Solana, func(ch *Chain) {
			ch.PriceMax = 1e13
		})},
		"a depth of years": {"chains.BITCOIN.depth", "at most", of(chain.Bitcoin, func(ch *Chain) {
			ch.Depth = 1e6
		})},
		"a tier of another chain": {"chains.SOLANA.tiers", "remove it", of(chain.Solana, func(ch *Chain) {
			ch.Tiers = []Tier{}
		})},
		"a tier of no amount": {"chains.BITCOIN.tiers[0].above", "satoshi", of(chain.Bitcoin, func(ch *Chain) {
			ch.Tiers = []Tier{{AmountAbove: "1.5", Depth: 6}}
		})},
		"a tier of every amount": {"chains.BITCOIN.tiers[0].above", "above 0", of(chain.Bitcoin, func(ch *Chain) {
			ch.Tiers = []Tier{{AmountAbove: "0", Depth: 6}}
		})},
		"a tier that is no more": {"chains.BITCOIN.tiers[0].depth", "more than depth", of(chain.Bitcoin,
			func(ch *Chain) { ch.Tiers = []Tier{{AmountAbove: "5", Depth: 3}} })},
		"more for less": {"chains.BITCOIN.tiers[1].depth", "before it", of(chain.Bitcoin,
			func(ch *Chain) { ch.Tiers = []Tier{{AmountAbove: "5", Depth: 6}, {AmountAbove: "6", Depth: 5}} })},
		"tiers in no order": {"chains.BITCOIN.tiers[1].above", "before", of(chain.Bitcoin, func(ch *Chain) {
			ch.Tiers = []Tier{{AmountAbove: "5", Depth: 6}, {AmountAbove: "5", Depth: 7}}
		})},
		"costs in BTC": {"chains.BITCOIN.cost_max", "0.002 BTC", of(chain.Bitcoin, func(ch *Chain) {
			ch.CostMax = "0.002"
		})},
		"a rate beyond sense": {"chains.BITCOIN.rate_max", "thousand virtual bytes", of(chain.Bitcoin,
			func(ch *Chain) { ch.RateMax = 1e8 })},
		"rates that cross": {"chains.BITCOIN.rate_min", "more than rate_max", of(chain.Bitcoin,
			func(ch *Chain) { ch.RateMin, ch.RateMax = 20_000, 10_000 })},
		"an unusual rate": {"chains.BITCOIN.rate_usual", "thousand virtual bytes", of(chain.Bitcoin,
			func(ch *Chain) { ch.RateUsual = 1e8 })},
		"a merge rate of none": {"chains.BITCOIN.merge_rate", "thousand virtual bytes", of(chain.Bitcoin,
			func(ch *Chain) { ch.MergeRate = 1e8 })},
		"too many in flight": {"chains.ETHEREUM.in_flight_max", "at most 8192", of(chain.Ethereum,
			func(ch *Chain) { ch.InFlightMax = 8193 })},
		"less than none in flight": {"chains.BITCOIN.in_flight_max", "at most 8192", of(chain.Bitcoin,
			func(ch *Chain) { ch.InFlightMax = -1 })},
		"more unmined than in flight": {"chains.ETHEREUM.unmined_max", "in_flight_max, 8", of(chain.Ethereum,
			func(ch *Chain) { ch.InFlightMax, ch.UnminedMax = 8, 9 })},
		"too many unmined": {"chains.SOLANA.unmined_max", "in_flight_max, 1024", of(chain.Solana,
			func(ch *Chain) { ch.UnminedMax = 1025 })},
		"a merge of one": {"chains.BITCOIN.merge_from", "from 2 to", of(chain.Bitcoin, func(ch *Chain) {
			ch.MergeFrom = 1
		})},
		"a merge elsewhere": {"chains.SOLANA.merge_from", "remove it", of(chain.Solana, func(ch *Chain) {
			ch.MergeFrom = 3
		})},
		"a target of a month": {"chains.BITCOIN.target", "number of blocks", of(chain.Bitcoin, func(ch *Chain) {
			ch.Target = 5000
		})},
		"a form that is none": {"chains.BITCOIN.addresses", "segwit or taproot", of(chain.Bitcoin,
			func(ch *Chain) { ch.Addresses = "TAPROOT" })},
		"a form elsewhere": {"chains.ETHEREUM.addresses", "remove it", of(chain.Ethereum, func(ch *Chain) {
			ch.Addresses = "segwit"
		})},
		"a form on Solana": {"chains.SOLANA.addresses", "remove it", of(chain.Solana, func(ch *Chain) {
			ch.Addresses = "taproot"
		})},
		"a target elsewhere": {"chains.SOLANA.target", "remove it", of(chain.Solana, func(ch *Chain) {
			ch.Target = 3
		})},
		"a mint off the curve": {
			"mints[3] (USDC on SOLANA).contract",
			"not the address of a token",
			func(c *Config) { c.Mints[3].Contract = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA" },
		},
		"an address of Ethereum": {
			"mints[3] (USDC on SOLANA).contract",
			"not the address of a token", func(c *Config) { c.Mints[3].Contract = c.Mints[0].Contract },
		},
		"decimals": {"mints[3] (USDC on SOLANA).decimals", "has 6", func(c *Config) {
			c.Mints[3].Decimals = 9
		}},
		"another program": {
			"mints[3] (USDC on SOLANA).program",
			`that of USDC on Solana is ""`, func(c *Config) { c.Mints[3].Program = "TOKEN_2022" },
		},
		"an extension of nothing": {"mints[3] (USDC on SOLANA).extensions", "TOKEN_2022", func(c *Config) {
			c.Mints[3].Extensions = []uint16{12}
		}},
		"a program of nobody": {"mints[3] (USDC on SOLANA).program", "TOKEN_2022", func(c *Config) {
			c.Mints[3].Program = "SPL"
		}},
		"a token of Bitcoin": {"mints[4] (BTC on BITCOIN).contract", "no tokens on Bitcoin", func(c *Config) {
			c.Mints[4].Contract = "x"
		}},
		"no coin": {"mints", "native coin of SOLANA", func(c *Config) {
			c.Mints = slices.Delete(c.Mints, 2, 3)
		}},
		"an id of another token": {"mints[4] (BTC on BITCOIN).id", "always USDT on Solana", func(c *Config) {
			c.Mints[4].ID = 803
		}},
	} {
		conf := three()
		c.change(&conf)
		if line := problemText(conf.Check(), c.setting); !strings.Contains(line, c.fix) {
			t.Errorf("%s: got %q of %v, want a word of %q", name, line, conf.Check(), c.fix)
		}
	}
}

// Rule DEP-44, of the setting.
func TestNewAddressesHaveTheFormThatIsConfigured(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]chain.Form{"": chain.Usual, "segwit": chain.Usual, "taproot": chain.Taproot} {
		c := three()
		ch := c.Chains[chain.Bitcoin]
		ch.Addresses = word
		c.Chains[chain.Bitcoin] = ch
		if err := c.Check(); err != nil {
			t.Errorf("%q: got %v, want no error", word, err)
		}
		// A process that issues addresses need not ask the chain.
		c.Roles, c.Chains = []Role{RoleAPI}, map[chain.Name]Chain{chain.Bitcoin: {Addresses: word}}
		a := newApp(c, slog.New(slog.DiscardHandler), func() error { return nil })
		if err := a.openChains(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := a.parts.Chains[chain.Bitcoin].Addresses; got != want {
			t.Errorf("%q: got form %q, want %q", word, got, want)
		}
	}
}

// The signer's policy and the service use the same names for networks.
func TestASignerOfAnotherNetworkIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "policy.json")
	policy := func(solana, fee, bitcoin, satoshi string) Config {
		write(t, path, `{"chains": {
			"ETHEREUM": {"signerId": "1", "feeMax": "1000000000000000000", "gasMax": "1"},
			"SOLANA": {"signerId": "`+solana+`", "feeMax": "`+fee+`", "gasMax": "1"},
			"BITCOIN": {"signerId": "`+bitcoin+`", "feeMax": "`+satoshi+`", "mergeRateMax": "3000", "gasMax": "1"}}}`)
		c := three()
		c.Signer.Policy = path
		return c
	}
	const mainnet, devnet = "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d",
		"EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG"
	const first, regtest = "000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f",
		"0f9188f13cb7b2c71f2a335e3a4fc328bf5beb436012afca590b1a11466e2206"
	if err := policy(mainnet, "10000000", first, "5000000").checkPolicy(); err != nil {
		t.Errorf("got %v, want no error", err)
	}
	dear := policy(mainnet, "10000000", first, "5000000")
	on := dear.Chains[chain.Bitcoin]
	on.MergeRate = 3001
	dear.Chains[chain.Bitcoin] = on
	if err := dear.checkPolicy(); err == nil || !strings.Contains(err.Error(), "chains.BITCOIN.merge_rate: is 3001") {
		t.Errorf("got %v, want a merge rate refused that is above the policy's", err)
	}
	for _, c := range []struct{ solana, fee, bitcoin, satoshi, want string }{
		{devnet, "10000000", first, "5000000", "chains.SOLANA: is the network 5eykt"},
		{mainnet, "10000000", first, "4999999", "chains.BITCOIN.cost_max: any transaction"},
		{mainnet, "9999999", first, "5000000", "chains.SOLANA.cost_max: any transaction"},
		{mainnet, "10000000", regtest, "5000000", "chains.BITCOIN: is the network 00000000001"},
		{mainnet[:32], "10000000", first, "5000000", "the network's first block"},
	} {
		if err := policy(c.solana, c.fee, c.bitcoin, c.satoshi).checkPolicy(); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}

// The signer knows a main network by its id if the program lists it; the configuration says what
// every other network is.
func TestAPolicyWithoutLimitsIsRefusedOnAMainNetwork(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "policy.json")
	for _, c := range []struct {
		network chain.Network
		id      string
		refused bool
	}{
		{chain.Mainnet, "1", true},
		{chain.Mainnet, "31337", true},
		{chain.Local, "1", true},
		{chain.Local, "31337", false},
		{chain.Testnet, "11155111", false},
	} {
		for _, unlimited := range []string{`"unlimited": true`, `"assets": {"": {"unlimited": true}}`} {
			write(
				t, path,
				`{"chains": {"ETHEREUM": {"signerId": "`+c.id+`", "feeMax": "1", "gasMax": "1", `+unlimited+`}}}`,
			)
			conf := Config{Network: c.network, Signer: Signer{Policy: path}}
			if err := conf.checkPolicy(); (err != nil) != c.refused ||
				c.refused && !strings.Contains(err.Error(), "unlimited") {
				t.Errorf("%s with signerId %s and %s: got %v, want it refused: %v", c.network, c.id, unlimited, err,
					c.refused)
			}
		}
	}
}

func TestEveryMistakeIsToldAtOnceAndNoSecretWithIt(t *testing.T) {
	t.Parallel()
	c := newSoundConfig()
	for _, m := range mistakes {
		m.change(&c)
	}
	err := c.Check()
	for _, m := range mistakes {
		if problemText(err, m.setting) == "" {
			t.Errorf("%s: not among what is told", m.setting)
		}
	}
	if err == nil || strings.Contains(err.Error(), "secret-of-provider") {
		t.Errorf("got %v, want it without the address of a provider", err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsWrittenIsReadBack(t *testing.T) {
	t.Parallel()
	want := newSoundConfig()
	want.Chains[chain.Ethereum] = Chain{
		ChainID: 1, Endpoints: []string{"https://one.example.com"}, Agree: 1, Depth: 64, FeeCap: "200000000000",
		TipCap: "1", StartHeight: 7, Trace: "on", PayeeGasMax: 150_000,
	}
	want.Database.OwnerURL = "postgres://owner@db/coffer"
	want.Intervals.Scan = Duration(1500 * time.Millisecond)
	want.Log = Log{Level: "debug", JSON: true}
	path := filepath.Join(t.TempDir(), "coffer.toml")
	if err := WriteConfig(path, want); err != nil {
		t.Fatal(err)
	}
	got, err := ReadConfig(path)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v %v, want %+v", got, err, want)
	}
	if s, err := os.Stat(path); err != nil || s.Mode().Perm() != 0o600 {
		t.Errorf("got %v %v, want mode 0600", s, err)
	}
}

func TestAnUnknownSettingIsShownWithItsLine(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "coffer.toml")
	write(t, path, "network = \"MAINNET\"\n[database]\nurll = \"x\"\n[api]\nport = 5\n")
	_, err := ReadConfig(path)
	if err == nil {
		t.Fatal("got no error, want two settings that do not exist")
	}
	for _, want := range []string{path, "3| urll", "5| port"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
	write(t, path, "network = \"MAINNET\"\n[paces]\nscan = \"-1s\"\n")
	if _, err := ReadConfig(path); err == nil || !strings.Contains(err.Error(), "3| scan") {
		t.Errorf("got %v, want the line of the length of time", err)
	}
	write(t, path, "network = \n")
	if _, err := ReadConfig(path); err == nil || !strings.Contains(err.Error(), "1| network") {
		t.Errorf("got %v, want the line that is no TOML", err)
	}
}

// settle writes a valid configuration whose secrets are in files.
func settle(t *testing.T, dir string) string {
	t.Helper()
	c := newSoundConfig()
	c.Database = Database{
		URLFile: "db/url", ReadURLFile: "db/read", OwnerURLFile: filepath.Join(dir, "owner"), MaxConns: 20,
	}
	c.Keys, c.Signer = KeyFiles("keys")
	c.Chains[chain.Ethereum] = Chain{ChainID: 1, EndpointsFile: "endpoints", Agree: 2, FeeCap: "200000000000"}
	path := filepath.Join(dir, "coffer.toml")
	if err := WriteConfig(path, c); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSecretsComeFromFilesBesideTheConfiguration(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := settle(t, dir)
	if err := os.Mkdir(filepath.Join(dir, "db"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "db", "url"), "postgres://coffer:pw@db/coffer\n")
	write(t, filepath.Join(dir, "db", "read"), "postgres://coffer:pw@replica/coffer\n")
	write(t, filepath.Join(dir, "owner"), "postgres://owner@db/coffer\n")
	write(t, filepath.Join(dir, "endpoints"), "https://one.example.com\nhttps://two.example.com\n")
	got, err := ReadConfig(path)
	if err != nil {
		t.Fatal(err)
	}
	if got.Database.URL != "postgres://coffer:pw@db/coffer" || got.Database.OwnerURL != "postgres://owner@db/coffer" ||
		got.Database.ReadURL != "postgres://coffer:pw@replica/coffer" {
		t.Errorf("got %+v, want the contents of the files", got.Database)
	}
	if n := got.Chains[chain.Ethereum].Endpoints; len(n) != 2 || n[1] != "https://two.example.com" {
		t.Errorf("got %v, want two endpoints", n)
	}
	if want := filepath.Join(dir, "keys", "seed.sealed"); got.Signer.Seed != want ||
		got.Keys.Seal != filepath.Join(dir, "keys", "seal.key") {
		t.Errorf("got %v, want %v", got.Signer.Seed, want)
	}
}

func TestEveryFileThatCannotBeReadIsToldAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := settle(t, dir)
	write(t, filepath.Join(dir, "owner"), "\n")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, strings.Replace(string(text), "'info'", "'loud'", 1))
	_, err = ReadConfig(path)
	for setting, want := range map[string]string{
		"database.url_file": "does not exist", "database.read_url_file": "does not exist",
		"database.owner_url_file":        "is empty",
		"chains.ETHEREUM.endpoints_file": "does not exist",
		"log.level":                      "debug, info",
	} {
		if line := problemText(err, setting); !strings.Contains(line, want) {
			t.Errorf("%s: got %v, want %q", setting, err, want)
		}
	}
	for _, once := range []string{"database.url: ", "chains.ETHEREUM.endpoints: ", "chains.ETHEREUM.agree: "} {
		if err != nil && strings.Contains(err.Error(), once) {
			t.Errorf("got %v, want no second word about what could not be read", err)
		}
	}
}

func TestTheSignerNeedsItsOwnSettingsAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "signer.toml")
	write(
		t, path,
		"[keys]\nattest = \"attest.pub\"\n[signer]\nseed = \"seed\"\nwrap = \"wrap\"\njournal = \"journal\"\npolicy "+
			"= \"policy\"\n",
	)
	got, err := ReadSignerConfig(path)
	if err != nil || got.Signer.Seed != filepath.Join(dir, "seed") ||
		got.Keys.Attest != filepath.Join(dir, "attest.pub") {
		t.Errorf("got %+v %v, want its files", got.Signer, err)
	}
	write(t, path, "[signer]\nseed = \"seed\"\n")
	_, err = ReadSignerConfig(path)
	for _, setting := range []string{"keys.attest", "signer.wrap", "signer.journal", "signer.policy"} {
		if problemText(err, setting) == "" {
			t.Errorf("%s: got %v, want it told", setting, err)
		}
	}
	write(t, path, "[signer]\nsocket = \"s\"\n")
	if _, err := ReadSignerConfig(path); problemText(err, "signer.socket") == "" {
		t.Errorf("got %v, want it told that another signer is named", err)
	}
}

// Rules LIM-1, LIM-4.
func TestEveryRateIsASettingAndALocalNetworkHasNone(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "coffer.toml")
	write(t, path, `
[api]
trusted_proxies = ["10.0.0.0/8", "fd00::1"]
[api.limits]
reads = {count = 7, every = "1m", burst = 9}
exports = {count = 0}
`)
	conf, err := decodeFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := kernel.UsualLimits
	want.Reads, want.Exports = kernel.Rate{Count: 7, Period: time.Minute, Burst: 9}, kernel.Rate{}
	if got := conf.API.Limits.apiLimits(chain.Mainnet); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := conf.API.Limits.apiLimits(chain.Local); got != (kernel.Limits{Reads: want.Reads}) {
		t.Errorf("local: got %+v, want what was set and no more", got)
	}
	if got := (Limits{}).apiLimits(chain.Local); got != (kernel.Limits{}) {
		t.Errorf("local, nothing set: got %+v, want no limits", got)
	}
	if got, err := parseProxies(conf.API.TrustedProxies); err != nil || len(got) != 2 ||
		got[1].String() != "fd00::1/128" {
		t.Errorf("proxies: got %v %v, want two", got, err)
	}
}

func TestACoolingOffMayBeNone(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"": 24 * time.Hour, "0s": 0, "1h30m": 90 * time.Minute, "720h": 720 * time.Hour,
	} {
		var errs configErrors
		o := Operator{WhitelistCoolingOff: text}
		if o.checkOperator(chain.Local, &errs); len(errs) > 0 || o.coolingOff() != want {
			t.Errorf("%q: got %v %v, want %v", text, o.coolingOff(), errs, want)
		}
	}
}
