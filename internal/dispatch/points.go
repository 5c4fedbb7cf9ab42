package dispatch

import (
	"github.com/cofferpay/coffer/internal/crash"
	"github.com/cofferpay/coffer/internal/signer"
)

// One path serves payments, sweeps and top-ups, and the places where a crash
// must be survived have names of their own for each. These say which.

// atSign is before the signer is asked for a signature.
func atSign(o Order) {
	crash.Point("W09")
	if o.Purpose == signer.Sweep {
		crash.Point("S06")
	}
}

// atSigned is between the signer's answer and the database.
func atSigned(a attempt) {
	switch {
	case a.Act == signer.Cancel:
		crash.Point("W30")
	case a.Version > 1:
		crash.Point("W23")
	default:
		crash.Point("W12")
	}
}

// atStored is between the database and the providers.
func atStored(o Order) {
	switch o.Purpose {
	case signer.Payment:
		crash.Point("W14")
	case signer.Gas:
		crash.Point("S02")
	case signer.Sweep:
		crash.Point("S04")
	}
}

// atSent is between the providers' answer and the database.
func atSent(o Order) {
	crash.Point("W18")
	switch o.Purpose {
	case signer.Sweep:
		crash.Point("S05")
	case signer.Gas:
		crash.Point("F03")
	}
}

// atFinal is between the proof and the books.
func atFinal(o Order, succeeded bool) {
	switch {
	case !succeeded:
		crash.Point("W28")
	case o.Purpose == signer.Sweep:
		crash.Point("S09")
	default:
		crash.Point("W26")
	}
}

// atEnding is in the transaction that ends an order, about to be committed.
func atEnding(e End) {
	if e.Paid {
		crash.Committing("W27")
	} else {
		crash.Committing("W29")
	}
}

// atEnded is after that transaction.
func atEnded(o Order, e End) {
	switch {
	case !e.Paid:
		crash.Point("W29")
	case o.Purpose == signer.Gas:
		crash.Point("S03")
	default:
		crash.Point("W27")
	}
}
