package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// TestOtherSystems checks the types of what also runs on macOS and Windows. It does not
// compile, which would take minutes without a build cache. Of other modules it checks declarations.
func TestOtherSystems(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	onWindows := []string{"../../client", "../../client/cache", "../../cmd/zkcli", "../../examples/lock", "../../examples/queue"}
	recipes, err := filepath.Glob("../../recipes/*/doc.go")
	if err != nil || len(recipes) == 0 {
		t.Fatal(recipes, err)
	}
	for _, doc := range recipes {
		onWindows = append(onWindows, filepath.Dir(doc))
	}
	for system, patterns := range map[string][]string{
		"darwin":  {"../../cmd/...", "../../examples/..."},
		"windows": onWindows,
	} {
		found, err := packages.Load(&packages.Config{
			Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedDeps | packages.NeedTypes,
			ParseFile: func(fset *token.FileSet, name string, text []byte) (*ast.File, error) {
				return parseFor(fset, name, text, strings.HasPrefix(name, root+string(filepath.Separator)))
			},
			Env: append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0"),
		}, patterns...)
		if err != nil {
			t.Fatal(err)
		}
		ours := 0
		packages.Visit(found, nil, func(p *packages.Package) {
			if !strings.HasPrefix(p.PkgPath, "github.com/zkd-project/zkd/") {
				return // without bodies it has unused imports
			}
			ours++
			for _, e := range p.Errors {
				t.Errorf("%s: %v", system, e)
			}
		})
		if ours == 0 {
			t.Errorf("%s: none of these packages was checked", system)
		}
	}
}

// parseFor parses a file, with the bodies of functions or without them.
func parseFor(fset *token.FileSet, name string, text []byte, bodies bool) (*ast.File, error) {
	file, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution)
	if file == nil || bodies {
		return file, err
	}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			f.Body = nil
		}
	}
	return file, err
}
