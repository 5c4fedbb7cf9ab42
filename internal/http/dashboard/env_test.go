package dashboard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
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
	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/control/approver"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/whitelist"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/depositswap"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/account"
	"github.com/cofferpay/coffer/internal/identity/changerequest"
	"github.com/cofferpay/coffer/internal/identity/member"
	"github.com/cofferpay/coffer/internal/identity/memberchange"
	"github.com/cofferpay/coffer/internal/identity/operator"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/identity/password"
	"github.com/cofferpay/coffer/internal/identity/session"
	"github.com/cofferpay/coffer/internal/identity/signin"
	"github.com/cofferpay/coffer/internal/journal"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/ledger/ledgertest"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/payout"
	"github.com/cofferpay/coffer/internal/platform/mail"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/platform/seal"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/swap"
	"github.com/cofferpay/coffer/internal/swap/provider"
	"github.com/cofferpay/coffer/internal/swap/swaptest"
	"github.com/cofferpay/coffer/internal/transfer"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/internal/webhooks/delivery"
	"github.com/cofferpay/coffer/internal/wire"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

const (
	usdc         = 1
	evil         = 2
	eth          = 3
	contract     = chain.Address("0x8617E340B3D01FA5F11F306F4090FD50E238070D")
	evilContract = chain.Address("0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359")
	recipient    = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
	rightCode    = "123456"
	// hostile is a text that a stranger chooses. On a page of a decision none of its characters is
	// markup, hidden, or of another direction.
	hostile = `<script>alert("x")</script>` + "\u202e" + `Аlice`
)

// testEnv is the pages on a real database, with two organizations whose people have every role. A test
// makes the sessions itself.
type testEnv struct {
	journal     string // of the signer that knows the approvers
	approvers   *approver.Service
	t           testing.TB
	db          *pg.DB
	book        *wallet.Service
	withdrawals *withdrawal.Service
	transfers   *transfer.Service
	deposits    *deposit.Service
	whitelist   *whitelist.Service
	swaps       *swap.Service
	scripted    *swaptest.ScriptedProvider
	surface     pages.Surface // of the server; another server has it, too
	kit         pages.Config
	conf        Config
	server      *httptest.Server
	changes     *audit.Follower
	one, two    tenant
	logs        *logs
	reports     atomic.Int64
	signs       atomic.Int64 // how often a session was found as a sign of a person

	depositSwaps   *depositswap.Service
	checkouts      *checkout.Service
	payouts        *payout.Service
	unpayable      map[chain.Address]string // why rows of batch payouts to these addresses cannot be paid
	images         scriptedImages
	world          *world // nil until a test opens it
	people         *signin.Service
	mails          *mails
	endpoints      *delivery.Endpoints
	settingChanges *memberchange.Service
	rolled         map[string]string // the new values of main keys by organization
	// realFactors has sign-in check the codes of acts.
	realFactors bool
	useFactor   func(*pages.Request, pages.Act, signin.Proof) error
	useStepUp   func(*pages.Request, signin.Proof) (session.Session, error)

	mu       sync.Mutex
	ahead    time.Duration // of the real time: codes of an authenticator app count once
	sessions map[string]session.Session
	used     map[string]bool // codes that an act used up
}

// tenant is an organization with a person of each role.
type tenant struct {
	id     string
	people map[identity.Role]member.Member
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

var roles = []identity.Role{
	identity.Owner, identity.Admin, identity.Approver, identity.Finance, identity.Developer, identity.Viewer,
}

func newTestEnv(t testing.TB) *testEnv {
	t.Helper()
	return newTestEnvWith(t, "")
}

// newTestEnvWith has people sign at an address of their own, if there is one.
func newTestEnvWith(t testing.TB, approvalsOrigin string) *testEnv {
	t.Helper()
	return newTestEnvOn(t, approvalsOrigin, func(clock func() time.Time) *pg.DB {
		return pgtest.NewWithClock(t, clock)
	})
}

// newTestEnvOn creates an environment on the empty database that open opens.
func newTestEnvOn(t testing.TB, approvalsOrigin string, open func(clock func() time.Time) *pg.DB) *testEnv {
	t.Helper()
	h := &testEnv{
		t: t, logs: &logs{}, mails: &mails{}, sessions: map[string]session.Session{}, used: map[string]bool{},
		rolled: map[string]string{}, unpayable: map[chain.Address]string{},
	}
	h.db = open(h.now)
	token := mint.Mint{
		ID: usdc, Chain: chain.Ethereum, Network: chain.Local, Kind: mint.Token, Contract: contract, Symbol: "USDC",
		Name: "USD Coin", Decimals: 6, DepositEnabled: true, WithdrawEnabled: true, MinDeposit: money.Units(5),
		MinWithdraw: money.Units(10), ConfirmationsRequired: 2, Finality: "FINALIZED",
	}
	strange := token
	strange.ID, strange.Contract, strange.Symbol = evil, evilContract, "<b>U</b>"
	coin := token
	coin.ID, coin.Kind, coin.Contract, coin.Symbol, coin.Name, coin.Decimals = eth, mint.Native, "", "ETH", "Ether", 18
	if err := mint.Sync(t.Context(), h.db, []mint.Mint{token, strange, coin}); err != nil {
		t.Fatal(err)
	}
	h.one, h.two = h.newTenant("Example Marketplace"), h.newTenant("Another Company")
	h.server = httptest.NewUnstartedServer(nil)
	origin := &url.URL{Scheme: "http", Host: "localhost:" + strings.Split(h.server.Listener.Addr().String(), ":")[1]}
	s, attest := h.openSigner(origin.String(), approvalsOrigin)
	h.book = wallet.New(h.db, s, attest)
	if err := journal.Import(t.Context(), h.db, s, h.book); err != nil {
		t.Fatal(err)
	}
	chains := chain.Chains{chain.Ethereum: {
		Name: chain.Ethereum, Network: chain.Local, CAIP2: "eip155:31337",
		AddressCodec: evmtx.AddressCodec{ChainID: signertest.ChainID}, Sender: sim.New(sim.Config{}),
	}}
	prices := price.Fixed{Prices: map[int]money.USD{
		usdc: money.MustParseUSD("0.9998"), eth: money.MustParseUSD("3000"),
	}}
	log := slog.New(slog.NewTextHandler(h.logs, nil))
	h.approvers = approver.New(h.db, s, approver.Config{
		AttestKey: attest, GrantKey: h.newGrants(), Chains: chains,
	}, log)
	if err := h.approvers.LoadWording(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.whitelist = whitelist.New(h.db, s, whitelist.Config{AttestKey: attest, Chains: chains}, log)
	h.withdrawals = &withdrawal.Service{
		DB: h.db, Events: wire.NewRecorder(), Chains: chains, Wallets: h.book, Prices: prices,
		Whitelist: usableEntries{h.whitelist}, Approvers: h.approvers,
	}
	h.transfers = transfer.New(h.db, wire.NewRecorder())
	h.deposits = &deposit.Service{
		Events: wire.NewRecorder(), DB: h.db, Chains: chains, Wallets: h.book, Log: log,
		Approvers: h.approvers,
		Owners: deposit.NewOwners(map[string]deposit.Owner{
			wallet.CustomerDeposit: deposit.CustomerOwner{}, wallet.OrganizationDeposit: deposit.ProductOwner{},
			wallet.Treasury: deposit.TreasuryOwner{}, wallet.Change: deposit.ChangeOwner{},
			wallet.SwapDelivery: noArrivals{}, wallet.SwapRefund: noArrivals{},
			wallet.DepositSwap:    noArrivals{},
			wallet.Checkout:       paymentsOwner{h: h},
			wallet.CheckoutShared: paymentsOwner{deposit.CheckoutOwner{IsShared: true}, h},
		}),
	}
	h.people = h.newSignIn(origin.String())
	h.changes = audit.NewFollower(h.db, log)
	h.endpoints = h.newEndpoints(log)
	h.settingChanges = &memberchange.Service{DB: h.db, Mails: h.mails, Delay: memberchange.DelayDefault}
	h.newSwaps(chains, prices, log)
	h.checkouts = h.newCheckouts(chains, log)
	h.payouts = h.newPayouts(chains, log)
	conf := Config{
		DB: h.db, SignIn: h.people, Withdrawals: h.withdrawals, Prices: prices, Origin: origin,
		ExplorerURL: func(_ chain.Name, tx chain.TxHash) string { return "https://explorer.example/tx/" + string(tx) },
		Swaps:       h.swaps, DepositSwaps: h.depositSwaps, Checkouts: h.checkouts,
		Payouts:  h.payouts,
		Deposits: h.deposits, Transfers: h.transfers, Whitelist: h.whitelist, Wallets: h.book, Chains: chains,
		Approvers: h.approvers, Endpoints: h.endpoints, SettingChanges: h.settingChanges,
		APIURL:    origin.String() + "/v1",
		KeyRolled: h.keepRolled,
		CursorKey: []byte("the key of the cursors of this test"), Log: log,
		CountReport: func() { h.reports.Add(1) }, Changes: h.changes, ApprovalsURL: approvalsOrigin,
	}
	h.conf = conf
	surface := (&dashboard{conf}).surface()
	h.useFactor, h.useStepUp = surface.ConfirmAct, surface.StepUp
	surface.FindSession, surface.LookAtSession = h.findSession, h.lookAtSession
	surface.ConfirmAct, surface.StepUp = h.confirmAct, h.stepUp
	h.surface, h.kit = surface, conf.kitConfig()
	h.server.Config.Handler = pages.New(h.surface, h.kit)
	h.server.Start()
	t.Cleanup(h.server.Close)
	t.Cleanup(h.changes.End)
	return h
}

// usableEntries is the whitelist as withdrawals see it.
type usableEntries struct{ entries *whitelist.Service }

func (u usableEntries) Usable(
	ctx context.Context, tx pg.Tx, orgID, listedID string,
) (withdrawal.WhitelistEntry, error) {
	e, err := u.entries.Usable(ctx, tx, orgID, listedID)
	return withdrawal.WhitelistEntry{Chain: e.Chain, Address: e.Address}, err
}

// swapEntries is the whitelist as swaps see it.
type swapEntries struct{ entries *whitelist.Service }

// Usable implements swap.Whitelist.
func (u swapEntries) Usable(ctx context.Context, tx pg.Tx, orgID, listedID string) (swap.WhitelistEntry, error) {
	e, err := u.entries.Usable(ctx, tx, orgID, listedID)
	return swap.WhitelistEntry{Chain: e.Chain, Address: e.Address}, err
}

// nearToken is what customers pay a provider with, on a chain that the service does not read.
var nearToken = provider.Token{Chain: "NEAR"}

// newSwaps makes swaps and deposit swaps, which a scripted provider serves.
func (h *testEnv) newSwaps(chains chain.Chains, prices price.Source, log *slog.Logger) {
	h.t.Helper()
	grants, err := signer.NewGrantKey(bytes.Repeat([]byte{7}, signer.GrantKeyBytes))
	if err != nil {
		h.t.Fatal(err)
	}
	dollars := provider.Token{Chain: chain.Ethereum, Contract: contract}
	h.scripted = &swaptest.ScriptedProvider{Clock: h.now, Listed: []provider.Asset{
		swaptest.NewAsset(dollars, "USDC", 6),
		swaptest.NewAsset(provider.Token{Chain: chain.Ethereum, Contract: evilContract}, "U", 6),
		swaptest.NewAsset(provider.Token{Chain: chain.Ethereum}, "ETH", 18),
		swaptest.NewAsset(nearToken, "<b>N</b>", 24),
	}}
	panel := provider.NewPanel([]provider.Member{{Provider: h.scripted}}, swap.Suspensions{DB: h.db}, h.now, log)
	h.swaps = swap.NewService(swap.Config{WithoutPrices: true})
	h.swaps.DB, h.swaps.Wallets, h.swaps.Events = h.db, h.book, wire.NewRecorder()
	h.swaps.Chains, h.swaps.Prices, h.swaps.GrantKey, h.swaps.Panel = chains, prices, grants, panel
	h.swaps.Whitelist = swapEntries{h.whitelist}
	h.depositSwaps = &depositswap.Service{
		DB: h.db, Chains: chains, Wallets: h.book, Panel: panel, Prices: prices, GrantKey: grants, Destination: dollars,
		Log: log,
	}
}

// addDepositSwap makes a deposit swap of a customer.
func (h *testEnv) addDepositSwap(who tenant, customerID, key string) depositswap.DepositSwap {
	h.t.Helper()
	made, _, _, err := h.depositSwaps.Request(h.t.Context(), who.id, depositswap.Request{
		IdempotencyKey: &key, CustomerID: customerID, OriginTokenID: "near:native",
		AmountIn: new("5000000000000000000000000"), RefundAddress: "refunds.near", Actor: audit.APIKey(who.id),
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return made
}

// sudoLasts is how long a second factor counts for keys, secrets, team and settings.
const sudoLasts = 10 * time.Minute

func (h *testEnv) keepRolled(_ context.Context, orgID string, key seal.Secret) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rolled[orgID] = key.Reveal()
}

// newEndpoints makes the webhooks, whose receivers are on this machine.
func (h *testEnv) newEndpoints(log *slog.Logger) *delivery.Endpoints {
	h.t.Helper()
	folder := h.t.TempDir()
	if err := seal.CreateKeyset(filepath.Join(folder, "seal")); err != nil {
		h.t.Fatal(err)
	}
	keys, err := seal.OpenKeyset(filepath.Join(folder, "seal"))
	if err != nil {
		h.t.Fatal(err)
	}
	key, err := delivery.OpenOrCreateKey(filepath.Join(folder, "webhook"))
	if err != nil {
		h.t.Fatal(err)
	}
	return &delivery.Endpoints{
		Seal: keys, Development: true,
		Posts: &delivery.Dispatcher{DB: h.db, Seal: keys, Key: key, Development: true, Log: log},
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

// mails keeps the mails of sign-in.
type mails struct {
	mu   sync.Mutex
	sent []mail.Message
}

func (m *mails) Queue(_ context.Context, _ pg.Tx, message mail.Message) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sent = append(m.sent, message)
	return nil
}

// mailsTo counts the mails to an address.
func (h *testEnv) mailsTo(address string) (n int) {
	h.mails.mu.Lock()
	defer h.mails.mu.Unlock()
	for _, m := range h.mails.sent {
		if m.To == address {
			n++
		}
	}
	return n
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
		DB: h.db, Keys: keys, Hasher: password.NewHasher(password.Params{MemoryKiB: 64, Passes: 1}), Mailer: h.mails,
		Side: account.MemberSide, Site: "localhost", Origin: origin, Issuer: "Coffer",
		InvitationURL: origin + InvitationPath, DeviceURL: origin + DevicePath,
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return made
}

func (h *testEnv) newTenant(name string) tenant {
	h.t.Helper()
	made, _, err := org.Create(h.t.Context(), h.db, name)
	if err != nil {
		h.t.Fatal(err)
	}
	found := tenant{id: made.ID, people: map[identity.Role]member.Member{}}
	err = h.db.InSystem(h.t.Context(), func(ctx context.Context, tx pg.Tx) error {
		for _, role := range roles {
			email := strings.ToLower(string(role)) + "@example.test"
			m, err := member.Add(ctx, tx, audit.System("test"), made.ID, email, pages.RoleName(role)+" Person", role)
			if err != nil {
				return err
			}
			found.people[role] = m
		}
		return nil
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return found
}

// signIn makes an open session and returns its token.
func (h *testEnv) signIn(who tenant, role identity.Role) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	token := fmt.Sprintf("token-%d", len(h.sessions))
	h.sessions[token] = session.Session{
		ID: "ses_" + token, State: session.Open, OrgID: who.id, OrgName: "Example Marketplace",
		Member: who.people[role], SudoUntil: time.Now().Add(h.ahead + sudoLasts),
	}
	return token
}

func (h *testEnv) findSession(ctx context.Context, token seal.Secret) (session.Session, error) {
	h.signs.Add(1)
	h.mu.Lock()
	defer h.mu.Unlock()
	if found, ok := h.sessions[token.Reveal()]; ok {
		return found, nil
	}
	h.mu.Unlock()
	defer h.mu.Lock()
	return h.people.Authenticate(ctx, token)
}

func (h *testEnv) lookAtSession(ctx context.Context, token seal.Secret) (session.Session, error) {
	h.mu.Lock()
	found, ok := h.sessions[token.Reveal()]
	h.mu.Unlock()
	if ok {
		return found, nil
	}
	return h.people.LookAt(ctx, token)
}

// confirmAct takes each code that begins with rightCode once.
func (h *testEnv) confirmAct(r *pages.Request, act pages.Act, proof signin.Proof) error {
	if h.realFactors {
		return h.useFactor(r, act, proof)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if text := proof.Code.Reveal(); strings.HasPrefix(text, rightCode) && !h.used[text] {
		h.used[text] = true
		return nil
	}
	return fault.New(fault.Unauthorized, fault.CodeUnauthorized, fault.NothingWritten,
		"This code is wrong or was used.").WithParam(ui.CodeName)
}

// stepUp is confirmAct for what needs a factor of the last ten minutes.
func (h *testEnv) stepUp(r *pages.Request, proof signin.Proof) (session.Session, error) {
	token := r.ReadCookie(pages.SessionCookie)
	h.mu.Lock()
	found, isTest := h.sessions[token]
	h.mu.Unlock()
	if !isTest {
		return h.useStepUp(r, proof)
	}
	if err := h.confirmAct(r, pages.Act{}, proof); err != nil {
		return session.Session{}, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	found.SudoUntil = time.Now().Add(h.ahead + 10*time.Minute)
	h.sessions[token] = found
	return found, nil
}

// fund gives a customer a balance.
func (h *testEnv) fund(who tenant, customerID string, mintID int, n uint64) {
	h.t.Helper()
	counter := &deposit.AddressService{
		DB: h.db, Chains: h.withdrawals.Chains, Wallets: h.book, Actor: audit.APIKey(who.id),
	}
	if _, err := counter.IssueForCustomer(h.t.Context(), who.id, mintID, customerID, ""); err != nil {
		h.t.Fatal(err)
	}
	treasury, err := h.book.Treasury(h.t.Context(), who.id, chain.EVM)
	if err != nil {
		h.t.Fatal(err)
	}
	err = h.db.InSystem(h.t.Context(), func(ctx context.Context, tx pg.Tx) error {
		if err := wallet.MoveFunds(ctx, tx, wallet.Movement{
			WalletID: treasury.ID, OrgID: who.id, MintID: mintID, Part: wallet.Credited, Plus: money.Units(n),
		}); err != nil {
			return err
		}
		return ledgertest.PostWithCauses(ctx, tx, ledger.Posting{
			Cause: ledger.Cause{Kind: ledger.Deposit, ID: fmt.Sprintf("dep_%s%x%d", who.id, customerID, mintID)},
			Legs: []ledger.Leg{{
				Debit:  ledger.Account{OrgID: who.id, MintID: mintID, Kind: ledger.Custody},
				Credit: ledger.Account{OrgID: who.id, MintID: mintID, Kind: ledger.Customer, Subject: customerID},
				Amount: money.Units(n),
			}},
		})
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

// fundProduct gives a product of an organization a balance.
func (h *testEnv) fundProduct(who tenant, product string, mintID int, n uint64) {
	h.t.Helper()
	payer := "payer of " + product
	h.fund(who, payer, mintID, n)
	_, err := h.transfers.Request(h.t.Context(), who.id, transfer.Request{
		MintID: mintID, Amount: money.Units(n).String(), From: transfer.Party{CustomerID: &payer},
		To: transfer.Party{Product: &product}, IdempotencyKey: fmt.Sprint("fund-", product, mintID),
		Actor: audit.APIKey(who.id),
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

// allow puts an address on the whitelist of an organization and returns the id of the entry.
func (h *testEnv) allow(who tenant, address, label string) string {
	h.t.Helper()
	var made whitelist.Outcome
	err := h.db.InSystem(h.t.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		made, err = h.whitelist.RequestEntry(ctx, tx, operator.Key{ID: "opk_test", Name: "Olga"},
			changerequest.Rule{}, who.id, whitelist.EntryRequest{Chain: "ETHEREUM", Address: address, Label: label})
		return err
	})
	if err == nil {
		err = h.whitelist.FinishEntry(h.t.Context(), made.Entry.ID)
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return made.Entry.ID
}

// request makes a withdrawal that waits for approval.
func (h *testEnv) request(who tenant, customerID string, mintID int, amount string) withdrawal.Withdrawal {
	h.t.Helper()
	w, _, err := h.withdrawals.Request(h.t.Context(), who.id, withdrawal.Request{
		MintID: mintID, CustomerID: customerID, Amount: amount, ToAddress: recipient, RequireApproval: true,
		Actor: audit.APIKey(who.id), Limit: func() error { return nil },
		Metadata: map[string]string{"order": hostile},
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return w
}

func (h *testEnv) setQuorum(who tenant, quorum string) { h.set(who, "approvalQuorum", quorum) }

// set changes a setting of an organization.
func (h *testEnv) set(who tenant, name, value string) {
	h.t.Helper()
	err := h.db.InSystem(h.t.Context(), func(ctx context.Context, tx pg.Tx) error {
		changes := org.Changes{name: []byte(value)}
		_, err := org.ChangeSettings(ctx, tx, audit.System("test"), who.id, changes)
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
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

func (h *testEnv) send(token, method, path string, body io.Reader, headers ...string) reply {
	h.t.Helper()
	r, err := http.NewRequestWithContext(h.t.Context(), method, h.server.URL+path, body)
	if err != nil {
		h.t.Fatal(err)
	}
	r.Host = "localhost:" + strings.Split(h.server.Listener.Addr().String(), ":")[1]
	if token != "" {
		r.Header.Set("Cookie", pages.SessionCookie+"="+token)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
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
	if got.StatusCode >= http.StatusInternalServerError {
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

// noArrivals owns the wallets of swaps where nothing arrives.
type noArrivals struct{ deposit.ArrivalOwner }

func (noArrivals) SettleArrivals(
	context.Context, pg.Tx, wallet.Wallet, []deposit.WaitingArrival,
) (deposit.Settlement, error) {
	return deposit.Settlement{}, errors.New("no test delivers to a swap")
}
