package config

import (
	"maps"
	"testing"
)

// TestReadProperties has cases whose results were recorded from
// java.util.Properties (OpenJDK 17), with keys and values trimmed as ZooKeeper's
// server does.
func TestReadProperties(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       map[string]string
	}{
		{"separators", "a=1\nb:2\nc 3\nd\t4\ne = 5\nf : 6\ng  =7\nh==8\ni:=9\nj= = 10", map[string]string{
			"a": "1", "b": "2", "c": "3", "d": "4", "e": "5", "f": "6", "g": "7", "h": "=8", "i": "=9", "j": "= 10"}},
		{"no value", "a\nb=\nc:\nd ", map[string]string{"a": "", "b": "", "c": "", "d": ""}},
		{"comments", "# a=1\n  ! b=2\n\t\f#c=3\nd=4 # kept\ne=5!", map[string]string{"d": "4 # kept", "e": "5!"}},
		{"line ends", "a=1\rb=2\r\nc=3\n\r\n\rd=4", map[string]string{"a": "1", "b": "2", "c": "3", "d": "4"}},
		{"trimmed", "  a = 1 \t\nb=\\ 2\\t\n", map[string]string{"a": "1", "b": "2"}},
		{"continued", "a=1,\\\n   2,\\\r\n\t3\nb\\\n=4\nc=5\\\\\nd=6\\\\\\\n7", map[string]string{
			"a": "1,2,3", "b": "4", "c": `5\`, "d": `6\7`}},
		{"continued with what looks like a comment", "a=1\\\n#2\n", map[string]string{"a": "1#2"}},
		{"continued with a blank line", "a=1\\\n  \nb=2", map[string]string{"a": "1", "b": "2"}},
		{"a comment is not continued", "# x\\\na=1", map[string]string{"a": "1"}},
		{"a lone backslash is a blank line", "\\\n#a=1\n\\\nb=2", map[string]string{"b": "2"}},
		{"backslash at the end of the file", "a=1\\", map[string]string{"a": "1"}},
		{"escapes", `a\ b\=c\:d=\t1\n2\r3\f4\\5\q6\"7` + "\n", map[string]string{"a b=c:d": "1\n2\r3\f4\\5q6\"7"}},
		{"unicode escapes", `\u0061=\u00e9\u20AC\uD83D\uDE00` + "\n", map[string]string{"a": "é€😀"}},
		{"ISO-8859-1", "a=\xe9\xff", map[string]string{"a": "éÿ"}},
		{"last one wins", "a=1\nb=2\na=3", map[string]string{"a": "3", "b": "2"}},
		{"backslashes of Windows are lost", `dataDir=C:\temp\new`, map[string]string{"dataDir": "C:\temp\new"}},
		{"empty", "", map[string]string{}},
		{"no end of line", "a=1", map[string]string{"a": "1"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			props, bad := readProperties([]byte(test.text), "f")
			got := make(map[string]string)
			for _, p := range props {
				got[p.key] = p.value
			}
			if !maps.Equal(got, test.want) || len(bad) > 0 {
				t.Errorf("%q:\n got %q %v\nwant %q", test.text, got, bad, test.want)
			}
		})
	}
}

// TestPropertyLines checks that a property has the number of its first line, and that a
// bad escape affects no other line.
func TestPropertyLines(t *testing.T) {
	props, bad := readProperties([]byte("# 1\n\na=\\\n  1\\\r\n  2\n\nb=\\u12\nc=\\u12g4\r\rd=3"), "zoo.cfg")
	if len(props) != 2 || props[0].origin.Line != 3 || props[1].origin.String() != "zoo.cfg:10" {
		t.Errorf("properties %v", props)
	}
	if len(bad) != 2 || bad[0].Line != 7 || bad[1].Line != 8 {
		t.Errorf("errors %v", bad)
	}
}
