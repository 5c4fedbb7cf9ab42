package transfer

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
)

// Limits of the fields of a Request.
const (
	keyBytesMax           = 255
	referenceBytesMax     = 255
	metadataKeysMax       = 20
	metadataKeyRunesMax   = 40
	metadataValueRunesMax = 500
)

// Products lists the products of an organization, each with a balance of its own.
var Products = ledger.Products

const unmoved = " Nothing was moved."

// pendingRequest is a request that waits for its group.
type pendingRequest struct {
	Request
	// from and to are the accounts; they are empty for an invalid request.
	from, to ledger.Account
	// parseErr says why the request cannot be a transfer. It becomes the answer only after the
	// look-up of the key.
	parseErr error

	isLimitAsked bool // Limit was called and returned limitErr
	limitErr     error

	// The answer. transferID is the id of the row if this group writes it.
	outcome    Outcome
	err        error
	transferID string
}

// parseRequest parses what needs no catalogue. Its error is final: without a valid key there is
// nothing to look up. Rules TR-3 and TR-5.
func parseRequest(org string, r Request) (*pendingRequest, error) {
	if err := checkKey(r.IdempotencyKey); err != nil {
		return nil, err
	}
	a := &pendingRequest{Request: r}
	kinds := [2]ledger.Kind{}
	subjects := [2]string{}
	for i, side := range []struct {
		name  string
		party Party
	}{{"from", r.From}, {"to", r.To}} {
		var err error
		if kinds[i], subjects[i], err = parseParty(side.name, side.party); err != nil {
			a.parseErr = err
			return a, nil
		}
	}
	a.from = ledger.Account{OrgID: org, MintID: r.MintID, Kind: kinds[0], Subject: subjects[0]}
	a.to = ledger.Account{OrgID: org, MintID: r.MintID, Kind: kinds[1], Subject: subjects[1]}
	if a.from == a.to {
		a.parseErr = fault.New(
			fault.Invalid, fault.SameAccount,
			"The transfer goes from a balance to itself."+unmoved+" Give two different ones.",
		).WithParam("to")
		return a, nil
	}
	if a.parseErr = checkHandles(r); a.parseErr == nil && (r.MintID < 1 || r.MintID > math.MaxInt32) {
		a.parseErr = newUnknownMint(r.MintID)
	}
	return a, nil
}

func parseParty(side string, p Party) (ledger.Kind, string, error) {
	switch {
	case (p.CustomerID == nil) == (p.Product == nil):
		return "", "", fault.New(fault.Invalid, fault.InvalidRequest,
			"The field %s has to have either one customerId or one product."+unmoved+" Give one of the two.", side).
			WithParam(side)
	case p.CustomerID != nil:
		if err := customer.CheckID(*p.CustomerID); err != nil {
			return "", "", fault.Find(err).WithParam(side + ".customerId")
		}
		return ledger.Customer, *p.CustomerID, nil
	case !slices.Contains(Products, *p.Product):
		return "", "", fault.New(fault.Invalid, fault.InvalidRequest,
			"The products are %s."+unmoved+" Give one of them, or a customerId.", strings.Join(Products, ", ")).
			WithParam(side + ".product")
	}
	return ledger.Product, *p.Product, nil
}

// Rule TR-5.
func checkKey(key string) error {
	ok := len(key) >= 1 && len(key) <= keyBytesMax
	for i := range len(key) {
		ok = ok && key[i] > ' ' && key[i] < 0x7f
	}
	if !ok {
		return fault.New(fault.Invalid, fault.InvalidRequest,
			"The idempotencyKey of a transfer has to have 1 to %d printable ASCII characters without a "+
				"space."+unmoved+" Send "+
				"one key for each transfer, and the same key when you repeat it.", keyBytesMax).
			WithParam("idempotencyKey")
	}
	return nil
}

// checkHandles checks the limits of the caller's own reference and metadata.
func checkHandles(r Request) error {
	if r.Reference != nil &&
		(len(*r.Reference) == 0 || len(*r.Reference) > referenceBytesMax || !isPlainText(*r.Reference)) {
		return fault.New(fault.Invalid, fault.InvalidRequest,
			"A reference has to have 1 to %d bytes of text without control "+
				"characters."+unmoved+" Shorten or clean it, or leave it out.", referenceBytesMax).
			WithParam("reference")
	}
	ok := len(r.Metadata) <= metadataKeysMax
	for k, v := range r.Metadata {
		ok = ok && k != "" && utf8.RuneCountInString(k) <= metadataKeyRunesMax &&
			utf8.RuneCountInString(v) <= metadataValueRunesMax && isPlainText(k) && isPlainText(v)
	}
	if !ok {
		return fault.New(fault.Invalid, fault.InvalidRequest,
			"Metadata may have at most %d keys of 1 to %d characters with values of at most %d characters, without "+
				"control characters."+unmoved+" Make it smaller.",
			metadataKeysMax, metadataKeyRunesMax, metadataValueRunesMax).WithParam("metadata")
	}
	return nil
}

func isPlainText(s string) bool {
	return utf8.ValidString(s) &&
		strings.IndexFunc(s, func(c rune) bool { return unicode.IsControl(c) && c != '\n' && c != '\t' }) < 0
}

// parsed holds the values of a request that was parsed completely.
type parsed struct {
	mint   mint.Mint
	amount money.Amount
	digest []byte
}

// resolveRequest parses the remaining fields with the catalogue. It is pure; its refusals depend on
// nothing that can change for a mint that exists.
func resolveRequest(a *pendingRequest, mints *mint.Catalogue) (p parsed, err error) {
	if a.parseErr != nil {
		return p, a.parseErr
	}
	m, ok := mints.ByID(a.MintID)
	if !ok {
		return p, newUnknownMint(a.MintID)
	}
	p.mint = m
	if p.amount, err = parseAmount(a.Amount, a.UseDecimal, m); err != nil {
		return p, err
	}
	p.digest = requestDigest(a, p)
	return p, nil
}

func newUnknownMint(id int) error {
	return fault.New(fault.Invalid, fault.MintNotFound,
		"Mint %d does not exist."+unmoved+" GET /mints lists the mints.", id).WithParam("mintId")
}

func parseAmount(s string, decimal bool, m mint.Mint) (money.Amount, error) {
	refuse := func(format string, args ...any) error {
		return fault.New(fault.Invalid, fault.InvalidAmount, format+unmoved, args...).WithParam("amount")
	}
	parseText := money.Parse
	if decimal {
		parseText = func(s string) (money.Amount, error) { return money.ParseDecimal(s, m.Decimals) }
	}
	n, err := parseText(s)
	switch {
	case errors.Is(err, money.ErrFraction):
		return n, refuse(
			"%s has %d decimals and the amount has more; the service never rounds. Send at most %d digits after the "+
				"point.",
			m.Symbol, m.Decimals, m.Decimals,
		)
	case errors.Is(err, money.ErrRange):
		return n, refuse("The amount is larger than the largest possible amount (2^256-1 atomic units). Send a " +
			"smaller one.")
	case err != nil && !decimal && strings.Contains(s, "."):
		return n, refuse(
			"Without useDecimal the amount is a whole number of atomic units and has no point. Send atomic units, or " +
				"set useDecimal to true.",
		)
	case err != nil && decimal:
		return n, refuse("The amount is not a decimal number of whole tokens such as \"1.5\". Use ASCII digits with " +
			"at most one point, and no sign, exponent, separator or leading zero.")
	case err != nil:
		return n, refuse("The amount is not a whole number of atomic units such as \"5000000\". Use ASCII digits " +
			"only, without sign, point, exponent, separator or leading zero.")
	case n.IsZero():
		return n, refuse("The amount is zero. Send at least one atomic unit.")
	}
	return n, nil
}

// requestDigest hashes every parameter that makes a request another transfer. The same amount in
// decimals and in atomic units gives the same digest. answerReplay compares the reference
// separately. Metadata is never compared.
func requestDigest(a *pendingRequest, p parsed) []byte {
	var encoded []byte
	for _, s := range []string{
		"coffer-transfer-1", fmt.Sprint(p.mint.ID), p.amount.String(),
		string(a.from.Kind), a.from.Subject, string(a.to.Kind), a.to.Subject,
	} {
		encoded = strconv.AppendInt(encoded, int64(len(s)), 10)
		encoded = append(append(encoded, ':'), s...)
	}
	sum := sha256.Sum256(encoded)
	return sum[:]
}
