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

// Parse reads the table's series from the body of one exposition: a Parser that is given all at once.
func (t *Table) Parse(body []byte) (Values, error) {
	p := t.NewParser()
	p.scan(body, true)
	return p.Values()
}

// Parser reads the table's series from one exposition as it arrives, in Prometheus's text format or
// OpenMetrics. All other series are skipped undecoded, so that the cost follows the body's bytes and
// the memory its longest line.
type Parser struct {
	table   *Table
	samples []sample
	// labels backs the samples' label sets; lines what those point into.
	labels []label
	lines  []byte
	// types are the metric types of the selected names, as the body's TYPE lines give them.
	types map[string]string
	// tail is the line that the body so far ends in.
	tail []byte
	// content and exposition tell whether there was a line that is neither blank nor a comment, and one
	// that is a sample.
	content, exposition bool
	err                 error
	// set and buffer are scratch of key.
	set    []label
	buffer []byte
	// explanation is nil where none is asked for.
	explanation *explanation
}

var parsers = sync.Pool{New: func() any { return &Parser{types: map[string]string{}} }}

// maxKept bounds the buffers that a parser is reused with.
const maxKept = 64 << 10

// NewParser returns a parser for one body.
func (t *Table) NewParser() *Parser {
	p := parsers.Get().(*Parser)
	p.table = t
	return p
}

// Write takes the next part of the body. It never fails: what is wrong with the body is Values' error.
func (p *Parser) Write(part []byte) (int, error) {
	p.scan(part, false)
	return len(part), nil
}

// Values ends the body and returns what it supplies; the parser must not be used any more.
//
// A selected line that does not parse, and a body whose lines are no samples (a page, a message, JSON:
// a "#" at the start of one of them makes it no exposition), are errors that wrap ErrMalformed: half a
// body is never used. An empty or comment-only body has every series absent.
func (p *Parser) Values() (Values, error) {
	p.scan(nil, true)
	defer p.release()
	switch {
	case p.err != nil:
		return nil, fmt.Errorf("%w: %w", ErrMalformed, p.err)
	case p.content && !p.exposition:
		return nil, fmt.Errorf("%w: no line of the body is an exposition line", ErrMalformed)
	}
	return p.values(), nil
}

// release hands the parser's buffers on.
func (p *Parser) release() {
	if cap(p.tail)+cap(p.lines) > maxKept || cap(p.samples) > maxKept/64 {
		return
	}
	clear(p.types)
	*p = Parser{
		samples: p.samples[:0], labels: p.labels[:0], lines: p.lines[:0], types: p.types,
		tail: p.tail[:0], set: p.set[:0], buffer: p.buffer[:0],
	}
	parsers.Put(p)
}

// sample is one selected line.
type sample struct {
	name  sampleName
	value float64
	// labels are the parser's labels[first:last].
	first, last int32
	// index is the sample's place in the explanation.
	index int32
}

// label is a name and an unescaped value.
type label struct{ name, value []byte }

// scan takes the lines of a part of the body; the last part's last line needs no end.
func (p *Parser) scan(part []byte, last bool) {
	for len(part) > 0 {
		end := bytes.IndexByte(part, '\n')
		if end < 0 {
			p.tail = append(p.tail, part...)
			break
		}
		line := part[:end]
		if len(p.tail) > 0 {
			p.tail = append(p.tail, line...)
			line = p.tail
		}
		p.line(line)
		p.tail = p.tail[:0]
		part = part[end+1:]
	}
	if last && len(p.tail) > 0 {
		p.line(p.tail)
		p.tail = p.tail[:0]
	}
}

// line selects the table's lines.
func (p *Parser) line(line []byte) {
	if len(line) > 0 && isBlank(line[0]) {
		line = trimBlank(line)
	}
	if len(line) == 0 || p.err != nil {
		return
	}
	if line[0] == '#' {
		p.comment(line)
		return
	}
	p.content = true
	name, selected := p.selects(line)
	if !selected {
		if !p.exposition {
			p.exposition = isSample(line)
		}
		return
	}
	p.exposition = true
	p.err = p.sample(name, line)
}

// selects looks the line's name up among the table's.
func (p *Parser) selects(line []byte) (sampleName, bool) {
	prefix := p.table.prefix
	if len(line) < len(prefix) || string(line[:len(prefix)]) != prefix {
		return sampleName{}, false
	}
	name, selected := p.table.names[string(line[:nameEnd(line, len(prefix))])]
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

// comment keeps the TYPE lines of the table's names: the first of each name stands. A TYPE line is no
// selected line: one without a type says nothing, and no row takes samples of a type that is unknown.
func (p *Parser) comment(line []byte) {
	rest, found := bytes.CutPrefix(bytes.TrimLeft(line[1:], " \t"), []byte("TYPE"))
	if !found || len(rest) == 0 || !isBlank(rest[0]) {
		return
	}
	rest = trimBlank(rest)
	end := nameEnd(rest, 0)
	if _, selected := p.table.types[string(rest[:end])]; !selected {
		return
	}
	if _, twice := p.types[string(rest[:end])]; !twice {
		p.types[string(rest[:end])] = strings.ToLower(string(bytes.TrimSpace(rest[end:])))
	}
}

// sample decodes a selected line. A value that is not finite and non-negative is no sample.
func (p *Parser) sample(name sampleName, line []byte) error {
	start := len(p.lines)
	p.lines = append(p.lines, line...)
	first := len(p.labels)
	value, labels, err := parseSample(p.lines[start:], p.labels)
	if err != nil {
		return err
	}
	index := p.explanation.add(name, line, labels[first:], value)
	if math.IsNaN(value) || math.IsInf(value, 0) || value < 0 {
		return nil
	}
	p.labels = labels
	p.samples = append(p.samples, sample{
		name: name, value: value, first: int32(first), last: int32(len(labels)), index: index,
	})
	return nil
}

// isSample reports whether a line of a series that is not read is an exposition line at all: one whose
// name stands quoted within the braces is, too.
func isSample(line []byte) bool {
	if quoted, found := bytes.CutPrefix(line, []byte(`{"`)); found {
		_, rest, err := unquote(quoted)
		if rest = trimBlank(rest); err != nil || len(rest) == 0 || rest[0] != ',' && rest[0] != '}' {
			return false
		}
		line = append([]byte("quoted{"), bytes.TrimPrefix(rest, []byte(","))...)
	}
	_, _, err := parseSample(line, nil)
	return err == nil
}

// parseSample decodes one line: name{label="value",…} value [timestamp] [# exemplar]. The
// labels are appended to labels. What it accepts beyond expfmt is what engines send all the same: trailing
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
	if !isExemplar(trimBlank(rest)) {
		return 0, nil, fmt.Errorf("%s: more than a value and a timestamp", name)
	}
	return v, labels, nil
}

// isExemplar reports whether what stands behind a sample is nothing, or an exemplar of OpenMetrics:
// # {label="value",…} value [timestamp].
func isExemplar(in []byte) bool {
	if len(in) == 0 {
		return true
	}
	in, found := bytes.CutPrefix(in, []byte("#"))
	if in = trimBlank(in); !found || len(in) == 0 || in[0] != '{' {
		return false
	}
	_, in, err := parseLabels(in[1:], nil)
	if err != nil {
		return false
	}
	value, in := token(in)
	if _, err := parseFloat(value); err != nil {
		return false
	}
	timestamp, in := token(in)
	if _, err := parseFloat(timestamp); err != nil && len(timestamp) > 0 {
		return false
	}
	return len(trimBlank(in)) == 0
}

// fewLabels is how many names of a label set are compared with each other one by one.
const fewLabels = 16

// nameTwice reports whether a name is among the labels more than once.
func nameTwice(labels []label) bool {
	seen := make(map[string]struct{}, len(labels))
	for _, l := range labels {
		seen[string(l.name)] = struct{}{}
	}
	return len(seen) < len(labels)
}

// parseLabels decodes what stands behind the opening brace, and returns what stands behind the closing one.
func parseLabels(in []byte, labels []label) ([]label, []byte, error) {
	first := len(labels)
	for {
		in = trimBlank(in)
		if len(in) > 0 && in[0] == '}' {
			if len(labels)-first > fewLabels && nameTwice(labels[first:]) {
				return nil, nil, errors.New("label name twice")
			}
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
		for _, l := range labels[first:min(len(labels), first+fewLabels)] {
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
