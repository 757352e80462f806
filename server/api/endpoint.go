package api

import (
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// endpoint is a row of the table.
type endpoint struct {
	method  string
	path    string // {path}, {id}, {key} and {name} stand for its end; that of a node has any number of slashes
	doc     string
	params  []param
	body    []content // which bodies it takes; none for nil
	answers []answer
	// operates means that it is about the servers themselves.
	operates bool
	// writes means that it becomes a write of the protocol, which a server that only reads refuses and audits itself.
	writes  bool
	refuses []int // the statuses of its problems, besides those that each endpoint has
	serve   func(*call) error
}

// changes reports whether it changes something.
func (e *endpoint) changes() bool { return e.method != http.MethodGet && e.method != http.MethodHead }

// param is a parameter in the query or a header.
type param struct {
	in, name, doc string
	// pattern is for a text, choices are for one of several words, and most is for a number from least to it.
	pattern     string
	form        *regexp.Regexp // pattern
	choices     []string
	least, most int64
	many        bool  // it may come several times
	refuses     []int // the statuses of problems that come of it
}

// answer is one of success.
type answer struct {
	status  int
	doc     string
	headers []string // of headers, without X-Zxid
	stat    bool     // it has the headers of a Stat
	content []content
}

// content is a media type with the record that it has; nil means bytes or text.
type content struct {
	mediaType string
	record    reflect.Type
}

// inJSON is a record in JSON.
func inJSON[T any]() []content { return []content{{"application/json", reflect.TypeFor[T]()}} }

// matches reports whether the path of a request is that of the endpoint, and returns what the placeholder stands for.
func (e *endpoint) matches(path string) (rest string, ok bool) {
	begin, end, holds := strings.Cut(e.path, "{")
	if !holds {
		return "", path == e.path
	}
	_, end, _ = strings.Cut(end, "}")
	if rest, ok = strings.CutPrefix(path, begin); ok {
		rest, ok = strings.CutSuffix(rest, end)
	}
	if !strings.Contains(e.path, "{path}") && (rest == "" || strings.Contains(rest, "/")) {
		return "", false
	}
	return rest, ok
}

// arguments returns the parameters of a request, which it checks.
func (e *endpoint) arguments(r *http.Request) (map[string][]string, error) {
	query := r.URL.Query()
	for name := range query {
		if !slices.ContainsFunc(e.params, func(p param) bool { return p.in == "query" && p.name == name }) {
			return nil, refuse(http.StatusBadRequest, "there is no parameter %q here", name)
		}
	}
	args := make(map[string][]string)
	for i := range e.params {
		p := &e.params[i]
		values := query[p.name]
		if p.in == "header" {
			values = r.Header.Values(p.name)
		}
		if len(values) > 1 && !p.many {
			return nil, refuse(http.StatusBadRequest, "%s comes more than once", p.name)
		}
		for _, v := range values {
			if err := p.check(v); err != nil {
				return nil, err
			}
		}
		args[p.name] = values
	}
	return args, nil
}

// compile prepares the checks of the parameters.
func (e *endpoint) compile() {
	for i := range e.params {
		if p := &e.params[i]; p.pattern != "" {
			p.form = regexp.MustCompile(p.pattern)
		}
	}
}

func (p *param) check(value string) error {
	switch {
	case p.choices != nil:
		if !slices.Contains(p.choices, value) {
			return refuse(http.StatusBadRequest, "%s is one of %s", p.name, strings.Join(p.choices, ", "))
		}
	case p.most != 0:
		if n, err := strconv.ParseInt(value, 10, 64); err != nil || n < p.least || n > p.most {
			return refuse(http.StatusBadRequest, "%s is a number from %d to %d", p.name, p.least, p.most)
		}
	case p.pattern != "":
		if !p.form.MatchString(value) {
			return refuse(http.StatusBadRequest, "%s is not of the form %s", p.name, p.pattern)
		}
	}
	return nil
}
