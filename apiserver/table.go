package apiserver

import (
	"context"
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "github.com/md-exporter/md-exporter/apiserver/v1"
	"github.com/md-exporter/md-exporter/normalize"
)

// columns are those of the table's one row.
var columns = []metav1.TableColumnDefinition{
	{Name: "Name", Type: "string", Format: "name", Description: "The model deployment."},
	{Name: "Pods", Type: "integer", Description: "The Pods that were read, routers' included."},
	{Name: "Partial", Type: "boolean", Description: "Whether a required source did not contribute."},
	{Name: "Running", Type: "string", Description: "Requests in the engines' running batches, over all roles."},
	{Name: "Waiting", Type: "string", Description: "Requests that wait for an engine, over all roles."},
	{Name: "Missing", Type: "integer", Description: "The sources that did not contribute."},
}

// scrapeSource is the source of the entry of a Pod that could not be read.
const scrapeSource = "scrape"

// table renders a document as a row for a person.
type table struct{}

// ConvertToTable implements rest.TableConvertor.
func (table) ConvertToTable(_ context.Context, object, options runtime.Object) (*metav1.Table, error) {
	m, ok := object.(*v1.ModelDeploymentMetrics)
	if !ok {
		return nil, fmt.Errorf("a table of %T", object)
	}
	t := &metav1.Table{Rows: []metav1.TableRow{{
		Cells: []any{
			m.Name,
			int64(podsRead(m)),
			m.Partial,
			sum(m.Processing, normalize.Running),
			sum(m.Queueing, normalize.Waiting),
			int64(len(m.Missing)),
		},
		Object: runtime.RawExtension{Object: m},
	}}}
	if o, ok := options.(*metav1.TableOptions); !ok || !o.NoHeaders {
		t.ColumnDefinitions = columns
	}
	return t, nil
}

// podsRead counts the Pods that were read: each has values or, for what it lacks, entries of other
// sources than its scrape.
func podsRead(m *v1.ModelDeploymentMetrics) int {
	read := map[string]bool{}
	for _, c := range m.CacheHits {
		read[c.Pod] = true
	}
	for _, list := range [][]v1.Sample{m.Latency, m.Traffic, m.Transfer} {
		for _, s := range list {
			read[s.Pod] = true
		}
	}
	for _, e := range m.Missing {
		if e.Pod != "" && e.Source != scrapeSource {
			read[e.Pod] = true
		}
	}
	return len(read)
}

// sum adds a field over its roles; one that no Pod supplied is no zero.
func sum(gauges []v1.Gauge, field normalize.Field) string {
	var total float64
	var known bool
	for _, g := range gauges {
		if g.Name == field {
			total, known = total+g.Value, true
		}
	}
	if !known {
		return "<unknown>"
	}
	return strconv.FormatFloat(total, 'f', -1, 64)
}
