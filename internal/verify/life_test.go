package verify_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/mirror"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/testing/trial/harness"
	"github.com/cofferpay/coffer/internal/verify"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

// service is everything that moves money, real except for the chain. A test runs it one step at a
// time, with a check of the books after each.
type service struct {
	*testing.T
	ctx    context.Context
	db     *pg.DB
	net    *sim.Chain
	chains chain.Chains
	org    string
	book   *wallet.Service
	steps  []harness.Step
	pay    *withdrawal.Service
	flags  *deposit.Service
	looks  int
	mu     sync.Mutex
	now    time.Time
	amid   func() // before a block is mined
	serial bool   // one step at a time, with a check inside the long ones
}

func (s *service) clock() time.Time { s.mu.Lock(); defer s.mu.Unlock(); return s.now }

func (s *service) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func newService(t *testing.T) *service { return newServiceWith(t, risk.Policy{}) }

// newServiceWith builds the service with a screener of senders.
func newServiceWith(t *testing.T, screens risk.Policy) *service {
	s := &service{T: t, ctx: t.Context(), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), amid: func() {}}
	s.db = pgtest.NewWithClock(t, s.clock)
	s.net = sim.New(sim.Config{})
	ch := s.net.ToChain()
	s.chains = chain.Chains{ch.Name: ch}
	sign, attest := signertest.New(t)
	s.book = wallet.New(s.db, sign, attest)
	s.must(mirror.ImportJournal(s.ctx, s.db, sign, s.book))
	token := mint.Mint{
		ID: 1, Chain: ch.Name, Network: chain.Local, Kind: mint.Token, Contract: signertest.Token, Symbol: "USDC",
		Name: "USD Coin", Decimals: 6,
		DepositEnabled: true, WithdrawEnabled: true, MinDeposit: money.Units(10), MinWithdraw: money.Units(10),
		ConfirmationsRequired: 3, Finality: "FINALIZED",
	}
	coin := token
	coin.ID, coin.Kind, coin.Contract, coin.Symbol, coin.Name, coin.Decimals = 2, mint.Native, "", "ETH", "Ether", 18
	s.must(mint.Sync(s.ctx, s.db, []mint.Mint{token, coin}))
	o, _, err := org.Create(s.ctx, s.db, "Acme")
	s.must(err)
	s.org = o.ID

	prices := price.Fixed{
		Prices: map[int]money.USD{1: money.MustParseUSD("1"), 2: money.MustParseUSD("3000")}, Clock: s.clock,
	}
	parts := harness.New(harness.Config{
		DB: s.db, Chain: ch, Signer: sign, AttestKey: attest, Prices: prices, RiskPolicy: screens,
	})
	s.pay, s.flags = parts.Withdrawals, parts.Deposits
	s.steps = parts.ListSteps(func(step string) {
		if s.serial {
			s.look("amid " + step)
		}
	})
	return s
}

// lookAtSchema runs the checks of the schema too, after the last step of a test.
func (s *service) lookAtSchema() {
	s.Helper()
	r, err := verify.RunChecks(s.ctx, s.db)
	if err != nil || !r.IsIntact() {
		s.Errorf("after the last step: got %+v, %v, want no breach", r.Breaches, err)
	}
}

// look runs every check of the data and fails with the report if one does not hold. No step changes
// the schema; lookAtSchema checks it at the end of a test.
func (s *service) look(when string) {
	s.Helper()
	s.looks++
	r, err := verify.RunChecks(s.ctx, s.db, verify.WithoutSchema)
	s.must(err)
	onChain, err := verify.CompareWithChains(s.ctx, s.db, s.chains)
	s.must(err)
	for _, r := range []verify.Report{r, onChain} {
		if !r.IsIntact() {
			var b bytes.Buffer
			_, err := r.WriteTo(&b)
			s.must(err)
			s.Fatalf("after %s:\n%s", when, b.String())
		}
	}
}

// pass lets time pass: every part runs, a block is mined, and so on.
func (s *service) pass(blocks int) {
	s.Helper()
	for range blocks {
		for _, step := range s.steps {
			if err := step.Run(s.ctx); err != nil {
				s.Fatalf("%s: %v", step.Name, err)
			}
			s.look(step.Name)
		}
		s.amid()
		s.net.Mine(1)
		s.mu.Lock()
		s.now = s.now.Add(5 * time.Second)
		s.mu.Unlock()
	}
}

func (s *service) address(customerID string) chain.Address {
	s.Helper()
	ref := signer.WalletRef{OrgID: s.org, Family: chain.EVM, Purpose: wallet.CustomerDeposit, Subject: customerID}
	s.must(s.db.InOrg(s.ctx, s.org, func(ctx context.Context, tx pg.Tx) error {
		_, _, err := customer.Ensure(ctx, tx, s.org, customerID, "")
		return err
	}))
	w, err := s.book.Address(s.ctx, ref)
	s.must(err)
	return w.Address
}

func (s *service) withdraw(customerID string, mintID int, amount string, to chain.Address, approval bool) string {
	s.Helper()
	w, _, err := s.pay.Request(s.ctx, s.org, withdrawal.Request{
		MintID: mintID, CustomerID: customerID, Amount: amount, ToAddress: string(to), RequireApproval: approval,
		Actor: audit.APIKey(s.org),
	})
	s.must(err)
	s.look("a request")
	return w.ID
}

// deducted requests a withdrawal of coin whose fee is deducted from the amount.
func (s *service) deducted(customerID, amount string, to chain.Address) string {
	s.Helper()
	w, _, err := s.pay.Request(s.ctx, s.org, withdrawal.Request{
		MintID: 2, CustomerID: customerID, Amount: amount, ToAddress: string(to), FeeMode: withdrawal.FeeDeducted,
		Actor: audit.APIKey(s.org),
	})
	s.must(err)
	s.look("a request with the fee deducted")
	return w.ID
}

// kept checks such a payment: the destination has the amount less the decided fee, the organization
// has that fee, and others is what the destination received in addition.
func (s *service) kept(withdrawalID string, to chain.Address, amount, others string) {
	s.Helper()
	w, err := s.pay.ByID(s.ctx, s.org, withdrawalID)
	s.must(err)
	if w.Status != "COMPLETED" || w.FeeMode != withdrawal.FeeDeducted || w.Amount.String() != amount ||
		w.NetworkFee == nil {
		s.Fatalf("got %+v, want it completed with its fee", w)
	}
	fee := *w.NetworkFee
	want, err := money.MustParse(amount).Sub(fee)
	s.must(err)
	want, err = want.Add(money.MustParse(others))
	s.must(err)
	if got := s.net.Received(to, ""); got != want {
		s.Errorf("%s received %v, want %v", to, got, want)
	}
	s.must(s.db.ReadOrg(s.ctx, s.org, func(ctx context.Context, tx pg.Tx) error {
		got, err := ledger.Balance(ctx, tx,
			ledger.Account{OrgID: s.org, MintID: 2, Kind: ledger.Product, Subject: "CUSTODIAL"})
		if err == nil && got != fee {
			s.Errorf("the organization has %v, want the fee of %v", got, fee)
		}
		return err
	}))
}

func (s *service) want(withdrawalID, status string) {
	s.Helper()
	w, err := s.pay.ByID(s.ctx, s.org, withdrawalID)
	s.must(err)
	if string(w.Status) != status {
		s.Errorf("withdrawal %s: got %v (%v), want %v", withdrawalID, w.Status, w.ApprovalReasons, status)
	}
}

func (s *service) owed(customerID string, mintID int, want uint64) {
	s.Helper()
	s.must(s.db.ReadOrg(s.ctx, s.org, func(ctx context.Context, tx pg.Tx) error {
		got, err := ledger.Balance(ctx, tx,
			ledger.Account{OrgID: s.org, MintID: mintID, Kind: ledger.Customer, Subject: customerID})
		if err == nil && got != money.Units(want) {
			s.Errorf("%s in mint %d: got %v, want %v", customerID, mintID, got, want)
		}
		return err
	}))
}

func TestAWorkingHouseIsSoundAtEveryStep(t *testing.T) {
	t.Parallel()
	const coin = 1_000_000_000_000_000_000
	s := newService(t)
	s.serial = true
	s.look("nothing")
	treasury, err := s.book.Treasury(s.ctx, s.org, chain.EVM)
	s.must(err)
	ann, bob := s.address("ann"), s.address("bob")
	rich, shop, foe := sim.Address("rich"), sim.Address("shop"), sim.Address("foe")
	s.net.Mint(rich, signertest.Token, money.Units(1_000_000_000))
	s.net.Mint(rich, sim.Address("alien"), money.Units(1_000))
	s.net.Mint(rich, "", money.Units(10*coin))

	s.net.Pay(rich, treasury.Address, "", coin)
	s.net.Pay(rich, ann, signertest.Token, 500_000_000)
	s.net.Pay(rich, bob, signertest.Token, 80_000_000)
	s.net.Pay(rich, bob, "", coin/2)
	s.net.Pay(rich, ann, signertest.Token, 3) // below the minimum
	s.net.Pay(rich, ann, sim.Address("alien"), 7)
	s.net.Pay(rich, treasury.Address, signertest.Token, 90) // without a sender
	s.pass(24)                                              // until the sweeps have ended
	s.owed("ann", 1, 500_000_000)
	s.owed("bob", 2, coin/2)

	direct := s.withdraw("ann", 1, "120000000", shop, false)
	held := s.withdraw("ann", 1, "30000000", shop, true)
	gone := s.withdraw("bob", 1, "1000000", shop, true)
	native := s.withdraw("bob", 2, "1000000000000", shop, false)
	less := s.deducted("bob", "2000000000000000", shop)
	refused := s.withdraw("bob", 1, "2000000", foe, false)
	s.amid = func() {
		w, err := s.pay.ByID(s.ctx, s.org, refused)
		s.must(err)
		if w.Status == "BROADCAST" {
			// The token changes its behaviour while the payment is broadcast.
			s.net.RefuseTransfers(signertest.Token, foe, "blacklisted")
		}
	}
	s.pass(2)
	_, err = s.pay.Approve(s.ctx, s.org, held, audit.User("usr_1"))
	s.must(err)
	s.look("an approval")
	_, err = s.pay.Remove(s.ctx, s.org, gone, audit.User("usr_1"), "no")
	s.must(err)
	s.look("a removal")
	s.pass(24)
	s.want(direct, "COMPLETED")
	s.want(held, "COMPLETED")
	s.want(gone, "REJECTED")
	s.want(native, "COMPLETED")
	s.want(refused, "FAILED")
	s.kept(less, shop, "2000000000000000", "1000000000000")
	s.owed("ann", 1, 350_000_000)
	s.owed("bob", 1, 80_000_000)
	if got := s.net.Received(shop, signertest.Token); got != money.Units(150_000_000) {
		t.Errorf("the shop received %v, want 150000000", got)
	}
	if n := s.db.Counts().Deadlocks; n != 0 {
		t.Errorf("got %d deadlocks, want 0", n)
	}
	s.lookAtSchema()
	t.Logf("%d looks", s.looks)
}

func TestManyAtOnceLeaveTheBooksSound(t *testing.T) {
	t.Parallel()
	const coin, blocks, customers, turns, requests = 1_000_000_000_000_000_000, 15, 4, 4, 5
	s := newService(t)
	treasury, err := s.book.Treasury(s.ctx, s.org, chain.EVM)
	s.must(err)
	rich := sim.Address("rich")
	s.net.Mint(rich, signertest.Token, money.Units(1_000_000_000_000))
	s.net.Mint(rich, "", money.Units(10*coin))
	var names []string
	var addresses []chain.Address
	for i := range customers {
		names = append(names, fmt.Sprint("customer ", i))
		addresses = append(addresses, s.address(names[i]))
	}
	s.net.Pay(rich, treasury.Address, "", coin)
	for range blocks {
		var wg sync.WaitGroup
		// Every part runs twice, as in two processes. It has several turns in each block, and not as
		// many as the machine allows: most of those would find nothing to do.
		for _, step := range slices.Concat(s.steps, s.steps) {
			wg.Go(func() {
				for range turns {
					if err := step.Run(s.ctx); err != nil {
						t.Logf("%s: %v", step.Name, err)
					}
				}
			})
		}
		for i, name := range names {
			wg.Go(func() {
				for range requests {
					_, _, err := s.pay.Request(s.ctx, s.org, withdrawal.Request{
						MintID: 1, CustomerID: name, Amount: fmt.Sprint(10 + i), ToAddress: string(sim.Address("shop")),
						Actor: audit.APIKey(s.org),
					})
					if err != nil && !fault.HasCode(err, fault.InsufficientBalance) {
						t.Errorf("request: %v", err)
					}
				}
			})
		}
		// The block is mined while they run.
		for _, a := range addresses {
			s.net.Pay(rich, a, signertest.Token, 20_000_000)
		}
		s.net.Pay(rich, treasury.Address, "", 1_000_000)
		s.net.Mine(1)
		s.mu.Lock()
		s.now = s.now.Add(5 * time.Second)
		s.mu.Unlock()
		for range 3 {
			s.look("something")
		}
		wg.Wait()
	}
	s.look("all")
	if n := s.db.Counts().Deadlocks; n != 0 {
		t.Errorf("got %d deadlocks, want 0: two transactions lock in different orders", n)
	}
	s.lookAtSchema()
	// Money moved in each way while the books were looked at.
	var credited, swept, paid int
	if err := pgtest.OwnerPool(t, s.db).QueryRow(s.ctx, `
		SELECT (SELECT count(*) FROM deposits WHERE status = 'CREDITED'),
			(SELECT count(*) FROM sweeps WHERE status = 'DONE'),
			(SELECT count(*) FROM withdrawals WHERE status IN ('BROADCAST', 'COMPLETED'))`,
	).Scan(&credited, &swept, &paid); err != nil {
		t.Fatal(err)
	}
	if credited < blocks || swept == 0 || paid == 0 {
		t.Errorf("got %d deposits credited, %d sweeps done and %d payments sent, want some of each", credited, swept,
			paid)
	}
	t.Logf("%d looks, %+v, %d credited, %d swept, %d paid", s.looks, s.db.Counts(), credited, swept, paid)
}
