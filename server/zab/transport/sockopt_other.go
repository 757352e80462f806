//go:build !linux

package transport

import (
	"net"
	"time"
)

// setUserTimeout has an effect on Linux only.
func setUserTimeout(net.Conn, time.Duration) {}
