package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/md-exporter/md-exporter/scrape"
)

// exposition is one body and where it is from.
type exposition struct {
	source string
	body   []byte
	// at is when it was read; of files only the time between two means anything.
	at time.Time
}

// stdin is how standard input is named.
const stdin = "-"

func isURL(source string) bool { return strings.Contains(source, "://") }

// validateSources finds what cannot be read, before anything is.
func validateSources(sources []string) error {
	for _, source := range sources {
		if !isURL(source) {
			continue
		}
		u, err := url.Parse(source)
		if err != nil {
			return err
		}
		if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return fmt.Errorf("%s is not an http or https URL", source)
		}
	}
	if len(sources) == 2 && sources[0] == stdin && sources[1] == stdin {
		return errors.New("standard input is one exposition: - is given twice")
	}
	return nil
}

// readExpositions reads one or two sources. The second of two URLs is read a window later; anything else
// is taken as that far apart.
func readExpositions(ctx context.Context, sources []string, window time.Duration, limit int64, client *scrape.Client, progress *progress) ([]exposition, error) {
	defer progress.clear()
	var all []exposition
	for i, source := range sources {
		waits := i > 0 && isURL(source) && isURL(sources[0])
		if waits {
			if err := wait(ctx, all[0].at.Add(window), progress); err != nil {
				return nil, err
			}
		}
		e := exposition{source: source}
		var err error
		if isURL(source) {
			e.body, err = fetch(ctx, client, source)
		} else {
			e.body, err = readFile(ctx, source, limit)
		}
		if err != nil {
			return nil, err
		}
		e.at = time.Now()
		if i > 0 && !waits {
			e.at = all[0].at.Add(window)
		}
		all = append(all, e)
	}
	return all, nil
}

// wait waits until then, and says so.
func wait(ctx context.Context, then time.Time, progress *progress) error {
	done := time.NewTimer(time.Until(then))
	defer done.Stop()
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		progress.say("Read once, again in %s", max(time.Until(then), 0).Round(time.Second))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-done.C:
			return nil
		case <-ticker.C:
		}
	}
}

func fetch(ctx context.Context, client *scrape.Client, source string) ([]byte, error) {
	var body bytes.Buffer
	if err := client.Get(ctx, source, &body); err != nil {
		return nil, fmt.Errorf("%s: %w", source, err)
	}
	return body.Bytes(), nil
}

// readFile reads a file or standard input whole. A pipe may never end: the read is left behind when the
// context ends, which is when the process does.
func readFile(ctx context.Context, path string, limit int64) ([]byte, error) {
	type result struct {
		body []byte
		err  error
	}
	done := make(chan result, 1)
	go func() {
		var in io.ReadCloser = os.Stdin
		if path != stdin {
			file, err := os.Open(path)
			if err != nil {
				done <- result{err: err}
				return
			}
			in = file
		}
		defer in.Close()
		body, err := io.ReadAll(io.LimitReader(in, limit+1))
		done <- result{body, err}
	}()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case r := <-done:
		if r.err == nil && int64(len(r.body)) > limit {
			return nil, fmt.Errorf("%s is over the limit of %d bytes that is read of a Pod (--scrape.max-body-bytes)", path, limit)
		}
		return r.body, r.err
	}
}
