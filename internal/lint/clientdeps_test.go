package lint

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestModulesOfTheClient holds docs/client.md: the client imports the standard library alone, and its packages for TLS and SCRAM
// one module each.
func TestModulesOfTheClient(t *testing.T) {
	for pkg, want := range map[string][]string{
		"client":            nil,
		"client/gozk":       nil,
		"client/secure":     {"golang.org/x/crypto"},
		"client/sasl/scram": {"golang.org/x/text"},
	} {
		out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "github.com/zkd-project/zkd/"+pkg).Output()
		if err != nil {
			t.Fatal(err)
		}
		modules := slices.Compact(slices.Sorted(slices.Values(strings.Fields(string(out)))))
		modules = slices.DeleteFunc(modules, func(m string) bool { return m == "github.com/zkd-project/zkd" })
		if !slices.Equal(modules, want) {
			t.Errorf("%s has code of %q, want %q", pkg, modules, want)
		}
	}
}

// reader is a program that reads a node.
const reader = `package main

import (
	"context"
	"fmt"

	"github.com/zkd-project/zkd/client"
)

func main() {
	ctx := context.Background()
	c, err := client.Connect(ctx, "localhost:2181", client.Options{})
	if err != nil {
		panic(err)
	}
	defer c.Close(ctx)
	n, err := c.Get(ctx, "/")
	fmt.Println(n.Data, err)
}
`

// A program with the client is not much larger than decision 025 says.
func TestSizeWithTheClient(t *testing.T) {
	const most = 3_800_000
	dir := t.TempDir()
	source, program := filepath.Join(dir, "main.go"), filepath.Join(dir, "program")
	if err := os.WriteFile(source, []byte(reader), 0o666); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-o", program, source)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	info, err := os.Stat(program)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > most {
		t.Errorf("it has %d bytes, the most is %d: go tool nm -size -sort size says what the client links now", info.Size(), most)
	}
}
