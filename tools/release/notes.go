package main

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
)

const unreleased = "Unreleased"

// notesOf prints the notes of a version, and says on stderr if they are not under its name yet.
func notesOf(changelog, version string, stdout, stderr io.Writer) error {
	text, err := os.ReadFile(changelog)
	if err != nil {
		return err
	}
	notes, under, err := notes(string(text), version)
	if err != nil {
		return fmt.Errorf("%s: %w", changelog, err)
	}
	if under == unreleased && isVersion(version) {
		fmt.Fprintf(stderr, "CHANGELOG.md has no section %q, so the notes are those of %q: rename it and commit before you publish.\n", "## "+version, "## "+unreleased)
	}
	_, err = io.WriteString(stdout, notes)
	return err
}

func isVersion(s string) bool { return regexp.MustCompile(`^v\d+\.\d+\.\d+`).MatchString(s) }

// relative are links into the repository.
var relative = regexp.MustCompile(`\]\(([A-Za-z][^):]*)\)`)

// notes returns the section of a version, or that of what is not released yet, and which of them it is.
// Links lead to the files of that version.
func notes(changelog, version string) (text, under string, err error) {
	body, ok := section(changelog, version)
	under = version
	if !ok {
		under = unreleased
		if body, ok = section(changelog, unreleased); !ok {
			return "", "", fmt.Errorf("neither a section %q nor %q: write what an operator notices of this version under the first", "## "+version, "## "+unreleased)
		}
	}
	body = relative.ReplaceAllString(body, "]("+repository+"/blob/"+version+"/$1)")
	return "# zkd " + version + "\n\n" + body + "\n", under, nil
}

// section returns what is below the heading "## NAME" or "## NAME - DATE".
func section(changelog, name string) (string, bool) {
	var lines []string
	found := false
	for line := range strings.SplitSeq(changelog, "\n") {
		if title, ok := strings.CutPrefix(line, "## "); ok {
			if found {
				break
			}
			found = title == name || strings.HasPrefix(title, name+" ")
			continue
		}
		if found {
			lines = append(lines, line)
		}
	}
	return strings.TrimSpace(strings.Join(lines, "\n")), found
}
