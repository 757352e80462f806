package cluster

import (
	"context"
	"flag"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	zk "github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/internal/testing/freeport"
	"github.com/zkd-project/zkd/migrate/standby"
	"github.com/zkd-project/zkd/test/internal/process"
)

var losses = flag.Int("losses", 1, "rounds of TestStandby")

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

// drill is an ensemble of three servers and two standbys of it.
type drill struct {
	t        *testing.T
	servers  []*server
	standbys []*server
	admins   map[*server]string // URLs
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
				"admin.snapshot.intervalInMS=0", "maxSessionTimeout=60000"}, lines[i]...)...)
		}
	}
	t.Cleanup(d.end)
	for _, s := range d.servers {
		s.start()
	}
	var addrs, of []string
	for _, s := range d.servers {
		of = append(of, d.admins[s])
	}
	for _, s := range slices.Concat(d.servers, d.standbys) {
		addrs = append(addrs, s.addr)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := zk.Connect(ctx, strings.Join(addrs, ","), zk.Options{Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	d.client = c
	made, err := c.Create(ctx, "/mine", nil, zk.CreateOptions{Mode: zk.Ephemeral, Stat: true})
	if err != nil {
		t.Fatal(err)
	}
	d.mine = made.Stat
	for _, s := range d.standbys {
		d.follow(s, of...)
	}
	for _, s := range d.standbys {
		d.until(s, func(st *standby.Status) bool { return st.Ephemerals == 1 })
	}
	return d
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
	var members []string
	for _, s := range d.standbys {
		s.Stop()
		st, err := standby.ReadStatus(s.Data)
		if err != nil {
			d.t.Fatal(err)
		}
		members = append(members, "--member", st.Member)
	}
	for _, s := range d.standbys {
		args := append([]string{"standby", "promote", "--accept-data-loss-after", end.String(), s.Config()}, members...)
		if out, err := exec.Command(*program, args...).CombinedOutput(); err != nil {
			d.t.Fatalf("standby %d: %v: %s", s.id, err, out)
		}
		s.start()
	}
	ctx, cancel := context.WithTimeout(d.t.Context(), patience)
	defer cancel()
	if _, err := d.client.Create(ctx, "/after", nil, zk.CreateOptions{}); err != nil {
		d.t.Fatalf("the client does not find the standbys: %v", err)
	}
	d.away = time.Since(d.lost)
	return end
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
	mine, err := d.client.Exists(ctx, "/mine")
	if err != nil || mine.Stat != d.mine {
		d.t.Errorf("the session's ephemeral is %+v, %v; it was %+v", mine.Stat, err, d.mine)
	}
	return n, window
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
}
