package zk

import (
	"context"
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zkd-project/zkd/client/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// within bounds waits that a broken test would never end.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// testLog writes what a Conn logs to the test.
type testLog struct{ t *testing.T }

func (l testLog) Printf(format string, args ...any) { l.t.Logf(format, args...) }

// connect returns a connected Conn, and a function that waits for a state of it.
func connect(t *testing.T, p *zktest.Proxy, options ...connOption) (*Conn, func(State) Event) {
	t.Helper()
	all := make(chan Event, 1000) // the channel of Connect would drop some
	options = append([]connOption{WithLogger(testLog{t}), WithEventCallback(func(ev Event) { all <- ev })}, options...)
	c, events, err := Connect([]string{p.Addr()}, time.Minute, options...)
	must(t, err)
	t.Cleanup(func() {
		c.Close()
		for range events {
		}
	})
	ctx := within(t)
	await := func(want State) Event {
		t.Helper()
		for {
			select {
			case ev := <-all:
				if ev.Type == EventSession && ev.State == want {
					return ev
				}
			case <-ctx.Done():
				t.Fatalf("no %v", want)
			}
		}
	}
	await(StateHasSession)
	return c, await
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// next returns the one event of a watch, and fails unless its channel is closed then.
func next(t *testing.T, watch <-chan Event) Event {
	t.Helper()
	ev, ok := <-watch
	if !ok {
		t.Fatal("the channel is closed without an event")
	}
	if more, ok := <-watch; ok {
		t.Fatalf("%v, and then %v", ev, more)
	}
	return ev
}

func list(events []Event) string {
	s := ""
	for _, ev := range events {
		s += fmt.Sprintf("%v %v %q %v\n", ev.Type, ev.State, ev.Path, ev.Err)
	}
	return s
}
