//go:build compat

package compat

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/internal/testing/freeport"
	"github.com/zkd-project/zkd/internal/testing/seeds"
	"github.com/zkd-project/zkd/server/data"
	"github.com/zkd-project/zkd/server/datatree"
)

// TestTakeover takes a running ensemble of Apache's over while clients write: every write that was
// acknowledged is there afterwards, and the sessions go on. With -full it does so twenty times,
// and kills a server, a mirror or the command at each step.
func TestTakeover(t *testing.T) { testTakeovers(t, apache) }

func TestTakeover39(t *testing.T) { testTakeovers(t, apache39) }

func testTakeovers(t *testing.T, k kind) {
	needServer(t, k)
	rounds := 1
	if *fullFlag {
		rounds = 20
	}
	var pauses []time.Duration
	first := seeds.First(t)
	for seed := first; seed < first+uint64(rounds); seed++ {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			x := &takeover{T: t, r: rand.New(rand.NewPCG(seed, 1)), kills: *fullFlag, apart: seed%2 == 1}
			if k == apache39 {
				x.jaas = digestLogins(t)
			}
			pauses = append(pauses, x.run(k))
		})
	}
	slices.Sort(pauses)
	t.Logf("pauses of %d takeovers: median %v, longest %v", len(pauses), pauses[len(pauses)/2], pauses[len(pauses)-1])
	summary(t, t.Name(), len(pauses), 0)
}

// TestTakeoverCurator takes a running ensemble over under Curator's locks, elections, queues and
// caches. The program says what must hold, and how long its pauses were.
func TestTakeoverCurator(t *testing.T) {
	curator := curatorCommand(t, "FaultsProgram")
	x := &takeover{T: t, r: rand.New(rand.NewPCG(seeds.First(t), 1)), kills: *fullFlag}
	x.e = startEnsemble(t, apache, config{lines: []string{"tickTime=500"}})
	look := newHolder(t, x.e.hosts())
	p := startProgram(t, curator[0], append(curator[1:], x.e.hosts(), "-")...)
	defer p.finish(t)
	x.mirror()
	x.awaitCounts(look)
	x.disturb()
	x.disturb()
	x.awaitSynced(0)
	pause := x.cut()
	x.awaitCounts(look)
	t.Logf("zkd served after %v", pause)
}

// TestTakeoverRanAgain starts Apache's servers again between the decision and the finish, and stops them: the
// finish is refused while they run and afterwards, since they have acknowledged a write that the decision lacks.
func TestTakeoverRanAgain(t *testing.T) {
	needServer(t, apache)
	x := &takeover{T: t, r: rand.New(rand.NewPCG(seeds.First(t), 1)), apart: true}
	x.e = startEnsemble(t, apache, config{lines: []string{"tickTime=500"}})
	h := newHolder(t, x.e.hosts())
	create := func(path string) {
		t.Helper()
		_, err := h.Steady().Create(t.Context(), path, nil, client.CreateOptions{})
		x.check(err)
	}
	create("/before")
	x.mirror()
	stop := func() {
		for _, s := range x.e.servers {
			s.kill()
		}
	}
	stop()
	for _, m := range x.mirrors {
		m.kill()
	}
	var disks []string
	for _, s := range x.e.servers {
		disks = append(disks, "--from", filepath.Join(s.dir, "data"))
	}
	decision := filepath.Join(t.TempDir(), "decision")
	args := slices.Concat([]string{"takeover", "decide", "--decision", decision}, disks)
	for _, dir := range x.dirs[1:] {
		args = append(args, "--member", x.status(dir).Member)
	}
	zkdCommand(t, append(args, x.dirs[0])...)
	zkdCommand(t, "takeover", "finish", "--decision", decision, x.dirs[0])

	x.check(x.e.heal())
	create("/after")
	refused := func(want string) {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), zkdBinary(t), "takeover", "finish", "--decision", decision, x.dirs[1]).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("finish: %v\n%s, want %q", err, out, want)
		}
	}
	refused("quorum port")
	stop()
	refused("have run after")
}

// awaitCounts waits until Curator's lock and both elections were taken a few times more.
func (x *takeover) awaitCounts(look *holder) {
	x.Helper()
	for _, path := range []string{"/faults/counter", "/faults/latch-terms", "/faults/selector-terms"} {
		const more = 20
		first := int32(-1)
		err := x.e.servers[0].waitFor("counting in "+path, func() bool {
			found, err := look.Steady().Exists(x.Context(), path)
			x.check(err)
			if found.Exists && first < 0 {
				first = found.Stat.Version
			}
			return first >= 0 && found.Stat.Version >= first+more
		})
		x.check(err)
	}
}

// takeover is one takeover.
type takeover struct {
	*testing.T
	r       *rand.Rand
	kills   bool              // kill something at each step
	apart   bool              // finish as on several machines
	jaas    string            // file with which Apache's servers log in to each other; "" if they do not
	props   map[string]string // for Apache's servers
	e       *ensemble
	mirrors []*server
	readers []string // addresses where the mirrors can be read
	dirs    []string
	writers []*writer
	lagging *server // a mirror that was killed before the last writes
}

// writer creates one znode after the other, and notes which creates were acknowledged.
type writer struct {
	*holder
	name  string
	acked atomic.Int64
	list  []string
	// The longest time between two acknowledgements.
	last time.Time
	gap  time.Duration
}

func (w *writer) run(ctx context.Context) {
	w.last = time.Now()
	for n := 0; ctx.Err() == nil; n++ {
		path := fmt.Sprintf("/%s-%d", w.name, n)
		if _, err := w.Create(ctx, path, []byte(path), client.CreateOptions{}); err != nil {
			continue // its outcome is unknown
		}
		w.gap = max(w.gap, time.Since(w.last))
		w.last = time.Now()
		w.list = append(w.list, path)
		w.acked.Add(1)
	}
}

func (x *takeover) run(k kind) (pause time.Duration) {
	t := x.T
	c := config{lines: []string{"tickTime=500"}, props: map[string]string{"zookeeper.snapCount": "300", "zookeeper.extendedTypesEnabled": "true"}}
	maps.Copy(c.props, x.props)
	if x.jaas != "" {
		c.lines = append(c.lines, "quorum.auth.enableSasl=true", "quorum.auth.learnerRequireSasl=true", "quorum.auth.serverRequireSasl=true")
		c.props["java.security.auth.login.config"], c.props["zookeeper.fips-mode"] = x.jaas, "false"
	}
	x.e = startEnsemble(t, k, c)
	keeper, kazoo := newHolder(t, x.e.hosts()), newKazoo(t, x.e.hosts())
	storm(t, x.e.hosts(), x.r.Uint64(), nil)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for i := range 3 {
		w := &writer{holder: newHolder(t, x.e.hosts(), fmt.Sprintf("/owned-%d", i)), name: fmt.Sprintf("w%d", i)}
		x.writers = append(x.writers, w)
		running.Go(func() { w.run(ctx) })
	}
	defer running.Wait()
	defer stop()

	x.mirror()
	x.read()
	x.awaitWrites(20)
	roles, _ := x.e.roles()
	roles[leader].kill()
	x.check(x.e.heal())
	x.disturb()
	x.awaitSynced(1)
	x.awaitWrites(20)
	x.disturb()

	x.lagging = x.mirrors[1+x.r.IntN(2)]
	x.lagging.kill() // it lacks the last transactions, which are on Apache's disks
	x.awaitWrites(20)
	pause = x.cut()
	x.awaitWrites(20)
	keeper.check(t, "/held-1")
	kazoo.check(t, "zkd")
	stop()
	running.Wait()
	x.verify()
	return pause
}

// digestLogins writes the JAAS file of servers that log in to each other by passwords.
func digestLogins(t *testing.T) string {
	file := filepath.Join(t.TempDir(), "jaas.conf")
	if err := os.WriteFile(file, []byte(`QuorumServer { org.apache.zookeeper.server.auth.DigestLoginModule required user_zkd="s3cret"; };
QuorumLearner { org.apache.zookeeper.server.auth.DigestLoginModule required username="zkd" password="s3cret"; };
`), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// mirror starts the three mirrors.
func (x *takeover) mirror() {
	text, err := os.ReadFile(filepath.Join(x.e.servers[0].dir, "zoo.cfg"))
	x.check(err)
	var from []string
	for line := range strings.Lines(string(text)) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), "="); strings.HasPrefix(name, "server.") {
			from = append(from, value[:strings.LastIndexByte(value, ':')])
		}
	}
	for i, port := range freeport.For(x.T, 3) {
		dir := serverDir(x.T)
		x.dirs = append(x.dirs, filepath.Join(dir, "data"))
		x.readers = append(x.readers, fmt.Sprintf("127.0.0.1:%d", port))
		m := &server{kind: zkd, dir: dir, args: []string{zkdBinary(x.T), "takeover", "mirror", "--from", strings.Join(from, ","), "--to", x.dirs[i], "--sid", strconv.Itoa(101 + i), "--listen", x.readers[i]}}
		if x.jaas != "" {
			m.args = append(m.args, "--jaas", x.jaas)
		}
		x.check(m.launch())
		x.Cleanup(m.kill)
		x.mirrors = append(x.mirrors, m)
		x.disturb()
	}
	x.awaitSynced(0)
}

// read reads the mirrors by kazoo while clients write to Apache's servers.
func (x *takeover) read() {
	for _, addr := range x.readers {
		if out, err := exec.CommandContext(x.Context(), python, filepath.Join("python", "zkd_mirror.py"), addr).CombinedOutput(); err != nil {
			x.Errorf("kazoo reads from a mirror: %v\n%s", err, out)
		}
	}
}

// disturb kills something, and starts it again.
func (x *takeover) disturb() {
	if !x.kills {
		return
	}
	if i := x.r.IntN(6); i < 3 {
		x.e.servers[i].kill()
		x.check(x.e.heal())
	} else if i -= 3; i < len(x.mirrors) {
		x.mirrors[i].kill()
		x.check(x.mirrors[i].launch())
	}
}

// awaitSynced waits until each mirror is synced, after so many DIFFs or SNAPs of the process.
func (x *takeover) awaitSynced(again int) {
	x.Helper()
	for i, m := range x.mirrors {
		err := m.waitFor("synced", func() bool {
			s := x.status(x.dirs[i])
			if s.Unfit > 0 {
				x.Errorf("mirror %d: %d transactions did not fit", i, s.Unfit)
			}
			return s.State == "synced" && (s.Snaps+s.Diffs > again || x.kills)
		})
		if err != nil {
			x.Fatalf("mirror %d: %v; its log ends:\n%s", i, err, tail(m.logFile(), 30))
		}
	}
}

// awaitWrites waits until each writer has n more writes acknowledged.
func (x *takeover) awaitWrites(n int64) {
	x.Helper()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for _, w := range x.writers {
		deadline := time.Now().Add(startDeadline)
		for want := w.acked.Load() + n; w.acked.Load() < want; <-poll.C {
			if time.Now().After(deadline) {
				x.Fatalf("%s: no writes for %v", w.name, startDeadline)
			}
		}
	}
}

// cut stops Apache's servers, finishes the takeover and starts zkd's, and returns how long the
// clients had no server.
func (x *takeover) cut() time.Duration {
	roles, ok := x.e.roles()
	if !ok {
		x.Fatal("Apache's ensemble is not healthy")
	}
	began := time.Now()
	for _, s := range []*server{roles[follower], roles[otherFollower], roles[leader]} {
		s.kill()
	}
	for _, m := range x.mirrors {
		if x.kills && x.r.IntN(2) == 0 {
			m.kill()
			continue
		}
		m.cmd.Process.Signal(syscall.SIGTERM) // it may be gone already
		<-m.exited
	}
	var disks []string
	for _, s := range x.e.servers {
		disks = append(disks, "--from", filepath.Join(s.dir, "data"))
	}
	tail := x.finish(disks)
	stopped := time.Since(began)
	if !x.kills && x.lagging != nil && slices.Max(tail) == 0 {
		x.Error("no mirror got anything from Apache's disks")
	}
	copied := x.TempDir()
	x.check(os.CopyFS(copied, os.DirFS(x.dirs[0])))
	began = began.Add(time.Since(began) - stopped) // the copy is the test's
	next := x.succeed()
	pause := time.Since(began)
	x.compare(copied)
	x.Logf("%v transactions from the disks; the copies were decided after %v, and zkd served after %v", tail, stopped, pause)
	x.e = next
	return pause
}

// finish makes the mirrors an ensemble, by one command or as on several machines, and returns how many
// transactions they have got from the disks.
func (x *takeover) finish(disks []string) (tail []int) {
	if !x.apart {
		return x.command(slices.Concat([]string{"finish"}, disks, x.dirs))
	}
	decision := filepath.Join(x.TempDir(), "decision")
	args := slices.Concat([]string{"decide", "--decision", decision}, disks)
	for _, dir := range x.dirs[1:] {
		args = append(args, "--member", x.status(dir).Member)
	}
	zkdCommand(x.T, slices.Concat([]string{"takeover"}, args, x.dirs[:1])...)
	for _, dir := range x.dirs {
		tail = append(tail, x.command([]string{"finish", "--decision", decision, dir})...)
	}
	return tail
}

// run1 runs a command that finishes a takeover, after it was killed at some time, and returns how many
// transactions were taken from the disks.
func (x *takeover) command(args []string) []int {
	args = append([]string{"takeover", args[0], "-o", "json"}, args[1:]...)
	if x.kills {
		interrupted := &server{dir: filepath.Dir(x.dirs[0]), args: append([]string{zkdBinary(x.T)}, args...)}
		x.check(interrupted.launch())
		select {
		case <-interrupted.exited:
		case <-time.After(time.Duration(x.r.IntN(150)) * time.Millisecond):
			interrupted.kill()
		}
	}
	out := zkdCommand(x.T, args...)
	var result struct{ Tail []int }
	x.check(json.Unmarshal([]byte(out[strings.IndexByte(out, '{'):]), &result))
	return result.Tail
}

// mirrorStatus is what a mirror says of itself.
type mirrorStatus struct {
	State, Member string
	Snaps, Diffs  int
	Unfit         int
}

func (x *takeover) status(dir string) (s mirrorStatus) {
	b, err := os.ReadFile(filepath.Join(dir, "mirror.status"))
	if err == nil {
		x.check(json.Unmarshal(b, &s))
	}
	return s
}

// succeed starts zkd's servers at the addresses of Apache's.
func (x *takeover) succeed() *ensemble {
	next := &ensemble{kind: zkd}
	for i, old := range x.e.servers {
		text, err := os.ReadFile(filepath.Join(old.dir, "zoo.cfg"))
		x.check(err)
		dir := filepath.Dir(x.dirs[i])
		text = bytes.ReplaceAll(text, []byte("dataDir="+old.dir), []byte("dataDir="+dir))
		text = bytes.ReplaceAll(text, []byte("server."), []byte("server.10"))
		if x.jaas != "" { // zkd's servers prove who they are by a secret
			text = append(text, "\nzkd.quorumSecretFile="+x.jaas+"\n"...)
		}
		file := filepath.Join(dir, "zoo.cfg")
		x.check(os.WriteFile(file, text, 0o600))
		s := &server{kind: zkd, dir: dir, addr: old.addr, args: command(x.T, zkd, file, config{})}
		x.check(s.launch())
		x.Cleanup(s.kill)
		next.servers = append(next.servers, s)
	}
	x.check(next.awaitHealthy())
	return next
}

// compare compares the copy with what an import makes of the stopped servers' files.
func (x *takeover) compare(copied string) {
	args := []string{"import", "--members", "1,2,3", "--to", filepath.Join(x.TempDir(), "new")}
	for _, s := range x.e.servers {
		args = append(args, "--from", filepath.Join(s.dir, "data"))
	}
	zkdCommand(x.T, args...)
	var digests []string
	for _, dir := range []string{copied, filepath.Join(args[4], "1")} {
		state, err := data.Read(x.Context(), data.Place{DataDir: dir, LogDir: dir})
		x.check(err)
		// Each server of Apache's writes the configuration for itself, and the takeover writes another.
		var out datatree.Applied
		state.Tree.Apply(&datatree.Txn{Zxid: 1 << 60, Ops: []datatree.Op{{Kind: datatree.OpSetData, Path: datatree.ConfigPath}}}, &out)
		digests = append(digests, state.Tree.Digest().String())
	}
	if digests[0] != digests[1] {
		x.Errorf("the copy has digest %s, and an import gives %s", digests[0], digests[1])
	}
}

// verify checks that all acknowledged writes are there, with the sessions of the writers.
func (x *takeover) verify() {
	total := 0
	for i, w := range x.writers {
		w.check(x.T, fmt.Sprintf("/owned-%d", i))
		for _, path := range w.list {
			node, err := w.Steady().Get(x.Context(), path)
			if err != nil || string(node.Data) != path {
				x.Errorf("%s, which was acknowledged: %v", path, err)
			}
		}
		total += len(w.list)
		x.Logf("%s: %d writes acknowledged; the longest pause between two was %v", w.name, len(w.list), w.gap)
	}
	if total == 0 {
		x.Error("nothing was written")
	}
}

func (x *takeover) check(err error) {
	x.Helper()
	if err != nil {
		x.Fatal(err)
	}
}
