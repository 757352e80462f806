package value

import "context"

// ChangeBy is Add with any function: a test's can count itself meanwhile.
func (n *Counter) ChangeBy(ctx context.Context, fn func(int64) (int64, error)) (Change, error) {
	return n.change(ctx, fn)
}
