// The registry of dubbo-go: two providers in processes of their own, and a consumer that has subscribed to them.
// Whenever all is well it knows both; one that is killed goes from its list.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"time"

	"dubbo.apache.org/dubbo-go/v3/common"
	"dubbo.apache.org/dubbo-go/v3/common/constant"
	"dubbo.apache.org/dubbo-go/v3/common/extension"
	"dubbo.apache.org/dubbo-go/v3/registry"
	_ "dubbo.apache.org/dubbo-go/v3/registry/zookeeper"
	"dubbo.apache.org/dubbo-go/v3/remoting"
)

const (
	name     = "org.world.Name"
	provider = "provider" // the argument of a provider's process; its port follows
)

var ports = []string{"20881", "20882"} // of the providers, which are only names here

func main() {
	out := os.Stdout
	os.Stdout = os.Stderr // for what the library prints
	err := errors.New("usage: program [provider PORT]")
	switch {
	case len(os.Args) == 1:
		err = newConsumer().run(out)
	case len(os.Args) == 3 && os.Args[1] == provider:
		err = provide(os.Args[2])
	}
	if err != nil {
		fmt.Fprintln(out, err)
		os.Exit(1)
	}
}

// connect returns the registry on the servers.
func connect(role int) (registry.Registry, error) {
	url, err := common.NewURL("registry://"+os.Getenv("ZK_SERVERS"), common.WithParamsValue(constant.RegistryKey, "zookeeper"),
		common.WithParamsValue(constant.RegistryRoleKey, strconv.Itoa(role)), common.WithParamsValue(constant.ConfigTimeoutKey, "10s"),
		common.WithLocation(os.Getenv("ZK_SERVERS")))
	if err != nil {
		return nil, err
	}
	return extension.GetRegistry("zookeeper", url)
}

func serviceURL(role int, port string) *common.URL {
	return common.NewURLWithOptions(common.WithProtocol("dubbo"), common.WithIp("127.0.0.1"), common.WithPort(port), common.WithPath("/"+name),
		common.WithInterface(name), common.WithMethods([]string{"Name"}),
		common.WithParamsValue(constant.RegistryRoleKey, strconv.Itoa(role)), common.WithParamsValue(constant.InterfaceKey, name))
}

func provide(port string) error {
	r, err := connect(common.PROVIDER)
	if err != nil {
		return err
	}
	if err := r.Register(serviceURL(common.PROVIDER, port)); err != nil {
		return err
	}
	select {}
}

type consumer struct {
	providers []*exec.Cmd

	mu      sync.Mutex
	changed *sync.Cond
	known   map[string]bool // ports
	events  map[string]int  // what the registry told
}

func newConsumer() *consumer {
	c := &consumer{events: make(map[string]int), known: make(map[string]bool)}
	c.changed = sync.NewCond(&c.mu)
	return c
}

// Notify is called by the registry.
func (c *consumer) Notify(e *registry.ServiceEvent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.Action == remoting.EventTypeDel {
		delete(c.known, e.Service.Port)
		c.events["removed"]++
	} else {
		c.known[e.Service.Port] = true
		c.events["added"]++
	}
	c.changed.Broadcast()
}

// NotifyAll is for other registries.
func (c *consumer) NotifyAll(all []*registry.ServiceEvent, done func()) {
	for _, e := range all {
		c.Notify(e)
	}
	done()
}

func (c *consumer) run(out io.Writer) error {
	for _, port := range ports {
		p, err := start(port)
		if err != nil {
			return err
		}
		c.providers = append(c.providers, p)
	}
	r, err := connect(common.CONSUMER)
	if err != nil {
		return err
	}
	go func() {
		for { // it returns when its session has ended
			r.Subscribe(serviceURL(common.CONSUMER, ""), c)
			<-time.After(time.Second)
		}
	}()
	settles := 0
	settle := func() {
		c.await(ports)
		settles++
	}
	settle()
	fmt.Fprintln(out, "ready")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		switch line := lines.Text(); {
		case line == "begin own":
			if err := c.kill(); err != nil {
				return err
			}
		case len(line) > 4 && line[:4] == "end ":
			settle()
			fmt.Fprintln(out, "settled")
		}
	}
	settle()
	for _, p := range c.providers {
		p.Process.Kill()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintf(out, "settled=%d added=%d removed=%d providers=%d\n", settles, c.events["added"], c.events["removed"], len(c.known))
	return nil
}

func start(port string) (*exec.Cmd, error) {
	p := exec.Command(os.Args[0], provider, port)
	p.Stdout, p.Stderr = os.Stderr, os.Stderr
	return p, p.Start()
}

// kill ends a provider, and starts it again when its session has ended.
func (c *consumer) kill() error {
	c.providers[0].Process.Kill()
	c.providers[0].Wait()
	c.await(ports[1:])
	p, err := start(ports[0])
	c.providers[0] = p
	return err
}

// await returns when the consumer knows these providers. The limit is that of the run.
func (c *consumer) await(want []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !slices.Equal(slices.Sorted(maps.Keys(c.known)), want) {
		c.changed.Wait()
	}
}
