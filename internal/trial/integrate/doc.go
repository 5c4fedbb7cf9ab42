// Package integrate does what docs/integrate.md tells an integrator to do, with the
// commands and programs as they stand on the page, and plays an integrator with each
// of the clients, against a local world.
//
// What never happens here: a command that is mended on its way from the page to the
// shell; only the receiver's port is another one. What a crash leaves: nothing; the
// world and what it started end with the test.
package integrate
