package config

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/scenario"
)

// TestDocs checks that docs/configuration.md and docs/dev/unused-keys.md match the table of keys. To write them:
//
//	go test ./server/config -run TestDocs -rewrite
func TestDocs(t *testing.T) {
	for file, write := range map[string]func(io.Writer){
		"../../docs/configuration.md":   writeDocs,
		"../../docs/dev/unused-keys.md": writeUnused,
	} {
		var want bytes.Buffer
		write(&want)
		if scenario.Rewrites() {
			if err := os.WriteFile(file, want.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(file)
		if err != nil || !bytes.Equal(got, want.Bytes()) {
			t.Errorf("%s is not what the table of keys says (%v); write it with -rewrite", file, err)
		}
	}
}

const docsHead = `# Configuration

| to | do |
|---|---|
| see what would be in effect, and why | ` + "`zkd config check zoo.cfg`" + `; ` + "`--all`" + ` also the defaults, ` + "`--strict`" + ` to fail on warnings |
| start with a file | ` + "`zkd zoo.cfg`" + `; without a file: port 2181, data in ` + "`~/.local/state/zkd`" + ` |
| set one key on the command line | ` + "`zkd --set KEY=VALUE zoo.cfg`" + ` |
| change a key while the server runs | ` + "`zkcli config set KEY VALUE`" + `, or edit the file and send SIGHUP: [run.md](run.md#starting-and-stopping) |
| begin with few keys | the files of [run.md](run.md#three-servers) and [install.md](install.md) |

The syntax of zoo.cfg is that of Java's .properties files: backslashes are escapes,
` + "`#`" + ` begins a comment only at the start of a line, text is ISO-8859-1, and the last of two lines with one key counts.
The prefix ` + "`zookeeper.`" + ` of a key may be there or not. Times may carry a unit (` + "`500ms`, `30s`, `5m`, `12h`, `7d`" + `);
without one they are in the unit of the table.

| a key that is | effect |
|---|---|
| known, with a bad value | the server stops, with the line and what is allowed |
| one that asks for a protection which zkd does not have, or is misspelled so | the server stops |
| any other that zkd does not know or use | a warning with the [reason](#keys-that-have-no-use) |

*Live* marks a key that can change while the server runs. Without values: true or false, or yes or no; with a unit any number; else any text. This file is made from the table in server/config; do not edit it.

## Keys that zkd honours
`

// sections returns the keys that zkd honours, by what they are about.
func sections() []section {
	c := new(Config)
	return []section{
		{"Data, log and snapshots", fileKeys(c)},
		{"Connections and sessions", clientKeys(c)},
		{"Requests and replies", requestKeys(c)},
		{"Nodes and quotas", treeKeys(c)},
		{"Limits of clients", limitKeys(c)},
		{"The ensemble", slices.Concat(ensembleKeys(c), quorumSASLKeys(c), autopilotKeys(c))},
		{"Words, metrics, the server's log, traces", slices.Concat(operatingKeys(c), traceKeys(c))},
		{"AdminServer, HTTP API, console", adminKeys(c)},
		{"Access", slices.Concat(secureKeys(c), securityKeys(c))},
		{"TLS", slices.Concat(clientTLSKeys(c), quorumTLSKeys(c), metricsTLSKeys(c))},
		{"Certificates and tokens as identities", slices.Concat(identityKeys(c), edgesKeys(c))},
		{"SASL and Kerberos", saslKeys(c)},
		{"Audit log", auditKeys(c)},
	}
}

type section struct {
	title string
	keys  []Key
}

// writeDocs writes the content of docs/configuration.md.
func writeDocs(w io.Writer) {
	io.WriteString(w, docsHead)
	for _, s := range sections() {
		fmt.Fprintf(w, "\n### %s\n\n", s.title)
		if s.title == "TLS" {
			io.WriteString(w, "Clients' ports have the keys with `ssl.`, links between servers those with `ssl.quorum.`, the metrics those with\n"+
				"`metricsProvider.ssl.`. A row with several keys names others without that prefix. [security.md](security.md) has examples.\n\n")
		}
		writeKeys(w, s.keys, Honoured)
	}
	io.WriteString(w, "\n## Keys of zkd edge\n\n")
	writeKeys(w, Keys(), OfEdge)
	writeGroups(w, "Keys that ask for a protection which zkd does not have",
		"They stop the start, unless the value asks for nothing (`false`, `no`, `none`, `off`, `0`, `-1` or nothing at all), or\n"+
			"`zkd.ignoreSecurityKeys=true` lets the server run without the protection; then they are warnings.",
		func(k Key) bool { return (k.Status == Ignored || k.Status == Later) && k.Protects })
	io.WriteString(w, "\n## Keys that have no use\n\n"+
		"The other keys of Apache's server are accepted with a warning that says why they are not needed; `zkd config check` prints it, and [a list](dev/unused-keys.md) has them all.\n")
}

// writeUnused writes the keys of Apache's server that need not be there.
func writeUnused(w io.Writer) {
	io.WriteString(w, "# Keys of Apache ZooKeeper without effect\n\nzkd accepts them with a warning. Those that it honours are in [configuration.md](../configuration.md). "+
		"This file is made from the table in server/config; do not edit it.\n")
	writeGroups(w, "Keys for a later feature", "They are accepted with a warning, if their value asks for something.",
		func(k Key) bool { return k.Status == Later && !k.Protects })
	writeGroups(w, "Keys that have no use in zkd", "They are accepted with a warning.",
		func(k Key) bool { return k.Status == Ignored && !k.Protects })
}

// TestSectionsHaveAllKeys: no key that zkd honours is missing in the page, or twice in it.
func TestSectionsHaveAllKeys(t *testing.T) {
	times := make(map[string]int)
	for _, s := range sections() {
		for _, k := range s.keys {
			times[k.Name]++
		}
	}
	for _, k := range Keys() {
		if k.Status == Honoured && times[k.Name] != 1 {
			t.Errorf("%s is %d times in the sections of the page", k.Name, times[k.Name])
		}
	}
}

// writeKeys writes the keys that have an effect. Those of one meaning share a row.
func writeKeys(w io.Writer, keys []Key, status Status) {
	fmt.Fprintf(w, "| key | default; values | meaning |\n|---|---|---|\n")
	alike := make(map[string][]Key)
	for _, k := range keys {
		if k.Status == status {
			alike[rest(k)] = append(alike[rest(k)], k)
		}
	}
	for _, k := range keys {
		same := alike[rest(k)]
		if k.Status != status || same[0].Name != k.Name {
			continue
		}
		var all []string
		for _, k := range same {
			all = append(all, names(k))
		}
		row := rowOf(k)
		if len(same) > 1 {
			row = rest(k)
		}
		fmt.Fprintf(w, "| %s | %s |\n", strings.Join(all, ", "), row)
	}
}

// rowOf returns the columns of a key that follow its name.
func rowOf(k Key) string {
	doc := k.Doc
	if k.Live {
		doc += " *Live.*"
	}
	return cell(defaultOf(k)) + " | " + cell(doc)
}

// defaultOf returns the default of k and, behind it, the valid values or the unit.
func defaultOf(k Key) string {
	valid := values(k)
	switch {
	case k.Default == "" || valid == "":
		return code(k.Default) + valid
	case valid == k.Unit():
		return code(k.Default) + " " + valid
	default:
		return code(k.Default) + "; " + valid
	}
}

// rest is rowOf without the prefixes of the settings for TLS.
func rest(k Key) string {
	row := rowOf(k)
	for _, prefix := range []string{metricsTLSPrefix, quorumTLSPrefix, clientTLSPrefix} {
		if strings.HasPrefix(strings.TrimPrefix(k.Name, "zkd."), prefix) {
			return strings.ReplaceAll(strings.ReplaceAll(row, "zkd."+prefix, ""), prefix, "")
		}
	}
	return row
}

// writeGroups writes the keys without effect, by their reason.
func writeGroups(w io.Writer, title, intro string, belongs func(Key) bool) {
	fmt.Fprintf(w, "\n## %s\n\n%s\n\n| reason | keys |\n|---|---|\n", title, intro)
	var reasons []string
	keys := make(map[string][]string)
	for _, k := range Keys() {
		if !belongs(k) {
			continue
		}
		if !slices.Contains(reasons, k.Doc) {
			reasons = append(reasons, k.Doc)
		}
		keys[k.Doc] = append(keys[k.Doc], names(k))
	}
	for _, reason := range reasons {
		fmt.Fprintf(w, "| %s | %s |\n", cell(reason), strings.Join(keys[reason], ", "))
	}
}

// values returns the valid values of k, and their unit, without what the introduction says of all keys.
func values(k Key) string {
	v, _, _ := strings.Cut(k.Allowed(), " (")
	v = strings.TrimPrefix(strings.TrimPrefix(v, "a number from "), "one of ")
	switch v {
	case "text", "true or false", "yes or no":
		return ""
	case "a host name or an IP address":
		return "a host"
	case "-1 to 65535", "0 to 65535": // of ports
		return ""
	case "the path of a file or directory":
		return "a path"
	case "words with commas between them":
		return "a list with commas"
	}
	for _, kind := range []string{"paths", "addresses", "a URL", "an address"} {
		if strings.HasPrefix(v, kind+" such as ") {
			return kind
		}
	}
	if strings.HasPrefix(v, "a regular expression") {
		return "a regular expression of Go's"
	}
	for _, most := range []string{"2147483647", "9223372036854775807", "9007199254740991"} {
		least, ok := strings.CutSuffix(v, " to "+most)
		switch {
		case ok && (least == "1" || least == "0" || least == "-1"): // the text says what the last two mean
			v = ""
		case ok:
			v = least + " or more"
		}
	}
	return strings.TrimSpace(v + " " + k.Unit())
}

func names(k Key) string {
	all := code(k.Name)
	for _, alias := range k.Aliases {
		all += ", " + code(alias)
	}
	return all
}

func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + s + "`"
}

// cell escapes the characters that would end a cell of a table.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
