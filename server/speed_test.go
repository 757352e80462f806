package server

import (
	"strings"
	"testing"

	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/jute"
)

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
						if _, err := c.in.next(); err != nil {
							b.Fatal(err)
						}
					}
				}
			})
		}
	}
}
