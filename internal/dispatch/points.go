package dispatch

import (
	"github.com/cofferpay/coffer/internal/crash"
	"github.com/cofferpay/coffer/internal/signer"
)

// One code path serves payments, sweeps and gas top-ups, but each has failpoints with names of its
// own. The functions of this file choose the failpoint.

// hitBeforeSign hits the failpoints before the signer is asked for a signature.
func hitBeforeSign(o Order) {
	crash.Hit("W09")
	if o.Purpose == signer.Sweep {
		crash.Hit("S06")
	}
}

// hitAfterSign hits the failpoints between the signer's answer and the database write.
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

// hitAfterStore hits the failpoints between the database write and the broadcast.
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

// hitAfterSend hits the failpoints between the providers' answer and the database write.
func hitAfterSend(o Order) {
	crash.Hit("W18")
	switch o.Purpose {
	case signer.Sweep:
		crash.Hit("S05")
	case signer.GasTopUp:
		crash.Hit("F03")
	}
}

// hitAfterProof hits the failpoints between the proof and the settlement.
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

// hitBeforeEnd hits the failpoints before the commit of the transaction that ends an order.
func hitBeforeEnd(e End) {
	if e.Paid {
		crash.HitBeforeCommit("W27")
	} else {
		crash.HitBeforeCommit("W29")
	}
}

// hitAfterEnd hits the failpoints after that commit.
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
