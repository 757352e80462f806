package server

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/internal/testing/crashfs"
	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/jute"
)

// leave sets the number of free bytes of a file system.
func leave(t *testing.T, fs *crashfs.FS, free int64) {
	t.Helper()
	fs.SetCapacity(0)
	if free < 0 {
		return
	}
	s, err := fs.Space("")
	if err != nil {
		t.Fatal(err)
	}
	fs.SetCapacity(max(s.Total-s.Free+free, 1))
}

// For segments of 128 KiB, which the servers of these tests use.
const (
	roomForDeletes  = 300 << 10 // less than writes need
	roomForNoDelete = 4 << 10   // less than a segment: the log gets no more
	lotsOfRoom      = -1
)

// TestFullDisk checks that on a full disk an operator can open a session and delete, that
// nothing else is written however often clients try, and that every place shows the
// reason.
func TestFullDisk(t *testing.T) {
	for _, lines := range [][]string{
		nil,
		{"localSessionsEnabled=true"},
		{"localSessionsEnabled=true", "localSessionsUpgradingEnabled=true"},
	} {
		t.Run(strings.Join(lines, ","), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fs := crashfs.New(1)
				s := startOn(t, fs, "/data", lines...)
				before := s.connect(t)
				for i := range 5 {
					before.create(fmt.Sprint("/n", i), "x")
				}
				leave(t, fs, roomForDeletes)
				time.Sleep(time.Second)
				before.full()
				s.saysFull(t, "full: the server refuses writes", true)

				operator := s.connect(t)
				operator.full()
				operator.ok(jute.OpDelete, del("/n0"))
				if operator.exists("/n0") || !operator.exists("/n1") {
					t.Error("the wrong node is deleted")
				}
				logged := s.logWriter.Stats().Bytes
				for range 1000 { // requests in a loop must not take room
					c := s.connect(t)
					if r := c.call(jute.OpDelete, del("/none")); r.Err != jute.ErrNoNode {
						t.Fatalf("delete of no node: %v", r.Err)
					}
					if r := c.call(jute.OpDelete, &jute.DeleteRequest{Path: "/n1", Version: 7}); r.Err != jute.ErrBadVersion {
						t.Fatalf("delete of another version: %v", r.Err)
					}
					c.full()
					c.ok(jute.OpCloseSession, nil)
				}
				if now := s.logWriter.Stats().Bytes; now != logged {
					t.Errorf("1000 sessions and 5000 requests that changed nothing took %d bytes of the log", now-logged)
				}
				before.ok(jute.OpCloseSession, nil)

				leave(t, fs, lotsOfRoom)
				time.Sleep(time.Second)
				s.saysFull(t, "", false)
				operator.set("/n1", "y")
				r := operator.call(jute.OpCreate, create("/e", "", jute.ModeEphemeral))
				if want := len(lines) != 1; (r.Err == 0) != want {
					t.Errorf("an ephemeral of the session of before: %v", r.Err)
				}
				s.connect(t).create("/after", "")
			})
		})
	}
}

// TestDeletesMakeRoom fills a disk with nodes and deletes most of them. Their room comes back although
// nothing else is written; before that, no snapshot is written in vain.
func TestDeletesMakeRoom(t *testing.T) {
	for _, lines := range [][]string{nil, {"snapCount=30"}} {
		synctest.Test(t, func(t *testing.T) {
			const nodes = 40
			fs := crashfs.New(1)
			s := startOn(t, fs, "/data", lines...)
			c := s.connect(t)
			for i := range nodes {
				c.create(fmt.Sprint("/n", i), strings.Repeat("x", 50_000))
			}
			time.Sleep(time.Second) // for a snapshot that is due
			leave(t, fs, roomForDeletes)
			snapshots := s.metrics.Snapshot.Count()
			time.Sleep(time.Minute)
			if now := s.metrics.Snapshot.Count(); now != snapshots {
				t.Errorf("%v: %d snapshots of a tree that is as large as its log", lines, now-snapshots)
			}
			operator := s.connect(t)
			for i := range nodes - 1 {
				operator.ok(jute.OpDelete, del(fmt.Sprint("/n", i)))
			}
			time.Sleep(10 * time.Second)
			if r := operator.call(jute.OpCreate, create("/again", "", 0)); r.Err != 0 {
				t.Fatalf("%v: %v after %d nodes were deleted", lines, r.Err, nodes-1)
			}
			before := s.digest()
			s = s.restart(t)
			if s.digest() != before {
				t.Errorf("%v: another tree after a restart", lines)
			}
		})
	}
}

// TestLogFillsTheDisk has a server take in more of the log at once than its disk holds, as a follower of others with
// larger disks does. It leaves room for a snapshot and a restart, waits, writes the snapshot, and continues with the
// room that this makes, without an operator; so it does when it is killed while it waits.
func TestLogFillsTheDisk(t *testing.T) {
	for _, kill := range []bool{false, true} {
		lines := []string{"autopurge.snapRetainCount=3", "autopurge.purgeInterval=1"}
		inBubble(t, 3, lines, func(t *testing.T, e *testEnsemble) {
			small := e.follower()
			c := e.servers[e.leader()].connect(t)
			value := strings.Repeat("x", 50_000)
			for i := range 10 { // more than a restart needs
				c.create(fmt.Sprint("/n", i), value)
			}
			leave(t, e.disks[small], 4<<20)
			time.Sleep(2 * time.Second) // the server looks at its disk
			waits := false
			for range 200 {
				c.set("/n1", value)
				waits = waits || e.servers[small].logWriter.Stats().Lacks != nil
			}
			if !waits {
				t.Fatal("the log finds room for all at once")
			}
			if s, err := e.disks[small].Space(""); err != nil || s.Free < 128<<10 {
				t.Errorf("%d bytes are left, %v", s.Free, err)
			}
			if kill {
				e.kill(small)
				e.start(small)
			}
			time.Sleep(time.Minute)
			if s := e.servers[small].logWriter.Stats(); s.Lacks != nil {
				t.Errorf("the log waits: %v", s.Lacks)
			}
			e.settled()
		})
	}
}

// full requires that writes are refused and reads are not.
func (c *client) full() {
	c.t.Helper()
	for _, w := range []struct {
		op   jute.OpCode
		body record
	}{{jute.OpSetData, set("/n1", "z")}, {jute.OpCreate, create("/new", "", 0)}} {
		if r := c.call(w.op, w.body); r.Err != jute.ErrNotReadOnly {
			c.t.Fatalf("%v on a full disk: %v, want %v", w.op, r.Err, jute.ErrNotReadOnly)
		}
	}
	if v, ok := c.get("/n1"); !ok || v != "x" {
		c.t.Fatalf("/n1 is %q, %v", v, ok)
	}
}

// saysFull requires that srvr, mntr, readyz and the log agree about the disk.
func (s *testServer) saysFull(t *testing.T, remark string, refuses bool) {
	t.Helper()
	srvr, mntr := s.ask(t, "srvr", false), s.ask(t, "mntr", false)
	line := "Disk: " + remark + "\n"
	if strings.Contains(srvr, line) != (remark != "") || strings.Contains(srvr, "Disk: ") != (remark != "") {
		t.Errorf("srvr, want the line %q:\n%s", line, srvr)
	}
	for name, want := range map[string]bool{"disk_full": strings.HasPrefix(remark, "full: "), "writes_refused": refuses} {
		if !strings.Contains(mntr, fmt.Sprintf("\nzk_%s\t%d\n", name, map[bool]int{true: 1}[want])) {
			t.Errorf("mntr, want zk_%s to be %v:\n%s", name, want, mntr)
		}
	}
	status, body := s.page("/readyz", "")
	if note := "[+] clients: ok, but the disk is " + remark + "\n"; status != http.StatusOK || strings.Contains(body, note) != (remark != "") {
		t.Errorf("readyz is %d %q, want the note %q", status, body, note)
	}
	if got := s.logged.FilterMessageSnippet("the disk is full").Len(); (got > 0) != strings.HasPrefix(remark, "full: ") && remark != "" {
		t.Errorf("%d lines of the log say that the disk is full", got)
	}
}

// TestNoRoomAtAll checks that when something else fills the disk completely, deletes are
// accepted only while the log's files can hold them, and sessions are resumed no longer
// either. The server keeps running, sessions can be closed, and it recovers when there is room
// again.
func TestNoRoomAtAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const nodes = 6000
		fs := crashfs.New(1)
		s := startOn(t, fs, "/data")
		c, keeper := s.connect(t), s.connectFor(t, 20_000)
		for i := range nodes {
			c.create(fmt.Sprintf("/node-%04d", i), "x")
		}
		leave(t, fs, roomForNoDelete)
		time.Sleep(time.Second)
		c.nc.SetReadDeadline(time.Now().Add(time.Minute)) // for a server that has failed
		deleted := 0
		for ; deleted < nodes; deleted++ {
			r := c.call(jute.OpDelete, del(fmt.Sprintf("/node-%04d", deleted)))
			if r.Err == jute.ErrNotReadOnly {
				break
			}
			if r.Err != 0 {
				t.Fatalf("delete %d: %v", deleted, r.Err)
			}
		}
		if deleted == 0 || deleted == nodes {
			t.Errorf("%d of %d deletes were let through; want some, and not all", deleted, nodes)
		}
		late := s.dial(t, dialOptions{})
		late.sendFrame((&jute.ConnectRequest{TimeoutMs: 20_000, SessionID: keeper.session, Password: keeper.pass, HasReadOnly: true}).Append(nil))
		late.eof("a resumption without room")
		c.ok(jute.OpCloseSession, nil)
		operator := s.connect(t)
		leave(t, fs, lotsOfRoom)
		time.Sleep(10 * time.Second)
		keeper.resume(t, 20_000).create("/kept", "")
		operator.ok(jute.OpDelete, del(fmt.Sprintf("/node-%04d", deleted)))
		select {
		case err := <-s.Failed():
			t.Errorf("the server has ended: %v", err)
		default:
		}
	})
}

// TestFullDisksOfAnEnsemble checks that a leader with a full disk hands over; if no
// server has room, or no quorum, writes are refused, and sessions can be opened on all
// servers to delete.
func TestFullDisksOfAnEnsemble(t *testing.T) {
	inBubble(t, 3, nil, func(t *testing.T, e *testEnsemble) {
		e.servers[e.leader()].connect(t).create("/n1", "x")
		first := e.leader()
		leave(t, e.disks[first], roomForDeletes)
		time.Sleep(3 * time.Second)
		second := e.leader()
		if second == first {
			t.Fatalf("server %d leads with a full disk: %s", first, e.roles())
		}
		e.settled()
		e.servers[first].connect(t).set("/n1", "x")
		e.servers[first].saysFull(t, "full: a leader would refuse writes", false)
		e.servers[second].saysFull(t, "", false)

		third := 6 - first - second
		leave(t, e.disks[third], roomForDeletes)
		time.Sleep(3 * time.Second)
		if now := e.leader(); now != second {
			t.Fatalf("server %d leads, although server %d has room", now, second)
		}
		e.servers[second].saysFull(t, "full on too many servers for a quorum: the server refuses writes", true)
		e.refuses(t)

		leave(t, e.disks[second], roomForDeletes)
		time.Sleep(3 * time.Second)
		e.refuses(t)
		e.servers[e.leader()].saysFull(t, "full: the server refuses writes", true)

		for id := 1; id <= 3; id++ {
			leave(t, e.disks[id], lotsOfRoom)
		}
		time.Sleep(3 * time.Second)
		e.settled()
		for id := 1; id <= 3; id++ {
			e.servers[id].connect(t).create(fmt.Sprint("/again", id), "")
			e.servers[id].saysFull(t, "", false)
		}
	})
}

// A leader whose disk has just become full hands over, and rejects a client that asks it
// for a session before that. Such a client used to get a local session, which expired
// when the client moved to another server a moment later.
func TestNoLocalSessionBeforeALeaderHandsOver(t *testing.T) {
	inBubble(t, 3, nil, func(t *testing.T, e *testEnsemble) {
		leader := e.servers[e.leader()]
		leader.fillDisk(true)
		if _, ok := leader.tryConnect(t, "10.0.0.2"); ok {
			t.Error("a leader that hands over opens a session")
		}
		leader.fillDisk(false)
		leader.connect(t).create("/a", "")
	})
}

// refuses requires that sessions can be opened on each server, and that they can
// delete and nothing else.
func (e *testEnsemble) refuses(t *testing.T) {
	t.Helper()
	for id := 1; id <= 3; id++ {
		c := e.servers[id].connect(t)
		c.full()
		if r := c.call(jute.OpDelete, del("/none")); r.Err != jute.ErrNoNode {
			t.Errorf("delete at server %d: %v", id, r.Err)
		}
		c.ok(jute.OpCloseSession, nil)
	}
}

// A multi of deletes makes room, too. One that fails, or does something else, does not change
// anything and takes no room.
func TestMultiOnAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := crashfs.New(1)
		s := startOn(t, fs, "/data")
		c := s.connect(t)
		for i := range 5 {
			c.create(fmt.Sprint("/n", i), "x")
		}
		leave(t, fs, roomForDeletes)
		time.Sleep(time.Second)
		deletes := func(paths ...string) *jute.MultiRequest {
			var m jute.MultiRequest
			for _, p := range paths {
				m.Ops = append(m.Ops, jute.MultiOp{Type: jute.OpDelete, Path: p, Version: -1})
			}
			return &m
		}
		with := func(m *jute.MultiRequest, op jute.MultiOp) *jute.MultiRequest {
			m.Ops = append(m.Ops, op)
			return m
		}
		logged := s.logWriter.Stats().Bytes
		for range 100 {
			for _, tt := range []struct {
				multi *jute.MultiRequest
				want  jute.Code
			}{
				{deletes("/n1", "/none"), jute.ErrNoNode},
				{deletes("/"), jute.ErrBadArguments},
				{deletes(), jute.ErrNotReadOnly},
				{with(deletes("/n1"), jute.MultiOp{Type: jute.OpSetData, Path: "/n2", Version: -1}), jute.ErrNotReadOnly},
				{with(deletes("/n1"), jute.MultiOp{Type: jute.OpCheck, Path: "/n2", Version: -1}), jute.ErrNotReadOnly},
				{with(deletes(), jute.MultiOp{Type: jute.OpCheck, Path: "/n2", Version: -1}), jute.ErrNotReadOnly},
			} {
				if r := c.call(jute.OpMulti, tt.multi); r.Err != tt.want {
					t.Fatalf("%d operations: %v, want %v", len(tt.multi.Ops), r.Err, tt.want)
				}
			}
		}
		if now := s.logWriter.Stats().Bytes; now != logged {
			t.Errorf("multis that changed nothing took %d bytes of the log", now-logged)
		}
		c.ok(jute.OpMulti, deletes("/n0", "/n1"))
		if c.exists("/n0") || c.exists("/n1") || !c.exists("/n2") {
			t.Error("the wrong nodes are deleted")
		}
	})
}

// fewInodes is a file system whose inodes get few.
type fewInodes struct {
	vfs.FS
	free atomic.Int64
}

func (f *fewInodes) Space(name string) (vfs.Space, error) {
	s, err := f.FS.Space(name)
	s.Inodes, s.FreeInodes = 10_000, f.free.Load()
	return s, err
}

// TestDiskWithoutInodes checks that few inodes are the same as few bytes: writes are refused, deletes are not, and
// every place says why.
func TestDiskWithoutInodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := &fewInodes{FS: crashfs.New(1)}
		fs.free.Store(5000)
		s := startOn(t, fs, "/data")
		c := s.connect(t)
		c.create("/n0", "x")
		c.create("/n1", "x")
		fs.free.Store(200)
		time.Sleep(time.Second)
		c.full()
		s.saysFull(t, "full: the server refuses writes", true)
		if got := s.mntr(t)["disk_lacks"]; got != "inodes" {
			t.Errorf("disk_lacks is %q", got)
		}
		c.ok(jute.OpDelete, del("/n0"))
		fs.free.Store(5000)
		time.Sleep(time.Second)
		c.create("/n2", "x")
		if got, ok := s.mntr(t)["disk_lacks"]; ok {
			t.Errorf("disk_lacks is %q", got)
		}
	})
}

// otherDisk has the log on another disk than the snapshots, which have any amount of room.
type otherDisk struct{ *crashfs.FS }

func (f otherDisk) Space(name string) (vfs.Space, error) {
	s, err := f.FS.Space(name)
	if !strings.HasPrefix(name, "/log") {
		s.Device, s.Free = 1, s.Total
	}
	return s, err
}

// TestRoomForASnapshotIsKeptWhereItGoes: a log leaves room for a snapshot on its disk, unless snapshots go to another one.
func TestRoomForASnapshotIsKeptWhereItGoes(t *testing.T) {
	for _, apart := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			disk := crashfs.New(1)
			var fs vfs.FS = disk
			if apart {
				fs = otherDisk{disk}
			}
			s := startOn(t, fs, "/data", "dataLogDir=/log")
			c := s.connect(t)
			for i := range 20 {
				c.create(fmt.Sprint("/n", i), strings.Repeat("x", 100_000))
			}
			leave(t, disk, 1<<20)
			time.Sleep(time.Second)
			if full := s.disk.Full(); full == apart {
				t.Errorf("1 MiB is free, a snapshot takes 2, on another disk: %v; the disk counts as full: %v", apart, full)
			}
		})
	}
}

// TestSynchronizedOnAFullDisk has a follower come back that lacks more of the history than its disk, its inodes or
// its descriptors allow to keep: it waits and says so, the others serve, and it is synchronized once it can
// be, without a restart.
func TestSynchronizedOnAFullDisk(t *testing.T) {
	fails := func(err error, kinds ...crashfs.OpKind) func(t *testing.T, disk *crashfs.FS) {
		return func(_ *testing.T, disk *crashfs.FS) {
			disk.SetHook(func(op crashfs.Op) error {
				if slices.Contains(kinds, op.Kind) {
					return err
				}
				return nil
			})
		}
	}
	for _, tt := range []struct {
		name string
		lack func(t *testing.T, disk *crashfs.FS)
	}{
		{"space", func(t *testing.T, disk *crashfs.FS) { leave(t, disk, roomForDeletes) }},
		{"no space", func(t *testing.T, disk *crashfs.FS) { leave(t, disk, roomForNoDelete) }},
		{"inodes", fails(syscall.ENOSPC, crashfs.OpCreate, crashfs.OpMkdir)},
		{"descriptors", fails(syscall.EMFILE, crashfs.OpCreate, crashfs.OpOpen, crashfs.OpReadDir)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, 3, nil, func(t *testing.T, e *testEnsemble) {
				late := e.follower()
				e.stop(late)
				c := e.servers[e.leader()].connectFor(t, 20_000)
				value := strings.Repeat("x", 16_000)
				for i := range 60 { // some segments
					c.create(fmt.Sprintf("/node-%d", i), value)
				}
				for id := 1; id <= 3; id++ {
					e.net.sever(late, id, true)
				}
				e.start(late)
				tt.lack(t, e.disks[late])
				for id := 1; id <= 3; id++ {
					e.net.sever(late, id, false)
				}
				s := e.servers[late]
				for range 30 {
					time.Sleep(time.Second)
					c.set("/node-0", "y")
				}
				select {
				case err := <-s.Failed():
					t.Fatalf("the server has ended: %v", err)
				default:
				}
				if s.logWriter.Stats().Lacks == nil {
					t.Errorf("it does not wait: it has applied %v, others %v", s.state.Applied(), e.servers[e.leader()].state.Applied())
				}
				e.disks[late].SetHook(nil)
				leave(t, e.disks[late], lotsOfRoom)
				e.settled()
				time.Sleep(3 * time.Second) // it is admitted
				if lacks := s.logWriter.Stats().Lacks; lacks != nil {
					t.Errorf("it still waits: %v", lacks)
				}
				e.kill(6 - late - e.leader())
				e.settled()
				d := s.connect(t)
				d.set("/node-1", "z")
				if v, _ := d.get("/node-59"); v != value {
					t.Error("it lacks data")
				}
			})
		})
	}
}
