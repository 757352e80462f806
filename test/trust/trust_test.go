package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

const root = "../.."

// The tables of the page are what the results say.
func TestPage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	want, err := withTables(root, text)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(text, want) {
		t.Errorf("%s is not what the files in results/ say: go run ./test/trust -write", page)
	}
}

// Each section of docs/guarantees.md that promises something has one row, in the order of that page.
func TestPromisesAreThoseOfThePage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/guarantees.md"))
	if err != nil {
		t.Fatal(err)
	}
	promised, _, ok := strings.Cut(string(text), "\n## What it does not promise\n")
	if !ok {
		t.Fatal("docs/guarantees.md does not say what is not promised")
	}
	var want, have []string
	for _, m := range regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(promised, -1) {
		want = append(want, m[1])
	}
	for _, p := range promises {
		have = append(have, p.name)
		if len(p.checked) == 0 {
			t.Errorf("%s: no check", p.name)
		}
		for _, name := range p.checked {
			if checkOf(name) == nil {
				t.Errorf("%s: no check %s", p.name, name)
			}
		}
	}
	if !slices.Equal(have, want) {
		t.Errorf("the promises are %q, docs/guarantees.md has %q", have, want)
	}
}

// Each check is a target, and each result is of a check.
func TestChecks(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range checks {
		for _, target := range []string{c.name, c.brief} {
			if target != "" && !strings.Contains(string(makefile), "\n"+target+":") {
				t.Errorf("the Makefile has no %s", target)
			}
		}
	}
	files, err := filepath.Glob("results/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if checkOf(strings.TrimSuffix(filepath.Base(file), ".txt")) == nil {
			t.Errorf("%s: no check of that name", file)
		}
	}
}

func TestHabits(t *testing.T) {
	h := habits{
		commit: made("# make fuzz\nstep race make race\nnice make -j 2 sim mutants SEED=1\nstep 'compat' make compat processes\n"),
		night:  made("\t$(MAKE) race\n\t$(TRUST) sim SEED=2\n\t$(MAKE) crash cluster\n"),
	}
	for name, want := range map[string]string{
		"sim": "each commit; nightly", "mutants": "each commit", "compat": "each commit",
		"crash": "each commit, in short; nightly", "fuzz": "by hand", "soak": "by hand",
	} {
		if got := h.of(*checkOf(name)); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// What a run counts comes back from its file, whether it fails or not.
func TestOutcome(t *testing.T) {
	o := &outcome{command: "make sim SEEDS=2", verdict: passed, took: time.Minute, date: time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC), version: "8b0d7514"}
	const output = "building\n    sim_test.go:46: counts: seeds=2 steps=1999\nok\ncounts: seeds=1 violations=0"
	if err := o.count(strings.NewReader(output)); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(resultFile(dir, "sim"), []byte(o.text()), 0o644); err != nil {
		t.Fatal(err)
	}
	again, err := readOutcome(dir, "sim")
	if err != nil || again.text() != o.text() {
		t.Errorf("read %+v, %v", again, err)
	}
	if got, want := figures(again), "passed; seeds 3, steps 1,999, violations 0; 1m0s; 2026-11-29, 8b0d7514"; got != want {
		t.Errorf("figures %q, want %q", got, want)
	}
	if o, err := readOutcome(dir, "crash"); o != nil || err != nil {
		t.Errorf("nothing is known of crash: %v, %v", o, err)
	}
	if err := o.count(strings.NewReader("counts: none\n")); err == nil {
		t.Error("these are no counts")
	}
}

// A run fails as make does.
func TestRun(t *testing.T) {
	bin := t.TempDir()
	script := "#!/bin/sh\necho \"counts: arguments=$#\"\ntest \"$1\" != crash\n"
	if err := os.WriteFile(filepath.Join(bin, "make"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	for name, good := range map[string]bool{"sim": true, "crash": false} {
		var o outcome
		if err := run(t.Context(), []string{name, "SEED=1"}, &o); (err == nil) != good {
			t.Errorf("%s: %v", name, err)
		}
		if n, _ := o.counts.Get("arguments"); n != 2 {
			t.Errorf("%s: counts %v", name, o.counts)
		}
	}
}
