// Package solanatx encodes and decodes what Coffer uses of Solana, without a network: addresses,
// token accounts, and Coffer's transactions, unsigned and signed. The adapter builds transactions
// with it, and the signer decodes with it what it is asked to sign.
//
// It is pure: no network, no key, no clock. It knows two forms of transaction that the signer signs:
//   - Tx has a durable nonce, and pays, closes token accounts or creates one.
//   - NonceCreation creates a nonce account.
//
// Request is a third one, which the wallet of a stranger signs and never the signer.
//
// Everything else is an error: another instruction, another order of accounts, an unnecessary flag,
// a version, bytes left over. The same input gives the same bytes, so a crash leaves nothing to
// remember.
package solanatx

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/holiman/uint256"
	"github.com/mr-tron/base58"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
)

// What the chain requires, in lamports.
const (
	// SignatureFee is paid for each signature, for every transaction.
	SignatureFee = 5_000
	// WalletRent is the least that an account without data holds, unless it holds nothing.
	WalletRent = 890_880
	// TokenAccountRent stays in a token account of 165 bytes as long as it exists.
	TokenAccountRent = 2_039_280
	// Token2022AccountRent is the rent of 170 bytes: an associated account of Token-2022 also says
	// that its owner never changes. Extensions of the mint may require more.
	Token2022AccountRent = 2_074_080
	// NonceRent is the rent of a nonce account.
	NonceRent = 1_447_680
)

const (
	// NonceAccountsMax is the greatest number of nonce accounts of a treasury. Only the numbers
	// below it are searched.
	NonceAccountsMax = 64
	// LimitMax is the most compute units that a transaction may have.
	LimitMax = 1_400_000
	// wireBytesMax is the size of a packet of the network, signatures included.
	wireBytesMax = 1232
	// NonceBytes is the size of a nonce account's data.
	NonceBytes = 80
)

// The prefixes of the instructions that this package knows.
var (
	transferData     = []byte{2, 0, 0, 0}
	createWithSeed   = []byte{3, 0, 0, 0}
	advanceNonce     = []byte{4, 0, 0, 0}
	initializeNonce  = []byte{6, 0, 0, 0}
	setLimit         = []byte{2}
	setPrice         = []byte{3}
	allocWithSeed    = []byte{9, 0, 0, 0}
	createIdempotent = []byte{1} // CreateIdempotent
	transferChecked  = []byte{12}
	closeAccount     = []byte{9}
)

// Tx is an unsigned payment with a durable nonce. It is valid until that nonce is advanced, which
// it does itself, whether or not its payment succeeds.
type Tx struct {
	// Payer pays the fee and the rent, and is the authority of the nonce account.
	Payer        chain.Address
	NonceAccount chain.Address
	NonceValue   string // base58, instead of a recent blockhash
	Limit        uint32 // compute units
	Price        uint64 // millionths of a lamport for each of them
	// Moves happen together or not at all. A transaction without moves is a cancel, which uses the
	// nonce.
	Moves []Move
	// Closes happen together too, instead of moves.
	Closes []Close
	// Creation creates a token account, instead of moves and closes.
	Creation *Creation
}

// Creation creates the associated token account of a wallet. It changes nothing if the account
// exists. The fee payer leaves the rent in it. The chain refuses a program that is not the mint's.
type Creation struct {
	Owner        chain.Address // the wallet
	Mint         chain.Address
	TokenProgram chain.Address
}

// NewCreation returns the creation of a payment. program is the mint's.
func NewCreation(p chain.Payment, program chain.Address) *Creation {
	return &Creation{Owner: p.To, Mint: p.Contract, TokenProgram: program}
}

// checkCreation returns an error unless a transaction creates the account of a payment and does
// nothing else.
func (t Tx) checkCreation(ps []chain.Payment) error {
	if t.Creation == nil || len(t.Moves) != 0 || len(t.Closes) != 0 || len(ps) != 1 {
		return fmt.Errorf("transaction has %d moves and %d closes, and should create one token account of %d",
			len(t.Moves), len(t.Closes), len(ps))
	}
	p, c := ps[0], t.Creation
	switch {
	case !p.CreatesTokenAccount || p.ClosesTokenAccount || p.CreatesNonceAccount:
		return errors.New("it creates a token account and makes no payment")
	case !p.Amount.IsZero():
		return fmt.Errorf("it moves nothing, and not %v", p.Amount)
	case p.From != t.Payer || p.Payer != "" && p.Payer != t.Payer:
		return fmt.Errorf("the fee payer is %s, not %s", t.Payer, p.From)
	case c.Owner != p.To || c.Mint != p.Contract:
		return fmt.Errorf("it creates the account of %s for %s, not that of %s for %s", c.Owner, c.Mint, p.To,
			p.Contract)
	}
	return nil
}

func (c Creation) toInstruction(payer [keyBytes]byte, nonceAccount chain.Address) (instruction, error) {
	owner, err := plainAccount(c.Owner)
	if err != nil {
		return instruction{}, fmt.Errorf("owner: %w", err)
	}
	if _, err := ParseMint(string(c.Mint)); err != nil {
		return instruction{}, fmt.Errorf("mint: %w", err)
	}
	if c.TokenProgram != TokenProgram && c.TokenProgram != Token2022Program {
		return instruction{}, fmt.Errorf("%.60q is not a token program", string(c.TokenProgram))
	}
	mint, program := mustBytes(c.Mint), mustBytes(c.TokenProgram)
	account, err := associatedAccount(owner, mint, program)
	switch {
	case err != nil:
		return instruction{}, err
	case owner == payer:
		return instruction{}, errors.New("the fee payer has its accounts from what it receives")
	case account == payer || Canonical(account) == nonceAccount || c.Owner == nonceAccount:
		return instruction{}, errors.New("it is the fee payer, or the nonce account")
	}
	return createInstruction(payer, account, owner, mint, program), nil
}

// createInstruction creates an associated account, unless it exists.
func createInstruction(payer, account, owner, mint, program [keyBytes]byte) instruction {
	return instruction{associated, createIdempotent, []meta{
		writableMeta(payer).asSigner(), writableMeta(account), readOnly(owner), readOnly(mint), readOnly(system),
		readOnly(program),
	}}
}

// Close closes the associated token account of a wallet, which the chain does if it is empty. Its
// lamports go to the fee payer. The transaction does not contain the mint: checkCloses compares the
// account with the one that follows from the mint.
type Close struct {
	Owner        chain.Address // the account's owner, who signs
	Account      chain.Address
	TokenProgram chain.Address
}

// NewClose returns the close of a payment. program is the mint's. An account of wrapped SOL is
// never closed, because the chain closes that with coin in it.
func NewClose(p chain.Payment, program chain.Address) (Close, error) {
	if p.Contract == "" || p.Contract == wrappedMint || p.Contract == wrappedMint2022 {
		return Close{}, fmt.Errorf("an account of %q cannot be closed", p.Contract)
	}
	account, err := AssociatedAccount(p.From, p.Contract, program)
	return Close{Owner: p.From, Account: account, TokenProgram: program}, err
}

// checkCloses returns an error unless a transaction makes exactly these closes in this order.
func (t Tx) checkCloses(ps []chain.Payment) error {
	if len(t.Moves) != 0 || len(t.Closes) != len(ps) || t.Creation != nil {
		return fmt.Errorf("transaction has %d closes and %d moves, and should have %d closes", len(t.Closes),
			len(t.Moves), len(ps))
	}
	for i, p := range ps {
		c, err := NewClose(p, t.Closes[i].TokenProgram)
		switch {
		case err != nil:
			return fmt.Errorf("close %d: %w", i, err)
		case !p.ClosesTokenAccount || p.CreatesNonceAccount || p.CreatesTokenAccount:
			return fmt.Errorf("close %d: it is not a payment", i)
		case p.To != t.Payer:
			return fmt.Errorf("close %d: its content goes to %s, not to %s", i, t.Payer, p.To)
		case c != t.Closes[i]:
			return fmt.Errorf("close %d: it closes %s of %s, not %s of %s", i, t.Closes[i].Account, t.Closes[i].Owner,
				c.Account, c.Owner)
		}
	}
	return nil
}

func (c Close) toInstruction(payer [keyBytes]byte) (instruction, error) {
	owner, err := signerAccount(c.Owner)
	if err != nil {
		return instruction{}, fmt.Errorf("owner: %w", err)
	}
	account, err := plainAccount(c.Account)
	switch {
	case err != nil:
		return instruction{}, err
	case owner == payer:
		return instruction{}, errors.New("the fee payer keeps its own accounts")
	case account == owner || account == payer:
		return instruction{}, errors.New("it is a wallet")
	case c.TokenProgram != TokenProgram && c.TokenProgram != Token2022Program:
		return instruction{}, fmt.Errorf("%.60q is not a token program", string(c.TokenProgram))
	}
	return instruction{
		mustBytes(c.TokenProgram), slices.Clone(closeAccount),
		[]meta{writableMeta(account), writableMeta(payer), readOnly(owner).asSigner()},
	}, nil
}

// Move is one transfer of value.
type Move struct {
	From chain.Address // the paying wallet, which signs
	// To receives the value: a wallet for the native coin, and for a token the receiver's
	// associated account, which alone is in the transaction. CheckPayment compares it with the
	// wallet.
	To chain.Address
	// Owner is the owner of To, if the transaction creates To where it is missing. "" creates
	// nothing.
	Owner        chain.Address
	Mint         chain.Address // "" for the native coin, like TokenProgram
	TokenProgram chain.Address
	Decimals     uint8        // of the mint; the chain compares it
	Amount       money.Amount // atomic units, 1 to 2^64-1
}

// NewMove returns the move of a payment. program and decimals are the mint's, "" and 0 for the
// native coin. creates says that it creates the receiver's token account if it is missing.
func NewMove(p chain.Payment, program chain.Address, decimals uint8, creates bool) (Move, error) {
	m := Move{From: p.From, To: p.To, Mint: p.Contract, TokenProgram: program, Decimals: decimals, Amount: p.Amount}
	if p.Contract == "" {
		if creates {
			return Move{}, errors.New("the native coin has no token account")
		}
		return m, nil
	}
	if creates {
		m.Owner = p.To
	}
	var err error
	m.To, err = AssociatedAccount(p.To, p.Contract, program)
	return m, err
}

// CheckPayment returns nil if a move is exactly a payment, and otherwise what differs.
func (m Move) CheckPayment(p chain.Payment) error {
	to := p.To
	if m.Mint != "" {
		var err error
		if to, err = AssociatedAccount(p.To, m.Mint, m.TokenProgram); err != nil {
			return err
		}
	}
	switch {
	case p.CreatesNonceAccount:
		return errors.New("it creates no nonce account")
	case p.ClosesTokenAccount:
		return errors.New("it closes no account")
	case p.CreatesTokenAccount:
		return errors.New("it pays, and does not only create a token account")
	case m.From != p.From:
		return fmt.Errorf("%s pays, not %s", m.From, p.From)
	case m.Mint != p.Contract:
		return fmt.Errorf("it pays in %q, not in %q", m.Mint, p.Contract)
	case m.To != to || m.Owner != "" && m.Owner != p.To:
		return fmt.Errorf("%s receives, which is not %s of %s", m.To, to, p.To)
	case m.Amount != p.Amount:
		return fmt.Errorf("it pays %v, not %v", m.Amount, p.Amount)
	}
	return nil
}

// CheckPayments returns nil if a transaction makes exactly these payments in this order, at least
// one, and otherwise what differs. Several payments create no account of a payee other than the fee payer. Rule BP-44.
func (t Tx) CheckPayments(ps ...chain.Payment) error {
	switch {
	case len(ps) > 0 && ps[0].ClosesTokenAccount:
		return t.checkCloses(ps)
	case len(ps) > 0 && ps[0].CreatesTokenAccount:
		return t.checkCreation(ps)
	case t.Creation != nil:
		return errors.New("it creates a token account and makes no payment")
	}
	if len(t.Moves) != len(ps) || len(ps) == 0 || len(t.Closes) != 0 {
		return fmt.Errorf("transaction has %d moves and %d closes, and should make %d payments", len(t.Moves),
			len(t.Closes), len(ps))
	}
	for i, p := range ps {
		if err := t.Moves[i].CheckPayment(p); err != nil {
			return fmt.Errorf("move %d: %w", i, err)
		}
		if len(ps) > 1 && p.To != t.Payer && t.Moves[i].Owner != "" {
			return fmt.Errorf("move %d: it creates the account of %s, and only a payment that is alone does", i, p.To)
		}
	}
	return nil
}

// SlotKey returns the key of the slot that a transaction takes: the nonce account and its value.
func (t Tx) SlotKey() string { return SlotKey(t.NonceAccount, t.NonceValue) }

// SlotKey returns the slot key of a nonce account and its value.
func SlotKey(account chain.Address, value string) string { return string(account) + " " + value }

// ParseSlotKey decodes what SlotKey returns.
func ParseSlotKey(text string) (account chain.Address, value string, err error) {
	a, value, _ := strings.Cut(text, " ")
	if _, err := Bytes(chain.Address(a)); err != nil {
		return "", "", fmt.Errorf("slot key of a nonce account: %w", err)
	}
	if _, err := decodeHash(value); err != nil {
		return "", "", fmt.Errorf("slot key of a nonce value: %w", err)
	}
	return chain.Address(a), value, nil
}

// durablePrefix is what the chain hashes together with a blockhash to get a nonce's value. So no
// value is a blockhash: those are hashes of inputs of other lengths.
const durablePrefix = "DURABLE_NONCE"

// NonceValueAfter returns the value that a nonce account gets in the block after one with this
// hash. That hash proves that a value is a nonce's and no recent blockhash.
func NonceValueAfter(blockhash string) (value string, err error) {
	b, err := decodeHash(blockhash)
	if err != nil {
		return "", err
	}
	v := sha256.Sum256(append([]byte(durablePrefix), b[:]...))
	return base58.Encode(v[:]), nil
}

// CheckProof checks that the chain mines only one transaction in the slot. The value has to be that
// of a nonce, by the hash of the block from which it follows. The nonce account has to be one of
// the payer's own, which no other account controls.
func (t Tx) CheckProof(blockhash string) error {
	isOwn := false
	for n := range uint32(NonceAccountsMax) {
		account, err := NonceAccount(t.Payer, n)
		isOwn = isOwn || err == nil && account == t.NonceAccount
	}
	if !isOwn {
		return fmt.Errorf("%s is not a nonce account of %s", t.NonceAccount, t.Payer)
	}
	if blockhash == "" {
		return fmt.Errorf("its value %s is not proven to be a nonce: there is no hash of the block that it follows "+
			"from",
			t.NonceValue)
	}
	value, err := NonceValueAfter(blockhash)
	if err != nil {
		return fmt.Errorf("its value %s is not proven to be a nonce: %w", t.NonceValue, err)
	}
	if value != t.NonceValue {
		return fmt.Errorf("its value %s is not proven to be a nonce: of block %s it would be %s", t.NonceValue,
			blockhash, value)
	}
	return nil
}

// MaxFee returns what a transaction costs if it uses its whole limit, in lamports. The chain
// charges it whether or not the payment succeeds.
func (t Tx) MaxFee() money.Amount {
	signers := map[chain.Address]bool{t.Payer: true}
	for _, m := range t.Moves {
		signers[m.From] = true
	}
	for _, c := range t.Closes {
		signers[c.Owner] = true
	}
	fee := new(uint256.Int).Mul(uint256.NewInt(uint64(t.Limit)), uint256.NewInt(t.Price))
	fee.Div(fee.AddUint64(fee, 999_999), uint256.NewInt(1_000_000))
	return money.FromUint256(fee.AddUint64(fee, SignatureFee*uint64(len(signers))))
}

// Rent returns what the payer leaves in the token accounts that may have to be created, in
// lamports.
func (t Tx) Rent() money.Amount {
	var rent uint64
	for _, m := range t.Moves {
		if m.Owner != "" {
			rent += rentOf(m.TokenProgram)
		}
	}
	if t.Creation != nil {
		rent += rentOf(t.Creation.TokenProgram)
	}
	return money.Units(rent)
}

func rentOf(program chain.Address) uint64 {
	if program == Token2022Program {
		return Token2022AccountRent
	}
	return TokenAccountRent
}

// CreationCostMin returns the most that the creation of a token account costs without a price for
// compute units, in lamports.
func CreationCostMin() money.Amount { return money.Units(SignatureFee + Token2022AccountRent) }

// MaxCost returns the most that the payer loses in addition to the moves: fee and rent.
func (t Tx) MaxCost() money.Amount {
	sum, err := t.MaxFee().Add(t.Rent())
	if err != nil {
		panic("solanatx: the fee of a transaction is too large")
	}
	return sum
}

// decodeHash decodes 32 bytes in base58, not all zero: a blockhash or a nonce's value.
func decodeHash(s string) ([keyBytes]byte, error) {
	b, err := Bytes(chain.Address(s))
	if err != nil {
		return b, fmt.Errorf("hash %.60q is not 32 bytes in base58", s)
	}
	if b == [keyBytes]byte{} {
		return b, errors.New("hash is all zero")
	}
	return b, nil
}

// signerAccount decodes a wallet that has to sign.
func signerAccount(a chain.Address) ([keyBytes]byte, error) {
	b, err := plainAccount(a)
	if err == nil && !onCurve(b) {
		err = fmt.Errorf("%s can have no key", a)
	}
	return b, err
}

// plainAccount decodes any account that is none of the chain's own.
func plainAccount(a chain.Address) ([keyBytes]byte, error) {
	b, err := Bytes(a)
	if err == nil && chainAccounts[b] != "" {
		err = fmt.Errorf("%s is %s", a, chainAccounts[b])
	}
	return b, err
}

func (t Tx) toInstructions() (payer, value [keyBytes]byte, ins []instruction, err error) {
	fail := func(act string, err error) ([keyBytes]byte, [keyBytes]byte, []instruction, error) {
		return payer, value, nil, fmt.Errorf("%s: %w", act, err)
	}
	if payer, err = signerAccount(t.Payer); err != nil {
		return fail("payer", err)
	}
	account, err := plainAccount(t.NonceAccount)
	if err != nil {
		return fail("nonce account", err)
	}
	if value, err = decodeHash(t.NonceValue); err != nil {
		return fail("nonce value", err)
	}
	if account == payer {
		return fail("nonce account", errors.New("it is the payer"))
	}
	if t.Limit == 0 || t.Limit > LimitMax {
		return fail("compute units", fmt.Errorf("the limit is %d, not 1 to %d", t.Limit, LimitMax))
	}
	ins = append(
		ins,
		instruction{system, advanceNonce, []meta{
			writableMeta(account), readOnly(blockhashes),
			readOnly(payer).asSigner(),
		}},
		instruction{budget, binary.LittleEndian.AppendUint32(slices.Clone(setLimit), t.Limit), nil},
		instruction{budget, binary.LittleEndian.AppendUint64(slices.Clone(setPrice), t.Price), nil},
	)
	if len(t.Moves) > 0 && len(t.Closes) > 0 {
		return fail("closes", errors.New("they are combined with moves"))
	}
	if t.Creation != nil {
		if len(t.Moves) > 0 || len(t.Closes) > 0 {
			return fail("creation", errors.New("it is combined with moves or closes"))
		}
		create, err := t.Creation.toInstruction(payer, t.NonceAccount)
		if err != nil {
			return fail("creation", err)
		}
		return payer, value, append(ins, create), nil
	}
	closed := map[chain.Address]bool{t.NonceAccount: true}
	for i, c := range t.Closes {
		if closed[c.Account] || c.Owner == t.NonceAccount {
			return fail(fmt.Sprintf("close %d", i),
				fmt.Errorf("%s is already closed, or is the nonce account", c.Account))
		}
		closed[c.Account] = true
		instr, err := c.toInstruction(payer)
		if err != nil {
			return fail(fmt.Sprintf("close %d", i), err)
		}
		ins = append(ins, instr)
	}
	made := map[chain.Address]bool{}
	for i, m := range t.Moves {
		if m.From == t.NonceAccount || m.To == t.NonceAccount {
			return fail(fmt.Sprintf("move %d", i), errors.New("the transaction does not use the nonce account"))
		}
		if m.Owner != "" && made[m.To] {
			return fail(fmt.Sprintf("move %d", i), fmt.Errorf("%s is created twice", m.To))
		}
		made[m.To] = made[m.To] || m.Owner != ""
		moveIns, err := m.toInstructions(payer)
		if err != nil {
			return fail(fmt.Sprintf("move %d", i), err)
		}
		ins = append(ins, moveIns...)
	}
	return payer, value, ins, nil
}

func (m Move) toInstructions(payer [keyBytes]byte) ([]instruction, error) {
	amount, ok := m.Amount.Uint64()
	if !ok || amount == 0 {
		return nil, fmt.Errorf("the amount is %v, not 1 to 2^64-1", m.Amount)
	}
	from, err := signerAccount(m.From)
	if err != nil {
		return nil, fmt.Errorf("payer of the move: %w", err)
	}
	to, err := plainAccount(m.To)
	if err != nil {
		return nil, fmt.Errorf("receiver: %w", err)
	}
	if m.Mint == "" {
		if m.Owner != "" || m.TokenProgram != "" || m.Decimals != 0 {
			return nil, errors.New("the native coin has no mint, and this move has fields of a token")
		}
		data := binary.LittleEndian.AppendUint64(slices.Clone(transferData), amount)
		return []instruction{{system, data, []meta{writableMeta(from).asSigner(), writableMeta(to)}}}, nil
	}
	if m.TokenProgram != TokenProgram && m.TokenProgram != Token2022Program {
		return nil, fmt.Errorf("%.60q is not a token program", string(m.TokenProgram))
	}
	program := mustBytes(m.TokenProgram)
	if _, err := ParseMint(string(m.Mint)); err != nil {
		return nil, fmt.Errorf("mint: %w", err)
	}
	mint := mustBytes(m.Mint)
	source, err := associatedAccount(from, mint, program)
	if err != nil {
		return nil, err
	}
	var ins []instruction
	if m.Owner != "" {
		owner, err := plainAccount(m.Owner)
		if err != nil {
			return nil, fmt.Errorf("owner: %w", err)
		}
		account, err := associatedAccount(owner, mint, program)
		if err != nil {
			return nil, err
		}
		if account != to {
			return nil, fmt.Errorf("%s is not the token account of %s", m.To, m.Owner)
		}
		ins = append(ins, createInstruction(payer, to, owner, mint, program))
	}
	data := append(binary.LittleEndian.AppendUint64(slices.Clone(transferChecked), amount), m.Decimals)
	return append(ins, instruction{program, data, []meta{
		writableMeta(source), readOnly(mint), writableMeta(to),
		readOnly(from).asSigner(),
	}}), nil
}

// Payload encodes the transaction as it is signed: the message, without signatures. Error: it does
// not fit into a packet of the network.
func (t Tx) Payload() ([]byte, error) {
	payer, value, ins, err := t.toInstructions()
	if err != nil {
		return nil, err
	}
	return compileMessage(payer, value, ins)
}

// Decode decodes a payload. Every payload that it accepts is exactly what Payload writes for the
// result; anything else is an error.
func Decode(payload []byte) (Tx, error) {
	m, err := parseMessage(payload)
	if err != nil {
		return Tx{}, err
	}
	t, err := m.toTx()
	if err != nil {
		return Tx{}, err
	}
	return t, checkRoundTrip(payload, t.Payload)
}

// checkRoundTrip returns an error unless the decoded value is encoded as the same bytes.
func checkRoundTrip(payload []byte, write func() ([]byte, error)) error {
	encoded, err := write()
	if err != nil {
		return err
	}
	if !bytes.Equal(encoded, payload) {
		return errors.New("transaction is not in the one form that the service makes")
	}
	return nil
}

// toTx decodes the instructions; Payload decides whether they are correct.
func (m message) toTx() (Tx, error) {
	const head = 3
	if len(m.ins) < head {
		return Tx{}, fmt.Errorf("transaction has too few instructions for a payment: %d", len(m.ins))
	}
	nonce, err := m.ins[0].expect(system, advanceNonce, 3, 0)
	if err != nil {
		return Tx{}, fmt.Errorf("instruction 0, which has to advance the nonce: %w", err)
	}
	limit, err := m.ins[1].expect(budget, setLimit, 0, 4)
	if err != nil {
		return Tx{}, fmt.Errorf("instruction 1, which has to set the limit of compute units: %w", err)
	}
	price, err := m.ins[2].expect(budget, setPrice, 0, 8)
	if err != nil {
		return Tx{}, fmt.Errorf("instruction 2, which has to set the price of compute units: %w", err)
	}
	t := Tx{
		Payer:        Canonical(m.keys[0]),
		NonceAccount: Canonical(nonce.accounts[0]),
		NonceValue:   base58.Encode(m.hash[:]),
		Limit:        binary.LittleEndian.Uint32(limit.args),
		Price:        binary.LittleEndian.Uint64(price.args),
	}
	for i := head; i < len(m.ins); i++ {
		if instr := m.ins[i]; instr.program == token || instr.program == token2022 {
			// Payload checks that the lamports go to the payer.
			if shut, err := instr.expect(instr.program, closeAccount, 3, 0); err == nil {
				t.Closes = append(t.Closes, Close{
					Canonical(shut.accounts[2]), Canonical(shut.accounts[0]),
					Canonical(instr.program),
				})
				continue
			}
		}
		var move Move
		if m.ins[i].program == associated {
			create, err := m.ins[i].expect(associated, createIdempotent, 6, 0)
			if err != nil {
				return Tx{}, fmt.Errorf("instruction %d, which has to create a token account: %w", i, err)
			}
			if len(m.ins) == head+1 {
				// Payload checks the account, and who pays for it.
				t.Creation = &Creation{
					Canonical(create.accounts[2]), Canonical(create.accounts[3]), Canonical(create.accounts[5]),
				}
				return t, nil
			}
			move.Owner = Canonical(create.accounts[2])
			if i++; i == len(m.ins) || m.ins[i].program == system {
				return Tx{}, errors.New("it creates a token account without a use")
			}
		}
		if err := move.readInstruction(m.ins[i]); err != nil {
			return Tx{}, fmt.Errorf("instruction %d: %w", i, err)
		}
		t.Moves = append(t.Moves, move)
	}
	return t, nil
}

func (m *Move) readInstruction(instr parsedInstruction) error {
	switch instr.program {
	case system:
		pay, err := instr.expect(system, transferData, 2, 8)
		if err != nil {
			return err
		}
		m.From, m.To = Canonical(pay.accounts[0]), Canonical(pay.accounts[1])
		m.Amount = money.Units(binary.LittleEndian.Uint64(pay.args))
	case token, token2022:
		pay, err := instr.expect(instr.program, transferChecked, 4, 9)
		if err != nil {
			return err
		}
		m.TokenProgram = Canonical(instr.program)
		m.Mint, m.To, m.From = Canonical(pay.accounts[1]), Canonical(pay.accounts[2]), Canonical(pay.accounts[3])
		m.Amount, m.Decimals = money.Units(binary.LittleEndian.Uint64(pay.args)), pay.args[8]
	default:
		return fmt.Errorf("program %s does not belong to a payment", Canonical(instr.program))
	}
	return nil
}

// NonceCreation is the unsigned transaction that creates a treasury's nonce account. It pays the
// rent to the address, whatever amount is there already, and makes an account of it. It carries a
// recent blockhash, because there is no nonce yet. It is valid for about a minute, and a second one
// for the same account fails.
type NonceCreation struct {
	Treasury  chain.Address // pays, and is the account's authority
	N         uint32        // number of the nonce account, see NonceAccount
	Blockhash string        // base58
	// LegacyForm is the form that versions before decision 0065 signed. It has the same effect on
	// an empty address and fails on others. It is decoded but no longer built.
	LegacyForm bool
}

// SlotKey returns the key of the slot that the creation takes: the account, which is created once.
func (c NonceCreation) SlotKey() string {
	account, err := NonceAccount(c.Treasury, c.N)
	if err != nil {
		return ""
	}
	return string(account)
}

// CheckPayment returns nil if a creation makes exactly one nonce account for a payment, and
// otherwise what differs.
func (c NonceCreation) CheckPayment(p chain.Payment) error {
	account, err := NonceAccount(c.Treasury, c.N)
	switch {
	case err != nil:
		return err
	case !p.CreatesNonceAccount || p.CreatesTokenAccount || p.Contract != "":
		return errors.New("it creates a nonce account and makes no other payment")
	case p.From != c.Treasury || p.Payer != "" && p.Payer != c.Treasury:
		return fmt.Errorf("the fee payer is %s, not %s", c.Treasury, p.From)
	case p.To != account:
		return fmt.Errorf("it creates %s, not %s", account, p.To)
	case p.Amount != money.Units(NonceRent):
		return fmt.Errorf("it leaves %d there, not %v", NonceRent, p.Amount)
	}
	return nil
}

// MaxCost returns the fee and the rent, in lamports.
func (NonceCreation) MaxCost() money.Amount { return money.Units(SignatureFee + NonceRent) }

// Payload encodes the transaction as it is signed.
func (c NonceCreation) Payload() ([]byte, error) {
	treasury, err := signerAccount(c.Treasury)
	if err != nil {
		return nil, fmt.Errorf("treasury: %w", err)
	}
	recent, err := decodeHash(c.Blockhash)
	if err != nil {
		return nil, fmt.Errorf("recent block: %w", err)
	}
	account, seed := nonceAccount(treasury, c.N), nonceSeed(c.N)
	seeded := binary.LittleEndian.AppendUint64(slices.Clone(treasury[:]), uint64(len(seed)))
	seeded = append(seeded, seed...)
	space := append(binary.LittleEndian.AppendUint64(nil, NonceBytes), system[:]...)
	rentLamports := binary.LittleEndian.AppendUint64(nil, NonceRent)
	ins := []instruction{
		{
			system, slices.Concat(transferData, rentLamports),
			[]meta{writableMeta(treasury).asSigner(), writableMeta(account)},
		},
		{
			system, slices.Concat(allocWithSeed, seeded, space),
			[]meta{writableMeta(account), readOnly(treasury).asSigner()},
		},
	}
	if c.LegacyForm {
		ins = []instruction{{
			system, slices.Concat(createWithSeed, seeded, rentLamports, space),
			[]meta{writableMeta(treasury).asSigner(), writableMeta(account), readOnly(treasury).asSigner()},
		}}
	}
	return compileMessage(treasury, recent, append(ins, instruction{
		system, slices.Concat(initializeNonce, treasury[:]), []meta{
			writableMeta(account), readOnly(blockhashes),
			readOnly(rent),
		},
	}))
}

// isNonceCreation reports whether a message begins like the creation of a nonce account, in either
// form. Every other transaction begins with the advance of a nonce.
func (m message) isNonceCreation() bool {
	return len(m.ins) > 0 && m.ins[0].program == system &&
		(bytes.HasPrefix(m.ins[0].data, transferData) || bytes.HasPrefix(m.ins[0].data, createWithSeed))
}

// DecodeNonceCreation decodes a creation as strictly as Decode.
func DecodeNonceCreation(payload []byte) (NonceCreation, error) {
	m, err := parseMessage(payload)
	if err != nil {
		return NonceCreation{}, err
	}
	if !m.isNonceCreation() || len(m.ins) > 3 {
		return NonceCreation{}, fmt.Errorf("transaction has %d instructions, not those that create a nonce account",
			len(m.ins))
	}
	c := NonceCreation{Treasury: Canonical(m.keys[0]), Blockhash: base58.Encode(m.hash[:]), LegacyForm: len(m.ins) == 2}
	// The seed is behind the base and its own length.
	const headBytes = 4 + keyBytes + 8
	data, tailBytes := m.ins[0].data, 8+8+keyBytes
	if !c.LegacyForm && len(m.ins) > 1 {
		data, tailBytes = m.ins[1].data, 8+keyBytes
	}
	if len(data) < headBytes+tailBytes {
		return NonceCreation{}, errors.New("transaction does not create an account with a seed")
	}
	digits, ok := bytes.CutPrefix(data[headBytes:len(data)-tailBytes], []byte(nonceSeedPrefix))
	n, err := money.Parse(string(digits))
	if i, small := n.Uint64(); ok && err == nil && small && i <= math.MaxUint32 {
		c.N = uint32(i)
		return c, checkRoundTrip(payload, c.Payload)
	}
	return NonceCreation{}, errors.New("the seed of the account is not that of a nonce account of this service")
}

// ParseNonce decodes the data of a usable nonce account: its authority, the value that a
// transaction has to carry now, and the fee of a signature when it was stored. The caller checks
// whether the System program owns the account.
func ParseNonce(data []byte) (authority chain.Address, value string, lamportsPerSignature uint64, err error) {
	const current, initialized = 1, 1
	switch {
	case len(data) != NonceBytes:
		return "", "", 0, fmt.Errorf("nonce account has %d bytes, not %d", len(data), NonceBytes)
	case binary.LittleEndian.Uint32(data) != current:
		return "", "", 0, fmt.Errorf("nonce account has version %d, not %d", binary.LittleEndian.Uint32(data), current)
	case binary.LittleEndian.Uint32(data[4:]) != initialized:
		return "", "", 0, fmt.Errorf("nonce account has state %d, not %d", binary.LittleEndian.Uint32(data[4:]),
			initialized)
	}
	a, v := [keyBytes]byte(data[8:]), [keyBytes]byte(data[40:])
	if v == [keyBytes]byte{} {
		return "", "", 0, errors.New("nonce account has no value")
	}
	return Canonical(a), base58.Encode(v[:]), binary.LittleEndian.Uint64(data[72:]), nil
}
