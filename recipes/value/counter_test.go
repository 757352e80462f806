package value_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/client/typed"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/trial"
	"github.com/zkd-project/zkd/recipes/value"
)

// What other libraries write: data recorded from Curator 5.4's DistributedAtomicLong and
// SharedCount, and kazoo 2.8's Counter without and with support_curator.
func TestCounterLayouts(t *testing.T) {
	w := trial.New(t)
	for i, test := range []struct {
		layout value.Layout
		data   string
		want   int64
	}{
		{value.Long, "", 0},
		{value.Long, "\x00\x00\x00\x00\x00\x00\x01\x02", 258},
		{value.Long, "\xff\xff\xff\xff\xff\xff\xff\xfe", -2},
		{value.Int, "", 7},
		{value.Int, "\x00\x00\x01\x02", 258},
		{value.Int, "\xff\xff\xff\xfe", -2},
		{value.Decimal, "", 7},
		{value.Decimal, "258", 258},
		{value.Decimal, "-2", -2},
	} {
		path := fmt.Sprintf("/n%d", i)
		_, err := w.Look.Create(w.Ctx, path, []byte(test.data), client.CreateOptions{})
		w.Must(err)
		n, err := value.NewCounter(w.C, path, value.CounterOptions{Layout: test.layout, Seed: 7})
		w.Must(err)
		if now, err := n.Get(w.Ctx); err != nil || now.Value != test.want {
			t.Errorf("%v: %q is %d, %v, want %d", test.layout, test.data, now.Value, err, test.want)
		}
		if _, err := n.Set(w.Ctx, test.want); err != nil {
			t.Errorf("%v: set = %v", test.layout, err)
		}
		node, err := w.Look.Get(w.Ctx, path)
		w.Must(err)
		if test.data != "" && string(node.Data) != test.data {
			t.Errorf("%v: %d is written as %q, want %q", test.layout, test.want, node.Data, test.data)
		}
	}
}

func TestCounterNoNumber(t *testing.T) {
	w := trial.New(t)
	for layout, data := range map[value.Layout]string{value.Long: "1234567", value.Int: "12345678", value.Decimal: "1.5"} {
		path := "/" + layout.String()
		_, err := w.Look.Create(w.Ctx, path, []byte(data), client.CreateOptions{})
		w.Must(err)
		n, err := value.NewCounter(w.C, path, value.CounterOptions{Layout: layout})
		w.Must(err)
		if _, err := n.Increment(w.Ctx); !errors.Is(err, typed.ErrData) || !strings.Contains(err.Error(), path) {
			t.Errorf("%v: increment of %q = %v, want ErrData with the path", layout, data, err)
		}
		if _, err := n.Set(w.Ctx, 3); err != nil {
			t.Errorf("%v: set over %q = %v", layout, data, err)
		}
	}
}

func TestCounterOverflow(t *testing.T) {
	w := trial.New(t)
	for i, test := range []struct {
		layout    value.Layout
		at, delta int64
		fits      bool
	}{
		{value.Long, math.MaxInt64, 1, false},
		{value.Long, math.MinInt64, -1, false},
		{value.Long, math.MinInt64, math.MinInt64, false},
		{value.Long, math.MaxInt64, math.MinInt64, true},
		{value.Long, math.MaxInt64 - 1, 1, true},
		{value.Decimal, math.MaxInt64, 1, false},
		{value.Int, math.MaxInt32, 1, false},
		{value.Int, math.MinInt32, -1, false},
		{value.Int, math.MaxInt32, -1, true},
	} {
		n, err := value.NewCounter(w.C, fmt.Sprintf("/n%d", i), value.CounterOptions{Layout: test.layout})
		w.Must(err)
		_, err = n.Set(w.Ctx, test.at)
		w.Must(err)
		did, err := n.Add(w.Ctx, test.delta)
		if test.fits && (err != nil || did.Before != test.at || did.After != test.at+test.delta) {
			t.Errorf("%v: %d%+d = %+v, %v", test.layout, test.at, test.delta, did, err)
		}
		if !test.fits && !errors.Is(err, value.ErrOverflow) {
			t.Errorf("%v: %d%+d = %+v, %v, want ErrOverflow", test.layout, test.at, test.delta, did, err)
		}
		if now, err := n.Get(w.Ctx); err != nil || !test.fits && now.Value != test.at {
			t.Errorf("%v: afterwards it is %d, %v", test.layout, now.Value, err)
		}
	}
}

// Each change makes a new version, by which another change knows that it is late.
func TestCounterCompareAndSet(t *testing.T) {
	w := trial.New(t)
	n, err := value.NewCounter(w.C, "/n", value.CounterOptions{Seed: 5})
	w.Must(err)
	for _, test := range []struct {
		old, to int64
		want    bool
	}{{4, 6, false}, {5, 6, true}, {5, 7, false}, {6, 5, true}} {
		if done, err := n.CompareAndSet(w.Ctx, test.old, test.to); err != nil || done != test.want {
			t.Errorf("compare %d and set %d = %t, %v, want %t", test.old, test.to, done, err, test.want)
		}
	}
	seen, err := n.Get(w.Ctx)
	if err != nil || seen.Value != 5 || seen.Stat.Version != 2 {
		t.Errorf("get = %+v, %v, want 5 in version 2", seen, err)
	}
	_, err = n.Add(w.Ctx, 0)
	w.Must(err)
	if _, err := n.TrySet(w.Ctx, seen, 9); !errors.Is(err, client.ErrBadVersion) {
		t.Errorf("set of an old version = %v", err)
	}
}

// A conflict is reported for the leader's number, not for that of a server that lags behind.
func TestCounterTraceCompareAndSet(t *testing.T) {
	w := trial.New(t)
	n, err := value.NewCounter(w.C, "/n", value.CounterOptions{})
	w.Must(err)
	_, err = n.Set(w.Ctx, 5)
	w.Must(err)
	rec := w.Record()
	if done, err := n.CompareAndSet(w.Ctx, 4, 6); done || err != nil {
		t.Errorf("compare = %t, %v", done, err)
	}
	if got, want := w.Trace(rec), []string{"getData /n", "sync /n", "getData /n"}; !slices.Equal(got, want) {
		t.Errorf("it asks for %q, want %q", got, want)
	}
}

// A count that has failed CounterOptions.Tries times acquires the lock, counts under it, and
// unlocks.
func TestCounterTracePromotion(t *testing.T) {
	w := trial.New(t)
	n := counterOpen(t, w.C, value.CounterOptions{Lock: "/app/lock", Tries: 3})
	other := counterOpen(t, w.Other(), value.CounterOptions{})
	_, err := other.Increment(w.Ctx)
	w.Must(err)
	rec := w.Record()
	rivals := 4
	did, err := n.ChangeBy(w.Ctx, func(n int64) (int64, error) {
		for range min(1, rivals) {
			rivals--
			_, err := other.Increment(w.Ctx)
			w.Must(err)
		}
		return n + 10, nil
	})
	if want := (value.Change{Before: 5, After: 15, Tries: 5, Locked: 2}); err != nil || did != want {
		t.Errorf("change = %+v, %v, want %+v", did, err, want)
	}
	try := []string{"getData /app/n", "setData /app/n"}
	trace := w.Trace(rec)
	if !slices.Equal(trace[:6], slices.Repeat(try, 3)) {
		t.Errorf("it begins with %q, want three tries", trace[:6])
	}
	rest := slices.DeleteFunc(trace[6:], func(s string) bool { return !strings.Contains(s, "/app/n") })
	if !slices.Equal(rest, slices.Repeat(try, 2)) {
		t.Errorf("under the lock it asks for %q, want two tries", rest)
	}
	w.AwaitChildren("/app/lock", 0)
}

// Without a lock it tries again and again, with two requests each time.
func TestCounterTraceOptimistic(t *testing.T) {
	w := trial.New(t)
	n, other := counterOpen(t, w.C, value.CounterOptions{}), counterOpen(t, w.Other(), value.CounterOptions{})
	_, err := other.Increment(w.Ctx)
	w.Must(err)
	rec := w.Record()
	rivals := 2 * value.DefaultTries
	did, err := n.ChangeBy(w.Ctx, func(n int64) (int64, error) {
		for range min(1, rivals) {
			rivals--
			_, err := other.Increment(w.Ctx)
			w.Must(err)
		}
		return n + 1, nil
	})
	tries := 2*value.DefaultTries + 1
	if err != nil || did.Tries != tries || did.Locked != 0 {
		t.Errorf("change = %+v, %v, want %d tries", did, err, tries)
	}
	if got := w.Trace(rec); !slices.Equal(got, slices.Repeat([]string{"getData /app/n", "setData /app/n"}, tries)) {
		t.Errorf("it asks for %q", got)
	}
}

// A shared count is followed.
func TestCounterFollow(t *testing.T) {
	w := trial.New(t)
	n, other := counterOpen(t, w.C, value.CounterOptions{Layout: value.Int, Seed: 3}), counterOpen(t, w.Other(), value.CounterOptions{Layout: value.Int, Seed: 3})
	want := int64(3)
	for now, err := range n.Follow(w.Ctx) {
		if w.Must(err); now.Value != want {
			t.Fatalf("it is %d, want %d", now.Value, want)
		}
		if want++; want == 6 {
			break
		}
		_, err := other.Set(w.Ctx, want)
		w.Must(err)
	}
}

func TestCounterBadUse(t *testing.T) {
	w := trial.New(t)
	for name, new := range map[string]func() (*value.Counter, error){
		"path":   func() (*value.Counter, error) { return value.NewCounter(w.C, "n", value.CounterOptions{}) },
		"Layout": func() (*value.Counter, error) { return value.NewCounter(w.C, "/n", value.CounterOptions{Layout: 3}) },
		"Tries":  func() (*value.Counter, error) { return value.NewCounter(w.C, "/n", value.CounterOptions{Tries: -1}) },
		"Lock":   func() (*value.Counter, error) { return value.NewCounter(w.C, "/n", value.CounterOptions{Lock: "l"}) },
	} {
		if _, err := new(); !errors.Is(err, client.ErrBadArguments) || !strings.Contains(err.Error(), name) {
			t.Errorf("bad %s: %v", name, err)
		}
	}
	if _, err := value.NewCounter(w.C, "/n", value.CounterOptions{Layout: value.Int, Seed: 1 << 40}); !errors.Is(err, value.ErrOverflow) {
		t.Errorf("a seed that does not fit: %v", err)
	}
	n := counterOpen(t, w.C, value.CounterOptions{Exact: true})
	_, err := n.Increment(w.Ctx)
	w.Must(err)
	w.Must(n.Close(w.Ctx))
	w.Must(n.Close(w.Ctx))
	if _, err := n.Increment(w.Ctx); !errors.Is(err, recipes.ErrClosed) {
		t.Errorf("increment after close = %v", err)
	}
}

// Nodes of somebody else where the lock is are a clear error, and nothing is counted.
func TestCounterForeignLock(t *testing.T) {
	w := trial.New(t)
	_, err := settle.CreateAll(w.Ctx, w.Look, "/app/lock/somebody", nil, client.CreateOptions{})
	w.Must(err)
	n, other := counterOpen(t, w.C, value.CounterOptions{Lock: "/app/lock", Tries: 1}), counterOpen(t, w.Other(), value.CounterOptions{})
	did, err := n.ChangeBy(w.Ctx, func(n int64) (int64, error) {
		_, err := other.Increment(w.Ctx)
		w.Must(err)
		return n + 10, nil
	})
	if !errors.Is(err, recipes.ErrLayout) || client.IsAmbiguous(err) || did.Tries != 1 {
		t.Errorf("change = %+v, %v, want ErrLayout after one try", did, err)
	}
	if got := final(t, w.Ctx, w.Look); got != 1 {
		t.Errorf("the number is %d, want 1", got)
	}
	w.AwaitChildren("/app/lock", 1)
}
