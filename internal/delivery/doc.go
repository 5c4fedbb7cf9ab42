// Package delivery carries events to the endpoints that organizations name: it keeps
// the endpoints, makes one delivery for each matching event and endpoint, and posts it,
// signed, until the receiver says 2xx or the schedule ends.
//
// A delivery is a leased row. A dispatcher claims what is due in one transaction, posts
// outside of any, and records the outcome by compare-and-swap on its lease, so any
// number of processes may run one. Of each (endpoint, resource) only the first pending
// delivery is due, until it has been delivered or ten minutes have passed since it was
// first tried. How many posts an endpoint may have in flight grows with its quick
// answers and shrinks with its failures, so that one dead receiver holds up nobody.
//
// What never happens here: a post inside a transaction, a redirect followed, a
// connection to an address that is not public (the guard sees the address that is really
// dialled), a secret in a log or in the clear in the database, a delivery that ends
// without being delivered, failed after the whole schedule, or cancelled with its
// endpoint.
//
// What a crash leaves: leases that run out. Their deliveries are posted again with the
// same id and the same bytes; the receiver may have seen them already.
package delivery
