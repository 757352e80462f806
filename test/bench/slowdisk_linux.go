package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
	"unsafe"
)

// A process gets a slow disk by a filter of seccomp(2): the kernel tells this
// process of each fsync and fdatasync of the other before it does them, and
// waits for the answer. The filter must be in place before the program starts,
// so this program is started in its stead, installs the filter, sends the
// descriptor to be asked on, and becomes the program.

// slowCommand as the first argument makes this program do that.
const slowCommand = "with-slow-disk"

// startOnSlowDisk runs the process with each sync taking longer by delay.
func (s *server) startOnSlowDisk(delay time.Duration) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socketpair: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "ours"), os.NewFile(uintptr(pair[1]), "theirs")
	defer ours.Close()
	err = s.startAs(append([]string{self, slowCommand}, s.argv...), theirs)
	theirs.Close()
	if err != nil {
		return err
	}
	syncs, err := receiveFile(ours)
	if err != nil {
		return fmt.Errorf("install the filter for a slow disk: %w\n%s", err, s.tail())
	}
	go delaySyncs(syncs, delay)
	return nil
}

// receiveFile takes a descriptor from a socket.
func receiveFile(socket *os.File) (*os.File, error) {
	c, err := net.FileConn(socket)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	oob := make([]byte, syscall.CmsgSpace(4))
	_, n, _, _, err := c.(*net.UnixConn).ReadMsgUnix(make([]byte, 1), oob)
	if err != nil {
		return nil, err
	}
	messages, err := syscall.ParseSocketControlMessage(oob[:n])
	if err != nil || len(messages) != 1 {
		return nil, errors.Join(err, errors.New("the process sent no descriptor"))
	}
	fds, err := syscall.ParseUnixRights(&messages[0])
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fds[0]), "seccomp"), nil
}

// What seccomp(2) and seccomp_unotify(2) exchange.
const (
	prSetNoNewPrivs     = 38
	setModeFilter       = 1
	flagNewListener     = 8
	returnNotify        = 0x7fc00000
	returnAllow         = 0x7fff0000
	ioctlReceive        = 0xc0502100
	ioctlSend           = 0xc0182101
	flagContinue        = 1
	pollIn, pollHangup  = 1, 16
	offsetOfSyscall     = 0
	loadWord, jumpEqual = 0x20, 0x15 // BPF_LD|BPF_W|BPF_ABS, BPF_JMP|BPF_JEQ|BPF_K
	returnWord          = 0x06       // BPF_RET|BPF_K
	notificationLongs   = 80 / 8
	seccompAMD64        = 317
	seccompARM64        = 277
)

type answer struct {
	id    uint64
	value int64
	err   int32
	flags uint32
}

// delaySyncs delays each sync, until the process has ended.
func delaySyncs(file *os.File, delay time.Duration) {
	defer file.Close()
	fd := file.Fd()
	for {
		poll := struct {
			fd              int32
			events, revents int16
		}{fd: int32(fd), events: pollIn}
		_, _, errno := syscall.Syscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&poll)), 1, 0, 0, 0, 0)
		switch {
		case errno == syscall.EINTR:
			continue
		case errno != 0 || poll.revents != pollIn:
			return // hung up: no thread has the filter any more
		}
		var n [notificationLongs]uint64
		if ioctl(fd, ioctlReceive, unsafe.Pointer(&n)) != 0 {
			continue // its thread was killed meanwhile
		}
		time.AfterFunc(delay, func() { letGo(file, n[0]) })
	}
}

// letGo lets a sync begin. It does nothing if its thread, or the process, was killed.
func letGo(file *os.File, id uint64) {
	c, err := file.SyscallConn()
	if err != nil {
		return
	}
	_ = c.Control(func(fd uintptr) {
		a := answer{id: id, flags: flagContinue}
		ioctl(fd, ioctlSend, unsafe.Pointer(&a))
	})
}

func ioctl(fd, request uintptr, arg unsafe.Pointer) syscall.Errno {
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, fd, request, uintptr(arg))
	return errno
}

// becomeSlow installs the filter, sends its descriptor to descriptor 3, and
// becomes the program of argv. It returns only if that fails.
func becomeSlow(argv []string) error {
	runtime.LockOSThread() // the filter is the thread's, which execs
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return err
	}
	fd, err := filterSyncs()
	if err != nil {
		return err
	}
	if err := syscall.Sendmsg(3, []byte{0}, syscall.UnixRights(fd), nil, 0); err != nil {
		return fmt.Errorf("send the filter's descriptor: %w", err)
	}
	syscall.CloseOnExec(3)
	return fmt.Errorf("exec %s: %w", path, syscall.Exec(path, argv, os.Environ()))
}

// filterSyncs makes this thread ask before each fsync and fdatasync, and returns
// the descriptor on which it asks.
func filterSyncs() (int, error) {
	seccomp := map[string]uintptr{"amd64": seccompAMD64, "arm64": seccompARM64}[runtime.GOARCH]
	if seccomp == 0 {
		return 0, fmt.Errorf("slow disk: not on %s", runtime.GOARCH)
	}
	program := []syscall.SockFilter{
		{Code: loadWord, K: offsetOfSyscall},
		{Code: jumpEqual, K: syscall.SYS_FSYNC, Jt: 1},
		{Code: jumpEqual, K: syscall.SYS_FDATASYNC, Jf: 1},
		{Code: returnWord, K: returnNotify},
		{Code: returnWord, K: returnAllow},
	}
	prog := syscall.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if _, _, errno := syscall.Syscall6(syscall.SYS_PRCTL, prSetNoNewPrivs, 1, 0, 0, 0, 0); errno != 0 {
		return 0, fmt.Errorf("prctl: %w", errno)
	}
	fd, _, errno := syscall.Syscall(seccomp, setModeFilter, flagNewListener, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return 0, fmt.Errorf("seccomp: %w", errno)
	}
	return int(fd), nil
}
