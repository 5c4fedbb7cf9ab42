package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/cofferpay/coffer/internal/delivery"
	"github.com/cofferpay/coffer/internal/event"
	"github.com/cofferpay/coffer/internal/page"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/webhook"
)

// followEvery is the pause between two looks for new events.
const followEvery = 300 * time.Millisecond

type eventsCmd struct {
	List eventsList `cmd:"" help:"Show the events of each organization in their sequence, as its feed has them."`
	Tail eventsTail `cmd:"" help:"Show the last events, then each new one as it comes, until Ctrl-C."`
}

// eventChoice says which events are shown.
type eventChoice struct {
	installation
	Org  string   `help:"Only of this organization, org_…"`
	Type []string `placeholder:"TYPE,…" help:"Only of these types, such as CUSTOMER_DEPOSIT."`
	JSON bool     `name:"json" help:"Write the body that is signed and sent, one a line."`
}

// types are those that were asked for.
func (c eventChoice) types() ([]event.Type, error) {
	var types []event.Type
	for _, text := range c.Type {
		t := event.Type(strings.ToUpper(strings.TrimSpace(text)))
		if !event.Known(t) {
			return nil, fmt.Errorf("there is no event %s; there are %v", text, event.Types())
		}
		types = append(types, t)
	}
	return types, nil
}

type eventsList struct {
	eventChoice
	After int64 `help:"Only those with a higher sequence number."`
	Limit int   `default:"50" help:"How many of each organization at most; 0 shows all."`
}

func (c eventsList) Run(ctx context.Context, std streams) error {
	types, err := c.types()
	if err != nil {
		return err
	}
	a, err := c.tools(ctx)
	if err != nil {
		return err
	}
	defer a.Close()
	return eachOf(ctx, a.DB(), c.Org, func(orgID string) error {
		shown := 0
		for after := c.After; ; {
			limit := page.LimitMax
			if c.Limit > 0 {
				limit = min(c.Limit-shown, limit)
			}
			found, err := feed(ctx, a.DB(), orgID, after, types, limit)
			if err != nil {
				return err
			}
			for _, body := range found.Bodies {
				if err := tellEvent(std.out, body, c.JSON, time.RFC3339); err != nil {
					return err
				}
			}
			after, shown = found.Next, shown+len(found.Bodies)
			if !found.HasMore {
				return nil
			}
			if c.Limit > 0 && shown >= c.Limit {
				if !c.JSON {
					fmt.Fprintf(std.out, "There are more of %s: --after %d shows the next.\n", orgID, after)
				}
				return nil
			}
		}
	})
}

func feed(ctx context.Context, db *pg.DB, orgID string, after int64, types []event.Type, limit int) (found event.Page, err error) {
	return found, db.ReadOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = event.Feed(ctx, tx, orgID, after, types, limit)
		return err
	})
}

type eventsTail struct {
	eventChoice
	Last int64 `short:"n" default:"10" help:"How many of the events of each organization to begin with."`
}

func (c eventsTail) Run(ctx context.Context, std streams) error {
	types, err := c.types()
	if err != nil {
		return err
	}
	a, err := c.tools(ctx)
	if err != nil {
		return err
	}
	defer a.Close()
	t := tail{db: a.DB(), org: c.Org, types: types, show: func(body []byte) error { return tellEvent(std.out, body, c.JSON, time.TimeOnly) }}
	if err := t.begin(ctx, c.Last); err != nil {
		return err
	}
	for {
		if err := t.step(ctx); err != nil {
			return err
		}
		if !pause(ctx, followEvery) {
			return ctx.Err()
		}
	}
}

// pause waits; it returns false when ctx has ended.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// tail shows the new events of organizations.
type tail struct {
	db    *pg.DB
	org   string // "": of all
	types []event.Type
	show  func(body []byte) error

	after map[string]int64 // by organization, the sequence that was shown last
}

// begin sets the place of each organization that many events before its last one.
func (t *tail) begin(ctx context.Context, last int64) error {
	t.after = map[string]int64{}
	return eachOf(ctx, t.db, t.org, func(orgID string) error {
		return t.db.ReadOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) error {
			at, err := event.LastSequence(ctx, tx, orgID)
			t.after[orgID] = max(at-last, 0)
			return err
		})
	})
}

// step shows the events that came since the step before.
func (t *tail) step(ctx context.Context) error {
	return eachOf(ctx, t.db, t.org, func(orgID string) error {
		for {
			found, err := feed(ctx, t.db, orgID, t.after[orgID], t.types, page.LimitMax)
			if err != nil {
				return err
			}
			for _, body := range found.Bodies {
				if err := t.show(body); err != nil {
					return err
				}
			}
			if t.after[orgID] = found.Next; !found.HasMore {
				return nil
			}
		}
	})
}

// tellEvent writes an event on a line: for a person, or as it is sent.
func tellEvent(out io.Writer, body []byte, asJSON bool, layout string) error {
	if asJSON {
		_, err := fmt.Fprintf(out, "%s\n", body)
		return err
	}
	var e webhook.Envelope
	if err := json.Unmarshal(body, &e); err != nil {
		return fmt.Errorf("read an event: %w", err)
	}
	about, err := sayEvent(e)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s  %s  %s\n", e.Timestamp.UTC().Format(layout), e.Type, about)
	return err
}

// sayEvent is what an event tells, in one line: the amount, whose it is, what became of
// it, and the id.
func sayEvent(e webhook.Envelope) (string, error) {
	var of struct{ DepositID, WithdrawalID, TransferID string }
	if err := json.Unmarshal(e.Data, &of); err != nil {
		return "", fmt.Errorf("read event %s: %w", e.ID, err)
	}
	var err error
	var line string
	switch {
	case of.DepositID != "":
		var d webhook.Deposit
		err = json.Unmarshal(e.Data, &d)
		line = fmt.Sprintf("%s on %s for %s, %s", sayAmount(d), d.Chain, ownerOf(d.CustomerID, d.Product), d.Status)
		if d.RiskOfFunds != nil {
			line += ", risk " + *d.RiskOfFunds
		}
	case of.WithdrawalID != "":
		var w webhook.Withdrawal
		err = json.Unmarshal(e.Data, &w)
		line = fmt.Sprintf("%s %s on %s of %s to %s, %s", w.AmountDecimal, w.Mint.Symbol, w.Mint.Chain, ownerOf(w.CustomerID, w.Product), brief(w.ToAddress), sayStatus(w))
	case of.TransferID != "":
		var t webhook.Transfer
		err = json.Unmarshal(e.Data, &t)
		line = fmt.Sprintf("%s %s from %s to %s", t.AmountDecimal, t.Mint.Symbol, ownerOf(t.From.CustomerID, t.From.Product), ownerOf(t.To.CustomerID, t.To.Product))
	default:
		line = string(e.Data)
	}
	if err != nil {
		return "", fmt.Errorf("read event %s: %w", e.ID, err)
	}
	return strings.TrimSpace(line + "  " + of.DepositID + of.WithdrawalID + of.TransferID), nil
}

// journal writes to the terminal of a local world what happens in it: a line for each
// event, and one when an endpoint begins to fail or answers again.
type journal struct {
	db  *pg.DB
	out io.Writer

	events  tail
	failing map[string]bool // by endpoint
	said    string          // the error that was told last
}

// run writes until ctx ends.
func (j *journal) run(ctx context.Context) {
	j.failing = map[string]bool{}
	j.events = tail{db: j.db, show: func(body []byte) error { return tellEvent(j.out, body, false, time.TimeOnly) }}
	begun := false
	for {
		var err error
		if !begun {
			err = j.events.begin(ctx, 0)
			begun = err == nil
		}
		if err == nil {
			err = errors.Join(j.events.step(ctx), j.webhooks(ctx))
		}
		if err != nil && ctx.Err() == nil && err.Error() != j.said {
			j.said = err.Error()
			fmt.Fprintf(j.out, "the events cannot be read: %v\n", err)
		}
		if !pause(ctx, followEvery) {
			return
		}
	}
}

// webhooks tells of endpoints that began to fail, and of those that answer again.
func (j *journal) webhooks(ctx context.Context) error {
	endpoints := &delivery.Endpoints{}
	return eachOf(ctx, j.db, "", func(orgID string) error {
		return j.db.ReadOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) error {
			found, err := endpoints.List(ctx, tx, orgID, page.Page{Limit: page.LimitMax})
			if err != nil {
				return err
			}
			for _, e := range found.Items {
				failing := e.FailingSince != nil
				if failing == j.failing[e.ID] {
					continue
				}
				now := time.Now().UTC().Format(time.TimeOnly)
				if !failing {
					fmt.Fprintf(j.out, "%s  webhook delivered again to %s  %s\n", now, e.URL, e.ID)
				} else {
					attempts, err := endpoints.Log(ctx, tx, orgID, e.ID, delivery.Which{Outcome: delivery.Failed}, page.Page{Limit: 1, Desc: true})
					if err != nil {
						return err
					}
					fmt.Fprintf(j.out, "%s  webhook FAILS to %s: %s  %s\n", now, e.URL, sayAttempts(attempts.Items), e.ID)
				}
				j.failing[e.ID] = failing
			}
			return nil
		})
	})
}

// sayAttempts tells why the last attempt failed, and when the next one is.
func sayAttempts(last []delivery.Attempt) string {
	if len(last) == 0 {
		return "no attempt is kept"
	}
	a := last[0]
	why := slices.DeleteFunc([]string{a.Error, fmt.Sprintf("of %s", a.Type)}, func(s string) bool { return s == "" })
	if a.NextAt != nil {
		why = append(why, "next attempt at "+a.NextAt.UTC().Format(time.TimeOnly))
	}
	return strings.Join(why, ", ")
}
