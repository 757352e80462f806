package lint

import (
	"bytes"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestProgramsAreStatic: what make build makes needs no interpreter and no
// library, so that it runs on any Linux. Nothing of the planted faults is in it.
func TestProgramsAreStatic(t *testing.T) {
	bin := t.TempDir()
	build := exec.Command("make", "-C", "../..", "build", "BIN="+bin)
	build.Env = append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -ldflags=-w") // what is for debuggers takes long to link
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("make build: %v\n%s", err, out)
	}
	for _, name := range []string{"zkd", "zkcli", "zkbench"} {
		f, err := elf.Open(filepath.Join(bin, name))
		if err != nil {
			t.Error(err)
			continue
		}
		for _, p := range f.Progs {
			if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
				t.Errorf("%s is not static: it has a segment %v", name, p.Type)
			}
		}
		f.Close()
		text, err := os.ReadFile(filepath.Join(bin, name))
		if err != nil || bytes.Contains(text, []byte("internal/mutant")) {
			t.Errorf("%s has code of internal/mutant: the compiler could not remove a planted fault, as in a function literal of an iterator (%v)", name, err)
		}
	}
}
