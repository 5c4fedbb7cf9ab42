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

// SetProvider has spans made from now on; nil has none made.
func SetProvider(p trace.TracerProvider) {
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

// StartChild is Start for work that nobody wants to see by itself: it begins nothing when
// ctx belongs to no other.
func StartChild(ctx context.Context, name string) (context.Context, Span) {
	if tracer.Load() == nil || !trace.SpanContextFromContext(ctx).IsValid() {
		return ctx, Span{}
	}
	return Start(ctx, name)
}

// StartSince is Start for work that turned out to be some only now, having begun at a
// moment: who looks every moment for something to do begins nothing when there is none.
// What was done meanwhile is not inside it.
func StartSince(ctx context.Context, name string, began time.Time) Span {
	t := tracer.Load()
	if t == nil {
		return Span{}
	}
	_, s := (*t).Start(ctx, name, trace.WithTimestamp(began))
	return Span{s}
}

// StartAbout begins a piece of work in the trace of a thing that has an id, such as a
// withdrawal. Where ctx belongs to another trace, the two are linked.
func StartAbout(ctx context.Context, name, id string) (context.Context, Span) {
	t := tracer.Load()
	if t == nil {
		return ctx, Span{}
	}
	target, opts := ContextOf(id), []trace.SpanStartOption{trace.WithAttributes(attribute.String(idKey, id))}
	if current := trace.SpanContextFromContext(ctx); current.IsValid() && current.TraceID() != target.TraceID() {
		opts = append(opts, trace.WithLinks(trace.Link{SpanContext: current}))
		ctx = trace.ContextWithRemoteSpanContext(ctx, target)
	} else if !current.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, target)
	}
	ctx, s := (*t).Start(ctx, name, opts...)
	return ctx, Span{s}
}

const idKey = "coffer.id"

// ContextOf is where the trace of a thing with an id begins.
func ContextOf(id string) trace.SpanContext {
	sum := sha256.Sum256([]byte("coffer trace " + id))
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID(sum[:16]), SpanID: trace.SpanID(sum[16:24]), TraceFlags: trace.FlagsSampled, Remote: true,
	})
}

// LinkTo says that the work of ctx is about a thing with an id, and links it to the
// trace of that.
func LinkTo(ctx context.Context, id string) {
	if tracer.Load() == nil || id == "" {
		return
	}
	s := trace.SpanFromContext(ctx)
	s.SetAttributes(attribute.String(idKey, id))
	if target := ContextOf(id); s.SpanContext().TraceID() != target.TraceID() {
		s.AddLink(trace.Link{SpanContext: target})
	}
}

// SetAttribute adds a word of our own to the span, such as a role or a status. It is no place
// for what somebody sent.
func (s Span) SetAttribute(key, value string) {
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
		if f := fault.Find(err); f != nil {
			word = string(f.Code)
		}
		s.span.SetStatus(codes.Error, word)
	}
	s.span.End()
}
