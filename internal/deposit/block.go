package deposit

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/platform/failpoint"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/trace"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/scan"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/internal/webhooks/event"
)

// OnRecent implements scan.Listener. It records a deposit of a customer or an organization as soon
// as a block has it. It writes no row for an arrival that cannot be credited: that row follows once
// the block is final. It writes no row for dust either, because anyone can send dust by the
// thousand.
func (s *Service) OnRecent(ctx context.Context, tx pg.Tx, ch chain.Name, b chain.Block, found []scan.Arrival) error {
	var visible []scan.Arrival
	for _, f := range found {
		if err := s.Owners.checkPurpose(f.Wallet.Purpose); err != nil {
			return err
		}
		if f.Mint != nil && s.Owners.forPurpose(f.Wallet.Purpose).Terms().isShownEarly() &&
			!f.Amount.Less(f.Mint.MinDeposit) {
			visible = append(visible, f)
		}
	}
	return s.applyBlock(ctx, tx, ch, b, nil, visible, blockDecisions{})
}

// OnOrphaned implements scan.Listener. It orphans the deposits at height from and above that are
// not final.
func (s *Service) OnOrphaned(ctx context.Context, tx pg.Tx, ch chain.Name, from uint64) error {
	unproven, err := lockUnproven(ctx, tx, `height >= $2`, ch, from)
	if err != nil {
		return err
	}
	return s.orphanDeposits(ctx, tx, unproven)
}

// OnFinal implements scan.Listener. It makes the deposits of the block final. It orphans what was
// seen at this height or below and never became final. It credits with the block the deposits that
// need no answer of a risk provider.
func (s *Service) OnFinal(ctx context.Context, ch chain.Name, b chain.Block, found []scan.Arrival) scan.Apply {
	decisions := s.decideBlock(ctx, ch, b, found)
	return func(ctx context.Context, tx pg.Tx, p scan.Proof) (err error) {
		if len(found) > 0 {
			var span trace.Span
			ctx, span = trace.StartChild(ctx, "deposit observe")
			defer func() { span.End(err) }()
		}
		return s.applyBlock(ctx, tx, p.Chain, p.Block, &p.ID, found, decisions)
	}
}

// lockUnproven locks the deposits that are not final at the heights of the condition. The condition
// names the height as $2.
func lockUnproven(
	ctx context.Context, tx pg.Tx, heights string, ch chain.Name, height uint64,
) ([]storedDeposit, error) {
	rows, err := tx.Query(ctx, `
		SELECT `+columns+` FROM deposits WHERE chain = $1 AND status = 'CONFIRMING' AND `+heights+`
		ORDER BY deposit_id FOR UPDATE`, ch, height)
	if err != nil {
		return nil, fmt.Errorf("look for unproven deposits on %s: %w", ch, err)
	}
	unproven, err := pgx.CollectRows(rows, scanDeposit)
	if err != nil {
		return nil, fmt.Errorf("look for unproven deposits on %s: %w", ch, err)
	}
	return unproven, nil
}

// orphanDeposits orphans deposits that the transaction has locked. Rule DEP-9.
func (s *Service) orphanDeposits(ctx context.Context, tx pg.Tx, deposits []storedDeposit) error {
	if len(deposits) == 0 {
		return nil
	}
	var (
		changes []change
		entries []audit.Entry
	)
	for _, d := range deposits {
		c := orphan(d)
		changes, entries = append(changes, c), append(entries, newStatusEntry(c.after))
	}
	if err := s.applyChanges(ctx, tx, changes...); err != nil {
		return err
	}
	return recordAudit(ctx, tx, entries)
}

// orphan returns the change of a deposit that the chain no longer shows. It is pure.
func orphan(before storedDeposit) change {
	after := before
	after.status, after.chainStatus = Orphaned, chainReorged
	return change{before, after}
}

// newStatusEntry returns the audit entry of the status that a deposit now has.
func newStatusEntry(after storedDeposit) audit.Entry {
	detail := map[string]string{
		"txHash": string(after.tx), "blockHash": after.blockHash, "amount": after.amount.String(),
		"reason": after.reason,
	}
	if after.depositSwapID != "" {
		detail["depositSwapId"] = after.depositSwapID
	}
	if after.checkoutID != "" {
		detail["checkoutId"] = after.checkoutID
	}
	if after.swapID != "" {
		detail["swapId"], detail["role"] = after.swapID, string(after.role)
	}
	return audit.Entry{
		OrgID: after.orgID, Actor: systemActor, Action: "deposit." + auditActions[after.status],
		ResourceKind: resourceKind, ResourceID: after.id, Detail: detail,
	}
}

var auditActions = map[Status]string{
	Confirming: "seen", Orphaned: "orphaned", Screening: "finalized", Credited: "credited",
	Unsupported: "unsupported", BelowMinimum: "below_minimum", Reversed: "reversed",
	Flagged: "flagged", Rejecting: "rejecting", Redirecting: "redirecting", ResolutionStuck: "resolution_stuck",
	Rejected: "rejected", Redirected: "redirected",
}

func recordAudit(ctx context.Context, tx pg.Tx, entries []audit.Entry) error {
	if len(entries) == 0 {
		return nil
	}
	return audit.Record(ctx, tx, entries...)
}

// movementKey identifies a deposit on its chain.
type movementKey struct {
	tx       chain.TxHash
	kind     chain.Kind
	position string
}

// targetKey identifies where a movement arrived on the chain. On another fork the same position of
// the same transaction can pay another address.
type targetKey struct {
	movementKey
	address, contract chain.Address
}

func (d storedDeposit) targetKey() targetKey {
	return targetKey{movementKey{d.tx, d.kind, d.position}, d.address, d.contract}
}

// newDepositID returns the id of a new deposit, derived from what the chain shows. A database that
// was restored from a backup finds the deposit again under the id that integrators know. An
// integrator that checks this id credits no deposit twice. If rows of the same arrival exist, their
// count makes the new id another one. Rule DEP-13.
func newDepositID(d storedDeposit, rowCounts map[targetKey]int) string {
	parts := []string{
		d.orgID, string(d.chain), string(d.tx), string(d.kind), d.position, string(d.address), string(d.contract),
	}
	if n := rowCounts[d.targetKey()]; n > 0 {
		parts = append(parts, strconv.Itoa(n))
	}
	return id.Derive("dep", parts...)
}

// applyBlock brings the deposits of a block up to date. proof is nil for a block that is not final.
// With a proof it credits a deposit at once if the decisions still hold and its tier asks for no
// more confirmations, and it orphans the deposits at this height or below that are in no final block.
// Applying the same block again changes nothing. Rules DEP-4 and DEP-9.
func (s *Service) applyBlock(
	ctx context.Context, tx pg.Tx, ch chain.Name, b chain.Block, proof *int64, found []scan.Arrival,
	decisions blockDecisions,
) error {
	on := s.Chains[ch]
	found = slices.Clone(found)
	if ch.IsUTXO() {
		var err error
		if found, err = takeChangeOutputs(ctx, tx, ch, b, proof, found); err != nil {
			return err
		}
	}
	found = slices.DeleteFunc(found, func(f scan.Arrival) bool {
		return f.FromOwnWallets || f.Amount.IsZero()
	})
	if len(found) == 0 {
		if proof == nil {
			return nil
		}
		unproven, err := lockUnproven(ctx, tx, `height <= $2`, ch, b.Height)
		if err != nil {
			return err
		}
		return s.orphanDeposits(ctx, tx, unproven)
	}
	decisions, err := decisions.dropChanged(ctx, tx, ch)
	if err != nil {
		return err
	}
	deposits, err := lockDeposits(ctx, tx, ch, b, proof, found)
	if err != nil {
		return err
	}
	living, removed, rowCounts := groupByMovement(deposits)
	found, err = limitUnknownTokens(ctx, tx, ch, b, found, func(f scan.Arrival) bool {
		m := movementKey{f.Tx, f.Kind, f.Position}
		_, isLiving := living[m]
		return isLiving || len(removed[m]) > 0
	})
	if err != nil {
		return err
	}
	var (
		changes    []change
		dust       []wallet.Movement
		entries    []audit.Entry
		reappeared bool // a deposit that a fork had removed is there again
	)
	wallets, err := creditWalletsOn(ctx, tx, ch, found)
	if err != nil {
		return err
	}
	depositSwapCustomers, err := s.loadDepositSwapCustomers(ctx, tx, found)
	if err != nil {
		return err
	}
	credits := credits{owners: s.Owners, wallets: wallets}
	for _, f := range found {
		if err := s.Owners.checkPurpose(f.Wallet.Purpose); err != nil {
			return err
		}
		owner := s.Owners.forPurpose(f.Wallet.Purpose)
		m := movementKey{f.Tx, f.Kind, f.Position}
		before, isLiving := living[m]
		reorgedMatch := findReproven(removed[m], f)
		if reorgedMatch != nil && proof == nil {
			// The deposit is in the ledger already, and a recent block decides nothing.
			continue
		}
		if isLiving &&
			(before.address != f.To || before.contract != f.Contract || reorgedMatch != nil && before.proofID == nil) {
			// The earlier fork had another payee at the same position of the transaction, or an
			// amount that no final fork has paid.
			if before.proofID != nil {
				return fmt.Errorf(
					"deposit %s is final, and block %d has another transfer in its place", before.id, b.Height,
				)
			}
			c := orphan(before)
			changes, entries = append(changes, c), append(entries, newStatusEntry(c.after))
			before, isLiving = storedDeposit{}, false
		}
		if reorgedMatch != nil && !isLiving {
			// The same deposit has a new proof: nothing is posted and no event is recorded.
			after, now := *reorgedMatch, tx.Now
			after.from, after.senders = splitSenders(f)
			after.logIndex, after.height, after.blockHash = f.LogIndex, b.Height, b.Hash
			after.blockTime, after.references = b.Time, f.References
			after.proofID, after.chainStatus, after.confirmedAt = proof, chainFinalized, &now
			changes = append(changes, change{*reorgedMatch, after})
			e := newStatusEntry(after)
			e.Action = "deposit.proven_again"
			entries = append(entries, e)
			continue
		}
		if !isLiving {
			for _, former := range removed[m] {
				if former.status == Orphaned && former.flag == nil && former.address == f.To &&
					former.contract == f.Contract {
					before = former
				}
			}
		}
		after, isChanged, err := nextState(before, f, owner, ch, b, proof, on.Tiers)
		if err != nil {
			return err
		}
		if !isChanged {
			continue
		}
		if after.depositSwapID != "" && after.customerID == "" {
			after.customerID = depositSwapCustomers[after.depositSwapID]
			after.isHidden = after.customerID == ""
		}
		if before.status == "" {
			after.id, after.createdAt = newDepositID(after, rowCounts), tx.Now
		}
		if proof != nil {
			now := tx.Now
			after.confirmedAt = &now
		}
		isDeep := true
		if proof != nil && after.depth > 0 {
			if isDeep, err = after.isDeepEnough(ctx, tx); err != nil {
				return err
			}
		}
		_, hasWallet := wallets.walletFor(after)
		if after.status == Screening && after.swapID != "" {
			s.wakeArrivals()
		}
		isOwned := after.swapID == "" && (after.depositSwapID == "" || after.customerID != "")
		if after.status == Screening && isOwned && decisions.creditDeposit(
			&after, f, owner.Terms().IsOperators, isDeep, hasWallet, tx.Now,
		) {
			credits.addCredit(after, f.Mint.Kind == mint.Native)
		}
		changes = append(changes, change{before, after})
		reappeared = reappeared || before.status == Orphaned
		entries = append(entries, newStatusEntry(after))
		if after.status == BelowMinimum {
			dust = append(
				dust,
				wallet.Movement{
					WalletID: after.walletID, OrgID: after.orgID, MintID: *after.mintID, Part: wallet.Dust,
					Plus: after.amount,
				},
			)
		}
	}
	if proof != nil {
		// One report tells the owners of arrivals and of orphans, because what the credits lock comes
		// later in the order of locks than the rows of owners.
		orphans := missingDeposits(deposits, changes, b.Height)
		changes = append(changes, orphans...)
		for _, c := range orphans {
			entries = append(entries, newStatusEntry(c.after))
		}
	}
	if err := s.applyChanges(ctx, tx, changes...); err != nil {
		return err
	}
	if on.Memos != nil {
		if err := s.queueMemos(ctx, tx, ch, changes); err != nil {
			return err
		}
	}
	if proof != nil && ch.IsUTXO() {
		if err := recordOutputs(ctx, tx, changes); err != nil {
			return err
		}
	}
	if reappeared {
		failpoint.Hit("D13")
	}
	if proof == nil {
		if err := s.announceSeen(ctx, tx, changes); err != nil {
			return err
		}
	}
	if decisions.accepted != nil {
		if err := insertDecisions(ctx, tx, *decisions.accepted); err != nil {
			return err
		}
	}
	return s.writeCredits(ctx, tx, credits, dust, entries)
}

// announceSeen records an event for each customer's deposit that a recent block shows for the first
// time. Only organizations with an endpoint for this event get one, because the event promises
// nothing. A deposit that a fork removes and shows again is announced once. Rule DEP-27.
func (s *Service) announceSeen(ctx context.Context, tx pg.Tx, changes []change) error {
	var orgs []string
	for _, c := range changes {
		if c.before.status == "" && c.after.customerID != "" {
			orgs = append(orgs, c.after.orgID)
		}
	}
	if len(orgs) == 0 {
		return nil
	}
	slices.Sort(orgs)
	subscribed, err := event.SubscribedOrgs(ctx, tx, event.CustomerDepositSeen, slices.Compact(orgs))
	if err != nil || len(subscribed) == 0 {
		return err
	}
	var announced []storedDeposit
	for _, c := range changes {
		if c.before.status == "" && c.after.customerID != "" && subscribed[c.after.orgID] {
			announced = append(announced, c.after)
		}
	}
	return s.publishEvents(
		ctx, tx, announced, freshDeposits, func(storedDeposit) event.Type { return event.CustomerDepositSeen },
	)
}

// publishEvents records one event for each deposit. load gives the object of each:
// freshDeposits or loadByID.
func (s *Service) publishEvents(
	ctx context.Context, tx pg.Tx, deposits []storedDeposit,
	load func(context.Context, pg.Tx, []storedDeposit) (map[string]Deposit, error),
	typeOf func(storedDeposit) event.Type,
) error {
	loaded, err := load(ctx, tx, deposits)
	if err != nil {
		return err
	}
	events := make([]event.Event, len(deposits))
	for i, after := range deposits {
		data, ok := loaded[after.id]
		if !ok {
			return fmt.Errorf("deposit %s cannot be shown", after.id)
		}
		events[i] = event.Event{
			OrgID: after.orgID, Type: typeOf(after), ResourceKind: resourceKind, ResourceID: after.id,
			CustomerID: after.customerID, Chain: string(after.chain), Data: data, FoundAgain: true,
		}
	}
	return s.Events.RecordMany(ctx, tx, events...)
}

// lockDeposits locks the deposits of the transactions that a block has arrivals of. With a proof it also locks those
// that are not final at the height of the block or below.
func lockDeposits(
	ctx context.Context, tx pg.Tx, ch chain.Name, b chain.Block, proof *int64, found []scan.Arrival,
) ([]storedDeposit, error) {
	var (
		hashes []chain.TxHash
		height *uint64
	)
	for _, f := range found {
		hashes = append(hashes, f.Tx)
	}
	slices.Sort(hashes)
	if proof != nil {
		height = &b.Height
	}
	rows, err := tx.Query(ctx, `
		SELECT `+columns+` FROM deposits
		WHERE chain = $1 AND (tx_hash = ANY($2) OR status = 'CONFIRMING' AND height <= $3)
		ORDER BY deposit_id FOR UPDATE`, ch, slices.Compact(hashes), height)
	if err != nil {
		return nil, fmt.Errorf("look for deposits on %s: %w", ch, err)
	}
	deposits, err := pgx.CollectRows(rows, scanDeposit)
	if err != nil {
		return nil, fmt.Errorf("look for deposits on %s: %w", ch, err)
	}
	return deposits, nil
}

// groupByMovement returns deposits by movement. It is pure.
//   - living: those that the chain shows
//   - removed: those that a fork removed, including credited ones whose finality broke
//   - rowCounts: how many rows each arrival has, by target
func groupByMovement(deposits []storedDeposit) (
	living map[movementKey]storedDeposit, removed map[movementKey][]storedDeposit, rowCounts map[targetKey]int,
) {
	living, removed = map[movementKey]storedDeposit{}, map[movementKey][]storedDeposit{}
	rowCounts = map[targetKey]int{}
	for _, r := range deposits {
		rowCounts[r.targetKey()]++
		m := movementKey{r.tx, r.kind, r.position}
		if r.chainStatus == chainReorged {
			removed[m] = append(removed[m], r)
			continue
		}
		living[m] = r
	}
	return living, removed, rowCounts
}

// missingDeposits returns the changes that orphan the deposits that were seen at a final height or below and that the
// changes of the block do not name: they are in no final block. It is pure. Rule DEP-9.
func missingDeposits(deposits []storedDeposit, changes []change, height uint64) (orphans []change) {
	isChanged := make(map[string]bool, len(changes))
	for _, c := range changes {
		isChanged[c.before.id] = true
	}
	for _, d := range deposits {
		if d.status == Confirming && d.height <= height && !isChanged[d.id] {
			orphans = append(orphans, orphan(d))
		}
	}
	return orphans
}

// nextState returns what a deposit becomes by a block that has it. It is pure.
func nextState(
	before storedDeposit, f scan.Arrival, owner Owner, ch chain.Name, b chain.Block, proof *int64, tiers chain.Tiers,
) (after storedDeposit, isChanged bool, err error) {
	if before.proofID != nil {
		if proof != nil && before.blockHash != b.Hash {
			return storedDeposit{}, false, fmt.Errorf(
				"deposit %s is final in block %s and again in %s", before.id, before.blockHash, b.Hash,
			)
		}
		return before, false, nil
	}
	if proof == nil && before.status == Confirming && before.blockHash == b.Hash {
		return before, false, nil
	}
	after = before
	if before.status == "" {
		after.orgID, after.walletID, after.purpose = f.Wallet.OrgID, f.Wallet.ID, f.Wallet.Purpose
		switch terms := owner.Terms(); {
		case terms.IsSettled:
			after.swapID, after.isHidden = f.Wallet.Subject, true
		case terms.IsOfDepositSwap:
			after.depositSwapID, after.isHidden = f.Wallet.Subject, true // until its customer is known
		default:
			switch account, _ := owner.Account(f.Wallet.Subject, false); account.Kind {
			case ledger.Customer:
				after.customerID = account.Subject
			case ledger.Product:
				after.product = account.Subject
			}
			if terms.IsOfCheckout {
				after.checkoutID = f.Wallet.Subject
			}
		}
		after.chain, after.contract, after.address = ch, f.Contract, f.To
		after.tx, after.kind, after.position = f.Tx, f.Kind, f.Position
		after.screening = screeningPending
	}
	after.mintID = nil
	if f.Mint != nil {
		mintID := f.Mint.ID
		after.mintID = &mintID
	}
	after.from, after.senders = splitSenders(f)
	after.amount, after.logIndex = f.Amount, f.LogIndex
	after.depth = 0
	if f.Contract == "" {
		after.depth = tiers.Depth(f.Amount)
	}
	after.height, after.blockHash, after.proofID = b.Height, b.Hash, proof
	after.blockTime, after.references = b.Time, f.References
	after.status, after.chainStatus, after.reason = Confirming, chainIncluded, ""
	if proof != nil {
		after.chainStatus = chainFinalized
		after.status, after.reason = finalStatus(f, owner.Terms())
		if after.status != Screening {
			after.screening = screeningSkipped
		}
	}
	return after, true, nil
}

// splitSenders returns what a deposit records of its senders: the single one, or all of several. If
// there are more than risk.SendersMax it records none, because anyone can make a transaction with
// any number of senders.
func splitSenders(f scan.Arrival) (single chain.Address, multiple []chain.Address) {
	if n := len(f.Senders); n > 1 && n <= risk.SendersMax {
		return "", f.Senders
	}
	return f.From, nil
}

// finalStatus returns the status of a final movement before screening, with its reason. It is pure.
// It ignores a quarantine of the mint, because a quarantine can be lifted. A deposit of such a mint
// waits in SCREENING. Rules DEP-6, DEP-7 and DEP-41.
func finalStatus(f scan.Arrival, terms Terms) (Status, string) {
	switch {
	case f.Mint == nil:
		return Unsupported, UnknownToken
	case f.Doubt != "":
		return Unsupported, f.Doubt
	case terms.Refusal != "":
		return Unsupported, terms.Refusal
	case !terms.HasNoMinimum && f.Amount.Less(f.Mint.MinDeposit):
		return BelowMinimum, ""
	default:
		return Screening, ""
	}
}
