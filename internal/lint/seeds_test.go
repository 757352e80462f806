package lint

import (
	"fmt"
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// seedRows is how many rows docs/dev/seeds.md has of each document.
var seedRows = []struct {
	document string
	rows     int
}{{"A", 41}, {"B", 32}, {"C", 58}, {"D", 39}, {"E", 13}}

var (
	seedRow  = regexp.MustCompile(`(?m)^\| ([A-Z]\d+) \|(.*)$`)
	proof    = regexp.MustCompile(`^(Test|Fuzz|Benchmark|Example)([A-Z]\w*)?$`)
	dirInRow = regexp.MustCompile(`^[a-z][a-z/]*$`)
	scenario = regexp.MustCompile(`^\w+\.txt$`)
	// grounds are what a row may rest on besides tests: a page or an example, another row,
	// or the statement that there is none.
	grounds = regexp.MustCompile(`\]\(|\bas [A-Z]\d+|not yet`)
)

// TestEachSeedHasItsRow checks that docs/dev/seeds.md leaves nothing out, that each test and
// each file of scenarios that it names is in the directory that it names before, and
// that no row is without grounds.
func TestEachSeedHasItsRow(t *testing.T) {
	page, err := os.ReadFile(path.Join(root, "docs/dev/seeds.md"))
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, s := range seedRows {
		for i := range s.rows {
			want = append(want, fmt.Sprint(s.document, i+1))
		}
	}
	tests := testsByDir(t)
	for _, row := range seedRow.FindAllStringSubmatch(string(page), -1) {
		got = append(got, row[1])
		dir, grounded := "", grounds.MatchString(row[2])
		for _, m := range quoted.FindAllStringSubmatch(row[2], -1) {
			switch name := m[1]; {
			case scenario.MatchString(name):
				if !hasScenario(dir, name) {
					t.Errorf("docs/dev/seeds.md: %s: there is no %s in testdata of %q", row[1], name, dir)
				}
			case proof.MatchString(name) && !tests[dir][name]:
				t.Errorf("docs/dev/seeds.md: %s: there is no %s in %q, the directory named before it", row[1], name, dir)
			case proof.MatchString(name):
				grounded = true
			case dirInRow.MatchString(name) && tests[name] != nil:
				dir = name
			}
		}
		if !grounded {
			t.Errorf("docs/dev/seeds.md: %s: it names no test and no page: say \"not yet\" until there is one", row[1])
		}
		if strings.Contains(notYet.ReplaceAllString(row[2], ""), "not yet") {
			t.Errorf("docs/dev/seeds.md: %s: name after \"not yet\", in brackets, the file or directory that will have it", row[1])
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("docs/dev/seeds.md: the rows are %v, want %v", got, want)
	}
}

// hasScenario reports whether a directory has a file of scenarios, in its testdata or up
// to two folders below.
func hasScenario(dir, name string) bool {
	for _, pattern := range []string{"testdata", "testdata/*", "testdata/*/*"} {
		if found, _ := filepath.Glob(path.Join(root, dir, pattern, name)); len(found) > 0 {
			return true
		}
	}
	return false
}

// testsByDir returns the tests, benchmarks and examples of each directory.
func testsByDir(t *testing.T) map[string]map[string]bool {
	t.Helper()
	dirs := make(map[string]map[string]bool)
	for _, f := range goFiles(t) {
		for _, decl := range f.syn.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || !f.isTest() || !proof.MatchString(fn.Name.Name) {
				continue
			}
			if dirs[f.dir()] == nil {
				dirs[f.dir()] = make(map[string]bool)
			}
			dirs[f.dir()][fn.Name.Name] = true
		}
	}
	return dirs
}
