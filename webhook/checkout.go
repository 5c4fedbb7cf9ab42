package webhook

// Checkout is one sale: what its payer owes, how it can be paid, and what was paid.
//
// Deliver on CHECKOUT_COMPLETED, once for each CheckoutID. CHECKOUT_PROCESSING says that enough is
// in blocks that are not final. A checkout that is EXPIRED or CANCELLED may still become COMPLETED,
// if money arrives late and a policy or a person accepts it. COMPLETED is final, and Exception tells
// of what happens later.
type Checkout struct {
	CheckoutID string `json:"checkoutId"`
	// URL has the key of the page in its fragment. Give it to the payer alone.
	URL *string `json:"url" doc:"The page on which the payer pays; null without one. The part after # allows the payer's actions, so give the whole address to the payer alone." example:"https://pay.example.com/c/co_01J9ZW3M8Q4S5T6V7W8X9YZABC#k=3q2-7w"`
	// OPEN, PROCESSING, COMPLETED, EXPIRED, CANCELLED
	Status string `json:"status" doc:"OPEN: it waits for payments. PROCESSING: enough is in blocks that are not final. COMPLETED: enough is credited, or a person accepted what is. EXPIRED: its time is over. CANCELLED: you ended it. EXPIRED and CANCELLED can still become PROCESSING or COMPLETED when money arrives late."`
	// the most severe of Details.Exceptions, or NONE
	Exception string          `json:"exception" doc:"The most severe exception, or NONE. details has all of them."`
	Details   CheckoutDetails `json:"details" doc:"More about its state."`

	LineItems List[LineItem] `json:"lineItems" doc:"What is sold, as it was when the checkout was made."`
	Currency  string         `json:"currency" doc:"The currency of its amounts: USD, or the symbol of an accepted mint." example:"USD"`
	AmountDue string         `json:"amountDue" doc:"What the payer owes." form:"decimal" example:"49.99"`
	// AmountPaid is what counts of the credited payments, each by the price of its own moment.
	AmountPaid string `json:"amountPaid" doc:"What the credited payments count, in the currency of the checkout: each by the price of its own moment." form:"decimal" example:"49.99"`
	// AmountPaidUSD is null where a credited payment was never priced in dollars.
	AmountPaidUSD   *string `json:"amountPaidUsd" doc:"What the credited payments count in dollars; null if a payment counts without a price in dollars, which happens where the currency is the symbol of its mint." form:"decimal" example:"49.99"`
	AmountRemaining string  `json:"amountRemaining" doc:"What is still to be paid, less what is in blocks; 0 once enough is paid." form:"decimal" example:"0.00"`
	AmountOverpaid  string  `json:"amountOverpaid" doc:"How much more is credited than was due." form:"decimal" example:"0.00"`

	AcceptedMintIDs List[int] `json:"acceptedMintIds" doc:"The mints in which it can be paid."`
	// one for each of AcceptedMintIDs, in their order
	PaymentOptions List[PaymentOption]   `json:"paymentOptions" doc:"How it can be paid: one for each accepted mint, in their order. An option has an address once it is opened."`
	Payments       List[CheckoutPayment] `json:"payments" doc:"What arrived for it, the oldest first."`
	// the newest one, and in CHECKOUT_REFUNDED the one that was paid; without its claim key
	Refund *Refund `json:"refund" doc:"Its newest refund, and in CHECKOUT_REFUNDED the one that was paid; null without one. GET /refunds has all of them."`

	// The caller's own words, which no payer sees.
	CustomerID      *string  `json:"customerId" doc:"Your own name for the payer; null for none. It makes no customer, and no payer sees it." example:"user_42"`
	CustomerEmail   *string  `json:"customerEmail" doc:"The payer's e-mail, as the request had it; null for none."`
	Reference       *string  `json:"reference" doc:"Your own reference, such as the number of an order; null for none." example:"order-77"`
	OnePerReference bool     `json:"onePerReference" doc:"Whether no other checkout of this reference can be open or paid."`
	Metadata        Metadata `json:"metadata" doc:"Your own keys and values."`
	IdempotencyKey  *string  `json:"idempotencyKey" doc:"The key of the request that made it; null if the request had none." example:"checkout-77"`
	LinkID          *string  `json:"linkId" doc:"The payment link through which it was sold; null for none."`
	SuccessURL      *string  `json:"successUrl" doc:"Where the payer is led after the payment; null for nowhere." format:"uri" example:"https://shop.example.com/thanks"`
	CancelURL       *string  `json:"cancelUrl" doc:"Where the payer is led who gives up; null for nowhere." format:"uri" example:"https://shop.example.com/cart"`

	AcceptedBy   *Actor  `json:"acceptedBy" doc:"The person or key that accepted what was paid; null if none had to."`
	AcceptReason *string `json:"acceptReason" doc:"The reason that was given for it; null without such a decision." example:"The payer sent the rest in cash."`

	ExpiresAt   Time  `json:"expiresAt" doc:"Until when a payment is in time. A first part moves it once, to at least 30 minutes later."`
	CancelledAt *Time `json:"cancelledAt" doc:"When it was cancelled; null if it was not."`
	CompletedAt *Time `json:"completedAt" doc:"When it was completed; null until it is."`
	CreatedAt   Time  `json:"createdAt"`
	UpdatedAt   Time  `json:"updatedAt"`
}

// CheckoutDetails is what Exception has no room for.
type CheckoutDetails struct {
	Exceptions List[string] `json:"exceptions" doc:"Everything unusual about it, the most severe first."`
}

// LineItem is one position of a checkout.
type LineItem struct {
	ProductID *string `json:"productId" doc:"The product; null for something that is none." example:"prod_01J9ZW3M8Q4S5T6V7W8X9YZABC"`
	Name      string  `json:"name" doc:"The name, for payers." example:"Gold plan"`
	UnitPrice string  `json:"unitPrice" doc:"The price of one piece, in the currency of the checkout." form:"decimal" example:"49.99"`
	Quantity  int     `json:"quantity" doc:"How many pieces." bounds:"minimum=1" example:"1"`
}

// PaymentOption is how a checkout can be paid in one mint. Its address belongs to this checkout
// permanently: it is never used for another one, and what arrives at it later is credited as well.
//
// A shop that shows the address itself checks it with VerifyAddress.
type PaymentOption struct {
	MintID  int     `json:"mintId"`
	Address *string `json:"address" doc:"The address of this checkout; null until the option is opened. Any wallet and any exchange can pay it." example:"0x71C7656EC7ab88b098defB751B7401B5f6d8976F"`
	Memo    *string `json:"memo" doc:"null: no address of a checkout needs a memo."`
	// Amount, Rate and RateExpiresAt are those of the newest quote.
	Amount        *string `json:"amount" doc:"What pays the rest, in atomic units; null until the option is opened, and while no rate is known for the rest." form:"amount" example:"49990000"`
	Rate          *string `json:"rate" doc:"What one whole token counts in the currency of the checkout; null with amount." form:"decimal" example:"1.00"`
	RateExpiresAt *Time   `json:"rateExpiresAt" doc:"Until when this rate holds. A payment in time counts at the newest rate that held at its moment, or otherwise at the price of the market."`
	PaymentURI    *string `json:"paymentUri" doc:"A link that wallets can open; null with amount, and unless the checkout is OPEN. On SOLANA it pays the shared address with the reference, and is null as long as sharedAddress is." example:"ethereum:0xA0b8…@1/transfer?address=0x71C7…&uint256=49990000"`
	// SharedAddress and Reference are of Solana, where wallets pay an address that has its accounts, and name the
	// checkout by a key in the transaction.
	SharedAddress *string `json:"sharedAddress" doc:"Only on SOLANA: the address of all your checkouts, which costs the payer no account. It is null until its account for the token exists, which the service creates. A payment to it has to name reference, as paymentUri does, and without it the service does not know which checkout it is for." example:"7xKXtg2CW87d97TXJSDpbD5jBkheTqA83TZRuJosgAsU"`
	Reference     *string `json:"reference" doc:"Only on SOLANA: the key that names this checkout in a payment to sharedAddress; null as long as that is." example:"4Nd1mY5rHJ8Qx2WcE7tZkVbPqLs9uGfRi3aTjDnXoBhC"`

	AddressProof       *AddressProof `json:"addressProof" doc:"The signer's statement that address belongs to this checkout; null until the option is opened."`
	SharedAddressProof *AddressProof `json:"sharedAddressProof" doc:"The signer's statement that sharedAddress belongs to your organization; null where there is none."`
}

// AddressProof is the signer's statement about an address: which organization, purpose and checkout it belongs to.
// VerifyAddress checks it without a call.
type AddressProof struct {
	Family  string `json:"family" doc:"The kind of address: EVM, SOLANA or BITCOIN. All EVM chains share an address." example:"EVM"`
	Purpose string `json:"purpose" doc:"CHECKOUT: the address of one checkout. CHECKOUT_SHARED: the address of all checkouts of the organization." enum:"CHECKOUT,CHECKOUT_SHARED"`
	Path    string `json:"path" doc:"Where the signer has the key of the address." example:"m/44'/60'/1'/4/9"`
	// Signature is ed25519 by the signer's attestation key.
	Signature string `json:"signature" doc:"The ed25519 signature of the signer's attestation key, in base64." example:"mSvw…Bg=="`
}

// CheckoutPayment is what arrived for a checkout: one deposit. The deposit has the rest.
type CheckoutPayment struct {
	DepositID string `json:"depositId"`
	MintID    *int   `json:"mintId" doc:"The mint; null for a token that the catalogue does not list." example:"1"`
	Chain     string `json:"chain"`
	Amount    string `json:"amount"`
	// what it counts in the currency of the checkout
	Value *string `json:"value" doc:"What it counts in the currency of the checkout; null until it is valued, and for what cannot be." form:"decimal" example:"49.99"`
	// for display
	USDValue    *string `json:"usdValue" doc:"The same in dollars, for display; null without a price in dollars." pattern:"^[0-9]+\\.[0-9]{2}$" example:"49.99"`
	Price       *string `json:"price" doc:"The price of one whole token in dollars by which it counts; null without one." form:"decimal" example:"1"`
	PriceSource *string `json:"priceSource" doc:"Who said the price. OWN_SYMBOL: the currency of the checkout is the symbol of the mint, and no price was needed. Sources may be added without notice." example:"fixed"`
	PricedAt    *Time   `json:"pricedAt" doc:"When that price held; null until it is valued."`
	TxHash      string  `json:"txHash" doc:"The hash of the transaction."`
	// SEEN, CREDITED, FLAGGED, RETURNED, ORPHANED, REVERSED, UNUSABLE
	Status string `json:"status" doc:"SEEN: in a block, not final or not screened. CREDITED: in the balance of your product CHECKOUT. FLAGGED: held by risk screening. RETURNED: sent back or elsewhere after that. ORPHANED: its block is gone. REVERSED: its block is gone after the credit. UNUSABLE: an unknown token, or below the least deposit."`
	IsLate bool   `json:"isLate" doc:"Whether it was made after the time of the checkout, or after its cancellation."`
	Counts bool   `json:"counts" doc:"Whether it counts for the checkout."`
	PaidAt Time   `json:"paidAt" doc:"The moment by which it is judged: the time of its block, as far as that is believed."`
}
