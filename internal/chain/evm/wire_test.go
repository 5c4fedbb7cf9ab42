package evm_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ethereum/go-ethereum/core/types"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm"
	"github.com/cofferpay/coffer/internal/money"
)

// compress compresses a text into a member of a gzip file. Members that follow each other are one file, so a
// bomb is made of one member without compressing all that it holds.
func compress(text string) []byte {
	var file bytes.Buffer
	z := gzip.NewWriter(&file)
	_, err := io.WriteString(z, text)
	if err = errors.Join(err, z.Close()); err != nil {
		panic(err) // A buffer takes what it is given.
	}
	return file.Bytes()
}

// wireLies are answers of what stands between a node and us: proxies, caches, bombs.
func wireLies(sent *atomic.Int64) map[string]func(http.ResponseWriter) {
	return map[string]func(http.ResponseWriter){
		"a page": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<html><body>Checking your browser</body></html>")
		},
		"half an answer": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"result":{"number":"0x`)
		},
		"an empty answer": func(http.ResponseWriter) {},
		"another length": func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "100000")
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,`)
		},
		"an empty batch": func(w http.ResponseWriter) { fmt.Fprint(w, `[]`) },
		"an answer without end": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"result":"`)
			filler := []byte(strings.Repeat("x", 64<<10))
			for range 100 << 20 / len(filler) {
				n, err := w.Write(filler)
				sent.Add(int64(n))
				if err != nil {
					return
				}
			}
		},
		"a bomb": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Encoding", "gzip")
			_, err := w.Write(compress(`{"jsonrpc":"2.0","id":1,"result":"`))
			filler := compress(strings.Repeat("0", 1<<20))
			for range 100 {
				if err == nil {
					_, err = w.Write(filler)
				}
			}
		},
		"busy": func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) },
		"away": func(w http.ResponseWriter) {
			w.Header().Set("Location", "http://127.0.0.1:1/")
			w.WriteHeader(http.StatusTemporaryRedirect)
		},
	}
}

func TestWhatIsNoAnswerIsAnErrorAndTheNextProviderIsAsked(t *testing.T) {
	t.Parallel()
	s := newProxiedLab(t, 2)
	var sent atomic.Int64
	small := func(c *evm.Config) { c.AnswerBytesMax = 1 << 20 }
	of := []chain.Holding{{Address: s.to}}
	for name, lie := range wireLies(&sent) {
		cfg := config(s.proxies[0].URL)
		small(&cfg)
		alone, both := newChain(t, cfg), s.open(t, 1, small)
		s.proxies[0].SetRule("*", func(e *exchange) { e.WriteRaw(lie) })
		if got, err := alone.Reader.Heads(t.Context()); err == nil {
			t.Errorf("%s, heads: got %+v, want an error", name, got)
		}
		if got, err := final(t, alone, s.height); err == nil {
			t.Errorf("%s, final: got %+v, want an error", name, got)
		}
		if got, err := recent(t, alone, s.height); err == nil {
			t.Errorf("%s, recent: got %+v, want an error", name, got)
		}
		if got, err := alone.Sender.Account(t.Context(), s.to); err == nil {
			t.Errorf("%s, account: got %+v, want an error", name, got)
		}
		if got, err := alone.Sender.Outcome(t.Context(), []chain.TxHash{"0x01"}); err == nil {
			t.Errorf("%s, outcome: got %+v, want an error", name, got)
		}
		if got, said := alone.Sender.Send(t.Context(), []byte{2}); got != chain.Unknown ||
			strings.Contains(said, "a-secret-key") || len(said) > 1000 {
			t.Errorf("%s, send: got %v %q, want Unknown in few words", name, got, said)
		}
		got, err := final(t, both, s.height)
		if err != nil || len(got.Transfers) != traced {
			t.Errorf("%s, with another: got %+v, %v, want the block", name, got, err)
			continue
		}
		if amounts, err := both.Reader.Balances(t.Context(), got.Block, of); err != nil ||
			amounts[0] != money.Units(2000) {
			t.Errorf("%s, with another: got %v, %v, want the balance", name, amounts, err)
		}
		s.proxies[0].SetRule("*", nil)
	}
	// Six endless answers were requested; buffers have a little more than the limit of each.
	if n := sent.Load(); n > 6*(16<<20) {
		t.Errorf("got %d MB taken of answers without end, want them cut off", n>>20)
	}
}

func TestAProviderThatAsksForAPauseIsLeftAlone(t *testing.T) {
	t.Parallel()
	s := newProxiedLab(t, 2)
	c := s.open(t, 1, nil)
	met := s.proxies[0].CallCount("eth_getBlockByNumber")
	s.proxies[0].SetRule("*", func(e *exchange) {
		e.WriteRaw(func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", "30")
			w.WriteHeader(http.StatusTooManyRequests)
		})
	})
	for range 5 {
		if got, err := recent(t, c, s.height); err != nil || len(got.Transfers) != traced {
			t.Fatalf("got %+v, %v, want the block of the other", got, err)
		}
	}
	before := s.proxies[0].CallCount("eth_getBlockByNumber")
	for range 5 {
		if _, err := c.Reader.Heads(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if after := s.proxies[0].CallCount("eth_getBlockByNumber"); before > met+1 || after != before {
		t.Errorf("got %d questions and then %d more, want the first one and no other", before-met, after-before)
	}
}

// A provider that reports unproven blocks as final would make blocks final that a fork can still
// replace.
func TestFinalBeyondTheHeadIsALie(t *testing.T) {
	t.Parallel()
	s := newProxiedLab(t, 2)
	c := s.open(t, 1, nil)
	truth, err := c.Reader.Heads(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	next := truth.Final.Height + 1
	s.proxies[0].SetRule("eth_getBlockByNumber", func(e *exchange) {
		if string(e.Params[0]) == `"finalized"` {
			e.SetResult(made(t, e.Result, truth.Latest.Height+100))
		}
	})
	if h, err := c.Reader.Heads(t.Context()); err != nil || h.Final != truth.Final {
		t.Errorf("got %+v, %v, want what the other calls final", h, err)
	}
	if got, err := final(t, c, next); err == nil {
		t.Errorf("got %+v, want an error: only a liar calls it final", got)
	}
	s.proxies[1].SetRule("*", func(e *exchange) { e.DropConnection() })
	if got, err := final(t, c, next); err == nil {
		t.Errorf("the liar alone: got %+v, want an error", got)
	}
}

// made returns a block's header with another height, and its hash.
func made(t testing.TB, like json.RawMessage, height uint64) string {
	t.Helper()
	var h types.Header
	if err := json.Unmarshal(like, &h); err != nil {
		t.Fatal(err)
	}
	h.Number.SetUint64(height)
	b, err := json.Marshal(&h)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestAHeadThatGoesBackwardsIsReportedAsItIs(t *testing.T) {
	t.Parallel()
	s := newProxiedLab(t, 2)
	c := s.open(t, 2, nil)
	truth, err := c.Reader.Heads(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	back := truth.Final.Height - 3
	s.proxies[0].SetRule("eth_getBlockByNumber", func(e *exchange) {
		if p := string(e.Params[0]); p == `"finalized"` || p == `"latest"` {
			e.SetResult(string(block(t, s, back)))
		}
	})
	h, err := c.Reader.Heads(t.Context())
	if err != nil || h.Final.Height != back || h.Latest.Height != back {
		t.Errorf("got %+v, %v, want both at %d: two have to agree", h, err, back)
	}
	if got, err := final(t, c, truth.Final.Height); !errors.Is(err, chain.ErrNotYet) {
		t.Errorf("got %+v, %v, want ErrNotYet", got, err)
	}
	// The provider that went back is not asked first any more about recent blocks.
	c.Reader.Demote()
	if h, err := c.Reader.Heads(t.Context()); err != nil || h.Latest != truth.Latest {
		t.Errorf("distrusted: got %+v, %v, want the latest of the other", h, err)
	}
}

func TestReceiptsAndLogsOfAnotherBlockAreNotTaken(t *testing.T) {
	t.Parallel()
	s := newProxiedLab(t, 1)
	want, err := final(t, s.chain, s.height)
	if err != nil {
		t.Fatal(err)
	}
	other := s.height
	var receipts rawJSON
	for len(receipts) < 100 && other > 1 {
		other-- // to one of those in which the strangers were made rich
		if err := s.node.RPC.CallContext(t.Context(), &receipts, "eth_getBlockReceipts",
			fmt.Sprintf("%#x", other)); err != nil {
			t.Fatal(err)
		}
	}
	s.proxies[0].SetRule("eth_getBlockReceipts", func(e *exchange) { e.SetResult(string(receipts)) })
	if got, err := final(t, s.open(t, 1, nil), s.height); err == nil {
		t.Errorf("receipts of block %d: got %+v, want an error", other, got)
	}
	// No root covers a log's own position fields, and the adapter reads none of them.
	s.proxies[0].SetRule("eth_getBlockReceipts", func(e *exchange) {
		e.EditList(t, func(l []map[string]any) []map[string]any {
			for _, r := range l {
				r["blockHash"], r["blockNumber"], r["transactionIndex"] = "0x"+strings.Repeat("77", 32), "0x1", "0x9"
				for _, log := range r["logs"].([]any) {
					m := log.(map[string]any)
					m["blockHash"], m["blockNumber"], m["transactionHash"],
						m["transactionIndex"] = "0x"+strings.Repeat("77", 32), "0x1", "0x"+strings.Repeat("66",
						32), "0x9"
				}
			}
			return l
		})
	})
	got, err := final(t, s.open(t, 1, nil), s.height)
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

func TestBalancesOfAnotherBlockAreOutvoted(t *testing.T) {
	t.Parallel()
	s := newProxiedLab(t, 3)
	at, err := final(t, s.chain, s.height)
	if err != nil {
		t.Fatal(err)
	}
	s.Pay(t, chain.Native, s.to, money.Units(5))
	s.Mine(t, 1)
	c := s.open(t, 2, nil)
	of := []chain.Holding{{Address: s.to}}
	s.proxies[0].SetRule("eth_getBalance", func(e *exchange) {
		var now string
		if err := s.node.RPC.CallContext(t.Context(), &now, "eth_getBalance", raw(s.to), "latest"); err != nil {
			t.Error(err)
		}
		e.SetResult(fmt.Sprintf("%q", now))
	})
	if got, err := c.Reader.Balances(t.Context(), at.Block, of); err != nil || got[0] != money.Units(2000) {
		t.Errorf("got %v, %v, want what there was in the block, 2000", got, err)
	}
}

func TestFeesThatSpikeAThousandfoldStayWithinTheCap(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	proxy := newProxy(t, l.node)
	c := newChain(t, config(proxy.URL))
	p, _, _ := l.ready(t, c, l.Token())
	usual, err := c.Sender.Quote(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	proxy.SetRule("eth_feeHistory", func(e *exchange) {
		e.SetResult(strings.NewReplacer(`"0x`, `"0x3e8`).Replace(string(e.Result))) // much more than a thousand times
	})
	fees, err := c.Sender.Quote(t.Context(), p)
	if err != nil || fees.FeeCap != feeCap || feeCap.Less(fees.TipCap) || fees.GasLimit != usual.GasLimit {
		t.Errorf("got %+v, %v, want the cap %v", fees, err, feeCap)
	}
	proxy.SetRule("eth_feeHistory", nil)
	proxy.SetRule("eth_estimateGas", func(e *exchange) { e.SetResult(`"0x3b9aca00"`) })
	var reverted *chain.RevertedError
	if fees, err := c.Sender.Quote(t.Context(), p); !errors.As(err, &reverted) {
		t.Errorf("a billion gas: got %+v, %v, want it refused", fees, err)
	}
}
