//go:build compat

package compat

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const cliMT = "/usr/lib/zookeeper/bin/cli_mt"

// TestC compiles c/client.c against the C client library and runs it on the target.
func TestC(t *testing.T) {
	program := compileC(t, "client")
	runProgram(t, program, start(t, target(t), config{}).addr)
}

// compileC compiles a program in c against the C client library.
func compileC(t *testing.T, name string) string {
	t.Helper()
	require(t,
		need{"gcc", "gcc"},
		need{"/usr/include/zookeeper/zookeeper.h", "libzookeeper-mt-dev"})
	program := filepath.Join(t.TempDir(), name)
	gcc := exec.Command("gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-DTHREADED", "-o", program, "c/"+name+".c", "-lzookeeper_mt", "-lpthread")
	if out, err := gcc.CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	return program
}

// TestCliMT runs single commands of the C library's own command line tool.
func TestCliMT(t *testing.T) {
	require(t, need{cliMT, "zookeeper-bin"})
	s := start(t, target(t), config{})
	passed, failed := 0, 0
	for _, c := range []struct{ command, want string }{
		{"create /climt", "name = /climt"},
		{"set /climt data", "rc = 0"},
		{"get /climt", "value_len = 4"},
		{"ls /", "climt"},
		{"delete /climt", "rc = 0"},
		{"get /climt", "rc = -101"},
	} {
		if out := runCliMT(t, s, c.command); !strings.Contains(out, c.want) {
			failed++
			t.Errorf("%s: no %q in:\n%s", c.command, c.want, out)
			continue
		}
		passed++
	}
	summary(t, t.Name(), passed, failed)
}

func runCliMT(t *testing.T, s *server, command string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, cliMT, s.addr, "cmd:"+command).CombinedOutput()
	if err != nil {
		t.Errorf("cli_mt %s: %v", command, err)
	}
	return string(out)
}
