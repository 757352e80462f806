package past

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	"github.com/zkd-project/zkd/internal/fault"
	"github.com/zkd-project/zkd/internal/pause"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/archive"
	"github.com/zkd-project/zkd/server/data"
	"github.com/zkd-project/zkd/server/history"
	"github.com/zkd-project/zkd/server/snapshot"
	"github.com/zkd-project/zkd/server/wal"
	"github.com/zkd-project/zkd/server/zab"
)

// Past is the past of a server.
type Past struct {
	Store   *snapshot.Store
	Log     *wal.Writer
	Applied func() jute.Zxid
	History func() history.ID
	// Archive is the directory of an archive, "" for none.
	Archive string
	Now     func() time.Time
	// Room returns how many bytes a former state may take.
	Room func() int64

	working sync.Mutex
}

var (
	// ErrBusy means that somebody else looks at the past.
	ErrBusy = errors.New("somebody looks at the past of this server: it has memory and time for one at a time")
	// ErrShort means that there is no memory.
	ErrShort = errors.New("memory is short on this server: another one may have more")
)

// UnknownError means that a moment is not known here. Oldest is the zxid of the oldest one that is, if this one is too old.
type UnknownError struct {
	Why    string
	Oldest jute.Zxid
}

func (e *UnknownError) Error() string { return e.Why }

func unknown(format string, args ...any) error {
	return &UnknownError{Why: fmt.Sprintf(format, args...)}
}

// Begin takes the turn of one that looks at the past, and returns what ends it.
func (p *Past) Begin() (end func(), err error) {
	if !p.working.TryLock() {
		return nil, ErrBusy
	}
	if p.Room() <= 0 {
		p.working.Unlock()
		return nil, ErrShort
	}
	return sync.OnceFunc(p.working.Unlock), nil
}

// base is a state from which to begin.
type base struct {
	zxid jute.Zxid
	time func() int64 // no transaction of it is later, in ms since the Unix epoch; 0 without any, or if that can't be read
	name string
	load func(context.Context, history.Part) (*history.Former, error)
}

// sources are what there is of the past.
type sources struct {
	*Past
	now     jute.Zxid        // is applied
	archive *archive.Archive // nil for none
	bases   []base           // the newest first; with the same zxid, this server's first
}

// open looks at what there is.
func (p *Past) open(ctx context.Context) (*sources, error) {
	s := &sources{Past: p, now: p.Applied()}
	own, err := p.Store.List()
	if err != nil {
		return nil, err
	}
	for _, info := range own {
		last := func() int64 {
			meta, err := p.Store.Describe(ctx, info.Name)
			if err != nil {
				return 0 // and the load says why
			}
			return history.LastTimeOf(&meta)
		}
		s.bases = append(s.bases, base{info.Zxid, last, "this server's snapshot " + info.Name, func(ctx context.Context, of history.Part) (*history.Former, error) {
			f, _, _, err := history.LoadFormer(ctx, p.Store, info.Name, of)
			return f, err
		}})
	}
	if r, err := p.Log.NewReader(0); err == nil {
		err = r.Close()
		s.bases = append(s.bases, base{time: func() int64 { return 0 }, name: "the beginning of this server's log", load: func(_ context.Context, of history.Part) (*history.Former, error) {
			return history.NewFormer(of), err
		}})
	}
	if p.Archive != "" {
		if s.archive, err = p.List(ctx); err != nil {
			return nil, err
		}
		id := p.History()
		for i := range s.archive.Bases {
			if b := &s.archive.Bases[i]; b.History == "" || b.History == id.String() {
				s.bases = append(s.bases, base{b.Zxid, b.Time.UnixMilli, "the backup " + b.Name, func(ctx context.Context, of history.Part) (*history.Former, error) {
					return s.archive.Former(ctx, b, id, of)
				}})
			}
		}
	}
	slices.SortStableFunc(s.bases, func(a, b base) int { return cmp.Compare(b.zxid, a.zxid) })
	return s, nil
}

// List lists the archive.
func (p *Past) List(ctx context.Context) (*archive.Archive, error) {
	a, err := archive.Read(ctx, archive.Dir(p.Archive))
	if err != nil {
		return nil, fmt.Errorf("the archive can't be read: %w", err)
	}
	return a, nil
}

// Since returns the zxid to which the past reaches back, as far as the names of files tell.
func (p *Past) Since(ctx context.Context) (zxid jute.Zxid, ok bool) {
	s, err := p.open(ctx)
	if err != nil || len(s.bases) == 0 {
		return 0, false
	}
	return s.bases[len(s.bases)-1].zxid, true
}

// errEnough ends a replay.
var errEnough = errors.New("the moment is reached")

// replay calls fn with the committed entries after a zxid up to another one, which need not be that of an entry: those of the log, or those of the archive as far as
// the log does not reach back. The error is an *UnknownError if both together have a gap.
func (s *sources) replay(ctx context.Context, after, upTo jute.Zxid, fn func(*zab.Entry) error) error {
	take := func(e *zab.Entry) error {
		if e.Zxid > upTo {
			return errEnough
		}
		after = e.Zxid
		return cmp.Or(fn(e), context.Cause(ctx))
	}
	err := s.ownLog(ctx, after, take)
	if lacks(err) && s.archive != nil {
		if err = s.archive.Replay(ctx, s.archive.Chain(s.History(), after), after, take); err == nil {
			err = s.ownLog(ctx, after, take)
		}
	}
	switch {
	case errors.Is(err, errEnough):
		return nil
	case lacks(err):
		return unknown("what happened after zxid %v is neither in this server's log nor in an archive that it knows", after)
	}
	return err
}

// lacks reports whether the log has not what comes next.
func lacks(err error) bool {
	return errors.Is(err, wal.ErrPurged) || errors.Is(err, wal.ErrDiscontinuous)
}

// ownLog calls fn with the entries of the log up to the one that is applied.
func (s *sources) ownLog(ctx context.Context, after jute.Zxid, fn func(*zab.Entry) error) error {
	r, err := data.ReadCommitted(s.Log, after)
	if err != nil {
		return err
	}
	defer r.Close() // it was only read
	for after < s.now {
		list, err := r.Next(s.now)
		for i := range list {
			after = list[i].Zxid
			if err := fn(&list[i]); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
		if len(list) == 0 { // what is applied is about to be in the log
			if err := wait(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// wait waits for the log for a while.
func wait(ctx context.Context) error {
	return pause.For(ctx, 10*time.Millisecond)
}

// At returns a part of the tree as it was at a moment, and what it was made of. The caller has the turn.
func (p *Past) At(ctx context.Context, of history.Part, at history.Moment) (f *history.Former, from string, err error) {
	s, err := p.open(ctx)
	if err != nil {
		return nil, "", err
	}
	if now := p.Now(); at.Time.After(now) {
		return nil, "", unknown("%s is in the future: this server's clock says %s", at.Time.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	of.Most = p.Room()
	if at.Zxid > s.now {
		return nil, "", unknown("zxid %v is not reached: this server is at %v", at.Zxid, s.now)
	}
	upTo := cmp.Or(at.Zxid, s.now)
	var unsound error
	for i := 0; i < len(s.bases); i++ {
		b := &s.bases[i]
		if b.zxid > upTo || !at.Time.IsZero() && b.time() > at.Time.UnixMilli() {
			continue
		}
		f, err := b.load(ctx, of)
		if large, ok := errors.AsType[*history.TooLargeError](err); ok {
			return nil, "", large
		}
		if errors.Is(err, fs.ErrNotExist) { // it was purged meanwhile
			s.bases = slices.Delete(s.bases, i, i+1)
			i--
			continue
		}
		if fault.KindOf(err) != 0 || err == nil && !at.Time.IsZero() && f.Last.After(at.Time) {
			unsound = errors.Join(unsound, err)
			continue
		}
		var next int64 // when what comes after the moment was, if that is known
		if err == nil {
			err = s.replay(ctx, b.zxid, upTo, func(e *zab.Entry) error {
				if before, err := at.Before(e); before || err != nil {
					next, _ = history.TimeOf(e) // it was decoded
					return cmp.Or(err, errEnough)
				}
				return f.Apply(e)
			})
		}
		if err == nil && f.At == 0 && !at.Time.IsZero() {
			return nil, "", unknown("that moment is before the first transaction, of %s", time.UnixMilli(next).UTC().Format(time.RFC3339))
		}
		if _, lacks := errors.AsType[*UnknownError](err); lacks {
			unsound = errors.Join(unsound, err)
			continue
		}
		return f, b.name, err
	}
	if unsound != nil {
		return nil, "", unsound
	}
	return nil, "", s.tooOld()
}

// tooOld says how far the past reaches back.
func (s *sources) tooOld() error {
	if len(s.bases) == 0 {
		return unknown("this server has no snapshot yet, and its log does not reach back to the beginning")
	}
	oldest := s.bases[len(s.bases)-1]
	where := "this server's log reaches back"
	if s.archive != nil {
		where = "the log and the archive reach back"
	}
	when := ""
	if last := oldest.time(); last != 0 {
		when = ", of " + time.UnixMilli(last).UTC().Format(time.RFC3339)
	}
	return &UnknownError{fmt.Sprintf("that moment is too old: %s to zxid %v%s. zkd.historyHours keeps more, and an archive does (zkd.archive)", where, oldest.zxid, when), oldest.zxid}
}

// Changes are those of a node, or of a subtree.
type Changes struct {
	List  []*history.Step // the oldest first
	After jute.Zxid       // all that were asked for after this zxid are in the list
	More  bool            // there may be older ones
}

// keptBytes bounds the data that Changes keeps.
const keptBytes = 8 << 20

// Changes returns the newest changes before a zxid that visible allows: at most some. 0 is for all that are applied. The caller has the turn.
func (p *Past) Changes(ctx context.Context, root string, below bool, before jute.Zxid, most int, visible func(*history.Step) bool) (*Changes, error) {
	s, err := p.open(ctx)
	if err != nil {
		return nil, err
	}
	levels := 1
	if below {
		levels = 0
	}
	upTo := s.now
	if before != 0 {
		upTo = min(upTo, before-1)
	}
	out := &Changes{After: upTo, More: true}
	bytes := 0
	for i := range s.bases {
		b := &s.bases[i]
		if b.zxid >= out.After {
			continue
		}
		var list []*history.Step
		f, err := b.load(ctx, history.Part{Root: root, Levels: levels, Most: p.Room()})
		if err == nil {
			f.Changed = func(c *history.Step) {
				if (below || c.Path == root) && visible(c) {
					step := *c
					list = append(list, &step)
					bytes += len(c.Before) + len(c.After) + 200
				}
				for len(list) > 1 && (len(list) > most || bytes > keptBytes) {
					bytes -= len(list[0].Before) + len(list[0].After) + 200
					list[0] = nil
					list = list[1:]
				}
			}
			err = s.replay(ctx, b.zxid, out.After, f.Apply)
		}
		if _, lacks := errors.AsType[*UnknownError](err); lacks || fault.KindOf(err) != 0 || errors.Is(err, fs.ErrNotExist) {
			continue // an older one may do
		}
		if err != nil {
			return nil, err
		}
		out.List = append(list, out.List...)
		if len(out.List) >= most || bytes > keptBytes/2 {
			out.cut(most)
			return out, nil
		}
		out.After = b.zxid
	}
	out.More = false
	return out, nil
}

// cut drops changes beyond the newest most, and those of a transaction of which others are dropped.
func (c *Changes) cut(most int) {
	c.List = c.List[max(0, len(c.List)-most):]
	first := c.List[0].Zxid
	c.After = first - 1
	if i := slices.IndexFunc(c.List, func(s *history.Step) bool { return s.Zxid != first }); i > 0 {
		c.List, c.After = c.List[i:], first
	}
}
