package server

import (
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
)

var (
	curlWord = regexp.MustCompile(`'[^']*'|"[^"]*"|[^\s'"]+`)
	curlHost = "localhost:8080"
)

// TestAPIPage runs the lines with curl in docs/api.md, in their order, and compares what they print.
func TestAPIPage(t *testing.T) {
	text, err := os.ReadFile("../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		c := startServer(t, apiLines...).caller(t)
		token, n := "", 0
		lines := strings.Split(string(text), "\n")
		for i, line := range lines {
			command, ok := strings.CutPrefix(line, "    $ curl ")
			if !ok {
				continue
			}
			n++
			want := ""
			if next, ok := strings.CutPrefix(lines[i+1], "    "); ok && !strings.HasPrefix(next, "$") {
				want = next
			}
			got := strings.TrimSuffix(c.curl(strings.ReplaceAll(command, "$TOKEN", token)), "\n")
			pattern := strings.ReplaceAll(regexp.QuoteMeta(want), "…", ".*")
			if ok, err := regexp.MatchString("^"+pattern+"$", got); !ok || err != nil {
				t.Errorf("curl %s\nprints %s\nwant %s", command, got, want)
			}
			if _, rest, ok := strings.Cut(got, `"token":"`); ok {
				token, _, _ = strings.Cut(rest, `"`)
			}
		}
		if n < 10 {
			t.Errorf("the page has %d lines with curl", n)
		}
	})
}

// curl does what the program does with some of its options, and returns what it prints.
func (c *caller) curl(command string) string {
	method, body, path, headers := "", "", "", []string(nil)
	words := curlWord.FindAllString(command, -1)
	for i := 0; i < len(words); i++ {
		argument := func() string { i++; return strings.Trim(words[i], `'"`) }
		switch word := words[i]; word {
		case "-X":
			method = argument()
		case "-H":
			name, value, _ := strings.Cut(strings.Trim(words[i+1], words[i+1][:1]), ": ")
			i++
			headers = append(headers, name, value)
		case "-d":
			body = argument()
			if method == "" {
				method = http.MethodPost
			}
		default:
			path = strings.TrimPrefix(strings.Trim(word, "'"), curlHost)
		}
	}
	if method == "" {
		method = http.MethodGet
	}
	return c.call(method, path, body, headers...).Body.String()
}
