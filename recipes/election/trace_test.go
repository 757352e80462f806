package election_test

import (
	"slices"
	"strings"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/recipes/internal/trial"
)

// awaitWatches waits until n watches have been asked for since the recording was taken.
func awaitWatches(w *trial.World, rec *zktest.Recording, n int) {
	w.Helper()
	awaitTraced(w, rec, n, "watches", func(e zktest.Traced) bool { return e.Watch })
}

// awaitDeletions waits for n events of the deletion of what is at path or begins with it.
func awaitDeletions(w *trial.World, rec *zktest.Recording, n int, path string) {
	w.Helper()
	awaitTraced(w, rec, n, "deletions", func(e zktest.Traced) bool {
		return e.Event == client.EventDeleted && strings.HasPrefix(e.Path, w.Dir()+path)
	})
}

func awaitTraced(w *trial.World, rec *zktest.Recording, n int, what string, fits func(zktest.Traced) bool) {
	w.Helper()
	w.Must(rec.Await(w.Ctx, what, func(zktest.Traced) bool {
		return len(slices.DeleteFunc(rec.All(), func(e zktest.Traced) bool { return !fits(e) })) >= n
	}))
}

// answered returns when all that C has asked for so far was answered, by one more request.
func answered(w *trial.World) {
	w.Helper()
	w.Must(w.C.Sync(w.Ctx, "/answered"))
}

// mustTrace fails unless the recording is that, but for what answered has asked.
func mustTrace(w *trial.World, rec *zktest.Recording, want ...string) {
	w.Helper()
	got := slices.DeleteFunc(w.Trace(rec), func(line string) bool { return line == "sync /answered" })
	if !slices.Equal(got, want) {
		w.Errorf("trace is\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}
