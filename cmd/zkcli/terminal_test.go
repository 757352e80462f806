package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/internal/testing/ptytest"
)

// mainVariable makes the test's own program zkcli.
const mainVariable = "ZKCLI_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(mainVariable) != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// session is zkcli on a terminal.
type session struct {
	*ptytest.Terminal
	t      *testing.T
	server string
	n      int // lines that have been run
}

// connect runs zkcli for a server, and waits until it is connected. env are more
// variables of its environment.
func connect(t *testing.T, server string, width, height int, env ...string) *session {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-server", server)
	cmd.Env = append(os.Environ(), mainVariable+"=1", "TERM=xterm", "HOME="+t.TempDir())
	cmd.Env = append(cmd.Env, env...)
	wide := func(r rune) bool { return r >= 0x2e80 && r < 0xa4d0 }
	s := &session{Terminal: ptytest.Start(t, cmd, width, height, wide), t: t, server: server}
	s.line("CONNECTED", "")
	return s
}

// line waits for a prompt with a state, and what is typed after it.
func (s *session) line(state, typed string) {
	s.t.Helper()
	s.WaitLine(fmt.Sprintf("[zk: %s(%s) %d] %s", s.server, state, s.n, typed))
}

// run runs a line and waits until the next can be typed.
func (s *session) run(line string) {
	s.t.Helper()
	s.Type(line + "\r")
	s.n++
	s.line("CONNECTED", "")
}

// shows waits for lines below each other, anywhere. The pattern is of lines.
func (s *session) shows(pattern string) {
	s.t.Helper()
	re := regexp.MustCompile("(?m)" + pattern)
	s.Wait(pattern, func(s *ptytest.Screen) bool { return re.MatchString(s.String()) })
}

func createAll(t *testing.T, c *client.Client, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if _, err := c.Create(t.Context(), path, []byte("data of "+path), client.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTerminalCompletesPaths(t *testing.T) {
	server := zktest.Start(t)
	createAll(t, server.Client(t), "/app", "/app/config", "/app/workers", "/my node")
	s := connect(t, server.Addr(), 80, 24, "NO_COLOR=1")

	s.Type("get /ap\t")
	s.line("CONNECTED", "get /app")
	s.Type("\t") // it is complete: on to its children
	s.line("CONNECTED", "get /app/")
	s.Type("\t")
	s.shows(`^config   workers$`)
	s.Type("c\t\t")
	s.line("CONNECTED", "get /app/config ") // it has none
	s.Type("\r")
	s.n++
	s.line("CONNECTED", "")
	s.shows(`get /app/config\ndata of /app/config$`)

	s.Type("get /m\t")
	s.shows(`get "/my node"$`) // the cursor is before the quote
	s.Type("\r")
	s.n++
	s.line("CONNECTED", "")
	s.shows(`^data of /my node$`)
	s.Type("stat /m\t\t")
	s.line("CONNECTED", `stat "/my node" `) // it has no children
	s.Type("\x15")

	s.Type("getAl\t")
	s.line("CONNECTED", "getAllChildrenNumber ")
	s.Type("\x15create -\t")
	s.shows(`^--ephemeral +the node goes with the session\n`)
}

// An event that comes while a user types stands above the line.
func TestTerminalShowsEventsWhileTyping(t *testing.T) {
	server := zktest.Start(t)
	c := server.Client(t)
	createAll(t, c, "/app")
	s := connect(t, server.Addr(), 80, 24, "NO_COLOR=1")
	s.run("get -w /app")
	s.Type("set /app some")
	s.line("CONNECTED", "set /app some")
	if _, err := c.Set(t.Context(), "/app", []byte("x"), client.AnyVersion); err != nil {
		t.Fatal(err)
	}
	s.shows(`\n\nWATCHER::\n\nWatchedEvent state:SyncConnected type:NodeDataChanged path:/app.*\n\[zk: \S+ 1\] set /app some$`)
	s.line("CONNECTED", "set /app some")
	s.Type("thing\r")
	s.n++
	s.line("CONNECTED", "")
	s.run("get /app")
	s.shows(`^something$`)
}

// The prompt shows at once that the server is gone, and that it is back; what is
// being typed stays. A completion does not hang, and Ctrl-C ends a command that waits.
func TestTerminalWithoutServer(t *testing.T) {
	server := zktest.Start(t)
	createAll(t, server.Client(t), "/app")
	s := connect(t, server.Addr(), 80, 24, "NO_COLOR=1")
	s.Type("get /a")
	s.line("CONNECTED", "get /a")
	server.Kill()
	s.line("CONNECTING", "get /a")
	s.Type("\t")
	s.shows(`^no completion: .+\n\[zk: \S+ 0\] get /a$`)
	s.line("CONNECTING", "get /a")
	s.Type("pp\r")
	s.n++
	s.Wait("that the command runs", func(s *ptytest.Screen) bool { return !s.Pasting() })
	s.Type("\x03")
	s.shows(`get /app\n\^C\n(?s:.*)\n\[zk: \S+ 1\]$`)
	s.line("CONNECTING", "")
	s.Type("get /app")
	s.line("CONNECTING", "get /app")
	server.Restart()
	s.line("CONNECTED", "get /app")
	s.Type("\r")
	s.n++
	s.line("CONNECTED", "")
	s.shows(`^data of /app$`)
}

func TestTerminalHistory(t *testing.T) {
	server := zktest.Start(t)
	history := filepath.Join(t.TempDir(), "history")
	first := connect(t, server.Addr(), 80, 24, "NO_COLOR=1", "ZKCLI_HISTORY="+history)
	first.run("create /app hello")
	first.run("addauth digest bob:secret")
	first.Type("ls \"/\r")
	first.shows(`^unclosed quote: .*\n\[zk: \S+ 2\]$`)
	first.Type("quit\r")
	first.WaitExit()

	second := connect(t, server.Addr(), 80, 24, "NO_COLOR=1", "ZKCLI_HISTORY="+history)
	second.Type("\x12hello")
	second.Wait("the line that is searched", func(s *ptytest.Screen) bool {
		line, _ := s.Line()
		return line == "(search)`hello': create /app hello"
	})
	second.Type("\r")
	second.n++
	second.line("CONNECTED", "")
	second.shows(`already exists: /app$`)
	data, err := os.ReadFile(history)
	if err != nil || strings.Contains(string(data), "secret") {
		t.Errorf("the history file: %q, %v", data, err)
	}
}

// What is drawn while a command runs leaves nothing behind, and is no wider than the
// terminal.
func TestTerminalWhileACommandRuns(t *testing.T) {
	server := zktest.Start(t)
	createAll(t, server.Client(t), "/app", "/app/a")
	s := connect(t, server.Addr(), 60, 24, "NO_COLOR=1")
	s.run("deleteall /app") // with a bar
	s.shows(`deleteall /app\n\[zk: \S+ 1\]`)
	s.run("top -n 1 -i 10ms")
	s.shows(`^SERVER +MODE +REQUESTS/S +REPLIES/S .*…\n127\.0\.0\.1:`)
	s.View(func(screen *ptytest.Screen) {
		if first := screen.Lines()[0]; !strings.HasSuffix(first, "changes/s") {
			t.Errorf("the frame is not at the top of the screen, but %q", first)
		}
	})
}

// The key q ends top, and what follows it is the next line.
func TestTerminalQEndsTop(t *testing.T) {
	server := zktest.Start(t)
	s := connect(t, server.Addr(), 60, 24, "NO_COLOR=1")
	s.Type("top -i 10ms\r")
	s.shows(`^SERVER +MODE +REQUESTS/S`)
	s.Type("q")
	s.n++
	s.line("CONNECTED", "")
	s.run("create /after")
	s.shows(`Created /after`)
}

// A shell that gets no connection says why, and tries on.
func TestTerminalSaysWhyThereIsNoConnection(t *testing.T) {
	const addr = "127.0.0.1:1"
	cmd := exec.Command(os.Args[0], "-server", addr)
	cmd.Env = append(os.Environ(), mainVariable+"=1", "TERM=xterm", "NO_COLOR=1", "HOME="+t.TempDir())
	s := &session{Terminal: ptytest.Start(t, cmd, 120, 24, func(rune) bool { return false }), t: t, server: addr}
	s.shows(`Can't connect.*: .*\(still trying\)`)
	s.line("CONNECTING", "")
}

// TestPasswordIsAskedFor logs in with a password that is typed, and not shown.
func TestPasswordIsAskedFor(t *testing.T) {
	users := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(users, []byte("ann plain:a long secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	server := zktest.Start(t, zktest.Config("zkd.sasl.users="+users)).ConnectString()
	cmd := exec.Command(os.Args[0], "-server", server, "--sasl-user", "ann", "whoami")
	cmd.Env = append(os.Environ(), mainVariable+"=1", "TERM=xterm", "HOME="+t.TempDir())
	s := &session{Terminal: ptytest.Start(t, cmd, 80, 10, func(rune) bool { return false }), t: t, server: server}
	s.WaitLine("Password of ann: ")
	s.Type("a long secret\r")
	s.shows("sasl: ann")
	if code := s.WaitExit(); code != 0 || strings.Contains(s.Written(), "secret") {
		t.Errorf("exit %d:\n%s", code, s.Written())
	}
}

// Help has the width of the terminal, in a session and without one.
func TestTerminalHelpIsNarrow(t *testing.T) {
	server := zktest.Start(t)
	s := connect(t, server.Addr(), 40, 24, "NO_COLOR=1")
	s.Type("help sync\r")
	s.shows(`^Wait until the server has all changes\nthat are committed.$`)
}
