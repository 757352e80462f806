package console

import "testing"

func TestWrap(t *testing.T) {
	const help = `ls [-s] [-w] path

List the children
of a node, in the order of their names.

Flags:
  -s, --stat  print the stat, too, after it
      --output format  form of the output

Examples:
  ls /a   # one
  ls -o json /services/payments   # all of them
`
	for _, tt := range []struct {
		text  string
		width int
		want  string
	}{
		{help, 0, help},
		{help, 80, help},
		{help, 30, `ls [-s] [-w] path

List the children of a node,
in the order of their names.

Flags:
  -s, --stat  print the stat,
              too, after it
      --output format
          form of the output

Examples:
  ls /a   # one
  ls -o json
    /services/payments
      # all of them
`},
		{"a word-that-is-too-long\n", 10, "a\nword-that-is-too-long\n"},
		{"größe größe\n", 11, "größe größe\n"},
		{"  größe größe\n", 11, "  größe\n    größe\n"},
		{"one\n\n\ntwo", 80, "one\n\n\ntwo"},
	} {
		if got := Wrap(tt.text, tt.width); got != tt.want {
			t.Errorf("width %d: got\n%s\nwant\n%s", tt.width, got, tt.want)
		}
	}
}
