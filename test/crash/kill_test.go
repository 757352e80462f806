package crash

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/zkd-project/zkd/jute"
)

// constantly makes snapshots, new segments and purges come all the time.
var constantly = []string{
	"snapCount=300",
	"autopurge.snapRetainCount=3",
	"autopurge.purgeInterval=1",
	"zkd.walSegmentSizeKb=4096",
	"jute.maxbuffer=131072",
	"tickTime=100",
	"minSessionTimeout=200",
	"maxSessionTimeout=60000",
	"maxClientCnxns=0",
}

// mayfly is a session whose client leaves and does not come back.
type mayfly struct {
	session jute.SessionID
	prefix  string
	gone    bool // its ephemerals were seen to be gone
}

// campaign is a server that is killed over and over on one data directory.
type campaign struct {
	*testing.T
	rng     *rand.Rand
	srv     *server
	workers []*worker
	flies   []*mayfly
	zxids   *zxidSet
	seen    map[string]jute.Zxid // sequential nodes ever seen
	zxid    jute.Zxid            // largest that a client has seen
	flyZxid jute.Zxid            // likewise, of the last mayfly

	early, torn, cut, happened, lost, snapshots, purged, audits int
}

func newCampaign(t *testing.T, lines ...string) *campaign {
	c := &campaign{T: t, rng: newRand(t), srv: newServer(t, lines...), zxids: newZxidSet(), seen: make(map[string]jute.Zxid)}
	const workers = 5
	seed := c.rng.Uint64()
	for i := range workers {
		c.workers = append(c.workers, newWorker(i, c.srv.addr, seed, c.zxids))
	}
	c.srv.start()
	k := c.srv.connect()
	for _, p := range []string{seqParent, mayParent} {
		if _, err := k.create(p, nil, jute.ModePersistent); err != nil {
			t.Fatal(err)
		}
	}
	c.zxid = k.lastZxid
	k.Close()
	return c
}

// TestKill kills the server at random moments, under load, during the start, and
// checks after each restart that nothing which a client was promised is lost.
// After every other kill it does to the end of the log what a power cut may do.
func TestKill(t *testing.T) {
	c := newCampaign(t, constantly...)
	begun := time.Now()
	for round := 1; round <= *rounds && !t.Failed(); round++ {
		c.load(func() {
			<-time.After(time.Duration(20+c.rng.IntN(300)) * time.Millisecond)
			c.srv.Kill()
		})
		c.readLog()
		if c.rng.IntN(2) == 0 && tear(t, c.rng, c.srv.Data, c.zxid) {
			c.torn++
		}
		c.killEarly()
		c.srv.start()
		c.audit()
		if round%50 == 0 {
			t.Logf("after %v: %s", time.Since(begun).Round(time.Second), c.report(round))
		}
	}
	c.awaitMayflies()
	t.Logf("%v: %s", time.Since(begun).Round(time.Second), c.report(*rounds))
	t.Logf("counts: kills=%d acknowledged=%d lost=%d", *rounds+c.early, c.sum().writes, c.lost)
}

// TestStop ends the server by SIGTERM under load: all that it has taken in must
// be answered or not, but nothing that was answered may be lost.
func TestStop(t *testing.T) {
	c := newCampaign(t, constantly...)
	for range 5 {
		c.load(func() {
			<-time.After(time.Duration(50+c.rng.IntN(200)) * time.Millisecond)
			c.srv.Stop()
		})
		c.readLog()
		c.srv.start()
		c.audit()
		if t.Failed() {
			return
		}
	}
	if c.cut > 0 {
		t.Errorf("the log had a torn end %d times after an orderly stop", c.cut)
	}
	t.Log(c.report(5))
}

// TestLossIsNoticed takes the last acknowledged writes out of the log, and sees
// that the other tests would notice.
func TestLossIsNoticed(t *testing.T) {
	c := newCampaign(t, noSnapshots...)
	const loss = 30
	file, list := c.loadSegment(loss)
	i := slices.IndexFunc(list, func(r logRecord) bool { return r.zxid > c.zxid-loss })
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	first, last := list[i], list[len(list)-1]
	overwrite(t, f, first.start, make([]byte, last.end-first.start))
	cut := fmt.Sprintf("clients had seen %v; of %s, with records from %v on, the bytes from %d to %d were zeroed, which were the records from %v to %v",
		c.zxid, filepath.Base(file), list[0].zxid, first.start, last.end, first.zxid, last.zxid)
	c.srv.start()
	if errs := c.differences(); len(errs) == 0 {
		t.Errorf("acknowledged writes were taken out of the log, and nobody noticed: %s; the server is now at %v", cut, c.zxid)
	}
}

// loadSegment runs the workers and kills the server until its last segment has the last n zxids
// that clients have seen, and records before them. It returns that segment; no server runs.
func (c *campaign) loadSegment(n jute.Zxid) (file string, list []logRecord) {
	c.Helper()
	for {
		c.load(func() {
			<-time.After(100 * time.Millisecond)
			c.srv.Kill()
		})
		segs := segments(c, c.srv.Data)
		file = segs[len(segs)-1]
		// Once only: the audit sees zxids that no worker has seen.
		if list = records(c, file); len(list) > 0 && list[0].zxid <= c.zxid-n {
			return file, list
		}
		c.srv.start()
		c.audit()
	}
}

// TestPause stops the process for longer than the session timeouts. Afterwards
// the sessions must get the time back: nobody could be heard.
func TestPause(t *testing.T) {
	s := newServer(t, constantly...)
	s.start()
	const timeout = 5 * time.Second
	c, err := dial(s.addr, jute.ConnectRequest{TimeoutMs: int32(timeout.Milliseconds())})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for round := range 2 {
		path := fmt.Sprintf("/e%d", round)
		if _, err := c.create(path, nil, jute.ModeEphemeral); err != nil {
			t.Fatal(err)
		}
		s.Signal(syscall.SIGSTOP)
		<-time.After(timeout + timeout/8)
		s.Signal(syscall.SIGCONT)
		// The server has to see that it was paused before it looks for expired
		// sessions, and this client must have time to say a word.
		<-time.After(timeout / 16)
		if err := c.ping(); err != nil {
			t.Fatalf("round %d: session is gone after a pause: %v\n%s", round, err, s.LogNow())
		}
		if _, err := c.get(path); err != nil {
			t.Fatal(err)
		}
	}
	// A client that stays away does expire.
	c.Close()
	k := s.connect()
	if !s.Poll(func() bool {
		list, err := k.children("/")
		return err == nil && len(list) == 1
	}) {
		t.Error("ephemerals of an expired session are still there")
	}
}

// load runs the workers until the connections break, which end must see to. It
// returns when everything that was received has been taken in.
func (c *campaign) load(end func()) {
	c.Helper()
	var wg sync.WaitGroup
	for _, w := range c.workers {
		wg.Go(func() {
			if err := w.run(); err != nil {
				c.Error(err)
			}
		})
	}
	if c.rng.IntN(2) == 0 {
		wg.Go(c.mayfly)
	}
	end()
	wg.Wait()
	for _, w := range c.workers {
		c.zxid = max(c.zxid, w.lastZxid)
	}
	c.zxid = max(c.zxid, c.flyZxid)
}

// mayfly begins a session, makes ephemerals and leaves.
func (c *campaign) mayfly() {
	k, err := dial(c.srv.addr, jute.ConnectRequest{TimeoutMs: 200})
	if err != nil {
		return
	}
	defer k.Close()
	defer func() { c.flyZxid = k.lastZxid }()
	f := &mayfly{session: k.Session, prefix: fmt.Sprintf("%s/%x-", mayParent, uint64(k.Session))}
	c.flies = append(c.flies, f)
	for i := range 3 {
		if _, err := k.create(fmt.Sprint(f.prefix, i), nil, jute.ModeEphemeral); err != nil {
			return
		}
	}
}

// killEarly starts the server a few times and kills it at once, so that it is
// hit during the start.
func (c *campaign) killEarly() {
	for c.rng.IntN(3) == 0 {
		c.srv.launch()
		<-time.After(time.Duration(c.rng.IntN(40_000)) * time.Microsecond)
		c.srv.Kill()
		c.readLog()
		c.early++
	}
}

// audit compares the server with what the workers were promised.
func (c *campaign) audit() {
	c.Helper()
	for _, err := range c.differences() {
		c.lost++
		c.Error(err)
	}
}

// differences returns how what the server has differs from what it promised.
func (c *campaign) differences() (errs []error) {
	c.Helper()
	w, err := c.srv.world()
	if err != nil {
		c.Fatal(err)
	}
	c.audits++
	if w.zxid < c.zxid {
		errs = append(errs, fmt.Errorf("server is at zxid %v, and clients have seen %v", w.zxid, c.zxid))
	}
	for p, f := range w.nodes {
		if z := max(f.Stat.Czxid, f.Stat.Mzxid, f.Stat.Pzxid); z > w.zxid {
			errs = append(errs, fmt.Errorf("%s has zxid %v, and the server is at %v", p, z, w.zxid))
		}
	}
	for _, k := range c.workers {
		n, err := k.settle(w.of(k))
		if err != nil {
			errs = append(errs, err)
		}
		c.happened += n
	}
	if err := w.checkSequence(c.workers, c.seen); err != nil {
		errs = append(errs, err)
	}
	for _, f := range c.flies {
		if err := f.check(w); err != nil {
			errs = append(errs, err)
		}
	}
	c.zxid = max(c.zxid, w.zxid)
	return errs
}

// check checks that ephemerals of a session that is gone stay away.
func (f *mayfly) check(w *world) error {
	n := 0
	for p := range w.nodes {
		if strings.HasPrefix(p, f.prefix) {
			n++
		}
	}
	if f.gone && n > 0 {
		return fmt.Errorf("session %v: %d of its ephemerals are back", f.session, n)
	}
	f.gone = n == 0
	return nil
}

// awaitMayflies waits until all abandoned sessions have expired.
func (c *campaign) awaitMayflies() {
	c.Helper()
	k := c.srv.connect()
	defer k.Close()
	var left []string
	if !c.srv.Poll(func() bool {
		var err error
		left, err = k.children(mayParent)
		return err == nil && len(left) == 0
	}) {
		c.Errorf("ephemerals of sessions without a client are still there: %q", left)
	}
}

// readLog counts what the process that has ended wrote about.
func (c *campaign) readLog() {
	log := c.srv.LogNow()
	c.cut += strings.Count(log, "cut the incomplete end of the log")
	c.snapshots += strings.Count(log, "snapshot written")
	c.purged += strings.Count(log, "\tpurged\t")
	c.srv.CheckLog()
}

// sum has the figures of all workers.
func (c *campaign) sum() (sum worker) {
	for _, w := range c.workers {
		sum.writes += w.writes
		sum.failed += w.failed
		sum.resumed += w.resumed
		sum.closed += w.closed
	}
	return sum
}

func (c *campaign) report(round int) string {
	sum := c.sum()
	segs := segments(c, c.srv.Data)
	return fmt.Sprintf("%d kills under load and %d during the start; %d writes acknowledged, %d refused as expected, %d without reply had happened; "+
		"lost: %d; torn ends: %d, of them made by the test: %d at most; %d snapshots, %d purges, %d segments now; %d sessions resumed, %d closed, %d abandoned; %d audits; zxid %v",
		round, c.early, sum.writes, sum.failed, c.happened, c.lost, c.cut, c.torn, c.snapshots, c.purged, len(segs), sum.resumed, sum.closed,
		len(c.flies), c.audits, c.zxid)
}
