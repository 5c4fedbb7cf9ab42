package deposit_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/webhook"
)

// memoProvider shows the memos of transactions.
type memoProvider struct {
	mu      sync.Mutex
	memos   map[chain.TxHash]string
	asked   map[chain.TxHash]int
	away    bool   // it shows no transaction
	refused error  // what another provider answered
	amid    func() // called once, during the first question
}

func (p *memoProvider) Memo(_ context.Context, tx chain.TxHash) (memo string, refused, err error) {
	p.mu.Lock()
	p.asked[tx]++
	amid := p.amid
	p.amid = nil
	p.mu.Unlock()
	if amid != nil {
		amid()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.away {
		return "", p.refused, errors.New("no provider shows the transaction")
	}
	return p.memos[tx], p.refused, nil
}

func (p *memoProvider) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// memoWorld is an environment on a chain with memos, with its clock.
type memoWorld struct {
	*testEnv
	provider *memoProvider
	mu       sync.Mutex
	now      time.Time
}

func (w *memoWorld) later(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

func openMemos(t *testing.T) *memoWorld {
	t.Helper()
	w := &memoWorld{
		now:      time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		provider: &memoProvider{memos: map[chain.TxHash]string{}, asked: map[chain.TxHash]int{}},
	}
	db := pgtest.NewWithClock(t, func() time.Time {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.now
	})
	w.testEnv = openOn(t, db, risk.Policy{})
	w.service = w.another()
	w.w = w.newWalker(w.service)
	return w
}

// another returns the service of another process.
func (w *memoWorld) another() *deposit.Service {
	on := w.c.ToChain()
	on.Memos = w.provider
	s := w.newService(risk.Policy{}, price.Fixed{})
	s.Chains = chain.Chains{chain.Ethereum: on}
	return s
}

func (w *memoWorld) step(t *testing.T) int {
	t.Helper()
	n, err := w.service.ReadMemos(t.Context())
	if err != nil {
		t.Fatalf("ReadMemos: %v", err)
	}
	return n
}

// memo returns the memo that the deposits of a transaction show, "" for null.
func (w *memoWorld) memo(t *testing.T, tx chain.TxHash) string {
	t.Helper()
	found := w.listDeposits(t, deposit.Filter{TxHash: string(tx)})
	if len(found) == 0 {
		t.Fatalf("transaction %s has no deposit", tx)
	}
	for _, d := range found[1:] {
		if memoOf(d) != memoOf(found[0]) {
			t.Errorf("got %q and %q in deposits of one transaction", memoOf(found[0]), memoOf(d))
		}
	}
	return memoOf(found[0])
}

func memoOf(d webhook.Deposit) string {
	if d.Memo == nil {
		return ""
	}
	return *d.Memo
}

// told returns the memos in the events of a type.
func (w *memoWorld) told(t *testing.T, kind string) (memos []string) {
	t.Helper()
	rows, err := pgtest.OwnerPool(t, w.db).Query(
		t.Context(), `SELECT data FROM events WHERE type = $1 ORDER BY created_at, event_id`, kind,
	)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var data []byte
		var d webhook.Deposit
		if err := errors.Join(rows.Scan(&data), json.Unmarshal(data, &d)); err != nil {
			t.Fatal(err)
		}
		memos = append(memos, memoOf(d))
	}
	return memos
}

// Rule DEP-54.
func TestADepositShowsThePayersMemo(t *testing.T) {
	t.Parallel()
	w := openMemos(t)
	both := w.c.SubmitTx(
		payer, sim.Move{Contract: usdcAt, To: alice, Amount: money.Units(100)},
		sim.Move{Contract: usdcAt, To: bob, Amount: money.Units(200)},
	)
	w.provider.memos[both] = "order 7"
	w.c.Mine(1)
	w.readHead(t)
	if got := w.memo(t, both); got != "" {
		t.Errorf("before it is read: got %q, want null", got)
	}
	w.step(t)
	if got := w.memo(t, both); got != "order 7" {
		t.Errorf("while the deposit is not final: got %q, want the memo", got)
	}
	w.c.Mine(3)
	w.walkFinal(t)
	if got := w.told(t, "CUSTOMER_DEPOSIT"); len(got) != 2 || got[0] != "order 7" || got[1] != "order 7" {
		t.Errorf("in the events of two credits: got %q, want the memo in both", got)
	}

	// A credit does not wait for a memo, and a missing memo is null.
	w.later(time.Second)
	late, none := w.c.Pay(payer, alice, usdcAt, 300), w.c.Pay(payer, alice, usdcAt, 400)
	w.provider.memos[late] = "order 8"
	w.c.Mine(4)
	w.walkFinal(t)
	w.wantCredited(t, usdc, 800, 4)
	if got := w.told(t, "CUSTOMER_DEPOSIT"); len(got) != 4 || got[2] != "" || got[3] != "" {
		t.Errorf("in events before the memo is read: got %q, want null", got[2:])
	}
	w.step(t)
	if got := w.memo(t, late); got != "order 8" {
		t.Errorf("afterwards: got %q, want the memo", got)
	}
	if got := w.memo(t, none); got != "" {
		t.Errorf("without a memo: got %q, want null", got)
	}
	if n := w.step(t); n != 0 {
		t.Errorf("got %d transactions asked about, want none: every memo is read", n)
	}
	for tx, n := range w.provider.asked {
		if n != 1 {
			t.Errorf("transaction %s: asked %d times, want once", tx, n)
		}
	}

	// No provider is asked about deposits that are never credited or that only the operator sees.
	w.c.Pay(payer, alice, usdcAt, 9)
	w.c.Mint(payer, sim.Address("odd"), money.Units(100))
	w.c.Pay(payer, alice, sim.Address("odd"), 50)
	w.c.Pay(payer, treasury, "", 500)
	w.c.Mine(4)
	w.walkFinal(t)
	if n := w.step(t); n != 0 {
		t.Errorf("got %d transactions asked about, want none of dust, of an unknown token and of the treasury", n)
	}

	// A deposit that a version without memos recorded is queued when it becomes final.
	earlier := w.c.Pay(payer, alice, usdcAt, 500)
	w.provider.memos[earlier] = "order 9"
	w.c.Mine(1)
	now := w.w
	withoutChains := w.newService(risk.Policy{}, price.Fixed{})
	withoutChains.Chains = nil
	w.w = w.newWalker(withoutChains)
	w.readHead(t)
	w.w = now
	if n := w.step(t); n != 0 {
		t.Errorf("got %d transactions asked about, want none: no row is there yet", n)
	}
	w.c.Mine(3)
	w.walkFinal(t)
	w.step(t)
	if got := w.memo(t, earlier); got != "order 9" {
		t.Errorf("recorded by an earlier version: got %q, want the memo", got)
	}
}

func TestAMemoIsCleanedOfWhatIsNoText(t *testing.T) {
	t.Parallel()
	w := openMemos(t)
	want := map[chain.TxHash]string{}
	for memo, clean := range map[string]string{
		"order 7\n\tfor Ann: ☕":    "order 7\n\tfor Ann: ☕",
		"a\x00b\x1b[31m\x7f\u0085": "a\uFFFDb\uFFFD[31m\uFFFD\uFFFD",
		"a\xff\xc3b":               "a\uFFFD\uFFFDb",
		"pay \u202e7 redro\u202c":  "pay \uFFFD7 redro\uFFFD",
		"=1+1":                     "=1+1",
		strings.Repeat("☕", 2000):  strings.Repeat("☕", 1365),
		"\x00":                     "\uFFFD",
	} {
		tx := w.c.Pay(payer, alice, usdcAt, 100)
		w.provider.memos[tx], want[tx] = memo, clean
	}
	w.c.Mine(4)
	w.walkFinal(t)
	w.step(t)
	for tx, clean := range want {
		if got := w.memo(t, tx); got != clean || !utf8.ValidString(got) {
			t.Errorf("%q: got %q, want %q", w.provider.memos[tx], got, clean)
		}
	}
}

// Providers that are down or lie are asked again at growing intervals, and the deposit is credited
// meanwhile.
func TestAMemoThatNoProviderShowsIsGivenUpInTheEnd(t *testing.T) {
	t.Parallel()
	w := openMemos(t)
	w.provider.away, w.provider.refused = true, errors.New("these are the bytes of transaction x")
	tx := w.c.Pay(payer, alice, usdcAt, 100)
	w.provider.memos[tx] = "order 7"
	w.c.Mine(4)
	w.walkFinal(t)
	w.wantCredited(t, usdc, 100, 1)
	pause, attempts := 15*time.Second, 0
	for ; w.queryCount(t, `SELECT count(*) FROM transaction_memos WHERE status = 'DUE'`) > 0 &&
		attempts < 100; attempts++ {
		if n := w.step(t); n != 1 {
			t.Fatalf("attempt %d: got %d asked about, want it asked again after %v", attempts+1, n, pause)
		}
		w.later(pause - time.Millisecond)
		if n := w.step(t); n != 0 {
			t.Fatalf("attempt %d: asked again before %v", attempts+1, pause)
		}
		w.later(time.Millisecond)
		pause = min(2*pause, 6*time.Hour)
	}
	if attempts != 20 || w.provider.asked[tx] != 20 {
		t.Errorf("got %d attempts and %d requests, want 20", attempts, w.provider.asked[tx])
	}
	w.provider.away = false
	w.later(24 * time.Hour)
	if n := w.step(t); n != 0 || w.memo(t, tx) != "" {
		t.Errorf("got %d asked about and %q, want it given up", n, w.memo(t, tx))
	}
	if n := w.queryCount(
		t,
		`SELECT count(*) FROM transaction_memos WHERE status = 'ABANDONED' AND last_error = 'no provider shows the transaction'`,
	); n != 1 {
		t.Errorf("got %d rows that are given up and say why, want one", n)
	}
	for _, said := range []string{"gave up reading the memo", "refused a provider's answer", "these are the bytes"} {
		if !strings.Contains(w.logs.String(), said) {
			t.Errorf("the log does not say %q", said)
		}
	}
	again := w.c.Pay(payer, alice, usdcAt, 100)
	w.provider.memos[again] = "order 8"
	w.c.Mine(4)
	w.walkFinal(t)
	w.step(t)
	if got := w.memo(t, again); got != "order 8" {
		t.Errorf("the next deposit: got %q, want its memo", got)
	}
}

func TestAFloodOfMemosHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	w := openMemos(t)
	first := w.c.Pay(payer, alice, usdcAt, 100)
	w.c.Mine(4)
	w.walkFinal(t)
	for range 100 {
		w.later(time.Second)
		w.c.Pay(payer, alice, usdcAt, 100)
		w.c.Mine(1)
		w.walkFinal(t)
	}
	w.c.Mine(3)
	w.walkFinal(t)
	w.later(time.Second)
	last := w.c.Pay(payer, bob, usdcAt, 100)
	w.c.Mine(1)
	w.readHead(t)
	w.provider.memos[first], w.provider.memos[last] = "the oldest", "the newest"
	if n := w.step(t); n != 16 {
		t.Errorf("got %d asked about in one step, want 16", n)
	}
	if got := w.memo(t, first); got != "the oldest" {
		t.Errorf("got %q, want the oldest read in the first step", got)
	}
	if got := w.memo(t, last); got != "the newest" {
		t.Errorf("got %q, want the newest read in the first step", got)
	}
	steps := 0
	for ; w.step(t) > 0 && steps < 100; steps++ {
	}
	if n := w.queryCount(t, `SELECT count(*) FROM transaction_memos WHERE status = 'READ'`); n != 102 {
		t.Errorf("got %d read after %d steps, want all", n, steps)
	}
}

func TestTwoProcessesReadOneMemo(t *testing.T) {
	t.Parallel()
	w := openMemos(t)
	tx := w.c.Pay(payer, alice, usdcAt, 100)
	w.provider.memos[tx] = "order 7"
	w.c.Mine(4)
	w.walkFinal(t)
	w.provider.amid = func() {
		if n, err := w.another().ReadMemos(t.Context()); err != nil || n != 1 {
			t.Errorf("the second process: got %d, %v, want it to read the memo", n, err)
		}
		w.provider.set(func() { w.provider.away = true }) // the first answer is lost
	}
	w.step(t)
	if got := w.memo(t, tx); got != "order 7" {
		t.Errorf("got %q, want the memo that one of them has read", got)
	}
	if n := w.queryCount(t, `SELECT count(*) FROM transaction_memos WHERE status = 'READ' AND attempts = 1`); n != 1 {
		t.Errorf("got %d rows read in one attempt, want one", n)
	}
}

// Rule DEP-54: the table protects a memo that was read, even against its owner.
func TestNoWriterChangesAMemoThatWasRead(t *testing.T) {
	t.Parallel()
	w := openMemos(t)
	tx := w.c.Pay(payer, alice, usdcAt, 100)
	open := w.c.Pay(payer, alice, usdcAt, 100)
	w.provider.memos[tx] = "order 7"
	w.c.Mine(4)
	w.walkFinal(t)
	owner := pgtest.OwnerPool(t, w.db)
	refused := func(what, sql string, args ...any) {
		t.Helper()
		if _, err := owner.Exec(t.Context(), sql, args...); err == nil {
			t.Errorf("%s: got no error, want it refused", what)
		}
	}
	due := func(set string) string { return `UPDATE transaction_memos SET ` + set + ` WHERE tx_hash = $1` }
	refused("a memo while it is not read", due(`memo = 'order 8', attempts = 1`), tx)
	refused("read without a time", due(`status = 'READ', attempts = 1`), tx)
	refused("an attempt that does not count", due(`last_error = 'x'`), tx)
	refused("an empty memo", due(`status = 'READ', memo = '', attempts = 1, ended_at = now()`), tx)
	refused(
		"a memo without bounds", due(`status = 'READ', memo = repeat('m', 4097), attempts = 1, ended_at = now()`), tx,
	)
	refused("a memo that is given up", due(`status = 'ABANDONED', memo = 'x', attempts = 1, ended_at = now()`), tx)
	refused("another transaction", due(`tx_hash = 'other', attempts = 1`), tx)
	refused("a row that is read from its beginning",
		`INSERT INTO transaction_memos (chain, tx_hash, status, memo, attempts, next_attempt_at, created_at, ended_at)
		VALUES ('ETHEREUM', $1, 'READ', 'order 8', 1, now(), now(), now())`, "another")
	if _, err := owner.Exec(
		t.Context(), due(`status = 'ABANDONED', attempts = 1, ended_at = now()`), open,
	); err != nil {
		t.Fatal(err)
	}
	w.step(t)
	refused("another memo", due(`memo = 'order 8', attempts = attempts + 1`), tx)
	refused("no memo", due(`memo = NULL, attempts = attempts + 1`), tx)
	refused("read again", due(`status = 'DUE', memo = NULL, ended_at = NULL, attempts = attempts + 1`), tx)
	refused("a memo after it was given up", due(`status = 'READ', memo = 'x', attempts = attempts + 1`), open)
	refused("taken away", `DELETE FROM transaction_memos`)
	err := w.db.InOrg(t.Context(), w.org, func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(
			ctx,
			`INSERT INTO transaction_memos (chain, tx_hash, next_attempt_at, created_at) VALUES ('ETHEREUM', 'more', now(), now())`,
		)
		return err
	})
	if err == nil {
		t.Error("a row of a request of an organization: got no error, want it refused")
	}
	if got := w.memo(t, tx); got != "order 7" {
		t.Errorf("got %q, want the memo that was read", got)
	}
}
