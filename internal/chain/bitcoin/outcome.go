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
	"github.com/cofferpay/coffer/internal/chain/quorum"
	"github.com/cofferpay/coffer/internal/money"
)

// Outcome asks all nodes where the transactions are, and reads them from the block that contains
// them. The block's header and root prove that they are in it. The transactions before them,
// checked by their hashes, prove the fee. An unconfirmed or unknown transaction is in no block;
// that is the answer once a quorum has searched.
//
// A transaction in a block has succeeded: there are no others. Outcome does not look for another
// transaction that spent its inputs; see Account.
func (a *adapter) Outcome(ctx context.Context, txs []chain.TxHash, ps ...chain.Payment) (*chain.Outcome, error) {
	if len(txs) == 0 {
		return nil, nil
	}
	found, missing, err := quorum.SearchAll(ctx, a.providers,
		func(ctx context.Context, p *provider) (*chain.Outcome, error) {
			return a.readOutcome(ctx, p, txs, ps)
		})
	switch {
	case len(found) > 0:
		// The nodes may be on two branches. The caller checks the depth separately, so the higher
		// block is taken.
		return slices.MaxFunc(found, func(x, y *chain.Outcome) int {
			return cmp.Compare(x.Block.Height, y.Block.Height)
		}), nil
	case missing >= a.Quorum:
		return nil, nil
	default:
		return nil, fmt.Errorf("outcome of %s on %s: %w", txs[0], chain.Bitcoin, err)
	}
}

// txLocation is where getrawtransaction says that a transaction is.
type txLocation struct {
	Block string `json:"blockhash"` // "" while it is unconfirmed
}

func (a *adapter) readOutcome(
	ctx context.Context, p *provider, txs []chain.TxHash, ps []chain.Payment,
) (*chain.Outcome, error) {
	locations := make([]txLocation, len(txs))
	calls := make([]*rpcCall, len(txs))
	for i, tx := range txs {
		calls[i] = newCall(&locations[i], "getrawtransaction", string(tx), 1)
	}
	if err := p.callBatchEach(ctx, calls...); err != nil {
		return nil, err
	}
	for i, q := range calls {
		switch {
		case hasErrorCode(q.err, codeNotFound):
			continue
		case q.err != nil:
			return nil, q.err
		case locations[i].Block == "":
			continue
		}
		hash, err := parseHash(locations[i].Block)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		o, err := a.readEffects(ctx, p, hash, txs[i], ps)
		if o != nil || err != nil {
			return o, err
		}
	}
	return nil, nil
}

// readEffects returns the result of a transaction in a block; nil if the block is no longer on the
// node's chain.
func (a *adapter) readEffects(
	ctx context.Context, p *provider, hash chainhash.Hash, tx chain.TxHash, ps []chain.Payment,
) (*chain.Outcome, error) {
	height, ok, err := p.readHeightOf(ctx, hash)
	if err != nil || !ok {
		return nil, err
	}
	s, err := a.loadBlock(ctx, []*provider{p}, height, hash)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(s.ids, func(id chainhash.Hash) bool { return id.String() == string(tx) })
	if i < 0 {
		return nil, fmt.Errorf("%s: %s is not in block %s, although it says so", p.name, tx, hash)
	}
	decoded, err := s.decodeTx(i)
	if err != nil {
		return nil, err
	}
	fee, err := p.computeFee(ctx, s, decoded)
	if err != nil {
		return nil, fmt.Errorf("what %s cost: %w", tx, err)
	}
	effects, err := s.appendTransfers(a.params, i, nil)
	if err != nil {
		return nil, err
	}
	return &chain.Outcome{
		Tx: tx, Block: s.toChainBlock(height), Succeeded: true,
		Paid: chain.MakesPayments(effects, ps, pays), Fee: fee,
	}, nil
}

// pays reports whether a transfer is exactly a payment. The sender is not compared: From is empty
// with several input owners, and any of an organization's keys pays for it.
func pays(t chain.Transfer, p chain.Payment) bool {
	return p.Contract == "" && t.Kind == chain.Native && t.To == p.To && t.Amount == p.Amount
}

// readHeightOf returns the height of a block; ok is false if it is not on the node's chain.
func (p *provider) readHeightOf(ctx context.Context, hash chainhash.Hash) (height uint64, ok bool, err error) {
	var header struct {
		Height uint64 `json:"height"`
	}
	if err := p.callBatch(ctx, newCall(&header, "getblockheader", hash.String(), true)); err != nil {
		return 0, false, err
	}
	actual, ok, err := p.readHashAt(ctx, header.Height)
	return header.Height, ok && actual == hash, err
}

// computeFee returns what the inputs of a transaction hold beyond its outputs.
func (p *provider) computeFee(ctx context.Context, s *verifiedBlock, tx *wire.MsgTx) (money.Amount, error) {
	previous := map[chainhash.Hash]*wire.MsgTx{}
	var missing []chainhash.Hash
	for _, spent := range tx.TxIn {
		id := spent.PreviousOutPoint.Hash
		if _, exists := previous[id]; exists {
			continue
		}
		previous[id] = nil
		if i := slices.Index(s.ids, id); i < 0 {
			missing = append(missing, id)
		} else if made, err := s.decodeTx(i); err != nil {
			return money.Zero, err
		} else {
			previous[id] = made
		}
	}
	err := p.fetchTxs(ctx, missing, func(id chainhash.Hash, made *wire.MsgTx) error {
		previous[id] = made
		return nil
	})
	if err != nil {
		return money.Zero, err
	}
	var spent, out int64
	for _, i := range tx.TxIn {
		made, n := previous[i.PreviousOutPoint.Hash], i.PreviousOutPoint.Index
		if int(n) >= len(made.TxOut) {
			return money.Zero, fmt.Errorf("it spends output %d of %s, which has %d", n, i.PreviousOutPoint.Hash,
				len(made.TxOut))
		}
		spent += made.TxOut[n].Value
	}
	for _, o := range tx.TxOut {
		out += o.Value
	}
	if spent < out || spent > satoshiSupply {
		return money.Zero, fmt.Errorf("it pays %d out of %d", out, spent)
	}
	return money.Units(uint64(spent - out)), nil
}

// Account reads whether a transaction has spent one of the slots' inputs, in the latest block and
// finally. A slot that no transaction has used has its key in both. The least used state that a
// quorum reports counts: a slot that one of them shows free is free.
func (a *adapter) Account(ctx context.Context, account chain.Address, open ...chain.Slot) (chain.Account, error) {
	out := chain.Account{KeyedSlots: true}
	var slotKeys []bitcointx.SlotKey
	for _, s := range open {
		l, err := bitcointx.ParseSlotKey(a.Network, s.Key)
		if err != nil {
			return chain.Account{}, fmt.Errorf("slots of %s on %s: %w", account, chain.Bitcoin, err)
		}
		slotKeys = append(slotKeys, l)
	}
	if len(open) == 0 {
		return out, nil
	}
	var errs []error
	answered := 0
	for _, s := range quorum.AskAll(ctx, a.providers, a.Quorum,
		func(ctx context.Context, p *provider) ([]chain.SlotState, error) {
			return a.readSlots(ctx, p, open, slotKeys)
		}) {
		if s.Err != nil {
			errs = append(errs, s.Err)
			continue
		}
		answered++
		if out.Slots == nil {
			out.Slots = s.Value
			continue
		}
		for i, l := range s.Value {
			if l.Latest != "" {
				out.Slots[i].Latest = l.Latest
			}
			if l.Final != "" {
				out.Slots[i].Final = l.Final
			}
		}
	}
	if answered < a.Quorum {
		return chain.Account{}, fmt.Errorf("slots of %s on %s: %w", account, chain.Bitcoin, errors.Join(errs...))
	}
	return out, nil
}

// txOutAnswer is the answer of gettxout for an output that no block has spent.
type txOutAnswer struct {
	Best string `json:"bestblock"`
	// spent is the height of the block that spends it, which only Esplora reports; zero if none
	// does.
	spent uint64
}

// readSlots returns the slots as one node has them. It reads the outputs and the blocks that are
// not final, and starts again if the tip changed meanwhile.
func (a *adapter) readSlots(
	ctx context.Context, p *provider, open []chain.Slot, slotKeys []bitcointx.SlotKey,
) ([]chain.SlotState, error) {
	for range slotReadTries {
		out, err := a.tryReadSlots(ctx, p, open, slotKeys)
		if !errors.Is(err, errTipMoved) {
			return out, err
		}
	}
	return nil, fmt.Errorf("%s: %w", p.name, errTipMoved)
}

// slotReadTries is how often the tip may change during a read.
const slotReadTries = 3

var errTipMoved = errors.New("its newest block changes with every question")

func (a *adapter) tryReadSlots(
	ctx context.Context, p *provider, open []chain.Slot, slotKeys []bitcointx.SlotKey,
) ([]chain.SlotState, error) {
	height, err := p.readHeight(ctx)
	if err != nil {
		return nil, err
	}
	// The outputs that reorganizable blocks spend.
	spentUnfinal := map[string]bool{}
	var tip chainhash.Hash
	for level := height; ; level-- {
		hash, ok, err := p.readHashAt(ctx, level)
		if err == nil && !ok {
			err = errTipMoved
		}
		if err != nil {
			return nil, err
		}
		if level == height {
			tip = hash
		}
		if level <= a.finalHeight(height) {
			break
		}
		s, err := a.loadBlock(ctx, []*provider{p}, level, hash)
		if err != nil {
			return nil, err
		}
		for i := range s.txs {
			for _, out := range s.spentOutpoints(i) {
				spentUnfinal[bitcointx.FormatOutpoint(chain.TxHash(out.Hash.String()), out.Index)] = true
			}
		}
	}
	unspent := map[string]*txOutAnswer{}
	var names []string
	var calls []*rpcCall
	answers := map[string]**txOutAnswer{}
	for _, l := range slotKeys {
		for _, c := range l.Inputs {
			if _, isDuplicate := answers[c.Outpoint]; isDuplicate {
				continue
			}
			tx, n, err := bitcointx.ParseOutpoint(c.Outpoint)
			if err != nil {
				return nil, err
			}
			answers[c.Outpoint] = new(*txOutAnswer)
			names = append(names, c.Outpoint)
			calls = append(calls, newCall(answers[c.Outpoint], "gettxout", string(tx), n, false))
		}
	}
	if err := p.callBatch(ctx, calls...); err != nil {
		return nil, err
	}
	var spentNames []string
	for _, name := range names {
		c := *answers[name]
		if c != nil && c.Best != tip.String() {
			return nil, errTipMoved
		}
		if c != nil && c.spent > 0 {
			if c.spent > a.finalHeight(height) && !spentUnfinal[name] {
				return nil, fmt.Errorf("%s: %s is spent in block %d, which does not spend it", p.name, name, c.spent)
			}
			c = nil
		}
		unspent[name] = c
		if c == nil && !spentUnfinal[name] {
			spentNames = append(spentNames, name)
		}
	}
	if err := p.checkCreated(ctx, spentNames); err != nil {
		return nil, err
	}
	// The tip is unchanged, so all answers are of one state.
	if current, ok, err := p.readHashAt(ctx, height); err != nil || !ok || current != tip {
		return nil, errors.Join(err, errTipMoved)
	}
	if current, err := p.readHeight(ctx); err != nil || current != height {
		return nil, errors.Join(err, errTipMoved)
	}
	out := make([]chain.SlotState, len(open))
	for i, s := range open {
		out[i] = chain.SlotState{Latest: s.Key, Final: s.Key}
		for _, c := range slotKeys[i].Inputs {
			if unspent[c.Outpoint] != nil {
				continue
			}
			out[i].Latest = ""
			if !spentUnfinal[c.Outpoint] {
				out[i].Final = ""
			}
		}
	}
	return out, nil
}

// checkCreated checks that missing outputs were created in a block of the node's chain: then a
// transaction has spent them. An output that never existed, or no longer exists, is no proof that
// its slot was used.
func (p *provider) checkCreated(ctx context.Context, outs []string) error {
	locations := map[chain.TxHash]*txLocation{}
	var calls []*rpcCall
	for _, name := range outs {
		tx, _, err := bitcointx.ParseOutpoint(name)
		if err != nil {
			return err
		}
		if locations[tx] == nil {
			locations[tx] = new(txLocation)
			calls = append(calls, newCall(locations[tx], "getrawtransaction", string(tx), 1))
		}
	}
	if err := p.callBatch(ctx, calls...); err != nil {
		return fmt.Errorf("an output does not exist: %w", err)
	}
	for tx, w := range locations {
		if w.Block == "" {
			return fmt.Errorf("%s: %s, which made an output of this service, is in no block", p.name, tx)
		}
		hash, err := parseHash(w.Block)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		if _, ok, err := p.readHeightOf(ctx, hash); err != nil || !ok {
			return errors.Join(fmt.Errorf(
				"%s: block %s, which made an output of this service, is not on its chain",
				p.name, hash,
			),
				err)
		}
	}
	return nil
}
