package collector

import (
	"bufio"
	"compress/gzip"
	"net/http"
	"strings"

	"github.com/prometheus/common/expfmt"
)

// replyBuffer is what is written to a client at once.
const replyBuffer = 32 << 10

// reply is a body of metric families in the format that the request asks for, compressed where it
// takes that. It is written as it is made.
type reply struct {
	expfmt.Encoder
	buffer *bufio.Writer
	// gzip is nil for an answer that is not compressed.
	gzip *gzip.Writer
}

// newReply begins one of status 200.
func newReply(w http.ResponseWriter, r *http.Request) *reply {
	format := expfmt.NegotiateAccept(r.Header, expfmt.DefaultAcceptedFormats()...)
	header := w.Header()
	header.Set("Content-Type", string(format))
	header.Set("Vary", "Accept, Accept-Encoding")
	a := &reply{}
	if acceptsGzip(r.Header) {
		header.Set("Content-Encoding", "gzip")
		// An exposition repeats itself so much that the fastest level takes most of it.
		a.gzip, _ = gzip.NewWriterLevel(w, gzip.BestSpeed) // the level is valid
		a.buffer = bufio.NewWriterSize(a.gzip, replyBuffer)
	} else {
		a.buffer = bufio.NewWriterSize(w, replyBuffer)
	}
	a.Encoder = expfmt.NewEncoder(a.buffer, format)
	return a
}

// Close ends the answer.
func (r *reply) Close() error {
	if err := r.buffer.Flush(); err != nil || r.gzip == nil {
		return err
	}
	return r.gzip.Close()
}

// acceptsGzip reports whether a request takes a gzip answer.
func acceptsGzip(header http.Header) bool {
	for offer := range strings.SplitSeq(strings.Join(header.Values("Accept-Encoding"), ","), ",") {
		coding, weight, _ := strings.Cut(offer, ";")
		if strings.EqualFold(strings.TrimSpace(coding), "gzip") {
			_, q, _ := strings.Cut(strings.ReplaceAll(weight, " ", ""), "q=")
			return strings.Trim(q, "0.") != "" || q == ""
		}
	}
	return false
}
