package command

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/client"
)

func addWatchCommand() Command {
	modes := []string{"PERSISTENT", "PERSISTENT_RECURSIVE"}
	return Command{
		Name: "addWatch", Synopsis: "[-m mode] path", Short: "Set a watch that stays until it is removed",
		Long: "The mode is PERSISTENT, for the node and its list of children, or\n" +
			"PERSISTENT_RECURSIVE, the default, for the node and all below it. Events are\n" +
			"printed as they come.",
		Examples: []Example{{"addWatch /app", "all changes at and below /app"}, {"addWatch -m PERSISTENT /app", "changes of /app and of its list of children"}},
		Args:     pathOnly(), Required: 1, Session: true,
		Setup: func(flags *cobra.Command) Run {
			mode := stringFlag(flags, "mode", "m", modes[1], "PERSISTENT or PERSISTENT_RECURSIVE", Word, modes...)
			return func(ctx context.Context, c *Call) error {
				m, kind := client.WatchRecursive, client.RecursiveWatches
				switch strings.ToUpper(*mode) {
				case modes[0]:
					m, kind = client.WatchPersistent, client.PersistentWatches
				case modes[1]:
				default:
					return c.Usage("mode %q is neither PERSISTENT nor PERSISTENT_RECURSIVE", *mode)
				}
				zk, err := c.Client(ctx)
				if err != nil {
					return err
				}
				w, err := zk.AddWatch(ctx, c.Arg(0), m)
				c.App.watching.add(w, kind)
				return err
			}
		},
	}
}

func removeWatchesCommand() Command {
	return Command{
		Name: "removewatches", Synopsis: "path [-c|-d|-a|-p|-r] [-l]", Short: "Remove watches from a path",
		Examples: []Example{{"removewatches /app", "all watches"}, {"removewatches /app -d", "those on the data"}},
		Args:     pathOnly(), Required: 1, Session: true,
		Setup: func(flags *cobra.Command) Run {
			kinds := []struct {
				set  *bool
				kind client.WatchType
			}{
				{boolFlag(flags, "children", "c", "watches on the list of children"), client.ChildWatches},
				{boolFlag(flags, "data", "d", "watches on the data"), client.DataWatches},
				{boolFlag(flags, "any", "a", "watches of any kind (the default)"), client.AnyWatches},
				{boolFlag(flags, "persistent", "p", "persistent watches"), client.PersistentWatches},
				{boolFlag(flags, "recursive", "r", "persistent recursive watches"), client.RecursiveWatches},
			}
			boolFlag(flags, "local", "l", "remove them here even if no server is reached; taken for zkCli.sh's sake")
			return func(ctx context.Context, c *Call) error {
				kind, n := client.AnyWatches, 0
				for _, k := range kinds {
					if *k.set {
						kind, n = k.kind, n+1
					}
				}
				if n > 1 {
					return c.Usage("-c, -d, -a, -p and -r exclude each other")
				}
				return c.removeWatches(ctx, kind)
			}
		},
	}
}

func (c *Call) removeWatches(ctx context.Context, kind client.WatchType) error {
	zk, err := c.Client(ctx)
	if err != nil {
		return err
	}
	path := c.Arg(0)
	if !c.App.watching.has(path, kind) {
		return &client.Error{Path: path, Err: client.ErrNoWatcher}
	}
	if err = zk.Session().RemoveWatches(ctx, path, kind); err != nil {
		return err
	}
	for _, name := range c.App.watching.take(path, kind) {
		c.App.printEvent("WatchedEvent state:SyncConnected type:"+name+" path:"+path, change{Time: stamp(time.Now()), Type: name, Path: path})
	}
	return nil
}

func printWatchesCommand() Command {
	return Command{
		Name: "printwatches", Synopsis: "on|off", Short: "Say whether watch events are printed, or switch that",
		Args: []Arg{{Name: "on or off", Kind: Word, Words: []string{"on", "off"}}}, Session: true,
		Run: func(_ context.Context, c *Call) error {
			switch c.Arg(0) {
			case "on", "off":
				c.App.watching.show(c.Arg(0) == "on")
				return nil
			case "":
				state := map[bool]string{true: "on", false: "off"}[c.App.watching.shown()]
				return c.Emit(Output{Text: "printwatches is " + state, Data: map[string]string{"printwatches": state}})
			}
			return c.Usage("%q is neither on nor off", c.Arg(0))
		},
	}
}
