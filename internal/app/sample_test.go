package app

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/catalogue"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/signer/signpolicy"
)

// filled writes a sample with the files of secrets that it names.
func filled(t *testing.T, text []byte) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "secrets"), 0o700); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		setting, file, _ := strings.Cut(line, ` = "secrets/`)
		file, _, _ = strings.Cut(file, `"`)
		switch setting {
		case "url_file":
			write(t, filepath.Join(dir, "secrets", file), "postgres://coffer:pw@db.internal/coffer\n")
		case "endpoints_file":
			write(t, filepath.Join(dir, "secrets", file),
				"https://one.example.com/"+file+"\nhttps://two.example.net/"+file+"\n")
		}
	}
	path := filepath.Join(dir, "coffer.toml")
	write(t, path, string(text))
	return path
}

// readable lists the chains of a network that this version runs.
func readable(network chain.Network) []chain.Name {
	var names []chain.Name
	for _, n := range catalogue.List() {
		if n.Network == network {
			names = append(names, n.Chain)
		}
	}
	return names
}

// Rule MINT-3.
func TestTheSampleIsSoundOnceItsSecretsAreThere(t *testing.T) {
	t.Parallel()
	for _, network := range []chain.Network{chain.Mainnet, chain.Testnet, chain.Local} {
		choices := [][]chain.Name{nil}
		for _, name := range readable(network) {
			choices = append(choices, []chain.Name{name})
		}
		for _, names := range choices {
			text, err := SampleConfig(network, names...)
			if err != nil {
				t.Fatal(err)
			}
			got, err := ReadConfig(filled(t, text))
			if err != nil {
				t.Errorf("%s %v: got %v, want it sound", network, names, err)
				continue
			}
			for _, n := range catalogue.List() {
				if ch, ok := got.Chains[n.Chain]; !ok || n.Network != network {
					continue
				} else if ch.ChainID != n.ChainID || ch.Genesis != n.Genesis || ch.Depth != n.Depth ||
					ch.PriceMax != n.PriceMax || ch.FeeCap != amount(n.FeeCap) || ch.TipCap != amount(n.TipCap) ||
					ch.CostMax != amount(n.CostMax) {
					t.Errorf("%s: got %+v, want what the list has", n.Name, ch)
				}
				for _, m := range n.Mints {
					if !slices.ContainsFunc(got.Mints, func(c Mint) bool {
						return c.ID == m.ID && c.Chain == n.Chain && c.Contract == string(m.Contract) &&
							c.Decimals == m.Decimals && c.MinDeposit == m.MinDeposit.String()
					}) {
						t.Errorf("%s on %s: got none in the sample", m.Symbol, n.Name)
					}
				}
			}
			if network != chain.Local && len(names) == 0 && !slices.Equal(sorted(got), sortedNames(readable(network))) {
				t.Errorf("%s: got %v, want every chain that can be run", network, sorted(got))
			}
			policy, err := SamplePolicy(network, names...)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := signpolicy.Parse(policy); err != nil {
				t.Errorf("policy of %s %v: got %v, want it taken", network, names, err)
			}
			// A signer in this process takes both together.
			got.Signer = Signer{Policy: filepath.Join(t.TempDir(), "policy.json")}
			write(t, got.Signer.Policy, string(policy))
			if err := got.checkPolicy(); err != nil {
				t.Errorf("%s %v: got %v, want fees that the policy allows", network, names, err)
			}
		}
	}
}

// amount formats an amount like a setting: empty when there is none.
func amount(a money.Amount) string {
	if a.IsZero() {
		return ""
	}
	return a.String()
}

func sorted(c Config) []chain.Name {
	var names []chain.Name
	for name := range c.Chains {
		names = append(names, name)
	}
	return sortedNames(names)
}

func sortedNames(names []chain.Name) []chain.Name {
	slices.Sort(names)
	return names
}

// A comment of the sample about an unset value has to give its default.
func TestTheSampleShowsTheDefaults(t *testing.T) {
	t.Parallel()
	text, err := SampleConfig(chain.Mainnet)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ReadConfig(filled(t, text))
	if err != nil {
		t.Fatal(err)
	}
	if want := DefaultConfig(); got.Intervals != want.Intervals || got.Prices.MaxAge != want.Prices.MaxAge ||
		got.Database.MaxConns != want.Database.MaxConns || got.Log.Level != want.Log.Level {
		t.Errorf("got %+v, want the defaults", got)
	}
	// Every existing setting is in the sample, set or as a comment.
	var missing func(at string, typ reflect.Type)
	missing = func(at string, typ reflect.Type) {
		for field := range typ.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("toml"), ",")
			elem := field.Type
			if elem.Kind() == reflect.Slice || elem.Kind() == reflect.Map {
				elem = elem.Elem()
			}
			if elem.Kind() == reflect.Pointer && elem != reflect.TypeFor[*Rate]() { // a rate is one line
				elem = elem.Elem()
			}
			if elem.Kind() == reflect.Struct {
				missing(at+name+".", elem)
				continue
			}
			replaced := []string{"url", "read_url", "owner_url", "endpoints", "archives", "development", "depth"}
			if slices.Contains(replaced, name) {
				continue // a file replaces it, or it belongs to other chains alone
			}
			if !strings.Contains(string(text), name+" = ") && name != "fixed" {
				t.Errorf("%s%s: got nothing of it in the sample", at, name)
			}
		}
	}
	missing("", reflect.TypeFor[Config]())
}

func TestASampleIsOfWhatThisVersionRuns(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		network chain.Network
		chains  []chain.Name
		want    string
	}{
		{"MAIN", nil, "MAINNET, TESTNET or LOCAL"},
		{chain.Mainnet, []chain.Name{chain.Tron}, "TRON is not a chain"},
		{chain.Local, []chain.Name{chain.Base}, "ETHEREUM only"},
	} {
		if _, err := SampleConfig(c.network, c.chains...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %v: got %v, want %q", c.network, c.chains, err, c.want)
		}
		if _, err := SamplePolicy(c.network, c.chains...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("policy of %s %v: got %v, want %q", c.network, c.chains, err, c.want)
		}
	}
}

// Rule MINT-3.
func TestWhatTheListKnowsCannotBeConfiguredWrong(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		setting, fix string
		change       func(*Config)
	}{
		"another main network": {"chains.ETHEREUM.chain_id", "Ethereum is 1", func(c *Config) {
			changeChain(c, func(ch *Chain) { ch.ChainID = 11155111 })
		}},
		"a test that signs for money": {
			"chains.ETHEREUM.chain_id", "which is Ethereum, while network is TESTNET",
			func(c *Config) {
				c.Network = chain.Testnet
			},
		},
		"a local one, too": {"chains.ETHEREUM.chain_id", "while network is LOCAL", func(c *Config) {
			c.Network = chain.Local
		}},
		"one chain twice": {"chains.ETHEREUM.chain_id", "which BASE has", func(c *Config) {
			ch := c.Chains[chain.Ethereum]
			ch.ChainID = 1
			c.Chains[chain.Base] = ch
		}},
		"decimals": {"mints[0] (USDC on ETHEREUM).decimals", "USDC on Ethereum has 6", func(c *Config) {
			c.Mints[0].Decimals = 18
		}},
		"decimals of a coin": {"mints[1] (ETH on ETHEREUM).decimals", "has 18", func(c *Config) {
			c.Mints[1].Decimals = 9
		}},
		"an id of another token": {
			"mints[0] (USDC on ETHEREUM).id",
			"which is always USDT on Ethereum; give this token an id from 100000", func(c *Config) {
				c.Mints[0].ID = 103
			},
		},
		"an id of another network": {"mints[0] (USDC on ETHEREUM).id", "USDC on Sepolia", func(c *Config) {
			c.Mints[0].ID = 10102
		}},
		"another Avalanche": {"chains.AVALANCHE.chain_id", "Avalanche C-Chain is 43114", func(c *Config) {
			ch := c.Chains[chain.Ethereum]
			ch.ChainID = 43113
			c.Chains[chain.Avalanche] = ch
		}},
	} {
		conf := newSoundConfig()
		c.change(&conf)
		if line := problemText(conf.Check(), c.setting); !strings.Contains(line, c.fix) {
			t.Errorf("%s: got %q of %v, want %q", name, line, conf.Check(), c.fix)
		}
	}
	conf := newSoundConfig()
	conf.Mints[0].ID, conf.Mints[1].ID, conf.Prices.Fixed = 102, 101, nil
	conf.Mints = append(conf.Mints, Mint{
		ID: catalogue.CustomIDsFrom, Chain: chain.Ethereum, Contract: "0x6B175474E89094C44Da98b954EedeAC495271d0F",
		Symbol: "DAI", Name: "Dai", Decimals: 18, MinDeposit: "1", MinWithdraw: "1",
	})
	if err := conf.Check(); err != nil {
		t.Errorf("ids of the list and one beside them: got %v, want no error", err)
	}
	// A test network outside the list is a test network as well.
	conf = newSoundConfig()
	conf.Network = chain.Testnet
	changeChain(&conf, func(ch *Chain) { ch.ChainID = 560048 })
	if err := conf.Check(); err != nil {
		t.Errorf("a test network that the list does not have: got %v, want no error", err)
	}
}
