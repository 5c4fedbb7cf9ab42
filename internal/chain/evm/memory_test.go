package evm_test

import (
	"bytes"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/endpoint/fakerpc"
	"github.com/cofferpay/coffer/internal/money"
)

// Not parallel: it counts what this process allocates.
func TestALongTraceIsNotHeld(t *testing.T) {
	l := newLab(t)
	to := l.Account(t)
	tx := l.Pay(t, chain.Internal, to, money.Units(1000))
	l.Mine(t, 1)
	at := l.latest(t)
	var from string
	for _, tr := range at.Transfers {
		if tr.Tx == tx && tr.Kind == chain.Native {
			from = string(tr.From)
		}
	}
	p := fakerpc.New(t, l.node.URL, nil)
	c := newChain(t, config(p.URL))
	// No block has the gas for the memory that a longer input needs.
	input := bytes.Repeat([]byte("0"), 4<<20)
	p.SetRule(oneTrace, func(e *exchange) {
		e.WriteRaw(func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w,
				`{"jsonrpc":"2.0","id":1,"result":{"type":"CALL","from":%q,"calls":[{"type":"CALL","from":%q,"to":%q,"value":"0x3e8"}`,
				from, l.batch, to)
			for range 200 << 20 / len(input) {
				fmt.Fprintf(w, `,{"type":"CALL","from":%q,"to":%q,"input":"0x`, l.batch, l.batch)
				if _, err := w.Write(input); err != nil {
					return
				}
				fmt.Fprint(w, `"}`)
			}
			fmt.Fprint(w, `]}}`)
		})
	})
	question := chain.InternalTransfersQuery{
		Block: at.Block, Tx: tx, Recipients: []chain.Address{to},
		Providers: chain.QuorumOfProviders,
	}
	ask := func(attempt int) (found []chain.Transfer, allocated uint64, err error) {
		var before, after runtime.MemStats
		question.Attempt = attempt
		runtime.ReadMemStats(&before)
		got, err := c.Reader.(chain.Tracer).InternalTransfers(t.Context(), question)
		runtime.ReadMemStats(&after)
		return got, after.TotalAlloc - before.TotalAlloc, err
	}
	if got, _, err := ask(0); err == nil || !strings.Contains(err.Error(), "longer than is allowed") {
		t.Errorf("first attempt: got %v, %v, want an error about the length", got, err)
	}
	got, held, err := ask(5)
	if err != nil || len(got) != 1 || got[0].Amount != money.Units(1000) {
		t.Errorf("later attempt: got %v, %v, want what moved", got, err)
	}
	if held > 50<<20 {
		t.Errorf("got %d MB allocated in all for an answer of 200 MB, want less than 50", held>>20)
	}
}
