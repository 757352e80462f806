package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/archive"
	"github.com/zkd-project/zkd/server/archive/source"
	"github.com/zkd-project/zkd/server/history"
	"github.com/zkd-project/zkd/server/zab"
)

var ours = history.ID{1, 2, 3, 4, 5}

// streams is an AdminServer whose log ends at a zxid. It ends a stream after cut bytes, unless cut is
// negative.
type streams struct {
	t *testing.T

	mu          sync.Mutex
	id          history.ID
	first, last jute.Zxid
	cut         int
	changed     chan struct{} // closed and replaced at each change
	streams     int
	// snapshot answers requests for a base, unless it returns false or is nil.
	snapshot func(http.ResponseWriter, *http.Request) bool
}

func newStreams(t *testing.T, last jute.Zxid) *streams {
	return &streams{t: t, id: ours, last: last, cut: -1, changed: make(chan struct{})}
}

func (s *streams) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *streams) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	id, first, last, cut, snapshot := s.id, s.first, s.last, s.cut, s.snapshot
	s.mu.Unlock()
	switch r.URL.Path {
	case "/commands/leader":
		fmt.Fprint(w, `{"is_leader": false}`)
	case "/commands/snapshot":
		if snapshot != nil && snapshot(w, r) {
			return
		}
		w.Header().Set("last_zxid", last.String())
		w.Write(snapshotOf(s.t, id, last))
	case "/commands/log":
		var after jute.Zxid
		if _, err := fmt.Sscanf(r.FormValue("after"), "0x%x", &after); err != nil {
			s.t.Error(err)
		}
		switch {
		case r.FormValue("history") != fmt.Sprintf("%x", id[:]):
			w.WriteHeader(http.StatusConflict)
			return
		case after < first:
			w.WriteHeader(http.StatusGone)
			return
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		s.stream(w, r, after, cut)
	}
}

// stream sends the entries after a zxid, with a position after each.
func (s *streams) stream(w http.ResponseWriter, r *http.Request, after jute.Zxid, cut int) {
	var enc archive.Encoder
	send := func(b []byte) {
		if cut >= 0 && len(b) > cut {
			w.Write(b[:cut])
			panic(http.ErrAbortHandler)
		}
		cut -= len(b)
		w.Write(b)
		http.NewResponseController(w).Flush()
	}
	s.mu.Lock()
	s.streams++
	s.mu.Unlock()
	send(enc.AppendHeader(nil, &archive.Header{History: s.id, After: after}))
	for {
		s.mu.Lock()
		last, changed := s.last, s.changed
		s.mu.Unlock()
		for ; after < last; after++ {
			e := entry(after + 1)
			send(enc.AppendEntry(nil, &e))
			send(enc.AppendPosition(nil, after+1, 0))
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

func entry(z jute.Zxid) zab.Entry {
	return zab.Entry{Zxid: z, Prev: z - 1, Data: []byte(z.String())}
}

// following runs a Follower until the archive ends at a zxid, and returns what it reported.
func following(t *testing.T, to archive.Storage, until jute.Zxid, servers *source.Servers) (said []string) {
	t.Helper()
	return run(t, &Follower{Servers: servers, To: to}, until)
}

func run(t *testing.T, f *Follower, until jute.Zxid) (said []string) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	reached := errors.New("reached")
	to, report := f.To, f.Report
	check := func() {
		if end, _ := ends(t, to); end == until {
			cancel(reached)
		}
	}
	f.To = watched{to, check}
	f.Report = func(format string, args ...any) {
		said = append(said, fmt.Sprintf(format, args...))
		if report != nil {
			report(format, args...)
		}
		check()
	}
	if err := f.Run(ctx); !errors.Is(err, reached) {
		t.Fatalf("%v; it said:\n%s", err, strings.Join(said, "\n"))
	}
	return said
}

// unsynced is a Dir that waits for no disk.
type unsynced struct{ archive.Dir }

func (u unsynced) Put(_ context.Context, f *os.File, name string) error {
	return errors.Join(f.Close(), os.Rename(f.Name(), filepath.Join(u.String(), name)))
}

// watched calls after when a file was put.
type watched struct {
	archive.Storage
	after func()
}

func (w watched) Put(ctx context.Context, f *os.File, name string) error {
	err := w.Storage.Put(ctx, f, name)
	w.after()
	return err
}

// ends returns where an archive ends, and how many bases it has. It fails the test if it is not sound.
func ends(t *testing.T, s archive.Storage) (jute.Zxid, int) {
	t.Helper()
	a, err := archive.Read(context.Background(), s)
	if err != nil || len(a.Bases) == 0 {
		return 0, 0
	}
	for i := range a.Segments {
		if err := a.VerifySegment(context.Background(), &a.Segments[i]); err != nil {
			t.Error(err)
		}
	}
	b := &a.Bases[len(a.Bases)-1]
	chain := a.Chain(ours, b.Zxid)
	at := b.Zxid
	err = a.Replay(context.Background(), chain, at, func(e *zab.Entry) error {
		if want := entry(at + 1); e.Zxid != want.Zxid || string(e.Data) != string(want.Data) {
			t.Errorf("%v follows %v", e.Zxid, at)
		}
		at = e.Zxid
		return nil
	})
	if err != nil || at != archive.End(b.Zxid, chain) {
		t.Errorf("%v: %v", at, err)
	}
	return at, len(a.Bases)
}

// TestFollow follows a log that grows, also while nobody follows it, and merges segments.
func TestFollow(t *testing.T) {
	s := newStreams(t, 5)
	servers := startHandlers(t, s)
	dir := unsynced{archive.Dir(t.TempDir())}
	for last := jute.Zxid(50); last <= 150; last += 50 {
		s.change(func() { s.last = last })
		following(t, dir, last, servers)
	}
	a, err := archive.Read(t.Context(), dir)
	if err != nil || len(a.Segments) > 2*mergeAt || len(a.Bases) != 1 {
		t.Errorf("%d segments, %d bases, %v", len(a.Segments), len(a.Bases), err)
	}
}

// TestEveryCutOfTheStream breaks each connection one byte later than the last, up to the end of the third entry,
// or of the first one in short runs.
func TestEveryCutOfTheStream(t *testing.T) {
	s := newStreams(t, 5)
	servers := startHandlers(t, s)
	dir := unsynced{archive.Dir(t.TempDir())}
	following(t, dir, 5, servers)
	entries := 3
	if testing.Short() {
		entries = 1
	}
	whole := 48 + entries*(28+3+28)
	for cut := 0; cut <= whole; cut++ {
		s.change(func() { s.cut = cut })
		ctx, cancel := context.WithCancel(t.Context())
		f := &Follower{Servers: servers, To: dir, Report: func(format string, args ...any) {
			if strings.Contains(format, "trying again") {
				cancel()
			}
		}}
		if cut == whole {
			s.change(func() { s.cut = -1 })
			cancel()
		}
		if err := f.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		end, _ := ends(t, dir)
		s.change(func() { s.last = end + 3 })
		cancel()
	}
	end, _ := ends(t, dir)
	s.change(func() { s.cut = -1; s.last = end + 100 })
	following(t, dir, end+100, servers)
}

// TestAnotherServer continues with another server, and with another snapshot if the log does not reach
// back. The states before that stay.
func TestAnotherServer(t *testing.T) {
	one, two := newStreams(t, 10), newStreams(t, 10)
	one.cut = 48 + 5*(28+3+28)
	servers := startHandlers(t, one, two)
	dir := unsynced{archive.Dir(t.TempDir())}
	following(t, dir, 10, servers)
	one.change(func() { one.last = 20 })
	two.change(func() { two.last = 30 })
	following(t, dir, 30, servers)
	two.change(func() { two.first, two.last = 35, 40 })
	one.change(func() { one.cut = 0 })
	said := following(t, dir, 40, servers)
	if _, bases := ends(t, dir); bases != 2 || !strings.Contains(strings.Join(said, "\n"), "fetching another snapshot") {
		t.Errorf("%d bases; %s", bases, strings.Join(said, "\n"))
	}
	two.change(func() { two.id = history.ID{7} })
	f := &Follower{Servers: startHandlers(t, two), To: dir, Report: func(string, ...any) {}}
	if err := f.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "into another directory") {
		t.Errorf("error %v", err)
	}
}

// TestNoGapAtABase fetches a base each time, and has all entries between two of them, also if it was
// ended right after a base.
func TestNoGapAtABase(t *testing.T) {
	s := newStreams(t, 5)
	servers := startHandlers(t, s)
	dir := unsynced{archive.Dir(t.TempDir())}
	following(t, dir, 5, servers)
	s.change(func() { s.last = 20 })
	if _, err := Create(t.Context(), servers, dir, false, time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	s.change(func() { s.last = 30 })
	following(t, dir, 30, servers)
	a, err := archive.Read(t.Context(), dir)
	if err != nil || len(a.Bases) != 2 || archive.End(5, a.Chain(ours, 5)) != 30 {
		t.Errorf("%+v, %v", a, err)
	}
}

// killed is a storage of which the n-th change fails, before or after it is done. All changes fail from
// then on.
type killed struct {
	unsynced
	n    int
	late bool
}

func (k *killed) step(change func() error) error {
	k.n--
	if k.n > 0 {
		return change()
	}
	if k.n == 0 && k.late {
		return errors.Join(change(), fs.ErrPermission)
	}
	return fs.ErrPermission
}

func (k *killed) Put(ctx context.Context, f *os.File, name string) error {
	return k.step(func() error { return k.unsynced.Put(ctx, f, name) })
}

func (k *killed) Remove(ctx context.Context, name string) error {
	return k.step(func() error { return k.unsynced.Remove(ctx, name) })
}

// TestKilledAtEachChange ends a follower at each of its changes of the archive, many times in a row.
func TestKilledAtEachChange(t *testing.T) {
	s := newStreams(t, 5)
	servers := startHandlers(t, s)
	dir := unsynced{archive.Dir(t.TempDir())}
	following(t, dir, 5, servers)
	for n := 1; n <= 25; n++ {
		s.change(func() { s.last += 10 })
		f := &Follower{Servers: servers, To: &killed{unsynced: dir, n: n, late: n%2 == 0}, Report: func(string, ...any) {}}
		if err := f.Run(t.Context()); !errors.Is(err, fs.ErrPermission) {
			t.Fatal(err)
		}
		ends(t, dir)
	}
	following(t, dir, s.last, servers)
}

// TestLogIsFollowedDuringABase follows the log while another base is being fetched, can't be fetched, or
// never arrives.
func TestLogIsFollowedDuringABase(t *testing.T) {
	for name, snapshot := range map[string]func(http.ResponseWriter, *http.Request) bool{
		"works": func(http.ResponseWriter, *http.Request) bool { return false },
		"fails": func(w http.ResponseWriter, _ *http.Request) bool {
			http.Error(w, `{"error": "no room"}`, http.StatusInternalServerError)
			return true
		},
		"hangs": func(_ http.ResponseWriter, r *http.Request) bool {
			<-r.Context().Done()
			return true
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStreams(t, 5)
			servers := startHandlers(t, s)
			dir := unsynced{archive.Dir(t.TempDir())}
			following(t, dir, 5, servers)
			tried, logged := make(chan struct{}), make(chan struct{})
			var first, end sync.Once
			s.change(func() {
				s.last = 50
				s.snapshot = func(w http.ResponseWriter, r *http.Request) bool {
					if name != "works" {
						first.Do(func() { close(tried) })
					}
					return snapshot(w, r)
				}
			})
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			reached := errors.New("reached")
			f := &Follower{Servers: servers, Every: 0, BaseEvery: time.Nanosecond, Report: func(string, ...any) {}}
			f.To = watched{dir, func() {
				a, err := archive.Read(context.Background(), dir)
				if err != nil {
					return
				}
				if archive.End(5, a.Chain(ours, 5)) == 50 {
					end.Do(func() { close(logged) })
				}
				if len(a.Bases) == 2 {
					first.Do(func() { close(tried) })
				}
			}}
			ran := make(chan error, 1)
			go func() { ran <- f.Run(ctx) }()
			for _, event := range []chan struct{}{logged, tried} {
				select {
				case <-event:
				case err := <-ran:
					t.Fatal(err)
				}
			}
			cancel(reached)
			if err := <-ran; !errors.Is(err, reached) {
				t.Error(err)
			}
		})
	}
}

// TestFollowerIsRefused ends a follower that does not prove who it is, before the first base and after it.
func TestFollowerIsRefused(t *testing.T) {
	refusing := startHandlers(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"error": "Not authenticated"}`, http.StatusUnauthorized)
	}))
	dir := unsynced{archive.Dir(t.TempDir())}
	for range 2 {
		f := &Follower{Servers: refusing, To: dir, Report: func(format string, args ...any) { t.Logf(format, args...) }}
		if err := f.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "authenticate as a user") {
			t.Errorf("error %v", err)
		}
		following(t, dir, 5, startHandlers(t, newStreams(t, 5)))
	}
}

// mergeFails is a storage that can't write a segment of 16 entries or more, once.
type mergeFails struct {
	unsynced
	failed *int
}

func (m mergeFails) Put(ctx context.Context, f *os.File, name string) error {
	var at, after, last uint64
	n, _ := fmt.Sscanf(name, "zkd-%dT%dZ-0x%x-0x%x-", &at, &at, &after, &last)
	if *m.failed == 0 && n == 4 && last-after >= mergeAt {
		*m.failed++
		return errors.Join(f.Close(), os.Remove(f.Name()), errors.New("no room"))
	}
	return m.unsynced.Put(ctx, f, name)
}

// TestMergeFails has a merge fail for lack of room: later ones do not look for what it did not write.
func TestMergeFails(t *testing.T) {
	s := newStreams(t, 5)
	servers := startHandlers(t, s)
	failed := 0
	dir := mergeFails{unsynced{archive.Dir(t.TempDir())}, &failed}
	s.change(func() { s.last = 5 })
	following(t, dir, 5, servers)
	s.change(func() { s.last = 80 })
	said := following(t, dir, 80, servers)
	if n := strings.Count(strings.Join(said, "\n"), "trying again"); failed != 1 || n > 1 {
		t.Errorf("%d merges failed; it said:\n%s", failed, strings.Join(said, "\n"))
	}
}

// loses is a storage that confirms a segment which it does not have, once.
type loses struct {
	unsynced
	lost *int
}

func (l loses) Put(ctx context.Context, f *os.File, name string) error {
	err := l.unsynced.Put(ctx, f, name)
	if *l.lost == 0 && strings.Contains(name, "-0xa-") {
		*l.lost++
		return errors.Join(err, l.Remove(ctx, name))
	}
	return err
}

// TestSegmentIsNotStored follows into a storage that has lost a segment: what it had is fetched again.
func TestSegmentIsNotStored(t *testing.T) {
	s := newStreams(t, 5)
	servers := startHandlers(t, s)
	lost := 0
	dir := loses{unsynced{archive.Dir(t.TempDir())}, &lost}
	s.change(func() { s.last = 5 })
	following(t, dir, 5, servers)
	s.change(func() { s.last = 60 })
	said := strings.Join(following(t, dir, 60, servers), "\n")
	if lost != 1 || strings.Count(said, "what follows zxid 0x9 is missing") != 1 {
		t.Errorf("%d segments were lost; it said:\n%s", lost, said)
	}
}

// shortOf is a storage that once lacks something, for making a file, for giving it a name, and for reading it.
type shortOf struct {
	unsynced
	calls *[3]int
}

func (s shortOf) lacks(call int, what error) error {
	if s.calls[call]++; s.calls[call] == 1 {
		return &fs.PathError{Op: "open", Path: s.String(), Err: what}
	}
	return nil
}

func (s shortOf) Create() (*os.File, error) {
	if err := s.lacks(0, syscall.ENOSPC); err != nil {
		return nil, err
	}
	return s.unsynced.Create()
}

func (s shortOf) Put(ctx context.Context, f *os.File, name string) error {
	if err := s.lacks(1, syscall.EIO); err != nil {
		return errors.Join(f.Close(), os.Remove(f.Name()), err)
	}
	return s.unsynced.Put(ctx, f, name)
}

func (s shortOf) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	if err := s.lacks(2, syscall.EMFILE); err != nil {
		return nil, err
	}
	return s.unsynced.Open(ctx, name)
}

// TestFollowerLacksSomething has no room, a disk that fails, and no descriptor to look at what was fetched: the follower says so
// and tries again, and nothing is missing then, or left of what failed.
func TestFollowerLacksSomething(t *testing.T) {
	dir := unsynced{archive.Dir(t.TempDir())}
	var calls [3]int
	s := newStreams(t, 10)
	s.snapshot = func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("last_zxid", "0x5")
		w.Write(snapshotOf(t, s.id, 5))
		return true
	}
	servers := startHandlers(t, s)
	said := strings.Join(following(t, shortOf{dir, &calls}, 10, servers), "\n")
	for _, no := range []error{syscall.ENOSPC, syscall.EIO, syscall.EMFILE} {
		if !strings.Contains(said, no.Error()+"; trying again") {
			t.Errorf("%v: it said:\n%s", no, said)
		}
	}
	calls = [3]int{1, 1, 0} // and no descriptor for the base when it begins again
	s.change(func() { s.last = 12 })
	if said := strings.Join(following(t, shortOf{dir, &calls}, 12, servers), "\n"); !strings.Contains(said, syscall.EMFILE.Error()+"; trying again") {
		t.Errorf("at the second start it said:\n%s", said)
	}
	if end, _ := ends(t, dir); end != 12 {
		t.Errorf("the archive ends at %v", end)
	}
	files, err := dir.List(t.Context())
	for name := range files {
		if strings.HasPrefix(name, ".") {
			t.Errorf("%s is left", name)
		}
	}
	if err != nil {
		t.Error(err)
	}
}

// unread is a storage of which a file can't be read, once.
type unread struct {
	unsynced
	done *bool
}

func (u unread) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	if !*u.done {
		*u.done = true
		return nil, errors.New("503 Service Unavailable")
	}
	return u.unsynced.Open(ctx, name)
}

// TestFetchedBaseIsReadLater has a storage that takes a base and can't give it back at once: the follower tries again.
func TestFetchedBaseIsReadLater(t *testing.T) {
	dir := unread{unsynced{archive.Dir(t.TempDir())}, new(bool)}
	s := newStreams(t, 9)
	s.snapshot = func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("last_zxid", "0x5")
		w.Write(snapshotOf(t, s.id, 5))
		return true
	}
	said := strings.Join(following(t, dir, 9, startHandlers(t, s)), "\n")
	if !*dir.done || !strings.Contains(said, "503 Service Unavailable; trying again") {
		t.Errorf("it said:\n%s", said)
	}
}

// stuck is a storage that takes no segment.
type stuck struct {
	unsynced
	asked func()
}

func (s stuck) Put(ctx context.Context, f *os.File, _ string) error {
	s.asked()
	<-ctx.Done()
	return errors.Join(f.Close(), os.Remove(f.Name()), context.Cause(ctx))
}

// TestStuckStorage ends a follower whose storage takes no segment: it says that it waits, and ends soon after it was told to.
func TestStuckStorage(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var said []string
		end := errors.New("the end")
		ctx, cancel := context.WithCancelCause(t.Context())
		f := &Follower{To: stuck{unsynced{archive.Dir(dir)}, func() {
			time.AfterFunc(slowly+time.Second, func() { cancel(end) })
		}}, Report: func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }, id: ours, last: 5}
		e := entry(6)
		p := pending{entries: []*zab.Entry{&e}}
		begun := time.Now()
		err := f.flush(ctx, &p)
		if took := time.Since(begun); !errors.Is(err, end) || took != slowly+time.Second+linger {
			t.Errorf("%v after %v", err, took)
		}
		synctest.Wait()
		if len(said) != 1 || !strings.Contains(said[0], "has not taken a segment") {
			t.Errorf("it said %q", said)
		}
	})
}

// TestFollowedArchiveIsPruned prunes an archive that is followed: the follower does not look for the
// segments that are gone.
func TestFollowedArchiveIsPruned(t *testing.T) {
	s := newStreams(t, 5)
	servers := startHandlers(t, s)
	dir := unsynced{archive.Dir(t.TempDir())}
	following(t, dir, 5, servers)
	s.change(func() { s.last = 20 })
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	reached := errors.New("reached")
	f := &Follower{Servers: servers, Every: 0, Report: func(string, ...any) {}}
	f.To = watched{dir, func() {
		switch end, _ := ends(t, dir); end {
		case 15: // as another process would, with another base
			if _, err := Create(t.Context(), servers, dir, false, time.Now().Add(time.Second)); err != nil {
				t.Error(err)
			}
			a, err := archive.Read(t.Context(), dir)
			if err == nil {
				_, err = a.Prune(t.Context(), archive.Retention{Keep: 1}, time.Now().Add(time.Hour))
			}
			if err != nil {
				t.Error(err)
			}
			s.change(func() { s.last = 60 })
		case 60:
			cancel(reached)
		}
	}}
	if err := f.Run(ctx); !errors.Is(err, reached) {
		t.Fatal(err)
	}
}

// TestBaseIsDue: the next base is fetched when the newest one is old, also if the clock was wrong when that was fetched.
func TestBaseIsDue(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		age  time.Duration
		last jute.Zxid
		want bool
	}{
		{23 * time.Hour, 9, false}, {24 * time.Hour, 9, true}, {24 * time.Hour, 5, false}, {-time.Minute, 9, false}, {-365 * 24 * time.Hour, 9, true},
	} {
		f := Follower{BaseEvery: 24 * time.Hour, base: archive.Base{Time: now.Add(-tt.age), Zxid: 5}, last: tt.last}
		if f.baseIsDue(now) != tt.want {
			t.Errorf("after %v, with the log up to %v: %t", tt.age, tt.last, !tt.want)
		}
	}
}
