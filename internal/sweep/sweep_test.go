package sweep_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/journal"
	"github.com/cofferpay/coffer/internal/ledger/ledgertest"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/sweep"
	"github.com/cofferpay/coffer/internal/wallet"
)

const (
	usdc = 1
	eth  = 2
)

// testEnv is a chain with a Sweeper and two organizations.
type testEnv struct {
	*testing.T
	ctx       context.Context
	db        *pg.DB
	chain     *sim.Chain
	signer    signer.Signer
	wallets   *wallet.Service
	sweeper   *sweep.Sweeper
	now       time.Time
	org, org2 string
}

func newTestEnv(t *testing.T) *testEnv {
	t.Helper()
	y := &testEnv{T: t, ctx: t.Context(), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	clock := func() time.Time { return y.now }
	y.db = pgtest.NewWithClock(t, clock)
	y.chain = sim.New(sim.Config{})
	s, attest := signertest.New(t)
	y.signer, y.wallets = s, wallet.New(y.db, s, attest)
	y.must(journal.Import(y.ctx, y.db, s, y.wallets))
	token := mint.Mint{
		ID: usdc, Chain: chain.Ethereum, Network: chain.Local, Kind: mint.Token, Contract: signertest.Token,
		Symbol: "USDC", Name: "USD Coin", Decimals: 6,
		DepositEnabled: true, WithdrawEnabled: true, MinDeposit: money.Units(1), MinWithdraw: money.Units(1),
		Finality: "FINALIZED",
	}
	coin := token
	coin.ID, coin.Kind, coin.Contract, coin.Symbol, coin.Name, coin.Decimals = eth, mint.Native, "", "ETH", "Ether", 18
	y.must(mint.Sync(y.ctx, y.db, []mint.Mint{token, coin}))
	for _, into := range []*string{&y.org, &y.org2} {
		o, _, err := org.Create(y.ctx, y.db, "Acme")
		y.must(err)
		*into = o.ID
	}
	y.sweeper = sweep.New(
		y.db, y.chain.ToChain(), y.wallets, price.Fixed{Clock: clock}, sweep.Config{}, slog.New(slog.DiscardHandler),
	)
	return y
}

func (y *testEnv) must(err error) {
	y.Helper()
	if err != nil {
		y.Fatal(err)
	}
}

func (y *testEnv) inSystem(fn func(ctx context.Context, tx pg.Tx) error) {
	y.Helper()
	y.must(y.db.InSystem(y.ctx, fn))
}

// fundWallet returns a customer's address with these funds on the chain and in the books.
func (y *testEnv) fundWallet(org, customerID string, parts map[wallet.Part]uint64, mintID int) wallet.Wallet {
	y.Helper()
	return y.fundAddress(signertest.Deposit(org, customerID), parts, mintID)
}

// fundAddress is fundWallet for a wallet of any purpose.
func (y *testEnv) fundAddress(ref signer.WalletRef, parts map[wallet.Part]uint64, mintID int) wallet.Wallet {
	y.Helper()
	w, err := y.wallets.Address(y.ctx, ref)
	y.must(err)
	var moves []wallet.Movement
	for part, units := range parts {
		moves = append(moves, wallet.Movement{
			WalletID: w.ID, OrgID: ref.OrgID, MintID: mintID, Part: part, Plus: money.Units(units),
		})
	}
	y.inSystem(func(ctx context.Context, tx pg.Tx) error { return wallet.MoveFunds(ctx, tx, moves...) })
	contract := chain.Address("")
	if mintID == usdc {
		contract = signertest.Token
	}
	y.chain.Mint(w.Address, contract, money.Units(parts[wallet.Credited]+parts[wallet.Dust]))
	return w
}

func (y *testEnv) loadFunds(w wallet.Wallet, mintID int) (f wallet.Funds) {
	y.Helper()
	y.must(y.db.ReadSystem(y.ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		f, err = wallet.LoadFunds(ctx, tx, w.ID, mintID)
		return err
	}))
	return f
}

// orderStates returns the purposes, amounts, statuses and wait reasons of a wallet's orders.
func (y *testEnv) orderStates(w wallet.Wallet) string {
	y.Helper()
	var found string
	y.must(y.db.ReadSystem(y.ctx, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, `
			SELECT coalesce(string_agg(concat_ws(' ', purpose, amount, status, waiting_for), ', ' ORDER BY order_id), 'none')
			FROM dispatch_orders WHERE wallet_id = $1`, w.ID).Scan(&found)
	}))
	return found
}

func (y *testEnv) wantOrders(w wallet.Wallet, want string) {
	y.Helper()
	if got := y.orderStates(w); got != want {
		y.Errorf("orders of %s: got %s, want %s", w.Subject, got, want)
	}
}

func (y *testEnv) countSweeps() int {
	y.Helper()
	made, err := y.sweeper.SweepAll(y.ctx)
	y.must(err)
	return made
}

func TestASweepLeavesWhatIsHeldNotFinalOrNotCredited(t *testing.T) {
	t.Parallel()
	y := newTestEnv(t)
	ann := y.fundWallet(
		y.org, "ann", map[wallet.Part]uint64{wallet.Credited: 1000, wallet.Held: 300, wallet.Dust: 7}, usdc,
	)
	bob := y.fundWallet(y.org, "bob", map[wallet.Part]uint64{wallet.Credited: 500, wallet.Held: 500}, usdc)
	// More funds of ann are on the chain, in a block that is not final.
	y.chain.Mint(ann.Address, signertest.Token, money.Units(40))
	super := pgtest.OwnerPool(t, y.db)
	for _, sql := range []string{
		`INSERT INTO customers (org_id, customer_id, created_at, updated_at) VALUES ($1, 'ann', now(), now())`,
		`INSERT INTO deposits (deposit_id, org_id, wallet_id, purpose, customer_id, mint_id, chain, contract, amount, address, from_address,
			tx_hash, kind, position, log_index, height, block_hash, status, chain_status, created_at)
		 SELECT 'dep_1', org_id, wallet_id, purpose, subject, 1, 'ETHEREUM', '` + string(
			signertest.Token,
		) + `', 40, address, 'f', '0x1', 'TOKEN', '0', 0, 1, 'h', 'CONFIRMING', 'INCLUDED', now()
		 FROM wallets WHERE org_id = $1 AND subject = 'ann'`,
	} {
		_, err := super.Exec(y.ctx, sql, y.org)
		y.must(err)
	}
	if made := y.countSweeps(); made != 1 {
		t.Errorf("got %d sweeps, want one", made)
	}
	y.wantOrders(ann, "SWEEP 700 QUEUED")
	y.wantOrders(bob, "none")
	if f := y.loadFunds(ann, usdc); f.Reserved != money.Units(700) {
		t.Errorf("got %v reserved, want 700", f.Reserved)
	}
	if made := y.countSweeps(); made != 0 {
		t.Errorf("again: got %d sweeps, want none while one is open", made)
	}
}

// Rule DEP-56: the wallets of checkouts are swept as every other, by a signer that knows none of their purposes.
func TestWhatCheckoutsReceivedIsSwept(t *testing.T) {
	t.Parallel()
	y := newTestEnv(t)
	credited := map[wallet.Part]uint64{wallet.Credited: 700}
	own := y.fundAddress(signer.WalletRef{
		OrgID: y.org, Family: chain.EVM, Purpose: wallet.Checkout, Subject: "co_1",
	}, credited, usdc)
	shared := y.fundAddress(signer.WalletRef{
		OrgID: y.org, Family: chain.EVM, Purpose: wallet.CheckoutShared, Subject: "CHECKOUT",
	}, credited, usdc)
	if made := y.countSweeps(); made != 2 {
		t.Errorf("got %d sweeps, want one of each wallet", made)
	}
	y.wantOrders(own, "SWEEP 700 QUEUED")
	y.wantOrders(shared, "SWEEP 700 QUEUED")
}

// Where the chain requires a minimum balance, dust would otherwise block the credited amount, and
// anyone could send dust.
func TestASweepLeavesAsMuchAsTheChainWants(t *testing.T) {
	t.Parallel()
	y := newTestEnv(t)
	ch := y.chain.ToChain()
	ch.MinBalance = money.Units(100)
	y.sweeper = sweep.New(y.db, ch, y.wallets, price.Fixed{}, sweep.Config{}, slog.New(slog.DiscardHandler))
	for _, c := range []struct {
		who            string
		mint           int
		credited, dust uint64
		want           string
	}{
		{"nothing beside it", eth, 1000, 0, "SWEEP 1000 QUEUED"},
		{"a little", eth, 1000, 1, "SWEEP 901 QUEUED"},
		{"enough", eth, 1000, 100, "SWEEP 1000 QUEUED"},
		{"no more than has to stay", eth, 99, 1, "none"},
		{"a token", usdc, 1000, 1, "SWEEP 1000 QUEUED"},
	} {
		w := y.fundWallet(
			y.org, c.who, map[wallet.Part]uint64{wallet.Credited: c.credited, wallet.Dust: c.dust}, c.mint,
		)
		y.countSweeps()
		y.wantOrders(w, c.want)
	}
}

func TestASweepThatTheSignerRefusesGivesBackWhatItReserved(t *testing.T) {
	t.Parallel()
	y := newTestEnv(t)
	ann := y.fundWallet(y.org, "ann", map[wallet.Part]uint64{wallet.Credited: 1000}, usdc)
	y.countSweeps()
	o := dispatch.Order{OrgID: y.org, WalletID: ann.ID, MintID: usdc, Amount: money.Units(1000)}
	y.inSystem(func(ctx context.Context, tx pg.Tx) error {
		if err := tx.QueryRow(ctx, `SELECT sweep_id FROM sweeps`).Scan(&o.ID); err != nil {
			return err
		}
		if _, err := tx.Exec(
			ctx, `UPDATE dispatch_orders SET status = 'REFUSED', ended_at = $2 WHERE order_id = $1`, o.ID, tx.Now,
		); err != nil {
			return err
		}
		return sweep.SweepListener{}.OnRefused(ctx, tx, o, &signer.Refusal{Code: signer.PolicyLimit})
	})
	if f := y.loadFunds(ann, usdc); !f.Reserved.IsZero() || f.Spendable() != money.Units(1000) {
		t.Errorf("got %v reserved and %v to spend, want 0 and 1000", f.Reserved, f.Spendable())
	}
	y.now = y.now.Add(time.Hour)
	if made := y.countSweeps(); made != 1 {
		t.Errorf("after a rest: got %d sweeps, want one", made)
	}
}

func TestAPaymentIsCoveredByAddressesOfItsOwnOrganization(t *testing.T) {
	t.Parallel()
	y := newTestEnv(t)
	ours := y.fundWallet(y.org, "ann", map[wallet.Part]uint64{wallet.Credited: 100}, usdc)
	theirs := y.fundWallet(y.org2, "ann", map[wallet.Part]uint64{wallet.Credited: 900}, usdc)
	treasury, err := y.wallets.Treasury(y.ctx, y.org, chain.EVM)
	y.must(err)
	y.inSystem(func(ctx context.Context, tx pg.Tx) error {
		err := ledgertest.InsertAccepted(ctx, tx, ledgertest.Withdrawal{
			ID: "wd_1", OrgID: y.org, CustomerID: "bob", ToAddress: string(sim.Address("shop")), MintID: usdc,
			Amount: money.Units(80),
		})
		if err != nil {
			return err
		}
		if err := dispatch.Submit(ctx, tx, dispatch.Order{
			ID: "wd_1", OrgID: y.org, Purpose: signer.Payment, Chain: chain.Ethereum, WalletID: treasury.ID,
			To: sim.Address("shop"), MintID: usdc, Contract: signertest.Token, Amount: money.Units(80),
			CustomerID: "bob",
		}); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `UPDATE dispatch_orders SET waiting_for = 'FUNDS', missing_amount = 80`)
		return err
	})
	_, err = y.sweeper.Plan(y.ctx)
	y.must(err)
	y.wantOrders(ours, "SWEEP 100 QUEUED")
	y.wantOrders(theirs, "none")
}

func TestASweepWaitsForGasAndNeverTakesItFromTheCustomersCoin(t *testing.T) {
	t.Parallel()
	y := newTestEnv(t)
	const coin = 1_000_000_000_000_000_000
	ann := y.fundWallet(y.org, "ann", map[wallet.Part]uint64{wallet.Credited: 1000}, usdc)
	y.fundWallet(y.org, "ann", map[wallet.Part]uint64{wallet.Credited: coin}, eth)
	_, err := y.sweeper.SweepWallet(y.ctx, ann.ID, usdc)
	y.must(err)
	desk := dispatch.New(y.db, y.chain.ToChain(), y.signer, journal.RecordEntry, map[signer.Purpose]dispatch.Listener{
		signer.Sweep: sweep.SweepListener{}, signer.GasTopUp: sweep.TopUpListener{},
	}, dispatch.Config{}, slog.New(slog.DiscardHandler))
	_, err = desk.RunRound(y.ctx)
	y.must(err)
	y.wantOrders(ann, "SWEEP 1000 QUEUED GAS")
	if f := y.loadFunds(ann, eth); fmt.Sprint(
		f.Credited, f.Reserved, f.Swept, f.GasReserved,
	) != fmt.Sprint(uint64(coin), 0, 0, 0) {
		t.Errorf("got %+v, want the customer's coin untouched", f)
	}
	if got := len(y.chain.Mempool()); got != 0 {
		t.Errorf("got %d transactions, want none", got)
	}
	made, err := y.sweeper.Plan(y.ctx)
	y.must(err)
	treasury, err := y.wallets.Treasury(y.ctx, y.org, chain.EVM)
	y.must(err)
	if made != 1 || y.orderStates(treasury) == "none" {
		t.Errorf("got %d plans and orders %s of the treasury, want one top-up", made, y.orderStates(treasury))
	}
}

// Nodes report a wallet without gas in different ways, and none of them says anything about the
// top-up. The operator has to learn that gas is missing.
func TestATopUpWaitsForTheGasOfItsTreasury(t *testing.T) {
	t.Parallel()
	for name, has := range map[string]uint64{
		"nothing": 0, "less than the amount": 1_000, "less than amount and fee": 0,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := newTestEnv(t)
			ann := y.fundWallet(y.org, "ann", map[wallet.Part]uint64{wallet.Credited: 1000}, usdc)
			_, err := y.sweeper.SweepWallet(y.ctx, ann.ID, usdc)
			y.must(err)
			desk := dispatch.New(y.db, y.chain.ToChain(), y.signer, journal.RecordEntry,
				map[signer.Purpose]dispatch.Listener{
					signer.Sweep: sweep.SweepListener{}, signer.GasTopUp: sweep.TopUpListener{},
				}, dispatch.Config{}, slog.New(slog.DiscardHandler))
			_, err = desk.RunRound(y.ctx)
			y.must(err)
			_, err = y.sweeper.Plan(y.ctx)
			y.must(err)
			treasury, err := y.wallets.Treasury(y.ctx, y.org, chain.EVM)
			y.must(err)
			var amount money.Amount
			y.must(y.db.ReadSystem(y.ctx, func(ctx context.Context, tx pg.Tx) error {
				return tx.QueryRow(ctx, `SELECT amount FROM gas_top_ups`).Scan(&amount)
			}))
			gas := money.Units(has)
			if name == "less than amount and fee" {
				gas = amount
			}
			if !gas.IsZero() {
				y.chain.Mint(treasury.Address, "", gas)
				y.inSystem(func(ctx context.Context, tx pg.Tx) error {
					return wallet.MoveFunds(ctx, tx, wallet.Movement{
						WalletID: treasury.ID, OrgID: y.org, MintID: eth, Part: wallet.Gas, Plus: gas,
					})
				})
			}
			_, err = desk.RunRound(y.ctx)
			y.must(err)
			y.wantOrders(treasury, "GAS "+amount.String()+" QUEUED GAS")
		})
	}
}

func TestASweepLeavesFromAProvenAddressAlone(t *testing.T) {
	t.Parallel()
	y := newTestEnv(t)
	ann := y.fundWallet(y.org, "ann", map[wallet.Part]uint64{wallet.Credited: 1000}, usdc)
	_, err := pgtest.OwnerPool(t, y.db).Exec(
		y.ctx, `UPDATE wallets SET address = $1 WHERE wallet_id = $2`, signertest.Stranger, ann.ID,
	)
	y.must(err)
	if made, err := y.sweeper.SweepAll(y.ctx); err == nil || made != 0 {
		t.Errorf("got %d sweeps and %v, want an error that says whose proof does not hold", made, err)
	}
	y.wantOrders(ann, "none")
}

func TestASweepThatWouldRevertIsGivenUpAndFreesWhatItReserved(t *testing.T) {
	t.Parallel()
	y := newTestEnv(t)
	ann := y.fundWallet(y.org, "ann", map[wallet.Part]uint64{wallet.Credited: 1000}, usdc)
	y.countSweeps()
	y.inSystem(func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE dispatch_orders SET waiting_for = 'SIMULATION', missing_amount = NULL`)
		return err
	})
	plan := func() {
		t.Helper()
		_, err := y.sweeper.Plan(y.ctx)
		y.must(err)
	}
	plan()
	y.wantOrders(ann, "SWEEP 1000 QUEUED SIMULATION") // it may pass: a pause is lifted, a fee falls
	y.now = y.now.Add(time.Hour)
	plan()
	y.wantOrders(ann, "SWEEP 1000 WITHDRAWN")
	if f := y.loadFunds(ann, usdc); !f.Reserved.IsZero() || f.Spendable() != money.Units(1000) {
		t.Errorf("got %v reserved and %v to spend, want 0 and 1000", f.Reserved, f.Spendable())
	}
}

// H-55: a token may block an address permanently.
func TestASweepThatFailsAgainAndAgainRestsLongerAndLonger(t *testing.T) {
	t.Parallel()
	y := newTestEnv(t)
	ann := y.fundWallet(y.org, "ann", map[wallet.Part]uint64{wallet.Credited: 1000}, usdc)
	tried := func(hours int) int {
		t.Helper()
		made := 0
		for range hours * 12 {
			made += y.countSweeps()
			y.inSystem(func(ctx context.Context, tx pg.Tx) error {
				_, err := tx.Exec(ctx, `
					UPDATE dispatch_orders SET waiting_for = 'SIMULATION', missing_amount = NULL
					WHERE status = 'QUEUED'`)
				return err
			})
			y.now = y.now.Add(5 * time.Minute)
			_, err := y.sweeper.Plan(y.ctx) // gives up what would revert
			y.must(err)
		}
		return made
	}
	if n := tried(12); n < 5 || n > 12 {
		t.Errorf("got %d tries in half a day, want one in an hour or two", n)
	}
	// After a successful sweep, the next failure counts as the first again. The slot and the proof of
	// that sweep do not matter here.
	owner := pgtest.OwnerPool(t, y.db)
	for _, sql := range []string{
		`ALTER TABLE dispatch_orders DROP CONSTRAINT dispatch_orders_end_proven`,
		`ALTER TABLE dispatch_orders DISABLE TRIGGER ALL`, `
		INSERT INTO dispatch_orders (order_id, org_id, purpose, chain, wallet_id, to_wallet_id, to_address, mint_id,
			contract, amount, trigger, status, attempt_after, created_at, ended_at)
		SELECT 'sw_done', org_id, 'SWEEP', chain, wallet_id, wallet_id, address, mint_id, contract, 1, 'PERSON', 'PAID',
			at, at, at
		FROM wallets, mints, CAST('` + y.now.Format(time.RFC3339) + `' AS timestamptz) at
		WHERE wallet_id = '` + ann.ID + `' AND mint_id = ` + fmt.Sprint(usdc) + `;
		INSERT INTO internal_orders
		SELECT order_id, org_id, purpose, trigger FROM dispatch_orders WHERE order_id = 'sw_done'`,
		`ALTER TABLE dispatch_orders ENABLE TRIGGER ALL`,
	} {
		_, err := owner.Exec(y.ctx, sql)
		y.must(err)
	}
	if n := tried(1); n < 2 {
		t.Errorf("after one that went through: got %d tries in an hour, want it tried soon again", n)
	}
}

// A token that blocks an address for months stops no sweep of another address, and is tried again at its longest pause.
func TestASweepThatFailedForMonthsStopsNoOther(t *testing.T) {
	t.Parallel()
	y := newTestEnv(t)
	ann := y.fundWallet(y.org, "ann", map[wallet.Part]uint64{wallet.Credited: 1000}, usdc)
	bob := y.fundWallet(y.org, "bob", map[wallet.Part]uint64{wallet.Credited: 1000}, usdc)
	owner := pgtest.OwnerPool(t, y.db)
	for _, sql := range []string{
		`ALTER TABLE dispatch_orders DISABLE TRIGGER ALL`, `
		INSERT INTO dispatch_orders (order_id, org_id, purpose, chain, wallet_id, to_wallet_id, to_address, mint_id,
			contract, amount, trigger, status, attempt_after, created_at, ended_at)
		SELECT 'sw_' || n, org_id, 'SWEEP', chain, wallet_id, wallet_id, address, mint_id, contract, 1, 'PERSON',
			'WITHDRAWN', at, at, at
		FROM wallets, mints, CAST('` + y.now.Format(time.RFC3339) + `' AS timestamptz) at, generate_series(1, 1200) n
		WHERE wallet_id = '` + ann.ID + `' AND mint_id = ` + fmt.Sprint(usdc) + `;
		INSERT INTO internal_orders SELECT order_id, org_id, purpose, trigger FROM dispatch_orders`,
		`ALTER TABLE dispatch_orders ENABLE TRIGGER ALL`,
	} {
		_, err := owner.Exec(y.ctx, sql)
		y.must(err)
	}
	if n := y.countSweeps(); n != 1 || y.orderStates(bob) == "none" {
		t.Errorf("got %d sweeps planned, want that of the other address", n)
	}
	y.now = y.now.Add(2 * time.Hour)
	if n := y.countSweeps(); n != 1 {
		t.Errorf("got %d sweeps planned after the longest pause, want one more try", n)
	}
}

func TestManyUnitsOfACheapMintDoNotHideAnother(t *testing.T) {
	t.Parallel()
	y := newTestEnv(t)
	clock := func() time.Time { return y.now }
	y.sweeper = sweep.New(y.db, y.chain.ToChain(), y.wallets, price.Fixed{Clock: clock, Prices: map[int]money.USD{
		usdc: money.MustParseUSD("1"), eth: money.MustParseUSD("3000"),
	}}, sweep.Config{PlanMax: 2}, slog.New(slog.DiscardHandler))
	for i := range 3 { // dust in dollars, and more units than the fortune below
		y.fundWallet(y.org, fmt.Sprintf("dust%d", i), map[wallet.Part]uint64{wallet.Credited: 10_000_000_000}, eth)
	}
	rich := y.fundWallet(y.org, "rich", map[wallet.Part]uint64{wallet.Credited: 5_000_000_000}, usdc)
	made, err := y.sweeper.Plan(y.ctx)
	y.must(err)
	if made != 1 {
		t.Errorf("got %d sweeps, want one", made)
	}
	y.wantOrders(rich, "SWEEP 5000000000 QUEUED")
}

// agedPriceSource returns prices of some age.
type agedPriceSource struct {
	y    *testEnv
	ages map[int]time.Duration
}

func (d agedPriceSource) USD(_ context.Context, mintID int) (price.Quote, error) {
	return price.Quote{
		Price:    money.MustParseUSD(map[int]string{usdc: "1", eth: "3000"}[mintID]),
		QuotedAt: d.y.now.Add(-d.ages[mintID]),
	}, nil
}

// A price that is too old decides neither the value nor the cost of a sweep.
func TestNoSweepIsDecidedByAnOldPrice(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		token, coin time.Duration
		limit       time.Duration // 0: the usual one
		want        int
	}{
		"both as old as they may be": {time.Hour, time.Hour, 0, 1},
		"the token's is older":       {time.Hour + time.Microsecond, 0, 0, 0},
		"the coin's is older":        {0, time.Hour + time.Microsecond, 0, 0},
		"both are a year old":        {365 * 24 * time.Hour, 365 * 24 * time.Hour, 0, 0},
		"older than another limit":   {2 * time.Minute, 0, time.Minute, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := newTestEnv(t)
			y.sweeper = sweep.New(y.db, y.chain.ToChain(), y.wallets, agedPriceSource{y, map[int]time.Duration{
				usdc: c.token, eth: c.coin,
			}},
				sweep.Config{PriceAgeMax: c.limit}, slog.New(slog.DiscardHandler))
			y.fundWallet(y.org, "rich", map[wallet.Part]uint64{wallet.Credited: 5_000_000_000}, usdc)
			made, err := y.sweeper.Plan(y.ctx)
			if c.want > 0 {
				y.must(err)
			}
			if made != c.want {
				t.Errorf("got %d sweeps and %v, want %d", made, err, c.want)
			}
		})
	}
}
