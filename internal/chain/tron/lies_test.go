package tron_test

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/tron"
	"github.com/cofferpay/coffer/internal/chain/tron/trontx"
	"github.com/cofferpay/coffer/internal/money"
)

type object = map[string]any

func list(v any) []any { l, _ := v.([]any); return l }

func at(v any, path ...string) object {
	for _, p := range path {
		v = v.(object)[p]
	}
	return v.(object)
}

// busy returns a chain whose newest block has a transfer, a token transfer, a transfer inside a
// contract call and a failed transaction. The block is final.
func busy(t *testing.T) (f *fake, to chain.Address, height uint64) {
	f = newFake(t)
	to = f.account()
	failed := f.tokenTransfer(to, money.Units(9))
	failed.script = func(_ *fakeState, info map[string]any) string {
		info["receipt"] = object{"result": "REVERT"}
		return "REVERT"
	}
	inner := f.call(f.router, []byte("x"))
	inner.script = func(s *fakeState, info map[string]any) string {
		s.coins[to] += 7
		info["receipt"] = object{"result": "SUCCESS"}
		info["internal_transactions"] = []any{
			internalTx(f, f.router, to, 7, false), internalTx(f, f.router, to, 8, true),
		}
		return "SUCCESS"
	}
	f.pending = []*fakeTx{f.transfer(to, 5), f.tokenTransfer(to, money.Units(6)), inner, failed}
	f.mine(1)
	height = f.head().height
	f.mine(solidBehind)
	return f, to, height
}

// about changes answers about one block only.
func about(method string, height uint64, change func(answer any) any) func(string, string, map[string]any, any) any {
	return func(_, m string, _ map[string]any, answer any) any {
		if m != method {
			return answer
		}
		if method == "getblock" && at(answer, "block_header", "raw_data")["number"] != json.Number(heightText(height)) {
			return answer
		}
		return change(answer)
	}
}

func heightText(h uint64) string { b, _ := json.Marshal(h); return string(b) }

func tx(answer any, i int) object { return list(at(answer)["transactions"])[i].(object) }

func info(answer any, i int) object { return list(answer)[i].(object) }

func whole(change func(b object)) func(any) any {
	return func(a any) any {
		if _, there := at(a)["transactions"]; there {
			change(at(a))
		}
		return a
	}
}

func infos(change func(all []any) []any) func(any) any {
	return func(a any) any {
		if len(list(a)) == 0 {
			return a
		}
		return change(list(a))
	}
}

func TestABlockThatDoesNotHoldTogetherIsAnError(t *testing.T) {
	t.Parallel()
	f, to, height := busy(t)
	honest := f.open(t, 1, nil, &node{})
	for _, read := range []func(c *tron.Client) (chain.Contents, error){
		func(c *tron.Client) (chain.Contents, error) { return c.Final(t.Context(), height) },
		func(c *tron.Client) (chain.Contents, error) { return c.Recent(t.Context(), height) },
	} {
		got, err := read(honest)
		if err != nil || len(got.Transfers) != 3 || !got.Traced || got.Height != height {
			t.Fatalf("honest: got %+v, %v, want three movements", got, err)
		}
		for i, want := range []chain.Transfer{
			{Kind: chain.Native, To: to, Amount: money.Units(5)},
			{Kind: chain.Token, Contract: f.token, To: to, Amount: money.Units(6), Position: "0"},
			{Kind: chain.Internal, To: to, Amount: money.Units(7), Position: "0"},
		} {
			if g := got.Transfers[i]; g.Kind != want.Kind || g.To != to || g.Amount != want.Amount ||
				g.Position != want.Position || g.Contract != want.Contract {
				t.Errorf("movement %d: got %+v, want %+v", i, g, want)
			}
		}
	}
	type lie struct {
		method string
		change func(any) any
	}
	zeros := strings.Repeat("00", 32)
	lies := map[string]lie{
		"another identifier": {"getblock", func(a any) any { at(a)["blockID"] = zeros; return a }},
		"another time": {
			"getblock", func(a any) any { at(a, "block_header", "raw_data")["timestamp"] = 1; return a },
		},
		"another parent": {
			"getblock", func(a any) any { at(a, "block_header", "raw_data")["parentHash"] = zeros; return a },
		},
		"another root": {
			"getblock", func(a any) any { at(a, "block_header", "raw_data")["txTrieRoot"] = zeros; return a },
		},
		"another height": {
			"getblock", func(a any) any { at(a, "block_header", "raw_data")["number"] = 2; return a },
		},
		"no header":       {"getblock", func(a any) any { at(a)["block_header"] = object{}; return a }},
		"no block":        {"getblock", func(any) any { return object{} }},
		"an error":        {"getblock", func(any) any { return object{"Error": "class java.lang.Exception"} }},
		"nothing":         {"getblock", func(any) any { return nil }},
		"a list":          {"getblock", func(any) any { return []any{} }},
		"no transactions": {"getblock", whole(func(b object) { delete(b, "transactions") })},
		"one left out":    {"getblock", whole(func(b object) { b["transactions"] = list(b["transactions"])[1:] })},
		"one twice": {
			"getblock",
			whole(func(b object) { b["transactions"] = append(list(b["transactions"]), list(b["transactions"])[3]) }),
		},
		"another order": {"getblock", whole(func(b object) {
			l := list(b["transactions"])
			l[0], l[1] = l[1], l[0]
		})},
		"a failure made a success": {
			"getblock", whole(func(b object) { tx(b, 3)["ret"] = []any{object{"contractRet": "SUCCESS"}} }),
		},
		"a success made a failure": {
			"getblock", whole(func(b object) { tx(b, 0)["ret"] = []any{object{"contractRet": "REVERT"}} }),
		},
		"no outcome": {"getblock", whole(func(b object) { delete(tx(b, 0), "ret") })},
		"an outcome nobody knows": {
			"getblock", whole(func(b object) { tx(b, 0)["ret"] = []any{object{"contractRet": "GREAT"}} }),
		},
		"a result nobody knows": {
			"getblock", whole(func(b object) { tx(b, 0)["ret"] = []any{object{"contractRet": "SUCCESS", "x": 1}} }),
		},
		"two outcomes": {
			"getblock", whole(func(b object) { tx(b, 0)["ret"] = append(list(tx(b, 0)["ret"]), object{}) }),
		},
		"another signature": {"getblock", whole(func(b object) { tx(b, 0)["signature"] = []any{"00"} })},
		"another transaction's bytes": {
			"getblock", whole(func(b object) { tx(b, 0)["raw_data_hex"] = tx(b, 1)["raw_data_hex"] }),
		},
		"a transaction of another name": {"getblock", whole(func(b object) { tx(b, 0)["txID"] = zeros })},
		"no bytes":                      {"getblock", whole(func(b object) { tx(b, 0)["raw_data_hex"] = "" })},
		"no results":                    {"gettransactioninfobyblocknum", infos(func([]any) []any { return []any{} })},
		"results that are none":         {"gettransactioninfobyblocknum", func(any) any { return object{} }},
		"a result left out": {
			"gettransactioninfobyblocknum", infos(func(all []any) []any { return all[1:] }),
		},
		"a result more": {
			"gettransactioninfobyblocknum", infos(func(all []any) []any { return append(all, object{"id": zeros}) }),
		},
		"a result twice": {
			"gettransactioninfobyblocknum", infos(func(all []any) []any { return append(all, all[0]) }),
		},
		"results of another block": {
			"gettransactioninfobyblocknum",
			infos(func(all []any) []any { info(all, 0)["blockNumber"] = 1; return all }),
		},
		"results of another time": {
			"gettransactioninfobyblocknum",
			infos(func(all []any) []any { info(all, 0)["blockTimeStamp"] = 1; return all }),
		},
		"a fee below zero": {
			"gettransactioninfobyblocknum", infos(func(all []any) []any { info(all, 0)["fee"] = -1; return all }),
		},
		"a result that failed": {
			"gettransactioninfobyblocknum",
			infos(func(all []any) []any { info(all, 1)["result"] = "FAILED"; return all }),
		},
		"a receipt that failed": {
			"gettransactioninfobyblocknum",
			infos(func(all []any) []any { at(info(all, 1), "receipt")["result"] = "REVERT"; return all }),
		},
		"a receipt that did not fail": {
			"gettransactioninfobyblocknum",
			infos(func(all []any) []any { at(info(all, 3), "receipt")["result"] = "SUCCESS"; return all }),
		},
		"a log of nobody": {"gettransactioninfobyblocknum", infos(func(all []any) []any {
			list(info(all, 1)["log"])[0].(object)["address"] = "41"
			return all
		})},
		"a log that is no hexadecimal": {"gettransactioninfobyblocknum", infos(func(all []any) []any {
			list(info(all, 1)["log"])[0].(object)["data"] = "zz"
			return all
		})},
		"less than nothing inside": {"gettransactioninfobyblocknum", infos(func(all []any) []any {
			list(list(info(all, 2)["internal_transactions"])[0].(object)["callValueInfo"])[0].(object)["callValue"] = -7
			return all
		})},
		"nobody inside": {"gettransactioninfobyblocknum", infos(func(all []any) []any {
			list(info(all, 2)["internal_transactions"])[0].(object)["transferTo_address"] = "42"
			return all
		})},
	}
	for name, l := range lies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := f.open(t, 1, nil, &node{lie: about(l.method, height, l.change)})
			if got, err := c.Final(t.Context(), height); err == nil {
				t.Errorf("final: got %+v, want an error", got)
			}
			if got, err := c.Recent(t.Context(), height); err == nil {
				t.Errorf("recent: got %+v, want an error", got)
			}
		})
	}
}

func TestWhatOnlyLooksLikeATransferIsNone(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	to, other := f.account(), trontx.FromAccountBytes([20]byte{9, 9})
	big := money.MustParse("115792089237316195423570985008687907853269984665640564039457584007913129639935")
	beyond := money.MustParse("18446744073709551617")
	good := func() object { return transferLog(f, f.token, f.stranger, to, money.Units(1)) }
	with := func(change func(l object)) object {
		l := good()
		change(l)
		return l
	}
	topics := func(l object) []string { return l["topics"].([]string) }
	x := f.call(f.token, []byte("many"))
	x.script = func(_ *fakeState, info map[string]any) string {
		info["log"] = []any{
			// of a contract without amounts
			with(func(l object) { l["topics"] = append(topics(l), topics(l)[2]) }),
			// too few
			with(func(l object) { l["topics"] = topics(l)[:2] }),
			// an approval
			with(func(l object) { topics(l)[0] = "8c5be1e5ebec7d5bd14f71427d1e84f3dd0314c0f7b2291e5b200ac8c7c3b925" }),
			// two amounts
			with(func(l object) { l["data"] = text(l["data"]) + text(l["data"]) }),
			// none
			with(func(l object) { delete(l, "data") }),
			// more than an address
			with(func(l object) { topics(l)[2] = "01" + topics(l)[2][2:] }),
			// the prefix is inside the address
			with(func(l object) { topics(l)[2] = topics(l)[2][:22] + "41" + topics(l)[2][24:] }),
			with(func(l object) { delete(l, "topics") }),
			transferLog(f, other, f.stranger, to, money.Units(2)), // another token, whatever its name
			transferLog(f, f.token, f.stranger, to, beyond),
			transferLog(f, f.token, f.stranger, to, big),
			transferLog(f, f.token, f.stranger, to, money.Zero),
		}
		trc10 := internalTx(f, f.router, to, 5, false)
		list(trc10["callValueInfo"])[0].(object)["tokenId"] = "1000001"
		info["internal_transactions"] = []any{trc10, internalTx(f, f.router, to, 0, false)}
		return "SUCCESS"
	}
	// A failed call that shows its logs nevertheless, and kinds that are unknown or move no TRX: an
	// unknown one, TRC-10, an account's name.
	failed := f.tokenTransfer(to, money.Units(3))
	failed.script = func(_ *fakeState, info map[string]any) string { return "REVERT" }
	owner := bytesField(nil, 1, f.bytes(f.stranger))
	f.pending = []*fakeTx{
		x, failed, f.write(99, "FutureContract", bytesField(owner, 2, f.bytes(to)), 0),
		f.write(99, "FutureContract", []byte{0xff}, 0),
		f.write(
			2, "TransferAssetContract",
			intField(
				bytesField(bytesField(bytesField(nil, 1, []byte("1000001")), 2, f.bytes(f.stranger)), 3, f.bytes(to)),
				4, 77,
			),
			0,
		),
		f.write(10, "AccountUpdateContract", bytesField(bytesField(nil, 1, []byte("name")), 2, f.bytes(f.stranger)), 0),
	}
	f.mine(1)
	height := f.head().height
	c := f.open(t, 1, nil, &node{lie: about("gettransactioninfobyblocknum", 0, infos(func(all []any) []any {
		info(all, 1)["log"] = []any{clone(good())}
		return all
	}))})
	got, err := c.Recent(t.Context(), height)
	if err != nil {
		t.Fatalf("got %v, want the block", err)
	}
	var seen []string
	for _, tr := range got.Transfers {
		seen = append(seen, string(tr.Contract)+" "+tr.Amount.String()+" "+tr.Position)
	}
	want := []string{
		string(other) + " 2 8", string(f.token) + " " + beyond.String() + " 9",
		string(f.token) + " " + big.String() + " 10",
	}
	if strings.Join(seen, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(seen, "\n"), strings.Join(want, "\n"))
	}
	if len(f.head().txs) != 6 {
		t.Fatalf("the fake took %d transactions, want 6", len(f.head().txs))
	}

	// Without the configured statement that nodes store internal transactions, the adapter neither
	// looks for them nor claims that it did.
	untraced := f.open(t, 1, func(cfg *tron.Config) { cfg.Internal = false }, &node{})
	if got, err := untraced.Recent(t.Context(), height); err != nil || got.Traced {
		t.Errorf("got %+v, %v, want it untraced", got, err)
	}
}

func TestWhatNoHeaderProvesIsAgreedUpon(t *testing.T) {
	t.Parallel()
	f, to, height := busy(t)
	more := func(n int) func(string, string, map[string]any, any) any {
		return about("gettransactioninfobyblocknum", height, infos(func(all []any) []any {
			if r := info(all, 1); r["log"] != nil {
				list(r["log"])[0].(object)["data"] = strings.Repeat("00", 31) + hex.EncodeToString([]byte{byte(n)})
			}
			return all
		}))
	}
	forgets := about("gettransactioninfobyblocknum", height, infos(func(all []any) []any {
		for i := range all {
			delete(info(all, i), "internal_transactions")
		}
		return all
	}))
	down := func(string, string, map[string]any, any) any { return nil }
	genesis := func(_, m string, asked map[string]any, a any) any {
		if m == "getblock" && asked["id_or_num"] == "0" {
			return a
		}
		return down("", "", nil, nil)
	}
	for name, c := range map[string]struct {
		nodes []*node
		want  error // nil: the block; errAny: any
	}{
		"all say the same":           {[]*node{{}, {}, {}}, nil},
		"one lies about an amount":   {[]*node{{lie: more(99)}, {}, {}}, nil},
		"one has no internals":       {[]*node{{}, {lie: forgets}, {}}, nil},
		"one lags":                   {[]*node{{lag: 2}, {}, {}}, nil},
		"one is down":                {[]*node{{lie: genesis}, {}, {}}, nil},
		"two lie, each in their way": {[]*node{{lie: more(98)}, {lie: more(99)}, {}}, chain.ErrDisagreement},
		"two lag":                    {[]*node{{lag: 2}, {lag: 2}, {}}, chain.ErrNotYet},
		"two are down":               {[]*node{{lie: genesis}, {lie: genesis}, {}}, errAny},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := f.open(t, 2, func(cfg *tron.Config) { cfg.Genesis = f.blocks[0].id }, c.nodes...)
			got, err := client.Final(t.Context(), height)
			switch {
			case c.want == nil &&
				(err != nil || len(got.Transfers) != 3 || got.Transfers[1].To != to ||
					got.Transfers[1].Amount != money.Units(6)):
				t.Errorf("got %+v, %v, want the block", got, err)
			case c.want == nil && got.Providers != 2:
				t.Errorf("got it from %d providers, want from 2", got.Providers)
			case c.want == errAny && err == nil, c.want != nil && c.want != errAny && !errors.Is(err, c.want):
				t.Errorf("got %+v, %v, want %v", got, err, c.want)
			}
		})
	}
}

var errAny = errors.New("any")

func TestABalanceIsOfItsBlockOrAnError(t *testing.T) {
	t.Parallel()
	f, to, height := busy(t)
	block := func(h uint64) chain.Block {
		b := find(f.blocks, heightText(h))
		return chain.Block{Height: h, Hash: b.id}
	}
	token := []chain.Holding{{Address: to, Contract: f.token}}
	both := []chain.Holding{{Address: to}, {Address: to, Contract: f.token}}
	c := f.open(t, 1, nil, &node{})
	for h, want := range map[uint64][]uint64{height - 1: {0, 0}, height: {12, 6}, height + 2: {12, 6}} {
		got, err := c.Balances(t.Context(), block(h), both)
		if err != nil || got[0] != money.Units(want[0]) || got[1] != money.Units(want[1]) {
			t.Errorf("at %d: got %v, %v, want %v", h, got, err, want)
		}
	}
	if got, err := c.Balances(
		t.Context(), chain.Block{Height: height, Hash: block(height - 1).Hash}, both,
	); err == nil {
		t.Errorf("of a block that is not there: got %v, want an error", got)
	}

	// A token withholds a part of each transfer and shows the whole amount in its log.
	short := func(units byte) *node {
		return &node{lie: func(_, m string, asked map[string]any, a any) any {
			if m == "triggerconstantcontract" && asked["function_selector"] == "balanceOf(address)" {
				at(a)["constant_result"] = []any{strings.Repeat("00", 31) + hex.EncodeToString([]byte{units})}
			}
			return a
		}}
	}
	var silent *chain.NoBalanceError
	if got, err := f.open(t, 1, nil, short(5)).Balances(
		t.Context(), block(height-1), token,
	); !errors.As(err, &silent) || len(silent.Holdings) != 1 {
		t.Errorf("events that do not add up: got %v, %v, want no balance", got, err)
	}
	if got, err := f.open(
		t, 2, nil, short(7), &node{}, short(8),
	).Balances(t.Context(), block(height), token); !errors.Is(err, chain.ErrDisagreement) {
		t.Errorf("three accounts: got %v, %v, want a disagreement", got, err)
	}
	if got, err := f.open(
		t, 2, nil, short(7), &node{}, &node{},
	).Balances(t.Context(), block(height), token); err != nil || got[0] != money.Units(6) {
		t.Errorf("two of three: got %v, %v, want 6", got, err)
	}
	if got, err := f.open(
		t, 2, nil, short(5), &node{}, &node{lie: func(string, string, map[string]any, any) any { return nil }},
	).Balances(t.Context(), block(height-1), token); err == nil || errors.As(err, &silent) {
		t.Errorf("one says that it lies, one not: got %v, %v, want an error that settles nothing", got, err)
	}
	if got, err := c.Balances(
		t.Context(), block(height), []chain.Holding{{Address: to, Contract: to}},
	); !errors.As(err, &silent) {
		t.Errorf("of no token: got %v, %v, want no balance", got, err)
	}
	broken := f.open(t, 1, nil, &node{lie: func(_, m string, _ map[string]any, a any) any {
		if m == "triggerconstantcontract" {
			return object{"result": object{
				"code":    "CONTRACT_VALIDATE_ERROR",
				"message": hex.EncodeToString([]byte("this node does not support constant")),
			}}
		}
		return a
	}})
	if got, err := broken.Balances(t.Context(), block(height), token); err == nil || errors.As(err, &silent) {
		t.Errorf("a node that tries nothing: got %v, %v, want an error that is not the token's", got, err)
	}

	// Blocks arrive faster than balances can be read.
	restless := &node{}
	restless.lie = func(_, m string, _ map[string]any, a any) any {
		if m == "getaccount" {
			f.mine(1)
		}
		return a
	}
	if got, err := f.open(t, 1, nil, restless).Balances(t.Context(), block(height), both[:1]); err == nil {
		t.Errorf("while the head moves on: got %v, want an error", got)
	}
	f.locked(func() { f.mine(200 + solidBehind) })
	if got, err := c.Balances(t.Context(), block(height), both); !errors.Is(err, chain.ErrStateGone) {
		t.Errorf("long after: got %v, %v, want that it is gone", got, err)
	}
}

func TestAProviderOfAnotherNetworkIsRefusedAndNoSecretIsPrinted(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	url := (&node{fake: f}).serve(t)
	good := tron.Config{
		Network: chain.Mainnet, Genesis: strings.Repeat("00", 31) + "01", Endpoints: []string{url + "/secret"},
		Quorum: 1,
	}
	_, err := tron.New(t.Context(), good)
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("at a wrong path: got %v, want an error without the path", err)
	}
	good.Endpoints = []string{url}
	if _, err := tron.New(t.Context(), good); err == nil || !strings.Contains(err.Error(), "right network") {
		t.Errorf("of another network: got %v, want it refused", err)
	}
	for name, change := range map[string]func(*tron.Config){
		"no genesis":  func(c *tron.Config) { c.Genesis = "" },
		"no endpoint": func(c *tron.Config) { c.Endpoints = nil },
		"twice":       func(c *tron.Config) { c.Endpoints = append(c.Endpoints, url) },
		"too many":    func(c *tron.Config) { c.Quorum = 2 }, "none": func(c *tron.Config) { c.Quorum = 0 },
		"no URL":       func(c *tron.Config) { c.Endpoints = []string{"node:8090"} },
		"a short life": func(c *tron.Config) { c.TxLifetime = 1 },
		"a long life":  func(c *tron.Config) { c.TxLifetime = 24 * 3600e9 },
		"a price":      func(c *tron.Config) { c.PriceMax = 1 << 40 },
	} {
		cfg := good
		change(&cfg)
		if _, err := tron.New(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "configuration") {
			t.Errorf("%s: got %v, want the configuration refused", name, err)
		}
	}
	good.Genesis = f.blocks[0].id
	c, err := tron.New(t.Context(), good)
	if err != nil {
		t.Fatal(err)
	}
	if ch := c.Chain(); ch.SignerID != "0x"+good.Genesis[56:] || ch.CAIP2 != "tron:"+ch.SignerID {
		t.Errorf("got %q, %q, want the end of the first block's identifier", ch.SignerID, ch.CAIP2)
	}
}
