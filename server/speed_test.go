package server

import (
	"strings"
	"testing"

	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/jute"
)

// TestReadsOfAnIdleConnectionAllocateNothing, from the frame to the reply.
func TestReadsOfAnIdleConnectionAllocateNothing(t *testing.T) {
	s := startServer(t)
	c := s.connect(t)
	c.create("/n", strings.Repeat("x", 100))
	c.create("/n/child", "")
	sc := s.conns.all()[0]
	for name, frame := range map[string][]byte{
		"getData":      requestFrame(1, jute.OpGetData, get("/n", false)),
		"exists":       requestFrame(1, jute.OpExists, get("/n", false)),
		"absent":       requestFrame(1, jute.OpExists, get("/m", false)),
		"getChildren2": requestFrame(1, jute.OpGetChildren2, get("/n", false)),
		"ping":         requestFrame(jute.XidPing, jute.OpPing, nil),
	} {
		// The test takes the place of the connection's reader, which sleeps.
		n := testing.AllocsPerRun(200, func() {
			if err := sc.handle(frame); err != nil {
				t.Fatal(err)
			}
			sc.mu.Lock()
			sc.mu.out.b = sc.mu.out.b[:0]
			sc.mu.Unlock()
		})
		if n != 0 {
			t.Errorf("%s allocates %v times, want none", name, n)
		}
	}
}

// BenchmarkPipe serves one client in memory, window requests at a time.
func BenchmarkPipe(b *testing.B) {
	for name, op := range map[string]jute.OpCode{"get": jute.OpGetData, "set": jute.OpSetData} {
		for _, window := range []int{1, 100} {
			b.Run(name+"/window="+map[int]string{1: "1", 100: "100"}[window], func(b *testing.B) {
				s := startOn(b, vfs.OS{}, b.TempDir(), "forceSync=no")
				c := s.connect(b)
				value := strings.Repeat("x", 1024)
				c.create("/n", value)
				var body record = get("/n", false)
				if op == jute.OpSetData {
					body = set("/n", value)
				}
				var batch []byte
				for range window {
					batch = append(batch, frameOf(requestFrame(1, op, body))...)
				}
				b.ReportAllocs()
				for n := 0; b.Loop(); n++ {
					if n%window != 0 {
						continue
					}
					c.nc.Write(batch)
					for range window {
						if _, err := nextFrame(c.in); err != nil {
							b.Fatal(err)
						}
					}
				}
			})
		}
	}
}
