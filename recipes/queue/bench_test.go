package queue_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/recipes/queue"
)

// BenchmarkQueue hands items of 100 bytes over, from producers to consumers, each with
// its own session: one operation is one item. ZKD_TEST_SERVERS names the servers; without it
// there is one in this process.
func BenchmarkQueue(b *testing.B) {
	for _, n := range []int{1, 4} {
		for _, batch := range []int{1, 100} {
			name := fmt.Sprintf("clients=%d/batch=%d/", n, batch)
			b.Run(name+"exactly", func(b *testing.B) { handOver(b, n, batch, queue.Options{}) })
			b.Run(name+"atleast", func(b *testing.B) {
				handOver(b, n, batch, queue.Options{Offers: queue.AtLeastOnce, Takes: queue.AtLeastOnce})
			})
			if n > 1 {
				b.Run(name+"unordered", func(b *testing.B) { handOver(b, n, batch, queue.Options{Unordered: true}) })
			}
		}
	}
}

func handOver(b *testing.B, n, batch int, o queue.Options) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	servers := zktest.Target(b, 1)
	path := fmt.Sprintf("/bench-%d", time.Now().UnixNano())
	create := func() *queue.Queue { return open(b, servers.Client(b, quiet), path, o) }
	var left atomic.Int64
	var consumers, producers sync.WaitGroup
	left.Store(int64(b.N))
	b.ResetTimer()
	for range n {
		q := create()
		consumers.Go(func() {
			for left.Load() > 0 {
				items, err := q.TakeAll(ctx, batch)
				if err != nil {
					return
				}
				if left.Add(-int64(len(items))) <= 0 {
					stop()
				}
			}
		})
	}
	for i := range n {
		q := create()
		share := (b.N + i) / n
		producers.Go(func() {
			data := make([]byte, 100)
			for share > 0 {
				items := min(batch, share)
				words := make([][]byte, items)
				for j := range words {
					words[j] = data
				}
				if err := q.OfferAll(context.Background(), words); err != nil {
					b.Error(err)
					return
				}
				share -= items
			}
		})
	}
	producers.Wait()
	consumers.Wait()
}

func quiet(o *client.Options) { o.Logger = client.NoLog }

// BenchmarkLeased is BenchmarkQueue of a Leased queue: a lease and its acknowledgement
// for each item, of eight workers in one process.
func BenchmarkLeased(b *testing.B) {
	ctx := context.Background()
	c := zktest.Target(b, 1).Client(b, quiet)
	q := openLeased(b, c, fmt.Sprintf("/bench-%d", time.Now().UnixNano()), queue.Options{})
	items := make([][]byte, b.N)
	for i := range items {
		items[i] = make([]byte, 100)
	}
	if err := q.OfferAll(ctx, items, queue.DefaultPriority); err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	var left atomic.Int64
	left.Store(int64(b.N))
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for left.Add(-1) >= 0 {
				l, err := q.Take(ctx)
				if err != nil {
					b.Error(err)
					return
				}
				if err := l.Ack(ctx); err != nil {
					b.Error(err)
				}
			}
		})
	}
	workers.Wait()
}
