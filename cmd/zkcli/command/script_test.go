package command

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/internal/testing/scenario"
)

// TestScripts runs the conversations of testdata against a separate server. A
// line is
//
//	LINE              a line of a session, which is one for the file
//	$ ARGS            zkcli with these arguments; 'a b' is one, < FILE and > FILE are files
//	file NAME TEXT    a file with the text, in which \x00 is a byte; quoted as in Go
//	cat NAME          prints a file, quoted as in Go
//
// DIR is the directory of the files, and SERVER the server's address.
//
// Lines of stderr have "! " before them, empty ones are a dot, and an exit code
// that is not 0 is shown. Zxids count from the file's first one.
func TestScripts(t *testing.T) {
	t.Setenv("TZ", "UTC")
	scenario.Run(t, "testdata/*.txt", func(t *testing.T) scenario.Command {
		d := newDriver(t)
		return func(words []string) (string, error) { return d.do(strings.Join(words, " ")) }
	})
}

// driver runs the lines of a scenario.
type driver struct {
	t       *testing.T
	server  string
	dir     string
	env     map[string]string
	session *App
	out     *bytes.Buffer // of the session, and of what runs
	normal  normal
}

func newDriver(t *testing.T) *driver {
	s := zktest.Start(t, zktest.Config("extendedTypesEnabled=true", "reconfigEnabled=true", "enforceQuota=true"))
	d := &driver{t: t, server: s.ConnectString(), dir: t.TempDir(), out: new(bytes.Buffer)}
	d.env = map[string]string{envServer: d.server}
	d.normal = normal{server: d.server, dir: d.dir}
	d.session = New(d.streams(""))
	d.session.session = true
	t.Cleanup(d.session.Close)
	return d
}

// streams are those of a program that prints into out.
func (d *driver) streams(stdin string) Streams {
	return Streams{
		In: strings.NewReader(stdin), Out: d.out, Err: &marked{d.out},
		Getenv: func(name string) string { return d.env[name] },
	}
}

// marked marks the lines of stderr.
type marked struct{ to *bytes.Buffer }

// Write writes lines.
func (m *marked) Write(p []byte) (int, error) {
	for line := range strings.Lines(string(p)) {
		m.to.WriteString("! " + line)
	}
	return len(p), nil
}

func (d *driver) do(line string) (string, error) {
	d.out.Reset()
	line = strings.NewReplacer("DIR", d.dir, "SERVER", d.server).Replace(line)
	name, rest, _ := strings.Cut(line, " ")
	switch name {
	case "file":
		file, text, _ := strings.Cut(rest, " ")
		data, err := strconv.Unquote(text)
		if err != nil {
			return "", fmt.Errorf("%s: %w", text, err)
		}
		return "", os.WriteFile(filepath.Join(d.dir, file), []byte(data), 0o600)
	case "cat":
		data, err := os.ReadFile(filepath.Join(d.dir, rest))
		return strconv.Quote(string(data)), err
	case "$":
		return d.program(rest)
	}
	err := d.session.Line(d.t.Context(), line)
	return d.normal.text(d.out.String() + exitLine(ExitCode(err))), nil
}

// program runs zkcli from its beginning to its end.
func (d *driver) program(line string) (string, error) {
	args, err := split(line)
	if err != nil {
		return "", err
	}
	stdin, output := "", ""
	if i := len(args) - 2; i >= 0 && args[i] == ">" {
		args, output = args[:i], filepath.Join(d.dir, args[i+1])
	}
	if i := len(args) - 2; i >= 0 && args[i] == "<" {
		data, err := os.ReadFile(filepath.Join(d.dir, args[i+1]))
		if err != nil {
			return "", err
		}
		args, stdin = args[:i], string(data)
	}
	s := d.streams(stdin)
	code := Main(d.t.Context(), args, s)
	if output != "" {
		return exitLine(code), os.WriteFile(output, d.out.Bytes(), 0o600)
	}
	return d.normal.text(d.out.String() + exitLine(code)), nil
}

func exitLine(code int) string {
	if code == 0 {
		return ""
	}
	return fmt.Sprintf("exit %d\n", code)
}

// normal replaces what is different in each run.
type normal struct {
	server, dir string
	base        int64 // the first zxid
}

var (
	zxids  = regexp.MustCompile(`([cmp]Zxid(?: = | +)|[cmp]zxid":")0x([0-9a-f]+)`)
	times  = regexp.MustCompile(`([cm]?time(?: = | +|":"))([^"\n]*)`)
	owners = regexp.MustCompile(`(ephemeralOwner(?: = |":"))0x[0-9a-f]{2,}`)
	events = regexp.MustCompile(`( zxid: | as of zxid 0x|"zxid":"0x)[0-9a-f]+`)
)

func (n *normal) text(s string) string {
	s = strings.ReplaceAll(strings.ReplaceAll(s, n.server, "SERVER"), n.dir, "DIR")
	s = zxids.ReplaceAllStringFunc(s, func(m string) string {
		parts := zxids.FindStringSubmatch(m)
		zxid, err := strconv.ParseInt(parts[2], 16, 64)
		if err != nil || zxid == 0 {
			return m
		}
		if n.base == 0 {
			n.base = zxid
		}
		return fmt.Sprintf("%s+%d", parts[1], zxid-n.base)
	})
	s = times.ReplaceAllStringFunc(s, func(m string) string {
		parts := times.FindStringSubmatch(m)
		for _, layout := range []string{javaDate, time.RFC3339} {
			if at, err := time.Parse(layout, parts[2]); err == nil && at.Year() != 1970 {
				return parts[1] + "TIME"
			}
		}
		return m
	})
	s = owners.ReplaceAllString(s, "${1}SESSION")
	s = events.ReplaceAllString(s, "${1}N")
	s = strings.TrimSuffix(s, "\n")
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		if lines[i] = strings.TrimRight(line, " "); lines[i] == "" && s != "" {
			lines[i] = "."
		}
	}
	return strings.Join(lines, "\n")
}
