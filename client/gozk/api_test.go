package zk

import (
	"bytes"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	_ "github.com/go-zookeeper/zk" // of the version that go.mod names
)

// more is what this package has beyond go-zookeeper's.
var more = []string{
	"func WithOptions(change func(*client.Options)) connOption",
	"method (*Conn) Client() *client.Client",
}

// TestAPI compares what the two packages export: names, types, fields of structs, methods,
// values of constants.
func TestAPI(t *testing.T) {
	const theirs, ours = "github.com/go-zookeeper/zk", "github.com/zkd-project/zkd/client/gozk"
	cmd := exec.CommandContext(t.Context(), "go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", theirs, ours)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	must(t, err)
	files := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		files[path] = file
	}
	from := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) { return os.Open(files[path]) })
	want, got := exported(t, from, theirs), exported(t, from, ours)
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("missing: %s", line)
		}
	}
	for _, line := range got {
		if !slices.Contains(want, line) && !slices.Contains(more, line) {
			t.Errorf("not in go-zookeeper, nor in more: %s", line)
		}
	}
	for _, line := range more {
		if !slices.Contains(got, line) {
			t.Errorf("in more, but not here: %s", line)
		}
	}
	if len(want) < 150 {
		t.Errorf("go-zookeeper exports only %d things:\n%s", len(want), strings.Join(want, "\n"))
	}
}

// exported returns what a package exports, a line for each thing.
func exported(t *testing.T, from types.Importer, path string) (lines []string) {
	p, err := from.Import(path)
	must(t, err)
	short := func(q *types.Package) string {
		if q == p {
			return ""
		}
		return q.Name()
	}
	text := func(x types.Type) string { return types.TypeString(x, short) }
	line := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	for _, name := range p.Scope().Names() {
		switch o := p.Scope().Lookup(name).(type) {
		case *types.Const:
			if o.Exported() {
				line("const %s %s = %s", name, text(o.Type()), o.Val())
			}
		case *types.Var:
			if o.Exported() {
				line("var %s %s", name, text(o.Type()))
			}
		case *types.Func:
			if o.Exported() {
				signature := new(bytes.Buffer)
				types.WriteSignature(signature, o.Signature(), short)
				line("func %s%s", name, signature)
			}
		case *types.TypeName:
			if !o.Exported() && name != "connOption" { // which programs can pass as a function
				continue
			}
			switch u := o.Type().Underlying().(type) {
			case *types.Struct:
				line("type %s struct", name)
				for f := range u.Fields() {
					if f.Exported() {
						line("field %s.%s %s", name, f.Name(), text(f.Type()))
					}
				}
			case *types.Interface:
				line("type %s interface", name)
				for m := range u.Methods() {
					line("interface method %s.%s %s", name, m.Name(), text(m.Type()))
				}
			default:
				line("type %s %s", name, text(u))
			}
			for m := range types.NewMethodSet(types.NewPointer(o.Type())).Methods() {
				if _, ok := o.Type().Underlying().(*types.Interface); ok || !m.Obj().Exported() {
					continue
				}
				signature := new(bytes.Buffer)
				types.WriteSignature(signature, m.Type().(*types.Signature), short)
				pointer := "*"
				if types.NewMethodSet(o.Type()).Lookup(nil, m.Obj().Name()) != nil {
					pointer = ""
				}
				line("method (%s%s) %s%s", pointer, name, m.Obj().Name(), signature)
			}
		}
	}
	return lines
}
