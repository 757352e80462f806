package command

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/cmd/zkcli/shell"
)

// kindAnnotation is the annotation of a flag with the kind of its value.
const kindAnnotation = "zkcli-kind"

var kindNames = []string{Text: "text", Path: "path", Host: "host", File: "file", Word: "word", Name: "name"}

func annotate(flags *cobra.Command, long string, kind Kind, words []string) {
	// It fails only for a flag that has not been defined.
	_ = flags.Flags().SetAnnotation(long, kindAnnotation, append([]string{kindNames[kind]}, words...))
	if kind == Word {
		_ = flags.RegisterFlagCompletionFunc(long, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	}
}

// Complete returns the completions of word, the last one of a line; words are those before
// it. It asks the server for the names of znodes, and returns the server's error.
func (a *App) Complete(ctx context.Context, words []string, word string) ([]shell.Candidate, error) {
	opts := a.opts
	root := a.root(&opts)
	if arg, ok := a.flagValue(root, words); ok {
		return a.completeArg(ctx, arg, word)
	}
	n := normaliser{cmd: root}
	if n.all(words) != nil {
		return nil, nil // the line is invalid already
	}
	isFlag := strings.HasPrefix(word, "-")
	switch {
	case isFlag:
		return beginning(word, flagCandidates(n.cmd)), nil
	case !n.cmd.HasParent():
		return matching(word, a.offered()), nil
	}
	arg, ok := a.argAt(n.cmd.Name(), len(n.args))
	if !ok {
		return nil, nil
	}
	return a.completeArg(ctx, arg, word)
}

// flagValue returns the kind of the value if the last of the words is a flag that takes a
// value.
func (a *App) flagValue(root *cobra.Command, words []string) (Arg, bool) {
	if len(words) == 0 || !isFlag(words[len(words)-1]) {
		return Arg{}, false
	}
	last := len(words) - 1
	n := normaliser{cmd: root}
	if n.all(words[:last]) != nil {
		return Arg{}, false
	}
	return n.valueOf(words[last])
}

// offered returns the names of the commands that make sense at this point.
func (a *App) offered() []shell.Candidate {
	var names []shell.Candidate
	for _, c := range a.commands {
		if a.session || !c.Session {
			names = append(names, shell.Candidate{Text: c.Name, Help: c.Short})
		}
	}
	return names
}

// argAt returns the kind of a command's argument at i.
func (a *App) argAt(name string, i int) (Arg, bool) {
	spec := a.find(name)
	if spec == nil || len(spec.Args) == 0 {
		return Arg{}, false
	}
	if i >= len(spec.Args) && spec.Repeat {
		i = len(spec.Args) - 1
	}
	if i >= len(spec.Args) {
		return Arg{}, false
	}
	return spec.Args[i], true
}

// valueOf returns the kind of a flag's value, if the value is missing yet.
func (n *normaliser) valueOf(flag string) (Arg, bool) {
	name := strings.TrimLeft(flag, "-")
	long, takes, ok := n.long(name)
	if !ok && len(name) > 0 {
		long, takes, ok = n.short(name[len(name)-1])
	}
	if !ok || !takes || strings.Contains(flag, "=") {
		return Arg{}, false
	}
	arg := Arg{Name: long}
	switch long {
	case "output":
		arg.Kind, arg.Words = Word, formatNames
	case "server":
		arg.Kind = Host
	}
	if f := n.cmd.Flag(long); f != nil {
		if a := f.Annotations[kindAnnotation]; len(a) > 0 {
			arg.Kind, arg.Words = Kind(slices.Index(kindNames, a[0])), a[1:]
		}
	}
	return arg, true
}

// flagCandidates returns the flags with their help, from the text of the usage.
func flagCandidates(cmd *cobra.Command) []shell.Candidate {
	var flags []shell.Candidate
	usage := cmd.LocalFlags().FlagUsages() + cmd.InheritedFlags().FlagUsages()
	for line := range strings.Lines(usage) {
		spelling, help, _ := strings.Cut(strings.TrimSpace(line), "   ")
		for word := range strings.FieldsSeq(spelling) {
			if strings.HasPrefix(word, "-") {
				flags = append(flags, shell.Candidate{Text: strings.TrimSuffix(word, ","), Help: strings.TrimSpace(help)})
			}
		}
	}
	return flags
}

func (a *App) completeArg(ctx context.Context, arg Arg, word string) ([]shell.Candidate, error) {
	switch arg.Kind {
	case Path:
		return a.completePath(ctx, word)
	case Word:
		return matching(word, candidates(arg.Words)), nil
	case Name:
		return matching(word, candidates(a.names())), nil
	case Host:
		return matching(word, candidates(strings.Split(a.opts.Server, ","))), nil
	case File:
		name, isFile := strings.CutPrefix(word, "@")
		switch {
		case isFile:
			return completeFile("@", name), nil
		case arg.Name != "data":
			return completeFile("", word), nil
		}
	}
	return nil, nil
}

// completePath lists the nodes whose paths begin with the word.
func (a *App) completePath(ctx context.Context, word string) ([]shell.Candidate, error) {
	if word == "" {
		return []shell.Candidate{{Text: "/", Open: true}}, nil
	}
	i := strings.LastIndexByte(word, '/')
	if i < 0 {
		return nil, nil
	}
	parent := word[:max(i, 1)]
	zk, err := a.Client(ctx)
	if err != nil {
		return nil, err
	}
	list, err := zk.Children(ctx, parent)
	if errors.Is(err, client.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var found []shell.Candidate
	for _, path := range childPaths(parent, list.Names) {
		found = append(found, shell.Candidate{Text: path, Label: path[strings.LastIndexByte(path, '/')+1:], Open: true})
	}
	found = beginning(word, found)
	if len(found) == 1 && found[0].Text == word {
		return completed(ctx, zk, found[0])
	}
	return found, nil
}

// completed continues a complete path with a slash if the node has children, and otherwise
// with the end of the word.
func completed(ctx context.Context, zk *client.Client, c shell.Candidate) ([]shell.Candidate, error) {
	found, err := zk.Exists(ctx, c.Text)
	if err != nil {
		return nil, err
	}
	if c.Open = found.Exists && found.Stat.NumChildren > 0; c.Open {
		c.Text += "/"
	}
	return []shell.Candidate{c}, nil
}

func completeFile(prefix, word string) []shell.Candidate {
	names, err := filepath.Glob(globQuote(word) + "*")
	if err != nil {
		return nil
	}
	var found []shell.Candidate
	for _, name := range names {
		c := shell.Candidate{Text: prefix + name}
		if info, err := os.Stat(name); err == nil && info.IsDir() {
			c.Text, c.Open = c.Text+"/", true
		}
		found = append(found, c)
	}
	return found
}

// globQuote escapes a word for use in a pattern.
func globQuote(word string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(word)
}

func candidates(words []string) []shell.Candidate {
	list := make([]shell.Candidate, len(words))
	for i, w := range words {
		list[i].Text = w
	}
	return list
}

// beginning returns the candidates that begin with the prefix.
func beginning(prefix string, list []shell.Candidate) []shell.Candidate {
	return slices.DeleteFunc(list, func(c shell.Candidate) bool { return !strings.HasPrefix(c.Text, prefix) })
}

// matching returns the candidates that begin with the prefix in any case.
func matching(prefix string, list []shell.Candidate) []shell.Candidate {
	return slices.DeleteFunc(list, func(c shell.Candidate) bool {
		return len(c.Text) < len(prefix) || !strings.EqualFold(c.Text[:len(prefix)], prefix)
	})
}

// bashQuotes makes cobra's completion for bash quote several names as it does one. Bash inserts what they have in
// common, which may have blanks.
var bashQuotes = strings.NewReplacer(`if (( ${#COMPREPLY[@]} == 1 )); then
            COMPREPLY[0]=$(printf "%q" "${COMPREPLY[0]}")
        fi`, `if (( ${#COMPREPLY[@]} > 0 )); then
            IFS=$'\n' read -ra COMPREPLY -d '' < <(printf "%q\n" "${COMPREPLY[@]}")
        fi`)

// completionScripts adds cobra's command that prints the completion scripts.
func completionScripts(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	bash, _, err := root.Find([]string{"completion", "bash"})
	if err != nil || bash.Name() != "bash" {
		return
	}
	bash.RunE = func(cmd *cobra.Command, _ []string) error {
		plain, err := cmd.Flags().GetBool("no-descriptions")
		if err != nil {
			return err
		}
		var script strings.Builder
		if err := root.GenBashCompletionV2(&script, !plain); err != nil {
			return err
		}
		_, err = bashQuotes.WriteString(root.OutOrStdout(), script.String())
		return err
	}
}

// completeWait is how long completion waits for the servers.
const completeWait = 2 * time.Second

// shellCompletion is the completion function for bash, zsh and fish.
func (a *App) shellCompletion(spec *Command) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		arg, ok := a.argAt(spec.Name, len(args))
		if !ok {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		if arg.Kind == File && !strings.HasPrefix(word, "@") {
			return nil, cobra.ShellCompDirectiveDefault
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completeWait)
		defer cancel()
		found, err := a.completeArg(ctx, arg, word)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		directive := cobra.ShellCompDirectiveNoFileComp
		texts := make([]string, len(found))
		for i, c := range found {
			texts[i] = c.Text
			if c.Open {
				directive |= cobra.ShellCompDirectiveNoSpace
			}
		}
		return texts, directive
	}
}
