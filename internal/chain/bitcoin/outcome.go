package bitcoin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/btcsuite/btcd/chainhash/v2"
	"github.com/btcsuite/btcd/wire/v2"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/bitcoin/bitcointx"
	"github.com/cofferpay/coffer/internal/chain/several"
	"github.com/cofferpay/coffer/internal/money"
)

// Outcome asks all nodes where the transactions are, and takes them out of the block that
// holds them: its header and its root prove that they are there, and the transactions
// before, checked by their hashes, what it cost. Where a node says that one waits, or
// knows none, it is nowhere; that is said when as many as have to agree have looked.
//
// A transaction in a block has succeeded: there are no others. What other transaction
// took its coins is not asked here; see Account.
func (a *adapter) Outcome(ctx context.Context, txs []chain.TxHash, ps ...chain.Payment) (*chain.Outcome, error) {
	if len(txs) == 0 {
		return nil, nil
	}
	found, none, err := several.Seen(ctx, a.providers, func(ctx context.Context, p *provider) (*chain.Outcome, error) {
		return a.outcome(ctx, p, txs, ps)
	})
	switch {
	case len(found) > 0:
		// Nodes on two branches: how deep it lies is asked elsewhere, so the one that
		// makes it younger is taken.
		return slices.MaxFunc(found, func(x, y *chain.Outcome) int { return cmp.Compare(x.Block.Height, y.Block.Height) }), nil
	case none >= a.Agree:
		return nil, nil
	default:
		return nil, fmt.Errorf("outcome of %s on %s: %w", txs[0], chain.Bitcoin, err)
	}
}

// placed is a transaction as getrawtransaction tells of it.
type placed struct {
	Block string `json:"blockhash"` // "" while it waits
}

func (a *adapter) outcome(ctx context.Context, p *provider, txs []chain.TxHash, ps []chain.Payment) (*chain.Outcome, error) {
	where := make([]placed, len(txs))
	questions := make([]*question, len(txs))
	for i, tx := range txs {
		questions[i] = ask(&where[i], "getrawtransaction", string(tx), 1)
	}
	if err := p.callEach(ctx, questions...); err != nil {
		return nil, err
	}
	for i, q := range questions {
		switch {
		case refused(q.err, codeNotFound):
			continue
		case q.err != nil:
			return nil, q.err
		case where[i].Block == "":
			continue
		}
		hash, err := hashText(where[i].Block)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		o, err := a.effects(ctx, p, hash, txs[i], ps)
		if o != nil || err != nil {
			return o, err
		}
	}
	return nil, nil
}

// effects are what a transaction came to in a block; nil when the block is not on the
// node's chain any more.
func (a *adapter) effects(ctx context.Context, p *provider, hash chainhash.Hash, tx chain.TxHash, ps []chain.Payment) (*chain.Outcome, error) {
	height, ok, err := p.heightOf(ctx, hash)
	if err != nil || !ok {
		return nil, err
	}
	s, err := a.sealed(ctx, []*provider{p}, height, hash)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(s.ids, func(id chainhash.Hash) bool { return id.String() == string(tx) })
	if i < 0 {
		return nil, fmt.Errorf("%s: %s is not in block %s, where it says", p.name, tx, hash)
	}
	is, err := s.tx(i)
	if err != nil {
		return nil, err
	}
	fee, err := p.cost(ctx, s, is)
	if err != nil {
		return nil, fmt.Errorf("what %s cost: %w", tx, err)
	}
	effects, err := s.outputs(a.params, i, nil)
	if err != nil {
		return nil, err
	}
	return &chain.Outcome{Tx: tx, Block: s.block(height), Succeeded: true, Paid: chain.Makes(effects, ps, pays), Fee: fee}, nil
}

// pays tells whether a movement is exactly a payment. From is whose coin it was, of
// several none: whoever holds the key of a coin of ours pays for us.
func pays(t chain.Transfer, p chain.Payment) bool {
	return p.Contract == "" && t.Kind == chain.Native && t.To == p.To && t.Amount == p.Amount
}

// heightOf is where a block is on the node's chain; ok is false when it is beside it.
func (p *provider) heightOf(ctx context.Context, hash chainhash.Hash) (height uint64, ok bool, err error) {
	var header struct {
		Height uint64 `json:"height"`
	}
	if err := p.call(ctx, ask(&header, "getblockheader", hash.String(), true)); err != nil {
		return 0, false, err
	}
	at, ok, err := p.hashAt(ctx, header.Height)
	return header.Height, ok && at == hash, err
}

// cost is what the coins of a transaction held beyond what it paid.
func (p *provider) cost(ctx context.Context, s *sealed, tx *wire.MsgTx) (money.Amount, error) {
	before := map[chainhash.Hash]*wire.MsgTx{}
	var missing []chainhash.Hash
	for _, in := range tx.TxIn {
		id := in.PreviousOutPoint.Hash
		if _, met := before[id]; met {
			continue
		}
		before[id] = nil
		if i := slices.Index(s.ids, id); i < 0 {
			missing = append(missing, id)
		} else if made, err := s.tx(i); err != nil {
			return money.Zero, err
		} else {
			before[id] = made
		}
	}
	err := p.transactions(ctx, missing, func(id chainhash.Hash, made *wire.MsgTx) error {
		before[id] = made
		return nil
	})
	if err != nil {
		return money.Zero, err
	}
	var in, out int64
	for _, i := range tx.TxIn {
		made, n := before[i.PreviousOutPoint.Hash], i.PreviousOutPoint.Index
		if int(n) >= len(made.TxOut) {
			return money.Zero, fmt.Errorf("it spends output %d of %s, which has %d", n, i.PreviousOutPoint.Hash, len(made.TxOut))
		}
		in += made.TxOut[n].Value
	}
	for _, o := range tx.TxOut {
		out += o.Value
	}
	if in < out || in > supply {
		return money.Zero, fmt.Errorf("it pays %d out of %d", out, in)
	}
	return money.Units(uint64(in - out)), nil
}

// Account asks where slots stand: whether anything has taken one of their coins, in the
// latest block and finally. A slot without any of that has its lease in both. The least
// that as many as have to agree say counts: a slot that one of them shows free is free.
func (a *adapter) Account(ctx context.Context, account chain.Address, open ...chain.Slot) (chain.Account, error) {
	out := chain.Account{Leased: true}
	var leases []bitcointx.Lease
	for _, s := range open {
		l, err := bitcointx.ParseLease(a.Network, s.Lease)
		if err != nil {
			return chain.Account{}, fmt.Errorf("slots of %s on %s: %w", account, chain.Bitcoin, err)
		}
		leases = append(leases, l)
	}
	if len(open) == 0 {
		return out, nil
	}
	var errs []error
	answered := 0
	for _, s := range several.Ask(ctx, a.providers, a.Agree, func(ctx context.Context, p *provider) ([]chain.Lease, error) {
		return a.standing(ctx, p, open, leases)
	}) {
		if s.Err != nil {
			errs = append(errs, s.Err)
			continue
		}
		answered++
		if out.Leases == nil {
			out.Leases = s.Value
			continue
		}
		for i, l := range s.Value {
			if l.Latest != "" {
				out.Leases[i].Latest = l.Latest
			}
			if l.Final != "" {
				out.Leases[i].Final = l.Final
			}
		}
	}
	if answered < a.Agree {
		return chain.Account{}, fmt.Errorf("slots of %s on %s: %w", account, chain.Bitcoin, errors.Join(errs...))
	}
	return out, nil
}

// coinAsked is what gettxout answers for an output that nothing in a block has spent.
type coinAsked struct {
	Best string `json:"bestblock"`
	// spent is the height of the block that spends it, which Esplora alone tells; zero:
	// none does.
	spent uint64
}

// standing are the slots as one node has them. It looks at the coins and at the blocks
// that are not final, and starts anew when a block came or went meanwhile.
func (a *adapter) standing(ctx context.Context, p *provider, open []chain.Slot, leases []bitcointx.Lease) ([]chain.Lease, error) {
	for range standingTries {
		out, err := a.standingAt(ctx, p, open, leases)
		if !errors.Is(err, errMoved) {
			return out, err
		}
	}
	return nil, fmt.Errorf("%s: %w", p.name, errMoved)
}

// standingTries is how often a node may have a new block while it is asked.
const standingTries = 3

var errMoved = errors.New("its newest block is another one every time it is asked")

func (a *adapter) standingAt(ctx context.Context, p *provider, open []chain.Slot, leases []bitcointx.Lease) ([]chain.Lease, error) {
	height, err := p.height(ctx)
	if err != nil {
		return nil, err
	}
	// What the blocks spend that can still be forked away.
	young := map[string]bool{}
	var tip chainhash.Hash
	for at := height; ; at-- {
		hash, ok, err := p.hashAt(ctx, at)
		if err == nil && !ok {
			err = errMoved
		}
		if err != nil {
			return nil, err
		}
		if at == height {
			tip = hash
		}
		if at <= a.below(height) {
			break
		}
		s, err := a.sealed(ctx, []*provider{p}, at, hash)
		if err != nil {
			return nil, err
		}
		for i := range s.txs {
			for _, out := range s.spends(i) {
				young[bitcointx.OutpointOf(chain.TxHash(out.Hash.String()), out.Index)] = true
			}
		}
	}
	there := map[string]*coinAsked{}
	var names []string
	var questions []*question
	answers := map[string]**coinAsked{}
	for _, l := range leases {
		for _, c := range l.Coins {
			if _, twice := answers[c.Outpoint]; twice {
				continue
			}
			tx, n, err := bitcointx.ParseOutpoint(c.Outpoint)
			if err != nil {
				return nil, err
			}
			answers[c.Outpoint] = new(*coinAsked)
			names = append(names, c.Outpoint)
			questions = append(questions, ask(answers[c.Outpoint], "gettxout", string(tx), n, false))
		}
	}
	if err := p.call(ctx, questions...); err != nil {
		return nil, err
	}
	var gone []string
	for _, name := range names {
		c := *answers[name]
		if c != nil && c.Best != tip.String() {
			return nil, errMoved
		}
		if c != nil && c.spent > 0 {
			if c.spent > a.below(height) && !young[name] {
				return nil, fmt.Errorf("%s: %s is spent in block %d, which does not", p.name, name, c.spent)
			}
			c = nil
		}
		there[name] = c
		if c == nil && !young[name] {
			gone = append(gone, name)
		}
	}
	if err := p.made(ctx, gone); err != nil {
		return nil, err
	}
	// The same newest block as at first, so all of it is of one moment.
	if now, ok, err := p.hashAt(ctx, height); err != nil || !ok || now != tip {
		return nil, errors.Join(err, errMoved)
	}
	if now, err := p.height(ctx); err != nil || now != height {
		return nil, errors.Join(err, errMoved)
	}
	out := make([]chain.Lease, len(open))
	for i, s := range open {
		out[i] = chain.Lease{Latest: s.Lease, Final: s.Lease}
		for _, c := range leases[i].Coins {
			if there[c.Outpoint] != nil {
				continue
			}
			out[i].Latest = ""
			if !young[c.Outpoint] {
				out[i].Final = ""
			}
		}
	}
	return out, nil
}

// made makes sure that outputs which are not there were made in a block of the node's
// chain: then something has spent them. One that never was, or is not any more, is no
// proof that anybody took its slot.
func (p *provider) made(ctx context.Context, outs []string) error {
	where := map[chain.TxHash]*placed{}
	var questions []*question
	for _, name := range outs {
		tx, _, err := bitcointx.ParseOutpoint(name)
		if err != nil {
			return err
		}
		if where[tx] == nil {
			where[tx] = new(placed)
			questions = append(questions, ask(where[tx], "getrawtransaction", string(tx), 1))
		}
	}
	if err := p.call(ctx, questions...); err != nil {
		return fmt.Errorf("a coin is not there: %w", err)
	}
	for tx, w := range where {
		if w.Block == "" {
			return fmt.Errorf("%s: %s, which made a coin of ours, is in no block", p.name, tx)
		}
		hash, err := hashText(w.Block)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		if _, ok, err := p.heightOf(ctx, hash); err != nil || !ok {
			return errors.Join(fmt.Errorf("%s: block %s, which made a coin of ours, is not on its chain", p.name, hash), err)
		}
	}
	return nil
}
