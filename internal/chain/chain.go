// Package chain defines the types that every chain shares (names, addresses, blocks, transfers) and
// the ports that an adapter implements: AddressCodec for its addresses, Reader for what happened on
// it, Sender for the transactions of Coffer.
//
// The package does no I/O. An adapter reports what it cannot prove as an error, never as "nothing".
// An empty answer counts as an answer only when it was verified.
package chain

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/cofferpay/coffer/internal/money"
)

// Name is a chain as the API names it. The configuration says whether it is the main network, a
// test network or the local one; the name does not change with it.
type Name string

// The chains that have a name. An installation runs those that it configures. TRON has no adapter,
// so none runs it. It has a name because the API lists it and risk providers cover it.
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

// Names lists all chains that have a name, also TRON.
var Names = []Name{Ethereum, Base, Arbitrum, Optimism, Polygon, BSC, Avalanche, Solana, Bitcoin, Tron}

// Family is a set of chains with one form of address and of key. A customer has one address per
// family, so a transfer on the wrong chain of the family can be recovered.
type Family string

// The families. TronFamily only makes TRON a known chain: the signer has no keys for it.
const (
	EVM           Family = "EVM"
	SolanaFamily  Family = "SOLANA"
	BitcoinFamily Family = "BITCOIN"
	TronFamily    Family = "TRON"
)

// Family returns the family of a chain, or "" for an unknown name.
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

// IsUTXO reports whether funds on the chain are outputs, any of which an organization can use for
// any payment: see UTXOModel.
func (n Name) IsUTXO() bool { return n.Family().IsUTXO() }

// IsUTXO reports for a family what Name.IsUTXO reports for its chains.
func (f Family) IsUTXO() bool { return f == BitcoinFamily }

// Address is an address in the one canonical text form of its family (EVM: with its EIP-55
// checksum), so that equal addresses are equal strings.
type Address string

// TxHash is a transaction's identifier in the canonical text form of its chain.
type TxHash string

// Block identifies a block. Heights grow along a chain, and some chains leave numbers out (Solana:
// slots). The parent's hash ties one block to the next.
type Block struct {
	Height uint64
	Hash   string
	Parent string // hash of the block before
	Time   time.Time
}

// Kind says how value moved inside a transaction.
type Kind string

// The kinds of movement.
const (
	Native   Kind = "NATIVE"   // the transaction's own value
	Internal Kind = "INTERNAL" // native coin moved by a contract, found in a trace
	Token    Kind = "TOKEN"    // a token's transfer
)

// Transfer is one movement of value in a block. (chain, Tx, Kind, Position) identifies it
// permanently: a reorg that moves the transaction into another block keeps all four.
type Transfer struct {
	Tx   TxHash
	Kind Kind
	// Position locates the transfer inside the transaction: a log's ordinal in its receipt, a trace
	// path, an output's number, or the account that received. It is "" where the kind identifies
	// the transfer.
	Position string
	Contract Address // the token, or "" for the native coin
	// From is the sole sender. It is "" where the block does not name the sender, there are several
	// senders, or no sender can be named; Reader.Senders answers in those cases. To is the present
	// owner, and for a token never a mere token account.
	From, To Address
	Amount   money.Amount
	LogIndex uint64 // block-wide log index: an attribute for display, not identity; 0 unless Token
	// Freed says that the native coin came out of token accounts alone, where no balance shows it.
	// From owns those accounts, and its balance does not fall for this transfer.
	Freed bool
}

// Fee is what an account paid for its transactions in a block, in native units.
type Fee struct {
	Payer  Address
	Amount money.Amount
}

// Contents is a block with all its transfers. It holds successful transfers only.
type Contents struct {
	Block
	Transfers []Transfer
	Fees      []Fee // one per payer
	// Mentioned holds, for each transaction with a transfer, the accounts that it names and whose balances it leaves
	// as they are. It is empty where transactions name no such accounts. A payer's wallet names an account there to
	// say what a payment is for.
	Mentioned map[TxHash]AddressList
	// BalancesProven says that the amounts are taken from balances that the block itself carries,
	// or that the block proves them otherwise. The amounts then need no balance query to be
	// believed.
	BalancesProven bool
	// Traced says that Internal transfers are covered: they are among Transfers, or the Reader is a
	// Tracer, which is asked for them. Without it a native balance may rise with no transfer here
	// to explain it.
	Traced bool
	// Providers is the number of providers that gave this same block. Verified says how its
	// contents were checked against its header, such as "receipts-root".
	Providers int
	Verified  string
	// Depth is the least number of blocks that a final block is known to have on it, itself
	// included. It is 0 where the chain defines finality otherwise and nothing is counted.
	Depth uint64
}

// AddressList is a list of addresses as one text, because a block has many thousands of them and almost none is
// looked at. No address contains a space.
type AddressList string

// NewAddressList returns the list of addresses.
func NewAddressList(addresses ...Address) AddressList {
	texts := make([]string, len(addresses))
	for i, a := range addresses {
		texts[i] = string(a)
	}
	return AddressList(strings.Join(texts, " "))
}

// Addresses returns the addresses of the list, in their order.
func (l AddressList) Addresses() (addresses []Address) {
	for text := range strings.FieldsSeq(string(l)) {
		addresses = append(addresses, Address(text))
	}
	return addresses
}

// Holding is an address and a token ("" for the native coin) whose balance is queried.
type Holding struct {
	Address  Address
	Contract Address
}

// Errors that an adapter reports. Any other error means "unknown, ask again".
var (
	// ErrUndecodable says that a block was fetched and cannot be decoded. The scan stops there and
	// alarms an operator; it never skips the block.
	ErrUndecodable = errors.New("block cannot be decoded")
	// ErrDisagreement says that providers contradict one another about a final block.
	ErrDisagreement = errors.New("providers disagree")
	// ErrStateGone says that providers no longer keep the state of a block, so its balances cannot
	// be queried. Waiting does not help; an archive node does.
	ErrStateGone = errors.New("too few providers keep the state of the block")
	// ErrNotYet says that the requested block is beyond what enough providers have.
	ErrNotYet = errors.New("not there yet")
	// ErrTooFewProviders says that fewer providers of a newly opened adapter answered than the
	// quorum needs, and that none of those is of another network. The adapter can be used: it
	// identifies each provider before it sends any query.
	ErrTooFewProviders = errors.New("too few providers answer")
)

// Heads are the tips of a chain. Final has the quorum of providers behind it; Latest is what the
// first provider that answers shows.
type Heads struct{ Latest, Final Block }

// Reader reads what happened on a chain. Every method may be called again after an error and is
// safe for concurrent use. Nothing that it reports is durable.
type Reader interface {
	// Heads returns the tips.
	Heads(ctx context.Context) (Heads, error)
	// Final returns the first block at or above a height, at or below the final head. A quorum of
	// providers agrees on its hash, and its contents are checked against its header. Where heights
	// are left out, the Reader has proof that no block lies between. Errors: ErrNotYet,
	// ErrDisagreement, ErrUndecodable.
	Final(ctx context.Context, height uint64) (Contents, error)
	// Recent returns the first block at or above a height, as the first provider that answers shows
	// it now. A reorg may replace it, so nothing may be credited from it. Errors: ErrNotYet,
	// ErrUndecodable.
	Recent(ctx context.Context, height uint64) (Contents, error)
	// Demote reports that the latest block of Heads and the contents of Recent contradict one
	// another or a final block. From now on the Reader asks another provider first for both. Final
	// blocks have a quorum and are not affected.
	Demote()
	// Balances returns the balances in a named block, in the order of the query. A quorum of
	// providers agrees on all of them. A provider that no longer keeps that state gives an error.
	// Error: *NoBalanceError if the only failure is that contracts give no balance; the function
	// Balances asks again without those.
	Balances(ctx context.Context, at Block, of []Holding) ([]money.Amount, error)
	// Senders returns all sender addresses of each of some transfers of a named block, in the order
	// of the transfers. Each list is sorted and without duplicates; it is empty where one of the
	// senders cannot be named. The block proves the answer. Each transfer may cost requests, so
	// callers ask only about those that matter.
	Senders(ctx context.Context, at Block, of []Transfer) ([][]Address, error)
	// Kind returns who can send from an address, as of a named block. It returns KeyAccount if a
	// quorum of providers says so, and ContractAccount as soon as one provider does. Error: no
	// provider can answer, for example because the state of the block is no longer kept.
	Kind(ctx context.Context, at Block, of Address) (AccountKind, error)
}

// Senders answers Reader.Senders for a chain whose blocks name the sender of a transfer.
func Senders(of []Transfer) [][]Address {
	all := make([][]Address, len(of))
	for i, t := range of {
		if t.From != "" {
			all[i] = []Address{t.From}
		}
	}
	return all
}

// TokenInspector is implemented by the Reader of a chain with two properties. A wallet's tokens lie
// in token accounts, which any person can create in any number. And a token can do more to its
// holders than its transfers show. On other chains balances show both.
type TokenInspector interface {
	// IsAuxiliaryAccount reports whether a transfer arrived at an account of its receiver from
	// which the receiver's payments are not made. It asks no provider.
	IsAuxiliaryAccount(t Transfer) bool
	// InspectToken returns why a token is not the money that the catalogue takes it for, by its
	// final state, and "" when nothing speaks against it. A quorum of providers agrees on the
	// answer. Errors: ErrDisagreement among others; the answer is then unknown.
	InspectToken(ctx context.Context, token Address) (why string, err error)
}

// Tracer is implemented by the Reader of a chain where contracts move the native coin inside
// transactions and the block does not show it. Its answers rest on the word of providers; balances
// with a quorum verify them.
//
// The sender of a transaction decides how long its call trace is. Three rules bound the work:
//   - The answer to the query that is made for every block is bounded by the block's gas.
//   - Calls are traced for single transactions only.
//   - No answer is held in memory as a whole.
type Tracer interface {
	// BalanceChanges returns the native balances that the transactions of a named block changed, of
	// those transactions that can move coin internally. It asks the given number of providers and
	// returns the union of their answers. Error: none of them could be asked.
	BalanceChanges(ctx context.Context, at Block, by ProviderCount) (BalanceChanges, error)
	// InternalTransfers returns the Internal transfers of one transaction. Every error says that
	// they are unknown now; another attempt, which accepts a longer answer, can succeed.
	InternalTransfers(ctx context.Context, q InternalTransfersQuery) ([]Transfer, error)
}

// ProviderCount says how many providers are asked where one can answer.
type ProviderCount int

// The provider counts.
const (
	FirstProvider     ProviderCount = iota // the first that answers
	QuorumOfProviders                      // the quorum of a final block, or all that answer
	AllProviders                           // all that answer
)

// BalanceChanges holds what providers say about native balances in a block.
type BalanceChanges struct {
	// Traced is false if no provider traces or none is to be asked. The other fields are then
	// empty.
	Traced  bool
	Changes []BalanceChange // in the order of the block's transactions
	// Untraceable lists transactions about which no provider could answer within the bounds on an
	// answer's size and time.
	Untraceable []TxHash
}

// BalanceChange is a native balance that a transaction changed.
type BalanceChange struct {
	Tx      TxHash
	Address Address
	Change  *big.Int // nil: the provider does not give the amount
}

// InternalTransfersQuery selects the Internal transfers of one transaction.
type InternalTransfersQuery struct {
	Block      Block
	Tx         TxHash
	Recipients []Address // only transfers to these are returned
	// Providers is how many providers have to give the same answer; those that do not trace do not
	// count.
	Providers ProviderCount
	// Attempt counts the attempts, from 0. A later attempt accepts a longer answer and waits longer
	// for it.
	Attempt int
	// Check returns why an answer cannot be true; another provider is asked then. nil accepts every
	// answer.
	Check func([]Transfer) error
}

// CallResult is what a contract answered at one provider, in that provider's latest block.
type CallResult struct {
	At   Block
	Data []byte // empty where there is no contract
}

// AccountKind says who can send from an address.
type AccountKind string

// The kinds of account.
const (
	KeyAccount      AccountKind = "KEYED"      // the holder of its key, also where the key delegates to a program
	ContractAccount AccountKind = "PROGRAMMED" // a program alone: funds that arrive may stay there
)

// TxLocator is implemented by a Reader that finds transactions of others by their hash.
type TxLocator interface {
	// LocateTx returns the height of the block in which a provider shows a transaction. isFound is false if no
	// provider that answers shows it in a block. The answer is a hint: only the final block at that height
	// proves it. The hash is in any case of letters where the chain writes hashes as hexadecimal numbers.
	LocateTx(ctx context.Context, tx TxHash) (height uint64, isFound bool, err error)
}

// PaymentRequests is implemented by a Reader of a chain whose wallets sign what a page asks them for. The service
// itself signs none of it.
type PaymentRequests interface {
	// BuildRequest returns a transaction without signatures that makes a payment, as wallets of the chain take it.
	// It asks one provider what the accounts hold and which block is recent. *RevertedError says why the payment
	// would fail now; with CauseFunds the payer lacks the amount or the fee. Every other error says nothing about
	// the payment. It changes nothing and may be called again.
	BuildRequest(ctx context.Context, r PaymentRequest) (tx []byte, err error)
}

// PaymentRequest is a payment that a stranger is asked for. The stranger pays the fee.
type PaymentRequest struct {
	Payer, Payee Address
	Contract     Address // "" for the native coin
	Amount       money.Amount
	Reference    [32]byte // an account key by which the payment is found at Payee
}

// TokenAccounts is implemented where holding a token needs an account of its own that contains
// native coin. Closing the account returns that coin.
type TokenAccounts interface {
	// ReclaimableRent returns for each token holding the native coin that closing its account
	// returns, by the final state. A quorum of providers says that the account exists, is empty,
	// and is of the form that Coffer's payments create and use. The result is zero for every other
	// holding.
	ReclaimableRent(ctx context.Context, of []Holding) ([]money.Amount, error)
	// Rent returns the rent of a newly created account for a token. It is pure.
	Rent(contract Address) (money.Amount, error)
	// Existing reports for each token holding whether its account exists, by the final state. It is
	// true only if each of a quorum of providers says so.
	Existing(ctx context.Context, holdings []Holding) ([]bool, error)
}

// PayeeAccounts is implemented where a transaction makes several payments of one account, and the payee of each can
// make all of them fail. It may be called again after an error and is safe for concurrent use.
type PayeeAccounts interface {
	// CanShare reports for each payment whether it may share a transaction with other payments of its account: it
	// creates nothing for its payee, who can receive it in the latest state. One provider says so, and Quote asks
	// again for all of a transaction.
	CanShare(ctx context.Context, ps []Payment) ([]bool, error)
}

// PayoutContract is implemented where a contract makes several payments of a token in one transaction. It moves what an
// account allows it to move, in calls of that account only. The methods that ask providers may be called again after an
// error and are safe for concurrent use.
type PayoutContract interface {
	// Address returns the address of the contract, which follows from its code. It is pure.
	Address() Address
	// IsDeployed reports whether exactly that code stands at the address, in the latest blocks. It is true only if
	// each of a quorum of providers says so.
	IsDeployed(ctx context.Context) (bool, error)
	// Allowance returns how much of a token the contract may move of an owner, in the latest blocks: the least that
	// the providers of a quorum say.
	Allowance(ctx context.Context, owner, token Address) (money.Amount, error)
}

// ContractCaller calls contracts, on chains that have them. It may be called again after an error
// and is safe for concurrent use.
type ContractCaller interface {
	// Call calls a contract at a quorum of providers or more. They may be at different blocks; the
	// caller compares their answers.
	Call(ctx context.Context, to Address, data []byte) ([]CallResult, error)
}

// SignatureChecker is implemented by a Reader of a chain on which contracts sign. It may be called again after an error
// and is safe for concurrent use.
type SignatureChecker interface {
	// IsContractSignature reports whether a contract accepts a signature of a digest as its own (EIP-1271), in the
	// latest blocks of the providers. A quorum of providers agrees on the answer. An address without code accepts
	// none, and neither does a contract that reverts. Errors: ErrDisagreement among others; the answer is then unknown.
	IsContractSignature(ctx context.Context, contract Address, digest [32]byte, signature []byte) (bool, error)
}

// NoBalanceError says that contracts gave no balance in a block: the call reverted, or there is no
// contract. A quorum of providers said so, so it is an answer and not an outage.
type NoBalanceError struct {
	Holdings []Holding
	Reason   string // as one of the providers gave it
}

// Error names the contract of the first holding.
func (e *NoBalanceError) Error() string {
	if len(e.Holdings) == 0 {
		return "no balance"
	}
	return fmt.Sprintf("%s returns no balance of %s: %s", e.Holdings[0].Contract, e.Holdings[0].Address, e.Reason)
}

// Balances queries balances in a block and leaves out those that a contract does not give: one
// broken token must not hide the balances of all others. Those are in silent, each with its reason;
// native coin never is. Every other failure is an error.
func Balances(
	ctx context.Context, r Reader, at Block, of []Holding,
) (have map[Holding]money.Amount, silent map[Holding]string, err error) {
	have, silent = map[Holding]money.Amount{}, map[Holding]string{}
	for len(of) > 0 {
		got, err := r.Balances(ctx, at, of)
		var none *NoBalanceError
		if errors.As(err, &none) {
			left := slices.DeleteFunc(slices.Clone(of), func(h Holding) bool {
				return h.Contract != "" && slices.Contains(none.Holdings, h)
			})
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

// Payment is what a transaction of Coffer has to do: move exactly Amount of Contract ("" for the
// native coin) from From to To.
type Payment struct {
	From, To Address
	Payer    Address // pays the fee and owns the slot, where that is not From
	Contract Address
	Amount   money.Amount
	// CreatesNonceAccount says that the payment creates a nonce account of From at To. Amount stays
	// in it for as long as it exists: see NonceAccounts.
	CreatesNonceAccount bool
	// ClosesTokenAccount says that the payment closes From's empty account for Contract, and that
	// the native coin in it, about Amount, goes to To: see TokenAccounts.
	ClosesTokenAccount bool
	// CreatesTokenAccount says that the payment creates To's account for Contract, unless it exists.
	// From pays its rent, and Amount is zero: see TokenAccounts.
	CreatesTokenAccount bool
	// GrantsAllowance says that the payment lets the contract at To move any amount of From's Contract, when From
	// calls it. RevokesAllowance ends that. Amount is zero: see PayoutContract.
	GrantsAllowance, RevokesAllowance bool
}

// SetsAllowance reports whether the payment changes an allowance and moves nothing.
func (p Payment) SetsAllowance() bool { return p.GrantsAllowance || p.RevokesAllowance }

// Slot is what a transaction takes on a chain. Of two transactions in one slot at most one is ever
// mined.
type Slot struct {
	// Nonce counts the transactions of the account that pays for them, one by one. The chain counts
	// them where it numbers transactions, otherwise Coffer alone does.
	Nonce uint64 `json:"nonce"`
	// Key identifies the slot where the chain numbers nothing.
	//   - Solana: the nonce account and its value, in base58 with a space between. For a nonce
	//     account's creation it is the account's address alone.
	//   - Bitcoin: the outputs that are spent and the address of their change, see UTXOModel.
	Key string `json:"lease,omitempty"`
}

// String returns the slot for people to read. It cuts a long slot key short.
func (s Slot) String() string {
	const keyBytesMax = 200
	if len(s.Key) > keyBytesMax {
		return fmt.Sprintf("slot %d (%s…)", s.Nonce, s.Key[:keyBytesMax])
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
	// NonGas is what may be charged in addition to gas. Where a chain pays for its data on a layer
	// below, it is an estimate with a margin, and no part of the transaction. Where FeeCap is zero,
	// it is all that the transaction may cost, and TipCap is:
	//   - on Solana, millionths of a unit for each of GasLimit
	//   - on Bitcoin, units per thousand virtual bytes; GasLimit is the virtual bytes
	NonGas money.Amount
	// Rent is the part of NonGas that stays in accounts which the transaction creates for its
	// payees. Quote reports it; it is no part of the transaction.
	Rent money.Amount
	// RecentBlockhash is the block that a transaction without a nonce account has to name, where
	// the chain has recent blockhashes. LastValidBlock is the number of the last block that can
	// contain it: see NonceAccounts. They are "" and 0 for every other transaction.
	RecentBlockhash string
	LastValidBlock  uint64
}

// Max returns the most that a transaction with these fees can cost. Error: money.ErrRange.
func (f Fees) Max() (money.Amount, error) {
	gas, err := f.FeeCap.Mul(f.GasLimit)
	if err != nil {
		return money.Zero, err
	}
	return gas.Add(f.NonGas)
}

// Answer is what a provider said to a broadcast transaction. There is no "refused": every answer
// but these two leaves it unknown whether the transaction is out.
type Answer int

// The answers.
const (
	Unknown  Answer = iota // an error, a time-out, a sentence: it may be out or not
	Accepted               // a provider took it
	Known                  // a provider already had it
)

// Account says where an account's own transactions stand.
type Account struct {
	Latest uint64 // the next nonce after what is mined at the latest block
	Final  uint64 // the next nonce after what is final
	// KeyedSlots says that the chain does not number the account's transactions. Then Slots are all
	// the slots that it has, and Latest and Final mean nothing.
	KeyedSlots bool
	Slots      []SlotState
	// Creatable are the slots that could be created, each with the Slot.Key of the transaction that
	// creates it.
	Creatable []SlotState
}

// SlotState is the state of a slot that an account has: the Slot.Key under which a transaction can
// take it after the latest block, and after the final one. They differ when a transaction that is
// not final took it.
type SlotState struct {
	Latest, Final string
	// Proof is the proof of Final, once it was looked up: see SlotProver.
	Proof string
}

// IsUsed reports whether a transaction has taken a slot, in the latest block and finally.
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

// IsNext reports whether the slot's own transaction can be mined next: nothing before it is missing
// and the slot is not used.
func (a Account) IsNext(s Slot) bool {
	if !a.KeyedSlots {
		return s.Nonce == a.Latest
	}
	latest, _ := a.IsUsed(s)
	return !latest
}

// Outcome is a transaction of Coffer that is in a block.
type Outcome struct {
	Tx        TxHash
	Block     Block
	Succeeded bool         // the chain's own status
	Paid      bool         // the transfer of every payment is among the transaction's effects
	Fee       money.Amount // what the transaction cost, in native units
	// Rent is the part of Fee that stays in an account which a single payment created for its
	// payee.
	Rent money.Amount
}

// Cause says what a refusal of the chain is about, as far as the chain tells.
type Cause string

// The causes. The cause of a refusal decides what happens to the payment:
//   - CauseAccount waits until the token or the account may move again.
//   - CauseFunds waits until the providers show what the books have.
//   - CausePayee and CauseAmount never pass by waiting.
const (
	CauseUnknown Cause = ""        // the chain gives no cause
	CauseAccount Cause = "ACCOUNT" // the token, or the paying account as a whole
	CauseFunds   Cause = "FUNDS"   // the paying account shows less than the amount
	CausePayee   Cause = "PAYEE"   // this payee receives nothing
	CauseAmount  Cause = "AMOUNT"  // this payee cannot receive this amount, and could receive another
)

// InsufficientFeeError says that a payment could not be simulated because its payer does not hold
// the amount and the fee. Nothing was sent.
type InsufficientFeeError struct{ Fee money.Amount } // the most that the fee may be

// Error says what the payer would need.
func (e *InsufficientFeeError) Error() string {
	return fmt.Sprintf("the payer does not have the amount and a fee of up to %v", e.Fee)
}

// RevertedError says that a simulation on the current state proves that a payment would fail, for
// example because a token blacklists the receiver. Nothing was sent.
type RevertedError struct {
	Reason string
	Cause  Cause
}

// Error returns the reason that the chain gave.
func (e *RevertedError) Error() string { return "payment would revert: " + e.Reason }

// Sender puts payments onto a chain. It holds no keys. All methods may be called again and are safe
// for concurrent use.
//
// A transaction makes one payment of one account, or a batch of several where the chain supports
// it: all of them or none.
type Sender interface {
	// BatchSize returns how many payments of one account, from the first one on, one transaction
	// can make. It is at least 1, and 1 where a transaction makes one payment. It is pure.
	BatchSize(ps []Payment) int
	// Quote simulates a transaction that makes these payments and proposes its fees, within the
	// configured cap. Errors: *RevertedError if the chain refuses it in its present state,
	// *InsufficientFeeError if the payer lacks the fee that the simulation needs.
	Quote(ctx context.Context, ps ...Payment) (Fees, error)
	// TransferFees returns the present fees of a usual token transfer without simulating one. It
	// serves to decide whether a transfer is worth its fee.
	TransferFees(ctx context.Context) (Fees, error)
	// Bump proposes fees for a replacement of a transaction that is not mined. They are high enough
	// for every node to accept it, and within the configured cap. ok is false if the cap forbids
	// it.
	Bump(ctx context.Context, last Fees) (fees Fees, ok bool, err error)
	// Build encodes the unsigned transaction that makes payments in a slot of an account. It is
	// pure: the same input gives the same bytes. Without payments it builds a cancel transaction: a
	// transfer of nothing from the account to itself.
	Build(account Address, s Slot, fees Fees, ps ...Payment) (payload []byte, err error)
	// Send gives signed bytes to every provider. It returns the best answer and the text of what
	// was said.
	Send(ctx context.Context, raw []byte) (Answer, string)
	// Account returns where an account's transactions stand. A slot counts as used only if a quorum
	// of providers says so. open are the slots in question, for chains that know slots only by
	// their keys.
	Account(ctx context.Context, a Address, open ...Slot) (Account, error)
	// Outcome finds which of the transactions is in a block, and returns nil if no provider has
	// one. Without payments it looks for a cancel transaction. Error: ErrNotYet while one is in a
	// block whose results cannot be checked yet.
	Outcome(ctx context.Context, txs []TxHash, ps ...Payment) (*Outcome, error)
}

// SinglePayment returns the payment of a transaction that makes at most one, or nil for a cancel.
// Error: more than one payment.
func SinglePayment(ps []Payment) (*Payment, error) {
	switch len(ps) {
	case 0:
		return nil, nil
	case 1:
		return &ps[0], nil
	}
	return nil, fmt.Errorf("%d payments, and a transaction makes one here", len(ps))
}

// MakesPayments reports whether every payment has a transfer of its own among the effects of a
// transaction. is compares a transfer with a payment.
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

// Output is a transaction output that an organization owns. It is spent whole, once.
type Output struct {
	Outpoint string  // its transaction and number, with a colon between
	Owner    Address // the address whose key spends it
	Amount   money.Amount
}

// UTXOModel selects outputs on a chain where funds are outputs. Any of an organization's outputs
// can make any payment, and the change comes back as another output. A slot is then the set of
// outputs that a transaction spends, so two transactions in one slot are never both mined. It is
// pure.
type UTXOModel interface {
	// SelectOutputs picks outputs that make payments at a fee rate. It returns the key of the slot
	// that spends them and the fees. It takes all of must, and as many of from as needed, which may
	// be none. The change goes to the address change. The same input gives the same choice. Error:
	// *InsufficientOutputsError.
	SelectOutputs(must, from []Output, change Address, price Fees, ps ...Payment) (slotKey string, fees Fees, err error)
	// Inputs returns the outputs of a slot key.
	Inputs(slotKey string) ([]Output, error)
}

// Consolidator makes one output of an organization's small outputs while fee rates are low. Later
// transactions, which may cost much, then have fewer inputs. Only QuoteConsolidation asks
// providers.
type Consolidator interface {
	// QuoteConsolidation returns the fee rate that a consolidation would have now. low says that
	// the rate is low enough to make one.
	QuoteConsolidation(ctx context.Context) (price Fees, low bool, err error)
	// ConsolidationRange returns the amounts of outputs that are worth consolidating at a fee rate:
	// more than over, which is the cost of spending one, and at most upto.
	ConsolidationRange(price Fees) (over, upto money.Amount)
	// InputCounts returns how many outputs one consolidation spends, at least and at most.
	InputCounts() (least, most int)
	// MaxPaymentInputs returns how many outputs one payment spends at most.
	MaxPaymentInputs() int
	// Consolidate returns the key of the slot that spends outputs and returns all their value as
	// one, and the fees of that. Its transaction is built as a cancel is. Error:
	// *InsufficientOutputsError.
	Consolidate(coins []Output, change Address, price Fees) (slotKey string, fees Fees, err error)
}

// InsufficientOutputsError says that the available outputs do not suffice.
type InsufficientOutputsError struct {
	Missing money.Amount
	// TooManyInputs says that the payment needs more outputs than one transaction spends.
	TooManyInputs bool
}

// Error says how much is missing.
func (e *InsufficientOutputsError) Error() string {
	return fmt.Sprintf("the outputs that can be spent lack %v", e.Missing)
}

// NonceAccounts creates the nonce accounts of an account, on a chain that does not number its
// transactions.
//
// A creation has no nonce account to be sent in: it names a recent blockhash and is valid for some
// minutes. Its slot is the address of the nonce account that it creates. That account comes into
// existence once, so at most one of all transactions made for it pays. Another one is built when
// Expired says that none before it is, or ever can be, on the chain.
type NonceAccounts interface {
	// Creation returns the payment that creates the nth nonce account of an account. It is pure.
	// Error: there is no such nonce account.
	Creation(account Address, n int) (Payment, error)
	// Expired reports whether none of these transactions is in a block or ever can be, as a quorum
	// of providers says. until is the latest Fees.LastValidBlock among them.
	Expired(ctx context.Context, txs []TxHash, until uint64) (bool, error)
	// FindUnknownUse reads the final transactions that an account's key signed for one of its nonce
	// accounts. It reads back to since; if since is "", it reads back to the first transaction that
	// ours knows. It passes to ours each hash and the Slot.Key that was taken, "" if the
	// transaction has no form that Coffer builds. It returns the newest transaction, and one that
	// ours does not know; each is "" for none. A signature proves itself, so one provider that
	// shows an unknown use suffices; a quorum is asked.
	FindUnknownUse(
		ctx context.Context, account Address, slotKey string, since TxHash,
		ours func(ctx context.Context, tx TxHash, took string) (bool, error),
	) (newest, strange TxHash, err error)
}

// SlotProver is implemented where a transaction alone does not show whether its slot is a true one.
// What it names may be the nonce account of an account, or another value that the chain would
// accept, so that several transactions in the slot were mined. A signer requires the proof.
type SlotProver interface {
	// ProveSlot returns the proof of a slot key of an account. It follows from the key and never
	// changes. known are hashes of candidate blocks. If none of them is it, the providers are asked
	// one after the other until one has the block. The block proves itself and cannot be forged.
	// Error: no provider has it.
	ProveSlot(ctx context.Context, account Address, slotKey string, known ...string) (string, error)
}

// AddressCodec reads addresses. It is pure.
type AddressCodec interface {
	// Parse reads an address as a person or program gives it and returns its canonical form. The
	// error says in words what is wrong with it.
	Parse(s string) (Address, error)
	// ParseContract reads the address of a token, which need not be one whose key a person could
	// hold. Otherwise it does what Parse does.
	ParseContract(s string) (Address, error)
	// IsUnspendable reports whether the key of an address is known to be held by no person (zero,
	// burn addresses, precompiles), so that what arrives there is lost.
	IsUnspendable(a Address) bool
	// SampleAddress returns an address that no person can spend from, for questions that need some
	// address and lead to no payment.
	SampleAddress() Address
	// PaymentURI returns the link that a wallet opens to pay a token ("" for the native coin) to an
	// address.
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

// MinPayment is implemented where not every amount of the native coin can reach every address.
type MinPayment interface {
	// MinNativePayment returns the smallest payment of the native coin that can reach an address in
	// its present state. Quote refuses less, with CauseAmount. It may be called again after an
	// error and is safe for concurrent use.
	MinNativePayment(ctx context.Context, to Address) (money.Amount, error)
}

// Memos is implemented where a payer may write a memo into a transaction.
type Memos interface {
	// Memo returns the memo of a transaction byte for byte, or "" for none. The transaction's id
	// proves it, so one provider is asked. The next provider is asked if the answer proves nothing
	// or there is none. refused says which answers proved nothing. Error: no provider's answer is
	// proven, for example because all have pruned the transaction.
	Memo(ctx context.Context, tx TxHash) (memo string, refused, err error)
}

// Chain is a configured chain with its adapter.
type Chain struct {
	Name    Name
	Network Network
	CAIP2   string // such as eip155:1
	// SignerID is the network as a signer's policy names it. On EVM it is the chain id in decimal,
	// which is in every payload; elsewhere it is the hash of the first block.
	SignerID     string
	AddressCodec AddressCodec
	Reader       Reader
	Sender       Sender
	// SeesInternal reports whether an arrival of native coin is seen that a contract pays; nil: always.
	SeesInternal func() bool
	// SeparateFeePayer says that an account other than the sender may pay the fee of a transaction.
	// Deposit addresses then never hold gas.
	SeparateFeePayer bool
	// UTXO is set where funds are outputs (Name.IsUTXO), else nil. The treasury pays for all that
	// leaves there, so SeparateFeePayer is true.
	UTXO UTXOModel
	// Consolidator is set where small outputs are consolidated, else nil. It is set only together
	// with UTXO.
	Consolidator Consolidator
	// MinBalance is the least native coin that an account holds unless it holds nothing. The chain
	// refuses a transaction that would leave less. It is zero where the chain allows any balance.
	MinBalance money.Amount
	// MinPayment is set where an address may have to receive more than one unit, else nil.
	MinPayment MinPayment
	// NonceAccounts is set where slots are nonce accounts, else nil.
	NonceAccounts NonceAccounts
	// SlotProver is set where the signer needs the proof of a slot, else nil.
	SlotProver SlotProver
	// TokenAccounts is set where tokens are held in accounts that can be closed, else nil.
	TokenAccounts TokenAccounts
	// PayeeAccounts is set where a payee can make the payments of one transaction fail, and no contract makes them,
	// else nil.
	PayeeAccounts PayeeAccounts
	// PayoutContract is set where a contract makes several payments in one transaction, else nil.
	PayoutContract PayoutContract
	// Memos is set where payers write memos, else nil.
	Memos Memos
	// Providers returns what this process has seen of each provider, in the order of the configuration. It is
	// nil where the chain has none.
	Providers func() []ProviderState
	// Tiers say which deposits of the native coin wait for more than finality.
	Tiers Tiers
	// Addresses is the form of new deposit addresses.
	Addresses Form
}

// ProviderState is what this process has seen of a provider since it started. It holds no secret and no URL.
// A zero time means never.
type ProviderState struct {
	Name         string // its position in the configuration and its host
	IsIdentified bool   // it has shown that it is on the configured network
	AnsweredAt   time.Time
	FailedAt     time.Time
	Failure      string // of the last failed request; it is the provider's text, so a stranger's
	Failures     int    // requests that failed since the last answer
	// PausedUntil is until when it is left alone, because it asked for that.
	PausedUntil time.Time
	// Latest and Final are the heights that it gave last, at HeadsAt.
	Latest, Final uint64
	HeadsAt       time.Time
	// ContradictedAt is when it last gave another final block than the quorum, or than another provider while
	// no quorum agreed.
	ContradictedAt time.Time
}

// Tier is an amount above which a deposit is credited only once its block has a certain depth.
type Tier struct {
	Above money.Amount // in native units
	Depth uint64       // in blocks: its own and those after it
}

// Tiers is a set of tiers; the order does not matter. The deepest tier that an amount is above
// applies.
type Tiers []Tier

// Depth returns the depth that the block of an amount needs, and 0 where finality is enough.
func (t Tiers) Depth(a money.Amount) (depth uint64) {
	for _, tier := range t {
		if tier.Above.Less(a) {
			depth = max(depth, tier.Depth)
		}
	}
	return depth
}

// Shortfall returns what a payment has to leave in its account in addition to anyway, the amount
// that stays there in any case, so that the chain accepts the payment. Rule DEP-40.
func (c Chain) Shortfall(anyway money.Amount) money.Amount {
	lack, err := c.MinBalance.Sub(anyway)
	if err != nil || anyway.IsZero() {
		return money.Zero
	}
	return lack
}

// MinPaymentTo returns the smallest payment of a token ("" for the native coin) that can reach an
// address in its present state.
func (c Chain) MinPaymentTo(ctx context.Context, contract, to Address) (money.Amount, error) {
	if contract != "" || c.MinPayment == nil {
		return money.Units(1), nil
	}
	return c.MinPayment.MinNativePayment(ctx, to)
}

// Chains holds the configured chains by name.
type Chains map[Name]Chain

// AddressCodec returns the address codec of a family, or nil if none of its chains is configured.
func (c Chains) AddressCodec(f Family) AddressCodec {
	for name, ch := range c {
		if name.Family() == f {
			return ch.AddressCodec
		}
	}
	return nil
}
