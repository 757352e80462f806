package command

import (
	"strings"
	"testing"

	"github.com/zkd-project/zkd/client/zktest"
)

// TestFullDisk has an operator come to a server whose disk is full: the commands say so, and
// those that make room work.
func TestFullDisk(t *testing.T) {
	s := zktest.Start(t)
	env := map[string]string{envServer: s.ConnectString()}
	for _, line := range []string{"create /a x", "create /a/b y", "create /c z"} {
		if _, errOut, code := run(t, t.Context(), env, strings.Fields(line)...); code != 0 {
			t.Fatalf("%s: %s", line, errOut)
		}
	}
	s.FillDisk(true)
	const full = "The server refuses writes that need room, a disk or the memory is full: "
	for _, tt := range []struct {
		line, says string
		code       int
	}{
		{"create /n x", full + "/n\n", exitReadOnly},
		{"set /c x", full + "/c\n", exitReadOnly},
		{"setAcl /c world:anyone:r", full + "/c\n", exitReadOnly},
		{"create -e /n x", full + "/n\n", exitReadOnly},
		{"get /c", "", 0},
		{"ls /", "", 0},
		{"delete /c", "", 0},
		{"deleteall --yes /a", "", 0},
		{"why -i 1 --ignore open-root,slow-disk,looping-client", "", exitError},
	} {
		out, errOut, code := run(t, t.Context(), env, strings.Fields(tt.line)...)
		if code != tt.code || errOut != tt.says {
			t.Errorf("%s: exit %d, %q, want %d, %q", tt.line, code, errOut, tt.code, tt.says)
		}
		if strings.HasPrefix(tt.line, "why") && !strings.HasPrefix(out, "BROKEN: The disk of the log of ") {
			t.Errorf("why: %s", out)
		}
	}
	s.FillDisk(false)
	if _, errOut, code := run(t, t.Context(), env, "create", "/n", "x"); code != 0 {
		t.Errorf("with room again: %s", errOut)
	}
}
