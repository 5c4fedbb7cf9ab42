package payerpages

import (
	"fmt"
	"html"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	phonePart = regexp.MustCompile(`(?s)<details id="phone-wallets".*?</details>`)
	anchor    = regexp.MustCompile(`<a ([^>]*)>([^<]*)</a>`)
	hrefValue = regexp.MustCompile(`href="([^"]*)"`)
)

const closedPart = `<details id="phone-wallets" class="by-hand phone">`

// readPhoneLinks returns the links that open a page in the apps of a phone, as a browser reads them.
func (h *testEnv) readPhoneLinks(body string) (links []string) {
	h.t.Helper()
	for _, found := range anchor.FindAllStringSubmatch(phonePart.FindString(body), -1) {
		if !strings.Contains(found[1], `rel="noreferrer noopener"`) || strings.Contains(found[1], "target") {
			h.t.Errorf("got the link %s, want one that tells no referrer", found[1])
		}
		links = append(links, html.UnescapeString(hrefValue.FindStringSubmatch(found[1])[1]))
	}
	return links
}

// On a phone a payer opens the page of an option in the browser of a wallet app that pays on its network, without a
// script. The links have the path of the page and nothing of its key, and they are no requests. Rule CO-144.
func TestAPhoneOpensThePageInAWalletApp(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t, func(c *Config) { c.Origin = "https://pay.example" })
	page := func(mintID int) string {
		return fmt.Sprintf("https://pay.example%s%s?mint=%d", prefix, checkoutID, mintID)
	}
	for mintID, want := range map[int][]string{
		ethMain: {
			"https://link.metamask.io/dapp/pay.example/c/" + checkoutID + fmt.Sprintf("?mint=%d", ethMain),
			"https://phantom.app/ul/browse/" + url.QueryEscape(page(ethMain)) + "?ref=https%3A%2F%2Fpay.example",
			"https://go.cb-w.com/dapp?cb_url=" + url.QueryEscape(page(ethMain)),
			"https://link.trustwallet.com/open_url?coin_id=60&url=" + url.QueryEscape(page(ethMain)),
		},
		solSol: {
			"https://phantom.app/ul/browse/" + url.QueryEscape(page(solSol)) + "?ref=https%3A%2F%2Fpay.example",
			"https://link.trustwallet.com/open_url?coin_id=501&url=" + url.QueryEscape(page(solSol)),
		},
		btcMain: nil,
	} {
		got := h.get(fmt.Sprintf("%s%s?mint=%d", prefix, checkoutID, mintID))
		if links := h.readPhoneLinks(got.body); !slices.Equal(links, want) {
			t.Errorf("mint %d: got the links\n%s\nwant\n%s", mintID, strings.Join(links, "\n"),
				strings.Join(want, "\n"))
		}
		if part := phonePart.FindString(got.body); strings.Contains(part, "k=") || strings.Contains(part, "#") ||
			strings.Contains(part, "%23") || part != "" && !strings.HasPrefix(part, closedPart) {
			t.Errorf("mint %d: got %s, want a closed part without a key", mintID, part)
		}
		// What is left without the links names no other host, so the page asks none for anything.
		rest := phonePart.ReplaceAllString(got.body, "")
		for _, found := range foreignURL.FindAllString(rest, -1) {
			if found != "https://shop.example" {
				t.Errorf("mint %d: got a page that names %s", mintID, found)
			}
		}
		if got.header.Get("Content-Security-Policy") != policy || got.header.Get("Referrer-Policy") != "no-referrer" ||
			got.header.Get("Link") != "" {
			t.Errorf("mint %d: got the headers %v", mintID, got.header)
		}
	}
	inGerman := h.readPhoneLinks(h.get(fmt.Sprintf("%s%s?mint=%d&lang=de", prefix, checkoutID, ethMain)).body)
	if len(inGerman) != 4 || !strings.HasSuffix(inGerman[2], url.QueryEscape("?lang=de&mint="+fmt.Sprint(ethMain))) {
		t.Errorf("got the links %q, want the language kept", inGerman)
	}
}

// A test network, a local one, and pages whose address is not known or not secure lead into no app. Rule CO-144.
func TestAPhoneIsLedIntoNoAppThatCannotPay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		origin string
		change func(*View)
	}{
		"no address":   {"", func(*View) {}},
		"not secure":   {"http://pay.example", func(*View) {}},
		"local":        {"https://pay.example", func(v *View) { v.IsLocal = true }},
		"test network": {"https://pay.example", func(v *View) { v.Options[1].EVM.ChainID = 11155111 }},
		"Solana's":     {"https://pay.example", func(v *View) { v.Options[2].Solana.Network = "solana:devnet" }},
	} {
		h := newTestEnv(t, func(conf *Config) { conf.Origin = c.origin })
		h.checkouts.change(c.change)
		mintID := ethMain
		if name == "Solana's" {
			mintID = solSol
		}
		got := h.get(fmt.Sprintf("%s%s?mint=%d", prefix, checkoutID, mintID))
		if links := h.readPhoneLinks(got.body); len(links) > 0 {
			t.Errorf("%s: got the links %q, want none", name, links)
		}
	}
	for _, w := range phoneWallets {
		link, err := url.Parse(w.link(&url.URL{Scheme: "https", Host: "pay.example", Path: "/c/x"}, "60"))
		if err != nil || link.Scheme != "https" || link.Fragment != "" {
			t.Errorf("%s: got %v, %v, want an https link", w.Name, link, err)
		}
	}
}
