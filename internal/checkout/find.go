package checkout

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/checkout/outcome"
	"github.com/cofferpay/coffer/internal/checkout/payuri"
	"github.com/cofferpay/coffer/internal/checkout/pricing"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/wallet"
)

const selectCheckouts = `
	SELECT c.checkout_id, c.org_id, c.version, c.status, c.exceptions, c.line_items, c.currency, c.due, c.need,
		c.accepted_mint_ids, c.under_bps, c.under_usd, c.over_policy, c.late_policy, c.cost_max_bps,
		c.success_url, c.cancel_url, c.customer_id, c.customer_email, c.reference, c.one_per_reference, c.metadata,
		coalesce(c.idempotency_key, ''), c.request_digest, c.seen, c.counted, c.is_extended,
		coalesce(c.decided_by, ''), coalesce(c.decided_reason, ''), c.created_at, c.updated_at, c.expires_at,
		c.cancelled_at, c.completed_at, c.link_id
	FROM checkouts c`

func scanCheckout(row pgx.CollectableRow) (c Checkout, err error) {
	var items, metadata []byte
	err = row.Scan(&c.ID, &c.OrgID, &c.Version, &c.Status, &c.Exceptions, &items, &c.Currency, &c.AmountDue, &c.Need,
		&c.AcceptedMintIDs, &c.UnderBps, &c.UnderUSD, &c.OverPolicy, &c.LatePolicy, &c.CostMaxBps,
		&c.SuccessURL, &c.CancelURL, &c.CustomerID, &c.CustomerEmail, &c.Reference, &c.OnePerReference, &metadata,
		&c.IdempotencyKey, &c.digest, &c.SeenSum, &c.Counted, &c.isExtended,
		&c.DecidedBy, &c.DecidedReason, &c.CreatedAt, &c.UpdatedAt, &c.ExpiresAt, &c.CancelledAt,
		&c.CompletedAt, &c.LinkID)
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal(items, &c.Items); err != nil {
		return c, fmt.Errorf("read the items of checkout %s: %w", c.ID, err)
	}
	if err := json.Unmarshal(metadata, &c.Metadata); err != nil {
		return c, fmt.Errorf("read the metadata of checkout %s: %w", c.ID, err)
	}
	return c, nil
}

// loadCheckout returns the checkout that a condition names, with its options and payments. Error: pgx.ErrNoRows.
func loadCheckout(ctx context.Context, tx pg.Tx, condition string, args ...any) (Checkout, error) {
	rows, err := tx.Query(ctx, selectCheckouts+` WHERE `+condition, args...)
	if err != nil {
		return Checkout{}, fmt.Errorf("read a checkout: %w", err)
	}
	c, err := pgx.CollectExactlyOneRow(rows, scanCheckout)
	if err != nil {
		return Checkout{}, fmt.Errorf("read a checkout: %w", err)
	}
	return c, loadParts(ctx, tx, &c)
}

// loadParts reads the opened options, their quotes, the payments and the newest refund of checkouts.
func loadParts(ctx context.Context, tx pg.Tx, checkouts ...*Checkout) error {
	byID, ids := map[string]*Checkout{}, make([]string, len(checkouts))
	for i, c := range checkouts {
		c.Options, c.Payments, c.Refund = nil, nil, nil
		byID[c.ID], ids[i] = c, c.ID
	}
	b := &pgx.Batch{}
	mints := mint.QueueAll(b)
	var options []storedOption
	b.Queue(`
		SELECT o.checkout_id, o.mint_id, o.reference, o.opened_at,
			w.wallet_id, w.org_id, w.family, w.purpose, w.subject, w.path, w.address, w.proof, w.form,
			coalesce(x.wallet_id, ''), coalesce(x.org_id, ''), coalesce(x.family, ''), coalesce(x.purpose, ''),
			coalesce(x.subject, ''), coalesce(x.path, ''), coalesce(x.address, ''), x.proof, coalesce(x.form, ''),
			EXISTS (SELECT FROM token_accounts a WHERE a.wallet_id = o.shared_wallet_id AND a.mint_id = o.mint_id)
		FROM checkout_options o JOIN wallets w ON w.wallet_id = o.wallet_id
		LEFT JOIN wallets x ON x.wallet_id = o.shared_wallet_id
		WHERE o.checkout_id = ANY ($1) ORDER BY o.opened_at, o.mint_id`, ids).Query(func(rows pgx.Rows) (err error) {
		options, err = pgx.CollectRows(rows, scanOption)
		return err
	})
	quotes := map[optionKey][]pricing.Quote{}
	b.Queue(`
		SELECT checkout_id, mint_id, seq, amount, price, currency_price, source, priced_at, covers, valid_from,
			expires_at
		FROM checkout_quotes WHERE checkout_id = ANY ($1)
		ORDER BY checkout_id, mint_id, seq`, ids).Query(func(rows pgx.Rows) error {
		var key optionKey
		var q pricing.Quote
		_, err := pgx.ForEachRow(rows, []any{
			&key.checkoutID, &key.mintID, &q.Seq, &q.Amount, &q.Rate.Price, &q.Rate.CurrencyPrice, &q.Rate.Source,
			&q.Rate.PricedAt, &q.Covers, &q.ValidFrom, &q.ExpiresAt,
		}, func() error {
			quotes[key] = append(quotes[key], q)
			return nil
		})
		return err
	})
	var payments []storedPayment
	b.Queue(selectPayments+` WHERE p.checkout_id = ANY ($1) ORDER BY p.seen_at, p.deposit_id`, ids).
		Query(func(rows pgx.Rows) (err error) {
			payments, err = pgx.CollectRows(rows, scanPayment)
			return err
		})
	var refunds []Refund
	b.Queue(selectNewestRefunds, ids).Query(func(rows pgx.Rows) (err error) {
		refunds, err = pgx.CollectRows(rows, scanRefund)
		return err
	})
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("read what belongs to %d checkouts: %w", len(ids), err)
	}
	for _, o := range options {
		o.Mint, _ = mints.ByID(o.key.mintID)
		o.Quotes = quotes[o.key]
		c := byID[o.key.checkoutID]
		c.Options = append(c.Options, o.Option)
	}
	for _, p := range payments {
		if p.mintID != nil {
			if m, isKnown := mints.ByID(*p.mintID); isKnown {
				p.Mint = &m
			}
		}
		c := byID[p.CheckoutID]
		c.Payments = append(c.Payments, p.Payment)
	}
	for i := range refunds {
		byID[refunds[i].CheckoutID].Refund = &refunds[i]
	}
	return loadRefundParts(ctx, tx, refer(refunds)...)
}

type optionKey struct {
	checkoutID string
	mintID     int
}

type storedOption struct {
	Option

	key optionKey
}

func scanOption(row pgx.CollectableRow) (o storedOption, err error) {
	w, shared := &o.Wallet, wallet.Wallet{}
	err = row.Scan(&o.key.checkoutID, &o.key.mintID, &o.Ref, &o.OpenedAt,
		&w.ID, &w.OrgID, &w.Family, &w.Purpose, &w.Subject, &w.Path, &w.Address, &w.Proof, &w.Form,
		&shared.ID, &shared.OrgID, &shared.Family, &shared.Purpose, &shared.Subject, &shared.Path, &shared.Address,
		&shared.Proof, &shared.Form, &o.hasAccount)
	if shared.ID != "" {
		o.Shared = &shared
	}
	return o, err
}

const selectPayments = `
	SELECT p.deposit_id, p.checkout_id, p.mint_id, p.chain, p.amount, d.tx_hash, p.block_time, d.height, p.seen_at,
		p.was_live, p.status, coalesce(p.told_status, ''), p.moment, coalesce(p.is_accepted, false),
		coalesce(p.in_time, false), p.counts, p.quote_seq, p.price, p.currency_price, coalesce(p.price_source, ''),
		p.priced_at, p.counted, p.refunding, p.refunded
	FROM checkout_payments p JOIN deposits d ON d.deposit_id = p.deposit_id`

type storedPayment struct {
	Payment

	mintID *int
}

func scanPayment(row pgx.CollectableRow) (p storedPayment, err error) {
	var moment, pricedAt *time.Time
	var price, currencyPrice *money.USD
	var source string
	err = row.Scan(&p.DepositID, &p.CheckoutID, &p.mintID, &p.Chain, &p.Amount, &p.Tx, &p.BlockTime, &p.Height,
		&p.SeenAt, &p.WasLive, &p.Status, &p.toldStatus, &moment, &p.IsAccepted, &p.IsInTime, &p.Counts, &p.QuoteSeq,
		&price, &currencyPrice, &source, &pricedAt, &p.Counted, &p.Refunding, &p.Refunded)
	if moment != nil {
		p.Moment = *moment
	}
	if price != nil {
		p.Rate = &pricing.Rate{Price: *price, CurrencyPrice: *currencyPrice, Source: source, PricedAt: *pricedAt}
	}
	return p, err
}

func newCheckoutGone() error {
	return fault.New(fault.NotFound, fault.CodeNotFound, fault.ReadOnly, "There is no such checkout.")
}

// CheckoutByID returns a checkout as it is now. Error: fault NOT_FOUND, also for the id of another organization.
// Rule CO-27.
func (s *Service) CheckoutByID(ctx context.Context, orgID, checkoutID string) (c Checkout, err error) {
	if !id.IsValid(checkoutPrefix, checkoutID) {
		return c, newCheckoutGone()
	}
	err = s.DB.ReadOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) (err error) {
		c, err = loadCheckout(ctx, tx, `c.org_id = $1 AND c.checkout_id = $2`, orgID, checkoutID)
		return err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return Checkout{}, newCheckoutGone()
	}
	if err == nil {
		err = s.checkAddresses(c)
	}
	if err != nil {
		return Checkout{}, err
	}
	return s.complete(c), nil
}

// checkAddresses checks that the signer attested each address of a checkout for it. Rule CO-29.
func (s *Service) checkAddresses(c Checkout) error {
	for _, o := range c.Options {
		if err := s.checkOption(c, o); err != nil {
			return fmt.Errorf("show the address of mint %d of checkout %s: %w", o.Mint.ID, c.ID, err)
		}
	}
	return nil
}

func (s *Service) checkOption(c Checkout, o Option) error {
	family := o.Mint.Chain.Family()
	isOwn := func(w wallet.Wallet, purpose, subject string) bool {
		return w.OrgID == c.OrgID && w.Family == family && w.Purpose == purpose && w.Subject == subject
	}
	if !isOwn(o.Wallet, wallet.Checkout, c.ID) {
		return fmt.Errorf("its wallet is another one's: %w", wallet.ErrProof)
	}
	if err := s.Wallets.VerifyAttestation(o.Wallet); err != nil {
		return err
	}
	if o.Shared == nil {
		return nil
	}
	reference := payuri.Reference(c.OrgID, c.ID, o.Mint.ID)
	if !isOwn(*o.Shared, wallet.CheckoutShared, sharedSubject) || !bytes.Equal(o.Ref, reference[:]) {
		return fmt.Errorf("its shared wallet or its reference is another one's: %w", wallet.ErrProof)
	}
	return s.Wallets.VerifyAttestation(*o.Shared)
}

// withoutUnproven removes the options whose addresses the signer did not attest for the checkout. Events and lists tell
// of what was paid, so a row that was changed does not hold them back. Rule CO-29.
func (s *Service) withoutUnproven(c Checkout) Checkout {
	c.Options = slices.DeleteFunc(slices.Clone(c.Options), func(o Option) bool { return s.checkOption(c, o) != nil })
	return c
}

// complete adds what no row has.
func (s *Service) complete(c Checkout) Checkout {
	if s.PageURL != nil {
		c.URL = s.PageURL(c.ID)
	}
	for i := range c.Options {
		o := &c.Options[i]
		ch, isRunning := s.Chains[o.Mint.Chain]
		o.Network = ch.CAIP2
		// Without the account, wallets that follow Solana Pay fail, and others charge the payer its rent. Rule CO-139.
		needsAccount := o.Mint.Contract != "" && (!isRunning || ch.TokenAccounts != nil)
		o.TakesWallets = o.Shared != nil && (o.hasAccount || !needsAccount)
	}
	return c
}

// CheckoutFilter narrows a list of checkouts. A zero field does not narrow it.
type CheckoutFilter struct {
	Status        string
	Exception     string // one that a checkout has
	IsExceptional bool   // has any exception
	NeedsDecision bool   // waits for a person, see needsDecision
	CustomerID    string
	Reference     string
	LinkID        string
	CreatedAfter  time.Time // exclusive
	CreatedBefore time.Time // exclusive
}

// needsDecision selects the checkouts that wait for a person: screening holds a payment; or a payment was taken back
// from one that is not paid; or the time for payments is over, and something was paid that does not complete the
// checkout; or an open one was paid in a coin that it does not take. Where everything that was credited was given back,
// nothing of the last two is left to decide. A payer may still pay the rest of an open one that is paid in part. The
// text is that of the index checkouts_undecided, which serves it only while both are the same.
const needsDecision = `c.exceptions && ARRAY['FLAGGED']
	OR c.status IN ('OPEN', 'EXPIRED', 'CANCELLED') AND c.exceptions && ARRAY['REVERSED']
	OR c.status IN ('OPEN', 'EXPIRED', 'CANCELLED') AND c.exceptions && ARRAY['WRONG_TOKEN']
		AND NOT c.exceptions && ARRAY['REFUNDED']
	OR c.status IN ('EXPIRED', 'CANCELLED') AND c.exceptions && ARRAY['UNDERPAID', 'PAID_LATE']
		AND NOT c.exceptions && ARRAY['REFUNDED']`

// hasException selects the checkouts with an exception. The word is part of the text, because each one has an index of
// its own. A word that is none selects nothing.
func hasException(word string) string {
	for _, e := range outcome.Exceptions {
		if string(e) == word && e != outcome.NoException {
			return "c.exceptions && ARRAY['" + string(e) + "']"
		}
	}
	return "false"
}

func (f CheckoutFilter) query(orgID string) *pagination.Query {
	q := pagination.NewQuery(selectCheckouts+` WHERE c.org_id = ?`, orgID)
	if f.Status != "" {
		q.AddCondition("c.status = ?", f.Status)
	}
	if f.Exception != "" {
		q.AddCondition(hasException(f.Exception))
	}
	if f.IsExceptional {
		q.AddCondition("c.exceptions <> '{}'")
	}
	if f.NeedsDecision {
		q.AddCondition(needsDecision)
	}
	if f.CustomerID != "" {
		q.AddCondition("c.customer_id = ?", f.CustomerID)
	}
	if f.Reference != "" {
		q.AddCondition("c.reference = ?", f.Reference)
	}
	if f.LinkID != "" {
		q.AddCondition("c.link_id = ?", f.LinkID)
	}
	q.SetTimeRange(f.CreatedAfter, f.CreatedBefore)
	return q
}

// ListCheckouts returns a page of an organization's checkouts in the order of (creation time, id), each with its
// options and payments.
func (s *Service) ListCheckouts(
	ctx context.Context, orgID string, f CheckoutFilter, p pagination.Page,
) (page pagination.Result[Checkout], err error) {
	q := f.query(orgID)
	sql, args := q.BuildPage(p, "c.created_at", "c.checkout_id")
	err = s.DB.ReadOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, sql, pg.Planned(q.Filtered(), args)...)
		if err != nil {
			return err
		}
		found, err := pgx.CollectRows(rows, scanCheckout)
		if err != nil {
			return err
		}
		parts := make([]*Checkout, len(found))
		for i := range found {
			parts[i] = &found[i]
		}
		if err := loadParts(ctx, tx, parts...); err != nil {
			return err
		}
		for i := range found {
			// An address that is not proven is left out, and fails no list.
			found[i] = s.withoutUnproven(s.complete(found[i]))
		}
		page = pagination.CutPage(p, found, func(c Checkout) pagination.Cursor {
			return pagination.Cursor{CreatedAt: c.CreatedAt, ID: c.ID}
		})
		return nil
	})
	if err != nil {
		return page, fmt.Errorf("list the checkouts of %s: %w", orgID, err)
	}
	return page, nil
}

// CountToDecide returns how many checkouts wait for a person. It counts no further than to countMax.
func (s *Service) CountToDecide(ctx context.Context, orgID string, countMax int) (n int, err error) {
	err = s.DB.ReadOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, `
			SELECT count(*) FROM (SELECT FROM checkouts c WHERE c.org_id = $1 AND (`+needsDecision+`) LIMIT $2) found`,
			orgID, countMax).Scan(&n)
	})
	if err != nil {
		return 0, fmt.Errorf("count the checkouts of %s that wait for a person: %w", orgID, err)
	}
	return n, nil
}

// ForEachCheckout calls fn for all of an organization's checkouts that match the filter, in list order and from one
// snapshot. They have no options, payments and refund. The first error ends it.
func (s *Service) ForEachCheckout(
	ctx context.Context, orgID string, f CheckoutFilter, desc bool, fn func(Checkout) error,
) error {
	sql, args := f.query(orgID).BuildAll(desc, "c.created_at", "c.checkout_id")
	err := s.DB.SnapshotOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) error {
		return pg.ForEachRow(ctx, tx, sql, args, scanCheckout, func(c Checkout) error { return fn(s.complete(c)) })
	})
	if err != nil {
		return fmt.Errorf("read the checkouts of %s: %w", orgID, err)
	}
	return nil
}
