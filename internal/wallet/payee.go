package wallet

// PayeeCheck is what speaks against paying an address, whoever asks for it.
type PayeeCheck struct {
	IsUnspendable   bool // nobody holds its key
	IsOwn           bool // it is a wallet of this installation
	IsTokenContract bool // it is a token's contract
}

// RefusalReason is why the address is not paid, or "".
func (p PayeeCheck) RefusalReason() string {
	switch {
	case p.IsUnspendable:
		return "nobody holds its key, so the money would be lost"
	case p.IsOwn:
		return "it belongs to this installation, which credits no transfer of its own"
	case p.IsTokenContract:
		return "it is a token's contract, which would keep the money for ever"
	}
	return ""
}
