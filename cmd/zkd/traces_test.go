package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/zkd-project/zkd/client"
)

// The spans of a request arrive at the collector of zkd.traces.endpoint.
func TestTracesAreSent(t *testing.T) {
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "1") // ms until spans are sent
	posts := make(chan string, 1)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case posts <- r.Method + " " + r.URL.Path:
		default:
		}
	}))
	defer collector.Close()
	r := serving(t, "--set", "zkd.traces.endpoint="+collector.URL, "--set", "zkd.traces.ratio=1")
	c, err := client.New("127.0.0.1:"+r.port, client.Options{Logger: client.NoLog})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	if _, err := c.Create(t.Context(), "/a", nil, client.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := <-posts; got != "POST /v1/traces" {
		t.Errorf("the collector has %q", got)
	}
}
