package payerpages

import (
	"context"
	"log/slog"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/checkout/outcome"
	"github.com/cofferpay/coffer/internal/checkout/payuri"
	"github.com/cofferpay/coffer/internal/checkout/pricing"
	"github.com/cofferpay/coffer/internal/checkout/receipt"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/wire"
)

// Source shows the checkouts, payment links and refunds of the feature. It implements Checkouts, Links and Refunds.
type Source struct {
	Service *checkout.Service
	Chains  chain.Chains
	// IsLocal says that no real money moves.
	IsLocal bool
	// ReturnURL returns the address that leads a payer back to the shop, with a signed statement; nil: the address of
	// the shop as it is.
	ReturnURL func(c checkout.Checkout, now time.Time) (string, error)
	// Receipts signs receipts; without keys there are none. Environment is webhook.Live or webhook.Test.
	Receipts    receipt.Signer
	Environment string
	// ExplorerURL returns the address of a transaction at another site; "" if none is known. It may be nil.
	ExplorerURL func(name chain.Name, tx chain.TxHash) string
	// ChainTitle returns the common name of a chain; nil: its name in the API.
	ChainTitle func(name chain.Name) string
	Clock      func() time.Time
	Log        *slog.Logger
}

var (
	_ Checkouts = Source{}
	_ Links     = Source{}
	_ Refunds   = Source{}
)

// View implements Checkouts.
func (s Source) View(ctx context.Context, checkoutID string) (View, error) {
	// The version comes first: a page that is newer than its version is loaded once too often, and no page stays old.
	versions, err := s.Service.PublicVersions(ctx, []string{checkoutID})
	if err != nil {
		return View{}, err
	}
	p, err := s.Service.PublicByID(ctx, checkoutID)
	if err != nil {
		return View{}, err
	}
	v := View{
		CheckoutID: p.ID, Version: versions[p.ID], Status: Status(p.Status), ShopName: p.ShopName,
		Accent: p.Settings.Accent, Currency: p.Currency,
		AmountDue: p.AmountDue.Show(p.Currency), AmountPaid: p.SeenSum.Show(p.Currency),
		AmountRemaining: p.Remaining().Show(p.Currency), ExpiresAt: p.ExpiresAt, IsLocal: s.IsLocal,
		HasRefund:  p.HasRefund,
		HasReceipt: p.Status == outcome.Completed && s.Receipts.CanSign(),
		CancelURL:  textOf(p.CancelURL), ReturnURL: s.returnURL(ctx, p.Checkout), AfterText: p.AfterText,
		EmbedOrigins: p.Settings.EmbedOrigins,
	}
	if surplus := p.Surplus(); !surplus.IsZero() {
		v.AmountSurplus = surplus.Show(p.Currency)
	}
	for _, e := range p.Exceptions {
		v.Exceptions = append(v.Exceptions, Exception(e))
	}
	for _, item := range p.Items {
		v.Items = append(v.Items, Item{
			Name: item.Name, Quantity: item.Quantity, UnitPrice: showText(item.UnitPrice, p.Currency),
			ImageID: item.ImageID,
		})
	}
	v.Options = s.options(p)
	for _, payment := range p.Payments {
		v.Payments = append(v.Payments, s.newPayment(p, payment))
	}
	return v, nil
}

func textOf(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// showText writes a stored price as people of the currency do.
func showText(text, currency string) string {
	value, err := pricing.Read(text)
	if err != nil {
		return text
	}
	return value.Show(currency)
}

// returnURL leads the payer of a paid checkout back to the shop. Expired and cancelled ones never lead there.
func (s Source) returnURL(ctx context.Context, c checkout.Checkout) string {
	if c.SuccessURL == nil || c.Status != outcome.Processing && c.Status != outcome.Completed {
		return ""
	}
	if s.ReturnURL == nil {
		return *c.SuccessURL
	}
	signed, err := s.ReturnURL(c, s.Clock())
	if err != nil {
		// The shop asks the API then.
		s.Log.WarnContext(ctx, "payerpages: a payer returns without a statement", "checkout", c.ID, "error", err)
		return *c.SuccessURL
	}
	return signed
}

// options returns the ways to pay in the order of the offers. The opened ones of a checkout that is not open any more
// are not shown: no one should pay them.
func (s Source) options(p checkout.Public) []Option {
	var shown []Option
	for _, offer := range p.Offers {
		option := Option{
			MintID: offer.Mint.ID, Symbol: offer.Mint.Symbol, Name: offer.Mint.Name,
			ChainName: s.chainName(offer.Mint.Chain), IsNative: offer.Mint.Contract == "",
			Reason:   reasons[offer.Problem],
			IsPegged: offer.Rate.Source != "" && pricing.IsSteady(offer.Rate, offer.IsPegged),
		}
		if offer.PayerFee != nil {
			option.PayerFeeText = feeText(*offer.PayerFee)
		}
		i := slices.IndexFunc(p.Options, func(o checkout.Option) bool { return o.Mint.ID == offer.Mint.ID })
		if i >= 0 {
			s.addOpened(&option, p, p.Options[i])
		}
		shown = append(shown, option)
	}
	return shown
}

// feeText writes a fee in dollars. One below a cent is not shown as nothing.
func feeText(fee money.USD) string {
	if text := fee.Cents(); text != "0.00" || fee == (money.USD{}) {
		return text + " USD"
	}
	return "0.01 USD"
}

// reasons are the words of the page for what is wrong with an offer.
var reasons = map[checkout.OfferProblem]Unavailability{
	checkout.MintClosed: Paused, checkout.NoPrice: Unpriced, checkout.OffPeg: Unpriced,
	checkout.BelowMinimum: BelowMinimum, checkout.CostTooHigh: TooCostly,
}

// addOpened adds where and how much to pay.
func (s Source) addOpened(option *Option, p checkout.Public, opened checkout.Option) {
	quote, hasQuote := opened.Quote()
	holds := hasQuote && s.Clock().Before(quote.ExpiresAt) && quote.Covers.Cmp(p.Remaining()) == 0
	if !hasQuote || !holds && option.Reason != Available {
		return // There is no rate that holds, for what is still due.
	}
	// A quote that holds is kept, also if nothing could be offered now.
	option.IsOpen, option.Reason = true, Available
	option.Address = string(opened.Wallet.Address)
	option.Amount, option.AtomicAmount = quote.Amount.Decimal(opened.Mint.Decimals), quote.Amount.String()
	option.IsPegged = pricing.IsSteady(quote.Rate, option.IsPegged)
	if !option.IsPegged {
		option.RateText = "1 " + opened.Mint.Symbol + " = " + rateText(quote.Rate) + " " + p.Currency
		option.RateExpiresAt = quote.ExpiresAt
	}
	target := payuri.Target{
		Chain: opened.Mint.Chain, CAIP2: s.Chains[opened.Mint.Chain].CAIP2, Contract: opened.Mint.Contract,
		Decimals: opened.Mint.Decimals, Address: opened.Wallet.Address, Amount: quote.Amount, Label: p.ShopName,
	}
	if opened.Shared != nil && !opened.TakesWallets {
		option.QRText = option.Address // A link would lead wallets to an address without an account. Rule CO-139.
		return
	}
	if opened.Shared != nil && len(opened.Ref) == len([32]byte{}) {
		reference := [32]byte(opened.Ref)
		target.Address, target.Reference = opened.Shared.Address, &reference
		option.SharedAddress = string(opened.Shared.Address)
		option.Solana = s.solanaPayment(opened.Mint)
	}
	if uri, err := payuri.New(target); err == nil {
		option.WalletLink, option.QRText = uri.Link, uri.QR
	}
	if number, isEVM := strings.CutPrefix(target.CAIP2, "eip155:"); isEVM {
		if chainID, err := strconv.ParseInt(number, 10, 64); err == nil {
			option.EVM = &EVMPayment{ChainID: chainID, Contract: string(opened.Mint.Contract)}
		}
	}
}

// solanaNetworks are the names that wallets have for the networks of Solana, by the names of CAIP-2.
var solanaNetworks = map[string]string{
	"solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp": "solana:mainnet",
	"solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1": "solana:devnet",
	"solana:4uhcVJyU9pJkvQyS88uRDiswHScCKQ3z": "solana:testnet",
}

// solanaPayment says how wallets of a browser pay a mint; nil if the chain makes no transactions for them.
func (s Source) solanaPayment(m mint.Mint) *SolanaPayment {
	ch := s.Chains[m.Chain]
	if _, canRequest := ch.Reader.(chain.PaymentRequests); !canRequest {
		return nil
	}
	network, isKnown := solanaNetworks[ch.CAIP2]
	if !isKnown {
		if !s.IsLocal {
			return nil
		}
		network = "solana:localnet"
	}
	return &SolanaPayment{Network: network, IsToken: m.Contract != ""}
}

const rateDigits = 6

// rateText writes the units of a currency for one whole token, for display only.
func rateText(r pricing.Rate) string {
	ratio := new(big.Rat).Quo(r.Price.Rat(), r.CurrencyPrice.Rat())
	text := ratio.FloatString(rateDigits)
	text = strings.TrimRight(text, "0")
	whole, fraction, _ := strings.Cut(text, ".")
	for len(fraction) < 2 {
		fraction += "0"
	}
	return whole + "." + fraction
}

func (s Source) chainName(name chain.Name) string {
	if s.ChainTitle != nil {
		if title := s.ChainTitle(name); title != "" {
			return title
		}
	}
	return string(name)
}

// newPayment returns what the page shows of a payment.
func (s Source) newPayment(p checkout.Public, payment checkout.Payment) Payment {
	shown := Payment{
		ChainName: s.chainName(payment.Chain), Amount: payment.Amount.String(), TxHash: string(payment.Tx),
		Status: PaymentStatus(payment.Status), IsLate: !payment.Moment.IsZero() && !payment.IsInTime,
		IsAcceptedCoin: payment.IsAccepted || payment.Counted == nil && payment.Mint != nil,
	}
	if payment.Mint != nil {
		shown.Symbol, shown.Amount = payment.Mint.Symbol, payment.Amount.Decimal(payment.Mint.Decimals)
		shown.IsOtherNetwork = payment.IsAccepted && !slices.Contains(p.AcceptedMintIDs, payment.Mint.ID)
	}
	if payment.Counted != nil {
		shown.ValueText = payment.Counted.Show(p.Currency)
	}
	if missing, isSeen := p.BlocksMissing[payment.DepositID]; isSeen {
		shown.BlocksMissing = &missing
	}
	shown.IsWaitingForPrice = payment.Counted == nil && payment.Mint != nil && payment.Status == outcome.PaymentCredited
	return shown
}

// Open implements Checkouts.
func (s Source) Open(ctx context.Context, checkoutID string, mintID int) error {
	return s.Service.OpenPublic(ctx, checkoutID, mintID)
}

// walletProblems are the words of the page for what a wallet gets no transaction for.
var walletProblems = map[checkout.WalletRefusal]WalletProblem{
	checkout.AccountRefused: AccountProblem, checkout.ClosedRefused: ClosedProblem,
	checkout.OptionRefused: OptionProblem, checkout.AmountRefused: AmountProblem, checkout.FundsRefused: FundsProblem,
	checkout.UnreadyRefused: UnreadyProblem, checkout.NodeRefused: NodeProblem,
}

// RequestPayment implements Checkouts.
func (s Source) RequestPayment(
	ctx context.Context, checkoutID string, w WalletRequest,
) (WalletTransaction, *WalletProblem, error) {
	paid, err := s.Service.PublicWalletPayment(ctx, checkoutID, checkout.WalletRequest{
		MintID: w.MintID, Account: w.Account, Amount: w.Amount,
	})
	if f := fault.Find(err); f != nil {
		refusal, _ := f.Details[checkout.RefusalDetail].(string)
		if problem, isKnown := walletProblems[checkout.WalletRefusal(refusal)]; isKnown {
			return WalletTransaction{}, &problem, nil
		}
	}
	if err != nil {
		return WalletTransaction{}, nil, err
	}
	return WalletTransaction{
		Transaction: paid.Transaction, Amount: paid.Amount.Decimal(paid.Mint.Decimals), Symbol: paid.Mint.Symbol,
		ShopName: paid.ShopName,
	}, nil, nil
}

// Versions implements Checkouts.
func (s Source) Versions(ctx context.Context, checkoutIDs []string) (map[string]int64, error) {
	return s.Service.PublicVersions(ctx, checkoutIDs)
}

// Find implements Checkouts.
func (s Source) Find(ctx context.Context, checkoutID, txHash string) (Finding, error) {
	located, err := s.Service.LocatePayment(ctx, checkoutID, txHash)
	if err != nil {
		return Finding{}, err
	}
	found := Finding{}
	if located.Chain != "" {
		found.ChainName = s.chainName(located.Chain)
	}
	switch {
	case located.Payment != nil:
		p, err := s.Service.PublicByID(ctx, checkoutID)
		if err != nil {
			return Finding{}, err
		}
		payment := s.newPayment(p, *located.Payment)
		found.Outcome, found.Payment = FoundPayment, &payment
		if !payment.IsAcceptedCoin || payment.Status == PaymentUnusable {
			found.Outcome = FoundWrongCoin
		}
	case located.IsComing:
		found.Outcome = FoundPending
	case located.Chain != "" && !located.IsUnclear:
		found.Outcome = FoundElsewhere
	case located.IsUnclear:
		found.Outcome = FoundUnclear
	default:
		found.Outcome = FoundNowhere
	}
	return found, nil
}

// Receipt implements Checkouts.
func (s Source) Receipt(ctx context.Context, checkoutID string) ([]byte, error) {
	r, err := s.Service.PublicReceipt(ctx, checkoutID)
	if err != nil {
		return nil, err
	}
	if !s.Receipts.CanSign() {
		return nil, fault.New(fault.NotFound, fault.CodeNotFound, fault.ReadOnly, "This process signs no receipt.")
	}
	return s.Receipts.Receipt(wire.Receipt(r, s.Environment, s.Clock()))
}

// Image implements Checkouts.
func (s Source) Image(ctx context.Context, checkoutID, imageID string) (mediaType string, content []byte, err error) {
	found, err := s.Service.PublicImage(ctx, checkoutID, imageID)
	return found.MediaType, found.Content, err
}

// Link implements Links.
func (s Source) Link(ctx context.Context, slug string) (LinkView, error) {
	p, err := s.Service.PublicLink(ctx, slug)
	if err != nil {
		return LinkView{}, err
	}
	v := LinkView{
		Slug: p.Slug, URL: p.URL, State: LinkState(p.State), ShopName: p.ShopName, Accent: p.Settings.Accent,
		Currency: p.Currency, Nonce: p.Nonce, IsLocal: s.IsLocal, EmbedOrigins: p.Settings.EmbedOrigins,
	}
	show := func(price *checkout.Price) string {
		if price == nil {
			return ""
		}
		return price.Show(p.Currency)
	}
	for _, good := range p.Goods {
		v.Items = append(v.Items, LinkItem{
			ProductID: good.Product.ID, Name: good.Product.Name, Description: textOf(good.Product.Description),
			ImageID: good.Product.ImageID, QuantityLeast: good.QuantityLeast, QuantityMost: good.QuantityMost,
			UnitPrice: show(good.Product.Price), PriceMin: show(good.Product.MinPrice),
			PriceMax: show(good.Product.MaxPrice),
		})
	}
	return v, nil
}

// problemKinds are the words of the page for what is wrong with a choice.
var problemKinds = map[checkout.LinkRefusal]ProblemKind{
	checkout.NonceRefused: NonceProblem, checkout.NonceUsed: NonceUsedProblem,
	checkout.QuantityRefused: QuantityProblem, checkout.PriceRefused: PriceProblem,
	checkout.StateRefused: StateProblem, checkout.LimitRefused: LimitProblem,
}

// Buy implements Links.
func (s Source) Buy(ctx context.Context, slug, nonce string, choices []Choice) (Sale, *LinkProblem, error) {
	chosen := make([]checkout.LinkChoice, len(choices))
	for i, c := range choices {
		chosen[i] = checkout.LinkChoice{ProductID: c.ProductID, Quantity: c.Quantity, UnitPrice: c.UnitPrice}
	}
	made, err := s.Service.CheckoutOfLink(ctx, slug, chosen, nonce)
	if f := fault.Find(err); f != nil {
		refusal, _ := f.Details[checkout.RefusalDetail].(string)
		if kind, isKnown := problemKinds[checkout.LinkRefusal(refusal)]; isKnown {
			productID, _ := f.Details[checkout.ProductDetail].(string)
			return Sale{}, &LinkProblem{Kind: kind, ProductID: productID}, nil
		}
	}
	if err != nil {
		return Sale{}, nil, err
	}
	_, key, _ := strings.Cut(made.URL, "#")
	return Sale{CheckoutID: made.ID, Key: key}, nil, nil
}

// LinkImage implements Links.
func (s Source) LinkImage(ctx context.Context, slug, imageID string) (mediaType string, content []byte, err error) {
	found, err := s.Service.PublicLinkImage(ctx, slug, imageID)
	return found.MediaType, found.Content, err
}
