package scrape

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/md-exporter/md-exporter/normalize"
)

// Error is why a read failed.
type Error struct {
	// Reason is the code, the same for every Pod that fails this way.
	Reason normalize.Reason
	// Err is what happened, with addresses and figures. It is for logs alone.
	Err error
}

// Error is the code and what happened.
func (e *Error) Error() string { return string(e.Reason) + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// ReasonOf is the reason of a read's error; empty for nil. Every error of a Client has one.
func ReasonOf(err error) normalize.Reason {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Reason
	}
	return normalize.ConnectionFailed
}

// errFetchLimit is the cause of a context that the fetch limit ended: the words in the log.
var errFetchLimit = errors.New("the limit of one read passed")

// limit is the time that one read has: the fetch limit or the caller's deadline, whichever is first.
type limit struct {
	ctx context.Context
	// passed is the reason once the time has run out, whichever of the two contexts' timers and the
	// network poller's, which keeps the same deadline, is heard first.
	passed normalize.Reason
}

// withLimit decides before the read whose deadline is the earlier, so that two timers that end
// together cannot race for the reason.
func withLimit(ctx context.Context, timeout time.Duration) (limit, context.CancelFunc) {
	end := time.Now().Add(timeout)
	if deadline, ok := ctx.Deadline(); ok && !deadline.After(end) {
		ctx, cancel := context.WithCancel(ctx)
		return limit{ctx, normalize.ScrapeDeadline}, cancel
	}
	ctx, cancel := context.WithDeadlineCause(ctx, end, errFetchLimit)
	return limit{ctx, normalize.Timeout}, cancel
}

// classify gives the error of a read its reason.
func (l limit) classify(err error) *Error {
	// What the response itself is was decided where it was read.
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{l.reason(err), err}
}

func (l limit) reason(err error) normalize.Reason {
	// Once the context has ended, whatever the connection said is an echo of that.
	ended := l.ctx.Err()
	switch {
	case errors.Is(ended, context.Canceled):
		return normalize.ScrapeDeadline
	case ended != nil, isTimeout(err):
		return l.passed
	case isTLS(err):
		return normalize.TLSFailed
	case strings.Contains(err.Error(), "response headers exceeded"):
		return normalize.ResponseTooLarge
	case isConnection(err):
		return normalize.ConnectionFailed
	}
	// What is left is net/http refusing what it read.
	return normalize.MalformedResponse
}

func isTimeout(err error) bool {
	netErr, ok := errors.AsType[net.Error](err)
	return ok && netErr.Timeout() || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, syscall.ETIMEDOUT)
}

func isTLS(err error) bool {
	if _, ok := errors.AsType[*handshakeError](err); ok {
		return true
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return true
	}
	// An alert of either side; crypto/tls has no other mark for it.
	opErr, ok := errors.AsType[*net.OpError](err)
	return ok && (opErr.Op == "remote error" || opErr.Op == "local error")
}

func isConnection(err error) bool {
	if _, ok := errors.AsType[*closedError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return true
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) {
		return true
	}
	// net/http has no exported value for these two: a connection that was closed while idle, and one
	// closed between the last chunk and the empty line behind it.
	text := err.Error()
	return strings.Contains(text, "server closed idle connection") ||
		strings.Contains(text, "unexpected EOF reading trailer")
}

// handshakeError is a TLS handshake that failed, or whose refusal came with the first read.
type handshakeError struct{ err error }

func (e *handshakeError) Error() string { return fmt.Sprintf("TLS handshake: %v", e.err) }
func (e *handshakeError) Unwrap() error { return e.err }

// closedError is an answer whose head was cut short by the end of the connection.
type closedError struct{ err error }

func (e *closedError) Error() string { return fmt.Sprintf("connection closed: %v", e.err) }
func (e *closedError) Unwrap() error { return e.err }
