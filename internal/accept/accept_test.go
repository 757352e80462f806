package accept

import (
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// scarce is a listener that fails with these errors, then has a connection.
type scarce []error

func (s *scarce) Accept() (net.Conn, error) {
	if len(*s) == 0 {
		a, _ := net.Pipe()
		return a, nil
	}
	err := (*s)[0]
	*s = (*s)[1:]
	return nil, err
}

func (*scarce) Close() error   { return nil }
func (*scarce) Addr() net.Addr { return nil }

// TestNext has listeners without descriptors, without memory, with a connection that was refused by a filter, and
// closed ones.
func TestNext(t *testing.T) {
	full := &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	for _, tt := range []struct {
		name  string
		fails scarce
		want  error
		told  int // calls of lacks
		takes time.Duration
	}{
		{"connections", nil, nil, 0, 0},
		{"descriptors", scarce{full, full, full}, nil, 2, 3 * pause},
		{"the system's descriptors", scarce{syscall.ENFILE}, nil, 2, pause},
		{"memory", scarce{syscall.ENOMEM, syscall.ENOBUFS}, nil, 2, 2 * pause},
		{"a filter", scarce{syscall.EPERM}, nil, 2, pause},
		{"a client that has left", scarce{syscall.ECONNABORTED}, nil, 2, pause},
		{"closed", scarce{net.ErrClosed}, net.ErrClosed, 0, 0},
		{"closed meanwhile", scarce{full, net.ErrClosed}, net.ErrClosed, 2, pause},
		{"no listener", scarce{syscall.EINVAL}, syscall.EINVAL, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told []error
				began := time.Now()
				_, err := Next(&tt.fails, nil, func(err error) { told = append(told, err) })
				if !errors.Is(err, tt.want) || time.Since(began) != tt.takes {
					t.Errorf("%v after %v, want %v after %v", err, time.Since(began), tt.want, tt.takes)
				}
				if len(told) != tt.told || tt.told > 0 && (told[0] == nil || told[1] != nil) {
					t.Errorf("told %v", told)
				}
			})
		})
	}
}

// TestStop ends the wait for a descriptor.
func TestStop(t *testing.T) {
	stop := make(chan struct{})
	close(stop)
	if _, err := Next(&scarce{syscall.EMFILE, syscall.EMFILE}, stop, func(error) {}); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}
