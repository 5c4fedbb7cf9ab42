package bitcoin_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/btcsuite/btcd/chainhash/v2"
	"github.com/btcsuite/btcd/wire/v2"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/bitcoin"
	"github.com/cofferpay/coffer/internal/chain/bitcoin/bitcointx"
	"github.com/cofferpay/coffer/internal/money"
)

// pageLie changes Esplora's answer to paths with a prefix and a suffix.
type pageLie struct {
	from, to string
	change   func(r *http.Request, pass func() page) page
}

func (p pageLie) tell(t *testing.T, l *lab) string {
	return newExplorer(t, l.node, func(r *http.Request, path string, pass func() page) page {
		if strings.HasPrefix(path, p.from) && strings.HasSuffix(path, p.to) {
			return p.change(r, pass)
		}
		return pass()
	})
}

// says always answers with this text.
func says(format string, args ...any) func(*http.Request, func() page) page {
	return func(*http.Request, func() page) page { return text(format, args...) }
}

// proxies are intermediaries that answer instead of a server. None of their answers counts.
var proxies = map[string]func(*http.Request, func() page) page{
	"too many requests": func(*http.Request, func() page) page {
		return page{http.StatusTooManyRequests, "<html><h1>429 Too Many Requests</h1></html>"}
	},
	"a page of an error": func(*http.Request, func() page) page {
		return page{http.StatusBadGateway, "<html><h1>502 Bad Gateway</h1></html>"}
	},
	"a page that there is none": func(*http.Request, func() page) page {
		return page{http.StatusNotFound, "<html><h1>404 Not Found</h1></html>"}
	},
	"a page that all is well": says("<html><h1>Welcome</h1></html>"),
	"nothing":                 says(""),
	"nothing there":           says("{}"),
	"hangs": func(r *http.Request, _ func() page) page {
		<-r.Context().Done()
		return page{http.StatusOK, ""}
	},
	"without end": says("%s", strings.Repeat("1", 1<<20)),
}

// hasty has a short timeout for what hangs, and refuses what has no end.
func hasty(cfg bitcoin.Config, name string) bitcoin.Config {
	if strings.HasPrefix(name, "hangs") {
		cfg.Timeout = 2 * time.Second
	}
	cfg.AnswerBytesMax = 1 << 19
	return cfg
}

func TestALyingEsploraIsNotBelieved(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a := l.Account(t)
	paid := l.pay(t, a, money.Units(30_000))
	l.Mine(t, confirmations)
	height := l.heads(t).Final.Height
	hashAt := func(h uint64) chainhash.Hash {
		hash, err := l.node.BlockHash(t.Context(), int(h))
		if err != nil {
			t.Fatal(err)
		}
		return hash
	}
	target, below := hashAt(height), hashAt(height-1)
	rawBlock := func(of chainhash.Hash, change func(b *wire.MsgBlock)) string {
		b, err := l.node.ReadBlock(t.Context(), of)
		if err != nil {
			t.Fatal(err)
		}
		change(b)
		var raw bytes.Buffer
		if err := b.Serialize(&raw); err != nil {
			t.Fatal(err)
		}
		return raw.String()
	}
	whole := rawBlock(target, func(*wire.MsgBlock) {})
	at, block := fmt.Sprintf("/block-height/%d", height), "/block/"+target.String()
	lies := map[string]struct {
		pageLie
		says string
	}{
		"the block below at a height": {pageLie{at, "", says("%s", below)}, "says that it is block"},
		"no hash at a height":         {pageLie{at, "", says("00")}, "is not a hash"},
		"an invented block":           {pageLie{at, "", says("%s", strings.Repeat("ab", 32))}, "Block not found"},
		"no block below its newest": {pageLie{
			at, "",
			func(*http.Request, func() page) page { return page{404, "Block not found"} },
		}, "does not have block"},
		"another amount": {pageLie{block, "/raw", says("%s", rawBlock(target, func(b *wire.MsgBlock) {
			b.Transactions[1].TxOut[0].Value++
		}))}, "root in its header"},
		"a payment left out": {pageLie{block, "/raw", says("%s", rawBlock(target, func(b *wire.MsgBlock) {
			b.Transactions = b.Transactions[:1]
		}))}, "root in its header"},
		"another block": {pageLie{
			block, "/raw",
			says("%s", rawBlock(below, func(*wire.MsgBlock) {})),
		}, "gave block"},
		"a block cut off":       {pageLie{block, "/raw", says("%s", whole[:len(whole)-10])}, "cannot be decoded"},
		"more than a block":     {pageLie{block, "/raw", says("%s", whole+"\n")}, "follow it"},
		"a block in digits":     {pageLie{block, "/raw", says("%s", hex.EncodeToString([]byte(whole)))}, "gave block"},
		"another sender":        {pageLie{"/tx/", "/hex", says("%s", raw(t, paid))}, "gave transaction"},
		"no sender":             {pageLie{"/tx/", "/hex", says("zz")}, "hexadecimal"},
		"a height that is none": {pageLie{"/blocks/tip/height", "", says("many")}, "getblockcount"},
		"a height below none":   {pageLie{"/blocks/tip/height", "", says("-1")}, "getblockcount"},
	}
	for name, change := range proxies {
		for what, path := range map[string]string{
			"the height": "/blocks/tip/height", "the hash": at,
			"the block": block, "a sender": "/tx/",
		} {
			lies[name+" for "+what] = struct {
				pageLie
				says string
			}{pageLie{path, "", change}, ""}
		}
	}
	for name, lie := range lies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			liar := lie.tell(t, l)
			alone, three := config(liar), config(endpoint(l.node), liar, newExplorer(t, l.node, nil))
			three.Quorum = 2
			alone, three = hasty(alone, name), hasty(three, name)
			see := func(c chain.Chain) ([]chain.Transfer, [][]chain.Address, error) {
				got, err := c.Reader.Final(t.Context(), height)
				if err != nil {
					return nil, nil, err
				}
				from, err := c.Reader.Senders(t.Context(), got.Block, to(got, a))
				return to(got, a), from, err
			}
			if got, _, err := see(open(t, alone)); err == nil || !strings.Contains(err.Error(), lie.says) {
				t.Errorf("alone: got %+v, %v, want it to say %q", got, err, lie.says)
			}
			if got, from, err := see(open(t, three)); err != nil || len(got) != 1 || len(from[0]) != 1 {
				t.Errorf("beside two others: got %+v from %v, %v, want the payment", got, from, err)
			}
		})
	}
}

// A contradicting second provider stops the walk, as a node does.
func TestAnEsploraThatDisagreesStopsTheWalk(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.Mine(t, confirmations)
	height := l.heads(t).Final.Height
	path := fmt.Sprintf("/block-height/%d", height)
	other := pageLie{path, "", says("%s", chainhash.HashH([]byte("another fork")))}.tell(t, l)
	behind := pageLie{"/blocks/tip/height", "", says("%d", height)}.tell(t, l)
	busy := pageLie{path, "", proxies["too many requests"]}.tell(t, l)
	for name, c := range map[string]struct {
		beside string
		agree  int
		want   error
	}{
		"differs, one needed":    {other, 1, chain.ErrDisagreement},
		"differs, both needed":   {other, 2, chain.ErrDisagreement},
		"is behind, both needed": {behind, 2, chain.ErrNotYet},
		"is behind, one needed":  {behind, 1, nil},
		"is busy, one needed":    {busy, 1, nil},
	} {
		cfg := config(endpoint(l.node), c.beside)
		cfg.Quorum = c.agree
		if got, err := open(t, cfg).Reader.Final(t.Context(), height); !errors.Is(err, c.want) ||
			err == nil && got.Height != height {
			t.Errorf("%s: got %+v, %v, want %v", name, got.Block, err, c.want)
		}
	}
	cfg := config(endpoint(l.node), busy)
	if got, err := open(t, cfg).Reader.Final(t.Context(), height); err == nil || errors.Is(err, chain.ErrNotYet) ||
		errors.Is(err, chain.ErrDisagreement) {
		t.Errorf("is busy, both needed: got %+v, %v, want that nothing is known", got.Block, err)
	}
	// A server itself says that there is no block yet; an intermediary's page does not count.
	if _, err := open(t, config(newExplorer(t, l.node, nil))).Reader.Recent(t.Context(), height+100); !errors.Is(err,
		chain.ErrNotYet) {
		t.Errorf("beyond the newest: got %v, want %v", err, chain.ErrNotYet)
	}
	page := config(pageLie{path, "", proxies["a page that there is none"]}.tell(t, l))
	if _, err := open(t, page).Reader.Recent(t.Context(), height); err == nil || errors.Is(err, chain.ErrNotYet) {
		t.Errorf("a page that there is none: got %v, want that nothing is known", err)
	}
}

// Esplora's answers about an output. A slot does not count as used if any part of the answer does
// not fit, and never by one answer alone where two have to agree.
func TestAnOutputIsNotSpentByAWordOfEsplora(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	from, to := l.Account(t), l.Account(t)
	coins := l.fund(t, from, 1_000_000, 2_000_000)
	free := l.draft(t, coins[:1], l.Account(t), 2000, pays(from, to, 50_000))
	used := l.draft(t, coins[1:], l.Account(t), 2000, pays(from, to, 50_000))
	l.send(t, used)
	l.Mine(t, confirmations+1)
	heads := l.heads(t)

	tx, n, err := bitcointx.ParseOutpoint(coins[0].Outpoint)
	if err != nil {
		t.Fatal(err)
	}
	invented := wire.NewMsgTx(2)
	invented.AddTxIn(wire.NewTxIn(wire.NewOutPoint(ptr(hashOf(t, string(tx))), n), nil, nil))
	invented.AddTxOut(out(t, to, 1000))
	spend := func(by string, in int, height uint64, hash string) string {
		return fmt.Sprintf(`{"spent":true,"txid":%q,"vin":%d,"status":{"confirmed":true,"block_height":%d,"block_hash":%q}}`,
			by, in, height, hash)
	}
	id := invented.TxHash().String()
	final, latest := heads.Final, heads.Latest
	for name, c := range map[string]struct {
		outspend string
		taken    bool // by that answer alone
		failed   bool
	}{
		"as it is": {`{"spent":false}`, false, false},
		"by what waits": {
			`{"spent":true,"txid":"` + id + `","vin":0,"status":{"confirmed":false}}`,
			false, false,
		},
		"by an invented transaction":   {spend(id, 0, final.Height, final.Hash), true, false},
		"in a block that is not final": {spend(id, 0, latest.Height, latest.Hash), false, true},
		"in a block of another height": {spend(id, 0, final.Height-1, final.Hash), false, true},
		"above the newest block":       {spend(id, 0, latest.Height+1, latest.Hash), false, true},
		"by another input":             {spend(id, 1, final.Height, final.Hash), false, true},
		"by what does not spend it":    {spend(string(used.hash), 0, final.Height, final.Hash), false, true},
		"by nobody":                    {spend("../../tx", 0, final.Height, final.Hash), false, true},
		"without a place":              {`{"spent":true,"txid":"` + id + `","vin":0}`, false, true},
		"without a block": {
			`{"spent":true,"txid":"` + id + `","vin":0,"status":{"confirmed":true}}`,
			false, true,
		},
		"no answer":                      {`{}`, false, true},
		"a page":                         {`<html></html>`, false, true},
		"an answer to another question":  {`{"confirmed":false}`, false, true},
		"neither one answer nor another": {`{"spent":null}`, false, true},
	} {
		liar := newExplorer(t, l.node, func(r *http.Request, path string, pass func() page) page {
			switch path {
			case fmt.Sprintf("/tx/%s/outspend/%d", tx, n):
				return text("%s", c.outspend)
			case "/tx/" + id + "/hex":
				return text("%s", raw(t, invented))
			}
			return pass()
		})
		acct, err := open(t, config(liar)).Sender.Account(t.Context(), "", free.slot, used.slot)
		if (err != nil) != c.failed {
			t.Errorf("%s: got %+v, %v, want an error: %v", name, acct, err, c.failed)
		} else if err == nil {
			lat, fin := acct.IsUsed(free.slot)
			if all, done := acct.IsUsed(used.slot); lat != c.taken || fin != c.taken || !all || !done {
				t.Errorf("%s: got it taken: %v, finally %v, and the other %v, %v, want %v and the other taken", name,
					lat, fin, all, done, c.taken)
			}
		}
		two := config(liar, endpoint(l.node))
		if acct, err := open(t, two).Sender.Account(t.Context(), "", free.slot); err == nil {
			if lat, fin := acct.IsUsed(free.slot); lat || fin {
				t.Errorf("%s, beside a node: got it taken: %v, %v, want it free", name, lat, fin)
			}
		}
	}

	never := coins[0] // Esplora reports as unspent an output that was never created
	never.Outpoint = bitcointx.FormatOutpoint(chain.TxHash(strings.Repeat("ab", 32)), 0)
	none := l.draft(t, []chain.Output{never}, l.Account(t), 2000, pays(from, to, 50_000))
	if acct, err := open(t, config(newExplorer(t, l.node, nil))).Sender.Account(t.Context(), "",
		none.slot); err == nil {
		t.Errorf("a coin that never was: got %+v, want an error", acct)
	}

	// Spent outputs that it reports as unspent keep their order waiting, and it has to show a
	// transaction in its block.
	_, vout, err := bitcointx.ParseOutpoint(coins[1].Outpoint)
	if err != nil {
		t.Fatal(err)
	}
	blind := pageLie{"/tx/", fmt.Sprintf("/outspend/%d", vout), says(`{"spent":false}`)}
	if lat, fin := stands(t, open(t, config(blind.tell(t, l), endpoint(l.node))), used.slot); lat[0] || fin[0] {
		t.Error("got a slot taken where one of two shows it free, want it waited for")
	}
	status := "/tx/" + string(used.hash) + "/status"
	elsewhere := fmt.Sprintf(`{"confirmed":true,"block_height":%d,"block_hash":%q}`, final.Height-5,
		hashAtText(t, l, final.Height-5))
	answers := map[string]func(*http.Request,
		func() page) page{"in another block": says("%s", elsewhere), "in no named block": says(`{"confirmed":true}`)}
	for name, change := range proxies {
		answers[name] = change
	}
	answers["missing"] = func(*http.Request, func() page) page { return page{404, "Transaction not found"} }
	for name, change := range answers {
		cfg := hasty(config(pageLie{status, "", change}.tell(t, l)), name)
		if o, err := open(t, cfg).Sender.Outcome(t.Context(), []chain.TxHash{used.hash}); err == nil {
			t.Errorf("%s: got %+v, want that nothing is known", name, o)
		}
	}
	hidden := pageLie{status, "", says(`{"confirmed":false}`)}.tell(t, l)
	if o := outcome(t, open(t, config(hidden, endpoint(l.node))), used.hash, pays(from, to, 50_000)); o == nil ||
		!o.Paid {
		t.Errorf("hidden by one: got %+v, want it paid", o)
	}
}

func ptr[T any](v T) *T { return &v }

func hashAtText(t *testing.T, l *lab, height uint64) string {
	t.Helper()
	h, err := l.node.BlockHash(t.Context(), int(height))
	if err != nil {
		t.Fatal(err)
	}
	return h.String()
}

func TestATransactionIsGivenToEsploraToo(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	from, to := l.Account(t), l.Account(t)
	s := l.draft(t, l.fund(t, from, 1_000_000), l.Account(t), 2000, pays(from, to, 50_000))
	for name, change := range proxies {
		cfg := hasty(config(pageLie{"/tx", "", change}.tell(t, l)), name)
		if a, said := open(t, cfg).Sender.Send(t.Context(), s.raw); a != chain.Unknown || said == "" {
			t.Errorf("%s: got %v %q, want that nothing is known", name, a, said)
		}
	}
	other := open(t, config(pageLie{"/tx", "", says("%s", strings.Repeat("ab", 32))}.tell(t, l))).Sender
	if a, said := other.Send(t.Context(), s.raw); a != chain.Unknown || !strings.Contains(said, "accepted") {
		t.Errorf("another hash: got %v %q, want that nothing is known", a, said)
	}
	c := open(t, config(newExplorer(t, l.node, nil))).Sender
	for _, want := range []chain.Answer{chain.Accepted, chain.Known} {
		if a, said := c.Send(t.Context(), s.raw); a != want {
			t.Errorf("got %v %q, want %v", a, said, want)
		}
	}
	spoilt := slices.Clone(s.raw)
	spoilt[len(spoilt)-10] ^= 1 // in a signature
	if a, said := c.Send(t.Context(), spoilt); a == chain.Accepted {
		t.Errorf("spoilt: got %v %q", a, said)
	}
	l.Mine(t, 1)
	if a, said := c.Send(t.Context(), s.raw); a != chain.Known {
		t.Errorf("mined: got %v %q, want it known", a, said)
	}
}

func TestTheRatesOfEsploraAreReadExactly(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for name, c := range map[string]struct {
		said   string
		target int
		want   uint64 // satoshi per thousand virtual bytes; 0: an error
	}{
		"for its target":        {`{"2":87.882,"3":12.5,"6":1.0270001}`, 3, 12_500},
		"for the one before":    {`{"2":87.882,"3":12.5,"6":1.0270001}`, 5, 12_500},
		"rounded up":            {`{"2":87.882,"3":12.5,"6":1.0270001}`, 144, 1_028},
		"sooner than any":       {`{"2":87.882,"3":12.5}`, 1, 87_882},
		"whole":                 {`{"2":20}`, 2, 20_000},
		"above the bounds":      {`{"2":1000000}`, 2, rateMax},
		"below the bounds":      {`{"2":0.5}`, 2, 1000},
		"nothing seen":          {`{}`, 2, 1000},
		"an exponent":           {`{"2":1e3}`, 2, 0},
		"below nothing":         {`{"2":-1}`, 2, 0},
		"a text":                {`{"2":"5"}`, 2, 0},
		"no number":             {`{"soon":5}`, 2, 0},
		"more than the balance": {`{"2":99999999999999999999}`, 2, 0},
		"a page":                {`<html></html>`, 2, 0},
	} {
		cfg := config(pageLie{"/fee-estimates", "", says("%s", c.said)}.tell(t, l))
		cfg.Target = c.target
		fees, err := open(t, cfg).Sender.TransferFees(t.Context())
		if (err != nil) != (c.want == 0) || err == nil && fees.TipCap != money.Units(c.want) {
			t.Errorf("%s: got %v, %v, want %d", name, fees.TipCap, err, c.want)
		}
	}
}

func TestBalancesOfEsploraAddUp(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a := l.Account(t)
	for i := range 30 { // more than a page
		if l.pay(t, a, money.Units(1000)); i%5 == 4 {
			l.Mine(t, 1)
		}
	}
	at := l.heads(t).Latest
	l.pay(t, a, money.Units(500))
	l.Mine(t, 1)
	of := []chain.Holding{{Address: a}, {Address: l.Account(t)}}
	both := open(t, config(endpoint(l.node), newExplorer(t, l.node, nil)))
	got, err := both.Reader.Balances(t.Context(), at, of)
	if err != nil || got[0] != money.Units(30_000) || !got[1].IsZero() {
		t.Errorf("got %v, %v, want 30000 and nothing", got, err)
	}
	one := fmt.Sprintf(`{"txid":%q,"vin":[],"vout":[{"scriptpubkey":"","value":1}],"status":{"confirmed":true,"block_height":1,"block_hash":"00"}}`,
		strings.Repeat("ab", 32))
	for name, said := range map[string]string{
		"waiting":     strings.Replace(one, "true", "false", 1),
		"no status":   strings.Replace(one, `"status"`, `"state"`, 1),
		"no hash":     strings.Replace(one, "abab", "ab", 1),
		"not a list":  "{}",
		"a page":      "<html></html>",
		"an endless ": strings.TrimSuffix(strings.Repeat(one+",", 25), ","),
	} {
		if name != "not a list" && name != "a page" {
			said = "[" + said + "]"
		}
		liar := pageLie{"/address/", "", says("%s", said)}.tell(t, l)
		if got, err := open(t, config(liar)).Reader.Balances(t.Context(), at, of); err == nil {
			t.Errorf("%s: got %v, want an error", name, got)
		}
	}
	if got, err := open(t, config(endpoint(l.node), pageLie{"/address/", "", says("[]")}.tell(t,
		l))).Reader.Balances(t.Context(), at, of); !errors.Is(err, chain.ErrDisagreement) {
		t.Errorf("hidden by one: got %v, %v, want a disagreement", got, err)
	}
	moved := 0
	moving := newExplorer(t, l.node, func(_ *http.Request, path string, pass func() page) page {
		if path == "/blocks/tip/hash" {
			moved++
			return text("%064d", moved)
		}
		return pass()
	})
	if got, err := open(t, config(moving)).Reader.Balances(t.Context(), at, of); err == nil {
		t.Errorf("while blocks come: got %v, want an error", got)
	}
}

func TestOneEndpointIsANode(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		network   chain.Network
		endpoints []string
		says      string
	}{
		"Esplora alone": {chain.Mainnet, []string{
			"esplora+https://one.example.com/api",
			"esplora+https://two.example.com/api",
		}, "has to be a node"},
		"a query": {chain.Mainnet, []string{
			"http://127.0.0.1:1",
			"esplora+https://one.example.com/api?key=s3cret",
		}, "has a query"},
		"no URL": {
			chain.Mainnet,
			[]string{"http://127.0.0.1:1", "esplora+one.example.com"},
			"endpoint 2 is not an http",
		},
		"another mark": {chain.Mainnet, []string{"electrum+https://one.example.com"}, "endpoint 1 is not an http"},
		"twice": {
			chain.Mainnet,
			[]string{"https://one.example.com/api", "esplora+https://one.example.com/api"},
			"given twice",
		},
	} {
		_, err := bitcoin.New(t.Context(), bitcoin.Config{Network: c.network, Endpoints: c.endpoints, Quorum: 1})
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: got %v, want it to say %q", name, err, c.says)
		}
	}
}
