package console

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"time"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/whitelist"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/changerequest"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/webhook"
)

// ipListSetting is the setting of the IP list.
const ipListSetting = "ipAllowlist"

// signerTimeout is how long a form waits for the signer after its change is committed.
const signerTimeout = 5 * time.Second

// addressesPage shows the whitelist and the IP list of an organization, and changes both.
func (c *console) addressesPage() pages.Page {
	return pages.Page{
		Path: "/organizations/{organizationId}/addresses", Title: "Whitelist and IP list",
		Action: identity.ReadInstallation, Query: []kernel.Parameter{pages.CursorParameter},
		Live: []string{"WHITELISTED_ADDRESS", "ORGANIZATION", "CHANGE_REQUEST"}, LiveOfAll: true,
		Load: c.loadAddresses, WriteCSV: c.writeWhitelist,
		Acts: []pages.Act{
			{
				Name: "add", Action: identity.AddWhitelistEntry, StepUp: pages.SudoStepUp,
				Fields: []pages.Field{
					{Name: "chain", BytesMax: chainBytesMax, Missing: "Choose a network."},
					{Name: "address", BytesMax: textBytesMax, Missing: "Enter the address."},
					{Name: "label", BytesMax: textBytesMax, Missing: "Name the owner of the address."},
				},
				Run: c.addWhitelisted,
			},
			{
				Name: "remove", Action: identity.RemoveWhitelistEntry, StepUp: pages.SudoStepUp,
				Fields: []pages.Field{{Name: "entry", BytesMax: idBytesMax, Missing: "Choose an address."}},
				Run:    c.removeWhitelisted,
			},
			{
				Name: "add-ip", Action: identity.ChangeSettings, StepUp: pages.SudoStepUp,
				Fields: []pages.Field{
					{Name: "network", BytesMax: textBytesMax, Missing: "Enter an address or a network."},
				},
				Run: c.changeIPList(func(list []string, network string) []string { return append(list, network) }),
			},
			{
				Name: "remove-ip", Action: identity.ChangeSettings, StepUp: pages.SudoStepUp,
				Fields: []pages.Field{{Name: "network", BytesMax: textBytesMax, Missing: "Choose an entry."}},
				Run: c.changeIPList(func(list []string, network string) []string {
					return slices.DeleteFunc(list, func(entry string) bool { return entry == network })
				}),
			},
		},
	}
}

func (c *console) addWhitelisted(r *pages.Request) (string, error) {
	name, err := organizationID(r)
	if err != nil {
		return "", err
	}
	wanted := whitelist.EntryRequest{Chain: r.Values["chain"], Address: r.Values["address"], Label: r.Values["label"]}
	var outcome whitelist.Outcome
	var pendingID string
	err = c.conf.DB.InSystem(r.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		if pendingID, err = pendingAddress(ctx, tx, name, holder(r).ID, wanted); pendingID != "" || err != nil {
			return err
		}
		outcome, err = c.conf.Whitelist.RequestEntry(ctx, tx, holder(r), c.conf.FourEyes, name, wanted)
		return err
	})
	switch {
	case err != nil:
		return "", err
	case pendingID != "":
		return r.Path("changes", pendingID), nil
	case outcome.PendingChange != nil:
		return r.Path("changes", outcome.PendingChange.ID), nil
	}
	c.requestEndorsement(r.Context(), outcome.Entry.ID)
	return r.Path("organizations", name, "addresses"), nil
}

// pendingAddress returns the change request of this operator for the same address, and "" without one: a
// second click makes no second request.
func pendingAddress(
	ctx context.Context, tx pg.Tx, name, authorKey string, wanted whitelist.EntryRequest,
) (string, error) {
	waiting, err := changerequest.ListPending(ctx, tx, name)
	if err != nil {
		return "", err
	}
	for _, request := range waiting {
		var address, chainName string
		if request.Kind != changerequest.WhitelistedAddress || request.AuthorKey != authorKey ||
			json.Unmarshal(request.Wanted["address"], &address) != nil ||
			json.Unmarshal(request.Wanted["chain"], &chainName) != nil {
			continue
		}
		if address == wanted.Address && chainName == wanted.Chain {
			return request.ID, nil
		}
	}
	return "", nil
}

// requestEndorsement asks the signer to endorse an address whose row was committed. A failure is retried
// later in the background, so it does not fail the form.
func (c *console) requestEndorsement(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), signerTimeout)
	defer cancel()
	if err := c.conf.Whitelist.FinishEntry(ctx, name); err != nil {
		c.log().LogAttrs(ctx, slog.LevelWarn, "cannot ask the signer about a whitelist entry; a later cycle asks again",
			slog.String("whitelisted", name), slog.Any("err", err))
	}
}

func (c *console) log() *slog.Logger {
	if c.conf.Log != nil {
		return c.conf.Log
	}
	return slog.Default()
}

func (c *console) removeWhitelisted(r *pages.Request) (string, error) {
	name, err := organizationID(r)
	if err != nil {
		return "", err
	}
	err = c.conf.DB.InSystem(r.Context(), func(ctx context.Context, tx pg.Tx) error {
		_, err := c.conf.Whitelist.Remove(ctx, tx, holder(r), name, r.Values["entry"])
		return err
	})
	if err != nil {
		return "", err
	}
	c.requestEndorsement(r.Context(), r.Values["entry"])
	return r.Path("organizations", name, "addresses"), nil
}

// changeIPList changes the IP list as it is at the moment. An entry that is on it already, or not any
// more, changes nothing.
func (c *console) changeIPList(
	change func(list []string, network string) []string,
) func(*pages.Request) (string, error) {
	return func(r *pages.Request) (string, error) {
		name, err := organizationID(r)
		if err != nil {
			return "", err
		}
		network, err := org.ParsePrefix(r.Values["network"])
		if err != nil {
			return "", fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten, "%v.", err).
				WithParam("network")
		}
		var before, wanted json.RawMessage
		err = c.read(r, func(ctx context.Context, tx pg.Tx) (err error) {
			if before, err = settingOf(ctx, tx, name, ipListSetting); err != nil {
				return err
			}
			var list []string
			if err := json.Unmarshal(before, &list); err != nil {
				return err
			}
			list = slices.DeleteFunc(list, func(entry string) bool { return entry == network.String() })
			list = change(list, network.String())
			slices.Sort(list)
			wanted, err = json.Marshal(list)
			return err
		})
		if err != nil {
			return "", err
		}
		path, err := c.changeSetting(r, name, ipListSetting, before, wanted)
		if f := fault.Find(err); f != nil && f.Param == "value" {
			return "", f.WithParam("network")
		}
		return path, err
	}
}

// addressesView is what the page shows.
type addressesView struct {
	BackPath, Name, Path string
	Table                table
	FirstPath, NextPath  string
	CSVPath              string
	IPList               []string
	Form                 ui.Form
	Add, AddIP           *actView
	CanRemoveIP          bool
}

func (c *console) loadAddresses(r *pages.Request) (templ.Component, error) {
	name, err := organizationID(r)
	if err != nil {
		return nil, err
	}
	p, err := r.ReadPage()
	if err != nil {
		return nil, err
	}
	view := addressesView{
		BackPath: r.Path("organizations", name), Path: r.Path("organizations", name, "addresses"), Form: r.Form,
		CSVPath: r.CSVPath(), CanRemoveIP: r.IsAllowed(identity.ChangeSettings),
	}
	canRemove := r.IsAllowed(identity.RemoveWhitelistEntry)
	view.Table = table{Caption: "Whitelist", Columns: textColumns("Address", "Owner", "State", "Usable from", "Added")}
	if canRemove {
		view.Table.Columns = append(view.Table.Columns, column{Title: "Remove", IsUnseen: true})
	}
	err = c.read(r, func(ctx context.Context, tx pg.Tx) error {
		organization, err := org.LoadView(ctx, tx, name)
		if err != nil {
			return err
		}
		view.Name = organization.Name
		s, err := org.SettingsOf(ctx, tx, name)
		if err != nil {
			return err
		}
		view.IPList = nil
		for _, network := range s.IPAllowlist {
			view.IPList = append(view.IPList, network.String())
		}
		found, err := c.conf.Whitelist.List(ctx, tx, name, p)
		if err != nil {
			return err
		}
		names, err := loadHolders(ctx, tx)
		if err != nil {
			return err
		}
		view.Table.Rows = nil
		for _, e := range found.Items {
			view.addEntry(r, e, tx.Now, names, canRemove)
		}
		view.FirstPath, view.NextPath = r.PagePaths(found.NextCursor)
		return nil
	})
	if err != nil {
		return nil, err
	}
	c.addAddressForms(r, &view)
	return addressesOverview(view), nil
}

func (v *addressesView) addEntry(r *pages.Request, e whitelist.Entry, now time.Time, names holders, canRemove bool) {
	status := e.Status(now)
	state := ui.StateChip(entryChip(e, now))
	switch {
	case e.Refusal != "":
		state = pair(state, ui.Foreign(e.Refusal))
	case e.WaitsFor != "" && status == whitelist.StatusWaiting:
		state = pair(state, link(r.Path("organizations", e.OrgID, "addresses", e.ID), "Its words and signatures"))
	}
	row := []templ.Component{
		pair(ui.Address(string(e.Address)), ui.Text(networkName(e.Chain))), ui.Foreign(e.Label), state,
		ui.When(r.Moment(e.UsableFrom)),
		pair(ui.When(r.Moment(e.CreatedAt)), ui.Foreign(nameOfHolder(names, e.CreatedBy))),
	}
	switch {
	case canRemove && status != whitelist.StatusRemoved:
		row = append(row, entryRemoval(v.Path, e.ID, string(e.Address)))
	case canRemove:
		row = append(row, nothing(""))
	}
	v.Table.addRow(row...)
}

func nameOfHolder(names holders, keyID string) string {
	if name := names[keyID]; name != "" {
		return name
	}
	return keyID
}

// entryChip writes the status of a whitelisted address for people.
func entryChip(e whitelist.Entry, now time.Time) ui.Chip {
	switch e.Status(now) {
	case whitelist.StatusWaiting:
		if e.WaitsFor != "" {
			return ui.Chip{Kind: ui.Wait, Word: "Waits for signatures"}
		}
		return ui.Chip{Kind: ui.Wait, Word: "Waits for the signer"}
	case whitelist.StatusCoolingOff:
		return ui.Chip{Kind: ui.Info, Word: "Cools off"}
	case whitelist.StatusUsable:
		return ui.Chip{Kind: ui.Good, Word: "Usable"}
	case whitelist.StatusRefused:
		return ui.Chip{Kind: ui.Bad, Word: "Refused"}
	case whitelist.StatusRemoved:
		return ui.Chip{Kind: ui.Quiet, Word: "Removed"}
	}
	return ui.Chip{}
}

func (c *console) addAddressForms(r *pages.Request, view *addressesView) {
	if r.IsAllowed(identity.AddWhitelistEntry) {
		view.Add = &actView{
			Path: view.Path, Act: "add", Form: r.Form, Button: "Add to the whitelist", IsPrimary: true,
			Text: "Compare the address with its owner over another channel than the one by which you received it.",
			Choices: []choice{{
				Act: "add", Name: "chain", Label: "Network", Options: chainOptions(c.chainNames()),
			}},
			Inputs: []ui.Input{
				{
					Act: "add", Name: "address", Label: "Address", Type: "text", MaxLength: addressMax,
					Autocomplete: "off",
				},
				{
					Act: "add", Name: "label", Label: "Owner of the address", Type: "text", MaxLength: 100,
					Autocomplete: "off",
				},
			},
		}
	}
	if r.IsAllowed(identity.ChangeSettings) {
		view.AddIP = &actView{
			Path: view.Path, Act: "add-ip", Form: r.Form, Button: "Add to the IP list",
			Inputs: []ui.Input{{
				Act: "add-ip", Name: "network", Label: "Address or network", Type: "text", MaxLength: 64,
				Autocomplete: "off",
				Hint:         "Such as 203.0.113.7 or 203.0.113.0/24.",
			}},
		}
	}
}

// chainNames returns the chains that run here, in order.
func (c *console) chainNames() []chain.Name {
	names := make([]chain.Name, 0, len(c.conf.Chains))
	for name := range c.conf.Chains {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func chainOptions(names []chain.Name) (options []option) {
	for _, name := range names {
		options = append(options, option{string(name), networkName(name)})
	}
	return options
}

var whitelistColumns = []kernel.Column[whitelist.Entry]{
	{Name: "whitelistedAddressId", Cell: func(e whitelist.Entry) string { return e.ID }},
	{Name: "organizationId", Cell: func(e whitelist.Entry) string { return e.OrgID }},
	{Name: "chain", Cell: func(e whitelist.Entry) string { return string(e.Chain) }},
	{Name: "address", Cell: func(e whitelist.Entry) string { return string(e.Address) }},
	{Name: "label", Cell: func(e whitelist.Entry) string { return e.Label }},
	{Name: "usableFrom", Cell: func(e whitelist.Entry) string { return webhook.At(e.UsableFrom).String() }},
	{Name: "createdAt", Cell: func(e whitelist.Entry) string { return webhook.At(e.CreatedAt).String() }},
	{Name: "removedAt", Cell: func(e whitelist.Entry) string {
		if e.RemovedAt == nil {
			return ""
		}
		return webhook.At(*e.RemovedAt).String()
	}},
}

func (c *console) writeWhitelist(r *pages.Request, w *kernel.StreamWriter) error {
	name, err := organizationID(r)
	if err != nil {
		return err
	}
	return kernel.WriteTable(r.Context(), w, true, whitelistColumns, eachOf(
		func(p pagination.Page) (found pagination.Result[whitelist.Entry], err error) {
			err = c.read(r, func(ctx context.Context, tx pg.Tx) (err error) {
				found, err = c.conf.Whitelist.List(ctx, tx, name, p)
				return err
			})
			return found, err
		}))
}
