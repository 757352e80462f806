package jute

import (
	"math"
	"strconv"
)

// AppendSequence appends the number of a sequential znode to its name: at least ten
// characters, padded with zeros after the sign, as Java's %010d.
func AppendSequence(b []byte, n int32) []byte {
	var buf [10]byte
	v, width := int64(n), 10
	if v < 0 {
		b = append(b, '-')
		v, width = -v, 9
	}
	digits := strconv.AppendInt(buf[:0], v, 10)
	for i := len(digits); i < width; i++ {
		b = append(b, '0')
	}
	return append(b, digits...)
}

// Sequence returns the number at the end of a sequential znode's name, if that number has
// width characters: ten, or eleven below -999999999. After 2^31-1 the servers continue with
// -2^31, so a hyphen before ten digits may be a sign or belong to the name.
func Sequence(name string, width int) (n int32, ok bool) {
	if width != 10 && width != 11 || len(name) < width {
		return 0, false
	}
	end, v, least := name[len(name)-width:], int64(0), int64(0)
	negative := end[0] == '-'
	if negative {
		end = end[1:]
	}
	if width == 11 {
		least = 1_000_000_000
	}
	for i := range len(end) {
		if end[i] < '0' || end[i] > '9' {
			return 0, false
		}
		v = v*10 + int64(end[i]-'0')
	}
	switch {
	case negative && least <= v && 0 < v && v <= -math.MinInt32:
		return int32(-v), true
	case !negative && width == 10 && v <= math.MaxInt32:
		return int32(v), true
	}
	return 0, false
}

// Precedes reports whether a sequential znode with the number a was created before one with
// the number b under the same parent, although the numbers wrap around.
func Precedes(a, b int32) bool { return a-b < 0 }
