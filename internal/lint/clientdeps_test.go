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
