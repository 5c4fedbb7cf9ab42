package api

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/cofferpay/coffer/internal/control/whitelist"
	"github.com/cofferpay/coffer/internal/fault"
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
	Chain   string `json:"chain"`
	Address string `json:"address"`
	Label   string `json:"label"`
}

// WhitelistedAddress is an address to which an organization's own money may be paid out.
type WhitelistedAddress struct {
	WhitelistedAddressID *string       `json:"whitelistedAddressId"`
	OrganizationID       string        `json:"organizationId"`
	Chain                string        `json:"chain"`
	Address              string        `json:"address"`
	Label                string        `json:"label"`
	Status               string        `json:"status"`
	UsableFrom           *webhook.Time `json:"usableFrom"`
	RefusedBecause       *string       `json:"refusedBecause"`
	ChangeRequestID      *string       `json:"changeRequestId"`
	CreatedAt            webhook.Time  `json:"createdAt"`
	CreatedBy            string        `json:"createdBy"`
	RemovedAt            *webhook.Time `json:"removedAt"`
	RemovedBy            *string       `json:"removedBy"`
}

// awaitingApproval is the status of an address that needs the approval of a second operator.
const awaitingApproval = "AWAITING_APPROVAL"

var whitelistStatuses = append([]string{awaitingApproval}, whitelist.Statuses...)

func showWhitelisted(address whitelist.Entry, current time.Time) WhitelistedAddress {
	return WhitelistedAddress{
		WhitelistedAddressID: &address.ID, OrganizationID: address.OrgID, Chain: string(address.Chain),
		Address: string(address.Address), Label: address.Label,
		Status: string(address.Status(current)), UsableFrom: pointerTo(webhook.At(address.UsableFrom)),
		RefusedBecause: optionalText(address.Refusal), ChangeRequestID: optionalText(address.ChangeID),
		CreatedAt: webhook.At(address.CreatedAt), CreatedBy: address.CreatedBy,
		RemovedAt: webhook.AtOrNil(address.RemovedAt), RemovedBy: optionalText(address.RemovedBy),
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
	if err := a.whitelist.FinishEntry(ctx, name); err != nil {
		a.log.LogAttrs(ctx, slog.LevelWarn, "cannot ask the signer about a whitelist entry; a later cycle asks again",
			slog.String("whitelisted", name), slog.Any("err", err))
	}
}

// loadWhitelisted reads an address for an answer.
func (a *api) loadWhitelisted(c *call, orgID, name string) (shown WhitelistedAddress, err error) {
	err = a.conf.DB.ReadSystem(c.Context(), func(ctx context.Context, tx pg.Tx) error {
		found, err := a.whitelist.ByID(ctx, tx, orgID, name)
		shown = showWhitelisted(found, tx.Now)
		return err
	})
	return shown, err
}

func (a *api) addWhitelisted(c *call) (answer, error) {
	name, err := c.organizationID()
	if err != nil {
		return answer{}, err
	}
	var body WhitelistedAddressRequest
	if err := decodeBody(c.body, &body); err != nil {
		return answer{}, err
	}
	wanted := whitelist.EntryRequest(body)
	var outcome whitelist.Outcome
	err = a.conf.DB.InSystem(c.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		outcome, err = a.whitelist.RequestEntry(ctx, tx, c.operator, a.fourEyes, name, wanted)
		return err
	})
	if err != nil {
		return answer{}, err
	}
	if outcome.PendingChange != nil {
		return answer{status: http.StatusCreated, body: showPending(outcome.Request, *outcome.PendingChange)}, nil
	}
	a.requestEndorsement(c.Context(), outcome.Entry.ID)
	shown, err := a.loadWhitelisted(c, name, outcome.Entry.ID)
	return answer{status: http.StatusCreated, body: shown}, err
}

func (a *api) listWhitelisted(c *call) (answer, error) {
	const list = "whitelisted addresses"
	name, err := c.organizationID()
	if err != nil {
		return answer{}, err
	}
	p, err := a.readPage(c, list+" of "+name)
	if err != nil {
		return answer{}, err
	}
	var found pagination.Result[whitelist.Entry]
	var current time.Time
	err = a.conf.DB.ReadSystem(c.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		current = tx.Now
		if _, err := org.ByID(ctx, tx, name); err != nil {
			return err
		}
		found, err = a.whitelist.List(ctx, tx, name, p)
		return err
	})
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, body: newPage(
		a, c, list+" of "+name, found,
		func(address whitelist.Entry) WhitelistedAddress { return showWhitelisted(address, current) },
	)}, nil
}

func (a *api) removeWhitelisted(c *call) (answer, error) {
	name, err := c.organizationID()
	if err != nil {
		return answer{}, err
	}
	addressID := c.pathParam("whitelistedAddressId")
	err = a.conf.DB.InSystem(c.Context(), func(ctx context.Context, tx pg.Tx) error {
		_, err := a.whitelist.Remove(ctx, tx, c.operator, name, addressID)
		return err
	})
	if err != nil {
		return answer{}, err
	}
	a.requestEndorsement(c.Context(), addressID)
	shown, err := a.loadWhitelisted(c, name, addressID)
	return answer{status: http.StatusOK, body: shown}, err
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

var whitelistRoutes = []route{
	{
		method: http.MethodPost, path: "/organizations/{organizationId}/whitelisted-addresses",
		name: "addWhitelistedAddress", action: identity.AddWhitelistEntry, group: "Whitelist",
		summary: "Add an address to an organization's whitelist",
		text: "Adds an address that the organization may pay its own money to. The entry is COOLING_OFF until " +
			"usableFrom; the signer endorses it and does not pay it earlier. An address that a withdrawal could not " +
			"pay is refused. If the installation requires four eyes, the answer is AWAITING_APPROVAL without an id: " +
			"nothing is added until another operator approves changeRequestId, and the cooling-off starts then. If " +
			"the answer is lost, call again: an address that has an entry is refused with 409 INVALID_STATE, and " +
			"details has its id.",
		body: WhitelistedAddressRequest{},
		answers: []success{{
			http.StatusCreated, "The entry, or the change request that waits for a second operator.",
			WhitelistedAddress{},
			exampleWhitelisted, nil,
		}},
		faults: []fault.Code{
			fault.CodeNotFound, fault.InvalidAddress, fault.DestinationNotAllowed, fault.InvalidState,
			fault.ApprovalRefused,
		},
		handle: (*api).addWhitelisted,
	},
	{
		method: http.MethodGet, path: "/organizations/{organizationId}/whitelisted-addresses",
		name: "listWhitelistedAddresses", action: identity.ReadInstallation, group: "Whitelist",
		summary: "List an organization's whitelist",
		text: "Every entry, including removed ones. An entry is REFUSED when its row differs from what the signer " +
			"endorsed, or when the signer does not know it any more: look at the log at once.",
		query: []parameter{orderParameter, limitParameter, cursorParameter},
		answers: []success{
			{http.StatusOK, "A page of addresses.", Page[WhitelistedAddress]{}, examplePage(exampleWhitelisted), nil},
		},
		faults: []fault.Code{fault.CodeNotFound, fault.InvalidCursor},
		handle: (*api).listWhitelisted,
	},
	{
		method: http.MethodDelete, path: "/organizations/{organizationId}/whitelisted-addresses/{whitelistedAddressId}",
		name: "removeWhitelistedAddress", action: identity.RemoveWhitelistEntry, group: "Whitelist",
		summary: "Remove an address from an organization's whitelist",
		text: "From this answer on no withdrawal can choose the address, and the signer does not pay it, not even " +
			"for a withdrawal that was accepted before and is not signed yet. No second operator is needed. A " +
			"repeated call changes nothing. To use the address later, add it again.",
		answers: []success{{http.StatusOK, "The entry, now REMOVED.", WhitelistedAddress{}, exampleRemoved, nil}},
		faults:  []fault.Code{fault.CodeNotFound},
		handle:  (*api).removeWhitelisted,
	},
}

var (
	exampleWhitelisted = WhitelistedAddress{
		WhitelistedAddressID: pointerTo("wla_01J9ZW3M8Q4S5T6V7W8X9YZABC"), OrganizationID: exampleOrganizationID,
		Chain:   "ETHEREUM",
		Address: "0x71C7656EC7ab88b098defB751B7401B5f6d8976F", Label: "Treasury account at the exchange",
		Status: "COOLING_OFF", UsableFrom: &exampleAt,
		CreatedAt: exampleAt, CreatedBy: "opk_01J9ZW3M8Q4S5T6V7W8X9YZABC",
	}
	exampleRemoved = func() WhitelistedAddress {
		a := exampleWhitelisted
		a.Status, a.RemovedAt, a.RemovedBy = "REMOVED", &exampleAt, pointerTo("opk_01J9ZW3M8Q4S5T6V7W8X9YZABC")
		return a
	}()
)

// whitelistFieldDocs are the document's texts about the whitelist.
var whitelistFieldDocs = map[string]fieldDoc{
	"WhitelistedAddress.": {
		text: "A whitelist entry: an address that an organization may pay its own money to.",
	},
	"WhitelistedAddressPage.":    {text: "A page of whitelisted addresses."},
	"WhitelistedAddressRequest.": {text: "A whitelist entry to add."},
	"whitelistedAddressId":       {text: "The id of the entry: wla_…", example: "wla_01J9ZW3M8Q4S5T6V7W8X9YZABC"},
	"WhitelistedAddress.whitelistedAddressId": {
		text: "The address; null while it waits for a second operator.", example: "wla_01J9ZW3M8Q4S5T6V7W8X9YZABC",
	},
	"WhitelistedAddress.organizationId": {text: "The organization."},
	"WhitelistedAddress.chain":          {text: "The chain of the address.", enum: chainNames},
	"WhitelistedAddressRequest.chain": {
		text: "The chain of the address. It has to run here.", enum: chainNames,
	},
	"WhitelistedAddress.address": {
		text: "The address in the chain's canonical form.", example: "0x71C7656EC7ab88b098defB751B7401B5f6d8976F",
	},
	"WhitelistedAddressRequest.address": {
		text:   "The address. Compare it with its owner over another channel than the one by which you received it.",
		bounds: map[string]any{"minLength": 1, "maxLength": 128}, example: "0x71C7656EC7ab88b098defB751B7401B5f6d8976F",
	},
	"WhitelistedAddress.label": {text: "The owner of the address, for people."},
	"WhitelistedAddressRequest.label": {
		text:    "The owner of the address, for people: 1 to 100 printable characters.",
		bounds:  map[string]any{"minLength": 1, "maxLength": whitelist.LabelRunesMax},
		example: "Treasury account at the exchange",
	},
	"WhitelistedAddress.status": {
		text: "AWAITING_APPROVAL: another operator has to approve. WAITING: the signer has not endorsed it yet, and " +
			"the service asks again. COOLING_OFF: not usable before usableFrom. USABLE. REFUSED: see refusedBecause. " +
			"REMOVED.",
		enum: whitelistStatuses,
	},
	"usableFrom": {
		text: "From when it is usable; null while it waits for a second operator.",
	},
	"refusedBecause": {
		text: "Why the signer or this program refuses it; null where neither does.",
	},
	"WhitelistedAddress.createdAt": {
		text: "When it was added, or requested while it waits for a second operator.",
	},
	"WhitelistedAddress.createdBy": {text: "The operator's key that added or approved it."},
	"removedAt":                    {text: "When it was removed; null while it is on the whitelist."},
	"removedBy": {
		text: "The operator's key that removed it; null while it is on the whitelist.",
	},
}

var whitelistExamples = map[string]any{
	"addWhitelistedAddress": WhitelistedAddressRequest{
		Chain: "ETHEREUM", Address: "0x71C7656EC7ab88b098defB751B7401B5f6d8976F",
		Label: "Treasury account at the exchange",
	},
}
