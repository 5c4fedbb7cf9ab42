package console

import (
	"context"
	"encoding/json"
	"log/slog"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/control/whitelist"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/changerequest"
	"github.com/cofferpay/coffer/internal/identity/operator"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/webhook"
)

// changesPage lists the changes that need a second operator.
func (c *console) changesPage() pages.Page {
	return pages.Page{
		Path: "/changes", Title: "Four eyes", Action: identity.ReadInstallation, Group: controlGroup, Icon: "approve",
		Shortcut: "e",
		Query: []kernel.Parameter{
			pages.CursorParameter, textFilter("organizationId"),
			{Name: "status", Kind: kernel.WordParameter, Enum: changerequest.Statuses},
		},
		Live: []string{"CHANGE_REQUEST"}, Load: c.loadChanges, WriteCSV: c.writeChanges,
	}
}

func (c *console) listChanges(
	r *pages.Request, p pagination.Page,
) (found pagination.Result[changerequest.Request], err error) {
	f := changerequest.Filter{OrgID: r.Query["organizationId"], Status: changerequest.Status(r.Query["status"])}
	err = c.read(r, func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = changerequest.List(ctx, tx, f, p)
		return err
	})
	return found, err
}

// changeRow is a change request in a list.
type changeRow struct {
	Path, Title, Author string
	Chip                ui.Chip
	Created             ui.Moment
}

func newChangeRow(r *pages.Request, request changerequest.Request, names holders) changeRow {
	return changeRow{
		Path: r.Path("changes", request.ID), Title: changeTitle(request), Chip: changeChip(request.Status),
		Author: nameOfAuthor(names, request.AuthorKey, request.Author), Created: r.Moment(request.CreatedAt),
	}
}

func nameOfAuthor(names holders, keyID, holder string) string {
	if name := names[keyID]; name != "" {
		return name
	}
	return holder
}

// changeTitle says in words what a request changes.
func changeTitle(request changerequest.Request) string {
	switch request.Kind {
	case changerequest.WhitelistedAddress:
		return "Add an address to the whitelist"
	case changerequest.SwapWriteOff:
		return "Write off what a swap provider owes"
	case changerequest.BillingTerms:
		return "Change billing terms"
	}
	title := ""
	for _, name := range request.ChangedNames() {
		if title != "" {
			title += "; "
		}
		title += settingForms[name].Title
	}
	return title
}

// changeChip writes the status of a change request for people.
func changeChip(status changerequest.Status) ui.Chip {
	switch status {
	case changerequest.Pending:
		return ui.Chip{Kind: ui.Wait, Word: "Waits for another operator"}
	case changerequest.Approved:
		return ui.Chip{Kind: ui.Good, Word: "Approved"}
	case changerequest.Retracted:
		return ui.Chip{Kind: ui.Quiet, Word: "Retracted"}
	case changerequest.Expired:
		return ui.Chip{Kind: ui.Quiet, Word: "Expired"}
	}
	return ui.Chip{}
}

func (c *console) loadChanges(r *pages.Request) (templ.Component, error) {
	p, err := r.ReadPage()
	if err != nil {
		return nil, err
	}
	found, err := c.listChanges(r, p)
	if err != nil {
		return nil, err
	}
	organizations, err := c.loadOrgNames(r)
	if err != nil {
		return nil, err
	}
	var names holders
	var isActive bool
	err = c.read(r, func(ctx context.Context, tx pg.Tx) (err error) {
		if isActive, err = c.conf.FourEyes.IsActive(ctx, tx, identity.ChangeSettings); err != nil {
			return err
		}
		names, err = loadHolders(ctx, tx)
		return err
	})
	if err != nil {
		return nil, err
	}
	states := []option{{"", "All"}}
	for _, status := range changerequest.Statuses {
		states = append(states, option{status, changeChip(changerequest.Status(status)).Word})
	}
	view := listView{
		Path: r.Path("changes"), CSVPath: r.CSVPath(),
		Filters: filtersOf(r, filter{Name: "status", Label: "State", Options: states},
			filter{Name: "organizationId", Label: "Organization"}),
		Table: table{Caption: "Change requests", Columns: append(
			textColumns(
				"State", "Change", "Organization", "Requested by", "Requested",
			), column{Title: "Review", IsUnseen: true})},
	}
	for _, request := range found.Items {
		row := newChangeRow(r, request, names)
		view.Table.addRow(ui.StateChip(row.Chip), ui.Text(row.Title),
			partyLink(r, request.OrgID, organizations), ui.Foreign(row.Author),
			ui.When(row.Created), openLink(row.Path, "Review", row.Title))
	}
	view.FirstPath, view.NextPath = r.PagePaths(found.NextCursor)
	return changesList(view, isActive), nil
}

// partyLink leads to the organization of a change request, or names the installation.
func partyLink(r *pages.Request, orgID string, organizations orgNames) templ.Component {
	if orgID == "" {
		return nothing("the installation")
	}
	return link(r.Path("organizations", orgID), organizations.nameOf(orgID))
}

var changeColumns = []kernel.Column[changerequest.Request]{
	{Name: "changeRequestId", Cell: func(r changerequest.Request) string { return r.ID }},
	{Name: "organizationId", Cell: func(r changerequest.Request) string { return r.OrgID }},
	{Name: "kind", Cell: func(r changerequest.Request) string { return string(r.Kind) }},
	{Name: "status", Cell: func(r changerequest.Request) string { return string(r.Status) }},
	{Name: "requestedBy", Cell: func(r changerequest.Request) string { return r.Author }},
	{Name: "decidedBy", Cell: func(r changerequest.Request) string { return r.DecidedBy }},
	{Name: "createdAt", Cell: func(r changerequest.Request) string { return webhook.At(r.CreatedAt).String() }},
}

func (c *console) writeChanges(r *pages.Request, w *kernel.StreamWriter) error {
	return kernel.WriteTable(r.Context(), w, true, changeColumns, eachOf(
		func(p pagination.Page) (pagination.Result[changerequest.Request], error) { return c.listChanges(r, p) }))
}

// changePage shows one change request, and approves or retracts it. Rule PAGE-42.
func (c *console) changePage() pages.Page {
	decide := func(
		verb func(r *pages.Request) func(context.Context, pg.Tx, string) (changerequest.Request, error),
	) func(*pages.Request) (string, error) {
		return func(r *pages.Request) (string, error) {
			var decided changerequest.Request
			err := c.conf.DB.InSystem(r.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
				decided, err = verb(r)(ctx, tx, r.PathParam("changeRequestId"))
				return err
			})
			if err != nil {
				return "", err
			}
			c.endorseApproved(r.Context(), decided)
			return r.Path("changes", decided.ID), nil
		}
	}
	return pages.Page{
		Path: "/changes/{changeRequestId}", Title: "Change request", Action: identity.ReadInstallation,
		Live: []string{"CHANGE_REQUEST"},
		Load: c.loadChange,
		Acts: []pages.Act{
			{
				Name: "approve", Action: identity.ApproveChange, StepUp: pages.SudoStepUp,
				FindDone: c.findDecidedChange,
				Run: decide(func(r *pages.Request) func(context.Context, pg.Tx, string) (changerequest.Request, error) {
					return func(ctx context.Context, tx pg.Tx, name string) (changerequest.Request, error) {
						return changerequest.Approve(ctx, tx, holder(r), name,
							map[changerequest.Kind]func(context.Context, pg.Tx, changerequest.Request) error{
								changerequest.Settings:           org.ApplyApproved(holder(r)),
								changerequest.WhitelistedAddress: c.conf.Whitelist.ApplyApproved(holder(r)),
								changerequest.SwapWriteOff:       c.conf.Swaps.ApplyApproved(holder(r)),
								changerequest.BillingTerms:       c.conf.Billing.ApplyApproved(holder(r)),
							})
					}
				}),
			},
			{
				Name: "retract", Action: identity.RetractChange, StepUp: pages.SudoStepUp,
				FindDone: c.findDecidedChange,
				Run: decide(func(r *pages.Request) func(context.Context, pg.Tx, string) (changerequest.Request, error) {
					return func(ctx context.Context, tx pg.Tx, name string) (changerequest.Request, error) {
						return changerequest.Retract(ctx, tx, holder(r), name)
					}
				}),
			},
		},
	}
}

// endorseApproved asks the signer to endorse the address that an approved request added.
func (c *console) endorseApproved(ctx context.Context, decided changerequest.Request) {
	if decided.Kind != changerequest.WhitelistedAddress || decided.Status != changerequest.Approved {
		return
	}
	var name string
	err := c.conf.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		name, err = whitelist.EntryOfChange(ctx, tx, decided.ID)
		return err
	})
	if err != nil {
		c.log().LogAttrs(
			ctx, slog.LevelWarn, "cannot find the whitelist entry of a change request; a later cycle asks "+
				"the signer", slog.String("change", decided.ID), slog.Any("err", err))
		return
	}
	c.requestEndorsement(ctx, name)
}

func (c *console) changeOf(r *pages.Request) (request changerequest.Request, err error) {
	err = c.read(r, func(ctx context.Context, tx pg.Tx) (err error) {
		request, err = changerequest.ByID(ctx, tx, r.PathParam("changeRequestId"))
		return err
	})
	return request, err
}

func (c *console) findDecidedChange(r *pages.Request) (string, error) {
	request, err := c.changeOf(r)
	if err != nil || request.Status == changerequest.Pending {
		return "", err
	}
	return r.Path("changes", request.ID), nil
}

// changeView is what the page of a change request shows.
type changeView struct {
	Title  string
	Chip   ui.Chip
	Facts  []ui.Fact
	Values table
	Act    *actView
	WhyNot string
	Form   ui.Form
}

func (c *console) loadChange(r *pages.Request) (templ.Component, error) {
	request, err := c.changeOf(r)
	if err != nil {
		return nil, err
	}
	organizations, err := c.loadOrgNames(r)
	if err != nil {
		return nil, err
	}
	var names holders
	err = c.read(r, func(ctx context.Context, tx pg.Tx) (err error) {
		names, err = loadHolders(ctx, tx)
		return err
	})
	if err != nil {
		return nil, err
	}
	view := changeView{
		Title: changeTitle(request), Chip: changeChip(request.Status), Form: r.Form,
		Facts: []ui.Fact{
			{
				Name:  "Organization",
				Value: partyLink(r, request.OrgID, organizations),
			},
			{Name: "Requested by", Value: ui.Foreign(nameOfAuthor(names, request.AuthorKey, request.Author))},
			{Name: "Requested", Value: ui.When(r.Moment(request.CreatedAt))},
			{Name: "Ends", Value: ui.When(r.Moment(request.ExpiresAt))},
			{Name: "Decided", Value: whenOrNothing(r, request.DecidedAt, "no")},
		},
		Values: table{Caption: "Values", Columns: textColumns("What", "Now", "Wanted")},
	}
	if request.DecidedBy != "" {
		view.Facts = append(view.Facts, ui.Fact{
			Name: "Decided by", Value: ui.Foreign(nameOfAuthor(names, request.DecidedByKey, request.DecidedBy)),
		})
	}
	for _, name := range request.ChangedNames() {
		view.Values.addRow(
			valueName(name), valueText(request.Kind, name, request.Before[name]),
			valueText(request.Kind, name, request.Wanted[name]),
		)
	}
	view.addAct(r, request)
	return changeOverview(view), nil
}

func valueName(name string) templ.Component {
	if form, isSetting := settingForms[name]; isSetting {
		return pair(ui.Text(form.Title), ui.Code(name))
	}
	if text := valueNames[name]; text != "" {
		return ui.Text(text)
	}
	return ui.Text(wordOf(name))
}

// valueNames has the words of values whose names are not those of settings.
var valueNames = map[string]string{
	"openClaim": "Claim on the provider, in atomic units", "swapId": "Swap",
	nameField: "Legal name", addressField: "Address", taxIDField: "Tax ID", emailField: "E-mail",
	taxRateField: "Tax rate", taxNoteField: "Tax note", seriesField: "Series of invoices",
	noteSeriesField: "Series of credit notes", dayField: "Billing day", languageField: "Language of documents",
}

// valueText writes a value of a change request whole: an operator decides by it.
func valueText(kind changerequest.Kind, name string, value json.RawMessage) templ.Component {
	if value == nil {
		return nothing("none")
	}
	if kind == changerequest.BillingTerms {
		return termsText(name, value)
	}
	form, isSetting := settingForms[name]
	text := ""
	if !isSetting {
		if json.Unmarshal(value, &text) != nil {
			text = string(value)
		}
		switch name {
		case "address":
			return ui.Address(text)
		case "swapId":
			return link(Prefix+"/swaps/"+text, text)
		}
		return foreignOrNothing(text, "none")
	}
	return foreignOrNothing(formatSetting(form.Kind, value), "not set")
}

// termsText writes a value of billing terms.
func termsText(name string, value json.RawMessage) templ.Component {
	var lines []string
	var bps int
	var text string
	switch {
	case string(value) == "null":
		return nothing("as the seller's")
	case json.Unmarshal(value, &lines) == nil:
		cells := []templ.Component{}
		for _, line := range lines {
			cells = append(cells, ui.Foreign(line), lineBreak())
		}
		return join(cells...)
	case name == taxRateField && json.Unmarshal(value, &bps) == nil:
		return ui.Text(taxText(bps))
	case json.Unmarshal(value, &text) != nil:
		text = string(value)
	}
	return foreignOrNothing(text, "none")
}

// addAct adds what this operator can do. The author retracts, and every other operator approves.
func (v *changeView) addAct(r *pages.Request, request changerequest.Request) {
	path := r.Path("changes", request.ID)
	self := holder(r)
	isAuthor := request.AuthorKey == self.ID || operator.IsSameHolder(request.Author, self.Name)
	switch {
	case request.Status != changerequest.Pending:
		v.WhyNot = "It was decided, or its time is over."
	case !r.IsAllowed(identity.ApproveChange):
		v.WhyNot = "Your role shows this request and does not decide about it."
	case isAuthor && request.Author == self.Name:
		v.Act = &actView{
			Path: path, Act: "retract", Form: r.Form, Button: "Retract my request", IsDanger: true,
			Text: "You requested it, so another operator has to approve it.",
		}
	case isAuthor:
		v.WhyNot = "You requested it with a key, so another operator has to approve it. Retract it with the key."
	default:
		v.Act = &actView{
			Path: path, Act: "approve", Form: r.Form, Button: "Approve this change", IsPrimary: true,
			Text: "It takes effect at once. An address cools off before it is usable.",
		}
	}
}
