package cluster

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var rollFrom = flag.String("roll", "", `TestRoll: the version to roll from, as git names it; "release" is the last release, or recorded`)

// recorded is the version that TestRoll rolls from as long as there is no release: one with the
// formats of the present version.
const recorded = "97294d11"

// TestRoll rolls an ensemble of an earlier version to this one while clients write and check what
// they read: a part of it and back, then all, and back again if both versions have the same formats.
// It builds the earlier version from the repository, which must have its commit.
func TestRoll(t *testing.T) {
	if *rollFrom == "" {
		t.Log("-roll says from which version")
		return
	}
	ref := rollRef(t)
	before := buildVersion(t, ref)
	c := newCampaign(t, shape{voters: 3, before: before})
	to := func(name, program string, list ...*server) {
		t.Helper()
		for _, s := range list {
			if t.Failed() {
				return
			}
			c.round(fault{fmt.Sprintf("server %d: %s", s.id, name), func(c *campaign) {
				c.e.awaitAll()
				s.Stop()
				s.program = program
				s.start()
				c.e.awaitAll()
			}})
		}
	}
	some, all := c.e.followers(), c.e.servers
	to("upgrade", "", some...)
	to("back to "+ref, before, some...)
	to("upgrade", "", append(c.e.followers(), c.e.awaitLeader())...)
	if now, then := formatsOf(t, "HEAD"), formatsOf(t, ref); sameFormats(then, now) {
		to("back to "+ref, before, all...)
	} else {
		t.Logf("%s has other formats, so there is no way back when all are upgraded: %v, now %v", ref, then, now)
	}
	c.summary()
}

// rollRef returns the version to roll from.
func rollRef(t *testing.T) string {
	if *rollFrom != "release" {
		return *rollFrom
	}
	out, err := exec.Command("git", "describe", "--tags", "--abbrev=0", "--match", "v*").Output()
	if err != nil { // there is no such tag
		return recorded
	}
	return strings.TrimSpace(string(out))
}

// buildVersion builds the program of another version, and returns its path.
func buildVersion(t *testing.T, ref string) string {
	t.Helper()
	dir := t.TempDir()
	command := exec.Command("sh", "-c", `git -C ../.. archive --format=tar "$1" | tar -x -C "$2"`, "sh", ref, dir)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("the files of %s: %v: %s", ref, err, out)
	}
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		t.Fatalf("the repository does not have %s; a shallow clone lacks it: git fetch --unshallow --tags", ref)
	}
	program := filepath.Join(dir, "zkd-"+strings.ReplaceAll(ref, "/", "-"))
	build := exec.Command("go", "build", "-o", program, "./cmd/zkd")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build of %s: %v\n%s", ref, err, out)
	}
	return program
}

var formatLine = regexp.MustCompile(`(?m)^\s+\w+:\s+\{"([^"]+)",\s*Range\{([^}]+)\}`)

// formatsOf returns the ranges of the formats of a version, by name.
func formatsOf(t *testing.T, ref string) map[string]string {
	t.Helper()
	text, err := exec.Command("git", "show", ref+":./../../internal/format/format.go").Output()
	if err != nil {
		t.Fatalf("the formats of %s: %v", ref, err)
	}
	list := make(map[string]string)
	for _, m := range formatLine.FindAllStringSubmatch(string(text), -1) {
		list[m[1]] = m[2]
	}
	if len(list) == 0 {
		t.Fatalf("no formats of %s", ref)
	}
	return list
}

// sameFormats reports whether the formats of an earlier version are those of a later one.
func sameFormats(then, now map[string]string) bool {
	for name, was := range then {
		if now[name] != was {
			return false
		}
	}
	return true
}
