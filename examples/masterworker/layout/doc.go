// Package layout has the names of the nodes of the master-worker system, and the meaning
// of their data: all that its programs have to agree on.
//
//	/master              ephemeral. Its owner is the master; its data are the master's name.
//	/epoch               its version increases with each new master.
//	/workers/NAME        ephemeral. A worker; its data are the worker's status.
//	/tasks/TASK          a task that is not assigned yet; its data say what is to be done.
//	/assign/NAME/TASK    a task that is assigned to worker NAME; the same data.
//	/status/TASK         a task that is done; its data are the Result.
//
// A TASK is named task-##########, or task-ID-########## if the client has given it an
// ID. The digits are a sequence number of /tasks, so no two tasks have the same name.
//
// # Invariant
//
// A task is in one place: below /tasks, then below /assign, and finally below /status.
// A multi moves it from one to the next, by deleting the old node and creating the new
// one; another moves it from /assign back to /tasks if the worker dies. The delete makes
// this safe: of two programs that move the same task, one finds it gone, and so does a
// program that has moved the task but lost the reply.
//
// # The epoch
//
// A master that has lost /master and has not learned of it yet must not assign tasks. So
// its multis check that there is a /master. A check cannot tell whose it is: a new node
// has version 0, as the old one had. The multi that creates /master therefore also sets
// /epoch, and the version that this returns stays the same until the next master is
// elected: the multis check that version, too.
package layout
