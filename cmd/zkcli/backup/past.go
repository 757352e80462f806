package backup

import (
	"context"
	"fmt"
	"os"

	"github.com/zkd-project/zkd/server/archive"
	"github.com/zkd-project/zkd/server/history"
)

// StateAt returns the state at a moment in an archive, or that of one backup in a file. getenv and report are as for Storage.
func StateAt(ctx context.Context, from string, getenv func(string) string, report func(string, ...any), at history.Moment) (*archive.Found, error) {
	s, err := Storage(ctx, from, getenv, report)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(from)
	_, local := s.(archive.Dir)
	if local && err != nil {
		return nil, err
	}
	if !local || info.IsDir() {
		a, err := archive.Read(ctx, s)
		if err != nil {
			return nil, err
		}
		return a.StateAt(ctx, at)
	}
	if at != (history.Moment{}) {
		return nil, fmt.Errorf("%s has one state: name a directory of backup follow to go to a moment", from)
	}
	a, err := archive.One(ctx, from)
	if err != nil {
		return nil, err
	}
	return a.StateAt(ctx, at)
}
