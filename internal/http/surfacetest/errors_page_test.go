package surfacetest

import (
	"fmt"
	"go/ast"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/resource"
)

const errorsPage = "../../../docs/errors.md"

// cures say what a caller does about each code.
var cures = map[fault.Code]string{
	fault.InvalidJSON:    "Send one JSON document in UTF-8. `error` names the byte of the error.",
	fault.InvalidRequest: "Correct the field or parameter that `param` names. `error` says which values are possible.",
	fault.UnknownField:   "Remove the field or parameter that `param` names, or spell it as `error` suggests. The service refuses unknown names, because it would otherwise ignore a mistyped one.",
	fault.InvalidAmount: "Send whole atomic units, or set `useDecimal` and send at most as many digits after the point as the mint has `decimals`." +
		" A price of a product is decimal text above zero.",
	fault.AmountBelowMinimum: "Ask for at least `minWithdrawAmount` of the mint, which `GET /mints` has.",
	fault.InvalidAddress: "Check the address with your customer: its chain, its length and its checksum. Do " +
		"not guess a correction.",
	fault.MintNotFound: "Take the `mintId` from `GET /mints`.",
	fault.InvalidPair: "Choose other mints: `details.rule` names the rule, and `GET " +
		"/mints?swappable=true` lists the mints that your customers can swap.",
	fault.InvalidCursor:          "Begin the list again without a cursor, and use each `nextCursor` with the same filters and order.",
	fault.IdempotencyKeyMismatch: "Give the key in the body or in the header `Idempotency-Key`, or the same one in both.",
	fault.SameAccount:            "Give two different balances.",
	fault.StatusNotPatchable: "Leave `status` out. `DELETE /products/{productId}` archives a product, and " +
		"`POST /products/{productId}/unarchive` puts it on sale again. A payment link is paused, resumed and ended " +
		"with `POST /payment-links/{linkId}/pause`, `/resume` and `/end`.",
	fault.ProductArchived: "Put the product on sale again with `POST /products/{productId}/unarchive`, or sell " +
		"another one.",
	fault.ReferencePaid: "Show the payer the checkout that `existingId` names. If it is open and shall not be paid, " +
		"cancel it with `POST /checkouts/{checkoutId}/cancel` first.",
	fault.DuplicateBatch: "Look at the batch payout that `existingId` names. If the same list is meant to be paid once " +
		"more, submit again with its id as `acknowledgeDuplicateOf`.",
	fault.RefundExceedsPayment: "Refund at most `details.available`, which is in atomic units of the mint. What " +
		"open refunds take counts until they are cancelled or expire.",
	fault.OptionUnavailable: "Offer the payer another mint of `acceptedMintIds`, or try again later. " +
		"`details.reason` is CLOSED, NO_PRICE, OFF_PEG, BELOW_MINIMUM or COST_TOO_HIGH.",
	fault.CodeUnauthorized:   "Send the organization's key in the header `x-api-key`. After a roll the old key is refused at once. Then repeat the request, a payment with the same `idempotencyKey`.",
	fault.IPNotAllowed:       "Call from an address on the organization's list, or ask the operator to add yours. Then repeat the request, a payment with the same `idempotencyKey`.",
	fault.ScopeMissing:       "Call with a key whose scope allows it, or with the main key; `error` names what is missing. A person needs the role that it names.",
	fault.CustomerFrozen:     "The party that set the freeze has to lift it: `POST /customers/{customerId}/unfreeze` for your own, the operator for theirs.",
	fault.OrganizationFrozen: "Ask the operator of this service. Deposits are still credited.",
	fault.SwapsDisabled: "Ask the operator of this service to switch swaps on. A swap that exists can be " +
		"read and restored meanwhile.",
	fault.OrgSwapsDisabled: "Ask the operator of this service to switch swaps of your own money on. Those that " +
		"exist go on, and can be read meanwhile.",
	fault.FeatureDisabled:      "Ask the operator of this service to switch it on.",
	fault.OperatorOnly:         "Ask the operator of this service to do it.",
	fault.CodeNotFound:         "Check the id and the path. A resource of another organization is not found, either.",
	fault.MethodNotAllowed:     "Use a method that the header `Allow` names.",
	fault.NotAcceptable:        "Leave the header `Accept` out, or send `Accept: application/json`.",
	fault.BodyTooLarge:         "Send a smaller body. Split a list of more than 2,000,000 bytes into several batch payouts.",
	fault.UnsupportedMediaType: "Send the header `Content-Type: application/json`; a batch payout may also be `text/csv`.",
	fault.IdempotencyConflict:  "Look at what `existingId` names before anything else: a payment, a transfer or a swap with this key exists. Use a new key only for a new one.",
	fault.ApprovalRefused:      "Read `error`, which says who has to approve or what to look at first. Nothing was approved.",
	fault.InvalidState:         "Read the resource again: `currentStatus` has its status. It may have ended in the meantime.",
	fault.DepositNotFlagged:    "There is nothing to do: `currentStatus` says how the deposit was resolved.",
	fault.ResolutionInProgress: "Wait for the other decision. The event of its end, or `GET /deposits/{depositId}`, shows which one it was.",
	fault.ResolutionStuckCode:  "Ask the operator of this service to complete it.",
	fault.RefundNotReceived: "Restore the swap after `CUSTOMER_SWAP_REFUNDED`, or when `refundedAmount` is set. " +
		"`POST /transfers` can advance the amount from a balance of your own.",
	fault.RejectBlockedSanctions: "Ask the operator of this service to redirect the deposit.",
	fault.InsufficientGas: "Approve the deposit, or ask the operator to redirect it later: it is worth less " +
		"than the fee that sends it.",
	fault.InsufficientBalance: "Ask for at most `available` of the balance, or wait for a deposit to be credited.",
	fault.QuoteRejected: "Ask for a quote, and change the amount, `minAmountOut` or `slippageBps`. " +
		"`providerMessage` is what the provider said, for people.",
	fault.DestinationNotAllowed: "Give an address of your customer's own, not a deposit address of this service and " +
		"not a token contract.",
	fault.AddressNotWhitelisted: "Pay to a usable address of `GET /whitelisted-addresses`, or ask the operator to " +
		"add this one.",
	fault.DepositsSuspended: "Try again later, or ask the operator of the service. A deposit that was already " +
		"sent is not lost.",
	fault.WithdrawalsSuspended:  "Repeat the request later with the same `idempotencyKey`.",
	fault.WithdrawalRiskBlocked: "Do not repeat the request with this destination: ask your customer for another address, or the operator of the service. `withdrawalId` names the record.",
	fault.RateLimited:           "Wait as many seconds as the header `Retry-After` says, then repeat the request, a payment with the same `idempotencyKey`.",
	fault.ProviderError: "Repeat the request with the same `idempotencyKey`: it returns the swap if there is " +
		"one, and asks again otherwise.",
	fault.ProviderTimeout: "Repeat the request with the same `idempotencyKey`: it returns the swap if there is " +
		"one, and asks again otherwise.",
	fault.Internal:        "Repeat a payment with the same `idempotencyKey` until another answer comes. For any other call, look the result up with the GET that `error` names. If the error stays, send the `requestId` to the operator.",
	fault.CodeUnavailable: "Wait as many seconds as `Retry-After` says. Then repeat a payment with the same `idempotencyKey`; for any other call, look the result up with the GET that `error` names.",
}

// seldom has the causes of codes that no call of an organization documents.
var seldom = map[fault.Code]kernel.ProblemDoc{
	fault.ScopeMissing: {
		Kind: fault.Forbidden, Text: "the person does not have the role that the call needs",
	},
	fault.MethodNotAllowed: {Kind: fault.Invalid, Text: "the path exists and does not accept this method"},
	fault.ApprovalRefused: {
		Kind: fault.Conflict, Text: "the person or operator may not approve this, or the subject of the approval has " +
			"changed",
	},
}

// allCodes returns the codes of package fault.
func allCodes(t *testing.T) []fault.Code {
	t.Helper()
	var all []fault.Code
	for _, file := range parse(t, "../../fault") {
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

Every answer that is not a success has the same body: ` + "`error`" + ` is a sentence for people and says
what happened to the money, ` + "`code`" + ` is one of the names below, ` + "`param`" + ` names the wrong field,
` + "`requestId`" + ` finds the request in the logs, and ` + "`retryable`" + ` says whether the same request can
succeed later. Codes are added without notice: handle an unknown code by its status.

A 4xx moved nothing by this request. After 500, 502, 503, 504 or no answer it is **not known**
whether the call took effect: repeat a payment with the same ` + "`idempotencyKey`" + `, and look
the result of any other call up with the GET that ` + "`error`" + ` names.
`)
	codes := allCodes(t)
	if len(codes) < 30 {
		t.Fatalf("got %d codes in package fault, want all of them", len(codes))
	}
	for _, code := range codes {
		note, ok := resource.Problems[code]
		if !ok {
			note, ok = seldom[code]
		}
		cure := cures[code]
		if !ok || note.Text == "" || cure == "" {
			t.Errorf(
				"%s has no cause or no cure: write its note in problems, its cure in cures, and the page with make "+
					"generate",
				code,
			)
			continue
		}
		status := kernel.HTTPStatus(&fault.Fault{Kind: note.Kind, Code: code})
		fmt.Fprintf(&page, "\n## %s\n\n**%d.** Cause: %s.\n\nCure: %s\n", code, status, note.Text, cure)
	}
	for code := range cures {
		if !slices.Contains(codes, code) {
			t.Errorf("%s has a cure and is no code", code)
		}
	}
	drawn(t, errorsPage, []byte(page.String()))
}
