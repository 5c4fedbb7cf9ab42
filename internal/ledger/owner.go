package ledger

// Owner identifies whose balance it is: a customer's, or that of a product of the organization. It
// tells a customer's money from the organization's own.
type Owner struct {
	Kind    Kind   // Customer or Product
	Subject string // the customer's id or the product
}

// CustomerOwner returns the owner of a customer's balance.
func CustomerOwner(customerID string) Owner { return Owner{Kind: Customer, Subject: customerID} }

// ProductOwner returns the owner of a product's balance.
func ProductOwner(product string) Owner { return Owner{Kind: Product, Subject: product} }

// OwnerOf returns the owner that a row names: a product, or a customer if product is "".
func OwnerOf(customerID, product string) Owner {
	if product != "" {
		return ProductOwner(product)
	}
	return CustomerOwner(customerID)
}

// IsOrganization reports whether it is the organization's own money.
func (o Owner) IsOrganization() bool { return o.Kind == Product }

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
