package operatorapi

import (
	"context"
	"encoding/json"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/resource"
	"github.com/cofferpay/coffer/internal/identity/changerequest"
	"github.com/cofferpay/coffer/internal/identity/operator"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/webhook"
)

// ChangedValue is one value that a change request changes.
type ChangedValue struct {
	Setting string          `json:"setting"`
	From    kernel.AnyValue `json:"from" doc:"The old value, in the form in which it is set."`
	To      kernel.AnyValue `json:"to" doc:"The new value, in the form in which it is set."`
}

// ActingOperator is the operator who requested or decided a change.
type ActingOperator struct {
	ID   string  `json:"id" doc:"The key (opk_…), or the operator who signed in to the console (opr_…)." example:"opk_01J9ZW3M8Q4S5T6V7W8X9YZABC"`
	Name *string `json:"name" doc:"The holder of the key, who is the same after a roll, or the person who signed in."`
}

// ChangeRequest is a change that needs, or had, the approval of a second operator.
type ChangeRequest struct {
	ChangeRequestID string          `json:"changeRequestId"`
	OrganizationID  string          `json:"organizationId" doc:"The organization whose control changes; empty for one of the installation."`
	Kind            string          `json:"kind" doc:"The subject of the change."`
	Status          string          `json:"status" doc:"PENDING: it waits for another operator. EXPIRED: it was not approved in time."`
	Changes         []ChangedValue  `json:"changes" doc:"The changes."`
	RequestedBy     ActingOperator  `json:"requestedBy" doc:"The operator who requested it."`
	CreatedAt       webhook.Time    `json:"createdAt"`
	ExpiresAt       webhook.Time    `json:"expiresAt" doc:"The deadline of the approval."`
	DecidedBy       *ActingOperator `json:"decidedBy" doc:"The operator who approved or withdrew it; null while it waits, and after it expired."`
	DecidedAt       *webhook.Time   `json:"decidedAt" doc:"When it ended; null while it waits."`
}

func showChange(r changerequest.Request) ChangeRequest {
	shown := ChangeRequest{
		ChangeRequestID: r.ID, OrganizationID: r.OrgID, Kind: string(r.Kind), Status: string(r.Status),
		Changes:     []ChangedValue{},
		RequestedBy: ActingOperator{r.AuthorKey, resource.OptionalText(r.Author)}, CreatedAt: webhook.At(r.CreatedAt),
		ExpiresAt: webhook.At(r.ExpiresAt), DecidedAt: webhook.AtOrNil(r.DecidedAt),
	}
	for _, name := range r.ChangedNames() {
		shown.Changes = append(shown.Changes,
			ChangedValue{name, valueOrNull(r.Before[name]), valueOrNull(r.Wanted[name])})
	}
	if r.DecidedByKey != "" {
		shown.DecidedBy = &ActingOperator{r.DecidedByKey, resource.OptionalText(r.DecidedBy)}
	}
	return shown
}

func valueOrNull(v json.RawMessage) kernel.AnyValue {
	if v == nil {
		return kernel.AnyValue{RawMessage: json.RawMessage("null")}
	}
	return kernel.AnyValue{RawMessage: v}
}

// SettingChange is a completed change of a setting.
type SettingChange struct {
	Setting         string          `json:"setting"`
	From            kernel.AnyValue `json:"from" doc:"The old value, in the form in which it is set."`
	To              kernel.AnyValue `json:"to" doc:"The new value, in the form in which it is set."`
	ChangedBy       Changer         `json:"changedBy" doc:"Who changed it."`
	ChangedAt       webhook.Time    `json:"changedAt" doc:"When."`
	ChangeRequestID *string         `json:"changeRequestId"`
}

// Changer is the author of a change.
type Changer struct {
	Type string  `json:"type"`
	ID   string  `json:"id" doc:"The id of the actor: an additional key, the organization for the main key, a person, an operator's key (opk_…) or an operator who signed in (opr_…), or a part of the program."`
	Name *string `json:"name" doc:"The holder of an operator's key; null for every other actor."`
}

var changerTypes = []string{"API_KEY", "USER", "OPERATOR", "SYSTEM"}

func (a *api) settingsHistory(c *call) (kernel.Page[SettingChange], error) {
	const list = "history of settings"
	name, err := organizationID(c)
	if err != nil {
		return kernel.Page[SettingChange]{}, err
	}
	p, err := c.ReadPage(list + " of " + name)
	if err != nil {
		return kernel.Page[SettingChange]{}, err
	}
	var found pagination.Result[org.HistoryRow]
	holders := map[string]string{}
	err = a.conf.DB.ReadSystem(c.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		if found, err = org.SettingsHistory(ctx, tx, name, p); err != nil {
			return err
		}
		keys, err := operator.ListKeys(ctx, tx)
		for _, k := range keys {
			holders[k.ID] = k.Name
		}
		return err
	})
	if err != nil {
		return kernel.Page[SettingChange]{}, err
	}
	return kernel.NewPage(c.Request, list+" of "+name, found, func(h org.HistoryRow) SettingChange {
		return SettingChange{
			h.Setting, valueOrNull(h.From), valueOrNull(h.To),
			Changer{h.Actor.Kind, h.Actor.ID, resource.OptionalText(holders[h.Actor.ID])},
			webhook.At(h.ChangedAt),
			resource.OptionalText(h.ChangeRequest),
		}
	}), nil
}

func (a *api) listChanges(c *call) (kernel.Page[ChangeRequest], error) {
	const list = "change requests"
	p, err := c.ReadPage(list)
	if err != nil {
		return kernel.Page[ChangeRequest]{}, err
	}
	var found pagination.Result[changerequest.Request]
	err = a.conf.DB.ReadSystem(c.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = changerequest.List(ctx, tx, changerequest.Filter{
			OrgID: c.Query["organizationId"], Status: changerequest.Status(c.Query["status"]),
			CreatedAfter:  c.Query.TimeOrZero("createdAfter"),
			CreatedBefore: c.Query.TimeOrZero("createdBefore"),
		}, p)
		return err
	})
	if err != nil {
		return kernel.Page[ChangeRequest]{}, err
	}
	return kernel.NewPage(c.Request, list, found, showChange), nil
}

// runChangeVerb runs a verb on the change request that the path names.
func (a *api) runChangeVerb(
	c *call, verb func(ctx context.Context, tx pg.Tx, name string) (changerequest.Request, error),
) (ChangeRequest, error) {
	name := c.PathParam("changeRequestId")
	if !id.IsValid("chg", name) {
		return ChangeRequest{}, fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten,
			"This change request does not exist.").
			WithStep(fault.ListChangeRequests)
	}
	var r changerequest.Request
	err := a.conf.DB.InSystem(c.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		r, err = verb(ctx, tx, name)
		return err
	})
	if err != nil {
		return ChangeRequest{}, err
	}
	return showChange(r), nil
}

func (a *api) getChange(c *call) (ChangeRequest, error) {
	return a.runChangeVerb(c, changerequest.ByID)
}

func (a *api) approveChange(c *call) (ChangeRequest, error) {
	var approved changerequest.Request
	result, err := a.runChangeVerb(c, func(ctx context.Context, tx pg.Tx, name string) (changerequest.Request, error) {
		var err error
		approved, err = changerequest.Approve(ctx, tx, c.Caller.Key, name,
			map[changerequest.Kind]func(context.Context, pg.Tx, changerequest.Request) error{
				changerequest.Settings:           org.ApplyApproved(c.Caller.Key),
				changerequest.WhitelistedAddress: a.conf.Whitelist.ApplyApproved(c.Caller.Key),
				changerequest.SwapWriteOff:       a.conf.Swaps.ApplyApproved(c.Caller.Key),
				changerequest.BillingTerms:       a.conf.Billing.ApplyApproved(c.Caller.Key),
			})
		return approved, err
	})
	if err == nil {
		a.endorseApproved(c.Context(), approved)
	}
	return result, err
}

func (a *api) retractChange(c *call) (ChangeRequest, error) {
	return a.runChangeVerb(c, func(ctx context.Context, tx pg.Tx, name string) (changerequest.Request, error) {
		return changerequest.Retract(ctx, tx, c.Caller.Key, name)
	})
}
