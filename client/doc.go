// Package client calls the REST interface of Coffer from Go.
//
//	c, err := client.New("https://coffer.internal/v1", os.Getenv("COFFER_API_KEY"))
//	address, err := c.CreateDepositAddress(ctx, client.DepositRequest{MintID: 1, CustomerID: "user_42"})
//	for deposit, err := range c.Deposits(ctx, client.ListDepositsParams{CustomerID: "user_42"}) { … }
//
// There is a method for every call of the published document and a field for
// everything in it. calls.go is generated from the document, and a test fails if
// the two differ. Deposits, withdrawals, transfers and events are the types of
// package webhook, so a webhook and the answer of a call have the same type. Its
// Verify checks what a receiver gets.
//
// # What is repeated
//
// Some calls can be repeated without harm: every read, every call that the
// document marks so, and a payment with an idempotency key. A repetition has the
// same key and the same bytes. The client repeats such a call when no answer came,
// on a 5xx, and on 429 after the time that the answer states. It sends POST /withdraw
// without a key only once: the service could not distinguish a second request from
// another payment.
//
// # What an error says about the money
//
// An *Error is an answer of the service; errors.Is compares it with a Code. If an
// error is ErrOutcomeUnknown, it is not known yet whether the call took effect. Make
// the same call again with the same key, later if necessary, and its answer says.
// Every other error of a call that moves money says that this call moved nothing.
//
// Amounts are strings of whole atomic units. Units and Decimal convert them from
// and to whole tokens exactly, and BigInt parses them for arithmetic.
//
// The client never uses a floating-point number, never follows a redirect with the
// key, never logs a key and never repeats a payment without a key. A crash leaves no
// trace; the caller's own record of the key is what continues.
package client
