package rules

import (
	"errors"
	"fmt"

	"github.com/cofferpay/coffer/internal/signer"
)

// Recheck checks a record of a copied journal by the rules again. Package adopt checks its form.
func (eng *Engine) Recheck(r signer.Record) error {
	switch {
	case r.Issue != nil:
		key, err := eng.seed.DeriveWallet(r.Issue.WalletRef)
		if err == nil && (key.Address() != r.Issue.Address || key.Path() != r.Issue.Path) {
			err = fmt.Errorf("%w: %s is not the address of its wallet", signer.ErrProof, r.Issue.Address)
		}
		return err
	case r.Admit != nil:
		return eng.recheckAdmission(*r.Admit)
	case r.Sign != nil:
		return eng.recheckSignature(*r.Sign)
	}
	return nil
}

func (eng *Engine) recheckAdmission(intent signer.Intent) error {
	policy, err := eng.chainPolicy(intent.Chain)
	if err != nil {
		return err
	}
	if refusal := eng.index.payouts.CheckContent(intent); refusal != nil {
		return refusal
	}
	var refusal *signer.Refusal
	err = eng.checkDestination(intent, policy)
	if err != nil && !(errors.As(err, &refusal) && refusal.Code == signer.PolicyLimit) {
		return err
	}
	if intent.PaysOwnMoney() {
		// The endorsement was copied before the address could be paid, so it precedes this entry in
		// the copy.
		if _, refusal := eng.index.endorsed.FindPaid(intent); refusal != nil {
			return refusal
		}
	}
	return nil
}

func (eng *Engine) recheckSignature(signed signer.SignBody) error {
	lead := eng.index.intents[signed.IntentID]
	if lead == nil {
		return fmt.Errorf("intent %s was signed, and the mirror lacks its admission", signed.IntentID)
	}
	intents, err := eng.index.loadTxIntents(lead, signed.TxMemberIDs)
	if err != nil {
		return err
	}
	signKeys, err := eng.walletKeys(intents)
	if err != nil {
		return err
	}
	request := signer.SignRequest{
		IntentID: lead.ID, TxMemberIDs: signed.TxMemberIDs, Slot: signed.Slot, Act: signed.Act, Payload: signed.Payload,
	}
	if _, err := eng.matchPayload(intents, request, eng.conf.Policy.Chains[lead.Chain]); err != nil {
		return err
	}
	_, hash, err := eng.makeTx(lead, signed.Act, signed.Payload, signKeys)
	if err != nil {
		return err
	}
	if hash != signed.Hash || signer.PayloadDigest(signed.Payload) != signed.Digest {
		return fmt.Errorf("the signature for intent %s does not match its admission", lead.ID)
	}
	return nil
}
