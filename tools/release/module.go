package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/modfile"
)

const (
	// whole is the module of this repository, and light the one that a release makes of its client.
	whole = "github.com/zkd-project/zkd"
	light = whole + "-go"
)

// small are the modules that packages of light may need.
var small = []string{"golang.org/x/crypto", "golang.org/x/text"}

// readme is the page of light.
const readme = `# zkd-go

The Go client and the recipes of [zkd](%[1]s), a coordination server that speaks ZooKeeper's protocol. They work with Apache ZooKeeper 3.5 and later as well.

    go get %[2]s/client

This module is made of zkd's %[3]s by its release, and has what needs neither a server nor large modules. Packages, versions and behaviour are those of zkd's
[Go client](%[1]s/blob/%[3]s/docs/client.md) and [recipes](%[1]s/blob/%[3]s/docs/recipes.md), whose examples and tests are there, as servers run in them. Changes and questions belong there, too.
`

// writeModule writes the module light to the directory out, which must not exist.
func writeModule(out, root, version string) error {
	files, err := module(os.DirFS(root), version)
	if err != nil {
		return err
	}
	if err := os.Mkdir(out, 0o777); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		to := filepath.Join(out, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o777), os.WriteFile(to, files[name], 0o666)); err != nil {
			return err
		}
	}
	return nil
}

// module returns the files of light by name.
func module(root fs.FS, version string) (map[string][]byte, error) {
	s := sources{root, map[string]*sourcePackage{}}
	public, err := s.public("client", "jute", "recipes")
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{"README.md": fmt.Appendf(nil, readme, repository, light, version)}
	var modules []string
	for _, p := range public {
		for dir := range p.needs {
			maps.Copy(files, s.packages[dir].files)
		}
		modules = append(modules, p.modules...)
	}
	if files["LICENSE"], err = fs.ReadFile(root, "LICENSE"); err != nil {
		return nil, err
	}
	slices.Sort(modules)
	files["go.mod"], files["go.sum"], err = requirements(root, slices.Compact(modules))
	return files, err
}

// sources reads the packages of this repository.
type sources struct {
	root     fs.FS
	packages map[string]*sourcePackage // by directory
}

// sourcePackage is a package with what it needs: of this repository, itself among them, and of modules.
type sourcePackage struct {
	files   map[string][]byte
	needs   map[string]bool
	modules []string
	fits    bool // into light
}

// public returns the packages below these directories that other modules may import and that fit into light.
func (s sources) public(dirs ...string) (all []*sourcePackage, err error) {
	for _, dir := range dirs {
		err := fs.WalkDir(s.root, dir, func(name string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				return err
			}
			if base := d.Name(); base == "internal" || base == "testdata" {
				return fs.SkipDir
			}
			p, err := s.read(name)
			if err == nil && p.fits && len(p.files) > 0 {
				all = append(all, p)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// read returns the package in a directory, for all platforms.
func (s sources) read(dir string) (*sourcePackage, error) {
	if p := s.packages[dir]; p != nil {
		return p, nil
	}
	p := &sourcePackage{files: map[string][]byte{}, needs: map[string]bool{dir: true}, fits: true}
	s.packages[dir] = p
	names, err := fs.Glob(s.root, path.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := fs.ReadFile(s.root, name)
		if err != nil {
			return nil, err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ImportsOnly)
		if err != nil {
			return nil, err
		}
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err == nil {
				err = s.need(p, imported)
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
		p.files[name] = renamed(text)
	}
	return p, nil
}

// need notes that p imports a package.
func (s sources) need(p *sourcePackage, imported string) error {
	if first, _, _ := strings.Cut(imported, "/"); !strings.Contains(first, ".") {
		return nil // of the standard library
	}
	if dir, ok := strings.CutPrefix(imported, whole+"/"); ok {
		other, err := s.read(dir)
		if err != nil {
			return err
		}
		maps.Copy(p.needs, other.needs)
		p.modules = append(p.modules, other.modules...)
		p.fits = p.fits && other.fits
		return nil
	}
	i := slices.IndexFunc(small, func(m string) bool { return strings.HasPrefix(imported, m+"/") })
	if i < 0 {
		p.fits = false
		return nil
	}
	p.modules = append(p.modules, small[i])
	return nil
}

// paths are the import paths that light has, in imports and in links of comments.
var paths = regexp.MustCompile(`\b` + regexp.QuoteMeta(whole) + `/(client|internal|jute|recipes)\b`)

func renamed(text []byte) []byte { return paths.ReplaceAll(text, []byte(light+"/$1")) }

// requirements returns go.mod and go.sum of light: of the root's, what is about these modules.
func requirements(root fs.FS, modules []string) (mod, sum []byte, err error) {
	text, err := fs.ReadFile(root, "go.mod")
	if err != nil {
		return nil, nil, err
	}
	from, err := modfile.Parse("go.mod", text, nil)
	if err != nil {
		return nil, nil, err
	}
	to := new(modfile.File)
	if err := errors.Join(to.AddModuleStmt(light), to.AddGoStmt(from.Go.Version)); err != nil {
		return nil, nil, err
	}
	sums, err := fs.ReadFile(root, "go.sum")
	if err != nil {
		return nil, nil, err
	}
	for _, r := range from.Require {
		if !slices.Contains(modules, r.Mod.Path) {
			continue
		}
		to.AddNewRequire(r.Mod.Path, r.Mod.Version, false)
		for line := range bytes.Lines(sums) {
			if bytes.HasPrefix(line, []byte(r.Mod.Path+" "+r.Mod.Version)) {
				sum = append(sum, line...)
			}
		}
	}
	mod, err = to.Format()
	return mod, sum, err
}
