package deposit

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/coin"
	"github.com/cofferpay/coffer/internal/crash"
	"github.com/cofferpay/coffer/internal/event"
	"github.com/cofferpay/coffer/internal/finality"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/org"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/trace"
	"github.com/cofferpay/coffer/internal/wallet"
)

const (
	batchMax    = 500             // deposits credited in one transaction
	priceAgeMax = 5 * time.Minute // where PriceAge says nothing else
)

// candidate is a deposit that waits for its credit, and what it leans on.
type candidate struct {
	row
	wallet   wallet.Wallet
	proof    proven
	decimals int
	symbol   string
	settings org.Settings        // that it is decided by
	record   *risk.DepositRecord // nil for what nobody decides about
	keyed    bool                // a chain says that its sender is no contract
}

// proven is the block that a proof is of.
type proven struct {
	height uint64
	hash   string
}

// holder is an address in its family.
type holder struct {
	family  chain.Family
	address chain.Address
}

// Credit decides about what is final and waits: it is credited, flagged, or waits for
// an answer. It returns how many it credited or flagged. A deposit that must not be
// credited stays where it is and is logged; it holds up no other.
func (d *Desk) Credit(ctx context.Context) (ended int, err error) {
	asked := 0
	var spoilt error // by single deposits
	for after := ""; ; {
		page, settings, err := d.waiting(ctx, after)
		if err != nil {
			return ended, errors.Join(spoilt, err)
		}
		if len(page) == 0 {
			return ended, spoilt
		}
		crash.Point("D04")
		after = page[len(page)-1].id
		problems := d.checkAll(page)
		var sound []candidate
		for i, c := range page {
			if err := problems[i]; err != nil {
				d.log.Error("deposit: not credited", "deposit", c.id, "wallet", c.walletID, "error", err)
				continue
			}
			sound = append(sound, c)
		}
		decided, asks := d.prepare(ctx, sound, settings)
		n, err := d.parts(ctx, decided)
		ended, spoilt = ended+n, errors.Join(spoilt, err)
		if errors.Is(err, pg.ErrCommitUnknown) || ctx.Err() != nil {
			return ended, spoilt
		}
		for len(asks) > 0 && asked < askedInTurn {
			now := asks[:min(askedAtOnce, len(asks))]
			asks = asks[len(now):]
			asked += len(now)
			d.ask(ctx, now)
			crash.Point("D05")
			n, err := d.answered(ctx, now)
			ended, spoilt = ended+n, errors.Join(spoilt, err)
			if errors.Is(err, pg.ErrCommitUnknown) || ctx.Err() != nil {
				return ended, spoilt
			}
		}
		if len(page) < batchMax {
			return ended, spoilt
		}
	}
}

// answered does what follows for deposits that somebody was asked about.
func (d *Desk) answered(ctx context.Context, of []candidate) (ended int, err error) {
	var decided, waits []candidate
	for _, c := range of {
		if c.record.Decision.Outcome == risk.Wait {
			waits = append(waits, c)
			continue
		}
		decided = append(decided, c)
	}
	ended, err = d.parts(ctx, decided)
	return ended, errors.Join(err, d.put(ctx, waits))
}

// parts credits a batch, and when it cannot be credited as a whole its halves, until
// what spoils it stands alone: the others need not wait for that.
func (d *Desk) parts(ctx context.Context, batch []candidate) (credited int, err error) {
	credited, err = d.settle(ctx, batch)
	switch {
	case err == nil || errors.Is(err, pg.ErrCommitUnknown) || ctx.Err() != nil:
		return credited, err
	case len(batch) == 1:
		d.log.Error("deposit: not credited", "deposit", batch[0].id, "error", err)
		return 0, err
	}
	d.log.Warn("deposit: batch not credited, its halves now", "deposits", len(batch), "error", err)
	half := len(batch) / 2
	first, errFirst := d.parts(ctx, batch[:half])
	if errors.Is(errFirst, pg.ErrCommitUnknown) {
		return first, errFirst
	}
	second, errSecond := d.parts(ctx, batch[half:])
	return first + second, errors.Join(errFirst, errSecond)
}

// checkAll is check of many.
func (d *Desk) checkAll(page []candidate) []error {
	problems := make([]error, len(page))
	abreast(len(page), func(i int) { problems[i] = d.check(page[i]) })
	return problems
}

// abreast does n things on all processors: to verify a proof is what a credit costs
// this process most, and one does not wait for the other.
func abreast(n int, do func(i int)) {
	var wg sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	for first := range workers {
		wg.Go(func() {
			for i := first; i < n; i += workers {
				do(i)
			}
		})
	}
	wg.Wait()
}

// waiting reads deposits that wait to be credited, after an id. What is of a mint
// under quarantine is left out until that is lifted, and what is not as deep as its
// amount wants until it is: nobody is asked about it before.
func (d *Desk) waiting(ctx context.Context, after string) (page []candidate, settings map[string]org.Settings, err error) {
	err = d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, `
			SELECT `+columns+` FROM deposits WHERE status = 'SCREENING' AND deposit_id > $1 AND (screen_after IS NULL OR screen_after <= $3)
				AND NOT EXISTS (SELECT FROM mints m WHERE m.mint_id = deposits.mint_id AND m.quarantined_at IS NOT NULL)
				AND (depth_required = 0 OR finality_depth(chain, height) >= depth_required)
			ORDER BY deposit_id LIMIT $2`, after, batchMax, tx.Now)
		if err != nil {
			return err
		}
		found, err := pgx.CollectRows(rows, scanned)
		if err != nil || len(found) == 0 {
			return err
		}
		catalogue, err := mint.All(ctx, tx)
		if err != nil {
			return err
		}
		wallets, proofs, err := leaningOn(ctx, tx, found)
		if err != nil {
			return err
		}
		orgs := map[string]bool{}
		for _, r := range found {
			orgs[r.orgID] = true
		}
		if settings, err = settingsOf(ctx, tx, orgs); err != nil {
			return err
		}
		page = nil
		for _, r := range found {
			m, ok := catalogue.ByID(*r.mintID)
			if !ok {
				return fmt.Errorf("deposit %s is of mint %d, which does not exist", r.id, *r.mintID)
			}
			page = append(page, candidate{
				row: r, decimals: m.Decimals, symbol: m.Symbol, wallet: wallets[holder{r.chain.Family(), r.address}], proof: proofs[*r.proofID],
			})
		}
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("look for deposits to credit: %w", err)
	}
	return page, settings, nil
}

// leaningOn reads the wallets and the proofs of deposits, in one query each.
// What is missing is left out: check then finds that it is another.
func leaningOn(ctx context.Context, tx pg.Tx, found []row) (map[holder]wallet.Wallet, map[int64]proven, error) {
	addresses := map[chain.Family][]chain.Address{}
	var ids []int64
	for _, r := range found {
		addresses[r.chain.Family()] = append(addresses[r.chain.Family()], r.address)
		ids = append(ids, *r.proofID)
	}
	wallets := map[holder]wallet.Wallet{}
	for family, of := range addresses {
		ours, err := wallet.Known(ctx, tx, family, of)
		if err != nil {
			return nil, nil, err
		}
		for address, w := range ours {
			wallets[holder{family, address}] = w
		}
	}
	rows, err := tx.Query(ctx, `SELECT proof_id, height, hash FROM finality_live WHERE proof_id = ANY($1)`, ids)
	if err != nil {
		return nil, nil, fmt.Errorf("read proofs: %w", err)
	}
	proofs := map[int64]proven{}
	var proofID int64
	var p proven
	_, err = pgx.ForEachRow(rows, []any{&proofID, &p.height, &p.hash}, func() error {
		proofs[proofID] = p
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("read proofs: %w", err)
	}
	return wallets, proofs, nil
}

// check asks what a credit leans on: the proof of the very block, and a wallet
// whose address our signer has issued to this very customer or product.
func (d *Desk) check(c candidate) error {
	switch {
	case c.proof != proven{c.height, c.blockHash}:
		return fmt.Errorf("its proof is of block %d %s, not of %d %s", c.proof.height, c.proof.hash, c.height, c.blockHash)
	case !c.reached(c.wallet):
		return errors.New("its wallet is another than the one that received")
	}
	if err := d.wallets.Prove(c.wallet); err != nil {
		return fmt.Errorf("its wallet is not proven to be ours: %w", err)
	}
	return nil
}

// reached tells whether a wallet is the one that received a deposit, and for whom.
func (d row) reached(w wallet.Wallet) bool {
	return w.ID == d.walletID && w.Address == d.address && w.OrgID == d.orgID && w.Purpose == d.purpose &&
		w.Family == d.chain.Family() && w.Subject == d.subject()
}

// value is what an amount is worth, nil without a price. It is pure.
func value(of money.Amount, decimals int, price *money.USD) *money.USD {
	if price == nil {
		return nil
	}
	v, err := money.ValueOf(of, decimals, *price)
	if err != nil {
		return nil
	}
	return &v
}

// settle credits deposits in one transaction, all or none. Those that another
// process is at, or that are not what they were, are left out.
func (d *Desk) settle(ctx context.Context, batch []candidate) (credited int, err error) {
	if len(batch) == 0 {
		return 0, nil
	}
	wanted := map[string]candidate{}
	decidedBy := map[string]org.Settings{}
	var ids []string
	var mints []int
	var chains []chain.Name
	for _, c := range batch {
		wanted[c.id] = c
		chains = append(chains, c.chain)
		ids = append(ids, c.id)
		mints = append(mints, *c.mintID)
		if c.record != nil {
			decidedBy[c.orgID] = c.settings
		}
	}
	slices.Sort(chains)
	chains = slices.Compact(chains)
	crash.Point("D06")
	err = d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		credited = 0
		// Settings that were changed since are decided by anew.
		valid, err := unchanged(ctx, tx, decidedBy)
		if err != nil {
			return err
		}
		// A block that was proven on a broken chain may not be there any more:
		// nothing is credited until a person has let the chain go.
		broken := map[chain.Name]bool{}
		for _, ch := range chains {
			if broken[ch], err = finality.Hold(ctx, tx, ch); err != nil {
				return err
			}
		}
		// Before any deposit's lock: whoever puts a mint under quarantine has its row before
		// any deposit's.
		sound, err := mint.Sound(ctx, tx, mints)
		if err != nil {
			return err
		}
		catalogue, err := mint.All(ctx, tx)
		if err != nil {
			return err
		}
		rows, err := tx.Query(ctx, `
			SELECT `+columns+` FROM deposits WHERE deposit_id = ANY($1) AND status = 'SCREENING'
			ORDER BY deposit_id FOR UPDATE SKIP LOCKED`, ids)
		if err != nil {
			return err
		}
		locked, err := pgx.CollectRows(rows, scanned)
		if err != nil {
			return err
		}
		var changes []change
		var entries []audit.Entry
		var kept []candidate
		at, err := keepersOf(ctx, tx, locked...)
		if err != nil {
			return err
		}
		all := credits{at: at}
		for _, was := range locked {
			c := wanted[was.id]
			m, ok := catalogue.ByID(*was.mintID)
			if !ok || !sound[m.ID] || broken[was.chain] || !same(was, c.row) || c.record != nil && !valid[was.orgID] {
				continue
			}
			if deep, err := was.deep(ctx, tx); err != nil {
				return err
			} else if !deep {
				continue // finality broke since it was read
			}
			if _, known := at.of(was); !known {
				d.log.Error("deposit: not credited: its organization has no treasury on this chain", "deposit", was.id)
				continue
			}
			is, ok := c.decided(was, tx.Now)
			switch {
			case !ok:
				continue
			case is.status == Flagged:
				bound, err := is.bound()
				if err != nil {
					return err
				}
				is.flag.mac = d.grants.Flag(bound)
				all.hold(is)
			default:
				all.add(is, m.Kind == mint.Native)
			}
			changes = append(changes, change{was, is})
			entries = append(entries, changed(is))
			kept = append(kept, c)
		}
		if len(changes) == 0 {
			return nil
		}
		if err := become(ctx, tx, changes...); err != nil {
			return err
		}
		if err := decisions(ctx, tx, kept); err != nil {
			return err
		}
		if err := all.write(ctx, tx, nil, entries); err != nil {
			return err
		}
		credited = len(changes)
		crash.Committing("D08")
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("credit %d deposits from %s on: %w", len(batch), ids[0], err)
	}
	if credited > 0 {
		crash.Point("D08")
	}
	return credited, nil
}

// decided is what a deposit becomes by what was decided about it; ok is false for
// every decision that does not say in as many words that it is credited or flagged.
func (c candidate) decided(was row, now time.Time) (is row, ok bool) {
	is = was
	is.screening, is.usd = c.screening, c.usd
	switch {
	case c.record == nil && !was.screenable(), c.record != nil && c.record.Decision.Outcome == risk.Credit:
		is.status, is.creditedAt = Credited, &now
	case c.record != nil && c.record.Decision.Outcome == risk.Flag:
		is.status, is.flag = Flagged, flagOf(is, *c.record, c.keyed, now)
	default:
		return was, false
	}
	return is, true
}

// credits are deposits that become credited in one transaction.
type credits struct {
	at       keepers
	postings []ledger.Posting
	freed    []string // whose coins may be chosen now
	moves    []wallet.Movement
	told     []row
}

// add takes in a deposit that is credited; native says of what.
func (c *credits) add(is row, native bool) {
	to, part := owner(is, native)
	c.postings = append(c.postings, ledger.Posting{
		Cause: ledger.Cause{Kind: ledger.Deposit, ID: is.id},
		Legs: []ledger.Leg{{
			Debit:  ledger.Account{OrgID: is.orgID, MintID: *is.mintID, Kind: ledger.Custody},
			Credit: to, Amount: is.amount,
		}},
	})
	at, _ := c.at.of(is)
	c.moves = append(c.moves, wallet.Movement{WalletID: at, OrgID: is.orgID, MintID: *is.mintID, Part: part, Plus: is.amount})
	if is.chain.Pooled() {
		c.freed = append(c.freed, is.id)
	}
	if is.told(event.CustomerDeposit) != "" {
		c.told = append(c.told, is)
	}
}

// hold takes in a deposit that is flagged: it is on its address, held, and in the
// books it is nobody's.
func (c *credits) hold(is row) {
	c.postings = append(c.postings, ledger.Posting{
		Cause: ledger.Cause{Kind: ledger.DepositHold, ID: is.id},
		Legs: []ledger.Leg{{
			Debit:  ledger.Account{OrgID: is.orgID, MintID: *is.mintID, Kind: ledger.Custody},
			Credit: ledger.Account{OrgID: is.orgID, MintID: *is.mintID, Kind: ledger.Suspense}, Amount: is.amount,
		}},
	})
	c.moves = append(c.moves,
		wallet.Movement{WalletID: is.walletID, OrgID: is.orgID, MintID: *is.mintID, Part: wallet.Credited, Plus: is.amount},
		wallet.Movement{WalletID: is.walletID, OrgID: is.orgID, MintID: *is.mintID, Part: wallet.Held, Plus: is.amount})
	c.told = append(c.told, is)
}

// write books what became credited or held, tells of it, and records what the transaction
// did with deposits. The rows are as they will be; dust is what moves beside it.
func (c credits) write(ctx context.Context, tx pg.Tx, dust []wallet.Movement, entries []audit.Entry) (err error) {
	if len(c.postings) > 0 {
		var span trace.Span
		ctx, span = trace.Within(ctx, "deposit credit")
		defer func() { span.End(err) }()
	}
	if len(c.freed) > 0 {
		if err := coin.Credited(ctx, tx, c.freed...); err != nil {
			return err
		}
	}
	// In the order of dispatch, which meets this one at a treasury: what wallets
	// hold first, the books after it.
	if err := wallet.Move(ctx, tx, append(c.moves, dust...)...); err != nil {
		return err
	}
	if err := ledger.Post(ctx, tx, c.postings...); err != nil {
		return err
	}
	if err := tell(ctx, tx, c.told, fresh, func(is row) event.Type { return is.told(event.CustomerDeposit) }); err != nil {
		return err
	}
	if len(c.postings) > 0 {
		crash.Point("D07")
	}
	return record(ctx, tx, entries)
}

// same tells whether a deposit is still the one that was checked.
func same(a, b row) bool {
	return a.amount == b.amount && a.from == b.from && slices.Equal(a.senders, b.senders) && a.walletID == b.walletID && a.address == b.address && a.customerID == b.customerID && a.product == b.product &&
		a.blockHash == b.blockHash && *a.proofID == *b.proofID && *a.mintID == *b.mintID
}

// owner is whose a deposit is in the books, and what it is on its address. It
// is pure.
func owner(d row, native bool) (ledger.Account, wallet.Part) {
	account := ledger.Account{OrgID: d.orgID, MintID: *d.mintID}
	switch {
	case d.purpose == wallet.CustomerDeposit:
		account.Kind, account.Subject = ledger.Customer, d.customerID
		return account, wallet.Credited
	case d.purpose == wallet.OrganizationDeposit:
		account.Kind, account.Subject = ledger.Product, d.product
		return account, wallet.Credited
	case d.purpose == wallet.Treasury && native:
		account.Kind = ledger.Gas
		return account, wallet.Gas
	default:
		account.Kind = ledger.Suspense
		return account, wallet.Credited
	}
}
