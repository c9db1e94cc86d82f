// Package collector turns a fleet into series. A Reader reads each deployment's Pods within its
// bounds and hands out snapshots; a Collector, bound to one request, renders them; Handler serves
// both over HTTP, and beside them the page that shows a person each deployment's last snapshot.
//
// In come the fleet of a discovery source and a scrape client; out go the modeldeployment_* series of
// each deployment and the exporter's own md_exporter_* series. Nothing lingers between scrapes but
// what a window needs, the reads held of each Pod that still exists, and what the page shows, one
// snapshot of each deployment that does.
package collector
