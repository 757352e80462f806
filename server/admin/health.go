package admin

import (
	"fmt"
	"net/http"

	"github.com/zkd-project/zkd/server/show"
)

// health answers 200 if the checks of the concern pass, and else 503. The answer has the
// reasons of failed checks and all notes, and other checks only with ?verbose.
func (h *handler) health(w http.ResponseWriter, r *http.Request, of show.Concern) {
	failed := 0
	text := ""
	verbose := r.URL.Query().Has("verbose")
	for _, c := range h.Server().Health() {
		switch {
		case c.Concern&of == 0:
		case c.Problem != "":
			failed++
			text += fmt.Sprintf("[-] %s: %s\n", c.Name, c.Problem)
		case c.Note != "":
			text += fmt.Sprintf("[+] %s: ok, but %s\n", c.Name, c.Note)
		case verbose:
			text += fmt.Sprintf("[+] %s: ok\n", c.Name)
		}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	if failed > 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
		text += "not ok\n"
	} else {
		text += "ok\n"
	}
	fmt.Fprint(w, text)
}
