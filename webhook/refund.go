package webhook

// Refund is what is given back of one checkout, in the coin and on the network of the payment.
//
// CHECKOUT_REFUNDED tells once that it was paid. AWAITING_ADDRESS comes back when a payment ends without paying, and
// Problem says why.
type Refund struct {
	RefundID   string `json:"refundId"`
	CheckoutID string `json:"checkoutId"`
	// AWAITING_ADDRESS, REQUESTED, SENT, COMPLETED, CANCELLED, EXPIRED
	Status string `json:"status" doc:"AWAITING_ADDRESS: it waits for the payer's address, see problem. REQUESTED: it has an address, and no payment yet. SENT: a withdrawal pays it. COMPLETED: the payment is final. CANCELLED: you took it back. EXPIRED: no one claimed it in time. After CANCELLED and EXPIRED the amount is in the balance of CHECKOUT again."`
	Kind   string `json:"kind" doc:"What was asked for. FULL: all that was credited in the mint and was not refunded. OVERPAID: what was credited above the amount due. AMOUNT: an amount." example:"OVERPAID"`
	MintID int    `json:"mintId"`
	Symbol string `json:"symbol"`
	Chain  string `json:"chain"`
	Amount string `json:"amount" doc:"What is given back, in atomic units. The payer receives it to the last unit; with feeMode DEDUCTED less the fee of the network."`
	// FeeMode is ORGANIZATION or DEDUCTED.
	FeeMode string  `json:"feeMode" doc:"Who pays the network. ORGANIZATION: you. DEDUCTED: the payer, of a native coin."`
	Reason  *string `json:"reason" doc:"Your reason, which no payer sees; null for none." example:"The parcel came back."`

	ToAddress *string `json:"toAddress" doc:"Where it goes; null while it waits for an address." example:"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"`
	// AddressProven says that the payer signed with the address.
	AddressProven bool `json:"addressProven" doc:"Whether the payer proved the address by a signature."`
	// ClaimURL has the claim key in its fragment. Give it to the payer alone.
	ClaimURL *string `json:"claimUrl" doc:"The page on which the payer says where the refund goes. Only the answer that makes the key has it: that of the refund, or of a new key. null in every other one. Who has the whole address decides where the money goes, so give it to the payer alone." example:"https://pay.example.com/r/ref_01J9ZW3M8Q4S5T6V7W8X9YZABC#k=Zk1rV2b0c9QxJmTn4sLuEw"`

	Attempt      int     `json:"attempt" doc:"How many addresses it has had." bounds:"minimum=0" example:"1"`
	WithdrawalID *string `json:"withdrawalId" doc:"The withdrawal that pays the present address; null without one." example:"wd_01J9ZW3M8Q4S5T6V7W8X9YZABC"`
	TxHash       *string `json:"txHash" doc:"The hash of its transaction; null before it has one."`
	Problem      *string `json:"problem" doc:"Why the last address was not paid, for a person; null if none was refused." example:"Risk screening refuses this address."`

	Parts          List[RefundPart] `json:"parts" doc:"What it takes of which payments, by depositId."`
	IdempotencyKey *string          `json:"idempotencyKey" doc:"The key of the request that made it; null if the request had none." example:"refund-77"`

	CreatedAt   Time  `json:"createdAt"`
	UpdatedAt   Time  `json:"updatedAt"`
	ExpiresAt   Time  `json:"expiresAt" doc:"Until when it waits for an address: 30 days."`
	CompletedAt *Time `json:"completedAt" doc:"When its payment was final; null before."`
}

// RefundPart is what a refund takes of one payment.
type RefundPart struct {
	DepositID string `json:"depositId"`
	Amount    string `json:"amount"`
}
