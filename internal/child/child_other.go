//go:build !linux

package child

import "syscall"

// EndsWithParent returns attributes without effect: here nothing ends a process with its parent.
func EndsWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
