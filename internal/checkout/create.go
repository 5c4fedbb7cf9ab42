package checkout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/checkout/pricing"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/platform/failpoint"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/request"
)

// The bounds and the usual values of a checkout.
const (
	checkoutPrefix = "co"
	lineItemsMax   = 50
	openMintsMax   = 20

	ExpiresInLeast   = 5 * time.Minute
	ExpiresInMost    = 24 * time.Hour
	ExpiresInDefault = 30 * time.Minute
)

// ItemRequest is a position of a checkout as the caller asks for it.
type ItemRequest struct {
	ProductID string
	Quantity  int
	UnitPrice *string // that the payer chose, of a product with an open price
}

// AdHocItem is something that is no product.
type AdHocItem struct{ Name, Price, Currency string }

// CheckoutRequest is a checkout as the caller asks for it: either Items or AdHoc.
type CheckoutRequest struct {
	Items           []ItemRequest
	AdHoc           *AdHocItem
	CustomerID      *string // the caller's own words for the customer: no customer is made
	CustomerEmail   *string
	Reference       *string // of the caller, such as the number of an order
	ExpiresIn       *int    // seconds
	SuccessURL      *string
	CancelURL       *string
	AcceptedMintIDs []int // nil: those of the products
	OpenMintIDs     []int // the options that are opened at once, by OpenNamed
	OnePerReference *bool // nil: as the products say
	Metadata        map[string]string
	IdempotencyKey  *string // nil: each call makes another checkout
	Actor           audit.Actor

	link *Link // through which it is sold; nil for none
}

// digest hashes every parameter that makes a request another checkout. Metadata and the e-mail are none.
func (r CheckoutRequest) digest() []byte {
	parts := []string{"coffer-checkout-1", fmt.Sprint(r.AcceptedMintIDs)}
	for _, item := range r.Items {
		parts = append(parts, "item", item.ProductID, strconv.Itoa(item.Quantity))
		if item.UnitPrice != nil {
			parts = append(parts, "unitPrice", *canonicalPrice(item.UnitPrice))
		}
	}
	if r.AdHoc != nil {
		parts = append(parts, "adHoc", r.AdHoc.Name, *canonicalPrice(&r.AdHoc.Price), r.AdHoc.Currency)
	}
	for _, optional := range []struct {
		name  string
		value *string
	}{
		{"customerId", r.CustomerID},
		{"reference", r.Reference},
		{"successUrl", r.SuccessURL},
		{"cancelUrl", r.CancelURL},
	} {
		if optional.value != nil {
			parts = append(parts, optional.name, *optional.value)
		}
	}
	if r.ExpiresIn != nil {
		parts = append(parts, "expiresInSeconds", strconv.Itoa(*r.ExpiresIn))
	}
	if r.OnePerReference != nil {
		parts = append(parts, "onePerReference", strconv.FormatBool(*r.OnePerReference))
	}
	if len(r.OpenMintIDs) > 0 {
		parts = append(parts, "openMintIds", fmt.Sprint(r.OpenMintIDs))
	}
	if r.link != nil {
		parts = append(parts, "link", r.link.ID)
	}
	return request.Digest(parts...)
}

// Differs reports whether a request has other parameters than the one that made the checkout.
func (c Checkout) Differs(r CheckoutRequest) bool { return string(c.digest) != string(r.digest()) }

// FindCheckoutByKey returns the checkout of an idempotency key as it is now. Rule CO-25.
func (s *Service) FindCheckoutByKey(ctx context.Context, orgID, key string) (c Checkout, isKnown bool, err error) {
	if !request.IsKey(key) {
		return c, false, nil
	}
	// Most keys are new, so the look-up takes one round trip.
	idsByKey := map[string]string{}
	err = s.DB.ReadOrgBatch(ctx, orgID, func(b *pgx.Batch) {
		clear(idsByKey)
		queueKnownKeys(b, orgID, []string{keyHash(key)}, idsByKey)
	})
	checkoutID := idsByKey[keyHash(key)]
	if err != nil || checkoutID == "" {
		return c, false, err
	}
	c, err = s.CheckoutByID(ctx, orgID, checkoutID)
	return c, err == nil, err
}

// CreateCheckout makes a checkout: one row. It issues no address, asks for no price and calls no signer. isReplayed is
// true when the key was known; c is then the checkout as it is now. After a fault none was written. After any other
// error it may exist or not, and the same request resolves that if it has a key. Errors: faults INVALID_REQUEST,
// INVALID_AMOUNT, MINT_NOT_FOUND, NOT_FOUND, PRODUCT_ARCHIVED, REFERENCE_PAID, UNAVAILABLE. Rules CO-2, CO-3, CO-4 and
// CO-25.
func (s *Service) CreateCheckout(
	ctx context.Context, orgID string, r CheckoutRequest,
) (c Checkout, isReplayed bool, err error) {
	if r.IdempotencyKey != nil && !request.IsKey(*r.IdempotencyKey) {
		return c, false, refuse("idempotencyKey",
			"idempotencyKey has to be 1 to %d printable ASCII characters without a space.", request.KeyBytesMax).
			WithAdvice("Send one key for each checkout that you intend.")
	}
	expiresIn, err := s.checkForm(r)
	if err != nil {
		if r.IdempotencyKey != nil { // What a key has made comes before what is wrong with a request.
			made, isKnown, lookErr := s.FindCheckoutByKey(ctx, orgID, *r.IdempotencyKey)
			if lookErr != nil || isKnown {
				return made, isKnown, lookErr
			}
		}
		return c, false, err
	}
	made, err := s.submit(ctx, orgID, &creation{
		request: r, expiresIn: expiresIn, checkoutID: s.newID(checkoutPrefix),
	})
	switch {
	case err == nil && made.knownID == "":
		failpoint.Hit("C01")
		return s.complete(made.checkout), false, nil
	case err == nil || pg.ViolatesConstraint(err, "checkouts_key_unique"):
		// The key has made one, or another request with it was first.
		c, isReplayed, err = s.FindCheckoutByKey(ctx, orgID, *r.IdempotencyKey)
		if err == nil && !isReplayed {
			err = fmt.Errorf("checkout %s was not inserted, and no checkout has its key", made.checkoutID)
		}
		return c, isReplayed, err
	case pg.ViolatesConstraint(err, "checkouts_reference_once"):
		return c, false, s.refuseReference(ctx, orgID, *r.Reference)
	}
	return c, false, err
}

// newID returns an id that nothing has yet.
func (s *Service) newID(prefix string) string {
	if s.NewID != nil {
		return s.NewID(prefix, s.DB.Clock()())
	}
	return id.New(prefix, s.DB.Clock()())
}

func (r CheckoutRequest) productIDs() []string {
	ids := make([]string, len(r.Items))
	for i, item := range r.Items {
		ids[i] = item.ProductID
	}
	return ids
}

// refuseReference names the checkout that has a reference already. Rule CO-4.
func (s *Service) refuseReference(ctx context.Context, orgID, reference string) error {
	var existingID string
	err := s.DB.ReadOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, `
			SELECT checkout_id FROM checkouts WHERE org_id = $1 AND reference = $2 AND one_per_reference
				AND status IN ('OPEN', 'PROCESSING', 'COMPLETED')`, orgID, reference).Scan(&existingID)
	})
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("look for the checkout of a reference: %w", err)
	}
	return fault.New(fault.Conflict, fault.ReferencePaid, fault.NothingWritten,
		"Another checkout of this reference is open or paid, and one checkout is allowed for each.").
		WithAdvice("Show the payer the existing checkout, or cancel it first.").
		WithParam("reference").WithExtra("existingId", existingID)
}

// checkForm checks what needs no database.
func (s *Service) checkForm(r CheckoutRequest) (expiresIn time.Duration, err error) {
	switch {
	case (r.AdHoc == nil) == (len(r.Items) == 0):
		return 0, refuse("lineItems", "A checkout needs either products, or a name, a price and a currency.")
	case len(r.Items) > lineItemsMax:
		return 0, refuse("lineItems", "A checkout has at most %d items.", lineItemsMax)
	case len(r.OpenMintIDs) > openMintsMax:
		return 0, refuse("openMintIds", "openMintIds names at most %d mints.", openMintsMax)
	}
	expiresIn = ExpiresInDefault
	if r.ExpiresIn != nil {
		if *r.ExpiresIn < int(ExpiresInLeast/time.Second) || *r.ExpiresIn > int(ExpiresInMost/time.Second) {
			return 0, refuse("expiresInSeconds", "expiresInSeconds has to be %d to %d.",
				int(ExpiresInLeast/time.Second), int(ExpiresInMost/time.Second))
		}
		expiresIn = time.Duration(*r.ExpiresIn) * time.Second
	}
	if r.CustomerID != nil {
		if err := customer.CheckID(*r.CustomerID); err != nil {
			return 0, asWritten(err)
		}
	}
	if r.CustomerEmail != nil {
		if err := customer.CheckEmail(*r.CustomerEmail); err != nil {
			return 0, asWritten(err)
		}
	}
	for _, link := range []struct {
		param string
		url   *string
	}{{"successUrl", r.SuccessURL}, {"cancelUrl", r.CancelURL}} {
		if link.url == nil {
			continue
		}
		if problem := describeURLProblem(*link.url, s.IsLocal); problem != "" {
			return 0, refuse(link.param, "%s %s.", link.param, problem)
		}
	}
	return expiresIn, request.CheckHandles(r.Reference, r.Metadata, fault.NothingWritten)
}

// newSale fixes the terms of sale of a request. It is pure. Rules CO-2, CO-3 and CO-4.
func (s *Service) newSale(
	r CheckoutRequest, products []Product, mints mint.Catalogue, settings Settings,
) (sale Sale, onePerReference bool, err error) {
	sale = Sale{
		CostMaxBps: settings.CostMaxBps, OverPolicy: CreditSurplus,
		LatePolicy: AcceptLate, UnderBps: DefaultUnderpaymentToleranceBps, SuccessURL: r.SuccessURL,
		CancelURL: r.CancelURL,
	}
	if r.AdHoc != nil {
		err = sale.addAdHoc(*r.AdHoc, r.AcceptedMintIDs, mints)
	} else {
		onePerReference, err = sale.addProducts(r.Items, products, mints)
	}
	if err != nil {
		return Sale{}, false, err
	}
	if r.OnePerReference != nil {
		onePerReference = *r.OnePerReference
	}
	if onePerReference && r.Reference == nil {
		return Sale{}, false, refuse("reference", "A checkout that is the only one of its reference needs a reference.")
	}
	if r.AcceptedMintIDs != nil && r.AdHoc == nil {
		err := sale.narrow(r.AcceptedMintIDs)
		if err == nil {
			err = sale.checkCurrency(mints)
		}
		if err != nil {
			return Sale{}, false, err
		}
	}
	for i, mintID := range r.OpenMintIDs {
		if !slices.Contains(sale.AcceptedMintIDs, mintID) || slices.Contains(r.OpenMintIDs[:i], mintID) {
			return Sale{}, false, refuse("openMintIds",
				"openMintIds has to name accepted mints, each once: mint %d is not.", mintID)
		}
	}
	if sale.Currency == USD {
		sale.UnderUSD = settings.UnderUSD
	}
	sale.Need = pricing.Need(sale.AmountDue, sale.UnderBps, sale.UnderUSD, pricing.Par)
	return sale, onePerReference, nil
}

// addAdHoc makes the terms of something that is no product. Its mints are those that the request names, or all that
// take deposits.
func (sale *Sale) addAdHoc(item AdHocItem, accepted []int, mints mint.Catalogue) error {
	if accepted == nil {
		for _, m := range mints.List(mint.Filter{}) {
			if m.DepositEnabled && !m.Quarantined {
				accepted = append(accepted, m.ID)
			}
		}
	}
	d := NewDraft()
	d.Name, d.PriceType, d.Price, d.AcceptedMintIDs = item.Name, FixedPrice, &item.Price, accepted
	if item.Currency != "" {
		d.Currency = item.Currency
	}
	t, err := checkDraft(d, nil, mints, false)
	if err != nil {
		return err
	}
	sale.Items = []LineItem{{Name: t.Name, UnitPrice: t.Price.Text(), Quantity: 1}}
	sale.Currency, sale.AmountDue, sale.AcceptedMintIDs = t.Currency, *t.Price, t.AcceptedMintIDs
	return nil
}

// addProducts makes the terms of products. Where several products differ, the terms that favor a decision by a person
// apply, and what all of them accept.
func (sale *Sale) addProducts(
	items []ItemRequest, products []Product, mints mint.Catalogue,
) (onePerReference bool, err error) {
	counts := map[string]int{}
	for n, item := range items {
		i := slices.IndexFunc(products, func(p Product) bool { return p.ID == item.ProductID })
		if i < 0 {
			return false, fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten,
				"There is no such product.").WithParam("productId")
		}
		p := products[i]
		if p.Status == Archived {
			return false, fault.New(fault.Conflict, fault.ProductArchived, fault.NothingWritten,
				"Product %s is archived and not for sale.", p.ID).
				WithAdvice("Put it on sale again, or sell another one.").WithParam("productId")
		}
		unitPrice, err := p.priceFor(item, mints)
		if err != nil {
			return false, err
		}
		if counts[p.ID] += item.Quantity; counts[p.ID] > p.MaxQuantity {
			return false, refuse("quantity", "A checkout has at most %d of product %s.", p.MaxQuantity, p.ID)
		}
		sum, err := unitPrice.Mul(uint64(item.Quantity))
		if err == nil && n > 0 {
			sum, err = sale.AmountDue.Add(sum)
		}
		if err != nil || len(sum.Text()) > priceDigitsMax+1 {
			return false, fault.New(fault.Invalid, fault.InvalidAmount, fault.NothingWritten,
				"The amount due has more than %d digits.", priceDigitsMax).WithParam("lineItems")
		}
		sale.AmountDue = sum
		sale.Items = append(sale.Items, LineItem{
			ProductID: p.ID, Name: p.Name, ImageID: p.ImageID, UnitPrice: unitPrice.Text(), Quantity: item.Quantity,
		})
		if n == 0 {
			sale.Currency, sale.AcceptedMintIDs = p.Currency, p.AcceptedMintIDs
			sale.UnderBps = p.UnderpaymentToleranceBps
		} else if sale.Currency != p.Currency {
			return false, refuse("lineItems", "The products have prices in %s and %s; one checkout has one currency.",
				sale.Currency, p.Currency)
		}
		sale.AcceptedMintIDs = slices.DeleteFunc(slices.Clone(sale.AcceptedMintIDs), func(mintID int) bool {
			return !slices.Contains(p.AcceptedMintIDs, mintID)
		})
		sale.UnderBps = min(sale.UnderBps, p.UnderpaymentToleranceBps)
		if p.OverpaymentPolicy == RefundLinkSurplus {
			sale.OverPolicy = RefundLinkSurplus
		}
		// A person who has to decide about one product decides about all of them.
		if p.LatePaymentPolicy == HoldLate || p.LatePaymentPolicy == RefundLinkLate && sale.LatePolicy != HoldLate {
			sale.LatePolicy = p.LatePaymentPolicy
		}
		if sale.SuccessURL == nil {
			sale.SuccessURL = p.SuccessURL
		}
		if sale.CancelURL == nil {
			sale.CancelURL = p.CancelURL
		}
		onePerReference = onePerReference || p.OnePerReference
	}
	if len(sale.AcceptedMintIDs) == 0 {
		return false, refuse("lineItems", "The products have no accepted mint in common.")
	}
	return onePerReference, sale.checkCurrency(mints)
}

// checkCurrency refuses a currency that no accepted mint has any more.
func (sale *Sale) checkCurrency(mints mint.Catalogue) error {
	if sale.Currency == USD {
		return nil
	}
	for _, mintID := range sale.AcceptedMintIDs {
		if m, _ := mints.ByID(mintID); m.Symbol == sale.Currency {
			return nil
		}
	}
	return refuse("acceptedMintIds", "No accepted mint is %s, in which the amount due is.", sale.Currency)
}

// priceFor returns the price of one piece, which the payer chooses if the price is open.
func (p Product) priceFor(item ItemRequest, mints mint.Catalogue) (Price, error) {
	if item.Quantity < 1 || item.Quantity > p.MaxQuantity {
		return Price{}, refuse("quantity", "quantity of product %s has to be 1 to %d.", p.ID, p.MaxQuantity)
	}
	if p.PriceType == FixedPrice {
		if item.UnitPrice != nil {
			return Price{}, refuse("unitPrice", "Product %s has a fixed price.", p.ID).
				WithAdvice("Leave unitPrice out.")
		}
		return *p.Price, nil
	}
	if item.UnitPrice == nil {
		return Price{}, refuse("unitPrice", "Product %s has an open price: unitPrice has to be %s to %s %s.", p.ID,
			p.MinPrice.Show(p.Currency), p.MaxPrice.Show(p.Currency), p.Currency)
	}
	decimals, _ := p.currencyDecimals(mints)
	chosen, err := parsePriceField("unitPrice", *item.UnitPrice, p.Currency, decimals)
	if err != nil {
		return Price{}, err
	}
	if chosen.Cmp(*p.MinPrice) < 0 || chosen.Cmp(*p.MaxPrice) > 0 {
		return Price{}, fault.New(fault.Invalid, fault.InvalidAmount, fault.NothingWritten,
			"unitPrice has to be %s to %s %s.", p.MinPrice.Show(p.Currency), p.MaxPrice.Show(p.Currency), p.Currency).
			WithParam("unitPrice")
	}
	return chosen, nil
}

// narrow keeps only those accepted mints that a request names.
func (sale *Sale) narrow(named []int) error {
	for i, mintID := range named {
		if !slices.Contains(sale.AcceptedMintIDs, mintID) || slices.Contains(named[:i], mintID) {
			return refuse("acceptedMintIds",
				"acceptedMintIds of a checkout has to name mints that its products accept, each once: mint %d is not.",
				mintID)
		}
	}
	if len(named) == 0 {
		return refuse("acceptedMintIds", "acceptedMintIds has to name at least one mint, or has to be left out.")
	}
	sale.AcceptedMintIDs = slices.Clone(named)
	return nil
}

func queueProducts(b *pgx.Batch, orgID string, ids []string, products *[]Product) {
	ids = slices.DeleteFunc(slices.Clone(ids), func(productID string) bool { return !id.IsValid(idPrefix, productID) })
	if len(ids) == 0 {
		return
	}
	b.Queue(selectProducts+` WHERE p.org_id = $1 AND p.product_id = ANY ($2)`, orgID, ids).
		Query(func(rows pgx.Rows) (err error) {
			*products, err = pgx.CollectRows(rows, scanProduct)
			return err
		})
}

func queueInsert(b *pgx.Batch, c Checkout) error {
	items, err := json.Marshal(c.Items)
	if err != nil {
		return fmt.Errorf("encode the items of checkout %s: %w", c.ID, err)
	}
	var key, hash *string
	if c.IdempotencyKey != "" {
		key, hash = &c.IdempotencyKey, new(keyHash(c.IdempotencyKey))
	}
	b.Queue(`
		INSERT INTO checkouts (checkout_id, org_id, version, line_items, currency, due, need, accepted_mint_ids,
			under_bps, under_usd, over_policy, late_policy, cost_max_bps, success_url, cancel_url, customer_id,
			customer_email, reference, one_per_reference, metadata, idempotency_key, key_hash, request_digest,
			created_at, status, expires_at, updated_at, link_id)
		VALUES ($1, $2, 1, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22,
			$23, 'OPEN', $24, $23, $25)`,
		c.ID, c.OrgID, items, c.Currency, c.AmountDue, c.Need, c.AcceptedMintIDs, c.UnderBps, c.UnderUSD,
		c.OverPolicy, c.LatePolicy, c.CostMaxBps, c.SuccessURL, c.CancelURL, c.CustomerID, c.CustomerEmail, c.Reference,
		c.OnePerReference, c.Metadata, key, hash, c.digest, c.CreatedAt, c.ExpiresAt, c.LinkID)
	return nil
}
