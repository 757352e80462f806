package ensemble

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/cmd/zkcli/why"
)

func TestEnsembleRecords(t *testing.T) {
	answer := func(zxid uint64, received string) why.Sample {
		return why.Sample{Zxid: zxid, Metrics: map[string]string{"packets_received": received, "num_alive_connections": "7", "avg_latency": "0.5"}}
	}
	e := &Ensemble{Servers: []string{"a:1"}, Self: 1, ask: func(_ context.Context, addrs []string) why.Facts {
		if len(addrs) != 1 || addrs[0] != "a:1" {
			t.Errorf("asks %q", addrs)
		}
		return why.Facts{Complete: true, Interval: 2 * time.Second, Now: 5, Servers: []why.Server{
			{Name: "a:1", ID: 1, Mode: "follower", Before: answer(0x100000005, "10"), After: answer(0x100000007, "30")},
			{Name: "b:1", ID: 2, Mode: "leader", Before: answer(0x100000005, ""), After: answer(0x100000009, "9")},
			{Name: "c:1", ID: 3, Unreachable: "connection refused"},
			{Name: "d:1", ID: 4, Mode: "observer", Observer: true, Before: answer(0x9, "1")},
		}}
	}}
	got := e.Look(t.Context())
	var members []string
	for _, m := range got.Members {
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		members = append(members, string(b))
	}
	want := `{"name":"a:1","id":1,"role":"follower","voter":true,"zxid":"0x100000007","lag":2,"requests":10,"latency":"0.5","clients":7}
{"name":"b:1","id":2,"role":"leader","voter":true,"zxid":"0x100000009","lag":0,"requests":-1,"latency":"0.5","clients":7}
{"name":"c:1","id":3,"role":"unreachable","problem":"connection refused","voter":true,"lag":-1,"requests":-1,"clients":-1}
{"name":"d:1","id":4,"role":"observer","voter":false,"zxid":"0x9","lag":-1,"requests":-1,"clients":-1}`
	if text := strings.Join(members, "\n"); text != want {
		t.Errorf("members:\n%s\nwant:\n%s", text, want)
	}
	if got.MayFail != 0 || !got.Complete || got.Self != 1 || len(got.Findings) == 0 || got.Findings[0].Do == "" {
		t.Errorf("%+v", got)
	}
}

// TestAskedOnceForAll has callers that come together, and one that leaves.
func TestAskedOnceForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		e := &Ensemble{ending: make(chan struct{}), ask: func(context.Context, []string) why.Facts {
			asked++
			time.Sleep(3 * time.Second)
			return why.Facts{Now: int64(asked)}
		}}
		gone, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				if got := e.Look(t.Context()); got == nil || got.At != 1 {
					t.Errorf("%+v", got)
				}
			})
		}
		start := time.Now()
		if got := e.Look(gone); got != nil || time.Since(start) != time.Second {
			t.Errorf("a caller who leaves waits for %v, and gets %+v", time.Since(start), got)
		}
		wg.Wait()
		for _, c := range []struct {
			after       time.Duration
			at, answers int64 // the answer that is given, and how many there have been
		}{{0, 1, 1}, {fresh, 1, 1}, {time.Second, 1, 2}, {3500 * time.Millisecond, 2, 2}, {time.Minute, 3, 3}} {
			time.Sleep(c.after)
			start := time.Now()
			got := e.Look(t.Context())
			waited := time.Since(start)
			synctest.Wait()
			if got.At != c.at || int64(asked) != c.answers || waited > 0 && c.after < stale {
				t.Errorf("after %v: answer %d, asked %d times, waited for %v", c.after, got.At, asked, waited)
			}
		}
	})
}

// TestClose ends while the members are asked, and asks no more.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		e := &Ensemble{ending: make(chan struct{}), ask: func(ctx context.Context, _ []string) why.Facts {
			asked++
			<-ctx.Done()
			return why.Facts{}
		}}
		gone, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		if got := e.Look(gone); got != nil {
			t.Errorf("%+v", got)
		}
		e.Close()
		time.Sleep(time.Minute)
		e.Look(gone)
		e.Close()
		if asked != 1 {
			t.Errorf("asked %d times", asked)
		}
	})
}
