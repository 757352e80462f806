package feed

import (
	"context"
	"iter"
	"sync"
)

// News is the state of a Feed.
type News[T any] struct {
	Value T
	Valid bool  // whether there is a value
	Err   error // why Value is not the newest, or nil if it is
	Over  bool  // nothing more comes, because of Err
}

// Feed is a value that changes. The zero Feed has no value.
type Feed[T any] struct {
	mu      sync.Mutex
	now     News[T]
	count   int           // of changes
	changed chan struct{} // closed at the next change; nil if nobody waits for it
}

// Now returns the state.
func (f *Feed[T]) Now() News[T] {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

// Put replaces the value.
func (f *Feed[T]) Put(v T) { f.change(func(n *News[T]) { n.Value, n.Valid, n.Err = v, true, nil }) }

// Report records why the value is not the newest. The value stays.
func (f *Feed[T]) Report(err error) { f.change(func(n *News[T]) { n.Err = err }) }

// End records why nothing more comes. Later changes are ignored.
func (f *Feed[T]) End(err error) { f.change(func(n *News[T]) { n.Err, n.Over = err, true }) }

func (f *Feed[T]) change(fn func(n *News[T])) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.now.Over {
		return
	}
	fn(&f.now)
	f.count++
	if f.changed != nil {
		close(f.changed)
		f.changed = nil
	}
}

// look returns the state, the number of changes, and a channel that the next one closes.
func (f *Feed[T]) look() (News[T], int, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.changed == nil {
		f.changed = make(chan struct{})
	}
	return f.now, f.count, f.changed
}

// Follow returns the value, and again after each change, but skips values that have been
// replaced already. An error of Report comes with the value that stays, and more follows.
// The error of End, or the cause of ctx, is the last.
func (f *Feed[T]) Follow(ctx context.Context) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for seen := 0; ; {
			now, count, changed := f.look()
			if count != seen {
				seen = count
				if !yield(now.Value, now.Err) || now.Over {
					return
				}
				continue
			}
			select {
			case <-changed:
			case <-ctx.Done():
				yield(now.Value, context.Cause(ctx))
				return
			}
		}
	}
}
