// Sbom prints the bill of materials of Go programs: the modules that they were built from, as
// Go has recorded them in the programs, in the CycloneDX format.
//
//	go run ./internal/sbom bin/zkd bin/zkcli > sbom.cdx.json
//	go run ./internal/sbom -version v1.2.3 -commit 0123456789ab -time 2026-01-02T03:04:05Z bin/zkd
//
// The flags are for programs in which Go has not recorded the source, as with -buildvcs=false.
// The output depends on the programs and the flags alone: it has no serial number, and its
// time is that of the commit.
package main

import (
	"cmp"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

// bom is the part of CycloneDX 1.6 that is used here. See https://cyclonedx.org/docs/1.6/json/.
type bom struct {
	Format       string       `json:"bomFormat"`
	SpecVersion  string       `json:"specVersion"`
	Version      int          `json:"version"`
	Metadata     metadata     `json:"metadata"`
	Components   []component  `json:"components"`
	Dependencies []dependency `json:"dependencies"`
}

type metadata struct {
	Timestamp string    `json:"timestamp,omitempty"`
	Component component `json:"component"`
}

type component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	PURL       string     `json:"purl"`
	Properties []property `json:"properties,omitempty"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type dependency struct {
	Ref       string   `json:"ref"`
	DependsOn []string `json:"dependsOn"`
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
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(b)
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
func describe(infos []*debug.BuildInfo) (*bom, error) {
	first := infos[0]
	b := &bom{Format: "CycloneDX", SpecVersion: "1.6", Version: 1}
	b.Metadata.Component = module("application", first.Main)
	for _, s := range first.Settings {
		switch s.Key {
		case "vcs.time":
			b.Metadata.Timestamp = s.Value
		case "vcs.revision", "vcs.modified", "GOOS", "GOARCH", "CGO_ENABLED":
			b.Metadata.Component.Properties = append(b.Metadata.Component.Properties, property{"go:" + s.Key, s.Value})
		}
	}
	b.add(module("library", debug.Module{Path: "std", Version: strings.TrimPrefix(first.GoVersion, "go")}))
	for _, info := range infos {
		if info.Main != first.Main || info.GoVersion != first.GoVersion {
			return nil, fmt.Errorf("%s and %s are not of one build", first.Path, info.Path)
		}
		for _, dep := range info.Deps {
			if dep.Replace != nil {
				dep = dep.Replace
			}
			b.add(module("library", *dep))
		}
	}
	slices.SortFunc(b.Components, func(x, y component) int { return cmp.Compare(x.Ref, y.Ref) })
	all := dependency{Ref: b.Metadata.Component.Ref}
	for _, c := range b.Components {
		all.DependsOn = append(all.DependsOn, c.Ref)
	}
	b.Dependencies = []dependency{all}
	return b, nil
}

// add adds a component once.
func (b *bom) add(c component) {
	if !slices.ContainsFunc(b.Components, func(other component) bool { return other.Ref == c.Ref }) {
		b.Components = append(b.Components, c)
	}
}

func module(kind string, m debug.Module) component {
	purl := "pkg:golang/" + m.Path + "@" + m.Version
	c := component{Type: kind, Ref: purl, Name: m.Path, Version: m.Version, PURL: purl}
	if m.Sum != "" {
		c.Properties = []property{{"go:sum", m.Sum}}
	}
	return c
}
