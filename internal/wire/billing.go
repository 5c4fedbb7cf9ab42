package wire

import (
	"github.com/cofferpay/coffer/internal/billing"
	"github.com/cofferpay/coffer/internal/billing/document"
	"github.com/cofferpay/coffer/webhook"
)

// Invoice returns the object of an invoice.
func Invoice(i billing.Invoice) webhook.Invoice {
	return webhook.Invoice{
		InvoiceID: i.ID, Number: i.Number, Month: i.Month, Status: string(i.Status),
		Seller: invoiceParty(i.Document.Seller), Buyer: invoiceParty(i.Document.Buyer),
		Sections: InvoiceSections(i.Document.Sections), Subtotal: i.Subtotal.Cents(), TaxRateBps: i.Document.TaxRateBps,
		Tax: i.Tax.Cents(), TaxNote: i.Document.TaxNote, Total: i.Total.Cents(), Credited: i.Credited.Cents(),
		Outstanding: i.Outstanding.Cents(), IssuedAt: webhook.At(i.IssuedAt), PaidAt: webhook.AtOrNil(i.PaidAt),
		PaidReference: i.PaidReference,
	}
}

// CreditNote returns the object of a credit note.
func CreditNote(n billing.CreditNote) webhook.CreditNote {
	return webhook.CreditNote{
		CreditNoteID: n.ID, Number: n.Number, InvoiceID: n.InvoiceID, InvoiceNumber: n.InvoiceNumber, Reason: n.Reason,
		Seller: invoiceParty(n.Document.Seller), Buyer: invoiceParty(n.Document.Buyer),
		Sections: InvoiceSections(n.Document.Sections), Subtotal: n.Subtotal.Cents(), TaxRateBps: n.Document.TaxRateBps,
		Tax: n.Tax.Cents(), Total: n.Total.Cents(), IssuedAt: webhook.At(n.IssuedAt),
	}
}

func invoiceParty(p document.Party) webhook.InvoiceParty {
	return webhook.InvoiceParty{
		LegalName: p.Name, Address: webhook.List[string](p.Address), TaxID: p.TaxID,
		Email: p.Email,
	}
}

// InvoiceSections returns the sums of a document.
func InvoiceSections(sections []document.Section) webhook.List[webhook.InvoiceSection] {
	shown := webhook.List[webhook.InvoiceSection]{}
	for _, x := range sections {
		shown = append(shown, webhook.InvoiceSection{
			Kind: x.Kind, Chain: x.Chain, Symbol: x.Symbol, Decimals: x.Decimals, Lines: x.Lines,
			Amount: x.Amount.String(), USDExact: x.USDExact, USD: x.USD,
		})
	}
	return shown
}
