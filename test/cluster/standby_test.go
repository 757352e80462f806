package cluster

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	zk "github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/internal/testing/freeport"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/migrate/standby"
	"github.com/zkd-project/zkd/test/internal/process"
)

var (
	losses = flag.Int("losses", 1, "rounds of TestStandby")
	far    = flag.Duration("far", 0, "how long what an ensemble and its standbys send each other takes, at 4 MB/s each way")
)

// TestStandby loses the site of an ensemble under writes, and has its standbys take its place. They have
// all that was acknowledged up to the zxid at which their copies end, a client keeps its session, and what was
// acknowledged after that is from the last moment.
func TestStandby(t *testing.T) {
	if apache() {
		return
	}
	r := newRand(t)
	var lost, all int
	var window, away []time.Duration
	for i := range *losses {
		d := newDrill(t)
		d.write(100 + r.IntN(2000))
		n, w := d.missing(d.takeOver())
		all, lost = all+len(d.acked), lost+n
		window, away = append(window, w), append(away, d.away)
		t.Logf("loss %d: %d of %d acknowledged writes are missing, of the last %v; writes are taken again after %v", i+1, n, len(d.acked), w.Round(time.Millisecond), d.away.Round(time.Millisecond))
		d.end()
		if t.Failed() {
			return
		}
	}
	slices.Sort(window)
	slices.Sort(away)
	t.Logf("missing: writes of the last %v (median), at most %v; writes are taken again after %v (median), at most %v",
		window[len(window)/2], window[len(window)-1], away[len(away)/2], away[len(away)-1])
	t.Logf("counts: losses=%d acknowledged=%d uncopied=%d", *losses, all, lost)
}

// TestPlannedChange retires an ensemble under writes, and has its standbys take its place while its servers still run; then back
// again the same way. No call fails, each write takes effect once, in an order that fits the times of the calls, and a client
// keeps its session.
func TestPlannedChange(t *testing.T) {
	if apache() {
		return
	}
	for i := range *losses {
		d := newDrill(t)
		for _, path := range []string{"/there", "/back"} {
			began := time.Now()
			sets := d.change(path)
			d.checkSets(path, sets)
			t.Logf("change %d, %s: %d sets, none is lost; no set was answered for %v, of %v", i+1, path[1:], len(sets), longestPause(sets).Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
			d.swap()
		}
		d.end()
		if t.Failed() {
			return
		}
	}
}

// set is a call that set a node, as whose version.
type set struct {
	begin, end time.Time
	version    int32
}

// change has clients set a node without a pause, before, while and after the standbys take the place of the ensemble.
func (d *drill) change(path string) (sets []set) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), 3*patience)
	defer cancel()
	if _, err := d.client.Create(ctx, path, nil, zk.CreateOptions{}); err != nil {
		d.t.Fatal(err)
	}
	var done atomic.Bool
	var mu sync.Mutex
	var writers sync.WaitGroup
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(sets)
	}
	for range 4 {
		c, err := zk.Connect(ctx, d.addrs, zk.Options{Timeout: time.Minute})
		if err != nil {
			d.t.Fatal(err)
		}
		writers.Go(func() {
			defer c.Close(ctx)
			for !done.Load() {
				begin := time.Now()
				st, err := c.Set(ctx, path, nil, zk.AnyVersion)
				if err != nil {
					d.t.Errorf("a set: %v", err)
					return
				}
				mu.Lock()
				sets = append(sets, set{begin, time.Now(), st.Version})
				mu.Unlock()
			}
		})
	}
	await := func(n int) {
		d.t.Helper()
		if !d.standbys[0].Poll(func() bool { return count() >= n }) {
			d.t.Errorf("%d sets are not answered", n)
		}
	}
	await(500)
	since := d.retire(ctx)
	for _, s := range d.standbys {
		d.until(s, func(st *standby.Status) bool { return st.Retired })
	}
	d.promote("--retired-since", since.String())
	await(count() + 500)
	done.Store(true)
	writers.Wait()
	return sets
}

// superDigest lets super:admin do everything.
const superDigest = "super:xQJmxLMiHGwaqBvst5y6rkB6HQs="

// retire retires the ensemble, and returns since when it is. An answer that is lost comes to no session any more: so the next attempt has another one.
func (d *drill) retire(ctx context.Context) (since zk.Zxid) {
	d.t.Helper()
	attempt := func() error {
		c, err := zk.Connect(ctx, d.servers[0].addr, zk.Options{Timeout: time.Minute, Insist: true, PlainSession: true,
			Auth: []zk.Auth{{Scheme: "digest", Data: []byte("super:admin")}}})
		if err != nil {
			return err
		}
		defer c.Close(ctx)
		node, err := c.Get(ctx, jute.RetiredPath)
		if errors.Is(err, zk.ErrNoNode) { // a retired ensemble answers no creation
			if _, err = c.Create(ctx, jute.RetiredPath, nil, zk.CreateOptions{}); err == nil {
				node, err = c.Get(ctx, jute.RetiredPath)
			}
		}
		since = node.Stat.Czxid
		return err
	}
	var err error
	if !d.servers[0].Poll(func() bool {
		err = attempt()
		return err == nil
	}) {
		d.t.Fatal(err)
	}
	return since
}

// checkSets checks that each set took effect once, and that their order fits the times of the calls.
func (d *drill) checkSets(path string, sets []set) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), patience)
	defer cancel()
	node, err := d.client.Exists(ctx, path)
	if err != nil || int(node.Stat.Version) != len(sets) {
		d.t.Errorf("after %d sets there is version %d, %v", len(sets), node.Stat.Version, err)
	}
	slices.SortFunc(sets, func(a, b set) int { return int(a.version - b.version) })
	var latest time.Time // beginning of a set of an earlier version
	for i, s := range sets {
		if int(s.version) != i+1 {
			d.t.Fatalf("version %d comes after %d", s.version, i)
		}
		if s.end.Before(latest) {
			d.t.Errorf("version %d was answered before the call for an earlier one began", s.version)
		}
		if s.begin.After(latest) {
			latest = s.begin
		}
	}
	d.checkMine(ctx)
}

// swap makes the servers of the ensemble that was retired standbys of the one that has taken its place.
func (d *drill) swap() {
	d.t.Helper()
	d.servers, d.standbys = d.standbys, d.servers
	var of []string
	for _, s := range d.servers {
		of = append(of, d.admins[s])
	}
	for _, s := range d.standbys {
		s.Kill()
		if err := errors.Join(os.RemoveAll(s.Data), os.Mkdir(s.Data, 0o755)); err != nil {
			d.t.Fatal(err)
		}
		s.identify(s.id)
	}
	d.followAll(of)
}

// longestPause returns the longest time between two answers.
func longestPause(sets []set) (longest time.Duration) {
	sets = slices.Clone(sets)
	slices.SortFunc(sets, func(a, b set) int { return a.end.Compare(b.end) })
	for i := range sets[1:] {
		longest = max(longest, sets[i+1].end.Sub(sets[i].end))
	}
	return longest
}

// drill is an ensemble of three servers and two standbys of it.
type drill struct {
	t        *testing.T
	servers  []*server
	standbys []*server
	admins   map[*server]string // URLs
	lines    []*relay           // to the other site
	addrs    string             // of all of them, for clients
	client   *zk.Client
	mine     zk.Stat // of its ephemeral

	mu    sync.Mutex
	acked []ackedWrite
	lost  time.Time     // when the servers were killed
	away  time.Duration // until a write was acknowledged again
}

type ackedWrite struct {
	path string
	zxid zk.Zxid
	at   time.Time
}

func newDrill(t *testing.T) *drill {
	t.Helper()
	d := &drill{t: t, admins: make(map[*server]string)}
	dir := tempDir(t)
	var lines [2][]string // of each site
	for id := 1; id <= 5; id++ {
		at := filepath.Join(dir, fmt.Sprint(id))
		s := newServer(t, id, at, filepath.Join(at, "data"))
		site := min(1, (id-1)/3)
		lines[site] = append(lines[site], fmt.Sprintf("server.%d=127.0.0.1:%d:%d", id, s.quorum, s.election))
		port := freeport.For(t, 1)[0]
		d.admins[s] = fmt.Sprintf("http://127.0.0.1:%d", port)
		if site == 0 {
			d.servers = append(d.servers, s)
		} else {
			d.standbys = append(d.standbys, s)
		}
		s.identify(id)
	}
	for i, site := range [][]*server{d.servers, d.standbys} {
		for _, s := range site {
			_, port, _ := strings.Cut(strings.TrimPrefix(d.admins[s], "http://"), ":")
			s.Configure(s.addr, append([]string{fmt.Sprintf("tickTime=%d", tick), "initLimit=50", "syncLimit=10", "admin.serverPort=" + port,
				"admin.snapshot.intervalInMS=0", "maxSessionTimeout=60000", "DigestAuthenticationProvider.superDigest=" + superDigest}, lines[i]...)...)
		}
	}
	t.Cleanup(d.end)
	for _, s := range d.servers {
		s.start()
	}
	var of, addrs []string
	for _, s := range d.servers {
		of = append(of, d.admins[s])
	}
	for _, s := range slices.Concat(d.servers, d.standbys) {
		addrs = append(addrs, s.addr)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	d.addrs = strings.Join(addrs, ",")
	c, err := zk.Connect(ctx, d.addrs, zk.Options{Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	d.client = c
	made, err := c.Create(ctx, "/mine", nil, zk.CreateOptions{Mode: zk.Ephemeral, Stat: true})
	if err != nil {
		t.Fatal(err)
	}
	d.mine = made.Stat
	d.followAll(of)
	return d
}

// followAll starts all standbys, which reach these servers over long lines, and waits until they have the client's ephemeral.
func (d *drill) followAll(of []string) {
	d.t.Helper()
	if *far > 0 {
		of = d.overLines(of)
	}
	for _, s := range d.standbys {
		d.follow(s, of...)
	}
	for _, s := range d.standbys {
		d.until(s, func(st *standby.Status) bool { return st.Ephemerals == 1 })
	}
}

// overLines returns the URLs by which the servers with these are reached from the other site.
func (d *drill) overLines(urls []string) (over []string) {
	d.t.Helper()
	d.hangUp()
	for _, url := range urls {
		there, back := newFlow(), newFlow()
		for _, f := range []*flow{there, back} {
			f.set(weather{delay: *far, rate: 4 << 20, shared: true})
		}
		line := newRelay(d.t, strings.TrimPrefix(url, "http://"), there, back)
		d.lines = append(d.lines, line)
		over = append(over, fmt.Sprintf("http://127.0.0.1:%d", line.port()))
	}
	return over
}

func (d *drill) hangUp() {
	for _, line := range d.lines {
		line.close()
	}
	d.lines = nil
}

// follow starts a standby.
func (d *drill) follow(s *server, of ...string) {
	d.t.Helper()
	auth := filepath.Join(s.Dir, "auth")
	s.Write(auth, "digest:drill:secret\n")
	s.Launch(*program, "standby", "--of", strings.Join(of, ","), "--auth-file", auth, s.Config())
}

// until waits for what the status of a standby shows.
func (d *drill) until(s *server, what func(*standby.Status) bool) (st *standby.Status) {
	d.t.Helper()
	if !s.Poll(func() bool {
		var err error
		st, err = standby.ReadStatus(s.Data)
		return err == nil && st.Running && what(st)
	}) {
		d.t.Fatalf("standby %d does not get so far: %+v", s.id, st)
	}
	return st
}

// write has clients write until so many writes are acknowledged, and kills the servers then, under more writes.
func (d *drill) write(enough int) {
	d.t.Helper()
	ctx, cancel := context.WithCancel(d.t.Context())
	defer cancel()
	reached := make(chan struct{})
	var writers sync.WaitGroup
	for w := range 8 {
		writers.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				path := fmt.Sprintf("/w%d-%d", w, i)
				made, err := d.client.Create(ctx, path, nil, zk.CreateOptions{Stat: true})
				if err != nil {
					return
				}
				d.mu.Lock()
				d.acked = append(d.acked, ackedWrite{path, made.Stat.Czxid, time.Now()})
				if len(d.acked) == enough {
					close(reached)
				}
				d.mu.Unlock()
			}
		})
	}
	select {
	case <-reached:
	case <-time.After(patience):
		d.t.Errorf("%d writes are not acknowledged", enough)
	}
	for _, s := range d.servers {
		s.Signal(syscall.SIGKILL)
	}
	d.lost = time.Now()
	cancel()
	writers.Wait()
	for _, s := range d.servers {
		s.Kill()
	}
}

// takeOver makes the standbys an ensemble. It returns the zxid at which their copies end.
func (d *drill) takeOver() zk.Zxid {
	d.t.Helper()
	for _, s := range d.standbys { // what was under way has arrived
		d.until(s, func(st *standby.Status) bool { return st.Problem != "" && st.Zxid == st.Durable })
	}
	ahead, behind := d.standbys[0], d.standbys[1]
	if d.last(ahead) < d.last(behind) {
		ahead, behind = behind, ahead
	}
	behind.Stop()
	d.follow(behind, d.admins[ahead])
	d.until(behind, func(*standby.Status) bool { return d.last(behind) == d.last(ahead) })
	end := d.last(ahead)
	d.promote("--accept-data-loss-after", end.String())
	ctx, cancel := context.WithTimeout(d.t.Context(), patience)
	defer cancel()
	if _, err := d.client.Create(ctx, "/after", nil, zk.CreateOptions{}); err != nil {
		d.t.Fatalf("the client does not find the standbys: %v", err)
	}
	d.away = time.Since(d.lost)
	return end
}

// promote makes the standbys an ensemble, by a command with these flags besides.
func (d *drill) promote(flags ...string) {
	d.t.Helper()
	for _, s := range d.standbys {
		s.Stop()
		st, err := standby.ReadStatus(s.Data)
		if err != nil {
			d.t.Fatal(err)
		}
		flags = append(flags, "--member", st.Member)
	}
	for _, s := range d.standbys {
		args := append([]string{"standby", "promote", s.Config()}, flags...)
		if out, err := exec.Command(*program, args...).CombinedOutput(); err != nil {
			d.t.Fatalf("standby %d: %v: %s", s.id, err, out)
		}
		s.start()
	}
}

// last returns the zxid at which the copy of a standby ends.
func (d *drill) last(s *server) zk.Zxid {
	d.t.Helper()
	st, err := standby.ReadStatus(s.Data)
	var z zk.Zxid
	if err == nil {
		_, err = fmt.Sscanf(st.Durable, "0x%x", &z)
	}
	if err != nil {
		d.t.Fatal(err)
	}
	return z
}

// missing checks what the standbys have, of which the copy ended at a zxid. It returns how many acknowledged writes they do
// not have, and how long before the loss the first of them was acknowledged.
func (d *drill) missing(end zk.Zxid) (n int, window time.Duration) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), patience)
	defer cancel()
	list, err := d.client.Children(ctx, "/")
	if err != nil {
		d.t.Fatal(err)
	}
	have := make(map[string]bool)
	for _, name := range list.Names {
		have["/"+name] = true
	}
	for _, w := range d.acked {
		if have[w.path] != (w.zxid <= end) {
			d.t.Errorf("%s of %v: there is %t, and the copy ended at %v", w.path, w.zxid, have[w.path], end)
		}
		if !have[w.path] {
			n, window = n+1, max(window, d.lost.Sub(w.at))
		}
	}
	d.checkMine(ctx)
	return n, window
}

// checkMine checks that the session of the client was kept.
func (d *drill) checkMine(ctx context.Context) {
	d.t.Helper()
	mine, err := d.client.Exists(ctx, "/mine")
	if err != nil || mine.Stat != d.mine {
		d.t.Errorf("the session's ephemeral is %+v, %v; it was %+v", mine.Stat, err, d.mine)
	}
}

func (d *drill) end() {
	if d.client != nil {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		d.client.Close(ctx) // the servers may be gone
		d.client = nil
	}
	for _, s := range slices.Concat(d.servers, d.standbys) {
		s.Kill()
		if d.t.Failed() {
			d.t.Logf("end of the log of server %d:\n%s", s.id, process.Tail(s.Log(), 6000))
		}
	}
	d.hangUp()
}
