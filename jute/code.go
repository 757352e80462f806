package jute

import (
	"errors"
	"fmt"
)

// Code is an error code of the protocol. Each is a sentinel: compare with
// errors.Is. Success is a nil error, never a Code.
type Code int32

// The codes (wire.md section 12).
const (
	ErrSystemError              Code = -1
	ErrRuntimeInconsistency     Code = -2
	ErrDataInconsistency        Code = -3
	ErrConnectionLoss           Code = -4
	ErrMarshalling              Code = -5
	ErrUnimplemented            Code = -6
	ErrOperationTimeout         Code = -7
	ErrBadArguments             Code = -8
	ErrUnknownSession           Code = -12
	ErrNewConfigNoQuorum        Code = -13
	ErrReconfigInProgress       Code = -14
	ErrAPIError                 Code = -100
	ErrNoNode                   Code = -101
	ErrNoAuth                   Code = -102
	ErrBadVersion               Code = -103
	ErrNoChildrenForEphemerals  Code = -108
	ErrNodeExists               Code = -110
	ErrNotEmpty                 Code = -111
	ErrSessionExpired           Code = -112
	ErrInvalidCallback          Code = -113
	ErrInvalidACL               Code = -114
	ErrAuthFailed               Code = -115
	ErrClosing                  Code = -116
	ErrNothing                  Code = -117
	ErrSessionMoved             Code = -118
	ErrNotReadOnly              Code = -119
	ErrEphemeralOnLocalSession  Code = -120
	ErrNoWatcher                Code = -121
	ErrRequestTimeout           Code = -122
	ErrReconfigDisabled         Code = -123
	ErrSessionClosedRequireSASL Code = -124
	ErrQuotaExceeded            Code = -125
	ErrThrottledOp              Code = -127
)

var codeText = map[Code]string{
	ErrSystemError:              "system error",
	ErrRuntimeInconsistency:     "runtime inconsistency",
	ErrDataInconsistency:        "data inconsistency",
	ErrConnectionLoss:           "connection loss",
	ErrMarshalling:              "request could not be decoded",
	ErrUnimplemented:            "operation not implemented",
	ErrOperationTimeout:         "operation timed out",
	ErrBadArguments:             "bad arguments",
	ErrUnknownSession:           "unknown session",
	ErrNewConfigNoQuorum:        "no quorum of the new config is connected and up to date",
	ErrReconfigInProgress:       "another reconfiguration is in progress",
	ErrAPIError:                 "API error",
	ErrNoNode:                   "node does not exist",
	ErrNoAuth:                   "not authorized",
	ErrBadVersion:               "version conflict",
	ErrNoChildrenForEphemerals:  "ephemeral nodes can't have children",
	ErrNodeExists:               "node already exists",
	ErrNotEmpty:                 "node has children",
	ErrSessionExpired:           "session expired",
	ErrInvalidCallback:          "invalid callback",
	ErrInvalidACL:               "invalid ACL",
	ErrAuthFailed:               "authentication failed",
	ErrClosing:                  "client is closing",
	ErrNothing:                  "no response",
	ErrSessionMoved:             "session moved to another server",
	ErrNotReadOnly:              "server is read-only",
	ErrEphemeralOnLocalSession:  "local sessions can't own ephemeral nodes",
	ErrNoWatcher:                "no such watch",
	ErrRequestTimeout:           "request timed out",
	ErrReconfigDisabled:         "reconfiguration is disabled",
	ErrSessionClosedRequireSASL: "session closed: authentication is required",
	ErrQuotaExceeded:            "quota exceeded",
	ErrThrottledOp:              "operation throttled",
}

// Error describes the code; for an unknown one it returns the number.
func (c Code) Error() string {
	if s, ok := codeText[c]; ok {
		return s
	}
	return fmt.Sprintf("zookeeper error %d", int32(c))
}

// CodeOf returns the code that a reply with this outcome carries: 0 for nil, the Code
// that err wraps, or ErrSystemError if it wraps none.
func CodeOf(err error) Code {
	if err == nil {
		return 0
	}
	if c, ok := errors.AsType[Code](err); ok {
		return c
	}
	return ErrSystemError
}
