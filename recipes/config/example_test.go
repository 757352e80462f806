package config_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/internal/testing/standin"
	"github.com/zkd-project/zkd/recipes/config"
)

func Example() {
	t := standin.Example() // in a test, this is its *testing.T
	defer t.End()
	c := zktest.Start(t).Client(t)
	ctx := context.Background()

	type settings struct{ Rate int }
	options := config.Options[settings]{
		Default: &settings{Rate: 10},
		Validate: func(s settings) error {
			if s.Rate <= 0 {
				return errors.New("the rate must be positive")
			}
			return nil
		},
	}
	cfg, err := config.Open(ctx, c, "/app/config", options)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cfg.Close(ctx)
	for now, err := range cfg.Follow(ctx) {
		if err != nil {
			fmt.Println(err) // the new value is invalid; Get returns the last good one
			break
		}
		fmt.Println("rate", now.Value.Rate)
		if !now.Exists { // an administrator sets it
			cfg.Set(ctx, settings{Rate: 20}, client.AnyVersion)
			continue
		}
		c.Set(ctx, "/app/config", []byte(`{"Rate": 0}`), client.AnyVersion)
	}
	fmt.Println("rate", cfg.Get().Rate)
	// Output:
	// rate 10
	// rate 20
	// /app/config: invalid configuration: the rate must be positive
	// rate 20
}

// Several keys change together.
func ExampleTree() {
	t := standin.Example()
	defer t.End()
	c := zktest.Start(t).Client(t)
	ctx := context.Background()

	primary := func(host, port string) func(map[string]string) error {
		return func(keys map[string]string) error {
			keys["host"], keys["port"] = host, port
			return nil
		}
	}
	if _, err := config.UpdateTree(ctx, c, "/app/db", config.TreeOptions{}, primary("db1", "5432")); err != nil {
		fmt.Println(err)
		return
	}
	db, err := config.OpenTree(ctx, c, "/app/db", config.TreeOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close(ctx)
	for now, err := range db.Follow(ctx) {
		fmt.Println(now.Keys, err)
		if now.Version == 1 {
			break
		}
		db.Update(ctx, primary("db2", "5433"))
	}
	// Output:
	// map[host:db1 port:5432] <nil>
	// map[host:db2 port:5433] <nil>
}
