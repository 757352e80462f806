package server

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/jute"
)

// TestDashboardAndAlertsNameMetrics checks that the files of deploy name only metrics that
// servers show, and that alerts refer to sections of the documentation. What the alerts do is
// tested in deploy/prometheus.
func TestDashboardAndAlertsNameMetrics(t *testing.T) {
	known := shownNames(t)
	for _, m := range []string{"up", "process_cpu_seconds_total", "process_resident_memory_bytes", "zkd_tls_certificate_not_after_seconds", "zkd_tls_reload_failing", "zkd_peer_certificate_not_after_seconds",
		"zkd_standby_follows", "zkd_standby_refused", "zkd_standby_lag_seconds"} {
		known[m] = true // of Prometheus, of the process, of TLS, and of standbys
	}
	exprs := append(dashboardExprs(t), alertExprs(t)...)
	if len(exprs) < 50 {
		t.Errorf("only %d expressions found", len(exprs))
	}
	for _, e := range exprs {
		for _, name := range metricsIn(e) {
			if !known[name] {
				t.Errorf("%s: no server shows %s", e, name)
			}
		}
	}
}

// shownNames returns the names of the series of a leader and of its followers.
func shownNames(t *testing.T) map[string]bool {
	names := make(map[string]bool)
	inBubble(t, 3, []string{"audit.enable=true", "zkd.audit.file=" + auditFile}, func(t *testing.T, e *testEnsemble) {
		c := e.servers[e.follower()].connect(t)
		c.create("/a", "1")
		c.ok(jute.OpGetData, &jute.PathWatchRequest{Path: "/a"})
		e.settled()
		for _, s := range e.servers[1:] {
			families, err := s.registry.Gather()
			if err != nil {
				t.Error(err)
			}
			for _, f := range families {
				names[f.GetName()] = true
				for _, suffix := range []string{"_sum", "_count", "_bucket"} {
					if f.GetMetric()[0].Histogram != nil || f.GetMetric()[0].Summary != nil && suffix != "_bucket" {
						names[f.GetName()+suffix] = true
					}
				}
			}
		}
	})
	return names
}

func dashboardExprs(t *testing.T) (list []string) {
	text, err := os.ReadFile("../deploy/grafana/zkd.json")
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Panels []struct {
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	for _, p := range d.Panels {
		for _, x := range p.Targets {
			list = append(list, x.Expr)
		}
	}
	return list
}

func alertExprs(t *testing.T) (list []string) {
	text, err := os.ReadFile("../deploy/prometheus/rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "expr":
			list = append(list, value)
		case "runbook_url":
			checkSection(t, value)
		}
	}
	return list
}

// checkSection checks that a section of a page of docs exists.
func checkSection(t *testing.T, url string) {
	file, anchor, _ := strings.Cut(strings.TrimPrefix(url, "https://github.com/zkd-project/zkd/blob/main/"), "#")
	page, err := os.ReadFile("../" + file)
	if err != nil {
		t.Error(err)
	}
	for line := range strings.Lines(string(page)) {
		title := strings.TrimLeft(strings.TrimSpace(line), "#")
		if strings.HasPrefix(line, "#") && strings.ReplaceAll(strings.ToLower(strings.TrimSpace(title)), " ", "-") == anchor {
			return
		}
	}
	t.Errorf("%s: there is no such section", url)
}

var (
	notMetrics = regexp.MustCompile(`\{[^}]*\}|\[[^\]]*\]|"[^"]*"|\b(?:by|on|without) *\([^)]*\)`)
	identifier = regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*\b *\(?`)
)

// metricsIn returns the names of the metrics in an expression.
func metricsIn(expr string) (names []string) {
	for _, name := range identifier.FindAllString(notMetrics.ReplaceAllString(expr, " "), -1) {
		switch strings.TrimSpace(name) {
		case "and", "or", "unless", "by", "without", "on":
		default:
			if !strings.HasSuffix(name, "(") { // a function
				names = append(names, strings.TrimSpace(name))
			}
		}
	}
	return names
}
