package stories

import (
	"slices"
	"strings"

	sdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/cofferpay/coffer/internal/platform/trace"
)

// wantTrace checks that a click is one trace down to the database: the span of the request of the act is the
// ancestor of those of its transactions, and it links the trace of the payment that it is about. Rule PAGE-65.
func (s *story) wantTrace(method, route, id string) {
	s.Helper()
	ended := s.spans.Ended()
	payment := trace.ContextOf(id).TraceID()
	click := slices.IndexFunc(ended, func(span sdk.ReadOnlySpan) bool {
		return strings.HasPrefix(span.Name(), method+" ") && strings.Contains(span.Name(), route) &&
			slices.ContainsFunc(span.Links(), func(l sdk.Link) bool { return l.SpanContext.TraceID() == payment })
	})
	if click < 0 {
		s.Fatalf("no span of %s %s is linked to the trace of %s", method, route, id)
	}
	root := ended[click].SpanContext()
	if ended[click].Parent().IsValid() {
		s.Errorf("the click has the parent %s, want it to begin the trace", ended[click].Parent().SpanID())
	}
	transactions := 0
	for _, span := range ended {
		if span.SpanContext().TraceID() != root.TraceID() || span.Name() != "transaction" {
			continue
		}
		transactions++
		if span.Parent().SpanID() != root.SpanID() {
			s.Errorf("a transaction of the click has the parent %s, want %s", span.Parent().SpanID(), root.SpanID())
		}
	}
	// The session, the withdrawal, the second factor and the act itself.
	const transactionsMin = 4
	if transactions < transactionsMin {
		s.Errorf("got %d transactions in the trace of the click, want at least %d", transactions, transactionsMin)
	}
}
