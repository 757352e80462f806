package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/zkd-project/zkd/internal/freeport"
)

// ready is the line by which a program says that it works, so that faults may begin.
const (
	ready   = "ready"
	settled = "settled" // the line by which it says that all of it works again after a fault
)

// judge runs a program: first on nothing, where it must fail, and then on servers of the kind.
func (t tools) judge(ctx context.Context, p *program, kind string) *outcome {
	o := &outcome{program: p.name, title: p.title, version: p.version, on: t.version(kind), kind: kind, under: p.under(), date: time.Now()}
	home, err := fetch(ctx, p.jars)
	if err != nil {
		o.verdict = err.Error()
		return o
	}
	dir, err := filepath.Abs(filepath.Join(scratch, p.name+"-"+kind))
	if err == nil && !t.continues(p, kind, dir, home) {
		err = t.begin(ctx, p, kind, dir, home)
	}
	if err == nil {
		began := time.Now()
		err = t.onServers(ctx, o, p, filepath.Join(dir, "run"), home)
		o.took = time.Since(began).Round(time.Second)
	}
	o.verdict = verdictOf(err)
	return o
}

// verdictOf says in one line how a run has ended.
func verdictOf(err error) string {
	if err == nil {
		return passed
	}
	return "failed: " + strings.Join(strings.Fields(strings.ReplaceAll(err.Error(), "\n", "; ")), " ")
}

// begin makes the directory of a run, after a run on nothing.
func (t tools) begin(ctx context.Context, p *program, kind, dir, home string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if p.servers > 0 || kind != apache { // Apache's servers in a program's own process can't be kept away
		if err := t.onNothing(ctx, p, kind, filepath.Join(dir, "nothing"), home); err != nil {
			return err
		}
	}
	subject, err := t.subject(kind, home)
	if err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, subjectFile), []byte(subject), 0o644))
}

// subjectFile says, in the directory of a run, what runs.
const subjectFile = "subject"

// subject is what all parts of one run have in common: the program as it was fetched, and the servers.
func (t tools) subject(kind, home string) (string, error) {
	if kind == apache {
		return home + "\n" + t.apache + "\n", nil
	}
	binary, err := os.ReadFile(t.zkd)
	return fmt.Sprintf("%s\n%x\n", home, sha256.Sum256(binary)), err
}

// continues reports whether a run is to be continued which was broken off: that of a suite, with the same
// servers. Its run.sh leaves out what has a report.
func (t tools) continues(p *program, kind, dir, home string) bool {
	if !t.resume || p.servers > 0 {
		return false
	}
	subject, err := t.subject(kind, home)
	have, readErr := os.ReadFile(filepath.Join(dir, subjectFile))
	return err == nil && readErr == nil && string(have) == subject
}

func (t tools) version(kind string) string {
	switch kind {
	case apache:
		return "Apache ZooKeeper 3.9.5"
	case edge:
		return "zkd of " + t.built + ", through zkd edge"
	}
	return "zkd of " + t.built
}

// onNothing returns an error if the program passes where nothing serves.
func (t tools) onNothing(ctx context.Context, p *program, kind, dir, home string) error {
	ports, free, err := freeport.Reserve(1)
	if err != nil {
		return err
	}
	defer free()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &run{program: p, kind: kind, dir: dir, env: append(t.environment(kind, home),
		"NOTHING=yes", "ZKD=false", fmt.Sprintf("ZK_SERVERS=127.0.0.1:%d", ports[0]))}
	defer killDescendants()
	if err := r.start(ctx); err != nil {
		return err
	}
	defer time.AfterFunc(p.nothing, cancel).Stop()
	r.stdin.Close()
	err = r.wait()
	n, countErr := r.judge()
	if tests, _ := n.Get("passed"); err == nil && countErr == nil || tests > 0 {
		return errors.New("it passes where nothing serves, and so says nothing")
	}
	return nil
}

func (t tools) environment(kind, home string) []string {
	env := []string{"ON=" + kind, "PROGRAM=" + home, "ZKD=" + t.zkd, "APACHE=" + t.apache}
	if kind == edge { // servers that a program starts have an edge each
		wrapper, _ := filepath.Abs(filepath.Join(here, "edge", "zkd"))
		env = append(env, "ON="+zkd, "ZKD="+wrapper, "REAL="+t.zkd, "OWN=10000") // OWN: below the ports of outgoing connections
	}
	return env
}

// onServers fills the outcome of a run.
func (t tools) onServers(ctx context.Context, o *outcome, p *program, dir, home string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, p.limit)
	defer cancel()
	defer killDescendants()
	r := &run{program: p, kind: o.kind, dir: dir, env: t.environment(o.kind, home)}
	var e *ensemble
	if p.servers > 0 {
		if e, err = t.newEnsemble(ctx, o.kind, filepath.Join(dir, "servers"), p); err != nil {
			return err
		}
		defer func() {
			e.end()
			o.used = e.used()
		}()
		if err := e.start(ctx); err != nil {
			return err
		}
		r.env = append(r.env, "ZK_SERVERS="+e.forClients())
		if p.secure {
			r.env = append(r.env, "ZK_TLS_SERVERS="+e.secureAddresses(), "KEYS="+filepath.Join(dir, "servers", keys))
		}
	}
	if err := r.start(ctx); err != nil {
		return err
	}
	faultErr := r.inflict(ctx, e)
	o.times = r.times // of a failed run those before it failed
	r.stdin.Close()
	if err := errors.Join(faultErr, r.wait()); err != nil {
		return err
	}
	if err := r.repeat(ctx); err != nil {
		return err
	}
	j, err := r.judgeReports()
	if err != nil {
		return err
	}
	o.repeated = j.repeated
	o.counts, err = r.judge()
	return err
}

// repeat runs the tests again that have failed. Many have limits of some seconds, which a machine with
// other work breaks.
func (r *run) repeat(ctx context.Context) error {
	for try := 2; try <= r.program.tries; try++ {
		j, err := r.judgeReports()
		if err != nil || len(j.failed) == 0 {
			return err
		}
		var again []string
		for _, f := range j.failed {
			again = append(again, f.report+":"+f.test)
		}
		next := &run{program: r.program, kind: r.kind, dir: r.dir,
			env: append(slices.Clip(r.env), "AGAIN="+strings.Join(again, " "), fmt.Sprintf("TRY=~%d", try))}
		if err := next.start(ctx); err != nil {
			return err
		}
		next.stdin.Close()
		if err := next.wait(); err != nil {
			return err
		}
	}
	return nil
}

// run is one process of a program.
type run struct {
	program *program
	kind    string
	dir     string
	env     []string

	cmd   *exec.Cmd
	stdin io.WriteCloser
	said  chan string   // lines of its output by which it answers
	times []string      // how long each fault took until it had settled
	ended chan struct{} // closed when the rest is set:
	last  string        // line of its output
	err   error
	ctx   context.Context
}

// start runs run.sh in its directory. What it prints is kept there.
func (r *run) start(ctx context.Context) error {
	work := filepath.Join(r.dir, "work")
	if err := errors.Join(os.MkdirAll(filepath.Join(work, "tmp"), 0o755), os.MkdirAll(filepath.Join(r.dir, "reports"), 0o755)); err != nil {
		return err
	}
	from, err := filepath.Abs(r.program.dir)
	if err != nil {
		return err
	}
	out, err := os.OpenFile(filepath.Join(r.dir, "output"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	r.ctx, r.said, r.ended = ctx, make(chan string, 16), make(chan struct{})
	r.cmd = exec.CommandContext(ctx, "sh", filepath.Join(from, "run.sh"))
	r.cmd.Dir = work
	endWithChildren(r.cmd)
	r.cmd.WaitDelay = stopTimeout // what it started in other groups may hold its output
	r.cmd.Env = append(append(os.Environ(), "FROM="+from, "REPORTS="+filepath.Join(r.dir, "reports"),
		"TMPDIR="+filepath.Join(work, "tmp"), "HOME="+work), r.env...)
	lines := &lineWriter{to: out, each: r.hear}
	r.cmd.Stdout, r.cmd.Stderr = lines, out
	if r.stdin, err = r.cmd.StdinPipe(); err == nil {
		err = r.cmd.Start()
	}
	if err != nil {
		out.Close()
		return err
	}
	go func() {
		defer close(r.ended)
		defer out.Close()
		r.err = r.cmd.Wait()
		r.hear(lines.rest)
	}()
	return nil
}

// hear takes a line of the program's output.
func (r *run) hear(line string) {
	if line = strings.TrimSpace(line); line != "" {
		r.last = line
	}
	if line == ready || line == settled {
		select {
		case r.said <- line:
		default: // one too many
		}
	}
}

// lineWriter calls each for every whole line that is written to it.
type lineWriter struct {
	to   io.Writer
	each func(string)
	rest string // what has no end yet
}

func (w *lineWriter) Write(b []byte) (int, error) {
	w.rest += string(b)
	for {
		line, rest, ok := strings.Cut(w.rest, "\n")
		if !ok {
			return w.to.Write(b)
		}
		w.each(line)
		w.rest = rest
	}
}

// inflict does what is declared to the servers, and tells the program: a line "begin FAULT", and
// "end FAULT" when all servers are well again.
func (r *run) inflict(ctx context.Context, e *ensemble) error {
	if len(r.program.faults) == 0 {
		return nil
	}
	if err := r.await(ready); err != nil {
		return err
	}
	for _, name := range slices.Repeat(r.program.faults, r.program.times) {
		if err := wait(ctx, r.program.pause); err != nil {
			return fmt.Errorf("before fault %s: %w", name, err)
		}
		began := time.Now()
		fmt.Fprintln(r.stdin, "begin", name) // it may not read
		if err := faultOf(name).inflict(ctx, e); err != nil {
			return fmt.Errorf("fault %s: %w", name, err)
		}
		fmt.Fprintln(r.stdin, "end", name)
		if r.program.settles {
			if err := r.await(settled); err != nil {
				return fmt.Errorf("fault %s: %w", name, err)
			}
		}
		r.times = append(r.times, fmt.Sprintf("%s %.1fs", name, time.Since(began).Seconds()))
	}
	return wait(ctx, r.program.pause)
}

// await returns when the program has printed the line.
func (r *run) await(line string) error {
	for {
		select {
		case said := <-r.said:
			if said == line {
				return nil
			}
		case <-r.ended:
			return fmt.Errorf("it ended before it was %s", line)
		case <-r.ctx.Done():
			return fmt.Errorf("it is not %s in time", line)
		}
	}
}

// wait returns when the program has ended, and whether well.
func (r *run) wait() error {
	<-r.ended
	if r.ctx.Err() != nil {
		return fmt.Errorf("it had not ended in time; see %s/output", r.dir)
	}
	if r.err != nil {
		return fmt.Errorf("%w: %s", r.err, r.last)
	}
	return nil
}
