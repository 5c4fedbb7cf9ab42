package surfpool

import (
	"crypto/ed25519"
	"encoding/binary"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
)

func keys(k ...ed25519.PrivateKey) []ed25519.PrivateKey { return k }

func writes(a chain.Address) Meta { return Meta{Address: a, Writable: true} }
func reads(a chain.Address) Meta  { return Meta{Address: a} }
func signs(a chain.Address) Meta  { return Meta{Address: a, Signer: true} }
func spends(a chain.Address) Meta { return Meta{Address: a, Signer: true, Writable: true} }

func le32(n uint32, then ...byte) []byte {
	return append(binary.LittleEndian.AppendUint32(nil, n), then...)
}

func le64(b []byte, n uint64) []byte { return binary.LittleEndian.AppendUint64(b, n) }

// Transfer moves lamports.
func Transfer(from, to chain.Address, lamports uint64) Instruction {
	return Instruction{solanatx.SystemProgram, []Meta{spends(from), writes(to)}, le64(le32(2), lamports)}
}

// CreateAccount makes an account of a program, whose key has to sign.
func CreateAccount(payer, account, program chain.Address, lamports, bytes uint64) Instruction {
	owner, err := solanatx.Bytes(program)
	if err != nil {
		panic("an account without an owner: " + err.Error())
	}
	data := append(le64(le64(le32(0), lamports), bytes), owner[:]...)
	return Instruction{solanatx.SystemProgram, []Meta{spends(payer), spends(account)}, data}
}

// Account is the associated token account of an owner.
func (m Mint) Account(owner chain.Address) chain.Address {
	a, err := solanatx.AssociatedAccount(owner, m.Address, m.Program)
	if err != nil {
		panic("a token account of nobody: " + err.Error())
	}
	return a
}

// Create makes the associated token account of an owner, unless it is there.
func (m Mint) Create(payer, owner chain.Address) Instruction {
	return Instruction{solanatx.AssociatedProgram, []Meta{
		spends(payer), writes(m.Account(owner)), reads(owner), reads(m.Address), reads(solanatx.SystemProgram), reads(m.Program),
	}, []byte{1}}
}

// Initialize makes a token account of an owner out of an account of the program.
func (m Mint) Initialize(account, owner chain.Address) Instruction {
	o, err := solanatx.Bytes(owner)
	if err != nil {
		panic("a token account of nobody: " + err.Error())
	}
	return Instruction{m.Program, []Meta{writes(account), reads(m.Address)}, append([]byte{18}, o[:]...)}
}

// Transfer moves units between token accounts.
func (m Mint) Transfer(from, to, authority chain.Address, units uint64) Instruction {
	return Instruction{
		m.Program,
		[]Meta{writes(from), reads(m.Address), writes(to), signs(authority)},
		append(le64([]byte{12}, units), m.Decimals),
	}
}

// MintTo makes units out of nothing.
func (m Mint) MintTo(account, authority chain.Address, units uint64) Instruction {
	return Instruction{m.Program, []Meta{writes(m.Address), writes(account), signs(authority)}, le64([]byte{7}, units)}
}

// Burn makes units nothing.
func (m Mint) Burn(account, authority chain.Address, units uint64) Instruction {
	return Instruction{m.Program, []Meta{writes(account), writes(m.Address), signs(authority)}, le64([]byte{8}, units)}
}

// Close ends a token account and gives its lamports to somebody.
func (m Mint) Close(account, to, authority chain.Address) Instruction {
	return Instruction{m.Program, []Meta{writes(account), writes(to), signs(authority)}, []byte{9}}
}

// Freeze stops a token account.
func (m Mint) Freeze(account, authority chain.Address) Instruction {
	return Instruction{m.Program, []Meta{writes(account), reads(m.Address), signs(authority)}, []byte{10}}
}

// HandOver gives a token account with all that is in it to another owner.
func (m Mint) HandOver(account, from, to chain.Address) Instruction {
	o, err := solanatx.Bytes(to)
	if err != nil {
		panic("a token account of nobody: " + err.Error())
	}
	return Instruction{m.Program, []Meta{writes(account), signs(from)}, append([]byte{6, 2, 1}, o[:]...)}
}

// Wrap counts the lamports that came to a token account of wrapped SOL.
func Wrap(account chain.Address) Instruction {
	return Instruction{solanatx.TokenProgram, []Meta{writes(account)}, []byte{17}}
}

// Memo has a transaction say something. Of its two programs this is the newer one.
func Memo(text string) Instruction {
	return Instruction{Program: "MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr", Data: []byte(text)}
}
