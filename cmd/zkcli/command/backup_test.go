package command

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"
)

// TestNamesDir checks that the first backup to a directory that is not there yet does not become a file, which the
// next one would replace.
func TestNamesDir(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "plain")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		at   string
		want bool
	}{
		{dir, true}, {file, false}, {filepath.Join(dir, "now.db"), false}, {filepath.Join(dir, "now.db.zst"), false}, {filepath.Join(dir, "new", "backup"), true},
	} {
		if got, err := namesDir(x.at); err != nil || got != x.want {
			t.Errorf("%s: %v, %v; want %v", x.at, got, err, x.want)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "new", "backup")); err != nil || info.Mode() != os.ModeDir|0o700 {
		t.Errorf("the new directory: %v, %v", info, err)
	}
}

// TestBackupTimes checks that 0 is a time of prune, and of follow for once, as their help says.
func TestBackupTimes(t *testing.T) {
	var cmd cobra.Command
	b := backupCommand()
	b.Setup(&cmd)
	for _, name := range []string{"age", "base-every"} {
		for _, zero := range []string{"0", "0s"} {
			if err := cmd.Flags().Set(name, zero); err != nil {
				t.Error(err)
			}
		}
		if err := cmd.Flags().Set(name, "-5s"); err == nil {
			t.Errorf("--%s=-5s: no error", name)
		}
	}
}
