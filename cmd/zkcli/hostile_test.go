package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/internal/testing/ptytest"
)

// The sequences change the title of the window, clear the screen, go back, and reverse
// what follows. evilName is what a path may have of that.
const (
	evil       = "\x1b]0;owned\x07\x1b[2J\u009b31m\x9b32m\rx\by\u202ez"
	evilShown  = `\x1b]0;owned\x07\x1b[2J\u009b31m\x9b32m\x0dx\x08y\u202ez`
	evilName   = "evil\u202e"
	evilPath   = "/" + evilName
	evilNamed  = `evil\u202e`
	evilUser   = "u\x1b]0;owned\x07\u202e"
	evilUserIs = `u\x1b]0;owned\x07\u202e`
	evilSecret = "digest:" + evilUser + ":secret"
	reversal   = "\u202e"
)

// hostile starts a server whose nodes have control sequences wherever they may.
func hostile(t *testing.T) *zktest.Server {
	server := zktest.Start(t, zktest.Config("4lw.commands.whitelist=*"))
	c := server.Client(t)
	if err := c.Session().AddAuth(t.Context(), "digest", []byte(evilUser+":secret")); err != nil {
		t.Fatal(err)
	}
	acl := []client.ACL{
		{Perms: client.PermAll, ID: client.ID{Scheme: "world", ID: "anyone"}},
		{Perms: client.PermRead, ID: client.ID{Scheme: "digest", ID: evilUser + ":aGFzaA=="}},
	}
	for _, path := range []string{evilPath, evilPath + "/" + evilName, "/plain", "/plain/" + evilName} {
		if _, err := c.Create(t.Context(), path, []byte(evil), client.CreateOptions{ACL: acl}); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"/lock", "/other"} {
		createAll(t, c, path)
	}
	if _, err := settle.Create(t.Context(), c, "/lock/lock-", []byte(evil), settle.CreateOptions{Mode: client.EphemeralSequential, By: settle.ByPath}); err != nil {
		t.Fatal(err)
	}
	return server
}

// onTerminal starts zkcli on a terminal.
func onTerminal(t *testing.T, server string, args ...string) *ptytest.Terminal {
	t.Helper()
	cmd := exec.Command(os.Args[0], append([]string{"-server", server}, args...)...)
	cmd.Env = append(os.Environ(), mainVariable+"=1", "TERM=xterm", "HOME="+t.TempDir())
	return ptytest.Start(t, cmd, 500, 24, func(rune) bool { return false })
}

// mustBeTame fails the test if the terminal was driven by what is not zkcli's.
func mustBeTame(t *testing.T, written string) {
	t.Helper()
	written = strings.ReplaceAll(written, "\x1b[H\x1b[2J", "") // of top
	for _, bad := range []string{"\x1b]", "\x1b[2J", "\x07", "\b", "\u009b", "\x9b32m", reversal} {
		if strings.Contains(written, bad) {
			t.Errorf("the terminal was sent %q:\n%q", bad, written)
		}
	}
}

// hostileLines are lines for every command that does not need a session, and what they
// show of the control sequences.
var hostileLines = []struct {
	args  []string
	shows string
}{
	{[]string{"ls", "/"}, evilNamed},
	{[]string{"ls", "-s", "-o", "table", "/"}, evilNamed},
	{[]string{"ls", "-R", "/"}, "/plain/" + evilNamed},
	{[]string{"ls", "-o", "raw", "/"}, evilNamed},
	{[]string{"get", "-s", "/plain"}, evilShown},
	{[]string{"get", "-o", "raw", "/plain"}, evilShown},
	{[]string{"get", "-o", "json", evilPath}, `"path":"/` + evilNamed},
	{[]string{"get", "-x", "/plain"}, "|.]0;owned.."},
	{[]string{"get", evilPath + "/none"}, `Node does not exist: /` + evilNamed + "/none"},
	{[]string{"stat", "/plain"}, ""},
	{[]string{"stat", evilPath + "/none"}, evilNamed},
	{[]string{"getAcl", "/plain"}, "'digest,'" + evilUserIs},
	{[]string{"getAcl", "-o", "raw", "/plain"}, "digest:" + evilUserIs},
	{[]string{"getAcl", "-o", "table", "/plain"}, evilUserIs},
	{[]string{"getAllChildrenNumber", "/"}, ""},
	{[]string{"getEphemerals"}, ""},
	{[]string{"create", evilPath, "x"}, "Node already exists: /" + evilNamed},
	{[]string{"create", "-s", evilPath + "/new", "x"}, "Created /" + evilNamed + "/new"},
	{[]string{"set", "-s", "-v", "7", evilPath, "x"}, "/" + evilNamed},
	{[]string{"setAcl", evilPath, "world:" + evil + ":r"}, ""},
	{[]string{"delete", evilPath}, "Node not empty: /" + evilNamed},
	{[]string{"deleteall", evilPath + "/none"}, evilNamed},
	{[]string{"sync", evilPath}, ""},
	{[]string{"setquota", "-n", "100", evilPath}, ""},
	{[]string{"listquota", evilPath}, "/" + evilNamed},
	{[]string{"delquota", evilPath}, ""},
	{[]string{"config"}, ""},
	{[]string{"config", "set", evil, evil}, "Insufficient permission"},
	{[]string{"reconfig", "-remove", evil}, ""},
	{[]string{"--auth", evilSecret, "whoami"}, evilUserIs},
	{[]string{"features"}, ""},
	{[]string{"set", "--create", "-v", "7", evilPath, "x"}, "/" + evilNamed},
	{[]string{"deleteall", "--at-once", evilPath + "/none"}, evilNamed},
	{[]string{"help", evil}, evilShown},
	{[]string{"version"}, ""},
	{[]string{"quit"}, ""},
	{[]string{"tree", "-d", "/"}, evilNamed},
	{[]string{"get", "--at", "1ms", "/plain"}, evilShown},
	{[]string{"get", "--at", evil, "/plain"}, "is no moment"},
	{[]string{"ls", "-R", "--at", "1ms", "/"}, evilNamed},
	{[]string{"tree", "-d", "--at", "1ms", "/"}, evilNamed},
	{[]string{"find", "/", "-ls"}, evilNamed},
	{[]string{"find", "/", "-o", "table"}, evilNamed},
	{[]string{"du", "/"}, evilNamed},
	{[]string{"export", "/plain"}, ""},
	{[]string{"import", evil, "/imported"}, evilShown},
	{[]string{"diff", "/plain", "/other"}, evilNamed},
	{[]string{"diff", "-o", "table", "/plain", "/other"}, evilNamed},
	{[]string{"top", "-n", "1", "-i", "1ms", "/"}, ""},
	{[]string{"ensemble"}, ""},
	{[]string{"member", "list"}, "this is a single server"},
	{[]string{"member", "add", evil}, "is not a server"},
	{[]string{"sessions", "end", "--admin", evil, "1"}, "is no URL"},
	{[]string{"backup", "verify", evil}, `stat \x1b]0;owned\x07`},
	{[]string{"backup", "create", "--admin", evil, "x"}, "is no URL"},
	{[]string{"backup", "follow", "--admin", evil, "x"}, "is no URL"},
	{[]string{"restore", "--from", evil, "/"}, `stat \x1b]0;owned\x07`},
	{[]string{"history", "-R", "-d", "/"}, evilNamed},
	{[]string{"history", "-R", "-o", "table", "/"}, evilNamed},
	{[]string{"history", "--before", evil, "/"}, "--before is a zxid"},
	{[]string{"diff", "-d", "--from", "0x4", "/"}, evilNamed},
	{[]string{"diff", "--from", evil, "/"}, "is no moment"},
	{[]string{"restore", "--dry-run", "--at", "0x4", "/"}, ""},
	{[]string{"history", "--from", evil, "/"}, `open \x1b]0;owned\x07`},
	{[]string{"backup", "list", evil}, `open \x1b]0;owned\x07`},
	{[]string{"why"}, ""},
	{[]string{"bench", evil}, ""},
	{[]string{"record", "--listen", evil, "--to", "/dev/null/" + evil}, `open /dev/null/\x1b]0;owned\x07`},
	{[]string{"lock", "--list", "/lock"}, ""},
	{[]string{"lock", "--break", "--yes", "/none" + reversal}, `/none\u202e`},
	{[]string{"elect", "--timeout", "0s", "/lock", "--", "true"}, ""},
	{[]string{evil}, evilShown},
	{[]string{"--deadline", "10s", "ls", evil}, ""},
	{[]string{"watch", "-r", "-d", "-n", "1", "/"}, evilNamed},
	{[]string{"feed", "-d", "-n", "3", "--after", "0", "/"}, evilNamed},
	{[]string{"feed", "--after", evil, "/"}, "is no zxid"},
	{[]string{"console", "--port", "-1"}, "--port is a number"},
}

// sessionLines are for the commands that need a session.
var sessionLines = []string{
	"get -s /plain", "getAcl /plain", "ls -R /", "addWatch /", "set /plain x", "printwatches", "deleteall /plain", "removewatches /",
	"addauth digest a:b", "history", "redo 0", "get /none", "exit nonsense", "close", "connect", "ls /",
}

func TestNodesDoNotDriveTheTerminal(t *testing.T) {
	server := hostile(t)
	c := server.Client(t)
	for _, tt := range hostileLines {
		t.Run(strings.Join(tt.args[:min(2, len(tt.args))], " "), func(t *testing.T) {
			term := onTerminal(t, server.Addr(), tt.args...)
			if tt.args[0] == "watch" {
				term.Wait("that it watches", func(s *ptytest.Screen) bool { return strings.Contains(s.String(), "watching") })
				if _, err := c.Set(t.Context(), evilPath, []byte(evil), client.AnyVersion); err != nil {
					t.Fatal(err)
				}
			}
			term.WaitExit()
			written := term.Written()
			mustBeTame(t, written)
			if !strings.Contains(written, tt.shows) {
				t.Errorf("want %q in %q", tt.shows, written)
			}
		})
	}
}

// The lines that a user types, events, and completion are tame, too.
func TestNodesDoNotDriveASession(t *testing.T) {
	server := hostile(t)
	c := server.Client(t)
	s := connect(t, server.Addr(), 300, 50)
	s.Type("get /\t\t")
	s.shows(`^lock +other +plain`)
	s.Type("\x15")
	for _, line := range sessionLines {
		s.Type(line + "\r")
		s.n++
		s.line(map[bool]string{true: "CLOSED", false: "CONNECTED"}[line == "close"], "")
		if line == "addWatch /" {
			if _, err := c.Set(t.Context(), evilPath, nil, client.AnyVersion); err != nil {
				t.Fatal(err)
			}
			s.shows(`NodeDataChanged path:/evil\\u202e`)
		}
	}
	s.shows(`\\x1b\]0;owned\\x07`)
	s.Type("quit\r")
	s.WaitExit()
	mustBeTame(t, s.Written())
}

// What goes to a pipe goes as it is.
func TestPipesGetBytes(t *testing.T) {
	server := hostile(t)
	cmd := exec.Command(os.Args[0], "-server", server.Addr(), "get", "/plain")
	cmd.Env = append(os.Environ(), mainVariable+"=1", "TERM=xterm", "HOME="+t.TempDir())
	out, err := cmd.Output()
	if err != nil || string(out) != evil+"\n" {
		t.Errorf("got %q, %v", out, err)
	}
}

// Each command has a line in one of the tables.
func TestEachCommandIsTriedWithHostileNodes(t *testing.T) {
	tried := make(map[string]bool)
	for _, tt := range hostileLines {
		for _, word := range tt.args {
			tried[word] = true
		}
	}
	for _, line := range sessionLines {
		name, _, _ := strings.Cut(line, " ")
		tried[name] = true
	}
	cmd := exec.Command(os.Args[0], "help", "-o", "json")
	cmd.Env = append(os.Environ(), mainVariable+"=1", "HOME="+filepath.Join(t.TempDir()))
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var commands []struct{ Name string }
	if err := json.Unmarshal(out, &commands); err != nil {
		t.Fatal(err)
	}
	for _, c := range commands {
		if !tried[c.Name] {
			t.Errorf("no line has %s", c.Name)
		}
	}
}
