package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"
)

// object is one of JSON.
type object map[string]any

// describe returns the OpenAPI description of the endpoints.
func describe(endpoints []endpoint, version string) []byte {
	paths, schemas := object{}, object{}
	for i := range endpoints {
		e := &endpoints[i]
		at, _ := paths[e.path].(object)
		if at == nil {
			at = object{}
			paths[e.path] = at
		}
		at[strings.ToLower(e.method)] = e.describe(schemas)
	}
	refer[Problem](schemas)
	text, err := json.MarshalIndent(object{
		"openapi": "3.1.0",
		"info": object{"title": "zkd", "version": version,
			"description": "The operations of ZooKeeper over HTTP. In a path, the part {path} is that of the node without its first slash; its slashes may be escaped, or not."},
		"paths": paths,
		"components": object{"schemas": schemas, "securitySchemes": object{
			"token":       object{"type": "http", "scheme": "bearer", "description": "a token of the scheme jwt"},
			"password":    object{"type": "http", "scheme": "basic", "description": "a user and a password of the scheme digest; over TLS only"},
			"certificate": object{"type": "mutualTLS"},
		}},
		"security": []object{{}, {"token": []string{}}, {"password": []string{}}, {"certificate": []string{}}},
	}, "", " ")
	if err != nil {
		panic(err) // it has nothing that can't be encoded
	}
	return append(text, '\n')
}

// describe returns the description of an operation, and adds the schemas that it refers to.
func (e *endpoint) describe(schemas object) object {
	var params []object
	for _, name := range []string{"path", "id", "key"} {
		if strings.Contains(e.path, "{"+name+"}") {
			params = append(params, object{"name": name, "in": "path", "required": true, "schema": object{"type": "string"}})
		}
	}
	for i := range e.params {
		p := &e.params[i]
		params = append(params, object{"name": p.name, "in": p.in, "description": p.doc, "schema": p.schema()})
	}
	responses := object{}
	for i := range e.answers {
		responses[fmt.Sprint(e.answers[i].status)] = e.answers[i].describe(schemas)
	}
	problem := object{"application/problem+json": object{"schema": refer[Problem](schemas)}}
	if e.path == "/v1/feed" {
		problem["text/plain"] = object{"schema": object{"type": "string"}}
	}
	statuses := slices.Concat(always, e.refuses)
	if e.body != nil {
		statuses = append(statuses, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType)
	}
	for i := range e.params {
		statuses = append(statuses, e.params[i].refuses...)
	}
	for _, status := range statuses {
		r := object{"description": http.StatusText(status)}
		if e.method != http.MethodHead {
			r["content"] = problem
		}
		responses[fmt.Sprint(status)] = r
	}
	out := object{"summary": e.doc, "responses": responses, "operationId": e.name()}
	if params != nil {
		out["parameters"] = params
	}
	if e.body != nil {
		out["requestBody"] = object{"content": contents(e.body, schemas)}
	}
	return out
}

// name returns a name of the operation, such as getNodes.
func (e *endpoint) name() string {
	name := strings.ToLower(e.method)
	for part := range strings.SplitSeq(strings.TrimPrefix(e.path, Prefix), "/") {
		if !strings.HasPrefix(part, "{") {
			part, _, _ = strings.Cut(part, ".")
			name += strings.ToUpper(part[:1]) + part[1:]
		}
	}
	return name
}

func (p *param) schema() object {
	s := object{"type": "string"}
	switch {
	case p.choices != nil:
		s["enum"] = p.choices
	case p.most != 0:
		s = object{"type": "integer", "minimum": p.least, "maximum": p.most}
	case p.pattern != "":
		s["pattern"] = p.pattern
	}
	if p.many {
		s = object{"type": "array", "items": s}
	}
	return s
}

func (a *answer) describe(schemas object) object {
	headers := object{"X-Zxid": object{"description": "The zxid of the state that the answer shows, if it shows one.", "schema": object{"type": "string"}}}
	names := slices.Clone(a.headers)
	if a.stat {
		names = append(names, "X-Stat-Czxid", "X-Stat-Mzxid", "X-Stat-Pzxid", "X-Stat-Ctime", "X-Stat-Mtime", "X-Stat-Version", "X-Stat-Cversion",
			"X-Stat-Aversion", "X-Stat-Ephemeral-Owner", "X-Stat-Data-Length", "X-Stat-Num-Children")
	}
	for _, name := range names {
		headers[name] = object{"required": true, "schema": object{"type": "string"}}
	}
	out := object{"description": a.doc, "headers": headers}
	if a.content != nil {
		out["content"] = contents(a.content, schemas)
	}
	return out
}

func contents(list []content, schemas object) object {
	out := object{}
	for _, c := range list {
		switch {
		case c.record != nil:
			out[c.mediaType] = object{"schema": referTo(c.record, schemas)}
		case c.mediaType == jsonType:
			out[c.mediaType] = object{"schema": object{"type": "object"}}
		case strings.HasPrefix(c.mediaType, "text/"):
			out[c.mediaType] = object{"schema": object{"type": "string"}}
		default:
			out[c.mediaType] = object{}
		}
	}
	return out
}

func refer[T any](schemas object) object { return referTo(reflect.TypeFor[T](), schemas) }

// referTo refers to the schema of a record, and adds that if it is not there.
func referTo(t reflect.Type, schemas object) object {
	if schemas[t.Name()] == nil {
		s := object{}
		schemas[t.Name()] = s // before its fields, which may refer to it
		properties, required := object{}, []string{}
		for i := range t.NumField() {
			f := t.Field(i)
			if !f.IsExported() {
				continue
			}
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			p := schemaOf(f.Type, schemas)
			if doc := f.Tag.Get("doc"); doc != "" {
				p["description"] = doc
			}
			if enum := f.Tag.Get("enum"); enum != "" {
				p["enum"] = strings.Fields(enum)
			}
			if pattern := f.Tag.Get("pattern"); pattern != "" {
				p["pattern"] = pattern
			}
			properties[name] = p
			if options != "omitempty" {
				required = append(required, name)
			}
		}
		s["type"], s["properties"], s["additionalProperties"] = "object", properties, false
		if len(required) > 0 {
			s["required"] = required
		}
	}
	return object{"$ref": "#/components/schemas/" + t.Name()}
}

// schemaOf returns the schema of a field.
func schemaOf(t reflect.Type, schemas object) object {
	switch {
	case t.Kind() == reflect.Pointer:
		return schemaOf(t.Elem(), schemas)
	case t == reflect.TypeFor[[]byte]():
		return object{"type": []string{"string", "null"}, "contentEncoding": "base64"}
	case t.Kind() == reflect.Slice:
		return object{"type": "array", "items": schemaOf(t.Elem(), schemas)}
	case t == reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case t.Kind() == reflect.Struct:
		return referTo(t, schemas)
	case t.Kind() == reflect.Bool:
		return object{"type": "boolean"}
	case t.Kind() == reflect.String:
		return object{"type": "string"}
	}
	if t.Kind() == reflect.Float64 {
		return object{"type": "number"}
	}
	return object{"type": "integer"}
}
