package scrape

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/md-exporter/md-exporter/normalize"
)

// minBodyBuffer is the first allocation for a body of unknown length: a small engine's exposition.
const minBodyBuffer = 32 << 10

// wireReader reads a body as it is on the wire, up to a limit, and keeps the failure of the wire
// apart from the failures of what decodes it.
type wireReader struct {
	body io.Reader
	left int64 // may still be read
	err  error // of the wire or of the limit; nil at a clean end
}

func (w *wireReader) Read(p []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	// One byte more than the limit tells a body at the limit from one over it.
	if int64(len(p)) > w.left+1 {
		p = p[:w.left+1]
	}
	n, err := w.body.Read(p)
	if int64(n) > w.left {
		w.err = &Error{normalize.ResponseTooLarge, fmt.Errorf("%w on the wire", errTooLarge)}
		return int(w.left), w.err
	}
	w.left -= int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		w.err = err
	}
	return n, err
}

// fill reads all of r into buf, which is empty. It returns errTooLarge where there is more than limit
// bytes, and never makes the buffer larger than that and a byte. The hint is the expected length, or zero.
func fill(buf *bytes.Buffer, r io.Reader, hint, limit int64) error {
	if hint > 0 {
		reserve(buf, hint+1, limit)
	}
	for {
		if buf.Available() == 0 {
			reserve(buf, max(2*int64(buf.Cap()), minBodyBuffer), limit)
		}
		free := buf.AvailableBuffer()
		free = free[:min(int64(cap(free)), limit+1-int64(buf.Len()))]
		n, err := r.Read(free)
		buf.Write(free[:n])
		switch {
		case int64(buf.Len()) > limit:
			return errTooLarge
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// reserve makes the buffer's capacity size, though no more than a byte over the limit. The buffer's
// own growth would double it past that.
func reserve(buf *bytes.Buffer, size, limit int64) {
	size = min(size, limit+1)
	if int64(buf.Cap()) >= size {
		return
	}
	grown := make([]byte, buf.Len(), size)
	copy(grown, buf.Bytes())
	*buf = *bytes.NewBuffer(grown)
}
