package delivery

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/member"
	"github.com/cofferpay/coffer/internal/platform/mail"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// Mailer puts a mail into the outbox, in the transaction of the change that it tells about.
type Mailer interface {
	Queue(ctx context.Context, tx pg.Tx, m mail.Message) error
}

// disabledEndpoint is an endpoint that failures disabled.
type disabledEndpoint struct {
	org, endpoint, url string
	failingSince       time.Time
}

// mailDisabled tells the people who manage webhooks that failures disabled an endpoint, in the transaction
// that disables it. A person whose address no mail can have gets none: deliveries of other organizations are
// in the same transaction. Rule PAGE-22.
func (d *Dispatcher) mailDisabled(ctx context.Context, tx pg.Tx, e disabledEndpoint) error {
	if d.Mails == nil {
		return nil
	}
	people, err := member.ListByOrg(ctx, tx, e.org)
	if err != nil {
		return err
	}
	for _, p := range people {
		if !p.IsAllowed(identity.ManageWebhooks) || p.AccountID == "" {
			continue
		}
		if err := mail.CheckAddress(p.Email); err != nil {
			d.Log.LogAttrs(ctx, slog.LevelWarn, "a person has an address to which no mail can be sent",
				slog.String("organization", e.org), slog.String("person", p.ID))
			continue
		}
		if err := d.Mails.Queue(ctx, tx, mail.Message{
			Kind: "WEBHOOK_DISABLED", To: p.Email, Subject: "A webhook of your organization is disabled",
			Text: d.disabledText(e),
		}); err != nil {
			return fmt.Errorf("tell of disabled endpoint %s: %w", e.endpoint, err)
		}
	}
	return nil
}

// disabledText is the text of the mail. Of the URL it has the host alone, because a path may have a secret.
func (d *Dispatcher) disabledText(e disabledEndpoint) string {
	var text strings.Builder
	fmt.Fprintf(&text, "The webhook %s at %s has failed since %s and is disabled now.\n\n", e.endpoint,
		hostOf(e.url), e.failingSince.UTC().Format("2 Jan 2006, 15:04 UTC"))
	text.WriteString("Its events wait. Repair the receiver, then enable the webhook: the waiting events are sent " +
		"in their order.\n")
	if d.EndpointURL != "" {
		text.WriteString("\n" + d.EndpointURL + e.endpoint + "\n")
	}
	return text.String()
}

// hostOf returns the host of a URL in printable ASCII.
func hostOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || slices.ContainsFunc([]byte(u.Host), isNotPlain) {
		return "an address that its page shows"
	}
	return u.Host
}

func isNotPlain(b byte) bool { return b <= ' ' || b > '~' }
