package surfacetest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/depositswap"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/ledger/ledgertest"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/swap"
	"github.com/cofferpay/coffer/internal/swap/provider"
	"github.com/cofferpay/coffer/internal/swap/signedquote"
	"github.com/cofferpay/coffer/internal/swap/swaptest"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/internal/wire"
)

const (
	dai        = 4 // only in environments with swaps
	daiAddress = chain.Address("0x6B175474E89094C44Da98b954EedeAC495271d0F")
	// weiForUnit is how much ether an atomic unit of DAI brings, at 2000 dollars.
	weiForUnit = 500_000_000
)

// scriptedSwapper is a swap provider that answers as a test says. Nothing of its quotes is signed: only
// the signer verifies a signature, and no test here reaches it.
type scriptedSwapper struct {
	mu    sync.Mutex
	asked int
	quote func(ask provider.Ask) (provider.Offer, error) // nil: an honest offer

	// Of offers for payments of any amount: how many there were, and the firm ones by their bytes.
	offered int
	signed  map[string]signedquote.Quote
	verify  func(raw []byte) (signedquote.Quote, error) // nil: only those
}

func (*scriptedSwapper) Name() string { return "ONE_CLICK" }

func (*scriptedSwapper) Assets(context.Context) ([]provider.Asset, error) {
	return []provider.Asset{
		{Token: provider.Token{Chain: chain.Ethereum}, ID: "eth", Accepts: true, Delivers: true},
		{
			Token: provider.Token{Chain: chain.Ethereum, Contract: daiAddress}.Canonical(), ID: "dai", Symbol: "DAI",
			Decimals: 6, Accepts: true, AcceptsAny: true, Delivers: true, PriceUSD: money.MustParseUSD("1"),
		},
		{
			Token: provider.Token{Chain: chain.Ethereum, Contract: usdcAddress}.Canonical(), ID: "usdc",
			Symbol: "USDC", Decimals: 6, Delivers: true,
		},
		// A chain that no installation runs.
		{
			Token: provider.Token{Chain: "DOGECOIN"}, ID: "doge", Symbol: "DOGE", Decimals: 8, Accepts: true,
			AcceptsAny: true, PriceUSD: money.MustParseUSD("0.1"),
		},
	}, nil
}

// VerifyQuote returns a firm quote that the provider gave before.
func (s *scriptedSwapper) VerifyQuote(raw []byte) (signedquote.Quote, error) {
	if s.verify != nil {
		return s.verify(raw)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	q, isKnown := s.signed[string(raw)]
	if !isKnown {
		return q, provider.ErrUntrusted
	}
	return q, nil
}

// flexibleOffer is an offer for a payment of any amount. Each one has a deposit address of its own.
func (s *scriptedSwapper) flexibleOffer(ask provider.Ask) (provider.Offer, error) {
	out, err := ask.AmountIn.Bps(9980)
	if err != nil {
		return provider.Offer{}, err
	}
	least, err := out.Bps(uint64(provider.SlippageBpsMax - ask.SlippageBps))
	if err != nil {
		return provider.Offer{}, err
	}
	s.mu.Lock()
	s.offered++
	number := s.offered
	s.mu.Unlock()
	address := sha256.Sum256(fmt.Append(nil, ask.Recipient, number))
	q := signedquote.Quote{
		Scheme: signedquote.OneClickV0, IsFlexible: true, DepositAddress: "0x" + hex.EncodeToString(address[:20]),
		OriginAsset: ask.Origin.String(), DestinationAsset: ask.Destination.String(), AmountIn: ask.AmountIn,
		MinAmountIn: ask.AmountIn, AmountOut: out, MinAmountOut: least, Recipient: string(ask.Recipient),
		RefundTo: []string{string(ask.RefundTo)}, SlippageBps: ask.SlippageBps,
		Deadline: time.Now().Add(8 * time.Hour).UTC().Truncate(time.Microsecond), Estimate: time.Minute,
	}
	if ask.Origin.Chain == "DOGECOIN" {
		q.DepositAddress = "D" + hex.EncodeToString(address[:16])
	} else if q.DepositAddress, err = checksummed(q.DepositAddress); err != nil {
		return provider.Offer{}, err
	}
	if !ask.IsFirm {
		return provider.NewFirmOffer("ONE_CLICK", nil, q), nil
	}
	raw := fmt.Appendf(nil, "{%q:%q}", "to", q.DepositAddress)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.signed == nil {
		s.signed = map[string]signedquote.Quote{}
	}
	s.signed[string(raw)] = q
	return provider.NewFirmOffer("ONE_CLICK", raw, q), nil
}

func checksummed(address string) (string, error) {
	parsed, err := (evmtx.AddressCodec{ChainID: signertest.ChainID}).Parse(address)
	return string(parsed), err
}

func (s *scriptedSwapper) Quote(ctx context.Context, ask provider.Ask) (provider.Offer, error) {
	s.mu.Lock()
	s.asked++
	quote := s.quote
	s.mu.Unlock()
	switch {
	case quote != nil:
		return quote(ask)
	case ask.IsFlexible:
		return s.flexibleOffer(ask)
	}
	return honestOffer(ask)
}

func (*scriptedSwapper) Status(context.Context, provider.Ref, chain.TxHash) (provider.Report, error) {
	return provider.Report{}, errors.New("no test asks for a status")
}

// answer changes what the provider says; nil: an honest offer.
func (s *scriptedSwapper) answer(quote func(ask provider.Ask) (provider.Offer, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.quote = quote
}

// count returns how often the provider was asked for a quote.
func (s *scriptedSwapper) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// honestOffer is an offer at the price of the tests. Each swap gets a deposit address of its own.
func honestOffer(ask provider.Ask) (provider.Offer, error) {
	out, err := money.Parse(ask.AmountIn.String() + "00000000")
	if err != nil {
		return provider.Offer{}, err
	}
	if out, err = out.Bps(50_000); err != nil {
		return provider.Offer{}, err
	}
	least, err := out.Bps(uint64(provider.SlippageBpsMax - ask.SlippageBps))
	if err != nil {
		return provider.Offer{}, err
	}
	address := sha256.Sum256([]byte(ask.Recipient))
	q := signedquote.Quote{
		Scheme: signedquote.OneClickV0, DepositAddress: "0x" + hex.EncodeToString(address[:20]), AmountIn: ask.AmountIn,
		MinAmountIn: ask.AmountIn, AmountOut: out, MinAmountOut: least, Deadline: time.Now().Add(8 * time.Hour),
		Estimate: 22 * time.Second,
	}
	if ask.IsFirm {
		return provider.NewFirmOffer("ONE_CLICK", fmt.Appendf(nil, "{%q:%q}", "to", q.DepositAddress), q), nil
	}
	return provider.NewFirmOffer("ONE_CLICK", nil, q), nil
}

// refuse makes the provider fail every quote.
func refuse(err error) func(provider.Ask) (provider.Offer, error) {
	return func(provider.Ask) (provider.Offer, error) { return provider.Offer{}, err }
}

// turnHold is so long that no call prolongs its turn: how many COMMITs a call has does not depend on its speed.
const turnHold = time.Hour

// newSwaps returns the feature with the scripted provider.
func (h *testEnv) newSwaps(db *pg.DB, book *wallet.Service, chains chain.Chains) *swap.Service {
	s := swap.NewService(swap.Config{TurnHold: turnHold})
	s.DB, s.Chains, s.Wallets, s.Events, s.Log = db, chains, book, wire.NewRecorder(), newLogger(h.logs)
	s.Whitelist = onlySwapVault{}
	var err error
	if s.GrantKey, err = signer.NewGrantKey(make([]byte, signer.GrantKeyBytes)); err != nil {
		h.t.Fatal(err)
	}
	s.Prices = price.Fixed{Prices: map[int]money.USD{eth: money.MustParseUSD("2000"), dai: money.MustParseUSD("1")}}
	s.Panel = provider.NewPanel([]provider.Member{{Provider: h.swapper}}, swap.Suspensions{DB: db}, nil, s.Log)
	return s
}

// newDepositSwaps returns the feature with the scripted provider. It delivers USDC on Ethereum.
func (h *testEnv) newDepositSwaps(
	db *pg.DB, book *wallet.Service, chains chain.Chains, swaps *swap.Service,
) *depositswap.Service {
	return &depositswap.Service{
		DB: db, Chains: chains, Wallets: book, Panel: swaps.Panel, Prices: swaps.Prices, GrantKey: swaps.GrantKey,
		Destination: provider.Token{Chain: chain.Ethereum, Contract: usdcAddress}, Log: newLogger(h.logs),
		TurnHold: turnHold,
	}
}

// onlySwapVault is a whitelist with one usable entry.
type onlySwapVault struct{}

func (onlySwapVault) Usable(_ context.Context, _ pg.Tx, _, listedID string) (swap.WhitelistEntry, error) {
	if listedID != vault {
		return swap.WhitelistEntry{}, fault.New(fault.Unprocessable, fault.AddressNotWhitelisted, fault.NothingHeld,
			"The entry is not usable.")
	}
	return swap.WhitelistEntry{Chain: chain.Ethereum, Address: stranger}, nil
}

// openOwnSwaps lets organizations swap their own money, and gives CUSTODIAL of each some DAI.
func (h *testEnv) openOwnSwaps(tenants ...tenant) {
	h.t.Helper()
	h.openSwaps(tenants...)
	for _, who := range tenants {
		h.change(who, org.Changes{"organizationSwapsEnabled": []byte("true")})
		h.fund(who, alice, 1_000_000_000)
		h.wantStatus(h.call(who, "POST", "/transfers", map[string]any{
			"mintId": dai, "amount": "500000000", "from": map[string]any{"customerId": alice},
			"to": map[string]any{"product": "CUSTODIAL"}, "idempotencyKey": "own-" + who.id,
		}), 201)
	}
}

// ownSwapBody is a swap of the organization's own money that can be made.
func ownSwapBody(key string, change ...any) map[string]any {
	body := map[string]any{
		"idempotencyKey": key, "fromMintId": dai, "toMintId": eth, "amountIn": "1000000",
		"whitelistedAddressId": vault,
	}
	for i := 0; i < len(change); i += 2 {
		body[change[i].(string)] = change[i+1]
	}
	return body
}

// makeOwnSwap makes a swap of the organization's own money and returns its id.
func (h *testEnv) makeOwnSwap(who tenant, key string, change ...any) string {
	h.t.Helper()
	return h.wantStatus(h.call(who, "POST", "/organization-swap", ownSwapBody(key, change...)), 202).text("swapId")
}

// deliverOwnSwap makes a pending swap of the organization's own money one whose output is in its product.
func (h *testEnv) deliverOwnSwap(swapID string) {
	h.t.Helper()
	err := pgx.BeginFunc(h.t.Context(), pgtest.Superuser(h.t, h.db), func(tx pgx.Tx) error {
		return swaptest.MarkDelivered(h.t.Context(), tx, swapID)
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

const daiToken = "ethereum:0x6b175474e89094c44da98b954eedeac495271d0f"

// depositSwapBody is a deposit swap that can be made.
func depositSwapBody(key string, change ...any) map[string]any {
	body := map[string]any{
		"customerId": alice, "originTokenId": daiToken, "amountIn": "25000000", "refundAddress": stranger,
	}
	if key != "" {
		body["idempotencyKey"] = key
	}
	for i := 0; i < len(change); i += 2 {
		body[change[i].(string)] = change[i+1]
	}
	return body
}

// makeDepositSwap makes a deposit swap and returns its id.
func (h *testEnv) makeDepositSwap(who tenant, key string, change ...any) string {
	h.t.Helper()
	return h.wantStatus(h.call(who, "POST", "/deposit-swap", depositSwapBody(key, change...)), 201).
		text("depositSwapId")
}

// openSwaps adds DAI to the catalogue and lets organizations swap it and ether.
func (h *testEnv) openSwaps(tenants ...tenant) {
	h.t.Helper()
	err := mint.Sync(h.t.Context(), h.db, []mint.Mint{{
		ID: dai, Chain: chain.Ethereum, Network: chain.Local, Kind: mint.Token, Contract: daiAddress, Symbol: "DAI",
		Name: "Dai", Decimals: 6, DepositEnabled: true, WithdrawEnabled: true, MinDeposit: money.Units(5),
		MinWithdraw: money.Units(10), ConfirmationsRequired: 2, Finality: "FINALIZED",
	}})
	if err != nil {
		h.t.Fatal(err)
	}
	for _, who := range tenants {
		h.change(who, org.Changes{
			"customerSwapsEnabled": []byte("true"), "swappableMintIds": fmt.Appendf(nil, "[%d,%d]", eth, dai),
			"swapFeeBps": []byte("25"),
		})
	}
}

// change changes settings of an organization.
func (h *testEnv) change(who tenant, changes org.Changes) {
	h.t.Helper()
	err := h.db.InSystem(h.t.Context(), func(ctx context.Context, tx pg.Tx) error {
		_, err := org.ChangeSettings(ctx, tx, audit.Operator("test"), who.id, changes)
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

// newSwapEnv returns an environment in which the first organization swaps, and alice has DAI.
func newSwapEnv(t testing.TB) *testEnv {
	t.Helper()
	h := newTestEnv(t)
	h.openSwaps(h.one)
	h.fund(h.one, alice, 1_000_000_000)
	return h
}

// fund credits DAI to a customer who has an address.
func (h *testEnv) fund(who tenant, customerID string, n uint64) {
	h.t.Helper()
	err := h.db.InSystem(h.t.Context(), func(ctx context.Context, tx pg.Tx) error {
		return ledgertest.PostWithCauses(ctx, tx, ledger.Posting{
			Cause: ledger.Cause{Kind: ledger.Deposit, ID: "dep_dai_" + who.id + customerID},
			Legs: []ledger.Leg{{
				Debit:  ledger.Account{OrgID: who.id, MintID: dai, Kind: ledger.Custody},
				Credit: ledger.Account{OrgID: who.id, MintID: dai, Kind: ledger.Customer, Subject: customerID},
				Amount: money.Units(n),
			}},
		})
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

// swapBody is a swap that can be made.
func swapBody(key string, change ...any) map[string]any {
	body := map[string]any{
		"idempotencyKey": key, "customerId": alice, "fromMintId": dai, "toMintId": eth, "amountIn": "1000000",
	}
	for i := 0; i < len(change); i += 2 {
		body[change[i].(string)] = change[i+1]
	}
	return body
}

// makeSwap makes a swap and returns its id.
func (h *testEnv) makeSwap(who tenant, key string, change ...any) string {
	h.t.Helper()
	return h.wantStatus(h.call(who, "POST", "/customer-swap", swapBody(key, change...)), 202).text("swapId")
}

// fail ends a swap as failed, with an amount that came back.
func (h *testEnv) fail(swapID, refunded string) {
	h.t.Helper()
	if _, err := pgtest.OwnerPool(h.t, h.db).Exec(h.t.Context(), `
		BEGIN; SET LOCAL session_replication_role = replica;
		UPDATE swaps SET status = 'FAILED', failure_reason = 'PROVIDER_REFUNDED', failed_at = now(),
			refunded = `+refunded+`, look_at = NULL WHERE swap_id = '`+swapID+`';
		COMMIT`); err != nil {
		h.t.Fatal(err)
	}
}

// bill adds the fee of a swap to January 2026, without a value in dollars.
func (h *testEnv) bill(swapID string) {
	h.t.Helper()
	if _, err := pgtest.OwnerPool(h.t, h.db).Exec(h.t.Context(), `
		BEGIN; SET LOCAL session_replication_role = replica;
		INSERT INTO fee_lines (fee_line_id, org_id, kind, source_kind, source_id, mint_id, amount, fee_bps,
				incurred_at)
			SELECT 'fee_' || swap_id, org_id, 'SWAP_FEE', 'SWAP', swap_id, from_mint_id, fee_amount, fee_bps,
				'2026-01-31T23:59:59Z'
			FROM swaps WHERE swap_id = '`+swapID+`';
		COMMIT`); err != nil {
		h.t.Fatal(err)
	}
}

// daiOf returns a customer's balance of DAI.
func (h *testEnv) daiOf(who tenant, customerID string) map[string]any {
	h.t.Helper()
	for _, b := range h.wantStatus(h.call(who, "GET", atCustomer("/customers/{customerId}/balances", customerID), nil),
		200).list() {
		if b["mintId"] == float64(dai) {
			return b
		}
	}
	h.t.Fatalf("%s has no DAI", customerID)
	return nil
}

// swapCounts counts all rows that a request for a swap could have written.
func (h *testEnv) swapCounts() string {
	h.t.Helper()
	var counts string
	err := pgtest.OwnerPool(h.t, h.db).QueryRow(h.t.Context(), `
		SELECT format('swaps %s, offers %s', (SELECT count(*) FROM swaps), (SELECT count(*) FROM swap_offers))`,
	).Scan(&counts)
	if err != nil {
		h.t.Fatal(err)
	}
	return h.rowCounts() + counts
}

// noArrivals owns the wallets of swaps where nothing arrives.
type noArrivals struct{ deposit.ArrivalOwner }

func (noArrivals) SettleArrivals(
	context.Context, pg.Tx, wallet.Wallet, []deposit.WaitingArrival,
) (deposit.Settlement, error) {
	return deposit.Settlement{}, errors.New("no test delivers to a swap")
}

// noDeliveries owns the wallets of deposit swaps where nothing arrives.
type noDeliveries struct{ deposit.DepositSwapOwner }

func (noDeliveries) OnUpdates(context.Context, pg.Tx, []deposit.Update) error {
	return errors.New("no test delivers to a deposit swap")
}

// noPayments owns the wallets of checkouts where nothing arrives.
type noPayments struct{ deposit.CheckoutOwner }

func (noPayments) OnUpdates(context.Context, pg.Tx, []deposit.Update) error {
	return errors.New("no test pays a checkout")
}
