package surfpool

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
)

const (
	clockSysvar   chain.Address = "SysvarC1ock11111111111111111111111111111111"
	clockBytes                  = 40
	clockTimeByte               = 32 // where the clock's Unix time begins
	alignSteps                  = 100
	hashPrefix                  = "SURFNETxSAFEHASH"
)

func (n *Node) callRPC(ctx context.Context, result any, method string, args ...any) error {
	if err := n.RPC.CallContext(ctx, result, method, args...); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	return nil
}

type epoch struct {
	AbsoluteSlot uint64 `json:"absoluteSlot"`
}

// alignHashes brings the node to where its blocks make a chain. It numbers hashes by a
// counter of its own, which begins behind the slots; and a block without
// transactions, which it never stores, gets the number of its slot instead. Once
// both numbers are the same and stay so, every block has its parent's hash.
func (n *Node) alignHashes(ctx context.Context) error {
	// Its clock would make a block of its own every 150 slots.
	if err := n.callRPC(ctx, nil, "surfnet_pauseClock"); err != nil {
		return err
	}
	var position epoch
	if err := n.callRPC(ctx, &position, "getEpochInfo"); err != nil {
		return err
	}
	for range alignSteps {
		number, err := n.hashNumber(ctx)
		if err != nil {
			return err
		}
		if number+1 == position.AbsoluteSlot {
			return nil
		}
		if err := n.travelTo(ctx, "absoluteSlot", position.AbsoluteSlot, position.AbsoluteSlot); err != nil {
			return err
		}
	}
	return errors.New("the hashes of surfpool's blocks do not follow its slots: another version than the pinned one?")
}

// hashNumber is the number that the newest block's hash is made of.
func (n *Node) hashNumber(ctx context.Context) (uint64, error) {
	hash, err := n.latestBlockhash(ctx)
	if err != nil {
		return 0, err
	}
	digits, ok := strings.CutPrefix(hash, hashPrefix)
	// Base58 has no zero.
	got, err := strconv.ParseUint(strings.ReplaceAll(digits, "x", "0"), 16, 64)
	if !ok || err != nil {
		return 0, fmt.Errorf("the newest block of surfpool is %q, which is not the form of the pinned version", hash)
	}
	return got, nil
}

func (n *Node) latestBlockhash(ctx context.Context) (string, error) {
	var newest struct {
		Value struct {
			Blockhash string `json:"blockhash"`
		} `json:"value"`
	}
	err := n.callRPC(ctx, &newest, "getLatestBlockhash", map[string]string{"commitment": "processed"})
	return newest.Value.Blockhash, err
}

// readClock learns the chain's time.
func (n *Node) readClock(ctx context.Context) error {
	var account struct {
		Value struct {
			Data []string `json:"data"`
		} `json:"value"`
	}
	if err := n.callRPC(
		ctx, &account, "getAccountInfo", clockSysvar, map[string]string{"encoding": "base64"},
	); err != nil {
		return err
	}
	if len(account.Value.Data) == 0 {
		return errors.New("surfpool has no clock")
	}
	data, err := base64.StdEncoding.DecodeString(account.Value.Data[0])
	if err != nil || len(data) != clockBytes {
		return fmt.Errorf("the clock of surfpool is %d bytes, want %d: %w", len(data), clockBytes, err)
	}
	n.chainTime = int64(binary.LittleEndian.Uint64(data[clockTimeByte:]))
	return nil
}

// loadPosition finds out the slot and the time, unless they are known.
func (n *Node) loadPosition(ctx context.Context) error {
	if n.slot > 0 {
		return nil
	}
	var position epoch
	if err := n.callRPC(ctx, &position, "getEpochInfo"); err != nil {
		return err
	}
	if err := n.readClock(ctx); err != nil {
		return err
	}
	n.slot = position.AbsoluteSlot
	return nil
}

// travelTo makes one block and says where the chain has to be then.
func (n *Node) travelTo(ctx context.Context, unit string, target, want uint64) error {
	var position epoch
	if err := n.callRPC(ctx, &position, "surfnet_timeTravel", map[string]uint64{unit: target}); err != nil {
		return err
	}
	if position.AbsoluteSlot != want {
		return fmt.Errorf("surfpool is in slot %d, want %d: who else makes blocks?", position.AbsoluteSlot, want)
	}
	return nil
}

// MineBlocks makes blocks, one a slot, with the transactions that wait in the first.
//
// Travelling in time is what makes a block at once. To the next slot the chain's
// time stands still, since surfpool cuts fractions of seconds off; to the next
// second it is one slot too, since a slot is told to be 600 ms. So the chain's
// time is a second off at most as long as slots are not longer than that.
func (n *Node) MineBlocks(ctx context.Context, blocks int) error {
	n.mining.Lock()
	defer n.mining.Unlock()
	for range blocks {
		if err := n.loadPosition(ctx); err != nil {
			return err
		}
		unit, target := "absoluteSlot", n.slot+1
		if later := n.chainTime + 1; time.Now().Unix() >= later {
			unit, target = "absoluteTimestamp", uint64(later)*1000
		}
		if err := n.travelTo(ctx, unit, target, n.slot+1); err != nil {
			n.slot = 0 // it may have been made all the same
			return err
		}
		n.slot++
		if unit == "absoluteTimestamp" {
			n.chainTime++
		}
		if err := n.deriveNonces(ctx, n.slot-1); err != nil {
			return fmt.Errorf("nonces of block %d: %w", n.slot-1, err)
		}
	}
	return nil
}

// FinalizeTip makes blocks until the newest block now is final.
func (n *Node) FinalizeTip(ctx context.Context) error { return n.MineBlocks(ctx, Finality-1) }

// CurrentSlot is the one that is being filled: the newest block is in the one before.
func (n *Node) CurrentSlot() uint64 {
	n.mining.Lock()
	defer n.mining.Unlock()
	return n.slot
}

// runClock makes a block now and then until ctx ends or the chain does.
func (n *Node) runClock(ctx context.Context, interval time.Duration) {
	clock := time.NewTicker(interval)
	defer clock.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.ended:
			return
		case <-clock.C:
			// A block that was not made is made at the next tick, or nobody makes
			// any more and the chain's own end tells why.
			_ = n.MineBlocks(ctx, 1)
		}
	}
}
