package app

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
	"github.com/cofferpay/coffer/internal/id"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/keys"
	"github.com/cofferpay/coffer/internal/wallet"
)

// Where accounts are coins no node tells what an address holds but by all of its blocks.
// They are walked, from a height on, for all that the seed and the customers' ids name:
// treasury, products and customers in every form, and the wallets for change, which are
// numbered. What nothing has spent of that goes to one address.

const (
	// changeAhead is how far past the last wallet for change that the chain has seen is
	// looked. A signer issues none further than half of that past those in use.
	changeAhead = 1000
	// rescueWalk is appended to the name of the rescue's journal: how far the walk is and
	// what it found.
	rescueWalk = ".walk"
	// walkSave is how often that is written down and told.
	walkSave = 10 * time.Second

	coinsPoll  = 2 * time.Second
	coinsBump  = 20 * time.Minute // until transactions that are in no block are made dearer
	coinsAsked = 50               // about so many coins one question is
)

// heap is the rescue of coins.
type heap struct {
	org     string
	network chain.Network
	costMax money.Amount
	seed    keys.Seed
	path    string

	of       map[chain.Address]signer.WalletRef
	numbered uint64        // wallets for change that are among them
	change   chain.Address // the wallet that leases name, to which nothing comes back
	nonce    uint64        // next
	slots    map[string]signer.Slot
	walked   walked
}

// walked is what the walk found, as it is kept in a file beside the journal.
type walked struct {
	Of    string       `json:"of"`   // what was looked for
	Next  uint64       `json:"next"` // block
	Last  uint64       `json:"last"` // wallet for change that something came to
	Coins []chain.Coin `json:"coins"`
}

// prepareCoins walks the chain and asks what is unspent.
func (r *Rescue) prepareCoins(ctx context.Context, conf Config, order RescueOrder, seed keys.Seed, journal string) error {
	h := &heap{org: order.Org, network: conf.Network, costMax: conf.Chains[order.Chain].costMax(order.Chain), seed: seed, path: journal + rescueWalk}
	r.heap = h
	from := order.From
	if from == 0 {
		from = conf.Chains[order.Chain].StartHeight
	}
	if from == 0 {
		return fmt.Errorf("chains.%s.start_height is not set: say with --from from which block on the addresses have received", order.Chain)
	}
	if err := h.derive(order.Customers); err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(strings.Join(slices.Concat([]string{order.Org, strconv.FormatUint(from, 10)}, slices.Sorted(slices.Values(order.Customers))), "\n")))
	h.walked = walked{Of: hex.EncodeToString(sum[:]), Next: from}
	switch text, err := os.ReadFile(h.path); {
	case err == nil:
		var before walked
		if err := json.Unmarshal(text, &before); err != nil {
			return fmt.Errorf("read how far the walk is, %s: %w; without that file it begins anew", h.path, err)
		}
		if before.Of == h.walked.Of { // else other customers, or another height
			h.walked = before
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := h.number(h.walked.Last + changeAhead); err != nil {
		return err
	}
	tell := order.Tell
	if tell == nil {
		tell = func(string) {}
	}
	if err := r.walk(ctx, tell); err != nil {
		return err
	}
	left, err := r.unspent(ctx)
	if err != nil {
		return err
	}
	return r.hold(ctx, left)
}

// derive names the addresses of all wallets but those for change.
func (h *heap) derive(customers []string) error {
	h.of = map[chain.Address]signer.WalletRef{}
	refs := []signer.WalletRef{{Purpose: wallet.Treasury}}
	for _, form := range []chain.Form{chain.Usual, chain.Taproot} {
		for _, product := range ledger.Products {
			refs = append(refs, signer.WalletRef{Purpose: wallet.OrganizationDeposit, Subject: product, Form: form})
		}
		for _, c := range customers {
			refs = append(refs, signer.WalletRef{Purpose: wallet.CustomerDeposit, Subject: c, Form: form})
		}
	}
	for _, ref := range refs {
		if _, err := h.add(ref); err != nil {
			return err
		}
	}
	return nil
}

func (h *heap) add(ref signer.WalletRef) (chain.Address, error) {
	ref.OrgID, ref.Family = h.org, chain.BitcoinFamily
	key, err := h.seed.Wallet(ref)
	if err != nil {
		return "", fmt.Errorf("derive the address of %s %q: %w", ref.Purpose, ref.Subject, err)
	}
	h.of[key.Address()] = ref
	return key.Address(), nil
}

// number names the wallets for change up to a number.
func (h *heap) number(upto uint64) error {
	for ; h.numbered < upto; h.numbered++ {
		if _, err := h.add(signer.WalletRef{Purpose: wallet.Change, Subject: strconv.FormatUint(h.numbered+1, 10)}); err != nil {
			return err
		}
	}
	return nil
}

// walk reads the final blocks that were not read yet.
func (r *Rescue) walk(ctx context.Context, tell func(string)) error {
	h := r.heap
	heads, err := r.chain.Reader.Heads(ctx)
	if err != nil {
		return fmt.Errorf("ask %s where it stands: %w", r.chain.Name, err)
	}
	say := func() {
		tell(fmt.Sprintf("block %d of %d: %d coins found, wallets for change up to number %d", h.walked.Next-1, heads.Final.Height, len(h.walked.Coins), h.walked.Last))
	}
	saved := time.Now()
	for h.walked.Next <= heads.Final.Height {
		block, err := r.chain.Reader.Final(ctx, h.walked.Next)
		if err == nil {
			err = h.take(block)
		}
		if err != nil {
			return errors.Join(fmt.Errorf("read block %d: %w; the same command goes on from there", h.walked.Next, err), h.save())
		}
		if time.Since(saved) > walkSave {
			saved = time.Now()
			if err := h.save(); err != nil {
				return err
			}
			say()
		}
	}
	say()
	return h.save()
}

// take finds what came to addresses of the seed in a block.
func (h *heap) take(b chain.Contents) error {
	for grown := true; grown; { // what one output names may name another's
		grown = false
		for _, t := range b.Transfers {
			ref, ours := h.of[t.To]
			if !ours || ref.Purpose != wallet.Change {
				continue
			}
			n, err := strconv.ParseUint(ref.Subject, 10, 64)
			if err != nil {
				return err
			}
			if n > h.walked.Last {
				h.walked.Last, grown = n, true
				if err := h.number(n + changeAhead); err != nil {
					return err
				}
			}
		}
	}
	for _, t := range b.Transfers {
		if _, ours := h.of[t.To]; !ours || t.Kind != chain.Native {
			continue
		}
		number, err := strconv.ParseUint(t.Position, 10, 32)
		if err != nil {
			return fmt.Errorf("output %q of %s has no number", t.Position, t.Tx)
		}
		h.walked.Coins = append(h.walked.Coins, chain.Coin{Outpoint: bitcointx.OutpointOf(t.Tx, uint32(number)), Holder: t.To, Amount: t.Amount})
	}
	h.walked.Next = b.Height + 1
	return nil
}

// save writes down how far the walk is: a whole file or the one before.
func (h *heap) save() error {
	text, err := json.Marshal(h.walked)
	if err != nil {
		return err
	}
	fresh := h.path + ".new"
	if err := os.WriteFile(fresh, text, 0o600); err != nil {
		return fmt.Errorf("write down how far the walk is: %w", err)
	}
	return os.Rename(fresh, h.path)
}

// unspent are the coins that no block has spent, the largest first.
func (r *Rescue) unspent(ctx context.Context) (left []chain.Coin, err error) {
	h := r.heap
	for some := range slices.Chunk(h.walked.Coins, coinsAsked) {
		slots := make([]chain.Slot, len(some))
		for i, c := range some {
			lease, err := bitcointx.NewLease(h.network, []chain.Coin{c}, c.Holder)
			if err != nil {
				return nil, err
			}
			slots[i].Lease = lease.String()
		}
		stand, err := r.chain.Sender.Account(ctx, some[0].Holder, slots...)
		if err != nil {
			return nil, fmt.Errorf("ask %s which coins are unspent: %w", r.chain.Name, err)
		}
		for i, c := range some {
			if spent, _ := stand.Used(slots[i]); !spent {
				left = append(left, c)
			}
		}
	}
	slices.SortFunc(left, func(a, b chain.Coin) int {
		switch {
		case b.Amount.Less(a.Amount):
			return -1
		case a.Amount.Less(b.Amount):
			return 1
		}
		return strings.Compare(a.Outpoint, b.Outpoint)
	})
	return left, nil
}

// hold says what wallets hold, and has the journal know those that do.
func (r *Rescue) hold(ctx context.Context, left []chain.Coin) error {
	h := r.heap
	issue := func(ref signer.WalletRef) (signer.Issued, error) {
		issued, err := r.sign.Issue(ctx, ref)
		if err != nil {
			return issued, fmt.Errorf("derive the address of %s %q: %w", ref.Purpose, ref.Subject, err)
		}
		r.wallets = append(r.wallets, issued)
		return issued, nil
	}
	r.wallets, r.Held = nil, nil
	if _, err := issue(signer.WalletRef{OrgID: h.org, Family: chain.BitcoinFamily, Purpose: wallet.Treasury}); err != nil {
		return err
	}
	// Leases name a wallet for change. Nothing comes back, so all name the same one.
	back, err := r.sign.Issue(ctx, signer.WalletRef{OrgID: h.org, Family: chain.BitcoinFamily, Purpose: wallet.Change, Subject: strconv.FormatUint(h.walked.Last+1, 10)})
	if err != nil {
		return fmt.Errorf("derive the wallet for change that leases name: %w", err)
	}
	h.change = back.Address
	at := map[chain.Address]int{}
	for _, c := range left {
		if i, ok := at[c.Holder]; ok {
			if r.Held[i].Amount, err = r.Held[i].Amount.Add(c.Amount); err != nil {
				return err
			}
			continue
		}
		at[c.Holder] = len(r.Held)
		r.Held = append(r.Held, Held{Of: h.of[c.Holder], Address: c.Holder, Mint: r.native(), Amount: c.Amount})
		if c.Holder != r.wallets[0].Address {
			if _, err := issue(h.of[c.Holder]); err != nil {
				return err
			}
		}
	}
	return nil
}

// A batch is coins that go together, and the transactions made of them: each pays all
// that they hold less its fee, so any of them will do.
type batch struct {
	coins []chain.Coin
	fees  chain.Fees
	since time.Time
	slots []chain.Slot
	made  []made
	lost  int // how often they were spent and none of ours was seen
}

type made struct {
	payment chain.Payment
	hash    chain.TxHash
	raw     []byte
}

// runCoins moves all that is worth it, and looks again until nothing is.
func (r *Rescue) runCoins(ctx context.Context, tell func(string)) error {
	if err := r.before(ctx); err != nil {
		return err
	}
	for {
		left, err := r.unspent(ctx)
		if err != nil {
			return err
		}
		price, err := r.chain.Sender.TransferFees(ctx)
		if err != nil {
			return err
		}
		all, few, err := r.batches(left, price)
		if err != nil {
			return err
		}
		if len(all) == 0 {
			if len(few) > 0 {
				tell(fmt.Sprintf("%d coins are left that are not worth their fee now, at %v satoshi for a thousand virtual bytes", len(few), price.TipCap))
			}
			return nil
		}
		for _, b := range all {
			if err := r.spend(ctx, b, price); err != nil {
				return err
			}
		}
		if err := r.mined(ctx, all, tell); err != nil {
			return err
		}
	}
}

// before reads from the journal which slots an earlier run took.
func (r *Rescue) before(ctx context.Context) error {
	h := r.heap
	h.slots = map[string]signer.Slot{}
	var prev signer.Head
	for {
		entries, err := r.sign.Entries(ctx, prev.Seq, 1000)
		if err != nil {
			return fmt.Errorf("read the journal of the rescue: %w", err)
		}
		if len(entries) == 0 {
			return nil
		}
		for _, e := range entries {
			rec, err := e.Follow(prev)
			if err != nil {
				return fmt.Errorf("read the journal of the rescue: %w", err)
			}
			prev = e.Head()
			if rec.Sign != nil && rec.Sign.Slot.Lease != "" {
				h.slots[rec.Sign.IntentID] = rec.Sign.Slot
				h.nonce = max(h.nonce, rec.Sign.Slot.Nonce+1)
			}
		}
	}
}

// batches puts coins together that one transaction spends, the largest first. few are not
// worth what spending them costs at that price.
func (r *Rescue) batches(left []chain.Coin, price chain.Fees) (all []*batch, few []chain.Coin, err error) {
	rate, ok := price.TipCap.Uint64()
	if !ok || rate == 0 {
		return nil, nil, fmt.Errorf("a rate of %v is none", price.TipCap)
	}
	var b *batch
	for _, c := range left {
		w, err := bitcointx.SpendWeight(r.heap.network, c.Holder)
		if err != nil {
			return nil, nil, err
		}
		if !money.Units(bitcointx.FeeOf(bitcointx.Size(w), rate)).Less(c.Amount) {
			few = append(few, c)
			continue
		}
		if b != nil {
			_, fee, err := r.pays(append(slices.Clip(b.coins), c), rate)
			if err != nil {
				return nil, nil, err
			}
			if len(b.coins) == bitcointx.InputsMax || r.heap.costMax.Less(fee) {
				b = nil
			}
		}
		if b == nil {
			b = &batch{}
			all = append(all, b)
		}
		b.coins = append(b.coins, c)
	}
	// A transaction has to pay for itself, and its payment be no dust.
	script, err := bitcointx.Script(r.heap.network, r.to)
	if err != nil {
		return nil, nil, err
	}
	all = slices.DeleteFunc(all, func(b *batch) bool {
		amount, _, err := r.pays(b.coins, rate)
		if err == nil && !amount.Less(bitcointx.Dust(script)) {
			return false
		}
		few = append(few, b.coins...)
		return true
	})
	return all, few, nil
}

// pays is what a transaction of coins pays, and what it costs.
func (r *Rescue) pays(of []chain.Coin, rate uint64) (amount, fee money.Amount, err error) {
	weight, err := bitcointx.PayWeight(r.heap.network, r.to)
	if err != nil {
		return amount, fee, err
	}
	weight += bitcointx.EmptyWeight
	for _, c := range of {
		w, err := bitcointx.SpendWeight(r.heap.network, c.Holder)
		if err != nil {
			return amount, fee, err
		}
		weight += w
		if amount, err = amount.Add(c.Amount); err != nil {
			return amount, fee, err
		}
	}
	fee = money.Units(bitcointx.FeeOf(bitcointx.Size(weight), rate))
	if amount, err = amount.Sub(fee); err != nil {
		return money.Zero, fee, nil
	}
	return amount, fee, nil
}

// spend signs for a batch at a price and sends it.
func (r *Rescue) spend(ctx context.Context, b *batch, price chain.Fees) error {
	h, treasury := r.heap, r.wallets[0]
	rate, _ := price.TipCap.Uint64()
	amount, _, err := r.pays(b.coins, rate)
	if err != nil {
		return err
	}
	lease, err := bitcointx.NewLease(h.network, b.coins, h.change)
	if err != nil {
		return err
	}
	p := chain.Payment{From: treasury.Address, To: r.to, Amount: amount}
	if b.fees, err = bitcointx.Fit(h.network, lease, []chain.Payment{p}, chain.Fees{TipCap: price.TipCap}); err != nil {
		return err
	}
	i := signer.Intent{Purpose: signer.Payment, Chain: r.chain.Name, From: treasury.WalletRef, To: r.to, Amount: amount, MintID: r.native().ID}
	i.ID = id.Of("rsc", string(i.Chain), lease.String(), string(i.To), amount.String())
	slot, again := h.slots[i.ID]
	if !again {
		slot = signer.Slot{Nonce: h.nonce, Lease: lease.String()}
		h.nonce++
	}
	if _, err := r.sign.Admit(ctx, i); err != nil {
		return err
	}
	payload, err := r.chain.Sender.Build(treasury.Address, slot, b.fees, p)
	if err != nil {
		return err
	}
	signed, err := r.sign.Sign(ctx, signer.SignRequest{IntentID: i.ID, Slot: slot, Act: signer.Pay, Payload: payload})
	if err != nil {
		return err
	}
	h.slots[i.ID] = slot
	b.since, b.slots = time.Now(), append(b.slots, slot)
	b.made = append(b.made, made{p, signed.Hash, signed.Raw})
	return nil
}

// mined sends what was signed until a block has spent the coins of every batch, dearer now
// and then.
func (r *Rescue) mined(ctx context.Context, open []*batch, tell func(string)) error {
	for len(open) > 0 {
		for _, b := range open {
			for _, m := range b.made {
				r.chain.Sender.Send(ctx, m.raw) // whatever the answer is, the chain shows what became of it
			}
		}
		open = slices.DeleteFunc(open, func(b *batch) bool {
			stand, err := r.chain.Sender.Account(ctx, r.wallets[0].Address, b.slots[0])
			if err != nil {
				return false // asked again in a moment
			}
			if spent, _ := stand.Used(b.slots[0]); !spent {
				return false
			}
			for _, m := range b.made {
				out, err := r.chain.Sender.Outcome(ctx, []chain.TxHash{m.hash}, m.payment)
				if err == nil && out != nil && out.Paid {
					tell(fmt.Sprintf("%s %s of %d coins to %s in %s", m.payment.Amount.Decimal(r.native().Decimals), r.native().Symbol, len(b.coins), r.to, m.hash))
					return true
				}
			}
			if b.lost++; b.lost < 5 {
				return false
			}
			tell("coins were spent by something that was sent before: what is left is looked at again")
			return true
		})
		for _, b := range open {
			if time.Since(b.since) < coinsBump {
				continue
			}
			b.since = time.Now()
			if dearer, ok, err := r.chain.Sender.Bump(ctx, b.fees); err == nil && ok {
				if err := r.spend(ctx, b, dearer); err != nil {
					tell(fmt.Sprintf("a dearer transaction of %d coins was not made: %v", len(b.coins), err))
				}
			}
		}
		if len(open) == 0 {
			return nil
		}
		timer := time.NewTimer(coinsPoll)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
	}
	return nil
}
