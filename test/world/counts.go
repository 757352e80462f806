package main

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// counts are what a program counted, in the order of its last line.
type counts []count

type count struct {
	name   string
	number int
}

func (n counts) get(name string) (int, bool) {
	i := slices.IndexFunc(n, func(c count) bool { return c.name == name })
	if i < 0 {
		return 0, false
	}
	return n[i].number, true
}

func (n counts) String() string {
	var words []string
	for _, c := range n {
		words = append(words, fmt.Sprintf("%s=%d", c.name, c.number))
	}
	return strings.Join(words, " ")
}

// parseCounts reads "acknowledged=40000 lost=0".
func parseCounts(line string) (counts, error) {
	var n counts
	for _, word := range strings.Fields(line) {
		name, value, _ := strings.Cut(word, "=")
		number, err := strconv.Atoi(value)
		if err != nil || name == "" {
			return nil, fmt.Errorf("the last line is %q: want counts such as \"acknowledged=40000 lost=0\"", line)
		}
		n = append(n, count{name, number})
	}
	if len(n) == 0 {
		return nil, errors.New("it has counted nothing")
	}
	return n, nil
}

// judge counts what a run did, and returns an error if that is not what its program declares: tests, if
// it left reports of them, or else what its last line says.
func (r *run) judge() (counts, error) {
	tests, err := readReports(filepath.Join(r.dir, "reports"))
	if err != nil {
		return nil, err
	}
	var n counts
	if len(tests) > 0 {
		n, err = judgeTests(tests, r.program.known, r.kind)
	} else {
		n, err = parseCounts(r.last)
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

// shown is how many names of failed tests an outcome has.
const shown = 10

// judgeTests counts tests. One that fails must be known to fail on this kind of server. The same name
// may be there more than once, with other parameters.
func judgeTests(tests []test, all []known, kind string) (counts, error) {
	number := make(map[string]int)
	var unknown []string
	for _, t := range tests {
		isKnown := slices.ContainsFunc(all, func(k known) bool {
			matches, _ := path.Match(k.test, t.name)
			return k.on == kind && matches
		})
		outcome := t.outcome
		if outcome == fail && isKnown {
			outcome = "known"
		} else if outcome == fail {
			unknown = append(unknown, t.name)
		}
		number[outcome]++
	}
	n := counts{{"passed", number[pass]}, {"failed", number[fail]}, {"known", number["known"]}, {"skipped", number[skip]}}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		unknown = slices.Compact(unknown)
		more := ""
		if len(unknown) > shown {
			more = fmt.Sprintf(" and %d more", len(unknown)-shown)
			unknown = unknown[:shown]
		}
		return n, fmt.Errorf("%s: %s%s", n, strings.Join(unknown, " "), more)
	}
	return n, nil
}

// readReports reads the reports below dir: JUnit's XML, and what go test -json prints.
func readReports(dir string) ([]test, error) {
	var tests []test
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var more []test
		switch filepath.Ext(file) {
		case ".xml":
			more, err = parseJUnit(text)
		case ".json":
			more, err = parseGoTest(text)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		tests = append(tests, more...)
	}
	return tests, nil
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
