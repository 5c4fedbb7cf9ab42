package withdrawal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/failpoint"
	"github.com/cofferpay/coffer/internal/platform/groupcommit"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/request"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/wallet"
)

// Limits of the writers.
const (
	groupMax        = 64               // requests in one transaction
	parallelMin     = groupMax / 2     // waiting requests that start a second transaction in parallel
	waitingMax      = 1024             // waiting requests of one organization
	groupWritersMax = 4                // groups that are written at a moment, and so connections in use
	groupTimeout    = 30 * time.Second // for a group with its repetitions
	groupTriesMax   = 3                // how often a group is decided because another writer was quicker
)

// errAlone says that a request is decided in a transaction of its own. Nothing was written.
var errAlone = errors.New("this withdrawal is decided alone")

// Groups has the writers that accept customers' withdrawals of one organization together. A Service without Groups
// accepts each request by itself.
type Groups struct {
	slots    chan struct{} // one token for each writer at work
	mu       sync.Mutex
	writers  map[string]*groupWriter // by organization, as the following
	requests map[string]*requestLooks
	payees   map[string]*payeeLooks
}

type groupWriter = groupcommit.Writer[*pendingRequest, Withdrawal]

// NewGroups returns Groups. It starts nothing: a writer runs only while requests wait. Each Service has Groups of its
// own.
func NewGroups() *Groups {
	return &Groups{
		slots: make(chan struct{}, groupWritersMax), writers: map[string]*groupWriter{},
		requests: map[string]*requestLooks{}, payees: map[string]*payeeLooks{},
	}
}

// pendingRequest is a request on its way through a group.
type pendingRequest struct {
	withdrawalID string
	facts        Facts // with what no transaction of the organization sees
	treasury     wallet.Wallet

	decided Facts      // the facts with what the writing transaction sees
	plan    Plan       // by these facts
	created Withdrawal // what was written
	err     error
}

// canJoin reports whether a request may be decided together with others. What a group decides rests on facts that it
// can load for all at once; everything else is decided alone.
func (p *pendingRequest) canJoin() bool {
	f := &p.facts
	return !f.owner.IsOrganization() && !f.request.hasOwnKey() && !f.wasBlocked
}

// accept decides about a request and writes it, together with those that come at the same moment, or alone.
func (s *Service) accept(ctx context.Context, org string, p *pendingRequest) (Withdrawal, error) {
	err := errAlone
	if p.canJoin() {
		if s.Groups == nil {
			s.runGroup(ctx, org, []*pendingRequest{p})
			err = p.err
		} else {
			_, err = s.groupWriterOf(org).SubmitAndWait(ctx, p)
		}
	}
	switch {
	case errors.Is(err, errAlone):
		return s.acceptAlone(ctx, org, p)
	case errors.Is(err, groupcommit.ErrFull), errors.Is(err, groupcommit.ErrAbandoned):
		return Withdrawal{}, newCrowded()
	}
	return p.created, err
}

func newCrowded() *fault.Fault {
	return fault.New(fault.Unavailable, fault.CodeUnavailable, fault.NothingHeld,
		"More withdrawals are waiting than the service can accept, and this one waited too long.").
		WithStep(fault.RepeatWithSameKey)
}

// groupWriterOf returns the writer of an organization. A transaction acts for one organization.
func (s *Service) groupWriterOf(org string) *groupWriter {
	g := s.Groups
	g.mu.Lock()
	defer g.mu.Unlock()
	w := g.writers[org]
	if w == nil {
		w = &groupWriter{
			GroupMax: groupMax, SecondGroupMin: parallelMin, WaitingMax: waitingMax, WorkMax: groupTimeout,
			ProcessGroup: func(ctx context.Context, requests []*pendingRequest) []groupcommit.Answer[Withdrawal] {
				select {
				case g.slots <- struct{}{}:
					s.runGroup(ctx, org, requests)
					<-g.slots
				case <-ctx.Done():
					for _, p := range requests {
						p.err = newCrowded()
					}
				}
				answers := make([]groupcommit.Answer[Withdrawal], len(requests))
				for i, p := range requests {
					answers[i].Err = p.err
				}
				return answers
			},
		}
		g.writers[org] = w
	}
	return w
}

// runGroup answers every request of a group. When the database refuses a group, its requests are decided alone.
func (s *Service) runGroup(ctx context.Context, org string, requests []*pendingRequest) {
	for try := 1; ; try++ {
		err := s.writeGroup(ctx, org, requests)
		// Another writer took a key, or a balance that was there at the look-up. The next try sees the result.
		isOvertaken := errors.Is(err, ledger.ErrOverdraft) ||
			pg.ViolatesConstraint(err, "withdrawals_key_hash_unique") ||
			pg.ViolatesConstraint(err, "withdrawals_idempotency_key_unique")
		switch {
		case err == nil:
			return
		case isOvertaken && try < groupTriesMax:
			continue
		}
		for _, p := range requests {
			switch {
			case errors.Is(err, pg.ErrCommitUnknown) && p.err == nil, len(requests) == 1 && !isOvertaken:
				p.err = err
			case isOvertaken, isRefusedByDatabase(err), errors.Is(err, pg.ErrCommitUnknown):
				// A refusal may rest on a request before it whose commit is unknown.
				p.err = errAlone
			default:
				p.err = err
			}
		}
		return
	}
}

// isRefusedByDatabase reports whether one request of a group may have caused an error for all: the server refused a
// value or a row.
func isRefusedByDatabase(err error) bool {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (strings.HasPrefix(refused.Code, "22") || strings.HasPrefix(refused.Code, "23"))
}

// writeGroup loads the facts of a group, decides, and commits what is accepted, in one transaction.
func (s *Service) writeGroup(ctx context.Context, org string, requests []*pendingRequest) error {
	var f groupFacts
	hasRows := false
	err := s.DB.InOrgPipelined(ctx, org,
		func(b *pgx.Batch) { f = s.queueGroupFacts(b, org, requests) },
		func(ctx context.Context, tx pg.Tx, b *pgx.Batch) error {
			accepted, err := s.decideGroup(ctx, tx, org, f, requests)
			if hasRows = len(accepted) > 0; err != nil || !hasRows {
				return err
			}
			// The rows with the keys come before the balances. A request that waits for a key may wait for a
			// transaction that has that row and wants the balance, as endWithdrawal does.
			sortByKey(accepted)
			if err := s.writeAccepted(ctx, tx, b, org, f.accounts, accepted); err != nil {
				return err
			}
			failpoint.HitBeforeCommit("W03")
			return nil
		})
	if err != nil {
		return fmt.Errorf("write withdrawals of %s: %w", org, ledger.MapRefusal(err))
	}
	if hasRows {
		failpoint.Hit("W03")
	}
	return nil
}

// groupFacts are what a group's decisions rest on.
type groupFacts struct {
	settings func() (org.Settings, error)
	freezes  *freeze.ActiveSet
	mints    *mint.Catalogue
	accounts ledger.KnownAccounts
	owed     map[ledger.Account]money.Amount
	special  map[payee]bool
	taken    map[string]*request.Accepted // the withdrawals that have keys, by the hash
}

// queueGroupFacts queues the look-ups of what loadFacts loads for one request, in the same order of locks.
func (s *Service) queueGroupFacts(b *pgx.Batch, orgID string, requests []*pendingRequest) groupFacts {
	f := groupFacts{owed: map[ledger.Account]money.Amount{}}
	var customers, hashes []string
	var paying, held []ledger.Account
	payees := make([]payee, 0, len(requests))
	for _, p := range requests {
		customers, payees = append(customers, p.facts.owner.CustomerID()), append(payees, p.facts.payee())
		paying = append(paying, p.facts.owner.SpendingAccount(orgID, p.facts.mint.ID))
		held = append(held, p.facts.owner.HeldAccount(orgID, p.facts.mint.ID))
		if key := p.facts.request.IdempotencyKey; key != nil {
			hashes = append(hashes, keyHash(key))
		}
	}
	slices.Sort(customers)
	customers = slices.Compact(customers)
	org.QueueLockSettingsShared(b, orgID)
	f.settings = org.QueueSettings(b, orgID)
	f.freezes = freeze.QueueActive(b, orgID, customers)
	f.mints = mint.QueueAll(b)
	f.special = queueSpecial(b, orgID, payees)
	f.accounts = ledger.QueueLookup(b, paying, held)
	b.Queue(selectOwed, orgID, customers).Query(func(rows pgx.Rows) error {
		a := ledger.Account{OrgID: orgID, Kind: ledger.Customer}
		var owed money.Amount
		_, err := pgx.ForEachRow(rows, []any{&a.Subject, &a.MintID, &owed}, func() error {
			sum, err := f.owed[a].Add(owed)
			f.owed[a] = sum
			return err
		})
		return err
	})
	// Keys come last, as in a group of transfers: a withdrawal of the same key that another writer commits in between
	// is then found, and never takes the balance from under a request that is not known to be a replay.
	f.taken = queueKeys(b, orgID, hashes)
	return f
}

// Only the index of what is owed has this order, see pg.ByKey.
var selectOwed = `
	SELECT k.customer_id, w.mint_id, w.owed FROM unnest($2::text[]) AS k (customer_id)
	CROSS JOIN LATERAL (SELECT mint_id, owed FROM withdrawals
		WHERE org_id = $1 AND owed > 0 AND ` + pg.ByKey("customer_id", "k.customer_id") + `, mint_id) w`

// decideGroup decides about the requests of a group in their order, each on what those before it leave of balances,
// liquidity and what a rule counts. It returns those that are to be written. Every other request has its error.
func (s *Service) decideGroup(
	ctx context.Context, tx pg.Tx, orgID string, g groupFacts, requests []*pendingRequest,
) (accepted []*pendingRequest, err error) {
	settings, err := g.settings()
	if err != nil {
		return nil, fmt.Errorf("settings of %s: %w", orgID, err)
	}
	sums := map[int]money.Amount{}
	for _, p := range requests {
		if sums[p.facts.mint.ID], err = sums[p.facts.mint.ID].Add(p.facts.amount); err != nil {
			return nil, fmt.Errorf("add the withdrawals of mint %d: %w", p.facts.mint.ID, err)
		}
	}
	liquid, rules := map[int]money.Amount{}, map[int]ruleFacts{}
	for mintID, sum := range sums {
		m, isKnown := g.mints.ByID(mintID)
		if !isKnown {
			return nil, fmt.Errorf("mint %d has left the catalogue", mintID)
		}
		if liquid[mintID], err = loadLiquidity(ctx, tx, orgID, m, sum); err != nil {
			return nil, err
		}
		if rules[mintID], err = s.loadRule(ctx, tx, orgID, mintID, ""); err != nil {
			return nil, err
		}
	}
	balances := map[ledger.Account]money.Amount{}
	for a, account := range g.accounts {
		balances[a] = money.SubOrZero(account.Balance, g.owed[a])
	}
	hashes := map[string]bool{}
	for hash := range g.taken {
		hashes[hash] = true
	}
	for _, p := range requests {
		p.plan, p.created, p.err = Plan{}, Withdrawal{}, errAlone
		f := p.facts
		hash := keyHash(f.request.IdempotencyKey)
		isLimited := f.costs.isCounted && settings.CustomerFeeDayUSD != nil // a lock comes before the sum
		if hashes[hash] || g.special[f.payee()] || isLimited {
			continue
		}
		f.setSettings(settings)
		account := f.owner.SpendingAccount(orgID, f.mint.ID)
		f.activeFreeze = g.freezes.FindFor(freeze.Target{
			OrgID: orgID, CustomerID: f.owner.CustomerID(), Chain: f.mint.Chain,
		})
		f.setMint(*g.mints)
		f.ruleFacts, f.balance, f.liquid, f.isLoaded = rules[f.mint.ID], balances[account], liquid[f.mint.ID], true
		plan, rejection := Decide(f)
		if rejection != nil {
			p.err = rejection.Err
			continue
		}
		isHeld := plan.Status == AwaitingApproval && len(settings.ApprovalAllowlist) > 0 // the allowlist may let it go
		if plan.Status == Blocked || plan.ScreenFirst || isHeld {
			continue
		}
		if f.request.IdempotencyKey != nil {
			hashes[hash] = true
		}
		balances[account] = money.SubOrZero(balances[account], plan.Hold)
		if plan.Status == Processing {
			liquid[f.mint.ID] = money.SubOrZero(liquid[f.mint.ID], f.amount)
			if rule := rules[f.mint.ID]; rule.rule != nil {
				if rule.unsigned, err = rule.unsigned.Add(plan.Amount); err != nil {
					return nil, fmt.Errorf("add what %s pays without signatures: %w", orgID, err)
				}
				rules[f.mint.ID] = rule
			}
		}
		p.decided, p.plan, p.err = f, plan, nil
		accepted = append(accepted, p)
	}
	return accepted, nil
}

// setSettings sets what an organization's settings say of a customer's request.
func (f *Facts) setSettings(settings org.Settings) {
	f.keyRequired, f.quorum = settings.RequireWithdrawIdempotency, settings.ApprovalQuorum
	f.costs.limit = settings.CustomerFeeDayUSD
	if f.owner.IsOrganization() {
		f.threshold = settings.TwoFactorUSDThreshold
	} else {
		f.threshold, f.charging.costs = settings.CustomerWithdrawUSDThreshold, settings.ChargeCustomerCosts
	}
	f.screening.Case.Threshold = nil
	if t := risk.Severity(settings.WithdrawSeverityThreshold); t != "" {
		f.screening.Case.Threshold = &t
	}
}

// setMint replaces the mint by its current row, which may be quarantined since, and sets what the catalogue says of
// the destination.
func (f *Facts) setMint(mints mint.Catalogue) bool {
	m, isKnown := mints.ByID(f.mint.ID)
	if !isKnown {
		return false
	}
	f.mint = m
	f.isTokenContract = mints.IsContract(f.mint.Chain.Family(), f.destination)
	f.native, f.hasNative = mints.Native(f.mint.Chain)
	return true
}

// sortByKey sorts requests in the order in which a transaction takes their keys.
func sortByKey(requests []*pendingRequest) {
	slices.SortFunc(requests, func(a, b *pendingRequest) int {
		return cmp.Compare(keyHash(a.facts.request.IdempotencyKey), keyHash(b.facts.request.IdempotencyKey))
	})
}
