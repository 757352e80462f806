//go:build compat

package compat

import (
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
)

var allWords = []string{"ruok", "isro", "srvr", "stat", "cons", "conf", "envi", "mntr", "dump", "wchs", "wchc", "wchp", "dirs", "gtmk", "crst", "srst", "hash"}

func wordScenarios() []scenario {
	return []scenario{
		{name: "words: each", own: &config{}, run: func(w *world) {
			c := w.connect("A")
			c.do(create("/words", "", 0), create("/words/e", "", 1), getW("/words"), existsW("/words/e"), childrenW("/words"))
			for _, word := range allWords {
				w.word(word, "")
			}
		}},
		{name: "words: with line ends", run: func(w *world) {
			for _, word := range []string{"ruok", "isro", "gtmk", "srst"} {
				w.word(word, "\r\n")
				w.word(word, "\n")
			}
		}},
		{name: "words: trace mask", run: func(w *world) {
			w.word("stmk", "\x00\x00\x00\x00\x00\x00\x01\x32")
			w.word("gtmk", "")
		}},
		{name: "words: unknown", run: func(w *world) {
			for _, word := range []string{"kill", "RUOK", "ruo", "xxxx", "telnet", "reqs"} {
				w.word(word, "\r\n")
			}
		}},
		{name: "words: not in the whitelist", own: &config{lines: []string{"4lw.commands.whitelist=srvr, ruok"}}, run: func(w *world) {
			for _, word := range allWords {
				w.word(word, "")
			}
		}},
	}
}

// word sends a four-letter word and logs the answer with its values taken out.
func (w *world) word(word, after string) {
	c := w.dial(word)
	defer c.close()
	c.write([]byte(word + after))
	if err := c.nc.SetReadDeadline(time.Now().Add(3 * time.Second)); err != nil {
		w.logf("%s: %v", word, err)
	}
	text, err := io.ReadAll(c.r)
	if err != nil && len(text) == 0 {
		w.logf("%q: silence or closed", word+after)
		return
	}
	w.logf("%q says:", word+after)
	for _, line := range wordLines(w, word, string(text)) {
		w.logf("| %s", line)
	}
}

// valueForms take the values out of the words' output. Order matters.
var valueForms = []struct {
	re *regexp.Regexp
	as string
}{
	{regexp.MustCompile(`0x[0-9a-f]{9,}`), "SESSION"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "ADDR"},
	{regexp.MustCompile(`(Mon|Tue|Wed|Thu|Fri|Sat|Sun) [A-Z][a-z]{2} \d\d \d\d:\d\d:\d\d [A-Z]+ \d{4}`), "DATE"},
	{regexp.MustCompile(`^(Zookeeper version: |zk_version\t|zookeeper\.version=).*`), "${1}VERSION"},
	{regexp.MustCompile(`=/[^ ]*?(/version-2)?$`), "=DIR$1"},
	{regexp.MustCompile(`0x[0-9a-f]+`), "HEX"},
	{regexp.MustCompile(`-?\d+\.\d+(E-?\d+)?`), "FLOAT"},
	{regexp.MustCompile(`-?\b\d+\b`), "N"},
}

// keepNumbers are words whose numbers are the same on any server.
var keepNumbers = []string{"wchs", "gtmk", "stmk"}

func wordLines(w *world, word, text string) []string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		for _, f := range valueForms {
			if f.as == "N" && (slices.Contains(keepNumbers, word) || strings.HasPrefix(line, "zk_") && !strings.Contains(line, "\t")) {
				continue
			}
			if key, value, isMetric := strings.Cut(line, "\t"); isMetric && word == "mntr" && f.as != "${1}VERSION" {
				line = key + "\t" + f.re.ReplaceAllString(value, f.as)
				continue
			}
			line = f.re.ReplaceAllString(line, f.as)
		}
		lines[i] = line
	}
	switch word {
	case "mntr":
		lines = foldSummaries(lines)
		if w.figures != nil {
			lines = slices.DeleteFunc(lines, func(l string) bool { return !w.figures.MatchString(l) })
		}
	case "wchc", "wchp", "cons", "stat": // sets, in no order
		slices.Sort(lines)
		lines = slices.Compact(lines)
	case "envi": // values are the machine's
		for i, line := range lines {
			key, _, _ := strings.Cut(line, "=")
			lines[i] = key
		}
	case "dump": // bucket contents move with time: the headings tell the form
		lines = slices.DeleteFunc(lines, func(l string) bool {
			return strings.Contains(l, "expire at") && (w.ens != nil || !strings.Contains(l, "DATE"))
		})
		lines = slices.Compact(lines)
	case "hash":
		lines = slices.Compact(lines)
	}
	return lines
}

// summaryKey is a figure of one of mntr's summaries: zk_avg_x, zk_cnt_x, zk_p99_x, ...
var summaryKey = regexp.MustCompile(`^zk_(avg|min|max|cnt|sum|p50|p95|p99|p999)_(.*)\t`)

// ofServer is the id of a server in the name of a figure that is kept for each.
var ofServer = regexp.MustCompile(`_\d+_(learner_handler|sid)`)

// foldSummaries sorts mntr's lines and makes one line of all figures of a summary.
func foldSummaries(lines []string) []string {
	figures := map[string][]string{}
	var rest []string
	for _, line := range lines {
		line = ofServer.ReplaceAllString(line, "_ID_$1")
		if m := summaryKey.FindStringSubmatch(line); m != nil {
			figures[m[2]] = append(figures[m[2]], m[1])
			continue
		}
		rest = append(rest, line)
	}
	for name, kinds := range figures {
		slices.Sort(kinds)
		kinds = slices.Compact(kinds)
		rest = append(rest, "zk_{"+strings.Join(kinds, ",")+"}_"+name)
	}
	slices.Sort(rest)
	return slices.Compact(rest)
}
