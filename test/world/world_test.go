package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/test/internal/results"
)

// The tables of the pages are what the results say.
func TestPage(t *testing.T) {
	const root = "../.."
	for _, page := range []string{page, longPage} {
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		want, err := withTables(root, page, text)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(text, want) {
			t.Errorf("%s is not what the files in results/ say: go run ./test/world -write", page)
		}
	}
}

// What the page says was not run has no declaration.
func TestNotRun(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("../..", page))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n### What was not run\n\n")
	list, _, ok := strings.Cut(section, ". ")
	if !ok {
		t.Fatalf("%s has no list of what was not run", page)
	}
	programs, err := readPrograms("programs")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range programs {
		if strings.Contains(list, p.title) {
			t.Errorf("%s: %s was not run, it says: %s/programs has it", page, p.title, here)
		}
	}
}

// An outcome has one line for each key, whatever its errors say.
func TestVerdict(t *testing.T) {
	for err, want := range map[error]string{
		nil: passed,
		errors.Join(errors.New("fault leader:\tnot settled"), errors.New("exit status 1")): "failed: fault leader: not settled; exit status 1",
	} {
		if got := verdictOf(err); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// Each result is of a program that is there.
func TestResultsHavePrograms(t *testing.T) {
	programs, err := readPrograms("programs")
	if err != nil {
		t.Fatal(err)
	}
	wanted := make(map[string]bool)
	for _, p := range programs {
		for _, kind := range []string{zkd, apache, edge} {
			wanted[resultFile("results", p.name, kind)] = true
		}
	}
	files, err := filepath.Glob("results/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !wanted[file] {
			t.Errorf("%s: no program of that name", file)
		}
	}
}

// README.md describes keys of a declaration that there are.
func TestDescribedKeys(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "| key | value |\n|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	if table == "" {
		t.Fatal("README.md has no table of keys")
	}
	for row := range strings.Lines(table) {
		for _, key := range strings.Split(strings.Split(row, "|")[1], ",") {
			err := new(program).set(strings.Trim(key, " `"), "")
			if err != nil && strings.Contains(err.Error(), "unknown key") {
				t.Errorf("README.md: %v", err)
			}
		}
	}
}

// Each program can be run, and what it is run with is there.
func TestProgramsAreComplete(t *testing.T) {
	programs, err := readPrograms("programs")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range programs {
		for _, file := range []string{filepath.Join(p.dir, "run.sh"), filepath.Join("programs", p.jars)} {
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s: %v", p.name, err)
			}
		}
		script, _ := os.ReadFile(filepath.Join(p.dir, "run.sh"))
		if _, class, ok := strings.Cut(string(script), "/java/run.sh\" "); ok {
			if _, err := os.Stat(filepath.Join("java", strings.TrimSpace(class)+".java")); err != nil {
				t.Errorf("%s: %v", p.name, err)
			}
		}
	}
}

// A program that has not all faults says why in a comment of its file.
func TestFaultsAreAll(t *testing.T) {
	programs, err := readPrograms("programs")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range programs {
		if p.group == "Test suites" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(p.dir, "program"))
		if err != nil {
			t.Fatal(err)
		}
		said := false
		for line := range strings.Lines(string(text)) {
			said = said || strings.HasPrefix(line, "#") && strings.Contains(line, "fault")
		}
		for _, name := range strings.Fields(all + " own") {
			if !slices.Contains(p.faults, name) && !said {
				t.Errorf("%s: no fault %s, and no comment says why", p.name, name)
			}
		}
	}
}

func TestDeclaration(t *testing.T) {
	const good = "title A\nversion 1\ngroup B\nwhat C\n"
	tests := []struct{ name, text, err string }{
		{"good", good + "# comment\n\nfaults leader quorum\nlimit 5m\nholds lost = 0\n", ""},
		{"unknown key", good + "faulst all\n", `program:5: unknown key "faulst"`},
		{"unknown fault", good + "faults leadre\n", `program:5: unknown fault "leadre"`},
		{"condition", good + "holds lost 0\n", `program:5: "lost 0": want a condition`},
		{"no number", good + "servers three\n", `program:5: strconv.Atoi: parsing "three"`},
		{"no duration", good + "pause 4\n", `program:5: time: missing unit`},
		{"neither true nor false", good + "secure maybe\n", `program:5: strconv.ParseBool: parsing "maybe"`},
		{"incomplete", "title A\n", "must be there"},
		{"no servers", good + "servers 0\nfaults all\n", "nothing that faults could kill"},
		{"no edge", good + "faults edge\n", "wants a line \"on edge\""},
		{"no edge to cut off", good + "faults way-to-leader\n", "wants a line \"on edge\""},
		{"neither edge nor all", good + "on apache\n", `program:5: on "apache": want edge`},
		{"no reason", good, "program/known:1: want"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "program")
			write(t, filepath.Join(dir, "program"), tc.text)
			if tc.name == "no reason" {
				write(t, filepath.Join(dir, "known"), "zkd Class.test\n")
			}
			_, err := readProgram(dir)
			if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Errorf("error %v, want %q", err, tc.err)
			}
		})
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestJudge(t *testing.T) {
	const junit = `<testsuites><testsuite>
<testcase classname="org.a.First" name="good()"/>
<testcase classname="org.a.First" name="bad()[1]"><failure message="m">text</failure></testcase>
<testcase classname="org.a.First" name="broken"><error/></testcase>
<testcase classname="org.a.First" name="left"><skipped/></testcase>
</testsuite></testsuites>`
	const goTest = `# a line of the build
{"Action":"run","Test":"TestA"}
{"Action":"output","Test":"TestA","Output":"--- PASS"}
{"Action":"pass","Test":"TestA"}
{"Action":"fail","Test":"TestB"}
{"Action":"fail"}
`
	tests := []struct {
		name, last, file, report string
		known                    []known
		holds                    string
		counts, err              string
	}{
		{name: "counts", last: "acknowledged=7 lost=0", holds: "lost = 0", counts: "acknowledged=7 lost=0"},
		{name: "lost", last: "acknowledged=7 lost=1", holds: "lost = 0", counts: "acknowledged=7 lost=1", err: "lost = 0 does not hold"},
		{name: "too few", last: "acknowledged=7", holds: "acknowledged >= 8", counts: "acknowledged=7", err: "does not hold"},
		{name: "not counted", last: "acknowledged=7", holds: "lost <= 0", counts: "acknowledged=7", err: "does not hold"},
		{name: "no counts", last: "done", err: `the last line: "done"`},
		{name: "nothing printed", err: "counted nothing"},
		{name: "junit", file: "a.xml", report: junit, counts: "passed=1 failed=2 known=0 skipped=1", err: "First.bad First.broken"},
		{name: "known", file: "a.xml", report: junit, known: []known{{zkd, "First.b*", "why"}}, counts: "passed=1 failed=0 known=2 skipped=1"},
		{name: "known elsewhere", file: "a.xml", report: junit, known: []known{{apache, "First.b*", "why"}}, counts: "passed=1 failed=2 known=0 skipped=1", err: "First.bad"},
		{name: "go test", file: "a.json", report: goTest, counts: "passed=1 failed=1 known=0 skipped=0", err: "TestB"},
		{name: "fewer tests", file: "a.json", report: goTest, known: []known{{zkd, "TestB", "why"}}, holds: "passed >= 2", counts: "passed=1 failed=0 known=1 skipped=0", err: "passed >= 2 does not hold"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			p := &program{known: tc.known}
			if tc.holds != "" {
				c, err := parseCondition(tc.holds)
				if err != nil {
					t.Fatal(err)
				}
				p.holds = append(p.holds, c)
			}
			dir := t.TempDir()
			if tc.file != "" {
				write(t, filepath.Join(dir, "reports", tc.file), tc.report)
			}
			n, err := (&run{program: p, kind: zkd, dir: dir, last: tc.last}).judge()
			if n.String() != tc.counts {
				t.Errorf("counts %q, want %q", n, tc.counts)
			}
			if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Errorf("error %v, want %q", err, tc.err)
			}
		})
	}
}

// A test that has failed may pass at another try, with all of its parameters; one that is known to fail is not run again.
func TestTries(t *testing.T) {
	junit := func(tests ...string) string {
		text := ""
		for _, name := range tests {
			name, failure := strings.TrimSuffix(name, "!"), ""
			if strings.HasSuffix(tests[0], "!") {
				failure = "<failure/>"
			}
			text += `<testcase classname="org.A" name="` + name + `()">` + failure + `</testcase>`
			tests = tests[1:]
		}
		return "<testsuite>" + text + "</testsuite>"
	}
	tests := []struct {
		name                 string
		first, second, third string
		counts, err          string
		repeated             string
	}{
		{"passes later", junit("a", "b!"), junit("b"), "", "passed=2 failed=0 known=0 skipped=0 repeated=1", "", "A.b"},
		{"passes at the third", junit("a", "b!"), junit("b!"), junit("b"), "passed=2 failed=0 known=0 skipped=0 repeated=1", "", "A.b"},
		{"never passes", junit("a", "b!"), junit("b!"), junit("b!"), "passed=1 failed=1 known=0 skipped=0", "A.b", ""},
		{"is not there later", junit("a", "b!"), junit("a"), "", "passed=1 failed=1 known=0 skipped=0", "A.b", ""},
		{"one parameter of two", junit("b!"), junit("b", "b!"), "", "passed=0 failed=1 known=0 skipped=0", "A.b", ""},
		{"no report", junit("ended!"), junit("a", "b"), "", "passed=2 failed=0 known=0 skipped=0 repeated=1", "", "A.ended"},
		{"never a report", junit("ended!"), junit("ended!"), "", "passed=0 failed=1 known=0 skipped=0", "A.ended", ""},
		{"known", junit("a", "known!"), "", "", "passed=1 failed=0 known=1 skipped=0", "", ""},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range map[string]string{"org.A.xml": tc.first, "org.A~2.xml": tc.second, "org.A~3.xml": tc.third} {
				if text != "" {
					write(t, filepath.Join(dir, "reports", file), text)
				}
			}
			r := &run{program: &program{known: []known{{zkd, "A.known", "why"}}}, kind: zkd, dir: dir}
			j, err := r.judgeReports()
			if err != nil || strings.Join(j.repeated, " ") != tc.repeated {
				t.Errorf("repeated %q, %v; want %q", j.repeated, err, tc.repeated)
			}
			n, err := r.judge()
			if n.String() != tc.counts || (err == nil) != (tc.err == "") || err != nil && !strings.HasSuffix(err.Error(), tc.err) {
				t.Errorf("counts %q, %v; want %q, error %q", n, err, tc.counts, tc.err)
			}
		})
	}
}

// What has failed is run again, and nothing else.
func TestRepeat(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "run.sh"), `echo "$AGAIN" >>$REPORTS/asked
[ "$TRY" = "~3" ] && outcome=pass || outcome=fail
echo "{\"Action\":\"$outcome\",\"Test\":\"TestA\"}" >"$REPORTS/go$TRY.json"
`)
	r := &run{program: &program{dir: dir, tries: 5}, kind: zkd, dir: t.TempDir()}
	if err := r.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.stdin.Close()
	if err := r.wait(); err != nil {
		t.Fatal(err)
	}
	if err := r.repeat(t.Context()); err != nil {
		t.Fatal(err)
	}
	asked, err := os.ReadFile(filepath.Join(r.dir, "reports", "asked"))
	if want := "\ngo:TestA\ngo:TestA\n"; err != nil || string(asked) != want {
		t.Errorf("asked for %q, %v; want %q", asked, err, want)
	}
	if n, err := r.judge(); err != nil || n.String() != "passed=1 failed=0 known=0 skipped=0 repeated=1" {
		t.Errorf("counts %q, %v", n, err)
	}
}

// A program that passes where nothing serves is none that can be believed.
func TestOnNothing(t *testing.T) {
	tests := []struct {
		name, script string
		ok           bool
	}{
		{"fails", "exit 1", true},
		{"counts nothing", "echo done", true},
		{"passes", "echo acknowledged=1", false},
		{"fails, and has passed tests", `echo '{"Action":"pass","Test":"TestA"}' >$REPORTS/a.json; exit 1`, false},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "run.sh"), tc.script+"\n")
			p := &program{dir: dir, nothing: time.Hour}
			err := tools{}.onNothing(context.Background(), p, zkd, t.TempDir(), "")
			if (err == nil) != tc.ok {
				t.Errorf("error %v, want none: %v", err, tc.ok)
			}
		})
	}
}

// A run is continued only with the same servers, and only that of a suite.
func TestContinues(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "zkd")
	write(t, binary, "one build")
	p, home := &program{}, "fetched"
	same := tools{zkd: binary, apache: "jars", resume: true}
	for _, kind := range []string{zkd, apache} {
		dir := t.TempDir()
		if same.continues(p, kind, dir, home) {
			t.Errorf("%s: what has not begun is continued", kind)
		}
		subject, err := same.subject(kind, home)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, subjectFile), subject)
		tests := []struct {
			name    string
			tools   tools
			p       *program
			home    string
			content string // of the binary
			want    bool
		}{
			{"the same", same, p, home, "one build", true},
			{"not wanted", tools{zkd: binary, apache: "jars"}, p, home, "one build", false},
			{"faults were inflicted", same, &program{servers: 3}, home, "one build", false},
			{"another version of the suite", same, p, "fetched later", "one build", false},
			{"another build", same, p, home, "another build", kind == apache},
		}
		for _, tc := range tests {
			write(t, binary, tc.content)
			if got := tc.tools.continues(tc.p, kind, dir, tc.home); got != tc.want {
				t.Errorf("%s, %s: continued: %v, want %v", kind, tc.name, got, tc.want)
			}
		}
		write(t, binary, "one build")
	}
}

// Each difference that a suite's failures are put down to is in a page of differences: the reason quotes it.
func TestKnownDifferencesAreInThePage(t *testing.T) {
	var text string
	for _, page := range []string{"../../docs/compat.md", "../../docs/dev/compat.md", "../../docs/edge.md"} {
		part, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		text += string(part)
	}
	programs, err := readPrograms("programs")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range programs {
		for _, k := range p.known {
			words := strings.Split(k.why, `"`)
			if k.on != apache && (len(words) < 3 || !strings.Contains(text, words[1])) {
				t.Errorf("%s: %s: the reason %q quotes no words of the pages", p.dir, k.test, k.why)
			}
		}
	}
}

// A program that does not end is ended, with the processes that it started.
func TestLimit(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "run.sh"), "(sleep 100000; echo acknowledged=1) & wait\n")
	p := &program{dir: dir, nothing: 50 * time.Millisecond}
	if err := (tools{}).onNothing(context.Background(), p, zkd, t.TempDir(), ""); err != nil {
		t.Error(err)
	}
	if left := descendants(); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
}

// A server that has ended by itself is not waited for.
func TestAwaitOfEndedServer(t *testing.T) {
	s := &server{id: 3, dir: t.TempDir(), argv: []string{"false"}}
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	err := await(context.Background(), []*server{s}, func() bool { return false })
	if err == nil || !strings.Contains(err.Error(), "server 3 has ended") {
		t.Errorf("error %v, want that server 3 has ended", err)
	}
}

// An outcome comes back from its file as it was, and makes the cell of the table; that of another version does not.
func TestOutcome(t *testing.T) {
	dir := t.TempDir()
	o := &outcome{
		program: "a", version: "1", kind: zkd, on: "zkd of 2026-11-28", under: "leader killed, rolling restart",
		verdict: passed, counts: results.Counts{{Name: "acknowledged", Number: 7}, {Name: "lost", Number: 0}}, took: time.Minute, date: time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC),
	}
	if err := o.save(dir); err != nil {
		t.Fatal(err)
	}
	p := &program{name: "a", title: "A", version: "1", what: "does it", faults: []string{"leader", "rolling"}, group: "Programs"}
	text, err := tables([]*program{p}, dir, true)
	if err != nil {
		t.Fatal(err)
	}
	const row = "| A 1 | does it | leader killed, rolling restart | passed; acknowledged 7, lost 0; 2026-11-28 | not run |\n"
	if !strings.Contains(text, row) || !strings.Contains(text, "### Programs\n") {
		t.Errorf("have\n%s\nwant the row\n%s", text, row)
	}
	same := *p
	same.title = "B"
	if short, err := tables([]*program{p, &same}, dir, false); err != nil || !strings.Contains(short, "| A 1; B 1 | leader killed, rolling restart | passed | not run |\n") {
		t.Errorf("in short %v\n%s", err, short)
	}
	p.version = "2"
	if text, _ = tables([]*program{p}, dir, true); text != "\nDeclared and not run yet: A 2.\n\n" {
		t.Errorf("the outcome of version 1 counts for version 2:\n%s", text)
	}
}

// A program that needs an edge runs on nothing else, and what it did there is in zkd's column.
func TestEdgeAlone(t *testing.T) {
	p := &program{name: "a", title: "A", version: "1", what: "does it", edge: true, faults: []string{"leader", "edge"}, times: 50, group: "Programs"}
	dir := t.TempDir()
	if all, err := pairings([]*program{p}, []string{zkd, apache, edge}, dir, false); err != nil || len(all) != 1 || all[0].kind != edge {
		t.Errorf("runs %v, %v; want one through an edge", all, err)
	}
	o := &outcome{program: "a", version: "1", kind: edge, verdict: passed, date: time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)}
	if err := o.save(dir); err != nil {
		t.Fatal(err)
	}
	const row = "| A 1 | does it | 50 times: leader killed, edge replaced | passed; 2026-11-28 | not run |\n"
	if text, err := tables([]*program{p}, dir, true); err != nil || !strings.Contains(text, row) {
		t.Errorf("%v, have\n%s\nwant the row\n%s", err, text, row)
	}
}

// With a limit of time the runs that are longest ago come first, and those that never were before them.
func TestOldestFirst(t *testing.T) {
	dir := t.TempDir()
	for _, o := range []outcome{
		{program: "a", kind: zkd, date: time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)},
		{program: "a", kind: apache, date: time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC)},
		{program: "b", kind: apache, date: time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)},
	} {
		if err := o.save(dir); err != nil {
			t.Fatal(err)
		}
	}
	for oldest, want := range map[bool]string{
		false: "a-zkd a-apache b-zkd b-apache",
		true:  "b-zkd a-apache a-zkd b-apache",
	} {
		all, err := pairings([]*program{{name: "a"}, {name: "b"}}, []string{zkd, apache}, dir, oldest)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range all {
			got = append(got, r.name+"-"+r.kind)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("oldest first %v: %v, want %s", oldest, got, want)
		}
	}
}
