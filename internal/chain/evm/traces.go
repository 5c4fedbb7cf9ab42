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
	"github.com/cofferpay/coffer/internal/chain/several"
	"github.com/cofferpay/coffer/internal/money"
)

// diffTracer tells which accounts changed, without code and storage: what it says of a
// block is bounded by the block's gas. callTracer tells every call with its input, and
// memory that a contract has paid for once it may pass on as often as it likes: any sender
// decides how long that is.
var (
	diffTracer = map[string]any{
		"tracer":       "prestateTracer",
		"tracerConfig": map[string]any{"diffMode": true, "disableCode": true, "disableStorage": true},
	}
	callTracer = map[string]any{"tracer": "callTracer"}
)

const (
	traceMethod  = "debug_traceBlockByHash"
	traceOne     = "debug_traceTransaction"
	codeNoMethod = -32601 // of a JSON-RPC error
	touchedMax   = 1 << 17
	movedMax     = 10_000  // movements to addresses of ours in one transaction
	callDepthMax = 1100    // a chain allows 1024
	callBytes    = 8 << 20 // of the first trace of a transaction's calls; every later attempt doubles it
	callBytesMax = 1 << 30 // of the last
	callTimeMax  = 2 * time.Minute
	diffBytes    = 64 << 20 // of the changed accounts of a block
	silentMax    = 3        // questions in a row that a provider leaves unanswered before it is left alone
	slowMax      = 4        // how often the time that a provider gets is halved
)

var (
	errTouchedTooMany = fmt.Errorf("more accounts than a block can change: %w", endpoint.ErrTooLong)
	errNoDiff         = errors.New("does not tell which accounts changed")
	errBegun          = errors.New("the answer has begun")
)

// offersTraces tries on the latest block. Only an answer that says so is a "no":
// a provider that is busy today would otherwise not be asked until a restart. That the
// answer begins is enough.
func (p *provider) offersTraces(ctx context.Context) (bool, error) {
	var latest struct {
		Hash common.Hash `json:"hash"`
	}
	if err := p.request(ctx, &latest, "eth_getBlockByNumber", "latest", false); err != nil {
		return false, err
	}
	err := errNoDiff
	for _, tracer := range []map[string]any{diffTracer, callTracer} {
		if err = p.streamOnce(ctx, bound{bytes: diffBytes, within: p.timeout}, func(*reader) error { return errBegun }, traceMethod, latest.Hash, tracer); !noTracer(err) {
			break
		}
	}
	switch {
	case errors.Is(err, errBegun):
		return true, nil
	case err == nil, withheld(err), noTracer(err):
		return false, nil
	}
	return false, fmt.Errorf("%w (with trace ON or OFF this is not tried)", err)
}

// noTracer tells whether an error means that a provider does not know the tracer.
func noTracer(err error) bool {
	if errors.Is(err, errNoDiff) {
		return true
	}
	var said rpc.Error
	return errors.As(err, &said) && !withheld(err) && strings.Contains(strings.ToLower(said.Error()), "tracer")
}

// silent tells whether an error means that a provider does not answer, or not us, now. What
// is too long, takes too long or cannot be understood may be the fault of what was asked about.
func silent(err error) bool {
	if err == nil || errors.Is(err, errAnswer) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	var said rpc.Error
	if errors.As(err, &said) {
		return withheld(err) || gone(err) || wordy(said, spentWords)
	}
	return true
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
	return said.ErrorCode() == codeNoMethod || wordy(said, withheldWords) && !wordy(said, spentWords)
}

// wordy tells whether an error has one of some words in it.
func wordy(said error, words []string) bool {
	text := strings.ToLower(said.Error())
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) })
}

// offering are the providers that are known to offer traces.
func (a *adapter) offering() []*provider {
	var able []*provider
	for _, p := range a.withArchives() {
		if p.traces.Load() {
			able = append(able, p)
		}
	}
	return able
}

// tracers are the providers that are asked for traces; none when no provider offers them.
func (a *adapter) tracers(ctx context.Context) ([]*provider, error) {
	if a.Trace == TraceOff {
		return nil, nil
	}
	if able := a.offering(); len(able) > 0 {
		return able, nil
	}
	// One that has not answered since the start may be the one that traces.
	for _, p := range a.withArchives() {
		if err := p.greet(ctx); err != nil {
			return nil, fmt.Errorf("no provider traces, and one has not said whether it does; set trace OFF to stop waiting for it: %w", err)
		}
	}
	return a.offering(), nil
}

// opinions is how many of the tracers have to answer.
func (a *adapter) opinions(by chain.Opinions, tracers int) int {
	switch by {
	case chain.One:
		return 1
	case chain.Enough:
		return min(a.Agree, tracers)
	}
	return tracers
}

// runs tells whether the i-th transaction can have moved coin inside: a contract can have
// run and what it did counts.
func (s *sealed) runs(i int) bool {
	t := s.txs[i]
	least := t.signed != nil && t.to != nil && len(t.signed.Data()) == 0 && s.receipts[i].GasUsed == gasPlain
	return !t.apart && !least && s.receipts[i].Status == types.ReceiptStatusSuccessful
}

// of is the number of a transaction.
func (s *sealed) of(hash common.Hash) (int, bool) {
	i := slices.IndexFunc(s.txs, func(t *tx) bool { return t.hash == hash && !t.apart })
	return i, i >= 0
}

// named is a block that is asked about by its hash, with its receipts.
func (a *adapter) named(ctx context.Context, at chain.Block) (*sealed, error) {
	hash := common.HexToHash(at.Hash)
	return several.First(ctx, a.showing(), func(ctx context.Context, p *provider) (*sealed, error) { return a.sealed(ctx, p, hash) })
}

// Touched implements chain.Tracer.
func (a *adapter) Touched(ctx context.Context, at chain.Block, by chain.Opinions) (chain.Touched, error) {
	told, err := a.touched(ctx, at, by)
	if err != nil {
		return chain.Touched{}, fmt.Errorf("accounts that block %d of %s changed: %w", at.Height, a.Name, err)
	}
	return told, nil
}

func (a *adapter) touched(ctx context.Context, at chain.Block, by chain.Opinions) (chain.Touched, error) {
	able, err := a.tracers(ctx)
	if err != nil || len(able) == 0 {
		return chain.Touched{}, err
	}
	s, err := a.named(ctx, at)
	if err != nil {
		return chain.Touched{}, err
	}
	all := newTouches(s)
	var errs []error
	for need := a.opinions(by, len(able)); need > 0 && len(able) > 0 && !all.nothing(); {
		asked := able[:min(need, len(able))]
		able = able[len(asked):]
		for _, said := range several.Ask(ctx, asked, len(asked), func(ctx context.Context, p *provider) (*touches, error) { return p.touched(ctx, s) }) {
			if said.Err != nil {
				errs = append(errs, said.Err)
				continue
			}
			// One that could not tell of everything is no opinion on the rest.
			if said.Value.whole() {
				need--
			}
			all.add(said.Value)
			all.heard = true
		}
	}
	if !all.heard && !all.nothing() {
		return chain.Touched{}, errors.Join(errs...)
	}
	return all.told(), nil
}

// touches are the balances that the transactions of a block changed.
type touches struct {
	s     *sealed
	known []bool // nothing more has to be asked about this transaction
	of    []map[common.Address]*big.Int
	heard bool
	kept  int
}

func newTouches(s *sealed) *touches {
	t := &touches{s: s, known: make([]bool, len(s.txs)), of: make([]map[common.Address]*big.Int, len(s.txs))}
	for i := range s.txs {
		t.known[i] = !s.runs(i)
	}
	return t
}

// nothing tells whether no transaction is in question.
func (t *touches) nothing() bool {
	for i := range t.known {
		if t.s.runs(i) {
			return false
		}
	}
	return true
}

func (t *touches) whole() bool { return !slices.Contains(t.known, false) }

// set takes what a provider says about a transaction.
func (t *touches) set(i int, of map[common.Address]*big.Int) error {
	if !t.s.runs(i) || t.known[i] {
		return nil
	}
	if t.kept += len(of); t.kept > touchedMax {
		return errTouchedTooMany
	}
	t.known[i], t.of[i] = true, of
	return nil
}

// add takes what another provider says. Where two differ, the amount is unknown.
func (t *touches) add(o *touches) {
	for i, of := range o.of {
		t.known[i] = t.known[i] || o.known[i]
		if t.of[i] == nil {
			t.of[i] = of
			continue
		}
		for a, change := range of {
			if was, ok := t.of[i][a]; ok && (was == nil || change == nil || was.Cmp(change) != 0) {
				change = nil
			}
			t.of[i][a] = change
		}
	}
}

func (t *touches) told() chain.Touched {
	told := chain.Touched{Traced: true}
	for i, of := range t.of {
		tx := txHash(t.s.txs[i].hash)
		if !t.known[i] {
			told.Blind = append(told.Blind, tx)
		}
		for a, change := range of {
			told.Balances = append(told.Balances, chain.TouchedBalance{Tx: tx, Address: evmtx.Canonical(a), Change: change})
		}
		sorted := told.Balances[len(told.Balances)-len(of):]
		slices.SortFunc(sorted, func(a, b chain.TouchedBalance) int { return cmp.Compare(a.Address, b.Address) })
	}
	return told
}

// patience is how long one request for traces may take. It halves while they take too long:
// a block that takes every tracer's time must not take it again with each block after it.
func (p *provider) patience() time.Duration { return p.timeout >> p.slow.Load() }

func (p *provider) took(err error) {
	switch slow := p.slow.Load(); {
	case errors.Is(err, context.DeadlineExceeded):
		p.slow.Store(min(slow+1, slowMax))
	case err == nil && slow > 0:
		p.slow.Store(slow - 1)
	}
}

// touched asks for the changed accounts of a block: of the whole, then of those transactions that
// are not answered by that. Error: the provider told nothing because it does not answer.
func (p *provider) touched(ctx context.Context, s *sealed) (*touches, error) {
	if err := p.greet(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*p.patience())
	defer cancel()
	t := newTouches(s)
	err := p.touchedIn(ctx, t)
	p.took(err)
	if gone(err) {
		return nil, fmt.Errorf("%w: %w", chain.ErrStateGone, err)
	}
	if ctx.Err() == nil && silent(err) && !withheld(err) {
		return nil, err
	}
	learned := err == nil
	for i, unanswered := 0, 0; i < len(t.known) && ctx.Err() == nil && unanswered < silentMax; i++ {
		if t.known[i] {
			continue
		}
		of, err := p.touchedBy(ctx, s, i)
		if err == nil {
			err = t.set(i, of)
		}
		learned = learned || err == nil
		if unanswered++; !silent(err) {
			unanswered = 0
		}
	}
	if !learned && withheld(err) {
		return nil, err
	}
	return t, nil
}

// tracing runs a question with the best tracer that a provider has.
func (p *provider) tracing(ask func(tracer map[string]any, read func(*reader, *traced) error) error) error {
	if !p.noDiff.Load() {
		err := ask(diffTracer, (*reader).diff)
		if !noTracer(err) {
			return err
		}
		p.noDiff.Store(true)
	}
	return ask(callTracer, (*reader).calls)
}

// traced is what a tracer says about one transaction.
type traced struct {
	tx      common.Hash // zero where it does not say
	of      map[common.Address]*big.Int
	root    *frame // of the call tracer
	refused bool   // it was not traced
	keep    func(common.Address) bool
	moved   []chain.Transfer
	left    int
}

func (p *provider) touchedIn(ctx context.Context, t *touches) error {
	return p.tracing(func(tracer map[string]any, read func(*reader, *traced) error) error {
		*t = *newTouches(t.s)
		return p.stream(ctx, bound{bytes: diffBytes, within: p.patience()}, func(r *reader) error { return t.read(r, read) }, traceMethod, t.s.hash, tracer)
	})
}

// read reads what a tracer says about every transaction of a block. Polygon's nodes show one of
// what synchronizes state or leave it out.
func (t *touches) read(r *reader, read func(*reader, *traced) error) error {
	at, met := 0, make([]bool, len(t.known))
	err := r.items(func(int) error {
		tr := traced{left: touchedMax}
		err := r.object(func(key string) (err error) {
			switch key {
			case "txHash":
				var word string
				if word, err = r.text(); err == nil {
					err = tr.tx.UnmarshalText([]byte(word))
				}
			case "result":
				var none bool
				if none, err = r.null(); err == nil && !none {
					err = read(r, &tr)
				} else if none {
					tr.refused = true
				}
			case "error":
				tr.refused, err = r.complains()
			default:
				err = r.skip()
			}
			return err
		})
		if err != nil {
			return err
		}
		i, ok := 0, false
		if tr.tx != (common.Hash{}) {
			if i, ok = t.s.of(tr.tx); !ok {
				if t.s.stack == bor || slices.ContainsFunc(t.s.txs, func(x *tx) bool { return x.apart && x.hash == tr.tx }) {
					return nil
				}
				return fmt.Errorf("one is of transaction %s, which the block does not have", tr.tx)
			}
		} else { // older nodes leave the hash out
			for at < len(t.known) && (met[at] || t.s.txs[at].apart) {
				at++
			}
			if i = at; i == len(t.known) {
				return fmt.Errorf("got more than %d transactions", len(t.known))
			}
		}
		if met[i] {
			return fmt.Errorf("transaction %s is there twice", t.s.txs[i].hash)
		}
		met[i] = true
		if tr.refused || tr.of == nil {
			return nil // it may be told when it is asked about alone
		}
		if err := t.s.fits(i, &tr); err != nil {
			return err
		}
		return t.set(i, tr.of)
	})
	if err != nil {
		return err
	}
	for i, ok := range met {
		if !ok && !t.s.txs[i].apart {
			return fmt.Errorf("%s is missing", t.s.txs[i].hash)
		}
	}
	return nil
}

// fits compares a trace with the block that it is of, as far as it can be.
func (s *sealed) fits(i int, tr *traced) error {
	if tr.root == nil {
		return nil
	}
	ok := s.receipts[i].Status == types.ReceiptStatusSuccessful
	if tr.root.From == nil || *tr.root.From != s.txs[i].from || ok == tr.root.Failed {
		return fmt.Errorf("the trace contradicts the receipt of %s", s.txs[i].hash)
	}
	return nil
}

// touchedBy asks about one transaction.
func (p *provider) touchedBy(ctx context.Context, s *sealed, i int) (of map[common.Address]*big.Int, err error) {
	tr := traced{}
	err = p.tracing(func(tracer map[string]any, read func(*reader, *traced) error) error {
		tr = traced{left: touchedMax}
		return p.stream(ctx, bound{bytes: diffBytes, within: p.patience()}, func(r *reader) error { return read(r, &tr) }, traceOne, s.txs[i].hash, tracer)
	})
	p.took(err)
	if err == nil {
		if err = s.fits(i, &tr); err != nil {
			err = fmt.Errorf("%w: %w", errAnswer, err)
		}
	}
	return tr.of, err
}

// diff reads the accounts that a transaction changed and keeps their balances alone.
func (r *reader) diff(tr *traced) error {
	before, after := map[common.Address]*big.Int{}, map[common.Address]*big.Int{}
	err := r.object(func(key string) error {
		into := before
		switch key {
		case "pre":
		case "post":
			into = after
		default:
			return errNoDiff
		}
		return r.object(func(key string) error {
			var a common.Address
			if err := a.UnmarshalText([]byte(key)); err != nil {
				return err
			}
			return r.object(func(key string) (err error) {
				if key != "balance" {
					return r.skip()
				}
				if tr.left--; tr.left < 0 {
					return errTouchedTooMany
				}
				into[a], err = r.number()
				return err
			})
		})
	})
	tr.of = map[common.Address]*big.Int{}
	for a, now := range after {
		if now == nil {
			continue
		}
		was := before[a]
		if was == nil {
			was = new(big.Int)
		}
		if change := new(big.Int).Sub(now, was); change.Sign() != 0 {
			tr.of[a] = change
		}
	}
	return err
}

// calls reads the calls of a transaction and keeps what moved to those addresses that are
// asked about, or the addresses alone where none are.
func (r *reader) calls(tr *traced) error {
	if tr.keep == nil {
		tr.of = map[common.Address]*big.Int{}
	}
	var err error
	tr.root, tr.moved, err = r.frame(tr, "", 0)
	for _, m := range tr.moved {
		if tr.keep == nil {
			tr.of[common.HexToAddress(string(m.To))] = nil
		}
	}
	return err
}

// A frame is a call inside a transaction, as the callTracer reports it.
type frame struct {
	Type     string
	From, To *common.Address
	Value    *big.Int
	Failed   bool
}

// frame reads a call with those below it. A call that ended in an error is left out with everything
// below it: the chain has undone it.
func (r *reader) frame(tr *traced, path string, depth int) (f *frame, below []chain.Transfer, err error) {
	if depth > callDepthMax {
		return nil, nil, fmt.Errorf("%w: calls are %d deep", chain.ErrUndecodable, depth)
	}
	f = &frame{}
	err = r.object(func(key string) (err error) {
		switch key {
		case "type":
			f.Type, err = r.text()
		case "from":
			f.From, err = r.address()
		case "to":
			f.To, err = r.address()
		case "value":
			f.Value, err = r.number()
		case "error":
			f.Failed, err = r.complains()
		case "calls":
			if none, err := r.null(); none || err != nil {
				return err
			}
			return r.items(func(i int) error {
				at := strconv.Itoa(i)
				if path != "" {
					at = path + "." + at
				}
				c, under, err := r.frame(tr, at, depth+1)
				if err != nil || c.Failed {
					return err
				}
				own, err := c.moved(tr, at)
				below = append(append(below, own...), under...)
				return err
			})
		default:
			err = r.skip()
		}
		return err
	})
	return f, below, err
}

// moved is what a call itself moved: one transfer or none.
func (f *frame) moved(tr *traced, at string) ([]chain.Transfer, error) {
	switch f.Type {
	case "CALL", "CREATE", "CREATE2", "SELFDESTRUCT":
	case "DELEGATECALL", "CALLCODE", "STATICCALL": // move nothing; DELEGATECALL repeats its caller's value
		return nil, nil
	default:
		return nil, fmt.Errorf("%w: call %s is a %q", chain.ErrUndecodable, at, f.Type)
	}
	if f.Value == nil || f.Value.Sign() == 0 {
		return nil, nil
	}
	if f.To == nil || f.From == nil {
		return nil, fmt.Errorf("%w: call %s has a value and no sender or receiver", chain.ErrUndecodable, at)
	}
	// What a contract sends to itself moves nothing.
	if *f.From == *f.To || tr.keep != nil && !tr.keep(*f.To) {
		return nil, nil
	}
	if tr.left--; tr.left < 0 {
		return nil, fmt.Errorf("more movements than one transaction can make: %w", endpoint.ErrTooLong)
	}
	amount, err := money.FromBig(f.Value)
	if err != nil {
		return nil, err
	}
	return []chain.Transfer{{
		Tx: txHash(tr.tx), Position: at, Kind: chain.Internal, From: evmtx.Canonical(*f.From), To: evmtx.Canonical(*f.To), Amount: amount,
	}}, nil
}

// Moved implements chain.Tracer.
func (a *adapter) Moved(ctx context.Context, q chain.MovedQuestion) ([]chain.Transfer, error) {
	found, err := a.moved(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("calls of transaction %s in block %d of %s: %w", q.Tx, q.At.Height, a.Name, err)
	}
	return found, nil
}

func (a *adapter) moved(ctx context.Context, q chain.MovedQuestion) ([]chain.Transfer, error) {
	able, err := a.tracers(ctx)
	if err != nil {
		return nil, err
	}
	if len(able) == 0 {
		return nil, errors.New("no provider traces")
	}
	s, err := a.named(ctx, q.At)
	if err != nil {
		return nil, err
	}
	i, ok := s.of(common.HexToHash(string(q.Tx)))
	if !ok {
		return nil, errors.New("the block does not have it")
	}
	if !s.runs(i) {
		return nil, nil
	}
	to := map[common.Address]bool{}
	for _, a := range q.To {
		to[common.HexToAddress(string(a))] = true
	}
	return several.Same(ctx, able, a.opinions(q.By, len(able)), 1, slices.Equal[[]chain.Transfer], func(ctx context.Context, p *provider) ([]chain.Transfer, error) {
		if err := p.greet(ctx); err != nil {
			return nil, err
		}
		tr := traced{tx: s.txs[i].hash, keep: func(a common.Address) bool { return to[a] }, left: movedMax}
		most := bound{
			bytes:  min(min(callBytes, a.AnswerBytesMax)<<min(q.Attempt, 32), callBytesMax),
			within: min(p.timeout<<min(q.Attempt, 8), max(p.timeout, callTimeMax)),
		}
		err := p.stream(ctx, most, func(r *reader) error { return r.calls(&tr) }, traceOne, tr.tx, callTracer)
		if err == nil {
			err = s.fits(i, &tr)
		}
		if err == nil && q.Fits != nil {
			err = q.Fits(tr.moved)
		}
		if err != nil && !errors.Is(err, endpoint.ErrTooLong) {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		return tr.moved, err
	})
}
