package main

import (
	"errors"
	"math/rand/v2"
	"slices"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/examples/masterworker/layout"
)

// window is how many tasks are being moved at a time, at most. What they hold in
// memory is bounded by it, and the servers always have something to do.
const window = 512

// reign is what a master does as long as he is: he gives tasks to workers, and takes
// them back from those who are gone. It begins with whatever the master before has
// left half done; nothing is different then. Replies that come when it is over are
// dropped. Only callbacks touch it.
type reign struct {
	*master
	epoch   int32
	workers []string // the last list of them
	present []string // those of them who haven't been found to be gone since

	back    []assignment // to be taken back
	tasks   []string     // to be given to somebody
	moving  int          // how many are being moved
	listing bool         // the tasks
	changed bool         // the tasks, since they were last listed
}

// assignment is a task that somebody has.
type assignment struct{ worker, task string }

// over reports whether we are not the master any more, as far as we know.
func (r *reign) over() bool { return r.master.reign != r }

// begin takes all whom anything was ever assigned to for workers: so those who have
// gone while there was no master are missed by the first list.
func (r *reign) begin() {
	r.a.Children(layout.Assign, func(l client.Listing, err error) {
		switch {
		case r.over():
		case passing(err):
			r.begin()
		case err != nil:
			r.end.fail(err)
		default:
			r.workers = l.Names
			r.listWorkers()
			r.tasksChanged()
		}
	})
}

// listWorkers looks who is there, and has us told when that changes.
func (r *reign) listWorkers() {
	r.a.ChildrenW(layout.Workers, func(l client.Listing, err error) {
		switch {
		case r.over():
		case passing(err):
			r.listWorkers()
		case err != nil:
			r.end.fail(err)
		default:
			gone := slices.DeleteFunc(r.workers, func(name string) bool { return slices.Contains(l.Names, name) })
			r.workers, r.present = l.Names, slices.Clone(l.Names)
			for _, worker := range gone {
				r.listAssignments(worker)
			}
			r.pump()
		}
	})
}

// listAssignments looks what a worker who has gone has left.
func (r *reign) listAssignments(worker string) {
	r.a.Children(layout.Assignments(worker), func(l client.Listing, err error) {
		switch {
		case r.over(), errors.Is(err, client.ErrNoNode): // somebody has tidied up
		case passing(err):
			r.listAssignments(worker)
		case err != nil:
			r.end.fail(err)
		default:
			for _, task := range l.Names {
				r.back = append(r.back, assignment{worker, task})
			}
			r.pump()
		}
	})
}

// tasksChanged has the tasks listed when those that are known are done with: each of
// them that goes is a change, too, and to list the rest each time would be
// more work than the work itself.
func (r *reign) tasksChanged() {
	r.changed = true
	r.pump()
}

func (r *reign) listTasks() {
	r.changed, r.listing = false, true
	r.a.ChildrenW(layout.Tasks, func(l client.Listing, err error) {
		switch {
		case r.over():
		case passing(err):
			r.listTasks()
		case err != nil:
			r.end.fail(err)
		default:
			layout.Oldest(l.Names)
			r.tasks, r.listing = l.Names, false
			r.pump()
		}
	})
}

// pump keeps the window full.
func (r *reign) pump() {
	for r.moving < window {
		switch {
		case len(r.back) > 0:
			next := r.back[0]
			r.back = r.back[1:]
			r.moving++
			r.takeBack(next)
		case len(r.tasks) > 0 && len(r.present) > 0:
			next := r.tasks[0]
			r.tasks = r.tasks[1:]
			r.moving++
			r.assign(next)
		default:
			if r.changed && !r.listing && r.moving == 0 && len(r.tasks) == 0 {
				r.listTasks()
			}
			return
		}
	}
}

// moved makes room in the window.
func (r *reign) moved() {
	r.moving--
	r.pump()
}

// assign gives a task to a worker.
func (r *reign) assign(task string) {
	if len(r.present) == 0 {
		r.tasks = append(r.tasks, task) // for when somebody comes
		r.moved()
		return
	}
	worker := r.present[rand.IntN(len(r.present))]
	r.move(layout.Queued(task), layout.Assigned(worker, task), []string{layout.Worker(worker)}, func(err error) {
		switch {
		case errors.Is(err, errNoWorker):
			r.present = slices.DeleteFunc(r.present, func(name string) bool { return name == worker })
			r.assign(task)
		case err != nil:
			r.end.fail(err)
		default:
			r.log.Printf("%s: gives %s to %s", r.name, task, worker)
			r.moved()
		}
	})
}

// takeBack queues again what somebody has been given and has not done.
func (r *reign) takeBack(a assignment) {
	r.move(layout.Assigned(a.worker, a.task), layout.Queued(a.task), nil, func(err error) {
		if err != nil {
			r.end.fail(err)
			return
		}
		r.log.Printf("%s: takes %s back from %s", r.name, a.task, a.worker)
		r.moved()
	})
}
