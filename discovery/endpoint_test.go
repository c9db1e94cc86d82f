package discovery

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestEndpoint(t *testing.T) {
	set := func(name, value string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Annotations[name] = value }
	}
	ip := func(ip string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Status.PodIP = ip } }
	unset := func(name string) func(*corev1.Pod) { return func(p *corev1.Pod) { delete(p.Annotations, name) } }
	for _, tt := range []struct {
		name   string
		change func(*corev1.Pod)
		want   string
	}{
		{"whole", func(*corev1.Pod) {}, "http://10.0.0.7:8000/metrics"},
		{"https", set(schemeAnnotation, "https"), "https://10.0.0.7:8000/metrics"},
		{"http", set(schemeAnnotation, "http"), "http://10.0.0.7:8000/metrics"},
		{"empty scheme", set(schemeAnnotation, ""), "http://10.0.0.7:8000/metrics"},
		{"scheme in capitals", set(schemeAnnotation, "HTTPS"), ""},
		{"another scheme", set(schemeAnnotation, "ftp"), ""},

		{"no annotations", func(p *corev1.Pod) { p.Annotations = nil }, ""},
		{"not to be scraped", set(scrapeAnnotation, "false"), ""},
		{"True", set(scrapeAnnotation, "True"), ""},
		{"without scrape", unset(scrapeAnnotation), ""},
		{"without path", unset(pathAnnotation), ""},
		{"path with a slash behind", set(pathAnnotation, "/metrics/"), ""},
		{"path without a slash", set(pathAnnotation, "metrics"), ""},
		{"another path", set(pathAnnotation, "/admin"), ""},

		{"port of another container", set(portAnnotation, "9000"), "http://10.0.0.7:9000/metrics"},
		{"port of an init container", set(portAnnotation, "9001"), "http://10.0.0.7:9001/metrics"},
		{"the last port", set(portAnnotation, "65535"), "http://10.0.0.7:65535/metrics"},
		{"port with zeros before", set(portAnnotation, "08000"), "http://10.0.0.7:8000/metrics"},
		{"port that nobody declares", set(portAnnotation, "8001"), ""},
		{"without port", unset(portAnnotation), ""},
		{"empty port", set(portAnnotation, ""), ""},
		{"port zero", set(portAnnotation, "0"), ""},
		{"port over the range", set(portAnnotation, "65536"), ""},
		{"port that wraps around to a declared one", set(portAnnotation, "73536"), ""},
		{"negative port", set(portAnnotation, "-8000"), ""},
		{"port with a sign", set(portAnnotation, "+8000"), ""},
		{"port with a space", set(portAnnotation, " 8000"), ""},
		{"port by name", set(portAnnotation, "http"), ""},
		{"port in hexadecimal", set(portAnnotation, "0x1f40"), ""},
		{"port with an underscore", set(portAnnotation, "8_000"), ""},

		{"IPv6", ip("fd00::7"), "http://[fd00::7]:8000/metrics"},
		{"IPv6 in full", ip("fd00:0:0:0:0:0:0:7"), "http://[fd00::7]:8000/metrics"},
		{"IPv6 with a zone", ip("fe80::1%eth0"), ""},
		{"IPv6 in brackets", ip("[fd00::7]"), ""},
		{"no address", ip(""), ""},
		{"a name", ip("pod.example"), ""},
		{"an address with a port", ip("10.0.0.7:80"), ""},
		{"three numbers", ip("10.0.7"), ""},
		{"an address with a zero before", ip("10.0.0.07"), ""},
		{"a path in the address", ip("10.0.0.7/evil"), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := &corev1.Pod{
				Spec: corev1.PodSpec{
					InitContainers: []corev1.Container{{Ports: []corev1.ContainerPort{{ContainerPort: 9001}}}},
					Containers: []corev1.Container{
						{Ports: []corev1.ContainerPort{{ContainerPort: 8000}, {ContainerPort: 65535}}},
						{Ports: []corev1.ContainerPort{{ContainerPort: 9000}}},
					},
				},
				Status: corev1.PodStatus{PodIP: "10.0.0.7"},
			}
			p.Annotations = map[string]string{scrapeAnnotation: "true", pathAnnotation: "/metrics", portAnnotation: "8000"}
			tt.change(p)
			if got := endpoint(p); got != tt.want {
				t.Errorf("URL %q, want %q", got, tt.want)
			}
		})
	}
}
