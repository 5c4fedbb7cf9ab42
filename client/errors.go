package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// ErrOutcomeUnknown is what errors.Is finds in the error of a call whose effect is
// not known yet. It may have happened, may still happen, or may never happen. Make
// the same call with the same idempotency key until it is answered.
var ErrOutcomeUnknown = errors.New("client: the outcome is not known; repeat the call with the same idempotency key")

// ErrNotModified is the error of a conditional read whose ETag is still current.
var ErrNotModified = errors.New("client: not modified")

// Code names a refusal. Each Code is an error, so errors.Is(err,
// client.InsufficientBalance) checks for it. Codes are added without notice.
type Code string

func (c Code) Error() string { return "client: " + string(c) }

// Error is an answer of the service that reports a failure.
type Error struct {
	Status        int            `json:"-"`
	Code          Code           `json:"code"`
	Message       string         `json:"error"` // says what is wrong, what happened to the money and what to do
	RequestID     string         `json:"requestId"`
	Param         string         `json:"param"` // the field or parameter at fault
	Details       map[string]any `json:"details"`
	Retryable     bool           `json:"retryable"`
	ExistingID    string         `json:"existingId"`    // with IdempotencyConflict: the id that has the key
	CurrentStatus string         `json:"currentStatus"` // with InvalidState
	WithdrawalID  string         `json:"withdrawalId"`  // with WithdrawalRiskBlocked
	// with QuoteRejected: what the swap provider said, if one refused
	ProviderMessage string `json:"providerMessage"`

	RetryAfter time.Duration   `json:"-"` // the wait that the answer demands, or 0
	Method     string          `json:"-"`
	Path       string          `json:"-"`
	Body       json.RawMessage `json:"-"` // the whole answer; nil if it was no JSON

	unknown bool
}

func (e *Error) Error() string {
	text := fmt.Sprintf("%s %s: %d %s: %s (%s)", e.Method, e.Path, e.Status, e.Code, e.Message, e.RequestID)
	if e.unknown && e.Status < 500 {
		text += " An earlier attempt of this call may have taken effect: repeat it with the same idempotency key."
	}
	return text
}

// Is reports whether target is the error's Code, or ErrOutcomeUnknown if the outcome is unknown.
func (e *Error) Is(target error) bool {
	if code, ok := target.(Code); ok {
		return e.Code == code
	}
	return target == ErrOutcomeUnknown && e.unknown
}

// NoAnswer is the error of a call that got no readable answer. Err is the reason.
type NoAnswer struct {
	Method, Path string
	Err          error

	unknown bool
}

func (e *NoAnswer) Error() string {
	text := fmt.Sprintf("%s %s: no answer: %v", e.Method, e.Path, e.Err)
	if e.unknown {
		text += " (it is not known whether the call took effect: repeat it with the same idempotency key)"
	}
	return text
}

// Unwrap returns the reason, such as context.DeadlineExceeded.
func (e *NoAnswer) Unwrap() error { return e.Err }

// Is reports whether target is ErrOutcomeUnknown and the outcome is unknown. Rule DOC-4.
func (e *NoAnswer) Is(target error) bool { return target == ErrOutcomeUnknown && e.unknown }

// refusal decodes the answer to a refused request. A proxy may have written it: an
// answer that is not the service's has no Code, and its status decides.
func refusal(k call, got Response, raw []byte) *Error {
	e := &Error{}
	if json.Unmarshal(raw, e) != nil || e.Code == "" {
		*e = Error{Message: http.StatusText(got.Status)}
	} else {
		e.Body = raw
	}
	e.Status, e.Method, e.Path = got.Status, k.method, k.path
	if e.RequestID == "" {
		e.RequestID = got.RequestID
	}
	if seconds, err := strconv.ParseInt(got.Header.Get("Retry-After"), 10, 32); err == nil && seconds > 0 {
		e.RetryAfter = time.Duration(seconds) * time.Second
	}
	return e
}
