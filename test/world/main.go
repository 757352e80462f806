// World runs programs of other people on an ensemble of zkd's or of Apache's servers, kills servers
// under them, and writes down the outcome.
//
//	go run ./test/world [-one kazoo,kafka] [-on zkd,apache,edge] [-for 1h] [-try] [-resume]
//	go run ./test/world -list
//	go run ./test/world -write
//
// README.md says how a program is declared. Outcomes are files in results/, from which -write makes the
// tables of docs/applications.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	here    = "test/world"
	page    = "docs/applications.md"
	scratch = "build/world"
)

func main() {
	one := flag.String("one", "", "names of programs, with commas between them; all if empty")
	on := flag.String("on", "zkd,apache", "the servers that they are run on; edge is zkd's with an edge between")
	write := flag.Bool("write", false, "write the tables of "+page+" from the files in results/, and run nothing")
	list := flag.Bool("list", false, "print the programs with their outcomes on zkd and on Apache, and run nothing")
	try := flag.Bool("try", false, "write no outcome to results/, but only to "+scratch)
	limit := flag.Duration("for", 0, "begin no run after this time, and run first what has not been run for longest; 0: run all")
	resume := flag.Bool("resume", false, "continue the suites' runs that were broken off, if zkd is the same build")
	flag.Parse()
	var err error
	switch {
	case *write:
		err = writePage(".")
	case *list:
		err = printList()
	default:
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		err = runAll(ctx, split(*one), split(*on), *limit, *try, *resume)
		stop()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "world:", err)
		os.Exit(1)
	}
}

func split(names string) []string {
	return strings.FieldsFunc(names, func(r rune) bool { return r == ',' || r == ' ' })
}

// printList prints each program with its outcomes on zkd and on Apache's servers.
func printList() error {
	programs, err := readPrograms(filepath.Join(here, "programs"))
	for _, p := range programs {
		cells := make(map[string]string)
		for _, kind := range []string{zkd, apache} {
			o, readErr := readOutcome(filepath.Join(here, "results"), p.name, kind)
			err = errors.Join(err, readErr)
			cells[kind], _, _ = strings.Cut(cellOf(p, o), ";")
		}
		fmt.Fprintf(os.Stdout, "%-22s %-8s %-8s %s %s\n", p.name, cells[zkd], cells[apache], p.title, p.version)
	}
	return err
}

// runAll runs the programs with these names, one after the other, on each kind of server.
func runAll(ctx context.Context, names, kinds []string, limit time.Duration, try, resume bool) error {
	began := time.Now()
	if err := adoptOrphans(); err != nil {
		return err
	}
	programs, err := choose(names)
	if err != nil {
		return err
	}
	tools, err := prepare(ctx, kinds)
	if err != nil {
		return err
	}
	tools.resume = resume
	dir := filepath.Join(here, "results")
	if try {
		dir = scratch
	}
	all, err := pairings(programs, kinds, dir, limit > 0)
	if err != nil {
		return err
	}
	var failed []string
	for i, r := range all {
		if limit > 0 && time.Since(began) > limit {
			fmt.Fprintf(os.Stdout, "world: %d of %d runs in %v; the others come first next time\n", i, len(all), limit)
			break
		}
		o := tools.judge(ctx, r.program, r.kind)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := o.save(dir); err != nil {
			return err
		}
		fmt.Fprintf(os.Stdout, "world: %s on %s: %s (%s)\n", r.name, r.kind, o.verdict, o.took)
		if o.verdict != passed {
			failed = append(failed, r.name+" on "+r.kind)
		}
	}
	if len(failed) > 0 {
		return errors.New("failed: " + strings.Join(failed, ", "))
	}
	return nil
}

// pairing is a program on a kind of server.
type pairing struct {
	*program
	kind string
	last time.Time // when it was run, the zero time for never
}

// pairings returns all of them: those of a program together, or the one that is longest ago first.
func pairings(programs []*program, kinds []string, results string, oldest bool) (all []pairing, err error) {
	for _, p := range programs {
		for _, kind := range kinds {
			o, err := readOutcome(results, p.name, kind)
			if err != nil {
				return nil, err
			}
			r := pairing{program: p, kind: kind}
			if o != nil {
				r.last = o.date
			}
			all = append(all, r)
		}
	}
	if oldest {
		slices.SortStableFunc(all, func(a, b pairing) int { return a.last.Compare(b.last) })
	}
	return all, nil
}

func choose(names []string) ([]*program, error) {
	programs, err := readPrograms(filepath.Join(here, "programs"))
	if err != nil || len(names) == 0 {
		return programs, err
	}
	var chosen []*program
	for _, name := range names {
		i := slices.IndexFunc(programs, func(p *program) bool { return p.name == name })
		if i < 0 {
			return nil, fmt.Errorf("no program %s in %s/programs: -list prints their names", name, here)
		}
		chosen = append(chosen, programs[i])
	}
	return chosen, nil
}

// tools are what all programs are run with.
type tools struct {
	zkd    string // the binary
	built  string // date of its newest commit
	apache string // directory with the jars of Apache's server
	resume bool   // runs that were broken off
}

func prepare(ctx context.Context, kinds []string) (tools, error) {
	var t tools
	for _, kind := range kinds {
		if kind != zkd && kind != apache && kind != edge {
			return t, fmt.Errorf("-on %s: want %s, %s or %s", kind, zkd, apache, edge)
		}
	}
	bin, err := filepath.Abs(filepath.Join(scratch, "zkd"))
	if err != nil {
		return t, err
	}
	t.zkd = bin
	if err := command(ctx, "go", "build", "-buildvcs=false", "-o", bin, "./cmd/zkd"); err != nil {
		return t, err
	}
	date, err := exec.CommandContext(ctx, "git", "log", "-1", "--format=%cs").Output()
	if err != nil {
		return t, fmt.Errorf("git log: %w", err)
	}
	t.built = strings.TrimSpace(string(date))
	t.apache, err = fetch(ctx, "zookeeper")
	return t, err
}

func command(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return nil
}

// fetch returns the directory of a program in the cache.
func fetch(ctx context.Context, name string) (string, error) {
	cmd := exec.CommandContext(ctx, "sh", filepath.Join(here, "fetch.sh"), name)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("fetch %s: %w", name, err)
	}
	return strings.TrimSpace(string(out)), nil
}
