package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/cmd/zkbench/bench"
)

func TestParseSizes(t *testing.T) {
	if got, err := parseSizes("1,3,13"); err != nil || !slices.Equal(got, []int{1, 3, 13}) {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := parseSizes(""); err != nil || got != nil {
		t.Errorf("nothing: got %v, %v", got, err)
	}
	for _, bad := range []string{"0", "2", "3,3", "1,,3", "x", "1, 3"} {
		if got, err := parseSizes(bad); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("%q: got %v, %v, want an error that shows it", bad, got, err)
		}
	}
}

// The first program is there in small ensembles only, and so are those that sync
// nothing.
func TestLines(t *testing.T) {
	s := settings{a: apache, b: "/bin/zkd", sizes: []int{1, 3, 5}}
	var got []string
	for _, l := range s.lines() {
		got = append(got, l.String())
	}
	want := []string{
		"Apache, 1", "Apache, 3", "zkd, 1", "zkd, 3", "zkd, 5",
		"Apache, 1, unsynced", "Apache, 3, unsynced", "zkd, 1, unsynced", "zkd, 3, unsynced",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Each server gets as many connections, and Apache's server never as many
// requests as it throttles.
func TestCurveLoad(t *testing.T) {
	for n, want := range map[int]int{1: 24, 3: 24, 5: 25, 7: 28, 9: 27, 13: 26} {
		cfg := (&settings{}).curveLoad(n, 0.9)
		if cfg.Connections != want || cfg.Connections%n != 0 || cfg.Connections*cfg.Window >= 1000 || cfg.Reads != 0.9 {
			t.Errorf("%d servers: %+v, want %d connections", n, cfg, want)
		}
	}
}

// curveOps is how many operations a point of the tests' curve has.
const curveOps = 2000

// TestCurve puts the load of the curve on ensembles, and checks its shape without a
// clock: each operation is answered, and rightly; a write takes one transaction,
// whatever the size of the ensemble; a read takes none.
func TestCurve(t *testing.T) {
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprint("servers=", n), func(t *testing.T) {
			servers := startServers(t, n)
			c := servers.Client(t)
			var taken []int64 // transactions, by share
			for _, reads := range shares {
				taken = append(taken, transactions(t, c, func() { curvePoint(t, servers, n, reads, curveOps) }))
			}
			// The sessions and the nodes of a point take as many for each share.
			around := taken[len(taken)-1]
			for i, reads := range shares {
				writes := taken[i] - around
				t.Logf("%s: %d writes", percent(reads), writes)
				switch want := (1 - reads) * curveOps; {
				case reads == 0 && writes != curveOps:
					t.Errorf("%d operations that all write take %d transactions", curveOps, writes)
				case math.Abs(float64(writes)-want) > curveOps/20:
					t.Errorf("%s: %d operations take %d transactions, want about %.0f", percent(reads), curveOps, writes, want)
				}
			}
		})
	}
}

// startServers starts an ensemble in memory that does not change its leader, or a
// single server.
func startServers(t testing.TB, n int) *zktest.Proxy {
	t.Helper()
	if n == 1 {
		return zktest.Start(t).Proxy
	}
	return zktest.StartEnsemble(t, n, zktest.Patient()).Proxy
}

// curvePoint puts the load of a point on n servers. All replies must be right.
func curvePoint(t testing.TB, servers *zktest.Proxy, n int, reads float64, ops int64) bench.Result {
	t.Helper()
	cfg := (&settings{}).curveLoad(n, reads)
	cfg.Count, cfg.Warmup = ops, 0
	r, err := bench.Run(t.Context(), bench.Target{Addrs: strings.Split(servers.ConnectString(), ",")}, cfg)
	if err != nil || r.Ops != ops || r.Wrong != 0 {
		t.Fatalf("%d servers, %s: %d operations of %d, %d wrong replies, %v", n, percent(reads), r.Ops, ops, r.Wrong, err)
	}
	return r
}

// transactions returns how many transactions are committed while fn runs. They have
// consecutive zxids while the leader stays.
func transactions(t *testing.T, c *client.Client, fn func()) int64 {
	t.Helper()
	mark := func() client.Zxid {
		made, err := c.Create(t.Context(), "/mark-", nil, client.CreateOptions{Mode: client.PersistentSequential, Stat: true})
		if err != nil {
			t.Fatal(err)
		}
		return made.Stat.Czxid
	}
	before := mark()
	fn()
	after := mark()
	if before.Epoch() != after.Epoch() {
		t.Fatalf("the leader has changed: %v, then %v", before, after)
	}
	return int64(after-before) - 1
}

// BenchmarkCurve has the points of the curve on ensembles in memory, in this process.
// `bin/bench -curve` measures those of servers that are programs with disks.
func BenchmarkCurve(b *testing.B) {
	for _, n := range []int{1, 3, 5} {
		servers := startServers(b, n)
		for _, reads := range shares {
			b.Run(fmt.Sprintf("servers=%d/reads=%.0f%%", n, 100*reads), func(b *testing.B) {
				r := curvePoint(b, servers, n, reads, int64(b.N))
				b.ReportMetric(r.Rate, "ops/s")
				b.ReportMetric(0, "ns/op") // of a run with its preparation
			})
		}
	}
}

// A program is compared with the other at its own size, and with itself unsynced,
// even if both are the same program.
func TestCurveTables(t *testing.T) {
	s := settings{a: "/bin/zkd", b: "/usr/bin/zkd", sizes: []int{1, 5}}
	lines := s.lines()
	for i, l := range lines {
		for j := range shares {
			v := float64(100*(i+1) + j)
			l.rates[j], l.cpu[j] = []float64{v, v + 10}, []float64{float64(i + 1)}
		}
	}
	var out strings.Builder
	if err := writeCurve(&out, lines, "old", "new"); err != nil {
		t.Fatal(err)
	}
	want := `Operations per second

| | zkd, 1 | zkd, 1 | zkd, 5 |
|---|---|---|---|
| 0 % reads | 105 (100 to 110) | 205 (200 to 210) | 305 (300 to 310) |
| 50 % reads | 106 (101 to 111) | 206 (201 to 211) | 306 (301 to 311) |
| 90 % reads | 107 (102 to 112) | 207 (202 to 212) | 307 (302 to 312) |
| 100 % reads | 108 (103 to 113) | 208 (203 to 213) | 308 (303 to 313) |

CPU time of all servers for each operation (us)

| | zkd, 1 | zkd, 1 | zkd, 5 |
|---|---|---|---|
| 0 % reads | 1.00 | 2.00 | 3.00 |
| 50 % reads | 1.00 | 2.00 | 3.00 |
| 90 % reads | 1.00 | 2.00 | 3.00 |
| 100 % reads | 1.00 | 2.00 | 3.00 |

The programs beside each other

| | old | new | ratio |
|---|---|---|---|
| size 1, 0 % reads (/s) | 105 (100 to 110) | 205 (200 to 210) | 1.95 (1.91 to 2.00) |
| size 1, 50 % reads (/s) | 106 (101 to 111) | 206 (201 to 211) | 1.95 (1.90 to 1.99) |
| size 1, 90 % reads (/s) | 107 (102 to 112) | 207 (202 to 212) | 1.94 (1.89 to 1.98) |
| size 1, 100 % reads (/s) | 108 (103 to 113) | 208 (203 to 213) | 1.93 (1.88 to 1.97) |

Sets only, synced and not

| | forceSync=yes | forceSync=no | ratio |
|---|---|---|---|
| zkd, 1 (/s) | 105 (100 to 110) | 405 (400 to 410) | 3.86 (3.73 to 4.00) |
| zkd, 1 (/s) | 205 (200 to 210) | 505 (500 to 510) | 2.46 (2.43 to 2.50) |
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

// A line that syncs nothing says so to its servers.
func TestUnsynced(t *testing.T) {
	for _, unsynced := range []bool{false, true} {
		program := script(t, "grep -c ^forceSync=no$ $1\nexit 3\n")
		l := &line{program: program, size: 3, unsynced: unsynced}
		want := map[bool]string{false: "\n0\n", true: "\n1\n"}[unsynced]
		if err := l.start(t.Context(), t.TempDir()); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("unsynced %v: %v, want the output %q", unsynced, err, want)
		}
	}
}

// What fails is named, and leaves no server behind.
func TestCurveFails(t *testing.T) {
	program := script(t, "echo no such key\nexit 3\n")
	c := &campaign{ctx: t.Context(), settings: settings{a: program, b: program, dir: t.TempDir(), rounds: 1, sizes: []int{1}}, log: io.Discard}
	if err := c.drawCurve(io.Discard); err == nil || !strings.Contains(err.Error(), "no such key") {
		t.Errorf("got %v, want the server's output", err)
	}
}
