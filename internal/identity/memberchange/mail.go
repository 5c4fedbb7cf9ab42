package memberchange

import (
	"context"
	"fmt"
	"strings"
	"unicode"

	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/member"
	"github.com/cofferpay/coffer/internal/platform/mail"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// Label names a setting for people, "" for one that people of the organization do not change.
func Label(setting string) string {
	switch setting {
	case "screeningSeverityThreshold":
		return "Flag deposits above this risk"
	case "screeningUsdThreshold":
		return "Screen deposits above this value"
	case "customerWithdrawUsdThreshold":
		return "Hold withdrawals of customers above this value"
	case "twoFactorUsdThreshold":
		return "Hold your own withdrawals above this value"
	case "withdrawSeverityThreshold":
		return "Refuse withdrawals to addresses above this risk"
	case "approvalAllowlist":
		return "Customers whose withdrawals need no approval"
	case "approvalQuorum":
		return "Approvals that a held withdrawal needs"
	}
	return ""
}

// mailKind is the kind of all mails of this package.
const mailKind = "SETTINGS_CHANGE"

// mailRequested tells the others with the right of a request. Without one who could approve it, it also tells
// the requester, whose session may be in other hands. Rule PAGE-27.
func (s *Service) mailRequested(
	ctx context.Context, tx pg.Tx, r Request, requester member.Member, colleagues []member.Member,
) error {
	if r.TakesEffectAt != nil {
		return s.mailTo(ctx, tx, append(colleagues, requester), r, "A change of your settings takes effect in a day",
			"A change of the settings of your organization was requested in the name of "+
				plainText(requester.Name)+". It loosens a control, and no other person could approve it, so it takes "+
				"effect by itself on "+r.TakesEffectAt.UTC().Format("2 Jan 2006, 15:04 UTC")+". If it is not "+
				"wanted, retract or reject it now.")
	}
	return s.mailTo(ctx, tx, colleagues, r, "A change of settings waits for you",
		plainText(requester.Name)+" asks for a change of the settings of your organization. It loosens a control, so "+
			"another person has to approve it.")
}

// mailDecided tells the requester and the others with the right what was decided.
func (s *Service) mailDecided(
	ctx context.Context, tx pg.Tx, r Request, decider member.Member, colleagues []member.Member,
) error {
	return s.mailTo(ctx, tx, colleagues, r, "A change of settings was "+verbs[r.Status],
		plainText(decider.Name)+" has "+verbs[r.Status]+" a change of the settings of your organization.")
}

// mailEffect tells everyone with the right that a request took effect by itself, or did not.
func (s *Service) mailEffect(ctx context.Context, tx pg.Tx, r Request) error {
	people, err := member.ListByOrg(ctx, tx, r.OrgID)
	if err != nil {
		return err
	}
	var recipients []member.Member
	for _, p := range people {
		if p.AccountID != "" && p.IsAllowed(identity.ChangeControls) {
			recipients = append(recipients, p)
		}
	}
	if r.Status == Outdated {
		return s.mailTo(ctx, tx, recipients, r, "A change of settings was dropped",
			"A change of the settings of your organization did not take effect: the settings, or the roles of its "+
				"requester, changed meanwhile.")
	}
	return s.mailTo(ctx, tx, recipients, r, "A change of settings took effect",
		"A change of the settings of your organization took effect by itself.")
}

// mailTo queues a mail to each person whose address a mail can have.
func (s *Service) mailTo(
	ctx context.Context, tx pg.Tx, people []member.Member, r Request, subject, sentence string,
) error {
	if s.Mails == nil {
		return nil // This installation sends no mail.
	}
	var text strings.Builder
	text.WriteString(sentence + "\n\nWhat changes:\n\n")
	for _, name := range r.ChangedNames() {
		text.WriteString("- " + Label(name) + "\n")
	}
	if s.URL != "" {
		text.WriteString("\nThe values and who asked for them:\n\n" + s.URL + r.ID + "\n")
	}
	for _, p := range people {
		if mail.CheckAddress(p.Email) != nil {
			continue // The page shows the request to this person, too.
		}
		err := s.Mails.Queue(ctx, tx, mail.Message{Kind: mailKind, To: p.Email, Subject: subject, Text: text.String()})
		if err != nil {
			return fmt.Errorf("tell of member change %s: %w", r.ID, err)
		}
	}
	return nil
}

// plainText writes the name of a person without what no mail may have.
func plainText(name string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, name)
}
