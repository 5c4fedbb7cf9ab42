package evm_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/chain/evm/payoutcontract"
	"github.com/cofferpay/coffer/internal/money"
)

// payoutProviders are providers of a chain that has the payout contract, with a treasury that allows it 1000.
type payoutProviders struct {
	*lab
	proxies  []*proxy
	treasury chain.Address
}

func newPayoutProviders(t *testing.T, n int) *payoutProviders {
	t.Helper()
	p := &payoutProviders{lab: newLab(t)}
	if err := p.node.SetCode(t.Context(), payoutcontract.Address, payoutcontract.RuntimeCode()); err != nil {
		t.Fatal(err)
	}
	p.treasury = p.Account(t)
	for range n {
		node := newProxy(t, p.node)
		node.SetRule("eth_call", allowance(1000))
		p.proxies = append(p.proxies, node)
	}
	return p
}

// contract returns the payout contract as the adapter reads it with a quorum.
func (p *payoutProviders) contract(t *testing.T, agree int) chain.PayoutContract {
	t.Helper()
	var urls []string
	for _, node := range p.proxies {
		urls = append(urls, node.URL)
	}
	cfg := config(urls...)
	cfg.Quorum = agree
	return newChain(t, cfg).PayoutContract
}

func word(units uint64) string {
	return common.BigToHash(money.Units(units).Big()).Hex()
}

// allowance answers a question for an allowance with units, and no other one.
func allowance(units uint64) rule {
	return func(e *exchange) {
		if strings.Contains(string(e.Params[0]), "dd62ed3e") {
			e.SetResult(`"` + word(units) + `"`)
		}
	}
}

// codeOf answers with code that is at the address.
func codeOf(code []byte) rule {
	return func(e *exchange) { e.SetResult(`"` + hexutil.Encode(code) + `"`) }
}

// silences are the ways in which a provider gives no answer.
var silences = map[string]rule{
	"an error":       func(e *exchange) { e.SetError(`{"code":-32015,"message":"try again"}`) },
	"a lost answer":  func(e *exchange) { e.DropConnection() },
	"no code at all": func(e *exchange) { e.SetResult("null") },
	"rubbish":        func(e *exchange) { e.SetResult(`{"a":1}`) },
}

// The contract is there only if a quorum answers and each of it says so. One provider that knows other code makes
// payments go one by one; one that invents the code does not make them go together. Rule BP-55.
func TestTheCodeOfTheContractIsBelievedOfAQuorumAlone(t *testing.T) {
	t.Parallel()
	p := newPayoutProviders(t, 2)
	code, other := payoutcontract.RuntimeCode(), payoutcontract.RuntimeCode()
	other[len(other)-1] ^= 1
	want := func(name string, want bool) {
		t.Helper()
		if got, err := p.contract(t, 2).IsDeployed(t.Context()); err != nil || got != want {
			t.Errorf("%s: got %v, %v, want %v", name, got, err, want)
		}
	}
	want("both tell the truth", true)
	for name, lie := range map[string]rule{
		"no code": codeOf(nil), "other code": codeOf(other), "the beginning of the code": codeOf(code[:len(code)-1]),
		"more than the code": codeOf(append(payoutcontract.RuntimeCode(), 0)),
	} {
		for i := range p.proxies {
			p.proxies[i].SetRule("eth_getCode", lie)
			want(fmt.Sprintf("provider %d says %s", i, name), false)
			p.proxies[i].SetRule("eth_getCode", nil)
		}
	}
	if err := p.node.SetCode(t.Context(), payoutcontract.Address, []byte{}); err != nil {
		t.Fatal(err)
	}
	want("there is no code", false)
	for i := range p.proxies {
		p.proxies[i].SetRule("eth_getCode", codeOf(code))
		want(fmt.Sprintf("provider %d invents the code", i), false)
		p.proxies[i].SetRule("eth_getCode", nil)
	}
}

// Too few answers about the code are no answer: nothing is said of the contract then. Rule BP-55.
func TestWithoutAQuorumTheCodeOfTheContractIsNotKnown(t *testing.T) {
	t.Parallel()
	p := newPayoutProviders(t, 3)
	for name, silence := range silences {
		p.proxies[1].SetRule("eth_getCode", silence)
		if got, err := p.contract(t, 2).IsDeployed(t.Context()); err != nil || !got {
			t.Errorf("one is silent by %s: got %v, %v, want the word of the others", name, got, err)
		}
		p.proxies[0].SetRule("eth_getCode", silence)
		if got, err := p.contract(t, 2).IsDeployed(t.Context()); err == nil || got {
			t.Errorf("two are silent by %s: got %v, %v, want an error", name, got, err)
		}
		p.proxies[0].SetRule("eth_getCode", nil)
		p.proxies[1].SetRule("eth_getCode", nil)
	}
	p.proxies[2].SetRule("eth_getCode", (*exchange).HangUntilCancelled)
	if got, err := p.contract(t, 2).IsDeployed(t.Context()); err != nil || !got {
		t.Errorf("one hangs: got %v, %v, want the word of the others", got, err)
	}
}

// The allowance is the least that a quorum says: who invents a larger one changes nothing, and who says a smaller one
// has payments made one by one. Rule BP-55.
func TestTheAllowanceIsTheLeastThatAQuorumSays(t *testing.T) {
	t.Parallel()
	p := newPayoutProviders(t, 2)
	want := func(name string, want uint64) {
		t.Helper()
		got, err := p.contract(t, 2).Allowance(t.Context(), p.treasury, p.Token())
		if err != nil || got != money.Units(want) {
			t.Errorf("%s: got %v, %v, want %d", name, got, err, want)
		}
	}
	want("both say the same", 1000)
	for i := range p.proxies {
		p.proxies[i].SetRule("eth_call", allowance(1_000_000))
		want(fmt.Sprintf("provider %d says more", i), 1000)
		p.proxies[i].SetRule("eth_call", allowance(7))
		want(fmt.Sprintf("provider %d says less", i), 7)
		p.proxies[i].SetRule("eth_call", allowance(1000))
	}
}

// Too few answers about the allowance are no answer. An answer that is no word is none. Rule BP-55.
func TestWithoutAQuorumTheAllowanceIsNotKnown(t *testing.T) {
	t.Parallel()
	p := newPayoutProviders(t, 3)
	read := func() (money.Amount, error) {
		return p.contract(t, 2).Allowance(t.Context(), p.treasury, p.Token())
	}
	for name, silence := range map[string]rule{
		"an error": silences["an error"], "a lost answer": silences["a lost answer"], "rubbish": silences["rubbish"],
		"an answer that is no word": func(e *exchange) { e.SetResult(`"0x03e8"`) },
		"an empty answer":           func(e *exchange) { e.SetResult(`"0x"`) },
	} {
		p.proxies[2].SetRule("eth_call", silence)
		if got, err := read(); err != nil || got != money.Units(1000) {
			t.Errorf("one is silent by %s: got %v, %v, want the word of the others", name, got, err)
		}
		p.proxies[1].SetRule("eth_call", silence)
		if got, err := read(); err == nil || !got.IsZero() {
			t.Errorf("two are silent by %s: got %v, %v, want an error", name, got, err)
		}
		for _, node := range p.proxies {
			node.SetRule("eth_call", allowance(1000))
		}
	}
	if _, err := p.contract(t, 2).Allowance(t.Context(), "no address", p.Token()); err == nil {
		t.Error("an owner that is no address: got no error")
	}
}

// A question names exactly the treasury, the token and the contract.
func TestTheAllowanceAskedForIsThatOfTheTreasury(t *testing.T) {
	t.Parallel()
	p := newPayoutProviders(t, 1)
	var asked []string
	p.proxies[0].SetRule("eth_call", func(e *exchange) {
		asked = append(asked, strings.ToLower(string(e.Params[0])))
		e.SetResult(`"` + word(1) + `"`)
	})
	if _, err := p.contract(t, 1).Allowance(t.Context(), p.treasury, p.Token()); err != nil {
		t.Fatal(err)
	}
	ownerBytes, err := evmtx.Bytes(p.treasury)
	if err != nil {
		t.Fatal(err)
	}
	data := "dd62ed3e" + common.Bytes2Hex(common.LeftPadBytes(ownerBytes[:], 32)) +
		common.Bytes2Hex(common.LeftPadBytes(payoutcontract.Address[:], 32))
	if len(asked) != 1 || !strings.Contains(asked[0], data) ||
		!strings.Contains(asked[0], strings.ToLower(string(p.Token()))) {
		t.Errorf("got %q, want one call of the token with %s", asked, data)
	}
}
