package collector

import (
	"math"
	"net/http"
	"strconv"
	"time"
)

// deadlineHeader is the scrape timeout that Prometheus sends, in seconds.
const deadlineHeader = "X-Prometheus-Scrape-Timeout-Seconds"

// scrapeTimeout is how long a request with these headers may take to collect: max(t − offset, t/2) for
// the scrape timeout t. It is zero where the header is absent, not a number, infinite or not positive.
func scrapeTimeout(header http.Header, offset time.Duration) time.Duration {
	t, err := strconv.ParseFloat(header.Get(deadlineHeader), 64)
	if err != nil || math.IsNaN(t) || math.IsInf(t, 0) || t <= 0 {
		return 0
	}
	// Longer than any request lasts, and short enough for a Duration.
	seconds := min(t, time.Hour.Seconds())
	timeout := time.Duration(seconds * float64(time.Second))
	// Not zero, which is no deadline, for a timeout that is next to none.
	return max(timeout-offset, timeout/2, 1)
}
