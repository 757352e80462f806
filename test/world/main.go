// World runs programs of other people on an ensemble of zkd's or of Apache's servers, kills servers
// under them, and writes down the outcome.
//
//	go run ./test/world [-one kazoo,kafka] [-on zkd,apache,edge] [-jobs 2] [-for 1h] [-try] [-resume] [-zkd FILE]
//	go run ./test/world -list
//	go run ./test/world -write
//
// README.md says how a program is declared. Outcomes are files in results/, from which -write makes the
// tables of docs/applications.md and, with what runs and all counts, of docs/dev/programs.md.
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
	"sync"
	"syscall"
	"time"
)

const (
	here    = "test/world"
	scratch = "build/world"

	page     = "docs/applications.md" // who passes
	longPage = "docs/dev/programs.md" // what runs, and what was counted
)

func main() {
	one := flag.String("one", "", "names of programs, with commas between them; all if empty")
	on := flag.String("on", "zkd,apache", "the servers that they are run on; edge is zkd's with an edge between")
	write := flag.Bool("write", false, "write the tables of "+page+" and "+longPage+" from the files in results/, and run nothing")
	list := flag.Bool("list", false, "print the programs with their outcomes on zkd and on Apache, and run nothing")
	try := flag.Bool("try", false, "write no outcome to results/, but only to "+scratch)
	limit := flag.Duration("for", 0, "begin no run after this time, and run first what has not been run for longest; 0: run all")
	resume := flag.Bool("resume", false, "continue the suites' runs that were broken off, if zkd is the same build")
	jobs := flag.Uint("jobs", 1, "how many programs run at a time")
	binary := flag.String("zkd", "", "the `file` of zkd; built from this checkout if empty")
	flag.Parse()
	var err error
	switch {
	case *write:
		err = errors.Join(writePage(".", page), writePage(".", longPage))
	case *list:
		err = printList()
	default:
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		w := world{kinds: split(*on), limit: *limit, try: *try, resume: *resume, jobs: max(1, int(*jobs)), zkd: *binary}
		err = w.run(ctx, split(*one))
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
		var cells []string
		for _, kind := range p.columns() {
			o, readErr := readOutcome(filepath.Join(here, "results"), p.name, kind)
			err = errors.Join(err, readErr)
			cell, _, _ := strings.Cut(cellOf(p, o), ";")
			cells = append(cells, cell)
		}
		fmt.Fprintf(os.Stdout, "%-22s %-8s %-8s %s %s\n", p.name, cells[0], cells[1], p.title, p.version)
	}
	return err
}

// world is what is asked for.
type world struct {
	kinds       []string      // of servers
	limit       time.Duration // after it no program begins; 0 for none
	try, resume bool
	jobs        int    // programs at a time
	zkd         string // the binary, "" to build it
}

// run runs the programs with these names, or all if there are none, on each kind of server.
func (w *world) run(ctx context.Context, names []string) error {
	if err := adoptOrphans(); err != nil {
		return err
	}
	programs, err := choose(names)
	if err != nil {
		return err
	}
	tools, err := w.prepare(ctx)
	if err != nil {
		return err
	}
	results := filepath.Join(here, "results")
	if w.try {
		results = scratch
	}
	all, err := pairings(programs, w.kinds, results, w.limit > 0)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return fmt.Errorf("nothing to run on %s: a program that says \"on edge\" wants -on edge", strings.Join(w.kinds, ", "))
	}
	if len(all) != 1 {
		w.zkd = tools.zkd
		return w.runEach(ctx, all)
	}
	o := tools.judge(ctx, all[0].program, all[0].kind)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	fmt.Fprintf(os.Stdout, "world: %s on %s: %s (%s)\n", all[0].name, all[0].kind, o.verdict, o.took)
	if err := o.save(results); err != nil || o.verdict == passed {
		return err
	}
	return fmt.Errorf("failed: %s on %s", all[0].name, all[0].kind)
}

// runEach runs each pairing in a separate process, which ends all that descends from it.
func (w *world) runEach(ctx context.Context, all []pairing) error {
	for _, p := range all {
		if _, err := fetch(ctx, p.jars); err != nil { // one at a time; its run says it again
			fmt.Fprintln(os.Stderr, "world:", err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	began := time.Now()
	outcomes := make([]error, len(all))
	free := make(chan struct{}, w.jobs)
	var runs sync.WaitGroup
	for i, p := range all {
		free <- struct{}{}
		if w.limit > 0 && time.Since(began) > w.limit {
			fmt.Fprintf(os.Stdout, "world: %d of %d runs in %v; the others come first next time\n", i, len(all), w.limit)
			break
		}
		runs.Go(func() {
			outcomes[i] = w.command(ctx, self, p).Run()
			<-free
		})
	}
	runs.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	var failed []string
	for i, err := range outcomes {
		if err != nil {
			failed = append(failed, all[i].name+" on "+all[i].kind)
		}
	}
	if len(failed) > 0 {
		return errors.New("failed: " + strings.Join(failed, ", "))
	}
	return nil
}

// command runs one pairing.
func (w *world) command(ctx context.Context, self string, p pairing) *exec.Cmd {
	cmd := exec.CommandContext(ctx, self, "-one", p.name, "-on", p.kind, "-zkd", w.zkd,
		fmt.Sprint("-try=", w.try), fmt.Sprint("-resume=", w.resume))
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	return cmd
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
			if p.edge && kind != edge {
				continue
			}
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

func (w *world) prepare(ctx context.Context) (t tools, err error) {
	for _, kind := range w.kinds {
		if kind != zkd && kind != apache && kind != edge {
			return t, fmt.Errorf("-on %s: want %s, %s or %s", kind, zkd, apache, edge)
		}
	}
	t = tools{zkd: w.zkd, resume: w.resume}
	if t.zkd == "" {
		t.zkd = filepath.Join(scratch, "zkd")
		if err := command(ctx, "go", "build", "-buildvcs=false", "-o", t.zkd, "./cmd/zkd"); err != nil {
			return t, err
		}
	}
	if t.zkd, err = filepath.Abs(t.zkd); err != nil {
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
