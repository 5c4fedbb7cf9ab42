package evm_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/params"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/localworld/evmtoken"
	"github.com/cofferpay/coffer/internal/money"
)

// ready returns a payment that is signed and not sent.
func (l *lab) ready(
	t testing.TB, c chain.Chain, contract chain.Address,
) (p chain.Payment, signed []byte, tx chain.TxHash) {
	t.Helper()
	p = chain.Payment{From: l.Account(t), To: l.Account(t), Contract: contract, Amount: money.Units(1000)}
	l.Fund(t, p.From, "", money.Units(params.Ether))
	if contract != "" {
		l.Fund(t, p.From, contract, p.Amount)
	}
	fees, err := c.Sender.Quote(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	payload, err := c.Sender.Build(p.From, chain.Slot{}, fees, p)
	if err != nil {
		t.Fatal(err)
	}
	signed, tx = l.Sign(t, p.From, payload)
	return p, signed, tx
}

// Case W1 of chains.md: the node accepted the bytes and its answer was lost.
func TestALostAnswerToSendIsUnknownAndTheSameBytesPayOnce(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	proxy := newProxy(t, l.node)
	c := newChain(t, config(proxy.URL))
	p, signed, tx := l.ready(t, c, "")
	proxy.SetRule("eth_sendRawTransaction", func(e *exchange) { e.DropConnection() })
	if a, said := c.Sender.Send(t.Context(), signed); a != chain.Unknown || strings.Contains(said, "a-secret-key") {
		t.Errorf("lost: got %v %q, want Unknown and no secret", a, said)
	}
	proxy.SetRule("eth_sendRawTransaction", nil)
	if a, said := c.Sender.Send(t.Context(), signed); a != chain.Known {
		t.Errorf("again: got %v %q, want Known", a, said)
	}
	l.Mine(t, 1)
	o, err := c.Sender.Outcome(t.Context(), []chain.TxHash{tx}, p)
	if err != nil || o == nil || !o.Paid {
		t.Errorf("outcome: got %+v, %v, want it paid", o, err)
	}
	if got := l.held(t, o.Block, p.To, ""); got != p.Amount {
		t.Errorf("got a balance of %v, want %v", got, p.Amount)
	}
}

func TestNoAnswerToSendIsARefusal(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	proxy := newProxy(t, l.node)
	c := newChain(t, config(proxy.URL))
	_, signed, _ := l.ready(t, c, "")
	for _, message := range []string{
		"nonce too low", "insufficient funds for gas * price + value", "replacement transaction underpriced",
		"intrinsic gas too low", "txpool is full", "internal error",
	} {
		proxy.SetRule("eth_sendRawTransaction",
			func(e *exchange) { e.SetError(`{"code":-32000,"message":"` + message + `"}`) })
		if a, said := c.Sender.Send(t.Context(), signed); a != chain.Unknown || !strings.Contains(said, message) {
			t.Errorf("%s: got %v %q, want Unknown with what was said", message, a, said)
		}
	}
	for _, message := range []string{
		"already known", "Known transaction", "transaction already imported",
		"AlreadyKnown", "ALREADY_EXISTS: already known",
	} {
		proxy.SetRule("eth_sendRawTransaction",
			func(e *exchange) { e.SetError(`{"code":-32000,"message":"` + message + `"}`) })
		if a, said := c.Sender.Send(t.Context(), signed); a != chain.Known {
			t.Errorf("%s: got %v %q, want Known", message, a, said)
		}
	}
	proxy.SetRule("eth_sendRawTransaction", func(e *exchange) { e.SetResult(`"0x` + strings.Repeat("ee", 32) + `"`) })
	if a, said := c.Sender.Send(t.Context(), signed); a != chain.Unknown {
		t.Errorf("another hash: got %v %q, want Unknown", a, said)
	}
}

func TestSendGoesToEveryProvider(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	dead, alive := newProxy(t, l.node), newProxy(t, l.node)
	cfg := config(dead.URL, alive.URL)
	cfg.Quorum = 1
	c := newChain(t, cfg)
	_, signed, _ := l.ready(t, c, "")
	dead.SetRule("eth_sendRawTransaction",
		func(e *exchange) { e.SetError(`{"code":-32000,"message":"txpool is full"}`) })
	a, said := c.Sender.Send(t.Context(), signed)
	// The first proxy passes on what it receives and denies it, so anvil may know the bytes when
	// the second one sends them.
	if a == chain.Unknown || !strings.Contains(said, "txpool is full") {
		t.Errorf("got %v %q, want it taken and both answers", a, said)
	}
	if dead.CallCount("eth_sendRawTransaction") != 1 || alive.CallCount("eth_sendRawTransaction") != 1 {
		t.Error("got a provider that was not asked, want both to be")
	}
}

// A false provider that reports a failure would cause a refund of a payment that arrived.
func TestAnInventedOutcomeIsAnError(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	proxy := newProxy(t, l.node)
	c := newChain(t, config(proxy.URL))
	p, signed, tx := l.ready(t, c, l.Token())
	c.Sender.Send(t.Context(), signed)
	l.Mine(t, 1)
	failed := func(m map[string]any) { m["status"], m["logs"] = "0x0", []any{} }
	proxy.SetRule("eth_getTransactionReceipt", func(e *exchange) { e.EditResult(t, failed) })
	proxy.SetRule("eth_getBlockReceipts", func(e *exchange) {
		e.EditList(t, func(list []map[string]any) []map[string]any {
			for _, r := range list {
				failed(r)
			}
			return list
		})
	})
	if o, err := c.Sender.Outcome(t.Context(), []chain.TxHash{tx}, p); err == nil {
		t.Errorf("got %+v, want an error", o)
	}
	proxy.SetRule("eth_getBlockReceipts", nil)
	if o, err := c.Sender.Outcome(t.Context(), []chain.TxHash{tx}, p); err != nil || o == nil || !o.Paid {
		t.Errorf("only its receipt altered: got %+v, %v, want it paid", o, err)
	}
	proxy.SetRule("eth_getTransactionReceipt", func(e *exchange) {
		e.EditResult(t, func(m map[string]any) { m["blockHash"] = l.latest(t).Parent })
	})
	if o, err := c.Sender.Outcome(t.Context(), []chain.TxHash{tx}, p); err == nil {
		t.Errorf("in another block: got %+v, want an error", o)
	}
}

func TestNowhereIsOnlySaidWhenEnoughHaveLooked(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	one, two := newProxy(t, l.node), newProxy(t, l.node)
	c := newChain(t, config(one.URL, two.URL))
	p, signed, tx := l.ready(t, c, "")
	txs := []chain.TxHash{tx}
	if o, err := c.Sender.Outcome(t.Context(), txs, p); err != nil || o != nil {
		t.Errorf("not sent: got %+v, %v, want nothing", o, err)
	}
	two.SetRule("eth_getTransactionReceipt", func(e *exchange) { e.DropConnection() })
	if o, err := c.Sender.Outcome(t.Context(), txs, p); err == nil {
		t.Errorf("one has not looked: got %+v, want an error", o)
	}
	c.Sender.Send(t.Context(), signed)
	l.Mine(t, 1)
	if o, err := c.Sender.Outcome(t.Context(), txs, p); err != nil || o == nil || !o.Paid {
		t.Errorf("the other has it: got %+v, %v, want it paid", o, err)
	}
	one.SetRule("eth_getTransactionReceipt", func(e *exchange) { e.SetResult("null") })
	two.SetRule("eth_getTransactionReceipt", nil)
	if o, err := c.Sender.Outcome(t.Context(), txs, p); err != nil || o == nil || !o.Paid {
		t.Errorf("one is behind: got %+v, %v, want it paid", o, err)
	}
}

// ahead lets a provider report a much longer chain, and a higher nonce of every account.
func ahead(t testing.TB, p *proxy, nonce string) {
	p.SetRule("eth_getBlockByNumber", func(e *exchange) {
		e.EditResult(t, func(m map[string]any) {
			height, err := hexutil.DecodeUint64(m["number"].(string))
			if err != nil {
				t.Error(err)
			}
			m["number"] = hexutil.EncodeUint64(height + 1000)
		})
	})
	p.SetRule("eth_getTransactionCount", func(e *exchange) { e.SetResult(nonce) })
}

// behind lets a provider report the chain at a height, as final and as latest.
func behind(t testing.TB, l *lab, p *proxy, height uint64) {
	at := hexutil.EncodeUint64(height)
	old := func(e *exchange) {
		var params []any
		for _, raw := range e.Params {
			params = append(params, raw)
		}
		blockRef := slices.IndexFunc(e.Params, func(p json.RawMessage) bool {
			return string(p) == `"latest"` || string(p) == `"finalized"`
		})
		if blockRef < 0 {
			return
		}
		params[blockRef] = at
		var was rawJSON
		if err := l.node.RPC.CallContext(t.Context(), &was, e.Method, params...); err != nil {
			t.Error(err)
		}
		e.SetResult(string(was))
	}
	p.SetRule("eth_getBlockByNumber", old)
	p.SetRule("eth_getTransactionCount", old)
}

// records lets a provider keep its answers, and repeat them after the chain has changed.
func records(p *proxy) {
	var mu sync.Mutex
	said := map[string]json.RawMessage{}
	p.SetRule("*", func(e *exchange) {
		mu.Lock()
		defer mu.Unlock()
		question := fmt.Sprintf("%s %s", e.Method, e.Params)
		if before, ok := said[question]; ok {
			e.SetResult(string(before))
			return
		}
		said[question] = e.Result
	})
}

// A block that one provider invents is never proven final: a provider that returns it as the block
// of a payment of ours keeps that payment from being settled.
func TestOneProviderAloneDoesNotSayWhichBlockHasOurTransaction(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	liar := newProxy(t, l.node)
	records(liar)
	p, signed, tx := l.ready(t, l.chain, "")
	l.chain.Sender.Send(t.Context(), signed)
	l.Mine(t, 1)
	txs := []chain.TxHash{tx}
	before, err := newChain(t, config(liar.URL)).Sender.Outcome(t.Context(), txs, p)
	if err != nil || before == nil {
		t.Fatalf("before the fork: got %+v, %v, want it in a block", before, err)
	}
	l.Mine(t, 1)
	l.Fork(t, 2, tx)
	truth, err := newChain(t, config(l.node.URL)).Sender.Outcome(t.Context(), txs, p)
	if err != nil || truth == nil || truth.Block.Hash == before.Block.Hash {
		t.Fatalf("after the fork: got %+v, %v, want another block than %s", truth, err, before.Block.Hash)
	}
	one, two := newProxy(t, l.node), newProxy(t, l.node)
	for _, agree := range []int{1, 2} {
		for _, urls := range [][]string{
			{liar.URL, one.URL, two.URL},
			{one.URL, liar.URL, two.URL},
			{one.URL, two.URL, liar.URL},
		} {
			cfg := config(urls...)
			cfg.Quorum = agree
			if got, err := newChain(t, cfg).Sender.Outcome(t.Context(), txs, p); err != nil || got == nil ||
				*got != *truth {
				t.Errorf("agree %d, the liar among %v: got %+v, %v, want %+v", agree, urls, got, err, *truth)
			}
		}
	}
}

func TestAnAccountStandsWhereEnoughProvidersHaveIt(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	p, signed, _ := l.ready(t, l.chain, "")
	heads, err := l.chain.Reader.Heads(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l.chain.Sender.Send(t.Context(), signed)
	l.Finalize(t)
	l.Finalize(t)
	says := func(n string) func(*proxy) {
		return func(p *proxy) {
			p.SetRule("eth_getTransactionCount", func(e *exchange) { e.SetResult(n) })
		}
	}
	lags := func(p *proxy) { behind(t, l, p, heads.Latest.Height) }
	lost := func(p *proxy) { p.SetRule("eth_getTransactionCount", func(e *exchange) { e.DropConnection() }) }
	null := says("null")
	true1 := func(*proxy) {}
	far := func(n string) func(*proxy) { return func(p *proxy) { ahead(t, p, n) } }
	used, unused, invented := &chain.Account{Latest: 1, Final: 1}, &chain.Account{}, &chain.Account{Latest: 7, Final: 7}
	for _, c := range []struct {
		name      string
		agree     int
		providers []func(*proxy)
		want      *chain.Account // nil: an error
	}{
		{"all have it", 2, []func(*proxy){true1, true1}, used},
		{"one of two lags", 1, []func(*proxy){true1, lags}, used},
		{"one of three lags", 2, []func(*proxy){lags, true1, true1}, used},
		{"one of three lags, one is enough", 1, []func(*proxy){lags, true1, true1}, used},
		// A provider that is alone ahead of two may be right, and may be false.
		{"two of three lag, one is enough", 1, []func(*proxy){lags, true1, lags}, unused},
		{"two of three lag", 2, []func(*proxy){lags, true1, lags}, unused},
		{"both have to say so, one lags", 2, []func(*proxy){true1, lags}, unused},
		{"all three have to say so, one lags", 3, []func(*proxy){true1, lags, true1}, unused},
		{"all three have to say so, one denies", 3, []func(*proxy){true1, says(`"0x0"`), true1}, unused},
		{"a liar says it is not used", 2, []func(*proxy){says(`"0x0"`), true1, true1}, used},
		{"a liar says that more are used", 2, []func(*proxy){says(`"0x7"`), true1, true1}, used},
		{"a liar and one that lags", 2, []func(*proxy){says(`"0x7"`), true1, lags}, used},
		{"a liar against two, where one is enough", 1, []func(*proxy){says(`"0x7"`), true1, true1}, used},
		{"one against one", 1, []func(*proxy){says(`"0x7"`), true1}, used},
		{
			"a fork took it back, and one has not seen that", 1,
			[]func(*proxy){true1, says(`"0x0"`), says(`"0x0"`)},
			unused,
		},
		{"a fork took it back, one against one", 1, []func(*proxy){true1, says(`"0x0"`)}, unused},
		{"a liar ahead says that more are used", 2, []func(*proxy){far(`"0x7"`), true1, true1}, used},
		{"a liar ahead says that it is not used", 2, []func(*proxy){far(`"0x0"`), true1, true1}, used},
		{"a liar ahead of two, where one is enough", 1, []func(*proxy){far(`"0x7"`), true1, true1}, used},
		{"a liar ahead of two denies, where one is enough", 1, []func(*proxy){far(`"0x0"`), true1, true1}, used},
		{"a liar ahead of one denies, where one is enough", 1, []func(*proxy){far(`"0x0"`), true1}, unused},
		// With two providers of which one is enough, the one that is ahead is believed, because the
		// other may lag. So is a single provider.
		{"a liar ahead of one, where one is enough", 1, []func(*proxy){far(`"0x7"`), true1}, invented},
		{"a liar alone", 1, []func(*proxy){says(`"0x7"`)}, invented},
		{"a liar, and two who answer with errors", 1, []func(*proxy){says(`"0x7"`), lost, lost}, invented},
		{"a liar, and one of two who answers", 2, []func(*proxy){says(`"0x7"`), true1, lost}, used},
		{"one is silent", 1, []func(*proxy){true1, lost}, used},
		{"one says nothing", 1, []func(*proxy){null, true1}, used},
		{"every provider is silent", 1, []func(*proxy){null, lost}, nil},
		{"too few say anything", 2, []func(*proxy){true1, lost, null}, nil},
	} {
		var urls []string
		for _, change := range c.providers {
			proxy := newProxy(t, l.node)
			change(proxy)
			urls = append(urls, proxy.URL)
		}
		for _, depth := range []uint64{0, 2} {
			cfg := config(urls...)
			cfg.Quorum, cfg.Finality.Depth = c.agree, depth
			got, err := newChain(t, cfg).Sender.Account(t.Context(), p.From)
			if c.want == nil {
				if err == nil {
					t.Errorf("%s, depth %d: got %+v, want an error", c.name, depth, got)
				}
				continue
			}
			if err != nil || !reflect.DeepEqual(got, *c.want) {
				t.Errorf("%s, depth %d: got %+v, %v, want %+v", c.name, depth, got, err, *c.want)
				continue
			}
			// A payment whose nonce is used is settled, and gets no fee bump.
			first := chain.Slot{}
			if latest, final := got.IsUsed(first); latest != (c.want != unused) || final != latest ||
				got.IsNext(first) == latest {
				t.Errorf("%s, depth %d: got used %v, final %v, next %v", c.name, depth, latest, final,
					got.IsNext(first))
			}
		}
	}
}

// One of two providers has not seen the block of a payment, and says so for a lower final block
// too. That denies the payment in the latest block only.
func TestWhatIsFinalIsInTheLatestBlockToo(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	p, signed, _ := l.ready(t, l.chain, "")
	l.chain.Sender.Send(t.Context(), signed)
	l.Finalize(t)
	l.Finalize(t)
	lags := newProxy(t, l.node)
	lags.SetRule("eth_getTransactionCount", func(e *exchange) { e.SetResult(`"0x0"`) })
	lags.SetRule("eth_getBlockByNumber", func(e *exchange) {
		if string(e.Params[0]) != `"finalized"` {
			return
		}
		e.EditResult(t, func(m map[string]any) {
			height, err := hexutil.DecodeUint64(m["number"].(string))
			if err != nil {
				t.Error(err)
			}
			m["number"] = hexutil.EncodeUint64(height - 1)
		})
	})
	cfg := config(newProxy(t, l.node).URL, lags.URL)
	cfg.Quorum, cfg.Finality.Depth = 1, 0
	got, err := newChain(t, cfg).Sender.Account(t.Context(), p.From)
	if want := (chain.Account{Latest: 1, Final: 1}); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

func TestAQuoteSaysWhyAPaymentIsHopeless(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	refuser, err := l.node.DeployContract(t.Context(), evmtoken.Refuser)
	if err != nil {
		t.Fatal(err)
	}
	falsy, err := l.node.DeployContract(t.Context(), evmtoken.FalseToken, "F", "F", uint8(6))
	if err != nil {
		t.Fatal(err)
	}
	p, _, _ := l.ready(t, l.chain, l.Token())
	blocked := l.Account(t)
	l.RefusePayments(t, blocked)
	for what, c := range map[string]struct {
		p    chain.Payment
		word string
	}{
		"a token that answers false": {chain.Payment{
			From: p.From, To: p.To, Contract: evmtx.Canonical(falsy),
			Amount: p.Amount,
		}, "would not transfer"},
		"no contract": {
			chain.Payment{From: p.From, To: p.To, Contract: l.Account(t), Amount: p.Amount},
			"no contract",
		},
		"a contract that refuses": {
			chain.Payment{From: p.From, To: evmtx.Canonical(refuser), Amount: p.Amount},
			"no, thank you",
		},
		"more tokens than there are": {chain.Payment{
			From: p.From, To: p.To, Contract: l.Token(),
			Amount: money.Units(1001),
		}, "balance too small"},
		"a blacklisted receiver": {
			chain.Payment{From: p.From, To: blocked, Contract: l.Token(), Amount: p.Amount},
			"blacklisted",
		},
		"more coin than there is": {
			chain.Payment{From: p.From, To: p.To, Amount: money.Units(2 * params.Ether)},
			"less than the amount",
		},
	} {
		fees, err := l.chain.Sender.Quote(t.Context(), c.p)
		var reverted *chain.RevertedError
		if !errors.As(err, &reverted) || !strings.Contains(reverted.Reason, c.word) {
			t.Errorf("%s: got %+v, %v, want a refusal with %q", what, fees, err, c.word)
		}
	}
}

func TestATroubledProviderProvesNoRevert(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	proxy := newProxy(t, l.node)
	c := newChain(t, config(proxy.URL))
	p, _, _ := l.ready(t, c, l.Token())
	for _, method := range []string{"eth_call", "eth_estimateGas", "eth_feeHistory", "eth_getCode", "eth_getBalance"} {
		for what, trouble := range map[string]rule{
			"limit": func(e *exchange) { e.SetError(`{"code":-32005,"message":"daily request count exceeded"}`) },
			"state": func(e *exchange) { e.SetError(`{"code":-32000,"message":"header not found"}`) },
			"lost":  func(e *exchange) { e.DropConnection() },
		} {
			proxy.SetRule(method, trouble)
			_, err := c.Sender.Quote(t.Context(), p)
			var reverted *chain.RevertedError
			if err == nil || errors.As(err, &reverted) {
				t.Errorf("%s %s: got %v, want an error that proves nothing", method, what, err)
			}
		}
		proxy.SetRule(method, nil)
	}
}

// A sweep is quoted to find how much gas its address needs.
func TestATokenPaymentIsQuotedBeforeItsGasIsThere(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	usdt := evmtx.Canonical(l.tokens.USDT.Address)
	for _, token := range []chain.Address{l.Token(), usdt} {
		p := chain.Payment{From: l.Account(t), To: l.Account(t), Contract: token, Amount: money.Units(1000)}
		l.Fund(t, p.From, token, p.Amount)
		fees, err := l.chain.Sender.Quote(t.Context(), p)
		if err != nil || fees.GasLimit < 50_000 || fees.GasLimit > 150_000 {
			t.Errorf("%s: got %+v, %v, want the gas of a transfer", token, fees, err)
		}
	}
}

func TestFeesFollowTheMarketUpToTheCap(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	proxy := newProxy(t, l.node)
	c := newChain(t, config(proxy.URL))
	market := func(base, tip *big.Int) rule {
		return func(e *exchange) {
			e.SetResult(`{"oldestBlock":"0x1","baseFeePerGas":["0x1","` + hexutil.EncodeBig(base) +
				`"],"reward":[["0x0"],["` + hexutil.EncodeBig(tip) + `"]]}`)
		}
	}
	gwei := func(n int64) *big.Int { return big.NewInt(n * params.GWei) }
	huge := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 256), big.NewInt(1))
	for _, m := range []struct {
		base, tip *big.Int
		cap, want money.Amount
	}{
		{gwei(10), gwei(1), money.Units(21 * params.GWei), money.Units(params.GWei)},
		{gwei(10), gwei(50), money.Units(22 * params.GWei), money.Units(2 * params.GWei)}, // the tip's cap
		{gwei(90), gwei(1), feeCap, money.Units(params.GWei)},
		{huge, huge, feeCap, money.Units(2 * params.GWei)},
		{big.NewInt(0), big.NewInt(0), money.Units(1_000_000), money.Units(1_000_000)}, // the least tip
	} {
		proxy.SetRule("eth_feeHistory", market(m.base, m.tip))
		got, err := c.Sender.TransferFees(t.Context())
		if err != nil || got.FeeCap != m.cap || got.TipCap != m.want {
			t.Errorf("base %v, tip %v: got %+v, %v, want %v and %v", m.base, m.tip, got, err, m.cap, m.want)
		}
	}
	last := chain.Fees{GasLimit: 21_000, TipCap: money.Units(params.GWei), FeeCap: money.Units(20 * params.GWei)}
	proxy.SetRule("eth_feeHistory", market(gwei(1), gwei(1)))
	got, ok, err := c.Sender.Bump(t.Context(), last)
	if err != nil || !ok || got.TipCap != money.Units(1_125_000_001) || got.FeeCap != money.Units(22_500_000_001) {
		t.Errorf("quiet market: got %+v, %v, %v, want an eighth more", got, ok, err)
	}
	proxy.SetRule("eth_feeHistory", market(gwei(40), gwei(2)))
	if got, ok, err = c.Sender.Bump(t.Context(), last); err != nil || !ok || got.FeeCap != money.Units(82*params.GWei) {
		t.Errorf("busy market: got %+v, %v, %v, want what it asks for", got, ok, err)
	}
	last.FeeCap = money.Units(95 * params.GWei)
	if got, ok, err = c.Sender.Bump(t.Context(), last); err != nil || ok {
		t.Errorf("at the cap: got %+v, %v, %v, want no proposal", got, ok, err)
	}
	if payload, err := c.Sender.Build(l.Account(t), chain.Slot{},
		chain.Fees{GasLimit: 21_000, FeeCap: money.Units(101 * params.GWei)}); err == nil {
		t.Errorf("above the cap: got %x, want an error", payload)
	}
	proxy.SetRule("eth_feeHistory", func(e *exchange) { e.SetResult(`{"baseFeePerGas":[],"reward":null}`) })
	if got, err := c.Sender.TransferFees(t.Context()); err == nil {
		t.Errorf("no history: got %+v, want an error", got)
	}
}

func TestManyMayAskAtOnce(t *testing.T) {
	t.Parallel()
	s := newProxiedLab(t, 2)
	c := s.open(t, 2, func(c *evm.Config) { c.Trace = evm.TraceAuto })
	errs := make(chan error)
	const askers = 16
	for range askers {
		go func() {
			got, err := final(t, c, s.height)
			if err == nil && len(got.Transfers) != traced {
				err = errors.New("transfers are missing")
			}
			if err == nil {
				_, err = c.Reader.Heads(t.Context())
			}
			if err == nil {
				_, err = c.Reader.Balances(t.Context(), got.Block, []chain.Holding{{Address: s.to}})
			}
			errs <- err
		}()
	}
	for range askers {
		if err := <-errs; err != nil {
			t.Errorf("got %v, want the same block for everyone", err)
		}
	}
}
