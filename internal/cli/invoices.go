package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/cofferpay/coffer/internal/app"
	"github.com/cofferpay/coffer/internal/billing"
	"github.com/cofferpay/coffer/internal/billing/document"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// The results of commands that found something.
var (
	errDiffers   = errors.New("the invoice differs from what it is computed from")
	errUnread    = errors.New("the chains did not show all transactions, so the invoice is not verified on chain")
	errNotBilled = errors.New("the invoices of some organizations could not be issued; repeat the run")
)

// unreadShownMax is how many fees a verification names that could not be read.
const unreadShownMax = 20

type billingRun struct {
	configFlags
	operatorFlags
	Month string `required:"" xor:"month" placeholder:"2026-01" help:"The month in UTC, which is over."`
	Early bool   `required:"" xor:"month" help:"The running month, with what became due until now. Only a local world has it; what becomes due afterwards is on the next invoice."`
	Org   string `help:"Only this organization, org_…"`
}

// Run issues the invoices of the month.
func (c billingRun) Run(ctx context.Context, std streams) error {
	return c.act(ctx, c.configFlags, func(tools *app.App, actor audit.Actor) error {
		issue := func() (billing.RunResult, error) {
			if c.Early {
				return tools.Billing.IssueEarly(ctx, c.Org, actor)
			}
			return tools.Billing.IssueInvoices(ctx, c.Month, c.Org, actor)
		}
		r, err := issue()
		if err != nil {
			return err
		}
		w := tabwriter.NewWriter(std.out, 0, 0, 2, ' ', 0)
		for _, inv := range r.Invoices {
			fmt.Fprintf(w, "%s\t%s\t%s\t$%s\t%s\n", inv.ID, inv.Number, inv.OrgID, inv.Total.Cents(), inv.Status)
		}
		for _, s := range r.Skipped {
			reason := "owes less than a cent"
			if s.Reason == billing.NoTerms {
				reason = "there are no billing terms of it or of the installation"
			}
			fmt.Fprintf(w, "-\t-\t%s\t%s\n", s.OrgID, reason)
		}
		for _, f := range r.Failed {
			fmt.Fprintf(w, "-\t-\t%s\tfailed: %v\n", f.OrgID, f.Err)
		}
		fmt.Fprintf(w, "%d issued for %s.\n", r.Issued, r.Month)
		if err := w.Flush(); err != nil || len(r.Failed) == 0 {
			return err
		}
		return errNotBilled
	})
}

// act runs a command as the operator whose key file is named, or as the terminal.
func (c operatorFlags) act(
	ctx context.Context, config configFlags, run func(tools *app.App, actor audit.Actor) error,
) error {
	tools, err := config.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	key, err := c.authenticate(ctx, tools)
	if err != nil {
		return err
	}
	return run(tools, key.Actor())
}

type billingVerify struct {
	configFlags
	ID      string `arg:"" name:"invoice" help:"The invoice, inv_… or its number."`
	Offline bool   `help:"Ask no chain: compare with the ledger, the proven transactions and the prices alone."`
}

// Run computes the invoice again.
func (c billingVerify) Run(ctx context.Context, std streams) error {
	tools, err := c.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	verify := tools.Billing.VerifyOnChain
	if c.Offline {
		verify = tools.Billing.Verify
	}
	invoiceID := c.ID
	if !strings.HasPrefix(invoiceID, "inv_") {
		if invoiceID, err = tools.Billing.InvoiceIDByNumber(ctx, c.ID); err != nil {
			return err
		}
	}
	v, err := verify(ctx, invoiceID)
	if err != nil {
		return err
	}
	if v.Difference != "" {
		fmt.Fprintf(std.out, "%s: %s\n", v.Invoice.Number, v.Difference)
		return errDiffers
	}
	fmt.Fprintf(std.out, "%s of $%s: all %d lines are what the ledger, the proven transactions and the prices say.\n",
		v.Invoice.Number, v.Invoice.Total.Cents(), v.Lines)
	if c.Offline {
		fmt.Fprintln(std.out, "No chain was asked.")
		return nil
	}
	fmt.Fprintf(std.out, "%d transactions cost what their chains say.\n", v.ChainFees)
	for i, u := range v.Unread {
		if i == unreadShownMax {
			fmt.Fprintf(std.out, "… and %d more.\n", len(v.Unread)-i)
			break
		}
		fmt.Fprintf(std.out, "%s, transaction %s, could not be read: %s\n", u.FeeLineID, u.TxHash, u.Reason)
	}
	if len(v.Unread) > 0 {
		return errUnread
	}
	return nil
}

type billingPaid struct {
	configFlags
	operatorFlags
	ID        string `arg:"" help:"The invoice, inv_…"`
	Reference string `required:"" help:"Your reference of the payment."`
}

// Run marks the invoice as paid.
func (c billingPaid) Run(ctx context.Context, std streams) error {
	return c.act(ctx, c.configFlags, func(tools *app.App, actor audit.Actor) error {
		inv, err := tools.Billing.MarkPaid(ctx, c.ID, c.Reference, actor)
		if err != nil {
			return err
		}
		fmt.Fprintf(std.out, "%s of $%s is paid since %s, by %s.\n", inv.Number, inv.Total.Cents(),
			formatTime(*inv.PaidAt),
			*inv.PaidReference)
		return nil
	})
}

type billingCredit struct {
	configFlags
	operatorFlags
	ID     string   `arg:"" help:"The invoice, inv_…"`
	Key    string   `required:"" help:"Your name for this credit note. The same one never makes a second note."`
	Reason string   `required:"" help:"Why, in one line."`
	Line   []string `help:"A fee to give back, fee_…, or a part of it in atomic units: fee_…=5000. Without any, all that is left of the invoice."`
}

// Run issues the credit note.
func (c billingCredit) Run(ctx context.Context, std streams) error {
	r := billing.CreditRequest{InvoiceID: c.ID, IdempotencyKey: c.Key, Reason: c.Reason}
	for _, text := range c.Line {
		name, part, isPart := strings.Cut(text, "=")
		line := billing.CreditLine{FeeLineID: name}
		if isPart {
			amount, err := money.Parse(part)
			if err != nil {
				return fmt.Errorf("--line %s: name a whole number of atomic units", text)
			}
			line.Amount = &amount
		}
		r.Lines = append(r.Lines, line)
	}
	return c.act(ctx, c.configFlags, func(tools *app.App, actor audit.Actor) error {
		note, err := tools.Billing.IssueCreditNote(ctx, r, actor)
		if err != nil {
			return err
		}
		fmt.Fprintf(std.out, "%s gives back $%s of %s.\n", note.Number, note.Total.Cents(), note.InvoiceNumber)
		return nil
	})
}

type billingTerms struct {
	configFlags
	operatorFlags
	Org              string   `help:"Of this organization, org_…; without it, of the installation, which sells."`
	LegalName        string   `help:"Set the legal name. With it and --address, the terms are set as a whole."`
	Address          []string `sep:"none" help:"A line of the address; once for each line."`
	TaxID            string   `help:"The tax number."`
	Email            string   `help:"The e-mail for questions."`
	TaxRateBps       *int     `help:"The rate of the tax, in basis points."`
	TaxNote          *string  `help:"What invoices say about the tax."`
	InvoiceSeries    *string  `help:"The series of the numbers of invoices, such as INV."`
	CreditNoteSeries *string  `help:"The series of the numbers of credit notes, such as CN."`
	BillingDay       *int     `help:"The day of the month after on which invoices are issued."`
	Language         *string  `help:"The language of the documents, such as en."`
}

// Run shows the terms, or sets them.
func (c billingTerms) Run(ctx context.Context, std streams) error {
	tools, err := c.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	if c.LegalName == "" {
		t, err := tools.Billing.TermsByOrg(ctx, c.Org)
		if fault.HasCode(err, fault.CodeNotFound) {
			fmt.Fprintln(std.out, "There are no such billing terms yet.")
			return nil
		}
		if err != nil {
			return err
		}
		return printTerms(std, t)
	}
	key, err := c.authenticate(ctx, tools)
	if err != nil {
		return err
	}
	var outcome billing.TermsOutcome
	err = tools.DB().InSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		outcome, err = tools.Billing.SaveTerms(ctx, tx, key, tools.FourEyes(), billing.Terms{
			OrgID:      c.Org,
			Party:      document.Party{Name: c.LegalName, Address: c.Address, TaxID: c.TaxID, Email: c.Email},
			TaxRateBps: c.TaxRateBps, TaxNote: c.TaxNote, InvoiceSeries: c.InvoiceSeries,
			CreditNoteSeries: c.CreditNoteSeries, BillingDay: c.BillingDay, Language: c.Language,
		})
		return err
	})
	if err != nil {
		return err
	}
	if outcome.PendingChange != nil {
		fmt.Fprintln(std.out, "It waits until another operator approves it, with coffer changes approve.")
		printChange(std, *outcome.PendingChange)
		return nil
	}
	return printTerms(std, outcome.Terms)
}

func printTerms(std streams, t billing.Terms) error {
	w := tabwriter.NewWriter(std.out, 0, 0, 2, ' ', 0)
	row := func(name string, value any) { fmt.Fprintf(w, "%s\t%v\n", name, value) }
	row("version", t.Version)
	row("legal name", t.Party.Name)
	row("address", strings.Join(t.Party.Address, ", "))
	row("tax id", t.Party.TaxID)
	row("e-mail", t.Party.Email)
	row("tax rate", orInherited(t.TaxRateBps, " bps"))
	row("tax note", orInherited(t.TaxNote, ""))
	row("invoice series", orInherited(t.InvoiceSeries, ""))
	row("credit note series", orInherited(t.CreditNoteSeries, ""))
	row("billing day", orInherited(t.BillingDay, ""))
	row("language", orInherited(t.Language, ""))
	return w.Flush()
}

func orInherited[T any](value *T, unit string) string {
	if value == nil {
		return "as the installation"
	}
	return fmt.Sprint(*value) + unit
}

type billingMarks struct {
	configFlags
	operatorFlags
	Mint   int       `help:"State a price of this mint."`
	Price  string    `help:"The price of a whole token in dollars."`
	Source string    `help:"Where you have it from."`
	Moment time.Time `name:"at" help:"The moment of the price, such as 2026-01-10T12:00:00Z."`
}

const unpricedShown = 100

// Run shows the fees without a price, or stores one.
func (c billingMarks) Run(ctx context.Context, std streams) error {
	if c.Price == "" {
		return c.list(ctx, std)
	}
	price, err := money.ParseUSD(c.Price)
	if err != nil {
		return errors.New("--price is a number of dollars such as 149.80")
	}
	return c.act(ctx, c.configFlags, func(tools *app.App, actor audit.Actor) error {
		n, err := tools.Billing.AddMark(ctx, billing.AddedMark{
			MintID: c.Mint, Price: price, Source: c.Source, Moment: c.Moment,
		}, actor)
		if err != nil {
			return err
		}
		fmt.Fprintf(std.out, "Stored. %d fees have a value by it.\n", n)
		return nil
	})
}

func (c billingMarks) list(ctx context.Context, std streams) error {
	tools, err := c.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	lines, err := tools.Billing.UnpricedLines(ctx, unpricedShown)
	if err != nil {
		return err
	}
	if len(lines) == 0 {
		fmt.Fprintln(std.out, "Every fee has a price.")
		return nil
	}
	var mints mint.Catalogue
	err = tools.DB().ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		mints, err = mint.LoadCatalogue(ctx, tx)
		return err
	})
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(std.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "DUE SINCE\tORGANIZATION\tSOURCE\tMINT\tFEE")
	for _, l := range lines {
		amount := l.Amount.String() + " units"
		if m, ok := mints.ByID(l.MintID); ok {
			amount = formatUnits(l.Amount, m)
		}
		fmt.Fprintf(w, "%s\t%s\t%s %s\t%d\t%s\n", formatTime(l.IncurredAt), l.OrgID, l.SourceKind, l.SourceID,
			l.MintID, amount)
	}
	return w.Flush()
}
