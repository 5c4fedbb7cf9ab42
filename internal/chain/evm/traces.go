package evm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/rpc"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/endpoint"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/chain/quorum"
	"github.com/cofferpay/coffer/internal/money"
)

// diffTracer reports which accounts changed, without code and storage: its answer about a block is
// bounded by the block's gas. callTracer reports every call with its input. A contract may pass on
// memory that it paid for once as often as it likes, so any sender decides how long that answer is.
var (
	diffTracer = map[string]any{
		"tracer":       "prestateTracer",
		"tracerConfig": map[string]any{"diffMode": true, "disableCode": true, "disableStorage": true},
	}
	callTracer = map[string]any{"tracer": "callTracer"}
)

const (
	traceBlockMethod   = "debug_traceBlockByHash"
	traceTxMethod      = "debug_traceTransaction"
	codeNoMethod       = -32601 // of a JSON-RPC error
	changesMax         = 1 << 17
	transfersMax       = 10_000  // transfers to Coffer's addresses in one transaction
	callDepthMax       = 1100    // a chain allows 1024
	callBytes          = 8 << 20 // of the first trace of a transaction's calls; every later attempt doubles it
	callBytesMax       = 1 << 30 // of the last attempt
	callTimeMax        = 2 * time.Minute
	diffBytes          = 64 << 20 // of the changed accounts of a block
	unansweredMax      = 3        // unanswered requests in a row before a provider is left alone
	timeoutHalvingsMax = 4        // how often the time of a provider is halved
)

var (
	errTooManyChanges = fmt.Errorf("more accounts than a block can change: %w", endpoint.ErrTooLong)
	errNoDiff         = errors.New("does not tell which accounts changed")
	errAnswerBegan    = errors.New("the answer has begun")
)

// offersTraces tries to trace the latest block. Only an explicit refusal is a "no": a provider that
// is busy would otherwise not be asked until a restart. The beginning of an answer is enough.
func (p *provider) offersTraces(ctx context.Context) (bool, error) {
	var latest struct {
		Hash common.Hash `json:"hash"`
	}
	if err := p.sendCall(ctx, &latest, "eth_getBlockByNumber", "latest", false); err != nil {
		return false, err
	}
	err := errNoDiff
	for _, tracer := range []map[string]any{diffTracer, callTracer} {
		if err = p.streamUnchecked(ctx, streamLimits{bytes: diffBytes, timeout: p.timeout}, func(*reader) error {
			return errAnswerBegan
		}, traceBlockMethod, latest.Hash, tracer); !isTracerUnknown(err) {
			break
		}
	}
	switch {
	case errors.Is(err, errAnswerBegan):
		return true, nil
	case err == nil, isNotOffered(err), isTracerUnknown(err):
		return false, nil
	}
	return false, fmt.Errorf("%w (with trace ON or OFF this is not tried)", err)
}

// isTracerUnknown reports whether an error means that a provider does not know the tracer.
func isTracerUnknown(err error) bool {
	if errors.Is(err, errNoDiff) {
		return true
	}
	var rpcErr rpc.Error
	return errors.As(err, &rpcErr) && !isNotOffered(err) && strings.Contains(strings.ToLower(rpcErr.Error()), "tracer")
}

// isUnavailable reports whether an error means that a provider does not answer, or not this client,
// now. An answer that is too long, too slow or unreadable may be due to the traced transactions.
func isUnavailable(err error) bool {
	if err == nil || errors.Is(err, errAnswer) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	var rpcErr rpc.Error
	if errors.As(err, &rpcErr) {
		return isNotOffered(err) || isStateGone(err) || containsPhrase(rpcErr, rateLimitPhrases)
	}
	return true
}

// notOfferedPhrases are the texts of providers that do not offer a method to this client.
var notOfferedPhrases = []string{
	"method not found", "does not exist", "not support", "unsupported", "not available", "is unavailable",
	"not allowed", "not enabled", "disabled", "forbidden", "whitelist", "upgrade", " tier", " plan",
}

// rateLimitPhrases are the texts of providers that limit the rate. They often offer a larger plan
// in the same text, and that is no refusal of the method.
var rateLimitPhrases = []string{"exceed", "limit", "too many", "capacity", "quota", "throttl", "per second"}

// isNotOffered reports whether an error means that a provider does not offer a method.
func isNotOffered(err error) bool {
	var status rpc.HTTPError
	if errors.As(err, &status) {
		switch status.StatusCode {
		case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound,
			http.StatusMethodNotAllowed:
			return true
		}
	}
	var rpcErr rpc.Error
	if !errors.As(err, &rpcErr) {
		return false
	}
	return rpcErr.ErrorCode() == codeNoMethod || containsPhrase(rpcErr, notOfferedPhrases) &&
		!containsPhrase(rpcErr, rateLimitPhrases)
}

// containsPhrase reports whether an error contains one of some phrases.
func containsPhrase(err error, words []string) bool {
	text := strings.ToLower(err.Error())
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) })
}

// tracingProviders returns the providers that are known to offer traces.
func (a *adapter) tracingProviders() []*provider {
	var able []*provider
	for _, p := range a.withArchives() {
		if p.offersTracing.Load() {
			able = append(able, p)
		}
	}
	return able
}

// requireTracers returns the providers that are asked for traces; none if no provider offers them.
// Error: a provider has not said yet whether it traces.
func (a *adapter) requireTracers(ctx context.Context) ([]*provider, error) {
	if a.Trace == TraceOff {
		return nil, nil
	}
	if able := a.tracingProviders(); len(able) > 0 {
		return able, nil
	}
	// A provider that has not answered since the start may be the one that traces.
	for _, p := range a.withArchives() {
		if err := p.ensureHandshake(ctx); err != nil {
			return nil,
				fmt.Errorf("no provider traces, and one has not said whether it can; set trace OFF to stop waiting "+
					"for it: %w",
					err)
		}
	}
	return a.tracingProviders(), nil
}

// requiredAnswers returns how many of the tracers have to answer.
func (a *adapter) requiredAnswers(count chain.ProviderCount, tracers int) int {
	switch count {
	case chain.FirstProvider:
		return 1
	case chain.QuorumOfProviders:
		return min(a.Quorum, tracers)
	}
	return tracers
}

// mayMoveCoin reports whether the i-th transaction can have moved coin internally: a contract can
// have run, and the transaction succeeded.
func (s *verifiedBlock) mayMoveCoin(i int) bool {
	t := s.txs[i]
	isPlainTransfer := t.signed != nil && t.to != nil && len(t.signed.Data()) == 0 &&
		s.receipts[i].GasUsed == plainTransferGas
	return !t.hasNoCalls && !isPlainTransfer && s.receipts[i].Status == types.ReceiptStatusSuccessful
}

// txIndex returns the index of a transaction.
func (s *verifiedBlock) txIndex(hash common.Hash) (int, bool) {
	i := slices.IndexFunc(s.txs, func(t *tx) bool { return t.hash == hash && !t.hasNoCalls })
	return i, i >= 0
}

// loadNamedBlock returns a block by its hash, with its receipts.
func (a *adapter) loadNamedBlock(ctx context.Context, block chain.Block) (*verifiedBlock, error) {
	hash := common.HexToHash(block.Hash)
	return quorum.FirstAnswer(ctx, a.providersByTrust(),
		func(ctx context.Context, p *provider) (*verifiedBlock, error) {
			return a.loadBlock(ctx, p, hash)
		})
}

// BalanceChanges implements chain.Tracer.
func (a *adapter) BalanceChanges(
	ctx context.Context, block chain.Block, count chain.ProviderCount,
) (chain.BalanceChanges, error) {
	changes, err := a.readBalanceChanges(ctx, block, count)
	if err != nil {
		return chain.BalanceChanges{}, fmt.Errorf("accounts that block %d of %s changed: %w", block.Height, a.Name, err)
	}
	return changes, nil
}

func (a *adapter) readBalanceChanges(
	ctx context.Context, block chain.Block, count chain.ProviderCount,
) (chain.BalanceChanges, error) {
	able, err := a.requireTracers(ctx)
	if err != nil || len(able) == 0 {
		return chain.BalanceChanges{}, err
	}
	s, err := a.loadNamedBlock(ctx, block)
	if err != nil {
		return chain.BalanceChanges{}, err
	}
	merged := newBalanceChanges(s)
	var errs []error
	for need := a.requiredAnswers(count, len(able)); need > 0 && len(able) > 0 && !merged.isEmpty(); {
		batch := able[:min(need, len(able))]
		able = able[len(batch):]
		for _, reply := range quorum.AskAll(ctx, batch, len(batch),
			func(ctx context.Context, p *provider) (*balanceChanges, error) { return p.readChanges(ctx, s) }) {
			if reply.Err != nil {
				errs = append(errs, reply.Err)
				continue
			}
			// A provider with gaps does not count as an answer about the rest.
			if reply.Value.isComplete() {
				need--
			}
			merged.mergeWith(reply.Value)
			merged.answered = true
		}
	}
	if !merged.answered && !merged.isEmpty() {
		return chain.BalanceChanges{}, errors.Join(errs...)
	}
	return merged.toChain(), nil
}

// balanceChanges are the balances that the transactions of a block changed.
type balanceChanges struct {
	block    *verifiedBlock
	isKnown  []bool // no further query about this transaction is needed
	byTx     []map[common.Address]*big.Int
	answered bool
	total    int
}

func newBalanceChanges(s *verifiedBlock) *balanceChanges {
	t := &balanceChanges{
		block: s, isKnown: make([]bool, len(s.txs)),
		byTx: make([]map[common.Address]*big.Int, len(s.txs)),
	}
	for i := range s.txs {
		t.isKnown[i] = !s.mayMoveCoin(i)
	}
	return t
}

// isEmpty reports whether no transaction can have moved coin internally.
func (t *balanceChanges) isEmpty() bool {
	for i := range t.isKnown {
		if t.block.mayMoveCoin(i) {
			return false
		}
	}
	return true
}

func (t *balanceChanges) isComplete() bool { return !slices.Contains(t.isKnown, false) }

// setTx records what a provider says about a transaction.
func (t *balanceChanges) setTx(i int, changes map[common.Address]*big.Int) error {
	if !t.block.mayMoveCoin(i) || t.isKnown[i] {
		return nil
	}
	if t.total += len(changes); t.total > changesMax {
		return errTooManyChanges
	}
	t.isKnown[i], t.byTx[i] = true, changes
	return nil
}

// mergeWith adds what another provider says. Where two differ, the amount is unknown.
func (t *balanceChanges) mergeWith(o *balanceChanges) {
	for i, changes := range o.byTx {
		t.isKnown[i] = t.isKnown[i] || o.isKnown[i]
		if t.byTx[i] == nil {
			t.byTx[i] = changes
			continue
		}
		for a, change := range changes {
			if amount, ok := t.byTx[i][a]; ok && (amount == nil || change == nil || amount.Cmp(change) != 0) {
				change = nil
			}
			t.byTx[i][a] = change
		}
	}
}

func (t *balanceChanges) toChain() chain.BalanceChanges {
	result := chain.BalanceChanges{Traced: true}
	for i, changes := range t.byTx {
		tx := txHash(t.block.txs[i].hash)
		if !t.isKnown[i] {
			result.Untraceable = append(result.Untraceable, tx)
		}
		for a, change := range changes {
			result.Changes = append(result.Changes,
				chain.BalanceChange{Tx: tx, Address: evmtx.Canonical(a), Change: change})
		}
		sorted := result.Changes[len(result.Changes)-len(changes):]
		slices.SortFunc(sorted, func(a, b chain.BalanceChange) int { return cmp.Compare(a.Address, b.Address) })
	}
	return result
}

// traceTimeout returns how long one trace request may take. It halves while requests take too long:
// a block that uses up every tracer's time must not do so again with each block after it.
func (p *provider) traceTimeout() time.Duration { return p.timeout >> p.timeoutHalvings.Load() }

func (p *provider) adjustTimeout(err error) {
	switch slow := p.timeoutHalvings.Load(); {
	case errors.Is(err, context.DeadlineExceeded):
		p.timeoutHalvings.Store(min(slow+1, timeoutHalvingsMax))
	case err == nil && slow > 0:
		p.timeoutHalvings.Store(slow - 1)
	}
}

// readChanges reads the changed accounts of a block: first for the whole block, then for each
// transaction that the answer lacks. Error: the provider gave no answer because it is unavailable.
func (p *provider) readChanges(ctx context.Context, s *verifiedBlock) (*balanceChanges, error) {
	if err := p.ensureHandshake(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*p.traceTimeout())
	defer cancel()
	t := newBalanceChanges(s)
	err := p.readBlockChanges(ctx, t)
	p.adjustTimeout(err)
	if isStateGone(err) {
		return nil, fmt.Errorf("%w: %w", chain.ErrStateGone, err)
	}
	if ctx.Err() == nil && isUnavailable(err) && !isNotOffered(err) {
		return nil, err
	}
	learned := err == nil
	for i, unanswered := 0, 0; i < len(t.isKnown) && ctx.Err() == nil && unanswered < unansweredMax; i++ {
		if t.isKnown[i] {
			continue
		}
		changes, err := p.readTxChanges(ctx, s, i)
		if err == nil {
			err = t.setTx(i, changes)
		}
		learned = learned || err == nil
		if unanswered++; !isUnavailable(err) {
			unanswered = 0
		}
	}
	if !learned && isNotOffered(err) {
		return nil, err
	}
	return t, nil
}

// withTracer runs a query with the best tracer that a provider has.
func (p *provider) withTracer(ask func(tracer map[string]any, read func(*reader, *traced) error) error) error {
	if !p.lacksDiffTracer.Load() {
		err := ask(diffTracer, (*reader).readDiff)
		if !isTracerUnknown(err) {
			return err
		}
		p.lacksDiffTracer.Store(true)
	}
	return ask(callTracer, (*reader).readCalls)
}

// traced is what a tracer says about one transaction.
type traced struct {
	tx        common.Hash // zero if the tracer does not name it
	changes   map[common.Address]*big.Int
	root      *callFrame // of the call tracer
	refused   bool       // it was not traced
	isWanted  func(common.Address) bool
	transfers []chain.Transfer
	budget    int
}

func (p *provider) readBlockChanges(ctx context.Context, t *balanceChanges) error {
	return p.withTracer(func(tracer map[string]any, read func(*reader, *traced) error) error {
		*t = *newBalanceChanges(t.block)
		return p.streamCall(ctx, streamLimits{bytes: diffBytes, timeout: p.traceTimeout()}, func(r *reader) error {
			return t.readBlockTrace(r, read)
		}, traceBlockMethod, t.block.hash, tracer)
	})
}

// readBlockTrace reads what a tracer says about every transaction of a block. Polygon's nodes show
// a trace of a state sync or leave it out.
func (t *balanceChanges) readBlockTrace(r *reader, read func(*reader, *traced) error) error {
	position, isRead := 0, make([]bool, len(t.isKnown))
	err := r.readItems(func(int) error {
		tr := traced{budget: changesMax}
		err := r.readObject(func(key string) (err error) {
			switch key {
			case "txHash":
				var word string
				if word, err = r.readText(); err == nil {
					err = tr.tx.UnmarshalText([]byte(word))
				}
			case "result":
				var wasNull bool
				if wasNull, err = r.readNull(); err == nil && !wasNull {
					err = read(r, &tr)
				} else if wasNull {
					tr.refused = true
				}
			case "error":
				tr.refused, err = r.readErrorFlag()
			default:
				err = r.skipNext()
			}
			return err
		})
		if err != nil {
			return err
		}
		i, ok := 0, false
		if tr.tx != (common.Hash{}) {
			if i, ok = t.block.txIndex(tr.tx); !ok {
				if t.block.stack == bor || slices.ContainsFunc(t.block.txs, func(x *tx) bool {
					return x.hasNoCalls && x.hash == tr.tx
				}) {
					return nil
				}
				return fmt.Errorf("one is of transaction %s, which the block does not have", tr.tx)
			}
		} else { // older nodes leave the hash out
			for position < len(t.isKnown) && (isRead[position] || t.block.txs[position].hasNoCalls) {
				position++
			}
			if i = position; i == len(t.isKnown) {
				return fmt.Errorf("got more than %d transactions", len(t.isKnown))
			}
		}
		if isRead[i] {
			return fmt.Errorf("transaction %s is there twice", t.block.txs[i].hash)
		}
		isRead[i] = true
		if tr.refused || tr.changes == nil {
			return nil // a separate query may answer it
		}
		if err := t.block.checkTrace(i, &tr); err != nil {
			return err
		}
		return t.setTx(i, tr.changes)
	})
	if err != nil {
		return err
	}
	for i, ok := range isRead {
		if !ok && !t.block.txs[i].hasNoCalls {
			return fmt.Errorf("%s is missing", t.block.txs[i].hash)
		}
	}
	return nil
}

// checkTrace compares a trace with its block, as far as possible.
func (s *verifiedBlock) checkTrace(i int, tr *traced) error {
	if tr.root == nil {
		return nil
	}
	ok := s.receipts[i].Status == types.ReceiptStatusSuccessful
	if tr.root.From == nil || *tr.root.From != s.txs[i].from || ok == tr.root.Failed {
		return fmt.Errorf("the trace contradicts the receipt of %s", s.txs[i].hash)
	}
	return nil
}

// readTxChanges reads the changes of one transaction.
func (p *provider) readTxChanges(
	ctx context.Context, s *verifiedBlock, i int,
) (changes map[common.Address]*big.Int, err error) {
	tr := traced{}
	err = p.withTracer(func(tracer map[string]any, read func(*reader, *traced) error) error {
		tr = traced{budget: changesMax}
		return p.streamCall(ctx, streamLimits{bytes: diffBytes, timeout: p.traceTimeout()}, func(r *reader) error {
			return read(r, &tr)
		}, traceTxMethod, s.txs[i].hash, tracer)
	})
	p.adjustTimeout(err)
	if err == nil {
		if err = s.checkTrace(i, &tr); err != nil {
			err = fmt.Errorf("%w: %w", errAnswer, err)
		}
	}
	return tr.changes, err
}

// readDiff reads the accounts that a transaction changed and keeps only their balances.
func (r *reader) readDiff(tr *traced) error {
	before, after := map[common.Address]*big.Int{}, map[common.Address]*big.Int{}
	err := r.readObject(func(key string) error {
		balances := before
		switch key {
		case "pre":
		case "post":
			balances = after
		default:
			return errNoDiff
		}
		return r.readObject(func(key string) error {
			var a common.Address
			if err := a.UnmarshalText([]byte(key)); err != nil {
				return err
			}
			return r.readObject(func(key string) (err error) {
				if key != "balance" {
					return r.skipNext()
				}
				if tr.budget--; tr.budget < 0 {
					return errTooManyChanges
				}
				balances[a], err = r.readNumber()
				return err
			})
		})
	})
	tr.changes = map[common.Address]*big.Int{}
	for a, newBalance := range after {
		if newBalance == nil {
			continue
		}
		oldBalance := before[a]
		if oldBalance == nil {
			oldBalance = new(big.Int)
		}
		if change := new(big.Int).Sub(newBalance, oldBalance); change.Sign() != 0 {
			tr.changes[a] = change
		}
	}
	return err
}

// readCalls reads the calls of a transaction. It keeps the transfers to the wanted addresses, or
// only the addresses if none are specified.
func (r *reader) readCalls(tr *traced) error {
	if tr.isWanted == nil {
		tr.changes = map[common.Address]*big.Int{}
	}
	var err error
	tr.root, tr.transfers, err = r.readFrame(tr, "", 0)
	for _, m := range tr.transfers {
		if tr.isWanted == nil {
			tr.changes[common.HexToAddress(string(m.To))] = nil
		}
	}
	return err
}

// callFrame is a call inside a transaction, as the callTracer reports it.
type callFrame struct {
	Type     string
	From, To *common.Address
	Value    *big.Int
	Failed   bool
}

// readFrame reads a call with those below it. It leaves out a call that ended in an error with
// everything below it: the chain has undone it.
func (r *reader) readFrame(tr *traced, path string, depth int) (f *callFrame, transfers []chain.Transfer, err error) {
	if depth > callDepthMax {
		return nil, nil, fmt.Errorf("%w: calls are %d deep", chain.ErrUndecodable, depth)
	}
	f = &callFrame{}
	err = r.readObject(func(key string) (err error) {
		switch key {
		case "type":
			f.Type, err = r.readText()
		case "from":
			f.From, err = r.readAddress()
		case "to":
			f.To, err = r.readAddress()
		case "value":
			f.Value, err = r.readNumber()
		case "error":
			f.Failed, err = r.readErrorFlag()
		case "calls":
			if wasNull, err := r.readNull(); wasNull || err != nil {
				return err
			}
			return r.readItems(func(i int) error {
				callPath := strconv.Itoa(i)
				if path != "" {
					callPath = path + "." + callPath
				}
				c, nested, err := r.readFrame(tr, callPath, depth+1)
				if err != nil || c.Failed {
					return err
				}
				ownTransfers, err := c.ownTransfers(tr, callPath)
				transfers = append(append(transfers, ownTransfers...), nested...)
				return err
			})
		default:
			err = r.skipNext()
		}
		return err
	})
	return f, transfers, err
}

// ownTransfers returns what a call itself moved: one transfer or none.
func (f *callFrame) ownTransfers(tr *traced, callPath string) ([]chain.Transfer, error) {
	switch f.Type {
	case "CALL", "CREATE", "CREATE2", "SELFDESTRUCT":
	case "DELEGATECALL", "CALLCODE", "STATICCALL": // move nothing; DELEGATECALL repeats its caller's value
		return nil, nil
	default:
		return nil, fmt.Errorf("%w: call %s is a %q", chain.ErrUndecodable, callPath, f.Type)
	}
	if f.Value == nil || f.Value.Sign() == 0 {
		return nil, nil
	}
	if f.To == nil || f.From == nil {
		return nil, fmt.Errorf("%w: call %s has a value and no sender or receiver", chain.ErrUndecodable, callPath)
	}
	// A transfer of a contract to itself moves nothing.
	if *f.From == *f.To || tr.isWanted != nil && !tr.isWanted(*f.To) {
		return nil, nil
	}
	if tr.budget--; tr.budget < 0 {
		return nil, fmt.Errorf("more transfers than one transaction can make: %w", endpoint.ErrTooLong)
	}
	amount, err := money.FromBig(f.Value)
	if err != nil {
		return nil, err
	}
	return []chain.Transfer{{
		Tx: txHash(tr.tx), Position: callPath, Kind: chain.Internal, From: evmtx.Canonical(*f.From),
		To: evmtx.Canonical(*f.To), Amount: amount,
	}}, nil
}

// InternalTransfers implements chain.Tracer.
func (a *adapter) InternalTransfers(ctx context.Context, q chain.InternalTransfersQuery) ([]chain.Transfer, error) {
	transfers, err := a.readInternalTransfers(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("calls of transaction %s in block %d of %s: %w", q.Tx, q.Block.Height, a.Name, err)
	}
	return transfers, nil
}

func (a *adapter) readInternalTransfers(ctx context.Context, q chain.InternalTransfersQuery) ([]chain.Transfer, error) {
	able, err := a.requireTracers(ctx)
	if err != nil {
		return nil, err
	}
	if len(able) == 0 {
		return nil, errors.New("no provider traces")
	}
	s, err := a.loadNamedBlock(ctx, q.Block)
	if err != nil {
		return nil, err
	}
	i, ok := s.txIndex(common.HexToHash(string(q.Tx)))
	if !ok {
		return nil, errors.New("the block does not have it")
	}
	if !s.mayMoveCoin(i) {
		return nil, nil
	}
	receivers := map[common.Address]bool{}
	for _, a := range q.Recipients {
		receivers[common.HexToAddress(string(a))] = true
	}
	return quorum.AgreeOnAnswer(ctx, able, a.requiredAnswers(q.Providers, len(able)), 1,
		slices.Equal[[]chain.Transfer], func(ctx context.Context, p *provider) ([]chain.Transfer, error) {
			if err := p.ensureHandshake(ctx); err != nil {
				return nil, err
			}
			tr := traced{tx: s.txs[i].hash, isWanted: func(a common.Address) bool {
				return receivers[a]
			}, budget: transfersMax}
			limits := streamLimits{
				bytes:   min(min(callBytes, a.AnswerBytesMax)<<min(q.Attempt, 32), callBytesMax),
				timeout: min(p.timeout<<min(q.Attempt, 8), max(p.timeout, callTimeMax)),
			}
			err := p.streamCall(ctx, limits, func(r *reader) error {
				return r.readCalls(&tr)
			}, traceTxMethod, tr.tx, callTracer)
			if err == nil {
				err = s.checkTrace(i, &tr)
			}
			if err == nil && q.Check != nil {
				err = q.Check(tr.transfers)
			}
			if err != nil && !errors.Is(err, endpoint.ErrTooLong) {
				return nil, fmt.Errorf("%s: %w", p.name, err)
			}
			return tr.transfers, err
		})
}
