package commands

import (
	"io"

	"github.com/spf13/cobra"
)

// Version gives a root the flag --version, short -v, which prints a text; a flag version that it has is
// left as it is. Call it last: it wraps Args and RunE. Cobra's own flag prints a template, and a program with
// templates contains each method of all its types.
func Version(root *cobra.Command, text string) {
	if root.Flags().Lookup("version") == nil {
		root.Flags().BoolP("version", "v", false, "version for "+root.Name())
	}
	asked := func() bool { return root.Flags().Changed("version") }
	valid, run := root.Args, root.RunE
	root.Args = func(c *cobra.Command, args []string) error {
		if asked() || valid == nil {
			return nil
		}
		return valid(c, args)
	}
	root.RunE = func(c *cobra.Command, args []string) error {
		if asked() {
			_, err := io.WriteString(c.OutOrStdout(), text)
			return err
		}
		return run(c, args)
	}
}
