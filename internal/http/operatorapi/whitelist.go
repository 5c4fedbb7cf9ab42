package operatorapi

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/cofferpay/coffer/internal/control/whitelist"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/resource"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/changerequest"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/webhook"
)

// signerTimeout is how long a call waits for the signer after its change is committed.
const signerTimeout = 5 * time.Second

// WhitelistedAddressRequest is the body of POST
// /organizations/{organizationId}/whitelisted-addresses.
type WhitelistedAddressRequest struct {
	Chain   string `json:"chain" doc:"The chain of the address. It has to run here."`
	Address string `json:"address" doc:"The address. Compare it with its owner over another channel than the one by which you received it." bounds:"minLength=1,maxLength=128" example:"0x71C7656EC7ab88b098defB751B7401B5f6d8976F"`
	Label   string `json:"label" doc:"The owner of the address, for people: 1 to 100 printable characters." example:"Treasury account at the exchange"`
}

// WhitelistedAddress is an address to which an organization's own money may be paid out.
type WhitelistedAddress struct {
	WhitelistedAddressID *string       `json:"whitelistedAddressId" doc:"The address; null while it waits for a second operator." example:"wla_01J9ZW3M8Q4S5T6V7W8X9YZABC"`
	OrganizationID       string        `json:"organizationId" doc:"The organization."`
	Chain                string        `json:"chain" doc:"The chain of the address."`
	Address              string        `json:"address" doc:"The address in the chain's canonical form." example:"0x71C7656EC7ab88b098defB751B7401B5f6d8976F"`
	Label                string        `json:"label" doc:"The owner of the address, for people."`
	Status               string        `json:"status" doc:"AWAITING_APPROVAL: another operator has to approve. WAITING: operators have to sign it in the console, or the signer has not answered and is asked again. COOLING_OFF: not usable before usableFrom. USABLE. REFUSED: see refusedBecause. REMOVED."`
	UsableFrom           *webhook.Time `json:"usableFrom" doc:"From when it is usable; null while it waits for a second operator."`
	RefusedBecause       *string       `json:"refusedBecause" doc:"Why the signer or this program refuses it; null where neither does."`
	ChangeRequestID      *string       `json:"changeRequestId"`
	CreatedAt            webhook.Time  `json:"createdAt" doc:"When it was added, or requested while it waits for a second operator."`
	CreatedBy            string        `json:"createdBy" doc:"The operator's key (opk_…) or the operator who signed in (opr_…), whichever added or approved it."`
	RemovedAt            *webhook.Time `json:"removedAt" doc:"When it was removed; null while it is on the whitelist."`
	RemovedBy            *string       `json:"removedBy" doc:"The operator's key (opk_…) or the operator who signed in (opr_…), whichever removed it; null while it is on the whitelist."`
}

// awaitingApproval is the status of an address that needs the approval of a second operator.
const awaitingApproval = "AWAITING_APPROVAL"

var whitelistStatuses = append([]string{awaitingApproval}, whitelist.Statuses...)

func showWhitelisted(address whitelist.Entry, current time.Time) WhitelistedAddress {
	return WhitelistedAddress{
		WhitelistedAddressID: &address.ID, OrganizationID: address.OrgID, Chain: string(address.Chain),
		Address: string(address.Address), Label: address.Label,
		Status: string(address.Status(current)), UsableFrom: new(webhook.At(address.UsableFrom)),
		RefusedBecause:  resource.OptionalText(address.Refusal),
		ChangeRequestID: resource.OptionalText(address.ChangeID),
		CreatedAt:       webhook.At(address.CreatedAt), CreatedBy: address.CreatedBy,
		RemovedAt: webhook.AtOrNil(address.RemovedAt), RemovedBy: resource.OptionalText(address.RemovedBy),
	}
}

// showPending shows an address that waits for a second operator.
func showPending(w whitelist.EntryRequest, r changerequest.Request) WhitelistedAddress {
	return WhitelistedAddress{
		OrganizationID: r.OrgID, Chain: w.Chain, Address: w.Address, Label: w.Label, Status: awaitingApproval,
		ChangeRequestID: &r.ID, CreatedAt: webhook.At(r.CreatedAt), CreatedBy: r.AuthorKey,
	}
}

// requestEndorsement asks the signer to endorse an address whose row was committed. A failure is
// retried later in the background, so it does not fail the call.
func (a *api) requestEndorsement(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), signerTimeout)
	defer cancel()
	if err := a.conf.Whitelist.FinishEntry(ctx, name); err != nil {
		a.log.LogAttrs(ctx, slog.LevelWarn, "cannot ask the signer about a whitelist entry; a later cycle asks again",
			slog.String("whitelisted", name), slog.Any("err", err))
	}
}

// loadWhitelisted reads an address for an answer.
func (a *api) loadWhitelisted(c *call, orgID, name string) (shown WhitelistedAddress, err error) {
	err = a.conf.DB.ReadSystem(c.Context(), func(ctx context.Context, tx pg.Tx) error {
		found, err := a.conf.Whitelist.ByID(ctx, tx, orgID, name)
		shown = showWhitelisted(found, tx.Now)
		return err
	})
	return shown, err
}

func (a *api) addWhitelisted(c *call, body WhitelistedAddressRequest) (WhitelistedAddress, error) {
	name, err := organizationID(c)
	if err != nil {
		return WhitelistedAddress{}, err
	}

	wanted := whitelist.EntryRequest(body)
	var outcome whitelist.Outcome
	err = a.conf.DB.InSystem(c.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		outcome, err = a.conf.Whitelist.RequestEntry(ctx, tx, c.Caller.Key, a.conf.FourEyes, name, wanted)
		return err
	})
	if err != nil {
		return WhitelistedAddress{}, err
	}
	if outcome.PendingChange != nil {
		return showPending(outcome.Request, *outcome.PendingChange), nil
	}
	a.requestEndorsement(c.Context(), outcome.Entry.ID)
	shown, err := a.loadWhitelisted(c, name, outcome.Entry.ID)
	return shown, err
}

func (a *api) listWhitelisted(c *call) (kernel.Page[WhitelistedAddress], error) {
	const list = "whitelisted addresses"
	name, err := organizationID(c)
	if err != nil {
		return kernel.Page[WhitelistedAddress]{}, err
	}
	p, err := c.ReadPage(list + " of " + name)
	if err != nil {
		return kernel.Page[WhitelistedAddress]{}, err
	}
	var found pagination.Result[whitelist.Entry]
	var current time.Time
	err = a.conf.DB.ReadSystem(c.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		current = tx.Now
		if _, err := org.ByID(ctx, tx, name); err != nil {
			return err
		}
		found, err = a.conf.Whitelist.List(ctx, tx, name, p)
		return err
	})
	if err != nil {
		return kernel.Page[WhitelistedAddress]{}, err
	}
	return kernel.NewPage(c.Request, list+" of "+name, found,
		func(address whitelist.Entry) WhitelistedAddress { return showWhitelisted(address, current) },
	), nil
}

func (a *api) removeWhitelisted(c *call) (WhitelistedAddress, error) {
	name, err := organizationID(c)
	if err != nil {
		return WhitelistedAddress{}, err
	}
	addressID := c.PathParam("whitelistedAddressId")
	err = a.conf.DB.InSystem(c.Context(), func(ctx context.Context, tx pg.Tx) error {
		_, err := a.conf.Whitelist.Remove(ctx, tx, c.Caller.Key, name, addressID)
		return err
	})
	if err != nil {
		return WhitelistedAddress{}, err
	}
	a.requestEndorsement(c.Context(), addressID)
	shown, err := a.loadWhitelisted(c, name, addressID)
	return shown, err
}

// endorseApproved asks the signer to endorse the address that a change request added.
func (a *api) endorseApproved(ctx context.Context, r changerequest.Request) {
	if r.Kind != changerequest.WhitelistedAddress {
		return
	}
	var name string
	err := a.conf.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		name, err = whitelist.EntryOfChange(ctx, tx, r.ID)
		return err
	})
	if err != nil {
		a.log.LogAttrs(ctx, slog.LevelWarn, "cannot find the whitelist entry of a change request; a later cycle asks "+
			"the signer",
			slog.String("change", r.ID), slog.Any("err", err))
		return
	}
	a.requestEndorsement(ctx, name)
}

func (a *api) whitelistRoutes() []kernel.Route {
	return []kernel.Route{
		{
			Method: http.MethodPost, Path: "/organizations/{organizationId}/whitelisted-addresses",
			Name: "addWhitelistedAddress", Action: identity.AddWhitelistEntry, Group: "Whitelist",
			Summary: "Add an address to an organization's whitelist",
			Text: "Adds an address that the organization may pay its own money to. The entry is COOLING_OFF until " +
				"usableFrom; the signer endorses it and does not pay it earlier. An address that a withdrawal could " +
				"not " +
				"pay is refused. If the installation requires four eyes, the answer is AWAITING_APPROVAL without an " +
				"id: " +
				"nothing is added until another operator approves changeRequestId, and the cooling-off starts then. " +
				"If " +
				"the answer is lost, call again: an address that has an entry is refused with 409 INVALID_STATE, and " +
				"details has its id. Where the operators have a rule, the entry is WAITING until enough of them have " +
				"signed it in the console, before the signatures end.",
			Answers: []kernel.Success{{Status: http.StatusCreated, Text: "The entry, or the change request that " +
				"waits for a second operator."}},
			Faults: []fault.Code{
				fault.CodeNotFound, fault.InvalidAddress, fault.DestinationNotAllowed, fault.InvalidState,
				fault.ApprovalRefused,
			},
			Before: kernel.Check(requireOrganization),
			Handler: kernel.HandleBody(a.addWhitelisted,
				WhitelistedAddressRequest{
					Chain: "ETHEREUM", Address: "0x71C7656EC7ab88b098defB751B7401B5f6d8976F",
					Label: "Treasury account at the exchange",
				},
				exampleWhitelisted,
			),
		},
		{
			Method: http.MethodGet, Path: "/organizations/{organizationId}/whitelisted-addresses",
			Name: "listWhitelistedAddresses", Action: identity.ReadInstallation, Group: "Whitelist",
			Summary: "List an organization's whitelist",
			Text: "Every entry, including removed ones. An entry is REFUSED when its row differs from what the " +
				"signer " +
				"endorsed, or when the signer does not know it any more: look at the log at once.",
			Query:   []kernel.Parameter{kernel.OrderParameter, kernel.LimitParameter, kernel.CursorParameter},
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "A page of addresses."}},
			Faults:  []fault.Code{fault.CodeNotFound, fault.InvalidCursor},
			Handler: kernel.Handle(a.listWhitelisted, kernel.ExamplePage(exampleWhitelisted)),
		},
		{
			Method: http.MethodDelete,
			Path:   "/organizations/{organizationId}/whitelisted-addresses/{whitelistedAddressId}",
			Name:   "removeWhitelistedAddress", Action: identity.RemoveWhitelistEntry, Group: "Whitelist",
			Summary: "Remove an address from an organization's whitelist",
			Text: "From this answer on no withdrawal can choose the address, and the signer does not pay it, not " +
				"even " +
				"for a withdrawal that was accepted before and is not signed yet. No second operator is needed. A " +
				"repeated call changes nothing. To use the address later, add it again.",
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "The entry, now REMOVED."}},
			Faults:  []fault.Code{fault.CodeNotFound},
			Handler: kernel.Handle(a.removeWhitelisted, exampleRemoved),
		},
	}
}

var (
	exampleWhitelisted = WhitelistedAddress{
		WhitelistedAddressID: new("wla_01J9ZW3M8Q4S5T6V7W8X9YZABC"), OrganizationID: resource.ExampleOrganizationID,
		Chain:   "ETHEREUM",
		Address: "0x71C7656EC7ab88b098defB751B7401B5f6d8976F", Label: "Treasury account at the exchange",
		Status: "COOLING_OFF", UsableFrom: &resource.ExampleAt,
		CreatedAt: resource.ExampleAt, CreatedBy: "opk_01J9ZW3M8Q4S5T6V7W8X9YZABC",
	}
	exampleRemoved = func() WhitelistedAddress {
		a := exampleWhitelisted
		a.Status, a.RemovedAt, a.RemovedBy = "REMOVED", &resource.ExampleAt, new("opk_01J9ZW3M8Q4S5T6V7W8X9YZABC")
		return a
	}()
)
