package delivery

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/webhooks/event"
	"github.com/cofferpay/coffer/webhook"
)

func TestAnEndpointCanBeListedReadAndDeletedByItsOwnerAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	first, secret := w.endpoint("https://example.com/1")
	second, other := w.endpoint("https://example.com/2", event.CustomerWithdraw, event.CustomerDeposit,
		event.CustomerWithdraw)
	if _, err := webhook.ParseKey(secret); err != nil || secret == other {
		t.Errorf("got %v, %v, want two secrets", err, secret == other)
	}
	in := func(as string, fn func(ctx context.Context, tx pg.Tx) error) error {
		return w.db.InOrg(t.Context(), as, fn)
	}
	byID := func(as, endpoint string) (e Endpoint, err error) {
		err = in(as, func(ctx context.Context, tx pg.Tx) (err error) {
			e, err = w.endpoints.ByID(ctx, tx, as, endpoint)
			return err
		})
		return e, err
	}
	list := func(as string, p pagination.Page) (got pagination.Result[Endpoint]) {
		t.Helper()
		if err := in(as, func(ctx context.Context, tx pg.Tx) (err error) {
			got, err = w.endpoints.List(ctx, tx, as, p)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return got
	}
	remove := func(as, endpoint string) error {
		return in(as, func(ctx context.Context, tx pg.Tx) error {
			return w.endpoints.Delete(ctx, tx, as, audit.APIKey(as), endpoint)
		})
	}

	got, err := byID(org, second.ID)
	if err != nil || fmt.Sprint(got) != fmt.Sprint(second) || len(got.Events) != 2 {
		t.Errorf("got %+v, %v, want %+v", got, err, second)
	}
	one := list(org, pagination.Page{Limit: 1})
	if len(one.Items) != 1 || one.NextCursor == nil || one.Items[0].ID != min(first.ID, second.ID) {
		t.Errorf("got %+v, want the first of two", one)
	}
	if rest := list(org, pagination.Page{Cursor: one.NextCursor}); len(rest.Items) != 1 || rest.NextCursor != nil {
		t.Errorf("got %+v, want the second of two", rest)
	}
	if got := list("org_2", pagination.Page{}); len(got.Items) != 0 {
		t.Errorf("another organization: got %v, want nothing", got.Items)
	}
	for _, c := range []struct{ as, endpoint string }{
		{"org_2", first.ID}, {org, id.New("we", w.clock.now())}, {org, "we_'"}, {org, ""},
	} {
		if _, err := byID(c.as, c.endpoint); !fault.HasCode(err, fault.CodeNotFound) {
			t.Errorf("%v of %v: got %v, want %v", c.endpoint, c.as, err, fault.CodeNotFound)
		}
		if err := remove(c.as, c.endpoint); !fault.HasCode(err, fault.CodeNotFound) {
			t.Errorf("delete %v of %v: got %v, want %v", c.endpoint, c.as, err, fault.CodeNotFound)
		}
	}
	if err := remove(org, first.ID); err != nil {
		t.Fatal(err)
	}
	if err := remove(org, first.ID); !fault.HasCode(err, fault.CodeNotFound) {
		t.Errorf("deleted twice: got %v, want %v", err, fault.CodeNotFound)
	}
	if got := list(org, pagination.Page{}); len(got.Items) != 1 || got.Items[0].ID != second.ID {
		t.Errorf("got %v, want the other endpoint", got.Items)
	}

	var sealed []byte
	var acts int
	if err := w.owner.QueryRow(
		t.Context(), `SELECT sealed FROM webhook_secrets WHERE endpoint_id = $1`, first.ID,
	).Scan(&sealed); err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(sealed, []byte("whsec_")) ||
		bytes.Contains(sealed, []byte(strings.TrimPrefix(secret, "whsec_"))) {
		t.Errorf("got the secret in the clear, want it sealed")
	}
	if _, err := w.keyset.Unseal(sealed, secretBinding(org, second.ID, 1)); err == nil {
		t.Errorf("opened as another endpoint's: got %v, want an error", err)
	}
	if err := w.owner.QueryRow(
		t.Context(), `SELECT count(*) FROM audit_log WHERE resource_kind = 'WEBHOOK_ENDPOINT'`,
	).Scan(&acts); err != nil || acts != 3 {
		t.Errorf("got %v acts in the audit log, %v, want 3", acts, err)
	}
}

func TestAnOrganizationHasTenEndpointsAtMost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	var group sync.WaitGroup
	results := make([]error, 40)
	for i := range results {
		group.Go(func() {
			results[i] = w.db.InOrg(t.Context(), org, func(ctx context.Context, tx pg.Tx) error {
				_, _, err := w.endpoints.Create(ctx, tx, org, audit.APIKey(org),
					NewEndpoint{URL: "https://example.com"})
				return err
			})
		})
	}
	group.Wait()
	made := 0
	for _, err := range results {
		switch {
		case err == nil:
			made++
		case !fault.HasCode(err, fault.InvalidState):
			t.Errorf("got %v, want %v", err, fault.InvalidState)
		}
	}
	if made != endpointsMax {
		t.Errorf("got %v endpoints, want %v", made, endpointsMax)
	}
	w.exec(
		`UPDATE webhook_endpoints SET deleted_at = now() WHERE endpoint_id = (SELECT min(endpoint_id) FROM webhook_endpoints)`,
	)
	w.endpoint("https://example.com")
}

func TestAnEndpointThatCannotBeIsRefusedWithItsParameter(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	for param, n := range map[string]NewEndpoint{
		"url":         {URL: "http://example.com"},
		"events":      {URL: "https://example.com", Events: []event.Type{"CUSTOMER_DEPOSIT", "CUSTOMER_DEPOSITS"}},
		"description": {URL: "https://example.com", Description: strings.Repeat("a", descriptionBytesMax+1)},
	} {
		err := w.db.InOrg(t.Context(), org, func(ctx context.Context, tx pg.Tx) error {
			_, secret, err := w.endpoints.Create(ctx, tx, org, audit.APIKey(org), n)
			if !secret.IsEmpty() {
				t.Errorf("%s: got a secret with a refusal, want none", param)
			}
			return err
		})
		if f := fault.Find(err); f == nil || f.Code != fault.InvalidRequest || f.Param != param {
			t.Errorf("%s: got %v, want %v on %v", param, err, fault.InvalidRequest, param)
		}
	}
}

func TestTheSigningKeysFileIsPrivateAndKept(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "webhook.key")
	first, err := OpenOrCreateKey(path)
	if err != nil {
		t.Fatal(err)
	}
	second, err := OpenOrCreateKey(path)
	if err != nil || first.Public() != second.Public() || !strings.HasPrefix(first.Public(), "whpk_") {
		t.Errorf("got %v and %v, %v, want one key", first, second, err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenKey(path); err == nil {
		t.Errorf("a file that others may read: got %v, want an error", err)
	}
	for _, content := range []string{"", "whsk_", webhook.NewSecret(), first.Public()} {
		broken := filepath.Join(t.TempDir(), "broken.key")
		if err := os.WriteFile(broken, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenKey(broken); err == nil || len(content) > 10 && strings.Contains(err.Error(), content[6:]) {
			t.Errorf("a file with %.6q: got %v, want an error that does not quote it", content, err)
		}
	}
}
