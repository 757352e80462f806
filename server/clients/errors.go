package clients

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"

	"github.com/zkd-project/zkd/server/clients/line"
)

// errHangUp ends a connection that is complete: its last bytes are written or on their
// way.
var errHangUp = errors.New("connection is done")

// Why a client is turned away. Of these errors few lines are logged: see refusals.
var (
	errNotServing    = line.ErrNotServing
	errBadConnect    = errors.New("first frame is no connect request")
	errSessionless   = errors.New("no connect request in time")
	errTooManyOpened = errors.New("more new sessions than the connection throttle allows")
	errNoRoom        = errors.New("maxClientCnxns or maxCnxns is reached")
	errNoDescriptor  = errors.New("there is no descriptor or memory for a connection")
)

// endOfConnection reports whether err is a usual end, which is not worth a line in the
// log.
func endOfConnection(err error) bool {
	return errors.Is(err, io.EOF) || isEnd(err) || errors.Is(err, os.ErrDeadlineExceeded) || isReset(err)
}

// isEnd reports whether err says that the connection has ended, or the server stops.
func isEnd(err error) bool {
	return errors.Is(err, errHangUp) || errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrClosedPipe) // the last one is a guest's
}

// isReset reports whether the client broke the connection.
func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
