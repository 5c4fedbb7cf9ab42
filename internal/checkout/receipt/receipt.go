// Package receipt makes what an installation signs about a checkout: the statement that a payer's
// browser carries back to the shop, and the receipt that a payer keeps. The webhook package, which
// shops import, verifies both without a call.
//
// The package does no I/O and keeps nothing: the same input makes the same bytes, so a crash leaves
// nothing behind. It never signs what the caller did not state, and nothing in a statement or a
// receipt is secret: the payer and everyone to whom the payer shows it may read it.
package receipt

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/cofferpay/coffer/webhook"
)

// StatementLifetime is how long a statement is valid. It has to outlast a redirect, also on a slow
// phone. After it, a recorded address of a shop proves nothing about the present.
const StatementLifetime = 15 * time.Minute

// The states of a checkout with which a payer returns to successUrl.
const (
	Processing = "PROCESSING"
	Completed  = "COMPLETED"
)

// Return is the state of a checkout at the moment when its payer is sent back to the shop. It has
// neither the reference nor the customer: the address bar shows it.
type Return struct {
	CheckoutID, OrgID string
	Environment       string // webhook.Live or webhook.Test
	Status            string // Processing or Completed
	Currency          string
	AmountDue         string
	AmountPaid        string
}

// Signer signs with the keys of the installation.
type Signer struct {
	// Keys are the installation's webhook keys, the present one first, which signs. Verifiers know
	// the former ones too, so what was signed with them stays valid. A process that has only the
	// public halves has none here.
	Keys []webhook.Key
}

// CanSign reports whether this process has a private key.
func (s Signer) CanSign() bool { return len(s.Keys) > 0 }

// Statement signs the state of a checkout for its shop. Rule CO-71.
func (s Signer) Statement(c Return, issuedAt time.Time) (string, error) {
	if err := c.check(); err != nil {
		return "", err
	}
	if !s.CanSign() {
		return "", fmt.Errorf("sign the return of checkout %s: this process has no private key of webhooks",
			c.CheckoutID)
	}
	return webhook.SignStatement(webhook.Statement{
		Environment: c.Environment, CheckoutID: c.CheckoutID, OrganizationID: c.OrgID, Status: c.Status,
		Currency: c.Currency, AmountDue: c.AmountDue, AmountPaid: c.AmountPaid, IssuedAt: webhook.At(issuedAt),
		ExpiresAt: webhook.At(issuedAt.Add(StatementLifetime)),
	}, s.Keys[0])
}

// ReturnURL returns the address to which a payer goes after the payment: successURL with checkoutId,
// status and statement in its query. What the shop's own query has stays as it is, except for these
// three names, which are never there twice; its fragment stays at the end. A process without a
// private key leaves the statement out, and the shop has to ask the API. Rule CO-70.
func (s Signer) ReturnURL(successURL string, c Return, issuedAt time.Time) (string, error) {
	if err := c.check(); err != nil {
		return "", err
	}
	added := []string{"checkoutId=" + url.QueryEscape(c.CheckoutID), "status=" + c.Status}
	if s.CanSign() {
		statement, err := s.Statement(c, issuedAt)
		if err != nil {
			return "", err
		}
		added = append(added, "statement="+statement)
	}
	// The text is cut and not parsed, so that the shop gets its own part byte for byte.
	beforeFragment, fragment, hasFragment := strings.Cut(successURL, "#")
	base, query, _ := strings.Cut(beforeFragment, "?")
	pairs := []string{}
	for pair := range strings.SplitSeq(query, "&") {
		if pair != "" && !isOwnName(pair) {
			pairs = append(pairs, pair)
		}
	}
	result := base + "?" + strings.Join(append(pairs, added...), "&")
	if hasFragment {
		result += "#" + fragment
	}
	return result, nil
}

// isOwnName reports whether a pair of a query has a name that ReturnURL sets, in any encoding.
func isOwnName(pair string) bool {
	name, _, _ := strings.Cut(pair, "=")
	if decoded, err := url.QueryUnescape(name); err == nil {
		name = decoded
	}
	return name == "checkoutId" || name == "status" || name == "statement"
}

// check refuses a state that no payer returns with: EXPIRED and CANCELLED lead to cancelUrl, without
// a statement.
func (c Return) check() error {
	if c.Status != Processing && c.Status != Completed {
		return fmt.Errorf("the payer of checkout %s does not return as %q", c.CheckoutID, c.Status)
	}
	return nil
}

// Receipt signs a receipt and returns its file. It refuses one whose items are not the amount due, or
// whose payments count for less than the amount paid. Rule CO-72.
func (s Signer) Receipt(r webhook.Receipt) ([]byte, error) {
	if !s.CanSign() {
		return nil, fmt.Errorf("sign the receipt of checkout %s: this process has no private key of webhooks",
			r.CheckoutID)
	}
	return webhook.SignReceipt(r, s.Keys[0])
}
