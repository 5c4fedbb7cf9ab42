package signpolicy_test

import (
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/signer/signpolicy"
)

// Pages that a browser would give no passkey are refused with the reason. Names below localhost are this machine.
func TestPagesOfApproversHaveAnAddressWithPasskeys(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ id, origin, want string }{
		{"approve.example.com", "https://approve.example.com", ""},
		{"example.com", "https://approve.example.com:8443", ""},
		{"localhost", "http://localhost:8080", ""},
		{"approvals.localhost", "http://approvals.localhost:8083", ""},
		{"approve.example.com", "http://approve.example.com", "has to use https"},
		{"localhost.example.com", "http://localhost.example.com", "has to use https"},
		{"notlocalhost", "http://notlocalhost", "want a host name"},
		{"approvals.localhost", "http://localhost:8083", "does not fit the site"},
		{"approve.example.com", "https://pay.example.com", "does not fit the site"},
		{"approve.example.com", "https://203.0.113.7", "has no host name"},
		{"203.0.113.7", "https://203.0.113.7", "IP address"},
	} {
		party := signpolicy.RelyingParty{ID: c.id, Origins: []string{c.origin}}
		p := signpolicy.Policy{Approvers: &signpolicy.Approvers{RelyingParties: []signpolicy.RelyingParty{party}}}
		err := p.Validate()
		isRefused := err != nil && strings.Contains(err.Error(), "relyingParties")
		if isRefused != (c.want != "") || isRefused && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s at %s: got %v, want %q", c.id, c.origin, err, c.want)
		}
		if got := p.Wording().RelyingParties; len(got) != 1 || got[0].ID != c.id {
			t.Errorf("%s: got the pages %v, want those of the policy", c.id, got)
		}
	}
}
