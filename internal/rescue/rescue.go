// Package rescue moves the money of a seed whose database and journal are both lost. It finds what the
// addresses of the seed hold and moves all of it to one address.
//
// It never pays a customer, since it does not know which payments were made before. It never runs
// beside the journal of a service: it has one of its own, with which no service starts.
//
// A crash leaves transactions that were sent or only signed. The same command completes them, because
// the journal of the rescue has their bytes, and the chain accepts one transaction for each slot.
package rescue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/keys"
	"github.com/cofferpay/coffer/internal/wallet"
)

// JournalSuffix is appended to the name of the signer's journal for that of the rescue.
const JournalSuffix = ".rescue"

const (
	pollInterval = 500 * time.Millisecond // between two polls for a transaction
	// The time until a transaction that is in no block gets a fee bump.
	bumpAfter = 30 * time.Second
	// The gas that a wallet is given, as a multiple of the fee of its transfer.
	feeReserve = 3
)

// Parts are what a rescue works with.
type Parts struct {
	Chain chain.Chain
	Mints []mint.Mint // of that chain; one of them is its native coin
	// Signer has a journal of its own, which only rescues of this seed write.
	Signer signer.Signer
	Seed   keys.Seed
	// ReadFees reads the fees of an unsigned transaction of the chain.
	ReadFees func(payload []byte) (chain.Fees, error)
	// The others are for UTXO chains. CostMax is the most that one transaction may cost, StartBlock
	// the first block that may have an output, and WalkFile stores the progress of the walk.
	Network    chain.Network
	CostMax    money.Amount
	StartBlock uint64
	WalkFile   string
}

// Order names the organization whose money is to be found and its destination.
type Order struct {
	Org string // the organization of the addresses
	// Ids as the organization gave them; the treasury, the products and the wallet that checkouts share are always
	// included.
	Customers   []string
	Swaps       []string // ids, also of deposit swaps and checkouts, whose wallets may hold what arrived for them
	Chain       chain.Name
	Destination string // "" only looks
	// StartBlock is the first block that may have an output, on UTXO chains; 0 means the configured
	// start height. Progress receives the progress of the search.
	StartBlock uint64
	Progress   func(string)
}

// Holding is the balance of one mint on an address of the seed.
type Holding struct {
	Wallet  signer.WalletRef
	Address chain.Address
	Mint    mint.Mint
	Amount  money.Amount
}

// Rescue moves money from the addresses of a seed when the database and the journal are lost. It can
// be repeated after a crash, since the chain accepts only one transaction for each nonce of an address.
type Rescue struct {
	Holdings []Holding

	chain       chain.Chain
	mints       []mint.Mint
	sign        signer.Signer
	readFees    func(payload []byte) (chain.Fees, error)
	wallets     []signer.IssuedAddress // the treasury first
	destination chain.Address
	utxo        *utxoRescue // on UTXO chains
}

// Prepare derives the addresses and reads their balances in the latest block.
func Prepare(ctx context.Context, parts Parts, order Order) (*Rescue, error) {
	r := &Rescue{chain: parts.Chain, mints: parts.Mints, sign: parts.Signer, readFees: parts.ReadFees}
	var err error
	if r.chain.UTXO != nil {
		if err := r.prepareUTXO(ctx, parts, order); err != nil {
			return nil, err
		}
		if order.Destination != "" {
			r.destination, err = r.parseDestination(order.Destination)
		}
		return r, err
	}
	refs := []signer.WalletRef{{OrgID: order.Org, Family: order.Chain.Family(), Purpose: wallet.Treasury}}
	for _, product := range ledger.Products {
		refs = append(refs, signer.WalletRef{
			OrgID: order.Org, Family: order.Chain.Family(), Purpose: wallet.OrganizationDeposit, Subject: product,
		})
	}
	refs = append(refs, signer.WalletRef{
		OrgID: order.Org, Family: order.Chain.Family(), Purpose: wallet.CheckoutShared, Subject: ledger.CheckoutProduct,
	})
	for _, c := range order.Customers {
		refs = append(refs, signer.WalletRef{
			OrgID: order.Org, Family: order.Chain.Family(), Purpose: wallet.CustomerDeposit, Subject: c,
		})
	}
	for _, swapID := range order.Swaps {
		for _, purpose := range swapPurposes(swapID) {
			refs = append(refs, signer.WalletRef{
				OrgID: order.Org, Family: order.Chain.Family(), Purpose: purpose, Subject: swapID,
			})
		}
	}
	for _, ref := range refs {
		issued, err := parts.Signer.IssueAddress(ctx, ref)
		if err != nil {
			return nil, fmt.Errorf("derive the address of %s %q: %w", ref.Purpose, ref.Subject, err)
		}
		r.wallets = append(r.wallets, issued)
	}
	if order.Destination != "" {
		if r.destination, err = r.parseDestination(order.Destination); err != nil {
			return nil, err
		}
	}
	r.Holdings, err = r.readHoldings(ctx, r.wallets)
	return r, err
}

// swapPurposes returns the purposes of the wallets of a swap, of a deposit swap, whose ids begin with ds, or of a
// checkout, whose ids begin with co.
func swapPurposes(swapID string) []string {
	if strings.HasPrefix(swapID, "ds_") {
		return []string{wallet.DepositSwap}
	}
	if strings.HasPrefix(swapID, "co_") {
		return []string{wallet.Checkout}
	}
	return []string{wallet.SwapDelivery, wallet.SwapRefund}
}

func (r *Rescue) parseDestination(text string) (chain.Address, error) {
	destination, err := r.chain.AddressCodec.Parse(text)
	if err != nil {
		return "", fmt.Errorf("%s: %w", text, err)
	}
	if r.chain.AddressCodec.IsUnspendable(destination) {
		return "", fmt.Errorf("%s: the key of this address has no holder", destination)
	}
	isOwn := slices.ContainsFunc(r.wallets, func(w signer.IssuedAddress) bool { return w.Address == destination })
	if r.utxo != nil {
		_, isOwn = r.utxo.refs[destination]
	}
	if isOwn {
		return "", fmt.Errorf("%s is an address of this seed", destination)
	}
	for _, m := range r.mints {
		if m.Contract == destination {
			return "", fmt.Errorf("%s is the contract of %s", destination, m.Symbol)
		}
	}
	return destination, nil
}

// ListWallets returns the addresses, the treasury first. On UTXO chains they include the addresses
// that hold outputs.
func (r *Rescue) ListWallets() []signer.IssuedAddress { return r.wallets }

// readHoldings reads the balances of wallets, without zero balances.
func (r *Rescue) readHoldings(ctx context.Context, wallets []signer.IssuedAddress) (held []Holding, err error) {
	heads, err := r.chain.Reader.Heads(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask %s for its head: %w", r.chain.Name, err)
	}
	var queries []chain.Holding
	var candidates []Holding
	for _, w := range wallets {
		for _, m := range r.mints {
			queries = append(queries, chain.Holding{Address: w.Address, Contract: m.Contract})
			candidates = append(candidates, Holding{Wallet: w.WalletRef, Address: w.Address, Mint: m})
		}
	}
	balances, _, err := chain.Balances(ctx, r.chain.Reader, heads.Latest, queries)
	if err != nil {
		return nil, fmt.Errorf("ask %s for the balances of the addresses: %w", r.chain.Name, err)
	}
	for n, h := range candidates {
		if h.Amount = balances[queries[n]]; !h.Amount.IsZero() {
			held = append(held, h)
		}
	}
	return held, nil
}

func (r *Rescue) nativeMint() mint.Mint {
	for _, m := range r.mints {
		if m.Contract == "" {
			return m
		}
	}
	panic("rescue: the chain has no native coin in the catalogue") // the check of the configuration requires one
}

// Run moves everything to the treasury and from there to the destination. It calls tell for each
// movement once a block has it. A failure ends it; the same command continues.
func (r *Rescue) Run(ctx context.Context, tell func(string)) error {
	if r.destination == "" {
		return errors.New("name the destination of the money")
	}
	if r.utxo != nil {
		return r.runUTXO(ctx, tell)
	}
	if err := r.finishEarlier(ctx); err != nil {
		return err
	}
	treasury := r.wallets[0]
	for _, w := range r.wallets[1:] {
		if err := r.emptyWallet(ctx, w, signer.Sweep, treasury.Address, &treasury.WalletRef, tell); err != nil {
			return err
		}
	}
	return r.emptyWallet(ctx, treasury, signer.Payment, r.destination, nil, tell)
}

// emptyWallet moves all that a wallet holds: first the tokens, since they need its native coin.
func (r *Rescue) emptyWallet(
	ctx context.Context, source signer.IssuedAddress, purpose signer.Purpose, destination chain.Address,
	toWallet *signer.WalletRef, tell func(string),
) error {
	move := func(h Holding) error {
		intent := signer.Intent{
			Purpose: purpose, From: source.WalletRef, To: destination, ToWallet: toWallet, Contract: h.Mint.Contract,
			Amount: h.Amount, MintID: h.Mint.ID,
		}
		if intent.Kind().NeedsBalance {
			// The seed knows no flagged deposits, and everything is moved.
			intent.WalletBalance = &signer.WalletBalance{Total: h.Amount}
		}
		tx, err := r.makePayment(ctx, source, intent)
		if err != nil {
			return fmt.Errorf("move %s %s from %s: %w", h.Amount.Decimal(h.Mint.Decimals), h.Mint.Symbol,
				source.Address, err)
		}
		tell(fmt.Sprintf("%s %s from %s to %s in %s", h.Amount.Decimal(h.Mint.Decimals), h.Mint.Symbol, source.Address,
			destination, tx))
		return nil
	}
	held, err := r.readHoldings(ctx, []signer.IssuedAddress{source})
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
	// The rest of the native coin, less the maximum fee of moving it.
	if held, err = r.readHoldings(ctx, []signer.IssuedAddress{source}); err != nil {
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
		spare, err := r.quoteReserve(fees)
		if err != nil {
			return err
		}
		rest, err := h.Amount.Sub(spare)
		if err != nil || rest.Less(h.Mint.MinDeposit) {
			continue // not worth its fee
		}
		h.Amount = rest
		if err := move(h); err != nil {
			return err
		}
	}
	return nil
}

// feeReserve returns the gas that a wallet needs for a transfer, with a margin for rising fees.
func (r *Rescue) quoteReserve(f chain.Fees) (money.Amount, error) {
	cost, err := f.Max()
	if err != nil {
		return cost, err
	}
	return cost.Mul(feeReserve)
}

// makePayment makes one payment and returns once a block has it.
func (r *Rescue) makePayment(
	ctx context.Context, source signer.IssuedAddress, intent signer.Intent,
) (chain.TxHash, error) {
	p := chain.Payment{From: source.Address, To: intent.To, Contract: intent.Contract, Amount: intent.Amount}
	fees, err := r.chain.Sender.Quote(ctx, p)
	if err != nil {
		return "", err
	}
	if intent.Contract != "" {
		if err := r.topUpGas(ctx, source, fees); err != nil {
			return "", err
		}
	}
	account, err := r.chain.Sender.Account(ctx, source.Address)
	if err != nil {
		return "", err
	}
	if account.KeyedSlots {
		return "", fmt.Errorf(
			"%s does not number the payments of %s, so the command cannot move money there safely without a journal",
			r.chain.Name, source.Address,
		)
	}
	slot := signer.Slot{Nonce: account.Latest}
	intent.Chain = r.chain.Name
	// The same content derives the same intent id. Different content for this nonce is another
	// intent, and the journal lets only one of them be signed.
	intent.ID = id.Derive("rsc", string(intent.Chain), string(source.Address), strconv.FormatUint(slot.Nonce, 10),
		string(intent.Purpose), string(intent.To), string(intent.Contract), intent.Amount.String())
	if _, err := r.sign.AdmitIntent(ctx, intent); err != nil {
		return "", err
	}
	return r.signAndSend(ctx, intent, p, slot, fees)
}

// topUpGas makes sure that a wallet has the native coin for the fee of its transfer.
func (r *Rescue) topUpGas(ctx context.Context, w signer.IssuedAddress, fees chain.Fees) error {
	cost, err := fees.Max()
	if err != nil {
		return err
	}
	held, err := r.readHoldings(ctx, []signer.IssuedAddress{w})
	if err != nil {
		return err
	}
	for _, h := range held {
		if h.Mint.Contract == "" && !h.Amount.Less(cost) {
			return nil
		}
	}
	treasury := r.wallets[0]
	if w.Address == treasury.Address {
		return fmt.Errorf(
			"the treasury %s has too little native coin for the fee: send it %s",
			w.Address, r.nativeMint().Symbol,
		)
	}
	if cost, err = r.quoteReserve(fees); err != nil {
		return err
	}
	_, err = r.makePayment(ctx, treasury, signer.Intent{
		Purpose: signer.GasTopUp, From: treasury.WalletRef, To: w.Address, ToWallet: &w.WalletRef, Amount: cost,
		MintID: r.nativeMint().ID,
	})
	if err != nil {
		return fmt.Errorf("send it native coin for the fee from the treasury %s: %w", treasury.Address, err)
	}
	return nil
}

// signAndSend signs a payment in its slot and broadcasts it until a block has it, with fee bumps.
func (r *Rescue) signAndSend(
	ctx context.Context, intent signer.Intent, p chain.Payment, slot signer.Slot, fees chain.Fees,
) (chain.TxHash, error) {
	payload, err := r.chain.Sender.Build(p.From, slot, fees, p)
	if err != nil {
		return "", err
	}
	signed, err := r.sign.Sign(
		ctx, signer.SignRequest{IntentID: intent.ID, Slot: slot, Act: signer.Pay, Payload: payload},
	)
	if err != nil {
		return "", err
	}
	hashes := []chain.TxHash{signed.Hash}
	sentAt := time.Now()
	for {
		r.chain.Sender.Send(ctx, signed.Raw) // whatever the answer, the chain shows the outcome
		outcome, err := r.findOutcome(ctx, p, slot, hashes)
		if err != nil || outcome != nil {
			if err == nil && !outcome.Paid {
				err = fmt.Errorf("%s is in block %d and has not paid", outcome.Tx, outcome.Block.Height)
			}
			if err != nil {
				return "", err
			}
			return outcome.Tx, nil
		}
		if time.Since(sentAt) > bumpAfter {
			sentAt = time.Now()
			if dearer, ok, err := r.chain.Sender.Bump(ctx, fees); err == nil && ok {
				fees = dearer
				if payload, err = r.chain.Sender.Build(p.From, slot, fees, p); err != nil {
					return "", err
				}
				if signed, err = r.sign.Sign(
					ctx, signer.SignRequest{IntentID: intent.ID, Slot: slot, Act: signer.Pay, Payload: payload},
				); err != nil {
					return "", err
				}
				hashes = append(hashes, signed.Hash)
			}
		}
		timer := time.NewTimer(pollInterval)
		select {
		case <-ctx.Done():
			timer.Stop()
			return "", ctx.Err()
		case <-timer.C:
		}
	}
}

// findOutcome looks for a payment. Another transaction in its slot is an error: one of the lost
// installation that was still in the mempool.
func (r *Rescue) findOutcome(
	ctx context.Context, p chain.Payment, slot signer.Slot, hashes []chain.TxHash,
) (*chain.Outcome, error) {
	account, err := r.chain.Sender.Account(ctx, p.From)
	if err != nil {
		return nil, nil // asked again shortly
	}
	outcome, err := r.chain.Sender.Outcome(ctx, hashes, p)
	if err != nil {
		return nil, nil // asked again shortly
	}
	if outcome == nil && account.Latest > slot.Nonce {
		return nil, fmt.Errorf(
			"another transaction of %s has used nonce %d, one that was sent before the loss: begin again",
			p.From, slot.Nonce,
		)
	}
	return outcome, nil
}

// readJournal passes every verified record of the rescue's journal to apply, oldest first.
func (r *Rescue) readJournal(ctx context.Context, apply func(signer.Record) error) error {
	var prev signer.Head
	for {
		entries, err := r.sign.EntriesAfter(ctx, prev.Seq, 1000)
		if err != nil {
			return fmt.Errorf("read the journal of the rescue: %w", err)
		}
		if len(entries) == 0 {
			return nil
		}
		for _, e := range entries {
			rec, err := e.VerifyAfter(prev)
			if err != nil {
				return fmt.Errorf("read the journal of the rescue: %w", err)
			}
			prev = e.Head()
			if err := apply(rec); err != nil {
				return err
			}
		}
	}
}

// finishEarlier completes payments that an earlier run signed and that no block has yet.
func (r *Rescue) finishEarlier(ctx context.Context) error {
	intents := map[string]signer.Intent{}
	latest := map[chain.Address]uint64{}
	addresses := map[signer.WalletRef]chain.Address{}
	return r.readJournal(ctx, func(rec signer.Record) error {
		switch {
		case rec.Issue != nil:
			addresses[rec.Issue.WalletRef] = rec.Issue.Address
		case rec.Admit != nil:
			intents[rec.Admit.ID] = *rec.Admit
		case rec.Sign != nil:
			intent := intents[rec.Sign.IntentID]
			if intent.Chain != r.chain.Name {
				return nil
			}
			source := addresses[intent.From]
			if _, known := latest[source]; !known {
				account, err := r.chain.Sender.Account(ctx, source)
				if err != nil {
					return err
				}
				latest[source] = account.Latest
			}
			if rec.Sign.Slot.Nonce < latest[source] {
				return nil
			}
			fees, err := r.readFees(rec.Sign.Payload)
			if err != nil {
				return err
			}
			p := chain.Payment{From: source, To: intent.To, Contract: intent.Contract, Amount: intent.Amount}
			if _, err := r.signAndSend(ctx, intent, p, rec.Sign.Slot, fees); err != nil {
				return fmt.Errorf("finish what an earlier run began: %w", err)
			}
			delete(latest, source)
		}
		return nil
	})
}
