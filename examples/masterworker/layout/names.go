package layout

import (
	"cmp"
	"slices"
	"strings"
)

// The nodes that the programs share.
const (
	Master  = "/master"
	Epoch   = "/epoch"
	Workers = "/workers"
	Tasks   = "/tasks"
	Assign  = "/assign"
	Status  = "/status"
)

// Parents returns the nodes that must exist before anything can be done. Each program
// creates those that are missing, so the programs can be started in any order.
func Parents() []string { return []string{Epoch, Workers, Tasks, Assign, Status} }

// Worker returns the node that shows that a worker is there.
func Worker(name string) string { return Workers + "/" + name }

// Assignments returns the parent node of a worker's tasks.
func Assignments(worker string) string { return Assign + "/" + worker }

// Assigned returns the node of a task that is assigned to a worker.
func Assigned(worker, task string) string { return Assignments(worker) + "/" + task }

// Queued returns the node of a task that is not assigned yet.
func Queued(task string) string { return Tasks + "/" + task }

// Done returns the node of a task that is done.
func Done(task string) string { return Status + "/" + task }

// digits are how many the servers append to the name of a sequential node.
const digits = 10

// NewTask returns the path at which a task is created, with a sequential mode. A task
// with an empty id may be queued twice if the connection breaks.
func NewTask(id string) string {
	if id == "" {
		return Tasks + "/task-"
	}
	return Tasks + "/task-" + id + "-"
}

// IsTask reports whether a task was created at NewTask(id).
func IsTask(task, id string) bool {
	number, ok := strings.CutPrefix(Queued(task), NewTask(id))
	return ok && len(number) == digits && strings.Trim(number, "0123456789") == ""
}

// Oldest sorts tasks in the order in which they were queued.
func Oldest(tasks []string) {
	slices.SortFunc(tasks, func(a, b string) int { return cmp.Compare(number(a), number(b)) })
}

func number(task string) string { return task[max(0, len(task)-digits):] }
