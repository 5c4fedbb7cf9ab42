package leases

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
	"github.com/cofferpay/coffer/internal/chain/endpoint/liar"
	"github.com/cofferpay/coffer/internal/chain/solana"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/localworld/banktest"
	"github.com/cofferpay/coffer/internal/localworld/surfpool"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/pg/pgtest"
)

const waits = `SELECT concat_ws(' ', status, waiting_for, last_error) FROM dispatch_orders WHERE order_id = $1`

// provider is the only one that the service asks. It can tell another value of the nonce
// accounts than they have, hide what was mined, and keep what it is given to send.
type provider struct {
	*liar.Node
	mu     sync.Mutex
	tells  string   // of every nonce account; "" the truth
	hides  bool     // no transaction that it was sent is anywhere
	sent   [][]byte // what came here, each once
	nonces []chain.Address
}

// provide puts a provider between the service and the chain.
func (w *world) provide() *provider {
	w.Helper()
	p := &provider{Node: liar.New(w.T, w.node.URL, nil)}
	client, err := solana.New(w.ctx, solana.Config{
		Network: chain.Local, Endpoints: []string{p.URL}, Agree: 1,
		Mints: map[chain.Address]solana.Mint{surfpool.USDC: {Program: solanatx.TokenProgram, Decimals: 6}},
	})
	w.must(err)
	w.far = client.Chain()
	w.start()
	for n := range uint32(solanatx.NonceAccountsMax) {
		at, err := solanatx.NonceAccount(w.treasury.Address, n)
		w.must(err)
		p.nonces = append(p.nonces, at)
	}
	p.On("getMultipleAccounts", func(e *liar.Exchange) { p.lie(w.T, e) })
	p.On("getSignatureStatuses", func(e *liar.Exchange) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.hides {
			return
		}
		e.Edit(w.T, func(m map[string]any) {
			for i := range m["value"].([]any) {
				m["value"].([]any)[i] = nil
			}
		})
	})
	p.On("sendTransaction", func(e *liar.Exchange) {
		var text string
		if err := json.Unmarshal(e.Params[0], &text); err != nil {
			w.Error(err)
		}
		raw, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			w.Error(err)
		}
		_, hash, err := solanatx.Open(raw)
		if err != nil {
			w.Error(err)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if !slices.ContainsFunc(p.sent, func(b []byte) bool { return string(b) == string(raw) }) {
			p.sent = append(p.sent, raw)
		}
		e.Say(`"` + string(hash) + `"`)
	})
	return p
}

func (p *provider) lie(t *testing.T, e *liar.Exchange) {
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
	e.Edit(t, func(m map[string]any) {
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

// told sets what it tells and hides.
func (p *provider) told(value string, hides bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tells, p.hides = value, hides
}

// funded makes the treasury with its places, and coin on them.
func (w *world) funded() {
	w.Helper()
	w.work()
	var err error
	w.treasury, err = w.Book.Treasury(w.ctx, w.org, chain.SolanaFamily)
	w.must(err)
	_, err = w.node.Pay(w.ctx, w.treasury.Address, surfpool.LamportsPerSOL)
	w.must(err)
	_, err = w.node.Pay(w.ctx, w.ann.Address, 2*surfpool.LamportsPerSOL)
	w.must(err)
	for range 3 {
		w.settle()
	}
	w.want("places", strings.TrimSpace(strings.Repeat("DONE ", w.places)), made)
	w.want("sweeps", "DONE", `SELECT string_agg(status, ' ') FROM sweeps`)
}

// valued is the lease of the treasury's nth place on the chain.
func (w *world) valued(n int) (at chain.Address, value string) {
	w.Helper()
	acct, err := w.far.Sender.Account(w.ctx, w.treasury.Address)
	w.must(err)
	at, value, err = solanatx.ParseLease(acct.Leases[n].Final)
	w.must(err)
	return at, value
}

// paid replays all that a provider was given on the bank of a validator, on which the
// treasury's first place has a value, and is what the payee has then.
func (w *world) paid(bank *banktest.Bank, at chain.Address, value string, sent [][]byte, payee chain.Address) uint64 {
	w.Helper()
	bank.Set(w.treasury.Address, surfpool.LamportsPerSOL, solanatx.SystemProgram, nil)
	authority, err := solanatx.Bytes(w.treasury.Address)
	w.must(err)
	v, err := solanatx.Bytes(chain.Address(value))
	w.must(err)
	data := slices.Concat([]byte{1, 0, 0, 0, 1, 0, 0, 0}, authority[:], v[:], []byte{0x88, 0x13, 0, 0, 0, 0, 0, 0})
	bank.Set(at, solanatx.NonceRent, solanatx.SystemProgram, data)
	for range 2 {
		for _, raw := range sent {
			bank.Next()
			ran, why := bank.Send(raw)
			w.Logf("run %v %s", ran, why)
		}
	}
	return bank.Lamports(payee)
}

// The only provider tells a recent block in place of a nonce's value, and that nothing that
// it was sent is anywhere. An honest desk then replaces a payment that was made.
func TestALyingProviderGetsNoSecondPayment(t *testing.T) {
	t.Parallel()
	const units = 100_000_000
	w := open(t, 1)
	w.funded()
	p, bank := w.provide(), banktest.Start(t)
	at, value := w.valued(0)

	t.Run("a recent block", func(t *testing.T) {
		w.T = t
		p.told(bank.Blockhash(), true)
		id, to := w.ask(sol, units)
		for range 4 {
			w.work()
			w.pass(2 * time.Minute)
		}
		if got := w.text(waits, id); !strings.HasPrefix(got, "QUEUED SLOT no free place of its wallet on the chain is proven yet: no provider") {
			t.Errorf("got %q, want it to wait for a place that is proven", got)
		}
		if got := w.paid(bank, at, value, p.sent, to); got != 0 || len(p.sent) != 0 {
			t.Errorf("got %d lamports paid by %d transactions, want none", got, len(p.sent))
		}
		p.told("", false)
		for range 3 {
			w.pass(2 * time.Minute)
			w.settle()
		}
		w.want("when it tells the truth", "PAID", state, id)
		if got := w.holds(to, sol); got != units {
			t.Errorf("got %d lamports paid, want %d", got, units)
		}
		w.sound()
	})
	t.Run("what was mined is hidden", func(t *testing.T) {
		w.T = t
		at, value := w.valued(0)
		p.sent = nil
		p.told(value, true)
		id, to := w.ask(sol, units)
		for range 4 {
			w.work()
			w.mine(surfpool.Finality + 1)
			w.pass(2 * time.Minute)
		}
		if len(p.sent) < 3 {
			t.Fatalf("got %d transactions of %q, want the payment and its replacements", len(p.sent), w.text(tries, id))
		}
		if got := w.paid(banktest.Start(t), at, value, p.sent, to); got != units {
			t.Errorf("got %d lamports paid by %d transactions of one order, want %d", got, len(p.sent), units)
		}
		p.told("", false)
		w.settle()
		w.settle()
		w.want("when it tells the truth", "PAID", state, id)
		if got := w.holds(to, sol); got != units {
			t.Errorf("got %d lamports paid, want %d", got, units)
		}
		w.sound()
	})
}

// Providers forget. What our own orders ended in proves their places, and a place that
// nothing proves is left out while others go on.
func TestAPlaceThatNothingProvesIsLeftOut(t *testing.T) {
	t.Parallel()
	w := open(t, 2)
	w.funded()
	p := w.provide()
	p.On("getSignaturesForAddress", func(e *liar.Exchange) { e.Say(`[]`) })
	used := `SELECT split_part(lease, ' ', 1) FROM dispatch_slots WHERE order_id = $1`
	pay := func() string {
		t.Helper()
		id, _ := w.ask(sol, 10_000_000)
		w.pass(2 * time.Minute)
		w.settle()
		w.settle()
		return id
	}
	for range 3 {
		w.want("from the blocks of our orders", "PAID", state, pay())
	}
	first, value := w.valued(0)
	second, _ := w.valued(1)
	w.take(first, value) // no order of ours has it
	w.mine(surfpool.Finality + 1)
	for range 2 {
		id := pay()
		w.want("from the place that is proven", "PAID", state, id)
		w.want("the place", string(second), used, id)
	}
	_, value = w.valued(1)
	w.take(second, value)
	w.mine(surfpool.Finality + 1)
	id := pay()
	if got := w.text(waits, id); !strings.HasPrefix(got, "QUEUED SLOT no free place of its wallet on the chain is proven yet: no provider") {
		t.Errorf("got %q, want it to wait for a place that is proven", got)
	}
	// A provider shows a block later than what it changed, so that is no alarm at once.
	alarmed := func() bool {
		return strings.Contains(w.log.String(), `level=ERROR msg="a place of a wallet is not used`) && strings.Contains(w.log.String(), "place="+string(second))
	}
	if alarmed() {
		t.Errorf("got an alarm about %s at the first look in vain", second)
	}
	w.pass(2 * time.Minute)
	w.settle()
	if !alarmed() {
		t.Errorf("got no alarm about %s after two minutes; the log says %s", second, w.log.String())
	}
}

// The owner of the database can put another place, or another proof, into a slot, and the
// signer signs nothing in it.
func TestASlotThatWasChangedIsNotSignedIn(t *testing.T) {
	t.Parallel()
	const units = 100_000_000
	w := open(t, 1)
	w.funded()
	at, value := w.valued(0)
	owner := pgtest.Owner(t, w.db)
	exec := func(sql string, args ...any) error {
		_, err := owner.Exec(w.ctx, sql, args...)
		return err
	}
	w.fate.mute = true
	id, to := w.ask(sol, units)
	w.pass(5 * time.Second)
	for range 2 {
		_ = w.turn() // the signer does not answer
	}
	w.want("before it is signed", "SLOTTED", state, id)
	proof := w.text(`SELECT proof FROM dispatch_slots WHERE order_id = $1`, id)
	if v, err := solanatx.Durable(proof); err != nil || v != value {
		t.Fatalf("got proof %q (%v) of the slot, want that of %s", proof, err, value)
	}
	recent := w.text(`SELECT hash FROM finality_proofs ORDER BY height DESC LIMIT 1`)
	other := w.text(`SELECT hash FROM finality_proofs ORDER BY height LIMIT 1`)

	// Whoever is not the owner changes nothing, and who is does not come past the constraint.
	for _, to := range []string{"", other} {
		err := w.db.InSystem(w.ctx, func(ctx context.Context, tx pg.Tx) error {
			_, err := tx.Exec(ctx, `UPDATE dispatch_slots SET proof = $2 WHERE order_id = $1`, id, to)
			return err
		})
		if !pg.Violates(err, "dispatch_slots_fixed") {
			t.Errorf("proof %q: got %v, want it refused: it is written once", to, err)
		}
	}
	w.must(exec(`ALTER TABLE dispatch_slots DISABLE TRIGGER USER`))
	w.must(exec(`ALTER TABLE dispatch_attempts DISABLE TRIGGER USER`))
	for what, change := range map[string]string{
		"another block":   `UPDATE dispatch_slots SET proof = '` + other + `' WHERE order_id = $1`,
		"the value":       `UPDATE dispatch_slots SET proof = split_part(lease, ' ', 2) WHERE order_id = $1`,
		"no hash":         `UPDATE dispatch_slots SET proof = 'block' WHERE order_id = $1`,
		"another value":   `UPDATE dispatch_slots SET lease = split_part(lease, ' ', 1) || ' ` + recent + `' WHERE order_id = $1`,
		"no value at all": `UPDATE dispatch_slots SET lease = split_part(lease, ' ', 1) WHERE order_id = $1`,
		"another chain":   `UPDATE dispatch_slots SET chain = 'BITCOIN' WHERE order_id = $1`,
	} {
		if err := exec(change, id); !pg.Violates(err, "dispatch_slots_proven") {
			t.Errorf("%s: got %v, want it refused: the proof does not fit", what, err)
		}
	}

	constraint := w.text(`SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'dispatch_slots_proven'`)
	w.must(exec(`ALTER TABLE dispatch_slots DROP CONSTRAINT dispatch_slots_proven`))
	var payload []byte
	w.must(owner.QueryRow(w.ctx, `SELECT payload FROM dispatch_attempts WHERE order_id = $1`, id).Scan(&payload))
	honest, err := solanatx.Decode(payload)
	w.must(err)
	foreign, err := solanatx.NonceAccount(w.ann.Address, 0)
	w.must(err)
	put := func(tx solanatx.Tx, proof string) {
		t.Helper()
		bytes, err := tx.Payload()
		w.must(err)
		w.must(exec(`UPDATE dispatch_slots SET lease = $2, proof = $3 WHERE order_id = $1`, id, tx.Lease(), proof))
		w.must(exec(`UPDATE dispatch_attempts SET payload = $2 WHERE order_id = $1`, id, bytes))
	}
	w.fate.mute = false
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
			w.pass(2 * time.Minute)
			w.work()
		}
		w.want(what, "SLOTTED", state, id)
		if got := w.text(waits, id); !strings.Contains(got, "more than one transaction in the slot") {
			t.Errorf("%s: got %q, want the signer's refusal", what, got)
		}
	}
	if got := w.holds(to, sol); got != 0 {
		t.Fatalf("got %d lamports paid, want none", got)
	}

	// A slot of before has no proof. It is looked up, also by who died before it was kept.
	put(honest, "")
	w.must(exec(`ALTER TABLE dispatch_slots ADD CONSTRAINT dispatch_slots_proven ` + constraint))
	w.must(exec(`ALTER TABLE dispatch_slots ENABLE TRIGGER USER`))
	w.must(exec(`ALTER TABLE dispatch_attempts ENABLE TRIGGER USER`))
	w.start()
	w.fate.knows = true
	w.pass(2 * time.Minute)
	_ = w.turn()
	w.want("dead with the proof", "SLOTTED", state, id)
	w.want("which is not kept", "", `SELECT proof FROM dispatch_slots WHERE order_id = $1`, id)
	w.start()
	w.settle()
	w.settle()
	w.want("in the end", "PAID "+proof, `SELECT o.status || ' ' || s.proof FROM dispatch_orders o JOIN dispatch_slots s USING (order_id) WHERE order_id = $1`, id)
	if got := w.holds(to, sol); got != units {
		t.Errorf("got %d lamports paid, want %d", got, units)
	}
	if account, _ := w.valued(0); account != at {
		t.Errorf("got place %s, want %s", account, at)
	}
	w.sound()
}
