package commands

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// Execute runs the command of args, with ctx. It refuses args that name a server by a flag. usage makes an error
// one about the usage: all are that come before the command has begun.
func Execute(ctx context.Context, root *cobra.Command, args []string, usage func(error) error) error {
	if err := serverFlag(root, args); err != nil {
		return usage(err)
	}
	begun := false
	onRun(root, func() { begun = true })
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err != nil && !begun {
		return usage(err)
	}
	return err
}

// onRun makes c, and each command below it, call f before it runs.
func onRun(c *cobra.Command, f func()) {
	if run := c.RunE; run != nil {
		c.RunE = func(c *cobra.Command, args []string) error {
			f()
			return run(c, args)
		}
	}
	for _, below := range c.Commands() {
		onRun(below, f)
	}
}

// serverFlags are the flags with which other programs name a server.
var serverFlags = []string{"h", "H", "host", "hostname", "s", "server", "servers"}

// serverFlag returns an error, which says what to write, if a flag names a server. Here servers are arguments,
// and -h is for help, which would look like success.
func serverFlag(root *cobra.Command, args []string) error {
	c := root
	for i, arg := range args {
		if arg == "--" {
			return nil
		}
		if !strings.HasPrefix(arg, "-") {
			if below := find(c, arg); below != nil {
				c = below
			}
			continue
		}
		name, value, has := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if !has && i+1 < len(args) {
			value = args[i+1]
		}
		if slices.Contains(serverFlags, name) && !hasFlag(c, name) && namesServer(c, value) {
			return fmt.Errorf("%s is no flag for a server: write %s", arg, withServer(root, c, value))
		}
	}
	return nil
}

// hasFlag reports whether c has a flag of its own with this name or letter.
func hasFlag(c *cobra.Command, name string) bool {
	return c.Flag(name) != nil || len(name) == 1 && name != "h" && c.Flags().ShorthandLookup(name) != nil
}

// takesServers reports whether arguments of c are servers.
func takesServers(c *cobra.Command) bool {
	return strings.Contains(c.Use, "HOST:PORT") || strings.Contains(c.Use, "SERVER")
}

// namesServer reports whether the word after -h is meant for a server.
func namesServer(c *cobra.Command, word string) bool {
	if word == "" || strings.HasPrefix(word, "-") || find(c, word) != nil {
		return false
	}
	first, _, _ := strings.Cut(word, ",")
	host, port, err := net.SplitHostPort(first)
	if err != nil {
		return takesServers(c)
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil && host != ""
}

// withServer is how c, or else a command below root, takes a server.
func withServer(root, c *cobra.Command, server string) string {
	if takesServers(c) {
		return c.CommandPath() + " " + server
	}
	var take []string
	for _, below := range root.Commands() {
		if takesServers(below) {
			take = append(take, below.Name())
		}
	}
	return server + " as the argument of a command: " + strings.Join(take, ", ")
}
