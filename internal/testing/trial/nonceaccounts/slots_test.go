package nonceaccounts

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/endpoint/fakerpc"
	"github.com/cofferpay/coffer/internal/chain/solana"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/localworld/banktest"
	"github.com/cofferpay/coffer/internal/localworld/surfpool"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

const waits = `SELECT concat_ws(' ', status, waiting_for, last_error) FROM dispatch_orders WHERE order_id = $1`

// provider is the only one that the service asks. It can report a false value of the nonce
// accounts, hide what was mined, and keep what it is given to send.
type provider struct {
	*fakerpc.Node
	mu     sync.Mutex
	tells  string   // the value that it reports for every nonce account; "" for the true one
	hides  bool     // reports no transaction that it was sent
	sent   [][]byte // what it was sent, each once
	nonces []chain.Address
}

// addProvider puts a provider between the service and the chain.
func (w *testEnv) addProvider() *provider {
	w.Helper()
	p := &provider{Node: fakerpc.New(w.T, w.node.URL, nil)}
	client, err := solana.New(w.ctx, solana.Config{
		Network: chain.Local, Endpoints: []string{p.URL}, Quorum: 1,
		Mints: map[chain.Address]solana.Mint{surfpool.USDC: {Program: solanatx.TokenProgram, Decimals: 6}},
	})
	w.mustSucceed(err)
	w.chainConf = client.Chain()
	w.startParts()
	for n := range uint32(solanatx.NonceAccountsMax) {
		at, err := solanatx.NonceAccount(w.treasury.Address, n)
		w.mustSucceed(err)
		p.nonces = append(p.nonces, at)
	}
	p.SetRule("getMultipleAccounts", func(e *fakerpc.Exchange) { p.answerFalsely(w.T, e) })
	p.SetRule("getSignatureStatuses", func(e *fakerpc.Exchange) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.hides {
			return
		}
		e.EditResult(w.T, func(m map[string]any) {
			for i := range m["value"].([]any) {
				m["value"].([]any)[i] = nil
			}
		})
	})
	p.SetRule("sendTransaction", func(e *fakerpc.Exchange) {
		var text string
		if err := json.Unmarshal(e.Params[0], &text); err != nil {
			w.Error(err)
		}
		raw, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			w.Error(err)
		}
		_, hash, err := solanatx.VerifySigned(raw)
		if err != nil {
			w.Error(err)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if !slices.ContainsFunc(p.sent, func(b []byte) bool { return string(b) == string(raw) }) {
			p.sent = append(p.sent, raw)
		}
		e.SetResult(`"` + string(hash) + `"`)
	})
	return p
}

func (p *provider) answerFalsely(t *testing.T, e *fakerpc.Exchange) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var of []chain.Address
	if err := json.Unmarshal(e.Params[0], &of); err != nil || p.tells == "" {
		return
	}
	value, err := solanatx.Bytes(chain.Address(p.tells))
	if err != nil {
		t.Error(err)
	}
	e.EditResult(t, func(m map[string]any) {
		for i, a := range m["value"].([]any) {
			account, there := a.(map[string]any)
			if !there || !slices.Contains(p.nonces, of[i]) {
				continue
			}
			data, err := base64.StdEncoding.DecodeString(account["data"].([]any)[0].(string))
			if err != nil || len(data) != solanatx.NonceBytes {
				continue
			}
			copy(data[40:], value[:])
			account["data"].([]any)[0] = base64.StdEncoding.EncodeToString(data)
		}
	})
}

// setFalseValue sets what the provider reports and hides.
func (p *provider) setFalseValue(value string, hides bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tells, p.hides = value, hides
}

// fundTreasury creates the treasury with its nonce accounts, and coin on them.
func (w *testEnv) fundTreasury() {
	w.Helper()
	w.mustRunAll()
	var err error
	w.treasury, err = w.Wallets.Treasury(w.ctx, w.org, chain.SolanaFamily)
	w.mustSucceed(err)
	_, err = w.node.PayLamports(w.ctx, w.treasury.Address, surfpool.LamportsPerSOL)
	w.mustSucceed(err)
	_, err = w.node.PayLamports(w.ctx, w.ann.Address, 2*surfpool.LamportsPerSOL)
	w.mustSucceed(err)
	for range 3 {
		w.settleAll()
	}
	w.wantText("places", strings.TrimSpace(strings.Repeat("DONE ", w.nonceAccounts)), made)
	w.wantText("sweeps", "DONE", `SELECT string_agg(status, ' ') FROM sweeps`)
}

// nonceValue returns the treasury's nth nonce account and its value on the chain.
func (w *testEnv) nonceValue(n int) (at chain.Address, value string) {
	w.Helper()
	acct, err := w.chainConf.Sender.Account(w.ctx, w.treasury.Address)
	w.mustSucceed(err)
	at, value, err = solanatx.ParseSlotKey(acct.Slots[n].Final)
	w.mustSucceed(err)
	return at, value
}

// replayOnBank replays all that a provider was given on the bank of a validator, on which the
// treasury's first nonce account has a value. It returns the payee's balance then.
func (w *testEnv) replayOnBank(
	bank *banktest.Bank, at chain.Address, value string, sent [][]byte, payee chain.Address,
) uint64 {
	w.Helper()
	bank.SetAccount(w.treasury.Address, surfpool.LamportsPerSOL, solanatx.SystemProgram, nil)
	authority, err := solanatx.Bytes(w.treasury.Address)
	w.mustSucceed(err)
	v, err := solanatx.Bytes(chain.Address(value))
	w.mustSucceed(err)
	data := slices.Concat([]byte{1, 0, 0, 0, 1, 0, 0, 0}, authority[:], v[:], []byte{0x88, 0x13, 0, 0, 0, 0, 0, 0})
	bank.SetAccount(at, solanatx.NonceRent, solanatx.SystemProgram, data)
	for range 2 {
		for _, raw := range sent {
			bank.NextBlock()
			ran, why := bank.SendRaw(raw)
			w.Logf("run %v %s", ran, why)
		}
	}
	return bank.LamportsAt(payee)
}

// The only provider reports a recent blockhash as a nonce's value, and reports nothing that it was
// sent. An honest worker then replaces a payment that was made.
func TestALyingProviderGetsNoSecondPayment(t *testing.T) {
	t.Parallel()
	const units = 100_000_000
	w := newTestEnv(t, 1)
	w.fundTreasury()
	p, bank := w.addProvider(), banktest.Start(t)
	at, value := w.nonceValue(0)

	t.Run("a recent block", func(t *testing.T) {
		w.T = t
		p.setFalseValue(bank.LatestBlockhash(), true)
		id, to := w.requestWithdrawal(sol, units)
		for range 4 {
			w.mustRunAll()
			w.advanceClock(2 * time.Minute)
		}
		if got := w.queryText(waits, id); !strings.HasPrefix(
			got, "QUEUED SLOT no free nonce account of its wallet on the chain is proven yet: no provider",
		) {
			t.Errorf("got %q, want it to wait for a place that is proven", got)
		}
		if got := w.replayOnBank(bank, at, value, p.sent, to); got != 0 || len(p.sent) != 0 {
			t.Errorf("got %d lamports paid by %d transactions, want none", got, len(p.sent))
		}
		p.setFalseValue("", false)
		for range 3 {
			w.advanceClock(2 * time.Minute)
			w.settleAll()
		}
		w.wantText("when it tells the truth", "PAID", state, id)
		if got := w.chainBalance(to, sol); got != units {
			t.Errorf("got %d lamports paid, want %d", got, units)
		}
		w.checkBooks()
	})
	t.Run("what was mined is hidden", func(t *testing.T) {
		w.T = t
		at, value := w.nonceValue(0)
		p.sent = nil
		p.setFalseValue(value, true)
		id, to := w.requestWithdrawal(sol, units)
		for range 4 {
			w.mustRunAll()
			w.mineBlocks(surfpool.Finality + 1)
			w.advanceClock(2 * time.Minute)
		}
		if len(p.sent) < 3 {
			t.Fatalf(
				"got %d transactions of %q, want the payment and its replacements", len(p.sent), w.queryText(tries, id),
			)
		}
		if got := w.replayOnBank(banktest.Start(t), at, value, p.sent, to); got != units {
			t.Errorf("got %d lamports paid by %d transactions of one order, want %d", got, len(p.sent), units)
		}
		p.setFalseValue("", false)
		w.settleAll()
		w.settleAll()
		w.wantText("when it tells the truth", "PAID", state, id)
		if got := w.chainBalance(to, sol); got != units {
			t.Errorf("got %d lamports paid, want %d", got, units)
		}
		w.checkBooks()
	})
}

// Providers forget. The final transactions of our own orders prove their nonce accounts. A nonce
// account without a proof is left out while others are used.
func TestANonceAccountThatNothingProvesIsLeftOut(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, 2)
	w.fundTreasury()
	p := w.addProvider()
	p.SetRule("getSignaturesForAddress", func(e *fakerpc.Exchange) { e.SetResult(`[]`) })
	used := `SELECT split_part(slot_key, ' ', 1) FROM dispatch_slots WHERE order_id = $1`
	pay := func() string {
		t.Helper()
		id, _ := w.requestWithdrawal(sol, 10_000_000)
		w.advanceClock(2 * time.Minute)
		w.settleAll()
		w.settleAll()
		return id
	}
	for range 3 {
		w.wantText("from the blocks of our orders", "PAID", state, pay())
	}
	first, value := w.nonceValue(0)
	second, _ := w.nonceValue(1)
	w.useNonceAccount(first, value) // no order of ours has this transaction
	w.mineBlocks(surfpool.Finality + 1)
	for range 2 {
		id := pay()
		w.wantText("from the place that is proven", "PAID", state, id)
		w.wantText("the place", string(second), used, id)
	}
	_, value = w.nonceValue(1)
	w.useNonceAccount(second, value)
	w.mineBlocks(surfpool.Finality + 1)
	id := pay()
	if got := w.queryText(waits, id); !strings.HasPrefix(
		got, "QUEUED SLOT no free nonce account of its wallet on the chain is proven yet: no provider",
	) {
		t.Errorf("got %q, want it to wait for a place that is proven", got)
	}
	// A provider shows a block later than its effects, so a contradiction is no alarm at once.
	alarmed := func() bool {
		return strings.Contains(w.log.String(), `level=ERROR msg="a nonce account of a wallet is not used`) &&
			strings.Contains(w.log.String(), "place="+string(second))
	}
	if alarmed() {
		t.Errorf("got an alarm about %s at the first look in vain", second)
	}
	w.advanceClock(2 * time.Minute)
	w.settleAll()
	if !alarmed() {
		t.Errorf("got no alarm about %s after two minutes; the log says %s", second, w.log.String())
	}
}

// The owner of the database can write another nonce account, or another proof, into a slot, and the
// signer signs nothing in it.
func TestASlotThatWasChangedIsNotSignedIn(t *testing.T) {
	t.Parallel()
	const units = 100_000_000
	w := newTestEnv(t, 1)
	w.fundTreasury()
	at, value := w.nonceValue(0)
	owner := pgtest.OwnerPool(t, w.db)
	exec := func(sql string, args ...any) error {
		_, err := owner.Exec(w.ctx, sql, args...)
		return err
	}
	w.crashPlan.mute = true
	id, to := w.requestWithdrawal(sol, units)
	w.advanceClock(5 * time.Second)
	for range 2 {
		_ = w.runAllSteps() // the signer does not answer
	}
	w.wantText("before it is signed", "SLOTTED", state, id)
	proof := w.queryText(`SELECT proof FROM dispatch_slots WHERE order_id = $1`, id)
	if v, err := solanatx.NonceValueAfter(proof); err != nil || v != value {
		t.Fatalf("got proof %q (%v) of the slot, want that of %s", proof, err, value)
	}
	recent := w.queryText(`SELECT hash FROM finality_proofs ORDER BY height DESC LIMIT 1`)
	other := w.queryText(`SELECT hash FROM finality_proofs ORDER BY height LIMIT 1`)

	// A role that is not the owner changes nothing, and the constraint refuses the owner.
	for _, to := range []string{"", other} {
		err := w.db.InSystem(w.ctx, func(ctx context.Context, tx pg.Tx) error {
			_, err := tx.Exec(ctx, `UPDATE dispatch_slots SET proof = $2 WHERE order_id = $1`, id, to)
			return err
		})
		if !pg.ViolatesConstraint(err, "dispatch_slots_fixed") {
			t.Errorf("proof %q: got %v, want it refused: it is written once", to, err)
		}
	}
	w.mustSucceed(exec(`ALTER TABLE dispatch_slots DISABLE TRIGGER USER`))
	w.mustSucceed(exec(`ALTER TABLE dispatch_attempts DISABLE TRIGGER USER`))
	for what, change := range map[string]string{
		"another block":   `UPDATE dispatch_slots SET proof = '` + other + `' WHERE order_id = $1`,
		"the value":       `UPDATE dispatch_slots SET proof = split_part(slot_key, ' ', 2) WHERE order_id = $1`,
		"no hash":         `UPDATE dispatch_slots SET proof = 'block' WHERE order_id = $1`,
		"another value":   `UPDATE dispatch_slots SET slot_key = split_part(slot_key, ' ', 1) || ' ` + recent + `' WHERE order_id = $1`,
		"no value at all": `UPDATE dispatch_slots SET slot_key = split_part(slot_key, ' ', 1) WHERE order_id = $1`,
		"another chain":   `UPDATE dispatch_slots SET chain = 'BITCOIN' WHERE order_id = $1`,
	} {
		if err := exec(change, id); !pg.ViolatesConstraint(err, "dispatch_slots_proven") {
			t.Errorf("%s: got %v, want it refused: the proof does not fit", what, err)
		}
	}

	constraint := w.queryText(
		`SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'dispatch_slots_proven'`,
	)
	w.mustSucceed(exec(`ALTER TABLE dispatch_slots DROP CONSTRAINT dispatch_slots_proven`))
	var payload []byte
	w.mustSucceed(owner.QueryRow(w.ctx, `SELECT payload FROM dispatch_attempts WHERE order_id = $1`, id).Scan(&payload))
	honest, err := solanatx.Decode(payload)
	w.mustSucceed(err)
	foreign, err := solanatx.NonceAccount(w.ann.Address, 0)
	w.mustSucceed(err)
	put := func(tx solanatx.Tx, proof string) {
		t.Helper()
		bytes, err := tx.Payload()
		w.mustSucceed(err)
		w.mustSucceed(exec(
			`UPDATE dispatch_slots SET slot_key = $2, proof = $3 WHERE order_id = $1`, id, tx.SlotKey(), proof,
		))
		w.mustSucceed(exec(`UPDATE dispatch_attempts SET payload = $2 WHERE order_id = $1`, id, bytes))
	}
	w.crashPlan.mute = false
	for what, change := range map[string]func(*solanatx.Tx) string{
		"a recent block":              func(tx *solanatx.Tx) string { tx.NonceValue = recent; return proof },
		"a recent block for itself":   func(tx *solanatx.Tx) string { tx.NonceValue = recent; return recent },
		"a recent block, no proof":    func(tx *solanatx.Tx) string { tx.NonceValue = recent; return "" },
		"another proof":               func(*solanatx.Tx) string { return other },
		"somebody else's place":       func(tx *solanatx.Tx) string { tx.NonceAccount = foreign; return proof },
		"somebody else's, unprovable": func(tx *solanatx.Tx) string { tx.NonceAccount = foreign; return "" },
	} {
		tx := honest
		with := change(&tx)
		put(tx, with)
		for range 2 {
			w.advanceClock(2 * time.Minute)
			w.mustRunAll()
		}
		w.wantText(what, "SLOTTED", state, id)
		if got := w.queryText(waits, id); !strings.Contains(got, "more than one transaction in the slot") {
			t.Errorf("%s: got %q, want the signer's refusal", what, got)
		}
	}
	if got := w.chainBalance(to, sol); got != 0 {
		t.Fatalf("got %d lamports paid, want none", got)
	}

	// A slot of an older program has no proof. The service looks it up, also after it died before
	// it stored the proof.
	put(honest, "")
	w.mustSucceed(exec(`ALTER TABLE dispatch_slots ADD CONSTRAINT dispatch_slots_proven ` + constraint))
	w.mustSucceed(exec(`ALTER TABLE dispatch_slots ENABLE TRIGGER USER`))
	w.mustSucceed(exec(`ALTER TABLE dispatch_attempts ENABLE TRIGGER USER`))
	w.startParts()
	w.crashPlan.knows = true
	w.advanceClock(2 * time.Minute)
	_ = w.runAllSteps()
	w.wantText("dead with the proof", "SLOTTED", state, id)
	w.wantText("which is not kept", "", `SELECT proof FROM dispatch_slots WHERE order_id = $1`, id)
	w.startParts()
	w.settleAll()
	w.settleAll()
	w.wantText(
		"in the end", "PAID "+proof,
		`SELECT o.status || ' ' || s.proof FROM dispatch_orders o JOIN dispatch_slots s USING (order_id) WHERE order_id = $1`,
		id,
	)
	if got := w.chainBalance(to, sol); got != units {
		t.Errorf("got %d lamports paid, want %d", got, units)
	}
	if account, _ := w.nonceValue(0); account != at {
		t.Errorf("got place %s, want %s", account, at)
	}
	w.checkBooks()
}
