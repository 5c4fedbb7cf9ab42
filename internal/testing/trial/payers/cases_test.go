package payers

import (
	"bytes"
	"encoding/json"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/client"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/internal/testing/trial/browser"
	"github.com/cofferpay/coffer/internal/testing/trial/pagematrix"
)

// payerCase is one line of the table of cases: a way in which payers pay, and how it is played.
type payerCase struct {
	name string
	// mints are the coins with which it is played, as chain and symbol. The first one is that of the short form.
	mints []string
	// other is a further coin, which the case uses as it says.
	other func(m localworld.Mint) string
	// isOtherAccepted: the checkout accepts the further coin, too.
	isOtherAccepted bool
	price           string
	isHeld          bool // the shop decides about late payments
	stage           stage
	play            func(p *payer, m, other localworld.Mint)
}

// stage says which cases are played at the same time.
type stage int

const (
	together stage = iota
	// alone: the case disturbs its chain, so it is played after those that need payments of the service, and no other
	// case disturbs the chain meanwhile. A block that vanishes takes what the service sent with it, and no refund is
	// paid while a chain cannot be read.
	alone
	// atTheEnd: the case breaks the finality of its chain, which stays frozen. The whole form plays it last.
	atTheEnd
)

var payerCases = []payerCase{
	{
		name: "exact", mints: []string{"SOLANA USDC", "ETHEREUM USDC", "ETHEREUM ETH", "SOLANA SOL", "BITCOIN BTC"},
		play: playExact,
	},
	{
		name: "under, completed in another coin", mints: []string{"ETHEREUM USDC", "SOLANA USDC", "BITCOIN BTC"},
		other: func(m localworld.Mint) string {
			if m.Chain == "ETHEREUM" {
				return "SOLANA SOL"
			}
			return "ETHEREUM ETH"
		},
		isOtherAccepted: true, play: playUnder,
	},
	{name: "over", mints: []string{"ETHEREUM ETH", "SOLANA USDC", "BITCOIN BTC"}, play: playOver},
	{name: "twice", mints: []string{"SOLANA SOL", "ETHEREUM USDC", "BITCOIN BTC"}, play: playTwice},
	{
		name: "late, held", mints: []string{"ETHEREUM USDC", "SOLANA USDC", "BITCOIN BTC"}, isHeld: true,
		play: playLateHeld,
	},
	{name: "late, accepted", mints: []string{"BITCOIN BTC", "ETHEREUM ETH", "SOLANA SOL"}, play: playLateAccepted},
	{
		name: "in time, noticed late", mints: []string{"SOLANA USDC", "ETHEREUM USDC", "BITCOIN BTC"}, stage: alone,
		play: playNoticedLate,
	},
	// The local Bitcoin has one coin.
	{
		name: "wrong token", mints: []string{"ETHEREUM ETH", "SOLANA SOL"},
		other: func(m localworld.Mint) string { return m.Chain + " USDC" }, play: playWrongToken,
	},
	// No other local chain has bitcoin.
	{
		name: "another network", mints: []string{"SOLANA USDC", "ETHEREUM USDC"},
		other: func(m localworld.Mint) string {
			if m.Chain == "SOLANA" {
				return "ETHEREUM ETH"
			}
			return "SOLANA SOL"
		},
		isOtherAccepted: true, play: playOtherNetwork,
	},
	{
		name: "below the minimum", mints: []string{"SOLANA USDC", "ETHEREUM USDC", "BITCOIN BTC"},
		play: playBelowMinimum,
	},
	{
		name: "flagged, then approved", mints: []string{"ETHEREUM USDC", "SOLANA USDC", "BITCOIN BTC"},
		price: screenedText, play: playFlagged,
	},
	// surfpool has one branch: it runs a transaction when it comes, and none of its calls takes a block back. So no
	// payment vanishes on the local Solana, before or after it is final. Tests of internal/chain/solana play forks with
	// a fake provider in front of it.
	{
		name: "orphaned", mints: []string{"ETHEREUM ETH", "ETHEREUM USDC", "BITCOIN BTC"}, stage: alone,
		play: playOrphaned,
	},
	{
		name: "reversed", mints: []string{"ETHEREUM USDC", "BITCOIN BTC"}, stage: atTheEnd,
		play: playReversed,
	},
	{
		name: "cancelled, then paid", mints: []string{"ETHEREUM ETH", "SOLANA USDC", "BITCOIN BTC"},
		play: playCancelled,
	},
	{
		name:  "a refund is claimed with a proven address",
		mints: []string{"ETHEREUM USDC", "SOLANA USDC", "BITCOIN BTC"}, play: playProvenClaim,
	},
	{
		name:  "a refund is claimed without scripts by an address",
		mints: []string{"ETHEREUM USDC", "SOLANA SOL", "BITCOIN BTC"}, play: playTypedClaim,
	},
}

// Every way in which payers pay is played on real chains, while a real browser stands on the page: the page says at
// each stage what became of the money, by itself, and the API says the same. The short form plays each case once; make
// pages plays it in every coin, theme, width and direction of writing. Rules CO-130, CO-131 and CO-132.
func TestPayersOnRealChains(t *testing.T) {
	t.Parallel()
	n := newScenario(t)
	n.screen(t)
	playStage := func(name string, now stage) {
		t.Run(name, func(t *testing.T) {
			for _, c := range payerCases {
				mints := c.mints
				if !pagematrix.IsWhole() {
					mints = mints[:1]
				}
				if c.stage != now {
					continue
				}
				for _, name := range mints {
					t.Run(strings.ReplaceAll(c.name+" "+name, " ", "_"), func(t *testing.T) {
						t.Parallel()
						n.playCase(t, c, name)
					})
				}
			}
			if now == together {
				t.Run("a wallet of the browser pays on Ethereum", func(t *testing.T) {
					t.Parallel()
					playEthereumWallet(t, n)
				})
				t.Run("a wallet of the browser pays on Solana", func(t *testing.T) {
					t.Parallel()
					playSolanaWallet(t, n)
				})
			}
		})
	}
	playStage("payers", together)
	playStage("chains", alone)
	n.checkBooks(t)
	if pagematrix.IsWhole() {
		playStage("finality", atTheEnd)
		n.summarize(t)
	}
}

func (n *scenario) playCase(t *testing.T, c payerCase, name string) {
	chainName, symbol, _ := strings.Cut(name, " ")
	if c.stage != together {
		n.disturbed[chainName].Lock()
		defer n.disturbed[chainName].Unlock()
	}
	m := n.mint(t, chainName, symbol)
	accepted, other := []localworld.Mint{m}, localworld.Mint{}
	if c.other != nil {
		otherChain, otherSymbol, _ := strings.Cut(c.other(m), " ")
		if other = n.mint(t, otherChain, otherSymbol); c.isOtherAccepted {
			accepted = append(accepted, other)
		}
	}
	price := c.price
	if price == "" {
		price = priceText
	}
	p := n.play(t, price, c.isHeld, accepted...)
	p.stand("open", say("state.open"), say("options.heading"))
	c.play(p, m, other)
	p.finish()
}

// half returns half of an amount.
func half(units *big.Int) *big.Int { return new(big.Int).Rsh(units, 1) }

func playExact(p *payer, m, _ localworld.Mint) {
	address, units := p.choose(m)
	p.stand("panel of "+m.Chain, say("pay.only", "symbol", m.Symbol), say("pay.waiting"))
	// On a busy machine a payment can be final before the service has looked at it, so no block follows until the page
	// has shown how many are missing.
	p.holdBlocks(m, func() {
		_, err := p.Info.PayAddress(p.ctx, m, address, units)
		p.must(err)
		p.mineBlock(m)
		p.hear(say("state.processing"), say("state.processing.text"), say("payment.SEEN.blocks"))
	})
	p.stand("paid", say("state.completed"), say("state.completed.text"), say("payment.CREDITED"))
	// Only of a coin with a price of one dollar is the last unit worth nothing more than what is due.
	if c := p.becomes("COMPLETED", "NONE"); c.AmountRemaining != "0.00" ||
		m.Symbol == "USDC" && c.AmountPaid != c.AmountDue {
		p.Errorf("got %s of %s paid, and %s remaining", c.AmountPaid, c.AmountDue, c.AmountRemaining)
	}
	p.withoutScripts(say("state.completed"), say("payment.CREDITED"))
}

func playUnder(p *payer, m, other localworld.Mint) {
	address, units := p.choose(m)
	p.send(m, address, half(units))
	c := p.becomes("OPEN", "UNDERPAID")
	p.payments("CREDITED")
	p.waitUntil("the part counts", func() bool {
		c = p.load()
		return c.AmountPaid != "0.00"
	})
	if c.AmountRemaining == "0.00" || c.AmountRemaining == c.AmountDue {
		p.Errorf("got %s of %s remaining", c.AmountRemaining, c.AmountDue)
	}
	// The panel stays, and asks for what is missing.
	rest := say("state.underpaid", "remaining", c.AmountRemaining+" USD")
	p.stand("underpaid", rest,
		say("state.underpaid.text", "paid", c.AmountPaid+" USD", "due", c.AmountDue+" USD"), say("payment.CREDITED"))
	if _, left := p.readPanel(m); left.Cmp(units) >= 0 {
		p.Errorf("the panel asks for %s of %s after half was paid", left, units)
	}
	p.tab.Press(".change a", 1)
	p.record()
	p.stand("the rest", rest, say("options.headingRemaining"))
	address, units = p.choose(other)
	p.send(other, address, units)
	p.stand("paid", say("state.completed"))
	if c = p.becomes("COMPLETED", "NONE"); len(c.Payments) != 2 {
		p.Errorf("got %d payments, want both coins", len(c.Payments))
	}
	p.withoutScripts(say("state.completed"))
}

func playOver(p *payer, m, _ localworld.Mint) {
	address, units := p.choose(m)
	p.send(m, address, new(big.Int).Add(units, half(units)))
	c := p.becomes("COMPLETED", "OVERPAID")
	surplus := say("note.overpaid", "surplus", c.AmountOverpaid+" USD")
	p.stand("overpaid", say("state.completed"), surplus)
	if c.AmountOverpaid == "0.00" {
		p.Error("got no surplus")
	}
	p.withoutScripts(say("state.completed"), surplus)
}

func playTwice(p *payer, m, _ localworld.Mint) {
	address, units := p.choose(m)
	first := p.send(m, address, units)
	second := p.send(m, address, units)
	p.payments("CREDITED", "CREDITED")
	c := p.becomes("COMPLETED", "OVERPAID")
	p.stand("overpaid", say("state.completed"), say("note.overpaid", "surplus", c.AmountOverpaid+" USD"))
	for _, hash := range []string{first, second} {
		p.waitUntil("the page lists both payments", func() bool { return strings.Contains(p.read(p.tab), hash) })
	}
}

// expire ends the time of the checkout while the payer stands before the panel.
func (p *payer) expire(m localworld.Mint) (address string, units *big.Int) {
	p.Helper()
	address, units = p.choose(m)
	p.passTime(time.Now().Add(-2 * time.Minute))
	p.stand("expired", say("state.expired"), say("state.expired.text"))
	p.becomes("EXPIRED", "NONE")
	return address, units
}

// playLateHeld pays late for a product whose shop decides about that, and the shop accepts it.
func playLateHeld(p *payer, m, _ localworld.Mint) {
	address, units := p.expire(m)
	p.send(m, address, units)
	late := []said{say("state.late"), say("state.late.text"), say("payment.late"), say("payment.CREDITED")}
	p.stand("late", late...)
	if c := p.becomes("EXPIRED", "PAID_LATE"); !c.Payments[0].IsLate || c.AmountPaid != "0.00" {
		p.Errorf("got %+v and %s paid, want a late payment that waits for a person", c.Payments[0], c.AmountPaid)
	}
	p.payments("CREDITED")
	decision := client.AcceptRequest{Reason: "The parcel was not packed yet."}
	if _, err := p.api.AcceptCheckout(p.ctx, p.checkout.CheckoutID, decision); err != nil {
		p.Fatal(err)
	}
	p.stand("paid late", say("state.completed"), say("payment.late"), say("payment.CREDITED"))
	p.becomes("COMPLETED", "PAID_LATE")
	p.withoutScripts(say("state.completed"), say("payment.late"))
}

// playLateAccepted pays late for something whose terms accept that.
func playLateAccepted(p *payer, m, _ localworld.Mint) {
	address, units := p.expire(m)
	p.send(m, address, units)
	p.stand("paid late", say("state.completed"), say("payment.late"), say("payment.CREDITED"))
	if c := p.becomes("COMPLETED", "PAID_LATE"); !c.Payments[0].IsLate {
		p.Errorf("got %+v, want a late payment", c.Payments[0])
	}
}

// playNoticedLate pays in time while no provider of the chain answers. The time ends before the payment is noticed.
func playNoticedLate(p *payer, m, _ localworld.Mint) {
	address, units := p.choose(m)
	name := chain.Name(m.Chain)
	p.outage(name, time.Now().Add(playMax))
	defer p.outage(name, time.Time{})
	p.send(m, address, units)
	end := p.waitBlock(m).Add(time.Second)
	p.passTime(end)
	p.waitUntil("the time is over", func() bool { return time.Now().After(end.Add(time.Second)) })
	if c := p.load(); c.Status != "OPEN" || len(c.Payments) != 0 {
		p.Errorf("got %s with %d payments while the chain cannot be read, want an open one", c.Status, len(c.Payments))
	}
	p.hear(say("state.open"))
	p.outage(name, time.Time{})
	p.stand("paid", say("state.completed"), say("payment.CREDITED"))
	if c := p.becomes("COMPLETED", "NONE"); c.Payments[0].IsLate {
		p.Error("a payment in time is called late")
	}
}

func playWrongToken(p *payer, m, other localworld.Mint) {
	address, _ := p.choose(m)
	p.send(other, address, whole(other, 5))
	p.payments("CREDITED")
	p.stand("wrong token", say("state.open"), say("note.wrongToken"), say("payment.notAccepted"))
	p.becomes("OPEN", "WRONG_TOKEN")
}

// playOtherNetwork opens an option on another network, and pays the coin to its address there, which the checkout
// accepts on its own network alone.
func playOtherNetwork(p *payer, m, other localworld.Mint) {
	address, _ := p.choose(other)
	sent := p.mint(p.T, other.Chain, m.Symbol)
	p.send(sent, address, whole(sent, 25))
	p.stand("another network", say("state.completed"), say("payment.otherNetwork", "chain", chainTitles[other.Chain]))
	if c := p.becomes("COMPLETED", "NONE"); c.Payments[0].Chain != other.Chain || c.AmountPaid != c.AmountDue {
		p.Errorf("got %+v and %s of %s paid", c.Payments[0], c.AmountPaid, c.AmountDue)
	}
}

func playBelowMinimum(p *payer, m, _ localworld.Mint) {
	address, _ := p.choose(m)
	listed, err := p.api.ListMints(p.ctx, client.ListMintsParams{Chain: m.Chain})
	if err != nil {
		p.Fatal(err)
	}
	i := slices.IndexFunc(listed.Data, func(l client.Mint) bool { return l.ID == m.ID })
	least, isNumber := new(big.Int).SetString(listed.Data[i].MinDepositAmount, 10)
	if !isNumber {
		p.Fatalf("got the least deposit %q", listed.Data[i].MinDepositAmount)
	}
	p.send(m, address, least.Sub(least, big.NewInt(1)))
	p.stand("unusable", say("state.open"), say("payment.UNUSABLE"), say("payment.unusable.text"))
	p.payments("UNUSABLE")
	if c := p.becomes("OPEN", "NONE"); c.AmountRemaining != c.AmountDue {
		p.Errorf("got %s of %s remaining, want all", c.AmountRemaining, c.AmountDue)
	}
}

func playFlagged(p *payer, m, _ localworld.Mint) {
	address, units := p.choose(m)
	thief := p.newWallet(m.Chain)
	p.callOperator(p.T, http.MethodPut, "/local-risk/"+thief.address, map[string]any{
		"severity": "SEVERE", "score": 97, "entity": "A thief", "categories": []string{"THEFT"},
	})
	p.fund(thief, m, units)
	p.pay(thief, m, address, units)
	p.stand("flagged", say("state.flagged"), say("state.flagged.text"), say("payment.FLAGGED"))
	c := p.becomes("OPEN", "FLAGGED")
	if _, err := p.api.ApproveDeposit(p.ctx, c.Payments[0].DepositID, client.DecisionNote{Note: "known"}); err != nil {
		p.Fatal(err)
	}
	p.stand("paid", say("state.completed"), say("payment.CREDITED"))
	p.becomes("COMPLETED", "NONE")
}

// playOrphaned replaces the block of a payment. No other payer pays on its chain meanwhile: the block would take that
// away, too.
func playOrphaned(p *payer, m, _ localworld.Mint) {
	address, units := p.choose(m)
	p.holdBlocks(m, func() {
		p.mineBlock(m)
		_, err := p.Info.PayAddress(p.ctx, m, address, units)
		p.must(err)
		p.mineBlock(m)
		p.stand("seen", say("state.processing"), say("payment.SEEN.blocks"))
		p.replaceBlocks(m, 1)
	})
	p.stand("orphaned", say("state.open"), say("payment.ORPHANED"), say("pay.waiting"))
	p.becomes("OPEN", "NONE")
	address, units = p.readPanel(m)
	p.send(m, address, units)
	p.stand("paid", say("state.completed"))
	p.becomes("COMPLETED", "NONE")
}

const (
	// settleBlocks is how far above the old end of its chain the service looks for a payment whose final block is gone.
	settleBlocks = 2
	// blocksAfterFork make a fork final up to there. The clock of Bitcoin rests while no payment waits.
	blocksAfterFork = 10
)

// playReversed replaces the block of a payment after the payment is credited. The service stops at what is no longer
// final until an operator decides that it goes on with the new fork.
func playReversed(p *payer, m, _ localworld.Mint) {
	address, units := p.choose(m)
	start := p.height(m)
	p.send(m, address, units)
	p.stand("paid", say("state.completed"), say("payment.CREDITED"))
	p.becomes("COMPLETED", "NONE")
	p.holdBlocks(m, func() {
		p.replaceBlocks(m, p.height(m)-start)
		for range blocksAfterFork {
			p.mineBlock(m)
		}
	})
	p.repoint(m)
	p.stand("reversed", say("state.completed"), say("note.reversed"), say("payment.REVERSED"))
	p.payments("REVERSED")
	p.becomes("COMPLETED", "REVERSED")
	p.withoutScripts(say("state.completed"), say("note.reversed"))
}

func playCancelled(p *payer, m, _ localworld.Mint) {
	address, units := p.choose(m)
	c, err := p.api.CancelCheckout(p.ctx, p.checkout.CheckoutID)
	p.must(err)
	p.waitChainTime(m, c.CancelledAt.Time)
	p.stand("cancelled", say("state.cancelled"), say("state.cancelled.text"))
	p.send(m, address, units)
	p.stand("late", say("state.late"), say("state.late.text"), say("payment.CREDITED"))
	p.becomes("CANCELLED", "PAID_LATE")
}

func (p *payer) must(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

// whole returns an amount of whole coins.
func whole(m localworld.Mint, coins int64) *big.Int {
	unit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(m.Decimals)), nil)
	return unit.Mul(unit, big.NewInt(coins))
}

// screen sets the organization's threshold of screening.
func (n *scenario) screen(t *testing.T) {
	t.Helper()
	n.callOperator(t, http.MethodPatch, "/organizations/"+n.Info.OrganizationID+"/settings", map[string]any{
		"screeningSeverityThreshold": "MEDIUM", "screeningUsdThreshold": screeningText,
		"flaggedDepositApiEnabled": true,
	})
}

// callOperator calls the operator's interface.
func (n *scenario) callOperator(t *testing.T, method, path string, body any) {
	t.Helper()
	content, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, n.Info.OperatorURL+"/v1"+path, bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("x-operator-key", n.Info.Operator.APIKey)
	r.Header.Set("content-type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode >= http.StatusMultipleChoices {
		t.Fatalf("%s %s: got %d", method, path, answer.StatusCode)
	}
}

// press clicks on what stays on its page.
func (p *payer) press(selector string) {
	p.Helper()
	raw, err := json.Marshal(selector)
	p.must(err)
	p.tab.WaitUntil("document.querySelector(" + string(raw) + ")?.checkVisibility() === true")
	browser.Evaluate[bool](p.tab, "(document.querySelector("+string(raw)+").click(), true)")
}
