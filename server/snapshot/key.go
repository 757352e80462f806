package snapshot

import "bytes"

// A node's key is its path with every '/' replaced by a zero byte. Paths have no
// zero bytes, so that is reversible, and nothing sorts before a zero byte, so
// the order of bytes is the order of the tree: a parent, then its children by
// name, each followed by its own. (With '/', "/a-b" would come between "/a" and
// "/a/b".)

// AppendPathKey appends the key of path to dst.
func AppendPathKey(dst []byte, path string) []byte {
	start := len(dst)
	dst = append(dst, path...)
	replaceAll(dst[start:], '/', 0)
	return dst
}

// AppendKeyPath appends the path that belongs to key to dst.
func AppendKeyPath(dst, key []byte) []byte {
	start := len(dst)
	dst = append(dst, key...)
	replaceAll(dst[start:], 0, '/')
	return dst
}

func replaceAll(b []byte, from, to byte) {
	for {
		i := bytes.IndexByte(b, from)
		if i < 0 {
			return
		}
		b[i] = to
		b = b[i+1:]
	}
}
