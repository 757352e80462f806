package snapshot

import "hash/crc32"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// concatenated returns the CRC32C of two pieces of data, the second of n bytes, from the CRC32C of each.
//
// A CRC is the remainder of a polynomial over GF(2), whose coefficients are the bits of the data. To put
// n bytes after the first piece multiplies its polynomial by x to the power of 8n.
func concatenated(first, second uint32, n int64) uint32 {
	square := uint32(1) << (31 - 8) // x to the power of 8, 16, 32, and so on
	for ; n > 0; n >>= 1 {
		if n&1 != 0 {
			first = multiply(first, square)
		}
		square = multiply(square, square)
	}
	return first ^ second
}

// multiply multiplies two polynomials modulo that of CRC32C. The highest bit is the coefficient of 1.
func multiply(a, b uint32) (product uint32) {
	for ; a != 0; a <<= 1 {
		if a>>31 != 0 {
			product ^= b
		}
		carry := b & 1
		b >>= 1
		if carry != 0 {
			b ^= crc32.Castagnoli
		}
	}
	return product
}
