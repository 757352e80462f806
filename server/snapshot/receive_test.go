package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"syscall"
	"testing"

	"github.com/zkd-project/zkd/internal/fault"
	"github.com/zkd-project/zkd/internal/testing/crashfs"
	"github.com/zkd-project/zkd/jute"
)

// sent is a snapshot from another server.
type sent struct {
	ref  Ref
	file []byte
}

// sentSnapshot writes a snapshot of n items and reads it like a sender.
func sentSnapshot(t testing.TB, zxid jute.Zxid, n int) sent {
	t.Helper()
	s := open(t, Options{})
	ref := mustWrite(t, s, zxid, n)
	r, err := s.Open(ref)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	// A purge does not disturb it.
	if err := s.Remove(ref.Name); err != nil {
		t.Fatal(err)
	}
	file, err := io.ReadAll(r)
	if err != nil || int64(len(file)) != ref.Size || r.Size() != ref.Size {
		t.Fatalf("read %d bytes of %d, %v", len(file), ref.Size, err)
	}
	return sent{ref, file}
}

// receive receives a file in pieces.
func receive(s *Store, ref Ref, file []byte) (Ref, error) {
	r, err := s.Receive(ref)
	if err != nil {
		return Ref{}, err
	}
	for piece := range slices.Chunk(file, 10_000) {
		if n, err := r.Write(piece); err != nil {
			return Ref{}, err
		} else if n != len(piece) {
			return Ref{}, io.ErrShortWrite
		}
	}
	return r.Finish(context.Background())
}

func TestReceive(t *testing.T) {
	from := sentSnapshot(t, 7, 2000)
	s := open(t, Options{SyncStep: 30_000})
	own := mustWrite(t, s, 7, 10) // of the same zxid, with other content
	var got Ref
	for range 2 { // the second time the file exists already
		var err error
		if got, err = receive(s, from.ref, from.file); err != nil {
			t.Fatal(err)
		}
	}
	if c, meta := load(t, s, got); len(c["nodes"]) != 2000 || meta.Zxid != 7 {
		t.Errorf("%d nodes, meta %+v", len(c["nodes"]), meta)
	}
	if c, _ := load(t, s, own); len(c["nodes"]) != 10 {
		t.Errorf("own snapshot has %d nodes", len(c["nodes"]))
	}
	// It may be forwarded under its local name.
	again, err := receive(s, got, from.file)
	if err != nil || again.Name != got.Name {
		t.Errorf("received again as %+v, %v", again, err)
	}
	if err := os.WriteFile(s.Path(got.Name), make([]byte, got.Size), 0o600); err != nil {
		t.Fatal(err)
	}
	if again, err = receive(s, from.ref, from.file); err != nil { // instead of a damaged one
		t.Fatal(err)
	}
	load(t, s, again)
	if err := s.Remove(own.Name); err != nil {
		t.Error(err)
	}
	if infos, err := s.List(); err != nil || len(infos) != 1 || infos[0].Name != got.Name || infos[0].Zxid != 7 {
		t.Errorf("left: %+v, %v", infos, err)
	}
}

// TestReceiveWrong: only exactly the announced snapshot gets a name; nothing is left of any
// other.
func TestReceiveWrong(t *testing.T) {
	from := sentSnapshot(t, 7, 300)
	other := sentSnapshot(t, 8, 300)
	tests := []struct {
		name    string
		change  func(ref *Ref, file []byte) []byte
		invalid bool
	}{
		{"cut short", func(_ *Ref, b []byte) []byte { return b[:len(b)-1] }, true},
		{"nothing at all", func(_ *Ref, b []byte) []byte { return nil }, true},
		{"too long", func(_ *Ref, b []byte) []byte { return append(b, 0) }, true},
		{"a bit changed", func(_ *Ref, b []byte) []byte { b[len(b)/2]++; return b }, true},
		{"wrong CRC", func(r *Ref, b []byte) []byte { r.CRC++; return b }, true},
		{"wrong digest", func(r *Ref, b []byte) []byte { r.Digest = []byte{9}; return b }, true},
		{"another snapshot", func(r *Ref, b []byte) []byte {
			r.Size, r.CRC = other.ref.Size, other.ref.CRC
			return slices.Clone(other.file)
		}, true},
		{"garbage", func(r *Ref, b []byte) []byte {
			rng := rand.New(rand.NewPCG(1, 2))
			for i := range b {
				b[i] = byte(rng.Uint32())
			}
			r.CRC = crcOf(b)
			return b
		}, true},
		{"zeros", func(r *Ref, b []byte) []byte { clear(b); r.CRC = crcOf(b); return b }, true},
		{"less than a page", func(r *Ref, b []byte) []byte { r.Size, r.CRC = 3, crcOf(b[:3]); return b[:3] }, true},
		{"wrong zxid", func(r *Ref, b []byte) []byte { r.Zxid++; return b }, false},
		{"no size", func(r *Ref, b []byte) []byte { r.Size = 0; return nil }, false},
		{"a path", func(r *Ref, b []byte) []byte { r.Name = "../" + r.Name; return b }, false},
		{"no name", func(r *Ref, b []byte) []byte { r.Name = ""; return b }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := open(t, Options{})
			ref := from.ref
			file := tt.change(&ref, slices.Clone(from.file))
			_, err := receive(s, ref, file)
			if err == nil || (fault.KindOf(err) != 0) != tt.invalid {
				t.Errorf("%v, want invalid %v", err, tt.invalid)
			}
			checkEmpty(t, s)
		})
	}
}

func crcOf(b []byte) uint32 {
	_, crc, _ := measure(context.Background(), bytes.NewReader(b))
	return crc
}

func TestReceiveAbort(t *testing.T) {
	from := sentSnapshot(t, 7, 100)
	s := open(t, Options{})
	r, err := s.Receive(from.ref)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Write(from.file); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := r.Abort(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.Write(nil); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("write after the end: %v", err)
	}
	if _, err := r.Finish(t.Context()); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("finish after the end: %v", err)
	}
	checkEmpty(t, s)
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	cancel(cause)
	if r, err = s.Receive(from.ref); err != nil {
		t.Fatal(err)
	}
	_, err = r.Write(from.file)
	if _, ferr := r.Finish(ctx); err != nil || !errors.Is(ferr, cause) {
		t.Errorf("finish with an ended context: %v, %v", err, ferr)
	}
	checkEmpty(t, s)
}

func TestOpenOfWrongSize(t *testing.T) {
	s := open(t, Options{})
	ref := mustWrite(t, s, 7, 10)
	ref.Size++
	if _, err := s.Open(ref); fault.KindOf(err) != fault.Damaged {
		t.Errorf("open: %v", err)
	}
	ref.Name = FileName(8, 0)
	if _, err := s.Open(ref); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("open of a missing one: %v", err)
	}
}

// crashStore opens the store on a simulated disk.
func crashStore(t testing.TB, fsys *crashfs.FS, reserve int64) *Store {
	t.Helper()
	s, err := Open("/data", Options{FS: fsys, SyncStep: 30_000, Reserve: reserve})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestReceiveCrash examines what a power cut leaves before each operation of a reception,
// and of a second one that finds the first one's file: either no name, or the whole
// snapshot; and the name, once Finish has returned.
func TestReceiveCrash(t *testing.T) {
	from := sentSnapshot(t, 7, 500)
	fsys := crashfs.New(1)
	s := crashStore(t, fsys, 0)
	rng := rand.New(rand.NewPCG(1, 3))
	images, present := 0, 0
	finished := ""
	look := func() {
		for _, source := range []*rand.Rand{nil, rng, rng} {
			images++
			after := crashStore(t, fsys.Crash(source), 0)
			if tmp, err := after.opts.FS.ReadDir(after.tmp); err != nil || len(tmp) > 0 {
				t.Fatalf("image %d: left in tmp: %v, %v", images, tmp, err)
			}
			infos, err := after.List()
			if err != nil || len(infos) > 1 || finished != "" && len(infos) == 0 {
				t.Fatalf("image %d: %v, %v", images, infos, err)
			}
			for _, info := range infos {
				present++
				ref := from.ref
				ref.Name = info.Name
				if _, err := after.Verify(t.Context(), ref); err != nil {
					t.Fatalf("image %d: %v", images, err)
				}
			}
		}
	}
	fsys.SetHook(func(op crashfs.Op) error {
		if op.Kind.Mutates() {
			look()
		}
		return nil
	})
	for range 2 {
		got, err := receive(s, from.ref, from.file)
		if err != nil {
			t.Fatal(err)
		}
		finished = got.Name
	}
	look()
	t.Logf("%d images, %d with the snapshot", images, present)
	if present == 0 || present == images {
		t.Error("the crashes did not reach everywhere")
	}
}

// What was removed does not come back after a crash: the log may have forgotten it.
func TestRemoveIsDurable(t *testing.T) {
	from := sentSnapshot(t, 7, 500)
	fsys := crashfs.New(1)
	s := crashStore(t, fsys, 0)
	got, err := receive(s, from.ref, from.file)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Remove(got.Name); err != nil {
		t.Fatal(err)
	}
	if infos, err := crashStore(t, fsys.Crash(nil), 0).List(); len(infos) > 0 || err != nil {
		t.Errorf("after a crash there is %v, %v", infos, err)
	}
}

// TestReceiveFaults fails each operation in turn. Nothing is left except what the failed
// operation itself may leave, and a second try works.
func TestReceiveFaults(t *testing.T) {
	from := sentSnapshot(t, 7, 500)
	for n := 0; ; n++ {
		fsys := crashfs.New(uint64(n))
		s := crashStore(t, fsys, 0)
		count, failed := 0, crashfs.Op{}
		fsys.SetHook(func(op crashfs.Op) error {
			if count++; count-1 == n {
				failed = op
				return crashfs.ErrInjected
			}
			return nil
		})
		_, err := receive(s, from.ref, from.file)
		fsys.SetHook(nil)
		if failed.Kind == "" {
			if err != nil {
				t.Fatal(err)
			}
			return
		}
		written := []crashfs.OpKind{crashfs.OpCreate, crashfs.OpWrite, crashfs.OpSync, crashfs.OpClose, crashfs.OpRename, crashfs.OpSyncDir}
		if err == nil && slices.Contains(written, failed.Kind) || err != nil && !errors.Is(err, crashfs.ErrInjected) {
			t.Fatalf("operation %d, %v: %v", n, failed, err)
		}
		if files := fsys.Files(); err != nil && len(files) > 0 && failed.Kind != crashfs.OpRemove {
			t.Fatalf("operation %d, %v: left %v", n, failed, files)
		}
		got, err := receive(s, from.ref, from.file)
		if err != nil {
			t.Fatalf("operation %d, %v: second try: %v", n, failed, err)
		}
		if _, err := s.Verify(t.Context(), got); err != nil {
			t.Fatalf("operation %d, %v: second try: %v", n, failed, err)
		}
	}
}

func TestReceiveDiskFull(t *testing.T) {
	from := sentSnapshot(t, 7, 500)
	fsys := crashfs.New(1)
	s := crashStore(t, fsys, 0)
	fsys.SetCapacity(from.ref.Size / 2)
	if _, err := receive(s, from.ref, from.file); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("disk full: %v", err)
	}
	fsys.SetCapacity(from.ref.Size + 50_000)
	if _, err := crashStore(t, fsys, 60_000).Receive(from.ref); !errors.Is(err, ErrNoSpace) {
		t.Errorf("into the reserve: %v", err)
	}
	if files := fsys.Files(); len(files) > 0 {
		t.Errorf("left %v", files)
	}
	if _, err := receive(s, from.ref, from.file); err != nil {
		t.Errorf("with enough room: %v", err)
	}
}

func FuzzParseName(f *testing.F) {
	f.Add(FileName(7, 3))
	f.Add(receivedName(1<<40, 3, 0xabc))
	f.Add("../x-1.db")
	f.Fuzz(func(t *testing.T, name string) {
		zxid, epoch, ok := parseName(name)
		if !ok {
			return
		}
		var crc uint32
		n, _ := fmt.Sscanf(name[16:], fmt.Sprintf("-%d-%%x.db", epoch), &crc)
		if name != FileName(zxid, epoch) && (n != 1 || name != receivedName(zxid, epoch, crc)) {
			t.Fatalf("%q parses as %v of %d", name, zxid, epoch)
		}
	})
}
