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

const batchItemsMax = 100 // requests in one batch; public providers refuse longer batches

// provider is one JSON-RPC endpoint. Every request to it is bounded in time and every answer in
// size.
type provider struct {
	*endpoint.Endpoint
	name      string // of the endpoint
	chainID   uint64
	traceMode Tracing
	stack     stack
	timeout   time.Duration
	client    *rpc.Client
	// answerBytesMax bounds every answer, and blockBytesMax an answer about a whole block.
	answerBytesMax, blockBytesMax int64
	offersTracing                 atomic.Bool  // it offers debug_traceBlockByHash
	lacksDiffTracer               atomic.Bool  // its traces do not show which accounts changed
	timeoutHalvings               atomic.Int32 // how often the time limit of its traces was halved
}

func newProvider(cfg Config, i int) (*provider, error) {
	e, err := endpoint.New(cfg.allEndpoints()[i], i, cfg.AnswerBytesMax)
	if err != nil {
		return nil, err
	}
	p := &provider{
		Endpoint: e, name: e.String(), chainID: cfg.ChainID, traceMode: cfg.Trace, stack: stackFor(cfg.Name),
		timeout:        cfg.Timeout,
		answerBytesMax: cfg.AnswerBytesMax, blockBytesMax: cfg.BlockBytesMax,
	}
	if p.client, err = rpc.DialOptions(context.Background(), cfg.allEndpoints()[i],
		rpc.WithHTTPClient(e.HTTPClient())); err != nil {
		return nil, e.WrapError("dial", err)
	}
	return p, nil
}

// callMethod makes one request. result is unchanged if the answer is null.
func (p *provider) callMethod(ctx context.Context, result any, method string, args ...any) error {
	if err := p.ensureHandshake(ctx); err != nil {
		return err
	}
	return p.sendCall(ctx, result, method, args...)
}

func (p *provider) sendCall(ctx context.Context, result any, method string, args ...any) error {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	return p.WrapError(method, p.client.CallContext(ctx, result, method, args...))
}

// callBatch makes several requests together. Error: they could not be made, or one of them failed.
func (p *provider) callBatch(ctx context.Context, elems []rpc.BatchElem) error {
	if err := p.callBatchEach(ctx, elems); err != nil {
		return err
	}
	for _, e := range elems {
		if e.Error != nil {
			return p.WrapError(e.Method, e.Error)
		}
	}
	return nil
}

// callBatchEach makes several requests together and leaves the error of each to the caller. Error:
// they could not be made at all.
func (p *provider) callBatchEach(ctx context.Context, elems []rpc.BatchElem) error {
	if err := p.ensureHandshake(ctx); err != nil {
		return err
	}
	for len(elems) > 0 {
		n := min(len(elems), batchItemsMax)
		if err := p.sendBatch(ctx, elems[:n]); err != nil {
			return err
		}
		elems = elems[n:]
	}
	return nil
}

func (p *provider) sendBatch(ctx context.Context, elems []rpc.BatchElem) error {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	return p.WrapError(elems[0].Method, p.client.BatchCallContext(ctx, elems))
}

// ensureHandshake makes sure, once, that the provider is on the configured chain, and finds out
// whether it traces. No other request is sent to it before.
func (p *provider) ensureHandshake(ctx context.Context) error {
	return p.Handshake(ctx, "eth_chainId", p.checkNetwork)
}

func (p *provider) checkNetwork(ctx context.Context) error {
	var id hexutil.Uint64
	if err := p.sendCall(ctx, &id, "eth_chainId"); err != nil {
		return err
	}
	if uint64(id) != p.chainID {
		return p.WrongNetwork(fmt.Sprintf("chain %d", id), strconv.FormatUint(p.chainID, 10))
	}
	if p.traceMode == TraceOff {
		return nil
	}
	if p.traceMode == TraceOn {
		p.offersTracing.Store(true)
		return nil
	}
	able, err := p.offersTraces(ctx)
	p.offersTracing.Store(able)
	return err
}
