package race

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/depositswap"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/member"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/remote"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/swap"
	"github.com/cofferpay/coffer/internal/swap/provider"
	"github.com/cofferpay/coffer/internal/swap/signedquote"
	"github.com/cofferpay/coffer/internal/swap/signedquote/quotetest"
	"github.com/cofferpay/coffer/internal/testing/trial/harness"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

// The mints of swaps, which have six decimals and are worth a dollar, and the coin that pays fees.
const (
	dollars = token
	euros   = 2
	ether   = 3
)

// clockSpeed is how many times faster the clock of the swaps runs: a provider has to stand by a failure for a
// minute, and an offer is open for half an hour.
const clockSpeed = 20

// The whitelist's one entry, and the product whose money is swapped.
const (
	vaultID     = "wla_01J9ZW3M8Q4S5T6V7W8X9YZABC"
	swapProduct = "CHECKOUT"
)

var vaultAddress = sim.Address("vault")

// The workers of one process that swap, and how many customers they have.
const (
	swapAskers    = 16
	swapDeciders  = 5
	swapFollowers = 5
	swapRestorers = 3
	strayDeciders = 3
	swapCustomers = 4
)

// What one swap takes. That of an organization is above its threshold, or below it.
const (
	customerUnits = 300_000_000
	smallUnits    = 50_000_000
	largeUnits    = 200_000_000
	swapThreshold = `"100"`
	swapQuorum    = `2`
)

// swapTask is what a process needs for swaps.
type swapTask struct {
	Socket    string // of the signer
	Provider  ed25519.PrivateKey
	GrantSeed []byte
	Attest    ed25519.PublicKey
	Base      time.Time     // when the clock began to run fast
	Ahead     time.Duration // by how much it was ahead then
	People    []member.Member
}

// clock returns the fast time, the same in every process.
func (t swapTask) clock() time.Time { return t.Base.Add(t.Ahead + clockSpeed*time.Since(t.Base)) }

// solverPlan is what the provider does with a payment. It follows from its deposit address.
type solverPlan int

// The plans.
const (
	solverDelivers solverPlan = iota
	solverDeliversTwice
	solverDeliversInParts
	solverRefunds
	solverSendsOther // another asset, and then what it owes
)

func planOf(deposit chain.Address) solverPlan {
	sum := sha256.Sum256([]byte(deposit))
	return []solverPlan{
		solverDelivers, solverDelivers, solverDelivers, solverDeliversTwice, solverDeliversTwice,
		solverDeliversInParts, solverRefunds, solverRefunds, solverRefunds, solverSendsOther,
	}[int(sum[0])%10]
}

// solverProvider signs the offers of one process. Its word follows from its plan.
type solverProvider struct {
	swapTask
	now     func() time.Time
	process int
	asked   atomic.Uint64
}

// Name implements provider.Provider.
func (*solverProvider) Name() string { return signertest.SwapProvider }

// Assets implements provider.Provider.
func (*solverProvider) Assets(context.Context) (assets []provider.Asset, err error) {
	for _, contract := range []chain.Address{signertest.Token, signertest.LimitedToken} {
		assets = append(assets, provider.Asset{
			Token: provider.Token{Chain: signertest.Chain, Contract: contract}.Canonical(),
			ID:    signertest.SwapAsset(signertest.Chain, contract), Symbol: "X", Decimals: 6, Accepts: true,
			Delivers: true, AcceptsAny: true, PriceUSD: money.MustParseUSD("1"),
		})
	}
	return assets, nil
}

// Quote implements provider.Provider. It keeps half a percent.
func (d *solverProvider) Quote(_ context.Context, ask provider.Ask) (provider.Offer, error) {
	out, err := ask.AmountIn.Bps(9950)
	if err != nil {
		return provider.Offer{}, err
	}
	promised, err := out.Bps(uint64(10_000 - ask.SlippageBps))
	if err != nil {
		return provider.Offer{}, err
	}
	if !ask.IsFirm {
		return provider.Offer{
			Provider: d.Name(), AmountIn: ask.AmountIn, MinAmountIn: ask.AmountIn, AmountOut: out,
			MinAmountOut: promised, Estimate: 10 * time.Second,
		}, nil
	}
	now := d.now()
	word := fmt.Sprintf("%s %d %d", ask.Reference, d.process, d.asked.Add(1))
	raw, err := quotetest.EncodeOneClick(d.Provider, quotetest.OneClick{
		DepositAddress: string(signertest.SwapDepositAddress(word)),
		OriginAsset:    signertest.SwapAsset(ask.Origin.Chain, ask.Origin.Contract), AmountIn: ask.AmountIn,
		DestinationAsset: signertest.SwapAsset(ask.Destination.Chain, ask.Destination.Contract), AmountOut: out,
		MinAmountOut: promised, AmountInUSD: "10.00", AmountOutUSD: "9.90", Recipient: string(ask.Recipient),
		RefundTo: string(ask.RefundTo), SlippageBps: ask.SlippageBps, IsFlexible: ask.IsFlexible, SignedAt: now,
		Deadline: now.Add(24 * time.Hour),
	}.Answer())
	if err != nil {
		return provider.Offer{}, err
	}
	signed, err := d.VerifyQuote(raw)
	return provider.NewFirmOffer(d.Name(), raw, signed), err
}

// VerifyQuote implements provider.Provider.
func (d *solverProvider) VerifyQuote(raw []byte) (signedquote.Quote, error) {
	q, err := signedquote.VerifyOneClick(raw, []ed25519.PublicKey{d.Provider.Public().(ed25519.PublicKey)})
	return q, provider.CheckSigned(err)
}

// Status implements provider.Provider. It says the same at all times: what counts is on the chain.
func (d *solverProvider) Status(_ context.Context, ref provider.Ref, _ chain.TxHash) (provider.Report, error) {
	r := provider.Report{
		Provider: d.Name(), Status: provider.Processing, Word: "processing", Refund: provider.RefundNone,
		UpdatedAt: d.now(), Raw: []byte(`{}`),
	}
	if planOf(chain.Address(ref.DepositAddress)) == solverRefunds {
		r.Status, r.Word, r.Refund = provider.Refunded, "refunded", provider.RefundPending
	}
	return r, nil
}

// fixedWhitelist has the vault alone.
type fixedWhitelist struct{}

// Usable implements withdrawal.Whitelist.
func (fixedWhitelist) Usable(_ context.Context, _ pg.Tx, _, listedID string) (withdrawal.WhitelistEntry, error) {
	if listedID != vaultID {
		return withdrawal.WhitelistEntry{}, fault.New(
			fault.Unprocessable, fault.AddressNotWhitelisted, fault.NothingHeld, "It is not on the list.",
		)
	}
	return withdrawal.WhitelistEntry{Chain: chain.Ethereum, Address: vaultAddress}, nil
}

// swapWhitelist is the same whitelist for swaps.
type swapWhitelist struct{ fixedWhitelist }

// Usable implements swap.Whitelist.
func (l swapWhitelist) Usable(ctx context.Context, tx pg.Tx, org, listedID string) (swap.WhitelistEntry, error) {
	entry, err := l.fixedWhitelist.Usable(ctx, tx, org, listedID)
	return swap.WhitelistEntry(entry), err
}

// openSwaps builds the service of one process.
func openSwaps(
	t swapTask, process int, clock func() time.Time, db *pg.DB, net *sim.Chain, sign signer.Signer,
) (*harness.Harness, error) {
	grants, err := signer.NewGrantKey(t.GrantSeed)
	if err != nil {
		return nil, err
	}
	h := harness.New(harness.Config{
		DB: db, Chain: net.ToChain(), Signer: sign, AttestKey: t.Attest, Grants: grants,
		Prices: price.Fixed{Prices: map[int]money.USD{
			dollars: money.MustParseUSD("1"), euros: money.MustParseUSD("1"), ether: money.MustParseUSD("3000"),
		}, Clock: clock},
		SwapProviders: []provider.Member{{Provider: &solverProvider{swapTask: t, now: clock, process: process}}},
		Log:           slog.New(slog.DiscardHandler),
	})
	h.Swaps.Whitelist, h.Withdrawals.Whitelist = swapWhitelist{}, fixedWhitelist{}
	h.DepositSwaps.Destination = provider.Token{Chain: signertest.Chain, Contract: signertest.LimitedToken}
	return h, nil
}

// swapProcess is a process that swaps.
type swapProcess struct {
	*process
	*harness.Harness
	swapTask

	asked, refused, decisionsMade, late, followed, restored, settled atomic.Uint64
	resolved                                                         map[string]string // stray arrivals
}

// swapAll lets 32 workers of this process make swaps under common keys, decide about them and carry them on.
func swapAll(ctx context.Context, t task) (result, error) {
	s := *t.SwapRace
	db, err := pg.Open(ctx, pg.Config{URL: t.URL, MaxConns: workers + 2}, s.clock)
	if err != nil {
		return result{}, err
	}
	defer db.Close()
	sign := remote.DialSocket(s.Socket)
	defer sign.Close()
	deadline, cancel := context.WithTimeout(ctx, t.For)
	defer cancel()
	// The chain of this process stays empty: the walks and the payments are the first process's.
	h, err := openSwaps(s, 1+t.Process, s.clock, db, sim.New(sim.Config{}), sign)
	if err != nil {
		return result{}, err
	}
	p := &swapProcess{
		process: &process{
			task: t, db: db, deadline: deadline, startedAt: time.Now(), accepted: map[string]string{},
			decided: map[string]string{},
		},
		Harness: h, swapTask: s, resolved: map[string]string{},
	}
	var wg sync.WaitGroup
	start := func(n int, run func(ctx context.Context, worker, round int) bool) {
		for w := range n {
			wg.Go(func() {
				for round := 0; deadline.Err() == nil || round < roundsMin; round++ {
					if !run(ctx, w, round) {
						return
					}
				}
			})
		}
	}
	start(swapAskers, p.askSwap)
	start(swapDeciders, p.decideSwap)
	start(swapFollowers, p.followSwaps)
	start(swapRestorers, p.restoreSwap)
	start(strayDeciders, p.decideStray)
	start(1, p.watchBalances)
	wg.Wait()
	return result{
		Requests: p.asked.Load(), Conflicts: p.refused.Load(), Decisions: p.decisionsMade.Load(),
		DecisionsLate: p.late.Load(), Ends: p.followed.Load(), Reserves: p.restored.Load(),
		ReservesShort: p.settled.Load(), Looks: p.looks.Load(), Deadlocks: db.Counts().Deadlocks, Vain: p.vain.Load(),
		Accepted: p.accepted, Decided: p.decided, Resolved: p.resolved, Wrong: p.wrong,
	}, nil
}

// pause waits a moment, so that workers without work leave the machine to the others.
func (p *swapProcess) pause() bool {
	select {
	case <-p.deadline.Done():
	case <-time.After(time.Duration(10+rand.IntN(40)) * time.Millisecond):
	}
	return true
}

// goOn reports whether a worker goes on after an error: after a refusal, and after a lock that it did not get.
func (p *swapProcess) goOn(act string, err error) bool {
	switch {
	case isLockTimeout(err):
		p.vain.Add(1)
		return p.pause()
	case fault.Find(err) != nil:
		return true
	}
	p.addComplaint("%s: %v", act, err)
	return false
}

// askSwap requests the swap of a round. All workers of this task, in both processes, use the same keys in the same
// order.
func (p *swapProcess) askSwap(ctx context.Context, worker, round int) bool {
	key := fmt.Sprintf("swap-%d", round)
	from, to := dollars, euros
	if round/5%2 == 1 {
		from, to = euros, dollars
	}
	customer := fmt.Sprintf("customer-%d", round%swapCustomers)
	p.asked.Add(1)
	var id string
	var err error
	switch round % 5 {
	case 2, 3:
		units := smallUnits
		if round%5 == 3 {
			units = largeUnits
		}
		var w swap.Swap
		w, _, err = p.Swaps.RequestOrganization(ctx, p.Org, swap.OrganizationRequest{
			IdempotencyKey: key, Product: swapProduct, FromMintID: from, ToMintID: to, AmountIn: fmt.Sprint(units),
			WhitelistedAddressID: vaultID, Person: &p.People[0],
		})
		id = w.ID
	case 4:
		var d depositswap.DepositSwap
		d, _, _, err = p.DepositSwaps.Request(ctx, p.Org, depositswap.Request{
			IdempotencyKey: &key, CustomerID: customer,
			OriginTokenID: "ethereum:" + string(signertest.Token), RefundAddress: string(sim.Address("payer")),
			AmountIn: new(fmt.Sprint(smallUnits)), Actor: audit.APIKey(p.Org),
		})
		id = d.ID
	default:
		var w swap.Swap
		w, _, err = p.Swaps.Request(ctx, p.Org, swap.Request{
			IdempotencyKey: key, CustomerID: customer, FromMintID: from, ToMintID: to,
			AmountIn: fmt.Sprint(customerUnits), Actor: audit.APIKey(p.Org),
		})
		id = w.ID
	}
	if err == nil {
		p.checkSameID(p.accepted, key, id)
		return true
	}
	switch {
	case fault.HasCode(err, fault.InsufficientBalance), fault.HasCode(err, fault.QuoteRejected),
		fault.HasCode(err, fault.CodeUnavailable):
		p.refused.Add(1)
		return p.pause()
	case isLockTimeout(err):
		p.vain.Add(1)
		return true
	}
	p.addComplaint("request %s: %v", key, err)
	return false
}

func (p *swapProcess) listIDs(ctx context.Context, sql string) (ids []string, err error) {
	err = p.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, sql)
		if err != nil {
			return err
		}
		ids, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	return ids, err
}

// The decisions about a swap that waits.
const (
	decidedApproved  = "approved"
	decidedRejected  = "REJECTED"
	decidedCancelled = "CANCELLED"
)

// decideSwap approves, rejects or cancels the oldest swap that waits. Two people have to approve.
func (p *swapProcess) decideSwap(ctx context.Context, worker, round int) bool {
	ids, err := p.listIDs(ctx, `
		SELECT swap_id FROM swaps WHERE status = 'AWAITING_APPROVAL' ORDER BY created_at LIMIT 2`)
	if err != nil {
		return p.goOn("look for swaps that wait", err)
	}
	if len(ids) == 0 {
		return p.pause()
	}
	id := ids[len(ids)-1]
	verdict := decidedApproved
	var w swap.Swap
	switch (worker + round + p.Process) % 7 {
	case 0:
		verdict = decidedRejected
		w, err = p.Swaps.RejectOrganization(ctx, p.Org, id, "by the race", p.People[1])
	case 1:
		verdict = decidedCancelled
		w, err = p.Swaps.CancelOrganization(ctx, p.Org, id, p.People[0])
	default:
		w, err = p.Swaps.ApproveOrganization(ctx, p.Org, id, "", p.People[1+(worker+round)%2])
	}
	switch {
	case err == nil && w.Status != swap.AwaitingApproval:
		p.decisionsMade.Add(1)
		p.recordVerdict(p.decided, id, verdict)
	case err != nil && !fault.HasCode(err, fault.InvalidState):
		return p.goOn("decide about "+id, err)
	case err != nil:
		p.late.Add(1)
	}
	return true
}

// recordVerdict remembers the decision that won. There is one.
func (p *swapProcess) recordVerdict(verdicts map[string]string, id, verdict string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if earlier, isKnown := verdicts[id]; isKnown {
		p.wrong = append(p.wrong, fmt.Sprintf("%s was %s and then %s", id, earlier, verdict))
	}
	verdicts[id] = verdict
}

// followSwaps carries swaps on: what providers say, what arrived, what is owed.
func (p *swapProcess) followSwaps(ctx context.Context, worker, round int) bool {
	looked := 0
	var err error
	switch (worker + round) % 4 {
	case 0:
		// Each worker looks at every swap that is due, whatever the others do: the lease of the worker of the
		// service would keep them apart.
		var ids []string
		ids, err = p.listIDs(ctx, `SELECT swap_id FROM swaps WHERE look_at IS NOT NULL ORDER BY look_at LIMIT 8`)
		for _, id := range ids {
			if err = p.Swaps.Look(ctx, id); err != nil {
				break
			}
			looked++
		}
	case 1:
		looked, err = p.Deposits.SettleArrivals(ctx)
	case 2:
		looked, err = p.Swaps.Follow(ctx)
	default:
		if _, err = p.Deposits.CreditWaiting(ctx); err == nil {
			_, err = p.DepositSwaps.Follow(ctx)
		}
	}
	p.followed.Add(uint64(looked))
	if err != nil && !p.goOn("follow swaps", err) {
		return false
	}
	return p.pause()
}

// restoreSwap restores what came back, and has a provider make swaps again.
func (p *swapProcess) restoreSwap(ctx context.Context, worker, round int) bool {
	ids, err := p.listIDs(ctx, `
		SELECT swap_id FROM swaps WHERE kind = 'CUSTOMER' AND status = 'FAILED' AND refunded > restored
		ORDER BY created_at LIMIT 4`)
	for _, id := range ids {
		if _, err = p.Swaps.Restore(ctx, p.Org, id, audit.APIKey(p.Org)); err != nil {
			break
		}
		p.restored.Add(1)
	}
	if err == nil && worker == 0 {
		var names []string
		names, err = p.listIDs(ctx, `SELECT provider FROM swap_providers WHERE state = 'SUSPENDED'`)
		if err == nil && slices.Contains(names, signertest.SwapProvider) {
			err = p.Swaps.ResumeProvider(ctx, signertest.SwapProvider, "by the race", audit.Operator("op_1"))
		}
	}
	if err == nil {
		_, err = p.Swaps.CollectOwed(ctx)
	}
	if err != nil && !p.goOn("restore", err) {
		return false
	}
	return p.pause()
}

// decideStray decides about the oldest stray arrivals. Each worker has its own decision.
func (p *swapProcess) decideStray(ctx context.Context, worker, round int) bool {
	ids, err := p.listIDs(ctx, `
		SELECT deposit_id FROM swap_arrivals WHERE role = 'STRAY' AND decision IS NULL ORDER BY created_at LIMIT 3`)
	if err != nil {
		return p.goOn("look for strays", err)
	}
	decision := swap.CreditArrival
	if (worker+round+p.Process)%3 == 0 {
		decision = swap.KeepArrival
	}
	for _, id := range ids {
		_, err := p.Swaps.DecideArrival(ctx, id, decision, "by the race", audit.Operator(fmt.Sprintf("op_%d", worker)))
		switch {
		case err == nil:
			p.settled.Add(1)
			p.recordVerdict(p.resolved, id, string(decision))
		case fault.HasCode(err, fault.InvalidState):
			p.late.Add(1)
		default:
			if !p.goOn("decide about a stray", err) {
				return false
			}
		}
	}
	return p.pause()
}

// watchBalances looks for a balance below zero at every moment.
func (p *swapProcess) watchBalances(ctx context.Context, _, _ int) bool {
	var lowest int64
	err := p.db.Snapshot(ctx, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, `
			SELECT least((SELECT min(balance) FROM ledger_balances),
				(SELECT min(least(credited, held, reserved, swept, gas, gas_reserved, dust))
					FROM address_funds))::bigint`,
		).Scan(&lowest)
	})
	if err != nil {
		return p.goOn("look", err)
	}
	p.looks.Add(1)
	if lowest < 0 {
		p.addComplaint("the lowest balance is %d", lowest)
		return false
	}
	return p.pause()
}
