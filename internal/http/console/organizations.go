package console

import (
	"context"
	"net/url"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/apikey"
	"github.com/cofferpay/coffer/internal/identity/changerequest"
	"github.com/cofferpay/coffer/internal/identity/member"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/report"
	"github.com/cofferpay/coffer/webhook"
)

// organizationsPage lists the organizations and creates one.
func (c *console) organizationsPage() pages.Page {
	return pages.Page{
		Path: "/organizations", Title: "Organizations", Action: identity.ReadInstallation, Group: moneyGroup,
		Icon: "approve", Shortcut: "o",
		Query: []kernel.Parameter{pages.CursorParameter, textFilter("name")},
		Live:  []string{"ORGANIZATION", "FREEZE"},
		Load:  c.loadOrganizations, WriteCSV: c.writeOrganizations,
		Acts: []pages.Act{{
			Name: "create", Action: identity.CreateOrganization, StepUp: pages.SudoStepUp,
			Fields: []pages.Field{
				{Name: "name", BytesMax: textBytesMax, Missing: "Enter the name of the organization."},
			},
			Run: c.createOrganization,
		}},
	}
}

func (c *console) listOrganizations(r *pages.Request, p pagination.Page) (
	found pagination.Result[org.View], err error,
) {
	err = c.read(r, func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = org.List(ctx, tx, org.Filter{Name: r.Query["name"]}, p)
		return err
	})
	return found, err
}

// organizationsView is what the page shows.
type organizationsView struct {
	Path                string
	Filters             []filter
	Table               table
	FirstPath, NextPath string
	CSVPath             string
	Create              *actView
}

func (c *console) loadOrganizations(r *pages.Request) (templ.Component, error) {
	p, err := r.ReadPage()
	if err != nil {
		return nil, err
	}
	found, err := c.listOrganizations(r, p)
	if err != nil {
		return nil, err
	}
	view := organizationsView{
		Path: r.Path("organizations"), CSVPath: r.CSVPath(),
		Filters: filtersOf(r, filter{Name: "name", Label: "Name"}),
		Table:   table{Caption: "Organizations", Columns: textColumns("Name", "State", "API key", "Created")},
	}
	for _, o := range found.Items {
		view.Table.addRow(
			pair(link(r.Path("organizations", o.ID), ui.EscapeForeign(o.Name)), ui.Code(o.ID)),
			ui.StateChip(organizationChip(o)), whenOrNothing(r, o.KeyCreatedAt, "none"), ui.When(r.Moment(o.CreatedAt)),
		)
	}
	view.FirstPath, view.NextPath = r.PagePaths(found.NextCursor)
	if r.IsAllowed(identity.CreateOrganization) {
		view.Create = &actView{
			Path: view.Path, Act: "create", Form: r.Form, Button: "Create an organization",
			Text: "Its API key is shown once, on the next page.",
			Inputs: []ui.Input{
				{Act: "create", Name: "name", Label: "Name", Type: "text", MaxLength: 200, Autocomplete: "off"},
			},
		}
	}
	return organizationsList(view), nil
}

func organizationChip(o org.View) ui.Chip {
	if o.Frozen {
		return ui.Chip{Kind: ui.Bad, Word: "Frozen"}
	}
	return ui.Chip{Kind: ui.Good, Word: "Active"}
}

var organizationColumns = []kernel.Column[org.View]{
	{Name: "organizationId", Cell: func(o org.View) string { return o.ID }},
	{Name: "name", Cell: func(o org.View) string { return o.Name }},
	{Name: "status", Cell: func(o org.View) string {
		if o.Frozen {
			return "FROZEN"
		}
		return "ACTIVE"
	}},
	{Name: "createdAt", Cell: func(o org.View) string { return webhook.At(o.CreatedAt).String() }},
}

func (c *console) writeOrganizations(r *pages.Request, w *kernel.StreamWriter) error {
	return kernel.WriteTable(r.Context(), w, true, organizationColumns, eachOf(
		func(p pagination.Page) (pagination.Result[org.View], error) { return c.listOrganizations(r, p) },
	))
}

// eachOf reads all pages of a list.
func eachOf[T any](
	list func(pagination.Page) (pagination.Result[T], error),
) func(ctx context.Context, desc bool, row func(T) error) error {
	return func(_ context.Context, desc bool, row func(T) error) error {
		p := pagination.Page{Limit: pagination.LimitMax, Desc: desc}
		for {
			found, err := list(p)
			if err != nil {
				return err
			}
			for _, item := range found.Items {
				if err := row(item); err != nil {
					return err
				}
			}
			if found.NextCursor == nil {
				return nil
			}
			p.Cursor = found.NextCursor
		}
	}
}

func (c *console) createOrganization(r *pages.Request) (string, error) {
	made, key, err := org.CreateBy(r.Context(), c.conf.DB, actor(r), r.Values["name"])
	if err != nil {
		return "", err
	}
	r.ShowOnce(newKey(made.Name, key.Reveal(), r.Path("organizations", made.ID)))
	return "", nil
}

// organizationPage shows one organization: settings, key, people, balances.
func (c *console) organizationPage() pages.Page {
	return pages.Page{
		Path: "/organizations/{organizationId}", Title: "Organization", Action: identity.ReadInstallation,
		Live: []string{
			"ORGANIZATION", "API_KEY", "USER", "INVITATION", "FREEZE", "CHANGE_REQUEST", "DEPOSIT", "WITHDRAWAL",
		},
		LiveOfAll: true, Load: c.loadOrganization,
		Acts: []pages.Act{
			{
				Name: "roll-key", Action: identity.ReplaceOrganizationKey, StepUp: pages.SudoStepUp,
				Fields: []pages.Field{{Name: "keyMadeAt", BytesMax: textBytesMax, Optional: true}},
				Run:    c.rollKey,
			},
			{
				Name: "revoke-key", Action: identity.ReplaceOrganizationKey, StepUp: pages.SudoStepUp,
				Fields: []pages.Field{{Name: "key", BytesMax: idBytesMax, Missing: "Choose a key."}},
				Run: func(r *pages.Request) (string, error) {
					name, err := organizationID(r)
					if err != nil {
						return "", err
					}
					return r.Path("organizations", name),
						org.RevokeKey(r.Context(), c.conf.DB, actor(r), name, r.Values["key"])
				},
			},
		},
	}
}

// organizationID returns the organization that the path names.
func organizationID(r *pages.Request) (string, error) {
	name := r.PathParam("organizationId")
	if !id.IsValid("org", name) {
		return "", fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten,
			"This organization does not exist.").WithStep(fault.ListOrganizations)
	}
	return name, nil
}

// keyTime writes the time of a key for a form, which so knows the key that it replaces.
func keyTime(o org.View) string {
	if o.KeyCreatedAt == nil {
		return ""
	}
	return webhook.At(*o.KeyCreatedAt).String()
}

// rollKey replaces the key that the page showed. A second click, an old tab and a slower colleague find
// another key and replace none.
func (c *console) rollKey(r *pages.Request) (string, error) {
	name, err := organizationID(r)
	if err != nil {
		return "", err
	}
	var found org.View
	err = c.read(r, func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = org.LoadView(ctx, tx, name)
		return err
	})
	if err != nil {
		return "", err
	}
	if keyTime(found) != r.Values["keyMadeAt"] {
		return "", fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
			"The key was rolled after you opened the page, and the key that is valid now was not replaced.").
			WithAdvice("Look at its time before you roll it again.")
	}
	key, err := org.RollKey(r.Context(), c.conf.DB, actor(r), name)
	if err != nil {
		return "", err
	}
	if c.conf.KeyRolled != nil {
		c.conf.KeyRolled(r.Context(), name, key)
	}
	r.ShowOnce(newKey(found.Name, key.Reveal(), r.Path("organizations", name)))
	return "", nil
}

// organizationView is what the page of an organization shows.
type organizationView struct {
	Path, Name          string
	Chip                ui.Chip
	Facts               []ui.Fact
	Settings            table
	Keys, People        table
	Balances            table
	Pending             []changeRow
	Links               []pathLink
	RollKey             *actView
	MemberCount         int
	FreezePath, IPCount string
}

type pathLink struct{ Path, Text string }

// organizationData is what is read for the page.
type organizationData struct {
	view     org.View
	settings org.Settings
	pending  []changerequest.Request
	keys     pagination.Result[apikey.Key]
	people   []member.Member
	balances []report.ProductBalance
	names    holders
}

func (c *console) loadOrganizationData(r *pages.Request, name string) (d organizationData, err error) {
	err = c.read(r, func(ctx context.Context, tx pg.Tx) (err error) {
		if d.view, err = org.LoadView(ctx, tx, name); err != nil {
			return err
		}
		if d.settings, err = org.SettingsOf(ctx, tx, name); err != nil {
			return err
		}
		if d.pending, err = changerequest.ListPending(ctx, tx, name); err != nil {
			return err
		}
		if d.keys, err = apikey.List(ctx, tx, name, pagination.Page{Limit: rowsMax, Desc: true}); err != nil {
			return err
		}
		if d.people, err = member.ListByOrg(ctx, tx, name); err != nil {
			return err
		}
		if d.balances, err = report.LoadProductBalances(ctx, tx, name); err != nil {
			return err
		}
		d.names, err = loadHolders(ctx, tx)
		return err
	})
	return d, err
}

func (c *console) loadOrganization(r *pages.Request) (templ.Component, error) {
	name, err := organizationID(r)
	if err != nil {
		return nil, err
	}
	d, err := c.loadOrganizationData(r, name)
	if err != nil {
		return nil, err
	}
	view := organizationView{
		Path: r.Path("organizations", name), Name: d.view.Name, Chip: organizationChip(d.view),
		FreezePath: r.Path("freezes"),
		Facts: []ui.Fact{
			{Name: "Id", Value: ui.Code(d.view.ID)},
			{Name: "Created", Value: ui.When(r.Moment(d.view.CreatedAt))},
			{Name: "API key", Value: whenOrNothing(r, d.view.KeyCreatedAt, "none")},
			{Name: "Settings changed", Value: ui.When(r.Moment(d.settings.UpdatedAt))},
		},
		Settings: c.settingsTable(r, name, d.settings), People: peopleTable(r, d.people),
		Keys:     keysTable(r, d.keys.Items),
		Balances: balancesTable(d.balances), MemberCount: len(d.people),
	}
	query := "?" + url.Values{"organizationId": {name}}.Encode()
	view.Links = []pathLink{
		{r.Path("organizations", name, "addresses"), "Whitelist and IP list"},
		{r.Path("flagged") + query, "Flagged deposits"},
		{r.Path("withdrawals") + query, "Withdrawals"},
		{r.Path("wallets") + query, "Wallets"},
		{r.Path("organizations", name, "billing-terms"), "Billing terms"},
		{r.Path("billing", "invoices") + query, "Invoices"},
		{r.Path("freezes") + query, "Freezes"},
		{r.Path("audit") + "?" + url.Values{"resourceId": {name}}.Encode(), "Audit log"},
	}
	for _, request := range d.pending {
		view.Pending = append(view.Pending, newChangeRow(r, request, d.names))
	}
	if r.IsAllowed(identity.ReplaceOrganizationKey) {
		view.RollKey = &actView{
			Path: view.Path, Act: "roll-key", Form: r.Form, Button: "Roll the API key", IsDanger: true,
			Text:   "The service refuses the present key at once. The new one is shown once.",
			Hidden: []hiddenField{{"keyMadeAt", keyTime(d.view)}},
		}
	}
	return organizationOverview(view), nil
}

func peopleTable(r *pages.Request, people []member.Member) table {
	t := table{Caption: "People", Columns: textColumns("Name", "E-mail", "Roles", "State")}
	for _, m := range people {
		chip := ui.Chip{Kind: ui.Good, Word: "Has an account"}
		switch {
		case !m.EndedAt.IsZero():
			chip = ui.Chip{Kind: ui.Quiet, Word: "Access ended"}
		case m.AccountID == "":
			chip = ui.Chip{Kind: ui.Wait, Word: "No account"}
		}
		t.addRow(ui.Foreign(m.Name), ui.Foreign(m.Email), ui.Text(pages.RoleNames(m.Roles)), ui.StateChip(chip))
	}
	return t
}

func keysTable(r *pages.Request, keys []apikey.Key) table {
	t := table{Caption: "API keys", Columns: textColumns("Key", "Scope", "Created", "Last used", "Ends", "State")}
	for _, k := range keys {
		t.addRow(
			pair(ui.Foreign(k.Name), ui.Code(k.ID)), ui.Text(wordOf(k.Scope)), ui.When(r.Moment(k.CreatedAt)),
			whenOrNothing(r, k.LastUsedAt, "never"), whenOrNothing(r, k.ExpiresAt, "never"), ui.Text(wordOf(k.Status)),
		)
	}
	return t
}

func balancesTable(balances []report.ProductBalance) table {
	t := table{Caption: "Balances", Columns: []column{
		{Title: "Product"},
		{Title: "Token"},
		{Title: "Own money", IsNumber: true},
		{Title: "Owed to customers", IsNumber: true},
	}}
	for _, b := range balances {
		if b.Total.IsZero() && b.Owed.IsZero() {
			continue
		}
		t.addRow(
			ui.Text(wordOf(b.Product)), pair(ui.Foreign(b.Mint.Symbol), ui.Text(networkName(b.Mint.Chain))),
			ui.Amount(b.Total.Decimal(b.Mint.Decimals), b.Mint.Symbol),
			ui.Amount(b.Owed.Decimal(b.Mint.Decimals), b.Mint.Symbol),
		)
	}
	return t
}

// newKey shows a new key, once.
func newKey(name, key, nextPath string) templ.Component { return keyOnce(name, key, nextPath) }
