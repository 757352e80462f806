package lint

import (
	"go/ast"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	links    = regexp.MustCompile(`\]\(([^)#:]*)(?:#([^)]*))?\)`) // within the project, so without a scheme
	heading  = regexp.MustCompile(`(?m)^#+ (.*)$`)
	unslug   = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	quoted   = regexp.MustCompile("`([^`\n]+)`")
	source   = regexp.MustCompile(`^(client|cmd|conf|examples|fourletter|internal|jute|recipes|server|test)(/[\w.-]+)+$`)
	testName = regexp.MustCompile(`^(Test|Fuzz|Benchmark)[A-Z]\w*$`)
	// inBrowser is a test of make console: its file and its title.
	inBrowser = regexp.MustCompile(`^\w+\.test\.mjs: `)
	targets   = regexp.MustCompile(`(?m)(?:^ +|` + "`" + `)make ([a-z]+)`)
	target    = regexp.MustCompile(`(?m)^([a-z]+):`)
)

// documents returns the Markdown files but for the specifications: those speak
// of the protocol, and of what is still to be built.
func documents(t *testing.T) []*file {
	t.Helper()
	var list []*file
	for _, f := range project(t) {
		if path.Ext(f.path) == ".md" && f.dir() != "docs/dev/spec" {
			list = append(list, f)
		}
	}
	return list
}

func TestLinksLeadSomewhere(t *testing.T) {
	anchors := make(map[string]map[string]bool)
	for _, f := range project(t) {
		if path.Ext(f.path) == ".md" {
			anchors[f.path] = anchorsOf(f.text)
		}
	}
	for _, f := range documents(t) {
		for _, m := range links.FindAllStringSubmatch(f.text, -1) {
			to := f.path
			if m[1] != "" {
				to = path.Join(f.dir(), m[1])
			}
			if _, err := os.Stat(path.Join(root, to)); err != nil {
				t.Errorf("%s: link to %s, which is not there", f.path, to)
			} else if m[2] != "" && !anchors[to][m[2]] {
				t.Errorf("%s: link to %s, which has no heading #%s", f.path, to, m[2])
			}
		}
	}
}

// TestTenTasks: README leads to the table of ten tasks, and each of them leads to a section, so that it is found in two clicks.
// TestLinksLeadSomewhere checks that the sections are there.
func TestTenTasks(t *testing.T) {
	readme, err := os.ReadFile(path.Join(root, "README.md"))
	if err != nil || !strings.Contains(string(readme), "](docs/index.md#ten-tasks)") {
		t.Errorf("README.md has no link to docs/index.md#ten-tasks (%v)", err)
	}
	index, err := os.ReadFile(path.Join(root, "docs/index.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(index), "\n## Ten tasks\n")
	table, _, _ = strings.Cut(table, "\n\nAnd:")
	tasks := 0
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| task ") {
			continue
		}
		tasks++
		toSection := func(link []string) bool { return link[1] != "" && link[2] != "" }
		if !slices.ContainsFunc(links.FindAllStringSubmatch(line, -1), toSection) {
			t.Errorf("docs/index.md: no link to a section of a page in the row %s", line)
		}
	}
	if tasks != 10 {
		t.Errorf("docs/index.md has %d rows under \"Ten tasks\"", tasks)
	}
}

// anchorsOf returns the names by which links reach the headings of a page.
func anchorsOf(text string) map[string]bool {
	names := make(map[string]bool)
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		name := unslug.ReplaceAllString(strings.ToLower(m[1]), "")
		names[strings.ReplaceAll(name, " ", "-")] = true
	}
	return names
}

// TestTablesAreWhole: rows behind a blank line are no table, but text with bars.
func TestTablesAreWhole(t *testing.T) {
	for _, f := range documents(t) {
		before := ""
		lines := strings.Split(f.text, "\n")
		for i, line := range lines {
			isRow := strings.HasPrefix(line, "|")
			if isRow && !strings.HasPrefix(before, "|") && !strings.HasPrefix(lines[i+1], "|--") && !strings.HasPrefix(lines[i+1], "| --") {
				t.Errorf("%s:%d: a table's row without a head: is there a blank line in the table?", f.path, i+1)
			}
			before = line
		}
	}
}

// notYet is followed by the files or directories that what is missing would have.
var notYet = regexp.MustCompile("not yet \\((?:`[^`]+`(?:, )?)+\\)")

// TestNotYet checks that what a document says is not there yet is not there.
func TestNotYet(t *testing.T) {
	for _, f := range documents(t) {
		for _, text := range notYet.FindAllString(f.text, -1) {
			for _, name := range quoted.FindAllStringSubmatch(text, -1) {
				if _, err := os.Stat(path.Join(root, name[1])); err == nil {
					t.Errorf("%s: it says \"not yet\", and there is %s", f.path, name[1])
				}
			}
		}
	}
}

// TestNamesExist checks that the files, directories and tests that a document
// names exist.
func TestNamesExist(t *testing.T) {
	functions := make(map[string]bool)
	for _, f := range goFiles(t) {
		for _, decl := range f.syn.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok {
				functions[fn.Name.Name] = true
			}
		}
	}
	for _, f := range documents(t) {
		for _, m := range quoted.FindAllStringSubmatch(notYet.ReplaceAllString(f.text, ""), -1) {
			switch name := m[1]; {
			case source.MatchString(name):
				if _, err := os.Stat(path.Join(root, name)); err != nil {
					t.Errorf("%s: names %s, which is not there", f.path, name)
				}
			case inBrowser.MatchString(name):
				file, title, _ := strings.Cut(name, ": ")
				text, err := os.ReadFile(path.Join(root, "test/console", file))
				if err != nil || !strings.Contains(string(text), "test('"+title+"'") && !strings.Contains(string(text), "test(`"+title+"`") {
					t.Errorf("%s: names the test %s, which is not there", f.path, name)
				}
			case testName.MatchString(name) && !functions[name]:
				t.Errorf("%s: names %s, and there is no such test: say what attacks the invariant now", f.path, name)
			}
		}
	}
}

func TestMakeTargetsExist(t *testing.T) {
	makefile, err := os.ReadFile(path.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	known := make(map[string]bool)
	for _, m := range target.FindAllStringSubmatch(string(makefile), -1) {
		known[m[1]] = true
	}
	for _, f := range documents(t) {
		for _, m := range targets.FindAllStringSubmatch(f.text, -1) {
			if !known[m[1]] {
				t.Errorf("%s: make %s: the Makefile has no such target", f.path, m[1])
			}
		}
	}
}

// metric finds the metrics in the files that declare them.
var metric = regexp.MustCompile(`(?mi)(?:\bname:\s*|^\t\{|Histogram\(|NewDesc\()"([a-z_]+)"`)

func TestMetricsAreDocumented(t *testing.T) {
	var pages string
	for _, name := range []string{"docs/monitor.md", "docs/metrics.md", "docs/run.md"} {
		page, err := os.ReadFile(path.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		pages += string(page)
	}
	for _, name := range []string{"server/show/histograms.go", "server/show/collector.go", "server/wal/metrics.go"} {
		text, err := os.ReadFile(path.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		found := metric.FindAllStringSubmatch(string(text), -1)
		if len(found) == 0 {
			t.Errorf("%s: no metrics found", name)
		}
		for _, m := range found {
			if !strings.Contains(pages, "`"+m[1]+"`") {
				t.Errorf("%s: metric %s is in none of docs/monitor.md, docs/metrics.md and docs/run.md: say in the first what it tells an operator", name, m[1])
			}
		}
	}
}

// TestGoroutinesAreInTheTable checks that each file of the server, the shadow, the edge and its connections, the client and the
// recipes that starts a goroutine is in the table of docs/dev/internals.md, and no other file.
func TestGoroutinesAreInTheTable(t *testing.T) {
	text, err := os.ReadFile(path.Join(root, "docs/dev/internals.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Goroutines\n")
	section, _, _ = strings.Cut(section, "\n## ")
	starts := make(map[string]bool)
	for _, f := range goFiles(t) {
		serves := slices.Contains([]string{"cmd/zkd", "cmd/zkd/demo", "cmd/zkd/local", "cmd/zkd/testserver", "cmd/zkcli/ensemble", "migrate/mirror", "migrate/standby", "migrate/takeover", "migrate/shadow/proxy", "fourletter", "client", "client/cache", "client/gozk", "edge", "edge/memory", "internal/mux", "internal/sockets"}, f.dir()) ||
			strings.HasPrefix(f.path, "server/") || strings.HasPrefix(f.path, "recipes/") && f.dir() != "recipes/internal/trial"
		if serves && !f.isTest() && startsGoroutine(f) {
			starts[f.path] = true
		}
	}
	for _, p := range slices.Sorted(maps.Keys(starts)) {
		if !strings.Contains(section, "`"+p+"`") {
			t.Errorf("%s starts a goroutine that is not in the table of docs/dev/internals.md: "+
				"add its owner, when it stops, its queue, and what happens when that is full", p)
		}
	}
	for _, m := range quoted.FindAllStringSubmatch(section, -1) {
		if strings.HasSuffix(m[1], ".go") && !starts[m[1]] {
			t.Errorf("the table of goroutines in docs/dev/internals.md has %s, which starts none", m[1])
		}
	}
}

// startsGoroutine reports whether a file has a go statement or a call of a
// WaitGroup's Go.
func startsGoroutine(f *file) (starts bool) {
	ast.Inspect(f.syn, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			starts = true
		case *ast.CallExpr:
			if sel, ok := n.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Go" {
				starts = true
			}
		}
		return !starts
	})
	return starts
}
