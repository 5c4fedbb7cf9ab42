package org

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// ipAllowlistMax bounds the entries of a list.
const ipAllowlistMax = 256

// ParseIPAllowlist reads the addresses and networks of a list, such as 203.0.113.7 or
// 2001:db8::/32, and returns them in canonical form: sorted, without duplicates, a network without
// host bits, an IPv4-mapped IPv6 address as IPv4. No entries mean every address. Error:
// INVALID_REQUEST on ipAllowlist.
func ParseIPAllowlist(texts []string) ([]netip.Prefix, error) {
	refuse := func(format string, args ...any) error {
		return fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten, format, args...).
			WithAdvice("Correct it and send the request again.").WithParam("ipAllowlist")
	}
	if len(texts) > ipAllowlistMax {
		return nil, refuse("An IP list may have at most %d entries.", ipAllowlistMax)
	}
	list := make([]netip.Prefix, 0, len(texts))
	for i, text := range texts {
		p, err := ParsePrefix(text)
		if err != nil {
			return nil, refuse(
				"Entry %d of the IP list is not an address and not a network such as 203.0.113.7 or 2001:db8::/32.",
				i+1,
			)
		}
		// The entry would look like a restriction and be none.
		if p.Bits() == 0 {
			return nil, refuse(
				"Entry %d of the IP list contains every address. To allow every address, send an empty list.", i+1,
			)
		}
		list = append(list, p)
	}
	slices.SortFunc(list, comparePrefixes)
	return slices.Compact(list), nil
}

func comparePrefixes(a, b netip.Prefix) int {
	if c := a.Addr().Compare(b.Addr()); c != 0 {
		return c
	}
	return a.Bits() - b.Bits()
}

// ParsePrefix reads one address or network in the form that ParseIPAllowlist
// describes. A zone belongs to one machine's network and is refused.
func ParsePrefix(text string) (netip.Prefix, error) {
	if !strings.Contains(text, "/") {
		addr, err := netip.ParseAddr(text)
		if err != nil || addr.Zone() != "" {
			return netip.Prefix{}, fmt.Errorf("%q is not an address", text)
		}
		addr = addr.Unmap()
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return p, fmt.Errorf("%q is not a network: %w", text, err)
	}
	if p.Addr().Is4In6() {
		const mapped = 96 // bits before the IPv4 address
		if p.Bits() < mapped {
			return p, fmt.Errorf("%q is neither an IPv4 nor an IPv6 network", text)
		}
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mapped)
	}
	return p.Masked(), nil
}

// IPAllowlist returns the addresses from which an organization's key may be used; none mean every
// address. Error: NOT_FOUND.
func IPAllowlist(ctx context.Context, tx pg.Tx, org string) ([]netip.Prefix, error) {
	var list []netip.Prefix
	err := tx.QueryRow(ctx, `SELECT ip_allowlist FROM organization_settings WHERE org_id = $1`, org).Scan(&list)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, newNotFound()
	}
	if err != nil {
		return nil, fmt.Errorf("read the IP list of %s: %w", org, err)
	}
	return list, nil
}
