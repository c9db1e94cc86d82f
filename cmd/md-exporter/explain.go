package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/md-exporter/md-exporter/normalize"
)

// maxSamples bounds the samples of one fate that are written out.
const maxSamples = 12

// explanation is what is said of the last of the expositions.
type explanation struct {
	shape    shape
	guess    string
	bodies   []exposition
	outcomes []normalize.Outcome
	// earlier are the outcomes of the first of two expositions, for their inputs.
	earlier []normalize.Outcome
	reads   []normalize.SeriesRead
}

// explain reads the bodies as one Pod's.
func (f *inspectFlags) explain(s shape, bodies []exposition) (*explanation, error) {
	e := &explanation{shape: s, bodies: bodies}
	var history normalize.History
	for _, b := range bodies {
		values, reads, err := s.table().Explain(b.body)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", names([]exposition{b}), err)
		}
		// The first of two is the second's baseline, however far apart they are.
		config := normalize.WindowConfig{MaxAge: b.at.Sub(bodies[0].at) + 1}
		result := history.Observe(&s.deployment, &s.pod, values, b.at, config)
		e.earlier, e.outcomes = e.outcomes, normalize.Outcomes(&s.deployment, values, result)
		e.reads = reads
	}
	return e, nil
}

// print writes the fields and then their series.
func (e *explanation) print(w io.Writer) {
	fmt.Fprintf(w, "%s: %s\n", plain(names(e.bodies)), e.shape.String())
	if e.guess != "" {
		fmt.Fprintln(w, strings.TrimSpace(e.guess))
	}
	if len(e.bodies) == 1 {
		fmt.Fprintln(w, "One exposition: cache hits, means and rates need a second one of the same Pod.")
	} else {
		apart := e.bodies[1].at.Sub(e.bodies[0].at)
		fmt.Fprintf(w, "Two expositions, %s apart: values are those of the second, windows those between them.\n", length(apart))
		if apart > normalize.DefaultWindowMaxAge {
			fmt.Fprintf(w, "The exporter takes no window longer than %s, unless --window.max-age says otherwise.\n", length(normalize.DefaultWindowMaxAge))
		}
	}
	fields := newTable("FIELDS", "FIELD", "VALUE", "SOURCE", "WHY")
	for _, o := range e.outcomes {
		value, why := describeOutcome(o)
		fields.add(string(o.Field), value, o.Source, why)
	}
	fields.print(w)
	fmt.Fprintf(w, "\nSERIES\n")
	for _, read := range e.reads {
		e.printSeries(w, read)
	}
}

// describeOutcome is a field's value, or that it has none, and how it came to be.
func describeOutcome(o normalize.Outcome) (value, why string) {
	unit := o.Field.Info().Unit
	switch {
	case o.Gauge != nil:
		return number(o.Gauge.Value) + " " + unit, "now"
	case o.Cache != nil:
		c := o.Cache
		return percent(c.Rate), fmt.Sprintf("%s of %s %s found in %s", number(c.Hits), number(c.Queries), unit, length(c.Window))
	case o.Sample != nil:
		v := o.Sample
		return number(v.Value) + " " + unit, fmt.Sprintf("%s samples in %s", number(v.Samples), length(v.Window))
	case o.Reason != "":
		return "missing", string(o.Reason) + ": " + o.Reason.Sentence()
	}
	return "not read", o.Elsewhere
}

// printSeries writes one series: whose it is, its values, and its samples by what became of them.
func (e *explanation) printSeries(w io.Writer, read normalize.SeriesRead) {
	var fields []string
	for _, o := range e.outcomes {
		if slices.Contains(o.Series, read.Series) {
			name := string(o.Field)
			if o.Elsewhere != "" {
				name += " (not read)"
			}
			fields = append(fields, name)
		}
	}
	head := []string{"for " + strings.Join(fields, ", ")}
	if read.Type != "" {
		head = append(head, "TYPE "+read.Type)
	}
	if len(read.Samples) == 0 {
		head = append(head, "not in the exposition")
	} else {
		head = append(head, fmt.Sprintf("%d of %d samples counted", count(read.Samples, normalize.Counted), len(read.Samples)))
	}
	fmt.Fprintf(w, "  %s: %s\n", read.Series, plain(strings.Join(head, "; ")))
	for _, line := range e.inputs(read.Series) {
		fmt.Fprintf(w, "    %s\n", line)
	}
	common := commonLabels(read.Samples)
	if len(common) > 0 {
		fmt.Fprintf(w, "    every sample has %s\n", labelSet(common, nil))
	}
	for _, fate := range normalize.Fates() {
		n := count(read.Samples, fate)
		if n == 0 {
			continue
		}
		fmt.Fprintf(w, "    %s:\n", fate.Sentence())
		shown := 0
		for _, a := range read.Samples {
			if a.Fate != fate {
				continue
			}
			if shown++; shown > maxSamples {
				fmt.Fprintf(w, "      and %d more\n", n-maxSamples)
				break
			}
			fmt.Fprintf(w, "      %s %s\n", sampleName(a, read.Series, common), exact(a.Value))
		}
	}
}

// inputs are the numbers that the fields are computed from, each once.
func (e *explanation) inputs(series string) []string {
	var lines []string
	for i, o := range e.outcomes {
		if !slices.Contains(o.Series, series) {
			continue
		}
		for j, in := range o.Inputs {
			if name, _, _ := strings.Cut(in.Series, "{"); !in.Present || name != series && name != series+"_sum" && name != series+"_count" {
				continue
			}
			line := strings.TrimSpace(strings.TrimPrefix(in.Series, series)+" = ") + " " + exact(in.Value)
			if e.earlier != nil {
				if before := e.earlier[i].Inputs[j]; before.Present {
					line += ", before " + exact(before.Value)
				} else {
					line += ", absent before"
				}
			}
			if !slices.Contains(lines, line) {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

// exact is the number with all its digits.
func exact(v float64) string {
	if math.Abs(v) < 1e15 {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// sampleName tells the sample from its series' others.
func sampleName(a normalize.SampleRead, series string, common []normalize.Label) string {
	name := strings.TrimPrefix(a.Name, series) + labelSet(a.Labels, common)
	if name == "" {
		return "{}"
	}
	return name
}

func count(samples []normalize.SampleRead, fate normalize.Fate) int {
	n := 0
	for _, a := range samples {
		if a.Fate == fate {
			n++
		}
	}
	return n
}

// commonLabels are those that several samples all have.
func commonLabels(samples []normalize.SampleRead) []normalize.Label {
	if len(samples) < 2 {
		return nil
	}
	common := slices.Clone(samples[0].Labels)
	for _, a := range samples[1:] {
		common = slices.DeleteFunc(common, func(l normalize.Label) bool { return !slices.Contains(a.Labels, l) })
	}
	return common
}

// labelSet writes the labels as an exposition has them, but for the common ones.
func labelSet(labels, common []normalize.Label) string {
	var pairs []string
	for _, l := range labels {
		if !slices.Contains(common, l) {
			pairs = append(pairs, l.Name+"="+strconv.Quote(l.Value))
		}
	}
	if len(pairs) == 0 {
		return ""
	}
	return "{" + strings.Join(pairs, ",") + "}"
}
