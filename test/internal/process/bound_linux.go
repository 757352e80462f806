package process

import "syscall"

// bound makes a server end with the test: one that is killed must not leave
// servers behind.
func bound() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
