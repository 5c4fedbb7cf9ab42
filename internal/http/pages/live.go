package pages

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/identity/session"
	"github.com/cofferpay/coffer/internal/platform/seal"
)

// livePath is the stream that tells an open page what changed.
const livePath = "/live"

// LiveHeader marks the request of a page that loads itself again. Such a request is no sign of a person,
// so it does not move the idle limit of the session. Rule PAGE-8.
const LiveHeader = "X-Coffer-Live"

// Bounds of streams. A tab that is not visible has none.
const (
	streamsPerSession = 3
	streamsMax        = 2000
	// heartbeat is how often a silent stream says that it is there, and looks whether its session is.
	heartbeat = 15 * time.Second
	// streamWriteMax is how long a write may take. The browser then connects anew.
	streamWriteMax = 10 * time.Second
	// namedMax is how many changes one message names. The page loads itself again in any case.
	namedMax = 100
)

// streams counts the open streams.
type streams struct {
	mu        sync.Mutex
	total     int
	bySession map[string]int
}

// enter counts a stream of a session, if there is room for it.
func (s *streams) enter(sessionID string) (leave func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.total >= streamsMax || s.bySession[sessionID] >= streamsPerSession {
		return nil, false
	}
	if s.bySession == nil {
		s.bySession = map[string]int{}
	}
	s.total++
	s.bySession[sessionID]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.total--
		if s.bySession[sessionID]--; s.bySession[sessionID] == 0 {
			delete(s.bySession, sessionID)
		}
	}, true
}

// liveQuery says what a stream tells: kinds of resources, and one resource where the page shows one.
var liveQuery = []kernel.Parameter{
	{Name: "after", Kind: kernel.TextParameter, Max: 20},
	{Name: "kinds", Kind: kernel.TextParameter, Max: 500},
	{Name: "resource", Kind: kernel.TextParameter, Max: 400},
}

// livePathOf returns the stream of a page, and "" for a page that does not change by itself. A page with
// parameters in its path shows the resource of the last one. The script keeps a page still on which a person works.
// Rule PAGE-9.
func (s *server) livePathOf(r *Request, position int64) string {
	if len(r.page.Live) == 0 || s.conf.Changes == nil || r.Session == nil || !r.Session.IsOpen() || r.Form.Act != "" ||
		!isRead(r.Method) { // The answer to a form may be shown once.
		return ""
	}
	query := url.Values{"after": {strconv.FormatInt(position, 10)}, "kinds": {strings.Join(r.page.Live, ",")}}
	if resourceID := r.ResourceID(); resourceID != "" && !r.page.LiveOfAll {
		query.Set("resource", resourceID)
	}
	return s.surface.Prefix + livePath + "?" + query.Encode()
}

// position returns how far the changes are known before a page is loaded.
func (s *server) position(p Page) int64 {
	if len(p.Live) == 0 || s.conf.Changes == nil {
		return 0
	}
	return s.conf.Changes.Position()
}

// serveLive is the stream of one page: it names resources that changed, and never has their data. A member
// hears of the own organization alone, and an operator of all. It ends with its session. Rules PAGE-8, PAGE-47.
func (s *server) serveLive(w http.ResponseWriter, r *http.Request) {
	token := seal.NewSecret(readCookie(r, s.surface.SessionCookie))
	found, err := s.surface.LookAtSession(r.Context(), token)
	query, queryErr := kernel.ReadQuery(r, liveQuery)
	if err != nil || queryErr != nil || s.conf.Changes == nil || !found.IsOpen() ||
		s.surface.ContinuePath(found) != "" || found.OrgID == "" && found.Operator.ID == "" {
		w.WriteHeader(http.StatusNoContent) // a browser does not ask again
		return
	}
	leave, ok := s.streams.enter(found.ID)
	if !ok {
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	defer leave()
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // The stream outlasts the deadline of a request.
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	send := func(text []byte) bool {
		_ = control.SetWriteDeadline(time.Now().Add(streamWriteMax))
		_, err := w.Write(text)
		return err == nil && control.Flush() == nil
	}
	after := firstNumber(r.Header.Get("Last-Event-ID"), query["after"])
	watch := s.conf.Changes.StartWatch(found.OrgID, after)
	defer watch.Close()
	if !send([]byte(": \n\n")) {
		return
	}
	topic := liveTopic{kinds: strings.Split(query["kinds"], ","), resource: query["resource"]}
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		patient, cancel := context.WithTimeout(r.Context(), heartbeat)
		news := watch.Wait(patient)
		cancel()
		if r.Context().Err() != nil || news.IsOver {
			return
		}
		message := topic.message(news)
		select {
		case <-beat.C:
			if !s.isLive(r.Context(), token, found) {
				send([]byte("event: ended\ndata: \n\n"))
				return
			}
			message = append(message, ": \n\n"...)
		default:
		}
		if len(message) > 0 && !send(message) {
			return
		}
	}
}

// isLive reports whether the session of a stream goes on with the same rights. An error of ours ends the
// stream, and the browser connects anew.
func (s *server) isLive(ctx context.Context, token seal.Secret, before session.Session) bool {
	now, err := s.surface.LookAtSession(ctx, token)
	return err == nil && now.IsOpen() && now.OrgID == before.OrgID &&
		slices.Equal(now.Member.Roles, before.Member.Roles) && slices.Equal(now.Operator.Roles, before.Operator.Roles)
}

// firstNumber returns the first of some texts that is a number, and 0 if none is.
func firstNumber(texts ...string) int64 {
	for _, text := range texts {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= 0 {
			return n
		}
	}
	return 0
}

// liveTopic is what a stream tells.
type liveTopic struct {
	kinds    []string
	resource string // "" for every resource of the kinds
}

// message writes news as an event, and returns nil if they do not concern the topic.
func (t liveTopic) message(news audit.News) []byte {
	var out bytes.Buffer
	named := map[string]bool{}
	for _, c := range news.Changes {
		if !slices.Contains(t.kinds, c.ResourceKind) || t.resource != "" && t.resource != c.ResourceID {
			continue
		}
		line := c.ResourceKind + " " + c.ResourceID
		if !named[line] && len(named) < namedMax && !strings.ContainsAny(line, "\r\n") {
			named[line] = true
			out.WriteString("data: " + line + "\n")
		}
	}
	if news.HasGap {
		out.WriteString("data: \n")
	}
	if out.Len() == 0 {
		return nil
	}
	return fmt.Appendf(nil, "id: %d\nevent: change\n%s\n", news.Position, out.Bytes())
}
