package limits

import "github.com/zkd-project/zkd/jute"

// Groups returns what a client with these identities has in common with others: its address and its
// identities. See package fair.
func Groups(ids []jute.ID) []string {
	list := make([]string, 0, len(ids))
	for _, id := range ids {
		if id.Scheme == "ip" {
			id.ID = Network(id.ID)
		}
		list = append(list, id.Scheme+":"+id.ID)
	}
	return list
}
