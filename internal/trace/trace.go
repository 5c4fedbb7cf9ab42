// Package trace times pieces of work for whoever wants to see them: requests,
// transactions, steps of a payment. It is off unless the configuration names where the
// spans go, and costs nothing then.
//
// A payment outlives the request that asked for it, so a span of it belongs to a trace
// whose id follows from the payment's own: what any process does about wd_… is found
// under one trace, after a restart as well, and the request has a link to it.
//
// What never happens here: a secret, an address, an amount or the text of an error in a
// span; ids and outcomes are all that one holds. A decision that depends on a span. What
// a crash leaves: the spans of its last seconds are missing.
package trace

import (
	"context"
	"crypto/sha256"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/cofferpay/coffer/internal/fault"
)

// tracer makes the spans; nil while nobody wants them.
var tracer atomic.Pointer[trace.Tracer]

// Use has spans made from now on; nil has none made.
func Use(p trace.TracerProvider) {
	if p == nil {
		tracer.Store(nil)
		return
	}
	t := p.Tracer("github.com/cofferpay/coffer")
	tracer.Store(&t)
}

// Span is a piece of work that is going on. The zero value is one that nobody wants.
type Span struct{ span trace.Span }

// Start begins a piece of work within the one that ctx belongs to.
func Start(ctx context.Context, name string) (context.Context, Span) {
	t := tracer.Load()
	if t == nil {
		return ctx, Span{}
	}
	ctx, s := (*t).Start(ctx, name)
	return ctx, Span{s}
}

// Within is Start for work that nobody wants to see by itself: it begins nothing when
// ctx belongs to no other.
func Within(ctx context.Context, name string) (context.Context, Span) {
	if tracer.Load() == nil || !trace.SpanContextFromContext(ctx).IsValid() {
		return ctx, Span{}
	}
	return Start(ctx, name)
}

// Since is Start for work that turned out to be some only now, having begun at a
// moment: who looks every moment for something to do begins nothing when there is none.
// What was done meanwhile is not inside it.
func Since(ctx context.Context, name string, began time.Time) Span {
	t := tracer.Load()
	if t == nil {
		return Span{}
	}
	_, s := (*t).Start(ctx, name, trace.WithTimestamp(began))
	return Span{s}
}

// About begins a piece of work in the trace of a thing that has an id, such as a
// withdrawal. Where ctx belongs to another trace, the two are linked.
func About(ctx context.Context, name, id string) (context.Context, Span) {
	t := tracer.Load()
	if t == nil {
		return ctx, Span{}
	}
	of, opts := Of(id), []trace.SpanStartOption{trace.WithAttributes(attribute.String(idKey, id))}
	if here := trace.SpanContextFromContext(ctx); here.IsValid() && here.TraceID() != of.TraceID() {
		opts = append(opts, trace.WithLinks(trace.Link{SpanContext: here}))
		ctx = trace.ContextWithRemoteSpanContext(ctx, of)
	} else if !here.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, of)
	}
	ctx, s := (*t).Start(ctx, name, opts...)
	return ctx, Span{s}
}

const idKey = "coffer.id"

// Of is where the trace of a thing with an id begins.
func Of(id string) trace.SpanContext {
	sum := sha256.Sum256([]byte("coffer trace " + id))
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID(sum[:16]), SpanID: trace.SpanID(sum[16:24]), TraceFlags: trace.FlagsSampled, Remote: true,
	})
}

// Note says that the work of ctx is about a thing with an id, and links it to the
// trace of that.
func Note(ctx context.Context, id string) {
	if tracer.Load() == nil || id == "" {
		return
	}
	s := trace.SpanFromContext(ctx)
	s.SetAttributes(attribute.String(idKey, id))
	if of := Of(id); s.SpanContext().TraceID() != of.TraceID() {
		s.AddLink(trace.Link{SpanContext: of})
	}
}

// Say adds a word of our own to the span, such as a role or a status. It is no place
// for what somebody sent.
func (s Span) Say(key, value string) {
	if s.span != nil {
		s.span.SetAttributes(attribute.String("coffer."+key, value))
	}
}

// Rename is for a name that is known late, as a request's route is.
func (s Span) Rename(name string) {
	if s.span != nil {
		s.span.SetName(name)
	}
}

// End ends the piece of work. Of an error it tells the code that a caller would see, or
// that there was one: its text may hold what a provider's URL holds.
func (s Span) End(err error) {
	if s.span == nil {
		return
	}
	if err != nil {
		word := "error"
		if f := fault.Of(err); f != nil {
			word = string(f.Code)
		}
		s.span.SetStatus(codes.Error, word)
	}
	s.span.End()
}
