// Package lint has the rules that only this project has, as tests. They read
// the source, and need no network.
//
//   - policy_test.go: who may import whom. A new package or a new module needs
//     a line there.
//   - rules_test.go: what may not stand in a file, with the reason.
//   - docs_test.go: what the documents say must be so: links lead somewhere,
//     tests and make targets that they name exist, metrics are explained,
//     goroutines are in the table.
//   - seeds_test.go: docs/dev/seeds.md has each row, and what it promises exists.
//   - clientdeps_test.go: the client imports what docs/client.md says, and is
//     not large.
//   - static_linux_test.go: the programs need no library.
//   - systems_test.go: the programs and the client fit macOS, the client and
//     zkcli Windows.
//
// A message says what to do instead. Where a rule is wrong for a good reason,
// change the rule in the same commit and say why.
package lint
