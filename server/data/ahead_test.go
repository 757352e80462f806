package data

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/server/history"
	"github.com/zkd-project/zkd/server/snapshot"
)

// TestLoadAhead checks that what was loaded ahead is used once, and only if the log refers to exactly it.
func TestLoadAhead(t *testing.T) {
	dir := dataWithSnapshots(t)
	store := snapshot.Reading(vfs.OS{}, dir)
	files, err := store.List()
	check(t, err)
	ref, err := store.RefOf(t.Context(), files[0].Name)
	check(t, err)

	a := startLoadAhead(t.Context(), store)
	st := a.take(ref)
	if st == nil || st.tree.LastZxid() != ref.Zxid || string(history.Digest(st.tree)) != string(ref.Digest) {
		t.Fatalf("it gives %+v for the newest snapshot, %+v", st, ref)
	}
	if st := a.take(ref); st != nil {
		t.Errorf("it gives %+v twice", st)
	}
	a.stop()

	older, err := store.RefOf(t.Context(), files[1].Name)
	check(t, err)
	wrong := map[string]snapshot.Ref{"an older one": older}
	for name, change := range map[string]func(*snapshot.Ref){
		"another zxid":   func(r *snapshot.Ref) { r.Zxid++ },
		"another size":   func(r *snapshot.Ref) { r.Size++ },
		"another CRC":    func(r *snapshot.Ref) { r.CRC++ },
		"another digest": func(r *snapshot.Ref) { r.Digest = older.Digest },
	} {
		other := ref
		change(&other)
		wrong[name] = other
	}
	for name, other := range wrong {
		a := startLoadAhead(t.Context(), store)
		if st := a.take(other); st != nil {
			t.Errorf("%s: it gives %+v", name, st)
		}
		if st := a.take(ref); st != nil {
			t.Errorf("%s: it gives %+v later", name, st)
		}
		a.stop()
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if st := startLoadAhead(ended, store).take(ref); st != nil {
		t.Errorf("the context has ended: it gives %+v", st)
	}
	damage(t, filepath.Join(dir, "snap", ref.Name))
	if st := startLoadAhead(t.Context(), store).take(ref); st != nil {
		t.Errorf("the file is damaged: it gives %+v", st)
	}
	none := startLoadAhead(t.Context(), snapshot.Reading(vfs.OS{}, t.TempDir()))
	if st := none.take(ref); st != nil {
		t.Errorf("there is no file: it gives %+v", st)
	}
	none.stop()
}
