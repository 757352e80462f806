package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
)

// TestDescribe checks the words and the exit code of each class of error.
func TestDescribe(t *testing.T) {
	op := func(err error) *client.Error { return &client.Error{Path: "/p", Err: err} }
	refused := &client.ServerError{Server: "h:1", Err: errors.New("refused")}
	for _, c := range []struct {
		err  error
		text string
		code string
		exit int
	}{
		{op(client.ErrNoNode), "Node does not exist: /p", "NoNode", 3},
		{op(client.ErrNodeExists), "Node already exists: /p", "NodeExists", 4},
		{op(client.ErrBadVersion), "version No is not valid : /p", "BadVersion", 5},
		{op(client.ErrNotEmpty), "Node not empty: /p", "NotEmpty", 9},
		{op(client.ErrNoAuth), "Insufficient permission : /p", "NoAuth", 6},
		{op(client.ErrInvalidACL), "Acl is not valid : /p", "InvalidACL", 2},
		{op(client.ErrQuotaExceeded), "Quota has exceeded : /p", "QuotaExceeded", 10},
		{op(client.ErrNoRoom), "The server refuses writes that need room, a disk or the memory is full: /p", "NoRoom", 11},
		{op(client.ErrNotReadOnly), "Not a read-only call: /p", "NotReadOnly", 11},
		{op(client.ErrNoWatcher), "KeeperErrorCode = No such watcher for /p", "NoWatcher", 1},
		{&client.Error{Err: client.ErrReconfigDisabled}, "KeeperErrorCode = Reconfig is disabled", "ReconfigDisabled", 1},
		{op(client.ErrSessionExpired), "KeeperErrorCode = Session expired for /p", "SessionExpired", 7},
		{&client.Error{Path: "/p", Err: client.ErrConnectionLoss, Ambiguous: true},
			"KeeperErrorCode = ConnectionLoss for /p (the operation may have been done)", "ConnectionLoss", 7},
		{&client.Error{Path: "p", Err: client.ErrBadArguments, Cause: fmt.Errorf("path \"p\" is odd: %w", client.ErrBadArguments)},
			`path "p" is odd`, "BadArguments", 2},
		{fmt.Errorf("3 of 9 nodes deleted: %w", op(client.ErrNoAuth)), "3 of 9 nodes deleted: Insufficient permission : /p", "NoAuth", 6},
		{&wordedError{"quota for /p does not exist.", op(client.ErrNoNode)}, "quota for /p does not exist.", "NoNode", 3},
		{&wordedError{"no way", &client.ConnectError{Servers: []*client.ServerError{refused}, Err: errWait}}, "no way", "ConnectionLoss", 7},
		{&client.ConnectError{Err: client.ErrAuthFailed}, "not connected: authentication failed", "AuthFailed", 6},
		{&UsageError{Command: "ls", Text: "path is missing", Usage: "ls path"}, "ls: path is missing. Usage: ls path", "Usage", 2},
		{&UnknownCommandError{"lls", "ls"}, "Command not found: lls. Did you mean ls?", "UnknownCommand", 127},
		{&interruptedError{fmt.Errorf("3 of 9: %w", context.Canceled), context.Canceled}, "Interrupted: 3 of 9", "Interrupted", 130},
		{&interruptedError{context.Canceled, context.Canceled}, "Interrupted", "Interrupted", 130},
		{op(context.DeadlineExceeded), "", "Timeout", 8},
		{fmt.Errorf("read the data: %w", fs.ErrNotExist), "read the data: file does not exist", "File", 2},
		{errors.New("anything"), "anything", "Error", 1},
	} {
		got := describe(c.err)
		if c.text != "" && got.Error != c.text || got.Code != c.code || got.Exit != c.exit {
			t.Errorf("describe(%v) = %+v; want %q, %s, %d", c.err, got, c.text, c.code, c.exit)
		}
		if strings.Contains(got.Error, "\n") {
			t.Errorf("describe(%v) has more than one line", c.err)
		}
		if ExitCode(c.err) != c.exit {
			t.Errorf("ExitCode(%v) = %d, want %d", c.err, ExitCode(c.err), c.exit)
		}
	}
}

// Errors of single nodes are documents, as all errors are, and a file that can't be
// read is the line's mistake whatever the reason.
func TestErrorsOfNodesAndFilesHaveTheirForm(t *testing.T) {
	s := zktest.Start(t)
	c := s.Client(t)
	create(t, c, "/a", "")
	if _, err := c.Create(t.Context(), "/a/secret", nil, client.CreateOptions{ACL: []client.ACL{{Perms: client.PermAdmin, ID: client.ID{Scheme: "ip", ID: "192.0.2.1"}}}}); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		args []string
		code int
		name string
	}{
		"du":        {[]string{"du", "/a"}, exitAuth, "NoAuth"},
		"find":      {[]string{"find", "/a"}, exitAuth, "NoAuth"},
		"directory": {[]string{"set", "/a", "@" + t.TempDir()}, exitUsage, "File"},
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, s.ConnectString(), append([]string{"-o", "json"}, tc.args...)...)
			line := r.err.await(t, "")
			var f failure
			if err := json.Unmarshal([]byte(line), &f); err != nil || f.Code != tc.name {
				t.Errorf("%s: %v", line, err)
			}
			if code := <-r.code; code != tc.code {
				t.Errorf("exit %d, want %d", code, tc.code)
			}
		})
	}
}
