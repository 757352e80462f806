package main

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/test/internal/results"
)

// first are those before the longest wait: what was done, and whether it held. After it come those that say how much.
func first(n results.Counts) results.Counts {
	if i := slices.IndexFunc(n, func(c results.Count) bool { return c.Name == "longest-ms" }); i >= 0 {
		return n[:i]
	}
	return n
}

// judge counts what a run did, and returns an error if that is not what its program declares: tests, if
// it left reports of them, or else what its last line says.
func (r *run) judge() (results.Counts, error) {
	j, err := r.judgeReports()
	if err != nil {
		return nil, err
	}
	n := j.counts()
	if len(n) == 0 {
		if n, err = results.ParseCounts(r.last); err != nil {
			err = fmt.Errorf("the last line: %w", err)
		}
	} else if len(j.failed) > 0 {
		err = fmt.Errorf("%s: %s", n, names(j.failed))
	}
	for _, c := range r.program.holds {
		if err == nil && !c.of(n) {
			err = fmt.Errorf("%s does not hold: %s", c, n)
		}
	}
	return n, err
}

// test is the outcome of one test of a suite: pass, fail or skip.
type test struct{ name, outcome string }

const (
	pass = "pass"
	fail = "fail"
	skip = "skip"
)

// ended is the name of the test that has failed, after its class, if a class has ended without a report.
const ended = ".ended"

// report is what the tries of a class, or of another part of a suite, have left.
type report struct {
	name  string
	tries [][]test
}

// hasEnded reports whether a try is of a class that has ended without a report.
func hasEnded(try []test) bool {
	return len(try) == 1 && strings.HasSuffix(try[0].name, ended)
}

// passedLater reports whether a test has passed at another try. The same name may be there more than once,
// with other parameters: all of them must have.
func (r report) passedLater(name string) bool {
	return slices.ContainsFunc(r.tries, func(try []test) bool {
		return slices.Contains(try, test{name, pass}) && !slices.Contains(try, test{name, fail})
	})
}

// judgement is how the tests of a suite fared.
type judgement struct {
	passed, known, skipped int
	failed                 []failure
	repeated               []string // passed at another try
}

type failure struct{ report, test string }

// shown is how many names of failed tests an outcome has.
const shown = 10

// names are those of the failed tests, each once.
func names(failed []failure) string {
	var all []string
	for _, f := range failed {
		all = append(all, f.test)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	if len(all) > shown {
		return fmt.Sprintf("%s and %d more", strings.Join(all[:shown], " "), len(all)-shown)
	}
	return strings.Join(all, " ")
}

// counts are none if there were no tests.
func (j judgement) counts() results.Counts {
	n := results.Counts{
		{Name: "passed", Number: j.passed}, {Name: "failed", Number: len(j.failed)},
		{Name: "known", Number: j.known}, {Name: "skipped", Number: j.skipped},
	}
	if len(j.repeated) > 0 {
		n = append(n, results.Count{Name: "repeated", Number: len(j.repeated)})
	}
	if j.passed+len(j.failed)+j.known+j.skipped == 0 {
		return nil
	}
	return n
}

func (r *run) judgeReports() (judgement, error) {
	reports, err := readReports(filepath.Join(r.dir, "reports"))
	return judgeTests(reports, r.program.known, r.kind), err
}

// judgeTests counts tests. One that fails at each try must be known to fail on this kind of server.
func judgeTests(reports []report, all []known, kind string) judgement {
	var j judgement
	for _, r := range reports {
		first := max(0, slices.IndexFunc(r.tries, func(try []test) bool { return !hasEnded(try) }))
		for _, try := range r.tries[:first] {
			j.repeated = append(j.repeated, try[0].name)
		}
		for _, t := range r.tries[first] {
			isKnown := slices.ContainsFunc(all, func(k known) bool {
				matches, _ := path.Match(k.test, t.name)
				return (k.on == kind || k.on == zkd && kind == edge) && matches
			})
			switch {
			case t.outcome == pass:
				j.passed++
			case t.outcome == skip:
				j.skipped++
			case isKnown:
				j.known++
			case r.passedLater(t.name):
				j.passed++
				j.repeated = append(j.repeated, t.name)
			default:
				j.failed = append(j.failed, failure{r.name, t.name})
			}
		}
	}
	return j
}

// readReports reads the reports below dir: JUnit's XML, and what go test -json prints. NAME~2.xml is of the
// second try of NAME.xml.
func readReports(dir string) ([]report, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		return nil, err
	}
	tries := make(map[string][][]test)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var tests []test
		switch filepath.Ext(file) {
		case ".xml":
			tests, err = parseJUnit(text)
		case ".json":
			tests, err = parseGoTest(text)
		default:
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		name, _, _ := strings.Cut(strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)), "~")
		tries[name] = append(tries[name], tests)
	}
	var reports []report
	for _, name := range slices.Sorted(maps.Keys(tries)) {
		reports = append(reports, report{name, tries[name]})
	}
	return reports, nil
}

// suite is an element testsuite or testsuites.
type suite struct {
	Suites []suite `xml:"testsuite"`
	Cases  []struct {
		Class   string    `xml:"classname,attr"`
		Name    string    `xml:"name,attr"`
		Failure *struct{} `xml:"failure"`
		Error   *struct{} `xml:"error"`
		Skipped *struct{} `xml:"skipped"`
	} `xml:"testcase"`
}

// parseJUnit names each test by its class without the package, and its own name without parameters.
func parseJUnit(text []byte) ([]test, error) {
	var root suite
	if err := xml.Unmarshal(text, &root); err != nil {
		return nil, err
	}
	var tests []test
	for next := []suite{root}; len(next) > 0; next = next[1:] {
		next = append(next, next[0].Suites...)
		for _, c := range next[0].Cases {
			name, _, _ := strings.Cut(c.Name, "(")
			name, _, _ = strings.Cut(name, "[")
			t := test{c.Class[strings.LastIndexByte(c.Class, '.')+1:] + "." + name, pass}
			switch {
			case c.Failure != nil || c.Error != nil:
				t.outcome = fail
			case c.Skipped != nil:
				t.outcome = skip
			}
			tests = append(tests, t)
		}
	}
	return tests, nil
}

func parseGoTest(text []byte) ([]test, error) {
	var tests []test
	for line := range strings.Lines(string(text)) {
		var event struct{ Action, Test string }
		if !strings.HasPrefix(line, "{") {
			continue // of the build
		}
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			return nil, err
		}
		if event.Test != "" && (event.Action == pass || event.Action == fail || event.Action == skip) {
			tests = append(tests, test{event.Test, event.Action})
		}
	}
	return tests, nil
}
