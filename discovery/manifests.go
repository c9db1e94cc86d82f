package discovery

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// pollInterval is how often the files are looked at. Looking is a stat of each; they are asked rather
// than waited for because a ConfigMap's links and network file systems send no dependable notice.
const pollInterval = time.Second

// Manifests is a fleet described by files of YAML or JSON, as kubectl get -o yaml writes them.
type Manifests struct {
	paths  []string
	logger *slog.Logger
	fleet  atomic.Pointer[Fleet]

	success     prometheus.Gauge
	successTime prometheus.Gauge

	// What follows belongs to NewManifests and then to Run.

	files     map[string]decodedFile // by path: what was decoded last
	looked    []file                 // at the last look
	seen      []file                 // at the last attempt; nil where it has to be repeated
	published []file                 // what the fleet was made of
	failure   error                  // of the last attempt
}

// file is a manifest file as it was found.
type file struct {
	path string
	info fs.FileInfo
}

type decodedFile struct {
	file
	objects *objects
}

// NewManifests reads the files once. A path is a file, or a folder whose .yaml, .yml and .json files
// are read, those in its folders too, and those whose name starts with a dot left out. Where an object
// comes twice, the last one stands, in the order of the paths and of the names within a folder.
//
// The error is one line that names the file, and the document and object where it is in one. The
// logger and the registerer may be nil.
func NewManifests(paths []string, logger *slog.Logger, reg prometheus.Registerer) (*Manifests, error) {
	if len(paths) == 0 {
		return nil, errors.New("manifests: no path is given")
	}
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	m := &Manifests{
		paths:  slices.Clone(paths),
		logger: logger,
		success: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "md_exporter_manifests_reload_success",
			Help: "Whether the manifest files could be read when they were last looked at (1) or the last good ones stand (0).",
		}),
		successTime: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "md_exporter_manifests_last_reload_success_timestamp_seconds",
			Help: "When the manifest files were last read whole, in Unix time.",
		}),
	}
	if err := m.read(find(paths)); err != nil {
		return nil, fmt.Errorf("manifests: %w", err)
	}
	if reg != nil {
		for _, c := range []prometheus.Collector{m.success, m.successTime} {
			if err := reg.Register(c); err != nil {
				return nil, fmt.Errorf("manifests: %w", err)
			}
		}
	}
	return m, nil
}

// Fleet returns the last good fleet: a new one each time the files changed. It is never nil.
func (m *Manifests) Fleet() *Fleet { return m.fleet.Load() }

// Synced reports that there is a fleet, which is always so.
func (m *Manifests) Synced() bool { return true }

// Run looks at the files once a second until the context ends, and returns nil then. What cannot be
// read keeps the last good fleet and is logged once; that it can be read again is logged, too.
func (m *Manifests) Run(ctx context.Context) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			m.reload()
		}
	}
}

// reload is one look at the files. What changed is read when two looks in a row found it the same: a
// program that writes a file over seconds is not read in the middle.
func (m *Manifests) reload() {
	found, err := find(m.paths)
	settled := slices.EqualFunc(m.looked, found, file.same)
	m.looked = found
	if err == nil && !settled && !slices.EqualFunc(m.seen, found, file.same) {
		return
	}
	before := m.failure
	err = m.read(found, err)
	switch {
	case err != nil && (before == nil || before.Error() != err.Error()):
		m.logger.Error("Manifests cannot be read, the last good ones stand", "err", err)
	case err == nil && before != nil:
		m.logger.Info("Manifests can be read again", "files", len(m.published), "deployments", len(m.Fleet().Deployments))
	}
}

// read publishes a new fleet if the files found are not those that the last one was made of.
func (m *Manifests) read(found []file, err error) error {
	if err == nil && m.seen != nil && slices.EqualFunc(m.seen, found, file.same) {
		return m.failure
	}
	// The files are compared as they were before they were read: what is written meanwhile is a
	// change at the next look.
	m.seen = found
	var fleetObjects *objects
	if err == nil {
		fleetObjects, err = m.decode(found)
	}
	m.failure = err
	if err != nil {
		m.success.Set(0)
		return err
	}
	m.success.Set(1)
	m.successTime.Set(float64(time.Now().UnixNano()) / 1e9)
	if m.Fleet() == nil || !slices.EqualFunc(m.published, found, file.same) {
		m.fleet.Store(fleetObjects.fleet())
		m.published = found
	}
	return nil
}

// decode reads the files that are not known as they are now, and returns the objects of all.
func (m *Manifests) decode(found []file) (*objects, error) {
	all := newObjects()
	files := make(map[string]decodedFile, len(found))
	for _, f := range found {
		known, ok := m.files[f.path]
		if !ok || !known.same(f) {
			data, err := os.ReadFile(f.path)
			if err != nil {
				// A permission or a disk may heal without a change to the file.
				m.seen = nil
				return nil, err
			}
			o, err := decode(data)
			if err != nil {
				return nil, fmt.Errorf("%s: %s", f.path, oneLine(err))
			}
			if ok && o.documents == 0 && known.objects.documents > 0 {
				// kubectl writes a List also where there is nothing to list.
				return nil, fmt.Errorf("%s: nothing is in it any more", f.path)
			}
			known = decodedFile{f, o}
		}
		files[f.path] = known
		all.merge(known.objects)
	}
	m.files = files
	return all, nil
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// same reports whether the file has not changed: same path, inode, size and time of change.
func (f file) same(other file) bool {
	return f.path == other.path && os.SameFile(f.info, other.info) &&
		f.info.Size() == other.info.Size() && f.info.ModTime().Equal(other.info.ModTime())
}

// find lists the files of the paths, links followed, in the order in which they are read.
func find(paths []string) ([]file, error) {
	found := []file{}
	for _, path := range paths {
		info, err := os.Stat(path)
		switch {
		case err != nil:
			return nil, err
		case info.IsDir():
			if found, err = findIn(found, path); err != nil {
				return nil, err
			}
		case info.Mode().IsRegular():
			found = append(found, file{path, info})
		default:
			return nil, fmt.Errorf("%s: neither a file nor a folder", path)
		}
	}
	return found, nil
}

func findIn(found []file, folder string) ([]file, error) {
	entries, err := os.ReadDir(folder) // sorted by name
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		path := filepath.Join(folder, entry.Name())
		switch {
		case strings.HasPrefix(entry.Name(), "."):
			continue
		case entry.IsDir():
			if found, err = findIn(found, path); err != nil {
				return nil, err
			}
			continue
		case !isManifest(entry.Name()):
			continue
		}
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		// A link to a folder is not followed: it may lead back here.
		if info.Mode().IsRegular() {
			found = append(found, file{path, info})
		}
	}
	return found, nil
}

// isManifest reports whether a file in a folder is read. A kustomization describes manifests, is none,
// and need not say its kind.
func isManifest(name string) bool {
	switch filepath.Ext(name) {
	case ".yaml", ".yml", ".json":
		return name != "kustomization.yaml" && name != "kustomization.yml"
	}
	return false
}
