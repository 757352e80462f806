package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// groupChild is set for the process that TestLimitOfARealGroup puts into a group.
const groupChild = "ZKD_TEST_GROUP_CHILD"

// TestLimitOfARealGroup starts a process in a control group of the system with a limit of its memory, and has it
// find that.
func TestLimitOfARealGroup(t *testing.T) {
	if os.Getenv(groupChild) != "" {
		io.ReadAll(os.Stdin) // until it is in the group
		l := limitMemory(0)
		fmt.Println("limit", l.bytes, l.source)
		return
	}
	const limit = "104857600"
	group, file, err := newGroup(t, limit)
	if err != nil {
		t.Logf("NOT TESTED: no control group can be made: %v", err)
		return
	}
	child := exec.Command(os.Args[0], "-test.run=^TestLimitOfARealGroup$")
	child.Env = append(os.Environ(), groupChild+"=1", "GOMEMLIMIT=")
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	moved := os.WriteFile(filepath.Join(group, "cgroup.procs"), fmt.Append(nil, child.Process.Pid), 0)
	in.Close()
	got := ""
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "limit "); ok {
			got = text
		}
	}
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	if moved != nil {
		t.Logf("NOT TESTED: no process can be put into a control group: %v", moved)
		return
	}
	if want := limit + " " + filepath.Join(group, file); got != want {
		t.Errorf("the limit is %q, want %q", got, want)
	}
}

// newGroup makes a control group with a limit of memory, of either version, and returns the name of the file with
// the limit, too.
func newGroup(t *testing.T, limit string) (dir, file string, err error) {
	mounts, err := readText("/proc/self/mountinfo")
	if err != nil {
		return "", "", err
	}
	for kind, file := range map[string]string{"cgroup": memoryController.v1[0], "cgroup2": memoryController.v2[0]} {
		for _, m := range cgroupMounts(mounts, kind, memoryController.name) {
			dir := filepath.Join(m.point, fmt.Sprint("zkd-test-", os.Getpid()))
			if err = os.Mkdir(dir, 0o755); err != nil {
				continue
			}
			t.Cleanup(func() { os.Remove(dir) })
			if err = writeExisting(filepath.Join(dir, file), limit); err == nil {
				return dir, file, nil
			}
		}
	}
	if err == nil {
		err = fmt.Errorf("none is mounted")
	}
	return "", "", err
}

// writeExisting writes a file that there is.
func writeExisting(name, text string) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
