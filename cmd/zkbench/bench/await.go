package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/zkd-project/zkd/jute"
)

const (
	// attemptEvery is the time between the attempts of AwaitRead.
	attemptEvery = 20 * time.Millisecond
	// attemptTimeout is the limit for each of them.
	attemptTimeout = 5 * time.Second
)

// AwaitRead tries to read path from the servers of t, one after the other, until that works.
// It returns ctx's error with the last reason if it does not. A node that does not exist ends
// it at once.
//
// It starts each attempt, in a separate session, without waiting for the previous ones: a
// starting server may accept a connection and then ignore it for seconds.
func AwaitRead(ctx context.Context, t Target, path string) error {
	return await(ctx, "read "+path, func(ctx context.Context, i int) error {
		return once(ctx, t.addr(i), jute.OpGetData, append(jute.AppendString(nil, path), 0))
	})
}

// AwaitWrite is AwaitRead for a write: it tries to set the data of path, which exists.
func AwaitWrite(ctx context.Context, t Target, path string) error {
	body := jute.AppendInt32(jute.AppendBuffer(jute.AppendString(nil, path), []byte{}), int32(-1))
	return await(ctx, "set "+path, func(ctx context.Context, i int) error {
		return once(ctx, t.addr(i), jute.OpSetData, body)
	})
}

// await makes attempts until one succeeds.
func await(ctx context.Context, what string, attempt func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	results := make(chan error)
	ticker := time.NewTicker(attemptEvery)
	defer ticker.Stop()
	last := errors.New("none yet")
	for i := 0; ; i++ {
		wg.Go(func() {
			err := attempt(ctx, i)
			select {
			case results <- err:
			case <-ctx.Done():
			}
		})
		for waiting := true; waiting; {
			select {
			case err := <-results:
				if err == nil || errors.Is(err, jute.ErrNoNode) {
					return err
				}
				last = err
			case <-ticker.C:
				waiting = false
			case <-ctx.Done():
				return fmt.Errorf("%s: %w; last attempt: %w", what, context.Cause(ctx), last)
			}
		}
	}
}

// once sends one request in a separate session.
func once(ctx context.Context, addr string, op jute.OpCode, body []byte) error {
	c, err := openConn(ctx, addr, connOptions{
		timeout: attemptTimeout, window: 1, clock: newClock(),
	})
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { c.stop(ctx.Err()) })()
	if _, err = c.call(op, body); err != nil {
		c.abandon()
		return err
	}
	return c.close()
}
