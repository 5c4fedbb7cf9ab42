package bitcointx

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/btcsuite/btcd/chainhash/v2"
	"github.com/btcsuite/btcd/wire/v2"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
)

const (
	txVersion = 2
	// rbfSequence is the sequence number that lets a transaction with the same inputs and a higher
	// fee replace this one while it is unconfirmed (BIP-125), and requires no age of the inputs.
	rbfSequence = 0xffff_fffd
	lockTime    = 0 // any block may contain it
)

// payloadMagic begins every payload.
var payloadMagic = []byte("cfbt\x01")

// payloadNetworks are the networks by their byte in a payload.
var payloadNetworks = []chain.Network{chain.Mainnet, chain.Testnet, chain.Local}

// Payee is a payee with its amount.
type Payee struct {
	To     chain.Address
	Amount money.Amount // satoshi
}

// Tx is an unsigned transaction of Coffer. Its payload contains more than the network sees: the
// amount and the owner of each input, and the change address even where there is no change. So it
// contains the whole slot key.
type Tx struct {
	Network      chain.Network
	SlotKey      SlotKey
	Payees       []Payee      // in this order; a cancel has none
	ChangeAmount money.Amount // the output to SlotKey.Change, behind the payees; zero where it would be dust
}

// validTx is a transaction in numbers and scripts.
type validTx struct {
	inputs  []destination
	change  destination
	outputs []wire.TxOut
	fee     uint64
}

// validate checks the rules of every transaction that is encoded or decoded here.
func (t Tx) validate() (validTx, error) {
	var c validTx
	fail := func(format string, args ...any) (validTx, error) { return validTx{}, fmt.Errorf(format, args...) }
	if err := t.SlotKey.validate(t.Network); err != nil {
		return validTx{}, err
	}
	for _, coin := range t.SlotKey.Inputs {
		d, err := parseSpendable(t.Network, coin.Owner)
		if err != nil {
			return validTx{}, err
		}
		c.inputs = append(c.inputs, d)
	}
	var err error
	if c.change, err = parseSpendable(t.Network, t.SlotKey.Change); err != nil {
		return validTx{}, err
	}
	if len(t.Payees) > PayeesMax {
		return fail("%d payees, and a transaction has at most %d", len(t.Payees), PayeesMax)
	}
	left := t.SlotKey.inputSum()
	addOutput := func(script []byte, amount money.Amount) error {
		n, ok := amount.Uint64()
		if minimum, _ := Dust(script).Uint64(); !ok || n < minimum {
			return fmt.Errorf("%v satoshi, and the network does not relay less than %d", amount, minimum)
		}
		if n > left {
			return fmt.Errorf("the outputs lack %d satoshi for it", n-left)
		}
		left -= n
		c.outputs = append(c.outputs, wire.TxOut{Value: int64(n), PkScript: script})
		return nil
	}
	for i, p := range t.Payees {
		d, err := destinationOf(t.Network, p.To)
		if err == nil && p.To == t.SlotKey.Change {
			err = errors.New("it pays the address of the change output")
		}
		if err == nil {
			err = addOutput(d.toScript(), p.Amount)
		}
		if err != nil {
			return fail("payment %d: %w", i, err)
		}
	}
	if !t.ChangeAmount.IsZero() {
		if err := addOutput(c.change.toScript(), t.ChangeAmount); err != nil {
			return fail("change: %w", err)
		}
	}
	if len(c.outputs) == 0 {
		return fail("a transaction without outputs")
	}
	if left == 0 {
		return fail("a transaction without a fee")
	}
	c.fee = left
	return c, nil
}

// Fee returns what the inputs hold beyond the outputs, in satoshi: what the transaction costs,
// independently of which outputs are the organization's. It returns zero for an invalid
// transaction.
func (t Tx) Fee() money.Amount {
	c, err := t.validate()
	if err != nil {
		return money.Zero
	}
	return money.Units(c.fee)
}

// The weights of a transaction by BIP-141: four for a byte, one for a byte of the witnesses.
const (
	bytesWeight = 4
	// Version, lock time, marker and flag, and the counts of inputs and outputs with one byte each.
	// InputsMax and PayeesMax keep the counts below two bytes.
	emptyWeight = bytesWeight*(4+4+1+1) + 2
	// An input names an output, and has an empty script and a sequence number. The ECDSA signature
	// has its longest form, with the key next to it.
	inputWeight   = bytesWeight * (32 + 4 + 1 + 4)
	keyWeight     = inputWeight + 1 + 1 + 72 + 1 + KeyBytes
	taprootWeight = inputWeight + 1 + 1 + 64

	weightMax = 400_000 // of what nodes relay
)

func (d destination) spendWeight() int {
	if d.form == p2tr {
		return taprootWeight
	}
	return keyWeight
}

func outputWeight(script []byte) int { return bytesWeight * (valueBytes + 1 + len(script)) }

// SpendWeight returns what spending an output of an owner adds to the weight of a transaction.
func SpendWeight(n chain.Network, holder chain.Address) (int, error) {
	d, err := parseSpendable(n, holder)
	if err != nil {
		return 0, err
	}
	return d.spendWeight(), nil
}

// PayWeight returns what paying an address adds to the weight of a transaction.
func PayWeight(n chain.Network, to chain.Address) (int, error) {
	script, err := Script(n, to)
	return outputWeight(script), err
}

// EmptyWeight is the weight of a transaction without inputs and outputs.
const EmptyWeight = emptyWeight

// VirtualSize returns the virtual bytes of a weight: a quarter, rounded up.
func VirtualSize(weight int) uint64 { return uint64(weight+bytesWeight-1) / bytesWeight }

func (c validTx) totalWeight() int {
	w := emptyWeight
	for _, d := range c.inputs {
		w += d.spendWeight()
	}
	for _, out := range c.outputs {
		w += outputWeight(out.PkScript)
	}
	return w
}

// VirtualSize returns the size of the transaction with signatures in their longest form, in virtual
// bytes: the network's own count is never higher. It returns zero for an invalid transaction.
func (t Tx) VirtualSize() uint64 {
	c, err := t.validate()
	if err != nil {
		return 0
	}
	return VirtualSize(c.totalWeight())
}

// rateVBytes is the number of virtual bytes that a rate is for.
const rateVBytes = 1000

// RateMax is above every rate that is no mistake, in satoshi per thousand virtual bytes. Nodes
// refuse to broadcast at a higher rate.
const RateMax = 10_000_000

// FeeAtRate returns the cost of virtual bytes at a rate in satoshi per thousand, rounded up, so
// that the rate is always reached.
func FeeAtRate(size, rate uint64) uint64 { return (size*rate + rateVBytes - 1) / rateVBytes }

// Build returns the transaction of payments in a slot: payees in order, and what the fee leaves as
// change. Without payments it is a cancel, and everything comes back.
//
// NonGas of the fees is the exact cost of the transaction in satoshi. TipCap is the rate that it
// has to reach, in satoshi per thousand virtual bytes. So a replacement in the slot costs exactly
// the increase more, independently of its own size, as nodes require. Errors:
// *chain.InsufficientOutputsError if the remainder is neither nothing nor enough for change; a
// payment of dust; fees below their own rate.
func Build(n chain.Network, l SlotKey, ps []chain.Payment, f chain.Fees) (Tx, error) {
	d, err := newDraft(n, l, ps, f)
	if err != nil {
		return Tx{}, err
	}
	fee, ok := f.NonGas.Uint64()
	if !ok || fee > satoshiSupply {
		return Tx{}, fmt.Errorf("a fee of %v satoshi is larger than the supply", f.NonGas)
	}
	if d.remaining == fee && len(ps) > 0 {
		return d.toTx(n, l, fee, 0)
	}
	if d.remaining < fee+d.dust {
		return Tx{}, &chain.InsufficientOutputsError{Missing: money.Units(fee + d.dust - d.remaining)}
	}
	return d.toTx(n, l, fee, d.remaining-fee)
}

// FitFees returns the fees for the transaction of a slot: the same rate, the transaction's own size
// and its cost at that rate. A remainder that would be dust as change is part of the cost. Errors:
// those of Build.
func FitFees(n chain.Network, l SlotKey, ps []chain.Payment, f chain.Fees) (chain.Fees, error) {
	d, err := newDraft(n, l, ps, f)
	if err != nil {
		return chain.Fees{}, err
	}
	fee := FeeAtRate(VirtualSize(d.weight+d.changeWeight), d.rate)
	if d.remaining < fee+d.dust {
		changelessFee := FeeAtRate(VirtualSize(d.weight), d.rate)
		switch {
		case len(ps) == 0:
			return chain.Fees{}, &chain.InsufficientOutputsError{Missing: money.Units(fee + d.dust - d.remaining)}
		case d.remaining < changelessFee:
			return chain.Fees{}, &chain.InsufficientOutputsError{Missing: money.Units(changelessFee - d.remaining)}
		}
		fee = d.remaining
	}
	fit := chain.Fees{TipCap: f.TipCap, NonGas: money.Units(fee)}
	t, err := Build(n, l, ps, fit)
	fit.GasLimit = t.VirtualSize()
	return fit, err
}

// draft is a transaction without its fee and its change.
type draft struct {
	payees       []Payee
	remaining    uint64 // what the inputs hold beyond the payments
	rate         uint64
	weight       int
	changeWeight int    // weight of a change output
	dust         uint64 // the least value of a change output
}

func newDraft(n chain.Network, l SlotKey, ps []chain.Payment, f chain.Fees) (draft, error) {
	d := draft{weight: emptyWeight}
	var ok bool
	d.rate, ok = f.TipCap.Uint64()
	switch {
	case !ok || d.rate == 0 || d.rate > RateMax:
		return d, fmt.Errorf("a rate of %v satoshi per thousand virtual bytes is not 1 to %d", f.TipCap, RateMax)
	case !f.FeeCap.IsZero():
		return d, fmt.Errorf("a fee cap of %v, although the cost is separate here", f.FeeCap)
	}
	if err := l.validate(n); err != nil {
		return d, err
	}
	for _, c := range l.Inputs {
		holder, err := parseSpendable(n, c.Owner)
		if err != nil {
			return d, err
		}
		d.weight += holder.spendWeight()
	}
	var paid uint64
	for i, p := range ps {
		amount, ok := p.Amount.Uint64()
		if !ok || amount > satoshiSupply-paid {
			return d, fmt.Errorf("payment %d: %v satoshi are more than the supply", i, p.Amount)
		}
		if p.Contract != "" {
			return d, fmt.Errorf("payment %d: there is no token %.100q", i, string(p.Contract))
		}
		w, err := PayWeight(n, p.To)
		if err != nil {
			return d, fmt.Errorf("payment %d: %w", i, err)
		}
		paid, d.weight = paid+amount, d.weight+w
		d.payees = append(d.payees, Payee{p.To, p.Amount})
	}
	changeScript, err := Script(n, l.Change)
	if err != nil {
		return d, err
	}
	d.changeWeight = outputWeight(changeScript)
	d.dust, _ = Dust(changeScript).Uint64()
	sum := l.inputSum()
	if sum < paid {
		return d, &chain.InsufficientOutputsError{Missing: money.Units(paid - sum +
			FeeAtRate(VirtualSize(d.weight), d.rate))}
	}
	d.remaining = sum - paid
	return d, nil
}

// toTx returns the transaction with its fee and its change.
func (d draft) toTx(n chain.Network, l SlotKey, fee, change uint64) (Tx, error) {
	t := Tx{
		Network: n, SlotKey: SlotKey{slices.Clone(l.Inputs), l.Change}, Payees: d.payees,
		ChangeAmount: money.Units(change),
	}
	c, err := t.validate()
	if err != nil {
		return Tx{}, err
	}
	if w := c.totalWeight(); w > weightMax {
		return Tx{}, fmt.Errorf("it weighs %d, and the network does not relay more than %d", w, weightMax)
	} else if minimum := FeeAtRate(VirtualSize(w), d.rate); fee < minimum {
		return Tx{}, fmt.Errorf("it costs %d satoshi at that rate, and the fees allow %d", minimum, fee)
	}
	return t, nil
}

// Payload encodes the whole transaction, and what the network does not see.
func (t Tx) Payload() ([]byte, error) {
	c, err := t.validate()
	if err != nil {
		return nil, err
	}
	b := append(slices.Clone(payloadMagic), byte(slices.Index(payloadNetworks, t.Network)))
	b = binary.LittleEndian.AppendUint32(b, txVersion)
	b = binary.LittleEndian.AppendUint32(b, rbfSequence)
	b = binary.LittleEndian.AppendUint32(b, lockTime)
	script := func(s []byte) { b = append(append(b, byte(len(s))), s...) }
	script(c.change.toScript())
	b = append(b, byte(len(c.inputs)))
	for i, d := range c.inputs {
		coin := t.SlotKey.Inputs[i]
		point, err := readOutpoint(coin.Outpoint)
		if err != nil {
			return nil, err
		}
		amount, _ := coin.Amount.Uint64()
		b = binary.LittleEndian.AppendUint32(append(b, point.tx[:]...), point.n)
		b = binary.LittleEndian.AppendUint64(b, amount)
		script(d.toScript())
	}
	b = append(b, byte(len(c.outputs)))
	for _, out := range c.outputs {
		b = binary.LittleEndian.AppendUint64(b, uint64(out.Value))
		script(out.PkScript)
	}
	return b, nil
}

// PayloadBytesMax is above the payload of any transaction.
const PayloadBytesMax = 64 + InputsMax*(chainhash.HashSize+4+8+1+34) + (PayeesMax+1)*(8+1+34)

// Decode decodes a payload. Every payload that it accepts is exactly what Payload writes for the
// result; anything else is an error.
func Decode(payload []byte) (Tx, error) {
	if len(payload) > PayloadBytesMax {
		return Tx{}, fmt.Errorf("transaction has %d bytes, more than the service makes", len(payload))
	}
	r := &reader{b: payload}
	if string(r.takeBytes(len(payloadMagic))) != string(payloadMagic) {
		return Tx{}, errors.New("not a transaction of Bitcoin")
	}
	network := int(r.takeByte())
	if network >= len(payloadNetworks) {
		return Tx{}, fmt.Errorf("transaction is of the unknown network %d", network)
	}
	t := Tx{Network: payloadNetworks[network]}
	params, err := Params(t.Network)
	if err != nil {
		return Tx{}, err
	}
	version, sequence, lock := r.takeUint32(), r.takeUint32(), r.takeUint32()
	if version != txVersion || sequence != rbfSequence || lock != lockTime {
		return Tx{}, fmt.Errorf("transaction has version %d, sequence %#x and lock time %d, not those of the service",
			version, sequence, lock)
	}
	address := func() chain.Address {
		s := r.takeBytes(int(r.takeByte()))
		a, ok := AddressOf(params, s)
		if !ok {
			r.fail(fmt.Errorf("script %x has no address", s))
		}
		return a
	}
	t.SlotKey.Change = address()
	for range r.takeByte() {
		point := outpoint{chainhash.Hash(r.takeBytes(chainhash.HashSize)), r.takeUint32()}
		c := chain.Output{Outpoint: point.String(), Amount: money.Units(r.takeUint64())}
		if c.Owner = address(); r.err != nil {
			break
		}
		t.SlotKey.Inputs = append(t.SlotKey.Inputs, c)
	}
	outs := int(r.takeByte())
	for i := range outs {
		amount := money.Units(r.takeUint64())
		to := address()
		if r.err != nil {
			break
		}
		if i == outs-1 && to == t.SlotKey.Change {
			t.ChangeAmount = amount
			break
		}
		t.Payees = append(t.Payees, Payee{to, amount})
	}
	if r.err != nil {
		return Tx{}, r.err
	}
	encoded, err := t.Payload()
	if err != nil {
		return Tx{}, err
	}
	if !bytes.Equal(encoded, payload) {
		return Tx{}, errors.New("transaction is not in the one form that the service makes")
	}
	return t, nil
}

// Unsigned returns the transaction as the network has it, without its signatures, and the outputs
// that it spends, in order.
func (t Tx) Unsigned() (*wire.MsgTx, []wire.TxOut, error) {
	c, err := t.validate()
	if err != nil {
		return nil, nil, err
	}
	tx := wire.NewMsgTx(txVersion)
	tx.LockTime = lockTime
	spent := make([]wire.TxOut, len(c.inputs))
	for i, coin := range t.SlotKey.Inputs {
		point, err := readOutpoint(coin.Outpoint)
		if err != nil {
			return nil, nil, err
		}
		input := wire.NewTxIn(wire.NewOutPoint(&point.tx, point.n), nil, nil)
		input.Sequence = rbfSequence
		tx.AddTxIn(input)
		amount, _ := coin.Amount.Uint64()
		spent[i] = wire.TxOut{Value: int64(amount), PkScript: c.inputs[i].toScript()}
	}
	for i := range c.outputs {
		tx.AddTxOut(&c.outputs[i])
	}
	return tx, spent, nil
}

// CheckPayments returns nil if a transaction makes exactly these payments, in order, and otherwise
// what differs. It does not check who pays: see SlotKey.
func (t Tx) CheckPayments(ps []chain.Payment) error {
	if len(ps) == 0 || len(t.Payees) != len(ps) {
		return fmt.Errorf("it pays %d payees, not %d", len(t.Payees), len(ps))
	}
	for i, p := range ps {
		if o := t.Payees[i]; o.To != p.To || o.Amount != p.Amount || p.Contract != "" {
			return fmt.Errorf("it pays %v to %s, and %v of %q to %s is due", o.Amount, o.To, p.Amount, p.Contract,
				p.To)
		}
	}
	return nil
}

// CheckCancel returns nil if a transaction returns all that it spends except the fee, and otherwise
// what else it does.
func (t Tx) CheckCancel() error {
	if len(t.Payees) != 0 {
		return fmt.Errorf("it pays %d payees", len(t.Payees))
	}
	return nil
}

// reader reads bytes; past the end it returns zeros and sets an error.
type reader struct {
	b   []byte
	err error
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *reader) takeBytes(n int) []byte {
	if n > len(r.b) {
		r.fail(errors.New("transaction ends too early"))
		r.b = nil
		return make([]byte, n)
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) takeByte() byte     { return r.takeBytes(1)[0] }
func (r *reader) takeUint32() uint32 { return binary.LittleEndian.Uint32(r.takeBytes(4)) }
func (r *reader) takeUint64() uint64 { return binary.LittleEndian.Uint64(r.takeBytes(8)) }
