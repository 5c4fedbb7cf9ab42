package withdrawal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/request"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/wallet"
)

// loadRequest loads the facts that need no more than the rows that a request names, and parses it.
// It writes nothing. A preview may be answered by another database than the one that decides, so it looks by itself.
// Error: fault INVALID_REQUEST for a malformed key, which cannot be looked up.
func (s *Service) loadRequest(ctx context.Context, org string, r Request, isPreview bool) (Facts, error) {
	f := Facts{request: r, isPreview: isPreview}
	if r.IdempotencyKey != nil && !r.hasOwnKey() && !request.IsKey(*r.IdempotencyKey) {
		return f, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingHeld,
			"An idempotency key has to have 1 to %d printable ASCII characters and no space.", request.KeyBytesMax).
			WithAdvice("Send such a key, or none.").
			WithParam("idempotencyKey")
	}
	look := &requestLook{key: r.IdempotencyKey}
	if customer.CheckID(r.CustomerID) == nil {
		look.customerID = r.CustomerID
	}
	var err error
	if isPreview {
		err = s.lookUpRequests(ctx, org, []*requestLook{look})
	} else {
		err = s.lookAtRequest(ctx, org, look)
	}
	if err == nil && look.accepted == nil && r.owner.NeedsWhitelist() {
		err = s.DB.ReadOrg(ctx, org, func(ctx context.Context, tx pg.Tx) (err error) {
			f.entry, _, err = s.loadEntry(ctx, tx, org, r.listedID)
			return err
		})
	}
	if err != nil {
		return f, fmt.Errorf("prepare withdrawal: %w", err)
	}
	if f.existing = look.accepted; f.existing == nil {
		f.activeFreeze = look.freezes.FindFor(freeze.Target{OrgID: org, CustomerID: look.customerID})
	}
	f.parsed, f.parseErr = parseRequest(r, *look.mints, s.Chains)
	f.native, f.hasNative = look.mints.Native(f.mint.Chain)
	if f.owner.NeedsWhitelist() {
		// The caller does not choose the address. An entry that may not be used has none, and
		// checkWhitelist refuses it.
		f.destination = f.entry.Address
	}
	if f.existing == nil && r.Limit != nil {
		f.limitErr = r.Limit()
	}
	return f, nil
}

// lookupKey returns the withdrawal that has a key, or nil.
func lookupKey(ctx context.Context, tx pg.Tx, org string, key *string) (*request.Accepted, error) {
	if key == nil {
		return nil, nil
	}
	b := &pgx.Batch{}
	pg.QueueKeyPlans(b)
	accepted := queueKeys(b, org, []string{keyHash(key)})
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return nil, fmt.Errorf("look up an idempotency key: %w", err)
	}
	return accepted[keyHash(key)], nil
}

// queueKeys queues the look-up of keys by their hashes. The result has the withdrawals that have them, once the batch
// was sent.
func queueKeys(b *pgx.Batch, org string, hashes []string) map[string]*request.Accepted {
	found := map[string]*request.Accepted{}
	if len(hashes) == 0 {
		return found
	}
	b.Queue(selectKeys, org, hashes).Query(func(rows pgx.Rows) error {
		var hash string
		var a request.Accepted
		_, err := pgx.ForEachRow(rows, []any{&hash, &a.ID, &a.Digest, &a.Reference, &a.IsRestored}, func() error {
			found[hash] = &request.Accepted{
				ID: a.ID, Digest: slices.Clone(a.Digest), Reference: a.Reference, IsRestored: a.IsRestored,
			}
			return nil
		})
		return err
	})
	return found
}

var selectKeys = `
	SELECT w.key_hash, w.withdrawal_id, w.request_digest, w.reference, w.restored_at IS NOT NULL
	FROM unnest($2::text[]) AS k (hash)
	CROSS JOIN LATERAL (SELECT key_hash, withdrawal_id, request_digest, reference, restored_at FROM withdrawals
		WHERE org_id = $1 AND ` + pg.ByKey("key_hash", "k.hash") + `) w`

// loadFacts loads what the transaction that decides sees, in the order of its locks: settings, the
// customer's costs, freezes. They are held until the transaction ends: a freeze that has committed
// counts for every request that commits after it. For an approval it loads what is checked again.
// The posting makes the final check of the balance. Rule OW-5.
func (s *Service) loadFacts(ctx context.Context, tx pg.Tx, orgID string, f *Facts) error {
	if err := org.LockSettingsShared(ctx, tx, orgID); err != nil {
		return err
	}
	settings, err := org.SettingsOf(ctx, tx, orgID)
	if err != nil {
		return fmt.Errorf("settings of %s: %w", orgID, err)
	}
	f.setSettings(settings)
	switch {
	case f.owner.NeedsWhitelist():
		if f.entry, f.entryRefusal, err = s.loadEntry(ctx, tx, orgID, f.listedID); err != nil {
			return err
		}
	case !f.owner.IsOrganization():
		if f.isAllowlisted, err = loadAllowlisted(ctx, tx, orgID, f.owner.Subject, settings); err != nil {
			return err
		}
	}
	if f.costs.isCounted && f.costs.limit != nil {
		if err := pg.LockExclusive(ctx, tx, costLockName(orgID, f.owner.CustomerID())); err != nil {
			return err
		}
		f.costs.spent, err = sumDayCosts(ctx, tx, orgID, f.owner.CustomerID(), f.costs.excludedID)
		if err != nil {
			return err
		}
	}
	b := &pgx.Batch{}
	pg.QueueKeyPlans(b)
	special := queueSpecial(b, orgID, []payee{f.payee()})
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("look for addresses that look like %s: %w", f.destination, err)
	}
	if special[f.payee()] {
		if f.failedWithdrawalID, _, err = findFailedTo(ctx, tx, orgID, f.mint.Chain, f.destination); err != nil {
			return err
		}
	}
	if err := freeze.LockShared(ctx, tx); err != nil {
		return err
	}
	if f.activeFreeze, err = freeze.Active(
		ctx, tx, freeze.Target{OrgID: orgID, CustomerID: f.owner.CustomerID(), Chain: f.mint.Chain},
	); err != nil {
		return err
	}
	mints, err := mint.LoadCatalogue(ctx, tx)
	if err != nil {
		return err
	}
	if !f.setMint(mints) {
		return fmt.Errorf("mint %d has left the catalogue", f.mint.ID)
	}
	if err := s.loadRuleFacts(ctx, tx, orgID, f); err != nil {
		return err
	}
	f.isLoaded = true
	if f.approval != nil { // its amount is held, and the approver could see a lookalike
		return nil
	}
	if f.balance, err = loadSpendable(ctx, tx, orgID, f.owner, f.mint.ID); err != nil {
		return fmt.Errorf("balance of a customer or product of %s: %w", orgID, err)
	}
	if f.liquid, err = loadLiquidity(ctx, tx, orgID, f.mint, f.amount); err != nil {
		return err
	}
	if special[f.payee()] {
		f.lookalike, err = findLookalike(ctx, tx, orgID, f.destination)
	}
	return err
}

// payee is a destination on a chain.
type payee struct {
	chain   chain.Name
	address chain.Address
}

func (p parsed) payee() payee { return payee{p.mint.Chain, p.destination} }

// queueSpecial queues the question which payees a person may have to look at: those that look like another
// destination, also one that is asked about with them, or like a wallet of the organization, and those to whom a
// payment was reverted. It names more of them than findLookalike and findFailedTo do, and none less. The answer is
// set once the batch was sent. It reads a few rows for each payee, however many payments there are to one.
func queueSpecial(b *pgx.Batch, org string, payees []payee) map[payee]bool {
	special := map[payee]bool{}
	chains, addresses := make([]string, len(payees)), make([]string, len(payees))
	for i, p := range payees {
		chains[i], addresses[i] = string(p.chain), string(p.address)
	}
	b.Queue(selectSpecial, org, chains, addresses).Query(func(rows pgx.Rows) error {
		var p payee
		_, err := pgx.ForEachRow(rows, []any{&p.chain, &p.address}, func() error {
			special[p] = true
			return nil
		})
		return err
	})
	return special
}

// Each look-up asks for the next row in the order of one index, see pg.ByKey.
const selectSpecial = `
	WITH asked AS MATERIALIZED (
		SELECT DISTINCT chain, address, address_prefix_suffix(address) AS ends
		FROM unnest($2::text[], $3::text[]) AS a (chain, address))
	SELECT a.chain, a.address FROM asked a
	WHERE EXISTS (SELECT FROM asked o WHERE o.ends = a.ends AND o.address <> a.address)
		OR (SELECT w.to_prefix_suffix FROM withdrawals w
			WHERE w.org_id = $1 AND (w.to_prefix_suffix, w.to_address) > (a.ends, a.address)
			ORDER BY w.to_prefix_suffix, w.to_address LIMIT 1) = a.ends
		OR (SELECT w.to_prefix_suffix FROM withdrawals w
			WHERE w.org_id = $1 AND (w.to_prefix_suffix, w.to_address) < (a.ends, a.address)
			ORDER BY w.to_prefix_suffix DESC, w.to_address DESC LIMIT 1) = a.ends
		OR (SELECT x.prefix_suffix FROM wallets x WHERE x.org_id = $1 AND x.prefix_suffix >= a.ends
			ORDER BY x.prefix_suffix LIMIT 1) = a.ends
		OR (SELECT w.to_address FROM withdrawals w
			WHERE w.org_id = $1 AND w.status = 'FAILED' AND w.failure_reason = 'REVERTED'
				AND (w.chain, w.to_address) >= (a.chain, a.address)
			ORDER BY w.chain, w.to_address LIMIT 1) = a.address`

// loadAllowlisted reports whether the approval allowlist has a customer by a trusted e-mail. A
// changed e-mail is not trusted for a day (customer.CoolingOff). Rule WD-33.
func loadAllowlisted(ctx context.Context, tx pg.Tx, orgID, customerID string, settings org.Settings) (bool, error) {
	if len(settings.ApprovalAllowlist) == 0 {
		return false, nil
	}
	c, err := customer.ByID(ctx, tx, orgID, customerID)
	if fault.HasCode(err, fault.CodeNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for the approval allowlist of %s: %w", orgID, err)
	}
	return settings.SkipsApproval(customerID, c.TrustedEmail(tx.Now, customer.CoolingOff)), nil
}

// loadEntry loads a whitelist entry. The reason why it may not be paid is returned as a fault of
// its own.
func (s *Service) loadEntry(ctx context.Context, tx pg.Tx, org, listedID string) (WhitelistEntry, *fault.Fault, error) {
	if s.Whitelist == nil || !id.IsValid("wla", listedID) {
		return WhitelistEntry{}, newUnlisted(), nil
	}
	l, err := s.Whitelist.Usable(ctx, tx, org, listedID)
	switch f := fault.Find(err); {
	case f != nil && f.Code == fault.CodeNotFound:
		return WhitelistEntry{}, newUnlisted(), nil
	case f != nil:
		return WhitelistEntry{}, f, nil
	}
	if err != nil {
		return WhitelistEntry{}, nil, fmt.Errorf("look up whitelist entry %s of %s: %w", listedID, org, err)
	}
	return l, nil, nil
}

// loadSpendable returns what a customer or a product may withdraw of a mint: the balance, less the
// debt for restored payments. It locks nothing. Only OnRestored increases the debt, while nothing
// else runs. CollectOwed reduces debt and balance in one transaction. So an older answer about the
// debt is never too small.
func loadSpendable(ctx context.Context, tx pg.Tx, org string, payer ledger.Owner, mintID int) (money.Amount, error) {
	balance, err := ledger.Balance(ctx, tx, payer.SpendingAccount(org, mintID))
	if err != nil || payer.IsRefund() || payer.IsBatch() { // what is owed or promised pays no debt of the product
		return balance, err
	}
	sql := `
		SELECT coalesce(sum(owed), 0) FROM withdrawals
		WHERE org_id = $1 AND customer_id = $2 AND mint_id = $3 AND owed > 0`
	if payer.IsOrganization() {
		sql = `
		SELECT coalesce(sum(owed), 0) FROM withdrawals
		WHERE org_id = $1 AND product = $2 AND mint_id = $3 AND owed > 0`
	}
	var owed money.Amount
	if err := tx.QueryRow(ctx, sql, org, payer.Subject, mintID).Scan(&owed); err != nil {
		return balance, fmt.Errorf("read the debts of a customer or product of %s: %w", org, err)
	}
	return money.SubOrZero(balance, owed), nil
}

// loadLiquidity predicts what could pay a withdrawal of this amount; only dispatch reserves. It
// counts:
//
//   - the treasury's funds, less the orders that have no slot yet,
//   - only if those are too little: the funds of every other address of the organization, and the
//     sweeps on their way to the treasury.
//
// The second sum grows with the customers and is rarely needed. Funds that the chain would not move
// count as zero, as while a token is paused or blocks an address of the organization. Rule WD-17.
func loadLiquidity(
	ctx context.Context, tx pg.Tx, orgID string, m mint.Mint, amount money.Amount,
) (money.Amount, error) {
	fail := func(err error) (money.Amount, error) {
		return money.Zero, fmt.Errorf("liquidity of mint %d: %w", m.ID, err)
	}
	immovable, err := dispatch.ListImmovableFunds(ctx, tx, orgID, m.ID)
	if err != nil {
		return fail(err)
	}
	immovableIDs := make([]string, 0, len(immovable))
	for _, b := range immovable {
		immovableIDs = append(immovableIDs, b.WalletID)
	}
	var liquidSum, ordered money.Amount
	var isImmovable bool // the treasury cannot pay, wherever other funds are
	err = tx.QueryRow(ctx, `
		SELECT
			(SELECT coalesce(sum(greatest(f.credited - f.held - f.reserved - f.swept, 0)), 0)
			 FROM wallets w JOIN address_funds f ON f.wallet_id = w.wallet_id
			 WHERE w.org_id = $1 AND w.family = $2 AND w.purpose = $3 AND w.subject = '' AND f.mint_id = $4),
			(SELECT coalesce(sum(amount), 0) FROM dispatch_orders
			 WHERE org_id = $1 AND mint_id = $4 AND purpose IN ('PAYMENT', 'SWAP') AND status = 'QUEUED'),
			EXISTS (SELECT FROM wallets WHERE org_id = $1 AND family = $2 AND purpose = $3 AND subject = '' AND wallet_id = ANY($5))`,
		orgID, m.Chain.Family(), wallet.Treasury, m.ID, immovableIDs).Scan(&liquidSum, &ordered, &isImmovable)
	if err != nil {
		return fail(err)
	}
	if isImmovable {
		return money.Zero, nil
	}
	if remaining := money.SubOrZero(liquidSum, ordered); !remaining.Less(amount) {
		return remaining, nil
	}
	var moving money.Amount
	err = tx.QueryRow(ctx, `
		SELECT
			(SELECT coalesce(sum(greatest(credited - held - reserved - swept, 0)), 0) FROM address_funds
			 WHERE org_id = $1 AND mint_id = $2 AND wallet_id <> ALL($3)),
			(SELECT coalesce(sum(amount), 0) FROM dispatch_orders
			 WHERE org_id = $1 AND mint_id = $2 AND purpose = 'SWEEP' AND status IN ('QUEUED', 'SLOTTED', 'SIGNED', 'BROADCAST')
				AND wallet_id <> ALL($3))`,
		orgID, m.ID, immovableIDs).Scan(&liquidSum, &moving)
	if err != nil {
		return fail(err)
	}
	sum, err := liquidSum.Add(moving)
	if err != nil {
		return fail(err)
	}
	return money.SubOrZero(sum, ordered), nil
}

// findLookalike returns a known destination with the same beginning and end as this address and
// another middle, or "": address poisoning offers such addresses. Known are the organization's
// earlier destinations and its own wallets.
//
// An address that is itself known is no lookalike, but only once a withdrawal to it was let go. A
// withdrawal that waits or was refused would otherwise let the next one to its address pass.
// Rules WD-12 and WD-34.
func findLookalike(ctx context.Context, tx pg.Tx, orgID string, a chain.Address) (chain.Address, error) {
	var found chain.Address
	err := tx.QueryRow(ctx, `
		WITH alike AS (
			SELECT to_address AS address, status <> 'AWAITING_APPROVAL' AS gone FROM withdrawals
			WHERE org_id = $1 AND to_prefix_suffix = address_prefix_suffix($2)
				AND status NOT IN ('REJECTED', 'CANCELLED', 'BLOCKED')
			UNION
			SELECT address, true FROM wallets WHERE org_id = $1 AND prefix_suffix = address_prefix_suffix($2)
		)
		SELECT address FROM alike WHERE address <> $2 AND NOT EXISTS (SELECT FROM alike WHERE address = $2 AND gone)
		ORDER BY address LIMIT 1`, orgID, string(a)).Scan(&found)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("look for addresses that look like %s: %w", a, err)
	}
	return found, nil
}

// findFailedTo returns the latest of an organization's withdrawals to a destination that the chain
// reverted, and when it ended. It returns "" if a later withdrawal that a person approved was paid.
// Rule WD-51.
func findFailedTo(
	ctx context.Context, tx pg.Tx, orgID string, chainName chain.Name, to chain.Address,
) (withdrawalID string, failedAt time.Time, err error) {
	err = tx.QueryRow(ctx, `
		SELECT f.withdrawal_id, f.completed_at FROM withdrawals f
		WHERE f.org_id = $1 AND f.chain = $2 AND f.to_address = $3 AND f.status = 'FAILED' AND f.failure_reason = 'REVERTED'
			AND NOT EXISTS (SELECT FROM withdrawals p
				WHERE p.org_id = $1 AND p.chain = $2 AND p.to_address = $3 AND p.status = 'COMPLETED' AND p.approved_at >= f.completed_at)
		ORDER BY f.completed_at DESC LIMIT 1`, orgID, chainName, to).Scan(&withdrawalID, &failedAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", failedAt, nil
	}
	if err != nil {
		return "", failedAt, fmt.Errorf("look for a failed payment to %s: %w", to, err)
	}
	return withdrawalID, failedAt, nil
}

// loadExternalFacts collects the facts that no transaction of the organization can see:
//
//   - the price,
//   - the fee, if it is needed,
//   - the smallest payment that reaches the destination,
//   - whether the destination is a wallet of this installation.
//
// A tenant sees its own wallets only. A transfer to another tenant's wallet would be lost, because
// an arrival from a wallet of Coffer is never a deposit.
func (s *Service) loadExternalFacts(ctx context.Context, orgID string, f *Facts, withFee bool) error {
	if codec := s.Chains.AddressCodec(f.mint.Chain.Family()); codec != nil {
		f.isUnspendable = codec.IsUnspendable(f.destination)
	}
	// The network takes a customer's costs in the native coin. They are counted if it has a price
	// source here.
	f.costs.isCounted = !f.owner.IsOrganization() && f.hasNative && s.HasPriceSource != nil &&
		s.HasPriceSource(f.native.ID)
	f.costs.decimals = f.native.Decimals
	look := &payeeLook{payee: f.payee(), isPaying: !f.isPreview && f.approval == nil}
	var err error
	if !look.isPaying {
		err = s.lookUpPayees(ctx, orgID, []*payeeLook{look})
	} else {
		err = s.lookAtPayee(ctx, orgID, look)
	}
	if err != nil {
		return err
	}
	f.isOwnAddress, f.payerAddress, f.treasury = look.isOurs, look.payerAddress, look.treasury
	if !f.owner.IsOrganization() && f.approval == nil {
		settings, err := look.settings()
		if err != nil {
			return fmt.Errorf("settings of %s: %w", orgID, err)
		}
		f.charging.isCharged = f.hasNative && settings.ChargeCustomerCosts != org.ChargeNone
	}
	if f.isMax {
		err := s.DB.ReadOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) (err error) {
			f.balance, err = loadSpendable(ctx, tx, orgID, f.owner, f.mint.ID)
			return err
		})
		if err != nil {
			return fmt.Errorf("balance of %s: %w", orgID, err)
		}
	}
	if f.isMax {
		f.amount = f.balance
	}
	if withFee || f.charging.isCharged || f.costs.isCounted && !f.costs.isKnown {
		q := s.quoteCost(
			ctx,
			chain.Payment{From: f.payerAddress, To: f.destination, Contract: f.mint.Contract, Amount: f.amount},
			f.mint.Chain,
		)
		f.fee, f.costs.rent = q.costMax, q.rent
		s.loadChargePrices(ctx, f, q)
	}
	if fee := f.deductedFee(); (f.isMax || f.isTotal) && fee != nil {
		f.amount = money.SubOrZero(f.amount, *fee)
	}
	f.minReachable = s.minPayment(ctx, f.mint, f.destination)
	f.screening.Case = risk.WithdrawalCase{
		Subject: risk.Subject{
			Chain: f.mint.Chain, Address: f.destination, MintID: f.mint.ID, Symbol: f.mint.Symbol, Amount: f.amount,
			Direction: risk.Outgoing,
		},
		Configured: s.Risk.Configured(), UnknownAs: s.Risk.UnknownAs, Now: s.DB.Clock()(),
	}
	s.valueAmount(ctx, f)
	if f.costs.isCounted {
		if !f.costs.isKnown {
			f.costs.costMax = f.fee
		}
		if q, isFresh := s.loadQuote(ctx, f.native.ID, s.DB.Clock()()); isFresh {
			f.costs.quote = q
		}
	}
	return nil
}

// loadPayerAddress returns the address of an organization's treasury from its row, or "" before its
// first payment. The address serves for fee quotes and is never shown.
func loadPayerAddress(
	ctx context.Context, tx pg.Tx, org string, name chain.Name,
) (payerAddress chain.Address, err error) {
	err = tx.QueryRow(ctx, selectPayerAddress, org, name.Family(), wallet.Treasury).Scan(&payerAddress)
	return payerAddress, err
}

const selectPayerAddress = `
	SELECT coalesce((SELECT address FROM wallets WHERE org_id = $1 AND family = $2 AND purpose = $3 AND subject = ''), '')`

// queuePayerAddress queues loadPayerAddress. The address is set once the batch was sent.
func queuePayerAddress(b *pgx.Batch, org string, name chain.Name, address *chain.Address) {
	b.Queue(selectPayerAddress, org, name.Family(), wallet.Treasury).QueryRow(func(row pgx.Row) error {
		return row.Scan(address)
	})
}

// valueAmount sets the dollar value of the amount. Every failure has the same effect: there is no
// fresh price, and so no value.
func (s *Service) valueAmount(ctx context.Context, f *Facts) {
	f.quotedAt = s.DB.Clock()()
	var isFresh bool
	if f.quote, isFresh = s.loadQuote(ctx, f.mint.ID, f.quotedAt); !isFresh {
		return
	}
	if v, err := money.ValueOf(f.amount, f.mint.Decimals, f.quote.Price); err == nil {
		f.usdValue = &v
	}
}

// loadQuote returns the source's current price of a mint, or nil if it has none or fails. isFresh
// says that the price is recent enough now to decide about a threshold.
func (s *Service) loadQuote(ctx context.Context, mintID int, now time.Time) (quote *price.Quote, isFresh bool) {
	if s.Prices == nil {
		return nil, false
	}
	q, err := s.Prices.USD(ctx, mintID)
	if err != nil {
		return nil, false
	}
	return &q, price.CheckFresh(q, now, s.priceAge(mintID)) == nil
}

// FreshPrice returns the price of a whole unit of a mint, and whether it is recent enough to decide about a threshold.
func (s *Service) FreshPrice(ctx context.Context, mintID int) (usd money.USD, isFresh bool) {
	q, isFresh := s.loadQuote(ctx, mintID, s.DB.Clock()())
	if !isFresh {
		return usd, false
	}
	return q.Price, true
}

// loadChargePrices loads the prices that convert costs, and takes over the chain's cost quote.
func (s *Service) loadChargePrices(ctx context.Context, f *Facts, q costQuote) {
	if !f.charging.isCharged {
		return
	}
	f.charging.rent = q.accountRent
	if q.costMax != nil {
		fee := money.SubOrZero(*q.costMax, q.rent) // a payment that is refused creates no account
		f.charging.fee = &fee
	}
	if f.mint.Kind == mint.Native {
		return
	}
	now := s.DB.Clock()()
	if q, isFresh := s.loadQuote(ctx, f.native.ID, now); isFresh {
		f.charging.coinQuote = q
	}
	if q, isFresh := s.loadQuote(ctx, f.mint.ID, now); isFresh {
		f.charging.tokenQuote = q
	}
}

// quoteTimeout limits the time for a cost quote of the chain.
const quoteTimeout = 5 * time.Second

// costQuote holds what a payment would cost at the chain's current state.
type costQuote struct {
	costMax *money.Amount // the most; nil: unknown
	rent    money.Amount  // the part of costMax that stays in an account created for the payee
	// accountRent equals rent where the payee's account is known to exist or not, and else is the
	// rent of a new account; nil: unknown.
	accountRent *money.Amount
}

// quoteCost quotes what a payment would cost at the chain's current state. From may be unknown, and
// for an estimate To as well. The quote is then that of a usual token transfer, which costs more
// than a transfer of native coin.
func (s *Service) quoteCost(ctx context.Context, p chain.Payment, chainName chain.Name) (q costQuote) {
	sender, accounts := s.Chains[chainName].Sender, s.Chains[chainName].TokenAccounts
	if sender == nil {
		return q
	}
	if p.Contract == "" || accounts == nil {
		q.accountRent = &q.rent // zero
	} else if rent, err := accounts.Rent(p.Contract); err == nil {
		q.accountRent = &rent
	}
	ctx, cancel := context.WithTimeout(ctx, quoteTimeout)
	defer cancel()
	if p.Contract == "" && p.From != "" {
		if p.To == "" {
			p.To = p.From
		}
		// A payment of zero: the treasury may be funded only when it has to pay.
		p.Amount = money.Zero
	}
	fees, err := chain.Fees{}, error(nil)
	if p.From != "" && p.To != "" {
		fees, err = sender.Quote(ctx, p)
	}
	if err != nil || fees.GasLimit == 0 {
		if fees, err = sender.TransferFees(ctx); err != nil {
			return q
		}
	} else {
		q.accountRent = &fees.Rent
	}
	if costMax, err := fees.Max(); err == nil {
		q.costMax, q.rent = &costMax, fees.Rent
	}
	return q
}

// minPayment returns the smallest payment that reaches a destination at the chain's current state;
// nil: unknown. An unknown minimum refuses nothing, because dispatch checks before anything is
// signed.
func (s *Service) minPayment(ctx context.Context, m mint.Mint, to chain.Address) *money.Amount {
	ch, isRunning := s.Chains[m.Chain]
	if !isRunning || to == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, quoteTimeout)
	defer cancel()
	minimum, err := ch.MinPaymentTo(ctx, m.Contract, to)
	if err != nil {
		return nil
	}
	return &minimum
}
