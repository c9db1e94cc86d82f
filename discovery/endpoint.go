package discovery

import (
	"net/netip"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// The annotations by which a Pod advertises its metrics, and the one path that is read.
const (
	scrapeAnnotation = "prometheus.io/scrape"
	pathAnnotation   = "prometheus.io/path"
	portAnnotation   = "prometheus.io/port"
	schemeAnnotation = "prometheus.io/scheme"

	metricsPath = "/metrics"
)

// endpoint is the URL that the Pod advertises, or empty where its annotations name no valid one, where
// no container declares the port, or where the Pod has no IP address.
func endpoint(p *corev1.Pod) string {
	if p.Annotations[scrapeAnnotation] != "true" || p.Annotations[pathAnnotation] != metricsPath {
		return ""
	}
	scheme := p.Annotations[schemeAnnotation]
	switch scheme {
	case "":
		scheme = "http"
	case "http", "https":
	default:
		return ""
	}
	port, err := strconv.ParseUint(p.Annotations[portAnnotation], 10, 16)
	if err != nil || port == 0 || !declares(p, int32(port)) {
		return ""
	}
	ip, err := netip.ParseAddr(p.Status.PodIP)
	if err != nil || ip.Zone() != "" {
		return ""
	}
	return scheme + "://" + netip.AddrPortFrom(ip, uint16(port)).String() + metricsPath
}

// declares reports whether a container or init container (a sidecar is one of these) declares the port.
func declares(p *corev1.Pod, port int32) bool {
	has := func(c corev1.Container) bool {
		return slices.ContainsFunc(c.Ports, func(cp corev1.ContainerPort) bool { return cp.ContainerPort == port })
	}
	return slices.ContainsFunc(p.Spec.Containers, has) || slices.ContainsFunc(p.Spec.InitContainers, has)
}
