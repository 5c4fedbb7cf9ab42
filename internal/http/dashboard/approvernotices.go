package dashboard

import (
	"context"
	"log/slog"
	"strings"

	"github.com/cofferpay/coffer/internal/control/approver"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// findNotices returns what every page says to a person with a passkey for approvals: that the person has one alone, and
// that a passkey or a rule of the organization cools off. One query reads it. Rule PAGE-126.
func (d *dashboard) findNotices(r *pages.Request) (notices []ui.StandingNotice) {
	if d.conf.Approvers == nil || r.Session.OrgID == "" {
		return nil
	}
	var standing approver.Standing
	err := d.conf.DB.ReadOrg(r.Context(), r.Session.OrgID, func(ctx context.Context, tx pg.Tx) (err error) {
		standing, err = d.conf.Approvers.LoadStanding(ctx, tx, r.Session.OrgID, approver.PersonName(actor(r)))
		return err
	})
	if err != nil { // the page itself matters more
		log := d.conf.Log
		if log == nil {
			log = slog.Default()
		}
		log.WarnContext(r.Context(), "cannot read what cools off", "error", err)
		return nil
	}
	if len(standing.Single) > 0 {
		var rights []string
		for _, right := range standing.Single {
			rights = append(rights, "“"+approverWords.RightText(right)+"”")
		}
		notices = append(notices, ui.StandingNotice{
			Title: "You have one passkey alone for " + strings.Join(rights, " and for "),
			Text: "If you lose it, others have to admit a new one before you can sign again. Make a second one on " +
				"another device.",
			Link: "Make a passkey for approvals", Path: r.Path("approvers", "new"),
		})
	}
	if standing.IsEnrolled && (standing.CoolingKeys > 0 || standing.IsRuleCooling) {
		title := "A new passkey for approvals cools off"
		switch {
		case standing.IsRuleCooling && standing.CoolingKeys > 0:
			title = "A new passkey and a looser rule on approvals cool off"
		case standing.IsRuleCooling:
			title = "A looser rule on approvals cools off"
		case standing.CoolingKeys > 1:
			title = countNoun("new passkey", standing.CoolingKeys, false) + " for approvals cool off"
		}
		notices = append(notices, ui.StandingNotice{
			Title: title, Text: "Look whether you expect it. You can end a passkey that cools off alone.",
			Link: "Approvers and rule", Path: r.Path("approvers"),
		})
	}
	return notices
}
