package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/ptytest"
)

// onTerminal runs zkd on a terminal until text is on the screen, or until its end if text
// is "". It returns the output of zkd.
func onTerminal(t *testing.T, text string, args ...string) string {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	term := ptytest.Start(t, cmd, 500, 24, func(rune) bool { return false })
	if text == "" {
		term.WaitExit()
	} else {
		term.Wait(text, func(s *ptytest.Screen) bool { return strings.Contains(s.String(), text) })
	}
	return term.Written()
}

// Other servers' answers, files and file names do not control the terminal.
func TestTextDoesNotDriveTheTerminal(t *testing.T) {
	const evil = "\x1b]0;owned\x07\u009b31m\u202e"
	dir := filepath.Join(t.TempDir(), "data"+evil)
	file := filepath.Join(t.TempDir(), "zoo.cfg")
	if err := os.WriteFile(file, []byte(evil+"=1\ntickTime="+evil+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	mirrored := t.TempDir()
	status, err := json.Marshal(map[string]string{"dir": "owned" + evil})
	if err = errors.Join(err, os.WriteFile(filepath.Join(mirrored, "mirror.status"), status, 0o600)); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, written string }{
		{"status", onTerminal(t, "", "status", answering(t, strings.Replace(srvr("leader"+evil), "0.1", evil, 1)))},
		{"config check", onTerminal(t, "", "config", "check", file)},
		{"takeover status", onTerminal(t, "", "takeover", "status", mirrored)},
		{"log dump", onTerminal(t, "", "log", "dump", dir)},
		{"an error", onTerminal(t, "", evil)},
		{"shadow", onTerminal(t, "", "shadow", "--listen", "127.0.0.1:0", "--apache", evil+":x", "--zkd", "127.0.0.1:1")},
		{"the log of a server", onTerminal(t, "serving", "--port", "0", "--data-dir", dir, "--set", evil+"=1")},
	}
	for _, tt := range tests {
		for _, bad := range []string{"\x1b", "\x07", "\u009b", "\u202e"} {
			if strings.Contains(tt.written, bad) {
				t.Errorf("%s: the terminal was sent %q: %q", tt.name, bad, tt.written)
			}
		}
		if !strings.Contains(tt.written, "owned") {
			t.Errorf("%s: the text is missing: %q", tt.name, tt.written)
		}
	}
}
