package edge

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// A message is a byte for its kind, an int32 for the length of its body, and the body. A socket comes with its first byte.
const (
	messageHeader = 5
	maxMessage    = 64 << 20
)

// send sends a message, with a socket if there is one.
func (p *peer) send(kind byte, body []byte, socket syscall.Conn) error {
	h := binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(body)))
	if len(body) > maxMessage {
		return &refusal{fmt.Sprintf("a state of %d bytes", len(body))}
	}
	if socket == nil {
		_, err := p.nc.Write(append(h, body...))
		return err
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	failed := raw.Control(func(fd uintptr) {
		if _, _, err = p.nc.WriteMsgUnix(h, syscall.UnixRights(int(fd)), nil); err == nil {
			_, err = p.nc.Write(body)
		}
	})
	return errors.Join(failed, err)
}

// receive takes a message. The socket that comes with it, if one does, is the caller's.
func (p *peer) receive() (kind byte, body []byte, socket *os.File, err error) {
	h, rights := make([]byte, messageHeader), make([]byte, syscall.CmsgSpace(4))
	n, oobn, _, _, err := p.nc.ReadMsgUnix(h, rights)
	if n == 0 && err == nil {
		err = io.EOF
	}
	if err != nil {
		return 0, nil, nil, err
	}
	if socket, err = socketOf(rights[:oobn]); err == nil {
		_, err = io.ReadFull(p.nc, h[n:])
	}
	size := binary.BigEndian.Uint32(h[1:])
	if err == nil && size > maxMessage {
		err = fmt.Errorf("a message of %d bytes", size)
	}
	if err == nil {
		body = make([]byte, size)
		_, err = io.ReadFull(p.nc, body)
	}
	if err != nil && socket != nil {
		socket.Close()
		socket = nil
	}
	return h[0], body, socket, err
}

// socketOf returns the socket of a control message, or nil.
func socketOf(rights []byte) (*os.File, error) {
	if len(rights) == 0 {
		return nil, nil
	}
	list, err := syscall.ParseSocketControlMessage(rights)
	if err != nil || len(list) != 1 {
		return nil, fmt.Errorf("%d control messages: %w", len(list), err)
	}
	fds, err := syscall.ParseUnixRights(&list[0])
	if err != nil || len(fds) != 1 {
		return nil, fmt.Errorf("%d descriptors: %w", len(fds), err)
	}
	return os.NewFile(uintptr(fds[0]), "socket"), nil
}

// same returns the process of the other side, which must be of the same user.
func (p *peer) same() (pid int, err error) {
	raw, err := p.nc.SyscallConn()
	if err != nil {
		return 0, err
	}
	var who *syscall.Ucred
	failed := raw.Control(func(fd uintptr) { who, err = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED) })
	if err := errors.Join(failed, err); err != nil {
		return 0, err
	}
	if int(who.Uid) != os.Geteuid() {
		return 0, fmt.Errorf("process %d is of user %d, and this one of %d", who.Pid, who.Uid, os.Geteuid())
	}
	return int(who.Pid), nil
}

// alive returns an error if the other side has gone.
func (p *peer) alive() error {
	raw, err := p.nc.SyscallConn()
	if err != nil {
		return err
	}
	failed := raw.Control(func(fd uintptr) { err = peek(fd) })
	if errors.Is(err, syscall.EAGAIN) {
		err = nil
	}
	return errors.Join(failed, err)
}

// readable waits until the other side has said something, or has gone. It fails if a deadline passes before.
func (p *peer) readable() error {
	raw, err := p.nc.SyscallConn()
	if err != nil {
		return err
	}
	said := false
	failed := raw.Control(func(fd uintptr) { said = !errors.Is(peek(fd), syscall.EAGAIN) })
	if said || failed != nil {
		return failed
	}
	return raw.Read(func(fd uintptr) bool { return !errors.Is(peek(fd), syscall.EAGAIN) })
}

// peek returns EAGAIN if the other side has nothing to say, and EOF if it has gone.
func peek(fd uintptr) error {
	n, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	if err == nil && n == 0 {
		return io.EOF
	}
	return err
}

// gone reports whether nobody listens at the path that was dialed.
func gone(err error) bool {
	return errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ECONNREFUSED)
}
