package dashboards

import (
	"encoding/json"
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// The uids, under which links and bookmarks find the dashboards. They never change.
const (
	fleetUID      = "md-exporter-fleet"
	deploymentUID = "md-exporter-deployment"
	coverageUID   = "md-exporter-coverage"
)

// tag is what all the dashboards are found by.
const tag = "md-exporter"

// cogSort is an element of a table's order.
type cogSort = cog.Builder[common.TableSortByFieldState]

// page is one dashboard.
type page struct {
	uid, title, text string
	variables        []cog.Builder[dashboard.VariableModel]
	links            []cog.Builder[dashboard.DashboardLink]
	rows             []row
}

// row is some panels under a title. They are laid out from left to right, 24 units to a line.
type row struct {
	title  string
	panels []panel
}

// classic is a dashboard in the model that every Grafana loads from a file. The one that is to follow
// it is known to the newest releases alone.
type classic = dashboard.Dashboard //nolint:staticcheck // deprecated for the reason above

// Files are the dashboards as Grafana loads them, by file name.
func Files() (map[string][]byte, error) {
	files := map[string][]byte{}
	for name, p := range map[string]page{"fleet.json": fleet(), "deployment.json": deployment(), "coverage.json": coverage()} {
		built, err := p.build()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		content, err := json.MarshalIndent(built, "", "  ")
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		files[name] = append(content, '\n')
	}
	return files, nil
}

func (p page) build() (classic, error) {
	b := dashboard.NewDashboardBuilder(p.title) //nolint:staticcheck // as classic
	b.Uid(p.uid).
		Description(p.text).
		Tags([]string{tag}).
		Time("now-1h", "now").
		Refresh("30s").
		Tooltip(dashboard.DashboardCursorSyncCrosshair).
		Variables(p.variables).
		Links(p.links)
	id := uint32(0)
	for _, r := range p.rows {
		id++
		b.WithRow(dashboard.NewRowBuilder(r.title).Id(id))
		for _, spec := range r.panels {
			built, err := spec.Build()
			if err != nil {
				return classic{}, err
			}
			id++
			built.Id = new(id)
			b.WithPanel(done{built})
		}
	}
	return b.Build()
}

// done is a panel that has been built.
type done struct{ panel dashboard.Panel }

// Build implements cog.Builder.
func (d done) Build() (dashboard.Panel, error) { return d.panel, nil }

// source is the variable that chooses the Prometheus.
func source() cog.Builder[dashboard.VariableModel] {
	return dashboard.NewDatasourceVariableBuilder("datasource").Label("Data source").Type("prometheus")
}

// The variables that choose what is shown, each among what the ones before it leave.
func namespace(many bool) cog.Builder[dashboard.VariableModel] {
	return variable("namespace", "Namespace", `label_values(modeldeployment_info, namespace)`, many)
}

func modeldeployment(many bool) cog.Builder[dashboard.VariableModel] {
	return variable("modeldeployment", "Deployment",
		`label_values(modeldeployment_info{namespace=~"$namespace"}, modeldeployment)`, many)
}

func role() cog.Builder[dashboard.VariableModel] {
	return variable("role", "Role", `label_values(`+of("expected_pods", engine)+`, role)`, true)
}

// pod lists the Pods that were read and those that could not be.
func pod() cog.Builder[dashboard.VariableModel] {
	return variable("pod", "Pod", `label_values({__name__=~"modeldeployment_(pod_read_timestamp_seconds|missing_info)", `+
		ofDeployment+`, `+ofRole+`}, pod)`, true)
}

// variable is one that a query lists. Of many, any number may be chosen, and all are at first: also
// what has no such label, as a router has no role.
func variable(name, label, expr string, many bool) cog.Builder[dashboard.VariableModel] {
	b := dashboard.NewQueryVariableBuilder(name).
		Label(label).
		Datasource(datasource()).
		Query(dashboard.StringOrMap{Map: map[string]any{"query": expr, "refId": "variable-" + name}}).
		Definition(expr).
		Refresh(dashboard.VariableRefreshOnTimeRangeChanged).
		Sort(dashboard.VariableSortAlphabeticalAsc).
		Multi(many)
	if many {
		b.IncludeAll(true).AllValue(".*").Current(dashboard.VariableOption{
			Selected: new(true),
			Text:     dashboard.StringOrArrayOfString{ArrayOfString: []string{"All"}},
			Value:    dashboard.StringOrArrayOfString{ArrayOfString: []string{"$__all"}},
		})
	}
	return b
}

// link leads to another dashboard, with the time range, the data source, and what is chosen here
// where the other can show that.
func link(title, uid string, chosen bool) cog.Builder[dashboard.DashboardLink] {
	url := "/d/" + uid
	if !chosen {
		url += "?var-datasource=${datasource}"
	}
	return shown{dashboard.DashboardLink{
		Title: title, Type: dashboard.DashboardLinkTypeLink, Icon: "dashboard", Tags: []string{},
		Url: &url, KeepTime: true, IncludeVars: chosen,
	}}
}

// shown is a link without a placement, which the SDK's builder would put into a menu.
type shown struct{ link dashboard.DashboardLink }

// Build implements cog.Builder.
func (s shown) Build() (dashboard.DashboardLink, error) { return s.link, nil }

// toDeployment is where a table's cell leads: its row's deployment.
const toDeployment = "/d/" + deploymentUID + "?var-datasource=${datasource}" +
	"&var-namespace=${__data.fields.Namespace}&var-modeldeployment=${__data.fields.Deployment}&${__url_time_range}"
