package dashboard

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

const (
	// togetherAct is the act of the list that leads to the review of several withdrawals.
	togetherAct = "together"
	// togetherName is the field of the boxes of the list.
	togetherName = "withdrawalId"
	// severalPath is the page on which a person signs several withdrawals at once.
	severalPath = "/approvals/several"
	// withdrawalIDBytes bounds the id of a withdrawal with what separates it from the next one.
	withdrawalIDBytes = 41
	// listedMax is how many rows a list has, each of which may be chosen.
	listedMax = 50
)

// severalParameter names the withdrawals of the page, separated by commas.
var severalParameter = kernel.Parameter{
	Name: "withdrawals", Kind: kernel.TextParameter, Max: listedMax * withdrawalIDBytes,
}

// chooseSeveralAct leads from the list to the review of the withdrawals that a person chose.
func (d *dashboard) chooseSeveralAct() pages.Act {
	return pages.Act{
		Name: togetherAct, Action: identity.DecideWithdrawal,
		Fields: []pages.Field{{
			Name: togetherName, BytesMax: listedMax * withdrawalIDBytes, HasBoxes: true,
			Missing: "Choose at least two withdrawals.",
		}},
		Run: d.chooseSeveral,
	}
}

func (d *dashboard) chooseSeveral(r *pages.Request) (string, error) {
	ids := r.ListTicked(togetherName)
	if _, err := d.conf.Withdrawals.LoadSeveral(r.Context(), r.Session.OrgID, ids); err != nil {
		return "", err
	}
	return severalReviewPath(r, ids), nil
}

// severalReviewPath returns the page on which withdrawals are signed together.
func severalReviewPath(r *pages.Request, ids []string) string {
	return r.Path("approvals", "several") + "?" +
		url.Values{severalParameter.Name: {strings.Join(ids, ",")}}.Encode()
}

// severalPage shows several withdrawals whole and has one passkey sign all of them. Rules PAGE-125 and PAGE-126.
func (d *dashboard) severalPage() pages.Page {
	return pages.Page{
		Path: severalPath, Title: "Review of several withdrawals", Action: identity.ReadOrganization,
		MenuPath: "/approvals", Query: []kernel.Parameter{severalParameter}, Load: d.loadSeveral,
		Acts: []pages.Act{{
			Name: signAct, Action: identity.DecideWithdrawal,
			Fields: signatureFields(pages.Field{
				Name: "digests", BytesMax: listedMax * (digestBytes + 1), Missing: "Open the page again.",
			}),
			Run: d.signSeveral,
		}},
	}
}

// severalView is what the page of several withdrawals shows.
type severalView struct {
	ListPath string
	IsEmpty  bool // no withdrawal is named
	Count    string
	Reviews  []severalRow
	WhyNot   string // why this person cannot approve
	Sign     *signerView
}

// severalRow is one of several withdrawals, with what became of it.
type severalRow struct {
	Path, ID, Title string
	Chip            ui.Chip
	Text            string
}

func (d *dashboard) listSeveral(r *pages.Request) []string {
	return strings.FieldsFunc(r.Query[severalParameter.Name], func(c rune) bool { return c == ',' })
}

func (d *dashboard) loadSeveral(r *pages.Request) (templ.Component, error) {
	ids := d.listSeveral(r)
	view := severalView{ListPath: r.Path("approvals"), IsEmpty: len(ids) == 0}
	if view.IsEmpty {
		return severalReview(view), nil
	}
	several, err := d.conf.Withdrawals.LoadSeveral(r.Context(), r.Session.OrgID, ids)
	if err != nil {
		return nil, err
	}
	view.Count = ui.FormatCount(len(several.Reviews), "withdrawal")
	if !r.IsAllowed(identity.DecideWithdrawal) {
		view.WhyNot = "Your roles show these withdrawals and do not decide about them."
		return severalReview(view), nil
	}
	person, notAfter := personName(r), newNotAfter(r, signatureLasts)
	list, err := several.List(person, notAfter)
	if err != nil {
		return nil, err
	}
	form := ui.SignView{
		Form: r.Form, Act: signAct, Path: severalActPath(r, ids),
		Words:  statementWords(list.Statement(several.Reviews[0].Statement(person, notAfter))),
		Button: "Sign and approve all " + view.Count,
	}
	var digests []string
	for n, review := range several.Reviews {
		w := review.Withdrawal
		title := "Payment " + strconv.Itoa(n+1) + " of " + strconv.Itoa(len(ids)) + ": " +
			ui.GroupDigits(w.Amount.Decimal(w.Mint.Decimals)) + " " + ui.EscapeForeign(w.Mint.Symbol)
		form.Payments = append(form.Payments, ui.PaymentToSign{
			Title: title, Words: statementWords(review.Statement(person, notAfter)),
			Note: "Fingerprint " + review.Digest[:fingerprintDigits] + ". " +
				strconv.Itoa(w.Approvals.Received) + " of " + strconv.Itoa(w.Approvals.Required) + " approvals are there.",
		})
		digests = append(digests, review.Digest)
	}
	form.Hidden = []ui.Hidden{{Name: "digests", Value: strings.Join(digests, ",")}}
	if view.Sign, err = d.newSignerView(r, several.People, form); err != nil {
		return nil, err
	}
	return severalReview(view), nil
}

// severalActPath is where the form of the page is sent. The query names the withdrawals, as on the page.
func severalActPath(r *pages.Request, ids []string) string {
	return r.Path("approvals", "several", signAct) + "?" +
		url.Values{severalParameter.Name: {strings.Join(ids, ",")}}.Encode()
}

// signSeveral approves the withdrawals of the page with one signature. What became of each is shown once.
func (d *dashboard) signSeveral(r *pages.Request) (string, error) {
	signature, err := readSignature(r)
	if err != nil {
		return "", err
	}
	ids, digests := d.listSeveral(r), strings.Split(r.Values["digests"], ",")
	if len(ids) != len(digests) {
		return "", fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"This form is not one of this page.").WithAdvice("Choose the withdrawals again in the list.")
	}
	var shown []withdrawal.Shown
	for n, id := range ids {
		shown = append(shown, withdrawal.Shown{ID: id, Digest: digests[n]})
	}
	done, err := d.conf.Withdrawals.ApproveSeveral(r.Context(), r.Session.OrgID, actor(r), shown, signature)
	if err != nil {
		return "", err
	}
	r.ShowOnce(severalResult(d.newSeveralResult(r, ids, done)))
	return "", nil
}

// newSeveralResult says what became of each withdrawal.
func (d *dashboard) newSeveralResult(r *pages.Request, ids []string, done []withdrawal.Approved) severalView {
	view, approved := severalView{ListPath: r.Path("approvals")}, 0
	for n, id := range ids {
		row := severalRow{
			Path: r.Path("approvals", "withdrawals", id), ID: id,
			Chip: ui.Chip{Kind: ui.Quiet, Word: "Not tried"}, Text: "An earlier one ended in an error. Nothing was written.",
		}
		if n < len(done) {
			switch err := done[n].Err; {
			case err == nil:
				approved++
				w := done[n].Withdrawal
				row.Chip, row.Text = withdrawalChip(w.Status), "Your approval stands: "+
					strconv.Itoa(w.Approvals.Received)+" of "+strconv.Itoa(w.Approvals.Required)+"."
			case fault.Find(err) != nil:
				f := fault.Find(err)
				row.Chip, row.Text = ui.Chip{Kind: ui.Bad, Word: "Refused"}, strings.TrimSpace(f.Reason+" "+f.Advice)
			default:
				d.logger().Error("an approval of several ended in an error", "withdrawal", id, "error", err)
				row.Chip = ui.Chip{Kind: ui.Wait, Word: "Unknown"}
				row.Text = "It is not known whether your approval was written. Look at it before you sign it again."
			}
		}
		view.Reviews = append(view.Reviews, row)
	}
	view.Count = strconv.Itoa(approved) + " of " + ui.FormatCount(len(ids), "withdrawal")
	return view
}

// mayBeSignedTogether reports whether the list has a box for a withdrawal.
func (d *dashboard) mayBeSignedTogether(r *pages.Request, w withdrawal.Withdrawal) bool {
	return d.conf.ApprovalsURL == "" && r.IsAllowed(identity.DecideWithdrawal) && w.MayBeOrdinary()
}

// severalHint says on the list which withdrawals can be signed together.
var severalHint = "One signature is of " + strconv.Itoa(signer.SeveralMin) + " to " + strconv.Itoa(signer.SeveralMax) +
	" withdrawals with nothing unusual. The next page shows each of them whole."
