// Package simulate is the world outside the exporter: engines and routers that answer /metrics as
// the real ones do, driven by a small load model, and the fleets built from them.
//
// What comes in is a description: Deployment says which engine, roles and router there are and which
// Load they serve. What goes out is a Simulation of it, whose Servers answer HTTP, or a Fleet of
// several, which also listens on loopback addresses and writes the Kubernetes objects that a
// cluster would hold for it.
//
// Time is given: Advance moves the load model, and nothing but Fleet.Run looks at a clock. A
// simulation is a function of its description and of the time advanced, however that time is cut
// into steps, so the same seed always answers the same bodies.
//
// Every server keeps a journal. Totals are what a body states, counted by the load model beside the
// series and not read back from them, so a test can hold any value that was computed from a body
// against them. All observed times are multiples of 2^-20 s: their sums are exact in float64 in any
// order, and a test may compare with ==.
//
// The package imports no other room of the exporter.
package simulate
