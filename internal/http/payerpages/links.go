package payerpages

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/go-chi/chi/v5"

	"github.com/cofferpay/coffer/internal/http/pages/ui"
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
	if others := len(p.Goods) - 1; others > 0 {
		name += " +" + strconv.Itoa(others)
	}
	return name
}

// frame returns the document of the page. It never changes by itself: a payer chooses on it.
func (p *linkPage) frame() frame {
	return frame{
		Language: p.language, Accent: cleanAccent(p.Accent), IsLocal: p.IsLocal, Title: p.title() + " · " + p.Shop,
		LanguageLinks: languageLinks(p.request, "", []string{}),
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
		target := request{checkoutID: sale.CheckoutID, base: prefix + sale.CheckoutID, language: r.language, isNamed: r.isNamed}
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

// showPoster serves a page for a printer: what is sold, and the QR code of the address. It stands by itself: no script,
// no style and no font of it is loaded. Rule CO-67.
func (s *server) showPoster(r *request) error {
	view, err := s.conf.Links.Link(r.Context(), r.slug)
	if err != nil {
		return err
	}
	if view.State == LinkEnded || view.URL == "" {
		return errNoPage
	}
	picture, box, err := ui.EncodeQR(view.URL)
	if err != nil {
		return err
	}
	p := newLinkPage(r, view, nil)
	var body bytes.Buffer
	if err := posterSVG(newPoster(p, picture, box)).Render(r.Context(), &body); err != nil {
		return err
	}
	h := r.w.Header()
	h.Set("Content-Type", "image/svg+xml; charset=utf-8")
	h.Set("Content-Security-Policy", imagePolicy)
	h.Set("Content-Language", r.language.tag)
	h.Set("Vary", "Accept-Language")
	h.Set("Content-Length", strconv.Itoa(body.Len()))
	if r.Method != http.MethodHead {
		_, _ = r.w.Write(body.Bytes()) // The browser is gone.
	}
	return nil
}

// poster is a sheet of A4 with lengths in millimeters.
type poster struct {
	Language     *translation
	Lines        []posterLine
	Picture, Box string
	QRTitle      string
}

// posterLine is one line of text in the middle of the sheet.
type posterLine struct {
	Text      string
	Y, Size   string
	Weight    string
	Color     string
	Direction string
	Family    string
}

// The heights of the parts of a poster, and the widths of letters as parts of their size.
const (
	posterWidth       = 170.0 // between the margins
	posterNameSize    = 15.0
	posterNameLines   = 3
	letterWidth       = 0.56
	posterURLSize     = 7.0
	monospacedWidth   = 0.61
	posterFontFamily  = "system-ui, sans-serif"
	posterTextColor   = "#12161d"
	posterQuietColor  = "#4b5360"
	posterURLFamily   = "ui-monospace, monospace"
	posterPriceHeight = 14.0
)

func newPoster(p *linkPage, picture, box string) poster {
	sheet := poster{
		Language: p.language, Picture: picture, Box: box, QRTitle: p.text("link.qr", "url", p.URL),
	}
	add := func(text string, y, size float64, change func(*posterLine)) {
		line := posterLine{
			Text: text, Y: formatLength(y), Size: formatLength(size), Weight: "400", Color: posterTextColor,
			Direction: p.language.direction, Family: posterFontFamily,
		}
		if change != nil {
			change(&line)
		}
		sheet.Lines = append(sheet.Lines, line)
	}
	bold := func(l *posterLine) { l.Weight = "700" }
	shop := wrapText(p.Shop, lettersIn(9), 1)
	add(shop[0], 30, 9, func(l *posterLine) { l.Color = posterQuietColor })
	y := 52.0
	for _, line := range wrapText(p.title(), lettersIn(posterNameSize), posterNameLines) {
		add(line, y, posterNameSize, bold)
		y += posterNameSize * 1.2
	}
	if len(p.Goods) == 1 {
		price := wrapText(strings.ReplaceAll(p.priceText(p.Goods[0].LinkItem), "\u00a0", " "), lettersIn(11), 1)
		add(price[0], y-posterNameSize*1.2+posterPriceHeight+1, 11, nil)
	}
	add(p.text("link.scan"), 262, 10, bold)
	// An address is one line, whatever its length.
	size := min(posterURLSize, posterWidth/(monospacedWidth*float64(max(1, len(p.URL)))))
	add(p.URL, 277, size, func(l *posterLine) { l.Family, l.Direction = posterURLFamily, "ltr" })
	return sheet
}

// lettersIn returns how many letters of a size fit into a line.
func lettersIn(size float64) int { return int(posterWidth / (size * letterWidth)) }

// formatLength writes a length for the drawing.
func formatLength(n float64) string { return strconv.FormatFloat(n, 'f', 2, 64) }

// Between these are the letters of East Asian scripts, which are as wide as two.
const wideFirst, wideLast = '\u2e80', '\uffe6'

// wrapText breaks a text into lines of so many letters at most, a wide one counting for two. What is too long ends
// with an ellipsis. There is at least one line.
func wrapText(text string, lettersMax, linesMax int) []string {
	lines, line, width := []string{}, []rune{}, 0
	end := func() {
		lines, line, width = append(lines, strings.TrimSpace(string(line))), nil, 0
	}
	for _, r := range text {
		letters := 1
		switch {
		case r >= wideFirst && r <= wideLast:
			letters = 2
		case unicode.In(r, unicode.Mn, unicode.Me):
			letters = 0
		}
		if width+letters > lettersMax {
			// A word that fits into the next line goes there as a whole.
			rest := []rune{}
			if i := lastSpace(line); i > 0 && r != ' ' {
				rest, line = slices.Clone(line[i+1:]), line[:i]
			}
			end()
			line = rest
			width = len(rest)
		}
		line, width = append(line, r), width+letters
	}
	if len(line) > 0 || len(lines) == 0 {
		end()
	}
	if len(lines) > linesMax {
		lines = lines[:linesMax]
		lines[linesMax-1] += "…"
	}
	return lines
}

func lastSpace(line []rune) int {
	for i := len(line) - 1; i >= 0; i-- {
		if line[i] == ' ' {
			return i
		}
	}
	return -1
}
