package command

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/internal/similar"
)

// normalise rewrites a command line of zkCli.sh for cobra, in an unambiguous form: the
// program's flags, the command's name, its flags, "--", its arguments.
//
// zkCli.sh parses its lines with Apache Commons CLI, and scripts rely on what that accepts
// and pflag does not: long names after one dash, as in -server or -add, beside joined
// letters, as in -sR; arguments that begin with a dash and a digit, as in "set /a -5"; and
// names of commands in any case. Which words are values of flags, and so neither the command
// nor an argument, depends on the flags, so this can't be done word by word.
//
// Flags may be before, among and after the arguments. Everything after "--" is an argument.
// With an error, normalise returns the flags before the mistake.
func normalise(root *cobra.Command, args []string) ([]string, error) {
	if len(args) > 0 && (args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd) {
		return append(args[:1:1], spellFlags(root, args[1:])...), nil
	}
	n := normaliser{cmd: root, flags: []string{}} // not nil, for which cobra takes os.Args
	if err := n.all(args); err != nil {
		return n.flags, err
	}
	if !n.cmd.HasParent() {
		return n.flags, nil
	}
	return slices.Concat(n.flags, []string{"--"}, n.args), nil
}

// spellFlags rewrites the flags of an unfinished line with two dashes, for cobra's
// completion. The last word is the one to complete.
func spellFlags(root *cobra.Command, args []string) []string {
	if len(args) == 0 {
		return args
	}
	n := normaliser{cmd: root}
	last := len(args) - 1
	if last > 0 && isFlag(args[last-1]) && n.all(args[:last-1]) == nil {
		if value, ok := n.valueOf(args[last-1]); ok {
			return slices.Concat(n.flags, n.args, []string{"--" + value.Name}, args[last:])
		}
	}
	n = normaliser{cmd: root}
	if n.all(args[:last]) != nil {
		return args
	}
	return slices.Concat(n.flags, n.args, args[last:])
}

// normaliser reads one line.
type normaliser struct {
	cmd   *cobra.Command // the root, and the command once its name has been read
	flags []string       // with the command's name and those of subcommands
	args  []string
}

func (n *normaliser) all(args []string) error {
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		switch {
		case arg == "--":
			if n.cmd.HasParent() {
				n.args = append(n.args, args...)
				return nil
			}
		case isFlag(arg):
			used, err := n.flag(arg, args)
			if err != nil {
				return err
			}
			args = args[used:]
		case n.cmd.HasSubCommands():
			sub, err := subcommand(n.cmd, arg)
			if err != nil {
				return err
			}
			n.cmd, n.flags = sub, append(n.flags, sub.Name())
		default:
			n.args = append(n.args, arg)
		}
	}
	return nil
}

// isFlag reports whether a word is a flag, rather than an argument that begins with a dash.
func isFlag(arg string) bool {
	return len(arg) > 1 && arg[0] == '-' && (arg[1] < '0' || arg[1] > '9')
}

func subcommand(cmd *cobra.Command, name string) (*cobra.Command, error) {
	if !cmd.HasParent() {
		cmd.InitDefaultCompletionCmd(name)
	}
	var names []string
	for _, c := range cmd.Commands() {
		if strings.EqualFold(c.Name(), name) {
			return c, nil
		}
		names = append(names, c.Name())
	}
	return nil, &UnknownCommandError{Name: name, Nearest: nearest(name, names)}
}

// flag adds a flag, and returns how many of the following arguments are its value.
func (n *normaliser) flag(arg string, rest []string) (used int, err error) {
	n.cmd.InitDefaultHelpFlag()
	if err := n.serverFlag(arg, rest); err != nil {
		return 0, err
	}
	name, value, has := strings.Cut(strings.TrimLeft(arg, "-"), "=")
	if long, takes, ok := n.long(name); ok {
		return n.add(arg, long, takes, value, has, rest)
	}
	if strings.HasPrefix(arg, "--") {
		return 0, n.unknown(arg)
	}
	letters := arg[1:]
	for i := range len(letters) {
		long, takes, ok := n.short(letters[i])
		behind := letters[i+1:]
		switch {
		case !ok:
			return 0, n.unknown(arg)
		case takes && behind != "":
			return n.add(arg, long, true, strings.TrimPrefix(behind, "="), true, rest)
		case takes:
			return n.add(arg, long, true, "", false, rest)
		}
		n.flags = append(n.flags, "--"+long)
	}
	return 0, nil
}

func (n *normaliser) add(arg, long string, takes bool, value string, has bool, rest []string) (used int, err error) {
	switch {
	case has:
		n.flags = append(n.flags, "--"+long+"="+value)
	case !takes:
		n.flags = append(n.flags, "--"+long)
	case len(rest) == 0:
		return 0, &UsageError{Command: n.cmd.Name(), Usage: n.usage(), Text: arg + " needs a value"}
	default:
		n.flags = append(n.flags, "--"+long+"="+rest[0])
		used = 1
	}
	return used, nil
}

// long looks up a flag by its name, and reports whether it takes a value.
func (n *normaliser) long(name string) (long string, takes, ok bool) {
	f := n.cmd.Flag(name)
	if f == nil {
		return "", false, false
	}
	return f.Name, f.NoOptDefVal == "", true
}

// short looks up a flag by its letter.
func (n *normaliser) short(letter byte) (long string, takes, ok bool) {
	s := string([]byte{letter})
	f := n.cmd.Flags().ShorthandLookup(s)
	if f == nil {
		f = n.cmd.InheritedFlags().ShorthandLookup(s)
	}
	if f == nil {
		f = n.cmd.PersistentFlags().ShorthandLookup(s)
	}
	if f == nil {
		return "", false, false
	}
	return f.Name, f.NoOptDefVal == "", true
}

func (n *normaliser) unknown(arg string) error {
	text := fmt.Sprintf("unknown flag %s", arg)
	if n.cmd.HasParent() && !strings.HasPrefix(arg, "--") {
		text += " (an argument that begins with - goes behind --)"
	}
	return &UsageError{Command: n.cmd.Name(), Usage: n.usage(), Text: text}
}

func (n *normaliser) usage() string {
	if n.cmd.HasParent() {
		return n.cmd.Use
	}
	return rootUsage
}

const rootUsage = "zkcli [-server host:port,...] [flags] [command arguments...]"

// nearest returns the name that is most similar to the given one, or "" if none is
// similar. (cobra's suggestions do not count swaps, and are in no order.)
func nearest(name string, names []string) string {
	best, most := "", max(1, len(name)/3)+1
	for _, n := range names {
		if d := similar.Distance(strings.ToLower(name), strings.ToLower(n)); d < most {
			best, most = n, d
		}
	}
	return best
}
