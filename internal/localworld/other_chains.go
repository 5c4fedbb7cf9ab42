package localworld

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/btcsuite/btcd/chaincfg/v2"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sync/errgroup"

	"github.com/cofferpay/coffer/internal/app"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/localworld/anvil"
	"github.com/cofferpay/coffer/internal/localworld/btcd"
	"github.com/cofferpay/coffer/internal/localworld/surfpool"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/signpolicy"
)

// AllChains are the chains that a local world can have, Ethereum first.
var AllChains = []chain.Name{chain.Ethereum, chain.Solana, chain.Bitcoin}

const (
	// slotTime makes a block final on Solana after eight seconds, since finality is 31 slots
	// behind. A person watches, and sees a deposit before it is final.
	slotTime = 250 * time.Millisecond
	// bitcoinBlockTime makes three confirmations take six seconds.
	bitcoinBlockTime = 2 * time.Second
	// With Options.QuickBlocks, blocks come quickly while a transaction waits for its finality, and seldom
	// otherwise: each block costs the service some statements, whatever is in it.
	quickIdleSlotTime     = 500 * time.Millisecond
	quickSlotTime         = 100 * time.Millisecond
	quickBitcoinBlockTime = 700 * time.Millisecond

	bitcoinDecimals = 8

	// Amounts that this world's operator sends to the treasuries.
	treasurySOL = 100
	// It covers fees alone, so that payments spend what customers deposit.
	treasurySatoshi = 5_000_000
)

// otherChains are the chains of a world other than Ethereum; a chain that it does not have is nil.
type otherChains struct {
	solana  *surfpool.Node
	bitcoin *btcd.Node
}

// hasChain reports whether the world shall have a chain.
func (w *World) hasChain(name chain.Name) bool { return slices.Contains(w.opts.Chains, name) }

// chainList returns the names of the chains for a person.
func (w *World) chainList() string {
	names := []string{"Ethereum"}
	if w.hasChain(chain.Solana) {
		names = append(names, "Solana")
	}
	if w.hasChain(chain.Bitcoin) {
		names = append(names, "Bitcoin")
	}
	if last := len(names) - 1; last > 0 {
		return strings.Join(names[:last], ", ") + " and " + names[last]
	}
	return names[0]
}

// dropUnavailableChains removes chains that this machine cannot run, and says so.
func (w *World) dropUnavailableChains() {
	if !w.hasChain(chain.Solana) {
		return
	}
	leaveOut := func(reason string) {
		w.opts.Progress("Solana is left out: %s", reason)
		w.opts.Chains = slices.DeleteFunc(
			slices.Clone(w.opts.Chains), func(n chain.Name) bool { return n == chain.Solana },
		)
	}
	if w.opts.StateDir != "" && !w.opts.SingleRun {
		leaveOut("surfpool, its local chain, keeps no state after it ends, so a kept world does not have it")
	} else if _, err := surfpool.Find(); err != nil && runtime.GOOS+"/"+runtime.GOARCH != "linux/amd64" {
		leaveOut("surfpool, its local chain, runs only on Linux with glibc on x86_64")
	}
}

// startOtherChains starts the chains other than Ethereum.
func (w *World) startOtherChains(ctx context.Context, g *errgroup.Group) {
	lasting := context.WithoutCancel(ctx)
	if w.hasChain(chain.Solana) {
		g.Go(func() (err error) {
			conf := surfpool.Config{SlotTime: cmp.Or(w.opts.SlotTime, slotTime)}
			if w.opts.QuickBlocks {
				conf.SlotTime, conf.BusySlotTime = quickIdleSlotTime, quickSlotTime
			}
			if w.opts.ManualBlocks {
				conf.SlotTime = 0
			}
			w.otherChains.solana, err = surfpool.Start(lasting, conf)
			return err
		})
	}
	if w.hasChain(chain.Bitcoin) {
		g.Go(func() error {
			slow := time.AfterFunc(
				3*time.Second, func() { w.opts.Progress("building btcd, the local Bitcoin node: half a minute, once") },
			)
			program, err := btcd.Find(ctx)
			slow.Stop()
			if err != nil {
				return err
			}
			conf := btcd.Config{Program: program, BlockTime: bitcoinBlockTime}
			if w.opts.QuickBlocks {
				conf.BlockTime = quickBitcoinBlockTime
			}
			if w.opts.ManualBlocks {
				conf.BlockTime = 0
			}
			if w.opts.StateDir != "" {
				conf.State = filepath.Join(w.dir, "bitcoin.blocks")
			}
			w.otherChains.bitcoin, err = btcd.Start(lasting, conf)
			return err
		})
	}
}

// writePolicy writes the signer's policy for a configuration with its chains and mints. It has no limits, since nothing
// here has a value, except a cap on the cost of one transaction and one top-up. Nothing cools off: tests and
// demonstrations cannot wait a day.
func (w *World) writePolicy(conf app.Config) error {
	policy := signpolicy.Policy{
		WhitelistCoolingOff: "0s", Chains: map[chain.Name]signpolicy.Chain{}, Swaps: w.swapPolicy(),
		Approvers: &signpolicy.Approvers{
			RelyingParties: []signpolicy.RelyingParty{{
				ID: "localhost", Origins: []string{conf.Dashboard.Origin, conf.Console.Origin},
			}},
			CoolingOff: "0s", RecoveryCoolingOff: "0s",
		},
	}
	add := func(name chain.Name, id, costMax string) {
		limit := money.MustParse(costMax)
		tokens := map[chain.Address]signer.Token{}
		for _, m := range conf.Mints {
			if m.Chain == name {
				tokens[chain.Address(m.Contract)] = signer.Token{Symbol: m.Symbol, Decimals: m.Decimals}
			}
		}
		policy.Chains[name] = signpolicy.Chain{
			SignerID: id, FeeMax: limit, GasMax: limit, Tokens: tokens, Unlimited: true,
		}
	}
	add(chain.Ethereum, fmt.Sprint(anvil.DefaultChainID), "1000000000000000000")
	if n := w.otherChains.solana; n != nil {
		add(chain.Solana, n.Genesis, "1000000000")
	}
	if w.otherChains.bitcoin != nil {
		add(chain.Bitcoin, chaincfg.RegressionNetParams.GenesisHash.String(), "10000000")
	}
	text, err := json.Marshal(policy, json.Deterministic(true), jsontext.WithIndent("  "))
	if err == nil {
		err = os.WriteFile(conf.Signer.Policy, append(text, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("write the signer's policy: %w", err)
	}
	return nil
}

// configureOtherChains adds the chains other than Ethereum with their mints. The ids must never
// change.
func (w *World) configureOtherChains(conf *app.Config) {
	if n := w.otherChains.solana; n != nil {
		conf.Chains[chain.Solana] = app.Chain{
			Genesis: n.Genesis, Endpoints: []string{n.URL}, Agree: 1, StartHeight: n.CurrentSlot() - 1,
		}
		baseMint := app.Mint{
			Chain: chain.Solana, DepositEnabled: true, WithdrawEnabled: true, ConfirmationsRequired: surfpool.Finality,
			Finality: "FINALIZED",
			Decimals: 6, MinDeposit: "10000", MinWithdraw: "10000", // a cent
		}
		usdc, usdt, sol := baseMint, baseMint, baseMint
		usdc.ID, usdc.Contract, usdc.Symbol, usdc.Name = 5, string(surfpool.USDC), "USDC", "USD Coin"
		usdt.ID, usdt.Contract, usdt.Symbol, usdt.Name = 6, string(surfpool.USDT), "USDT", "Tether USD"
		sol.ID, sol.Symbol, sol.Name, sol.Decimals = 7, "SOL", "Solana", 9
		sol.MinDeposit, sol.MinWithdraw = "1000000", "1000000" // 0.001
		conf.Mints = append(conf.Mints, usdc, usdt, sol)
		conf.Prices.Fixed["5"], conf.Prices.Fixed["6"], conf.Prices.Fixed["7"] = "1.00", "1.00", "150.00"
		conf.Prices.Pegged = append(conf.Prices.Pegged, 5, 6)
	}
	if n := w.otherChains.bitcoin; n != nil {
		conf.Chains[chain.Bitcoin] = app.Chain{
			Endpoints: []string{withUser(n.URL, n.Password)}, Agree: 1, StartHeight: btcd.Maturity, CostMax: "200000",
		}
		conf.Mints = append(conf.Mints, app.Mint{
			ID: 8, Chain: chain.Bitcoin, Symbol: "BTC", Name: "Bitcoin", Decimals: bitcoinDecimals,
			DepositEnabled: true, WithdrawEnabled: true,
			MinDeposit: "10000", MinWithdraw: "10000", ConfirmationsRequired: 3, Finality: "DEPTH", // 0.0001
		})
		conf.Prices.Fixed["8"] = "60000.00"
	}
}

// withUser adds the user of btcd to its URL.
func withUser(nodeURL, password string) string {
	u, err := url.Parse(nodeURL)
	if err != nil {
		panic("localworld: btcd answers at " + nodeURL)
	}
	u.User = url.UserPassword(btcd.User, password)
	return u.String()
}

// fundOtherTreasuries sends the coin for fees to the treasuries. The clocks of the chains make the
// blocks with these transactions, or the caller makes them with Options.ManualBlocks.
func (w *World) fundOtherTreasuries(ctx context.Context) error {
	if n := w.otherChains.solana; n != nil {
		// surfpool begins anew at each start, so the treasury is empty.
		treasury, err := w.app.Wallets.Treasury(ctx, w.Info.OrganizationID, chain.SolanaFamily)
		if err == nil {
			w.opts.Progress("the operator sends %d SOL of gas to the treasury %s", treasurySOL, treasury.Address)
			_, err = n.PayLamports(ctx, treasury.Address, treasurySOL*surfpool.LamportsPerSOL)
		}
		if err != nil {
			return fmt.Errorf("fund the treasury on Solana: %w", err)
		}
	}
	if n := w.otherChains.bitcoin; n != nil {
		treasury, err := w.app.Wallets.Treasury(ctx, w.Info.OrganizationID, chain.BitcoinFamily)
		used := false
		if err == nil {
			// The top-up of an earlier start may still lack confirmations, or be spent already.
			used, err = n.IsAddressUsed(ctx, treasury.Address)
		}
		if err == nil && !used {
			w.opts.Progress(
				"the operator sends %s BTC for fees to the treasury %s",
				money.Units(treasurySatoshi).Decimal(bitcoinDecimals), treasury.Address,
			)
			_, err = n.PayAddress(ctx, treasury.Address, treasurySatoshi)
		}
		if err != nil {
			return fmt.Errorf("fund the treasury on Bitcoin: %w", err)
		}
	}
	return nil
}

func (w *World) describeOtherChains() {
	if n := w.otherChains.solana; n != nil {
		w.Info.Chains[string(chain.Solana)] = Endpoint{RPCURL: n.URL, WSURL: n.WSURL, FaucetKey: surfpool.FaucetKey}
	}
	if n := w.otherChains.bitcoin; n != nil {
		w.Info.Chains[string(chain.Bitcoin)] = Endpoint{
			RPCURL: n.URL, User: btcd.User, Password: n.Password, FaucetKey: btcd.FaucetWIF(),
		}
	}
}

// watchExits sends the name of a node that ended, until ctx ends.
func (o otherChains) watchExits(ctx context.Context) <-chan string {
	exits := make(chan string, 2)
	watch := func(name string, exited <-chan struct{}) {
		go func() {
			select {
			case <-exited:
				exits <- name
			case <-ctx.Done():
			}
		}()
	}
	if o.solana != nil {
		watch("surfpool", o.solana.Done())
	}
	if o.bitcoin != nil {
		watch("btcd", o.bitcoin.Done())
	}
	return exits
}

func (o *otherChains) stopNodes() error {
	var errs []error
	if o.solana != nil {
		errs = append(errs, o.solana.Stop())
		o.solana = nil
	}
	if o.bitcoin != nil {
		errs = append(errs, o.bitcoin.Stop())
		o.bitcoin = nil
	}
	return errors.Join(errs...)
}
