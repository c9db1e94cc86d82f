// Package collector turns a fleet into series. A Reader reads each deployment's Pods within its
// bounds and hands out snapshots; a Collector, bound to one request, renders them; Handler serves
// both over HTTP.
//
// In come the fleet of a discovery source and a scrape client; out go the modeldeployment_* series of
// each deployment and the exporter's own md_exporter_* series. Nothing lingers between scrapes but
// what a window needs: the reads held of each Pod that still exists.
package collector
