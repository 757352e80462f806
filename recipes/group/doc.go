// Package group is about who is there: programs join a group, leave it, and see who
// else is in it, now and over time. A member that dies leaves by itself, when its
// session ends.
//
//	g, err := group.New(c, "/workers", group.Options{}) // c has RenewSession
//	if err != nil {
//		return err
//	}
//	me, err := g.Join(ctx, "w1", []byte("10.0.0.1:8080"))
//	if err != nil {
//		return err
//	}
//	defer me.Leave(ctx)
//	for view, err := range g.Follow(ctx) { // view.Members, view.Joined, view.Left
//
// # Layout on the tree
//
// The path is a container; each member has an ephemeral child. Options.Layout says
// what it is called and what data it has:
//
//	Named         ID                       the member's data    Curator's GroupMember
//	Party         32 hex digits__party__   the ID               kazoo's Party
//	ShallowParty  32 hex digits-ID         "0"                  kazoo's ShallowParty
//
// With the kazoo layouts two members may have the same ID, and members have no data
// of their own. Programs with those libraries take part in the same groups. Apache's
// recipes have none for groups.
//
// # What it guarantees
//
// A member is there once, from Join to Leave, as package keepalive has it:
//
//   - Connection lost before or after a request: hidden. Join makes one member or none.
//   - Session ended: with client.Options.RenewSession the member comes back, and others
//     see it leave and join. Without, the Membership ends with recipes.ErrLost.
//   - Process paused for longer than the session's timeout: the same.
//   - Leader lost: as connection lost.
//
// Followers see each member that stays, and miss none: those that come and go within
// the blink of an eye may be left out together. While the connection is lost a View is
// Stale: it has the members that there were. After that it has what there is.
//
// # Bad use
//
// Joining under an ID that is taken is client.ErrNodeExists with the layout Named;
// Options.Patient waits for it to be free. Children that are no members (they are not
// ephemeral, or have no name of the layout) are recipes.ErrLayout; only kazoo's Party
// allows and skips them.
//
// # What the caller must do
//
// Leave, and see to Membership.Done where being in the group is a condition for what
// the program does. A member that is seen may be dead already, for as long as its
// session's timeout.
//
// # Cost
//
// No polling. A follower has one persistent watch (two one-shot ones for each member
// with servers before ZooKeeper 3.6, see client/cache). A member that joins or leaves
// costs it one event and two small reads, one that changes its data one event and one
// read, however many members there are: with a one-shot watch on the list, each change
// is a read of the whole list. Members that don't follow are told of nothing.
//
// # Goroutines
//
// A Group has none. A Membership has one until Leave, and Follow has some of its own
// until the loop ends. All methods may be called from any goroutine.
package group
