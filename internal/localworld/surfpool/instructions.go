package surfpool

import (
	"crypto/ed25519"
	"encoding/binary"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
)

func keyList(k ...ed25519.PrivateKey) []ed25519.PrivateKey { return k }

func writableMeta(a chain.Address) Meta { return Meta{Address: a, Writable: true} }
func readonlyMeta(a chain.Address) Meta { return Meta{Address: a} }
func signerMeta(a chain.Address) Meta   { return Meta{Address: a, Signer: true} }
func payerMeta(a chain.Address) Meta    { return Meta{Address: a, Signer: true, Writable: true} }

func le32(n uint32, suffix ...byte) []byte {
	return append(binary.LittleEndian.AppendUint32(nil, n), suffix...)
}

func le64(b []byte, n uint64) []byte { return binary.LittleEndian.AppendUint64(b, n) }

// TransferLamports transfers lamports.
func TransferLamports(sender, recipient chain.Address, lamports uint64) Instruction {
	return Instruction{
		solanatx.SystemProgram, []Meta{payerMeta(sender), writableMeta(recipient)}, le64(le32(2), lamports),
	}
}

// CreateAccount creates an account of a program; the account's key has to sign.
func CreateAccount(payer, account, program chain.Address, lamports, bytes uint64) Instruction {
	owner, err := solanatx.Bytes(program)
	if err != nil {
		panic("an account without an owner: " + err.Error())
	}
	data := append(le64(le64(le32(0), lamports), bytes), owner[:]...)
	return Instruction{solanatx.SystemProgram, []Meta{payerMeta(payer), payerMeta(account)}, data}
}

// AssociatedAccount returns the associated token account of an owner.
func (m Mint) AssociatedAccount(owner chain.Address) chain.Address {
	a, err := solanatx.AssociatedAccount(owner, m.Address, m.Program)
	if err != nil {
		panic("a token account without an owner: " + err.Error())
	}
	return a
}

// CreateAccount creates the associated token account of an owner, unless it exists.
func (m Mint) CreateAccount(payer, owner chain.Address) Instruction {
	return Instruction{solanatx.AssociatedProgram, []Meta{
		payerMeta(payer), writableMeta(m.AssociatedAccount(owner)), readonlyMeta(owner), readonlyMeta(m.Address),
		readonlyMeta(solanatx.SystemProgram), readonlyMeta(m.Program),
	}, []byte{1}}
}

// InitializeAccount makes an account of the token program a token account of an owner.
func (m Mint) InitializeAccount(account, owner chain.Address) Instruction {
	o, err := solanatx.Bytes(owner)
	if err != nil {
		panic("a token account without an owner: " + err.Error())
	}
	return Instruction{m.Program, []Meta{writableMeta(account), readonlyMeta(m.Address)}, append([]byte{18}, o[:]...)}
}

// TransferTokens transfers units between token accounts.
func (m Mint) TransferTokens(source, destination, authority chain.Address, units uint64) Instruction {
	return Instruction{
		m.Program,
		[]Meta{writableMeta(source), readonlyMeta(m.Address), writableMeta(destination), signerMeta(authority)},
		append(le64([]byte{12}, units), m.Decimals),
	}
}

// MintTo mints units to a token account.
func (m Mint) MintTo(account, authority chain.Address, units uint64) Instruction {
	return Instruction{
		m.Program,
		[]Meta{writableMeta(m.Address), writableMeta(account), signerMeta(authority)},
		le64([]byte{7}, units),
	}
}

// BurnTokens burns units of a token account.
func (m Mint) BurnTokens(account, authority chain.Address, units uint64) Instruction {
	return Instruction{
		m.Program,
		[]Meta{writableMeta(account), writableMeta(m.Address), signerMeta(authority)},
		le64([]byte{8}, units),
	}
}

// CloseAccount closes a token account and transfers its lamports to the recipient.
func (m Mint) CloseAccount(account, recipient, authority chain.Address) Instruction {
	return Instruction{
		m.Program, []Meta{writableMeta(account), writableMeta(recipient), signerMeta(authority)}, []byte{9},
	}
}

// FreezeAccount freezes a token account.
func (m Mint) FreezeAccount(account, authority chain.Address) Instruction {
	return Instruction{
		m.Program, []Meta{writableMeta(account), readonlyMeta(m.Address), signerMeta(authority)}, []byte{10},
	}
}

// SetOwner makes another owner the owner of a token account with its balance.
func (m Mint) SetOwner(account, owner, newOwner chain.Address) Instruction {
	o, err := solanatx.Bytes(newOwner)
	if err != nil {
		panic("a token account without an owner: " + err.Error())
	}
	return Instruction{m.Program, []Meta{writableMeta(account), signerMeta(owner)}, append([]byte{6, 2, 1}, o[:]...)}
}

// SyncNative updates the balance of a token account of wrapped SOL by the lamports that it
// received.
func SyncNative(account chain.Address) Instruction {
	return Instruction{solanatx.TokenProgram, []Meta{writableMeta(account)}, []byte{17}}
}

// Memo adds a text to a transaction. It uses the newer of the two memo programs.
func Memo(text string) Instruction {
	return Instruction{Program: "MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr", Data: []byte(text)}
}
