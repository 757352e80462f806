// Mutate plants faults by rule into a package, one at a time, and shows which of them no test finds.
//
//	make mutate PACKAGES='./server/zab ./server/wal' BUDGET=10m SEED=1
//
// A fault is a small change of one place that the tests run: see rules.go. The compiler sees it through an
// overlay, so no file of the checkout changes. A fault that does not compile does not count. One is killed when a test
// of the package, or of one of the packages in judges, fails or takes several times as long as without it.
//
// The seed decides which faults are tried, and in which order. The packages have turns, until the budget is
// used up. A survivor wants a test, or the code that it changes is not needed. Where neither is true, because the change makes
// no difference, a line in known.txt says why, and it is not tried again.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// judges has the packages whose tests judge a package after its own have.
var judges = map[string][]string{
	"internal/exact":               {"server/evaluate", "server/clients/line", "server/sim"},
	"internal/mux":                 {"server/clients", "client"},
	"internal/mux/streams":         {"internal/mux", "server/sim"},
	"internal/resume":              {"server/sim", "client"},
	"internal/subtrees":            {"server/sim", "client/cache"},
	"server/auth":                  {"server/evaluate"},
	"server/clients/line":          {"server/sim", "server/clients"},
	"server/clients/line/pending":  {"server/clients/line", "server/sim"},
	"server/clients/line/register": {"server/clients/line", "server/sim"},
	"server/clients/line/views":    {"server/clients/line", "server/sim"},
	"server/copies":                {"server/sim", "migrate/standby"},
	"server/datatree":              {"server/evaluate", "server/sim"},
	"server/evaluate":              {"server/sim"},
	"server/replica":               {"server/sim"},
	"server/session":               {"server/sim"},
	"server/snapshot":              {"server/data"},
	"server/wal":                   {"server/data"},
	"server/watch":                 {"server/clients/line"},
	"server/zab":                   {"server/sim"},
}

// whole is the package whose tests run servers with all that belongs to them. They take a minute, and judge last, what is below server.
const whole = "server"

func (o *options) judgesOf(pkg string) []string {
	of := append([]string{pkg}, judges[pkg]...)
	if o.whole && pkg != whole && (strings.HasPrefix(pkg, whole+"/") || judges[pkg] != nil) {
		of = append(of, whole)
	}
	return of
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

type options struct {
	root, known, results string
	packages             []string
	budget               time.Duration
	seed                 uint64
	each                 int
	since, only          string
	whole                bool
}

func parse(args []string) (o options, err error) {
	fl := flag.NewFlagSet("mutate", flag.ContinueOnError)
	fl.StringVar(&o.root, "root", ".", "directory of the module")
	fl.StringVar(&o.known, "known", "", "file of faults that make no difference")
	fl.StringVar(&o.results, "results", "", "file for the results, in JSON")
	fl.DurationVar(&o.budget, "budget", 10*time.Minute, "time after which no other fault is tried")
	fl.Uint64Var(&o.seed, "seed", 1, "decides which faults are tried")
	fl.IntVar(&o.each, "each", 0, "at most so many faults in each package; 0 is all")
	fl.StringVar(&o.since, "since", "", "only lines that were changed since this commit")
	fl.StringVar(&o.only, "only", "", "only this place: file.go, or file.go:12")
	fl.BoolVar(&o.whole, "whole", false, "the tests of server judge what no others find: a minute for each such fault")
	if err := fl.Parse(args); err != nil {
		return o, err
	}
	for _, p := range fl.Args() {
		o.packages = append(o.packages, filepath.ToSlash(filepath.Clean(p)))
	}
	if len(o.packages) == 0 {
		return o, errors.New("name the packages, as directories")
	}
	o.root, err = filepath.Abs(o.root)
	return o, err
}

func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	known, err := readKnown(o.known)
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)

	b := bench{options: o, tmp: tmp}
	if err := b.prepare(ctx); err != nil {
		return err
	}
	var subjects []*subject
	for _, p := range o.packages {
		s, err := newSubject(ctx, o, p, known, &b)
		if err != nil {
			return err
		}
		subjects = append(subjects, s)
	}
	end := time.Now().Add(o.budget)
	for ctx.Err() == nil && time.Now().Before(end) {
		s := next(subjects, o.each)
		if s == nil {
			break
		}
		m := s.waiting[0]
		s.waiting = s.waiting[1:]
		if err := b.try(ctx, m); err != nil {
			return err
		}
		s.add(m)
		if m.Outcome == survived {
			fmt.Fprintf(out, "%s:%d: %s\n%s\n", m.File, m.Line, m.Rule, m.Diff)
		}
	}
	writeTable(out, subjects)
	return writeResults(ctx, o, subjects)
}

// subject is a package into which faults are planted.
type subject struct {
	Package   string
	Places    int // where the rules can change something
	Covered   int // those of them that tests run, and that are not known
	Tried     int
	Killed    int
	Survived  int
	Mutations []*mutation // that were tried
	waiting   []*mutation
}

func newSubject(ctx context.Context, o options, pkg string, known map[string]bool, b *bench) (*subject, error) {
	s := &subject{Package: pkg}
	files, err := filepath.Glob(filepath.Join(o.root, pkg, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		name := pkg + "/" + filepath.Base(file)
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		src, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		all, err := mutationsOf(name, src)
		if err != nil {
			return nil, err
		}
		changed := func(int) bool { return true }
		if o.since != "" {
			if changed, err = changedSince(ctx, o.root, o.since, name); err != nil {
				return nil, err
			}
		}
		for _, m := range all {
			if !changed(m.Line) || o.only != "" && o.only != m.File && o.only != m.File+":"+strconv.Itoa(m.Line) {
				continue
			}
			s.Places++
			if !known[m.key()] && len(b.judging(m)) > 0 {
				s.waiting = append(s.waiting, m)
			}
		}
	}
	s.Covered = len(s.waiting)
	h := fnv.New64a()
	h.Write([]byte(pkg))
	random := rand.New(rand.NewPCG(o.seed, h.Sum64())) // the same for a package whatever others are named
	random.Shuffle(len(s.waiting), func(i, j int) { s.waiting[i], s.waiting[j] = s.waiting[j], s.waiting[i] })
	return s, nil
}

func (s *subject) add(m *mutation) {
	if m.Outcome == invalid {
		return
	}
	s.Tried++
	if m.Outcome == survived {
		s.Survived++
	} else {
		s.Killed++
	}
	s.Mutations = append(s.Mutations, m)
}

// next returns the subject that has the next turn: that of which the fewest faults were tried.
func next(subjects []*subject, each int) (least *subject) {
	for _, s := range subjects {
		if len(s.waiting) == 0 || each > 0 && s.Tried == each {
			continue
		}
		if least == nil || s.Tried < least.Tried {
			least = s
		}
	}
	return least
}

// readKnown returns the faults in a file that make no difference. Each is a paragraph: the path, the line before and after
// the change, and lines with the reason.
func readKnown(file string) (map[string]bool, error) {
	known := map[string]bool{}
	if file == "" {
		return known, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for p := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
		lines := strings.Split(p, "\n")
		n := slices.IndexFunc(lines[1:], func(l string) bool { return l == "" || !strings.ContainsRune("+-", rune(l[0])) }) + 1
		if n == 0 {
			return nil, fmt.Errorf("%s: no reason for %q", file, p)
		}
		known[strings.Join(lines[:n], "\n")] = true
	}
	return known, nil
}

// changedSince returns which lines of a file are not those of a commit.
func changedSince(ctx context.Context, root, commit, file string) (func(line int) bool, error) {
	cmd := exec.CommandContext(ctx, "git", "diff", "-U0", commit, "--", file)
	cmd.Dir = root
	diff, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git diff %s: %w", commit, err)
	}
	lines := map[int]bool{}
	for l := range strings.Lines(string(diff)) {
		if !strings.HasPrefix(l, "@@ ") {
			continue
		}
		at, count, many := strings.Cut(strings.TrimPrefix(strings.Fields(l)[2], "+"), ",")
		first, _ := strconv.Atoi(at)
		n := 1
		if many {
			n, _ = strconv.Atoi(count)
		}
		for i := range n {
			lines[first+i] = true
		}
	}
	return func(line int) bool { return lines[line] }, nil
}

func writeTable(out io.Writer, subjects []*subject) {
	total := &subject{Package: "all"}
	row := func(s *subject) {
		part := "-"
		if s.Tried > 0 {
			part = fmt.Sprintf("%.1f", 100*float64(s.Killed)/float64(s.Tried))
		}
		fmt.Fprintf(out, "%-28s %7d %8d %6d %7d %9d %7s\n", s.Package, s.Places, s.Covered, s.Tried, s.Killed, s.Survived, part)
	}
	fmt.Fprintf(out, "%-28s %7s %8s %6s %7s %9s %7s\n", "package", "places", "covered", "tried", "killed", "survived", "%killed")
	for _, s := range subjects {
		row(s)
		total.Places += s.Places
		total.Covered += s.Covered
		total.Tried += s.Tried
		total.Killed += s.Killed
		total.Survived += s.Survived
	}
	row(total)
	if total.Tried > 0 {
		fmt.Fprintf(out, "counts: tried=%d killed=%d survived=%d percent=%d\n", total.Tried, total.Killed, total.Survived, 100*total.Killed/total.Tried)
	}
}

func writeResults(ctx context.Context, o options, subjects []*subject) error {
	if o.results == "" {
		return nil
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), "git", "rev-parse", "HEAD")
	cmd.Dir = o.root
	commit, _ := cmd.Output() // a source without a history has none
	text, err := json.MarshalIndent(struct {
		Commit   string
		Seed     uint64
		Packages []*subject
	}{strings.TrimSpace(string(commit)), o.seed, subjects}, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(o.results, append(text, '\n'), 0o644)
}
