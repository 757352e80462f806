package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/cmd/zkbench/bench"
)

func TestTable(t *testing.T) {
	rows := []bench.Figure{
		bench.NewFigure("gets", "/s", []float64{100, 300, 200}, []float64{400, 900, 1000}),
		bench.NewFigure("p99", "us", []float64{1.5}, []float64{12.34}),
	}
	var out strings.Builder
	if err := writeTable(&out, rows, "Apache", "zkd"); err != nil {
		t.Fatal(err)
	}
	want := `| | Apache | zkd | ratio |
|---|---|---|---|
| gets (/s) | 200 (100 to 300) | 900 (400 to 1000) | 4.00 (3.00 to 5.00) |
| p99 (us) | 1.50 | 12.3 | 8.23 |
`
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

func TestServerConfig(t *testing.T) {
	for _, n := range []int{1, 3} {
		e, err := newEnsemble("/bin/zkd", t.TempDir(), shape{servers: n})
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range e.servers {
			file := s.argv[len(s.argv)-1]
			if len(s.argv) != 2 || s.argv[0] != "/bin/zkd" {
				t.Errorf("command is %q, want the program and its configuration", s.argv)
			}
			text := read(t, file)
			for _, want := range []string{
				"dataDir=" + filepath.Join(s.dir, "data") + "\n",
				"clientPort=" + strings.TrimPrefix(s.addr, "127.0.0.1:") + "\n",
				"maxClientCnxns=0\n",
			} {
				if !strings.Contains(text, want) {
					t.Errorf("configuration lacks %q:\n%s", want, text)
				}
			}
			members := strings.Count(text, "\nserver.")
			if n == 1 && members != 0 || n > 1 && (members != n || read(t, filepath.Join(s.dir, "data", "myid")) != fmt.Sprintln(i+1)) {
				t.Errorf("server %d of %d: %d members:\n%s", i, n, members, text)
			}
		}
		if len(e.target().Addrs) != n {
			t.Errorf("target %+v, want %d servers", e.target(), n)
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestHealthy(t *testing.T) {
	for modes, want := range map[string]bool{
		"standalone": true, "leader": false, "": false,
		"follower leader follower": true, "leader follower observer observer": true, "leader observer observer": false, "leader leader follower": false, "leader follower -": false, "follower follower follower": false,
	} {
		if got := healthy(strings.Split(modes, " ")); got != want {
			t.Errorf("%q: %v, want %v", modes, got, want)
		}
	}
}

// A server that ends at once is reported with its output.
func TestServerThatEnds(t *testing.T) {
	program := script(t, "echo no such key\nexit 3\n")
	for _, n := range []int{1, 3} {
		_, err := startEnsemble(t.Context(), program, t.TempDir(), shape{servers: n})
		if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "no such key") {
			t.Errorf("%d servers: got %v, want the status and the output", n, err)
		}
	}
}

// script returns the name of a program.
func script(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestPercentile(t *testing.T) {
	var vs []float64
	for i := range 50 {
		vs = append(vs, float64((i*7)%50+1))
	}
	for p, want := range map[float64]float64{50: 25, 90: 45, 99: 50, 1: 1} {
		if got := percentile(vs, p); got != want {
			t.Errorf("percentile %v is %v, want %v", p, got, want)
		}
	}
}

// Both sides are measured by turns, and the order changes from pair to pair.
func TestTurns(t *testing.T) {
	c := &campaign{settings: settings{a: "/bin/a", b: "/bin/b"}, log: io.Discard}
	var order []int
	err := c.turns(3, []bench.Figure{{Name: "x"}}, func(side int) ([]float64, error) {
		order = append(order, side)
		return []float64{float64(1 + side)}, nil
	})
	if err != nil || !slices.Equal(order, []int{0, 1, 1, 0, 0, 1}) {
		t.Errorf("order %v, %v", order, err)
	}
	if r := c.rows[0]; r.A.Median != 1 || r.B.Median != 2 || r.Ratio.Median != 2 {
		t.Errorf("row %+v", r)
	}
}

func TestSettings(t *testing.T) {
	for _, args := range []string{"-b /nonexistent/zkd", "-b apache -pairs 0", "-b apache -idle 1000000000", "-b apache -servers 2", "-nonsense"} {
		if err := run(t.Context(), strings.Fields(args), &strings.Builder{}, &strings.Builder{}); err == nil {
			t.Errorf("run %s: no error", args)
		}
	}
}

func TestPipelined(t *testing.T) {
	why := errors.New("refused")
	n := 0
	err := pipelined(10, 2000, func(i int64, then func(error)) {
		n++
		if i%700 == 0 {
			then(fmt.Errorf("%d: %w", i, why))
		} else {
			then(nil)
		}
	})
	if n != 1990 || !errors.Is(err, why) || !strings.HasPrefix(err.Error(), "700:") {
		t.Errorf("%d calls, %v, want the first error", n, err)
	}
}

func TestRepeated(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	took, err := repeated(ctx, time.Hour, func(ctx context.Context) error {
		if n++; n == 3 {
			cancel()
		}
		return ctx.Err() // a call is not cut short
	})
	if n != 3 || len(took) != 3 || err != nil {
		t.Errorf("%d calls, %d times, %v", n, len(took), err)
	}
	if took, err := repeated(ctx, 0, func(context.Context) error { return nil }); len(took) != 1 || err != nil {
		t.Errorf("at its end at once: %d times, %v, want one", len(took), err)
	}
	if took, err := repeated(t.Context(), time.Hour, func(context.Context) error { return io.EOF }); len(took) != 0 || err != io.EOF {
		t.Errorf("%d times, %v", len(took), err)
	}
}
