// Package refunds plays the refunds of checkouts on a simulated chain: from a payment that is credited to the refund
// that its payer has, with every way in which one ends without paying. After each step it checks the books. It attacks
// the rows with the roles of the program, and lets two processes do the same at once.
//
// It has tests only. They start their own database and leave nothing behind.
package refunds
