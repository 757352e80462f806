// Package discovery is a directory of services: instances register, others find them
// by the name of the service and pick one.
//
//	d, err := discovery.New(c, "/services", discovery.Options{}) // c has RenewSession
//	if err != nil {
//		return err
//	}
//	reg, err := d.Register(ctx, discovery.Instance{Name: "web", Address: "10.0.0.1", Port: 8080})
//	defer reg.Unregister(ctx)
//	...
//	web, err := d.Open(ctx, "web", discovery.ProviderOptions{}) // elsewhere
//	defer web.Close(ctx)
//	instance, err := web.Pick(ctx)
//
// # Layout on the tree
//
//	/services              a container
//	/services/web          a container
//	/services/web/ID       ephemeral, an Instance as JSON
//
// That is the layout of Curator's x-discovery, with the JSON of its
// JsonInstanceSerializer: {"name", "id", "address", "port", "sslPort", "payload",
// "registrationTimeUTC", "serviceType", "uriSpec", "enabled"}. Java programs, those on
// Spring Cloud Zookeeper among them, find our instances, and we find theirs. "enabled"
// is left out when it is true, as old ones don't know it. What Java reads as an object
// needs an "@class" in its payload. kazoo and Apache have no such recipe.
//
// # What it guarantees
//
// An instance is registered once, from Register to Unregister, as package keepalive
// has it:
//
//   - Connection lost before or after a request: hidden.
//   - Session ended: with client.Options.RenewSession the instance is back with its newest
//     data. Without, the Registration ends with recipes.ErrLost.
//   - Process paused for longer than the session's timeout: the same.
//   - Leader lost: as connection lost.
//
// A Provider goes on picking among the instances it knows while its connection is
// lost; they may be out of date then, see Provider.Stale.
//
// # Bad use
//
// An ID that is taken is client.ErrNodeExists; Options.Patient waits for it to be free.
// (Curator takes the other one's place.) A child that is no instance makes Find fail
// with recipes.ErrLayout; a Provider skips it, as one broken registration is not to take
// a whole service down.
//
// # What the caller must do
//
// Unregister before the instance stops serving. Expect that an instance which was
// picked is gone: say so with Provider.Failed, and pick another one.
//
// # Cost
//
// Registering is a create and a read. Find is one read, and one for each instance. Pick
// asks nobody: a Provider has one watch, and for each change gets one event and makes
// one or two small reads.
//
// # Goroutines
//
// A Registration has one until Unregister, a Provider some until Close. All methods may
// be called from any goroutine.
package discovery
