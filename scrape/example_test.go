package scrape_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/md-exporter/md-exporter/scrape"
)

// One read of a Pod that answers, and one of a Pod that does not.
func ExampleClient_Get() {
	mux := http.NewServeMux()
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "vllm:num_requests_running 3")
	})
	pod := httptest.NewServer(mux)
	defer pod.Close()

	client, err := scrape.NewClient(scrape.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	var body bytes.Buffer
	if err := client.Get(context.Background(), pod.URL+"/metrics", &body); err == nil {
		fmt.Print(body.String())
	}
	err = client.Get(context.Background(), pod.URL+"/nothing", &body)
	if failure, ok := errors.AsType[*scrape.Error](err); ok {
		fmt.Println(failure.Reason)
		fmt.Println(failure.Reason.Sentence())
	}
	// Output:
	// vllm:num_requests_running 3
	// http_status
	// The Pod answered with a status other than 200.
}
