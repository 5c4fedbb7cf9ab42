package payerpages

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/cofferpay/coffer/internal/platform/id"
)

const (
	// heartbeat is how often a silent stream says that it is there.
	heartbeat = 15 * time.Second
	// streamWriteMax is how long a write may take, so that a slow reader keeps no stream. The browser connects anew.
	streamWriteMax = 10 * time.Second
	// streamMax is how long a stream lives. The browser connects anew.
	streamMax = 30 * time.Minute
)

// afterName is the query parameter with the version of the page; a browser that connects anew sends a header.
const afterName = "after"

// serveLive is the stream of an open page: it names the new version of the checkout, and the page loads itself again.
// It has no data of the checkout, so it tells nothing that the page would not. Rule CO-45.
func (s *server) serveLive(w http.ResponseWriter, r *http.Request) {
	checkoutID := chi.URLParam(r, "checkoutId")
	client := s.conf.Proxies.RateKey(r)
	req := &request{Request: r, w: w, checkoutID: checkoutID}
	req.language, req.isNamed = chooseLanguage(r)
	if wait := s.rates.lives.CountRequest(client); wait > 0 {
		s.refuseRate(req, wait)
		return
	}
	leave, ok := s.streams.enter(client)
	if !ok {
		s.refuseRate(req, heartbeat)
		return
	}
	defer leave()
	if !id.IsValid(idPrefix, checkoutID) {
		s.answerError(req, errNoPage)
		return
	}
	watch := s.versions.watch(checkoutID)
	defer watch.close()
	_, _, _, changed := watch.read() // before the question, so that nothing is missed between the two
	version, err := s.askVersion(r.Context(), checkoutID)
	if err != nil {
		s.answerError(req, err)
		return
	}
	sent := readVersion(r.Header.Get("Last-Event-ID"), r.URL.Query().Get(afterName))
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // The stream outlasts the deadline of a request.
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	send := func(text string) bool {
		_ = control.SetWriteDeadline(time.Now().Add(streamWriteMax))
		_, err := w.Write([]byte(text))
		return err == nil && control.Flush() == nil
	}
	if !send("retry: 3000\n\n") {
		return
	}
	beat, end := time.NewTicker(heartbeat), time.NewTimer(streamMax)
	defer beat.Stop()
	defer end.Stop()
	for {
		if version != sent {
			sent = version
			if !send(fmt.Sprintf("id: %d\nevent: change\ndata: \n\n", version)) {
				return
			}
		}
		select {
		case <-r.Context().Done():
			return
		case <-s.conf.Stopped:
			return
		case <-end.C:
			return
		case <-beat.C:
			if !send(": \n\n") {
				return
			}
		case <-changed:
			var isKnown, isGone bool
			var found int64
			if found, isKnown, isGone, changed = watch.read(); isGone {
				return
			}
			if isKnown {
				version = found
			}
		}
	}
}

// askVersion returns the version of one checkout. Error: errNoPage.
func (s *server) askVersion(ctx context.Context, checkoutID string) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	found, err := s.conf.Checkouts.Versions(ctx, []string{checkoutID})
	if err != nil {
		return 0, err
	}
	version, isThere := found[checkoutID]
	if !isThere {
		return 0, errNoPage
	}
	return version, nil
}

// readVersion returns the first of some texts that is a version. Without one, the page hears of the present version.
func readVersion(texts ...string) int64 {
	for _, text := range texts {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n
		}
	}
	return -1
}
