//go:build !linux

package process

import "syscall"

// bound can't make a server end with the test here.
func bound() *syscall.SysProcAttr { return nil }
