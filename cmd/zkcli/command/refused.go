package command

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/zkd-project/zkd/client"
)

// whoAmITime bounds the request that explains a refusal.
const whoAmITime = time.Second

// permissionOf returns the permission that an operation needs, in the letters of setAcl, and the
// node whose ACL has to give it; "" if that is not known.
func permissionOf(e *client.Error) (perm, node string) {
	if e.Path == "" {
		return "", ""
	}
	switch e.Op.String() {
	case "create", "create2", "createContainer", "createTTL":
		return "c", path.Dir(e.Path)
	case "delete", "deleteContainer":
		return "d", path.Dir(e.Path)
	case "setData", "reconfig":
		return "w", e.Path
	case "setACL":
		return "a", e.Path
	case "getACL":
		return "r or a", e.Path
	case "getData", "exists", "check", "getChildren", "getChildren2", "childrenPage", "subtreePage", "subscribe":
		return "r", e.Path
	}
	return "", ""
}

// hintedError is an error with a hint, which stands in a line of its own: scripts look for the
// text of zkCli.sh in the line before.
type hintedError struct {
	error
	hint string
}

// Unwrap returns the error.
func (e *hintedError) Unwrap() error { return e.error }

// explainRefusal writes who was refused a permission, what the operation needs, and how to get it.
func (a *App) explainRefusal(ctx context.Context, err error, format Format) {
	e, ok := errors.AsType[*client.Error](err)
	if !ok || e.Err != client.ErrNoAuth || format == FormatJSON || a.conn.c == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, whoAmITime)
	defer cancel()
	var parts []string
	if ids, err := a.conn.c.Session().WhoAmI(ctx); err == nil { // servers before 3.7 don't tell
		names := make([]string, len(ids))
		for i, id := range ids {
			names[i] = id.Scheme + ":" + id.User
		}
		parts = append(parts, "this session is "+strings.Join(names, ", "))
	}
	if perm, node := permissionOf(e); perm != "" {
		parts = append(parts, fmt.Sprintf("%v needs %s on %s (getAcl %s)", e.Op, perm, node, node))
	}
	a.say("%s", strings.Join(append(parts, "addauth digest USER:PASSWORD adds an identity"), "; "))
}
