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
	// supply is all the satoshi that there will ever be.
	supply = 21_000_000 * 1_0000_0000
	// InputsMax is how many coins one transaction of ours spends. The network would pass
	// on seven times as many; a slot names each of them with its holder, and is stored,
	// journaled and sent to the signer with every replacement.
	InputsMax = 200
	// PaysMax is how many payees one transaction of ours has, beside its change.
	PaysMax = 100
)

// Outpoint names an output for ever.
type Outpoint struct {
	Tx chain.TxHash
	N  uint32
}

// String is the name as people write it: the transaction, a colon, the number.
func (o Outpoint) String() string { return fmt.Sprintf("%s:%d", o.Tx, o.N) }

// ParseOutpoint reads what String writes and nothing else.
func ParseOutpoint(s string) (Outpoint, error) {
	tx, number, _ := strings.Cut(s, ":")
	n, err := strconv.ParseUint(number, 10, 32)
	o := Outpoint{chain.TxHash(tx), uint32(n)}
	if err != nil || o.String() != s {
		return Outpoint{}, fmt.Errorf("%.100q names no output", s)
	}
	_, err = o.hash()
	return o, err
}

// hash is the transaction as its bytes.
func (o Outpoint) hash() (chainhash.Hash, error) {
	h, err := chainhash.NewHashFromStr(string(o.Tx))
	if err != nil || h.String() != string(o.Tx) {
		return chainhash.Hash{}, fmt.Errorf("%.100q is not the hash of a transaction", string(o.Tx))
	}
	return *h, nil
}

func (o Outpoint) compare(p Outpoint) int {
	return cmp.Or(cmp.Compare(o.Tx, p.Tx), cmp.Compare(o.N, p.N))
}

// Coin is an output of ours that can be spent.
type Coin struct {
	Outpoint
	Amount money.Amount  // satoshi
	Holder chain.Address // whose key spends it: native SegWit or taproot
}

// Lease is the slot of a transaction: all that it spends, and where the rest comes back
// to. Whatever replaces it in its slot spends the same coins and pays other fees out of
// the rest. The amounts stand in it because a signature of native SegWit shows one
// amount alone: who could sign two payloads of a slot with different ones could have a
// fee signed that neither of them shows.
type Lease struct {
	Coins  []Coin // by their outpoints, in order
	Change chain.Address
}

// NewLease is the lease of coins, in any order. Error: there is none of these.
func NewLease(n chain.Network, coins []Coin, change chain.Address) (Lease, error) {
	l := Lease{slices.Clone(coins), change}
	slices.SortFunc(l.Coins, func(a, b Coin) int { return a.compare(b.Outpoint) })
	return l, l.check(n)
}

// check holds for every lease that is made or read here.
func (l Lease) check(n chain.Network) error {
	if len(l.Coins) == 0 {
		return errors.New("a lease has no coin")
	}
	if len(l.Coins) > InputsMax {
		return fmt.Errorf("a lease has %d coins, and no transaction of ours spends more than %d", len(l.Coins), InputsMax)
	}
	if _, err := spendable(n, l.Change); err != nil {
		return fmt.Errorf("change: %w", err)
	}
	var sum uint64
	for i, c := range l.Coins {
		if _, err := c.hash(); err != nil {
			return err
		}
		if i > 0 && l.Coins[i-1].compare(c.Outpoint) >= 0 {
			return fmt.Errorf("output %s is not behind the one before it", c.Outpoint)
		}
		amount, ok := c.Amount.Uint64()
		if !ok || amount == 0 || amount > supply-sum {
			return fmt.Errorf("output %s has %v satoshi", c.Outpoint, c.Amount)
		}
		sum += amount
		if _, err := spendable(n, c.Holder); err != nil {
			return fmt.Errorf("holder of %s: %w", c.Outpoint, err)
		}
	}
	return nil
}

// spendable reads an address that a key of ours can spend from.
func spendable(n chain.Network, a chain.Address) (destination, error) {
	d, err := destinationOf(n, a)
	if err == nil && d.form != p2wpkh && d.form != p2tr {
		err = fmt.Errorf("address %s is neither native SegWit of a key nor taproot", a)
	}
	return d, err
}

// Sum is what the coins hold, in satoshi.
func (l Lease) Sum() money.Amount { return money.Units(l.sum()) }

func (l Lease) sum() (sum uint64) {
	for _, c := range l.Coins {
		n, _ := c.Amount.Uint64()
		sum += n
	}
	return sum
}

// String is the one text of the lease, as a slot has it: every coin, and the address of
// the change, with a space between them.
func (l Lease) String() string {
	var b strings.Builder
	for _, c := range l.Coins {
		fmt.Fprintf(&b, "%s:%d:%v:%s ", c.Tx, c.N, c.Amount, c.Holder)
	}
	return b.String() + string(l.Change)
}

// leaseBytesMax is above the text of any lease.
const leaseBytesMax = InputsMax*(chainhash.MaxHashStringSize+addressBytesMax+40) + addressBytesMax

// ParseLease reads what String writes and nothing else: of one set of coins there is one
// text.
func ParseLease(n chain.Network, text string) (Lease, error) {
	if len(text) > leaseBytesMax {
		return Lease{}, fmt.Errorf("a lease of %d bytes is longer than any", len(text))
	}
	words := strings.Split(text, " ")
	l := Lease{Change: chain.Address(words[len(words)-1])}
	for _, w := range words[:len(words)-1] {
		parts := strings.Split(w, ":")
		if len(parts) != 4 {
			return Lease{}, fmt.Errorf("%.200q is no coin of a lease", w)
		}
		out, err := ParseOutpoint(parts[0] + ":" + parts[1])
		if err != nil {
			return Lease{}, err
		}
		amount, err := money.Parse(parts[2])
		if err != nil {
			return Lease{}, fmt.Errorf("amount of %s: %w", out, err)
		}
		l.Coins = append(l.Coins, Coin{out, amount, chain.Address(parts[3])})
	}
	if err := l.check(n); err != nil {
		return Lease{}, err
	}
	if l.String() != text {
		return Lease{}, errors.New("a lease is not in its one form")
	}
	return l, nil
}
