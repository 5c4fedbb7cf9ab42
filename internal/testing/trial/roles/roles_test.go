package roles

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net/http"
	"os"
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
	"github.com/cofferpay/coffer/internal/platform/freeport"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/signer/remote"
	"github.com/cofferpay/coffer/internal/signer/remote/remotetest"
	"github.com/cofferpay/coffer/internal/testing/trial/binary"
	"github.com/cofferpay/coffer/internal/verify"
	"github.com/cofferpay/coffer/webhook"
)

// scenario is a world whose service is many processes.
type scenario struct {
	*testing.T
	*localworld.World
	ctx     context.Context
	program string
	conf    app.Config
	hosts   map[app.Role]Host
	runs    map[app.Role][]*Process
	usdc    localworld.Mint
	api     int // number of the API process that is called
}

func buildProgram(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "coffer")
	if err := binary.BuildProgram(t.Context(), ".", file, ""); err != nil {
		t.Fatal(err)
	}
	return file
}

// signerRights is each role's permission at the signer.
var signerRights = map[app.Role]remote.Permission{
	app.RoleAPI: remote.PermissionIssue, app.RoleApprovals: remote.PermissionIssue,
	app.RoleWorkers: remote.PermissionIssue, app.RoleScan: remote.PermissionIssue,
	app.RoleDispatch: remote.PermissionPay,
}

// approvalsOrigin is the address at which browsers would reach the pages of approvals, behind a proxy.
const approvalsOrigin = "http://approvals.localhost:8083"

// allowApprovals has the signer's policy name the pages of approvals.
func (n *scenario) allowApprovals() {
	n.Helper()
	text, err := os.ReadFile(n.conf.Signer.Policy)
	if err != nil {
		n.Fatal(err)
	}
	var policy map[string]any
	if err := json.Unmarshal(text, &policy); err != nil {
		n.Fatal(err)
	}
	approvers, _ := policy["approvers"].(map[string]any)
	parties, _ := approvers["relyingParties"].([]any)
	approvers["relyingParties"] = append(parties, map[string]any{
		"id": "approvals.localhost", "origins": []string{approvalsOrigin},
	})
	if text, err = json.Marshal(policy); err == nil {
		err = os.WriteFile(n.conf.Signer.Policy, text, 0o600)
	}
	if err != nil {
		n.Fatal(err)
	}
}

// checkApprovalPages checks that a process serves the pages of approvals and nothing of the dashboard. Rule PAGE-118.
func (n *scenario) checkApprovalPages(p *Process) {
	n.Helper()
	client := &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	for path, want := range map[string]int{
		"/sign-in": http.StatusOK, "/approvals": http.StatusSeeOther, "/approvers": http.StatusSeeOther,
	} {
		r, err := http.NewRequestWithContext(n.ctx, http.MethodGet, "http://"+p.Approvals+path, nil)
		if err != nil {
			n.Fatal(err)
		}
		r.Host = strings.TrimPrefix(approvalsOrigin, "http://")
		answer, err := client.Do(r)
		if err != nil {
			n.Fatal(err)
		}
		location := answer.Header.Get("Location")
		if err := answer.Body.Close(); err != nil || answer.StatusCode != want ||
			want == http.StatusSeeOther && !strings.HasPrefix(location, "/sign-in?") {
			n.Errorf("%s: %s: got %d and %q, want %d", p.Name, path, answer.StatusCode, location, want)
		}
	}
}

func newScenario(t *testing.T) *scenario {
	t.Helper()
	n := &scenario{T: t, hosts: map[app.Role]Host{}, runs: map[app.Role][]*Process{}, program: buildProgram(t)}
	var cancel context.CancelFunc
	n.ctx, cancel = context.WithTimeout(t.Context(), 20*time.Minute)
	t.Cleanup(cancel)
	w, err := localworld.Start(n.ctx, localworld.Options{
		PrepareDatabase: pgtest.FillDataDir, Dir: t.TempDir(), BlockTime: 250 * time.Millisecond, WithoutService: true,
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, all := range n.runs {
			for _, p := range all {
				if err := p.KillProcess(); err != nil {
					t.Error(err)
				}
				if t.Failed() {
					t.Logf("%s:\n%s", p.Name, p.LogText())
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
	n.conf.Approvals.Origin = approvalsOrigin
	n.allowApprovals()
	n.startHosts()
	return n
}

// startHosts gives each role its host, with the signer on its own.
func (n *scenario) startHosts() {
	n.Helper()
	ca := remotetest.NewAuthority(n.T)
	own := ca.IssueLeaf(n.T, "signer.internal", x509.ExtKeyUsageServerAuth, time.Now().Add(time.Hour))
	listen, err := freeport.FindAddress()
	if err != nil {
		n.Fatal(err)
	}
	signs := n.conf
	signs.Signer.Serve = app.SignerServe{Listen: listen, Certificate: own.Certificate, Key: own.Key, CA: own.CA}
	for role, of := range signerRights {
		name := "coffer-" + string(role)
		signs.Signer.Serve.Clients = append(signs.Signer.Serve.Clients, app.SignerClient{
			Name: name, Permission: string(of),
		})
		shown := ca.IssueLeaf(n.T, name, x509.ExtKeyUsageClientAuth, time.Now().Add(time.Hour))
		conf := n.conf
		conf.Signer = app.Signer{Address: listen, TLS: app.SignerTLS{
			Certificate: shown.Certificate, Key: shown.Key, CA: shown.CA, Name: "signer.internal",
		}}
		n.addHost(role, conf)
	}
	n.addHost(app.RoleSigner, signs)
}

func (n *scenario) addHost(role app.Role, conf app.Config) {
	n.Helper()
	h, err := NewHost(n.Info.Config+".hosts", role, conf)
	if err != nil {
		n.Fatal(err)
	}
	n.hosts[role] = h
}

func (n *scenario) startRole(role app.Role) {
	n.Helper()
	p, err := n.hosts[role].RunProcess(n.ctx, n.program, len(n.runs[role]))
	if p != nil {
		n.runs[role] = append(n.runs[role], p)
	}
	if err != nil {
		n.Fatal(err)
	}
}

// newCaller returns a client of the process whose turn it is, with the organization's key.
func (n *scenario) newCaller() caller.Caller {
	return caller.Caller{
		T: n.T, Ctx: n.ctx, Key: n.Info.APIKey,
		Base: func() string { return "http://" + n.runs[app.RoleAPI][n.api].API + "/v1" },
	}
}

func (n *scenario) callAPI(method, path string, body, into any) int {
	n.Helper()
	return n.newCaller().CallAPI(method, path, body, into)
}

func (n *scenario) waitRetry(last error) {
	n.Helper()
	n.newCaller().WaitRetry(last)
}

// payIn sends a customer's deposit; waitPaidIn waits until it is credited.
func (n *scenario) payIn(customer string, units int64) {
	n.Helper()
	var address struct{ Address string }
	if status := n.callAPI(
		http.MethodPost, "/deposit", map[string]any{"mintId": n.usdc.ID, "customerId": customer}, &address,
	); status != http.StatusOK {
		n.Fatalf("POST /deposit: got %d, want 200", status)
	}
	if _, err := n.Info.SendFromFaucet(
		n.ctx, n.usdc, common.HexToAddress(address.Address), big.NewInt(units),
	); err != nil {
		n.Fatal(err)
	}
}

func (n *scenario) waitPaidIn(customer string) {
	n.Helper()
	n.newCaller().WaitCredited(customer, false)
}

// payOut requests a withdrawal; waitPaidOut waits until it is completed.
func (n *scenario) payOut(customer, key string, to common.Address, units int64) string {
	n.Helper()
	var w webhook.Withdrawal
	status := n.callAPI(http.MethodPost, "/withdraw", map[string]any{
		"mintId": n.usdc.ID, "customerId": customer, "amount": fmt.Sprint(units), "toAddress": to.Hex(),
		"idempotencyKey": key,
	}, &w)
	if status != http.StatusAccepted {
		n.Fatalf("POST /withdraw: got %d, want 202", status)
	}
	return w.WithdrawalID
}

func (n *scenario) waitPaidOut(id string) {
	n.Helper()
	n.newCaller().WaitCompleted(id)
}

// waitEvents waits until so many events of each type have a number, which the workers assign.
func (n *scenario) waitEvents(want int, types ...webhook.Type) {
	n.Helper()
	for {
		var feed struct{ Data []webhook.Envelope }
		n.callAPI(http.MethodGet, "/events", nil, &feed)
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
		n.waitRetry(fmt.Errorf("events: %v", seen))
	}
}

// checkBooks runs the verifier against the books and the chain until nothing is under way.
func (n *scenario) checkBooks() {
	n.Helper()
	a, err := app.OpenTools(n.ctx, n.conf, slog.New(slog.DiscardHandler))
	if err != nil {
		n.Fatal(err)
	}
	defer a.Close()
	books, err := verify.RunChecks(n.ctx, a.DB())
	if err != nil || !books.IsIntact() {
		n.Errorf("the books: got %+v %v, want them to add up", books.Breaches, err)
	}
	chains, err := verify.CompareWithChains(n.ctx, a.DB(), a.Chains)
	if err != nil || !chains.IsIntact() {
		n.Errorf("the chain: got %+v %v, want it to agree", chains.Breaches, err)
	}
}

func (n *scenario) readBalance(a common.Address) *big.Int {
	n.Helper()
	eth, err := ethclient.DialContext(n.ctx, n.Info.Chains["ETHEREUM"].RPCURL)
	if err != nil {
		n.Fatal(err)
	}
	defer eth.Close()
	contract := common.HexToAddress(*n.usdc.ContractAddress)
	out, err := eth.CallContract(
		n.ctx, ethereum.CallMsg{To: &contract, Data: evmtoken.Token.CallData("balanceOf", a)}, nil,
	)
	if err != nil {
		n.Fatal(err)
	}
	return new(big.Int).SetBytes(out)
}

// Every role runs twice, in its own process and with no more than it needs. The first of each is
// killed with money on its way in and out. The second takes over, and everything is paid once.
func TestEachRoleRunsByItselfAndASecondOneTakesOver(t *testing.T) {
	t.Parallel()
	n := newScenario(t)
	n.startRole(app.RoleSigner)
	doubled := []app.Role{app.RoleScan, app.RoleDispatch, app.RoleWorkers, app.RoleAPI, app.RoleApprovals}
	for range 2 {
		for _, role := range doubled {
			n.startRole(role)
		}
	}
	for _, p := range n.runs[app.RoleAPI] {
		if !Reachable(n.ctx, p.API) {
			t.Errorf("%s: got no API at %s", p.Name, p.API)
		}
	}
	for _, p := range n.runs[app.RoleApprovals] {
		n.checkApprovalPages(p)
	}
	// A second signer would be a second owner of the journal.
	second, err := Start(
		n.program, "a second signer", "serve", "--config", filepath.Join(n.hosts[app.RoleSigner].Dir, "signer-0.toml"),
	)
	if err != nil {
		t.Fatal(err)
	}
	if err := second.WaitEnded(n.ctx); err == nil || errors.Is(err, context.DeadlineExceeded) ||
		!strings.Contains(second.LogText(), "journal") {
		t.Errorf("a second signer: got %v, want it refused for the journal\n%s", err, second.LogText())
	}

	first, next := common.HexToAddress("0x00000000000000000000000000000000c0ffee01"), common.HexToAddress(
		"0x00000000000000000000000000000000c0ffee02",
	)
	n.payIn("user_1", 250_000_000)
	n.waitPaidIn("user_1")
	n.waitPaidOut(n.payOut("user_1", "one", first, 100_000_000))
	n.waitEvents(1, webhook.CustomerDeposit, webhook.CustomerWithdrawCompleted)

	n.payIn("user_2", 70_000_000)
	id := n.payOut("user_1", "two", next, 50_000_000)
	for _, role := range doubled {
		if err := n.runs[role][0].KillProcess(); err != nil {
			t.Fatal(err)
		}
	}
	n.api = 1
	n.checkApprovalPages(n.runs[app.RoleApprovals][1])
	n.waitPaidIn("user_2")
	n.waitPaidOut(id)
	if again := n.payOut("user_1", "two", next, 50_000_000); again != id {
		t.Errorf("the same key at the other process: got %s, want %s", again, id)
	}
	n.waitEvents(2, webhook.CustomerDeposit, webhook.CustomerWithdrawCompleted)
	for to, want := range map[common.Address]int64{first: 100_000_000, next: 50_000_000} {
		if got := n.readBalance(to); got.Cmp(big.NewInt(want)) != 0 {
			t.Errorf("%s: got %v, want exactly %d", to, got, want)
		}
	}
	for _, role := range doubled {
		if err := n.runs[role][1].Stop(); err != nil {
			t.Error(err)
		}
	}
	n.checkBooks()
}
