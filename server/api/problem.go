package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/zkd-project/zkd/jute"
)

// Problem is how a request fails: RFC 9457, of the type about:blank, with the code and the name that ZooKeeper has for it.
type Problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Code   int32  `json:"code,omitempty"`
	Name   string `json:"name,omitempty"`
	Path   string `json:"path,omitempty"`
	// Oldest is the least zxid after which a feed has all changes, if it lacks those that were asked for, or that of the oldest moment
	// that is known, if one was asked for that is too old.
	Oldest string `json:"oldest,omitempty"`
	// Results are those of a multi that was refused as a whole.
	Results []Result `json:"results,omitempty"`
}

func (p *Problem) Error() string { return p.Detail }

// refuse returns a problem that ZooKeeper has no code for.
func refuse(status int, format string, args ...any) *Problem {
	return &Problem{Title: http.StatusText(status), Status: status, Detail: fmt.Sprintf(format, args...)}
}

// codes are ZooKeeper's names of the codes that answers have, and the status for each.
var codes = map[jute.Code]struct {
	name   string
	status int
}{
	jute.ErrSystemError:              {"SYSTEMERROR", http.StatusInternalServerError},
	jute.ErrRuntimeInconsistency:     {"RUNTIMEINCONSISTENCY", http.StatusConflict},
	jute.ErrConnectionLoss:           {"CONNECTIONLOSS", http.StatusServiceUnavailable},
	jute.ErrMarshalling:              {"MARSHALLINGERROR", http.StatusBadRequest},
	jute.ErrUnimplemented:            {"UNIMPLEMENTED", http.StatusNotImplemented},
	jute.ErrOperationTimeout:         {"OPERATIONTIMEOUT", http.StatusServiceUnavailable},
	jute.ErrBadArguments:             {"BADARGUMENTS", http.StatusBadRequest},
	jute.ErrNoNode:                   {"NONODE", http.StatusNotFound},
	jute.ErrNoAuth:                   {"NOAUTH", http.StatusForbidden},
	jute.ErrBadVersion:               {"BADVERSION", http.StatusPreconditionFailed},
	jute.ErrNoChildrenForEphemerals:  {"NOCHILDRENFOREPHEMERALS", http.StatusConflict},
	jute.ErrNodeExists:               {"NODEEXISTS", http.StatusConflict},
	jute.ErrNotEmpty:                 {"NOTEMPTY", http.StatusConflict},
	jute.ErrSessionExpired:           {"SESSIONEXPIRED", http.StatusGone},
	jute.ErrInvalidACL:               {"INVALIDACL", http.StatusBadRequest},
	jute.ErrAuthFailed:               {"AUTHFAILED", http.StatusUnauthorized},
	jute.ErrSessionMoved:             {"SESSIONMOVED", http.StatusConflict},
	jute.ErrNotReadOnly:              {"NOTREADONLY", http.StatusServiceUnavailable},
	jute.ErrEphemeralOnLocalSession:  {"EPHEMERALONLOCALSESSION", http.StatusConflict},
	jute.ErrNewConfigNoQuorum:        {"NEWCONFIGNOQUORUM", http.StatusConflict},
	jute.ErrReconfigInProgress:       {"RECONFIGINPROGRESS", http.StatusConflict},
	jute.ErrReconfigDisabled:         {"RECONFIGDISABLED", http.StatusForbidden},
	jute.ErrRequestTimeout:           {"REQUESTTIMEOUT", http.StatusServiceUnavailable},
	jute.ErrSessionClosedRequireSASL: {"SESSIONCLOSEDREQUIRESASLAUTH", http.StatusUnauthorized},
	jute.ErrQuotaExceeded:            {"QUOTAEXCEEDED", http.StatusForbidden},
	jute.ErrThrottledOp:              {"THROTTLEDOP", http.StatusTooManyRequests},
}

// hints say more of codes than the words that all clients have.
var hints = map[jute.Code]string{
	jute.ErrEphemeralOnLocalSession: "an ephemeral needs a session: see POST /v1/sessions, and send its token as X-Session",
	jute.ErrBadVersion:              "the version is not the one of If-Match, or of the operation",
	jute.ErrConnectionLoss:          errLost.Error(),
}

// problemOf returns the problem for a code of a reply about a path.
func problemOf(code jute.Code, path string) *Problem {
	c, known := codes[code]
	if !known {
		c.name, c.status = code.Error(), http.StatusInternalServerError
	}
	detail := code.Error()
	if hint := hints[code]; hint != "" {
		detail = hint
	}
	return &Problem{Title: http.StatusText(c.status), Status: c.status, Detail: detail, Code: int32(code), Name: c.name, Path: path}
}

func asProblem(err error, path string) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	if code, ok := errors.AsType[jute.Code](err); ok {
		return problemOf(code, path)
	}
	switch {
	case errors.Is(err, ErrUnauthorized):
		return refuse(http.StatusUnauthorized, "%v", err)
	case errors.Is(err, ErrTooManyFailures):
		return refuse(http.StatusTooManyRequests, "%v", err)
	case errors.Is(err, errLost):
		return problemOf(jute.ErrConnectionLoss, path)
	case errors.Is(err, errNotExact):
		return refuse(http.StatusNotImplemented, "%v", err)
	case errors.Is(err, ErrRefused), errors.Is(err, errUnsent):
		return refuse(http.StatusServiceUnavailable, "%v", ErrRefused)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded): // the caller is gone
		return refuse(http.StatusServiceUnavailable, "the request was given up")
	}
	return refuse(http.StatusInternalServerError, "%v", err)
}

// Send answers with the problem.
func (p *Problem) Send(w http.ResponseWriter) {
	h := w.Header()
	switch p.Status {
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", `Bearer realm="zkd"`)
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		h.Set("Retry-After", "1")
	}
	for _, name := range []string{"ETag", "Content-Range", "Accept-Ranges"} {
		h.Del(name)
	}
	h.Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	text, _ := json.Marshal(p) // it has nothing that can't be encoded
	_, _ = w.Write(append(text, '\n'))
}
