package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"github.com/zkd-project/zkd/internal/fault"
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
	Entries int       // after the base
	Last    time.Time // of the last one that has a time, by the clock of its leader; zero for none
	// Unusable are the errors of newer bases that could not be used.
	Unusable error
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
// A moment that the archive does not have is an error.
func (a *Archive) StateAt(ctx context.Context, at history.Moment) (*Found, error) {
	var unusable error
	for _, b := range slices.Backward(a.Bases) {
		if at.Zxid != 0 && b.Zxid > at.Zxid || !at.Time.IsZero() && b.Time.After(at.Time) {
			continue
		}
		f, err := a.load(ctx, &b)
		if fault.KindOf(err) != 0 {
			unusable = errors.Join(unusable, err)
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

// load loads a base.
func (a *Archive) load(ctx context.Context, b *Base) (f *Found, err error) {
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
		return nil, fault.New(fault.Damaged, a.path(b.Name), fmt.Errorf("it has zxid %v and CRC32C %08x", ref.Zxid, ref.CRC))
	}
	meta, err := store.Describe(ctx, ref.Name)
	if err != nil {
		return nil, err
	}
	f = &Found{Base: *b}
	if f.Tree, f.Ensemble, err = history.Load(ctx, store, ref); err != nil {
		return nil, err
	}
	// An early version's snapshot does not name its history, and has no segments.
	f.History, err = history.IDOf(&meta)
	if len(a.Segments) == 0 {
		err = nil
	}
	return f, err
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
	case at.Time.IsZero():
		return nil
	}
	return a.gap(f, end, at.Time)
}

// gap returns an error if a part of the history is missing between the end of the entries after
// a base and a moment.
func (a *Archive) gap(f *Found, end jute.Zxid, at time.Time) error {
	for i := range a.Segments {
		if s := &a.Segments[i]; s.History == f.History.String() && s.After > end && !s.Time.After(at) {
			return fmt.Errorf("what happened between zxid %v and %v is not in %s (the state up to the first can be had)", end, s.After, a)
		}
	}
	return nil
}

// Verify reads everything, and writes a line for each file and for each gap. It reports whether all
// is sound.
func (a *Archive) Verify(ctx context.Context, w io.Writer) (sound bool, err error) {
	sound = true
	say := func(format string, args ...any) {
		if _, werr := fmt.Fprintf(w, format+"\n", args...); err == nil {
			err = werr
		}
	}
	for i := range a.Bases {
		b := &a.Bases[i]
		f, lerr := a.load(ctx, b)
		if lerr != nil {
			sound = false
			say("NOT SOUND: %v", lerr)
			continue
		}
		chain := a.Chain(f.History, b.Zxid)
		if rerr := a.advance(ctx, f, history.Moment{}); rerr != nil {
			sound = false
			say("NOT SOUND: %v", rerr)
			continue
		}
		say("%s: sound, zxid %v, with %d entries in %d segments up to %v", a.path(b.Name), b.Zxid, f.Entries, len(chain), f.Tree.LastZxid())
	}
	for i := range a.Segments {
		if verr := a.VerifySegment(ctx, &a.Segments[i]); verr != nil {
			sound = false
			say("NOT SOUND: %v", verr)
		}
	}
	return sound, errors.Join(err, context.Cause(ctx))
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
