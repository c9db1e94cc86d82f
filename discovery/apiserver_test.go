package discovery

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
)

// apiServer answers lists and watches of the resources that are read, in JSON, as an API server does:
// by label selector, by resource version, streamed where it streams. It is spoken to without a network,
// so that time in a synctest bubble passes by itself.
type apiServer struct {
	t *testing.T
	// streams is whether a watch may begin with all that there is, as servers since 1.34 let it.
	streams bool

	mu      sync.Mutex
	version int
	objects map[string]*unstructured.Unstructured // by resource/namespace/name
	events  []event
	changed chan struct{} // closed at the next change
	// refuse is the status of an answer by "verb resource" or "verb resource namespace".
	refuse map[string]int
	away   bool
	// breaks counts the moments at which every open watch ended.
	breaks int
	asked  []string // each list and watch: verb, resource, namespace and selector
}

type event struct {
	version  int
	kind     string // ADDED, MODIFIED, DELETED or ERROR
	resource string
	object   *unstructured.Unstructured
}

func newAPIServer(t *testing.T, streams bool) *apiServer {
	return &apiServer{t: t, streams: streams, version: 1000, objects: map[string]*unstructured.Unstructured{},
		changed: make(chan struct{}), refuse: map[string]int{}}
}

func (s *apiServer) config() *rest.Config {
	return &rest.Config{Host: "http://api.invalid", Transport: s}
}

// resourceOf are the plurals of the kinds.
var resourceOf = map[string]string{
	modelDeploymentKind: "modeldeployments", podKind: "pods", replicaSetKind: "replicasets", deploymentKind: "deployments",
}

// apply makes the objects of the manifests, or replaces those that are there.
func (s *apiServer) apply(manifests ...string) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, manifest := range manifests {
		o := &unstructured.Unstructured{}
		if err := json.Unmarshal([]byte(toJSON(s.t, manifest)), &o.Object); err != nil {
			s.t.Fatal(err)
		}
		s.version++
		o.SetResourceVersion(strconv.Itoa(s.version))
		resource := resourceOf[o.GetKind()]
		at, kind := resource+"/"+o.GetNamespace()+"/"+o.GetName(), "ADDED"
		if s.objects[at] != nil {
			kind = "MODIFIED"
		}
		s.objects[at] = o
		s.happen(event{s.version, kind, resource, o})
	}
}

// remove deletes objects named resource/namespace/name.
func (s *apiServer) remove(names ...string) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, at := range names {
		o := s.objects[at]
		if o == nil {
			s.t.Fatalf("no %s to delete", at)
		}
		s.version++
		o = o.DeepCopy()
		o.SetResourceVersion(strconv.Itoa(s.version))
		delete(s.objects, at)
		resource, _, _ := strings.Cut(at, "/")
		s.happen(event{s.version, "DELETED", resource, o})
	}
}

// expire ends every watch of the resource with "too old resource version", and forgets what happened.
func (s *apiServer) expire(resource string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	status := &unstructured.Unstructured{Object: map[string]any{
		"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": int64(http.StatusGone),
	}}
	s.happen(event{s.version, "ERROR", resource, status})
}

// wipe empties the server: its resource versions begin at the given one.
func (s *apiServer) wipe(version int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version, s.events = version, nil
	clear(s.objects)
}

// set lets the server refuse, or no longer (0), a call: "verb resource", and a namespace where it has one.
func (s *apiServer) set(status int, calls ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, call := range calls {
		s.refuse[call] = status
	}
	s.breakWatches() // A watch's rights are looked at when it starts.
}

// setAway lets the server break its connections and refuse new ones, until it is back.
func (s *apiServer) setAway(away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = away
	s.breakWatches()
}

// breakWatches ends every open watch; the caller holds the lock.
func (s *apiServer) breakWatches() {
	s.breaks++
	s.wake()
}

// happen adds an event; the caller holds the lock.
func (s *apiServer) happen(e event) {
	s.events = append(s.events, e)
	s.wake()
}

func (s *apiServer) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// RoundTrip implements http.RoundTripper: the answer is written while it is read.
func (s *apiServer) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	away := s.away
	s.mu.Unlock()
	if away {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	}
	ctx, cancel := context.WithCancel(r.Context())
	if r.URL.Query().Get("watch") != "true" {
		defer cancel()
		recorder := httptest.NewRecorder()
		s.serve(ctx, recorder, r, recorder.WriteHeader)
		response := recorder.Result()
		response.Request = r
		return response, nil
	}
	reader, writer := io.Pipe()
	status := make(chan int, 1)
	go func() {
		s.serve(ctx, writer, r, func(code int) { status <- code })
		writer.Close()
	}()
	header := http.Header{"Content-Type": {"application/json"}}
	return &http.Response{StatusCode: <-status, Header: header, Body: body{reader, cancel}, Request: r, ProtoMajor: 1}, nil
}

// body ends the watch that it is of when it is closed.
type body struct {
	*io.PipeReader
	cancel context.CancelFunc
}

func (b body) Close() error {
	b.cancel()
	return b.PipeReader.Close()
}

func (s *apiServer) serve(ctx context.Context, w io.Writer, r *http.Request, writeStatus func(int)) {
	if h, ok := w.(http.ResponseWriter); ok {
		h.Header().Set("Content-Type", "application/json")
	}
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	resource, namespace := path[len(path)-1], ""
	if i := slices.Index(path, "namespaces"); i > 0 {
		namespace = path[i+1]
	}
	query := r.URL.Query()
	verb := "list"
	if query.Get("watch") == "true" {
		verb = "watch"
	}
	initial := query.Get("sendInitialEvents") == "true"
	s.mu.Lock()
	s.asked = append(s.asked, strings.TrimSpace(verb+" "+resource+" "+namespace+" "+query.Get("labelSelector")))
	status := max(s.refuse[verb+" "+resource], s.refuse[verb+" "+resource+" "+namespace])
	s.mu.Unlock()
	if status == 0 && initial && !s.streams {
		status = http.StatusUnprocessableEntity
	}
	if status != 0 {
		reason := map[int]metav1.StatusReason{
			http.StatusForbidden: metav1.StatusReasonForbidden, http.StatusNotFound: metav1.StatusReasonNotFound,
			http.StatusUnprocessableEntity: metav1.StatusReasonInvalid,
		}[status]
		writeStatus(status)
		s.write(w, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Reason: reason, Code: int32(status), Message: "refused"})
		return
	}
	selector, err := k8slabels.Parse(query.Get("labelSelector"))
	if err != nil {
		s.t.Error(err)
	}
	selects := func(o *unstructured.Unstructured) bool {
		return (namespace == "" || o.GetNamespace() == namespace) && selector.Matches(k8slabels.Set(o.GetLabels()))
	}
	metadataOnly := strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata")
	writeStatus(http.StatusOK)
	if verb == "list" {
		s.list(w, resource, selects, metadataOnly)
		return
	}
	from, _ := strconv.Atoi(query.Get("resourceVersion"))
	seconds, _ := strconv.Atoi(query.Get("timeoutSeconds"))
	s.watch(ctx, w, resource, selects, metadataOnly, initial, from, time.Duration(seconds)*time.Second)
}

// present are the objects of a resource that are there; the caller holds the lock.
func (s *apiServer) present(resource string, selects func(*unstructured.Unstructured) bool, metadataOnly bool) []any {
	found := []any{}
	for _, at := range slices.Sorted(maps.Keys(s.objects)) {
		if strings.HasPrefix(at, resource+"/") && selects(s.objects[at]) {
			found = append(found, view(s.objects[at], metadataOnly))
		}
	}
	return found
}

// view is an object as it is sent.
func view(o *unstructured.Unstructured, metadataOnly bool) map[string]any {
	if !metadataOnly || o.GetKind() == "Status" {
		return o.Object
	}
	return map[string]any{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": o.Object["metadata"]}
}

func (s *apiServer) list(w io.Writer, resource string, selects func(*unstructured.Unstructured) bool, metadataOnly bool) {
	kind, apiVersion := kindOf(resource)
	if metadataOnly {
		kind, apiVersion = "PartialObjectMetadata", "meta.k8s.io/v1"
	}
	s.mu.Lock()
	answer := map[string]any{
		"kind": kind + "List", "apiVersion": apiVersion,
		"metadata": map[string]any{"resourceVersion": strconv.Itoa(s.version)},
		"items":    s.present(resource, selects, metadataOnly),
	}
	s.mu.Unlock()
	s.write(w, answer)
}

func kindOf(resource string) (kind, apiVersion string) {
	for kind, plural := range resourceOf {
		if plural == resource {
			return kind, map[string]string{"modeldeployments": "worker.gpustack.ai/v1alpha1", "pods": "v1"}[resource]
		}
	}
	return "", ""
}

func (s *apiServer) watch(ctx context.Context, w io.Writer, resource string, selects func(*unstructured.Unstructured) bool,
	metadataOnly, initial bool, from int, lasts time.Duration) {
	end := time.NewTimer(lasts)
	defer end.Stop()
	s.mu.Lock()
	breaks := s.breaks
	for from > s.version {
		// A version that is still to come is waited for, as a server does.
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return
		case <-end.C:
			return
		}
		s.mu.Lock()
		if s.breaks != breaks {
			s.mu.Unlock()
			return
		}
	}
	seen := len(s.events)
	var first []any
	if initial {
		for _, o := range s.present(resource, selects, metadataOnly) {
			first = append(first, map[string]any{"type": "ADDED", "object": o})
		}
		kind, apiVersion := kindOf(resource)
		if metadataOnly {
			kind, apiVersion = "PartialObjectMetadata", "meta.k8s.io/v1"
		}
		first = append(first, map[string]any{"type": "BOOKMARK", "object": map[string]any{
			"kind": kind, "apiVersion": apiVersion,
			"metadata": map[string]any{
				"resourceVersion": strconv.Itoa(s.version),
				"annotations":     map[string]any{metav1.InitialEventsAnnotationKey: "true"},
			},
		}})
	} else {
		for i, e := range s.events {
			if e.version > from {
				seen = i
				break
			}
		}
	}
	s.mu.Unlock()
	for _, e := range first {
		if !s.write(w, e) {
			return
		}
	}
	for {
		s.mu.Lock()
		if s.breaks != breaks {
			s.mu.Unlock()
			return
		}
		news, changed := slices.Clone(s.events[seen:]), s.changed
		seen = len(s.events)
		s.mu.Unlock()
		for _, e := range news {
			switch {
			case e.resource != resource || e.kind != "ERROR" && !selects(e.object):
			case !s.write(w, map[string]any{"type": e.kind, "object": view(e.object, metadataOnly)}), e.kind == "ERROR":
				return
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		case <-end.C:
			return
		}
	}
}

// write reports whether the client took it.
func (s *apiServer) write(w io.Writer, v any) bool {
	data, err := json.Marshal(v)
	if err != nil {
		s.t.Error(err)
	}
	_, err = w.Write(append(data, '\n'))
	return err == nil
}
