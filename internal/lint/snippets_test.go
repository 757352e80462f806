package lint

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// snippet is a block of Go in a page.
type snippet struct {
	page string
	line int // of its first line
	text string
}

var fence = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")

func snippetsOf(page string, text []byte) (list []snippet) {
	for _, at := range fence.FindAllSubmatchIndex(text, -1) {
		line := 1 + bytes.Count(text[:at[2]], []byte("\n"))
		// An ellipsis is for what is left out.
		list = append(list, snippet{page, line, strings.ReplaceAll(string(text[at[2]:at[3]]), "…", "")})
	}
	return list
}

// around is what a snippet's page says that it has: a client, a context, and functions of the
// reader's own.
const around = `
var ctx context.Context
var c *client.Client
`

// own are the functions and types of the reader's own that the snippets of a page use.
var own = map[string]string{
	"README.md": `
func report(ctx context.Context) (int, error) { return 0, nil }
`,
	"docs/recipes.md": `
type Limits struct{ Rate int }
func (Limits) Check() error { return nil }
func report(ctx context.Context) ([]byte, int) { return nil, 0 }
func work(ctx context.Context, args ...any) error { return nil }
func lead(ctx context.Context, token client.Zxid) error { return nil }
func apply(l Limits) {}
`,
	"docs/client.md": `
var data []byte
var saved client.Zxid
func apply(change client.Change) {}
`,
}

// file returns the snippet as a file. A snippet is declarations, or else the body of a
// function that returns an error.
func (s snippet) file(fset *token.FileSet, imports map[string]string) (*ast.File, error) {
	at := fmt.Sprintf("//line %s:%d\n", s.page, s.line)
	body := at + s.text
	if _, err := parser.ParseFile(token.NewFileSet(), "", "package p\n"+s.text, 0); err != nil {
		body = "func _() error {\n" + at + s.text + "\n}\n"
	}
	text := body + around + own[s.page]
	uses := make(map[string]bool)
	for _, m := range regexp.MustCompile(`\b([a-z][a-z0-9]*)\.[A-Z]`).FindAllStringSubmatch(text, -1) {
		uses[m[1]] = true
	}
	head := "package p\n"
	for _, name := range slices.Sorted(maps.Keys(uses)) {
		if path := imports[name]; path != "" {
			head += fmt.Sprintf("import %s %q\n", name, path)
		}
	}
	return parser.ParseFile(fset, "", head+text, parser.SkipObjectResolution)
}

// excused are errors that come from what a snippet leaves out: to use a variable, and to
// return at the end.
var excused = regexp.MustCompile(`declared and not used|missing return|imported as .* and not used|imported and not used`)

func TestSnippets(t *testing.T) {
	imports, exports := exported(t)
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, page := range append(pages, filepath.Join(root, "README.md")) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		name, err := filepath.Rel(root, page)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range snippetsOf(filepath.ToSlash(name), text) {
			n++
			for _, err := range s.check(imports, exports) {
				t.Error(err)
			}
		}
	}
	if n == 0 {
		t.Error("no page has a snippet")
	}
}

// check returns the errors of a compiler.
func (s snippet) check(imports, exports map[string]string) (errs []error) {
	fset := token.NewFileSet()
	f, err := s.file(fset, imports)
	if err != nil {
		return []error{err}
	}
	open := func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
	conf := types.Config{Importer: importer.ForCompiler(fset, "gc", open), Error: func(err error) {
		if !excused.MatchString(err.Error()) {
			errs = append(errs, err)
		}
	}}
	_, _ = conf.Check("p", fset, []*ast.File{f}, nil) // Error gets them all
	return errs
}

// exported returns the packages that snippets may use, by name, and the files with the types
// of all packages.
func exported(t *testing.T) (imports, exports map[string]string) {
	t.Helper()
	list, err := listed()
	if err != nil {
		t.Fatal(err)
	}
	return list.imports, list.exports
}

type exports struct{ imports, exports map[string]string }

// listed asks go once: that takes seconds.
var listed = sync.OnceValues(func() (exports, error) {
	out, err := exec.Command("go", "list", "-export", "-deps", "-f", "{{.Name}} {{.ImportPath}} {{.Export}}",
		"github.com/zkd-project/zkd/client/...", "github.com/zkd-project/zkd/recipes/...", "github.com/zkd-project/zkd/jute", "log", "testing", "go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp", "go.opentelemetry.io/otel/sdk/trace").Output()
	if err != nil {
		return exports{}, err
	}
	l := exports{make(map[string]string), make(map[string]string)}
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		if len(words) < 3 {
			continue
		}
		l.exports[words[1]] = words[2]
		public := !strings.Contains(words[1], "internal/") && !strings.Contains(words[1], "vendor/")
		ours := strings.HasPrefix(words[1], "github.com/zkd-project/zkd/")
		if public && (l.imports[words[0]] == "" || ours) {
			l.imports[words[0]] = words[1]
		}
	}
	l.imports["sdktrace"] = "go.opentelemetry.io/otel/sdk/trace"
	return l, nil
})

// A snippet that does not compile is found, with its place.
func TestSnippetsAreChecked(t *testing.T) {
	imports, exports := exported(t)
	page := []byte("# Page\n\n```go\nm, err := lock.New(c, \"/l\", lock.Options{})\n```\n\n```go\nm, err := lock.NewMutex(c, \"/l\", lock.Options{})\n```\n")
	list := snippetsOf("docs/page.md", page)
	if len(list) != 2 {
		t.Fatalf("%d snippets", len(list))
	}
	if errs := list[0].check(imports, exports); len(errs) != 1 || errs[0].Error() != "docs/page.md:4: undefined: lock.New" {
		t.Errorf("errors %v", errs)
	}
	if errs := list[1].check(imports, exports); len(errs) != 0 {
		t.Errorf("errors %v", errs)
	}
}
