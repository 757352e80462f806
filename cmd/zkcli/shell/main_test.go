package shell

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"reflect"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/term"

	"github.com/zkd-project/zkd/internal/testing/ptytest"
)

// toyVariable makes the test's own program a toy shell, to be run on a terminal.
const toyVariable = "SHELL_TEST_HISTORY"

func TestMain(m *testing.M) {
	if path, ok := os.LookupEnv(toyVariable); ok {
		toy(path)
		return
	}
	goleak.VerifyTestMain(m)
}

// toy is a shell with a few commands that do what tests need.
func toy(historyFile string) {
	state, n := "up", 0
	var s *Shell
	s = New(Config{
		In: os.Stdin, Out: os.Stdout, HistoryFile: historyFile,
		Prompt: func() string { return fmt.Sprintf("[%s %d] ", state, n) },
		Secret: func(line string) bool { return strings.Contains(line, "password") },
		Execute: func(ctx context.Context, line string) bool {
			n++
			command, rest, _ := strings.Cut(line, " ")
			switch command {
			case "quit":
				return true
			case "part":
				fmt.Fprint(s, rest) // without an end of line
			case "wait":
				fmt.Fprintln(s, "waiting")
				<-ctx.Done()
				fmt.Fprintln(s, "stopped:", context.Cause(ctx))
			case "state":
				state = rest
			default:
				fmt.Fprintln(s, "ran", line)
			}
			return false
		},
		Complete: func(ctx context.Context, words []string, current string) ([]Candidate, error) {
			if strings.HasPrefix(current, "event") { // something happens while somebody types
				state = "changed"
				s.Refresh()
				fmt.Fprintf(s, "something happened to %s,\nand more\n", strings.Join(words, " "))
				return nil, nil
			}
			if strings.HasPrefix(current, "hang") {
				<-ctx.Done()
				return nil, errors.New("no answer")
			}
			return toyCandidates(words, current), nil
		},
	})
	ctx, stop := terminated()
	before, _ := term.GetState(int(os.Stdin.Fd()))
	if err := s.Run(ctx); err != nil {
		after, _ := term.GetState(int(os.Stdin.Fd()))
		fmt.Printf("error: %v; the terminal is in raw mode: %v\n", err, !reflect.DeepEqual(before, after))
		os.Exit(1)
	}
	stop()
	if err := goleak.Find(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// terminated returns a context that SIGTERM ends.
func terminated() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	terms := make(chan os.Signal, 1)
	signal.Notify(terms, syscall.SIGTERM)
	go func() {
		<-terms
		cancel(errors.New("terminated"))
	}()
	return ctx, func() { signal.Stop(terms); close(terms) }
}

func toyCandidates(words []string, current string) (found []Candidate) {
	all := []Candidate{
		{Text: "/apple"}, {Text: "/apricot", Open: true}, {Text: "/my node"}, {Text: "/日本"}, {Text: "/our node", Open: true},
	}
	if len(words) == 0 {
		all = []Candidate{{Text: "get", Help: "read"}, {Text: "grep", Help: "search"}}
	}
	for _, c := range all {
		if strings.HasPrefix(c.Text, current) {
			found = append(found, c)
		}
	}
	return found
}

// toyTerminal is a terminal with the toy.
type toyTerminal struct {
	*ptytest.Terminal
	t   *testing.T
	row int // of the last prompt that was waited for
}

// start runs the toy on a terminal, and waits for its first prompt. Unless history
// is given, there is none.
func start(t *testing.T, width, height int, history ...string) *toyTerminal {
	t.Helper()
	return startOn(t, "xterm", width, height, strings.Join(history, ""))
}

// startOn is start on a kind of terminal, with a history unless that is "".
func startOn(t *testing.T, kind string, width, height int, history string) *toyTerminal {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), toyVariable+"="+history, "TERM="+kind, "NO_COLOR=1")
	term := &toyTerminal{ptytest.Start(t, cmd, width, height, wide), t, -1}
	term.ready()
	return term
}

var emptyPrompt = regexp.MustCompile(`^\[\w+ \d+\]$`)

// ready waits for a new prompt: what is typed before is not read by the editor.
func (term *toyTerminal) ready() {
	term.t.Helper()
	term.Wait("a new prompt", func(s *ptytest.Screen) bool {
		line, col := s.Line()
		if s.Row() <= term.row || !emptyPrompt.MatchString(line) || col != len(line)+1 {
			return false
		}
		term.row = s.Row()
		return true
	})
}

// lines types lines: each ends with Enter or Ctrl-C, but for what is behind the last.
func (term *toyTerminal) lines(keys string) {
	term.t.Helper()
	for {
		i := strings.IndexAny(keys, "\r"+ctrlC)
		if i < 0 {
			break
		}
		term.Type(keys[:i+1])
		term.ready()
		keys = keys[i+1:]
	}
	term.Type(keys)
}
