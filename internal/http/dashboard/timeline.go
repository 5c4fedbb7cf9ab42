package dashboard

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/transfer"
	"github.com/cofferpay/coffer/internal/webhooks/delivery"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

// depositPage shows one deposit with everything that happened to it.
func (d *dashboard) depositPage() pages.Page {
	return pages.Page{
		Path: "/transactions/deposits/{depositId}", Title: "Deposit", Action: identity.ReadOrganization,
		Live: []string{"DEPOSIT"}, Load: d.loadDepositTimeline,
	}
}

// withdrawalPage shows one withdrawal with everything that happened to it.
func (d *dashboard) withdrawalPage() pages.Page {
	return pages.Page{
		Path: "/transactions/withdrawals/{withdrawalId}", Title: "Withdrawal", Action: identity.ReadOrganization,
		Live: []string{"WITHDRAWAL"}, Load: d.loadWithdrawalTimeline,
	}
}

// transferTimelinePage shows one transfer with everything that happened to it.
func (d *dashboard) transferTimelinePage() pages.Page {
	return pages.Page{
		Path: "/transactions/transfers/{transferId}", Title: "Transfer", Action: identity.ReadOrganization,
		Live: []string{"TRANSFER"}, Load: d.loadTransferTimeline,
	}
}

// timelineStep is something that happened to a transaction.
type timelineStep struct {
	Title, Text string
	Note        string // a text of strangers
	Hash        string // of a transaction of the chain; "" for none
	ExplorerURL string
	Facts       []ui.Fact
	Gates       []gateRow
	Moment      ui.Moment
	happenedAt  time.Time
}

// ledgerRow is a movement of the ledger.
type ledgerRow struct {
	Cause, Balance, Subject string
	IsCredit                bool
	Figure, Symbol          string
	Moment                  ui.Moment
}

// timelineView is what the page of a transaction shows.
type timelineView struct {
	ListPath                string
	Kind, ID                string
	Figure, Symbol, Dollars string
	HasNoValue              bool
	Chip                    ui.Chip
	Facts                   []ui.Fact
	Confirmations           string // while they are counted
	DecisionPath            string // of the page of its decision; "" for none
	IsUndecided             bool
	Steps                   []timelineStep
	Entries                 []ledgerRow
	Calls                   []string
}

// transactionRecords are what other features know about a transaction.
type transactionRecords struct {
	entries    []ledger.Entry
	deliveries []delivery.ResourceAttempt
	attempts   []dispatch.AttemptView
	catalogue  mint.Catalogue
}

// visibleKinds are the accounts whose entries the interface shows.
var visibleKinds = []ledger.Kind{
	ledger.Customer, ledger.Withdrawing, ledger.InSwap, ledger.Product, ledger.ProductWithdrawing, ledger.ProductInSwap,
	ledger.RefundOwed, ledger.BatchHeld,
}

// causesOf are the causes of the entries of each kind of transaction.
var causesOf = map[transactionKind][]ledger.CauseKind{
	depositKind: {
		ledger.Deposit, ledger.DepositHold, ledger.DepositRelease, ledger.DepositFee, ledger.DepositReversal,
		ledger.Arrival,
	},
	withdrawalKind: {
		ledger.WithdrawalHold, ledger.WithdrawalEnd, ledger.WithdrawalFee, ledger.WithdrawalCharge,
		ledger.WithdrawalChargeReturn, ledger.Restore,
	},
	transferKind: {ledger.Transfer},
}

// loadRecords reads what other features know about a transaction of the organization.
func (d *dashboard) loadRecords(
	r *pages.Request, kind transactionKind, id string,
) (records transactionRecords, err error) {
	org := r.Session.OrgID
	err = d.conf.DB.ReadOrg(r.Context(), org, func(ctx context.Context, tx pg.Tx) (err error) {
		records.entries, err = ledger.ListEntriesOf(ctx, tx, org, id, causesOf[kind], visibleKinds)
		if err != nil {
			return err
		}
		if records.deliveries, err = delivery.ListResourceAttempts(ctx, tx, org, id); err != nil {
			return err
		}
		if kind == withdrawalKind {
			if records.attempts, err = dispatch.ListAttempts(ctx, tx, org, id); err != nil {
				return err
			}
		}
		records.catalogue, err = mint.LoadCatalogue(ctx, tx)
		return err
	})
	return records, err
}

// newTimeline begins the view of a transaction with what the row of a list shows.
func newTimeline(r *pages.Request, kind transactionKind, row transactionRow) timelineView {
	view := timelineView{
		ListPath: r.Path("transactions") + "?" + kindParameter.Name + "=" + string(kind), Kind: kind.singular(),
		ID: row.ID, Figure: row.Figure, Symbol: row.Symbol, Dollars: row.Dollars, HasNoValue: row.HasNoValue,
		Chip: row.Chip,
	}
	view.Facts = append(view.Facts, ui.Fact{Name: kind.singular(), Value: copiedText(row.ID)})
	return view
}

// finish adds the records of other features and puts the steps in order. Rule PAGE-14.
func (v *timelineView) finish(r *pages.Request, records transactionRecords) {
	for _, a := range records.deliveries {
		v.Steps = append(v.Steps, deliveryStep(r, a))
	}
	slices.SortStableFunc(v.Steps, func(a, b timelineStep) int { return a.happenedAt.Compare(b.happenedAt) })
	for _, e := range records.entries {
		row := ledgerRow{
			Cause: causeText(e.Cause.Kind), Balance: balanceText(e.Account.Kind), Subject: e.Account.Subject,
			IsCredit: e.Credit, Figure: e.Amount.String(), Symbol: "units", Moment: r.Moment(e.PostedAt),
		}
		if m, ok := records.catalogue.ByID(e.Account.MintID); ok {
			row.Figure, row.Symbol = e.Amount.Decimal(m.Decimals), m.Symbol
		}
		switch e.Account.Kind {
		case ledger.Product, ledger.ProductWithdrawing, ledger.ProductInSwap, ledger.RefundOwed, ledger.BatchHeld:
			row.Subject = productName(row.Subject)
		}
		v.Entries = append(v.Entries, row)
	}
}

// addStep adds something that happened at a time; without a time it did not happen.
func (v *timelineView) addStep(r *pages.Request, happenedAt *time.Time, step timelineStep) {
	if happenedAt == nil {
		return
	}
	step.Moment, step.happenedAt = r.Moment(*happenedAt), *happenedAt
	v.Steps = append(v.Steps, step)
}

// deliveryStep is an attempt to deliver an event to a webhook.
func deliveryStep(r *pages.Request, a delivery.ResourceAttempt) timelineStep {
	step := timelineStep{
		Title: "Webhook taken by the receiver", Text: string(a.Type) + ", attempt " + strconv.Itoa(a.Number),
		Note: a.Response, Facts: []ui.Fact{{Name: "Sent to", Value: ui.Foreign(a.URL)}},
		Moment: r.Moment(a.SentAt), happenedAt: a.SentAt,
	}
	if !a.IsDelivered() {
		step.Title = "Webhook not taken by the receiver"
	}
	if a.Status != 0 {
		step.Facts = append(step.Facts, ui.Fact{Name: "Answer", Value: ui.Text(strconv.Itoa(a.Status))})
	}
	if a.Error != "" {
		step.Facts = append(step.Facts, ui.Fact{Name: "Error", Value: ui.Foreign(a.Error)})
	}
	return step
}

// explorerURL returns the address of a transaction's page at an explorer, and "" if none is known.
func (d *dashboard) explorerURL(name chain.Name, tx chain.TxHash) string {
	if d.conf.ExplorerURL == nil || tx == "" {
		return ""
	}
	return d.conf.ExplorerURL(name, tx)
}

func (d *dashboard) loadDepositTimeline(r *pages.Request) (templ.Component, error) {
	item, err := d.loadDeposit(r)
	if err != nil {
		return nil, err
	}
	records, err := d.loadRecords(r, depositKind, item.ID)
	if err != nil {
		return nil, err
	}
	names, err := d.loadPeople(r)
	if err != nil {
		return nil, err
	}
	row := depositLine(r, item)
	view := newTimeline(r, depositKind, row)
	if item.Status == deposit.Confirming {
		view.Confirmations = strconv.FormatUint(item.Confirmations, 10)
		if item.ConfirmationsRequired > 0 {
			view.Confirmations += " of " + strconv.FormatUint(item.ConfirmationsRequired, 10)
		}
	}
	if item.IsFlagged {
		view.DecisionPath, view.IsUndecided = r.Path("approvals", "deposits", item.ID), item.Status == deposit.Flagged
	}
	view.Facts = append(view.Facts, d.depositFacts(r, item, row)...)
	view.Calls = []string{d.callText("GET", "/deposits/"+item.ID, "")}
	view.addStep(r, &item.CreatedAt, timelineStep{
		Title: "Seen on the chain", Text: "In block " + strconv.FormatUint(item.BlockNumber, 10),
		Hash: string(item.TxHash), ExplorerURL: d.explorerURL(item.Chain, item.TxHash),
	})
	view.addStep(r, item.ConfirmedAt, timelineStep{Title: "Its block is final"})
	view.addStep(r, item.Screening.ScreenedAt, timelineStep{Title: "Screened", Facts: screeningFacts(item)})
	view.addStep(r, item.CreditedAt, timelineStep{Title: "Credited"})
	for _, attempt := range item.ResolutionAttempts {
		view.addStep(r, &attempt.EndedAt, timelineStep{
			Title: "An attempt that failed before anything was sent", Text: decisionText(attempt.Action),
			Note: attempt.Message,
		})
	}
	if made := item.Resolution; made != nil {
		step := timelineStep{
			Title: decisionText(made.Decision), Text: "By " + names.nameOf(made.DecidedBy, r.Session),
			Note: textOrEmpty(made.Note),
		}
		if made.ToAddress != nil {
			step.Facts = append(step.Facts, ui.Fact{Name: "Sent to", Value: ui.Address(string(*made.ToAddress))})
		}
		if made.TxHash != nil {
			step.Hash, step.ExplorerURL = string(*made.TxHash), d.explorerURL(item.Chain, *made.TxHash)
		}
		view.addStep(r, &made.DecidedAt, step)
	}
	if reversal := item.Reversal; reversal != nil {
		view.addStep(r, &reversal.ReversedAt, timelineStep{
			Title: "Taken back: its block left the chain after it was final",
			Facts: []ui.Fact{
				{Name: "From the balance", Value: amountOf(item.Mint, reversal.TakenBack)},
				{Name: "Loss", Value: amountOf(item.Mint, reversal.Loss)},
			},
		})
	}
	view.finish(r, records)
	return transactionTimeline(view), nil
}

// amountOf shows an amount of a token, and of an unknown one in atomic units.
func amountOf(m *mint.Mint, amount money.Amount) templ.Component {
	if m == nil {
		return ui.Amount(amount.String(), "units")
	}
	return ui.Amount(amount.Decimal(m.Decimals), m.Symbol)
}

func (d *dashboard) depositFacts(r *pages.Request, item deposit.Deposit, row transactionRow) []ui.Fact {
	facts := []ui.Fact{
		{Name: row.PartyKind, Value: ui.Foreign(row.Party)},
		{Name: "Network", Value: ui.Text(row.Network)},
		{Name: "Arrived at", Value: ui.Address(row.Address)},
	}
	for _, sender := range item.FromAddresses {
		facts = append(facts, ui.Fact{Name: "Sender", Value: ui.Address(string(sender))})
	}
	facts = append(facts, ui.Fact{
		Name: "Transaction", Value: chainTransaction(string(item.TxHash), d.explorerURL(item.Chain, item.TxHash)),
	})
	if w := item.Swap; w != nil {
		facts = append(facts, ui.Fact{Name: "Completes the swap", Value: pathLink(swapPath(r, w.ID),
			ui.GroupDigits(w.AmountIn.Decimal(w.FromMint.Decimals))+" "+ui.EscapeForeign(w.FromMint.Symbol)+" to "+
				ui.EscapeForeign(w.ToMint.Symbol))})
	}
	if item.DepositSwapID != "" {
		facts = append(facts, depositSwapFact(r, item.DepositSwapID))
	}
	if item.CheckoutID != "" {
		facts = append(facts, ui.Fact{
			Name: "Arrived for", Value: pathLink(checkoutPath(r, item.CheckoutID), "A checkout"),
		})
	}
	if item.Memo != nil {
		facts = append(facts, ui.Fact{Name: "Memo of the payer", Value: ui.Foreign(*item.Memo)})
	}
	if item.SweepTxHash != nil {
		facts = append(facts, ui.Fact{
			Name:  "Moved to your wallet in",
			Value: chainTransaction(string(*item.SweepTxHash), d.explorerURL(item.Chain, *item.SweepTxHash)),
		})
	}
	return facts
}

// screeningFacts are what screening said about a deposit, and on what it relied.
func screeningFacts(item deposit.Deposit) (facts []ui.Fact) {
	s := item.Screening
	if s.Severity != nil {
		facts = append(facts, ui.Fact{Name: "Severity", Value: severityChip(*s.Severity)})
	}
	if s.Score != nil {
		facts = append(facts, ui.Fact{Name: "Score", Value: ui.Text(strconv.Itoa(*s.Score))})
	}
	if s.Provider != nil {
		facts = append(facts, ui.Fact{Name: "Provider", Value: ui.Foreign(*s.Provider)})
	}
	if s.Reference != nil {
		facts = append(facts, ui.Fact{Name: "Reference", Value: ui.Foreign(*s.Reference)})
	}
	if reason := item.FlagReason; reason != nil {
		if reason.Entity != nil {
			facts = append(facts, ui.Fact{Name: "Entity", Value: ui.Foreign(*reason.Entity)})
		}
		if len(reason.Categories) > 0 {
			facts = append(facts, ui.Fact{Name: "Categories", Value: ui.Foreign(strings.Join(reason.Categories, ", "))})
		}
	}
	return facts
}

func (d *dashboard) loadWithdrawalTimeline(r *pages.Request) (templ.Component, error) {
	w, err := d.conf.Withdrawals.ByID(r.Context(), r.Session.OrgID, r.PathParam("withdrawalId"))
	if err != nil {
		return nil, err
	}
	decisions, err := d.conf.Withdrawals.ListDecisions(r.Context(), r.Session.OrgID, w.ID)
	if err != nil {
		return nil, err
	}
	records, err := d.loadRecords(r, withdrawalKind, w.ID)
	if err != nil {
		return nil, err
	}
	names, err := d.loadPeople(r)
	if err != nil {
		return nil, err
	}
	row := withdrawalRow(r, w)
	view := newTimeline(r, withdrawalKind, row)
	view.DecisionPath = r.Path("approvals", "withdrawals", w.ID)
	view.IsUndecided = w.Status == withdrawal.AwaitingApproval
	view.Facts = append(view.Facts, d.withdrawalFacts(r, w, row)...)
	view.Calls = []string{d.callText("GET", "/withdrawals/"+w.ID, "")}
	for _, decision := range decisions {
		step := timelineStep{
			Title: actText(decision.Act), Text: "By " + names.nameOf(decision.Actor, r.Session), Note: decision.Note,
			Gates: newGateRows(w.Mint, decision.Gates),
		}
		for _, reason := range decision.Reasons {
			step.Facts = append(step.Facts, ui.Fact{Name: "Why it waits", Value: ui.Text(reasonText(reason))})
		}
		view.addStep(r, &decision.DecidedAt, step)
	}
	for _, attempt := range records.attempts {
		view.addStep(r, attempt.SignedAt, timelineStep{
			Title: signedText(attempt), Text: replacementText(attempt.Reason), Hash: string(attempt.Hash),
			ExplorerURL: d.explorerURL(w.Mint.Chain, attempt.Hash),
		})
		view.addStep(r, attempt.SentAt, timelineStep{
			Title: "Sent to the network", Text: "Transaction " + strconv.Itoa(attempt.Version) + " of this payment",
		})
	}
	view.addStep(r, w.CompletedAt, timelineStep{Title: "Ended: " + withdrawalChip(w.Status).Word})
	view.finish(r, records)
	return transactionTimeline(view), nil
}

// signedText says what the signer signed.
func signedText(attempt dispatch.AttemptView) string {
	switch {
	case attempt.Act == signer.Cancel:
		return "A transaction that cancels the payment was signed"
	case attempt.Version > 1:
		return "Replaced by a new transaction, which was signed"
	}
	return "Signed"
}

// replacementText says why a transaction replaces the one before.
func replacementText(reason string) string {
	switch reason {
	case "FEE":
		return "The fee of the one before was too low for the network"
	case "OPERATOR":
		return "The operator of this service asked for it"
	case "REFUSAL":
		return "The one before was refused, or its time was over"
	case "LAPSE":
		return "The one before expired"
	}
	return ""
}

func (d *dashboard) withdrawalFacts(
	r *pages.Request, w withdrawal.Withdrawal, row transactionRow,
) []ui.Fact {
	facts := []ui.Fact{
		{Name: row.PartyKind, Value: ui.Foreign(row.Party)},
		{Name: "To", Value: ui.Address(row.Address)},
		{Name: "Network", Value: ui.Text(row.Network)},
		{Name: "Network fee", Value: ui.Text(feeModeText(w))},
	}
	if w.TxHash != nil {
		facts = append(facts, ui.Fact{
			Name: "Transaction", Value: chainTransaction(string(*w.TxHash), d.explorerURL(w.Mint.Chain, *w.TxHash)),
		})
	}
	if w.SwapID != "" {
		facts = append(facts, paidSwapFact(r, w.SwapID))
	}
	for _, replaced := range w.ReplacedTxHashes {
		facts = append(facts, ui.Fact{Name: "Replaced transaction", Value: ui.Address(string(replaced))})
	}
	if w.FailureReason != nil {
		facts = append(facts, ui.Fact{Name: "Why it failed", Value: ui.Code(*w.FailureReason)})
	}
	if w.RejectedReason != nil {
		facts = append(facts, ui.Fact{Name: "Reason of the removal", Value: ui.Foreign(*w.RejectedReason)})
	}
	return append(facts, requestFacts(w.IdempotencyKey, w.Reference, w.Metadata)...)
}

// paidSwapFact leads from a payment to the swap of own money whose output it pays.
func paidSwapFact(r *pages.Request, swapID string) ui.Fact {
	return ui.Fact{
		Name: "Pays the output of", Value: pathLink(ownSwapPath(r, swapID), "A swap of your own money"),
	}
}

// depositSwapFact leads from a deposit to the deposit swap at whose wallet it arrived.
func depositSwapFact(r *pages.Request, depositSwapID string) ui.Fact {
	return ui.Fact{
		Name: "Arrived for", Value: pathLink(depositSwapPath(r, depositSwapID), "A deposit swap of this customer"),
	}
}

// requestFacts are what the backend wrote into a request.
func requestFacts(key, reference *string, metadata map[string]string) (facts []ui.Fact) {
	if key != nil {
		facts = append(facts, ui.Fact{Name: "Idempotency key", Value: ui.Foreign(*key)})
	}
	if reference != nil {
		facts = append(facts, ui.Fact{Name: "Reference", Value: ui.Foreign(*reference)})
	}
	for _, name := range kernel.SortedKeys(metadata) {
		facts = append(facts, ui.Fact{Name: "Metadata " + ui.EscapeForeign(name), Value: ui.Foreign(metadata[name])})
	}
	return facts
}

func (d *dashboard) loadTransferTimeline(r *pages.Request) (templ.Component, error) {
	t, err := d.conf.Transfers.ByID(r.Context(), r.Session.OrgID, r.PathParam("transferId"))
	if err != nil {
		return nil, err
	}
	records, err := d.loadRecords(r, transferKind, t.ID)
	if err != nil {
		return nil, err
	}
	view := newTimeline(r, transferKind, transferLine(r, t))
	view.Facts = append(view.Facts, transferFacts(r, t)...)
	view.Calls = []string{d.callText("GET", "/transfers/"+t.ID, "")}
	view.addStep(r, &t.CreatedAt, timelineStep{Title: "Moved", Text: "At once, without a network and without a fee"})
	view.finish(r, records)
	return transactionTimeline(view), nil
}

func transferFacts(r *pages.Request, t transfer.Transfer) []ui.Fact {
	row := transferLine(r, t)
	facts := []ui.Fact{
		{Name: "From", Value: partyOf(row.Party, row.PartyKind)},
		{Name: "To", Value: partyOf(row.Receiver, row.ReceiverKind)},
	}
	return append(facts, requestFacts(&t.IdempotencyKey, t.Reference, t.Metadata)...)
}
