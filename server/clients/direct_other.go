//go:build !unix

package clients

import "net"

// directWriter exists on Unix only.
type directWriter struct{}

func newDirectWriter() *directWriter { return nil }

func (*directWriter) write(*net.TCPConn, []byte) (int, error) { return 0, nil }
