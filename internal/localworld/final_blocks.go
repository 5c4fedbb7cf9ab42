package localworld

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/ethereum/go-ethereum/rpc"

	"github.com/cofferpay/coffer/internal/app"
	"github.com/cofferpay/coffer/internal/chain"
)

// finishMax is how long a kept world may take to read its last blocks.
const finishMax = time.Minute

// finalizeBlocks prepares a kept world for its next start. anvil's state file contains neither the
// transactions that wait for a block nor the traces of those in blocks. So finalizeBlocks puts the
// waiting transactions into a block, makes that block final and lets the final walk process it.
//
// The service has ended, so it sends nothing new meanwhile. The next start settles payments by the
// balances of former blocks, which the file contains.
func (w *World) finalizeBlocks() error {
	if !w.started || w.opts.StateDir == "" || w.opts.SingleRun || w.opts.WithoutService {
		return nil
	}
	select {
	case <-w.chain.Done():
		return nil // WaitEnd has reported that it ended by itself
	case <-w.database.Done():
		return nil
	default:
	}
	w.opts.Progress("reading the last blocks, so that the next start continues with everything that is in progress")
	for _, g := range w.outageProxies {
		if err := g.endOutage(); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), finishMax)
	defer cancel()
	walking := w.app
	if walking == nil { // the service was a process of its own
		conf, err := app.ReadConfig(w.configFile())
		if err != nil {
			return err
		}
		if walking, err = app.OpenTools(ctx, conf, slog.New(slog.DiscardHandler)); err != nil {
			return err
		}
		defer walking.Close()
	}
	last, err := w.includeWaiting(ctx)
	if err != nil {
		return err
	}
	if err := walking.Walker(chain.Ethereum).WalkTo(ctx, last); err != nil {
		return fmt.Errorf(
			"read the last blocks of Ethereum, without which the kept world in %s cannot continue: %w", w.dir, err,
		)
	}
	return nil
}

// includeWaiting puts the waiting transactions into blocks and returns the height of the last one,
// which is final.
func (w *World) includeWaiting(ctx context.Context) (last uint64, err error) {
	for previous := -1; ; {
		waiting, err := w.chain.PendingCount(ctx)
		if err != nil {
			return 0, err
		}
		if waiting == 0 || waiting == previous { // the remaining ones offer less than the base fee
			break
		}
		previous = waiting
		if err := w.chain.MineBlocks(ctx, 1); err != nil {
			return 0, err
		}
	}
	head, err := w.chain.HeaderAt(ctx, int64(rpc.LatestBlockNumber))
	if err != nil {
		return 0, fmt.Errorf("ask anvil for the latest block: %w", err)
	}
	return head.Number.Uint64(), w.chain.MineBlocks(ctx, 2*slotsInEpoch+1)
}
