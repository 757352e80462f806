package watch

import "unsafe"

// withAlias calls f with a string that shares the bytes of buf.
func withAlias(buf []byte, f func(s string)) { f(unsafe.String(&buf[0], len(buf))) }
