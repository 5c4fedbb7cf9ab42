package evm_test

import (
	"encoding/binary"
	"math/big"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm"
	"github.com/cofferpay/coffer/internal/money"
)

// spam creates a contract that writes empty logs while it is created.
func spam(logs uint16) []byte {
	code := common.FromHex("610000" + // PUSH2 logs
		"5b" + "60006000a0" + // JUMPDEST; LOG0 of nothing
		"60019003" + "80" + "600357" + "00") // one less; JUMPI to 3 unless it is zero; STOP
	binary.BigEndian.PutUint16(code[1:], logs)
	return code
}

// Any sender may fill a block with logs and with data.
func TestABlockOfMoreThanAnAnswerMayHaveIsRead(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	payee := l.Account(t)
	l.Pay(t, chain.Token, payee, money.Units(1000))
	for range 3 { // 1.5 MB of receipts each, with 20 KB of data each
		if _, err := l.node.SendTx(t.Context(), nil, big.NewInt(0),
			append(spam(4000), make([]byte, 20_000)...)); err != nil {
			t.Fatal(err)
		}
	}
	l.Pay(t, chain.Native, payee, money.Units(1000))
	l.Mine(t, 1)
	h, err := l.chain.Reader.Heads(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l.Finalize(t)
	refuse := func(e *exchange) {
		if e.Method == "eth_getBlockReceipts" || string(e.Params[1]) == "true" {
			e.SetError(`{"code":-32008,"message":"Response is too big"}`)
		}
	}
	for name, c := range map[string]struct {
		change func(*evm.Config)
		rule   rule
		parts  bool
	}{
		"whole":              {func(*evm.Config) {}, nil, false},
		"of little answers":  {func(c *evm.Config) { c.AnswerBytesMax = 1 << 20 }, nil, false},
		"of bounded answers": {func(c *evm.Config) { c.AnswerBytesMax, c.BlockBytesMax = 2<<20, 1<<10 }, nil, true},
		"that is refused":    {func(c *evm.Config) {}, refuse, true},
	} {
		p := newProxy(t, l.node)
		cfg := config(p.URL)
		cfg.Trace = evm.TraceOff
		c.change(&cfg)
		in := newChain(t, cfg)
		for _, method := range []string{"eth_getBlockReceipts", "eth_getBlockByHash", "eth_getBlockByNumber"} {
			p.SetRule(method, c.rule)
		}
		for what, read := range map[string]func() (chain.Contents, error){
			"final":  func() (chain.Contents, error) { return in.Reader.Final(t.Context(), h.Latest.Height) },
			"recent": func() (chain.Contents, error) { return in.Reader.Recent(t.Context(), h.Latest.Height) },
		} {
			got, err := read()
			if came := strings.Join(to(got, payee), " "); err != nil || came != "TOKEN@0 1000 NATIVE@ 1000" {
				t.Errorf("a block %s, %s: got %q, %v, want both payments", name, what, came, err)
			}
		}
		if asked := p.CallCount("eth_getTransactionReceipt") > 0; asked != c.parts {
			t.Errorf("a block %s: got its receipts asked for one by one: %v, want %v", name, asked, c.parts)
		}
	}
}
