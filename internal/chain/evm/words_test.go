package evm

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/rpc"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/endpoint"
	"github.com/cofferpay/coffer/internal/chain/quorum"
)

func TestOnlyTheStandardEventIsATransfer(t *testing.T) {
	t.Parallel()
	from, to := common.HexToAddress("0xaa"), common.HexToAddress("0xbb")
	good := func() *types.Log {
		return &types.Log{
			Address: common.HexToAddress("0xcc"),
			Topics:  []common.Hash{transferTopic, common.BytesToHash(from[:]), common.BytesToHash(to[:])},
			Data:    common.BigToHash(big.NewInt(5)).Bytes(),
		}
	}
	if tr, ok := tokenTransfer(good()); !ok || tr.amount.Dec() != "5" {
		t.Errorf("standard: got %+v, %v, want a transfer of 5", tr, ok)
	}
	for name, change := range map[string]func(*types.Log){
		"another event":         func(l *types.Log) { l.Topics[0][0]++ },
		"no topics":             func(l *types.Log) { l.Topics = nil },
		"amount indexed":        func(l *types.Log) { l.Topics, l.Data = append(l.Topics, common.Hash{31: 5}), nil },
		"nothing indexed":       func(l *types.Log) { l.Topics, l.Data = l.Topics[:1], make([]byte, 96) },
		"a word too many":       func(l *types.Log) { l.Data = append(l.Data, make([]byte, 32)...) },
		"a byte too few":        func(l *types.Log) { l.Data = l.Data[1:] },
		"dirty sender":          func(l *types.Log) { l.Topics[1][0] = 1 },
		"dirty receiver":        func(l *types.Log) { l.Topics[2][11] = 1 },
		"nothing":               func(l *types.Log) { l.Data = make([]byte, 32) },
		"native coin, EIP-7708": func(l *types.Log) { l.Address = nativeLogAddress },
	} {
		l := good()
		change(l)
		if tr, ok := tokenTransfer(l); ok {
			t.Errorf("%s: got %+v, want no transfer", name, tr)
		}
	}
}

func TestTracesGiveWhatMovedAndWhere(t *testing.T) {
	t.Parallel()
	const a, b = "0x00000000000000000000000000000000000000aa", "0x00000000000000000000000000000000000000bb"
	call := func(kind, value, rest string) string {
		return fmt.Sprintf(`{"type":%q,"from":%q,"to":%q,"value":%q%s}`, kind, a, b, value, rest)
	}
	below := func(of ...string) string { return `,"calls":[` + strings.Join(of, ",") + `]` }
	for name, c := range map[string]struct {
		root string
		want string
	}{
		"the transaction's own value": {call("CALL", "0x5", ""), ""},
		"a call":                      {call("CALL", "0x5", below(call("CALL", "0x1", ""))), "0=1"},
		"deep": {call("CALL", "0x5", below(call("STATICCALL", "0x0", ""),
			call("CALL", "0x0", below(call("CALL", "0x2", below(call("CALL", "0x3", ""))))))), "1.0=2 1.0.0=3"},
		"undone with all below": {call("CALL", "0x5",
			below(call("CALL", "0x1", `,"error":"execution reverted"`+below(call("CALL", "0x2", ""))),
				call("CALL", "0x3", ""))), "1=3"},
		"delegated": {call("CALL", "0x5",
			below(call("DELEGATECALL", "0x5", below(call("CALL", "0x4", ""))))), "0.0=4"},
		"old delegation": {call("CALL", "0x5", below(call("CALLCODE", "0x5", ""))), ""},
		"created": {call("CALL", "0x5",
			below(call("CREATE", "0x1", ""), call("CREATE2", "0x2", ""))), "0=1 1=2"},
		"destroyed":       {call("CALL", "0x5", below(call("SELFDESTRUCT", "0x7", ""))), "0=7"},
		"nothing":         {call("CALL", "0x5", below(call("CALL", "0x0", ""))), ""},
		"without a value": {call("CALL", "0x5", below(`{"type":"CALL","from":"`+a+`","to":"`+b+`"}`)), ""},
		"to itself": {call("CALL", "0x5",
			below(`{"type":"CALL","from":"`+a+`","to":"`+a+`","value":"0x9"}`)), ""},
	} {
		moved, err := calls(c.root)
		var got []string
		for _, tr := range moved {
			got = append(got, tr.Position+"="+tr.Amount.String())
		}
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%s: got %v, %v, want %q", name, got, err, c.want)
		}
	}
	for _, bad := range []string{
		call("EXTCALL", "0x1", ""), call("", "0x1", ""), call("CALL", "0x1"+strings.Repeat("0", 64), ""),
		`{"type":"CALL","from":"` + a + `","value":"0x9"}`,
	} {
		if moved, err := calls(call("CALL", "0x0", below(bad))); err == nil {
			t.Errorf("%s: got %v, want an error", bad, moved)
		}
	}
}

// calls returns the movements in a trace.
func calls(trace string) ([]chain.Transfer, error) {
	tr := traced{isWanted: func(common.Address) bool { return true }, budget: transfersMax}
	err := newRawReader([]byte(trace)).readCalls(&tr)
	return tr.transfers, err
}

func TestTheRootOfTheFirstTransactionOfEthereum(t *testing.T) {
	t.Parallel()
	// Block 46147 of the main network has one transaction, the first of the chain.
	number := func(s string) *big.Int { n, _ := new(big.Int).SetString(s, 0); return n }
	to := common.HexToAddress("0x5df9b87991262f6ba471f09758cde1c0fc1de734")
	tx := types.NewTx(&types.LegacyTx{
		Nonce: 0, GasPrice: number("50000000000000"), Gas: 21_000, To: &to, Value: number("31337"), V: number("28"),
		R: number("0x88ff6cf0fefd94db46111149ae4bfc179e9b94721fffd821d38d16464b3f71d0"),
		S: number("0x45e0aff800961cfce805daef7016b9b675c137a6a41a548f7b60a3484c06a33a"),
	})
	if got, want := tx.Hash().Hex(), "0x5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060"; got != want {
		t.Fatalf("hash: got %s, want %s", got, want)
	}
	encoded, err := tx.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	var root, none listRoot
	root.addItem(encoded)
	if got, want := root.rootHash().Hex(),
		"0x4513310fcb9f6f616972a3b948dc5d547f280849a87ebb5af0191f98b87be598"; got != want {
		t.Errorf("root: got %s, want %s", got, want)
	}
	if got := none.rootHash(); got != types.EmptyRootHash {
		t.Errorf("root of nothing: got %s, want %s", got, types.EmptyRootHash)
	}
}

func TestADepthNeverReachesBelowTheFirstBlock(t *testing.T) {
	t.Parallel()
	f := Finality{Depth: 12}
	for latest, want := range map[uint64]uint64{0: 0, 11: 0, 12: 0, 13: 1, 100: 88} {
		if got := f.finalHeight(latest); got != want {
			t.Errorf("below(%d): got %d, want %d", latest, got, want)
		}
	}
}

// FuzzHeader shows that no provider's answer makes the adapter panic.
func FuzzHeader(f *testing.F) {
	f.Add([]byte(`{"hash":"0x00","number":"0x1"}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, hash, err := ethereum.readHeader(b)
		if err == nil && h.Hash() != hash {
			t.Errorf("got %s, want %s", hash, h.Hash())
		}
	})
}

// FuzzTraces shows the same for traces.
func FuzzTraces(f *testing.F) {
	f.Add([]byte(
		`{"type":"CALL","calls":[{"type":"CALL","value":"0x1","from":"0x00000000000000000000000000000000000000aa","to":"0x00000000000000000000000000000000000000bb"}]}`,
	))
	f.Fuzz(func(t *testing.T, b []byte) {
		moved, err := calls(string(b))
		if err != nil {
			return
		}
		seen := map[string]bool{}
		for _, tr := range moved {
			if seen[tr.Position] || tr.Amount.IsZero() {
				t.Errorf("got %+v, want something, once", tr)
			}
			seen[tr.Position] = true
		}
	})
}

// fakeRPCError is an error in a node's words.
type fakeRPCError struct {
	code int
	text string
	data any
}

func (s fakeRPCError) Error() string  { return s.text }
func (s fakeRPCError) ErrorCode() int { return s.code }
func (s fakeRPCError) ErrorData() any { return s.data }

func TestOnlyARevertProvesARevert(t *testing.T) {
	t.Parallel()
	// Error(string) with "blacklisted".
	reason := "0x08c379a0" + fmt.Sprintf("%064x%064x%s", 32, 11, "626c61636b6c6973746564"+strings.Repeat("00", 21))
	for _, c := range []struct {
		in   fakeRPCError
		want string // "" when it proves nothing
	}{
		{fakeRPCError{3, "execution reverted: blacklisted", reason}, "blacklisted"},
		{fakeRPCError{3, "execution reverted", "0x"}, "execution reverted"},
		{fakeRPCError{3, "execution reverted", nil}, "execution reverted"},
		{fakeRPCError{3, "execution reverted", "0x1234"}, "execution reverted"},
		{fakeRPCError{-32000, "execution reverted", nil}, "execution reverted"},
		{fakeRPCError{-32015, "VM execution error.", "Reverted 0x"}, ""},
		{fakeRPCError{-32000, "invalid opcode: INVALID", nil}, "invalid opcode: INVALID"},
		{fakeRPCError{-32000, "header not found", nil}, ""},
		{fakeRPCError{-32005, "limit exceeded", nil}, ""},
		{fakeRPCError{-32603, "internal error", nil}, ""},
	} {
		err := new(endpoint.Endpoint).WrapError("eth_call", c.in)
		var r *chain.RevertedError
		if got := asRevert(err); errors.As(got, &r) != (c.want != "") || r != nil && r.Reason != c.want {
			t.Errorf("%+v: got %v, want %q", c.in, got, c.want)
		}
	}
	long := fakeRPCError{3, strings.Repeat("é", 10_000), nil}
	var r *chain.RevertedError
	if !errors.As(asRevert(long), &r) || len(r.Reason) > quorum.AnswerBytesMax {
		t.Errorf("a long reason: got %d bytes, want at most %d", len(r.Reason), quorum.AnswerBytesMax)
	}
}

func TestOnlyARefusalWithholdsAMethod(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   error
		want bool
	}{
		{fakeRPCError{code: -32601, text: "the method debug_traceBlockByHash does not exist/is not available"}, true},
		{fakeRPCError{code: -32600, text: "debug_traceBlockByHash is not available on the Free tier"}, true},
		{fakeRPCError{code: -32000, text: "Unsupported method"}, true},
		{rpc.HTTPError{StatusCode: 403, Status: "403 Forbidden"}, true},
		{fakeRPCError{code: -32005, text: "daily request count exceeded"}, false},
		{fakeRPCError{code: -32003, text: "daily request limit reached - upgrade your account to continue"}, false},
		{fakeRPCError{
			code: 429,
			text: "Your app has exceeded its compute units per second capacity. Upgrade your plan.",
		}, false},
		{fakeRPCError{code: -32000, text: "header not found"}, false},
		{rpc.HTTPError{StatusCode: 429, Status: "429 Too Many Requests"}, false},
		{rpc.HTTPError{StatusCode: 502, Status: "502 Bad Gateway"}, false},
		{errors.New("EOF"), false},
	} {
		if got := isNotOffered(new(endpoint.Endpoint).WrapError(traceBlockMethod, c.in)); got != c.want {
			t.Errorf("%v: got %v, want %v", c.in, got, c.want)
		}
	}
}
