// Package servers builds the real servers of the end-to-end tests from source: etcd, kube-apiserver,
// kubectl, Prometheus and promtool.
//
// Each folder below this one is a Go module of its own, which pins one server in its go.mod and
// every checksum in its go.sum, so that a build needs the Go module proxy and nothing else. What
// comes out are programs in the repository's .cache/bin, named for their version and built once.
package servers

import (
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/mod/modfile"
)

// Name is the name of a program that is built here.
type Name string

// The programs, in the order in which they are built.
const (
	Etcd       Name = "etcd"
	APIServer  Name = "kube-apiserver"
	Kubectl    Name = "kubectl"
	Prometheus Name = "prometheus"
	Promtool   Name = "promtool"
)

// Program is one server or tool and where its source is.
type Program struct {
	Name Name
	// folder is the module below test/e2e/servers that pins it.
	folder string
	// module is the required module whose version is the program's.
	module string
	// packagePath is its main package.
	packagePath string
	// tags are build tags.
	tags string
	// ldflags are linker flags, with VERSION in place of the module's version.
	ldflags string
}

const (
	// strip leaves out what only a debugger reads: a third of each program's size.
	strip = "-s -w"
	// kubernetesVersion names the version as a release build does: clients and servers decide by
	// it what the other side can do.
	kubernetesVersion = strip + " -X k8s.io/component-base/version.gitVersion=VERSION" +
		" -X k8s.io/client-go/pkg/version.gitVersion=VERSION"
	// kubernetesSD leaves out every service discovery that no test uses.
	kubernetesSD = "remove_all_sd,enable_kubernetes_sd,enable_http_sd"
)

// Programs are all that is built, smallest first.
var Programs = []Program{
	{Etcd, "etcd", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3", "", strip},
	{APIServer, "kubernetes", "k8s.io/kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver", "", kubernetesVersion},
	{Kubectl, "kubernetes", "k8s.io/kubernetes", "k8s.io/kubernetes/cmd/kubectl", "", kubernetesVersion},
	{Prometheus, "prometheus", "github.com/prometheus/prometheus", "github.com/prometheus/prometheus/cmd/prometheus", kubernetesSD, strip},
	{Promtool, "prometheus", "github.com/prometheus/prometheus", "github.com/prometheus/prometheus/cmd/promtool", kubernetesSD, strip},
}

// Build builds the programs that .cache/bin lacks, writes to w what it does and how long it took,
// and returns the path of each. It may be interrupted at any time: a program is there in full or
// not at all. Processes that build at the same time wait for each other.
func Build(ctx context.Context, w io.Writer) (map[Name]string, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	bin := filepath.Join(root, ".cache", "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return nil, err
	}
	unlock, err := lock(filepath.Join(bin, ".lock"))
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := removePartial(bin); err != nil {
		return nil, err
	}
	paths := make(map[Name]string, len(Programs))
	for _, p := range Programs {
		if paths[p.Name], err = p.build(ctx, root, bin, w); err != nil {
			return nil, fmt.Errorf("build %s: %w", p.Name, err)
		}
	}
	return paths, nil
}

// build builds one program unless it is there, and returns its path.
func (p Program) build(ctx context.Context, root, bin string, w io.Writer) (string, error) {
	folder := filepath.Join(root, "test", "e2e", "servers", p.folder)
	version, err := requiredVersion(filepath.Join(folder, "go.mod"), p.module)
	if err != nil {
		return "", err
	}
	ldflags := strings.ReplaceAll(p.ldflags, "VERSION", version)
	path := filepath.Join(bin, string(p.Name)+"-"+version)
	if p.current(path, version, ldflags) {
		_, err := fmt.Fprintf(w, "%s %s: there\n", p.Name, version)
		return path, err
	}
	if _, err := fmt.Fprintf(w, "%s %s: building\n", p.Name, version); err != nil {
		return "", err
	}
	started := time.Now()
	partial := path + partialSuffix
	cmd := exec.CommandContext(ctx, "go", "build", "-mod=readonly", "-buildvcs=false",
		"-tags="+p.tags, "-ldflags="+ldflags, "-o", partial, p.packagePath)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "GOWORK=off")
	cmd.Stdout, cmd.Stderr = w, w
	// An interrupt lets the go command end its compilers and remove its work folder.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Run(); err != nil {
		return "", errors.Join(err, os.RemoveAll(partial))
	}
	if err := os.Rename(partial, path); err != nil {
		return "", err
	}
	_, err = fmt.Fprintf(w, "%s %s: built in %s\n", p.Name, version, time.Since(started).Round(100*time.Millisecond))
	return path, err
}

// current reports whether path is this program at this version, built with these flags: a program
// carries that in itself.
func (p Program) current(path, version, ldflags string) bool {
	info, err := buildinfo.ReadFile(path)
	if err != nil || info.Path != p.packagePath {
		return false
	}
	settings := make(map[string]string, len(info.Settings))
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	return info.Main.Path == p.module && info.Main.Version == version &&
		settings["-tags"] == p.tags && settings["-ldflags"] == ldflags
}

// Root is the repository's root: the nearest folder upwards whose go.mod is the exporter's.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		content, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && modfile.ModulePath(content) == "github.com/md-exporter/md-exporter" {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("not inside the repository: no go.mod of the exporter upwards of the working folder")
		}
		dir = parent
	}
}

// requiredVersion is the version at which the go.mod file requires the module.
func requiredVersion(file, module string) (string, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	parsed, err := modfile.ParseLax(file, content, nil)
	if err != nil {
		return "", err
	}
	for _, r := range parsed.Require {
		if r.Mod.Path == module {
			return r.Mod.Version, nil
		}
	}
	return "", fmt.Errorf("%s does not require %s", file, module)
}

// partialSuffix marks a program whose build has not ended.
const partialSuffix = ".partial"

// removePartial removes what a killed build left. The caller holds the lock.
func removePartial(bin string) error {
	left, err := filepath.Glob(filepath.Join(bin, "*"+partialSuffix))
	if err != nil {
		return err
	}
	for _, path := range left {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return nil
}

// lock waits for the file's lock, which the kernel takes back when the process ends however it ends.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { _ = f.Close() }, nil
}
