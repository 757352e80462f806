package shell

import "golang.org/x/sys/unix"

const (
	ioctlGetTermios = unix.TIOCGETA
	ioctlSetTermios = unix.TIOCSETA
)

// localModes is the type of the modes of a terminal.
type localModes = uint64
