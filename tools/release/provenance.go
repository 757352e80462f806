package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// statement is an in-toto statement, version 1, with provenance of SLSA, version 1: which files a release
// has, of what they were made, and how to make them again. It has no times and no number of the run: with
// these no repetition could be equal.
type statement struct {
	Type          string     `json:"_type"`
	Subject       []resource `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     struct {
		BuildDefinition struct {
			BuildType            string            `json:"buildType"`
			ExternalParameters   map[string]string `json:"externalParameters"`
			ResolvedDependencies []resource        `json:"resolvedDependencies"`
		} `json:"buildDefinition"`
		RunDetails struct {
			Builder struct {
				ID      string            `json:"id"`
				Version map[string]string `json:"version"`
			} `json:"builder"`
		} `json:"runDetails"`
	} `json:"predicate"`
}

type resource struct {
	Name   string            `json:"name,omitempty"`
	URI    string            `json:"uri,omitempty"`
	Digest map[string]string `json:"digest,omitempty"`
}

// how is the page that says how a release is made, by whom, and with which parameters.
const how = repository + "/blob/main/HACKING.md#a-release"

// state returns the statement about artefacts. Files are materials that are not in the source.
func state(from source, parameters, sboms, files, artefacts []string) (*statement, error) {
	s := &statement{Type: "https://in-toto.io/Statement/v1", PredicateType: "https://slsa.dev/provenance/v1"}
	for _, path := range artefacts {
		r, err := fileResource(path, filepath.Base(path))
		if err != nil {
			return nil, err
		}
		s.Subject = append(s.Subject, r)
	}
	if len(s.Subject) == 0 {
		return nil, errors.New("name the artefacts")
	}
	d := &s.Predicate.BuildDefinition
	d.BuildType = how
	d.ExternalParameters = map[string]string{"source": "git+" + repository, "commit": from.commit, "version": from.version}
	for _, p := range parameters {
		name, value, _ := strings.Cut(p, "=")
		d.ExternalParameters[name] = value
	}
	d.ResolvedDependencies = []resource{{URI: "git+" + repository + "@" + from.commit, Digest: map[string]string{"gitCommit": from.commit}}}
	for _, path := range files {
		r, err := fileResource(path, "")
		if err != nil {
			return nil, err
		}
		r.URI = "file://" + path
		d.ResolvedDependencies = append(d.ResolvedDependencies, r)
	}
	modules, err := modulesOf(sboms)
	if err != nil {
		return nil, err
	}
	d.ResolvedDependencies = append(d.ResolvedDependencies, modules...)
	s.Predicate.RunDetails.Builder.ID = how
	s.Predicate.RunDetails.Builder.Version = map[string]string{"go": runtime.Version()}
	return s, nil
}

func fileResource(path, name string) (resource, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return resource{}, err
	}
	return resource{Name: name, Digest: map[string]string{"sha256": hexSum(content)}}, nil
}

// bill is what is read of a bill of materials in the CycloneDX format.
type bill struct{ Components []component }

type component struct {
	PURL       string
	Properties []struct{ Name, Value string }
}

// modulesOf returns the modules that are in any of the bills, each once.
func modulesOf(sboms []string) ([]resource, error) {
	var modules []resource
	for _, path := range sboms {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		var b bill
		if err := json.Unmarshal(text, &b); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if len(b.Components) == 0 {
			return nil, fmt.Errorf("%s: it has no components", path)
		}
		for _, c := range b.Components {
			r, err := moduleResource(c)
			if err != nil {
				return nil, fmt.Errorf("%s: %s: %w", path, c.PURL, err)
			}
			modules = append(modules, r)
		}
	}
	slices.SortFunc(modules, func(x, y resource) int { return cmp.Compare(x.URI, y.URI) })
	return slices.CompactFunc(modules, func(x, y resource) bool { return x.URI == y.URI }), nil
}

// moduleResource describes a module. Its sum in go.sum, "h1:" and base64, is dirHash in hexadecimal there.
func moduleResource(c component) (resource, error) {
	r := resource{URI: c.PURL}
	for _, p := range c.Properties {
		if p.Name != "go:sum" {
			continue
		}
		sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(p.Value, "h1:"))
		if err != nil || len(sum) != sha256.Size {
			return r, fmt.Errorf("sum %s: want h1: and 32 bytes", p.Value)
		}
		r.Digest = map[string]string{"dirHash": hex.EncodeToString(sum)}
	}
	return r, nil
}

func (s *statement) write(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(s)
}
