// Package console serves the console: pages that show people what an ensemble does. They are a shell in HTML, modules of
// JavaScript and a style sheet, all in the directory assets, and are served as they are there; nothing is built. TypeScript can check the modules: JSDoc has the types that it can't infer. The browser asks the HTTP API and
// the AdminServer's commands for what it shows, as the visitor that it is. So this package knows nothing of servers.
//
// The modules are at a path with a hash of all of them. A browser keeps them for good, and never has some of one
// version and some of another.
package console
