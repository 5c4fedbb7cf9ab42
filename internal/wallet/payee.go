package wallet

// PayeeCheck holds the reasons against paying an address, for every kind of payment.
type PayeeCheck struct {
	IsUnspendable   bool // its key is known to be held by no person
	IsOwn           bool // it is a wallet of this installation
	IsTokenContract bool // it is a token's contract
}

// RefusalReason returns why the address is not paid, or "". Rule WD-11.
func (p PayeeCheck) RefusalReason() string {
	switch {
	case p.IsUnspendable:
		return "its key has no holder, so the money would be lost"
	case p.IsOwn:
		return "it belongs to this installation, which credits no transfer of its own"
	case p.IsTokenContract:
		return "it is a token's contract, which would keep the money permanently"
	}
	return ""
}
