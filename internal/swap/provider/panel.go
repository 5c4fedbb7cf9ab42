package provider

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/swap/signedquote"
)

const (
	dryTimeout   = 3 * time.Second
	firmTimeout  = 15 * time.Second
	storeTimeout = 5 * time.Second
)

// Member is one provider of a panel.
type Member struct {
	Provider Provider
	// QuotesPerMinute bounds how many quotes this process asks for; 0 sets no limit.
	QuotesPerMinute int
	// OutstandingUSDMax is the most that may be with the provider at once; nil sets no limit.
	OutstandingUSDMax *money.USD
}

// Suspensions say which providers get no new swaps, in all processes. The calls may be repeated and are safe
// for concurrent use.
type Suspensions interface {
	// ListSuspended returns the providers that are suspended.
	ListSuspended(ctx context.Context) ([]string, error)
	// Suspend stores that a provider gets no new swaps until a person lifts it. A suspended one stays so.
	Suspend(ctx context.Context, name, reason string) error
}

// Panel asks several providers and chooses between their offers. It is safe for concurrent use.
type Panel struct {
	members     []*memberState
	suspensions Suspensions
	clock       func() time.Time
	log         *slog.Logger
}

// memberState is a provider with its health in this process.
type memberState struct {
	Provider
	budget  budget
	breaker breaker
	shared  sharedAnswers

	outstandingUSDMax *money.USD

	mu sync.Mutex
	// suspicion is why the provider has to be suspended, while that is not stored. It holds in this process.
	suspicion string
}

// NewPanel makes a panel. The order of the members decides between equal offers. clock and log may be nil.
func NewPanel(members []Member, suspensions Suspensions, clock func() time.Time, log *slog.Logger) *Panel {
	p := &Panel{suspensions: suspensions, clock: clock, log: log}
	if p.clock == nil {
		p.clock = time.Now
	}
	if p.log == nil {
		p.log = slog.Default()
	}
	for _, m := range members {
		p.members = append(p.members, &memberState{
			Provider: m.Provider, budget: budget{perMinute: m.QuotesPerMinute}, outstandingUSDMax: m.OutstandingUSDMax,
		})
	}
	return p
}

// Status asks one provider about a swap, also a suspended one: its open swaps are followed as before. Errors:
// those of Provider.Status, and ErrNotServed if there is no such provider.
func (p *Panel) Status(ctx context.Context, name string, ref Ref, payment chain.TxHash) (report Report, err error) {
	m := p.find(name)
	if m == nil {
		return Report{}, fmt.Errorf("%w: there is no provider %s", ErrNotServed, CleanText(name))
	}
	defer p.catch(m, &err)
	return m.Status(ctx, ref, payment)
}

// VerifyQuote verifies a quote that a provider signed before, also of a suspended one. Errors: ErrUntrusted,
// ErrMalformed, and ErrNotServed if there is no such provider or its quotes cannot be verified again.
func (p *Panel) VerifyQuote(name string, raw []byte) (quote signedquote.Quote, err error) {
	m := p.find(name)
	if m == nil {
		return quote, fmt.Errorf("%w: there is no provider %s", ErrNotServed, CleanText(name))
	}
	verifier, isVerifier := m.Provider.(Verifier)
	if !isVerifier {
		return quote, fmt.Errorf("%w: the quotes of %s cannot be verified again", ErrNotServed, name)
	}
	defer p.catch(m, &err)
	return verifier.VerifyQuote(raw)
}

// SuspendFor suspends a provider whose signed quote passed its adapter and failed a check of the caller. Until that
// is stored, it holds in this process.
func (p *Panel) SuspendFor(ctx context.Context, name, reference string, cause error) {
	if m := p.find(name); m != nil {
		p.suspendMember(ctx, m, reference, cause)
	}
}

// ListAssets returns what healthy providers take in any amount for a token that they deliver. Where several take
// the same token, the first member's entry counts. Error: none of them answers.
func (p *Panel) ListAssets(ctx context.Context, destination Token) ([]Asset, error) {
	suspended, err := p.listSuspended(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, assetsTimeout)
	defer cancel()
	var asked []*memberState
	for _, m := range p.members {
		if !slices.Contains(suspended, m.Name()) {
			asked = append(asked, m)
		}
	}
	lists, errs := make([][]Asset, len(asked)), make([]error, len(asked))
	var wg sync.WaitGroup
	for i, m := range asked {
		wg.Go(func() {
			defer p.catch(m, &errs[i])
			lists[i], errs[i] = m.Assets(ctx)
		})
	}
	wg.Wait()
	var union []Asset
	taken := map[Token]bool{destination.Canonical(): true}
	hasAnswer := false
	for i, list := range lists {
		if errs[i] != nil {
			continue
		}
		hasAnswer = true
		if delivered, isListed := FindAsset(list, destination); !isListed || !delivered.Delivers {
			continue
		}
		for _, a := range list {
			if a.Accepts && a.AcceptsAny && !taken[a.Token] {
				taken[a.Token] = true
				union = append(union, a)
			}
		}
	}
	if !hasAnswer {
		return nil, Unavailable("no swap provider lists its assets: %w", errors.Join(errs...))
	}
	return union, nil
}

// OutstandingUSDMax returns the most that may be with a provider at once; nil: it has no limit, or there is no
// such provider.
func (p *Panel) OutstandingUSDMax(name string) *money.USD {
	if m := p.find(name); m != nil {
		return m.outstandingUSDMax
	}
	return nil
}

func (p *Panel) find(name string) *memberState {
	for _, m := range p.members {
		if m.Name() == name {
			return m
		}
	}
	return nil
}

// Health is the state of a provider in this process.
type Health struct {
	Provider string
	// OpenSince is when the breaker stopped the questions to the provider; zero: it did not.
	OpenSince time.Time
}

// ListHealth returns the state of every provider.
func (p *Panel) ListHealth() []Health {
	states := make([]Health, len(p.members))
	for i, m := range p.members {
		states[i] = Health{Provider: m.Name(), OpenSince: m.breaker.openSince()}
	}
	return states
}

// Outcome is why there is no offer.
type Outcome string

// The outcomes. All but REJECTED are temporary: the same question may get an offer later.
const (
	// Rejected: every provider that serves the pair refuses, or offers less than the caller accepts.
	Rejected Outcome = "REJECTED"
	// TimedOut: a provider that serves the pair did not answer, while others refused or none answered in time.
	TimedOut Outcome = "TIMED_OUT"
	// NotUnderstood: the providers that serve the pair answered what is no answer.
	NotUnderstood Outcome = "NOT_UNDERSTOOD"
	// NotReachable: the providers that serve the pair cannot be asked now.
	NotReachable Outcome = "NOT_REACHABLE"
	// NoProvider: no provider that gets new swaps serves the pair.
	NoProvider Outcome = "NO_PROVIDER"
)

// NoOfferError says that no provider made an offer.
type NoOfferError struct {
	Outcome Outcome
	// Provider and Message are those of the refusal that counts, if Outcome is REJECTED. The message is empty
	// if the provider offers less than the caller accepts.
	Provider, Message string
	Reasons           []string // of each provider, for logs
}

// Error returns the outcome with the reasons.
func (e *NoOfferError) Error() string {
	return fmt.Sprintf("no provider offers the swap (%s): %s", e.Outcome, strings.Join(e.Reasons, "; "))
}

// memberAnswer is what came of asking one provider.
type memberAnswer struct {
	name  string
	offer Offer
	err   error
}

// Compare asks all healthy providers at once for dry quotes. It returns the offers whose least amount the
// caller accepts, the best one first. Error: NoOfferError.
func (p *Panel) Compare(ctx context.Context, ask Ask) ([]Offer, error) {
	offers, _, err := p.CompareAll(ctx, ask)
	return offers, err
}

// CompareAll is Compare for a caller that may take none of the offers. silence says that other providers of
// the pair did not answer: they might have made a better offer. It is nil if all answered.
func (p *Panel) CompareAll(ctx context.Context, ask Ask) (offers []Offer, silence *NoOfferError, err error) {
	ask.IsFirm = false
	if err := ask.Validate(); err != nil {
		return nil, nil, err
	}
	suspended, err := p.listSuspended(ctx)
	if err != nil {
		return nil, nil, err
	}
	askCtx, cancel := context.WithTimeout(ctx, dryTimeout)
	defer cancel()
	var asked []*memberState
	for _, m := range p.members {
		if !slices.Contains(suspended, m.Name()) {
			asked = append(asked, m)
		}
	}
	answers := make([]memberAnswer, len(asked))
	var wg sync.WaitGroup
	for i, m := range asked {
		wg.Go(func() {
			offer, err := p.askDry(askCtx, m, ask)
			answers[i] = memberAnswer{m.Name(), offer, err}
		})
	}
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return nil, nil, err // the caller gave up, which says nothing about the providers
	}
	return chooseOffers(answers, ask.MinAmountOut)
}

// askDry returns the dry offer of one provider, which may be shared with other callers.
func (p *Panel) askDry(ctx context.Context, m *memberState, ask Ask) (offer Offer, err error) {
	defer p.catch(m, &err)
	assets, err := m.Assets(ctx)
	if err != nil {
		return Offer{}, asUnavailable(err)
	}
	if _, _, err := FindPair(assets, ask); err != nil {
		return Offer{}, err
	}
	return m.shared.get(ctx, newDryKey(ask), p.clock, func(ctx context.Context) (Offer, error) {
		return p.askMember(ctx, m, ask)
	})
}

// errBudget says that a provider was asked too often.
var errBudget = fmt.Errorf("%w: it was asked too often", ErrUnavailable)

// errOpen says that a provider failed too often.
var errOpen = fmt.Errorf("%w: it failed too often", ErrUnavailable)

// askMember asks one provider within its budget, unless its breaker is open.
func (p *Panel) askMember(ctx context.Context, m *memberState, ask Ask) (offer Offer, err error) {
	finish, isAllowed := m.breaker.start(p.clock())
	if !isAllowed {
		return Offer{}, errOpen
	}
	ending := abandoned
	defer func() { finish(p.clock(), ending) }()
	if !m.budget.take(p.clock(), ask.IsFirm) {
		return Offer{}, errBudget
	}
	offer, err = p.callQuote(ctx, m, ask)
	switch {
	case err == nil, isRefusal(err), errors.Is(err, ErrUntrusted):
		ending = answered
	case errors.Is(err, ErrNotServed), errors.Is(ctx.Err(), context.Canceled):
	default:
		ending = failed
		p.log.LogAttrs(ctx, slog.LevelWarn, "a swap provider gave no answer", slog.String("provider", m.Name()),
			slog.Bool("firm", ask.IsFirm), slog.String("reference", ask.Reference), slog.Any("error", err))
	}
	return offer, err
}

// callQuote calls the adapter and checks what every adapter has to return.
func (p *Panel) callQuote(ctx context.Context, m *memberState, ask Ask) (offer Offer, err error) {
	defer p.catch(m, &err)
	offer, err = m.Quote(ctx, ask)
	switch {
	case err != nil:
		return Offer{}, asUnavailable(err)
	case offer.Provider != m.Name() || offer.IsFirm() != ask.IsFirm:
		return Offer{}, Malformed("an offer of %q, firm %t", offer.Provider, offer.IsFirm())
	}
	if err := offer.CheckAmounts(ask); err != nil {
		return Offer{}, err
	}
	return offer, nil
}

// catch makes a panic of an adapter on a provider's input an answer that is not understood.
func (p *Panel) catch(m *memberState, err *error) {
	if r := recover(); r != nil {
		*err = Malformed("the adapter panicked")
		p.log.LogAttrs(context.Background(), slog.LevelError, "a swap provider's adapter panicked",
			slog.String("provider", m.Name()), slog.Any("panic", r))
	}
}

// asUnavailable makes every error that is not known one of a provider that does not answer.
func asUnavailable(err error) error {
	if isRefusal(err) || errors.Is(err, ErrUntrusted) || errors.Is(err, ErrNotServed) ||
		errors.Is(err, ErrUnavailable) {
		return err
	}
	return Unavailable("%w", err)
}

func isRefusal(err error) bool {
	var refused *RefusedError
	return errors.As(err, &refused)
}

// chooseOffers returns the offers that the caller accepts, the best one first, or why there is none. silence
// says which providers did not answer, besides those with an offer.
func chooseOffers(answers []memberAnswer, minOut money.Amount) (offers []Offer, silence *NoOfferError, err error) {
	var low *Offer // the best one that the caller does not accept
	var refusal *RefusedError
	var silent []error
	var reasons []string
	for _, a := range answers {
		var refused *RefusedError
		switch {
		case a.err == nil && !a.offer.MinAmountOut.Less(minOut):
			offers = append(offers, a.offer)
			continue
		case a.err == nil:
			if low == nil || low.MinAmountOut.Less(a.offer.MinAmountOut) {
				low = &a.offer
			}
			reasons = append(reasons, fmt.Sprintf("%s: at least %s, and not %s", a.name, a.offer.MinAmountOut, minOut))
			continue
		case errors.As(a.err, &refused):
			if refusal == nil {
				refusal = refused
			}
		case errors.Is(a.err, ErrNotServed):
		default:
			silent = append(silent, a.err)
		}
		reasons = append(reasons, a.name+": "+CleanText(a.err.Error()))
	}
	if len(offers) > 0 {
		slices.SortStableFunc(offers, func(a, b Offer) int { return b.AmountOut.Cmp(a.AmountOut) })
		if len(silent) > 0 {
			silence = &NoOfferError{Outcome: chooseOutcome(false, silent), Reasons: reasons}
		}
		return offers, silence, nil
	}
	noOffer := &NoOfferError{Outcome: chooseOutcome(refusal != nil || low != nil, silent), Reasons: reasons}
	if noOffer.Outcome == Rejected {
		if low != nil {
			noOffer.Provider = low.Provider
		} else {
			noOffer.Provider, noOffer.Message = refusal.Provider, refusal.Message
		}
	}
	return nil, nil, noOffer
}

// chooseOutcome returns why there is no offer. A refusal is one only if every provider of the pair has answered:
// a silent one might have made an offer.
func chooseOutcome(isRejected bool, silent []error) Outcome {
	switch {
	case isRejected && len(silent) == 0:
		return Rejected
	case isRejected || slices.ContainsFunc(silent, isTimeout):
		return TimedOut
	case slices.ContainsFunc(silent, func(err error) bool { return errors.Is(err, ErrMalformed) }):
		return NotUnderstood
	case len(silent) > 0:
		return NotReachable
	}
	return NoProvider
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}

// Firm asks one provider for a firm quote. Errors: those of Provider.Quote, and NoOfferError where the quote is
// less than the caller accepts. A quote that cannot be trusted suspends the provider before Firm returns.
func (p *Panel) Firm(ctx context.Context, name string, ask Ask) (Offer, error) {
	ask.IsFirm = true
	if err := ask.Validate(); err != nil {
		return Offer{}, err
	}
	m := p.find(name)
	if m == nil {
		return Offer{}, fmt.Errorf("%w: there is no provider %s", ErrNotServed, CleanText(name))
	}
	suspended, err := p.listSuspended(ctx)
	switch {
	case err != nil:
		return Offer{}, err
	case slices.Contains(suspended, name):
		return Offer{}, fmt.Errorf("%w: it is suspended", ErrNotServed)
	}
	askCtx, cancel := context.WithTimeout(ctx, firmTimeout)
	defer cancel()
	offer, err := p.askMember(askCtx, m, ask)
	if errors.Is(err, ErrUntrusted) {
		p.suspendMember(ctx, m, ask.Reference, err)
	}
	if err != nil {
		return Offer{}, err
	}
	if _, _, err := chooseOffers([]memberAnswer{{name, offer, nil}}, ask.MinAmountOut); err != nil {
		return Offer{}, err
	}
	return offer, nil
}

// suspendMember suspends a provider. Until that is stored, it holds in this process.
func (p *Panel) suspendMember(ctx context.Context, m *memberState, reference string, cause error) {
	p.log.LogAttrs(ctx, slog.LevelError, "a signed quote of a swap provider cannot be trusted",
		slog.String("provider", m.Name()), slog.String("reference", reference), slog.Any("error", cause))
	m.mu.Lock()
	m.suspicion = CleanText(cause.Error())
	m.mu.Unlock()
	p.storeSuspension(ctx, m)
}

// storeSuspension stores a suspension that only this process knows.
func (p *Panel) storeSuspension(ctx context.Context, m *memberState) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.suspicion == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	if err := p.suspensions.Suspend(ctx, m.Name(), m.suspicion); err != nil {
		p.log.LogAttrs(ctx, slog.LevelError, "the suspension of a swap provider is not stored",
			slog.String("provider", m.Name()), slog.Any("error", err))
		return
	}
	m.suspicion = ""
}

func (m *memberState) isSuspect() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.suspicion != ""
}

// listSuspended returns the providers that are not asked. Error: they are not known, and none is asked.
func (p *Panel) listSuspended(ctx context.Context) ([]string, error) {
	for _, m := range p.members {
		p.storeSuspension(ctx, m)
	}
	names, err := p.suspensions.ListSuspended(ctx)
	if err != nil {
		return nil, fmt.Errorf("read which swap providers are suspended: %w", err)
	}
	names = slices.Clone(names)
	for _, m := range p.members {
		if m.isSuspect() {
			names = append(names, m.Name())
		}
	}
	return names, nil
}
