package backup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/archive"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/history"
	"github.com/zkd-project/zkd/server/snapshot"
	"github.com/zkd-project/zkd/server/zab"
)

// past makes an archive of transactions: a base after the first, and a segment with the rest, but for those
// whose number is in missing. Transaction i has zxid i, and is i minutes after noon.
func past(t *testing.T, txns []datatree.Op, missing ...int) archive.Dir {
	t.Helper()
	dir := archive.Dir(t.TempDir())
	state := history.State{Tree: datatree.New()}
	var list []zab.Entry
	for i, op := range txns {
		z := jute.Zxid(i + 1)
		txn := datatree.Txn{Zxid: z, Time: noon.Add(time.Duration(z) * time.Minute).UnixMilli(), Session: 7, Ops: []datatree.Op{op}}
		list = append(list, zab.Entry{Zxid: z, Prev: z - 1, Data: txn.Append(nil)})
	}
	if err := state.Apply(&list[0]); err != nil {
		t.Fatal(err)
	}
	store, err := snapshot.Open(t.TempDir(), snapshot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	view := state.Tree.Freeze()
	var batch datatree.Batch
	for view.Step(&batch, 1<<20) {
	}
	rows := func(table datatree.Table) func(func(k, v []byte) bool) {
		return func(yield func(k, v []byte) bool) {
			for row := range batch.All() {
				if row.Table == table && !yield(row.Key, row.Value) {
					return
				}
			}
		}
	}
	meta := view.Meta()
	ref, err := store.Write(t.Context(), snapshot.Meta{Zxid: 1, Incarnation: ours[:], Extra: map[string][]byte{
		history.ExtraTree: datatree.AppendMeta(nil, &meta), history.ExtraEnsemble: state.Ensemble.Append(nil)}},
		snapshot.Section{Name: history.SectionSessions, Items: rows(datatree.TableSessions)},
		snapshot.Section{Name: history.SectionNodes, Items: rows(datatree.TableNodes)},
		snapshot.Section{Name: history.SectionACLs, Items: rows(datatree.TableACLs), Early: true})
	view.Close()
	if err != nil {
		t.Fatal(err)
	}
	b := archive.Base{Time: noon.Add(90 * time.Second), Zxid: 1, CRC: ref.CRC}
	if err := os.Rename(store.Path(ref.Name), filepath.Join(string(dir), b.FileName())); err != nil {
		t.Fatal(err)
	}
	for from := 1; from < len(list); {
		to := from
		for to+1 < len(list) && (len(missing) == 0 || to+1 != missing[0]-1) {
			to++
		}
		h := &archive.Header{History: ours, After: jute.Zxid(from), Last: jute.Zxid(to + 1)}
		if _, err := archive.Write(t.Context(), dir, h, noon.Add(time.Duration(to+1)*time.Minute), func(fn func(*zab.Entry) error) error {
			for i := from; i <= to; i++ {
				if err := fn(&list[i]); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		from = to + 1 + len(missing)
	}
	return dir
}

func somePast() []datatree.Op {
	acl := []jute.ACL{{Perms: jute.PermAll, ID: jute.WorldAnyone}}
	return []datatree.Op{
		{Kind: datatree.OpCreateSession, TimeoutMs: 30_000},
		{Kind: datatree.OpCreate, Path: "/a", Data: []byte("1"), ACL: acl},
		{Kind: datatree.OpCreate, Path: "/a/b", Data: []byte("2"), ACL: acl, Owner: jute.OwnerSession(7)},
		{Kind: datatree.OpCreate, Path: "/a/t", ACL: acl, Owner: jute.OwnerTTL(1000)},
		{Kind: datatree.OpCreate, Path: "/ab", ACL: acl},
		{Kind: datatree.OpSetData, Path: "/a", Data: []byte("new"), Version: 1},
		{Kind: datatree.OpCloseSession, Paths: []string{"/a/b"}},
		{Kind: datatree.OpDelete, Path: "/a/t"},
	}
}

// TestStateAt reads a subtree at moments.
func TestStateAt(t *testing.T) {
	dir := past(t, somePast())
	for _, tt := range []struct {
		at   history.Moment
		want string
	}{
		{history.Moment{Zxid: 1}, ""},
		{history.Moment{Zxid: 2}, `/ "1" persistent`},
		{history.Moment{Time: noon.Add(4*time.Minute + time.Second)}, `/ "1" persistent, /b "2" ephemeral, /t "" ttl`},
		{history.Moment{Zxid: 6}, `/ "new" persistent, /b "2" ephemeral, /t "" ttl`},
		{history.Moment{Zxid: 7}, `/ "new" persistent, /t "" ttl`},
		{history.Moment{}, `/ "new" persistent`},
	} {
		f, err := StateAt(t.Context(), string(dir), os.Getenv, tt.at)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for n := range Nodes(f.Tree, "/a") {
			got = append(got, fmt.Sprintf("%s %q %v", n.Path, n.Data, n.Kind()))
		}
		if s := strings.Join(got, ", "); s != tt.want {
			t.Errorf("%+v: got %s, want %s", tt.at, s, tt.want)
		}
	}
	var all []string
	f, err := StateAt(t.Context(), string(dir), os.Getenv, history.Moment{})
	if err != nil {
		t.Fatal(err)
	}
	for n := range Nodes(f.Tree, "/") {
		all = append(all, n.Path)
	}
	if s := strings.Join(all, " "); s != "/ /a /ab" {
		t.Errorf("all: %s", s)
	}
	for _, at := range []history.Moment{{Zxid: 9}, {Time: noon}} {
		if _, err := StateAt(t.Context(), string(dir), os.Getenv, at); err == nil {
			t.Errorf("%+v: no error", at)
		}
	}
}

// TestStateAtWithAGap goes to moments before and after a part of the history that is missing.
func TestStateAtWithAGap(t *testing.T) {
	dir := past(t, somePast(), 5)
	for _, tt := range []struct {
		at   history.Moment
		fine bool
	}{
		{history.Moment{Zxid: 4}, true}, {history.Moment{Zxid: 5}, false}, {history.Moment{Zxid: 7}, false},
		{history.Moment{Time: noon.Add(3*time.Minute + time.Second)}, true}, {history.Moment{Time: noon.Add(20 * time.Minute)}, false},
	} {
		if _, err := StateAt(t.Context(), string(dir), os.Getenv, tt.at); (err == nil) != tt.fine {
			t.Errorf("%+v: %v", tt.at, err)
		}
	}
	a, err := archive.Read(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	spans, err := a.Entries(t.Context(), func(e *zab.Entry) error {
		list, err := history.ChangesOf(e, "/a", true)
		for i := range list {
			got = append(got, fmt.Sprint(list[i].Op, " ", list[i].Path))
		}
		return err
	})
	const want = "create /a, create /a/b, create /a/t, set /a, expire /a/b, delete /a/t"
	if s := strings.Join(got, ", "); err != nil || s != want {
		t.Errorf("%s, %v", s, err)
	}
	if s := history.Known(spans); s != "known is what happened after zxid 0x1 up to 0x4, and after 0x5 up to 0x8" {
		t.Error(s)
	}
}

// TestChangesOf names a node, and what is below it, but not those whose names begin alike.
func TestChangesOf(t *testing.T) {
	txn := datatree.Txn{Zxid: 9, Session: 7, Ops: []datatree.Op{{Kind: datatree.OpDelete, Path: "/a"}, {Kind: datatree.OpDelete, Path: "/a/b"},
		{Kind: datatree.OpDelete, Path: "/ab"}, {Kind: datatree.OpSetACL, Path: "/", Version: 2}}}
	e := zab.Entry{Zxid: 9, Prev: 8, Data: txn.Append(nil)}
	for _, tt := range []struct {
		path  string
		below bool
		want  int
	}{{"/a", false, 1}, {"/a", true, 2}, {"/", false, 1}, {"/", true, 4}, {"/ab", true, 1}, {"/b", true, 0}} {
		list, err := history.ChangesOf(&e, tt.path, tt.below)
		if err != nil || len(list) != tt.want {
			t.Errorf("%+v: %v, %v", tt, list, err)
		}
	}
	e.Data = e.Data[:5]
	if _, err := history.ChangesOf(&e, "/a", false); !errors.Is(err, datatree.ErrTxn) {
		t.Errorf("damaged: %v", err)
	}
}
