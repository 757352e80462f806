package shell

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestSplit(t *testing.T) {
	tests := []struct {
		line string
		want []string // nil: unclosed
	}{
		{"ls /", []string{"ls", "/"}},
		{" ls \t -s  /a ", []string{"ls", "-s", "/a"}},
		{`create /a "hello world"`, []string{"create", "/a", "hello world"}},
		{`set /a '{"a": "b"}'`, []string{"set", "/a", `{"a": "b"}`}},
		{`set /a {"a":"b"}`, []string{"set", "/a", `{"a":"b"}`}},
		{`set /a ""`, []string{"set", "/a", ""}},
		{`get "/a"b`, []string{"get", "/a", "b"}},
		{`set /a C:\temp\`, []string{"set", "/a", `C:\temp\`}},
		{`ls "/a`, nil},
		{`ls '`, nil},
		{"", []string{}},
	}
	for _, tt := range tests {
		got, err := Split(tt.line)
		if tt.want == nil {
			if !errors.Is(err, ErrUnclosed) || strings.Contains(err.Error(), "\n") {
				t.Errorf("Split(%q): got %q, %v; want one line that says that the quote is not closed", tt.line, got, err)
			}
			continue
		}
		if err != nil || strings.Join(got, "\x00") != strings.Join(tt.want, "\x00") || len(got) != len(tt.want) {
			t.Errorf("Split(%q): got %q, %v; want %q", tt.line, got, err, tt.want)
		}
	}
}

// FuzzSplit: words that are quoted and joined are split into the same words; what
// stands before the word that is completed are the words of that part of the line.
func FuzzSplit(f *testing.F) {
	for _, line := range []string{`create /a "b c" d`, `'`, `a"b`, `"a"'b'`, "a\nb", "日本 '語"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		p := placeOf(line)
		if p.start < 0 || p.start > len(line) || !strings.HasSuffix(line, p.current) {
			t.Fatalf("placeOf(%q): %+v", line, p)
		}
		if before, err := Split(line[:p.start]); err != nil || len(before) != len(p.words) {
			t.Fatalf("placeOf(%q): words %q; Split of what is before: %q, %v", line, p.words, before, err)
		}
		words, err := Split(line)
		if err != nil {
			return
		}
		var again []string
		for _, w := range words {
			q, ok := quoted(w)
			if !ok {
				return
			}
			again = append(again, q)
		}
		if got, err := Split(strings.Join(again, " ")); err != nil || !reflect.DeepEqual(got, words) {
			t.Fatalf("%q: words %q; quoted and split again: %q, %v", line, words, got, err)
		}
	})
}

// FuzzDecode: keys that come in pieces are the keys that come at once, and nothing
// that x/term would take for a control sequence is left in them.
func FuzzDecode(f *testing.F) {
	for _, in := range []string{"ls /\r", "\x1b[A\x1bOB\x1b[1;5C", "\x1b\x1b[A", "\x1b[200~a\tb\r\n\x1b[201~\t", "日\xff\x03", "\x1b[" + strings.Repeat("1", 40)} {
		f.Add([]byte(in), 1)
	}
	f.Fuzz(func(t *testing.T, in []byte, cut int) {
		cut = max(0, min(cut, len(in)))
		var whole, pieces decoder
		want := string(whole.decode(in))
		got := string(pieces.decode(in[:cut])) + string(pieces.decode(in[cut:]))
		// An end of a line that comes in two reads, as CR and LF, is two.
		if got != want && !strings.Contains(string(in), "\r\n") {
			t.Errorf("decode %q cut at %d: got %q, want %q", in, cut, got, want)
		}
		for _, r := range want {
			if r < ' ' && r != enter && r != clearScreen || r == filler {
				t.Errorf("decode %q: %q has %q", in, want, r)
			}
		}
	})
}

// quoted writes a word so that Split reads it, with quotes if necessary. It returns false for
// a word with a blank and both kinds of quote.
func quoted(text string) (string, bool) {
	q, ok := quoteFor(text, 0)
	if !ok || q == 0 {
		return text, ok
	}
	return string(q) + text + string(q), true
}
