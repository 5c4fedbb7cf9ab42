package resource

import (
	"github.com/cofferpay/coffer/internal/identity/apikey"
	"github.com/cofferpay/coffer/webhook"
)

// ScopedKey is an API key of an organization without its value.
type ScopedKey struct {
	APIKeyID            string        `json:"apiKeyId"`
	Name                string        `json:"name" doc:"A name for people."`
	Scope               string        `json:"scope" doc:"What the key may do. READ: every GET. NO_MONEY_OUT: also changes that send no money out. FULL: also payments. Only the main key manages API keys."`
	IsMain              bool          `json:"isMain" doc:"Whether it is the main key, which may make every call and manages the other keys."`
	Status              string        `json:"status" doc:"EXPIRED: expiresAt has passed. SUSPENDED: the operator of this service has switched additionalApiKeys off; the key works again when the setting is on. REVOKED: the operator ended the main key and has not rolled it. Statuses may be added without notice." example:"ACTIVE"`
	ExpiresAt           *webhook.Time `json:"expiresAt" doc:"When the key expires, by the clock of the database; null: never."`
	LastUsedAt          *webhook.Time `json:"lastUsedAt" doc:"When a request last used the present value, to the minute; null: not yet."`
	RolledAt            *webhook.Time `json:"rolledAt" doc:"When the value was last replaced; null: never."`
	FormerKeyUntil      *webhook.Time `json:"formerKeyUntil" doc:"Until when the former value works; null: it does not work."`
	FormerKeyLastUsedAt *webhook.Time `json:"formerKeyLastUsedAt" doc:"When a request last used the former value, to the minute. Before formerKeyUntil it shows whether a program still uses that value."`
	CreatedAt           webhook.Time  `json:"createdAt" doc:"When the key was made; for the main key, when the organization was created."`
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
