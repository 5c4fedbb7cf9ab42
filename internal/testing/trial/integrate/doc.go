// Package integrate does what docs/integrate.md tells an integrator to do, with the commands and
// programs on the page, and plays an integrator with each of the clients, against a local world.
//
// No command is changed on its way from the page to the shell, except for the receiver's port. A
// crash leaves nothing; the world and what it started end with the test.
package integrate
