package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/version"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	apimetrics "k8s.io/apiserver/pkg/endpoints/metrics"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/util/compatibility"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/md-exporter/md-exporter/collector"
)

const (
	// DefaultMaxRequests is how many requests may read at once: each reads up to 64 Pods.
	DefaultMaxRequests = 20
	// answerSlack is what an answer may take beside reading: who asks, whether they may, and the bytes.
	answerSlack = 2 * time.Second
)

// Config is what a Server is made of.
type Config struct {
	// Served is the group and version of the document.
	Served schema.GroupVersion
	// Source and Reader are what a request reads. The Reader should be this Server's alone.
	Source collector.Source
	Reader *collector.Reader
	// ReadTimeout is the Reader's own limit of one deployment.
	ReadTimeout time.Duration
	// MaxRequests is how many requests may read at once; the rest are refused.
	MaxRequests int
	// Gatherer has the series that /metrics serves beside the generic server's own; nil is none.
	Gatherer prometheus.Gatherer

	// Listener is where the Server serves TLS. Run closes it.
	Listener net.Listener
	// CertFile and KeyFile are its certificate, read again when they change. Without them it is signed by
	// itself and lives as long as the process.
	CertFile, KeyFile string
	// Kubeconfig is how to reach the API server that tells who asks and whether they may; empty is the
	// cluster that the process runs in.
	Kubeconfig string
}

// Server is the aggregated API.
type Server struct {
	generic *genericapiserver.GenericAPIServer
}

// New makes a Server, for which it asks the cluster's API server whom to trust.
func New(config Config) (*Server, error) {
	c, scheme := newConfig(&config)
	serving := options.NewSecureServingOptions().WithLoopback()
	serving.Listener = config.Listener
	serving.ServerCert.CertDirectory = ""
	serving.ServerCert.CertKey = options.CertKey{CertFile: config.CertFile, KeyFile: config.KeyFile}
	if err := serving.MaybeDefaultWithSelfSignedCerts("localhost", nil, nil); err != nil {
		return nil, err
	}
	authentication := options.NewDelegatingAuthenticationOptions()
	authentication.RemoteKubeConfigFile = config.Kubeconfig
	authorization := options.NewDelegatingAuthorizationOptions()
	authorization.RemoteKubeConfigFile = config.Kubeconfig
	if err := errors.Join(slices.Concat(serving.Validate(), authentication.Validate(), authorization.Validate())...); err != nil {
		return nil, err
	}
	if err := serving.ApplyTo(&c.SecureServing, &c.LoopbackClientConfig); err != nil {
		return nil, fmt.Errorf("serving certificate: %w", err)
	}
	if err := authentication.ApplyTo(&c.Authentication, c.SecureServing, c.OpenAPIConfig); err != nil {
		return nil, fmt.Errorf("delegated authentication: %w", err)
	}
	if err := authorization.ApplyTo(&c.Authorization); err != nil {
		return nil, fmt.Errorf("delegated authorization: %w", err)
	}
	return install(&config, c, scheme)
}

// Run serves until the context ends, and then until what is being answered has been.
func (s *Server) Run(ctx context.Context) error {
	return s.generic.PrepareRun().RunWithContext(ctx)
}

// newConfig is the generic server's configuration, but for where it serves and whom.
func newConfig(config *Config) (*genericapiserver.Config, *runtime.Scheme) {
	scheme := newScheme(config.Served)
	c := genericapiserver.NewConfig(serializer.NewCodecFactory(scheme))
	c.EffectiveVersion = compatibility.DefaultBuildEffectiveVersion()
	namer := openapinamer.NewDefinitionNamer(scheme)
	c.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(GetOpenAPIDefinitions, namer)
	c.OpenAPIConfig.Info.Title, c.OpenAPIConfig.Info.Version = "md-exporter", version.Version
	c.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(GetOpenAPIDefinitions, namer)
	c.OpenAPIV3Config.Info.Title, c.OpenAPIV3Config.Info.Version = "md-exporter", version.Version
	c.RequestTimeout = max(c.RequestTimeout, config.ReadTimeout+answerSlack)
	c.EnableProfiling = false
	c.EnableMetrics = false // Served below, with more series.
	c.StorageObjectCountTracker = nil
	c.HealthzChecks = []healthz.HealthChecker{healthz.PingHealthz}
	c.LivezChecks = []healthz.HealthChecker{healthz.PingHealthz}
	c.ReadyzChecks = []healthz.HealthChecker{healthz.PingHealthz, healthz.NamedCheck("synced", func(*http.Request) error {
		if !config.Source.Synced() {
			return errors.New("the cluster's model deployments are not known yet")
		}
		return nil
	})}
	return c, scheme
}

// install makes the server and its one API group.
func install(config *Config, c *genericapiserver.Config, scheme *runtime.Scheme) (*Server, error) {
	generic, err := c.Complete(nil).New("md-exporter", genericapiserver.NewEmptyDelegate())
	if err != nil {
		return nil, err
	}
	apimetrics.Register()
	generic.ShutdownTimeout = config.ReadTimeout + answerSlack
	gatherers := prometheus.Gatherers{legacyregistry.DefaultGatherer}
	if config.Gatherer != nil {
		gatherers = append(gatherers, config.Gatherer)
	}
	generic.Handler.NonGoRestfulMux.Handle("/metrics", promhttp.HandlerFor(gatherers, promhttp.HandlerOpts{}))

	codecs := serializer.NewCodecFactory(scheme)
	group := genericapiserver.NewDefaultAPIGroupInfo(config.Served.Group, scheme, runtime.NewParameterCodec(scheme), codecs)
	group.NegotiatedSerializer = textual{group.NegotiatedSerializer}
	group.VersionedResourcesStorageMap[config.Served.Version] = map[string]rest.Storage{
		resource:                     parent{},
		resource + "/" + subresource: newMetrics(config.Served.Group, config),
	}
	if err := generic.InstallAPIGroup(&group); err != nil {
		return nil, err
	}
	return &Server{generic}, nil
}

// textual leaves out protobuf, which the document has no encoding for: a client that would take it before
// JSON is answered in JSON.
type textual struct {
	runtime.NegotiatedSerializer
}

// SupportedMediaTypes implements runtime.NegotiatedSerializer.
func (t textual) SupportedMediaTypes() []runtime.SerializerInfo {
	return slices.DeleteFunc(slices.Clone(t.NegotiatedSerializer.SupportedMediaTypes()), func(info runtime.SerializerInfo) bool {
		return info.MediaType == runtime.ContentTypeProtobuf
	})
}
