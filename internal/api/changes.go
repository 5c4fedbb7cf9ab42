package api

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/changerequest"
	"github.com/cofferpay/coffer/internal/identity/operator"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/webhook"
)

// anyValue is the value of a setting: text, number, list, flag or null.
type anyValue struct{ json.RawMessage }

// ChangedValue is one value that a change request changes.
type ChangedValue struct {
	Setting string   `json:"setting"`
	From    anyValue `json:"from"`
	To      anyValue `json:"to"`
}

// ActingOperator is the operator who requested or decided a change.
type ActingOperator struct {
	ID   string  `json:"id"`
	Name *string `json:"name"`
}

// ChangeRequest is a change that needs, or had, the approval of a second operator.
type ChangeRequest struct {
	ChangeRequestID string          `json:"changeRequestId"`
	OrganizationID  string          `json:"organizationId"`
	Kind            string          `json:"kind"`
	Status          string          `json:"status"`
	Changes         []ChangedValue  `json:"changes"`
	RequestedBy     ActingOperator  `json:"requestedBy"`
	CreatedAt       webhook.Time    `json:"createdAt"`
	ExpiresAt       webhook.Time    `json:"expiresAt"`
	DecidedBy       *ActingOperator `json:"decidedBy"`
	DecidedAt       *webhook.Time   `json:"decidedAt"`
}

func showChange(r changerequest.Request) ChangeRequest {
	shown := ChangeRequest{
		ChangeRequestID: r.ID, OrganizationID: r.OrgID, Kind: string(r.Kind), Status: string(r.Status),
		Changes:     []ChangedValue{},
		RequestedBy: ActingOperator{r.AuthorKey, optionalText(r.Author)}, CreatedAt: webhook.At(r.CreatedAt),
		ExpiresAt: webhook.At(r.ExpiresAt), DecidedAt: webhook.AtOrNil(r.DecidedAt),
	}
	for _, name := range r.ChangedNames() {
		shown.Changes = append(shown.Changes,
			ChangedValue{name, valueOrNull(r.Before[name]), valueOrNull(r.Wanted[name])})
	}
	if r.DecidedByKey != "" {
		shown.DecidedBy = &ActingOperator{r.DecidedByKey, optionalText(r.DecidedBy)}
	}
	return shown
}

func valueOrNull(v json.RawMessage) anyValue {
	if v == nil {
		return anyValue{json.RawMessage("null")}
	}
	return anyValue{v}
}

// SettingChange is a completed change of a setting.
type SettingChange struct {
	Setting         string       `json:"setting"`
	From            anyValue     `json:"from"`
	To              anyValue     `json:"to"`
	ChangedBy       Changer      `json:"changedBy"`
	ChangedAt       webhook.Time `json:"changedAt"`
	ChangeRequestID *string      `json:"changeRequestId"`
}

// Changer is the author of a change.
type Changer struct {
	Type string  `json:"type"`
	ID   string  `json:"id"`
	Name *string `json:"name"`
}

var changerTypes = []string{"API_KEY", "USER", "OPERATOR", "SYSTEM"}

func (a *api) settingsHistory(c *call) (answer, error) {
	const list = "history of settings"
	name, err := c.organizationID()
	if err != nil {
		return answer{}, err
	}
	p, err := a.readPage(c, list+" of "+name)
	if err != nil {
		return answer{}, err
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
		return answer{}, err
	}
	return answer{
		status: http.StatusOK,
		body: newPage(a, c, list+" of "+name, found, func(h org.HistoryRow) SettingChange {
			return SettingChange{
				h.Setting, valueOrNull(h.From), valueOrNull(h.To),
				Changer{h.Actor.Kind, h.Actor.ID, optionalText(holders[h.Actor.ID])},
				webhook.At(h.ChangedAt),
				optionalText(h.ChangeRequest),
			}
		}),
	}, nil
}

func (a *api) listChanges(c *call) (answer, error) {
	const list = "change requests"
	p, err := a.readPage(c, list)
	if err != nil {
		return answer{}, err
	}
	var found pagination.Result[changerequest.Request]
	err = a.conf.DB.ReadSystem(c.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = changerequest.List(ctx, tx, changerequest.Filter{
			OrgID: c.query["organizationId"], Status: changerequest.Status(c.query["status"]),
			CreatedAfter:  timeOrZero(c.query.timeValue("createdAfter")),
			CreatedBefore: timeOrZero(c.query.timeValue("createdBefore")),
		}, p)
		return err
	})
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, body: newPage(a, c, list, found, showChange)}, nil
}

// runChangeVerb runs a verb on the change request that the path names.
func (a *api) runChangeVerb(
	c *call, verb func(ctx context.Context, tx pg.Tx, name string) (changerequest.Request, error),
) (answer, error) {
	name := c.pathParam("changeRequestId")
	if !id.IsValid("chg", name) {
		return answer{}, fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten,
			"This change request does not exist.").
			WithStep(fault.ListChangeRequests)
	}
	var r changerequest.Request
	err := a.conf.DB.InSystem(c.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		r, err = verb(ctx, tx, name)
		return err
	})
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, body: showChange(r)}, nil
}

func (a *api) getChange(c *call) (answer, error) { return a.runChangeVerb(c, changerequest.ByID) }

func (a *api) approveChange(c *call) (answer, error) {
	var approved changerequest.Request
	result, err := a.runChangeVerb(c, func(ctx context.Context, tx pg.Tx, name string) (changerequest.Request, error) {
		var err error
		approved, err = changerequest.Approve(ctx, tx, c.operator, name,
			map[changerequest.Kind]func(context.Context, pg.Tx, changerequest.Request) error{
				changerequest.Settings:           org.ApplyApproved(c.operator),
				changerequest.WhitelistedAddress: a.whitelist.ApplyApproved(c.operator),
			})
		return approved, err
	})
	if err == nil {
		a.endorseApproved(c.Context(), approved)
	}
	return result, err
}

func (a *api) retractChange(c *call) (answer, error) {
	return a.runChangeVerb(c, func(ctx context.Context, tx pg.Tx, name string) (changerequest.Request, error) {
		return changerequest.Retract(ctx, tx, c.operator, name)
	})
}
