package bitcoin_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/btcsuite/btcd/chainhash/v2"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/bitcoin"
	"github.com/cofferpay/coffer/internal/chain/bitcoin/bitcointx"
	"github.com/cofferpay/coffer/internal/localworld/btcd"
	"github.com/cofferpay/coffer/internal/money"
)

// sentTx is a transaction of ours.
type sentTx struct {
	slot chain.Slot
	fees chain.Fees
	raw  []byte
	hash chain.TxHash
}

// pays returns a payment of an account.
func pays(from, to chain.Address, satoshi uint64) chain.Payment {
	return chain.Payment{From: from, To: to, Amount: money.Units(satoshi)}
}

// draft selects outputs for payments, and builds and signs the transaction that spends them.
func (l *lab) draft(t testing.TB, coins []chain.Output, change chain.Address, rate uint64, ps ...chain.Payment) sentTx {
	t.Helper()
	slotKey, fees, err := l.chain.UTXO.SelectOutputs(coins, nil, change, chain.Fees{TipCap: money.Units(rate)}, ps...)
	if err != nil {
		t.Fatal(err)
	}
	return l.sign(t, chain.Slot{Key: slotKey}, fees, ps...)
}

func (l *lab) sign(t testing.TB, s chain.Slot, fees chain.Fees, ps ...chain.Payment) sentTx {
	t.Helper()
	account := chain.Address("")
	if len(ps) > 0 {
		account = ps[0].From
	}
	payload, err := l.chain.Sender.Build(account, s, fees, ps...)
	if err != nil {
		t.Fatal(err)
	}
	raw, hash := l.Sign(t, account, payload)
	return sentTx{s, fees, raw, hash}
}

func (l *lab) send(t testing.TB, s sentTx) {
	t.Helper()
	if a, said := l.chain.Sender.Send(t.Context(), s.raw); a != chain.Accepted {
		t.Fatalf("got %v %q, want it accepted", a, said)
	}
}

// stands reports whether slots are used, in the latest block and finally.
func stands(t testing.TB, c chain.Chain, slots ...chain.Slot) (latest, final []bool) {
	t.Helper()
	acct, err := c.Sender.Account(t.Context(), "", slots...)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range slots {
		l, f := acct.IsUsed(s)
		latest, final = append(latest, l), append(final, f)
	}
	return latest, final
}

func outcome(t testing.TB, c chain.Chain, tx chain.TxHash, ps ...chain.Payment) *chain.Outcome {
	t.Helper()
	o, err := c.Sender.Outcome(t.Context(), []chain.TxHash{tx}, ps...)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestManyArePaidByOneTransaction(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	from, change := l.Account(t), l.Account(t)
	coins := l.fund(t, from, 5_000_000, 8_000_000)
	var ps []chain.Payment
	for i := range bitcointx.PayeesMax + 5 {
		ps = append(ps, pays(from, l.Account(t), 10_000+uint64(i)))
	}
	if n := l.chain.Sender.BatchSize(ps); n != bitcointx.PayeesMax {
		t.Errorf("got %d of %d in one transaction, want %d", n, len(ps), bitcointx.PayeesMax)
	}
	ps = ps[:bitcointx.PayeesMax]
	for name, change := range map[string]func(*chain.Payment){
		"in a token":          func(p *chain.Payment) { p.Contract = "USDC" },
		"of another":          func(p *chain.Payment) { p.From = change },
		"paid for by another": func(p *chain.Payment) { p.Payer = change },
	} {
		with := slices.Clone(ps)
		change(&with[3])
		if n := l.chain.Sender.BatchSize(with); n != 3 {
			t.Errorf("one %s behind three: got %d, want 3", name, n)
		}
		if f, err := l.chain.Sender.Quote(t.Context(), with...); err == nil {
			t.Errorf("one %s among them: got %+v, want no price", name, f)
		}
	}
	quote, err := l.chain.Sender.Quote(t.Context(), ps...)
	if err != nil {
		t.Fatal(err)
	}
	slotKey, fees, err := l.chain.UTXO.SelectOutputs(nil, coins, change, quote, ps...)
	if err != nil {
		t.Fatal(err)
	}
	if all, err := l.chain.UTXO.Inputs(slotKey); err != nil || len(all) == 0 || !slices.Contains(coins, all[0]) {
		t.Errorf("got %+v, %v, want coins of the payer", all, err)
	}
	s := l.sign(t, chain.Slot{Key: slotKey}, fees, ps...)
	l.send(t, s)
	if o := outcome(t, l.chain, s.hash, ps...); o != nil {
		t.Errorf("while it waits: got %+v, want nothing", o)
	}
	l.Mine(t, 1)
	for _, c := range []chain.Chain{
		l.chain, open(t, config(core(t, l.node))),
		open(t, config(endpoint(l.node), core(t, l.node))),
	} {
		o := outcome(t, c, s.hash, ps...)
		if o == nil || !o.Paid || !o.Succeeded || o.Fee != s.fees.NonGas {
			t.Errorf("got %+v, want all paid for %v", o, s.fees.NonGas)
		}
		twice := append(slices.Clone(ps[:2]), ps[1])
		if o := outcome(t, c, s.hash, twice...); o == nil || o.Paid {
			t.Errorf("one of them twice: got %+v, want it unpaid", o)
		}
		if latest, final := stands(t, c, s.slot); !latest[0] || final[0] {
			t.Errorf("got the slot used: %v, finally: %v, want it mined alone", latest, final)
		}
	}
}

// The node accepted it and its answer was lost: the same bytes are sent again.
func TestALostAnswerIsAskedAgain(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	var lose atomic.Bool
	url := front(t, l.node, func(c call, pass func() (any, error)) (any, error) {
		result, err := pass()
		if c.Method == "sendrawtransaction" && lose.Load() {
			return nil, errors.New("the connection broke")
		}
		return result, err
	})
	c := open(t, config(url))
	from, to := l.Account(t), l.Account(t)
	coins := l.fund(t, from, 1_000_000)
	s := l.draft(t, coins, l.Account(t), 2000, pays(from, to, 50_000))
	lose.Store(true)
	if a, said := c.Sender.Send(t.Context(), s.raw); a != chain.Unknown || said == "" {
		t.Errorf("got %v %q, want that nothing is known", a, said)
	}
	lose.Store(false)
	if a, said := c.Sender.Send(t.Context(), s.raw); a != chain.Known {
		t.Errorf("again: got %v %q, want it known", a, said)
	}
	l.Mine(t, 1)
	if a, said := c.Sender.Send(t.Context(), s.raw); a != chain.Known {
		t.Errorf("mined: got %v %q, want it known", a, said)
	}
	if o := outcome(t, c, s.hash, pays(from, to, 50_000)); o == nil || !o.Paid {
		t.Errorf("got %+v, want it paid", o)
	}
}

// Two slots share an output: a transaction that uses one of them uses both, finally only when it is
// deep enough; a fork frees them.
func TestAnOutputThatIsSpentTakesItsSlots(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	from, to := l.Account(t), l.Account(t)
	coins := l.fund(t, from, 1_000_000, 2_000_000, 3_000_000)
	first := l.draft(t, coins[:2], l.Account(t), 2000, pays(from, to, 50_000))
	second := l.draft(t, coins[1:], l.Account(t), 3000, pays(from, to, 60_000))
	other := l.draft(t, coins[2:], l.Account(t), 2000, pays(from, to, 70_000))
	want := func(when string, latest, final [3]bool) {
		t.Helper()
		for _, c := range []chain.Chain{l.chain, open(t, config(core(t, l.node)))} {
			if lat, fin := stands(t, c, first.slot, second.slot, other.slot); [3]bool(lat) != latest ||
				[3]bool(fin) != final {
				t.Errorf("%s: got them used: %v, finally: %v, want %v and %v", when, lat, fin, latest, final)
			}
		}
	}
	no := [3]bool{}
	want("before", no, no)
	l.send(t, first)
	// A transaction of the same output with a higher fee replaces it in the mempool, or is refused:
	// either way one of them is mined.
	if _, said := l.chain.Sender.Send(t.Context(), second.raw); said == "" {
		t.Error("got nothing said")
	}
	want("while it waits", no, no)
	l.Mine(t, 1)
	won, lost := first, second
	if o := outcome(t, l.chain, second.hash); o != nil {
		won, lost = second, first
	}
	if o := outcome(t, l.chain, lost.hash, pays(from, to, 50_000)); o != nil {
		t.Errorf("the other one: got %+v, want it nowhere", o)
	}
	used := [3]bool{true, true, won.hash == second.hash}
	want("mined", used, no)
	height, err := l.node.TipHeight(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	gone, err := l.node.BlockHash(t.Context(), height)
	if err != nil {
		t.Fatal(err)
	}
	l.Fork(t, 1)
	want("forked away", no, no)
	if o := outcome(t, l.chain, won.hash); o != nil {
		t.Errorf("forked away: got %+v, want nothing", o)
	}
	// A node whose index still has the removed block is not believed.
	stale := open(t, config(front(t, l.node, func(c call, pass func() (any, error)) (any, error) {
		if c.Method == "getrawtransaction" && len(c.Params) == 2 && c.Params[0] == string(won.hash) {
			return map[string]any{"blockhash": gone.String()}, nil
		}
		if c.Method == "getblockheader" && c.Params[0] == gone.String() {
			return map[string]any{"hash": gone.String(), "height": height, "confirmations": -1}, nil // like bitcoind
		}
		return pass()
	})))
	if o := outcome(t, stale, won.hash); o != nil {
		t.Errorf("forked away, by an old index: got %+v, want nothing", o)
	}
	if a, said := l.chain.Sender.Send(t.Context(), won.raw); a == chain.Unknown {
		t.Errorf("sent again: got %v %q, want it taken", a, said)
	}
	l.Mine(t, 1)
	want("mined again", used, no)
	l.Mine(t, confirmations-2)
	want("one block before", used, no)
	l.Mine(t, 1)
	want("deep enough", used, used)
	if a, _ := l.chain.Sender.Send(t.Context(), lost.raw); a == chain.Accepted {
		t.Error("the other one: got it accepted, want its coin spent")
	}
}

// Another holder of a key spends an output: the slot is used, and not by a transaction of ours.
func TestAForeignSpendTakesTheSlot(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	from, to := l.Account(t), l.Account(t)
	coins := l.fund(t, from, 1_000_000)
	ours := l.draft(t, coins, l.Account(t), 2000, pays(from, to, 50_000))
	tx, n, err := bitcointx.ParseOutpoint(coins[0].Outpoint)
	if err != nil {
		t.Fatal(err)
	}
	hash, err := chainhash.NewHashFromStr(string(tx))
	if err != nil {
		t.Fatal(err)
	}
	out, err := btcd.NewOutput(from, 1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	coin := btcd.Output{TxOut: *out}
	coin.Hash, coin.Index = *hash, n
	theirs, err := l.node.BuildSpend(l.keys[from], []btcd.Output{coin}, 5000)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.node.SendTx(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	l.Mine(t, 1)
	if o := outcome(t, l.chain, ours.hash, pays(from, to, 50_000)); o != nil {
		t.Errorf("got %+v, want ours nowhere", o)
	}
	if latest, final := stands(t, l.chain, ours.slot); !latest[0] || final[0] {
		t.Errorf("mined: got the slot used: %v, finally: %v, want it taken for now", latest, final)
	}
	l.Finalize(t)
	if latest, final := stands(t, l.chain, ours.slot); !latest[0] || !final[0] {
		t.Errorf("deep enough: got the slot used: %v, finally: %v, want it taken", latest, final)
	}
	// An output that never existed is not a spent output.
	never := coins[0]
	never.Outpoint = bitcointx.FormatOutpoint(chain.TxHash(strings.Repeat("ab", 32)), 0)
	s := l.draft(t, []chain.Output{never}, l.Account(t), 2000, pays(from, to, 50_000))
	if acct, err := l.chain.Sender.Account(t.Context(), from, s.slot); err == nil {
		t.Errorf("a coin that never was: got %+v, want an error", acct)
	}
	if acct, err := l.chain.Sender.Account(t.Context(), from, chain.Slot{Key: "no lease"}); err == nil {
		t.Errorf("no lease: got %+v, want an error", acct)
	}
	// A node that reports an output as spent is alone with that where two have to agree.
	free := l.fund(t, from, 700_000)
	open2 := l.draft(t, free, l.Account(t), 2000, pays(from, to, 50_000))
	liar := front(t, l.node, func(c call, pass func() (any, error)) (any, error) {
		if c.Method == "gettxout" {
			return nil, nil
		}
		return pass()
	})
	if latest, _ := stands(t, open(t, config(liar, endpoint(l.node))), open2.slot); latest[0] {
		t.Error("got a slot used by the word of one node, want it free")
	}
}

// The offered rate follows the nodes' estimate between the bounds; without an estimate it is the
// lowest.
func TestThePriceIsEstimatedWithinBounds(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	var answer atomic.Value
	answer.Store("")
	url := front(t, l.node, func(c call, pass func() (any, error)) (any, error) {
		if c.Method != "estimatesmartfee" {
			return pass()
		}
		if c.Params[0] != 6.0 {
			t.Errorf("got target %v, want 6", c.Params)
		}
		switch a := answer.Load().(string); a {
		case "":
			return nil, &btcd.RPCError{Code: -32601, Message: "Method not found"}
		case "down":
			return nil, &btcd.RPCError{Code: -28, Message: "Loading block index"}
		default:
			return json.RawMessage(a), nil
		}
	})
	cfg := config(url)
	cfg.RateMin, cfg.RateMax, cfg.Target = 2000, 50_000, 6
	c := open(t, cfg)
	p := pays(l.Account(t), l.Account(t), 10_000)
	for said, want := range map[string]uint64{
		"":                                      2000,
		`{"errors":["Insufficient data"]}`:      2000,
		`{"feerate":0.00001000,"blocks":6}`:     2000,
		`{"feerate":0.00012345,"blocks":6}`:     12_345,
		`{"feerate":0.05000000,"blocks":6}`:     50_000,
		`{"feerate":-1,"errors":["no"]}`:        0,
		`{"feerate":"a lot"}`:                   0,
		`{"feerate":30000000.0}`:                0,
		"down":                                  0,
		`{"feerate":0.00012345999,"blocks":6}`:  0,
		`{"feerate":1.2e-4,"blocks":6,"x":[1]}`: 0,
	} {
		answer.Store(said)
		f, err := c.Sender.Quote(t.Context(), p)
		if want == 0 {
			if err == nil {
				t.Errorf("%s: got %+v, want no price", said, f)
			}
			continue
		}
		if err != nil || f.TipCap != money.Units(want) ||
			f.NonGas != money.Units(bitcointx.FeeAtRate(f.GasLimit, want)) || !f.FeeCap.IsZero() {
			t.Errorf("%s: got %+v, %v, want %d", said, f, err, want)
		}
		if f, err := c.Sender.TransferFees(t.Context()); err != nil || f.TipCap != money.Units(want) {
			t.Errorf("%s: a transfer: got %+v, %v, want %d", said, f, err, want)
		}
	}
	for name, change := range map[string]func(*bitcoin.Config){
		"a floor above the cap": func(c *bitcoin.Config) { c.RateMin = 60_000 },
		"a cap above all":       func(c *bitcoin.Config) { c.RateMax = bitcointx.RateMax + 1 },
		"no usual rate":         func(c *bitcoin.Config) { c.UsualRate = bitcointx.RateMax + 1 },
		"no target":             func(c *bitcoin.Config) { c.Target = -1 },
	} {
		bad := cfg
		change(&bad)
		if _, err := bitcoin.New(t.Context(), bad); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
}

// Rule COIN-8.
func TestOutputsAreConsolidatedWhileADayCostsLittle(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	var answer atomic.Value
	answer.Store("")
	url := front(t, l.node, func(c call, pass func() (any, error)) (any, error) {
		if c.Method != "estimatesmartfee" {
			return pass()
		}
		if c.Params[0] != 144.0 {
			t.Errorf("got target %v, want a day", c.Params)
		}
		switch a := answer.Load().(string); a {
		case "":
			return nil, &btcd.RPCError{Code: -32601, Message: "Method not found"}
		case "down":
			return nil, &btcd.RPCError{Code: -28, Message: "Loading block index"}
		default:
			return json.RawMessage(a), nil
		}
	})
	c := open(t, config(url))
	for said, want := range map[string]struct {
		rate uint64
		low  bool
	}{
		"":                                    {1000, true}, // a local network
		`{"feerate":0.00000900,"blocks":144}`: {1000, true},
		`{"feerate":0.00002000,"blocks":144}`: {2000, true},
		`{"feerate":0.00002001,"blocks":144}`: {2001, false},
		`{"feerate":0.05000000,"blocks":144}`: {100_000, false}, // the highest that is offered
		"down":                                {},
	} {
		answer.Store(said)
		price, low, err := c.Consolidator.QuoteConsolidation(t.Context())
		if want.rate == 0 {
			if err == nil {
				t.Errorf("%s: got %+v, want no price", said, price)
			}
			continue
		}
		if err != nil || low != want.low || price.TipCap != money.Units(want.rate) {
			t.Errorf("%s: got %+v, low %v, %v, want %d, low %v", said, price, low, err, want.rate, want.low)
		}
	}
	price := chain.Fees{TipCap: money.Units(2000)}
	// 68 virtual bytes spend one output: 136 satoshi now, and 680 in usual times.
	if over, upto := c.Consolidator.ConsolidationRange(price); over != money.Units(136) || upto != money.Units(68_000) {
		t.Errorf("got coins of more than %v up to %v, want more than 136 up to 68000", over, upto)
	}
	from, change := l.Account(t), l.Account(t)
	coins := l.fund(t, from, 20_000, 30_000, 40_000)
	slotKey, fees, err := c.Consolidator.Consolidate(coins, change, price)
	if err != nil {
		t.Fatal(err)
	}
	payload, err := c.Sender.Build(from, chain.Slot{Key: slotKey}, fees)
	if err != nil {
		t.Fatal(err)
	}
	tx, err := bitcointx.Decode(payload)
	if err != nil {
		t.Fatal(err)
	}
	if want := money.Units(2 * tx.VirtualSize()); len(tx.Payees) != 0 || tx.Fee() != want || fees.NonGas != want ||
		tx.ChangeAmount != money.Units(90_000-2*tx.VirtualSize()) {
		t.Errorf("got %+v for %v, want all but %v back", tx, fees, want)
	}
	if _, _, err := c.Consolidator.Consolidate(coins, change, chain.Fees{TipCap: money.Units(2_000_000)}); err == nil {
		t.Error("outputs that do not pay for it: got them consolidated")
	}
	for name, change := range map[string]func(*bitcoin.Config){
		"a rate above all": func(c *bitcoin.Config) { c.ConsolidationRate = bitcointx.RateMax + 1 },
		"of one coin":      func(c *bitcoin.Config) { c.ConsolidationMin = 1 },
		"of too many":      func(c *bitcoin.Config) { c.ConsolidationMin = 101 },
	} {
		bad := config(url)
		change(&bad)
		if _, err := bitcoin.New(t.Context(), bad); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
}

// A replacement pays its own relay fee by BIP-125, out of the change, until that is used up.
func TestAReplacementPaysOutOfTheChange(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	from, to, change := l.Account(t), l.Account(t), l.Account(t)
	coins := l.fund(t, from, 100_000)
	p := pays(from, to, 90_000)
	s := l.draft(t, coins, change, 1000, p)
	l.send(t, s)
	versions := []chain.TxHash{s.hash}
	fees := s.fees
	for {
		next, ok, err := l.chain.Sender.Bump(t.Context(), fees)
		if err != nil || !ok {
			t.Fatalf("got %+v, %v, %v, want a price", next, ok, err)
		}
		payload, err := l.chain.Sender.Build(from, s.slot, next, p)
		var short *chain.InsufficientOutputsError
		if errors.As(err, &short) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		raw, hash := l.Sign(t, from, payload)
		if a, said := l.chain.Sender.Send(t.Context(), raw); a != chain.Accepted {
			t.Fatalf("replacement %d at %v: got %v %q, want it to take the place", len(versions), next.TipCap, a, said)
		}
		versions, fees = append(versions, hash), next
	}
	if len(versions) < 5 {
		t.Errorf("got %d replacements, want several", len(versions)-1)
	}
	// A cancel transaction has the whole amount to pay with.
	next, _, err := l.chain.Sender.Bump(t.Context(), fees)
	if err != nil {
		t.Fatal(err)
	}
	cancel := l.sign(t, s.slot, next)
	l.send(t, cancel)
	l.Mine(t, 1)
	if o, err := l.chain.Sender.Outcome(t.Context(), append(versions, cancel.hash), p); err != nil || o == nil ||
		o.Tx != cancel.hash || o.Paid {
		t.Errorf("got %+v, %v, want the cancel, unpaid", o, err)
	}
	if _, err := l.chain.Sender.Build(to, s.slot, s.fees, p); err == nil {
		t.Error("for another account: got a payload")
	}
	dear := next
	dear.TipCap = money.Units(rateMax + 1)
	if _, err := l.chain.Sender.Build(from, s.slot, dear, p); err == nil {
		t.Error("above the cap: got a payload")
	}
}

// Rule WD-41. The minimum of an output depends on its address.
func TestTheSmallestPaymentIsThatOfTheAddressesForm(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	from := l.Payer(t)
	for to, want := range map[chain.Address]uint64{
		"bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080":                     294, // of a key
		"bcrt1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3qzf4jry": 330, // of a script
		"bcrt1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqc8gma6": 330, // taproot
		"mipcBbFg9gMiCh81Kj8tqqdgoZub1ZJRfn":                               546, // of a key, without SegWit
		"2MzQwSSnBHWHqSAqtTVQ6v47XtaisrJa1Vc":                              540, // of a script, without SegWit
	} {
		got, err := l.chain.MinPaymentTo(t.Context(), "", to)
		if err != nil || got != money.Units(want) {
			t.Errorf("%s: got %v, %v, want %d", to, got, err, want)
			continue
		}
		if _, err := l.chain.Sender.Quote(t.Context(), chain.Payment{From: from, To: to, Amount: got}); err != nil {
			t.Errorf("%s: got %v for %v, want fees", to, err, got)
		}
		_, err = l.chain.Sender.Quote(t.Context(), chain.Payment{From: from, To: to, Amount: money.Units(want - 1)})
		var reverted *chain.RevertedError
		if !errors.As(err, &reverted) || reverted.Cause != chain.CauseAmount {
			t.Errorf("%s: got %v for %d, want it refused for its amount", to, err, want-1)
		}
	}
}
