// Package otlp sends spans to a collector by OTLP over HTTP. It stands apart from package
// traces because it needs a hundred other packages, which only the program zkd should link.
package otlp

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// New returns an exporter to the collector at a URL. It does not connect to it.
func New(endpoint string) (sdktrace.SpanExporter, error) {
	exporter, err := otlptracehttp.New(context.Background(), otlptracehttp.WithEndpointURL(withPath(endpoint)))
	if err != nil {
		return nil, fmt.Errorf("traces to %s: %w", endpoint, err)
	}
	return exporter, nil
}

// withPath adds the usual path to the URL of a collector that has none.
func withPath(endpoint string) string {
	if u, err := url.Parse(endpoint); err == nil && strings.Trim(u.Path, "/") == "" {
		return u.JoinPath("v1/traces").String()
	}
	return endpoint
}
