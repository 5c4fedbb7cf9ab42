package swapdesk

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
)

// Seed is the secret from which all wallets of the desk follow.
type Seed [32]byte

// MarshalText writes the seed in hexadecimal.
func (s Seed) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(s[:])), nil }

// UnmarshalText reads what MarshalText wrote.
func (s *Seed) UnmarshalText(text []byte) error {
	raw, err := hex.DecodeString(string(text))
	if err != nil || len(raw) != len(s) {
		return errors.New("a seed has 64 hexadecimal digits")
	}
	copy(s[:], raw)
	return nil
}

// walletSecret derives the secret of one wallet.
func (s Seed) walletSecret(family string, n uint32) [32]byte {
	h := hmac.New(sha256.New, s[:])
	h.Write([]byte(family))
	h.Write(binary.BigEndian.AppendUint32(nil, n))
	return [32]byte(h.Sum(nil))
}

const (
	// payingWallet pays everything that the desk pays.
	payingWallet = 0
	// strangerWallet is the third party of OtherRecipient.
	strangerWallet = 1 << 31
)

// Chain is one local chain as the desk uses it. All methods are safe for concurrent use and may be repeated.
type Chain interface {
	Name() chain.Name
	// WalletAddress returns the address of a wallet of the desk; number 0 pays.
	WalletAddress(n uint32) string
	// CheckAddress returns an error if a text is no address of this chain.
	CheckAddress(text string) error
	// FinalHeight returns the newest final block.
	FinalHeight(ctx context.Context) (uint64, error)
	// Arrivals returns the payments to the watched addresses in the final blocks after the first height, up
	// to the second.
	Arrivals(ctx context.Context, after, end uint64, watches []Watch) ([]Arrival, error)
	// Balance returns what the paying wallet can spend, apart from what the pending payments spend. The
	// empty contract is the native coin.
	Balance(ctx context.Context, contract string, pending []Signed) (money.Amount, error)
	// FeeReserve is how much native coin the paying wallet needs besides a payment.
	FeeReserve() money.Amount
	// MinPayment is the least amount that can be paid to a new address.
	MinPayment(contract string) money.Amount
	// SignPayment signs a payment of the paying wallet. It can take effect besides the pending ones, at most
	// once.
	SignPayment(ctx context.Context, p Payment, pending []Signed) (Signed, error)
	// SendPayment sends a signed payment to the chain. A payment that the chain has already is no error.
	SendPayment(ctx context.Context, s Signed) error
	// ReadOutcome says what became of a payment.
	ReadOutcome(ctx context.Context, s Signed) (Outcome, error)
	// CloseClient ends the connection. The desk calls it last.
	CloseClient()
}

// Watch is an address with the asset that is awaited there.
type Watch struct{ Address, Contract string }

// Arrival is a payment to a watched address in a final block.
type Arrival struct {
	Address string       `json:"-"`
	Hash    string       `json:"hash"`
	Index   int          `json:"index"` // tells payments of one transaction apart
	Amount  money.Amount `json:"amount"`
	Time    time.Time    `json:"time"` // the block's time
}

// Payment is what the desk pays.
type Payment struct {
	Contract  string // empty: the native coin
	Decimals  int
	Recipient string
	Amount    money.Amount
}

// Signed is a signed payment.
type Signed struct {
	Hash string `json:"hash"`
	Raw  []byte `json:"raw"`
	// Slot is what the chain needs to know of it: a nonce, or the block after which it expires.
	Slot uint64 `json:"slot"`
}

// Outcome is what became of a payment.
type Outcome int

// The outcomes.
const (
	Waiting  Outcome = iota // it may still take effect
	Paid                    // a final block has it
	Reverted                // a final block has it, and it moved nothing
	Expired                 // it is in no block and never will be
)
