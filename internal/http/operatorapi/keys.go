package operatorapi

import (
	"context"
	"net/http"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/resource"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/apikey"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// listOrgKeys lists the keys of an organization for an operator.
func (a *api) listOrgKeys(c *call) (kernel.Page[resource.ScopedKey], error) {
	const list = "API keys"
	name, err := organizationID(c)
	if err != nil {
		return kernel.Page[resource.ScopedKey]{}, err
	}
	p, err := c.ReadPage(list + " of " + name)
	if err != nil {
		return kernel.Page[resource.ScopedKey]{}, err
	}
	var found pagination.Result[apikey.Key]
	err = a.conf.DB.ReadSystem(c.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		if _, err = org.ByID(ctx, tx, name); err == nil {
			found, err = apikey.List(ctx, tx, name, p)
		}
		return err
	})
	if err != nil {
		return kernel.Page[resource.ScopedKey]{}, err
	}
	return kernel.NewPage(c.Request, list+" of "+name, found, resource.ShowKey), nil
}

func (a *api) revokeKey(c *call) error {
	name, err := organizationID(c)
	if err != nil {
		return err
	}
	if err := org.RevokeKey(c.Context(), a.conf.DB, c.Caller.Actor(), name, c.PathParam("apiKeyId")); err != nil {
		return err
	}
	return nil
}

// operatorKeyRoutes are the operator's calls for the keys of an organization.
func (a *api) operatorKeyRoutes() []kernel.Route {
	return []kernel.Route{
		{
			Method: http.MethodGet, Path: "/organizations/{organizationId}/api-keys", Name: "listOrganizationApiKeys",
			Action: identity.ReadInstallation, Group: "Organizations",
			Summary: "List an organization's API keys",
			Text: "The main key and every additional key that is not deleted. SUSPENDED keys work again when " +
				"additionalApiKeys is switched on.",
			Query:   []kernel.Parameter{kernel.OrderParameter, kernel.LimitParameter, kernel.CursorParameter},
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "A page of keys."}},
			Faults:  []fault.Code{fault.InvalidCursor, fault.CodeNotFound},
			Handler: kernel.Handle(a.listOrgKeys, kernel.ExamplePage(resource.ExampleScopedKey)),
		},
		{
			Method: http.MethodDelete, Path: "/organizations/{organizationId}/api-keys/{apiKeyId}",
			Name: "revokeOrganizationApiKey", Action: identity.ReplaceOrganizationKey, Group: "Organizations",
			Summary: "Revoke an organization's API key",
			Text: "Every request that starts after this answer refuses each value of the key, and the key never " +
				"works " +
				"again. Without its main key, key_main, an organization can make no calls until POST " +
				"/organizations/{organizationId}/api-key/roll makes a new value of it.",
			Answers: []kernel.Success{{Status: http.StatusNoContent, Text: "The key is revoked: the service refuses " +
				"it from now " +
				"on."}},
			Faults:  []fault.Code{fault.CodeNotFound, fault.InvalidState},
			Handler: kernel.HandleEmpty(a.revokeKey),
		},
	}
}
