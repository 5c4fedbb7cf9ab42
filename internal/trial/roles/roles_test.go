package roles

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/ethclient"

	"github.com/cofferpay/coffer/internal/app"
	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/internal/localworld/caller"
	"github.com/cofferpay/coffer/internal/localworld/evmtoken"
	"github.com/cofferpay/coffer/internal/loopback"
	"github.com/cofferpay/coffer/internal/pg/pgtest"
	"github.com/cofferpay/coffer/internal/signer/remote"
	"github.com/cofferpay/coffer/internal/signer/remote/remotetest"
	"github.com/cofferpay/coffer/internal/trial/built"
	"github.com/cofferpay/coffer/internal/verify"
	"github.com/cofferpay/coffer/webhook"
)

// town is a world whose service is many processes.
type town struct {
	*testing.T
	*localworld.World
	ctx     context.Context
	program string
	conf    app.Config
	hosts   map[app.Role]Host
	runs    map[app.Role][]*Process
	usdc    localworld.Mint
	api     int // which of the processes with the role is called
}

func build(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "coffer")
	if err := built.Program(t.Context(), ".", file, ""); err != nil {
		t.Fatal(err)
	}
	return file
}

// may is what each role has of the signer.
var may = map[app.Role]remote.May{
	app.RoleAPI: remote.MayIssue, app.RoleWorkers: remote.MayIssue, app.RoleScan: remote.MayIssue, app.RoleDispatch: remote.MayPay,
}

func newTown(t *testing.T) *town {
	t.Helper()
	n := &town{T: t, hosts: map[app.Role]Host{}, runs: map[app.Role][]*Process{}, program: build(t)}
	var cancel context.CancelFunc
	n.ctx, cancel = context.WithTimeout(t.Context(), 8*time.Minute)
	t.Cleanup(cancel)
	w, err := localworld.Start(n.ctx, localworld.Options{Furnish: pgtest.Furnish, Dir: t.TempDir(), BlockTime: 250 * time.Millisecond, Bare: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, all := range n.runs {
			for _, p := range all {
				if err := p.Kill(); err != nil {
					t.Error(err)
				}
				if t.Failed() {
					t.Logf("%s:\n%s", p.Name, p.Log())
				}
			}
		}
		if err := w.Stop(); err != nil {
			t.Error(err)
		}
	})
	n.World = w
	if n.conf, err = app.ReadConfig(w.Info.Config); err != nil {
		t.Fatal(err)
	}
	for _, m := range w.Info.Mints {
		if m.Symbol == "USDC" {
			n.usdc = m
		}
	}
	n.settle()
	return n
}

// settle gives each role its host, with the signer on one of its own.
func (n *town) settle() {
	n.Helper()
	ca := remotetest.New(n.T)
	own := ca.Leaf(n.T, "signer.internal", x509.ExtKeyUsageServerAuth, time.Now().Add(time.Hour))
	listen, err := loopback.Address()
	if err != nil {
		n.Fatal(err)
	}
	signs := n.conf
	signs.Signer.Serve = app.SignerServe{Listen: listen, Certificate: own.Certificate, Key: own.Key, CA: own.CA}
	for role, of := range may {
		name := "coffer-" + string(role)
		signs.Signer.Serve.Clients = append(signs.Signer.Serve.Clients, app.SignerClient{Name: name, May: string(of)})
		shown := ca.Leaf(n.T, name, x509.ExtKeyUsageClientAuth, time.Now().Add(time.Hour))
		conf := n.conf
		conf.Signer = app.Signer{Address: listen, TLS: app.SignerTLS{Certificate: shown.Certificate, Key: shown.Key, CA: shown.CA, Name: "signer.internal"}}
		n.host(role, conf)
	}
	n.host(app.RoleSigner, signs)
}

func (n *town) host(role app.Role, conf app.Config) {
	n.Helper()
	h, err := NewHost(n.Info.Config+".hosts", role, conf)
	if err != nil {
		n.Fatal(err)
	}
	n.hosts[role] = h
}

func (n *town) run(role app.Role) {
	n.Helper()
	p, err := n.hosts[role].Run(n.ctx, n.program, len(n.runs[role]))
	if p != nil {
		n.runs[role] = append(n.runs[role], p)
	}
	if err != nil {
		n.Fatal(err)
	}
}

// calls are what an organization calls, of the process whose turn it is.
func (n *town) calls() caller.Caller {
	return caller.Caller{
		T: n.T, Ctx: n.ctx, Key: n.Info.APIKey,
		Base: func() string { return "http://" + n.runs[app.RoleAPI][n.api].API + "/v1" },
	}
}

func (n *town) call(method, path string, body, into any) int {
	n.Helper()
	return n.calls().Call(method, path, body, into)
}

func (n *town) pause(last error) {
	n.Helper()
	n.calls().Pause(last)
}

// payIn sends a customer's deposit; paidIn waits until it is credited.
func (n *town) payIn(customer string, units int64) {
	n.Helper()
	var address struct{ Address string }
	if status := n.call(http.MethodPost, "/deposit", map[string]any{"mintId": n.usdc.ID, "customerId": customer}, &address); status != http.StatusOK {
		n.Fatalf("POST /deposit: got %d, want 200", status)
	}
	if _, err := n.Info.Faucet(n.ctx, n.usdc, common.HexToAddress(address.Address), big.NewInt(units)); err != nil {
		n.Fatal(err)
	}
}

func (n *town) paidIn(customer string) {
	n.Helper()
	n.calls().Credited(customer, false)
}

// payOut asks for a withdrawal; paidOut waits until it is completed.
func (n *town) payOut(customer, key string, to common.Address, units int64) string {
	n.Helper()
	var w webhook.Withdrawal
	status := n.call(http.MethodPost, "/withdraw", map[string]any{
		"mintId": n.usdc.ID, "customerId": customer, "amount": fmt.Sprint(units), "toAddress": to.Hex(), "idempotencyKey": key,
	}, &w)
	if status != http.StatusAccepted {
		n.Fatalf("POST /withdraw: got %d, want 202", status)
	}
	return w.WithdrawalID
}

func (n *town) paidOut(id string) {
	n.Helper()
	n.calls().Completed(id)
}

// told waits until so many events of each type have a number, which the workers give.
func (n *town) told(want int, types ...webhook.Type) {
	n.Helper()
	for {
		var feed struct{ Data []webhook.Envelope }
		n.call(http.MethodGet, "/events", nil, &feed)
		seen := map[webhook.Type]int{}
		for _, e := range feed.Data {
			seen[e.Type]++
		}
		all := true
		for _, t := range types {
			all = all && seen[t] == want
		}
		if all {
			return
		}
		n.pause(fmt.Errorf("events: %v", seen))
	}
}

// sound runs the verifier against the books and the chain until nothing is under way.
func (n *town) sound() {
	n.Helper()
	a, err := app.OpenTools(n.ctx, n.conf, slog.New(slog.DiscardHandler))
	if err != nil {
		n.Fatal(err)
	}
	defer a.Close()
	books, err := verify.Run(n.ctx, a.DB())
	if err != nil || !books.OK() {
		n.Errorf("the books: got %+v %v, want them to add up", books.Breaches, err)
	}
	chains, err := verify.OnChain(n.ctx, a.DB(), a.Chains())
	if err != nil || !chains.OK() {
		n.Errorf("the chain: got %+v %v, want it to agree", chains.Breaches, err)
	}
}

func (n *town) holds(a common.Address) *big.Int {
	n.Helper()
	eth, err := ethclient.DialContext(n.ctx, n.Info.Chains["ETHEREUM"].RPCURL)
	if err != nil {
		n.Fatal(err)
	}
	defer eth.Close()
	contract := common.HexToAddress(*n.usdc.ContractAddress)
	out, err := eth.CallContract(n.ctx, ethereum.CallMsg{To: &contract, Data: evmtoken.Token.Call("balanceOf", a)}, nil)
	if err != nil {
		n.Fatal(err)
	}
	return new(big.Int).SetBytes(out)
}

// Every role runs twice, in a process of its own and with no more than it needs; the
// first of each is killed with money on its way in and out; the second takes over and
// everything is paid once.
func TestEachRoleRunsByItselfAndASecondOneTakesOver(t *testing.T) {
	t.Parallel()
	n := newTown(t)
	n.run(app.RoleSigner)
	doubled := []app.Role{app.RoleScan, app.RoleDispatch, app.RoleWorkers, app.RoleAPI}
	for range 2 {
		for _, role := range doubled {
			n.run(role)
		}
	}
	for role, all := range n.runs {
		for _, p := range all {
			if open := Reachable(n.ctx, p.API); open != (role == app.RoleAPI) {
				t.Errorf("%s: got an API %v", p.Name, open)
			}
		}
	}
	// A second signer would be a second journal's owner.
	second, err := Start(n.program, "a second signer", "serve", "--config", filepath.Join(n.hosts[app.RoleSigner].Dir, "signer-0.toml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Ended(n.ctx); err == nil || errors.Is(err, context.DeadlineExceeded) || !strings.Contains(second.Log(), "journal") {
		t.Errorf("a second signer: got %v, want it refused for the journal\n%s", err, second.Log())
	}

	first, next := common.HexToAddress("0x00000000000000000000000000000000c0ffee01"), common.HexToAddress("0x00000000000000000000000000000000c0ffee02")
	n.payIn("user_1", 250_000_000)
	n.paidIn("user_1")
	n.paidOut(n.payOut("user_1", "one", first, 100_000_000))
	n.told(1, webhook.CustomerDeposit, webhook.CustomerWithdrawCompleted)

	n.payIn("user_2", 70_000_000)
	id := n.payOut("user_1", "two", next, 50_000_000)
	for _, role := range doubled {
		if err := n.runs[role][0].Kill(); err != nil {
			t.Fatal(err)
		}
	}
	n.api = 1
	n.paidIn("user_2")
	n.paidOut(id)
	if again := n.payOut("user_1", "two", next, 50_000_000); again != id {
		t.Errorf("the same key at the other process: got %s, want %s", again, id)
	}
	n.told(2, webhook.CustomerDeposit, webhook.CustomerWithdrawCompleted)
	for to, want := range map[common.Address]int64{first: 100_000_000, next: 50_000_000} {
		if got := n.holds(to); got.Cmp(big.NewInt(want)) != 0 {
			t.Errorf("%s: got %v, want exactly %d", to, got, want)
		}
	}
	for _, role := range doubled {
		if err := n.runs[role][1].Stop(); err != nil {
			t.Error(err)
		}
	}
	n.sound()
}
