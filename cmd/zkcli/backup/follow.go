package backup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/zkd-project/zkd/internal/fault"
	"github.com/zkd-project/zkd/internal/pause"
	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/archive"
	"github.com/zkd-project/zkd/server/archive/source"
	"github.com/zkd-project/zkd/server/copies"
	"github.com/zkd-project/zkd/server/history"
	"github.com/zkd-project/zkd/server/zab"
)

const (
	// segmentBytes of entries are enough for a segment.
	segmentBytes = 16 << 20
	// mergeAt segments in a row, of about the same size, become one.
	mergeAt = 16
	// firstPause and longestPause are the pauses after a failure.
	firstPause, longestPause = 200 * time.Millisecond, 10 * time.Second
	// basePause is the pause after a base that could not be fetched.
	basePause = time.Minute
	// slowly is how long a segment may take until the follower says so, and linger how long what is under way may
	// take after the end of a command.
	slowly, linger = time.Minute, 10 * time.Second
)

// Follower keeps an archive up to date with the servers of an ensemble.
type Follower struct {
	*source.Servers
	To archive.Storage
	// Every is how long an entry may wait for others before it is written.
	Every time.Duration
	// BaseEvery is the age of the newest base after which another one is fetched; 0 is never.
	BaseEvery time.Duration
	// Temp is the directory for copies of bases, as in archive.Archive.
	Temp string
	// Report is called with what a person may want to know.
	Report func(format string, args ...any)

	id    history.ID
	base  archive.Base      // the newest; without a name there is none
	next  chan fetchedBase  // gets the next one; nil while none is being fetched
	again time.Time         // when to try that again, after it has failed
	last  jute.Zxid         // how far the log was written
	tail  []archive.Segment // in a row, up to last
	wrote bool              // since the last failure
}

type fetchedBase struct {
	*archive.Base
	err error
}

// Run continues until ctx ends, or until something fails that another attempt does not mend.
// Failures of servers and of connections are reported, and another server is asked.
func (f *Follower) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		cancel()
		if f.next != nil {
			<-f.next
		}
	}()
	delay := firstPause
	for resumed := false; ; {
		var err error
		if !resumed {
			if err = f.resume(ctx); err != nil && !vfs.IsShortage(err) {
				return err
			}
			resumed = err == nil
		}
		if resumed {
			err = f.step(ctx)
		}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.As(err, new(source.Refused)):
			return err
		case err == nil, f.wrote:
			delay = firstPause
		}
		f.wrote = false
		if err == nil {
			continue
		}
		f.Another()
		if err := f.failed(ctx, err, delay); err != nil {
			return err
		}
		delay = min(2*delay, longestPause)
	}
}

// failed reports an error, and waits before another attempt.
func (f *Follower) failed(ctx context.Context, err error, delay time.Duration) error {
	f.Report("%v; trying again", err)
	return pause.For(ctx, delay)
}

// resume finds out what the archive has. If the log ends before the newest base, it continues
// there, so that no moment is missing, if a server still has it: see step.
func (f *Follower) resume(ctx context.Context) error {
	a, err := f.archive(ctx)
	if err != nil || len(a.Bases) == 0 {
		return err
	}
	f.base = a.Bases[len(a.Bases)-1]
	if f.id, err = a.HistoryOf(ctx, &f.base); err != nil {
		return err
	}
	f.continueAfter(a, &f.base)
	for i := range a.Bases[:len(a.Bases)-1] {
		older := &a.Bases[i]
		switch id, err := a.ShortHistoryOf(ctx, older); {
		case vfs.IsShortage(err):
			return err // it may have a part in this
		case err != nil || id != f.id.String():
			continue // it has none
		}
		if chain := a.Chain(f.id, older.Zxid); archive.End(older.Zxid, chain) < f.base.Zxid {
			f.continueAfter(a, older)
		}
	}
	f.Report("continuing after zxid %v", f.last)
	return nil
}

// archive lists what the archive has.
func (f *Follower) archive(ctx context.Context) (*archive.Archive, error) {
	a, err := archive.Read(ctx, f.To)
	if err == nil {
		a.Temp = f.Temp
	}
	return a, err
}

// continueAfter makes the end of the log after a base the one to continue from.
func (f *Follower) continueAfter(a *archive.Archive, b *archive.Base) {
	f.tail = a.Chain(f.id, b.Zxid)
	f.last = archive.End(b.Zxid, f.tail)
}

// step fetches the first base, or follows a server as long as that works.
func (f *Follower) step(ctx context.Context) error {
	if f.base.Name == "" {
		return f.fetchBase(ctx)
	}
	err := f.follow(ctx)
	if !errors.Is(err, source.ErrPurged) {
		return err
	}
	if f.last < f.base.Zxid {
		f.Report("%v: continuing from the newest snapshot", err)
	} else {
		f.Report("%v: fetching another snapshot", err)
		if err := f.fetchBase(ctx); err != nil {
			return err
		}
	}
	a, err := f.archive(ctx)
	if err == nil {
		f.continueAfter(a, &f.base)
	}
	return err
}

func (f *Follower) fetchBase(ctx context.Context) error {
	b, err := Create(ctx, f.Servers, f.To, true, time.Now())
	if err != nil {
		return err
	}
	return f.adopt(ctx, b)
}

// adopt makes a base that was fetched the newest one.
func (f *Follower) adopt(ctx context.Context, b *archive.Base) error {
	a := &archive.Archive{Storage: f.To, Temp: f.Temp}
	id, err := a.HistoryOf(ctx, b)
	switch {
	case vfs.IsShortage(err), fault.KindOf(err) == fault.Unreadable: // the next attempt may read it
		return err
	case err != nil:
		return source.Refused{Err: err}
	case f.base.Name != "" && id != f.id:
		return source.Refused{Err: fmt.Errorf("%s has history %v, and the servers have %v: follow them into another directory", f.To, f.id, id)}
	}
	f.Report("fetched %s", b.Name)
	if f.base.Name == "" {
		f.id, f.last = id, b.Zxid
	}
	f.base = *b
	return nil
}

// renewBase fetches the next base when one is due, while the log is followed.
func (f *Follower) renewBase(ctx context.Context) error {
	now := time.Now()
	if f.next == nil && f.baseIsDue(now) {
		servers, next := *f.Servers, make(chan fetchedBase, 1)
		f.next = next
		go func() {
			b, err := Create(ctx, &servers, f.To, true, now)
			next <- fetchedBase{b, err}
		}()
	}
	select {
	case b := <-f.next:
		f.next = nil
		if b.err == nil {
			return f.adopt(ctx, b.Base)
		}
		f.again = now.Add(basePause)
		f.Report("%v; trying again in %v", b.err, basePause)
	default:
	}
	return nil
}

// baseIsDue reports whether the next base is to be fetched. One with a time far in the future was fetched when a clock was wrong, and counts as old.
func (f *Follower) baseIsDue(now time.Time) bool {
	return f.BaseEvery > 0 && now.Sub(f.base.Time).Abs() >= f.BaseEvery && !now.Before(f.again) && f.last > f.base.Zxid
}

// follow copies the log of one server until the connection fails.
func (f *Follower) follow(ctx context.Context) error {
	log, err := f.Log(ctx, copies.Point{History: zab.ID(f.id), Zxid: f.last})
	if err != nil {
		return err
	}
	defer log.Close()
	f.Report("following %s after %v", log.Admin, f.last)
	var p pending
	for {
		e, err := log.Next()
		if e != nil {
			p.add(e)
		}
		if err != nil || p.due(f.Every) {
			if werr := f.flush(ctx, &p); werr != nil {
				if errors.Is(werr, fs.ErrPermission) || errors.Is(werr, fs.ErrNotExist) {
					return source.Refused{Err: werr}
				}
				return werr
			}
		}
		if err != nil {
			return err
		}
		if err := f.renewBase(ctx); err != nil {
			return err
		}
	}
}

// pending are entries that are not written yet.
type pending struct {
	entries []*zab.Entry
	bytes   int64
	since   time.Time
}

func (p *pending) add(e *zab.Entry) {
	if len(p.entries) == 0 {
		p.since = time.Now()
	}
	p.entries = append(p.entries, e)
	p.bytes += int64(len(e.Data))
}

// due reports whether the entries should be written.
func (p *pending) due(every time.Duration) bool {
	return len(p.entries) > 0 && (p.bytes >= segmentBytes || time.Since(p.since) >= every)
}

// flush writes the pending entries into a segment, and merges segments if there are many.
func (f *Follower) flush(ctx context.Context, p *pending) error {
	if len(p.entries) == 0 {
		return nil
	}
	ctx, cancel := lingering(ctx)
	defer cancel()
	slow := time.AfterFunc(slowly, func() { f.Report("%v has not taken a segment for %v: still trying", f.To, slowly) })
	defer slow.Stop()
	h := &archive.Header{History: f.id, After: f.last, Last: p.entries[len(p.entries)-1].Zxid}
	seg, err := archive.Write(ctx, f.To, h, time.Now(), func(fn func(*zab.Entry) error) error {
		for _, e := range p.entries {
			if err := fn(e); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	f.tail, f.last = append(f.tail, seg), seg.Last
	f.wrote = true
	*p = pending{}
	err = f.merge(ctx)
	if err != nil {
		f.tail = nil // the archive has them, as they are or merged
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f.Report("segments are not merged: %v", err) // pruned meanwhile, or the storage has lost one
	last := f.last
	if err = f.resume(ctx); err == nil && f.last != last {
		err = fmt.Errorf("what follows zxid %v is missing in %v", f.last, f.To)
	}
	return err
}

// lingering returns a context that ends a while after ctx.
func lingering(ctx context.Context) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		time.AfterFunc(linger, func() { cancel(context.Cause(ctx)) })
	})
	return longer, func() {
		stop()
		cancel(nil)
	}
}

// merge makes one segment of the last ones, if there are many of about the same size: so an entry is
// copied only as often as the logarithm of their number. Large segments stay as they are, and those
// before the newest base, which a prune may remove.
func (f *Follower) merge(ctx context.Context) error {
	f.tail = slices.DeleteFunc(f.tail, func(s archive.Segment) bool { return s.Last <= f.base.Zxid })
	from, sum := len(f.tail), int64(0)
	for from > 0 && f.tail[from-1].Bytes < segmentBytes && (len(f.tail)-from < mergeAt || f.tail[from-1].Bytes <= sum) {
		from--
		sum += f.tail[from].Bytes
	}
	if len(f.tail)-from < mergeAt {
		return nil
	}
	a := &archive.Archive{Storage: f.To}
	whole, err := a.Merge(ctx, f.id, f.tail[from:], time.Now())
	if err == nil {
		f.tail = append(f.tail[:from:from], whole)
	}
	return err
}
