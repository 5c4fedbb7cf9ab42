package bitcointx

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/btcsuite/btcd/chainhash/v2"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
)

const (
	// satoshiSupply is the number of satoshi that can ever exist.
	satoshiSupply = 21_000_000 * 1_0000_0000
	// InputsMax is how many outputs one transaction of Coffer spends. The network would relay seven
	// times as many. A slot key names each of them with its owner, and is stored, journaled and
	// sent to the signer with every replacement.
	InputsMax = 200
	// PayeesMax is how many payees one transaction has, in addition to its change.
	PayeesMax = 100
)

// outpoint identifies an output permanently.
type outpoint struct {
	tx chainhash.Hash
	n  uint32
}

// String returns the usual text form: the transaction, a colon, the number.
func (o outpoint) String() string { return fmt.Sprintf("%s:%d", o.tx, o.n) }

// readOutpoint decodes what String writes and nothing else.
func readOutpoint(s string) (outpoint, error) {
	tx, number, _ := strings.Cut(s, ":")
	hash, err := chainhash.NewHashFromStr(tx)
	n, err2 := strconv.ParseUint(number, 10, 32)
	if err != nil || err2 != nil || len(tx) != chainhash.MaxHashStringSize {
		return outpoint{}, fmt.Errorf("%.100q names no output", s)
	}
	o := outpoint{*hash, uint32(n)}
	if o.String() != s {
		return outpoint{}, fmt.Errorf("%.100q is not in the one form of output names", s)
	}
	return o, nil
}

// FormatOutpoint returns the text of an outpoint.
func FormatOutpoint(tx chain.TxHash, n uint32) string { return fmt.Sprintf("%s:%d", tx, n) }

// ParseOutpoint decodes what FormatOutpoint writes and nothing else.
func ParseOutpoint(s string) (tx chain.TxHash, n uint32, err error) {
	o, err := readOutpoint(s)
	return chain.TxHash(o.tx.String()), o.n, err
}

// compareTo orders outputs by the text of the transaction, then by their number.
func (o outpoint) compareTo(p outpoint) int {
	for i := range o.tx {
		// The text of a hash begins with its last byte.
		if c := cmp.Compare(o.tx[len(o.tx)-1-i], p.tx[len(p.tx)-1-i]); c != 0 {
			return c
		}
	}
	return cmp.Compare(o.n, p.n)
}

// SlotKey is the slot of a transaction: all its inputs, and the address of its change. A
// replacement in its slot has the same inputs and pays other fees out of the change. The key
// contains the amounts because a native SegWit signature shows only one amount. With two payloads
// of a slot that state different amounts, an attacker could have a fee signed that neither of them
// shows.
type SlotKey struct {
	Inputs []chain.Output // ordered by their outpoints
	Change chain.Address
}

// NewSlotKey returns the slot key of outputs, in any order. Error: no slot key can have these.
func NewSlotKey(n chain.Network, coins []chain.Output, change chain.Address) (SlotKey, error) {
	type placed struct {
		chain.Output
		at outpoint
	}
	ordered := make([]placed, len(coins))
	for i, c := range coins {
		point, err := readOutpoint(c.Outpoint)
		if err != nil {
			return SlotKey{}, err
		}
		ordered[i] = placed{c, point}
	}
	slices.SortFunc(ordered, func(a, b placed) int { return a.at.compareTo(b.at) })
	l := SlotKey{Change: change}
	for _, c := range ordered {
		l.Inputs = append(l.Inputs, c.Output)
	}
	return l, l.validate(n)
}

// validate checks the rules of every slot key that is made or decoded here.
func (l SlotKey) validate(n chain.Network) error {
	if len(l.Inputs) == 0 {
		return errors.New("a slot key has no output")
	}
	if len(l.Inputs) > InputsMax {
		return fmt.Errorf("a slot key has %d outputs, and a transaction spends at most %d", len(l.Inputs),
			InputsMax)
	}
	if _, err := parseSpendable(n, l.Change); err != nil {
		return fmt.Errorf("change: %w", err)
	}
	var sum uint64
	var previous outpoint
	for i, c := range l.Inputs {
		point, err := readOutpoint(c.Outpoint)
		if err != nil {
			return err
		}
		if i > 0 && previous.compareTo(point) >= 0 {
			return fmt.Errorf("output %s does not follow the one before it", c.Outpoint)
		}
		previous = point
		amount, ok := c.Amount.Uint64()
		if !ok || amount == 0 || amount > satoshiSupply-sum {
			return fmt.Errorf("output %s has %v satoshi", c.Outpoint, c.Amount)
		}
		sum += amount
		if _, err := parseSpendable(n, c.Owner); err != nil {
			return fmt.Errorf("owner of %s: %w", c.Outpoint, err)
		}
	}
	return nil
}

// parseSpendable decodes an address from which one of Coffer's keys can spend.
func parseSpendable(n chain.Network, a chain.Address) (destination, error) {
	d, err := destinationOf(n, a)
	if err == nil && d.form != p2wpkh && d.form != p2tr {
		err = fmt.Errorf("address %s is neither native SegWit of a key nor taproot", a)
	}
	return d, err
}

// Sum returns what the inputs hold, in satoshi.
func (l SlotKey) Sum() money.Amount { return money.Units(l.inputSum()) }

func (l SlotKey) inputSum() (sum uint64) {
	for _, c := range l.Inputs {
		n, _ := c.Amount.Uint64()
		sum += n
	}
	return sum
}

// String returns the one text of the slot key, as a slot has it: every input, and the address of
// the change, with a space between them.
func (l SlotKey) String() string {
	var b strings.Builder
	for _, c := range l.Inputs {
		fmt.Fprintf(&b, "%s:%v:%s ", c.Outpoint, c.Amount, c.Owner)
	}
	return b.String() + string(l.Change)
}

// slotKeyBytesMax is above the length of any slot key.
const slotKeyBytesMax = InputsMax*(chainhash.MaxHashStringSize+addressBytesMax+40) + addressBytesMax

// ParseSlotKey decodes what String writes and nothing else: one set of inputs has one text.
func ParseSlotKey(n chain.Network, text string) (SlotKey, error) {
	if len(text) > slotKeyBytesMax {
		return SlotKey{}, fmt.Errorf("a slot key of %d bytes is too long", len(text))
	}
	words := strings.Split(text, " ")
	l := SlotKey{Change: chain.Address(words[len(words)-1])}
	for _, w := range words[:len(words)-1] {
		parts := strings.Split(w, ":")
		if len(parts) != 4 {
			return SlotKey{}, fmt.Errorf("%.200q is not an output of a slot key", w)
		}
		amount, err := money.Parse(parts[2])
		if err != nil {
			return SlotKey{}, fmt.Errorf("amount of %.100q: %w", w, err)
		}
		l.Inputs = append(l.Inputs, chain.Output{
			Outpoint: parts[0] + ":" + parts[1], Owner: chain.Address(parts[3]),
			Amount: amount,
		})
	}
	if err := l.validate(n); err != nil {
		return SlotKey{}, err
	}
	if l.String() != text {
		return SlotKey{}, errors.New("a slot key is not in its one form")
	}
	return l, nil
}
