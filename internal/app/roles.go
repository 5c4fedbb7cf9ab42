package app

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
)

// Role is a part of the service that a process can run by itself. Any number of processes may have
// the same role, except the signer's: its journal has one owner, and a second process that opens it
// is refused.
type Role string

// The roles.
const (
	RoleAPI       Role = "api"       // answers the organizations
	RoleApprovals Role = "approvals" // serves the pages of approvals at their own address
	RoleWorkers   Role = "workers"   // credits, events, webhooks, sweeps, periodic jobs
	RoleScan      Role = "scan"      // walks the chains
	RoleDispatch  Role = "dispatch"  // puts payments on the chains
	RoleSigner    Role = "signer"    // holds the seed
)

// allRoles lists the roles in the order in which they are shown.
var allRoles = []Role{RoleAPI, RoleApprovals, RoleWorkers, RoleScan, RoleDispatch, RoleSigner}

// ParseRoles reads a list such as "api,workers".
func ParseRoles(text string) ([]Role, error) {
	var roles []Role
	for word := range strings.SplitSeq(text, ",") {
		r := Role(strings.TrimSpace(word))
		if !slices.Contains(allRoles, r) {
			return nil, fmt.Errorf("%q is not a role; the roles are %s", word, formatRoles(allRoles))
		}
		if !slices.Contains(roles, r) {
			roles = append(roles, r)
		}
	}
	return roles, nil
}

func formatRoles(roles []Role) string {
	words := make([]string, len(roles))
	for i, r := range roles {
		words[i] = string(r)
	}
	return strings.Join(words, ", ")
}

// ActiveRoles returns the roles of a process with this configuration: those that it names, or else
// all. The signer's role is among all only if no remote signer is named, and that of approvals only if
// their pages have an address.
func (c Config) ActiveRoles() []Role {
	if len(c.Roles) > 0 {
		return c.Roles
	}
	return slices.DeleteFunc(slices.Clone(allRoles), func(r Role) bool {
		return r == RoleSigner && c.Signer.isRemote() || r == RoleApprovals && c.Approvals.Origin == ""
	})
}

// hasRole reports whether a process has one of these roles.
func (c Config) hasRole(roles ...Role) bool {
	return slices.ContainsFunc(c.ActiveRoles(), func(r Role) bool { return slices.Contains(roles, r) })
}

// IsSignerOnly reports whether a process is only a signer: it needs neither a database nor a chain.
func (c Config) IsSignerOnly() bool {
	return !c.hasRole(RoleAPI, RoleApprovals, RoleWorkers, RoleScan, RoleDispatch)
}

// asksChains reports whether a process asks the chains' providers.
func (c Config) asksChains() bool { return c.hasRole(RoleWorkers, RoleScan, RoleDispatch) }

// offlineClient is the Reader and the Sender of a process without endpoints.
type offlineClient struct{ err error }

var (
	_ chain.Reader = offlineClient{}
	_ chain.Sender = offlineClient{}
)

func (s offlineClient) Heads(context.Context) (chain.Heads, error) { return chain.Heads{}, s.err }

func (s offlineClient) Final(context.Context, uint64) (chain.Contents, error) {
	return chain.Contents{}, s.err
}

func (s offlineClient) Recent(context.Context, uint64) (chain.Contents, error) {
	return chain.Contents{}, s.err
}

func (s offlineClient) Demote() {}

func (s offlineClient) Balances(context.Context, chain.Block, []chain.Holding) ([]money.Amount, error) {
	return nil, s.err
}

func (s offlineClient) Senders(context.Context, chain.Block, []chain.Transfer) ([][]chain.Address, error) {
	return nil, s.err
}

func (s offlineClient) Kind(context.Context, chain.Block, chain.Address) (chain.AccountKind, error) {
	return "", s.err
}

func (s offlineClient) BatchSize([]chain.Payment) int { return 1 }

func (s offlineClient) Quote(context.Context, ...chain.Payment) (chain.Fees, error) {
	return chain.Fees{}, s.err
}

func (s offlineClient) TransferFees(context.Context) (chain.Fees, error) { return chain.Fees{}, s.err }

func (s offlineClient) Bump(context.Context, chain.Fees) (chain.Fees, bool, error) {
	return chain.Fees{}, false, s.err
}

func (s offlineClient) Build(chain.Address, chain.Slot, chain.Fees, ...chain.Payment) ([]byte, error) {
	return nil, s.err
}

func (s offlineClient) Send(context.Context, []byte) (answer chain.Answer, said string) {
	return answer, s.err.Error()
}

func (s offlineClient) Account(context.Context, chain.Address, ...chain.Slot) (chain.Account, error) {
	return chain.Account{}, s.err
}

func (s offlineClient) Outcome(context.Context, []chain.TxHash, ...chain.Payment) (*chain.Outcome, error) {
	return nil, s.err
}
