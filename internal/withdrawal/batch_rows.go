package withdrawal

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/failpoint"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/request"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
)

// lookupsMax is how many rows are looked up at once at chains and providers of screening.
const lookupsMax = 16

// RequestBatchRows accepts the payments of rows of one batch in one transaction: withdrawals, holds, orders with their
// grants, decisions and audit rows. It returns the numbers of the rows that it accepted. Each passed the gates of
// RequestBatchRow, on facts that were loaded for all of them at once and that this transaction sees.
//
// Every other row is left to RequestBatchRow: one that is known, refused or held for people, one that looks like
// another destination, and the first payment on a chain. After an error nothing was written, unless it wraps
// pg.ErrCommitUnknown. Rule BP-31.
func (s *Service) RequestBatchRows(ctx context.Context, org string, requests []BatchRequest) ([]int, error) {
	if s.Batches == nil || len(requests) == 0 {
		return nil, nil
	}
	c, err := s.prepareRows(ctx, org, requests)
	if err != nil {
		return nil, err
	}
	c.keep(func(f *Facts) bool { return f.payerAddress != "" })
	if len(c.rows) == 0 {
		return nil, nil
	}
	treasuries := map[chain.Name]wallet.Wallet{}
	for _, f := range c.rows {
		if _, isKnown := treasuries[f.mint.Chain]; isKnown {
			continue
		}
		treasury, err := s.loadTreasury(ctx, org, f.mint.Chain)
		if err != nil {
			return nil, err
		}
		treasuries[f.mint.Chain] = treasury
	}
	var accepted []int
	err = s.DB.InOrg(ctx, org, func(ctx context.Context, tx pg.Tx) error {
		current := &rowChunk{Service: s, org: org, batchID: c.batchID, rows: slices.Clone(c.rows)}
		plans, err := current.decide(ctx, tx)
		if accepted = current.numbers(); err != nil || len(accepted) == 0 {
			return err
		}
		if err := current.write(ctx, tx, plans, treasuries); err != nil {
			return err
		}
		failpoint.HitBeforeCommit("B07")
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("pay rows of batch %s: %w", c.batchID, ledger.MapRefusal(err))
	}
	failpoint.Hit("B07")
	return accepted, nil
}

// CheckBatchRows returns the numbers of the rows whose payments RequestBatchRows would accept now. It writes nothing,
// and leaves the others to CheckBatchRow, which says why. Rule BP-31.
func (s *Service) CheckBatchRows(ctx context.Context, org string, requests []BatchRequest) (passed []int, err error) {
	if len(requests) == 0 {
		return nil, nil
	}
	c, err := s.prepareRows(ctx, org, requests)
	if err != nil {
		return nil, err
	}
	err = s.DB.ReadOrg(ctx, org, func(ctx context.Context, tx pg.Tx) error {
		current := &rowChunk{Service: s, org: org, batchID: c.batchID, rows: slices.Clone(c.rows)}
		if _, err := current.decide(ctx, tx); err != nil {
			return err
		}
		passed = current.numbers()
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("check rows of batch %s: %w", c.batchID, err)
	}
	return passed, nil
}

// prepareRows loads what is known of rows outside of the transaction that decides about them.
func (s *Service) prepareRows(ctx context.Context, org string, requests []BatchRequest) (*rowChunk, error) {
	c := &rowChunk{Service: s, org: org, batchID: requests[0].Row.BatchID}
	if err := c.loadRequests(ctx, requests); err != nil {
		return nil, fmt.Errorf("prepare rows of batch %s: %w", c.batchID, err)
	}
	if err := c.loadExternal(ctx); err != nil {
		return nil, fmt.Errorf("prepare rows of batch %s: %w", c.batchID, err)
	}
	if err := c.screen(ctx); err != nil {
		return nil, fmt.Errorf("screen rows of batch %s: %w", c.batchID, err)
	}
	return c, nil
}

// rowChunk holds rows of a batch that may be accepted together.
type rowChunk struct {
	*Service
	org, batchID string
	rows         []Facts
}

// keep leaves out the rows that fn reports false for.
func (c *rowChunk) keep(fn func(f *Facts) bool) {
	c.rows = slices.DeleteFunc(c.rows, func(f Facts) bool { return !fn(&f) })
}

// numbers returns the numbers of the rows.
func (c *rowChunk) numbers() (numbers []int) {
	for _, f := range c.rows {
		numbers = append(numbers, f.request.batch.Row.Row)
	}
	return numbers
}

// loadRequests parses the rows, and leaves out those that are known or cannot be parsed.
func (c *rowChunk) loadRequests(ctx context.Context, requests []BatchRequest) error {
	var mints mint.Catalogue
	var taken map[string]*request.Accepted
	hashes := make([]string, 0, len(requests))
	for _, r := range requests {
		hashes = append(hashes, keyHash(new(r.key())))
	}
	err := c.DB.ReadOrg(ctx, c.org, func(ctx context.Context, tx pg.Tx) (err error) {
		if mints, err = mint.LoadCatalogue(ctx, tx); err != nil {
			return err
		}
		b := &pgx.Batch{}
		pg.QueueKeyPlans(b)
		taken = queueKeys(b, c.org, hashes)
		return tx.SendBatch(ctx, b).Close()
	})
	if err != nil {
		return err
	}
	for i, r := range requests {
		if r.Row.BatchID != c.batchID || taken[hashes[i]] != nil {
			continue
		}
		f := Facts{request: newBatchRequest(r)}
		if f.parsed, f.parseErr = parseRequest(f.request, mints, c.Chains); f.parseErr != nil || !f.chainRuns {
			continue
		}
		f.native, f.hasNative = mints.Native(f.mint.Chain)
		c.rows = append(c.rows, f)
	}
	return nil
}

// loadExternal loads what loadExternalFacts loads for one request.
func (c *rowChunk) loadExternal(ctx context.Context) error {
	addresses := map[chain.Family][]chain.Address{}
	for _, f := range c.rows {
		addresses[f.mint.Chain.Family()] = append(addresses[f.mint.Chain.Family()], f.destination)
	}
	owned, payers := map[chain.Family]map[chain.Address]wallet.Wallet{}, map[chain.Name]chain.Address{}
	err := c.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		for family, list := range addresses {
			if owned[family], err = wallet.ByAddresses(ctx, tx, family, list); err != nil {
				return err
			}
		}
		for _, f := range c.rows {
			if _, isKnown := payers[f.mint.Chain]; isKnown {
				continue
			}
			if payers[f.mint.Chain], err = loadPayerAddress(ctx, tx, c.org, f.mint.Chain); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	type quoted struct {
		quote   *price.Quote
		isFresh bool
	}
	quotes := map[int]quoted{}
	now := c.DB.Clock()()
	for i := range c.rows {
		f := &c.rows[i]
		family := f.mint.Chain.Family()
		if codec := c.Chains.AddressCodec(family); codec != nil {
			f.isUnspendable = codec.IsUnspendable(f.destination)
		}
		_, f.isOwnAddress = owned[family][f.destination]
		f.payerAddress = payers[f.mint.Chain]
		f.screening.Case = risk.WithdrawalCase{
			Subject: risk.Subject{
				Chain: f.mint.Chain, Address: f.destination, MintID: f.mint.ID, Symbol: f.mint.Symbol, Amount: f.amount,
				Direction: risk.Outgoing,
			},
			Configured: c.Risk.Configured(), UnknownAs: c.Risk.UnknownAs, Now: now,
		}
		q, isKnown := quotes[f.mint.ID]
		if !isKnown {
			q.quote, q.isFresh = c.loadQuote(ctx, f.mint.ID, now)
			quotes[f.mint.ID] = q
		}
		if f.quote, f.quotedAt = q.quote, now; q.isFresh {
			if v, err := money.ValueOf(f.amount, f.mint.Decimals, q.quote.Price); err == nil {
				f.usdValue = &v
			}
		}
	}
	c.forEach(func(f *Facts) { f.minReachable = c.minPayment(ctx, f.mint, f.destination) })
	return nil
}

// forEach calls fn for every row, for some of them at once.
func (c *rowChunk) forEach(fn func(f *Facts)) {
	var wg sync.WaitGroup
	queue := make(chan *Facts)
	for range min(lookupsMax, len(c.rows)) {
		wg.Go(func() {
			for f := range queue {
				fn(f)
			}
		})
	}
	for i := range c.rows {
		queue <- &c.rows[i]
	}
	close(queue)
	wg.Wait()
}

// screen asks the providers of screening about the rows that no other gate refuses or holds, outside of any
// transaction.
func (c *rowChunk) screen(ctx context.Context) error {
	if !c.Risk.Configured() {
		return nil
	}
	looked := &rowChunk{Service: c.Service, org: c.org, batchID: c.batchID, rows: slices.Clone(c.rows)}
	var screened []bool
	err := c.DB.ReadOrg(ctx, c.org, func(ctx context.Context, tx pg.Tx) error {
		if err := looked.loadFacts(ctx, tx); err != nil {
			return err
		}
		screened = make([]bool, 0, len(looked.rows))
		for _, f := range looked.rows {
			plan, rejection := Decide(f)
			screened = append(screened, rejection == nil && plan.ScreenFirst)
		}
		return nil
	})
	if err != nil {
		return err
	}
	rows := c.rows[:0]
	for i, f := range c.rows {
		if screened[i] {
			rows = append(rows, f)
		}
	}
	c.rows = rows
	c.forEach(func(f *Facts) { f.screening.Case.Answer = c.Risk.ScreenProviders(ctx, f.screening.Case.Subject) })
	return nil
}

// loadFacts loads what loadFacts of the service loads for one request, in the same order of locks. The balance and the
// liquidity of a mint are those that the rows before leave, whether they are accepted or not.
func (c *rowChunk) loadFacts(ctx context.Context, tx pg.Tx) error {
	if err := org.LockSettingsShared(ctx, tx, c.org); err != nil {
		return err
	}
	settings, err := org.SettingsOf(ctx, tx, c.org)
	if err != nil {
		return fmt.Errorf("settings of %s: %w", c.org, err)
	}
	payees := make([]payee, 0, len(c.rows))
	for _, f := range c.rows {
		payees = append(payees, f.payee())
	}
	b := &pgx.Batch{}
	pg.QueueKeyPlans(b)
	special := queueSpecial(b, c.org, payees)
	freezes := freeze.QueueActive(b, c.org, nil)
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("look for freezes and destinations of %s: %w", c.org, err)
	}
	mints, err := mint.LoadCatalogue(ctx, tx)
	if err != nil {
		return err
	}
	sums, rules := map[int]money.Amount{}, map[int]ruleFacts{}
	for _, f := range c.rows {
		sum, err := sums[f.mint.ID].Add(f.amount)
		if err != nil {
			return fmt.Errorf("add the rows of mint %d: %w", f.mint.ID, err)
		}
		sums[f.mint.ID] = sum
	}
	balances, liquid := map[int]money.Amount{}, map[int]money.Amount{}
	for mintID, sum := range sums {
		m, isKnown := mints.ByID(mintID)
		if !isKnown {
			return fmt.Errorf("mint %d has left the catalogue", mintID)
		}
		if balances[mintID], err = loadSpendable(ctx, tx, c.org, ledger.BatchOwner(), mintID); err != nil {
			return fmt.Errorf("what is held for batches of %s: %w", c.org, err)
		}
		if liquid[mintID], err = loadLiquidity(ctx, tx, c.org, m, sum); err != nil {
			return err
		}
	}
	for mintID := range sums {
		rule, err := c.loadRule(ctx, tx, c.org, mintID, "")
		if err != nil {
			return err
		}
		if rule.rule != nil {
			if rule.batchSigned, err = countBatchSigned(ctx, tx, c.batchID); err != nil {
				return err
			}
		}
		rules[mintID] = rule
	}
	for i := range c.rows {
		f := &c.rows[i]
		f.ruleFacts = rules[f.mint.ID]
		f.keyRequired, f.quorum = settings.RequireWithdrawIdempotency, settings.ApprovalQuorum
		f.threshold = settings.TwoFactorUSDThreshold
		if t := risk.Severity(settings.WithdrawSeverityThreshold); t != "" {
			f.screening.Case.Threshold = &t
		}
		f.activeFreeze = freezes.FindFor(freeze.Target{OrgID: c.org, Chain: f.mint.Chain})
		f.mint, _ = mints.ByID(f.mint.ID)
		f.isTokenContract = mints.IsContract(f.mint.Chain.Family(), f.destination)
		f.native, f.hasNative = mints.Native(f.mint.Chain)
		f.balance, f.liquid = balances[f.mint.ID], liquid[f.mint.ID]
		if special[f.payee()] { // the decision about one request finds out which one it resembles
			f.lookalike = f.destination
		}
		f.isLoaded = true
		balances[f.mint.ID] = money.SubOrZero(balances[f.mint.ID], f.amount)
		liquid[f.mint.ID] = money.SubOrZero(liquid[f.mint.ID], f.amount)
		if rule := rules[f.mint.ID]; rule.rule != nil { // the rows before may be paid without people, too
			if sum, err := rule.unsigned.Add(f.amount); err == nil {
				rule.unsigned = sum
				rules[f.mint.ID] = rule
			}
		}
	}
	return nil
}

// decide leaves out the rows that are not paid at once, and returns the plans of the others.
func (c *rowChunk) decide(ctx context.Context, tx pg.Tx) (plans []Plan, err error) {
	if err := c.loadFacts(ctx, tx); err != nil {
		return nil, err
	}
	c.keep(func(f *Facts) bool {
		plan, rejection := Decide(*f)
		isPaid := rejection == nil && plan.Status == Processing && !plan.ScreenFirst
		if isPaid {
			plans = append(plans, plan)
		}
		return isPaid
	})
	return plans, nil
}

// write writes what accepting the rows writes, in one round trip, as for customers' requests that are accepted
// together. Nothing of it is read back.
func (c *rowChunk) write(
	ctx context.Context, tx pg.Tx, plans []Plan, treasuries map[chain.Name]wallet.Wallet,
) error {
	accepted := make([]*pendingRequest, 0, len(c.rows))
	for i, f := range c.rows {
		accepted = append(accepted, &pendingRequest{
			withdrawalID: signer.BatchWithdrawalID(c.org, c.batchID, f.request.batch.Row.Row),
			decided:      f, plan: plans[i], treasury: treasuries[f.mint.Chain],
		})
	}
	b := &pgx.Batch{}
	if err := c.queueRows(ctx, tx, b, c.org, accepted); err != nil {
		return err
	}
	if err := c.queueRecords(ctx, tx, b, c.org, nil, accepted); err != nil {
		return err
	}
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("write %d withdrawals: %w", len(accepted), err)
	}
	return nil
}
