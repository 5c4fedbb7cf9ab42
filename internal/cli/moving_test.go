package cli

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// moving are the commands that move money or let it move, with where internal/http/surfacetest plays their calls
// while the answer of a COMMIT is lost.
var moving = map[string]string{
	"withdrawals approve":      "commands withdrawals approve",
	"withdrawals remove":       "commands withdrawals remove",
	"withdrawals organization": "commands withdrawals organization",
	"deposits approve":         "operators approveDeposit",
	"deposits reject":          "operators rejectDeposit",
	"deposits redirect":        "operators redirectDeposit",
	"deposits complete":        "operators completeDeposit",
	"freezes put":              "operators createFreeze",
	"freezes lift":             "operators liftFreeze",
	"org freeze":               "operators createFreeze",
	"org unfreeze":             "operators liftFreeze",
}

// steering are the commands that steer existing orders, or what may be swept or followed. Each
// changes one state, so a repetition finds the new state, and an error of a COMMIT reaches the
// terminal unchanged.
var steering = []string{
	"dispatch bump", "dispatch cancel", "dispatch resolve", "sweep", "mints quarantine", "mints release",
	"chain repoint",
	"allowances grant", "allowances revoke",
	"payouts create", "payouts submit", "payouts approve", "payouts reject", "payouts cancel",
	"payouts pause", "payouts resume", "payouts retry",
	"swaps approve", "swaps reject", "swaps look", "swaps fail", "swaps write-off", "swaps arrivals decide",
	"swaps providers suspend", "swaps providers resume",
	"changes approve", "changes withdraw", "settings set", "whitelist add", "whitelist remove", "signer clock confirm",
}

// apart are the commands that work without the service's database, or on one that no service uses
// yet.
var apart = []string{
	"serve", "migrate", "signer serve", "signer init", "signer adopt", "signer import", "rescue",
	"signer approvers found", "signer approvers retire",
	"local run", "local tour", "local faucet", "local pay", "local trigger failed-payout", "local trigger reorg",
	"local trigger outage", "local trigger crash", "local swaps behave", "local swaps price", "local risk set",
	"local risk clear", "local approvers", "keys create", "keys backup", "keys restore",
	"audit restart", "risk import", "org create", "org invite", "key roll", "key revoke", "operator key create",
	"operator key roll", "operator key revoke", "operator invite",
	"billing run", "billing paid", "billing credit", "billing terms", "billing marks",
}

// reading are the commands that change nothing.
var reading = []string{
	"deposits flagged", "deposits rescreen", "settings show", "settings history", "whitelist list", "changes list",
	"dispatch list", "dispatch show",
	"mints list", "wallets", "reserves", "chain breaks", "chain traces", "freezes list", "verify", "keys show",
	"org list", "org show", "key list",
	"operator key list", "audit status", "audit export", "audit verify", "receipt verify", "risk show", "risk senders",
	"config check", "config sample",
	"local risk list", "local swaps show", "signer clock show", "deposits list", "withdrawals list",
	"signer approvers list",
	"customers list", "events list",
	"events tail", "version", "swaps list", "swaps show", "swaps arrivals list", "swaps providers list",
	"swaps deposit list", "swaps deposit show", "billing fees", "billing verify",
	"payouts check", "payouts show", "payouts items", "payouts hash", "payouts proof show", "payouts proof verify",
	"allowances list", "allowances contract",
}

// Every command is in one of the lists, so that a new command that moves money is played.
func TestEveryCommandThatMovesMoneyIsPlayedWithALostCommit(t *testing.T) {
	t.Parallel()
	parser, err := kong.New(new(commands))
	if err != nil {
		t.Fatal(err)
	}
	played, err := os.ReadFile("../http/surfacetest/lost_commit_test.go")
	if err != nil {
		t.Fatal(err)
	}
	listed := slices.Concat(slices.Collect(maps.Keys(moving)), steering, apart, reading)
	for _, leaf := range parser.Model.Leaves(false) {
		name := leaf.Name
		for up := leaf.Parent; up != nil && up.Type == kong.CommandNode; up = up.Parent {
			name = up.Name + " " + name
		}
		at := slices.Index(listed, name)
		if at < 0 {
			t.Errorf("coffer %s is in no list, or in two: does it move money?", name)
			continue
		}
		listed = slices.Delete(listed, at, at+1)
		if verb, moves := moving[name]; moves && !strings.Contains(string(played), `"`+verb+`":`) {
			t.Errorf("coffer %s: internal/http/surfacetest plays no %q", name, verb)
		}
	}
	if len(listed) > 0 {
		t.Errorf("these are listed and no commands, or twice: %q", listed)
	}
}
