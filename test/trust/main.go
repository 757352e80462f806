// Trust runs a check that takes long, and keeps what it found.
//
//	go run ./test/trust sim SEEDS=200    # make sim SEEDS=200
//	go run ./test/trust -write
//
// The check is a target of the Makefile. What it counts stands in lines of its output, "counts: seeds=200 violations=0"; numbers with
// the same name are added. The outcome is a file in results/, with the date and the last commit that had changed the
// programs, and docs/trust.md is made from these files.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	here = "test/trust"
	page = "docs/trust.md"
)

func main() {
	write := flag.Bool("write", false, "write the tables of "+page+" from the files in results/, and run nothing")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	switch {
	case *write:
		err = writePage(".")
	case flag.NArg() == 0:
		err = errors.New("name a check: sim, or another of " + here + "/promises.go")
	default:
		err = runCheck(ctx, flag.Args())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "trust:", err)
		os.Exit(1)
	}
}

// runCheck runs make with these arguments, saves the outcome, and writes the page. A run that is interrupted leaves nothing.
func runCheck(ctx context.Context, args []string) error {
	if checkOf(args[0]) == nil {
		return fmt.Errorf("no check %s: %s/promises.go has them", args[0], here)
	}
	began := time.Now()
	version, err := versionOf(ctx)
	if err != nil {
		return err
	}
	o := &outcome{command: strings.Join(append([]string{"make"}, args...), " "), date: began, version: version}
	found := run(ctx, args, o)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	o.verdict, o.took = passed, time.Since(began).Round(time.Second)
	if found != nil {
		o.verdict = "failed"
	}
	if err := os.WriteFile(resultFile(filepath.Join(here, "results"), args[0]), []byte(o.text()), 0o644); err != nil {
		return err
	}
	return errors.Join(found, writePage("."))
}

// run runs make, shows what it prints, and has the outcome count.
func run(ctx context.Context, args []string, o *outcome) error {
	read, write := io.Pipe()
	cmd := exec.CommandContext(ctx, "make", args...)
	cmd.Env = append(os.Environ(), "MAKEFLAGS=") // the arguments say all
	cmd.Stdout, cmd.Stderr = write, write
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	counted := make(chan error, 1)
	go func() {
		counted <- o.count(io.TeeReader(read, os.Stdout))
		_, _ = io.Copy(io.Discard, read) // so that the command ends
	}()
	err := cmd.Run()
	_ = write.Close()
	return errors.Join(err, <-counted)
}

// programs are the files that make the programs.
var programs = []string{"go.mod", "*.go", ":!*_test.go", ":!internal/testing", ":!test", ":!tools"}

// versionOf names the last commit that has changed the programs, and says if what is checked out differs.
func versionOf(ctx context.Context) (string, error) {
	git := func(args ...string) (string, error) {
		out, err := exec.CommandContext(ctx, "git", append(append(args, "--"), programs...)...).Output()
		if err != nil {
			return "", fmt.Errorf("git %s: %w", args[0], err)
		}
		return strings.TrimSpace(string(out)), nil
	}
	version, err := git("log", "-1", "--format=%h")
	if err != nil {
		return "", err
	}
	if changes, err := git("status", "--porcelain"); err != nil || changes == "" {
		return version, err
	}
	return version + " and changes", nil
}
