package rules

import (
	"fmt"
	"slices"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/batches"
	"github.com/cofferpay/coffer/internal/signer/keys"
	"github.com/cofferpay/coffer/internal/signer/limits"
	"github.com/cofferpay/coffer/internal/signer/signpolicy"
	"github.com/cofferpay/coffer/internal/signer/txcodec"
)

// feeRateUnit is the number of virtual bytes that a fee rate is for.
const feeRateUnit = 1000

// Sign decodes, checks and signs a payload. The bytes stay in the process until the decision's entry
// is on disk.
func (eng *Engine) Sign(r signer.SignRequest, reading Reading) (raw []byte, hash chain.TxHash, d Decision, err error) {
	refused := func(err error) ([]byte, chain.TxHash, Decision, error) { return nil, "", Decision{}, err }
	digest := signer.PayloadDigest(r.Payload)
	lead := eng.index.intents[r.IntentID]
	if lead == nil {
		return refused(signer.Refuse(signer.RefusedIntent, "intent %s was never admitted", r.IntentID))
	}
	intents, err := eng.index.loadTxIntents(lead, r.TxMemberIDs)
	if err != nil {
		return refused(err)
	}
	signKeys, err := eng.walletKeys(intents)
	if err != nil {
		return refused(err)
	}
	earlier, signedBefore := lead.signatures[digest]
	if signedBefore && (earlier.Act != r.Act || earlier.Slot != r.Slot ||
		!slices.Equal(earlier.TxMemberIDs, r.TxMemberIDs)) {
		return refused(signer.Refuse(signer.RefusedPayload,
			"these bytes of intent %s were signed to %s in %v with %q, not to %s in %v with %q",
			lead.ID, earlier.Act, earlier.Slot, earlier.TxMemberIDs, r.Act, r.Slot, r.TxMemberIDs))
	}
	if !signedBefore {
		if err := eng.checkPayload(intents, r, reading); err != nil {
			return refused(err)
		}
	}
	if raw, hash, err = eng.makeTx(lead, r.Act, r.Payload, signKeys); err != nil {
		return refused(fmt.Errorf("sign for intent %s: %w", lead.ID, err))
	}
	if signedBefore {
		if hash != earlier.Hash {
			return refused(fmt.Errorf("%w: entry %d has transaction %s and its bytes make %s",
				signer.ErrDamaged, lead.signatureSeqs[digest], earlier.Hash, hash))
		}
		return raw, hash, Decision{Seq: lead.signatureSeqs[digest]}, nil
	}
	return raw, hash, Decision{Record: &signer.Record{Kind: signer.RecordSign, Sign: &signer.SignBody{
		IntentID: lead.ID, TxMemberIDs: r.TxMemberIDs, Slot: r.Slot, Act: r.Act, Payload: r.Payload, Digest: digest,
		Hash: hash, Proof: r.Proof,
	}}}, nil
}

// checkPayload checks a payload against the intents, the slot and the policy. It checks each of
// several intents separately.
func (eng *Engine) checkPayload(intents []*intentState, r signer.SignRequest, reading Reading) error {
	lead := intents[0]
	policy, ok := eng.conf.Policy.Chains[lead.Chain]
	if !ok {
		return signer.Refuse(signer.RefusedNotConfigured, "the policy does not name chain %q any more", lead.Chain)
	}
	if r.Act == signer.Pay {
		for _, intent := range intents {
			if refusal := eng.index.checkNotVoided(intent.ID); refusal != nil {
				return refusal
			}
		}
	}
	effect, err := eng.matchPayload(intents, r, policy)
	if err != nil {
		return err
	}
	if r.Act == signer.Pay && !lead.hasSignedPayment() {
		for _, intent := range intents {
			if refusal := checkFirstSwapPayload(intent.Intent, reading); refusal != nil {
				return refusal
			}
			if refusal := limits.CheckCurrent(eng.conf.Policy, intent.Intent); refusal != nil {
				return refusal
			}
			if refusal := eng.index.endorsed.CheckNotRevoked(intent.Intent); refusal != nil {
				return refusal
			}
		}
	}
	fee := effect.MaxCost
	if policy.FeeMax.Less(fee) {
		return signer.Refuse(signer.RefusedFee,
			"the payload of intent %s can cost %v, and the policy's feeMax on %s is %v", lead.ID, fee, lead.Chain,
			policy.FeeMax)
	}
	if r.Act == signer.Pay {
		share := signer.MaxFeeShare(fee, len(intents))
		for _, intent := range intents {
			if !intent.FeeMax.IsZero() && intent.FeeMax.Less(share) {
				return signer.Refuse(signer.RefusedFee,
					"the payload of intent %s can cost %v, and it was admitted for a fee of at most %v", intent.ID,
					share, intent.FeeMax)
			}
		}
	}
	if added := lead.addedCost(fee); !added.IsZero() {
		if reading.Ahead > 0 && policy.FeeDayLimit() != nil {
			return limits.RefuseUnconfirmed(reading.Ahead)
		}
		return eng.index.totals.CheckFee(policy, eng.index.feeAccount(lead.Intent), added, reading.Now)
	}
	return nil
}

// matchPayload decodes a payload and checks that it does nothing but what was admitted.
func (eng *Engine) matchPayload(
	intents []*intentState, r signer.SignRequest, policy signpolicy.Chain,
) (txcodec.Effect, error) {
	lead := intents[0]
	payer := eng.index.wallets[lead.Account()].address
	if err := eng.index.checkSlot(intents, payer, r.Slot); err != nil {
		return txcodec.Effect{}, err
	}
	effect, err := txcodec.Find(lead.Chain.Family()).Decode(r.Payload)
	refuse := func(format string, args ...any) (txcodec.Effect, error) {
		return effect, signer.Refuse(signer.RefusedPayload, format, args...)
	}
	switch {
	case err != nil:
		return refuse("the payload of intent %s: %v", lead.ID, err)
	case effect.NetworkID != "" && effect.NetworkID != policy.SignerID:
		return refuse("the payload of intent %s is for chain id %s, and %s is %s", lead.ID, effect.NetworkID,
			lead.Chain, policy.SignerID)
	case !effect.TakesSlot(r.Slot):
		return refuse("the payload of intent %s has %v, and its slot is %v", lead.ID, effect.Slot, r.Slot)
	case effect.Payer != "" && effect.Payer != payer:
		return refuse("the fee payer of intent %s is %s, and %s in its payload", lead.ID, payer, effect.Payer)
	}
	if err := effect.VerifyProof(r.Proof); err != nil {
		return refuse("more than one transaction in the slot of intent %s could be mined: %v", lead.ID, err)
	}
	if err := eng.checkInputs(lead, effect.Inputs); err != nil {
		return effect, err
	}
	if slices.ContainsFunc(intents, func(member *intentState) bool { return member.Kind().Consolidates }) {
		return effect, eng.checkConsolidation(intents, effect, policy, payer)
	}
	if r.Act == signer.Cancel {
		if err := effect.CheckCancel(payer); err != nil {
			return refuse("the cancel of intent %s: %v", lead.ID, err)
		}
		return effect, nil
	}
	payments := make([]chain.Payment, len(intents))
	for n, member := range intents {
		if refusal := batches.CheckMember(lead.Intent, member.Intent); refusal != nil {
			return effect, refusal
		}
		payments[n] = member.ChainPayment(eng.index.wallets[member.From].address)
	}
	if err := effect.CheckPayments(payments...); err != nil {
		if len(intents) > 1 {
			return refuse("the payload of intent %s with %q does not make exactly their payments: %v", lead.ID,
				r.TxMemberIDs, err)
		}
		return refuse("the payload of intent %s differs from the payment of %v of %q to %s that was admitted: %v",
			lead.ID, lead.Amount, lead.Contract, lead.To, err)
	}
	return effect, nil
}

// checkConsolidation checks that a payload makes one output of many, alone in its transaction and
// at an acceptable fee rate. It pays no one, so its fee is all that an attacker could burn with it.
// It therefore has a limit of its own, far below that of payments, which have to be made in time.
// Its cancel is checked in the same way. Rule COIN-8.
func (eng *Engine) checkConsolidation(
	intents []*intentState, effect txcodec.Effect, policy signpolicy.Chain, payer chain.Address,
) error {
	lead := intents[0]
	if len(intents) > 1 {
		return signer.Refuse(signer.RefusedIntent,
			"consolidation %s shares its transaction with others, which a consolidation never does", lead.ID)
	}
	if effect.Inputs == nil || effect.Inputs.Change != lead.To {
		return signer.Refuse(signer.RefusedDestination,
			"the outputs of consolidation %s do not go to the wallet that it was admitted for, %s", lead.ID, lead.To)
	}
	if err := effect.CheckCancel(payer); err != nil {
		return signer.Refuse(signer.RefusedPayload,
			"the payload of consolidation %s does not return the whole amount of its inputs: %v", lead.ID, err)
	}
	costMax, err := policy.EffectiveConsolidationRate().Mul(effect.VirtualSize)
	if err == nil {
		costMax, err = costMax.Add(money.Units(feeRateUnit - 1)) // a fee is rounded up
	}
	if cost, mulErr := effect.MaxCost.Mul(feeRateUnit); effect.VirtualSize == 0 || mulErr != nil ||
		err == nil && costMax.Less(cost) {
		return signer.Refuse(signer.RefusedFee,
			"consolidation %s costs %v for %d virtual bytes, and mergeRateMax of the policy on %s is %v per thousand",
			lead.ID, effect.MaxCost, effect.VirtualSize, lead.Chain, policy.EffectiveConsolidationRate())
	}
	return nil
}

// walletKeys returns the keys of the wallets that the intents of one slot name, each once. The key
// of the wallet that owns the slot is first, then those of the wallets that pay the amounts.
func (eng *Engine) walletKeys(intents []*intentState) (signKeys []keys.WalletKey, err error) {
	wallets := []signer.WalletRef{intents[0].Account()}
	for _, intent := range intents {
		if !slices.Contains(wallets, intent.From) {
			wallets = append(wallets, intent.From)
		}
	}
	for _, w := range wallets {
		key, err := eng.issuedKey(w, "the payer "+intents[0].ID)
		if err != nil {
			return nil, err
		}
		signKeys = append(signKeys, key)
	}
	return signKeys, nil
}

// issuedKey derives the key of a wallet, that of payer, and compares its address with the journal's.
func (eng *Engine) issuedKey(w signer.WalletRef, payer string) (keys.WalletKey, error) {
	key, err := eng.seed.DeriveWallet(w)
	if err != nil {
		return key, fmt.Errorf("derive the key of %s: %w", payer, err)
	}
	if wallet := eng.index.wallets[w]; key.Address() != wallet.address {
		return key, wallet.contradiction()
	}
	return key, nil
}

// makeTx signs a payload that was checked, with the keys that have to sign. A payment needs the keys
// of the intent's wallets, a cancel only the first, of the wallet that owns the slot. Where outputs
// are spent, each needs the key of its owner.
func (eng *Engine) makeTx(
	lead *intentState, act signer.Act, payload []byte, signKeys []keys.WalletKey,
) (raw []byte, hash chain.TxHash, err error) {
	family := txcodec.Find(lead.Chain.Family())
	effect, err := family.Decode(payload)
	switch {
	case err != nil:
		return nil, "", err
	case effect.Inputs != nil:
		if signKeys, err = eng.outputKeys(lead, effect.Inputs.Owners); err != nil {
			return nil, "", err
		}
	case act == signer.Cancel:
		signKeys = signKeys[:1]
	}
	return family.Sign(payload, signKeys...)
}

// outputKeys returns the keys of the outputs' owners. They may be any wallets of the organization:
// a credited deposit is the organization's, at whichever address it arrived. Error: a refusal for
// an output of another owner.
func (eng *Engine) outputKeys(intent *intentState, owners []chain.Address) ([]keys.WalletKey, error) {
	derived := map[chain.Address]keys.WalletKey{}
	var signKeys []keys.WalletKey
	for _, owner := range owners {
		if _, ok := derived[owner]; !ok {
			ref, issued := eng.index.addressOwners[familyAddress{intent.From.Family, owner}]
			if !issued || ref.OrgID != intent.From.OrgID {
				return nil, signer.Refuse(signer.RefusedWallet,
					"the payload of intent %s spends an output of %s, which is not an address of its organization",
					intent.ID, owner)
			}
			var err error
			if derived[owner], err = eng.issuedKey(ref, "an output that pays "+intent.ID); err != nil {
				return nil, err
			}
		}
		signKeys = append(signKeys, derived[owner])
	}
	return signKeys, nil
}

// checkInputs checks that the outputs that a payload spends are the organization's, and that the
// change goes to one of its change wallets. checkSlot checks that the outputs are in no other slot.
func (eng *Engine) checkInputs(intent *intentState, inputs *txcodec.Inputs) error {
	if inputs == nil {
		return nil
	}
	if _, err := eng.outputKeys(intent, inputs.Owners); err != nil {
		return err
	}
	if ref, issued := eng.index.addressOwners[familyAddress{intent.From.Family, inputs.Change}]; !issued ||
		ref.OrgID != intent.From.OrgID || ref.Purpose != signer.ChangePurpose {
		return signer.Refuse(signer.RefusedDestination,
			"the change output of intent %s goes to %s, which is not a change wallet of its organization",
			intent.ID, inputs.Change)
	}
	return nil
}
