package client_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// What the package's documentation names under "What to call" has examples, in the same order.
func TestWhatToCallHasExamples(t *testing.T) {
	named := func(file, pattern string) (names []string) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1) {
			names = append(names, strings.ReplaceAll(match[1], ".", "_"))
		}
		return names
	}
	listed := named("doc.go", `(?m)^//   - \[([A-Za-z.]+)\]`)
	examples := named("example_test.go", `(?m)^func Example(\w+)\(`)
	if len(listed) != 10 || !slices.Equal(listed, examples) {
		t.Errorf("doc.go lists %q\nthe examples are %q", listed, examples)
	}
}
