package deposit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/finality"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/failpoint"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/trace"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/internal/webhooks/event"
)

// ArrivalRole is what an arrival at a wallet of a swap is for that swap.
type ArrivalRole string

// These are the roles of arrivals.
const (
	Delivery ArrivalRole = "DELIVERY" // the customer or the product is credited
	Refund   ArrivalRole = "REFUND"   // the claim on the provider shrinks
	Stray    ArrivalRole = "STRAY"    // in suspense until a person decides
)

// Settler is an Owner that decides by rows of its own what each final arrival is. Its arrivals are not
// screened and not shown before they are final.
type Settler interface {
	Owner
	// SettleArrivals decides about all final arrivals at one wallet that are not credited yet, in the
	// system transaction that credits them. Their rows are locked. It locks and changes its own rows, and
	// writes through tx only; it may run twice.
	SettleArrivals(ctx context.Context, tx pg.Tx, w wallet.Wallet, waiting []WaitingArrival) (Settlement, error)
}

// WaitingArrival is a final arrival that is not credited.
type WaitingArrival struct {
	DepositID   string
	Chain       chain.Name
	MintID      int
	Amount      money.Amount
	Tx          chain.TxHash
	ConfirmedAt time.Time // when its block became final here
}

// Settlement is what a Settler decided.
type Settlement struct {
	Arrivals []SettledArrival // what is credited now; the others wait
	Postings []ledger.Posting // in addition to those of the credits
	Events   []event.Event    // after those of the deposits
	Audit    []audit.Entry
}

// SettledArrival is what becomes of one arrival.
type SettledArrival struct {
	DepositID  string
	Role       ArrivalRole
	CustomerID string // of the swap; "" if the swap is a product's, or unknown
	Product    string // of an organization's swap
	Completes  bool   // it completes the swap
	// Credit is the account that the arrival credits: of the customer or the product for a delivery, of the provider
	// for a refund, and the suspense account for a stray. Kind and Subject are enough.
	Credit ledger.Account
}

// ArrivalOwner is the part of a Settler that is the same for all of them. A Settler embeds it.
type ArrivalOwner struct{}

// Terms implements Owner. A provider may deliver in parts, so no part has a minimum.
func (ArrivalOwner) Terms() Terms { return Terms{IsSettled: true, HasNoMinimum: true} }

// Account implements Owner. It is the account of an arrival that no swap expects. What a settled arrival
// credits follows from its role.
func (ArrivalOwner) Account(string, bool) (ledger.Account, wallet.Part) {
	return ledger.Account{Kind: ledger.Suspense}, wallet.Credited
}

// EventType implements Owner. Hidden arrivals have no event.
func (ArrivalOwner) EventType(t event.Type) event.Type { return t }

// OnUpdates implements Owner.
func (ArrivalOwner) OnUpdates(context.Context, pg.Tx, []Update) error { return nil }

// arrivalAccount returns the account that an arrival at a wallet of a swap credits, or has moved to.
// A stray that is not hidden any more was credited to the owner of its swap by a person.
func (d storedDeposit) arrivalAccount() ledger.Account {
	switch {
	case d.role == Delivery, d.role == Stray && !d.isHidden:
		return ledger.OwnerOf(d.customerID, d.product).SpendingAccount("", 0)
	case d.role == Refund:
		return ledger.Account{Kind: ledger.AtProvider, Subject: d.provider}
	default:
		return ledger.Account{Kind: ledger.Suspense}
	}
}

// loadProvider reads the provider that a refund came from. Other deposits need none.
func (d *storedDeposit) loadProvider(ctx context.Context, tx pg.Tx) error {
	if d.role != Refund {
		return nil
	}
	err := tx.QueryRow(ctx, `SELECT provider FROM swaps WHERE swap_id = $1`, d.swapID).Scan(&d.provider)
	if err != nil {
		return fmt.Errorf("look up the provider of swap %s: %w", d.swapID, err)
	}
	return nil
}

// screeningOfSwap is the screening of an arrival for a swap. Its sender is a solver or a bridge, whose
// exposure says nothing about the customer.
var screeningOfSwap = mustEncode(storedScreening{
	Status: string(risk.StatusSkipped), Reference: new("INTERNAL_SWAP_CREDIT"),
})

// waitingWallet is a wallet of a swap with final arrivals that are not credited.
type waitingWallet struct {
	ID         string
	Chains     []string
	Mints      []int
	DepositIDs []string
}

// SettleArrivals has each Settler decide about the final arrivals at its wallets, one wallet after the
// other, each in a transaction of its own. It returns how many arrivals it credited. A wallet that fails
// does not stop the others; the errors are joined.
func (s *Service) SettleArrivals(ctx context.Context) (settled int, err error) {
	settled, _, err = s.settleExcept(ctx, nil)
	return settled, err
}

// settleExcept settles the wallets that are not in quiet. It returns what still waits, by wallet.
func (s *Service) settleExcept(
	ctx context.Context, quiet map[string]string,
) (settled int, waiting map[string]string, err error) {
	wallets, err := s.loadWaitingWallets(ctx)
	if err != nil {
		return 0, nil, err
	}
	waiting = map[string]string{}
	var errs []error
	for _, w := range wallets {
		key := strings.Join(w.DepositIDs, " ")
		waiting[w.ID] = key
		if quiet[w.ID] == key {
			continue
		}
		n, err := s.settleWallet(ctx, w)
		settled += n
		if err != nil {
			delete(waiting, w.ID)
			s.Log.Error("deposit: arrivals for a swap are not settled", "wallet", w.ID, "error", err)
			errs = append(errs, fmt.Errorf("settle the arrivals at wallet %s: %w", w.ID, err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	return settled, waiting, errors.Join(errs...)
}

// loadWaitingWallets leaves out arrivals of quarantined mints and arrivals with too few confirmations.
func (s *Service) loadWaitingWallets(ctx context.Context) (found []waitingWallet, err error) {
	err = s.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, `
			SELECT wallet_id, array_agg(DISTINCT chain ORDER BY chain), array_agg(DISTINCT mint_id ORDER BY mint_id),
				array_agg(deposit_id ORDER BY deposit_id)
			FROM deposits d
			WHERE status = 'SCREENING' AND swap_id IS NOT NULL
				AND NOT EXISTS (SELECT FROM mints m WHERE m.mint_id = d.mint_id AND m.quarantined_at IS NOT NULL)
				AND (depth_required = 0 OR finality_depth(chain, height) >= depth_required)
			GROUP BY wallet_id ORDER BY min(confirmed_at), wallet_id`)
		if err != nil {
			return err
		}
		found, err = pgx.CollectRows(rows, pgx.RowToStructByPos[waitingWallet])
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look for arrivals to settle: %w", err)
	}
	return found, nil
}

// settleWallet settles the arrivals at one wallet in one transaction. Its locks are those of a credit:
// finality, mints, deposits, then the rows of the Settler, funds, ledger and events.
func (s *Service) settleWallet(ctx context.Context, waiting waitingWallet) (settled int, err error) {
	var w wallet.Wallet
	err = s.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		w, err = wallet.ByID(ctx, tx, waiting.ID)
		return err
	})
	if err != nil {
		return 0, err
	}
	if err := s.Owners.checkPurpose(w.Purpose); err != nil {
		return 0, err
	}
	settler, isSettler := s.Owners.forPurpose(w.Purpose).(Settler)
	if !isSettler {
		return 0, fmt.Errorf("the owner of wallets of purpose %s settles nothing", w.Purpose)
	}
	if err := s.Wallets.VerifyAttestation(w); err != nil {
		return 0, fmt.Errorf("it is not proven to belong to this service: %w", err)
	}
	prices := map[int]mintPrice{}
	for _, mintID := range waiting.Mints {
		s.cachedPrice(ctx, prices, mintID)
	}
	var hasDelivery, hasRefund, hasStray bool
	err = s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		settled, hasDelivery, hasRefund, hasStray = 0, false, false, false
		arrivals, wallets, natives, err := s.lockArrivals(ctx, tx, w, waiting, prices)
		if err != nil || len(arrivals) == 0 {
			return err
		}
		var span trace.Span
		ctx, span = trace.StartChild(ctx, "deposit settle")
		defer func() { span.End(err) }()
		settlement, err := settler.SettleArrivals(ctx, tx, w, describeWaiting(arrivals))
		if err != nil {
			return err
		}
		changes, err := applySettlement(arrivals, settlement.Arrivals, tx.Now)
		if err != nil {
			return err
		}
		collected := credits{owners: s.Owners, wallets: wallets, postings: slices.Clone(settlement.Postings)}
		var entries []audit.Entry
		for _, c := range changes {
			collected.addCredit(c.after, natives[*c.after.mintID])
			entries = append(entries, newStatusEntry(c.after))
			hasDelivery = hasDelivery || c.after.role == Delivery
			hasRefund = hasRefund || c.after.role == Refund
			hasStray = hasStray || c.after.role == Stray
		}
		if err := s.applyChanges(ctx, tx, changes...); err != nil {
			return err
		}
		if err := collected.postCredits(ctx, tx, nil); err != nil {
			return err
		}
		if hasDelivery {
			failpoint.Hit("Q13")
		}
		if hasRefund {
			failpoint.Hit("Q17")
		}
		if err := s.publishEvents(
			ctx, tx, collected.announced, loadByID,
			func(after storedDeposit) event.Type { return s.Owners.eventFor(after, event.CustomerDeposit) },
		); err != nil {
			return err
		}
		if len(settlement.Events) > 0 {
			if err := s.Events.RecordMany(ctx, tx, settlement.Events...); err != nil {
				return err
			}
		}
		if err := recordAudit(ctx, tx, append(entries, settlement.Audit...)); err != nil {
			return err
		}
		settled = len(changes)
		if hasDelivery {
			failpoint.HitBeforeCommit("Q14")
		}
		if hasRefund {
			failpoint.HitBeforeCommit("Q18")
		}
		if hasStray {
			failpoint.HitBeforeCommit("Q22")
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	if hasDelivery {
		failpoint.Hit("Q14")
	}
	if hasRefund {
		failpoint.Hit("Q18")
	}
	if hasStray {
		failpoint.Hit("Q22")
	}
	return settled, nil
}

// lockArrivals locks the arrivals at a wallet and returns those that may be credited now, with their
// value. A proof, a mint or a depth that does not hold leaves an arrival out. natives says which mints are
// native coin.
func (s *Service) lockArrivals(
	ctx context.Context, tx pg.Tx, w wallet.Wallet, waiting waitingWallet, prices map[int]mintPrice,
) (arrivals []storedDeposit, wallets creditWallets, natives map[int]bool, err error) {
	broken := map[chain.Name]bool{}
	for _, name := range waiting.Chains {
		ch := chain.Name(name)
		if broken[ch], err = finality.LockShared(ctx, tx, ch); err != nil {
			return nil, nil, nil, err
		}
	}
	usable, err := mint.Usable(ctx, tx, waiting.Mints)
	if err != nil {
		return nil, nil, nil, err
	}
	catalogue, err := mint.LoadCatalogue(ctx, tx)
	if err != nil {
		return nil, nil, nil, err
	}
	rows, err := tx.Query(ctx, `
		SELECT `+columns+` FROM deposits
		WHERE deposit_id = ANY ($1) AND wallet_id = $2 AND status = 'SCREENING' AND swap_id IS NOT NULL
		ORDER BY deposit_id FOR UPDATE`, waiting.DepositIDs, w.ID)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("lock its arrivals: %w", err)
	}
	locked, err := pgx.CollectRows(rows, scanDeposit)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("lock its arrivals: %w", err)
	}
	if len(locked) == 0 {
		return nil, nil, nil, nil
	}
	_, proofs, err := loadWalletsAndProofs(ctx, tx, locked)
	if err != nil {
		return nil, nil, nil, err
	}
	if wallets, err = creditWalletsFor(ctx, tx, locked...); err != nil {
		return nil, nil, nil, err
	}
	natives = map[int]bool{}
	for _, d := range locked {
		m, isListed := catalogue.ByID(*d.mintID)
		isDeep, err := d.isDeepEnough(ctx, tx)
		if err != nil {
			return nil, nil, nil, err
		}
		_, hasWallet := wallets.walletFor(d)
		if !hasWallet {
			s.Log.Error("deposit: not credited: its organization has no treasury on this chain", "deposit", d.id)
		}
		isProven := proofs[*d.proofID] == provenBlock{d.height, d.blockHash} && d.isReceivedBy(w)
		if !isProven {
			s.Log.Error("deposit: not credited: its block or its wallet is not proven", "deposit", d.id)
		}
		if !isListed || !usable[m.ID] || broken[d.chain] || !isDeep || !hasWallet || !isProven {
			continue
		}
		d.usd = usdValue(d.amount, m.Decimals, prices[m.ID].freshUSD())
		natives[m.ID] = m.Kind == mint.Native
		arrivals = append(arrivals, d)
	}
	return arrivals, wallets, natives, nil
}

func describeWaiting(arrivals []storedDeposit) (waiting []WaitingArrival) {
	for _, d := range arrivals {
		a := WaitingArrival{DepositID: d.id, Chain: d.chain, MintID: *d.mintID, Amount: d.amount, Tx: d.tx}
		if d.confirmedAt != nil {
			a.ConfirmedAt = *d.confirmedAt
		}
		waiting = append(waiting, a)
	}
	return waiting
}

// applySettlement returns the changes that a settlement makes. It refuses one that names an arrival that
// does not wait, or that credits another account than the role of the arrival says. It is pure.
func applySettlement(arrivals []storedDeposit, settled []SettledArrival, now time.Time) (changes []change, err error) {
	byID := map[string]storedDeposit{}
	for _, d := range arrivals {
		byID[d.id] = d
	}
	for _, decided := range settled {
		before, isWaiting := byID[decided.DepositID]
		if !isWaiting {
			return nil, fmt.Errorf("deposit %s does not wait, and was settled", decided.DepositID)
		}
		delete(byID, decided.DepositID)
		after := before
		after.status, after.creditedAt, after.screening = Credited, &now, screeningOfSwap
		after.customerID, after.product = decided.CustomerID, decided.Product
		after.role, after.completesSwap = decided.Role, decided.Completes
		after.isHidden = decided.Role != Delivery
		if decided.Role == Refund {
			after.provider = decided.Credit.Subject
		}
		wanted := after.arrivalAccount()
		isWhole := wanted.Kind == ledger.Suspense || wanted.Subject != ""
		if !isWhole || (decided.Credit.Kind != wanted.Kind || decided.Credit.Subject != wanted.Subject) {
			return nil, fmt.Errorf("deposit %s is a %s and was to credit %v", before.id, decided.Role, decided.Credit)
		}
		changes = append(changes, change{before, after})
	}
	return changes, nil
}

// CreditedStray is a stray arrival that belongs to the owner of its swap from now on.
type CreditedStray struct {
	CustomerID string         // "" if it is a product's
	Posting    ledger.Posting // from the suspense account to the customer or the product
	Event      event.Event    // the deposit, with source INTERNAL
	Audit      audit.Entry
}

// CreditStray shows a stray arrival to its organization as a deposit of the owner of its swap. The
// caller then writes the decision into swap_arrivals, posts the posting together with its own, and records
// the event and the audit entry, all in this system transaction. Errors: a NOT_FOUND or INVALID_STATE
// fault if the deposit is no hidden stray of a known swap, or if its block is in question.
func (s *Service) CreditStray(
	ctx context.Context, tx pg.Tx, depositID string, actor audit.Actor,
) (CreditedStray, error) {
	var name chain.Name
	err := tx.QueryRow(ctx, `SELECT chain FROM deposits WHERE deposit_id = $1 AND swap_id IS NOT NULL`,
		depositID).Scan(&name)
	if errors.Is(err, pgx.ErrNoRows) {
		return CreditedStray{}, newNotFound()
	}
	if err != nil {
		return CreditedStray{}, fmt.Errorf("look up deposit %s: %w", depositID, err)
	}
	isBroken, err := finality.LockShared(ctx, tx, name)
	if err != nil {
		return CreditedStray{}, err
	}
	rows, err := tx.Query(
		ctx, `SELECT `+columns+` FROM deposits WHERE deposit_id = $1 AND swap_id IS NOT NULL FOR UPDATE`, depositID,
	)
	if err != nil {
		return CreditedStray{}, fmt.Errorf("lock deposit %s: %w", depositID, err)
	}
	before, err := pgx.CollectExactlyOneRow(rows, scanDeposit)
	if errors.Is(err, pgx.ErrNoRows) {
		return CreditedStray{}, newNotFound()
	}
	if err != nil {
		return CreditedStray{}, fmt.Errorf("lock deposit %s: %w", depositID, err)
	}
	if before.status != Credited || before.role != Stray || !before.isHidden ||
		before.customerID+before.product == "" {
		return CreditedStray{}, newNoStray(before)
	}
	if isBroken || before.chainStatus != chainFinalized {
		return CreditedStray{}, newSuspended()
	}
	after := before
	after.isHidden = false
	if err := s.applyChanges(ctx, tx, change{before, after}); err != nil {
		return CreditedStray{}, err
	}
	loaded, err := loadByID(ctx, tx, []storedDeposit{after})
	if err != nil {
		return CreditedStray{}, err
	}
	data, ok := loaded[after.id]
	if !ok {
		return CreditedStray{}, fmt.Errorf("deposit %s cannot be shown", after.id)
	}
	suspense := ledger.Account{OrgID: after.orgID, MintID: *after.mintID, Kind: ledger.Suspense}
	owner := ledger.OwnerOf(after.customerID, after.product).SpendingAccount(after.orgID, *after.mintID)
	entry := newStatusEntry(after)
	entry.Actor, entry.Action = actor, "deposit.stray_credited"
	return CreditedStray{
		CustomerID: after.customerID,
		Posting: ledger.Posting{
			Cause: ledger.Cause{Kind: ledger.Arrival, ID: after.id},
			Legs:  []ledger.Leg{{Debit: suspense, Credit: owner, Amount: after.amount}},
		},
		Event: event.Event{
			OrgID: after.orgID, Type: s.Owners.eventFor(after, event.CustomerDeposit), ResourceKind: resourceKind,
			ResourceID: after.id, CustomerID: after.customerID, Chain: string(after.chain), Data: data,
			FoundAgain: true,
		},
		Audit: entry,
	}, nil
}

func newNoStray(d storedDeposit) *fault.Fault {
	return newConflict(d.status, fault.InvalidState, fault.NothingWritten,
		"This deposit is no stray arrival that waits for a decision, or its swap is not known.")
}

const (
	arrivalsInterval = 500 * time.Millisecond
	// After a final block with an arrival the loop looks more often, because it was woken before the block
	// was committed.
	arrivalsEager      = 25 * time.Millisecond
	arrivalsEagerCount = 20
	// arrivalsQuiet is how long a wallet rests whose arrivals all wait, unless another one arrives.
	arrivalsQuiet = 5 * time.Second
)

// arrivalsWake wakes RunArrivals.
type arrivalsWake struct {
	made sync.Once
	ch   chan struct{}
}

func (w *arrivalsWake) channel() chan struct{} {
	w.made.Do(func() { w.ch = make(chan struct{}, 1) })
	return w.ch
}

func (s *Service) wakeArrivals() {
	select {
	case s.arrivals.channel() <- struct{}{}:
	default:
	}
}

// RunArrivals settles the arrivals at the wallets of swaps until ctx ends. It returns nil.
func (s *Service) RunArrivals(ctx context.Context) error {
	timer := time.NewTimer(arrivalsInterval)
	defer timer.Stop()
	var quiet map[string]string
	var quietSince time.Time
	eager := 0
	for ctx.Err() == nil {
		if now := time.Now(); now.Sub(quietSince) >= arrivalsQuiet {
			quiet, quietSince = nil, now
		}
		n, waiting, err := s.settleExcept(ctx, quiet)
		if err != nil && ctx.Err() == nil {
			s.Log.Warn("deposit: settling arrivals stopped early", "error", err)
		}
		if waiting != nil {
			quiet = waiting
		}
		pause := arrivalsInterval
		if n > 0 {
			eager = 0
		}
		if eager > 0 {
			eager, pause = eager-1, arrivalsEager
		}
		timer.Reset(pause)
		select {
		case <-timer.C:
		case <-s.arrivals.channel():
			eager = arrivalsEagerCount
		case <-ctx.Done():
		}
	}
	return nil
}
