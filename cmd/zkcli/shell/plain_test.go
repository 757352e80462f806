package shell

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// Without a terminal there is no prompt, as with zkCli.sh.
func TestPlain(t *testing.T) {
	var out strings.Builder
	var ran []string
	s := New(Config{
		In: strings.NewReader("one\r\n\n two \nquit\nthree"), Out: &out, Prompt: func() string { return "> " },
		Execute: func(_ context.Context, line string) bool {
			ran = append(ran, line)
			return line == "quit"
		},
	})
	if err := s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(ran, "|"); got != "one|two|quit" || out.String() != "" {
		t.Errorf("ran %q, printed %q", got, out.String())
	}
}

func TestPlainEndsWithTheContext(t *testing.T) {
	cause := errors.New("over")
	ctx, cancel := context.WithCancelCause(t.Context())
	s := New(Config{
		In: strings.NewReader("one\ntwo\n"), Out: &strings.Builder{}, Prompt: func() string { return "" },
		Execute: func(context.Context, string) bool { cancel(cause); return false },
	})
	if err := s.Run(ctx); !errors.Is(err, cause) {
		t.Errorf("Run: %v", err)
	}
}

func TestColors(t *testing.T) {
	if Colors(&strings.Builder{}, func(string) string { return "" }) {
		t.Error("colours in a string")
	}
}
