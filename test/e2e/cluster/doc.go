// Package cluster starts the real programs that the end-to-end tests stand on and speaks to them:
// etcd and kube-apiserver, Prometheus, and the exporter itself as a process.
//
// What comes in are objects and flags; what goes out are answers of real servers. No controller, no
// scheduler and no kubelet runs: a test writes what they would, Pod status included, and a Pod's
// address is one on the loopback interface that the test answers on.
//
// A function that takes a testing.TB fails the test instead of returning an error, waits with a
// deadline, and undoes at the test's end what it started. Every program listens on loopback alone,
// is killed with its process group when the test ends, and by the kernel when the test process dies
// first. What it writes is kept in .cache/e2e/<test>/, and its end is shown when the test fails.
package cluster
