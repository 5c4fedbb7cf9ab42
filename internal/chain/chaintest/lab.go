// Package chaintest is the conformance suite of the ports Reader, Sender and
// Grammar: what package chain promises in prose, proven for one chain. An
// adapter's tests implement Lab and call Run; a chain that does not pass is not
// wired.
//
// Nothing here knows one chain from another. It never waits for time to pass:
// the laboratory makes every block. A run leaves nothing behind but what the
// laboratory started.
package chaintest

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
)

// Lab is a chain whose blocks, finality and forks a test holds in its hand. No
// block is made but by its methods. A method that cannot do what it says ends
// the test.
type Lab interface {
	// Chain is the adapter under test, reading and writing this laboratory's chain.
	Chain() chain.Chain
	// FeeCap is the most per unit of gas that the adapter was configured to pay, in the
	// unit of Fees.FeeCap, or of Fees.TipCap where that is zero.
	FeeCap() money.Amount
	// CanReplace tells whether a transaction that waits gives way to a dearer one in its
	// slot. Where it does not, whichever is sent first has the slot.
	CanReplace() bool
	// Kinds are the ways in which value moves on this chain.
	Kinds() []chain.Kind
	// Token is the contract of a token with nothing unusual about it; it is
	// asked for only when Kinds has chain.Token.
	Token() chain.Address

	// Account makes a new address that holds nothing, whose key the laboratory has.
	Account(t testing.TB) chain.Address
	// Payer makes an address that can pay any number of fees, and has at least five slots
	// that are free. It holds less than 2^63 of the native coin.
	Payer(t testing.TB) chain.Address
	// Fund puts an amount of contract ("" for the native coin) on an address.
	// It is there in the latest block when Give returns.
	Fund(t testing.TB, to, contract chain.Address, amount money.Amount)
	// Pay sends a payment from a stranger with enough of everything. It waits
	// for the next block. Payments of one test are mined in the order of Pay.
	Pay(t testing.TB, kind chain.Kind, to chain.Address, amount money.Amount) chain.TxHash
	// PayReverted is Pay, but the movement is undone by the chain: the
	// transaction fails, or it succeeds and an inner call of it was reverted.
	PayReverted(t testing.TB, kind chain.Kind, to chain.Address, amount money.Amount) chain.TxHash
	// RefusePayments makes the token refuse every payment to an address from the next
	// block on, which Refuse makes itself or which the next Mine makes, before
	// any payment that waits.
	RefusePayments(t testing.TB, to chain.Address)
	// Sign signs what Build made, with the key of an address of Account.
	Sign(t testing.TB, from chain.Address, payload []byte) (raw []byte, tx chain.TxHash)

	// Mine adds blocks; what waits goes into the first.
	Mine(t testing.TB, blocks int)
	// Finalize adds blocks until the block that is the latest now is final.
	Finalize(t testing.TB)
	// CanFork tells whether the laboratory can fork its chain; one that cannot is asked for
	// nothing that needs it, and its adapter's own tests show what a fork does to it.
	CanFork() bool
	// Fork takes the last depth blocks away and puts at least as many others in
	// their place. Of the transactions that went, those in keep are in the last
	// block of the new branch and the others are nowhere.
	Fork(t testing.TB, depth int, keep ...chain.TxHash)
}

// A Purse is a Lab of a chain on which accounts are coins (chain.UTXOModel).
type UTXOLab interface {
	Lab
	// Outputs are those that an address of Payer was made with, in the same order each time,
	// at least five.
	Outputs(t testing.TB, of chain.Address) []chain.Output
}

// Run proves the promises, each in a laboratory of its own.
func Run(t *testing.T, open func(t *testing.T) Lab) {
	runPromises(t, open, slices.Concat(addressPromises, readerPromises, forkPromises, senderPromises))
}

// RunReader proves those that need no Sender.
func RunReader(t *testing.T, open func(t *testing.T) Lab) {
	runPromises(t, open, slices.Concat(addressPromises, readerPromises, forkPromises))
}

func runPromises(t *testing.T, open func(t *testing.T) Lab, promises []promise) {
	for _, p := range promises {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			p.prove(t, labEnv{open(t)})
		})
	}
}

// A promise is a sentence of package chain and its proof.
type promise struct {
	name  string
	prove func(*testing.T, labEnv)
}

// labEnv is a laboratory with the moves that proofs share.
type labEnv struct{ Lab }

func (b labEnv) hasKind(k chain.Kind) bool { return slices.Contains(b.Kinds(), k) }

func (b labEnv) readHeads(t *testing.T) chain.Heads {
	t.Helper()
	h, err := b.Chain().Reader.Heads(t.Context())
	if err != nil {
		t.Fatalf("Heads: got %v, want the tips", err)
	}
	return h
}

func (b labEnv) readFinal(t *testing.T, height uint64) chain.Contents {
	t.Helper()
	c, err := b.Chain().Reader.Final(t.Context(), height)
	if err != nil {
		t.Fatalf("Final(%d): got %v, want the block", height, err)
	}
	return b.withInternal(t, c)
}

func (b labEnv) readRecent(t *testing.T, height uint64) chain.Contents {
	t.Helper()
	c, err := b.Chain().Reader.Recent(t.Context(), height)
	if err != nil {
		t.Fatalf("Recent(%d): got %v, want the block", height, err)
	}
	return b.withInternal(t, c)
}

func (b labEnv) withInternal(t *testing.T, c chain.Contents) chain.Contents {
	t.Helper()
	c, err := WithInternal(t.Context(), b.Chain().Reader, c)
	if err != nil {
		t.Fatalf("block %d: got %v, want what moved inside its transactions", c.Height, err)
	}
	return c
}

// WithInternal is a block with what moved inside its transactions, where its reader is asked for
// that. As many providers are asked as have to agree.
func WithInternal(ctx context.Context, r chain.Reader, c chain.Contents) (chain.Contents, error) {
	tracer, ok := r.(chain.Tracer)
	if !ok {
		return c, nil
	}
	changes, err := tracer.BalanceChanges(ctx, c.Block, chain.QuorumOfProviders)
	if err != nil {
		return c, err
	}
	if len(changes.Untraceable) > 0 {
		return c, fmt.Errorf("nothing is told about %v", changes.Untraceable)
	}
	c.Traced = changes.Traced
	for i, b := range changes.Changes {
		if i > 0 && changes.Changes[i-1].Tx == b.Tx {
			continue
		}
		var receivers []chain.Address
		for _, change := range changes.Changes[i:] {
			if change.Tx == b.Tx {
				receivers = append(receivers, change.Address)
			}
		}
		transfers, err := tracer.InternalTransfers(ctx, chain.InternalTransfersQuery{
			Block: c.Block, Tx: b.Tx, Recipients: receivers, Providers: chain.QuorumOfProviders,
		})
		if err != nil {
			return c, err
		}
		c.Transfers = append(slices.Clip(c.Transfers), transfers...)
	}
	return c, nil
}

// readFinals are the final blocks above a height, oldest first.
func (b labEnv) readFinals(t *testing.T, height uint64) []chain.Contents {
	t.Helper()
	var blocks []chain.Contents
	for last := b.readHeads(t).Final.Height; height < last; height = blocks[len(blocks)-1].Height {
		blocks = append(blocks, b.readFinal(t, height+1))
	}
	return blocks
}

func (b labEnv) readBalance(t *testing.T, block chain.Block, a, contract chain.Address) money.Amount {
	t.Helper()
	got, err := b.Chain().Reader.Balances(t.Context(), block, []chain.Holding{{Address: a, Contract: contract}})
	if err != nil || len(got) != 1 {
		t.Fatalf("Balances at %d: got %v, %v, want one amount", block.Height, got, err)
	}
	return got[0]
}

// transfersTo are the transfers to an address.
func transfersTo(blocks []chain.Contents, to chain.Address) []chain.Transfer {
	var transfers []chain.Transfer
	for _, c := range blocks {
		for _, tr := range c.Transfers {
			if tr.To == to {
				transfers = append(transfers, tr)
			}
		}
	}
	return transfers
}

// readSenders are who sent one movement of a block.
func (b labEnv) readSenders(t *testing.T, block chain.Block, tr chain.Transfer) []chain.Address {
	t.Helper()
	got, err := b.Chain().Reader.Senders(t.Context(), block, []chain.Transfer{tr})
	if err != nil || len(got) != 1 {
		t.Fatalf("Senders in %d: got %v, %v, want those of one movement", block.Height, got, err)
	}
	return got[0]
}

// findSenders are who sent a movement that is in one of some blocks.
func (b labEnv) findSenders(t *testing.T, blocks []chain.Contents, tr chain.Transfer) []chain.Address {
	t.Helper()
	for _, c := range blocks {
		if slices.Contains(c.Transfers, tr) {
			return b.readSenders(t, c.Block, tr)
		}
	}
	t.Fatalf("got no block with %+v, want one", tr)
	return nil
}

// identity is what names a transfer for ever.
type identity struct {
	tx       chain.TxHash
	kind     chain.Kind
	position string
}

func identityOf(tr chain.Transfer) identity { return identity{tr.Tx, tr.Kind, tr.Position} }

// contractOf is what a kind of movement moves.
func (b labEnv) contractOf(k chain.Kind) chain.Address {
	if k == chain.Token {
		return b.Token()
	}
	return ""
}

func units(n uint64) money.Amount { return money.Units(n) }

func subAmount(t *testing.T, a, b money.Amount) money.Amount {
	t.Helper()
	d, err := a.Sub(b)
	if err != nil {
		t.Fatalf("%v less %v: got %v, want no less than zero", a, b, err)
	}
	return d
}

func addAmount(t *testing.T, a, b money.Amount) money.Amount {
	t.Helper()
	s, err := a.Add(b)
	if err != nil {
		t.Fatalf("%v and %v: got %v, want a sum", a, b, err)
	}
	return s
}
