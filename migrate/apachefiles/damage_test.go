package apachefiles

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/klauspost/compress/snappy"

	"github.com/zkd-project/zkd/jute"
)

// sample is a snapshot with a log, and the state at each zxid from the snapshot's on.
type sample struct {
	label     jute.Zxid
	snapshot  []byte
	log       []byte
	states    []string
	stateKeys map[string]bool
}

func newSample() *sample {
	w := newWorld(rand.New(rand.NewPCG(7, 7)))
	for range 25 {
		w.step()
	}
	s := &sample{label: w.tree.Last, stateKeys: make(map[string]bool)}
	s.snapshot = w.snapshot(0)
	for range 12 {
		s.note(w.tree)
		w.step()
	}
	s.note(w.tree)
	s.log = w.log
	return s
}

func (s *sample) note(t *Tree) {
	s.states = append(s.states, t.String())
	s.stateKeys[t.String()] = true
}

func (s *sample) name() string { return fmt.Sprintf("snapshot.%x", int64(s.label)) }

// flipped returns b with another byte at i.
func flipped(b []byte, i int) []byte {
	c := bytes.Clone(b)
	c[i] ^= byte(1 + i*37%255)
	return c
}

// TestFlippedSnapshot changes each byte of a snapshot: no such file is ever used.
func TestFlippedSnapshot(t *testing.T) {
	s := newSample()
	d := newDir(t)
	d.write("log.1", s.log)
	for i := range s.snapshot {
		d.write(s.name(), flipped(s.snapshot, i))
		if _, _, err := d.load(Options{}); err == nil {
			t.Fatalf("byte %d of %d is changed, and no error", i, len(s.snapshot))
		}
	}
}

// TestCutSnapshot cuts a snapshot at each byte. Without its trailer it is one of version 3.5.
func TestCutSnapshot(t *testing.T) {
	s := newSample()
	d := newDir(t)
	d.write("log.1", s.log)
	for i := range s.snapshot {
		d.write(s.name(), s.snapshot[:i])
		tree, _, err := d.load(Options{})
		if older := i == len(s.snapshot)-(8+4+8+sealSize); older != (err == nil) || older && tree.String() != s.states[len(s.states)-1] {
			t.Fatalf("%d bytes of %d: %v", i, len(s.snapshot), err)
		}
	}
}

// TestFlippedLog changes each byte of a log: the result is a state that the server had, or an
// error. Only the last record may get lost, as after a crash.
func TestFlippedLog(t *testing.T) {
	s := newSample()
	d := newDir(t)
	d.write(s.name(), s.snapshot)
	accepted := 0
	for i := range s.log {
		d.write("log.1", flipped(s.log, i))
		tree, _, err := d.load(Options{})
		if err != nil {
			continue
		}
		accepted++
		if text := tree.String(); text != s.states[len(s.states)-1] && text != s.states[len(s.states)-2] {
			t.Fatalf("byte %d of %d: %s", i, len(s.log), firstDifference(text, s.states[len(s.states)-1]))
		}
	}
	if accepted == 0 || accepted > 300 {
		t.Errorf("%d of %d files were accepted", accepted, len(s.log))
	}
}

// TestCutLog cuts a log at each byte, and puts zeros there, in short runs at each third one alone. The
// result is the state after the records that are left.
func TestCutLog(t *testing.T) {
	s := newSample()
	d := newDir(t)
	d.write(s.name(), s.snapshot)
	last := -1
	for i := range len(s.log) + 1 {
		for _, zeros := range []int{0, 100} {
			if testing.Short() && zeros > 0 && i%3 != 0 && i != len(s.log) {
				continue
			}
			d.write("log.1", append(bytes.Clone(s.log[:i]), make([]byte, zeros)...))
			tree, _, err := d.load(Options{})
			if err != nil && i >= fileHeader {
				t.Fatalf("%d bytes of %d and %d zeros: %v", i, len(s.log), zeros, err)
			} else if err != nil {
				continue
			}
			at := int(tree.Last - s.label)
			if at < last || at > len(s.states)-1 || tree.String() != s.states[at] {
				t.Fatalf("%d bytes of %d and %d zeros give the state of zxid %v", i, len(s.log), zeros, tree.Last)
			}
			last = at
		}
	}
	if last != len(s.states)-1 {
		t.Errorf("the whole log gives state %d, not %d", last, len(s.states)-1)
	}
}

// compressors make a compressed file of a snapshot, as Apache's server does.
var compressors = map[string]func([]byte) []byte{
	".gz": func(b []byte) []byte {
		var out bytes.Buffer
		z := gzip.NewWriter(&out)
		z.Write(b) // a buffer takes everything
		z.Close()  // likewise
		return out.Bytes()
	},
	".snappy": func(b []byte) []byte {
		out := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32([]byte(snappyMagic), 1), 1)
		for part := range chunks(b, 100) {
			block := snappy.Encode(nil, part)
			out = append(binary.BigEndian.AppendUint32(out, uint32(len(block))), block...)
		}
		return out
	},
}

func chunks(b []byte, n int) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(b) > 0 && yield(b[:min(n, len(b))]) {
			b = b[min(n, len(b)):]
		}
	}
}

// TestCompressedSnapshots reads compressed snapshots, changes each byte, and cuts them at each
// byte: the result is the same state or an error.
func TestCompressedSnapshots(t *testing.T) {
	s := newSample()
	for end, compress := range compressors {
		t.Run(end, func(t *testing.T) {
			d := newDir(t)
			d.write("log.1", s.log)
			try := func(b []byte) error {
				d.write(s.name()+end, b)
				tree, _, err := d.load(Options{})
				if err == nil && tree.String() != s.states[len(s.states)-1] {
					t.Fatal("another state")
				}
				return err
			}
			whole := compress(s.snapshot)
			d.check(try(whole))
			if end == ".snappy" {
				d.check(try(append(compress(s.snapshot[:150]), compress(s.snapshot[150:])...)))
			}
			for i := range whole {
				try(flipped(whole, i)) // unused bits of a header may change
				if err := try(whole[:i]); err == nil && end == ".gz" {
					t.Errorf("%d bytes of %d, and no error", i, len(whole))
				}
			}
		})
	}
}

// TestOlderSnapshot falls back to an older snapshot if the newest one is damaged.
func TestOlderSnapshot(t *testing.T) {
	s := newSample()
	d := newDir(t)
	d.write(s.name(), s.snapshot)
	d.write("snapshot.fff", s.snapshot[:len(s.snapshot)/2])
	d.write("log.1", s.log)
	tree, sum := d.mustLoad(Options{})
	if tree.String() != s.states[len(s.states)-1] || len(sum.Warnings) != 1 || !strings.Contains(sum.Warnings[0], "snapshot.fff: at byte") {
		t.Errorf("zxid %v, warnings %q", tree.Last, sum.Warnings)
	}
}

// TestFilesThatDoNotFit checks what files are refused, and how that is said.
func TestFilesThatDoNotFit(t *testing.T) {
	s := newSample()
	records := splitLog(t, s.log)
	log := func(from, to int) []byte { return append(logHeader(), bytes.Join(records[from:to], nil)...) }
	end := len(records)
	foreign := appendRecord(nil, header(9, s.label+1, txnSetData).str("/zookeeper").bytes(nil).int(9))
	unknown := appendRecord(nil, header(9, s.label+jute.Zxid(len(s.states)), 99))
	for _, tt := range []struct {
		name  string
		files map[string][]byte
		want  string
		o     Options
	}{
		{"nothing", nil, "neither snapshots nor logs", Options{}},
		{"no snapshot", map[string][]byte{"log.1": s.log}, "--trust-empty", Options{}},
		{"no snapshot, accepted", map[string][]byte{"log.1": s.log}, "", Options{TrustEmpty: true}},
		{"a gap", map[string][]byte{s.name(): s.snapshot, "log.1": log(0, end-5), "log.ff": log(end-3, end)}, "a part of the log is missing between", Options{}},
		{"another history", map[string][]byte{s.name(): s.snapshot, "log.1": s.log, "log.ff": append(logHeader(), foreign...)}, "twice, with different transactions", Options{}},
		{"an unknown type", map[string][]byte{s.name(): s.snapshot, "log.1": append(bytes.Clone(s.log), unknown...)}, "unknown type 99", Options{}},
		{"no log", map[string][]byte{"log.1": []byte("hello, I am not a log at all")}, "no log of version 2", Options{TrustEmpty: true}},
		{"a later version", map[string][]byte{"snapshot.0": flipped(s.snapshot, 7)}, "no snapshot of version 2", Options{}},
		{"zeros in the middle", map[string][]byte{s.name(): s.snapshot, "log.1": append(append(log(0, end-3), make([]byte, 64)...), bytes.Join(records[end-2:], nil)...)}, "a sound transaction follows", Options{}},
		{"zeros in the middle, until before", map[string][]byte{s.name(): s.snapshot, "log.1": append(append(log(0, end-3), make([]byte, 64)...), bytes.Join(records[end-2:], nil)...)}, "", Options{Until: s.label + 2}},
		{"a log that begins after the snapshot", map[string][]byte{"snapshot.0": s.snapshot, "log.5": log(4, end)}, "a part of the log is missing", Options{}},
		{"the epoch of another server", map[string][]byte{s.name(): s.snapshot, "log.1": s.log, "currentEpoch": []byte("x")}, "is not a number", Options{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newDir(t)
			for name, b := range tt.files {
				d.write(name, b)
			}
			_, _, err := d.load(tt.o)
			if (err == nil) != (tt.want == "") || !strings.Contains(fmt.Sprint(err), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

// splitLog returns the records of a log, without repetitions.
func splitLog(t *testing.T, b []byte) (records [][]byte) {
	l, err := newLogReader(bytes.NewReader(b), int64(len(b)))
	last := jute.Zxid(0)
	for err == nil {
		var r record
		if r, err = l.next(); err == nil && r.zxid() > last {
			records = append(records, appendRecord(nil, r.payload))
			last = r.zxid()
		}
	}
	return records
}

// TestBombs reads lengths and compressed data that promise more than there is.
func TestBombs(t *testing.T) {
	huge := append(append([]byte{}, newSample().snapshot[:16]...), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x3f, 0xff, 0xff, 0xff)
	allocs := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := readSnapshot(bytes.NewReader(huge), "snapshot.0", 0); err == nil {
				t.Fatal("no error")
			}
		}
	}).AllocedBytesPerOp()
	if allocs > 4*streamBuffer {
		t.Errorf("%d bytes were allocated for a file of %d", allocs, len(huge))
	}
	for name, b := range map[string][]byte{
		"a chunk of 2 GiB": append(compressors[".snappy"](nil), 0x7f, 0xff, 0xff, 0xff),
		"a block of 2 GiB": append(compressors[".snappy"](nil), 0, 0, 0, 6, 0xff, 0xff, 0xff, 0xff, 7, 0),
		"no header":        {0, 0, 0, 1, 0},
	} {
		if _, err := readSnapshot(bytes.NewReader(b), "snapshot.0.snappy", 0); err == nil || !strings.Contains(err.Error(), "snappy") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestWrite writes the state that was read: it is the same again.
func TestWrite(t *testing.T) {
	s := newSample()
	d := newDir(t)
	d.write(s.name(), s.snapshot)
	d.write("log.1", s.log)
	tree, _ := d.mustLoad(Options{})
	var b bytes.Buffer
	d.check(WriteSnapshot(&b, &State{Zxid: tree.Last, Sessions: tree.Sessions, Nodes: tree.all}))
	again := newDir(t)
	again.write(fmt.Sprintf("snapshot.%x", int64(tree.Last)), b.Bytes())
	got, sum := again.mustLoad(Options{})
	if got.String() != tree.String() || sum.Digests != 1 {
		t.Errorf("%d digests; %s", sum.Digests, firstDifference(got.String(), tree.String()))
	}
}

// all yields all nodes.
func (t *Tree) all(yield func(string, *Node) bool) {
	// that yield ends it is no error
	t.Walk(func(path string, n *Node) error {
		if !yield(path, n) {
			return errUntil
		}
		return nil
	})
}

func FuzzSnapshot(f *testing.F) {
	s := newSample()
	f.Add(s.snapshot)
	fresh, _ := vector(f, "fresh.snapshot.hex")
	f.Add(fresh)
	f.Fuzz(func(t *testing.T, b []byte) {
		// Its checksums are made right, so that what they cover is read.
		for _, end := range []int{len(b) - sealSize, len(b) - 2*sealSize - 20} {
			if end >= 0 {
				copy(b[end:], appendSeal(nil, checksum(b[:end])))
			}
		}
		for _, name := range []string{"snapshot.5", "snapshot.5.snappy"} {
			snap, err := readSnapshot(bytes.NewReader(b), name, 5)
			if err != nil {
				continue
			}
			var out bytes.Buffer
			if err := WriteSnapshot(&out, &State{Zxid: 5, Sessions: snap.tree.Sessions, Nodes: snap.tree.all}); err != nil {
				t.Fatal(err)
			}
			again, err := readSnapshot(&out, "snapshot.5", 5)
			var sum Summary
			if resolved := snap.tree.check(&sum) == nil; resolved && (err != nil || again.tree.String() != snap.tree.String()) {
				t.Fatalf("%v: %s", err, firstDifference(again.tree.String(), snap.tree.String()))
			}
		}
	})
}

func FuzzLog(f *testing.F) {
	s := newSample()
	f.Add(s.log)
	vectors, lines := vector(f, "records.hex")
	f.Add(vectors)
	for _, line := range lines {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		tree := freshTree()
		apply := func(payload []byte) {
			if x, err := DecodeTxn(payload); err == nil {
				tree.apply(x)
			}
		}
		if len(b) > recordHeader { // as a payload, whatever its checksum
			apply(b[recordHeader:])
		}
		l, err := newLogReader(bytes.NewReader(b), int64(len(b)))
		for err == nil {
			var r record
			if r, err = l.next(); err == nil {
				apply(r.payload)
			}
		}
		findRecord(b, 0)
		var sum Summary
		tree.finish(&sum) // zkd can't have each tree
		digest := uint64(0)
		for path, n := range tree.all {
			digest += n.hash(path)
		}
		if digest != tree.digest {
			t.Fatalf("digest %x, want %x", tree.digest, digest)
		}
	})
}
