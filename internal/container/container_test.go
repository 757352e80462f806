package container

import (
	"slices"
	"strings"
	"testing"
)

// TestConfig compares whole files, without their header and the defaults.
func TestConfig(t *testing.T) {
	keys := []string{"tickTime", "4lw.commands.whitelist", "ssl.keyStore.location", "zkd.quorumSecretFile", "java.security.auth.login.config"}
	for _, tt := range []struct {
		name    string
		env     []string
		host    string
		earlier string
		want    string
		id      string
		remarks string // the beginnings
	}{
		{name: "nothing", want: "clientPort=2181"},
		{
			name: "the official image's",
			env: []string{"ZOO_MY_ID=2", "ZOO_TICK_TIME=1000", "ZOO_INIT_LIMIT=7", "ZOO_SYNC_LIMIT=3", "ZOO_MAX_CLIENT_CNXNS=0",
				"ZOO_STANDALONE_ENABLED=false", "ZOO_ADMINSERVER_ENABLED=false", "ZOO_AUTOPURGE_PURGEINTERVAL=24",
				"ZOO_AUTOPURGE_SNAPRETAINCOUNT=5", "ZOO_4LW_COMMANDS_WHITELIST=srvr, mntr", "ZOO_CONF_DIR=/conf",
				"ZOO_DATA_DIR=/data", "ZOO_DATA_LOG_DIR=/datalog", "ZOO_CFG_EXTRA=quorumListenOnAllIPs=true  reconfigEnabled=true",
				"ZOO_SERVERS=server.1=zoo1:2888:3888;2181 server.2=0.0.0.0:2888:3888;2181"},
			want: "4lw.commands.whitelist=srvr, mntr|admin.enableServer=false|autopurge.purgeInterval=24|autopurge.snapRetainCount=5|" +
				"dataDir=/data|dataLogDir=/datalog|initLimit=7|maxClientCnxns=0|standaloneEnabled=false|syncLimit=3|tickTime=1000|" +
				"quorumListenOnAllIPs=true|reconfigEnabled=true|server.1=zoo1:2888:3888;2181|server.2=0.0.0.0:2888:3888;2181",
			id: "2",
		},
		{
			name: "servers as before 3.5", env: []string{"ZOO_SERVERS=server.1=a:1:2 server.2=b:1:2"},
			want: "server.1=a:1:2|server.2=b:1:2|clientPort=2181",
		},
		{name: "empty variables are not set", env: []string{"ZOO_TICK_TIME=", "ZKD_TICK_TIME=", "ZOO_SERVERS="}, want: "clientPort=2181"},
		{name: "no value continues a line", env: []string{`ZOO_4LW_COMMANDS_WHITELIST=srvr\`, "ZOO_TICK_TIME=9"}, want: `4lw.commands.whitelist=srvr\\|tickTime=9|clientPort=2181`},
		{name: "TLS only", env: []string{"ZOO_CFG_EXTRA=secureClientPort=2281"}, want: "secureClientPort=2281"},
		{
			name: "any key", env: []string{"ZKD_TICK_TIME=1", "ZKD_4LW_COMMANDS_WHITELIST=*", `ZKD_SSL_KEYSTORE_LOCATION=/a\b`, "ZKD_QUORUM_SECRET_FILE=/s"},
			want: `4lw.commands.whitelist=*|zkd.quorumSecretFile=/s|ssl.keyStore.location=/a\\b|tickTime=1|clientPort=2181`,
		},
		{name: "with the prefix", env: []string{"ZKD_ZKD_QUORUM_SECRET_FILE=/s"}, want: "zkd.quorumSecretFile=/s|clientPort=2181"},
		{
			name: "a service of Kubernetes",
			env: []string{"ZKD_SERVICE_HOST=10.0.0.1", "ZKD_SERVICE_PORT=2181", "ZKD_SERVICE_PORT_CLIENT=2181", "ZKD_PORT=tcp://10.0.0.1:2181",
				"ZKD_PORT_2181_TCP=tcp://10.0.0.1:2181", "ZKD_PORT_2181_TCP_ADDR=10.0.0.1", "ZOO_SERVICE_HOST=10.0.0.1"},
			want: "clientPort=2181",
		},
		{
			name:    "options of a JVM",
			env:     []string{"JVMFLAGS=-Xmx1g -Dzookeeper.ssl.keyStore.location=/k", "SERVER_JVMFLAGS=-Djava.security.auth.login.config=/jaas -Dcom.sun=x"},
			want:    "zookeeper.ssl.keyStore.location=/k|java.security.auth.login.config=/jaas|clientPort=2181",
			remarks: "JVMFLAGS: -Xmx1g has|SERVER_JVMFLAGS: -Dcom.sun=x has",
		},
		{name: "an unknown ZOO_", env: []string{"ZOO_LOG4J_PROP=INFO", "ZOOM=1"}, want: "clientPort=2181", remarks: "ZOO_LOG4J_PROP has no effect"},
		{name: "a pod", env: []string{"KUBERNETES_SERVICE_HOST=10.0.0.1"}, host: "zk-2", want: "clientPort=2181", id: "3"},
		{name: "a pod whose id is given", env: []string{"KUBERNETES_SERVICE_HOST=10.0.0.1", "ZOO_MY_ID=7"}, host: "zk-2", want: "clientPort=2181", id: "7"},
		{name: "a container that is no pod", host: "zk-2", want: "clientPort=2181"},
		{name: "the ordinal is asked for", env: []string{"ZOO_MY_ID=ordinal"}, host: "zk-0", want: "clientPort=2181", id: "1"},
		{
			name:    "after a reconfig",
			env:     []string{"ZOO_SERVERS=server.1=a:1:2;3", "ZOO_CFG_EXTRA=group.1=1:2 syncLimit=9"},
			earlier: header + "tickTime=1\ndynamicConfigFile=/data/zoo.cfg.dynamic.100000003\n",
			want:    "syncLimit=9|dynamicConfigFile=/data/zoo.cfg.dynamic.100000003",
			remarks: "ZOO_SERVERS has no effect: the members were changed",
		},
		{name: "an earlier file of somebody else", earlier: "dynamicConfigFile=/x\n", want: "clientPort=2181"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, err := Config(Input{Env: tt.env, Host: tt.host, Keys: keys, Earlier: tt.earlier})
			if err != nil {
				t.Fatal(err)
			}
			if !Made(out.Text) {
				t.Errorf("the file does not say who made it:\n%s", out.Text)
			}
			lines := strings.Split(strings.TrimSpace(strings.TrimPrefix(out.Text, header)), "\n")
			lines = slices.DeleteFunc(lines, func(l string) bool {
				return slices.Contains([]string{"initLimit=10", "syncLimit=5", "admin.enableServer=true"}, l)
			})
			if got := strings.Join(lines, "|"); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if out.ID != tt.id {
				t.Errorf("id %q, want %q", out.ID, tt.id)
			}
			var remarks []string
			if tt.remarks != "" {
				remarks = strings.Split(tt.remarks, "|")
			}
			if len(out.Remarks) != len(remarks) {
				t.Fatalf("remarks %q, want %q", out.Remarks, remarks)
			}
			for i, want := range remarks {
				if !strings.HasPrefix(out.Remarks[i], want) {
					t.Errorf("remark %q, want %q", out.Remarks[i], want)
				}
			}
		})
	}
}

func TestDefaults(t *testing.T) {
	out, err := Config(Input{Env: []string{"ZOO_SYNC_LIMIT=2"}})
	if want := header + "syncLimit=2\nclientPort=2181\ninitLimit=10\nadmin.enableServer=true\n"; err != nil || out.Text != want {
		t.Errorf("got\n%s\nwant\n%s%v", out.Text, want, err)
	}
}

func TestErrors(t *testing.T) {
	for env, want := range map[string]string{
		"ZKD_TICK_TIMES=1":              "ZKD_TICK_TIMES: zoo.cfg has no such key",
		"ZOO_TICK_TIME=1\nskipACL=yes":  "ZOO_TICK_TIME: a value has one line",
		"ZKD_TICK_TIME=1\nskipACL=yes":  "ZKD_TICK_TIME: a value has one line",
		"ZOO_CFG_EXTRA=skipACL":         `ZOO_CFG_EXTRA: "skipACL": write key=value`,
		`ZOO_CFG_EXTRA=skipACL=no\`:     `ZOO_CFG_EXTRA: "skipACL=no\\": write key=value`,
		`ZOO_SERVERS=server.1=a:1:2\`:   `ZOO_SERVERS: "server.1=a:1:2\\": write server.N=`,
		"ZOO_SERVERS=zoo1:2888:3888::1": `ZOO_SERVERS: "zoo1:2888:3888::1": write server.N=`,
	} {
		_, err := Config(Input{Env: []string{env}, Keys: []string{"tickTime"}})
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", env, err, want)
		}
	}
}
