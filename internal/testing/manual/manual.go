// Package manual writes the manual pages of a program from its commands. Only tests import
// it: the programs themselves do not carry the generator. A release makes its pages by
//
//	go test ./cmd/zkd -run '^TestManual$' -args -man DIR -man-date 2026-01-02
package manual

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

var (
	dir  = flag.String("man", "", "write the manual pages into this directory")
	date = flag.String("man-date", "1970-01-01", "date of the manual pages")
)

// Write writes a page for each command of root into the directory of -man, or only checks
// the pages if the flag is not set. Sections are those of man(1).
func Write(t *testing.T, root *cobra.Command, section string) {
	t.Helper()
	at, err := time.Parse(time.DateOnly, *date)
	if err != nil {
		t.Fatal(err)
	}
	into := *dir
	if into == "" {
		into = t.TempDir()
	}
	root.DisableAutoGenTag = true
	header := doc.GenManHeader{Section: section, Date: &at, Source: root.Name(), Manual: "zkd"}
	if err := doc.GenManTree(root, &header, into); err != nil {
		t.Fatal(err)
	}
	check(t, root, into, section)
}

// check reports commands that have no page, or whose page does not say what they do.
func check(t *testing.T, c *cobra.Command, into, section string) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(into, file(c, section)))
	switch {
	case err != nil:
		t.Error(err)
	case c.Short == "":
		t.Errorf("%s: no short help", c.CommandPath())
	case !bytes.Contains(page, []byte(".SH SYNOPSIS")):
		t.Errorf("%s: a page without a synopsis:\n%s", c.CommandPath(), page)
	}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && !sub.IsAdditionalHelpTopicCommand() {
			check(t, sub, into, section)
		}
	}
}

func file(c *cobra.Command, section string) string {
	name := c.Name()
	for p := c.Parent(); p != nil; p = p.Parent() {
		name = p.Name() + "-" + name
	}
	return name + "." + section
}
