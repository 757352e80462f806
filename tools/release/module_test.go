package main

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// The module has what is public and fits, and what that needs; for all platforms and without tests.
func TestModule(t *testing.T) {
	file := func(lines ...string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte(strings.Join(lines, "\n") + "\n")}
	}
	root := fstest.MapFS{
		"LICENSE": file("terms"),
		"go.mod":  file("module "+whole, "go 1.26.0", "require (", "golang.org/x/text v0.2.0", "golang.org/x/crypto v0.1.0", "example.com/large v1.0.0", ")"),
		"go.sum": file("example.com/large v1.0.0 h1:l", "golang.org/x/crypto v0.1.0 h1:c", "golang.org/x/text v0.1.0/go.mod h1:old",
			"golang.org/x/text v0.2.0 h1:t", "golang.org/x/text v0.2.0/go.mod h1:m"),
		"client/a.go":                file("// Package client has ["+whole+"/client/tree].", "package client", `import "`+whole+`/internal/ground"`),
		"client/a_linux.go":          file("package client", `import _ "`+whole+`/internal/linux"`),
		"client/a_test.go":           file("package client", `import _ "example.com/large"`),
		"client/internal/trial/a.go": file("package trial"),
		"client/tree/a.go":           file("package tree", `import "`+whole+`/client"`, "// docs/client.md of "+repository),
		"client/scram/a.go":          file("package scram", `import "golang.org/x/text/secure"`),
		"client/otel/a.go":           file("package otel", `import "example.com/large/part"`),
		"client/zktest/a.go":         file("package zktest", `import "`+whole+`/server"`),
		"internal/ground/a.go":       file("package ground", `import "io"`),
		"internal/linux/a.go":        file("package linux"),
		"internal/other/a.go":        file("package other"),
		"jute/a.go":                  file("package jute"),
		"recipes/lock/a.go":          file("package lock", `import "`+whole+`/client"`),
		"server/a.go":                file("package server", `import "example.com/large"`),
	}
	files, err := module(root, "v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"LICENSE", "README.md", "client/a.go", "client/a_linux.go", "client/scram/a.go", "client/tree/a.go", "go.mod", "go.sum",
		"internal/ground/a.go", "internal/linux/a.go", "jute/a.go", "recipes/lock/a.go"}
	if got := slices.Sorted(maps.Keys(files)); !slices.Equal(got, want) {
		t.Errorf("files %q, want %q", got, want)
	}
	for name, want := range map[string]string{
		"client/a.go":      "// Package client has [" + light + "/client/tree].\npackage client\nimport \"" + light + "/internal/ground\"\n",
		"client/tree/a.go": "package tree\nimport \"" + light + "/client\"\n// docs/client.md of " + repository + "\n",
		"go.mod":           "module " + light + "\n\ngo 1.26.0\n\nrequire golang.org/x/text v0.2.0\n",
		"go.sum":           "golang.org/x/text v0.2.0 h1:t\ngolang.org/x/text v0.2.0/go.mod h1:m\n",
	} {
		if got := string(files[name]); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
	}
}

// program imports what most programs need.
const program = `package main

import (
	_ "` + light + `/client/cache"
	_ "` + light + `/recipes/lock"
)

func main() {}
`

// A program that imports the module of this commit has fewer than ten lines in its list of modules.
func TestFewModules(t *testing.T) {
	dir := t.TempDir()
	made := filepath.Join(dir, "zkd-go")
	if err := run([]string{"client", "-version", "v0.1.0", "-o", made, "../.."}, os.Stdout, os.Stderr); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"go.mod":  "module example.com/program\n\ngo 1.26.0\n\nrequire " + light + " v0.1.0\n\nreplace " + light + " => ./zkd-go\n",
		"main.go": program,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	sum, err := os.ReadFile(filepath.Join(made, "go.sum"))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "go.sum"), sum, 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
	call := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("go %q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	call("list", "-deps", ".") // fails if a package is missing
	if list := call("list", "-m", "all"); strings.Count(list, "\n") > 4 {
		t.Errorf("go list -m all:\n%s", list)
	}
}
