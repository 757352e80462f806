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

// TestNoisyNeighbour has ten calm clients with short writes beside eight connections that send
// long ones, as many as the server reads. All of these would keep the disk busy for a sixth of a
// second, and a calm client waits for few of them.
func TestNoisyNeighbour(t *testing.T) {
	const most = 60 * time.Millisecond
	for _, size := range []int{10_000, 100_000} {
		synctest.Test(t, func(t *testing.T) {
			s := newTestServer(t, Options{FS: diskOfRate{crashfs.New(1), 100 << 20}, Config: parseConfig(t, "/data", "preAllocSize=65536")})
			s.limits.requests, s.limits.log = 16<<20, 512<<10
			check(t, s.Start(t.Context()))
			var loud sync.WaitGroup
			s.connect(t).create("/loud", "")
			frame := frameOf(requestFrame(1, jute.OpSetData, set("/loud", string(make([]byte, size)))))
			for range 8 {
				c := s.connect(t)
				loud.Go(func() {
					for {
						if _, err := c.nc.Write(frame); err != nil {
							return
						}
					}
				})
				loud.Go(func() { io.Copy(io.Discard, c.nc) })
			}
			time.Sleep(time.Second)
			if under := s.read().WaitingBytes; under < 8<<20 {
				t.Errorf("the loud connections have only %d bytes under way", under)
			}
			took := calmWrites(t, s, func(*rand.Rand) time.Duration { return 10 * time.Millisecond })
			if p99 := took[len(took)*99/100]; p99 > most {
				t.Errorf("beside writes of %d bytes: the calm clients' p99 is %v, and p50 %v", size, p99, took[len(took)/2])
			}
			check(t, s.Close())
			loud.Wait()
		})
	}
}

// TestNoisyNeighbourWithShortWrites has ten calm clients whose writes come at random times, 1,000 a
// second, alone and beside 9,000 short ones of others. Both share the syncs of the log, so the calm clients
// wait hardly longer: for the end of the sync that they meet, and for the next.
func TestNoisyNeighbourWithShortWrites(t *testing.T) {
	p99 := func(neighbours int) (p99 time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			s := newTestServer(t, Options{FS: diskOfRate{crashfs.New(1), 100 << 20}, Config: parseConfig(t, "/data", "preAllocSize=65536")})
			check(t, s.Start(t.Context()))
			s.connect(t).create("/loud", "")
			var loud sync.WaitGroup
			frame := frameOf(requestFrame(1, jute.OpSetData, set("/loud", string(make([]byte, 100)))))
			for i := range neighbours {
				c, rng := s.connect(t), rand.New(rand.NewPCG(1, uint64(i)))
				loud.Go(func() {
					for {
						time.Sleep(time.Duration(rng.ExpFloat64() * float64(time.Second/1125)))
						if _, err := c.nc.Write(frame); err != nil {
							return
						}
					}
				})
				loud.Go(func() { io.Copy(io.Discard, c.nc) })
			}
			took := calmWrites(t, s, func(rng *rand.Rand) time.Duration {
				return time.Duration(rng.ExpFloat64() * float64(9*time.Millisecond))
			})
			p99 = took[len(took)*99/100]
			check(t, s.Close())
			loud.Wait()
		})
		return p99
	}
	if alone, beside := p99(0), p99(8); beside > 2*alone {
		t.Errorf("the calm clients' p99 is %v beside others, and %v alone", beside, alone)
	} else {
		t.Logf("alone %v, beside others %v", alone, beside)
	}
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
			for range 20 {
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
