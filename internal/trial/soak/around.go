package soak

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"

	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/webhook"
)

// errLostAnswer is what is heard of a call that may have been made.
var errLostAnswer = errors.New("the answer was lost")

// shaky is a signer whose answers get lost, on the way there or on the way back.
type shaky struct {
	signer.Signer
	mu     sync.Mutex
	there  int  // calls until one does not arrive; 0: none
	back   int  // calls until one is not answered; 0: none
	deaf   bool // no call arrives
	mute   bool // none is answered
	faults *tally
}

// The faults of a signer.
const (
	signerUnheard  = "signer: call lost"
	signerSilent   = "signer: answer lost"
	signerRestarts = "signer: restarted"
)

func (s *shaky) call() (lost, unanswered bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	hit := func(n *int, kind string) bool {
		if *n == 0 {
			return false
		}
		*n--
		if *n == 0 {
			s.faults.add(kind)
			return true
		}
		return false
	}
	lost, unanswered = hit(&s.there, signerUnheard) || s.deaf, hit(&s.back, signerSilent) || s.mute
	if s.deaf {
		s.faults.add(signerUnheard)
	} else if s.mute {
		s.faults.add(signerSilent)
	}
	return lost, unanswered
}

func heard[T any](s *shaky, do func() (T, error)) (T, error) {
	var none T
	lost, unanswered := s.call()
	if lost {
		return none, errLostAnswer
	}
	got, err := do()
	if unanswered {
		return none, errLostAnswer
	}
	return got, err
}

func (s *shaky) Issue(ctx context.Context, w signer.WalletRef) (signer.Issued, error) {
	return heard(s, func() (signer.Issued, error) { return s.Signer.Issue(ctx, w) })
}

func (s *shaky) Admit(ctx context.Context, i signer.Intent) (signer.Entry, error) {
	return heard(s, func() (signer.Entry, error) { return s.Signer.Admit(ctx, i) })
}

func (s *shaky) Sign(ctx context.Context, r signer.SignRequest) (signer.Signed, error) {
	return heard(s, func() (signer.Signed, error) { return s.Signer.Sign(ctx, r) })
}

// mood is how a receiver of webhooks is disposed.
type mood string

// The moods; every other than well is a fault.
const (
	well     mood = ""
	refusing mood = "receiver: answers 500"
	hangsUp  mood = "receiver: takes it and hangs up"
	busy     mood = "receiver: answers 429"
)

var moods = []mood{refusing, hangsUp, busy}

// receiver is where the organization's events go. It remembers all that arrived,
// whatever it answered.
type receiver struct {
	*httptest.Server
	mu      sync.Mutex
	mood    mood
	taken   map[string][]byte // by event: the body that was answered 2xx
	first   map[string][]byte // by event: the body as it came first
	posts   int
	faults  *tally
	trouble []string
}

func newReceiver(faults *tally) *receiver {
	r := &receiver{taken: map[string][]byte{}, first: map[string][]byte{}, faults: faults}
	r.Server = httptest.NewServer(http.HandlerFunc(r.serve))
	return r
}

func (r *receiver) serve(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	id := q.Header.Get(webhook.HeaderID)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.posts++
	if err != nil || id == "" {
		r.trouble = append(r.trouble, "a post without an id or a body")
	}
	if before, ok := r.first[id]; ok && !bytes.Equal(before, body) {
		r.trouble = append(r.trouble, "event "+id+" came with two bodies")
	}
	r.first[id] = body
	if r.mood != well {
		r.faults.add(string(r.mood))
	}
	switch r.mood {
	case refusing:
		w.WriteHeader(http.StatusInternalServerError)
	case busy:
		w.Header().Set("Retry-After", "20")
		w.WriteHeader(http.StatusTooManyRequests)
	case hangsUp:
		panic(http.ErrAbortHandler)
	default:
		r.taken[id] = body
	}
}

func (r *receiver) be(m mood) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mood = m
}

// lose arms: the there-th call does not arrive, the back-th is not answered.
func (s *shaky) lose(there, back int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.there, s.back = there, back
}

// be is how the signer is for a while.
func (s *shaky) be(deaf, mute bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deaf, s.mute = deaf, mute
}

func (s *shaky) away() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deaf || s.mute
}

// found takes back what did not strike, and tells whether it had.
func (s *shaky) found() (struck bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	struck = s.there == 0 && s.back == 0
	s.there, s.back = 0, 0
	return struck
}
