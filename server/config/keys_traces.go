package config

import (
	"net/url"
	"strconv"
)

// Traces configures the spans that are sent to a collector.
type Traces struct {
	// Endpoint is the URL of the collector, "" for none.
	Endpoint string
	// Ratio is the part of the requests that is sampled, from 0 to 1.
	Ratio float64
	// ClientSpans means that the clients make spans, too.
	ClientSpans bool
}

func traceKeys(c *Config) []Key {
	t := &c.Traces
	return []Key{
		{Name: "zkd.traces.endpoint", value: endpoint(&t.Endpoint), Protects: true,
			Doc: "Collector of OpenTelemetry [traces](monitor.md#traces) by OTLP over HTTP. Without it there are none."},
		{Name: "zkd.traces.ratio", Default: "0.001", Live: true, value: fraction(&t.Ratio),
			Doc: "Part of the clients' requests that is traced, from 0 to 1. Set it on all servers, and in clients that make spans."},
		{Name: "zkd.traces.clientSpans", Default: "false", value: truth(&t.ClientSpans),
			Doc: "The clients make spans, too (package `client/oteltrace`)."},
	}
}

// endpoint is the URL of an HTTP server.
func endpoint(field *string) value {
	return value{
		allowed: "a URL such as http://127.0.0.1:4318 or https://collector.example.com:4318",
		set: func(text string) bool {
			u, err := url.Parse(text)
			*field = text
			return err == nil && (u.Scheme == "http" || u.Scheme == "https") && validHost(u.Hostname()) && u.User == nil && u.RawQuery == "" && u.Fragment == ""
		},
		get: func() string { return *field },
	}
}

// fraction is a number from 0 to 1.
func fraction(field *float64) value {
	return value{
		allowed: "a number from 0 to 1, such as 0.01",
		samples: []string{"1", "0.5", "0"},
		set: func(text string) (ok bool) {
			f, err := strconv.ParseFloat(text, 64)
			*field = f
			return err == nil && f >= 0 && f <= 1
		},
		get: func() string { return strconv.FormatFloat(*field, 'g', -1, 64) },
	}
}

// plainAndFar reports whether spans would go over a network without TLS.
func (t *Traces) plainAndFar() bool {
	u, err := url.Parse(t.Endpoint)
	return err == nil && u.Scheme == "http" && !isLoopback(u.Hostname())
}
