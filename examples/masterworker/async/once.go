package main

import (
	"errors"
	"slices"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/examples/masterworker/layout"
)

// queueOnce looks for a task before each attempt to create it.
//
// client.CreateProtected would look below /tasks only, and create a second one if the
// master has moved the first away meanwhile.
func (s *submitter) queueOnce(i int) {
	s.find(s.Tasks[i].ID, func(name string, err error) {
		switch {
		case passing(err):
			s.queueOnce(i)
		case err != nil:
			s.end.fail(err)
		case name != "":
			s.queued(i, name)
		default:
			s.create(i, s.queueOnce)
		}
	})
}

// find finds the name of the task with an id, wherever it is, or "".
//
// The sync is there as this server may not have what another one has taken from us.
func (s *submitter) find(id string, then func(name string, err error)) {
	s.a.Sync(layout.Tasks, func(_ client.None, err error) {
		if err != nil {
			then("", err)
			return
		}
		s.listPlaces(id, then)
	})
}

// listPlaces looks below whom tasks may be.
func (s *submitter) listPlaces(id string, then func(name string, err error)) {
	s.a.Children(layout.Assign, func(l client.Listing, err error) {
		if err != nil {
			then("", err)
			return
		}
		s.search(id, l.Names, then)
	})
}

// search reads all places at one moment, as tasks go from one to another and back.
func (s *submitter) search(id string, workers []string, then func(name string, err error)) {
	ops := []client.Op{client.ChildrenOp(layout.Assign), client.ChildrenOp(layout.Tasks), client.ChildrenOp(layout.Status)}
	for _, worker := range workers {
		ops = append(ops, client.ChildrenOp(layout.Assignments(worker)))
	}
	s.a.MultiRead(ops, func(places []client.OpResult, err error) {
		if err != nil {
			then("", err)
			return
		}
		if !containsAll(workers, places[0].Children) {
			s.listPlaces(id, then) // there is a new worker: he may have it
			return
		}
		then(pick(id, places[1:]))
	})
}

func pick(id string, places []client.OpResult) (name string, err error) {
	for _, place := range places {
		if place.Err != nil && !errors.Is(place.Err, client.ErrNoNode) {
			return "", place.Err
		}
		for _, task := range place.Children {
			if layout.IsTask(task, id) {
				return task, nil
			}
		}
	}
	return "", nil
}

func containsAll(all, some []string) bool {
	return !slices.ContainsFunc(some, func(s string) bool { return !slices.Contains(all, s) })
}
