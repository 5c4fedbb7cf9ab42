package dashboard

import (
	"cmp"
	"log/slog"
	"net/url"
	"strconv"
	"strings"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/control/approver"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/approverpages"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

const (
	// chooseAct is the act of the list that leads to the review of several withdrawals.
	chooseAct = "together"
	// chosenName is the field of the boxes of the list.
	chosenName = "withdrawalId"
	// reviewListPath is the page on which a person signs several withdrawals at once.
	reviewListPath = "/approvals/several"
	// withdrawalIDBytes bounds the id of a withdrawal with what separates it from the next one.
	withdrawalIDBytes = 41
	// listedMax is how many rows a list has, each of which may be chosen.
	listedMax = 50
)

// reviewListParameter names the withdrawals of the page, separated by commas.
var reviewListParameter = kernel.Parameter{
	Name: "withdrawals", Kind: kernel.TextParameter, Max: listedMax * withdrawalIDBytes,
}

// newChooseAct leads from the list to the review of the withdrawals that a person chose.
func (d *dashboard) newChooseAct() pages.Act {
	return pages.Act{
		Name: chooseAct, Action: identity.DecideWithdrawal,
		Fields: []pages.Field{{
			Name: chosenName, BytesMax: listedMax * withdrawalIDBytes, HasBoxes: true,
			Missing: "Choose at least two withdrawals.",
		}},
		Run: d.chooseReviewList,
	}
}

func (d *dashboard) chooseReviewList(r *pages.Request) (string, error) {
	ids := r.ListTicked(chosenName)
	if _, err := d.conf.Withdrawals.LoadReviewList(r.Context(), r.Session.OrgID, ids); err != nil {
		return "", err
	}
	return reviewListAddress(r, ids), nil
}

// reviewListAddress returns the page on which withdrawals are signed together.
func reviewListAddress(r *pages.Request, ids []string) string {
	return r.Path("approvals", "several") + "?" +
		url.Values{reviewListParameter.Name: {strings.Join(ids, ",")}}.Encode()
}

// reviewListPage shows several withdrawals whole and has one passkey sign all of them. Rules PAGE-125 and PAGE-129.
func (d *dashboard) reviewListPage() pages.Page {
	return pages.Page{
		Path: reviewListPath, Title: "Review of several withdrawals", Action: identity.ReadOrganization,
		MenuPath: "/approvals", Query: []kernel.Parameter{reviewListParameter}, Load: d.loadReviewList,
		Acts: []pages.Act{{
			Name: signAct, Action: identity.DecideWithdrawal,
			Fields: approverpages.SignatureFields(pages.Field{
				Name: "digests", BytesMax: listedMax * (digestBytes + 1), Missing: "Open the page again.",
			}),
			Run: d.signReviewList,
		}},
	}
}

// reviewListView is what the page of several withdrawals shows.
type reviewListView struct {
	ListPath string
	IsEmpty  bool // no withdrawal is named
	Count    string
	Reviews  []reviewListRow
	WhyNot   string // why this person cannot approve
	Sign     *approverpages.SignerView
}

// reviewListRow is one of several withdrawals, with what became of it.
type reviewListRow struct {
	Path, ID, Title string
	Chip            ui.Chip
	Text            string
}

func (d *dashboard) readReviewList(r *pages.Request) []string {
	return strings.FieldsFunc(r.Query[reviewListParameter.Name], func(c rune) bool { return c == ',' })
}

func (d *dashboard) loadReviewList(r *pages.Request) (templ.Component, error) {
	ids := d.readReviewList(r)
	view := reviewListView{ListPath: r.Path("approvals"), IsEmpty: len(ids) == 0}
	if view.IsEmpty {
		return reviewOfList(view), nil
	}
	reviews, err := d.conf.Withdrawals.LoadReviewList(r.Context(), r.Session.OrgID, ids)
	if err != nil {
		return nil, err
	}
	view.Count = ui.FormatCount(len(reviews.Reviews), "withdrawal")
	if !r.IsAllowed(identity.DecideWithdrawal) {
		view.WhyNot = "Your roles show these withdrawals and do not decide about them."
		return reviewOfList(view), nil
	}
	person := approver.PersonName(actor(r))
	notAfter := approverpages.NewNotAfter(r, approverpages.SignatureLasts)
	list, err := reviews.PaymentList(person, notAfter)
	if err != nil {
		return nil, err
	}
	form := ui.SignView{
		Form: r.Form, Act: signAct, Path: reviewListActPath(r, ids),
		Words:  approverpages.StatementWords(list.Statement(reviews.Reviews[0].Statement(person, notAfter))),
		Button: "Sign and approve all " + view.Count,
	}
	var digests []string
	for n, review := range reviews.Reviews {
		w := review.Withdrawal
		title := "Payment " + strconv.Itoa(n+1) + " of " + strconv.Itoa(len(ids)) + ": " +
			ui.GroupDigits(w.Amount.Decimal(w.Mint.Decimals)) + " " + ui.EscapeForeign(w.Mint.Symbol)
		form.Payments = append(form.Payments, ui.PaymentToSign{
			Title: title, Words: approverpages.StatementWords(review.Statement(person, notAfter)),
			Note: "Fingerprint " + review.Digest[:fingerprintDigits] + ". " +
				strconv.Itoa(w.Approvals.Received) + " of " + strconv.Itoa(w.Approvals.Required) +
				" approvals are there.",
		})
		digests = append(digests, review.Digest)
	}
	form.Hidden = []ui.Hidden{{Name: "digests", Value: strings.Join(digests, ",")}}
	if view.Sign, err = d.approvers().NewSignerView(r, reviews.People, form); err != nil {
		return nil, err
	}
	return reviewOfList(view), nil
}

// reviewListActPath is where the form of the page is sent. The query names the withdrawals, as on the page.
func reviewListActPath(r *pages.Request, ids []string) string {
	return r.Path("approvals", "several", signAct) + "?" +
		url.Values{reviewListParameter.Name: {strings.Join(ids, ",")}}.Encode()
}

// signReviewList approves the withdrawals of the page with one signature. What became of each is shown once.
func (d *dashboard) signReviewList(r *pages.Request) (string, error) {
	signature, err := approverpages.ReadSignature(r)
	if err != nil {
		return "", err
	}
	ids, digests := d.readReviewList(r), strings.Split(r.Values["digests"], ",")
	if len(ids) != len(digests) {
		return "", fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"This form is not one of this page.").WithAdvice("Choose the withdrawals again in the list.")
	}
	var shown []withdrawal.Shown
	for n, id := range ids {
		shown = append(shown, withdrawal.Shown{ID: id, Digest: digests[n]})
	}
	results, err := d.conf.Withdrawals.ApproveReviewList(r.Context(), r.Session.OrgID, actor(r), shown, signature)
	if err != nil {
		return "", err
	}
	r.ShowOnce(resultOfList(d.newReviewListResult(r, ids, results)))
	return "", nil
}

// newReviewListResult says what became of each withdrawal.
func (d *dashboard) newReviewListResult(r *pages.Request, ids []string, results []withdrawal.Approved) reviewListView {
	view, approved := reviewListView{ListPath: r.Path("approvals")}, 0
	for n, id := range ids {
		row := reviewListRow{
			Path: r.Path("approvals", "withdrawals", id), ID: id,
			Chip: ui.Chip{Kind: ui.Quiet, Word: "Not tried"},
			Text: "An earlier one ended in an error. Nothing was written.",
		}
		if n < len(results) {
			switch err := results[n].Err; {
			case err == nil:
				approved++
				w := results[n].Withdrawal
				row.Chip, row.Text = withdrawalChip(w.Status), "Your approval stands: "+
					strconv.Itoa(w.Approvals.Received)+" of "+strconv.Itoa(w.Approvals.Required)+"."
			case fault.Find(err) != nil:
				f := fault.Find(err)
				row.Chip, row.Text = ui.Chip{Kind: ui.Bad, Word: "Refused"}, strings.TrimSpace(f.Reason+" "+f.Advice)
			default:
				cmp.Or(d.conf.Log, slog.Default()).Error("an approval in a list ended in an error",
					"withdrawal", id, "error", err)
				row.Chip = ui.Chip{Kind: ui.Wait, Word: "Unknown"}
				row.Text = "It is not known whether your approval was written. Look at it before you sign it again."
			}
		}
		view.Reviews = append(view.Reviews, row)
	}
	view.Count = strconv.Itoa(approved) + " of " + ui.FormatCount(len(ids), "withdrawal")
	return view
}

// mayBeInReviewList reports whether the list has a box for a withdrawal.
func (d *dashboard) mayBeInReviewList(r *pages.Request, w withdrawal.Withdrawal) bool {
	return d.conf.ApprovalsURL == "" && r.IsAllowed(identity.DecideWithdrawal) && w.MayBeOrdinary()
}

// reviewListHint says on the list which withdrawals can be signed together.
var reviewListHint = "One signature is of " + strconv.Itoa(signer.PaymentListMin) + " to " +
	strconv.Itoa(signer.PaymentListMax) + " withdrawals with nothing unusual. The next page shows each of them whole."
