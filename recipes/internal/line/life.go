package line

import "context"

// lifeKey is the key of the context that what is acquired follows.
type lifeKey struct{}

// WaitOnly is hold.WaitOnly.
func WaitOnly(wait, life context.Context) context.Context {
	return context.WithValue(wait, lifeKey{}, Life(life))
}

// Life returns the context whose end ends the work under what is acquired with ctx.
func Life(ctx context.Context) context.Context {
	if life, ok := ctx.Value(lifeKey{}).(context.Context); ok {
		return life
	}
	return ctx
}

// Follow returns the context of something that was acquired with ctx, and whose own context
// is held: it ends when that ends, and when ctx ends, with the cause of the first.
func Follow(held, ctx context.Context) context.Context {
	ctx = Life(ctx)
	if held.Value(lifeKey{}) != nil { // that was for this acquisition only
		held = context.WithValue(held, lifeKey{}, nil)
	}
	if ctx.Done() == nil {
		return held
	}
	follows, end := context.WithCancelCause(held)
	stop := context.AfterFunc(ctx, func() { end(context.Cause(ctx)) })
	context.AfterFunc(held, func() { stop() })
	return follows
}
