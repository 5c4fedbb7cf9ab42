package solana_test

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
)

// Anyone can send coin to the address of an account that does not exist yet. Only a token account of the address and
// the token exists, so nothing else keeps the service from creating it, and no wallet is asked to pay into another one.
// Rule CO-138.
func TestAnAccountExistsOnlyAsATokenAccountOfItsAddress(t *testing.T) {
	t.Parallel()
	node := newProxy(t, "", nil)
	node.SetRule("getGenesisHash", func(e *exchange) { e.SetResult(`"` + requestBlockhash + `"`) })
	cfg := config(node.URL)
	cfg.Timeout = 2 * time.Second
	accounts := open(t, cfg).TokenAccounts
	owner := chain.Address("mvines9iiHiQTysrwkJjGf2gb9Ex9jXJX8ns3qwf2kN")
	of := func(mint, owner chain.Address, state byte) []byte {
		data := make([]byte, 165)
		mintKey, err := solanatx.Bytes(mint)
		if err != nil {
			t.Fatal(err)
		}
		ownerKey, err := solanatx.Bytes(owner)
		if err != nil {
			t.Fatal(err)
		}
		copy(data, mintKey[:])
		copy(data[32:], ownerKey[:])
		data[108] = state
		return data
	}
	usual := of(usdc.Address, owner, 1)
	cases := []struct {
		name    string
		program chain.Address
		data    []byte
		want    bool
	}{
		{"a token account", usdc.Program, usual, true},
		{"a frozen one", usdc.Program, of(usdc.Address, owner, 2), true},
		{"coin alone", solanatx.SystemProgram, nil, false},
		{"an empty account of the program", usdc.Program, nil, false},
		{"one without a state", usdc.Program, of(usdc.Address, owner, 0), false},
		{"one of another token", usdc.Program, of(requestPayer, owner, 1), false},
		{"one of another owner", usdc.Program, of(usdc.Address, requestPayer, 1), false},
		{"one of another program", solanatx.Token2022Program, usual, false},
	}
	var entries []string
	var want []bool
	for _, c := range cases {
		entries = append(entries, fmt.Sprintf(`{"lamports":2039280,"owner":%q,"executable":false,"data":[%q,"base64"]}`,
			c.program, base64.StdEncoding.EncodeToString(c.data)))
		want = append(want, c.want)
	}
	node.SetRule("getMultipleAccounts", func(e *exchange) {
		if !strings.Contains(string(e.Params[1]), `"finalized"`) {
			t.Errorf("got the question %s, want the final state", e.Params[1])
		}
		e.SetResult(`{"context":{"slot":7},"value":[` + strings.Join(entries, ",") + `,null]}`)
	})
	holdings := slices.Repeat([]chain.Holding{{Address: owner, Contract: usdc.Address}}, len(cases)+1)
	got, err := accounts.Existing(t.Context(), holdings)
	if want := append(want, false); err != nil || !slices.Equal(got, want) {
		for i, c := range cases {
			if err == nil && got[i] != c.want {
				t.Errorf("%s: got that it exists: %v, want %v", c.name, got[i], c.want)
			}
		}
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}
