package checkout

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/checkout/capability"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// PublicLink is a payment link with what its page shows. Everyone who has its address may see it.
type PublicLink struct {
	Link

	ShopName string
	Settings Settings
	State    LinkState
	Goods    []PublicItem
	Currency string // "" if the products have none in common
	// Nonce lets the form of the page make one checkout; "" unless the link sells.
	Nonce string
}

// PublicItem is what a payer may see of one product of a payment link.
type PublicItem struct {
	Product Product
	// QuantityLeast and QuantityMost are the same for a quantity that the payer does not choose.
	QuantityLeast, QuantityMost int
}

// LinkChoice is what a payer chose of one product of a payment link.
type LinkChoice struct {
	ProductID string
	Quantity  int     // 0: the payer has no choice
	UnitPrice *string // of a product with an open price
}

// LinkRefusal says why a choice of a payer makes no checkout.
type LinkRefusal string

// The refusals of a choice.
const (
	// NonceRefused is for a form that is too old, or not of this link.
	NonceRefused LinkRefusal = "NONCE"
	// NonceUsed is for a form that has made another checkout already.
	NonceUsed LinkRefusal = "NONCE_USED"
	// QuantityRefused and PriceRefused are for a value outside of the bounds of its product.
	QuantityRefused LinkRefusal = "QUANTITY"
	PriceRefused    LinkRefusal = "PRICE"
	// StateRefused is for a link that sells nothing now.
	StateRefused LinkRefusal = "STATE"
	// LimitRefused is for an organization whose links have too many open checkouts.
	LimitRefused LinkRefusal = "LIMIT"
)

// The members of the details of a fault that refuses a choice.
const (
	RefusalDetail = "refusal"   // a LinkRefusal
	ProductDetail = "productId" // the product that it is about
)

func refuseChoice(kind fault.Kind, code fault.Code, refusal LinkRefusal, format string, args ...any) *fault.Fault {
	return fault.New(kind, code, fault.NothingWritten, format, args...).WithDetail(RefusalDetail, string(refusal))
}

// linkOf returns the payment link of a slug. Error: fault NOT_FOUND. The path of a page names no organization.
func (s *Service) linkOf(ctx context.Context, slug string) (l Link, err error) {
	if !IsSlug(slug) {
		return l, newLinkGone()
	}
	err = s.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		l, err = loadLink(ctx, tx, `l.slug = $1`, slug)
		return err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return Link{}, newLinkGone()
	}
	return s.completeLink(l), err
}

// PublicLink returns what the page of a payment link shows, with a nonce for its form. Error: fault NOT_FOUND. Rule
// CO-62.
func (s *Service) PublicLink(ctx context.Context, slug string) (p PublicLink, err error) {
	l, err := s.linkOf(ctx, slug)
	if err != nil {
		return p, err
	}
	w, err := s.loadSold(ctx, l.OrgID, l.Items)
	if err != nil {
		return p, err
	}
	now := s.DB.Clock()()
	p = PublicLink{Link: l, ShopName: w.shopName, Settings: w.settings, State: l.StateAt(now)}
	for i, item := range l.Items {
		product, isKnown := w.product(item.ProductID)
		if !isKnown {
			return PublicLink{}, fmt.Errorf("payment link %s sells %s, which does not exist", l.ID, item.ProductID)
		}
		bounds := item.bounds(product)
		p.Goods = append(p.Goods, PublicItem{Product: product, QuantityLeast: bounds.min, QuantityMost: bounds.max})
		if i == 0 || p.Currency == product.Currency {
			p.Currency = product.Currency
		} else {
			p.Currency = ""
		}
	}
	if p.State != LinkSells {
		return p, nil
	}
	if err := s.checkSellable(l.Items, w); err != nil {
		if fault.Find(err) == nil {
			return PublicLink{}, err
		}
		p.State = LinkUnavailable
		return p, nil
	}
	if len(s.NonceSecret) > 0 {
		p.Nonce = capability.NewNonce(s.NonceSecret, l.ID, now)
	}
	return p, nil
}

// CheckoutOfLink makes the checkout of a choice, or returns the one that the form made already: two clicks make one.
// After a fault none was made. Errors: faults NOT_FOUND, and those that have a LinkRefusal in their details. Rules
// CO-63 and CO-64.
func (s *Service) CheckoutOfLink(
	ctx context.Context, slug string, choices []LinkChoice, nonce string,
) (c Checkout, err error) {
	l, err := s.linkOf(ctx, slug)
	if err != nil {
		return c, asWritten(err)
	}
	if len(s.NonceSecret) == 0 || !capability.CheckNonce(s.NonceSecret, l.ID, nonce, s.DB.Clock()()) {
		return c, refuseChoice(fault.Invalid, fault.InvalidRequest, NonceRefused, "The form is too old.")
	}
	key := l.ID + ":" + nonce
	r := CheckoutRequest{
		SuccessURL: l.SuccessURL, OnePerReference: new(false), IdempotencyKey: &key, Actor: actor, link: &l,
	}
	earlier, isKnown, err := s.FindCheckoutByKey(ctx, l.OrgID, key)
	if err != nil {
		return c, err
	}
	w, err := s.loadSold(ctx, l.OrgID, l.Items)
	if err != nil {
		return c, err
	}
	var choiceErr error
	if r.Items, choiceErr = chooseItems(l, w, choices); isKnown {
		// The products may have changed since: what counts is that the payer chose the same.
		if choiceErr == nil && earlier.Differs(r) {
			return c, newNonceUsed()
		}
		return earlier, nil
	}
	if state := l.StateAt(s.DB.Clock()()); state != LinkSells {
		return c, refuseState(state)
	}
	if choiceErr != nil {
		return c, choiceErr
	}
	c, isReplayed, err := s.CreateCheckout(ctx, l.OrgID, r)
	switch f := fault.Find(err); {
	case f != nil && f.Details[RefusalDetail] == nil:
		// Its products are not sold like this now, which concerns the shop and not the payer.
		s.logger().InfoContext(ctx, "checkout: a payment link sells nothing", "link", l.ID, "error", err)
		return Checkout{}, refuseState(LinkUnavailable)
	case err != nil:
		return Checkout{}, err
	case isReplayed && c.Differs(r):
		return Checkout{}, newNonceUsed()
	}
	return c, nil
}

func (s *Service) logger() *slog.Logger {
	if s.Log == nil {
		return slog.Default()
	}
	return s.Log
}

func newNonceUsed() *fault.Fault {
	return refuseChoice(fault.Conflict, fault.InvalidState, NonceUsed, "The form has made another checkout.")
}

func refuseState(state LinkState) *fault.Fault {
	return refuseChoice(fault.Conflict, fault.InvalidState, StateRefused,
		"This payment link sells nothing now: %s.", state).WithDetail("state", string(state))
}

// chooseItems returns what a payer chose of every product of a link. Errors: faults with a LinkRefusal. Rule CO-64.
func chooseItems(l Link, w sold, choices []LinkChoice) (items []ItemRequest, err error) {
	for _, choice := range choices {
		if !slices.ContainsFunc(l.Items, func(item LinkItem) bool { return item.ProductID == choice.ProductID }) {
			return nil, refuseChoice(fault.Invalid, fault.InvalidRequest, StateRefused,
				"The link does not sell this product.")
		}
	}
	for _, item := range l.Items {
		p, _ := w.product(item.ProductID)
		bounds := item.bounds(p)
		chosen := LinkChoice{ProductID: item.ProductID}
		i := slices.IndexFunc(choices, func(c LinkChoice) bool { return c.ProductID == item.ProductID })
		if i >= 0 {
			chosen = choices[i]
		}
		if chosen.Quantity == 0 && bounds.min == bounds.max {
			chosen.Quantity = bounds.min
		}
		if chosen.Quantity < bounds.min || chosen.Quantity > bounds.max {
			return nil, refuseChoice(fault.Invalid, fault.InvalidRequest, QuantityRefused,
				"The quantity has to be %d to %d.", bounds.min, bounds.max).WithDetail(ProductDetail, p.ID)
		}
		request := ItemRequest{ProductID: p.ID, Quantity: chosen.Quantity}
		if p.PriceType == OpenPrice {
			request.UnitPrice = chosen.UnitPrice
		}
		if _, err := p.priceFor(request, w.mints); err != nil {
			refusal := refuseChoice(fault.Invalid, fault.InvalidAmount, PriceRefused, "The price is not possible.")
			return nil, refusal.WithDetail(ProductDetail, p.ID)
		}
		items = append(items, request)
	}
	return items, nil
}

// linkUse is what the transaction that makes a checkout of a link sees of it.
type linkUse struct {
	link        Link
	isFound     bool
	unpaidCount int
	unpaidMax   int // 0: no limit
}

// queueLinkUse reads a link so that no pause and no end overtakes the checkout, and counts what is limited.
func queueLinkUse(b *pgx.Batch, orgID string, l *Link, unpaidMax int, use *linkUse) {
	use.unpaidMax = unpaidMax
	if l == nil {
		return
	}
	b.Queue(`SELECT FROM payment_links WHERE org_id = $1 AND link_id = $2 FOR SHARE`, orgID, l.ID)
	b.Queue(selectLinks+` WHERE l.org_id = $1 AND l.link_id = $2`, orgID, l.ID).Query(func(rows pgx.Rows) (err error) {
		found, err := pgx.CollectRows(rows, scanLink)
		if use.isFound = len(found) == 1; use.isFound {
			use.link = found[0]
		}
		return err
	})
	if use.unpaidMax == 0 {
		return
	}
	b.Queue(`
		SELECT count(*) FROM (
			SELECT FROM checkouts WHERE org_id = $1 AND link_id IS NOT NULL AND status = 'OPEN' AND seen = 0 LIMIT $2
		) unpaid`, orgID, use.unpaidMax).QueryRow(func(row pgx.Row) error { return row.Scan(&use.unpaidCount) })
}

// check refuses a checkout that the link does not sell any more. Rule CO-62.
func (use linkUse) check(now time.Time) error {
	if !use.isFound {
		return asWritten(newLinkGone())
	}
	if state := use.link.StateAt(now); state != LinkSells {
		return refuseState(state)
	}
	if use.unpaidMax > 0 && use.unpaidCount >= use.unpaidMax {
		return refuseChoice(fault.Limited, fault.RateLimited, LimitRefused,
			"The payment links of this organization have %d open checkouts.", use.unpaidCount)
	}
	return nil
}

// PublicLinkImage returns an image of a product of a payment link. Error: fault NOT_FOUND.
func (s *Service) PublicLinkImage(ctx context.Context, slug, imageID string) (found Image, err error) {
	l, err := s.linkOf(ctx, slug)
	if err != nil {
		return Image{}, err
	}
	ids := make([]string, len(l.Items))
	for i, item := range l.Items {
		ids[i] = item.ProductID
	}
	err = s.DB.ReadOrg(ctx, l.OrgID, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, `
			SELECT i.media_type, i.width, i.height, i.content FROM product_images i
			WHERE i.org_id = $1 AND i.image_id = $2 AND EXISTS (
				SELECT FROM products p WHERE p.org_id = $1 AND p.product_id = ANY ($3) AND p.image_id = i.image_id)`,
			l.OrgID, imageID, ids).Scan(&found.MediaType, &found.Width, &found.Height, &found.Content)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return Image{}, fault.New(fault.NotFound, fault.CodeNotFound, fault.ReadOnly, "There is no such image.")
	}
	if err != nil {
		return Image{}, fmt.Errorf("read image %s of payment link %s: %w", imageID, l.ID, err)
	}
	return found, nil
}
