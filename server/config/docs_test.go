package config

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/scenario"
)

// TestDocs checks that docs/configuration.md matches the table of keys. To write it:
//
//	go test ./server/config -run TestDocs -rewrite
func TestDocs(t *testing.T) {
	const file = "../../docs/configuration.md"
	var want bytes.Buffer
	writeDocs(&want)
	if scenario.Rewrites() {
		if err := os.WriteFile(file, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil || !bytes.Equal(got, want.Bytes()) {
		t.Errorf("%s is not what the table of keys says (%v); write it with -rewrite", file, err)
	}
}

const docsHead = `# Configuration

| to | do |
|---|---|
| see what would be in effect, and why | ` + "`zkd config check zoo.cfg`" + `; ` + "`--changed`" + ` without the defaults, ` + "`--strict`" + ` to fail on warnings |
| start with a file | ` + "`zkd zoo.cfg`" + `, or ` + "`zkd --config zoo.cfg`" + `; without a file: port 2181, data in ` + "`~/.local/state/zkd`" + ` |
| set one key on the command line | ` + "`zkd --set KEY=VALUE zoo.cfg`" + ` |
| change a key while the server runs | ` + "`zkcli config set KEY VALUE`" + `, or edit the file and send SIGHUP: [run.md](run.md#starting-and-stopping) |
| join an ensemble without a file | ` + "`zkd --join zk1:2181 --advertise zk4 --data-dir DIR`" + `: [members.md](members.md#join-without-a-list) |

zkd reads zoo.cfg, the file of Apache ZooKeeper. Its syntax is that of Java's .properties files: backslashes are escapes,
` + "`#`" + ` begins a comment only at the start of a line, text is ISO-8859-1, and the last of two lines with one key counts.
The prefix ` + "`zookeeper.`" + ` of a key may be there or not. Times may carry a unit (` + "`500ms`, `30s`, `5m`, `12h`, `7d`" + `);
without one they are in the unit of the table.

| key | effect |
|---|---|
| known, with a bad value | the server stops, with the line and what is allowed |
| asks for a protection that zkd does not have, or is misspelled so | the server stops |
| any other that zkd does not know or use | a warning |

This file is made from the table in server/config; do not edit it.

`

// writeDocs writes the content of docs/configuration.md.
func writeDocs(w io.Writer) {
	io.WriteString(w, docsHead)
	writeKeys(w, "Keys that zkd honours", Honoured)
	io.WriteString(w, "\n")
	writeKeys(w, "Keys of zkd edge", OfEdge)
	writeGroups(w, "Keys that ask for a protection which zkd does not have",
		"They stop the start, unless the value asks for nothing (`false`, `no`, `none`, `off`, `0`, `-1` or nothing at all), or\n"+
			"`zkd.ignoreSecurityKeys=true` lets the server run without the protection; then they are warnings.",
		func(k Key) bool { return (k.Status == Ignored || k.Status == Later) && k.Protects })
	writeGroups(w, "Keys for a later feature", "They are accepted with a warning, if their value asks for something.",
		func(k Key) bool { return k.Status == Later && !k.Protects })
	writeGroups(w, "Keys that have no use in zkd", "They are accepted with a warning.",
		func(k Key) bool { return k.Status == Ignored && !k.Protects })
}

// writeKeys writes the keys that have an effect.
func writeKeys(w io.Writer, title string, status Status) {
	fmt.Fprintf(w, "## %s\n\n| key | default | unit | values | meaning |\n|---|---|---|---|---|\n", title)
	for _, k := range Keys() {
		if k.Status == status {
			fmt.Fprintf(w, "| %s | %s | %s | %s | %s |\n",
				names(k), cell(code(k.Default)), k.Unit(), cell(values(k)), cell(k.Doc+map[bool]string{true: " Can change while the server runs."}[k.Live]))
		}
	}
}

// writeGroups writes the keys without effect, by their reason.
func writeGroups(w io.Writer, title, intro string, belongs func(Key) bool) {
	fmt.Fprintf(w, "\n## %s\n\n%s\n\n| reason | keys |\n|---|---|\n", title, intro)
	var reasons []string
	keys := make(map[string][]string)
	for _, k := range Keys() {
		if !belongs(k) {
			continue
		}
		if !slices.Contains(reasons, k.Doc) {
			reasons = append(reasons, k.Doc)
		}
		keys[k.Doc] = append(keys[k.Doc], names(k))
	}
	for _, reason := range reasons {
		fmt.Fprintf(w, "| %s | %s |\n", cell(reason), strings.Join(keys[reason], ", "))
	}
}

// values returns the valid values of k, without what the introduction says of all keys.
func values(k Key) string {
	v, _, _ := strings.Cut(k.Allowed(), " (")
	return strings.TrimPrefix(strings.TrimPrefix(v, "a number from "), "one of ")
}

func names(k Key) string {
	all := code(k.Name)
	for _, alias := range k.Aliases {
		all += ", " + code(alias)
	}
	return all
}

func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + s + "`"
}

// cell escapes the characters that would end a cell of a table.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
