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
	names     internTable
	transfers []chain.Transfer
	fees      []chain.Fee
	payers    map[string]int // where in fees

	changes []ownerChange // of one transaction, used again

	// multiSenders are all who sent what has no one sender, where somebody wants to know.
	multiSenders map[movementKey][]chain.Address
}

// movementKey is what names a movement in a block.
type movementKey struct {
	tx       chain.TxHash
	kind     chain.Kind
	position string
}

func movementKeyOf(t chain.Transfer) movementKey { return movementKey{t.Tx, t.Kind, t.Position} }

// losingOwners are all who have less, of a mint or of lamports, sorted.
func (m *movements) losingOwners(mint []byte) (owners []chain.Address) {
	for i := range m.changes {
		if s := &m.changes[i]; bytes.Equal(s.mint, mint) && s.lost > s.gained {
			owners = append(owners, chain.Address(m.names.intern(s.owner)))
		}
	}
	slices.Sort(owners)
	return owners
}

// A side is what somebody has more and less after a transaction, of one mint or of
// lamports.
type ownerChange struct {
	owner, mint  []byte
	gained, lost uint64
	reported     uint64 // of what is more, in transfers
}

func newMovements() *movements {
	return &movements{names: internTable{}, payers: map[string]int{}}
}

var errBalanceOverflow = errors.New("somebody has more than there can be")

func (m *movements) addTx(t *tx) error {
	if err := m.addFee(t); err != nil {
		return err
	}
	if t.failed {
		return nil
	}
	if err := m.addLamports(t); err != nil {
		return err
	}
	return m.addTokens(t)
}

func (m *movements) addFee(t *tx) error {
	if t.paid == 0 {
		return nil
	}
	payer := m.names.intern(t.accounts[0])
	index, ok := m.payers[payer]
	if !ok {
		index = len(m.fees)
		m.payers[payer] = index
		m.fees = append(m.fees, chain.Fee{Payer: chain.Address(payer)})
	}
	cost, err := money.Units(t.paid).Add(t.accountRent())
	if err == nil {
		m.fees[index].Amount, err = m.fees[index].Amount.Add(cost)
	}
	return err
}

// changeOf finds what is counted of somebody.
func (m *movements) changeOf(owner, mint []byte) *ownerChange {
	for i := range m.changes {
		if s := &m.changes[i]; bytes.Equal(s.owner, owner) && bytes.Equal(s.mint, mint) {
			return s
		}
	}
	m.changes = append(m.changes, ownerChange{owner: owner, mint: mint})
	return &m.changes[len(m.changes)-1]
}

func (s *ownerChange) addChange(gained, lost uint64) error {
	var a, b uint64
	s.gained, a = bits.Add64(s.gained, gained, 0)
	s.lost, b = bits.Add64(s.lost, lost, 0)
	if a+b != 0 {
		return errBalanceOverflow
	}
	return nil
}

// soleSender is the one who has less, of a mint or of lamports. When nobody has less lamports
// it is the only one of whose accounts any fell. It is nil when nobody can be named.
func (m *movements) soleSender(mint []byte) []byte {
	var loser, fell []byte
	lesses, falls := 0, 0
	for i := range m.changes {
		s := &m.changes[i]
		if !bytes.Equal(s.mint, mint) {
			continue
		}
		if s.lost > s.gained {
			loser = s.owner
			lesses++
		}
		if s.lost > 0 {
			fell = s.owner
			falls++
		}
	}
	switch {
	case lesses == 1:
		return loser
	case lesses == 0 && falls == 1 && mint == nil:
		return fell
	}
	return nil
}

func (m *movements) addTransfer(t *tx, kind chain.Kind, account, mint, to, from []byte, units uint64) {
	m.transfers = append(m.transfers, chain.Transfer{
		Tx: chain.TxHash(m.names.intern(t.signature)), Kind: kind, Position: m.names.intern(account),
		Contract: chain.Address(m.names.intern(mint)), From: chain.Address(m.names.intern(from)), To: chain.Address(m.names.intern(to)),
		Amount: money.Units(units),
	})
	if from == nil && m.multiSenders != nil {
		m.multiSenders[movementKeyOf(m.transfers[len(m.transfers)-1])] = m.losingOwners(mint)
	}
}

// lamportChange is how much more an account holds, beside the fee; fall is how much less.
func (t *tx) lamportChange(i int) (rise, fall uint64) {
	before, after := t.pre[i], t.post[i]
	if i == 0 {
		before -= t.paid
	}
	if after > before {
		return after - before, 0
	}
	return 0, before - after
}

func (m *movements) addLamports(t *tx) error {
	rises := false
	for i := range t.accounts {
		if rise, _ := t.lamportChange(i); rise > 0 && !t.isToken[i] {
			rises = true
			break
		}
	}
	if !rises {
		return nil
	}
	m.changes = m.changes[:0]
	for i, a := range t.accounts {
		rise, fall := t.lamportChange(i)
		if rise == 0 && fall == 0 {
			continue
		}
		if err := m.changeOf(t.lamportOwner(i, a), nil).addChange(rise, fall); err != nil {
			return err
		}
	}
	from, freed := m.soleSender(nil), t.onlyTokenAccountsFell()
	for i, a := range t.accounts {
		if rise, _ := t.lamportChange(i); rise > 0 && !t.isToken[i] {
			m.addTransfer(t, chain.Native, a, nil, a, from, rise)
			m.transfers[len(m.transfers)-1].Freed = freed
		}
	}
	return nil
}

// onlyTokenAccountsFell tells whether the only accounts that hold less are those for tokens.
func (t *tx) onlyTokenAccountsFell() bool {
	for i := range t.accounts {
		if _, fall := t.lamportChange(i); fall > 0 && !t.isToken[i] {
			return false
		}
	}
	return true
}

// lamportOwner is whose lamports those of an account are: a token account's are its owner's.
func (t *tx) lamportOwner(i int, account []byte) []byte {
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

func (m *movements) addTokens(t *tx) error {
	m.changes = m.changes[:0]
	rises := false
	for i := range t.postTokens {
		h := &t.postTokens[i]
		before := t.unitsBefore(h.account, h.mint, h.owner)
		if h.units > before {
			rises = true
			if err := m.changeOf(h.owner, h.mint).addChange(h.units-before, 0); err != nil {
				return err
			}
		}
	}
	if !rises {
		return nil
	}
	for i := range t.preTokens {
		h := &t.preTokens[i]
		after := t.unitsAfter(h.account, h.mint, h.owner)
		if h.units > after {
			if err := m.changeOf(h.owner, h.mint).addChange(0, h.units-after); err != nil {
				return err
			}
		}
	}
	for i := range t.postTokens {
		h := &t.postTokens[i]
		before := t.unitsBefore(h.account, h.mint, h.owner)
		if h.units <= before {
			continue
		}
		s := m.changeOf(h.owner, h.mint)
		if s.gained <= s.lost || s.reported == s.gained-s.lost {
			continue
		}
		units := min(h.units-before, s.gained-s.lost-s.reported)
		s.reported += units
		m.addTransfer(t, chain.Token, t.accounts[h.account], h.mint, h.owner, m.soleSender(h.mint), units)
	}
	return nil
}
