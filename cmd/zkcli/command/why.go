package command

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/cmd/zkcli/servers"
	"github.com/zkd-project/zkd/cmd/zkcli/why"
)

// exitNotAsked is why's exit code if no server answered at all.
const exitNotAsked = 2

func whyCommand() Command {
	return Command{
		Name: "why", Synopsis: "[-i interval] [--admin-port port] [--ignore ids]", Short: "Say what is wrong with the servers, and what to do",
		Long: "Asks each server of the connect string, and the other members that these know, twice, by\n" +
			"the four-letter words srvr, mntr, conf and cons. Those but srvr have to be allowed by\n" +
			"4lw.commands.whitelist. It prints what is wrong, the worst first, for how long, and what\n" +
			"to do; docs/why.md has a section on each finding. It needs no session.\n" +
			"The exit code is 0 if nothing is wrong, 1 if something is, and 2 if no server answered.",
		Examples: []Example{
			{"-server zk1 why", "all members that zk1 knows"},
			{"-server zk1,zk2,zk3 why --admin-port 8080", "ask the admin pages, too, why a server does not serve"},
			{"why --ignore open-root,version-skew -o json", "a document for programs"},
		},
		Setup: func(flags *cobra.Command) Run {
			e := servers.Examination{Limit: 3 * time.Second, Interval: 2 * time.Second}
			flags.Flags().VarP((*millis)(&e.Interval), "interval", "i", "measure rates and lags for so long")
			flags.Flags().Var((*millis)(&e.Limit), "within", "wait so long for the answers")
			flags.Flags().IntVar(&e.AdminPort, "admin-port", 0, "`port` of the servers' AdminServers, which know why a server does not serve")
			ignore := flags.Flags().StringSlice("ignore", nil, "leave out the findings with these `ids`")
			return func(ctx context.Context, c *Call) error {
				if err := why.CheckIDs(*ignore); err != nil {
					return &UsageError{Text: "--ignore: " + err.Error()}
				}
				addrs, _, err := client.ParseServers(c.Options.Server)
				if err != nil {
					return &UsageError{Text: err.Error() + ". A server is written host:port, as in -server localhost:2181"}
				}
				if e.Asker, err = c.Options.security.asker(); err != nil {
					return err
				}
				return c.why(e.Examine(ctx, addrs), *ignore)
			}
		},
	}
}

// why prints the findings.
func (c *Call) why(facts why.Facts, ignore []string) error {
	found := slices.DeleteFunc(why.Find(facts), func(f why.Finding) bool { return slices.Contains(ignore, f.ID) })
	answered := 0
	for i := range facts.Servers {
		if facts.Servers[i].Unreachable == "" {
			answered++
		}
	}
	var text strings.Builder
	text.WriteString(why.Text(found))
	if len(found) == 0 {
		fmt.Fprintf(&text, "%s asked: nothing is wrong.\n", countText(len(facts.Servers), "server"))
	}
	standbys := why.Standbys(facts)
	for _, line := range standbys {
		text.WriteString(line + "\n")
	}
	data := text.String()
	if c.Options.Format == FormatJSON {
		list, err := json.Marshal(map[string]any{"servers": len(facts.Servers), "answered": answered, "findings": append([]why.Finding{}, found...), "standbys": append([]string{}, standbys...)})
		if err != nil {
			return err
		}
		data = string(list) + "\n"
	}
	if err := c.App.write([]byte(data)); err != nil {
		return err
	}
	switch {
	case answered == 0:
		return &ExitError{Code: exitNotAsked}
	case len(found) > 0:
		return &ExitError{Code: exitError}
	}
	return nil
}
