package settle

import (
	"errors"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/jute"
)

// stubborn is the policy of the work that is left to the background.
var stubborn = &client.RetryPolicy{Backoff: 100 * time.Millisecond, MaxBackoff: 5 * time.Second}

// mendable returns a function that reports whether the work in the background should
// try again after an error.
func mendable(c *client.Client) func(error) bool {
	renews := c.Options().RenewSession
	return func(err error) bool {
		return client.IsTransient(err) || errors.Is(err, client.ErrNotReadOnly) || renews && errors.Is(err, client.ErrSessionExpired)
	}
}

// opOf returns the operation that creates such a node, for errors.
func opOf(o client.CreateOptions) client.OpCode {
	switch {
	case o.Mode == client.Container:
		return jute.OpCreateContainer
	case o.Stat:
		return jute.OpCreate2
	}
	return jute.OpCreate
}

// inDoubt returns err if it is known whether the change was done. Otherwise err may be
// that of a look at the node, and inDoubt makes it the change's own, and ambiguous.
func inDoubt(err error, op client.OpCode, path string, unknown bool) error {
	if err == nil || !unknown || client.IsAmbiguous(err) {
		return err
	}
	e := &client.Error{Op: op, Path: path, Err: err, Ambiguous: true}
	if in, ok := errors.AsType[*client.Error](err); ok {
		e.Err, e.Cause = in.Err, in
	}
	return e
}

// isAnswer reports whether err is a server's answer to the operation. The end of the
// session or of the context is not: it leaves open what became of an earlier attempt.
func isAnswer(err error) bool {
	e, ok := errors.AsType[*client.Error](err)
	if !ok || client.IsTransient(err) {
		return false
	}
	code, ok := errors.AsType[jute.Code](e.Err)
	return ok && code != client.ErrSessionExpired && code != client.ErrClosed && code != client.ErrAuthFailed
}
