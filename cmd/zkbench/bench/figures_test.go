package bench

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestSpread(t *testing.T) {
	tests := []struct {
		in   []float64
		want Spread
	}{
		{[]float64{3}, Spread{3, 3, 3}},
		{[]float64{4, 1}, Spread{2.5, 1, 4}},
		{[]float64{5, 1, 2}, Spread{2, 1, 5}},
		{[]float64{9, 1, 4, 2}, Spread{3, 1, 9}},
	}
	for _, tt := range tests {
		in := slices.Clone(tt.in)
		if got := NewSpread(tt.in); got != tt.want || !slices.Equal(in, tt.in) {
			t.Errorf("NewSpread(%v) = %v, want %v and the argument unchanged", in, got, tt.want)
		}
	}
}

// The ratio is of each pair, not of the medians: here 2, 1/2 and 3.
func TestFigureRatio(t *testing.T) {
	f := NewFigure("f", "s", []float64{1, 4, 2}, []float64{2, 2, 6})
	if want := (Spread{2, 0.5, 3}); f.Ratio != want {
		t.Errorf("ratio %v, want %v", f.Ratio, want)
	}
	if f := NewFigure("f", "s", []float64{0}, []float64{1}); f.Ratio != (Spread{}) {
		t.Errorf("ratio to nothing is %v, want zeros", f.Ratio)
	}
}

func TestFiguresSkipWhatRunsLack(t *testing.T) {
	with := Result{Rate: 1, Latency: &Latency{P50: 1}, Server: &Usage{}}
	without := Result{Rate: 2, Latency: &Latency{P50: 3}}
	c := Comparison{Figures: figures([]Result{with}, []Result{without})}
	if _, ok := c.Figure("server resident"); ok {
		t.Error("there is a figure for the memory of only one server")
	}
	if f, ok := c.Figure("latency p50"); !ok || f.Ratio.Median != 3 {
		t.Errorf("p50 is %+v, want the ratio 3", f)
	}
}

func TestSummarize(t *testing.T) {
	h := newLatency()
	if l := summarize(h); l != nil || l.String() != "none" {
		t.Errorf("summary of nothing is %v", l)
	}
	for us := int64(1); us <= 10_000; us++ {
		if err := h.RecordValue(us * 1000); err != nil {
			t.Fatal(err)
		}
	}
	l := summarize(h)
	for _, tt := range []struct {
		name      string
		got, want float64
	}{
		{"mean", l.Mean, 5000.5}, {"p50", l.P50, 5000}, {"p90", l.P90, 9000},
		{"p99", l.P99, 9900}, {"p99.9", l.P999, 9990}, {"max", l.Max, 10_000},
	} {
		if tt.got < tt.want*0.998 || tt.got > tt.want*1.002 {
			t.Errorf("%s is %v, want %v", tt.name, tt.got, tt.want)
		}
	}
}

// A stall of the server counts for each request that was due meanwhile; a late
// timer of ours does not.
func TestPacer(t *testing.T) {
	p := pacer{interval: 10, next: 100, freed: 100}
	if n := p.due(99); n != 0 {
		t.Errorf("%d due before the first", n)
	}
	if n := p.due(100); n != 1 || p.take(100) != 100 {
		t.Errorf("%d due at the start, want 1", n)
	}
	if got := p.take(117); got != 117 { // due at 110, we woke up late
		t.Errorf("latency starts at %d, want 117", got)
	}
	p.freed = 150 // the window was full until then
	if n := p.due(155); n != 4 {
		t.Errorf("%d due after the stall, want those of 120 to 150", n)
	}
	for _, want := range []int64{120, 130, 140, 150} {
		if got := p.take(155); got != want {
			t.Errorf("latency starts at %d, want %d", got, want)
		}
	}
	free := pacer{}
	if n := free.due(5); n < 1<<40 || free.take(5) != 5 {
		t.Errorf("without a rate %d are due, want no limit", n)
	}
}

func TestShare(t *testing.T) {
	for n := 1; n < 9; n++ {
		var sum int64
		for i := range n {
			s := share(100, i, n)
			if s < int64(100/n) || s > int64(100/n)+1 {
				t.Errorf("share %d of %d is %d", i, n, s)
			}
			sum += s
		}
		if sum != 100 {
			t.Errorf("%d shares make %d", n, sum)
		}
	}
}

func TestNames(t *testing.T) {
	tests := []struct {
		i     int64
		width int
		want  string
	}{{0, 3, "000"}, {7, 3, "007"}, {120, 3, "120"}, {1234567890, 10, "1234567890"}}
	for _, tt := range tests {
		if got := string(appendDigits([]byte("x"), tt.i, tt.width)); got != "x"+tt.want {
			t.Errorf("digits of %d: %q, want %q", tt.i, got, "x"+tt.want)
		}
	}
}

func TestValues(t *testing.T) {
	for _, size := range []int{0, 5, 16, 17, 100} {
		v := newValues(size, rand.New(rand.NewPCG(1, 1)))
		b := v.append(nil, 258, 3)
		if len(b) != 4+size {
			t.Fatalf("value of %d bytes has %d", size, len(b)-4)
		}
		data := b[4:]
		if err := v.check(data, 258, 3); err != nil {
			t.Errorf("value of %d bytes: %v", size, err)
		}
		for i := range data {
			data[i] ^= 4
			if v.check(data, 258, 3) == nil {
				t.Errorf("value of %d bytes: byte %d may change", size, i)
			}
			data[i] ^= 4
		}
		if size >= 16 && (v.check(data, 259, 3) == nil || v.check(data, 258, 4) == nil) {
			t.Errorf("value of %d bytes is good for another key or version", size)
		}
	}
}

func TestValidate(t *testing.T) {
	for w := range workloads {
		cfg := Defaults(w)
		if err := cfg.validate(); err != nil {
			t.Errorf("defaults of %s: %v", w, err)
		}
	}
	tests := []struct {
		change func(*Config)
		want   string
	}{
		{func(c *Config) { c.Workload = "x" }, `no workload "x"`},
		{func(c *Config) { c.Connections = 0 }, "connections"},
		{func(c *Config) { c.Window = 0 }, "window"},
		{func(c *Config) { c.ValueSize = 1 << 20 }, "value size"},
		{func(c *Config) { c.Keys = 0 }, "keys"},
		{func(c *Config) { c.Reads = 1.1 }, "share of reads"},
		{func(c *Config) { c.Workload, c.Batch = Multi, 1000 }, "don't fit"},
		{func(c *Config) { c.Workload, c.PathLength = Load, 20 }, "path length"},
		{func(c *Config) { c.Duration = 0 }, "duration"},
		{func(c *Config) { c.Rate = -1 }, "rate"},
		{func(c *Config) { c.SessionTimeout = time.Millisecond }, "session timeout"},
	}
	for _, tt := range tests {
		cfg := Defaults(Set)
		tt.change(&cfg)
		if _, err := Run(t.Context(), Target{}, cfg); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("got %v, want %q", err, tt.want)
		}
	}
}

func TestProcessUsage(t *testing.T) {
	u, err := processUsage([]int{os.Getpid()})
	if err != nil || u.rss < 1<<20 {
		t.Errorf("own usage is %+v, %v", u, err)
	}
	if _, err := processUsage([]int{1 << 30}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("usage of a process that does not exist: %v", err)
	}
}

func TestAwaitGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := await(ctx, "read /", func(context.Context, int) error { return errors.New("refused") })
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "read /: ") || !strings.Contains(err.Error(), "refused") {
			t.Errorf("got %v, want the deadline and why", err)
		}
	})
}

func TestNumbers(t *testing.T) {
	for v, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567"} {
		if got := group(v); got != want {
			t.Errorf("group(%d) = %s, want %s", v, got, want)
		}
	}
	for v, want := range map[float64]string{0: "0 us", 1.234: "1.23 us", 12.34: "12.3 us", 999: "999 us", 1500: "1.50 ms", 2e6: "2.00 s"} {
		if got := micros(v); got != want {
			t.Errorf("micros(%v) = %s, want %s", v, got, want)
		}
	}
}

func TestResultOutput(t *testing.T) {
	r := Result{
		Workload: Watch, Servers: []string{"a:1"}, Ops: 1234, Seconds: 2, Rate: 617, Wrong: 1, FirstWrong: "get /x: bad",
		Latency: &Latency{P50: 10}, Notifications: &Latency{Count: 5}, Server: &Usage{CPUSeconds: 1, RSSAfter: 3 << 20, RSSPerOperation: 7},
		Idle: &Hold{Seconds: 4},
	}
	var table strings.Builder
	if err := r.WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1,234 in 2.00 s, 617/s; 1 wrong", "get /x: bad", "p50 10.0 us", "3.00 MiB resident", "7 bytes more", "4.0 s"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("table lacks %q:\n%s", want, table.String())
		}
	}
	var out strings.Builder
	if err := WriteJSON(&out, r); err != nil {
		t.Fatal(err)
	}
	var back Result
	if err := json.Unmarshal([]byte(out.String()), &back); err != nil || back.Ops != r.Ops || back.Latency.P50 != 10 {
		t.Errorf("JSON gives back %+v, %v", back, err)
	}
}
