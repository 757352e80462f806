package server

import (
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/internal/testing/crashfs"
	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/jute"
)

// diskOfRate is a file system whose writes take time by their size, and whose syncs take a
// millisecond.
type diskOfRate struct {
	vfs.FS
	perSecond int // bytes
}

func (d diskOfRate) Create(name string) (vfs.File, error) { return d.slow(d.FS.Create(name)) }

func (d diskOfRate) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	return d.slow(d.FS.OpenFile(name, flag, perm))
}

func (d diskOfRate) slow(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return fileOfRate{f, d.perSecond}, nil
}

type fileOfRate struct {
	vfs.File
	perSecond int
}

func (f fileOfRate) WriteAt(p []byte, off int64) (int, error) {
	time.Sleep(time.Duration(len(p)) * time.Second / time.Duration(f.perSecond))
	return f.File.WriteAt(p, off)
}

func (f fileOfRate) SyncData() error {
	time.Sleep(time.Millisecond)
	return f.File.SyncData()
}

// neighbour is what eight connections write beside the calm clients.
type neighbour struct {
	bytes     int // of a write
	perSecond int // writes of all eight; 0 for as many as the server reads
}

// TestNoisyNeighbour has ten calm clients whose short writes come at random times, 1,000 a second, alone and
// beside a neighbour. A calm write waits for the end of what the disk is writing, and then for its own, as it does
// alone. Many short writes of others share these syncs. Of long ones little is under way while calm clients write;
// it could keep the disk busy for a sixth of a second.
func TestNoisyNeighbour(t *testing.T) {
	alone, _ := writesBeside(t, neighbour{}, true)
	for _, n := range []neighbour{{100, 9000}, {10_000, 0}, {100_000, 0}} {
		p99, rate := writesBeside(t, n, true)
		t.Logf("beside %d bytes: p99 %v, alone %v; the neighbour writes %d MiB/s", n.bytes, p99, alone, rate>>20)
		if p99 > 2*alone+alone/10 { // 1.97 times with 100 KB: the order of goroutines adds little
			t.Errorf("beside writes of %d bytes: the calm clients' p99 is %v, and %v alone", n.bytes, p99, alone)
		}
		if n.perSecond == 0 && rate < diskRate/4 {
			t.Errorf("beside calm clients, writes of %d bytes have %d MiB/s only", n.bytes, rate>>20)
		}
	}
	// The disk takes 10 ms for a single write of that size.
	if p99, _ := writesBeside(t, neighbour{1_000_000, 0}, true); p99 > 25*time.Millisecond {
		t.Errorf("beside writes of a megabyte: the calm clients' p99 is %v", p99)
	}
}

// TestLongWritesAlone has the neighbours without the calm clients: nothing bounds them but the disk.
func TestLongWritesAlone(t *testing.T) {
	if _, rate := writesBeside(t, neighbour{100_000, 0}, false); rate < diskRate*9/10 {
		t.Errorf("long writes have %d MiB/s, and the disk %d", rate>>20, diskRate>>20)
	}
}

const diskRate = 100 << 20 // bytes per second

// writesBeside returns the 99th percentile of what the calm clients' writes take, if there are calm ones, beside
// a neighbour, and how many bytes that one writes per second.
func writesBeside(t *testing.T, n neighbour, calm bool) (p99 time.Duration, rate int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newTestServer(t, Options{FS: diskOfRate{crashfs.New(1), diskRate}, Config: parseConfig(t, "/data", "preAllocSize=65536")})
		s.limits.requests = 16 << 20
		check(t, s.Start(t.Context()))
		s.connect(t).create("/loud", "")
		frame := frameOf(requestFrame(1, jute.OpSetData, set("/loud", string(make([]byte, n.bytes)))))
		var loud sync.WaitGroup
		for i := range 8 {
			if n.bytes == 0 {
				break
			}
			c, rng := s.connect(t), rand.New(rand.NewPCG(1, uint64(i)))
			loud.Go(func() {
				for {
					if n.perSecond > 0 {
						time.Sleep(time.Duration(rng.ExpFloat64() * float64(8*time.Second) / float64(n.perSecond)))
					}
					if _, err := c.nc.Write(frame); err != nil {
						return
					}
				}
			})
			loud.Go(func() { io.Copy(io.Discard, c.nc) })
		}
		time.Sleep(2 * time.Second)
		if under := s.overview.read().WaitingBytes; n.bytes > 0 && n.perSecond == 0 && under < 8<<20 {
			t.Errorf("the loud connections have only %d bytes under way", under)
		}
		began, before := time.Now(), s.state.Applied()
		var took []time.Duration
		if calm {
			took = calmWrites(t, s, func(rng *rand.Rand) time.Duration {
				return time.Duration(rng.ExpFloat64() * float64(9*time.Millisecond))
			})
			p99 = took[len(took)*99/100]
		} else {
			time.Sleep(time.Second)
		}
		writes := int(s.state.Applied()-before) - len(took)
		rate = int(float64(writes*n.bytes) / time.Since(began).Seconds())
		check(t, s.Close())
		loud.Wait()
	})
	return p99, rate
}

// calmWrites returns how long the writes of ten clients take, in order. between is the time between
// two of a client.
func calmWrites(t *testing.T, s *testServer, between func(*rand.Rand) time.Duration) (took []time.Duration) {
	t.Helper()
	var mu sync.Mutex
	var work sync.WaitGroup
	for i := range 10 {
		c, rng := s.connect(t), rand.New(rand.NewPCG(2, uint64(i)))
		work.Go(func() {
			for range 40 {
				time.Sleep(between(rng))
				began := time.Now()
				c.set("/", "calm")
				mu.Lock()
				took = append(took, time.Since(began))
				mu.Unlock()
			}
		})
	}
	work.Wait()
	slices.Sort(took)
	return took
}
