package client

import (
	"errors"
	"fmt"
	"strings"

	"github.com/zkd-project/zkd/jute"
)

// The errors of the protocol, one for each code; compare with errors.Is. The
// table in docs/client.md says which operation returns which, and what to do.
const (
	ErrRuntimeInconsistency    = jute.ErrRuntimeInconsistency // of a multi: not tried, as an earlier operation failed
	ErrConnectionLoss          = jute.ErrConnectionLoss       // see IsAmbiguous
	ErrMarshalling             = jute.ErrMarshalling
	ErrUnimplemented           = jute.ErrUnimplemented
	ErrOperationTimeout        = jute.ErrOperationTimeout
	ErrBadArguments            = jute.ErrBadArguments
	ErrNewConfigNoQuorum       = jute.ErrNewConfigNoQuorum
	ErrReconfigInProgress      = jute.ErrReconfigInProgress
	ErrNoNode                  = jute.ErrNoNode
	ErrNoAuth                  = jute.ErrNoAuth
	ErrBadVersion              = jute.ErrBadVersion
	ErrNoChildrenForEphemerals = jute.ErrNoChildrenForEphemerals
	ErrNodeExists              = jute.ErrNodeExists
	ErrNotEmpty                = jute.ErrNotEmpty
	ErrSessionExpired          = jute.ErrSessionExpired
	ErrInvalidACL              = jute.ErrInvalidACL
	ErrAuthFailed              = jute.ErrAuthFailed
	ErrClosed                  = jute.ErrClosing // the client was closed
	ErrSessionMoved            = jute.ErrSessionMoved
	ErrNotReadOnly             = jute.ErrNotReadOnly
	ErrEphemeralOnLocalSession = jute.ErrEphemeralOnLocalSession
	ErrNoWatcher               = jute.ErrNoWatcher
	ErrRequestTimeout          = jute.ErrRequestTimeout
	ErrReconfigDisabled        = jute.ErrReconfigDisabled
	ErrSASLRequired            = jute.ErrSessionClosedRequireSASL
	ErrQuotaExceeded           = jute.ErrQuotaExceeded
	ErrThrottled               = jute.ErrThrottledOp
)

// ErrNoRoom means that the server refuses writes that need room, because a disk, or the memory of
// a server, is full: the operation was not done, and can succeed once there is room again. Deletes are
// taken, and if it is the memory, sets of shorter data. It is a use of ErrNotReadOnly, which errors.Is
// finds in it.
var ErrNoRoom error = noRoomError{}

type noRoomError struct{}

func (noRoomError) Error() string {
	return "the server refuses writes that need room: a disk or the memory is full"
}
func (noRoomError) Unwrap() error { return ErrNotReadOnly }

// Error describes the failure of an operation.
type Error struct {
	Op   OpCode
	Path string // as the caller passed it; empty for operations without a path
	// Err is one of the sentinels above, or the error of the context.
	Err error
	// Cause explains Err, if more is known: how the connection was lost, what is wrong with
	// an argument, or which servers could not be reached.
	Cause error
	// Ambiguous means that the operation may have been done, or may still be done.
	Ambiguous bool
}

// Error describes the failure in one line.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op.String())
	if e.Path != "" {
		b.WriteString(" " + e.Path)
	}
	b.WriteString(": " + e.Err.Error())
	if e.Cause != nil {
		cause := strings.TrimPrefix(e.Cause.Error(), e.Err.Error()+": ")
		cause = strings.TrimSuffix(cause, ": "+e.Err.Error()) // do not repeat the sentinel that the cause wraps
		b.WriteString(": " + cause)
	}
	if e.Ambiguous {
		b.WriteString(" (the operation may have been done)")
	}
	return b.String()
}

// Unwrap makes errors.Is find both the sentinel and the cause.
func (e *Error) Unwrap() []error {
	if e.Cause == nil {
		return []error{e.Err}
	}
	return []error{e.Err, e.Cause}
}

// IsAmbiguous reports whether the operation that failed with err may have been done
// nevertheless. That is so for a change that was sent and got no valid reply, because the
// connection broke or the context ended first. After any other error the operation has not
// been done and will not be.
func IsAmbiguous(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Ambiguous
}

// MultiError is the Cause of a failed Multi: it names the operation that failed.
type MultiError struct {
	Index int // of the operation, from 0
	Op    OpCode
	Path  string
	Err   error
}

// Error names the operation.
func (e *MultiError) Error() string {
	return fmt.Sprintf("operation %d, %v %s: %v", e.Index, e.Op, e.Path, e.Err)
}

// Unwrap returns the sentinel.
func (e *MultiError) Unwrap() error { return e.Err }

// ServerError is the reason why one server could not be used.
type ServerError struct {
	Server string // host:port as configured
	Err    error
}

// Error names the server.
func (e *ServerError) Error() string { return e.Server + ": " + e.Err.Error() }

// Unwrap returns the reason.
func (e *ServerError) Unwrap() error { return e.Err }

// ConnectError means that there is no connection. It has the last failure of each server.
type ConnectError struct {
	Servers []*ServerError
	Err     error // the context's error, or the reason why the session ended
}

// Error lists the servers.
func (e *ConnectError) Error() string {
	var b strings.Builder
	b.WriteString("not connected: " + e.Err.Error())
	for i, s := range e.Servers {
		if i == 0 {
			b.WriteString("; ")
		} else {
			b.WriteString(", ")
		}
		b.WriteString(s.Error())
	}
	return b.String()
}

// Unwrap returns Err and the failure of each server.
func (e *ConnectError) Unwrap() []error {
	errs := []error{e.Err}
	for _, s := range e.Servers {
		errs = append(errs, s)
	}
	return errs
}

// ErrNotZooKeeper is in a ConnectError for an address at which something else answers, such as
// an HTTP server.
var ErrNotZooKeeper = errors.New("this port does not speak ZooKeeper's protocol")
