// Package webhook is what a receiver of Coffer's webhooks imports: the payloads,
// and the check that a request really comes from the installation that it claims to
// come from.
//
// A receiver reads the raw body, calls Verify with it and the request's headers, and
// only then decodes the Envelope and, by its Type, the Data. It answers 2xx within 15
// seconds and remembers the envelope's ID: delivery is at least once, so the same
// event may come again, always with the same ID and the same bytes. Events of one
// deposit or withdrawal come in their order; across resources the only order is
// Sequence, which has no gaps, so that a receiver can prove that it missed nothing.
//
// A receiver without a secret verifies with the installation's public keys and
// VerifyAny. While a secret or key is replaced, messages are signed by the former and the
// new one, so that a receiver that knows either of them continues. Sample has an event of
// every type to try a receiver with. The service sends the same on request, with
// environment TEST and without a sequence: ignore events of an environment that you do
// not expect.
//
// The structs print and read exactly the JSON of the API. A field that is shown as
// null is always present; unknown keys and unknown values of an open enumeration are
// to be ignored, because additions are no breaking change.
//
// The package does no I/O, depends on the standard library alone, and compares secrets in
// constant time.
package webhook
