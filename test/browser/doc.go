// Package browser opens the exporter's status page in a real Chromium, as a person would. It is a module of
// its own, so that the exporter's go.mod knows nothing of it.
package browser
