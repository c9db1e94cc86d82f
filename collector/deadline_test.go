package collector

import (
	"net/http"
	"testing"
	"time"
)

// A request has max(t − offset, t/2) of the scrape timeout t that it names.
func TestScrapeTimeout(t *testing.T) {
	const none = time.Duration(0)
	for _, row := range []struct {
		name   string
		header []string
		offset time.Duration
		want   time.Duration
	}{
		{"the usual ten seconds", []string{"10"}, 500 * time.Millisecond, 9500 * time.Millisecond},
		{"a fraction", []string{"2.5"}, 500 * time.Millisecond, 2 * time.Second},
		{"t − offset is t/2", []string{"1"}, 500 * time.Millisecond, 500 * time.Millisecond},
		{"t/2 where the offset takes more", []string{"0.6"}, 500 * time.Millisecond, 300 * time.Millisecond},
		{"t/2 where the offset takes all", []string{"4"}, time.Minute, 2 * time.Second},
		{"no offset", []string{"3"}, 0, 3 * time.Second},
		{"exponent", []string{"1e1"}, 500 * time.Millisecond, 9500 * time.Millisecond},
		{"the first of two", []string{"3", "10"}, 0, 3 * time.Second},
		{"tiny", []string{"1e-9"}, 500 * time.Millisecond, time.Nanosecond},
		{"less than a Duration can say", []string{"1e-300"}, 0, time.Nanosecond},
		{"huge", []string{"1e300"}, 0, time.Hour},
		{"the largest number", []string{"1.7976931348623157e308"}, 500 * time.Millisecond, time.Hour - 500*time.Millisecond},

		{"absent", nil, 500 * time.Millisecond, none},
		{"empty", []string{""}, 500 * time.Millisecond, none},
		{"not a number", []string{"NaN"}, 500 * time.Millisecond, none},
		{"infinite", []string{"+Inf"}, 500 * time.Millisecond, none},
		{"negative infinite", []string{"-Inf"}, 500 * time.Millisecond, none},
		{"too large for a number", []string{"1e400"}, 500 * time.Millisecond, none},
		{"zero", []string{"0"}, 500 * time.Millisecond, none},
		{"negative zero", []string{"-0"}, 500 * time.Millisecond, none},
		{"negative", []string{"-10"}, 500 * time.Millisecond, none},
		{"garbage", []string{"soon"}, 500 * time.Millisecond, none},
		{"a unit", []string{"10s"}, 500 * time.Millisecond, none},
		{"a list", []string{"10, 20"}, 500 * time.Millisecond, none},
	} {
		t.Run(row.name, func(t *testing.T) {
			header := http.Header{}
			for _, v := range row.header {
				header.Add("X-Prometheus-Scrape-Timeout-Seconds", v)
			}
			if got := scrapeTimeout(header, row.offset); got != row.want {
				t.Errorf("%q less %v is %v, want %v", row.header, row.offset, got, row.want)
			}
		})
	}
}
