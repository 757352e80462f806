package command

import "slices"

// pathList is a list of paths as the result of a command. name is the field's in JSON.
func pathList(name string, paths []string) Output {
	slices.Sort(paths)
	doc := map[string][]string{name: append([]string{}, paths...)}
	return Output{Text: bracketed(paths), Data: doc, Raw: lines(paths), Table: column("PATH", paths)}
}
