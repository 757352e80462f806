package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Prefix is that of the paths of all pages.
const Prefix = "/console/"

//go:embed assets
var assets embed.FS

// Options configure a Handler.
type Options struct {
	// Check refuses requests that another page may have made a browser send.
	Check func(r *http.Request) error
	// Commands is the path of the AdminServer's commands.
	Commands string
	// Version is that of the server.
	Version string
	// ReadOnly pages offer no edits, and nothing that only a member of an ensemble has.
	ReadOnly bool
	// Standby pages are ReadOnly ones, of a standby.
	Standby bool
}

// policy is what the browser may do for the pages: no script but ours, nothing from elsewhere, and no text that becomes markup.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"frame-ancestors 'none'; base-uri 'none'; form-action 'self'; require-trusted-types-for 'script'; trusted-types 'none'"

// types are the media types of files by their extensions. Those that a system has may be others.
var types = map[string]string{".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}

// file is a file as it is sent.
type file struct {
	mediaType    string
	plain, small []byte // small is plain by gzip
}

// Handler returns the pages.
func Handler(o Options) http.Handler {
	h := &handler{check: o.Check, files: make(map[string]*file)}
	sum := sha256.New()
	entries, err := assets.ReadDir("assets")
	if err != nil {
		panic(err) // they are in the program
	}
	var shell string
	for _, e := range entries {
		text, err := assets.ReadFile("assets/" + e.Name())
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(sum, "%s %d\n%s", e.Name(), len(text), text)
		if e.Name() == "index.html" {
			shell = string(text)
			continue
		}
		h.files[e.Name()] = newFile(types[path.Ext(e.Name())], text)
	}
	h.hash = fmt.Sprintf("%x", sum.Sum(nil)[:6])
	first, rest := h.modules()
	var page bytes.Buffer
	if err := template.Must(template.New("").Parse(shell)).Execute(&page, map[string]any{"Assets": Prefix + h.hash, "First": first, "Rest": rest, "Commands": o.Commands, "Version": o.Version, "ReadOnly": o.ReadOnly || o.Standby, "Standby": o.Standby}); err != nil {
		panic(err)
	}
	h.page = newFile("text/html; charset=utf-8", page.Bytes())
	return h
}

// imported finds the modules that a module needs before it runs.
var imported = regexp.MustCompile(`(?m)^(?:import|export) .* from '\./(.*)';$`)

// modules returns the modules that the first page needs, and the others. A browser that is told of them asks for all of them at once; from
// the modules themselves it would learn of one after the other.
func (h *handler) modules() (first, rest []string) {
	first = []string{"app.js"}
	for i := 0; i < len(first); i++ {
		for _, m := range imported.FindAllSubmatch(h.files[first[i]].plain, -1) {
			if name := string(m[1]); !slices.Contains(first, name) {
				first = append(first, name)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(h.files)) {
		if path.Ext(name) == ".js" && !slices.Contains(first, name) {
			rest = append(rest, name)
		}
	}
	return first, rest
}

func newFile(mediaType string, text []byte) *file {
	var small bytes.Buffer
	z, _ := gzip.NewWriterLevel(&small, gzip.BestCompression) // the level is valid
	_, _ = z.Write(text)                                      // a buffer takes all
	_ = z.Close()
	return &file{mediaType, text, small.Bytes()}
}

type handler struct {
	check func(r *http.Request) error
	hash  string
	page  *file
	files map[string]*file // by name
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	out := w.Header()
	out.Set("Content-Security-Policy", policy)
	out.Set("X-Content-Type-Options", "nosniff")
	out.Set("Referrer-Policy", "no-referrer")
	out.Set("Cross-Origin-Opener-Policy", "same-origin")
	out.Set("Cross-Origin-Resource-Policy", "same-origin")
	if err := h.check(r); err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		out.Set("Allow", "GET, HEAD")
		http.Error(w, "the methods here are GET and HEAD", http.StatusMethodNotAllowed)
		return
	}
	at := strings.TrimPrefix(r.URL.Path, Prefix)
	name, ours := strings.CutPrefix(at, h.hash+"/")
	switch f := h.files[name]; {
	case at == "":
		out.Set("Cache-Control", "no-cache")
		h.page.send(w, r)
	case ours && f != nil:
		out.Set("Cache-Control", "public, max-age=31536000, immutable")
		f.send(w, r)
	default:
		http.NotFound(w, r)
	}
}

// send sends a file, by gzip if the browser takes it.
func (f *file) send(w http.ResponseWriter, r *http.Request) {
	text := f.plain
	w.Header().Set("Content-Type", f.mediaType)
	w.Header().Set("Vary", "Accept-Encoding")
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		text = f.small
	}
	w.Header().Set("Content-Length", fmt.Sprint(len(text)))
	_, _ = w.Write(text)
}
