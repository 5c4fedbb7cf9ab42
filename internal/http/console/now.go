package console

import (
	"context"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/report"
)

// nowPage shows what needs an operator, the most urgent first. Rule PAGE-45.
func (c *console) nowPage() pages.Page {
	return pages.Page{
		Path: "/", Title: "Now", Action: identity.ReadInstallation, Icon: "home", Shortcut: "h", Load: c.loadNow,
		Live: []string{
			"CHAIN", "CHANGE_REQUEST", "DEPOSIT", "FREEZE", "JOB", "MINT", "SENDER", "SWAP", "SWAP_PROVIDER",
			"WEBHOOK_ENDPOINT", "WHITELISTED_ADDRESS", "order",
		},
	}
}

// nowRow is something that needs an operator.
type nowRow struct {
	Chip              ui.Chip
	Title, Text, Path string
	Oldest            *ui.Moment
}

// attention is how the page shows a cause.
type attention struct {
	Kind         ui.ChipKind
	Noun         string // of what is counted
	Text         string // what it means and what to do first
	Path, Filter string // the page that shows it
}

// attentions has each cause.
var attentions = map[report.AttentionCause]attention{
	report.BooksBroken: {
		ui.Bad, "freeze of the checker", "The books and a chain differ, and every payment is stopped. Find out " +
			"which row is wrong before anything else.", "/checker", "",
	},
	report.AuditContradicted: {
		ui.Bad, "contradicted anchor", "The audit log differs from what the signer signed.", "/audit", "",
	},
	report.FinalityBroken: {
		ui.Bad, "chain with broken finality", "A chain replaced final blocks. Decide at the terminal which end " +
			"counts.", "/chains", "",
	},
	report.ProgramFroze: {
		ui.Bad, "freeze of the service", "The service stopped a wallet because something there is not understood.",
		"/freezes", "?active=true",
	},
	report.OrderStuck: {
		ui.Bad, "stuck order", "A final transaction does not show its payment. The page of the order has the safe " +
			"act.", "/orders", "?status=STUCK",
	},
	report.ResolutionStuck: {
		ui.Bad, "stuck return of a flagged deposit", "A return or redirect did not finish. It can be completed.",
		"/flagged", "?status=RESOLUTION_STUCK",
	},
	report.WhitelistRefused: {
		ui.Bad, "whitelisted address that the signer refuses", "The row differs from what the signer endorsed, or " +
			"the signer does not know it.", "/organizations", "",
	},
	report.GasMissing: {
		ui.Bad, "order without gas", "A treasury lacks native coin for fees. Send gas to its address.", "/gas", "",
	},
	report.SignerWaits: {
		ui.Bad, "order that waits for the signer", "The signer does not answer, its clock is not confirmed, or a " +
			"wallet reached the limit of fees.", "/signer", "",
	},
	report.SwapSuspended: {
		ui.Wait, "suspended swap provider", "It gets no new swaps. If the service suspended it, an answer of " +
			"it could not " +
			"be trusted.", "/swap-providers", "",
	},
	report.StrayArrival: {
		ui.Wait, "stray arrival of a swap", "No open swap expects it. It is in suspense until a person decides.",
		"/swap-arrivals", "?open=true",
	},
	report.SwapClaimLate: {
		ui.Wait, "swap with a provider for more than a day", "Ask the provider. The page of the swap has what to " +
			"tell it.", "/swaps", "?openClaims=true",
	},
	report.MintQuarantined: {
		ui.Wait, "token in quarantine", "Nothing of it is credited or paid until the quarantine ends.", "/chains", "",
	},
	report.ChangeAwaits: {
		ui.Wait, "change request", "A change that loosens a control waits for another operator.", "/changes",
		"?status=PENDING",
	},
	report.DepositFlagged: {
		ui.Wait, "flagged deposit", "The organization decides, and an operator can redirect.", "/flagged",
		"?status=FLAGGED",
	},
	report.EndpointDisabled: {
		ui.Wait, "webhook that failed for days", "It is disabled. The organization got a mail.", "/webhooks", "",
	},
	report.JobGivenUp: {
		ui.Wait, "job that was given up", "It failed too often in the last day and is not repeated.", "/jobs",
		"?state=discarded",
	},
	report.MailGivenUp: {
		ui.Wait, "mail that was not sent", "The mailbox or the mail server does not take it. The log has the reason.",
		"/jobs", "",
	},
	report.SenderRisky: {
		ui.Info, "sender found risky later", "Screening changed its answer after the deposits were credited.",
		"/screening", "",
	},
	report.OperatorFreezes: {
		ui.Info, "freeze by operators", "It still stops payments.", "/freezes", "?active=true",
	},
}

func (c *console) loadNow(r *pages.Request) (templ.Component, error) {
	var found []report.Attention
	err := c.read(r, func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = report.ListAttention(ctx, tx)
		return err
	})
	if err != nil {
		return nil, err
	}
	list := make([]nowRow, 0, len(found))
	for _, a := range found {
		list = append(list, newNowRow(r, a))
	}
	return nowOverview(list), nil
}

func newNowRow(r *pages.Request, a report.Attention) nowRow {
	shown := attentions[a.Cause]
	row := nowRow{
		Title: ui.FormatCount(a.Count, shown.Noun), Text: shown.Text, Path: Prefix + shown.Path + shown.Filter,
	}
	switch shown.Kind {
	case ui.Bad:
		row.Chip = ui.Chip{Kind: ui.Bad, Word: "At once"}
	case ui.Wait:
		row.Chip = ui.Chip{Kind: ui.Wait, Word: "Today"}
	default:
		row.Chip = ui.Chip{Kind: shown.Kind, Word: "To know"}
	}
	if a.OldestAt != nil {
		oldest := r.Moment(*a.OldestAt)
		row.Oldest = &oldest
	}
	return row
}
