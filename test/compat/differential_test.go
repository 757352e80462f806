//go:build compat

package compat

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var showFlag = flag.Bool("show", false, "show the transcripts of the scenarios on Apache (with -v)")

var rewriteFlag = flag.Bool("rewrite", false, "rewrite testdata/known*.txt with what differs now")

// knownToBoth lists what differs from each release in the same way, and knownFile
// what else differs from one of them, as "3.9".
const knownToBoth = "testdata/known.txt"

func knownFile(release string) string { return "testdata/known-" + release + ".txt" }

// scenario is one conversation that is held with both servers.
type scenario struct {
	name string
	// own, when set, gives the scenario fresh servers with these settings: it
	// looks at a fresh tree, needs a setting, or may leave the server dead.
	own *config
	// since39 is set where 3.8 differs in most lines: a write that can't be decoded takes
	// a zxid there.
	since39 bool
	run     func(w *world)
}

// difference is one entry of a known file: what a scenario's transcripts
// differ in, and under which ids docs/compat.md or docs/dev/compat.md explains it.
type difference struct {
	ids  []string
	diff string
}

// TestDifferential holds every scenario with Apache 3.8 and with the target, and
// compares the transcripts. Apache's is the "-" side of a difference.
func TestDifferential(t *testing.T) { testDifferential(t, apache) }

// TestDifferential39 does that with Apache 3.9.
func TestDifferential39(t *testing.T) { testDifferential(t, apache39) }

func testDifferential(t *testing.T, reference kind) {
	beside(t)
	shared := startPair(t, reference, config{})
	compare(t, reference, scenariosLike(reference), 0, func(t *testing.T, s scenario) (a, b []string) {
		pair := shared
		if s.own != nil {
			pair = startPair(t, reference, *s.own)
		}
		return pair.hold(s.run)
	})
	if target(t) != zkd || *rewriteFlag {
		return
	}
	names := scenarioNames(reference)
	for name := range readKnown(t, reference) {
		if !slices.Contains(names, name) {
			t.Errorf("%s or %s: there is no scenario %q", knownToBoth, knownFile(releases[reference]), name)
		}
	}
}

// beside has a test run beside others, as most of them wait for most of their time.
// Those that write the list of what differs follow each other.
func beside(t *testing.T) {
	if !*rewriteFlag {
		t.Parallel()
	}
}

// maxHangs is how often a conversation that differs starts again because Apache did not
// answer: on a busy machine its followers at times keep a request until the next write.
const maxHangs = 8

// hangsAfter is how long Apache is waited for where it often does so.
const hangsAfter = 8 * time.Second

// attempts is how often a conversation that differs may be held again.
type attempts struct{ differs, hangs int }

// again takes an attempt off; a is what Apache said.
func (left *attempts) again(a []string) bool {
	hung := slices.ContainsFunc(a, func(line string) bool { return strings.Contains(line, ": silence") })
	switch {
	case hung && left.hangs > 0:
		left.hangs--
	case left.differs > 0:
		left.differs--
	default:
		return false
	}
	return true
}

// compare holds scenarios and compares their transcripts with what is known to
// differ. One that differs otherwise is held again, up to retries times.
func compare(t *testing.T, reference kind, list []scenario, retries int, hold func(*testing.T, scenario) (a, b []string)) {
	known := readKnown(t, reference)
	found := map[string]string{}
	passed, failed := 0, 0
	for _, s := range list {
		want := known[s.name].diff
		if target(t) != zkd {
			want = ""
		}
		ok := t.Run(s.name, func(t *testing.T) {
			left := attempts{differs: retries, hangs: maxHangs}
			diff := ""
			for {
				a, b := hold(t, s)
				diff = diffLines(a, b)
				if *showFlag {
					t.Logf("%s:\n%s", reference, strings.Join(a, "\n"))
				}
				if diff == want || !left.again(a) {
					break
				}
				t.Logf("held again, because of this difference:\n%s", diff)
			}
			found[s.name] = diff
			if !*rewriteFlag || target(t) != zkd {
				compareKnown(t, reference, want, diff)
			}
		})
		if ok {
			passed++
		} else {
			failed++
		}
	}
	summary(t, t.Name(), passed, failed)
	if *rewriteFlag && target(t) == zkd {
		writeKnown(t, reference, found)
	}
}

// scenariosLike are the scenarios of one server that are held with a reference.
func scenariosLike(reference kind) []scenario {
	return slices.DeleteFunc(scenarios(), func(s scenario) bool { return s.since39 && reference == apache })
}

// scenarioNames are those of all scenarios that are held with a reference.
func scenarioNames(reference kind) []string {
	names := []string{zkCliSession, zkCliEnsembleSession}
	for _, s := range slices.Concat(scenariosLike(reference), ensembleScenarios(), readOnlyScenarios(), reconfigScenarios()) {
		names = append(names, s.name)
	}
	return names
}

func compareKnown(t *testing.T, reference kind, want, got string) {
	t.Helper()
	switch {
	case got == want:
	case want == "":
		t.Errorf("unexpected difference (- %s, + %s):\n%s", reference, *targetFlag, got)
	case got == "":
		t.Errorf("the difference listed in %s is gone:\n%s", knownFile(releases[reference]), want)
	default:
		t.Errorf("the difference is not the one listed in %s.\nlisted:\n%s\nnow:\n%s", knownFile(releases[reference]), want, got)
	}
}

// pages returns the pages of differences: for users, and in detail.
func pages(t *testing.T) (users, detail string) {
	t.Helper()
	read := func(name string) string {
		text, err := os.ReadFile("../../docs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	return read("compat.md"), read("dev/compat.md")
}

var (
	// entryRow is an entry of a table in the pages, with its id.
	entryRow = regexp.MustCompile("(?m)^\\| `([a-z0-9-]+)` \\|.*[^*] \\|$")
	// shownRow is the scenario that shows an entry.
	shownRow = regexp.MustCompile("(?m)^\\| `([a-z0-9-]+)` \\|.*\\| \\*([^|]*)\\* \\|$")
)

// TestKnownDifferencesAreExplained keeps the pages and the lists of known differences together.
func TestKnownDifferencesAreExplained(t *testing.T) {
	users, detail := pages(t)
	explained := make(map[string]bool)
	for _, row := range entryRow.FindAllStringSubmatch(users+detail, -1) {
		explained[row[1]] = true
	}
	for _, file := range []string{knownToBoth, knownFile("3.8"), knownFile("3.9")} {
		for name, d := range readKnownFile(t, file) {
			if len(d.ids) == 0 {
				t.Errorf("%s: %q has no id", file, name)
			}
			for _, id := range d.ids {
				if !explained[id] {
					t.Errorf("%s: id %s of %q is not explained in docs/compat.md", file, id, name)
				}
			}
		}
	}
}

// TestEntriesAreShown checks that for each entry of the pages docs/dev/compat.md names a scenario whose
// known difference has the entry's id: from 3.8 and not from 3.9 where zkd is as 3.9, from 3.9
// elsewhere.
func TestEntriesAreShown(t *testing.T) {
	users, detail := pages(t)
	in38, in39 := readKnown(t, apache), readKnown(t, apache39)
	shown := make(map[string]string)
	for _, row := range shownRow.FindAllStringSubmatch(detail, -1) {
		shown[row[1]] = row[2]
	}
	entries := 0
	for _, section := range strings.Split(users+"\n"+detail, "\n## ") {
		as39 := strings.HasPrefix(section, "As in ZooKeeper 3.9")
		for _, row := range entryRow.FindAllStringSubmatch(section, -1) {
			entries++
			id, name := row[1], shown[row[1]]
			known := in39
			if as39 {
				known = in38
			}
			if !slices.Contains(known[name].ids, id) {
				t.Errorf("%s: %q does not show it: no known difference of that scenario has this id", id, name)
			}
			for other, d := range in39 {
				if as39 && slices.Contains(d.ids, id) {
					t.Errorf("%s: zkd is not as 3.9: see %q", id, other)
				}
			}
		}
	}
	if entries == 0 || entries != len(shown) {
		t.Errorf("%d entries, and docs/dev/compat.md says of %d what shows them", entries, len(shown))
	}
}

// pair is a server of Apache and the target, with the same settings.
type pair struct{ reference, subject *server }

func startPair(t *testing.T, reference kind, cfg config) pair {
	t.Helper()
	needReference(t, reference)
	var p pair
	var wg sync.WaitGroup
	wg.Go(func() { p.reference = tryToStart(t, reference, cfg) })
	wg.Go(func() { p.subject = tryToStart(t, target(t), cfg) })
	wg.Wait()
	if p.reference == nil || p.subject == nil {
		t.FailNow()
	}
	return p
}

// hold runs a scenario on both servers at once and returns the transcripts.
func (p pair) hold(run func(*world)) (reference, subject []string) {
	return runOnBoth(newWorld(p.reference), newWorld(p.subject), run)
}

// runOnBoth runs a scenario in both worlds at once and returns the transcripts.
func runOnBoth(reference, subject *world, run func(*world)) (a, b []string) {
	var wg sync.WaitGroup
	for _, w := range []*world{reference, subject} {
		wg.Go(func() {
			w.begin()
			run(w)
			w.finish()
		})
	}
	wg.Wait()
	// What Apache left unanswered between the steps is no difference, but can be the cause
	// of one: see attempts. That the subject did so is one.
	a = slices.Concat(reference.lines, reference.hangs)
	b = slices.Concat(subject.lines, reference.hangs, subject.hangs)
	return a, b
}

// diffLines returns the lines that differ, "-" of a and "+" of b, each group
// after the last common line that says what was asked; empty when all is equal.
func diffLines(a, b []string) string {
	var out strings.Builder
	context, printed := "", ""
	for _, e := range edits(a, b) {
		if e.sign == ' ' {
			context = e.line
			continue
		}
		if context != printed {
			fmt.Fprintf(&out, "  %s\n", context)
			printed = context
		}
		fmt.Fprintf(&out, "%c %s\n", e.sign, e.line)
	}
	return out.String()
}

type edit struct {
	sign byte // ' ' in both, '-' in a only, '+' in b only
	line string
}

// edits is the shortest edit script between a and b by longest common
// subsequence; common ends are cut off first, so it is cheap when little differs.
func edits(a, b []string) []edit {
	var head, tail []edit
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		head = append(head, edit{' ', a[0]})
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		tail = append(tail, edit{' ', a[len(a)-1]})
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	common := make([][]int32, len(a)+1)
	for i := range common {
		common[i] = make([]int32, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			head = append(head, edit{' ', a[i]})
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && common[i+1][j] >= common[i][j+1]:
			head = append(head, edit{'-', a[i]})
			i++
		default:
			head = append(head, edit{'+', b[j]})
			j++
		}
	}
	slices.Reverse(tail)
	return append(head, tail...)
}

// readKnown reads what is known to differ from a reference.
func readKnown(t *testing.T, reference kind) map[string]difference {
	t.Helper()
	known := readKnownFile(t, knownToBoth)
	maps.Copy(known, readKnownFile(t, knownFile(releases[reference])))
	return known
}

// readKnownFile reads entries of a line "== scenario [id id]", followed by the
// difference's lines.
func readKnownFile(t *testing.T, file string) map[string]difference {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]difference{}
	name := ""
	for line := range strings.Lines(string(text)) {
		switch {
		case strings.HasPrefix(line, "== "):
			title, ids, _ := strings.Cut(strings.TrimSpace(line[3:]), " [")
			name, ids = title, strings.TrimSuffix(ids, "]")
			known[name] = difference{ids: strings.Fields(ids)}
		case name == "" || strings.TrimSpace(line) == "":
			// the file's comment, or the blank line between entries
		default:
			d := known[name]
			d.diff += line
			known[name] = d
		}
	}
	return known
}

// writeKnown writes what was found. The entries of scenarios that did not run, and what
// is known of the other release, stay.
func writeKnown(t *testing.T, reference kind, found map[string]string) {
	t.Helper()
	in38, in39 := readKnown(t, apache), readKnown(t, apache39)
	known := map[kind]map[string]difference{apache: in38, apache39: in39}[reference]
	for name, diff := range found {
		known[name] = difference{known[name].ids, diff}
	}
	both, only38, only39 := "that of both releases", "3.8 alone", "3.9 alone"
	out := map[string]*strings.Builder{}
	for _, of := range []string{both, only38, only39} {
		out[of] = new(strings.Builder)
		fmt.Fprintf(out[of], "What a scenario's transcript says on zkd (+) and not on Apache's server (-), %s. The\n"+
			"words in brackets are the ids of docs/compat.md and docs/dev/compat.md.\n", of)
	}
	entry := func(of, name string, d difference) {
		if d.diff != "" {
			fmt.Fprintf(out[of], "\n== %s [%s]\n%s", name, strings.Join(d.ids, " "), d.diff)
		}
	}
	for _, name := range scenarioNames(apache39) {
		if in38[name].diff == in39[name].diff {
			entry(both, name, in39[name])
			continue
		}
		entry(only38, name, in38[name])
		entry(only39, name, in39[name])
	}
	for file, of := range map[string]string{knownToBoth: both, knownFile("3.8"): only38, knownFile("3.9"): only39} {
		if err := os.WriteFile(file, []byte(out[of].String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
