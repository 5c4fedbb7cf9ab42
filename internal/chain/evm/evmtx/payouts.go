package evmtx

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/holiman/uint256"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm/payoutcontract"
	"github.com/cofferpay/coffer/internal/money"
)

const (
	// PaymentsMax is the most payments of one transaction, which the payout contract makes.
	PaymentsMax = 24
	// itemAmountBits is the size of an amount in a call of the payout contract. A larger one is paid alone.
	itemAmountBits = 96

	payHeadBytes  = selectorBytes + 3*wordBytes // the selector, the token, where the items begin, and their number
	payItemsStart = 2 * wordBytes
	approveBytes  = selectorBytes + 2*wordBytes
)

// approveSelector begins every call of approve(address,uint256).
var approveSelector = []byte{0x09, 0x5e, 0xa7, 0xb3}

// PayoutContract is the address of the payout contract, on every chain.
var PayoutContract = Canonical(payoutcontract.Address)

// CanShareTx reports whether the payout contract can make a payment: of a token, of an amount that fits.
func CanShareTx(p chain.Payment) bool {
	return p.Contract != "" && p.Payer == "" && !p.SetsAllowance() && !p.Amount.IsZero() &&
		p.Amount.Uint256().BitLen() <= itemAmountBits
}

// PayData returns the data of the call of the payout contract that makes payments. They are of one account and in one
// token.
func PayData(ps []chain.Payment) ([]byte, error) {
	if len(ps) < 2 || len(ps) > PaymentsMax {
		return nil, fmt.Errorf("%d payments in one transaction, and 2 to %d go together", len(ps), PaymentsMax)
	}
	token, err := Bytes(ps[0].Contract)
	if err != nil {
		return nil, fmt.Errorf("token: %w", err)
	}
	data := make([]byte, 0, payHeadBytes+len(ps)*wordBytes)
	data = append(data, payoutcontract.PaySelector[:]...)
	data = append(data, common.LeftPadBytes(token[:], wordBytes)...)
	data = append(data, wordOf(payItemsStart)...)
	data = append(data, wordOf(uint64(len(ps)))...)
	for i, p := range ps {
		if !CanShareTx(p) || p.Contract != ps[0].Contract || p.From != ps[0].From {
			return nil, fmt.Errorf("payment %d cannot share a transaction with the first", i+1)
		}
		payee, err := Bytes(p.To)
		if err != nil {
			return nil, fmt.Errorf("payee of payment %d: %w", i+1, err)
		}
		amount := p.Amount.Uint256().Bytes32()
		data = append(data, payee[:]...)
		data = append(data, amount[common.AddressLength:]...)
	}
	return data, nil
}

func wordOf(n uint64) []byte { w := uint256.NewInt(n).Bytes32(); return w[:] }

// ParsePay decodes the data of a call of the payout contract: exactly what PayData writes. The payments have no From,
// which is the account that signs.
func ParsePay(data []byte) ([]chain.Payment, error) {
	if !bytes.HasPrefix(data, payoutcontract.PaySelector[:]) {
		return nil, errors.New("call is not pay(address,bytes32[])")
	}
	count := (len(data) - payHeadBytes) / wordBytes
	if len(data) < payHeadBytes || count < 2 || count > PaymentsMax {
		return nil, fmt.Errorf("call of pay has %d bytes", len(data))
	}
	words := data[selectorBytes:]
	token := Canonical(common.BytesToAddress(words[:wordBytes]))
	ps := make([]chain.Payment, count)
	for i := range ps {
		item := words[(3+i)*wordBytes : (4+i)*wordBytes]
		ps[i] = chain.Payment{
			To: Canonical(common.BytesToAddress(item[:common.AddressLength])), Contract: token,
			Amount: money.FromUint256(new(uint256.Int).SetBytes(item[common.AddressLength:])),
		}
	}
	// Padding, offset and count have one form, so every other text differs from what is written again.
	written, err := PayData(ps)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(written, data) {
		return nil, errors.New("call of pay is not in its one form")
	}
	return ps, nil
}

// ApproveData returns the data of the call of a token that lets an address move any amount of the caller, or none any
// more.
func ApproveData(spender chain.Address, isGranted bool) ([]byte, error) {
	address, err := Bytes(spender)
	if err != nil {
		return nil, fmt.Errorf("spender of the token: %w", err)
	}
	value := [wordBytes]byte{}
	if isGranted {
		value = new(uint256.Int).SetAllOne().Bytes32()
	}
	data := make([]byte, 0, approveBytes)
	data = append(data, approveSelector...)
	data = append(data, common.LeftPadBytes(address[:], wordBytes)...)
	return append(data, value[:]...), nil
}

// newAllowanceTx completes the transaction that sets the allowance of the payout contract. It is of no other address:
// no order of the service lets another one move anything.
func newAllowanceTx(t Tx, p chain.Payment) (Tx, error) {
	switch {
	case p.To != PayoutContract:
		return Tx{}, fmt.Errorf("allowance is of %s, and only the payout contract %s has one", p.To, PayoutContract)
	case p.Contract == "" || !p.Amount.IsZero() || p.GrantsAllowance == p.RevokesAllowance:
		return Tx{}, errors.New("an allowance is of a token, has no amount, and is granted or revoked")
	}
	data, err := ApproveData(p.To, p.GrantsAllowance)
	if err != nil {
		return Tx{}, err
	}
	t.To, t.Data = p.Contract, data
	return t, nil
}

// NewPaymentsTx returns the transaction of payments of an account: a cancel for none, a transfer for one, and a call of
// the payout contract for several.
func NewPaymentsTx(
	chainID uint64, account chain.Address, ps []chain.Payment, nonce uint64, fees chain.Fees,
) (Tx, error) {
	switch len(ps) {
	case 0:
		return NewPaymentTx(chainID, account, nil, nonce, fees)
	case 1:
		return NewPaymentTx(chainID, account, &ps[0], nonce, fees)
	}
	if ps[0].From != account {
		return Tx{}, fmt.Errorf("payments are from %s, not from %s", ps[0].From, account)
	}
	data, err := PayData(ps)
	if err != nil {
		return Tx{}, err
	}
	return Tx{
		ChainID: chainID, Nonce: nonce, To: PayoutContract, Data: data,
		Gas: fees.GasLimit, TipCap: fees.TipCap, FeeCap: fees.FeeCap,
	}, nil
}

// CheckPayments returns nil if a transaction makes exactly these payments in this order and does nothing else. The
// account that signs it is the one that pays, so the payments are compared without From.
func CheckPayments(t Tx, ps []chain.Payment) error {
	switch {
	case len(ps) == 0:
		return errors.New("it is compared with no payment")
	case len(ps) > 1:
		return checkShared(t, ps)
	case ps[0].SetsAllowance():
		return checkAllowance(t, ps[0])
	}
	contract, payee, amount, err := ParsePayee(t)
	if err == nil && (contract != ps[0].Contract || payee != ps[0].To || amount != ps[0].Amount) {
		err = fmt.Errorf("it pays %v of %q to %s", amount, contract, payee)
	}
	return err
}

// checkShared compares a call of the payout contract with payments. Rule BP-23.
func checkShared(t Tx, ps []chain.Payment) error {
	switch {
	case t.To != PayoutContract:
		return fmt.Errorf("it calls %s, and the payout contract is %s", t.To, PayoutContract)
	case !t.Value.IsZero():
		return errors.New("it sends native coin to the payout contract")
	}
	made, err := ParsePay(t.Data)
	if err != nil {
		return err
	}
	if len(made) != len(ps) {
		return fmt.Errorf("it makes %d payments, not %d", len(made), len(ps))
	}
	for i, p := range ps {
		switch {
		case !CanShareTx(p) || p.From != ps[0].From:
			return fmt.Errorf("payment %d shares no transaction", i+1)
		case made[i].Contract != p.Contract || made[i].To != p.To || made[i].Amount != p.Amount:
			return fmt.Errorf("payment %d of it is %v of %s to %s", i+1, made[i].Amount, made[i].Contract, made[i].To)
		}
	}
	return nil
}

// checkAllowance compares a transaction with the one that sets the allowance of the payout contract. Rule BP-24.
func checkAllowance(t Tx, p chain.Payment) error {
	want, err := newAllowanceTx(Tx{}, p)
	if err != nil {
		return err
	}
	if t.To != want.To || !t.Value.IsZero() || !bytes.Equal(t.Data, want.Data) {
		return fmt.Errorf("it does not set the allowance of %s on %s", p.To, p.Contract)
	}
	return nil
}
