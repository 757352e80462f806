package cache

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client"
)

// fill creates n nodes of 100 bytes below /bench, in groups of 1000.
func fill(b *testing.B, c *client.Client, root string, n int) {
	b.Helper()
	ctx := b.Context()
	if _, err := c.Create(ctx, root, nil, client.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	data := make([]byte, 100)
	var last *client.Future[client.Created]
	for i := range n {
		if i%1000 == 0 {
			c.Async().Create(fmt.Sprintf("%s/%04d", root, i/1000), nil, client.CreateOptions{})
		}
		last = c.Async().Create(fmt.Sprintf("%s/%04d/n%06d", root, i/1000, i), data, client.CreateOptions{})
	}
	if _, err := last.Wait(ctx); err != nil {
		b.Fatal(err)
	}
}

// memory returns the bytes in use, stacks included.
func memory() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// BenchmarkReady reads nodes of 100 bytes.
func BenchmarkReady(b *testing.B) {
	b.Run("persistent", func(b *testing.B) { ready(b, 100_000, Options{}) })
	b.Run("one-shot", func(b *testing.B) { ready(b, 10_000, Options{OneShot: true}) })
}

func ready(b *testing.B, nodes int, o Options) {
	c := connect(b)
	root := fmt.Sprintf("/bench-%d", time.Now().UnixNano())
	fill(b, c, root, nodes)
	var taken int64
	for b.Loop() {
		before := memory()
		k, err := Open(b.Context(), c, root, o)
		if err != nil {
			b.Fatal(err)
		}
		if err := k.WaitReady(b.Context()); err != nil {
			b.Fatal(err)
		}
		if k.Len() != nodes+nodes/1000+1 {
			b.Fatalf("%d nodes", k.Len())
		}
		b.StopTimer()
		taken = memory() - before
		k.Close()
		b.StartTimer()
	}
	b.ReportMetric(float64(taken)/float64(nodes), "B/node")
	b.ReportMetric(float64(nodes*b.N)/b.Elapsed().Seconds(), "nodes/s")
}

// BenchmarkVisible is a set, and the wait until the cache's event tells of it.
func BenchmarkVisible(b *testing.B) {
	c := connect(b)
	root := fmt.Sprintf("/bench-%d", time.Now().UnixNano())
	fill(b, c, root, 1)
	k, err := Open(b.Context(), c, root, Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer k.Close()
	events := k.Events(b.Context())
	for ev := range events {
		if ev.Type == Ready {
			break
		}
	}
	path := root + "/0000/n000000"
	for b.Loop() {
		if _, err := c.Set(b.Context(), path, nil, client.AnyVersion); err != nil {
			b.Fatal(err)
		}
		for ev := range events {
			if ev.DataChanged() {
				break
			}
		}
	}
}

// BenchmarkGet reads from memory.
func BenchmarkGet(b *testing.B) {
	c := connect(b)
	root := fmt.Sprintf("/bench-%d", time.Now().UnixNano())
	fill(b, c, root, 1000)
	k, err := Open(b.Context(), c, root, Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer k.Close()
	if err := k.WaitReady(b.Context()); err != nil {
		b.Fatal(err)
	}
	path := root + "/0000/n000500"
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := k.Get(path); !ok {
			b.Fatal("not there")
		}
	}
}

func connect(b *testing.B) *client.Client {
	b.Helper()
	c, err := client.Connect(b.Context(), addresses(b), client.Options{Logger: client.NoLog})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close(context.Background()) })
	return c
}
