package localworld_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethclient"

	"github.com/cofferpay/coffer/internal/app"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm/payoutcontract"
	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/internal/localworld/caller"
	"github.com/cofferpay/coffer/internal/localworld/evmtoken"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/testing/trial/binary"
	"github.com/cofferpay/coffer/internal/verify"
	"github.com/cofferpay/coffer/webhook"
)

// buildProgram builds coffer with its failpoints armed.
func buildProgram(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "coffer")
	if err := binary.BuildProgram(t.Context(), ".", file, "crash"); err != nil {
		t.Fatal(err)
	}
	return file
}

// scenario is a world with a customer, driven through the API and the chain's RPC.
type scenario struct {
	*testing.T
	*localworld.World
	ctx context.Context
	eth *ethclient.Client
}

func newScenario(t *testing.T, program string) *scenario {
	t.Helper()
	return buildScenario(t, localworld.Options{Program: program})
}

func buildScenario(t *testing.T, opts localworld.Options) *scenario {
	t.Helper()
	opts.Dir, opts.BlockTime, opts.Log = t.TempDir(), 250*time.Millisecond, slog.New(slog.DiscardHandler)
	opts.PrepareDatabase, opts.Calm = pgtest.FillDataDir, true
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	t.Cleanup(cancel)
	w, err := localworld.Start(ctx, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Stop(); err != nil {
			t.Error(err)
		}
	})
	eth, err := ethclient.DialContext(ctx, w.Info.Chains["ETHEREUM"].RPCURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(eth.Close)
	return &scenario{T: t, World: w, ctx: ctx, eth: eth}
}

// newCaller returns a caller of the API with the organization's key.
func (n *scenario) newCaller() caller.Caller {
	return caller.Caller{
		T: n.T, Ctx: n.ctx, Key: n.Info.APIKey, Base: func() string { return n.Info.BaseURL }, Log: n.ServiceLog,
	}
}

func (n *scenario) call(method, path string, body, into any) int {
	n.Helper()
	return n.newCaller().CallAPI(method, path, body, into)
}

func (n *scenario) pause(last error) {
	n.Helper()
	n.newCaller().WaitRetry(last)
}

func (n *scenario) mintBySymbol(symbol string) localworld.Mint {
	n.Helper()
	for _, m := range n.Info.Mints {
		if m.Symbol == symbol {
			return m
		}
	}
	n.Fatalf("no mint %s", symbol)
	return localworld.Mint{}
}

// payIn pays a customer's deposit and waits until it is credited and swept.
func (n *scenario) payIn(customer, symbol string, units int64) {
	n.Helper()
	m := n.mintBySymbol(symbol)
	var address struct{ Address string }
	if status := n.call(
		http.MethodPost, "/deposit", map[string]any{"mintId": m.ID, "customerId": customer}, &address,
	); status != http.StatusOK {
		n.Fatalf("POST /deposit: got %d, want 200", status)
	}
	if _, err := n.Info.SendFromFaucet(n.ctx, m, common.HexToAddress(address.Address), big.NewInt(units)); err != nil {
		n.Fatal(err)
	}
	n.newCaller().WaitCredited(customer, true)
}

// waitCompleted waits until a withdrawal is completed.
func (n *scenario) waitCompleted(id string) {
	n.Helper()
	n.newCaller().WaitCompleted(id)
}

func (n *scenario) chainBalance(m localworld.Mint, a common.Address) *big.Int {
	n.Helper()
	contract := common.HexToAddress(*m.ContractAddress)
	out, err := n.eth.CallContract(
		n.ctx, ethereum.CallMsg{To: &contract, Data: evmtoken.Token.CallData("balanceOf", a)}, nil,
	)
	if err != nil {
		n.Fatal(err)
	}
	return new(big.Int).SetBytes(out)
}

// checkBooks runs the verifier against the ledger and the chain.
func (n *scenario) checkBooks() {
	n.Helper()
	conf, err := app.ReadConfig(n.Info.Config)
	if err != nil {
		n.Fatal(err)
	}
	a, err := app.OpenTools(n.ctx, conf, slog.New(slog.DiscardHandler))
	if err != nil {
		n.Fatal(err)
	}
	defer a.Close()
	books, err := verify.RunChecks(n.ctx, a.DB())
	if err != nil {
		n.Fatal(err)
	}
	chains, err := verify.CompareWithChains(n.ctx, a.DB(), a.Chains)
	if err != nil {
		n.Fatal(err)
	}
	for _, b := range append(books.Breaches, chains.Breaches...) {
		n.Errorf("breach %s %s: %s", b.Check, b.Subject, b.Detail)
	}
}

// Rule WD-7: the signer's process is killed before it gets a request, and again as soon as a
// withdrawal was accepted. Nothing is lost and nothing is paid twice.
func TestASignerOfItsOwnMayBeKilledAtAnyTime(t *testing.T) {
	t.Parallel()
	n := buildScenario(t, localworld.Options{Program: buildProgram(t), SignerProcess: true})
	n.payIn("user_1", "USDC", 1_000_000_000)
	m := n.mintBySymbol("USDC")
	withdraw := func(key string) (string, common.Address) {
		t.Helper()
		to := common.BytesToAddress([]byte("a receiver of " + key))
		var w webhook.Withdrawal
		body := map[string]any{
			"mintId": m.ID, "customerId": "user_1", "amount": "100000000", "toAddress": to.Hex(),
			"idempotencyKey": strings.ReplaceAll(key, " ", "-"),
		}
		if status := n.call(http.MethodPost, "/withdraw", body, &w); status != http.StatusAccepted {
			t.Fatalf("%s: POST /withdraw: got %d, want 202", key, status)
		}
		return w.WithdrawalID, to
	}
	paid := func(id string, to common.Address) {
		t.Helper()
		n.waitCompleted(id)
		if got := n.chainBalance(m, to); got.Cmp(big.NewInt(100_000_000)) != 0 {
			t.Errorf("%s: the receiver has %v, want 100000000", id, got)
		}
	}

	if err := n.KillSigner(); err != nil {
		t.Fatal(err)
	}
	id, to := withdraw("while it is gone")
	for status := 0; status != http.StatusServiceUnavailable; {
		resp, err := http.Get(n.Info.OpsURL + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if status = resp.StatusCode; status != http.StatusServiceUnavailable {
			n.pause(fmt.Errorf("/readyz: got %d without a signer, want 503", status))
		}
	}
	var w webhook.Withdrawal
	if n.call(http.MethodGet, "/withdrawals/"+id, nil, &w); w.Status != "PROCESSING" ||
		n.chainBalance(m, to).Sign() != 0 {
		t.Errorf("without a signer: got %s and %v paid, want it to wait", w.Status, n.chainBalance(m, to))
	}
	if err := n.RestartSigner(n.ctx); err != nil {
		t.Fatal(err)
	}
	paid(id, to)

	for i := range 3 {
		id, to := withdraw(fmt.Sprint("under way ", i))
		if err := n.KillSigner(); err != nil {
			t.Fatal(err)
		}
		if err := n.RestartSigner(n.ctx); err != nil {
			t.Fatal(err)
		}
		paid(id, to)
	}
	n.checkBooks()
}

// Rule WD-7: a lost journal is restored from the database and the chain, only when its operator
// says so. Payments that were made are not made again.
func TestALostJournalIsAdopted(t *testing.T) {
	t.Parallel()
	coffer := buildProgram(t)
	n := newScenario(t, coffer)
	n.payIn("user_1", "USDC", 1_000_000_000)
	m := n.mintBySymbol("USDC")
	to := common.BytesToAddress([]byte("a receiver before and after"))
	pay := func(key string) string {
		t.Helper()
		var w webhook.Withdrawal
		body := map[string]any{
			"mintId": m.ID, "customerId": "user_1", "amount": "100000000", "toAddress": to.Hex(), "idempotencyKey": key,
		}
		if status := n.call(http.MethodPost, "/withdraw", body, &w); status != http.StatusAccepted {
			t.Fatalf("%s: POST /withdraw: got %d, want 202", key, status)
		}
		n.waitCompleted(w.WithdrawalID)
		return w.WithdrawalID
	}
	first := pay("before")
	conf, err := app.ReadConfig(n.Info.Config)
	if err != nil {
		t.Fatal(err)
	}
	adopt := func(args ...string) (string, error) {
		out, err := exec.CommandContext(
			n.ctx, coffer, append([]string{"signer", "adopt", "--config", n.Info.Config}, args...)...,
		).CombinedOutput()
		return string(out), err
	}
	refused := func(act, want string, args ...string) {
		t.Helper()
		if out, err := adopt(args...); err == nil || !strings.Contains(out, want) {
			t.Errorf("%s: got %v\n%s\nwant a refusal with %q", act, err, out, want)
		}
	}
	refused("with its journal there", "does not have to be rebuilt", "--yes")
	lost := conf.Signer.Journal + ".lost"
	if err := os.Rename(conf.Signer.Journal, lost); err != nil {
		t.Fatal(err)
	}
	refused("while the service runs", "stop every service", "--yes")
	if err := n.KillService(); err != nil {
		t.Fatal(err)
	}
	refused("not meant", "nothing was done")
	if _, err := os.Stat(conf.Signer.Journal); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("the journal is there (%v) and nobody said --yes", err)
	}
	if out, err := adopt("--yes"); err != nil {
		t.Fatalf("adopt: %v\n%s", err, out)
	}
	if err := n.RestartService(n.ctx); err != nil {
		t.Fatal(err)
	}
	if again := pay("before"); again != first {
		t.Errorf("the same key got %s, want %s", again, first)
	}
	pay("after")
	if got := n.chainBalance(m, to); got.Cmp(big.NewInt(200_000_000)) != 0 {
		t.Errorf("the receiver has %v, want 200000000", got)
	}
	n.checkBooks()
}

func TestTheWorldLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w, err := localworld.Start(t.Context(), localworld.Options{Dir: dir, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	info, err := localworld.ReadInfo(dir)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := os.Stat(filepath.Join(dir, localworld.InfoFile)); err != nil || s.Mode().Perm() != 0o600 {
		t.Errorf("%s: got %v %v, want mode 0600", localworld.InfoFile, s, err)
	}
	if err := w.Stop(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, localworld.InfoFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there (%v)", localworld.InfoFile, err)
	}
	if _, err := os.Stat(filepath.Dir(info.Config)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the world's folder is still there (%v)", err)
	}
	for _, url := range []string{info.BaseURL + "/mints", info.Chains["ETHEREUM"].RPCURL} {
		if resp, err := http.Get(url); err == nil {
			resp.Body.Close()
			t.Errorf("%s still answers", url)
		}
	}
}

func TestAKeptWorldGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	opts := localworld.Options{
		PrepareDatabase: pgtest.FillDataDir, Dir: t.TempDir(), StateDir: filepath.Join(t.TempDir(), "world"),
		BlockTime: 250 * time.Millisecond, Calm: true, PayoutContract: true, Log: slog.New(slog.DiscardHandler),
	}
	var first localworld.Info
	for life := range 2 {
		w, err := localworld.Start(t.Context(), opts)
		if err != nil {
			t.Fatalf("life %d: %v", life+1, err)
		}
		if life == 0 {
			first = w.Info
		} else if w.Info.APIKey != first.APIKey || w.Info.OrganizationID != first.OrganizationID {
			t.Errorf("life 2 is another organization: got %s, want %s", w.Info.OrganizationID, first.OrganizationID)
		}
		eth, err := ethclient.DialContext(t.Context(), w.Info.Chains["ETHEREUM"].RPCURL)
		if err != nil {
			t.Fatal(err)
		}
		if code, err := eth.CodeAt(t.Context(), payoutcontract.Address, nil); err != nil ||
			!payoutcontract.IsRuntimeCode(code) || w.Info.PayoutContracts["ETHEREUM"] != payoutcontract.Address.Hex() {
			t.Errorf("life %d: got the payout contract at %v, %v, want it at %v", life+1, w.Info.PayoutContracts, err,
				payoutcontract.Address)
		}
		n := &scenario{T: t, World: w, ctx: t.Context(), eth: eth}
		n.payIn(fmt.Sprintf("user_%d", life), "USDC", 5_000_000)
		n.checkBooks()
		eth.Close()
		if err := w.Stop(); err != nil {
			t.Fatal(err)
		}
	}
}

// A kept world is stopped while deposits and a withdrawal wait for a block. It continues with them
// when it starts again.
func TestAKeptWorldGoesOnWithTransactionsInFlight(t *testing.T) {
	t.Parallel()
	opts := localworld.Options{
		PrepareDatabase: pgtest.FillDataDir, Dir: t.TempDir(), StateDir: filepath.Join(t.TempDir(), "world"),
		Chains:    []chain.Name{chain.Ethereum, chain.Bitcoin},
		BlockTime: 250 * time.Millisecond, Calm: true, Log: slog.New(slog.DiscardHandler),
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	var topUps []string
	opts.Progress = func(format string, args ...any) {
		if line := fmt.Sprintf(format, args...); strings.Contains(line, " BTC ") {
			topUps = append(topUps, line)
		}
	}
	life := func(act func(n *scenario)) {
		t.Helper()
		w, err := localworld.Start(ctx, opts)
		if err != nil {
			t.Fatal(err)
		}
		eth, err := ethclient.DialContext(ctx, w.Info.Chains["ETHEREUM"].RPCURL)
		if err != nil {
			t.Fatal(err)
		}
		defer eth.Close()
		act(&scenario{T: t, World: w, ctx: ctx, eth: eth})
		if err := w.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	pay := func(n *scenario, customer, symbol string, units int64) common.Hash {
		t.Helper()
		m := n.mintBySymbol(symbol)
		var address struct{ Address string }
		if status := n.call(
			http.MethodPost, "/deposit", map[string]any{"mintId": m.ID, "customerId": customer}, &address,
		); status != http.StatusOK {
			t.Fatalf("POST /deposit: got %d, want 200", status)
		}
		hash, err := n.Info.PayAddress(ctx, m, address.Address, big.NewInt(units))
		if err != nil {
			t.Fatal(err)
		}
		return common.HexToHash(hash)
	}
	to := common.BytesToAddress([]byte("a receiver over two lives"))
	var paid []common.Hash // on Ethereum
	var id string
	life(func(n *scenario) {
		// Without its clock, Ethereum has the payments in no block when the world stops.
		if err := n.EthereumNode().SetIntervalMining(ctx, 0); err != nil {
			t.Fatal(err)
		}
		paid = []common.Hash{pay(n, "user_token", "USDC", 5_000_000), pay(n, "user_coin", "ETH", 1_000_000_000_000_000)}
		for _, hash := range paid {
			if _, waits, err := n.eth.TransactionByHash(ctx, hash); err != nil || !waits {
				t.Fatalf("payment %v: got waiting %v (%v), want it to wait for a block", hash, waits, err)
			}
		}
		pay(n, "user_bitcoin", "BTC", 300_000)
	})
	life(func(n *scenario) {
		for _, hash := range paid {
			if _, err := n.eth.TransactionReceipt(ctx, hash); err != nil {
				t.Fatalf("payment %v after the start: got %v, want it in a block", hash, err)
			}
		}
		for _, customer := range []string{"user_token", "user_coin", "user_bitcoin"} {
			n.newCaller().WaitCredited(customer, false)
		}
		body := map[string]any{
			"mintId": n.mintBySymbol("USDC").ID, "customerId": "user_token", "amount": "2000000", "toAddress": to.Hex(),
			"idempotencyKey": "over-two-lives",
		}
		var w webhook.Withdrawal
		if status := n.call(http.MethodPost, "/withdraw", body, &w); status != http.StatusAccepted {
			t.Fatalf("POST /withdraw: got %d, want 202", status)
		}
		id = w.WithdrawalID
		for w.TxHash == nil {
			n.pause(fmt.Errorf("withdrawal %s is %s", id, w.Status))
			n.call(http.MethodGet, "/withdrawals/"+id, nil, &w)
		}
	})
	life(func(n *scenario) {
		n.waitCompleted(id)
		if got := n.chainBalance(n.mintBySymbol("USDC"), to); got.Cmp(big.NewInt(2_000_000)) != 0 {
			t.Errorf("the receiver has %v, want 2000000", got)
		}
		n.checkBooks()
	})
	if len(topUps) != 1 {
		t.Errorf("three lives: got the top-ups of fees %q, want one", topUps)
	}
}

// Rules IDEM-1 and WD-7, up to the chain: 64 callers that repeat one request at the same time get
// one withdrawal and one transfer on the chain.
func TestParallelReplaysAreOnePaymentOnTheChain(t *testing.T) {
	t.Parallel()
	n := newScenario(t, "")
	n.payIn("user_1", "USDC", 900_000_000)
	m, to := n.mintBySymbol("USDC"), common.BytesToAddress([]byte("who is paid once"))
	body := map[string]any{
		"mintId": m.ID, "customerId": "user_1", "amount": "100", "useDecimal": true, "toAddress": to.Hex(),
		"idempotencyKey": "payout-991",
	}
	payload, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	var callers sync.WaitGroup
	ids := make([]string, 64)
	for i := range ids {
		callers.Go(func() {
			var w webhook.Withdrawal
			if status, err := n.newCaller().CallOnce(http.MethodPost, "/withdraw", payload, &w); err != nil ||
				status != http.StatusAccepted {
				t.Errorf("caller %d: got %d %v, want 202", i, status, err)
			}
			ids[i] = w.WithdrawalID
		})
	}
	callers.Wait()
	for i, id := range ids {
		if id == "" || id != ids[0] {
			t.Fatalf("caller %d: got withdrawal %q, want %q", i, id, ids[0])
		}
	}
	n.waitCompleted(ids[0])
	var again webhook.Withdrawal
	if status := n.call(http.MethodPost, "/withdraw", body, &again); status != http.StatusAccepted ||
		again.Status != "COMPLETED" || again.WithdrawalID != ids[0] {
		t.Errorf(
			"a replay after the end: got %d %s %s, want 202 and %s COMPLETED", status, again.WithdrawalID, again.Status,
			ids[0],
		)
	}
	if got := n.chainBalance(m, to); got.Cmp(big.NewInt(100_000_000)) != 0 {
		t.Errorf("the receiver has %v, want 100000000", got)
	}
	paid, err := n.eth.FilterLogs(n.ctx, ethereum.FilterQuery{
		Addresses: []common.Address{common.HexToAddress(*m.ContractAddress)}, FromBlock: big.NewInt(0),
		Topics: [][]common.Hash{
			{crypto.Keccak256Hash([]byte("Transfer(address,address,uint256)"))}, nil, {common.BytesToHash(to.Bytes())},
		},
	})
	if err != nil || len(paid) != 1 || paid[0].TxHash.Hex() != *again.TxHash {
		t.Errorf("transfers to the receiver: got %v %v, want the one of %s", paid, err, *again.TxHash)
	}
	n.checkBooks()
}

// A description exists only for a running world.
func TestAFolderHasOneWorldAndItsDescriptionIsOfALivingOne(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	description := filepath.Join(dir, localworld.InfoFile)
	if err := errors.Join(
		os.MkdirAll(filepath.Dir(description), 0o755), os.WriteFile(description, []byte("{}"), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	opts := localworld.Options{PrepareDatabase: pgtest.FillDataDir, Dir: dir, Log: slog.New(slog.DiscardHandler)}
	opts.Progress = func(step string, _ ...any) {
		if _, err := os.Stat(description); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the description of a killed world is still there (%v)", step, err)
		}
	}
	w, err := localworld.Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Stop(); err != nil {
			t.Error(err)
		}
	})
	opts.Progress = nil
	if second, err := localworld.Start(t.Context(), opts); err == nil {
		t.Error("a second world started in the same folder")
		_ = second.Stop()
	} else if !strings.Contains(err.Error(), "already") {
		t.Errorf("got %v, want that one runs already", err)
	}
	if info, err := localworld.ReadInfo(dir); err != nil || info.APIKey != w.Info.APIKey {
		t.Errorf("the description is of %s (%v), want %s", info.OrganizationID, err, w.Info.OrganizationID)
	}
}

// A service that ends by itself ends the world, with the reason. One that the world kills does not, and the world that
// runs the service itself says that it cannot be killed alone. Rule BP-82.
func TestAWorldEndsWithItsServiceUnlessItKilledIt(t *testing.T) {
	t.Parallel()
	n := newScenario(t, buildProgram(t))
	ended := make(chan error, 1)
	go func() { ended <- n.WaitEnd(n.ctx) }()
	done, err := n.Info.InterruptService(n.ctx)
	if err != nil || done.Killed == done.Started || done.Started == 0 {
		t.Fatalf("got %+v, %v, want another process", done, err)
	}
	if n.call(http.MethodGet, "/mints", nil, nil) != http.StatusOK {
		t.Error("the service does not answer after it was killed")
	}
	select {
	case err := <-ended:
		t.Fatalf("the world ended with %v, and it killed the service itself", err)
	default:
	}
	process, err := os.FindProcess(done.Started)
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "the service ended") {
		t.Errorf("got %v, want that the service ended", err)
	}
	if _, err := (localworld.Info{}).InterruptService(n.ctx); err == nil || !strings.Contains(err.Error(), "make run") {
		t.Errorf("without a process of its own: got %v, want how to get one", err)
	}
}

// A world with limits answers as a main network does; one without limits never refuses.
func TestAWorldWithLimitsShowsThem(t *testing.T) {
	t.Parallel()
	for _, limited := range []bool{false, true} {
		n := buildScenario(t, localworld.Options{Limits: limited})
		get := func(path, key string) *http.Response {
			t.Helper()
			req, err := http.NewRequestWithContext(n.ctx, http.MethodGet, n.Info.BaseURL+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("x-api-key", key)
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			return resp
		}
		if told := get("/mints", n.Info.APIKey).Header.Get("RateLimit-Limit"); (told != "") != limited {
			t.Errorf("with limits %t: got RateLimit-Limit %q", limited, told)
		}
		// Wrong keys have the lowest rate limit, so that even a slow machine reaches it.
		refused := 0
		for range 60 {
			if get("/mints", "a wrong key").StatusCode == http.StatusTooManyRequests {
				refused++
			}
		}
		if (refused > 0) != limited {
			t.Errorf("with limits %t: %d of 60 wrong keys met a limit", limited, refused)
		}
	}
}
