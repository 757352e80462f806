package jute

import "fmt"

// OpCode is the type field of a request header.
type OpCode int32

// The operations (wire.md section 7).
const (
	OpCreateSession        OpCode = -10
	OpCloseSession         OpCode = -11
	OpError                OpCode = -1
	OpNotification         OpCode = 0
	OpCreate               OpCode = 1
	OpDelete               OpCode = 2
	OpExists               OpCode = 3
	OpGetData              OpCode = 4
	OpSetData              OpCode = 5
	OpGetACL               OpCode = 6
	OpSetACL               OpCode = 7
	OpGetChildren          OpCode = 8
	OpSync                 OpCode = 9
	OpPing                 OpCode = 11
	OpGetChildren2         OpCode = 12
	OpCheck                OpCode = 13
	OpMulti                OpCode = 14
	OpCreate2              OpCode = 15
	OpReconfig             OpCode = 16
	OpCheckWatches         OpCode = 17
	OpRemoveWatches        OpCode = 18
	OpCreateContainer      OpCode = 19
	OpDeleteContainer      OpCode = 20
	OpCreateTTL            OpCode = 21
	OpMultiRead            OpCode = 22
	OpAuth                 OpCode = 100
	OpSetWatches           OpCode = 101
	OpSASL                 OpCode = 102
	OpGetEphemerals        OpCode = 103
	OpGetAllChildrenNumber OpCode = 104
	OpSetWatches2          OpCode = 105
	OpAddWatch             OpCode = 106
	OpWhoAmI               OpCode = 107

	// zkd's own. Other servers do not know them, and close the connection.
	OpTransferLeader OpCode = 2001
	OpDrain          OpCode = 2002
	OpConfigure      OpCode = 2003
	OpCheckAbsent    OpCode = 2010
	OpCreateOrSet    OpCode = 2011
	OpDeleteTree     OpCode = 2012
	OpChildrenPage   OpCode = 2020
	OpSubscribe      OpCode = 2021
	OpCredit         OpCode = 2022
	OpUnsubscribe    OpCode = 2023
	OpSubtreePage    OpCode = 2024
	OpPast           OpCode = 2025
)

var opNames = map[OpCode]string{
	OpCreateSession:        "createSession",
	OpCloseSession:         "closeSession",
	OpError:                "error",
	OpNotification:         "notification",
	OpCreate:               "create",
	OpDelete:               "delete",
	OpExists:               "exists",
	OpGetData:              "getData",
	OpSetData:              "setData",
	OpGetACL:               "getACL",
	OpSetACL:               "setACL",
	OpGetChildren:          "getChildren",
	OpSync:                 "sync",
	OpPing:                 "ping",
	OpGetChildren2:         "getChildren2",
	OpCheck:                "check",
	OpMulti:                "multi",
	OpCreate2:              "create2",
	OpReconfig:             "reconfig",
	OpCheckWatches:         "checkWatches",
	OpRemoveWatches:        "removeWatches",
	OpCreateContainer:      "createContainer",
	OpDeleteContainer:      "deleteContainer",
	OpCreateTTL:            "createTTL",
	OpMultiRead:            "multiRead",
	OpAuth:                 "auth",
	OpSetWatches:           "setWatches",
	OpSASL:                 "sasl",
	OpGetEphemerals:        "getEphemerals",
	OpGetAllChildrenNumber: "getAllChildrenNumber",
	OpSetWatches2:          "setWatches2",
	OpAddWatch:             "addWatch",
	OpWhoAmI:               "whoAmI",
	OpTransferLeader:       "transferLeader",
	OpDrain:                "drain",
	OpConfigure:            "configure",
	OpCheckAbsent:          "checkAbsent",
	OpCreateOrSet:          "createOrSet",
	OpDeleteTree:           "deleteTree",
	OpChildrenPage:         "childrenPage",
	OpSubtreePage:          "subtreePage",
	OpPast:                 "past",
	OpSubscribe:            "subscribe",
	OpCredit:               "credit",
	OpUnsubscribe:          "unsubscribe",
}

func (op OpCode) String() string {
	if s, ok := opNames[op]; ok {
		return s
	}
	return fmt.Sprintf("OpCode(%d)", int32(op))
}

// Write reports whether op is ordered by the leader and logged. sync is ordered like a
// write but has no transaction, so Write returns false for it.
func (op OpCode) Write() bool {
	switch op {
	case OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL, OpDelete, OpDeleteContainer,
		OpSetData, OpSetACL, OpMulti, OpReconfig, OpCreateSession, OpCloseSession, OpTransferLeader:
		return true
	}
	return false
}
