package dashboards

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/md-exporter/md-exporter/normalize"
)

// field is one field in one of the two scopes.
type field struct {
	scope normalize.Scope
	name  normalize.Field
}

// fields are the series that have one field's values, by their names without prefix.
var fields = map[string]field{
	"running_requests":                          {normalize.ScopeEngine, normalize.Running},
	"waiting_requests":                          {normalize.ScopeEngine, normalize.Waiting},
	"decode_transfer_waiting_requests":          {normalize.ScopeEngine, normalize.DecodeTransferWaiting},
	"router_running_requests":                   {normalize.ScopeRouter, normalize.RouterRunning},
	"router_backends":                           {normalize.ScopeRouter, normalize.RouterBackends},
	"router_reported_workers":                   {normalize.ScopeRouter, normalize.RouterReportedWorkers},
	"time_to_first_token_mean_seconds":          {normalize.ScopeEngine, normalize.TTFT},
	"time_per_output_token_mean_seconds":        {normalize.ScopeEngine, normalize.TPOT},
	"inter_token_latency_mean_seconds":          {normalize.ScopeEngine, normalize.ITL},
	"router_time_to_first_token_mean_seconds":   {normalize.ScopeRouter, normalize.TTFT},
	"router_time_per_output_token_mean_seconds": {normalize.ScopeRouter, normalize.TPOT},
	"router_requests_per_second":                {normalize.ScopeRouter, normalize.Requests},
	"router_successful_requests_per_second":     {normalize.ScopeRouter, normalize.SuccessfulRequests},
	"router_pd_requests_per_second":             {normalize.ScopeRouter, normalize.PDRequests},
	"router_request_errors_per_second":          {normalize.ScopeRouter, normalize.RequestErrors},
	"router_errors_per_second":                  {normalize.ScopeRouter, normalize.Errors},
	"router_pd_errors_per_second":               {normalize.ScopeRouter, normalize.PDErrors},
	"router_retries_exhausted_per_second":       {normalize.ScopeRouter, normalize.RetriesExhausted},
	"router_http_5xx_responses_per_second":      {normalize.ScopeRouter, normalize.HTTP5xxResponses},
	"router_error_ratio":                        {normalize.ScopeRouter, normalize.ErrorRatio},
	"kv_transfer_latency_mean_seconds":          {normalize.ScopeEngine, normalize.TransferLatency},
	"kv_transfer_speed_mean_bytes_per_second":   {normalize.ScopeEngine, normalize.TransferSpeed},
	"kv_transfer_size_mean_bytes":               {normalize.ScopeEngine, normalize.TransferSize},
	"kv_transfer_failures_per_second":           {normalize.ScopeEngine, normalize.TransferFailures},
}

var (
	seriesName   = regexp.MustCompile(`\b(?:modeldeployment|md_exporter)_[a-z0-9_]+`)
	cacheMatcher = regexp.MustCompile(`cache=~?"([^"]+)"`)
)

// provenance is what a panel's queries show: each series, and of a field's also the field and the
// sources that it is read from.
func provenance(queries []query) string {
	var lines []string
	for _, q := range queries {
		for _, name := range seriesName.FindAllString(q.expr, -1) {
			if line := "- " + origin(name, q.expr); !slices.Contains(lines, line) {
				lines = append(lines, line)
			}
		}
	}
	return strings.Join(lines, "\n")
}

func origin(name, expr string) string {
	short, deployment := strings.CutPrefix(name, "modeldeployment_")
	f, known := fields[short]
	switch {
	case known:
		return fmt.Sprintf("`%s`: field `%s` of the %s, from %s", name, f.name, f.scope, sources(f.scope, f.name))
	case deployment && strings.HasPrefix(short, "cache_"):
		var caches []string
		for _, info := range normalize.Fields() {
			if info.Section == normalize.CacheHits && selectsCache(expr, info.Field) {
				caches = append(caches, fmt.Sprintf("`%s` from %s", info.Field, sources(normalize.ScopeEngine, info.Field)))
			}
		}
		return fmt.Sprintf("`%s`: cache scopes of the engine, %s", name, strings.Join(caches, ", "))
	default:
		return fmt.Sprintf("`%s`", name)
	}
}

// selectsCache reports whether a query is of a cache scope: it names it, or none.
func selectsCache(expr string, cache normalize.Field) bool {
	named := cacheMatcher.FindStringSubmatch(expr)
	return named == nil || slices.Contains(strings.Split(named[1], "|"), string(cache))
}

// sources are what a field is read from, each once.
func sources(scope normalize.Scope, name normalize.Field) string {
	var all []string
	for _, s := range normalize.Sources() {
		if quoted := "`" + s.Series + "`"; s.Scope == scope && s.Field == name && !slices.Contains(all, quoted) {
			all = append(all, quoted)
		}
	}
	return strings.Join(all, " or ")
}
