package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/control/approver"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/whitelist"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/depositswap"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/account"
	"github.com/cofferpay/coffer/internal/identity/changerequest"
	"github.com/cofferpay/coffer/internal/identity/member"
	"github.com/cofferpay/coffer/internal/identity/operator"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/identity/password"
	"github.com/cofferpay/coffer/internal/identity/session"
	"github.com/cofferpay/coffer/internal/identity/signin"
	"github.com/cofferpay/coffer/internal/journal"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/mail"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/platform/seal"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/scan"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/swap"
	"github.com/cofferpay/coffer/internal/swap/provider"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/internal/wire"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

const (
	usdc         = 1
	contract     = chain.Address("0x8617E340B3D01FA5F11F306F4090FD50E238070D")
	sender       = chain.Address("0x71C7656EC7ab88b098defB751B7401B5f6d8976F")
	elsewhere    = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
	rightCode    = "123456"
	goodPassword = "a long and quiet password"
	// hostile is a text that a stranger chooses. On a page of a decision none of its characters is markup,
	// hidden, or of another direction.
	hostile = `<script>alert("x")</script>` + "\u202e" + `Аlice`
)

// testEnv is the console on a real database, with an organization, two operators who act and an auditor. A
// test makes the sessions itself.
type testEnv struct {
	t         testing.TB
	db        *pg.DB
	book      *wallet.Service
	chain     *sim.Chain
	deposits  *deposit.Service
	scan      *scan.Walker
	running   chain.Chain
	providers []chain.ProviderState
	worker    *dispatch.Worker // nil: the chain does not run in this process
	newWorker func(chain.Chain) *dispatch.Worker
	swaps     *swap.Service
	// depositSwaps are served by a scripted provider.
	depositSwaps *depositswap.Service
	swapID       string // of a swap, where a test made one
	payments     *withdrawal.Service
	server       *httptest.Server
	orgID        string
	logs         *logs
	signIn       *signin.Service
	journal      string // of the signer
	approvers    *approver.Service
	changes      *audit.Follower
	// ann and bob act, and eve only reads.
	ann, bob, eve operator.Person
	memberOf      member.Member
	reports       atomic.Int64
	// realFactors has sign-in check the codes of acts.
	realFactors bool

	mu       sync.Mutex
	ahead    time.Duration // of the real time: codes of an authenticator app count once
	sessions map[string]session.Session
	used     map[string]bool // codes that an act used up
}

type logs struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// sanctions reports every address as listed.
type sanctions struct{}

func (sanctions) Name() string { return "SANCTIONS" }

func (sanctions) Covers(chain.Name) bool { return true }

func (sanctions) Screen(context.Context, risk.Subject) (risk.Verdict, error) {
	score := 98
	return risk.Verdict{
		Provider: "SANCTIONS", Severity: risk.Severe, IsKnown: true, Score: &score, Entity: "A bank",
		Categories: []string{"SANCTIONS"}, Direct: true, GivenAt: time.Now(),
	}, nil
}

// quietMailer keeps no mail.
type quietMailer struct{}

func (quietMailer) Queue(context.Context, pg.Tx, mail.Message) error { return nil }

func newTestEnv(t testing.TB) *testEnv {
	t.Helper()
	return newLimitedEnv(t, kernel.Limits{})
}

// newLimitedEnv is newTestEnv with limits of what a person asks for.
func newLimitedEnv(t testing.TB, limits kernel.Limits) *testEnv {
	t.Helper()
	h := &testEnv{t: t, logs: &logs{}, sessions: map[string]session.Session{}, used: map[string]bool{}}
	h.db = pgtest.NewWithClock(t, h.now)
	h.syncMints()
	made, _, err := org.Create(t.Context(), h.db, "House "+`<b>&`)
	if err != nil {
		t.Fatal(err)
	}
	h.orgID = made.ID
	h.addPeople()
	h.server = httptest.NewUnstartedServer(nil)
	origin := &url.URL{Scheme: "http", Host: "localhost:" + strings.Split(h.server.Listener.Addr().String(), ":")[1]}
	s, attest := h.openSigner(origin.String())
	h.book = wallet.New(h.db, s, attest)
	if err := journal.Import(t.Context(), h.db, s, h.book); err != nil {
		t.Fatal(err)
	}
	h.chain = sim.New(sim.Config{FinalityDepth: 3})
	h.running = h.chain.ToChain()
	h.running.AddressCodec = evmtx.AddressCodec{ChainID: signertest.ChainID}
	h.running.Providers = func() []chain.ProviderState { return h.providers }
	chains := chain.Chains{chain.Ethereum: h.running}
	prices := price.Fixed{Prices: map[int]money.USD{usdc: money.MustParseUSD("1")}}
	log := slog.New(slog.NewTextHandler(h.logs, nil))
	h.approvers = approver.New(h.db, s, approver.Config{AttestKey: attest, Chains: chains}, log)
	if err := h.approvers.LoadWording(t.Context()); err != nil {
		t.Fatal(err)
	}
	policy := risk.Policy{Providers: sanctions{}, UnknownAs: risk.TreatUnknownAsHold, Grace: time.Hour}
	h.deposits = &deposit.Service{
		Events: wire.NewRecorder(), DB: h.db, Chains: chains, Wallets: h.book, Prices: prices, Risk: policy, Log: log,
		Approvers: h.approvers,
		Owners: deposit.NewOwners(map[string]deposit.Owner{
			wallet.CustomerDeposit: deposit.CustomerOwner{}, wallet.OrganizationDeposit: deposit.ProductOwner{},
			wallet.Treasury: deposit.TreasuryOwner{}, wallet.Change: deposit.ChangeOwner{},
			wallet.SwapDelivery: noArrivals{}, wallet.SwapRefund: noArrivals{},
			wallet.DepositSwap:    noArrivals{},
			wallet.Checkout:       noPayments{},
			wallet.CheckoutShared: noPayments{deposit.CheckoutOwner{IsShared: true}},
		}),
	}
	h.payments = &withdrawal.Service{
		DB: h.db, Events: wire.NewRecorder(), Chains: chains, Wallets: h.book, Prices: prices,
	}
	h.swaps = swap.NewService(swap.Config{})
	h.swaps.DB, h.swaps.Wallets, h.swaps.Events = h.db, h.book, wire.NewRecorder()
	h.swaps.Panel = provider.NewPanel(nil, swap.Suspensions{DB: h.db}, h.now, log)
	h.newDepositSwaps(chains, prices, log)
	h.newWorker = func(on chain.Chain) *dispatch.Worker {
		return dispatch.New(h.db, on, s, journal.RecordEntry, map[signer.Purpose]dispatch.Listener{
			signer.Payment: h.payments, signer.Return: h.deposits,
		}, dispatch.Config{}, log)
	}
	start := uint64(0)
	h.scan = scan.New(h.db, scan.Config{Chain: chain.Ethereum, Reader: h.chain, Start: &start}, h.deposits, log)
	h.signIn = h.newSignIn(origin.String())
	h.changes = audit.NewFollower(h.db, log)
	conf := Config{
		DB: h.db, SignIn: h.signIn, Chains: chains, Deposits: h.deposits, Swaps: h.swaps, Prices: prices,
		DepositSwaps: h.depositSwaps, Billing: h.newBilling(),
		PriceAge:    func(int) time.Duration { return time.Hour },
		Withdrawals: h.payments, Limits: limits, Changes: h.changes,
		Rescreens: deposit.NewRescreener(h.db, policy, deposit.RescreenConfig{}, log),
		Whitelist: whitelist.New(h.db, s, whitelist.Config{
			AttestKey: attest, Chains: chains, CoolingOff: whitelist.CoolingOff, Approvers: h.approvers,
		}, log),
		Approvers: h.approvers, FourEyes: changerequest.Rule{Enabled: true},
		Worker:   func(chain.Name) *dispatch.Worker { return h.worker },
		LoadSanctions: func(context.Context) (SanctionsList, error) {
			return SanctionsList{ID: "list_1", PublishedAt: h.now(), ImportedAt: h.now(), MaxAge: time.Hour}, nil
		},
		AllowedPrefixes: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Origin: origin,
		CursorKey: []byte("the key of the cursors of this test"), Proxies: kernel.Proxies{}, Log: log,
		CountReport: func() { h.reports.Add(1) },
	}
	surface := (&console{conf}).surface()
	confirm := surface.ConfirmAct
	find := surface.FindSession
	surface.FindSession = func(ctx context.Context, token seal.Secret) (session.Session, error) {
		if found, ok := h.findSession(token); ok {
			return found, nil
		}
		return find(ctx, token)
	}
	look := surface.LookAtSession
	surface.LookAtSession = func(ctx context.Context, token seal.Secret) (session.Session, error) {
		if found, ok := h.findSession(token); ok {
			return found, nil
		}
		return look(ctx, token)
	}
	surface.ConfirmAct = func(r *pages.Request, act pages.Act, proof signin.Proof) error {
		if h.realFactors {
			return confirm(r, act, proof)
		}
		return h.useCode(proof.Code)
	}
	h.server.Config.Handler = conf.guard(pages.New(surface, conf.kitConfig()))
	h.server.Start()
	t.Cleanup(h.server.Close)
	t.Cleanup(h.changes.End)
	return h
}

func (h *testEnv) syncMints() {
	h.t.Helper()
	token := mint.Mint{
		ID: usdc, Chain: chain.Ethereum, Network: chain.Local, Kind: mint.Token, Contract: contract, Symbol: "USDC",
		Name: "USD Coin", Decimals: 6, DepositEnabled: true, WithdrawEnabled: true, MinDeposit: money.Units(5),
		MinWithdraw: money.Units(10), ConfirmationsRequired: 2, Finality: "FINALIZED",
	}
	coin := token
	coin.ID, coin.Kind, coin.Contract, coin.Symbol, coin.Name, coin.Decimals = 2, mint.Native, "", "ETH", "Ether", 18
	if err := mint.Sync(h.t.Context(), h.db, []mint.Mint{token, coin}); err != nil {
		h.t.Fatal(err)
	}
}

func (h *testEnv) addPeople() {
	h.t.Helper()
	actor := audit.System("test")
	err := h.db.InSystem(h.t.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		h.memberOf, err = member.Add(ctx, tx, actor, h.orgID, "owner@example.test", "Owner "+hostile, identity.Owner)
		return err
	})
	for _, p := range []struct {
		person      *operator.Person
		email, name string
		role        operator.Role
	}{
		{&h.ann, "ann@example.test", "Ann Operator", operator.RoleOperator},
		{&h.bob, "bob@example.test", "Bob Operator", operator.RoleOperator},
		{&h.eve, "eve@example.test", "Eve Auditor", operator.RoleAuditor},
	} {
		if err != nil {
			break
		}
		err = h.db.InSystem(h.t.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
			if *p.person, err = operator.AddPerson(
				ctx, tx, actor, p.email, p.name, []operator.Role{p.role},
			); err != nil {
				return err
			}
			made, err := account.Create(
				ctx, tx, account.OperatorSide, p.email, p.name, "", "$argon2id$v=19$m=64,t=1,p=1$c2FsdA$aGFzaA",
			)
			if err != nil {
				return err
			}
			p.person.AccountID = made.ID
			_, err = operator.JoinAccount(ctx, tx, p.person.ID, made.ID)
			return err
		})
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

// now is the clock of the database and of sign-in.
func (h *testEnv) now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Now().Add(h.ahead)
}

// pass lets time pass.
func (h *testEnv) pass(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ahead += d
}

func (h *testEnv) newSignIn(origin string) *signin.Service {
	h.t.Helper()
	file := filepath.Join(h.t.TempDir(), "seal")
	if err := seal.CreateKeyset(file); err != nil {
		h.t.Fatal(err)
	}
	keys, err := seal.OpenKeyset(file)
	if err != nil {
		h.t.Fatal(err)
	}
	made, err := signin.NewService(signin.Config{
		DB: h.db, Keys: keys, Hasher: password.NewHasher(password.Params{MemoryKiB: 64, Passes: 1}),
		Mailer: quietMailer{},
		Side:   account.OperatorSide, Site: "localhost", Origin: origin, Issuer: "Coffer console",
		InvitationURL: origin + InvitationPath, DeviceURL: origin + DevicePath,
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return made
}

// open makes a session and returns its token. A factor was shown a moment ago.
func (h *testEnv) open(found session.Session) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	token := fmt.Sprintf("token-%d", len(h.sessions))
	found.ID, found.State = "ses_"+token, session.Open
	h.sessions[token] = found
	return token
}

// signInAs makes a session of an operator. Its factor counts for keys and settings for ten minutes.
func (h *testEnv) signInAs(p operator.Person) string {
	return h.open(session.Session{Operator: p, SudoUntil: h.now().Add(10 * time.Minute)})
}

func (h *testEnv) findSession(token seal.Secret) (session.Session, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	found, ok := h.sessions[token.Reveal()]
	return found, ok
}

// useCode takes each code that begins with rightCode once.
func (h *testEnv) useCode(code seal.Secret) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if text := code.Reveal(); strings.HasPrefix(text, rightCode) && !h.used[text] {
		h.used[text] = true
		return nil
	}
	return fault.New(fault.Unauthorized, fault.CodeUnauthorized, fault.NothingWritten,
		"This code is wrong or was used.").WithParam(ui.CodeName)
}

// flag makes a flagged deposit of one dollar and returns its id.
func (h *testEnv) flag() string {
	h.t.Helper()
	err := h.db.InSystem(h.t.Context(), func(ctx context.Context, tx pg.Tx) error {
		_, err := org.ChangeSettings(ctx, tx, audit.System("test"), h.orgID, org.Changes{
			"screeningSeverityThreshold": []byte(`"HIGH"`), "screeningUsdThreshold": []byte(`"0.5"`),
		})
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	issuer := &deposit.AddressService{
		DB: h.db, Chains: h.deposits.Chains, Wallets: h.book, Actor: audit.APIKey(h.orgID),
	}
	issued, err := issuer.IssueForCustomer(h.t.Context(), h.orgID, usdc, "bob "+`<i>`, "")
	if err != nil {
		h.t.Fatal(err)
	}
	h.chain.Mint(sender, contract, money.Units(1_000_000_000))
	h.chain.Pay(sender, issued.Address, contract, 1_000_000)
	h.mine()
	if _, err := h.deposits.CreditWaiting(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
	var id string
	err = pgtest.OwnerPool(h.t, h.db).QueryRow(h.t.Context(),
		`SELECT max(deposit_id) FROM deposits WHERE status = 'FLAGGED'`).Scan(&id)
	if err != nil {
		h.t.Fatal(err)
	}
	return id
}

// mine makes what was sent final, and scans it.
func (h *testEnv) mine() {
	h.t.Helper()
	h.chain.Mine(1)
	h.chain.MineEmpty(5)
	for moved := true; moved; {
		var err error
		if moved, err = h.scan.StepFinal(h.t.Context()); err != nil {
			h.t.Fatal(err)
		}
	}
}

// count returns a number that a query selects.
func (h *testEnv) count(sql string, args ...any) (n int) {
	h.t.Helper()
	if err := pgtest.OwnerPool(h.t, h.db).QueryRow(h.t.Context(), sql, args...).Scan(&n); err != nil {
		h.t.Fatal(err)
	}
	return n
}

// reply is an answer that was read.
type reply struct {
	status int
	header http.Header
	body   string
}

// get requests a page.
func (h *testEnv) get(token, path string) reply { return h.send(token, http.MethodGet, path, nil) }

// post sends a form as a browser does.
func (h *testEnv) post(token, path string, fields ...string) reply {
	values := url.Values{}
	for i := 0; i < len(fields); i += 2 {
		values.Add(fields[i], fields[i+1])
	}
	return h.send(token, http.MethodPost, path, strings.NewReader(values.Encode()))
}

func (h *testEnv) send(token, method, path string, body io.Reader) reply {
	h.t.Helper()
	r, err := http.NewRequestWithContext(h.t.Context(), method, h.server.URL+path, body)
	if err != nil {
		h.t.Fatal(err)
	}
	r.Host = "localhost:" + strings.Split(h.server.Listener.Addr().String(), ":")[1]
	if token != "" {
		r.Header.Set("Cookie", pages.OperatorSessionCookie+"="+token)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	client := &http.Client{
		Timeout:       time.Minute,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	got, err := client.Do(r)
	if err != nil {
		h.t.Fatal(err)
	}
	defer got.Body.Close()
	raw, err := io.ReadAll(got.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	if got.StatusCode >= http.StatusInternalServerError && got.StatusCode != http.StatusServiceUnavailable {
		h.t.Errorf("%s %s: got %d, want no error of ours; log: %s", method, path, got.StatusCode, h.logs)
	}
	return reply{got.StatusCode, got.Header, string(raw)}
}

func (r reply) want(t testing.TB, status int, texts ...string) reply {
	t.Helper()
	if r.status != status {
		t.Fatalf("got %d %s, want %d", r.status, r.body, status)
	}
	for _, text := range texts {
		if !strings.Contains(r.body, text) {
			t.Errorf("got a page without %q:\n%s", text, r.body)
		}
	}
	return r
}

// location returns where an answer leads.
func (r reply) location(t testing.TB) string {
	t.Helper()
	if r.status != http.StatusSeeOther {
		t.Fatalf("got %d %s, want a redirect", r.status, r.body)
	}
	return r.header.Get("Location")
}

// noArrivals owns the wallets of swaps where nothing arrives.
type noArrivals struct{ deposit.ArrivalOwner }

func (noArrivals) SettleArrivals(
	context.Context, pg.Tx, wallet.Wallet, []deposit.WaitingArrival,
) (deposit.Settlement, error) {
	return deposit.Settlement{}, errors.New("no test delivers to a swap")
}

// noPayments owns the wallets of checkouts. Nothing hears of what arrives there.
type noPayments struct{ deposit.CheckoutOwner }

func (noPayments) OnUpdates(context.Context, pg.Tx, []deposit.Update) error { return nil }
