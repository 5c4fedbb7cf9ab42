// Package payouts pays a batch over three real chains (anvil, surfpool and btcd) by the real program, which is killed
// at random until the batch ends. The list has rows that cannot be read, that pay an address of ours, that screening
// blocks, and that look like another row. An oracle reads what each payee received: the amount or nothing, once.
//
// A crash of the trial leaves no process; its folders are in the system's temporary directory.
package payouts

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/cofferpay/coffer/internal/app"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/internal/localworld/btcd"
	"github.com/cofferpay/coffer/internal/localworld/surfpool"
	"github.com/cofferpay/coffer/internal/payout"
	"github.com/cofferpay/coffer/internal/payout/contenthash"
	"github.com/cofferpay/coffer/internal/payout/rowfile"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/testing/trial/oracle"
	"github.com/cofferpay/coffer/internal/verify"
)

// Options say how long the list is and how often the service dies.
type Options struct {
	Program string // a coffer
	Rows    int
	Kills   int // how often the service is killed; 0: until the batch has ended
	Seed    uint64
	Report  func(format string, args ...any)
}

const (
	waitMax      = 20 * time.Minute // against a hang alone
	pollInterval = 200 * time.Millisecond
	// killPauseMin and killPauseMax bound how long the service lives.
	killPauseMin = 500 * time.Millisecond
	killPauseMax = 4 * time.Second
	payer        = "payer"
)

// kind is what is special about a row.
type kind string

const (
	payable    kind = "PAYABLE"
	unreadable kind = "UNREADABLE"  // its amount is no number
	selfPaying kind = "SELF_PAYING" // it pays an address of ours
	blocked    kind = "BLOCKED"     // screening refuses it
	alike      kind = "ALIKE"       // it looks like the payable row before it on its chain
)

// isPaid reports whether the payee of such a row receives the amount.
func (k kind) isPaid() bool { return k == payable || k == alike }

// row is a row of the list.
type row struct {
	kind  kind
	mint  localworld.Mint
	payee string
	units *big.Int
}

// history is what an oracle read of a chain.
type history interface {
	ReceivedBy(asset, recipient string) []oracle.Movement
}

// ledger is a chain of the trial with its oracle and the mint that is paid there.
type ledger struct {
	mint  localworld.Mint
	units int64 // of a row, to which its number is added
	walk  func(ctx context.Context) error
	read  history
	payee func(seed string) string
}

type trial struct {
	Options
	world   *localworld.World
	tools   *app.App
	ledgers []ledger
	rows    []row
	random  *rand.Rand
}

// Run plays the trial and returns what it found wrong, or nil.
func Run(ctx context.Context, opts Options) (err error) {
	ctx, cancel := context.WithTimeout(ctx, waitMax)
	defer cancel()
	t := &trial{Options: opts, random: rand.New(rand.NewPCG(opts.Seed, 21))}
	t.world, err = localworld.Start(ctx, localworld.Options{
		Program: opts.Program, Chains: []chain.Name{chain.Ethereum, chain.Solana, chain.Bitcoin}, QuickBlocks: true,
		PrepareDatabase: pgtest.FillDataDir, WithoutSwaps: true, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return fmt.Errorf("start the world: %w", err)
	}
	defer func() { err = errors.Join(err, t.world.Stop()) }()
	conf, err := app.ReadConfig(t.world.Info.Config)
	if err != nil {
		return err
	}
	if t.tools, err = app.OpenTools(ctx, conf, slog.New(slog.DiscardHandler)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.tools.Close()) }()
	if err := t.openLedgers(); err != nil {
		return err
	}
	t.makeRows()
	if err := t.fund(ctx); err != nil {
		return err
	}
	return t.payBatch(ctx)
}

// openLedgers opens the oracles, before anything is paid.
func (t *trial) openLedgers() error {
	mints := map[string]localworld.Mint{}
	for _, m := range t.world.Info.Mints {
		mints[m.Symbol+" "+m.Chain] = m
	}
	ethereum := oracle.Open(t.world.EthereumNode().URL)
	solana := oracle.OpenSolana(t.world.SolanaNode().URL, t.world.SolanaNode().CurrentSlot()-1)
	node := t.world.BitcoinNode()
	bitcoinURL, err := url.Parse(node.URL)
	if err != nil {
		return err
	}
	bitcoinURL.User = url.UserPassword(btcd.User, node.Password)
	bitcoin := oracle.OpenBitcoin(bitcoinURL.String(), btcd.Maturity)
	t.ledgers = []ledger{
		{
			mint: mints["USDC ETHEREUM"], units: 1_000_000, read: ethereum,
			walk:  func(ctx context.Context) error { _, err := ethereum.Walk(ctx); return err },
			payee: func(seed string) string { return common.BytesToAddress(crypto.Keccak256([]byte(seed))).Hex() },
		},
		{
			mint: mints["SOL SOLANA"], units: 3_000_000, read: solana,
			walk: func(ctx context.Context) error { _, err := solana.Walk(ctx); return err },
			payee: func(seed string) string {
				sum := sha256.Sum256([]byte(seed))
				return string(surfpool.AddressOf(ed25519.NewKeyFromSeed(sum[:])))
			},
		},
		{
			mint: mints["BTC BITCOIN"], units: 20_000, read: bitcoin,
			walk: func(ctx context.Context) error { _, err := bitcoin.Walk(ctx); return err },
			payee: func(seed string) string {
				sum := sha256.Sum256([]byte(seed))
				key, _ := btcec.PrivKeyFromBytes(sum[:])
				return string(btcd.KeyAddress(key))
			},
		},
	}
	for _, l := range t.ledgers {
		if l.mint.ID == 0 {
			return errors.New("the world lacks a mint of the trial")
		}
	}
	return nil
}

// makeRows makes the list: of each ten rows one cannot be read, one pays an address of ours, one is blocked, and one
// looks like another row, where addresses of the chain allow that.
func (t *trial) makeRows() {
	last := map[int]string{}
	for n := range t.Rows {
		l := t.ledgers[n%len(t.ledgers)]
		r := row{
			kind: payable, mint: l.mint, payee: l.payee(fmt.Sprintf("%s row %d", t.world.Info.OrganizationID, n)),
			units: big.NewInt(l.units + int64(n)),
		}
		switch n % 10 {
		case 3:
			r.kind = unreadable
		case 5:
			r.kind = selfPaying
		case 7:
			r.kind = blocked
		case 9:
			if l.mint.Chain == string(chain.Ethereum) && last[l.mint.ID] != "" {
				address := common.HexToAddress(last[l.mint.ID])
				address[10] ^= 0xff
				r.kind, r.payee = alike, address.Hex()
			}
		}
		if r.kind == payable {
			last[l.mint.ID] = r.payee
		}
		t.rows = append(t.rows, r)
	}
}

// call calls an interface of the service until it answers with a status.
func (t *trial) call(ctx context.Context, method, address, header, key string, want int, body, target any) error {
	payload, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return t.wait(ctx, method+" "+address, func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(payload))
		if err != nil {
			return err
		}
		request.Header.Set(header, key)
		request.Header.Set("content-type", "application/json")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err == nil && response.StatusCode != want {
			err = fmt.Errorf("got %d, want %d: %.300s", response.StatusCode, want, text)
		}
		if err != nil || target == nil {
			return err
		}
		return json.Unmarshal(text, target)
	})
}

func (t *trial) callAPI(ctx context.Context, method, path string, want int, body, target any) error {
	return t.call(ctx, method, t.world.Info.BaseURL+path, "x-api-key", t.world.Info.APIKey, want, body, target)
}

// wait repeats fn until it succeeds.
func (t *trial) wait(ctx context.Context, title string, fn func(ctx context.Context) error) error {
	for {
		err := fn(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", title, errors.Join(err, ctx.Err()))
		case <-time.After(pollInterval):
		}
	}
}

// fund pays a customer what the list needs on each chain, and moves it to the balance that pays batches. It puts the
// blocked payees on the local list of screening.
func (t *trial) fund(ctx context.Context) error {
	for _, l := range t.ledgers {
		sum := new(big.Int)
		for _, r := range t.rows {
			if r.mint.ID == l.mint.ID {
				sum.Add(sum, r.units)
			}
		}
		amount := new(big.Int).Mul(sum, big.NewInt(2)) // the fees of a native coin come out of the treasury, too
		var opened struct{ Address string }
		err := t.callAPI(ctx, http.MethodPost, "/deposit", http.StatusOK,
			map[string]any{"mintId": l.mint.ID, "customerId": payer}, &opened)
		if err != nil {
			return err
		}
		if _, err := t.world.Info.PayAddress(ctx, l.mint, opened.Address, amount); err != nil {
			return fmt.Errorf("pay %s on %s: %w", amount, l.mint.Chain, err)
		}
		err = t.callAPI(ctx, http.MethodPost, "/transfers", http.StatusCreated, map[string]any{
			"idempotencyKey": "fund-" + l.mint.Chain, "mintId": l.mint.ID, "amount": sum.String(),
			"from": map[string]string{"customerId": payer}, "to": map[string]string{"product": "BATCH_PAYOUT"},
		}, nil)
		if err != nil {
			return fmt.Errorf("fund batches on %s: %w", l.mint.Chain, err)
		}
	}
	for _, r := range t.rows {
		if r.kind != blocked {
			continue
		}
		entry := map[string]any{"severity": "SEVERE", "score": 97, "entity": "a thief", "categories": []string{"THEFT"}}
		err := t.call(ctx, http.MethodPut, t.world.Info.OperatorURL+"/v1/local-risk/"+r.payee, "x-operator-key",
			t.world.Info.Operator.APIKey, http.StatusOK, entry, nil)
		if err != nil {
			return err
		}
	}
	return nil
}

// readList returns the list as an organization sends it.
func (t *trial) readList(ctx context.Context) ([]rowfile.Line, error) {
	treasuries := map[string]string{}
	err := t.tools.DB().ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, `SELECT family, address FROM wallets WHERE purpose = 'TREASURY' AND org_id = $1`,
			t.world.Info.OrganizationID)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var family, address string
			if err := rows.Scan(&family, &address); err != nil {
				return err
			}
			treasuries[family] = address
		}
		return rows.Err()
	})
	if err != nil {
		return nil, err
	}
	var text strings.Builder
	text.WriteString("reference;mintId;toAddress;amount\n")
	for n, r := range t.rows {
		payee, amount := r.payee, r.units.String()
		switch r.kind {
		case selfPaying:
			payee = treasuries[string(chain.Name(r.mint.Chain).Family())]
		case unreadable:
			amount = "1,000"
		}
		fmt.Fprintf(&text, "invoice %d;%d;%s;%s\n", n+1, r.mint.ID, payee, amount)
	}
	return rowfile.ReadCSV([]byte(text.String()))
}

// payBatch makes, submits and approves the batch, while the service dies, and judges what came of it.
func (t *trial) payBatch(ctx context.Context) error {
	lines, err := t.readList(ctx)
	if err != nil {
		return err
	}
	orgID := t.world.Info.OrganizationID
	maker, approver := audit.User("usr_maker"), audit.User("usr_approver")
	b, err := t.tools.Payouts.Create(ctx, orgID, payout.CreateRequest{
		Lines: lines, Mode: contenthash.Partial, Actor: maker,
	})
	if err != nil {
		return err
	}
	warnings, err := t.tools.Payouts.Warnings(ctx, orgID, b.ID)
	if err != nil {
		return err
	}
	request := payout.SubmitRequest{ContentHash: b.ContentHash, Actor: maker}
	for _, w := range warnings {
		if w.NeedsTick {
			request.Ticked = append(request.Ticked, w.Row)
		}
	}
	ended, kills := make(chan struct{}), make(chan error, 1)
	go func() { kills <- t.killAtRandom(ctx, ended) }()
	began := time.Now()
	err = t.carry(ctx, orgID, b.ID, request, approver)
	close(ended)
	if err := errors.Join(err, <-kills); err != nil {
		return fmt.Errorf("%w\n%s", err, t.world.ServiceLog())
	}
	t.Report("%d rows over %d chains ended after %s", t.Rows, len(t.ledgers), time.Since(began).Round(time.Second))
	return t.judge(ctx, orgID, b.ID)
}

// carry submits the batch, approves it and the payments that wait for a person, until the batch has ended.
func (t *trial) carry(
	ctx context.Context, orgID, batchID string, request payout.SubmitRequest, approver audit.Actor,
) error {
	if _, err := t.tools.Payouts.Submit(ctx, orgID, batchID, request); err != nil {
		return fmt.Errorf("submit the batch: %w", err)
	}
	return t.wait(ctx, "the batch ends", func(ctx context.Context) error {
		b, err := t.tools.Payouts.ByID(ctx, orgID, batchID)
		if err != nil {
			return err
		}
		switch b.Status {
		case payout.AwaitingApproval:
			if _, err := t.tools.Payouts.Approve(ctx, orgID, batchID, b.ContentHash, approver); err != nil {
				return err
			}
		case payout.Processing:
			items, err := t.tools.Payouts.Items(ctx, orgID, batchID)
			if err != nil {
				return err
			}
			for _, i := range items {
				if i.WithdrawalStatus != "AWAITING_APPROVAL" {
					continue
				}
				if _, err := t.tools.Withdrawals.Approve(ctx, orgID, i.WithdrawalID, approver); err != nil {
					return fmt.Errorf("approve row %d: %w", i.Number, err)
				}
			}
		case payout.Completed, payout.PartiallyCompleted, payout.Failed, payout.Invalid:
			return nil
		}
		return fmt.Errorf("it is %s: %+v", b.Status, b.Counts)
	})
}

// killAtRandom kills the service as kill -9 does and starts it again, until the batch has ended or it died often
// enough.
func (t *trial) killAtRandom(ctx context.Context, ended <-chan struct{}) error {
	for n := 0; t.Kills == 0 || n < t.Kills; n++ {
		pause := killPauseMin + time.Duration(t.random.Int64N(int64(killPauseMax-killPauseMin)))
		select {
		case <-ended:
			t.Report("the service was killed %d times", n)
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
		if err := t.world.KillService(); err != nil {
			return err
		}
		if err := t.world.RestartService(ctx); err != nil {
			return fmt.Errorf("start the service again: %w", err)
		}
	}
	t.Report("the service was killed %d times", t.Kills)
	return nil
}

// judge compares what each payee received with the list, and checks the books.
func (t *trial) judge(ctx context.Context, orgID, batchID string) error {
	var errs []error
	b, err := t.tools.Payouts.ByID(ctx, orgID, batchID)
	if err != nil {
		return err
	}
	if b.Status != payout.Completed {
		errs = append(errs, fmt.Errorf("the batch is %s, want %s: %+v", b.Status, payout.Completed, b.Counts))
	}
	for _, l := range t.ledgers {
		if err := l.walk(ctx); err != nil {
			return fmt.Errorf("walk %s: %w", l.mint.Chain, err)
		}
		asset := ""
		if l.mint.ContractAddress != nil {
			asset = *l.mint.ContractAddress
		}
		for n, r := range t.rows {
			if r.mint.ID != l.mint.ID {
				continue
			}
			received := l.read.ReceivedBy(normalize(l, asset), normalize(l, r.payee))
			switch {
			case r.kind.isPaid() && (len(received) != 1 || received[0].Amount.Cmp(r.units) != 0):
				errs = append(errs, fmt.Errorf("row %d, %s, on %s: %s received %v, want %s once", n+1, r.kind,
					l.mint.Chain, r.payee, received, r.units))
			case !r.kind.isPaid() && len(received) != 0:
				errs = append(errs, fmt.Errorf("row %d, %s, on %s: %s received %v, want nothing", n+1, r.kind,
					l.mint.Chain, r.payee, received))
			}
		}
	}
	errs = append(errs, t.judgeGroups(ctx, batchID))
	books, err := verify.RunChecks(ctx, t.tools.DB(), verify.WithGrants(t.tools.GrantKey()))
	if err != nil {
		return err
	}
	for _, breach := range books.Breaches {
		errs = append(errs, fmt.Errorf("breach %s %s: %s", breach.Check, breach.Subject, breach.Detail))
	}
	return errors.Join(errs...)
}

// judgeGroups checks that rows on Solana shared transactions: fewer than half of them had a slot of their own.
func (t *trial) judgeGroups(ctx context.Context, batchID string) error {
	var rows, slots int
	err := t.tools.DB().ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, `
			SELECT count(*), count(*) FILTER (WHERE tx_lead_id IS NULL) FROM dispatch_orders
			WHERE chain = $1 AND batch->>'batchId' = $2`, chain.Solana, batchID).Scan(&rows, &slots)
	})
	if err != nil {
		return err
	}
	t.Report("%d rows on %s had %d transactions", rows, chain.Solana, slots)
	if 2*slots > rows {
		return fmt.Errorf("%d rows on %s had %d transactions, want at most half as many", rows, chain.Solana, slots)
	}
	return nil
}

// normalize returns an address in the form of the oracle of its chain.
func normalize(l ledger, address string) string {
	if l.mint.Chain == string(chain.Ethereum) {
		return strings.ToLower(address)
	}
	return address
}
