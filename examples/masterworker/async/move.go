package main

import (
	"errors"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/examples/masterworker/layout"
)

var errNoWorker = errors.New("the worker is gone")

// move moves a task, if we are the master, and all that it depends on is there. That
// the task is gone is no error: then it has been moved, maybe by ourselves
// at the first attempt. then is not called if the reign is over.
func (r *reign) move(from, to string, dependsOn []string, then func(error)) {
	r.a.Get(from, func(n client.Node, err error) {
		switch {
		case r.over():
		case passing(err):
			r.move(from, to, dependsOn, then)
		case errors.Is(err, client.ErrNoNode):
			then(nil)
		case err != nil:
			then(err)
		default:
			r.replace(from, to, n.Data, dependsOn, then)
		}
	})
}

// replace does the move with the data that were read.
func (r *reign) replace(from, to string, data []byte, dependsOn []string, then func(error)) {
	ops := []client.Op{client.CheckOp(layout.Master, client.AnyVersion), client.CheckOp(layout.Epoch, r.epoch)}
	for _, path := range dependsOn {
		ops = append(ops, client.CheckOp(path, client.AnyVersion))
	}
	ops = append(ops, client.DeleteOp(from, client.AnyVersion), client.CreateOp(to, data, client.Persistent, nil))
	r.a.Multi(ops, func(_ []client.OpResult, err error) {
		// A multi fails with the error of one of its operations. Here it matters of which.
		failed, _ := errors.AsType[*client.MultiError](err)
		switch {
		case r.over():
		case passing(err):
			r.replace(from, to, data, dependsOn, then)
		case failed == nil:
			then(err)
		case failed.Path == layout.Master, failed.Path == layout.Epoch:
			r.deposed()
		case failed.Path == from && errors.Is(err, client.ErrNoNode):
			then(nil)
		case errors.Is(err, client.ErrNoNode):
			then(errNoWorker)
		default:
			then(err)
		}
	})
}
