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
	encode, ok := encoders[t]
	if !ok {
		return nil, fmt.Errorf("no feature records %s", t)
	}
	return encode(data)
}

// encoders has the encoder of every event that a feature records.
var encoders = map[event.Type]func(data any) (any, error){
	event.CustomerDeposit:             of(Deposit),
	event.CustomerDepositApproved:     of(Deposit),
	event.CustomerDepositRejected:     of(Deposit),
	event.CustomerDepositRedirected:   of(Deposit),
	event.CustomerDepositReversed:     of(Deposit),
	event.CustomerDepositSeen:         of(Deposit),
	event.OrganizationDeposit:         of(Deposit),
	event.OrganizationDepositReversed: of(Deposit),

	event.CustomerWithdraw:                     of(Withdrawal),
	event.CustomerWithdrawAwaitingApproval:     of(Withdrawal),
	event.CustomerWithdrawBlocked:              of(Withdrawal),
	event.CustomerWithdrawApproved:             of(Withdrawal),
	event.CustomerWithdrawRejected:             of(Withdrawal),
	event.CustomerWithdrawCancelled:            of(Withdrawal),
	event.CustomerWithdrawFailed:               of(Withdrawal),
	event.CustomerWithdrawCompleted:            of(Withdrawal),
	event.OrganizationWithdraw:                 of(Withdrawal),
	event.OrganizationWithdrawAwaitingApproval: of(Withdrawal),
	event.OrganizationWithdrawBlocked:          of(Withdrawal),
	event.OrganizationWithdrawApproved:         of(Withdrawal),
	event.OrganizationWithdrawRejected:         of(Withdrawal),
	event.OrganizationWithdrawCancelled:        of(Withdrawal),
	event.OrganizationWithdrawFailed:           of(Withdrawal),
	event.OrganizationWithdrawCompleted:        of(Withdrawal),

	event.TransferCompleted: of(Transfer),
}

// of returns the encoder of one struct.
func of[F, O any](show func(F) O) func(data any) (any, error) {
	return func(data any) (any, error) {
		f, ok := data.(F)
		if !ok {
			return nil, fmt.Errorf("it carries %T, want %T", data, f)
		}
		return show(f), nil
	}
}
