package dispatch

import (
	"fmt"
	"slices"

	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
)

// Kind describes a kind of order. Code asks for the property that it needs, never for the purpose.
// The signer decides by a table of its own; neither table is read for the other's decisions, and a
// test compares what both say.
type Kind struct {
	Purpose signer.Purpose // its name in rows and at the signer

	Source Source
	Payee  Payee

	// Reserves is the part of the source wallet's funds that contains the amount until the order
	// ends. It is "" if the amount is in no books: it is zero, part of the fee, or on the chain
	// only.
	Reserves wallet.Part
	// ReservedBySubmitter says that the feature reserves the amount when it submits the order.
	// Otherwise dispatch reserves it with the slot.
	ReservedBySubmitter bool
	// Arrives is the part of the receiving wallet's funds that a paid amount is added to. It is ""
	// if there is no such wallet, or if the scan records what arrives.
	Arrives wallet.Part
	// MovesFlagged says that the amount is a flagged deposit, and on UTXO chains its own output.
	// The amount is held until it is reserved, and again if it is not paid.
	MovesFlagged bool
	// AmountInFee says that the quoted fee contains the amount.
	AmountInFee bool
	// NeedsMinBalance says that the order is the first one that a treasury gets, which has to keep
	// the chain's minimum balance as well.
	NeedsMinBalance bool

	// NeedsGrant says that the signer checks an approval of the order, and voids it after a recall.
	NeedsGrant bool
	// ReportsBalance says that the signer compares the amount with the balance of the source wallet
	// and its flagged part.
	ReportsBalance bool

	// These say what the transaction does instead of a transfer. A consolidation makes one output of
	// many and no payment.
	CreatesNonceAccount, CreatesTokenAccount, ClosesTokenAccount, Consolidates bool
	// These say that the transaction sets the allowance of the payout contract and moves nothing.
	GrantsAllowance, RevokesAllowance bool
	// SlotIsPayee says that the slot is the account that the order creates. Such a slot has no
	// proof.
	SlotIsPayee bool
	// Expires says that a transaction can be mined for some minutes only. After that it cannot be
	// sent again, and the order gets another one.
	Expires bool

	// MayBeBatched says that orders of the kind share a transaction with each other.
	MayBeBatched bool
	// IsOptional says that the order is made only when it suits the payments. It is refused instead
	// of waiting for outputs, and its fee is raised only while it delays a payment.
	IsOptional bool
	// NotReplaceable and NotCancellable tell a person why the fee of a transaction cannot be raised,
	// or why no cancel can take its slot. %[1]s is the order's id. They are "" if that is possible.
	NotReplaceable, NotCancellable string

	// RecordsPayeeCosts says that an order records what its payee caused: the rent of an account
	// that was created for it, and a failure.
	RecordsPayeeCosts bool
	// MayArriveShort says that a person can take the order for paid although its payee received
	// less than left the wallet.
	MayArriveShort bool
	// AfterRecall is the sentence for a person about the cause of a recalled order.
	AfterRecall string

	failpoints failpoints
}

// Source is the wallet whose amount an order moves.
type Source string

// The sources.
const (
	FromTreasury Source = "TREASURY"
	FromDeposit  Source = "DEPOSIT" // the address of a customer or of a product
)

// Payee is who may receive the amount of an order.
type Payee string

// The payees. All but ToAnyone, ToProvider and ToPayouts are of the order's organization.
const (
	ToAnyone       Payee = "ANYONE"   // any address outside Coffer
	ToProvider     Payee = "PROVIDER" // a deposit address that a swap provider signed
	ToTreasury     Payee = "TREASURY"
	ToWallet       Payee = "WALLET"
	ToChangeWallet Payee = "CHANGE_WALLET"
	ToNonceAccount Payee = "NONCE_ACCOUNT" // a nonce account of the treasury
	ToSharedWallet Payee = "SHARED_WALLET" // the address that checkouts share
	ToPayouts      Payee = "PAYOUTS"       // the payout contract of the chain
)

// The sentences that several kinds share.
const (
	afterRecallPlanned = "Its amount stays in its wallet, and the service plans it again when it is worth the fee."
	noChangeOfCreation = "Order %[1]s creates a nonce account of its wallet: it has no fee to raise, and no other " +
		"transaction can take its slot. Nothing was done. Its transaction is valid for some minutes; if it is not " +
		"mined by then, the service makes another one."
)

// kinds has one entry for each purpose.
var kinds = []Kind{
	{
		Purpose: signer.Payment, Source: FromTreasury, Payee: ToAnyone,
		Reserves: wallet.Reserved, NeedsGrant: true, MayBeBatched: true, RecordsPayeeCosts: true, MayArriveShort: true,
		AfterRecall: "Its withdrawal is REJECTED and its amount is available again.",
		failpoints:  failpoints{afterStore: "W14", afterProof: "W26", afterEnd: "W27"},
	},
	{
		// It is alone in its transaction, so that it can be cancelled alone.
		Purpose: signer.SwapPayment, Source: FromTreasury, Payee: ToProvider,
		Reserves: wallet.Reserved, NeedsGrant: true,
		AfterRecall: "Its swap fails, and its amount can be restored to the customer.",
		failpoints:  failpoints{afterStore: "W14", afterSend: "Q07", afterProof: "W26", afterEnd: "Q10"},
	},
	{
		Purpose: signer.Return, Source: FromDeposit, Payee: ToAnyone,
		Reserves: wallet.Reserved, ReservedBySubmitter: true, MovesFlagged: true, NeedsGrant: true,
		AfterRecall: "Its deposit is still FLAGGED and waits for another decision.",
		failpoints:  failpoints{afterProof: "W26", afterEnd: "W27"},
	},
	{
		Purpose: signer.Sweep, Source: FromDeposit, Payee: ToTreasury,
		Reserves: wallet.Reserved, ReservedBySubmitter: true, Arrives: wallet.Credited, ReportsBalance: true,
		MayBeBatched: true,
		AfterRecall:  afterRecallPlanned,
		failpoints: failpoints{
			beforeSign: "S06", afterStore: "S04", afterSend: "S05", afterProof: "S09", afterEnd: "W27",
		},
	},
	{
		Purpose: signer.GasTopUp, Source: FromTreasury, Payee: ToWallet,
		Reserves: wallet.GasReserved, Arrives: wallet.Gas,
		AfterRecall: afterRecallPlanned,
		failpoints:  failpoints{afterStore: "S02", afterSend: "F03", afterProof: "W26", afterEnd: "S03"},
	},
	{
		Purpose: signer.Consolidate, Source: FromTreasury, Payee: ToChangeWallet,
		Consolidates: true, IsOptional: true,
		NotCancellable: "Order %[1]s consolidates outputs and makes no payment, so a cancel would be the same " +
			"transaction again. Nothing was done. The order ends when its transaction is mined; `coffer dispatch " +
			"bump %[1]s` raises its fee.",
		AfterRecall: afterRecallPlanned,
		failpoints:  failpoints{afterProof: "W26", afterEnd: "W27"},
	},
	{
		Purpose: signer.CreateNonceAccount, Source: FromTreasury, Payee: ToNonceAccount,
		AmountInFee: true, NeedsMinBalance: true, CreatesNonceAccount: true, SlotIsPayee: true, Expires: true,
		NotReplaceable: noChangeOfCreation, NotCancellable: noChangeOfCreation,
		AfterRecall: afterRecallPlanned,
		failpoints:  failpoints{afterProof: "W26", afterEnd: "W27"},
	},
	{
		// Its amount is zero: the rent is part of the fee.
		Purpose: signer.CreateTokenAccount, Source: FromTreasury, Payee: ToSharedWallet,
		CreatesTokenAccount: true,
		AfterRecall:         "The service plans the account again while the chain lacks it.",
		failpoints:          failpoints{afterProof: "W26", afterEnd: "W27"},
	},
	{
		Purpose: signer.CloseTokenAccount, Source: FromDeposit, Payee: ToTreasury,
		ClosesTokenAccount: true, MayBeBatched: true,
		AfterRecall: afterRecallPlanned,
		failpoints:  failpoints{afterProof: "W26", afterEnd: "W27"},
	},
	{
		Purpose: signer.GrantAllowance, Source: FromTreasury, Payee: ToPayouts,
		GrantsAllowance: true,
		AfterRecall:     "Rows of batches are paid one by one until a person asks for the allowance.",
		failpoints:      failpoints{afterProof: "W26", afterEnd: "W27"},
	},
	{
		Purpose: signer.RevokeAllowance, Source: FromTreasury, Payee: ToPayouts,
		RevokesAllowance: true,
		AfterRecall:      "The allowance stays as it is until a person revokes it again.",
		failpoints:       failpoints{afterProof: "W26", afterEnd: "W27"},
	},
}

// Kinds returns the kinds of orders, one for each purpose.
func Kinds() []Kind { return slices.Clone(kinds) }

// Kind returns the kind of an order. It panics on a purpose without one, which no row can have.
func (o Order) Kind() Kind {
	for i := range kinds {
		if kinds[i].Purpose == o.Purpose {
			return kinds[i]
		}
	}
	panic(fmt.Sprintf("dispatch: order %s has purpose %q, which is no kind of order", o.ID, o.Purpose))
}

// TakesToppedUpGas reports whether a deposit address pays the fee of an order. The treasury then
// sends it the gas that it lacks.
func (o Order) TakesToppedUpGas() bool {
	return o.Kind().Source == FromDeposit && o.FromWalletID == ""
}

// isInternal reports whether the service plans orders of the kind itself, see internal_orders. A
// person may have decided about the others.
func (k Kind) isInternal() bool { return !k.NeedsGrant }

// leavesInstallation reports whether the amount goes to an address outside Coffer. The payee or the
// amount of such an order may be what the chain refuses.
func (k Kind) leavesInstallation() bool { return k.Payee == ToAnyone || k.Payee == ToProvider }

// setsAllowance reports whether an order changes the allowance of the payout contract.
func (k Kind) setsAllowance() bool { return k.GrantsAllowance || k.RevokesAllowance }

// allowancePurposes returns the purposes of the orders that change an allowance.
func allowancePurposes() (purposes []signer.Purpose) {
	for _, k := range kinds {
		if k.setsAllowance() {
			purposes = append(purposes, k.Purpose)
		}
	}
	return purposes
}

// movesGas reports whether the amount is gas of the paying wallet.
func (k Kind) movesGas() bool { return k.Reserves == wallet.GasReserved }

// grantedPurposes returns the purposes of the orders that need a grant.
func grantedPurposes() (granted []signer.Purpose) {
	for _, k := range kinds {
		if k.NeedsGrant {
			granted = append(granted, k.Purpose)
		}
	}
	return granted
}
