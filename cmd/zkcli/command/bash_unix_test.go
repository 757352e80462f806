//go:build unix

package command

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestBashCompletion runs the script for bash: a name with blanks is quoted, one and several, so that what bash
// inserts is one word.
func TestBashCompletion(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal(err)
	}
	var script, errs bytes.Buffer
	if code := Main(t.Context(), []string{"completion", "bash"}, Streams{Out: &script, Err: &errs, Getenv: os.Getenv}); code != 0 {
		t.Fatalf("exit %d: %s", code, &errs)
	}
	dir := t.TempDir()
	// What zkcli __complete prints.
	answers := "#!" + bash + `
case "$*" in
*"/my"*) printf '/my node\n:6\n' ;;
*"/tw"*) printf '/two a\n/two ab\n:6\n' ;;
*) printf ':4\n' ;;
esac
`
	if err := os.WriteFile(filepath.Join(dir, "zkcli"), []byte(answers), 0o700); err != nil {
		t.Fatal(err)
	}
	script.WriteString(`
_get_comp_words_by_ref() { cur=${COMP_WORDS[-1]}; words=("${COMP_WORDS[@]}"); cword=$((${#COMP_WORDS[@]}-1)); }
compopt() { :; }
COMP_TYPE=9
for word in /my '/my\ n' /tw '/two\ ' /none; do
    COMP_WORDS=(zkcli get "$word")
    __start_zkcli
    (( ${#COMPREPLY[@]} == 0 )) || printf '%s\n' "${COMPREPLY[@]}"
    echo .
done
`)
	cmd := exec.CommandContext(t.Context(), bash, "--norc", "-c", script.String())
	cmd.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH")}
	out, err := cmd.CombinedOutput()
	want := []string{`/my\ node`, ".", `/my\ node`, ".", `/two\ a`, `/two\ ab`, ".", `/two\ a`, `/two\ ab`, ".", "."}
	if got := strings.TrimSpace(string(out)); err != nil || got != strings.Join(want, "\n") {
		t.Errorf("%v; got\n%s\nwant\n%s", err, got, strings.Join(want, "\n"))
	}
}
