package solana

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/quorum"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
)

const (
	// NonceAccountsMax is the number of possible nonce accounts of a treasury.
	NonceAccountsMax = solanatx.NonceAccountsMax

	lagMaxDefault = 2 * time.Minute
	clockSysvar   = "SysvarC1ock11111111111111111111111111111111"
	clockTimeByte = 32 // where the chain's time begins, in Unix seconds
	clockBytes    = 40
)

// nonceAccounts returns the addresses of a treasury's possible nonce accounts.
func nonceAccounts(treasury chain.Address) ([]chain.Address, error) {
	addresses := make([]chain.Address, NonceAccountsMax)
	for n := range addresses {
		var err error
		if addresses[n], err = solanatx.NonceAccount(treasury, uint32(n)); err != nil {
			return nil, err
		}
	}
	return addresses, nil
}

// Account reads a treasury's nonce accounts, and which of them could be created.
//
// A slot is free if a quorum of providers shows the same value in the newest and in the final
// block, and no provider shows it final and used since. A value that a single provider still shows
// counts as not used: a transaction is mined on the true state, not on what most providers say.
// Where providers differ, an account has an entry for each value, and at most one of them is free.
//
// An older value looks like a used one. So a provider whose final state is further behind our clock
// than Config.LagMax has no say. Otherwise a waiting transaction would be taken for one whose slot
// another transaction used.
func (c *Client) Account(ctx context.Context, treasury chain.Address, _ ...chain.Slot) (chain.Account, error) {
	addresses, err := nonceAccounts(treasury)
	if err != nil {
		return chain.Account{}, fmt.Errorf("account on %s: %w", chain.Solana, err)
	}
	var views []view
	var errs []error
	for _, v := range quorum.AskAll(ctx, c.providers, c.Quorum, func(ctx context.Context, p *provider) (view, error) {
		return c.readView(ctx, p, treasury, addresses)
	}) {
		if v.Err != nil {
			errs = append(errs, v.Err)
			continue
		}
		views = append(views, v.Value)
	}
	if len(views) < c.Quorum {
		return chain.Account{}, fmt.Errorf("account %s on %s: %w", treasury, chain.Solana, errors.Join(errs...))
	}
	acct := chain.Account{KeyedSlots: true}
	for n := range addresses {
		states, creatable := make([]chain.SlotState, len(views)), make([]chain.SlotState, len(views))
		for i, v := range views {
			states[i], creatable[i] = v.states[n], v.creatable[n]
		}
		acct.Slots = append(acct.Slots, combineViews(states, c.Quorum)...)
		acct.Creatable = append(acct.Creatable, combineViews(creatable, c.Quorum)...)
	}
	return acct, nil
}

// combineViews combines what providers say of one nonce account. No value is free that fewer than
// the quorum call free, and none is used that any provider still shows.
func combineViews(views []chain.SlotState, quorumSize int) []chain.SlotState {
	first := views[0]
	if !slices.ContainsFunc(views, func(l chain.SlotState) bool { return l != first }) {
		if first == (chain.SlotState{}) {
			return nil
		}
		return views[:1]
	}
	var out []chain.SlotState
	isListed := func(v string) bool {
		return v == "" || slices.ContainsFunc(out, func(l chain.SlotState) bool {
			return l.Latest == v || l.Final == v
		})
	}
	for _, l := range views {
		votes, taken := 0, false
		for _, o := range views {
			if o.Final == l.Final && o.Latest == l.Final {
				votes++
			}
			taken = taken || o.Final == l.Final && o.Latest != l.Final
		}
		if votes >= quorumSize && !taken && !isListed(l.Final) {
			out = append(out, chain.SlotState{Latest: l.Final, Final: l.Final})
		}
	}
	for _, l := range views {
		if !isListed(l.Latest) {
			out = append(out, chain.SlotState{Latest: l.Latest})
		}
	}
	for _, l := range views {
		if !isListed(l.Final) {
			out = append(out, chain.SlotState{Final: l.Final})
		}
	}
	return out
}

// view is how one provider sees the nonce accounts, by their numbers: the slot of each that exists
// and is the treasury's, and the slot of the creation of each that does not exist. Lamports that
// others sent do not count as existence.
type view struct{ states, creatable []chain.SlotState }

func (c *Client) readView(
	ctx context.Context, p *provider, treasury chain.Address, addresses []chain.Address,
) (view, error) {
	// In this order, so that nothing that is mined meanwhile is final and missing in the latest
	// state.
	final, chainTime, err := p.readNonces(ctx, treasury, addresses, finalized)
	if err != nil {
		return view{}, err
	}
	if lag := time.Since(chainTime); c.LagMax > 0 && lag > c.LagMax {
		return view{}, fmt.Errorf("%s: its final state is %v old", p.name, lag.Round(time.Second))
	}
	latest, _, err := p.readNonces(ctx, treasury, addresses, confirmed)
	if err != nil {
		return view{}, err
	}
	v := view{make([]chain.SlotState, len(addresses)), make([]chain.SlotState, len(addresses))}
	for n := range addresses {
		v.states[n] = chain.SlotState{Latest: latest[n].slotKey, Final: final[n].slotKey}
		v.creatable[n] = chain.SlotState{Latest: latest[n].creationKey, Final: final[n].creationKey}
	}
	return v, nil
}

// nonceState is the state of a possible nonce account: the slot key of an existing one, or the slot
// key of its creation if nothing is there. readNonces returns an error for anything else.
type nonceState struct{ slotKey, creationKey string }

// readNonces returns the states of the treasury's nonce accounts, and the chain's time of that
// state.
func (p *provider) readNonces(
	ctx context.Context, treasury chain.Address, addresses []chain.Address, commitment string,
) ([]nonceState, time.Time, error) {
	accounts, err := p.readAccounts(ctx, append(slices.Clone(addresses), clockSysvar), commitment)
	if err != nil {
		return nil, time.Time{}, err
	}
	var clock []byte
	if a := accounts[len(addresses)]; a != nil {
		if clock, err = a.decodeData(); err != nil {
			return nil, time.Time{}, p.WrapError("getMultipleAccounts", err)
		}
	}
	if len(clock) < clockBytes {
		return nil, time.Time{}, fmt.Errorf("%s: returns no clock of the chain", p.name)
	}
	chainTime := time.Unix(int64(min(binary.LittleEndian.Uint64(clock[clockTimeByte:]), timeMax)), 0)
	states := make([]nonceState, len(addresses))
	for n, a := range accounts[:len(addresses)] {
		if a == nil || a.holdsOnlyLamports() {
			states[n].creationKey = string(addresses[n])
			continue
		}
		if states[n].slotKey, err = slotKeyOf(a, treasury, addresses[n]); err != nil {
			return nil, time.Time{}, fmt.Errorf("%s: nonce account %d of %s, %s: %w", p.name, n, treasury, addresses[n],
				err)
		}
	}
	return states, chainTime, nil
}

// holdsOnlyLamports reports whether an account consists of lamports alone that were sent to its
// address.
func (a *account) holdsOnlyLamports() bool {
	data, err := a.decodeData()
	return err == nil && len(data) == 0 && a.Owner == string(solanatx.SystemProgram) && !a.Executable
}

// slotKeyOf decodes a nonce account and returns its slot key. Error: it is no nonce account, or
// another authority may advance it.
func slotKeyOf(a *account, treasury, address chain.Address) (string, error) {
	data, err := a.decodeData()
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
	return solanatx.SlotKey(address, value), nil
}

// readAccounts reads accounts with the beginning of their data; nil is an account that does not
// exist.
func (p *provider) readAccounts(ctx context.Context, addresses []chain.Address, commitment string) ([]*account, error) {
	const method = "getMultipleAccounts"
	var got contextResponse[[]*account]
	if err := p.callMethod(ctx, &got, method, addresses, options{
		"commitment": commitment, "encoding": "base64",
		"dataSlice": map[string]int{"offset": 0, "length": dataMax},
	}); err != nil {
		return nil, err
	}
	if len(got.Value) != len(addresses) {
		return nil, p.WrapError(method, fmt.Errorf("%d accounts, want %d", len(got.Value), len(addresses)))
	}
	for _, a := range got.Value {
		if a != nil && (a.Lamports == nil || a.Owner == "") {
			return nil, p.WrapError(method, errors.New("an account without lamports or owner"))
		}
	}
	return got.Value, nil
}
