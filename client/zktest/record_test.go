package zktest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
)

func TestRecording(t *testing.T) {
	srv := zktest.Start(t)
	c := srv.Client(t)
	rec := srv.Record()
	ctx := t.Context()
	if _, err := c.Create(ctx, "/a", nil, client.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	node, err := c.GetW(ctx, "/a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Multi(ctx, client.CheckOp("/a", 0), client.SetOp("/a", nil, 0)); err != nil {
		t.Fatal(err)
	}
	if _, err := node.Watch.Next(ctx); err != nil {
		t.Fatal(err)
	}
	if err := rec.Await(ctx, "the event", func(r zktest.Traced) bool { return r.Op == 0 }); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Children(ctx, "/"); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range rec.Take() {
		got = append(got, fmt.Sprint(r))
	}
	want := strings.Split("create /a, getData /a watch, multi /a, multi /a, event NodeDataChanged /a, getChildren2 /", ", ")
	slices.Sort(got[2:5]) // the event is before or after the multi, as the server likes
	slices.Sort(want[2:5])
	if !slices.Equal(got, want) || len(rec.All()) != 0 {
		t.Errorf("recorded %q, want %q", got, want)
	}
}
