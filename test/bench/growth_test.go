package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/cmd/zkbench/bench"
	"github.com/zkd-project/zkd/internal/ask"
)

var rewrite = flag.Bool("rewrite", false, "draw the pictures in docs/dev/growth from their table")

// The pictures in the documents show the table beside them.
func TestGrowthPictures(t *testing.T) {
	const docs = "../../docs/dev/growth"
	f, err := os.Open(filepath.Join(docs, costsFile))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	costs, err := readCosts(f)
	if err != nil {
		t.Fatal(err)
	}
	if *rewrite {
		if err := drawCosts(docs, costs); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	if err := drawCosts(dir, costs); err != nil {
		t.Fatal(err)
	}
	for _, g := range growths {
		file := g.name + ".svg"
		if read(t, filepath.Join(dir, file)) != read(t, filepath.Join(docs, file)) {
			t.Errorf("docs/dev/growth/%s does not show the table: go test -C test/bench -run TestGrowthPictures -rewrite", file)
		}
	}
}

func TestCosts(t *testing.T) {
	want := []cost{
		{"znodes", "get", "Apache", 1000, []float64{16.25, 17}},
		{"watches", "create or delete", "zkd", 0, []float64{0.5}},
	}
	var out bytes.Buffer
	if err := writeCosts(&out, want); err != nil {
		t.Fatal(err)
	}
	if text := "znodes,1000,get,Apache,16.25,17\nwatches,0,create or delete,zkd,0.5\n"; out.String() != text {
		t.Errorf("got %q, want %q", out.String(), text)
	}
	if got, err := readCosts(&out); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	for _, bad := range []string{"znodes,1000,get,zkd\n", "znodes,many,get,zkd,1\n", "znodes,1000,get,zkd,1,\n", "znodes,1000,get,zkd,1,0\n"} {
		if got, err := readCosts(strings.NewReader("znodes,10,get,zkd,1\n" + bad)); err == nil || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%q: got %v, %v, want an error with the line", bad, got, err)
		}
	}
	for _, bad := range []cost{{"znodes", "get", "zkd", 7, []float64{1}}, {"znodes", "look", "zkd", 1000, []float64{1}}} {
		if err := drawCosts(t.TempDir(), []cost{bad}); err == nil {
			t.Errorf("%v is drawn", bad)
		}
	}
}

func TestAddCost(t *testing.T) {
	var costs []cost
	for _, us := range []float64{1, 2} {
		for _, program := range []string{"Apache", "zkd"} {
			addCost(&costs, cost{"znodes", "get", program, 1000, []float64{us}})
		}
	}
	want := []cost{{"znodes", "get", "Apache", 1000, []float64{1, 2}}, {"znodes", "get", "zkd", 1000, []float64{1, 2}}}
	if !reflect.DeepEqual(costs, want) {
		t.Errorf("got %v, want %v", costs, want)
	}
}

// standing returns an ensemble for a server in this process.
func standing(t *testing.T) *ensemble {
	t.Helper()
	return &ensemble{program: "zkd", servers: []*server{{addr: zktest.Start(t).Proxy.ConnectString()}}}
}

// Every load runs at the first point of the first picture, and one of them at that of each other picture.
// The replies are checked. All can be asked for at the other points.
func TestGrowPoints(t *testing.T) {
	e := standing(t)
	for i, g := range growths {
		for j, op := range growthOps {
			if i > 0 && j != i%len(growthOps) {
				continue
			}
			c := &campaign{ctx: t.Context(), settings: settings{duration: time.Millisecond}}
			if r, err := c.growPoint(e, g, op.load, g.at[0]); err != nil || r.Wrong != 0 {
				t.Errorf("%s, %s: %d wrong replies, %v", g.name, op.name, r.Wrong, err)
			}
		}
		for _, n := range g.at {
			cfg := bench.Defaults(bench.Set)
			if g.load != nil {
				g.load(&cfg, n)
			}
			if cfg.Window < 1 || cfg.Window*cfg.ValueSize > 1<<20 {
				t.Errorf("%s, %d: a window of %d for values of %d bytes", g.name, n, cfg.Window, cfg.ValueSize)
			}
		}
	}
}

// What a load is measured beside is on the server, and goes away.
func TestFill(t *testing.T) {
	e := standing(t)
	figure := func(key string) string {
		t.Helper()
		text, err := ask.Word(t.Context(), e.servers[0].addr, "mntr")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(text) {
			if name, value, _ := strings.Cut(line, "\t"); name == key {
				return strings.TrimSpace(value)
			}
		}
		t.Fatalf("no %s in mntr:\n%s", key, text)
		return ""
	}
	c := &campaign{ctx: t.Context()}
	for _, f := range []struct {
		figure string
		fill   func(*ensemble, bench.Workload, int) (func() error, error)
	}{{"zk_watch_count", c.watch}, {"zk_znode_count", c.plant}} {
		before := figure(f.figure)
		empty, err := f.fill(e, bench.Ephemeral, 200)
		if err != nil {
			t.Fatal(err)
		}
		if during := figure(f.figure); during < "200" || during == before {
			t.Errorf("%s is %s, %s before: want 200 more", f.figure, during, before)
		}
		if err := empty(); err != nil {
			t.Fatal(err)
		}
		for figure(f.figure) != before { // the server may still be ending connections
			t.Log(f.figure, "is not as it was before, yet")
		}
	}
}

// What fails is named, and what was measured before is written.
func TestGrowFails(t *testing.T) {
	program, dir := script(t, "echo no such key\nexit 3\n"), t.TempDir()
	c := &campaign{ctx: t.Context(), settings: settings{b: program, servers: 1, dir: t.TempDir(), rounds: 1}, log: io.Discard}
	if err := c.grow(dir); err == nil || !strings.Contains(err.Error(), "no such key") {
		t.Errorf("got %v, want the server's output", err)
	}
	if text := read(t, filepath.Join(dir, costsFile)); text != "" {
		t.Errorf("the table is %q", text)
	}
	var out strings.Builder
	if err := run(t.Context(), []string{"-a", "", "-b", program}, &out, &out); err == nil {
		t.Error(fmt.Sprint("no first program is taken without -growth: ", out.String()))
	}
}
