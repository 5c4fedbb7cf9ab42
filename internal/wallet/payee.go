package wallet

// Payee is what speaks against paying an address, whoever asks for it.
type Payee struct {
	Burns bool // nobody holds its key
	Ours  bool // it is a wallet of this installation
	Token bool // it is a token's contract
}

// Barred is why the address is not paid, or "".
func (p Payee) Barred() string {
	switch {
	case p.Burns:
		return "nobody holds its key, so the money would be lost"
	case p.Ours:
		return "it belongs to this installation, which credits no transfer of its own"
	case p.Token:
		return "it is a token's contract, which would keep the money for ever"
	}
	return ""
}
