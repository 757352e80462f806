package client

import (
	"errors"
	"fmt"
	"testing"

	"github.com/zkd-project/zkd/jute"
)

func TestErrorText(t *testing.T) {
	for want, e := range map[string]*Error{
		"getData /a: node does not exist":              {Op: jute.OpGetData, Path: "/a", Err: ErrNoNode},
		"whoAmI: session expired: no server was there": {Op: jute.OpWhoAmI, Err: ErrSessionExpired, Cause: errors.New("no server was there")},
		// What the cause wraps is said once.
		"exists /a: session expired: the servers don't know it":   {Op: jute.OpExists, Path: "/a", Err: ErrSessionExpired, Cause: fmt.Errorf("%w: the servers don't know it", ErrSessionExpired)},
		`delete a: bad arguments: path "a" does not begin with /`: {Op: jute.OpDelete, Path: "a", Err: ErrBadArguments, Cause: jute.ValidatePath("a")},
		"create /a: connection loss: EOF (the operation may have been done)": {
			Op: jute.OpCreate, Path: "/a", Err: ErrConnectionLoss, Cause: errors.New("EOF"), Ambiguous: true},
	} {
		if got := e.Error(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
