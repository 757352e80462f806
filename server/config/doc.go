// Package config reads zoo.cfg, the configuration file of ZooKeeper, and turns
// it into a typed Config.
//
// # The file
//
// The syntax is that of Java's .properties files: key=value with backslash
// escapes, continued lines and ISO-8859-1 text. A key that is given twice keeps
// its last value. See properties.go for the details.
//
// # The keys
//
// One table (keys_*.go) defines every key: its value's range, unit and default, and
// whether zkd honours it, accepts and ignores it, or reserves it for a future feature.
// docs/configuration.md is generated from that table. To add a key, add a field to Config
// and a row to the table.
//
// Every key may be written with or without the prefix "zookeeper.", because Apache's
// documentation uses both. A few keys also accept the name that the documentation gives
// them and that does not work in Apache's server.
//
// # Changes of the members
//
// Change.Apply computes the members that follow from a reconfig request. SaveMembers writes
// them to the file that zoo.cfg names in dynamicConfigFile, after which Load returns them.
//
// # Errors
//
// A known key with a bad value, and settings that contradict each other, are errors; all
// of them are reported together, as Errors. An unknown key, a duplicate and a key without
// effect are warnings: they never stop a server, since Apache's server silently passes
// such keys on.
//
// # Purity
//
// The package has no state. It reads the given file, the files that the configuration
// names (dynamicConfigFile, zkd.quorumSecretFile, the PEM files of ssl.quorum.*) and the
// myid file. Only SaveMembers writes: a file of members, and its name into zoo.cfg. It must
// not run twice at a time for one file; everything else may be used from any goroutine.
package config
