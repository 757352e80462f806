//go:build unix

package stdio

import (
	"os"
	"os/signal"
	"syscall"
)

// Survive makes a write to a stdout or stderr without a reader, and one beyond the limit of
// a file's size, return an error. Go's default is to end the process. It is for main.
//
// Programs that this one starts have the system's defaults.
func Survive() {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE, syscall.SIGXFSZ) // nobody reads it
}
