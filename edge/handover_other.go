//go:build !linux

package edge

import (
	"errors"
	"os"
	"syscall"
)

var errNoHandover = errors.New("an edge can hand its clients over only on Linux")

func (p *peer) send(byte, []byte, syscall.Conn) error    { return errNoHandover }
func (p *peer) receive() (byte, []byte, *os.File, error) { return 0, nil, nil, errNoHandover }
func (p *peer) same() (int, error)                       { return 0, errNoHandover }
func (p *peer) readable() error                          { return errNoHandover }
func (p *peer) alive() error                             { return errNoHandover }

func gone(error) bool { return false }
