package payers

import (
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"

	"github.com/cofferpay/coffer/client"
	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/internal/testing/trial/browser"
)

// overpay pays half too much with a wallet, and returns the surplus and the address of its claim page.
func (p *payer) overpay(w *wallet, m localworld.Mint) (refund client.Refund, surplus *big.Int) {
	p.Helper()
	address, units := p.choose(m)
	surplus = half(units)
	p.fund(w, m, new(big.Int).Add(units, surplus))
	p.pay(w, m, address, new(big.Int).Add(units, surplus))
	p.becomes("COMPLETED", "OVERPAID")
	refund, err := p.api.CreateRefund(p.ctx, p.checkout.CheckoutID, client.RefundRequest{Amount: "OVERPAID"})
	p.must(err)
	if refund.Amount != surplus.String() || refund.ClaimURL == nil {
		p.Fatalf("got the refund %+v, want %s to be claimed", refund, surplus)
	}
	p.stand("a refund waits", say("state.completed"), say("refund.claim"), say("refund.claim.text"))
	return refund, surplus
}

// waitRefund waits until a refund is paid, and looks for it on the chain.
func (p *payer) waitRefund(
	refund client.Refund, m localworld.Mint, to common.Address, surplus *big.Int, isProven bool,
) {
	p.Helper()
	var paid client.Refund
	p.waitUntil("the refund is paid", func() bool {
		var err error
		if paid, err = p.api.GetRefund(p.ctx, refund.RefundID); p.ctx.Err() == nil {
			p.must(err)
		}
		return paid.Status == "COMPLETED"
	})
	if paid.ToAddress == nil || *paid.ToAddress != to.Hex() || paid.AddressProven != isProven || paid.TxHash == nil {
		p.Errorf("got the refund %+v, want it at %s", paid, to)
	}
	if held := p.holds(m, to); held.Cmp(surplus) != 0 {
		p.Errorf("%s holds %s, want exactly %s", to, held, surplus)
	}
}

// lookAtClaim checks the page of a refund that stands in the tab, and in the whole form in every way.
func (p *payer) lookAtClaim(name, claimURL string) {
	p.Helper()
	p.check(p.tab, name)
	if p.visitor == nil {
		return
	}
	page, key, _ := strings.Cut(claimURL, "#")
	for _, way := range ways {
		p.visitor.OpenURL(page+"?lang="+way.language+"#"+key, way.look)
		p.visitor.WaitUntil("document.querySelector('[data-refund]') !== null")
		p.check(p.visitor, way.name(name))
	}
}

// playProvenClaim claims a surplus with the address that paid. A wallet of the browser shows that the address is the
// payer's: without that it is refused, because it may be the shared one of an exchange. Rule CO-132.
func playProvenClaim(t *testing.T, n *scenario) {
	m := n.mint(t, "ETHEREUM", "USDC")
	p := n.play(t, priceText, false, m)
	w := p.newWallet()
	refund, surplus := p.overpay(w, m)
	p.tab.OpenURL(*refund.ClaimURL, phone)
	p.tab.WaitUntil("document.querySelector('[data-refund=AWAITING_ADDRESS]') !== null")
	p.record()
	p.lookAtClaim("claim page", *refund.ClaimURL)
	browser.Evaluate[bool](p.tab, ethereumWallet)
	p.press("#signer-real")
	p.serve("document.querySelector('[data-refund]').dataset.refund !== 'AWAITING_ADDRESS'", p.answerEthereum(w))
	p.hear(say("refund.proven"))
	p.waitUntil("the claim page says that the refund is final", func() bool {
		return browser.Evaluate[bool](p.tab, "document.querySelector('[data-refund=COMPLETED]') !== null")
	})
	p.lookAtClaim("refunded", *refund.ClaimURL)
	p.waitRefund(refund, m, w.address, surplus, true)
	p.finish()
}

// playTypedClaim claims a surplus without scripts: the payer pastes the key and types another address. Rule CO-132.
func playTypedClaim(t *testing.T, n *scenario) {
	m := n.mint(t, "ETHEREUM", "USDC")
	p := n.play(t, priceText, false, m)
	refund, surplus := p.overpay(p.newWallet(), m)
	page, key, hasKey := strings.Cut(*refund.ClaimURL, "#k=")
	if !hasKey {
		p.Fatalf("got %s, want an address with a key", *refund.ClaimURL)
	}
	to := p.newWallet().address
	p.tab.DisableScripts()
	p.tab.OpenURL(page, phone)
	p.tab.Type("#key", key)
	p.tab.Click("main button")
	p.tab.Type("#address", to.Hex())
	p.tab.Click("main form button")
	p.tab.Click("#confirm")
	p.waitRefund(refund, m, to, surplus, false)
	p.finish()
}

// summarize writes the line with which the matrix of pages ends.
func (n *scenario) summarize(t *testing.T) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	problems := 0
	if t.Failed() {
		problems = 1
	}
	fmt.Printf("pages: payers: %d pages and states, %d looks, %d problems\n", len(n.looked), n.looks, problems)
}
