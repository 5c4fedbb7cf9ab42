// Package client calls the REST interface of Coffer from Go.
//
//	c, err := client.New("https://coffer.internal/v1", os.Getenv("COFFER_API_KEY"))
//	address, err := c.CreateDepositAddress(ctx, client.DepositRequest{MintID: 1, CustomerID: "user_42"})
//	for deposit, err := range c.Deposits(ctx, client.ListDepositsParams{CustomerID: "user_42"}) { … }
//
// There is a method for every call of the published document and a field for
// everything in it: calls.go is drawn from the document, and a test fails when
// the two differ. Deposits, withdrawals, transfers and events are the types of
// package webhook, so that what a webhook carries and what a call answers is one
// type; its Verify checks what a receiver gets.
//
// # What is repeated
//
// A call that may be repeated without harm is: every read, every call that the
// document marks so, and a payment that has an idempotency key, always with the
// same key and the same bytes. It is repeated when no answer came, on a 5xx, and
// on 429 after the time that the answer asks for. POST /withdraw without a key is
// sent once: nobody could tell the second one from another payment.
//
// # What an error says of the money
//
// An *Error is an answer of the service; errors.Is compares it with a Code. An
// error that is ErrOutcomeUnknown is one where nobody can tell yet whether the
// call took effect: make the same call again with the same key, later if need be,
// and its answer tells. Every other error of a call that moves money says that
// this call moved nothing.
//
// Amounts are strings of whole atomic units; Units and Decimal convert them to
// and from whole tokens exactly, and BigInt reads them for arithmetic.
//
// What never happens here: a floating-point number, a redirect that is followed
// with the key, a key in a log, a repeated payment without a key. What a crash
// leaves: nothing; the caller's own record of the key is what continues.
package client
