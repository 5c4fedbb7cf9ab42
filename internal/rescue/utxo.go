package rescue

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/bitcoin/bitcointx"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/keys"
	"github.com/cofferpay/coffer/internal/wallet"
)

// On UTXO chains no node reports the balance of an address without reading all of its blocks. The
// rescue walks the blocks from a height on. It looks for all addresses of the seed and the
// customers' ids: treasury, products and customers in every form, and the numbered change wallets.
// It moves the unspent outputs among them to one address.

const (
	// changeLookahead is how far the search goes past the last change wallet that the chain has
	// seen. A signer issues change wallets at most half of that past those in use.
	changeLookahead = 1000
	// walkSaveInterval is how often the progress is saved and reported.
	walkSaveInterval = 10 * time.Second

	utxoPoll = 2 * time.Second
	// The time until transactions that are in no block get a fee bump.
	utxoBump        = 20 * time.Minute
	outputsPerQuery = 50 // about how many outputs one query asks for
)

// utxoRescue is the rescue on a UTXO chain.
type utxoRescue struct {
	org     string
	network chain.Network
	costMax money.Amount
	seed    keys.Seed
	path    string

	refs          map[chain.Address]signer.WalletRef
	changeWallets uint64        // number of change wallets among them
	change        chain.Address // the change wallet that slot keys name, which receives nothing
	nonce         uint64        // the next one
	slots         map[string]signer.Slot
	progress      walkProgress
}

// walkProgress is the progress of the walk, as it is stored in a file next to the journal.
type walkProgress struct {
	SearchHash string `json:"of"`   // hash of what was searched for
	NextBlock  uint64 `json:"next"` // the next block
	// The last change wallet that received an output.
	LastChange uint64         `json:"last"`
	Outputs    []chain.Output `json:"coins"`
}

// prepareUTXO walks the chain and asks which outputs are unspent.
func (r *Rescue) prepareUTXO(ctx context.Context, parts Parts, order Order) error {
	h := &utxoRescue{
		org: order.Org, network: parts.Network, costMax: parts.CostMax, seed: parts.Seed, path: parts.WalkFile,
	}
	r.utxo = h
	startBlock := order.StartBlock
	if startBlock == 0 {
		startBlock = parts.StartBlock
	}
	if startBlock == 0 {
		return fmt.Errorf(
			"chains.%s.start_height is not set: name with --from the first block that can have paid the addresses",
			order.Chain,
		)
	}
	if err := h.deriveWallets(order.Customers, order.Swaps); err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(strings.Join(slices.Concat(
		[]string{order.Org, strconv.FormatUint(startBlock, 10)}, slices.Sorted(slices.Values(order.Customers)),
	), "\n")))
	h.progress = walkProgress{SearchHash: hex.EncodeToString(sum[:]), NextBlock: startBlock}
	switch text, err := os.ReadFile(h.path); {
	case err == nil:
		var earlier walkProgress
		if err := json.Unmarshal(text, &earlier); err != nil {
			return fmt.Errorf("read the progress of the scan, %s: %w; without that file it begins again", h.path, err)
		}
		if earlier.SearchHash == h.progress.SearchHash { // otherwise the customers or the height differ
			h.progress = earlier
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := h.deriveChangeWallets(h.progress.LastChange + changeLookahead); err != nil {
		return err
	}
	tell := order.Progress
	if tell == nil {
		tell = func(string) {}
	}
	if err := r.walkBlocks(ctx, tell); err != nil {
		return err
	}
	unspent, err := r.listUnspent(ctx)
	if err != nil {
		return err
	}
	return r.loadHoldings(ctx, unspent)
}

// deriveWallets derives the addresses of all wallets but the change wallets.
func (h *utxoRescue) deriveWallets(customers, swaps []string) error {
	h.refs = map[chain.Address]signer.WalletRef{}
	refs := []signer.WalletRef{{Purpose: wallet.Treasury}}
	for _, form := range []chain.Form{chain.Usual, chain.Taproot} {
		for _, product := range ledger.Products {
			refs = append(refs, signer.WalletRef{Purpose: wallet.OrganizationDeposit, Subject: product, Form: form})
		}
		for _, c := range customers {
			refs = append(refs, signer.WalletRef{Purpose: wallet.CustomerDeposit, Subject: c, Form: form})
		}
	}
	for _, swapID := range swaps { // their wallets have the usual form
		for _, purpose := range swapPurposes(swapID) {
			refs = append(refs, signer.WalletRef{Purpose: purpose, Subject: swapID})
		}
	}
	for _, ref := range refs {
		if _, err := h.addWallet(ref); err != nil {
			return err
		}
	}
	return nil
}

func (h *utxoRescue) addWallet(ref signer.WalletRef) (chain.Address, error) {
	ref.OrgID, ref.Family = h.org, chain.BitcoinFamily
	key, err := h.seed.DeriveWallet(ref)
	if err != nil {
		return "", fmt.Errorf("derive the address of %s %q: %w", ref.Purpose, ref.Subject, err)
	}
	h.refs[key.Address()] = ref
	return key.Address(), nil
}

// deriveChangeWallets derives the change wallets up to a number.
func (h *utxoRescue) deriveChangeWallets(numberMax uint64) error {
	for ; h.changeWallets < numberMax; h.changeWallets++ {
		if _, err := h.addWallet(
			signer.WalletRef{Purpose: wallet.Change, Subject: strconv.FormatUint(h.changeWallets+1, 10)},
		); err != nil {
			return err
		}
	}
	return nil
}

// walkBlocks reads the final blocks that were not read yet.
func (r *Rescue) walkBlocks(ctx context.Context, tell func(string)) error {
	h := r.utxo
	heads, err := r.chain.Reader.Heads(ctx)
	if err != nil {
		return fmt.Errorf("ask %s for its head: %w", r.chain.Name, err)
	}
	report := func() {
		tell(fmt.Sprintf("block %d of %d: %d outputs found, change wallets up to number %d", h.progress.NextBlock-1,
			heads.Final.Height, len(h.progress.Outputs), h.progress.LastChange))
	}
	saved := time.Now()
	for h.progress.NextBlock <= heads.Final.Height {
		block, err := r.chain.Reader.Final(ctx, h.progress.NextBlock)
		if err == nil {
			err = h.addBlock(block)
		}
		if err != nil {
			return errors.Join(
				fmt.Errorf(
					"read block %d: %w; repeat the same command to continue from there",
					h.progress.NextBlock, err,
				),
				h.saveProgress(),
			)
		}
		if time.Since(saved) > walkSaveInterval {
			saved = time.Now()
			if err := h.saveProgress(); err != nil {
				return err
			}
			report()
		}
	}
	report()
	return h.saveProgress()
}

// addBlock adds the outputs of a block that belong to addresses of the seed.
func (h *utxoRescue) addBlock(b chain.Contents) error {
	// One output may extend the change wallets so that another output matches.
	for grown := true; grown; {
		grown = false
		for _, t := range b.Transfers {
			ref, isOwn := h.refs[t.To]
			if !isOwn || ref.Purpose != wallet.Change {
				continue
			}
			n, err := strconv.ParseUint(ref.Subject, 10, 64)
			if err != nil {
				return err
			}
			if n > h.progress.LastChange {
				h.progress.LastChange, grown = n, true
				if err := h.deriveChangeWallets(n + changeLookahead); err != nil {
					return err
				}
			}
		}
	}
	for _, t := range b.Transfers {
		if _, isOwn := h.refs[t.To]; !isOwn || t.Kind != chain.Native {
			continue
		}
		number, err := strconv.ParseUint(t.Position, 10, 32)
		if err != nil {
			return fmt.Errorf("output %q of %s has no number", t.Position, t.Tx)
		}
		h.progress.Outputs = append(h.progress.Outputs,
			chain.Output{Outpoint: bitcointx.FormatOutpoint(t.Tx, uint32(number)), Owner: t.To, Amount: t.Amount})
	}
	h.progress.NextBlock = b.Height + 1
	return nil
}

// saveProgress saves the progress of the walk: either the new file is complete or the former one
// stays.
func (h *utxoRescue) saveProgress() error {
	text, err := json.Marshal(h.progress)
	if err != nil {
		return err
	}
	fresh := h.path + ".new"
	if err := os.WriteFile(fresh, text, 0o600); err != nil {
		return fmt.Errorf("write the progress of the scan: %w", err)
	}
	return os.Rename(fresh, h.path)
}

// listUnspent returns the outputs that no block has spent, the largest first.
func (r *Rescue) listUnspent(ctx context.Context) (unspent []chain.Output, err error) {
	h := r.utxo
	for chunk := range slices.Chunk(h.progress.Outputs, outputsPerQuery) {
		slots := make([]chain.Slot, len(chunk))
		for i, c := range chunk {
			slotKey, err := bitcointx.NewSlotKey(h.network, []chain.Output{c}, c.Owner)
			if err != nil {
				return nil, err
			}
			slots[i].Key = slotKey.String()
		}
		account, err := r.chain.Sender.Account(ctx, chunk[0].Owner, slots...)
		if err != nil {
			return nil, fmt.Errorf("ask %s which outputs are unspent: %w", r.chain.Name, err)
		}
		for i, c := range chunk {
			if spent, _ := account.IsUsed(slots[i]); !spent {
				unspent = append(unspent, c)
			}
		}
	}
	slices.SortFunc(unspent, func(a, b chain.Output) int {
		switch {
		case b.Amount.Less(a.Amount):
			return -1
		case a.Amount.Less(b.Amount):
			return 1
		}
		return strings.Compare(a.Outpoint, b.Outpoint)
	})
	return unspent, nil
}

// loadHoldings reads the balances of wallets, and issues those with a balance in the journal.
func (r *Rescue) loadHoldings(ctx context.Context, unspent []chain.Output) error {
	h := r.utxo
	issue := func(ref signer.WalletRef) (signer.IssuedAddress, error) {
		issued, err := r.sign.IssueAddress(ctx, ref)
		if err != nil {
			return issued, fmt.Errorf("derive the address of %s %q: %w", ref.Purpose, ref.Subject, err)
		}
		r.wallets = append(r.wallets, issued)
		return issued, nil
	}
	r.wallets, r.Holdings = nil, nil
	if _, err := issue(
		signer.WalletRef{OrgID: h.org, Family: chain.BitcoinFamily, Purpose: wallet.Treasury},
	); err != nil {
		return err
	}
	// Slot keys name a change wallet. No change is returned, so all name the same one.
	changeWallet, err := r.sign.IssueAddress(ctx, signer.WalletRef{
		OrgID: h.org, Family: chain.BitcoinFamily, Purpose: wallet.Change,
		Subject: strconv.FormatUint(h.progress.LastChange+1, 10),
	})
	if err != nil {
		return fmt.Errorf("derive the change wallet that slot keys name: %w", err)
	}
	h.change = changeWallet.Address
	indexes := map[chain.Address]int{}
	for _, c := range unspent {
		if i, ok := indexes[c.Owner]; ok {
			if r.Holdings[i].Amount, err = r.Holdings[i].Amount.Add(c.Amount); err != nil {
				return err
			}
			continue
		}
		indexes[c.Owner] = len(r.Holdings)
		r.Holdings = append(
			r.Holdings, Holding{Wallet: h.refs[c.Owner], Address: c.Owner, Mint: r.nativeMint(), Amount: c.Amount},
		)
		if c.Owner != r.wallets[0].Address {
			if _, err := issue(h.refs[c.Owner]); err != nil {
				return err
			}
		}
	}
	return nil
}

// batch is a set of outputs that are spent together, with the transactions made of them. Each
// transaction pays all the outputs less its fee, so any of them completes the batch.
type batch struct {
	outputs      []chain.Output
	fees         chain.Fees
	sentAt       time.Time
	slots        []chain.Slot
	transactions []signedTx
	// How often the outputs were spent while none of our transactions was seen.
	missedChecks int
}

type signedTx struct {
	payment chain.Payment
	hash    chain.TxHash
	raw     []byte
}

// runUTXO moves all outputs that are worth their fee, and repeats until none is left.
func (r *Rescue) runUTXO(ctx context.Context, tell func(string)) error {
	if err := r.loadUsedSlots(ctx); err != nil {
		return err
	}
	for {
		unspent, err := r.listUnspent(ctx)
		if err != nil {
			return err
		}
		price, err := r.chain.Sender.TransferFees(ctx)
		if err != nil {
			return err
		}
		batches, uneconomic, err := r.planBatches(unspent, price)
		if err != nil {
			return err
		}
		if len(batches) == 0 {
			if len(uneconomic) > 0 {
				tell(fmt.Sprintf(
					"%d outputs are left that are not worth their fee now, at %v satoshi per thousand virtual bytes",
					len(uneconomic), price.TipCap,
				))
			}
			return nil
		}
		for _, b := range batches {
			if err := r.sendBatch(ctx, b, price); err != nil {
				return err
			}
		}
		if err := r.awaitMined(ctx, batches, tell); err != nil {
			return err
		}
	}
}

// loadUsedSlots reads from the journal which slots an earlier run took.
func (r *Rescue) loadUsedSlots(ctx context.Context) error {
	h := r.utxo
	h.slots = map[string]signer.Slot{}
	return r.readJournal(ctx, func(rec signer.Record) error {
		if rec.Sign != nil && rec.Sign.Slot.Key != "" {
			h.slots[rec.Sign.IntentID] = rec.Sign.Slot
			h.nonce = max(h.nonce, rec.Sign.Slot.Nonce+1)
		}
		return nil
	})
}

// planBatches groups outputs into transactions, the largest first. uneconomic are outputs that are
// not worth the cost of spending them at that price.
func (r *Rescue) planBatches(
	unspent []chain.Output, price chain.Fees,
) (batches []*batch, uneconomic []chain.Output, err error) {
	rate, ok := price.TipCap.Uint64()
	if !ok || rate == 0 {
		return nil, nil, fmt.Errorf("%v is not a fee rate", price.TipCap)
	}
	var b *batch
	for _, c := range unspent {
		w, err := bitcointx.SpendWeight(r.utxo.network, c.Owner)
		if err != nil {
			return nil, nil, err
		}
		if !money.Units(bitcointx.FeeAtRate(bitcointx.VirtualSize(w), rate)).Less(c.Amount) {
			uneconomic = append(uneconomic, c)
			continue
		}
		if b != nil {
			_, fee, err := r.batchAmount(append(slices.Clip(b.outputs), c), rate)
			if err != nil {
				return nil, nil, err
			}
			if len(b.outputs) == bitcointx.InputsMax || r.utxo.costMax.Less(fee) {
				b = nil
			}
		}
		if b == nil {
			b = &batch{}
			batches = append(batches, b)
		}
		b.outputs = append(b.outputs, c)
	}
	// A transaction has to pay its own fee, and its payment must not be dust.
	script, err := bitcointx.Script(r.utxo.network, r.destination)
	if err != nil {
		return nil, nil, err
	}
	batches = slices.DeleteFunc(batches, func(b *batch) bool {
		amount, _, err := r.batchAmount(b.outputs, rate)
		if err == nil && !amount.Less(bitcointx.Dust(script)) {
			return false
		}
		uneconomic = append(uneconomic, b.outputs...)
		return true
	})
	return batches, uneconomic, nil
}

// batchAmount returns the payment and the fee of a transaction that spends the outputs.
func (r *Rescue) batchAmount(outputs []chain.Output, rate uint64) (amount, fee money.Amount, err error) {
	weight, err := bitcointx.PayWeight(r.utxo.network, r.destination)
	if err != nil {
		return amount, fee, err
	}
	weight += bitcointx.EmptyWeight
	for _, c := range outputs {
		w, err := bitcointx.SpendWeight(r.utxo.network, c.Owner)
		if err != nil {
			return amount, fee, err
		}
		weight += w
		if amount, err = amount.Add(c.Amount); err != nil {
			return amount, fee, err
		}
	}
	fee = money.Units(bitcointx.FeeAtRate(bitcointx.VirtualSize(weight), rate))
	if amount, err = amount.Sub(fee); err != nil {
		return money.Zero, fee, nil
	}
	return amount, fee, nil
}

// sendBatch signs a batch at a price and broadcasts it.
func (r *Rescue) sendBatch(ctx context.Context, b *batch, price chain.Fees) error {
	h, treasury := r.utxo, r.wallets[0]
	rate, _ := price.TipCap.Uint64()
	amount, _, err := r.batchAmount(b.outputs, rate)
	if err != nil {
		return err
	}
	slotKey, err := bitcointx.NewSlotKey(h.network, b.outputs, h.change)
	if err != nil {
		return err
	}
	p := chain.Payment{From: treasury.Address, To: r.destination, Amount: amount}
	if b.fees, err = bitcointx.FitFees(
		h.network, slotKey, []chain.Payment{p}, chain.Fees{TipCap: price.TipCap},
	); err != nil {
		return err
	}
	intent := signer.Intent{
		Purpose: signer.Payment, Chain: r.chain.Name, From: treasury.WalletRef, To: r.destination, Amount: amount,
		MintID: r.nativeMint().ID,
	}
	intent.ID = id.Derive("rsc", string(intent.Chain), slotKey.String(), string(intent.To), amount.String())
	slot, isKnown := h.slots[intent.ID]
	if !isKnown {
		slot = signer.Slot{Nonce: h.nonce, Key: slotKey.String()}
		h.nonce++
	}
	if _, err := r.sign.AdmitIntent(ctx, intent); err != nil {
		return err
	}
	payload, err := r.chain.Sender.Build(treasury.Address, slot, b.fees, p)
	if err != nil {
		return err
	}
	signed, err := r.sign.Sign(
		ctx, signer.SignRequest{IntentID: intent.ID, Slot: slot, Act: signer.Pay, Payload: payload},
	)
	if err != nil {
		return err
	}
	h.slots[intent.ID] = slot
	b.sentAt, b.slots = time.Now(), append(b.slots, slot)
	b.transactions = append(b.transactions, signedTx{p, signed.Hash, signed.Raw})
	return nil
}

// awaitMined broadcasts the signed transactions until a block has spent the outputs of every batch,
// with fee bumps.
func (r *Rescue) awaitMined(ctx context.Context, pending []*batch, tell func(string)) error {
	for len(pending) > 0 {
		for _, b := range pending {
			for _, m := range b.transactions {
				r.chain.Sender.Send(ctx, m.raw) // whatever the answer, the chain shows the outcome
			}
		}
		pending = slices.DeleteFunc(pending, func(b *batch) bool {
			account, err := r.chain.Sender.Account(ctx, r.wallets[0].Address, b.slots[0])
			if err != nil {
				return false // asked again shortly
			}
			if spent, _ := account.IsUsed(b.slots[0]); !spent {
				return false
			}
			for _, m := range b.transactions {
				outcome, err := r.chain.Sender.Outcome(ctx, []chain.TxHash{m.hash}, m.payment)
				if err == nil && outcome != nil && outcome.Paid {
					tell(fmt.Sprintf("%s %s of %d outputs to %s in %s",
						m.payment.Amount.Decimal(r.nativeMint().Decimals), r.nativeMint().Symbol,
						len(b.outputs), r.destination, m.hash))
					return true
				}
			}
			if b.missedChecks++; b.missedChecks < 5 {
				return false
			}
			tell("an earlier transaction has spent outputs: looking at the rest again")
			return true
		})
		for _, b := range pending {
			if time.Since(b.sentAt) < utxoBump {
				continue
			}
			b.sentAt = time.Now()
			if dearer, ok, err := r.chain.Sender.Bump(ctx, b.fees); err == nil && ok {
				if err := r.sendBatch(ctx, b, dearer); err != nil {
					tell(fmt.Sprintf(
						"the transaction of %d outputs with a higher fee was not made: %v",
						len(b.outputs), err,
					))
				}
			}
		}
		if len(pending) == 0 {
			return nil
		}
		timer := time.NewTimer(utxoPoll)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
	}
	return nil
}
