package swap

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/freeze"
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
func (s *Service) create(ctx context.Context, orgID string, r Request, t turn.Turn) (Swap, error) {
	if r.Limit != nil {
		if err := r.Limit(); err != nil {
			return Swap{}, err
		}
	}
	p, err := s.check(ctx, orgID, r)
	if err != nil {
		return Swap{}, err
	}
	offers, refusal, err := s.compareAll(ctx, orgID, p)
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
		if errors.Is(err, errLimit) { // other swaps came first
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
	err = s.DB.InOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) (err error) {
		settings, err := s.lockAndCheck(ctx, tx, orgID, r)
		if err != nil {
			return err
		}
		if err := s.checkInside(ctx, tx, firm.limit); err != nil {
			return err
		}
		if err := t.End(ctx, tx); err != nil {
			return err
		}
		if created, err = s.write(ctx, tx, orgID, swapID, r, p, firm, wallets, settings, value); err != nil {
			return err
		}
		failpoint.HitBeforeCommit("Q05")
		return nil
	})
	switch {
	case errors.Is(err, ledger.ErrOverdraft):
		return Swap{}, newInsufficient(p.from)
	case err != nil:
		return Swap{}, fmt.Errorf("create swap %s: %w", swapID, err)
	}
	failpoint.Hit("Q05")
	return created, nil
}

// check applies every rule that reads the database alone, in the order of the interface, without a
// lock.
func (s *Service) check(ctx context.Context, orgID string, r Request) (p parsed, err error) {
	err = s.DB.ReadOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) error {
		settings, err := org.SettingsOf(ctx, tx, orgID)
		if err != nil {
			return fmt.Errorf("settings of %s: %w", orgID, err)
		}
		if err := checkEnabled(settings); err != nil {
			return err
		}
		if err := checkFrozen(ctx, tx, orgID, r.CustomerID); err != nil {
			return err
		}
		mints, err := mint.LoadCatalogue(ctx, tx)
		if err != nil {
			return err
		}
		if p, err = s.parse(r, mints, settings); err != nil {
			return err
		}
		if err := checkStopped(ctx, tx, orgID, r.CustomerID, p.from); err != nil {
			return err
		}
		balance, err := ledger.Balance(ctx, tx, ledger.Account{
			OrgID: orgID, MintID: p.from.ID, Kind: ledger.Customer, Subject: r.CustomerID,
		})
		if err != nil {
			return err
		}
		if balance.Less(p.amountIn) {
			return newInsufficient(p.from)
		}
		return nil
	})
	return p, err
}

// lockAndCheck checks again what may have changed since, under locks that last until the commit: a
// freeze or a switch that has committed counts.
func (s *Service) lockAndCheck(ctx context.Context, tx pg.Tx, orgID string, r Request) (org.Settings, error) {
	if err := org.LockSettingsShared(ctx, tx, orgID); err != nil {
		return org.Settings{}, err
	}
	settings, err := org.SettingsOf(ctx, tx, orgID)
	if err != nil {
		return settings, fmt.Errorf("settings of %s: %w", orgID, err)
	}
	if err := checkEnabled(settings); err != nil {
		return settings, err
	}
	if err := freeze.LockShared(ctx, tx); err != nil {
		return settings, err
	}
	if err := checkFrozen(ctx, tx, orgID, r.CustomerID); err != nil {
		return settings, err
	}
	mints, err := mint.LoadCatalogue(ctx, tx)
	if err != nil {
		return settings, err
	}
	p, err := s.parse(r, mints, settings)
	if err != nil {
		return settings, err
	}
	return settings, checkStopped(ctx, tx, orgID, r.CustomerID, p.from)
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
	err = s.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		ourWallets, err := wallet.ByAddresses(ctx, tx, source.Chain.Family(), []chain.Address{payee})
		if err != nil {
			return err
		}
		mints, err := mint.LoadCatalogue(ctx, tx)
		if err != nil {
			return err
		}
		var isUsed bool
		if err := tx.QueryRow(ctx, `
			SELECT EXISTS (SELECT FROM swaps WHERE from_chain = $1 AND deposit_address = $2 AND swap_id <> $3)`,
			source.Chain, payee, swapID).Scan(&isUsed); err != nil {
			return fmt.Errorf("look for swaps that paid %s: %w", payee, err)
		}
		switch {
		case len(ourWallets) > 0:
			problem = "it is an address of this installation"
		case mints.IsContract(source.Chain.Family(), payee):
			problem = "it is the contract of a token"
		case isUsed:
			problem = addressOfAnother
		}
		return nil
	})
	return problem, err
}

// terms returns what the payment of a swap buys, as the signer gets it.
func (f firmOffer) terms(p parsed, w swapWallets) *signer.SwapTerms {
	return &signer.SwapTerms{
		Provider: f.Provider, Scheme: f.Signed.Scheme, SignedQuote: f.Raw, Delivery: w.delivery.Ref(),
		Refund: w.refund.Ref(), ToMintID: p.to.ID, ToChain: p.to.Chain, ToContract: p.to.Contract,
		EstimatedOut: f.AmountOut, MinOut: f.minOut, PayBy: signer.FormatMicros(f.payBy),
	}
}

// write inserts the swap, its offer, the hold and the order.
func (s *Service) write(
	ctx context.Context, tx pg.Tx, orgID, swapID string, r Request, p parsed, f firmOffer, w swapWallets,
	settings org.Settings, value *money.USD,
) (Swap, error) {
	if r.Metadata == nil {
		r.Metadata = map[string]string{}
	}
	fee, err := p.amountIn.Bps(uint64(settings.SwapFeeBps))
	if err != nil {
		return Swap{}, fmt.Errorf("fee of swap %s: %w", swapID, err)
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO swaps (swap_id, org_id, customer_id, idempotency_key, key_hash, request_digest, metadata,
			from_mint_id, to_mint_id, from_chain, to_chain, amount_in, estimated_out, min_out, provider,
			deposit_address, delivery_wallet_id, refund_wallet_id, refund_fee, pay_by, expires_at,
			estimated_seconds, usd_value, fee_bps, fee_amount, status, look_at,
			created_at, updated_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22,
			$23, $24, $25, $26, $27, $28, $28)`,
		swapID, orgID, r.CustomerID, r.IdempotencyKey, keyHash(r.IdempotencyKey), r.digest(), r.Metadata, p.from.ID,
		p.to.ID, p.from.Chain, p.to.Chain, p.amountIn, f.AmountOut, f.minOut, f.Provider, f.payee, w.delivery.ID,
		w.refund.ID, f.RefundFee, f.payBy, f.Signed.Deadline, estimatedSeconds(f.Estimate), value, settings.SwapFeeBps,
		fee, Pending, nil, tx.Now)
	if err != nil {
		return Swap{}, fmt.Errorf("insert swap %s: %w", swapID, err)
	}
	if err := insertOffer(ctx, tx, orgID, swapID, f); err != nil {
		return Swap{}, err
	}
	hold := newHoldPosting(orgID, swapID, ledger.CustomerOwner(r.CustomerID), p.from.ID, p.amountIn)
	if err := ledger.Post(ctx, tx, hold); err != nil {
		return Swap{}, fmt.Errorf("hold for swap %s: %w", swapID, err)
	}
	order := s.newOrder(orgID, swapID, ledger.CustomerOwner(r.CustomerID), keyHash(r.IdempotencyKey), p, f, w)
	order.Grant = s.GrantKey.MakeGrant(order.terms, money.Zero, 0, 0, nil)
	if err := dispatch.Submit(ctx, tx, order.Order); err != nil {
		return Swap{}, err
	}
	created, err := Load(ctx, tx, orgID, swapID)
	if err != nil {
		return Swap{}, err
	}
	return created, audit.Record(ctx, tx, newEntry(created, r.Actor, "requested", map[string]any{
		"provider": f.Provider, "amountIn": p.amountIn, "minOut": f.minOut, "estimatedOut": f.AmountOut,
	}))
}

func insertOffer(ctx context.Context, tx pg.Tx, orgID, swapID string, f firmOffer) error {
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
	_, err := tx.Exec(ctx, `
		INSERT INTO swap_offers (swap_id, org_id, scheme, deposit_address, signed_quote, provider_usd_in,
			provider_usd_out, price_in, price_out, price_source, priced_at, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`,
		swapID, orgID, string(f.Signed.Scheme), f.Signed.DepositAddress, f.Raw, optional(f.AmountInUSD, hasValues),
		optional(f.AmountOutUSD, hasValues), optional(f.second.inUSD, f.second.isKnown),
		optional(f.second.outUSD, f.second.isKnown), f.second.source, pricedAt, tx.Now)
	if err != nil {
		return fmt.Errorf("insert the offer of swap %s: %w", swapID, err)
	}
	return nil
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
