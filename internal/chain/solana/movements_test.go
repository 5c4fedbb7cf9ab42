package solana_test

import (
	"crypto/ed25519"
	"slices"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/localworld/surfpool"
	"github.com/cofferpay/coffer/internal/money"
)

// recoverNested lets the associated-token program move a balance from the token account of a token
// account to its owner: a transfer that is no instruction of the transaction.
func recoverNested(owner chain.Address) surfpool.Instruction {
	account := usdc.AssociatedAccount(owner)
	return surfpool.Instruction{Program: solanatx.AssociatedProgram, Accounts: []surfpool.Meta{
		{Address: usdc.AssociatedAccount(account), Writable: true},
		{Address: usdc.Address},
		{Address: account, Writable: true},
		{Address: account},
		{Address: usdc.Address},
		{Address: owner, Signer: true, Writable: true},
		{Address: usdc.Program},
	}, Data: []byte{2}}
}

// H-63, H-64, H-66: actions of external accounts, on a chain that executes them.
func TestDepositsAreFoundHoweverTheyCome(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	payer, stranger := surfpool.AddressOf(l.payer), surfpool.AddressOf(l.stranger)
	one := func(units uint64, contract, from chain.Address, position chain.Address) []chain.Transfer {
		kind := chain.Native
		if contract != "" {
			kind = chain.Token
		}
		return []chain.Transfer{{
			Kind: kind, Position: string(position), Contract: contract, From: from,
			Amount: money.Units(units),
		}}
	}
	freed := func(of []chain.Transfer) []chain.Transfer {
		of[0].Freed = true
		return of
	}
	type arrival struct {
		what string
		to   chain.Address
		want []chain.Transfer
	}
	var all []arrival
	expect := func(what string, to chain.Address, want []chain.Transfer) {
		all = append(all, arrival{what, to, want})
	}
	start := l.node.CurrentSlot()

	// One transaction, three owners.
	a, b, c := l.Account(t), l.Account(t), l.Account(t)
	// Rent in the same transaction would have two senders.
	l.do(t, usdc.CreateAccount(payer, b), usdc.CreateAccount(payer, c))
	l.do(t, slices.Concat(l.moves(chain.Native, a, 11), l.moves(chain.Token, b, 12), l.moves(chain.Token, c, 13),
		l.moves(chain.Native, c, 14))...)
	expect("lamports among others", a, one(11, "", stranger, a))
	expect("a token among others", b, one(12, usdc.Address, stranger, usdc.AssociatedAccount(b)))
	expect("both", c, slices.Concat(one(14, "", stranger, c),
		one(13, usdc.Address, stranger, usdc.AssociatedAccount(c))))

	// It fails after it has paid.
	a = l.Account(t)
	l.PayReverted(t, chain.Token, a, money.Units(21))
	expect("a failed transaction", a, nil)

	// Another token with the same name.
	a = l.Account(t)
	spoof := surfpool.Mint{Address: l.Account(t), Program: solanatx.TokenProgram, Decimals: 6}
	l.place(t, spoof)
	l.do(t, spoof.CreateAccount(payer, a), spoof.TransferTokens(spoof.AssociatedAccount(stranger),
		spoof.AssociatedAccount(a), stranger, 31))
	expect("a token of another mint", a, one(31, spoof.Address, stranger, spoof.AssociatedAccount(a)))

	// A token that withholds a hundredth.
	a = l.Account(t)
	withholds := surfpool.Mint{
		Address: l.Account(t), Program: solanatx.Token2022Program, Decimals: 2,
		Extensions: []surfpool.Extension{surfpool.TransferFee(100, 1_000_000)},
	}
	l.place(t, withholds)
	l.do(t, withholds.CreateAccount(payer, a), withholds.TransferTokens(withholds.AssociatedAccount(stranger),
		withholds.AssociatedAccount(a), stranger, 1000))
	expect("what arrived of a token with a fee", a,
		one(990, withholds.Address, stranger, withholds.AssociatedAccount(a)))

	// Accounts from a lookup table.
	a = l.Account(t)
	table := l.Account(t)
	in := []chain.Address{usdc.AssociatedAccount(a), usdc.AssociatedAccount(stranger), a, usdc.Address}
	if err := l.node.PlaceLookupTable(t.Context(), table, in...); err != nil {
		t.Fatal(err)
	}
	l.do(t, usdc.CreateAccount(payer, a))
	l.send(t, surfpool.Transaction{
		Keys: []ed25519.PrivateKey{l.payer, l.stranger}, LookupTable: table, TableAddresses: in, Price: 777_777,
		Instructions: slices.Concat(l.moves(chain.Token, a, 41), l.moves(chain.Native, a, 42)),
	})
	expect("version 0 with a lookup table", a, slices.Concat(one(42, "", stranger, a),
		one(41, usdc.Address, stranger, usdc.AssociatedAccount(a))))

	// A program moves it inside an instruction.
	a = l.Account(t)
	account := usdc.AssociatedAccount(a)
	l.do(t, usdc.CreateAccount(payer, a), usdc.CreateAccount(payer, account),
		usdc.TransferTokens(usdc.AssociatedAccount(stranger), usdc.AssociatedAccount(account), stranger, 51))
	l.send(t, surfpool.Transaction{
		Keys:         []ed25519.PrivateKey{l.payer, l.keys[a]},
		Instructions: []surfpool.Instruction{recoverNested(a)},
	})
	// The nested account is closed to the wallet, with its rent.
	expect("a transfer inside of an instruction", a,
		slices.Concat(freed(one(1, "", account, a)), one(51, usdc.Address, account, account)))

	// An account that is not the associated one.
	a = l.Account(t)
	other := newKey(t)
	at := surfpool.AddressOf(other)
	l.do2(t, other, surfpool.CreateAccount(payer, at, usdc.Program, 1, 165), usdc.InitializeAccount(at, a),
		usdc.TransferTokens(usdc.AssociatedAccount(stranger), at, stranger, 61))
	expect("a token account of one's own making", a, one(61, usdc.Address, stranger, at))

	// A token account gets another owner, with its whole balance.
	a = l.Account(t)
	other = newKey(t)
	at = surfpool.AddressOf(other)
	l.do2(t, other, surfpool.CreateAccount(payer, at, usdc.Program, 1, 165), usdc.InitializeAccount(at, stranger),
		usdc.TransferTokens(usdc.AssociatedAccount(stranger), at, stranger, 71))
	l.do(t, usdc.SetOwner(at, stranger, a))
	expect("a token account that changes hands", a, one(71, usdc.Address, stranger, at))

	// Minted.
	a = l.Account(t)
	if err := l.node.MintTo(t.Context(), usdc, a, 81); err != nil {
		t.Fatal(err)
	}
	expect("what was minted", a, one(81, usdc.Address, "", usdc.AssociatedAccount(a)))

	// SOL, wrapped and unwrapped.
	a = l.Account(t)
	wrapped := surfpool.Mint{Address: surfpool.WrappedSOL, Program: solanatx.TokenProgram, Decimals: 9}
	l.do(t, wrapped.CreateAccount(payer, stranger), surfpool.TransferLamports(stranger,
		wrapped.AssociatedAccount(stranger), 1000), surfpool.SyncNative(wrapped.AssociatedAccount(stranger)))
	l.do(t, wrapped.CreateAccount(payer, a), wrapped.TransferTokens(wrapped.AssociatedAccount(stranger),
		wrapped.AssociatedAccount(a), stranger, 91))
	// Without a separate rent, the lamport of the account is wrapped too.
	expect("wrapped SOL", a, one(91+1, wrapped.Address, stranger, wrapped.AssociatedAccount(a)))
	a = l.Account(t)
	l.do(t, wrapped.CloseAccount(wrapped.AssociatedAccount(stranger), a, stranger))
	expect("an account that is closed to somebody", a, freed(one(1000-91+1, "", stranger, a)))

	l.Mine(t, 1)
	l.Finalize(t)
	var paid money.Amount
	block, err := l.chain.Reader.Final(t.Context(), start)
	if err != nil {
		t.Fatal(err)
	}
	if !block.BalancesProven || block.Verified == "" || block.Providers != 1 {
		t.Errorf("block %d: got %+v, want it weighed and verified by one", start, block)
	}
	for _, f := range block.Fees {
		if f.Payer == payer {
			paid = f.Amount
		}
	}
	for _, x := range all {
		var in []chain.Transfer
		for _, tr := range block.Transfers {
			if tr.To == x.to {
				if tr.Tx == "" {
					t.Errorf("%s: got no transaction, want one", x.what)
				}
				tr.Tx, tr.To = "", ""
				in = append(in, tr)
			}
		}
		if !slices.Equal(in, x.want) {
			t.Errorf("%s: got %+v, want %+v", x.what, in, x.want)
		}
	}
	// All that the payer lost except the rent of accounts, which is a lamport each here, with the
	// priority fee that the node does not count.
	had := money.Units(1000 * surfpool.LamportsPerSOL)
	has, err := l.chain.Reader.Balances(t.Context(), l.latest(t), []chain.Holding{{Address: payer}})
	if err != nil {
		t.Fatal(err)
	}
	lost, err := had.Sub(has[0])
	if err != nil {
		t.Fatal(err)
	}
	if rents, err := lost.Sub(paid); err != nil || !rents.Less(money.Units(20)) || !money.Units(300_000).Less(paid) {
		t.Errorf("got fees of %v, %v, want the %v that the payer lost", paid, err, lost)
	}
}

// A balance in a block is the balance at that time, after any later change of the accounts.
func TestBalancesAreTakenBack(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	payer, stranger := surfpool.AddressOf(l.payer), surfpool.AddressOf(l.stranger)
	rich, poor, none := l.Account(t), l.Account(t), l.Account(t)
	l.do(t, slices.Concat(l.moves(chain.Token, rich, 100), l.moves(chain.Native, rich, 200))...)
	l.Mine(t, 1)
	then := l.latest(t)

	// One more account, one account less, one with a new owner, and lamports that leave.
	other := newKey(t)
	at := surfpool.AddressOf(other)
	l.do2(t, other, surfpool.CreateAccount(payer, at, usdc.Program, 1, 165), usdc.InitializeAccount(at, rich),
		usdc.TransferTokens(usdc.AssociatedAccount(stranger), at, stranger, 7))
	l.Mine(t, 1)
	between := l.latest(t)
	l.send(t, surfpool.Transaction{
		Keys: []ed25519.PrivateKey{l.payer, l.keys[rich]},
		Instructions: []surfpool.Instruction{
			usdc.CreateAccount(payer, poor),
			usdc.TransferTokens(usdc.AssociatedAccount(rich), usdc.AssociatedAccount(poor),
				rich, 100),
			usdc.CloseAccount(usdc.AssociatedAccount(rich), rich, rich), usdc.SetOwner(at, rich,
				poor), surfpool.TransferLamports(rich, poor, 151),
		},
	})
	l.Mine(t, 1)
	now := l.latest(t)
	l.do(t, l.moves(chain.Token, rich, 1)...) // in the slot that is being filled
	l.Mine(t, 3)

	of := []chain.Holding{
		{Address: rich},
		{Address: rich, Contract: usdc.Address},
		{Address: poor},
		{Address: poor, Contract: usdc.Address},
		{Address: none},
		{Address: none, Contract: usdc.Address},
		{Address: rich, Contract: surfpool.USDT},
	}
	for _, c := range []struct {
		at   chain.Block
		want []uint64
	}{
		{then, []uint64{200, 100, 0, 0, 0, 0, 0}},
		{between, []uint64{200, 107, 0, 0, 0, 0, 0}},
		{now, []uint64{50, 0, 151, 107, 0, 0, 0}},
		{l.latest(t), []uint64{50, 1, 151, 107, 0, 0, 0}},
	} {
		got, err := l.chain.Reader.Balances(t.Context(), c.at, of)
		if err != nil {
			t.Fatalf("in block %d: %v", c.at.Height, err)
		}
		for i := range of {
			if got[i] != money.Units(c.want[i]) {
				t.Errorf("%+v in block %d: got %v, want %d", of[i], c.at.Height, got[i], c.want[i])
			}
		}
	}
}

// An address can send if it has a key: not without one, and not if a program owns it.
func TestAnAddressWithoutAKeyOfItsOwnIsAPrograms(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	paid, nonce, odd := l.Account(t), l.Account(t), l.Account(t)
	l.Pay(t, chain.Token, paid, money.Units(1))
	if err := l.node.SetAccount(t.Context(), nonce, 1, solanatx.SystemProgram, make([]byte, 80)); err != nil {
		t.Fatal(err)
	}
	if err := l.node.SetAccount(t.Context(), odd, 1, solanatx.TokenProgram, nil); err != nil {
		t.Fatal(err)
	}
	l.Mine(t, 1)
	at := l.latest(t)
	for a, want := range map[chain.Address]chain.AccountKind{
		l.Account(t): chain.KeyAccount, paid: chain.KeyAccount, surfpool.AddressOf(l.payer): chain.KeyAccount,
		usdc.AssociatedAccount(paid):         chain.ContractAccount,
		usdc.AssociatedAccount(l.Account(t)): chain.ContractAccount, nonce: chain.ContractAccount,
		odd: chain.ContractAccount, usdc.Address: chain.ContractAccount, solanatx.TokenProgram: chain.ContractAccount,
	} {
		if got, err := l.chain.Reader.Kind(t.Context(), at, a); err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %s", a, got, err, want)
		}
	}
}

// place creates a mint and gives the external account a balance of it.
func (l *lab) place(t testing.TB, m surfpool.Mint) {
	t.Helper()
	l.waits.Store(true)
	if err := l.node.PlaceMint(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if err := l.node.MintTo(t.Context(), m, surfpool.AddressOf(l.stranger), 1_000_000); err != nil {
		t.Fatal(err)
	}
}

// do2 is do with another key that signs.
func (l *lab) do2(t testing.TB, other ed25519.PrivateKey, ins ...surfpool.Instruction) {
	t.Helper()
	l.waits.Store(true)
	if _, err := l.node.SendAndCheck(t.Context(),
		surfpool.Transaction{Keys: []ed25519.PrivateKey{l.payer, l.stranger, other}, Instructions: ins}); err != nil {
		t.Fatal(err)
	}
}

func (l *lab) latest(t testing.TB) chain.Block {
	t.Helper()
	h, err := l.chain.Reader.Heads(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return h.Latest
}
