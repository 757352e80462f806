package archive

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/zkd-project/zkd/internal/fault"
	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/history"
	"github.com/zkd-project/zkd/server/snapshot"
	"github.com/zkd-project/zkd/server/zab"
)

// Archive is what a storage has.
type Archive struct {
	Storage
	Bases    []Base    // the oldest first
	Segments []Segment // in the order of their last zxids
	// Temp is the directory for copies of bases that are not on this machine, or compressed;
	// "" is that of os.TempDir.
	Temp string
}

// Read lists the files of an archive.
func Read(ctx context.Context, s Storage) (*Archive, error) {
	files, err := s.List(ctx)
	if err != nil {
		return nil, err
	}
	a := &Archive{Storage: s}
	for name, size := range files {
		if b, ok := ParseBase(name); ok {
			b.Bytes = size
			a.Bases = append(a.Bases, b)
		} else if seg, ok := parseSegment(name); ok {
			seg.Bytes = size
			a.Segments = append(a.Segments, seg)
		}
	}
	sortBases(a.Bases)
	slices.SortFunc(a.Segments, func(x, y Segment) int {
		return cmp.Or(cmp.Compare(x.Last, y.Last), cmp.Compare(y.After, x.After), cmp.Compare(x.Name, y.Name))
	})
	return a, nil
}

// sortBases sorts bases by their times. The clock of the machine that has fetched one may have been wrong: of one history none comes before one with a
// lower zxid.
func sortBases(bases []Base) {
	slices.SortFunc(bases, func(x, y Base) int { return cmp.Or(cmp.Compare(x.Zxid, y.Zxid), x.Time.Compare(y.Time)) })
	latest, at := map[string]time.Time{}, map[string]time.Time{}
	for i := range bases {
		b := &bases[i]
		at[b.Name] = b.Time
		if earlier := latest[b.History]; b.History != "" && earlier.After(b.Time) {
			at[b.Name] = earlier
		}
		latest[b.History] = at[b.Name]
	}
	slices.SortFunc(bases, func(x, y Base) int {
		return cmp.Or(at[x.Name].Compare(at[y.Name]), cmp.Compare(x.Zxid, y.Zxid), x.Time.Compare(y.Time), cmp.Compare(x.Name, y.Name))
	})
}

// One returns an archive with one base, in a file of any name. If that is not one that an archive
// gives, the base's time is that of the snapshot.
func One(ctx context.Context, path string) (*Archive, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	a := &Archive{Storage: Dir(filepath.Dir(path))}
	b, ok := ParseBase(filepath.Base(path))
	if !ok {
		b.Name, b.Zstd = filepath.Base(path), strings.HasSuffix(path, ZstdSuffix)
		err = a.describe(ctx, &b)
	}
	b.Bytes = info.Size()
	a.Bases = []Base{b}
	return a, err
}

// describe fills in what a base is by its content.
func (a *Archive) describe(ctx context.Context, b *Base) error {
	path, release, err := a.plain(ctx, b)
	if err != nil {
		return err
	}
	dir, name := filepath.Split(path)
	store := snapshot.ReadingFrom(vfs.OS{}, filepath.Clean(dir))
	meta, err := store.Describe(ctx, name)
	if err == nil {
		var ref snapshot.Ref
		ref, err = store.RefOf(ctx, name)
		b.Time, b.Zxid, b.CRC = time.UnixMilli(meta.Time), ref.Zxid, ref.CRC
	}
	return errors.Join(err, release())
}

// Chain returns the segments with the entries of a history after a zxid, as few as there are and
// as far as they reach without a gap.
func (a *Archive) Chain(id history.ID, after jute.Zxid) []Segment { return a.chain(id.String(), after) }

func (a *Archive) chain(of string, after jute.Zxid) []Segment {
	var chain []Segment
	for {
		var next *Segment
		for i := range a.Segments {
			s := &a.Segments[i]
			if s.History == of && s.After <= after && s.Last > after && (next == nil || s.Last > next.Last) {
				next = s
			}
		}
		if next == nil {
			return chain
		}
		chain = append(chain, *next)
		after = next.Last
	}
}

// Gaps returns an error for each part of a history that can't be had, although it is there: something is missing between it and all that
// is before it. It is none where a base does not tell its history: it has another fault.
func (a *Archive) Gaps(ctx context.Context) (gaps []error) {
	ends := map[string]jute.Zxid{}
	for i := range a.Bases {
		b := &a.Bases[i]
		of, err := a.ShortHistoryOf(ctx, b)
		if err != nil {
			return nil
		}
		ends[of] = max(ends[of], End(b.Zxid, a.chain(of, b.Zxid)))
	}
	for i := range a.Segments {
		for of := a.Segments[i].History; ; {
			s := a.beyond(of, ends[of])
			if s == nil {
				break
			}
			gaps = append(gaps, a.gap(ends[of], s))
			ends[of] = End(s.Last, a.chain(of, s.Last))
		}
	}
	return gaps
}

// beyond returns the first segment of a history that does not continue what ends at a zxid, or nil.
func (a *Archive) beyond(of string, end jute.Zxid) (first *Segment) {
	for i := range a.Segments {
		if s := &a.Segments[i]; s.History == of && s.After > end && (first == nil || s.After < first.After) {
			first = s
		}
	}
	return first
}

func (a *Archive) gap(end jute.Zxid, next *Segment) error {
	return fmt.Errorf("what happened between zxid %v and %v is not in %s (the state up to the first can be had)", end, next.After, a)
}

// End returns the last zxid of a chain after a base.
func End(after jute.Zxid, chain []Segment) jute.Zxid {
	if n := len(chain); n > 0 {
		return chain[n-1].Last
	}
	return after
}

// HistoryOf returns the name of the history that a base is from.
func (a *Archive) HistoryOf(ctx context.Context, b *Base) (id history.ID, err error) {
	path, release, err := a.plain(ctx, b)
	if err != nil {
		return id, err
	}
	id, err = HistoryIn(ctx, path)
	return id, errors.Join(err, release())
}

// HistoryIn returns the name of the history that a snapshot is from.
func HistoryIn(ctx context.Context, path string) (id history.ID, err error) {
	meta, err := snapshot.ReadingFrom(vfs.OS{}, filepath.Dir(path)).Describe(ctx, filepath.Base(path))
	if err == nil {
		id, err = history.IDOf(&meta)
	}
	return id, err
}

// ShortHistoryOf returns the beginning of the name of the history that a base is from, which the
// names of most files have.
func (a *Archive) ShortHistoryOf(ctx context.Context, b *Base) (string, error) {
	if b.History != "" {
		return b.History, nil
	}
	id, err := a.HistoryOf(ctx, b)
	return id.String(), err
}

// Replay calls fn with the entries of a chain of segments after a zxid.
func (a *Archive) Replay(ctx context.Context, chain []Segment, after jute.Zxid, fn func(*zab.Entry) error) error {
	for i := range chain {
		err := a.entries(ctx, &chain[i], io.Discard, func(e *zab.Entry) error {
			switch {
			case e.Zxid <= after:
				return nil
			case e.Prev != after:
				return fault.New(fault.Inconsistent, a.path(chain[i].Name), fmt.Errorf("entry %v follows %v, and should follow %v", e.Zxid, e.Prev, after))
			}
			after = e.Zxid
			return fn(e)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (a *Archive) path(name string) string { return a.String() + "/" + name }

// entries calls fn with the entries of a segment, and writes the bytes of it to raw. It returns
// the errors of fn, and a *fault.Error if the segment can't be read or is not sound.
func (a *Archive) entries(ctx context.Context, s *Segment, raw io.Writer, fn func(*zab.Entry) error) (err error) {
	f, err := a.open(ctx, s.Name)
	if err != nil {
		return fault.IO(a.path(s.Name), err)
	}
	defer f.Close() // it was only read
	var at jute.Zxid
	bad := func(err error) error {
		if errors.Is(err, ErrDamaged) || errors.Is(err, io.ErrUnexpectedEOF) {
			return fault.New(fault.Damaged, a.path(s.Name), fmt.Errorf("after entry %v: %w", at, err))
		}
		return fault.IO(a.path(s.Name), err)
	}
	d, err := NewDecoder(bufio.NewReaderSize(io.TeeReader(f, raw), 256<<10))
	if err != nil {
		return bad(err)
	}
	if d.After != s.After || d.Last != s.Last || d.History.String() != s.History {
		return fault.New(fault.Foreign, a.path(s.Name), fmt.Errorf("it has the entries after %v up to %v of history %v", d.After, d.Last, d.History))
	}
	for {
		at = d.At
		e, err := d.Next()
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return bad(err)
		case e == nil:
			return bad(ErrDamaged) // positions are for streams
		}
		if err := errors.Join(fn(e), ctx.Err()); err != nil {
			return err
		}
	}
}

// VerifyBase reads a base completely, and compares all checksums. The content may still be wrong
// in a way that only a server's tree shows: zkd verify looks at that, too.
func (a *Archive) VerifyBase(ctx context.Context, b *Base) error {
	path, release, err := a.plain(ctx, b)
	if err != nil {
		return err
	}
	return errors.Join(b.verify(ctx, path, a.path(b.Name)), release())
}

// VerifyFile is VerifyBase for a file that is not compressed.
func (b *Base) VerifyFile(ctx context.Context, path string) error { return b.verify(ctx, path, path) }

// verify verifies the base in a plain file, which errors call by a name.
func (b *Base) verify(ctx context.Context, path, name string) error {
	store := snapshot.ReadingFrom(vfs.OS{}, filepath.Dir(path))
	ref, err := store.RefOf(ctx, filepath.Base(path))
	if err != nil {
		return err
	}
	if ref.Zxid != b.Zxid || ref.CRC != b.CRC {
		return fmt.Errorf("%s is damaged: it has zxid %v and CRC32C %08x, and should have %v and %08x", name, ref.Zxid, ref.CRC, b.Zxid, b.CRC)
	}
	_, err = store.Verify(ctx, ref)
	return err
}

// VerifySegment reads a segment completely, and compares all checksums.
func (a *Archive) VerifySegment(ctx context.Context, s *Segment) error {
	sum := crc32.New(castagnoli)
	if err := a.entries(ctx, s, sum, func(*zab.Entry) error { return nil }); err != nil {
		return err
	}
	if sum.Sum32() != s.CRC {
		return fault.New(fault.Damaged, a.path(s.Name), fmt.Errorf("it has CRC32C %08x", sum.Sum32()))
	}
	return nil
}

// Write writes a segment, compressed. entries calls its argument with the entries from after h.After up to
// h.Last.
func Write(ctx context.Context, s Storage, h *Header, now time.Time, entries func(func(*zab.Entry) error) error) (Segment, error) {
	f, err := s.Create()
	if err != nil {
		return Segment{}, err
	}
	sum := crc32.New(castagnoli)
	z := newEncoder(f, 0)
	w := bufio.NewWriterSize(io.MultiWriter(z, sum), 256<<10)
	var enc Encoder
	seg := Segment{Time: now.Truncate(time.Second), After: h.After, Last: h.Last, History: h.History.String(), Zstd: true}
	put := func(b []byte) error {
		_, err := w.Write(b)
		return err
	}
	var b []byte
	if err = put(enc.AppendHeader(nil, h)); err == nil {
		err = entries(func(e *zab.Entry) error {
			b = enc.AppendEntry(b[:0], e)
			return put(b)
		})
	}
	if err = cmp.Or(err, w.Flush(), z.Close()); err == nil {
		seg.Bytes, err = f.Seek(0, io.SeekEnd)
	}
	if err != nil {
		return Segment{}, errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	seg.CRC = sum.Sum32()
	seg.Name = seg.fileName()
	return seg, s.Put(ctx, f, seg.Name)
}

// Merge makes one segment of a chain, and removes its parts when the archive has the whole.
func (a *Archive) Merge(ctx context.Context, id history.ID, chain []Segment, now time.Time) (Segment, error) {
	h := &Header{History: id, After: chain[0].After, Last: End(0, chain)}
	whole, err := Write(ctx, a, h, now, func(fn func(*zab.Entry) error) error { return a.Replay(ctx, chain, h.After, fn) })
	if err != nil {
		return whole, err
	}
	if err := a.VerifySegment(ctx, &whole); err != nil { // a storage may confirm what it does not have
		return whole, errors.Join(err, a.Remove(ctx, whole.Name))
	}
	for i := range chain {
		if err := a.Remove(ctx, chain[i].Name); err != nil {
			return whole, err
		}
	}
	return whole, nil
}

// Retention says which bases stay.
type Retention struct {
	Keep int           // the newest ones that stay in any case; at least 1
	Age  time.Duration // those that are younger stay, too
}

// Prune removes the bases that need not stay, and then the segments without an entry that one
// of the remaining bases needs. It returns what it has removed. Before that it verifies the
// newest base, so that a sound one remains.
func (a *Archive) Prune(ctx context.Context, r Retention, now time.Time) (removed Archive, err error) {
	removed.Storage = a.Storage
	n := max(0, len(a.Bases)-max(r.Keep, 1))
	var stay []Base
	var drop []Base
	for i := range a.Bases {
		if i < n && now.Sub(a.Bases[i].Time) >= r.Age {
			drop = append(drop, a.Bases[i])
		} else {
			stay = append(stay, a.Bases[i])
		}
	}
	if len(stay) == 0 {
		return removed, nil
	}
	superfluous, err := a.superfluous(ctx, stay)
	if err != nil || len(drop)+len(superfluous) == 0 {
		return removed, err
	}
	if err := a.VerifyBase(ctx, &stay[len(stay)-1]); err != nil {
		return removed, fmt.Errorf("nothing is removed, since the newest backup is not sound: %w", err)
	}
	for i := range drop {
		if err := a.Remove(ctx, drop[i].Name); err != nil {
			return removed, err
		}
		removed.Bases = append(removed.Bases, drop[i])
	}
	for i := range superfluous {
		if err := a.Remove(ctx, superfluous[i].Name); err != nil {
			return removed, err
		}
		removed.Segments = append(removed.Segments, superfluous[i])
	}
	return removed, nil
}

// superfluous returns the segments that end before all bases of their history. Those of a history
// without a base stay: a base of it may be elsewhere.
func (a *Archive) superfluous(ctx context.Context, bases []Base) (list []Segment, err error) {
	if len(a.Segments) == 0 {
		return nil, nil
	}
	first := make(map[string]jute.Zxid)
	for i := range bases {
		id, err := a.ShortHistoryOf(ctx, &bases[i])
		if err != nil {
			return nil, fmt.Errorf("nothing is removed, since it is not known what %s needs: %w", a.path(bases[i].Name), err)
		}
		if z, ok := first[id]; !ok || bases[i].Zxid < z {
			first[id] = bases[i].Zxid
		}
	}
	for _, s := range a.Segments {
		if z, ok := first[s.History]; ok && s.Last <= z {
			list = append(list, s)
		}
	}
	return list, nil
}
