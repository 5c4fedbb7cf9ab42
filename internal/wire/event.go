package wire

import (
	"fmt"

	"github.com/cofferpay/coffer/internal/webhooks/event"
)

// NewRecorder returns the recorder of events that every feature gets.
func NewRecorder() event.Recorder { return event.Recorder{ObjectOf: eventObject} }

// eventObject returns the object that an event of a type carries, made from the struct of the
// feature. It fails if the type has no object yet, or if the feature passes another struct.
func eventObject(t event.Type, data any) (any, error) {
	encoder, ok := encoders[t]
	if !ok {
		return nil, fmt.Errorf("no feature records %s", t)
	}
	return encoder(data)
}

// encoders has the encoder of every event that a feature records.
var encoders = map[event.Type]func(data any) (any, error){
	event.CustomerDeposit:             encode(Deposit),
	event.CustomerDepositApproved:     encode(Deposit),
	event.CustomerDepositRejected:     encode(Deposit),
	event.CustomerDepositRedirected:   encode(Deposit),
	event.CustomerDepositReversed:     encode(Deposit),
	event.CustomerDepositSeen:         encode(Deposit),
	event.OrganizationDeposit:         encode(Deposit),
	event.OrganizationDepositReversed: encode(Deposit),

	event.CustomerWithdraw:                     encode(Withdrawal),
	event.CustomerWithdrawAwaitingApproval:     encode(Withdrawal),
	event.CustomerWithdrawBlocked:              encode(Withdrawal),
	event.CustomerWithdrawApproved:             encode(Withdrawal),
	event.CustomerWithdrawRejected:             encode(Withdrawal),
	event.CustomerWithdrawCancelled:            encode(Withdrawal),
	event.CustomerWithdrawFailed:               encode(Withdrawal),
	event.CustomerWithdrawCompleted:            encode(Withdrawal),
	event.OrganizationWithdraw:                 encode(Withdrawal),
	event.OrganizationWithdrawAwaitingApproval: encode(Withdrawal),
	event.OrganizationWithdrawBlocked:          encode(Withdrawal),
	event.OrganizationWithdrawApproved:         encode(Withdrawal),
	event.OrganizationWithdrawRejected:         encode(Withdrawal),
	event.OrganizationWithdrawCancelled:        encode(Withdrawal),
	event.OrganizationWithdrawFailed:           encode(Withdrawal),
	event.OrganizationWithdrawCompleted:        encode(Withdrawal),

	event.CustomerSwapFailed:   encode(SwapFailed),
	event.CustomerSwapRefunded: encode(SwapFailed),
	event.CustomerSwapDelayed:  encode(SwapDelayed),

	event.OrganizationSwapCompleted: encode(OrganizationSwap),
	event.OrganizationSwapFailed:    encode(OrganizationSwap),

	event.TransferCompleted: encode(Transfer),

	event.CheckoutProcessing: encode(Checkout),
	event.CheckoutCompleted:  encode(Checkout),
	event.CheckoutExpired:    encode(Checkout),
	event.CheckoutException:  encode(Checkout),
	event.CheckoutRefunded:   encode(Checkout),

	event.BatchPayoutAwaitingApproval: encode(BatchPayout),
	event.BatchPayoutProcessing:       encode(BatchPayout),
	event.BatchPayoutCompleted:        encode(BatchPayout),
	event.BatchPayoutRejected:         encode(BatchPayout),
	event.BatchPayoutFailed:           encode(BatchPayout),

	event.InvoiceIssued:    encode(Invoice),
	event.CreditNoteIssued: encode(CreditNote),
}

// encode returns the encoder that shows one struct.
func encode[F, O any](show func(F) O) func(data any) (any, error) {
	return func(data any) (any, error) {
		f, ok := data.(F)
		if !ok {
			return nil, fmt.Errorf("it carries %T, want %T", data, f)
		}
		return show(f), nil
	}
}
