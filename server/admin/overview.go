package admin

import (
	"fmt"
	"html"
	"net/http"
	"strings"
)

// overview is the page at / for people.
func (h *handler) overview(w http.ResponseWriter, _ *http.Request) {
	s := h.Server()
	v := s.View()
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	var b strings.Builder
	b.WriteString("<!doctype html><html lang=en><meta charset=utf-8><title>zkd</title>\n" +
		"<style>body{font:16px/1.5 sans-serif;max-width:50em;margin:2em auto;padding:0 1em}td{padding-right:2em}</style>\n<h1>zkd</h1>\n<table>\n")
	row := func(name, value string) {
		fmt.Fprintf(&b, "<tr><td>%s<td>%s\n", name, html.EscapeString(value))
	}
	row("Version", v.Version)
	if s.Serving() {
		row("Role", v.Mode())
		if v.Standby.Of != "" {
			row("Standby", v.Standby.String())
		}
		row("Last transaction", fmt.Sprintf("0x%x", v.Zxid))
		row("Nodes", fmt.Sprint(v.Tree.Nodes))
		row("Connections", fmt.Sprint(v.Connections))
		row("Latency min/avg/max", fmt.Sprintf("%d/%.4g/%d ms", v.Latency.Min, v.Latency.Avg, v.Latency.Max))
	}
	for _, c := range s.Health() {
		text := "ok"
		switch {
		case c.Problem != "":
			text = "fails: " + c.Problem
		case c.Note != "":
			text = "ok, but " + c.Note
		}
		row("Check of "+html.EscapeString(c.Name), text)
	}
	b.WriteString("</table>\n<h2>Health</h2>\n<ul>\n")
	for _, page := range []string{"/livez", "/readyz", "/healthz?verbose"} {
		fmt.Fprintf(&b, "<li><a href=\"%s\">%s</a>\n", page, page)
	}
	b.WriteString("</ul>\n<h2>Commands</h2>\n<ul>\n")
	for _, c := range h.table {
		switch {
		case c.posted:
			fmt.Fprintf(&b, "<li>%s (POST, with an identity)\n", c.name)
		case c.changes:
			fmt.Fprintf(&b, "<li>%s (with an identity)\n", c.name)
		default:
			fmt.Fprintf(&b, "<li><a href=\"%s/%s\">%s</a>\n", html.EscapeString(h.URL), c.name, c.name)
		}
	}
	b.WriteString("</ul>\n")
	_, _ = w.Write([]byte(b.String()))
}
