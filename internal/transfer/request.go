package transfer

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/request"
)

// Products lists the products of an organization, each with a balance of its own.
var Products = ledger.Products

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

// askLimit asks the limit of a new request, once: a group may be decided several times.
func (a *pendingRequest) askLimit() error {
	if !a.isLimitAsked && a.Limit != nil {
		a.isLimitAsked, a.limitErr = true, a.Limit()
	}
	return a.limitErr
}

// returnLimit takes back what askLimit counted, since the key is known.
func (a *pendingRequest) returnLimit() {
	if a.isLimitAsked && a.Unlimit != nil {
		a.Unlimit()
		a.isLimitAsked, a.limitErr = false, nil
	}
}

// parseRequest parses what needs no catalogue. Its error is final: without a valid key there is
// nothing to look up. Rules TR-3 and TR-5.
func parseRequest(org string, r Request) (*pendingRequest, error) {
	if !request.IsKey(r.IdempotencyKey) {
		return nil, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"The idempotencyKey of a transfer has to have 1 to %d printable ASCII characters without a "+
				"space.", request.KeyBytesMax).
			WithAdvice("Send one key for each transfer, and the same key when you repeat it.").
			WithParam("idempotencyKey")
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
		a.parseErr = fault.New(fault.Invalid, fault.SameAccount, fault.NothingWritten,
			"The transfer goes from a balance to itself.").
			WithAdvice("Give two different ones.").WithParam("to")
		return a, nil
	}
	a.parseErr = request.CheckHandles(r.Reference, r.Metadata, fault.NothingWritten)
	if a.parseErr == nil && (r.MintID < 1 || r.MintID > math.MaxInt32) {
		a.parseErr = request.NewUnknownMint(r.MintID, fault.NothingWritten)
	}
	return a, nil
}

func parseParty(side string, p Party) (ledger.Kind, string, error) {
	switch {
	case (p.CustomerID == nil) == (p.Product == nil):
		return "", "", fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"The field %s has to have either one customerId or one product.", side).
			WithAdvice("Give one of the two.").
			WithParam(side)
	case p.CustomerID != nil:
		if err := customer.CheckID(*p.CustomerID); err != nil {
			return "", "", fault.Find(err).WithParam(side + ".customerId")
		}
		return ledger.Customer, *p.CustomerID, nil
	case !slices.Contains(Products, *p.Product):
		return "", "", fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"The products are %s.", strings.Join(Products, ", ")).
			WithAdvice("Give one of them, or a customerId.").
			WithParam(side + ".product")
	}
	return ledger.Product, *p.Product, nil
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
	if p.mint, err = request.ParseMint(a.MintID, *mints, fault.NothingWritten); err != nil {
		return p, err
	}
	if p.amount, err = request.ParseAmount(a.Amount, a.UseDecimal, p.mint, fault.NothingWritten); err != nil {
		return p, err
	}
	p.digest = requestDigest(a, p)
	return p, nil
}

// requestDigest hashes every parameter that makes a request another transfer. The same amount in
// decimals and in atomic units gives the same digest. The reference is compared separately.
// Metadata is never compared.
func requestDigest(a *pendingRequest, p parsed) []byte {
	return request.Digest(
		"coffer-transfer-1", fmt.Sprint(p.mint.ID), p.amount.String(),
		string(a.from.Kind), a.from.Subject, string(a.to.Kind), a.to.Subject,
	)
}
