package resource

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/webhook"
)

// Entry is one movement of a balance.
type Entry struct {
	EntryID       string        `json:"entryId" doc:"The movement." example:"le_4711_c"`
	Account       webhook.Party `json:"account" doc:"Whose balance moved."`
	Balance       string        `json:"balance" doc:"The kind of balance: AVAILABLE, PENDING_WITHDRAW for what is held for withdrawals or owed to payers of checkouts, or IN_SWAP for what is held for swaps." enum:"AVAILABLE,PENDING_WITHDRAW,IN_SWAP"`
	MintID        int           `json:"mintId"`
	Symbol        string        `json:"symbol"`
	Chain         string        `json:"chain"`
	Direction     string        `json:"direction" doc:"CREDIT increased the balance, DEBIT decreased it." enum:"CREDIT,DEBIT"`
	Amount        string        `json:"amount"`
	AmountDecimal string        `json:"amountDecimal"`
	Cause         string        `json:"cause"`
	ResourceID    string        `json:"resourceId" doc:"The deposit, withdrawal, transfer, swap or refund that caused the movement." example:"tr_01J9ZW3M8Q4S5T6V7W8X9YZABC"`
	CreatedAt     webhook.Time  `json:"createdAt"`
}

// balanceNames maps the kinds of accounts that an organization is shown to their names.
var balanceNames = map[ledger.Kind]string{
	ledger.Customer: "AVAILABLE", ledger.Withdrawing: "PENDING_WITHDRAW", ledger.InSwap: "IN_SWAP",
	ledger.Product: "AVAILABLE", ledger.ProductWithdrawing: "PENDING_WITHDRAW", ledger.ProductInSwap: "IN_SWAP",
	ledger.RefundOwed: "PENDING_WITHDRAW", ledger.BatchHeld: "PENDING_WITHDRAW",
}

// ShowEntry writes a movement for the interface.
func ShowEntry(mints mint.Catalogue) func(ledger.Entry) Entry {
	return func(e ledger.Entry) Entry {
		m, _ := mints.ByID(e.Account.MintID)
		// A restored payment and what a failed swap gives back are posted in parts, which differ in the
		// suffix of its id.
		cause, _, _ := strings.Cut(e.Cause.ID, "/")
		shown := Entry{
			EntryID: fmt.Sprint("le_", e.ID, "_d"), Balance: balanceNames[e.Account.Kind], MintID: m.ID,
			Symbol: m.Symbol, Chain: string(m.Chain),
			Direction: "DEBIT", Amount: e.Amount.String(), AmountDecimal: e.Amount.Decimal(m.Decimals),
			Cause: string(e.Cause.Kind), ResourceID: cause, CreatedAt: webhook.At(e.PostedAt),
		}
		if e.Credit {
			shown.EntryID, shown.Direction = fmt.Sprint("le_", e.ID, "_c"), "CREDIT"
		}
		switch e.Account.Kind {
		case ledger.Product, ledger.ProductWithdrawing, ledger.ProductInSwap, ledger.RefundOwed, ledger.BatchHeld:
			shown.Account.Product = &e.Account.Subject
		default:
			shown.Account.CustomerID = &e.Account.Subject
		}
		return shown
	}
}

// EntryColumns are the columns of a statement.
var EntryColumns = []kernel.Column[Entry]{
	{Name: "entryId", Cell: func(e Entry) string { return e.EntryID }},
	{Name: "createdAt", Cell: func(e Entry) string { return e.CreatedAt.String() }},
	{Name: "customerId", Cell: func(e Entry) string { return TextOrEmpty(e.Account.CustomerID) }},
	{Name: "product", Cell: func(e Entry) string { return TextOrEmpty(e.Account.Product) }},
	{Name: "balance", Cell: func(e Entry) string { return e.Balance }},
	{Name: "mintId", Cell: func(e Entry) string { return strconv.Itoa(e.MintID) }},
	{Name: "symbol", Cell: func(e Entry) string { return e.Symbol }},
	{Name: "chain", Cell: func(e Entry) string { return e.Chain }},
	{Name: "direction", Cell: func(e Entry) string { return e.Direction }},
	{Name: "amount", Cell: func(e Entry) string { return e.Amount }},
	{Name: "amountDecimal", Cell: func(e Entry) string { return e.AmountDecimal }},
	{Name: "cause", Cell: func(e Entry) string { return e.Cause }},
	{Name: "resourceId", Cell: func(e Entry) string { return e.ResourceID }},
}
