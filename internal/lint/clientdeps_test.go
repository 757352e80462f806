package lint

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// docs/client.md names the modules that the client imports, and no others.
func TestModulesOfTheClient(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "client.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, claim, ok := strings.Cut(string(text), "Besides the standard library it imports")
	claim, _, _ = strings.Cut(claim, ".\n")
	if !ok {
		t.Fatal("docs/client.md does not say what the client imports")
	}
	var said []string
	for i, part := range strings.Split(claim, "`") {
		if i%2 == 1 {
			said = append(said, part)
		}
	}
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "github.com/zkd-project/zkd/client").Output()
	if err != nil {
		t.Fatal(err)
	}
	var real []string
	for _, module := range strings.Fields(string(out)) {
		if module != "github.com/zkd-project/zkd" && !slices.Contains(real, module) {
			real = append(real, module)
		}
	}
	slices.Sort(said)
	slices.Sort(real)
	if !slices.Equal(said, real) {
		t.Errorf("docs/client.md says that the client imports %q; it imports %q", said, real)
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
	const most = 6_360_000
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
