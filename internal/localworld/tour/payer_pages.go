package tour

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/cofferpay/coffer/webhook"
)

// readPage reads a page and expects texts on it.
func readPage(ctx context.Context, browser *http.Client, address string, wants ...string) (text string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return "", err
	}
	text, _, err = visitPage(browser, req, wants...)
	return text, err
}

// sendForm sends a form of a page, as a browser without scripts does, and expects texts on the page that follows. It
// returns the address of that page, too.
func sendForm(
	ctx context.Context, browser *http.Client, address string, form url.Values, wants ...string,
) (text, visited string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(form.Encode()))
	if err != nil {
		return "", "", err
	}
	req.Header.Set("content-type", "application/x-www-form-urlencoded")
	return visitPage(browser, req, wants...)
}

func visitPage(browser *http.Client, req *http.Request, wants ...string) (text, visited string, err error) {
	resp, err := browser.Do(req)
	if err != nil {
		return "", "", fmt.Errorf("open the page: %w", err)
	}
	content, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return "", "", fmt.Errorf("read the page: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return "", "", fmt.Errorf("the page %s answers %d", req.URL.Path, resp.StatusCode)
	}
	for _, want := range wants {
		if !strings.Contains(string(content), want) {
			return "", "", fmt.Errorf("the page %s says nothing of %q", req.URL.Path, want)
		}
	}
	return string(content), resp.Request.URL.String(), nil
}

// chooseOnPage chooses USDC on Ethereum on the page of a checkout, which then shows the address of the option.
func (s *tourRun) chooseOnPage(
	ctx context.Context, browser *http.Client, checkoutID, page string,
) (address string, units *big.Int, err error) {
	text, _, err := sendForm(ctx, browser, page+"/options", url.Values{"mint": {strconv.Itoa(s.usdc.ID)}})
	if err != nil {
		return "", nil, fmt.Errorf("choose USDC on the page: %w", err)
	}
	c, err := s.loadCheckout(ctx, checkoutID)
	if err != nil {
		return "", nil, err
	}
	if address, units, err = findOption(c, s.usdc); err != nil {
		return "", nil, err
	}
	if !strings.Contains(text, address) {
		return "", nil, fmt.Errorf("the page of %s does not show the address %s", checkoutID, address)
	}
	return address, units, nil
}

// noncePattern finds what the form of a payment link has for one sale.
var noncePattern = regexp.MustCompile(`name="nonce" value="([^"]+)"`)

// sellThroughLink opens a payment link and buys there. The payer sends too much, and claims the surplus on the page of
// the refund.
func (s *tourRun) sellThroughLink(ctx context.Context, productID string, sold map[int]*big.Int) error {
	var link struct {
		LinkID string `json:"linkId"`
		URL    string `json:"url"`
	}
	if err := s.api.postJSON(ctx, "/payment-links", map[string]any{
		"lineItems":      []map[string]any{{"productId": productID, "quantity": 1}},
		"idempotencyKey": "tour-" + randomHex(8),
	}, &link); err != nil {
		return err
	}
	browser := &http.Client{Timeout: pageMax}
	form, err := readPage(ctx, browser, link.URL, "Gold plan", soldPrice)
	if err != nil {
		return err
	}
	nonce := noncePattern.FindStringSubmatch(form)
	if nonce == nil {
		return fmt.Errorf("the page of payment link %s has no form", link.LinkID)
	}
	_, page, err := sendForm(ctx, browser, link.URL, url.Values{"nonce": {nonce[1]}}, "Gold plan", soldPrice)
	if err != nil {
		return fmt.Errorf("buy through payment link %s: %w", link.LinkID, err)
	}
	page, _, _ = strings.Cut(page, "#")
	checkoutID := page[strings.LastIndex(page, "/")+1:]
	s.printStep("payment link %s at %s makes checkout %s", link.LinkID, link.URL, checkoutID)
	address, units, err := s.chooseOnPage(ctx, browser, checkoutID, page)
	if err != nil {
		return err
	}
	surplus := atomicUnits(10, s.usdc)
	if err := s.payOption(ctx, s.usdc, address, units.Add(units, surplus), sold); err != nil {
		return err
	}
	if err := s.waitSold(ctx, checkoutID, "OVERPAID"); err != nil {
		return err
	}
	return s.claimSurplus(ctx, browser, checkoutID, surplus, sold)
}

// claimSurplus refunds a surplus without an address. The payer opens the claim page, without scripts, and says where it
// goes.
func (s *tourRun) claimSurplus(
	ctx context.Context, browser *http.Client, checkoutID string, surplus *big.Int, sold map[int]*big.Int,
) error {
	var refund webhook.Refund
	if err := s.api.postJSON(ctx, "/checkouts/"+url.PathEscape(checkoutID)+"/refunds", map[string]any{
		"amount": "OVERPAID", "idempotencyKey": "tour-" + randomHex(8),
	}, &refund); err != nil {
		return err
	}
	if refund.ClaimURL == nil || refund.Amount != surplus.String() {
		return fmt.Errorf("the refund is %+v, want %s to be claimed", refund, surplus)
	}
	page, key, hasKey := strings.Cut(*refund.ClaimURL, "#k=")
	if !hasKey {
		return fmt.Errorf("the address %s has no key", *refund.ClaimURL)
	}
	// A browser does not send what is behind #, so a payer without scripts pastes it.
	if _, _, err := sendForm(ctx, browser, page, url.Values{"key": {key}}, "Where should your refund go?"); err != nil {
		return err
	}
	payer := newAddress()
	claim := url.Values{"key": {key}, "address": {payer.Hex()}}
	if _, _, err := sendForm(ctx, browser, page+"/check", claim, payer.Hex()); err != nil {
		return err
	}
	if _, _, err := sendForm(ctx, browser, page+"/claim", claim, "Your address is stored"); err != nil {
		return err
	}
	s.printStep("refund %s of the surplus, %s USDC: the payer claims it at %s for %s", refund.RefundID,
		formatWhole(refund.Amount, s.usdc), page, payer.Hex())
	if err := s.waitRefunded(ctx, checkoutID, refund, payer, sold); err != nil {
		return err
	}
	_, _, err := sendForm(ctx, browser, page, url.Values{"key": {key}}, "Refunded")
	return err
}
