package identity

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// titles are the actions of people in words, in the order of the page.
var titles = []struct {
	action Action
	title  string
}{
	{ReadOrganization, "see balances, transactions, customers, settings"},
	{DecideWithdrawal, "approve or remove a held withdrawal, approve or reject a swap of the organization's own money"},
	{DecideFlaggedDeposit, "approve or reject a flagged deposit"},
	{WithdrawOwnMoney, "request a withdrawal or a swap of the organization's own money, cancel such a swap"},
	{Transfer, "transfer between balances"},
	{RestoreSwap, "restore a failed swap of a customer"},
	{FreezeCustomer, "freeze a customer"},
	{UnfreezeCustomer, "lift the organization's freeze of a customer"},
	{SetCustomerEmail, "change a customer's e-mail"},
	{ManageKeys, "roll the API key, manage further keys"},
	{ManageProducts, "create, change and archive products, create, change and end payment links"},
	{ManageCheckouts, "create and cancel checkouts, open their options"},
	{DecideCheckout, "accept what was paid for a checkout, give an unmatched payment to one"},
	{RefundCheckout, "refund a checkout or an unmatched payment, give a refund another claim key"},
	{CancelRefund, "cancel a refund"},
	{ManageBatchPayouts, "make, submit and resume a batch payout, make one of its unpaid rows"},
	{StopBatchPayout, "pause a batch payout, cancel one before its approval"},
	{ChangeCheckouts, "change the settings of checkouts"},
	{ManageWebhooks, "create, change and delete webhook endpoints"},
	{ReplaceWebhookSecret, "replace the secret of an endpoint"},
	{ResendEvents, "resend and recover events"},
	{ChangeControls, "change thresholds, the approval allowlist and the quorum"},
	{InviteMember, "invite a member"},
	{ChangeMemberRoles, "change a member's roles"},
	{EndMemberAccess, "end a member's access and sessions"},
	{ExportRecords, "export tables"},
	{ReadAuditLog, "read the audit log"},

	{ReadInstallation, "see everything of the installation"},
	{RedirectFlaggedDeposit, "redirect a flagged deposit"},
	{CompleteResolution, "complete a stuck resolution"},
	{RescreenSender, "screen a sender again"},
	{CreateOrganization, "create an organization"},
	{ReplaceOrganizationKey, "roll or revoke an organization's key"},
	{ChangeSettings, "change an organization's settings"},
	{AddWhitelistEntry, "add an address to a whitelist"},
	{RemoveWhitelistEntry, "remove an address from a whitelist"},
	{RequestChange, "request a change that loosens a control"},
	{ApproveChange, "approve another operator's change request"},
	{RetractChange, "retract the own change request"},
	{FreezePayments, "freeze payments"},
	{LiftFreeze, "lift a freeze"},
	{EditLocalRisk, "edit the local list of screening"},
	{LookAtSwap, "have a swap looked at"},
	{FailSwap, "end a swap as failed"},
	{WriteOffSwap, "write off what a swap provider owes"},
	{DecideSwapArrival, "decide about a stray arrival of a swap"},
	{ManageSwapProviders, "suspend and resume a swap provider"},
	{ChangeBillingTerms, "set what invoices print, their tax and series"},
	{IssueInvoices, "issue the invoices of a month"},
	{MarkInvoicePaid, "mark an invoice as paid"},
	{CreditInvoice, "issue a credit note"},
	{AddPriceMark, "state a price for a moment without one"},
	{AdvanceOrder, "raise the fee of an order, resolve a stuck one"},
	{ManageJobs, "repeat and cancel jobs"},
	{SignAsOperator, "make passkeys of operators, change their rule, sign what it asks for"},
}

var factors = map[StepUp]string{NoFactor: "none", SudoFactor: "within ten minutes", ActFactor: "with the act"}

// drawRoles writes the page.
func drawRoles() string {
	var b strings.Builder
	b.WriteString("# Roles\n\nWho may do what, and which second factor it takes. Drawn from the table in " +
		"`internal/identity/permission.go`\nby its test.\n\n" +
		"- A member does what one of the roles allows. *Own* means only what the member did.\n" +
		"- The second factor is given with the act, for that act alone, or within the last ten minutes.\n" +
		"- An ADMIN manages no OWNER and no ADMIN, and makes none.\n" +
		"- The requester of a withdrawal or of a swap never approves it.\n\n" +
		"## Members of an organization\n\n| Action |")
	for _, r := range Roles {
		b.WriteString(" " + string(r) + " |")
	}
	b.WriteString(" Second factor |\n|---|" + strings.Repeat("---|", len(Roles)+1) + "\n")
	for _, line := range titles {
		row := PermissionOf(line.action)
		if row.Roles == nil {
			continue
		}
		fmt.Fprintf(&b, "| %s |", line.title)
		for _, r := range Roles {
			switch {
			case slices.Contains(row.Roles, r):
				b.WriteString(" yes |")
			case slices.Contains(row.OwnRoles, r):
				b.WriteString(" own |")
			default:
				b.WriteString(" – |")
			}
		}
		fmt.Fprintf(&b, " %s |\n", factors[row.StepUp])
	}
	b.WriteString("\n## Operators\n\n| Action | OPERATOR | AUDITOR | Second factor |\n|---|---|---|---|\n")
	marks := map[bool]string{true: "yes", false: "–"}
	for _, line := range titles {
		if row := PermissionOf(line.action); row.Operator {
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", line.title, marks[row.AllowsOperator(FullOperator)],
				marks[row.AllowsOperator(Auditor)], factors[row.StepUp])
		}
	}
	return b.String()
}

// The page shows the table. COFFER_UPDATE=1 writes it. Rule ROLE-1.
func TestTheRolesPageIsDrawn(t *testing.T) {
	t.Parallel()
	page := filepath.Join("..", "..", "docs", "roles.md")
	want := drawRoles()
	if os.Getenv("COFFER_UPDATE") == "1" {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(page)
	if err != nil || string(got) != want {
		t.Errorf("docs/roles.md is not what the table says: run make generate and commit it (%v)", err)
	}
	listed := map[Action]bool{}
	for _, line := range titles {
		listed[line.action] = true
	}
	for action, row := range permissions {
		if (row.Roles != nil || row.Operator) != listed[action] {
			t.Errorf("%s: people may do it %v, and the page has a line of it %v", action,
				row.Roles != nil || row.Operator, listed[action])
		}
	}
}

// What people change takes a second factor, and what they read takes none. Money, flagged deposits, freezes and what
// counts as paid take one for the act alone. Rule ROLE-2.
func TestEveryChangeTakesASecondFactor(t *testing.T) {
	t.Parallel()
	free := []Action{ReadOrganization, ResendEvents, ExportRecords, ReadAuditLog, ReadInstallation}
	act := []Action{
		DecideWithdrawal, WithdrawOwnMoney, Transfer, RestoreSwap, FreezeCustomer, UnfreezeCustomer,
		DecideFlaggedDeposit,
		RedirectFlaggedDeposit, CompleteResolution, FreezePayments, LiftFreeze, AdvanceOrder,
		FailSwap, WriteOffSwap, DecideSwapArrival, DecideCheckout, RefundCheckout, CancelRefund,
		ManageBatchPayouts, StopBatchPayout,
		MarkInvoicePaid, CreditInvoice, AddPriceMark,
	}
	for action, row := range permissions {
		want := SudoFactor
		switch {
		case row.Roles == nil && !row.Operator || slices.Contains(free, action):
			want = NoFactor
		case slices.Contains(act, action):
			want = ActFactor
		}
		if row.StepUp != want {
			t.Errorf("%s: got %q, want %q", action, row.StepUp, want)
		}
	}
}

// A role stands once in a row, and a member with an own reach has no full one. Rule ROLE-1.
func TestRolesOfARowAreKnownAndStandOnce(t *testing.T) {
	t.Parallel()
	for action, row := range permissions {
		seen := map[Role]bool{}
		for _, r := range slices.Concat(row.Roles, row.OwnRoles) {
			if seen[r] || !slices.Contains(Roles, r) {
				t.Errorf("%s: %s stands twice or is no role", action, r)
			}
			seen[r] = true
		}
		if row.Roles != nil && !seen[Owner] {
			t.Errorf("%s: an OWNER may not do it, and another role may", action)
		}
		if row.MemberAtTerminal && row.Roles == nil {
			t.Errorf("%s: a command takes it for a member whom no role lets do it", action)
		}
	}
	for _, action := range []Action{ManageKeys, Transfer, ChangeControls} {
		if PermissionOf(action).AtTerminal() {
			t.Errorf("%s: a terminal offers what members do in the dashboard alone", action)
		}
	}
}

// Thresholds, allowlist and quorum are of OWNER and ADMIN; all settings are of the operator. Rule ROLE-4.
func TestOnlyManagersChangeControls(t *testing.T) {
	t.Parallel()
	if got := PermissionOf(ChangeControls); !slices.Equal(got.Roles, []Role{Owner, Admin}) || got.Operator ||
		got.Key != "" {
		t.Errorf("got %+v, want OWNER and ADMIN alone", got)
	}
	if got := PermissionOf(ChangeSettings); got.Roles != nil || got.Key != "" || !got.Operator {
		t.Errorf("got %+v, want operators alone", got)
	}
}

// Rule ROLE-3.
func TestAnAdminManagesNoOwnerAndNoAdmin(t *testing.T) {
	t.Parallel()
	for _, manager := range Roles {
		for _, before := range append([]Role{""}, Roles...) {
			for _, after := range append([]Role{""}, Roles...) {
				list := func(r Role) []Role {
					if r == "" {
						return nil
					}
					return []Role{Viewer, r}
				}
				isSenior := func(r Role) bool { return r == Owner || r == Admin }
				want := manager == Owner || manager == Admin && !isSenior(before) && !isSenior(after)
				if got := CanManageMember([]Role{Viewer, manager}, list(before), list(after)); got != want {
					t.Errorf("%s from %q to %q: got %v, want %v", manager, before, after, got, want)
				}
			}
		}
	}
}

// Rule ROLE-5.
func TestAnAuditorOnlyReads(t *testing.T) {
	t.Parallel()
	for action, row := range permissions {
		if got, want := row.AllowsOperator(Auditor), action == ReadInstallation; got != want {
			t.Errorf("%s: an auditor: got %v, want %v", action, got, want)
		}
		if row.AllowsOperator(FullOperator) != row.Operator || row.AllowsOperator("") {
			t.Errorf("%s: got another answer for an operator than the table, or one without a role", action)
		}
	}
}
