// Package demo shows an ensemble at work: clients write, and take turns at a lock, while
// servers are killed. It says what the clients saw of that, and checks that nothing was lost.
package demo

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/cmd/zkd/local"
	"github.com/zkd-project/zkd/internal/pause"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/hold"
	"github.com/zkd-project/zkd/recipes/lock"
)

// The nodes of the demonstration.
const (
	counter = "/demo/counter"
	Lock    = "/demo/lock"
)

// names are those of the programs that take turns at the lock.
var names = []string{"anna", "ben", "carla", "dora"}

// Options describe a demonstration.
type Options struct {
	Ensemble *local.Ensemble
	// KillEvery is the time from one kill of a leader to the next, and 0 means none. It is
	// longer than Away, for which the server stays down.
	KillEvery, Away time.Duration
	// Write is the time between writes, and Hold how long a program keeps the lock.
	Write, Hold time.Duration
	// Say tells the user something.
	Say func(format string, args ...any)
}

// Result is what has happened.
type Result struct {
	Kills, Writes, Turns int
	Longest              time.Duration // without an acknowledged write, beside a kill
	Lost                 int           // acknowledged writes that were not there
	Expired              int           // sessions
}

// demo is a demonstration that runs.
type demo struct {
	o       Options
	turns   atomic.Int64
	expired atomic.Int64
	writer  *writer
}

// Run shows the ensemble, whose servers run, until ctx ends. The error says what did not work.
func Run(ctx context.Context, o Options) (r Result, err error) {
	d := &demo{o: o}
	first, err := d.connect(ctx)
	if err != nil {
		return r, err
	}
	defer first.Close(context.WithoutCancel(ctx))
	ctx, stop := context.WithCancelCause(ctx)
	var work sync.WaitGroup
	defer work.Wait()
	defer stop(nil)

	if err := settle.Ensure(ctx, first, counter, client.CreateOptions{}); err != nil {
		return r, err
	}
	if d.writer, err = newWriter(ctx, first, o.Write); err != nil {
		return r, err
	}
	work.Go(func() { stop(d.writer.run(ctx)) })
	for _, name := range names {
		c, err := d.connect(ctx)
		if err != nil {
			return r, err
		}
		work.Go(func() {
			defer c.Close(context.WithoutCancel(ctx))
			stop(d.take(ctx, c, name))
		})
	}

	err = d.kills(ctx, &r)
	stop(nil)
	work.Wait()
	r.Writes, r.Turns, r.Expired = int(d.writer.acknowledged.Load()-d.writer.before), int(d.turns.Load()), int(d.expired.Load())
	if cause := context.Cause(ctx); err == nil && cause != nil && !errors.Is(cause, context.Canceled) && !errors.Is(cause, context.DeadlineExceeded) {
		err = cause
	}
	return r, err
}

// connect opens a session.
func (d *demo) connect(ctx context.Context) (*client.Client, error) {
	return client.Connect(ctx, d.o.Ensemble.ConnectString(), client.Options{
		KeepSession: true, Timeout: 40 * time.Second, Logger: client.NoLog, // the longest timeout that the servers grant
		Watcher: func(e client.Event) {
			if e.State == client.StateExpired {
				d.expired.Add(1)
			}
		},
	})
}

// take takes turns at the lock until ctx ends.
func (d *demo) take(ctx context.Context, c *client.Client, name string) error {
	m, err := lock.NewMutex(c, Lock, lock.Options{Options: hold.Options{Data: []byte(name)}})
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		_, err := lock.With(ctx, m, func(ctx context.Context) (struct{}, error) {
			d.turns.Add(1)
			return struct{}{}, pause.For(ctx, d.o.Hold)
		})
		if err != nil && ctx.Err() == nil && !errors.Is(err, recipes.ErrLost) { // it is lost when all servers are killed
			return fmt.Errorf("%s, at the lock: %w", name, err)
		}
	}
	return nil
}

// kills kills leaders until ctx ends.
func (d *demo) kills(ctx context.Context, r *Result) error {
	for d.o.KillEvery > 0 && pause.For(ctx, d.o.KillEvery-d.o.Away) == nil {
		if err := d.kill(ctx, r); err != nil {
			return ended(ctx, err)
		}
	}
	<-ctx.Done()
	return nil
}

// kill kills the leader, looks at what becomes of the clients, and starts the server again.
func (d *demo) kill(ctx context.Context, r *Result) error {
	e := d.o.Ensemble
	leader, err := e.AwaitLeader(ctx, 0)
	if err != nil {
		return err
	}
	d.o.Say("kill -9: server %d, which leads", leader)
	d.writer.longest.Store(0)
	e.Stop(leader, syscall.SIGKILL)
	next, err := e.AwaitLeader(ctx, leader)
	if err != nil {
		return err
	}
	acknowledged, err := d.writer.next(ctx)
	if err != nil {
		return err
	}
	gap := time.Duration(d.writer.longest.Load())
	there, err := d.writer.read(ctx)
	if err != nil {
		return err
	}
	lost := max(0, acknowledged-there)
	r.Kills++
	r.Longest = max(r.Longest, gap)
	r.Lost += int(lost)
	d.o.Say("server %d leads. The longest time without an acknowledged write: %v. %d writes acknowledged, %d lost. %d sessions, %d lost.",
		next, gap.Round(time.Millisecond), acknowledged-d.writer.before, lost, len(names)+1, d.expired.Load())
	if err := pause.For(ctx, d.o.Away); err != nil {
		return err
	}
	if err := e.Start(leader); err != nil {
		return err
	}
	d.o.Say("server %d is started again", leader)
	return nil
}

// writer counts in a node.
type writer struct {
	c            *client.Client
	every        time.Duration
	before       int64        // the count when it began
	acknowledged atomic.Int64 // the last count
	longest      atomic.Int64 // the longest time from one acknowledged write to the next, in ns
}

func newWriter(ctx context.Context, c *client.Client, every time.Duration) (*writer, error) {
	w := &writer{c: c, every: every}
	n, err := w.read(ctx)
	w.before = n
	w.acknowledged.Store(n)
	return w, err
}

// run writes until ctx ends.
func (w *writer) run(ctx context.Context) error {
	last := time.Now()
	for n := w.before + 1; pause.For(ctx, w.every) == nil; n++ {
		if _, err := w.c.Set(ctx, counter, strconv.AppendInt(nil, n, 10), client.AnyVersion); err != nil {
			return ended(ctx, fmt.Errorf("the writer: %w", err))
		}
		now := time.Now()
		w.longest.Store(max(w.longest.Load(), int64(now.Sub(last)-w.every)))
		w.acknowledged.Store(n)
		last = now
	}
	return nil
}

// next waits for one more acknowledged write, and returns its count.
func (w *writer) next(ctx context.Context) (int64, error) {
	for before := w.acknowledged.Load(); ; {
		if n := w.acknowledged.Load(); n > before {
			return n, nil
		}
		if err := pause.For(ctx, time.Millisecond); err != nil {
			return 0, err
		}
	}
}

// read returns the count that the servers have.
func (w *writer) read(ctx context.Context) (int64, error) {
	if err := w.c.Sync(ctx, counter); err != nil {
		return 0, err
	}
	node, err := w.c.Get(ctx, counter)
	if err != nil || len(node.Data) == 0 {
		return 0, err
	}
	return strconv.ParseInt(string(node.Data), 10, 64)
}

// ended returns nil instead of an error after the end of ctx.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}
