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

// pastBase writes the state after the first z transactions as a base that was taken at a time. The
// request for it began a second earlier.
func pastBase(t *testing.T, dir archive.Dir, list []zab.Entry, z int, taken time.Time) {
	t.Helper()
	state := history.State{Tree: datatree.New()}
	for i := range list[:z] {
		if err := state.Apply(&list[i]); err != nil {
			t.Fatal(err)
		}
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
	ref, err := store.Write(t.Context(), snapshot.Meta{Zxid: jute.Zxid(z), Time: taken.UnixMilli(), Incarnation: ours[:], Digest: history.Digest(state.Tree),
		Extra: map[string][]byte{history.ExtraTree: datatree.AppendMeta(nil, &meta), history.ExtraEnsemble: state.Ensemble.Append(nil)}},
		snapshot.Section{Name: history.SectionSessions, Items: rows(datatree.TableSessions)},
		snapshot.Section{Name: history.SectionNodes, Items: rows(datatree.TableNodes)},
		snapshot.Section{Name: history.SectionACLs, Items: rows(datatree.TableACLs), Early: true})
	view.Close()
	if err != nil {
		t.Fatal(err)
	}
	b := archive.Base{Time: taken.Add(-time.Second), Zxid: jute.Zxid(z), CRC: ref.CRC}
	if err := os.Rename(store.Path(ref.Name), filepath.Join(string(dir), b.FileName())); err != nil {
		t.Fatal(err)
	}
}

// entriesOf returns the entries of transactions. Transaction i has zxid i, and is i minutes after noon.
func entriesOf(txns []datatree.Op) (list []zab.Entry) {
	for i, op := range txns {
		z := jute.Zxid(i + 1)
		txn := datatree.Txn{Zxid: z, Time: noon.Add(time.Duration(z) * time.Minute).UnixMilli(), Session: 7, Ops: []datatree.Op{op}}
		list = append(list, zab.Entry{Zxid: z, Prev: z - 1, Data: txn.Append(nil)})
	}
	return list
}

// past makes an archive of transactions: a base after the first, and a segment with the rest, but for those
// whose number is in missing.
func past(t *testing.T, txns []datatree.Op, missing ...int) archive.Dir {
	t.Helper()
	dir := archive.Dir(t.TempDir())
	list := entriesOf(txns)
	pastBase(t, dir, list, 1, noon.Add(90*time.Second))
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
		f, err := StateAt(t.Context(), string(dir), os.Getenv, t.Logf, tt.at)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for n := range history.Nodes(f.Tree, "/a") {
			got = append(got, fmt.Sprintf("%s %q %v", n.Path, n.Data, n.Kind()))
		}
		if s := strings.Join(got, ", "); s != tt.want {
			t.Errorf("%+v: got %s, want %s", tt.at, s, tt.want)
		}
	}
	var all []string
	f, err := StateAt(t.Context(), string(dir), os.Getenv, t.Logf, history.Moment{})
	if err != nil {
		t.Fatal(err)
	}
	for n := range history.Nodes(f.Tree, "/") {
		all = append(all, n.Path)
	}
	if s := strings.Join(all, " "); s != "/ /a /ab" {
		t.Errorf("all: %s", s)
	}
	for _, at := range []history.Moment{{Zxid: 9}, {Time: noon}} {
		if _, err := StateAt(t.Context(), string(dir), os.Getenv, t.Logf, at); err == nil {
			t.Errorf("%+v: no error", at)
		}
	}
}

// TestStateAtDuringABackup goes to a moment after a backup was asked for, and before its state was
// taken: the backup before has that moment, and if there is none, an error says so.
func TestStateAtDuringABackup(t *testing.T) {
	dir := past(t, somePast())
	taken := noon.Add(5*time.Minute + 30*time.Second)
	pastBase(t, dir, entriesOf(somePast()), 5, taken)
	at := history.Moment{Time: taken.Add(-500 * time.Millisecond)}
	f, err := StateAt(t.Context(), string(dir), os.Getenv, t.Logf, at)
	if err != nil || f.Tree.LastZxid() != 5 || f.Base.Zxid != 1 {
		t.Fatalf("%v, %v", f, err)
	}
	if err := os.Remove(filepath.Join(string(dir), f.Base.Name)); err != nil {
		t.Fatal(err)
	}
	if f, err = StateAt(t.Context(), string(dir), os.Getenv, t.Logf, at); err == nil {
		t.Errorf("without the backup before: %v", f)
	}
	if f, err = StateAt(t.Context(), string(dir), os.Getenv, t.Logf, history.Moment{Time: taken}); err != nil || f.Base.Zxid != 5 {
		t.Errorf("when it was taken: %v, %v", f, err)
	}
}

// TestVerifyAll verifies archives with several bases. Each entry is applied once, and a base that is
// not the state that the entries lead to is found.
func TestVerifyAll(t *testing.T) {
	list := entriesOf(somePast())
	other := somePast()
	other[4].Data = []byte("other")
	verify := func(dir archive.Dir) (sound bool, report string) {
		t.Helper()
		a, err := archive.Read(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if sound, err = a.Verify(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
		return sound, b.String()
	}
	dir := past(t, somePast())
	for z := 2; z <= 6; z++ {
		pastBase(t, dir, list, z, noon.Add(time.Duration(z)*time.Minute+30*time.Second))
	}
	sound, report := verify(dir)
	if n := strings.Count(report, ": sound, zxid"); !sound || n != 6 || !strings.Contains(report, "with 1 entries in 1 segments up to 0x4") ||
		!strings.Contains(report, "with 2 entries in 1 segments up to 0x8") {
		t.Errorf("sound %v:\n%s", sound, report)
	}
	pastBase(t, dir, entriesOf(other), 7, noon.Add(7*time.Minute+30*time.Second))
	sound, report = verify(dir)
	if sound || strings.Count(report, "NOT SOUND") != 1 || !strings.Contains(report, "lead to another state") {
		t.Errorf("another state, sound %v:\n%s", sound, report)
	}
	gap := past(t, somePast(), 5)
	sound, report = verify(gap) // what follows it can't be had
	if sound || strings.Count(report, "NOT SOUND") != 1 || !strings.Contains(report, "NOT SOUND: what happened between zxid 0x4 and 0x5 is not in ") {
		t.Errorf("gap at the end, sound %v:\n%s", sound, report)
	}
	pastBase(t, gap, list, 6, noon.Add(7*time.Minute))
	if sound, report = verify(gap); !sound || strings.Count(report, ": sound, zxid") != 2 || !strings.Contains(report, "up to 0x4") {
		t.Errorf("gap, sound %v:\n%s", sound, report)
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
		{history.Moment{}, false},
	} {
		if _, err := StateAt(t.Context(), string(dir), os.Getenv, t.Logf, tt.at); (err == nil) != tt.fine {
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
