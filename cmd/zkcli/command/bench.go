package command

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/client"
)

func benchCommand() Command {
	return Command{
		Name: "bench", Synopsis: "[workload] [-- zkbench flags]", Short: "Put load on a server with zkbench",
		Long: "Runs zkbench, which is found beside zkcli or by $PATH, against the first server that\n" +
			"zkcli is told of. What follows -- goes to zkbench; bench -- --help shows its workloads.\n" +
			"All that it writes is below one node, which it deletes at its end.",
		Examples: []Example{
			{"bench", "gets, for 5 s"},
			{"bench set -- -c 50 -d 30s", "sets, on 50 connections"},
		},
		Args: []Arg{{Name: "workload", Kind: Word, Words: []string{"create", "set", "get", "mixed", "exists", "children", "ephemeral",
			"multi", "watch", "sessions", "idle", "outages", "load", "clean"}}}, Repeat: true,
		Setup: func(*cobra.Command) Run {
			return func(ctx context.Context, c *Call) error { return c.bench(ctx) }
		},
	}
}

func (c *Call) bench(ctx context.Context) error {
	program, err := findBeside("zkbench")
	if err != nil {
		return err
	}
	servers, root, err := client.ParseServers(c.Options.Server)
	if err != nil {
		return &UsageError{Text: err.Error()}
	}
	if root != "" {
		return c.Usage("zkbench works below /, not below %s: leave that out of -server", root)
	}
	args := c.Args
	if len(args) == 0 {
		args = []string{"get"}
	}
	if !slices.Contains(args, "--help") && !slices.Contains(args, "-h") {
		args = append(slices.Clone(args), servers[0])
		if c.Options.Format == FormatJSON {
			args = append(args, "-o", "json")
		}
	}
	cmd := exec.CommandContext(ctx, program, args...)
	c.attach(cmd)
	const clean = 10 * time.Second // time for zkbench to delete its nodes
	if err = runProgram(cmd, clean); ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return programError(err)
}

// findBeside looks for a program beside this one, and by $PATH.
func findBeside(name string) (string, error) {
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), name)
		if path, err := exec.LookPath(beside); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%s is neither beside zkcli nor in $PATH: go install github.com/zkd-project/zkd/cmd/%s@latest brings it", name, name)
	}
	return path, nil
}
