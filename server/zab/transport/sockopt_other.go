//go:build !linux

package transport

import (
	"net"
	"time"
)

// setUserTimeout does something on Linux alone.
func setUserTimeout(net.Conn, time.Duration) {}
