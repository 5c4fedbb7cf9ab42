package webhook

// Invoice is what an organization owes the operator for a month. INVOICE_ISSUED tells that it was issued.
// Nothing of it changes any more but its status, and what credit notes give back.
type Invoice struct {
	InvoiceID string `json:"invoiceId"`
	Number    string `json:"number" doc:"Its number, without a gap in its series." example:"INV-000042"`
	Month     string `json:"month" doc:"The month in UTC. Fees of earlier months that had no price in time are on it, too." example:"2026-01"`
	// ISSUED or PAID
	Status string `json:"status" doc:"ISSUED: it waits for its payment. PAID: the operator received it." enum:"ISSUED,PAID"`

	Seller   InvoiceParty         `json:"seller" doc:"Who bills, as of the issue."`
	Buyer    InvoiceParty         `json:"buyer" doc:"Who is billed, as of the issue."`
	Sections List[InvoiceSection] `json:"sections" doc:"The sums of its fees, by kind and mint."`

	Subtotal    string `json:"subtotal" doc:"The sum of the sections in dollars." form:"decimal" example:"374.50"`
	TaxRateBps  int    `json:"taxRateBps" doc:"The rate of the tax, in basis points." example:"1900"`
	Tax         string `json:"tax" doc:"The tax in dollars." form:"decimal" example:"71.16"`
	TaxNote     string `json:"taxNote" doc:"What the invoice says about the tax; empty for nothing." example:"VAT 19 %"`
	Total       string `json:"total" doc:"What is owed in dollars." form:"decimal" example:"445.66"`
	Credited    string `json:"credited" doc:"What credit notes give back of it in dollars, with tax." form:"decimal" example:"0.00"`
	Outstanding string `json:"outstanding" doc:"What is left to pay in dollars; 0.00 once it is paid." form:"decimal" example:"445.66"`

	IssuedAt      Time    `json:"issuedAt" doc:"When it was issued."`
	PaidAt        *Time   `json:"paidAt" doc:"When the operator marked it as paid; null before."`
	PaidReference *string `json:"paidReference" doc:"The operator's reference of the payment; null before it." example:"bank 2026-02-11 4711"`
}

// InvoiceParty is a party of an invoice or credit note.
type InvoiceParty struct {
	LegalName string       `json:"legalName" doc:"The legal name." example:"Example Ltd"`
	Address   List[string] `json:"address" doc:"The lines of the address."`
	TaxID     string       `json:"taxId" doc:"The tax number; empty for none." example:"DE123456789"`
	Email     string       `json:"email" doc:"The e-mail for questions; empty for none." example:"billing@example.com"`
}

// InvoiceSection is the sum of the fees of a kind in one mint.
type InvoiceSection struct {
	Kind     string `json:"kind" doc:"NETWORK_FEES: what transactions cost. NETWORK_FEE_CREDITS: network fees that were prepaid or became lower, which are taken off. SWAP_FEES: fees of completed swaps. Kinds may be added without notice." example:"NETWORK_FEES"`
	Chain    string `json:"chain"`
	Symbol   string `json:"symbol" doc:"The symbol of the mint." example:"ETH"`
	Decimals int    `json:"decimals"`
	Lines    int    `json:"lines" doc:"How many fees it sums up." example:"4000"`
	Amount   string `json:"amount" doc:"The sum in atomic units." form:"amount" example:"125000000000000000"`
	USDExact string `json:"usdExact" doc:"The exact sum of the values of the fees in dollars. With a minus sign for credits." example:"374.496250000000000001"`
	USD      string `json:"usd" doc:"usdExact in whole cents, rounded half up. With a minus sign for credits." example:"374.50"`
}

// CreditNote gives back a part of an invoice. CREDIT_NOTE_ISSUED tells that it was issued. Nothing of it changes.
type CreditNote struct {
	CreditNoteID  string `json:"creditNoteId" doc:"The id of the credit note." example:"crn_01J9ZW3M8Q4S5T6V7W8X9YZABC"`
	Number        string `json:"number" doc:"Its number, in a series of its own." example:"CN-000003"`
	InvoiceID     string `json:"invoiceId" doc:"The invoice that it corrects." example:"inv_01J9ZW3M8Q4S5T6V7W8X9YZABC"`
	InvoiceNumber string `json:"invoiceNumber" doc:"The number of that invoice." example:"INV-000042"`
	Reason        string `json:"reason" doc:"Why." example:"A network fee was billed for a test."`

	Seller   InvoiceParty         `json:"seller" doc:"Who billed."`
	Buyer    InvoiceParty         `json:"buyer" doc:"Who was billed."`
	Sections List[InvoiceSection] `json:"sections" doc:"The sums of what is given back, by kind and mint."`

	Subtotal   string `json:"subtotal" doc:"The sum of the sections in dollars." form:"decimal" example:"1.25"`
	TaxRateBps int    `json:"taxRateBps" doc:"The rate of the tax, in basis points." example:"1900"`
	Tax        string `json:"tax" doc:"The tax on it in dollars." form:"decimal" example:"0.24"`
	Total      string `json:"total" doc:"What is given back in dollars." form:"decimal" example:"1.49"`

	IssuedAt Time `json:"issuedAt" doc:"When it was issued."`
}

func sampleInvoice() Invoice {
	return Invoice{
		InvoiceID: "inv_01J9ZW3M8Q4S5T6V7W8X9YZABC", Number: "INV-000042", Month: "2026-01", Status: "ISSUED",
		Seller: sampleSeller(), Buyer: sampleBuyer(),
		Sections: List[InvoiceSection]{{
			Kind: "NETWORK_FEES", Chain: "ETHEREUM", Symbol: "ETH", Decimals: 18, Lines: 4000,
			Amount:   "125000000000000000",
			USDExact: "374.496250000000000001", USD: "374.50",
		}},
		Subtotal: "374.50", TaxRateBps: 1900, Tax: "71.16", TaxNote: "VAT 19 %", Total: "445.66", Credited: "0.00",
		Outstanding: "445.66", IssuedAt: later(230400),
	}
}

func sampleCreditNote() CreditNote {
	return CreditNote{
		CreditNoteID: "crn_01J9ZW3M8Q4S5T6V7W8X9YZABC", Number: "CN-000003",
		InvoiceID:     "inv_01J9ZW3M8Q4S5T6V7W8X9YZABC",
		InvoiceNumber: "INV-000042", Reason: "A network fee was billed for a test.", Seller: sampleSeller(),
		Buyer: sampleBuyer(),
		Sections: List[InvoiceSection]{{
			Kind: "NETWORK_FEES", Chain: "ETHEREUM", Symbol: "ETH", Decimals: 18, Lines: 1, Amount: "416666666666666",
			USDExact: "1.249999999999998", USD: "1.25",
		}},
		Subtotal: "1.25", TaxRateBps: 1900, Tax: "0.24", Total: "1.49", IssuedAt: later(400000),
	}
}

func sampleSeller() InvoiceParty {
	return InvoiceParty{
		LegalName: "Example Ltd", Address: List[string]{"1 Example Street", "London"}, TaxID: "GB123456789",
		Email: "billing@example.com",
	}
}

func sampleBuyer() InvoiceParty {
	return InvoiceParty{
		LegalName: "Acme GmbH", Address: List[string]{"Musterweg 2", "10115 Berlin"},
		TaxID: "DE123456789",
	}
}
