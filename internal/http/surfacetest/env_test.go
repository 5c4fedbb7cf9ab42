package surfacetest

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/jackc/pgx/v5"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/checkout/outcome"
	"github.com/cofferpay/coffer/internal/checkout/receipt"
	"github.com/cofferpay/coffer/internal/control/whitelist"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/http/api"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/operatorapi"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/journal"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/ledger/ledgertest"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/platform/seal"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/signer/local"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/transfer"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/internal/webhooks/delivery"
	"github.com/cofferpay/coffer/internal/webhooks/event"
	"github.com/cofferpay/coffer/internal/wire"
	"github.com/cofferpay/coffer/internal/withdrawal"
	"github.com/cofferpay/coffer/webhook"
)

const (
	usdc        = 1
	eth         = 2
	closed      = 3 // neither deposits nor withdrawals
	usdcAddress = chain.Address("0x8617E340B3D01FA5F11F306F4090FD50E238070D")
	stranger    = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
	alice       = "alice"
)

// The surfaces, as their documents describe them.
var organizations, operators = api.Describe(), operatorapi.Describe()

// tenant is an organization with its key.
type tenant struct{ id, key string }

// testEnv is the interface on a real database and a real signer, with two organizations, behind a
// real listener.
type testEnv struct {
	t      testing.TB
	db     *pg.DB
	book   *wallet.Service
	white  *whitelist.Service
	server *httptest.Server
	logs   *logs
	posts  *delivery.Dispatcher
	conf   api.Config
	serves *atomic.Pointer[http.Handler]
	one    tenant // has alice, who has money
	two    tenant

	signer *local.Signer
	attest ed25519.PublicKey
	// receipts is the public key of receipts.
	receipts string

	swapper *scriptedSwapper

	face  *kernel.Surface // which of the two the test calls
	fails bool            // the test is about answers with internal errors
	// rescreens screens senders again for operators; it may be nil.
	rescreens *deposit.Rescreener
}

// logs keeps what the interface logs.
type logs struct {
	mu   sync.Mutex
	text bytes.Buffer
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

func newTestEnv(t testing.TB, limits ...kernel.Limits) *testEnv {
	t.Helper()
	return newHouseOn(t, pgtest.New(t), limits...)
}

// newHouseOn creates an environment on an empty database.
func newHouseOn(t testing.TB, db *pg.DB, limits ...kernel.Limits) *testEnv {
	t.Helper()
	token := mint.Mint{
		ID: usdc, Chain: chain.Ethereum, Network: chain.Local, Kind: mint.Token, Contract: usdcAddress, Symbol: "USDC",
		Name:     "USD Coin",
		Decimals: 6, DepositEnabled: true, WithdrawEnabled: true, MinDeposit: money.Units(5),
		MinWithdraw: money.Units(10), ConfirmationsRequired: 2, Finality: "FINALIZED",
	}
	coin, shut := token, token
	coin.ID, coin.Kind, coin.Contract, coin.Symbol, coin.Name, coin.Decimals = eth, mint.Native, "", "ETH", "Ether", 18
	shut.ID, shut.Contract, shut.Symbol, shut.DepositEnabled, shut.WithdrawEnabled = closed,
		"0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359", "SHUT", false, false
	if err := mint.Sync(t.Context(), db, []mint.Mint{token, coin, shut}); err != nil {
		t.Fatal(err)
	}
	h := &testEnv{
		t: t, db: db, logs: &logs{}, face: organizations, serves: &atomic.Pointer[http.Handler]{},
		swapper: &scriptedSwapper{},
	}
	for _, who := range []*tenant{&h.one, &h.two} {
		made, key, err := org.Create(t.Context(), db, "house")
		if err != nil {
			t.Fatal(err)
		}
		*who = tenant{made.ID, key.Reveal()}
	}
	s, attest := signertest.New(t)
	h.signer, h.attest, h.book = s, attest, wallet.New(db, s, attest)
	if err := journal.Import(t.Context(), db, s, h.book); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "seal")
	if err := seal.CreateKeyset(file); err != nil {
		t.Fatal(err)
	}
	keyset, err := seal.OpenKeyset(file)
	if err != nil {
		t.Fatal(err)
	}
	key, err := delivery.OpenOrCreateKey(file + ".webhook")
	if err != nil {
		t.Fatal(err)
	}
	// A dispatcher may reach this machine; the API registers no endpoint with an address of this
	// machine.
	h.posts = &delivery.Dispatcher{DB: db, Seal: keyset, Key: key, Development: true, Log: newLogger(h.logs)}
	chains := chain.Chains{chain.Ethereum: {
		Name: chain.Ethereum, Network: chain.Local, CAIP2: "eip155:31337",
		AddressCodec: evmtx.AddressCodec{ChainID: signertest.ChainID}, Sender: sim.New(sim.Config{}),
	}}
	prices := price.Fixed{Prices: map[int]money.USD{usdc: money.MustParseUSD("0.9998")}}
	h.conf = api.Config{
		DB: db, Chains: chains, Wallets: h.book, Prices: prices,
		Withdrawals: &withdrawal.Service{
			DB: db, Events: wire.NewRecorder(), Chains: chains, Wallets: h.book, Prices: prices,
		},
		Transfers: transfer.New(db, wire.NewRecorder()), Swaps: h.newSwaps(db, h.book, chains),
		Deposits: &deposit.Service{
			Events: wire.NewRecorder(),
			DB:     db, Chains: chains, Wallets: h.book, Owners: depositOwners(), Log: newLogger(h.logs),
		},
		WebhookKeys: []string{"whpk_test"}, Endpoints: &delivery.Endpoints{Seal: keyset, Posts: h.posts},
		CursorKey: []byte("the key of the cursors of this test"), BaseURL: "http://127.0.0.1/v1",
		Log: newLogger(h.logs), Limits: append(limits, kernel.Limits{})[0],
	}
	h.white = whitelist.New(
		db, s, whitelist.Config{AttestKey: attest, Chains: chains, CoolingOff: whitelist.CoolingOff}, newLogger(h.logs),
	)
	h.conf.Whitelist = h.white
	h.conf.DepositSwaps = h.newDepositSwaps(db, h.book, chains, h.conf.Swaps)
	h.conf.Checkouts = &checkout.Service{
		DB: db, Images: imageOfOnePoint{}, Wallets: h.book, Chains: chains, Prices: prices, Events: wire.NewRecorder(),
		PageURL: func(checkoutID string) string { return "https://pay.example.com/c/" + checkoutID + "#k=key" },
		LinkURL: func(slug string) string { return "https://pay.example.com/p/" + slug },
		ClaimURL: func(refundID, key string) string {
			return "https://pay.example.com/r/" + refundID + "#k=" + key
		},
		NonceSecret:     make([]byte, 32),
		PaymentStatuses: map[string]outcome.PaymentStatus{"CREDITED": outcome.PaymentCredited},
		Log:             newLogger(h.logs),
	}
	h.conf.Payouts = h.newPayouts(db)
	h.conf.Receipts, h.conf.Environment = receipt.Signer{Keys: []webhook.Key{key}}, webhook.Test
	h.receipts = key.Public()
	h.restart()
	h.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		(*h.serves.Load()).ServeHTTP(w, r)
	}))
	t.Cleanup(h.server.Close)
	h.deposit(h.one, alice, 1_000_000)
	return h
}

// restart serves with the present configuration.
func (h *testEnv) restart() {
	handler := api.New(h.conf)
	h.serves.Store(&handler)
}

// deposit gives a customer an address and credits it like a deposit.
func (h *testEnv) deposit(who tenant, customerID string, n uint64) {
	h.t.Helper()
	h.wantStatus(h.call(who, "POST", "/deposit", map[string]any{"mintId": usdc, "customerId": customerID}), 200)
	treasury, err := h.book.Treasury(h.t.Context(), who.id, chain.EVM)
	if err != nil {
		h.t.Fatal(err)
	}
	err = h.db.InSystem(h.t.Context(), func(ctx context.Context, tx pg.Tx) error {
		if err := wallet.MoveFunds(ctx, tx, wallet.Movement{
			WalletID: treasury.ID, OrgID: who.id, MintID: usdc, Part: wallet.Credited, Plus: money.Units(n),
		}); err != nil {
			return err
		}
		return ledgertest.PostWithCauses(ctx, tx, ledger.Posting{
			Cause: ledger.Cause{Kind: ledger.Deposit, ID: "dep_" + who.id + customerID},
			Legs: []ledger.Leg{{
				Debit:  ledger.Account{OrgID: who.id, MintID: usdc, Kind: ledger.Custody},
				Credit: ledger.Account{OrgID: who.id, MintID: usdc, Kind: ledger.Customer, Subject: customerID},
				Amount: money.Units(n),
			}},
		})
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

// sequenced numbers the events, as the service does all the time.
func (h *testEnv) sequenced() {
	h.t.Helper()
	s := &event.Sequencer{DB: h.db, Environment: webhook.Test, Listener: withoutDeliveries{}}
	for {
		n, err := s.Step(h.t.Context())
		if err != nil {
			h.t.Fatal(err)
		}
		if n == 0 {
			return
		}
	}
}

type withoutDeliveries struct{}

func (withoutDeliveries) QueueSequenced(context.Context, pg.Tx, *pgx.Batch, []event.Sequenced) error {
	return nil
}

// rowCounts counts all rows that a request could have written.
func (h *testEnv) rowCounts() string {
	h.t.Helper()
	var counts string
	err := pgtest.OwnerPool(h.t, h.db).QueryRow(h.t.Context(), `
		SELECT format('withdrawals %s, transfers %s, accounts %s, orders %s, events %s, audit %s, customers %s, wallets %s, endpoints %s, keys %s',
			(SELECT count(*) FROM withdrawals), (SELECT count(*) FROM ledger_transfers), (SELECT count(*) FROM ledger_accounts),
			(SELECT count(*) FROM dispatch_orders), (SELECT count(*) FROM events), (SELECT count(*) FROM audit_log),
			(SELECT count(*) FROM customers), (SELECT count(*) FROM wallets), (SELECT count(*) FROM webhook_endpoints),
			(SELECT count(*) FROM api_keys) || ' ' || (SELECT coalesce(string_agg(k::text, ' '), '') FROM additional_api_keys k))`).Scan(&counts)
	if err != nil {
		h.t.Fatal(err)
	}
	return counts
}

// reply is an answer that was read and compared with the document.
type reply struct {
	status int
	header http.Header
	raw    []byte
	body   map[string]any
}

func (r reply) text(name string) string {
	s, _ := r.body[name].(string)
	return s
}

func (r reply) list() []map[string]any {
	var out []map[string]any
	items, _ := r.body["data"].([]any)
	for _, item := range items {
		out = append(out, item.(map[string]any))
	}
	return out
}

func (h *testEnv) wantStatus(r reply, status int) reply {
	h.t.Helper()
	if r.status != status {
		h.t.Fatalf("got %v %s, want %v", r.status, r.raw, status)
	}
	return r
}

func (h *testEnv) wantRefusal(name string, r reply, status int, code, param string) {
	h.t.Helper()
	if r.status != status || r.text("code") != code || r.text("param") != param {
		h.t.Errorf("%s: got %v %s, want %v %v on %q", name, r.status, r.raw, status, code, param)
	}
}

// call sends a value as JSON with a tenant's key.
func (h *testEnv) call(who tenant, method, path string, body any, headers ...string) reply {
	h.t.Helper()
	var raw []byte
	if text, ok := body.(string); ok {
		raw = []byte(text)
	} else if body != nil {
		var err error
		if raw, err = json.Marshal(body); err != nil {
			h.t.Fatal(err)
		}
	}
	url := h.server.URL + kernel.PathPrefix + path
	r, err := http.NewRequestWithContext(h.t.Context(), method, url, bytes.NewReader(raw))
	if err != nil {
		h.t.Fatal(err)
	}
	if who.key != "" {
		r.Header.Set(h.face.Header, who.key)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header[http.CanonicalHeaderKey(headers[i])] = append(r.Header[http.CanonicalHeaderKey(headers[i])],
			headers[i+1])
		if headers[i] == "Content-Type" {
			r.Header["Content-Type"] = []string{headers[i+1]}
		}
	}
	return h.send(r)
}

func (h *testEnv) send(r *http.Request) reply {
	h.t.Helper()
	var sent []byte
	if r.Body != nil {
		var err error
		if sent, err = io.ReadAll(r.Body); err != nil {
			h.t.Fatal(err)
		}
		r.Body = io.NopCloser(bytes.NewReader(sent))
	}
	got, err := h.server.Client().Do(r)
	if err != nil {
		h.t.Fatal(err)
	}
	defer got.Body.Close()
	out := reply{status: got.StatusCode, header: got.Header}
	if out.raw, err = io.ReadAll(got.Body); err != nil {
		h.t.Fatal(err)
	}
	if len(out.raw) > 0 {
		if err := json.Unmarshal(out.raw, &out.body); err != nil {
			h.t.Fatalf("%s %s: got %s, want JSON: %v", r.Method, r.URL, out.raw, err)
		}
	}
	if err := conforms(h.face, r, sent, out); err != nil {
		h.t.Errorf("%s %s: got %v %s, which the document does not have: %v", r.Method, r.URL.Path, out.status, out.raw,
			err)
	}
	if out.status >= 500 && !h.fails {
		h.t.Errorf("%s %s: got %v %s, want no error of ours; log: %s", r.Method, r.URL, out.status, out.raw, h.logs)
	}
	if out.status >= 400 && !h.fails && (strings.Count(
		out.text("error"), ".",
	) < 2 || !comforts.MatchString(out.text("error"))) {
		h.t.Errorf("%s %s: got the error %q, want sentences", r.Method, r.URL, out.text("error"))
	}
	return out
}

// comforts finds what a refusal has to say: what happened to the money.
var comforts = regexp.MustCompile(`(?i)nothing|no money`)

// published are the documents as a client reads them.
var published = map[*kernel.Surface]func() (*openapi3.T, error){
	organizations: publish(organizations), operators: publish(operators),
}

func publish(s *kernel.Surface) func() (*openapi3.T, error) {
	return sync.OnceValues(func() (*openapi3.T, error) {
		doc, err := openapi3.NewLoader().LoadFromData(s.DrawDocument("http://127.0.0.1/v1"))
		if err != nil {
			return nil, err
		}
		return doc, doc.Validate(context.Background())
	})
}

// judges compare answers with the documents.
var judges = map[*kernel.Surface]func() (*schemaChecker, error){
	organizations: newSchemaChecker(organizations), operators: newSchemaChecker(operators),
}

// schemaChecker is a document against which thousands of bodies are checked. The filters of
// kin-openapi compile a schema of OpenAPI 3.1 anew for each value, which took more time than
// everything else in these tests. So they get the document as one of 3.0, which they read without
// compiling. What only JSON Schema 2020-12 has is left to schemas that are compiled once.
type schemaChecker struct {
	doc, plain *openapi3.T
	mu         sync.Mutex // of compiler and compiled
	compiler   *jsonschema.Compiler
	compiled   map[*openapi3.Schema]*jsonschema.Schema
}

const documentURL = "https://coffer.test/openapi.json"

func newSchemaChecker(s *kernel.Surface) func() (*schemaChecker, error) {
	return sync.OnceValues(func() (*schemaChecker, error) {
		doc, err := published[s]()
		if err != nil {
			return nil, err
		}
		plain := *doc
		plain.OpenAPI = "3.0.3"
		whole, err := jsonschema.UnmarshalJSON(bytes.NewReader(s.DrawDocument("http://127.0.0.1/v1")))
		if err != nil {
			return nil, err
		}
		j := &schemaChecker{
			doc: doc, plain: &plain, compiler: jsonschema.NewCompiler(),
			compiled: map[*openapi3.Schema]*jsonschema.Schema{},
		}
		j.compiler.DefaultDraft(jsonschema.Draft2020)
		j.compiler.AssertFormat()
		return j, j.compiler.AddResource(documentURL, whole)
	})
}

// checkSchema checks a JSON text against a schema of the document, by JSON Schema 2020-12.
func (j *schemaChecker) checkSchema(schema *openapi3.Schema, raw []byte) error {
	strict, err := j.strict(schema)
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return err
	}
	return strict.Validate(value)
}

func (j *schemaChecker) strict(schema *openapi3.Schema) (*jsonschema.Schema, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if done := j.compiled[schema]; done != nil {
		return done, nil
	}
	text, err := json.Marshal(schema)
	if err != nil {
		return nil, err
	}
	text = bytes.ReplaceAll(text, []byte(`"$ref":"#/`), []byte(`"$ref":"`+documentURL+`#/`))
	alone, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	url := fmt.Sprintf("https://coffer.test/%d.json", len(j.compiled))
	if err := j.compiler.AddResource(url, alone); err != nil {
		return nil, err
	}
	done, err := j.compiler.Compile(url)
	if err == nil {
		j.compiled[schema] = done
	}
	return done, err
}

// conforms checks an answer against the document: its status, headers and body. It checks every
// answer that a test here receives, so an undocumented answer fails every test. Rules REQ-4, REQ-6.
func conforms(face *kernel.Surface, r *http.Request, sent []byte, got reply) error {
	if id := got.header.Get("X-Request-Id"); !strings.HasPrefix(id, "req_") {
		return fmt.Errorf("no request id but %q", id)
	} else if got.status >= 400 && got.body["requestId"] != id {
		return fmt.Errorf("request id %q in the header and %v in the body", id, got.body["requestId"])
	}
	j, err := judges[face]()
	if err != nil {
		return err
	}
	path, item, params := documented(j.doc, strings.TrimPrefix(r.URL.EscapedPath(), kernel.PathPrefix))
	if item == nil || item.GetOperation(r.Method) == nil {
		if got.status == 404 || got.status == 405 || got.status == 401 || got.status == 403 || got.status == 429 {
			problem := j.doc.Components.Schemas["Problem"].Value
			return errors.Join(problem.VisitJSON(map[string]any(got.body)), j.checkSchema(problem, got.raw))
		}
		return fmt.Errorf("no such call")
	}
	op := item.GetOperation(r.Method)
	answer := op.Responses.Value(strconv.Itoa(got.status))
	if answer == nil {
		return fmt.Errorf("no such status")
	}
	if got.status >= 400 && answer.Value.Content["application/json"].Examples[got.text("code")] == nil {
		return fmt.Errorf("no such code")
	}
	asked := &openapi3filter.RequestValidationInput{
		Request: r, PathParams: params,
		Route: &routers.Route{Spec: j.plain, Path: path, PathItem: item, Method: r.Method, Operation: op},
		Options: &openapi3filter.Options{
			AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, MultiError: true,
			// Of a table the document says its type alone: what is wrong with its rows is in the answer.
			ExcludeRequestBody: strings.HasPrefix(r.Header.Get("Content-Type"), "text/csv"),
		},
	}
	if got.status < 400 {
		// What the code accepts has to be allowed: the document is no stricter than the code.
		r.Body = io.NopCloser(bytes.NewReader(sent))
		err := openapi3filter.ValidateRequest(context.Background(), asked)
		if err == nil && op.RequestBody != nil && len(sent) > 0 {
			err = j.content(op.RequestBody.Value.Content, r.Header, sent)
		}
		if err != nil {
			return fmt.Errorf("the request was taken: %w", err)
		}
	}
	err = openapi3filter.ValidateResponse(context.Background(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: asked,
		Status:                 got.status, Header: got.header, Body: io.NopCloser(bytes.NewReader(got.raw)),
		Options: &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true},
	})
	if err != nil {
		return err
	}
	return j.content(answer.Value.Content, got.header, got.raw)
}

// content checks a body against the schema of its type, which kin-openapi has found.
func (j *schemaChecker) content(types openapi3.Content, header http.Header, raw []byte) error {
	if strings.HasPrefix(header.Get("Content-Type"), "text/csv") {
		return nil // a table, of which the document says nothing else
	}
	if m := types.Get(header.Get("Content-Type")); m != nil && m.Schema != nil {
		return j.checkSchema(m.Schema.Value, raw)
	}
	return nil
}

// documented returns the call of a path. A path without parameters comes before those with some.
func documented(doc *openapi3.T, path string) (string, *openapi3.PathItem, map[string]string) {
	if item := doc.Paths.Value(path); item != nil {
		return path, item, nil
	}
	parts := strings.Split(path, "/")
	for name, item := range maps.All(doc.Paths.Map()) {
		template := strings.Split(name, "/")
		params := map[string]string{}
		fits := len(template) == len(parts)
		for i := 0; fits && i < len(parts); i++ {
			if strings.HasPrefix(template[i], "{") {
				params[strings.Trim(template[i], "{}")] = parts[i]
			} else {
				fits = template[i] == parts[i]
			}
		}
		if fits {
			return name, item, params
		}
	}
	return "", nil, nil
}

// payment returns a withdrawal that passes every gate.
func payment(change ...any) map[string]any {
	body := map[string]any{"mintId": usdc, "customerId": alice, "amount": "1000", "toAddress": stranger}
	for i := 0; i < len(change); i += 2 {
		body[change[i].(string)] = change[i+1]
	}
	return body
}

func crowd(n int, fn func(i int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			fn(i)
		})
	}
	close(start)
	wg.Wait()
}

func newLogger(to io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(to, nil)) }

func newRecorder() *httptest.ResponseRecorder { return httptest.NewRecorder() }

// depositOwners returns the owners of arrivals that the service registers.
func depositOwners() deposit.Owners {
	return deposit.NewOwners(map[string]deposit.Owner{
		wallet.CustomerDeposit: deposit.CustomerOwner{}, wallet.OrganizationDeposit: deposit.ProductOwner{},
		wallet.Treasury: deposit.TreasuryOwner{}, wallet.Change: deposit.ChangeOwner{},
		wallet.SwapDelivery: noArrivals{}, wallet.SwapRefund: noArrivals{}, wallet.DepositSwap: noDeliveries{},
		wallet.Checkout: noPayments{}, wallet.CheckoutShared: noPayments{deposit.CheckoutOwner{IsShared: true}},
	})
}
