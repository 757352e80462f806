package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/cmd/zkbench/bench/fake"
	"github.com/zkd-project/zkd/jute"
)

// small returns a run of w that takes a moment.
func small(w Workload) Config {
	c := Defaults(w)
	c.Connections, c.Window, c.Keys, c.Children = 3, 8, 20, 12
	c.ValueSize, c.Count, c.Warmup = 40, 100, time.Millisecond
	c.Duration = time.Millisecond  // Idle: how long sessions are held
	c.SessionTimeout = time.Minute // bounds waits, too
	return c
}

func targetOf(s *fake.Server) Target {
	return Target{Addrs: []string{s.Addr}, Pids: []int{os.Getpid()}}
}

// A run of fewer operations than connections ends.
func TestFewerOperationsThanConnections(t *testing.T) {
	for _, w := range []Workload{Set, Create, Watch, Sessions, Load} {
		s := fake.Start(t)
		cfg := small(w)
		cfg.Connections, cfg.Count = 5, 2
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // ends what does not
		defer cancel()
		r, err := Run(ctx, targetOf(s), cfg)
		if err != nil || ctx.Err() != nil || r.Ops != 2 {
			t.Errorf("%s: %d operations, %v, %v; want 2", w, r.Ops, err, ctx.Err())
		}
	}
}

func TestWorkloads(t *testing.T) {
	for w := range workloads {
		t.Run(string(w), func(t *testing.T) {
			s := fake.Start(t)
			cfg := small(w)
			cfg.Ephemerals = 2
			r, err := Run(t.Context(), targetOf(s), cfg)
			if err != nil {
				t.Fatal(err)
			}
			want := cfg.Count
			if w == Idle {
				want = int64(cfg.Connections)
			}
			if r.Ops != want || r.Wrong != 0 || r.Latency == nil || r.Latency.Count != want || r.Rate <= 0 {
				t.Errorf("got %d operations, %d wrong, latency %v, rate %v; want %d, 0, as many, more than 0",
					r.Ops, r.Wrong, r.Latency, r.Rate, want)
			}
			if w == Watch && (r.Notifications == nil || r.Notifications.Count != want*int64(cfg.Connections)) {
				t.Errorf("got notifications %v, want %d for each of %d watchers", r.Notifications, want, cfg.Connections)
			}
			if r.Server == nil || r.Server.RSSAfter <= 0 {
				t.Errorf("got server usage %+v, want its memory", r.Server)
			}
			if left := s.Paths(); !slices.Equal(left, []string{"/"}) {
				t.Errorf("the run left %v", left)
			}
		})
	}
}

func TestDurationAndRate(t *testing.T) {
	s := fake.Start(t)
	cfg := small(Mixed)
	cfg.Count, cfg.Duration, cfg.Rate = 0, 50*time.Millisecond, 1000
	r, err := Run(t.Context(), targetOf(s), cfg)
	if err != nil {
		t.Fatal(err)
	}
	// The rate bounds the number from above, however slow the machine.
	if r.Ops < 1 || r.Ops > 53 {
		t.Errorf("got %d operations in %v at %v/s", r.Ops, cfg.Duration, cfg.Rate)
	}
}

func TestKeepAndClean(t *testing.T) {
	s := fake.Start(t)
	cfg := small(Load)
	cfg.Keep, cfg.Count, cfg.PathLength = true, 1500, 33
	r, err := Run(t.Context(), targetOf(s), cfg)
	if err != nil {
		t.Fatal(err)
	}
	// 1500 nodes in two directories, the root of the run, and "/".
	if got := len(s.Paths()); got != 1500+2+2 {
		t.Errorf("got %d nodes, want 1504", got)
	}
	if len(r.Last) != 33 || !slices.Contains(s.Paths(), r.Last) {
		t.Errorf("last node is %q, want one that exists, 33 bytes long", r.Last)
	}
	if err := AwaitRead(t.Context(), targetOf(s), r.Last); err != nil {
		t.Errorf("read of %s: %v", r.Last, err)
	}
	roots, err := Clean(t.Context(), targetOf(s))
	if err != nil || !slices.Equal(roots, []string{r.Root}) {
		t.Errorf("Clean: %v, %v; want %s", roots, err, r.Root)
	}
	if left := s.Paths(); !slices.Equal(left, []string{"/"}) {
		t.Errorf("Clean left %v", left)
	}
}

func TestCancelledRunCleansUp(t *testing.T) {
	s := fake.Start(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	sets := 0
	s.Spoil = func(op jute.OpCode, frame []byte) []byte {
		if op == jute.OpSetData {
			if sets++; sets == 50 {
				cancel()
			}
		}
		return frame
	}
	cfg := small(Set)
	cfg.Count, cfg.Warmup, cfg.Duration = 0, 0, time.Hour
	r, err := Run(ctx, targetOf(s), cfg)
	if err != nil || r.Ops < 50 {
		t.Errorf("got %d operations, %v; want those that were done", r.Ops, err)
	}
	if left := s.Paths(); !slices.Equal(left, []string{"/"}) {
		t.Errorf("the run left %v", left)
	}
}

// TestWrongReplies breaks one reply of each run.
func TestWrongReplies(t *testing.T) {
	code := func(c jute.Code) func([]byte) []byte {
		return func(f []byte) []byte { return jute.AppendInt32(f[:12], c) }
	}
	tests := []struct {
		name     string
		workload Workload
		op       jute.OpCode
		nth      int // reply to op that is spoilt, from 0; setup included
		spoil    func([]byte) []byte
		want     string
	}{
		{"error code", Set, jute.OpSetData, 3, code(jute.ErrBadVersion), "setData /zb-"},
		{"error code with body", Set, jute.OpSetData, 3, func(f []byte) []byte {
			binary.BigEndian.PutUint32(f[12:], 0xffffff99)
			return f
		}, "version conflict"},
		{"lost write", Set, jute.OpSetData, 3, func(f []byte) []byte {
			f[16+35]--
			return f
		}, "version is"},
		{"short stat", Set, jute.OpSetData, 3, func(f []byte) []byte { return f[:len(f)-1] }, "stat has 67 bytes"},
		{"flipped bit", Get, jute.OpGetData, 3, func(f []byte) []byte {
			f[16+4+30] ^= 1
			return f
		}, "value differs"},
		{"another key's value", Get, jute.OpGetData, 3, func(f []byte) []byte {
			f[16+4+7] ^= 1
			return f
		}, "value starts with"},
		{"short value", Get, jute.OpGetData, 3, func(f []byte) []byte {
			f[16+3]--
			return f
		}, "value has 39 bytes"},
		{"wrong path", Create, jute.OpCreate, 30, func(f []byte) []byte {
			f[len(f)-1] ^= 1
			return f
		}, "want the path"},
		{"child missing", Children, jute.OpGetChildren, 3, func(f []byte) []byte {
			f[16+3]--
			return f[:len(f)-14]
		}, "other children than the 12 created"},
		{"child doubled", Children, jute.OpGetChildren, 3, func(f []byte) []byte {
			copy(f[len(f)-14:], f[16+4:16+4+14])
			return f
		}, "other children than the 12 created"},
		{"failed multi", Multi, jute.OpMulti, 3, func(f []byte) []byte {
			f = f[:16]
			for _, c := range []jute.Code{0, jute.ErrNoNode, jute.ErrRuntimeInconsistency} {
				f = jute.AppendInt32(f, jute.OpError)
				f = append(f, 0)
				f = jute.AppendInt32(jute.AppendInt32(f, c), c)
			}
			return appendMultiEnd(f)
		}, "node does not exist"},
		{"multi cut off", Multi, jute.OpMulti, 3, func(f []byte) []byte { return f[:len(f)-9] }, "want an end marker"},
		{"body after delete", Ephemeral, jute.OpDelete, 3, func(f []byte) []byte { return append(f, 0) }, "body of 1 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := fake.Start(t)
			n := 0
			s.Spoil = func(op jute.OpCode, frame []byte) []byte {
				if op == tt.op {
					if n++; n == tt.nth+1 {
						return tt.spoil(frame)
					}
				}
				return frame
			}
			cfg := small(tt.workload)
			cfg.Warmup = 0
			r, err := Run(t.Context(), targetOf(s), cfg)
			if !errors.Is(err, ErrWrong) || r.Wrong != 1 || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %d wrong, error %v; want 1, %q", r.Wrong, err, tt.want)
			}
			if r.Ops != cfg.Count-1 {
				t.Errorf("got %d right operations, want %d", r.Ops, cfg.Count-1)
			}
		})
	}
}

func TestConnectionLostInRun(t *testing.T) {
	for _, w := range []Workload{Get, Watch, Sessions} {
		t.Run(string(w), func(t *testing.T) {
			s := fake.Start(t)
			n := 0
			s.Spoil = func(op jute.OpCode, frame []byte) []byte {
				if op == jute.OpGetData || w == Sessions && op == jute.OpCloseSession {
					if n++; n == 20 {
						return nil
					}
				}
				return frame
			}
			_, err := Run(t.Context(), targetOf(s), small(w))
			if err == nil || errors.Is(err, ErrWrong) {
				t.Fatalf("got %v, want the loss of a connection", err)
			}
			if left := s.Paths(); !slices.Equal(left, []string{"/"}) {
				t.Errorf("the run left %v", left)
			}
		})
	}
}

func TestWatchEvents(t *testing.T) {
	tests := []struct {
		name  string
		event func(frame []byte) []byte
		want  string
	}{
		{"lost", func([]byte) []byte { return nil }, "2 of 3 watchers have heard nothing"},
		{"of another kind", func(f []byte) []byte { f[16+3] = 1; return f }, "watch event NodeCreated"},
		{"of another node", func(f []byte) []byte { f[len(f)-1]++; return f }, "want NodeDataChanged on /zb-"},
		{"cut off", func(f []byte) []byte { return f[:len(f)-1] }, "decode watch event"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := fake.Start(t)
			n := 0
			s.Event = func(f []byte) []byte {
				if n++; n == 1 {
					return f
				}
				return tt.event(f)
			}
			cfg := small(Watch)
			cfg.SessionTimeout = 5 * time.Second // each waits so long for the other events
			_, err := Run(t.Context(), targetOf(s), cfg)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestCompare(t *testing.T) {
	a, b := fake.Start(t), fake.Start(t)
	var order []string
	c, err := Compare(t.Context(), targetOf(a), targetOf(b), small(Set), 3, func(which string, _ Result) {
		order = append(order, which)
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(order, ""); got != "ABBAAB" {
		t.Errorf("runs in order %s, want ABBAAB", got)
	}
	f, ok := c.Figure("operations")
	if !ok || f.A.Median <= 0 || f.Ratio.Min > f.Ratio.Median || f.Ratio.Median > f.Ratio.Max {
		t.Errorf("got figure %+v", f)
	}
	var out strings.Builder
	if err := c.WriteTable(&out); err != nil || !strings.Contains(out.String(), "server CPU per operation (us)") {
		t.Errorf("table: %v\n%s", err, out.String())
	}
}

func TestCompareStopsAtWrongReply(t *testing.T) {
	a, b := fake.Start(t), fake.Start(t)
	b.Spoil = func(op jute.OpCode, frame []byte) []byte {
		if op == jute.OpSetData {
			frame[16+35]++
		}
		return frame
	}
	_, err := Compare(t.Context(), targetOf(a), targetOf(b), small(Set), 2, nil)
	if !errors.Is(err, ErrWrong) || !strings.HasPrefix(err.Error(), "B: ") {
		t.Errorf("got %v, want wrong replies of B", err)
	}
}
