package command

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// helpFlag is what --help of a command prints.
func (a *App) helpFlag(cmd *cobra.Command, _ []string) {
	if spec := a.find(cmd.Name()); spec != nil && cmd.HasParent() {
		fmt.Fprint(a.out, a.helpOf(spec))
		return
	}
	fmt.Fprint(a.out, a.helpAll())
}

func (a *App) helpAll() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Usage: %s\n\n", rootUsage)
	for _, c := range a.commands {
		fmt.Fprintf(&b, "  %s\n", c.usage())
	}
	return b.String()
}

func (a *App) helpOf(c *Command) string { return "Usage: " + c.usage() + "\n\n" + c.Short + ".\n" }
