package checkout

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/request"
)

// The bounds and the usual values of terms.
const (
	quantityMax      = 1000
	toleranceBpsMax  = 1000
	acceptedMintsMax = 200

	DefaultMaxQuantity              = 1
	DefaultUnderpaymentToleranceBps = 50
)

// Draft is a product as a caller writes it: nothing of it is checked, and prices are texts.
type Draft struct {
	Name                      string
	Description, ImageURL     *string
	PriceType, Currency       string
	Price, MinPrice, MaxPrice *string
	AcceptedMintIDs           []int
	SettlementMintID          *int
	MaxQuantity               int
	UnderpaymentToleranceBps  int
	OverpaymentPolicy         string
	LatePaymentPolicy         string
	SuccessURL, CancelURL     *string
	OnePerReference           bool
	Metadata                  map[string]string
}

// NewDraft returns a draft with the usual values of what a request may leave out.
func NewDraft() Draft {
	return Draft{
		Currency: USD, MaxQuantity: DefaultMaxQuantity, UnderpaymentToleranceBps: DefaultUnderpaymentToleranceBps,
		OverpaymentPolicy: CreditSurplus, LatePaymentPolicy: AcceptLate,
	}
}

// Nullable is a member of a change that may be null. The zero value names nothing, so the member stays.
type Nullable[T any] struct {
	IsNamed bool
	Value   *T // nil removes the value
}

// Change names what becomes different; everything else stays.
type Change struct {
	Name                      *string
	Description, ImageURL     Nullable[string]
	PriceType, Currency       *string
	Price, MinPrice, MaxPrice Nullable[string]
	AcceptedMintIDs           *[]int
	SettlementMintID          Nullable[int]
	MaxQuantity               *int
	UnderpaymentToleranceBps  *int
	OverpaymentPolicy         *string
	LatePaymentPolicy         *string
	SuccessURL, CancelURL     Nullable[string]
	OnePerReference           *bool
	Metadata                  *map[string]string // replaces all of it
	// SeenVersion is the version that the author of the change saw. A later one is not overwritten. nil: no check,
	// because the change names only what its author means.
	SeenVersion *int64
}

func replaceNamed[T any](target *T, named *T) {
	if named != nil {
		*target = *named
	}
}

func replaceNullable[T any](target **T, named Nullable[T]) {
	if named.IsNamed {
		*target = named.Value
	}
}

// applyTo returns a draft with the change.
func (ch Change) applyTo(d Draft) Draft {
	replaceNamed(&d.Name, ch.Name)
	replaceNullable(&d.Description, ch.Description)
	replaceNullable(&d.ImageURL, ch.ImageURL)
	replaceNamed(&d.PriceType, ch.PriceType)
	replaceNamed(&d.Currency, ch.Currency)
	replaceNullable(&d.Price, ch.Price)
	replaceNullable(&d.MinPrice, ch.MinPrice)
	replaceNullable(&d.MaxPrice, ch.MaxPrice)
	replaceNamed(&d.AcceptedMintIDs, ch.AcceptedMintIDs)
	replaceNullable(&d.SettlementMintID, ch.SettlementMintID)
	replaceNamed(&d.MaxQuantity, ch.MaxQuantity)
	replaceNamed(&d.UnderpaymentToleranceBps, ch.UnderpaymentToleranceBps)
	replaceNamed(&d.OverpaymentPolicy, ch.OverpaymentPolicy)
	replaceNamed(&d.LatePaymentPolicy, ch.LatePaymentPolicy)
	replaceNullable(&d.SuccessURL, ch.SuccessURL)
	replaceNullable(&d.CancelURL, ch.CancelURL)
	replaceNamed(&d.OnePerReference, ch.OnePerReference)
	replaceNamed(&d.Metadata, ch.Metadata)
	return d
}

// Replace returns the change that makes a product what a draft says, its image included.
func Replace(d Draft) Change {
	return Change{
		Name: &d.Name, Description: Nullable[string]{true, d.Description}, ImageURL: Nullable[string]{true, d.ImageURL},
		PriceType: &d.PriceType, Currency: &d.Currency, Price: Nullable[string]{true, d.Price},
		MinPrice: Nullable[string]{true, d.MinPrice}, MaxPrice: Nullable[string]{true, d.MaxPrice},
		AcceptedMintIDs: &d.AcceptedMintIDs, SettlementMintID: Nullable[int]{true, d.SettlementMintID},
		MaxQuantity: &d.MaxQuantity, UnderpaymentToleranceBps: &d.UnderpaymentToleranceBps,
		OverpaymentPolicy: &d.OverpaymentPolicy, LatePaymentPolicy: &d.LatePaymentPolicy,
		SuccessURL: Nullable[string]{true, d.SuccessURL}, CancelURL: Nullable[string]{true, d.CancelURL},
		OnePerReference: &d.OnePerReference, Metadata: &d.Metadata,
	}
}

// Draft returns the terms as a caller would write them.
func (t Terms) Draft() Draft {
	text := func(p *Price) *string {
		if p == nil {
			return nil
		}
		return new(p.Text())
	}
	return Draft{
		Name: t.Name, Description: t.Description, ImageURL: t.ImageURL, PriceType: t.PriceType, Currency: t.Currency,
		Price: text(t.Price), MinPrice: text(t.MinPrice), MaxPrice: text(t.MaxPrice),
		AcceptedMintIDs: t.AcceptedMintIDs, SettlementMintID: t.SettlementMintID, MaxQuantity: t.MaxQuantity,
		UnderpaymentToleranceBps: t.UnderpaymentToleranceBps, OverpaymentPolicy: t.OverpaymentPolicy,
		LatePaymentPolicy: t.LatePaymentPolicy, SuccessURL: t.SuccessURL, CancelURL: t.CancelURL,
		OnePerReference: t.OnePerReference, Metadata: t.Metadata,
	}
}

// refuse makes the answer to a member of a request that is wrong.
func refuse(param, format string, args ...any) *fault.Fault {
	return fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten, format, args...).WithParam(param)
}

// checkDraft returns the terms of a draft, or says what is wrong with it as a whole. A mint that was accepted before
// may have closed since; a new one has to take deposits. Errors: faults INVALID_REQUEST, INVALID_AMOUNT,
// MINT_NOT_FOUND. Rules PROD-2, PROD-3, PROD-4, PROD-5 and PROD-6.
func checkDraft(d Draft, acceptedBefore []int, mints mint.Catalogue, isLocal bool) (Terms, error) {
	t := Terms{
		Name: d.Name, Description: d.Description, ImageURL: d.ImageURL, PriceType: d.PriceType, Currency: d.Currency,
		AcceptedMintIDs: d.AcceptedMintIDs, SettlementMintID: d.SettlementMintID, MaxQuantity: d.MaxQuantity,
		UnderpaymentToleranceBps: d.UnderpaymentToleranceBps, OverpaymentPolicy: d.OverpaymentPolicy,
		LatePaymentPolicy: d.LatePaymentPolicy, SuccessURL: d.SuccessURL, CancelURL: d.CancelURL,
		OnePerReference: d.OnePerReference, Metadata: d.Metadata,
	}
	if err := t.checkTexts(isLocal); err != nil {
		return Terms{}, err
	}
	if err := t.checkMints(acceptedBefore, mints); err != nil {
		return Terms{}, err
	}
	if err := t.readPrices(d, mints); err != nil {
		return Terms{}, err
	}
	return t, t.checkNumbers()
}

func (t *Terms) checkTexts(isLocal bool) error {
	if problem := describeTextProblem(t.Name, nameRunesMax, false); problem != "" {
		return refuse("name", "name %s.", problem)
	}
	if t.Description != nil {
		if problem := describeTextProblem(*t.Description, descriptionRunesMax, true); problem != "" {
			return refuse("description", "description %s.", problem)
		}
	}
	for _, link := range []struct {
		param string
		url   *string
	}{{"imageUrl", t.ImageURL}, {"successUrl", t.SuccessURL}, {"cancelUrl", t.CancelURL}} {
		if link.url == nil {
			continue
		}
		if problem := describeURLProblem(*link.url, isLocal); problem != "" {
			return refuse(link.param, "%s %s.", link.param, problem)
		}
	}
	for _, word := range []struct {
		param, value string
		words        []string
	}{
		{"priceType", t.PriceType, PriceTypes},
		{"overpaymentPolicy", t.OverpaymentPolicy, OverpaymentPolicies},
		{"latePaymentPolicy", t.LatePaymentPolicy, LatePaymentPolicies},
	} {
		if !slices.Contains(word.words, word.value) {
			return refuse(word.param, "%s has to be %s.", word.param, strings.Join(word.words, " or "))
		}
	}
	return request.CheckMetadata(t.Metadata, fault.NothingWritten)
}

// checkMints checks what a product is paid in. Rule PROD-4.
func (t *Terms) checkMints(acceptedBefore []int, mints mint.Catalogue) error {
	const param = "acceptedMintIds"
	if len(t.AcceptedMintIDs) == 0 || len(t.AcceptedMintIDs) > acceptedMintsMax {
		return refuse(param, "acceptedMintIds has to name 1 to %d mints.", acceptedMintsMax).
			WithStep(fault.ListMints)
	}
	for i, mintID := range t.AcceptedMintIDs {
		m, isKnown := mints.ByID(mintID)
		switch {
		case !isKnown:
			return request.NewUnknownMint(mintID, fault.NothingWritten).WithParam(param)
		case slices.Contains(t.AcceptedMintIDs[:i], mintID):
			return refuse(param, "acceptedMintIds names mint %d twice.", mintID)
		case (!m.DepositEnabled || m.Quarantined) && !slices.Contains(acceptedBefore, mintID):
			return refuse(param, "Mint %d takes no deposits now.", mintID).WithStep(fault.ListMints)
		}
	}
	if t.SettlementMintID != nil && !slices.Contains(t.AcceptedMintIDs, *t.SettlementMintID) {
		return refuse("settlementMintId", "settlementMintId has to be one of acceptedMintIds, or null.")
	}
	return nil
}

// currencyDecimals returns how many fraction digits a price may have: those of the coarsest accepted mint of the
// currency, so that every one of them can express the price.
func (t *Terms) currencyDecimals(mints mint.Catalogue) (decimals int, isKnown bool) {
	if t.Currency == USD {
		return usdDecimals, true
	}
	for _, mintID := range t.AcceptedMintIDs {
		m, _ := mints.ByID(mintID)
		if m.Symbol != t.Currency {
			continue
		}
		if !isKnown || m.Decimals < decimals {
			decimals = m.Decimals
		}
		isKnown = true
	}
	return decimals, isKnown
}

// readPrices reads the prices of a draft. Rules PROD-2 and PROD-3.
func (t *Terms) readPrices(d Draft, mints mint.Catalogue) error {
	decimals, isKnown := t.currencyDecimals(mints)
	if !isKnown {
		return refuse("currency", "currency has to be USD or the symbol of one of acceptedMintIds.")
	}
	for _, price := range []struct {
		param    string
		text     *string
		target   **Price
		isNeeded bool
	}{
		{"price", d.Price, &t.Price, d.PriceType == FixedPrice},
		{"minPrice", d.MinPrice, &t.MinPrice, d.PriceType == OpenPrice},
		{"maxPrice", d.MaxPrice, &t.MaxPrice, d.PriceType == OpenPrice},
	} {
		switch {
		case price.text == nil && price.isNeeded:
			return refuse(price.param, "A product with priceType %s needs %s.", d.PriceType, price.param)
		case price.text == nil:
			continue
		case !price.isNeeded:
			return refuse(price.param, "A product with priceType %s has no %s.", d.PriceType, price.param).
				WithAdvice("Send null for it, or leave it out of a new product.")
		}
		parsedPrice, err := parsePriceField(price.param, *price.text, t.Currency, decimals)
		if err != nil {
			return err
		}
		*price.target = &parsedPrice
	}
	if t.PriceType == OpenPrice && t.MaxPrice.Cmp(*t.MinPrice) < 0 {
		return refuse("maxPrice", "maxPrice is below minPrice.")
	}
	return nil
}

func parsePriceField(param, text, currency string, decimals int) (Price, error) {
	invalid := func(format string, args ...any) *fault.Fault {
		return fault.New(fault.Invalid, fault.InvalidAmount, fault.NothingWritten, format, args...).WithParam(param)
	}
	p, err := ParsePrice(text, decimals)
	switch {
	case errors.Is(err, money.ErrFraction):
		return p, invalid("%s has more than %d digits after the point, which %s does not have; the service never "+
			"rounds.", param, min(decimals, priceScale), currency)
	case errors.Is(err, money.ErrRange):
		return p, invalid("%s has more than %d digits.", param, priceDigitsMax)
	case err != nil:
		return p, invalid("%s is not a decimal number such as \"49.99\". Use ASCII digits with at most one point, and "+
			"no sign, exponent, separator or leading zero.", param)
	case p.IsZero():
		return p, invalid("%s is zero.", param).WithAdvice("Give a price above zero.")
	}
	return p, nil
}

// checkNumbers checks what bounds a checkout. Rule PROD-5.
func (t *Terms) checkNumbers() error {
	if t.MaxQuantity < 1 || t.MaxQuantity > quantityMax {
		return refuse("maxQuantity", "maxQuantity has to be 1 to %d.", quantityMax)
	}
	if t.UnderpaymentToleranceBps < 0 || t.UnderpaymentToleranceBps > toleranceBpsMax {
		return refuse("underpaymentToleranceBps", "underpaymentToleranceBps has to be 0 to %d basis points.",
			toleranceBpsMax)
	}
	return nil
}

// digest hashes every parameter that makes a request another product. Metadata is none.
func (d Draft) digest() []byte {
	parts := []string{
		"coffer-product-1", d.Name, d.PriceType, d.Currency, strconv.Itoa(d.MaxQuantity),
		strconv.Itoa(d.UnderpaymentToleranceBps), d.OverpaymentPolicy, d.LatePaymentPolicy,
		strconv.FormatBool(d.OnePerReference),
	}
	for _, optional := range []struct {
		name  string
		value *string
	}{
		{"description", d.Description},
		{"imageUrl", d.ImageURL},
		{"price", canonicalPrice(d.Price)},
		{"minPrice", canonicalPrice(d.MinPrice)},
		{"maxPrice", canonicalPrice(d.MaxPrice)},
		{"successUrl", d.SuccessURL},
		{"cancelUrl", d.CancelURL},
	} {
		if optional.value != nil {
			parts = append(parts, optional.name, *optional.value)
		}
	}
	if d.SettlementMintID != nil {
		parts = append(parts, "settlementMintId", strconv.Itoa(*d.SettlementMintID))
	}
	return request.Digest(append(parts, "acceptedMintIds", fmt.Sprint(d.AcceptedMintIDs))...)
}

// canonicalPrice writes a price in one way: 50.00 and 50 are the same parameter.
func canonicalPrice(text *string) *string {
	if text == nil {
		return nil
	}
	if p, err := ParsePrice(*text, priceScale); err == nil {
		return new(p.Text())
	}
	return text
}
