package console

import (
	"context"
	"net/url"
	"strconv"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/swap"
)

// providerReasonBytesMax bounds the reason of a suspension: 500 characters.
const providerReasonBytesMax = 2000

// providersPage lists the providers of swaps with what they have of ours.
func (c *console) providersPage() pages.Page {
	return pages.Page{
		Path: "/swap-providers", Title: "Swap providers", Action: identity.ReadInstallation, Group: networkGroup,
		Icon: "swap", Live: []string{"SWAP", "SWAP_PROVIDER"}, Load: c.loadProviders,
	}
}

func (c *console) loadProviders(r *pages.Request) (templ.Component, error) {
	found, err := c.conf.Swaps.ListProviders(r.Context())
	if err != nil {
		return nil, err
	}
	list := table{Caption: "Swap providers", Columns: []column{
		{Title: "State"},
		{Title: "Provider"},
		{Title: "Swaps with it", IsNumber: true},
		{Title: "Dollars with it", IsNumber: true},
		{Title: "Limit", IsNumber: true},
		{Title: "Oldest payment"},
		{Title: "Changed"},
		{Title: "Open", IsUnseen: true},
	}}
	for _, p := range found {
		list.addRow(
			ui.StateChip(providerChip(p)), ui.Code(p.Name), ui.Text(strconv.Itoa(p.OpenSwaps)),
			ui.Text(outstandingText(p)), ui.Text(limitText(p)),
			whenOrNothing(r, p.OldestAt, "none"), whenOrNothing(r, p.ChangedAt, "never"),
			openLink(r.Path("swap-providers", p.Name), "Open", p.Name),
		)
	}
	return providersList(list), nil
}

// providerChip writes the state of a provider for people.
func providerChip(p swap.ProviderState) ui.Chip {
	switch {
	case p.IsSuspended:
		return ui.Chip{Kind: ui.Bad, Word: "Suspended"}
	case p.BrokenSince != nil:
		return ui.Chip{Kind: ui.Wait, Word: "Failed too often"}
	case p.IsAtLimit():
		return ui.Chip{Kind: ui.Wait, Word: "At its limit"}
	}
	return ui.Chip{Kind: ui.Good, Word: "Gets swaps"}
}

// outstandingText writes what is with a provider in dollars, and how many swaps that does not contain.
func outstandingText(p swap.ProviderState) string {
	text := p.Outstanding.USD.Cents()
	if p.Outstanding.Unvalued > 0 {
		text += " and " + strconv.Itoa(p.Outstanding.Unvalued) + " without a price"
	}
	return text
}

func limitText(p swap.ProviderState) string {
	if p.OutstandingUSDMax == nil {
		return "none"
	}
	return p.OutstandingUSDMax.Cents()
}

// providerPage shows one provider, and suspends or resumes it.
func (c *console) providerPage() pages.Page {
	change := func(
		name string, isSuspended bool,
		run func(s *swap.Service, ctx context.Context, provider, reason string, author audit.Actor) error,
	) pages.Act {
		return pages.Act{
			Name: name, Action: identity.ManageSwapProviders, StepUp: pages.SudoStepUp,
			Fields: []pages.Field{{Name: "reason", BytesMax: providerReasonBytesMax, Missing: "Enter why."}},
			FindDone: func(r *pages.Request) (string, error) {
				p, err := c.loadProviderOf(r)
				if err != nil || p.IsSuspended != isSuspended {
					return "", err
				}
				return r.Path("swap-providers", p.Name), nil
			},
			Run: func(r *pages.Request) (string, error) {
				provider := r.PathParam("provider")
				return r.Path("swap-providers", provider),
					run(c.conf.Swaps, r.Context(), provider, r.Values["reason"], actor(r))
			},
		}
	}
	return pages.Page{
		Path: "/swap-providers/{provider}", Title: "Swap provider", Action: identity.ReadInstallation,
		Live: []string{"SWAP_PROVIDER"}, Load: c.loadProvider,
		Acts: []pages.Act{
			change("suspend", true, (*swap.Service).SuspendProvider),
			change("resume", false, (*swap.Service).ResumeProvider),
		},
	}
}

// loadProviderOf returns the provider of the path. Error: fault NOT_FOUND.
func (c *console) loadProviderOf(r *pages.Request) (swap.ProviderState, error) {
	found, err := c.conf.Swaps.ListProviders(r.Context())
	if err != nil {
		return swap.ProviderState{}, err
	}
	for _, p := range found {
		if p.Name == r.PathParam("provider") {
			return p, nil
		}
	}
	return swap.ProviderState{}, fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten,
		"There is no swap provider of this name.")
}

// providerView is what the page of a provider shows.
type providerView struct {
	Name       string
	Chip       ui.Chip
	Facts      []ui.Fact
	ClaimsPath string
	Act        *actView
	WhyNot     string
	Form       ui.Form
}

func (c *console) loadProvider(r *pages.Request) (templ.Component, error) {
	p, err := c.loadProviderOf(r)
	if err != nil {
		return nil, err
	}
	view := providerView{
		Name: p.Name, Chip: providerChip(p), Form: r.Form,
		ClaimsPath: r.Path("swaps") + "?" + url.Values{claimsFilter.Name: {"true"}, "provider": {p.Name}}.Encode(),
		Facts: []ui.Fact{
			{Name: "Swaps with it", Value: ui.Text(strconv.Itoa(p.OpenSwaps))},
			{Name: "Oldest payment", Value: whenOrNothing(r, p.OldestAt, "none")},
			{Name: "Dollars with it, or about to be paid", Value: ui.Text(outstandingText(p))},
			{Name: "Limit in dollars", Value: ui.Text(limitText(p))},
			{Name: "Not asked by this process since", Value: whenOrNothing(r, p.BrokenSince, "it is asked")},
			{Name: "Suspended or resumed", Value: whenOrNothing(r, p.ChangedAt, "never")},
		},
	}
	if p.ChangedAt != nil {
		view.Facts = append(view.Facts,
			ui.Fact{Name: "By", Value: ui.Foreign(p.ChangedBy)},
			ui.Fact{Name: "Because", Value: foreignOrNothing(p.Reason, "no reason")},
		)
	}
	view.addAct(r, p)
	return providerOverview(view), nil
}

func (v *providerView) addAct(r *pages.Request, p swap.ProviderState) {
	if !r.IsAllowed(identity.ManageSwapProviders) {
		v.WhyNot = "Your role shows this provider and does not suspend or resume it."
		return
	}
	act := actView{
		Path: r.Path("swap-providers", p.Name), Act: "suspend", Form: r.Form, Button: "Suspend this provider",
		IsDanger: true,
		Text:     "It gets no new swaps until a person resumes it. Its open swaps go on.",
	}
	if p.IsSuspended {
		act.Act, act.Button, act.IsDanger, act.IsPrimary = "resume", "Resume this provider", false, true
		act.Text = "It gets new swaps again. Read the reason of its suspension first: what it signs has to verify."
	}
	act.Inputs = []ui.Input{{
		Act: act.Act, Name: "reason", Label: "Why", Type: "text", MaxLength: 500, Autocomplete: "off",
		Hint: "The next operator reads it.",
	}}
	v.Act = &act
}
