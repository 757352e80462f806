package child

import "syscall"

// EndsWithParent returns the attribute of a process that is killed when the thread that has
// started it ends.
func EndsWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
