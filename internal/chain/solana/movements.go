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
// Transfers are derived from balances, so it does not matter which program moved the value, how
// deep, or what was logged about it. What a token withholds on the way is not counted.
//
// Tokens. An owner receives what all of the owner's accounts of a mint that the transaction names
// hold more after it. There is a transfer for each account that rose, in their order, but only as
// far as other accounts of the same owner did not fall. An owner who moves value between own
// accounts thus receives nothing. A change of an account's owner is a fall for the former owner and
// a rise for the present one. The sender is the one owner who has less of the mint. With several
// the sender is "", and with none as well: minted tokens have no sender. Burnt tokens have no
// receiver and are no transfer.
//
// Fees. The fee is what the payer is charged, and the rent of token accounts that the transaction
// creates, as far as the payer has less for it. That rent has no receiver among the transfers and
// is spent for the payer.
//
// Lamports. An account receives what it holds more. Token accounts are excepted: what they hold is
// their rent, or wrapped SOL, which is reported as a token. The fee is not a fall of its payer. A
// token account that falls, such as a closed one, is a fall of its owner. So rent that returns is a
// transfer from the token account's owner to its receiver, who may be the same. Freed says that no
// balance of an address contained it. The sender is the one who has less, wallet and token accounts
// together; if no one has, it is the one owner among those that fell.
type movements struct {
	names     internTable
	transfers []chain.Transfer
	fees      []chain.Fee
	payers    map[string]int // index in fees

	// mentioned has the accounts that a transaction with transfers names and leaves as they are, see
	// chain.Contents. Those of lookup tables are among them.
	mentioned map[chain.TxHash]chain.AddressList

	changes []ownerChange // of one transaction; reused
	list    []byte        // of one transaction; reused

	// multiSenders lists all senders of transfers without a single sender; nil if they are not
	// needed.
	multiSenders map[movementKey][]chain.Address
}

// movementKey identifies a transfer in a block.
type movementKey struct {
	tx       chain.TxHash
	kind     chain.Kind
	position string
}

func movementKeyOf(t chain.Transfer) movementKey { return movementKey{t.Tx, t.Kind, t.Position} }

// losingOwners returns all owners who have less of a mint, or of lamports for nil, sorted.
func (m *movements) losingOwners(mint []byte) (owners []chain.Address) {
	for i := range m.changes {
		if s := &m.changes[i]; bytes.Equal(s.mint, mint) && s.lost > s.gained {
			owners = append(owners, chain.Address(m.names.intern(s.owner)))
		}
	}
	slices.Sort(owners)
	return owners
}

// ownerChange is what an owner gained and lost in a transaction, of one mint or of lamports.
type ownerChange struct {
	owner, mint  []byte
	gained, lost uint64
	reported     uint64 // the part of the gain that is in transfers
}

func newMovements() *movements {
	return &movements{
		names: internTable{}, payers: map[string]int{}, mentioned: map[chain.TxHash]chain.AddressList{},
	}
}

var errBalanceOverflow = errors.New("an account has more than the supply")

func (m *movements) addTx(t *tx) error {
	if err := m.addFee(t); err != nil {
		return err
	}
	if t.failed {
		return nil
	}
	transfers := len(m.transfers)
	if err := m.addLamports(t); err != nil {
		return err
	}
	if err := m.addTokens(t); err != nil {
		return err
	}
	if len(m.transfers) > transfers {
		m.addMentioned(t)
	}
	return nil
}

// addMentioned adds the accounts of a transaction whose lamports it leaves as they are, without token accounts and
// the payer of the fee. A reference is one of them: it receives nothing. Rule DEP-57.
func (m *movements) addMentioned(t *tx) {
	m.list = m.list[:0]
	for i, a := range t.accounts {
		if i == 0 || t.isToken[i] || t.pre[i] != t.post[i] {
			continue
		}
		if len(m.list) > 0 {
			m.list = append(m.list, ' ')
		}
		m.list = append(m.list, a...)
	}
	if len(m.list) > 0 {
		m.mentioned[chain.TxHash(m.names.intern(t.signature))] = chain.AddressList(m.list)
	}
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

// changeOf returns the counters of an owner, and adds them if they are missing.
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

// soleSender returns the one owner who has less of a mint or of lamports. If no owner has fewer
// lamports, it returns the only one any of whose accounts fell. It returns nil if no single sender
// can be named.
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
		Contract: chain.Address(m.names.intern(mint)), From: chain.Address(m.names.intern(from)),
		To:     chain.Address(m.names.intern(to)),
		Amount: money.Units(units),
	})
	if from == nil && m.multiSenders != nil {
		m.multiSenders[movementKeyOf(m.transfers[len(m.transfers)-1])] = m.losingOwners(mint)
	}
}

// lamportChange returns how much more or less an account holds, without the fee.
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

// onlyTokenAccountsFell reports whether only token accounts hold less.
func (t *tx) onlyTokenAccountsFell() bool {
	for i := range t.accounts {
		if _, fall := t.lamportChange(i); fall > 0 && !t.isToken[i] {
			return false
		}
	}
	return true
}

// lamportOwner returns the owner of an account's lamports: for a token account, its owner.
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
