package delivery

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/cofferpay/coffer/internal/platform/outbound"
)

// describeError returns the reason why there was no answer, as one word and as a short text. It
// names no address.
func describeError(err error) (cause, text string) {
	var dns *net.DNSError
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, outbound.ErrForbidden):
		return "forbidden", outbound.ErrForbidden.Error()
	case errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout():
		return "timeout", fmt.Sprintf("no answer within %v", answerTimeout)
	case errors.As(err, &dns):
		return "name", "the host name could not be resolved"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused", "the connection was refused"
	case errors.Is(err, syscall.ECONNRESET):
		return "reset", "the connection was reset"
	}
	return "other", "the request could not be completed: " + innermostText(err)
}

// innermostText returns the innermost error's text, truncated. The outer errors repeat the URL.
func innermostText(err error) string {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			break
		}
		err = inner
	}
	return truncateText([]byte(err.Error()), errorBytesMax)
}
