package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/internal/stdio"
)

// The exit codes. docs/zkcli.md has the table.
const (
	exitError      = 1   // any other error
	exitUsage      = 2   // the line is wrong
	exitNoNode     = 3   // a node does not exist
	exitExists     = 4   // a node exists already
	exitVersion    = 5   // a node has another version
	exitAuth       = 6   // not allowed, or not recognised
	exitConnection = 7   // no connection, or it or the session was lost
	exitTimeout    = 8   // the deadline passed
	exitNotEmpty   = 9   // a node has children
	exitQuota      = 10  // a quota does not allow it
	exitReadOnly   = 11  // the server has no quorum
	exitCantRun    = 126 // a program that can't be run
	exitUnknown    = 127 // no such command, or program
	exitInterrupt  = 130 // Ctrl-C
)

// UsageError means that a command line is invalid.
type UsageError struct {
	Command string
	Text    string // the mistake
	Usage   string // the correct form; may be empty
}

// Error describes the mistake in one line.
func (e *UsageError) Error() string {
	s := e.Text
	if e.Command != "" {
		s = e.Command + ": " + s
	}
	if e.Usage != "" {
		s += ". Usage: " + e.Usage
	}
	return s
}

// UnknownCommandError means that there is no such command.
type UnknownCommandError struct{ Name, Nearest string }

// meant are the commands of other shells, and of former versions of zkCli.sh.
var meant = map[string]string{
	"rmr": "deleteall", "rm": "delete, or for rm -r deleteall", "cat": "get", "mkdir": "create", "touch": "create",
	"drain": "member drain", "transfer-leader": "member transfer-leader", "promote": "member promote", "demote": "member demote", "members": "member list",
	"ll": "ls -s", "dir": "ls", "del": "delete", "put": "set", "ls2": "ls -s", "cp": "export and import", "mv": "export and import",
}

// Error begins as zkCli.sh's message does.
func (e *UnknownCommandError) Error() string {
	s := "Command not found: " + e.Name
	if to := meant[strings.ToLower(e.Name)]; to != "" {
		return s + ". Here it is " + to
	}
	if looksLikeServer(e.Name) {
		return s + ". If it is a server, write -server " + e.Name
	}
	if e.Nearest != "" {
		return s + ". Did you mean " + e.Nearest + "?"
	}
	return s + ". See: help"
}

// ExitError ends a command with a specific exit code and without a message.
type ExitError struct{ Code int }

// Error names the code.
func (e *ExitError) Error() string { return fmt.Sprintf("exit code %d", e.Code) }

// interruptedError is the error of an interrupted command.
type interruptedError struct {
	err   error
	cause error // that ended its context
}

// Error says so.
func (e *interruptedError) Error() string { return e.say(e.err.Error()) }

// say returns a message that the command was interrupted, with the command's own message
// unless that only repeats it.
func (e *interruptedError) say(text string) string {
	if text = strings.TrimSuffix(strings.TrimSuffix(text, e.cause.Error()), ": "); text == "" {
		return "Interrupted"
	}
	return "Interrupted: " + text
}

// Unwrap returns what the command said.
func (e *interruptedError) Unwrap() error { return e.err }

// flagError converts an error of the flags' parser to a usage error.
func flagError(cmd *cobra.Command, err error) error {
	if _, ok := errors.AsType[*UsageError](err); ok {
		return err
	}
	text, why, isNumber := strings.Cut(err.Error(), ": strconv.")
	switch {
	case isNumber && strings.HasSuffix(why, "value out of range"):
		text += ": it is too large"
	case isNumber:
		text += ": it should be a whole number"
	}
	e := &UsageError{Text: text, Usage: rootUsage}
	if cmd.HasParent() {
		e.Command, e.Usage = cmd.Name(), cmd.Use
	}
	return e
}

// wordedError is an error with a message of the command.
type wordedError struct {
	text string
	err  error // determines its class
}

// Error returns the words.
func (e *wordedError) Error() string { return e.text }

// Unwrap returns what they are about.
func (e *wordedError) Unwrap() error { return e.err }

// class is the message and the exit code for an error of the client.
type class struct {
	code error
	name string // in JSON
	text string // the text of zkCli.sh; one that ends in a blank precedes the path
	exit int
}

var classes = [...]class{
	{client.ErrNoNode, "NoNode", "Node does not exist: ", exitNoNode},
	{client.ErrNodeExists, "NodeExists", "Node already exists: ", exitExists},
	{client.ErrBadVersion, "BadVersion", "version No is not valid : ", exitVersion},
	{client.ErrNotEmpty, "NotEmpty", "Node not empty: ", exitNotEmpty},
	{client.ErrNoAuth, "NoAuth", "Insufficient permission : ", exitAuth},
	{client.ErrInvalidACL, "InvalidACL", "Acl is not valid : ", exitUsage},
	{client.ErrBadArguments, "BadArguments", "Arguments are not valid : ", exitUsage},
	{client.ErrNoChildrenForEphemerals, "NoChildrenForEphemerals", "Ephemerals cannot have children: ", exitError},
	{client.ErrNoRoom, "NoRoom", "The server refuses writes that need room, a disk or the memory is full: ", exitReadOnly},
	{client.ErrNotReadOnly, "NotReadOnly", "Not a read-only call: ", exitReadOnly},
	{client.ErrQuotaExceeded, "QuotaExceeded", "Quota has exceeded : ", exitQuota},
	{client.ErrAuthFailed, "AuthFailed", "AuthFailed", exitAuth},
	{client.ErrSASLRequired, "SessionClosedRequireSASLAuth", "Session closed because client failed to authenticate", exitAuth},
	{client.ErrConnectionLoss, "ConnectionLoss", "ConnectionLoss", exitConnection},
	{client.ErrSessionExpired, "SessionExpired", "Session expired", exitConnection},
	{client.ErrSessionMoved, "SessionMoved", "Session moved", exitConnection},
	{client.ErrClosed, "Closed", "Closed", exitConnection},
	{client.ErrNoWatcher, "NoWatcher", "No such watcher", exitError},
	{client.ErrReconfigDisabled, "ReconfigDisabled", "Reconfig is disabled", exitError},
	{client.ErrReconfigInProgress, "ReconfigInProgress", "ReconfigInProgress", exitError},
	{client.ErrNewConfigNoQuorum, "NewConfigNoQuorum", "NewConfigNoQuorum", exitError},
	{client.ErrUnimplemented, "Unimplemented", "Unimplemented", exitError},
	{client.ErrMarshalling, "MarshallingError", "MarshallingError", exitError},
	{client.ErrOperationTimeout, "OperationTimeout", "OperationTimeout", exitTimeout},
	{client.ErrRequestTimeout, "RequestTimeout", "RequestTimeout", exitTimeout},
	{client.ErrEphemeralOnLocalSession, "EphemeralOnLocalSession", "Ephemeral node on local session", exitError},
	{client.ErrThrottled, "ThrottledOp", "Op throttled due to high load", exitError},
	{client.ErrRuntimeInconsistency, "RuntimeInconsistency", "RuntimeInconsistency", exitError},
}

// failure is an error in its reported form.
type failure struct {
	Error     string `json:"error"`
	Code      string `json:"code"`
	Path      string `json:"path,omitempty"`
	Ambiguous bool   `json:"ambiguous,omitempty"` // it may have been done
	Exit      int    `json:"exit"`
}

func describe(err error) failure {
	f := failure{Error: err.Error(), Code: "Error", Exit: exitError, Ambiguous: client.IsAmbiguous(err)}
	if _, ok := errors.AsType[*UsageError](err); ok {
		f.Code, f.Exit = "Usage", exitUsage
	} else if _, ok := errors.AsType[*UnknownCommandError](err); ok {
		f.Code, f.Exit = "UnknownCommand", exitUnknown
	} else if errors.Is(err, exec.ErrNotFound) {
		f.Code, f.Exit = "UnknownProgram", exitUnknown
	} else if e, ok := errors.AsType[*ExitError](err); ok {
		f.Exit = e.Code
	} else if e, ok := errors.AsType[*interruptedError](err); ok {
		f = describe(e.err)
		f.Error, f.Code, f.Exit = e.say(f.Error), "Interrupted", exitInterrupt
	} else if errors.Is(err, context.DeadlineExceeded) {
		f.Code, f.Exit = "Timeout", exitTimeout
	} else if e, ok := errors.AsType[*client.ConnectError](err); ok {
		f.Code, f.Exit = "ConnectionLoss", exitConnection
		if c := classOf(e.Err); c != nil {
			f.Code, f.Exit = c.name, c.exit
		}
	} else if errors.Is(err, errNotConnected) {
		f.Code, f.Exit = "NotConnected", exitConnection
	} else if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || unreadable(err) {
		f.Code, f.Exit = "File", exitUsage
	} else if e, ok := errors.AsType[*client.Error](err); ok {
		f.ofClient(err, e)
	}
	return f
}

// unreadable reports whether a file can't be opened or read, such as a directory.
func unreadable(err error) bool {
	e, ok := errors.AsType[*fs.PathError](err)
	return ok && (e.Op == "open" || e.Op == "read")
}

// ofClient describes an error of an operation in zkCli.sh's words.
func (f *failure) ofClient(err error, e *client.Error) {
	f.Path = e.Path
	c := classOf(e.Err)
	if c == nil {
		return
	}
	f.Code, f.Exit = c.name, c.exit
	switch {
	case e.Err == client.ErrBadArguments && e.Cause != nil:
		f.Error = flagNames.Replace(strings.TrimSuffix(e.Cause.Error(), ": "+e.Err.Error()))
		return
	case strings.HasSuffix(c.text, " "):
		f.Error = c.text + e.Path
	case e.Path == "":
		f.Error = "KeeperErrorCode = " + c.text
	default:
		f.Error = "KeeperErrorCode = " + c.text + " for " + e.Path
	}
	if e.Cause != nil {
		f.Error += ": " + flagNames.Replace(e.Cause.Error())
	}
	if f.Ambiguous {
		f.Error += " (the operation may have been done)"
	}
	before, _, ok := strings.Cut(err.Error(), e.Error())
	switch {
	case !ok:
		f.Error = err.Error() // its message is final
	case before != "":
		f.Error = before + f.Error
	}
}

func classOf(err error) *class {
	for i := range classes {
		if errors.Is(err, classes[i].code) {
			return &classes[i]
		}
	}
	return nil
}

// ExitCode returns the exit code of an error: 0 for nil.
func ExitCode(err error) int {
	switch {
	case err == nil || errors.Is(err, ErrQuit):
		return 0
	case stdio.Unread(err):
		return stdio.UnreadCode
	}
	return describe(err).Exit
}

// report writes an error on stderr, and returns it.
func (a *App) report(err error, format Format) error {
	if err == nil || errors.Is(err, ErrQuit) || stdio.Unread(err) {
		return err
	}
	if _, ok := errors.AsType[*ExitError](err); ok {
		return err
	}
	f := describe(err)
	if format != FormatJSON {
		a.say("%s", strings.ReplaceAll(f.Error, "\n", " "))
		return err
	}
	line, encodeErr := json.Marshal(f)
	if encodeErr != nil {
		return errors.Join(err, encodeErr)
	}
	a.say("%s", line)
	return err
}
