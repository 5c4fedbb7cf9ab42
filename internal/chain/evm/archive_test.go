package evm_test

import (
	"errors"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm"
	"github.com/cofferpay/coffer/internal/money"
)

func TestStateThatNodesNoLongerKeepComesFromArchives(t *testing.T) {
	t.Parallel()
	s := newProxiedLab(t, 4)
	at, err := final(t, s.chain, s.height)
	if err != nil {
		t.Fatal(err)
	}
	of := []chain.Holding{{Address: s.to}, {Address: s.to, Contract: s.Token()}}
	reader := func(agree int, archives ...*proxy) chain.Reader {
		cfg := config(s.proxies[0].URL, s.proxies[1].URL)
		cfg.Quorum = agree
		for _, p := range archives {
			cfg.Archives = append(cfg.Archives, p.URL)
		}
		return newChain(t, cfg).Reader
	}
	one, two := s.proxies[2], s.proxies[3]
	without, few, enough, alone := reader(1), reader(2, one), reader(2, one, two), reader(1, one)
	for _, words := range []string{
		"missing trie node 31a2 (path )", "historical state 0x12 is not available",
		"required historical state unavailable (reexec=128)",
		"distance to target block exceeds maximum proof window", "state is pruned",
	} {
		for _, p := range s.proxies[:2] {
			gone := func(e *exchange) { e.SetError(`{"code":-32000,"message":"` + words + `"}`) }
			p.SetRule("eth_getBalance", gone)
			p.SetRule("eth_call", gone)
		}
		for what, r := range map[string]chain.Reader{"no archive": without, "one archive, two have to agree": few} {
			if got, err := r.Balances(t.Context(), at.Block, of); !errors.Is(err, chain.ErrStateGone) {
				t.Errorf("%s, %s: got %v, %v, want ErrStateGone", words, what, got, err)
			}
		}
		for what, r := range map[string]chain.Reader{"one archive, one is enough": alone, "two archives": enough} {
			got, err := r.Balances(t.Context(), at.Block, of)
			if err != nil || got[0] != money.Units(2000) || got[1] != money.Units(1000) {
				t.Errorf("%s, %s: got %v, %v, want 2000 and 1000", words, what, got, err)
			}
		}
	}
	// No question about finality, and no transaction, goes to an archive provider.
	before := one.CallCount("eth_getBlockByNumber")
	if _, err := alone.Final(t.Context(), s.height); err != nil {
		t.Fatal(err)
	}
	if _, err := alone.Heads(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := one.CallCount("eth_getBlockByNumber"); after != before || one.CallCount("eth_getBlockReceipts") != 0 {
		t.Errorf("got an archive that was asked %d times for blocks, want it not to be", after-before)
	}
	cfg := config(s.proxies[0].URL)
	cfg.Archives = []string{one.URL}
	one.SetRule("eth_chainId", func(e *exchange) { e.SetResult(`"0x1"`) })
	if _, err := evm.New(t.Context(), cfg); err == nil {
		t.Error("an archive of another chain: got no error")
	}
}

func TestTracesThatNodesNoLongerGiveComeFromArchives(t *testing.T) {
	t.Parallel()
	s := newProxiedLab(t, 2)
	cfg := config(s.proxies[0].URL)
	cfg.Archives = []string{s.proxies[1].URL}
	c := newChain(t, cfg)
	s.proxies[0].SetRule("debug_traceBlockByHash",
		func(e *exchange) { e.SetError(`{"code":-32000,"message":"required historical state unavailable"}`) })
	got, err := final(t, c, s.height)
	if err != nil || !got.Traced || len(got.Transfers) != traced {
		t.Errorf("got %+v, %v, want all transfers", got, err)
	}
}
