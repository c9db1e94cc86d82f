package dashboards

import (
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/variants"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/statetimeline"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
	"github.com/grafana/grafana-foundation-sdk/go/units"
)

// query is one query of a panel.
type query struct {
	expr string
	// legend names a series in a graph; a table needs none.
	legend string
}

// panel is what every panel of these dashboards is made from.
type panel struct {
	title string
	// text says what is to be seen; which series, fields and sources that is, is added to it.
	text          string
	unit          string
	width, height uint32
	queries       []query
	// repeat is the variable for whose every value the panel stands once, side by side.
	repeat string
	// noValue is what stands in place of a value that was not measured, where something must.
	noValue string
	// kind makes the Grafana panel, without what is said above.
	kind kind
}

// kind is how a panel shows its values.
type kind struct {
	build func() (dashboard.Panel, error)
	// instant asks for values of now alone, table for rows instead of series.
	instant, table bool
}

// Build implements cog.Builder.
func (p panel) Build() (dashboard.Panel, error) {
	built, err := p.kind.build()
	if err != nil {
		return built, fmt.Errorf("panel %q: %w", p.title, err)
	}
	description := p.text + "\n\n" + provenance(p.queries)
	source := datasource()
	built.Title, built.Description, built.Datasource = &p.title, &description, &source
	built.GridPos = &dashboard.GridPos{W: p.width, H: p.height}
	built.FieldConfig.Defaults.Unit = &p.unit
	if p.noValue != "" {
		built.FieldConfig.Defaults.NoValue = &p.noValue
	}
	if p.repeat != "" {
		direction, most := dashboard.PanelRepeatDirectionH, 4.0
		built.Repeat, built.RepeatDirection, built.MaxPerRow = &p.repeat, &direction, &most
	}
	for i, q := range p.queries {
		target, err := q.target(string(rune('A'+i)), p.kind)
		if err != nil {
			return built, fmt.Errorf("panel %q: %w", p.title, err)
		}
		built.Targets = append(built.Targets, target)
	}
	return built, nil
}

func (q query) target(ref string, k kind) (variants.Dataquery, error) {
	b := prometheus.NewDataqueryBuilder().
		Datasource(datasource()).
		RefId(ref).
		EditorMode(prometheus.QueryEditorModeCode).
		Expr(q.expr).
		Format(prometheus.PromQueryFormatTimeSeries).
		LegendFormat(q.legend)
	if k.table {
		b.Format(prometheus.PromQueryFormatTable)
	}
	if k.instant {
		b.Instant()
	} else {
		b.Range()
	}
	return b.Build()
}

// datasource is the Prometheus that the dashboard's first variable names.
func datasource() common.DataSourceRef {
	return common.DataSourceRef{Type: new("prometheus"), Uid: new("${datasource}")}
}

// graph is lines over time, with a gap where nothing was measured.
func graph() kind { return kind{build: newGraph(nil).Build} }

// shares is a graph of ratios, from 0 to 1 and never cut there.
func shares() kind { return kind{build: newGraph(nil).AxisSoftMin(0).AxisSoftMax(1).Build} }

// stacked is bars on top of each other. They are of counts, or of parts of one whole.
func stacked() kind {
	stacking := common.NewStackingConfigBuilder().Mode(common.StackingModeNormal)
	return kind{build: newGraph(stacking).Build}
}

func newGraph(stacking cog.Builder[common.StackingConfig]) *timeseries.PanelBuilder {
	b := timeseries.NewPanelBuilder().
		SpanNulls(common.BoolOrFloat64{Bool: new(false)}).
		LineInterpolation(common.LineInterpolationLinear).
		LineWidth(1).
		FillOpacity(8).
		ShowPoints(common.VisibilityModeAuto).
		PointSize(4).
		AxisSoftMin(0).
		Legend(common.NewVizLegendOptionsBuilder().
			ShowLegend(true).DisplayMode(common.LegendDisplayModeList).Placement(common.LegendPlacementBottom)).
		Tooltip(common.NewVizTooltipOptionsBuilder().
			Mode(common.TooltipDisplayModeMulti).Sort(common.SortOrderDescending))
	if stacking != nil {
		b.DrawStyle(common.GraphDrawStyleBars).LineWidth(0).FillOpacity(70).Stacking(stacking)
	}
	return b
}

// number is values of now, each beside its name where there are several.
func number(steps ...dashboard.Threshold) kind {
	color := common.BigValueColorModeNone
	if len(steps) > 0 {
		color = common.BigValueColorModeValue
	}
	b := stat.NewPanelBuilder().
		ReduceOptions(common.NewReduceDataOptionsBuilder().Calcs([]string{"last"}).Values(false)).
		GraphMode(common.BigValueGraphModeNone).
		ColorMode(color).
		TextMode(common.BigValueTextModeAuto).
		JustifyMode(common.BigValueJustifyModeAuto).
		Orientation(common.VizOrientationAuto).
		WideLayout(true).
		Thresholds(thresholds(steps...))
	return kind{build: b.Build, instant: true}
}

// stateNumber is the state of a deployment now.
func stateNumber() kind {
	b := stat.NewPanelBuilder().
		ReduceOptions(common.NewReduceDataOptionsBuilder().Calcs([]string{"last"}).Values(false)).
		GraphMode(common.BigValueGraphModeNone).
		ColorMode(common.BigValueColorModeBackground).
		TextMode(common.BigValueTextModeValue).
		Mappings([]dashboard.ValueMapping{stateMapping()})
	return kind{build: b.Build, instant: true}
}

// timeline is a deployment's state over time.
func timeline() kind {
	b := statetimeline.NewPanelBuilder().
		NeverSpanNulls().
		MergeValues(true).
		ShowValue(common.VisibilityModeNever).
		RowHeight(0.8).
		LineWidth(0).
		FillOpacity(80).
		Mappings([]dashboard.ValueMapping{stateMapping()}).
		Legend(common.NewVizLegendOptionsBuilder().
			ShowLegend(true).DisplayMode(common.LegendDisplayModeList).Placement(common.LegendPlacementBottom))
	return kind{build: b.Build}
}

// The colors, by Grafana's names.
const (
	green  = "green"
	yellow = "yellow"
	orange = "orange"
	red    = "red"
	text   = "text"
)

// stateMapping names the values of state.
func stateMapping() dashboard.ValueMapping {
	return mapping(
		named{"0", "unavailable", red},
		named{"1", "partial", orange},
		named{"2", "whole", green},
	)
}

// named is the text and color of one value.
type named struct{ value, text, color string }

func mapping(values ...named) dashboard.ValueMapping {
	options := make(map[string]dashboard.ValueMappingResult, len(values))
	for i, v := range values {
		result := dashboard.ValueMappingResult{Text: &v.text, Index: new(int32(i))}
		if v.color != "" {
			result.Color = &v.color
		}
		options[v.value] = result
	}
	return dashboard.ValueMapping{ValueMap: &dashboard.ValueMap{Type: dashboard.MappingTypeValueToText, Options: options}}
}

// from is the color of values that are at least so much.
func from(value float64, color string) dashboard.Threshold {
	return dashboard.Threshold{Value: &value, Color: color}
}

// otherwise is the color of values below every other threshold.
func otherwise(color string) dashboard.Threshold { return dashboard.Threshold{Color: color} }

func thresholds(steps ...dashboard.Threshold) *dashboard.ThresholdsConfigBuilder {
	if len(steps) == 0 {
		steps = []dashboard.Threshold{otherwise(text)}
	}
	return dashboard.NewThresholdsConfigBuilder().Mode(dashboard.ThresholdsModeAbsolute).Steps(steps)
}

// The units, by Grafana's names. Bytes are decimal, as SGLang's MB and GB are.
const (
	plain              = units.Short
	seconds            = units.Seconds
	ratio              = units.PercentUnit
	perSecond          = units.RequestsPerSecond
	bytesSI            = units.BytesSI
	bytesPerSecond     = units.BytesPerSecondSI
	errorsPerSecond    = "suffix:errors/s"
	responsesPerSecond = "suffix:responses/s"
	tokens             = "suffix:tokens/s"
)
