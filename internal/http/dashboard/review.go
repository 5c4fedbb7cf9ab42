package dashboard

import (
	"slices"
	"strconv"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/http/approverpages"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/trace"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

// The names of the acts of the page of a withdrawal.
const (
	approveAct = "approve"
	signAct    = "sign" // approves with the signature of a passkey
	removeAct  = "remove"
)

const (
	// noteBytesMax bounds the bytes of a reason; the feature bounds its characters.
	noteBytesMax = 2000
	digestBytes  = 64
	// fingerprintDigits is the length of the beginning of the digest that people compare.
	fingerprintDigits = signer.TermsFingerprintDigits
)

// reviewPage shows one withdrawal and takes the decision about it.
func (d *dashboard) reviewPage() pages.Page {
	return pages.Page{
		Path: "/approvals/withdrawals/{withdrawalId}", Title: "Review of a withdrawal",
		Live:   []string{"WITHDRAWAL"},
		Action: identity.ReadOrganization, Load: d.loadReview,
		Acts: []pages.Act{
			{
				Name: approveAct, Action: identity.DecideWithdrawal, StepUp: pages.ActStepUp,
				Fields:   []pages.Field{{Name: "digest", BytesMax: digestBytes, Missing: "Open the page again."}},
				FindDone: d.findDecision, Run: d.approveWithdrawal,
			},
			{
				Name: signAct, Action: identity.DecideWithdrawal,
				Fields: approverpages.SignatureFields(
					pages.Field{Name: "digest", BytesMax: digestBytes, Missing: "Open the page again."},
				),
				FindDone: d.findDecision, Run: d.signWithdrawal,
			},
			{
				Name: removeAct, Action: identity.DecideWithdrawal, StepUp: pages.ActStepUp,
				Fields:   []pages.Field{{Name: "reason", BytesMax: noteBytesMax, Optional: true}},
				FindDone: d.findEnd, Run: d.removeWithdrawal,
			},
		},
	}
}

// findEnd returns the page of a withdrawal that waits for no person any more. A person who approved it
// may still remove it.
func (d *dashboard) findEnd(r *pages.Request) (string, error) {
	review, err := d.conf.Withdrawals.LoadReview(r.Context(), r.Session.OrgID, r.PathParam("withdrawalId"))
	if err != nil || review.Withdrawal.Status == withdrawal.AwaitingApproval {
		return "", err
	}
	return r.Path("approvals", "withdrawals", review.Withdrawal.ID), nil
}

// findDecision returns the page of a withdrawal that does not wait for this person any more.
func (d *dashboard) findDecision(r *pages.Request) (string, error) {
	review, err := d.conf.Withdrawals.LoadReview(r.Context(), r.Session.OrgID, r.PathParam("withdrawalId"))
	if err != nil {
		return "", err
	}
	if review.Withdrawal.Status == withdrawal.AwaitingApproval && !isApprovedBy(review, r.Session.Member.ID) {
		return "", nil
	}
	return r.Path("approvals", "withdrawals", review.Withdrawal.ID), nil
}

// isApprovedBy reports whether an approval of a member counts.
func isApprovedBy(review withdrawal.Review, memberID string) bool {
	return slices.ContainsFunc(review.Approvals, func(a withdrawal.Approval) bool {
		return a.Approver.Kind == "USER" && a.Approver.ID == memberID && !a.HasEnded
	})
}

// hasToSignAgain reports whether the signature of a member has too little time left.
func hasToSignAgain(review withdrawal.Review, memberID string) bool {
	return slices.ContainsFunc(review.Approvals, func(a withdrawal.Approval) bool {
		return a.Approver.Kind == "USER" && a.Approver.ID == memberID && a.HasEnded
	})
}

func (d *dashboard) approveWithdrawal(r *pages.Request) (string, error) {
	w, err := d.conf.Withdrawals.ApproveTerms(
		r.Context(), r.Session.OrgID, r.PathParam("withdrawalId"), actor(r), r.Values["digest"],
	)
	if err != nil {
		return "", err
	}
	trace.LinkTo(r.Context(), w.ID) // Rule PAGE-65.
	return r.Path("approvals", "withdrawals", w.ID), nil
}

// signWithdrawal approves with the signature of the person's passkey over the words on the page. Rule PAGE-110.
func (d *dashboard) signWithdrawal(r *pages.Request) (string, error) {
	signature, err := approverpages.ReadSignature(r)
	if err != nil {
		return "", err
	}
	w, err := d.conf.Withdrawals.ApproveSigned(
		r.Context(), r.Session.OrgID, r.PathParam("withdrawalId"), actor(r), r.Values["digest"], &signature,
	)
	if err != nil {
		return "", err
	}
	trace.LinkTo(r.Context(), w.ID) // Rule PAGE-65.
	return r.Path("approvals", "withdrawals", w.ID), nil
}

func (d *dashboard) removeWithdrawal(r *pages.Request) (string, error) {
	w, err := d.conf.Withdrawals.Remove(
		r.Context(), r.Session.OrgID, r.PathParam("withdrawalId"), actor(r), r.Values["reason"],
	)
	if err != nil {
		return "", err
	}
	return r.Path("approvals", "withdrawals", w.ID), nil
}

// reviewView is what the page of a withdrawal shows.
type reviewView struct {
	ListPath, Path            string
	Figure, Symbol, Dollars   string
	Chip                      ui.Chip
	Unusual                   []string
	Words                     []ui.Fact
	OtherFacts                []ui.Fact
	Gates                     []gateRow
	Steps                     []stepRow
	Digest, Fingerprint       string
	Form                      ui.Form
	CanApprove, CanRemove     bool
	Sign                      *approverpages.SignerView // in place of the second factor; nil: no signature is needed
	WhyNot                    string                    // why this person cannot approve, or has to sign again
	DecidedTitle, DecidedText string                    // what was decided; "" while it waits for this person
	DecidedKind               ui.ChipKind
	ApprovalsText             string
}

// gateRow is a rule with what it looked at.
type gateRow struct {
	Name   string
	Result ui.Chip
	Inputs []ui.Fact
}

// stepRow is a decision in the history of a withdrawal.
type stepRow struct {
	Title, Name, Note string
	Moment            ui.Moment
}

func (d *dashboard) loadReview(r *pages.Request) (templ.Component, error) {
	review, err := d.conf.Withdrawals.LoadReview(r.Context(), r.Session.OrgID, r.PathParam("withdrawalId"))
	if err != nil {
		return nil, err
	}
	decisions, err := d.conf.Withdrawals.ListDecisions(r.Context(), r.Session.OrgID, review.Withdrawal.ID)
	if err != nil {
		return nil, err
	}
	names, err := d.loadPeople(r)
	if err != nil {
		return nil, err
	}
	w := review.Withdrawal
	view := reviewView{
		ListPath: r.Path("approvals"), Path: r.Path("approvals", "withdrawals", w.ID),
		Figure: w.Amount.Decimal(w.Mint.Decimals), Symbol: w.Mint.Symbol, Chip: withdrawalChip(w.Status),
		Unusual: unusualFacts(review, decisions), Words: paymentWords(r, review),
		Digest: review.Digest, Fingerprint: review.Digest[:fingerprintDigits], Form: r.Form,
		ApprovalsText: strconv.Itoa(w.Approvals.Received) + " of " + strconv.Itoa(w.Approvals.Required),
	}
	if w.USDValue != nil {
		view.Dollars = w.USDValue.Cents()
	}
	view.OtherFacts = aboutWithdrawal(r, review, decisions, names)
	for _, decision := range slices.Backward(decisions) {
		if len(decision.Gates) > 0 {
			view.Gates = newGateRows(w.Mint, decision.Gates)
			break
		}
	}
	for _, decision := range decisions {
		view.Steps = append(view.Steps, stepRow{
			Title: actText(decision.Act), Name: names.nameOf(decision.Actor, r.Session), Note: decision.Note,
			Moment: r.Moment(decision.DecidedAt),
		})
	}
	view.explainState(r, review, decisions, names)
	if view.CanApprove && review.NeedsSignature() {
		view.Sign, err = d.approvers().NewSignerView(r, review.People, ui.SignView{
			Form: r.Form, Act: signAct, Path: view.Path + "/" + signAct,
			Words:  approverpages.WordsOf(r, actor(r), review.Statement),
			Hidden: []ui.Hidden{{Name: "digest", Value: review.Digest}},
			Button: "Sign and approve " + ui.GroupDigits(view.Figure) + " " + ui.EscapeForeign(view.Symbol),
		})
		if err != nil {
			return nil, err
		}
	}
	return reviewOfWithdrawal(view), nil
}

// explainState says what the person can do, or what was decided already.
func (v *reviewView) explainState(
	r *pages.Request, review withdrawal.Review, decisions []withdrawal.DecisionRecord, names people,
) {
	w := review.Withdrawal
	if w.Status != withdrawal.AwaitingApproval {
		v.DecidedKind, v.DecidedTitle = v.Chip.Kind, v.Chip.Word
		for _, decision := range slices.Backward(decisions) {
			switch decision.Act {
			case withdrawal.ActApproved, withdrawal.ActRemoved, withdrawal.ActCancelled:
				v.DecidedText = actText(decision.Act) + " by " + names.nameOf(decision.Actor, r.Session) + ", " +
					ui.FormatAge(r.Moment(decision.DecidedAt)) + "."
				return
			}
		}
		return
	}
	v.CanRemove = r.IsAllowed(identity.DecideWithdrawal)
	v.CanApprove = v.CanRemove
	switch {
	case !v.CanRemove:
		v.WhyNot = "Your roles show this withdrawal and do not decide about it."
	case isApprovedBy(review, r.Session.Member.ID):
		v.CanApprove, v.DecidedKind, v.DecidedTitle = false, ui.Good, "You approved it"
		v.DecidedText = "Another person has to approve it, too: " + v.ApprovalsText + " approvals are there."
	case isMaker(decisions, r.Session.Member.ID):
		v.CanApprove, v.WhyNot = false, "You requested this withdrawal, so another person has to approve it."
	case hasToSignAgain(review, r.Session.Member.ID):
		v.WhyNot = signAgainText
	}
}

func isMaker(decisions []withdrawal.DecisionRecord, memberID string) bool {
	return len(decisions) > 0 && decisions[0].Actor.Kind == "USER" && decisions[0].Actor.ID == memberID
}

// unusualFacts says what deserves attention before anything else.
func unusualFacts(review withdrawal.Review, decisions []withdrawal.DecisionRecord) (facts []string) {
	w := review.Withdrawal
	if review.IsReturned {
		facts = append(facts, "It was approved before and came back. The history says why.")
	}
	for _, decision := range slices.Backward(decisions) {
		for _, step := range decision.Gates {
			if step.Gate != withdrawal.GateDestination {
				continue
			}
			if resembled := step.Inputs["resembles"]; resembled != "" {
				facts = append(facts, "The address looks like "+resembled+", which is known, and it is another one.")
			}
			if step.Inputs["failedWithdrawalId"] != "" {
				facts = append(facts, "An earlier payment to this address failed because of the address.")
			}
		}
		break
	}
	if review.IsFirstPayment {
		facts = append(facts, "Your organization has never paid this address before.")
	}
	switch {
	case review.IsLargest && review.Compared > 0:
		facts = append(facts, "It is the largest withdrawal of "+ui.EscapeForeign(w.Mint.Symbol)+
			" in 30 days, compared with "+ui.FormatCount(review.Compared, "other")+".")
	case review.IsLargest:
		facts = append(facts, "It is the only withdrawal of "+ui.EscapeForeign(w.Mint.Symbol)+" in 30 days.")
	}
	if w.USDValue == nil {
		facts = append(facts, "There was no price, so its value in dollars is not known.")
	}
	return facts
}

// paymentWords are the words of the payment: what an approver approves, whole and in a fixed order. They
// are the terms over which the service makes the approval's MAC.
func paymentWords(r *pages.Request, review withdrawal.Review) []ui.Fact {
	w := review.Withdrawal
	facts := []ui.Fact{
		{
			Name: "Amount", Word: "amount",
			Value: amountWord(w.Amount.Decimal(w.Mint.Decimals), w.Mint.Symbol, w.Amount.String()),
		},
		{Name: "To", Word: "to", Value: ui.Address(string(w.ToAddress))},
		{Name: "Network", Word: "network", Value: ui.Text(networkName(w.Mint.Chain))},
		{Name: "Token", Word: "token", Value: tokenWord(w.Mint.Symbol, w.Mint.ID, w.Mint.Decimals)},
	}
	if contract := string(w.Mint.Contract); contract != "" {
		facts = append(facts, ui.Fact{Name: "Contract", Word: "contract", Value: ui.Address(contract)})
	}
	facts = append(facts, ui.Fact{Name: "Network fee", Word: "feeMode", Value: ui.Text(feeModeText(w))})
	if w.MaxNetworkFee != nil {
		facts = append(facts, ui.Fact{
			Name: "Limit of the fee", Word: "feeMax",
			Value: ui.Text(ui.GroupDigits(w.MaxNetworkFee.String()) + " atomic units"),
		})
	}
	if w.Owner.IsOrganization() {
		facts = append(facts, ui.Fact{
			Name: "From product", Word: "product", Value: ui.Text(productName(w.Owner.Product())),
		})
		if w.WhitelistedAddressID != nil {
			facts = append(facts, ui.Fact{
				Name: "Whitelist entry", Word: "whitelistEntry", Value: ui.Code(*w.WhitelistedAddressID),
			})
		}
	}
	return append(facts,
		ui.Fact{Name: "Act", Word: "act", Value: ui.Text("Approve a payment")},
		ui.Fact{Name: "Organization", Word: "organization", Value: ui.Code(r.Session.OrgID)},
		ui.Fact{Name: "Withdrawal", Word: "withdrawal", Value: ui.Code(w.ID)},
	)
}

func feeModeText(w withdrawal.Withdrawal) string {
	if w.FeeMode == withdrawal.FeeOrganization {
		return "Your organization pays it in addition"
	}
	return "It comes out of the amount"
}

// aboutWithdrawal are the facts that are not words of the payment.
func aboutWithdrawal(
	r *pages.Request, review withdrawal.Review, decisions []withdrawal.DecisionRecord, names people,
) []ui.Fact {
	w := review.Withdrawal
	var facts []ui.Fact
	if !w.Owner.IsOrganization() {
		facts = append(facts, ui.Fact{Name: "Customer", Value: ui.Foreign(w.Owner.CustomerID())})
	}
	requestedBy := "Not recorded"
	if len(decisions) > 0 {
		requestedBy = names.nameOf(decisions[0].Actor, r.Session)
	}
	facts = append(facts,
		ui.Fact{Name: "Requested by", Value: ui.Text(requestedBy)},
		ui.Fact{Name: "Requested", Value: ui.When(r.Moment(w.CreatedAt))},
	)
	if w.SwapID != "" {
		facts = append(facts, paidSwapFact(r, w.SwapID))
	}
	for _, reason := range w.ApprovalReasons {
		facts = append(facts, ui.Fact{Name: "Why it waits", Value: ui.Text(reasonText(reason))})
	}
	if w.Reference != nil {
		facts = append(facts, ui.Fact{Name: "Reference", Value: ui.Foreign(*w.Reference)})
	}
	for _, key := range kernel.SortedKeys(w.Metadata) {
		facts = append(facts, ui.Fact{
			Name: "Metadata " + ui.EscapeForeign(key), Value: ui.Foreign(w.Metadata[key]),
		})
	}
	if w.Screening.Severity != nil {
		facts = append(facts, ui.Fact{
			Name:  "Screening",
			Value: ui.Text(*w.Screening.Severity + ", by " + ui.EscapeForeign(*w.Screening.Provider)),
		})
	}
	facts = append(facts, ui.Fact{
		Name: "All of its steps", Value: pathLink(transactionPath(r, withdrawalKind, w.ID), "Show the timeline"),
	})
	if w.TxHash != nil {
		facts = append(facts, ui.Fact{Name: "Transaction", Value: ui.Address(string(*w.TxHash))})
	}
	if w.RejectedReason != nil {
		facts = append(facts, ui.Fact{Name: "Reason of the removal", Value: ui.Foreign(*w.RejectedReason)})
	}
	return facts
}

func newGateRows(m mint.Mint, steps []withdrawal.Step) (rows []gateRow) {
	for _, step := range steps {
		row := gateRow{Name: gateText(step.Gate), Result: resultChip(step.Result)}
		for _, name := range kernel.SortedKeys(step.Inputs) {
			row.Inputs = append(row.Inputs, ui.Fact{
				Name: inputName(name), Value: inputValue(m, name, step.Inputs[name]),
			})
		}
		rows = append(rows, row)
	}
	return rows
}

// tokenInputs are the inputs of rules that are amounts of the token.
var tokenInputs = []string{"available", "liquid", "minimum", "rentMax", "failureMax"}

// inputValue shows an input of a rule. An amount of the token has its unit.
func inputValue(m mint.Mint, name, text string) templ.Component {
	if slices.Contains(tokenInputs, name) {
		if amount, err := money.Parse(text); err == nil {
			return ui.Amount(amount.Decimal(m.Decimals), m.Symbol)
		}
	}
	return ui.Foreign(text)
}
