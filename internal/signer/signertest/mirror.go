package signertest

import (
	"context"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
)

// Mirror is what a server knows of passkeys and of one rule, for tests of what it decides by them.
type Mirror struct {
	Installation string
	Rule         *signer.ApprovalRule
	// OperatorRule is that of the operators.
	OperatorRule *signer.ApprovalRule
	Keys         map[string]*Passkey // by id
	// IsCareless believes every signature, like a server in the hands of an attacker.
	IsCareless bool
	// IsSilent lacks the words of the signer.
	IsSilent bool
}

// NewMirror returns the mirror of a signer that knows these passkeys and no rule.
func (a *Approvers) NewMirror(passkeys ...*Passkey) *Mirror {
	m := &Mirror{Installation: a.Installation, Keys: map[string]*Passkey{}}
	for _, p := range passkeys {
		m.Keys[p.ID] = p
	}
	return m
}

// LoadRule returns the rule of an organization, or of the operators.
func (m *Mirror) LoadRule(_ context.Context, _ pg.Tx, org string) (*signer.ApprovalRule, error) {
	if org == signer.Operators {
		return m.OperatorRule, nil
	}
	return m.Rule, nil
}

// Context returns what a statement says beside what it is about.
func (m *Mirror) Context(person, notAfter string) signer.StatementContext {
	return signer.StatementContext{Installation: m.Installation, Approver: person, NotAfter: notAfter}
}

// AssetWords returns the network of the policy and no token.
func (m *Mirror) AssetWords(chain.Name, chain.Address) (string, *signer.Token, error) {
	if m.IsSilent {
		return "", nil, fault.New(fault.Unavailable, fault.CodeUnavailable, fault.NothingWritten,
			"The signer is silent.")
	}
	return "31337", nil, nil
}

// CheckSignature verifies a signature by the passkeys of the mirror.
func (m *Mirror) CheckSignature(
	_ context.Context, _ pg.Tx, org, person string, right signer.Right, signature signer.KeySignature,
	statement func(signer.StatementContext) signer.Statement,
) error {
	if m.IsCareless {
		return nil
	}
	k := m.Keys[signature.KeyID]
	if k == nil || k.OrgID != org || k.Person != person || k.Right != right {
		return fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten, "The passkey is not this person's.")
	}
	words := statement(m.Context(person, signature.NotAfter))
	if err := signature.Verify(k.Passkey(), words); err != nil {
		return fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten, "The signature is of other words.")
	}
	return nil
}

// LoadSigned returns a signature with its words, and with the passkey without the signer's proof.
func (m *Mirror) LoadSigned(
	_ context.Context, _ pg.Tx, _ string, signature signer.KeySignature,
	statement func(signer.StatementContext) signer.Statement,
) (*signer.SignedStatement, error) {
	signed := &signer.SignedStatement{Signature: signature}
	if k := m.Keys[signature.KeyID]; k != nil {
		signed.Words = statement(m.Context(k.Person, signature.NotAfter))
		signed.Passkey = signer.EnrolBody{Enrolment: k.Enrolment}
	}
	return signed, nil
}

// AskToSign sends no mail.
func (m *Mirror) AskToSign(context.Context, pg.Tx, string, string, string, string) error { return nil }
