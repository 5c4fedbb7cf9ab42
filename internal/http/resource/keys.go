package resource

import (
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/identity/apikey"
	"github.com/cofferpay/coffer/webhook"
)

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

// ShowKey returns an API key as an answer shows it.
func ShowKey(k apikey.Key) ScopedKey {
	return ScopedKey{
		APIKeyID: k.ID, Name: k.Name, Scope: string(k.Scope), IsMain: k.IsMain(), Status: string(k.Status),
		ExpiresAt:  webhook.AtOrNil(k.ExpiresAt),
		LastUsedAt: webhook.AtOrNil(k.LastUsedAt), RolledAt: webhook.AtOrNil(k.RolledAt),
		FormerKeyUntil:      webhook.AtOrNil(k.FormerEndsAt),
		FormerKeyLastUsedAt: webhook.AtOrNil(k.FormerLastUsedAt), CreatedAt: webhook.At(k.CreatedAt),
	}
}

// KeyFieldDocs are the texts about API keys.
var KeyFieldDocs = map[string]kernel.FieldDoc{
	"ScopedKey.":     {Text: "An API key of the organization, without its value."},
	"ScopedKeyPage.": {Text: "A page of API keys."},
	"ScopedKeyWithValue.": {
		Text: "An API key with its value for the header x-api-key, which only this answer shows.",
	},
	"ScopedKeyRequest.": {Text: "Makes an additional API key."},
	"KeyRoll.":          {Text: "Says how long the former value of a key works after a roll."},
	"apiKeyId":          {Text: "The id of the key; key_main is the main key.", Example: exampleKeyID},
	"ScopedKey.name":    {Text: "A name for people."},
	"ScopedKey.scope": {
		Text: "What the key may do. READ: every GET. NO_MONEY_OUT: also changes that send no money out. FULL: also " +
			"payments. Only the main key manages API keys.",
		Enum: scopeNames,
	},
	"isMain": {Text: "Whether it is the main key, which may make every call and manages the other keys."},
	"ScopedKey.status": {
		Text: "EXPIRED: expiresAt has passed. SUSPENDED: the operator of this service has switched " +
			"additionalApiKeys off; the key works again when the setting is on. REVOKED: the operator ended the main " +
			"key and has not rolled it. Statuses may be added without notice.",
		Example: "ACTIVE",
	},
	"ScopedKeyRequest.scope": {
		Text: "What the key may do. Give each program only the scope that it needs.", Enum: scopeNames,
	},
	"ScopedKey.expiresAt": {Text: "When the key expires, by the clock of the database; null: never."},
	"lastUsedAt": {
		Text: "When a request last used the present value, to the minute; null: not yet.",
	},
	"rolledAt":       {Text: "When the value was last replaced; null: never."},
	"formerKeyUntil": {Text: "Until when the former value works; null: it does not work."},
	"formerKeyLastUsedAt": {
		Text: "When a request last used the former value, to the minute. Before formerKeyUntil it shows whether a " +
			"program still uses that value.",
	},
	"ScopedKey.createdAt": {Text: "When the key was made; for the main key, when the organization was created."},
	"ScopedKeyWithValue.apiKey": {
		Text: "The value, for the header x-api-key. The service does not show it again.", Example: ExampleKey,
	},
	"overlapSeconds": {
		Text: "How long the former value works. 0, the default, ends it at once, together with every earlier " +
			"value. While an earlier value still works, only 0 is allowed.",
		Bounds: map[string]any{"minimum": 0, "maximum": apikey.OverlapSecondsMax},
	},
	"ScopedKeyRequest.name": {
		Text:   "For people: which program uses the key. 1 to 200 bytes without control characters or space around it.",
		Bounds: map[string]any{"minLength": 1, "maxLength": 200}, Example: "reporting",
	},
	"ScopedKeyRequest.expiresAt": {Text: "When the key expires; null or left out: never.", Format: "date-time"},
}
