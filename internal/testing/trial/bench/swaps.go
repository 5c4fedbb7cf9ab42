package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/journal"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/service"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/keys"
	"github.com/cofferpay/coffer/internal/signer/local"
	"github.com/cofferpay/coffer/internal/signer/signpolicy"
	"github.com/cofferpay/coffer/internal/swap"
	"github.com/cofferpay/coffer/internal/swap/provider"
	"github.com/cofferpay/coffer/internal/swap/signedquote"
	"github.com/cofferpay/coffer/internal/swap/signedquote/quotetest"
	"github.com/cofferpay/coffer/internal/wallet"
)

const (
	swapProvider = "ONE_CLICK"
	swapCoin     = 1
	swapToken    = 2
	// swapUnits is what each swap gives, and what it is worth in the token.
	swapUnits = 1_000_000_000_000_000
	swapOut   = 1_000_000
	// swapDeliveries are the swaps whose deliveries are timed, one block each.
	swapDeliveries = 40
	swapToken0x    = "swapped token"
)

// instantProvider answers at once, with genuine signatures, and counts the time that it takes itself.
type instantProvider struct {
	key   ed25519.PrivateKey
	pub   []ed25519.PublicKey
	clock func() time.Time
	spent atomic.Int64 // nanoseconds in Quote
}

func newInstantProvider(clock func() time.Time) (*instantProvider, error) {
	pub, key, err := ed25519.GenerateKey(nil)
	return &instantProvider{key: key, pub: []ed25519.PublicKey{pub}, clock: clock}, err
}

// Name implements provider.Provider.
func (p *instantProvider) Name() string { return swapProvider }

func swapAssets() []provider.Asset {
	return []provider.Asset{
		{
			Token: provider.Token{Chain: chain.Ethereum}, ID: "bench:coin", Symbol: "ETH", Decimals: 18, Accepts: true,
			Delivers: true,
		},
		{
			Token: provider.Token{Chain: chain.Ethereum, Contract: sim.Address(swapToken0x)}.Canonical(),
			ID:    "bench:token", Symbol: "DAI", Decimals: 6, Accepts: true, Delivers: true,
		},
	}
}

// Assets implements provider.Provider.
func (p *instantProvider) Assets(context.Context) ([]provider.Asset, error) { return swapAssets(), nil }

// Quote implements provider.Provider.
func (p *instantProvider) Quote(_ context.Context, ask provider.Ask) (provider.Offer, error) {
	began := time.Now()
	defer func() { p.spent.Add(int64(time.Since(began))) }()
	offer := provider.Offer{
		Provider: swapProvider, AmountIn: ask.AmountIn, MinAmountIn: ask.AmountIn, AmountOut: money.Units(swapOut),
		MinAmountOut: money.Units(swapOut * 99 / 100), Estimate: 10 * time.Second,
	}
	if !ask.IsFirm {
		return offer, nil
	}
	var address [20]byte
	if _, err := rand.Read(address[:]); err != nil {
		return provider.Offer{}, err
	}
	now := p.clock()
	raw, err := quotetest.EncodeOneClick(p.key, quotetest.OneClick{
		DepositAddress: "0x" + hex.EncodeToString(address[:]), OriginAsset: "bench:coin",
		DestinationAsset: "bench:token",
		AmountIn:         ask.AmountIn, AmountOut: offer.AmountOut, MinAmountOut: offer.MinAmountOut,
		Recipient: string(ask.Recipient), RefundTo: string(ask.RefundTo), SlippageBps: ask.SlippageBps, SignedAt: now,
		Deadline: now.Add(24 * time.Hour),
	}.Answer())
	if err != nil {
		return provider.Offer{}, err
	}
	signed, err := signedquote.VerifyOneClick(raw, p.pub)
	return provider.NewFirmOffer(swapProvider, raw, signed), err
}

// Status implements provider.Provider.
func (p *instantProvider) Status(context.Context, provider.Ref, chain.TxHash) (provider.Report, error) {
	return provider.Report{Provider: swapProvider, Status: provider.Processing, Refund: provider.RefundNone}, nil
}

// swapEnv is the service with one provider, on a simulated chain that notes when a block was first read.
type swapEnv struct {
	*service.Service
	net      *timedChain
	provider *instantProvider
	db       *pg.DB
	signer   *local.Signer
	org      string
}

// timedChain notes when the service first read a final block.
type timedChain struct {
	*sim.Chain
	firstRead sync.Map // height -> time.Time
}

// Final implements chain.Reader.
func (c *timedChain) Final(ctx context.Context, height uint64) (chain.Contents, error) {
	contents, err := c.Chain.Final(ctx, height)
	if err == nil {
		c.firstRead.LoadOrStore(height, time.Now())
	}
	return contents, err
}

func (w *benchEnv) newSwapEnv(ctx context.Context) (e *swapEnv, err error) {
	e = &swapEnv{net: &timedChain{Chain: sim.New(sim.Config{})}}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.closeAll())
		}
	}()
	if err := w.execAsSuperuser(ctx, "", `CREATE DATABASE swaps OWNER coffer_owner`); err != nil {
		return e, err
	}
	conf := pg.Config{URL: w.cluster.URL("swaps"), OwnerURL: w.cluster.OwnerURL("swaps")}
	if err := pg.Migrate(ctx, conf); err != nil {
		return e, err
	}
	if e.db, err = pg.Open(ctx, conf, time.Now); err != nil {
		return e, err
	}
	if e.provider, err = newInstantProvider(time.Now); err != nil {
		return e, err
	}
	coin := mint.Mint{
		ID: swapCoin, Chain: chain.Ethereum, Network: chain.Local, Kind: mint.Native, Symbol: "ETH", Name: "Ether",
		Decimals: 18, DepositEnabled: true, WithdrawEnabled: true, MinDeposit: money.Units(1),
		MinWithdraw: money.Units(1), Finality: "FINALIZED",
	}
	token := coin
	token.ID, token.Kind, token.Contract, token.Symbol, token.Name, token.Decimals = swapToken, mint.Token,
		sim.Address(swapToken0x), "DAI", "Dai", 6
	if err := mint.Sync(ctx, e.db, []mint.Mint{coin, token}); err != nil {
		return e, err
	}
	made, _, err := org.Create(ctx, e.db, "swaps")
	if err != nil {
		return e, err
	}
	e.org = made.ID
	err = e.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		_, err := org.ChangeSettings(ctx, tx, audit.System("bench"), e.org, org.Changes{
			"customerSwapsEnabled": []byte("true"), "swappableMintIds": []byte("[1,2]"), "swapFeeBps": []byte("25"),
		})
		return err
	})
	if err != nil {
		return e, err
	}
	return e, e.openService(ctx, w)
}

func (e *swapEnv) openService(ctx context.Context, w *benchEnv) error {
	seed, err := keys.NewSeed()
	if err != nil {
		return err
	}
	seed = seed.ForNetwork(chain.Local)
	secret := sha256.Sum256([]byte(e.org))
	grants, err := signer.NewGrantKey(secret[:])
	if err != nil {
		return err
	}
	configured := e.net.ToChain()
	configured.Reader = e.net
	assets, limits := map[string]string{}, map[string]signpolicy.Limit{}
	for _, a := range swapAssets() {
		assets[a.Token.String()], limits[a.Token.String()] = a.ID, signpolicy.Limit{Unlimited: true}
	}
	conf := local.Config{
		Journal: filepath.Join(w.dir, "swaps.journal"), Grants: grants,
		Policy: signpolicy.Policy{
			Chains: map[chain.Name]signpolicy.Chain{chain.Ethereum: {
				SignerID: configured.SignerID, FeeMax: money.MustParse("100000000000000000"),
				GasMax: money.MustParse("100000000000000000"), Unlimited: true,
			}},
			Swaps: &signpolicy.Swaps{Providers: map[string]signpolicy.SwapProvider{swapProvider: {
				Scheme: signedquote.OneClickV0, Keys: []string{quotetest.FormatOneClickKey(e.provider.key)},
				Assets: assets, Limits: limits,
			}}},
		},
	}
	if err := local.CreateJournal(conf, seed); err != nil {
		return err
	}
	if e.signer, err = local.Open(conf, seed); err != nil {
		return err
	}
	start := uint64(0)
	e.Service = service.New(service.Config{
		Chains: map[chain.Name]service.ChainConfig{chain.Ethereum: {Start: &start, ScanInterval: idlePause}},
	}, service.Parts{
		DB: e.db, Signer: e.signer, AttestKey: seed.AttestKey().PublicKey(), Grants: grants,
		Chains: chain.Chains{chain.Ethereum: configured},
		Prices: price.Fixed{Prices: map[int]money.USD{
			swapCoin: money.MustParseUSD("1000"), swapToken: money.MustParseUSD("1"),
		}},
		SwapProviders: []provider.Member{{Provider: e.provider}}, Log: slog.New(slog.DiscardHandler),
	})
	return journal.Import(ctx, e.db, e.signer, e.Wallets)
}

func (e *swapEnv) closeAll() error {
	if e.db != nil {
		e.db.Close()
	}
	if e.signer != nil {
		return e.signer.Close()
	}
	return nil
}

// fund pays every customer through the chain, so that the treasury can pay what the customers swap.
func (e *swapEnv) fund(ctx context.Context, swaps uint64) error {
	treasury, err := e.Wallets.Treasury(ctx, e.org, chain.EVM)
	if err != nil {
		return err
	}
	amount, err := money.Units(swapUnits).Mul(swaps)
	if err != nil {
		return err
	}
	payer := sim.Address("a payer")
	e.net.Mint(payer, "", money.MustParse("1000000000000000000000000"))
	for n := range int64(swapCallers) {
		w, err := e.Wallets.Address(ctx, signer.WalletRef{
			OrgID: e.org, Family: chain.EVM, Purpose: wallet.CustomerDeposit, Subject: swapCustomer(n),
		})
		if err != nil {
			return err
		}
		e.net.SubmitTx(payer, sim.Move{To: w.Address, Amount: amount})
	}
	e.net.SubmitTx(payer, sim.Move{To: treasury.Address, Amount: money.MustParse("100000000000000000000")})
	return e.step(ctx, 8)
}

// step mines blocks and runs every part that moves money once for each.
func (e *swapEnv) step(ctx context.Context, blocks int) error {
	for range blocks {
		e.net.Mine(1)
		for hasMore := true; hasMore; {
			var err error
			if hasMore, err = e.Walker(chain.Ethereum).StepFinal(ctx); err != nil {
				return err
			}
		}
		if _, err := e.Deposits.CreditWaiting(ctx); err != nil {
			return err
		}
		if _, err := e.Sweeper(chain.Ethereum).Plan(ctx); err != nil {
			return err
		}
		for hasMore := true; hasMore; {
			var err error
			if hasMore, err = e.DispatchWorker(chain.Ethereum).RunRound(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// swapCustomer returns one of as many customers as there are connections: the balance of one customer is a
// queue, and no measure of the service.
func swapCustomer(n int64) string { return fmt.Sprint("swapper-", n%swapCallers) }

func (e *swapEnv) request(ctx context.Context, n int64, key string) (swap.Swap, error) {
	w, _, err := e.Swaps.Request(ctx, e.org, swap.Request{
		IdempotencyKey: key, CustomerID: swapCustomer(n), FromMintID: swapCoin, ToMintID: swapToken,
		AmountIn: fmt.Sprint(swapUnits), Actor: audit.APIKey(e.org),
	})
	return w, err
}

// benchSwaps measures the parts of a swap that are the service's own: the quote, the creation, the way
// from the final block of a delivery to its event, and the verification of a signed quote.
func benchSwaps(ctx context.Context, w *benchEnv) (err error) {
	e, err := w.newSwapEnv(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.closeAll()) }()
	if err := e.fund(ctx, 100_000); err != nil {
		return fmt.Errorf("fund the customers: %w", err)
	}
	for _, measure := range []func(context.Context, *swapEnv) error{
		w.benchSwapQuotes, w.benchSwapDeliveries, w.benchSwapCreation, w.benchQuoteVerification,
	} {
		if err := measure(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

func (w *benchEnv) benchSwapQuotes(ctx context.Context, e *swapEnv) error {
	var took durations
	e.provider.spent.Store(0)
	end, n := time.Now().Add(w.duration/2), 0
	for ; time.Now().Before(end) || n == 0; n++ {
		amount := fmt.Sprint(swapUnits + n) // the same question is shared for some seconds
		began, before := time.Now(), e.provider.spent.Load()
		_, err := e.Swaps.Quote(ctx, e.org, swap.QuoteRequest{
			FromMintID: swapCoin, ToMintID: swapToken, AmountIn: amount,
		})
		if err != nil {
			return fmt.Errorf("quote: %w", err)
		}
		took = append(took, time.Since(began)-time.Duration(e.provider.spent.Load()-before))
	}
	p50 := took.percentile(0.5)
	w.table.addRow(row{
		figure: "our part of a quote, one caller",
		result: fmt.Sprintf("p50 %s, p99 %s", formatDuration(p50), formatDuration(took.percentile(0.99))),
		compared: fmt.Sprintf("the provider's own time is %s of it more",
			formatDuration(time.Duration(e.provider.spent.Load()/int64(n)))),
		target: formatTarget(p50 < 15*time.Millisecond, "p50 < 15 ms"),
	})
	return nil
}

// swapCallers is the number of connections.
const swapCallers = 64

// countFor calls act from many callers for a time and returns how often it succeeded in a second.
func countFor(ctx context.Context, d time.Duration, act func(ctx context.Context, n int64) error) (float64, error) {
	var last, count atomic.Int64
	var failure atomic.Value
	began, end := time.Now(), time.Now().Add(d)
	var wg sync.WaitGroup
	for range swapCallers {
		wg.Go(func() {
			for time.Now().Before(end) && failure.Load() == nil {
				if err := act(ctx, last.Add(1)); err != nil {
					failure.Store(err)
					return
				}
				count.Add(1)
			}
		})
	}
	wg.Wait()
	if err, isFailed := failure.Load().(error); isFailed {
		return 0, err
	}
	return perSecond(int(count.Load()), time.Since(began)), nil
}

func (w *benchEnv) benchSwapCreation(ctx context.Context, e *swapEnv) error {
	addresses, err := countFor(ctx, w.duration/2, func(ctx context.Context, n int64) error {
		_, err := e.Wallets.Address(ctx, signer.WalletRef{
			OrgID: e.org, Family: chain.EVM, Purpose: wallet.CustomerDeposit, Subject: fmt.Sprint("issued ", n),
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("issue addresses: %w", err)
	}
	swaps, err := countFor(ctx, w.duration/2, func(ctx context.Context, n int64) error {
		_, err := e.request(ctx, n, fmt.Sprint("created-", n))
		return err
	})
	if err != nil {
		return fmt.Errorf("create swaps: %w", err)
	}
	w.table.addRow(row{
		figure: fmt.Sprintf("swaps created from %d connections, each with two addresses", swapCallers),
		result: fmt.Sprintf("%.0f/s", swaps),
		compared: fmt.Sprintf("%s, %.0f/s", formatRatio(swaps, addresses, "addresses issued in the same run"),
			addresses),
		target: formatTarget(swaps >= 0.35*addresses, "0.35"),
	})
	return nil
}

// benchSwapDeliveries delivers swaps one by one and times each from the first reading of its final
// block to the commit of its event.
func (w *benchEnv) benchSwapDeliveries(ctx context.Context, e *swapEnv) error {
	var created []swap.Swap
	for n := range swapDeliveries {
		made, err := e.request(ctx, int64(n), fmt.Sprint("delivered-", n))
		if err != nil {
			return fmt.Errorf("create a swap: %w", err)
		}
		created = append(created, made)
	}
	if err := e.payAll(ctx); err != nil {
		return err
	}
	solver := sim.Address("a solver")
	e.net.Mint(solver, "", money.MustParse("1000000000000000000000"))
	e.net.Mint(solver, sim.Address(swapToken0x), money.Units(swapOut*swapDeliveries))
	work, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() { _ = e.Walker(chain.Ethereum).Run(work) })
	wg.Go(func() { _ = e.Deposits.RunArrivals(work) })
	var took durations
	for _, made := range created {
		latency, err := e.deliver(ctx, solver, made)
		if err != nil {
			cancel()
			wg.Wait()
			return err
		}
		took = append(took, latency)
	}
	cancel()
	wg.Wait()
	p50 := took.percentile(0.5)
	w.table.addRow(row{
		figure: "delivery of a swap, from the reading of its final block to the commit of its event",
		result: fmt.Sprintf("p50 %s, p99 %s", formatDuration(p50), formatDuration(took.percentile(0.99))),
		target: formatTarget(p50 < 150*time.Millisecond, "p50 < 150 ms"),
	})
	return nil
}

// payAll takes steps until every swap is paid. A payment that waited for a sweep is looked at again after
// some seconds.
func (e *swapEnv) payAll(ctx context.Context) error {
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); sleepContext(ctx, 50*time.Millisecond) {
		if err := e.step(ctx, 1); err != nil {
			return err
		}
		var unpaid int
		err := e.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
			return tx.QueryRow(ctx, `SELECT count(*) FROM swaps WHERE paid_at IS NULL`).Scan(&unpaid)
		})
		if err != nil || unpaid == 0 {
			return err
		}
	}
	return errors.New("the swaps were not paid in two minutes")
}

// deliveryWait bounds how long one delivery may take.
const deliveryWait = 20 * time.Second

func (e *swapEnv) deliver(ctx context.Context, solver chain.Address, made swap.Swap) (time.Duration, error) {
	var address chain.Address
	err := e.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		w, err := wallet.ByID(ctx, tx, made.DeliveryWalletID)
		address = w.Address
		return err
	})
	if err != nil {
		return 0, err
	}
	hash := e.net.SubmitTx(solver, sim.Move{
		To: address, Contract: sim.Address(swapToken0x), Amount: money.Units(swapOut),
	})
	e.net.Mine(1)
	e.net.MineEmpty(8) // until it is final
	for end := time.Now().Add(deliveryWait); time.Now().Before(end); sleepContext(ctx, time.Millisecond) {
		var height uint64
		err := e.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
			return tx.QueryRow(ctx, `
				SELECT d.height FROM deposits d JOIN events e ON e.resource_id = d.deposit_id
				WHERE d.tx_hash = $1 AND d.completes_swap`, hash).Scan(&height)
		})
		if err != nil {
			continue // it is not committed yet
		}
		readAt, isRead := e.net.firstRead.Load(height)
		if !isRead {
			return 0, fmt.Errorf("block %d was not read", height)
		}
		return time.Since(readAt.(time.Time)), nil
	}
	return 0, fmt.Errorf("the delivery of swap %s did not arrive in %s", made.ID, deliveryWait)
}

func (w *benchEnv) benchQuoteVerification(ctx context.Context, e *swapEnv) error {
	offer, err := e.provider.Quote(ctx, provider.Ask{
		IsFirm: true, AmountIn: money.Units(swapUnits), Recipient: "0x1", RefundTo: "0x2", SlippageBps: 100,
	})
	if err != nil {
		return err
	}
	var took durations
	for end := time.Now().Add(time.Second); time.Now().Before(end); {
		began := time.Now()
		if _, err := signedquote.VerifyOneClick(offer.Raw, e.provider.pub); err != nil {
			return err
		}
		took = append(took, time.Since(began))
	}
	p50 := took.percentile(0.5)
	w.table.addRow(row{
		figure: "verification of a signed quote on one core",
		result: fmt.Sprintf("p50 %s, p99 %s", formatDuration(p50), formatDuration(took.percentile(0.99))),
		target: formatTarget(p50 < 500*time.Microsecond, "p50 < 0.5 ms"),
	})
	return nil
}
