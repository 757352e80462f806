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

var rollFrom = flag.String("roll", "", `TestRoll: the versions to roll from, with commas, as git names them; "release" is the last release, or recorded; "formats" are formatsOver`)

// recorded is the version that TestRoll rolls from as long as there is no release: one with the
// formats of the present version.
const recorded = "5faf355f"

// formatsOver are the last versions before each change of a format, and what was changed after it. Older ones
// spoke another protocol between servers, and their logs can't be read: segments of format 2 got notes without a new number.
var formatsOver = []struct{ ref, change string }{
	{"b732ef01", "transaction 3: votes that the autopilot has taken"},
	{"9b040d71", "snapshot of the tree 2: sessions of Apache's server"},
	{"1986610f", "transaction 4, data directory 2, archived log 1: takeovers and backups"},
	{"c8b28dc0", "transaction 5, snapshot of the tree 3: owners of sessions"},
	{"7e77ec18", "transaction 6, snapshot of the tree 4: exactly-once sessions"},
	{"30ad152a", "data directory 3: standbys"},
	{"1e342328", "transaction 7: retired ensembles"},
	{recorded, "none"},
}

// TestRoll rolls ensembles of earlier versions to this one while clients write and check what
// they read: a part of each and back, then all, and back again if both versions have the same formats.
// It builds the earlier versions from the repository, which must have their commits.
func TestRoll(t *testing.T) {
	switch *rollFrom {
	case "":
		t.Log("-roll says from which version")
	case "formats":
		for _, v := range formatsOver {
			t.Run(v.ref, func(t *testing.T) {
				t.Logf("changed after it: %s", v.change)
				roll(t, v.ref)
			})
		}
	default:
		for ref := range strings.SplitSeq(*rollFrom, ",") {
			t.Run(ref, func(t *testing.T) { roll(t, rollRef(ref)) })
		}
	}
}

func roll(t *testing.T, ref string) {
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
	way := "and back"
	if now, then := formatsOf(t, "HEAD"), formatsOf(t, ref); sameFormats(then, now) {
		to("back to "+ref, before, all...)
	} else {
		way = "and back from a part of it; all are upgraded, and other formats leave no way back"
	}
	c.summary()
	outcome := "passed"
	if t.Failed() {
		outcome = "FAILED"
	}
	t.Logf("pair: %s to this version, %s: %s; %d rounds, %d writes acknowledged and found", ref, way, outcome, c.rounds, c.sum.acknowledged)
	t.Log("counts: pairs=1")
}

// rollRef returns the version that a name stands for.
func rollRef(name string) string {
	if name != "release" {
		return name
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
