package dispatch

import (
	"github.com/cofferpay/coffer/internal/failpoint"
	"github.com/cofferpay/coffer/internal/signer"
)

// One code path serves payments, sweeps and gas top-ups, but each has failpoints with names of its
// own. The functions of this file choose the failpoint.

// hitBeforeSign hits the failpoints before the signer is asked for a signature.
func hitBeforeSign(o Order) {
	failpoint.Hit("W09")
	if o.Purpose == signer.Sweep {
		failpoint.Hit("S06")
	}
}

// hitAfterSign hits the failpoints between the signer's answer and the database write.
func hitAfterSign(attempt attempt) {
	switch {
	case attempt.Act == signer.Cancel:
		failpoint.Hit("W30")
	case attempt.Version > 1:
		failpoint.Hit("W23")
	default:
		failpoint.Hit("W12")
	}
}

// hitAfterStore hits the failpoints between the database write and the broadcast.
func hitAfterStore(o Order) {
	switch o.Purpose {
	case signer.Payment:
		failpoint.Hit("W14")
	case signer.GasTopUp:
		failpoint.Hit("S02")
	case signer.Sweep:
		failpoint.Hit("S04")
	}
}

// hitAfterSend hits the failpoints between the providers' answer and the database write.
func hitAfterSend(o Order) {
	failpoint.Hit("W18")
	switch o.Purpose {
	case signer.Sweep:
		failpoint.Hit("S05")
	case signer.GasTopUp:
		failpoint.Hit("F03")
	}
}

// hitAfterProof hits the failpoints between the proof and the settlement.
func hitAfterProof(o Order, succeeded bool) {
	switch {
	case !succeeded:
		failpoint.Hit("W28")
	case o.Purpose == signer.Sweep:
		failpoint.Hit("S09")
	default:
		failpoint.Hit("W26")
	}
}

// hitBeforeEnd hits the failpoints before the commit of the transaction that ends an order.
func hitBeforeEnd(e End) {
	if e.Paid {
		failpoint.HitBeforeCommit("W27")
	} else {
		failpoint.HitBeforeCommit("W29")
	}
}

// hitAfterEnd hits the failpoints after that commit.
func hitAfterEnd(o Order, e End) {
	switch {
	case !e.Paid:
		failpoint.Hit("W29")
	case o.Purpose == signer.GasTopUp:
		failpoint.Hit("S03")
	default:
		failpoint.Hit("W27")
	}
}
