package app

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/payerpages"
	"github.com/cofferpay/coffer/internal/service"
)

// The limits of payers are the defaults, and none on a local network, unless the configuration sets others. Rules
// CO-122 and CO-123.
func TestTheLimitsOfPayersAreSettings(t *testing.T) {
	t.Parallel()
	for _, network := range []chain.Network{chain.Mainnet, chain.Testnet} {
		if got := (CheckoutLimits{}).pageLimits(network); got != payerpages.UsualLimits {
			t.Errorf("%s: got %+v, want the defaults", network, got)
		}
		openings, linkCheckouts := (CheckoutLimits{}).orgLimits(network)
		if openings != (kernel.Rate{Count: 600, Period: time.Minute, Burst: 600}) || linkCheckouts != 20_000 {
			t.Errorf("%s: got %+v and %d for an organization", network, openings, linkCheckouts)
		}
	}
	if got := (CheckoutLimits{}).pageLimits(chain.Local); got != (payerpages.Limits{}) {
		t.Errorf("LOCAL: got %+v, want none", got)
	}
	if openings, linkCheckouts := (CheckoutLimits{}).orgLimits(chain.Local); openings.Count != 0 || linkCheckouts != 0 {
		t.Errorf("LOCAL: got %+v and %d for an organization, want none", openings, linkCheckouts)
	}
	file := filepath.Join(t.TempDir(), "coffer.toml")
	write(t, file, `
[checkout.limits]
views = {count = 1, every = "1m", burst = 2}
opens = {count = 3, every = "1m", burst = 4}
finds = {count = 5, every = "1m", burst = 6}
claims = {count = 7, every = "1m", burst = 8}
forms = {count = 9, every = "1m", burst = 10}
images = {count = 11, every = "1m", burst = 12}
actions = {count = 13, every = "1h", burst = 14}
openings = {count = 0}
streams = 0
link_checkouts = 15
`)
	conf, err := decodeFile(file)
	if err != nil {
		t.Fatal(err)
	}
	set := conf.Checkout.Limits
	for _, network := range []chain.Network{chain.Mainnet, chain.Local} {
		rate := func(count int, period time.Duration) kernel.Rate {
			return kernel.Rate{Count: count, Period: period, Burst: count + 1}
		}
		want := payerpages.Limits{
			Views: rate(1, time.Minute), Opens: rate(3, time.Minute), Finds: rate(5, time.Minute),
			Claims: rate(7, time.Minute), Buys: rate(9, time.Minute), Images: rate(11, time.Minute),
			Actions: rate(13, time.Hour),
		}
		if got := set.pageLimits(network); got != want {
			t.Errorf("%s: got %+v, want %+v", network, got, want)
		}
		if openings, linkCheckouts := set.orgLimits(network); openings.Count != 0 || linkCheckouts != 15 {
			t.Errorf("%s: got %+v and %d for an organization", network, openings, linkCheckouts)
		}
	}
	bad := -1
	c := newSoundConfig()
	c.Checkout.Limits = CheckoutLimits{Views: &Rate{Count: -1}, Streams: &bad, LinkCheckouts: &bad}
	err = c.Check()
	for _, setting := range []string{"views", "streams", "link_checkouts"} {
		if err == nil || !strings.Contains(err.Error(), "checkout.limits."+setting) {
			t.Errorf("got %v, want checkout.limits.%s refused", err, setting)
		}
	}
}

// Payers open as many options of an organization as its limit says, and those of another one besides. Rule CO-123.
func TestTheOpeningsOfAnOrganizationAreCounted(t *testing.T) {
	t.Parallel()
	c := newSoundConfig()
	c.Checkout.Origin = "https://checkout.example.com"
	c.Checkout.Limits.Openings = &Rate{Count: 2, Period: Duration(time.Hour), Burst: 2}
	c.Keys.Cursor = filepath.Join(t.TempDir(), "cursor")
	if err := os.WriteFile(c.Keys.Cursor, []byte(strings.Repeat("ab", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	var conf service.Config
	if err := c.addCheckoutPages(&conf); err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{true, true, false, false} {
		if got := conf.CountOpening("org_1"); got != want {
			t.Errorf("opening %d: got %v, want %v", i, got, want)
		}
	}
	if !conf.CountOpening("org_2") || conf.LinkCheckoutsMax != 20_000 {
		t.Errorf("got another organization refused, or %d unpaid checkouts", conf.LinkCheckoutsMax)
	}
}

// playedCases counts the cases that are played.
type playedCases struct{ count int }

// List implements payerpages.Cases.
func (*playedCases) List() []string { return []string{"exact"} }

// Play implements payerpages.Cases.
func (p *playedCases) Play(context.Context, string, int, string) error {
	p.count++
	return nil
}

// Only the local network plays payers, and only once its world can. Rule CO-124.
func TestOnlyTheLocalNetworkPlaysPayers(t *testing.T) {
	t.Parallel()
	for _, network := range []chain.Network{chain.Mainnet, chain.Testnet, chain.Local} {
		played := &playedCases{}
		a := &App{conf: Config{Network: network}}
		before := a.payerCases()
		a.PlayPayers(played)
		if network != chain.Local {
			if got := a.payerCases(); before != nil || got != nil {
				t.Errorf("%s: got %v and %v, want no cases", network, before, got)
			}
			continue
		}
		if before == nil || len(before.List()) != 1 || before.Play(t.Context(), "co_1", 1, "exact") != nil ||
			played.count != 1 {
			t.Errorf("got %v, want the cases of the world", before)
		}
		if later := (&App{conf: Config{Network: network}}).payerCases(); len(later.List()) != 0 {
			t.Errorf("got %v before there is a world", later.List())
		}
	}
}
