package scrape

import (
	"errors"
	"fmt"
	"io"

	"github.com/md-exporter/md-exporter/normalize"
)

// copyBuffer is what a read holds of its body: little, since thousands may be in flight.
const copyBuffer = 8 << 10

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

// copy writes all of r to body. It returns errTooLarge where there is more than the limit, of which no
// byte over it is written.
func (c *Client) copy(body io.Writer, r io.Reader) error {
	buffer, ok := c.buffers.Get().(*[copyBuffer]byte)
	if !ok {
		buffer = new([copyBuffer]byte)
	}
	defer c.buffers.Put(buffer)
	for left := c.maxBody; ; {
		n, err := r.Read(buffer[:])
		if int64(n) > left {
			return errTooLarge
		}
		left -= int64(n)
		if _, err := body.Write(buffer[:n]); err != nil {
			return err
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}
