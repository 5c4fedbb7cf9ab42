package resource

import (
	"strconv"
	"strings"

	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/webhook"
)

// UnmatchedPayment is a payment that arrived for the checkouts of an organization and named none of them.
type UnmatchedPayment struct {
	DepositID     string  `json:"depositId"`
	DepositStatus string  `json:"depositStatus" doc:"The status of its deposit. Its amount is in the balance of CHECKOUT once it is CREDITED."`
	Reason        string  `json:"reason" doc:"NO_REFERENCE: it was paid to the address that your checkouts share on Solana, and named none. SEVERAL_REFERENCES: it named several. NO_CHECKOUT: it was paid to the address of a checkout that the database lacks, see checkoutId. OTHER_REFERENCE: its final block named another checkout than the first block that showed it."`
	CheckoutID    *string `json:"checkoutId" doc:"The checkout of the address, for NO_CHECKOUT. The database lacks it. null for every other reason." example:"co_01J9ZW3M8Q4S5T6V7W8X9YZABC"`
	MintID        *int    `json:"mintId" doc:"The mint; null if the token is not in the catalogue." example:"1"`
	Symbol        *string `json:"symbol" doc:"Its symbol; null if the token is not in the catalogue." example:"USDC"`
	Chain         string  `json:"chain"`
	Amount        string  `json:"amount"`
	TxHash        string  `json:"txHash"`

	SuggestedCheckoutIDs webhook.List[string] `json:"suggestedCheckoutIds" doc:"Up to five open checkouts that asked for just this amount in this mint, the likeliest first. An equal amount proves nothing, so a person decides. Empty once it is assigned."`

	AssignedCheckoutID *string        `json:"assignedCheckoutId" doc:"The checkout whose payment it is; null while it is unmatched."`
	AssignedBy         *webhook.Actor `json:"assignedBy" doc:"Who assigned it: a person, a key, or SYSTEM once its final block named the checkout. null while it is unmatched."`
	AssignedAt         *webhook.Time  `json:"assignedAt" doc:"When it was assigned; null while it is unmatched."`
	CreatedAt          webhook.Time   `json:"createdAt" doc:"When it was first seen."`
}

// ShowUnmatched returns an unmatched payment as the interface shows it.
func ShowUnmatched(u checkout.Unmatched) UnmatchedPayment {
	shown := UnmatchedPayment{
		DepositID: u.DepositID, DepositStatus: u.DepositStatus, Reason: u.Reason,
		CheckoutID: OptionalText(u.CheckoutID), Chain: string(u.Chain), Amount: u.Amount.String(), TxHash: string(u.Tx),
		SuggestedCheckoutIDs: u.SuggestedIDs, AssignedCheckoutID: OptionalText(u.AssignedTo),
		AssignedAt: webhook.AtOrNil(u.AssignedAt), CreatedAt: webhook.At(u.SeenAt),
	}
	if u.Mint != nil {
		shown.MintID, shown.Symbol = &u.Mint.ID, &u.Mint.Symbol
	}
	if kind, actorID, isAssigned := strings.Cut(u.AssignedBy, " "); isAssigned {
		shown.AssignedBy = &webhook.Actor{Type: kind, ID: actorID}
	}
	return shown
}

// UnmatchedColumns are the columns of the table of unmatched payments. It has no suggestions.
var UnmatchedColumns = []kernel.Column[UnmatchedPayment]{
	{Name: "depositId", Cell: func(u UnmatchedPayment) string { return u.DepositID }},
	{Name: "createdAt", Cell: func(u UnmatchedPayment) string { return u.CreatedAt.String() }},
	{Name: "depositStatus", Cell: func(u UnmatchedPayment) string { return u.DepositStatus }},
	{Name: "reason", Cell: func(u UnmatchedPayment) string { return u.Reason }},
	{Name: "checkoutId", Cell: func(u UnmatchedPayment) string { return TextOrEmpty(u.CheckoutID) }},
	{Name: "mintId", Cell: func(u UnmatchedPayment) string {
		if u.MintID == nil {
			return ""
		}
		return strconv.Itoa(*u.MintID)
	}},
	{Name: "symbol", Cell: func(u UnmatchedPayment) string { return TextOrEmpty(u.Symbol) }},
	{Name: "chain", Cell: func(u UnmatchedPayment) string { return u.Chain }},
	{Name: "amount", Cell: func(u UnmatchedPayment) string { return u.Amount }},
	{Name: "txHash", Cell: func(u UnmatchedPayment) string { return u.TxHash }},
}

// unmatchedReasons are why a payment belongs to no checkout.
var unmatchedReasons = []string{
	checkout.NoReference, checkout.ManyReferences, checkout.NoCheckout, checkout.OtherReference,
}

// ExampleUnmatched is a payment to the shared address without a key.
var ExampleUnmatched = UnmatchedPayment{
	DepositID: ExampleDeposit.DepositID, DepositStatus: "CREDITED", Reason: checkout.NoReference, MintID: new(1),
	Symbol: new("USDC"), Chain: "SOLANA", Amount: "49990000",
	TxHash:               "5VERv8NMvzbJMEkV8xnrLkEaWRtSz9CosKDYjCJjBRnbJLgp8uirBgmQpjKhoR4tjF3ZpRzrFmBV6UjKdiSZkQUW",
	SuggestedCheckoutIDs: webhook.List[string]{ExampleCheckout.CheckoutID}, CreatedAt: ExampleAt,
}
