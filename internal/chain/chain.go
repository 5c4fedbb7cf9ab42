// Package chain holds the words that every chain shares (names, addresses,
// blocks, transfers) and the ports that an adapter implements: Grammar for its
// addresses, Reader for what happened on it, Sender for what we put on it.
//
// There is no I/O here. What an adapter cannot prove it reports as an error,
// never as "nothing": an empty answer is an answer only when it was verified.
package chain

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/cofferpay/coffer/internal/money"
)

// Name is a chain as the API names it. Whether it is the main network, a test
// network or the local one is configuration, not another name.
type Name string

// The chains that have a name. An installation runs those it configures.
const (
	Ethereum  Name = "ETHEREUM"
	Base      Name = "BASE"
	Arbitrum  Name = "ARBITRUM"
	Optimism  Name = "OPTIMISM"
	Polygon   Name = "POLYGON"
	BSC       Name = "BSC"
	Avalanche Name = "AVALANCHE"
	Solana    Name = "SOLANA"
	Bitcoin   Name = "BITCOIN"
	Tron      Name = "TRON"
)

// Names are all chains that have a name.
var Names = []Name{Ethereum, Base, Arbitrum, Optimism, Polygon, BSC, Avalanche, Solana, Bitcoin, Tron}

// Family is a set of chains with one form of address and of key. A customer has
// one address per family, so a transfer on the wrong chain of the family can
// be recovered.
type Family string

// The families.
const (
	EVM           Family = "EVM"
	SolanaFamily  Family = "SOLANA"
	BitcoinFamily Family = "BITCOIN"
	TronFamily    Family = "TRON"
)

// Family tells the family of a chain, or "" for an unknown name.
func (n Name) Family() Family {
	switch n {
	case Ethereum, Base, Arbitrum, Optimism, Polygon, BSC, Avalanche:
		return EVM
	case Solana:
		return SolanaFamily
	case Bitcoin:
		return BitcoinFamily
	case Tron:
		return TronFamily
	}
	return ""
}

// IsUTXO tells whether accounts on the chain are coins, of which any of an
// organization's pays anything: see Pool.
func (n Name) IsUTXO() bool { return n.Family().IsUTXO() }

// IsUTXO is Name.IsUTXO of the chains of a family.
func (f Family) IsUTXO() bool { return f == BitcoinFamily }

// Address is an address in the one canonical text form of its family (EVM: with
// its EIP-55 checksum), so that equal addresses are equal strings.
type Address string

// TxHash is a transaction's identifier in the canonical text form of its chain.
type TxHash string

// Block names a block. Heights grow along a chain, and those of some chains leave
// numbers out (Solana: slots): what ties one block to the next is the parent's hash.
type Block struct {
	Height uint64
	Hash   string
	Parent string // hash of the block before
	Time   time.Time
}

// Kind is how value moved inside a transaction.
type Kind string

// The kinds of movement.
const (
	Native   Kind = "NATIVE"   // the transaction's own value
	Internal Kind = "INTERNAL" // native coin moved by a contract, found in a trace
	Token    Kind = "TOKEN"    // a token's transfer
)

// Transfer is one movement of value in a block. (chain, Tx, Kind, Position)
// identifies it for ever: a fork that puts the transaction into another block
// keeps all four.
type Transfer struct {
	Tx   TxHash
	Kind Kind
	// Position is where inside the transaction: a log's ordinal in its receipt, a trace
	// path, an output's number, the account that received; "" where the kind says it all.
	Position string
	Contract Address // the token, or "" for the native coin
	// From is who sent it alone. It is "" where the block does not tell, several did or
	// nobody can be named: Reader.Senders is asked which. To is who owns it now, never a
	// mere account for a token.
	From, To Address
	Amount   money.Amount
	LogIndex uint64 // block-wide log index: an attribute for display, not identity; 0 unless Token
	// Freed says that the native coin came out of accounts for tokens alone, where no balance
	// of anybody's shows it: From is whose accounts those were, and has not less for it.
	Freed bool
}

// Fee is what an account paid for its transactions in a block, in native units.
type Fee struct {
	Payer  Address
	Amount money.Amount
}

// Contents is a block with all that moved in it, successful movements only.
type Contents struct {
	Block
	Transfers []Transfer
	Fees      []Fee // one a payer
	// BalancesProven says that the amounts are taken from balances that the block itself
	// carries, or that it proves them otherwise: nobody has to be asked for balances to
	// believe them.
	BalancesProven bool
	// Traced says that Internal movements are looked for: they are among Transfers, or the
	// Reader is a Tracer, which is asked for them. Without it a native balance may rise with
	// nothing here to explain it.
	Traced bool
	// Providers is how many providers gave this same block; Verified how its
	// contents were checked against its header, such as "receipts-root".
	Providers int
	Verified  string
	// Depth is how many blocks a final block is known to have in it at least, itself and
	// those after it; 0 where the chain has another word for final and nothing is counted.
	Depth uint64
}

// Holding is an address and a token ("" for the native coin) whose balance is asked.
type Holding struct {
	Address  Address
	Contract Address
}

// Errors that an adapter reports; anything else is "unknown, ask again".
var (
	// ErrUndecodable says that a block was fetched and cannot be understood.
	// The walk stops there and an operator is told; it is never skipped.
	ErrUndecodable = errors.New("block cannot be decoded")
	// ErrDisagreement says that providers contradict one another about a final block.
	ErrDisagreement = errors.New("providers disagree")
	// ErrStateGone says that providers no longer keep the state of a block, so that
	// its balances cannot be asked. No waiting mends that: an archive does.
	ErrStateGone = errors.New("the state of the block is no longer kept")
	// ErrNotYet says that the block asked for is beyond what enough providers have.
	ErrNotYet = errors.New("not there yet")
	// ErrTooFewProviders says, of an adapter that was just opened, that fewer providers answered than
	// have to agree, and that none of those is of another network. The adapter can be used: it
	// meets each provider before it asks it anything.
	ErrTooFewProviders = errors.New("too few providers answer")
	// ErrExpires says that a chain has no cancel: of a slot there one transaction may be
	// signed, which nothing replaces, and what is not mined until it expires never is.
	ErrExpires = errors.New("a transaction of this chain cannot be cancelled or replaced: it ends when it expires")
)

// Heads are the tips of a chain. Final is past the configured number of
// providers; Latest is what the first provider that answers shows.
type Heads struct{ Latest, Final Block }

// Reader tells what happened on a chain. Every method may be called again after
// an error and is safe for concurrent use. Nothing it reports is durable.
type Reader interface {
	// Heads asks for the tips.
	Heads(ctx context.Context) (Heads, error)
	// Final is the first block at or above a height, at or below the final head: the
	// configured number of providers agree on its hash and its contents are checked
	// against its header. Where heights are left out it has proof that there is none
	// between. Errors: ErrNotYet, ErrDisagreement, ErrUndecodable.
	Final(ctx context.Context, height uint64) (Contents, error)
	// Recent is the first block at or above a height as the first provider that answers shows
	// it now. It may be forked away; nothing may be credited from it.
	// Errors: ErrNotYet, ErrUndecodable.
	Recent(ctx context.Context, height uint64) (Contents, error)
	// Demote says that what Heads calls the latest block and what Recent shows
	// contradict one another or what is final. Another provider is asked first for
	// both from now on. What is final is agreed upon and needs no such thing.
	Demote()
	// Balances are the balances in a named block, in the order asked; the
	// configured number of providers agree on all of them. A provider that no longer has that state is an error. Error:
	// *NoBalanceError when all that fails is that contracts give no balance; the
	// function Balances asks again without those.
	Balances(ctx context.Context, at Block, of []Holding) ([]money.Amount, error)
	// Senders are all addresses that each of some movements of a named block came from, in
	// the order of the movements: each address once, sorted, and none at all where one of
	// those who sent it cannot be named. What it answers is proven by the block. It may
	// cost requests for each movement, so it is asked about those that matter.
	Senders(ctx context.Context, at Block, of []Transfer) ([][]Address, error)
	// Kind tells who can send from an address, as of a named block: Keyed when the
	// configured number of providers say so, and Programmed as soon as one that is asked
	// does. Error: nobody can say, as where the state of the block is no longer kept.
	Kind(ctx context.Context, at Block, of Address) (AccountKind, error)
}

// Senders answers Reader.Senders for a chain on which a block tells who sent a movement.
func Senders(of []Transfer) [][]Address {
	all := make([][]Address, len(of))
	for i, t := range of {
		if t.From != "" {
			all[i] = []Address{t.From}
		}
	}
	return all
}

// TokenInspector is what the Reader of a chain also tells where a wallet's tokens lie in accounts
// of its own, as many as anybody likes, and where a token can be made to do more to its
// holders than its transfers say. Elsewhere balances tell both.
type TokenInspector interface {
	// IsAuxiliaryAccount tells whether a transfer came to an account of its receiver that payments of
	// theirs do not come out of. It asks nobody.
	IsAuxiliaryAccount(t Transfer) bool
	// InspectToken says in words why a token is not the money that the catalogue takes it for,
	// as it is finally, and "" when nothing speaks against it. As many providers as have to
	// agree said so. Errors: ErrDisagreement among others; nobody knows then.
	InspectToken(ctx context.Context, token Address) (why string, err error)
}

// Tracer is what the Reader of a chain also tells where contracts move the native coin
// inside transactions and the block does not say so. What it tells is the word of
// providers: balances that enough of them agree on verify it.
//
// The sender of a transaction decides how long the trace of its calls is. So the question
// that is asked about every block has an answer that the block's gas bounds, calls are
// traced of single transactions, and no answer is held whole.
type Tracer interface {
	// BalanceChanges are the native balances that those transactions of a named block changed that
	// can have moved coin inside, by the word of so many providers: what any of them says is
	// there. Error: none of them could be asked.
	BalanceChanges(ctx context.Context, at Block, by ProviderCount) (BalanceChanges, error)
	// InternalTransfers are the Internal movements of one transaction. Every error says that they are not known
	// now; another attempt, which may take more, can succeed.
	InternalTransfers(ctx context.Context, q InternalTransfersQuery) ([]Transfer, error)
}

// ProviderCount is how many providers are asked for what one can tell.
type ProviderCount int

// The numbers of opinions.
const (
	FirstProvider     ProviderCount = iota // the first that answers
	QuorumOfProviders                      // as many as have to agree on a final block, or all that answer
	AllProviders                           // all that answer
)

// BalanceChanges is what providers say about native balances in a block.
type BalanceChanges struct {
	// Traced is false when no provider traces, or none is to be asked. The rest is empty then.
	Traced  bool
	Changes []BalanceChange // in the order of the block's transactions
	// Untraceable are transactions about which no provider could tell within the bounds on an
	// answer's size and time.
	Untraceable []TxHash
}

// BalanceChange is a native balance that a transaction changed.
type BalanceChange struct {
	Tx      TxHash
	Address Address
	Change  *big.Int // nil: the provider does not tell how much
}

// InternalTransfersQuery asks for the Internal movements of one transaction.
type InternalTransfersQuery struct {
	Block      Block
	Tx         TxHash
	Recipients []Address // movements to these alone are told
	// Providers is how many providers have to say the same; those that do not trace do not count.
	Providers ProviderCount
	// Attempt counts the attempts, from 0: a later one accepts a longer answer, and waits longer for it.
	Attempt int
	// Check says why an answer cannot be true; another provider is asked then. nil accepts all.
	Check func([]Transfer) error
}

// CallResult is what a contract answered at one provider, in that provider's latest block.
type CallResult struct {
	At   Block
	Data []byte // empty where there is no contract
}

// AccountKind is who can send from an address.
type AccountKind string

// The kinds of account.
const (
	KeyAccount      AccountKind = "KEYED"      // whoever has its key, also where the key lends it to a program
	ContractAccount AccountKind = "PROGRAMMED" // a program alone, a contract: what comes to it may stay there
)

// TokenAccounts is there where holding a token takes an account of its own with native coin in
// it, which comes back when that is closed.
type TokenAccounts interface {
	// ReclaimableRent tells of each token holding how much comes back when its account is closed, by the
	// final state: as many providers as have to agree say that it is there, empty and what
	// payments of ours make and use. It is zero for every other.
	ReclaimableRent(ctx context.Context, of []Holding) ([]money.Amount, error)
	// Rent is what an account that is made for a token takes to live. It is pure.
	Rent(contract Address) (money.Amount, error)
}

// ContractCaller asks contracts, of chains that have such. It may be asked again after an
// error and is safe for concurrent use.
type ContractCaller interface {
	// Call asks a contract at as many providers at least as have to agree on a final
	// block. They may be at different blocks; who asks compares what they say.
	Call(ctx context.Context, to Address, data []byte) ([]CallResult, error)
}

// NoBalanceError says that contracts gave no balance in a block: the call reverted, or
// there is no contract. As many providers as have to agree on a final block said
// so: it is an answer and not a bad day of theirs.
type NoBalanceError struct {
	Holdings []Holding
	Reason   string // what one of them said
}

// Error names the contract of the first one.
func (e *NoBalanceError) Error() string {
	if len(e.Holdings) == 0 {
		return "no balance"
	}
	return fmt.Sprintf("%s gives no balance of %s: %s", e.Holdings[0].Contract, e.Holdings[0].Address, e.Reason)
}

// Balances asks for balances in a block and goes on without those that a contract
// does not give: one broken token must not hide what all others hold. Those are in
// silent, with why; native coin never is. Every other failure is an error.
func Balances(ctx context.Context, r Reader, at Block, of []Holding) (have map[Holding]money.Amount, silent map[Holding]string, err error) {
	have, silent = map[Holding]money.Amount{}, map[Holding]string{}
	for len(of) > 0 {
		got, err := r.Balances(ctx, at, of)
		var none *NoBalanceError
		if errors.As(err, &none) {
			left := slices.DeleteFunc(slices.Clone(of), func(h Holding) bool { return h.Contract != "" && slices.Contains(none.Holdings, h) })
			if len(left) == len(of) {
				return nil, nil, err
			}
			for _, h := range none.Holdings {
				silent[h] = none.Reason
			}
			of = left
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		if len(got) != len(of) {
			return nil, nil, fmt.Errorf("asked for %d balances in block %d, got %d", len(of), at.Height, len(got))
		}
		for i, h := range of {
			have[h] = got[i]
		}
		break
	}
	return have, silent, nil
}

// Payment is what a transaction of ours has to do: move exactly Amount of
// Contract ("" for the native coin) from From to To.
type Payment struct {
	From, To Address
	Payer    Address // who pays the fee and has the slot, where that is not From
	Contract Address
	Amount   money.Amount
	// CreatesNonceAccount says that it makes a place of From's at To, where Amount stays as long as
	// there is the place: see Places.
	CreatesNonceAccount bool
	// ClosesTokenAccount says that it closes the account that From has for Contract, which is empty, and
	// that the native coin in it, about Amount, goes to To: see Accounts.
	ClosesTokenAccount bool
}

// Slot is the place on a chain that a transaction of ours takes. Of two transactions in
// one slot at most one is ever mined.
type Slot struct {
	// Nonce counts the transactions of the account that pays for them, one by one: by the
	// chain where it numbers them, else by us alone.
	Nonce uint64 `json:"nonce"`
	// Key names the place where the chain numbers nothing. Solana: the nonce account
	// and the value that it has, in base58 with a space between; of what makes that
	// account, its address alone. Bitcoin: the coins that are spent and where their change
	// goes, see Pool.
	Key string `json:"lease,omitempty"`
}

// String names the slot for a person. A lease of many coins is cut short.
func (s Slot) String() string {
	const leaseBytesMax = 200
	if len(s.Key) > leaseBytesMax {
		return fmt.Sprintf("slot %d (%s…)", s.Nonce, s.Key[:leaseBytesMax])
	}
	if s.Key != "" {
		return fmt.Sprintf("slot %d (%s)", s.Nonce, s.Key)
	}
	return fmt.Sprintf("nonce %d", s.Nonce)
}

// Fees bound what a transaction may cost, in native units.
type Fees struct {
	GasLimit uint64
	TipCap   money.Amount // EVM: priority fee per gas
	FeeCap   money.Amount // EVM: most that is paid per gas
	// NonGas is what may be asked beside gas. Where a chain pays for its data on a layer
	// below it is no part of the transaction: an estimate with room. Where FeeCap is zero
	// it is all that the transaction may cost. On Solana TipCap is then millionths of a
	// unit for each of GasLimit; on Bitcoin TipCap is units for a thousand virtual bytes
	// and GasLimit the virtual bytes.
	NonGas money.Amount
	// Rent is the part of Beside that stays in accounts which the transaction makes for its
	// payees. It is told by Quote and is no part of the transaction.
	Rent money.Amount
	// RecentBlockhash is the block that a transaction without a place has to name, where its chain
	// knows such, and Until the number of the last block that it can be in; see Places.
	// "" and 0 for every other.
	RecentBlockhash string
	LastValidBlock  uint64
}

// Max is the most that a transaction with these fees can cost. Error: money.ErrRange.
func (f Fees) Max() (money.Amount, error) {
	gas, err := f.FeeCap.Mul(f.GasLimit)
	if err != nil {
		return money.Zero, err
	}
	return gas.Add(f.NonGas)
}

// Answer is what a provider said to a transaction of ours. There is no "refused":
// every answer but these two leaves it unknown whether the transaction is out.
type Answer int

// The answers.
const (
	Unknown  Answer = iota // an error, a time-out, a sentence: it may be out or not
	Accepted               // a provider took it
	Known                  // a provider had it already
)

// Account is where an account's own transactions stand.
type Account struct {
	Latest uint64 // the next nonce after what is mined at the latest block
	Final  uint64 // the next nonce after what is final
	// KeyedSlots says that the chain does not number the account's transactions: then Leases
	// are all the places that it has, and the two above mean nothing.
	KeyedSlots bool
	Slots      []SlotState
	// Creatable are the places that can be made, each under the Slot.Key of what makes it.
	Creatable []SlotState
}

// SlotState is a place that an account has: the Slot.Key under which a transaction can
// take it after the latest block, and after the final one. They differ when something
// took it that is not final.
type SlotState struct {
	Latest, Final string
	// Proof is that of Final, once somebody has looked for it: see Proofs.
	Proof string
}

// IsUsed tells whether something has taken a slot, in the latest block and finally.
func (a Account) IsUsed(s Slot) (latest, final bool) {
	if !a.KeyedSlots {
		return s.Nonce < a.Latest, s.Nonce < a.Final
	}
	latest, final = true, true
	for _, l := range append(slices.Clip(a.Slots), a.Creatable...) {
		latest, final = latest && l.Latest != s.Key, final && l.Final != s.Key
	}
	return latest, latest && final
}

// IsNext tells whether nothing but the slot's own transaction keeps it from being mined.
func (a Account) IsNext(s Slot) bool {
	if !a.KeyedSlots {
		return s.Nonce == a.Latest
	}
	latest, _ := a.IsUsed(s)
	return !latest
}

// Outcome is a transaction of ours that is in a block.
type Outcome struct {
	Tx        TxHash
	Block     Block
	Succeeded bool         // the chain's own status
	Paid      bool         // the movement of every payment is among the transaction's effects
	Fee       money.Amount // what it cost, in native units
	// Rent is the part of Fee that stays in an account which a single payment made for its
	// payee.
	Rent money.Amount
}

// Cause is what a refusal of the chain is about, as far as the chain tells.
type Cause string

// The causes. What a payment is refused for decides what becomes of it: the first waits
// until the token or the account may move again, the second until the providers show what
// the books have, and the other two never pass by waiting.
const (
	CauseUnknown Cause = ""        // the chain does not tell
	CauseAccount Cause = "ACCOUNT" // the token, or the paying account as a whole
	CauseFunds   Cause = "FUNDS"   // the paying account shows less than the amount
	CausePayee   Cause = "PAYEE"   // this payee receives nothing
	CauseAmount  Cause = "AMOUNT"  // this payee cannot receive this amount, and could receive another
)

// InsufficientFeeError says that a payment could not be tried out because its payer does not hold
// the amount and the fee. Nothing was sent.
type InsufficientFeeError struct{ Fee money.Amount } // the most that the fee may be

// Error says what the payer would need.
func (e *InsufficientFeeError) Error() string {
	return fmt.Sprintf("the payer does not hold the amount and a fee of up to %v", e.Fee)
}

// RevertedError says that a simulation on the current state proves that a payment
// would fail, for example because a token blacklists the receiver. Nothing was sent.
type RevertedError struct {
	Reason string
	Cause  Cause
}

// Error is the reason that the chain gave.
func (e *RevertedError) Error() string { return "payment would revert: " + e.Reason }

// Sender puts payments onto a chain. It holds no keys. All methods may be
// called again and are safe for concurrent use.
//
// A transaction makes one payment, or where the chain can do that several at once, of
// one account: all of them or none.
type Sender interface {
	// BatchSize is how many of payments of one account, from the first one on, one transaction
	// can make: 1 at least, and 1 where transactions make one payment. It is pure.
	BatchSize(ps []Payment) int
	// Quote simulates a transaction that makes these payments and proposes its fees,
	// within the configured cap. Errors: *RevertedError when the chain refuses it as
	// things stand, *InsufficientFeeError when the payer lacks the fee that trying it out takes.
	Quote(ctx context.Context, ps ...Payment) (Fees, error)
	// TransferFees are the fees of a usual token transfer as things stand,
	// without simulating one: for deciding whether a transfer is worth it.
	TransferFees(ctx context.Context) (Fees, error)
	// Bump proposes fees for a replacement of a transaction that is not mined,
	// high enough for every node to take it, within the configured cap; ok is
	// false when the cap forbids it.
	Bump(ctx context.Context, last Fees) (fees Fees, ok bool, err error)
	// Build encodes the unsigned transaction that makes payments in a slot of an account.
	// It is pure: same input, same bytes. Without payments it is a cancel: nothing from
	// the account to itself.
	Build(account Address, s Slot, fees Fees, ps ...Payment) (payload []byte, err error)
	// Send gives signed bytes to every provider and reports the best answer,
	// with what was said in words.
	Send(ctx context.Context, raw []byte) (Answer, string)
	// Account asks where an account stands. A slot counts as used only when as many providers
	// as have to agree say so. open are the slots that are asked about, for chains that know
	// places only by name.
	Account(ctx context.Context, a Address, open ...Slot) (Account, error)
	// Outcome looks for whichever of the transactions is in a block; nil when
	// none of the providers has one. Without payments it is about a cancel. Error:
	// ErrNotYet while one is in a block whose results cannot be checked yet.
	Outcome(ctx context.Context, txs []TxHash, ps ...Payment) (*Outcome, error)
}

// SinglePayment is the payment of a transaction that makes no more than one, or nil for a cancel.
func SinglePayment(ps []Payment) (*Payment, error) {
	switch len(ps) {
	case 0:
		return nil, nil
	case 1:
		return &ps[0], nil
	}
	return nil, fmt.Errorf("%d payments, and a transaction makes one here", len(ps))
}

// MakesPayments tells whether every payment has a movement of its own among the effects of a
// transaction. is compares one with another.
func MakesPayments(effects []Transfer, ps []Payment, is func(Transfer, Payment) bool) bool {
	left := slices.Clone(effects)
	for _, p := range ps {
		i := slices.IndexFunc(left, func(t Transfer) bool { return is(t, p) })
		if i < 0 {
			return false
		}
		left = slices.Delete(left, i, i+1)
	}
	return len(ps) > 0
}

// Output is an output of a transaction that is ours: it is spent whole, once.
type Output struct {
	Outpoint string  // its transaction and number, with a colon between
	Owner    Address // whose key spends it
	Amount   money.Amount
}

// UTXOModel is how a chain pays on which accounts are coins: any of an organization's coins
// can pay anything, and what is left of them comes back as another. A slot is then the
// set of coins that a transaction spends, so two in one slot are never both mined. It
// is pure.
type UTXOModel interface {
	// SelectOutputs picks coins that make payments at the price of fees, names the slot that
	// spends them, and says what it costs. All of must are among them, and of from as
	// many as it takes, which may be none. What is left goes to change. It chooses the
	// same from the same. Error: *InsufficientOutputsError.
	SelectOutputs(must, from []Output, change Address, price Fees, ps ...Payment) (lease string, fees Fees, err error)
	// Inputs are the coins of a lease.
	Inputs(lease string) ([]Output, error)
}

// Consolidator is how small coins of an organization become one while transactions cost little,
// so that later ones, which may cost much, spend fewer. Price alone asks anybody.
type Consolidator interface {
	// QuoteConsolidation is what a merge is offered as things stand; low says that it is little enough
	// to make one.
	QuoteConsolidation(ctx context.Context) (price Fees, low bool, err error)
	// ConsolidationRange are the amounts of coins that are worth it at that price: more than over, which
	// is what it costs to spend one, and no more than upto.
	ConsolidationRange(price Fees) (over, upto money.Amount)
	// InputCounts are how many coins become one, at least and at most.
	InputCounts() (least, most int)
	// MaxPaymentInputs is how many coins one payment spends at the most.
	MaxPaymentInputs() int
	// Consolidate names the slot that spends coins and gives all of them back as one, and says what that
	// costs. Its transaction is built as a cancel is. Error: *InsufficientOutputsError.
	Consolidate(coins []Output, change Address, price Fees) (lease string, fees Fees, err error)
}

// InsufficientOutputsError says that the coins there are do not suffice.
type InsufficientOutputsError struct {
	Missing money.Amount
	// TooManyInputs says that there are more coins than one transaction spends.
	TooManyInputs bool
}

// Error says how much is missing.
func (e *InsufficientOutputsError) Error() string {
	return fmt.Sprintf("the coins that can be spent lack %v", e.Missing)
}

// NonceAccounts is how the places of an account are made on a chain that does not number its
// transactions. What makes one has no place to be sent in: it names a recent block and is
// good for some minutes. Its slot is where it makes the place. That is there once, so of
// all transactions that were made for it one pays; another one is made when Lapsed says
// that none before it is on the chain or ever will be.
type NonceAccounts interface {
	// Creation is the payment that makes the nth place of an account. It is pure. Error: there
	// is no such place.
	Creation(account Address, n int) (Payment, error)
	// Expired tells whether none of these transactions is in a block or ever can be, by the
	// word of as many providers as have to agree on a final block. until is the latest
	// Fees.LastValidBlock of theirs.
	Expired(ctx context.Context, txs []TxHash, until uint64) (bool, error)
	// FindUnknownUse looks at what an account's key has signed for one of its places and is final,
	// back to since, or where that is "" to the first that ours knows, by its hash and the
	// Slot.Key that it took, "" where it is in no form of ours. newest is the newest of
	// them and strange one that ours does not know; "" for none. A signature proves itself,
	// so whoever shows a strange one is right; as many providers are asked as have to agree.
	FindUnknownUse(ctx context.Context, account Address, lease string, since TxHash, ours func(ctx context.Context, tx TxHash, took string) (bool, error)) (newest, strange TxHash, err error)
}

// SlotProver is there where nothing in a transaction tells whether its slot is one: whether what
// it names is the place of an account or something else that the chain would take, so that
// several transactions in the slot were mined. A signer wants that proven.
type SlotProver interface {
	// ProveSlot is what proves a lease of an account. It follows from the lease and never changes.
	// known are hashes of blocks that it may be; the providers are asked when it is none of
	// them, one after the other until one has it: it proves itself, and nobody can make one up.
	// Error: nobody has it.
	ProveSlot(ctx context.Context, account Address, lease string, known ...string) (string, error)
}

// AddressCodec reads addresses. It is pure.
type AddressCodec interface {
	// Parse reads an address as a person or program gives it and returns its
	// canonical form; the error says in words what is wrong with it.
	Parse(s string) (Address, error)
	// ParseContract reads the address of a token, where it need not be one that somebody
	// could hold a key of; the same for the rest.
	ParseContract(s string) (Address, error)
	// IsUnspendable tells whether nobody holds the key of an address (zero, burn
	// addresses, precompiles), so that what goes there is lost.
	IsUnspendable(a Address) bool
	// PaymentURI is the link that a wallet opens to pay a token ("" for the
	// native coin) to an address.
	PaymentURI(a Address, contract Address) string
}

// Network says which network of a chain an installation talks to.
type Network string

// The networks.
const (
	Mainnet Network = "MAINNET"
	Testnet Network = "TESTNET"
	Local   Network = "LOCAL"
)

// MinPayment is there where not every amount of the native coin can reach every address.
type MinPayment interface {
	// MinNativePayment is the smallest payment of the native coin that can reach an address as things
	// stand. Quote refuses less, with CauseAmount. It may be asked again after an error and
	// is safe for concurrent use.
	MinNativePayment(ctx context.Context, to Address) (money.Amount, error)
}

// Memos is there where who pays may write a memo into a transaction.
type Memos interface {
	// Memo is what a transaction has as memo, "" for none, byte for byte. The transaction's id
	// proves it, so one provider is asked, and the next one when its answer proves nothing or it
	// gives none. refused says which answers proved nothing. Error: no provider's answer is
	// proven, as when all have forgotten the transaction.
	Memo(ctx context.Context, tx TxHash) (memo string, refused, err error)
}

// Chain is a configured chain with its adapter.
type Chain struct {
	Name    Name
	Network Network
	CAIP2   string // such as eip155:1
	// SignerID is the network as a signer's policy names it: on EVM the chain id in
	// decimal, which stands in every payload, elsewhere the hash of the first block.
	SignerID     string
	AddressCodec AddressCodec
	Reader       Reader
	Sender       Sender
	// SeparateFeePayer says that the fee of a transaction may be paid by another account than
	// the one whose amount it moves. Then deposit addresses never hold gas.
	SeparateFeePayer bool
	// UTXO is there where accounts are coins, else nil: on the chains that are Pooled. The
	// treasury pays for all that leaves there, so SeparateFeePayer holds.
	UTXO UTXOModel
	// Consolidator is there where small coins are made one, else nil; with Pool only.
	Consolidator Consolidator
	// MinBalance is the least of the native coin that an account has unless it has nothing: the
	// chain refuses what would leave less. Zero where it allows any.
	MinBalance money.Amount
	// MinPayment is there where an address may have to receive more than one unit, else nil.
	MinPayment MinPayment
	// NonceAccounts is there where the chain leases places, else nil.
	NonceAccounts NonceAccounts
	// SlotProver is there where a slot has to be proven to the signer, else nil.
	SlotProver SlotProver
	// TokenAccounts is there where tokens are held in accounts that can be closed, else nil.
	TokenAccounts TokenAccounts
	// Memos is there where payers write memos, else nil.
	Memos Memos
	// Tiers say which deposits of the native coin wait for more than finality.
	Tiers Tiers
	// Addresses is the form that new deposit addresses get.
	Addresses Form
}

// Tier is an amount above which a deposit is credited only when its block is so deep.
type Tier struct {
	Above money.Amount // in native units
	Depth uint64       // blocks: its own, and those after it
}

// Tiers are in no order that matters; the deepest that an amount is above holds.
type Tiers []Tier

// Depth is how deep the block of an amount has to be, and 0 where finality is enough.
func (t Tiers) Depth(a money.Amount) (depth uint64) {
	for _, tier := range t {
		if tier.Above.Less(a) {
			depth = max(depth, tier.Depth)
		}
	}
	return depth
}

// Shortfall is what a payment out of an account has to leave there beside what stays anyway,
// for the chain to let it go.
func (c Chain) Shortfall(anyway money.Amount) money.Amount {
	lack, err := c.MinBalance.Sub(anyway)
	if err != nil || anyway.IsZero() {
		return money.Zero
	}
	return lack
}

// MinPaymentTo is the smallest payment of a token ("" for the native coin) that can reach an
// address as things stand.
func (c Chain) MinPaymentTo(ctx context.Context, contract, to Address) (money.Amount, error) {
	if contract != "" || c.MinPayment == nil {
		return money.Units(1), nil
	}
	return c.MinPayment.MinNativePayment(ctx, to)
}

// Chains are the configured chains by name.
type Chains map[Name]Chain

// AddressCodec is the grammar of a family, or nil when none of its chains is configured.
func (c Chains) AddressCodec(f Family) AddressCodec {
	for name, ch := range c {
		if name.Family() == f {
			return ch.AddressCodec
		}
	}
	return nil
}
