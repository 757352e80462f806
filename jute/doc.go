// Package jute implements ZooKeeper's client wire format: the primitive encodings, the
// records of every operation, and named types for the protocol's numbers (zxid, session
// id, error code, opcode, permission bits, ...).
//
// All integers are big-endian two's complement. A buffer or ustring is an int
// length followed by that many bytes; length -1 means null. A vector is an int
// count followed by its elements; count -1 means null. Records are their
// fields, concatenated, with no tags and no padding (docs: wire.md section 2,
// Apache's jute compiler).
//
// # Encoding and decoding
//
// A record has a method Append, which appends its encoding, and a method Decode, which reads
// it; these say more only where there is more to know. Encoders append to a slice and return
// it, like strconv.AppendInt; they allocate only to grow that slice. Decoding uses a [Decoder], which remembers the first error and checks
// every length against the remaining bytes before it allocates. A decoding error wraps
// [ErrMarshalling], the code with which the request is answered.
//
// # Invariants
//
//   - An encoded value decodes to an equal value. A decoded record encodes to the same
//     bytes, except for nulls: a null buffer stays null, but a null string or vector,
//     where allowed, becomes an empty one.
//   - Encoding allocates nothing if the slice has room.
//   - No input makes a Decoder panic or allocate more than a small multiple of the
//     input's length.
//
// # Goroutines
//
// The package is pure: it has no state, does no I/O, and its functions may be called from
// any goroutine. A Decoder belongs to one goroutine.
package jute
