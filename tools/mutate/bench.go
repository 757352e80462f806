package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// bench builds and runs the tests of the judges.
type bench struct {
	options
	tmp    string
	judges []*judge
}

// judge is a package with tests.
type judge struct {
	pkg     string
	judged  []string
	covered map[string][]span // by file of the packages that it judges
	limit   time.Duration
}

// span is a part of a file, from one line and column to another.
type span struct{ line, column, endLine, endColumn int }

func (s span) has(line, column int) bool {
	return (line > s.line || line == s.line && column >= s.column) && (line < s.endLine || line == s.endLine && column <= s.endColumn)
}

// prepare runs the tests of all judges without a fault: what they cover, and how long they take.
func (b *bench) prepare(ctx context.Context) error {
	for _, p := range b.packages {
		for _, name := range b.judgesOf(p) {
			if _, err := os.Stat(filepath.Join(b.root, name)); err != nil {
				return err
			}
			i := slices.IndexFunc(b.judges, func(j *judge) bool { return j.pkg == name })
			if i < 0 {
				i = len(b.judges)
				b.judges = append(b.judges, &judge{pkg: name})
			}
			b.judges[i].judged = append(b.judges[i].judged, p)
		}
	}
	for _, j := range b.judges {
		profile := filepath.Join(b.tmp, "cover")
		program, err := b.build(ctx, j, "-cover", "-coverpkg=./"+strings.Join(j.judged, ",./"))
		if err != nil {
			return err
		}
		if program == "" {
			continue // it has no tests
		}
		begin := time.Now()
		if failed := b.runTests(ctx, j, program, 30*time.Minute, "-test.coverprofile="+profile); failed != "" {
			return fmt.Errorf("the tests of %s fail without a fault: %s", j.pkg, failed)
		}
		j.limit = 4*time.Since(begin) + 10*time.Second
		text, err := os.ReadFile(profile)
		if err != nil {
			return err
		}
		j.covered = coverage(string(text), j.judged)
	}
	return nil
}

// coverage returns what a profile says was run, by file.
func coverage(profile string, packages []string) map[string][]span {
	covered := map[string][]span{}
	for l := range strings.Lines(profile) {
		l = strings.TrimSpace(l)
		name, at, ok := strings.Cut(l, ".go:")
		if !ok || strings.HasSuffix(l, " 0") {
			continue
		}
		var s span
		if _, err := fmt.Sscanf(at, "%d.%d,%d.%d", &s.line, &s.column, &s.endLine, &s.endColumn); err != nil {
			continue
		}
		for _, p := range packages {
			if strings.HasSuffix(path.Dir(name), "/"+p) {
				file := p + "/" + path.Base(name) + ".go"
				covered[file] = append(covered[file], s)
			}
		}
	}
	return covered
}

// judging returns the judges that run the place of a mutation: first the package itself, and then in the order of the table.
func (b *bench) judging(m *mutation) (of []*judge) {
	for _, name := range b.judgesOf(path.Dir(m.File)) {
		for _, j := range b.judges {
			if j.pkg == name && slices.ContainsFunc(j.covered[m.File], func(s span) bool { return s.has(m.Line, m.column) }) {
				of = append(of, j)
			}
		}
	}
	return of
}

// try sets the outcome of a mutation.
func (b *bench) try(ctx context.Context, m *mutation) error {
	changed := filepath.Join(b.tmp, "changed.go")
	if err := os.WriteFile(changed, m.apply(), 0o644); err != nil {
		return err
	}
	overlay := filepath.Join(b.tmp, "overlay.json")
	text, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(b.root, m.File): changed}})
	if err != nil {
		return err
	}
	if err := os.WriteFile(overlay, text, 0o644); err != nil {
		return err
	}
	m.Outcome = survived
	for _, j := range b.judging(m) {
		program, err := b.build(ctx, j, "-overlay="+overlay)
		if err != nil && ctx.Err() == nil {
			m.Outcome = invalid
			return nil
		}
		failed := b.runTests(ctx, j, program, j.limit)
		if ctx.Err() != nil {
			m.Outcome = invalid // it was not judged
			return nil
		}
		if failed != "" {
			m.Outcome, m.By = killed, j.pkg+" "+failed
			return nil
		}
	}
	return nil
}

// build returns the program of the judge's tests, or "" if there are none.
func (b *bench) build(ctx context.Context, j *judge, flags ...string) (string, error) {
	program := filepath.Join(b.tmp, "tests")
	if err := os.Remove(program); err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "go", append(append([]string{"test", "-c", "-o", program}, flags...), "./"+j.pkg)...)
	cmd.Dir = b.root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the tests of %s: %w\n%s", j.pkg, err, out)
	}
	if _, err := os.Stat(program); err != nil {
		return "", nil
	}
	return program, nil
}

var failure = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)|^(panic): |^(fatal error): `)

// runTests returns what failed, or "". A fault may allocate without end, so the memory has a bound.
func (b *bench) runTests(ctx context.Context, j *judge, program string, limit time.Duration, flags ...string) string {
	tmp := filepath.Join(b.tmp, "tmp") // tests that are killed leave files
	if err := os.MkdirAll(tmp, 0o755); err != nil {
		return err.Error()
	}
	defer os.RemoveAll(tmp)
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	args := append([]string{"-c", `ulimit -v 16777216; exec "$@"`, "sh", program, "-test.short", "-test.failfast"}, flags...)
	cmd := exec.CommandContext(ctx, "/bin/sh", append(args, "-test.timeout="+limit.String())...)
	cmd.Dir = filepath.Join(b.root, j.pkg)
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
	cmd.WaitDelay = 5 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	switch {
	case err == nil:
		return ""
	case ctx.Err() != nil:
		return "after " + strconv.Itoa(int(limit.Seconds())) + " s"
	}
	var names []string
	for _, m := range failure.FindAllSubmatch(out.Bytes(), -1) {
		names = append(names, string(m[1])+string(m[2])+string(m[3]))
	}
	if len(names) == 0 {
		return err.Error()
	}
	return names[len(names)-1] // the innermost subtest comes last
}
