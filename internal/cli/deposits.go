package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/member"
	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/wire"
	"github.com/cofferpay/coffer/webhook"
)

type depositsCmd struct {
	Flagged  depositsFlagged  `cmd:"" default:"withargs" help:"Show the deposits that wait for a decision, and those whose transfer is not final (the default)."`
	List     depositsList     `cmd:"" help:"Show deposits, newest first."`
	Approve  depositsApprove  `cmd:"" help:"Approve a flagged deposit: the service credits it."`
	Reject   depositsReject   `cmd:"" help:"Reject a flagged deposit: the service sends it back to its sender."`
	Redirect depositsRedirect `cmd:"" help:"Redirect a flagged deposit, as the operator."`
	Complete depositsComplete `cmd:"" help:"Send the transfer of a stuck resolution again, as the operator."`
	Rescreen depositsRescreen `cmd:"" help:"Screen the sender of a flagged deposit again. It decides nothing."`
}

type depositsFlagged struct {
	configFlags
	Org     string `help:"Only of this organization, org_…"`
	History bool   `help:"Show resolved deposits instead."`
}

// openStatuses are the states of a flagged deposit that is not resolved, and resolvedStatuses those
// of a resolved one.
var (
	openStatuses = []deposit.Status{
		deposit.Flagged, deposit.ResolutionStuck, deposit.Rejecting, deposit.Redirecting,
	}
	resolvedStatuses = []deposit.Status{deposit.Credited, deposit.Reversed, deposit.Rejected, deposit.Redirected}
)

func (c depositsFlagged) Run(ctx context.Context, std streams) error {
	tools, err := c.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	statuses := openStatuses
	if c.History {
		statuses = resolvedStatuses
	}
	flagged, n := true, 0
	for _, status := range statuses {
		for p := (pagination.Page{Limit: pagination.LimitMax}); ; {
			var found pagination.Result[deposit.OrgDeposit]
			err := tools.DB().ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
				found, err = deposit.ListAcrossOrgs(ctx, tx, c.Org,
					deposit.Filter{Status: string(status), IsFlagged: &flagged}, p)
				return err
			})
			if err != nil {
				return err
			}
			for _, o := range found.Items {
				printFlagged(std.out, o)
				n++
			}
			if found.NextCursor == nil {
				break
			}
			p.Cursor = found.NextCursor
		}
	}
	switch {
	case n == 0 && c.History:
		fmt.Fprintln(std.out, "No flagged deposit is resolved.")
	case n == 0:
		fmt.Fprintln(std.out, "No deposit is flagged.")
	}
	return nil
}

// printFlagged prints a flagged deposit with the facts for a decision, and the decision if there is
// one.
func printFlagged(out io.Writer, o deposit.OrgDeposit) {
	d := wire.Deposit(o.Deposit)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	value := ""
	if d.USDValue != nil {
		value = ", $" + *d.USDValue
	}
	fmt.Fprintf(w, "%s\t%s\t%s%s\tof %s\n", d.DepositID, d.Status, formatAmount(d), value, o.OrgID)
	owner := "its own"
	if d.CustomerID != nil {
		owner = fmt.Sprintf("%q", *d.CustomerID)
	}
	fmt.Fprintf(w, "  for %s\tfrom %s on %s\tseen %s\n", owner, strings.Join(d.FromAddresses, " "), d.Chain,
		d.CreatedAt)
	fmt.Fprintf(w, "  why\t%s\n", formatReason(d))
	if f := d.FreshScreening; f != nil {
		fmt.Fprintf(w, "  since\t%s\n", formatFreshScreening(f))
	}
	if returnRisk := d.ReturnAddressRisk; returnRisk != nil && *returnRisk != "NONE" {
		fmt.Fprintf(w, "  to send back\t%s: look at it before you reject\n", *returnRisk)
	}
	for _, attempt := range d.ResolutionAttempts {
		fmt.Fprintf(w, "  tried\t%s %s: %s, %s\n", attempt.At, attempt.Action, attempt.Reason, attempt.Message)
	}
	if r := d.Resolution; r != nil {
		fmt.Fprintf(w, "  decided\t%s by %s %s at %s%s\n", r.Decision, r.DecidedBy.Type, formatActor(r.DecidedBy),
			r.DecidedAt, formatNote(r))
		if r.ToAddress != nil {
			fmt.Fprintf(w, "  sent\t%s\n", formatTransfer(r))
		}
	}
	_ = w.Flush()
}

func formatAmount(d webhook.Deposit) string {
	if d.Mint == nil || d.AmountDecimal == nil {
		return d.Amount + " units"
	}
	return *d.AmountDecimal + " " + d.Mint.Symbol
}

func formatReason(d webhook.Deposit) string {
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
			words = append(words, "ON A SANCTIONS LIST")
		}
	}
	return strings.Join(words, "  ")
}

func formatFreshScreening(f *webhook.FreshScreening) string {
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

func formatActor(actor webhook.Actor) string {
	if actor.Name != nil {
		return *actor.Name
	}
	return actor.ID
}

func formatNote(r *webhook.Resolution) string {
	note := ""
	if r.Reason != nil {
		note += ", " + *r.Reason
	}
	if r.Reference != nil {
		note += fmt.Sprintf(", %q", *r.Reference)
	}
	if r.Note != nil {
		note += fmt.Sprintf(", %q", *r.Note)
	}
	return note
}

func formatTransfer(r *webhook.Resolution) string {
	transfer := "to " + *r.ToAddress
	if r.Amount != nil {
		transfer += ", " + *r.Amount + " units"
	}
	if r.TxHash != nil {
		transfer += ", in " + *r.TxHash
	}
	return transfer
}

// flaggedDepositFlags are the flags of the verbs on one deposit.
type flaggedDepositFlags struct {
	configFlags
	ID   string `arg:"" help:"The deposit, dep_…"`
	Note string `help:"The reason, for the record."`
}

// runDecision makes a decision and returns its result.
func (c flaggedDepositFlags) runDecision(
	ctx context.Context, flags deciderFlags,
	decide func(context.Context, *deposit.Service, deposit.Actor) (deposit.Deposit, error),
) (d webhook.Deposit, err error) {
	tools, err := c.openTools(ctx)
	if err != nil {
		return d, err
	}
	defer tools.Close()
	decider, err := flags.findDecider(ctx, tools.DB())
	if err != nil {
		return d, err
	}
	decided, err := decide(ctx, tools.Deposits, decider)
	return wire.Deposit(decided), err
}

// deciderFlags name who decides at a terminal: a member of the organization, or the operator.
type deciderFlags struct {
	As       string `xor:"who" placeholder:"EMAIL" help:"The person who decides; the first person of the local world if left out."`
	Operator bool   `xor:"who" help:"Decide as the operator."`
}

// operatorDecider is the operator, at a terminal.
var operatorDecider = deposit.Actor{Actor: operator}

// Rule DEP-55.
func (w deciderFlags) findDecider(ctx context.Context, db *pg.DB) (decider deposit.Actor, err error) {
	const unchanged = "; nothing was decided, and the deposit is unchanged"
	if w.Operator {
		return operatorDecider, nil
	}
	email := w.As
	if email == "" {
		info, err := localworld.ReadInfo(".")
		if err != nil || len(info.Users) == 0 {
			return decider, errors.New("name who decides, with --as EMAIL or --operator" + unchanged)
		}
		email = info.Users[0].Email
	}
	var p member.Member
	err = db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		p, err = member.ByEmail(ctx, tx, email)
		return err
	})
	if err != nil {
		return decider, fmt.Errorf("%s: %w"+unchanged, email, err)
	}
	if !p.IsAllowed(identity.DecideFlaggedDeposit) {
		return decider, fmt.Errorf(
			"%s may not decide about flagged deposits: this needs the role OWNER, ADMIN or APPROVER"+unchanged, email,
		)
	}
	return deposit.Actor{Actor: audit.User(p.ID), Name: p.Email, OrgID: p.OrgID}, nil
}

type depositsApprove struct {
	flaggedDepositFlags
	deciderFlags
}

func (c depositsApprove) Run(ctx context.Context, std streams) error {
	d, err := c.runDecision(ctx, c.deciderFlags,
		func(ctx context.Context, s *deposit.Service, decider deposit.Actor) (deposit.Deposit, error) {
			return s.Approve(ctx, c.ID, decider, c.Note)
		})
	if err != nil {
		return err
	}
	fmt.Fprintf(std.out, "%s of %s is %s, approved by %s: it is credited to "+
		"%s.\n", d.DepositID, formatAmount(d), d.Status,
		formatActor(d.Resolution.DecidedBy), balanceOwner(d))
	return nil
}

func balanceOwner(d webhook.Deposit) string {
	if d.CustomerID != nil {
		return *d.CustomerID
	}
	return "the organization"
}

type depositsReject struct {
	flaggedDepositFlags
	deciderFlags
}

func (c depositsReject) Run(ctx context.Context, std streams) error {
	d, err := c.runDecision(ctx, c.deciderFlags,
		func(ctx context.Context, s *deposit.Service, decider deposit.Actor) (deposit.Deposit, error) {
			return s.Reject(ctx, c.ID, decider, c.Note)
		})
	if err != nil {
		return err
	}
	if d.FlagReason != nil && d.FlagReason.Sanctioned {
		fmt.Fprintln(
			std.err,
			"coffer: the sender is on a sanctions list. The law may forbid you to send blocked property back; "+
				"sanctioned_reject = \"BLOCK\" refuses it.",
		)
	}
	printLeaving(std.out, d, "back")
	return nil
}

func printLeaving(out io.Writer, d webhook.Deposit, direction string) {
	r := d.Resolution
	outcome := "the running service sends it, and " + d.DepositID + " shows the hash once it is sent"
	if d.Status == string(deposit.Rejected) || d.Status == string(deposit.Redirected) {
		outcome = "the transfer is final, in " + textOrDash(r.TxHash)
	}
	fmt.Fprintf(out, "%s of %s is %s by %s: it goes %s to %s; %s.\n", d.DepositID, formatAmount(d), d.Status,
		formatActor(r.DecidedBy), direction, textOrDash(r.ToAddress), outcome)
}

func textOrDash(s *string) string {
	if s == nil {
		return "-"
	}
	return *s
}

type depositsRedirect struct {
	flaggedDepositFlags
	To        string `required:"" placeholder:"ADDRESS" help:"The destination."`
	Reason    string `default:"COMPLIANCE_HOLD" help:"COMPLIANCE_HOLD or LAW_ENFORCEMENT."`
	Reference string `required:"" help:"The reference of the case or of the order."`
	As        string `placeholder:"EMAIL" help:"A person, who is not allowed to redirect; only the operator is."`
}

func (c depositsRedirect) Run(ctx context.Context, std streams) error {
	d, err := c.runDecision(ctx, deciderFlags{As: c.As, Operator: c.As == ""},
		func(ctx context.Context, s *deposit.Service, decider deposit.Actor) (deposit.Deposit, error) {
			return s.Redirect(ctx, c.ID, decider,
				deposit.Redirection{ToAddress: c.To, Reason: c.Reason, Reference: c.Reference, Note: c.Note})
		})
	if err != nil {
		return err
	}
	printLeaving(std.out, d, "elsewhere,")
	return nil
}

type depositsComplete struct{ flaggedDepositFlags }

func (c depositsComplete) Run(ctx context.Context, std streams) error {
	d, err := c.runDecision(ctx, deciderFlags{Operator: true},
		func(ctx context.Context, s *deposit.Service, decider deposit.Actor) (deposit.Deposit, error) {
			return s.Complete(ctx, c.ID, decider, c.Note)
		})
	if err != nil {
		return err
	}
	printLeaving(std.out, d, "again")
	return nil
}

type depositsRescreen struct {
	configFlags
	ID string `arg:"" help:"The deposit, dep_…"`
}

func (c depositsRescreen) Run(ctx context.Context, std streams) error {
	tools, err := c.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	rescreened, err := tools.NewRescreener().RescreenDeposit(ctx, c.ID, operatorDecider)
	if err != nil {
		return err
	}
	d := wire.Deposit(rescreened)
	fmt.Fprintf(std.out, "flagged   %s\nnow       %s\nIt has no effect: %s is %s, and a person decides.\n",
		formatReason(d), formatFreshScreening(d.FreshScreening), d.DepositID, d.Status)
	return nil
}
