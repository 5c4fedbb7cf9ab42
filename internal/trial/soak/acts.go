package soak

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/freeze"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/org"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/signer/mirror"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

var silent = slog.New(slog.NewTextHandler(io.Discard, nil))

// dustBelow is the smallest deposit that counts.
const dustBelow = 10

// act is something that happens in a step; weight says how often.
type act struct {
	name   string
	weight int
	do     func(*world)
}

// acts are all that can happen while faults are on.
var acts = []act{
	{"deposit", 12, (*world).deposit},
	{"withdraw", 12, (*world).withdraw},
	{"repeat", 3, (*world).repeat},
	{"transfer", 7, (*world).transfer},
	{"decide", 5, (*world).decide},
	{"resolve", 7, (*world).resolve},
	{"complete", 2, (*world).complete},
	{"rethink", 1, (*world).rethink},
	{"freeze", 1, (*world).freeze},
	{"lift", 4, (*world).lift},
	{"cancel", 1, (*world).cancel},
	{"rescan", 1, (*world).rescan},
	{"threshold", 1, (*world).threshold},
	{"sweep", 1, (*world).sweepAll},
	{"gas", 1, (*world).gas},
	{"customer", 1, (*world).newCustomer},
	{"part", 46, (*world).part},
	{"round", 3, (*world).round},
	{"mine", 22, (*world).mine},
	{"fork", 4, (*world).fork},
	{"drop", 1, (*world).drop},
	{"surface", 2, (*world).surface},
	{"misbehave", 7, (*world).misbehave},
	{"restart", 1, (*world).restart},
}

var actsWeight = func() (sum int) {
	for _, a := range acts {
		sum += a.weight
	}
	return sum
}()

// next lets one thing happen.
func (w *world) next() {
	n := w.pick(actsWeight)
	for _, a := range acts {
		if n -= a.weight; n < 0 {
			a.do(w)
			return
		}
	}
}

func (w *world) amountOf(mintID int) money.Amount {
	if mintID == coin {
		return money.Units(uint64(1+w.pick(500)) * wei / 1000)
	}
	return money.Units(uint64(dustBelow + w.pick(400_000_000)))
}

// deposit pays something in, in one of the ways in which money arrives.
func (w *world) deposit() {
	who := draw(w, w.payees())
	to := w.addresses[who]
	internal := func() sim.Move {
		return sim.Move{Kind: chain.Internal, To: to, Amount: w.amountOf(coin)}
	}
	var moves []sim.Move
	kind := w.pick(100)
	switch {
	case kind < 35:
		m := draw(w, []int{dollar, dollar, limited})
		moves = append(moves, sim.Move{Contract: tokens[m], To: to, Amount: w.amountOf(m)})
	case kind < 48:
		moves = append(moves, sim.Move{To: to, Amount: w.amountOf(coin)})
	case kind < 58:
		moves = append(moves, internal())
	case kind < 63: // dust
		moves = append(moves, sim.Move{Contract: tokens[draw(w, []int{dollar, coin})], To: to, Amount: money.Units(uint64(1 + w.pick(dustBelow-1)))})
	case kind < 68:
		moves = append(moves, sim.Move{Contract: alien, To: to, Amount: w.amountOf(dollar)})
	case kind < 82: // several in one
		for range 2 + w.pick(4) {
			other := w.addresses[draw(w, w.payees())]
			m := draw(w, []int{dollar, limited, coin})
			move := sim.Move{Contract: tokens[m], To: other, Amount: w.amountOf(m)}
			if m == coin {
				move.Kind = chain.Internal
			}
			moves = append(moves, move)
		}
		moves = append(moves, sim.Move{Contract: alien, To: to, Amount: w.amountOf(dollar)})
	case kind < 87: // nobody's in particular
		moves = append(moves, sim.Move{Contract: tokens[dollar], To: w.addresses[""], Amount: w.amountOf(dollar)})
	case kind < 92: // a call that is undone inside a transaction that goes on
		undone := internal()
		undone.Undone = true
		moves = append(moves, undone, internal())
	case kind < 95: // through another of ours, in one transaction
		other := w.addresses[draw(w, w.payees())]
		amount := w.amountOf(dollar)
		middle := sim.Address("splitter")
		moves = append(moves, sim.Move{Contract: tokens[dollar], To: middle, Amount: amount},
			sim.Move{Contract: tokens[dollar], From: middle, To: other, Amount: amount})
	default: // reverts as a whole
		w.payers++
		from := sim.Address(fmt.Sprintf("payer %d", w.payers))
		w.net.Mint(from, tokens[dollar], money.Units(1000))
		hash := w.net.Fail(from, sim.Move{Contract: tokens[dollar], To: to, Amount: money.Units(1000)})
		w.note("a payment to %s that reverts %s", who, hash[:12])
		return
	}
	hash := w.pay(moves...)
	for _, m := range moves {
		w.note("pay %v of %.8s to %.8s (%s) %s", m.Amount, m.Contract, m.To, m.Kind, hash[:12])
	}
}

// request is a withdrawal as it was asked for.
type request struct {
	n       int
	ask     withdrawal.Request
	to      chain.Address
	mint    int
	amount  money.Amount
	bad     bool   // to where nothing may go
	id      string // once it is accepted
	refused bool   // a definite no
	blocked bool   // by risk screening, for ever
}

// withdraw asks for a payment.
func (w *world) withdraw() {
	r := &request{n: len(w.requests) + 1}
	var who string
	var balance money.Amount
	for range 4 { // somebody who has something, if that is found
		who, r.mint = draw(w, w.customers), draw(w, []int{dollar, dollar, coin, limited})
		if balance = w.balance(who, r.mint); !balance.IsZero() {
			break
		}
	}
	switch n, small := balance.Uint64(); {
	case w.chance(10) || balance.IsZero():
		if w.chance(70) {
			return // nothing to ask for
		}
		r.amount = w.amountOf(r.mint)
	case w.chance(25):
		r.amount = balance // all of it
	case w.chance(5):
		r.amount = money.Units(uint64(1 + w.pick(9))) // less than the minimum
	case small:
		r.amount = money.Units(1 + w.rng.Uint64N(n)/uint64(1+w.pick(4)))
	default:
		r.amount = w.amountOf(r.mint)
	}
	r.to = sim.Address(fmt.Sprintf("destination %d of %d", r.n, w.seed))
	words := string(r.to)
	switch kind := w.pick(100); {
	case kind < 3:
		r.bad, words = true, string(w.addresses[draw(w, append([]string{""}, w.customers...))])
	case kind < 5:
		r.bad, words = true, string(tokens[dollar])
	case kind < 6:
		r.bad, words = true, "0x0000000000000000000000000000000000000000"
	case kind < 7:
		r.bad, words = true, string(r.to[:20])
	case kind < 9 && len(w.requests) > 0:
		r.to = lookalike(draw(w, w.requests).to, r.n)
		words = string(r.to)
	case kind < 30:
		words = strings.ToLower(words)
	}
	r.ask = withdrawal.Request{
		MintID: r.mint, CustomerID: who, Amount: r.amount.String(), ToAddress: words,
		RequireApproval: w.chance(15), Actor: audit.APIKey(orgID),
	}
	if w.chance(70) {
		key := fmt.Sprintf("key-%d", r.n)
		r.ask.IdempotencyKey = &key
	}
	w.requests = append(w.requests, r)
	w.note("#%d withdraw %v of mint %d for %s to %.10s", r.n, r.amount, r.mint, who, words)
	w.send(r)
}

// lookalike begins and ends like an address and is another.
func lookalike(a chain.Address, n int) chain.Address {
	b := common.HexToAddress(string(a))
	b[8], b[9] = b[8]^0x5a, byte(n)
	return evmtx.Canonical(b)
}

// send makes a request, perhaps not for the first time, and remembers the answer.
func (w *world) send(r *request) {
	var replayed bool
	spoiled := w.spoiled(func(ctx context.Context) error {
		made, again, err := draw(w, w.houses).Pay.Request(ctx, orgID, r.ask)
		replayed = again
		if err == nil {
			w.accepted(r, made.WithdrawalID)
		}
		return err
	})
	err := spoiled.err
	switch f := fault.Of(err); {
	case err == nil:
		w.note("#%d accepted, replayed %v", r.n, replayed)
	case f != nil:
		w.note("#%d refused: %s", r.n, f.Code)
		w.turnedDown(r, f)
	default:
		w.note("#%d no answer", r.n)
		w.heard("request", err, w.calm() && !spoiled.struck)
	}
}

// turnedDown remembers a refusal. Who is blocked once is blocked for ever under that key.
func (w *world) turnedDown(r *request, f *fault.Fault) {
	now := f.Code == fault.WithdrawalRiskBlocked
	switch {
	case r.id != "":
		w.fail("request #%d was accepted as %s and its repetition is refused: %v", r.n, r.id, f)
	case r.blocked && !now:
		w.fail("request #%d was blocked, and now it is %v", r.n, f)
	}
	r.blocked = r.blocked || now
	r.refused = r.ask.IdempotencyKey == nil
	w.refused++
}

func (w *world) accepted(r *request, id string) {
	switch {
	case r.blocked:
		w.fail("request #%d was blocked and is accepted as %s", r.n, id)
	case r.bad:
		w.fail("request #%d to %s was accepted as %s", r.n, r.ask.ToAddress, id)
	case r.id != "" && r.id != id:
		w.fail("request #%d was accepted as %s and as %s", r.n, r.id, id)
	case w.byID[id] != nil && w.byID[id] != r:
		w.fail("requests #%d and #%d are both %s", w.byID[id].n, r.n, id)
	}
	if r.id == "" {
		w.withdrawals++
	}
	r.id, w.byID[id] = id, r
}

// repeat sends an earlier request again, the same or another under its key.
func (w *world) repeat() {
	if len(w.requests) == 0 {
		return
	}
	r := draw(w, w.requests)
	if r.ask.IdempotencyKey == nil {
		return // every call is a payment of its own
	}
	w.replays++
	if r.id == "" || w.chance(50) {
		w.note("#%d again", r.n)
		w.send(r)
		return
	}
	other := r.ask
	switch w.pick(4) {
	case 0:
		other.ToAddress = string(sim.Address("somebody else"))
	case 1:
		other.Amount = "11"
	case 2:
		other.CustomerID = "nobody"
	case 3:
		other.RequireApproval = !other.RequireApproval
	}
	w.note("#%d with another body", r.n)
	s := w.spoiled(func(ctx context.Context) error {
		_, _, err := draw(w, w.houses).Pay.Request(ctx, orgID, other)
		return err
	})
	if s.err == nil || fault.Of(s.err) != nil && !fault.Is(s.err, fault.IdempotencyConflict) {
		w.fail("request #%d under its key with another body: got %v, want %s", r.n, s.err, fault.IdempotencyConflict)
	}
}

// decide approves or removes something that waits, or that does not any more.
func (w *world) decide() {
	ids := w.column(`SELECT withdrawal_id FROM withdrawals WHERE status = 'AWAITING_APPROVAL' OR $1 ORDER BY created_at`, w.chance(15))
	if len(ids) == 0 {
		return
	}
	id := draw(w, ids)
	yes, person := w.chance(60), audit.User(draw(w, []string{"usr_1", "usr_2", "usr_3"}))
	s := w.spoiled(func(ctx context.Context) (err error) {
		house := draw(w, w.houses)
		if yes {
			_, err = house.Pay.Approve(ctx, orgID, id, person)
		} else {
			_, err = house.Pay.Remove(ctx, orgID, id, person, "no")
		}
		return err
	})
	w.note("approve %v %s: %s", yes, w.name(id), code(s.err))
	if fault.Of(s.err) == nil {
		w.heard("decide", s.err, w.calm() && !s.struck)
	}
}

// name is a withdrawal without its id, which is another in every run.
func (w *world) name(id string) string {
	if r := w.byID[id]; r != nil {
		return fmt.Sprintf("#%d", r.n)
	}
	return "one whose acceptance nobody heard of"
}

func code(err error) string {
	switch f := fault.Of(err); {
	case err == nil:
		return "done"
	case f != nil:
		return string(f.Code)
	}
	return "no answer"
}

func (w *world) freeze() {
	f := freeze.Freeze{Source: freeze.ByOperator, Reason: "soak", By: audit.Operator("op_1")}
	switch w.pick(7) {
	case 0:
		f.Scope = freeze.All
	case 1:
		f.Scope, f.Chain = freeze.Chain, chain.Ethereum
	case 2:
		f.Scope, f.OrgID = freeze.Organization, orgID
	case 3:
		f.Scope, f.OrgID, f.Chain = freeze.Wallet, orgID, chain.Ethereum
		f.WalletID = draw(w, w.column(`SELECT wallet_id FROM wallets WHERE $1 ORDER BY subject`, true))
	case 4:
		f.Source, f.By = freeze.ByOrganization, audit.User("usr_1")
		f.Scope, f.OrgID, f.CustomerID = freeze.Customer, orgID, draw(w, w.customers)
	default:
		f.Scope, f.OrgID, f.CustomerID = freeze.Customer, orgID, draw(w, w.customers)
	}
	w.note("freeze %s %s", f.Scope, f.CustomerID)
	s := w.spoiled(func(ctx context.Context) error {
		return w.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error { return freeze.Put(ctx, tx, f) })
	})
	w.heard("freeze", s.err, w.calm() && !s.struck)
	w.faults.add("freeze")
}

func (w *world) lift() {
	for _, id := range w.column(`SELECT freeze_id FROM freezes WHERE lifted_at IS NULL AND $1 ORDER BY created_at`, true) {
		w.note("lift")
		s := w.spoiled(func(ctx context.Context) error {
			return w.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error { return freeze.Lift(ctx, tx, id, audit.Operator("op_1")) })
		})
		w.heard("lift", s.err, w.calm() && !s.struck)
	}
}

// cancel fills the slot of something that is out.
func (w *world) cancel() {
	ids := w.column(`SELECT order_id FROM dispatch_orders WHERE status IN ('SIGNED', 'BROADCAST') AND $1 ORDER BY created_at`, true)
	if len(ids) == 0 {
		return
	}
	id := draw(w, ids)
	var done bool
	s := w.spoiled(func(ctx context.Context) (err error) {
		done, err = draw(w, w.houses).Out.Cancel(ctx, id, audit.Operator("soak"))
		return err
	})
	w.note("cancel %s: %v", w.name(id), done)
	if s.err != nil {
		w.errs["cancel"]++ // the cap may forbid it, another may have been quicker
	}
	w.faults.add("cancel of what is out")
}

// rescan has the final walk read blocks again that it has read.
func (w *world) rescan() {
	var from, to uint64
	err := w.eye.QueryRow(w.ctx, `
		SELECT coalesce(min(p.height), 0), coalesce(max(p.height), 0) FROM finality_proofs p, scan_cursors c WHERE p.height <= c.height`).Scan(&from, &to)
	w.must(err, "look for blocks that were walked")
	if to == 0 {
		return
	}
	height := from + w.rng.Uint64N(to-from+1)
	s := w.spoiled(func(ctx context.Context) error {
		return draw(w, w.houses).Walk.Rewind(ctx, height, audit.Operator("op_1"))
	})
	w.note("the walk from block %d on again%s", height, s.said())
	w.heard("rescan", s.err, w.calm() && !s.struck)
	w.faults.add("blocks read again")
}

// threshold changes from where on a person has to allow a withdrawal.
func (w *world) threshold() {
	var usd *money.USD
	if w.chance(70) {
		usd = new(money.MustParseUSD(fmt.Sprint(20 + w.pick(300))))
	}
	s := w.spoiled(func(ctx context.Context) error {
		return w.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
			return org.SetWithdrawThreshold(ctx, tx, audit.User("usr_1"), orgID, usd)
		})
	})
	w.note("another threshold: %v%s", usd, s.said())
	w.heard("threshold", s.err, w.calm() && !s.struck)
}

func (w *world) sweepAll() {
	w.note("sweep everything")
	s := w.spoiled(func(ctx context.Context) error { _, err := draw(w, w.houses).Sweeper.All(ctx); return err })
	w.heard("sweep", s.err, w.calm() && !s.struck)
}

// gas is the operator's coin on the treasury.
func (w *world) gas() {
	amount := money.Units(uint64(1+w.pick(20)) * wei / 2000)
	w.note("gas %v", amount)
	w.pay(sim.Move{To: w.addresses[""], Amount: amount})
}

func (w *world) newCustomer() {
	if len(w.customers) < 8 && !w.signer.away() {
		w.note("a new customer")
		w.customer()
	}
}

// part gives one part of one of the processes its turn.
func (w *world) part() {
	h := w.pick(len(w.houses))
	house := w.houses[h]
	switch n := w.pick(len(house.steps) + 3); n {
	case len(house.steps) + 2:
		w.run(h, "stuck returns", func(ctx context.Context) error { _, err := house.Flags.Stick(ctx); return err })
	case len(house.steps):
		w.post(h)
	case len(house.steps) + 1:
		w.run(h, "mirror", func(ctx context.Context) error { return mirror.Import(ctx, w.db, w.signer, house.Book) })
	default:
		w.run(h, house.steps[n].Name, house.steps[n].Do)
	}
}

func (w *world) run(h int, name string, do func(context.Context) error) {
	s := w.spoiled(do)
	w.note("%s (%d)%s", name, h, s.said())
	w.heard(name, s.err, w.calm() && !s.struck)
}

// post delivers what is due. What it comes to depends on when and on jitter that no
// seed knows, so it leaves no trace but that it was done.
func (w *world) post(h int) {
	s := w.spoiled(func(ctx context.Context) error { _, err := w.houses[h].posts.Step(ctx); return err })
	w.note("deliveries (%d)", h)
	w.heard("deliveries", s.err, w.calm() && !s.struck)
}

// round gives every part its turn.
func (w *world) round() {
	h := w.pick(len(w.houses))
	for _, step := range w.houses[h].steps {
		w.run(h, step.Name, step.Do)
		w.later(time.Second)
	}
	w.post(h)
}

// spoil is what came of something that the database may have spoiled.
type spoil struct {
	err    error
	struck bool
}

func (s spoil) said() string {
	switch {
	case s.err != nil && s.struck:
		return " spoiled, fails"
	case s.struck:
		return " spoiled"
	case s.err != nil:
		return " fails"
	}
	return ""
}

// spoiled does something, and in some cases the database or the signer fails in
// the middle of it.
func (w *world) spoiled(do func(context.Context) error) spoil {
	const often = 12 // in a hundred
	if !w.chance(often) {
		return spoil{err: do(w.ctx)}
	}
	kind := w.pick(len(databaseFaults) + 2)
	after := w.pick(12)
	switch {
	case kind < len(databaseFaults):
		if kind := databaseFaults[kind]; kind == commitAnswer || kind == commitRequest {
			after = w.pick(3)
		}
		w.line.arm(databaseFaults[kind], after)
	case kind == len(databaseFaults):
		w.signer.lose(1+w.pick(2), 0)
	default:
		w.signer.lose(0, 1+w.pick(2))
	}
	err := do(w.ctx)
	struck := w.line.disarm()
	if kind >= len(databaseFaults) {
		struck = w.signer.found()
	}
	return spoil{err, struck}
}

// mine makes blocks: of all that waits, of some of it in another order, of nothing.
func (w *world) mine() {
	waiting := w.net.Pool()
	switch n := w.pick(10); {
	case n < 6:
		w.net.Mine(1 + w.pick(2))
	case n < 9 && len(waiting) > 1:
		w.rng.Shuffle(len(waiting), func(i, j int) { waiting[i], waiting[j] = waiting[j], waiting[i] })
		w.net.MineOnly(waiting[:1+w.pick(len(waiting))]...)
	default:
		w.net.MineEmpty(1 + w.pick(3))
	}
	w.mined()
}

// fork takes blocks away that are not final, and sometimes drops what was in them,
// or has it do something else the next time.
func (w *world) fork() {
	latest := w.net.Latest().Height
	deepest := int(latest) - int(w.highest-min(w.highest, w.behind))
	if deepest < 1 || latest < 2 {
		return
	}
	deep := 1 + w.pick(deepest)
	var dropped []chain.TxHash
	seen := map[chain.TxHash]bool{}
	for h := latest - uint64(deep) + 1; h <= latest; h++ {
		for _, m := range w.net.At(h).Transfers {
			if !seen[m.Tx] && w.chance(15) {
				dropped = append(dropped, m.Tx)
			}
			seen[m.Tx] = true
		}
	}
	w.net.Fork(deep, dropped...)
	w.faults.add(fmt.Sprintf("fork %d deep", deep))
	w.note("fork %d deep, %d dropped", deep, len(dropped))
	for _, hash := range dropped {
		w.faults.add("dropped by a fork")
		if w.chance(30) {
			w.again(hash)
		}
	}
	if w.chance(60) {
		w.mine()
	}
}

// again has a dropped payment come back under its hash and do something else, as
// a contract may that looks at its block.
func (w *world) again(hash chain.TxHash) {
	for i, p := range w.paidIns {
		if p.hash != hash {
			continue
		}
		moves := append([]sim.Move(nil), p.moves...)
		for j := range moves {
			if moves[j].From != "" {
				return
			}
			if w.chance(50) {
				moves[j].To = w.addresses[draw(w, w.payees())]
			} else if half := w.half(moves[j].Amount); !half.IsZero() {
				moves[j].Amount = half
			}
		}
		w.net.Again(hash, p.from, moves...)
		w.paidIns[i].moves = moves
		w.faults.add("does something else on a fork")
		w.note("%s again, and otherwise", hash[:12])
		return
	}
}

func (w *world) half(a money.Amount) money.Amount {
	h, err := a.Bps(5000)
	w.must(err, "halve an amount")
	return h
}

// drop loses something that waits.
func (w *world) drop() {
	waiting := w.net.Pool()
	if len(waiting) == 0 {
		return
	}
	hash := draw(w, waiting)
	w.net.Forget(hash)
	w.faults.add("dropped from the pool")
	w.note("%s dropped", hash[:12])
}

// surface lets something that was swallowed reach the chain after all.
func (w *world) surface() {
	for _, hash := range w.column(`SELECT tx_hash FROM dispatch_attempts WHERE tx_hash IS NOT NULL AND $1 ORDER BY created_at, version`, true) {
		if w.net.Deliver(chain.TxHash(hash)) {
			w.faults.add("provider: swallowed, late")
			w.note("%s surfaces", hash[:12])
			return
		}
	}
}

// restart throws away all that is in memory.
func (w *world) restart() {
	w.shut()
	w.open()
	w.faults.add("processes restarted")
	w.faults.add(signerRestarts)
	w.note("restart")
}

// column reads one column of text, with the oracle's eye.
func (w *world) column(sql string, args ...any) []string {
	rows, err := w.eye.Query(w.ctx, sql, args...)
	w.must(err, "look")
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	w.must(err, "look")
	return found
}

// balance is what a customer, or a product of the organization, has.
func (w *world) balance(who string, mintID int) money.Amount {
	var a money.Amount
	kind := ledger.Customer
	if slices.Contains(ledger.Products, who) {
		kind = ledger.Product
	}
	err := w.eye.QueryRow(w.ctx, `
		SELECT b.balance FROM ledger_balances b JOIN ledger_accounts a USING (account_id)
		WHERE a.kind = $4 AND a.org_id = $1 AND a.subject = $2 AND a.mint_id = $3`, orgID, who, mintID, kind).Scan(&a)
	if !errors.Is(err, pgx.ErrNoRows) {
		w.must(err, "read a balance")
	}
	return a
}
