package delivery

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/mail"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// mailbox keeps mails.
type mailbox struct {
	mu    sync.Mutex
	mails []mail.Message
}

// Queue keeps a mail.
func (b *mailbox) Queue(_ context.Context, _ pg.Tx, m mail.Message) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mails = append(b.mails, m)
	return nil
}

// The people who manage webhooks get one mail when failures disable an endpoint, and a person whose address no
// mail can have stops nothing. Rule PAGE-22.
func TestPeopleAreToldOfADisabledEndpoint(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	w.exec(`
		INSERT INTO accounts (account_id, side, email, name, password_hash, passkey_handle, created_at)
		SELECT 'acc_' || n, 'MEMBER', email, 'Ada', '$argon2id$v=19$m=64', decode(md5(email) || md5(email), 'hex'),
			now()
		FROM unnest(ARRAY['owner@example.com', 'dev@example.com', 'viewer@example.com', 'former@example.com',
			'two words@example.com', 'other@example.com']) WITH ORDINALITY AS a (email, n)`)
	w.exec(`INSERT INTO people (user_id, org_id, email, name, roles, created_at, account_id, ended_at) VALUES
		('usr_1', 'org_1', 'owner@example.com', 'O', '{OWNER}', now(), 'acc_1', NULL),
		('usr_2', 'org_1', 'dev@example.com', 'D', '{DEVELOPER}', now(), 'acc_2', NULL),
		('usr_3', 'org_1', 'viewer@example.com', 'V', '{VIEWER,FINANCE}', now(), 'acc_3', NULL),
		('usr_4', 'org_1', 'former@example.com', 'F', '{OWNER}', now(), 'acc_4', now()),
		('usr_5', 'org_1', 'two words@example.com', 'T', '{ADMIN}', now(), 'acc_5', NULL),
		('usr_6', 'org_2', 'other@example.com', 'X', '{OWNER}', now(), 'acc_6', NULL)`)
	rc := newReceiver(t, w.clock.now, func(rw http.ResponseWriter, _ request) { rw.WriteHeader(http.StatusBadGateway) })
	e, _ := w.endpoint(rc.URL + "/hook?token=hidden")
	box := &mailbox{}
	d := w.dispatcher()
	d.Mails, d.EndpointURL = box, "https://pay.example.com/dashboard/developers/webhooks/"
	w.days(d, 7, 6*time.Hour)
	if got := w.statusOf(e.ID); got != DisabledByFailure {
		t.Fatalf("got %v, want %v", got, DisabledByFailure)
	}
	var recipients []string
	for _, m := range box.mails {
		recipients = append(recipients, m.To)
		if !strings.Contains(m.Text, d.EndpointURL+e.ID) || strings.Contains(m.Text, "hidden") {
			t.Errorf("got the text %q, want the link and no path of the receiver", m.Text)
		}
	}
	slices.Sort(recipients)
	if got := strings.Join(recipients, " "); got != "dev@example.com owner@example.com" {
		t.Errorf("got mails to %q, want one to each person who manages webhooks", got)
	}
}

// One form of a page registers one endpoint and replaces one secret, and an old page overwrites no later
// change. Rule PAGE-21.
func TestAnOldPageOverwritesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	register := func() error {
		return w.db.InOrg(t.Context(), org, func(ctx context.Context, tx pg.Tx) error {
			_, _, err := w.endpoints.Create(ctx, tx, org, audit.User("usr_1"), NewEndpoint{
				URL: "https://example.com/hook", FormID: "frm_1",
			})
			return err
		})
	}
	if err := register(); err != nil {
		t.Fatal(err)
	}
	if err := register(); !fault.HasCode(err, fault.InvalidState) {
		t.Errorf("got %v for the same form again, want %s", err, fault.InvalidState)
	}
	var e Endpoint
	update := func(change Change) error {
		return w.db.InOrg(t.Context(), org, func(ctx context.Context, tx pg.Tx) (err error) {
			e, err = w.endpoints.Update(ctx, tx, org, audit.User("usr_1"), e.ID, change)
			return err
		})
	}
	e.ID = ""
	if err := w.owner.QueryRow(t.Context(), `SELECT endpoint_id, updated_at FROM webhook_endpoints`).
		Scan(&e.ID, &e.UpdatedAt); err != nil {
		t.Fatal(err)
	}
	seen := e.UpdatedAt
	w.clock.move(time.Minute)
	first, second := "https://example.com/first", "https://example.com/second"
	if err := update(Change{URL: &first, SeenAt: &seen}); err != nil {
		t.Fatal(err)
	}
	if err := update(Change{URL: &first, SeenAt: &seen}); err != nil {
		t.Errorf("got %v for the second click, want the state that it has", err)
	}
	endpointID := e.ID
	if err := update(Change{URL: &second, SeenAt: &seen}); !fault.HasCode(err, fault.InvalidState) {
		t.Errorf("got %v for an old page, want %s", err, fault.InvalidState)
	}
	rotate := func() error {
		return w.db.InOrg(t.Context(), org, func(ctx context.Context, tx pg.Tx) error {
			_, _, _, err := w.endpoints.RotateAsSeen(ctx, tx, org, audit.User("usr_1"), endpointID, 1)
			return err
		})
	}
	if err := rotate(); err != nil {
		t.Fatal(err)
	}
	if err := rotate(); !fault.HasCode(err, fault.InvalidState) {
		t.Errorf("got %v for the second click, want %s", err, fault.InvalidState)
	}
}
