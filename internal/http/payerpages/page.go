package payerpages

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/http/pages/ui"
)

// frame is a whole document.
type frame struct {
	Language      *translation
	Title         string
	Assets        assets
	Main          templ.Component
	LivePath      string // "" for a page that does not change by itself
	SelfPath      string // of the page that is loaded again
	Announcement  string // what a screen reader hears when the page has changed
	Reload        bool   // without scripts, the page loads itself again
	StillLink     string // switches that off, or on again; "" where it never does
	Accent        string
	IsLocal       bool
	LanguageLinks []languageLink
	EmbedOrigins  []string // which may show the page in a frame
	HasClaim      bool     // the page of a refund, with the script of its own
	ClaimPath     string   // of that page
	HoldsKey      bool     // the document has a key in it
}

type languageLink struct {
	Tag, Name, Path string
	IsCurrent       bool
}

// languageLinks returns the links to a page in each language.
func languageLinks(r *request, path string, values []string) []languageLink {
	links := make([]languageLink, 0, len(languages))
	for _, l := range languages {
		translated := *r
		translated.language, translated.isNamed = l, true
		target := path + "?" + languageParameter + "=" + l.tag
		if values != nil {
			target = translated.link(path, values...)
		}
		links = append(links, languageLink{Tag: l.tag, Name: l.name, Path: target, IsCurrent: l == r.language})
	}
	return links
}

// reloadSeconds is how often a page without scripts loads itself again. Rule CO-43.
const reloadSeconds = "15"

// tone says how a state looks. Its icon and its words say the same.
type tone string

const (
	plain tone = "plain"
	wait  tone = "wait"
	good  tone = "good"
	bad   tone = "bad"
)

// story says what happened to the money, above everything else on the page. Rule CO-41.
type story struct {
	Tone          tone
	Heading, Text string
	Figure        string // the amount that is due, if that is the heading of the page
}

// step is one of the three steps of a payment.
type step struct {
	Name            string
	IsDone, Current bool
}

// checkoutPage is the page of a checkout with what a template needs of it.
type checkoutPage struct {
	View
	request  *request
	language *translation
	Shop     string
	Items    []Item
	Story    story
	Notes    []story
	Steps    []step
	Chosen   *Option // whose panel the page shows
	Refusal  string
	// Offered are the options that can be chosen; Refused are the others.
	Offered, Refused []Option
	// CanPay says that the page offers ways to pay; MayWait that another payment is likely a mistake.
	CanPay, MayWait bool
	IsStill         bool // without scripts, the page does not load itself again
	Exit            shopLink
	AfterLines      []string // what the shop tells who has paid
	Cases           []string // which payers can be played; none on every network but LOCAL
}

// shopLink leads back to the shop.
type shopLink struct {
	URL, Text string
	IsPrimary bool
}

// hasException reports whether the checkout has an exception.
func (p *checkoutPage) hasException(e Exception) bool { return slices.Contains(p.Exceptions, e) }

// hasPayment reports whether a payment has a property.
func (p *checkoutPage) hasPayment(property func(Payment) bool) bool {
	return slices.ContainsFunc(p.Payments, property)
}

// text returns a text of the page, with the values that many texts have.
func (p *checkoutPage) text(key string, values ...string) string {
	return p.language.text(key, append([]string{
		"shop", p.Shop, "due", p.money(p.AmountDue), "paid", p.money(p.AmountPaid),
		"remaining", p.money(p.AmountRemaining), "surplus", p.money(p.AmountSurplus),
	}, values...)...)
}

// money writes a figure with the currency of the checkout.
func (p *checkoutPage) money(figure string) string { return figure + "\u00a0" + p.Currency }

// newCheckoutPage works out what the page of a checkout shows. The mint is that of the chosen option, or 0.
func newCheckoutPage(r *request, view View, mintID int) *checkoutPage {
	p := &checkoutPage{View: view, request: r, language: r.language, Shop: cleanName(view.ShopName)}
	p.IsStill = r.URL.Query().Get(stillName) != ""
	for _, item := range view.Items {
		item.Name = cleanName(item.Name)
		p.Items = append(p.Items, item)
	}
	p.CanPay = view.Status == Open
	p.MayWait = p.hasException(Flagged) || p.hasPayment(func(payment Payment) bool {
		return payment.IsWaitingForPrice || payment.Status == PaymentSeen && !p.hasException(Underpaid)
	})
	for _, option := range view.Options {
		// An open option whose quote still holds can be paid, even if it would not be offered anew.
		switch {
		case option.Reason == Available, option.IsOpen && option.Amount != "":
			p.Offered = append(p.Offered, option)
		default:
			p.Refused = append(p.Refused, option)
		}
	}
	if p.CanPay {
		p.Chosen = p.choose(mintID)
	}
	p.Story, p.Notes = p.tell()
	p.Steps = p.listSteps()
	p.Exit = p.leadBack()
	if view.Status == Completed && view.AfterText != "" {
		for line := range strings.SplitSeq(view.AfterText, "\n") {
			p.AfterLines = append(p.AfterLines, cleanText(line, descriptionRunesMax))
		}
	}
	return p
}

// choose returns the option whose panel is shown: that of the mint, or the only one if it is open.
func (p *checkoutPage) choose(mintID int) *Option {
	for i, option := range p.Offered {
		isOnly := mintID == 0 && len(p.Offered) == 1
		if option.IsOpen && option.Amount != "" && (option.MintID == mintID || isOnly) {
			return &p.Offered[i]
		}
	}
	return nil
}

// tell says what happened to the money: first what counts most, then everything else that is known.
// Rule CO-130.
func (p *checkoutPage) tell() (main story, notes []story) {
	say := func(t tone, key string) story {
		return story{Tone: t, Heading: p.text(key), Text: p.text(key + ".text")}
	}
	note := func(t tone, key string) { notes = append(notes, story{Tone: t, Text: p.text(key)}) }
	isWaitingForPrice := p.hasPayment(func(payment Payment) bool { return payment.IsWaitingForPrice })
	isLateTold := false
	switch {
	case p.hasException(Flagged) && p.Status != Completed:
		main = say(wait, "state.flagged")
	case p.Status == Completed:
		main = say(good, "state.completed")
	case p.Status == Processing:
		main = say(good, "state.processing")
	case (p.Status == Expired || p.Status == Cancelled) && p.hasException(PaidLate):
		main, isLateTold = say(wait, "state.late"), true
	case p.Status == Expired:
		main = say(bad, "state.expired")
	case p.Status == Cancelled:
		main = say(bad, "state.cancelled")
	case p.hasException(Underpaid):
		main = say(wait, "state.underpaid")
	case isWaitingForPrice:
		main, isWaitingForPrice = say(wait, "state.valuing"), false
	default:
		main = story{Tone: plain, Heading: p.text("state.open"), Figure: p.AmountDue}
	}
	if p.Status == Expired && p.hasException(Underpaid) {
		main.Tone = wait
		main.Text = p.text("state.expired.part")
	}
	if p.hasException(Overpaid) && p.AmountSurplus != "" {
		note(wait, "note.overpaid")
	}
	if p.hasException(Reversed) {
		note(bad, "note.reversed")
	}
	if p.hasException(WrongToken) {
		note(wait, "note.wrongToken")
	}
	if p.hasException(Refunded) {
		note(good, "note.refunded")
	}
	if p.hasException(PaidLate) && !isLateTold && p.Status != Completed {
		note(wait, "note.late")
	}
	if isWaitingForPrice {
		note(wait, "note.valuing")
	}
	if main.Figure != "" && p.MayWait {
		note(wait, "note.seen")
	}
	return main, notes
}

// listSteps returns the steps with the present one. A checkout that ended unpaid has none.
func (p *checkoutPage) listSteps() []step {
	if p.Status == Expired || p.Status == Cancelled {
		return nil
	}
	current := 0
	switch {
	case p.Status != Open:
		current = 2
	case p.Chosen != nil || p.MayWait:
		current = 1
	}
	var steps []step
	for i, key := range []string{"steps.choose", "steps.pay", "steps.done"} {
		steps = append(steps, step{
			Name: p.text(key), IsDone: i < current || p.Status == Completed,
			Current: i == current,
		})
	}
	return steps
}

// leadBack returns the link to the shop. The statement of a payment goes with it as soon as there is one.
func (p *checkoutPage) leadBack() shopLink {
	isPaid := p.Status == Processing || p.Status == Completed
	switch {
	case isPaid && isShopURL(p.ReturnURL, p.IsLocal):
		return shopLink{URL: p.ReturnURL, Text: p.text("return.paid"), IsPrimary: true}
	case isPaid || !isShopURL(p.CancelURL, p.IsLocal):
		return shopLink{}
	case p.Status == Open && !p.hasException(Underpaid) && len(p.Payments) == 0:
		return shopLink{URL: p.CancelURL, Text: p.text("return.cancel")}
	}
	return shopLink{URL: p.CancelURL, Text: p.text("return.ended"), IsPrimary: p.Status != Open}
}

// isShopURL reports whether a URL of a shop may be a link. The shop's own checks allow no other scheme; this one holds
// whatever they do.
func isShopURL(address string, isLocal bool) bool {
	return strings.HasPrefix(address, "https://") || isLocal && strings.HasPrefix(address, "http://")
}

// hasReload reports whether the state of the money can still change soon.
func (p *checkoutPage) hasReload() bool {
	return p.Status == Open || p.Status == Processing || p.hasException(Flagged) || p.hasException(PaidLate)
}

// query returns the query of the page itself.
func (p *checkoutPage) query(isStill bool) (values []string) {
	values = []string{}
	if p.Chosen != nil {
		values = append(values, mintName, strconv.Itoa(p.Chosen.MintID))
	}
	if isStill {
		values = append(values, stillName, "1")
	}
	return values
}

// frame returns the document of the page.
func (p *checkoutPage) frame() frame {
	f := frame{
		Language: p.language, Accent: p.accentColor(), IsLocal: p.IsLocal, EmbedOrigins: p.EmbedOrigins,
		Title:         p.text("page.title", "amount", p.money(p.AmountDue)),
		LivePath:      p.request.link("/live", afterName, strconv.FormatInt(p.Version, 10)),
		SelfPath:      p.request.link("", p.query(p.IsStill)...),
		Announcement:  p.announce(),
		LanguageLinks: languageLinks(p.request, "", p.query(p.IsStill)),
	}
	if p.Story.Figure == "" {
		f.Title = p.Story.Heading + " · " + p.Shop
	}
	if p.hasReload() {
		f.Reload, f.StillLink = !p.IsStill, p.request.link("", p.query(!p.IsStill)...)
	}
	return f
}

// announce returns what a screen reader hears: the state and its notes, and the states of the payments.
func (p *checkoutPage) announce() string {
	texts := []string{p.Story.Heading, p.Story.Text}
	for _, note := range p.Notes {
		texts = append(texts, note.Text)
	}
	for _, payment := range p.Payments {
		texts = append(texts, p.nameAmount(payment)+": "+p.describe(payment).Heading)
	}
	return strings.Join(slices.DeleteFunc(texts, func(text string) bool { return text == "" }), " ")
}

// accentColor returns the color of the shop if it is one.
func (p *checkoutPage) accentColor() string { return cleanAccent(p.Accent) }

// cleanAccent returns a text if it is a color, and "" otherwise.
func cleanAccent(accent string) string {
	const length = len("#rrggbb")
	if len(accent) != length || accent[0] != '#' || strings.Trim(accent[1:], "0123456789abcdefABCDEF") != "" {
		return ""
	}
	return accent
}

// nameAmount returns what was paid. The figure of an unknown coin would mean nothing, as its decimals are not known.
func (p *checkoutPage) nameAmount(payment Payment) string {
	if payment.Symbol == "" {
		return p.text("payments.unknown")
	}
	return payment.Amount + " " + payment.Symbol
}

// describe says what happened to one payment.
func (p *checkoutPage) describe(payment Payment) (summary story) {
	summary = story{Tone: wait, Heading: p.text("payment." + string(payment.Status))}
	switch payment.Status {
	case PaymentSeen:
		switch {
		case payment.IsWaitingForPrice:
			summary.Heading = p.text("payment.SEEN.price")
		case payment.BlocksMissing != nil && *payment.BlocksMissing > 0:
			summary.Heading = p.text("payment.SEEN.blocks", "blocks", strconv.Itoa(*payment.BlocksMissing))
		}
	case PaymentCredited:
		summary.Tone = good
		if payment.IsWaitingForPrice {
			summary.Tone, summary.Heading = wait, p.text("payment.CREDITED.price")
		}
	case PaymentReversed:
		summary.Tone = bad
	case PaymentUnusable:
		summary.Tone, summary.Text = bad, p.text("payment.unusable.text")
	}
	var additions []string
	if payment.IsLate {
		additions = append(additions, p.text("payment.late"))
	}
	if payment.Status != PaymentUnusable && !payment.IsAcceptedCoin {
		summary.Tone = wait
		additions = append(additions, p.text("payment.notAccepted"))
	}
	if payment.IsOtherNetwork && payment.IsAcceptedCoin {
		additions = append(additions, p.text("payment.otherNetwork", "chain", payment.ChainName))
	}
	if len(additions) > 0 {
		summary.Text = strings.TrimSpace(summary.Text + " " + strings.Join(additions, " "))
	}
	return summary
}

// reason says why an option is not offered.
func (l *translation) reason(option Option) string {
	return l.text("reason."+string(option.Reason), "symbol", option.Symbol, "chain", option.ChainName)
}

// split returns what stands before and after a placeholder of a text, for a value that is an element of its own.
func (p *checkoutPage) split(key, name string, values ...string) (before, after string) {
	before, after, _ = strings.Cut(p.text(key, values...), "{"+name+"}")
	return before, after
}

// imagePath returns the path of the image of an item.
func (p *checkoutPage) imagePath(item Item) string {
	return prefix + p.CheckoutID + "/images/" + url.PathEscape(item.ImageID)
}

// hasRequote reports whether the amount of an option changes.
func (o *Option) hasRequote() bool { return !o.RateExpiresAt.IsZero() }

// hasOwnAddressOnly reports whether the QR code of an option has the address of this checkout.
func (o *Option) hasOwnAddressOnly() bool {
	return o.SharedAddress == "" || o.SharedAddress == o.Address
}

// isBareAddress reports whether the QR code has nothing but the address, so that the payer enters the amount.
func (o *Option) isBareAddress() bool { return o.QRText == o.Address }

// isLinkFirst reports whether the wallet link is the usual way. For tokens of EVM chains it is not: wallets that read
// only the first address of such a link have paid the contract of the token.
func (o *Option) isLinkFirst() bool { return o.EVM == nil || o.EVM.Contract == "" }

// qrCode is a drawn QR code.
type qrCode struct{ Picture, Box, Title string }

// drawQR draws the QR code of an option. A text that is too long for one leaves the address as text. Rule CO-51.
func (p *checkoutPage) drawQR(o *Option) *qrCode {
	picture, box, err := ui.EncodeQR(o.QRText)
	if o.QRText == "" || err != nil {
		return nil
	}
	key := "pay.qr"
	if o.isBareAddress() {
		key = "pay.qrAddress"
	}
	return &qrCode{
		Picture: picture, Box: box,
		Title: p.text(key, "amount", o.Amount, "symbol", o.Symbol, "chain", o.ChainName),
	}
}

// walletSchemes are the links that lead from the page into a wallet. Rule CO-51.
var walletSchemes = []string{"bitcoin:", "solana:", "ethereum:"}

// walletLink returns the attribute with the wallet link of an option. Components sanitize links to unknown schemes, so
// this one has its own list.
func (o *Option) walletLink() (attributes templ.Attributes, ok bool) {
	for _, scheme := range walletSchemes {
		if strings.HasPrefix(o.WalletLink, scheme) {
			return templ.Attributes{"href": o.WalletLink}, true
		}
	}
	return nil, false
}

// formatISO writes a time for the script.
func formatISO(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// findPage is the page that says where a payment is.
type findPage struct {
	*checkoutPage
	Hash      string
	IsInvalid bool
	Finding   *Finding
}

func newFindPage(r *request, view View) findPage {
	return findPage{checkoutPage: newCheckoutPage(r, view, readMint(r.URL.Query().Get(mintName)))}
}

// frame returns the document of the page. It never changes by itself: a payer types on it.
func (p findPage) frame() frame {
	return frame{
		Language: p.language, Accent: p.accentColor(), IsLocal: p.IsLocal, Title: p.text("find.heading"),
		EmbedOrigins:  p.EmbedOrigins,
		LanguageLinks: languageLinks(p.request, "/find", p.query(false)),
	}
}

// answer says what is known of the transaction.
func (p findPage) answer() story {
	key := "find." + string(p.Finding.Outcome)
	summary := story{
		Tone: wait, Heading: p.text(key), Text: p.text(key+".text", "chain", p.Finding.ChainName),
	}
	if p.Finding.Outcome == FoundPayment {
		summary.Tone = good
	}
	return summary
}

// coinLetters returns what stands in the round sign of a coin.
func coinLetters(symbol string) string {
	const lettersMax = 4
	letters := []rune(symbol)
	return string(letters[:min(len(letters), lettersMax)])
}

// unbroken writes a figure with its unit so that no line breaks between them.
func unbroken(figure string) string { return strings.ReplaceAll(figure, " ", "\u00a0") }
