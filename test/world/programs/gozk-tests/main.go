// Command gozk-tests makes an overlay for `go test` with which go-zookeeper's own tests are
// those of package client/gozk:
//
//	gozk-tests REPOSITORY SUITE PROGRAM DIRECTORY
//
// REPOSITORY is this one, SUITE the directory of go-zookeeper in the module cache, PROGRAM that of
// this file, and DIRECTORY where overlay.json is written. The suite's files are taken as they are.
// Those that have one of the functions of private.list are taken without it, as they would not
// compile. So that the others may look inside a Conn, it has what inside.go.txt says.
package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: gozk-tests REPOSITORY SUITE PROGRAM DIRECTORY")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
		fmt.Fprintln(os.Stderr, "gozk-tests:", err)
		os.Exit(1)
	}
}

func run(repository, suite, program, dir string) error {
	private, err := readPrivate(filepath.Join(program, "private.list"))
	if err != nil {
		return err
	}
	target := filepath.Join(repository, "client", "gozk")
	overlay := make(map[string]string) // a file of the package: what it is replaced by; "" removes it
	ours, err := filepath.Glob(filepath.Join(target, "*_test.go"))
	if err != nil {
		return err
	}
	for _, file := range ours {
		overlay[file] = ""
	}
	theirs, err := filepath.Glob(filepath.Join(suite, "*_test.go"))
	if err != nil || len(theirs) == 0 {
		return fmt.Errorf("no tests in %s: %v", suite, err)
	}
	for _, file := range theirs {
		from, err := without(file, private, dir)
		if err != nil {
			return err
		}
		overlay[filepath.Join(target, "suite_"+filepath.Base(file))] = from
	}
	for name, used := range private {
		if !used {
			return fmt.Errorf("private.list: there is no function %s", name)
		}
	}
	overlay[filepath.Join(target, "inside_test.go")] = filepath.Join(program, "inside.go.txt")
	conn := filepath.Join(target, "conn.go")
	if overlay[conn], err = opened(conn, dir); err != nil {
		return err
	}
	text, err := json.MarshalIndent(map[string]any{"Replace": overlay}, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "overlay.json"), text, 0o666)
}

// readPrivate returns the functions of private.list, each line of which is a name and a reason.
func readPrivate(file string) (map[string]bool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	names := make(map[string]bool)
	for line := range strings.Lines(string(text)) {
		name, reason, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == "" || strings.HasPrefix(name, "#") {
			continue
		}
		if strings.TrimSpace(reason) == "" {
			return nil, fmt.Errorf("%s: %s needs a reason", file, name)
		}
		names[name] = false
	}
	return names, nil
}

// without returns the file, or a copy in dir that has blanks in place of the private functions,
// and of the imports that only they need. It marks those that it has seen.
func without(file string, private map[string]bool, dir string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, text, parser.SkipObjectResolution)
	if err != nil {
		return "", err
	}
	blank := func(n ast.Node) {
		for i := set.Position(n.Pos()).Offset; i < set.Position(n.End()).Offset; i++ {
			if text[i] != '\n' {
				text[i] = ' '
			}
		}
	}
	packages := make(map[string]bool)
	cut := false
	for _, decl := range parsed.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil {
			if _, ok := private[f.Name.Name]; ok {
				private[f.Name.Name] = true
				blank(f)
				cut = true
				continue
			}
		}
		ast.Inspect(decl, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok {
					packages[x.Name] = true
				}
			}
			return true
		})
	}
	if !cut {
		return file, nil
	}
	for _, spec := range parsed.Imports {
		path := strings.Trim(spec.Path.Value, `"`)
		if !packages[path[strings.LastIndexByte(path, '/')+1:]] {
			blank(spec)
		}
	}
	copied := filepath.Join(dir, filepath.Base(file))
	return copied, os.WriteFile(copied, text, 0o666)
}

// opened returns a copy of conn.go whose Conn has the parts that the suite looks at.
func opened(file, dir string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	lines := strings.Split(string(text), "\n")
	for _, edit := range [][2]string{
		{"type Conn struct {", "inside // see inside.go.txt"},
		{"ev, ok := c.queue.next()", "c.inside.look(c)"},
	} {
		i := slices.IndexFunc(lines, func(l string) bool { return strings.TrimSpace(l) == edit[0] })
		if i < 0 {
			return "", fmt.Errorf("%s has no line %q", file, edit[0])
		}
		lines = slices.Insert(lines, i+1, edit[1])
	}
	copied := filepath.Join(dir, filepath.Base(file))
	return copied, os.WriteFile(copied, []byte(strings.Join(lines, "\n")), 0o666)
}
