package datatree

import "unsafe"

// blob is the name and data of a znode, one after the other in one allocation that is never
// modified: what was read of it stays valid when the znode has another one, or is deleted.
type blob struct {
	first   *byte
	nameLen int32
	dataLen int32 // -1: null
}

// newBlob returns a blob with copies of name and data.
func newBlob(name string, data []byte) blob {
	b := make([]byte, len(name)+len(data))
	copy(b[copy(b, name):], data)
	dataLen := int32(len(data))
	if data == nil {
		dataLen = -1
	}
	return blob{unsafe.SliceData(b), int32(len(name)), dataLen}
}

// bytes is the length of the data, 0 for null.
func (b *blob) bytes() int { return int(max(b.dataLen, 0)) }

// memory returns what the allocation takes.
func (b *blob) memory() int64 {
	if b.first == nil {
		return 0
	}
	return rounded(int(b.nameLen) + b.bytes())
}

// name returns the name. It shares the memory of the blob, as data does.
func (b *blob) name() string { return unsafe.String(b.first, int(b.nameLen)) }

// data returns the data, which must not be modified.
func (b *blob) data() []byte {
	switch {
	case b.dataLen < 0:
		return nil
	case b.dataLen == 0:
		return []byte{} // not a pointer past the end of the blob
	}
	return unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(b.first), b.nameLen)), int(b.dataLen))
}
