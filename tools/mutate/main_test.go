package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRules lists what the rules change in testdata/rules.go.txt.
func TestRules(t *testing.T) {
	src, err := os.ReadFile("testdata/rules.go.txt")
	if err != nil {
		t.Fatal(err)
	}
	all, err := mutationsOf("rules.go", src)
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, m := range all {
		beside := ""
		if m.Beside {
			beside = ", beside a planted fault"
		}
		fmt.Fprintf(&got, "%d: %s%s\n%s\n\n", m.Line, m.Rule, beside, m.Diff)
	}
	want, err := os.ReadFile("testdata/rules.txt")
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("testdata/rules.txt should be:\n%s", &got)
	}
}

func TestCoverage(t *testing.T) {
	covered := coverage(`mode: set
example.org/m/a/x.go:3.10,5.2 1 1
example.org/m/a/x.go:7.10,9.2 1 0
example.org/m/b/x.go:1.1,99.2 1 1
`, []string{"a"})
	for _, tt := range []struct {
		line, column int
		want         bool
	}{{3, 9, false}, {3, 10, true}, {4, 1, true}, {5, 2, true}, {5, 3, false}, {8, 1, false}} {
		got := false
		for _, s := range covered["a/x.go"] {
			got = got || s.has(tt.line, tt.column)
		}
		if got != tt.want {
			t.Errorf("%d:%d covered: %t", tt.line, tt.column, got)
		}
	}
	if len(covered) != 1 {
		t.Errorf("files that are not judged: %v", covered)
	}
}

// TestRun plants faults into a small module: most are found, one is not, and one makes no difference.
func TestRun(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":      "module example.org/m\n\ngo 1.26\n",
		"a/a.go":      "package a\n\nfunc Max(x, y int) int {\n\tif x > y {\n\t\treturn x\n\t}\n\treturn y\n}\n\nfunc Old(age int) bool { return age >= 65 }\n\nfunc unused(x int) bool { return x < 1 }\n",
		"a/a_test.go": "package a\n\nimport \"testing\"\n\nfunc TestMax(t *testing.T) {\n\tif Max(1, 2) != 2 || Max(2, 1) != 2 {\n\t\tt.Error(\"max\")\n\t}\n\tif Old(1) || !Old(99) {\n\t\tt.Error(\"old\")\n\t}\n}\n",
		"known.txt":   "a/a.go\n- if x > y {\n+ if x >= y {\nIf they are equal, it does not matter which is returned.\n",
	} {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	results := filepath.Join(root, "results.json")
	if err := run(t.Context(), []string{"-root", root, "-known", filepath.Join(root, "known.txt"), "-results", results, "-budget", "1h", "./a"}, &out); err != nil {
		t.Fatal(err)
	}
	const want = `a/a.go:10: boundary
- func Old(age int) bool { return age >= 65 }
+ func Old(age int) bool { return age > 65 }
package                       places  covered  tried  killed  survived %killed
a                                  7        4      4       3         1    75.0
all                                7        4      4       3         1    75.0
counts: tried=4 killed=3 survived=1 percent=75
`
	if out.String() != want {
		t.Errorf("printed:\n%s", &out)
	}
	if text, err := os.ReadFile(results); err != nil || strings.Count(string(text), `"By": "a TestMax"`) != 3 {
		t.Errorf("results: %v\n%s", err, text)
	}
}
