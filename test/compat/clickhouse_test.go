//go:build compat

package compat

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/zkd-project/zkd/internal/testing/freeport"
)

const (
	clickhouseServer   = "/usr/sbin/clickhouse-server"
	clickhouseDeadline = time.Minute
)

// clickhouseFile is a replica's configuration; its users are in the same file.
var clickhouseFile = template.Must(template.New("").Parse(`<yandex>
<logger><level>information</level><console>1</console></logger>
<listen_host>127.0.0.1</listen_host>
<http_port>{{.HTTP}}</http_port><tcp_port>{{.TCP}}</tcp_port>
<interserver_http_port>{{.Interserver}}</interserver_http_port><interserver_http_host>127.0.0.1</interserver_http_host>
<path>{{.Dir}}/data/</path><tmp_path>{{.Dir}}/tmp/</tmp_path><user_files_path>{{.Dir}}/files/</user_files_path>
<users_config>{{.Dir}}/config.xml</users_config>
<default_profile>default</default_profile><default_database>default</default_database>
<mark_cache_size>16777216</mark_cache_size>
<zookeeper>{{range .Ensemble}}<node><host>{{.Host}}</host><port>{{.Port}}</port></node>{{end}}
<session_timeout_ms>10000</session_timeout_ms></zookeeper>
<macros><replica>{{.Name}}</replica></macros>
<profiles><default><max_threads>2</max_threads></default></profiles>
<quotas><default></default></quotas>
<users><default><password></password><networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota></default></users>
</yandex>
`))

type clickhouseNode struct{ Host, Port string }

// clickhouse is one ClickHouse server, a replica of the table entries.
type clickhouse struct {
	*server
	t                      *testing.T
	Name, Dir              string
	HTTP, TCP, Interserver int
	Ensemble               []clickhouseNode
}

func needClickHouse(t testing.TB) {
	t.Helper()
	require(t, need{clickhouseServer, "clickhouse-server"})
}

// newClickHouse starts a replica that uses the servers at hosts, and makes its table.
func newClickHouse(t *testing.T, name, hosts string) *clickhouse {
	t.Helper()
	ports := freeport.For(t, 3)
	c := &clickhouse{t: t, Name: name, Dir: serverDir(t), HTTP: ports[0], TCP: ports[1], Interserver: ports[2]}
	for addr := range strings.SplitSeq(hosts, ",") {
		host, port, _ := strings.Cut(addr, ":")
		c.Ensemble = append(c.Ensemble, clickhouseNode{host, port})
	}
	var text strings.Builder
	if err := clickhouseFile.Execute(&text, c); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(c.Dir, "config.xml")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	c.server = &server{dir: c.Dir, args: []string{clickhouseServer, "--config-file", file}}
	if err := c.launch(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.kill)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of ClickHouse %s ends:\n%s", name, tail(c.logFile(), 40))
		}
	})
	if err := c.waitFor("serving", func() bool { _, err := c.query("select 1"); return err == nil }); err != nil {
		t.Fatalf("ClickHouse %s: %v", name, err)
	}
	c.await("create the table", func() error {
		_, err := c.query("create table if not exists entries (n UInt64) engine = ReplicatedMergeTree('/clickhouse/entries', '{replica}') order by n")
		return err
	})
	return c
}

// query runs a statement and returns its output.
func (c *clickhouse) query(statement string) (string, error) {
	client := http.Client{Timeout: time.Minute}
	resp, err := client.Post(fmt.Sprintf("http://127.0.0.1:%d/", c.HTTP), "text/plain", strings.NewReader(statement))
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, text)
	}
	return strings.TrimSpace(string(text)), err
}

// await repeats f until it succeeds.
func (c *clickhouse) await(what string, f func() error) {
	c.t.Helper()
	poll := time.NewTicker(100 * time.Millisecond)
	defer poll.Stop()
	deadline := time.Now().Add(clickhouseDeadline)
	for {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("ClickHouse %s: %s: %v", c.Name, what, err)
		}
		<-poll.C
	}
}

// insertions are inserts of one row each. One that failed is repeated: ClickHouse notes a hash of
// each insert in the ensemble, and does not do the same one twice.
type insertions struct {
	rows, failures int
	last           time.Time     // when the last one was acknowledged
	gap            time.Duration // the longest time between two acknowledgements
	failure        error         // the last one
}

// insertMore waits until inserts succeed again.
func (c *clickhouse) insertMore(in *insertions) {
	c.t.Helper()
	before := in.rows
	c.await("insert again", func() error {
		c.insertWhile(in, func() {})
		if in.rows == before {
			return in.failure
		}
		return nil
	})
}

// insertWhile inserts rows until f returns.
func (c *clickhouse) insertWhile(in *insertions, f func()) {
	c.t.Helper()
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			if _, err := c.query(fmt.Sprintf("insert into entries values (%d)", in.rows)); err != nil {
				in.failures, in.failure = in.failures+1, err
			} else {
				if in.rows > 0 {
					in.gap = max(in.gap, time.Since(in.last))
				}
				in.rows++
				in.last = time.Now()
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	defer func() { // also when f ends the test
		close(stop)
		<-done
	}()
	f()
}

// checkRows waits until the replica has each row that was inserted, and, unless the rows were inserted
// here, once: what a failed insert has written stays in its replica for five minutes, until ClickHouse
// looks whether the ensemble knows of it.
func (c *clickhouse) checkRows(in *insertions, here bool) {
	c.t.Helper()
	c.await("has all rows", func() error {
		text, err := c.query("select count(), uniqExact(n), max(n) from entries")
		if err != nil {
			return err
		}
		var count, distinct, highest int
		if _, err := fmt.Sscan(text, &count, &distinct, &highest); err != nil {
			return err
		}
		// The last insert may have been done although it failed.
		if count > in.rows && highest == in.rows {
			count, distinct = count-1, distinct-1
		}
		if distinct != in.rows || count != in.rows && !here {
			return fmt.Errorf("%d rows, %d different ones, of %d", count, distinct, in.rows)
		}
		return nil
	})
}

var lostConnection = regexp.MustCompile(`(?i)session (has )?expired|connection loss|zookeeper.*(exception|error)`)

// complaints returns the lines of the log about a lost connection to the ensemble.
func (c *clickhouse) complaints() []string { return linesOf(c.t, c.logFile(), lostConnection) }
