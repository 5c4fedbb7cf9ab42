package utxo

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/chaincfg/v2"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/bitcoin"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/localworld/btcd"
	"github.com/cofferpay/coffer/internal/localworld/btcd/btcdtest"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/local"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/internal/wire"
	"github.com/cofferpay/coffer/webhook"
)

const (
	depth = 3 // blocks until final
	large = 30_000_000
	deep  = 6 // blocks until a deposit above that amount is credited
)

// btcdEnv is the service on a real chain, with the signer that a service has.
type btcdEnv struct {
	*testEnv
	*btcd.Node
	url   string // with user and password
	start uint64 // the height of the first block that the walk reads
}

func newBtcdEnv(t *testing.T) btcdEnv { return newBtcdEnvWith(t, bitcoin.Config{}) }

// newBtcdEnvWith is newBtcdEnv with its own chain configuration.
func newBtcdEnvWith(t *testing.T, conf bitcoin.Config) btcdEnv {
	t.Helper()
	n := btcdtest.Start(t, btcd.Config{})
	u, err := url.Parse(n.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(btcd.User, n.Password)
	conf.Network, conf.Endpoints, conf.Quorum, conf.Confirmations, conf.CostMax =
		chain.Local, []string{u.String()}, 1, depth, money.Units(200_000)
	conf.Tiers = chain.Tiers{{Above: money.Units(large), Depth: deep}}
	on, err := bitcoin.New(t.Context(), conf)
	if err != nil {
		t.Fatal(err)
	}
	height, err := n.TipHeight(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	h := buildTestEnv(t, on, uint64(height), local.Policy{
		WhitelistCoolingOff: "0s",
		Chains: map[chain.Name]local.ChainPolicy{
			chain.Bitcoin: {
				SignerID: chaincfg.RegressionNetParams.GenesisHash.String(), FeeMax: money.Units(200_000),
				GasMax: money.Units(200_000), Unlimited: true,
			},
		},
	}, func(s *local.Signer, _ signer.Entry) signer.Signer { return s })
	return btcdEnv{h, n, u.String(), uint64(height)}
}

// finalizeAll mines blocks until what waits is final.
func (n btcdEnv) finalizeAll() {
	n.Helper()
	for range depth {
		if _, err := n.MineBlocks(n.ctx, 1); err != nil {
			n.Fatal(err)
		}
		n.runAllSteps()
	}
}

func (n btcdEnv) payWallet(to wallet.Wallet, satoshi int64) {
	n.Helper()
	_, err := n.PayAddress(n.ctx, to.Address, satoshi)
	n.mustSucceed(err)
}

// spentAmounts lists the amounts of the inputs of an order's slot.
func (n btcdEnv) spentAmounts(id string) (all []money.Amount) {
	n.Helper()
	var slotKey string
	n.mustSucceed(pgtest.OwnerPool(n.T, n.db).QueryRow(
		n.ctx, `SELECT slot_key FROM dispatch_slots WHERE order_id = $1`, id,
	).Scan(&slotKey))
	coins, err := n.plan.Chain.UTXO.Inputs(slotKey)
	n.mustSucceed(err)
	for _, c := range coins {
		all = append(all, c.Amount)
	}
	return all
}

// finalBalance returns the final balance of an address.
func (n btcdEnv) finalBalance(a chain.Address) money.Amount {
	n.Helper()
	heads, err := n.plan.Chain.Reader.Heads(n.ctx)
	n.mustSucceed(err)
	has, err := n.plan.Chain.Reader.Balances(n.ctx, heads.Final, []chain.Holding{{Address: a}})
	n.mustSucceed(err)
	return has[0]
}

func newPayee(t *testing.T) chain.Address {
	t.Helper()
	k, err := btcec.NewPrivateKey()
	if err != nil {
		t.Fatal(err)
	}
	return btcd.KeyAddress(k)
}

// Rules COIN-1, COIN-4 and COIN-5, on a real chain with the real signer, and with a fee bump of a
// payment that waits.
func TestOnARealChainADepositsOutputPaysAndItsRestPaysTheNext(t *testing.T) {
	t.Parallel()
	n := newBtcdEnv(t)
	n.payWallet(n.treasury, 100_000) // fees
	n.payWallet(n.alice, 25_000_000)
	n.finalizeAll()
	n.wantOutputs("FREE 100000", "FREE 25000000")
	n.checkBooks()

	to := newPayee(t)
	first := n.requestWithdrawalTo(10_000_000, to)
	n.runAllSteps()
	n.wantStatus(first, "BROADCAST")
	if got := n.spentAmounts(first); !slices.Contains(got, money.Units(25_000_000)) {
		t.Errorf("the first payment spends %v, want the customer's deposit", got)
	}
	n.advanceClock(2 * time.Hour) // no block is mined
	n.runAllSteps()
	if got := queryCount(n.testEnv, `SELECT count(*) FROM dispatch_attempts WHERE tx_hash IS NOT NULL`); got < 2 {
		t.Errorf("got %d transactions after two hours without a block, want a dearer one", got)
	}
	n.finalizeAll()
	n.wantStatus(first, "PAID")
	if got := n.finalBalance(to); got != money.Units(10_000_000) {
		t.Errorf("the first payee has %v, want 10000000", got)
	}
	if got := queryCount(
		n.testEnv, `SELECT count(*) FROM utxos WHERE status = 'FREE' AND amount > 14000000`,
	); got != 1 {
		t.Errorf("got %d free coins of the rest, want one", got)
	}
	n.checkBooks()

	to = newPayee(t)
	second := n.requestWithdrawalTo(12_000_000, to)
	n.runAllSteps()
	n.wantStatus(second, "BROADCAST")
	n.finalizeAll()
	n.wantStatus(second, "PAID")
	if got := n.finalBalance(to); got != money.Units(12_000_000) {
		t.Errorf("the second payee has %v, want 12000000", got)
	}
	if got := queryCount(
		n.testEnv, `SELECT count(*) FROM utxos WHERE order_id = $1 AND status = 'SPENT'`, second,
	); got == 0 {
		t.Error("no coin is the second payment's")
	}
	n.checkBooks()
	if got := queryCount(n.testEnv, `SELECT count(*) FROM deposits`); got != 2 {
		t.Errorf("got %d deposits, want the two that came from outside: what comes back is none", got)
	}
}

// mineBlock mines one block.
func (n btcdEnv) mineBlock() {
	n.Helper()
	_, err := n.MineBlocks(n.ctx, 1)
	n.mustSucceed(err)
	n.runAllSteps()
}

// onlyDeposit returns the organization's only deposit in these states, as the organization sees it.
func (n btcdEnv) onlyDeposit(states ...string) (d webhook.Deposit) {
	n.Helper()
	n.mustSucceed(n.db.ReadOrg(n.ctx, n.org, func(ctx context.Context, tx pg.Tx) error {
		found, err := deposit.List(ctx, tx, n.org, deposit.Filter{CustomerID: "alice"}, pagination.Page{})
		for _, is := range found.Items {
			if slices.Contains(states, string(is.Status)) {
				d = wire.Deposit(is)
			}
		}
		return err
	}))
	return d
}

// Rule DEP-43, on a real chain.
func TestOnARealChainALargeDepositIsCreditedWhenItIsDeep(t *testing.T) {
	t.Parallel()
	n := newBtcdEnv(t)
	n.finalizeAll() // the walk is at work
	n.payWallet(n.alice, large)
	n.payWallet(n.alice, large+1)
	for blocks := int64(1); blocks <= deep; blocks++ {
		n.mineBlock()
		small, big := "CREDITED", "SCREENING"
		switch {
		case blocks < depth:
			small, big = "CONFIRMING", "CONFIRMING"
		case blocks == deep:
			big = "CREDITED"
		}
		want := map[string][3]any{fmt.Sprint(large): {small, blocks, int64(depth)}, fmt.Sprint(large + 1): {
			big, blocks, int64(deep),
		}}
		n.mustSucceed(n.db.ReadOrg(n.ctx, n.org, func(ctx context.Context, tx pg.Tx) error {
			found, err := deposit.List(ctx, tx, n.org, deposit.Filter{CustomerID: "alice"}, pagination.Page{})
			if len(found.Items) != len(want) {
				t.Errorf("with %d blocks: got %d deposits, want %d", blocks, len(found.Items), len(want))
			}
			for _, item := range found.Items {
				is := wire.Deposit(item)
				if got := [3]any{is.Status, is.Confirmations, is.ConfirmationsRequired}; got != want[is.Amount] {
					t.Errorf("with %d blocks: got %s as %v, want %v", blocks, is.Amount, got, want[is.Amount])
				}
			}
			return err
		}))
		switch {
		case blocks == deep:
			n.wantOutputs(fmt.Sprint("FREE ", large), fmt.Sprint("FREE ", large+1))
		case blocks >= depth:
			n.wantOutputs(fmt.Sprint("FREE ", large), fmt.Sprint("HELD ", large+1))
		}
		n.checkBooks()
	}
}

// Rule COIN-2, on a real chain with the real signer.
func TestOnARealChainAFlaggedDepositGoesBackByItsOwnOutput(t *testing.T) {
	t.Parallel()
	n := newBtcdEnv(t)
	n.payWallet(n.treasury, 100_000) // fees
	n.payWallet(n.alice, 20_000_000)
	n.finalizeAll()
	sender := btcd.FaucetAddress()
	n.fakeScreener.mu.Lock()
	n.severities[sender] = risk.Severe
	n.fakeScreener.mu.Unlock()
	const units = 25_000_000
	n.payWallet(n.alice, units)
	n.finalizeAll()
	n.wantOutputs("FREE 100000", "FREE 20000000", "HELD 25000000")
	d := n.onlyDeposit("FLAGGED")
	// No other payment spends the output.
	if paid := n.requestWithdrawalTo(15_000_000, newPayee(t)); n.withdrawalStatus(paid) != "QUEUED" {
		t.Fatalf("got %s, want a payment that waits for its slot", n.withdrawalStatus(paid))
	}
	n.runAllSteps()
	if got := queryCount(
		n.testEnv, `SELECT count(*) FROM utxos WHERE status = 'HELD' AND amount = $1`, units,
	); got != 1 {
		t.Error("the flagged coin is not held any more")
	}
	n.finalizeAll()
	n.checkBooks()
	_, err := n.Deposits.Reject(n.ctx, d.DepositID, deposit.Actor{Actor: audit.Operator("op_1")}, "")
	n.mustSucceed(err)
	n.runAllSteps()
	id := n.returnOrder(d.DepositID)
	n.wantStatus(id, "BROADCAST")
	if got := n.spentAmounts(id); !slices.Contains(got, money.Units(units)) {
		t.Errorf("the return spends %v, want the flagged coin", got)
	}
	n.checkBooks()
	n.finalizeAll()
	n.wantStatus(id, "PAID")
	var tx string
	n.mustSucceed(pgtest.OwnerPool(t, n.db).QueryRow(
		n.ctx, `SELECT tx_hash FROM dispatch_orders WHERE order_id = $1`, id,
	).Scan(&tx))
	var sent struct {
		Vout []struct {
			Value        json.Number
			ScriptPubKey struct{ Address string }
		}
	}
	n.mustSucceed(n.CallRPC(n.ctx, &sent, "getrawtransaction", tx, 1))
	back := ""
	for _, out := range sent.Vout {
		if out.ScriptPubKey.Address == string(sender) {
			back = out.Value.String()
		}
	}
	if back != "0.25" {
		t.Errorf("got %s BTC back at its sender by %+v, want 0.25", back, sent)
	}
	if got := queryCount(
		n.testEnv, `SELECT count(*) FROM utxos WHERE status = 'SPENT' AND amount = $1 AND order_id = $2`, units, id,
	); got != 1 {
		t.Error("the flagged coin is not spent by its return")
	}
	if d := n.onlyDeposit("REJECTED"); d.Amount != fmt.Sprint(units) {
		t.Errorf("got %+v, want the deposit rejected", d)
	}
	n.checkBooks()
}

// Rule COIN-1, for an organization's own deposits: the first caller creates the address, and
// callers at the same moment get the same one.
func TestOnARealChainAnOrganizationsOwnDepositsAreItsProducts(t *testing.T) {
	t.Parallel()
	n := newBtcdEnv(t)
	o, _, err := org.Create(n.ctx, n.db, "Second")
	n.mustSucceed(err)
	counter := deposit.AddressService{DB: n.db, Chains: n.Chains, Wallets: n.Wallets}
	type asked struct {
		product string
		given   deposit.IssuedAddress
		err     error
	}
	answers := make(chan asked)
	for _, product := range ledger.Products {
		for range 3 {
			go func() {
				given, err := counter.IssueForProduct(n.ctx, o.ID, btc, product)
				answers <- asked{product, given, err}
			}()
		}
	}
	at := map[string]chain.Address{}
	all := map[chain.Address]bool{}
	for range 3 * len(ledger.Products) {
		a := <-answers
		n.mustSucceed(a.err)
		if is, err := n.plan.Chain.AddressCodec.Parse(string(a.given.Address)); err != nil || is != a.given.Address ||
			a.given.PaymentURI != "bitcoin:"+string(is) {
			t.Errorf(
				"%s: got %q and %q, %v, want an address of the chain", a.product, a.given.Address, a.given.PaymentURI,
				err,
			)
		}
		if before, known := at[a.product]; known && before != a.given.Address {
			t.Errorf("%s: got %s and %s, want one address", a.product, before, a.given.Address)
		}
		at[a.product], all[a.given.Address] = a.given.Address, true
	}
	if len(all) != len(ledger.Products) {
		t.Errorf("got %d addresses of %d products", len(all), len(ledger.Products))
	}
	for _, product := range ledger.Products {
		_, err := n.PayAddress(n.ctx, at[product], 1_000_000)
		n.mustSucceed(err)
	}
	n.finalizeAll()
	for _, product := range ledger.Products {
		n.mustSucceed(n.db.ReadOrg(n.ctx, o.ID, func(ctx context.Context, tx pg.Tx) error {
			got, err := ledger.Balance(ctx, tx, ledger.Account{
				OrgID: o.ID, MintID: btc, Kind: ledger.Product, Subject: product,
			})
			if err == nil && got != money.Units(1_000_000) {
				t.Errorf("%s has %v, want 1000000", product, got)
			}
			return err
		}))
	}
	n.wantOutputs("FREE 1000000", "FREE 1000000", "FREE 1000000")
	n.checkBooks()
}
