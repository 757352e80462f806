package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/internal/testing/crashfs"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/admin"
	"github.com/zkd-project/zkd/server/archive"
	"github.com/zkd-project/zkd/server/data"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/history"
	"github.com/zkd-project/zkd/server/zab"
)

// follow opens a stream of a server's log.
func (s *testServer) follow(t *testing.T, after jute.Zxid) admin.LogStream {
	t.Helper()
	id := s.pages().HistoryID()
	stream, status, problem := s.pages().FollowLog(int64(after), fmt.Sprintf("%x", id[:]))
	if stream == nil {
		t.Fatalf("%d %s", status, problem)
	}
	t.Cleanup(func() { check(t, stream.Close()) })
	return stream
}

// readFor reads a stream for some time, and returns the entries.
func readFor(t *testing.T, stream admin.LogStream, d time.Duration) (entries []*zab.Entry) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	var all bytes.Buffer
	for {
		b, err := stream.Next(ctx)
		if errors.Is(err, context.DeadlineExceeded) {
			break
		}
		check(t, err)
		all.Write(b)
	}
	dec, err := archive.NewDecoder(&all)
	check(t, err)
	for {
		e, err := dec.Next()
		if errors.Is(err, io.EOF) {
			return entries
		}
		check(t, err)
		if e != nil {
			entries = append(entries, e)
		}
	}
}

// archiver makes an archive of the streams of servers.
type archiver struct {
	t    *testing.T
	dir  archive.Dir
	id   history.ID
	last jute.Zxid
}

// base takes a snapshot of a server into the archive.
func (a *archiver) base(s *testServer) {
	a.t.Helper()
	snap, err := s.pages().TakeSnapshot(a.t.Context())
	check(a.t, err)
	b, err := io.ReadAll(snap)
	check(a.t, errors.Join(err, snap.Close()))
	base := archive.Base{Time: time.Now().Truncate(time.Second), Zxid: jute.Zxid(snap.Zxid), CRC: crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))}
	base.Name = base.FileName()
	check(a.t, os.WriteFile(filepath.Join(string(a.dir), base.Name), b, 0o600))
	id, err := (&archive.Archive{Storage: a.dir}).HistoryOf(a.t.Context(), &base)
	check(a.t, err)
	if id != s.pages().HistoryID() {
		a.t.Errorf("the snapshot is from history %x, and the server has %x", id, s.pages().HistoryID())
	}
	a.id, a.last = id, base.Zxid
}

// segment makes a segment of what a server has now.
func (a *archiver) segment(s *testServer) {
	a.t.Helper()
	entries := readFor(a.t, s.follow(a.t, a.last), 5*time.Second)
	if len(entries) == 0 {
		a.t.Fatal("nothing was sent")
	}
	h := &archive.Header{History: a.id, After: a.last, Last: entries[len(entries)-1].Zxid}
	_, err := archive.Write(a.t.Context(), a.dir, h, time.Now(), func(fn func(*zab.Entry) error) error {
		for _, e := range entries {
			check(a.t, fn(e))
		}
		return nil
	})
	check(a.t, err)
	a.last = h.Last
}

// TestArchive makes an archive of a snapshot and of the streams of several servers, with changes of
// the leader between them, and compares the states at all its moments with those of a server.
func TestArchive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3, "forceSync=no")
		e.dir = t.TempDir()
		e.startAll()
		e.leader()
		time.Sleep(2 * time.Second) // all are admitted
		e.settled()
		a := &archiver{t: t, dir: archive.Dir(t.TempDir())}
		a.base(e.servers[e.follower()])
		first := a.last
		states := make(map[jute.Zxid]datatree.Digest)
		write := func(round int) {
			s := e.servers[e.leader()]
			c := s.connect(t)
			c.create(fmt.Sprint("/", round), "")
			c.ephemeral(fmt.Sprint("/e", round))
			for i := range 20 {
				zxid := c.set(fmt.Sprint("/", round), fmt.Sprint(i)).Zxid
				states[zxid] = s.digest()
			}
		}
		for round := range 4 {
			write(round)
			e.settled()
			id := e.follower()
			a.segment(e.servers[id])
			if round == 2 {
				e.stop(id)
				e.start(id)
			}
			e.stop(e.leader())
			lead := e.leader()
			write(100 + round)
			a.segment(e.servers[lead])
			for id, s := range e.servers {
				if id > 0 && s == nil {
					e.start(id)
				}
			}
			e.leader()
			e.settled()
		}

		got, err := archive.Read(t.Context(), a.dir)
		check(t, err)
		if chain := got.Chain(a.id, first); len(chain) != 8 || archive.End(0, chain) != a.last {
			t.Errorf("the chain is %v", chain)
		}
		for zxid, want := range states {
			f, err := got.StateAt(t.Context(), history.Moment{Zxid: zxid})
			check(t, err)
			if f.Tree.LastZxid() != zxid || f.Tree.Digest() != want {
				t.Errorf("the state at %v has zxid %v and another digest", zxid, f.Tree.LastZxid())
			}
		}
		end, err := got.StateAt(t.Context(), history.Moment{})
		check(t, err)
		if s := e.servers[e.leader()]; end.Tree.LastZxid() != a.last || history.ID(end.Ensemble.Init.Cluster) != s.pages().HistoryID() {
			t.Errorf("the archive ends at %v, of ensemble %x", end.Tree.LastZxid(), end.Ensemble.Init.Cluster)
		}
		var report strings.Builder
		if err := data.VerifyArchive(t.Context(), &report, got); err != nil || !strings.Contains(report.String(), "in 8 segments") {
			t.Errorf("verify: %v\n%s", err, &report)
		}
		check(t, os.Truncate(filepath.Join(string(a.dir), got.Segments[7].Name), got.Segments[7].Bytes-1))
		if err := data.VerifyArchive(t.Context(), io.Discard, got); !errors.Is(err, data.ErrUnsound) {
			t.Errorf("a segment lacks a byte: %v", err)
		}
		if _, err := got.StateAt(t.Context(), history.Moment{}); err == nil || !strings.Contains(err.Error(), "can be had") {
			t.Errorf("a segment lacks a byte: %v", err)
		}
	})
}

// TestStreamHasOnlyCommitted lets a leader write what no other server gets: its stream does not have
// it, also when another leader has replaced it.
func TestStreamHasOnlyCommitted(t *testing.T) {
	inBubble(t, 3, []string{"zkd.interlude=0"}, func(t *testing.T, e *testEnsemble) {
		old := e.leader()
		s := e.servers[old]
		c := s.connect(t)
		c.create("/a", "")
		e.settled()
		at := s.state.Applied()
		stream := s.follow(t, at)
		for id := 1; id <= 3; id++ {
			e.net.sever(old, id, true)
		}
		xid := c.send(jute.OpCreate, create("/never", "", 0))
		if entries := readFor(t, stream, 3*time.Second); len(entries) != 0 {
			t.Errorf("xid %d: %d entries were sent that no quorum has", xid, len(entries))
		}
		e.set(old, nil)
		d := e.servers[e.leader()].connect(t)
		e.set(old, s)
		d.create("/other", "")
		for id := 1; id <= 3; id++ {
			e.net.sever(old, id, false)
		}
		e.settled()
		entries := readFor(t, s.follow(t, at), 3*time.Second)
		if len(entries) == 0 || entries[len(entries)-1].Zxid != s.state.Applied() {
			t.Fatalf("%d entries were sent", len(entries))
		}
		for _, entry := range entries {
			if bytes.Contains(entry.Data, []byte("/never")) {
				t.Error("an entry was sent that the history does not have")
			}
		}
	})
}

// TestStreamStopsBeforeWhatIsNotCommitted begins a stream at a leader whose log has an entry that no other
// server gets, after one that is committed.
func TestStreamStopsBeforeWhatIsNotCommitted(t *testing.T) {
	inBubble(t, 3, []string{"zkd.interlude=0"}, func(t *testing.T, e *testEnsemble) {
		old := e.leader()
		s := e.servers[old]
		c := s.connect(t)
		e.settled()
		at := s.state.Applied()
		c.create("/committed", "")
		e.settled()
		for id := 1; id <= 3; id++ {
			e.net.sever(old, id, true)
		}
		c.send(jute.OpCreate, create("/never", "", 0))
		time.Sleep(50 * time.Millisecond) // it is in the log
		entries := readFor(t, s.follow(t, at), time.Second)
		if len(entries) != 1 || !bytes.Contains(entries[0].Data, []byte("/committed")) {
			t.Errorf("%d entries were sent, want the one that is committed", len(entries))
		}
	})
}

// TestStreamOfAServerThatIsCutOff follows the log of a server that loses the others: it does not say any more that it has sent all, as it does
// not know what they have, and the stream ends, so that the receiver asks another one.
func TestStreamOfAServerThatIsCutOff(t *testing.T) {
	inBubble(t, 3, []string{"readonlymode.enabled=true"}, func(t *testing.T, e *testEnsemble) {
		id := e.follower()
		s := e.servers[id]
		s.connect(t).create("/a", "")
		stream := s.follow(t, s.state.Applied())
		told := func(d time.Duration) (frames int, last time.Duration, ended error) {
			begun := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), d)
			defer cancel()
			for {
				if _, ended = stream.Next(ctx); ended != nil {
					return frames, last, ended
				}
				frames, last = frames+1, time.Since(begun)
			}
		}
		if n, _, err := told(30 * time.Second); n < 30 || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("in 30 s it has told %d times that there is nothing: %v", n, err)
		}
		e.cut(id, true)
		if n, last, err := told(time.Minute); last > 20*time.Second || !errors.Is(err, io.EOF) {
			t.Errorf("it has told %d times that it has sent all, %v after it was cut off: %v", n, last, err)
		}
		if entries := readFor(t, s.follow(t, 0), 5*time.Second); len(entries) == 0 { // read-only clients are served, and copies
			t.Error("it sends no log")
		}
		if l, status, problem := s.pages().LogLeft(int64(s.state.Applied()), ""); l.Behind >= 0 || l.Entries >= 0 || status != 0 {
			t.Errorf("it has said that a copy lacks %+v: %d %s", l, status, problem)
		}
		e.cut(id, false)
		e.settled()
		s.connect(t).create("/b", "")
		if entries := readFor(t, s.follow(t, 0), time.Second); len(entries) == 0 {
			t.Error("nothing is sent by a server that is back")
		}
	})
}

// TestFollowLogRefuses asks for what a server does not have.
func TestFollowLogRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startOn(t, fastFS{}, t.TempDir(), "snapCount=20", "autopurge.snapRetainCount=3", "autopurge.purgeInterval=1", "forceSync=no")
		c := s.connect(t)
		c.create("/a", "")
		begin := s.state.Applied()
		for range 2000 {
			c.set("/a", strings.Repeat("x", 1000))
		}
		for range 5 {
			c.set("/a", "")
			snap, err := s.pages().TakeSnapshot(t.Context())
			check(t, errors.Join(err, snap.Close()))
		}
		time.Sleep(2 * time.Hour) // a purge
		for _, tt := range []struct {
			name   string
			after  jute.Zxid
			of     string
			status int
		}{
			{"another history", s.state.Applied(), "00", http.StatusConflict},
			{"ahead", s.state.Applied() + 1, "", http.StatusServiceUnavailable},
			{"purged", begin, "", http.StatusGone},
		} {
			if stream, status, problem := s.pages().FollowLog(int64(tt.after), tt.of); stream != nil || status != tt.status {
				t.Errorf("%s: %d %s, want %d", tt.name, status, problem, tt.status)
			}
		}
		if status, body := s.page("/commands/log?after=x", "digest a:b"); status != http.StatusBadRequest {
			t.Errorf("%d %s", status, body)
		}
		if status, body := s.page("/commands/log?after=0x1", ""); status != http.StatusUnauthorized {
			t.Errorf("%d %s", status, body)
		}
	})
}

// TestStreamEnds ends a request when the server stops.
func TestStreamEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startOn(t, crashfs.New(1), "/data")
		s.connect(t).create("/a", "")
		go func() {
			time.Sleep(10 * time.Second)
			s.Close()
		}()
		status, body := s.page("/commands/log?after=0x0", "digest a:b")
		dec, err := archive.NewDecoder(strings.NewReader(body))
		check(t, err)
		for err == nil {
			_, err = dec.Next()
		}
		if status != http.StatusOK || !errors.Is(err, io.EOF) || dec.At == 0 {
			t.Errorf("%d, %v, up to %v", status, err, dec.At)
		}
	})
}
