// Package settle repeats writes until their outcome is known.
//
// When a connection breaks, a write that was sent may or may not have been done, and
// the client's error IsAmbiguous. The functions here look at the node and then either
// repeat the write or return: a create makes one node, a set is done once, a delete
// deletes the node that was meant. They repeat as the client's policy says
// (client.WithRetry or client.Options.Retry). If the outcome stays unknown, because the
// context, the attempts or the session end, their error IsAmbiguous, too.
//
//	made, err := settle.Create(ctx, c, "/lock/n-", nil, settle.CreateOptions{Mode: client.EphemeralSequential, By: settle.ByGUID})
//	stat, err := settle.Set(ctx, c, "/config", []byte("v2"), stat.Version)
//	err = settle.Delete(ctx, c, made.Path, client.AnyVersion, settle.DeleteOptions{Insist: true})
//
// Functions may be called from any goroutine. A Create or Delete that was given up may
// continue in a goroutine of the session: see client.Session.Background.
package settle
