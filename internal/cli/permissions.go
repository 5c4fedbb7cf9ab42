package cli

import (
	"fmt"

	"github.com/alecthomas/kong"

	"github.com/cofferpay/coffer/internal/identity"
)

// actionCommands has every command under what it does in the table of permissions. A command that
// acts for a member or for an operator with a key asks for that member or key itself.
var actionCommands = map[identity.Action][]string{
	identity.ReadInstallation: {
		"withdrawals list", "deposits flagged", "deposits list", "customers list", "events list", "events tail",
		"settings show", "settings history", "whitelist list", "changes list", "dispatch list", "dispatch show",
		"mints list", "wallets", "reserves", "chain breaks", "chain traces", "freezes list", "verify", "org list",
		"org show", "key list", "operator key list", "audit status", "audit export", "risk show", "risk senders",
		"local risk list", "swaps list", "swaps show", "swaps arrivals list", "swaps providers list", "billing fees",
		"billing verify", "swaps deposit list", "swaps deposit show", "payouts check",
		"allowances list", "allowances contract",
	},
	identity.DecideWithdrawal: {
		"withdrawals approve", "withdrawals remove", "swaps approve", "swaps reject", "payouts approve",
		"payouts reject", "payouts show", "payouts pause", "payouts resume", "payouts items", "payouts hash",
		"payouts proof show",
	},
	identity.WithdrawOwnMoney: {
		"withdrawals organization", "payouts create", "payouts submit", "payouts cancel", "payouts retry",
	},
	identity.DecideFlaggedDeposit:   {"deposits approve", "deposits reject"},
	identity.RedirectFlaggedDeposit: {"deposits redirect"},
	identity.CompleteResolution:     {"deposits complete"},
	identity.RescreenSender:         {"deposits rescreen"},
	identity.CreateOrganization:     {"org create"},
	identity.InviteMember:           {"org invite"},
	identity.ReplaceOrganizationKey: {"key roll", "key revoke"},
	identity.ChangeSettings:         {"settings set"},
	identity.AddWhitelistEntry:      {"whitelist add"},
	identity.RemoveWhitelistEntry:   {"whitelist remove"},
	identity.ApproveChange:          {"changes approve"},
	identity.RetractChange:          {"changes withdraw"},
	identity.FreezePayments:         {"freezes put", "org freeze"},
	identity.LiftFreeze:             {"freezes lift", "org unfreeze"},
	identity.EditLocalRisk:          {"local risk set", "local risk clear"},
	identity.LookAtSwap:             {"swaps look"},
	identity.FailSwap:               {"swaps fail"},
	identity.WriteOffSwap:           {"swaps write-off"},
	identity.DecideSwapArrival:      {"swaps arrivals decide"},
	identity.ManageSwapProviders:    {"swaps providers suspend", "swaps providers resume"},
	identity.IssueInvoices:          {"billing run"},
	identity.MarkInvoicePaid:        {"billing paid"},
	identity.CreditInvoice:          {"billing credit"},
	identity.ChangeBillingTerms:     {"billing terms"},
	identity.AddPriceMark:           {"billing marks"},
	identity.ManageOperatorKeys: {
		"operator key create", "operator key roll", "operator key revoke", "operator invite",
	},
	identity.SteerOrders: {
		"dispatch bump", "dispatch cancel", "dispatch resolve", "sweep", "allowances grant",
		"allowances revoke",
	},
	identity.QuarantineMint:  {"mints quarantine", "mints release"},
	identity.DecideFinality:  {"chain repoint"},
	identity.ImportSanctions: {"risk import"},
	identity.RestartAuditLog: {"audit restart"},
	identity.RunInstallation: {
		"serve", "migrate", "signer serve", "signer init", "signer adopt", "signer import", "signer clock show",
		"signer clock confirm", "signer approvers list", "signer approvers found", "signer approvers retire",
		"keys create", "keys show", "keys backup", "keys restore", "rescue", "audit verify",
		"receipt verify", "payouts proof verify",
		"config check", "config sample", "version",
	},
	identity.UseDevelopmentWorld: {
		"local run", "local tour", "local faucet", "local pay", "local trigger failed-payout", "local trigger reorg",
		"local trigger outage", "local trigger crash", "local swaps behave", "local swaps price", "local swaps show",
		"local approvers",
	},
}

// commandActions has the action of every command.
var commandActions = func() map[string]identity.Action {
	actions := map[string]identity.Action{}
	for action, names := range actionCommands {
		for _, name := range names {
			actions[name] = action
		}
	}
	return actions
}()

// checkPermission refuses a command that the table of permissions offers at no terminal. Rule OP-12.
func checkPermission(command *kong.Node) error {
	if !identity.PermissionOf(commandActions[command.Path()]).AtTerminal() {
		return fmt.Errorf("the table of permissions offers %q at no terminal; nothing was done", command.Path())
	}
	return nil
}
