// Package stories plays what people do on the pages, with the mistakes that they make, in a real browser
// against a whole local world: the service as it is shipped, a database, a signer and a chain.
//
// Only its tests have code. All stories share one world, each has its own people and customers, and each
// looks at the chain or asks the interface for what a page says. Nothing is simulated except the device with
// the passkeys. A crash leaves nothing: the world and the browsers end with the test.
package stories
