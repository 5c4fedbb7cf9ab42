package pages

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/http/resource"
	"github.com/cofferpay/coffer/internal/identity/signin"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// describe turns an error into the sentences and the status of the answer. An error that is no refusal
// is logged here and nowhere else.
func (s *server) describe(r *Request, err error) (ui.Refusal, int) {
	if err == errFields {
		return ui.Refusal{}, http.StatusUnprocessableEntity
	}
	f := fault.Find(err)
	if errors.Is(err, pg.ErrShareExhausted) {
		f = fault.New(fault.Unavailable, fault.CodeUnavailable, fault.Unprocessed,
			"Other requests of your organization use its whole share of the database.")
	}
	if f == nil {
		f = newInternal(r.Method, err)
		if outage := resource.DescribeOutage(err); outage != "" {
			f = newOutage(r.Method, outage)
		}
	}
	if fault.Find(err) == nil || f.Code == fault.Internal {
		s.log.LogAttrs(r.Context(), slog.LevelError, "page failed", slog.String("requestId", r.ID),
			slog.String("method", r.Method), slog.String("path", r.URL.Path), slog.Any("error", err))
	}
	refusal := ui.Refusal{
		Heading: headings[f.Code], Money: words.Effects[f.Effect], Reason: f.Reason,
		NextStep: nextStep(f), RequestID: r.ID,
	}
	if signin.IsRestricted(err) {
		refusal.Heading = "This has to wait: a recovery code was used."
		if r.Session != nil {
			refusal.Reason = "It is possible again from " +
				ui.FormatMoment(r.Moment(r.Session.Account.RestrictedUntil)) + " on."
		}
		refusal.NextStep = "Until then, ask a person with your role."
	}
	status := kernel.HTTPStatus(f)
	if r.key != "" && f.Effect == fault.Unknown {
		refusal.Money, refusal.NextStep = keyedOutcomeUnknown, ""
	}
	switch {
	case r.firstPath != "" && f.Code == fault.IdempotencyConflict:
		refusal.LinkPath, refusal.LinkText = r.firstPath, "Look at the first request"
	case f.Effect == fault.Unknown:
		refusal.LinkPath, refusal.LinkText = s.lookPath(r), "Look at the present state"
	case r.page.Access == Everyone && r.page.Load != nil:
		refusal.LinkPath, refusal.LinkText = s.surface.SignInPath, "Go to sign-in"
	case isRead(r.Method) && status >= http.StatusBadRequest && r.Session != nil:
		refusal.LinkPath, refusal.LinkText = s.homePath(), "Go to the first page"
	case !isRead(r.Method):
		refusal.LinkPath, refusal.LinkText = s.lookPath(r), "Back to the page"
	}
	if signin.NeedsSudo(err) {
		refusal.LinkPath, refusal.LinkText = s.stepUpPath(s.lookPath(r)), "Show your second factor"
	}
	return refusal, status
}

// lookPath returns the page of an act, and the path itself of a page.
func (s *server) lookPath(r *Request) string {
	path := r.URL.EscapedPath()
	if isRead(r.Method) {
		return path
	}
	return rootOr(path[:strings.LastIndexByte(path, '/')])
}

// nextStep says what to do, in the words of the pages.
func nextStep(f *fault.Fault) string {
	step := strings.ReplaceAll(words.Steps[f.Step], "%s", f.Subject)
	if f.Advice == "" && step == "" && f.Effect != fault.Stated {
		return words.Codes[f.Code]
	}
	return strings.TrimSpace(step + " " + f.Advice)
}

func newInternal(method string, err error) *fault.Fault {
	effect, reason := fault.Unknown, "An error of ours stopped this."
	if isRead(method) {
		effect = fault.ReadOnly
	} else if errors.Is(err, pg.ErrCommitUnknown) {
		reason = "The connection to the database was lost while the result was being stored."
	}
	return fault.New(kernel.KindInternal, fault.Internal, effect, "%s", reason)
}

func newOutage(method, outage string) *fault.Fault {
	effect := fault.Unknown
	if isRead(method) {
		effect = fault.ReadOnly
	}
	return fault.New(fault.Unavailable, fault.CodeUnavailable, effect, "%s.", outage)
}

// headings are the sentences that name what happened, by the code of a refusal.
var headings = map[fault.Code]string{
	fault.InvalidJSON:            "This could not be read.",
	fault.InvalidRequest:         "Something in this request is not right.",
	fault.UnknownField:           "This address has something that the page does not know.",
	fault.InvalidAmount:          "The amount is not right.",
	fault.AmountBelowMinimum:     "The amount is too small.",
	fault.InvalidAddress:         "The address is not right.",
	fault.MintNotFound:           "There is no such token here.",
	fault.InvalidPair:            "These two tokens cannot be swapped.",
	fault.InvalidCursor:          "This page of the list is no longer valid.",
	fault.IdempotencyKeyMismatch: "This form names two different requests.",
	fault.SameAccount:            "Both accounts are the same.",
	fault.StatusNotPatchable:     "The status is not changed like that.",
	fault.ProductArchived:        "This product is archived.",
	fault.ReferencePaid:          "Another checkout of this reference is open or paid.",
	fault.DuplicateBatch:         "The same list was submitted before.",
	fault.RefundExceedsPayment:   "That is more than can be refunded.",
	fault.OptionUnavailable:      "This coin cannot be used now.",
	fault.CodeUnauthorized:       "That did not match.",
	fault.IPNotAllowed:           "This address is not on the list of your organization.",
	fault.ScopeMissing:           "Your role does not allow this.",
	fault.CustomerFrozen:         "This customer is frozen.",
	fault.OrganizationFrozen:     "Your organization is frozen.",
	fault.SwapsDisabled:          "Swaps are switched off for your organization.",
	fault.OrgSwapsDisabled:       "Swaps of your organization's own money are switched off.",
	fault.FeatureDisabled:        "This is switched off for your organization.",
	fault.OperatorOnly:           "Only the operator of this service can do this.",
	fault.CodeNotFound:           "There is nothing here.",
	fault.MethodNotAllowed:       "This page does not take that.",
	fault.NotAcceptable:          "This page has no such form of output.",
	fault.BodyTooLarge:           "This form is too large.",
	fault.UnsupportedMediaType:   "This is not a form.",
	fault.IdempotencyConflict:    "This form was already used for another request.",
	fault.ApprovalRefused:        "It was not approved.",
	fault.InvalidState:           "It was decided already.",
	fault.DepositNotFlagged:      "This deposit does not wait for a decision.",
	fault.ResolutionInProgress:   "A decision about this deposit is being carried out.",
	fault.ResolutionStuckCode:    "The decision about this deposit is stuck.",
	fault.RefundNotReceived:      "Nothing has come back yet.",
	fault.RejectBlockedSanctions: "This deposit cannot be returned.",
	fault.InsufficientGas:        "There is not enough for the network fee.",
	fault.InsufficientBalance:    "The balance is too small.",
	fault.QuoteRejected:          "No provider offers this swap.",
	fault.DestinationNotAllowed:  "Payments to this address are not allowed.",
	fault.AddressNotWhitelisted:  "This address is not on the whitelist.",
	fault.DepositsSuspended:      "Deposits of this token are stopped now.",
	fault.WithdrawalsSuspended:   "Withdrawals of this token are stopped now.",
	fault.WithdrawalRiskBlocked:  "Risk screening blocked this withdrawal.",
	fault.RateLimited:            "There were too many requests.",
	fault.ProviderError:          "The answer of the swap provider cannot be read.",
	fault.ProviderTimeout:        "The swap provider did not answer.",
	fault.Internal:               "Something went wrong on our side.",
	fault.CodeUnavailable:        "This is not possible at the moment.",
}

// keyedOutcomeUnknown is the effect of a form with an idempotency key whose outcome is not known.
const keyedOutcomeUnknown = "It is not known whether this took effect. " +
	"Send the form again, also several times: it counts once."

// words are the sentences of the pages about the effect of a refusal and the next step.
var words = fault.Words{
	Effects: map[fault.Effect]string{
		fault.NothingWritten:  "Nothing was changed and no money moved.",
		fault.NothingHeld:     "Nothing was held and nothing was sent.",
		fault.StillHeld:       "Nothing was sent. The withdrawal still waits, and its amount is still held.",
		fault.Undecided:       "Nothing was decided. The deposit still waits.",
		fault.ReadOnly:        "This only shows something. Nothing was changed and no money moved.",
		fault.Unprocessed:     "This did nothing. What you did before is not affected.",
		fault.AttemptRecorded: "No money moved. The attempt is in the history, and the deposit still waits.",
		fault.TransactionKept: "Nothing was done. The transaction stays as it was sent and can still be mined.",
		fault.StillStuck:      "Nothing was booked. The payment is still stuck, and its amount is still held.",
		fault.Unknown:         "It is not known whether this took effect. Look before you repeat it.",
		fault.Stated:          "",
	},
	Steps: map[fault.Step]string{
		fault.NoStep:                 "",
		fault.SendKey:                "Sign in again.",
		fault.SendOperatorKey:        "Sign in again.",
		fault.ImportShrunk:           "The operator of this service has to check the list.",
		fault.ListMints:              "Choose a token of the list.",
		fault.ListDeposits:           "Look for the deposit in the list of deposits.",
		fault.ListFlaggedDeposits:    "The tab Flagged deposits lists what waits for a decision.",
		fault.RedirectDeposit:        "Only the operator of this service can send it to another address.",
		fault.ListWithdrawals:        "Look for the withdrawal in the list.",
		fault.ShowWithdrawal:         "The page of the withdrawal shows its present state.",
		fault.LookAtBalances:         "Look at the balances and ask for less.",
		fault.LookAtCustomerBalances: "Look at the balances of the customer and ask for less, or wait for a deposit.",
		fault.CreateCustomer:         "A customer exists from its first deposit address on.",
		fault.RepeatWithSameKey:      "Send the form again in a moment: it counts once.",
		fault.RepeatLaterWithSameKey: "Try again later: the form counts once.",
		fault.ListEndpoints:          "Look at the list of webhooks.",
		fault.SetOrDeleteEndpoint:    "Fill in one of them, or delete the webhook.",
		fault.EnableEndpoint:         "Enable the webhook, then try again.",
		fault.ChangeEndpointFilters:  "Change what the webhook receives, or choose another one.",
		fault.ListEvents:             "The list of events has those of the last 90 days.",
		fault.ListEventTypes:         "Choose a type of the list.",
		fault.ShowSubjectOfEvent:     "Look at the deposit, withdrawal or transfer of the event.",
		fault.ListLocalRisk:          "Look at the entries of the list.",
		fault.ListOrganizations:      "Look at the list of organizations.",
		fault.ListFreezes:            "Look at the list of freezes.",
		fault.ListChangeRequests:     "Look at the list of change requests.",
		fault.ListOrders:             "The operator of this service can look at the open payments.",
		fault.ShowOrder:              "The operator of this service can look at the payment %s.",
		fault.ResolveOrder:           "The operator of this service has to check the payment %s on the chain.",
		fault.CancelOrderAgain:       "The operator of this service has to end the payment %s again.",
		fault.ListWallets:            "The operator of this service can look at the wallets.",
	},
	Codes: map[fault.Code]string{
		fault.InvalidJSON:            "Open the page again.",
		fault.InvalidRequest:         "Correct it and send the form again.",
		fault.UnknownField:           "Open the page from the menu.",
		fault.InvalidAmount:          "Correct the amount and send the form again.",
		fault.AmountBelowMinimum:     "Ask for more.",
		fault.InvalidAddress:         "Correct the address and send the form again.",
		fault.MintNotFound:           "Choose a token of the list.",
		fault.InvalidPair:            "Choose other tokens.",
		fault.InvalidCursor:          "Start again at the first page of the list.",
		fault.IdempotencyKeyMismatch: "Open the page again.",
		fault.SameAccount:            "Choose another account.",
		fault.StatusNotPatchable:     "Open the page again.",
		fault.ProductArchived:        "Put it on sale again, or sell another one.",
		fault.ReferencePaid:          "Use the other checkout, or cancel it first.",
		fault.DuplicateBatch:         "Look at the other batch first.",
		fault.RefundExceedsPayment:   "Refund less.",
		fault.OptionUnavailable:      "Choose another coin, or try again later.",
		fault.CodeUnauthorized:       "Check what you typed and try again.",
		fault.IPNotAllowed:           "Ask the operator of this service to add it.",
		fault.ScopeMissing:           "Ask a person of your organization who has the role.",
		fault.CustomerFrozen:         "The party that froze the customer has to lift the freeze first.",
		fault.OrganizationFrozen:     "Ask the operator of this service.",
		fault.SwapsDisabled:          "Ask the operator of this service to switch them on.",
		fault.OrgSwapsDisabled:       "Ask the operator of this service to switch them on.",
		fault.FeatureDisabled:        "Ask the operator of this service to switch it on.",
		fault.OperatorOnly:           "Ask the operator of this service.",
		fault.CodeNotFound:           "Check the link, or look for it in the list.",
		fault.MethodNotAllowed:       "Open the page from the menu.",
		fault.NotAcceptable:          "Open the page from the menu.",
		fault.BodyTooLarge:           "Fill in less.",
		fault.UnsupportedMediaType:   "Open the page again and fill in the form there.",
		fault.IdempotencyConflict:    "Look at what the first request did, then open the page again.",
		fault.ApprovalRefused:        "Look at it again before you decide.",
		fault.InvalidState:           "Look at its present state before you decide again.",
		fault.DepositNotFlagged:      "Look at its present state.",
		fault.ResolutionInProgress:   "Wait until it is carried out.",
		fault.ResolutionStuckCode:    "Ask the operator of this service to complete it.",
		fault.RefundNotReceived:      "Try again when the refund has arrived.",
		fault.RejectBlockedSanctions: "Ask the operator of this service to redirect it.",
		fault.InsufficientGas:        "Ask the operator of this service to send gas to the wallet.",
		fault.InsufficientBalance:    "Ask for less, or wait for a deposit.",
		fault.QuoteRejected:          "Change the amount, or try again later.",
		fault.DestinationNotAllowed:  "Choose another address.",
		fault.AddressNotWhitelisted:  "Choose an address of the whitelist.",
		fault.DepositsSuspended:      "Try again later, or ask the operator of this service.",
		fault.WithdrawalsSuspended:   "Try again later, or ask the operator of this service.",
		fault.WithdrawalRiskBlocked:  "Ask the customer for another address.",
		fault.RateLimited:            "Wait a moment and try again.",
		fault.ProviderError:          "Send the form again in a moment: it counts once.",
		fault.ProviderTimeout:        "Send the form again in a moment: it counts once.",
		fault.Internal:               "If it happens again, give the operator of this service the id of the request.",
		fault.CodeUnavailable:        "Try again in a moment.",
	},
}
