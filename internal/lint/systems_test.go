package lint

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/tools/go/packages"
)

// TestOtherSystems checks the types of what also runs on macOS and Windows. It does not
// compile, which would take minutes without a build cache.
func TestOtherSystems(t *testing.T) {
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
			Mode: packages.LoadAllSyntax,
			Env:  append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0"),
		}, patterns...)
		if err != nil {
			t.Fatal(err)
		}
		packages.Visit(found, nil, func(p *packages.Package) {
			for _, e := range p.Errors {
				t.Errorf("%s: %v", system, e)
			}
		})
	}
}
