package audit_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/internal/testing/crashfs"
	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/audit"
)

func entry(i int) *audit.Entry {
	return &audit.Entry{Operation: audit.SetData, Znode: fmt.Sprintf("/n%04d", i)}
}

// sink is a Sink in memory.
type sink struct {
	gate   chan struct{} // if not nil, writes wait until it is closed
	lines  []byte
	err    error
	room   int // bytes it takes before err
	closed bool
}

func (s *sink) Write(lines []byte, results []audit.Result) (int, error) {
	if n := bytes.Count(lines, []byte{'\n'}); n != len(results) {
		return 0, fmt.Errorf("%d lines with %d results", n, len(results))
	}
	if s.gate != nil {
		<-s.gate
	}
	if s.err != nil {
		n := min(s.room, len(lines))
		s.lines = append(s.lines, lines[:n]...)
		return n, s.err
	}
	s.lines = append(s.lines, lines...)
	return len(lines), nil
}

func (s *sink) Close() error { s.closed = true; return nil }

// TestPutLater checks that entries stay in the queue until Wake or Wait.
func TestPutLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &sink{}
		l := audit.Open(audit.Options{Sink: out})
		l.Wake() // without an entry
		for i, write := range []func(number uint64){
			func(uint64) { l.Wake() },
			func(number uint64) { l.Wait(number, nil) },
			func(uint64) { l.Put(entry(9)) },
			func(uint64) { l.Close() },
		} {
			before := len(out.lines)
			number := l.PutLater(entry(i))
			l.PutLater(entry(i))
			synctest.Wait()
			if len(out.lines) != before {
				t.Errorf("%d: written: %q", i, out.lines[before:])
			}
			write(number + 1)
			synctest.Wait()
			if got := strings.Count(string(out.lines[before:]), fmt.Sprintf("znode=/n%04d", i)); got != 2 {
				t.Errorf("%d: %d entries are written, want 2: %q", i, got, out.lines[before:])
			}
		}
		l.Wake()
		if l.PutLater(entry(1)) != 0 {
			t.Error("an entry after Close has a number")
		}
	})
}

// TestTimes checks that each line has the time of its entry.
func TestTimes(t *testing.T) {
	times := []string{"05.678", "05.678", "05.679", "06.679", "05.679"}
	want := ""
	for _, s := range times {
		want += "2026-01-02T03:04:" + s + "Z"
	}
	for _, json := range []bool{false, true} {
		out, i := &sink{}, -1
		l := audit.Open(audit.Options{Sink: out, JSON: json, Now: func() time.Time {
			i++
			at, err := time.Parse(time.RFC3339Nano, "2026-01-02T03:04:"+times[i]+"123Z")
			if err != nil {
				t.Error(err)
			}
			return at
		}})
		for range times {
			l.Put(entry(1))
		}
		l.Close()
		got := strings.Join(regexp.MustCompile(`2026[^\t"]*Z`).FindAllString(string(out.lines), -1), "")
		if got != want {
			t.Errorf("times %s, want %s", got, want)
		}
	}
}

// TestWait checks that Wait returns when the entry is written, and not before.
func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &sink{gate: make(chan struct{})}
		l := audit.Open(audit.Options{Sink: out})
		number := l.Put(entry(1))
		returned := make(chan error, 1)
		go func() { returned <- l.Wait(number, nil) }()
		synctest.Wait()
		if len(returned) > 0 {
			t.Error("Wait returns before the entry is written")
		}
		stop := make(chan struct{})
		close(stop)
		if err := l.Wait(number, stop); err != nil {
			t.Errorf("Wait that was stopped: %v", err)
		}
		close(out.gate)
		if err := <-returned; err != nil || !bytes.Contains(out.lines, []byte("/n0001")) {
			t.Errorf("Wait: %v, written: %q", err, out.lines)
		}
		l.Put(entry(2))
		if err := l.Close(); err != nil || !out.closed || bytes.Count(out.lines, []byte("\n")) != 2 {
			t.Errorf("Close: %v, written: %q", err, out.lines)
		}
		if n := l.Put(entry(3)); n != 0 || l.Wait(n, nil) != nil || l.Close() != nil {
			t.Error("a closed log takes entries")
		}
	})
}

// TestManyWriters checks that each entry is written once, and those of one goroutine in
// their order.
func TestManyWriters(t *testing.T) {
	const writers, each = 8, 500
	out := &sink{}
	l := audit.Open(audit.Options{Sink: out})
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				number := l.Put(&audit.Entry{Operation: audit.Create, Znode: fmt.Sprintf("/%d/%04d", w, i)})
				if i%100 == 0 {
					if err := l.Wait(number, nil); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	next := [writers]int{}
	for line := range strings.Lines(string(out.lines)) {
		var w, i int
		_, path, _ := strings.Cut(line, "znode=/")
		if _, err := fmt.Sscanf(path, "%d/%d", &w, &i); err != nil || i != next[w] {
			t.Fatalf("line %q, want entry %d", line, next[w])
		}
		next[w]++
	}
	if st := l.Stats(); next != [writers]int{each, each, each, each, each, each, each, each} || st.Entries != writers*each || st.Written != st.Entries || st.Queued != 0 {
		t.Errorf("written %v, stats %+v", next, st)
	}
}

// TestWaitRoom checks that a long queue holds up those who ask for room.
func TestWaitRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &sink{gate: make(chan struct{})}
		l := audit.Open(audit.Options{Sink: out})
		l.WaitRoom(nil)
		long := &audit.Entry{Operation: audit.Create, Znode: "/" + strings.Repeat("x", 1<<20)}
		for range 17 {
			l.Put(long)
		}
		stop, passed := make(chan struct{}), make(chan string, 2)
		go func() { l.WaitRoom(nil); passed <- "room" }()
		go func() { l.WaitRoom(stop); passed <- "stop" }()
		synctest.Wait()
		if len(passed) > 0 {
			t.Errorf("%s: WaitRoom returns although there is none", <-passed)
		}
		close(stop)
		if got := <-passed; got != "stop" {
			t.Errorf("%s returns first", got)
		}
		close(out.gate)
		<-passed
		if st := l.Stats(); st.Stalls != 2 {
			t.Errorf("stats %+v", st)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestFailure checks that a failure is reported once, that nothing is lost without a
// word, and that nobody is told that an entry is written.
func TestFailure(t *testing.T) {
	for _, room := range []int{0, 10, 1 << 20} {
		full := errors.New("disk full")
		out := &sink{err: full, room: room}
		var failed []error
		var lost []string
		l := audit.Open(audit.Options{Sink: out, Bare: true,
			Failed: func(err error) { failed = append(failed, err) },
			Lost:   func(line []byte) { lost = append(lost, string(line)) }})
		if err := l.Wait(l.Put(entry(1)), nil); !errors.Is(err, audit.ErrFailed) {
			t.Errorf("Wait: %v", err)
		}
		if err := l.Wait(l.Put(entry(2)), nil); !errors.Is(err, audit.ErrFailed) {
			t.Errorf("Wait afterwards: %v", err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		want := []string{"operation=setData\tznode=/n0001\tresult=success", "operation=setData\tznode=/n0002\tresult=success"}
		if room > 1000 {
			want = want[1:] // the first one was taken
		}
		if len(failed) != 1 || failed[0] != full || !slices.Equal(lost, want) {
			t.Errorf("room for %d bytes: failed %v, lost %q, want %q", room, failed, lost, want)
		}
	}
}

func open(t *testing.T, o audit.FileOptions) *audit.File {
	t.Helper()
	f, err := audit.OpenFile(o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func write(t *testing.T, f *audit.File, text string) {
	t.Helper()
	if n, err := f.Write([]byte(text), nil); err != nil || n != len(text) {
		t.Fatalf("Write: %d, %v", n, err)
	}
}

// content is what all files of a directory have.
func content(t *testing.T, fsys vfs.FS, dir string) string {
	t.Helper()
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, e := range entries {
		text, err := vfs.ReadFile(fsys, filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s: %q\n", e.Name(), text)
	}
	return b.String()
}

// TestFile writes, rotates by size and by time, and removes old files.
func TestFile(t *testing.T) {
	fsys := crashfs.New(1)
	now := time.Date(2026, 1, 2, 23, 59, 59, 0, time.UTC)
	o := audit.FileOptions{FS: fsys, Path: "/var/log/audit.log", MaxBytes: 10, Every: 24 * time.Hour, Keep: 2, Now: func() time.Time { return now }}
	f := open(t, o)
	for _, step := range []struct {
		name, text string
		pass       time.Duration
		want       string
	}{
		{"first", "one\n", 0, "audit.log: \"one\\n\"\n"},
		{"fits", "two\n", 0, "audit.log: \"one\\ntwo\\n\"\n"},
		{"too long", "three\n", 0, `audit.log: "three\n"
audit.log.20260102T235959.000Z: "one\ntwo\n"
`},
		{"at the same time, longer than a file", "long and longer\n", 0, `audit.log: "long and longer\n"
audit.log.20260102T235959.000Z: "one\ntwo\n"
audit.log.20260102T235959.001Z: "three\n"
`},
		{"next day", "x\n", time.Second, `audit.log: "x\n"
audit.log.20260102T235959.001Z: "three\n"
audit.log.20260103T000000.000Z: "long and longer\n"
`},
	} {
		now = now.Add(step.pass)
		write(t, f, step.text)
		if got := content(t, fsys, "/var/log"); got != step.want {
			t.Errorf("%s: got\n%s\nwant\n%s", step.name, got, step.want)
		}
	}
	if _, err := audit.OpenFile(o); !errors.Is(err, vfs.ErrLocked) {
		t.Errorf("another server with the same file: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestFileAfterCrash checks that an incomplete line, which a crash has left, does not spoil the next one.
func TestFileAfterCrash(t *testing.T) {
	fsys := crashfs.New(1)
	o := audit.FileOptions{FS: fsys, Path: "/log/audit.log", MaxBytes: 1 << 20}
	f := open(t, o)
	write(t, f, "one\nhal")
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	f = open(t, o)
	write(t, f, "two\n")
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if got := content(t, fsys, "/log"); !strings.Contains(got, `"one\nhal\ntwo\n"`) {
		t.Errorf("got %s", got)
	}
}

// TestFullDisk fills the disk beneath a log with a file.
func TestFullDisk(t *testing.T) {
	fsys := crashfs.New(1)
	f := open(t, audit.FileOptions{FS: fsys, Path: "/log/audit.log", MaxBytes: 1 << 30})
	var failed error
	var lost []string
	l := audit.Open(audit.Options{Sink: f, Failed: func(err error) { failed = err }, Lost: func(line []byte) { lost = append(lost, string(line)) }})
	if err := l.Wait(l.Put(entry(0)), nil); err != nil {
		t.Fatal(err)
	}
	fsys.SetCapacity(4 << 10)
	written := 1
	for ; written < 10_000; written++ {
		if err := l.Wait(l.Put(entry(written)), nil); err != nil {
			break
		}
	}
	if err := errors.Join(l.Close()); err != nil {
		t.Log("Close:", err)
	}
	if !errors.Is(failed, syscall.ENOSPC) {
		t.Fatalf("failed with %v", failed)
	}
	text := content(t, fsys, "/log")
	for i := range written + 1 {
		znode := fmt.Sprintf("/n%04d", i)
		if inFile, isLost := strings.Contains(text, znode+`\tresult=success\n`), strings.Contains(strings.Join(lost, ""), znode); inFile == isLost {
			t.Errorf("entry %d of %d: in the file %t, reported as lost %t", i, written, inFile, isLost)
		}
	}
}

// TestFileFaults makes each operation of a rotation fail: Write reports it, or warns if
// only an old file could not be removed.
func TestFileFaults(t *testing.T) {
	for _, kind := range []crashfs.OpKind{crashfs.OpSync, crashfs.OpClose, crashfs.OpRename, crashfs.OpCreate, crashfs.OpWrite, crashfs.OpSyncDir,
		crashfs.OpRemove, crashfs.OpReadDir} {
		fsys := crashfs.New(1)
		warned := 0
		f := open(t, audit.FileOptions{FS: fsys, Path: "/log/audit.log", MaxBytes: 4, Keep: 1, Warn: func(error) { warned++ }})
		write(t, f, "one\n")
		write(t, f, "two\n")
		failed := 0
		fsys.SetHook(func(op crashfs.Op) error {
			if op.Kind == kind {
				failed++
				return syscall.EIO
			}
			return nil
		})
		_, err := f.Write([]byte("six\n"), nil)
		harmless := kind == crashfs.OpRemove || kind == crashfs.OpReadDir
		if harmless != (err == nil) || harmless != (warned == 1) || failed == 0 {
			t.Errorf("%s: error %v, %d warnings, %d faults", kind, err, warned, failed)
		}
		fsys.SetHook(nil)
		f.Close()
	}
}

// TestModes checks who may read the files of the operating system.
func TestModes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	now := time.Now()
	o := audit.FileOptions{FS: vfs.OS{}, Path: filepath.Join(dir, "audit.log"), MaxBytes: 4, Every: time.Hour, Now: func() time.Time { return now }}
	f := open(t, o)
	write(t, f, "one\n")
	write(t, f, "two\n")
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	now = now.Add(2 * time.Hour)
	f = open(t, o)
	write(t, f, "x\n") // the period of the last line is known after a restart
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(content(t, vfs.OS{}, dir), "\n"); got != 4 {
		t.Errorf("%d files, want 3 and a lock:\n%s", got, content(t, vfs.OS{}, dir))
	}
	err := filepath.WalkDir(filepath.Dir(dir), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Stat(path)
		if want := map[bool]fs.FileMode{true: 0o700, false: 0o600}[d.IsDir()]; err == nil && info.Mode().Perm() != want {
			t.Errorf("%s has mode %o, want %o", path, info.Mode().Perm(), want)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func BenchmarkPut(b *testing.B) {
	for _, json := range []bool{false, true} {
		b.Run(fmt.Sprintf("json=%t", json), func(b *testing.B) {
			l := audit.Open(audit.Options{Sink: discard{}, JSON: json, Tail: audit.NewTail()})
			defer l.Close()
			e := audit.Entry{Session: 0x1934, IDs: []jute.ID{home, bob}, IP: "127.0.0.1", Operation: audit.SetData, Znode: "/app/config/one"}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if l.PutLater(&e); i%64 == 0 {
					l.Wake()
				}
			}
		})
	}
}

type discard struct{}

func (discard) Write(lines []byte, _ []audit.Result) (int, error) { return len(lines), nil }
func (discard) Close() error                                      { return nil }

// TestShortage has no room for a part of the lines, none for a new file, and no descriptor for one: the log waits, says so
// once, and each line is there once, in order and whole, when there is room again. Closed before that, it gives the lines
// back.
func TestShortage(t *testing.T) {
	shortages := map[string]func(*crashfs.FS, *bool){
		"room": func(fsys *crashfs.FS, lacks *bool) {
			fsys.SetHook(func(op crashfs.Op) error {
				if *lacks && op.Kind == crashfs.OpWrite {
					return syscall.ENOSPC
				}
				return nil
			})
		},
		"room for more than a line and a half": func(fsys *crashfs.FS, _ *bool) { fsys.SetCapacity(4 << 10) },
		"inodes": func(fsys *crashfs.FS, lacks *bool) {
			fsys.SetHook(func(op crashfs.Op) error {
				if *lacks && op.Kind == crashfs.OpCreate {
					return syscall.ENOSPC
				}
				return nil
			})
		},
		"descriptors": func(fsys *crashfs.FS, lacks *bool) {
			fsys.SetHook(func(op crashfs.Op) error {
				if *lacks && (op.Kind == crashfs.OpCreate || op.Kind == crashfs.OpOpen) {
					return syscall.EMFILE
				}
				return nil
			})
		},
	}
	for name, begin := range shortages {
		for _, ends := range []bool{true, false} {
			t.Run(fmt.Sprint(name, " ", ends), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					fsys, lacks := crashfs.New(1), true
					f := open(t, audit.FileOptions{FS: fsys, Path: "/log/audit.log", MaxBytes: 6000})
					var told []error
					var lost strings.Builder
					l := audit.Open(audit.Options{Sink: f, Bare: true,
						Shortage: func(err error) bool { told = append(told, err); return true },
						Lost:     func(line []byte) { lost.Write(line) }})
					begin(fsys, &lacks)
					const lines = 300
					var last uint64
					for i := range lines {
						last = l.Put(entry(i))
						if i%7 == 0 {
							synctest.Wait()
						}
					}
					time.Sleep(time.Minute)
					synctest.Wait()
					if len(told) == 0 || told[len(told)-1] == nil {
						t.Fatalf("it does not wait: %v", told)
					}
					if ends {
						lacks = false
						fsys.SetCapacity(0)
						if err := l.Wait(last, nil); err != nil || told[len(told)-1] != nil {
							t.Errorf("afterwards: %v, told %v", err, told[len(told)-1])
						}
					}
					if err := l.Close(); err != nil {
						t.Log("Close:", err)
					}
					fsys.SetHook(nil)
					entries, _ := fsys.ReadDir("/log")
					var text strings.Builder
					for _, e := range append(entries[min(1, len(entries)):], entries[0]) { // older ones have longer names
						b, _ := vfs.ReadFile(fsys, "/log/"+e.Name())
						text.Write(b)
					}
					for i := range lines {
						line := fmt.Sprintf("operation=setData\tznode=/n%04d\tresult=success", i)
						inFile, isLost := strings.Count(text.String(), line+"\n"), strings.Count(lost.String(), line)
						if ends && (inFile != 1 || isLost > 0) || inFile+isLost < 1 || isLost > 1 { // a failed write may have written
							t.Errorf("line %d: %d times in the file, %d times given back", i, inFile, isLost)
						}
					}
					if ends && strings.Count(text.String(), "\n") != lines {
						t.Errorf("%d lines, want %d", strings.Count(text.String(), "\n"), lines)
					}
				})
			})
		}
	}
}
