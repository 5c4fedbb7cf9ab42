// Package otlp sends spans to a collector by OTLP over HTTP.
//
// It never waits for the collector: it drops spans that the collector does not accept in time. A
// crash loses the spans of its last seconds.
package otlp

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/cofferpay/coffer/internal/platform/trace"
)

const (
	sendMax  = 5 * time.Second // for one batch
	flushMax = 3 * time.Second // for the last one, when the process ends
)

// Open sends spans to a URL such as http://127.0.0.1:4318/v1/traces until close is called. share is
// the part of the traces that is sent; 1 is all. roles names the roles that this process runs.
func Open(
	ctx context.Context, url string, share float64, roles string, log *slog.Logger,
) (close func() error, err error) {
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(url), otlptracehttp.WithTimeout(sendMax))
	if err != nil {
		return nil, fmt.Errorf("trace.endpoint: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) {
		log.Warn("spans could not be sent") // the library's text may contain the URL
	}))
	provider := sdk.NewTracerProvider(
		sdk.WithBatcher(exporter),
		// The trace id alone decides, so every process keeps the same payments.
		sdk.WithSampler(sdk.TraceIDRatioBased(share)),
		sdk.WithResource(resource.NewSchemaless(
			attribute.String("service.name", "coffer"), attribute.String("coffer.roles", roles),
		)),
	)
	trace.SetProvider(provider)
	return func() error {
		trace.SetProvider(nil)
		patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushMax)
		defer cancel()
		if err := provider.Shutdown(patient); err != nil {
			log.Warn("the last spans could not be sent")
		}
		return nil
	}, nil
}
