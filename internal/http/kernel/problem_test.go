package kernel

import (
	"net/http"
	"testing"

	"github.com/cofferpay/coffer/internal/fault"
)

// Each kind has a status, so that no refusal of a feature becomes a 500.
func TestEveryKindHasItsStatus(t *testing.T) {
	t.Parallel()
	for kind := fault.Invalid; kind <= fault.Unavailable; kind++ {
		got := HTTPStatus(fault.New(kind, "X", fault.NothingWritten, "x"))
		if got < 400 || got == http.StatusInternalServerError {
			t.Errorf("kind %d: got %v, want a status of its own", kind, got)
		}
	}
}
