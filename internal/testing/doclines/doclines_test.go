package doclines

import (
	"fmt"
	"strings"
	"testing"
)

func TestFind(t *testing.T) {
	const page = "Text.\n" +
		"zkd is text\n" +
		"    zkd continues the text\n" +
		"\n" +
		"    bin/zkd status -o json zk1:2181 > out 2>&1 # a comment\n" +
		"    A=b sudo zkd --set 'a=b c' \\\n" +
		"        --pid PID1 ... && zkd ready || true\n" +
		"    for h in a b; do zkd live $(host $(x)):2181; done\n" +
		"    scp zkd host:\n" +
		"\n" +
		"    $ docker exec zoo zkd status\n" +
		"    zkd is output\n" +
		"\n" +
		"    zkd> status \"a b\"\n" +
		"    other> get x\n" +
		"\n" +
		"    the text (zkd is text)\n" +
		"\n" +
		"```go\nzkd of(go)\n```\n" +
		"```sh\nzkd verify \"\" <(gunzip x) | less\nif ! zkd live; then zkd ready; fi\n```\n" +
		"zkd is text\n"
	want := []string{
		`5 ["status" "-o" "json" "zk1:2181"]`,
		`6 ["--set" "a=b c" "--pid" "1"]`,
		`6 ["ready"]`,
		`8 ["live" "1:2181"]`,
		`11 ["status"]`,
		`14 ["status" "a b"] at the prompt`,
		`23 ["verify" "" "1"]`,
		`24 ["live"]`,
		`24 ["ready"]`,
	}
	var got []string
	for _, l := range find(page, "zkd") {
		text := fmt.Sprintf("%d %q", l.number, l.args)
		if l.atPrompt {
			text += " at the prompt"
		}
		got = append(got, text)
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
