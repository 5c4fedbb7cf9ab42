package report_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/report"
	"github.com/cofferpay/coffer/internal/testing/trial/population"
)

// manyCustomers have a history in the tests of what a read costs.
const manyCustomers = 3_000

// testEnv is two organizations, and a superuser who writes rows without triggers.
type testEnv struct {
	t        *testing.T
	db       *pg.DB
	super    *pgx.Conn
	one, two string
}

func newTestEnv(t *testing.T) *testEnv {
	t.Helper()
	h := &testEnv{t: t, db: pgtest.New(t)}
	token := mint.Mint{
		ID: 1, Chain: chain.Ethereum, Network: chain.Local, Kind: mint.Token, Contract: "0x1", Symbol: "USDC",
		Name: "USD Coin", Decimals: 6, MinDeposit: money.Units(1), MinWithdraw: money.Units(1), Finality: "FINALIZED",
	}
	coin, sol := token, token
	coin.ID, coin.Kind, coin.Contract, coin.Symbol, coin.Name, coin.Decimals = 2, mint.Native, "", "ETH", "Ether", 18
	sol.ID, sol.Kind, sol.Contract, sol.Symbol, sol.Name, sol.Decimals, sol.Chain = 3, mint.Native, "", "SOL", "Sol", 9,
		chain.Solana
	if err := mint.Sync(t.Context(), h.db, []mint.Mint{token, coin, sol}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []*string{&h.one, &h.two} {
		made, _, err := org.Create(t.Context(), h.db, "Example Marketplace")
		if err != nil {
			t.Fatal(err)
		}
		*id = made.ID
	}
	if h.two < h.one {
		h.one, h.two = h.two, h.one
	}
	h.super = pgtest.Superuser(t, h.db)
	return h
}

// write runs a statement. $ONE and $TWO are the organizations.
func (h *testEnv) write(sql string) {
	h.t.Helper()
	filled := strings.NewReplacer("$ONE", "'"+h.one+"'", "$TWO", "'"+h.two+"'").Replace(sql)
	if _, err := h.super.Exec(h.t.Context(), filled); err != nil {
		h.t.Fatalf("%v\n%s", err, filled)
	}
}

// addMany adds customers with their history.
func (h *testEnv) addMany() {
	h.t.Helper()
	if err := population.Seed(h.t.Context(), h.super, h.one, 0, manyCustomers); err != nil {
		h.t.Fatal(err)
	}
	h.write(`VACUUM ANALYZE`)
}

// addOrders adds orders of the first organization's treasury with a status.
func (h *testEnv) addOrders(prefix, status string, count int, set string) {
	h.t.Helper()
	h.write(fmt.Sprintf(`
		INSERT INTO dispatch_orders (order_id, org_id, purpose, chain, wallet_id, to_address, mint_id, contract, amount,
			status, attempt_after, created_at, proof_id, tx_hash, fee)
		SELECT '%[1]s_' || n, $ONE, 'PAYMENT', 'ETHEREUM', 'adr_treasury', '0xa', 1, '0x1', 100, '%[2]s', '2026-01-01Z',
			'2026-02-01Z'::timestamptz + n * interval '1 minute', 1, '0x', 1 FROM generate_series(1, %[3]d) n`,
		prefix, status, count))
	if set != "" {
		h.write(fmt.Sprintf(`UPDATE dispatch_orders SET %s WHERE order_id LIKE '%s\_%%'`, set, prefix))
	}
}

// flag adds deposits with a status.
func (h *testEnv) flag(prefix, orgRef, status, purpose string, count int) {
	h.t.Helper()
	h.write(fmt.Sprintf(`
		INSERT INTO deposits (deposit_id, org_id, wallet_id, purpose, customer_id, mint_id, chain, contract, amount,
			address, from_address, tx_hash, kind, position, log_index, height, block_hash, proof_id, status,
			chain_status,
			created_at, is_flagged, flagged_at, risk_of_funds, flag_reason, return_risk)
		SELECT '%[1]s_' || n, %[2]s, 'adr_x', '%[4]s', CASE '%[4]s' WHEN 'CUSTOMER_DEPOSIT' THEN 'alice' END, 1,
			'ETHEREUM',
			'0x1', 1000, '0xa', '0xpayer', '%[1]s' || n, 'TOKEN', '1', 1, 1, 'h', 1, '%[3]s', 'FINALIZED',
			'2026-02-01Z'::timestamptz + n * interval '1 minute', true, '2026-02-01Z', 'HIGH', '{}', 'NONE'
		FROM generate_series(1, %[5]d) n`, prefix, orgRef, status, purpose, count))
}

func (h *testEnv) listAttention() (found []report.Attention, reads *pgtest.Reads) {
	h.t.Helper()
	err := h.db.ReadSystem(h.t.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		tx, reads = pgtest.WatchReads(tx)
		found, err = report.ListAttention(ctx, tx)
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return found, reads
}

// Everything that needs an operator is named once, with its number and its oldest time, the most urgent
// first. What ended, is lifted, old or of an organization's own is not named. Rules PAGE-45 and PAGE-73.
func TestWhatNeedsAnOperatorIsNamedOnce(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	if found, _ := h.listAttention(); len(found) != 0 {
		t.Errorf("got %v of a new installation, want nothing", found)
	}
	const old, recent = `now() - interval '25 hours'`, `now() - interval '1 hour'`
	for i, f := range []struct{ source, scope, lifted string }{
		{"VERIFY", "ALL", "NULL"},
		{"VERIFY", "CHAIN", "'2026-03-01Z'"},
		{"FINALITY", "CHAIN", "NULL"},
		{"DISPATCH", "ORGANIZATION", "NULL"},
		{"SIGNER", "ORGANIZATION", "NULL"},
		{"OPERATOR", "ORGANIZATION", "NULL"},
		{"ORGANIZATION", "ORGANIZATION", "NULL"},
	} {
		h.write(fmt.Sprintf(`
			INSERT INTO freezes (freeze_id, scope, org_id, chain, source, reason, created_at, lifted_at, lifted_by)
			VALUES ('frz_a%[1]d', '%[2]s', CASE '%[2]s' WHEN 'ORGANIZATION' THEN $ONE END,
				CASE '%[2]s' WHEN 'CHAIN' THEN 'ETHEREUM' END, '%[3]s', 'because',
				'2026-01-0%[4]dZ', %[5]s::timestamptz, CASE WHEN %[5]s IS NOT NULL THEN 'OPERATOR x' END)`,
			i, f.scope, f.source, i+1, f.lifted))
	}
	h.write(`INSERT INTO audit_anchors (number, chain_id, position, hash, at, prev, because, signature, copied_at)
		VALUES (1, 'x', 0, repeat('a', 64), '', '', '', decode(repeat('00', 64), 'hex'), now()),
			(2, 'x', 7, repeat('b', 64), '', '', '', decode(repeat('00', 64), 'hex'), now())`)
	h.addOrders("stuck", "STUCK", 2, "")
	h.addOrders("gas", "QUEUED", 3, "waiting_for = 'GAS', missing_amount = 5")
	h.addOrders("signer", "QUEUED", 1, "waiting_for = 'SIGNER'")
	h.addOrders("clock", "QUEUED", 1, "waiting_for = 'CLOCK'")
	h.addOrders("freeze", "QUEUED", 4, "waiting_for = 'FREEZE'")
	h.flag("flagged", "$ONE", "FLAGGED", "CUSTOMER_DEPOSIT", 2)
	h.flag("flagged2", "$TWO", "FLAGGED", "CUSTOMER_DEPOSIT", 1)
	h.flag("treasury", "$ONE", "FLAGGED", "TREASURY", 1)
	h.flag("rejected", "$ONE", "REJECTED", "CUSTOMER_DEPOSIT", 5)
	h.flag("halted", "$TWO", "RESOLUTION_STUCK", "CUSTOMER_DEPOSIT", 1)
	h.write(`INSERT INTO whitelisted_addresses (whitelisted_address_id, org_id, chain, address, label, created_at,
			created_by, not_before, request_mac, refusal, removed_at, removed_by)
		SELECT 'wla_' || n, $ONE, 'ETHEREUM', '0x' || n, 'Exchange', '2026-01-01Z', 'ann', '2026-01-01Z', '',
			CASE WHEN n > 1 THEN 'unknown organization' END, CASE WHEN n > 2 THEN now() END,
				CASE WHEN n > 2 THEN 'ann' END
		FROM generate_series(1, 3) n`)
	h.write(`UPDATE mints SET quarantined_at = '2026-01-02Z', quarantine_reason = 'because' WHERE mint_id = 3`)
	h.write(`INSERT INTO swap_providers (provider, state, reason, since, changed_by)
		VALUES ('ONE', 'SUSPENDED', 'because', '2026-01-05Z', 'SYSTEM swap'),
			('TWO', 'ACTIVE', '', '2026-01-04Z', 'OPERATOR x')`)
	h.write(`INSERT INTO swap_arrivals (deposit_id, org_id, swap_id, role, reason, created_at, decision, note,
			decided_by, decided_at)
		VALUES ('dep_a', $ONE, 'cs_1', 'STRAY', 'AFTER_END', '2026-01-06Z', NULL, NULL, NULL, NULL),
			('dep_b', $ONE, 'cs_1', 'STRAY', 'AFTER_END', '2026-01-03Z', 'KEPT', 'because', 'x', '2026-01-04Z'),
			('dep_c', $ONE, 'cs_1', 'REFUND', '', '2026-01-03Z', NULL, NULL, NULL, NULL)`)
	// Late, refunded in full, completed, written off, and not late.
	h.write(`INSERT INTO swaps (swap_id, org_id, customer_id, idempotency_key, key_hash, request_digest,
			from_mint_id, to_mint_id, from_chain, to_chain, amount_in, estimated_out, min_out, provider,
			deposit_address, delivery_wallet_id, refund_wallet_id, pay_by, expires_at, fee_bps, fee_amount, status,
			paid_at, refunded, short, short_count, failure_reason, failed_at, amount_out, origin_tx_hash,
			destination_tx_hash, completed_at, created_at, updated_at)
		SELECT 'cs_' || n, $ONE, 'alice', 'k' || n, repeat(n::text, 64), '', 1, 2, 'ETHEREUM', 'SOLANA', 100, 90, 80,
			'ONE', '0xd' || n, 'adr_d' || n, 'adr_r' || n, '2026-01-07Z', '2026-01-07Z', 0, 0,
			CASE WHEN n = 3 THEN 'COMPLETED' ELSE 'FAILED' END,
			CASE n WHEN 5 THEN ` + recent + ` ELSE '2026-01-07Z' END, CASE n WHEN 1 THEN 40 WHEN 2 THEN 100 ELSE 0 END,
			CASE n WHEN 1 THEN 59 WHEN 4 THEN 100 ELSE 0 END, CASE WHEN n IN (1, 4) THEN 1 ELSE 0 END,
			CASE WHEN n <> 3 THEN 'UNKNOWN' END, CASE WHEN n <> 3 THEN '2026-01-07Z'::timestamptz END,
			CASE WHEN n = 3 THEN 90 END, '0x1', CASE WHEN n = 3 THEN '0x2' END,
			CASE WHEN n = 3 THEN '2026-01-07Z'::timestamptz END, '2026-01-07Z', '2026-01-07Z'
		FROM generate_series(1, 5) n`)
	h.write(`INSERT INTO change_requests (change_id, org_id, kind, before, wanted, author, author_key, created_at,
			expires_at)
		VALUES ('chg_1', $ONE, 'SETTINGS', '{}', '{"a": 1}', 'ann', 'k', '2026-01-02Z', now() + interval '1 day'),
			('chg_2', $ONE, 'SETTINGS', '{}', '{"a": 1}', 'ann', 'k', '2026-01-02Z', now() - interval '1 day')`)
	h.write(`INSERT INTO webhook_endpoints (endpoint_id, org_id, url, events, status, api_version, created_at,
			updated_at, failing_since, failed_at, deleted_at)
		SELECT 'we_' || n, $ONE, 'https://a.example', '{*}', CASE n WHEN 3 THEN 'PAUSED' ELSE 'DISABLED_BY_FAILURE' END,
			'2026-01-01', '2026-01-01Z', '2026-01-01Z', '2026-01-03Z', '2026-01-03Z', CASE n WHEN 2 THEN now() END
		FROM generate_series(1, 3) n`)
	h.write(`INSERT INTO river_job (state, finalized_at, kind, max_attempts, args)
		VALUES ('discarded', ` + recent + `, 'verify', 3, '{}'), ('discarded', ` + old + `, 'verify', 3, '{}'),
			('cancelled', ` + recent + `, 'verify', 3, '{}')`)
	h.write(`INSERT INTO mails (mail_id, kind, to_address, status, attempts, first_attempt_at, attempt_after,
			created_at, ended_at)
		VALUES ('mail_1', 'TEST', 'a@example.test', 'GIVEN_UP', 1, ` + recent + `, now(), now(), ` + recent + `),
			('mail_2', 'TEST', 'a@example.test', 'GIVEN_UP', 1, ` + old + `, now(), now(), ` + old + `),
			('mail_3', 'TEST', 'a@example.test', 'SENT', 1, ` + recent + `, now(), now(), ` + recent + `)`)
	h.write(`INSERT INTO sender_verdicts (org_id, chain, address, at, severity, provider, categories, given_at,
			threshold, above, credited, alert, record)
		SELECT $ONE, 'ETHEREUM', '0xa', t.at, 'HIGH', 'x', '{}', t.at, 'LOW', true, true, alert, '{}'
		FROM (VALUES (` + recent + `, true), (` + old + `, true), (` + recent + `, false)) t (at, alert)`)
	want := []struct {
		cause  report.AttentionCause
		count  int
		oldest string // the day, or "" for one that the test does not know
	}{
		{report.BooksBroken, 1, "2026-01-01"},
		{report.AuditContradicted, 1, ""},
		{report.FinalityBroken, 1, "2026-01-03"},
		{report.ProgramFroze, 2, "2026-01-04"},
		{report.OrderStuck, 2, "2026-02-01"},
		{report.ResolutionStuck, 1, "2026-02-01"},
		{report.WhitelistRefused, 1, "2026-01-01"},
		{report.GasMissing, 3, "2026-02-01"},
		{report.SignerWaits, 2, "2026-02-01"},
		{report.SwapSuspended, 1, "2026-01-05"},
		{report.StrayArrival, 1, "2026-01-06"},
		{report.SwapClaimLate, 1, "2026-01-07"},
		{report.MintQuarantined, 1, "2026-01-02"},
		{report.ChangeAwaits, 1, "2026-01-02"},
		{report.DepositFlagged, 3, "2026-02-01"},
		{report.EndpointDisabled, 1, "2026-01-03"},
		{report.JobGivenUp, 1, ""},
		{report.MailGivenUp, 1, ""},
		{report.SenderRisky, 1, ""},
		{report.OperatorFreezes, 1, "2026-01-06"},
	}
	if len(want) != len(report.AttentionCauses) {
		t.Fatalf("the test has %d causes, want all %d", len(want), len(report.AttentionCauses))
	}
	compare := func(found []report.Attention) {
		t.Helper()
		if len(found) != len(want) {
			t.Fatalf("got %+v, want %+v", found, want)
		}
		for i, a := range found {
			day := ""
			if a.OldestAt != nil {
				day = a.OldestAt.UTC().Format(time.DateOnly)
			}
			if a.Cause != want[i].cause || a.Count != want[i].count || want[i].oldest != "" && day != want[i].oldest {
				t.Errorf("got %s, %d since %s, want %+v", a.Cause, a.Count, day, want[i])
			}
		}
	}
	found, _ := h.listAttention()
	compare(found)

	h.addMany()
	h.write(`UPDATE freezes SET lifted_at = now(), lifted_by = 'OPERATOR x'
		WHERE freeze_id NOT LIKE 'frz\_a%' AND lifted_at IS NULL`)
	h.write(`DELETE FROM dispatch_orders WHERE status = 'BROADCAST'`)
	h.write(`UPDATE swaps SET paid_at = NULL WHERE swap_id !~ '^cs_[1-5]$' AND status <> 'COMPLETED'`)
	h.write(`VACUUM ANALYZE`)
	found, reads := h.listAttention()
	compare(found)
	reads.CheckRows(t, "what needs an operator", 200)
}

// A gas station is shown where it holds something or orders wait for gas, those with orders first. Rule
// PAGE-73.
func TestGasStationsAreThoseThatHoldOrLackGas(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	list := func(limit int) (found []report.GasStation, reads *pgtest.Reads) {
		err := h.db.ReadSystem(t.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
			tx, reads = pgtest.WatchReads(tx)
			found, err = report.ListGasStations(ctx, tx, limit)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return found, reads
	}
	if found, _ := list(10); len(found) != 0 {
		t.Errorf("got %v, want none", found)
	}
	for _, w := range []struct{ id, orgRef, family, purpose string }{
		{"adr_treasury", "$ONE", "EVM", "TREASURY"},
		{"adr_idle", "$ONE", "SOLANA", "TREASURY"},
		{"adr_held", "$TWO", "EVM", "TREASURY"},
		{"adr_alice", "$TWO", "EVM", "CUSTOMER_DEPOSIT"},
	} {
		h.write(fmt.Sprintf(`
			INSERT INTO wallets (wallet_id, org_id, family, purpose, subject, path, address, proof, created_at)
			VALUES ('%[1]s', %[2]s, '%[3]s', '%[4]s', CASE '%[4]s' WHEN 'TREASURY' THEN '' ELSE 'alice' END, '',
				'0x%[1]s',
				'', '2026-01-01Z')`, w.id, w.orgRef, w.family, w.purpose))
	}
	h.write(`INSERT INTO address_funds (wallet_id, mint_id, org_id, gas, gas_reserved)
		VALUES ('adr_held', 2, $TWO, 700, 30), ('adr_alice', 2, $TWO, 9, 0)`)
	h.addOrders("gas", "QUEUED", 3, "waiting_for = 'GAS', missing_amount = 5")
	h.addOrders("funds", "QUEUED", 2, "waiting_for = 'FUNDS', missing_amount = 5")
	h.addOrders("paid", "PAID", 2, "")
	compare := func(found []report.GasStation) {
		t.Helper()
		if len(found) != 2 {
			t.Fatalf("got %+v, want the one that lacks gas and the one that holds some", found)
		}
		lacking, holding := found[0], found[1]
		if lacking.OrgID != h.one || lacking.WalletID != "adr_treasury" || lacking.MintID != 2 ||
			lacking.Waiting != 3 || lacking.Missing != money.Units(15) || lacking.Gas != money.Units(0) ||
			lacking.Chain != chain.Ethereum {
			t.Errorf("got %+v, want three orders that lack 15", lacking)
		}
		if holding.OrgID != h.two || holding.WalletID != "adr_held" || holding.Gas != money.Units(700) ||
			holding.Reserved != money.Units(30) || holding.Waiting != 0 || holding.OrgName != "Example Marketplace" ||
			holding.Address != "0xadr_held" {
			t.Errorf("got %+v, want 700 and 30 reserved", holding)
		}
	}
	found, _ := list(10)
	compare(found)
	if found, _ := list(1); len(found) != 1 || found[0].WalletID != "adr_treasury" {
		t.Errorf("got %+v, want the first one alone", found)
	}
	needs := func() (texts []string, reads *pgtest.Reads) {
		err := h.db.ReadSystem(t.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
			tx, reads = pgtest.WatchReads(tx)
			found, err := report.ListTreasuryNeeds(ctx, tx)
			for _, n := range found {
				texts = append(texts, fmt.Sprintf("%s of %d in %s for %d", n.Amount, n.MintID, n.WalletID, n.Orders))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return texts, reads
	}
	gas, funds := "15 of 2 in adr_treasury for 3", "10 of 1 in adr_treasury for 2"
	if texts, _ := needs(); !slices.Equal(texts, []string{funds, gas}) {
		t.Errorf("got %q, want what gas and payments lack", texts)
	}
	h.addMany()
	found, reads := list(10)
	compare(found)
	reads.CheckRows(t, "gas stations", 200)
	if texts, _ := needs(); !slices.Equal(texts, []string{gas}) {
		t.Errorf("got %q, want the gas alone: customers' addresses have the amount", texts)
	}
	h.write(`DELETE FROM dispatch_orders WHERE order_id LIKE 'funds\_%'`)
	texts, reads := needs()
	if !slices.Equal(texts, []string{gas}) {
		t.Errorf("got %q, want the gas", texts)
	}
	reads.CheckRows(t, "needs of treasuries", 200)
}

// The state of a chain counts its open orders and its findings of the last month, and shows chains that
// were never scanned. Rule PAGE-73.
func TestTheStateOfAChainCountsWhatIsOpen(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	list := func() (found []report.ChainState, reads *pgtest.Reads) {
		err := h.db.ReadSystem(t.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
			tx, reads = pgtest.WatchReads(tx)
			found, err = report.ListChainStates(ctx, tx, []chain.Name{chain.Solana, chain.Ethereum})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return found, reads
	}
	h.write(`INSERT INTO scan_cursors (chain, height, hash, updated_at, forked_above)
		VALUES ('ETHEREUM', 7, 'h7', '2026-03-01Z', 5)`)
	h.write(`INSERT INTO finality_proofs (chain, height, hash, parent, block_time, providers, verified, created_at,
		fork)
		VALUES ('ETHEREUM', 7, 'g7', 'h6', '2026-02-01Z', 1, '', now(), 0),
			('ETHEREUM', 7, 'h7', 'h6', '2026-02-02Z', 1, '', now(), 1)`)
	h.write(`INSERT INTO scan_heads (chain, height, hash, parent) VALUES ('ETHEREUM', 8, '', ''), ('ETHEREUM', 9, '',
		'')`)
	h.write(`INSERT INTO finality_breaks (chain, fork, ancestor_height, ancestor_hash, tip_height, tip_hash,
		settle_height, reason, decided_by, created_at) VALUES ('ETHEREUM', 1, 5, '', 6, '', 6, '', '', now())`)
	h.write(`INSERT INTO scan_untraced (proof_id, tx_hash, status, attempts, last_error, next_attempt_at, created_at,
		done_at)
		SELECT proof_id, t.hash, t.status, 1, '', now(), now(), CASE t.status WHEN 'DONE' THEN now() END
		FROM finality_proofs p, (VALUES ('a', 'DUE'), ('b', 'DUE'), ('c', 'DONE')) t (hash,
			status) WHERE p.hash = 'h7'`)
	h.write(`INSERT INTO scan_findings (chain, kind, height, hash, address, contract, detail, created_at)
		VALUES ('ETHEREUM', 'UNATTRIBUTED', 1, '', 'a', '', '', now()),
			('ETHEREUM', 'UNATTRIBUTED', 1, '', 'b', '', '', now() - interval '31 days')`)
	h.write(`INSERT INTO freezes (freeze_id, scope, chain, source, reason, created_at, lifted_at, lifted_by)
		VALUES ('frz_a', 'CHAIN', 'ETHEREUM', 'OPERATOR', '', now(), NULL, NULL),
			('frz_b', 'CHAIN', 'SOLANA', 'OPERATOR', '', now(), now(), 'x')`)
	h.addOrders("queued", "QUEUED", 3, "")
	h.addOrders("slotted", "SLOTTED", 1, "created_at = '2026-01-15Z'")
	h.addOrders("signed", "SIGNED", 1, "")
	h.addOrders("broadcast", "BROADCAST", 2, "")
	h.addOrders("stuck", "STUCK", 1, "created_at = '2026-01-20Z'")
	h.addOrders("paid", "PAID", 5, "")
	compare := func(found []report.ChainState) {
		t.Helper()
		if len(found) != 2 || found[0].Chain != chain.Ethereum || found[1].Chain != chain.Solana {
			t.Fatalf("got %+v, want both chains by name", found)
		}
		day := func(at *time.Time) string {
			if at == nil {
				return ""
			}
			return at.UTC().Format(time.DateOnly)
		}
		e := found[0]
		if e.FinalHeight == nil || *e.FinalHeight != 7 || day(e.AppliedAt) != "2026-03-01" ||
			day(e.BlockTime) != "2026-02-02" || e.HeadHeight == nil || *e.HeadHeight != 9 || e.ForkedAbove == nil ||
			*e.ForkedAbove != 5 || e.Breaks != 1 || e.Untraced != 2 || e.Findings != 1 || !e.IsFrozen {
			t.Errorf("got %+v, want the scan as it was written", e)
		}
		if e.Queued != 3 || e.Sent != 4 || e.Stuck != 1 || day(e.OldestSlottedAt) != "2026-01-15" {
			t.Errorf("got %+v, want 3 queued, 4 sent and 1 stuck since 2026-01-15", e)
		}
		if s := found[1]; s.FinalHeight != nil || s.AppliedAt != nil || s.Queued+s.Sent+s.Stuck+s.Findings != 0 ||
			s.IsFrozen {
			t.Errorf("got %+v, want a chain that was never scanned", s)
		}
	}
	found, _ := list()
	compare(found)
	h.addMany()
	h.write(`DELETE FROM dispatch_orders WHERE wallet_id <> 'adr_treasury' AND status = 'BROADCAST'`)
	h.write(`VACUUM ANALYZE`)
	found, reads := list()
	compare(found)
	reads.CheckRows(t, "chains", 200)
}
