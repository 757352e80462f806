package config

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/internal/secret"
)

// Apache's server takes many of its keys from options of its JVM, too, which scripts beside zoo.cfg or the
// environment set: -Dzookeeper.KEY=VALUE. zkd has no JVM and does not read them, so it says which it has found.

// surroundings are what is around the configuration file; its functions may be nil.
type surroundings struct {
	list    func(dir string) []string // the names of the files in a directory
	environ func() []string           // as os.Environ
}

// ofSystem are the surroundings of a file of the operating system.
var ofSystem = surroundings{
	list: func(dir string) (names []string) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil
		}
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	},
	environ: os.Environ,
}

var (
	// flagFiles are the names of files that set options of a JVM: java.env of Apache's and Bitnami's scripts,
	// zookeeper-env.sh of Cloudera's and Hortonworks', jvm.options and the like.
	flagFiles = regexp.MustCompile(`(?i)^(.*\.env|.*env\.sh|jvm[._-]?(options|config|flags).*)$`)
	// flagVariables are environment variables for options of a JVM; KAFKA_OPTS is Confluent's.
	flagVariables = regexp.MustCompile(`^(.*JVMFLAGS|.*_OPTS|JAVA_TOOL_OPTIONS|EXTRA_ARGS)$`)
	jvmFlag       = regexp.MustCompile(`-D([A-Za-z0-9_.-]+)=("[^"]*"|'[^']*'|[^\s"']*)`)
)

// readJVMFlags finds the options of a JVM that set keys, and that the configuration does not have.
func (l *loader) readJVMFlags(around surroundings) {
	if around.list != nil && l.name != "" {
		dir := filepath.Dir(l.name)
		for _, name := range around.list(dir) {
			if !flagFiles.MatchString(name) {
				continue
			}
			name = filepath.Join(dir, name)
			text, err := l.read(name)
			if err != nil {
				continue // it is not zkd's
			}
			line := 0
			for text := range strings.Lines(string(text)) {
				if line++; !strings.HasPrefix(strings.TrimSpace(text), "#") {
					l.addJVMFlags(text, Origin{File: name, Line: line})
				}
			}
		}
	}
	if around.environ != nil {
		for _, variable := range slices.Sorted(slices.Values(around.environ())) {
			name, value, _ := strings.Cut(variable, "=")
			if flagVariables.MatchString(name) {
				l.addJVMFlags(value, Origin{File: "$" + name})
			}
		}
	}
}

func (l *loader) addJVMFlags(text string, from Origin) {
	for _, m := range jvmFlag.FindAllStringSubmatch(text, -1) {
		p := property{key: m[1], value: strings.Trim(m[2], `"'`), origin: from}
		k, name, known := l.row(p)
		_, given := l.set[name]
		if _, twice := l.flags[name]; !known || given || twice || k.Status == Ignored || !k.Protects && p.value == k.Default {
			continue
		}
		line := strings.TrimPrefix(p.key, "zookeeper.") + "=" + p.value
		if k.value.secret || strings.Contains(strings.ToLower(p.key), "password") {
			p.value = secret.Mask
			line = "it, with its value,"
		}
		l.flags[name] = p
		if k.requestsFeature(p.value) || k.Default != "" {
			l.warn(p, "zkd does not read options of a JVM: to keep this one, write %s into the configuration file", line)
		}
	}
}

// flagHint says where an option of a JVM has the value of a key that is missing, or "".
func (l *loader) flagHint(key string) string {
	p, found := l.flags[key]
	if _, given := l.set[key]; !found || given {
		return ""
	}
	return fmt.Sprintf(" (%s sets it for Apache's JVM: write it into the configuration file)", p.origin)
}
