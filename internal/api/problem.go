package api

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/mirror"
)

// statuses is the one place where a kind of refusal becomes a status.
var statuses = map[fault.Kind]int{
	fault.Invalid:       http.StatusBadRequest,
	fault.Unauthorized:  http.StatusUnauthorized,
	fault.Forbidden:     http.StatusForbidden,
	fault.NotFound:      http.StatusNotFound,
	fault.Conflict:      http.StatusConflict,
	fault.Unprocessable: http.StatusUnprocessableEntity,
	fault.Blocked:       http.StatusUnavailableForLegalReasons,
	fault.Limited:       http.StatusTooManyRequests,
	fault.Unavailable:   http.StatusServiceUnavailable,
}

// codeStatuses are the refusals of HTTP itself, whose status their kind does not tell.
var codeStatuses = map[fault.Code]int{
	fault.MethodNotAllowed:     http.StatusMethodNotAllowed,
	fault.NotAcceptable:        http.StatusNotAcceptable,
	fault.BodyTooLarge:         http.StatusRequestEntityTooLarge,
	fault.UnsupportedMediaType: http.StatusUnsupportedMediaType,
}

func httpStatus(f *fault.Fault) int {
	if status, ok := codeStatuses[f.Code]; ok {
		return status
	}
	if status, ok := statuses[f.Kind]; ok {
		return status
	}
	return http.StatusInternalServerError
}

// problemBody is the body of every answer that is not a success. Members beside
// these come from the refusal, such as withdrawalId.
func problemBody(f *fault.Fault, requestID string) map[string]any {
	body := map[string]any{}
	for k, v := range f.Extra {
		body[k] = v
	}
	body["error"], body["code"], body["requestId"] = f.Message, f.Code, requestID
	body["retryable"] = f.Kind == fault.Limited || f.Kind == fault.Unavailable || f.Code == fault.Internal
	if f.Param != "" {
		body["param"] = f.Param
	}
	if len(f.Details) > 0 {
		body["details"] = f.Details
	}
	return body
}

// unavailableSeconds is when to come back after a 503.
const unavailableSeconds = "1"

// kindInternal has no status of its own: whatever is not a refusal is our fault.
const kindInternal fault.Kind = 0

// isRead tells the methods that change nothing.
func isRead(method string) bool { return method == http.MethodGet || method == http.MethodHead }

// readOnly is what became of the money in a call that reads.
const readOnly = "You only read, so nothing was changed and no money moved."

// newInternalFault hides an error that is no refusal. What it says depends on the method
// alone: a read changed nothing, a write may have, and repeat says how to find out.
func newInternalFault(method string, err error, repeat string) *fault.Fault {
	const ask = " Give the requestId to the operator of this service if it happens again."
	if isRead(method) {
		return fault.New(kindInternal, fault.Internal, "Something of ours failed. "+readOnly+" Try again."+ask)
	}
	if errors.Is(err, pg.ErrCommitUnknown) {
		return fault.New(kindInternal, fault.Internal, "We lost our database at the moment of writing, so we cannot tell whether this took effect. %s", repeat+ask)
	}
	return fault.New(kindInternal, fault.Internal, "Something of ours failed before we could tell whether this took effect. %s", repeat+ask)
}

// describeOutage is why an error will pass by itself or by the operator's hand, as the beginning of
// a sentence; "" when nothing of the kind is known. What was asked for was not finished,
// and the database did not lose its COMMIT.
func describeOutage(err error) string {
	if errors.Is(err, pg.ErrCommitUnknown) {
		return ""
	}
	if reason := pg.UnavailableReason(err); reason != "" {
		return "The database " + reason
	}
	if _, unconnected := errors.AsType[*pgconn.ConnectError](err); unconnected {
		return "The database cannot be reached"
	}
	if errors.Is(err, signer.ErrUnavailable) {
		return "The signer cannot be reached, or cannot write its journal"
	}
	if errors.Is(err, mirror.ErrUnbound) || mirror.IsContradiction(err) {
		return "The signer and the database do not belong together"
	}
	return ""
}

// newUnavailable is the answer to what will pass. An earlier part of a write may have taken
// effect: repeat says how to find out.
func newUnavailable(method, outage, repeat string) *fault.Fault {
	if isRead(method) {
		repeat = readOnly + " Try again shortly."
	}
	return fault.New(fault.Unavailable, fault.CodeUnavailable, "%s, so this call was not finished. %s", outage, repeat)
}

// writeError answers with an error. An error that is no refusal is logged here and
// nowhere else.
func (a *api) writeError(w http.ResponseWriter, r *http.Request, err error) {
	f := fault.Find(err)
	if errors.Is(err, pg.ErrShareExhausted) {
		// Not 429: a request whose key was not looked up yet may be a replay.
		f = fault.New(fault.Unavailable, fault.CodeUnavailable,
			"Other requests of yours use your whole share of the database, and the turn of this one did not come. Nothing was done by it, which says nothing about earlier attempts. Send fewer at a time, and repeat it after the seconds that Retry-After names, a payment with the same idempotencyKey.")
	}
	if f == nil {
		if f = newInternalFault(r.Method, err, a.surface.retryAdvice); describeOutage(err) != "" {
			f = newUnavailable(r.Method, describeOutage(err), a.surface.retryAdvice)
		}
		a.log.LogAttrs(r.Context(), slog.LevelError, "request failed", slog.String("requestId", requestID(r)),
			slog.String("method", r.Method), slog.String("path", r.URL.Path), slog.Any("error", err))
	}
	if f.Kind == fault.Unavailable && w.Header().Get("Retry-After") == "" {
		w.Header().Set("Retry-After", unavailableSeconds)
	}
	w.Header().Del("Etag")
	w.Header().Set("Cache-Control", "no-store")
	status := httpStatus(f)
	if r.ContentLength != 0 && (status == http.StatusUnauthorized || f.Code == fault.IPNotAllowed || status == http.StatusRequestEntityTooLarge) {
		closeAfterAnswer(w)
	}
	writeJSON(w, status, problemBody(f, requestID(r)))
}

// lingerMax is how long the rest of a body is read that nobody wants: a connection that
// is closed with bytes unread may lose the answer on its way.
const lingerMax = time.Second

// closeAfterAnswer ends the connection after the answer. Who has no key may not have the service
// wait for a body.
func closeAfterAnswer(w http.ResponseWriter) {
	w.Header().Set("Connection", "close")
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(lingerMax)) // where there is none, nothing is waited for
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	raw, err := json.Marshal(body)
	if err != nil {
		panic("api: an answer that cannot be encoded: " + err.Error())
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(raw) // The caller is gone; there is nobody to tell.
}
