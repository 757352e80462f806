package evaluate

import "strconv"

// withSequence returns path followed by the number n.
func withSequence(path string, n int32) string {
	var buf [128]byte
	return string(appendSequence(append(buf[:0], path...), n))
}

// appendSequence appends n with at least ten characters, padded with zeros after the
// sign, as Java's %010d does.
func appendSequence(b []byte, n int32) []byte {
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
