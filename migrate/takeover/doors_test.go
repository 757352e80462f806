package takeover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/migrate/apachefiles"
	"github.com/zkd-project/zkd/migrate/apachelink"
	"github.com/zkd-project/zkd/migrate/mirror"
	"github.com/zkd-project/zkd/server/data"
	"github.com/zkd-project/zkd/server/datadirs"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/zab"
)

// cut is a takeover from the stop of Apache's servers on: three copies and the directories of a majority
// of Apache's servers, all with the same history.
type cut struct {
	*toy
	open     string // the address at which one of Apache's servers answers, "" for none
	members  string // the text of the configuration node
	dirs     []string
	disks    []string
	decision string
}

func newCut(t *testing.T) *cut {
	c := &cut{toy: &toy{T: t, exact: apachelink.NewCopy(datatree.New())}}
	c.members = "server.1=zk1:2888:3888:participant;0.0.0.0:2181\nserver.2=zk2:2888:3888:participant\nserver.3=zk3:2888:3888:participant\nversion=0"
	c.configure(c.members)
	c.create(1, 0)
	top := t.TempDir()
	c.decision = filepath.Join(top, "decision")
	for id := 101; id <= 103; id++ {
		dir := filepath.Join(top, fmt.Sprint(id))
		c.dirs = append(c.dirs, dir)
		c.copy(dir, uint8(id), c.records...)
	}
	for id := 1; id <= 2; id++ {
		c.disks = append(c.disks, filepath.Join(top, fmt.Sprint("zk", id)))
	}
	c.stop(0, 1)
	return c
}

// dial finds the server at the address that is open, and no other one.
func (c *cut) dial(_ context.Context, addr string) error {
	if addr == c.open {
		return nil
	}
	return syscall.ECONNREFUSED
}

// stop leaves a server's directories as after a stop: with the last of the history from the record
// number from on, and the epoch.
func (c *cut) stop(from int, epoch uint32) {
	for i, dir := range c.disks {
		all := c.records
		c.records = all[from:]
		c.writeDisks(dir)
		c.records = all
		for name, text := range map[string]string{"myid": fmt.Sprint(i + 1), "version-2/currentEpoch": fmt.Sprint(epoch), "version-2/acceptedEpoch": fmt.Sprint(epoch)} {
			check(c.T, os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o600))
		}
	}
}

// copy makes the directory of a stopped mirror.
func (c *cut) copy(dir string, id uint8, records ...[]byte) {
	c.Helper()
	check(c.T, os.RemoveAll(dir))
	place := data.Place{DataDir: dir, LogDir: dir, Server: zab.SID(id)}
	check(c.T, data.CreateMirror(place, datadirs.OfApache))
	c.append(dir, records...)
}

// append lets a mirror follow for some more records.
func (c *cut) append(dir string, records ...[]byte) {
	c.Helper()
	m, err := mirror.Open(c.Context(), data.Place{DataDir: dir, LogDir: dir}, datadirs.OfApache, zap.NewNop())
	check(c.T, err)
	own := apachelink.NewCopy(m.Tree())
	for _, r := range records {
		x, err := apachefiles.DecodeTxn(r)
		check(c.T, err)
		check(c.T, appendTo(m, own, x))
	}
	check(c.T, m.Sync())
	newReporter(&follower{o: Options{Dir: dir, ID: uint8(m.ID()), From: []string{"followed:2888"}}, data: m, copy: own}).close()
	check(c.T, m.Close())
}

// decide decides on the machine of the copy 101.
func (c *cut) decide() error {
	d := &Decide{From: c.disks, Dir: c.dirs[0], File: c.decision, Logger: zap.NewNop(), dial: c.dial}
	for _, dir := range c.dirs[1:] {
		s, err := ReadStatus(dir)
		check(c.T, err)
		d.Others = append(d.Others, s.Member)
	}
	_, err := d.Run(c.Context())
	return err
}

// carryOut finishes with the decision, for one copy.
func (c *cut) carryOut(dir string) error {
	_, err := (&Finish{Decision: c.decision, Dirs: []string{dir}, Logger: zap.NewNop(), dial: c.dial}).Run(c.Context())
	return err
}

// finish does all with one command.
func (c *cut) finish() error {
	_, err := (&Finish{From: c.disks, Dirs: c.dirs, Logger: zap.NewNop(), dial: c.dial}).Run(c.Context())
	return err
}

// giveUp makes an ensemble of copies without the disks of Apache's servers.
func (c *cut) giveUp(dirs ...string) error {
	_, err := (&Finish{Dirs: dirs, LossAfter: c.exact.Tree.LastZxid(), Logger: zap.NewNop(), dial: c.dial}).Run(c.Context())
	return err
}

// crashed makes a member again what a crash leaves between the founding, which is in its log, and the
// end of the command.
func (c *cut) crashed(dir string) {
	c.Helper()
	name := filepath.Join(dir, datadirs.OwnerFile)
	b, err := os.ReadFile(name)
	check(c.T, err)
	o, err := datadirs.DecodeOwner(b)
	check(c.T, err)
	o.Copy = datadirs.OfApache
	check(c.T, os.WriteFile(name, o.Encode(), 0o600))
}

// door is a command that leads to members.
type door struct {
	name    string
	before  func(*cut) error // is done first
	pass    func(*cut) error
	dir     int  // a copy that the command opens, which is no member
	decided bool // before, there is a decision
}

func doors() []door {
	last := func(c *cut) error { return c.carryOut(c.dirs[2]) }
	first := func(c *cut) error { return errors.Join(c.decide(), c.carryOut(c.dirs[0])) }
	lost := func(c *cut) error { return c.giveUp(c.dirs...) }
	return []door{
		{"decide", func(*cut) error { return nil }, (*cut).decide, 0, false},
		{"finish at once", func(*cut) error { return nil }, (*cut).finish, 2, false},
		{"again at once, after a crash before the last copy", first, (*cut).finish, 2, true},
		{"after a loss", func(*cut) error { return nil }, lost, 2, false},
		{"carry out", (*cut).decide, last, 2, true},
		{"carry out after another machine", first, last, 2, true},
		{"again after a crash", func(c *cut) error {
			err := errors.Join(c.decide(), last(c))
			c.crashed(c.dirs[2])
			return err
		}, last, 2, true},
	}
}

// trouble is why a command must refuse.
type trouble struct {
	name, want string
	doors      string // names of those that it is tried at, which begin so; "" for all
	decided    bool   // only doors after a decision
	// begin makes the trouble, and returns what ends it; nil if nothing does.
	begin func(c *cut, d *door) (end func())
}

func troubles() []trouble {
	return []trouble{
		{"a quorum port answers", "quorum port", "", false, func(c *cut, _ *door) func() {
			c.open = "followed:2888"
			return func() { c.open = "" }
		}},
		{"an election port answers", "election port", "", false, func(c *cut, _ *door) func() {
			c.open = "zk2:3888"
			return func() { c.open = "" }
		}},
		{"a mirror runs", "is running: stop it first", "", false, func(c *cut, d *door) func() {
			lock, err := vfs.OS{}.Lock(filepath.Join(c.dirs[d.dir], datadirs.LockFile))
			check(c.T, err)
			return func() { lock.Close() }
		}},
		{"Apache's servers ran again", "have run after", "", true, func(c *cut, _ *door) func() {
			c.create(1, 0)
			c.stop(0, 1)
			return nil
		}},
		{"Apache's servers ran again without a write", "epoch 2", "", true, func(c *cut, _ *door) func() {
			c.stop(0, 2)
			return func() { c.stop(0, 1) } // no server does that: the end of the test's trouble
		}},
		{"the mirror ran again", "have run after", "carry out", true, func(c *cut, d *door) func() {
			c.append(c.dirs[d.dir], c.create(1, 0))
			return nil
		}},
		{"a mirror has more than the disks", "only up to", "decide", false, func(c *cut, _ *door) func() {
			c.append(c.dirs[1], c.create(1, 0))
			return func() { c.stop(0, 1) }
		}},
		{"a mirror has more than the disks", "only up to", "finish at once", false, func(c *cut, d *door) func() {
			c.append(c.dirs[d.dir], c.create(1, 0))
			return nil
		}},
		{"the log does not reach back", "missing", "decide", false, func(c *cut, d *door) func() {
			c.copy(c.dirs[d.dir], 101)
			c.stop(1, 1)
			return func() { c.stop(0, 1) }
		}},
		{"the log does not reach back", "missing", "finish at once", false, func(c *cut, d *door) func() {
			c.copy(c.dirs[d.dir], 103)
			c.stop(1, 1)
			return func() { c.stop(0, 1) }
		}},
		{"too few of Apache's servers", "majority", "decide", false, func(c *cut, _ *door) func() {
			all := c.disks
			c.disks = all[:1]
			return func() { c.disks = all }
		}},
		{"too few of Apache's servers", "majority", "finish at once", false, func(c *cut, _ *door) func() {
			all := c.disks
			c.disks = all[:1]
			return func() { c.disks = all }
		}},
	}
}

// TestDoors checks that each command refuses what docs/moving.md says, each time that it is given, and
// works when the cause has gone.
func TestDoors(t *testing.T) {
	for _, x := range troubles() {
		for _, d := range doors() {
			if x.decided && !d.decided || !strings.HasPrefix(d.name, x.doors) {
				continue
			}
			t.Run(x.name+"/"+d.name, func(t *testing.T) {
				t.Parallel()                          // most of the time is waiting for the disk
				synctest.Test(t, func(t *testing.T) { // a command waits some seconds for a lock
					c := newCut(t)
					check(t, d.before(c))
					end := x.begin(c, &d)
					for range 2 {
						if err := d.pass(c); err == nil || !strings.Contains(err.Error(), x.want) {
							t.Fatalf("got %v, want an error with %q", err, x.want)
						}
					}
					if end != nil {
						end()
						check(t, d.pass(c))
					}
				})
			})
		}
	}
}

// TestLostServers makes an ensemble of copies whose servers are lost: those that end where it was said.
func TestLostServers(t *testing.T) {
	c := newCut(t)
	end := c.exact.Tree.LastZxid()
	further := c.create(1, 0)
	c.append(c.dirs[0], further)
	for _, tt := range []struct {
		dirs []string
		want string
	}{
		{c.dirs, "not equal"},
		{c.dirs[1:], fmt.Sprintf("--accept-data-loss-after %v", end)},
	} {
		if err := c.giveUp(tt.dirs...); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: got %v, want an error with %q", tt.dirs, err, tt.want)
		}
	}
	empty := filepath.Join(t.TempDir(), "104")
	c.copy(empty, 104)
	if _, err := (&Finish{Dirs: []string{empty}, Logger: zap.NewNop(), dial: c.dial}).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "no copy") {
		t.Errorf("a mirror without a copy: %v", err)
	}
	check(t, c.giveUp(c.dirs[0]))
	check(t, c.giveUp(c.dirs[0])) // repeated
	m, err := mirror.Open(t.Context(), data.Place{DataDir: c.dirs[0], LogDir: c.dirs[0]}, datadirs.OfApache, zap.NewNop())
	check(t, err)
	defer m.Close()
	if !m.Member() || m.Last().Epoch() <= end.Epoch() || m.Tree().Stats().Nodes != c.exact.Tree.Stats().Nodes {
		t.Errorf("it is a member: %t, at %v, with %d znodes; the servers had %d at %v", m.Member(), m.Last(), m.Tree().Stats().Nodes, c.exact.Tree.Stats().Nodes, end)
	}
	if err := c.giveUp(c.dirs[1]); err == nil {
		t.Error("a copy that ends before becomes an ensemble as well")
	}
}

// TestUnequalCopies checks that copies with different histories don't become an ensemble.
func TestUnequalCopies(t *testing.T) {
	unequal := func(t *testing.T) *cut {
		c := newCut(t)
		other := &toy{T: t, exact: apachelink.NewCopy(datatree.New()), data: "other"}
		other.configure(c.members)
		other.create(1, 0)
		c.copy(c.dirs[2], 103, other.records...)
		return c
	}
	c := unequal(t)
	if err := c.finish(); err == nil || !strings.Contains(err.Error(), "not equal") {
		t.Errorf("at once: %v", err)
	}
	c = unequal(t)
	check(t, c.decide())
	check(t, c.carryOut(c.dirs[1]))
	if err := c.carryOut(c.dirs[2]); err == nil || !strings.Contains(err.Error(), "not equal") {
		t.Errorf("with a decision: %v", err)
	}
}

// TestUnknownServers checks that nothing is decided if it can't be asked whether Apache's servers run,
// and that the decision names their addresses for other machines.
func TestUnknownServers(t *testing.T) {
	c := newCut(t)
	check(t, c.decide())
	d, err := readDecision(c.decision)
	check(t, err)
	if want := "[followed:2888 zk1:2888 zk1:3888 zk2:2888 zk2:3888 zk3:2888 zk3:3888]"; fmt.Sprint(d.Apache.Ports) != want {
		t.Errorf("the decision knows of %v, want %v", d.Apache.Ports, want)
	}
	check(t, os.Remove(filepath.Join(c.dirs[2], StatusFile)))
	c.open = "followed:2888"
	if err := c.carryOut(c.dirs[2]); err == nil || !strings.Contains(err.Error(), "quorum port") {
		t.Errorf("a decision of another machine: %v", err)
	}
	c.open = ""
	check(t, c.carryOut(c.dirs[2]))

	c = newCut(t)
	c.records = c.records[1:] // without the configuration
	for i, dir := range c.dirs {
		c.copy(dir, uint8(101+i))
		check(t, os.Remove(filepath.Join(dir, StatusFile)))
	}
	if err := c.finish(); err == nil || !strings.Contains(err.Error(), "--from") {
		t.Errorf("nothing says where Apache's servers are: %v", err)
	}
}

// TestSilentServers checks that an address that does not refuse is no proof: the log says so.
func TestSilentServers(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	s := source{Ports: []string{"gone:2888", "silent:2888"}}
	err := s.checkStopped(t.Context(), func(_ context.Context, addr string) error {
		if addr == "silent:2888" {
			return context.DeadlineExceeded
		}
		return syscall.ECONNREFUSED
	}, zap.New(core))
	check(t, err)
	if all := logs.All(); len(all) != 1 || all[0].ContextMap()["address"] != "silent:2888" {
		t.Errorf("logged: %v", all)
	}
}

// TestDirectoriesOnOtherMachines checks what a decision is compared with: those directories of its
// that are here, and those that are named.
func TestDirectoriesOnOtherMachines(t *testing.T) {
	c := newCut(t)
	check(t, c.decide())
	here := filepath.Join(t.TempDir(), "zookeeper")
	check(t, os.Rename(c.disks[0], here))
	f := &Finish{Decision: c.decision, Dirs: c.dirs[2:], Logger: zap.NewNop(), dial: c.dial}
	r, err := f.Run(t.Context())
	check(t, err)
	if len(r.Unread) != 1 || r.Unread[0] != c.disks[0] || !strings.Contains(r.Text(), c.disks[0]+" can't be read here") {
		t.Errorf("unread: %v; %s", r.Unread, r.Text())
	}
	f = &Finish{Decision: c.decision, From: c.disks[:1], Dirs: c.dirs[1:2], Logger: zap.NewNop(), dial: c.dial}
	if _, err := f.Run(t.Context()); err == nil || !strings.Contains(err.Error(), c.disks[0]) {
		t.Errorf("a directory that is not there: %v", err)
	}
	c.create(1, 0)
	last := c.disks[1]
	c.disks = []string{here}
	c.stop(0, 1)
	check(t, os.Rename(last, last+".moved"))
	f = &Finish{Decision: c.decision, From: []string{here}, Dirs: c.dirs[1:2], Logger: zap.NewNop(), dial: c.dial}
	if _, err := f.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "have run after") {
		t.Errorf("a named directory has more: %v", err)
	}
}

// TestDecisionTooShort checks that a copy that has less than its member was said to have does not
// become one.
func TestDecisionTooShort(t *testing.T) {
	c := newCut(t)
	s, err := ReadStatus(c.dirs[2])
	check(t, err)
	c.copy(c.dirs[2], 103, c.records[:1]...)
	now, err := ReadStatus(c.dirs[2])
	check(t, err)
	now.Member = now.Member[:strings.LastIndexByte(now.Member, ':')] + s.Member[strings.LastIndexByte(s.Member, ':'):]
	text, err := json.Marshal(now)
	check(t, err)
	check(t, os.WriteFile(filepath.Join(c.dirs[2], StatusFile), text, 0o600))
	check(t, c.decide())
	if err := c.carryOut(c.dirs[2]); err == nil || !strings.Contains(err.Error(), "not equal") {
		t.Errorf("got %v", err)
	}
}
