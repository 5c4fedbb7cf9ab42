package evm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/rpc"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/chain/several"
	"github.com/cofferpay/coffer/internal/money"
)

// A frame is a call inside a transaction, as the callTracer reports it.
type frame struct {
	Type  string          `json:"type"`
	From  common.Address  `json:"from"`
	To    *common.Address `json:"to"`
	Value *hexutil.Big    `json:"value"`
	Error string          `json:"error"`
	Calls []frame         `json:"calls"`
}

type txTrace struct {
	TxHash common.Hash `json:"txHash"`
	Result *frame      `json:"result"`
	Error  string      `json:"error"`
}

var callTracer = map[string]any{"tracer": "callTracer"}

const (
	traceMethod  = "debug_traceBlockByHash"
	codeNoMethod = -32601 // of a JSON-RPC error
)

// offersTraces tries on the latest block. Only an answer that says so is a "no":
// a provider that is busy today would otherwise not be asked until a restart.
func (p *provider) offersTraces(ctx context.Context) (bool, error) {
	var latest struct {
		Hash common.Hash `json:"hash"`
	}
	if err := p.request(ctx, &latest, "eth_getBlockByNumber", "latest", false); err != nil {
		return false, err
	}
	var raw json.RawMessage
	err := p.request(ctx, &raw, traceMethod, latest.Hash, callTracer)
	if err == nil {
		return !absent(raw), nil
	}
	if withheld(err) {
		return false, nil
	}
	return false, fmt.Errorf("%w (with trace ON or OFF this is not tried)", err)
}

// withheldWords are how providers say that a method is not for us.
var withheldWords = []string{
	"method not found", "does not exist", "not support", "unsupported", "not available", "is unavailable",
	"not allowed", "not enabled", "disabled", "forbidden", "whitelist", "upgrade", " tier", " plan",
}

// spentWords are how providers say that it is too much for now. They often offer a
// larger plan with it, and that is no refusal of the method.
var spentWords = []string{"exceed", "limit", "too many", "capacity", "quota", "throttl", "per second"}

// withheld tells whether an error means that a provider does not offer a method.
func withheld(err error) bool {
	var status rpc.HTTPError
	if errors.As(err, &status) {
		switch status.StatusCode {
		case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed:
			return true
		}
	}
	var said rpc.Error
	if !errors.As(err, &said) {
		return false
	}
	text := strings.ToLower(said.Error())
	says := func(words []string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) })
	}
	return said.ErrorCode() == codeNoMethod || says(withheldWords) && !says(spentWords)
}

// tracers are the providers that offer traces.
func (a *adapter) tracers() []*provider {
	var able []*provider
	for _, p := range a.withArchives() {
		if p.traces.Load() {
			able = append(able, p)
		}
	}
	return able
}

// internal finds the native coin that contracts moved, transaction by
// transaction; traced is false when no provider can tell. Once one could, a
// trace that fails is an error: movements must not be lost to a bad day.
func (a *adapter) internal(ctx context.Context, s *sealed) (found [][]chain.Transfer, traced bool, err error) {
	if a.Trace == TraceOff {
		return nil, false, nil
	}
	able := a.tracers()
	if len(able) == 0 {
		// One that has not answered since the start may be the one that traces: a
		// block that is taken in without its traces does not come again.
		for _, p := range a.withArchives() {
			if err := p.greet(ctx); err != nil {
				return nil, false, fmt.Errorf("nobody traces and one has not said whether it does; with trace OFF it is not waited for: %w", err)
			}
		}
		if able = a.tracers(); len(able) == 0 {
			return nil, false, nil
		}
	}
	if !s.ran() {
		return make([][]chain.Transfer, len(s.txs)), true, nil
	}
	found, err = several.First(ctx, able, func(ctx context.Context, p *provider) ([][]chain.Transfer, error) {
		var traces []txTrace
		if err := p.call(ctx, &traces, traceMethod, s.hash, callTracer); err != nil {
			return nil, err
		}
		found, err := s.read(traces)
		if err != nil {
			return nil, fmt.Errorf("%s: traces of block %d %s: %w", p.name, s.header.Number, s.hash, err)
		}
		return found, nil
	})
	return found, err == nil, err
}

// ran tells whether a contract can have moved coin in a block. Where all that
// succeeded was a transfer of the least gas that there is, none ran.
func (s *sealed) ran() bool {
	for i, t := range s.txs {
		least := t.signed != nil && t.to != nil && len(t.signed.Data()) == 0 && s.receipts[i].GasUsed == gasPlain
		if !t.apart && !least && s.receipts[i].Status == types.ReceiptStatusSuccessful {
			return true
		}
	}
	return false
}

// own are the traces of the block's own transactions, in place. Polygon's nodes show
// one of what synchronizes state or leave it out.
func (s *sealed) own(traces []txTrace) []txTrace {
	if s.stack != bor {
		return traces
	}
	traces = slices.DeleteFunc(traces, func(t txTrace) bool {
		return t.TxHash != (common.Hash{}) && !slices.ContainsFunc(s.txs, func(x *tx) bool { return x.hash == t.TxHash && !x.apart })
	})
	for i, t := range s.txs {
		if t.apart && i <= len(traces) {
			traces = slices.Insert(traces, i, txTrace{})
		}
	}
	return traces
}

// read compares traces with the block that they are of, as far as they can be,
// and collects what moved.
func (s *sealed) read(traces []txTrace) ([][]chain.Transfer, error) {
	traces = s.own(traces)
	if len(traces) != len(s.txs) {
		return nil, fmt.Errorf("got %d for %d transactions", len(traces), len(s.txs))
	}
	found := make([][]chain.Transfer, len(traces))
	for i, t := range traces {
		tx := s.txs[i]
		if tx.apart {
			continue
		}
		if t.Error != "" || t.Result == nil {
			return nil, fmt.Errorf("transaction %s was not traced: %s", tx.hash, several.Short(t.Error))
		}
		// Older nodes leave the hash out.
		if t.TxHash != (common.Hash{}) && t.TxHash != tx.hash {
			return nil, fmt.Errorf("number %d is of transaction %s, not %s", i, t.TxHash, tx.hash)
		}
		ok := s.receipts[i].Status == types.ReceiptStatusSuccessful
		if t.Result.From != tx.from || ok != (t.Result.Error == "") {
			return nil, fmt.Errorf("number %d contradicts the receipt of %s", i, tx.hash)
		}
		if !ok {
			continue
		}
		var err error
		if found[i], err = t.Result.moved(nil, txHash(tx.hash), ""); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// moved adds what the calls made by a frame moved. A call that ended in an
// error is left out with everything below it: the chain has undone it.
func (f *frame) moved(found []chain.Transfer, tx chain.TxHash, path string) ([]chain.Transfer, error) {
	for i := range f.Calls {
		c := &f.Calls[i]
		if c.Error != "" {
			continue
		}
		at := strconv.Itoa(i)
		if path != "" {
			at = path + "." + at
		}
		switch c.Type {
		case "CALL", "CREATE", "CREATE2", "SELFDESTRUCT":
			tr, err := c.transfer()
			if err != nil {
				return nil, fmt.Errorf("call %s of %s: %w", at, tx, err)
			}
			// What a contract sends to itself moves nothing.
			if !tr.Amount.IsZero() && tr.From != tr.To {
				tr.Tx, tr.Position = tx, at
				found = append(found, tr)
			}
		case "DELEGATECALL", "CALLCODE", "STATICCALL": // move nothing; DELEGATECALL repeats its caller's value
		default:
			return nil, fmt.Errorf("%w: call %s of %s is a %q", chain.ErrUndecodable, at, tx, c.Type)
		}
		var err error
		if found, err = c.moved(found, tx, at); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func (f *frame) transfer() (chain.Transfer, error) {
	if f.Value == nil || f.Value.ToInt().Sign() == 0 {
		return chain.Transfer{}, nil
	}
	if f.To == nil {
		return chain.Transfer{}, fmt.Errorf("%w: value without a receiver", chain.ErrUndecodable)
	}
	amount, err := money.FromBig(f.Value.ToInt())
	if err != nil {
		return chain.Transfer{}, err
	}
	return chain.Transfer{
		Kind: chain.Internal, From: evmtx.Canonical(f.From), To: evmtx.Canonical(*f.To), Amount: amount,
	}, nil
}
