//go:build compat

package compat

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/internal/testing/freeport"
)

// TestAdmin39 compares the names and types of what the commands of the two AdminServers show,
// while a session has an ephemeral and a watch.
func TestAdmin39(t *testing.T) {
	var pages [2]string
	for i, k := range []kind{apache39, zkd} {
		port := freeport.For(t, 1)[0]
		s := start(t, k, config{lines: []string{"admin.enableServer=true", "admin.serverAddress=127.0.0.1", fmt.Sprintf("admin.serverPort=%d", port)}})
		pages[i] = fmt.Sprintf("http://127.0.0.1:%d/commands", port)
		c, err := client.Connect(t.Context(), s.addr, client.Options{Timeout: 30 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close(context.Background()) })
		if _, err := c.Create(t.Context(), "/e", nil, client.CreateOptions{Mode: client.Ephemeral}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.GetW(t.Context(), "/e"); err != nil {
			t.Fatal(err)
		}
	}
	for _, page := range []string{"/ruok", "/nothing", "/snapshot"} {
		reference, got := adminHead(t, pages[0]+page), adminHead(t, pages[1]+page)
		if got != reference {
			t.Errorf("%s: got %q, want %q", page, got, reference)
		}
	}
	names := adminCommands(t, pages[0])
	ours := adminCommands(t, pages[1])
	for _, name := range names {
		switch name {
		case "system_properties": // of Java
			continue
		case "restore", "snapshot": // need an operator, and files of their own
			if !slices.Contains(ours, name) {
				t.Errorf("%s is missing", name)
			}
			continue
		case "set_trace_mask":
			name += "?traceMask=306"
		}
		reference, got := adminAnswer(t, pages[0]+"/"+name), adminAnswer(t, pages[1]+"/"+name)
		if name == "monitor" || name == "environment" { // not all of Apache's: see docs/metrics.md
			for key, kind := range reference {
				if is, there := got[key]; there && is != kind {
					t.Errorf("%s: %s is a %v, and a %v in Apache's server", name, key, is, kind)
				}
			}
			continue
		}
		if !reflect.DeepEqual(got, reference) {
			t.Errorf("%s: got  %v\nwant %v", name, got, reference)
		}
	}
}

// adminCommands returns the commands that the page of an AdminServer has links to.
func adminCommands(t *testing.T, page string) (names []string) {
	t.Helper()
	for _, m := range regexp.MustCompile(`/commands/(\w+)"`).FindAllStringSubmatch(adminText(t, page), -1) {
		names = append(names, m[1])
	}
	if len(names) < 20 {
		t.Fatalf("%s has links to %q only", page, names)
	}
	return names
}

// adminHead returns the status, type and text of a page, and whether the connection ends. Of the header, Apache's
// server also has the name of its web server; the text of zkd's ends with a newline.
func adminHead(t *testing.T, page string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, page, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s, %s, close %t: %s", resp.Status, resp.Header.Get("Content-Type"), resp.Close, strings.TrimSpace(string(text)))
}

// adminText asks as the super user, of whom zkd's server demands it for changes.
func adminText(t *testing.T, page string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, page, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "digest super:secret")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v: %s", page, resp.Status, err, text)
	}
	return string(text)
}

func adminAnswer(t *testing.T, page string) map[string]any {
	t.Helper()
	var answer map[string]any
	if err := json.Unmarshal([]byte(adminText(t, page)), &answer); err != nil {
		t.Fatalf("%s: %v", page, err)
	}
	return shapeOf(answer).(map[string]any)
}

// shapeOf replaces what a value of JSON has by its types. Of a list it keeps the first element;
// ids and times that are keys are all the same.
func shapeOf(v any) any {
	switch v := v.(type) {
	case map[string]any:
		shape := make(map[string]any)
		for key, value := range v {
			if strings.Trim(key, "0123456789") == "" {
				key = "number"
			}
			s := shapeOf(value)
			if list, ok := s.([]any); ok && len(list) == 0 && key == "number" {
				continue // a time at which no session expires
			}
			shape[key] = s
		}
		return shape
	case []any:
		if len(v) == 0 {
			return v
		}
		return []any{shapeOf(v[0])}
	}
	return fmt.Sprintf("%T", v)
}
