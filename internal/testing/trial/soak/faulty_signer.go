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

// errLostAnswer is the error of a call that may have been made.
var errLostAnswer = errors.New("the answer was lost")

// faultySigner is a signer whose calls or answers get lost.
type faultySigner struct {
	signer.Signer
	mu           sync.Mutex
	lostIn       int  // calls until one does not arrive; 0: never
	unansweredIn int  // calls until one is not answered; 0: never
	deaf         bool // no call arrives
	mute         bool // none is answered
	faults       *counter
}

// The faults of a signer.
const (
	signerUnheard  = "signer: call lost"
	signerSilent   = "signer: answer lost"
	signerRestarts = "signer: restarted"
)

func (s *faultySigner) drawFault() (lost, unanswered bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	hit := func(n *int, kind string) bool {
		if *n == 0 {
			return false
		}
		*n--
		if *n == 0 {
			s.faults.addOne(kind)
			return true
		}
		return false
	}
	lost, unanswered = hit(&s.lostIn, signerUnheard) || s.deaf, hit(&s.unansweredIn, signerSilent) || s.mute
	if s.deaf {
		s.faults.addOne(signerUnheard)
	} else if s.mute {
		s.faults.addOne(signerSilent)
	}
	return lost, unanswered
}

func callWithFaults[T any](s *faultySigner, call func() (T, error)) (T, error) {
	var zero T
	lost, unanswered := s.drawFault()
	if lost {
		return zero, errLostAnswer
	}
	got, err := call()
	if unanswered {
		return zero, errLostAnswer
	}
	return got, err
}

func (s *faultySigner) IssueAddress(ctx context.Context, w signer.WalletRef) (signer.IssuedAddress, error) {
	return callWithFaults(s, func() (signer.IssuedAddress, error) { return s.Signer.IssueAddress(ctx, w) })
}

func (s *faultySigner) AdmitIntent(ctx context.Context, i signer.Intent) (signer.Entry, error) {
	return callWithFaults(s, func() (signer.Entry, error) { return s.Signer.AdmitIntent(ctx, i) })
}

func (s *faultySigner) Sign(ctx context.Context, r signer.SignRequest) (signer.SignedTx, error) {
	return callWithFaults(s, func() (signer.SignedTx, error) { return s.Signer.Sign(ctx, r) })
}

// receiverMode is how a receiver of webhooks behaves.
type receiverMode string

// The modes; every mode other than well is a fault.
const (
	modeOK      receiverMode = ""
	modeRefuses receiverMode = "receiver: answers 500"
	modeHangsUp receiverMode = "receiver: accepts and hangs up"
	modeBusy    receiverMode = "receiver: answers 429"
)

var receiverModes = []receiverMode{modeRefuses, modeHangsUp, modeBusy}

// receiver is the organization's webhook endpoint. It remembers everything that arrived, whatever
// it answered.
type receiver struct {
	*httptest.Server
	mu      sync.Mutex
	mood    receiverMode
	taken   map[string][]byte // by event: the body that was answered 2xx
	first   map[string][]byte // by event: the body that arrived first
	posts   int
	faults  *counter
	trouble []string
}

func newReceiver(faults *counter) *receiver {
	r := &receiver{taken: map[string][]byte{}, first: map[string][]byte{}, faults: faults}
	r.Server = httptest.NewServer(http.HandlerFunc(r.handlePost))
	return r
}

func (r *receiver) handlePost(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	id := q.Header.Get(webhook.HeaderID)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.posts++
	if err != nil || id == "" {
		r.trouble = append(r.trouble, "a post without an id or a body")
	}
	if earlier, ok := r.first[id]; ok && !bytes.Equal(earlier, body) {
		r.trouble = append(r.trouble, "event "+id+" was sent with two bodies")
	}
	r.first[id] = body
	if r.mood != modeOK {
		r.faults.addOne(string(r.mood))
	}
	switch r.mood {
	case modeRefuses:
		w.WriteHeader(http.StatusInternalServerError)
	case modeBusy:
		w.Header().Set("Retry-After", "20")
		w.WriteHeader(http.StatusTooManyRequests)
	case modeHangsUp:
		panic(http.ErrAbortHandler)
	default:
		r.taken[id] = body
	}
}

func (r *receiver) setMood(m receiverMode) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mood = m
}

// armLoss arms the faults: the lostIn-th call does not arrive, the unansweredIn-th is not answered.
func (s *faultySigner) armLoss(lostIn, unansweredIn int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lostIn, s.unansweredIn = lostIn, unansweredIn
}

// setAway sets whether the signer receives and answers calls.
func (s *faultySigner) setAway(deaf, mute bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deaf, s.mute = deaf, mute
}

func (s *faultySigner) isAway() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deaf || s.mute
}

// disarmLoss disarms a fault that has not struck, and reports whether it had.
func (s *faultySigner) disarmLoss() (struck bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	struck = s.lostIn == 0 && s.unansweredIn == 0
	s.lostIn, s.unansweredIn = 0, 0
	return struck
}
