// Package scrape reads one Pod's metrics endpoint: a URL in, the decompressed body or a reason out.
//
// A read is bounded on every side: in time (the fetch limit and the caller's deadline, which are
// told apart), in bytes on the wire, in bytes after decompression, in header bytes and in idle
// connections. It sends no credentials, uses no proxy and follows no redirect but one to /metrics/
// on the same server. Every failure is one of the closed set of reasons in package normalize; what
// the network said in its own words stays in Error.Err, for logs.
package scrape
