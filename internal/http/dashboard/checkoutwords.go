package dashboard

import (
	"slices"

	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/checkout/outcome"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
)

// checkoutChip writes the status of a checkout for people.
func checkoutChip(status outcome.Status) ui.Chip {
	switch status {
	case outcome.Open:
		return ui.Chip{Kind: ui.Info, Word: "Open"}
	case outcome.Processing:
		return ui.Chip{Kind: ui.Info, Word: "Paid, not final"}
	case outcome.Completed:
		return ui.Chip{Kind: ui.Good, Word: "Completed"}
	case outcome.Expired:
		return ui.Chip{Kind: ui.Quiet, Word: "Expired"}
	case outcome.Cancelled:
		return ui.Chip{Kind: ui.Quiet, Word: "Cancelled"}
	}
	return ui.Chip{}
}

// exceptionChip writes what is unusual about a checkout for people.
func exceptionChip(e outcome.Exception) ui.Chip {
	switch e {
	case outcome.Flagged:
		return ui.Chip{Kind: ui.Wait, Word: "Held by screening"}
	case outcome.Reversed:
		return ui.Chip{Kind: ui.Bad, Word: "A payment was taken back"}
	case outcome.WrongToken:
		return ui.Chip{Kind: ui.Wait, Word: "Paid in another coin"}
	case outcome.Overpaid:
		return ui.Chip{Kind: ui.Info, Word: "Paid too much"}
	case outcome.PaidLate:
		return ui.Chip{Kind: ui.Wait, Word: "Paid too late"}
	case outcome.Underpaid:
		return ui.Chip{Kind: ui.Wait, Word: "Paid too little"}
	case outcome.Refunded:
		return ui.Chip{Kind: ui.Quiet, Word: "Given back"}
	case outcome.NoException:
		return ui.Chip{Kind: ui.Quiet, Word: "Nothing unusual"}
	}
	return ui.Chip{}
}

// paymentChip writes the status of a payment for people.
func paymentChip(status outcome.PaymentStatus) ui.Chip {
	switch status {
	case outcome.PaymentSeen:
		return ui.Chip{Kind: ui.Info, Word: "In a block, not credited"}
	case outcome.PaymentCredited:
		return ui.Chip{Kind: ui.Good, Word: "Credited"}
	case outcome.PaymentFlagged:
		return ui.Chip{Kind: ui.Wait, Word: "Held by screening"}
	case outcome.PaymentReturned:
		return ui.Chip{Kind: ui.Quiet, Word: "Returned or redirected"}
	case outcome.PaymentOrphaned:
		return ui.Chip{Kind: ui.Quiet, Word: "No longer on the chain"}
	case outcome.PaymentReversed:
		return ui.Chip{Kind: ui.Bad, Word: "Taken back"}
	case outcome.PaymentUnusable:
		return ui.Chip{Kind: ui.Quiet, Word: "Not usable"}
	}
	return ui.Chip{}
}

// unmatchedText says why a payment belongs to no checkout.
func unmatchedText(reason string) string {
	switch reason {
	case checkout.NoReference:
		return "It was paid to the address that your checkouts share, and names none of them."
	case checkout.ManyReferences:
		return "It was paid to the address that your checkouts share, and names several of them."
	case checkout.OtherReference:
		return "Its final block names another checkout than the first block that showed it, so it counts for neither."
	case checkout.NoCheckout:
		return "It was paid to the address of a checkout that this service does not have, as after a restored backup."
	}
	return ""
}

// describePayment says what a payment means for its checkout. Rule PAGE-84.
func describePayment(c checkout.Checkout, p checkout.Payment) string {
	switch p.Status {
	case outcome.PaymentFlagged:
		return "Screening holds it. A person decides about the deposit, and it counts for nothing until then."
	case outcome.PaymentReturned:
		return "After screening it went back, or to an address that a person chose. It counts for nothing."
	case outcome.PaymentOrphaned:
		return "Its block is not on the chain any more. It counts for nothing, unless it comes into another block."
	case outcome.PaymentReversed:
		return "It was credited and taken back, because its block left the chain. It counts for nothing."
	case outcome.PaymentUnusable:
		return "The token is unknown, or the amount is below the least deposit. It counts for nothing."
	}
	whereabouts := "It is credited when its block is final and screening has looked at it."
	if p.Status == outcome.PaymentCredited {
		whereabouts = "It is in the balance of your checkout."
	}
	switch {
	case p.Counts:
		return "It counts. " + whereabouts
	case p.Counted == nil && p.Mint != nil:
		return "It waits for a price by which it counts. " + whereabouts
	case !p.IsAccepted:
		return "The checkout does not take this coin, so it counts for nothing. " + whereabouts
	case !p.IsInTime && c.Status != outcome.Completed:
		return "It came after the time for payments, and counts when a person accepts it. " + whereabouts
	case !p.IsInTime:
		return "It came after the time for payments, and counts for nothing. " + whereabouts
	}
	return "It does not count yet. " + whereabouts
}

// describeCheckout says how far a checkout is, and what happens next. Rule PAGE-84.
func describeCheckout(r *pages.Request, c checkout.Checkout) swapNow {
	hasException := func(e outcome.Exception) bool { return slices.Contains(c.Exceptions, e) }
	end := ui.FormatMoment(r.Moment(c.ExpiresAt))
	switch {
	case c.Status == outcome.Completed && hasException(outcome.Reversed):
		return swapNow{
			ui.Bad, "It was completed, and then a payment was taken back: its block left the chain after the credit.",
			"Your backend was told that it is paid. Ask the payer to pay again before you deliver, if you still can.",
		}
	case c.Status == outcome.Completed && hasException(outcome.Overpaid):
		outlook := checkoutBalanceNote
		if c.OverPolicy == checkout.RefundLinkSurplus {
			outlook = "By its terms a refund of the surplus is made by itself, and the payer claims it."
		}
		return swapNow{ui.Good, "It is paid, and more than was due is credited.", outlook}
	case c.Status == outcome.Completed && c.DecidedBy != "":
		return swapNow{ui.Good, "A person accepted what was paid.", checkoutBalanceNote}
	case hasException(outcome.Flagged):
		return swapNow{
			ui.Wait, "Screening holds a payment.",
			"A person decides about the deposit. If it is approved, it counts by the moment at which it was paid.",
		}
	case c.Status == outcome.Completed:
		return swapNow{ui.Good, "It is paid.", checkoutBalanceNote}
	case c.Status == outcome.Processing:
		return swapNow{
			ui.Info, "Enough is in blocks that are not final.",
			"It is completed when enough is credited. Do not deliver before.",
		}
	case hasException(outcome.Reversed):
		return swapNow{
			ui.Bad, "A payment was taken back: its block left the chain after the credit.",
			"What is left does not complete the checkout. The payer has to pay again.",
		}
	case hasException(outcome.WrongToken):
		return swapNow{
			ui.Wait, "It was paid in a coin that it does not take.",
			"The money is in the balance of your checkout once it is credited. A person decides whether it is enough.",
		}
	case c.Status == outcome.Open && !c.SeenSum.IsZero():
		outlook := ". After that a person decides."
		if c.LatePolicy == checkout.RefundLinkLate {
			outlook = ". After that a refund of the part is made by itself."
		}
		return swapNow{ui.Wait, "A part is paid.", "The payer can pay the rest until " + end + outlook}
	case c.Status == outcome.Open:
		return swapNow{
			ui.Info, "No payment was seen yet.", "A payment is in time until " + end + ".",
		}
	}
	return describeEnded(c, hasException)
}

// describeEnded says what a checkout waits for whose time is over.
func describeEnded(c checkout.Checkout, hasException func(outcome.Exception) bool) swapNow {
	const isRefunded = "By its terms a refund of it is made by itself, and the payer claims it. A person may accept " +
		"it all the same."
	switch {
	case c.LatePolicy == checkout.RefundLinkLate && hasException(outcome.PaidLate):
		return swapNow{ui.Wait, "It was paid after its time.", isRefunded}
	case c.LatePolicy == checkout.RefundLinkLate && hasException(outcome.Underpaid):
		return swapNow{ui.Wait, "A part was paid until its time was over.", isRefunded}
	case hasException(outcome.PaidLate):
		return swapNow{
			ui.Wait, "It was paid after its time.",
			"The money is in the balance of your checkout once it is credited. A person decides whether it counts.",
		}
	case hasException(outcome.Underpaid):
		return swapNow{
			ui.Wait, "A part was paid until its time was over.",
			"The money is in the balance of your checkout once it is credited. A person decides whether it is enough.",
		}
	case c.Status == outcome.Cancelled:
		return swapNow{
			ui.Quiet, "It was cancelled before any payment.",
			"If something arrives all the same, it is credited, and a person decides.",
		}
	}
	return swapNow{
		ui.Quiet, "Its time is over, and nothing was paid.",
		"If something arrives all the same, it is credited, and counts as its terms say about late payments.",
	}
}
