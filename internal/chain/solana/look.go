package solana

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/several"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/money"
)

const (
	// dataMax is how much of an account is looked at: all of a mint, however long the
	// texts in it, and the beginning of a program.
	dataMax = 8 << 10

	mintBytes, mintDecimalsByte, mintReadyByte = 82, 44, 45
	tokenAccountBytes, tokenStateByte          = 165, 108
	extensionsByte                             = tokenAccountBytes + 1 // after a byte for what the account is
	isMint                                     = 1
	isFrozen                                   = 2
)

// harmless are the extensions of a mint of Token-2022 that change nothing of a payment:
// texts, pictures and groups. Every other one is refused, as those that withhold a part
// of a transfer, let somebody else move or stop it, or ask for more rent.
var harmless = map[uint16]bool{
	18: true, 19: true, // metadata and where they are
	20: true, 21: true, 22: true, 23: true, // groups and their members
}

// extensions are the names of some others.
var extensions = map[uint16]string{
	1: "a fee on transfers", 3: "an authority that can close it", 4: "confidential transfers", 6: "a state that new accounts have",
	9: "no transfers", 10: "interest", 12: "a permanent delegate, who can take from anybody", 14: "a program that each transfer calls",
	16: "confidential fees", 25: "amounts that are scaled", 26: "an authority that can pause it",
}

// A sight is what the accounts of payments are now.
type sight struct {
	creates bool // a receiver's token account has to be made
	written []chain.Address
	payer   uint64 // lamports
	least   uint64 // what an account without data has to hold, unless nothing
}

// asking are accounts that are asked for at once, each once.
type asking struct {
	of []chain.Address
	at map[chain.Address]int
}

func (q *asking) add(a chain.Address) {
	if _, known := q.at[a]; !known {
		q.at[a] = len(q.of)
		q.of = append(q.of, a)
	}
}

// look asks for the accounts of payments and refuses what is hopeless or lost. Payments
// that go together each take from an account of their own, see Fits, so each is looked at
// as if it were alone.
func (c *Client) look(ctx context.Context, p *provider, ps []chain.Payment) (sight, error) {
	payer := payerOf(ps[0])
	q := asking{at: map[chain.Address]int{}}
	q.add(payer)
	s := sight{written: []chain.Address{payer}}
	type pair struct{ source, target chain.Address }
	tokens := make([]pair, len(ps))
	for i, pay := range ps {
		if (solanatx.Grammar{}).Burns(pay.To) {
			return sight{}, blamed(len(ps), i, refuse(chain.CausePayee, "nobody holds a key of %s: what is sent there is lost", pay.To))
		}
		q.add(pay.From)
		q.add(pay.To)
		if pay.Contract == "" {
			s.written = append(s.written, pay.From, pay.To)
			continue
		}
		m, err := c.mint(pay.Contract)
		if err != nil {
			return sight{}, err
		}
		source, err := solanatx.AssociatedAccount(pay.From, pay.Contract, m.Program)
		if err != nil {
			return sight{}, err
		}
		target, err := solanatx.AssociatedAccount(pay.To, pay.Contract, m.Program)
		if err != nil {
			return sight{}, err
		}
		tokens[i] = pair{source, target}
		q.add(pay.Contract)
		q.add(source)
		q.add(target)
		s.written = append(s.written, source, target)
	}
	slices.Sort(s.written)
	s.written = slices.Compact(s.written)
	if err := p.call(ctx, &s.least, "getMinimumBalanceForRentExemption", 0); err != nil {
		return sight{}, err
	}
	got, err := p.accounts(ctx, q.of, confirmed)
	if err != nil {
		return sight{}, err
	}
	account := func(a chain.Address) *account { return got[q.at[a]] }
	lamports := func(a chain.Address) uint64 {
		if is := account(a); is != nil {
			return *is.Lamports
		}
		return 0
	}
	s.payer = lamports(payer)
	for i, pay := range ps {
		err := receiver(pay.To, account(pay.To))
		if err == nil && pay.Contract == "" {
			err = s.coin(pay, lamports(pay.From), lamports(pay.To))
		} else if err == nil {
			var made bool
			made, err = c.Mints[pay.Contract].moves(pay, account(pay.Contract), account(tokens[i].source), account(tokens[i].target))
			s.creates = s.creates || !made
		}
		if err != nil {
			return sight{}, blamed(len(ps), i, err)
		}
	}
	return s, nil
}

// moves refuses a payment of a token that its accounts do not let through; made tells
// whether the receiver's is there.
func (m Mint) moves(pay chain.Payment, token, source, target *account) (made bool, err error) {
	if err := m.is(pay.Contract, token); err != nil {
		return false, err
	}
	held, made, err := m.holds(pay.Contract, pay.From, source, chain.CauseAccount)
	if err != nil {
		return false, err
	}
	if !made || money.Units(held).Less(pay.Amount) {
		return false, refuse(chain.CauseFunds, "%s holds %d in its token account, less than the amount", pay.From, held)
	}
	_, made, err = m.holds(pay.Contract, pay.To, target, chain.CausePayee)
	return made, err
}

// receiver refuses what is no wallet.
func receiver(to chain.Address, a *account) error {
	if a == nil {
		return nil
	}
	data, err := a.bytes()
	if err != nil {
		return err
	}
	switch {
	case a.Executable:
		return refuse(chain.CausePayee, "%s is a program: what is sent there is lost", to)
	case isTokenProgram([]byte(a.Owner)):
		if len(data) == mintBytes || len(data) >= extensionsByte && data[extensionsByte-1] == isMint {
			return refuse(chain.CausePayee, "%s is the mint of a token: what is sent there is lost", to)
		}
		if len(data) >= tokenBytes {
			owner := solanatx.Canonical([32]byte(data[tokenOwnerByte:tokenAmountByte]))
			return refuse(chain.CausePayee, "%s is a token account of %s and no wallet: give the address of the wallet", to, owner)
		}
		return refuse(chain.CausePayee, "%s belongs to a token program and is no wallet", to)
	case a.Owner == "Sysvar1111111111111111111111111111111111111":
		return refuse(chain.CausePayee, "%s is of the chain itself: what is sent there is lost", to)
	case a.Owner == string(solanatx.SystemProgram) && len(data) > 0:
		return refuse(chain.CausePayee, "%s is a nonce account and no wallet: give the address of the wallet", to)
	}
	return nil
}

// coin refuses a payment of SOL that would leave an account with less than it may have.
func (s sight) coin(p chain.Payment, from, to uint64) error {
	least := money.Units(s.least)
	left, err := money.Units(from).Sub(p.Amount)
	switch {
	case err != nil:
		return refuse(chain.CauseFunds, "%s holds %d lamports, less than the amount", p.From, from)
	case p.From == p.To:
		return nil
	case to == 0 && p.Amount.Less(least):
		return refuse(chain.CauseAmount, "%s is a new account, which has to hold at least %d lamports: %v are too few", p.To, s.least, p.Amount)
	case payerOf(p) != p.From && !left.IsZero() && left.Less(least):
		return refuse(chain.CauseAmount, "%s would be left with %v lamports: it has to hold nothing, or at least %d", p.From, left, s.least)
	}
	return nil
}

// affords is an error unless the payer can pay what it may cost and is left with nothing
// or with as much as an account has to hold. What comes in by the same payments does not
// count, for the cost is taken before it. What it lacks it may get: that is no word about
// the payments.
func (s sight) affords(ps []chain.Payment, cost money.Amount) error {
	payer := payerOf(ps[0])
	left, err := money.Units(s.payer).Sub(cost)
	for _, p := range ps {
		if err == nil && payer == p.From && p.Contract == "" && p.From != p.To {
			left, err = left.Sub(p.Amount)
		}
	}
	if err != nil || left.Less(money.Units(s.least)) && !left.IsZero() {
		return fmt.Errorf("%s holds %d lamports: the payment with a fee of up to %v needs more, and at least %d have to stay", payer, s.payer, cost, s.least)
	}
	return nil
}

// Minimum is what an account without data has to hold where nothing is there yet, and
// one unit elsewhere.
func (c *Client) Minimum(ctx context.Context, to chain.Address) (money.Amount, error) {
	least, err := several.First(ctx, c.showing(), func(ctx context.Context, p *provider) (uint64, error) {
		got, err := p.accounts(ctx, []chain.Address{to}, confirmed)
		if err != nil {
			return 0, err
		}
		if got[0] != nil && *got[0].Lamports > 0 {
			return 1, nil
		}
		var least uint64
		err = p.call(ctx, &least, "getMinimumBalanceForRentExemption", 0)
		return least, err
	})
	if err != nil {
		return money.Zero, fmt.Errorf("smallest payment to %s: %w", to, err)
	}
	return money.Units(least), nil
}

// is refuses a mint that is another than it is configured to be.
func (m Mint) is(at chain.Address, a *account) error {
	if a == nil {
		return refuse(chain.CauseAccount, "there is no token at %s", at)
	}
	data, err := a.bytes()
	if err != nil {
		return err
	}
	switch {
	case a.Owner != string(m.Program):
		return refuse(chain.CauseAccount, "token %s belongs to program %.44q, and is configured to belong to %s", at, a.Owner, m.Program)
	case len(data) < mintBytes || data[mintReadyByte] != 1 || len(data) > mintBytes && (len(data) < extensionsByte || data[extensionsByte-1] != isMint):
		return refuse(chain.CauseAccount, "%s is no mint", at)
	case data[mintDecimalsByte] != m.Decimals:
		return refuse(chain.CauseAccount, "token %s has %d decimals, and is configured to have %d", at, data[mintDecimalsByte], m.Decimals)
	case len(data) >= dataMax:
		return refuse(chain.CauseAccount, "the extensions of token %s cannot be read: they are longer than any that is paid", at)
	case len(data) > mintBytes:
		return m.usual(at, data[extensionsByte:])
	}
	return nil
}

// usual refuses a mint with extensions that are neither harmless nor reviewed.
func (m Mint) usual(at chain.Address, list []byte) error {
	const head = 4
	for len(list) >= head {
		kind, size := binary.LittleEndian.Uint16(list), int(binary.LittleEndian.Uint16(list[2:]))
		if kind == 0 {
			return nil // what is left is empty
		}
		if !m.allows(kind) {
			what := extensions[kind]
			if what == "" {
				what = "an extension that is not known to be harmless"
			}
			return refuse(chain.CauseAccount, "token %s has %s (extension %d of Token-2022): it is not paid", at, what, kind)
		}
		if len(list) < head+size {
			return refuse(chain.CauseAccount, "the extensions of token %s cannot be read", at)
		}
		list = list[head+size:]
	}
	return nil
}

// holds is what an owner's associated account has; made is false where there is none. why
// is what a refusal is about: the payer or the payee.
func (m Mint) holds(mint, owner chain.Address, a *account, why chain.Cause) (units uint64, made bool, err error) {
	if a == nil || a.Owner == string(solanatx.SystemProgram) { // somebody may have sent lamports there
		return 0, false, nil
	}
	data, err := a.bytes()
	if err != nil {
		return 0, false, err
	}
	of, err := solanatx.Bytes(mint)
	if err != nil {
		return 0, false, err
	}
	who, err := solanatx.Bytes(owner)
	switch {
	case err != nil:
		return 0, false, err
	case a.Owner != string(m.Program) || len(data) < tokenAccountBytes || !bytes.Equal(data[:tokenOwnerByte], of[:]):
		return 0, false, refuse(why, "the token account of %s is none of %s", owner, mint)
	case !bytes.Equal(data[tokenOwnerByte:tokenAmountByte], who[:]):
		return 0, false, refuse(why, "the token account of %s belongs to somebody else now", owner)
	case data[tokenStateByte] == isFrozen:
		return 0, false, refuse(why, "the token account of %s is frozen by the token's issuer", owner)
	}
	return binary.LittleEndian.Uint64(data[tokenAmountByte:]), true, nil
}
