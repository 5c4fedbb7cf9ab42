// Package trace times work as spans: requests, transactions, steps of a payment. It is off unless
// the configuration names a collector, and then costs nothing.
//
// A payment outlives its request. So its spans belong to a trace whose id follows from the
// payment's own id. Whatever a process does for wd_… is in one trace, also after a restart, and the
// request has a link to it.
//
// A span never contains a secret, an address, an amount or the text of an error; it has only ids
// and outcomes. No decision depends on a span. A crash loses the spans of its last seconds.
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

// tracer makes the spans; nil while tracing is off.
var tracer atomic.Pointer[trace.Tracer]

// SetProvider turns tracing on; nil turns it off.
func SetProvider(p trace.TracerProvider) {
	if p == nil {
		tracer.Store(nil)
		return
	}
	t := p.Tracer("github.com/cofferpay/coffer")
	tracer.Store(&t)
}

// Span is work in progress. The zero value is the span of work that is not traced.
type Span struct{ span trace.Span }

// Start starts a span within the span of ctx.
func Start(ctx context.Context, name string) (context.Context, Span) {
	t := tracer.Load()
	if t == nil {
		return ctx, Span{}
	}
	ctx, s := (*t).Start(ctx, name)
	return ctx, Span{s}
}

// StartChild is Start for work that has no span of its own: it starts nothing if ctx has no span.
func StartChild(ctx context.Context, name string) (context.Context, Span) {
	if tracer.Load() == nil || !trace.SpanContextFromContext(ctx).IsValid() {
		return ctx, Span{}
	}
	return Start(ctx, name)
}

// StartSince is Start for work that has already begun at a moment. A loop that mostly finds nothing
// to do calls it only if it found something. Spans that started meanwhile are not inside it.
func StartSince(ctx context.Context, name string, began time.Time) Span {
	t := tracer.Load()
	if t == nil {
		return Span{}
	}
	_, s := (*t).Start(ctx, name, trace.WithTimestamp(began))
	return Span{s}
}

// StartAbout starts a span in the trace of an object with an id, such as a withdrawal. If ctx
// belongs to another trace, the two are linked.
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

// ContextOf returns the beginning of the trace of an object with an id.
func ContextOf(id string) trace.SpanContext {
	sum := sha256.Sum256([]byte("coffer trace " + id))
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID(sum[:16]), SpanID: trace.SpanID(sum[16:24]), TraceFlags: trace.FlagsSampled,
		Remote: true,
	})
}

// LinkTo says that the work of ctx is about an object with an id, and links it to that object's
// trace.
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

// SetAttribute adds an attribute of Coffer's own to the span, such as a role or a status. It must
// not contain text from a caller.
func (s Span) SetAttribute(key, value string) {
	if s.span != nil {
		s.span.SetAttributes(attribute.String("coffer."+key, value))
	}
}

// Rename changes the name of a span, for a name that is known late, such as a request's route.
func (s Span) Rename(name string) {
	if s.span != nil {
		s.span.SetName(name)
	}
}

// End ends the span. For an error it records the code that a caller would see, or only that there
// was one: its text may contain parts of a provider's URL.
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
