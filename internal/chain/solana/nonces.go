package solana

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/several"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
)

const (
	// NonceAccountsMax is how many nonce accounts of a treasury are looked for.
	NonceAccountsMax = solanatx.NonceAccountsMax

	behindMaxDefault = 2 * time.Minute
	clockSysvar      = "SysvarC1ock11111111111111111111111111111111"
	clockTimeByte    = 32 // where the chain's time begins, in Unix seconds
	clockBytes       = 40
)

// nonceAccounts are the addresses where a treasury's nonce accounts are.
func nonceAccounts(treasury chain.Address) ([]chain.Address, error) {
	all := make([]chain.Address, NonceAccountsMax)
	for n := range all {
		var err error
		if all[n], err = solanatx.NonceAccount(treasury, uint32(n)); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Account reads a treasury's nonce accounts, and which of them could be made.
//
// A place is free where as many providers as have to agree show the same value in the
// newest and in the final block, and nobody shows it final and taken since. A value that
// a single provider still shows counts as not used: a transaction may be mined on what
// is true, never on what most say. Where providers differ, an account has an entry for
// each value, and at most one of them is free.
//
// An older value looks like one that was used. So a provider whose final state is
// further behind our clock than Config.BehindMax has no say: without that, a transaction
// that waits would be taken for one whose place somebody else used.
func (c *Client) Account(ctx context.Context, treasury chain.Address, _ ...chain.Slot) (chain.Account, error) {
	of, err := nonceAccounts(treasury)
	if err != nil {
		return chain.Account{}, fmt.Errorf("account on %s: %w", chain.Solana, err)
	}
	var views []view
	var errs []error
	for _, v := range several.Ask(ctx, c.providers, c.Agree, func(ctx context.Context, p *provider) (view, error) {
		return c.leases(ctx, p, treasury, of)
	}) {
		if v.Err != nil {
			errs = append(errs, v.Err)
			continue
		}
		views = append(views, v.Value)
	}
	if len(views) < c.Agree {
		return chain.Account{}, fmt.Errorf("account %s on %s: %w", treasury, chain.Solana, errors.Join(errs...))
	}
	acct := chain.Account{Leased: true}
	for n := range of {
		leases, sites := make([]chain.Lease, len(views)), make([]chain.Lease, len(views))
		for i, v := range views {
			leases[i], sites[i] = v.leases[n], v.sites[n]
		}
		acct.Leases = append(acct.Leases, weigh(leases, c.Agree)...)
		acct.Sites = append(acct.Sites, weigh(sites, c.Agree)...)
	}
	return acct, nil
}

// weigh is what providers say of one nonce account, so that no value is free that too
// few call so, and none is used that anybody still has.
func weigh(said []chain.Lease, agree int) []chain.Lease {
	first := said[0]
	if !slices.ContainsFunc(said, func(l chain.Lease) bool { return l != first }) {
		if first == (chain.Lease{}) {
			return nil
		}
		return said[:1]
	}
	var out []chain.Lease
	known := func(v string) bool {
		return v == "" || slices.ContainsFunc(out, func(l chain.Lease) bool { return l.Latest == v || l.Final == v })
	}
	for _, l := range said {
		votes, taken := 0, false
		for _, o := range said {
			if o.Final == l.Final && o.Latest == l.Final {
				votes++
			}
			taken = taken || o.Final == l.Final && o.Latest != l.Final
		}
		if votes >= agree && !taken && !known(l.Final) {
			out = append(out, chain.Lease{Latest: l.Final, Final: l.Final})
		}
	}
	for _, l := range said {
		if !known(l.Latest) {
			out = append(out, chain.Lease{Latest: l.Latest})
		}
	}
	for _, l := range said {
		if !known(l.Final) {
			out = append(out, chain.Lease{Final: l.Final})
		}
	}
	return out
}

// A view is how one provider has the nonce accounts, by their numbers: the place of each
// that is there and ours, and the site of each that is not there, lamports of strangers aside.
type view struct{ leases, sites []chain.Lease }

func (c *Client) leases(ctx context.Context, p *provider, treasury chain.Address, of []chain.Address) (view, error) {
	// In this order, so that nothing that comes meanwhile is final and not there.
	final, at, err := p.nonces(ctx, treasury, of, finalized)
	if err != nil {
		return view{}, err
	}
	if behind := time.Since(at); c.BehindMax > 0 && behind > c.BehindMax {
		return view{}, fmt.Errorf("%s: its final state is %v old", p.name, behind.Round(time.Second))
	}
	latest, _, err := p.nonces(ctx, treasury, of, confirmed)
	if err != nil {
		return view{}, err
	}
	v := view{make([]chain.Lease, len(of)), make([]chain.Lease, len(of))}
	for n := range of {
		v.leases[n] = chain.Lease{Latest: latest[n].lease, Final: final[n].lease}
		v.sites[n] = chain.Lease{Latest: latest[n].site, Final: final[n].site}
	}
	return v, nil
}

// A found is what is where a nonce account can be: the lease of one of ours, its site when
// nothing is there, or something else.
type found struct{ lease, site string }

// nonces are the treasury's nonce accounts, and the chain's time then.
func (p *provider) nonces(ctx context.Context, treasury chain.Address, of []chain.Address, commitment string) ([]found, time.Time, error) {
	accounts, err := p.accounts(ctx, append(slices.Clone(of), clockSysvar), commitment)
	if err != nil {
		return nil, time.Time{}, err
	}
	var clock []byte
	if a := accounts[len(of)]; a != nil {
		if clock, err = a.bytes(); err != nil {
			return nil, time.Time{}, p.Said("getMultipleAccounts", err)
		}
	}
	if len(clock) < clockBytes {
		return nil, time.Time{}, fmt.Errorf("%s: gives no clock of the chain", p.name)
	}
	at := time.Unix(int64(min(binary.LittleEndian.Uint64(clock[clockTimeByte:]), timeMax)), 0)
	all := make([]found, len(of))
	for n, a := range accounts[:len(of)] {
		if a == nil || a.bare() {
			all[n].site = string(of[n])
			continue
		}
		if all[n].lease, err = leaseOf(a, treasury, of[n]); err != nil {
			return nil, time.Time{}, fmt.Errorf("%s: nonce account %d of %s, %s: %w", p.name, n, treasury, of[n], err)
		}
	}
	return all, at, nil
}

// bare tells whether an account is nothing but lamports that somebody sent to its address.
func (a *account) bare() bool {
	data, err := a.bytes()
	return err == nil && len(data) == 0 && a.Owner == string(solanatx.SystemProgram) && !a.Executable
}

// leaseOf reads a nonce account.
func leaseOf(a *account, treasury, at chain.Address) (string, error) {
	data, err := a.bytes()
	if err != nil {
		return "", err
	}
	if a.Owner != string(solanatx.SystemProgram) || a.Executable {
		return "", fmt.Errorf("it belongs to program %.44q", a.Owner)
	}
	authority, value, _, err := solanatx.ParseNonce(data)
	if err != nil {
		return "", err
	}
	if authority != treasury {
		return "", fmt.Errorf("%s may advance it", authority)
	}
	return solanatx.Lease(at, value), nil
}

// accounts asks for accounts as they are, with the beginning of their data; nil is one
// that does not exist.
func (p *provider) accounts(ctx context.Context, of []chain.Address, commitment string) ([]*account, error) {
	const method = "getMultipleAccounts"
	var got weighed[[]*account]
	if err := p.call(ctx, &got, method, of, options{
		"commitment": commitment, "encoding": "base64",
		"dataSlice": map[string]int{"offset": 0, "length": dataMax},
	}); err != nil {
		return nil, err
	}
	if len(got.Value) != len(of) {
		return nil, p.Said(method, fmt.Errorf("%d accounts, want %d", len(got.Value), len(of)))
	}
	for _, a := range got.Value {
		if a != nil && (a.Lamports == nil || a.Owner == "") {
			return nil, p.Said(method, errors.New("an account without lamports or owner"))
		}
	}
	return got.Value, nil
}
