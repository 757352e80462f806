package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// operation does one operation of a load. n is different for each.
type operation func(ctx context.Context, w *worker, n int) error

// worker has one request under way at a time.
type worker struct {
	client *clientv3.Client
	addrs  []string
	id     int
	value  string
}

// keysEach is how many keys a worker writes and reads: as many in all as zkbench uses.
const keysEach = 2

func (w *worker) key(n int) string { return fmt.Sprintf("/bench/%04d/%d", w.id, n%keysEach) }

func put(ctx context.Context, w *worker, n int) error {
	_, err := w.client.Put(ctx, w.key(n), w.value)
	return err
}

// create puts a new key, on the condition that there is none, as a create of ZooKeeper's does.
func create(ctx context.Context, w *worker, n int) error {
	key := fmt.Sprintf("/new/%d/%d/%d", time.Now().UnixNano(), w.id, n)
	r, err := w.client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).Then(clientv3.OpPut(key, w.value)).Commit()
	if err == nil && !r.Succeeded {
		err = fmt.Errorf("%s exists", key)
	}
	return err
}

// serializable reads from the server that the client is connected to, as ZooKeeper's reads do.
func serializable(ctx context.Context, w *worker, n int) error {
	r, err := w.client.Get(ctx, w.key(n), clientv3.WithSerializable())
	if err == nil && (len(r.Kvs) != 1 || len(r.Kvs[0].Value) != len(w.value)) {
		err = fmt.Errorf("%s: %d values", w.key(n), len(r.Kvs))
	}
	return err
}

// session connects, takes a lease and gives it back, as a session of ZooKeeper's begins and ends.
func session(ctx context.Context, w *worker, n int) error {
	c, err := connect(w.addrs[(w.id+n)%len(w.addrs)])
	if err != nil {
		return err
	}
	defer c.Close()
	lease, err := c.Grant(ctx, 30)
	if err != nil {
		return err
	}
	_, err = c.Revoke(ctx, lease.ID)
	return err
}

func connect(addr string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: []string{addr}, DialTimeout: startTimeout})
}

// awaitPut returns when each server has taken a write.
func awaitPut(ctx context.Context, addrs []string) error {
	for _, addr := range addrs {
		c, err := connect(addr)
		if err != nil {
			return err
		}
		for {
			if _, err = c.Put(ctx, "/bench/ready", ""); err == nil || ctx.Err() != nil {
				break
			}
		}
		if c.Close(); err != nil {
			return fmt.Errorf("wait for %s: %w", addr, err)
		}
	}
	return nil
}

// onEtcd runs the load with etcd's client: a goroutine for each request under way.
func (c *comparison) onEtcd(ctx context.Context) (measured, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	clients := make([]*clientv3.Client, c.load.connections)
	for i := range clients {
		cl, err := connect(c.etcd.clients[i%len(c.etcd.clients)])
		if err != nil {
			return measured{}, err
		}
		defer cl.Close()
		clients[i] = cl
	}
	if c.load.do == nil {
		return c.watch(ctx, clients)
	}
	value := strings.Repeat("v", c.load.size)
	var workers []*worker
	for i, cl := range clients {
		for range c.load.window {
			w := &worker{client: cl, addrs: c.etcd.clients, id: len(workers), value: value}
			workers = append(workers, w)
			for k := range keysEach {
				if err := put(ctx, w, k); err != nil {
					return measured{}, fmt.Errorf("client %d: %w", i, err)
				}
			}
		}
	}
	if _, err := c.drive(ctx, workers, c.warmup); err != nil {
		return measured{}, err
	}
	return c.drive(ctx, workers, c.duration)
}

// drive has all workers repeat the load's operation, and measures.
func (c *comparison) drive(ctx context.Context, workers []*worker, duration time.Duration) (measured, error) {
	before, err := c.etcd.cpu()
	if err != nil {
		return measured{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wait sync.WaitGroup
	began := time.Now()
	times := make([]*hdrhistogram.Histogram, len(workers))
	for i, w := range workers {
		times[i] = histogram()
		wait.Go(func() {
			for n := 0; time.Since(began) < duration; n++ {
				t := time.Now()
				if err := c.load.do(ctx, w, n); err != nil {
					cancel(err)
					return
				}
				_ = times[i].RecordValue(time.Since(t).Nanoseconds()) // below the histogram's hour
			}
		})
	}
	wait.Wait()
	took := time.Since(began)
	after, err := c.etcd.cpu()
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	all := histogram()
	for _, h := range times {
		all.Merge(h)
	}
	return figures(all, 1, after-before, took), err
}

func histogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, time.Hour.Nanoseconds(), 3) }

// figures has the figures of operations, of which each recorded time is worth that many.
func figures(times *hdrhistogram.Histogram, worth int, cpu, took time.Duration) measured {
	ops := float64(times.TotalCount() * int64(worth))
	if ops == 0 {
		return measured{}
	}
	us := func(percent float64) float64 { return float64(times.ValueAtPercentile(percent)) / 1e3 }
	return measured{rate: ops / took.Seconds(), cpu: float64(cpu.Microseconds()) / ops, p50: us(50), p99: us(99)}
}

// watch has all clients watch one key, writes it, and waits until all of them have the event.
func (c *comparison) watch(ctx context.Context, clients []*clientv3.Client) (measured, error) {
	const key = "/bench/watched"
	value := strings.Repeat("v", c.load.size)
	seen := make(chan struct{}, len(clients))
	for _, cl := range clients {
		events := cl.Watch(ctx, key, clientv3.WithCreatedNotify())
		if r := <-events; !r.Created {
			return measured{}, fmt.Errorf("watch: %w", r.Err())
		}
		go func() { // ends with ctx
			for r := range events {
				for range r.Events {
					seen <- struct{}{}
				}
			}
		}()
	}
	round := func() error {
		if _, err := clients[0].Put(ctx, key, value); err != nil {
			return err
		}
		for range clients {
			select {
			case <-seen:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return nil
	}
	for warm := time.Now(); time.Since(warm) < c.warmup; {
		if err := round(); err != nil {
			return measured{}, err
		}
	}
	before, err := c.etcd.cpu()
	if err != nil {
		return measured{}, err
	}
	times, began := histogram(), time.Now()
	for time.Since(began) < c.duration {
		t := time.Now()
		if err := round(); err != nil {
			return measured{}, err
		}
		_ = times.RecordValue(time.Since(t).Nanoseconds()) // below the histogram's hour
	}
	took := time.Since(began)
	after, err := c.etcd.cpu()
	return figures(times, len(clients), after-before, took), err
}
