package tour

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/webhook"
)

const (
	soldPrice = "49.99"
	pageMax   = 20 * time.Second
)

// tourCheckouts sells a product: paid on the page of its checkout, through a payment link with too much, which the
// payer claims, in parts on two chains, with too much, which is refunded, and in Bitcoin.
func (s *tourRun) tourCheckouts(ctx context.Context) error {
	s.printTitle("The marketplace sells")
	mints := []localworld.Mint{s.usdc, s.ether}
	for _, name := range [][2]string{{"SOLANA", "USDC"}, {"BITCOIN", "BTC"}} {
		if m, err := s.findMint(name[0], name[1]); err == nil {
			mints = append(mints, m)
		}
	}
	ids := make([]int, len(mints))
	for i, m := range mints {
		ids[i] = m.ID
	}
	var product struct {
		ProductID string `json:"productId"`
	}
	if err := s.api.postJSON(ctx, "/products", map[string]any{
		"name": "Gold plan", "priceType": "FIXED", "price": soldPrice, "acceptedMintIds": ids,
		"idempotencyKey": "tour-" + randomHex(8),
	}, &product); err != nil {
		return err
	}
	s.printStep("product %s, Gold plan for $%s, in %d coins", product.ProductID, soldPrice, len(mints))
	before, err := s.loadShopBalances(ctx)
	if err != nil {
		return err
	}
	sold := map[int]*big.Int{}
	for _, part := range []func(context.Context, string, map[int]*big.Int) error{
		s.sellOnPage, s.sellThroughLink, s.sellInParts, s.sellWithSurplus, s.sellForBitcoin,
	} {
		if err := part(ctx, product.ProductID, sold); err != nil {
			return err
		}
	}
	return s.checkSold(ctx, before, sold)
}

// sell makes a checkout of a product, twice with one key: there is one.
func (s *tourRun) sell(ctx context.Context, productID string, open ...localworld.Mint) (c webhook.Checkout, err error) {
	body := map[string]any{
		"productId": productID, "reference": "order-" + randomHex(4), "idempotencyKey": "tour-" + randomHex(8),
	}
	if len(open) > 0 {
		ids := make([]int, len(open))
		for i, m := range open {
			ids[i] = m.ID
		}
		body["openMintIds"] = ids
	}
	var replay webhook.Checkout
	if err := s.api.postJSON(ctx, "/checkouts", body, &c); err != nil {
		return c, err
	}
	if err := s.api.postJSON(ctx, "/checkouts", body, &replay); err != nil {
		return c, err
	}
	if replay.CheckoutID != c.CheckoutID || c.Status != "OPEN" || c.AmountDue != soldPrice {
		return c, fmt.Errorf("the checkout is %+v, and the same key made %s", c, replay.CheckoutID)
	}
	return c, nil
}

func (s *tourRun) loadCheckout(ctx context.Context, checkoutID string) (c webhook.Checkout, err error) {
	err = s.api.getJSON(ctx, "/checkouts/"+url.PathEscape(checkoutID), &c)
	return c, err
}

// findOption returns the opened option of a mint with its amount.
func findOption(c webhook.Checkout, m localworld.Mint) (address string, units *big.Int, err error) {
	for _, o := range c.PaymentOptions {
		if o.MintID != m.ID || o.Address == nil || o.Amount == nil {
			continue
		}
		units, isNumber := new(big.Int).SetString(*o.Amount, 10)
		if !isNumber {
			return "", nil, fmt.Errorf("the option asks for %q", *o.Amount)
		}
		return *o.Address, units, nil
	}
	return "", nil, fmt.Errorf("checkout %s has no open option in %s on %s", c.CheckoutID, m.Symbol, m.Chain)
}

// payOption pays units of a mint to an address from outside, and notes them as sold.
func (s *tourRun) payOption(
	ctx context.Context, m localworld.Mint, address string, units *big.Int, sold map[int]*big.Int,
) error {
	hash, err := s.Info.PayAddress(ctx, m, address, units)
	if err != nil {
		return fmt.Errorf("pay %s on %s: %w", m.Symbol, m.Chain, err)
	}
	if sold[m.ID] == nil {
		sold[m.ID] = new(big.Int)
	}
	sold[m.ID].Add(sold[m.ID], units)
	s.printStep("sent %s %s on %s from outside: %s", formatWhole(units.String(), m), m.Symbol,
		strings.ToLower(m.Chain), hash)
	return nil
}

// waitSold waits for the event of a completion, and expects an exception in it.
func (s *tourRun) waitSold(ctx context.Context, checkoutID, exception string) error {
	var c webhook.Checkout
	e, err := s.waitEvent(ctx, webhook.CheckoutCompleted, &c, func() bool { return c.CheckoutID == checkoutID })
	if err != nil {
		return err
	}
	if c.Status != "COMPLETED" || c.Exception != exception || c.CompletedAt == nil {
		return fmt.Errorf("CHECKOUT_COMPLETED says %+v, want the exception %s", c, exception)
	}
	s.printStep("CHECKOUT_COMPLETED number %d: $%s of $%s is credited, exception %s", e.Sequence, c.AmountPaid,
		c.AmountDue, c.Exception)
	return nil
}

// sellOnPage pays a checkout on its page as a browser without scripts does.
func (s *tourRun) sellOnPage(ctx context.Context, productID string, sold map[int]*big.Int) error {
	c, err := s.sell(ctx, productID)
	if err != nil {
		return err
	}
	if c.URL == nil {
		return errors.New("the checkout has no page; the local world has pages of payers")
	}
	// A browser does not send what is behind #.
	page, _, hasKey := strings.Cut(*c.URL, "#")
	if !hasKey {
		return fmt.Errorf("the address %s has no key", *c.URL)
	}
	browser := &http.Client{Timeout: pageMax}
	if _, err := readPage(ctx, browser, page, "Gold plan", soldPrice); err != nil {
		return err
	}
	s.printStep("checkout %s has the page %s", c.CheckoutID, page)
	address, units, err := s.chooseOnPage(ctx, browser, c.CheckoutID, page)
	if err != nil {
		return err
	}
	s.printStep("the payer chooses USDC on Ethereum there, without scripts: %s USDC to %s",
		formatWhole(units.String(), s.usdc), address)
	if err := s.payOption(ctx, s.usdc, address, units, sold); err != nil {
		return err
	}
	if err := s.waitSold(ctx, c.CheckoutID, "NONE"); err != nil {
		return err
	}
	paidPage, err := readPage(ctx, browser, page, "Paid")
	if err != nil {
		return err
	}
	if strings.Contains(paidPage, *c.Reference) {
		return errors.New("the page shows the number of the order")
	}
	s.printStep("the page says Paid, and shows nothing of the order's number")
	return nil
}

// sellInParts pays half in USDC on Ethereum, and the rest on another chain, or in ETH without one.
func (s *tourRun) sellInParts(ctx context.Context, productID string, sold map[int]*big.Int) error {
	rest, err := s.findMint("SOLANA", "USDC")
	if err != nil {
		rest = s.ether
	}
	c, err := s.sell(ctx, productID, s.usdc, rest)
	if err != nil {
		return err
	}
	address, units, err := findOption(c, s.usdc)
	if err != nil {
		return err
	}
	if err := s.payOption(ctx, s.usdc, address, new(big.Int).Rsh(units, 1), sold); err != nil {
		return err
	}
	var short webhook.Checkout
	e, err := s.waitEvent(ctx, webhook.CheckoutException, &short, func() bool {
		return short.CheckoutID == c.CheckoutID
	})
	if err != nil {
		return err
	}
	if short.Exception != "UNDERPAID" || short.Status != "OPEN" {
		return fmt.Errorf("CHECKOUT_EXCEPTION says %+v, want UNDERPAID", short)
	}
	s.printStep("CHECKOUT_EXCEPTION number %d: UNDERPAID, $%s is still due", e.Sequence, short.AmountRemaining)
	if c, err = s.loadCheckout(ctx, c.CheckoutID); err != nil {
		return err
	}
	if address, units, err = findOption(c, rest); err != nil {
		return err
	}
	s.printStep("the option in %s on %s asks for the rest alone: %s", rest.Symbol, strings.ToLower(rest.Chain),
		formatWhole(units.String(), rest))
	if err := s.payOption(ctx, rest, address, units, sold); err != nil {
		return err
	}
	return s.waitSold(ctx, c.CheckoutID, "NONE")
}

// sellWithSurplus pays more than is due, and gets the surplus back.
func (s *tourRun) sellWithSurplus(ctx context.Context, productID string, sold map[int]*big.Int) error {
	c, err := s.sell(ctx, productID, s.usdc)
	if err != nil {
		return err
	}
	address, units, err := findOption(c, s.usdc)
	if err != nil {
		return err
	}
	if err := s.payOption(ctx, s.usdc, address, units.Add(units, atomicUnits(10, s.usdc)), sold); err != nil {
		return err
	}
	if err := s.waitSold(ctx, c.CheckoutID, "OVERPAID"); err != nil {
		return err
	}
	return s.refundSurplus(ctx, c.CheckoutID, sold)
}

// refundSurplus gives back what was paid above the amount due, to an address that the payer named.
func (s *tourRun) refundSurplus(ctx context.Context, checkoutID string, sold map[int]*big.Int) error {
	payer := newAddress()
	path := "/checkouts/" + url.PathEscape(checkoutID) + "/refunds"
	body := map[string]any{
		"amount": "OVERPAID", "toAddress": payer.Hex(), "reason": "paid too much",
		"idempotencyKey": "tour-" + randomHex(8),
	}
	var refund, replay webhook.Refund
	if err := s.api.postJSON(ctx, path, body, &refund); err != nil {
		return err
	}
	if err := s.api.postJSON(ctx, path, body, &replay); err != nil {
		return err
	}
	if replay.RefundID != refund.RefundID || refund.MintID != s.usdc.ID || refund.ClaimURL != nil {
		return fmt.Errorf("the refund is %+v, and the same key made %s", refund, replay.RefundID)
	}
	s.printStep("refund %s of the surplus, %s USDC, to %s; the same key makes no second one", refund.RefundID,
		formatWhole(refund.Amount, s.usdc), payer.Hex())
	return s.waitRefunded(ctx, checkoutID, refund, payer, sold)
}

// waitRefunded waits for the event of a paid refund, looks for it on the chain, and notes it as not sold.
func (s *tourRun) waitRefunded(
	ctx context.Context, checkoutID string, refund webhook.Refund, payer common.Address, sold map[int]*big.Int,
) error {
	units, isNumber := new(big.Int).SetString(refund.Amount, 10)
	if !isNumber {
		return fmt.Errorf("the refund has the amount %q", refund.Amount)
	}
	var c webhook.Checkout
	e, err := s.waitEvent(ctx, webhook.CheckoutRefunded, &c, func() bool { return c.CheckoutID == checkoutID })
	if err != nil {
		return err
	}
	if c.Refund == nil || c.Refund.RefundID != refund.RefundID || c.Refund.Status != "COMPLETED" ||
		c.Refund.TxHash == nil {
		return fmt.Errorf("CHECKOUT_REFUNDED says %+v, want the refund %s", c, refund.RefundID)
	}
	got, err := s.chainBalance(ctx, s.usdc, payer)
	if err != nil {
		return fmt.Errorf("read what the payer has: %w", err)
	}
	if got.Cmp(units) != 0 {
		return fmt.Errorf("the payer has %s of the refund, want %s", got, units)
	}
	sold[s.usdc.ID].Sub(sold[s.usdc.ID], units)
	s.printStep("CHECKOUT_REFUNDED number %d: the payer has exactly %s on the chain, by %s", e.Sequence, units,
		*c.Refund.TxHash)
	return nil
}

// sellForBitcoin pays in Bitcoin, if the world has it.
func (s *tourRun) sellForBitcoin(ctx context.Context, productID string, sold map[int]*big.Int) error {
	bitcoin, err := s.findMint("BITCOIN", "BTC")
	if err != nil {
		return nil // this world has no Bitcoin
	}
	c, err := s.sell(ctx, productID, bitcoin)
	if err != nil {
		return err
	}
	address, units, err := findOption(c, bitcoin)
	if err != nil {
		return err
	}
	if err := s.payOption(ctx, bitcoin, address, units, sold); err != nil {
		return err
	}
	return s.waitSold(ctx, c.CheckoutID, "NONE")
}

// loadShopBalances returns what the product CHECKOUT has, by mint.
func (s *tourRun) loadShopBalances(ctx context.Context) (map[int]*big.Int, error) {
	var list struct {
		Data []struct {
			Product string `json:"product"`
			MintID  int    `json:"mintId"`
			Total   string `json:"total"`
		} `json:"data"`
	}
	if err := s.api.getJSON(ctx, "/balances", &list); err != nil {
		return nil, err
	}
	balances := map[int]*big.Int{}
	for _, b := range list.Data {
		if b.Product != "CHECKOUT" {
			continue
		}
		total, isNumber := new(big.Int).SetString(b.Total, 10)
		if !isNumber {
			return nil, fmt.Errorf("the product has %q of mint %d", b.Total, b.MintID)
		}
		balances[b.MintID] = total
	}
	return balances, nil
}

// checkSold compares the balances of the product with what was paid, and the events of the completions with the
// checkouts.
func (s *tourRun) checkSold(ctx context.Context, before, sold map[int]*big.Int) error {
	after, err := s.loadShopBalances(ctx)
	if err != nil {
		return err
	}
	var parts []string
	for _, m := range s.Info.Mints {
		units, isSold := sold[m.ID]
		if !isSold {
			continue
		}
		want := new(big.Int).Set(units)
		if before[m.ID] != nil {
			want.Add(want, before[m.ID])
		}
		if after[m.ID] == nil || after[m.ID].Cmp(want) != 0 {
			return fmt.Errorf("the product CHECKOUT has %v of mint %d, want %s", after[m.ID], m.ID, want)
		}
		parts = append(parts, formatWhole(units.String(), m)+" "+m.Symbol+" on "+strings.ToLower(m.Chain))
	}
	s.printStep("the product CHECKOUT has exactly what was paid and not refunded: %s", strings.Join(parts, ", "))
	counts := map[string]int{}
	for _, e := range s.receiver.listEvents() {
		if e.Type != webhook.CheckoutCompleted {
			continue
		}
		var c webhook.Checkout
		if err := json.Unmarshal(e.Data, &c); err != nil {
			return fmt.Errorf("read %s: %w", e.ID, err)
		}
		if counts[c.CheckoutID]++; counts[c.CheckoutID] > 1 {
			return fmt.Errorf("the completion of %s has two events", c.CheckoutID)
		}
	}
	s.printStep("each of %d completions has one event", len(counts))
	return nil
}
