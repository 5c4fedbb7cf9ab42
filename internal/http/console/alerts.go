package console

import (
	"cmp"
	"strings"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/http/pages"
)

// alertNote is an alert that leads to a page.
type alertNote struct {
	Name string
	// Runbook is the file and section that say what to do; "" means the section of the alert.
	Runbook string
}

// runbook returns where a person reads what to do.
func (a alertNote) runbook() string {
	return cmp.Or(a.Runbook, "docs/runbooks/alerts.md#"+strings.ToLower(a.Name))
}

// alertsOf has the alerts that lead to each page. The rules of the alerts name the same pages. Rule PAGE-48.
var alertsOf = map[string][]alertNote{
	"/audit": {
		{Name: "CofferAuditContradicted"},
		{Name: "CofferAuditUnsealed"},
	},
	"/billing/prices": {
		{Name: "CofferFeesUnpriced"},
	},
	"/chains": {
		{Name: "CofferDepositsNotFinal"},
		{Name: "CofferDepositsNotCredited"},
		{Name: "CofferScanStands"},
		{Name: "CofferTracesMissing"},
		{Name: "CofferScanBehind"},
		{Name: "CofferScanFarBehind"},
		{Name: "CofferProvidersDisagree"},
		{Name: "CofferBlockUnreadable"},
		{Name: "CofferPaymentsInQuestion", Runbook: "docs/runbooks/finality.md"},
		{Name: "CofferMintQuarantined"},
		{Name: "CofferMemosUnread"},
	},
	"/checker": {
		{Name: "CofferBooksBroken"},
		{Name: "CofferBooksUnchecked"},
		{Name: "CofferDepositSwapTampered"},
	},
	"/freezes": {
		{Name: "CofferFrozen"},
	},
	"/gas": {
		{Name: "CofferGasLow"},
		{Name: "CofferGasOut"},
	},
	"/jobs": {
		{Name: "CofferMailsWait"},
		{Name: "CofferMailsGivenUp"},
		{Name: "CofferJobsGivenUp"},
	},
	"/orders": {
		{Name: "CofferOrderStuck"},
		{Name: "CofferPaymentsWait"},
		{Name: "CofferBatchPayoutWaits"},
		{Name: "CofferPaymentsNotMined"},
	},
	"/screening": {
		{Name: "CofferSenderRisk"},
		{Name: "CofferRescreeningLate"},
	},
	"/signer": {
		{Name: "CofferSignerSilent", Runbook: "docs/runbooks/signer-host.md"},
		{Name: "CofferSignerRefuses"},
		{Name: "CofferApproverCoolsOff"},
		{Name: "CofferApproverRefused"},
		{Name: "CofferApproverRetired"},
		{Name: "CofferApproverKept"},
		{Name: "CofferApproverHasOneKey"},
	},
	"/swap-arrivals": {
		{Name: "CofferSwapArrivalsStray"},
	},
	"/swap-providers": {
		{Name: "CofferSwapProviderNearLimit"},
		{Name: "CofferSwapQuotesRefused"},
		{Name: "CofferSwapProviderSuspended"},
		{Name: "CofferSwapProviderFails"},
	},
	"/swaps": {
		{Name: "CofferSwapClaimLate"},
		{Name: "CofferSwapClaimsMany"},
	},
	"/webhooks": {
		{Name: "CofferEventsNotNumbered"},
		{Name: "CofferEventsNotDelivered"},
		{Name: "CofferWebhooksFailing"},
		{Name: "CofferEndpointDisabled"},
	},
	"/withdrawals": {
		{Name: "CofferWithdrawalsHeld"},
	},
}

// withAlerts adds to each page the alerts that lead to it, with their runbooks.
func withAlerts(list []pages.Page) []pages.Page {
	for i, p := range list {
		notes := alertsOf[p.Path]
		if len(notes) == 0 {
			continue
		}
		load := p.Load
		list[i].Load = func(r *pages.Request) (templ.Component, error) {
			main, err := load(r)
			if err != nil {
				return nil, err
			}
			return join(main, alertNotes(notes)), nil
		}
	}
	return list
}
