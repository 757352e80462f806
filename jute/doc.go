// Package jute is ZooKeeper's client wire format: the primitive encodings, the
// records of every operation, and the types that give the protocol's numbers
// their names (zxid, session id, error code, opcode, permission bits, ...).
//
// All integers are big-endian two's complement. A buffer or ustring is an int
// length followed by that many bytes; length -1 means null. A vector is an int
// count followed by its elements; count -1 means null. Records are their
// fields, concatenated, with no tags and no padding (docs: wire.md section 2,
// Apache's jute compiler).
//
// # Encoding and decoding
//
// Encoders append to a slice and return it, as strconv.AppendInt does; they
// allocate nothing but the growth of that slice. Decoding goes through a
// [Decoder], which remembers the first error and checks every length against
// the bytes that are there before it allocates. A decoding error wraps
// [ErrMarshalling]: it is what the request is answered with.
//
// # Invariants
//
//   - What encodes decodes to an equal value. What decodes encodes back to the
//     same bytes, save for nulls: a null buffer stays null, but a null string
//     or vector that is allowed at all becomes an empty one.
//   - Encoding allocates nothing if the slice has room.
//   - No input makes a Decoder panic or allocate more than a small multiple of
//     the input's length.
//
// # Goroutines
//
// The package is pure: it has no state, does no I/O, and its functions may be
// called from anywhere. A Decoder belongs to one goroutine.
package jute
