package approverpages

import (
	"encoding/base64"
	"net/url"

	"github.com/cofferpay/coffer/internal/control/approver"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/signer"
)

// SignerView is the part of a page on which a person approves with a passkey.
type SignerView struct {
	ui.SignView
	AskText, PayText  string         // what the rule asks for, and what the signature does
	WhyNot, EnrolPath string         // why the person has no passkey that counts, and where to make one
	Elsewhere         *ElsewhereView // where people sign; nil: here
}

// ElsewhereView leads to the same page where people sign.
type ElsewhereView struct{ URL, Host string }

// newElsewhere returns nil where people sign on these pages.
func (p *Pages) newElsewhere(r *pages.Request) *ElsewhereView {
	if p.conf.ElsewhereURL == nil {
		return nil
	}
	address := p.conf.ElsewhereURL(r)
	if address == "" {
		return nil
	}
	view := &ElsewhereView{URL: address, Host: address}
	if u, err := url.Parse(address); err == nil {
		view.Host = u.Host
	}
	return view
}

// enrolPath returns the page that makes passkeys.
func (p *Pages) enrolPath(r *pages.Request) string {
	if p.conf.EnrolURL != "" {
		return p.conf.EnrolURL
	}
	return r.Path("approvers", "new")
}

// NewSignerView completes a form of an approval with the passkeys of the person, or says why there is none.
func (p *Pages) NewSignerView(r *pages.Request, people int, form ui.SignView) (*SignerView, error) {
	state, err := p.loadState(r)
	if err != nil {
		return nil, err
	}
	view := &SignerView{
		SignView: form, EnrolPath: p.enrolPath(r), AskText: p.conf.Words.AskText(people),
		PayText: p.conf.Words.Pays,
	}
	if view.Elsewhere = p.newElsewhere(r); view.Elsewhere != nil {
		return view, nil
	}
	view.RPID = p.conf.RelyingParty
	if view.Keys = p.ownKeys(r, state.keys, signer.RightApprove); len(view.Keys) == 0 {
		view.WhyNot = p.whyNoKey(r, state.keys)
	}
	return view, nil
}

// ownKeys are the person's own passkeys of this address that count now, of one right or of each.
func (p *Pages) ownKeys(r *pages.Request, keys []approver.Key, right signer.Right) (usable []ui.SignerKey) {
	for _, k := range keys {
		if k.Person == p.personName(r) && (right == "" || k.Right == right) && k.Origin == p.conf.Origin &&
			k.Status(r.Now) == approver.StatusUsable {
			usable = append(usable, signerKey(k))
		}
	}
	return usable
}

// whyNoKey says why a person has no passkey with which to approve here and now.
func (p *Pages) whyNoKey(r *pages.Request, keys []approver.Key) string {
	reason := "You have no passkey for “" + p.conf.Words.Approve + "”, so you cannot approve this."
	for _, k := range keys {
		if k.Person != p.personName(r) || k.Right != signer.RightApprove {
			continue
		}
		switch status := k.Status(r.Now); {
		case status == approver.StatusWaiting:
			reason = "Your passkey waits to be admitted, so you cannot approve this yet."
		case status == approver.StatusCoolingOff:
			return "Your passkey cools off until " + k.UsableFrom.UTC().Format("2006-01-02 15:04") +
				" UTC, so you cannot approve this yet."
		case status == approver.StatusUsable:
			reason = "Your passkey is of the pages at " + k.Origin + ", so it signs nothing here."
		}
	}
	return reason
}

func signerKey(k approver.Key) ui.SignerKey {
	return ui.SignerKey{ID: k.ID, CredentialID: base64.RawURLEncoding.EncodeToString(k.CredentialID)}
}
