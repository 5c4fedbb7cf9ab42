package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/internal/page"
	"github.com/cofferpay/coffer/internal/people"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/webhook"
)

type depositsCmd struct {
	Flagged  depositsFlagged  `cmd:"" default:"withargs" help:"Show the deposits that wait for a decision, and those whose transfer is not done (the default)."`
	List     depositsList     `cmd:"" help:"Show deposits, newest first."`
	Approve  depositsApprove  `cmd:"" help:"Approve a flagged deposit: it is credited."`
	Reject   depositsReject   `cmd:"" help:"Reject a flagged deposit: it goes back to where it came from."`
	Redirect depositsRedirect `cmd:"" help:"Send a flagged deposit elsewhere, as the operator."`
	Complete depositsComplete `cmd:"" help:"Have the transfer of a stuck one sent again, as the operator."`
	Rescreen depositsRescreen `cmd:"" help:"Ask the providers now about the sender of a flagged deposit. It decides nothing."`
}

type depositsFlagged struct {
	installation
	Org     string `help:"Only of this organization, org_…"`
	History bool   `help:"Show what was decided instead."`
}

// queued are the states of a flagged deposit that is not resolved, and resolved of one
// that is.
var (
	queued   = []deposit.Status{deposit.Flagged, deposit.ResolutionStuck, deposit.Rejecting, deposit.Redirecting}
	resolved = []deposit.Status{deposit.Credited, deposit.Reversed, deposit.Rejected, deposit.Redirected}
)

func (c depositsFlagged) Run(ctx context.Context, std streams) error {
	a, err := c.tools(ctx)
	if err != nil {
		return err
	}
	defer a.Close()
	statuses := queued
	if c.History {
		statuses = resolved
	}
	flagged, n := true, 0
	for _, status := range statuses {
		for p := (page.Page{Limit: page.LimitMax}); ; {
			var found page.Result[deposit.Owned]
			err := a.DB().ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
				found, err = deposit.Across(ctx, tx, c.Org, deposit.Filter{Status: string(status), IsFlagged: &flagged}, p)
				return err
			})
			if err != nil {
				return err
			}
			for _, o := range found.Items {
				sayFlagged(std.out, o)
				n++
			}
			if found.Next == nil {
				break
			}
			p.Cursor = found.Next
		}
	}
	switch {
	case n == 0 && c.History:
		fmt.Fprintln(std.out, "Nothing that was flagged is resolved.")
	case n == 0:
		fmt.Fprintln(std.out, "No deposit is held.")
	}
	return nil
}

// sayFlagged shows a flagged deposit with what a person needs to decide, and how it was
// decided.
func sayFlagged(out io.Writer, o deposit.Owned) {
	d := o.Object
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	value := ""
	if d.USDValue != nil {
		value = ", $" + *d.USDValue
	}
	fmt.Fprintf(w, "%s\t%s\t%s%s\tof %s\n", d.DepositID, d.Status, sayAmount(d), value, o.OrgID)
	whose := "its own"
	if d.CustomerID != nil {
		whose = fmt.Sprintf("%q", *d.CustomerID)
	}
	fmt.Fprintf(w, "  for %s\tfrom %s on %s\tseen %s\n", whose, strings.Join(d.FromAddresses, " "), d.Chain, d.CreatedAt)
	fmt.Fprintf(w, "  why\t%s\n", sayReason(d))
	if f := d.FreshScreening; f != nil {
		fmt.Fprintf(w, "  since\t%s\n", sayFresh(f))
	}
	if to := d.ReturnAddressRisk; to != nil && *to != "NONE" {
		fmt.Fprintf(w, "  to send back\t%s: look before you reject it\n", *to)
	}
	for _, a := range d.ResolutionAttempts {
		fmt.Fprintf(w, "  tried\t%s %s: %s, %s\n", a.At, a.Action, a.Reason, a.Message)
	}
	if r := d.Resolution; r != nil {
		fmt.Fprintf(w, "  decided\t%s by %s %s at %s%s\n", r.Decision, r.DecidedBy.Type, sayWho(r.DecidedBy), r.DecidedAt, sayNote(r))
		if r.ToAddress != nil {
			fmt.Fprintf(w, "  sent\t%s\n", sayTransfer(r))
		}
	}
	_ = w.Flush()
}

func sayAmount(d webhook.Deposit) string {
	if d.Mint == nil || d.AmountDecimal == nil {
		return d.Amount + " units"
	}
	return *d.AmountDecimal + " " + d.Mint.Symbol
}

func sayReason(d webhook.Deposit) string {
	words := []string{}
	if d.RiskOfFunds != nil {
		words = append(words, *d.RiskOfFunds)
	}
	if f := d.FlagReason; f != nil {
		words = append(words, f.Code)
		if f.Score != nil {
			words = append(words, fmt.Sprintf("score %d", *f.Score))
		}
		if f.Entity != nil {
			words = append(words, fmt.Sprintf("%q", *f.Entity))
		}
		words = append(words, f.Categories...)
		if f.Provider != nil {
			words = append(words, "by "+*f.Provider)
		}
		if f.Sanctioned {
			words = append(words, "ON A LIST OF SANCTIONS")
		}
	}
	return strings.Join(words, "  ")
}

func sayFresh(f *webhook.FreshScreening) string {
	words := []string{f.Severity}
	if f.Score != nil {
		words = append(words, fmt.Sprintf("score %d", *f.Score))
	}
	if f.Entity != nil {
		words = append(words, fmt.Sprintf("%q", *f.Entity))
	}
	words = append(append(words, f.Categories...), "by "+f.Provider, "at "+f.ScreenedAt.String())
	return strings.Join(words, "  ")
}

func sayWho(a webhook.Actor) string {
	if a.Name != nil {
		return *a.Name
	}
	return a.ID
}

func sayNote(r *webhook.Resolution) string {
	out := ""
	if r.Reason != nil {
		out += ", " + *r.Reason
	}
	if r.Reference != nil {
		out += fmt.Sprintf(", %q", *r.Reference)
	}
	if r.Note != nil {
		out += fmt.Sprintf(", %q", *r.Note)
	}
	return out
}

func sayTransfer(r *webhook.Resolution) string {
	out := "to " + *r.ToAddress
	if r.Amount != nil {
		out += ", " + *r.Amount + " units"
	}
	if r.TxHash != nil {
		out += ", in " + *r.TxHash
	}
	return out
}

// flaggedDeposit is what the verbs on one deposit take.
type flaggedDeposit struct {
	installation
	ID   string `arg:"" help:"The deposit, dep_…"`
	Note string `help:"Why, for the record."`
}

// resolve has somebody decide, and shows what came of it.
func (c flaggedDeposit) resolve(ctx context.Context, as who, how func(context.Context, *deposit.Resolutions, deposit.Decider) (webhook.Deposit, error)) (d webhook.Deposit, err error) {
	a, err := c.tools(ctx)
	if err != nil {
		return d, err
	}
	defer a.Close()
	by, err := as.decider(ctx, a.DB())
	if err != nil {
		return d, err
	}
	return how(ctx, a.FlaggedDeposits(), by)
}

// who decides at a terminal: a person of the organization, or the operator.
type who struct {
	As       string `xor:"who" placeholder:"EMAIL" help:"Who decides; the first person of the local world when it is not said."`
	Operator bool   `xor:"who" help:"Decide as the operator."`
}

// runner is who runs the service, at a terminal of theirs.
var runner = deposit.Decider{Actor: operator}

func (w who) decider(ctx context.Context, db *pg.DB) (by deposit.Decider, err error) {
	const nothing = "; nothing was decided, and the deposit is as it was"
	if w.Operator {
		return runner, nil
	}
	email := w.As
	if email == "" {
		info, err := localworld.Read(".")
		if err != nil || len(info.Users) == 0 {
			return by, errors.New("say who decides, with --as EMAIL or --operator" + nothing)
		}
		email = info.Users[0].Email
	}
	var p people.Person
	err = db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		p, err = people.ByEmail(ctx, tx, email)
		return err
	})
	if err != nil {
		return by, fmt.Errorf("%s: %w"+nothing, email, err)
	}
	if !p.May(people.Approve) {
		return by, fmt.Errorf("%s may not decide about flagged deposits: that takes the role OWNER, ADMIN or APPROVER"+nothing, email)
	}
	return deposit.Decider{Actor: audit.User(p.ID), Name: p.Email, OrgID: p.OrgID}, nil
}

type depositsApprove struct {
	flaggedDeposit
	who
}

func (c depositsApprove) Run(ctx context.Context, std streams) error {
	d, err := c.resolve(ctx, c.who, func(ctx context.Context, r *deposit.Resolutions, by deposit.Decider) (webhook.Deposit, error) {
		return r.Approve(ctx, c.ID, by, c.Note)
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(std.out, "%s of %s is %s, approved by %s: it is %s's.\n", d.DepositID, sayAmount(d), d.Status, sayWho(d.Resolution.DecidedBy), holder(d))
	return nil
}

func holder(d webhook.Deposit) string {
	if d.CustomerID != nil {
		return *d.CustomerID
	}
	return "the organization"
}

type depositsReject struct {
	flaggedDeposit
	who
}

func (c depositsReject) Run(ctx context.Context, std streams) error {
	d, err := c.resolve(ctx, c.who, func(ctx context.Context, r *deposit.Resolutions, by deposit.Decider) (webhook.Deposit, error) {
		return r.Reject(ctx, c.ID, by, c.Note)
	})
	if err != nil {
		return err
	}
	if d.FlagReason != nil && d.FlagReason.Sanctioned {
		fmt.Fprintln(std.err, "coffer: its sender is on a list of sanctions. To send blocked property back may be forbidden where you are; sanctioned_reject = \"BLOCK\" refuses it.")
	}
	sayLeaving(std.out, d, "back")
	return nil
}

func sayLeaving(out io.Writer, d webhook.Deposit, where string) {
	r := d.Resolution
	done := "the running service sends it, and " + d.DepositID + " has the hash when it is out"
	if d.Status == string(deposit.Rejected) || d.Status == string(deposit.Redirected) {
		done = "it is there, in " + text(r.TxHash)
	}
	fmt.Fprintf(out, "%s of %s is %s by %s: it goes %s to %s; %s.\n", d.DepositID, sayAmount(d), d.Status, sayWho(r.DecidedBy), where, text(r.ToAddress), done)
}

func text(s *string) string {
	if s == nil {
		return "-"
	}
	return *s
}

type depositsRedirect struct {
	flaggedDeposit
	To        string `required:"" placeholder:"ADDRESS" help:"Where it goes."`
	Reason    string `default:"COMPLIANCE_HOLD" help:"COMPLIANCE_HOLD or LAW_ENFORCEMENT."`
	Reference string `required:"" help:"Of the case or the order that it follows."`
	As        string `placeholder:"EMAIL" help:"Somebody else than the operator, who may not."`
}

func (c depositsRedirect) Run(ctx context.Context, std streams) error {
	d, err := c.resolve(ctx, who{As: c.As, Operator: c.As == ""}, func(ctx context.Context, r *deposit.Resolutions, by deposit.Decider) (webhook.Deposit, error) {
		return r.Redirect(ctx, c.ID, by, deposit.Redirection{To: c.To, Reason: c.Reason, Reference: c.Reference, Note: c.Note})
	})
	if err != nil {
		return err
	}
	sayLeaving(std.out, d, "elsewhere,")
	return nil
}

type depositsComplete struct{ flaggedDeposit }

func (c depositsComplete) Run(ctx context.Context, std streams) error {
	d, err := c.resolve(ctx, who{Operator: true}, func(ctx context.Context, r *deposit.Resolutions, by deposit.Decider) (webhook.Deposit, error) {
		return r.Complete(ctx, c.ID, by, c.Note)
	})
	if err != nil {
		return err
	}
	sayLeaving(std.out, d, "again")
	return nil
}

type depositsRescreen struct {
	installation
	ID string `arg:"" help:"The deposit, dep_…"`
}

func (c depositsRescreen) Run(ctx context.Context, std streams) error {
	a, err := c.tools(ctx)
	if err != nil {
		return err
	}
	defer a.Close()
	d, err := a.Rescreener().Now(ctx, c.ID, runner)
	if err != nil {
		return err
	}
	fmt.Fprintf(std.out, "flagged   %s\nnow       %s\nNothing follows from it: %s is %s, and a person decides.\n", sayReason(d), sayFresh(d.FreshScreening), d.DepositID, d.Status)
	return nil
}
