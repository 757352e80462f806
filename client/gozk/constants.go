package zk

import (
	"errors"
	"fmt"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/jute"
)

// DefaultPort is the port of servers that are listed without a port.
const DefaultPort = client.DefaultPort

// The permissions of an ACL.
const (
	PermRead = 1 << iota
	PermWrite
	PermCreate
	PermDelete
	PermAdmin
	PermAll = 0x1f
)

// The kinds of nodes, for the flags of a create.
const (
	FlagPersistent                  = 0
	FlagEphemeral                   = 1
	FlagSequence                    = 2
	FlagEphemeralSequential         = 3
	FlagContainer                   = 4
	FlagTTL                         = 5
	FlagPersistentSequentialWithTTL = 6
)

// modeOf returns the mode that the flags of a create stand for.
func modeOf(flags int32) (client.CreateMode, error) {
	if flags < FlagPersistent || flags > FlagPersistentSequentialWithTTL {
		return 0, fmt.Errorf("invalid flag value: [%v]", flags)
	}
	return client.CreateMode(flags), nil
}

func sequential(mode client.CreateMode) bool {
	return mode == client.PersistentSequential || mode == client.EphemeralSequential || mode == client.PersistentSequentialTTL
}

func hasTTL(mode client.CreateMode) bool {
	return mode == client.PersistentTTL || mode == client.PersistentSequentialTTL
}

// EventType is the type of an event.
type EventType int32

// The types of events. EventSession is a change of the session's state. EventNotWatching
// comes to a watch that has ended without an event; the event's Err says why.
const (
	EventNodeCreated         EventType = 1
	EventNodeDeleted         EventType = 2
	EventNodeDataChanged     EventType = 3
	EventNodeChildrenChanged EventType = 4
	EventSession             EventType = -1
	EventNotWatching         EventType = -2
)

// String returns the name of the constant.
func (t EventType) String() string {
	switch t {
	case EventNodeCreated:
		return "EventNodeCreated"
	case EventNodeDeleted:
		return "EventNodeDeleted"
	case EventNodeDataChanged:
		return "EventNodeDataChanged"
	case EventNodeChildrenChanged:
		return "EventNodeChildrenChanged"
	case EventSession:
		return "EventSession"
	case EventNotWatching:
		return "EventNotWatching"
	}
	return "Unknown"
}

// State is the state of a session.
type State int32

// The states. A session goes from StateConnecting through StateConnected, when a server has
// taken the connection, to StateHasSession, when it has taken the session. StateExpired is
// followed by a new session. The other states are never reported, except for StateAuthFailed.
const (
	StateUnknown           State = -1
	StateDisconnected      State = 0
	StateConnecting        State = 1
	StateSyncConnected     State = 3 // of the events of watches
	StateAuthFailed        State = 4 // final
	StateConnectedReadOnly State = 5
	StateSaslAuthenticated State = 6
	StateExpired           State = -112
	StateConnected         State = 100
	StateHasSession        State = 101
)

// String returns the name of the constant.
func (s State) String() string {
	switch s {
	case StateUnknown:
		return "StateUnknown"
	case StateDisconnected:
		return "StateDisconnected"
	case StateConnecting:
		return "StateConnecting"
	case StateSyncConnected:
		return "StateSyncConnected"
	case StateAuthFailed:
		return "StateAuthFailed"
	case StateConnectedReadOnly:
		return "StateConnectedReadOnly"
	case StateSaslAuthenticated:
		return "StateSaslAuthenticated"
	case StateExpired:
		return "StateExpired"
	case StateConnected:
		return "StateConnected"
	case StateHasSession:
		return "StateHasSession"
	}
	return "Unknown"
}

// ErrCode is a code of the protocol.
type ErrCode int32

// The errors. Operations return them as they are, so that they can be compared with ==. Codes
// of servers that have no error here come as those of package client, which is also how
// errors.Is finds them.
var (
	// ErrConnectionClosed means that the connection broke under the operation, which may have
	// been done, or that Close was called.
	ErrConnectionClosed        = errors.New("zk: connection closed")
	ErrUnknown                 = errors.New("zk: unknown error")
	ErrAPIError                = errors.New("zk: api error")
	ErrNoNode                  = errors.New("zk: node does not exist")
	ErrNoAuth                  = errors.New("zk: not authenticated")
	ErrBadVersion              = errors.New("zk: version conflict")
	ErrNoChildrenForEphemerals = errors.New("zk: ephemeral nodes may not have children")
	ErrNodeExists              = errors.New("zk: node already exists")
	ErrNotEmpty                = errors.New("zk: node has children")
	ErrSessionExpired          = errors.New("zk: session has been expired by the server")
	ErrInvalidACL              = errors.New("zk: invalid ACL specified")
	ErrInvalidFlags            = errors.New("zk: invalid flags specified")
	ErrAuthFailed              = errors.New("zk: client authentication failed")
	ErrClosing                 = errors.New("zk: zookeeper is closing")
	ErrNothing                 = errors.New("zk: no server responses to process")
	ErrSessionMoved            = errors.New("zk: session moved to another server, so operation is ignored")
	ErrReconfigDisabled        = errors.New("attempts to perform a reconfiguration operation when reconfiguration feature is disabled")
	ErrBadArguments            = errors.New("invalid arguments")

	// ErrNoServer means that no server could be reached. The operation was not done.
	ErrNoServer = errors.New("zk: could not connect to a server")

	// ErrInvalidPath means that the path is empty, relative, or has a part that no path may have.
	ErrInvalidPath = errors.New("zk: invalid path")

	// ErrDeadlock means that the Lock is locked already.
	ErrDeadlock = errors.New("zk: trying to acquire a lock twice")

	// ErrNotLocked means that the Lock is not locked.
	ErrNotLocked = errors.New("zk: not locked")

	// Nothing returns these; they are here for programs that name them.
	ErrUnhandledFieldType = errors.New("zk: unhandled field type")
	ErrPtrExpected        = errors.New("zk: encode/decode expect a non-nil pointer to struct")
	ErrShortBuffer        = errors.New("zk: buffer too small")
)

// errorOf returns the error for a code of the protocol, or nil if there is none.
func errorOf(code jute.Code) error {
	switch code {
	case client.ErrConnectionLoss, client.ErrClosed:
		return ErrConnectionClosed
	case client.ErrNoNode:
		return ErrNoNode
	case client.ErrNoAuth:
		return ErrNoAuth
	case client.ErrBadVersion:
		return ErrBadVersion
	case client.ErrNoChildrenForEphemerals:
		return ErrNoChildrenForEphemerals
	case client.ErrNodeExists:
		return ErrNodeExists
	case client.ErrNotEmpty:
		return ErrNotEmpty
	case client.ErrSessionExpired:
		return ErrSessionExpired
	case client.ErrInvalidACL:
		return ErrInvalidACL
	case client.ErrAuthFailed:
		return ErrAuthFailed
	case client.ErrSessionMoved:
		return ErrSessionMoved
	case client.ErrReconfigDisabled:
		return ErrReconfigDisabled
	case client.ErrBadArguments:
		return ErrBadArguments
	}
	return nil
}

// plain returns the error that stands for an error of package client, or that error if there
// is none.
func plain(err error) error {
	reason := err
	if e, ok := errors.AsType[*client.Error](err); ok {
		reason = e.Err
	}
	if code, ok := reason.(jute.Code); ok {
		if known := errorOf(code); known != nil {
			return known
		}
	}
	return err
}
