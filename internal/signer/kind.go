package signer

// Kind is what the signer allows the intents of one purpose, and what it counts and checks for
// them. The table is the signer's own: dispatch has another one for its decisions, and neither is
// read for the other's.
type Kind struct {
	Purpose Purpose
	Noun    string // stands for the intent in refusals

	Source Source
	Payee  Payee
	// WalletRule is the refusal of an intent between other wallets; %[1]s is its id, %[2]s the
	// purpose of its wallet.
	WalletRule string
	// PaysGas says that an intent pays the native coin only, and at most the policy's gasMax.
	PaysGas bool

	// NeedsGrant says that an intent comes with the approval of exactly its terms.
	NeedsGrant bool
	// NeedsBalance says that an intent comes with the balance of its wallet, of which it leaves the
	// flagged part.
	NeedsBalance bool
	// MayPayOwnMoney says that an intent without a customer pays the organization's own money, to an
	// endorsed address only, unless it is a refund or a row of an approved batch.
	MayPayOwnMoney bool
	// OncePerKey says that an organization's idempotency key admits one intent.
	OncePerKey bool

	// These say what the transaction does instead of a transfer. A consolidation makes one output of
	// many and is alone in its transaction. It has an amount of zero, as the creation of a token account.
	CreatesNonceAccount, CreatesTokenAccount, ClosesTokenAccount, Consolidates bool
	// These say that the transaction sets the allowance of the payout contract and moves nothing.
	GrantsAllowance, RevokesAllowance bool
	// People says whether an organization's rule asks for signatures of people. Every kind says it.
	People People
	// EachTxCosts says that every transaction of an intent can be mined and charged.
	EachTxCosts bool
}

// Source is a class of wallets that may pay.
type Source string

// The sources.
const (
	FromTreasury Source = "TREASURY"
	FromOther    Source = "OTHER"   // every wallet that is no treasury
	FromDeposit  Source = "DEPOSIT" // every wallet that is neither a treasury nor a change wallet
)

// Includes reports whether a wallet is one of a source.
func (s Source) Includes(w WalletRef) bool {
	switch s {
	case FromTreasury:
		return w.Purpose == TreasuryPurpose
	case FromOther:
		return w.Purpose != TreasuryPurpose
	case FromDeposit:
		return w.Purpose != TreasuryPurpose && w.Purpose != ChangePurpose
	}
	return false
}

// Payee is a class of addresses that may be paid. All but ToAnyone and ToProvider belong to the
// organization.
type Payee string

// The payees.
const (
	ToAnyone       Payee = "ANYONE" // every address outside this installation, under the limits of payments
	ToTreasury     Payee = "TREASURY"
	ToWallet       Payee = "WALLET"
	ToChangeWallet Payee = "CHANGE_WALLET" // one that no other slot names
	ToNonceAccount Payee = "NONCE_ACCOUNT" // a nonce account of the treasury that pays
	ToSharedWallet Payee = "SHARED_WALLET" // the address that checkouts share
	ToPayouts      Payee = "PAYOUTS"       // the payout contract of the chain, whose address follows from its code
	ToProvider     Payee = "PROVIDER"      // a deposit address that a swap provider signed
)

// kinds has one entry for each purpose.
var kinds = []Kind{
	{
		Purpose: Payment, Noun: "payment", Source: FromTreasury, Payee: ToAnyone, People: PeopleByRule,
		WalletRule: "payments are made from the treasury only; intent %[1]s is from a wallet for %[2]s",
		NeedsGrant: true, MayPayOwnMoney: true, OncePerKey: true,
	},
	{
		Purpose: SwapPayment, Noun: "swap payment", Source: FromTreasury, Payee: ToProvider, People: PeopleNever,
		WalletRule: "swap payments are made from the treasury only; intent %[1]s is from a wallet for %[2]s",
		NeedsGrant: true,
	},
	{
		Purpose: Return, Noun: "return", Source: FromDeposit, Payee: ToAnyone, People: PeopleByRule,
		WalletRule: "return %[1]s is not from a deposit address",
		NeedsGrant: true,
	},
	{
		Purpose: Sweep, Noun: "sweep", Source: FromOther, Payee: ToTreasury, People: PeopleNever,
		WalletRule:   "sweep %[1]s does not move money from another wallet to the treasury",
		NeedsBalance: true,
	},
	{
		Purpose: GasTopUp, Noun: "gas top-up", Source: FromTreasury, Payee: ToWallet, People: PeopleNever,
		WalletRule: "gas is paid from the treasury only; intent %[1]s is from a wallet for %[2]s",
		PaysGas:    true,
	},
	{
		Purpose: Consolidate, Noun: "consolidation", Source: FromTreasury, Payee: ToChangeWallet, People: PeopleNever,
		WalletRule:   "consolidation %[1]s does not move outputs of a treasury to a change wallet",
		Consolidates: true,
	},
	{
		Purpose: CreateNonceAccount, Noun: "creation", Source: FromTreasury, Payee: ToNonceAccount, People: PeopleNever,
		WalletRule:          "only treasuries have nonce accounts; intent %[1]s is from a wallet for %[2]s",
		CreatesNonceAccount: true, EachTxCosts: true,
	},
	{
		Purpose: CreateTokenAccount, Noun: "creation", Source: FromTreasury, Payee: ToSharedWallet, People: PeopleNever,
		WalletRule:          "creation %[1]s is of no treasury for the address that its checkouts share",
		CreatesTokenAccount: true,
	},
	{
		Purpose: CloseTokenAccount, Noun: "close", Source: FromOther, Payee: ToTreasury, People: PeopleNever,
		WalletRule:         "close %[1]s does not move the content of another wallet to the treasury",
		ClosesTokenAccount: true,
	},
	{
		Purpose: GrantAllowance, Noun: "allowance", Source: FromTreasury, Payee: ToPayouts, GrantsAllowance: true,
		People:     PeopleNever,
		WalletRule: "only treasuries allow the payout contract anything; intent %[1]s is from a wallet for %[2]s",
	},
	{
		Purpose: RevokeAllowance, Noun: "revocation", Source: FromTreasury, Payee: ToPayouts, RevokesAllowance: true,
		People:     PeopleNever,
		WalletRule: "only treasuries allow the payout contract anything; intent %[1]s is from a wallet for %[2]s",
	},
}

// Kind returns the kind of an intent. An unknown purpose, which no signer admits, has the zero Kind.
func (intent Intent) Kind() Kind {
	for i := range kinds {
		if kinds[i].Purpose == intent.Purpose {
			return kinds[i]
		}
	}
	return Kind{}
}

// IsOutgoing reports whether an intent pays an address outside the installation, under the limits of
// payments. A payment to a swap provider has limits of its own.
func (intent Intent) IsOutgoing() bool { return intent.Kind().Payee == ToAnyone }

// LeavesInstallation reports whether an intent pays an address outside the installation.
func (intent Intent) LeavesInstallation() bool {
	payee := intent.Kind().Payee
	return payee == ToAnyone || payee == ToProvider
}

// PaysNothing reports whether an intent has an amount of zero.
func (intent Intent) PaysNothing() bool {
	return intent.Kind().Consolidates || intent.Kind().CreatesTokenAccount || intent.SetsAllowance()
}

// PaysOwnMoney reports whether an intent pays an organization's own money to an entry of the whitelist: neither a
// customer's money, nor a refund, nor a row of a batch.
func (intent Intent) PaysOwnMoney() bool {
	return intent.Kind().MayPayOwnMoney && intent.CustomerID == "" && intent.Refund == nil && intent.Batch == nil
}
