package console

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/billing"
	"github.com/cofferpay/coffer/internal/billing/document"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/changerequest"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// saveTermsAct saves the next version of billing terms.
const saveTermsAct = "save"

// The fields of the form of terms, by the names of the interface.
const (
	nameField       = "legalName"
	addressField    = "address"
	taxIDField      = "taxId"
	emailField      = "email"
	taxRateField    = "taxRateBps"
	taxNoteField    = "taxNote"
	seriesField     = "invoiceSeries"
	noteSeriesField = "creditNoteSeries"
	dayField        = "billingDay"
	languageField   = "language"
	versionField    = "version"
)

const (
	partyNameMax    = 200
	addressBytesMax = 4000
	taxNoteMax      = 1000
	percentDigits   = 2
	// noTaxNote stands in the form for a note that is empty, because an empty field is as for all.
	noTaxNote = "-"
)

// termsProblems say what is wrong with a field, where the feature says it by the names of the interface.
var termsProblems = map[string]string{
	nameField:       "Enter a name of at most 200 characters in one line.",
	addressField:    "Enter 1 to 8 lines of at most 100 characters.",
	taxIDField:      "Enter at most 100 characters in one line.",
	emailField:      "Enter at most 254 characters in one line.",
	taxRateField:    "Enter a rate from 0 to 100 percent, with at most two digits after the point.",
	taxNoteField:    "Enter at most 1000 characters in one line.",
	seriesField:     "Enter 1 to 12 letters A to Z and digits.",
	noteSeriesField: "Enter 1 to 12 letters A to Z and digits, and another series than that of invoices.",
	dayField:        "Enter a day from 1 to 28.",
	languageField:   "Choose a language of the list.",
}

// sellerTermsPage shows and changes what invoices print about the installation. Rule PAGE-99.
func (c *console) sellerTermsPage() pages.Page {
	return c.newTermsPage("/billing/terms", func(*pages.Request) (string, error) { return "", nil })
}

// orgTermsPage shows and changes what invoices print about an organization. Rule PAGE-99.
func (c *console) orgTermsPage() pages.Page {
	return c.newTermsPage("/organizations/{organizationId}/billing-terms", organizationID)
}

func (c *console) newTermsPage(path string, party func(*pages.Request) (string, error)) pages.Page {
	optional := func(name string, bytesMax int) pages.Field {
		return pages.Field{Name: name, BytesMax: bytesMax, Optional: true}
	}
	return pages.Page{
		Path: path, Title: "Billing terms", Action: identity.ReadInstallation,
		Live: []string{termsKind, "CHANGE_REQUEST"}, LiveOfAll: true,
		Load: func(r *pages.Request) (templ.Component, error) {
			name, err := party(r)
			if err != nil {
				return nil, err
			}
			return c.loadTerms(r, name)
		},
		Acts: []pages.Act{{
			Name: saveTermsAct, Action: identity.ChangeBillingTerms, StepUp: pages.SudoStepUp,
			Fields: []pages.Field{
				{Name: versionField, BytesMax: idBytesMax, Missing: "Open the page again."},
				{Name: nameField, BytesMax: 4 * partyNameMax, Missing: "Enter the legal name."},
				{Name: addressField, BytesMax: addressBytesMax, Missing: "Enter the address."},
				optional(taxIDField, textBytesMax), optional(emailField, textBytesMax),
				optional(taxRateField, idBytesMax), optional(taxNoteField, 4*taxNoteMax),
				optional(seriesField, idBytesMax), optional(noteSeriesField, idBytesMax),
				optional(dayField, idBytesMax), optional(languageField, idBytesMax),
			},
			Run: func(r *pages.Request) (string, error) {
				name, err := party(r)
				if err != nil {
					return "", err
				}
				return c.saveTerms(r, name)
			},
		}},
	}
}

func termsPath(r *pages.Request, orgID string) string {
	if orgID == "" {
		return r.Path("billing", "terms")
	}
	return r.Path("organizations", orgID, "billing-terms")
}

func newTermsProblem(name string) *fault.Fault {
	return fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten, "%s", termsProblems[name]).
		WithParam(name)
}

// readTermsForm reads the form. An empty optional field of an organization is as for all. Error: fault
// INVALID_REQUEST.
func readTermsForm(r *pages.Request, orgID string) (t billing.Terms, err error) {
	t = billing.Terms{
		OrgID: orgID,
		Party: document.Party{
			Name: r.Values[nameField], TaxID: r.Values[taxIDField], Email: r.Values[emailField], Address: []string{},
		},
		TaxNote: optionalValue(r, taxNoteField), InvoiceSeries: optionalValue(r, seriesField),
		CreditNoteSeries: optionalValue(r, noteSeriesField), Language: optionalValue(r, languageField),
	}
	for line := range strings.SplitSeq(r.Values[addressField], "\n") {
		if line = strings.TrimSpace(line); line != "" {
			t.Party.Address = append(t.Party.Address, line)
		}
	}
	if t.TaxNote != nil && *t.TaxNote == noTaxNote {
		t.TaxNote = new("")
	}
	if text := r.Values[taxRateField]; text != "" {
		bps, ok := parsePercent(text)
		if !ok {
			return t, newTermsProblem(taxRateField)
		}
		t.TaxRateBps = &bps
	}
	if text := r.Values[dayField]; text != "" {
		day, err := strconv.Atoi(text)
		if err != nil {
			return t, newTermsProblem(dayField)
		}
		t.BillingDay = &day
	}
	return t, nil
}

func optionalValue(r *pages.Request, name string) *string {
	if text := r.Values[name]; text != "" {
		return &text
	}
	return nil
}

// parsePercent parses percent with at most two digits after the point, as basis points.
func parsePercent(text string) (bps int, ok bool) {
	whole, fraction, _ := strings.Cut(text, ".")
	if len(fraction) > percentDigits || len(whole) > 3 {
		return 0, false
	}
	fraction += strings.Repeat("0", percentDigits-len(fraction))
	bps, err := strconv.Atoi(whole + fraction)
	return bps, err == nil && whole != "" && !strings.ContainsAny(text, "+-") && bps <= 10_000
}

// saveTerms saves terms, or leads to the change request that waits for another operator. The page that shows older
// terms saves nothing, and the same change again finds the first request.
func (c *console) saveTerms(r *pages.Request, orgID string) (string, error) {
	wanted, err := readTermsForm(r, orgID)
	if err != nil {
		return "", err
	}
	var outcome billing.TermsOutcome
	var pendingID string
	err = c.conf.DB.InSystem(r.Context(), func(ctx context.Context, tx pg.Tx) error {
		outcome, pendingID = billing.TermsOutcome{}, ""
		present, err := billing.LoadTerms(ctx, tx, orgID)
		if err != nil && !fault.HasCode(err, fault.CodeNotFound) {
			return err
		}
		waiting, err := listTermsRequests(ctx, tx, orgID)
		if err != nil {
			return err
		}
		for _, request := range waiting {
			if request.AuthorKey == holder(r).ID && wanted.IsWantedBy(request) {
				pendingID = request.ID
				return nil
			}
		}
		if strconv.Itoa(present.Version) != r.Values[versionField] {
			return fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
				"These terms were changed after you opened the page.").
				WithAdvice("Look at them before you change them again.")
		}
		outcome, err = c.conf.Billing.SaveTerms(ctx, tx, holder(r), c.conf.FourEyes, wanted)
		return err
	})
	if f := fault.Find(err); f != nil && termsProblems[f.Param] != "" {
		return "", newTermsProblem(f.Param)
	}
	if err != nil {
		return "", err
	}
	if outcome.PendingChange != nil {
		pendingID = outcome.PendingChange.ID
	}
	if pendingID != "" {
		return r.Path("changes", pendingID), nil
	}
	return termsPath(r, orgID), nil
}

// listTermsRequests returns the change requests of billing terms that wait.
func listTermsRequests(ctx context.Context, tx pg.Tx, orgID string) ([]changerequest.Request, error) {
	waiting, err := changerequest.ListPending(ctx, tx, orgID)
	return slices.DeleteFunc(waiting, func(q changerequest.Request) bool {
		return q.Kind != changerequest.BillingTerms || q.OrgID != orgID
	}), err
}

// termsView is what the page of billing terms shows.
type termsView struct {
	Tabs           []ui.Tab // of the installation
	BackPath, Name string   // of the organization; "" for the installation
	Path, Act      string
	Version        int
	Facts          []ui.Fact
	Pending        []changeRow
	Form           ui.Form
	Address        string
	Language       choice
	MayChange      bool
}

// IsSeller reports whether the terms are those of the installation.
func (v termsView) IsSeller() bool { return v.Name == "" }

func (c *console) loadTerms(r *pages.Request, orgID string) (templ.Component, error) {
	organizations, err := c.loadOrgNames(r)
	if err != nil {
		return nil, err
	}
	view := termsView{
		Path: termsPath(r, orgID), Act: saveTermsAct, Form: r.Form, MayChange: r.IsAllowed(identity.ChangeBillingTerms),
	}
	var t billing.Terms
	var names holders
	var waiting []changerequest.Request
	err = c.read(r, func(ctx context.Context, tx pg.Tx) (err error) {
		if err = billing.CheckOrganization(ctx, tx, orgID); err != nil {
			return err
		}
		if t, err = billing.LoadTerms(ctx, tx, orgID); err != nil && !fault.HasCode(err, fault.CodeNotFound) {
			return err
		}
		if waiting, err = listTermsRequests(ctx, tx, orgID); err != nil {
			return err
		}
		names, err = loadHolders(ctx, tx)
		return err
	})
	if err != nil {
		return nil, err
	}
	if orgID == "" {
		view.Tabs = billingTabs(r, termsTab)
	} else {
		view.BackPath, view.Name = r.Path("organizations", orgID), organizations.nameOf(orgID)
	}
	for _, q := range waiting {
		view.Pending = append(view.Pending, newChangeRow(r, q, names))
	}
	if view.Version = t.Version; t.Version > 0 {
		view.Facts = termsFacts(r, t, names)
	}
	view.fillForm(t)
	return termsOverview(view), nil
}

// termsFacts are the terms in force.
func termsFacts(r *pages.Request, t billing.Terms, names holders) []ui.Fact {
	const asForAll = "as the seller's"
	kind, changedBy, _ := strings.Cut(t.ChangedBy, " ")
	rate := nothing(asForAll)
	if t.TaxRateBps != nil {
		rate = ui.Text(taxText(*t.TaxRateBps))
	}
	day := nothing(asForAll)
	if t.BillingDay != nil {
		day = ui.Text(strconv.Itoa(*t.BillingDay) + " of the month after, 06:00 UTC")
	}
	note := nothing(asForAll)
	if t.TaxNote != nil {
		note = nothing("none")
		if *t.TaxNote != "" {
			note = ownText(*t.TaxNote)
		}
	}
	return []ui.Fact{
		{Name: "Legal name", Value: ownText(t.Party.Name)},
		{Name: "Address", Value: ownLines(t.Party.Address)},
		{Name: "Tax ID", Value: ownTextOrNothing(t.Party.TaxID)},
		{Name: "E-mail", Value: ownTextOrNothing(t.Party.Email)},
		{Name: "Tax rate", Value: rate},
		{Name: "Tax note", Value: note},
		{Name: "Series of invoices", Value: codeOrNothing(textOrEmpty(t.InvoiceSeries), asForAll)},
		{Name: "Series of credit notes", Value: codeOrNothing(textOrEmpty(t.CreditNoteSeries), asForAll)},
		{Name: "Billing day", Value: day},
		{Name: "Language", Value: codeOrNothing(textOrEmpty(t.Language), asForAll)},
		{Name: "Version", Value: ui.Text(strconv.Itoa(t.Version))},
		{Name: "Changed", Value: ui.When(r.Moment(t.CreatedAt))},
		{Name: "Changed by", Value: ui.Foreign(names.nameOf(audit.Actor{Kind: kind, ID: changedBy}))},
	}
}

func ownTextOrNothing(text string) templ.Component {
	if text == "" {
		return nothing("none")
	}
	return ownText(text)
}

// fillForm fills the form in with the terms in force, unless it was refused.
func (v *termsView) fillForm(t billing.Terms) {
	languages := append([]option{}, optionsOf(document.Languages()...)...)
	if !v.IsSeller() {
		languages = append([]option{{"", "as the seller's"}}, languages...)
	}
	v.Language = choice{
		Act: saveTermsAct, Name: languageField, Label: "Language of documents", Options: languages,
		Value: textOrEmpty(t.Language),
	}
	if v.IsSeller() && v.Language.Value == "" {
		v.Language.Value = "en"
	}
	if v.Form.Act == saveTermsAct {
		v.Address = v.Form.Value(saveTermsAct, addressField)
		return
	}
	v.Address = strings.Join(t.Party.Address, "\n")
	note := textOrEmpty(t.TaxNote)
	if t.TaxNote != nil && note == "" && !v.IsSeller() {
		note = noTaxNote
	}
	v.Form = ui.Form{Act: saveTermsAct, Typed: map[string]string{
		nameField: t.Party.Name, taxIDField: t.Party.TaxID, emailField: t.Party.Email,
		taxNoteField: note, seriesField: textOrEmpty(t.InvoiceSeries),
		noteSeriesField: textOrEmpty(t.CreditNoteSeries),
	}}
	if t.TaxRateBps != nil {
		v.Form.Typed[taxRateField] = formatPercent(*t.TaxRateBps)
	}
	if t.BillingDay != nil {
		v.Form.Typed[dayField] = strconv.Itoa(*t.BillingDay)
	}
}

// hintOr returns the hint of a field of the installation, or that of an organization.
func (v termsView) hintOr(seller, organization string) string {
	if v.IsSeller() {
		return seller
	}
	return organization
}

// area is a field of several lines.
type area struct{ Act, Name, Label, Value, Hint string }

func (a area) id() string { return a.Act + "-" + a.Name }

// describedBy names the hint and the error of the field for screen readers.
func (a area) describedBy(f ui.Form) string {
	if f.Error(a.Act, a.Name) != "" {
		return a.id() + "-hint " + a.id() + "-error"
	}
	return a.id() + "-hint"
}
