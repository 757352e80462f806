package backup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/archive"
	"github.com/zkd-project/zkd/server/archive/source"
	"github.com/zkd-project/zkd/server/history"
	"github.com/zkd-project/zkd/server/snapshot"
	"github.com/zkd-project/zkd/server/zab"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// snapshotFile returns the bytes of a snapshot.
func snapshotFile(t *testing.T, zxid jute.Zxid) []byte { return snapshotOf(t, history.ID{}, zxid) }

// snapshotOf returns the bytes of a snapshot of a history.
func snapshotOf(t *testing.T, id history.ID, zxid jute.Zxid) []byte {
	t.Helper()
	store, err := snapshot.Open(t.TempDir(), snapshot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ref, err := store.Write(t.Context(), snapshot.Meta{Zxid: zxid, Digest: []byte("digest"), Incarnation: id[:],
		Extra: map[string][]byte{history.ExtraEnsemble: new(zab.State).Append(nil)}}, snapshot.Section{
		Name: "nodes", Items: func(yield func(key, value []byte) bool) {
			for i := range 100 {
				if !yield(fmt.Appendf(nil, "key %03d", i), []byte(strings.Repeat("v", 100))) {
					return
				}
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(store.Path(ref.Name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// admin is an AdminServer.
type admin struct {
	leads    bool
	status   int
	snapshot []byte
	size     int // in the header; 0 is that of snapshot
	asked    int
	auth     string
}

func (a *admin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/commands/leader":
		fmt.Fprintf(w, `{"is_leader": %v, "command": "leader", "error": null}`, a.leads)
	case "/commands/snapshot":
		a.asked++
		a.auth = r.Header.Get("Authorization")
		if a.status != 0 {
			w.WriteHeader(a.status)
			fmt.Fprint(w, `{"command": "snapshot", "error": "not now"}`)
			return
		}
		w.Header().Set("last_zxid", "0x200000007")
		w.Header().Set("snapshot_size", fmt.Sprint(max(a.size, len(a.snapshot))))
		w.Write(a.snapshot)
	}
}

func start(t *testing.T, list ...*admin) *source.Servers {
	t.Helper()
	var handlers []http.Handler
	for _, a := range list {
		handlers = append(handlers, a)
	}
	return startHandlers(t, handlers...)
}

func startHandlers(t *testing.T, list ...http.Handler) *source.Servers {
	t.Helper()
	s := &source.Servers{Auth: []string{"digest:super:secret"}}
	for _, a := range list {
		server := httptest.NewServer(a)
		t.Cleanup(server.Close)
		s.Admins = append(s.Admins, server.URL)
	}
	return s
}

func filesOf(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestCreate fetches a backup into a directory and into a file.
func TestCreate(t *testing.T) {
	a := &admin{snapshot: snapshotFile(t, 0x200000007)}
	s := start(t, a)
	dir := archive.Dir(t.TempDir())
	b, err := Create(t.Context(), s, dir, false, noon)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(b.Name, "zkd-20260102T120000Z-0x200000007-") || a.auth != "digest super:secret" {
		t.Errorf("backup %s, authorization %q", b.Name, a.auth)
	}
	list, err := archive.Read(t.Context(), dir)
	if err != nil || len(list.Bases) != 1 || list.Bases[0] != *b {
		t.Errorf("list %+v, %v; want %+v", list, err, b)
	}
	path := filepath.Join(string(dir), "mine")
	if _, err := CreateFile(t.Context(), s, path, noon); err != nil {
		t.Fatal(err)
	}
	if again, err := archive.One(t.Context(), path); err != nil || again.VerifyBase(t.Context(), &again.Bases[0]) != nil || again.Bases[0].Zxid != 0x200000007 {
		t.Errorf("open: %+v, %v", again, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != fs.FileMode(0o600) {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// TestCreateFails has answers of which no backup is made. Nothing is left of them.
func TestCreateFails(t *testing.T) {
	good := snapshotFile(t, 0x200000007)
	flipped := []byte(string(good))
	for i := range flipped[4096*3:] {
		flipped[4096*3+i] ^= 0xff
	}
	for _, tt := range []struct {
		name  string
		admin *admin
		says  string
	}{
		{"cut short", &admin{snapshot: good[:len(good)/2], size: len(good)}, "unexpected EOF"},
		{"damaged", &admin{snapshot: flipped}, "damaged"},
		{"another zxid", &admin{snapshot: snapshotFile(t, 0x200000008)}, "is damaged: it has zxid 0x200000008"},
		{"no snapshot", &admin{snapshot: []byte("hello")}, "damaged"},
		{"forbidden", &admin{status: http.StatusForbidden}, "authenticate as a user"},
		{"busy", &admin{status: http.StatusTooManyRequests}, "429 Too Many Requests: not now"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			if _, err := Create(t.Context(), start(t, tt.admin), archive.Dir(dir), false, noon); err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error %v, want %q", err, tt.says)
			}
			if names := filesOf(t, dir); len(names) > 0 {
				t.Errorf("left: %v", names)
			}
		})
	}
}

// TestFollowerIsAsked asks the leader only if no other server answers.
func TestFollowerIsAsked(t *testing.T) {
	file := snapshotFile(t, 0x200000007)
	leader, follower := &admin{leads: true, snapshot: file}, &admin{snapshot: file}
	s := start(t, leader, follower)
	if _, err := Create(t.Context(), s, archive.Dir(t.TempDir()), false, noon); err != nil || leader.asked != 0 || follower.asked != 1 {
		t.Errorf("%v; the leader was asked %d times, the follower %d", err, leader.asked, follower.asked)
	}
	s.Admins[1] = "http://127.0.0.1:1"
	if _, err := Create(t.Context(), s, archive.Dir(t.TempDir()), false, noon); err != nil || leader.asked != 1 {
		t.Errorf("%v; the leader was asked %d times", err, leader.asked)
	}
	s.Admins = s.Admins[1:]
	s.Admins = append(s.Admins, "http://127.0.0.1:2")
	if _, err := Create(t.Context(), s, archive.Dir(t.TempDir()), false, noon); err == nil || !strings.Contains(err.Error(), "no server can be asked") {
		t.Errorf("error %v", err)
	}
}

// TestFetchIsLimited ends when the context does, though the rate would take hours.
func TestFetchIsLimited(t *testing.T) {
	s := start(t, &admin{snapshot: make([]byte, 1<<20)})
	s.Rate = 1
	end := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	s.Progress = func(int64, int64) { cancel(end) }
	if _, err := Create(ctx, s, archive.Dir(t.TempDir()), false, noon); !errors.Is(err, end) {
		t.Errorf("error %v", err)
	}
}
