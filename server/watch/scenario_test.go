package watch

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/scenario"
	"github.com/zkd-project/zkd/jute"
)

var modeNames = map[string]Mode{"data": Data, "child": Child, "persistent": Persistent, "recursive": PersistentRecursive}

var typeNames = map[string]jute.WatchType{
	"children": jute.WatchChildren, "data": jute.WatchData, "any": jute.WatchAny,
	"persistent": jute.WatchPersistent, "recursive": jute.WatchPersistentRecursive, "unknown": 9,
}

// TestScenarios runs testdata. The commands, where W is a watcher's number and
// a path of "" is written as two quotes:
//
//	add W data|child|persistent|recursive PATH
//	remove W children|data|any|persistent|recursive PATH
//	check W ...                      as remove
//	create|delete|set PATH           the server's triggers for it; prints the events of each watcher
//	drop W
//	wchs, wchc W, wchp, count
func TestScenarios(t *testing.T) {
	scenario.Run(t, "testdata/*.txt", func(t *testing.T) scenario.Command {
		table := New()
		return func(words []string) (string, error) {
			out, err := command(table, words)
			checkInvariants(t, table)
			return out, err
		}
	})
}

func command(table *Table, words []string) (string, error) {
	args := make([]string, 3)
	copy(args, words[1:])
	switch words[0] {
	case "create", "delete", "set":
		return change(table, words[0], args[0]), nil
	case "wchs":
		s := table.Summary()
		return fmt.Sprintf("%d connections watching %d paths, %d watches", s.Connections, s.Paths, s.Watches), nil
	case "wchp":
		var lines []string
		for path, watchers := range table.ByPath() {
			lines = append(lines, fmt.Sprint(path, " ", watchers))
		}
		slices.Sort(lines)
		return strings.Join(lines, "\n"), nil
	case "count":
		return strconv.Itoa(table.Count()), nil
	}

	n, err := strconv.Atoi(args[0])
	if err != nil {
		return "", err
	}
	w, path := Watcher(n), strings.Trim(args[2], `"`)
	switch words[0] {
	case "add":
		table.Add(w, path, modeNames[args[1]])
		return "", nil
	case "remove":
		return yes(table.Remove(w, path, typeNames[args[1]])), nil
	case "check":
		return yes(table.Check(w, path, typeNames[args[1]])), nil
	case "drop":
		table.Drop(w)
		return "", nil
	case "wchc":
		return strings.Join(table.AppendPaths(nil, w), "\n"), nil
	}
	return "", scenario.Unknown(words)
}

// change triggers the events of a change of path.
func change(table *Table, verb, path string) string {
	parent := cmp.Or(path[:strings.LastIndexByte(path, '/')], "/")
	var out strings.Builder
	trigger := func(typ jute.EventType, path string) {
		for _, w := range fired(table, typ, path) {
			fmt.Fprintf(&out, "%d hears %v %q\n", w, typ, path)
		}
	}
	switch verb {
	case "create":
		trigger(jute.EventCreated, path)
		trigger(jute.EventChildrenChanged, parent)
	case "delete":
		trigger(jute.EventDeleted, path)
		trigger(jute.EventChildrenChanged, parent)
	case "set":
		trigger(jute.EventDataChanged, path)
	}
	return out.String()
}

func yes(ok bool) string {
	if ok {
		return "yes"
	}
	return "no"
}
