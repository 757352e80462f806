package layout

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/zkd-project/zkd/client"
)

// State is the state of the system that an administrator sees.
type State struct {
	Master  string    // the name, or "" if there is none
	Since   time.Time // when it became master
	Workers []WorkerState
	Waiting []string // tasks that are not assigned yet, the oldest first
	Done    []string // tasks whose results have not been removed
}

// WorkerState is the state of one worker.
type WorkerState struct {
	Name   string
	Status string    // "" if it is gone
	Since  time.Time // when it registered
	Tasks  []string  // assigned and not done
}

// StateOps returns the reads, for a MultiRead, from which ReadState makes the State.
// workers are the children of /assign.
func StateOps(workers []string) []client.Op {
	ops := []client.Op{client.GetOp(Master), client.ChildrenOp(Tasks), client.ChildrenOp(Status)}
	for _, name := range workers {
		ops = append(ops, client.GetOp(Worker(name)), client.ChildrenOp(Assignments(name)))
	}
	return ops
}

// ReadState makes a State of the results of StateOps. A node that does not exist is no
// error.
func ReadState(workers []string, results []client.OpResult) (State, error) {
	for _, r := range results {
		if r.Err != nil && !errors.Is(r.Err, client.ErrNoNode) {
			return State{}, r.Err
		}
	}
	master, waiting, done := results[0], results[1].Children, results[2].Children
	s := State{Waiting: waiting, Done: done}
	if master.Err == nil {
		s.Master, s.Since = string(master.Data), time.UnixMilli(master.Stat.Ctime)
	}
	for i, name := range workers {
		node, tasks := results[3+2*i], results[4+2*i].Children
		w := WorkerState{Name: name, Tasks: tasks}
		if node.Err == nil {
			w.Status, w.Since = string(node.Data), time.UnixMilli(node.Stat.Ctime)
		}
		Oldest(w.Tasks)
		s.Workers = append(s.Workers, w)
	}
	slices.SortFunc(s.Workers, func(a, b WorkerState) int { return strings.Compare(a.Name, b.Name) })
	Oldest(s.Waiting)
	Oldest(s.Done)
	return s, nil
}

// Print writes the state for people.
func (s State) Print(out io.Writer) {
	if s.Master == "" {
		fmt.Fprintln(out, "There is no master.")
	} else {
		fmt.Fprintf(out, "Master %s since %s.\n", s.Master, clock(s.Since))
	}
	for _, w := range s.Workers {
		switch {
		case w.Status != "":
			fmt.Fprintf(out, "Worker %s since %s: %s; %d tasks assigned.\n", w.Name, clock(w.Since), w.Status, len(w.Tasks))
		case len(w.Tasks) > 0:
			fmt.Fprintf(out, "Worker %s is gone; %d tasks to be given to others.\n", w.Name, len(w.Tasks))
		}
	}
	fmt.Fprintf(out, "%d tasks waiting, %d done and not fetched.\n", len(s.Waiting), len(s.Done))
	for _, task := range s.Waiting {
		fmt.Fprintf(out, "  %s\n", task)
	}
}

func clock(t time.Time) string { return t.Format("15:04:05.000") }
