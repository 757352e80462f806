package stdio

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// UnreadCode is the exit code of a program whose stdout nobody reads any more: that of one
// which SIGPIPE has ended.
const UnreadCode = 128 + 13

// Unread reports whether err is that of a stdout which nobody reads any more, as after head
// has ended. There is nobody to report it to.
func Unread(err error) bool {
	e, ok := errors.AsType[*fs.PathError](err)
	return ok && e.Path == os.Stdout.Name() && errors.Is(e, syscall.EPIPE)
}
