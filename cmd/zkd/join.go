package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/server/config"
)

// joinTimeout bounds the attempts to reach a member.
const joinTimeout = 30 * time.Second

// prepareJoin makes the configuration of a server that joins an ensemble (--join), unless the
// data directory has one from an earlier start, and has the server start with it.
func (f *flags) prepareJoin(cmd *cobra.Command, args []string) error {
	if len(args) > 0 || f.config != "" || f.dataDir == "" || f.advertise == "" {
		return usageError{errors.New("--join needs --data-dir and --advertise, and no configuration file: it writes zoo.cfg into the data directory")}
	}
	dir, err := filepath.Abs(f.dataDir)
	if err != nil {
		return err
	}
	on, err := f.settings(cmd)
	if err != nil {
		return usageError{err}
	}
	j := config.Join{Dir: dir, Advertise: f.advertise, ClientPort: f.port, ID: int64(f.myid)}
	f.config = j.File()
	if joined, err := j.Joined(); joined || err != nil {
		return err
	}
	now, err := membersOf(cmd.Context(), f.join)
	if err != nil {
		return fmt.Errorf("join the ensemble of %s: %w", f.join, err)
	}
	if err := j.Save(now, on); err != nil {
		return usageError{fmt.Errorf("join the ensemble of %s: %w", f.join, err)}
	}
	return nil
}

// joinLine returns the line with which the server asks to be added to the members, or "". A
// server that has been a member, and so has a dynamicConfigFile, does not ask: if it is no
// member now, it was removed.
func (f *flags) joinLine(cfg *config.Config) string {
	if f.join == "" || cfg.DynamicConfigFile != "" {
		return ""
	}
	self := cfg.Self()
	self.Observer = true
	return self.String()
}

// membersOf asks servers for the members of their ensemble.
func membersOf(ctx context.Context, servers string) (config.Members, error) {
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	c, err := client.Connect(ctx, servers, client.Options{Logger: client.NoLog})
	if err != nil {
		return config.Members{}, fmt.Errorf("no member can be reached; name the client ports of running members: %w", err)
	}
	defer c.Close(ctx)
	node, err := c.Unrooted().Get(ctx, client.ConfigPath)
	if err != nil {
		return config.Members{}, fmt.Errorf("read %s: %w", client.ConfigPath, err)
	}
	members, err := config.ParseMembers(string(node.Data))
	switch {
	case err != nil:
		return members, fmt.Errorf("%s makes no sense: %w", client.ConfigPath, err)
	case len(members.Servers) == 0:
		return members, errors.New("that server runs alone: give it a server line of its own, standaloneEnabled=false and reconfigEnabled=true, and restart it")
	}
	return members, nil
}
