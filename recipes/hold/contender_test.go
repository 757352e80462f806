package hold_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/recipes/hold"
	"github.com/zkd-project/zkd/recipes/internal/trial"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Contenders returns the places of any library, and nothing else.
func TestContendersOfAnything(t *testing.T) {
	w := trial.New(t)
	_, err := hold.Contenders(w.Ctx, w.C, "/l")
	if !errors.Is(err, client.ErrNoNode) {
		t.Errorf("contenders of no path: %v", err)
	}
	for _, name := range []string{"readme", "n_0000000003", "_c_1-latch-0000000001", "-__READ__-2147483648", "_c_2-lock-0000000002"} {
		_, err := settle.CreateAll(w.Ctx, w.Look, "/l/"+name, nil, client.CreateOptions{})
		w.Must(err)
	}
	list, err := hold.Contenders(w.Ctx, w.C, "/l")
	w.Must(err)
	var names []string
	for _, who := range list {
		names = append(names, strings.TrimPrefix(who.Path, "/l/"))
		if who.Session != 0 {
			t.Errorf("%s has session %v", who.Path, who.Session)
		}
	}
	if want := []string{"_c_1-latch-0000000001", "_c_2-lock-0000000002", "n_0000000003", "-__READ__-2147483648"}; !slices.Equal(names, want) {
		t.Errorf("order is %q, want %q", names, want)
	}
}

// The numbers that come after 2^31-1 have a sign, which is told from the hyphen of a label.
func TestContendersWhereNumbersWrapAround(t *testing.T) {
	w := trial.New(t)
	w.Must(settle.Ensure(w.Ctx, w.C, "/locks", client.CreateOptions{}))
	for _, label := range []string{"_c_5f1d3c7a-lock-", "5f1d__lock__", "n_"} {
		w.Must(settle.Ensure(w.Ctx, w.C, "/locks/"+label, client.CreateOptions{}))
		var want []string
		for _, number := range []string{"2147483646", "-2147483647", "-1000000001"} {
			want = append(want, "/locks/"+label+"/"+label+number)
		}
		for _, path := range []string{want[2], want[0], want[1]} {
			_, err := w.C.Create(w.Ctx, path, nil, client.CreateOptions{})
			w.Must(err)
		}
		list, err := hold.Contenders(w.Ctx, w.C, "/locks/"+label)
		w.Must(err)
		var got []string
		for _, who := range list {
			got = append(got, who.Path)
		}
		if !slices.Equal(got, want) {
			t.Errorf("contenders are\n%q\nwant\n%q", got, want)
		}
	}
}
