//go:build !linux

package local

import "syscall"

// bound keeps signals of the terminal from a server: Close ends it.
func bound() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
