package dispatch

import (
	"github.com/cofferpay/coffer/internal/platform/failpoint"
	"github.com/cofferpay/coffer/internal/signer"
)

// One code path serves all kinds of orders, but some kinds have failpoints with names of their own.
// The functions of this file choose the failpoint.

// failpoints holds the names of a kind's own failpoints. "" means that it has none there.
type failpoints struct{ beforeSign, afterStore, afterSend, afterProof, afterEnd string }

// hitIfNamed hits a kind's own failpoint.
func hitIfNamed(name string) {
	if name != "" {
		failpoint.Hit(name)
	}
}

// hitAmidGroup hits the failpoint between the signer's admission of one row of a group and that of the next.
// Rule BP-50.
func hitAmidGroup(o Order) {
	if o.Batch != nil {
		failpoint.Hit("B08")
	}
}

// hitBeforeSign hits the failpoints before the signer is asked for a signature.
func hitBeforeSign(o Order) {
	failpoint.Hit("W09")
	hitIfNamed(o.Kind().failpoints.beforeSign)
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
func hitAfterStore(o Order) { hitIfNamed(o.Kind().failpoints.afterStore) }

// hitAfterSend hits the failpoints between the providers' answer and the database write.
func hitAfterSend(o Order) {
	failpoint.Hit("W18")
	hitIfNamed(o.Kind().failpoints.afterSend)
}

// hitAfterProof hits the failpoints between the proof and the settlement.
func hitAfterProof(o Order, succeeded bool) {
	if succeeded {
		hitIfNamed(o.Kind().failpoints.afterProof)
	} else {
		failpoint.Hit("W28")
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
	if e.Paid {
		hitIfNamed(o.Kind().failpoints.afterEnd)
	} else {
		failpoint.Hit("W29")
	}
}
