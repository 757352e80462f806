package main

import (
	"bytes"
	"encoding/json"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/CycloneDX/cyclonedx-go"
)

// TestOwn makes the bill of this test program.
func TestOwn(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var once, twice bytes.Buffer
	if err := run([]string{self}, &once); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{self, self}, &twice); err != nil {
		t.Fatal(err)
	}
	if once.String() != twice.String() {
		t.Errorf("a module is listed for each program:\n%s", &twice)
	}
	var b cyclonedx.BOM
	if err := json.Unmarshal(once.Bytes(), &b); err != nil {
		t.Fatal(err)
	}
	if b.Components == nil || !slices.ContainsFunc(*b.Components, func(c cyclonedx.Component) bool { return strings.HasPrefix(c.PackageURL, "pkg:golang/std@1.") }) {
		t.Errorf("no standard library:\n%s", &once)
	}
	var named bytes.Buffer
	if err := run([]string{"-version", "v1.2.3", "-commit", "abc", "-time", "2026-01-02T03:04:05Z", self}, &named); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"purl": "pkg:golang/github.com/zkd-project/zkd/tools@v1.2.3"`, `"value": "abc"`, `"timestamp": "2026-01-02T03:04:05Z"`} {
		if !strings.Contains(named.String(), want) {
			t.Errorf("the flags give no %s:\n%s", want, &named)
		}
	}
	if err := run([]string{"main.go"}, &once); err == nil {
		t.Error("a file that is no program is accepted")
	}
	if err := run(nil, &once); err == nil {
		t.Error("no file is accepted")
	}
}

func TestDescribe(t *testing.T) {
	main := debug.Module{Path: "example.org/main", Version: "v1.2.3"}
	lib := debug.Module{Path: "example.org/lib", Version: "v0.1.0", Sum: "h1:abc="}
	old := debug.Module{Path: "example.org/old", Version: "v0.0.1", Replace: &debug.Module{Path: "example.org/new", Version: "v2.0.0"}}
	b, err := describe([]*debug.BuildInfo{
		{GoVersion: "go1.26.0", Main: main, Deps: []*debug.Module{&old}, Settings: []debug.BuildSetting{
			{Key: "vcs.time", Value: "2026-01-02T03:04:05Z"}, {Key: "vcs.revision", Value: "abc"}, {Key: "-ldflags", Value: "-s"}, {Key: "GOOS", Value: "linux"}}},
		{GoVersion: "go1.26.0", Main: main, Deps: []*debug.Module{&lib, &old}, Settings: []debug.BuildSetting{
			{Key: "vcs.time", Value: "2026-01-02T03:04:05Z"}, {Key: "vcs.revision", Value: "abc"}, {Key: "GOOS", Value: "windows"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	if err := cyclonedx.NewBOMEncoder(&got, cyclonedx.BOMFileFormatJSON).EncodeVersion(b, cyclonedx.SpecVersion1_6); err != nil {
		t.Fatal(err)
	}
	const want = `{"$schema":"http://cyclonedx.org/schema/bom-1.6.schema.json","bomFormat":"CycloneDX","specVersion":"1.6","version":1,"metadata":{"timestamp":"2026-01-02T03:04:05Z","component":` +
		`{"bom-ref":"pkg:golang/example.org/main@v1.2.3","type":"application","name":"example.org/main","version":"v1.2.3",` +
		`"purl":"pkg:golang/example.org/main@v1.2.3","properties":[{"name":"go:vcs.revision","value":"abc"}]}},"components":[` +
		`{"bom-ref":"pkg:golang/example.org/lib@v0.1.0","type":"library","name":"example.org/lib","version":"v0.1.0","purl":"pkg:golang/example.org/lib@v0.1.0","properties":[{"name":"go:sum","value":"h1:abc="}]},` +
		`{"bom-ref":"pkg:golang/example.org/new@v2.0.0","type":"library","name":"example.org/new","version":"v2.0.0","purl":"pkg:golang/example.org/new@v2.0.0"},` +
		`{"bom-ref":"pkg:golang/std@1.26.0","type":"library","name":"std","version":"1.26.0","purl":"pkg:golang/std@1.26.0"}],` +
		`"dependencies":[{"ref":"pkg:golang/example.org/main@v1.2.3","dependsOn":["pkg:golang/example.org/lib@v0.1.0","pkg:golang/example.org/new@v2.0.0","pkg:golang/std@1.26.0"]}]}` + "\n"
	if got.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &got, want)
	}
	other := main
	other.Version = "v9"
	if _, err := describe([]*debug.BuildInfo{{Main: main}, {Main: other}}); err == nil {
		t.Error("programs of two modules are taken together")
	}
}
