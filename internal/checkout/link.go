package checkout

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/request"
)

// The bounds of payment links.
const (
	linkPrefix        = "plink"
	linkItemsMax      = 20
	maxCompletedMost  = 1_000_000
	afterTextRunesMax = 1000

	slugChars               = 22 // about 131 random bits
	slugLeast, slugWordMost = 4, 40
	slugAlphabet            = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
)

// LinkStatus says what an organization decided about a payment link.
type LinkStatus string

// The statuses of a payment link.
const (
	LinkActive LinkStatus = "ACTIVE"
	LinkPaused LinkStatus = "PAUSED"
	LinkEnded  LinkStatus = "ENDED" // for good
)

// LinkStatuses are the statuses of a payment link.
var LinkStatuses = []LinkStatus{LinkActive, LinkPaused, LinkEnded}

// LinkItem is a product that a payment link sells: a fixed quantity of it, or one that the payer chooses.
type LinkItem struct {
	ProductID   string `json:"productId"`
	Quantity    *int   `json:"quantity"`    // nil: the payer chooses
	QuantityMin *int   `json:"quantityMin"` // of a quantity that the payer chooses
	QuantityMax *int   `json:"quantityMax"`
}

// quantityBounds are the quantities of an item. None is possible if the first bound is greater: that of the product
// may have become smaller.
type quantityBounds struct{ min, max int }

// bounds returns the quantities of an item now.
func (item LinkItem) bounds(p Product) quantityBounds {
	bounds := quantityBounds{1, p.MaxQuantity}
	if item.Quantity != nil {
		return quantityBounds{*item.Quantity, min(*item.Quantity, p.MaxQuantity)}
	}
	if item.QuantityMin != nil {
		bounds.min = *item.QuantityMin
	}
	if item.QuantityMax != nil {
		bounds.max = min(p.MaxQuantity, *item.QuantityMax)
	}
	return bounds
}

// Link is a payment link, as its organization sees it.
type Link struct {
	ID             string
	OrgID          string
	Version        int64 // counts the changes
	Slug           string
	URL            string // "" without pages
	Status         LinkStatus
	Items          []LinkItem
	MaxCompleted   *int // nil: no limit
	CompletedCount int  // of its checkouts, those that are COMPLETED or PROCESSING
	ExpiresAt      *time.Time
	AfterText      *string // for payers, after the payment
	SuccessURL     *string
	IdempotencyKey string // "" if the caller gave none

	CreatedAt, UpdatedAt time.Time
	EndedAt              *time.Time

	digest []byte
}

// LinkState says whether a payment link sells something now.
type LinkState string

// The states of a payment link, for payers.
const (
	LinkSells       LinkState = "OPEN"
	LinkIsPaused    LinkState = "PAUSED"
	LinkIsEnded     LinkState = "ENDED"
	LinkIsExpired   LinkState = "EXPIRED"
	LinkIsSoldOut   LinkState = "SOLD_OUT"
	LinkUnavailable LinkState = "UNAVAILABLE" // one of its products is not for sale, or not like this
)

// StateAt returns the state of a link, as far as the link itself decides it. Rules CO-61 and CO-62.
func (l Link) StateAt(now time.Time) LinkState {
	switch {
	case l.Status == LinkEnded:
		return LinkIsEnded
	case l.ExpiresAt != nil && !now.Before(*l.ExpiresAt):
		return LinkIsExpired
	case l.MaxCompleted != nil && l.CompletedCount >= *l.MaxCompleted:
		return LinkIsSoldOut
	case l.Status == LinkPaused:
		return LinkIsPaused
	}
	return LinkSells
}

// LinkRequest is a payment link as the caller asks for it.
type LinkRequest struct {
	Slug           *string // nil: a random one
	Items          []LinkItem
	MaxCompleted   *int
	ExpiresAt      *time.Time
	AfterText      *string
	SuccessURL     *string
	IdempotencyKey *string // nil: each call makes another link
	Actor          audit.Actor
}

// digest hashes every parameter that makes a request another link.
func (r LinkRequest) digest() []byte {
	parts := []string{"coffer-payment-link-1"}
	number := func(name string, n *int) {
		if n != nil {
			parts = append(parts, name, strconv.Itoa(*n))
		}
	}
	for _, item := range r.Items {
		parts = append(parts, "item", item.ProductID)
		number("quantity", item.Quantity)
		number("quantityMin", item.QuantityMin)
		number("quantityMax", item.QuantityMax)
	}
	number("maxCompleted", r.MaxCompleted)
	for _, optional := range []struct {
		name  string
		value *string
	}{{"slug", r.Slug}, {"afterText", r.AfterText}, {"successUrl", r.SuccessURL}} {
		if optional.value != nil {
			parts = append(parts, optional.name, *optional.value)
		}
	}
	if r.ExpiresAt != nil {
		parts = append(parts, "expiresAt", r.ExpiresAt.UTC().Format(time.RFC3339Nano))
	}
	return request.Digest(parts...)
}

// Differs reports whether a request has other parameters than the one that made the link.
func (l Link) Differs(r LinkRequest) bool { return string(l.digest) != string(r.digest()) }

// reservedSlugs are words that a page of this service may need, or that a payer could take for one of its own.
var reservedSlugs = strings.Fields(`
	about abuse account accounts admin administrator asset assets billing blog careers checkout checkouts coffer
	cofferpay confirm console contact dashboard docs documentation download error errors example faq favicon feedback
	find health healthz help home image images index invoice invoices legal link links live login logout official
	operator options password pay payment payment-link payment-links payments payout poster pricing privacy product
	products receipt receipts refund refunds register robots search secure security settings shop sign-in sign-out
	sign-up signin signout signup sitemap static status support swap system terms test update upgrade verify wallet
	wallets webhook webhooks well-known
`)

// IsSlug reports whether a text can be the end of the address of a payment link. Any other text is answered like an
// absent one, without a query.
func IsSlug(s string) bool {
	return len(s) == slugChars && strings.Trim(s, slugAlphabet) == "" || describeSlugProblem(s) == ""
}

// describeSlugProblem says why a word cannot be the end of an address; "" for one that can.
func describeSlugProblem(word string) string {
	switch {
	case len(word) < slugLeast || len(word) > slugWordMost:
		return fmt.Sprintf("has to have %d to %d characters", slugLeast, slugWordMost)
	case strings.Trim(word, "abcdefghijklmnopqrstuvwxyz0123456789-") != "":
		return "has a character other than a-z, 0-9 and the hyphen"
	case strings.HasPrefix(word, "-") || strings.HasSuffix(word, "-"):
		return "begins or ends with a hyphen"
	case slices.Contains(reservedSlugs, word):
		return "is a reserved word"
	}
	return ""
}

// newSlug returns random characters, each of them as likely as every other.
func newSlug() string {
	const bound = 256 / len(slugAlphabet) * len(slugAlphabet)
	var slug []byte
	var random [1]byte
	for len(slug) < slugChars {
		_, _ = rand.Read(random[:]) // It never fails.
		if int(random[0]) < bound {
			slug = append(slug, slugAlphabet[int(random[0])%len(slugAlphabet)])
		}
	}
	return string(slug)
}

// FindLinkByKey returns the link of an idempotency key as it is now. Rule CO-60.
func (s *Service) FindLinkByKey(ctx context.Context, orgID, key string) (l Link, isKnown bool, err error) {
	if !request.IsKey(key) {
		return l, false, nil
	}
	err = s.DB.ReadOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) (err error) {
		l, err = loadLink(ctx, tx, `l.org_id = $1 AND `+pg.ByKey("l.key_hash", "$2"), orgID, keyHash(key))
		return err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return Link{}, false, nil
	}
	return s.completeLink(l), err == nil, err
}

// CreateLink makes a payment link that sells. isReplayed is true when the key was known; l is then the link as it is
// now. After a fault none was written. After any other error it may exist or not, and the same request resolves that if
// it has a key. Errors: faults INVALID_REQUEST, INVALID_AMOUNT, NOT_FOUND, PRODUCT_ARCHIVED. Rules CO-60 and CO-61.
func (s *Service) CreateLink(ctx context.Context, orgID string, r LinkRequest) (l Link, isReplayed bool, err error) {
	if r.IdempotencyKey != nil {
		if !request.IsKey(*r.IdempotencyKey) {
			return l, false, refuse("idempotencyKey",
				"idempotencyKey has to be 1 to %d printable ASCII characters without a space.", request.KeyBytesMax).
				WithAdvice("Send one key for each payment link that you intend.")
		}
		if l, isReplayed, err = s.FindLinkByKey(ctx, orgID, *r.IdempotencyKey); err != nil || isReplayed {
			return l, isReplayed, err
		}
	}
	if err := s.checkLinkForm(r); err != nil {
		return l, false, err
	}
	sold, err := s.loadSold(ctx, orgID, r.Items)
	if err != nil {
		return l, false, err
	}
	if err := checkLinkItems(r.Items, sold); err != nil {
		return l, false, err
	}
	if err := s.checkSellable(r.Items, sold); err != nil {
		return l, false, err
	}
	linkID := id.New(linkPrefix, s.DB.Clock()())
	slug := newSlug()
	if r.Slug != nil {
		slug = *r.Slug
	}
	items, err := json.Marshal(r.Items)
	if err != nil {
		return l, false, fmt.Errorf("encode the items of payment link %s: %w", linkID, err)
	}
	err = s.DB.InOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) (err error) {
		if err := checkLinkEnd(r.ExpiresAt, tx.Now); err != nil {
			return err
		}
		l, isReplayed, err = insertLink(ctx, tx, orgID, linkID, slug, items, r)
		return err
	})
	if pg.ViolatesConstraint(err, "payment_links_slug_once") {
		return Link{}, false, refuse("slug", "This address is taken.").WithAdvice("Choose another word, or none.")
	}
	if err != nil {
		return Link{}, false, fmt.Errorf("create payment link %s: %w", linkID, err)
	}
	return s.completeLink(l), isReplayed, nil
}

// checkLinkForm checks what needs no database.
func (s *Service) checkLinkForm(r LinkRequest) error {
	if r.Slug != nil {
		if problem := describeSlugProblem(*r.Slug); problem != "" {
			return refuse("slug", "slug %s.", problem)
		}
	}
	if len(r.Items) == 0 || len(r.Items) > linkItemsMax {
		return refuse("lineItems", "A payment link sells 1 to %d products.", linkItemsMax)
	}
	return s.checkLinkTerms(r.MaxCompleted, r.AfterText, r.SuccessURL)
}

// checkLinkTerms checks what can be changed later.
func (s *Service) checkLinkTerms(maxCompleted *int, afterText, successURL *string) error {
	if maxCompleted != nil && (*maxCompleted < 1 || *maxCompleted > maxCompletedMost) {
		return refuse("maxCompleted", "maxCompleted has to be 1 to %d, or null.", maxCompletedMost)
	}
	if afterText != nil {
		if problem := describeTextProblem(*afterText, afterTextRunesMax, true); problem != "" {
			return refuse("afterText", "afterText %s.", problem)
		}
	}
	if successURL != nil {
		if problem := describeURLProblem(*successURL, s.IsLocal); problem != "" {
			return refuse("successUrl", "successUrl %s.", problem)
		}
	}
	return nil
}

func checkLinkEnd(expiresAt *time.Time, now time.Time) error {
	if expiresAt != nil && !expiresAt.After(now) {
		return refuse("expiresAt", "expiresAt is not in the future.")
	}
	return nil
}

// sold is what a link sells, as it is now.
type sold struct {
	products []Product
	mints    mint.Catalogue
	settings Settings
	shopName string
}

func (w sold) product(productID string) (p Product, isKnown bool) {
	i := slices.IndexFunc(w.products, func(p Product) bool { return p.ID == productID })
	if i < 0 {
		return p, false
	}
	return w.products[i], true
}

func (s *Service) loadSold(ctx context.Context, orgID string, items []LinkItem) (w sold, err error) {
	ids := make([]string, len(items))
	for i, item := range items {
		ids[i] = item.ProductID
	}
	var mints *mint.Catalogue
	err = s.DB.ReadOrgBatch(ctx, orgID, func(b *pgx.Batch) {
		w.products = nil
		mints = mint.QueueAll(b)
		queueSettings(b, orgID, &w.settings)
		queueProducts(b, orgID, ids, &w.products)
		b.Queue(`SELECT name FROM organizations WHERE org_id = $1`, orgID).QueryRow(func(row pgx.Row) error {
			return row.Scan(&w.shopName)
		})
	})
	if err != nil {
		return w, fmt.Errorf("read what a payment link of %s sells: %w", orgID, err)
	}
	w.mints = *mints
	if w.settings.ShopName != "" {
		w.shopName = w.settings.ShopName
	}
	return w, nil
}

// checkLinkItems checks the quantities of a new link. Rule CO-61.
func checkLinkItems(items []LinkItem, w sold) error {
	for i, item := range items {
		p, isKnown := w.product(item.ProductID)
		if !isKnown {
			return fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten, "There is no such product.").
				WithParam("lineItems")
		}
		if slices.ContainsFunc(items[:i], func(earlier LinkItem) bool { return earlier.ProductID == item.ProductID }) {
			return refuse("lineItems", "lineItems names product %s twice.", p.ID)
		}
		if item.Quantity != nil && (item.QuantityMin != nil || item.QuantityMax != nil) {
			return refuse("lineItems",
				"Product %s has a fixed quantity, so it has neither quantityMin nor quantityMax.", p.ID)
		}
		for _, n := range []*int{item.Quantity, item.QuantityMin, item.QuantityMax} {
			if n != nil && (*n < 1 || *n > p.MaxQuantity) {
				return refuse("lineItems", "A quantity of product %s has to be 1 to %d.", p.ID, p.MaxQuantity)
			}
		}
		if bounds := item.bounds(p); bounds.min > bounds.max {
			return refuse("lineItems", "quantityMax of product %s is below its quantityMin.", p.ID)
		}
	}
	return nil
}

// checkSellable says whether the least that a payer can choose makes a checkout. Errors: those of CreateCheckout.
func (s *Service) checkSellable(items []LinkItem, w sold) error {
	var smallest []ItemRequest
	for _, item := range items {
		p, _ := w.product(item.ProductID)
		bounds := item.bounds(p)
		if bounds.min > bounds.max {
			return refuse("lineItems", "One checkout has at most %d of product %s.", p.MaxQuantity, item.ProductID)
		}
		choice := ItemRequest{ProductID: item.ProductID, Quantity: bounds.min}
		if p.PriceType == OpenPrice {
			choice.UnitPrice = new(p.MinPrice.Text())
		}
		smallest = append(smallest, choice)
	}
	r := CheckoutRequest{Items: smallest, OnePerReference: new(false)}
	_, _, err := s.newSale(r, w.products, w.mints, w.settings)
	return err
}

// insertLink writes a link, or finds the one that another request with the key made meanwhile.
func insertLink(
	ctx context.Context, tx pg.Tx, orgID, linkID, slug string, items []byte, r LinkRequest,
) (l Link, isReplayed bool, err error) {
	var hash *string
	if r.IdempotencyKey != nil {
		hash = new(keyHash(*r.IdempotencyKey))
	}
	added, err := tx.Exec(ctx, `
		INSERT INTO payment_links (link_id, org_id, version, slug, status, line_items, max_completed, expires_at,
			after_text, success_url, idempotency_key, key_hash, request_digest, created_at, updated_at)
		VALUES ($1, $2, 1, $3, 'ACTIVE', $4, $5, $6, $7, $8, $9, $10, $11, $12, $12)
		ON CONFLICT ON CONSTRAINT payment_links_key_unique DO NOTHING`,
		linkID, orgID, slug, items, r.MaxCompleted, r.ExpiresAt, r.AfterText, r.SuccessURL, r.IdempotencyKey, hash,
		r.digest(), tx.Now)
	if err != nil {
		return l, false, fmt.Errorf("insert payment link %s: %w", linkID, err)
	}
	if added.RowsAffected() == 0 {
		l, err = loadLink(ctx, tx, `l.org_id = $1 AND `+pg.ByKey("l.key_hash", "$2"), orgID, *hash)
		return l, err == nil, err
	}
	if l, err = loadLink(ctx, tx, `l.org_id = $1 AND l.link_id = $2`, orgID, linkID); err != nil {
		return l, false, err
	}
	detail := l.auditDetail()
	detail["slug"], detail["lineItems"] = l.Slug, l.Items
	return l, false, audit.Record(ctx, tx, newLinkEntry(l, r.Actor, "created", detail))
}

// resourceKindLink names payment links in the audit log.
const resourceKindLink = "PAYMENT_LINK"

func newLinkEntry(l Link, requester audit.Actor, verb string, detail map[string]any) audit.Entry {
	return audit.Entry{
		OrgID: l.OrgID, Actor: requester, Action: "payment_link." + verb, ResourceKind: resourceKindLink,
		ResourceID: l.ID, Detail: detail,
	}
}

// auditDetail returns what can be changed, each as JSON can hold it.
func (l Link) auditDetail() map[string]any {
	detail := map[string]any{"maxCompleted": nil, "expiresAt": nil, "afterText": nil, "successUrl": nil}
	if l.MaxCompleted != nil {
		detail["maxCompleted"] = *l.MaxCompleted
	}
	if l.ExpiresAt != nil {
		detail["expiresAt"] = l.ExpiresAt.UTC().Format(time.RFC3339)
	}
	if l.AfterText != nil {
		detail["afterText"] = *l.AfterText
	}
	if l.SuccessURL != nil {
		detail["successUrl"] = *l.SuccessURL
	}
	return detail
}
