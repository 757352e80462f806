package config

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestDocs keeps docs/configuration.md in step with the table of keys. To write
// it:
//
//	go test ./server/config -run TestDocs -rewrite
func TestDocs(t *testing.T) {
	const file = "../../docs/configuration.md"
	var want bytes.Buffer
	writeDocs(&want)
	if flag.Lookup("rewrite").Value.String() == "true" { // the flag of internal/scenario
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

zkd reads zoo.cfg, the configuration file of Apache ZooKeeper:

    zkd --config zoo.cfg            # or: zkd zoo.cfg
    zkd config check zoo.cfg        # show what would be in effect, and why
    zkd                             # no file: port 2181, data in ~/.local/state/zkd

The syntax is that of Java's .properties files. Backslashes are escapes, ` + "`#`" + ` begins a
comment only at the start of a line, text is ISO-8859-1, and the last of two lines with one key
counts. Every key may be written with the prefix ` + "`zookeeper.`" + ` or without. Times may carry
a unit (` + "`500ms`, `30s`, `5m`, `12h`, `7d`" + `); without one they are in the unit of the table.

A known key with a bad value stops the server, with the line and what is allowed. A key that zkd
does not know or does not use is a warning.

This file is made from the table in server/config; do not edit it.

`

// writeDocs writes the content of docs/configuration.md.
func writeDocs(w io.Writer) {
	io.WriteString(w, docsHead)
	io.WriteString(w, "## Keys that zkd honours\n\n| key | default | unit | values | meaning |\n|---|---|---|---|---|\n")
	for _, k := range Keys() {
		if k.Status == Honoured {
			fmt.Fprintf(w, "| %s | %s | %s | %s | %s |\n",
				names(k), cell(code(k.Default)), k.Unit(), cell(values(k)), cell(k.Doc))
		}
	}
	writeGroups(w, "Keys for a later feature", Later)
	writeGroups(w, "Keys that have no use in zkd", Ignored)
}

// writeGroups writes the keys without effect, by their reason.
func writeGroups(w io.Writer, title string, s Status) {
	fmt.Fprintf(w, "\n## %s\n\nThey are accepted with a warning.\n\n| reason | keys |\n|---|---|\n", title)
	var reasons []string
	keys := make(map[string][]string)
	for _, k := range Keys() {
		if k.Status != s {
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

// values returns the good values of k, without what the introduction says of
// all keys.
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

// cell escapes what would end a cell of a table.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
