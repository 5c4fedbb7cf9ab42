package evm_test

import (
	"errors"
	"math/big"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/money"
)

// proxiedLab is a chain whose final block has one movement of each kind, read through proxies.
type proxiedLab struct {
	*lab
	proxies []*proxy
	height  uint64
	to      chain.Address
}

// traced and untraced are the numbers of movements in that block: an internal one begins with a
// native one to the contract.
const traced, untraced = 4, 3

func newProxiedLab(t *testing.T, proxies int) *proxiedLab {
	t.Helper()
	s := &proxiedLab{lab: newLab(t)}
	s.to = s.Account(t)
	for _, k := range s.Kinds() {
		s.Pay(t, k, s.to, money.Units(1000))
	}
	s.Mine(t, 1)
	h, err := s.chain.Reader.Heads(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.height = h.Latest.Height
	s.Finalize(t)
	for range proxies {
		s.proxies = append(s.proxies, newProxy(t, s.node))
	}
	return s
}

func (s *proxiedLab) open(t *testing.T, agree int, change func(*evm.Config)) chain.Chain {
	t.Helper()
	var urls []string
	for _, p := range s.proxies {
		urls = append(urls, p.URL)
	}
	cfg := config(urls...)
	cfg.Quorum = agree
	if change != nil {
		change(&cfg)
	}
	return newChain(t, cfg)
}

func otherHash(t testing.TB) rule {
	return func(e *exchange) {
		e.EditResult(t, func(m map[string]any) {
			m["hash"] = "0x" + strings.Repeat("ab", 32)
		})
	}
}

func TestProvidersThatContradictOneAnotherStopTheWalk(t *testing.T) {
	t.Parallel()
	s := newProxiedLab(t, 2)
	for _, agree := range []int{1, 2} {
		c := s.open(t, agree, nil)
		s.proxies[1].SetRule("eth_getBlockByNumber", otherHash(t))
		got, err := final(t, c, s.height)
		if !errors.Is(err, chain.ErrDisagreement) {
			t.Errorf("agree %d: got %+v, %v, want ErrDisagreement", agree, got, err)
		}
		s.proxies[1].SetRule("eth_getBlockByNumber", nil)
		if _, err := final(t, c, s.height); err != nil {
			t.Errorf("agree %d, truthful again: got %v, want the block", agree, err)
		}
	}
}

func TestAMajorityOutvotesALiar(t *testing.T) {
	t.Parallel()
	s := newProxiedLab(t, 3)
	c := s.open(t, 2, nil)
	s.proxies[0].SetRule("eth_getBlockByNumber", otherHash(t))
	got, err := final(t, c, s.height)
	if err != nil || got.Providers != 2 || len(got.Transfers) != traced {
		t.Errorf("got %+v, %v, want the block by two", got, err)
	}
}

func TestWhatTooFewCallFinalIsNotYetFinal(t *testing.T) {
	t.Parallel()
	s := newProxiedLab(t, 3)
	c := s.open(t, 2, nil)
	truth, err := c.Reader.Heads(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	top := truth.Final.Height
	// Alone, a provider that is behind changes nothing.
	behind := func(e *exchange) {
		if string(e.Params[0]) == `"finalized"` {
			e.SetResult(string(block(t, s, top-1)))
		}
	}
	s.proxies[2].SetRule("eth_getBlockByNumber", behind)
	if h, err := c.Reader.Heads(t.Context()); err != nil || h.Final.Height != top {
		t.Errorf("one behind: got %+v, %v, want final %d", h, err, top)
	}
	if _, err := final(t, c, top); err != nil {
		t.Errorf("one behind: got %v, want the block", err)
	}
	s.proxies[0].SetRule("eth_getBlockByNumber", behind)
	if h, err := c.Reader.Heads(t.Context()); err != nil || h.Final.Height != top-1 {
		t.Errorf("two behind: got %+v, %v, want final %d", h, err, top-1)
	}
	if got, err := final(t, c, top); !errors.Is(err, chain.ErrNotYet) {
		t.Errorf("two behind: got %+v, %v, want ErrNotYet", got, err)
	}
	if _, err := final(t, c, top-1); err != nil {
		t.Errorf("two behind, one block lower: got %v, want the block", err)
	}
}

// block returns the block at a height as anvil has it.
func block(t testing.TB, s *proxiedLab, height uint64) []byte {
	t.Helper()
	var raw rawJSON
	if err := s.node.RPC.CallContext(t.Context(), &raw, "eth_getBlockByNumber", hexutil.Uint64(height),
		false); err != nil {
		t.Fatal(err)
	}
	return raw
}

type rawJSON []byte

func (r *rawJSON) UnmarshalJSON(b []byte) error {
	*r = append((*r)[:0], b...)
	return nil
}

// receiptLies are false answers that a provider may give about receipts.
func receiptLies(t testing.TB) map[string]rule {
	list := func(change func([]map[string]any) []map[string]any) rule {
		return func(e *exchange) { e.EditList(t, change) }
	}
	logs := func(change func([]any) []any) rule {
		return list(func(l []map[string]any) []map[string]any {
			for _, r := range l {
				if all := r["logs"].([]any); len(all) > 0 {
					r["logs"] = change(all)
				}
			}
			return l
		})
	}
	return map[string]rule{
		"null":             func(e *exchange) { e.SetResult("null") },
		"empty":            func(e *exchange) { e.SetResult("[]") },
		"one short":        list(func(l []map[string]any) []map[string]any { return l[1:] }),
		"one too many":     list(func(l []map[string]any) []map[string]any { return append(l, l[0]) }),
		"a null among":     func(e *exchange) { e.SetResult("[null,null,null]") },
		"another order":    list(func(l []map[string]any) []map[string]any { l[0], l[1] = l[1], l[0]; return l }),
		"without logs":     logs(func([]any) []any { return []any{} }),
		"with a null log":  logs(func(l []any) []any { return append(l, nil) }),
		"with a log twice": logs(func(l []any) []any { return append(l, l[0]) }),
		"of more": logs(func(l []any) []any {
			l[0].(map[string]any)["data"] = "0x" + strings.Repeat("00", 31) + "ff"
			return l
		}),
		"failed": list(func(l []map[string]any) []map[string]any { l[0]["status"] = "0x0"; return l }),
		"cheaper": list(func(l []map[string]any) []map[string]any {
			l[0]["cumulativeGasUsed"] = "0x1"
			return l
		}),
		"an error": func(e *exchange) { e.SetError(`{"code":-32015,"message":"try again"}`) },
		"lost":     func(e *exchange) { e.DropConnection() },
		"rubbish":  func(e *exchange) { e.SetResult(`{"a":1}`) },
	}
}

func TestReceiptsThatAreWrongAreAnErrorAndNeverAnEmptyBlock(t *testing.T) {
	t.Parallel()
	s := newProxiedLab(t, 2)
	alone := newChain(t, config(s.proxies[0].URL))
	for name, lie := range receiptLies(t) {
		s.proxies[0].SetRule("eth_getBlockReceipts", lie)
		if got, err := final(t, alone, s.height); err == nil {
			t.Errorf("%s: got %+v, want an error", name, got)
		} else if strings.Contains(err.Error(), "a-secret-key") {
			t.Errorf("%s: got the endpoint's secret in %q", name, err)
		}
		if got, err := recent(t, alone, s.height); err == nil {
			t.Errorf("%s, recent: got %+v, want an error", name, got)
		}
		// Another provider answers, in an adapter with an empty cache.
		both := s.open(t, 2, nil)
		if got, err := final(t, both, s.height); err != nil || len(got.Transfers) != traced {
			t.Errorf("%s, with an honest one: got %+v, %v, want all transfers", name, got, err)
		}
	}
}

func TestFieldsThatNoRootCoversAreNotBelieved(t *testing.T) {
	t.Parallel()
	s := newProxiedLab(t, 1)
	want, err := final(t, s.chain, s.height)
	if err != nil {
		t.Fatal(err)
	}
	s.proxies[0].SetRule("eth_getBlockReceipts", func(e *exchange) {
		e.EditList(t, func(l []map[string]any) []map[string]any {
			for _, r := range l {
				r["gasUsed"], r["effectiveGasPrice"], r["from"] = "0x1", "0x1", "0x"+strings.Repeat("11", 20)
				for _, log := range r["logs"].([]any) {
					log.(map[string]any)["logIndex"] = "0x63"
				}
			}
			return l
		})
	})
	s.proxies[0].SetRule("eth_getBlockByHash", func(e *exchange) {
		e.EditResult(t, func(m map[string]any) {
			for _, tx := range m["transactions"].([]any) {
				tx.(map[string]any)["from"] = "0x" + strings.Repeat("22", 20)
			}
		})
	})
	got, err := final(t, s.open(t, 1, nil), s.height)
	if err != nil {
		t.Fatal(err)
	}
	for i := range want.Transfers {
		if got.Transfers[i] != want.Transfers[i] {
			t.Errorf("transfer %d: got %+v, want %+v", i, got.Transfers[i], want.Transfers[i])
		}
	}
	for i := range want.Fees {
		if got.Fees[i] != want.Fees[i] {
			t.Errorf("fee %d: got %+v, want %+v", i, got.Fees[i], want.Fees[i])
		}
	}
}

func TestABlockThatDoesNotGiveItsHashIsRefused(t *testing.T) {
	t.Parallel()
	s := newProxiedLab(t, 1)
	for name, c := range map[string]struct {
		change func(map[string]any)
		want   error
	}{
		"header altered": {func(m map[string]any) { m["gasUsed"] = "0x1" }, chain.ErrUndecodable},
		"header of tomorrow": {func(m map[string]any) {
			m["hash"] = "0x" + strings.Repeat("cd", 32)
		}, chain.ErrUndecodable},
		"transaction left out": {func(m map[string]any) { m["transactions"] = m["transactions"].([]any)[1:] }, nil},
		"no transactions":      {func(m map[string]any) { m["transactions"] = []any{} }, nil},
		"only their hashes": {func(m map[string]any) {
			m["transactions"] = []any{"0x" + strings.Repeat("cd", 32)}
		}, chain.ErrUndecodable},
		"value altered": {func(m map[string]any) {
			m["transactions"].([]any)[0].(map[string]any)["value"] = "0xffff"
		}, nil},
		"unknown type": {func(m map[string]any) {
			m["transactions"].([]any)[0].(map[string]any)["type"] = "0x7e"
		}, chain.ErrUndecodable},
	} {
		s.proxies[0].SetRule("eth_getBlockByHash", func(e *exchange) { e.EditResult(t, c.change) })
		got, err := final(t, s.open(t, 1, nil), s.height)
		if err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: got %+v, %v, want an error (%v)", name, got, err, c.want)
		}
	}
	s.proxies[0].SetRule("eth_getBlockByHash", func(e *exchange) { e.SetResult("null") })
	if got, err := final(t, s.open(t, 1, nil), s.height); err == nil {
		t.Errorf("no block: got %+v, want an error", got)
	}
}

const (
	wholeTrace = "debug_traceBlockByHash"
	oneTrace   = "debug_traceTransaction"
)

// traces sets the rule of every trace that a provider gives.
func traces(p *proxy, r rule) {
	p.SetRule(wholeTrace, r)
	p.SetRule(oneTrace, r)
}

func TestWhatNobodyTracesIsSaidAndNeverLeftOut(t *testing.T) {
	t.Parallel()
	s := newProxiedLab(t, 3)
	alone := newChain(t, config(s.proxies[0].URL))
	at, err := alone.Reader.Final(t.Context(), s.height)
	if err != nil {
		t.Fatal(err)
	}
	// One does not answer at all: nothing is known. The others answer, and say nothing about it.
	for name, lie := range map[string]rule{
		"refused": func(e *exchange) { e.SetError(`{"code":-32005,"message":"daily limit exceeded"}`) },
		"gone":    func(e *exchange) { e.SetError(`{"code":-32601,"message":"the method does not exist"}`) },
		"pruned":  func(e *exchange) { e.SetError(`{"code":-32000,"message":"required historical state unavailable"}`) },
		"lost":    func(e *exchange) { e.DropConnection() },
	} {
		traces(s.proxies[0], lie)
		if got, err := alone.Reader.(chain.Tracer).BalanceChanges(t.Context(), at.Block,
			chain.QuorumOfProviders); err == nil {
			t.Errorf("%s: got %+v, want an error", name, got)
		}
	}
	for name, lie := range map[string]rule{
		"null":      func(e *exchange) { e.SetResult("null") },
		"timed out": func(e *exchange) { e.SetError(`{"code":-32000,"message":"execution timeout"}`) },
		"empty":     func(e *exchange) { e.SetResult("[]") },
		"no trace":  func(e *exchange) { e.SetResult("7") },
		"too long": func(e *exchange) {
			e.SetResult(`{"pre":{},"post":{` +
				strings.Repeat(`"0x00000000000000000000000000000000000000aa":{"balance":"0x1"},`, 200_000) + `}}`)
		},
	} {
		traces(s.proxies[0], lie)
		got, err := alone.Reader.(chain.Tracer).BalanceChanges(t.Context(), at.Block, chain.QuorumOfProviders)
		if err != nil || len(got.Untraceable) == 0 || !got.Traced {
			t.Errorf("%s: got %+v, %v, want transactions that nothing is known about", name, got, err)
		}
		traces(s.proxies[0], nil)
		both := s.open(t, 2, nil)
		traces(s.proxies[0], lie)
		if got, err := final(t, both, s.height); err != nil || !got.Traced || len(got.Transfers) != traced {
			t.Errorf("%s, with honest ones: got %+v, %v, want all transfers", name, got, err)
		}
	}
}

func TestWhereTheWholeBlockIsNotTracedItsTransactionsAre(t *testing.T) {
	t.Parallel()
	s := newProxiedLab(t, 1)
	c := s.open(t, 1, nil)
	for name, lie := range map[string]rule{
		"gone":      func(e *exchange) { e.SetError(`{"code":-32601,"message":"the method does not exist"}`) },
		"null":      func(e *exchange) { e.SetResult("null") },
		"empty":     func(e *exchange) { e.SetResult("[]") },
		"timed out": func(e *exchange) { e.SetError(`{"code":-32000,"message":"execution timeout"}`) },
		"short":     func(e *exchange) { e.EditList(t, func(l []map[string]any) []map[string]any { return l[1:] }) },
		"twice": func(e *exchange) {
			e.EditList(t, func(l []map[string]any) []map[string]any {
				return append(l, l[0])
			})
		},
		"another's": func(e *exchange) {
			e.EditList(t, func(l []map[string]any) []map[string]any {
				l[0]["txHash"] = "0x" + strings.Repeat("ab", 32)
				return l
			})
		},
		"all failed": func(e *exchange) {
			e.EditList(t, func(l []map[string]any) []map[string]any {
				for i := range l {
					delete(l[i], "result")
					l[i]["error"] = "execution timeout"
				}
				return l
			})
		},
		"too long": func(e *exchange) {
			e.EditList(t, func(l []map[string]any) []map[string]any {
				l[0]["result"] = strings.Repeat("x", 70<<20)
				return l
			})
		},
	} {
		s.proxies[0].SetRule(wholeTrace, lie)
		if got, err := final(t, c, s.height); err != nil || !got.Traced || len(got.Transfers) != traced {
			t.Errorf("%s: got %+v, %v, want all transfers", name, got, err)
		}
	}
}

func TestWithoutATracerOfChangesTheCallsAreTraced(t *testing.T) {
	t.Parallel()
	s := newProxiedLab(t, 1)
	unknown := func(e *exchange) {
		if strings.Contains(string(e.Params[1]), "prestateTracer") {
			e.SetError(`{"code":-32000,"message":"tracer not found"}`)
		}
	}
	ignored := func(e *exchange) {
		if strings.Contains(string(e.Params[1]), "prestateTracer") {
			e.EditResult(t, func(m map[string]any) {
				clear(m)
				m["0x00000000000000000000000000000000000000aa"] = map[string]any{"balance": "0x1"}
			})
		}
	}
	for name, r := range map[string]rule{"unknown": unknown, "without the mode": ignored} {
		traces(s.proxies[0], nil)
		if name == "unknown" {
			traces(s.proxies[0], r)
		}
		c := s.open(t, 1, nil)
		s.proxies[0].SetRule(oneTrace, r)
		if name == "without the mode" {
			s.proxies[0].SetRule(wholeTrace, func(e *exchange) { e.SetError(`{"code":-32000,"message":"not now"}`) })
		}
		if got, err := final(t, c, s.height); err != nil || !got.Traced || len(got.Transfers) != traced {
			t.Errorf("%s: got %+v, %v, want all transfers", name, got, err)
		}
	}
}

// A trace is one provider's word. Where several have to agree, they have to agree on this too.
func TestTracesOfCallsAreAgreedUponAndFit(t *testing.T) {
	t.Parallel()
	s := newProxiedLab(t, 3)
	c := s.open(t, 2, nil)
	one := s.open(t, 1, nil)
	honest, err := final(t, c, s.height)
	if err != nil {
		t.Fatal(err)
	}
	internal := honest.Transfers[len(honest.Transfers)-1]
	question := chain.InternalTransfersQuery{
		Block: honest.Block, Tx: internal.Tx, Recipients: []chain.Address{s.to},
		Providers: chain.QuorumOfProviders,
	}
	for name, lie := range map[string]rule{
		"invents": func(e *exchange) {
			e.SetResult(strings.ReplaceAll(string(e.Result), `"value":"0x3e8"`, `"value":"0xffff"`))
		},
		"hides": func(e *exchange) { e.EditResult(t, func(m map[string]any) { delete(m, "calls") }) },
		"of another sender": func(e *exchange) {
			e.EditResult(t, func(m map[string]any) { m["from"] = "0x00000000000000000000000000000000000000aa" })
		},
		"contradicts the receipt": func(e *exchange) {
			e.EditResult(t, func(m map[string]any) {
				m["error"] = "execution reverted"
			})
		},
		"unknown call": func(e *exchange) {
			e.SetResult(strings.ReplaceAll(string(e.Result), `"type":"CALL"`, `"type":"EXTCALL"`))
		},
		"lost": func(e *exchange) { e.DropConnection() },
	} {
		s.proxies[0].SetRule(oneTrace, lie)
		got, err := c.Reader.(chain.Tracer).InternalTransfers(t.Context(), question)
		if err != nil || len(got) != 1 || got[0] != internal {
			t.Errorf("%s, two have to agree: got %+v, %v, want %+v", name, got, err, internal)
		}
		fits := question
		fits.Check = func(moved []chain.Transfer) error {
			if len(moved) != 1 || moved[0].Amount != internal.Amount {
				return errors.New("the balances say otherwise")
			}
			return nil
		}
		got, err = one.Reader.(chain.Tracer).InternalTransfers(t.Context(), fits)
		if err != nil || len(got) != 1 || got[0] != internal {
			t.Errorf("%s, one is enough and the balances are known: got %+v, %v, want %+v", name, got, err, internal)
		}
	}
}

func TestWithoutTracesTheContentsSaySo(t *testing.T) {
	t.Parallel()
	s := newProxiedLab(t, 1)
	off := s.open(t, 1, func(c *evm.Config) { c.Trace = evm.TraceOff })
	s.proxies[0].SetRule("debug_traceBlockByHash",
		func(e *exchange) { e.SetError(`{"code":-32601,"message":"no such method"}`) })
	auto := s.open(t, 1, nil)
	for name, c := range map[string]chain.Chain{"off": off, "not offered": auto} {
		got, err := final(t, c, s.height)
		if err != nil || got.Traced || len(got.Transfers) != untraced {
			t.Errorf("%s: got %+v, %v, want what needs no trace", name, got, err)
		}
	}
	cfg := config(s.proxies[0].URL)
	cfg.Trace = evm.TraceOn
	if _, err := evm.New(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "debug_traceBlockByHash") {
		t.Errorf("on: got %v, want an error that names the method", err)
	}
	// A busy provider has not denied it.
	s.proxies[0].SetRule("debug_traceBlockByHash",
		func(e *exchange) { e.SetError(`{"code":-32005,"message":"limit exceeded"}`) })
	cfg.Trace = evm.TraceAuto
	if _, err := evm.New(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "limit exceeded") {
		t.Errorf("busy: got %v, want an error that says so", err)
	}
	s.proxies[0].SetRule("debug_traceBlockByHash", nil)
	on := s.open(t, 1, func(c *evm.Config) { c.Trace = evm.TraceOn })
	if got, err := final(t, on, s.height); err != nil || !got.Traced || len(got.Transfers) != traced {
		t.Errorf("on: got %+v, %v, want all transfers", got, err)
	}
}

func TestBalancesComeFromAProviderThatHasTheBlock(t *testing.T) {
	t.Parallel()
	s := newProxiedLab(t, 2)
	c := s.open(t, 1, nil)
	at, err := final(t, s.chain, s.height)
	if err != nil {
		t.Fatal(err)
	}
	// More than fits into one request.
	var of []chain.Holding
	for range 130 {
		of = append(of, chain.Holding{Address: s.to}, chain.Holding{Address: s.to, Contract: s.Token()})
	}
	for name, lie := range map[string]rule{
		"pruned":  func(e *exchange) { e.SetError(`{"code":-32000,"message":"missing trie node"}`) },
		"null":    func(e *exchange) { e.SetResult("null") },
		"nothing": func(e *exchange) { e.SetResult(`"0x"`) },
		"lost":    func(e *exchange) { e.DropConnection() },
	} {
		for _, method := range []string{"eth_getBalance", "eth_call"} {
			s.proxies[0].SetRule(method, lie)
			got, err := c.Reader.Balances(t.Context(), at.Block, of)
			if err != nil || len(got) != len(of) || got[0] != money.Units(2000) || got[1] != money.Units(1000) {
				t.Errorf("%s %s: got %v, %v, want 2000 and 1000", method, name, got, err)
			}
			s.proxies[1].SetRule(method, lie)
			if got, err := c.Reader.Balances(t.Context(), at.Block, of); err == nil {
				t.Errorf("%s %s on both: got %v, want an error", method, name, got)
			}
			s.proxies[0].SetRule(method, nil)
			s.proxies[1].SetRule(method, nil)
		}
	}
}

// A deposit by a contract is one provider's word; balances confirm it.
func TestOneLiarCannotConfirmItsOwnTraces(t *testing.T) {
	t.Parallel()
	s := newProxiedLab(t, 3)
	c := s.open(t, 2, nil)
	at, err := final(t, s.chain, s.height)
	if err != nil {
		t.Fatal(err)
	}
	of := []chain.Holding{{Address: s.to}}
	s.proxies[0].SetRule("eth_getBalance", func(e *exchange) { e.SetResult(`"0xffffffff"`) })
	if got, err := c.Reader.Balances(t.Context(), at.Block, of); err != nil || got[0] != money.Units(2000) {
		t.Errorf("one liar of three: got %v, %v, want 2000", got, err)
	}
	s.proxies[1].SetRule("eth_getBalance", func(e *exchange) { e.DropConnection() })
	if got, err := c.Reader.Balances(t.Context(), at.Block, of); !errors.Is(err, chain.ErrDisagreement) {
		t.Errorf("a liar and one that is gone: got %v, %v, want the disagreement", got, err)
	}
	s.proxies[2].SetRule("eth_getBalance", func(e *exchange) { e.DropConnection() })
	if got, err := c.Reader.Balances(t.Context(), at.Block, of); err == nil {
		t.Errorf("the liar alone: got %v, want an error", got)
	}
}

func TestATracerThatIsSilentAtTheStartIsWaitedFor(t *testing.T) {
	t.Parallel()
	s := newProxiedLab(t, 2)
	s.proxies[0].SetRule("debug_traceBlockByHash",
		func(e *exchange) { e.SetError(`{"code":-32601,"message":"no such method"}`) })
	s.proxies[1].SetRule("*", func(e *exchange) { e.DropConnection() })
	c := s.open(t, 1, nil)
	if got, err := final(t, c, s.height); err == nil {
		t.Errorf("while it is silent: got %+v, want an error", got)
	}
	s.proxies[1].SetRule("*", nil)
	deadline := time.Now().Add(20 * time.Second)
	for {
		got, err := final(t, c, s.height)
		if err == nil {
			if !got.Traced || len(got.Transfers) != traced {
				t.Errorf("got %+v, want all transfers", got)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("it answers again: got %v, want the block", err)
		}
	}
}

func TestATokenWithoutBalancesHidesNoOther(t *testing.T) {
	t.Parallel()
	s := newProxiedLab(t, 3)
	at, err := final(t, s.chain, s.height)
	if err != nil {
		t.Fatal(err)
	}
	sound := chain.Holding{Address: s.to, Contract: s.Token()}
	broken := []chain.Holding{
		{Address: s.to, Contract: evmtx.Canonical(s.batch)}, // has no such method and reverts
		{Address: s.to, Contract: s.to},                     // no code
	}
	of := append([]chain.Holding{{Address: s.to}, sound}, broken...)
	c := s.open(t, 2, nil)
	have, silent, err := chain.Balances(t.Context(), c.Reader, at.Block, of)
	if err != nil || have[sound] != money.Units(1000) || have[of[0]] != money.Units(2000) ||
		len(silent) != len(broken) {
		t.Fatalf("got %v, %v, %v, want the sound ones and two silent", have, silent, err)
	}
	for _, h := range broken {
		if silent[h] == "" {
			t.Errorf("%v: got no reason", h)
		}
	}
	// One false provider cannot put a sound token under quarantine, nor can a provider's failures.
	s.proxies[0].SetRule("eth_call", func(e *exchange) { e.SetError(`{"code":3,"message":"execution reverted"}`) })
	if have, silent, err := chain.Balances(t.Context(), c.Reader, at.Block, of[:2]); err != nil ||
		have[sound] != money.Units(1000) {
		t.Errorf("a liar: got %v, %v, %v, want the balance", have, silent, err)
	}
	for name, lie := range map[string]rule{
		"pruned": func(e *exchange) { e.SetError(`{"code":-32000,"message":"missing trie node"}`) },
		"late":   func(e *exchange) { e.SetError(`{"code":-32000,"message":"execution aborted (timeout = 5s)"}`) },
		"busy":   func(e *exchange) { e.SetError(`{"code":-32005,"message":"limit exceeded"}`) },
	} {
		s.proxies[1].SetRule("eth_call", lie)
		s.proxies[2].SetRule("eth_call", lie)
		if have, silent, err := chain.Balances(t.Context(), c.Reader, at.Block, of); err == nil {
			t.Errorf("%s: got %v, %v, want an error", name, have, silent)
		}
	}
}

func TestAnAnswerIsBoundedInTimeAndSize(t *testing.T) {
	t.Parallel()
	s := newProxiedLab(t, 1)
	hasty := s.open(t, 1, func(c *evm.Config) { c.Timeout = 2 * time.Second })
	started := time.Now()
	s.proxies[0].SetRule("*", func(e *exchange) { e.HangUntilCancelled() })
	if got, err := hasty.Reader.Heads(t.Context()); err == nil {
		t.Errorf("no answer: got %+v, want an error", got)
	}
	if took := time.Since(started); took > 12*time.Second { // the default is 15
		t.Errorf("no answer: got an error after %v, want it soon", took)
	}
	s.proxies[0].SetRule("*", nil)
	c := s.open(t, 1, func(c *evm.Config) { c.AnswerBytesMax = 1 << 20 })
	s.proxies[0].SetRule("eth_getBlockByHash", func(e *exchange) {
		e.EditResult(t, func(m map[string]any) { m["extra"] = strings.Repeat("x", 2<<20) })
	})
	if got, err := final(t, c, s.height); err == nil || !strings.Contains(err.Error(), "longer than is allowed") {
		t.Errorf("too long: got %+v, %v, want an error about it", got, err)
	}
}

func TestOneThatHangsDoesNotHoldUpTheRest(t *testing.T) {
	t.Parallel()
	s := newProxiedLab(t, 3)
	c := s.open(t, 2, func(c *evm.Config) { c.Timeout = time.Minute })
	s.proxies[0].SetRule("*", func(e *exchange) { e.HangUntilCancelled() })
	started := time.Now()
	h, err := c.Reader.Heads(t.Context())
	if err != nil || h.Final.Height < s.height {
		t.Errorf("Heads: got %+v, %v, want the tips of the others", h, err)
	}
	if got, err := c.Sender.Account(t.Context(), s.to); err != nil || !reflect.DeepEqual(got, chain.Account{}) {
		t.Errorf("Account: got %+v, %v, want what the others say", got, err)
	}
	if took := time.Since(started); took > 30*time.Second {
		t.Errorf("got answers after %v, want them long before the time-out", took)
	}
}

func TestAProviderOfAnotherChainIsNamedAtStart(t *testing.T) {
	t.Parallel()
	s := newProxiedLab(t, 2)
	s.proxies[1].SetRule("eth_chainId", func(e *exchange) { e.SetResult(`"0x1"`) })
	cfg := config(s.proxies[0].URL, s.proxies[1].URL)
	cfg.Quorum = 1
	_, err := evm.New(t.Context(), cfg)
	if err == nil || !strings.Contains(err.Error(), "provider 2") ||
		!strings.Contains(err.Error(), "chain 1, not 31337") {
		t.Errorf("got %v, want provider 2 to be named", err)
	}
	if err != nil && strings.Contains(err.Error(), "a-secret-key") {
		t.Errorf("got the endpoint's secret in %q", err)
	}
}

func TestASilentProviderIsMetWhenItAnswers(t *testing.T) {
	t.Parallel()
	s := newProxiedLab(t, 2)
	s.proxies[1].SetRule("*", func(e *exchange) { e.DropConnection() })
	cfg := config(s.proxies[0].URL, s.proxies[1].URL)
	if _, err := evm.New(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "provider 2") {
		t.Errorf("agree 2: got %v, want provider 2 to be named", err)
	}
	c := s.open(t, 1, nil)
	if got, err := final(t, c, s.height); err != nil || got.Providers != 1 {
		t.Errorf("agree 1: got %+v, %v, want the block by one", got, err)
	}
	// It reconnects as another chain: it is not asked anything.
	s.proxies[1].SetRule("*", nil)
	s.proxies[1].SetRule("eth_chainId", func(e *exchange) { e.SetResult(`"0x1"`) })
	before := s.proxies[1].CallCount("eth_getBlockByNumber")
	until(t, "provider 2 is asked who it is", func() bool {
		if _, err := final(t, c, s.height); err != nil {
			t.Fatalf("with a stranger: got %v, want the block", err)
		}
		return s.proxies[1].CallCount("eth_chainId") > 2
	})
	if after := s.proxies[1].CallCount("eth_getBlockByNumber"); after != before {
		t.Errorf("got %d questions to a stranger, want none", after-before)
	}
	s.proxies[1].SetRule("eth_chainId", nil)
	until(t, "both providers agree", func() bool {
		got, err := final(t, c, s.height)
		return err == nil && got.Providers == 2
	})
}

// until repeats a check for a while.
func until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	end := time.After(20 * time.Second)
	for !holds() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("waited too long until %s", what)
		}
	}
}

func TestAConfigurationIsCheckedWhole(t *testing.T) {
	t.Parallel()
	_, err := evm.New(t.Context(), evm.Config{
		Name: chain.Solana, Endpoints: []string{"ftp://x", "http://a", "http://a"}, Quorum: 4, Trace: "SOMETIMES",
	})
	for _, word := range []string{
		"SOLANA", "chain id", "endpoint 1", "endpoint 3", "agree is 4", "fee cap", "tip cap",
		"SOMETIMES",
	} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("got %v, want %q in it", err, word)
		}
	}
}

func TestABlockOfHundredsGivesItsRoots(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	const payments = 300 // above 127, where indexes take two bytes
	for i := range payments {
		l.Pay(t, chain.Native, numbered(i), money.Units(uint64(i+1)))
	}
	l.Mine(t, 1)
	cfg := config(l.node.URL)
	cfg.Trace = evm.TraceOff // anvil's time for it grows with the square of their number
	c := newChain(t, cfg)
	h, err := c.Reader.Heads(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got, err := recent(t, c, h.Latest.Height)
	if err != nil || len(got.Transfers) != payments {
		t.Fatalf("got %d transfers, %v, want %d", len(got.Transfers), err, payments)
	}
	for i, tr := range got.Transfers {
		if tr.To != numbered(i) || tr.Amount != money.Units(uint64(i+1)) {
			t.Errorf("transfer %d: got %+v, want it in its place", i, tr)
		}
	}
	if len(got.Fees) != strangers {
		t.Errorf("got fees of %d, want one for each of %d payers", len(got.Fees), strangers)
	}
}

// numbered returns an address without an owner.
func numbered(i int) chain.Address {
	return evmtx.Canonical(common.BigToAddress(big.NewInt(int64(1_000_000 + i))))
}
