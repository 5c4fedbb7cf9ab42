package console

import (
	"context"
	"slices"
	"strings"
	"unicode"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/webhook"
)

// freezeReasonMax bounds the bytes of the reason of a freeze.
const freezeReasonMax = 500

// freezesPage lists the freezes and creates one.
func (c *console) freezesPage() pages.Page {
	return pages.Page{
		Path: "/freezes", Title: "Freezes", Action: identity.ReadInstallation, Group: controlGroup, Icon: "shield",
		Shortcut: "z",
		Query: []kernel.Parameter{
			pages.CursorParameter, textFilter("organizationId"), textFilter("scope"), textFilter("source"),
			{Name: "active", Kind: kernel.FlagParameter},
		},
		Live: []string{"FREEZE"}, Load: c.loadFreezes, WriteCSV: c.writeFreezes,
		Acts: []pages.Act{{
			Name: "create", Action: identity.FreezePayments, StepUp: pages.ActStepUp,
			Fields: []pages.Field{
				{Name: "scope", BytesMax: idBytesMax, Missing: "Choose what to stop."},
				{Name: "organizationId", BytesMax: idBytesMax, Optional: true},
				{Name: "customerId", BytesMax: textBytesMax, Optional: true},
				{Name: "chain", BytesMax: chainBytesMax, Optional: true},
				{
					Name: "reason", BytesMax: noteBytesMax,
					Missing: "Say why, for the person who decides about lifting it.",
				},
			},
			Run: c.createFreeze,
		}},
	}
}

func (c *console) listFreezes(r *pages.Request, p pagination.Page) (found pagination.Result[freeze.Freeze], err error) {
	f := freeze.Filter{
		OrgID: r.Query["organizationId"], Scope: freeze.Scope(r.Query["scope"]),
		Source:   freeze.Source(r.Query["source"]),
		IsActive: r.Query.FlagValue("active"),
	}
	err = c.read(r, func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = freeze.ListPage(ctx, tx, f, p)
		return err
	})
	return found, err
}

// freezeScopes are the scopes that an operator can choose. Only the program freezes a wallet.
var freezeScopes = []option{
	{string(freeze.ScopeOrganization), "An organization"},
	{string(freeze.ScopeCustomer), "A customer of an organization"},
	{string(freeze.ScopeChain), "A network"},
	{string(freeze.ScopeAll), "Every payment of the service"},
}

// freezesView is what the page shows.
type freezesView struct {
	List   listView
	Create *actView
}

func (c *console) loadFreezes(r *pages.Request) (templ.Component, error) {
	p, err := r.ReadPage()
	if err != nil {
		return nil, err
	}
	found, err := c.listFreezes(r, p)
	if err != nil {
		return nil, err
	}
	names, err := c.loadOrgNames(r)
	if err != nil {
		return nil, err
	}
	view := freezesView{List: listView{
		Path: r.Path("freezes"), CSVPath: r.CSVPath(),
		Filters: filtersOf(r,
			filter{
				Name: "active", Label: "State",
				Options: []option{{"", "All"}, {"true", "In force"}, {"false", "Lifted"}},
			},
			filter{
				Name: "scope", Label: "Scope", Options: append(
					[]option{{"", "All"}}, optionsOf("ALL", "CHAIN", "ORGANIZATION",
						"CUSTOMER", "WALLET")...),
			},
			filter{Name: "organizationId", Label: "Organization"}),
		Table: table{Caption: "Freezes", Columns: append(textColumns("State", "Stops", "Reason", "By", "Since"),
			column{Title: "Open", IsUnseen: true})},
	}}
	for _, f := range found.Items {
		view.List.Table.addRow(ui.StateChip(freezeChip(f)), frozenThing(r, f, names), ui.Foreign(f.Reason),
			ui.Text(wordOf(f.Source)), ui.When(r.Moment(f.CreatedAt)), openLink(r.Path("freezes", f.ID), "Open", f.ID))
	}
	view.List.FirstPath, view.List.NextPath = r.PagePaths(found.NextCursor)
	if r.IsAllowed(identity.FreezePayments) {
		view.Create = c.newFreezeForm(r)
	}
	return freezesList(view), nil
}

func (c *console) newFreezeForm(r *pages.Request) *actView {
	return &actView{
		Path: r.Path("freezes"), Act: "create", Form: r.Form, Button: "Freeze", TakesCode: true, IsDanger: true,
		Text: "No money leaves what is frozen until an operator lifts the freeze. What was sent already can " +
			"still be mined.",
		Choices: []choice{
			{Act: "create", Name: "scope", Label: "What to stop", Options: freezeScopes},
			{
				Act: "create", Name: "chain", Label: "Network, for a network",
				Options: append([]option{{"", "none"}}, chainOptions(c.chainNames())...),
			},
		},
		Inputs: []ui.Input{
			{
				Act: "create", Name: "organizationId", Label: "Organization, for an organization or a customer",
				Type:     "text",
				Optional: true, Autocomplete: "off", Hint: "Its id, org_…",
			},
			{
				Act: "create", Name: "customerId", Label: "Customer, for a customer", Type: "text", Optional: true,
				Autocomplete: "off",
			},
			{
				Act: "create", Name: "reason", Label: "Reason", Type: "text", MaxLength: freezeReasonMax,
				Autocomplete: "off",
			},
		},
	}
}

// newFreeze returns the freeze that a form asks for. It refuses a field that the scope does not take: a
// form that names a customer must not freeze everyone.
func (c *console) newFreeze(r *pages.Request) (freeze.Freeze, error) {
	refuse := func(field, text string) (freeze.Freeze, error) {
		return freeze.Freeze{}, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten, "%s", text).
			WithParam(field)
	}
	f := freeze.Freeze{
		Scope: freeze.Scope(r.Values["scope"]), Source: freeze.SourceOperator, Actor: actor(r),
		Reason: r.Values["reason"],
	}
	if !slices.ContainsFunc(freezeScopes, func(o option) bool { return o.Value == string(f.Scope) }) {
		return refuse("scope", "Choose one of the list.")
	}
	for _, item := range []struct {
		field  string
		scopes []freeze.Scope
		target *string
	}{
		{"organizationId", []freeze.Scope{freeze.ScopeOrganization, freeze.ScopeCustomer}, &f.OrgID},
		{"customerId", []freeze.Scope{freeze.ScopeCustomer}, &f.CustomerID},
		{"chain", []freeze.Scope{freeze.ScopeChain}, (*string)(&f.Chain)},
	} {
		isNeeded := slices.Contains(item.scopes, f.Scope)
		switch value := r.Values[item.field]; {
		case isNeeded && value == "":
			return refuse(item.field, "This is needed for what you stop.")
		case !isNeeded && value != "":
			return refuse(item.field, "What you stop is more than this. Leave it empty, or choose another scope.")
		case isNeeded:
			*item.target = value
		}
	}
	if _, isRunning := c.conf.Chains[f.Chain]; f.Scope == freeze.ScopeChain && !isRunning {
		return refuse("chain", "This network does not run here.")
	}
	if len(f.Reason) > freezeReasonMax || strings.ContainsFunc(f.Reason, unicode.IsControl) {
		return refuse("reason", "The reason may have at most 500 bytes and no control characters.")
	}
	if f.Scope == freeze.ScopeCustomer {
		if err := customer.CheckID(f.CustomerID); err != nil {
			return refuse("customerId", "This is no id of a customer.")
		}
	}
	return f, nil
}

// createFreeze creates a freeze. A second click finds the first one. An unknown id is refused, because it
// would be reported as frozen while the one that was meant would not be.
func (c *console) createFreeze(r *pages.Request) (string, error) {
	wanted, err := c.newFreeze(r)
	if err != nil {
		return "", err
	}
	var active freeze.Freeze
	err = c.conf.DB.InSystem(r.Context(), func(ctx context.Context, tx pg.Tx) error {
		if wanted.OrgID != "" {
			if _, err := org.LoadView(ctx, tx, wanted.OrgID); err != nil {
				return withParam(err, "organizationId")
			}
		}
		if wanted.CustomerID != "" {
			if _, err := customer.ByID(ctx, tx, wanted.OrgID, wanted.CustomerID); err != nil {
				return withParam(err, "customerId")
			}
		}
		var err error
		active, _, err = freeze.CreateOrFind(ctx, tx, wanted)
		return err
	})
	if err != nil {
		return "", err
	}
	return r.Path("freezes", active.ID), nil
}

// withParam puts a refusal to a field of a form.
func withParam(err error, field string) error {
	if f := fault.Find(err); f != nil {
		return f.WithParam(field)
	}
	return err
}

func freezeChip(f freeze.Freeze) ui.Chip {
	if f.LiftedAt != nil {
		return ui.Chip{Kind: ui.Quiet, Word: "Lifted"}
	}
	return ui.Chip{Kind: ui.Bad, Word: "In force"}
}

// frozenThing says what a freeze stops.
func frozenThing(r *pages.Request, f freeze.Freeze, names orgNames) templ.Component {
	scope := ui.Text(wordOf(f.Scope))
	switch f.Scope {
	case freeze.ScopeAll:
		return ui.Text("Every payment")
	case freeze.ScopeChain:
		return pair(ui.Text(networkName(f.Chain)), scope)
	case freeze.ScopeOrganization:
		return pair(link(r.Path("organizations", f.OrgID), names.nameOf(f.OrgID)), scope)
	case freeze.ScopeCustomer:
		return pair(ui.Foreign(f.CustomerID), join(scope, ui.Text(" of "+names.nameOf(f.OrgID))))
	case freeze.ScopeWallet:
		return pair(ui.Code(f.WalletID), join(scope, ui.Text(" on "+networkName(f.Chain))))
	}
	return scope
}

var freezeColumns = []kernel.Column[freeze.Freeze]{
	{Name: "freezeId", Cell: func(f freeze.Freeze) string { return f.ID }},
	{Name: "scope", Cell: func(f freeze.Freeze) string { return string(f.Scope) }},
	{Name: "organizationId", Cell: func(f freeze.Freeze) string { return f.OrgID }},
	{Name: "customerId", Cell: func(f freeze.Freeze) string { return f.CustomerID }},
	{Name: "chain", Cell: func(f freeze.Freeze) string { return string(f.Chain) }},
	{Name: "walletId", Cell: func(f freeze.Freeze) string { return f.WalletID }},
	{Name: "source", Cell: func(f freeze.Freeze) string { return string(f.Source) }},
	{Name: "reason", Cell: func(f freeze.Freeze) string { return f.Reason }},
	{Name: "createdAt", Cell: func(f freeze.Freeze) string { return webhook.At(f.CreatedAt).String() }},
	{Name: "liftedBy", Cell: func(f freeze.Freeze) string { return f.LiftedBy }},
}

func (c *console) writeFreezes(r *pages.Request, w *kernel.StreamWriter) error {
	return kernel.WriteTable(r.Context(), w, true, freezeColumns, eachOf(
		func(p pagination.Page) (pagination.Result[freeze.Freeze], error) { return c.listFreezes(r, p) }))
}

// freezePage shows one freeze and lifts it.
func (c *console) freezePage() pages.Page {
	return pages.Page{
		Path: "/freezes/{freezeId}", Title: "Freeze", Action: identity.ReadInstallation, Load: c.loadFreeze,
		Live: []string{"FREEZE"},
		Acts: []pages.Act{{
			Name: "lift", Action: identity.LiftFreeze, StepUp: pages.ActStepUp,
			FindDone: func(r *pages.Request) (string, error) {
				f, err := c.freezeOf(r)
				if err != nil || f.LiftedAt == nil {
					return "", err
				}
				return r.Path("freezes", f.ID), nil
			},
			Run: func(r *pages.Request) (string, error) {
				err := c.conf.DB.InSystem(r.Context(), func(ctx context.Context, tx pg.Tx) error {
					_, err := freeze.LiftByOperator(ctx, tx, r.PathParam("freezeId"), actor(r))
					return err
				})
				return r.Path("freezes", r.PathParam("freezeId")), err
			},
		}},
	}
}

func (c *console) freezeOf(r *pages.Request) (f freeze.Freeze, err error) {
	err = c.read(r, func(ctx context.Context, tx pg.Tx) (err error) {
		f, err = freeze.ByID(ctx, tx, r.PathParam("freezeId"))
		return err
	})
	return f, err
}

// freezeView is what the page of a freeze shows.
type freezeView struct {
	Chip   ui.Chip
	Facts  []ui.Fact
	Lift   *actView
	WhyNot string
}

func (c *console) loadFreeze(r *pages.Request) (templ.Component, error) {
	f, err := c.freezeOf(r)
	if err != nil {
		return nil, err
	}
	names, err := c.loadOrgNames(r)
	if err != nil {
		return nil, err
	}
	var operators holders
	err = c.read(r, func(ctx context.Context, tx pg.Tx) (err error) {
		operators, err = loadHolders(ctx, tx)
		return err
	})
	if err != nil {
		return nil, err
	}
	view := freezeView{Chip: freezeChip(f), Facts: []ui.Fact{
		{Name: "Stops", Value: frozenThing(r, f, names)},
		{Name: "Reason", Value: foreignOrNothing(f.Reason, "none given")},
		{Name: "Made by", Value: ui.Text(wordOf(f.Source))},
		{Name: "Since", Value: ui.When(r.Moment(f.CreatedAt))},
		{Name: "Lifted", Value: whenOrNothing(r, f.LiftedAt, "no")},
		{Name: "Freeze", Value: ui.Code(f.ID)},
	}}
	if f.LiftedBy != "" {
		kind, id, _ := strings.Cut(f.LiftedBy, " ")
		view.Facts = append(view.Facts, ui.Fact{Name: "Lifted by", Value: ui.Foreign(liftedBy(operators, kind, id))})
	}
	switch {
	case f.LiftedAt != nil:
		view.WhyNot = "It was lifted and stops nothing any more."
	case f.Source == freeze.SourceOrganization:
		view.WhyNot = "The organization made it, and only the organization lifts it."
	case !r.IsAllowed(identity.LiftFreeze):
		view.WhyNot = "Your role shows this freeze and does not lift it."
	default:
		view.Lift = &actView{
			Path: r.Path("freezes", f.ID), Act: "lift", Form: r.Form, Button: "Lift this freeze", TakesCode: true,
			IsDanger: true,
			Text:     "Payments that wait for it go on at once.",
		}
	}
	return freezeOverview(view), nil
}

func liftedBy(operators holders, kind, id string) string {
	if name := operators[id]; name != "" {
		return name
	}
	return wordOf(kind) + " " + id
}
