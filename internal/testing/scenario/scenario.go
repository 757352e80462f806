// Package scenario runs the text scenarios that test the pure packages. A file
// holds blocks: commands, a line of four dashes, the output that they must
// give, an empty line. Lines that start with # are comments, and stay where
// they are.
//
//	# A standard watch fires once.
//	add 1 data /a
//	trigger deleted /a
//	----
//	1 hears NodeDeleted /a
//
// State carries over from block to block of a file. Run the tests with
// -rewrite to put the actual output into the files; review it like code.
package scenario

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the actual output into the scenario files")

// Command runs one command, given as its words, and returns its output: no or
// more lines. It reports a command that it does not know by an error.
type Command func(words []string) (string, error)

// Run runs each file that matches pattern as a subtest, with a Command from a
// new call of start.
func Run(t *testing.T, pattern string, start func(t *testing.T) Command) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("find scenarios %s: %d files, %v", pattern, len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := run(t, file, string(text), start(t))
			if *rewrite && got != string(text) {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// Rewrites reports whether files are to get the actual output.
func Rewrites() bool { return *rewrite }

// Golden compares output with a file, line by line.
func Golden(t *testing.T, file, got string) {
	t.Helper()
	if *rewrite {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range max(len(gotLines), len(wantLines)) {
		if i >= len(gotLines) || i >= len(wantLines) || gotLines[i] != wantLines[i] {
			t.Fatalf("%s:%d differs; got all:\n%s", file, i+1, got)
		}
	}
}

const separator = "----"

// run runs the blocks of a file and returns the file with the actual output.
func run(t *testing.T, file, text string, command Command) string {
	t.Helper()
	var out []string
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	actual := "" // of the commands since the last separator
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		out = append(out, line)
		switch {
		case line == separator:
			start := i + 1
			for i+1 < len(lines) && lines[i+1] != "" {
				i++
			}
			want := strings.Join(lines[start:i+1], "\n")
			actual = strings.TrimRight(actual, "\n")
			if want != actual && !*rewrite {
				t.Errorf("%s:%d:\ngot:\n%s\nwant:\n%s", file, start, actual, want)
			}
			if actual != "" {
				out = append(out, actual)
			}
			actual = ""
		case line == "" || strings.HasPrefix(line, "#"):
		default:
			got, err := command(strings.Fields(line))
			if err != nil {
				t.Fatalf("%s:%d: %s: %v", file, i+1, line, err)
			}
			if got != "" {
				actual += strings.TrimRight(got, "\n") + "\n"
			}
		}
	}
	if actual != "" {
		t.Errorf("%s: output after the last %s: %s", file, separator, actual)
	}
	return strings.Join(out, "\n") + "\n"
}

// Unknown is the error for an unknown command.
func Unknown(words []string) error { return fmt.Errorf("unknown command %q", words) }

// Deviates reports whether the commands of a file give other output than it has, or end in a panic.
func Deviates(text string, command Command) (deviates bool) {
	defer func() {
		deviates = deviates || recover() != nil
	}()
	lines := strings.Split(text, "\n")
	got := ""
	for i := 0; i < len(lines); i++ {
		switch line := lines[i]; {
		case line == separator:
			want := ""
			for i+1 < len(lines) && lines[i+1] != "" {
				i++
				want += lines[i] + "\n"
			}
			if got != want {
				return true
			}
			got = ""
		case line == "" || strings.HasPrefix(line, "#"):
		default:
			out, err := command(strings.Fields(line))
			if err != nil {
				return true
			}
			if out != "" {
				got += strings.TrimRight(out, "\n") + "\n"
			}
		}
	}
	return false
}
