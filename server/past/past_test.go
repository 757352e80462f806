package past

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/internal/testing/crashfs"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/data"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/history"
	"github.com/zkd-project/zkd/server/snapshot"
	"github.com/zkd-project/zkd/server/wal"
	"github.com/zkd-project/zkd/server/zab"
)

// newPast returns the past of a server whose log has entries with some zxids. Each sets the data of /a to its zxid; the first
// creates it.
func newPast(t *testing.T, zxids ...jute.Zxid) *Past {
	t.Helper()
	fs := crashfs.New(1)
	log, _, err := wal.Open(wal.Options{FS: fs, Dir: "/log", SegmentSize: 128 << 10, Ident: []byte("a server")})
	if err != nil {
		t.Fatal(err)
	}
	store, err := snapshot.Open("/data", snapshot.Options{FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	w := wal.NewWriter(log, wal.WriterOptions{Durable: func(wal.Durable) {}, Fatal: func(err error) { t.Error(err) }})
	t.Cleanup(func() { _ = w.Close() })
	var last jute.Zxid
	for i, zxid := range zxids {
		op := datatree.Op{Kind: datatree.OpSetData, Path: "/a", Data: fmt.Append(nil, zxid), Version: int32(i)}
		if i == 0 {
			op.Kind, op.ACL = datatree.OpCreate, []jute.ACL{{Perms: jute.PermAll, ID: jute.WorldAnyone}}
		}
		txn := datatree.Txn{Zxid: zxid, Session: 1, Time: int64(zxid.Counter()) * 1000, Ops: []datatree.Op{op}}
		e := zab.Entry{Zxid: zxid, Prev: last, Type: zab.EntryTxn, Data: txn.Append(nil)}
		if err := w.SubmitWait(data.EntryRecord(&e)); err != nil {
			t.Fatal(err)
		}
		last = zxid
	}
	return &Past{Store: store, Log: w, Applied: func() jute.Zxid { return last }, Now: time.Now, History: func() history.ID { return history.ID{1} }, Room: func() int64 { return 1 << 20 }}
}

// TestMomentsBetweenEntries looks at moments and changes whose zxids are not those of entries, as between two epochs: they wait for nothing.
func TestMomentsBetweenEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPast(t, 0x100000001, 0x100000002, 0x200000005, 0x200000009)
		begun := time.Now()
		for _, tt := range []struct{ at, want jute.Zxid }{{0x100000001, 0x100000001}, {0x1ffffffff, 0x100000002}, {0x200000000, 0x100000002}, {0x200000008, 0x200000005}, {0x200000009, 0x200000009}} {
			f, from, err := p.At(t.Context(), history.Part{Root: "/a"}, history.Moment{Zxid: tt.at})
			if err != nil {
				t.Fatal(err)
			}
			if got, _ := f.Tree.Data("/a"); string(got) != tt.want.String() || f.At != tt.want || from == "" {
				t.Errorf("after %v: %q at %v, want %v", tt.at, got, f.At, tt.want)
			}
		}
		if f, _, err := p.At(t.Context(), history.Part{Root: "/a"}, history.Moment{Time: time.UnixMilli(6000)}); err != nil || f.At != 0x200000005 {
			t.Errorf("after 6 seconds: %v, %v", f, err)
		}
		for _, m := range []history.Moment{{Zxid: 0x20000000a}, {Time: time.UnixMilli(1)}} {
			_, _, err := p.At(t.Context(), history.Part{Root: "/a"}, m)
			if _, unknown := errors.AsType[*UnknownError](err); !unknown {
				t.Errorf("%+v: %v", m, err)
			}
		}
		all := func(*history.Step) bool { return true }
		for _, tt := range []struct {
			before jute.Zxid
			most   int
			want   string
		}{{0, 500, "4 after 0x0"}, {0x200000000, 500, "2 after 0x0"}, {0x200000006, 2, "1 after 0x100000002, and more"}, {0x100000001, 500, "0 after 0x0"}} {
			c, err := p.Changes(t.Context(), "/a", false, tt.before, tt.most, all)
			if err != nil {
				t.Fatal(err)
			}
			got := fmt.Sprintf("%d after %v", len(c.List), c.After)
			if c.More {
				got += ", and more"
			}
			if got != tt.want {
				t.Errorf("before %v, at most %d: %s, want %s", tt.before, tt.most, got, tt.want)
			}
		}
		if waited := time.Since(begun); waited != 0 {
			t.Errorf("it waited for %v", waited)
		}
	})
}

// TestDamagedSnapshotIsLeftOut looks back with a snapshot that can't be read: the log has the moment as well. How far the past reaches is told without a look into it.
func TestDamagedSnapshotIsLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPast(t, 0x100000001, 0x100000002, 0x100000003)
		fs := crashfs.New(2)
		store, err := snapshot.Open("/data", snapshot.Options{FS: fs})
		if err != nil {
			t.Fatal(err)
		}
		f, err := fs.OpenFile(store.Path(snapshot.FileName(0x100000002, 1)), os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
		p.Store = store
		for _, m := range []history.Moment{{Zxid: 0x100000002}, {Time: time.UnixMilli(2500)}} {
			if f, from, err := p.At(t.Context(), history.Part{Root: "/a"}, m); err != nil || f.At != 0x100000002 || !strings.Contains(from, "log") {
				t.Errorf("%+v: %v from %q, %v", m, f, from, err)
			}
		}
		if since, ok := p.Since(t.Context()); since != 0 || !ok {
			t.Errorf("it reaches back to %v, %v", since, ok)
		}
	})
}

// TestOneAtATime gives the turn to one caller, and to none without memory.
func TestOneAtATime(t *testing.T) {
	room := int64(1)
	p := &Past{Room: func() int64 { return room }}
	end, err := p.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Begin(); !errors.Is(err, ErrBusy) {
		t.Errorf("a second one: %v", err)
	}
	end()
	end()
	room = 0
	if _, err := p.Begin(); !errors.Is(err, ErrShort) {
		t.Errorf("without memory: %v", err)
	}
	room = 1
	if end, err = p.Begin(); err != nil {
		t.Fatal(err)
	}
	end()
}
