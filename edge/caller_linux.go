package edge

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// callerOf returns the process that has connected a UNIX socket, with its control group if cgroup is set. Of other connections nothing is known.
func callerOf(nc net.Conn, cgroup bool) (p caller) {
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
		if cgroup {
			p.cgroup = cgroupOf(fd)
		}
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

// cgroupOf returns the control group of the process that has connected a UNIX socket, by version 2, or "" if that is not known: Linux tells it
// from 6.5 on, of a process that is there, in /proc.
func cgroupOf(fd uintptr) string {
	pidfd, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	if err != nil {
		return ""
	}
	defer unix.Close(pidfd)
	pid := processOf(pidfd)
	text, err := os.ReadFile("/proc/" + pid + "/cgroup")
	if pid == "" || err != nil || processOf(pidfd) != pid { // it has ended: its number may have become that of another one
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if group, ok := strings.CutPrefix(line, "0::"); ok {
			return strings.TrimSuffix(group, "\n")
		}
	}
	return ""
}

// processOf returns the number of a process, or "" if it has ended, or has none here.
func processOf(pidfd int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", pidfd))
	for line := range strings.Lines(string(text)) {
		if pid, ok := strings.CutPrefix(line, "Pid:"); ok {
			if pid = strings.TrimSpace(pid); pid != "-1" && pid != "0" {
				return pid
			}
		}
	}
	return ""
}

// tellsGroups returns an error if the system does not tell the control groups of clients.
func tellsGroups() error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	if cgroupOf(uintptr(pair[0])) == "" {
		return errors.New("this system does not tell the control group of a client: that needs Linux 6.5 with control groups of version 2, and /proc")
	}
	return nil
}
