package app

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
)

// Role is a part of the service that a process can run by itself. Any number of
// processes may have the same one, the signer's excepted: its journal has one owner,
// and a second process that opens it is refused.
type Role string

// The roles.
const (
	RoleAPI      Role = "api"      // answers the organizations
	RoleWorkers  Role = "workers"  // credits, events, webhooks, sweeps, chores
	RoleScan     Role = "scan"     // walks the chains
	RoleDispatch Role = "dispatch" // puts payments on the chains
	RoleSigner   Role = "signer"   // holds the seed
)

// allRoles in the order in which they are told.
var allRoles = []Role{RoleAPI, RoleWorkers, RoleScan, RoleDispatch, RoleSigner}

// ParseRoles reads a list such as "api,workers".
func ParseRoles(text string) ([]Role, error) {
	var roles []Role
	for word := range strings.SplitSeq(text, ",") {
		r := Role(strings.TrimSpace(word))
		if !slices.Contains(allRoles, r) {
			return nil, fmt.Errorf("%q is no role; they are %s", word, rolesText(allRoles))
		}
		if !slices.Contains(roles, r) {
			roles = append(roles, r)
		}
	}
	return roles, nil
}

func rolesText(roles []Role) string {
	words := make([]string, len(roles))
	for i, r := range roles {
		words[i] = string(r)
	}
	return strings.Join(words, ", ")
}

// Running are the roles that a process of this configuration has: those it names, or
// all, the signer's only where no other signer is named.
func (c Config) Running() []Role {
	if len(c.Roles) > 0 {
		return c.Roles
	}
	if c.Signer.elsewhere() {
		return slices.DeleteFunc(slices.Clone(allRoles), func(r Role) bool { return r == RoleSigner })
	}
	return allRoles
}

// has tells whether a process has one of these roles.
func (c Config) has(roles ...Role) bool {
	return slices.ContainsFunc(c.Running(), func(r Role) bool { return slices.Contains(roles, r) })
}

// SignerAlone tells whether a process is a signer and nothing else: it needs neither
// a database nor a chain.
func (c Config) SignerAlone() bool {
	return !c.has(RoleAPI, RoleWorkers, RoleScan, RoleDispatch)
}

// onChains tells whether a process asks the chains.
func (c Config) onChains() bool { return c.has(RoleWorkers, RoleScan, RoleDispatch) }

// silent is the Reader and the Sender of a process without endpoints.
type silent struct{ err error }

var (
	_ chain.Reader = silent{}
	_ chain.Sender = silent{}
)

func (s silent) Heads(context.Context) (chain.Heads, error) { return chain.Heads{}, s.err }

func (s silent) Final(context.Context, uint64) (chain.Contents, error) {
	return chain.Contents{}, s.err
}

func (s silent) Recent(context.Context, uint64) (chain.Contents, error) {
	return chain.Contents{}, s.err
}

func (s silent) Distrust() {}

func (s silent) Balances(context.Context, chain.Block, []chain.Holding) ([]money.Amount, error) {
	return nil, s.err
}

func (s silent) Senders(context.Context, chain.Block, []chain.Transfer) ([][]chain.Address, error) {
	return nil, s.err
}

func (s silent) Kind(context.Context, chain.Block, chain.Address) (chain.AccountKind, error) {
	return "", s.err
}

func (s silent) Fits([]chain.Payment) int { return 1 }

func (s silent) Quote(context.Context, ...chain.Payment) (chain.Fees, error) {
	return chain.Fees{}, s.err
}

func (s silent) TransferFees(context.Context) (chain.Fees, error) { return chain.Fees{}, s.err }

func (s silent) Bump(context.Context, chain.Fees) (chain.Fees, bool, error) {
	return chain.Fees{}, false, s.err
}

func (s silent) Build(chain.Address, chain.Slot, chain.Fees, ...chain.Payment) ([]byte, error) {
	return nil, s.err
}

func (s silent) Send(context.Context, []byte) (answer chain.Answer, said string) {
	return answer, s.err.Error()
}

func (s silent) Account(context.Context, chain.Address, ...chain.Slot) (chain.Account, error) {
	return chain.Account{}, s.err
}

func (s silent) Outcome(context.Context, []chain.TxHash, ...chain.Payment) (*chain.Outcome, error) {
	return nil, s.err
}
