package api

import (
	"context"
	"net/http"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/resource"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/apikey"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// ScopedKeyRequest is the body of POST /api-keys.
type ScopedKeyRequest struct {
	Name      string  `json:"name" doc:"For people: which program uses the key. 1 to 200 bytes without control characters or space around it." bounds:"minLength=1,maxLength=200" example:"reporting"`
	Scope     string  `json:"scope" doc:"What the key may do. Give each program only the scope that it needs."`
	ExpiresAt *string `json:"expiresAt,omitempty" doc:"When the key expires; null or left out: never." format:"date-time"`
}

// KeyRoll is the optional body of POST /api-keys/{apiKeyId}/roll.
type KeyRoll struct {
	OverlapSeconds int `json:"overlapSeconds,omitempty" doc:"How long the former value works. 0, the default, ends it at once, together with every earlier value. While an earlier value still works, only 0 is allowed."`
}

// ScopedKeyWithValue is a key that was created or rolled. Its value is shown only here.
type ScopedKeyWithValue struct {
	resource.ScopedKey
	APIKey string `json:"apiKey" doc:"The value, for the header x-api-key. The service does not show it again."`
}

func (a *api) listKeys(c *call) (kernel.Page[resource.ScopedKey], error) {
	const list = "API keys"
	p, err := c.ReadPage(list)
	if err != nil {
		return kernel.Page[resource.ScopedKey]{}, err
	}
	var found pagination.Result[apikey.Key]
	err = a.conf.DB.ReadOrg(c.Context(), c.Caller.OrgID, func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = apikey.List(ctx, tx, c.Caller.OrgID, p)
		return err
	})
	if err != nil {
		return kernel.Page[resource.ScopedKey]{}, err
	}
	return kernel.NewPage(c.Request, list, found, resource.ShowKey), nil
}

func (a *api) createKey(c *call, body ScopedKeyRequest) (ScopedKeyWithValue, error) {
	wanted := apikey.NewKey{Name: body.Name, Scope: identity.Scope(body.Scope)}
	if body.ExpiresAt != nil {
		expiresAt, err := readTime("expiresAt", *body.ExpiresAt)
		if err != nil {
			return ScopedKeyWithValue{}, err
		}
		wanted.ExpiresAt = &expiresAt
	}
	made, value, err := apikey.Create(c.Context(), a.conf.DB, c.Caller.Caller, wanted)
	if err != nil {
		return ScopedKeyWithValue{}, err
	}
	return ScopedKeyWithValue{resource.ShowKey(made), value.Reveal()}, nil
}

func (a *api) rollAPIKey(c *call, body KeyRoll) (ScopedKeyWithValue, error) {
	rolled, value,
		err := apikey.Roll(c.Context(), a.conf.DB, c.Caller.Caller, c.PathParam("apiKeyId"), body.OverlapSeconds)
	if err != nil {
		return ScopedKeyWithValue{}, err
	}
	if rolled.IsMain() && a.conf.KeyRolled != nil {
		a.conf.KeyRolled(c.Context(), c.Caller.OrgID, value)
	}
	return ScopedKeyWithValue{resource.ShowKey(rolled), value.Reveal()}, nil
}

func (a *api) deleteKey(c *call) error {
	if err := apikey.Delete(c.Context(), a.conf.DB, c.Caller.Caller, c.PathParam("apiKeyId")); err != nil {
		return err
	}
	return nil
}

// keyRoutes are an organization's calls for its own keys.
func (a *api) keyRoutes() []kernel.Route {
	return []kernel.Route{
		{
			Method: http.MethodGet, Path: "/api-keys", Name: "listApiKeys", Action: identity.ManageKeys,
			Group:   "API keys",
			Summary: "List API keys",
			Text:    "The main key and every additional key that is not deleted, without the values.",
			Query:   []kernel.Parameter{kernel.OrderParameter, kernel.LimitParameter, kernel.CursorParameter},
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "A page of keys."}},
			Faults:  []fault.Code{fault.InvalidCursor},
			Handler: kernel.Handle(a.listKeys, kernel.ExamplePage(resource.ExampleScopedKey)),
		},
		{
			Method: http.MethodPost, Path: "/api-keys", Name: "createApiKey", Action: identity.ManageKeys,
			Group:   "API keys",
			Summary: "Make an additional API key",
			Text: "Makes a key in addition to the main key. Only this answer shows its value. The call is available " +
				"once the operator of this service switches additionalApiKeys on for your organization. A READ key " +
				"reads; a NO_MONEY_OUT key also makes changes that send no money out; a FULL key makes every call " +
				"except " +
				"those about API keys. An organization can have 20 keys that have not expired. If the answer is " +
				"lost, " +
				"GET /api-keys shows the key: delete or roll it.",
			Answers: []kernel.Success{{Status: http.StatusCreated, Text: "The key."}},
			Faults:  []fault.Code{fault.FeatureDisabled, fault.InvalidState},
			Handler: kernel.HandleBody(a.createKey,
				ScopedKeyRequest{Name: "reporting", Scope: string(identity.ScopeRead)},
				exampleScopedKeyWithValue,
			),
		},
		{
			Method: http.MethodPost, Path: "/api-keys/{apiKeyId}/roll", Name: "rollApiKey", Action: identity.ManageKeys,
			Group:   "API keys",
			Summary: "Replace an API key",
			Text: "Makes a new value of the key. Only this answer shows it. Every request that starts after this " +
				"answer refuses the former value, unless overlapSeconds gives it more time. An overlap of the main " +
				"key " +
				"needs additionalApiKeys, and so does every roll of another key. Of two simultaneous rolls one " +
				"succeeds " +
				"and the other is refused with 409. If the answer is lost, roll again; with the main key you can do " +
				"that " +
				"with the former value during its overlap. Without an overlap, ask the operator of this service to " +
				"roll " +
				"the main key. The body may be left out.",
			Optional: true,
			Answers:  []kernel.Success{{Status: http.StatusCreated, Text: "The key with its new value."}},
			Faults:   []fault.Code{fault.CodeNotFound, fault.FeatureDisabled, fault.InvalidState},
			Handler: kernel.HandleBody(a.rollAPIKey,
				KeyRoll{OverlapSeconds: 3600},
				exampleScopedKeyWithValue,
			),
		},
		{
			Method: http.MethodDelete, Path: "/api-keys/{apiKeyId}", Name: "deleteApiKey", Action: identity.ManageKeys,
			Group:   "API keys",
			Summary: "Delete an additional API key",
			Text: "Every request that starts after this answer refuses each value of the key. The main key cannot be " +
				"deleted: 409.",
			Answers: []kernel.Success{{Status: http.StatusNoContent, Text: "The key is deleted."}},
			Faults:  []fault.Code{fault.CodeNotFound, fault.InvalidState},
			Handler: kernel.HandleEmpty(a.deleteKey),
		},
	}
}

var exampleScopedKeyWithValue = ScopedKeyWithValue{resource.ExampleScopedKey, resource.ExampleKey}
