package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/internal/bench"
)

func TestTable(t *testing.T) {
	rows := []bench.Figure{
		bench.NewFigure("gets", "/s", []float64{100, 300, 200}, []float64{400, 900, 1000}),
		bench.NewFigure("p99", "us", []float64{1.5}, []float64{12.34}),
	}
	var out strings.Builder
	if err := writeTable(&out, rows, "Apache", "zkd"); err != nil {
		t.Fatal(err)
	}
	want := `| | Apache | zkd | ratio |
|---|---|---|---|
| gets (/s) | 200 (100 to 300) | 900 (400 to 1000) | 4.00 (3.00 to 5.00) |
| p99 (us) | 1.50 (1.50 to 1.50) | 12.3 (12.3 to 12.3) | 8.23 (8.23 to 8.23) |
`
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

func TestServerConfig(t *testing.T) {
	dir := t.TempDir()
	s, err := newServer("/bin/zkd", dir)
	if err != nil {
		t.Fatal(err)
	}
	file := s.argv[len(s.argv)-1]
	if len(s.argv) != 2 || s.argv[0] != "/bin/zkd" {
		t.Errorf("command is %q, want the program and its configuration", s.argv)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"dataDir=" + filepath.Join(s.dir, "data") + "\n",
		"clientPort=" + strings.TrimPrefix(s.addr, "127.0.0.1:") + "\n",
		"maxClientCnxns=0\n",
	} {
		if !strings.Contains(string(b), want) {
			t.Errorf("configuration lacks %q:\n%s", want, b)
		}
	}
}

// A server that ends at once is reported with its output.
func TestServerThatEnds(t *testing.T) {
	program := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho no such key\nexit 3\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := startServer(t.Context(), program, t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "no such key") {
		t.Errorf("got %v, want the status and the output", err)
	}
}

func TestSettings(t *testing.T) {
	for _, args := range []string{"-b /nonexistent/zkd", "-b apache -pairs 0", "-b apache -idle 1000000000", "-nonsense"} {
		if err := run(t.Context(), strings.Fields(args), &strings.Builder{}, &strings.Builder{}); err == nil {
			t.Errorf("run %s: no error", args)
		}
	}
}
