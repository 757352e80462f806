package edge

import (
	"net"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// callerOf returns the process that has connected a UNIX socket. Of other connections nothing is known.
func callerOf(nc net.Conn) (p caller) {
	socket, ok := nc.(syscall.Conn)
	if !ok || nc.LocalAddr().Network() != "unix" {
		return p
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return p
	}
	raw.Control(func(fd uintptr) {
		who, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err != nil {
			return
		}
		p = caller{known: true, user: who.Uid, groups: append(groupsOf(fd), who.Gid)}
	})
	return p
}

// groupsOf returns the supplementary groups of the process, which Linux tells from 4.13 on.
func groupsOf(fd uintptr) []uint32 {
	list := make([]uint32, 64)
	for {
		size := uint32(4 * len(list))
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, fd, unix.SOL_SOCKET, unix.SO_PEERGROUPS, uintptr(unsafe.Pointer(&list[0])), uintptr(unsafe.Pointer(&size)), 0)
		switch {
		case errno == unix.ERANGE && int(size) > 4*len(list):
			list = make([]uint32, size/4)
		case errno != 0:
			return nil
		default:
			return list[:size/4]
		}
	}
}
