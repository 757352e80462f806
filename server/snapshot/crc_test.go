package snapshot

import (
	"hash/crc32"
	"math/rand/v2"
	"testing"
)

func TestConcatenatedCRC(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	data := make([]byte, 70_000)
	for i := range data {
		data[i] = byte(random.Uint32())
	}
	for _, n := range []int{0, 1, 2, 255, 4096, 8192, 65_536, len(data)} {
		first, second := data[:len(data)-n], data[len(data)-n:]
		got := concatenated(crc32.Checksum(first, castagnoli), crc32.Checksum(second, castagnoli), int64(n))
		if want := crc32.Checksum(data, castagnoli); got != want {
			t.Errorf("%d and %d bytes: %08x, want %08x", len(first), n, got, want)
		}
	}
}
