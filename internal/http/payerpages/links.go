package payerpages

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/go-chi/chi/v5"
)

// LinkPrefix begins the paths of payment links.
const LinkPrefix = "/p/"

// Links is what the pages of payment links need of the feature. The methods return faults for what a payer may see, and
// other errors for what went wrong here.
type Links interface {
	// Link returns what everyone may see who has the address of a link, with a nonce for one form. Error: the fault
	// NOT_FOUND.
	Link(ctx context.Context, slug string) (LinkView, error)
	// Buy makes the checkout of a form, and returns the same one for the same form. A problem says why it made none.
	// Error: the fault NOT_FOUND.
	Buy(ctx context.Context, slug, nonce string, choices []Choice) (Sale, *LinkProblem, error)
	// LinkImage returns an image of a product of this link. Error: the fault NOT_FOUND.
	LinkImage(ctx context.Context, slug, imageID string) (mediaType string, content []byte, err error)
}

// LinkState says whether a payment link sells something now.
type LinkState string

// States of payment links.
const (
	LinkOpen        LinkState = "OPEN"
	LinkPaused      LinkState = "PAUSED"
	LinkEnded       LinkState = "ENDED"
	LinkExpired     LinkState = "EXPIRED"
	LinkSoldOut     LinkState = "SOLD_OUT"
	LinkUnavailable LinkState = "UNAVAILABLE"
)

// LinkView is everything that a page shows of a payment link. Everyone sees it who has the address, so the type has no
// count, no text for those who paid, and no other field of the organization.
type LinkView struct {
	Slug     string
	URL      string // whole, for the poster
	State    LinkState
	ShopName string
	Accent   string
	Items    []LinkItem
	Currency string
	Nonce    string
	IsLocal  bool
	// EmbedOrigins are the origins whose pages may show this one in a frame.
	EmbedOrigins []string
}

// LinkItem is one product of a payment link. Prices are figures in the currency of the link.
type LinkItem struct {
	ProductID          string
	Name               string
	Description        string
	ImageID            string
	QuantityLeast      int // the same as QuantityMost if there is no choice
	QuantityMost       int
	UnitPrice          string // "" for a price that the payer chooses
	PriceMin, PriceMax string
}

// hasQuantity reports whether the payer chooses the quantity.
func (i LinkItem) hasQuantity() bool { return i.QuantityMost > i.QuantityLeast }

// hasOpenPrice reports whether the payer chooses the price.
func (i LinkItem) hasOpenPrice() bool { return i.UnitPrice == "" }

// Choice is what a payer chose of one product.
type Choice struct {
	ProductID string
	Quantity  int     // 0: the payer has no choice; -1: it is no number
	UnitPrice *string // of a product with an open price
}

// Sale is the checkout that a form has made. The key allows actions on it; it is "" if there is none.
type Sale struct{ CheckoutID, Key string }

// ProblemKind says why a form makes no checkout.
type ProblemKind string

// Kinds of problems.
const (
	NonceProblem     ProblemKind = "NONCE"      // the form is too old, or not of this link
	NonceUsedProblem ProblemKind = "NONCE_USED" // it has made another checkout
	QuantityProblem  ProblemKind = "QUANTITY"
	PriceProblem     ProblemKind = "PRICE"
	StateProblem     ProblemKind = "STATE" // the link sells nothing now
	LimitProblem     ProblemKind = "LIMIT" // the shop has too many open checkouts
)

// LinkProblem is why a form makes no checkout.
type LinkProblem struct {
	Kind      ProblemKind
	ProductID string // of QuantityProblem and PriceProblem
}

// status returns the status of the answer to a form with the problem.
func (p LinkProblem) status() int {
	switch p.Kind {
	case StateProblem, NonceUsedProblem:
		return http.StatusConflict
	case LimitProblem:
		return http.StatusTooManyRequests
	}
	return http.StatusBadRequest
}

// Names in the form of a payment link.
const (
	nonceName    = "nonce"
	quantityName = "quantity-" // with the position of the item behind it
	priceName    = "price-"
)

// priceBytesMax is longer than every price.
const priceBytesMax = 60

// linkPage is the page of a payment link with what a template needs of it.
type linkPage struct {
	LinkView
	request  *request
	language *translation
	Shop     string
	Goods    []linkGood
	Problem  *LinkProblem
}

// linkGood is one product on the page, with what the payer has entered.
type linkGood struct {
	LinkItem
	Index             int
	Lines             []string // of the description
	Quantity, Price   string
	isQuantityProblem bool
	isPriceProblem    bool
}

func newLinkPage(r *request, view LinkView, problem *LinkProblem) *linkPage {
	p := &linkPage{LinkView: view, request: r, language: r.language, Shop: cleanName(view.ShopName), Problem: problem}
	for i, item := range view.Items {
		g := linkGood{LinkItem: item, Index: i, Quantity: strconv.Itoa(item.QuantityLeast)}
		g.Name = cleanName(item.Name)
		for line := range strings.SplitSeq(item.Description, "\n") {
			g.Lines = append(g.Lines, cleanText(line, descriptionRunesMax))
		}
		if text := r.PostForm.Get(quantityName + strconv.Itoa(i)); text != "" && len(text) <= priceBytesMax {
			g.Quantity = text
		}
		if text := r.PostForm.Get(priceName + strconv.Itoa(i)); len(text) <= priceBytesMax {
			g.Price = text
		}
		if problem != nil && problem.ProductID == item.ProductID {
			g.isQuantityProblem, g.isPriceProblem = problem.Kind == QuantityProblem, problem.Kind == PriceProblem
		}
		p.Goods = append(p.Goods, g)
	}
	return p
}

// text returns a text of the page, with the values that many texts have.
func (p *linkPage) text(key string, values ...string) string {
	return p.language.text(key, append([]string{"shop", p.Shop}, values...)...)
}

// money writes a figure with the currency of the link.
func (p *linkPage) money(figure string) string { return figure + "\u00a0" + p.Currency }

// priceText says what a product costs, or between which prices the payer chooses.
func (p *linkPage) priceText(item LinkItem) string {
	switch {
	case item.hasOpenPrice() && item.PriceMin == item.PriceMax:
		return p.money(item.PriceMin)
	case item.hasOpenPrice():
		return p.text("link.bounds", "least", item.PriceMin, "most", p.money(item.PriceMax))
	case item.hasQuantity():
		return p.text("link.each", "price", p.money(item.UnitPrice))
	case item.QuantityLeast > 1:
		return p.text("order.quantity", "quantity", strconv.Itoa(item.QuantityLeast), "price", p.money(item.UnitPrice))
	}
	return p.money(item.UnitPrice)
}

// quantityBounds says between which quantities the payer chooses.
func (p *linkPage) quantityBounds(item LinkItem) string {
	return p.text("link.bounds", "least", strconv.Itoa(item.QuantityLeast), "most", strconv.Itoa(item.QuantityMost))
}

// imagePath returns the path of the image of a product.
func (p *linkPage) imagePath(item LinkItem) string {
	return LinkPrefix + p.Slug + "/images/" + url.PathEscape(item.ImageID)
}

// title returns what the link sells: the name of its first product, and how many there are.
func (p *linkPage) title() string {
	if len(p.Goods) == 0 {
		return p.Shop
	}
	name := p.Goods[0].Name
	if rest := len(p.Goods) - 1; rest > 0 {
		name += " +" + strconv.Itoa(rest)
	}
	return name
}

// frame returns the document of the page. It never changes by itself: a payer chooses on it.
func (p *linkPage) frame() frame {
	return frame{
		Language: p.language, Accent: cleanAccent(p.Accent), IsLocal: p.IsLocal, Title: p.title() + " · " + p.Shop,
		LanguageLinks: languageLinks(p.request, "", []string{}), EmbedOrigins: p.EmbedOrigins,
	}
}

// closedKey names the text that says why the link sells nothing; "" while it sells.
func (p *linkPage) closedKey() string {
	switch {
	case p.Problem != nil && p.Problem.Kind == LimitProblem:
		return "link.LIMIT"
	case p.Problem != nil && p.Problem.Kind == StateProblem && p.State == LinkOpen:
		return "link." + string(LinkUnavailable) // A moment ago it sold nothing.
	case p.State != LinkOpen || p.Nonce == "":
		if p.State == LinkOpen {
			return "link." + string(LinkUnavailable)
		}
		return "link." + string(p.State)
	}
	return ""
}

func (s *server) showLink(r *request) error {
	view, err := s.conf.Links.Link(r.Context(), r.slug)
	if err != nil {
		return err
	}
	p := newLinkPage(r, view, nil)
	s.write(r, http.StatusOK, p.frame(), linkMain(p))
	return nil
}

// buy makes the checkout of a form and leads to its page. A second click leads to the same page. A choice that is not
// possible is refused on the page itself, with a new nonce. Rules CO-63 and CO-64.
func (s *server) buy(r *request) error {
	if err := r.ParseForm(); err != nil {
		return errBadForm
	}
	view, err := s.conf.Links.Link(r.Context(), r.slug)
	if err != nil {
		return err
	}
	sale, problem, err := s.conf.Links.Buy(r.Context(), r.slug, r.PostForm.Get(nonceName), readChoices(r, view))
	if err != nil {
		return err
	}
	if problem == nil {
		target := request{base: prefix + sale.CheckoutID, language: r.language, isNamed: r.isNamed}
		path := target.link("")
		if sale.Key != "" {
			path += "#" + sale.Key
		}
		http.Redirect(r.w, r.Request, path, http.StatusSeeOther)
		return nil
	}
	if problem.Kind == StateProblem {
		// The page shows the state of now.
		if view, err = s.conf.Links.Link(r.Context(), r.slug); err != nil {
			return err
		}
	}
	if problem.Kind == LimitProblem {
		r.w.Header().Set("Retry-After", "600")
	}
	p := newLinkPage(r, view, problem)
	s.write(r, problem.status(), p.frame(), linkMain(p))
	return nil
}

// readChoices reads what a payer chose of each product that has a choice.
func readChoices(r *request, view LinkView) (choices []Choice) {
	for i, item := range view.Items {
		c := Choice{ProductID: item.ProductID}
		if item.hasQuantity() {
			c.Quantity = -1
			if n := readMint(strings.TrimSpace(r.PostForm.Get(quantityName + strconv.Itoa(i)))); n > 0 {
				c.Quantity = n
			}
		}
		if item.hasOpenPrice() {
			c.UnitPrice = new(readPrice(r.PostForm.Get(priceName + strconv.Itoa(i))))
		}
		choices = append(choices, c)
	}
	return choices
}

// readPrice reads a price as people write it: many write the cents behind a comma. A comma with three digits behind it
// may mean thousands, so such a text stays as it is, and is refused.
func readPrice(text string) string {
	text = strings.TrimSpace(text)
	if len(text) > priceBytesMax {
		return ""
	}
	whole, fraction, hasComma := strings.Cut(text, ",")
	if hasComma && len(fraction) >= 1 && len(fraction) <= 2 && !strings.ContainsAny(whole+fraction, ".,") {
		return whole + "." + fraction
	}
	return text
}

func (s *server) showLinkImage(r *request) error {
	mediaType, content, err := s.conf.Links.LinkImage(r.Context(), r.slug, chi.URLParam(r.Request, "imageId"))
	if err != nil {
		return err
	}
	return writeImage(r, mediaType, content)
}
