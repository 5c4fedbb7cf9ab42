package utxo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/btcsuite/btcd/chaincfg/v2"

	"github.com/cofferpay/coffer/internal/app"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/rescue"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
)

// loseEverything deletes database and journal. What is left is the seed, and a configuration that
// is written anew.
func (n btcdEnv) loseEverything() app.Config {
	n.Helper()
	var conf app.Config
	conf.Network = chain.Local
	conf.Keys, conf.Signer = app.KeyFiles(n.dir)
	n.mustSucceed(os.Rename(conf.Signer.Journal, filepath.Join(n.T.TempDir(), "lost")))
	n.mustSucceed(os.WriteFile(conf.Signer.Policy, fmt.Appendf(nil,
		`{"chains": {"BITCOIN": {"signerId": %q, "feeMax": "200000", "gasMax": "0", "unlimited": true}}}`,
		chaincfg.RegressionNetParams.GenesisHash), 0o600))
	// About three outputs cost as much as one transaction may cost here.
	conf.Chains = map[chain.Name]app.Chain{chain.Bitcoin: {
		Endpoints: []string{n.url}, Agree: 1, Depth: depth, CostMax: "2500", RateMin: 10_000, StartHeight: n.start,
	}}
	conf.Mints = []app.Mint{{
		ID: btc, Chain: chain.Bitcoin, Symbol: "BTC", Name: "Bitcoin", Decimals: 8, MinDeposit: "1", MinWithdraw: "1",
	}}
	return conf
}

// small is an output that costs more to spend than its amount, at the fee rate of the rescue.
const small = 600

// Rule COIN-9, on a real chain: deposits in both forms, withdrawals with change outputs, and then
// only the seed and the customers' ids are left.
func TestFromTheSeedAloneAllBitcoinsComeOut(t *testing.T) {
	t.Parallel()
	n := newBtcdEnv(t)
	n.payWallet(n.treasury, 100_000)
	n.payWallet(n.alice, 25_000_000)
	checkout, err := n.Wallets.Address(n.ctx, signer.WalletRef{
		OrgID: n.org, Family: chain.BitcoinFamily, Purpose: wallet.OrganizationDeposit, Subject: "CHECKOUT",
	})
	n.mustSucceed(err)
	n.payWallet(checkout, 3_000_000)
	bob := n.issueAddress("bob", chain.Taproot)
	_, err = n.PayAddress(n.ctx, bob.Address, 4_000_000)
	n.mustSucceed(err)
	n.finalizeAll()
	for range 3 {
		id := n.requestWithdrawalTo(5_000_000, newPayee(t))
		n.runAllSteps()
		n.wantStatus(id, "BROADCAST")
		n.finalizeAll()
		n.wantStatus(id, "PAID")
	}
	for range 3 {
		n.payWallet(n.alice, 50_000)
	}
	n.payWallet(n.alice, small) // not worth its fee
	n.finalizeAll()
	n.checkBooks()
	if got := n.queryText(
		`SELECT string_agg(subject, ' ' ORDER BY subject) FROM wallets WHERE purpose = 'CHANGE'`,
	); got != "1 2 3" {
		t.Fatalf("got wallets for change %q, want 1 2 3", got)
	}
	lost, err := money.Parse(n.queryText(`SELECT sum(amount)::text FROM utxos WHERE status IN ('FREE', 'HELD')`))
	n.mustSucceed(err)
	pgtest.OwnerPool(n.T, n.db)

	conf := n.loseEverything()
	safe := newPayee(t)
	order := rescue.Order{
		Org: n.org, Customers: []string{"alice", "bob"}, Chain: chain.Bitcoin, Destination: string(safe),
	}
	run := func(ctx context.Context, tell func(string)) (held money.Amount, err error) {
		r, closeSigner, err := app.PrepareRescue(n.ctx, conf, order)
		n.mustSucceed(err)
		defer func() { n.mustSucceed(closeSigner()) }()
		for _, h := range r.Holdings {
			held, err = held.Add(h.Amount)
			n.mustSucceed(err)
		}
		return held, r.Run(ctx, tell)
	}
	// The first run ends before any block has what it sent, and the second goes on.
	short, cancel := context.WithTimeout(n.ctx, 3*time.Second)
	defer cancel()
	held, err := run(short, func(string) {})
	if held != lost || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v found and %v, want %v, and no end before a block is mined", held, err, lost)
	}
	var told []string // nothing that an earlier run sent and that was mined before this run looked
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		// Empty blocks are rarer: on a busy machine the rescue asks for the outputs of a wallet for
		// longer than a tick, and the newest block must not change meanwhile.
		for empty := 0; ; {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			var waiting []string
			if err := n.CallRPC(n.ctx, &waiting, "getrawmempool"); err != nil {
				t.Error(err)
			}
			if empty++; len(waiting) == 0 && empty < 5 {
				continue
			}
			if _, err := n.MineBlocks(n.ctx, 1); err != nil {
				t.Error(err)
			}
			empty = 0
		}
	})
	_, err = run(n.ctx, func(line string) { told = append(told, line) })
	close(done)
	wg.Wait()
	n.mustSucceed(err)
	for range depth {
		_, err := n.MineBlocks(n.ctx, 1)
		n.mustSucceed(err)
	}
	// The difference is only fees, and outputs that are not worth their fee.
	sum, moves := money.Units(small), 0
	sum, err = sum.Add(n.finalBalance(safe))
	n.mustSucceed(err)
	heads, err := n.plan.Chain.Reader.Heads(n.ctx)
	n.mustSucceed(err)
	for height := n.start; height <= heads.Final.Height; height++ {
		block, err := n.plan.Chain.Reader.Final(n.ctx, height)
		n.mustSucceed(err)
		for _, moved := range block.Transfers {
			if moved.To != safe {
				continue
			}
			moves++
			out, err := n.plan.Chain.Sender.Outcome(n.ctx, []chain.TxHash{moved.Tx}, chain.Payment{
				To: safe, Amount: moved.Amount,
			})
			n.mustSucceed(err)
			if out == nil || !out.Paid {
				t.Fatalf("%s: got %+v, want it paid", moved.Tx, out)
			}
			sum, err = sum.Add(out.Fee)
			n.mustSucceed(err)
		}
	}
	if sum != lost || moves < 2 {
		t.Errorf(
			"got %v with fees by %d transactions, want %v by several\n%s", sum, moves, lost, strings.Join(told, "\n"),
		)
	}
	if !strings.Contains(strings.Join(told, "\n"), "1 outputs are left that are not worth their fee") {
		t.Errorf("got told %q, want what is left", told)
	}
	left, err := run(n.ctx, func(string) {})
	if left != money.Units(small) || err != nil {
		t.Errorf("afterwards: got %v, %v, want nothing but what is not worth its fee", left, err)
	}

	// A search from the beginning covers more customers, and a look-ahead finds numbers although no
	// number before them was paid.
	far, err := n.seed.DeriveWallet(signer.WalletRef{
		OrgID: n.org, Family: chain.BitcoinFamily, Purpose: wallet.Change, Subject: strconv.Itoa(900),
	})
	n.mustSucceed(err)
	_, err = n.PayAddress(n.ctx, far.Address(), 1_000_000)
	n.mustSucceed(err)
	for range depth {
		_, err := n.MineBlocks(n.ctx, 1)
		n.mustSucceed(err)
	}
	order.Customers = []string{"alice"}
	order.Destination = ""
	r, closeSigner, err := app.PrepareRescue(n.ctx, conf, order)
	n.mustSucceed(err)
	defer closeSigner()
	if len(r.Holdings) != 2 || r.Holdings[0].Wallet.Subject != "900" || r.Holdings[0].Amount != money.Units(1_000_000) {
		t.Errorf("got %+v, want number 900 beside what is left", r.Holdings)
	}
}
