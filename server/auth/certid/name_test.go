package certid_test

import (
	"bufio"
	"encoding/hex"
	"os"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/zkd-project/zkd/server/auth/certid"
)

// rows reads a table with tabs between the columns.
func rows(t testing.TB, file string, columns int) (all [][]string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for in := bufio.NewScanner(f); in.Scan(); {
		row := strings.Split(in.Text(), "\t")
		if len(row) != columns {
			t.Fatalf("%s: %q has %d columns, want %d", file, in.Text(), len(row), columns)
		}
		all = append(all, row)
	}
	return all
}

func unquote(t testing.TB, s string) string {
	t.Helper()
	text, err := strconv.Unquote(s)
	if err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	return text
}

// TestNameString compares with what X500Principal.getName returns. The table is from
// Java 17, but for the rows of "later Java", which are from Java 25.
func TestNameString(t *testing.T) {
	for _, row := range rows(t, "testdata/names.txt", 3) {
		der, err := hex.DecodeString(row[1])
		if err != nil {
			t.Fatal(err)
		}
		got, err := certid.NameString(der)
		if want := unquote(t, row[2]); got != want || err != nil {
			t.Errorf("%s: %s\ngot  %q, %v\nwant %q", row[0], row[1], got, err, want)
		}
		if !certid.ValidName(got) {
			t.Errorf("%s: no ACL may name %q", row[0], got)
		}
	}
}

func TestNameStringRefuses(t *testing.T) {
	for name, der := range map[string]string{
		"nothing":                   "",
		"no sequence":               "0401ff",
		"bytes after the name":      "300000",
		"a component that is cut":   "3010310e300c06035504030c05616c6963",
		"UTF-8 that is none":        "300c310a300806035504030c01ff",
		"BMP with half a character": "300c310a300806035504031e0141",
		"BMP with a surrogate":      "300d310b300906035504031e02d800",
	} {
		b, err := hex.DecodeString(der)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := certid.NameString(b); err == nil {
			t.Errorf("%s: got %q, want an error", name, got)
		}
	}
}

// TestValidName compares with what the constructor of Java's X500Principal accepts.
func TestValidName(t *testing.T) {
	for _, row := range rows(t, "testdata/valid.txt", 2) {
		name := unquote(t, row[1])
		if got := certid.ValidName(name); got != (row[0] == "true") {
			t.Errorf("%q: got %v, want %s", name, got, row[0])
		}
	}
}

// FuzzNameString checks that a name is text, and one that an ACL may have.
func FuzzNameString(f *testing.F) {
	for _, row := range rows(f, "testdata/names.txt", 3) {
		der, _ := hex.DecodeString(row[1])
		f.Add(der)
	}
	f.Fuzz(func(t *testing.T, der []byte) {
		name, err := certid.NameString(der)
		if err != nil {
			return
		}
		if !utf8.ValidString(name) {
			t.Errorf("%q is no UTF-8", name)
		}
		if !certid.ValidName(name) {
			t.Errorf("no ACL may name %q", name)
		}
	})
}

func FuzzValidName(f *testing.F) {
	for _, row := range rows(f, "testdata/valid.txt", 2) {
		f.Add(unquote(f, row[1]))
	}
	f.Fuzz(func(t *testing.T, name string) {
		if certid.ValidName(name) && name != "" && !strings.Contains(name, "=") {
			t.Errorf("%q is no name", name)
		}
	})
}
