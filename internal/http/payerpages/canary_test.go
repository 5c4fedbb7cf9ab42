package payerpages

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/accounts"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/checkout/capability"
	"github.com/cofferpay/coffer/internal/checkout/outcome"
	"github.com/cofferpay/coffer/internal/checkout/receipt"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/journal"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/service"
	"github.com/cofferpay/coffer/internal/signer/keys"
	"github.com/cofferpay/coffer/internal/signer/local"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/wire"
	"github.com/cofferpay/coffer/webhook"
)

// canary stands in every word that a shop gives for itself. It has no letter that an encoding of HTML or URLs changes.
const canary = "canary7f3a"

const (
	canaryUSDC, canaryETH, canaryBTC, canarySOL, canaryClosed = 1, 2, 3, 4, 5

	dollar = 1_000_000
)

// steadyPrices values all mints the same.
type steadyPrices struct{}

// USD implements price.Source.
func (steadyPrices) USD(context.Context, int) (price.Quote, error) {
	return price.Quote{Price: money.MustParseUSD("1"), Source: "table", QuotedAt: time.Now()}, nil
}

// requestNode is a chain whose wallets are asked for payments.
type requestNode struct{ *sim.Chain }

// BuildRequest implements chain.PaymentRequests.
func (requestNode) BuildRequest(_ context.Context, r chain.PaymentRequest) ([]byte, error) {
	return fmt.Appendf(nil, "%s pays %v to %s", r.Payer, r.Amount, r.Payee), nil
}

// canaryShop is a shop whose own words all have a canary.
type canaryShop struct {
	*testing.T
	*service.Service
	db    *pg.DB
	nets  map[chain.Name]*sim.Chain
	org   string
	pages Config
	asked int // answers that were looked at
}

func newCanaryShop(t *testing.T) *canaryShop {
	t.Helper()
	s := &canaryShop{T: t, nets: map[chain.Name]*sim.Chain{}}
	chains, confs := chain.Chains{}, map[chain.Name]service.ChainConfig{}
	for _, name := range []chain.Name{chain.Ethereum, chain.Bitcoin, chain.Solana} {
		s.nets[name] = sim.New(sim.Config{
			Name: name, FinalityDepth: 2, BlockTime: time.Second, Start: time.Now().Add(-time.Minute), TracesOff: true,
			UTXO: name == chain.Bitcoin,
		})
		chains[name], confs[name] = s.nets[name].ToChain(), service.ChainConfig{Start: new(uint64)}
	}
	solana := chains[chain.Solana]
	solana.Reader = requestNode{s.nets[chain.Solana]}
	chains[chain.Solana] = solana
	seed, err := keys.NewSeed()
	s.must(err)
	seed = seed.ForNetwork(chain.Local)
	conf := local.Config{Journal: filepath.Join(t.TempDir(), "journal"), Policy: signertest.NewPolicy()}
	s.must(local.CreateJournal(conf, seed))
	signer, err := local.Open(conf, seed)
	s.must(err)
	t.Cleanup(func() { s.must(signer.Close()) })
	s.db = pgtest.New(t)
	s.Service = service.New(service.Config{
		Environment: webhook.Test, DevelopmentWebhooks: true, Chains: confs,
		IsPegged: func(mintID int) bool { return mintID == canaryUSDC },
	}, service.Parts{
		DB: s.db, Signer: signer, AttestKey: seed.AttestKey().PublicKey(), Chains: chains, Prices: steadyPrices{},
		Log: slog.New(slog.DiscardHandler),
	})
	s.must(journal.Import(t.Context(), s.db, signer, s.Wallets))
	coin := mint.Mint{
		ID: canaryUSDC, Chain: chain.Ethereum, Network: chain.Local, Kind: mint.Token, Contract: signertest.Token,
		Symbol: "USDC", Name: "USD Coin", Decimals: 6, DepositEnabled: true, MinDeposit: money.Units(1),
		MinWithdraw: money.Units(1), ConfirmationsRequired: 2, Finality: "FINALIZED",
	}
	mints := []mint.Mint{coin}
	for _, change := range []func(*mint.Mint){
		func(m *mint.Mint) { m.ID, m.Symbol, m.Name, m.Decimals = canaryETH, "ETH", "Ether", 18 },
		func(m *mint.Mint) {
			m.ID, m.Chain, m.Symbol, m.Name, m.Decimals = canaryBTC, chain.Bitcoin, "BTC", "Bitcoin", 8
		},
		func(m *mint.Mint) {
			m.ID, m.Chain, m.Symbol, m.Name, m.Decimals = canarySOL, chain.Solana, "SOL", "Solana", 9
		},
	} {
		m := coin
		m.Kind, m.Contract = mint.Native, ""
		change(&m)
		mints = append(mints, m)
	}
	closed := coin
	closed.ID, closed.Contract, closed.Symbol = canaryClosed, signertest.LimitedToken, "OLD"
	closed.DepositEnabled = false
	s.must(mint.Sync(t.Context(), s.db, append(mints, closed)))
	made, _, err := org.Create(t.Context(), s.db, "Acme")
	s.must(err)
	s.org = made.ID
	returns := receipt.Signer{Keys: []webhook.Key{
		webhook.PrivateKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))),
	}}
	s.pages = Config{
		Checkouts: Source{
			Service: s.Checkouts, Chains: chains, Clock: time.Now, Log: slog.New(slog.DiscardHandler),
			ReturnURL: func(c checkout.Checkout, now time.Time) (string, error) {
				return returns.ReturnURL(*c.SuccessURL, receipt.Return{
					CheckoutID: c.ID, OrgID: c.OrgID, Environment: webhook.Test, Status: string(c.Status),
					Currency: c.Currency, AmountDue: c.AmountDue.Text(), AmountPaid: c.SeenSum.Text(),
				}, now)
			},
		},
		LivePoll: 10 * time.Millisecond, Log: slog.New(slog.DiscardHandler),
	}
	return s
}

func (s *canaryShop) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// sell makes a checkout with a canary in every word that payers may not see, and opens options.
func (s *canaryShop) sell(number int, mintIDs ...int) string {
	s.Helper()
	ctx := s.Context()
	mark := fmt.Sprintf("%s-%d", canary, number)
	d := checkout.NewDraft()
	d.Name, d.PriceType, d.Price = "Gold plan", checkout.FixedPrice, new("25")
	d.AcceptedMintIDs = []int{canaryUSDC, canaryETH, canaryBTC, canarySOL}
	d.Metadata = map[string]string{mark: "product-" + mark}
	d.SuccessURL, d.CancelURL = new("https://shop.example/thanks"), new("https://shop.example/cart")
	product, _, err := s.Checkouts.Create(ctx, s.org, checkout.Request{
		Draft: d, IdempotencyKey: new("product-" + mark), Actor: audit.APIKey(s.org),
	})
	s.must(err)
	c, _, err := s.Checkouts.CreateCheckout(ctx, s.org, checkout.CheckoutRequest{
		Items:      []checkout.ItemRequest{{ProductID: product.ID, Quantity: 1}},
		CustomerID: new("customer-" + mark), CustomerEmail: new(mark + "@example.com"), Reference: new("order-" + mark),
		IdempotencyKey: new("key-" + mark), Metadata: map[string]string{mark: "value-" +
			mark}, Actor: audit.APIKey(s.org),
	})
	s.must(err)
	for _, mintID := range mintIDs {
		_, err := s.Checkouts.OpenOption(ctx, s.org, c.ID, mintID)
		s.must(err)
	}
	return c.ID
}

// turn makes blocks, and lets every part see them.
func (s *canaryShop) turn(blocks int) {
	s.Helper()
	const stepsMax = 100
	for name, net := range s.nets {
		net.Mine(blocks)
		walker := s.Walker(name)
		for _, step := range []func(context.Context) (bool, error){walker.StepHead, walker.StepFinal} {
			for range stepsMax {
				moved, err := step(s.Context())
				s.must(err)
				if !moved {
					break
				}
			}
		}
	}
	_, err := s.Deposits.CreditWaiting(s.Context())
	s.must(err)
	_, err = s.Checkouts.SettleDue(s.Context())
	s.must(err)
}

// pay pays units of the token for a checkout, and returns the hash.
func (s *canaryShop) pay(checkoutID string, units uint64) chain.TxHash {
	s.Helper()
	c := s.load(checkoutID)
	payer := sim.Address("payer of " + checkoutID)
	s.nets[chain.Ethereum].Mint(payer, signertest.Token, money.Units(units))
	return s.nets[chain.Ethereum].Pay(payer, c.Options[0].Wallet.Address, signertest.Token, units)
}

func (s *canaryShop) load(checkoutID string) checkout.Checkout {
	s.Helper()
	c, err := s.Checkouts.CheckoutByID(s.Context(), s.org, checkoutID)
	s.must(err)
	return c
}

// encoded finds what may be an encoding of something else.
var encoded = regexp.MustCompile(`[A-Za-z0-9_+/-]{24,}`)

// look makes a request, expects a status, and looks for a canary in the whole answer.
func (s *canaryShop) look(conf Config, status int, method, path string, form url.Values) {
	s.Helper()
	r := httptest.NewRequestWithContext(s.Context(), method, path, strings.NewReader(form.Encode()))
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	w := httptest.NewRecorder()
	New(conf).ServeHTTP(w, r)
	s.inspect(status, method+" "+path, w)
}

// ask makes a request as a wallet does, and looks for a canary in the answer.
func (s *canaryShop) ask(status int, path, body string) {
	s.Helper()
	r := httptest.NewRequestWithContext(s.Context(), http.MethodPost, path, strings.NewReader(body))
	w := httptest.NewRecorder()
	New(s.pages).ServeHTTP(w, r)
	s.inspect(status, "POST "+path, w)
}

func (s *canaryShop) inspect(status int, what string, w *httptest.ResponseRecorder) {
	s.Helper()
	s.asked++
	if w.Code != status {
		s.Errorf("%s: got %d, want %d", what, w.Code, status)
	}
	answer := w.Body.String()
	for name, values := range w.Header() {
		answer += "\n" + name + ": " + strings.Join(values, ", ")
	}
	if strings.Contains(strings.ToLower(answer), canary) {
		s.Errorf("%s shows %s:\n%s", what, canary, answer)
	}
	for _, text := range encoded.FindAllString(answer, -1) {
		for _, encoding := range []*base64.Encoding{base64.RawURLEncoding, base64.RawStdEncoding} {
			if content, err := encoding.DecodeString(text); err == nil && strings.Contains(string(content), canary) {
				s.Errorf("%s has %s, which is %s", what, text, content)
			}
		}
	}
}

// An option that gets no new rate after a part has no amount: the one of before is more than what is still due. Rules
// CO-7 and CO-41.
func TestAnOptionWithoutARateForTheRestHasNoAmount(t *testing.T) {
	t.Parallel()
	s := newCanaryShop(t)
	id := s.sell(1, canaryUSDC, canaryETH)
	s.turn(1)
	_, err := pgtest.OwnerPool(t, s.db).Exec(t.Context(), `
		UPDATE mints SET deposit_enabled = false WHERE mint_id = $1`, canaryETH)
	s.must(err)
	amounts := func() map[int]string {
		t.Helper()
		view, err := s.pages.Checkouts.View(t.Context(), id)
		s.must(err)
		found := map[int]string{}
		for _, option := range view.Options {
			if option.IsOpen {
				found[option.MintID] = option.Amount
			}
		}
		return found
	}
	if got := amounts(); got[canaryUSDC] != "25" || got[canaryETH] == "" {
		t.Errorf("got %v, want the amounts of both: a quote that holds is kept", got)
	}
	s.pay(id, 10*dollar)
	s.turn(1)
	if got := amounts(); len(got) != 1 || got[canaryUSDC] != "15" {
		t.Errorf("got %v after a part, want the rest in the coin that has a rate", got)
	}
	c, err := s.Checkouts.Refresh(t.Context(), s.load(id))
	s.must(err)
	if o := wire.PaymentOption(c, canaryETH); o.Address == nil || o.Amount != nil || o.PaymentURI != nil {
		t.Errorf("the interface shows %+v, want the address without an amount", o)
	}
	if o := wire.PaymentOption(c, canaryUSDC); o.Amount == nil || *o.Amount != "15000000" || o.PaymentURI == nil {
		t.Errorf("the interface shows %+v, want the amount of the rest", o)
	}
}

// downCheckouts is a feature that fails with an error of ours.
type downCheckouts struct{ Source }

// View implements Checkouts.
func (d downCheckouts) View(context.Context, string) (View, error) {
	return View{}, errors.New("the row of customer-" + canary + " is broken")
}

// Versions implements Checkouts.
func (d downCheckouts) Versions(context.Context, []string) (map[string]int64, error) {
	return nil, errors.New("the row of customer-" + canary + " is broken")
}

// What a shop says of its customer, and its own words for a sale, are on no page, in no header and in no signed
// statement. Invariant I-86. Rule CO-40.
func TestNoAnswerHasWhatAShopSaysOfItsCustomer(t *testing.T) {
	t.Parallel()
	s := newCanaryShop(t)
	ids := map[outcome.Status]string{
		outcome.Open:       s.sell(1, canaryUSDC, canaryETH, canaryBTC, canarySOL),
		outcome.Processing: s.sell(2, canaryUSDC),
		outcome.Completed:  s.sell(3, canaryUSDC),
		outcome.Cancelled:  s.sell(4, canaryUSDC),
		outcome.Expired:    s.sell(5, canaryUSDC),
	}
	partly := s.sell(6, canaryUSDC)
	s.turn(1)
	completed := s.pay(ids[outcome.Completed], 30*dollar)
	part := s.pay(partly, dollar)
	s.turn(3)
	s.pay(ids[outcome.Processing], 25*dollar)
	s.turn(1)
	_, err := s.Checkouts.CancelCheckout(t.Context(), s.org, ids[outcome.Cancelled], audit.APIKey(s.org))
	s.must(err)
	// Its time is over, without a wait.
	_, err = pgtest.OwnerPool(t, s.db).Exec(t.Context(), `
		WITH off AS (SELECT set_config('session_replication_role', 'replica', true))
		UPDATE checkouts SET status = 'EXPIRED', version = version + 1 FROM off WHERE checkout_id = $1`,
		ids[outcome.Expired])
	s.must(err)
	for status, checkoutID := range ids {
		if c := s.load(checkoutID); c.Status != status || c.Reference == nil || !strings.Contains(*c.Reference,
			canary) {
			t.Fatalf("checkout %s is %s, want %s with its reference", checkoutID, c.Status, status)
		}
	}

	closed := url.Values{mintName: {fmt.Sprint(canaryClosed)}}
	for _, l := range languages {
		named := func(path string) string { return path + "?" + url.Values{languageParameter: {l.tag}}.Encode() }
		for status, checkoutID := range ids {
			path := Prefix + checkoutID
			s.look(s.pages, http.StatusOK, http.MethodGet, named(path), nil)
			s.look(s.pages, http.StatusOK, http.MethodGet, named(path+"/find"), nil)
			for _, hash := range []string{string(completed), string(part), "0x" + strings.Repeat("a", 64)} {
				s.look(s.pages, http.StatusOK, http.MethodPost, named(path+"/find"), url.Values{hashName: {hash}})
			}
			s.look(s.pages, http.StatusBadRequest, http.MethodPost, named(path+"/find"),
				url.Values{hashName: {"no hash"}})
			s.look(s.pages, http.StatusNotFound, http.MethodGet, named(path+"/images/img_none"), nil)
			s.look(s.pages, http.StatusBadRequest, http.MethodPost, named(path+"/options"), url.Values{mintName: {"x"}})
			refused := http.StatusConflict
			if status == outcome.Open {
				refused = http.StatusBadRequest
			}
			s.look(s.pages, refused, http.MethodPost, named(path+"/options"), closed)
			s.look(s.pages, http.StatusOK, http.MethodGet, named(path+solanaPath), nil)
			for account, status := range map[string]int{
				string(sim.SolanaAddress("a payer")): http.StatusOK, canary: http.StatusBadRequest,
			} {
				if refused == http.StatusConflict {
					status = http.StatusConflict
				}
				s.ask(status, named(path+solanaPath), `{"account":"`+account+`"}`)
			}
		}
		open := Prefix + ids[outcome.Open]
		for _, mintID := range []int{canaryUSDC, canaryETH, canaryBTC, canarySOL} {
			chosen := url.Values{mintName: {fmt.Sprint(mintID)}}
			s.look(s.pages, http.StatusOK, http.MethodGet, named(open)+"&"+chosen.Encode(), nil)
			s.look(s.pages, http.StatusSeeOther, http.MethodPost, named(open+"/options"), chosen)
		}
		s.look(s.pages, http.StatusOK, http.MethodGet, named(Prefix+partly), nil)
		s.look(s.pages, http.StatusNotFound, http.MethodGet, named(Prefix+"co_nothing"), nil)
		s.look(s.pages, http.StatusNotFound, http.MethodPut, named(open), nil)

		down := s.pages
		down.Checkouts = downCheckouts{s.pages.Checkouts.(Source)}
		s.look(down, http.StatusInternalServerError, http.MethodGet, named(open), nil)
		s.look(down, http.StatusInternalServerError, http.MethodGet, named(open+"/live"), nil)
	}

	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	live := httptest.NewRecorder()
	New(s.pages).ServeHTTP(live, httptest.NewRequestWithContext(ctx, http.MethodGet, Prefix+ids[outcome.Open]+"/live",
		nil))
	s.inspect(http.StatusOK, "GET live", live)
	if !strings.Contains(live.Body.String(), "event: change") {
		t.Errorf("got the stream %q, want a version", live.Body)
	}
	if least := 50 * len(languages); s.asked < least {
		t.Errorf("looked at %d answers, want at least %d", s.asked, least)
	}
	if !slices.Contains(s.load(partly).Exceptions, outcome.Underpaid) {
		t.Errorf("got %v, want a checkout that is underpaid", s.load(partly).Exceptions)
	}
}

// The page of a refund shows its payer nothing that the shop says for itself or of its customer, in every language and
// at every step. A claim with a typed address and one with a signature reach the refund. Rules CO-93, CO-94 and CO-95.
func TestThePageOfARefundHasNothingOfTheCustomer(t *testing.T) {
	t.Parallel()
	s := newCanaryShop(t)
	pageSecret, proofSecret := bytes.Repeat([]byte{3}, 32), bytes.Repeat([]byte{4}, 32)
	s.Checkouts.ProofSecret, s.Checkouts.PayerHost = proofSecret, "pay.example"
	s.Checkouts.IsPageKey = func(checkoutID, key string) bool { return capability.Check(pageSecret, checkoutID, key) }
	s.pages.Refunds = s.pages.Checkouts.(Source)
	s.turn(1)
	checkoutID := s.sell(1, canaryUSDC)
	s.pay(checkoutID, 25*dollar)
	s.turn(3)
	refund := func(number int) (checkout.Refund, string) {
		r, key, _, err := s.Checkouts.RequestRefund(t.Context(), s.org, checkout.RefundRequest{
			CheckoutID: checkoutID, Amount: new("1000000"), Reason: new("the reason " + canary),
			IdempotencyKey: new(fmt.Sprintf("refund-%s-%d", canary, number)), Actor: audit.APIKey(s.org),
		})
		s.must(err)
		return r, key
	}
	r, key := refund(1)
	path := RefundPrefix + r.ID
	sender := string(sim.Address("payer of " + checkoutID))
	holder := string(sim.Address("where the payer wants it"))
	form := func(values ...string) url.Values {
		f := url.Values{keyName: {key}}
		for i := 0; i+1 < len(values); i += 2 {
			f.Set(values[i], values[i+1])
		}
		return f
	}
	for _, l := range languages {
		named := func(path string) string { return path + "?" + url.Values{languageParameter: {l.tag}}.Encode() }
		s.look(s.pages, http.StatusOK, http.MethodGet, named(path), nil)
		s.look(s.pages, http.StatusOK, http.MethodGet, named(Prefix+checkoutID), nil)
		s.look(s.pages, http.StatusNotFound, http.MethodPost, named(path), url.Values{keyName: {"wrong"}})
		s.look(s.pages, http.StatusNotFound, http.MethodPost, named(Prefix+checkoutID+"/refund-key"),
			url.Values{keyName: {"wrong"}})
		s.look(s.pages, http.StatusOK, http.MethodPost, named(path), form())
		s.look(s.pages, http.StatusBadRequest, http.MethodPost, named(path+"/check"), form(addressName, "0x1"))
		s.look(s.pages, http.StatusOK, http.MethodPost, named(path+"/check"), form(addressName, holder))
		s.look(s.pages, http.StatusUnprocessableEntity, http.MethodPost, named(path+"/claim"),
			form(addressName, sender))
		s.look(s.pages, http.StatusOK, http.MethodPost, named(path+"/challenge"), form(addressName, holder))
		s.look(s.pages, http.StatusUnprocessableEntity, http.MethodPost, named(path+"/proof"), form(addressName, holder,
			expiresName, fmt.Sprint(time.Now().Add(time.Minute).Unix()), signatureName, "0x00"))
	}
	s.look(s.pages, http.StatusOK, http.MethodPost, path+"/claim", form(addressName, holder))
	s.look(s.pages, http.StatusOK, http.MethodPost, path+"/claim", form(addressName, holder))
	s.look(s.pages, http.StatusConflict, http.MethodPost, path+"/claim", form(addressName, sender))
	claimed, err := s.Checkouts.RefundByID(t.Context(), s.org, r.ID)
	s.must(err)
	if string(claimed.ToAddress) != holder || claimed.IsAddressProven || claimed.Attempt != 1 {
		t.Errorf("got %+v, want a refund to the typed address", claimed)
	}

	// The key of the checkout opens the next refund, and the payer signs with the address that paid.
	next, _ := refund(2)
	answer := httptest.NewRecorder()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, Prefix+checkoutID+"/refund-key", nil)
	request.Header.Set(checkoutKeyHeader, capability.Key(pageSecret, checkoutID))
	New(s.pages).ServeHTTP(answer, request)
	s.inspect(http.StatusOK, "POST refund-key", answer)
	link := regexp.MustCompile(`href="(/r/ref_\w+)#k=([\w-]+)"`).FindStringSubmatch(answer.Body.String())
	if link == nil || link[1] != RefundPrefix+next.ID {
		t.Fatalf("got %s, want the link to refund %s", answer.Body, next.ID)
	}
	private, err := crypto.ToECDSA(bytes.Repeat([]byte{5}, 32))
	s.must(err)
	address := crypto.PubkeyToAddress(private.PublicKey).Hex()
	source := s.pages.Refunds.(Source)
	challenge, refusal, err := source.Challenge(t.Context(), next.ID, link[2], address)
	s.must(err)
	signature, err := crypto.Sign(accounts.TextHash([]byte(challenge.Text)), private)
	s.must(err)
	key = link[2]
	s.look(s.pages, http.StatusOK, http.MethodPost, link[1]+"/proof", form(addressName, address, expiresName,
		fmt.Sprint(challenge.ExpiresAt.Unix()), signatureName, fmt.Sprintf("0x%x", signature)))
	proven, err := s.Checkouts.RefundByID(t.Context(), s.org, next.ID)
	s.must(err)
	if string(proven.ToAddress) != address || !proven.IsAddressProven || refusal != "" {
		t.Errorf("got %+v, %q, want a refund to the proven address", proven, refusal)
	}
	if least := 10 * len(languages); s.asked < least {
		t.Errorf("looked at %d answers, want at least %d", s.asked, least)
	}

	// Of several claims at the same moment one is accepted. Rule CO-88.
	last, lastKey := refund(3)
	var mu sync.Mutex
	counts := map[int]int{}
	var claims sync.WaitGroup
	handler := New(s.pages)
	for i := range 8 {
		claims.Go(func() {
			r := claimRequest(RefundPrefix+last.ID+"/claim", lastKey, addressName,
				string(sim.Address(fmt.Sprintf("address %d", i))))
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			mu.Lock()
			defer mu.Unlock()
			counts[w.Code]++
		})
	}
	claims.Wait()
	if counts[http.StatusOK] != 1 || counts[http.StatusConflict] != 7 {
		t.Errorf("got the answers %v, want one claim", counts)
	}
}

// A payer who has the path of one checkout learns nothing of another one's payment, and a search changes nothing.
// Rule CO-18.
func TestASearchAnswersAboutItsOwnCheckoutAlone(t *testing.T) {
	t.Parallel()
	s := newCanaryShop(t)
	s.turn(1)
	paid, other := s.sell(1, canaryUSDC), s.sell(2, canaryUSDC)
	hash := string(s.pay(paid, 25*dollar))
	s.turn(1)
	versions := []int64{s.load(paid).Version, s.load(other).Version}
	found, err := s.pages.Checkouts.Find(t.Context(), paid, hash)
	s.must(err)
	if found.Outcome != FoundPayment || found.Payment == nil || found.Payment.TxHash != hash {
		t.Errorf("got %+v for its own payment, want the payment", found)
	}
	strange, err := s.pages.Checkouts.Find(t.Context(), other, hash)
	s.must(err)
	if strange.Payment != nil || strange.Outcome == FoundPayment || strange.Outcome == FoundPending {
		t.Errorf("got %+v for the payment of another checkout, want no payment", strange)
	}
	if s.load(paid).Version != versions[0] || s.load(other).Version != versions[1] {
		t.Error("a search changed a checkout")
	}
}
