package treediff

import (
	"iter"
)

// Batches groups a stream so that no group has more than count elements, or more than
// maxBytes unless it is a single element.
func Batches[T any](all iter.Seq2[T, error], count, maxBytes int, size func(*T) int) iter.Seq2[[]T, error] {
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

// Stream returns the elements of a slice as a stream that can't fail.
func Stream[T any](all []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, x := range all {
			if !yield(x, nil) {
				return
			}
		}
	}
}
