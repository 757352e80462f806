package feed

import (
	"context"
	"iter"
	"sync"
)

// News is what a Feed has at a time.
type News[T any] struct {
	Value T
	Valid bool  // whether there is a value
	Err   error // why Value is not the newest; nil if it is
	Over  bool  // nothing comes any more: Err says why
}

// Feed is a value that changes. The zero Feed has none.
type Feed[T any] struct {
	mu      sync.Mutex
	now     News[T]
	count   int           // of changes
	changed chan struct{} // closed at the next change; nil if nobody waits
}

// Now returns what there is.
func (f *Feed[T]) Now() News[T] {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

// Put replaces the value.
func (f *Feed[T]) Put(v T) { f.change(func(n *News[T]) { n.Value, n.Valid, n.Err = v, true, nil }) }

// Report says why the value is not the newest. It stays.
func (f *Feed[T]) Report(err error) { f.change(func(n *News[T]) { n.Err = err }) }

// End says why nothing comes any more.
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

// look returns what there is, how many changes there were, and what tells of the next.
func (f *Feed[T]) look() (News[T], int, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.changed == nil {
		f.changed = make(chan struct{})
	}
	return f.now, f.count, f.changed
}

// Wait waits until there is a value, and returns nil then. If ctx ends before, or the
// feed, it returns why.
func (f *Feed[T]) Wait(ctx context.Context) error {
	for {
		now, _, changed := f.look()
		switch {
		case now.Valid:
			return nil
		case now.Over:
			return now.Err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Follow returns the value, and then each newer one, skipping those that are not the
// newest any more. What Report says comes with the value that stays, and is followed by
// more. The last is the error of End, or the cause of ctx's end.
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
