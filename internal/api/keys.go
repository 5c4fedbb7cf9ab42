package api

import (
	"context"
	"net/http"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/apikey"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/webhook"
)

// ScopedKeyRequest is the body of POST /api-keys.
type ScopedKeyRequest struct {
	Name      string  `json:"name"`
	Scope     string  `json:"scope"`
	ExpiresAt *string `json:"expiresAt,omitempty"`
}

// KeyRoll is the optional body of POST /api-keys/{apiKeyId}/roll.
type KeyRoll struct {
	OverlapSeconds int `json:"overlapSeconds,omitempty"`
}

// ScopedKey is an API key of an organization without its value.
type ScopedKey struct {
	APIKeyID            string        `json:"apiKeyId"`
	Name                string        `json:"name"`
	Scope               string        `json:"scope"`
	IsMain              bool          `json:"isMain"`
	Status              string        `json:"status"`
	ExpiresAt           *webhook.Time `json:"expiresAt"`
	LastUsedAt          *webhook.Time `json:"lastUsedAt"`
	RolledAt            *webhook.Time `json:"rolledAt"`
	FormerKeyUntil      *webhook.Time `json:"formerKeyUntil"`
	FormerKeyLastUsedAt *webhook.Time `json:"formerKeyLastUsedAt"`
	CreatedAt           webhook.Time  `json:"createdAt"`
}

// ScopedKeyWithValue is a key that was created or rolled. Its value is shown only here.
type ScopedKeyWithValue struct {
	ScopedKey
	APIKey string `json:"apiKey"`
}

func showKey(k apikey.Key) ScopedKey {
	return ScopedKey{
		APIKeyID: k.ID, Name: k.Name, Scope: string(k.Scope), IsMain: k.IsMain(), Status: string(k.Status),
		ExpiresAt:  webhook.AtOrNil(k.ExpiresAt),
		LastUsedAt: webhook.AtOrNil(k.LastUsedAt), RolledAt: webhook.AtOrNil(k.RolledAt),
		FormerKeyUntil:      webhook.AtOrNil(k.FormerEndsAt),
		FormerKeyLastUsedAt: webhook.AtOrNil(k.FormerLastUsedAt), CreatedAt: webhook.At(k.CreatedAt),
	}
}

func (a *api) listKeys(c *call) (answer, error) {
	const list = "API keys"
	p, err := a.readPage(c, list)
	if err != nil {
		return answer{}, err
	}
	var found pagination.Result[apikey.Key]
	err = a.conf.DB.ReadOrg(c.Context(), c.org, func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = apikey.List(ctx, tx, c.org, p)
		return err
	})
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, body: newPage(a, c, list, found, showKey)}, nil
}

func (a *api) createKey(c *call) (answer, error) {
	var body ScopedKeyRequest
	if err := decodeBody(c.body, &body); err != nil {
		return answer{}, err
	}
	wanted := apikey.NewKey{Name: body.Name, Scope: identity.Scope(body.Scope)}
	if body.ExpiresAt != nil {
		expiresAt, err := readTime("expiresAt", *body.ExpiresAt)
		if err != nil {
			return answer{}, err
		}
		wanted.ExpiresAt = &expiresAt
	}
	made, value, err := apikey.Create(c.Context(), a.conf.DB, c.key, wanted)
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusCreated, body: ScopedKeyWithValue{showKey(made), value.Reveal()}}, nil
}

func (a *api) rollAPIKey(c *call) (answer, error) {
	var body KeyRoll
	if err := decodeBody(c.body, &body); err != nil {
		return answer{}, err
	}
	rolled, value, err := apikey.Roll(c.Context(), a.conf.DB, c.key, c.pathParam("apiKeyId"), body.OverlapSeconds)
	if err != nil {
		return answer{}, err
	}
	if rolled.IsMain() && a.keyRolled != nil {
		a.keyRolled(c.Context(), c.org, value)
	}
	return answer{status: http.StatusCreated, body: ScopedKeyWithValue{showKey(rolled), value.Reveal()}}, nil
}

func (a *api) deleteKey(c *call) (answer, error) {
	if err := apikey.Delete(c.Context(), a.conf.DB, c.key, c.pathParam("apiKeyId")); err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusNoContent}, nil
}

// listOrgKeys lists the keys of an organization for an operator.
func (a *api) listOrgKeys(c *call) (answer, error) {
	const list = "API keys"
	name, err := c.organizationID()
	if err != nil {
		return answer{}, err
	}
	p, err := a.readPage(c, list+" of "+name)
	if err != nil {
		return answer{}, err
	}
	var found pagination.Result[apikey.Key]
	err = a.conf.DB.ReadSystem(c.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		if _, err = org.ByID(ctx, tx, name); err == nil {
			found, err = apikey.List(ctx, tx, name, p)
		}
		return err
	})
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, body: newPage(a, c, list+" of "+name, found, showKey)}, nil
}

func (a *api) revokeKey(c *call) (answer, error) {
	name, err := c.organizationID()
	if err != nil {
		return answer{}, err
	}
	if err := org.RevokeKey(c.Context(), a.conf.DB, c.operator.Actor(), name, c.pathParam("apiKeyId")); err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusNoContent}, nil
}

// keyRoutes are an organization's calls for its own keys.
var keyRoutes = []route{
	{
		method: http.MethodGet, path: "/api-keys", name: "listApiKeys", action: identity.ManageKeys, group: "API keys",
		summary: "List API keys",
		text:    "The main key and every additional key that is not deleted, without the values.",
		query:   []parameter{orderParameter, limitParameter, cursorParameter},
		answers: []success{{http.StatusOK, "A page of keys.", Page[ScopedKey]{}, examplePage(exampleScopedKey), nil}},
		faults:  []fault.Code{fault.InvalidCursor},
		handle:  (*api).listKeys,
	},
	{
		method: http.MethodPost, path: "/api-keys", name: "createApiKey", action: identity.ManageKeys,
		group:   "API keys",
		summary: "Make an additional API key",
		text: "Makes a key in addition to the main key. Only this answer shows its value. The call is available " +
			"once the operator of this service switches additionalApiKeys on for your organization. A READ key " +
			"reads; a NO_MONEY_OUT key also makes changes that send no money out; a FULL key makes every call except " +
			"those about API keys. An organization can have 20 keys that have not expired. If the answer is lost, " +
			"GET /api-keys shows the key: delete or roll it.",
		body:    ScopedKeyRequest{},
		answers: []success{{http.StatusCreated, "The key.", ScopedKeyWithValue{}, exampleScopedKeyWithValue, nil}},
		faults:  []fault.Code{fault.FeatureDisabled, fault.InvalidState},
		handle:  (*api).createKey,
	},
	{
		method: http.MethodPost, path: "/api-keys/{apiKeyId}/roll", name: "rollApiKey", action: identity.ManageKeys,
		group:   "API keys",
		summary: "Replace an API key",
		text: "Makes a new value of the key. Only this answer shows it. Every request that starts after this " +
			"answer refuses the former value, unless overlapSeconds gives it more time. An overlap of the main key " +
			"needs additionalApiKeys, and so does every roll of another key. Of two simultaneous rolls one succeeds " +
			"and the other is refused with 409. If the answer is lost, roll again; with the main key you can do that " +
			"with the former value during its overlap. Without an overlap, ask the operator of this service to roll " +
			"the main key. The body may be left out.",
		body: KeyRoll{}, optional: true,
		answers: []success{
			{http.StatusCreated, "The key with its new value.", ScopedKeyWithValue{}, exampleScopedKeyWithValue, nil},
		},
		faults: []fault.Code{fault.CodeNotFound, fault.FeatureDisabled, fault.InvalidState},
		handle: (*api).rollAPIKey,
	},
	{
		method: http.MethodDelete, path: "/api-keys/{apiKeyId}", name: "deleteApiKey", action: identity.ManageKeys,
		group:   "API keys",
		summary: "Delete an additional API key",
		text: "Every request that starts after this answer refuses each value of the key. The main key cannot be " +
			"deleted: 409.",
		answers: []success{{http.StatusNoContent, "The key is deleted.", nil, nil, nil}},
		faults:  []fault.Code{fault.CodeNotFound, fault.InvalidState},
		handle:  (*api).deleteKey,
	},
}

// operatorKeyRoutes are the operator's calls for the keys of an organization.
var operatorKeyRoutes = []route{
	{
		method: http.MethodGet, path: "/organizations/{organizationId}/api-keys", name: "listOrganizationApiKeys",
		action: identity.ReadInstallation, group: "Organizations",
		summary: "List an organization's API keys",
		text: "The main key and every additional key that is not deleted. SUSPENDED keys work again when " +
			"additionalApiKeys is switched on.",
		query:   []parameter{orderParameter, limitParameter, cursorParameter},
		answers: []success{{http.StatusOK, "A page of keys.", Page[ScopedKey]{}, examplePage(exampleScopedKey), nil}},
		faults:  []fault.Code{fault.InvalidCursor, fault.CodeNotFound},
		handle:  (*api).listOrgKeys,
	},
	{
		method: http.MethodDelete, path: "/organizations/{organizationId}/api-keys/{apiKeyId}",
		name: "revokeOrganizationApiKey", action: identity.ReplaceOrganizationKey, group: "Organizations",
		summary: "Revoke an organization's API key",
		text: "Every request that starts after this answer refuses each value of the key, and the key never works " +
			"again. Without its main key, key_main, an organization can make no calls until POST " +
			"/organizations/{organizationId}/api-key/roll makes a new value of it.",
		answers: []success{{http.StatusNoContent, "The key is revoked: the service refuses it from now " +
			"on.", nil, nil, nil}},
		faults: []fault.Code{fault.CodeNotFound, fault.InvalidState},
		handle: (*api).revokeKey,
	},
}

var scopeNames = func() (words []string) {
	for _, s := range identity.Scopes {
		words = append(words, string(s))
	}
	return words
}()

const exampleKeyID = "key_01J9ZW3M8Q4S5T6V7W8X9YZABC"

var (
	exampleScopedKey = ScopedKey{
		APIKeyID: exampleKeyID, Name: "reporting", Scope: string(identity.ScopeRead), Status: string(apikey.Active),
		LastUsedAt: &exampleAt, CreatedAt: exampleAt,
	}
	exampleScopedKeyWithValue = ScopedKeyWithValue{exampleScopedKey, exampleKey}
)

var keyExamples = map[string]any{
	"createApiKey": ScopedKeyRequest{Name: "reporting", Scope: string(identity.ScopeRead)},
	"rollApiKey":   KeyRoll{OverlapSeconds: 3600},
}

var keyFieldDocs = map[string]fieldDoc{
	"ScopedKey.":     {text: "An API key of the organization, without its value."},
	"ScopedKeyPage.": {text: "A page of API keys."},
	"ScopedKeyWithValue.": {
		text: "An API key with its value for the header x-api-key, which only this answer shows.",
	},
	"ScopedKeyRequest.": {text: "Makes an additional API key."},
	"KeyRoll.":          {text: "Says how long the former value of a key works after a roll."},
	"apiKeyId":          {text: "The id of the key; key_main is the main key.", example: exampleKeyID},
	"ScopedKey.name":    {text: "A name for people."},
	"ScopedKey.scope": {
		text: "What the key may do. READ: every GET. NO_MONEY_OUT: also changes that send no money out. FULL: also " +
			"payments. Only the main key manages API keys.",
		enum: scopeNames,
	},
	"isMain": {text: "Whether it is the main key, which may make every call and manages the other keys."},
	"ScopedKey.status": {
		text: "EXPIRED: expiresAt has passed. SUSPENDED: the operator of this service has switched " +
			"additionalApiKeys off; the key works again when the setting is on. REVOKED: the operator ended the main " +
			"key and has not rolled it. Statuses may be added without notice.",
		example: "ACTIVE",
	},
	"ScopedKeyRequest.scope": {
		text: "What the key may do. Give each program only the scope that it needs.", enum: scopeNames,
	},
	"ScopedKey.expiresAt": {text: "When the key expires, by the clock of the database; null: never."},
	"lastUsedAt": {
		text: "When a request last used the present value, to the minute; null: not yet.",
	},
	"rolledAt":       {text: "When the value was last replaced; null: never."},
	"formerKeyUntil": {text: "Until when the former value works; null: it does not work."},
	"formerKeyLastUsedAt": {
		text: "When a request last used the former value, to the minute. Before formerKeyUntil it shows whether a " +
			"program still uses that value.",
	},
	"ScopedKey.createdAt": {text: "When the key was made; for the main key, when the organization was created."},
	"ScopedKeyWithValue.apiKey": {
		text: "The value, for the header x-api-key. The service does not show it again.", example: exampleKey,
	},
	"overlapSeconds": {
		text: "How long the former value works. 0, the default, ends it at once, together with every earlier " +
			"value. While an earlier value still works, only 0 is allowed.",
		bounds: map[string]any{"minimum": 0, "maximum": apikey.OverlapSecondsMax},
	},
	"ScopedKeyRequest.name": {
		text:   "For people: which program uses the key. 1 to 200 bytes without control characters or space around it.",
		bounds: map[string]any{"minLength": 1, "maxLength": 200}, example: "reporting",
	},
	"ScopedKeyRequest.expiresAt": {text: "When the key expires; null or left out: never.", format: "date-time"},
}
