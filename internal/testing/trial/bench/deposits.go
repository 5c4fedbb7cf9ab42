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
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/service"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
)

const (
	blockDeposits      = 1_000 // in each block
	blockTurn          = customers / blockDeposits
	blocksAhead        = 6 // how far the walk may be ahead of the credits
	idlePause          = 2 * time.Millisecond
	creditPollInterval = 50 * time.Millisecond // between two queries for what has been credited
)

// payingChain is a chain whose every block pays a thousand customers; a customer is paid again in
// every tenth block. It reads and stores nothing: the bench measures what the service does with a
// block.
type payingChain struct {
	recipients  []chain.Address
	finalHeight atomic.Uint64 // the highest final block
	firstRead   sync.Map      // height -> time.Time of its first reading
}

func (p *payingChain) makeBlock(height uint64) chain.Block {
	b := chain.Block{Height: height, Hash: fmt.Sprintf("0x%064x", height+1), Time: time.Unix(int64(height), 0).UTC()}
	if height > 0 {
		b.Parent = fmt.Sprintf("0x%064x", height)
	}
	return b
}

// Heads implements chain.Reader.
func (p *payingChain) Heads(context.Context) (chain.Heads, error) {
	b := p.makeBlock(p.finalHeight.Load())
	return chain.Heads{Latest: b, Final: b}, nil
}

// Final implements chain.Reader.
func (p *payingChain) Final(_ context.Context, height uint64) (chain.Contents, error) {
	if height > p.finalHeight.Load() {
		return chain.Contents{}, chain.ErrNotYet
	}
	c := chain.Contents{Block: p.makeBlock(height), Providers: 1, Verified: "bench"}
	if height == 0 {
		return c, nil
	}
	p.firstRead.LoadOrStore(height, time.Now())
	c.Transfers = make([]chain.Transfer, blockDeposits)
	for i := range c.Transfers {
		c.Transfers[i] = chain.Transfer{
			Tx: chain.TxHash(fmt.Sprintf("0x%056x%08x", height, i)), Kind: chain.Token, Position: "0", Contract: "0x1",
			From: "0xsomebody", To: p.recipients[int(height%blockTurn)*blockDeposits+i], Amount: money.Units(1),
			LogIndex: uint64(i),
		}
	}
	return c, nil
}

// Recent implements chain.Reader.
func (p *payingChain) Recent(ctx context.Context, height uint64) (chain.Contents, error) {
	return p.Final(ctx, height)
}

// Demote implements chain.Reader.
func (p *payingChain) Demote() {}

// Senders implements chain.Reader.
func (p *payingChain) Senders(_ context.Context, _ chain.Block, transfers []chain.Transfer) ([][]chain.Address, error) {
	return chain.Senders(transfers), nil
}

// Kind implements chain.Reader.
func (p *payingChain) Kind(context.Context, chain.Block, chain.Address) (chain.AccountKind, error) {
	return chain.KeyAccount, nil
}

// Balances implements chain.Reader.
func (p *payingChain) Balances(_ context.Context, block chain.Block, holdings []chain.Holding) ([]money.Amount, error) {
	var received [blockTurn]uint64 // by a customer of each turn, in the blocks from 1 on
	for turn := range received {
		received[turn] = (block.Height + blockTurn - uint64(turn)) / blockTurn
		if turn == 0 {
			received[turn] = block.Height / blockTurn
		}
	}
	balances := make([]money.Amount, len(holdings))
	for i, h := range holdings {
		var n int
		if _, err := fmt.Sscanf(string(h.Address), "0xbench%d", &n); err != nil {
			return nil, fmt.Errorf("balance of %s: %w", h.Address, err)
		}
		balances[i] = money.Units(received[n/blockDeposits])
	}
	return balances, nil
}

// benchDeposits measures the whole way of a block: the recipients, the reconciliation, the rows,
// and the credit of each deposit with the proof of its address, its posting, its event and its
// audit entry.
func benchDeposits(ctx context.Context, w *benchEnv) error {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return err
	}
	p := &payingChain{recipients: make([]chain.Address, customers)}
	if err := w.createAddresses(ctx, private, p.recipients); err != nil {
		return err
	}
	start := uint64(0)
	parts := service.New(service.Config{
		Chains: map[chain.Name]service.ChainConfig{chain.Ethereum: {Start: &start, ScanInterval: idlePause}},
	}, service.Parts{
		DB: w.db, AttestKey: public, Chains: chain.Chains{chain.Ethereum: {Name: chain.Ethereum, Reader: p}},
		Prices: price.Fixed{Prices: map[int]money.USD{usdc: money.MustParseUSD("1")}},
		Log:    slog.New(slog.DiscardHandler),
	})
	walker := parts.Walker(chain.Ethereum)
	if _, err := walker.StepFinal(ctx); err != nil {
		return err
	}
	p.finalHeight.Store(blocksAhead)

	var took durations
	heap := newHeapWatch()
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
			n, err := parts.Deposits.CreditWaiting(work)
			if err != nil && work.Err() == nil {
				errs <- err
				return
			}
			if n == 0 {
				sleepContext(work, idlePause)
			}
		}
		errs <- nil
	}()
	go func() {
		for wholeCount := uint64(0); work.Err() == nil; sleepContext(work, creditPollInterval) {
			whole, err := w.readCreditedHeight(work)
			if err != nil && work.Err() == nil {
				errs <- err
				return
			}
			for ; wholeCount < whole; wholeCount++ {
				if readAt, ok := p.firstRead.LoadAndDelete(wholeCount + 1); ok {
					took = append(took, time.Since(readAt.(time.Time)))
				}
			}
			p.finalHeight.Store(wholeCount + blocksAhead)
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
	if err := pause(w.duration / warmUp); err != nil {
		return err
	}
	first, err := w.countCredited(ctx)
	if err != nil {
		return err
	}
	workBefore, began := w.readWork(), time.Now()
	heap.startWatch()
	if err := pause(w.duration / 2); err != nil {
		return err
	}
	early := heap.stopWatch()
	heap.startWatch()
	if err := pause(w.duration / 2); err != nil {
		return err
	}
	late := heap.stopWatch()
	last, err := w.countCredited(ctx)
	if err != nil {
		return err
	}
	count, counted, used := last-first, time.Since(began), w.readWork().subtract(workBefore)
	cancel()
	if err := errors.Join(<-errs, <-errs, <-errs); err != nil {
		return err
	}
	latency := "no block was whole by then"
	if len(took) > 0 {
		latency = fmt.Sprintf(
			"a block p50 %s, p99 %s", formatDuration(took.percentile(0.5)), formatDuration(took.percentile(0.99)),
		)
	}
	n := perSecond(count, counted)
	w.table.addRow(row{
		figure: "deposits from block to committed credit with event, blocks of 1,000",
		result: fmt.Sprintf(
			"%.0f/s, %s; heap at most %d MB in the first half, %d MB in the second", n, latency, early>>20, late>>20,
		),
		compared: joinParts(formatRatio(n, w.table.tpcb8, "pgbench at 8 clients"),
			formatRatio(n, w.table.bareWriter, "the bare writer"), used.formatEach(count)),
		target: formatTarget(n >= 10_000, "10,000/s"),
	})
	return nil
}

// readCreditedHeight returns the height up to which every deposit is credited.
func (w *benchEnv) readCreditedHeight(ctx context.Context) (height uint64, err error) {
	err = w.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, `
			SELECT coalesce((SELECT min(height) - 1 FROM deposits WHERE status = 'SCREENING'), height) FROM scan_cursors WHERE chain = $1`,
			chain.Ethereum).Scan(&height)
	})
	return height, err
}

// countCredited counts the committed credits: a call that credits returns only when nothing waits.
func (w *benchEnv) countCredited(ctx context.Context) (n int, err error) {
	err = w.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, `SELECT count(*) FROM deposits WHERE status = 'CREDITED'`).Scan(&n)
	})
	return n, err
}

// createAddresses gives every customer a deposit address, attested like any other.
func (w *benchEnv) createAddresses(ctx context.Context, attest ed25519.PrivateKey, payees []chain.Address) error {
	ids, subjects, addresses, proofs := make([]string, len(payees)), make([]string, len(payees)),
		make([]string, len(payees)), make([][]byte, len(payees))
	for i := range payees {
		ids[i], subjects[i], addresses[i] = fmt.Sprintf("adr_bench%d", i), fmt.Sprint("c", i),
			fmt.Sprintf("0xbench%d", i)
		payees[i] = chain.Address(addresses[i])
		ref := signer.WalletRef{OrgID: w.org, Family: chain.EVM, Purpose: wallet.CustomerDeposit, Subject: subjects[i]}
		proofs[i] = ed25519.Sign(attest, signer.AttestedBytes(ref, "m/bench", payees[i]))
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

// heapWatch records how much memory this process uses.
type heapWatch struct {
	stop    chan struct{}
	maximum chan uint64
}

func newHeapWatch() *heapWatch { return &heapWatch{} }

const heapPollInterval = 50 * time.Millisecond

func (h *heapWatch) startWatch() {
	h.stop, h.maximum = make(chan struct{}), make(chan uint64)
	go func() {
		var maximum uint64
		tick := time.NewTicker(heapPollInterval)
		defer tick.Stop()
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			maximum = max(maximum, m.HeapInuse)
			select {
			case <-h.stop:
				h.maximum <- maximum
				return
			case <-tick.C:
			}
		}
	}()
}

func (h *heapWatch) stopWatch() uint64 {
	close(h.stop)
	return <-h.maximum
}
