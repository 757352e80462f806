package console

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"strconv"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestEscape(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"nothing", "", ""},
		{"text", "größe 日本 ☃\tx\ny", "größe 日本 ☃\tx\ny"},
		{"ends of lines", "a\r\nb\n", "a\r\nb\n"},
		{"a carriage return", "rm -rf\rls    ", `rm -rf\x0dls    `},
		{"the last one", "a\r", `a\x0d`},
		{"the title of the window", "\x1b]0;x\x07", `\x1b]0;x\x07`},
		{"colours", "a\x1b[31mb", `a\x1b[31mb`},
		{"backspaces", "a\b\x7f", `a\x08\x7f`},
		{"C1 in UTF-8", "\u009b31m", `\u009b31m`},
		{"C1 in one byte", "\x9b31m", `\x9b31m`},
		{"not UTF-8", "a\xff\xc3", `a\xff\xc3`},
		{"the replacement character", "\ufffd", "\ufffd"},
		{"direction", "a\u202eb\u2066", `a\u202eb\u2066`},
		{"no width", "a\u200bb\U000e0001", `a\u200bb\U000e0001`},
		{"separators", "\u2028", `\u2028`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Escape([]byte(tt.in)); string(got) != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestLine(t *testing.T) {
	for in, want := range map[string]string{
		"":                            "",
		"/a/b c/\u00fc":               "/a/b c/\u00fc",
		"a\nb\r\nc\td":                `a\nb\r\nc\td`,
		"\x1b[2J\u2028\u202e\xff\x00": `\x1b[2J\u2028\u202e\xff\x00`,
		"ends\r":                      `ends\x0d`,
	} {
		if got := Line(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func FuzzEscape(f *testing.F) {
	f.Add([]byte("a\x1b[31m\u202e\xff\r\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		before := bytes.Clone(in)
		got := Escape(in)
		if !bytes.Equal(in, before) {
			t.Fatalf("%q has become %q", before, in)
		}
		if !utf8.Valid(got) {
			t.Fatalf("%q: not UTF-8: %q", in, got)
		}
		for i, r := range string(got) {
			if !unicode.IsGraphic(r) && r != '\n' && r != '\t' && !bytes.HasPrefix(got[i:], []byte("\r\n")) {
				t.Fatalf("%q: has %s: %q", in, strconv.QuoteRune(r), got)
			}
		}
		if again := Escape(got); !bytes.Equal(again, got) {
			t.Fatalf("%q: escaped twice: %q and %q", in, got, again)
		}
	})
}

// A file gets the bytes as they are, and so does the null device.
func TestWriterOfNoTerminal(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	file, err := os.Create(t.TempDir() + "/file")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, f := range []*os.File{null, file} {
		if Writer(f) != f {
			t.Errorf("%s is taken for a terminal", f.Name())
		}
	}
	var b bytes.Buffer
	if Writer(&b) != &b {
		t.Error("a buffer is taken for a terminal")
	}
}

// TestEscapeJSON escapes what JSON allows and a terminal may not show unchanged, and nothing of what it means.
func TestEscapeJSON(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":"b é 𝛑"}`:         `{"a":"b é 𝛑"}`,
		"\"\u202eb\"":           `"\u202eb"`,
		"\"a\x7f\u0085\u2028\"": `"a\u007f\u0085\u2028"`,
		"\"\U000e0001\"":        `"\udb40\udc01"`,
		"\"\ufffd\"":            "\"\ufffd\"",
	} {
		got := EscapeJSON([]byte(in))
		if string(got) != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
		var before, after any
		if json.Unmarshal([]byte(in), &before) != nil || json.Unmarshal(got, &after) != nil || !reflect.DeepEqual(before, after) {
			t.Errorf("%q means %v, and escaped %v", in, before, after)
		}
	}
}
