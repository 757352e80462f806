//go:build compat

package compat

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client"
)

// stormOps is how many requests a storm has.
func stormOps() int {
	if *fullFlag {
		return 12000
	}
	return 1500
}

// TestMoving moves a server with all of its data from Apache ZooKeeper to zkd and back. A storm
// of requests, with kills in between, makes the data; a client keeps its session and its
// ephemeral over both moves. All servers show the same tree, in every field.
func TestMoving(t *testing.T) { testMoving(t, apache) }

func TestMoving39(t *testing.T) { testMoving(t, apache39) }

func testMoving(t *testing.T, k kind) {
	t.Parallel() // kazoo may wait for 80 s
	cfg := config{lines: longSessions, props: map[string]string{"zookeeper.snapCount": strconv.Itoa(stormOps() / 15), "zookeeper.extendedTypesEnabled": "true"}}
	old := start(t, k, cfg)
	holder, kazoo := newHolder(t, old.addr), newKazoo(t, old.addr)
	for round := range 3 {
		storm(t, old.addr, uint64(round), func() error {
			old.kill()
			return old.run()
		})
	}
	holder.check(t, "/held-0")
	want := dumpTree(t, old.addr)
	old.kill()
	checkSnapshots(t, filepath.Join(old.dir, "data"))

	moved := takeOver(t, zkd, old.addr, func(dir string) []string {
		return []string{"import", "--from", filepath.Join(old.dir, "data"), "--to", dir}
	})
	compareDumps(t, "zkd", want, dumpTree(t, moved.addr))
	holder.check(t, "/held-1")
	kazoo.check(t, "zkd")
	holder.write(t, "/held-2")
	if strings.HasPrefix(versionOf(t, k), "3.4.") {
		return // it has no containers, so there is no way back
	}
	storm(t, moved.addr, 4, nil)
	want = dumpTree(t, moved.addr)
	moved.kill()

	back := takeOver(t, k, old.addr, func(dir string) []string {
		return []string{"export", "--format", "apache", "--from", filepath.Join(moved.dir, "data"), "--to", dir, "--ttl-enabled"}
	})
	compareDumps(t, string(k)+" again", want, dumpTree(t, back.addr))
	holder.check(t, "/held-2")
	kazoo.check(t, string(k)+" again")
	storm(t, back.addr, 5, nil)
	if log, err := os.ReadFile(back.logFile()); err != nil || bytes.Contains(log, []byte("Digests are not matching")) {
		t.Errorf("the server's log: digests differ, or %v", err)
	}
	summary(t, t.Name(), len(want), 0)
}

// TestMovingEnsemble moves an ensemble of three, of which the leader is killed in the middle of
// a storm, to zkd and back.
func TestMovingEnsemble(t *testing.T) {
	t.Parallel()
	cfg := config{lines: longSessions, props: map[string]string{"zookeeper.snapCount": strconv.Itoa(stormOps() / 15), "zookeeper.extendedTypesEnabled": "true"}}
	e := startEnsemble(t, apache, cfg)
	holder := newHolder(t, e.hosts())
	moveOn := func(k kind, args ...string) {
		t.Helper()
		storm(t, e.hosts(), uint64(len(k)), func() error {
			if roles, ok := e.roles(); ok {
				roles[leader].kill()
			}
			return e.heal()
		})
		want := withoutConfig(dumpTree(t, e.hosts()))
		for _, s := range e.servers {
			s.kill()
			args = append(args, "--from", filepath.Join(s.dir, "data"))
		}
		to := t.TempDir()
		zkdCommand(t, append(args, "--members", "1,2,3", "--to", to)...)
		e = e.succeededBy(t, k, cfg, to)
		for _, s := range e.servers {
			compareDumps(t, fmt.Sprint(k, " ", s.addr), want, withoutConfig(dumpTree(t, s.addr)))
		}
		holder.check(t, "/held-0")
	}
	moveOn(zkd, "import")
	if !strings.HasPrefix(versionOf(t, apache), "3.4.") {
		moveOn(apache, "export", "--ttl-enabled")
	}
	summary(t, t.Name(), 2, 0)
}

// withoutConfig returns a dump without the node of the configuration, which each leader writes.
func withoutConfig(lines []string) []string {
	return slices.DeleteFunc(lines, func(line string) bool { return strings.HasPrefix(line, "/zookeeper/config ") })
}

// succeededBy starts an ensemble of kind k at the addresses of e, with the data in the
// directories of to.
func (e *ensemble) succeededBy(t *testing.T, k kind, cfg config, to string) *ensemble {
	t.Helper()
	next := &ensemble{kind: k}
	for i, old := range e.servers {
		dir := serverDir(t)
		text, err1 := os.ReadFile(filepath.Join(old.dir, "zoo.cfg"))
		text = bytes.ReplaceAll(text, []byte("dataDir="+old.dir), []byte("dataDir="+dir))
		file := filepath.Join(dir, "zoo.cfg")
		err2 := os.WriteFile(file, text, 0o600)
		err3 := os.Rename(filepath.Join(to, strconv.Itoa(i+1)), filepath.Join(dir, "data"))
		s := &server{kind: k, dir: dir, addr: old.addr, args: command(t, k, file, cfg)}
		if err := errors.Join(err1, err2, err3, s.launch()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.kill)
		next.servers = append(next.servers, s)
	}
	if err := next.awaitHealthy(); err != nil {
		t.Fatal(err)
	}
	return next
}

// kazooHolder is a process with a kazoo client that keeps its session.
type kazooHolder struct {
	in  io.Writer
	out *bufio.Scanner
}

func newKazoo(t *testing.T, addr string) *kazooHolder {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), python, filepath.Join("python", "zkd_moving.py"), addr)
	cmd.Stderr = os.Stderr
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()         // this ends it
		cmd.Process.Kill() // if it does not end by itself
		cmd.Wait()         // how it ended does not matter
	})
	k := &kazooHolder{in, bufio.NewScanner(out)}
	k.expectPass(t)
	return k
}

// check checks that the session and its ephemeral are still there.
func (k *kazooHolder) check(t *testing.T, where string) {
	t.Helper()
	if _, err := fmt.Fprintln(k.in, where); err != nil {
		t.Fatal(err)
	}
	k.expectPass(t)
}

func (k *kazooHolder) expectPass(t *testing.T) {
	t.Helper()
	if !k.out.Scan() || !strings.HasPrefix(k.out.Text(), "PASS ") {
		t.Errorf("kazoo: %q, %v", k.out.Text(), k.out.Err())
	}
}

// longSessions let sessions outlive a move on a slow machine.
var longSessions = []string{"maxSessionTimeout=600000"}

// takeOver starts a server of kind k at addr, with the data that a zkd command writes into the
// directory.
func takeOver(t *testing.T, k kind, addr string, arguments func(dir string) []string) *server {
	t.Helper()
	dir := serverDir(t)
	zkdCommand(t, arguments(filepath.Join(dir, "data"))...)
	_, port, _ := strings.Cut(addr, ":")
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{kind: k, dir: dir, addr: addr}
	file := filepath.Join(dir, "zoo.cfg")
	cfg := config{lines: longSessions}
	if k != zkd {
		cfg.props = map[string]string{"zookeeper.extendedTypesEnabled": "true"}
	}
	if err := os.WriteFile(file, []byte(zooCfg(k, dir, n, cfg)), 0o600); err != nil {
		t.Fatal(err)
	}
	s.args = command(t, k, file, cfg)
	if err := s.run(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.kill)
	return s
}

// zkdCommand runs a command of zkd, and returns its output.
func zkdCommand(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command(zkdBinary(t), args...).CombinedOutput()
	if err != nil {
		t.Fatalf("zkd %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// checkSnapshots imports from each snapshot alone, with the log after it. The result does not
// depend on the snapshot. One that a killed server has not completed is refused.
func checkSnapshots(t *testing.T, data string) {
	t.Helper()
	snapshots, err1 := filepath.Glob(filepath.Join(data, "version-2", "snapshot.*"))
	logs, err2 := filepath.Glob(filepath.Join(data, "version-2", "log.*"))
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	digests, whole := make(map[string][]string), 0
	for _, snapshot := range snapshots {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "version-2"), 0o700); err != nil {
			t.Fatal(err)
		}
		for _, file := range append([]string{snapshot}, logs...) {
			if err := os.Link(file, filepath.Join(dir, "version-2", filepath.Base(file))); err != nil {
				t.Fatal(err)
			}
		}
		out, err := exec.Command(zkdBinary(t), "import", "--from", dir, "--check", "-o", "json").Output()
		if e, ok := errors.AsType[*exec.ExitError](err); ok && strings.Contains(string(e.Stderr), filepath.Base(snapshot)+": at byte ") &&
			strings.HasSuffix(strings.TrimSpace(string(e.Stderr)), "it is not complete") {
			t.Logf("import refuses %s", filepath.Base(snapshot))
			continue
		}
		if err != nil {
			t.Fatalf("import from %s: %v", filepath.Base(snapshot), err)
		}
		whole++
		var report struct{ Digest string }
		if err := json.Unmarshal(out, &report); err != nil {
			t.Fatal(err)
		}
		digests[report.Digest] = append(digests[report.Digest], filepath.Base(snapshot))
	}
	if len(digests) != 1 || whole < 5 {
		t.Errorf("%d snapshots give %d different trees: %v", whole, len(digests), digests)
	}
}

// holder is a client that keeps its session.
type holder struct {
	*client.Client
	id client.SessionID
}

// newHolder returns a client that has created these ephemerals, or /held-0 and /held-1.
func newHolder(t *testing.T, addr string, paths ...string) *holder {
	t.Helper()
	c, err := client.Connect(t.Context(), addr, client.Options{Timeout: 5 * time.Minute, KeepSession: true, Logger: client.NoLog})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.WithoutCancel(t.Context())) }) // the server may be gone
	h := &holder{Client: c}
	h.id = c.Session().ID()
	if len(paths) == 0 {
		paths = []string{"/held-0", "/held-1"}
	}
	for _, path := range paths {
		h.write(t, path)
	}
	return h
}

// write creates an ephemeral.
func (h *holder) write(t *testing.T, path string) {
	t.Helper()
	if _, err := h.Steady().Create(t.Context(), path, []byte("mine"), client.CreateOptions{Mode: client.Ephemeral}); err != nil {
		t.Fatal(err)
	}
}

// check checks that the session is the same one and still owns its ephemeral.
func (h *holder) check(t *testing.T, path string) {
	t.Helper()
	node, err := h.Steady().Get(t.Context(), path)
	if err != nil {
		t.Fatalf("a session that was moved: %v", err)
	}
	if id := h.Session().ID(); id != h.id || node.Stat.EphemeralOwner != h.id {
		t.Errorf("the session was %v and is %v; %s belongs to %v", h.id, id, path, node.Stat.EphemeralOwner)
	}
}

// storm sends random requests of all kinds from several sessions, most of which end. midway is
// called when about half of them are sent; the storm is over if it fails.
func storm(t *testing.T, addr string, seed uint64, midway func() error) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var clients sync.WaitGroup
	for i := range 4 {
		clients.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			for left := stormOps() / 4; left > 0 && ctx.Err() == nil; {
				c, err := client.New(addr, client.Options{Timeout: 5 * time.Minute, KeepSession: true, Logger: client.NoLog})
				if err != nil {
					t.Error(err)
					return
				}
				end := func() {
					ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
					defer cancel()
					c.Close(ctx) // it was one of many
				}
				for n := 20 + r.IntN(100); n > 0 && left > 0; n, left = n-1, left-1 {
					if i == 0 && left == stormOps()/8 && midway != nil {
						if err := midway(); err != nil {
							t.Error(err)
							stop()
						}
					}
					randomWrite(ctx, c, r)
				}
				if r.IntN(4) > 0 {
					end()
				} else {
					t.Cleanup(end)
				}
			}
		})
	}
	clients.Wait()
}

var stormACLs = [][]client.ACL{client.OpenACL(), client.OpenACL(), client.ReadACL(),
	{client.DigestACL(client.PermAll, "bob", "secret"), {Perms: client.PermAll, ID: client.ID{Scheme: "world", ID: "anyone"}}}}

// randomWrite sends a request, which may well be refused.
func randomWrite(ctx context.Context, c *client.Client, r *rand.Rand) {
	path := "/s"
	for range 1 + r.IntN(3) {
		path += fmt.Sprintf("/%d", r.IntN(6))
	}
	data := bytes.Repeat([]byte{byte('a' + r.IntN(26))}, r.IntN(200))
	if r.IntN(10) == 0 {
		data = nil
	}
	o := client.CreateOptions{}
	if r.IntN(8) == 0 {
		o.ACL = stormACLs[r.IntN(len(stormACLs))]
	}
	switch o.Mode = []client.CreateMode{client.Persistent, client.Persistent, client.Persistent, client.Persistent, client.Ephemeral,
		client.EphemeralSequential, client.PersistentSequential, client.PersistentSequential, client.Container, client.PersistentTTL}[r.IntN(10)]; o.Mode {
	case client.PersistentTTL:
		o.TTL = time.Hour
	case client.EphemeralSequential, client.PersistentSequential:
		path += "/n-"
	}
	// Errors are a part of the storm.
	switch r.IntN(20) {
	default:
		c.Create(ctx, path, data, o) // see above
	case 0: // a subtree
		if list, err := c.Children(ctx, path); err == nil {
			for _, name := range list.Names {
				c.Delete(ctx, path+"/"+name, -1) // see above
			}
		}
		c.Delete(ctx, path, -1) // see above
	case 1, 2, 3:
		c.Delete(ctx, path, -1) // see above
	case 4, 5, 6, 7:
		c.Set(ctx, path, data, -1) // see above
	case 8:
		c.SetACL(ctx, path, stormACLs[r.IntN(len(stormACLs))], -1) // see above
	case 10, 11:
		c.Create(ctx, "/s", nil, client.CreateOptions{})                                                                   // see above
		c.Multi(ctx, client.CreateOp(path, data, o), client.SetOp("/s", data, -1), client.CheckOp(path, int32(r.IntN(2))), // see above
			client.DeleteOp(path+"/0", -1))
	}
}

// dumpTree reads all znodes of a server, with everything that it shows of them.
func dumpTree(t *testing.T, addr string) []string {
	t.Helper()
	c, err := client.Connect(t.Context(), addr, client.Options{Logger: client.NoLog, Auth: []client.Auth{{Scheme: "digest", Data: []byte("super:secret")}}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context()) // it was only read
	if err := c.Sync(t.Context(), "/"); err != nil {
		t.Fatal(err)
	}
	var lines []string
	var dump func(path string)
	dump = func(path string) {
		node, err1 := c.Get(t.Context(), path)
		access, err2 := c.GetACL(t.Context(), path)
		list, err3 := c.Children(t.Context(), path)
		if err := errors.Join(err1, err2, err3); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		lines = append(lines, fmt.Sprintf("%s %q %t %+v %v", path, node.Data, node.Data == nil, node.Stat, access.ACL))
		slices.Sort(list.Names)
		for _, name := range list.Names {
			dump(strings.TrimSuffix(path, "/") + "/" + name)
		}
	}
	dump("/")
	if *releaseFlag != "" { // a server of 3.4 has no configuration node
		lines = slices.DeleteFunc(lines, func(line string) bool {
			return strings.HasPrefix(line, "/zookeeper ") || strings.HasPrefix(line, "/zookeeper/config ")
		})
	}
	return lines
}

func compareDumps(t *testing.T, who string, want, got []string) {
	t.Helper()
	for i := range min(len(want), len(got)) {
		if want[i] != got[i] {
			t.Fatalf("%s: got\n%s\nwant\n%s", who, got[i], want[i])
		}
	}
	if len(want) != len(got) || len(want) < 20 {
		t.Fatalf("%s: %d znodes, want %d", who, len(got), len(want))
	}
}
