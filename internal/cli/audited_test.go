package cli_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/cli"
)

// deed is what a command writes into the audit log.
type deed struct {
	name, args string
	// Each row is "ACTOR action RESOURCE_KIND subject". An actor is cli (the operator at a
	// terminal), person (named by --as), or ann or bob (two operators with keys). A subject is a
	// word, or * where only the program knows it.
	rows  []string
	again bool   // repeated until it succeeds: the world has to reach that state, and a refusal writes no row
	reads bool   // it is played and writes no row of a person's: it reads, or plans what the service does
	none  string // why it is not played and writes no row
	// The test that plays a command which a running world cannot play: its file, which has the
	// action.
	file, action string
}

// deeds has what each command writes into the audit log, in the order in which a world plays them.
// Rule ROLE-6, among others.
// A new command needs a line. Words in capitals stand for ids of the world: see acting.word.
var deeds = []deed{
	{name: "org create", args: "Second", rows: []string{"cli organization.created ORGANIZATION ORG2"}},
	{
		name: "org invite", args: "eve@example.test ORG2 --role VIEWER",
		rows: []string{"cli person.added USER *", "cli invitation.created INVITATION *"},
	},
	{name: "org list", reads: true},
	{name: "org show", args: "ORG", reads: true},
	{name: "org freeze", args: "ORG2 --because case", rows: []string{"cli freeze.put FREEZE FREEZE"}},
	{name: "freezes list", reads: true},
	{name: "org unfreeze", args: "ORG2", rows: []string{"cli freeze.lifted FREEZE FREEZE"}},
	{
		name: "freezes put", args: "--org ORG --customer ann --because case",
		rows: []string{"cli freeze.put FREEZE FREEZE"},
	},
	{name: "freezes lift", args: "FREEZE", rows: []string{"cli freeze.lifted FREEZE FREEZE"}},
	{name: "key roll", args: "ORG2", rows: []string{"cli api_key.rolled ORGANIZATION ORG2"}},
	{name: "key revoke", args: "ORG2 key_main", rows: []string{"cli api_key.revoked ORGANIZATION ORG2"}},
	{name: "key list", reads: true},
	{name: "operator key create", args: "carl", rows: []string{"cli operator_key.created OPERATOR_KEY *"}},
	{name: "operator key roll", args: "carl", rows: []string{"cli operator_key.rolled OPERATOR_KEY *"}},
	{name: "operator key revoke", args: "carl", rows: []string{"cli operator_key.revoked OPERATOR_KEY *"}},
	{name: "operator key list", reads: true},
	{
		name: "operator invite", args: "carla@example.test --role AUDITOR",
		rows: []string{"cli operator.added OPERATOR *", "cli invitation.created INVITATION *"},
	},
	{name: "settings set", args: "ORG swapFeeBps=7", rows: []string{"cli settings.changed ORGANIZATION ORG"}},
	{name: "settings show", args: "ORG", reads: true},
	{name: "settings history", args: "ORG", reads: true},
	{
		name: "changes approve", args: "CHANGE --key-file BOB",
		rows: []string{"bob settings.changed ORGANIZATION ORG", "bob change.approved CHANGE_REQUEST CHANGE"},
	},
	{
		name: "changes withdraw", args: "CHANGE --key-file ANN",
		rows: []string{"ann change.withdrawn CHANGE_REQUEST CHANGE"},
	},
	{name: "changes list", args: "--all", reads: true},
	{
		name: "whitelist add", args: "ETHEREUM 0x71C7656EC7ab88b098defB751B7401B5f6d8976F exchange --org ORG",
		rows: []string{"cli whitelist.added WHITELISTED_ADDRESS LISTED"},
	},
	{
		name: "withdrawals organization", args: "--product CHECKOUT --mint USDC --to LISTED --amount 1 --as PERSON",
		again: true, rows: []string{"person withdrawal.requested WITHDRAWAL WD"},
	},
	{
		name: "whitelist remove", args: "LISTED --org ORG",
		rows: []string{"cli whitelist.removed WHITELISTED_ADDRESS LISTED"},
	},
	{name: "whitelist list", args: "ORG", reads: true},
	{name: "mints quarantine", args: "2 --because case", rows: []string{"cli mint.quarantined MINT 2"}},
	{name: "mints release", args: "2 --because case", rows: []string{"cli mint.released MINT 2"}},
	{name: "mints list", reads: true},
	{name: "risk import", args: "LIST", rows: []string{"cli sanctions_list.imported SANCTIONS_LIST *"}},
	{name: "risk show", reads: true},
	{name: "risk senders", reads: true},
	{
		name: "local risk set", args: "0x2222222222222222222222222222222222222222 LOW",
		rows: []string{"cli local_risk.set ADDRESS 0x2222222222222222222222222222222222222222"},
	},
	{
		name: "local risk clear", args: "0x2222222222222222222222222222222222222222",
		rows: []string{"cli local_risk.cleared ADDRESS 0x2222222222222222222222222222222222222222"},
	},
	{name: "local risk list", reads: true},
	{
		name: "withdrawals approve", args: "HELD --as PERSON",
		rows: []string{"person withdrawal.approved WITHDRAWAL HELD"},
	},
	{name: "withdrawals remove", args: "HELD --as PERSON", rows: []string{"person withdrawal.removed WITHDRAWAL HELD"}},
	{name: "withdrawals list", reads: true},
	{name: "customers list", reads: true},
	{name: "events list", reads: true},
	{name: "deposits list", reads: true},
	{name: "deposits flagged", reads: true},
	{name: "deposits rescreen", args: "FLAGGED", reads: true},
	{name: "deposits approve", args: "FLAGGED --as PERSON", rows: []string{"person deposit.approved DEPOSIT FLAGGED"}},
	{name: "deposits reject", args: "FLAGGED --as PERSON", rows: []string{"person deposit.rejecting DEPOSIT FLAGGED"}},
	{
		name: "deposits redirect",
		args: "FLAGGED --to 0x2222222222222222222222222222222222222222 --reason LAW_ENFORCEMENT --reference case",
		rows: []string{"cli deposit.redirecting DEPOSIT FLAGGED"},
	},
	{name: "wallets", reads: true},
	{name: "reserves", reads: true},
	{name: "chain breaks", args: "ETHEREUM", reads: true},
	{name: "chain traces", args: "ETHEREUM", reads: true},
	{name: "verify", reads: true},
	{name: "audit status", reads: true},
	{name: "audit export", args: "EXPORT", reads: true},
	{name: "sweep", reads: true},
	{name: "dispatch list", reads: true},
	{name: "dispatch bump", args: "OUT", again: true, rows: []string{"cli order.replaced order OUT"}},
	{name: "dispatch show", args: "OUT", reads: true},
	{name: "dispatch cancel", args: "OUT", rows: []string{"cli order.replaced order OUT"}},

	{name: "swaps list", reads: true},
	{name: "swaps deposit list", reads: true},
	{name: "swaps arrivals list", reads: true},
	{name: "swaps providers list", reads: true},
	{name: "billing fees", reads: true},
	{name: "billing marks", reads: true},
	{name: "billing run", args: "--month 2025-01", reads: true}, // nothing is to be billed
	{
		name: "billing terms", args: "--legal-name Seller --address Street",
		rows: []string{"cli billing_terms.saved BILLING_TERMS installation"},
	},
	{name: "billing verify", file: "../http/surfacetest/billing_test.go", action: "verification"},
	{name: "billing paid", file: "../http/surfacetest/audited_test.go", action: "operator markInvoicePaid"},
	{name: "billing credit", file: "../http/surfacetest/audited_test.go", action: "operator creditInvoice"},
	{
		name: "swaps providers suspend", args: "ONE_CLICK --because case",
		rows: []string{"cli swap_provider.suspended SWAP_PROVIDER ONE_CLICK"},
	},
	{
		name: "swaps providers resume", args: "ONE_CLICK --because case",
		rows: []string{"cli swap_provider.resumed SWAP_PROVIDER ONE_CLICK"},
	},
	{name: "swaps show", file: "swaps_test.go", action: "swaps show"},
	{name: "swaps deposit show", file: "swaps_test.go", action: "swaps deposit show"},
	{name: "swaps approve", file: "tour_test.go", action: "swap.approved"},
	{name: "swaps reject", file: "tour_test.go", action: "swap.rejected"},
	{name: "swaps look", file: "../http/surfacetest/audited_test.go", action: "operator lookAtSwap"},
	{name: "swaps fail", file: "../http/surfacetest/audited_test.go", action: "operator failSwap"},
	{name: "swaps write-off", file: "../http/surfacetest/audited_test.go", action: "operator writeOffSwap"},
	{name: "swaps arrivals decide", file: "../http/surfacetest/audited_test.go", action: "operator decideSwapArrival"},

	{name: "allowances list", reads: true},
	{name: "allowances contract", none: "it prints what is in the program"},
	{name: "allowances grant", file: "../testing/trial/tokens/payouts_test.go", action: "allowance.requested"},
	{name: "allowances revoke", file: "../testing/trial/tokens/payouts_test.go", action: "allowance.requested"},
	{name: "payouts check", none: "it reads a file"},
	{name: "payouts show", none: "it shows a batch, and writes nothing"},
	{name: "payouts items", none: "it writes a table of a batch to the terminal"},
	{name: "payouts hash", none: "it recomputes a hash, and writes a file at most"},
	{name: "payouts proof show", none: "it shows the proof of a row"},
	{name: "payouts proof verify", none: "it reads a file"},
	{name: "payouts pause", file: "../service/payouts_life_test.go", action: "payout.paused"},
	{name: "payouts resume", file: "../service/payouts_life_test.go", action: "payout.resumed"},
	{name: "payouts retry", file: "../service/payouts_test.go", action: "payout.created"},
	{name: "payouts create", file: "../service/payouts_test.go", action: "payout.created"},
	{name: "payouts submit", file: "../service/payouts_test.go", action: "payout.submitted"},
	{name: "payouts approve", file: "../service/payouts_test.go", action: "payout.approved"},
	{name: "payouts reject", file: "../service/payouts_test.go", action: "payout.rejected"},
	{name: "payouts cancel", file: "../service/payouts_test.go", action: "payout.cancelled"},

	{name: "chain repoint", file: "chain_test.go", action: "chain.repointed"},
	{name: "deposits complete", file: "../http/surfacetest/audited_test.go", action: "operator completeDeposit"},
	{name: "dispatch resolve", file: "../dispatch/operator_test.go", action: "order.resolved"},
	{name: "signer import", file: "../service/restore_test.go", action: "journal.imported"},

	{name: "audit verify", none: "it reads a file"},
	{name: "receipt verify", none: "it reads a file"},
	{name: "audit restart", none: "the signer's anchors have it, with the reason"},
	{name: "config check", none: "it reads a file"},
	{name: "config sample", none: "it prints a text"},
	{name: "keys create", none: "it writes files alone"},
	{name: "keys show", none: "it reads a file"},
	{name: "keys backup", none: "it writes a file alone"},
	{name: "keys restore", none: "it writes a file alone"},
	{name: "local run", none: "it starts a world of its own"},
	{name: "local tour", none: "it calls the interface, whose calls have rows of their own"},
	{name: "local trigger failed-payout", none: "it calls the interface, whose calls have rows of their own"},
	{name: "local pay", none: "it calls the interfaces, whose calls have rows of their own"},
	{name: "local trigger reorg", none: "it changes a local chain and writes no database"},
	{name: "local trigger outage", none: "it stops an answer of a local chain and writes no database"},
	{name: "local trigger crash", none: "it kills the service of a local world and writes no database"},
	{name: "local swaps behave", none: "it changes the local swap provider and writes no database"},
	{name: "local swaps price", none: "it changes the local swap provider and writes no database"},
	{name: "local swaps show", none: "it asks the local swap provider"},
	{name: "local approvers", none: "the file beside the signer's journal has it, and then the journal"},
	{name: "version", none: "it prints a text"},
	{name: "events tail", none: "it reads, until it is stopped"},
	{name: "local faucet", none: "it sends on a local chain and writes no database"},
	{name: "migrate", none: "goose_db_version has each step"},
	{name: "rescue", none: "there is no database then"},
	{name: "serve", none: "it starts the service"},
	{name: "signer serve", none: "it starts the signer"},
	{name: "signer init", none: "it writes the signer's journal alone"},
	{name: "signer adopt", none: "it writes the signer's journal alone"},
	{name: "signer clock show", none: "it reads the signer's journal"},
	{name: "signer clock confirm", none: "the signer's journal has it"},
	{name: "signer approvers list", none: "it reads the decisions of the signer's host"},
	{name: "signer approvers found", none: "the file beside the signer's journal has it, and then the journal"},
	{name: "signer approvers retire", none: "the file beside the signer's journal has it, and then the journal"},
}

// leaves returns the commands of a tree, by their words.
func leaves(n *kong.Node, words string, found map[string]*kong.Node) {
	children := 0
	for _, c := range n.Children {
		if c.Type == kong.CommandNode {
			children++
			leaves(c, strings.TrimSpace(words+" "+c.Name), found)
		}
	}
	if children == 0 {
		found[words] = n
	}
}

// TestEveryCommandHasItsLineInTheAuditLog walks the tree of commands: each is in the list, and the
// named test of another command has its action.
func TestEveryCommandHasItsLineInTheAuditLog(t *testing.T) {
	t.Parallel()
	root, err := cli.Tree()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*kong.Node{}
	leaves(root, "", all)
	for _, d := range deeds {
		if all[d.name] == nil {
			t.Errorf("coffer %s stands in deeds and is no command, or stands there twice", d.name)
			continue
		}
		delete(all, d.name)
		ways := 0
		for _, way := range []bool{len(d.rows) > 0, d.reads, d.none != "", d.file != ""} {
			if way {
				ways++
			}
		}
		if ways != 1 {
			t.Errorf("coffer %s: it leaves rows, or leaves none and why, or names the test that plays it: one of them",
				d.name)
		}
		if d.file != "" {
			if text, err := os.ReadFile(d.file); err != nil || !strings.Contains(string(text), d.action) {
				t.Errorf("coffer %s: got %v, want %s in %s", d.name, err, d.action, d.file)
			}
		}
	}
	for name := range all {
		t.Errorf("coffer %s stands nowhere in deeds: say what it leaves in the audit log", name)
	}
}

// acting is a world with what the commands of the list need.
type acting struct {
	*dispatchEnv
	db    *pgx.Conn
	words map[string]string
	eyes  string // the world's configuration, with dual control
	out   bool   // no more blocks are mined
}

// word returns what a word of the list stands for.
func (a *acting) word(w string) string {
	a.Helper()
	token := a.usdc()
	switch w {
	case "HELD":
		var made struct{ WithdrawalID string }
		if status := a.call("/withdraw", map[string]any{
			"mintId":     token.ID,
			"customerId": "ann", "amount": "5000000", "toAddress": stranger, "requireApproval": true,
		}, &made); status != http.StatusAccepted {
			a.Fatalf("a held withdrawal: got %d", status)
		}
		a.words[w] = made.WithdrawalID
	case "FLAGGED":
		queue := regexp.MustCompile(`dep_[0-9A-Z]{26}`).FindString(a.coffer(0, "deposits", "flagged"))
		if queue == "" {
			a.Fatal("no deposit is flagged")
		}
		a.words[w] = queue
	case "CHANGE":
		a.coffer(0, "settings", "set", a.Info.OrganizationID, "customerFeeDayUsd=2000")
		a.play([]string{
			"settings",
			"set", a.Info.OrganizationID, "customerFeeDayUsd=5000", "--key-file", a.words["ANN"], "--config", a.eyes,
		}, false)
	case "OUT":
		if !a.out {
			a.out = true
			a.must(a.EthereumNode().SetIntervalMining(a.ctx, 0))
			a.words[w] = a.withdraw("out")
			a.shows(a.words[w], `state +BROADCAST`)
		}
	}
	if got, known := a.words[w]; known {
		return got
	}
	return w
}

// made returns the ids that an answer names, by their words.
var made = map[string]*regexp.Regexp{
	"ORG2": regexp.MustCompile(`organization +(org_[0-9A-Z]{26})`), "FREEZE": regexp.MustCompile(`(frz_[0-9A-Z]{26})`),
	"LISTED": regexp.MustCompile(`(wla_[0-9A-Z]{26})`), "CHANGE": regexp.MustCompile(`(chg_[0-9A-Z]{26})`),
	"WD": regexp.MustCompile(`(wd_[0-9A-Z]{26})`),
}

// play runs a command until it succeeds, and remembers the ids that it names.
func (a *acting) play(args []string, again bool) {
	a.Helper()
	var said string
	a.until(fmt.Sprint("coffer ", args), func() (bool, string) {
		var out, errs bytes.Buffer
		code := cli.Run(a.ctx, args, &out, &errs)
		if said = out.String(); code != 0 && !again {
			a.Fatalf("coffer %v: got %d %s%s", args, code, said, errs.String())
		}
		return code == 0, errs.String()
	})
	for word, form := range made {
		if m := form.FindStringSubmatch(said); m != nil {
			a.words[word] = m[1]
		}
	}
}

// logged returns the rows of the audit log that a person left after one, and the last one's number.
func (a *acting) logged(after int64) (rows [][4]string, last int64) {
	a.Helper()
	found, err := a.db.Query(a.ctx,
		`SELECT audit_id, actor_kind || ' ' || actor_id, action, resource_kind, resource_id FROM audit_log
		WHERE audit_id > $1 AND actor_kind <> 'SYSTEM' ORDER BY audit_id`, after)
	a.must(err)
	var r [4]string
	last = after
	_, err = pgx.ForEachRow(found, []any{&last, &r[0], &r[1], &r[2], &r[3]}, func() error {
		rows = append(rows, r)
		return nil
	})
	a.must(err)
	return rows, last
}

// TestEveryCommandLeavesItsRowInTheAuditLog plays the commands on a world that runs, and compares
// what the audit log gained with the list: who, what and on what, and nothing else.
func TestEveryCommandLeavesItsRowInTheAuditLog(t *testing.T) {
	t.Parallel()
	a := &acting{dispatchEnv: newDispatchEnv(t), words: map[string]string{"EXPORT": filepath.Join(t.TempDir(),
		"export.ndjson")}}
	var err error
	a.db, err = pgx.Connect(a.ctx, a.Info.Database.URL)
	a.must(err)
	defer func() { _ = a.db.Close(context.WithoutCancel(a.ctx)) }()
	_, err = a.db.Exec(a.ctx, `SET ROLE coffer_reader`)
	a.must(err)
	a.words["LIST"], err = filepath.Abs(filepath.Join("..", "risk", "ofac", "testdata", "sdn_advanced.xml"))
	a.must(err)
	a.words["ORG"], a.words["PERSON"], a.words["USDC"] = a.Info.OrganizationID, a.Info.Users[0].Email,
		fmt.Sprint(a.usdc().ID)
	actors := map[string]string{}
	key := regexp.MustCompile(`cok_\S+`)
	for _, name := range []string{"ann", "bob"} {
		file := filepath.Join(t.TempDir(), name)
		a.must(os.WriteFile(file, []byte(key.FindString(a.coffer(0, "operator", "key", "create", name))), 0o600))
		a.words[strings.ToUpper(name)] = file
		var id string
		a.must(a.db.QueryRow(a.ctx, `SELECT key_id FROM operator_keys WHERE name = $1`, name).Scan(&id))
		actors["OPERATOR "+id] = name
	}
	var person string
	a.must(a.db.QueryRow(a.ctx, `SELECT user_id FROM people WHERE email = $1`, a.words["PERSON"]).Scan(&person))
	actors["USER "+person], actors["OPERATOR cli"] = "person", "cli"
	a.eyes = writeDualControlConfig(t, a.Info.Config)

	// Money of ann's, and deposits that screening holds.
	var given struct{ Address string }
	a.call("/deposit", map[string]any{"mintId": a.usdc().ID, "customerId": "ann"}, &given)
	_, err = a.Info.SendFromFaucet(a.ctx, a.usdc(), common.HexToAddress(given.Address), big.NewInt(100_000_000))
	a.must(err)
	first := a.withdraw("first")
	a.shows(first, `state +PAID`)
	if status := a.call("/transfers", map[string]any{
		"idempotencyKey": "charge", "mintId": a.usdc().ID, "amount": "5000000",
		"from": map[string]string{"customerId": "ann"}, "to": map[string]string{"product": "CHECKOUT"},
	}, &struct{}{}); status != http.StatusCreated {
		t.Fatalf("charge ann: got %d", status)
	}
	payer, err := crypto.HexToECDSA(strings.TrimPrefix(a.Info.Chains["ETHEREUM"].FaucetKey, "0x"))
	a.must(err)
	a.coffer(0, "settings", "set", a.Info.OrganizationID, "screeningSeverityThreshold=MEDIUM",
		"screeningUsdThreshold=1")
	a.coffer(0, "local", "risk", "set", crypto.PubkeyToAddress(payer.PublicKey).Hex(), "SEVERE")
	a.call("/deposit", map[string]any{"mintId": a.usdc().ID, "customerId": "flagged"}, &given)
	for range 3 {
		_, err = a.Info.SendFromFaucet(a.ctx, a.usdc(), common.HexToAddress(given.Address), big.NewInt(5_000_000))
		a.must(err)
	}
	a.until("three flagged deposits", func() (bool, string) {
		said := a.coffer(0, "deposits", "flagged")
		return len(slices.Compact(regexp.MustCompile(`dep_[0-9A-Z]{26}`).FindAllString(said, -1))) >= 3, said
	})

	for _, d := range deeds {
		if d.none != "" || d.file != "" {
			continue
		}
		args := strings.Fields(d.name)
		for _, w := range strings.Fields(d.args) {
			args = append(args, a.word(w))
		}
		_, before := a.logged(0)
		a.play(append(args, "--config", a.Info.Config), d.again)
		rows, _ := a.logged(before)
		var lines []string
		for i, r := range rows {
			actor, subject := cmp.Or(actors[r[0]], r[0]), r[3]
			if i < len(d.rows) {
				if want := d.rows[i][strings.LastIndex(d.rows[i], " ")+1:]; want == "*" && subject != "" ||
					a.words[want] == subject {
					subject = want
				}
			}
			lines = append(lines, fmt.Sprintf("%s %s %s %s", actor, r[1], r[2], subject))
		}
		if !slices.Equal(lines, d.rows) {
			t.Errorf("coffer %s: the audit log gained\n\t%s\nwant\n\t%s", d.name, strings.Join(lines, "\n\t"),
				strings.Join(d.rows, "\n\t"))
		}
	}
	a.must(a.EthereumNode().SetIntervalMining(a.ctx, time.Second))
}
