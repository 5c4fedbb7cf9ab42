package deposit

import (
	"context"
	"encoding/json"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/crash"
	"github.com/cofferpay/coffer/internal/finality"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/scan"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/webhook"
)

// decided is what is known of a final block's deposits before its transaction. The
// zero value lets nothing be credited with its block.
type decided struct {
	proven    map[string]wallet.Wallet // by id, those whose address the signer attested
	prices    map[int]*money.USD       // by mint
	mints     []int
	screening json.RawMessage
}

// decide asks for a block what must not be asked inside its transaction. A block that
// is told a second time was not taken in: something may spoil it, and one deposit must
// not hold up the walk. Its deposits are written down then and wait for Credit, which
// finds out which it is.
func (d *Desk) decide(ctx context.Context, ch chain.Name, b chain.Block, found []scan.Found) decided {
	if last, ok := d.tried.Swap(ch, b.Hash); ok && last == b.Hash || len(found) == 0 {
		return decided{}
	}
	decision := screen(thresholds{})
	if !decision.credit {
		return decided{}
	}
	crash.Point("D04")
	now := decided{proven: map[string]wallet.Wallet{}, prices: map[int]*money.USD{}, screening: encoded(webhook.Screening{Status: decision.status})}
	var wallets []wallet.Wallet
	for _, f := range found {
		if f.Mint == nil || f.FromOurs {
			continue
		}
		if _, met := now.proven[f.Wallet.ID]; !met {
			now.proven[f.Wallet.ID] = wallet.Wallet{}
			wallets = append(wallets, f.Wallet)
		}
		if _, met := now.prices[f.Mint.ID]; !met {
			d.price(ctx, now.prices, f.Mint.ID)
			now.mints = append(now.mints, f.Mint.ID)
		}
	}
	problems := make([]error, len(wallets))
	abreast(len(wallets), func(i int) { problems[i] = d.wallets.Prove(wallets[i]) })
	for i, w := range wallets {
		if problems[i] == nil {
			now.proven[w.ID] = w
		}
	}
	crash.Point("D06")
	return now
}

// still leaves of what was decided what holds in the block's transaction: nothing on
// a chain whose finality is in question, nothing of a mint under quarantine. It comes
// before any deposit's lock: whoever puts a mint under quarantine has its row before.
func (r decided) still(ctx context.Context, tx pg.Tx, ch chain.Name) (decided, error) {
	if len(r.mints) == 0 {
		return decided{}, nil
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
	held.prices = map[int]*money.USD{}
	for id, p := range r.prices {
		if sound[id] {
			held.prices[id] = p
		}
	}
	return held, nil
}

// credit credits a deposit that would be screened, when nobody has to be asked about it.
func (r decided) credit(is *row, f scan.Found, now time.Time) bool {
	price, sound := r.prices[*is.mintID]
	w, proven := r.proven[is.walletID]
	if !sound || !proven || !is.reached(w) {
		return false
	}
	is.status, is.creditedAt = Credited, &now
	is.screening, is.usd = r.screening, value(is.amount, f.Mint.Decimals, price)
	return true
}
