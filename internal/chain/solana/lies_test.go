package solana_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/solana"
	"github.com/cofferpay/coffer/internal/localworld/surfpool"
	"github.com/cofferpay/coffer/internal/money"
)

// proxiedLab is a chain whose final block has one payment of each kind, read through proxies.
type proxiedLab struct {
	*lab
	proxies []*proxy
	height  uint64
	to      chain.Address
}

func newProxiedLab(t *testing.T, proxies int) *proxiedLab {
	t.Helper()
	s := &proxiedLab{lab: newLab(t)}
	s.to = s.Account(t)
	s.height = s.node.CurrentSlot()
	s.Pay(t, chain.Native, s.to, money.Units(1000))
	s.Pay(t, chain.Token, s.to, money.Units(1000))
	s.Mine(t, 1)
	s.Finalize(t)
	for range proxies {
		s.proxies = append(s.proxies, newProxy(t, s.node.URL, s.settled(t)))
	}
	return s
}

func (s *proxiedLab) open(t *testing.T, agree int) chain.Reader {
	t.Helper()
	var urls []string
	for _, p := range s.proxies {
		urls = append(urls, p.URL)
	}
	cfg := config(urls...)
	cfg.Quorum, cfg.Timeout = agree, 2*time.Second
	return open(t, cfg).Reader
}

// details returns the form of a block that a request asks for.
func details(e *exchange) string {
	var o struct{ TransactionDetails string }
	if len(e.Params) < 2 || json.Unmarshal(e.Params[1], &o) != nil {
		return ""
	}
	return o.TransactionDetails
}

// inBlock changes a block in the requested form.
func inBlock(t *testing.T, slot uint64, change func(map[string]any)) rule {
	return func(e *exchange) {
		if slotOf(t, e) == slot {
			e.EditResult(t, change)
		}
	}
}

func otherHash(m map[string]any) { m["blockhash"] = strings.Repeat("5", 44) }

// rich makes the first transaction of a block pay a thousand times as much.
func rich(m map[string]any) {
	txs, _ := m["transactions"].([]any)
	if len(txs) == 0 {
		return
	}
	meta := txs[0].(map[string]any)["meta"].(map[string]any)
	post := meta["postBalances"].([]any)
	post[1], post[2] = 1000*surfpool.LamportsPerSOL-1_000_000, 1_000_000
}

func (s *proxiedLab) truth(t *testing.T) chain.Contents {
	t.Helper()
	c, err := s.chain.Reader.Final(t.Context(), s.height)
	if err != nil || len(c.Transfers) != 2 {
		t.Fatalf("got %+v, %v, want two payments", c, err)
	}
	return c
}

// refused checks for an error, of a kind if that is not nil, that does not reveal the endpoint's
// secret.
func refused(t *testing.T, what string, got any, err, want error) {
	t.Helper()
	if err == nil || want != nil && !errors.Is(err, want) {
		t.Errorf("%s: got %+v, %v, want %v", what, got, err, want)
	}
	if err != nil && strings.Contains(err.Error(), "a-secret-key") {
		t.Errorf("%s: got %v, want no secret in it", what, err)
	}
	if want == nil && (errors.Is(err, chain.ErrNotYet) || errors.Is(err, chain.ErrUndecodable)) {
		t.Errorf("%s: got %v, want a bad day of the provider's", what, err)
	}
}

func TestProvidersThatContradictOneAnotherStopTheWalk(t *testing.T) {
	t.Parallel()
	s := newProxiedLab(t, 2)
	for what, lie := range map[string]func(map[string]any){
		"another hash":   otherHash,
		"another parent": func(m map[string]any) { m["previousBlockhash"] = strings.Repeat("6", 44) },
	} {
		for _, agree := range []int{1, 2} {
			c := s.open(t, agree)
			s.proxies[1].SetRule("getBlock", inBlock(t, s.height, lie))
			got, err := c.Final(t.Context(), s.height)
			refused(t, fmt.Sprintf("%s, agree %d", what, agree), got, err, chain.ErrDisagreement)
			s.proxies[1].SetRule("getBlock", nil)
			if _, err := c.Final(t.Context(), s.height); err != nil {
				t.Errorf("%s, agree %d, truthful again: got %v, want the block", what, agree, err)
			}
		}
	}
}

func TestWhatIsInABlockIsAgreedUponToo(t *testing.T) {
	t.Parallel()
	s := newProxiedLab(t, 3)
	truth := s.truth(t)
	c := s.open(t, 2)
	s.proxies[0].SetRule("getBlock", inBlock(t, s.height, rich))
	got, err := c.Final(t.Context(), s.height)
	if err != nil || got.Providers != 2 || fmt.Sprint(got.Transfers) != fmt.Sprint(truth.Transfers) {
		t.Errorf("one liar of three: got %+v, %v, want the truth by two", got, err)
	}
	lie, err := s.open(t, 1).Recent(t.Context(), s.height)
	if err != nil || fmt.Sprint(lie.Transfers) == fmt.Sprint(truth.Transfers) {
		t.Errorf("got %+v, %v, want the lie to be one that can be decoded", lie, err)
	}
	empty := func(m map[string]any) {
		if m["transactions"] != nil {
			m["transactions"] = []any{}
		}
	}
	s.proxies[1].SetRule("getBlock", inBlock(t, s.height, empty))
	got, err = c.Final(t.Context(), s.height)
	refused(t, "three accounts of it", got, err, chain.ErrDisagreement)
	s.proxies[0].SetRule("getBlock", inBlock(t, s.height, otherHash))
	s.proxies[1].SetRule("getBlock", nil)
	if got, err := c.Final(t.Context(), s.height); err != nil || got.Providers != 2 {
		t.Errorf("a liar about the hash: got %+v, %v, want it outvoted", got, err)
	}
}

// H-67: a block that a provider does not return is never an empty one.
func TestABlockThatIsNotGivenStopsTheWalk(t *testing.T) {
	t.Parallel()
	s := newProxiedLab(t, 1)
	c, p := s.open(t, 1), s.proxies[0]
	whole := func(answer func(*exchange)) rule {
		return func(e *exchange) {
			if details(e) == "accounts" {
				answer(e)
			}
		}
	}
	of := func(answer func(*exchange)) rule {
		return func(e *exchange) {
			if slotOf(t, e) == s.height {
				answer(e)
			}
		}
	}
	say := func(r string) func(*exchange) { return func(e *exchange) { e.SetResult(r) } }
	refuse := func(code int) func(*exchange) {
		return func(e *exchange) { e.SetError(fmt.Sprintf(`{"code":%d,"message":"Slot was skipped, or so"}`, code)) }
	}
	for what, c2 := range map[string]struct {
		rule rule
		want error
	}{
		"null":                {of(say("null")), nil},
		"null for what is in": {whole(say("null")), nil},
		"pruned":              {of(refuse(-32001)), nil},
		"not available":       {of(refuse(-32004)), nil},
		"skipped":             {of(refuse(-32007)), nil},
		"skipped long ago":    {of(refuse(-32009)), nil},
		"no history":          {of(refuse(-32011)), nil},
		"an unknown version":  {whole(refuse(-32015)), chain.ErrUndecodable},
		"an empty object":     {whole(say("{}")), chain.ErrUndecodable},
		"a string":            {whole(say(`"block"`)), chain.ErrUndecodable},
		"no transactions": {whole(func(e *exchange) {
			e.EditResult(t, func(m map[string]any) {
				delete(m, "transactions")
			})
		}), chain.ErrUndecodable},
		"transactions null": {whole(func(e *exchange) {
			e.EditResult(t, func(m map[string]any) {
				m["transactions"] = nil
			})
		}), chain.ErrUndecodable},
		"another block": {whole(func(e *exchange) { e.EditResult(t, otherHash) }), nil},
		"meta null": {whole(func(e *exchange) {
			e.EditResult(t, editTx(func(tx map[string]any) {
				tx["meta"] = nil
			}))
		}), chain.ErrUndecodable},
		"a version of tomorrow": {whole(func(e *exchange) {
			e.EditResult(t, editTx(func(tx map[string]any) {
				tx["version"] = 2
			}))
		}), chain.ErrUndecodable},
		"no token balances": {whole(func(e *exchange) {
			e.EditResult(t, editTx(func(tx map[string]any) {
				delete(tx["meta"].(map[string]any), "postTokenBalances")
			}))
		}), chain.ErrUndecodable},
		"garbage": {whole(func(e *exchange) {
			e.WriteRaw(func(w http.ResponseWriter) { fmt.Fprint(w, "<html>busy</html>") })
		}), nil},
		"half of it": {whole(func(e *exchange) {
			half := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"result":%s`, e.Result[:len(e.Result)/2])
			e.WriteRaw(func(w http.ResponseWriter) { fmt.Fprint(w, half) })
		}), nil},
		"neither result nor error": {whole(func(e *exchange) {
			e.WriteRaw(func(w http.ResponseWriter) { fmt.Fprint(w, `{"jsonrpc":"2.0","id":1}`) })
		}), nil},
		"the answer to another question": {whole(func(e *exchange) {
			r := string(e.Result)
			e.WriteRaw(
				func(w http.ResponseWriter) { fmt.Fprintf(w, `{"jsonrpc":"2.0","id":987654321,"result":%s}`, r) },
			)
		}), nil},
		"a redirect": {whole(func(e *exchange) {
			e.WriteRaw(func(w http.ResponseWriter) {
				w.Header().Set("Location", "http://127.0.0.1:1/")
				w.WriteHeader(http.StatusFound)
			})
		}), nil},
		"nothing at all": {whole(func(e *exchange) { e.DropConnection() }), nil},
	} {
		p.SetRule("getBlock", c2.rule)
		got, err := c.Final(t.Context(), s.height)
		refused(t, "final, "+what, got, err, c2.want)
		got, err = c.Recent(t.Context(), s.height)
		if what != "another block" { // no provider says which recent block is meant
			refused(t, "recent, "+what, got, err, c2.want)
		}
	}
	p.SetRule("getBlock", nil)
	s.truth(t)
}

func editTx(change func(map[string]any)) func(map[string]any) {
	return func(m map[string]any) {
		if txs, _ := m["transactions"].([]any); len(txs) > 0 {
			change(txs[0].(map[string]any))
		}
	}
}

// skip simulates a slot without a block: the next block has the previous one as its parent.
func (s *proxiedLab) skip(t *testing.T, p *proxy, slot uint64, truthful bool) {
	t.Helper()
	var before struct{ Blockhash string }
	if err := s.node.RPC.CallContext(t.Context(), &before, "getBlock", slot-1,
		map[string]any{"commitment": "confirmed", "rewards": false, "transactionDetails": "none"}); err != nil {
		t.Fatal(err)
	}
	p.SetRule("getBlock", func(e *exchange) {
		switch slotOf(t, e) {
		case slot:
			e.SetError(`{"code":-32007,"message":"Slot was skipped, or missing due to ledger jump to recent snapshot"}`)
		case slot + 1:
			e.EditResult(t, func(m map[string]any) {
				if m["parentSlot"] = slot - 1; truthful {
					m["previousBlockhash"] = before.Blockhash
				}
			})
		}
	})
	p.SetRule("getBlocksWithLimit", func(e *exchange) {
		if slotOf(t, e) == slot {
			e.SetResult(fmt.Sprintf("[%d]", slot+1))
		}
	})
}

func TestASlotWithoutABlockIsProvenByTheNext(t *testing.T) {
	t.Parallel()
	s := newProxiedLab(t, 2)
	a, b := s.proxies[0], s.proxies[1]
	c := s.open(t, 2)
	s.Mine(t, 2)
	for _, p := range s.proxies {
		s.skip(t, p, s.height+1, true)
	}
	got, err := c.Final(t.Context(), s.height+1)
	if err != nil || got.Height != s.height+2 || got.Parent != s.truth(t).Hash {
		t.Errorf("a slot that was skipped: got %+v, %v, want block %d on the one before", got.Block, err, s.height+2)
	}
	if got, err := c.Recent(t.Context(), s.height+1); err != nil || got.Height != s.height+2 {
		t.Errorf("recent, a slot that was skipped: got %+v, %v, want block %d", got.Block, err, s.height+2)
	}
	// One of them alone reports that.
	b.SetRule("getBlock", nil)
	b.SetRule("getBlocksWithLimit", nil)
	got, err = c.Final(t.Context(), s.height+1)
	refused(t, "one skips", got, err, chain.ErrDisagreement)
	// Its next block has the omitted block as its parent.
	one := open(t, config(a.URL)).Reader
	s.skip(t, a, s.height, false)
	got, err = one.Final(t.Context(), s.height)
	refused(t, "a gap in the chain", got, err, chain.ErrDisagreement)
	a.SetRule("getBlock", func(e *exchange) {
		if slotOf(t, e) == s.height {
			e.SetError(`{"code":-32007,"message":"Slot was skipped"}`)
		}
	})
	got, err = one.Final(t.Context(), s.height)
	refused(t, "a gap that the next block names", got, err, nil)
	got, err = one.Recent(t.Context(), s.height)
	refused(t, "recent, a gap that the next block names", got, err, nil)
	a.SetRule("getBlocksWithLimit", func(e *exchange) { e.SetResult("[]") })
	got, err = one.Final(t.Context(), s.height)
	refused(t, "nothing more", got, err, nil)
	a.SetRule("getBlocksWithLimit", func(e *exchange) { e.SetResult("[1]") })
	got, err = one.Final(t.Context(), s.height)
	refused(t, "a slot from before", got, err, nil)
}

func TestWhatTooFewCallFinalIsNotYetFinal(t *testing.T) {
	t.Parallel()
	s := newProxiedLab(t, 3)
	c := s.open(t, 2)
	truth, err := c.Heads(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	top := truth.Final.Height
	behind := func(e *exchange) {
		if strings.Contains(string(e.Params[0]), "finalized") {
			e.SetResult(fmt.Sprint(top - 1))
		}
	}
	s.proxies[2].SetRule("getSlot", behind)
	if h, err := c.Heads(t.Context()); err != nil || h.Final.Height != top {
		t.Errorf("one behind: got %+v, %v, want final %d", h, err, top)
	}
	s.proxies[1].SetRule("getSlot", behind)
	if h, err := c.Heads(t.Context()); err != nil || h.Final.Height != top-1 {
		t.Errorf("two behind: got %+v, %v, want final %d", h, err, top-1)
	}
	got, err := c.Final(t.Context(), top)
	refused(t, "two behind", got, err, chain.ErrNotYet)
	s.proxies[0].SetRule("getSlot", func(e *exchange) {
		if strings.Contains(string(e.Params[0]), "confirmed") {
			e.SetResult(fmt.Sprint(top - 5))
		}
	})
	if h, err := c.Heads(t.Context()); err != nil || h.Latest.Height == top-5 {
		t.Errorf("one that calls final what it does not have: got %+v, %v, want it left out", h, err)
	}
	// Its newest block may reach it later than its slot.
	one := open(t, config(s.proxies[2].URL)).Reader
	s.proxies[2].SetRule("getSlot", nil)
	newest := truth.Latest.Height
	s.proxies[2].SetRule("getBlock", func(e *exchange) {
		if slotOf(t, e) == newest {
			e.SetError(`{"code":-32004,"message":"Block not available for slot"}`)
		}
	})
	if h, err := one.Heads(t.Context()); err != nil || h.Latest.Height != newest-1 || h.Final.Height != top {
		t.Errorf("a block that is late: got %+v, %v, want %d and %d", h, err, newest-1, top)
	}
}

func TestAProviderThatHangsHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	s := newProxiedLab(t, 3)
	c := s.open(t, 2)
	s.proxies[0].SetRule("*", (*exchange).HangUntilCancelled)
	if got, err := c.Final(t.Context(), s.height); err != nil || got.Providers != 2 {
		t.Errorf("final: got %+v, %v, want it by the others", got, err)
	}
	if h, err := c.Heads(t.Context()); err != nil || h.Final.Height < s.height {
		t.Errorf("heads: got %+v, %v, want them by the others", h, err)
	}
	c.Demote()
	if got, err := c.Recent(t.Context(), s.height); err != nil || len(got.Transfers) != 2 {
		t.Errorf("recent, by the next one: got %+v, %v, want it", got, err)
	}
	if s.proxies[1].CallCount("getBlock") == 0 {
		t.Error("got the one that is distrusted asked first, want another")
	}
}

func TestAnswersAreBounded(t *testing.T) {
	t.Parallel()
	s := newProxiedLab(t, 1)
	cfg := config(s.proxies[0].URL)
	cfg.AnswerBytesMax, cfg.Timeout = 1000, 2*time.Second
	c := open(t, cfg).Reader
	got, err := c.Final(t.Context(), s.height)
	refused(t, "too long", got, err, nil)
	s.proxies[0].SetRule("getSlot", func(e *exchange) {
		e.WriteRaw(func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", "30")
			w.WriteHeader(http.StatusTooManyRequests)
			fmt.Fprint(w, `slow down`)
		})
	})
	before := s.proxies[0].CallCount("getSlot")
	for range 3 {
		got, err := c.Heads(t.Context())
		refused(t, "too often", got, err, nil)
	}
	if n := s.proxies[0].CallCount("getSlot") - before; n != 1 {
		t.Errorf("got asked %d times, want once, and then a pause", n)
	}
}

func TestAProviderOfAnotherNetworkIsRefused(t *testing.T) {
	t.Parallel()
	s := newProxiedLab(t, 1)
	cfg := config(s.proxies[0].URL)
	cfg.Network, cfg.Genesis = chain.Mainnet, "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d"
	_, err := solana.New(t.Context(), cfg)
	if err == nil || !strings.Contains(err.Error(), "right network") {
		t.Errorf("got %v, want it refused", err)
	}
	s.proxies[0].SetRule("getGenesisHash", func(e *exchange) { e.SetResult(`"` + cfg.Genesis + `"`) })
	c, err := solana.New(t.Context(), cfg)
	if err != nil || c.Chain().CAIP2 != "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp" {
		t.Errorf("got %v, want the main network", err)
	}
	for what, change := range map[string]func(*solana.Config){
		"no endpoint":   func(c *solana.Config) { c.Endpoints = nil },
		"twice":         func(c *solana.Config) { c.Endpoints = append(c.Endpoints, c.Endpoints[0]) },
		"no URL":        func(c *solana.Config) { c.Endpoints = []string{"localhost"} },
		"agree":         func(c *solana.Config) { c.Quorum = 2 },
		"no genesis":    func(c *solana.Config) { c.Genesis = "" },
		"odd genesis":   func(c *solana.Config) { c.Genesis = "5eykt" },
		"nobody agrees": func(c *solana.Config) { c.Quorum = 0 },
	} {
		other := cfg
		change(&other)
		if _, err := solana.New(t.Context(), other); err == nil {
			t.Errorf("%s: got a chain, want the configuration refused", what)
		}
	}
}

func TestBalancesAreNoOnesWordAlone(t *testing.T) {
	t.Parallel()
	s := newProxiedLab(t, 3)
	c := s.open(t, 2)
	h, err := c.Heads(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	of := []chain.Holding{{Address: s.to}, {Address: s.to, Contract: surfpool.USDC}}
	right := func(what string) {
		t.Helper()
		got, err := c.Balances(t.Context(), h.Latest, of)
		if err != nil || got[0] != money.Units(1000) || got[1] != money.Units(1000) {
			t.Errorf("%s: got %v, %v, want 1000 of both", what, got, err)
		}
	}
	right("the truth")
	more := func(e *exchange) {
		e.EditResult(t, func(m map[string]any) {
			m["value"].([]any)[0].(map[string]any)["lamports"] = 2000
		})
	}
	s.proxies[0].SetRule("getMultipleAccounts", more)
	right("one liar")
	s.proxies[1].SetRule("getMultipleAccounts",
		func(e *exchange) { e.SetError(`{"code":-32005,"message":"Node is behind"}`) })
	got, err := c.Balances(t.Context(), h.Latest, of)
	refused(t, "a liar and a silent one", got, err, chain.ErrDisagreement)
	s.proxies[0].SetRule("getMultipleAccounts", nil)
	s.proxies[1].SetRule("getMultipleAccounts", nil)

	// A mint may be closed. A provider that reports that alone is not believed.
	closed := func(e *exchange) { e.SetError(`{"code":-32602,"message":"Invalid param: could not find mint"}`) }
	s.proxies[0].SetRule("getTokenAccountsByOwner", closed)
	right("one knows no such mint")
	s.proxies[1].SetRule("getTokenAccountsByOwner", closed)
	have, silent, err := chain.Balances(t.Context(), c, h.Latest, of)
	if err != nil || have[of[0]] != money.Units(1000) || len(silent) != 1 || silent[of[1]] == "" {
		t.Errorf("two know no such mint: got %v, %v, %v, want the coin, and the token silent", have, silent, err)
	}
	s.proxies[0].SetRule("getTokenAccountsByOwner", nil)
	s.proxies[1].SetRule("getTokenAccountsByOwner", nil)

	one := open(t, config(s.proxies[0].URL)).Reader
	p := s.proxies[0]
	for what, c2 := range map[string]struct {
		method string
		rule   rule
		want   error
	}{
		"too few accounts": {
			"getMultipleAccounts",
			func(e *exchange) { e.EditResult(t, func(m map[string]any) { m["value"] = []any{} }) }, nil,
		},
		"as of an old slot": {"getMultipleAccounts", func(e *exchange) {
			e.EditResult(t, func(m map[string]any) { m["context"] = map[string]any{"slot": h.Latest.Height - 1} })
		}, nil},
		"as of long after": {"getMultipleAccounts", func(e *exchange) {
			e.EditResult(t, func(m map[string]any) { m["context"] = map[string]any{"slot": h.Latest.Height + 513} })
		}, chain.ErrStateGone},
		"another's account": {"getTokenAccountsByOwner", func(e *exchange) { e.EditResult(t, s.strangers(t)) }, nil},
		"an account twice": {"getTokenAccountsByOwner", func(e *exchange) {
			e.EditResult(t, func(m map[string]any) { l := m["value"].([]any); m["value"] = append(l, l...) })
		}, nil},
		"another block then": {"getBlock", inBlock(t, h.Latest.Height, otherHash), nil},
	} {
		p.SetRule(c2.method, c2.rule)
		got, err := one.Balances(t.Context(), h.Latest, of)
		refused(t, what, got, err, c2.want)
		p.SetRule(c2.method, nil)
	}
	// A later block is left out.
	p.SetRule("getBlocksWithLimit", func(e *exchange) {
		var slots []uint64
		if json.Unmarshal(e.Result, &slots) == nil && len(slots) > 2 {
			b, _ := json.Marshal(append(slots[:1:1], slots[2:]...))
			e.SetResult(string(b))
		}
	})
	below, err := one.Recent(t.Context(), s.height)
	if err != nil {
		t.Fatal(err)
	}
	got, err = one.Balances(t.Context(), below.Block, of)
	refused(t, "a block that is left out", got, err, nil)
	p.SetRule("getBlocksWithLimit", nil)
	if got, err := one.Balances(t.Context(), below.Block, of); err != nil || got[0] != money.Units(1000) {
		t.Errorf("whole again: got %v, %v, want 1000", got, err)
	}
}

// strangers gives the owner's account another owner.
func (s *proxiedLab) strangers(t *testing.T) func(map[string]any) {
	var other struct {
		Value json.RawMessage
	}
	if err := s.node.RPC.CallContext(t.Context(), &other, "getTokenAccountsByOwner", surfpool.AddressOf(s.stranger),
		map[string]any{"mint": surfpool.USDC}, map[string]any{"encoding": "base64"}); err != nil {
		t.Fatal(err)
	}
	return func(m map[string]any) { m["value"] = other.Value }
}

func TestOneProviderMakesAProgramOfAnAddress(t *testing.T) {
	t.Parallel()
	s := newProxiedLab(t, 3)
	c := s.open(t, 2)
	at := s.latest(t)
	owned := func(e *exchange) {
		e.EditResult(t, func(m map[string]any) { m["value"].(map[string]any)["owner"] = usdc.Program })
	}
	s.proxies[1].SetRule("getAccountInfo", owned)
	if got, err := c.Kind(t.Context(), at, s.to); err != nil || got != chain.ContractAccount {
		t.Errorf("one says so: got %q, %v, want PROGRAMMED", got, err)
	}
	s.proxies[1].SetRule("getAccountInfo",
		func(e *exchange) { e.SetError(`{"code":-32005,"message":"Node is behind"}`) })
	if got, err := c.Kind(t.Context(), at, s.to); err != nil || got != chain.KeyAccount {
		t.Errorf("one is silent: got %q, %v, want KEYED", got, err)
	}
	s.proxies[2].SetRule("getBlock", inBlock(t, at.Height, otherHash))
	got, err := c.Kind(t.Context(), at, s.to)
	refused(t, "one silent, one on a fork", got, err, nil)
}
