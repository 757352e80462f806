package subtree

import (
	"context"
	"iter"
	"time"

	"github.com/zkd-project/zkd/client"
)

// batches groups a stream so that no group has more than count elements, or more than
// maxBytes unless it is a single element.
func batches[T any](all iter.Seq2[T, error], count, maxBytes int, size func(*T) int) iter.Seq2[[]T, error] {
	return func(yield func([]T, error) bool) {
		var batch []T
		bytes := 0
		for x, err := range all {
			if err != nil {
				yield(nil, err)
				return
			}
			if len(batch) > 0 && (len(batch) == count || bytes+size(&x) > maxBytes) {
				if !yield(batch, nil) {
					return
				}
				batch, bytes = nil, 0
			}
			batch = append(batch, x)
			bytes += size(&x)
		}
		if len(batch) > 0 {
			yield(batch, nil)
		}
	}
}

// stream returns the elements of a slice as a stream that can't fail.
func stream[T any](all []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, x := range all {
			if !yield(x, nil) {
				return
			}
		}
	}
}

// grace returns a context that outlives ctx, for a change that should be completed.
func grace(ctx context.Context, c *client.Client) (context.Context, context.CancelFunc) {
	limited, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(c.Status().Timeout, cancel)
		context.AfterFunc(limited, func() { timer.Stop() })
	})
	return limited, func() { stop(); cancel() }
}
