package provider

import (
	"context"
	"sync"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
)

const (
	shareTTL = 3 * time.Second
	// sharedMax bounds the questions that are remembered. Further ones are asked without being shared.
	sharedMax = 10_000
)

// dryKey is what makes two dry questions the same one.
type dryKey struct {
	isFlexible          bool
	origin, destination Token
	amountIn            money.Amount
	recipient, refundTo chain.Address
	slippageBps         int
}

func newDryKey(ask Ask) dryKey {
	return dryKey{
		ask.IsFlexible, ask.Origin.Canonical(), ask.Destination.Canonical(), ask.AmountIn, ask.Recipient,
		ask.RefundTo, ask.SlippageBps,
	}
}

// sharedAnswers are the dry answers of one provider, each of which is shared for shareTTL. It is safe for
// concurrent use.
type sharedAnswers struct {
	mu      sync.Mutex
	answers map[dryKey]*sharedAnswer
}

type sharedAnswer struct {
	closed  chan struct{} // closed when there is an answer
	offer   Offer
	err     error
	endsAt  time.Time // of sharing, once there is an answer
	isReady bool
}

// get returns the shared answer, or asks. Callers wait for the same answer, and one that gives up does not
// cancel it for the others. An answer that is no answer is shared only with those who wait for it.
func (s *sharedAnswers) get(
	ctx context.Context, key dryKey, now func() time.Time, ask func(ctx context.Context) (Offer, error),
) (Offer, error) {
	answer, isNew := s.join(key, now())
	if isNew {
		go func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dryTimeout)
			defer cancel()
			offer, err := ask(ctx)
			s.mu.Lock()
			defer s.mu.Unlock()
			answer.offer, answer.err, answer.isReady, answer.endsAt = offer, err, true, now()
			if err == nil || isRefusal(err) {
				answer.endsAt = answer.endsAt.Add(shareTTL)
			}
			close(answer.closed)
		}()
	}
	select {
	case <-ctx.Done():
		return Offer{}, Unavailable("no answer in time: %w", context.Cause(ctx))
	case <-answer.closed:
		return answer.offer, answer.err
	}
}

// join returns the answer to a question, and whether the caller has to ask for it.
func (s *sharedAnswers) join(key dryKey, now time.Time) (answer *sharedAnswer, isNew bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if answer = s.answers[key]; answer != nil && (!answer.isReady || now.Before(answer.endsAt)) {
		return answer, false
	}
	if len(s.answers) >= sharedMax {
		for k, a := range s.answers {
			if a.isReady && !now.Before(a.endsAt) {
				delete(s.answers, k)
			}
		}
	}
	answer = &sharedAnswer{closed: make(chan struct{})}
	if s.answers == nil {
		s.answers = map[dryKey]*sharedAnswer{}
	}
	if len(s.answers) < sharedMax || s.answers[key] != nil {
		s.answers[key] = answer
	}
	return answer, true
}
