package config

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/scenario"
)

// TestScenarios runs testdata/*.txt. A line is a line of zoo.cfg, unless it
// begins with one of these words:
//
//	file NAME       the lines that follow are of that file
//	set KEY=VALUE   a setting from the command line
//	env NAME=VALUE  an environment variable
//	load            load zoo.cfg and start over; prints warnings (W), errors (E)
//	                and the settings that are not defaults
func TestScenarios(t *testing.T) {
	scenario.Run(t, "testdata/*.txt", func(*testing.T) scenario.Command {
		d := &driver{}
		d.reset()
		return d.command
	})
}

type driver struct {
	files map[string]string
	file  string
	set   []Setting
	env   []string
}

func (d *driver) reset() { *d = driver{file: "zoo.cfg", files: make(map[string]string)} }

func (d *driver) command(words []string) (string, error) {
	switch line := strings.Join(words, " "); words[0] {
	case "file":
		d.file = words[1]
		d.files[d.file] += ""
	case "set":
		key, value, _ := strings.Cut(words[1], "=")
		d.set = append(d.set, Override(key, value))
	case "load":
		defer d.reset()
		return d.load(), nil
	case "env":
		d.env = append(d.env, line[len("env "):])
	default:
		d.files[d.file] += line + "\n"
	}
	return "", nil
}

func (d *driver) read(name string) ([]byte, error) {
	if text, ok := d.files[name]; ok {
		return []byte(text), nil
	}
	return nil, fs.ErrNotExist
}

func (d *driver) load() string {
	var out strings.Builder
	l := newLoader(d.read)
	l.around = surroundings{
		list:    func(string) []string { return slices.Sorted(maps.Keys(d.files)) },
		environ: func() []string { return d.env },
	}
	c, warnings, err := l.load([]byte(d.files["zoo.cfg"]), "zoo.cfg", d.set)
	for _, w := range warnings {
		fmt.Fprintf(&out, "W %s\n", w)
	}
	if err != nil {
		return out.String() + "E " + strings.ReplaceAll(err.Error(), "\n", "\nE ")
	}
	var all strings.Builder
	if err := c.Describe(&all, true); err != nil {
		return err.Error()
	}
	for line := range strings.Lines(all.String()) {
		if !strings.HasSuffix(line, " default\n") && !strings.HasSuffix(line, " from other keys\n") && !strings.HasPrefix(line, "warning: ") {
			out.WriteString(line)
		}
	}
	return out.String()
}
