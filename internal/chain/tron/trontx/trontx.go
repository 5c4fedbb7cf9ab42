// Package trontx encodes addresses of TRON and the two forms of transaction that Coffer makes: a
// transfer of TRX, and a call of a token's transfer(address,uint256). It is pure: it sends no
// request and has no state.
//
// Decode reads a transaction of Coffer as strictly as Payload writes it. It accepts exactly the
// bytes that Payload makes. A field that is unknown, repeated, in another order or encoded longer
// than necessary is an error.
//
// TRON does not number transactions and has nothing that one of them could use up. A payment cannot
// be mined twice because the chain accepts its identifier, the hash of its bytes, once. Its expiry
// ends it.
//
// So the slot of a payment (SlotKey) is everything in it that is neither the payment nor its price:
// the account, the block that it refers to, and the times between which it is valid. At most one
// transaction may be signed in a slot, neither one with a higher price nor a cancel: both would be
// mined. See decision 0054.
//
// Everything here follows the chain's published sources and was checked against blocks,
// transactions and signatures of the public networks. It was never run against a node.
package trontx

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
)

const (
	// LifetimeMax is how long after its reference a transaction of Coffer may be valid. The chain
	// allows a day from the newest block on.
	LifetimeMax = 20 * time.Hour

	refBytes     = 2 // the lowest of the height of a block
	refHashBytes = 8 // out of the middle of its identifier
	payloadMax   = 1024
)

// Numbers of the fields and of the contract kinds in the chain's protocol.
const (
	rawRef, rawRefHash, rawExpiration, rawContract, rawTimestamp, rawFeeLimit = 1, 4, 8, 11, 14, 18

	contractType, contractParameter = 1, 2
	anyURL, anyValue                = 1, 2

	transferOwner, transferTo, transferAmount  = 1, 2, 3
	triggerOwner, triggerContract, triggerData = 1, 2, 4

	kindTransfer = 1
	kindTrigger  = 31
)

const (
	urlTransfer = "type.googleapis.com/protocol.TransferContract"
	urlTrigger  = "type.googleapis.com/protocol.TriggerSmartContract"
)

// Costs of a transaction in addition to its energy, in sun, by the chain's parameters of 2026. The
// chain's representatives vote on them, and no transaction can bound them.
const (
	SunPerByte  = 1_000     // of bandwidth that is not free
	AccountFee  = 100_000   // in place of bandwidth if the payee is a new account
	Activation  = 1_000_000 // in addition to AccountFee
	resultBytes = 64        // that the chain counts for the result
)

// Tx is a transaction of Coffer: Amount from Owner to To.
type Tx struct {
	SlotRef
	Contract chain.Address // the token, or "" for TRX
	To       chain.Address
	Amount   money.Amount // of TRX no more than 2^63-1 sun
	FeeLimit uint64       // the most that energy may cost, in sun; 0 for TRX, which needs none
}

// SlotRef is the slot of a transaction. At most one transaction is ever signed per slot.
type SlotRef struct {
	Owner         chain.Address
	RefBlockBytes [refBytes]byte     // the block that it refers to: the lowest bytes of its height
	RefBlockHash  [refHashBytes]byte // and a part of its identifier
	// Timestamp is the time of that block. Expiration is when the transaction expires. Both are
	// milliseconds of Unix time. A block contains the transaction only if the block before it is
	// older than Expiration.
	Timestamp, Expiration int64
}

// SlotKey returns the text that identifies the slot.
func (p SlotRef) SlotKey() string {
	return fmt.Sprintf("%s %x %x %d %d", p.Owner, p.RefBlockBytes, p.RefBlockHash, p.Timestamp, p.Expiration)
}

// ParseSlotKey parses the key of a slot. Each slot has exactly one text.
func ParseSlotKey(s string) (SlotRef, error) {
	var p SlotRef
	fail := func(problem string) (SlotRef, error) {
		return SlotRef{}, fmt.Errorf("%.200q is not a slot key: %s", s, problem)
	}
	parts := strings.Split(s, " ")
	if len(parts) != 5 {
		return fail("want an address, two parts of a block's identifier and two times")
	}
	p.Owner = chain.Address(parts[0])
	for i, target := range [][]byte{p.RefBlockBytes[:], p.RefBlockHash[:]} {
		b, err := hex.DecodeString(parts[1+i])
		if err != nil || len(b) != len(target) {
			return fail("its reference is invalid")
		}
		copy(target, b)
	}
	for i, target := range []*int64{&p.Timestamp, &p.Expiration} {
		n, err := strconv.ParseInt(parts[3+i], 10, 64)
		if err != nil {
			return fail("its times are invalid")
		}
		*target = n
	}
	if p.SlotKey() != s {
		return fail("it is not in its canonical form")
	}
	if err := p.validate(); err != nil {
		return fail(err.Error())
	}
	return p, nil
}

func (p SlotRef) validate() error {
	if _, err := Bytes(p.Owner); err != nil {
		return err
	}
	switch {
	case p.Timestamp <= 0 || p.Expiration <= p.Timestamp:
		return errors.New("it ends before it begins")
	case p.Expiration-p.Timestamp > LifetimeMax.Milliseconds():
		return fmt.Errorf("it is valid for more than %v", LifetimeMax)
	}
	return nil
}

// RefersTo reports whether a block is the one that the slot refers to.
func (p SlotRef) RefersTo(height uint64, id [32]byte, millis int64) bool {
	return p.RefBlockBytes == RefBytesOf(height) && p.RefBlockHash == [refHashBytes]byte(id[8:16]) &&
		p.Timestamp == millis
}

// RefBytesOf returns the bytes of a block's height that a transaction contains.
func RefBytesOf(height uint64) [refBytes]byte {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], height)
	return [refBytes]byte(b[8-refBytes:])
}

// NewTx returns the transaction of a payment in a slot.
func NewTx(p chain.Payment, slot SlotRef, feeLimit uint64) (Tx, error) {
	if p.From != slot.Owner || p.Payer != "" && p.Payer != p.From {
		return Tx{}, fmt.Errorf("the payment is from %s and its slot belongs to %s", p.From, slot.Owner)
	}
	return Tx{SlotRef: slot, Contract: p.Contract, To: p.To, Amount: p.Amount, FeeLimit: feeLimit}, nil
}

// Payload encodes a transaction without its signature. Error: Coffer makes no such transaction.
func (t Tx) Payload() ([]byte, error) {
	if err := t.validate(); err != nil {
		return nil, err
	}
	return t.encodeRaw()
}

func (t Tx) validate() error {
	if err := t.SlotRef.validate(); err != nil {
		return err
	}
	switch {
	case t.Amount.IsZero():
		return errors.New("it moves zero, which the chain refuses")
	case t.To == t.Owner:
		return errors.New("its payee is its payer, which the chain refuses")
	}
	if t.Contract == "" {
		if n, ok := t.Amount.Uint64(); !ok || n > math.MaxInt64 {
			return fmt.Errorf("%v sun are too many for the chain", t.Amount)
		}
		if t.FeeLimit != 0 {
			return errors.New("a transfer of TRX uses no energy, and it limits what that costs")
		}
		return nil
	}
	if t.FeeLimit == 0 || t.FeeLimit > math.MaxInt64 {
		return fmt.Errorf("%d sun are not a limit for the cost of its energy", t.FeeLimit)
	}
	if t.To == t.Contract {
		return errors.New("it sends a token to the token's own contract")
	}
	return nil
}

func (t Tx) encodeRaw() ([]byte, error) {
	owner, err := Bytes(t.Owner)
	if err != nil {
		return nil, err
	}
	kind, url := uint64(kindTransfer), urlTransfer
	value := addBytes(nil, transferOwner, owner[:])
	if t.Contract == "" {
		to, err := Bytes(t.To)
		if err != nil {
			return nil, err
		}
		n, _ := t.Amount.Uint64()
		value = addVarint(addBytes(value, transferTo, to[:]), transferAmount, n)
	} else {
		contract, err := Bytes(t.Contract)
		if err != nil {
			return nil, err
		}
		data, err := TransferData(t.To, t.Amount)
		if err != nil {
			return nil, err
		}
		kind, url = kindTrigger, urlTrigger
		value = addBytes(addBytes(value, triggerContract, contract[:]), triggerData, data)
	}
	parameter := addBytes(addBytes(nil, anyURL, []byte(url)), anyValue, value)
	contract := addBytes(addVarint(nil, contractType, kind), contractParameter, parameter)
	b := addBytes(nil, rawRef, t.RefBlockBytes[:])
	b = addBytes(b, rawRefHash, t.RefBlockHash[:])
	b = addVarint(b, rawExpiration, uint64(t.Expiration))
	b = addBytes(b, rawContract, contract)
	b = addVarint(b, rawTimestamp, uint64(t.Timestamp))
	if t.FeeLimit > 0 {
		b = addVarint(b, rawFeeLimit, t.FeeLimit)
	}
	return b, nil
}

func addBytes(b []byte, n protowire.Number, v []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), v)
}

func addVarint(b []byte, n protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), v)
}

// Decode decodes a transaction of Coffer without its signature. Every other transaction, and every
// further content, is an error.
func Decode(payload []byte) (Tx, error) {
	if len(payload) > payloadMax {
		return Tx{}, fmt.Errorf("a transaction of %d bytes is not one that the service makes", len(payload))
	}
	t, err := parsePayment(payload)
	if err != nil {
		return Tx{}, err
	}
	encoded, err := t.Payload()
	if err != nil {
		return Tx{}, err
	}
	if !bytes.Equal(encoded, payload) {
		return Tx{}, errors.New(
			"the transaction has more content than a payment that the service makes, or another encoding",
		)
	}
	return t, nil
}

// parsePayment reads the fields that a payment of Coffer has. The caller finds the fields that it
// skips by encoding the transaction again.
func parsePayment(payload []byte) (t Tx, err error) {
	raw, err := parseFields(payload)
	if err != nil {
		return t, err
	}
	contract, err := parseFields(raw.bytes[rawContract])
	if err != nil {
		return t, err
	}
	parameter, err := parseFields(contract.bytes[contractParameter])
	if err != nil {
		return t, err
	}
	value, err := parseFields(parameter.bytes[anyValue])
	if err != nil {
		return t, err
	}
	ref, hash := raw.bytes[rawRef], raw.bytes[rawRefHash]
	if len(ref) != refBytes || len(hash) != refHashBytes {
		return t, errors.New("the transaction refers to no block")
	}
	t.RefBlockBytes, t.RefBlockHash = [refBytes]byte(ref), [refHashBytes]byte(hash)
	t.Timestamp, t.Expiration, t.FeeLimit = int64(raw.ints[rawTimestamp]), int64(raw.ints[rawExpiration]),
		raw.ints[rawFeeLimit]
	if t.Owner, err = FromBytes(value.bytes[transferOwner]); err != nil {
		return t, fmt.Errorf("owner: %w", err)
	}
	switch contract.ints[contractType] {
	case kindTransfer:
		t.Amount = money.Units(value.ints[transferAmount])
		t.To, err = FromBytes(value.bytes[transferTo])
	case kindTrigger:
		if t.Contract, err = FromBytes(value.bytes[triggerContract]); err == nil {
			t.To, t.Amount, err = ParseTransfer(value.bytes[triggerData])
		}
	default:
		err = fmt.Errorf("a contract of kind %d is not a payment of this service", contract.ints[contractType])
	}
	return t, err
}

// message is a message of the protocol with the last value of each field.
type message struct {
	ints  map[protowire.Number]uint64
	bytes map[protowire.Number][]byte
}

// parseFields parses any message. It skips the field types that Coffer's transactions do not have.
func parseFields(b []byte) (message, error) {
	m := message{map[protowire.Number]uint64{}, map[protowire.Number][]byte{}}
	for len(b) > 0 {
		n, kind, size := protowire.ConsumeTag(b)
		if size < 0 {
			return m, errCutOff
		}
		b = b[size:]
		switch kind {
		case protowire.VarintType:
			m.ints[n], size = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			m.bytes[n], size = protowire.ConsumeBytes(b)
		default:
			size = protowire.ConsumeFieldValue(n, kind, b)
		}
		if size < 0 {
			return m, errCutOff
		}
		b = b[size:]
	}
	return m, nil
}

var errCutOff = errors.New("the transaction is cut off, or not a transaction")

// CheckPayment returns an error that describes the transaction if it does not make this payment.
func (t Tx) CheckPayment(p chain.Payment) error {
	if t.Owner != p.From || t.Contract != p.Contract || t.To != p.To || t.Amount != p.Amount {
		return fmt.Errorf("it pays %v of %q from %s to %s", t.Amount, string(t.Contract), t.Owner, t.To)
	}
	return nil
}

// MaxCost returns the most that the transaction may cost, in sun. That is the limit for its energy,
// and what the chain takes in addition by its parameters of 2026, which the transaction cannot
// bound.
func (t Tx) MaxCost() money.Amount {
	nonEnergy := uint64(payloadMax) * SunPerByte
	if b, err := t.encodeRaw(); err == nil {
		nonEnergy = Bandwidth(b) * SunPerByte
	}
	if t.Contract == "" {
		nonEnergy = max(nonEnergy, AccountFee) + Activation
	}
	sum, err := money.Units(t.FeeLimit).Add(money.Units(nonEnergy))
	if err != nil {
		panic("trontx: two numbers of 64 bits have no sum")
	}
	return sum
}

// Bandwidth returns how many bytes the chain counts for a payload once it is signed.
func Bandwidth(payload []byte) uint64 {
	return uint64(len(encodeSigned(payload, make([]byte, signatureBytes)))) + resultBytes
}
