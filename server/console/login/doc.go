// Package login stands between the console's pages and the HTTP API: it knows who a browser is. Somebody signs in once with a proof,
// a password or a token; the server keeps the proof in memory, and the browser has a cookie with a number that says nothing. Requests
// of the pages come here, and go to the API with the proof. Programs use the API itself, which has no cookies.
//
// # What a page of somebody else can't do
//
// A browser sends a cookie with each request for the server, also if a page of another origin has caused the request. So
//
//   - the cookie is SameSite=Strict, and over TLS it has the prefix __Host-: no other host can set it;
//   - each request has a header with a token of the session, which only a page of this origin can read, and can set;
//   - Origin, Sec-Fetch-Site and Host are checked as by the API: see api.CheckOrigin;
//   - the number is made at the sign-in, and is never one that came with a request.
//
// A session is bound to the certificate that the browser shows, if it shows one.
//
// # Goroutines and locks
//
// There are no goroutines but those of HTTP requests and timers. sessions.mu guards the table of sessions.
package login
