package command

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/zkd-project/zkd/client"
)

func benchCommand() Command {
	return Command{
		Name: "bench", Synopsis: "[workload] [-- zkbench flags]", Short: "Put load on a server with zkbench",
		Long: "Runs zkbench, which is found beside zkcli or by $PATH, against the first server that\n" +
			"zkcli is told of, below its chroot, with TLS and the identities of zkcli. What follows\n" +
			"-- goes to zkbench; bench -- --help shows its workloads.\n" +
			"All that it writes is below one node, which it deletes at its end.",
		Examples: []Example{
			{"bench", "gets, for 5 s"},
			{"bench set -- -c 50 -d 30s", "sets, on 50 connections"},
		},
		Args: []Arg{{Name: "workload", Kind: Word, Words: []string{"create", "set", "get", "mixed", "exists", "children", "ephemeral",
			"multi", "watch", "sessions", "idle", "outages", "load", "clean"}}}, Repeat: true,
		Run: func(ctx context.Context, c *Call) error { return c.bench(ctx) },
	}
}

func (c *Call) bench(ctx context.Context) error {
	program, err := findBeside("zkbench")
	if err != nil {
		return err
	}
	args, env := c.Args, os.Environ()
	if len(args) == 0 {
		args = []string{"get"}
	}
	if !slices.Contains(args, "--help") && !slices.Contains(args, "-h") {
		target, own, err := c.benchTarget()
		if err != nil {
			return err
		}
		args, env = slices.Concat(args, target), append(env, own...)
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = env
	c.attach(cmd)
	const clean = 10 * time.Second // time for zkbench to delete its nodes
	if err = runProgram(cmd, clean); ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return programError(err)
}

// benchTarget returns zkbench's arguments and environment for the first of zkcli's servers, its
// chroot, and what zkcli proves who it is by.
func (c *Call) benchTarget() (args, env []string, err error) {
	o := &c.Options
	servers, root, err := client.ParseServers(o.Server)
	if err != nil {
		return nil, nil, &UsageError{Text: err.Error()}
	}
	secure, err := o.security.tlsFor()
	if err != nil {
		return nil, nil, err
	}
	server := servers[0] + root
	if secure != nil {
		server = "tls://" + server
	}
	args, env = o.security.login.Pass("ZKBENCH")
	for _, f := range []struct{ name, value string }{
		{"tls-ca", o.security.ca}, {"tls-cert", o.security.cert}, {"tls-key", o.security.key},
	} {
		if f.value != "" {
			args = append(args, "--"+f.name+"="+f.value)
		}
	}
	if o.Format == FormatJSON {
		args = append(args, "-o", "json")
	}
	if len(o.Auth) == 1 { // not as a flag: it may be the environment's, which others can't read
		env = append(env, "ZKBENCH_AUTH="+o.Auth[0])
	} else {
		for _, auth := range o.Auth {
			args = append(args, "--auth="+auth)
		}
	}
	return append(args, server), env, nil
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
