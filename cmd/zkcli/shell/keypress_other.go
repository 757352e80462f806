//go:build !linux && !darwin

package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/term"

	"github.com/zkd-project/zkd/internal/console"
)

// EndedByKey returns ctx: keys are not read here while a command runs.
func EndedByKey(ctx context.Context, _ io.Reader, _ string) (ended context.Context, stop func()) {
	return ctx, func() {}
}

// Password writes a question to out, and reads a line from in that is not shown. If in is no
// terminal, it fails with errors.ErrUnsupported.
func Password(_ context.Context, in io.Reader, out io.Writer, question string) (string, error) {
	f, ok := in.(*os.File)
	if !ok || !console.Is(f) {
		return "", errors.ErrUnsupported
	}
	fmt.Fprint(out, question)
	defer fmt.Fprintln(out)
	line, err := term.ReadPassword(int(f.Fd()))
	return string(line), err
}
