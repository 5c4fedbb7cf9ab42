// Package chaintest is the conformance suite of the ports Reader, Sender and AddressCodec. It
// proves for one chain what the comments of package chain promise. An adapter's tests implement Lab
// and call Run. A chain that does not pass is not wired.
//
// The suite treats all chains alike. It never waits for time to pass: the lab makes every block. A
// run leaves nothing behind except what the lab started.
package chaintest

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
)

// Lab is a chain whose blocks, finality and forks a test controls. Only its methods make blocks. A
// method that fails ends the test.
type Lab interface {
	// Chain returns the adapter under test, which reads and writes this lab's chain.
	Chain() chain.Chain
	// FeeCap returns the most per unit of gas that the adapter is configured to pay. Its unit is
	// that of Fees.FeeCap, or of Fees.TipCap where that is zero.
	FeeCap() money.Amount
	// CanReplace reports whether a transaction with a higher fee replaces a waiting one in its
	// slot. Where it does not, the transaction that was sent first has the slot.
	CanReplace() bool
	// Kinds returns the kinds of transfers on this chain.
	Kinds() []chain.Kind
	// Token returns the contract of an ordinary token. The suite calls it only if Kinds contains
	// chain.Token.
	Token() chain.Address

	// Account makes a new address that holds nothing. The lab has its key.
	Account(t testing.TB) chain.Address
	// Payer makes an address that can pay any number of fees and has at least five free slots. It
	// holds less than 2^63 of the native coin.
	Payer(t testing.TB) chain.Address
	// Fund transfers an amount of contract ("" for the native coin) to an address. The latest block
	// contains it when Fund returns.
	Fund(t testing.TB, to, contract chain.Address, amount money.Amount)
	// Pay sends a payment from an external account that has enough of everything. The payment waits
	// for the next block. Payments of one test are mined in the order of Pay.
	Pay(t testing.TB, kind chain.Kind, to chain.Address, amount money.Amount) chain.TxHash
	// PayReverted is Pay, but the chain undoes the transfer: the transaction fails, or it succeeds
	// and an inner call of it reverts.
	PayReverted(t testing.TB, kind chain.Kind, to chain.Address, amount money.Amount) chain.TxHash
	// RefusePayments makes the token refuse every payment to an address from the next block on.
	// RefusePayments makes that block itself, or the next Mine makes it, before any waiting
	// payment.
	RefusePayments(t testing.TB, to chain.Address)
	// Sign signs a payload of Build with the key of an address of Account.
	Sign(t testing.TB, from chain.Address, payload []byte) (raw []byte, tx chain.TxHash)

	// Mine adds blocks; the first contains the waiting transactions.
	Mine(t testing.TB, blocks int)
	// Finalize adds blocks until the block that is now the latest is final.
	Finalize(t testing.TB)
	// CanFork reports whether the lab can fork its chain. Where it cannot, the suite skips the
	// promises about forks, and the adapter's own tests show them.
	CanFork() bool
	// Fork replaces the last depth blocks by at least as many others. Of the transactions in the
	// removed blocks, those in keep are in the last block of the new branch. The others are in no
	// block and do not wait.
	Fork(t testing.TB, depth int, keep ...chain.TxHash)
}

// UTXOLab is a Lab of a chain with outputs (chain.UTXOModel).
type UTXOLab interface {
	Lab
	// Outputs returns the outputs with which an address of Payer was made, at least five, in the
	// same order each time.
	Outputs(t testing.TB, of chain.Address) []chain.Output
}

// Run proves the promises, each in its own lab.
func Run(t *testing.T, open func(t *testing.T) Lab) {
	runPromises(t, open, slices.Concat(addressPromises, readerPromises, forkPromises, senderPromises))
}

// RunReader proves the promises that need no Sender.
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

// promise is a statement of package chain with its proof.
type promise struct {
	name  string
	prove func(*testing.T, labEnv)
}

// labEnv is a lab with the helpers that proofs share.
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

// WithInternal returns a block with the transfers inside its transactions, where the reader is a
// Tracer. It asks as many providers as the quorum.
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

// readFinals returns the final blocks above a height, oldest first.
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

// transfersTo returns the transfers to an address.
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

// readSenders returns the senders of one transfer of a block.
func (b labEnv) readSenders(t *testing.T, block chain.Block, tr chain.Transfer) []chain.Address {
	t.Helper()
	got, err := b.Chain().Reader.Senders(t.Context(), block, []chain.Transfer{tr})
	if err != nil || len(got) != 1 {
		t.Fatalf("Senders in %d: got %v, %v, want those of one movement", block.Height, got, err)
	}
	return got[0]
}

// findSenders returns the senders of a transfer that one of the blocks contains.
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

// identity identifies a transfer on every fork.
type identity struct {
	tx       chain.TxHash
	kind     chain.Kind
	position string
}

func identityOf(tr chain.Transfer) identity { return identity{tr.Tx, tr.Kind, tr.Position} }

// contractOf returns the contract of what a kind of transfer moves.
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
