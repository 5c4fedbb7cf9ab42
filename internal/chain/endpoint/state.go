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
	e.stateLock.Lock()
	defer e.stateLock.Unlock()
	if failure == "" {
		e.state.AnsweredAt, e.state.Failures = time.Now(), 0
		return
	}
	e.state.FailedAt, e.state.Failure = time.Now(), failure
	e.state.Failures++
}

// recordNetwork notes that the provider is on another network: it answers, and none of its answers is used.
func (e *Endpoint) recordNetwork(err error) {
	var wrong *quorum.WrongNetworkError
	if !errors.As(err, &wrong) {
		return
	}
	e.stateLock.Lock()
	defer e.stateLock.Unlock()
	e.state.FailedAt, e.state.Failure = time.Now(), quorum.TruncateAnswer(wrong.Error())
	e.state.Failures++
}

// KeepHeads implements quorum.HeadKeeper.
func (e *Endpoint) KeepHeads(heads chain.Heads) {
	e.stateLock.Lock()
	defer e.stateLock.Unlock()
	e.state.Latest, e.state.Final, e.state.HeadsAt = heads.Latest.Height, heads.Final.Height, time.Now()
}

// KeepContradiction implements quorum.ContradictionKeeper.
func (e *Endpoint) KeepContradiction() {
	e.stateLock.Lock()
	defer e.stateLock.Unlock()
	e.state.ContradictedAt = time.Now()
}

// State returns what this process has seen of the provider.
func (e *Endpoint) State() chain.ProviderState {
	e.stateLock.Lock()
	defer e.stateLock.Unlock()
	state := e.state
	state.Name, state.IsIdentified = e.name, e.handshakeDone.Load()
	if pauseEnd := time.Unix(0, e.pausedUntil.Load()); pauseEnd.After(time.Now()) {
		state.PausedUntil = pauseEnd
	}
	return state
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
