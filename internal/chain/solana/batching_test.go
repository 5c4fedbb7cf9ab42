package solana_test

import (
	"crypto/ed25519"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/solana"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/localworld/surfpool"
	"github.com/cofferpay/coffer/internal/money"
)

// deposits returns payments from new addresses to a treasury that pays their fees, of each contract
// in turn.
func (l *lab) deposits(t testing.TB, treasury chain.Address, contracts ...chain.Address) (ps []chain.Payment) {
	t.Helper()
	for i, contract := range contracts {
		p := chain.Payment{
			From: l.Account(t), To: treasury, Payer: treasury, Contract: contract,
			Amount: money.Units(uint64(2_000_000 + i)),
		}
		var err error
		if contract == "" {
			err = l.node.SetLamports(t.Context(), p.From, p.Amount.Big().Uint64())
		} else {
			m := usdc
			m.Address = contract
			err = l.node.MintTo(t.Context(), m, p.From, p.Amount.Big().Uint64())
		}
		if err != nil {
			t.Fatal(err)
		}
		ps = append(ps, p)
	}
	l.Mine(t, 1)
	return ps
}

func TestOnlyWhatComesToItsPayerGoesTogether(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	treasury, other := l.Account(t), l.Account(t)
	sweep := func(contract chain.Address) chain.Payment {
		return chain.Payment{
			From: l.Account(t), To: treasury, Payer: treasury, Contract: contract,
			Amount: money.Units(1),
		}
	}
	repeat := func(contract chain.Address, n int) (ps []chain.Payment) {
		for range n {
			ps = append(ps, sweep(contract))
		}
		return ps
	}
	with := func(change func(*chain.Payment)) []chain.Payment {
		p := sweep(usdc.Address)
		change(&p)
		return []chain.Payment{sweep(""), sweep(usdc.Address), p, sweep("")}
	}
	one := sweep(usdc.Address)
	coin := one
	coin.Contract = ""
	for what, tt := range map[string]struct {
		ps   []chain.Payment
		want int
	}{
		"sweeps of a token": {repeat(usdc.Address, 30), 5},
		"sweeps of SOL":     {repeat("", 30), 8},
		"of both":           {append(repeat(usdc.Address, 3), repeat("", 30)...), 6},
		"what a treasury pays": {[]chain.Payment{
			{From: treasury, To: l.Account(t), Amount: money.Units(1)}, {
				From: treasury, To: l.Account(t),
				Amount: money.Units(1),
			},
		}, 1},
		"a return among them": {with(func(p *chain.Payment) { p.To = other }), 2},
		"a payment of the treasury's": {with(func(p *chain.Payment) {
			p.From, p.To, p.Payer = treasury, other, ""
		}), 2},
		"the treasury to itself":         {with(func(p *chain.Payment) { p.From = treasury }), 2},
		"another treasury's":             {with(func(p *chain.Payment) { p.To, p.Payer = other, other }), 2},
		"nothing":                        {with(func(p *chain.Payment) { p.Amount = money.Zero }), 2},
		"a token that is not configured": {with(func(p *chain.Payment) { p.Contract = surfpool.USDT }), 2},
		"two tokens of one address":      {[]chain.Payment{one, coin}, 2},
		"the same of one address":        {[]chain.Payment{one, coin, one}, 2},
		"a place":                        {with(func(p *chain.Payment) { p.CreatesNonceAccount = true }), 2},
		"a return before": {append([]chain.Payment{{
			From: other, To: l.Account(t), Payer: treasury,
			Amount: money.Units(1),
		}}, repeat("", 3)...), 1},
		"what nobody can build, in front":  {[]chain.Payment{sweep(surfpool.USDT), sweep("")}, 1},
		"one, and none of them is a sweep": {[]chain.Payment{{From: treasury, To: other, Amount: money.Units(1)}}, 1},
	} {
		if got := l.chain.Sender.BatchSize(tt.ps); got != tt.want {
			t.Errorf("%s: got %d together, want %d", what, got, tt.want)
			continue
		}
		if len(tt.ps) == tt.want {
			continue
		}
		if fees, err := l.chain.Sender.Quote(t.Context(), tt.ps...); err == nil {
			t.Errorf("%s: got %+v for all of them, want an error", what, fees)
		}
	}
}

func TestSweepsThatGoTogetherMakeTheTreasurysAccountsOnceAndCostAPart(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	ctx := t.Context()
	treasury := l.Payer(t)
	second := usdc
	second.Address = surfpool.AddressOf(newKey(t))
	if err := l.node.PlaceMint(ctx, second); err != nil {
		t.Fatal(err)
	}
	cfg := config(l.front.URL)
	cfg.Mints[second.Address] = solana.Mint{Program: second.Program, Decimals: second.Decimals}
	l.chain = open(t, cfg)

	// Two of one token, one of another and one of SOL, to a treasury that has neither.
	ps := l.deposits(t, treasury, usdc.Address, "", usdc.Address, second.Address)
	asked := map[string]int{}
	for _, method := range []string{"getMultipleAccounts", "simulateTransaction", "getRecentPrioritizationFees"} {
		l.front.SetRule(method, func(*exchange) { asked[method]++ })
	}
	fees, err := l.chain.Sender.Quote(ctx, ps...)
	if err != nil {
		t.Fatal(err)
	}
	for method, n := range asked {
		if n > 2 || n != 1 && method != "getMultipleAccounts" { // and the nonce accounts
			t.Errorf("%s: got it asked %d times, want once for all", method, n)
		}
		l.front.SetRule(method, nil)
	}
	at := l.slot(t, treasury, 0)
	payload, err := l.chain.Sender.Build(treasury, at, fees, ps...)
	if err != nil {
		t.Fatal(err)
	}
	tx, err := solanatx.Decode(payload)
	if err != nil || tx.CheckPayments(ps...) != nil || tx.Rent() != money.Units(2*solanatx.TokenAccountRent) ||
		tx.MaxCost() != fees.NonGas {
		t.Fatalf("got %+v, %v, want the payments and two accounts made", tx, err)
	}
	before := l.holds(t, treasury, "")
	raw, hash := l.Sign(t, treasury, payload)
	l.take(t, raw)
	l.Mine(t, 1)
	outcome := func(ps ...chain.Payment) *chain.Outcome {
		t.Helper()
		o, err := l.chain.Sender.Outcome(ctx, []chain.TxHash{hash}, ps...)
		if err != nil || o == nil || !o.Succeeded {
			t.Fatalf("Outcome: got %+v, %v, want it mined", o, err)
		}
		return o
	}
	o := outcome(ps...)
	if !o.Paid || fees.NonGas.Less(o.Fee) {
		t.Errorf("got %+v, want it paid for at most %v", o, fees.NonGas)
	}
	// The rent of the accounts is part of the cost, although the treasury has more coin than
	// before.
	all, err := before.Add(ps[1].Amount)
	if err != nil {
		t.Fatal(err)
	}
	if left, err := all.Sub(o.Fee); err != nil || left != l.holds(t, treasury, "") {
		t.Errorf("got %v lamports and then %v, want %v in and %v gone", before, l.holds(t, treasury, ""), ps[1].Amount,
			o.Fee)
	}
	for what, other := range map[string][]chain.Payment{
		"fewer":                  ps[:3],
		"one instead of another": {ps[0], ps[1], ps[2], ps[2]},
		"shared in another way": {{
			From: ps[0].From, To: treasury, Payer: treasury, Contract: usdc.Address,
			Amount: ps[2].Amount,
		}, ps[1], {
			From: ps[2].From, To: treasury, Payer: treasury, Contract: usdc.Address,
			Amount: ps[0].Amount,
		}, ps[3]},
		"the coin to somebody else": {
			ps[0],
			{From: ps[1].From, To: ps[0].From, Payer: treasury, Amount: ps[1].Amount},
			ps[2], ps[3],
		},
	} {
		if o := outcome(other...); o.Paid {
			t.Errorf("%s: got %+v, want it unpaid", what, o)
		}
	}
	// All senders are returned, so that ours get the whole sum.
	l.Finalize(t)
	c, err := l.chain.Reader.Final(ctx, o.Block.Height)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, tr := range c.Transfers {
		if tr.To != treasury || tr.Contract != usdc.Address {
			continue
		}
		found++
		want := []chain.Address{min(ps[0].From, ps[2].From), max(ps[0].From, ps[2].From)}
		if got, err := l.chain.Reader.Senders(ctx, c.Block, []chain.Transfer{tr}); err != nil || tr.From != "" ||
			!slices.Equal(got[0], want) {
			t.Errorf("%+v: got it from %v, %v, want it from %v", tr, got, err, want)
		}
		one, two := newProxy(t, l.node.URL, l.settled(t)), newProxy(t, l.node.URL, l.settled(t))
		both := open(t, config(one.URL, two.URL)).Reader
		if got, err := both.Senders(ctx, c.Block, []chain.Transfer{tr}); err != nil || !slices.Equal(got[0], want) {
			t.Errorf("two providers: got it from %v, %v, want it from %v", got, err, want)
		}
		two.SetRule("getBlock", func(e *exchange) { e.SetError(`{"code":-32004,"message":"Block not available"}`) })
		if got, err := both.Senders(ctx, c.Block, []chain.Transfer{tr}); err == nil {
			t.Errorf("one of two does not tell: got it from %v, want an error", got)
		}
		stranger := tr
		stranger.Position = string(treasury)
		if got, err := l.chain.Reader.Senders(ctx, c.Block, []chain.Transfer{stranger}); err == nil {
			t.Errorf("a movement that is not there: got it from %v, want an error", got)
		}
		elsewhere := c.Block
		elsewhere.Hash = c.Parent
		if got, err := l.chain.Reader.Senders(ctx, elsewhere, []chain.Transfer{tr}); err == nil {
			t.Errorf("another block in its slot: got it from %v, want an error", got)
		}
	}
	if found != 1 {
		t.Errorf("got %d movements of the token to the treasury, want one sum", found)
	}

	// The accounts exist now, and each sweep costs a part of what it would cost alone.
	next := l.deposits(t, treasury, usdc.Address, usdc.Address, usdc.Address, "", "")
	var alone uint64
	for _, p := range next {
		alone += l.quote(t, p).NonGas.Big().Uint64()
	}
	fees, err = l.chain.Sender.Quote(ctx, next...)
	if err != nil {
		t.Fatal(err)
	}
	if together := fees.NonGas.Big().Uint64(); together*100 > alone*75 {
		t.Errorf("got up to %d lamports together and %d alone, want a quarter less at least", together, alone)
	}
	t.Logf("five sweeps: up to %v lamports together, %d one by one", fees.NonGas, alone)
}

func TestARefusalOfSeveralNamesTheOneThatIsToBlame(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	treasury := l.Payer(t)
	ps := l.deposits(t, treasury, usdc.Address, "", usdc.Address, "")
	refused := func(what, word string, ps ...chain.Payment) {
		t.Helper()
		fees, err := l.chain.Sender.Quote(t.Context(), ps...)
		var reverted *chain.RevertedError
		if !errors.As(err, &reverted) || !strings.Contains(reverted.Reason, word) {
			t.Errorf("%s: got %+v, %v, want a refusal with %q", what, fees, err, word)
		}
	}
	more := slices.Clone(ps)
	more[2].Amount = money.Units(3_000_000)
	refused("more than the balance", "payment 3 of 4", more...)
	for what, tt := range map[string]struct{ said, word string }{
		"the second, behind an account that is made": {`{"InstructionError":[5,{"Custom":1}]}`, "payment 2 of 4"},
		"the account that is made":                   {`{"InstructionError":[3,{"Custom":1}]}`, "payment 1 of 4"},
		"the last":                                   {`{"InstructionError":[7,{"Custom":1}]}`, "payment 4 of 4"},
		"a payer that is left with too little": {
			`{"InsufficientFundsForRent":{"account_index":1}}`,
			"payment 2 of 4",
		},
		"an account of nobody who pays": {
			`{"InsufficientFundsForRent":{"account_index":9}}`,
			"one of its accounts",
		},
		"behind all of them": {`{"InstructionError":[12,{"Custom":1}]}`, "Custom"},
	} {
		l.front.SetRule("simulateTransaction", func(e *exchange) {
			e.SetResult(`{"context":{"slot":1},"value":{"err":` + tt.said + `,"logs":[],"unitsConsumed":1}}`)
		})
		refused(what, tt.word, ps...)
	}
	l.front.SetRule("simulateTransaction", nil)
	l.RefusePayments(t, ps[2].From)
	refused("a frozen account", "payment 3 of 4", ps...)
	if _, err := l.chain.Sender.Quote(t.Context(), ps[0], ps[1], ps[3]); err != nil {
		t.Errorf("the others: got %v, want fees", err)
	}
}

// newRows returns payments of a treasury to new payees: of SOL, or of USDC to payees that have an account for it.
func (l *lab) newRows(t testing.TB, treasury, contract chain.Address, n int) (ps []chain.Payment) {
	t.Helper()
	for i := range n {
		p := chain.Payment{
			From: treasury, To: l.Account(t), Contract: contract, Amount: money.Units(uint64(solanatx.WalletRent + i)),
		}
		if contract != "" {
			if err := l.node.MintTo(t.Context(), usdc, p.To, 1); err != nil {
				t.Fatal(err)
			}
		}
		ps = append(ps, p)
	}
	return ps
}

// What a treasury pays to others in one coin goes together up to the size of a packet, which the message itself has.
// Rule BP-40.
func TestPaymentsOfATreasuryGoTogetherUpToAPacket(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	treasury, other := l.Account(t), l.Account(t)
	pay := func(contract chain.Address, units uint64) chain.Payment {
		return chain.Payment{From: treasury, To: l.Account(t), Contract: contract, Amount: money.Units(units)}
	}
	repeat := func(contract chain.Address, n int) (ps []chain.Payment) {
		for range n {
			ps = append(ps, pay(contract, solanatx.WalletRent))
		}
		return ps
	}
	with := func(change func(*chain.Payment)) []chain.Payment {
		p := pay(usdc.Address, 5)
		change(&p)
		return []chain.Payment{pay(usdc.Address, 1), pay(usdc.Address, 2), p, pay(usdc.Address, 3)}
	}
	twice := repeat("", 1)
	for what, tt := range map[string]struct {
		ps   []chain.Payment
		want int
	}{
		"SOL":                          {repeat("", 30), 19},
		"a token":                      {repeat(usdc.Address, 30), 17},
		"SOL, and a token behind it":   {append(repeat("", 2), repeat(usdc.Address, 2)...), 2},
		"a token, and SOL behind it":   {append(repeat(usdc.Address, 2), repeat("", 2)...), 2},
		"less SOL than an account has": {append(repeat("", 2), pay("", solanatx.WalletRent-1), pay("", 1)), 2},
		"less SOL in front":            {append([]chain.Payment{pay("", solanatx.WalletRent-1)}, repeat("", 2)...), 1},
		"one payee twice":              {append(twice, twice...), 2},
		"another treasury's":           {with(func(p *chain.Payment) { p.From = other }), 2},
		"out of another account":       {with(func(p *chain.Payment) { p.From, p.Payer = other, treasury }), 2},
		"a sweep": {with(func(p *chain.Payment) {
			p.From, p.To, p.Payer = other, treasury, treasury
		}), 2},
		"to itself":                     {with(func(p *chain.Payment) { p.To = treasury }), 2},
		"nothing":                       {with(func(p *chain.Payment) { p.Amount = money.Zero }), 2},
		"a nonce account":               {with(func(p *chain.Payment) { p.CreatesNonceAccount = true }), 2},
		"a token account":               {with(func(p *chain.Payment) { p.CreatesTokenAccount = true }), 2},
		"an unknown token":              {with(func(p *chain.Payment) { p.Contract = surfpool.USDT }), 2},
		"a treasury that says its fees": {with(func(p *chain.Payment) { p.Payer = treasury }), 4},
	} {
		if got := l.chain.Sender.BatchSize(tt.ps); got != tt.want {
			t.Errorf("%s: got %d together, want %d", what, got, tt.want)
		}
	}
}

// A group is paid once to each payee, out of one nonce, and each bears a part of one signature. Rules BP-20 and BP-40.
func TestAPaymentOfAGroupCostsAPartOfASignature(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	ctx := t.Context()
	treasury := l.Payer(t)
	l.Fund(t, treasury, usdc.Address, money.Units(1_000_000_000))
	for _, c := range []struct {
		contract       chain.Address
		together       int
		lamportsAtMost uint64
	}{
		{"", 1, 5_060},
		{"", 8, 640},
		{"", 17, 305},
		{"", 19, 275},
		{surfpool.USDC, 1, 5_060},
		{surfpool.USDC, 8, 640},
		{surfpool.USDC, 17, 305},
	} {
		ps := l.newRows(t, treasury, c.contract, c.together)
		if c.together > 2 {
			ps[1].To = ps[0].To // an address may be in a list twice
		}
		l.Mine(t, 1)
		if got := l.chain.Sender.BatchSize(ps); got != c.together {
			t.Fatalf("got %d together, want %d", got, c.together)
		}
		fees := l.quote(t, ps...)
		account, err := l.chain.Sender.Account(ctx, treasury)
		if err != nil {
			t.Fatal(err)
		}
		slot := chain.Slot{Key: account.Slots[0].Final}
		payload, err := l.chain.Sender.Build(treasury, slot, fees, ps...)
		if err != nil {
			t.Fatal(err)
		}
		raw, hash := l.Sign(t, treasury, payload)
		if len(raw) > 1232 {
			t.Errorf("got a transaction of %d bytes, and a packet has 1232", len(raw))
		}
		if answer, said := l.chain.Sender.Send(ctx, raw); answer != chain.Accepted {
			t.Fatalf("got %v %q, want it accepted", answer, said)
		}
		l.Finalize(t)
		o, err := l.chain.Sender.Outcome(ctx, []chain.TxHash{hash}, ps...)
		if err != nil || o == nil || !o.Paid || !o.Succeeded {
			t.Fatalf("got %+v, %v, want all of them paid", o, err)
		}
		fee, _ := o.Fee.Uint64()
		t.Logf("%d of %q together: %d bytes, %d lamports each", c.together, c.contract, len(raw),
			fee/uint64(c.together))
		if fee/uint64(c.together) > c.lamportsAtMost {
			t.Errorf("%d of %q together: got %d lamports each, want at most %d", c.together, c.contract,
				fee/uint64(c.together), c.lamportsAtMost)
		}
		if c.together > 2 {
			shifted := slices.Clone(ps)
			shifted[2].Amount, shifted[3].Amount = shifted[3].Amount, shifted[2].Amount
			if o, err := l.chain.Sender.Outcome(ctx, []chain.TxHash{hash}, shifted...); err != nil || o.Paid {
				t.Errorf("two amounts exchanged: got %+v, %v, want it unpaid", o, err)
			}
		}
	}
}

// Payees who have no account for the token, or who cannot use it, are alone. A group with one of them is refused before
// anything is signed, and no group creates an account. Rules BP-40 and BP-44.
func TestAPayeeWithoutAUsableAccountIsPaidAlone(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	treasury := l.Payer(t)
	l.Fund(t, treasury, usdc.Address, money.Units(1_000_000_000))
	rows := l.newRows(t, treasury, usdc.Address, 6)
	missing, frozen, handedOver, programs := 1, 2, 3, 4
	rows[missing].To = l.Account(t)
	l.RefusePayments(t, rows[frozen].To)
	owner := rows[handedOver].To
	if _, err := l.node.SendAndCheck(t.Context(), surfpool.Transaction{
		Keys:         []ed25519.PrivateKey{l.node.FaucetPrivateKey(), l.keys[owner]},
		Instructions: []surfpool.Instruction{usdc.SetOwner(usdc.AssociatedAccount(owner), owner, l.Account(t))},
	}); err != nil {
		t.Fatal(err)
	}
	rows[programs].Contract = surfpool.USDT // not configured
	sol := l.newRows(t, treasury, "", 2)
	sol[1].Amount = money.Units(solanatx.WalletRent - 1)
	l.Mine(t, 1)
	all := append(slices.Clone(rows), sol...)
	got, err := l.chain.PayeeAccounts.CanShare(t.Context(), all)
	if want := []bool{true, false, false, false, false, true, true, false}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	for name, other := range map[string]int{"no account": missing, "frozen": frozen, "another owner": handedOver} {
		ps := []chain.Payment{rows[0], rows[other], rows[5]}
		var reverted *chain.RevertedError
		if fees, err := l.chain.Sender.Quote(t.Context(), ps...); !errors.As(err, &reverted) ||
			!strings.Contains(reverted.Reason, "payment 2 of 3") {
			t.Errorf("%s: got %+v, %v, want the second of three refused", name, fees, err)
		}
	}
	fees := l.quote(t, rows[0], rows[5])
	fees.NonGas = money.Units(9_000_000) // room for accounts
	account, err := l.chain.Sender.Account(t.Context(), treasury)
	if err != nil {
		t.Fatal(err)
	}
	payload, err := l.chain.Sender.Build(treasury, chain.Slot{Key: account.Slots[0].Final}, fees, rows[0], rows[5])
	if err != nil {
		t.Fatal(err)
	}
	if tx, err := solanatx.Decode(payload); err != nil || !tx.Rent().IsZero() {
		t.Errorf("got %+v, %v, want a transaction that creates nothing", tx, err)
	}
	// All that they take together has to be there.
	rows[0].Amount, rows[5].Amount = money.Units(600_000_000), money.Units(600_000_000)
	var reverted *chain.RevertedError
	if fees, err := l.chain.Sender.Quote(t.Context(), rows[0], rows[5]); !errors.As(err, &reverted) ||
		reverted.Cause != chain.CauseFunds {
		t.Errorf("more than the treasury has: got %+v, %v, want it refused for its funds", fees, err)
	}
	l.front.SetRule("getMultipleAccounts", func(e *exchange) { e.SetError(`{"code":-32005,"message":"behind"}`) })
	if got, err := l.chain.PayeeAccounts.CanShare(t.Context(), all); err == nil {
		t.Errorf("without an answer: got %v, want an error", got)
	}
}
