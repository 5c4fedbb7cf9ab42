package signpolicy

import (
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/signer"
)

// Approvers is what the signer asks of the passkeys with which people approve payments. It is the signer's own setting:
// who controls the server can neither add a page from which signatures count nor shorten a cooling-off.
type Approvers struct {
	// RelyingParties are where passkeys are used. Without one, no passkey can be enrolled.
	RelyingParties []RelyingParty `json:"relyingParties,omitempty"`
	// CoolingOff is how long a new passkey or a looser rule is not used, such as "24h". If absent, it is a day.
	CoolingOff string `json:"coolingOff,omitempty"`
	// RecoveryCoolingOff is the same for a passkey that is founded where a rule exists. If absent, it is three days.
	RecoveryCoolingOff string `json:"recoveryCoolingOff,omitempty"`
	// SignatureLasts is how long a signature of a payment may be used before the payment is admitted. If absent, it is
	// a day.
	SignatureLasts string `json:"signatureLasts,omitempty"`
}

// RelyingParty is a host name for which passkeys are made, and the pages that may ask for them.
type RelyingParty = signer.RelyingParty

const (
	approverCoolingOffDefault = 24 * time.Hour
	recoveryCoolingOffDefault = 72 * time.Hour
	signatureLastsDefault     = 24 * time.Hour
	signatureLastsMax         = 7 * 24 * time.Hour
)

// EffectiveApprovers returns the section on approvers, with nothing allowed if it is absent.
func (p Policy) EffectiveApprovers() Approvers {
	if p.Approvers == nil {
		return Approvers{}
	}
	return *p.Approvers
}

func parseOr(text string, absent, unreadable time.Duration) time.Duration {
	if text == "" {
		return absent
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return unreadable
	}
	return d
}

// KeyCoolingOff returns CoolingOff, or RecoveryCoolingOff for a recovery, of a policy that was validated.
func (a Approvers) KeyCoolingOff(isRecovery bool) time.Duration {
	if isRecovery {
		return parseOr(a.RecoveryCoolingOff, recoveryCoolingOffDefault, coolingOffMax)
	}
	return parseOr(a.CoolingOff, approverCoolingOffDefault, coolingOffMax)
}

// SignatureMax returns SignatureLasts of a policy that was validated.
func (a Approvers) SignatureMax() time.Duration {
	return parseOr(a.SignatureLasts, signatureLastsDefault, 0)
}

// Allows reports whether passkeys of a site may be used on a page of an origin.
func (a Approvers) Allows(rpID, origin string) bool {
	return slices.ContainsFunc(a.RelyingParties, func(s RelyingParty) bool {
		return s.ID == rpID && slices.Contains(s.Origins, origin)
	})
}

func (a Approvers) validate(complain complaints) {
	for _, d := range []struct {
		name, text string
		longest    time.Duration
	}{
		{"coolingOff", a.CoolingOff, coolingOffMax},
		{"recoveryCoolingOff", a.RecoveryCoolingOff, coolingOffMax},
		{"signatureLasts", a.SignatureLasts, signatureLastsMax},
	} {
		parsed, err := time.ParseDuration(d.text)
		if d.text != "" && (err != nil || parsed < 0 || parsed > d.longest) {
			complain("%s: got %q, want a duration from 0s to %s, such as 24h", d.name, d.text, d.longest)
		}
	}
	if a.KeyCoolingOff(true) < a.KeyCoolingOff(false) {
		complain("recoveryCoolingOff: %s is shorter than coolingOff, %s", a.KeyCoolingOff(true), a.KeyCoolingOff(false))
	}
	isNamed := map[string]bool{}
	for n, party := range a.RelyingParties {
		switch {
		case !isHostName(party.ID):
			complain("relyingParties[%d].id: got %q, want a host name without scheme and port; a passkey is refused "+
				"on an IP address", n, party.ID)
		case isNamed[party.ID]:
			complain("relyingParties[%d].id: %s is named twice", n, party.ID)
		case len(party.Origins) == 0:
			complain("relyingParties[%d].origins: name at least one page of %s, such as https://%s", n, party.ID,
				party.ID)
		}
		isNamed[party.ID] = true
		for _, origin := range party.Origins {
			if problem := checkOrigin(origin, party.ID); problem != "" {
				complain("relyingParties[%d].origins: %q %s", n, origin, problem)
			}
		}
	}
}

func isHostName(name string) bool {
	return name != "" && len(name) <= 253 && net.ParseIP(name) == nil && name == strings.ToLower(name) &&
		!strings.ContainsAny(name, "/:@[] ?#%\\") && !strings.HasPrefix(name, ".") && !strings.HasSuffix(name, ".") &&
		(strings.Contains(name, ".") || name == "localhost")
}

// checkOrigin says why a browser would not use passkeys of the site on a page of the origin.
func checkOrigin(origin, rpID string) string {
	u, err := url.Parse(origin)
	switch {
	case err != nil || u.Host == "" || u.Scheme+"://"+u.Host != origin:
		return "is no origin: give scheme, host name and port, such as https://" + rpID
	case !isHostName(u.Hostname()):
		return "has no host name: a passkey is refused on an IP address"
	case u.Hostname() != rpID && !strings.HasSuffix(u.Hostname(), "."+rpID):
		return "does not fit the site " + rpID
	case u.Scheme == "https":
		return ""
	case u.Scheme == "http" && (u.Hostname() == "localhost" || strings.HasSuffix(u.Hostname(), ".localhost")):
		return "" // Names below localhost never leave the machine.
	}
	return "has to use https; http is for localhost alone"
}

// Wording returns how statements name networks and write amounts.
func (p Policy) Wording() signer.Wording {
	words := signer.Wording{
		Chains: map[chain.Name]signer.ChainWording{}, RelyingParties: p.EffectiveApprovers().RelyingParties,
	}
	for name, c := range p.Chains {
		words.Chains[name] = signer.ChainWording{Network: c.SignerID, Tokens: c.Tokens}
	}
	return words
}

// Token returns how amounts of an asset are written for people, or nil if the policy does not say it.
func (c Chain) Token(contract chain.Address) *signer.Token {
	token, ok := c.Tokens[contract]
	if !ok {
		return nil
	}
	return &token
}

func (c Chain) validateTokens(complain complaints) {
	for contract, token := range c.Tokens {
		if token.Symbol == "" || len(token.Symbol) > 20 || token.Symbol != signer.EscapeText(token.Symbol) ||
			token.Decimals < 0 || token.Decimals > 36 {
			complain("tokens.%q: give a symbol of 1 to 20 printable ASCII characters and 0 to 36 decimals", contract)
		}
	}
}
