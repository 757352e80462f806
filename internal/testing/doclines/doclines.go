package doclines

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Check parses each line of a program, which has no path, and reports those with an error at their place in the
// documentation. root is the directory of README.md. What stands for something else in a line, such as PID or
// $(command), is the word 1. A line may be typed at the program's own prompt, as in "zkcli> ls /".
func Check(t *testing.T, root, program string, parse func(args []string, atPrompt bool) error) {
	t.Helper()
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, page := range append(pages, filepath.Join(root, "README.md")) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range find(string(text), program) {
			found++
			if err := parse(l.args, l.atPrompt); err != nil {
				t.Errorf("%s:%d: %s %s: %v", filepath.ToSlash(strings.TrimPrefix(page, root+string(filepath.Separator))), l.number, program, strings.Join(l.args, " "), err)
			}
		}
	}
	if found < 5 {
		t.Errorf("the documentation has %d lines of %s: are they still found?", found, program)
	}
}

// line is one run of the program.
type line struct {
	number   int // in the page
	args     []string
	atPrompt bool
}

func find(page, program string) (found []line) {
	for _, b := range blocks(page) {
		for i := 0; i < len(b.lines); i++ {
			number, text := b.number+i, b.lines[i]
			for strings.HasSuffix(text, `\`) && i+1 < len(b.lines) {
				i++
				text = strings.TrimSuffix(text, `\`) + b.lines[i]
			}
			prompt := prompts.FindString(text)
			if b.session && prompt == "" {
				continue // output
			}
			atPrompt := strings.TrimSpace(prompt) == program+">"
			for _, words := range split(text[len(prompt):]) {
				if atPrompt {
					words = append([]string{program}, words...)
				}
				if args, ok := argsOf(words, program); ok {
					found = append(found, line{number, args, atPrompt})
				}
			}
		}
	}
	return found
}

// prompts matches the prompt of a line, of the shell or of a program.
var prompts = regexp.MustCompile(`^ *(\$|\w+>) `)

// block is a block of code.
type block struct {
	number  int // of the first line
	lines   []string
	session bool // it has prompts: other lines are output
}

// blocks returns the blocks of code of a page: those in fences, unless they are of another language than the
// shell's, and those that are indented after an empty line.
func blocks(page string) (all []block) {
	var b block
	end := func() {
		b.session = slices.ContainsFunc(b.lines, prompts.MatchString)
		if len(b.lines) > 0 {
			all = append(all, b)
		}
		b = block{}
	}
	fenced, shell, empty := false, false, true
	for i, text := range strings.Split(page, "\n") {
		language, fence := strings.CutPrefix(strings.TrimSpace(text), "```")
		switch {
		case fence:
			end()
			fenced = !fenced
			shell = slices.Contains([]string{"", "sh", "bash", "shell", "console"}, language)
			empty = true
			continue
		case fenced && !shell:
			continue
		case !fenced && strings.TrimSpace(text) == "":
			end()
			empty = true
			continue
		case !fenced && (!strings.HasPrefix(text, "    ") || !empty && len(b.lines) == 0):
			end()
			empty = false
			continue
		}
		if len(b.lines) == 0 {
			b.number = i + 1
		}
		b.lines = append(b.lines, text)
	}
	end()
	return all
}

// before are the words that may be before a program: those of the shell, and programs that run another one.
var before = regexp.MustCompile(`^((\w+=\S*|sudo|exec|time|nohup|if|while|until|then|else|do|!|go run|docker exec \S+|kubectl exec \S+ --) )*$`)

// placeholder is a word for a number, or a variable.
var placeholder = regexp.MustCompile(`^(PID\d*|\$\w+)$`)

// argsOf returns the arguments if words run the program.
func argsOf(words []string, program string) ([]string, bool) {
	for i, word := range words {
		if path.Base(word) != program || !before.MatchString(strings.Join(words[:i], " ")+" ") && i > 0 {
			continue
		}
		args := slices.Clone(words[i+1:])
		args = slices.DeleteFunc(args, func(a string) bool { return a == "..." || a == "…" })
		for i, a := range args {
			if placeholder.MatchString(a) {
				args[i] = "1"
			}
		}
		return args, true
	}
	return nil, false
}
