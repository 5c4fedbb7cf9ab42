package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/id"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/local"
	"github.com/cofferpay/coffer/internal/wallet"
)

const (
	rescuePoll  = 500 * time.Millisecond // between two looks for a transaction
	rescueBump  = 30 * time.Second       // until a transaction that is not in a block is made dearer
	rescueSpare = 3                      // gas that a wallet is given, in fees of the transfer that it is for
	// rescueJournal is appended to the name of the signer's journal. A journal of its
	// own keeps what is rescued apart: no service may ever begin with it.
	rescueJournal = ".rescue"
)

// RescueOrder says whose money is to be found and where it goes.
type RescueOrder struct {
	Org       string   // the organization that the addresses were made for
	Customers []string // ids as the organization gave them; the treasury and the products are always looked at
	Chain     chain.Name
	To        string // "" looks only
	// From is the first block that may have something, where accounts are coins; 0 is the
	// configured start height. Tell hears how far the search is.
	From uint64
	Tell func(string)
}

// Held is what an address of the seed holds.
type Held struct {
	Of      signer.WalletRef
	Address chain.Address
	Mint    mint.Mint
	Amount  money.Amount
}

// A Rescue takes money from the addresses of a seed of which nothing else is left:
// no database, no journal. What was paid before it does not know, so it pays nobody;
// it brings everything to one address, and can be played again after a crash, since
// the chain takes one transaction for each nonce of an address.
type Rescue struct {
	Held []Held

	chain   chain.Chain
	mints   []mint.Mint
	sign    signer.Signer
	close   func() error
	wallets []signer.Issued // the treasury first
	to      chain.Address
	heap    *heap // where accounts are coins
}

// PrepareRescue derives the addresses and looks at what they hold in the latest
// block. It refuses while the signer's journal is there: then less was lost than this
// is for. It keeps a journal of its own, beside that name. Close ends it.
func PrepareRescue(ctx context.Context, conf Config, order RescueOrder) (_ *Rescue, err error) {
	if !conf.has(RoleSigner) {
		return nil, errors.New("signer." + conf.Signer.way() + ": this configuration points to another signer; give one with the seed and the policy")
	}
	if _, err := os.Stat(conf.Signer.Journal); !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the journal %s is there (%v): it knows what was paid, so restore the database and import it; this is for when both are lost", conf.Signer.Journal, err)
	}
	seed, own, err := openSeed(conf)
	if err != nil {
		return nil, err
	}
	own.Journal += rescueJournal
	own.Rescue = true
	if _, err := os.Stat(own.Journal); errors.Is(err, fs.ErrNotExist) {
		if err := local.Create(own, seed); err != nil {
			return nil, err
		}
	}
	sign, err := local.Open(own, seed)
	if err != nil {
		return nil, fmt.Errorf("the journal of the rescue: %w", err)
	}
	r := &Rescue{sign: sign, close: sign.Close}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	a := newApp(conf, slog.New(slog.DiscardHandler), func() error { return nil })
	if err := a.openChains(ctx); err != nil {
		return nil, err
	}
	var ok bool
	if r.chain, ok = a.chains[order.Chain]; !ok {
		return nil, fmt.Errorf("chain %s is not configured", order.Chain)
	}
	all, err := conf.catalogue(a.chains)
	if err != nil {
		return nil, err
	}
	for _, m := range all {
		if m.Chain == order.Chain {
			r.mints = append(r.mints, m)
		}
	}
	if r.chain.Pool != nil {
		if err := r.prepareCoins(ctx, conf, order, seed, own.Journal); err != nil {
			return nil, err
		}
		if order.To != "" {
			r.to, err = r.payee(order.To)
		}
		return r, err
	}
	refs := []signer.WalletRef{{OrgID: order.Org, Family: order.Chain.Family(), Purpose: wallet.Treasury}}
	for _, product := range ledger.Products {
		refs = append(refs, signer.WalletRef{OrgID: order.Org, Family: order.Chain.Family(), Purpose: wallet.OrganizationDeposit, Subject: product})
	}
	for _, c := range order.Customers {
		refs = append(refs, signer.WalletRef{OrgID: order.Org, Family: order.Chain.Family(), Purpose: wallet.CustomerDeposit, Subject: c})
	}
	for _, ref := range refs {
		issued, err := sign.Issue(ctx, ref)
		if err != nil {
			return nil, fmt.Errorf("derive the address of %s %q: %w", ref.Purpose, ref.Subject, err)
		}
		r.wallets = append(r.wallets, issued)
	}
	if order.To != "" {
		if r.to, err = r.payee(order.To); err != nil {
			return nil, err
		}
	}
	r.Held, err = r.look(ctx, r.wallets)
	return r, err
}

func (r *Rescue) payee(text string) (chain.Address, error) {
	to, err := r.chain.Grammar.Parse(text)
	if err != nil {
		return "", fmt.Errorf("%s: %w", text, err)
	}
	if r.chain.Grammar.Burns(to) {
		return "", fmt.Errorf("%s: nobody has the key of this address", to)
	}
	ours := slices.ContainsFunc(r.wallets, func(w signer.Issued) bool { return w.Address == to })
	if r.heap != nil {
		_, ours = r.heap.of[to]
	}
	if ours {
		return "", fmt.Errorf("%s is an address of this seed", to)
	}
	for _, m := range r.mints {
		if m.Contract == to {
			return "", fmt.Errorf("%s is the contract of %s", to, m.Symbol)
		}
	}
	return to, nil
}

// Wallets are the addresses, the treasury first; where accounts are coins, beside it those
// that hold something.
func (r *Rescue) Wallets() []signer.Issued { return r.wallets }

// Close releases the journal.
func (r *Rescue) Close() error { return r.close() }

// look asks for what wallets hold, and leaves out what is nothing.
func (r *Rescue) look(ctx context.Context, of []signer.Issued) (held []Held, err error) {
	heads, err := r.chain.Reader.Heads(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask %s where it stands: %w", r.chain.Name, err)
	}
	var asked []chain.Holding
	var each []Held
	for _, w := range of {
		for _, m := range r.mints {
			asked = append(asked, chain.Holding{Address: w.Address, Contract: m.Contract})
			each = append(each, Held{Of: w.WalletRef, Address: w.Address, Mint: m})
		}
	}
	have, _, err := chain.Balances(ctx, r.chain.Reader, heads.Latest, asked)
	if err != nil {
		return nil, fmt.Errorf("ask %s what the addresses hold: %w", r.chain.Name, err)
	}
	for n, h := range each {
		if h.Amount = have[asked[n]]; !h.Amount.IsZero() {
			held = append(held, h)
		}
	}
	return held, nil
}

func (r *Rescue) native() mint.Mint {
	for _, m := range r.mints {
		if m.Contract == "" {
			return m
		}
	}
	panic("app: unchecked configuration: no native coin") // Config.Check asks for it
}

// Run brings everything to the treasury and from there to the address. tell is told
// each movement when a block has it. What fails ends it; the same command goes on.
func (r *Rescue) Run(ctx context.Context, tell func(string)) error {
	if r.to == "" {
		return errors.New("say where the money goes")
	}
	if r.heap != nil {
		return r.runCoins(ctx, tell)
	}
	if err := r.unfinished(ctx); err != nil {
		return err
	}
	treasury := r.wallets[0]
	for _, w := range r.wallets[1:] {
		if err := r.empty(ctx, w, signer.Sweep, treasury.Address, &treasury.WalletRef, tell); err != nil {
			return err
		}
	}
	return r.empty(ctx, treasury, signer.Payment, r.to, nil, tell)
}

// empty moves all that a wallet holds, tokens first since they need its coins.
func (r *Rescue) empty(ctx context.Context, from signer.Issued, why signer.Purpose, to chain.Address, toWallet *signer.WalletRef, tell func(string)) error {
	move := func(h Held) error {
		i := signer.Intent{Purpose: why, From: from.WalletRef, To: to, ToWallet: toWallet, Contract: h.Mint.Contract, Amount: h.Amount, MintID: h.Mint.ID}
		if why == signer.Sweep {
			i.Holds = &signer.Holds{Has: h.Amount} // the seed knows of no flag, and everything goes
		}
		tx, err := r.pay(ctx, from, i)
		if err != nil {
			return fmt.Errorf("move %s %s from %s: %w", h.Amount.Decimal(h.Mint.Decimals), h.Mint.Symbol, from.Address, err)
		}
		tell(fmt.Sprintf("%s %s from %s to %s in %s", h.Amount.Decimal(h.Mint.Decimals), h.Mint.Symbol, from.Address, to, tx))
		return nil
	}
	held, err := r.look(ctx, []signer.Issued{from})
	if err != nil {
		return err
	}
	for _, h := range held {
		if h.Mint.Contract != "" {
			if err := move(h); err != nil {
				return err
			}
		}
	}
	// What is left of the coins, less what moving them may cost.
	if held, err = r.look(ctx, []signer.Issued{from}); err != nil {
		return err
	}
	for _, h := range held {
		if h.Mint.Contract != "" {
			continue
		}
		fees, err := r.chain.Sender.TransferFees(ctx)
		if err != nil {
			return err
		}
		spare, err := r.spare(fees)
		if err != nil {
			return err
		}
		left, err := h.Amount.Sub(spare)
		if err != nil || left.Less(h.Mint.MinDeposit) {
			continue // not worth its fee
		}
		h.Amount = left
		if err := move(h); err != nil {
			return err
		}
	}
	return nil
}

// spare is what a wallet needs for a transfer, with room for dearer blocks.
func (r *Rescue) spare(f chain.Fees) (money.Amount, error) {
	most, err := f.Max()
	if err != nil {
		return most, err
	}
	return most.Mul(rescueSpare)
}

// pay makes one payment and returns when a block has it.
func (r *Rescue) pay(ctx context.Context, from signer.Issued, i signer.Intent) (chain.TxHash, error) {
	p := chain.Payment{From: from.Address, To: i.To, Contract: i.Contract, Amount: i.Amount}
	fees, err := r.chain.Sender.Quote(ctx, p)
	if err != nil {
		return "", err
	}
	if i.Contract != "" {
		if err := r.fuel(ctx, from, fees); err != nil {
			return "", err
		}
	}
	account, err := r.chain.Sender.Account(ctx, from.Address)
	if err != nil {
		return "", err
	}
	if account.Leased {
		return "", fmt.Errorf("%s does not number the payments of %s, and money is not brought to safety there without a journal", r.chain.Name, from.Address)
	}
	slot := signer.Slot{Nonce: account.Latest}
	i.Chain = r.chain.Name
	// The same words are the same intent; other words in this nonce are another one,
	// of which the journal lets one be signed.
	i.ID = id.Of("rsc", string(i.Chain), string(from.Address), strconv.FormatUint(slot.Nonce, 10),
		string(i.Purpose), string(i.To), string(i.Contract), i.Amount.String())
	if _, err := r.sign.Admit(ctx, i); err != nil {
		return "", err
	}
	return r.through(ctx, i, p, slot, fees)
}

// fuel sees to it that a wallet has the coins for the fee of its transfer.
func (r *Rescue) fuel(ctx context.Context, w signer.Issued, fees chain.Fees) error {
	need, err := fees.Max()
	if err != nil {
		return err
	}
	held, err := r.look(ctx, []signer.Issued{w})
	if err != nil {
		return err
	}
	for _, h := range held {
		if h.Mint.Contract == "" && !h.Amount.Less(need) {
			return nil
		}
	}
	treasury := r.wallets[0]
	if w.Address == treasury.Address {
		return fmt.Errorf("the treasury %s has not the coins for the fee: send it %s", w.Address, r.native().Symbol)
	}
	if need, err = r.spare(fees); err != nil {
		return err
	}
	_, err = r.pay(ctx, treasury, signer.Intent{
		Purpose: signer.Gas, From: treasury.WalletRef, To: w.Address, ToWallet: &w.WalletRef, Amount: need, MintID: r.native().ID,
	})
	if err != nil {
		return fmt.Errorf("give it coins for the fee from the treasury %s: %w", treasury.Address, err)
	}
	return nil
}

// through signs a payment in its slot and sends it until a block has it, dearer now
// and then.
func (r *Rescue) through(ctx context.Context, i signer.Intent, p chain.Payment, slot signer.Slot, fees chain.Fees) (chain.TxHash, error) {
	payload, err := r.chain.Sender.Build(p.From, slot, fees, p)
	if err != nil {
		return "", err
	}
	signed, err := r.sign.Sign(ctx, signer.SignRequest{IntentID: i.ID, Slot: slot, Act: signer.Pay, Payload: payload})
	if err != nil {
		return "", err
	}
	hashes := []chain.TxHash{signed.Hash}
	since := time.Now()
	for {
		r.chain.Sender.Send(ctx, signed.Raw) // whatever the answer is, the chain shows what became of it
		out, err := r.arrived(ctx, p, slot, hashes)
		if err != nil || out != nil {
			if err == nil && !out.Paid {
				err = fmt.Errorf("%s is in block %d and has not paid", out.Tx, out.Block.Height)
			}
			if err != nil {
				return "", err
			}
			return out.Tx, nil
		}
		if time.Since(since) > rescueBump {
			since = time.Now()
			if dearer, ok, err := r.chain.Sender.Bump(ctx, fees); err == nil && ok {
				fees = dearer
				if payload, err = r.chain.Sender.Build(p.From, slot, fees, p); err != nil {
					return "", err
				}
				if signed, err = r.sign.Sign(ctx, signer.SignRequest{IntentID: i.ID, Slot: slot, Act: signer.Pay, Payload: payload}); err != nil {
					return "", err
				}
				hashes = append(hashes, signed.Hash)
			}
		}
		timer := time.NewTimer(rescuePoll)
		select {
		case <-ctx.Done():
			timer.Stop()
			return "", ctx.Err()
		case <-timer.C:
		}
	}
}

// arrived looks for a payment. Another transaction in its slot is an error: one of
// the lost installation that was still in the pool.
func (r *Rescue) arrived(ctx context.Context, p chain.Payment, slot signer.Slot, hashes []chain.TxHash) (*chain.Outcome, error) {
	account, err := r.chain.Sender.Account(ctx, p.From)
	if err != nil {
		return nil, nil // asked again in a moment
	}
	out, err := r.chain.Sender.Outcome(ctx, hashes, p)
	if err != nil {
		return nil, nil // likewise
	}
	if out == nil && account.Latest > slot.Nonce {
		return nil, fmt.Errorf("another transaction of %s has taken nonce %d, one that was sent before everything was lost: begin again", p.From, slot.Nonce)
	}
	return out, nil
}

// unfinished brings to an end what an earlier run signed and no block has yet.
func (r *Rescue) unfinished(ctx context.Context) error {
	intents := map[string]signer.Intent{}
	latest := map[chain.Address]uint64{}
	addresses := map[signer.WalletRef]chain.Address{}
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
			switch {
			case rec.Issue != nil:
				addresses[rec.Issue.WalletRef] = rec.Issue.Address
			case rec.Admit != nil:
				intents[rec.Admit.ID] = *rec.Admit
			case rec.Sign != nil:
				i := intents[rec.Sign.IntentID]
				if i.Chain != r.chain.Name {
					continue
				}
				from := addresses[i.From]
				if _, asked := latest[from]; !asked {
					account, err := r.chain.Sender.Account(ctx, from)
					if err != nil {
						return err
					}
					latest[from] = account.Latest
				}
				if rec.Sign.Slot.Nonce < latest[from] {
					continue
				}
				fees, err := feesOf(r.chain.Name, rec.Sign.Payload)
				if err != nil {
					return err
				}
				p := chain.Payment{From: from, To: i.To, Contract: i.Contract, Amount: i.Amount}
				if _, err := r.through(ctx, i, p, rec.Sign.Slot, fees); err != nil {
					return fmt.Errorf("finish what an earlier run began: %w", err)
				}
				delete(latest, from)
			}
		}
	}
}
