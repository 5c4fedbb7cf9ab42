package ledger

// Owner identifies whose balance it is: a customer's, that of a product of the organization, what the organization
// owes to payers of its checkouts, or what it holds for batches. It tells a customer's money from the
// organization's own.
type Owner struct {
	Kind    Kind   // Customer, Product, RefundOwed or BatchHeld
	Subject string // the customer's id or the product
}

// CustomerOwner returns the owner of a customer's balance.
func CustomerOwner(customerID string) Owner { return Owner{Kind: Customer, Subject: customerID} }

// ProductOwner returns the owner of a product's balance.
func ProductOwner(product string) Owner { return Owner{Kind: Product, Subject: product} }

// RefundOwner returns the owner of what is owed to payers of checkouts.
func RefundOwner() Owner { return Owner{Kind: RefundOwed, Subject: CheckoutProduct} }

// BatchOwner returns the owner of what is held for the rows of batches.
func BatchOwner() Owner { return Owner{Kind: BatchHeld, Subject: BatchProduct} }

// OwnerOf returns the owner that a row names: a product, or a customer if product is "".
func OwnerOf(customerID, product string) Owner {
	if product != "" {
		return ProductOwner(product)
	}
	return CustomerOwner(customerID)
}

// IsOrganization reports whether it is the organization's own money.
func (o Owner) IsOrganization() bool { return o.Kind == Product || o.IsRefund() || o.IsBatch() }

// IsRefund reports whether it is owed to payers of checkouts. It is the organization's own money until it is paid.
func (o Owner) IsRefund() bool { return o.Kind == RefundOwed }

// IsBatch reports whether it is held for the rows of batches.
func (o Owner) IsBatch() bool { return o.Kind == BatchHeld }

// NeedsWhitelist reports whether the money goes only to addresses of the organization's whitelist. A refund goes to
// its payer, and a row of a batch to whom people approved.
func (o Owner) NeedsWhitelist() bool { return o.Kind == Product }

// CustomerID returns the customer's id, or "" for a product.
func (o Owner) CustomerID() string {
	if o.IsOrganization() {
		return ""
	}
	return o.Subject
}

// Product returns the product, or "" for a customer.
func (o Owner) Product() string {
	if o.IsOrganization() {
		return o.Subject
	}
	return ""
}

// SpendingAccount returns the account that the owner spends from. Rule OW-3.
func (o Owner) SpendingAccount(org string, mintID int) Account {
	if o.IsRefund() || o.IsBatch() {
		return Account{OrgID: org, MintID: mintID, Kind: o.Kind, Subject: o.Subject}
	}
	return o.account(org, mintID, Customer, Product)
}

// ReturnAccount returns the account that gets back what a withdrawal of the owner held and did not pay. A row of a
// batch gives it to the product: out of one hold nothing is paid twice.
func (o Owner) ReturnAccount(org string, mintID int) Account {
	if o.IsBatch() {
		return ProductOwner(o.Subject).SpendingAccount(org, mintID)
	}
	return o.SpendingAccount(org, mintID)
}

// HeldAccount returns the account of what is held for the owner's withdrawals.
func (o Owner) HeldAccount(org string, mintID int) Account {
	return o.account(org, mintID, Withdrawing, ProductWithdrawing)
}

// SwapAccount returns the account of what is held for the owner's swaps.
func (o Owner) SwapAccount(org string, mintID int) Account {
	return o.account(org, mintID, InSwap, ProductInSwap)
}

// DebtAccount returns the account of what the owner owes for restored payments.
func (o Owner) DebtAccount(org string, mintID int) Account {
	return o.account(org, mintID, Restored, ProductRestored)
}

func (o Owner) account(org string, mintID int, ofCustomer, ofProduct Kind) Account {
	kind := ofCustomer
	if o.IsOrganization() {
		kind = ofProduct
	}
	return Account{OrgID: org, MintID: mintID, Kind: kind, Subject: o.Subject}
}
