// Package payuri makes the links with which a wallet is asked for a payment, and what the QR code of
// a payment shows: BIP-21 on Bitcoin, a Solana Pay transfer request, EIP-681 on EVM chains.
//
// The package is pure, so a crash leaves nothing behind. An amount is written exactly or not at all.
package payuri

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/mr-tron/base58"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
)

// Target is a payment that is asked for.
type Target struct {
	Chain chain.Name
	// CAIP2 is the network of the chain as chain.Chain has it, such as eip155:8453. A link of an EVM
	// chain names it, because an address is the same on all of them.
	CAIP2    string
	Contract chain.Address // the token; "" for the native coin
	Decimals int           // of the mint
	Address  chain.Address
	Amount   money.Amount
	// Reference finds the payment at a shared Solana address; nil for none, and on other chains.
	Reference *[32]byte
	Label     string // the name of the shop; "" for none. EIP-681 has no place for it
}

// URI is the link of a payment, and what its QR code has.
type URI struct {
	Link string
	QR   string
}

// New returns the link of a payment and the text of its QR code.
//
// The QR code of a token on an EVM chain is the bare address, and people read coin, network and amount
// beside it. A wallet that knows only addresses takes the first address in a code, which in EIP-681 is
// that of the token's contract, and what is paid to it is lost. Bitcoin addresses keep their letters,
// also in a QR code: exchanges refuse capital ones. Rule CO-75.
func New(t Target) (URI, error) {
	if t.Address == "" || t.Amount.IsZero() {
		return URI{}, fmt.Errorf("link of a payment on %s: it needs an address and an amount", t.Chain)
	}
	if t.Reference != nil && t.Chain.Family() != chain.SolanaFamily {
		return URI{}, fmt.Errorf("link of a payment on %s: only Solana has references", t.Chain)
	}
	switch t.Chain.Family() {
	case chain.BitcoinFamily:
		if t.Contract != "" {
			return URI{}, fmt.Errorf("link of a payment on %s: it has no tokens", t.Chain)
		}
		link := "bitcoin:" + string(t.Address) + "?amount=" + t.Amount.Decimal(t.Decimals) + t.label()
		return URI{Link: link, QR: link}, nil
	case chain.SolanaFamily:
		link := "solana:" + string(t.Address) + "?amount=" + t.Amount.Decimal(t.Decimals)
		if t.Contract != "" {
			link += "&spl-token=" + string(t.Contract)
		}
		if t.Reference != nil {
			link += "&reference=" + ReferenceText(*t.Reference)
		}
		link += t.label()
		return URI{Link: link, QR: link}, nil
	case chain.EVM:
		chainID, err := parseChainID(t.CAIP2)
		if err != nil {
			return URI{}, fmt.Errorf("link of a payment on %s: %w", t.Chain, err)
		}
		if t.Contract == "" {
			link := fmt.Sprintf("ethereum:%s@%d?value=%s", t.Address, chainID, t.Amount)
			return URI{Link: link, QR: link}, nil
		}
		link := fmt.Sprintf("ethereum:%s@%d/transfer?address=%s&uint256=%s", t.Contract, chainID, t.Address, t.Amount)
		return URI{Link: link, QR: string(t.Address)}, nil
	}
	return URI{}, fmt.Errorf("link of a payment on %s: no wallet of this chain is known", t.Chain)
}

// label returns the parameter with the shop's name. Wallets read %20 for a space, and not all of them
// read +.
func (t Target) label() string {
	if t.Label == "" {
		return ""
	}
	return "&label=" + strings.ReplaceAll(url.QueryEscape(t.Label), "+", "%20")
}

func parseChainID(caip2 string) (uint64, error) {
	text, isEVM := strings.CutPrefix(caip2, "eip155:")
	id, err := strconv.ParseUint(text, 10, 64)
	if !isEVM || err != nil || id == 0 {
		return 0, fmt.Errorf("%q is no network of an EVM chain", caip2)
	}
	return id, nil
}

// referenceDomain begins what a reference is the hash of.
const referenceDomain = "coffer-checkout-reference-1"

// Reference returns the reference of a checkout's payment in a mint on Solana: an account key that a
// wallet writes into the transaction, so that the payment is found at an address that many checkouts
// share. It follows from its arguments, so a restored database finds the payment again. The payer and
// everyone else sees it in the transaction, so it keeps no secret. No private key of it is known, and
// it need not be a point of the curve. Rule CO-76.
func Reference(orgID, checkoutID string, mintID int) [32]byte {
	h := sha256.New()
	for _, part := range []string{referenceDomain, orgID, checkoutID, strconv.Itoa(mintID)} {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(part)))
		h.Write(n[:])
		h.Write([]byte(part))
	}
	return [32]byte(h.Sum(nil))
}

// ReferenceText returns a reference as links and transactions show it.
func ReferenceText(reference [32]byte) string { return base58.Encode(reference[:]) }

// ParseReference reads the text of ReferenceText.
func ParseReference(text string) (reference [32]byte, err error) {
	b, err := base58.Decode(text)
	if err != nil || len(b) != len(reference) || base58.Encode(b) != text {
		return reference, fmt.Errorf("%q is no key of 32 bytes in base58", text)
	}
	return [32]byte(b), nil
}
