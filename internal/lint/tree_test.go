package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// module is the prefix of our own import paths.
const module = "github.com/zkd-project/zkd/"

// file is one text file of the project.
type file struct {
	path string // relative to the root, with slashes
	text string
	syn  *ast.File // of .go files
	fset *token.FileSet
}

func (f *file) dir() string     { return path.Dir(f.path) }
func (f *file) isTest() bool    { return strings.HasSuffix(f.path, "_test.go") }
func (f *file) isCommand() bool { return f.syn.Name.Name == "main" }

// line returns the line of a node.
func (f *file) line(n ast.Node) int { return f.fset.Position(n.Pos()).Line }

// imports returns the imported paths.
func (f *file) imports() []string {
	var paths []string
	for _, spec := range f.syn.Imports {
		if p, err := strconv.Unquote(spec.Path.Value); err == nil {
			paths = append(paths, p)
		}
	}
	return paths
}

// names returns the imported paths by the name that they have in the file.
func (f *file) names() map[string]string {
	byName := make(map[string]string)
	for i, p := range f.imports() {
		name := path.Base(p)
		if isMajor(name) {
			name = path.Base(path.Dir(p))
		}
		if as := f.syn.Imports[i].Name; as != nil {
			name = as.Name
		}
		byName[name] = p
	}
	return byName
}

// isMajor reports whether a part of an import path is a version, such as v2.
func isMajor(part string) bool {
	_, err := strconv.Atoi(strings.TrimPrefix(part, "v"))
	return strings.HasPrefix(part, "v") && err == nil
}

func parse(name, text string) (*file, error) {
	f := &file{path: name, text: text, fset: token.NewFileSet()}
	if !strings.HasSuffix(name, ".go") {
		return f, nil
	}
	var err error
	f.syn, err = parser.ParseFile(f.fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	return f, err
}

// project returns all text files of the project, read once.
func project(t *testing.T) []*file {
	t.Helper()
	files, err := readProject()
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// goFiles returns the project's Go files.
func goFiles(t *testing.T) []*file {
	t.Helper()
	var list []*file
	for _, f := range project(t) {
		if f.syn != nil {
			list = append(list, f)
		}
	}
	return list
}

const root = "../.."

// skipped has nothing that people wrote. In a worktree of git, .git is a file.
var skipped = map[string]bool{".git": true, "bin": true, "build": true, "test/console/node_modules": true}

var readProject = sync.OnceValues(func() ([]*file, error) {
	var files []*file
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		switch {
		case d.IsDir() && skipped[rel]:
			return filepath.SkipDir
		case d.IsDir() || !d.Type().IsRegular() || skipped[rel]:
			return nil
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		if strings.IndexByte(string(text[:min(len(text), 8000)]), 0) >= 0 {
			return nil // a binary, such as a fuzzing corpus or a compiled test
		}
		f, err := parse(rel, string(text))
		files = append(files, f)
		return err
	})
	return files, err
})
