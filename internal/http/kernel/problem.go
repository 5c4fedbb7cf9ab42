package kernel

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// statuses maps a kind of refusal to its HTTP status. It is the only place that does.
var statuses = map[fault.Kind]int{
	fault.Invalid:        http.StatusBadRequest,
	fault.Unauthorized:   http.StatusUnauthorized,
	fault.Forbidden:      http.StatusForbidden,
	fault.NotFound:       http.StatusNotFound,
	fault.Conflict:       http.StatusConflict,
	fault.Unprocessable:  http.StatusUnprocessableEntity,
	fault.Blocked:        http.StatusUnavailableForLegalReasons,
	fault.Limited:        http.StatusTooManyRequests,
	fault.Unavailable:    http.StatusServiceUnavailable,
	fault.BadGateway:     http.StatusBadGateway,
	fault.GatewayTimeout: http.StatusGatewayTimeout,
}

// codeStatuses are the refusals of HTTP itself, whose status does not follow from their kind.
var codeStatuses = map[fault.Code]int{
	fault.MethodNotAllowed:     http.StatusMethodNotAllowed,
	fault.NotAcceptable:        http.StatusNotAcceptable,
	fault.BodyTooLarge:         http.StatusRequestEntityTooLarge,
	fault.UnsupportedMediaType: http.StatusUnsupportedMediaType,
}

// HTTPStatus returns the status of a refusal.
func HTTPStatus(f *fault.Fault) int {
	if status, ok := codeStatuses[f.Code]; ok {
		return status
	}
	if status, ok := statuses[f.Kind]; ok {
		return status
	}
	return http.StatusInternalServerError
}

// problemBody builds the body of every answer that is not a success. Further members, such as
// withdrawalId, come from the refusal. Rule REQ-4.
func (s *Surface) problemBody(f *fault.Fault, requestID string) map[string]any {
	body := map[string]any{}
	for k, v := range f.Extra {
		body[k] = v
	}
	body["error"], body["code"], body["requestId"] = s.Words.Sentences(f), f.Code, requestID
	body["retryable"] = f.Kind == fault.Limited || HTTPStatus(f) >= http.StatusInternalServerError
	if f.Param != "" {
		body["param"] = f.Param
	}
	if len(f.Details) > 0 {
		body["details"] = f.Details
	}
	return body
}

// unavailableSeconds is the Retry-After of a 503.
const unavailableSeconds = "1"

// KindInternal has no status of its own: an error that is no refusal is our fault.
const KindInternal fault.Kind = 0

// isRead reports whether a method changes nothing.
func isRead(method string) bool { return method == http.MethodGet || method == http.MethodHead }

// newInternalFault hides an error that is no refusal. Its text depends on the method: a read
// changed nothing, but a write may have, and repeat says how to find out. After ErrCommitUnknown it
// says that the outcome is unknown. Rule IDEM-7.
func newInternalFault(method string, err error, repeat string) *fault.Fault {
	const ask = " If it happens again, give the requestId to the operator of this service."
	reason := "An internal error stopped this call."
	if isRead(method) {
		return fault.New(KindInternal, fault.Internal, fault.ReadOnly, "%s", reason).WithAdvice("Try again." + ask)
	}
	if errors.Is(err, pg.ErrCommitUnknown) {
		reason = "The database connection was lost during the commit."
	}
	return fault.New(KindInternal, fault.Internal, fault.Unknown, "%s", reason).WithAdvice("%s", repeat+ask)
}

// newUnavailable builds the answer to an error that will pass. An earlier part of a write may have
// taken effect: repeat says how to find out. Rule REQ-14.
func newUnavailable(method, outage, repeat string) *fault.Fault {
	effect := fault.Stated
	if isRead(method) {
		effect, repeat = fault.ReadOnly, "Try again shortly."
	}
	return fault.New(fault.Unavailable, fault.CodeUnavailable, effect,
		"%s, so this call was not finished.", outage).WithAdvice("%s", repeat)
}

// writeError answers with an error. It is the only place that logs errors that are no refusals.
func (s *server) writeError(w http.ResponseWriter, r *http.Request, err error) {
	f := fault.Find(err)
	if errors.Is(err, pg.ErrShareExhausted) {
		// Not 429: a request whose idempotency key was not yet looked up may be a replay.
		f = fault.New(fault.Unavailable, fault.CodeUnavailable, fault.Unprocessed,
			"Other requests of your organization use its whole share of the database, and this request waited too "+
				"long.").WithAdvice("Send fewer requests at a time. " +
			"Repeat this one after the seconds in Retry-After; repeat a payment with the same idempotencyKey.")
	}
	if f == nil {
		if f = newInternalFault(r.Method, err,
			s.surface.retryAdvice(servedRoute(r))); s.surface.DescribeOutage(err) != "" {
			f = newUnavailable(r.Method, s.surface.DescribeOutage(err), s.surface.retryAdvice(servedRoute(r)))
		}
		s.log.LogAttrs(r.Context(), slog.LevelError, "request failed", slog.String("requestId", RequestID(r)),
			slog.String("method", r.Method), slog.String("path", r.URL.Path), slog.Any("error", err))
	}
	if f.Kind == fault.Unavailable && w.Header().Get("Retry-After") == "" {
		w.Header().Set("Retry-After", unavailableSeconds)
	}
	w.Header().Del("Etag")
	w.Header().Set("Cache-Control", "no-store")
	status := HTTPStatus(f)
	if r.ContentLength != 0 && (status == http.StatusUnauthorized || f.Code == fault.IPNotAllowed ||
		status == http.StatusRequestEntityTooLarge) {
		closeAfterAnswer(w)
	}
	writeJSON(w, status, s.surface.problemBody(f, RequestID(r)))
}

// lingerMax is how long the rest of an unwanted body is read. A connection that is closed with
// unread bytes may lose the answer.
const lingerMax = time.Second

// closeAfterAnswer ends the connection after the answer. A caller without a key must not make the
// service wait for a body. Rule REQ-9.
func closeAfterAnswer(w http.ResponseWriter) {
	w.Header().Set("Connection", "close")
	// Without a deadline there is no body to wait for.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(lingerMax))
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	raw, err := json.Marshal(body)
	if err != nil {
		panic("kernel: cannot encode an answer: " + err.Error())
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(raw) // The caller is gone.
}
