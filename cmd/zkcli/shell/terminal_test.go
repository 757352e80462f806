package shell

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/ptytest"
)

const (
	up, left, ctrlA, ctrlC, ctrlD, ctrlR, ctrlW, ctrlY = "\x1b[A", "\x1b[D", "\x01", "\x03", "\x04", "\x12", "\x17", "\x19"
	backspace                                          = "\x7f"
)

func TestLines(t *testing.T) {
	tests := []struct {
		name, keys string
		want       []string // the end of the screen
	}{
		{"a line", "one\r", []string{"[up 0] one", "ran one", "[up 1]"}},
		{"blank lines are none", "  \r\rone\r", []string{"[up 0]", "[up 0]", "[up 0] one", "ran one", "[up 1]"}},
		{"several at once", "one\rtwo\r", []string{"ran one", "[up 1] two", "ran two", "[up 2]"}},
		{"in the middle", "oe" + left + "n\r", []string{"[up 0] one", "ran one", "[up 1]"}},
		{"at the begin", "ne" + ctrlA + "o\r", []string{"[up 0] one", "ran one", "[up 1]"}},
		{"backspace", "onx" + backspace + "e\r", []string{"[up 0] one", "ran one", "[up 1]"}},
		{"a path loses an element", "ls /a/b" + ctrlW + "c\r", []string{"[up 0] ls /a/c", "ran ls /a/c", "[up 1]"}},
		{"what is killed comes back", "ab cd" + ctrlW + ctrlA + ctrlY + "\r", []string{"[up 0] cdab", "ran cdab", "[up 1]"}},
		{"a wide rune is one", "日本語" + backspace + left + "x\r", []string{"[up 0] 日x本", "ran 日x本", "[up 1]"}},
		{"Ctrl-C gives the line up", "one" + ctrlC + "two\r", []string{"[up 0] one^C", "[up 0] two", "ran two", "[up 1]"}},
		{"Ctrl-D deletes in a line", "oxne" + left + left + left + ctrlD + "\r", []string{"[up 0] one", "ran one", "[up 1]"}},
		{"a paste completes nothing", "\x1b[200~a\tb\x1b[201~\r", []string{"[up 0] a b", "ran a b", "[up 1]"}},
		{"unknown keys are none", "o\x1b[15~n\x1bOPe\r", []string{"[up 0] one", "ran one", "[up 1]"}},
		{"a command's last line gets an end", "part of\rone\r", []string{"[up 0] part of", "of", "[up 1] one", "ran one", "[up 2]"}},
		{"up", "one\rtwo\r" + up + up + "\r", []string{"[up 2] one", "ran one", "[up 3]"}},
		{"down to what was typed", "one\rtw" + up + "\x1b[Bo\r", []string{"[up 1] two", "ran two", "[up 2]"}},
		{"search", "one\rtwo\rthree\r" + ctrlR + "o" + ctrlR + "\r", []string{"[up 3] one", "ran one", "[up 4]"}},
		{"search, then edit", "get /a\rx\r" + ctrlR + "/" + "\x05b\r", []string{"[up 2] get /ab", "ran get /ab", "[up 3]"}},
		{"search given up", "one\rtwo" + ctrlR + "on" + "\x07\r", []string{"[up 1] two", "ran two", "[up 2]"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			term := start(t, 60, 12)
			term.lines(tt.keys)
			term.WaitEnd(tt.want...)
		})
	}
}

func TestSearchIsShown(t *testing.T) {
	term := start(t, 60, 12)
	term.lines("get /apple\r" + ctrlR + "app")
	term.Wait("the search", func(s *ptytest.Screen) bool {
		line, col := s.Line()
		return line == "(search)`app': get /apple" && col == len("(search)`app': get /")
	})
	term.Type("x")
	term.Wait("that nothing was found", func(s *ptytest.Screen) bool {
		line, _ := s.Line()
		return line == "(failing search)`appx': get /apple"
	})
	term.Type(backspace + "\x05")
	term.WaitLine("[up 1] get /apple")
}

func TestComplete(t *testing.T) {
	tests := []struct {
		name, keys, want string
	}{
		{"a command", "ge\t", "[up 0] get "},
		{"one of several words", "get /ba" + backspace + backspace + "app\t", "[up 0] get /apple "},
		{"as far as it is sure", "get /a\t", "[up 0] get /ap"},
		{"one that goes on", "get /apr\t", "[up 0] get /apricot"},
		{"quotes where there are blanks", "get /m\t", `[up 0] get "/my node" `},
		{"quotes that are there", "get '/app\t", `[up 0] get '/apple' `},
		{"wide runes", "get /日\t", "[up 0] get /日本 "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			term := start(t, 60, 12)
			term.Type(tt.keys)
			term.WaitLine(tt.want)
		})
	}
}

// A word with a blank that more may follow is a word of its own at once: Enter runs it, more can be typed, and a
// quote or another completion ends it.
func TestCompleteQuotesOpenWords(t *testing.T) {
	for keys, want := range map[string]string{
		"get /o\t":                      `ran get "/our node"`,
		"get '/o\t":                     `ran get '/our node'`,
		"get /o\t/child":                `ran get "/our node/child"`,
		"get /o\t\" data":               `ran get "/our node" data`,
		"get /o\t\t":                    `ran get "/our node"`,
		"get /o x" + left + left + "\t": `ran get "/our node" x`,
	} {
		t.Run(want, func(t *testing.T) {
			term := start(t, 60, 12)
			term.Type(keys + "\r")
			term.Wait(want, func(s *ptytest.Screen) bool { return strings.Contains("\n"+s.String()+"\n", "\n"+want+"\n") })
		})
	}
}

func TestCompleteInTheMiddle(t *testing.T) {
	term := start(t, 60, 12)
	term.Type("get /app x" + left + left + "\t\r")
	term.WaitEnd("[up 0] get /apple x", "ran get /apple x", "[up 1]")
}

func TestCompleteLists(t *testing.T) {
	term := start(t, 60, 12)
	term.Type("get /ap\t")
	term.WaitEnd("/apple    /apricot", "[up 0] get /ap")
	term.lines(ctrlC + "g\t")
	term.WaitEnd("get   read", "grep  search", "[up 0] g")
}

// A completion that gets no answer gives the line back.
func TestCompleteHangs(t *testing.T) {
	term := start(t, 60, 12)
	term.Type("get hang\t")
	term.WaitEnd("no completion: no answer within 500ms", "[up 0] get hang")
	term.Type("ing\r")
	term.WaitEnd("ran get hanging", "[up 1]")
}

// What happens while a user types stands above the line, which stays as it was,
// wherever the cursor is; and the prompt shows the state at once.
func TestOutputWhileTyping(t *testing.T) {
	t.Run("one row", func(t *testing.T) {
		term := start(t, 60, 12)
		term.Type("go event\t")
		term.WaitEnd("something happened to go,", "and more", "[changed 0] go event")
		term.Type("!\r")
		term.WaitEnd("something happened to go,", "and more", "[changed 0] go event!", "ran go event!", "[changed 1]")
	})
	t.Run("three rows, the cursor in the first, at the screen's end", func(t *testing.T) {
		term := start(t, 30, 6)
		term.Type("event " + strings.Repeat("0123456789", 6) + ctrlA + strings.Repeat("\x1b[C", 5) + "\t")
		term.WaitEnd("something happened to ,", "and more", "[changed 0] event 012345678901", "234567890123456789012345678901", "234567890123456789")
		term.View(func(s *ptytest.Screen) {
			if got := strings.Count(s.String(), "event"); got != 1 {
				t.Errorf("the line is there %d times:\n%s", got, s)
			}
			if line, col := s.Line(); col != len("[changed 0] event") {
				t.Errorf("cursor in column %d of %q", col, line)
			}
		})
	})
}

func TestInterruptCommand(t *testing.T) {
	term := start(t, 60, 12)
	term.Type("wait\r")
	term.WaitEnd("[up 0] wait", "waiting")
	term.Type(ctrlC)
	term.WaitEnd("waiting", "^C", "stopped: interrupted", "[up 1]")
	term.Type("one\r")
	term.WaitEnd("ran one", "[up 2]")
}

func TestEnd(t *testing.T) {
	for name, keys := range map[string]string{"Ctrl-D": ctrlD, "quit": "quit\r"} {
		t.Run(name, func(t *testing.T) {
			term := start(t, 60, 12)
			term.WaitLine("[up 0] ")
			term.Type(keys)
			if code := term.WaitExit(); code != 0 {
				term.View(func(s *ptytest.Screen) { t.Errorf("exit code %d\n%s", code, s) })
			}
		})
	}
}

func TestResize(t *testing.T) {
	term := start(t, 40, 12)
	term.Type(strings.Repeat("0123456789", 5))
	term.WaitEnd("[up 0] 012345678901234567890123456789012", "34567890123456789")
	term.Resize(80, 12)
	term.WaitEnd("[up 0] " + strings.Repeat("0123456789", 5))
	term.Type("!\r")
	term.WaitEnd("ran "+strings.Repeat("0123456789", 5)+"!", "[up 1]")
	term.ready()
	term.Resize(30, 12)
	term.Type("one\r")
	term.WaitEnd("[up 1] one", "ran one", "[up 2]")
}

func TestHistoryOfAnotherRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state", "history")
	first := start(t, 60, 12, file)
	first.lines("get /a\raddauth password\r")
	first.Type("quit\r")
	first.WaitExit()
	second := start(t, 60, 12, file)
	second.Type(up + up + "\r")
	second.WaitEnd("[up 0] get /a", "ran get /a", "[up 1]")
	data, err := os.ReadFile(file)
	if err != nil || string(data) != "get /a\nquit\nget /a\n" {
		t.Errorf("history file: %q, %v", data, err)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode of the history file: %v, %v", info.Mode(), err)
	}
}

// A signal that comes from elsewhere ends the command that runs; while somebody
// types it ends nothing, neither the shell nor the next command.
func TestInterruptFromElsewhere(t *testing.T) {
	for _, kind := range []string{"xterm", "dumb"} {
		t.Run(kind, func(t *testing.T) {
			term := startOn(t, kind, 60, 12, "")
			term.Type("wait\r")
			term.WaitEnd("waiting")
			term.Signal(syscall.SIGINT)
			term.WaitEnd("stopped: interrupted", "[up 1]")
			term.Signal(syscall.SIGINT)
			term.Type("one\r")
			term.WaitEnd("[up 1] one", "ran one", "[up 2]")
		})
	}
}

// When its context ends, the shell does, even while it waits for a key, and gives
// the terminal back: what is typed then is echoed by it again.
func TestContextEnds(t *testing.T) {
	term := start(t, 60, 12)
	term.Type("some")
	term.WaitLine("[up 0] some")
	term.Signal(syscall.SIGTERM)
	term.WaitEnd("[up 0] some", "error: terminated; the terminal is in raw mode: false")
	if code := term.WaitExit(); code != 1 {
		t.Errorf("exit code %d", code)
	}
}
