package surfpool

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
)

const (
	clockSysvar   chain.Address = "SysvarC1ock11111111111111111111111111111111"
	clockBytes                  = 40
	clockTimeByte               = 32 // offset of the clock's Unix time
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

// alignHashes brings the node to the state in which its blocks form a chain. The node numbers
// hashes by a counter of its own, which begins behind the slots. A block without transactions,
// which it never stores, gets the number of its slot instead. Once both numbers are equal and stay
// so, every block names its parent's hash.
func (n *Node) alignHashes(ctx context.Context) error {
	// The node's clock would make a block of its own every 150 slots.
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

// hashNumber returns the number from which the newest block's hash is made.
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

// readClock reads the chain's time.
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

// loadPosition reads the slot and the time, unless they are known.
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

// travelTo makes one block and checks the position of the chain after it.
func (n *Node) travelTo(ctx context.Context, unit string, target, want uint64) error {
	var position epoch
	if err := n.callRPC(ctx, &position, "surfnet_timeTravel", map[string]uint64{unit: target}); err != nil {
		return err
	}
	if position.AbsoluteSlot != want {
		return fmt.Errorf("surfpool is in slot %d, want %d: another program makes blocks", position.AbsoluteSlot, want)
	}
	return nil
}

// MineBlocks makes blocks, one per slot; the first contains the waiting transactions.
//
// Time travel makes a block at once. A travel to the next slot does not advance the chain's time,
// since surfpool truncates fractions of seconds. A travel to the next second is also one slot,
// since a slot is configured as 600 ms. So the chain's time deviates by at most a second if slots
// are not longer than that.
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
			n.slot = 0 // the block may exist nevertheless
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

// FinalizeTip makes blocks until the current newest block is final.
func (n *Node) FinalizeTip(ctx context.Context) error { return n.MineBlocks(ctx, Finality-1) }

// CurrentSlot returns the slot that is being filled; the newest block is in the slot before.
func (n *Node) CurrentSlot() uint64 {
	n.mining.Lock()
	defer n.mining.Unlock()
	return n.slot
}

// ChainTime returns the time of the chain, which a payment has in the block that is being filled. getBlockTime counts
// slots instead and runs ahead of it, and a block without transactions has no sensible time.
func (n *Node) ChainTime() time.Time {
	n.mining.Lock()
	defer n.mining.Unlock()
	return time.Unix(n.chainTime, 0)
}

// runClock makes blocks as Config says until ctx ends or the chain ends.
func (n *Node) runClock(ctx context.Context, cfg Config) {
	clock := time.NewTimer(cfg.SlotTime)
	defer clock.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.ended:
			return
		case <-clock.C:
			n.ticking.Lock()
			// A failed block is made at the next tick, or the chain has ended and reports the
			// reason.
			_ = n.MineBlocks(ctx, 1)
			n.ticking.Unlock()
		}
		pause := cfg.SlotTime
		if cfg.BusySlotTime > 0 && n.isBusy() {
			pause = cfg.BusySlotTime
		}
		clock.Reset(pause)
	}
}

// HoldClock keeps the clock from making blocks until release is called.
func (n *Node) HoldClock() (release func()) {
	n.ticking.Lock()
	return sync.OnceFunc(n.ticking.Unlock)
}

// isBusy reports whether a block with transactions is not final yet.
func (n *Node) isBusy() bool {
	n.mining.Lock()
	defer n.mining.Unlock()
	return n.busySlot > 0 && n.slot <= n.busySlot+Finality
}
