package dispatch

import (
	"github.com/cofferpay/coffer/internal/crash"
	"github.com/cofferpay/coffer/internal/signer"
)

// One path serves payments, sweeps and top-ups, and the places where a crash
// must be survived have names of their own for each. These say which.

// hitBeforeSign is before the signer is asked for a signature.
func hitBeforeSign(o Order) {
	crash.Hit("W09")
	if o.Purpose == signer.Sweep {
		crash.Hit("S06")
	}
}

// hitAfterSign is between the signer's answer and the database.
func hitAfterSign(attempt attempt) {
	switch {
	case attempt.Act == signer.Cancel:
		crash.Hit("W30")
	case attempt.Version > 1:
		crash.Hit("W23")
	default:
		crash.Hit("W12")
	}
}

// hitAfterStore is between the database and the providers.
func hitAfterStore(o Order) {
	switch o.Purpose {
	case signer.Payment:
		crash.Hit("W14")
	case signer.GasTopUp:
		crash.Hit("S02")
	case signer.Sweep:
		crash.Hit("S04")
	}
}

// hitAfterSend is between the providers' answer and the database.
func hitAfterSend(o Order) {
	crash.Hit("W18")
	switch o.Purpose {
	case signer.Sweep:
		crash.Hit("S05")
	case signer.GasTopUp:
		crash.Hit("F03")
	}
}

// hitAfterProof is between the proof and the books.
func hitAfterProof(o Order, succeeded bool) {
	switch {
	case !succeeded:
		crash.Hit("W28")
	case o.Purpose == signer.Sweep:
		crash.Hit("S09")
	default:
		crash.Hit("W26")
	}
}

// hitBeforeEnd is in the transaction that ends an order, about to be committed.
func hitBeforeEnd(e End) {
	if e.Paid {
		crash.HitBeforeCommit("W27")
	} else {
		crash.HitBeforeCommit("W29")
	}
}

// hitAfterEnd is after that transaction.
func hitAfterEnd(o Order, e End) {
	switch {
	case !e.Paid:
		crash.Hit("W29")
	case o.Purpose == signer.GasTopUp:
		crash.Hit("S03")
	default:
		crash.Hit("W27")
	}
}
