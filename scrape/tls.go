package scrape

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/prometheus/common/config"
	"go.yaml.in/yaml/v2"
)

// LoadTLSConfig reads a file that holds one Prometheus tls_config: the CA, a client certificate and
// its key, the TLS versions. Relative paths in it are relative to the file. The error names the file
// and is one line: an unknown field, settings that contradict each other, or one that is refused
// here, as insecure_skip_verify is.
func LoadTLSConfig(path string) (*config.TLSConfig, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("TLS config: %w", err)
	}
	cfg := new(config.TLSConfig)
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.SetStrict(true)
	if err := dec.Decode(cfg); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("TLS config %s: %s", path, strings.Join(strings.Fields(err.Error()), " "))
	}
	if err := dec.Decode(new(any)); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("TLS config %s: more than one YAML document", path)
	}
	if err := checkTLSConfig(cfg); err != nil {
		return nil, fmt.Errorf("TLS config %s: %w", path, err)
	}
	cfg.SetDirectory(filepath.Dir(path))
	return cfg, nil
}

// checkTLSConfig refuses what would verify something else than the Pod's address.
func checkTLSConfig(cfg *config.TLSConfig) error {
	switch {
	case cfg.InsecureSkipVerify:
		return errors.New("insecure_skip_verify is refused: name the CA in ca_file instead")
	case cfg.ServerName != "":
		return errors.New("server_name is refused: certificates are verified for the Pod's IP address")
	}
	return nil
}

func newTLSConfig(cfg *config.TLSConfig) (*tls.Config, error) {
	if cfg == nil {
		cfg = new(config.TLSConfig)
	}
	if err := checkTLSConfig(cfg); err != nil {
		return nil, fmt.Errorf("TLS config: %w", err)
	}
	tlsConfig, err := config.NewTLSConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("TLS config: %w", err)
	}
	return tlsConfig, nil
}
