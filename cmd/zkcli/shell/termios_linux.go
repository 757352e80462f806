package shell

import "golang.org/x/sys/unix"

const (
	ioctlGetTermios = unix.TCGETS
	ioctlSetTermios = unix.TCSETS
)

// localModes is the type of the modes of a terminal.
type localModes = uint32
