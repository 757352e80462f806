package lint

import (
	"debug/elf"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestProgramsAreStatic: what make build makes needs no interpreter and no
// library, so that it runs on any Linux.
func TestProgramsAreStatic(t *testing.T) {
	bin := t.TempDir()
	if out, err := exec.Command("make", "-C", "../..", "build", "BIN="+bin).CombinedOutput(); err != nil {
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
	}
}
