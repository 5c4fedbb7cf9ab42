package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/webhooks/delivery"
	"github.com/cofferpay/coffer/internal/webhooks/event"
	"github.com/cofferpay/coffer/webhook"
)

// followInterval is the pause between two polls for new events.
const followInterval = 300 * time.Millisecond

type eventsCmd struct {
	List eventsList `cmd:"" help:"Show the events of each organization in their sequence, as its feed has them."`
	Tail eventsTail `cmd:"" help:"Show the last events, then each new one, until Ctrl-C."`
}

// eventFlags select the events to show.
type eventFlags struct {
	configFlags
	Org  string   `help:"Only of this organization, org_…"`
	Type []string `placeholder:"TYPE,…" help:"Only of these types, such as CUSTOMER_DEPOSIT."`
	JSON bool     `name:"json" help:"Write the body that is signed and sent, one per line."`
}

// readTypes returns the requested types.
func (c eventFlags) readTypes() ([]event.Type, error) {
	var types []event.Type
	for _, text := range c.Type {
		t := event.Type(strings.ToUpper(strings.TrimSpace(text)))
		if !event.IsKnown(t) {
			return nil, fmt.Errorf("there is no event %s; the events are %v", text, event.AllTypes())
		}
		types = append(types, t)
	}
	return types, nil
}

type eventsList struct {
	eventFlags
	After int64 `help:"Only those with a higher sequence number."`
	Limit int   `default:"50" help:"At most this many of each organization; 0 shows all."`
}

func (c eventsList) Run(ctx context.Context, std streams) error {
	types, err := c.readTypes()
	if err != nil {
		return err
	}
	tools, err := c.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	return forOrgs(ctx, tools.DB(), c.Org, func(orgID string) error {
		shown := 0
		for afterSeq := c.After; ; {
			limit := pagination.LimitMax
			if c.Limit > 0 {
				limit = min(c.Limit-shown, limit)
			}
			found, err := readFeed(ctx, tools.DB(), orgID, afterSeq, types, limit)
			if err != nil {
				return err
			}
			for _, body := range found.Bodies {
				if err := printEvent(std.out, body, c.JSON, time.RFC3339); err != nil {
					return err
				}
			}
			afterSeq, shown = found.NextAfter, shown+len(found.Bodies)
			if !found.HasMore {
				return nil
			}
			if c.Limit > 0 && shown >= c.Limit {
				if !c.JSON {
					fmt.Fprintf(std.out, "%s has more: --after %d shows the next.\n", orgID, afterSeq)
				}
				return nil
			}
		}
	})
}

func readFeed(
	ctx context.Context, db *pg.DB, orgID string, afterSeq int64, types []event.Type, limit int,
) (found event.Page, err error) {
	return found, db.ReadOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = event.ReadFeed(ctx, tx, orgID, afterSeq, types, limit)
		return err
	})
}

type eventsTail struct {
	eventFlags
	Last int64 `short:"n" default:"10" help:"Begin with this many events of each organization."`
}

func (c eventsTail) Run(ctx context.Context, std streams) error {
	types, err := c.readTypes()
	if err != nil {
		return err
	}
	tools, err := c.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	t := eventTail{db: tools.DB(), org: c.Org, types: types, show: func(body []byte) error {
		return printEvent(std.out, body, c.JSON, time.TimeOnly)
	}}
	if err := t.setStart(ctx, c.Last); err != nil {
		return err
	}
	for {
		if err := t.showNew(ctx); err != nil {
			return err
		}
		if !waitFor(ctx, followInterval) {
			return ctx.Err()
		}
	}
}

// waitFor waits for d; it returns false if ctx has ended.
func waitFor(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// eventTail shows the new events of organizations.
type eventTail struct {
	db    *pg.DB
	org   string // "" means all organizations
	types []event.Type
	show  func(body []byte) error

	lastShown map[string]int64 // by organization, the last sequence number shown
}

// setStart sets the position of each organization to that many events before its last one.
func (t *eventTail) setStart(ctx context.Context, last int64) error {
	t.lastShown = map[string]int64{}
	return forOrgs(ctx, t.db, t.org, func(orgID string) error {
		return t.db.ReadOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) error {
			lastSeq, err := event.LastSequence(ctx, tx, orgID)
			t.lastShown[orgID] = max(lastSeq-last, 0)
			return err
		})
	})
}

// showNew shows the events since the last call.
func (t *eventTail) showNew(ctx context.Context) error {
	return forOrgs(ctx, t.db, t.org, func(orgID string) error {
		for {
			found, err := readFeed(ctx, t.db, orgID, t.lastShown[orgID], t.types, pagination.LimitMax)
			if err != nil {
				return err
			}
			for _, body := range found.Bodies {
				if err := t.show(body); err != nil {
					return err
				}
			}
			if t.lastShown[orgID] = found.NextAfter; !found.HasMore {
				return nil
			}
		}
	})
}

// printEvent prints an event on one line: for a person, or as it is sent.
func printEvent(out io.Writer, body []byte, asJSON bool, layout string) error {
	if asJSON {
		_, err := fmt.Fprintf(out, "%s\n", body)
		return err
	}
	var e webhook.Envelope
	if err := json.Unmarshal(body, &e); err != nil {
		return fmt.Errorf("read an event: %w", err)
	}
	summary, err := formatEvent(e)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s  %s  %s\n", e.Timestamp.UTC().Format(layout), e.Type, summary)
	return err
}

// formatEvent describes an event in one line: the amount, the owner, the result, and the id.
func formatEvent(e webhook.Envelope) (string, error) {
	var ids struct{ DepositID, WithdrawalID, TransferID, CheckoutID string }
	if err := json.Unmarshal(e.Data, &ids); err != nil {
		return "", fmt.Errorf("read event %s: %w", e.ID, err)
	}
	var err error
	var line string
	switch {
	case ids.DepositID != "":
		var d webhook.Deposit
		err = json.Unmarshal(e.Data, &d)
		line = fmt.Sprintf("%s on %s for %s, %s", formatAmount(d), d.Chain, ownerName(d.CustomerID, d.Product),
			d.Status)
		if d.RiskOfFunds != nil {
			line += ", risk " + *d.RiskOfFunds
		}
	case ids.WithdrawalID != "":
		var w webhook.Withdrawal
		err = json.Unmarshal(e.Data, &w)
		line = fmt.Sprintf("%s %s on %s of %s to %s, %s", w.AmountDecimal, w.Mint.Symbol, w.Mint.Chain,
			ownerName(w.CustomerID, w.Product), shorten(w.ToAddress), formatStatus(w))
	case ids.TransferID != "":
		var t webhook.Transfer
		err = json.Unmarshal(e.Data, &t)
		line = fmt.Sprintf("%s %s from %s to %s", t.AmountDecimal, t.Mint.Symbol,
			ownerName(t.From.CustomerID, t.From.Product), ownerName(t.To.CustomerID, t.To.Product))
	case ids.CheckoutID != "":
		// Not the whole object: its url allows the payer's actions.
		var c webhook.Checkout
		err = json.Unmarshal(e.Data, &c)
		line = fmt.Sprintf("%s of %s %s paid, %s", c.AmountPaid, c.AmountDue, c.Currency, c.Status)
		if c.Reference != nil {
			line += ", reference " + *c.Reference
		}
		if len(c.Details.Exceptions) > 0 {
			line += ", " + strings.Join(c.Details.Exceptions, " ")
		}
	default:
		line = string(e.Data)
	}
	if err != nil {
		return "", fmt.Errorf("read event %s: %w", e.ID, err)
	}
	id := cmp.Or(ids.DepositID, ids.WithdrawalID, ids.TransferID, ids.CheckoutID)
	return strings.TrimSpace(line + "  " + id), nil
}

// worldLog writes the events of a local world to its terminal: a line for each event, and one when
// an endpoint starts to fail or recovers.
type worldLog struct {
	db  *pg.DB
	out io.Writer

	events    eventTail
	failing   map[string]bool // by endpoint
	lastError string          // the last error shown
}

// runUntilDone writes until ctx ends.
func (j *worldLog) runUntilDone(ctx context.Context) {
	j.failing = map[string]bool{}
	j.events = eventTail{db: j.db, show: func(body []byte) error {
		return printEvent(j.out, body, false, time.TimeOnly)
	}}
	begun := false
	for {
		var err error
		if !begun {
			err = j.events.setStart(ctx, 0)
			begun = err == nil
		}
		if err == nil {
			err = errors.Join(j.events.showNew(ctx), j.printWebhooks(ctx))
		}
		if err != nil && ctx.Err() == nil && err.Error() != j.lastError {
			j.lastError = err.Error()
			fmt.Fprintf(j.out, "cannot read the events: %v\n", err)
		}
		if !waitFor(ctx, followInterval) {
			return
		}
	}
}

// printWebhooks reports endpoints that started to fail, and those that recovered.
func (j *worldLog) printWebhooks(ctx context.Context) error {
	endpoints := &delivery.Endpoints{}
	return forOrgs(ctx, j.db, "", func(orgID string) error {
		return j.db.ReadOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) error {
			found, err := endpoints.List(ctx, tx, orgID, pagination.Page{Limit: pagination.LimitMax})
			if err != nil {
				return err
			}
			for _, e := range found.Items {
				failing := e.FailingSince != nil
				if failing == j.failing[e.ID] {
					continue
				}
				timeText := time.Now().UTC().Format(time.TimeOnly)
				if !failing {
					fmt.Fprintf(j.out, "%s  webhook delivered again to %s  %s\n", timeText, e.URL, e.ID)
				} else {
					attempts, err := endpoints.Log(ctx, tx, orgID, e.ID,
						delivery.AttemptFilter{Outcome: delivery.Failed}, pagination.Page{Limit: 1, Desc: true})
					if err != nil {
						return err
					}
					fmt.Fprintf(j.out, "%s  webhook FAILS to %s: %s  %s\n", timeText, e.URL,
						formatAttempts(attempts.Items), e.ID)
				}
				j.failing[e.ID] = failing
			}
			return nil
		})
	})
}

// formatAttempts describes why the last attempt failed, and when the next one is due.
func formatAttempts(last []delivery.Attempt) string {
	if len(last) == 0 {
		return "no attempt is stored"
	}
	attempt := last[0]
	parts := slices.DeleteFunc([]string{attempt.Error, fmt.Sprintf("of %s", attempt.Type)}, func(s string) bool {
		return s == ""
	})
	if attempt.NextAt != nil {
		parts = append(parts, "next attempt at "+attempt.NextAt.UTC().Format(time.TimeOnly))
	}
	return strings.Join(parts, ", ")
}
