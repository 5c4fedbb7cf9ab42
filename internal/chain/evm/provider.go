package evm

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/rpc"

	"github.com/cofferpay/coffer/internal/chain/endpoint"
)

const batchItemsMax = 100 // requests in one; public providers refuse longer batches

// A provider is one JSON-RPC endpoint. Every request of it is bounded in time
// and every answer in size.
type provider struct {
	*endpoint.Endpoint
	name    string // of it
	chainID uint64
	trace   Tracing
	stack   stack
	timeout time.Duration
	client  *rpc.Client
	// answerBytesMax bounds every answer, blockBytesMax one about a whole block.
	answerBytesMax, blockBytesMax int64
	traces                        atomic.Bool // it offers debug_traceBlockByHash
}

func newProvider(cfg Config, i int) (*provider, error) {
	e, err := endpoint.New(cfg.all()[i], i, cfg.AnswerBytesMax)
	if err != nil {
		return nil, err
	}
	p := &provider{
		Endpoint: e, name: e.String(), chainID: cfg.ChainID, trace: cfg.Trace, stack: stackOf(cfg.Name), timeout: cfg.Timeout,
		answerBytesMax: cfg.AnswerBytesMax, blockBytesMax: cfg.BlockBytesMax,
	}
	if p.client, err = rpc.DialOptions(context.Background(), cfg.all()[i], rpc.WithHTTPClient(e.HTTP())); err != nil {
		return nil, e.Said("dial", err)
	}
	return p, nil
}

// call makes one request. result is unchanged when the answer is null.
func (p *provider) call(ctx context.Context, result any, method string, args ...any) error {
	if err := p.greet(ctx); err != nil {
		return err
	}
	return p.request(ctx, result, method, args...)
}

func (p *provider) request(ctx context.Context, result any, method string, args ...any) error {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	return p.Said(method, p.client.CallContext(ctx, result, method, args...))
}

// batch makes several requests at once. It is an error when one of them has one.
func (p *provider) batch(ctx context.Context, elems []rpc.BatchElem) error {
	if err := p.batchEach(ctx, elems); err != nil {
		return err
	}
	for _, e := range elems {
		if e.Error != nil {
			return p.Said(e.Method, e.Error)
		}
	}
	return nil
}

// batchEach makes several requests at once and leaves to the caller what went
// wrong with each; it is an error when they could not be made at all.
func (p *provider) batchEach(ctx context.Context, elems []rpc.BatchElem) error {
	if err := p.greet(ctx); err != nil {
		return err
	}
	for len(elems) > 0 {
		n := min(len(elems), batchItemsMax)
		if err := p.batchOnce(ctx, elems[:n]); err != nil {
			return err
		}
		elems = elems[n:]
	}
	return nil
}

func (p *provider) batchOnce(ctx context.Context, elems []rpc.BatchElem) error {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	return p.Said(elems[0].Method, p.client.BatchCallContext(ctx, elems))
}

// greet makes sure, once, that the provider is on our chain, and finds out
// whether it traces. Until it has answered, nothing else is asked of it.
func (p *provider) greet(ctx context.Context) error { return p.Greet(ctx, "eth_chainId", p.meet) }

func (p *provider) meet(ctx context.Context) error {
	var id hexutil.Uint64
	if err := p.request(ctx, &id, "eth_chainId"); err != nil {
		return err
	}
	if uint64(id) != p.chainID {
		return p.WrongNetwork(fmt.Sprintf("chain %d", id), strconv.FormatUint(p.chainID, 10))
	}
	if p.trace == TraceOff {
		return nil
	}
	if p.trace == TraceOn {
		p.traces.Store(true)
		return nil
	}
	able, err := p.offersTraces(ctx)
	p.traces.Store(able)
	return err
}
