// Package admin serves the commands of Apache's AdminServer over HTTP, with its names and
// its JSON, and the pages by which a platform asks for a server's health.
//
//	GET /                  an overview for people
//	GET /commands          links to all commands
//	GET /commands/monitor  a command, by its name or one of its aliases
//	GET /livez             200 if the process makes progress
//	GET /readyz            200 if this server serves clients now
//	GET /healthz           both; ?verbose lists each check with its reason
//
// The commands show the same data as the four-letter words, from a show.View.
// Those that change something need an identity with all permissions on the root: see
// Options.Authorize. Headers that a proxy adds are ignored.
//
// A Handler keeps nothing between requests, and may serve any number at the same time.
package admin
