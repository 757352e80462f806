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
	// attemptTimeout bounds each of them.
	attemptTimeout = 5 * time.Second
)

// AwaitRead tries to read path from the first server of t until that works, and
// returns ctx's error with the last reason if it does not. The answer that the
// node does not exist ends it at once.
//
// It starts a new attempt, with a session of its own, without waiting for the
// ones before: a server that is starting may accept a connection and then leave
// it alone for seconds.
func AwaitRead(ctx context.Context, t Target, path string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	results := make(chan error)
	ticker := time.NewTicker(attemptEvery)
	defer ticker.Stop()
	last := errors.New("none yet")
	for {
		wg.Go(func() {
			err := readOnce(ctx, t, path)
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
				return fmt.Errorf("read %s: %w; last attempt: %w", path, context.Cause(ctx), last)
			}
		}
	}
}

// readOnce reads path in a session of its own.
func readOnce(ctx context.Context, t Target, path string) error {
	c, err := openConn(ctx, t.addr(0), connOptions{
		timeout: attemptTimeout, window: 1, readBuffer: 4096, clock: newClock(),
	})
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { c.stop(ctx.Err()) })()
	if _, err = c.call(jute.OpGetData, append(jute.AppendString(nil, path), 0)); err != nil {
		c.abandon()
		return err
	}
	return c.close()
}
