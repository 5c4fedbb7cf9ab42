package solana

import (
	"bytes"
	"errors"
	"math/bits"
	"slices"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
)

// movements turns transactions into transfers and fees.
//
// What moved is read off balances, so it does not matter which program moved it, how
// deep, or what was said about it; what a token withheld on the way is not counted.
//
// Tokens. An owner receives as much as all of their accounts of a mint, which the
// transaction names, hold more after it. It is told for each account that rose, in
// their order, and only as far as other accounts of the same owner did not fall: who
// moves between their own accounts receives nothing. An account that changes hands is
// a fall of who had it and a rise of who has it now. The sender is the one owner who
// has less of the mint. Several give "", and so does none: what was minted comes from
// nobody, and what was burnt or closed away goes nowhere and is no transfer.
//
// Fees. What the payer is charged, and the rent of token accounts that the transaction
// makes, as far as it is the payer who has less for it: it goes to nobody who is told as
// a receiver, and is gone for who paid it.
//
// Lamports. An account receives what it holds more, except accounts for tokens: what
// they hold is their rent, or SOL that is wrapped and told as a token. The fee is not
// a fall of its payer. A token account that falls, as one that is closed, is a fall of
// its owner: so rent that returns is a transfer from the token account's owner to
// whoever gets it, which may be the same; it says that it is nothing that anybody had on
// an address (Freed). The sender is the one who has less, wallet
// and token accounts together; when nobody has, the one owner among those that fell.
type movements struct {
	names     names
	transfers []chain.Transfer
	fees      []chain.Fee
	payers    map[string]int // where in fees

	sides []side // of one transaction, used again

	// several are all who sent what has no one sender, where somebody wants to know.
	several map[where][]chain.Address
}

// where is what names a movement in a block.
type where struct {
	tx       chain.TxHash
	kind     chain.Kind
	position string
}

func whereIs(t chain.Transfer) where { return where{t.Tx, t.Kind, t.Position} }

// losers are all who have less, of a mint or of lamports, sorted.
func (m *movements) losers(mint []byte) (all []chain.Address) {
	for i := range m.sides {
		if s := &m.sides[i]; bytes.Equal(s.mint, mint) && s.less > s.more {
			all = append(all, chain.Address(m.names.of(s.who)))
		}
	}
	slices.Sort(all)
	return all
}

// A side is what somebody has more and less after a transaction, of one mint or of
// lamports.
type side struct {
	who, mint  []byte
	more, less uint64
	told       uint64 // of what is more, in transfers
}

func newMovements() *movements {
	return &movements{names: names{}, payers: map[string]int{}}
}

var errTooMuch = errors.New("somebody has more than there can be")

func (m *movements) see(t *tx) error {
	if err := m.charge(t); err != nil {
		return err
	}
	if t.failed {
		return nil
	}
	if err := m.lamports(t); err != nil {
		return err
	}
	return m.tokens(t)
}

func (m *movements) charge(t *tx) error {
	if t.paid == 0 {
		return nil
	}
	payer := m.names.of(t.accounts[0])
	at, ok := m.payers[payer]
	if !ok {
		at = len(m.fees)
		m.payers[payer] = at
		m.fees = append(m.fees, chain.Fee{Payer: chain.Address(payer)})
	}
	cost, err := money.Units(t.paid).Add(t.rent())
	if err == nil {
		m.fees[at].Amount, err = m.fees[at].Amount.Add(cost)
	}
	return err
}

// side finds what is counted of somebody.
func (m *movements) side(who, mint []byte) *side {
	for i := range m.sides {
		if s := &m.sides[i]; bytes.Equal(s.who, who) && bytes.Equal(s.mint, mint) {
			return s
		}
	}
	m.sides = append(m.sides, side{who: who, mint: mint})
	return &m.sides[len(m.sides)-1]
}

func (s *side) add(more, less uint64) error {
	var a, b uint64
	s.more, a = bits.Add64(s.more, more, 0)
	s.less, b = bits.Add64(s.less, less, 0)
	if a+b != 0 {
		return errTooMuch
	}
	return nil
}

// from is the one who has less, of a mint or of lamports. When nobody has less lamports
// it is the only one of whose accounts any fell. It is nil when nobody can be named.
func (m *movements) from(mint []byte) []byte {
	var less, fell []byte
	lesses, falls := 0, 0
	for i := range m.sides {
		s := &m.sides[i]
		if !bytes.Equal(s.mint, mint) {
			continue
		}
		if s.less > s.more {
			less = s.who
			lesses++
		}
		if s.less > 0 {
			fell = s.who
			falls++
		}
	}
	switch {
	case lesses == 1:
		return less
	case lesses == 0 && falls == 1 && mint == nil:
		return fell
	}
	return nil
}

func (m *movements) transfer(t *tx, kind chain.Kind, account, mint, to, from []byte, units uint64) {
	m.transfers = append(m.transfers, chain.Transfer{
		Tx: chain.TxHash(m.names.of(t.signature)), Kind: kind, Position: m.names.of(account),
		Contract: chain.Address(m.names.of(mint)), From: chain.Address(m.names.of(from)), To: chain.Address(m.names.of(to)),
		Amount: money.Units(units),
	})
	if from == nil && m.several != nil {
		m.several[whereIs(m.transfers[len(m.transfers)-1])] = m.losers(mint)
	}
}

// rise is how much more an account holds, beside the fee; fall is how much less.
func (t *tx) rise(i int) (rise, fall uint64) {
	before, after := t.pre[i], t.post[i]
	if i == 0 {
		before -= t.paid
	}
	if after > before {
		return after - before, 0
	}
	return 0, before - after
}

func (m *movements) lamports(t *tx) error {
	rises := false
	for i := range t.accounts {
		if rise, _ := t.rise(i); rise > 0 && !t.isToken[i] {
			rises = true
			break
		}
	}
	if !rises {
		return nil
	}
	m.sides = m.sides[:0]
	for i, a := range t.accounts {
		rise, fall := t.rise(i)
		if rise == 0 && fall == 0 {
			continue
		}
		if err := m.side(t.holder(i, a), nil).add(rise, fall); err != nil {
			return err
		}
	}
	from, freed := m.from(nil), t.frees()
	for i, a := range t.accounts {
		if rise, _ := t.rise(i); rise > 0 && !t.isToken[i] {
			m.transfer(t, chain.Native, a, nil, a, from, rise)
			m.transfers[len(m.transfers)-1].Freed = freed
		}
	}
	return nil
}

// frees tells whether the only accounts that hold less are those for tokens.
func (t *tx) frees() bool {
	for i := range t.accounts {
		if _, fall := t.rise(i); fall > 0 && !t.isToken[i] {
			return false
		}
	}
	return true
}

// holder is whose lamports those of an account are: a token account's are its owner's.
func (t *tx) holder(i int, account []byte) []byte {
	if !t.isToken[i] {
		return account
	}
	for _, list := range [2][]holding{t.postTokens, t.preTokens} {
		for j := range list {
			if list[j].account == i {
				return list[j].owner
			}
		}
	}
	return account
}

func (m *movements) tokens(t *tx) error {
	m.sides = m.sides[:0]
	rises := false
	for i := range t.postTokens {
		h := &t.postTokens[i]
		before := t.before(h.account, h.mint, h.owner)
		if h.units > before {
			rises = true
			if err := m.side(h.owner, h.mint).add(h.units-before, 0); err != nil {
				return err
			}
		}
	}
	if !rises {
		return nil
	}
	for i := range t.preTokens {
		h := &t.preTokens[i]
		after := t.after(h.account, h.mint, h.owner)
		if h.units > after {
			if err := m.side(h.owner, h.mint).add(0, h.units-after); err != nil {
				return err
			}
		}
	}
	for i := range t.postTokens {
		h := &t.postTokens[i]
		before := t.before(h.account, h.mint, h.owner)
		if h.units <= before {
			continue
		}
		s := m.side(h.owner, h.mint)
		if s.more <= s.less || s.told == s.more-s.less {
			continue
		}
		units := min(h.units-before, s.more-s.less-s.told)
		s.told += units
		m.transfer(t, chain.Token, t.accounts[h.account], h.mint, h.owner, m.from(h.mint), units)
	}
	return nil
}
