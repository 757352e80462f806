package archive

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"github.com/zkd-project/zkd/internal/fault"
	"github.com/zkd-project/zkd/internal/secret"
	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/history"
	"github.com/zkd-project/zkd/server/snapshot"
	"github.com/zkd-project/zkd/server/zab"
)

// Found is a state that an archive had, and what it was made of.
type Found struct {
	history.State
	History history.ID
	Base    Base
	Secret  secret.Key // of the passwords of its sessions; see history.SecretOf
	Entries int        // after the base
	Last    time.Time  // of the last one that has a time, by the clock of its leader; zero for none
	// Unusable are the errors of newer bases that could not be used.
	Unusable error

	latest int64 // see history.LastTimeOf
}

// String says what the state was made of.
func (f *Found) String() string {
	if f.Entries == 0 {
		return f.Base.Name + ", without entries after it"
	}
	return fmt.Sprintf("%s and %d entries after it, the last of %s", f.Base.Name, f.Entries, f.Last.UTC().Format(time.RFC3339))
}

var errReached = errors.New("the moment is reached")

// StateAt returns the state at a moment. It begins with the newest base before it that is sound.
// A moment that the archive does not have is an error. Times are those of the leaders' clocks,
// which may differ from those of the servers and machines that wrote the files.
func (a *Archive) StateAt(ctx context.Context, at history.Moment) (*Found, error) {
	var unusable error
	for _, b := range a.before(at) {
		f, err := a.load(ctx, &b, nil)
		if fault.KindOf(err) != 0 {
			unusable = errors.Join(unusable, err)
			continue
		}
		if err == nil && !at.Time.IsZero() && f.latest > at.Time.UnixMilli() {
			continue
		}
		if err == nil {
			f.Unusable = unusable
			err = a.advance(ctx, f, at)
		}
		return f, err
	}
	if unusable != nil {
		return nil, unusable
	}
	if len(a.Bases) == 0 {
		return nil, fmt.Errorf("there is no backup in %s", a)
	}
	return nil, fmt.Errorf("the oldest backup, %s, is from after that moment", a.path(a.Bases[0].Name))
}

// before returns the bases that may be from before a moment, in the order in which to try them: those
// first whose names say so, the newest of them first, and then the others, the oldest first.
func (a *Archive) before(at history.Moment) (list []Base) {
	for _, b := range slices.Backward(a.Bases) {
		if (at.Zxid == 0 || b.Zxid <= at.Zxid) && (at.Time.IsZero() || !b.Time.After(at.Time)) {
			list = append(list, b)
		}
	}
	for _, b := range a.Bases {
		if !at.Time.IsZero() && b.Time.After(at.Time) {
			list = append(list, b)
		}
	}
	return list
}

// load loads a base. Before it builds the tree it calls described, unless that is nil.
func (a *Archive) load(ctx context.Context, b *Base, described func(history.ID, *snapshot.Meta)) (f *Found, err error) {
	path, release, err := a.plain(ctx, b)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, release()) }()
	store := snapshot.ReadingFrom(vfs.OS{}, filepath.Dir(path))
	ref, err := store.RefOf(ctx, filepath.Base(path))
	if err != nil {
		return nil, err
	}
	if ref.Zxid != b.Zxid || ref.CRC != b.CRC {
		return nil, b.isAnother(a, ref)
	}
	meta, err := store.Describe(ctx, ref.Name)
	if err != nil {
		return nil, err
	}
	f = &Found{Base: *b, latest: history.LastTimeOf(&meta)}
	// An early version's snapshot does not name its history, and has no segments.
	if f.History, err = history.IDOf(&meta); err != nil && len(a.Segments) > 0 {
		return nil, err
	}
	if described != nil {
		described(f.History, &meta)
	}
	if f.Secret, err = history.SecretOf(&meta); err != nil {
		return nil, err
	}
	f.Tree, f.Ensemble, err = history.Load(ctx, store, ref)
	return f, err
}

// Former returns a part of the state as a base of a history has it.
func (a *Archive) Former(ctx context.Context, b *Base, of history.ID, part history.Part) (f *history.Former, err error) {
	path, release, err := a.plain(ctx, b)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, release()) }()
	f, ref, meta, err := history.LoadFormer(ctx, snapshot.ReadingFrom(vfs.OS{}, filepath.Dir(path)), filepath.Base(path), part)
	if err != nil {
		return nil, err
	}
	if ref.Zxid != b.Zxid || ref.CRC != b.CRC {
		return nil, b.isAnother(a, ref)
	}
	if id, err := history.IDOf(&meta); err != nil || id != of {
		return nil, fault.New(fault.Foreign, a.path(b.Name), cmp.Or(err, fmt.Errorf("it is of the history %v", id)))
	}
	return f, nil
}

// isAnother is the error of a base whose file is not the one that its name says.
func (b *Base) isAnother(a *Archive, ref snapshot.Ref) error {
	return fault.New(fault.Damaged, a.path(b.Name), fmt.Errorf("it has zxid %v and CRC32C %08x", ref.Zxid, ref.CRC))
}

// advance applies the entries after a base up to a moment.
func (a *Archive) advance(ctx context.Context, f *Found, at history.Moment) error {
	chain := a.Chain(f.History, f.Base.Zxid)
	end := End(f.Base.Zxid, chain)
	if at.Zxid > end {
		return fmt.Errorf("zxid %v is not reached: what follows %s ends at %v", at.Zxid, a.path(f.Base.Name), end)
	}
	limited := at != history.Moment{}
	var timed *zab.Entry // the last one that has a time
	err := a.Replay(ctx, chain, f.Base.Zxid, func(e *zab.Entry) error {
		if limited {
			before, err := at.Before(e)
			if before {
				err = errReached
			}
			if err != nil {
				return err
			}
		}
		if err := f.Apply(e); err != nil {
			return err
		}
		f.Entries++
		if e.Type == zab.EntryMarker || e.Txn() != nil {
			timed = e
		}
		return nil
	})
	if timed != nil {
		ms, terr := history.TimeOf(timed)
		f.Last = time.UnixMilli(ms)
		err = cmp.Or(err, terr)
	}
	switch {
	case errors.Is(err, errReached):
		return nil
	case err != nil:
		return fmt.Errorf("%w (the state up to zxid %v can be had)", err, f.Tree.LastZxid())
	case at.Zxid != 0:
		return nil
	}
	if s := a.beyond(f.History.String(), end); s != nil { // the moment may be in the gap
		return a.gap(end, s)
	}
	return nil
}

// Verify reads everything, and writes a line for each base and for what is not sound. It applies
// the entries from each base up to the next one, which must have the state that these lead to. It
// reports whether all is sound.
func (a *Archive) Verify(ctx context.Context, w io.Writer) (sound bool, err error) {
	v := verification{a: a, ctx: ctx, w: w, sound: true}
	for i := range a.Bases {
		v.base(&a.Bases[i])
	}
	v.rest()
	for _, err := range a.Gaps(ctx) {
		v.bad(err)
	}
	for i := range a.Segments {
		if err := a.VerifySegment(ctx, &a.Segments[i]); err != nil {
			v.bad(err)
		}
	}
	return v.sound, errors.Join(v.err, context.Cause(ctx))
}

// verification is a Verify in progress.
type verification struct {
	a     *Archive
	ctx   context.Context
	w     io.Writer
	sound bool
	err   error  // of w, or what this machine lacks
	last  *Found // the base before, until the entries after it were applied
}

func (v *verification) say(format string, args ...any) {
	if _, err := fmt.Fprintf(v.w, format+"\n", args...); v.err == nil {
		v.err = err
	}
}

// bad says that something is not sound, or remembers that it can't be known: this machine lacks something.
func (v *verification) bad(err error) {
	if vfs.IsShortage(err) {
		v.err = cmp.Or(v.err, err)
		return
	}
	v.sound = false
	v.say("NOT SOUND: %v", err)
}

// base verifies a base, and before that advances the last one up to it. So there is one tree in
// memory at a time.
func (v *verification) base(b *Base) {
	f, err := v.a.load(v.ctx, b, func(id history.ID, meta *snapshot.Meta) {
		last := v.last
		if last == nil {
			return
		}
		if id != last.History || b.Zxid < last.Base.Zxid || b.Zxid > End(last.Base.Zxid, v.a.Chain(id, last.Base.Zxid)) {
			v.rest()
			return
		}
		if v.advance(history.Moment{Zxid: b.Zxid}) && (last.Tree.LastZxid() != b.Zxid || !bytes.Equal(history.Digest(last.Tree), meta.Digest)) {
			v.bad(fmt.Errorf("%s: at zxid %v the entries after %s lead to another state", v.a.path(b.Name), b.Zxid, v.a.path(last.Base.Name)))
		}
	})
	if err != nil {
		v.bad(err)
		return
	}
	v.last = f
}

// rest applies all entries after the last base that there are without a gap.
func (v *verification) rest() {
	if f := v.last; f != nil {
		v.advance(history.Moment{Zxid: End(f.Base.Zxid, v.a.Chain(f.History, f.Base.Zxid))})
	}
}

// advance applies the entries after the last base up to a moment, and reports whether they are
// sound.
func (v *verification) advance(to history.Moment) bool {
	f := v.last
	if f == nil {
		return false
	}
	v.last = nil
	if err := v.a.advance(v.ctx, f, to); err != nil {
		v.bad(err)
		return false
	}
	segments := 0
	for _, s := range v.a.Chain(f.History, f.Base.Zxid) {
		if s.After < f.Tree.LastZxid() {
			segments++
		}
	}
	v.say("%s: sound, zxid %v, with %d entries in %d segments up to %v", v.a.path(f.Base.Name), f.Base.Zxid, f.Entries, segments, f.Tree.LastZxid())
	return true
}

// Entries calls fn with all entries of the history of the newest base, and returns the parts of it that
// the archive has.
func (a *Archive) Entries(ctx context.Context, fn func(*zab.Entry) error) (spans []history.Span, err error) {
	if len(a.Bases) == 0 {
		return nil, fmt.Errorf("there is no backup in %s", a)
	}
	id, err := a.HistoryOf(ctx, &a.Bases[len(a.Bases)-1])
	if err != nil {
		return nil, err
	}
	for end, more := jute.Zxid(0), true; more; {
		var first *Segment // that begins at or after end
		for i := range a.Segments {
			if s := &a.Segments[i]; s.History == id.String() && s.After >= end && (first == nil || s.After < first.After) {
				first = s
			}
		}
		if more = first != nil; more {
			span := history.Span{After: first.After}
			chain := a.Chain(id, span.After)
			if err := a.Replay(ctx, chain, span.After, fn); err != nil {
				return spans, err
			}
			span.Last = End(0, chain)
			end = span.Last
			spans = append(spans, span)
		}
	}
	return spans, nil
}
