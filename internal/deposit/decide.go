package deposit

import (
	"context"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/finality"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/org"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/scan"
	"github.com/cofferpay/coffer/internal/wallet"
)

// decided is what was decided about a final block's deposits before its transaction.
// The zero value lets nothing be credited with its block.
type decided struct {
	desk     *Desk
	proven   map[string]wallet.Wallet // by id, those whose address the signer attested
	prices   map[int]priced           // by mint
	settings map[string]org.Settings  // by organization
	mints    []int
	kept     *[]candidate // those that were credited, for what is kept of the decisions
}

// decide asks for a block what must not be asked inside its transaction. A block that
// is told a second time was not taken in: something may spoil it, and one deposit must
// not hold up the walk. Its deposits are written down then and wait for Credit, which
// finds out which it is.
func (d *Desk) decide(ctx context.Context, ch chain.Name, b chain.Block, found []scan.Found) decided {
	if last, ok := d.tried.Swap(ch, b.Hash); ok && last == b.Hash || len(found) == 0 {
		return decided{}
	}
	now := decided{desk: d, proven: map[string]wallet.Wallet{}, prices: map[int]priced{}}
	orgs := map[string]bool{}
	var wallets []wallet.Wallet
	for _, f := range found {
		if f.Mint == nil || f.FromOurs {
			continue
		}
		if _, met := now.proven[f.Wallet.ID]; !met {
			now.proven[f.Wallet.ID] = wallet.Wallet{}
			wallets = append(wallets, f.Wallet)
			orgs[f.Wallet.OrgID] = true
		}
		if _, met := now.prices[f.Mint.ID]; !met {
			d.price(ctx, now.prices, f.Mint.ID)
			now.mints = append(now.mints, f.Mint.ID)
		}
	}
	if len(wallets) == 0 {
		return decided{}
	}
	err := d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		now.settings, err = settingsOf(ctx, tx, orgs)
		return err
	})
	if err != nil {
		d.log.Warn("deposit: a block is taken in without its credits", "chain", string(ch), "height", b.Height, "error", err)
		return decided{}
	}
	problems := make([]error, len(wallets))
	abreast(len(wallets), func(i int) { problems[i] = d.wallets.Prove(wallets[i]) })
	for i, w := range wallets {
		if problems[i] == nil {
			now.proven[w.ID] = w
		}
	}
	return now
}

// still leaves of what was decided what holds in the block's transaction: nothing on
// a chain whose finality is in question, nothing of a mint under quarantine, nothing
// by settings that were changed. It comes before any deposit's lock: whoever puts a
// mint under quarantine has its row before.
func (r decided) still(ctx context.Context, tx pg.Tx, ch chain.Name) (decided, error) {
	if len(r.mints) == 0 {
		return decided{}, nil
	}
	valid, err := unchanged(ctx, tx, r.settings)
	if err != nil {
		return decided{}, err
	}
	broken, err := finality.Hold(ctx, tx, ch)
	if err != nil || broken {
		return decided{}, err
	}
	sound, err := mint.Sound(ctx, tx, r.mints)
	if err != nil {
		return decided{}, err
	}
	held := r
	held.prices, held.settings, held.kept = map[int]priced{}, map[string]org.Settings{}, &[]candidate{}
	for id, p := range r.prices {
		if sound[id] {
			held.prices[id] = p
		}
	}
	for id, s := range r.settings {
		if valid[id] {
			held.settings[id] = s
		}
	}
	return held, nil
}

// credit credits a deposit that would be screened, when nobody has to be asked about it.
func (r decided) credit(is *row, f scan.Found, now time.Time) bool {
	price, sound := r.prices[*is.mintID]
	settings, valid := r.settings[is.orgID]
	w, proven := r.proven[is.walletID]
	if !sound || !valid || !proven || !is.reached(w) {
		return false
	}
	is.screening = notConfigured
	if is.screenable() {
		c := candidate{row: *is, settings: settings}
		open := r.desk.caseOf(*is, f.Mint.Symbol, f.Mint.Decimals, settings, price, now)
		c.decide(risk.DepositRecord{Case: open, Decision: risk.DecideDeposit(open)})
		if c.record.Decision.Outcome != risk.Credit {
			return false
		}
		is.screening = c.screening
		*r.kept = append(*r.kept, c)
	}
	is.status, is.creditedAt = Credited, &now
	is.usd = value(is.amount, f.Mint.Decimals, price.usd())
	return true
}
