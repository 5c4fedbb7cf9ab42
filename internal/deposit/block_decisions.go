package deposit

import (
	"context"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/finality"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/scan"
	"github.com/cofferpay/coffer/internal/wallet"
)

// blockDecisions holds what was decided about the deposits of a final block before its transaction
// starts. The zero value credits no deposit with its block.
type blockDecisions struct {
	service       *Service
	provenWallets map[string]wallet.Wallet // by id; a wallet without a valid attestation is the zero value
	prices        map[int]mintPrice        // by mint
	settings      map[string]org.Settings  // by organization
	mints         []int
	accepted      *[]candidate // the credited ones, to record their decisions
}

// decideBlock loads what the transaction of a block must not wait for: prices, settings and
// attestations. If a block comes a second time, its first transaction failed, perhaps because of
// one deposit. One deposit must not stop the scan, so decideBlock then returns the zero value. The
// deposits are written in SCREENING and wait for CreditWaiting, which finds the faulty one.
func (s *Service) decideBlock(ctx context.Context, ch chain.Name, b chain.Block, found []scan.Arrival) blockDecisions {
	if last, ok := s.lastDecided.Swap(ch, b.Hash); ok && last == b.Hash || len(found) == 0 {
		return blockDecisions{}
	}
	decisions := blockDecisions{service: s, provenWallets: map[string]wallet.Wallet{}, prices: map[int]mintPrice{}}
	orgs := map[string]bool{}
	var wallets []wallet.Wallet
	for _, f := range found {
		if f.Mint == nil || f.FromOwnWallets || s.Owners.isSettled(f.Wallet.Purpose) {
			continue
		}
		if _, isListed := decisions.provenWallets[f.Wallet.ID]; !isListed {
			decisions.provenWallets[f.Wallet.ID] = wallet.Wallet{}
			wallets = append(wallets, f.Wallet)
			orgs[f.Wallet.OrgID] = true
		}
		if _, isListed := decisions.prices[f.Mint.ID]; !isListed {
			s.cachedPrice(ctx, decisions.prices, f.Mint.ID)
			decisions.mints = append(decisions.mints, f.Mint.ID)
		}
	}
	if len(wallets) == 0 {
		return blockDecisions{}
	}
	err := s.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		decisions.settings, err = loadSettings(ctx, tx, orgs)
		return err
	})
	if err != nil {
		s.Log.Warn(
			"deposit: applied a block without crediting its deposits",
			"chain", string(ch), "height", b.Height, "error", err,
		)
		return blockDecisions{}
	}
	problems := make([]error, len(wallets))
	parallel(len(wallets), func(i int) { problems[i] = s.Wallets.VerifyAttestation(wallets[i]) })
	for i, w := range wallets {
		if problems[i] == nil {
			decisions.provenWallets[w.ID] = w
		}
	}
	return decisions
}

// dropChanged drops the decisions that do not hold in the block's transaction:
//   - all of a chain whose finality is in question
//   - those of a quarantined mint
//   - those by settings that were changed
//
// It takes its locks before any deposit is locked: quarantining a mint locks the mint before its
// deposits.
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
	remaining.prices, remaining.settings, remaining.accepted =
		map[int]mintPrice{}, map[string]org.Settings{}, &[]candidate{}
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

// creditDeposit credits a deposit that would go to SCREENING, if no risk provider has to be asked
// about it. It reports whether it did.
func (r blockDecisions) creditDeposit(
	after *storedDeposit, f scan.Arrival, isOperators, isDeep, hasCreditWallet bool, now time.Time,
) bool {
	price, hasPrice := r.prices[*after.mintID]
	settings, hasSettings := r.settings[after.orgID]
	w, isProven := r.provenWallets[after.walletID]
	c := candidate{storedDeposit: *after, settings: settings}
	if !isOperators && hasPrice && hasSettings {
		depositCase := r.service.newCase(*after, f.Mint.Symbol, f.Mint.Decimals, settings, price, now)
		c.setDecision(risk.DepositRecord{Case: depositCase, Decision: risk.DecideDeposit(depositCase)})
	}
	// dropChanged has dropped the prices of mints that are not usable and all prices of a broken
	// chain.
	plan, rejection := Decide(Facts{
		deposit: *after, record: c.record, usd: usdValue(after.amount, f.Mint.Decimals, price.freshUSD()), now: now,
		isMintUsable: hasPrice, isWalletProven: isProven && after.isReceivedBy(w), isUnchanged: true,
		areSettingsKept: hasSettings, isDeep: isDeep, hasCreditWallet: hasCreditWallet,
		isOperators: isOperators,
	})
	if rejection != "" || plan.After.status != Credited { // a flag needs to know the kind of the sender
		return false
	}
	*after = plan.After
	if c.record != nil {
		*r.accepted = append(*r.accepted, c)
	}
	return true
}
