package api

import (
	"fmt"
	"go/ast"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/fault"
)

const errorsPage = "../../docs/errors.md"

// cures say what a caller does about each code.
var cures = map[fault.Code]string{
	fault.InvalidJSON:            "Send one JSON document in UTF-8. `error` names the byte at which it stops being one.",
	fault.InvalidRequest:         "Correct the field or parameter that `param` names. `error` says which values are possible.",
	fault.UnknownField:           "Remove the field or parameter that `param` names, or spell it as `error` suggests. A name that is not known is refused so that a mistyped one is not passed over.",
	fault.InvalidAmount:          "Send whole atomic units, or set `useDecimal` and send at most as many digits after the point as the mint has `decimals`.",
	fault.AmountBelowMinimum:     "Ask for at least `minWithdrawAmount` of the mint, which `GET /mints` has.",
	fault.InvalidAddress:         "Check the address with your customer: its chain, its length and its checksum. Correct nothing by guessing.",
	fault.MintNotFound:           "Take the `mintId` from `GET /mints`.",
	fault.InvalidCursor:          "Begin the list again without a cursor, and use each `nextCursor` with the same filters and order.",
	fault.IdempotencyKeyMismatch: "Give the key in the body or in the header `Idempotency-Key`, or the same one in both.",
	fault.SameAccount:            "Give two different balances.",
	fault.CodeUnauthorized:       "Send the organization's key in the header `x-api-key`. After a roll the old key is refused at once. Then repeat the request with the same `idempotencyKey`.",
	fault.IPNotAllowed:           "Call from an address on the organization's list, or ask the operator to add yours. Then repeat the request with the same `idempotencyKey`.",
	fault.ScopeMissing:           "Call with a key whose scope allows it, or with the main key; `error` names what is missing. A person needs the role that it names.",
	fault.CustomerFrozen:         "Have the freeze lifted by who set it: `POST /customers/{customerId}/unfreeze` for your own, the operator for theirs.",
	fault.OrganizationFrozen:     "Ask the operator of the service. Deposits are credited all the same.",
	fault.FeatureDisabled:        "Ask the operator of the service to switch it on.",
	fault.OperatorOnly:           "Ask the operator of the service to do it.",
	fault.CodeNotFound:           "Check the id and the path. What belongs to another organization is not found, either.",
	fault.MethodNotAllowed:       "Use a method that the header `Allow` names.",
	fault.NotAcceptable:          "Leave the header `Accept` out, or send `Accept: application/json`.",
	fault.BodyTooLarge:           "Send a smaller body.",
	fault.UnsupportedMediaType:   "Send the header `Content-Type: application/json`.",
	fault.IdempotencyConflict:    "Look at what `existingId` names before anything else: a payment with this key exists. Use a new key for a new payment alone.",
	fault.ApprovalRefused:        "Read `error`, which says who has to approve or what to look at first. Nothing was approved.",
	fault.InvalidState:           "Read it again: `currentStatus` says how it stands. It may have ended meanwhile.",
	fault.DepositNotFlagged:      "Nothing has to be done: `currentStatus` says how it was resolved.",
	fault.ResolutionInProgress:   "Wait for the other decision. The event of its end, or `GET /deposits/{depositId}`, tells which it was.",
	fault.ResolutionStuckCode:    "Ask the operator of the service to complete it.",
	fault.RejectBlockedSanctions: "Ask the operator of the service to redirect the deposit.",
	fault.InsufficientGas:        "Approve the deposit, or ask the operator to redirect it later: it is worth less than the fee that sends it.",
	fault.InsufficientBalance:    "Ask for at most `available` of the balance, or wait for a deposit to be credited.",
	fault.DestinationNotAllowed:  "Give an address of your customer's own, which is no deposit address of this service and no token contract.",
	fault.AddressNotWhitelisted:  "Pay to an address on the organization's list, or ask the operator to add this one.",
	fault.DepositsSuspended:      "Try again later, or ask the operator of the service. What was sent already is not lost.",
	fault.WithdrawalsSuspended:   "Repeat the request later with the same `idempotencyKey`.",
	fault.WithdrawalRiskBlocked:  "Do not try this destination again: ask your customer for another address, or the operator of the service. `withdrawalId` names the record.",
	fault.RateLimited:            "Wait as many seconds as the header `Retry-After` says, then repeat the request with the same `idempotencyKey`.",
	fault.Internal:               "Repeat the request with the same `idempotencyKey` until another answer comes. Send the `requestId` to the operator when it stays.",
	fault.CodeUnavailable:        "Wait as many seconds as `Retry-After` says and repeat the request with the same `idempotencyKey`.",
}

// seldom has the causes of codes that no call of an organization documents.
var seldom = map[fault.Code]problemDoc{
	fault.ScopeMissing: {
		kind: fault.Forbidden, text: "who asks may not do this: of people, who need a role for it",
	},
	fault.MethodNotAllowed: {kind: fault.Invalid, text: "the path is there and does not take this method"},
	fault.ApprovalRefused: {
		kind: fault.Conflict, text: "who approves may not, or what was approved has changed; of people and operators",
	},
	fault.AddressNotWhitelisted: {
		kind: fault.Unprocessable,
		text: "the address is not on the organization's list, or not usable yet; of the operator's interface",
	},
}

// allCodes returns the codes of package fault.
func allCodes(t *testing.T) []fault.Code {
	t.Helper()
	var all []fault.Code
	for _, file := range parse(t, "../fault") {
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			if kind, ok := spec.Type.(*ast.Ident); !ok || kind.Name != "Code" {
				return true
			}
			for _, v := range spec.Values {
				text, err := strconv.Unquote(v.(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, fault.Code(text))
			}
			return true
		})
	}
	slices.Sort(all)
	return all
}

// A code without a cause or a cure fails here, so none is added without its entry.
func TestTheErrorPageIsDrawn(t *testing.T) {
	t.Parallel()
	var page strings.Builder
	page.WriteString(`# Error codes

Every answer that is no success has the same body: ` + "`error`" + ` is a sentence for a person and says
what happened to the money, ` + "`code`" + ` is one of the names below, ` + "`param`" + ` names the field at fault,
` + "`requestId`" + ` finds the request in the logs, and ` + "`retryable`" + ` says whether the same request can
succeed later. Codes are added without notice: treat one that you do not know by its status.

A 4xx moved nothing by this request. After 500, 502, 503, 504 or no answer it is **not known**
whether a payment was taken: repeat the request with the same ` + "`idempotencyKey`" + `.
`)
	codes := allCodes(t)
	if len(codes) < 30 {
		t.Fatalf("got %d codes in package fault, want all of them", len(codes))
	}
	for _, code := range codes {
		note, ok := problems[code]
		if !ok {
			note, ok = seldom[code]
		}
		cure := cures[code]
		if !ok || note.text == "" || cure == "" {
			t.Errorf(
				"%s has no cause or no cure: write its note in problems, its cure in cures, and the page with make generate",
				code,
			)
			continue
		}
		status := httpStatus(&fault.Fault{Kind: note.kind, Code: code})
		fmt.Fprintf(&page, "\n## %s\n\n**%d.** Cause: %s.\n\nCure: %s\n", code, status, note.text, cure)
	}
	for code := range cures {
		if !slices.Contains(codes, code) {
			t.Errorf("%s has a cure and is no code", code)
		}
	}
	drawn(t, errorsPage, []byte(page.String()))
}
