package dashboard

import (
	"strconv"
	"strings"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
)

// saveCheckoutsAct saves the settings of checkouts.
const saveCheckoutsAct = "save"

// checkoutSettingsPage shows and changes what applies to the checkouts of the organization. Rule PAGE-87.
func (d *dashboard) checkoutSettingsPage() pages.Page {
	return pages.Page{
		Path: "/checkouts/settings", Title: "Settings of checkouts", Action: identity.ReadOrganization,
		Live: []string{"CHECKOUT_SETTINGS"}, Load: d.loadCheckoutSettings,
		Acts: []pages.Act{{
			Name: saveCheckoutsAct, Action: identity.ChangeCheckouts, StepUp: pages.SudoStepUp,
			Fields: []pages.Field{
				seenField,
				{Name: "shopName", BytesMax: productNameBytesMax, Optional: true},
				{Name: "accentColor", BytesMax: wordBytesMax, Optional: true},
				{Name: "supportUrl", BytesMax: 2 * urlBytesMax, Optional: true},
				{Name: "underUsd", BytesMax: priceBytesMax, Missing: "Give an amount in dollars, or 0 for none."},
				{Name: "costMaxBps", BytesMax: wordBytesMax, Missing: "Give a whole number of basis points."},
				{Name: embedOriginsName, BytesMax: 2 * urlBytesMax, Optional: true},
			},
			Run: d.saveCheckoutSettings,
		}},
	}
}

// embedOriginsName is the field with the origins that embed the page of a checkout.
const embedOriginsName = "embedOrigins"

// checkoutSettingsView is what the page shows.
type checkoutSettingsView struct {
	Tabs      []ui.Tab
	Path      string
	Facts     []ui.Fact
	CanChange bool
	Form      ui.Form
	Version   string
}

func (d *dashboard) loadCheckoutSettings(r *pages.Request) (templ.Component, error) {
	settings, err := d.conf.Checkouts.LoadSettings(r.Context(), r.Session.OrgID)
	if err != nil {
		return nil, err
	}
	view := checkoutSettingsView{
		Path: r.Path("checkouts", "settings"), Facts: checkoutSettingsFacts(r, settings),
		CanChange: r.IsAllowed(identity.ChangeCheckouts), Version: strconv.FormatInt(settings.Version, 10),
	}
	if view.Tabs, err = d.checkoutTabs(r, checkoutSettingsTab); err != nil {
		return nil, err
	}
	view.Form = ui.Filled(r.Form, saveCheckoutsAct, map[string]string{
		"shopName": settings.ShopName, "accentColor": settings.Accent, "supportUrl": settings.SupportURL,
		"underUsd": settings.UnderUSD.Cents(), "costMaxBps": strconv.Itoa(settings.CostMaxBps),
		embedOriginsName: strings.Join(settings.EmbedOrigins, " "),
	})
	if typed := r.Form.Value(saveCheckoutsAct, seenName); typed != "" {
		view.Version = typed // What changed meanwhile is not overwritten by a second try, either.
	}
	return checkoutSettingsForm(view), nil
}

func checkoutSettingsFacts(r *pages.Request, settings checkout.Settings) []ui.Fact {
	shopName := ui.Text(r.Session.OrgName + ", the name of your organization")
	if settings.ShopName != "" {
		shopName = productText(settings.ShopName)
	}
	textOr := func(text, absent string) templ.Component {
		if text == "" {
			return ui.Text(absent)
		}
		return ui.Foreign(text)
	}
	return []ui.Fact{
		{Name: "Name of the shop", Value: shopName},
		{Name: "Color", Value: textOr(settings.Accent, "that of the page")},
		{Name: "Where payers ask", Value: textOr(settings.SupportURL, "nowhere")},
		{Name: "Counts as paid with less by", Value: ui.Text("up to $" + settings.UnderUSD.Cents())},
		{
			Name:  "Collecting a payment costs at most",
			Value: ui.Text(strconv.Itoa(settings.CostMaxBps) + " basis points of the amount due"),
		},
		{Name: "Sites that embed the page", Value: textOr(strings.Join(settings.EmbedOrigins, " "), "none")},
	}
}

// saveCheckoutSettings replaces the settings with those of the form, unless they changed since it was opened. Rule
// PAGE-87.
func (d *dashboard) saveCheckoutSettings(r *pages.Request) (string, error) {
	invalid := func(field, reason string) error {
		return fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten, "%s", reason).WithParam(field)
	}
	seenVersion, err := strconv.ParseInt(r.Values[seenName], 10, 64)
	if err != nil {
		return "", fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"This form is not one of this page.")
	}
	costMaxBps, err := strconv.Atoi(r.Values["costMaxBps"])
	if err != nil {
		return "", invalid("costMaxBps", "Give a whole number.")
	}
	_, err = d.conf.Checkouts.SaveSettings(r.Context(), r.Session.OrgID, checkout.SettingsDraft{
		ShopName: r.Values["shopName"], Accent: r.Values["accentColor"], SupportURL: r.Values["supportUrl"],
		UnderUSD: r.Values["underUsd"], CostMaxBps: costMaxBps, EmbedOrigins: r.Values[embedOriginsName],
		SeenVersion: seenVersion,
	}, actor(r))
	if err != nil {
		return "", err
	}
	return r.Path("checkouts", "settings"), nil
}
