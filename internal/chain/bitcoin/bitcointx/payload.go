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
	// replaceable is the sequence number that lets a dearer transaction of the same coins
	// replace this one while it waits (BIP-125), and asks for no age of the coins.
	replaceable = 0xffff_fffd
	lockTime    = 0 // any block may have it
)

// payloadMagic begins every payload.
var payloadMagic = []byte("cfbt\x01")

// networksByte are the networks by their byte in a payload.
var networksByte = []chain.Network{chain.Mainnet, chain.Testnet, chain.Local}

// Output is what a payee gets.
type Output struct {
	To     chain.Address
	Amount money.Amount // satoshi
}

// Tx is an unsigned transaction of ours. Its payload says more than the network sees:
// what each coin holds and who holds it, and where the change goes even where there is
// none, so that the whole lease is in it.
type Tx struct {
	Network chain.Network
	Lease   Lease
	Pays    []Output     // in this order; none is a cancel
	Rest    money.Amount // what comes back to Lease.Change, behind the payees; zero where it would be dust
}

// checked is a transaction in numbers and scripts.
type checked struct {
	ins  []destination
	back destination
	outs []wire.TxOut
	fee  uint64
}

// check holds for every transaction that is written or read here.
func (t Tx) check() (checked, error) {
	var c checked
	fail := func(format string, args ...any) (checked, error) { return checked{}, fmt.Errorf(format, args...) }
	if err := t.Lease.check(t.Network); err != nil {
		return checked{}, err
	}
	for _, coin := range t.Lease.Coins {
		d, err := spendable(t.Network, coin.Holder)
		if err != nil {
			return checked{}, err
		}
		c.ins = append(c.ins, d)
	}
	var err error
	if c.back, err = spendable(t.Network, t.Lease.Change); err != nil {
		return checked{}, err
	}
	if len(t.Pays) > PaysMax {
		return fail("%d payees, and no transaction of ours has more than %d", len(t.Pays), PaysMax)
	}
	left := t.Lease.sum()
	pay := func(script []byte, amount money.Amount) error {
		n, ok := amount.Uint64()
		if least, _ := Dust(script).Uint64(); !ok || n < least {
			return fmt.Errorf("%v satoshi, and below %d the network does not pass it on", amount, least)
		}
		if n > left {
			return fmt.Errorf("the coins lack %d satoshi for it", n-left)
		}
		left -= n
		c.outs = append(c.outs, wire.TxOut{Value: int64(n), PkScript: script})
		return nil
	}
	for i, p := range t.Pays {
		d, err := destinationOf(t.Network, p.To)
		if err == nil && p.To == t.Lease.Change {
			err = errors.New("it pays the address of the change")
		}
		if err == nil {
			err = pay(d.script(), p.Amount)
		}
		if err != nil {
			return fail("payment %d: %w", i, err)
		}
	}
	if !t.Rest.IsZero() {
		if err := pay(c.back.script(), t.Rest); err != nil {
			return fail("change: %w", err)
		}
	}
	if len(c.outs) == 0 {
		return fail("a transaction without outputs")
	}
	if left == 0 {
		return fail("a transaction without a fee")
	}
	c.fee = left
	return c, nil
}

// Fee is what the coins hold beyond what the transaction pays, in satoshi: what it costs,
// whichever of its outputs is ours. Zero where it is none of ours.
func (t Tx) Fee() money.Amount {
	c, err := t.check()
	if err != nil {
		return money.Zero
	}
	return money.Units(c.fee)
}

// Weights are what a transaction has by BIP-141: four for a byte, one for a byte of the
// witnesses.
const (
	bytesWeight = 4
	// Version, lock time, marker and flag, and two counts of one byte: those of inputs and
	// outputs. InputsMax and PaysMax keep them so.
	emptyWeight = bytesWeight*(4+4+1+1) + 2
	// An input names an output, has an empty script and a sequence number. The signature
	// of ECDSA has its longest form and the key beside it.
	inputWeight   = bytesWeight * (32 + 4 + 1 + 4)
	keyWeight     = inputWeight + 1 + 1 + 72 + 1 + KeyBytes
	taprootWeight = inputWeight + 1 + 1 + 64

	weightMax = 400_000 // of what nodes pass on
)

func (d destination) spendWeight() int {
	if d.form == p2tr {
		return taprootWeight
	}
	return keyWeight
}

func outputWeight(script []byte) int { return bytesWeight * (valueBytes + 1 + len(script)) }

// SpendWeight is what spending a coin of a holder adds to the weight of a transaction.
func SpendWeight(n chain.Network, holder chain.Address) (int, error) {
	d, err := spendable(n, holder)
	if err != nil {
		return 0, err
	}
	return d.spendWeight(), nil
}

// PayWeight is what paying an address adds to the weight of a transaction.
func PayWeight(n chain.Network, to chain.Address) (int, error) {
	script, err := Script(n, to)
	return outputWeight(script), err
}

// EmptyWeight is what a transaction weighs without inputs and outputs.
const EmptyWeight = emptyWeight

// Size is virtual bytes of a weight: a quarter, rounded up.
func Size(weight int) uint64 { return uint64(weight+bytesWeight-1) / bytesWeight }

func (c checked) weight() int {
	w := emptyWeight
	for _, d := range c.ins {
		w += d.spendWeight()
	}
	for _, out := range c.outs {
		w += outputWeight(out.PkScript)
	}
	return w
}

// Size is what the transaction has with its signatures in their longest form, in virtual
// bytes: the network's own count is never higher. Zero where it is no transaction of ours.
func (t Tx) Size() uint64 {
	c, err := t.check()
	if err != nil {
		return 0
	}
	return Size(c.weight())
}

// kilo is how many virtual bytes a rate is for.
const kilo = 1000

// RateMax is above every rate that is no mistake, in satoshi for a thousand virtual bytes:
// nodes refuse what they are asked to send at more.
const RateMax = 10_000_000

// FeeOf is what so many virtual bytes cost at a rate of satoshi for a thousand, rounded
// up, so that the rate is never missed.
func FeeOf(size, rate uint64) uint64 { return (size*rate + kilo - 1) / kilo }

// Build is the transaction of payments in a slot: payees in order, and what the fee
// leaves comes back as change. Without payments it is a cancel, and all comes back.
//
// Of the fees Beside is what the transaction costs, to the satoshi, and TipCap the rate
// that it has to come to, in satoshi for a thousand virtual bytes. So what replaces a
// transaction of the slot for more costs just so much more, whatever its own size: that
// is what nodes ask. Errors: *chain.ShortError, where what is left is neither nothing nor
// worth being change; a payment of dust; fees below their own rate.
func Build(n chain.Network, l Lease, ps []chain.Payment, f chain.Fees) (Tx, error) {
	d, err := draftOf(n, l, ps, f)
	if err != nil {
		return Tx{}, err
	}
	fee, ok := f.Beside.Uint64()
	if !ok || fee > supply {
		return Tx{}, fmt.Errorf("a fee of %v satoshi is more than there are", f.Beside)
	}
	if d.left == fee && len(ps) > 0 {
		return d.tx(n, l, fee, 0)
	}
	if d.left < fee+d.dust {
		return Tx{}, &chain.ShortError{By: money.Units(fee + d.dust - d.left)}
	}
	return d.tx(n, l, fee, d.left-fee)
}

// Fit is what fees become for the transaction of a slot: the same rate, its own size and
// what it costs at that. What would be dust as change is part of that. Errors: those of
// Build.
func Fit(n chain.Network, l Lease, ps []chain.Payment, f chain.Fees) (chain.Fees, error) {
	d, err := draftOf(n, l, ps, f)
	if err != nil {
		return chain.Fees{}, err
	}
	fee := FeeOf(Size(d.weight+d.change), d.rate)
	if d.left < fee+d.dust {
		without := FeeOf(Size(d.weight), d.rate)
		switch {
		case len(ps) == 0:
			return chain.Fees{}, &chain.ShortError{By: money.Units(fee + d.dust - d.left)}
		case d.left < without:
			return chain.Fees{}, &chain.ShortError{By: money.Units(without - d.left)}
		}
		fee = d.left
	}
	fit := chain.Fees{TipCap: f.TipCap, Beside: money.Units(fee)}
	t, err := Build(n, l, ps, fit)
	fit.GasLimit = t.Size()
	return fit, err
}

// A draft is a transaction without its fee and its change.
type draft struct {
	pays   []Output
	left   uint64 // what the coins hold beyond the payments
	rate   uint64
	weight int
	change int    // what the change would weigh
	dust   uint64 // the least that it would have to be
}

func draftOf(n chain.Network, l Lease, ps []chain.Payment, f chain.Fees) (draft, error) {
	d := draft{weight: emptyWeight}
	var ok bool
	d.rate, ok = f.TipCap.Uint64()
	switch {
	case !ok || d.rate == 0 || d.rate > RateMax:
		return d, fmt.Errorf("a rate of %v satoshi for a thousand virtual bytes is not 1 to %d", f.TipCap, RateMax)
	case !f.FeeCap.IsZero():
		return d, fmt.Errorf("a fee cap of %v, and what it costs stands beside it here", f.FeeCap)
	}
	if err := l.check(n); err != nil {
		return d, err
	}
	for _, c := range l.Coins {
		holder, err := spendable(n, c.Holder)
		if err != nil {
			return d, err
		}
		d.weight += holder.spendWeight()
	}
	var paid uint64
	for i, p := range ps {
		amount, ok := p.Amount.Uint64()
		if !ok || amount > supply-paid {
			return d, fmt.Errorf("payment %d: %v satoshi are more than there are", i, p.Amount)
		}
		if p.Contract != "" {
			return d, fmt.Errorf("payment %d: there is no token %.100q", i, string(p.Contract))
		}
		w, err := PayWeight(n, p.To)
		if err != nil {
			return d, fmt.Errorf("payment %d: %w", i, err)
		}
		paid, d.weight = paid+amount, d.weight+w
		d.pays = append(d.pays, Output{p.To, p.Amount})
	}
	back, err := Script(n, l.Change)
	if err != nil {
		return d, err
	}
	d.change = outputWeight(back)
	d.dust, _ = Dust(back).Uint64()
	sum := l.sum()
	if sum < paid {
		return d, &chain.ShortError{By: money.Units(paid - sum + FeeOf(Size(d.weight), d.rate))}
	}
	d.left = sum - paid
	return d, nil
}

// tx is the transaction with its fee, and with what comes back.
func (d draft) tx(n chain.Network, l Lease, fee, rest uint64) (Tx, error) {
	t := Tx{Network: n, Lease: Lease{slices.Clone(l.Coins), l.Change}, Pays: d.pays, Rest: money.Units(rest)}
	c, err := t.check()
	if err != nil {
		return Tx{}, err
	}
	if w := c.weight(); w > weightMax {
		return Tx{}, fmt.Errorf("it weighs %d, and above %d the network does not pass it on", w, weightMax)
	} else if least := FeeOf(Size(w), d.rate); fee < least {
		return Tx{}, fmt.Errorf("it costs %d satoshi at that rate, and the fees allow %d", least, fee)
	}
	return t, nil
}

// Payload encodes the transaction: all of it, and what the network does not see.
func (t Tx) Payload() ([]byte, error) {
	c, err := t.check()
	if err != nil {
		return nil, err
	}
	b := append(slices.Clone(payloadMagic), byte(slices.Index(networksByte, t.Network)))
	b = binary.LittleEndian.AppendUint32(b, txVersion)
	b = binary.LittleEndian.AppendUint32(b, replaceable)
	b = binary.LittleEndian.AppendUint32(b, lockTime)
	script := func(s []byte) { b = append(append(b, byte(len(s))), s...) }
	script(c.back.script())
	b = append(b, byte(len(c.ins)))
	for i, d := range c.ins {
		coin := t.Lease.Coins[i]
		at, err := readOutpoint(coin.Outpoint)
		if err != nil {
			return nil, err
		}
		amount, _ := coin.Amount.Uint64()
		b = binary.LittleEndian.AppendUint32(append(b, at.tx[:]...), at.n)
		b = binary.LittleEndian.AppendUint64(b, amount)
		script(d.script())
	}
	b = append(b, byte(len(c.outs)))
	for _, out := range c.outs {
		b = binary.LittleEndian.AppendUint64(b, uint64(out.Value))
		script(out.PkScript)
	}
	return b, nil
}

// PayloadBytesMax is above the payload of any transaction.
const PayloadBytesMax = 64 + InputsMax*(chainhash.HashSize+4+8+1+34) + (PaysMax+1)*(8+1+34)

// Decode reads a payload. Every payload that it reads is what Payload would write of the
// result; anything unusual is an error.
func Decode(payload []byte) (Tx, error) {
	if len(payload) > PayloadBytesMax {
		return Tx{}, fmt.Errorf("transaction has %d bytes, more than any of ours", len(payload))
	}
	r := &reader{b: payload}
	if string(r.take(len(payloadMagic))) != string(payloadMagic) {
		return Tx{}, errors.New("not a transaction of Bitcoin")
	}
	network := int(r.byte())
	if network >= len(networksByte) {
		return Tx{}, fmt.Errorf("transaction is of network %d, which there is not", network)
	}
	t := Tx{Network: networksByte[network]}
	params, err := Params(t.Network)
	if err != nil {
		return Tx{}, err
	}
	version, sequence, lock := r.uint32(), r.uint32(), r.uint32()
	if version != txVersion || sequence != replaceable || lock != lockTime {
		return Tx{}, fmt.Errorf("transaction has version %d, sequence %#x and lock time %d, not those of ours", version, sequence, lock)
	}
	address := func() chain.Address {
		s := r.take(int(r.byte()))
		a, ok := AddressOf(params, s)
		if !ok {
			r.fail(fmt.Errorf("script %x has no address", s))
		}
		return a
	}
	t.Lease.Change = address()
	for range r.byte() {
		at := outpoint{chainhash.Hash(r.take(chainhash.HashSize)), r.uint32()}
		c := chain.Coin{Outpoint: at.String(), Amount: money.Units(r.uint64())}
		if c.Holder = address(); r.err != nil {
			break
		}
		t.Lease.Coins = append(t.Lease.Coins, c)
	}
	outs := int(r.byte())
	for i := range outs {
		amount := money.Units(r.uint64())
		to := address()
		if r.err != nil {
			break
		}
		if i == outs-1 && to == t.Lease.Change {
			t.Rest = amount
			break
		}
		t.Pays = append(t.Pays, Output{to, amount})
	}
	if r.err != nil {
		return Tx{}, r.err
	}
	again, err := t.Payload()
	if err != nil {
		return Tx{}, err
	}
	if !bytes.Equal(again, payload) {
		return Tx{}, errors.New("transaction is not in the one form that ours have")
	}
	return t, nil
}

// Unsigned is the transaction as the network has it, without its signatures, and what it
// spends, in order.
func (t Tx) Unsigned() (*wire.MsgTx, []wire.TxOut, error) {
	c, err := t.check()
	if err != nil {
		return nil, nil, err
	}
	tx := wire.NewMsgTx(txVersion)
	tx.LockTime = lockTime
	spent := make([]wire.TxOut, len(c.ins))
	for i, coin := range t.Lease.Coins {
		at, err := readOutpoint(coin.Outpoint)
		if err != nil {
			return nil, nil, err
		}
		in := wire.NewTxIn(wire.NewOutPoint(&at.tx, at.n), nil, nil)
		in.Sequence = replaceable
		tx.AddTxIn(in)
		amount, _ := coin.Amount.Uint64()
		spent[i] = wire.TxOut{Value: int64(amount), PkScript: c.ins[i].script()}
	}
	for i := range c.outs {
		tx.AddTxOut(&c.outs[i])
	}
	return tx, spent, nil
}

// DoesPay tells whether a transaction makes exactly these payments, in order, or what
// differs. Who pays is not in it: see the lease.
func (t Tx) DoesPay(ps []chain.Payment) error {
	if len(ps) == 0 || len(t.Pays) != len(ps) {
		return fmt.Errorf("it pays %d payees, not %d", len(t.Pays), len(ps))
	}
	for i, p := range ps {
		if o := t.Pays[i]; o.To != p.To || o.Amount != p.Amount || p.Contract != "" {
			return fmt.Errorf("it pays %v to %s where %v of %q to %s is due", o.Amount, o.To, p.Amount, p.Contract, p.To)
		}
	}
	return nil
}

// DoesCancel tells whether a transaction gives all that it spends back, but for the fee,
// or what else it does.
func (t Tx) DoesCancel() error {
	if len(t.Pays) != 0 {
		return fmt.Errorf("it pays %d payees", len(t.Pays))
	}
	return nil
}

// reader takes bytes apart; past the end it gives zeros and an error.
type reader struct {
	b   []byte
	err error
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *reader) take(n int) []byte {
	if n > len(r.b) {
		r.fail(errors.New("transaction ends too early"))
		r.b = nil
		return make([]byte, n)
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) byte() byte     { return r.take(1)[0] }
func (r *reader) uint32() uint32 { return binary.LittleEndian.Uint32(r.take(4)) }
func (r *reader) uint64() uint64 { return binary.LittleEndian.Uint64(r.take(8)) }
