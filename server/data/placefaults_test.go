package data

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/server/datatree/treetest"
	"github.com/zkd-project/zkd/server/zab"
)

// stoppingFS is the system's file system of which the n-th change and all after it fail, as after a
// kill. It waits for no disk.
type stoppingFS struct {
	fastFS
	n int
}

var errStopped = errors.New("stopped")

func (f *stoppingFS) step(change func() error) error {
	if f.n--; f.n <= 0 {
		return errStopped
	}
	return change()
}

func (f *stoppingFS) open(open func() (vfs.File, error)) (file vfs.File, err error) {
	err = f.step(func() (err error) {
		file, err = open()
		return err
	})
	if err != nil {
		return nil, err
	}
	return &stoppingFile{file, f}, nil
}

func (f *stoppingFS) Create(name string) (vfs.File, error) {
	return f.open(func() (vfs.File, error) { return f.fastFS.Create(name) })
}

func (f *stoppingFS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	return f.open(func() (vfs.File, error) { return f.fastFS.OpenFile(name, flag, perm) })
}

func (f *stoppingFS) Rename(from, to string) error {
	return f.step(func() error { return f.fastFS.Rename(from, to) })
}

func (f *stoppingFS) Remove(name string) error {
	return f.step(func() error { return f.fastFS.Remove(name) })
}

func (f *stoppingFS) MkdirAll(name string) error {
	return f.step(func() error { return f.fastFS.MkdirAll(name) })
}

func (f *stoppingFS) SyncDir(name string) error {
	return f.step(func() error { return f.fastFS.SyncDir(name) })
}

func (f *stoppingFS) OpenDir(name string) (vfs.Dir, error) {
	return vfs.NamedDir{FS: f, Name: name}, nil
}

type stoppingFile struct {
	vfs.File
	fs *stoppingFS
}

func (f *stoppingFile) WriteAt(p []byte, off int64) (n int, err error) {
	err = f.fs.step(func() (err error) {
		n, err = f.File.WriteAt(p, off)
		return err
	})
	return n, err
}

func (f *stoppingFile) Truncate(size int64) error {
	return f.fs.step(func() error { return f.File.Truncate(size) })
}

func (f *stoppingFile) Sync() error { return f.fs.step(func() error { return nil }) }

func (f *stoppingFile) SyncData() error { return f.Sync() }

// TestWriteIsStopped ends Write at each of its changes, for one server and for the members of an
// ensemble. No server starts with what is there, unless that is all of the data; and another attempt
// completes it, or says which directories to remove.
func TestWriteIsStopped(t *testing.T) {
	for _, members := range []int{1, 2} {
		t.Run(fmt.Sprint(members), func(t *testing.T) {
			t.Parallel()
			tree, completed := treetest.Imported(t), false
			for n := 1; !completed; n++ {
				f := &stoppingFS{n: n}
				var places, plain []Place
				top := t.TempDir()
				for i := range members {
					dir := filepath.Join(top, fmt.Sprint(i))
					p := Place{DataDir: dir, LogDir: filepath.Join(dir, "log")}
					if members > 1 {
						p.Server = zab.SID(i + 1)
					}
					plain = append(plain, p)
					p.fs = f
					places = append(places, p)
				}
				err := Write(t.Context(), &Contents{Tree: tree, Epoch: 4}, places...)
				if completed = err == nil; !completed && !errors.Is(err, errStopped) {
					t.Fatalf("change %d: %v", n, err)
				}
				what := fmt.Sprintf("stopped at change %d", n)
				if whole := checkStopped(t, what, plain); completed && whole != members {
					t.Fatalf("%s: %d are complete", what, whole)
				}
				if err := os.RemoveAll(top); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// checkStopped checks what Write has left, and returns at how many places that is complete.
func checkStopped(t *testing.T, what string, places []Place) (whole int) {
	t.Helper()
	want := treetest.Imported(t).Digest()
	marked := 0
	for _, p := range places {
		cfg := parseConfig(t, p.DataDir, "dataLogDir="+p.LogDir)
		err := Check(cfg)
		_, stat := vfs.OS{}.Stat(p.mark())
		switch {
		case stat == nil:
			marked++
			if err == nil || !strings.Contains(err.Error(), "run it again") {
				t.Errorf("%s: a server starts with a part of the data: %v", what, err)
			}
		case err != nil:
			t.Errorf("%s: %v", what, err)
		case p.CheckEmpty() != nil:
			whole++
			s, err := Read(t.Context(), p)
			if err != nil || s.Tree.Digest() != want || s.Epoch != 4 {
				t.Errorf("%s: %+v, %v", what, s, err)
			}
			id, err := vfs.ReadFile(vfs.OS{}, filepath.Join(p.DataDir, "myid"))
			if p.Server != 0 && (err != nil || string(id) != fmt.Sprintf("%d\n", p.Server)) {
				t.Errorf("%s: myid is %q, %v", what, id, err)
			}
		}
	}
	if whole == len(places) {
		return whole
	}
	for i := range places {
		places[i].fs = fastFS{}
	}
	err := Write(t.Context(), &Contents{Tree: treetest.Imported(t), Epoch: 4}, places...)
	switch {
	case whole > 0:
		if err == nil || !strings.Contains(err.Error(), "remove both directories") || marked == 0 {
			t.Errorf("%s: again: %v", what, err)
		}
	case err != nil:
		t.Errorf("%s: again: %v", what, err)
	}
	return whole
}
