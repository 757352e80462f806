package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/zkd-project/zkd/internal/vfs"
)

// Join is how a server joins a running ensemble without a configuration file.
type Join struct {
	// Dir is the data directory. It gets the files zoo.cfg and myid.
	Dir string
	// Advertise is the address of this server for others:
	// HOST[:QUORUMPORT:ELECTIONPORT][;CLIENTPORT]. The default ports are 2888, 3888 and
	// ClientPort.
	Advertise string
	// ClientPort is the port for clients; 0 means 2181.
	ClientPort int
	// ID is the id that this server must get; 0 means that of the file myid, or else that
	// of the member with this address, or else the lowest that no member has.
	ID int64
}

// File returns the name of the configuration file.
func (j *Join) File() string { return filepath.Join(j.Dir, "zoo.cfg") }

// Joined reports whether there is a configuration file from an earlier start.
func (j *Join) Joined() (bool, error) {
	_, err := os.Stat(j.File())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Save writes the configuration file and the file myid, if a server could start with them. The
// file has the present members, this server as an observer unless it is one of them, and the
// settings. After a crash there is the whole configuration file or none.
func (j *Join) Save(now Members, settings []Setting) error {
	all, id, err := j.members(now)
	if err != nil {
		return err
	}
	text, err := j.text(all, id, settings)
	if err != nil {
		return err
	}
	self := fmt.Sprint(id)
	if _, _, err := newLoader(readFile).load(text, j.File(), append(slices.Clone(settings), Override("zkd.myid", self))); err != nil {
		return err
	}
	var fsys vfs.OS
	if err := fsys.MkdirAll(j.Dir); err != nil {
		return err
	}
	if err := vfs.Replace(fsys, filepath.Join(j.Dir, "myid"), []byte(self+"\n"), ""); err != nil {
		return err
	}
	return vfs.Replace(fsys, j.File(), text, "")
}

// members returns the members with this server, and its id.
func (j *Join) members(now Members) (Members, int64, error) {
	self, problem := j.server()
	if problem != "" {
		return now, 0, fmt.Errorf("--advertise %s: %s; write it as HOST:QUORUMPORT:ELECTIONPORT;CLIENTPORT, such as zk4.example:2888:3888;2181", j.Advertise, problem)
	}
	wanted, err := j.wantedID()
	if err != nil {
		return now, 0, err
	}
	at := slices.IndexFunc(now.Servers, func(s Server) bool { return sameAddr(s.Addrs[0], self.Addrs[0]) })
	if at >= 0 && (wanted == 0 || wanted == now.Servers[at].ID) {
		return now, now.Servers[at].ID, nil // it was a member before it lost its data
	}
	if at >= 0 {
		return now, 0, fmt.Errorf("server.%d of the ensemble has the address %s: advertise another one, or, if this is that server, start it with --myid %[1]d and an empty data directory",
			now.Servers[at].ID, self.Addrs[0])
	}
	if other, used := now.Server(wanted); used {
		return now, 0, fmt.Errorf("id %d is in use: server.%[1]d of the ensemble is at %s; use another --myid, or remove that server from the ensemble first",
			wanted, other.Addrs[0])
	}
	self.ID = cmp.Or(wanted, lowestFree(now))
	change := Change{Joining: fmt.Sprintf("server.%d=%s", self.ID, self)}
	all, _, err := change.Apply(now, ChangeOptions{ExtendedTypes: true, MultiAddress: true})
	return all, self.ID, err
}

// server returns this server as an observer, without its id.
func (j *Join) server() (Server, string) {
	addr, client, given := strings.Cut(j.Advertise, ";")
	if fields, ok := splitHostPorts(addr); ok && len(fields) == 1 {
		addr += ":2888:3888"
	}
	if !given {
		client = strconv.Itoa(cmp.Or(j.ClientPort, 2181))
	}
	self, problem := parseServer(addr + ":observer;" + client)
	switch {
	case problem != "":
	case len(self.Addrs) > 1:
		problem = "it must be one address"
	case isWildcard(self.Addrs[0].Host):
		problem = "other servers can't connect to that address"
	}
	return self, problem
}

// wantedID returns the id that this server must have, 0 if any.
func (j *Join) wantedID() (int64, error) {
	l := newLoader(readFile)
	l.c.DataDir = j.Dir
	l.readMyID()
	file := max(l.c.MyID, 0)
	switch {
	case len(l.errs) > 0:
		return 0, l.errs
	case j.ID != 0 && file != 0 && j.ID != file:
		return 0, fmt.Errorf("the data in %s belongs to server %d, says its file myid, and --myid is %d", j.Dir, file, j.ID)
	}
	return cmp.Or(j.ID, file), nil
}

func sameAddr(a, b PeerAddr) bool {
	return comparableHost(a.Host) == comparableHost(b.Host) && a.QuorumPort == b.QuorumPort
}

func lowestFree(m Members) int64 {
	id := int64(1)
	for _, s := range m.Servers { // by id
		if s.ID == id {
			id++
		}
	}
	return id
}

// text returns the text of the configuration file, in which a setting replaces the default of
// its key. The port for clients is in the line of this server, unless that has none.
func (j *Join) text(all Members, id int64, settings []Setting) ([]byte, error) {
	l := newLoader(nil)
	props := []property{
		{key: "initLimit", value: "10"}, {key: "syncLimit", value: "5"},
		{key: "reconfigEnabled", value: "true"}, {key: "standaloneEnabled", value: "false"},
	}
	for _, s := range settings {
		props = append(props, s.p)
	}
	own, _ := all.Server(id)
	if self, _ := j.server(); own.Client.Port == 0 {
		props = append(props, property{key: "clientPort", value: strconv.Itoa(self.Client.Port)})
	}
	b := bytes.NewBufferString("# Written by zkd --join.\n")
	for _, p := range l.lastOfEach(append(props, property{key: "dataDir", value: j.Dir})) {
		if _, name, _ := l.row(p); name == "clientPort" && own.Client.Port != 0 || name == "zkd.myid" {
			continue
		}
		value, err := escapeValue(p.value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.key, err)
		}
		fmt.Fprintf(b, "%s=%s\n", p.key, value)
	}
	b.WriteString(all.Text())
	return b.Bytes(), nil
}
