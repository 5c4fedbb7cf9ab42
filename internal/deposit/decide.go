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

// blockDecisions is what was decided about a final block's deposits before its transaction.
// The zero value lets nothing be credited with its block.
type blockDecisions struct {
	service       *Service
	provenWallets map[string]wallet.Wallet // by id, those whose address the signer attested
	prices        map[int]mintPrice        // by mint
	settings      map[string]org.Settings  // by organization
	mints         []int
	accepted      *[]candidate // those that were credited, for what is kept of the decisions
}

// decideBlock asks for a block what must not be asked inside its transaction. A block that
// is told a second time was not taken in: something may spoil it, and one deposit must
// not hold up the walk. Its deposits are written down then and wait for Credit, which
// finds out which it is.
func (d *Service) decideBlock(ctx context.Context, ch chain.Name, b chain.Block, found []scan.Arrival) blockDecisions {
	if last, ok := d.lastDecided.Swap(ch, b.Hash); ok && last == b.Hash || len(found) == 0 {
		return blockDecisions{}
	}
	decisions := blockDecisions{service: d, provenWallets: map[string]wallet.Wallet{}, prices: map[int]mintPrice{}}
	orgs := map[string]bool{}
	var wallets []wallet.Wallet
	for _, f := range found {
		if f.Mint == nil || f.FromOwnWallets {
			continue
		}
		if _, isListed := decisions.provenWallets[f.Wallet.ID]; !isListed {
			decisions.provenWallets[f.Wallet.ID] = wallet.Wallet{}
			wallets = append(wallets, f.Wallet)
			orgs[f.Wallet.OrgID] = true
		}
		if _, isListed := decisions.prices[f.Mint.ID]; !isListed {
			d.cachedPrice(ctx, decisions.prices, f.Mint.ID)
			decisions.mints = append(decisions.mints, f.Mint.ID)
		}
	}
	if len(wallets) == 0 {
		return blockDecisions{}
	}
	err := d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		decisions.settings, err = loadSettings(ctx, tx, orgs)
		return err
	})
	if err != nil {
		d.log.Warn("deposit: a block is taken in without its credits", "chain", string(ch), "height", b.Height, "error", err)
		return blockDecisions{}
	}
	problems := make([]error, len(wallets))
	parallel(len(wallets), func(i int) { problems[i] = d.wallets.VerifyAttestation(wallets[i]) })
	for i, w := range wallets {
		if problems[i] == nil {
			decisions.provenWallets[w.ID] = w
		}
	}
	return decisions
}

// dropChanged leaves of what was decided what holds in the block's transaction: nothing on
// a chain whose finality is in question, nothing of a mint under quarantine, nothing
// by settings that were changed. It comes before any deposit's lock: whoever puts a
// mint under quarantine has its row before.
func (r blockDecisions) dropChanged(ctx context.Context, tx pg.Tx, ch chain.Name) (blockDecisions, error) {
	if len(r.mints) == 0 {
		return blockDecisions{}, nil
	}
	valid, err := lockUnchangedSettings(ctx, tx, r.settings)
	if err != nil {
		return blockDecisions{}, err
	}
	broken, err := finality.LockShared(ctx, tx, ch)
	if err != nil || broken {
		return blockDecisions{}, err
	}
	usable, err := mint.Usable(ctx, tx, r.mints)
	if err != nil {
		return blockDecisions{}, err
	}
	remaining := r
	remaining.prices, remaining.settings, remaining.accepted = map[int]mintPrice{}, map[string]org.Settings{}, &[]candidate{}
	for id, p := range r.prices {
		if usable[id] {
			remaining.prices[id] = p
		}
	}
	for id, s := range r.settings {
		if valid[id] {
			remaining.settings[id] = s
		}
	}
	return remaining, nil
}

// creditDeposit credits a deposit that would be screened, when nobody has to be asked about it.
func (r blockDecisions) creditDeposit(after *Deposit, f scan.Arrival, now time.Time) bool {
	price, hasPrice := r.prices[*after.mintID]
	settings, hasSettings := r.settings[after.orgID]
	w, isProven := r.provenWallets[after.walletID]
	if !hasPrice || !hasSettings || !isProven || !after.isReceivedBy(w) {
		return false
	}
	after.screening = screeningNotConfigured
	if after.isScreened() {
		c := candidate{Deposit: *after, settings: settings}
		depositCase := r.service.newCase(*after, f.Mint.Symbol, f.Mint.Decimals, settings, price, now)
		c.setDecision(risk.DepositRecord{Case: depositCase, Decision: risk.DecideDeposit(depositCase)})
		if c.record.Decision.Outcome != risk.Credit {
			return false
		}
		after.screening = c.screening
		*r.accepted = append(*r.accepted, c)
	}
	after.status, after.creditedAt = Credited, &now
	after.usd = usdValue(after.amount, f.Mint.Decimals, price.freshUSD())
	return true
}
