package normalize

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// ErrMalformed is wrapped by every error of Table.Parse. It becomes MalformedResponse.
var ErrMalformed = errors.New("malformed exposition")

// Parse reads the table's series from the body of one exposition, in Prometheus's text format or
// OpenMetrics. All other series are skipped undecoded, so that the cost follows the body's bytes.
//
// A selected line that does not parse, and a body of non-blank lines none of which is an exposition
// line, are errors that wrap ErrMalformed: half a body is never used. An empty or comment-only body
// has every series absent.
func (t *Table) Parse(body []byte) (Values, error) {
	s := scanners.Get().(*scanner)
	defer scanners.Put(s)
	s.reset(t)
	if err := s.scan(body); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return s.values(), nil
}

var scanners = sync.Pool{New: func() any { return new(scanner) }}

// scanner holds what one Parse has selected. It is reused for its buffers.
type scanner struct {
	table   *Table
	samples []sample
	// labels backs the samples' label sets.
	labels []label
	// types are the metric types of the selected names, as the body's TYPE lines give them.
	types map[string]string
	// set and buffer are scratch of key.
	set    []label
	buffer []byte
}

// sample is one selected line.
type sample struct {
	name  sampleName
	value float64
	// labels are s.labels[first:last].
	first, last int
}

// label is a name and an unescaped value. It may point into the body.
type label struct{ name, value []byte }

func (s *scanner) reset(t *Table) {
	s.table = t
	s.samples = s.samples[:0]
	s.labels = s.labels[:0]
	if s.types == nil {
		s.types = map[string]string{}
	}
	clear(s.types)
}

// scan selects the table's lines.
func (s *scanner) scan(body []byte) error {
	var blank, exposition = true, false
	for len(body) > 0 {
		line := body
		if end := bytes.IndexByte(body, '\n'); end >= 0 {
			line, body = body[:end], body[end+1:]
		} else {
			body = nil
		}
		if len(line) > 0 && (line[0] == ' ' || line[0] == '\t' || line[0] == '\r') {
			line = bytes.TrimLeft(line, " \t\r")
		}
		if len(line) == 0 {
			continue
		}
		blank = false
		if line[0] == '#' {
			exposition = true
			s.comment(line)
			continue
		}
		name, selected := s.selects(line)
		if !selected {
			if !exposition {
				exposition = isSample(line)
			}
			continue
		}
		exposition = true
		if err := s.sample(name, line); err != nil {
			return err
		}
	}
	if !blank && !exposition {
		return errors.New("no line of the body is an exposition line")
	}
	return nil
}

// selects looks the line's name up among the table's.
func (s *scanner) selects(line []byte) (sampleName, bool) {
	prefix := s.table.prefix
	if len(line) < len(prefix) || string(line[:len(prefix)]) != prefix {
		return sampleName{}, false
	}
	name, selected := s.table.names[string(line[:nameEnd(line, len(prefix))])]
	return name, selected
}

// nameEnd is the end of the metric name that the line starts with, looked for from an offset on.
func nameEnd(line []byte, from int) int {
	for i := from; i < len(line); i++ {
		if c := line[i]; c == '{' || c <= ' ' {
			return i
		}
	}
	return len(line)
}

// comment keeps the TYPE lines of the table's names: the first of each name stands.
func (s *scanner) comment(line []byte) {
	rest, found := bytes.CutPrefix(bytes.TrimLeft(line[1:], " \t"), []byte("TYPE"))
	if !found || len(rest) == 0 || rest[0] != ' ' && rest[0] != '\t' {
		return
	}
	rest = bytes.TrimLeft(rest, " \t")
	end := nameEnd(rest, 0)
	if _, selected := s.table.types[string(rest[:end])]; !selected {
		return
	}
	if _, twice := s.types[string(rest[:end])]; !twice {
		s.types[string(rest[:end])] = strings.ToLower(string(bytes.TrimSpace(rest[end:])))
	}
}

// sample decodes a selected line. A value that is not finite and non-negative is no sample.
func (s *scanner) sample(name sampleName, line []byte) error {
	first := len(s.labels)
	value, labels, err := parseSample(line, s.labels)
	if err != nil {
		return err
	}
	if math.IsNaN(value) || math.IsInf(value, 0) || value < 0 {
		return nil
	}
	s.labels = labels
	s.samples = append(s.samples, sample{name: name, value: value, first: first, last: len(labels)})
	return nil
}

// isSample reports whether a line of a series that is not read is an exposition line at all.
func isSample(line []byte) bool {
	_, _, err := parseSample(line, nil)
	return err == nil
}

// parseSample decodes one line: name{label="value",…} value [timestamp] [# exemplar]. The
// labels are appended to labels. What it accepts beyond expfmt is what DESIGN §3 allows: trailing
// blanks and a carriage return, float timestamps, exemplars.
func parseSample(line []byte, labels []label) (float64, []label, error) {
	end := 0
	for end < len(line) && isNameByte(line[end], end) {
		end++
	}
	if end == 0 {
		return 0, nil, errors.New("no metric name")
	}
	name, rest := line[:end], trimBlank(line[end:])
	switch {
	case len(rest) > 0 && rest[0] == '{':
		var err error
		if labels, rest, err = parseLabels(rest[1:], labels); err != nil {
			return 0, nil, fmt.Errorf("%s: %w", name, err)
		}
	case len(rest) == len(line)-end:
		return 0, nil, fmt.Errorf("%.64q: neither labels nor a blank behind the name", line)
	}
	value, rest := token(rest)
	v, err := parseFloat(value)
	if err != nil {
		return 0, nil, fmt.Errorf("%s: value: %w", name, err)
	}
	if timestamp, behind := token(rest); len(timestamp) > 0 && timestamp[0] != '#' {
		if _, err := parseFloat(timestamp); err != nil {
			return 0, nil, fmt.Errorf("%s: timestamp: %w", name, err)
		}
		rest = behind
	}
	if rest = trimBlank(rest); len(rest) > 0 && rest[0] != '#' {
		return 0, nil, fmt.Errorf("%s: more than a value and a timestamp", name)
	}
	return v, labels, nil
}

// parseLabels decodes what stands behind the opening brace, and returns what stands behind the closing one.
func parseLabels(in []byte, labels []label) ([]label, []byte, error) {
	first := len(labels)
	for {
		in = trimBlank(in)
		if len(in) > 0 && in[0] == '}' {
			return labels, in[1:], nil
		}
		end := 0
		for end < len(in) && in[end] != ':' && isNameByte(in[end], end) {
			end++
		}
		name := in[:end]
		if end == 0 || string(name) == "__name__" {
			return nil, nil, errors.New("invalid label name")
		}
		if in = trimBlank(in[end:]); len(in) == 0 || in[0] != '=' {
			return nil, nil, errors.New("no = behind a label name")
		}
		if in = trimBlank(in[1:]); len(in) == 0 || in[0] != '"' {
			return nil, nil, errors.New("label value is not quoted")
		}
		value, rest, err := unquote(in[1:])
		if err != nil {
			return nil, nil, err
		}
		for _, l := range labels[first:] {
			if bytes.Equal(l.name, name) {
				return nil, nil, errors.New("label name twice")
			}
		}
		labels = append(labels, label{name, value})
		in = trimBlank(rest)
		if len(in) == 0 || in[0] != ',' && in[0] != '}' {
			return nil, nil, errors.New("neither , nor } behind a label value")
		}
		if in[0] == ',' {
			in = in[1:]
		}
	}
}

// unquote decodes a label value behind its opening quote, and returns what stands behind the closing
// one. A value without escapes is a part of the line.
func unquote(in []byte) (value, rest []byte, err error) {
	end := bytes.IndexByte(in, '"')
	if end < 0 {
		return nil, nil, errors.New("label value is not closed")
	}
	if bytes.IndexByte(in[:end], '\\') < 0 {
		value, rest = in[:end], in[end+1:]
	} else {
		for i := 0; ; i++ {
			if i == len(in) {
				return nil, nil, errors.New("label value is not closed")
			}
			c := in[i]
			if c == '"' {
				rest = in[i+1:]
				break
			}
			if c == '\\' {
				if i++; i == len(in) {
					return nil, nil, errors.New("label value is not closed")
				}
				switch c = in[i]; c {
				case '\\', '"':
				case 'n':
					c = '\n'
				default:
					return nil, nil, errors.New("invalid escape in a label value")
				}
			}
			value = append(value, c)
		}
	}
	if !utf8.Valid(value) {
		return nil, nil, errors.New("label value is not UTF-8")
	}
	return value, rest, nil
}

// parseFloat reads a number as Prometheus does: as Go, without hexadecimal floats and underscores.
func parseFloat(b []byte) (float64, error) {
	if bytes.ContainsAny(b, "pP_") {
		return 0, fmt.Errorf("%.64q is no number", b)
	}
	return strconv.ParseFloat(string(b), 64)
}

// token cuts the next word off, blanks before it skipped.
func token(in []byte) (word, rest []byte) {
	in = trimBlank(in)
	end := 0
	for end < len(in) && !isBlank(in[end]) {
		end++
	}
	return in[:end], in[end:]
}

func trimBlank(in []byte) []byte {
	for len(in) > 0 && isBlank(in[0]) {
		in = in[1:]
	}
	return in
}

// isBlank counts the carriage return of a CRLF line end as a blank.
func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\r' }

func isNameByte(c byte, at int) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == ':' || c >= '0' && c <= '9' && at > 0
}
