package settle_test

import (
	"context"
	"net"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/client/zktest"
)

// A change whose reply is lost stays in doubt if the session ends before a second
// attempt: that this was not done says nothing of the first.
func TestDoubtOutlivesTheSession(t *testing.T) {
	for name, change := range map[string]func(ctx context.Context, c *client.Client) error{
		"create": func(ctx context.Context, c *client.Client) error {
			_, err := settle.Create(ctx, c, "/a", nil, settle.CreateOptions{})
			return err
		},
		"set": func(ctx context.Context, c *client.Client) error {
			_, err := settle.Set(ctx, c, "/b", []byte("2"), 0)
			return err
		},
		"delete": func(ctx context.Context, c *client.Client) error {
			return settle.Delete(ctx, c, "/b", 0, settle.DeleteOptions{})
		},
		"delete unique": func(ctx context.Context, c *client.Client) error {
			return settle.Delete(ctx, c, "/b", client.AnyVersion, settle.DeleteOptions{Insist: true, Unique: true})
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := deadline(t)
			p := zktest.Start(t)
			_, err := p.Client(t).Create(ctx, "/b", nil, client.CreateOptions{})
			must(t, err)
			lost, expired := make(chan struct{}), make(chan struct{})
			c := p.Client(t, func(o *client.Options) {
				o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
					select {
					case <-lost: // the session must not be taken back
						<-expired
					default:
					}
					return new(net.Dialer).DialContext(ctx, network, address)
				}
			})
			writes := zktest.Writes()
			cut := p.CutAfter(func(op client.OpCode, path string) bool {
				found := writes(op, path)
				if found {
					close(lost)
				}
				return found
			})
			go func() {
				<-cut.Done()
				id := c.Session().ID()
				p.ExpireSession(id)
				close(expired)
			}()
			if err := change(ctx, c); !client.IsAmbiguous(err) {
				t.Errorf("%s = %v, want an ambiguous error, as it was done", name, err)
			}
		})
	}
}
