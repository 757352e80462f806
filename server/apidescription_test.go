package server

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"mime"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/internal/testing/seeds"
)

// TestAPIIsAsDescribed sends random requests that are made from the OpenAPI description, with and without mistakes. Each
// answer is one of those that are described, and none is a failure of the server.
func TestAPIIsAsDescribed(t *testing.T) {
	first, statuses := seeds.First(t), make(map[int]int)
	for seed := first; seed < first+2; seed++ {
		synctest.Test(t, func(t *testing.T) {
			s := startOperated(t)
			c := s.caller(t)
			d := &described{caller: c, rnd: rand.New(rand.NewPCG(seed, 1)), statuses: statuses}
			if err := json.Unmarshal(c.want(200, "", "GET", "/v1/openapi.json", "").Body.Bytes(), &d.doc); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				d.tokens = append(d.tokens, c.openSession().Token)
			}
			for range 1000 {
				d.step()
			}
			t.Logf("to seed %d: answers by status: %v", seed, statuses)
			s.noErrors(t)
		})
	}
	for _, status := range []int{200, 201, 400, 403, 404, 409, 410} {
		if statuses[status] == 0 {
			t.Errorf("no request had the status %d", status)
		}
	}
}

type (
	doc       = map[string]any
	described struct {
		*caller
		rnd      *rand.Rand
		doc      doc
		tokens   []string
		statuses map[int]int
	}
)

// within returns what is below some names.
func within(v any, names ...string) any {
	for _, n := range names {
		m, _ := v.(doc)
		v = m[n]
	}
	return v
}

func (d *described) chance(percent int) bool { return d.rnd.IntN(100) < percent }

func pick[T any](rnd *rand.Rand, list []T) T { return list[rnd.IntN(len(list))] }

// step sends a request of a random operation, and checks the answer.
func (d *described) step() {
	paths := within(d.doc, "paths").(doc)
	path := pick(d.rnd, slices.Sorted(maps.Keys(paths)))
	method := pick(d.rnd, slices.Sorted(maps.Keys(paths[path].(doc))))
	op := within(paths, path, method)
	target, header, query := path, http.Header{}, url.Values{}
	params, _ := within(op, "parameters").([]any)
	for _, p := range params {
		name, schema := within(p, "name").(string), within(p, "schema").(doc)
		switch within(p, "in") {
		case "path":
			target = strings.Replace(target, "{"+name+"}", d.inPath(name), 1)
		case "query":
			if d.chance(40) {
				for _, v := range d.values(name, schema) {
					query.Add(name, v)
				}
			}
		case "header":
			if d.chance(30) {
				header.Set(name, d.values(name, schema)[0])
			}
		}
	}
	if accepts := within(op, "responses", "200", "content"); accepts != nil && d.chance(50) {
		header.Set("Accept", pick(d.rnd, append(slices.Sorted(maps.Keys(accepts.(doc))), "text/html,*/*;q=0.5", "image/png")))
	}
	if operation := strings.Split(strings.Split(path, "{")[0], "/")[2]; slices.Contains(operations, operation) && d.chance(70) {
		header.Set("Authorization", super)
	}
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	d.check(strings.ToUpper(method), target, op, header, d.body(op))
}

// operations are first names of the paths of what operators do.
var operations = []string{"configuration", "members", "leader", "drain", "audit"}

func (d *described) inPath(name string) string {
	if name == "key" {
		return pick(d.rnd, []string{"snapCount", "snapCount", "maxCnxnz", "tickTime", "zkd.limit.a", "%00", "zkd.limit.*"})
	}
	if name == "id" {
		if d.chance(50) {
			b, _ := base64.RawURLEncoding.DecodeString(pick(d.rnd, d.tokens))
			return "0x" + strings.TrimLeft(fmt.Sprintf("%x", b[:8]), "0")
		}
		return pick(d.rnd, []string{"0x1", "x", "%00", "0x0"})
	}
	return d.znode()[1:]
}

func (d *described) znode() string {
	return pick(d.rnd, []string{"/a", "/a", "/a/b", "/a/b/c", "/b", "/é%20", "/", "/zookeeper/config", "/zookeeper/quota", "/a/", "//", "/%00", "/a/../b", "/%ff"})
}

// values returns values for a parameter, which are mostly as its schema wants.
func (d *described) values(name string, schema doc) []string {
	switch {
	case d.chance(5):
		return []string{pick(d.rnd, []string{"", "x", "-1", "\x00", "9999999999999999999"})}
	case schema["enum"] != nil:
		return []string{pick(d.rnd, schema["enum"].([]any)).(string)}
	case schema["type"] == "integer":
		least, most := schema["minimum"].(float64), schema["maximum"].(float64)
		return []string{fmt.Sprint(int64(pick(d.rnd, []float64{least, most, min(most, least+float64(d.rnd.IntN(20)))})))}
	}
	return map[string][]string{
		"X-Session": {pick(d.rnd, d.tokens)}, "X-Zxid": {fmt.Sprintf("0x%x", d.rnd.IntN(200))}, "Idempotency-Key": {fmt.Sprint(1 + d.rnd.IntN(9))}, "If-Match": {pick(d.rnd, []string{"*", `"0"`, `"1"`})},
		"Range": {pick(d.rnd, []string{"bytes=0-1", "bytes=1-", "bytes=-1", "bytes=5-2", "bytes=0-1,2-3", "lines=1-2", "bytes=99-"})},
		"name":  {pick(d.rnd, []string{"a", "^b$", "(", "."})}, "data": {pick(d.rnd, []string{"x", "^$"})},
		"acl":   {pick(d.rnd, []string{"world:anyone:cdrwa", "world:anyone:r", "digest:x:rw", "ip:192.0.2.1:cdrwa", "world:anyone"}), "auth::cdrwa"},
		"after": {pick(d.rnd, []string{"", "a", "0x1", "ffff"})}, "path": {pick(d.rnd, []string{"/", "/a", "a"})}, "Last-Event-ID": {"0x1"},
	}[name]
}

// body returns a body for an operation: a record as described, or bytes.
func (d *described) body(op any) string {
	schema, _ := within(op, "requestBody", "content", "application/json", "schema").(doc)
	if schema == nil {
		return strings.Repeat("x", d.rnd.IntN(8))
	}
	if d.chance(5) {
		return pick(d.rnd, []string{"", "{", "[]", "null", `{"x":1}`, `{"ops":null}{}`})
	}
	text, _ := json.Marshal(d.value(schema, "", 0))
	return string(text)
}

func (d *described) resolve(schema doc) doc {
	if ref, ok := schema["$ref"].(string); ok {
		return within(d.doc, strings.Split(ref, "/")[1:]...).(doc)
	}
	return schema
}

// value returns a random value of a schema.
func (d *described) value(schema doc, name string, depth int) any {
	schema = d.resolve(schema)
	switch {
	case name == "path":
		return d.znode()
	case name == "perms":
		return pick(d.rnd, []string{"cdrwa", "r", "", "x"})
	case name == "scheme":
		return pick(d.rnd, []string{"world", "ip", "digest", "nosuch"})
	case name == "id":
		return pick(d.rnd, []string{"anyone", "192.0.2.1", "u:h"})
	case schema["enum"] != nil:
		return pick(d.rnd, schema["enum"].([]any))
	case schema["contentEncoding"] != nil:
		return base64.StdEncoding.EncodeToString(make([]byte, d.rnd.IntN(4)))
	case schema["type"] == "integer":
		return d.rnd.IntN(4) - 1
	case schema["type"] == "array":
		list := []any{}
		for range d.rnd.IntN(4) {
			list = append(list, d.value(schema["items"].(doc), "", depth+1))
		}
		return list
	case schema["type"] == "object":
		out := doc{}
		required, _ := schema["required"].([]any)
		properties := schema["properties"].(doc)
		for _, p := range slices.Sorted(maps.Keys(properties)) {
			if slices.Contains(required, any(p)) || d.chance(30) && depth < 3 {
				out[p] = d.value(properties[p].(doc), p, depth+1)
			}
		}
		return out
	}
	return "x"
}

// check sends a request, and compares the answer with the description.
func (d *described) check(method, target string, op any, header http.Header, body string) {
	ctx, cancel := context.WithTimeout(d.t.Context(), time.Second) // ends a feed
	defer cancel()
	u, err := url.Parse(target)
	if err != nil {
		return // no client sends it
	}
	r := httptest.NewRequestWithContext(ctx, method, "http://localhost", strings.NewReader(body))
	r.URL, r.Header = u, header
	w := httptest.NewRecorder()
	d.pages.ServeHTTP(w, r)
	d.statuses[w.Code]++
	fail := func(format string, args ...any) {
		d.t.Errorf("%s %s %v %q: %d: %s\n%v\n%.1000s", method, target, header, body, w.Code, fmt.Sprintf(format, args...), w.Header(), w.Body)
	}
	response, ok := within(op, "responses", fmt.Sprint(w.Code)).(doc)
	if !ok || w.Code >= 500 {
		fail("not as described")
		return
	}
	headers, _ := response["headers"].(doc)
	for name, h := range headers {
		if within(h, "required") == true && w.Header().Get(name) == "" {
			fail("without the header %s", name)
		}
	}
	content, _ := response["content"].(doc)
	mediaType, _, _ := mime.ParseMediaType(w.Header().Get("Content-Type"))
	if content == nil {
		if w.Body.Len() > 0 && method != http.MethodHead {
			fail("with a body")
		}
		return
	}
	of, ok := content[mediaType].(doc)
	if !ok {
		fail("of the type %q", mediaType)
		return
	}
	schema, _ := of["schema"].(doc)
	if !strings.Contains(mediaType, "json") {
		return
	}
	for line := range bytes.Lines(w.Body.Bytes()) {
		var v any
		if mediaType == "application/json" {
			line = w.Body.Bytes()
		}
		if err := json.Unmarshal(line, &v); err != nil {
			fail("%v", err)
		} else if problem := d.differs(v, schema, "answer"); problem != "" {
			fail("%s", problem)
		}
		if mediaType == "application/json" {
			break
		}
	}
}

// differs returns how a value is not one of the schema, or "".
func (d *described) differs(v any, schema doc, where string) string {
	schema = d.resolve(schema)
	if enum, ok := schema["enum"].([]any); ok && !slices.Contains(enum, v) {
		return fmt.Sprintf("%s is %v", where, v)
	}
	switch v := v.(type) {
	case doc:
		if schema["type"] != "object" {
			return where + " is an object"
		}
		for _, name := range listOf(schema["required"]) {
			if _, ok := v[name.(string)]; !ok {
				return fmt.Sprintf("%s lacks %s", where, name)
			}
		}
		for name, field := range v {
			p, ok := within(schema, "properties", name).(doc)
			if !ok && schema["additionalProperties"] == false {
				return fmt.Sprintf("%s has %s", where, name)
			}
			if problem := d.differs(field, p, where+"."+name); ok && problem != "" {
				return problem
			}
		}
	case []any:
		if schema["type"] != "array" {
			return where + " is an array"
		}
		for i, e := range v {
			if problem := d.differs(e, schema["items"].(doc), fmt.Sprintf("%s[%d]", where, i)); problem != "" {
				return problem
			}
		}
	default:
		name := map[string]string{"string": "string", "float64": "integer", "bool": "boolean", "<nil>": "null"}[fmt.Sprintf("%T", v)]
		if schema["type"] == "number" {
			name = strings.ReplaceAll(name, "integer", "number")
		}
		if schema["type"] != name && !slices.Contains(listOf(schema["type"]), any(name)) {
			return fmt.Sprintf("%s is %v, of the type %s", where, v, name)
		}
	}
	return ""
}

func listOf(v any) []any {
	list, _ := v.([]any)
	return list
}
