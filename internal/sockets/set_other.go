//go:build !linux

package sockets

import (
	"errors"
	"syscall"
)

// Set is not available on this system.
type Set struct{}

// NewSet returns errors.ErrUnsupported.
func NewSet(func(id uint64)) (*Set, error) { return nil, errors.ErrUnsupported }

// Await is never called.
func (s *Set) Await(syscall.RawConn, uint64, bool) error { return errors.ErrUnsupported }

// Close does nothing.
func (s *Set) Close() {}
