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

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/finality"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/failpoint"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/trace"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/utxo"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/internal/webhooks/event"
)

const (
	batchMax    = 500             // deposits credited in one transaction
	priceAgeMax = 5 * time.Minute // the default of PriceAge
)

// candidate is a deposit that waits for its credit, with the facts that its credit needs.
type candidate struct {
	storedDeposit
	wallet       wallet.Wallet
	proof        provenBlock
	decimals     int
	symbol       string
	settings     org.Settings        // by which it is decided
	record       *risk.DepositRecord // nil where no decision is needed
	isKeyAccount bool                // the chain reports that the sender is a key account
	payer        payer               // of a deposit swap: who paid the provider
	isProven     bool                // checkCandidate found nothing against its wallet and its proof
}

// provenBlock is the block that a proof confirms.
type provenBlock struct {
	height uint64
	hash   string
}

// addressKey is an address with its chain family.
type addressKey struct {
	family  chain.Family
	address chain.Address
}

// CreditWaiting decides about the final deposits that wait in SCREENING. It credits each, flags it,
// or lets it wait for an answer of a risk provider. It returns how many it credited or flagged. A
// deposit that must not be credited stays in SCREENING and is logged; it does not delay the others.
func (s *Service) CreditWaiting(ctx context.Context) (ended int, err error) {
	if err := s.adoptArrivals(ctx); err != nil {
		return 0, err
	}
	askedCount := 0
	var itemErr error // errors of single batches
	for afterID := ""; ; {
		page, settings, err := s.loadWaiting(ctx, afterID)
		if err != nil {
			return ended, errors.Join(itemErr, err)
		}
		if len(page) == 0 {
			return ended, itemErr
		}
		failpoint.Hit("D04")
		afterID = page[len(page)-1].id
		problems := s.checkCandidates(page)
		var valid []candidate
		for i, c := range page {
			if err := problems[i]; err != nil {
				s.Log.Error("deposit: not credited", "deposit", c.id, "wallet", c.walletID, "error", err)
				continue
			}
			c.isProven = true
			valid = append(valid, c)
		}
		decided, toScreen := s.buildCases(ctx, valid, settings)
		n, err := s.creditHalves(ctx, decided)
		ended, itemErr = ended+n, errors.Join(itemErr, err)
		if errors.Is(err, pg.ErrCommitUnknown) || ctx.Err() != nil {
			return ended, itemErr
		}
		for len(toScreen) > 0 && askedCount < screenPerRoundMax {
			batch := toScreen[:min(screenParallelMax, len(toScreen))]
			toScreen = toScreen[len(batch):]
			askedCount += len(batch)
			s.askProviders(ctx, batch)
			failpoint.Hit("D05")
			n, err := s.applyAnswers(ctx, batch)
			ended, itemErr = ended+n, errors.Join(itemErr, err)
			if errors.Is(err, pg.ErrCommitUnknown) || ctx.Err() != nil {
				return ended, itemErr
			}
		}
		if len(page) < batchMax {
			return ended, itemErr
		}
	}
}

// applyAnswers credits or flags the deposits that have an answer of the risk providers. It
// postpones those that have to be asked about again.
func (s *Service) applyAnswers(ctx context.Context, candidates []candidate) (ended int, err error) {
	var decided, waiting []candidate
	for _, c := range candidates {
		if c.record.Decision.Outcome == risk.RetryLater {
			waiting = append(waiting, c)
			continue
		}
		decided = append(decided, c)
	}
	ended, err = s.creditHalves(ctx, decided)
	return ended, errors.Join(err, s.postponeScreening(ctx, waiting))
}

// creditHalves credits a batch. If the batch fails, it credits the two halves, until the faulty
// deposit stands alone. The others do not wait for that one.
func (s *Service) creditHalves(ctx context.Context, batch []candidate) (credited int, err error) {
	credited, err = s.creditBatch(ctx, batch)
	switch {
	case err == nil || errors.Is(err, pg.ErrCommitUnknown) || ctx.Err() != nil:
		return credited, err
	case len(batch) == 1:
		s.Log.Error("deposit: not credited", "deposit", batch[0].id, "error", err)
		return 0, err
	}
	s.Log.Warn("deposit: batch not credited; crediting its halves", "deposits", len(batch), "error", err)
	half := len(batch) / 2
	first, errFirst := s.creditHalves(ctx, batch[:half])
	if errors.Is(errFirst, pg.ErrCommitUnknown) {
		return first, errFirst
	}
	second, errSecond := s.creditHalves(ctx, batch[half:])
	return first + second, errors.Join(errFirst, errSecond)
}

// checkCandidates runs checkCandidate for each deposit, in parallel.
func (s *Service) checkCandidates(page []candidate) []error {
	problems := make([]error, len(page))
	parallel(len(page), func(i int) { problems[i] = s.checkCandidate(page[i]) })
	return problems
}

// parallel calls run for 0 to n-1 on all processors. Verifying an attestation is the most expensive
// part of a credit in this process, and the checks are independent.
func parallel(n int, run func(i int)) {
	var wg sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	for first := range workers {
		wg.Go(func() {
			for i := first; i < n; i += workers {
				run(i)
			}
		})
	}
	wg.Wait()
}

// loadWaiting reads the deposits with an id after afterID that wait for their credit. It skips
// deposits of quarantined mints and deposits with too few confirmations, so no risk provider is
// asked about them. Rule DEP-15.
func (s *Service) loadWaiting(
	ctx context.Context, afterID string,
) (page []candidate, settings map[string]org.Settings, err error) {
	err = s.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, `
			SELECT `+columns+` FROM deposits WHERE status = 'SCREENING' AND swap_id IS NULL AND (deposit_swap_id IS NULL OR customer_id IS NOT NULL) AND deposit_id > $1 AND (screen_after IS NULL OR screen_after <= $3)
				AND NOT EXISTS (SELECT FROM mints m WHERE m.mint_id = deposits.mint_id AND m.quarantined_at IS NOT NULL)
				AND (depth_required = 0 OR finality_depth(chain, height) >= depth_required)
			ORDER BY deposit_id LIMIT $2`, afterID, batchMax, tx.Now)
		if err != nil {
			return err
		}
		found, err := pgx.CollectRows(rows, scanDeposit)
		if err != nil || len(found) == 0 {
			return err
		}
		catalogue, err := mint.LoadCatalogue(ctx, tx)
		if err != nil {
			return err
		}
		wallets, proofs, err := loadWalletsAndProofs(ctx, tx, found)
		if err != nil {
			return err
		}
		payers, err := loadPayers(ctx, tx, found)
		if err != nil {
			return err
		}
		orgs := map[string]bool{}
		for _, r := range found {
			orgs[r.orgID] = true
		}
		if settings, err = loadSettings(ctx, tx, orgs); err != nil {
			return err
		}
		page = nil
		for _, r := range found {
			m, ok := catalogue.ByID(*r.mintID)
			if !ok {
				return fmt.Errorf("deposit %s is of mint %d, which does not exist", r.id, *r.mintID)
			}
			page = append(page, candidate{
				storedDeposit: r, decimals: m.Decimals, symbol: m.Symbol,
				wallet: wallets[addressKey{r.chain.Family(), r.address}], proof: proofs[*r.proofID],
				payer: payers[r.depositSwapID],
			})
		}
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("look for deposits to credit: %w", err)
	}
	return page, settings, nil
}

// loadWalletsAndProofs reads the wallets and the proofs of deposits, with one query for each
// chain family and one for the proofs. It leaves out what is missing: checkCandidate then refuses
// the deposit.
func loadWalletsAndProofs(
	ctx context.Context, tx pg.Tx, found []storedDeposit,
) (map[addressKey]wallet.Wallet, map[int64]provenBlock, error) {
	addresses := map[chain.Family][]chain.Address{}
	var ids []int64
	for _, r := range found {
		addresses[r.chain.Family()] = append(addresses[r.chain.Family()], r.address)
		ids = append(ids, *r.proofID)
	}
	wallets := map[addressKey]wallet.Wallet{}
	for family, familyAddresses := range addresses {
		byAddress, err := wallet.ByAddresses(ctx, tx, family, familyAddresses)
		if err != nil {
			return nil, nil, err
		}
		for address, w := range byAddress {
			wallets[addressKey{family, address}] = w
		}
	}
	rows, err := tx.Query(ctx, `SELECT proof_id, height, hash FROM finality_live WHERE proof_id = ANY($1)`, ids)
	if err != nil {
		return nil, nil, fmt.Errorf("read proofs: %w", err)
	}
	proofs := map[int64]provenBlock{}
	var proofID int64
	var p provenBlock
	_, err = pgx.ForEachRow(rows, []any{&proofID, &p.height, &p.hash}, func() error {
		proofs[proofID] = p
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("read proofs: %w", err)
	}
	return wallets, proofs, nil
}

// checkCandidate verifies what a credit relies on:
//   - the proof confirms the deposit's block
//   - the wallet is the one that received the deposit
//   - the signer attested the wallet's address for this customer or product
//
// Rule DEP-3.
func (s *Service) checkCandidate(c candidate) error {
	switch {
	case c.proof != provenBlock{c.height, c.blockHash}:
		return fmt.Errorf(
			"its proof is of block %d %s, not of %d %s", c.proof.height, c.proof.hash, c.height, c.blockHash,
		)
	case !c.isReceivedBy(c.wallet):
		return errors.New("its wallet is not the one that received it")
	}
	if err := s.Wallets.VerifyAttestation(c.wallet); err != nil {
		return fmt.Errorf("its wallet is not proven to belong to this service: %w", err)
	}
	return nil
}

// isReceivedBy reports whether the wallet is the one that received the deposit, for the same owner.
func (d storedDeposit) isReceivedBy(w wallet.Wallet) bool {
	return w.ID == d.walletID && w.Address == d.address && w.OrgID == d.orgID && w.Purpose == d.purpose &&
		w.Family == d.chain.Family() && w.Subject == d.walletSubject()
}

// usdValue returns what an amount is worth, or nil without a price. It is pure.
func usdValue(amount money.Amount, decimals int, price *money.USD) *money.USD {
	if price == nil {
		return nil
	}
	v, err := money.ValueOf(amount, decimals, *price)
	if err != nil {
		return nil
	}
	return &v
}

// creditBatch credits or flags deposits in one transaction, all or none. It skips deposits that
// another process has locked and deposits that changed since they were checked.
func (s *Service) creditBatch(ctx context.Context, batch []candidate) (credited int, err error) {
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
	failpoint.Hit("D06")
	if slices.ContainsFunc(batch, func(c candidate) bool { return c.depositSwapID != "" }) {
		failpoint.Hit("Q26")
	}
	err = s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		credited = 0
		// Deposits whose organization changed its settings are decided again later.
		valid, err := lockUnchangedSettings(ctx, tx, decidedBy)
		if err != nil {
			return err
		}
		// A block that was proven on a broken chain may be gone. No deposit of the chain is
		// credited until a person releases the chain.
		broken := map[chain.Name]bool{}
		for _, ch := range chains {
			if broken[ch], err = finality.LockShared(ctx, tx, ch); err != nil {
				return err
			}
		}
		// The mints are locked before any deposit: quarantining a mint locks the mint before its
		// deposits.
		usable, err := mint.Usable(ctx, tx, mints)
		if err != nil {
			return err
		}
		catalogue, err := mint.LoadCatalogue(ctx, tx)
		if err != nil {
			return err
		}
		rows, err := tx.Query(ctx, `
			SELECT `+columns+` FROM deposits WHERE deposit_id = ANY($1) AND status = 'SCREENING' AND swap_id IS NULL
			ORDER BY deposit_id FOR UPDATE SKIP LOCKED`, ids)
		if err != nil {
			return err
		}
		locked, err := pgx.CollectRows(rows, scanDeposit)
		if err != nil {
			return err
		}
		var changes []change
		var entries []audit.Entry
		var accepted []candidate
		wallets, err := creditWalletsFor(ctx, tx, locked...)
		if err != nil {
			return err
		}
		newCredits := credits{owners: s.Owners, wallets: wallets}
		for _, before := range locked {
			c := wanted[before.id]
			m, isListed := catalogue.ByID(*before.mintID)
			isDeep, err := before.isDeepEnough(ctx, tx) // the finality of the block may have broken since
			if err != nil {
				return err
			}
			_, hasTreasury := wallets.walletFor(before)
			plan, rejection := Decide(Facts{
				deposit: before, record: c.record, usd: c.usd, isKeyAccount: c.isKeyAccount, now: tx.Now,
				isMintUsable:     isListed && usable[m.ID],
				isFinalityBroken: broken[before.chain],
				isWalletProven:   c.isProven,
				isUnchanged:      isUnchanged(before, c.storedDeposit),
				areSettingsKept:  c.record == nil || valid[before.orgID],
				isDeep:           isDeep,
				hasCreditWallet:  hasTreasury,
				isOperators:      s.Owners.isOperators(before),
			})
			if rejection == rejectedWithoutTreasury {
				s.Log.Error(
					"deposit: not credited: its organization has no treasury on this chain", "deposit", before.id,
				)
			}
			if rejection != "" {
				continue
			}
			after := plan.After
			if after.status == Flagged {
				macInput, err := after.macInput()
				if err != nil {
					return err
				}
				after.flag.mac = s.GrantKey.FlagMAC(macInput)
				newCredits.addHold(after)
			} else {
				newCredits.addCredit(after, m.Kind == mint.Native)
			}
			changes = append(changes, change{before, after})
			entries = append(entries, newStatusEntry(after))
			accepted = append(accepted, c)
		}
		if len(changes) == 0 {
			return nil
		}
		if err := s.applyChanges(ctx, tx, changes...); err != nil {
			return err
		}
		if err := insertDecisions(ctx, tx, accepted); err != nil {
			return err
		}
		if err := s.writeCredits(ctx, tx, newCredits, nil, entries); err != nil {
			return err
		}
		credited = len(changes)
		failpoint.HitBeforeCommit("D08")
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("credit %d deposits from %s on: %w", len(batch), ids[0], err)
	}
	if credited > 0 {
		failpoint.Hit("D08")
	}
	return credited, nil
}

// credits collects the deposits that one transaction credits or flags.
type credits struct {
	owners        Owners
	wallets       creditWallets
	postings      []ledger.Posting
	freedDeposits []string // deposits whose outputs can now be selected
	movements     []wallet.Movement
	announced     []storedDeposit
}

// addCredit adds a credited deposit. native says whether its mint is the native coin.
func (c *credits) addCredit(after storedDeposit, native bool) {
	account, part := c.owners.accountFor(after, native)
	c.postings = append(c.postings, ledger.Posting{
		Cause: ledger.Cause{Kind: ledger.Deposit, ID: after.id},
		Legs: []ledger.Leg{{
			Debit:  ledger.Account{OrgID: after.orgID, MintID: *after.mintID, Kind: ledger.Custody},
			Credit: account, Amount: after.amount,
		}},
	})
	walletID, _ := c.wallets.walletFor(after)
	c.movements = append(
		c.movements,
		wallet.Movement{WalletID: walletID, OrgID: after.orgID, MintID: *after.mintID, Part: part, Plus: after.amount},
	)
	if after.chain.IsUTXO() {
		c.freedDeposits = append(c.freedDeposits, after.id)
	}
	if c.owners.eventFor(after, event.CustomerDeposit) != "" {
		c.announced = append(c.announced, after)
	}
}

// addApproval adds a flagged deposit that a person approved: it is credited, and its hold ends. On a
// UTXO chain its amount moves to the treasury; elsewhere it stays at its address. A deposit to a
// treasury is never flagged. Rule DEP-29.
func (c *credits) addApproval(after storedDeposit) {
	c.addCredit(after, false)
	c.postings = append(c.postings, newReleasePosting(after))
	for _, part := range []wallet.Part{wallet.Held, wallet.Credited} { // the hold had added to both
		c.movements = append(c.movements, wallet.Movement{
			WalletID: after.walletID, OrgID: after.orgID, MintID: *after.mintID, Part: part, Minus: after.amount,
		})
	}
}

// addHold adds a flagged deposit. The address holds the amount as held, and the ledger has it in
// the suspense account. Rule DEP-28.
func (c *credits) addHold(after storedDeposit) {
	c.postings = append(c.postings, ledger.Posting{
		Cause: ledger.Cause{Kind: ledger.DepositHold, ID: after.id},
		Legs: []ledger.Leg{{
			Debit:  ledger.Account{OrgID: after.orgID, MintID: *after.mintID, Kind: ledger.Custody},
			Credit: ledger.Account{OrgID: after.orgID, MintID: *after.mintID, Kind: ledger.Suspense},
			Amount: after.amount,
		}},
	})
	c.movements = append(c.movements,
		wallet.Movement{
			WalletID: after.walletID, OrgID: after.orgID, MintID: *after.mintID, Part: wallet.Credited,
			Plus: after.amount,
		},
		wallet.Movement{
			WalletID: after.walletID, OrgID: after.orgID, MintID: *after.mintID, Part: wallet.Held, Plus: after.amount,
		})
	if c.owners.eventFor(after, event.CustomerDeposit) != "" {
		c.announced = append(c.announced, after)
	}
}

// writeCredits writes address funds and postings of the collected deposits, records their events,
// and records the audit entries. The rows of the deposits are already written. dust holds the funds
// that move in addition. Rule DEP-12.
func (s *Service) writeCredits(
	ctx context.Context, tx pg.Tx, c credits, dust []wallet.Movement, entries []audit.Entry,
) (err error) {
	if len(c.postings) > 0 {
		var span trace.Span
		ctx, span = trace.StartChild(ctx, "deposit credit")
		defer func() { span.End(err) }()
	}
	if err := c.postCredits(ctx, tx, dust); err != nil {
		return err
	}
	if err := s.publishEvents(
		ctx, tx, c.announced, freshDeposits,
		func(after storedDeposit) event.Type { return c.owners.eventFor(after, event.CustomerDeposit) },
	); err != nil {
		return err
	}
	if len(c.postings) > 0 {
		failpoint.Hit("D07")
	}
	return recordAudit(ctx, tx, entries)
}

// postCredits writes the collected credits to the books: it frees outputs, moves address funds and
// posts to the ledger. Every credit passes here: with its block, after screening, or after an
// approval.
func (c credits) postCredits(ctx context.Context, tx pg.Tx, dust []wallet.Movement) error {
	if len(c.freedDeposits) > 0 {
		if err := utxo.FreeCredited(ctx, tx, c.freedDeposits...); err != nil {
			return err
		}
	}
	// Address funds come before the ledger. dispatch uses the same order and can meet this
	// transaction at a treasury.
	if err := wallet.MoveFunds(ctx, tx, append(c.movements, dust...)...); err != nil {
		return err
	}
	return ledger.Post(ctx, tx, c.postings...)
}

// isUnchanged reports whether a deposit is still the one that was checked.
func isUnchanged(a, b storedDeposit) bool {
	return a.amount == b.amount && a.from == b.from && slices.Equal(a.senders, b.senders) &&
		a.walletID == b.walletID && a.address == b.address && a.customerID == b.customerID &&
		a.product == b.product &&
		a.blockHash == b.blockHash && *a.proofID == *b.proofID && *a.mintID == *b.mintID
}
