package app

import (
	"context"
	"crypto/ed25519"
	"slices"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/service"
	"github.com/cofferpay/coffer/internal/signer"
)

// An address at which people could not sign approvals, or at which other pages could ask for their passkeys, is refused
// at the start, with the remedy. Rule PAGE-121.
func TestAnAddressAtWhichApprovalsDoNotWorkIsRefused(t *testing.T) {
	t.Parallel()
	const listen, origin = "127.0.0.1:8083", "https://approve.example.com"
	for _, c := range []struct {
		name         string
		conf         Approvals
		setting, fix string // "" for a sound one
		change       func(*Config)
	}{
		{name: "none"},
		{name: "a host of its own", conf: Approvals{Origin: origin, Listen: listen}},
		{name: "a local host", conf: Approvals{Origin: "http://approvals.localhost:8083", Listen: listen}},
		{
			name: "a domain of its own", conf: Approvals{
				Origin: "https://a.approve.example.com", RelyingParty: "approve.example.com", Listen: listen,
			},
		},
		{
			name: "an IP address", conf: Approvals{Origin: "https://203.0.113.7", Listen: listen},
			setting: "approvals.origin", fix: "give it a host name",
		},
		{
			name: "the address of this machine", conf: Approvals{Origin: "http://127.0.0.1:8083", Listen: listen},
			setting: "approvals.origin", fix: "use http://localhost",
		},
		{
			name: "http", conf: Approvals{Origin: "http://approve.example.com", Listen: listen},
			setting: "approvals.origin", fix: "use https",
		},
		{
			name: "another domain", conf: Approvals{Origin: origin, RelyingParty: "other.com", Listen: listen},
			setting: "approvals.origin", fix: `use "approve.example.com"`,
		},
		{
			name:    "the domain of the dashboard",
			conf:    Approvals{Origin: origin, RelyingParty: "example.com", Listen: listen},
			setting: "approvals.relying_party", fix: `use "approve.example.com"`,
		},
		{
			name: "the origin of the dashboard", conf: Approvals{Origin: "https://pay.example.com", Listen: listen},
			setting: "approvals.origin", fix: "a host name of their own",
		},
		{
			name:    "another port of the dashboard",
			conf:    Approvals{Origin: "https://pay.example.com:8443", Listen: listen},
			setting: "approvals.origin", fix: "a host name of their own",
		},
		{
			name: "the host of the console", conf: Approvals{Origin: "https://ops.example.com", Listen: listen},
			setting: "approvals.origin", fix: "console.origin",
		},
		{
			name: "no listener", conf: Approvals{Origin: origin},
			setting: "approvals.listen", fix: "127.0.0.1:8083",
		},
		{
			name: "a listener without a port", conf: Approvals{Origin: origin, Listen: "127.0.0.1"},
			setting: "approvals.listen", fix: "127.0.0.1:8083",
		},
		{
			name: "the listener of the interface", conf: Approvals{Origin: origin, Listen: "127.0.0.1:8080"},
			setting: "approvals.listen", fix: "another one",
		},
		{
			name: "no origin", conf: Approvals{Listen: listen}, setting: "approvals.origin", fix: "or remove them",
		},
		{
			name: "the role alone", setting: "approvals.origin", fix: "role approvals",
			change: func(c *Config) { c.Roles = []Role{RoleApprovals} },
		},
		{
			name: "no dashboard", conf: Approvals{Origin: origin, Listen: listen}, setting: "dashboard.origin",
			fix: "lead to the dashboard", change: func(c *Config) { c.Dashboard.Origin = "" },
		},
		{
			name:    "a proxy that is none",
			conf:    Approvals{Origin: origin, Listen: listen, TrustedProxies: []string{"x"}},
			setting: "approvals.trusted_proxies", fix: "10.0.0.0/8",
		},
		{
			name: "no listener in a process without the role", conf: Approvals{Origin: origin},
			change: func(c *Config) { c.Roles = []Role{RoleAPI} },
		},
	} {
		conf := newSoundConfig()
		conf.Dashboard.Origin, conf.Console.Origin = "https://pay.example.com", "https://ops.example.com"
		conf.Approvals = c.conf
		if c.change != nil {
			c.change(&conf)
		}
		var errs configErrors
		conf.checkApprovals(&errs)
		err := errs.joinProblems()
		switch {
		case c.fix == "" && err != nil:
			t.Errorf("%s: got %v, want no problem", c.name, err)
		case c.fix != "" && (err == nil || !strings.Contains(err.Error(), c.fix) ||
			!strings.HasPrefix(err.Error(), c.setting)):
			t.Errorf("%s: got %v, want the setting %s and %q", c.name, err, c.setting, c.fix)
		}
	}
}

// policySigner is a signer whose policy names relying parties.
type policySigner struct {
	signer.Signer
	parties []signer.RelyingParty
}

func (s policySigner) Wording(context.Context) (signer.Wording, error) {
	return signer.Wording{RelyingParties: s.parties}, nil
}

// Pages whose passkeys the signer's policy lacks are not served. Rule PAGE-121.
func TestPagesOfApprovalsThatTheSignerDoesNotKnowAreRefused(t *testing.T) {
	t.Parallel()
	const party, origin = "approve.example.com", "https://approve.example.com"
	for name, c := range map[string]struct {
		parties []signer.RelyingParty
		isSound bool
	}{
		"a policy without any":        {nil, false},
		"another origin":              {[]signer.RelyingParty{{ID: party, Origins: []string{origin + ":1"}}}, false},
		"the origin of another party": {[]signer.RelyingParty{{ID: "example.com", Origins: []string{origin}}}, false},
		"these after others": {
			[]signer.RelyingParty{{ID: "x.y"}, {ID: party, Origins: []string{"z", origin}}}, true,
		},
	} {
		a := &App{
			conf:  Config{Approvals: Approvals{Origin: origin}},
			parts: service.Parts{Signer: policySigner{parties: c.parties}},
		}
		err := a.checkRelyingParty(t.Context())
		if c.isSound && err != nil {
			t.Errorf("%s: got %v, want no problem", name, err)
		}
		if !c.isSound && (err == nil || !strings.Contains(err.Error(), "approvers.relyingParties") ||
			!strings.Contains(err.Error(), origin)) {
			t.Errorf("%s: got %v, want what to add to the policy", name, err)
		}
	}
}

// A process has the role by default only where the pages have an address of their own. Rule PAGE-118.
func TestTheRoleOfApprovalsNeedsAnAddress(t *testing.T) {
	t.Parallel()
	var conf Config
	if slices.Contains(conf.ActiveRoles(), RoleApprovals) {
		t.Errorf("got the roles %v, want people to sign in the dashboard", conf.ActiveRoles())
	}
	conf.Approvals.Origin = "https://approve.example.com"
	if !slices.Contains(conf.ActiveRoles(), RoleApprovals) {
		t.Errorf("got the roles %v, want the pages of approvals", conf.ActiveRoles())
	}
}

// A refusal of an approval without its signature names the page on which people sign. Rule PAGE-122.
func TestARefusedApprovalNamesThePageOnWhichPeopleSign(t *testing.T) {
	t.Parallel()
	const dashboardOrigin, origin = "https://pay.example.com", "https://approve.example.com"
	for name, c := range map[string]struct{ dashboard, approvals, withdrawal, payout string }{
		"no pages": {},
		"the dashboard": {
			dashboardOrigin, "", dashboardOrigin + "/dashboard/approvals/withdrawals/wd_1",
			dashboardOrigin + "/dashboard/payouts/bp_1",
		},
		"the pages of approvals": {
			dashboardOrigin, origin, origin + "/approvals/withdrawals/wd_1", origin + "/payouts/bp_1",
		},
	} {
		conf := newSoundConfig()
		conf.Dashboard.Origin, conf.Approvals.Origin = c.dashboard, c.approvals
		s := service.New(conf.serviceConfig(), service.Parts{AttestKey: make(ed25519.PublicKey, ed25519.PublicKeySize)})
		if c.withdrawal == "" {
			if s.Withdrawals.ApprovalPage != nil || s.Payouts.ApprovalPage != nil {
				t.Errorf("%s: got pages, want none", name)
			}
			continue
		}
		if got := s.Withdrawals.ApprovalPage("wd_1"); got != c.withdrawal {
			t.Errorf("%s: got %s, want %s", name, got, c.withdrawal)
		}
		if got := s.Payouts.ApprovalPage("bp_1"); got != c.payout {
			t.Errorf("%s: got %s, want %s", name, got, c.payout)
		}
	}
}
