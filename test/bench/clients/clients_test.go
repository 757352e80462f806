package clients

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/cmd/zkbench/bench"
	"github.com/zkd-project/zkd/internal/testing/freeport"
)

// server returns the address of a server to load, started if need be.
func server(b *testing.B) string {
	if addr := os.Getenv("ZKD_TEST_SERVERS"); addr != "" {
		return addr
	}
	addr, _ := startServer(b, b.TempDir())
	return addr
}

// startServer starts a server, and returns its address and the number of its process.
func startServer(b *testing.B, data string) (addr string, pid int) {
	bin := filepath.Join(b.TempDir(), "zkd")
	if out, err := exec.Command("go", "build", "-o", bin, "../../../cmd/zkd").CombinedOutput(); err != nil {
		b.Fatalf("go build: %v\n%s", err, out)
	}
	port := freeport.For(b, 1)[0]
	cmd := exec.Command(bin, "--data-dir", data, "--port", fmt.Sprint(port))
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return fmt.Sprintf("127.0.0.1:%d", port), cmd.Process.Pid
}

// ours returns a connected client, and makes the node that is read.
func ours(b *testing.B, addr string) *client.Client {
	ctx, cancel := context.WithTimeout(b.Context(), 30*time.Second)
	defer cancel()
	c, err := client.Connect(ctx, addr, client.Options{Logger: client.NoLog, Timeout: 30 * time.Second})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close(context.Background()) })
	if _, err := c.Get(ctx, "/bench"); err == nil {
		return c
	}
	if _, err := c.Create(ctx, "/bench", make([]byte, 100), client.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	return c
}

// theirs returns a connected go-zookeeper client.
func theirs(b *testing.B, addr string) *zk.Conn {
	c, events, err := zk.Connect([]string{addr}, 30*time.Second, zk.WithLogInfo(false))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Close)
	for ev := range events {
		if ev.State == zk.StateHasSession {
			break
		}
	}
	return c
}

// window is how many requests are under way at once.
const window = 256

// inFlight calls get n times from as many goroutines as the window has places.
func inFlight(b *testing.B, n int, get func() error) {
	var wg sync.WaitGroup
	for g := range window {
		wg.Go(func() {
			for i := g; i < n; i += window {
				if err := get(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// BenchmarkGet reads 100 bytes: "alone" one read after the other, "pipelined" with
// 256 under way, from as many goroutines or asynchronously from one.
func BenchmarkGet(b *testing.B) {
	addr := server(b)
	c, ctx := ours(b, addr), context.Background()
	get := func() error {
		_, err := c.Get(ctx, "/bench")
		return err
	}
	z := theirs(b, addr)
	theirGet := func() error {
		_, _, err := z.Get("/bench")
		return err
	}
	b.Run("alone/client=zkd", func(b *testing.B) { alone(b, get) })
	b.Run("alone/client=go-zookeeper", func(b *testing.B) { alone(b, theirGet) })
	b.Run("pipelined/client=zkd", func(b *testing.B) {
		b.ReportAllocs()
		inFlight(b, b.N, get)
	})
	b.Run("pipelined/client=zkd-async", func(b *testing.B) {
		b.ReportAllocs()
		async(b, c, b.N)
	})
	b.Run("pipelined/client=go-zookeeper", func(b *testing.B) {
		b.ReportAllocs()
		inFlight(b, b.N, theirGet)
	})
}

func alone(b *testing.B, get func() error) {
	b.ReportAllocs()
	for b.Loop() {
		if err := get(); err != nil {
			b.Fatal(err)
		}
	}
}

// async issues n reads from one goroutine, with at most window under way.
func async(b *testing.B, c *client.Client, n int) {
	var ring [window]*client.Future[client.Node]
	a, ctx := c.Async(), context.Background()
	for i := range n + window {
		if f := ring[i%window]; f != nil {
			if _, err := f.Wait(ctx); err != nil {
				b.Fatal(err)
			}
			ring[i%window] = nil
		}
		if i < n {
			ring[i%window] = a.Get("/bench")
		}
	}
}

// BenchmarkReadTree reads 10,000 nodes one by one and all at once: row C51 of the
// seeds, "10 s versus about 1 s".
func BenchmarkReadTree(b *testing.B) {
	const nodes = 10_000
	addr := server(b)
	c, ctx := ours(b, addr), context.Background()
	paths := make([]string, nodes)
	var made []*client.Future[client.Created]
	for i := range paths {
		paths[i] = fmt.Sprintf("/bench/n%05d", i)
		made = append(made, c.Async().Create(paths[i], make([]byte, 100), client.CreateOptions{}))
	}
	for _, f := range made {
		f.Wait(ctx)
	}
	b.Run("one-by-one", func(b *testing.B) {
		for b.Loop() {
			for _, p := range paths {
				if _, err := c.Get(ctx, p); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
	b.Run("async", func(b *testing.B) {
		futures := make([]*client.Future[client.Node], nodes)
		for b.Loop() {
			for i, p := range paths {
				futures[i] = c.Async().Get(p)
			}
			for _, f := range futures {
				if _, err := f.Wait(ctx); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}

// BenchmarkSet sets 100 bytes with 256 writes under way, in a plain and in an exactly-once session, and
// reports the CPU time of the server and of the client for each. Its data is on a memory disk.
func BenchmarkSet(b *testing.B) {
	data, err := os.MkdirTemp("/dev/shm", "zkd-bench-")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(data) })
	addr, pid := startServer(b, data)
	ours(b, addr)
	for _, exactly := range []bool{false, true} {
		b.Run(fmt.Sprintf("exactly-once=%v", exactly), func(b *testing.B) {
			ctx := context.Background()
			c, err := client.Connect(ctx, addr, client.Options{Logger: client.NoLog, Timeout: 30 * time.Second, PlainSession: !exactly})
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close(ctx)
			value := make([]byte, 100)
			servers, own := cpu(b, pid), cpu(b, os.Getpid())
			b.ResetTimer()
			inFlight(b, b.N, func() error {
				_, err := c.Set(ctx, "/bench", value, client.AnyVersion)
				return err
			})
			b.StopTimer()
			b.ReportMetric(float64((cpu(b, pid)-servers).Nanoseconds())/float64(b.N), "server-cpu-ns/op")
			b.ReportMetric(float64((cpu(b, os.Getpid())-own).Nanoseconds())/float64(b.N), "client-cpu-ns/op")
		})
	}
}

func cpu(b *testing.B, pid int) time.Duration {
	b.Helper()
	t, err := bench.ProcessCPU(pid)
	if err != nil {
		b.Fatal(err)
	}
	return t
}
