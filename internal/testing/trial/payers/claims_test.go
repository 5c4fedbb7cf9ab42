package payers

import (
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/client"
	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/internal/testing/trial/browser"
)

// surplusParts bounds how much more than a surplus is refunded: one of so many parts of it.
const surplusParts = 1000

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
	owed, isNumber := new(big.Int).SetString(refund.Amount, 10)
	if !isNumber || refund.ClaimURL == nil {
		p.Fatalf("got the refund %+v, want an amount to be claimed", refund)
	}
	// The page asks for an amount that people can type. Of a coin without a price of one dollar that is a little more
	// than what is due.
	if more := new(big.Int).Sub(owed, surplus); more.Sign() < 0 || m.Symbol == "USDC" && more.Sign() > 0 ||
		more.Cmp(new(big.Int).Div(surplus, big.NewInt(surplusParts))) > 0 {
		p.Fatalf("got a refund of %s, want %s", owed, surplus)
	}
	surplus = owed
	p.stand("a refund waits", say("state.completed"), say("refund.claim"), say("refund.claim.text"))
	return refund, surplus
}

// waitRefund waits until a refund is paid, and looks for it on the chain. The address had an amount before.
func (p *payer) waitRefund(
	refund client.Refund, m localworld.Mint, to string, before, surplus *big.Int, isProven bool,
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
	if paid.ToAddress == nil || *paid.ToAddress != to || paid.AddressProven != isProven || paid.TxHash == nil {
		p.Errorf("got the refund %+v, want it at %s", paid, to)
	}
	if got := new(big.Int).Sub(p.holds(m, to), before); got.Cmp(surplus) != 0 {
		p.Errorf("%s got %s, want exactly %s", to, got, surplus)
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

// playProvenClaim claims a surplus with the address that paid. Its signature shows that the address is the payer's:
// without that it is refused, because it may be the shared one of an exchange. Wallets of the browser sign on Ethereum
// and Solana. On Bitcoin the payer pastes what a wallet signed elsewhere. Rule CO-132.
func playProvenClaim(p *payer, m, _ localworld.Mint) {
	w := p.newWallet(m.Chain)
	refund, surplus := p.overpay(w, m)
	before := p.holds(m, w.address)
	p.tab.OpenURL(*refund.ClaimURL, phone)
	p.tab.WaitUntil("document.querySelector('[data-refund=AWAITING_ADDRESS]') !== null")
	p.record()
	p.lookAtClaim("claim page", *refund.ClaimURL)
	switch m.Chain {
	case "ETHEREUM":
		browser.Evaluate[bool](p.tab, ethereumWallet)
		p.press("#signer-real")
		p.serve(isClaimed, p.answerEthereum(w))
	case "SOLANA":
		p.injectSolana(w)
		p.press("#signers button")
		p.serve(isClaimed, p.answerSolana(w))
	default:
		p.press("#sign-by-hand summary")
		p.tab.Type("#proof-address", w.address)
		p.press("#sign-by-hand button")
		p.tab.WaitUntil("document.querySelector('#challenge') !== null")
		p.check(p.tab, "text to sign")
		text := browser.Evaluate[string](p.tab, "document.querySelector('#challenge').textContent")
		p.tab.Type("#signature", p.signBitcoin(w, text))
		p.press("form[data-proof] button")
		p.tab.WaitUntil(isClaimed)
	}
	p.hear(say("refund.proven"))
	p.waitUntil("the claim page says that the refund is final", func() bool {
		return browser.Evaluate[bool](p.tab, "document.querySelector('[data-refund=COMPLETED]') !== null")
	})
	p.lookAtClaim("refunded", *refund.ClaimURL)
	p.waitRefund(refund, m, w.address, before, surplus, true)
}

// isClaimed is true on the page of a refund that has its address.
const isClaimed = "document.querySelector('[data-refund]').dataset.refund !== 'AWAITING_ADDRESS'"

// playTypedClaim claims a surplus without scripts: the payer pastes the key and types another address. Rule CO-132.
func playTypedClaim(p *payer, m, _ localworld.Mint) {
	refund, surplus := p.overpay(p.newWallet(m.Chain), m)
	page, key, hasKey := strings.Cut(*refund.ClaimURL, "#k=")
	if !hasKey {
		p.Fatalf("got %s, want an address with a key", *refund.ClaimURL)
	}
	to := p.newWallet(m.Chain).address
	p.tab.DisableScripts()
	p.tab.OpenURL(page, phone)
	p.tab.Type("#key", key)
	p.tab.Click("main button")
	p.tab.Type("#address", to)
	p.tab.Click("main form button")
	p.tab.Click("#confirm")
	p.waitRefund(refund, m, to, new(big.Int), surplus, false)
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
