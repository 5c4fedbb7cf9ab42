package ledger

// Owner identifies whose balance it is: a customer's, that of a product of the organization, or what the
// organization owes to payers of its checkouts. It tells a customer's money from the organization's own.
type Owner struct {
	Kind    Kind   // Customer, Product or RefundOwed
	Subject string // the customer's id or the product
}

// CustomerOwner returns the owner of a customer's balance.
func CustomerOwner(customerID string) Owner { return Owner{Kind: Customer, Subject: customerID} }

// ProductOwner returns the owner of a product's balance.
func ProductOwner(product string) Owner { return Owner{Kind: Product, Subject: product} }

// RefundOwner returns the owner of what is owed to payers of checkouts.
func RefundOwner() Owner { return Owner{Kind: RefundOwed, Subject: CheckoutProduct} }

// OwnerOf returns the owner that a row names: a product, or a customer if product is "".
func OwnerOf(customerID, product string) Owner {
	if product != "" {
		return ProductOwner(product)
	}
	return CustomerOwner(customerID)
}

// IsOrganization reports whether it is the organization's own money.
func (o Owner) IsOrganization() bool { return o.Kind == Product || o.IsRefund() }

// IsRefund reports whether it is owed to payers of checkouts. It is the organization's own money until it is paid.
func (o Owner) IsRefund() bool { return o.Kind == RefundOwed }

// NeedsWhitelist reports whether the money goes only to addresses of the organization's whitelist. A refund goes to
// its payer.
func (o Owner) NeedsWhitelist() bool { return o.IsOrganization() && !o.IsRefund() }

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
	if o.IsRefund() {
		return Account{OrgID: org, MintID: mintID, Kind: RefundOwed, Subject: o.Subject}
	}
	return o.account(org, mintID, Customer, Product)
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
