// Package checkouts plays the stories of checkouts on simulated chains: everything from the creation to the credit,
// each case of a payment in it, forks and outages included. After each story it compares the state, the amounts, the
// events, the audit log and the books, and settles again, which changes nothing. It also attacks the rows of checkouts
// with the roles of the program, and lets two processes do the same at once.
//
// It has tests only. They start their own database and leave nothing behind.
package checkouts
