package app

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/service"
	"github.com/cofferpay/coffer/internal/swap/provider/relay"
)

// newRelaySection returns a valid section.
func newRelaySection() *relay.Config {
	return &relay.Config{
		Solvers: []string{"0x70997970C51812dc3A010C7d01b50e0d17dc79C8"},
		Chains: map[string]*relay.ChainConfig{"BASE": {
			ID: 8453, Name: "base", VM: "ethereum-vm", Native: "0x0000000000000000000000000000000000000000",
			Currencies: []relay.CurrencyConfig{{Contract: "native", Symbol: "ETH", Decimals: 18}},
		}},
	}
}

// memberNames returns the names of the members that a configuration builds.
func memberNames(t *testing.T, c Config) (names []string) {
	t.Helper()
	members, err := c.openSwapProviders()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range members {
		names = append(names, m.Provider.Name())
	}
	return names
}

func TestAProviderSwapsWhereItsSectionIsThere(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"": nil,
		// A section may leave every setting out.
		"[swaps.providers.one_click]\n": {"ONE_CLICK"},
		`[swaps.providers.relay]
solvers = ["0x70997970C51812dc3A010C7d01b50e0d17dc79C8"]
[swaps.providers.one_click]
`: {"ONE_CLICK", "RELAY"}, // in one order, whatever that of the file is
	} {
		path := filepath.Join(t.TempDir(), "coffer.toml")
		write(t, path, text)
		conf, err := decodeFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := memberNames(t, conf); !slices.Equal(got, want) {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
		// What is written has the same providers.
		if err := WriteConfig(path, conf); err != nil {
			t.Fatal(err)
		}
		if conf, err = decodeFile(path); err != nil {
			t.Fatal(err)
		}
		if got := memberNames(t, conf); !slices.Equal(got, want) {
			t.Errorf("%q, written: got %v, want %v", text, got, want)
		}
	}
}

func TestAnUnknownSettingOfSwapsIsShownWithItsLine(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "coffer.toml")
	write(t, path, "[swaps]\npay_windw = \"1m\"\n[swaps.providers.one_click]\nkey = \"x\"\n"+
		"[swaps.providers.thorchain]\nurl = \"x\"\n")
	_, err := ReadConfig(path)
	if err == nil {
		t.Fatal("got no error, want three settings that do not exist")
	}
	for _, want := range []string{"2| pay_windw", "4| key", "thorchain"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
}

// The key of an account is in its own file, which has to be there.
func TestTheKeyOfASwapProviderIsInItsOwnFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := newSoundConfig()
	c.Swaps.Providers.AddOneClick("", nil, nil)
	c.Swaps.Providers.OneClick.KeyFile = "one-click"
	err := c.resolveFiles(dir)
	if line := problemText(err, "swaps.providers.one_click.key_file"); !strings.Contains(line, "does not exist") {
		t.Errorf("got %v, want the file named", err)
	}
	write(t, filepath.Join(dir, "one-click"), "a key\n")
	if err := c.resolveFiles(dir); err != nil || c.Swaps.Providers.OneClick.Key.Reveal() != "a key" {
		t.Errorf("got %v, want the content of the file", err)
	}
}

// The assets and the plain address of a local provider are for a local network, which needs them.
func TestALocalNetworkTakesALocalProvider(t *testing.T) {
	t.Parallel()
	c := newSoundConfig()
	c.Network = chain.Local
	changeChain(&c, func(ch *Chain) { ch.ChainID = 31337 })
	c.Swaps.Providers.AddOneClick(
		"http://127.0.0.1:9000", nil, map[string]string{"ETHEREUM:native": "local:ethereum:native"},
	)
	if err := c.Check(); err != nil {
		t.Errorf("got %v, want no error", err)
	}
}

func TestSwapsHaveDefaults(t *testing.T) {
	t.Parallel()
	want := service.SwapConfig{
		PayWindow: 30 * time.Minute, PayWindowBitcoin: 90 * time.Minute, MaxLossBps: 300,
		DelayedAfter: 30 * time.Minute, StuckAfter: 24 * time.Hour, RefundGrace: 5 * time.Minute,
	}
	c := newSoundConfig()
	if got := c.serviceConfig().Swaps; got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	// No loss at all is a setting of its own.
	c.Swaps.MaxLossBps, c.Swaps.PayWindow, c.Swaps.WithoutPrices = new(int), Duration(time.Minute), true
	want.MaxLossBps, want.PayWindow, want.WithoutPrices = 0, time.Minute, true
	if got := c.serviceConfig().Swaps; got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
