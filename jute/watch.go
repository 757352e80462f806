package jute

// WatcherEvent is the body of a notification. Its reply header has XidNotification.
type WatcherEvent struct {
	Type  EventType
	State KeeperState // StateSyncConnected
	Path  string
}

func (r *WatcherEvent) Append(b []byte) []byte {
	b = AppendInt32(b, r.Type)
	b = AppendInt32(b, r.State)
	return AppendString(b, r.Path)
}

func (r *WatcherEvent) Decode(d *Decoder) {
	r.Type = EventType(d.Int32())
	r.State = KeeperState(d.Int32())
	r.Path = d.String()
}

// SetWatchesRequest is the body of setWatches and, with the last two lists, of
// setWatches2. A client sends it after it reconnects: the server sends at once the events
// for changes since RelativeZxid, and sets the other watches again.
type SetWatchesRequest struct {
	RelativeZxid        Zxid
	Data, Exist, Child  []string
	Persistent          []string // setWatches2
	PersistentRecursive []string // setWatches2
}

// Append appends the record of setWatches.
func (r *SetWatchesRequest) Append(b []byte) []byte {
	b = AppendInt64(b, r.RelativeZxid)
	b = AppendStrings(b, r.Data)
	b = AppendStrings(b, r.Exist)
	return AppendStrings(b, r.Child)
}

// Append2 appends the record of setWatches2.
func (r *SetWatchesRequest) Append2(b []byte) []byte {
	b = r.Append(b)
	b = AppendStrings(b, r.Persistent)
	return AppendStrings(b, r.PersistentRecursive)
}

// Decode reads the record of setWatches. A null list is an error.
func (r *SetWatchesRequest) Decode(d *Decoder) {
	r.RelativeZxid = Zxid(d.Int64())
	r.Data = d.notNullStrings()
	r.Exist = d.notNullStrings()
	r.Child = d.notNullStrings()
	r.Persistent, r.PersistentRecursive = nil, nil
}

// Decode2 reads the record of setWatches2. A null list is an error.
func (r *SetWatchesRequest) Decode2(d *Decoder) {
	r.Decode(d)
	r.Persistent = d.notNullStrings()
	r.PersistentRecursive = d.notNullStrings()
}

// AddWatchRequest is the body of addWatch. Its response is an ErrorResponse.
type AddWatchRequest struct {
	Path string
	Mode AddWatchMode
}

func (r *AddWatchRequest) Append(b []byte) []byte {
	return AppendInt32(AppendString(b, r.Path), r.Mode)
}

// Decode reads the record. An unknown mode is an error.
func (r *AddWatchRequest) Decode(d *Decoder) {
	r.Path = d.String()
	r.Mode = AddWatchMode(d.Int32())
	if r.Mode != AddPersistent && r.Mode != AddPersistentRecursive {
		d.failValue("addWatch mode", int32(r.Mode))
	}
}

// RemoveWatchesRequest is the body of removeWatches and checkWatches.
type RemoveWatchesRequest struct {
	Path string
	Type WatchType
}

func (r *RemoveWatchesRequest) Append(b []byte) []byte {
	return AppendInt32(AppendString(b, r.Path), r.Type)
}

// Decode reads the record. An unknown watch type is an error.
func (r *RemoveWatchesRequest) Decode(d *Decoder) {
	r.Path = d.String()
	r.Type = WatchType(d.Int32())
	if r.Type < WatchChildren || r.Type > WatchPersistentRecursive {
		d.failValue("watch type", int32(r.Type))
	}
}
