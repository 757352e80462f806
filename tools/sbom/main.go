// Sbom prints the bill of materials of Go programs: the modules that they were built from, as
// Go has recorded them in the programs, in the CycloneDX format.
//
//	go -C tools run ./sbom $PWD/bin/zkd $PWD/bin/zkcli > sbom.cdx.json
//	go -C tools run ./sbom -version v1.2.3 -commit 0123456789ab -time 2026-01-02T03:04:05Z $PWD/bin/zkd
//
// The flags are for programs in which Go has not recorded the source, as with -buildvcs=false.
// The output depends on the programs and the flags alone: it has no serial number, and its
// time is that of the commit.
package main

import (
	"cmp"
	"debug/buildinfo"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

// source is what the flags say about the source. An empty field leaves what Go has recorded.
type source struct{ version, commit, time string }

func run(args []string, out io.Writer) error {
	var from source
	fl := flag.NewFlagSet("sbom", flag.ContinueOnError)
	fl.StringVar(&from.version, "version", "", "version of the programs' module")
	fl.StringVar(&from.commit, "commit", "", "commit that the programs were built from")
	fl.StringVar(&from.time, "time", "", "time of the commit (RFC 3339)")
	if err := fl.Parse(args); err != nil {
		return err
	}
	files := fl.Args()
	if len(files) == 0 {
		return errors.New("name the programs")
	}
	var infos []*debug.BuildInfo
	for _, file := range files {
		info, err := buildinfo.ReadFile(file)
		if err != nil {
			return fmt.Errorf("read %s: %w", file, err)
		}
		infos = append(infos, info)
	}
	for _, info := range infos {
		from.setIn(info)
	}
	b, err := describe(infos)
	if err != nil {
		return err
	}
	return cyclonedx.NewBOMEncoder(out, cyclonedx.BOMFileFormatJSON).SetPretty(true).SetEscapeHTML(false).EncodeVersion(b, cyclonedx.SpecVersion1_6)
}

// setIn replaces what Go has recorded about the source.
func (s source) setIn(info *debug.BuildInfo) {
	if s.version != "" {
		info.Main.Version = s.version
	}
	for _, set := range []debug.BuildSetting{{Key: "vcs.revision", Value: s.commit}, {Key: "vcs.time", Value: s.time}} {
		if set.Value != "" {
			info.Settings = slices.DeleteFunc(info.Settings, func(old debug.BuildSetting) bool { return old.Key == set.Key })
			info.Settings = append(info.Settings, set)
		}
	}
}

// describe returns the bill of programs of one module.
func describe(infos []*debug.BuildInfo) (*cyclonedx.BOM, error) {
	first := infos[0]
	program := component(cyclonedx.ComponentTypeApplication, first.Main)
	b := cyclonedx.NewBOM()
	b.Metadata = &cyclonedx.Metadata{Component: &program}
	var properties []cyclonedx.Property
	for _, s := range first.Settings {
		if slices.ContainsFunc(infos, func(other *debug.BuildInfo) bool { return !slices.Contains(other.Settings, s) }) {
			continue // as GOOS, of programs for several systems
		}
		switch s.Key {
		case "vcs.time":
			b.Metadata.Timestamp = s.Value
		case "vcs.revision", "vcs.modified", "GOOS", "GOARCH", "CGO_ENABLED":
			properties = append(properties, cyclonedx.Property{Name: "go:" + s.Key, Value: s.Value})
		}
	}
	if properties != nil {
		program.Properties = &properties
	}
	modules, err := modulesOf(infos)
	if err != nil {
		return nil, err
	}
	var components []cyclonedx.Component
	var refs []string
	for _, m := range modules {
		c := component(cyclonedx.ComponentTypeLibrary, m)
		components, refs = append(components, c), append(refs, c.BOMRef)
	}
	b.Components = &components
	b.Dependencies = &[]cyclonedx.Dependency{{Ref: program.BOMRef, Dependencies: &refs}}
	return b, nil
}

// modulesOf returns the modules that programs of one module were built from, each once.
func modulesOf(infos []*debug.BuildInfo) ([]debug.Module, error) {
	first := infos[0]
	all := []debug.Module{{Path: "std", Version: strings.TrimPrefix(first.GoVersion, "go")}}
	for _, info := range infos {
		if info.Main != first.Main || info.GoVersion != first.GoVersion {
			return nil, fmt.Errorf("%s and %s are not of one build", first.Path, info.Path)
		}
		for _, dep := range info.Deps {
			if dep.Replace != nil {
				dep = dep.Replace
			}
			all = append(all, *dep)
		}
	}
	slices.SortFunc(all, func(x, y debug.Module) int { return cmp.Compare(purl(x), purl(y)) })
	return slices.CompactFunc(all, func(x, y debug.Module) bool { return purl(x) == purl(y) }), nil
}

func purl(m debug.Module) string { return "pkg:golang/" + m.Path + "@" + m.Version }

func component(kind cyclonedx.ComponentType, m debug.Module) cyclonedx.Component {
	c := cyclonedx.Component{Type: kind, BOMRef: purl(m), Name: m.Path, Version: m.Version, PackageURL: purl(m)}
	if m.Sum != "" {
		c.Properties = &[]cyclonedx.Property{{Name: "go:sum", Value: m.Sum}}
	}
	return c
}
