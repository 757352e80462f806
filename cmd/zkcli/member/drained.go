package member

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/zkd-project/zkd/cmd/zkcli/servers"
	"github.com/zkd-project/zkd/internal/pause"
)

// Welcomes reports whether another member than but serves and lets clients in.
func (s *Status) Welcomes(but int64) bool {
	for id, v := range s.views {
		if id != but && v.Serves() && !keepsAway(&v) {
			return true
		}
	}
	return false
}

func keepsAway(v *servers.View) bool { return strings.Contains(v.Drain, "keeps clients away") }

// AwaitDrained waits until servers have moved their clients to others. Those that have not
// begun within a time are not waited for any longer.
func AwaitDrained(ctx context.Context, e Ensemble, list []Server, begin time.Duration, progress func(string)) error {
	begun := make(map[int64]bool)
	for start := time.Now(); ; {
		var why []string
		wait := false
		views := look(ctx, e, list)
		for _, s := range list {
			v := views[s.ID]
			left := int64(0)
			n, _ := fmt.Sscanf(v.Drain, "%d connections left", &left)
			begun[s.ID] = begun[s.ID] || n > 0
			if left > 0 {
				why = append(why, fmt.Sprintf("server %d moves its clients to others: %d connections left", s.ID, left))
			}
			drains := strings.Contains(v.Version, "-zkd.") // others keep their clients
			wait = wait || left > 0 || drains && !begun[s.ID] && time.Since(start) < begin
		}
		if !wait {
			return nil
		}
		if len(why) > 0 {
			progress(strings.Join(why, "; "))
		}
		if err := pause.For(ctx, betweenTries); err != nil {
			return err
		}
	}
}

// removedBegins is how long a removed server takes at most to learn of it.
const removedBegins = 3 * time.Second
