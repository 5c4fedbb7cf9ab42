package solana

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/quorum"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/money"
)

const (
	// dataMax is how much of an account's data is read: all of a mint, however long the texts in
	// it, and the beginning of a program.
	dataMax = 8 << 10

	mintBytes, mintDecimalsByte, mintInitializedByte = 82, 44, 45
	tokenAccountBytes, tokenStateByte                = 165, 108
	extensionsByte                                   = tokenAccountBytes + 1 // after a byte for the type of the account
	isMint                                           = 1
	isFrozen                                         = 2
)

// harmlessExtensions are the extensions of a Token-2022 mint that change nothing about a payment:
// texts, pictures and groups. Every other one is refused, such as those that withhold a part of a
// transfer, let others move or stop it, or need more rent.
var harmlessExtensions = map[uint16]bool{
	18: true, 19: true, // metadata and its location
	20: true, 21: true, 22: true, 23: true, // groups and their members
}

// extensionNames names some of the other extensions.
var extensionNames = map[uint16]string{
	1: "a fee on transfers", 3: "an authority that can close it", 4: "confidential transfers",
	6: "a state that new accounts have",
	9: "no transfers", 10: "interest", 12: "a permanent delegate, who can take the tokens of every account",
	14: "a program that each transfer calls",
	16: "confidential fees", 25: "amounts that are scaled", 26: "an authority that can pause it",
}

// accountsView is the present state of the accounts of payments.
type accountsView struct {
	createsAccount  bool // a receiver's token account has to be created
	writtenAccounts []chain.Address
	payerLamports   uint64 // in lamports
	rentExemptMin   uint64 // what an account without data has to hold, unless it holds nothing
}

// accountBatch collects accounts for one request, each once.
type accountBatch struct {
	addresses []chain.Address
	positions map[chain.Address]int
}

func (q *accountBatch) addAddress(a chain.Address) {
	if _, exists := q.positions[a]; !exists {
		q.positions[a] = len(q.addresses)
		q.addresses = append(q.addresses, a)
	}
}

// inspectAccounts reads the accounts of payments and refuses payments that cannot succeed or would
// be lost. The sweeps of a batch each take from an account of their own, see BatchSize, so each is
// checked as if it were alone. Of payments to others none may create an account. Rule BP-44.
func (c *Client) inspectAccounts(ctx context.Context, p *provider, ps []chain.Payment) (accountsView, error) {
	payer := feePayer(ps[0])
	q := accountBatch{positions: map[chain.Address]int{}}
	q.addAddress(payer)
	s := accountsView{writtenAccounts: []chain.Address{payer}}
	type pair struct{ source, target chain.Address }
	tokens := make([]pair, len(ps))
	taken := map[chain.Address]money.Amount{} // from a token account, by all of them
	for i, pay := range ps {
		if (solanatx.AddressCodec{}).IsUnspendable(pay.To) {
			return accountsView{}, namePayment(len(ps), i,
				newRefusal(chain.CausePayee, "the key of %s has no holder: a payment to it is lost", pay.To))
		}
		q.addAddress(pay.From)
		q.addAddress(pay.To)
		if pay.Contract == "" {
			s.writtenAccounts = append(s.writtenAccounts, pay.From, pay.To)
			continue
		}
		m, err := c.configuredMint(pay.Contract)
		if err != nil {
			return accountsView{}, err
		}
		source, err := solanatx.AssociatedAccount(pay.From, pay.Contract, m.Program)
		if err != nil {
			return accountsView{}, err
		}
		target, err := solanatx.AssociatedAccount(pay.To, pay.Contract, m.Program)
		if err != nil {
			return accountsView{}, err
		}
		tokens[i] = pair{source, target}
		if taken[source], err = taken[source].Add(pay.Amount); err != nil {
			return accountsView{}, err
		}
		q.addAddress(pay.Contract)
		q.addAddress(source)
		q.addAddress(target)
		s.writtenAccounts = append(s.writtenAccounts, source, target)
	}
	slices.Sort(s.writtenAccounts)
	s.writtenAccounts = slices.Compact(s.writtenAccounts)
	if err := p.callMethod(ctx, &s.rentExemptMin, "getMinimumBalanceForRentExemption", 0); err != nil {
		return accountsView{}, err
	}
	got, err := p.readAccounts(ctx, q.addresses, confirmed)
	if err != nil {
		return accountsView{}, err
	}
	account := func(a chain.Address) *account { return got[q.positions[a]] }
	lamports := func(a chain.Address) uint64 {
		if entry := account(a); entry != nil {
			return *entry.Lamports
		}
		return 0
	}
	s.payerLamports = lamports(payer)
	for i, pay := range ps {
		err := checkReceiver(pay.To, account(pay.To))
		if err == nil && pay.Contract == "" {
			err = s.checkNative(pay, lamports(pay.From), lamports(pay.To))
		} else if err == nil {
			var made bool
			made, err = c.Mints[pay.Contract].checkTransfer(pay, taken[tokens[i].source], account(pay.Contract),
				account(tokens[i].source), account(tokens[i].target))
			s.createsAccount = s.createsAccount || !made
			if err == nil && !made && makesOnly(ps) {
				err = newRefusal(chain.CausePayee, "%s has no account for the token, so the payment is made alone",
					pay.To)
			}
		}
		if err != nil {
			return accountsView{}, namePayment(len(ps), i, err)
		}
	}
	return s, nil
}

// checkTransfer refuses a token payment that its accounts prevent. taken is what all payments of the
// transaction take from its source. made reports whether the receiver's account exists.
func (m Mint) checkTransfer(
	pay chain.Payment, taken money.Amount, token, source, target *account,
) (made bool, err error) {
	if err := m.checkMint(pay.Contract, token); err != nil {
		return false, err
	}
	held, made, err := m.readHolding(pay.Contract, pay.From, source, chain.CauseAccount)
	if err != nil {
		return false, err
	}
	if !made || money.Units(held).Less(taken) {
		return false, newRefusal(chain.CauseFunds, "%s has %d in its token account, less than the amount", pay.From,
			held)
	}
	_, made, err = m.readHolding(pay.Contract, pay.To, target, chain.CausePayee)
	return made, err
}

// checkReceiver refuses a receiver that is no wallet.
func checkReceiver(to chain.Address, a *account) error {
	if a == nil {
		return nil
	}
	data, err := a.decodeData()
	if err != nil {
		return err
	}
	switch {
	case a.Executable:
		return newRefusal(chain.CausePayee, "%s is a program: a payment to it is lost", to)
	case isTokenProgram([]byte(a.Owner)):
		if len(data) == mintBytes || len(data) >= extensionsByte && data[extensionsByte-1] == isMint {
			return newRefusal(chain.CausePayee, "%s is the mint of a token: a payment to it is lost", to)
		}
		if len(data) >= tokenBytes {
			owner := solanatx.Canonical([32]byte(data[tokenOwnerByte:tokenAmountByte]))
			return newRefusal(chain.CausePayee,
				"%s is a token account of %s and not a wallet: give the address of the wallet", to, owner)
		}
		return newRefusal(chain.CausePayee, "%s belongs to a token program and is not a wallet", to)
	case a.Owner == "Sysvar1111111111111111111111111111111111111":
		return newRefusal(chain.CausePayee, "%s belongs to the chain itself: a payment to it is lost", to)
	case a.Owner == string(solanatx.SystemProgram) && len(data) > 0:
		return newRefusal(chain.CausePayee, "%s is a nonce account and not a wallet: give the address of the "+
			"wallet", to)
	}
	return nil
}

// checkNative refuses a payment of SOL that would leave an account with less than its minimum.
func (s accountsView) checkNative(p chain.Payment, from, to uint64) error {
	minimum := money.Units(s.rentExemptMin)
	left, err := money.Units(from).Sub(p.Amount)
	switch {
	case err != nil:
		return newRefusal(chain.CauseFunds, "%s has %d lamports, less than the amount", p.From, from)
	case p.From == p.To:
		return nil
	case to == 0 && p.Amount.Less(minimum):
		return newRefusal(chain.CauseAmount,
			"%s is a new account, whose minimum balance is %d lamports: %v are too few", p.To, s.rentExemptMin,
			p.Amount)
	case feePayer(p) != p.From && !left.IsZero() && left.Less(minimum):
		return newRefusal(chain.CauseAmount,
			"%s would keep %v lamports: it has to keep none, or at least %d", p.From, left, s.rentExemptMin)
	}
	return nil
}

// checkAffordable returns an error unless the payer can pay the greatest cost and is left with
// nothing or with the minimum of an account. What arrives by the same payments does not count,
// because the cost is taken before. The payer may receive what it lacks, so the error is no refusal
// of the payments.
func (s accountsView) checkAffordable(ps []chain.Payment, cost money.Amount) error {
	payer := feePayer(ps[0])
	left, err := money.Units(s.payerLamports).Sub(cost)
	for _, p := range ps {
		if err == nil && payer == p.From && p.Contract == "" && p.From != p.To {
			left, err = left.Sub(p.Amount)
		}
	}
	if err != nil || left.Less(money.Units(s.rentExemptMin)) && !left.IsZero() {
		return fmt.Errorf("%s has %d lamports: the payment with a fee of up to %v needs more, because at least %d "+
			"have to stay",
			payer, s.payerLamports, cost, s.rentExemptMin)
	}
	return nil
}

// MinNativePayment returns the minimum of an account without data if there is nothing at the
// address yet, and one unit otherwise.
func (c *Client) MinNativePayment(ctx context.Context, to chain.Address) (money.Amount, error) {
	minimum, err := quorum.FirstAnswer(ctx, c.providersByTrust(),
		func(ctx context.Context, p *provider) (uint64, error) {
			got, err := p.readAccounts(ctx, []chain.Address{to}, confirmed)
			if err != nil {
				return 0, err
			}
			if got[0] != nil && *got[0].Lamports > 0 {
				return 1, nil
			}
			var minimum uint64
			err = p.callMethod(ctx, &minimum, "getMinimumBalanceForRentExemption", 0)
			return minimum, err
		})
	if err != nil {
		return money.Zero, fmt.Errorf("smallest payment to %s: %w", to, err)
	}
	return money.Units(minimum), nil
}

// checkMint refuses a mint that differs from its configuration.
func (m Mint) checkMint(address chain.Address, a *account) error {
	if a == nil {
		return newRefusal(chain.CauseAccount, "there is no token at %s", address)
	}
	data, err := a.decodeData()
	if err != nil {
		return err
	}
	switch {
	case a.Owner != string(m.Program):
		return newRefusal(chain.CauseAccount, "token %s belongs to program %.44q, and is configured to belong to %s",
			address, a.Owner, m.Program)
	case len(data) < mintBytes || data[mintInitializedByte] != 1 ||
		len(data) > mintBytes && (len(data) < extensionsByte || data[extensionsByte-1] != isMint):
		return newRefusal(chain.CauseAccount, "%s is not a mint", address)
	case data[mintDecimalsByte] != m.Decimals:
		return newRefusal(chain.CauseAccount, "token %s has %d decimals, and is configured to have %d", address,
			data[mintDecimalsByte], m.Decimals)
	case len(data) >= dataMax:
		return newRefusal(chain.CauseAccount,
			"the extensions of token %s cannot be read: they are too long", address)
	case len(data) > mintBytes:
		return m.checkExtensions(address, data[extensionsByte:])
	}
	return nil
}

// checkExtensions refuses a mint with extensions that are neither harmless nor allowed.
func (m Mint) checkExtensions(address chain.Address, list []byte) error {
	const head = 4
	for len(list) >= head {
		kind, size := binary.LittleEndian.Uint16(list), int(binary.LittleEndian.Uint16(list[2:]))
		if kind == 0 {
			return nil // the remaining bytes are empty
		}
		if !m.allowsExtension(kind) {
			name := extensionNames[kind]
			if name == "" {
				name = "an extension that is not known to be harmless"
			}
			return newRefusal(chain.CauseAccount, "token %s has %s (extension %d of Token-2022): this service does "+
				"not pay it",
				address, name, kind)
		}
		if len(list) < head+size {
			return newRefusal(chain.CauseAccount, "the extensions of token %s cannot be read", address)
		}
		list = list[head+size:]
	}
	return nil
}

// readHolding returns what an owner's associated account holds; made is false if it does not exist.
// cause says whether a refusal is about the payer or the payee.
func (m Mint) readHolding(
	mint, owner chain.Address, a *account, cause chain.Cause,
) (units uint64, made bool, err error) {
	if a == nil || a.Owner == string(solanatx.SystemProgram) { // others may have sent lamports there
		return 0, false, nil
	}
	data, err := a.decodeData()
	if err != nil {
		return 0, false, err
	}
	mintKey, err := solanatx.Bytes(mint)
	if err != nil {
		return 0, false, err
	}
	ownerKey, err := solanatx.Bytes(owner)
	switch {
	case err != nil:
		return 0, false, err
	case a.Owner != string(m.Program) || len(data) < tokenAccountBytes ||
		!bytes.Equal(data[:tokenOwnerByte], mintKey[:]):
		return 0, false, newRefusal(cause, "the token account of %s is not a token account of %s", owner, mint)
	case !bytes.Equal(data[tokenOwnerByte:tokenAmountByte], ownerKey[:]):
		return 0, false, newRefusal(cause, "the token account of %s belongs to another owner now", owner)
	case data[tokenStateByte] == isFrozen:
		return 0, false, newRefusal(cause, "the token account of %s is frozen by the token's issuer", owner)
	}
	return binary.LittleEndian.Uint64(data[tokenAmountByte:]), true, nil
}
