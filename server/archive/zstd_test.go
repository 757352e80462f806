package archive

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/zkd-project/zkd/internal/fault"
	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/jute"
)

// compressBase compresses a base of a directory.
func compressBase(t *testing.T, dir Dir, b Base) Base {
	t.Helper()
	f, err := os.OpenFile(dir.Path(b.Name), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	to, err := Compress(t.Context(), dir, f)
	if err != nil {
		t.Fatal(err)
	}
	b.Zstd = true
	b.Name = b.FileName()
	if err := dir.Put(t.Context(), to, b.Name); err != nil {
		t.Fatal(err)
	}
	return b
}

// left returns the names of the files in a directory.
func left(t *testing.T, dir string) (names []string) {
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

// TestCompressedBase reads a compressed base as a plain one, also under any name. It cuts it after each
// byte and flips each byte. Nothing stays behind.
func TestCompressedBase(t *testing.T) {
	dir := Dir(t.TempDir())
	b := compressBase(t, dir, base(t, dir, ours, 7, noon))
	a := read(t, dir)
	a.Temp = t.TempDir()
	if len(a.Bases) != 1 || !a.Bases[0].Zstd || a.Bases[0].Name != b.Name || len(left(t, string(dir))) != 1 {
		t.Fatalf("bases %+v, files %v", a.Bases, left(t, string(dir)))
	}
	if id, err := a.HistoryOf(t.Context(), &b); err != nil || id != ours {
		t.Errorf("history %v, %v", id, err)
	}
	path := dir.Path(b.Name)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.VerifyBase(t.Context(), &b); err != nil {
		t.Error(err)
	}
	other := filepath.Join(t.TempDir(), "mine.db.zst")
	if err := os.WriteFile(other, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	if one, err := One(t.Context(), other); err != nil || one.Bases[0].Zxid != 7 || one.VerifyBase(t.Context(), &one.Bases[0]) != nil {
		t.Errorf("%+v, %v", one, err)
	}

	try := func(kind string, i int, damaged []byte) {
		t.Helper()
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := a.VerifyBase(t.Context(), &b); err == nil && kind != "flip" { // a few bits mean nothing
			t.Errorf("%s %d: no error", kind, i)
		}
		if _, err := a.load(t.Context(), &b, nil); fault.KindOf(err) == 0 && kind != "flip" {
			t.Errorf("%s %d: %v", kind, i, err)
		}
	}
	for i := range whole {
		flipped := slices.Clone(whole)
		flipped[i] ^= 1 << (i % 8)
		try("cut", i, whole[:i])
		try("flip", i, flipped)
	}
	try("longer", 0, append(slices.Clone(whole), 0))
	try("twice", 0, append(slices.Clone(whole), whole...))
	if names := left(t, a.Temp); len(names) > 0 {
		t.Errorf("left: %v", names)
	}
}

// frame returns a frame of zstd that says that it has size bytes, 0 for one that does not say it.
func frame(t testing.TB, size int64, content []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	enc := newEncoder(&b, size)
	_, err := enc.Write(content)
	if err := errors.Join(err, enc.Close()); err != nil && size == int64(len(content)) {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestBombs refuses files that would fill the disk or the memory.
func TestBombs(t *testing.T) {
	zeros := make([]byte, 1<<20)
	many := frame(t, int64(len(zeros)), zeros)
	for range 10 {
		many = append(many, many...) // 1 GiB, of which the first frame says 1 MiB
	}
	huge := frame(t, int64(len(zeros)), zeros)
	var h zstd.Header
	if err := h.Decode(huge); err != nil || !h.HasFCS || h.FrameContentSize != 1<<20 || h.WindowSize == 0 {
		t.Fatalf("%+v, %v", h, err)
	}
	claims := slices.Clone(huge) // frame header descriptor, window, and 4 bytes of size
	claims[4] |= 3 << 6          // 8 bytes of size
	claims = slices.Insert(claims, 10, 0, 0, 0, 1)
	wide := slices.Clone(huge)
	wide[5] = 20 << 3 // a window of 1 GiB
	for _, tt := range []struct {
		name, says string
		file       []byte
	}{
		{"a small file of 1 GiB", "does not have the 1048576 bytes", many},
		{"a file of 2^56 bytes", "are free", claims},
		{"a window of 1 GiB", "window size exceeded", wide},
		{"without a size", "zstd -d", frame(t, 0, zeros)},
		{"garbage", "zstd", []byte(strings.Repeat("garbage", 100))},
		{"nothing", "zstd", nil},
	} {
		dir := Dir(t.TempDir())
		b := Base{Name: "bomb.zst", Zstd: true}
		if err := os.WriteFile(dir.Path(b.Name), tt.file, 0o600); err != nil {
			t.Fatal(err)
		}
		a := &Archive{Storage: dir, Temp: t.TempDir()}
		err := a.VerifyBase(t.Context(), &b)
		if err == nil || !strings.Contains(err.Error(), tt.says) || !strings.Contains(err.Error(), b.Name) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.says)
		}
		if tt.says == "are free" { // that is no verdict on the file
			a.Bases = []Base{b}
			if sound, verr := a.Verify(t.Context(), io.Discard); !sound || !vfs.IsShortage(verr) || fault.KindOf(err) != 0 {
				t.Errorf("%s: sound %v, %v; %v", tt.name, sound, verr, err)
			}
		}
		if names := left(t, a.Temp); len(names) > 0 {
			t.Errorf("%s: left %v", tt.name, names)
		}
	}
}

// TestCompressIsCanceled leaves nothing behind.
func TestCompressIsCanceled(t *testing.T) {
	dir := Dir(t.TempDir())
	f, err := dir.Create()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Compress(ctx, dir, f); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if names := left(t, string(dir)); len(names) > 0 {
		t.Errorf("left: %v", names)
	}
}

// FuzzCompressed decompresses anything, as a base and as a segment. No more is written than the file
// says, and what is wrong is damage.
func FuzzCompressed(f *testing.F) {
	var enc Encoder
	b := enc.AppendHeader(nil, &Header{History: ours, After: 3, Last: 6})
	for _, e := range entries(3, 6) {
		b = enc.AppendEntry(b, e)
	}
	f.Add(frame(f, int64(len(b)), b))
	f.Add(frame(f, 0, b))
	f.Fuzz(func(t *testing.T, b []byte) {
		var h zstd.Header
		if h.Decode(b) == nil && h.HasFCS && h.FrameContentSize < 1<<24 {
			out, err := os.CreateTemp(t.TempDir(), "")
			if err != nil {
				t.Fatal(err)
			}
			defer out.Close() // it is only a test's
			err = expand(bytes.NewReader(b), out)
			n, _ := out.Seek(0, io.SeekEnd)
			if uint64(n) > h.FrameContentSize+1 || err == nil && uint64(n) != h.FrameContentSize || err != nil && !errors.Is(err, ErrDamaged) {
				t.Errorf("%d bytes of %d, %v", n, h.FrameContentSize, err)
			}
		}
		r := newDecoder(bytes.NewReader(b))
		defer r.Close()
		d, err := NewDecoder(r)
		last := jute.Zxid(0)
		for err == nil {
			e, nerr := d.Next()
			if err = nerr; e != nil {
				if e.Zxid <= last {
					t.Errorf("%v follows %v", e.Zxid, last)
				}
				last = e.Zxid
			}
		}
	})
}
