// Package delivery sends events to the endpoints of organizations. It stores the endpoints, creates
// one delivery for each matching event and endpoint, and posts it, signed, until the receiver
// answers 2xx or the schedule ends.
//
// A delivery is a leased row. A dispatcher claims due deliveries in one transaction, posts outside
// of any, and records the outcome by compare-and-swap on the lease, so any number of processes may
// run one. Of each (endpoint, resource) only the first pending delivery is due, until it has been
// delivered or ten minutes have passed since its first attempt. The number of posts that an
// endpoint may have in flight grows with its quick answers and shrinks with its failures, so that a
// dead receiver delays no other.
//
// The package rules out:
//   - a post inside a transaction
//   - a redirect that is followed
//   - a connection to an address that is not public (the guard checks the address that is really
//     dialled)
//   - a secret in a log or unencrypted in the database
//   - a delivery that ends without being delivered, failed after the whole schedule, or cancelled
//     with its endpoint
//
// A crash leaves leases that run out. Their deliveries are posted again with the same id and the
// same bytes; the receiver may have received them already.
package delivery
