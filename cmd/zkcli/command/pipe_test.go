//go:build unix

package command

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/zkd-project/zkd/client/zktest"
)

// What comes through a pipe, as of <(gunzip < app.gz), can be read only once.
func TestImportAndDiffOfAPipe(t *testing.T) {
	s := zktest.Start(t)
	c := s.Client(t)
	create(t, c, "/a", "x")
	create(t, c, "/a/b", "y")
	dir := t.TempDir()
	file := filepath.Join(dir, "a.json")
	if code := <-start(t, s.ConnectString(), "export", "-f", file, "/a").code; code != 0 {
		t.Fatalf("export: exit %d", code)
	}
	export, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"import", pipe, "/copy"}, {"diff", "@" + pipe, "/copy"}} {
		r := start(t, s.ConnectString(), args...)
		if err := os.WriteFile(pipe, export, 0); err != nil {
			t.Fatal(err)
		}
		if code := <-r.code; code != 0 {
			t.Errorf("%s: exit %d", args[0], code)
		}
	}
	// 2 would say that the line is wrong, 1 that they differ.
	r := start(t, s.ConnectString(), "diff", "@"+pipe, "/copy")
	r.stop()
	if code := <-r.code; code != exitInterrupt {
		t.Errorf("diff, interrupted: exit %d", code)
	}
	openBoth(t, pipe)
}

// openBoth ends what waits for somebody at the other end of a pipe. It stays open, as
// that may begin to wait only now.
func openBoth(t *testing.T, pipe string) {
	t.Helper()
	if _, err := syscall.Open(pipe, syscall.O_RDWR|syscall.O_CLOEXEC, 0); err != nil {
		t.Fatal(err)
	}
}

// A pipe with nobody at its other end keeps a command waiting, until Ctrl-C. With
// --check, which would read what was written, it is refused.
func TestExportToAPipe(t *testing.T) {
	s := zktest.Start(t)
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"export", "-f", pipe, "/"}, {"import", pipe}} {
		name := args[0]
		r := start(t, s.ConnectString(), append([]string{"--deadline", "20ms"}, args...)...)
		if line := r.err.await(t, ""); !strings.Contains(line, "the --deadline of 20ms has passed") {
			t.Errorf("%s: %s", name, line)
		}
		if code := <-r.code; code != exitTimeout {
			t.Errorf("%s: exit %d", name, code)
		}
		openBoth(t, pipe)
	}
	r := start(t, s.ConnectString(), "export", "-f", pipe, "--check", "/")
	if line := r.err.await(t, ""); !strings.Contains(line, "can be read only once") {
		t.Error(line)
	}
	if code := <-r.code; code != exitUsage {
		t.Errorf("exit %d", code)
	}
}
