package simulate

import (
	"math"
	"strings"
	"testing"
)

func TestFloats(t *testing.T) {
	for _, c := range []struct {
		value                float64
		python, rust, golang string
	}{
		{0, "0.0", "0", "0"},
		{1, "1.0", "1", "1"},
		{0.25, "0.25", "0.25", "0.25"},
		{4e-05, "4e-05", "0.00004", "4e-05"},
		{0.0001, "0.0001", "0.0001", "0.0001"},
		{999999, "999999.0", "999999", "999999"},
		{1e6, "1e+06", "1000000", "1e+06"},
		{1796035600, "1.7960356e+09", "1796035600", "1.7960356e+09"},
		{1234567.5, "1.2345675e+06", "1234567.5", "1.2345675e+06"},
		{2e10, "2e+010", "20000000000", "2e+10"},
		{9.223372036854775807e18, "9.223372036854776e+18", "9223372036854776000", "9.223372036854776e+18"},
		{math.Inf(1), "+Inf", "+Inf", "+Inf"},
		{math.NaN(), "NaN", "NaN", "NaN"},
	} {
		for name, got := range map[string][2]string{
			"Python": {string(appendPythonFloat(nil, c.value)), c.python},
			"Rust":   {string(appendRustFloat(nil, c.value)), c.rust},
			"Go":     {string(appendGoFloat(nil, c.value)), c.golang},
		} {
			if got[0] != got[1] {
				t.Errorf("%s writes %v as %s, want %s", name, c.value, got[0], got[1])
			}
		}
	}
}

// One histogram, one summary and one counter with a label that wants escaping, as each library writes them.
func TestDialects(t *testing.T) {
	families := []family{
		{name: "x:time_seconds", kind: histogram, help: "A time.", labels: []string{"zone", "engine"}, buckets: []float64{1}},
		{name: "x:done_total", kind: counter, help: "What is done.", labels: []string{"model"}},
		{name: "x:never_total", kind: counter, help: "What is not.", labels: []string{"model"}},
	}
	for name, c := range map[string]struct {
		dialect dialect
		want    string
	}{
		"python": {python, `
# HELP x:time_seconds A time.
# TYPE x:time_seconds histogram
x:time_seconds_bucket{engine="0",le="1.0",zone="a"} 2.0
x:time_seconds_bucket{engine="0",le="+Inf",zone="a"} 3.0
x:time_seconds_count{engine="0",zone="a"} 3.0
x:time_seconds_sum{engine="0",zone="a"} 5.0
# HELP x:time_seconds_created A time.
# TYPE x:time_seconds_created gauge
x:time_seconds_created{engine="0",zone="a"} 8.00006103515625
# HELP x:done_total What is done.
# TYPE x:done_total counter
x:done_total{model="a \"b\" \\ c\n"} 1.0
# HELP x:done_created What is done.
# TYPE x:done_created gauge
x:done_created{model="a \"b\" \\ c\n"} 8.00006103515625
`},
		"multiprocess": {multiprocess, `
# HELP x:time_seconds A time.
# TYPE x:time_seconds histogram
x:time_seconds_sum{engine="0",zone="a"} 5.0
x:time_seconds_bucket{engine="0",le="1.0",zone="a"} 2.0
x:time_seconds_bucket{engine="0",le="+Inf",zone="a"} 3.0
x:time_seconds_count{engine="0",zone="a"} 3.0
# HELP x:done_total What is done.
# TYPE x:done_total counter
x:done_total{model="a \"b\" \\ c\n"} 1.0
`},
		"rust": {rust, `
# TYPE x:time_seconds histogram
x:time_seconds_bucket{zone="a",engine="0",le="1"} 2
x:time_seconds_bucket{zone="a",engine="0",le="+Inf"} 3
x:time_seconds_sum{zone="a",engine="0"} 5
x:time_seconds_count{zone="a",engine="0"} 3

# TYPE x:done_total counter
x:done_total{model="a \"b\" \\ c\n"} 1

`},
		"golang": {golang, `
# HELP x:time_seconds A time.
# TYPE x:time_seconds histogram
x:time_seconds_bucket{engine="0",zone="a",le="1"} 2
x:time_seconds_bucket{engine="0",zone="a",le="+Inf"} 3
x:time_seconds_sum{engine="0",zone="a"} 5
x:time_seconds_count{engine="0",zone="a"} 3
# HELP x:done_total What is done.
# TYPE x:done_total counter
x:done_total{model="a \"b\" \\ c\n"} 1
`},
	} {
		r := newRegistry(c.dialect, 8, families)
		r.observe("x:time_seconds", 1, 2, "a", "0")
		r.observe("x:time_seconds", 3, 1, "a", "0")
		r.add("x:done_total", 1, "a \"b\" \\ c\n")
		if got := string(r.append(nil)); got != strings.TrimPrefix(c.want, "\n") {
			t.Errorf("%s writes\n%s", name, got)
		}
	}
}
