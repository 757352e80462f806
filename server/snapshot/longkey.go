package snapshot

import (
	"encoding/binary"
	"errors"
)

// plainKeyMax is the length up to which keys are stored as they are. A longer key is stored
// as its first plainKeyMax bytes and eight more, so exactly the stored keys of that length
// are shortened ones. A shortened key sorts after a plain key that is its prefix, as it
// should.
const (
	plainKeyMax  = 32000
	shortenedLen = plainKeyMax + 8
)

// shorten returns the stored form of key and value.
func (b *builder) shorten(key, value []byte) (k, v []byte) {
	if len(key) <= plainKeyMax {
		return key, value
	}
	b.long++
	rest := key[plainKeyMax:]
	b.key = append(b.key[:0], key[:plainKeyMax]...)
	b.key = binary.BigEndian.AppendUint64(b.key, b.long)
	v = binary.AppendUvarint(make([]byte, 0, binary.MaxVarintLen32+len(rest)+len(value)), uint64(len(rest)))
	v = append(v, rest...)
	return b.key, append(v, value...)
}

// lengthen is the inverse of shorten.
func lengthen(key, value []byte) (k, v []byte, err error) {
	if len(key) <= plainKeyMax {
		return key, value, nil
	}
	n, width := binary.Uvarint(value)
	if len(key) != shortenedLen || width <= 0 || n == 0 || n > uint64(len(value)-width) {
		return nil, nil, errors.New("bad form of a long key")
	}
	rest := value[width:][:n]
	k = append(make([]byte, 0, plainKeyMax+len(rest)), key[:plainKeyMax]...)
	return append(k, rest...), value[width+int(n):], nil
}
