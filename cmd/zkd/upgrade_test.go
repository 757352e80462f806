package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestUpgradeCheck asks this version about data that an earlier one has written, about its own, and about a
// server that does not answer.
func TestUpgradeCheck(t *testing.T) {
	dir := t.TempDir()
	if out, err := exec.Command("tar", "-xzf", "../../server/testdata/format1.tar.gz", "-C", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	ensemble := filepath.Join(dir, "zoo.cfg")
	write(t, ensemble, "dataDir="+t.TempDir()+"\nclientPort=2181\ninitLimit=5\nsyncLimit=2\nserver.1=127.0.0.1:2888:3888\nserver.2=127.0.0.1:1:3888\nserver.3=127.0.0.1:2:3889\n")
	alone := filepath.Join(dir, "alone.cfg")
	write(t, alone, "dataDir="+dir+"\nclientPort=2181\n")
	for _, tc := range []struct {
		name   string
		args   []string
		exit   int
		stdout string
	}{
		{"earlier data", []string{"upgrade-check", "--data-dir", dir}, exitFailure,
			`(?s)log segment +1 +2 +1 to 2.*transaction +1 +up to 7 +1 to 7.*log segment 1 becomes 2: .*Going back needs a copy.*snapshot 1 becomes 2`},
		{"earlier data, before a start", []string{"config", "check", alone}, 0, `warning: .*: the data is of an earlier version of zkd, .*log segment 1 becomes 2`},
		{"no data", []string{"upgrade-check", "--data-dir", t.TempDir()}, 0, `log segment +none +2 .*(?s).*changes no format`},
		{"a server that does not answer", []string{"upgrade-check", "--myid", "1", ensemble}, exitFailure,
			`server 2, at 127.0.0.1:1: it does not say which versions it speaks: .*(?s).*server 3`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			exit := 0
			if err := run(t.Context(), tc.args, &stdout, &stderr); err != nil {
				exit = exitCode(err)
			}
			if exit != tc.exit || !regexp.MustCompile(tc.stdout).MatchString(stdout.String()) {
				t.Errorf("exit code %d, want %d with %s:\n%s%s", exit, tc.exit, tc.stdout, &stdout, &stderr)
			}
		})
	}
	if entries, err := os.ReadDir(filepath.Join(dir, "journal")); err != nil || len(entries) == 0 || strings.HasSuffix(entries[0].Name(), ".tmp") {
		t.Errorf("the log is %v, %v", entries, err)
	}
}
