// Package layout says where the master-worker system keeps what: the names of its
// nodes, and what their data mean. It is all that its programs have to agree on, so
// those of ../sync and ../async work together.
//
//	/master              ephemeral. Who has it is the master; its data are his name.
//	/epoch               its version goes up with each new master.
//	/workers/NAME        ephemeral. A worker who is there; its data are his status.
//	/tasks/TASK          a task that nobody has yet; its data are what is to be done.
//	/assign/NAME/TASK    a task that worker NAME is to do; the same data.
//	/status/TASK         a task that is done; its data are the Result.
//
// A TASK is named task-##########, or task-ID-########## if whoever has queued it
// has given it an ID. The digits are a sequence number of /tasks: there are never two
// tasks of one name.
//
// # What always holds
//
// A task is in one place: below /tasks, then below /assign, in the end below /status.
// It goes from one to the next by a multi that deletes it here and creates it there,
// and back from /assign to /tasks in the same way, if the worker dies. The delete
// is what makes this safe: of two who want to move a task one finds it gone,
// and so does one who has moved it and, because his connection broke, doesn't know.
//
// # Why there is an epoch
//
// A master whose /master is gone, and who hasn't heard of it yet, must not assign any
// more. So his multis check that there is a /master. That it is his own a check
// can't tell: a new node begins with version 0 as his did. The multi that creates
// /master therefore also sets /epoch, and the version that this has then is the
// master's for as long as nobody else becomes master: his multis check that, too.
package layout
