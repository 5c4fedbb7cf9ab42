package main

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/scan"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
)

const (
	blockDeposits = 1_000 // in every block
	blockTurn     = customers / blockDeposits
	blocksAhead   = 6 // that the walk may be ahead of the credits
	idle          = 2 * time.Millisecond
	looks         = 50 * time.Millisecond // between two looks for what has been credited
)

// paying is a chain whose every block pays a thousand customers, each of them again
// in every tenth block. It reads nothing and keeps nothing: what is measured is what
// the service does with a block.
type paying struct {
	to    []chain.Address
	ready atomic.Uint64 // the highest final block
	given sync.Map      // height -> time.Time of its first reading
}

func (p *paying) block(height uint64) chain.Block {
	b := chain.Block{Height: height, Hash: fmt.Sprintf("0x%064x", height+1), Time: time.Unix(int64(height), 0).UTC()}
	if height > 0 {
		b.Parent = fmt.Sprintf("0x%064x", height)
	}
	return b
}

// Heads implements chain.Reader.
func (p *paying) Heads(context.Context) (chain.Heads, error) {
	b := p.block(p.ready.Load())
	return chain.Heads{Latest: b, Final: b}, nil
}

// Final implements chain.Reader.
func (p *paying) Final(_ context.Context, height uint64) (chain.Contents, error) {
	if height > p.ready.Load() {
		return chain.Contents{}, chain.ErrNotYet
	}
	c := chain.Contents{Block: p.block(height), Providers: 1, Verified: "bench"}
	if height == 0 {
		return c, nil
	}
	p.given.LoadOrStore(height, time.Now())
	c.Transfers = make([]chain.Transfer, blockDeposits)
	for i := range c.Transfers {
		c.Transfers[i] = chain.Transfer{
			Tx: chain.TxHash(fmt.Sprintf("0x%056x%08x", height, i)), Kind: chain.Token, Position: "0", Contract: "0x1",
			From: "0xsomebody", To: p.to[int(height%blockTurn)*blockDeposits+i], Amount: money.Units(1), LogIndex: uint64(i),
		}
	}
	return c, nil
}

// Recent implements chain.Reader.
func (p *paying) Recent(ctx context.Context, height uint64) (chain.Contents, error) {
	return p.Final(ctx, height)
}

// Distrust implements chain.Reader.
func (p *paying) Distrust() {}

// Senders implements chain.Reader.
func (p *paying) Senders(_ context.Context, _ chain.Block, of []chain.Transfer) ([][]chain.Address, error) {
	return chain.Senders(of), nil
}

// Kind implements chain.Reader.
func (p *paying) Kind(context.Context, chain.Block, chain.Address) (chain.AccountKind, error) {
	return chain.Keyed, nil
}

// Balances implements chain.Reader.
func (p *paying) Balances(_ context.Context, at chain.Block, of []chain.Holding) ([]money.Amount, error) {
	var had [blockTurn]uint64 // by a customer of each turn, in the blocks from 1 on
	for turn := range had {
		had[turn] = (at.Height + blockTurn - uint64(turn)) / blockTurn
		if turn == 0 {
			had[turn] = at.Height / blockTurn
		}
	}
	all := make([]money.Amount, len(of))
	for i, h := range of {
		var n int
		if _, err := fmt.Sscanf(string(h.Address), "0xbench%d", &n); err != nil {
			return nil, fmt.Errorf("balance of %s: %w", h.Address, err)
		}
		all[i] = money.Units(had[n/blockDeposits])
	}
	return all, nil
}

// deposits is the whole way of a block: who received, what the balances say, the rows,
// and the credit of each with the proof of its address, posting, event and audit.
func deposits(ctx context.Context, w *world) error {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return err
	}
	p := &paying{to: make([]chain.Address, customers)}
	if err := w.addresses(ctx, private, p.to); err != nil {
		return err
	}
	start := uint64(0)
	log := slog.New(slog.DiscardHandler)
	desk := deposit.New(w.db, wallet.New(w.db, nil, public), price.Fixed{Prices: map[int]money.USD{usdc: money.MustParseUSD("1")}}, risk.Policy{}, log)
	walker := scan.New(w.db, scan.Config{Chain: chain.Ethereum, Reader: p, Start: &start, Poll: idle}, desk, log)
	if _, err := walker.Final(ctx); err != nil {
		return err
	}
	p.ready.Store(blocksAhead)

	var took spent
	heap := newHeap()
	work, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make(chan error, 3)
	go func() {
		if err := walker.Run(work); err != nil {
			errs <- err
			return
		}
		errs <- nil
	}()
	go func() {
		for work.Err() == nil {
			n, err := desk.Credit(work)
			if err != nil && work.Err() == nil {
				errs <- err
				return
			}
			if n == 0 {
				wait(work, idle)
			}
		}
		errs <- nil
	}()
	go func() {
		for done := uint64(0); work.Err() == nil; wait(work, looks) {
			whole, err := w.wholeBlocks(work)
			if err != nil && work.Err() == nil {
				errs <- err
				return
			}
			for ; done < whole; done++ {
				if at, ok := p.given.LoadAndDelete(done + 1); ok {
					took = append(took, time.Since(at.(time.Time)))
				}
			}
			p.ready.Store(done + blocksAhead)
		}
		errs <- nil
	}()
	pause := func(d time.Duration) error {
		select {
		case err := <-errs:
			return errors.Join(err, errors.New("it ended"))
		case <-time.After(d):
			return ctx.Err()
		}
	}
	if err := pause(w.long / warmUp); err != nil {
		return err
	}
	first, err := w.credited(ctx)
	if err != nil {
		return err
	}
	before, began := w.spentBy(), time.Now()
	heap.begin()
	if err := pause(w.long / 2); err != nil {
		return err
	}
	early := heap.end()
	heap.begin()
	if err := pause(w.long / 2); err != nil {
		return err
	}
	late := heap.end()
	last, err := w.credited(ctx)
	if err != nil {
		return err
	}
	count, counted, used := last-first, time.Since(began), w.spentBy().since(before)
	cancel()
	if err := errors.Join(<-errs, <-errs, <-errs); err != nil {
		return err
	}
	latency := "no block was whole by then"
	if len(took) > 0 {
		latency = fmt.Sprintf("a block p50 %s, p99 %s", short(took.part(0.5)), short(took.part(0.99)))
	}
	n, each := perSecond(count, counted), time.Duration(max(1, count))
	w.table.add(row{
		figure: "deposits from block to committed credit with event, blocks of 1,000",
		here:   fmt.Sprintf("%.0f/s, %s; heap at most %d MB in the first half, %d MB in the second", n, latency, early>>20, late>>20),
		compared: fmt.Sprintf("%s; %s; CPU each: %s here, %s in the database", times(n, w.table.tpcb8, "pgbench at 8 clients"), times(n, w.table.bare, "the bare writer"),
			short(used.ours/each), short(used.database/each)),
		target: reached(n >= 5_000, "5,000/s"),
	})
	return nil
}

// wholeBlocks is up to which block everything is credited.
func (w *world) wholeBlocks(ctx context.Context) (height uint64, err error) {
	err = w.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, `
			SELECT coalesce((SELECT min(height) - 1 FROM deposits WHERE status = 'SCREENING'), height) FROM scan_cursors WHERE chain = $1`,
			chain.Ethereum).Scan(&height)
	})
	return height, err
}

// credited counts what has committed: a call that credits returns when nothing waits.
func (w *world) credited(ctx context.Context) (n int, err error) {
	err = w.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, `SELECT count(*) FROM deposits WHERE status = 'CREDITED'`).Scan(&n)
	})
	return n, err
}

// addresses gives every customer a deposit address, attested like any other.
func (w *world) addresses(ctx context.Context, attest ed25519.PrivateKey, to []chain.Address) error {
	ids, subjects, addresses, proofs := make([]string, len(to)), make([]string, len(to)), make([]string, len(to)), make([][]byte, len(to))
	for i := range to {
		ids[i], subjects[i], addresses[i] = fmt.Sprintf("adr_bench%d", i), fmt.Sprint("c", i), fmt.Sprintf("0xbench%d", i)
		to[i] = chain.Address(addresses[i])
		ref := signer.WalletRef{OrgID: w.org, Family: chain.EVM, Purpose: wallet.CustomerDeposit, Subject: subjects[i]}
		proofs[i] = ed25519.Sign(attest, signer.Attested(ref, "m/bench", to[i]))
	}
	return w.db.InOrg(ctx, w.org, func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(ctx, `
			INSERT INTO wallets (wallet_id, org_id, family, purpose, subject, path, address, proof, created_at)
			SELECT w.id, $1, 'EVM', 'CUSTOMER_DEPOSIT', w.subject, 'm/bench', w.address, w.proof, $6
			FROM unnest($2::text[], $3::text[], $4::text[], $5::bytea[]) AS w (id, subject, address, proof)`,
			w.org, ids, subjects, addresses, proofs, tx.Now)
		return err
	})
}

// heap watches how much memory this process holds.
type heap struct {
	stop chan struct{}
	most chan uint64
}

func newHeap() *heap { return &heap{} }

const heapEvery = 50 * time.Millisecond

func (h *heap) begin() {
	h.stop, h.most = make(chan struct{}), make(chan uint64)
	go func() {
		var most uint64
		tick := time.NewTicker(heapEvery)
		defer tick.Stop()
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapInuse)
			select {
			case <-h.stop:
				h.most <- most
				return
			case <-tick.C:
			}
		}
	}()
}

func (h *heap) end() uint64 {
	close(h.stop)
	return <-h.most
}
