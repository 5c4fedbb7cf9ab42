package local_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tyler-smith/go-bip39"
	"pgregory.net/rapid"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/journalfile"
	"github.com/cofferpay/coffer/internal/signer/keys"
	"github.com/cofferpay/coffer/internal/signer/local"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/signer/signpolicy"
)

const org = "org_1"

// installation is a seed and a journal on which signers are opened.
type installation struct {
	conf local.Config
	seed keys.Seed

	mu  sync.Mutex
	now time.Time
}

func newInstallation(t testing.TB, dir string) *installation {
	t.Helper()
	seed, err := keys.NewSeed()
	if err != nil {
		t.Fatal(err)
	}
	in := &installation{seed: seed, now: time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)}
	in.conf = local.Config{
		Journal: filepath.Join(dir, "journal"), Policy: signertest.NewPolicy(),
		Clock: func() time.Time {
			in.mu.Lock()
			defer in.mu.Unlock()
			return in.now
		},
	}
	if err := local.CreateJournal(in.conf, seed); err != nil {
		t.Fatal(err)
	}
	return in
}

func (in *installation) pass(d time.Duration) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.now = in.now.Add(d)
}

func (in *installation) open(t testing.TB) *local.Signer {
	t.Helper()
	s, err := local.Open(in.conf, in.seed)
	// A process that another test starts briefly has our files open, including locks.
	deadline := time.Now().Add(10 * time.Second)
	for errors.Is(err, journalfile.ErrLocked) && time.Now().Before(deadline) {
		s, err = local.Open(in.conf, in.seed)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() }) // a second Close by the test is harmless
	return s
}

func (in *installation) read(t testing.TB) []byte {
	t.Helper()
	b, err := os.ReadFile(in.conf.Journal)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (in *installation) write(t testing.TB, b []byte) {
	t.Helper()
	if err := os.WriteFile(in.conf.Journal, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func closeSigner(t testing.TB, s *local.Signer) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func payment(id string, units uint64) signer.Intent {
	return signer.Intent{
		ID: id, Purpose: signer.Payment, Chain: signertest.Chain, From: signertest.Treasury(org),
		To:       signertest.Stranger,
		Contract: signertest.LimitedToken, Amount: money.Units(units), CustomerID: "alice", MintID: 2,
	}
}

// request returns the request that pays an intent in a slot.
func request(t testing.TB, s signer.Signer, i signer.Intent, nonce uint64) signer.SignRequest {
	t.Helper()
	from := signertest.IssueAddress(t, s, i.From)
	return signer.SignRequest{
		IntentID: i.ID, Slot: signer.Slot{Nonce: nonce}, Act: signer.Pay,
		Payload: signertest.IntentPayload(t, i, from, nonce, signertest.UsualFees()),
	}
}

// pay issues the wallet, admits the intent and signs.
func pay(t testing.TB, s signer.Signer, i signer.Intent, nonce uint64) signer.SignedTx {
	t.Helper()
	r := request(t, s, i, nonce)
	if _, err := s.AdmitIntent(context.Background(), i); err != nil {
		t.Fatal(err)
	}
	signed, err := s.Sign(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

func headOf(t testing.TB, s signer.Signer) signer.Head {
	t.Helper()
	h, err := s.Head(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestReopenedSignerAnswersAsBefore(t *testing.T) {
	t.Parallel()
	in := newInstallation(t, t.TempDir())
	s := in.open(t)
	first, second := payment("wd_1", 7), payment("wd_2", 7)
	signed := pay(t, s, first, 0)
	before := headOf(t, s)
	closeSigner(t, s)
	if _, err := s.Head(t.Context()); err == nil {
		t.Error("a closed signer: got no error")
	}

	in.pass(time.Hour)
	s = in.open(t)
	again := pay(t, s, first, 0)
	if !bytes.Equal(again.Raw, signed.Raw) || again.Entry.Hash != signed.Entry.Hash {
		t.Errorf("got %x in entry %d, want %x in entry %d", again.Raw, again.Entry.Seq, signed.Raw, signed.Entry.Seq)
	}
	if after := headOf(t, s); after != before {
		t.Errorf("head: got %+v, want %+v", after, before)
	}
	if _, err := s.AdmitIntent(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]signer.SignRequest{
		"a second slot of an intent": request(t, s, first, 1),
		"the slot of another intent": request(t, s, second, 0),
	} {
		_, err := s.Sign(t.Context(), r)
		var no *signer.Refusal
		if !errors.As(err, &no) || no.Code != signer.RefusedSlot {
			t.Errorf("%s: got %v, want a refusal %s", name, err, signer.RefusedSlot)
		}
	}
}

func TestLimitsOutliveRestartsAndClocksThatGoBack(t *testing.T) {
	t.Parallel()
	in := newClockEnv(t)
	s := in.open(t)
	pay(t, s, payment("wd_1", 100), 0)
	in.pass(time.Hour)
	pay(t, s, payment("wd_2", 100), 1)
	admit := func(s *local.Signer, id string, units uint64) bool {
		t.Helper()
		_, err := s.AdmitIntent(t.Context(), payment(id, units))
		var no *signer.Refusal
		if err != nil && (!errors.As(err, &no) || no.Code != signer.PolicyLimit) {
			t.Fatal(err)
		}
		return err == nil
	}
	reopen := func() {
		t.Helper()
		closeSigner(t, s)
		s = in.open(t)
	}
	reopen()
	if admit(s, "wd_3", 51) {
		t.Error("after a restart: got 251 of 250")
	}
	in.set(-48 * time.Hour)
	if admit(s, "wd_3", 51) {
		t.Error("after the clock went back: got 251 of 250")
	}
	if !admit(s, "wd_4", 50) { // the journal has it at the time of wd_2
		t.Error("got a refusal of 250 of 250")
	}
	reopen()
	in.set(48 * time.Hour)
	in.pass(22*time.Hour + 59*time.Minute)
	if admit(s, "wd_5", 1) {
		t.Error("before the window has passed: got 251 of 250")
	}
	in.pass(time.Minute) // wd_1 is a day old; wd_2 and wd_4 are not
	if !admit(s, "wd_5", 100) || admit(s, "wd_6", 1) {
		t.Error("when the window has passed for one payment: want exactly its amount free")
	}
	in.pass(time.Hour)
	reopen()
	if !admit(s, "wd_7", 100) || !admit(s, "wd_8", 50) || admit(s, "wd_9", 1) {
		t.Error("when the window has passed for the others: want exactly their amount free")
	}
}

func TestTornLastLineIsCutOff(t *testing.T) {
	t.Parallel()
	in := newInstallation(t, t.TempDir())
	s := in.open(t)
	pay(t, s, payment("wd_1", 7), 0)
	before := headOf(t, s)
	whole := in.read(t)
	again := pay(t, s, payment("wd_2", 7), 1)
	closeSigner(t, s)
	full := in.read(t)
	admitted := len(whole) + bytes.IndexByte(full[len(whole):], '\n') + 1
	for cut := len(whole); cut < admitted; cut += 37 {
		in.write(t, full[:cut])
		s := in.open(t)
		if got := headOf(t, s); got != before {
			t.Fatalf("cut at %d: got head %+v, want %+v", cut, got, before)
		}
		if got := in.read(t); !bytes.Equal(got, whole) {
			t.Fatalf("cut at %d: got %d bytes, want %d", cut, len(got), len(whole))
		}
		if got := pay(t, s, payment("wd_2", 7), 1); !bytes.Equal(got.Raw, again.Raw) {
			t.Errorf("cut at %d: got %x, want %x", cut, got.Raw, again.Raw)
		}
		closeSigner(t, s)
	}
}

func TestDamagedJournalDoesNotOpen(t *testing.T) {
	t.Parallel()
	in := newInstallation(t, t.TempDir())
	s := in.open(t)
	pay(t, s, payment("wd_1", 7), 0)
	pay(t, s, payment("wd_2", 7), 1)
	closeSigner(t, s)
	good := in.read(t)
	lines := bytes.SplitAfter(bytes.TrimSuffix(good, []byte("\n")), []byte("\n"))
	join := func(l ...[]byte) []byte {
		out := bytes.Join(l, nil)
		if !bytes.HasSuffix(out, []byte("\n")) {
			out = append(out, '\n')
		}
		return out
	}
	last := len(lines) - 1
	damaged := map[string][]byte{
		"empty":                    nil,
		"an empty line":            append(bytes.Clone(good), '\n'),
		"zeros":                    append(append(bytes.Clone(good), make([]byte, 100)...), '\n'),
		"without its first line":   join(lines[1:]...),
		"without its second line":  join(append([][]byte{lines[0]}, lines[2:]...)...),
		"with a line twice":        join(append(lines[:2:2], lines[1:]...)...),
		"with two lines swapped":   join(append([][]byte{lines[0], lines[2], lines[1]}, lines[3:]...)...),
		"with its first line torn": lines[0][:len(lines[0])-1],
		"with a newline in a line": append(append(bytes.Clone(good[:len(lines[0])+20]), '\n'),
			good[len(lines[0])+20:]...),
		"with a space in a line":    bytes.Replace(good, []byte(`,"seq":2`), []byte(`, "seq":2`), 1),
		"with a member in an entry": bytes.Replace(good, []byte(`,"seq":2`), []byte(`,"note":"","seq":2`), 1),
		"with another amount":       bytes.Replace(good, []byte(`"amount":"7"`), []byte(`"amount":"8"`), 1),
		"with a line that is long":  append(bytes.Repeat([]byte("a"), 2<<20), '\n'),
	}
	for n := 0; n < len(good)-1; n += 101 { // a change of the very last byte is a torn line
		b := bytes.Clone(good)
		b[n] ^= 1
		damaged[fmt.Sprintf("with byte %d changed", n)] = b
	}
	for name, b := range damaged {
		in.write(t, b)
		if s, err := local.Open(in.conf, in.seed); !errors.Is(err, signer.ErrDamaged) {
			t.Errorf("a journal %s: got %v, %v, want ErrDamaged", name, s != nil, err)
		}
		if got := in.read(t); !bytes.Equal(got, b) {
			t.Errorf("a journal %s: was changed", name)
		}
	}
	// A thief who computes the hashes anew still cannot make the journal contradict itself.
	forge := func(change func(*signer.Record)) []byte {
		var at signer.Head
		var out []byte
		for n, line := range append(lines[:last:last], lines[last]) {
			var e signer.Entry
			if err := unmarshal(line, &e); err != nil {
				t.Fatal(err)
			}
			var r signer.Record
			if err := unmarshal(e.Body, &r); err != nil {
				t.Fatal(err)
			}
			if n > 0 {
				change(&r)
			}
			e.Body, e.Prev = marshal(t, r), at.Hash
			e.Hash = e.ComputeHash()
			at = e.Head()
			out = append(append(out, marshal(t, e)...), '\n')
		}
		return out
	}
	for name, b := range map[string][]byte{
		"with two payees in a slot": forge(func(r *signer.Record) {
			if r.Sign != nil {
				r.Sign.Slot.Nonce = 5
			}
		}),
		"with times that go back": forge(func(r *signer.Record) {
			if r.Sign != nil {
				r.RecordedAt = "2020-01-01T00:00:00Z"
			}
		}),
		"with a record of no kind": forge(func(r *signer.Record) { r.Kind = "GIFT" }),
	} {
		in.write(t, b)
		if _, err := local.Open(in.conf, in.seed); !errors.Is(err, signer.ErrDamaged) {
			t.Errorf("a journal %s: got %v, want ErrDamaged", name, err)
		}
	}
	// A journal with an address that does not belong to its key opens. That address is never
	// attested, and nothing is paid from it.
	in.write(t, forge(func(r *signer.Record) {
		if r.Issue != nil {
			r.Issue.Address = signertest.Token
		}
	}))
	s = in.open(t)
	if got, err := s.IssueAddress(t.Context(), signertest.Treasury(org)); !errors.Is(err, signer.ErrDamaged) ||
		got.Proof != nil {
		t.Errorf("issue a forged address: got %+v, %v, want ErrDamaged", got, err)
	}
	if _, err := s.AdmitIntent(t.Context(), payment("wd_9", 1)); !errors.Is(err, signer.ErrDamaged) {
		t.Errorf("admit from a forged address: got %v, want ErrDamaged", err)
	}
	closeSigner(t, s)

	in.write(t, good)
	if got := headOf(t, in.open(t)).Seq; got != uint64(len(lines)) {
		t.Errorf("the good journal: got %d entries, want %d", got, len(lines))
	}
}

func TestJournalHasOneSignerAndOneSeed(t *testing.T) {
	t.Parallel()
	in := newInstallation(t, t.TempDir())
	s := in.open(t)
	if _, err := local.Open(in.conf, in.seed); !errors.Is(err, journalfile.ErrLocked) {
		t.Errorf("a second signer: got %v, want ErrLocked", err)
	}
	closeSigner(t, s)
	other := newInstallation(t, t.TempDir())
	if _, err := local.Open(in.conf, other.seed); err == nil ||
		!strings.Contains(err.Error(), "another") && !strings.Contains(err.Error(), "belongs to the seed") {
		t.Errorf("another seed: got %v, want an error that says so", err)
	}
	if err := local.CreateJournal(in.conf, in.seed); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a new journal over one: got %v, want fs.ErrExist", err)
	}
	if err := os.Chmod(in.conf.Journal, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := local.Open(in.conf, in.seed); err == nil {
		t.Error("a journal that others may read: got no error")
	}
	if err := os.Remove(in.conf.Journal); err != nil {
		t.Fatal(err)
	}
	if _, err := local.Open(in.conf, in.seed); !errors.Is(err, journalfile.ErrMissing) {
		t.Errorf("no journal: got %v, want ErrMissing", err)
	}
	in.conf.Policy = signpolicy.Policy{}
	if _, err := local.Open(in.conf, in.seed); err == nil {
		t.Error("an empty policy: got no error")
	}
}

func TestFailedWriteStopsTheSigner(t *testing.T) {
	t.Parallel()
	in := newInstallation(t, t.TempDir())
	s := in.open(t)
	first := pay(t, s, payment("wd_1", 7), 0)
	s.BreakDisk()
	if _, err := s.AdmitIntent(t.Context(), payment("wd_2", 7)); !errors.Is(err, signer.ErrUnavailable) {
		t.Errorf("admit without a disk: got %v, want ErrUnavailable", err)
	}
	// That includes entries that it knew: the index may be ahead of the file.
	if _, err := s.AdmitIntent(t.Context(), payment("wd_1", 7)); !errors.Is(err, signer.ErrUnavailable) {
		t.Errorf("admit again without a disk: got %v, want ErrUnavailable", err)
	}
	if _, err := s.Head(t.Context()); err == nil {
		t.Error("head without a disk: got no error")
	}
	s = in.open(t)
	if again := pay(t, s, payment("wd_1", 7), 0); !bytes.Equal(again.Raw, first.Raw) {
		t.Errorf("started again: got %x, want %x", again.Raw, first.Raw)
	}
	pay(t, s, payment("wd_2", 7), 1)
}

// An entry whose fsync failed may be lost although the next fsync succeeds. So nothing is
// acknowledged before the signer is restarted and reads the file.
func TestAFailedSyncIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	in := newInstallation(t, t.TempDir())
	s := in.open(t)
	first := pay(t, s, payment("wd_1", 7), 0)
	head, again := headOf(t, s), request(t, s, payment("wd_1", 7), 0)
	lost := errors.New("input/output error")
	s.FailSync(lost)
	if _, err := s.AdmitIntent(t.Context(), payment("wd_2", 7)); !errors.Is(err, lost) {
		t.Errorf("admit while the sync fails: got %v, want %v", err, lost)
	}
	// Every fsync from here on succeeds.
	for _, id := range []string{"wd_2", "wd_1", "wd_3"} {
		if _, err := s.AdmitIntent(t.Context(), payment(id, 7)); !errors.Is(err, lost) {
			t.Errorf("admit %s after a failed sync: got %v, want %v", id, err, lost)
		}
	}
	if _, err := s.Sign(t.Context(), again); !errors.Is(err, lost) {
		t.Errorf("sign again after a failed sync: got %v, want %v", err, lost)
	}
	if got, err := s.Head(t.Context()); !errors.Is(err, lost) {
		t.Errorf("head after a failed sync: got %v, %v, want %v", got, err, lost)
	}
	closeSigner(t, s)
	s = in.open(t)
	if got := headOf(t, s); got.Seq < head.Seq || got.Seq > head.Seq+1 {
		t.Errorf("started again: got entry %d, want %d or the one that was not acknowledged", got.Seq, head.Seq)
	}
	if again := pay(t, s, payment("wd_1", 7), 0); !bytes.Equal(again.Raw, first.Raw) {
		t.Errorf("started again: got %x, want %x", again.Raw, first.Raw)
	}
	pay(t, s, payment("wd_2", 7), 1)
}

// TestMain is the child process of the test below: it dies between the fsync of the signature and
// the answer.
func TestMain(m *testing.M) {
	dir := os.Getenv("COFFER_TEST_KILL")
	if dir == "" {
		os.Exit(m.Run())
	}
	if err := dieAfterSync(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(1)
}

func dieAfterSync(dir string) error {
	words, err := os.ReadFile(filepath.Join(dir, "words"))
	if err != nil {
		return err
	}
	seed, err := keys.SeedFromWords(string(words))
	if err != nil {
		return err
	}
	s, err := local.Open(local.Config{Journal: filepath.Join(dir, "journal"), Policy: signertest.NewPolicy()}, seed)
	if err != nil {
		return err
	}
	ctx := context.Background()
	i := payment("wd_1", 7)
	if _, err := s.AdmitIntent(ctx, i); err != nil {
		return err
	}
	payload, err := os.ReadFile(filepath.Join(dir, "payload"))
	if err != nil {
		return err
	}
	s.AfterSync(func() { syscall.Kill(os.Getpid(), syscall.SIGKILL) })
	_, err = s.Sign(ctx, signer.SignRequest{IntentID: i.ID, Act: signer.Pay, Payload: payload})
	return fmt.Errorf("still alive: %w", err)
}

func TestKilledAfterTheSyncTheAnswerIsTheSame(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	entropy := make([]byte, 32)
	if _, err := rand.Read(entropy); err != nil {
		t.Fatal(err)
	}
	words, err := bip39.NewMnemonic(entropy)
	if err != nil {
		t.Fatal(err)
	}
	in := &installation{conf: local.Config{Journal: filepath.Join(dir, "journal"), Policy: signertest.NewPolicy()}}
	if in.seed, err = keys.SeedFromWords(words); err != nil {
		t.Fatal(err)
	}
	if err := local.CreateJournal(in.conf, in.seed); err != nil {
		t.Fatal(err)
	}
	s := in.open(t)
	i := payment("wd_1", 7)
	r := request(t, s, i, 0)
	closeSigner(t, s)
	for name, contents := range map[string][]byte{"words": []byte(words), "payload": r.Payload} {
		if err := os.WriteFile(filepath.Join(dir, name), contents, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), "COFFER_TEST_KILL="+dir)
	out, err := child.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("got %v, %s, want the child killed", err, out)
	}

	s = in.open(t)
	before := headOf(t, s)
	if before.Seq != 4 {
		t.Fatalf("got %d entries, want genesis, address, intent and signature", before.Seq)
	}
	signed := pay(t, s, i, 0)
	var e signer.Entry
	lines := bytes.Split(bytes.TrimSpace(in.read(t)), []byte("\n"))
	if err := unmarshal(lines[3], &e); err != nil {
		t.Fatal(err)
	}
	if signed.Entry.Hash != e.Hash || !bytes.Contains(e.Body, []byte(signed.Hash)) || headOf(t, s) != before {
		t.Errorf("got %s in entry %d, want what the killed signer had remembered", signed.Hash, signed.Entry.Seq)
	}
}

// After requests in any order, a restarted signer has the same index. A slot has one intent, and an
// intent one slot.
func TestReplayedJournalIsTheSameIndex(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	run := 0
	rapid.Check(t, func(r *rapid.T) {
		run++
		dir := filepath.Join(base, fmt.Sprint(run))
		if err := os.Mkdir(dir, 0o700); err != nil {
			r.Fatal(err)
		}
		in := &clockEnv{installation: newInstallation(t, dir)}
		in.conf.Elapsed = in.elapsed
		s := in.open(t)
		slotOf, intentOf := map[string]uint64{}, map[uint64]string{}
		payouts := map[string]signer.SwapPayout{} // by the id of the admitted swap
		ownSwaps := map[string]signer.Intent{}
		from := signertest.IssueAddress(t, s, signertest.Treasury(org))
		id := rapid.SampledFrom([]string{"wd_1", "wd_2", "wd_3", "wd_4"})
		nonce := rapid.Uint64Range(0, 3)
		r.Repeat(map[string]func(*rapid.T){
			"issue": func(r *rapid.T) {
				signertest.IssueAddress(t, s, signertest.Deposit(org,
					rapid.SampledFrom([]string{"a", "b", "c"}).Draw(r, "customer")))
			},
			"admit": func(r *rapid.T) {
				i := payment(id.Draw(r, "id"), rapid.Uint64Range(60, 110).Draw(r, "units"))
				_, err := s.AdmitIntent(t.Context(), i)
				mayRefuse(r, err)
			},
			"swap": func(r *rapid.T) {
				_, err := s.AdmitIntent(t.Context(), swapOf(t, s, org,
					rapid.SampledFrom([]string{"cs_1", "cs_2", "cs_3"}).Draw(r, "swap"), signertest.LimitedToken,
					rapid.Uint64Range(60, 110).Draw(r, "units"), in.conf.Clock()))
				mayRefuse(r, err)
			},
			"payout": func(r *rapid.T) {
				swap, payout := signertest.NewOrganizationSwap(t, s, org, rapid.SampledFrom([]string{
					"os_1",
					"os_2",
				}).Draw(r, "swap"), signertest.Token, "wla_1", in.conf.Clock())
				i := signertest.GrantPayout(nil, swap.SignQuote(t), payout, 1)
				if known, ok := payouts[payout.SwapID]; ok {
					i = signertest.GrantPayout(nil, signertest.NewPayout(i, known, id.Draw(r, "id"), 990), known, 1)
				}
				_, err := s.AdmitIntent(t.Context(), i)
				if mayRefuse(r, err); err == nil && i.Swap != nil {
					payouts[payout.SwapID], ownSwaps[payout.SwapID] = payout, i
				}
			},
			"sign a swap": func(r *rapid.T) {
				swap, isAdmitted := ownSwaps[rapid.SampledFrom([]string{"os_1", "os_2"}).Draw(r, "swap")]
				if !isAdmitted {
					return
				}
				n := rapid.Uint64Range(4, 5).Draw(r, "slot of a swap")
				_, err := s.Sign(t.Context(), signer.SignRequest{
					IntentID: swap.ID, Slot: signer.Slot{Nonce: n}, Act: signer.Pay,
					Payload: signertest.IntentPayload(t, swap, from, n, signertest.UsualFees()),
				})
				mayRefuse(r, err)
			},
			"own": func(r *rapid.T) {
				i := payment(id.Draw(r, "id"), 60)
				i.CustomerID, i.WhitelistedID = "", rapid.SampledFrom([]string{"wla_1", "wla_2"}).Draw(r, "whitelisted")
				_, err := s.AdmitIntent(t.Context(), i)
				mayRefuse(r, err)
			},
			"endorse": func(r *rapid.T) {
				_, err := s.EndorseAddress(t.Context(), signer.Endorsement{
					OrgID: org, ID: rapid.SampledFrom([]string{"wla_1", "wla_2"}).Draw(r,
						"whitelisted"), Chain: signertest.Chain, Address: signertest.Stranger,
					LabelHash: signer.HashLabel("x"), NotBefore: signer.FormatMicros(in.conf.Clock()),
				})
				mayRefuse(r, err)
			},
			"revoke": func(r *rapid.T) {
				_, err := s.RevokeEndorsement(t.Context(), signer.Revocation{
					OrgID: org,
					ID:    rapid.SampledFrom([]string{"wla_1", "wla_2"}).Draw(r, "whitelisted"),
				})
				mayRefuse(r, err)
			},
			"sign": func(r *rapid.T) {
				name, n := id.Draw(r, "id"), nonce.Draw(r, "nonce")
				i := payment(name, rapid.Uint64Range(60, 110).Draw(r, "units"))
				fees := signertest.UsualFees()
				fees.GasLimit += rapid.Uint64Range(0, 1).Draw(r, "gas")
				req := signer.SignRequest{IntentID: name, Slot: signer.Slot{Nonce: n}, Act: signer.Pay}
				if rapid.Bool().Draw(r, "cancel") {
					req.Act, req.Payload = signer.Cancel, signertest.BuildPayload(t, from, nil, n, fees)
				} else {
					req.Payload = signertest.IntentPayload(t, i, from, n, fees)
				}
				if _, err := s.Sign(t.Context(), req); err != nil {
					mayRefuse(r, err)
					return
				}
				if had, ok := slotOf[name]; ok && had != n {
					r.Errorf("intent %s: got slot %d after %d", name, n, had)
				}
				if had, ok := intentOf[n]; ok && had != name {
					r.Errorf("slot %d: got intent %s after %s", n, name, had)
				}
				slotOf[name], intentOf[n] = n, name
			},
			"void": func(r *rapid.T) {
				_, err := s.VoidIntent(t.Context(), signer.Void{OrgID: org, ID: id.Draw(r, "id")})
				mayRefuse(r, err)
			},
			"set": func(r *rapid.T) {
				in.set(time.Duration(rapid.IntRange(-2000, 2000).Draw(r, "hours")) * time.Hour)
			},
			"confirm": func(r *rapid.T) {
				if now := s.ClockStatus(); now.AheadBy > 0 || now.BehindBy > 0 {
					if _, err := s.ConfirmClock(now.SystemTime, "why"); err != nil {
						r.Error(err)
					}
				}
			},
			"time": func(r *rapid.T) {
				in.pass(time.Duration(rapid.IntRange(0, 30).Draw(r, "hours")) * time.Hour)
			},
			"restart": func(r *rapid.T) {
				known, head := s.Index(), headOf(t, s)
				closeSigner(t, s)
				s = in.open(t)
				if !reflect.DeepEqual(known, s.Index()) {
					r.Errorf("got %+v, want %+v", s.Index(), known)
				}
				if got := headOf(t, s); got != head {
					r.Errorf("head: got %+v, want %+v", got, head)
				}
			},
		})
		closeSigner(t, s)
	})
}

func mayRefuse(r *rapid.T, err error) {
	var no *signer.Refusal
	if err != nil && !errors.As(err, &no) {
		r.Error(err)
	}
}

func TestSignerNeverPrintsItsSecrets(t *testing.T) {
	t.Parallel()
	entropy := make([]byte, 32)
	if _, err := rand.Read(entropy); err != nil {
		t.Fatal(err)
	}
	words, err := bip39.NewMnemonic(entropy)
	if err != nil {
		t.Fatal(err)
	}
	in := newInstallation(t, t.TempDir())
	if err := os.Remove(in.conf.Journal); err != nil {
		t.Fatal(err)
	}
	if in.seed, err = keys.SeedFromWords(words); err != nil {
		t.Fatal(err)
	}
	if err := local.CreateJournal(in.conf, in.seed); err != nil {
		t.Fatal(err)
	}
	s := in.open(t)
	signed := pay(t, s, payment("wd_1", 7), 0)
	_, refused := s.Sign(t.Context(), signer.SignRequest{IntentID: "wd_1", Act: signer.Pay, Payload: []byte{2}})
	_, locked := local.Open(in.conf, in.seed)
	out := string(in.read(t))
	for _, v := range []any{s, in, &in.conf, signed, refused, locked, s.Index(), in.seed} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			out += fmt.Sprintf(verb, v)
		}
	}
	master := bip39.NewSeed(words, "")
	for _, b := range [][]byte{entropy[:8], master[:8], master[32:40], []byte(words)} {
		for _, form := range []string{
			string(b), hex.EncodeToString(b), strings.ToUpper(hex.EncodeToString(b)),
			strings.Trim(fmt.Sprint(b), "[]"),
		} {
			if strings.Contains(out, form) {
				t.Errorf("got a secret as %q", form)
			}
		}
	}
}

func TestPolicyTellsAllThatIsWrong(t *testing.T) {
	t.Parallel()
	good := `{"chains":{"ETHEREUM":{"signerId": "31337","feeMax":"1","gasMax":"0","assets":{
		"":{"paymentMax":"1","organizationMax":"2","overallMax":"3"},
		"0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359":{"paymentMax":"0","organizationMax":"0","overallMax":"0","unlimited":true}}}}}`
	p, err := signpolicy.Parse([]byte(good))
	if err != nil || p.Chains[chain.Ethereum].Assets[""].OverallMax != money.Units(3) {
		t.Fatalf("got %+v, %v", p, err)
	}
	bad := strings.NewReplacer(`"signerId": "31337"`, `"signerId":"0x1"`, `"feeMax":"1"`, `"feeMax":"0"`,
		`"paymentMax":"1"`, `"paymentMax":"0"`, "0xfB69", "0xfb69").Replace(good)
	_, err = signpolicy.Parse([]byte(bad))
	for _, part := range []string{"signerId", "feeMax", "paymentMax", "0xfb69"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("got %v, want it to name %s", err, part)
		}
	}
	for name, text := range map[string]string{
		"an unknown member": strings.Replace(good, `"gasMax"`, `"gasLimit"`, 1),
		"a member twice":    strings.Replace(good, `"gasMax":"0"`, `"gasMax":"0","gasMax":"9"`, 1),
		"something after":   good + "{}",
		"a number":          strings.Replace(good, `"feeMax":"1"`, `"feeMax":1`, 1),
		"another family":    strings.Replace(good, "ETHEREUM", "SOLANA", 1),
		"no chain":          `{"chains":{}}`,
		"nothing":           ``,
	} {
		if _, err := signpolicy.Parse([]byte(text)); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
}

func TestNoSignatureLeavesWithoutItsEntryOnDisk(t *testing.T) {
	t.Parallel()
	in := newInstallation(t, t.TempDir())
	s := in.open(t)
	i := payment("wd_1", 7)
	r := request(t, s, i, 0)
	if _, err := s.AdmitIntent(t.Context(), i); err != nil {
		t.Fatal(err)
	}
	s.BreakDisk()
	for range 2 { // also when it is requested again and the index has the entry
		if signed, err := s.Sign(t.Context(), r); err == nil || signed.Raw != nil || signed.Hash != "" {
			t.Errorf("sign without a disk: got %x %v, want an error and no bytes", signed.Raw, err)
		}
	}
}

// What was admitted and never signed is checked by the rules alone: no transaction contradicts it.
func TestAnAdoptedJournalHasNoAdmissionThatTheRulesForbid(t *testing.T) {
	t.Parallel()
	in := newInstallation(t, t.TempDir())
	s := in.open(t)
	treasury := signertest.IssueAddress(t, s, signertest.Treasury(org))
	sweep := sweepOf(t, s, "sw_1", "alice")
	deposit := signertest.Deposit(org, "alice")
	gas := signer.Intent{
		ID: "gas_1", Purpose: signer.GasTopUp, Chain: signertest.Chain, From: signertest.Treasury(org),
		To: signertest.IssueAddress(t, s, deposit), ToWallet: &deposit, Amount: money.Units(500),
	}
	for _, i := range []signer.Intent{payment("wd_1", 100), sweep, gas} {
		if _, err := s.AdmitIntent(t.Context(), i); err != nil {
			t.Fatal(err)
		}
	}
	copied, err := s.EntriesAfter(t.Context(), 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	closeSigner(t, s)
	in.policy(func(p *signpolicy.Chain) { p.GasMax = money.Units(499) })
	in.conf.Journal += ".adopted"
	payee := func(a chain.Address) string { return `"to":"` + string(a) + `"` }
	for name, forged := range map[string][]signer.Entry{
		"a payment to an address of ours": forge(copied, payee(signertest.Stranger), payee(treasury)),
		"a sweep to an address of others": forge(copied, payee(treasury), payee(signertest.Stranger)),
	} {
		err := local.AdoptJournal(in.conf, in.seed, forged, nil)
		var no *signer.Refusal
		if !errors.As(err, &no) || no.Code != signer.RefusedDestination {
			t.Errorf("%s: got %v, want a refusal with %s", name, err, signer.RefusedDestination)
		}
	}
	if err := local.AdoptJournal(in.conf, in.seed, copied, nil); err != nil {
		t.Errorf("what was admitted, with a lower limit: got %v", err)
	}
}
