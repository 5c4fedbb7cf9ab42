package deposit

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/crash"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/event"
	"github.com/cofferpay/coffer/internal/id"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/scan"
	"github.com/cofferpay/coffer/internal/trace"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/webhook"
)

// Seen implements scan.Listener: a customer's or an organization's deposit is
// shown as soon as a block has it. What cannot be credited is shown once it is final; of dust, which
// somebody may send by the thousand, nothing is written before that.
func (d *Desk) Seen(ctx context.Context, tx pg.Tx, ch chain.Name, b chain.Block, found []scan.Found) error {
	var shown []scan.Found
	for _, f := range found {
		if f.Mint != nil && !wallet.Operators(f.Wallet.Purpose) && !f.Amount.Less(f.Mint.MinDeposit) {
			shown = append(shown, f)
		}
	}
	return take(ctx, tx, ch, b, nil, shown, decided{}, d.chains[ch])
}

// Orphaned implements scan.Listener.
func (d *Desk) Orphaned(ctx context.Context, tx pg.Tx, ch chain.Name, from uint64) error {
	return orphan(ctx, tx, `height >= $4`, ch, from)
}

// Observe implements scan.Listener: what the block has is final, and what was seen
// at its height or below and never became final is gone. What nobody has to be asked
// about is credited with its block.
func (d *Desk) Observe(ctx context.Context, ch chain.Name, b chain.Block, found []scan.Found) scan.Taking {
	ready := d.decide(ctx, ch, b, found)
	return func(ctx context.Context, tx pg.Tx, p scan.Proof) (err error) {
		if len(found) > 0 {
			var span trace.Span
			ctx, span = trace.Within(ctx, "deposit observe")
			defer func() { span.End(err) }()
		}
		if err := take(ctx, tx, p.Chain, p.Block, &p.ID, found, ready, d.chains[p.Chain]); err != nil {
			return err
		}
		return orphan(ctx, tx, `height <= $4`, p.Chain, p.Height)
	}
}

// orphan takes back what is not final at the heights of the condition.
func orphan(ctx context.Context, tx pg.Tx, heights string, ch chain.Name, height uint64) error {
	if !allowed(Confirming, Orphaned) {
		panic("deposit: nothing can be orphaned")
	}
	rows, err := tx.Query(ctx, `
		UPDATE deposits SET status = $1, chain_status = $2
		WHERE chain = $3 AND status = 'CONFIRMING' AND `+heights+`
		RETURNING `+columns, Orphaned, reorged, ch, height)
	if err != nil {
		return fmt.Errorf("orphan deposits on %s: %w", ch, err)
	}
	gone, err := pgx.CollectRows(rows, scanned)
	if err != nil {
		return fmt.Errorf("orphan deposits on %s: %w", ch, err)
	}
	var entries []audit.Entry
	for _, g := range gone {
		entries = append(entries, changed(g))
	}
	return record(ctx, tx, entries)
}

// changed is the audit row of what a deposit became.
func changed(is row) audit.Entry {
	return audit.Entry{
		OrgID: is.orgID, Actor: actor, Action: "deposit." + action[is.status], ResourceKind: resourceKind, ResourceID: is.id,
		Detail: map[string]string{
			"txHash": string(is.tx), "blockHash": is.blockHash, "amount": is.amount.String(), "reason": is.reason,
		},
	}
}

var action = map[Status]string{
	Confirming: "seen", Orphaned: "orphaned", Screening: "finalized", Credited: "credited",
	Unsupported: "unsupported", BelowMinimum: "below_minimum", Reversed: "reversed",
	Flagged: "flagged", Rejecting: "rejecting", Redirecting: "redirecting", ResolutionStuck: "resolution_stuck", Rejected: "rejected", Redirected: "redirected",
}

func record(ctx context.Context, tx pg.Tx, entries []audit.Entry) error {
	if len(entries) == 0 {
		return nil
	}
	return audit.Record(ctx, tx, entries...)
}

// movement is what names a deposit on its chain.
type movement struct {
	tx       chain.TxHash
	kind     chain.Kind
	position string
}

// account is where on the chain a movement arrived. Another fork can have the same
// place of the same transaction arrive elsewhere.
type account struct {
	movement
	address, contract chain.Address
}

func (d row) account() account {
	return account{movement{d.tx, d.kind, d.position}, d.address, d.contract}
}

// named is the id of a new deposit. It follows from what the chain says, so that a
// database that was restored from a backup finds it again under the id that
// integrators know, and who looks at that credits nobody twice. Should a row of the
// same arrival be there already, the new one is another deposit.
func named(d row, met map[account]int) string {
	parts := []string{d.orgID, string(d.chain), string(d.tx), string(d.kind), d.position, string(d.address), string(d.contract)}
	if n := met[d.account()]; n > 0 {
		parts = append(parts, strconv.Itoa(n))
	}
	return id.Of("dep", parts...)
}

// take brings the deposits of a block up to date. proof is nil for a block that
// is not final; what is ready to be credited then is, if nothing speaks against it
// now and its tier wants no more blocks. Telling it the same block again changes nothing.
func take(ctx context.Context, tx pg.Tx, ch chain.Name, b chain.Block, proof *int64, found []scan.Found, ready decided, on chain.Chain) error {
	found = slices.Clone(found)
	if ch.Pooled() {
		var err error
		if found, err = rests(ctx, tx, ch, b, proof, found); err != nil {
			return err
		}
	}
	found = slices.DeleteFunc(found, func(f scan.Found) bool {
		return f.FromOurs || f.Amount.IsZero()
	})
	if len(found) == 0 {
		return nil
	}
	ready, err := ready.still(ctx, tx, ch)
	if err != nil {
		return err
	}
	living, gone, met, err := known(ctx, tx, ch, found)
	if err != nil {
		return err
	}
	found, err = bounded(ctx, tx, ch, b, found, func(f scan.Found) bool {
		m := movement{f.Tx, f.Kind, f.Position}
		_, lives := living[m]
		return lives || len(gone[m]) > 0
	})
	if err != nil {
		return err
	}
	var (
		changes []change
		dust    []wallet.Movement
		entries []audit.Entry
		back    bool // one that a fork took away is there again
	)
	at, err := keepersOn(ctx, tx, ch, found)
	if err != nil {
		return err
	}
	credits := credits{at: at}
	for _, f := range found {
		m := movement{f.Tx, f.Kind, f.Position}
		was, lives := living[m]
		again := returned(gone[m], f)
		if again != nil && proof == nil {
			continue // it stands in the books, and a recent block decides nothing
		}
		if lives && (was.address != f.To || was.contract != f.Contract || again != nil && was.proofID == nil) {
			// The fork that showed it had the same place of the transaction pay
			// somebody else, or as much as no fork that was final has paid.
			if was.proofID != nil {
				return fmt.Errorf("deposit %s is final and block %d has another movement in its place", was.id, b.Height)
			}
			left := was
			left.status, left.chainStatus = Orphaned, reorged
			changes = append(changes, change{was, left})
			entries = append(entries, changed(left))
			was, lives = row{}, false
		}
		if again != nil && !lives {
			// The same money, proven anew: nothing is posted and nothing told.
			is, now := *again, tx.Now
			is.from, is.senders = senders(f)
			is.logIndex, is.height, is.blockHash = f.LogIndex, b.Height, b.Hash
			is.proofID, is.chainStatus, is.confirmedAt = proof, finalized, &now
			changes = append(changes, change{*again, is})
			e := changed(is)
			e.Action = "deposit.proven_again"
			entries = append(entries, e)
			continue
		}
		if !lives {
			for _, o := range gone[m] {
				if o.status == Orphaned && o.flag == nil && o.address == f.To && o.contract == f.Contract {
					was = o
				}
			}
		}
		is, differs, err := next(was, f, ch, b, proof, on.Tiers)
		if err != nil {
			return err
		}
		if !differs {
			continue
		}
		if was.status == "" {
			is.id, is.createdAt = named(is, met), tx.Now
		}
		if proof != nil {
			now := tx.Now
			is.confirmedAt = &now
		}
		deep := true
		if proof != nil && is.depth > 0 {
			if deep, err = is.deep(ctx, tx); err != nil {
				return err
			}
		}
		if _, known := at.of(is); is.status == Screening && known && deep && ready.credit(&is, f, tx.Now) {
			credits.add(is, f.Mint.Kind == mint.Native)
		}
		changes = append(changes, change{was, is})
		back = back || was.status == Orphaned
		entries = append(entries, changed(is))
		if is.status == BelowMinimum {
			dust = append(dust, wallet.Movement{WalletID: is.walletID, OrgID: is.orgID, MintID: *is.mintID, Part: wallet.Dust, Plus: is.amount})
		}
	}
	if err := owners(ctx, tx, changes); err != nil {
		return err
	}
	if err := become(ctx, tx, changes...); err != nil {
		return err
	}
	if on.Memos != nil {
		if err := queueMemos(ctx, tx, ch, changes); err != nil {
			return err
		}
	}
	if proof != nil && ch.Pooled() {
		if err := outputs(ctx, tx, changes); err != nil {
			return err
		}
	}
	if back {
		crash.Point("D13")
	}
	if proof == nil {
		if err := seen(ctx, tx, changes); err != nil {
			return err
		}
	}
	if ready.kept != nil {
		if err := decisions(ctx, tx, *ready.kept); err != nil {
			return err
		}
	}
	return credits.write(ctx, tx, dust, entries)
}

// seen tells of customers' deposits that a recent block shows for the first time, to
// whoever has an endpoint for that. It promises nothing, so it is written only where
// it is wanted; what a fork takes away and brings again is told once.
func seen(ctx context.Context, tx pg.Tx, changes []change) error {
	var orgs []string
	for _, c := range changes {
		if c.was.status == "" && c.is.customerID != "" {
			orgs = append(orgs, c.is.orgID)
		}
	}
	if len(orgs) == 0 {
		return nil
	}
	slices.Sort(orgs)
	named, err := event.Named(ctx, tx, event.CustomerDepositSeen, slices.Compact(orgs))
	if err != nil || len(named) == 0 {
		return err
	}
	var told []row
	for _, c := range changes {
		if c.was.status == "" && c.is.customerID != "" && named[c.is.orgID] {
			told = append(told, c.is)
		}
	}
	return tell(ctx, tx, told, fresh, func(row) event.Type { return event.CustomerDepositSeen })
}

// tell records an event of each deposit, with the object that show gives of it: fresh
// or byID.
func tell(ctx context.Context, tx pg.Tx, told []row, show func(context.Context, pg.Tx, []row) (map[string]webhook.Deposit, error), as func(row) event.Type) error {
	shown, err := show(ctx, tx, told)
	if err != nil {
		return err
	}
	events := make([]event.Event, len(told))
	for i, is := range told {
		object, ok := shown[is.id]
		if !ok {
			return fmt.Errorf("deposit %s cannot be shown", is.id)
		}
		events[i] = event.Event{
			OrgID: is.orgID, Type: as(is), ResourceKind: resourceKind, ResourceID: is.id,
			CustomerID: is.customerID, Chain: string(is.chain), Data: object, FoundAgain: true,
		}
	}
	return event.RecordMany(ctx, tx, events...)
}

// owners makes the customers of new deposits that are not there yet: a wallet may
// have come back from the signer's journal before its customer did.
func owners(ctx context.Context, tx pg.Tx, changes []change) error {
	of := map[string][]string{}
	for _, c := range changes {
		if c.was.status == "" && c.is.customerID != "" {
			of[c.is.orgID] = append(of[c.is.orgID], c.is.customerID)
		}
	}
	for _, org := range slices.Sorted(maps.Keys(of)) {
		b := &pgx.Batch{}
		known := customer.Known(b, org, of[org])
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return fmt.Errorf("look for %d customers of %s: %w", len(of[org]), org, err)
		}
		var strangers []string
		for _, customerID := range of[org] {
			if known[customerID] {
				continue
			}
			if err := customer.CheckID(customerID); err != nil {
				return fmt.Errorf("a wallet of %s: %w", org, err)
			}
			strangers = append(strangers, customerID)
		}
		if len(strangers) > 0 {
			if err := customer.Make(ctx, tx, org, strangers); err != nil {
				return err
			}
		}
	}
	return nil
}

// known locks the deposits of a block's transactions: those that live, and
// those that a fork took away, credited ones in question among them, by the
// movement they are, and how many rows there are of each arrival.
func known(ctx context.Context, tx pg.Tx, ch chain.Name, found []scan.Found) (living map[movement]row, gone map[movement][]row, met map[account]int, err error) {
	var hashes []chain.TxHash
	for _, f := range found {
		hashes = append(hashes, f.Tx)
	}
	slices.Sort(hashes)
	rows, err := tx.Query(ctx, `SELECT `+columns+` FROM deposits WHERE chain = $1 AND tx_hash = ANY($2) ORDER BY deposit_id FOR UPDATE`,
		ch, slices.Compact(hashes))
	if err != nil {
		return nil, nil, nil, fmt.Errorf("look for deposits on %s: %w", ch, err)
	}
	all, err := pgx.CollectRows(rows, scanned)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("look for deposits on %s: %w", ch, err)
	}
	living, gone, met = map[movement]row{}, map[movement][]row{}, map[account]int{}
	for _, r := range all {
		met[r.account()]++
		m := movement{r.tx, r.kind, r.position}
		if r.chainStatus == reorged {
			gone[m] = append(gone[m], r)
			continue
		}
		living[m] = r
	}
	return living, gone, met, nil
}

// next is what a deposit becomes by a block that has it. It is pure.
func next(was row, f scan.Found, ch chain.Name, b chain.Block, proof *int64, tiers chain.Tiers) (is row, changes bool, err error) {
	if was.proofID != nil {
		if proof != nil && was.blockHash != b.Hash {
			return row{}, false, fmt.Errorf("deposit %s is final in block %s and again in %s", was.id, was.blockHash, b.Hash)
		}
		return was, false, nil
	}
	if proof == nil && was.status == Confirming && was.blockHash == b.Hash {
		return was, false, nil
	}
	is = was
	if was.status == "" {
		is.orgID, is.walletID, is.purpose = f.Wallet.OrgID, f.Wallet.ID, f.Wallet.Purpose
		switch f.Wallet.Purpose {
		case wallet.CustomerDeposit:
			is.customerID = f.Wallet.Subject
		case wallet.OrganizationDeposit:
			is.product = f.Wallet.Subject
		}
		is.chain, is.contract, is.address = ch, f.Contract, f.To
		is.tx, is.kind, is.position = f.Tx, f.Kind, f.Position
		is.screening = pending
	}
	is.mintID = nil
	if f.Mint != nil {
		mintID := f.Mint.ID
		is.mintID = &mintID
	}
	is.from, is.senders = senders(f)
	is.amount, is.logIndex = f.Amount, f.LogIndex
	is.depth = 0
	if f.Contract == "" {
		is.depth = tiers.Depth(f.Amount)
	}
	is.height, is.blockHash, is.proofID = b.Height, b.Hash, proof
	is.status, is.chainStatus, is.reason = Confirming, included, ""
	if proof != nil {
		is.chainStatus = finalized
		is.status, is.reason = verdict(f)
		if is.status != Screening {
			is.screening = skipped
		}
	}
	return is, true, nil
}

// senders are what a deposit keeps of who sent it: the only one, or all of several. Of
// more than are asked about, which somebody may make at will, it keeps none.
func senders(f scan.Found) (only chain.Address, several []chain.Address) {
	if n := len(f.Senders); n > 1 && n <= risk.SendersMax {
		return "", f.Senders
	}
	return f.From, nil
}

// verdict is what becomes of a final movement before screening. It is pure. A
// quarantine of the mint is no part of it: that may be lifted, so what its block
// confirmed waits for it like anything else that is not decided yet.
func verdict(f scan.Found) (Status, string) {
	switch {
	case f.Mint == nil:
		return Unsupported, UnknownToken
	case f.Doubt != "":
		return Unsupported, f.Doubt
	case f.Wallet.Purpose == wallet.Change:
		return Unsupported, ToChange
	case f.Wallet.Purpose != wallet.Treasury && f.Amount.Less(f.Mint.MinDeposit):
		return BelowMinimum, ""
	default:
		return Screening, ""
	}
}
