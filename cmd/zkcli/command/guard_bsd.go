//go:build unix && !linux

package command

import (
	"os"
	"syscall"
)

func ownPath() (string, error) { return os.Executable() }

func hideName() {}

func endsWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
