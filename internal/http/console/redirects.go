package console

import (
	"fmt"

	"github.com/cofferpay/coffer/internal/control/approver"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/http/approverpages"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
)

// requestName is the field with the redirect that waits for signatures.
const requestName = "redirect"

// takeBackAct ends a redirect that waits for signatures.
const takeBackAct = "withdraw"

// redirectActs are the acts of a redirect: it is asked for, and where the operators have a rule, it is signed or taken
// back. Rule PAGE-117.
func (c *console) redirectActs(note pages.Field, isDecided func(deposit.Status) bool) []pages.Act {
	request := pages.Field{Name: requestName, BytesMax: idBytesMax, Missing: "Open the page again."}
	return []pages.Act{
		{
			Name: "redirect", Action: identity.RedirectFlaggedDeposit, StepUp: pages.ActStepUp,
			Fields: []pages.Field{
				{Name: "toAddress", BytesMax: textBytesMax, Missing: "Enter the address."},
				{Name: "reason", BytesMax: textBytesMax, Missing: "Choose the reason."},
				{
					Name: "reference", BytesMax: noteBytesMax,
					Missing: "Enter the reference of the case or of the order.",
				},
				note,
			},
			FindDone: c.findDecided(isDecided),
			Run: func(r *pages.Request) (string, error) {
				return depositResult(r, func() (deposit.Deposit, error) {
					return c.conf.Deposits.AskRedirect(
						r.Context(), r.PathParam("depositId"), decider(r), deposit.Redirection{
							ToAddress: r.Values["toAddress"], Reason: r.Values["reason"],
							Reference: r.Values["reference"],
							Note:      r.Values["note"],
						})
				})
			},
		},
		{
			Name: approverpages.SignAct, Action: identity.SignAsOperator,
			Fields:   approverpages.SignatureFields(request),
			FindDone: c.findSignedRedirect, Run: c.signRedirect,
		},
		{
			Name: takeBackAct, Action: identity.RedirectFlaggedDeposit, StepUp: pages.ActStepUp,
			Fields: []pages.Field{request}, FindDone: c.findRedirectEnd,
			Run: func(r *pages.Request) (string, error) {
				return depositResult(r, func() (deposit.Deposit, error) {
					return c.conf.Deposits.WithdrawReturn(
						r.Context(), r.PathParam("depositId"), r.Values[requestName], decider(r),
					)
				})
			},
		},
	}
}

func (c *console) loadRedirect(r *pages.Request) (deposit.ReturnReview, error) {
	return c.conf.Deposits.LoadRedirect(r.Context(), r.PathParam("depositId"))
}

// findSignedRedirect returns the page of a deposit whose redirect does not wait for this operator any more.
func (c *console) findSignedRedirect(r *pages.Request) (string, error) {
	review, err := c.loadRedirect(r)
	switch {
	case err != nil:
		return "", err
	case review.Request == nil:
		return c.findDecided(func(status deposit.Status) bool { return status != deposit.Flagged })(r)
	case review.Request.IsSignedBy(actor(r)):
		return r.Path("flagged", r.PathParam("depositId")), nil
	}
	return "", nil
}

// findRedirectEnd returns the page of a deposit whose redirect does not wait for signatures any more.
func (c *console) findRedirectEnd(r *pages.Request) (string, error) {
	review, err := c.loadRedirect(r)
	if err != nil || review.Request != nil && review.Request.ID == r.Values[requestName] {
		return "", err
	}
	return r.Path("flagged", r.PathParam("depositId")), nil
}

func (c *console) signRedirect(r *pages.Request) (string, error) {
	signature, err := approverpages.ReadSignature(r)
	if err != nil {
		return "", err
	}
	return depositResult(r, func() (deposit.Deposit, error) {
		return c.conf.Deposits.SignRedirect(
			r.Context(), r.PathParam("depositId"), r.Values[requestName], decider(r), signature,
		)
	})
}

// redirectView is a redirect that waits for signatures.
type redirectView struct {
	Facts []ui.Fact // what it is, where this operator does not sign the words
	Form  ui.Form

	AskedText, SignedText string

	Sign     *approverpages.SignerView // nil: this operator does not sign it
	WhyNot   string                    // why not
	TakeBack *actView                  // nil: the role does not
}

// newRedirectView shows the redirect of a review. This operator signs it, or takes it back.
func (c *console) newRedirectView(
	r *pages.Request, names holders, review deposit.ReturnReview,
) (view *redirectView, err error) {
	q, people := review.Request, max(review.People, 1)
	path := r.Path("flagged", r.PathParam("depositId"))
	signedBy := make([]string, 0, len(q.SignedBy))
	for _, person := range q.SignedBy {
		signedBy = append(signedBy, approver.PersonName(person))
	}
	view = &redirectView{
		Form: r.Form,
		Facts: []ui.Fact{
			{Name: "To", Value: ui.Address(string(q.ToAddress))},
			{Name: "Reason", Value: ui.Text(wordOf(q.Reason))},
			{Name: "Reference", Value: ui.Foreign(q.Reference)},
		},
		AskedText: "Asked for by " + ui.EscapeForeign(nameOfPerson(r, names, approver.PersonName(q.AskedBy))) + ", " +
			ui.FormatAge(r.Moment(q.AskedAt)) + ".",
		SignedText: fmt.Sprintf("%d of %d signatures are there. Signed by: %s.", len(signedBy), people,
			signersText(r, names, signedBy)),
	}
	if q.Note != "" {
		view.AskedText += " Note: " + ui.EscapeForeign(q.Note)
	}
	if r.IsAllowed(identity.RedirectFlaggedDeposit) {
		view.TakeBack = &actView{
			Path: path, Act: takeBackAct, Form: r.Form, Button: "Take the redirect back", TakesCode: true,
			Text:   "The deposit stays flagged, and it can be decided anew.",
			Hidden: []hiddenField{{requestName, q.ID}},
		}
	}
	switch {
	case !r.IsAllowed(identity.SignAsOperator):
		view.WhyNot = "Your role shows this redirect and does not sign it."
	case q.AskedBy == actor(r):
		view.WhyNot = "You asked for this redirect, so another operator signs it."
	case q.IsSignedBy(actor(r)):
		view.WhyNot = "You signed it. Another operator has to sign it, too."
	case review.NoWords != nil:
		view.WhyNot = review.NoWords.Reason
	default:
		view.Sign, err = c.approvers().NewSignerView(r, people, ui.SignView{
			Form: r.Form, Act: approverpages.SignAct, Path: path + "/" + approverpages.SignAct,
			Words:  approverpages.WordsOf(r, actor(r), review.Statement),
			Hidden: []ui.Hidden{{Name: requestName, Value: q.ID}},
			Button: "Sign and redirect this deposit", IsDanger: true,
		})
	}
	return view, err
}
