package ensemble

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/cmd/zkcli/why"
)

// TestLoad has two members that answer requests, one of which starts again.
func TestLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		member := func(name string, requests, latency int) why.Server {
			return why.Server{Name: name, After: why.Sample{Metrics: map[string]string{"packets_received": strconv.Itoa(requests),
				"cnt_readlatency": strconv.Itoa(requests / 2), "cnt_updatelatency": "0", "sum_readlatency": strconv.Itoa(latency), "sum_updatelatency": "0"}}}
		}
		asked := 0
		e := &Ensemble{ending: make(chan struct{}), ask: func(context.Context, []string) why.Facts {
			asked++
			minutes := int(time.Since(begin) / time.Minute)
			b := minutes * 1200
			if minutes >= 3 {
				b = (minutes - 3) * 1200 // since its start
			}
			return why.Facts{Servers: []why.Server{member("a:1", minutes*600, minutes*900), member("b:1", b, b), {Name: "c:1", Unreachable: "connection refused"}}}
		}}
		e.Start()
		for range 5 {
			time.Sleep(time.Minute)
			e.Look(t.Context())
		}
		synctest.Wait()
		got := ""
		for _, s := range e.Look(t.Context()).Load {
			got += fmt.Sprintf("%v: %d, %.1f\n", time.UnixMilli(s.At).Sub(begin), s.Requests, s.LatencyMs)
		}
		if want := "1m0s: -1, -1.0\n2m0s: 30, 3.0\n3m0s: 10, 3.0\n4m0s: 30, 3.0\n5m0s: 30, 3.0\n"; got != want || asked != 5 {
			t.Errorf("asked %d times:\n%s", asked, got)
		}
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		if list := e.Look(t.Context()).Load; len(list) != 61 {
			t.Errorf("%d samples", len(list))
		}
		e.Close()
		asked = 0
		time.Sleep(time.Hour)
		if asked != 0 {
			t.Error("a closed ensemble is asked")
		}
	})
}
