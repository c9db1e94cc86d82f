// Package normalize holds the meaning of what engines and routers export: which series each field
// reads, when a field is missing and why, and what a window between two reads is worth.
//
// In come the shape of a deployment (Deployment, Pod), the body of a Pod's exposition
// (Table.Parse) and the reads held of that Pod (History). Out goes one Snapshot a deployment: its
// values and, for whatever could not be measured, a Missing entry with a Reason.
//
// The package is pure: it does no I/O, has no clock (every read carries its time) and knows no
// Kubernetes object and no metric registry. The source tables are data, in sources.go.
package normalize
