package endpoint

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/quorum"
)

// recordAnswer notes how a request ended. A request that its caller gave up says nothing about the provider.
func (e *Endpoint) recordAnswer(response *http.Response, err error) {
	failure := ""
	switch {
	case errors.Is(err, context.Canceled) || errors.Is(err, errPaused):
		return
	case err != nil:
		failure = quorum.TruncateAnswer(withoutURL(err).Error())
	case response.StatusCode >= http.StatusBadRequest:
		failure = "answered " + strconv.Itoa(response.StatusCode) + " " + http.StatusText(response.StatusCode)
	}
	e.seenLock.Lock()
	defer e.seenLock.Unlock()
	if failure == "" {
		e.seen.AnsweredAt, e.seen.Failures = time.Now(), 0
		return
	}
	e.seen.FailedAt, e.seen.Failure = time.Now(), failure
	e.seen.Failures++
}

// recordNetwork notes that the provider is on another network: it answers, and none of its answers is used.
func (e *Endpoint) recordNetwork(err error) {
	var wrong *quorum.WrongNetworkError
	if !errors.As(err, &wrong) {
		return
	}
	e.seenLock.Lock()
	defer e.seenLock.Unlock()
	e.seen.FailedAt, e.seen.Failure = time.Now(), quorum.TruncateAnswer(wrong.Error())
	e.seen.Failures++
}

// KeepHeads implements quorum.HeadKeeper.
func (e *Endpoint) KeepHeads(heads chain.Heads) {
	e.seenLock.Lock()
	defer e.seenLock.Unlock()
	e.seen.Latest, e.seen.Final, e.seen.HeadsAt = heads.Latest.Height, heads.Final.Height, time.Now()
}

// KeepContradiction implements quorum.ContradictionKeeper.
func (e *Endpoint) KeepContradiction() {
	e.seenLock.Lock()
	defer e.seenLock.Unlock()
	e.seen.ContradictedAt = time.Now()
}

// State returns what this process has seen of the provider.
func (e *Endpoint) State() chain.ProviderState {
	e.seenLock.Lock()
	defer e.seenLock.Unlock()
	seen := e.seen
	seen.Name, seen.IsIdentified = e.name, e.handshakeDone.Load()
	if until := time.Unix(0, e.pausedUntil.Load()); until.After(time.Now()) {
		seen.PausedUntil = until
	}
	return seen
}

// Stater is a provider that tells what was seen of it.
type Stater interface{ State() chain.ProviderState }

// StatesOf returns what this process has seen of providers.
func StatesOf[P Stater](providers []P) func() []chain.ProviderState {
	return func() []chain.ProviderState {
		states := make([]chain.ProviderState, 0, len(providers))
		for _, p := range providers {
			states = append(states, p.State())
		}
		return states
	}
}
