package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/server/config"
)

// running is the program, running within the test.
type running struct {
	t    *testing.T
	port string // for clients
	log  *output
	stop func() error // ends it and returns its error
}

// serving starts the program on a free port and with an empty directory, which args may
// override, and returns when it is ready.
func serving(t *testing.T, args ...string) *running {
	t.Helper()
	ready, err := net.ListenPacket("unixgram", filepath.Join(t.TempDir(), "notify"))
	if err != nil {
		t.Fatal(err)
	}
	defer ready.Close()
	t.Setenv("NOTIFY_SOCKET", ready.LocalAddr().String())
	r := &running{t: t, port: freePorts(t, 1)[0], log: newOutput()}
	args = append([]string{"--set", "clientPort=" + r.port, "--set", "dataDir=" + t.TempDir()}, args...)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- run(ctx, args, io.Discard, r.log) }()
	told := make(chan error, 1)
	go func() {
		_, _, err := ready.ReadFrom(make([]byte, 100))
		told <- err
	}()
	select {
	case err := <-told:
		if err != nil {
			t.Fatal(err)
		}
	case err := <-done:
		t.Fatalf("%q: it has ended: %v\n%s", args, err, r.log)
	}
	r.stop = func() error {
		cancel()
		err := <-done
		r.stop = func() error { return err }
		return err
	}
	t.Cleanup(func() {
		if err := r.stop(); err != nil {
			t.Errorf("%q ended with %v\n%s", args, err, r.log)
		}
	})
	return r
}

// answers requires that the server answers on its port of a host.
func (r *running) answers(host string) {
	r.t.Helper()
	if got := answer(r.t, net.JoinHostPort(host, r.port), "srvr"); !strings.Contains(got, "Mode: ") {
		r.t.Errorf("srvr: %q", got)
	}
}

// says ends the server, whose log is complete then, and reports whether the log contains a text.
func (r *running) says(text string) bool {
	r.stop() // the test's end reports it
	return strings.Contains(r.log.String(), text)
}

const prometheusProvider = "metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider"

// settingsOfTheProcess are the keys that tests of in-memory servers can't cover, since
// they concern sockets and output, and a check that a value has its effect.
var settingsOfTheProcess = map[string]func(t *testing.T, value string){
	"clientPort": func(t *testing.T, value string) {
		switch value {
		case "-1": // is for members only
			ports := freePorts(t, 2)
			r := serving(t, "--set", "clientPort=-1", "--set", "standaloneEnabled=false", "--set", "initLimit=5", "--set", "syncLimit=2",
				"--set", fmt.Sprintf("server.1=127.0.0.1:%s:%s", ports[0], ports[1]), "--myid", "1")
			if !r.says("no port for clients") || r.says("serving clients") {
				t.Errorf("log:\n%s", r.log)
			}
		case "0":
			r := serving(t, "--set", "clientPort=0", "--set", "clientPortAddress=127.0.0.1")
			answer(t, r.log.await(t, `serving clients.*"address": "([^"]*)"`), "srvr")
		default: // the least and the largest port may be in use
			serving(t).answers("127.0.0.1")
		}
	},
	"clientPortAddress": func(t *testing.T, value string) {
		serving(t, "--set", "clientPortAddress="+value).answers(value)
	},
	"clientPortListenBacklog": func(t *testing.T, value string) {
		serving(t, "--set", "clientPortListenBacklog="+value).answers("127.0.0.1")
	},
	"clientTcpKeepAlive": func(t *testing.T, value string) {
		serving(t, "--set", "clientTcpKeepAlive="+value).answers("127.0.0.1")
	},
	"admin.enableServer": func(t *testing.T, value string) {
		r := serving(t, "--set", "admin.enableServer="+value, "--set", "admin.serverPort=0")
		if r.says("serving admin pages") != (value == "true") {
			t.Errorf("log:\n%s", r.log)
		}
	},
	"admin.serverAddress": func(t *testing.T, value string) {
		r := serving(t, "--set", "admin.serverPort=0", "--set", "admin.serverAddress="+value)
		_, port, _ := net.SplitHostPort(r.log.await(t, `serving admin pages.*"address": "([^"]*)"`))
		fetch(t, "http://"+net.JoinHostPort(value, port)+"/readyz")
	},
	"admin.serverPort": func(t *testing.T, value string) {
		if value != "0" {
			value = freePorts(t, 1)[0]
		}
		r := serving(t, "--set", "admin.serverPort="+value)
		_, port, _ := net.SplitHostPort(r.log.await(t, `serving admin pages.*"address": "([^"]*)"`))
		if value != "0" && port != value {
			t.Errorf("the admin pages are at port %s, want %s", port, value)
		}
	},
	"admin.commandURL": func(t *testing.T, value string) {
		r := serving(t, "--set", "admin.serverPort=0", "--set", "admin.commandURL="+value)
		if page := fetch(t, "http://"+r.log.await(t, `serving admin pages.*"address": "([^"]*)"`)+value+"/ruok"); !strings.Contains(page, `"command" : "ruok"`) {
			t.Errorf("ruok: %s", page)
		}
	},
	"metricsProvider.className": func(t *testing.T, value string) {
		r := serving(t, "--set", "metricsProvider.className="+value, "--set", "metricsProvider.httpPort=0")
		if r.says("serving metrics") != strings.Contains(value, "Prometheus") {
			t.Errorf("log:\n%s", r.log)
		}
	},
	"metricsProvider.httpHost": func(t *testing.T, value string) {
		r := serving(t, "--set", prometheusProvider, "--set", "metricsProvider.httpPort=0", "--set", "metricsProvider.httpHost="+value)
		_, port, _ := net.SplitHostPort(r.log.await(t, `serving metrics.*"address": "([^"]*)"`))
		fetch(t, "http://"+net.JoinHostPort(value, port)+"/metrics")
	},
	"metricsProvider.httpPort": func(t *testing.T, value string) {
		if value == "-1" {
			if r := serving(t, "--set", prometheusProvider, "--set", "metricsProvider.httpPort=-1"); r.says("serving metrics") {
				t.Errorf("log:\n%s", r.log)
			}
			return
		}
		if value != "0" {
			value = freePorts(t, 1)[0]
		}
		r := serving(t, "--set", prometheusProvider, "--set", "metricsProvider.httpPort="+value)
		_, port, _ := net.SplitHostPort(r.log.await(t, `serving metrics.*"address": "([^"]*)"`))
		if value != "0" && port != value {
			t.Errorf("metrics are at port %s, want %s", port, value)
		}
	},
	"metricsProvider.exportJvmInfo": func(t *testing.T, value string) {
		r := serving(t, "--set", prometheusProvider, "--set", "metricsProvider.httpPort=0", "--set", "metricsProvider.exportJvmInfo="+value)
		_, port, _ := net.SplitHostPort(r.log.await(t, `serving metrics.*"address": "([^"]*)"`))
		page := fetch(t, "http://127.0.0.1:"+port+"/metrics")
		if strings.Contains(page, "\ngo_goroutines ") != (value == "true") {
			t.Errorf("metrics:\n%.2000s", page)
		}
	},
	"zkd.logFormat": func(t *testing.T, value string) {
		if r := serving(t, "--set", "zkd.logFormat="+value); r.says(`"msg":"serving clients"`) != (value == "json") {
			t.Errorf("log:\n%s", r.log)
		}
	},
	"zkd.logLevel": func(t *testing.T, value string) {
		r := serving(t, "--set", "zkd.logLevel="+value, "--set", "nosuch=1")
		r.answers("127.0.0.1")
		got := []bool{r.says("four-letter word"), r.says("serving clients"), r.says("nosuch")}
		want := map[string][]bool{"debug": {true, true, true}, "info": {false, true, true}, "warn": {false, false, true}, "error": {false, false, false}}[value]
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("lines of debug, info and warn: %v, want %v; log:\n%s", got, want, r.log)
		}
	},
}

// TestEverySettingOfTheProcess runs the program with each kind of value of these keys.
func TestEverySettingOfTheProcess(t *testing.T) {
	tried := 0
	for _, k := range config.Keys() {
		try := settingsOfTheProcess[k.Name]
		if try == nil {
			continue
		}
		tried++
		for _, value := range k.Samples() {
			t.Run(k.Name+"="+value, func(t *testing.T) { try(t, value) })
		}
	}
	if tried != len(settingsOfTheProcess) {
		t.Errorf("%d keys were tried; of %d, some are not in the table of keys", tried, len(settingsOfTheProcess))
	}
}

// TestEveryFlag runs the program with each flag of its command line.
func TestEveryFlag(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "zoo.cfg")
	write(t, file, "tickTime=1234\n")
	ports := freePorts(t, 2)
	member := []string{"--myid", "7", "--set", fmt.Sprintf("server.7=127.0.0.1:%s:%s", ports[0], ports[1]),
		"--set", "standaloneEnabled=false", "--set", "initLimit=5", "--set", "syncLimit=2"}
	effects := map[string]func(t *testing.T){
		"config": func(t *testing.T) {
			r := serving(t, "--config", file, "--set", "4lw.commands.whitelist=conf")
			if conf := answer(t, "127.0.0.1:"+r.port, "conf"); !strings.Contains(conf, "tickTime=1234\n") {
				t.Errorf("conf:\n%s", conf)
			}
		},
		"set": func(t *testing.T) {
			r := serving(t, "--set", "4lw.commands.whitelist=conf", "--set", "tickTime=1234")
			if conf := answer(t, "127.0.0.1:"+r.port, "conf"); !strings.Contains(conf, "tickTime=1234\n") {
				t.Errorf("conf:\n%s", conf)
			}
		},
		"port": func(t *testing.T) {
			port := freePorts(t, 1)[0]
			r := serving(t, "--port", port)
			r.port = port
			r.answers("127.0.0.1")
		},
		"data-dir": func(t *testing.T) {
			data := filepath.Join(t.TempDir(), "data")
			serving(t, "--data-dir", data).stop()
			if missing(data, "journal") {
				t.Errorf("there is no log in %s", data)
			}
		},
		"myid": func(t *testing.T) {
			r := serving(t, member...)
			r.log.await(t, `(now leader)"?,? .*"leader": 7`)
		},
		"accept-data-loss-after": func(t *testing.T) { // an undamaged log has nothing to lose
			serving(t, "--accept-data-loss-after", "0x1f").answers("127.0.0.1")
		},
		"accept-old-data": func(t *testing.T) { // of a member whose data is not old
			serving(t, append(slices.Clone(member), "--accept-old-data")...).log.await(t, `(now leader)"?,? .*"leader": 7`)
		},
		"set-data-aside": func(t *testing.T) { // names other data
			data := t.TempDir()
			alone := append(slices.Clone(member), "--data-dir", data)
			serving(t, alone...).stop()
			err := run(t.Context(), append(alone, "--set-data-aside", "0000"), io.Discard, io.Discard)
			if err == nil || !strings.Contains(err.Error(), "--set-data-aside=0000: the data here is ") {
				t.Errorf("it ended with %v", err)
			}
		},
		"join":      TestJoin,
		"advertise": TestJoinSaysWhyItCannot,
		"version": func(t *testing.T) {
			var out strings.Builder
			if err := run(t.Context(), []string{"--version"}, &out, io.Discard); err != nil || out.String() != versionLine() {
				t.Errorf("it prints %q, and ends with %v", out.String(), err)
			}
		},
		"pprof": func(t *testing.T) {
			r := serving(t, "--pprof", "127.0.0.1:0")
			fetch(t, "http://"+r.log.await(t, `serving profiles.*"address": "([^"]*)"`)+"/debug/pprof/")
		},
	}
	for _, flag := range regexp.MustCompile(`(?m)^ +(?:-\w, )?(--([a-z-]+))`).FindAllStringSubmatch(newRoot(io.Discard).Flags().FlagUsages(), -1) {
		try := effects[flag[2]]
		if try == nil {
			t.Errorf("%s has no test here", flag[1])
			continue
		}
		t.Run(flag[2], try)
	}
}

// TestCollectorIsLeftToTheOperator checks that with GOGC or GOMEMLIMIT in the environment
// the percentage of the garbage collector is not changed.
func TestCollectorIsLeftToTheOperator(t *testing.T) {
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		t.Setenv(name, "50")
		before := debug.SetGCPercent(77)
		tuneMemory(t.Context())
		if got := debug.SetGCPercent(before); got != 77 {
			t.Errorf("with %s the percentage has become %d", name, got)
		}
	}
}
