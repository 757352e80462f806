//go:build compat

package compat

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const programDeadline = 3 * time.Minute

// TestJava runs java/client, which uses Apache's own Java client, on the target.
func TestJava(t *testing.T) {
	t.Parallel()
	run := javaClient(t)
	run(t, start(t, target(t), config{}).addr)
}

// javaClient compiles java/client and returns what runs it on some servers.
func javaClient(t *testing.T) func(t *testing.T, args ...string) {
	t.Helper()
	needJavac(t)
	return compileJava(t, "client", "ClientProgram", "zookeeper", "zookeeper-jute", "slf4j-simple")
}

// TestCurator runs java/curator, which uses Curator's recipes, on the target.
func TestCurator(t *testing.T) {
	t.Parallel()
	run := curatorPrograms(t, "CuratorProgram")
	run(t, start(t, target(t), config{}).addr)
}

// curatorPrograms compiles java/curator and returns what runs one of its classes.
func curatorPrograms(t *testing.T, class string) func(t *testing.T, args ...string) {
	t.Helper()
	return runner(curatorCommand(t, class))
}

// curatorCommand compiles java/curator and returns the command that runs one of its classes.
func curatorCommand(t *testing.T, class string) []string {
	t.Helper()
	needJavac(t)
	require(t,
		need{filepath.Join(javaDir, "curator-recipes.jar"), "libcurator-recipes-java"},
		need{filepath.Join(javaDir, "guava.jar"), "libguava-java"})
	return javaCommand(t, "curator", class,
		"zookeeper", "zookeeper-jute", "curator-client", "curator-framework", "curator-recipes", "guava", "slf4j-simple")
}

// compileJava compiles the programs in java/<dir> and returns what runs one.
func compileJava(t *testing.T, dir, class string, jars ...string) func(t *testing.T, args ...string) {
	t.Helper()
	return runner(javaCommand(t, dir, class, jars...))
}

// runner returns what runs a command of javaCommand.
func runner(java []string) func(t *testing.T, args ...string) {
	return func(t *testing.T, args ...string) {
		t.Helper()
		runProgram(t, java[0], append(java[1:], args...)...)
	}
}

// javaCommand compiles the programs in java/<dir> and returns the command that runs one,
// to be followed by its arguments.
func javaCommand(t testing.TB, dir, class string, jars ...string) []string {
	t.Helper()
	for i, jar := range jars {
		jars[i] = filepath.Join(javaDir, jar+".jar")
	}
	classPath := strings.Join(jars, ":")
	classes := t.TempDir()
	sources, err := filepath.Glob("java/common/*.java")
	if err != nil {
		t.Fatal(err)
	}
	own, err := filepath.Glob(fmt.Sprintf("java/%s/*.java", dir))
	if err != nil {
		t.Fatal(err)
	}
	sources = append(sources, own...)
	javac := append([]string{"-Xlint:all,-path,-classfile", "-Werror", "-cp", classPath, "-d", classes}, sources...)
	if out, err := exec.Command("javac", javac...).CombinedOutput(); err != nil {
		t.Fatalf("javac: %v\n%s", err, out)
	}
	return slices.Clip([]string{"java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
		"-cp", classes + ":" + classPath, class})
}

// runProgram runs a client program to its end.
func runProgram(t *testing.T, name string, args ...string) {
	t.Helper()
	startProgram(t, name, args...).finish(t)
}

// clientProgram is a running client program. It prints PASS or FAIL for each group of
// checks and exits with 0 when all passed.
type clientProgram struct {
	cmd  *exec.Cmd
	kill func()
	in   io.Closer // its standard input
	out  bytes.Buffer
}

func startProgram(t *testing.T, name string, args ...string) *clientProgram {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	p := &clientProgram{cmd: exec.CommandContext(ctx, name, args...), kill: cancel}
	p.cmd.WaitDelay = 5 * time.Second
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	in, err := p.cmd.StdinPipe()
	if err := errors.Join(err, p.cmd.Start()); err != nil {
		t.Fatal(err)
	}
	p.in = in
	return p
}

// finish ends the program's standard input, and waits up to programDeadline for its result.
// Output is shown when checks failed.
func (p *clientProgram) finish(t *testing.T) {
	t.Helper()
	defer time.AfterFunc(programDeadline, p.kill).Stop()
	p.in.Close() // it may have ended
	err := p.cmd.Wait()
	passed, failed := 0, 0
	for line := range strings.Lines(p.out.String()) {
		switch {
		case strings.HasPrefix(line, "PASS "):
			passed++
		case strings.HasPrefix(line, "FAIL "):
			failed++
		}
	}
	summary(t, t.Name(), passed, failed)
	t.Log(lastLines(p.out.String(), 3))
	if err != nil || failed > 0 || passed == 0 {
		t.Errorf("%s: %v\n%s", filepath.Base(p.cmd.Path), err, lastLines(p.out.String(), 100))
	}
}
