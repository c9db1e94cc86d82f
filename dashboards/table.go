package dashboards

import (
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/table"
)

// column is a column of a table: a label's values, or a query's.
type column struct {
	title string
	// label is whose values the column has; empty for a query's.
	label string
	// expr is the query; empty for a label's. All queries of a table have the labels that make a row.
	expr string
	unit string
	// width in pixels; zero is what is left.
	width float64
	// values are the texts of values, steps their colors.
	values []named
	steps  []dashboard.Threshold
	// link is where a cell leads to.
	link string
}

// hidden is a query that brings labels into a table, and rows that no other query has.
func hidden(expr string) column { return column{expr: expr} }

// rows is a table panel with a row for each set of the labels that all its queries have. It is sorted
// by the first column named, descending where desc.
func rows(p panel, sortBy string, desc bool, columns ...column) panel {
	excluded, renamed, index := map[string]any{"Time": true}, map[string]any{}, map[string]any{}
	b := table.NewPanelBuilder().
		ShowHeader(true).
		CellHeight(common.TableCellHeightSm).
		Filterable(true).
		Footer(common.NewTableFooterOptionsBuilder().Show(false).Reducer([]string{})).
		SortBy([]cogSort{common.NewTableSortByFieldStateBuilder().DisplayName(sortBy).Desc(desc)})
	for _, c := range columns {
		if c.expr != "" {
			p.queries = append(p.queries, query{expr: c.expr})
		}
	}
	ref := 0
	for i, c := range columns {
		name := c.label
		if c.expr != "" {
			name = "Value"
			if len(p.queries) > 1 {
				name += " #" + string(rune('A'+ref))
			}
			ref++
		}
		if c.title == "" {
			excluded[name] = true
			continue
		}
		renamed[name], index[name] = c.title, i
		if properties := c.properties(); len(properties) > 0 {
			b.OverrideByName(c.title, properties)
		}
	}
	if len(p.queries) > 1 {
		b.WithTransformation(dashboard.DataTransformerConfig{Id: "merge", Options: map[string]any{}})
	}
	b.WithTransformation(dashboard.DataTransformerConfig{Id: "organize", Options: map[string]any{
		"excludeByName": excluded, "renameByName": renamed, "indexByName": index, "includeByName": map[string]any{},
	}})
	p.kind = kind{build: b.Build, instant: true, table: true}
	return p
}

func (c column) properties() []dashboard.DynamicConfigValue {
	var all []dashboard.DynamicConfigValue
	add := func(id string, value any) { all = append(all, dashboard.DynamicConfigValue{Id: id, Value: value}) }
	if c.unit != "" {
		add("unit", c.unit)
	}
	if c.width > 0 {
		add("custom.width", c.width)
	}
	if len(c.values) > 0 {
		add("mappings", []dashboard.ValueMapping{mapping(c.values...)})
		if c.values[0].color != "" {
			add("custom.cellOptions", map[string]any{"type": "color-text"})
		}
	}
	if len(c.steps) > 0 {
		add("thresholds", map[string]any{"mode": "absolute", "steps": c.steps})
		add("custom.cellOptions", map[string]any{"type": "color-text"})
	}
	if c.link != "" {
		add("links", []any{map[string]any{"title": "Open " + c.title, "url": c.link}})
	}
	return all
}
