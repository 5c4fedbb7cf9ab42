package swap

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/failpoint"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/swap/provider"
	"github.com/cofferpay/coffer/internal/swap/turn"
	"github.com/cofferpay/coffer/internal/wallet"
)

// create makes the swap of a new key, in its turn. Nothing but two addresses and a deposit address that is
// never paid exists before its one transaction.
func (s *Service) create(ctx context.Context, orgID string, r Request, t turn.Turn, f facts) (Swap, error) {
	if r.Limit != nil {
		if err := r.Limit(); err != nil {
			return Swap{}, err
		}
	}
	p, err := s.check(r, f)
	if err != nil {
		return Swap{}, err
	}
	offers, refusal, err := s.compareAll(ctx, f.treasuries(), p)
	if err != nil {
		return Swap{}, err
	}
	swapID := ID(orgID, r.IdempotencyKey)
	wallets, err := s.issueWallets(ctx, orgID, swapID, p)
	if err != nil {
		return Swap{}, err
	}
	failpoint.Hit("Q02")
	return s.makeOfOffers(ctx, p, offers, refusal, wallets, swapID, func(firm firmOffer) (Swap, error) {
		return s.commit(ctx, orgID, swapID, r, t, p, firm, wallets)
	})
}

// makeOfOffers makes a swap of the first offer whose firm quote can be taken. refusal is the answer of the
// providers without an offer. commit writes the swap.
func (s *Service) makeOfOffers(
	ctx context.Context, p parsed, offers []judgedOffer, refusal error, w swapWallets, swapID string,
	commit func(firmOffer) (Swap, error),
) (Swap, error) {
	for len(offers) > 0 {
		firm, err := s.takeOffer(ctx, p, offers, w, swapID)
		if err != nil {
			return Swap{}, s.chooseRefusal(ctx, refusal, err)
		}
		failpoint.Hit("Q04")
		created, err := writeWithin(firm.limit, func() (Swap, error) { return commit(firm) })
		if errors.Is(err, errLimit) || errors.Is(err, errSuspended) { // another swap or a suspension came first
			s.Log.WarnContext(ctx, "swap: an offer is not taken", "swap", swapID, "provider", firm.Provider,
				"error", err)
			refusal = s.chooseRefusal(ctx, refusal, err)
			offers = skipThrough(offers, firm.Provider)
			continue
		}
		if !isAddressTaken(err) {
			return created, err
		}
		// The provider gave the address to another swap, which was written since it was checked.
		s.Log.WarnContext(ctx, "swap: an offer is not taken", "swap", swapID, "provider", firm.Provider, "error", err)
		err = s.rejectAddress(ctx, firm.Provider, firm.payee, addressOfAnother)
		if !errors.Is(err, provider.ErrUntrusted) {
			return Swap{}, err
		}
		refusal = s.chooseRefusal(ctx, refusal, err)
		offers = skipThrough(offers, firm.Provider)
	}
	return Swap{}, refusal
}

// skipThrough returns the offers that follow that of a provider.
func skipThrough(offers []judgedOffer, providerName string) []judgedOffer {
	i := slices.IndexFunc(offers, func(o judgedOffer) bool { return o.Provider == providerName })
	return offers[i+1:]
}

// isAddressTaken reports whether a swap was not written because its deposit address or its quote is that of
// another one.
func isAddressTaken(err error) bool {
	return pg.ViolatesConstraint(err, "swaps_deposit_address_once") ||
		pg.ViolatesConstraint(err, "swap_offers_quote_once")
}

// commit writes a swap with its offer, in one transaction.
func (s *Service) commit(
	ctx context.Context, orgID, swapID string, r Request, t turn.Turn, p parsed, firm firmOffer, wallets swapWallets,
) (created Swap, err error) {
	value := s.valueIn(ctx, p)
	var f facts
	var checkProvider, endTurn func() error
	err = s.DB.InOrgPipelined(ctx, orgID,
		func(b *pgx.Batch) {
			f = queueLockedFacts(b, orgID, r.CustomerID, r.FromMintID, r.ToMintID)
			if firm.limit == nil {
				checkProvider = queueSuspended(b, firm.Provider)
				endTurn = t.QueueEnd(b)
			}
		},
		func(ctx context.Context, tx pg.Tx, b *pgx.Batch) error {
			_, settings, err := s.checkRules(r, f)
			if err != nil {
				return err
			}
			if firm.limit != nil { // its gate comes before the turn
				if err := s.checkInside(ctx, tx, firm.limit); err != nil {
					return err
				}
				checkProvider = func() error { return checkSuspended(ctx, tx, firm.Provider) }
				endTurn = func() error { return t.End(ctx, tx) }
			}
			if err := checkProvider(); err != nil {
				return err
			}
			if err := endTurn(); err != nil {
				return err
			}
			if created, err = s.queueSwap(b, tx.Now, orgID, swapID, r, p, firm, wallets, settings, value); err != nil {
				return err
			}
			failpoint.HitBeforeCommit("Q05")
			return nil
		})
	err = ledger.MapRefusal(err)
	switch {
	case errors.Is(err, ledger.ErrOverdraft):
		return Swap{}, newInsufficient(p.from)
	case err != nil:
		return Swap{}, fmt.Errorf("create swap %s: %w", swapID, err)
	}
	failpoint.Hit("Q05")
	return created, nil
}

// queueCustomerFacts queues what the rules decide about a request by, without a lock.
func queueCustomerFacts(b *pgx.Batch, orgID string, r Request) facts {
	f := queueFacts(b, orgID, r.CustomerID, r.FromMintID, r.ToMintID)
	if customer.CheckID(r.CustomerID) == nil {
		f.queueBalance(b, ledger.CustomerOwner(r.CustomerID), r.FromMintID)
	}
	return f
}

// check applies every rule that reads the database alone, in the order of the interface.
func (s *Service) check(r Request, f facts) (parsed, error) {
	p, _, err := s.checkRules(r, f)
	if err != nil {
		return p, err
	}
	paying := ledger.CustomerOwner(r.CustomerID).SpendingAccount(f.orgID, p.from.ID)
	if f.balances[paying].Balance.Less(p.amountIn) {
		return p, newInsufficient(p.from)
	}
	return p, nil
}

// checkRules applies the rules but that about the balance, which the hold decides.
func (s *Service) checkRules(r Request, f facts) (p parsed, settings org.Settings, err error) {
	if settings, err = f.loadSettings(); err != nil {
		return p, settings, err
	}
	if err := checkEnabled(settings); err != nil {
		return p, settings, err
	}
	if err := f.checkFrozen(); err != nil {
		return p, settings, err
	}
	if p, err = s.parse(r, *f.mints, settings); err != nil {
		return p, settings, err
	}
	return p, settings, f.checkStopped(p.from)
}

// swapWallets are the wallets that a swap needs.
type swapWallets struct{ delivery, refund, treasury wallet.Wallet }

// issueWallets returns the wallets of a swap. They follow from its id, so a repeated call finds them. Rule
// SWAP-6.
func (s *Service) issueWallets(ctx context.Context, orgID, swapID string, p parsed) (w swapWallets, err error) {
	found, err := s.Wallets.Addresses(ctx,
		signer.WalletRef{OrgID: orgID, Family: p.from.Chain.Family(), Purpose: wallet.Treasury},
		deliveryRef(orgID, swapID, p.to.Chain), refundRef(orgID, swapID, p.from.Chain))
	if err != nil {
		return w, fmt.Errorf("wallets of swap %s: %w", swapID, err)
	}
	return swapWallets{treasury: found[0], delivery: found[1], refund: found[2]}, nil
}

func deliveryRef(orgID, swapID string, destination chain.Name) signer.WalletRef {
	return signer.WalletRef{OrgID: orgID, Family: destination.Family(), Purpose: wallet.SwapDelivery, Subject: swapID}
}

func refundRef(orgID, swapID string, source chain.Name) signer.WalletRef {
	return signer.WalletRef{OrgID: orgID, Family: source.Family(), Purpose: wallet.SwapRefund, Subject: swapID}
}

// firmOffer is a signed offer that passed every check, with what follows from it.
type firmOffer struct {
	judgedOffer
	payee  chain.Address // the deposit address, in the form of its chain
	minOut money.Amount
	payBy  time.Time
}

// takeOffer asks for a firm quote of the best provider and checks it. If it fails, the next provider is
// asked. Rule SWAP-9.
func (s *Service) takeOffer(
	ctx context.Context, p parsed, offers []judgedOffer, w swapWallets, swapID string,
) (firmOffer, error) {
	var refusal error
	for _, offer := range offers {
		ask := s.newAsk(p, w.delivery.Address, w.refund.Address, s.DB.Clock()(), swapID)
		firm, err := s.Panel.Firm(ctx, offer.Provider, ask)
		failpoint.Hit("Q03")
		if err == nil {
			var taken firmOffer
			if taken, err = s.checkFirm(ctx, p, ask, offer.withFirm(firm), w); err == nil {
				return taken, nil
			}
		}
		if ctx.Err() != nil {
			return firmOffer{}, ctx.Err()
		}
		s.Log.WarnContext(ctx, "swap: no firm offer", "swap", swapID, "provider", offer.Provider, "error", err)
		refusal = s.chooseRefusal(ctx, refusal, err)
	}
	return firmOffer{}, refusal
}

// checkFirm checks of a signed offer what the panel cannot know: its price, the time that the payment
// has, and that its deposit address belongs to the provider alone.
func (s *Service) checkFirm(
	ctx context.Context, p parsed, ask provider.Ask, offer judgedOffer, w swapWallets,
) (taken firmOffer, err error) {
	if err := s.checkPrice(offer.second, ask, offer.Offer, p.from, p.to); err != nil {
		return taken, err
	}
	if err := offer.checkKept(ask.SlippageBps); err != nil {
		return taken, err
	}
	taken = firmOffer{judgedOffer: offer, minOut: offer.MinAmountOut}
	if taken.minOut.Less(p.minOut) {
		taken.minOut = p.minOut
	}
	now, window := s.DB.Clock()(), s.conf.payWindow(p.from.Chain)
	taken.payBy = now.Add(window).UTC().Truncate(time.Microsecond)
	latest := offer.Signed.Deadline.Add(-settleMargin(p.from.Chain))
	if latest.Before(taken.payBy) {
		taken.payBy = latest.UTC().Truncate(time.Microsecond)
	}
	if latest.Before(now.Add(min(payWindowLeast, window))) {
		return taken, provider.Unavailable("its offer ends at %s, which leaves no time to pay",
			offer.Signed.Deadline.Format(time.RFC3339))
	}
	codec := s.Chains.AddressCodec(p.from.Chain.Family())
	if taken.payee, err = codec.Parse(offer.Signed.DepositAddress); err != nil {
		return taken, provider.Malformed("its deposit address: %v", err)
	}
	problem, err := s.checkDepositAddress(ctx, p.from, taken.payee, w.delivery.Subject)
	if err != nil {
		return taken, err
	}
	if codec.IsUnspendable(taken.payee) {
		problem = "it is an address that no one can spend from"
	}
	if problem != "" {
		return taken, s.rejectAddress(ctx, offer.Provider, taken.payee, problem)
	}
	return taken, nil
}

// addressOfAnother is why a deposit address that was given out before cannot be taken.
const addressOfAnother = "it is that of another swap"

// rejectAddress suspends a provider for a deposit address that it cannot have. Error: provider.ErrUntrusted.
func (s *Service) rejectAddress(ctx context.Context, providerName string, payee chain.Address, problem string) error {
	if err := s.Suspend(ctx, providerName, "its deposit address "+string(payee)+": "+problem); err != nil {
		return err
	}
	return fmt.Errorf("%w: its deposit address %s: %s", provider.ErrUntrusted, payee, problem)
}

// checkDepositAddress returns why an address cannot be a deposit address of a provider, or "".
func (s *Service) checkDepositAddress(
	ctx context.Context, source mint.Mint, payee chain.Address, swapID string,
) (problem string, err error) {
	var owned map[chain.Address]bool
	var mints *mint.Catalogue
	codec := s.Chains.AddressCodec(source.Chain.Family())
	var isUsed bool
	err = s.DB.ReadSystemBatch(ctx, func(b *pgx.Batch) {
		pg.QueueKeyPlans(b)
		owned = wallet.QueueOwned(b, source.Chain.Family(), payee)
		mints = mint.QueueAll(b)
		b.Queue(`SELECT EXISTS (SELECT FROM swaps WHERE from_chain = $1 AND deposit_address = $2 AND swap_id <> $3)`,
			source.Chain, payee, swapID).QueryRow(func(row pgx.Row) error { return row.Scan(&isUsed) })
		// A deposit swap has the address as its provider wrote it. The spellings of one address differ by the case of
		// their letters alone.
		b.Queue(`
			SELECT deposit_address FROM deposit_swaps
			WHERE origin_chain = $1 AND lower(deposit_address) = lower($2)`,
			source.Chain, payee).Query(func(rows pgx.Rows) error {
			var text string
			_, err := pgx.ForEachRow(rows, []any{&text}, func() error {
				taken, err := codec.Parse(text)
				isUsed = isUsed || err == nil && taken == payee
				return nil
			})
			return err
		})
	})
	switch {
	case err != nil:
		return "", fmt.Errorf("look for what is paid at %s: %w", payee, err)
	case owned[payee]:
		return "it is an address of this installation", nil
	case mints.IsContract(source.Chain.Family(), payee):
		return "it is the contract of a token", nil
	case isUsed:
		return addressOfAnother, nil
	}
	return "", nil
}

// terms returns what the payment of a swap buys, as the signer gets it.
func (f firmOffer) terms(p parsed, w swapWallets) *signer.SwapTerms {
	return &signer.SwapTerms{
		Provider: f.Provider, Scheme: f.Signed.Scheme, SignedQuote: f.Raw, Delivery: w.delivery.Ref(),
		Refund: w.refund.Ref(), ToMintID: p.to.ID, ToChain: p.to.Chain, ToContract: p.to.Contract,
		EstimatedOut: f.AmountOut, MinOut: f.minOut, PayBy: signer.FormatMicros(f.payBy),
	}
}

// queueSwap queues the inserts of the swap, its offer, the hold and the order, and returns the swap as they make it.
func (s *Service) queueSwap(
	b *pgx.Batch, now time.Time, orgID, swapID string, r Request, p parsed, f firmOffer, w swapWallets,
	settings org.Settings, value *money.USD,
) (Swap, error) {
	if r.Metadata == nil {
		r.Metadata = map[string]string{}
	}
	fee, err := p.amountIn.Bps(uint64(settings.SwapFeeBps))
	if err != nil {
		return Swap{}, fmt.Errorf("fee of swap %s: %w", swapID, err)
	}
	created := Swap{
		ID: swapID, OrgID: orgID, IdempotencyKey: r.IdempotencyKey, Kind: CustomerSwap, CustomerID: r.CustomerID,
		FeeBps: settings.SwapFeeBps, FeeAmount: fee, USDValue: value, Metadata: r.Metadata, digest: r.digest(),
	}
	created.begin(p, w, now)
	created.takeOffer(f)
	b.Queue(`
		INSERT INTO swaps (swap_id, org_id, customer_id, idempotency_key, key_hash, request_digest, metadata,
			from_mint_id, to_mint_id, from_chain, to_chain, amount_in, estimated_out, min_out, provider,
			deposit_address, delivery_wallet_id, refund_wallet_id, refund_fee, pay_by, expires_at,
			estimated_seconds, usd_value, fee_bps, fee_amount, status, look_at,
			created_at, updated_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22,
			$23, $24, $25, $26, NULL, $27, $27)`,
		swapID, orgID, r.CustomerID, r.IdempotencyKey, keyHash(r.IdempotencyKey), created.digest, r.Metadata, p.from.ID,
		p.to.ID, p.from.Chain, p.to.Chain, p.amountIn, created.EstimatedOut, created.MinOut, f.Provider, f.payee,
		w.delivery.ID, w.refund.ID, f.RefundFee, created.PayBy, created.ExpiresAt, created.EstimatedSeconds, value,
		settings.SwapFeeBps, fee, Pending, now)
	queueOffer(b, now, orgID, swapID, f)
	owner := ledger.CustomerOwner(r.CustomerID)
	if err := ledger.QueuePostings(b, now, newHoldPosting(orgID, swapID, owner, p.from.ID, p.amountIn)); err != nil {
		return Swap{}, fmt.Errorf("hold for swap %s: %w", swapID, err)
	}
	order := s.newOrder(orgID, swapID, owner, keyHash(r.IdempotencyKey), p, f, w)
	order.Grant = s.GrantKey.MakeGrant(order.terms, money.Zero, 0, 0, nil)
	if err := dispatch.QueueNew(b, now, order.Order); err != nil {
		return Swap{}, err
	}
	return created, audit.QueueEntries(b, now, newEntry(created, r.Actor, "requested", map[string]any{
		"provider": f.Provider, "amountIn": p.amountIn, "minOut": f.minOut, "estimatedOut": f.AmountOut,
	}))
}

// begin fills in what a new swap of either kind has.
func (w *Swap) begin(p parsed, wallets swapWallets, now time.Time) {
	w.From, w.To, w.AmountIn = shownMint(p.from), shownMint(p.to), p.amountIn
	w.Status, w.RefundReport = Pending, provider.RefundNone
	w.DeliveryWalletID, w.RefundWalletID = wallets.delivery.ID, wallets.refund.ID
	w.CreatedAt, w.UpdatedAt = now, now
}

// takeOffer fills in what a swap has from its offer. The times are those that the database can hold.
func (w *Swap) takeOffer(f firmOffer) {
	w.EstimatedOut, w.MinOut, w.Provider, w.DepositAddress = f.AmountOut, f.minOut, f.Provider, string(f.payee)
	w.EstimatedSeconds, w.refundFee = estimatedSeconds(f.Estimate), f.RefundFee
	w.PayBy, w.ExpiresAt = f.payBy, f.Signed.Deadline.UTC().Truncate(time.Microsecond)
}

// shownMint returns what a swap has of a mint.
func shownMint(m mint.Mint) mint.Mint {
	return mint.Mint{
		ID: m.ID, Chain: m.Chain, Contract: m.Contract, Symbol: m.Symbol, Name: m.Name, Decimals: m.Decimals,
	}
}

func queueOffer(b *pgx.Batch, now time.Time, orgID, swapID string, f firmOffer) {
	optional := func(v money.USD, isKnown bool) *money.USD {
		if !isKnown {
			return nil
		}
		return &v
	}
	hasValues := f.AmountInUSD != money.USD{} && f.AmountOutUSD != money.USD{}
	var pricedAt *time.Time
	if f.second.isKnown {
		pricedAt = &f.second.quotedAt
	}
	b.Queue(`
		INSERT INTO swap_offers (swap_id, org_id, scheme, deposit_address, signed_quote, provider_usd_in,
			provider_usd_out, price_in, price_out, price_source, priced_at, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`,
		swapID, orgID, string(f.Signed.Scheme), f.Signed.DepositAddress, f.Raw, optional(f.AmountInUSD, hasValues),
		optional(f.AmountOutUSD, hasValues), optional(f.second.inUSD, f.second.isKnown),
		optional(f.second.outUSD, f.second.isKnown), f.second.source, pricedAt, now)
}

func newHoldPosting(
	orgID, swapID string, owner ledger.Owner, mintID int, amount money.Amount,
) ledger.Posting {
	return ledger.Posting{
		Cause: ledger.Cause{Kind: ledger.SwapHold, ID: swapID},
		Legs: []ledger.Leg{{
			Debit: owner.SpendingAccount(orgID, mintID), Credit: owner.SwapAccount(orgID, mintID), Amount: amount,
		}},
	}
}

// orderDraft is the payment of a swap without its grant, and the terms that the grant binds it to.
type orderDraft struct {
	dispatch.Order
	terms signer.Terms
}

// newOrder returns the payment of a swap. The caller adds the grant.
func (s *Service) newOrder(
	orgID, swapID string, owner ledger.Owner, hash string, p parsed, f firmOffer, w swapWallets,
) orderDraft {
	terms := f.terms(p, w)
	return orderDraft{
		terms: signer.Terms{
			OrgID: orgID, WithdrawalID: swapID, Chain: p.from.Chain, MintID: p.from.ID, Contract: p.from.Contract,
			To: f.payee, Amount: p.amountIn, Product: owner.Product(), Swap: terms,
		},
		Order: dispatch.Order{
			ID: swapID, OrgID: orgID, Purpose: signer.SwapPayment, Chain: p.from.Chain, WalletID: w.treasury.ID,
			To: f.payee, MintID: p.from.ID, Contract: p.from.Contract, Amount: p.amountIn,
			CustomerID: owner.CustomerID(), Product: owner.Product(), KeyHash: hash, PayBy: f.payBy, Swap: terms,
		},
	}
}

// newGone returns the answer to an id that this organization does not have.
func newGone() error {
	return fault.New(fault.NotFound, fault.CodeNotFound, fault.ReadOnly, "There is no such swap.")
}
