package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/wire"
	"github.com/cofferpay/coffer/internal/withdrawal"
	"github.com/cofferpay/coffer/webhook"
)

// listFlags are the flags of the commands that show a list.
type listFlags struct {
	configFlags
	Org   string `help:"Only of this organization, org_…"`
	Limit int    `default:"50" help:"At most this many; 0 shows all."`
	JSON  bool   `name:"json" help:"Write one line of JSON per row, as in the operator's interface, instead of a table."`
}

// printList prints pages of a list until it ends or the limit is reached. row returns a line of the
// table, with tabs between its columns, and object returns the line of JSON.
func printList[T any](
	out io.Writer, l listFlags, titles, emptyText string, read func(pagination.Page) (pagination.Result[T], error),
	row func(T) string, object func(T) any,
) error {
	if l.Limit < 0 {
		return errors.New("--limit is 0, for all, or a number above it")
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	shown := 0
	for p := (pagination.Page{Desc: true}); ; {
		p.Limit = pagination.LimitMax
		if left := l.Limit - shown; l.Limit > 0 {
			p.Limit = min(left, pagination.LimitMax)
		}
		found, err := read(p)
		if err != nil {
			return err
		}
		for _, item := range found.Items {
			if shown++; l.JSON {
				if err := encoder.Encode(object(item)); err != nil {
					return err
				}
				continue
			}
			if shown == 1 {
				fmt.Fprintln(w, titles)
			}
			fmt.Fprintln(w, row(item))
		}
		hasMore := found.NextCursor != nil
		if p.Cursor = found.NextCursor; !hasMore || l.Limit > 0 && shown >= l.Limit {
			if hasMore && !l.JSON {
				fmt.Fprintf(w, "There are more than these %d: --limit 0 shows all.\n", shown)
			}
			break
		}
	}
	if shown == 0 && !l.JSON {
		fmt.Fprintln(w, emptyText)
	}
	return w.Flush()
}

type depositsList struct {
	listFlags
	Customer string `help:"Only of this customer."`
	Status   string `help:"Only in this status, such as CONFIRMING or CREDITED."`
	Chain    string `help:"Only on this chain."`
	Mint     int    `help:"Only of the mint with this number."`
	Tx       string `help:"Only of the transaction with this hash."`
}

func (c depositsList) Run(ctx context.Context, std streams) error {
	tools, err := c.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	f := deposit.Filter{
		CustomerID: c.Customer, Status: strings.ToUpper(c.Status), Chain: strings.ToUpper(c.Chain), MintID: c.Mint,
		TxHash: c.Tx,
	}
	return printList(std.out, c.listFlags, "DEPOSIT\tCUSTOMER\tAMOUNT\tCHAIN\tSTATUS\tCONFIRMATIONS\tSEEN\tTRANSACTION",
		"There is no such deposit.",
		func(p pagination.Page) (found pagination.Result[deposit.OrgDeposit], err error) {
			return found, tools.DB().ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
				found, err = deposit.ListAcrossOrgs(ctx, tx, c.Org, f, p)
				return err
			})
		},
		func(o deposit.OrgDeposit) string {
			d := wire.Deposit(o.Deposit)
			return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%d of %d\t%s\t%s", d.DepositID, ownerName(
				d.CustomerID, d.Product,
			), formatAmount(d), d.Chain, d.Status,
				d.Confirmations, d.ConfirmationsRequired, d.CreatedAt, shorten(d.TxHash))
		},
		func(o deposit.OrgDeposit) any {
			return struct { // as in the operator's interface
				OrganizationID string `json:"organizationId"`
				webhook.Deposit
			}{o.OrgID, wire.Deposit(o.Deposit)}
		})
}

// ownerName returns the owner of a deposit's or withdrawal's balance: a customer, or a product of
// the organization.
func ownerName(customer, product *string) string {
	switch {
	case customer != nil:
		return *customer
	case product != nil:
		return *product
	}
	return "-"
}

type withdrawalsList struct {
	listFlags
	Customer string `help:"Only of this customer."`
	Status   string `help:"Only in this status, such as AWAITING_APPROVAL or COMPLETED."`
	Chain    string `help:"Only on this chain."`
	Mint     *int   `help:"Only of the mint with this number."`
	Tx       string `help:"Only of the transaction with this hash."`
}

func (c withdrawalsList) Run(ctx context.Context, std streams) error {
	tools, err := c.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	f := withdrawal.Filter{
		CustomerID: c.Customer, Status: strings.ToUpper(c.Status), Chain: strings.ToUpper(c.Chain), MintID: c.Mint,
		TxHash: c.Tx,
	}
	return printList(std.out, c.listFlags, "WITHDRAWAL\tFROM\tAMOUNT\tCHAIN\tTO\tSTATUS\tREQUESTED\tTRANSACTION",
		"There is no such withdrawal.",
		func(p pagination.Page) (pagination.Result[withdrawal.OrgWithdrawal], error) {
			return tools.Withdrawals.ListAcrossOrgs(ctx, c.Org, f, p)
		},
		func(o withdrawal.OrgWithdrawal) string {
			w := wire.Withdrawal(o.Withdrawal)
			return fmt.Sprintf("%s\t%s\t%s %s\t%s\t%s\t%s\t%s\t%s", w.WithdrawalID, ownerName(
				w.CustomerID, w.Product,
			), w.AmountDecimal, w.Mint.Symbol,
				w.Mint.Chain, shorten(w.ToAddress), formatStatus(w), w.CreatedAt, shortHash(w))
		},
		func(o withdrawal.OrgWithdrawal) any {
			return struct {
				OrganizationID string `json:"organizationId"`
				webhook.Withdrawal
			}{o.OrgID, wire.Withdrawal(o.Withdrawal)}
		})
}

// formatStatus formats a withdrawal's status with the details for a person.
func formatStatus(w webhook.Withdrawal) string {
	reason := w.FailureReason
	if reason == nil {
		reason = w.RejectedReason
	}
	switch {
	case w.Status == string(withdrawal.AwaitingApproval) && len(w.ApprovalReasons) > 0:
		return w.Status + " for " + strings.Join(w.ApprovalReasons, ", ")
	case reason != nil:
		return w.Status + ": " + *reason
	}
	return w.Status
}

func shortHash(w webhook.Withdrawal) string {
	if w.TxHash == nil {
		return "-"
	}
	return shorten(*w.TxHash)
}

type customersCmd struct {
	List customersList `cmd:"" default:"withargs" help:"Show the customers of an organization, newest first (the default)."`
}

type customersList struct {
	listFlags
	Customer string `help:"Only the customer with this id."`
	Status   string `help:"Only ACTIVE or FROZEN ones."`
}

func (c customersList) Run(ctx context.Context, std streams) error {
	tools, err := c.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	f := customer.Filter{CustomerID: c.Customer, Status: strings.ToUpper(c.Status)}
	return forOrgs(ctx, tools.DB(), c.Org, func(orgID string) error {
		return printList(std.out, c.listFlags, "CUSTOMER\tSTATUS\tE-MAIL\tSINCE\tORGANIZATION",
			"There is no such customer of "+orgID+".",
			func(p pagination.Page) (found pagination.Result[customer.Customer], err error) {
				return found, tools.DB().ReadOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) (err error) {
					found, err = customer.List(ctx, tx, orgID, f, p)
					return err
				})
			},
			func(c customer.Customer) string {
				email := c.Email
				if email == "" {
					email = "-"
				}
				return fmt.Sprintf("%s\t%s\t%s\t%s\t%s", c.ID, c.Status(), email, webhook.At(c.CreatedAt), orgID)
			},
			func(c customer.Customer) any {
				return map[string]any{
					"organizationId": orgID, "customerId": c.ID, "status": c.Status(), "email": c.Email,
					"metadata": c.Metadata, "createdAt": webhook.At(c.CreatedAt),
				}
			})
	})
}

// forOrgs calls fn for the named organization, or for every one if none is named.
func forOrgs(ctx context.Context, db *pg.DB, named string, fn func(orgID string) error) error {
	if named != "" {
		return fn(named)
	}
	var orgIDs []string
	if err := forEachOrg(ctx, db, func(o org.View) { orgIDs = append(orgIDs, o.ID) }); err != nil {
		return err
	}
	for _, id := range orgIDs {
		if err := fn(id); err != nil {
			return err
		}
	}
	return nil
}
