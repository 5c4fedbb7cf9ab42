package checkout

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/checkout/outcome"
	"github.com/cofferpay/coffer/internal/checkout/payuri"
	"github.com/cofferpay/coffer/internal/checkout/pricing"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/failpoint"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
)

// WalletService issues the addresses of checkouts. *wallet.Service implements it. The call may be repeated after any
// error.
type WalletService interface {
	Addresses(ctx context.Context, refs ...signer.WalletRef) ([]wallet.Wallet, error)
	VerifyAttestation(w wallet.Wallet) error
}

// Costs says what networks take.
type Costs interface {
	// TransferFee returns the most that one transfer costs on a chain now, in units of its native coin; nil if no
	// provider says it, and then nothing depends on it.
	TransferFee(ctx context.Context, name chain.Name) *money.Amount
}

// OfferProblem says why a checkout cannot be paid in a mint now.
type OfferProblem string

// The problems of offers.
const (
	MintClosed   OfferProblem = "CLOSED"        // the mint takes no deposits, or its chain does not run
	NoPrice      OfferProblem = "NO_PRICE"      // nothing says what the mint is worth now
	OffPeg       OfferProblem = "OFF_PEG"       // the mint is meant to be worth a dollar, and is not
	BelowMinimum OfferProblem = "BELOW_MINIMUM" // the amount due is below the least deposit
	CostTooHigh  OfferProblem = "COST_TOO_HIGH" // collecting the payment would cost too much of it
)

// Offer is how a checkout could be paid in one mint now.
type Offer struct {
	Mint     mint.Mint
	Problem  OfferProblem // "" if it can
	Rate     pricing.Rate
	Amount   money.Amount // for what is still due
	PayerFee *money.USD   // of the network; nil: nothing says it
	IsPegged bool         // it is meant to be worth a dollar
}

const priceAgeMax = 5 * time.Minute

func (s *Service) priceAge(mintID int) time.Duration {
	if s.PriceAge != nil {
		return s.PriceAge(mintID)
	}
	return priceAgeMax
}

func (s *Service) isPegged(mintID int) bool { return s.IsPegged != nil && s.IsPegged(mintID) }

// errOffPeg says that a mint is not worth the dollar that it is meant to be worth.
var errOffPeg = errors.New("the mint is not worth a dollar now")

// priceOf returns what a mint is worth. A pegged one is worth a dollar or nothing. Errors: price.ErrUnavailable,
// errOffPeg. Rule CO-7.
func (s *Service) priceOf(ctx context.Context, mintID int) (price.Quote, error) {
	now := s.DB.Clock()()
	q, err := s.Prices.USD(ctx, mintID)
	if err == nil {
		err = price.CheckFresh(q, now, s.priceAge(mintID))
	}
	if err != nil || !s.isPegged(mintID) {
		return q, err
	}
	if !pricing.AtPar(q.Price) {
		return q, errOffPeg
	}
	q.Price = pricing.Par
	return q, nil
}

// rateOf returns what a mint is worth in the currency of a sale. Errors: those of priceOf. Rule CO-7.
func (s *Service) rateOf(ctx context.Context, sale Sale, m mint.Mint, mints mint.Catalogue) (pricing.Rate, error) {
	if m.Symbol == sale.Currency && sale.accepts(m, mints) {
		return pricing.SameCurrency(s.DB.Clock()()), nil
	}
	q, err := s.priceOf(ctx, m.ID)
	if err != nil {
		return pricing.Rate{}, err
	}
	r := pricing.Rate{Price: q.Price, CurrencyPrice: pricing.Par, Source: q.Source, PricedAt: q.QuotedAt}
	if sale.Currency == USD {
		return r, nil
	}
	currency, isKnown := sale.currencyMint(mints)
	if !isKnown {
		return r, price.ErrUnavailable
	}
	if q, err = s.priceOf(ctx, currency.ID); err != nil {
		return r, err
	}
	r.CurrencyPrice = q.Price
	if q.QuotedAt.Before(r.PricedAt) {
		r.PricedAt = q.QuotedAt
	}
	return r, nil
}

// currencyMint returns the mint by whose price the currency of a sale is valued.
func (sale Sale) currencyMint(mints mint.Catalogue) (mint.Mint, bool) {
	for _, mintID := range sale.AcceptedMintIDs {
		if m, isKnown := mints.ByID(mintID); isKnown && m.Symbol == sale.Currency {
			return m, true
		}
	}
	return mint.Mint{}, false
}

// OffersFor returns how a checkout could be paid in its accepted mints now: what can be paid first, by the fee that a
// payer pays. It asks for prices and writes nothing. Rules CO-6 and CO-7.
func (s *Service) OffersFor(ctx context.Context, c Checkout) ([]Offer, error) {
	mints, err := s.loadMints(ctx, c.OrgID)
	if err != nil {
		return nil, err
	}
	var offers []Offer
	for _, mintID := range c.AcceptedMintIDs {
		if m, isKnown := mints.ByID(mintID); isKnown {
			offers = append(offers, s.offerFor(ctx, c, m, mints))
		}
	}
	slices.SortStableFunc(offers, func(a, b Offer) int {
		if (a.Problem == "") != (b.Problem == "") {
			if a.Problem == "" {
				return -1
			}
			return 1
		}
		switch {
		case a.PayerFee == nil && b.PayerFee == nil:
			return 0
		case a.PayerFee == nil:
			return 1
		case b.PayerFee == nil:
			return -1
		}
		return a.PayerFee.Cmp(*b.PayerFee)
	})
	return offers, nil
}

// isOpen reports whether a mint takes deposits now.
func (s *Service) isOpen(m mint.Mint) bool {
	_, isRunning := s.Chains[m.Chain]
	return isRunning && m.DepositEnabled && !m.Quarantined
}

func (s *Service) offerFor(ctx context.Context, c Checkout, m mint.Mint, mints mint.Catalogue) Offer {
	o := Offer{Mint: m, IsPegged: s.isPegged(m.ID)}
	if !s.isOpen(m) {
		o.Problem = MintClosed
		return o
	}
	var err error
	switch o.Rate, err = s.rateOf(ctx, c.Sale, m, mints); {
	case errors.Is(err, errOffPeg):
		o.Problem = OffPeg
		return o
	case err != nil:
		o.Problem = NoPrice
		return o
	}
	rest := c.Remaining()
	if rest.IsZero() {
		rest = c.AmountDue
	}
	whole, err := pricing.AmountFor(c.AmountDue, m.Decimals, o.Rate, money.Zero)
	if err == nil {
		o.Amount, err = pricing.AmountFor(rest, m.Decimals, o.Rate, m.MinDeposit)
	}
	switch {
	case err != nil:
		o.Problem = NoPrice
		return o
	case whole.Less(m.MinDeposit):
		o.Problem = BelowMinimum
		return o
	}
	o.PayerFee = s.transferFee(ctx, m, mints)
	// An address of its own is emptied by one transfer. Where a chain keeps outputs, the next payment spends it.
	isCollected := !m.Chain.Family().IsUTXO()
	if isCollected && o.PayerFee != nil && !s.IsLocal {
		currencyPrice, isKnown := s.currencyPriceOf(ctx, o)
		if isKnown && isAbove(*o.PayerFee, c.AmountDue, currencyPrice, c.CostMaxBps) {
			o.Problem = CostTooHigh
		}
	}
	return o
}

// currencyPriceOf returns what one of the currency of an offer is worth in dollars. The rate of a mint in its own
// symbol does not say it.
func (s *Service) currencyPriceOf(ctx context.Context, o Offer) (usd money.USD, isKnown bool) {
	if o.Rate.Source != pricing.OwnSymbol {
		return o.Rate.CurrencyPrice, true
	}
	q, err := s.priceOf(ctx, o.Mint.ID)
	return q.Price, err == nil
}

// transferFee returns what one transfer costs on the chain of a mint now, in dollars; nil if nothing says it.
func (s *Service) transferFee(ctx context.Context, m mint.Mint, mints mint.Catalogue) *money.USD {
	native, isKnown := mints.Native(m.Chain)
	if s.Costs == nil || !isKnown {
		return nil
	}
	fee := s.Costs.TransferFee(ctx, m.Chain)
	if fee == nil {
		return nil
	}
	q, err := s.priceOf(ctx, native.ID)
	if err != nil {
		return nil
	}
	cost, err := money.ValueOf(*fee, native.Decimals, q.Price)
	if err != nil {
		return nil
	}
	return &cost
}

// newUnavailable is the answer to an option that cannot be opened.
func newUnavailable(m mint.Mint, problem OfferProblem) *fault.Fault {
	reasons := map[OfferProblem]string{
		MintClosed:   "takes no deposits now",
		NoPrice:      "has no price now",
		OffPeg:       "is not worth a dollar now",
		BelowMinimum: "has a least deposit above the amount due",
		CostTooHigh:  "would cost the shop too much to collect now",
	}
	return fault.New(fault.Unprocessable, fault.OptionUnavailable, fault.NothingWritten,
		"%s on %s %s.", m.Symbol, m.Chain, reasons[problem]).
		WithAdvice("Choose another coin, or try again later.").
		WithParam("mintId").WithDetail("reason", string(problem))
}

// newClosed is the answer to an option of a checkout whose time is over.
func newClosed(c Checkout) *fault.Fault {
	reason := "its time is over"
	if c.Status != outcome.Open {
		reason = "it is " + string(c.Status)
	}
	return fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
		"This checkout takes no new way to pay: %s.", reason).
		WithAdvice("Make a new checkout.").WithExtra("currentStatus", string(c.Status))
}

// OpenOption opens an option of a checkout: it issues the address that belongs to this checkout alone, and makes the
// first quote. An opened option stays as it is, and gets a new quote if it needs one. Errors: faults NOT_FOUND,
// INVALID_STATE, MINT_NOT_FOUND, OPTION_UNAVAILABLE. Rules CO-6, CO-7 and CO-8.
func (s *Service) OpenOption(ctx context.Context, orgID, checkoutID string, mintID int) (Checkout, error) {
	c, err := s.CheckoutByID(ctx, orgID, checkoutID)
	if err != nil {
		return Checkout{}, asWritten(err)
	}
	if _, isOpened := c.optionOf(mintID); isOpened {
		return s.Refresh(ctx, c)
	}
	if c.Status != outcome.Open || !s.DB.Clock()().Before(c.ExpiresAt) {
		return Checkout{}, newClosed(c)
	}
	mints, err := s.loadMints(ctx, orgID)
	if err != nil {
		return Checkout{}, err
	}
	m, isKnown := mints.ByID(mintID)
	if !isKnown || !slices.Contains(c.AcceptedMintIDs, mintID) {
		return Checkout{}, fault.New(fault.Invalid, fault.MintNotFound, fault.NothingWritten,
			"This checkout cannot be paid in mint %d.", mintID).WithParam("mintId")
	}
	offer := s.offerFor(ctx, c, m, mints)
	if offer.Problem != "" {
		return Checkout{}, newUnavailable(m, offer.Problem)
	}
	family := m.Chain.Family()
	refs := []signer.WalletRef{{OrgID: orgID, Family: family, Purpose: wallet.Checkout, Subject: checkoutID}}
	if family == chain.SolanaFamily {
		refs = append(refs, signer.WalletRef{
			OrgID: orgID, Family: family, Purpose: wallet.CheckoutShared, Subject: sharedSubject,
		})
	}
	wallets, err := s.Wallets.Addresses(ctx, refs...)
	if err != nil {
		return Checkout{}, fmt.Errorf("addresses of checkout %s: %w", checkoutID, err)
	}
	failpoint.Hit("C02")
	err = s.DB.InOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) error {
		err := s.insertOption(ctx, tx, c, offer, wallets)
		failpoint.HitBeforeCommit("C03")
		return err
	})
	if err != nil {
		return Checkout{}, fmt.Errorf("open mint %d for checkout %s: %w", mintID, checkoutID, err)
	}
	failpoint.Hit("C03")
	if c, err = s.CheckoutByID(ctx, orgID, checkoutID); err != nil {
		return Checkout{}, err
	}
	return s.Refresh(ctx, c) // a restored option has no quote
}

// OpenNamed opens the options that the request for a checkout named, and returns the checkout as it is then. What
// cannot be opened stays closed: the checkout exists, and OpenOption says why. So a repeated request may open what the
// first one could not. Rule CO-26.
func (s *Service) OpenNamed(ctx context.Context, c Checkout, mintIDs []int) Checkout {
	for _, mintID := range mintIDs {
		if _, isOpened := c.optionOf(mintID); isOpened || c.Status != outcome.Open {
			continue
		}
		after, err := s.OpenOption(ctx, c.OrgID, c.ID, mintID)
		if err == nil {
			c = after
			continue
		}
		var refusal *fault.Fault
		if !errors.As(err, &refusal) && s.Log != nil {
			s.Log.WarnContext(ctx, "checkout: an option was not opened", "checkout", c.ID, "mint", mintID, "error", err)
		}
	}
	return c
}

// sharedSubject is the subject of the wallet at which all checkouts of an organization are paid.
const sharedSubject = "CHECKOUT"

func (c Checkout) optionOf(mintID int) (Option, bool) {
	i := slices.IndexFunc(c.Options, func(o Option) bool { return o.Mint.ID == mintID })
	if i < 0 {
		return Option{}, false
	}
	return c.Options[i], true
}

// insertOption writes an option and its first quote, unless another request did.
func (s *Service) insertOption(ctx context.Context, tx pg.Tx, c Checkout, o Offer, wallets []wallet.Wallet) error {
	locked, err := lockCheckout(ctx, tx, c.ID)
	if err != nil {
		return err
	}
	if locked.Status != outcome.Open || !tx.Now.Before(locked.ExpiresAt) {
		return newClosed(locked)
	}
	if _, isOpened := locked.optionOf(o.Mint.ID); isOpened {
		return nil
	}
	var reference []byte
	var sharedID *string
	if len(wallets) > 1 {
		key := payuri.Reference(c.OrgID, c.ID, o.Mint.ID)
		reference, sharedID = key[:], &wallets[1].ID
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO checkout_options (checkout_id, mint_id, org_id, wallet_id, reference, shared_wallet_id, opened_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7)`,
		c.ID, o.Mint.ID, c.OrgID, wallets[0].ID, reference, sharedID, tx.Now)
	if err != nil {
		return fmt.Errorf("insert an option of checkout %s: %w", c.ID, err)
	}
	if err := insertQuote(ctx, tx, locked, Option{Mint: o.Mint}, o); err != nil {
		return err
	}
	if err := bumpVersion(ctx, tx, locked); err != nil {
		return err
	}
	return audit.Record(ctx, tx, newCheckoutEntry(locked, actor, "option_opened", map[string]any{
		"mintId": o.Mint.ID, "address": wallets[0].Address,
	}))
}

// bumpVersion tells pages that are open of a change. The checkout is locked.
func bumpVersion(ctx context.Context, tx pg.Tx, c Checkout) error {
	_, err := tx.Exec(ctx, `
		UPDATE checkouts SET version = version + 1, updated_at = greatest($2, updated_at) WHERE checkout_id = $1`,
		c.ID, tx.Now)
	if err != nil {
		return fmt.Errorf("count a change of checkout %s: %w", c.ID, err)
	}
	return nil
}

// insertQuote writes the next quote of an option, for what is still due of the locked checkout. It ends with the
// checkout. A checkout whose time is over, or of which nothing is due, gets none.
func insertQuote(ctx context.Context, tx pg.Tx, c Checkout, opened Option, o Offer) error {
	// The clocks of two processes differ, and quotes stand in their order.
	seq, validFrom := 1, tx.Now
	if newest, hasQuote := opened.Quote(); hasQuote {
		if seq = newest.Seq + 1; newest.ValidFrom.After(validFrom) {
			validFrom = newest.ValidFrom
		}
	}
	rest := c.Remaining()
	if rest.IsZero() || !validFrom.Before(c.ExpiresAt) {
		return nil
	}
	amount, err := pricing.AmountFor(rest, o.Mint.Decimals, o.Rate, o.Mint.MinDeposit)
	if err != nil {
		return fmt.Errorf("quote mint %d for checkout %s: %w", o.Mint.ID, c.ID, err)
	}
	expiresAt := c.ExpiresAt
	validity := pricing.Validity(pricing.IsSteady(o.Rate, o.IsPegged), o.Mint.Chain.Family() == chain.BitcoinFamily)
	if end := validFrom.Add(validity); validity > 0 && end.Before(expiresAt) {
		expiresAt = end
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO checkout_quotes (checkout_id, mint_id, seq, org_id, amount, price, currency_price, source,
			priced_at, covers, valid_from, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`,
		c.ID, o.Mint.ID, seq, c.OrgID, amount, o.Rate.Price, o.Rate.CurrencyPrice, o.Rate.Source, o.Rate.PricedAt, rest,
		validFrom, expiresAt)
	if err != nil {
		return fmt.Errorf("insert a quote of checkout %s: %w", c.ID, err)
	}
	return nil
}

// lockCheckout locks a checkout and returns it.
func lockCheckout(ctx context.Context, tx pg.Tx, checkoutID string) (Checkout, error) {
	_, err := tx.Exec(ctx, `SELECT FROM checkouts WHERE checkout_id = $1 FOR NO KEY UPDATE`, checkoutID)
	if err != nil {
		return Checkout{}, fmt.Errorf("lock checkout %s: %w", checkoutID, err)
	}
	c, err := loadCheckout(ctx, tx, `c.checkout_id = $1`, checkoutID)
	if errors.Is(err, pgx.ErrNoRows) {
		return Checkout{}, newCheckoutGone()
	}
	return c, err
}

// lockWithPayments is lockCheckout, and keeps the payments as they are. The walk of a chain changes their statuses
// without a lock of the checkout.
func lockWithPayments(ctx context.Context, tx pg.Tx, checkoutID string) (Checkout, error) {
	_, err := tx.Exec(ctx, `SELECT FROM checkouts WHERE checkout_id = $1 FOR NO KEY UPDATE`, checkoutID)
	if err == nil {
		_, err = tx.Exec(ctx, `
			SELECT FROM checkout_payments WHERE checkout_id = $1 ORDER BY deposit_id FOR NO KEY UPDATE`, checkoutID)
	}
	if err != nil {
		return Checkout{}, fmt.Errorf("lock checkout %s and its payments: %w", checkoutID, err)
	}
	return lockCheckout(ctx, tx, checkoutID)
}

// awaitsValue reports whether a payment waits for its value, so no one knows how much is still due.
func (c Checkout) awaitsValue() bool {
	return slices.ContainsFunc(c.Payments, func(p Payment) bool {
		return p.needsValue() && (p.Status == outcome.PaymentSeen || p.Status == outcome.PaymentCredited)
	})
}

// needsQuote reports whether an option of an open checkout has no quote for what is still due.
func (c Checkout) needsQuote(o Option, now time.Time) bool {
	if c.Status != outcome.Open || !now.Before(c.ExpiresAt) || c.Remaining().IsZero() || c.awaitsValue() {
		return false
	}
	newest, hasQuote := o.Quote()
	return !hasQuote || !now.Before(newest.ExpiresAt) || newest.Covers.Cmp(c.Remaining()) != 0
}

// Refresh makes new quotes for the opened options of an open checkout whose quotes are over, or are for another amount.
// Old quotes stay. An option without a price keeps its old quote. It returns the checkout as it is then. Rule CO-7.
func (s *Service) Refresh(ctx context.Context, c Checkout) (Checkout, error) {
	now := s.DB.Clock()()
	var fresh []Offer
	for _, o := range c.Options {
		if !c.needsQuote(o, now) || !s.isOpen(o.Mint) {
			continue
		}
		mints, err := s.loadMints(ctx, c.OrgID)
		if err != nil {
			return c, err
		}
		rate, err := s.rateOf(ctx, c.Sale, o.Mint, mints)
		if err != nil {
			continue
		}
		fresh = append(fresh, Offer{Mint: o.Mint, Rate: rate, IsPegged: s.isPegged(o.Mint.ID)})
	}
	if len(fresh) == 0 {
		return c, nil
	}
	err := s.DB.InOrg(ctx, c.OrgID, func(ctx context.Context, tx pg.Tx) error {
		locked, err := lockCheckout(ctx, tx, c.ID)
		if err != nil {
			return err
		}
		isChanged := false
		for _, offer := range fresh {
			opened, isOpened := locked.optionOf(offer.Mint.ID)
			if !isOpened || !locked.needsQuote(opened, tx.Now) {
				continue
			}
			if err := insertQuote(ctx, tx, locked, opened, offer); err != nil {
				return err
			}
			isChanged = true
		}
		if !isChanged {
			return nil
		}
		return bumpVersion(ctx, tx, locked)
	})
	if err != nil {
		return c, fmt.Errorf("quote for checkout %s: %w", c.ID, err)
	}
	return s.CheckoutByID(ctx, c.OrgID, c.ID)
}

// isAbove reports whether a cost in dollars is more than a share of an amount due.
func isAbove(cost money.USD, amountDue Price, currencyPrice money.USD, bps int) bool {
	const bpsMax = 10_000
	limit := amountDue.Rat()
	limit.Mul(limit, currencyPrice.Rat()).Mul(limit, big.NewRat(int64(bps), bpsMax))
	return cost.Rat().Cmp(limit) > 0
}
