package webhook

// PaymentLink is a reusable public page that sells one or several products.
type PaymentLink struct {
	LinkID string  `json:"linkId"`
	URL    *string `json:"url" doc:"The page. Everyone who has it can buy; null without pages." format:"uri" example:"https://pay.example.com/p/gold-2026"`
	Slug   string  `json:"slug" doc:"The end of the address: 22 random letters and digits, or the word that the request chose." example:"gold-2026"`
	// ACTIVE, PAUSED, ENDED
	Status         string         `json:"status" doc:"ACTIVE: it sells. PAUSED: it sells nothing until it is resumed. ENDED: it sells nothing, for good."`
	LineItems      List[LinkItem] `json:"lineItems" doc:"What it sells. It never changes."`
	MaxCompleted   *int           `json:"maxCompleted" doc:"After so many sales it sells nothing more; null for no limit." bounds:"minimum=1,maximum=1000000" example:"100"`
	CompletedCount int            `json:"completedCount" doc:"How many of its checkouts are PROCESSING or COMPLETED. It may exceed maxCompleted: checkouts that were open may be paid." example:"12"`
	ExpiresAt      *Time          `json:"expiresAt" doc:"From when on it sells nothing; null for never."`
	AfterText      *string        `json:"afterText" doc:"What a payer reads on the page of a completed checkout; null for nothing." example:"Your ticket comes by mail."`
	SuccessURL     *string        `json:"successUrl" doc:"Where the payer is led after the payment; null for where the products lead." format:"uri" example:"https://shop.example.com/thanks"`
	IdempotencyKey *string        `json:"idempotencyKey" doc:"The key of the request that made it; null if the request had none." example:"link-gold"`
	CreatedAt      Time           `json:"createdAt"`
	UpdatedAt      Time           `json:"updatedAt"`
	EndedAt        *Time          `json:"endedAt" doc:"When it was ended; null until then."`
}

// LinkItem is a product that a payment link sells.
type LinkItem struct {
	ProductID   string `json:"productId"`
	Quantity    *int   `json:"quantity" doc:"How many pieces one checkout has; null if the payer chooses." bounds:"minimum=1,maximum=1000" example:"1"`
	QuantityMin *int   `json:"quantityMin" doc:"The least quantity that the payer can choose; null for 1, or for a fixed quantity." bounds:"minimum=1,maximum=1000"`
	QuantityMax *int   `json:"quantityMax" doc:"The greatest quantity that the payer can choose; null for that of the product, or for a fixed quantity." bounds:"minimum=1,maximum=1000"`
}
