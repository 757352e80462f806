package lint

import (
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// toldSince is the commit from which on messages are checked.
const toldSince = "f70a3f914c34a472da42367a48e6ed3a98c67c7b"

// subject is the form of the first line of a message: a package, a folder or a topic, and what the commit does there.
var subject = regexp.MustCompile(`^[A-Za-z0-9_.,/ *-]+: \S.{2,}[^.]$`)

// TestCommitMessages checks that each commit has a subject of the form that CONTRIBUTING.md asks for, and a body.
// A copy without the history has nothing to check.
func TestCommitMessages(t *testing.T) {
	if exec.Command("git", "-C", root, "merge-base", "--is-ancestor", toldSince, "HEAD").Run() != nil {
		t.Logf("the history from %s on is not here", toldSince)
		return
	}
	out, err := exec.Command("git", "-C", root, "log", "--no-merges", "-z", "--format=%h %B", toldSince+"..HEAD").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, commit := range strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if commit == "" {
			continue
		}
		hash, message, _ := strings.Cut(commit, " ")
		if wrong := wrongMessage(message); wrong != "" {
			t.Errorf("%s: %s:\n%s", hash, wrong, message)
		}
	}
}

// wrongMessage returns what is wrong with a commit message, or "".
func wrongMessage(message string) string {
	first, body, _ := strings.Cut(strings.TrimSpace(message), "\n")
	switch {
	case strings.Contains(" "+strings.ToLower(first)+" ", " wip "):
		return "work in progress: give it a subject of its own"
	case !subject.MatchString(first):
		return `the subject is not "package: imperative summary"`
	case strings.TrimSpace(body) == "":
		return "there is no body: say what was so, what is now, and why"
	}
	return ""
}

func TestWrongMessage(t *testing.T) {
	for _, test := range []struct{ message, want string }{
		{"wal: roll when a segment is full\n\nIt was rolled a record late.\n", ""},
		{"server/zab, replica: name the parts\n\nA body.\n", ""},
		{"wal: wip\n\nA body.\n", "work in progress"},
		{"fix things\n\nA body.\n", "the subject"},
		{"wal: roll when a segment is full.\n\nA body.\n", "the subject"},
		{"wal: roll when a segment is full\n\n", "there is no body"},
	} {
		if got := wrongMessage(test.message); !strings.HasPrefix(got, test.want) || test.want == "" && got != "" {
			t.Errorf("%q: %q, want %q", test.message, got, test.want)
		}
	}
}

// TestNoPrograms checks that no program that was built in a folder of the project is in a commit.
func TestNoPrograms(t *testing.T) {
	const most = 1 << 20
	out, err := exec.Command("git", "-C", root, "ls-tree", "-r", "-l", "-z", "HEAD").Output()
	if err != nil {
		t.Log("the history is not here")
		return
	}
	for entry := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		about, name, _ := strings.Cut(entry, "\t")
		fields := strings.Fields(about) // mode, type, object, size
		if size, err := strconv.Atoi(fields[len(fields)-1]); err != nil || size > most {
			t.Errorf("%s has %d bytes, more than %d (%v)", name, size, most, err)
		}
	}
}
