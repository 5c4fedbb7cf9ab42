package surfpool_test

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/localworld/surfpool"
	"github.com/cofferpay/coffer/internal/localworld/surfpool/surfpooltest"
)

// orphanMaker makes the test binary start a chain, print its address and wait
// to be killed.
const orphanMaker = "COFFER_TEST_SURFPOOL_ORPHAN"

func TestMain(m *testing.M) {
	if os.Getenv(orphanMaker) == "" {
		os.Exit(m.Run())
	}
	n, err := surfpool.Start(context.Background(), surfpool.Config{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(n.URL)
	<-n.Done()
}

// eventually polls until the condition holds.
func eventually(t *testing.T, what string, yes func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); <-tick.C {
		if yes() {
			return
		}
	}
	t.Fatalf("got no sign of it in time, want %s", what)
}

func listens(url string) bool {
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

type block struct {
	Hash         string `json:"blockhash"`
	Parent       string `json:"previousBlockhash"`
	Transactions []struct {
		Version any
		Meta    struct {
			Err any
			Fee uint64
		}
	} `json:"transactions"`
}

func blockAt(t *testing.T, n *surfpool.Node, slot uint64) block {
	t.Helper()
	var b *block
	if err := n.RPC.CallContext(t.Context(), &b, "getBlock", slot, map[string]any{
		"commitment": "confirmed", "maxSupportedTransactionVersion": 1, "rewards": false, "encoding": "json",
	}); err != nil || b == nil {
		t.Fatalf("block %d: got %v, %v, want one", slot, b, err)
	}
	return *b
}

func slotAt(t *testing.T, n *surfpool.Node, commitment string) (slot uint64) {
	t.Helper()
	if err := n.RPC.CallContext(
		t.Context(), &slot, "getSlot", map[string]string{"commitment": commitment},
	); err != nil {
		t.Fatal(err)
	}
	return slot
}

func balance(t *testing.T, n *surfpool.Node, of chain.Address) uint64 {
	t.Helper()
	var got struct{ Value uint64 }
	if err := n.RPC.CallContext(t.Context(), &got, "getBalance", of); err != nil {
		t.Fatal(err)
	}
	return got.Value
}

func units(t *testing.T, n *surfpool.Node, account chain.Address) string {
	t.Helper()
	var got struct{ Value struct{ Amount string } }
	if err := n.RPC.CallContext(t.Context(), &got, "getTokenAccountBalance", account); err != nil {
		t.Fatal(err)
	}
	return got.Value.Amount
}

func newKey(t *testing.T) (ed25519.PrivateKey, chain.Address) {
	t.Helper()
	k, err := surfpool.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return k, surfpool.AddressOf(k)
}

func TestBlocksMakeAChainAndComeWhenTold(t *testing.T) {
	t.Parallel()
	n := surfpooltest.Borrow(t)
	first := n.CurrentSlot()
	for range 3 { // surfpool treats blocks without a transaction differently
		_, to := newKey(t)
		if _, err := n.PayLamports(t.Context(), to, 1_000_000); err != nil {
			t.Fatal(err)
		}
		if err := n.MineBlocks(t.Context(), 2); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := slotAt(t, n, "confirmed"), n.CurrentSlot()-1; got != want || n.CurrentSlot() != first+6 {
		t.Errorf("newest block: got %d, want %d, six after %d", got, want, first)
	}
	last := blockAt(t, n, first-1)
	for s := first; s < n.CurrentSlot(); s++ {
		b := blockAt(t, n, s)
		if b.Parent != last.Hash || b.Hash == last.Hash {
			t.Errorf("block %d: got %s on %s, want it on %s", s, b.Hash, b.Parent, last.Hash)
		}
		if got, want := len(b.Transactions), int(s-first+1)%2; got != want {
			t.Errorf("block %d: got %d transactions, want %d", s, got, want)
		}
		last = b
	}
	newest := n.CurrentSlot() - 1
	if err := n.FinalizeTip(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := slotAt(t, n, "finalized"); got != newest {
		t.Errorf("final block: got %d, want %d", got, newest)
	}
}

// surfpool invents the time of a block without transactions.
func TestTransactionsHaveTheTime(t *testing.T) {
	t.Parallel()
	n := surfpooltest.Start(t, surfpool.Config{SlotTime: 50 * time.Millisecond})
	_, to := newKey(t)
	started := time.Now().Unix()
	eventually(t, "blocks on the clock, at a time that moves", func() bool {
		tx, err := n.PayLamports(t.Context(), to, surfpool.LamportsPerSOL)
		if err != nil {
			t.Fatal(err)
		}
		var at int64
		if err := n.RPC.CallContext(t.Context(), &at, "getBlockTime", slotOf(t, n, tx)); err != nil {
			t.Fatal(err)
		}
		if off := time.Now().Unix() - at; off < -3 || off > 3 {
			t.Fatalf("got a block that is %d s old, want it now", off)
		}
		return at >= started+2
	})
}

// slotOf waits until a block contains a transaction and returns its slot.
func slotOf(t *testing.T, n *surfpool.Node, tx chain.TxHash) (slot uint64) {
	t.Helper()
	eventually(t, "a block with the transaction", func() bool {
		var got struct{ Value []*struct{ Slot uint64 } }
		if err := n.RPC.CallContext(t.Context(), &got, "getSignatureStatuses", []chain.TxHash{tx}); err != nil {
			t.Fatal(err)
		}
		if len(got.Value) == 1 && got.Value[0] != nil {
			slot = got.Value[0].Slot
		}
		return slot > 0
	})
	return slot
}

func TestTheTokensAreAtTheirRealAddresses(t *testing.T) {
	t.Parallel()
	n := surfpooltest.Borrow(t)
	for _, mint := range []chain.Address{surfpool.USDC, surfpool.USDT} {
		_, to := newKey(t)
		if _, err := n.PayToken(t.Context(), mint, to, 7); err != nil {
			t.Fatal(err)
		}
		m := surfpool.Mint{Address: mint, Program: solanatx.TokenProgram}
		if got := units(t, n, m.AssociatedAccount(to)); got != "7" {
			t.Errorf("%s: got %s units, want 7", mint, got)
		}
	}
}

func TestAMintOfToken2022MayTakeAFee(t *testing.T) {
	t.Parallel()
	n := surfpooltest.Borrow(t)
	_, mint := newKey(t)
	_, plain := newKey(t)
	from, to := n.FaucetAddress(), chain.Address("")
	_, to = newKey(t)
	for _, c := range []struct {
		mint surfpool.Mint
		want string
	}{
		{surfpool.Mint{Address: plain, Program: solanatx.Token2022Program, Decimals: 2}, "1000"},
		{surfpool.Mint{Address: mint, Program: solanatx.Token2022Program, Decimals: 2, Extensions: []surfpool.Extension{
			surfpool.TransferFee(100, 1_000_000), surfpool.PermanentDelegate(from),
		}}, "990"},
	} {
		if err := n.PlaceMint(t.Context(), c.mint); err != nil {
			t.Fatal(err)
		}
		if err := n.MintTo(t.Context(), c.mint, from, 5000); err != nil {
			t.Fatal(err)
		}
		if _, err := n.SendAndCheck(t.Context(), surfpool.Transaction{
			Keys: []ed25519.PrivateKey{n.FaucetPrivateKey()},
			Instructions: []surfpool.Instruction{
				c.mint.CreateAccount(from, to),
				c.mint.TransferTokens(c.mint.AssociatedAccount(from), c.mint.AssociatedAccount(to), from, 1000),
			},
		}); err != nil {
			t.Fatal(err)
		}
		if got := units(t, n, c.mint.AssociatedAccount(to)); got != c.want {
			t.Errorf("%d extensions: got %s units, want %s", len(c.mint.Extensions), got, c.want)
		}
	}
}

func TestStrangersSendWhatTheyLike(t *testing.T) {
	t.Parallel()
	n := surfpooltest.Borrow(t)
	payer, paying := newKey(t)
	owner, owning := newKey(t)
	_, a := newKey(t)
	_, b := newKey(t)
	_, table := newKey(t)
	for _, to := range []chain.Address{paying, owning} {
		if err := n.SetLamports(t.Context(), to, surfpool.LamportsPerSOL); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.PlaceLookupTable(t.Context(), table, a, b); err != nil {
		t.Fatal(err)
	}
	both := []surfpool.Instruction{
		surfpool.TransferLamports(owning, a, 3_000_000), surfpool.TransferLamports(owning, b, 4_000_000),
	}
	slot := n.CurrentSlot()
	for _, tx := range []surfpool.Transaction{
		{Instructions: both, Price: 1000},
		{Instructions: both, LookupTable: table, TableAddresses: []chain.Address{a, b}},
		{Instructions: append(both, surfpool.TransferLamports(owning, a, 1<<60))},
	} {
		tx.Keys = []ed25519.PrivateKey{payer, owner}
		if _, err := n.SendTx(t.Context(), tx); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.MineBlocks(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if got, want := balance(t, n, a), uint64(6_000_000); got != want {
		t.Errorf("got %d lamports, want %d", got, want)
	}
	got := blockAt(t, n, slot).Transactions
	if len(got) != 3 || got[0].Meta.Err != nil || got[1].Meta.Err != nil || got[2].Meta.Err == nil ||
		fmt.Sprint(got[1].Version) != "0" {
		t.Errorf("got %+v, want two that succeeded, the second of version 0, and one that failed", got)
	}
}

func TestAChainThatEndsByItselfIsSeen(t *testing.T) {
	t.Parallel()
	n, err := surfpool.Start(t.Context(), surfpool.Config{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := os.FindProcess(n.PID())
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	<-n.Done()
	if err := n.Stop(); err == nil || !strings.Contains(err.Error(), "by itself") {
		t.Errorf("got %v, want an error that says it ended by itself", err)
	}
}

func TestNothingOutlivesAProcessThatIsKilled(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), orphanMaker+"=yes")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	url = strings.TrimSpace(url)
	if !listens(url) {
		t.Errorf("got nobody at %s, want a chain", url)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	// The process was killed, so Wait can report nothing else.
	_ = cmd.Wait()
	eventually(t, "the chain to be gone", func() bool { return !listens(url) })
}

// These two tests change the environment and the working directory, so they do not run in parallel
// with others.

func TestFindTakesWhatTheEnvironmentNames(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("COFFER_SURFPOOL", dir)
	if _, err := surfpool.Find(); err == nil || !strings.Contains(err.Error(), "COFFER_SURFPOOL") {
		t.Errorf("got %v, want an error that names the setting", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := surfpool.Find(); got != dir || err != nil {
		t.Errorf("got %q, %v, want %q", got, err, dir)
	}
}

func TestFindLooksUpwardThenSaysWhatToDo(t *testing.T) {
	tree := t.TempDir()
	below := filepath.Join(tree, "some", "where")
	folder := filepath.Join(tree, "localchain", "node_modules", "@solana", "surfpool-linux-x64-gnu")
	for _, dir := range []string{below, folder} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("COFFER_SURFPOOL", "")
	t.Chdir(below)
	if _, err := surfpool.Find(); err == nil || !strings.Contains(err.Error(), "scripts/setup") {
		t.Errorf("got %v, want an error that says what to run", err)
	}
	if err := os.WriteFile(filepath.Join(folder, "package.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := surfpool.Find(); got != folder || err != nil {
		t.Errorf("got %q, %v, want %q", got, err, folder)
	}
}
