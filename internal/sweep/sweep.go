// Package sweep moves deposits from their addresses to the organization's treasury, from which
// withdrawals are paid. It also plans these orders:
//
//   - gas top-ups for the addresses whose sweeps lack gas;
//   - nonce accounts for treasuries;
//   - consolidations of small outputs on UTXO chains;
//   - closes of idle token accounts.
//
// It takes its amounts from address_funds alone: what was credited, less what is held, reserved or
// swept. The chain's own balance never decides how much is moved.
//
// These things never happen here:
//
//   - a flagged or non-final unit leaves its address;
//   - a customer's native coin pays a fee.
//
// A crash leaves an open sweep with its order, both from one transaction. Dispatch carries it on.
package sweep

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/failpoint"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
)

// Config holds the intervals and limits of a Sweeper. A zero value means the default.
type Config struct {
	PollInterval   time.Duration // pause between two plans; 5 s
	MinFeeMultiple uint64        // a sweep by value moves at least this many times its fee; 10
	// RetryAfterFail is the pause before an address whose sweep failed is tried again; repeated
	// failures lengthen it; 10 min.
	RetryAfterFail time.Duration
	PriceAgeMax    time.Duration // the oldest price that decides whether a sweep is worth its fee; 1 h
	PlanMax        int           // sweeps planned in one round; 100
	GasMarginBps   uint64        // added to a top-up, because fees move until it arrives; 5000
	// NonceAccounts is the number of nonce accounts of every treasury, on a chain that has them.
	// That many transactions of an organization can be in flight at once. Each account costs rent
	// that stays there. The default is 8, the maximum NonceAccountsMax. No setting of the service
	// changes it: the service always has 8.
	NonceAccounts int
	// CloseAfter is how long a token account has to be swept empty, without a new arrival, before
	// it is closed for the rent in it. It applies to chains that have token accounts. Zero never
	// closes one.
	CloseAfter time.Duration
}

func (c Config) withDefaults() Config {
	if c.PollInterval <= 0 {
		c.PollInterval = 5 * time.Second
	}
	if c.MinFeeMultiple == 0 {
		c.MinFeeMultiple = 10
	}
	if c.RetryAfterFail <= 0 {
		c.RetryAfterFail = 10 * time.Minute
	}
	if c.PriceAgeMax <= 0 {
		c.PriceAgeMax = time.Hour
	}
	if c.PlanMax <= 0 {
		c.PlanMax = 100
	}
	if c.GasMarginBps == 0 {
		c.GasMarginBps = 5000
	}
	if c.NonceAccounts <= 0 {
		c.NonceAccounts = 8
	}
	c.NonceAccounts = min(c.NonceAccounts, NonceAccountsMax)
	return c
}

// Sweeper plans the sweeps of one chain.
type Sweeper struct {
	db      *pg.DB
	chain   chain.Chain
	wallets *wallet.Service
	prices  price.Source
	conf    Config
	log     *slog.Logger

	mu sync.Mutex
	// When the chain is asked again, by treasury about its nonce accounts, and by shared address and mint about the
	// token account; may be lost.
	retryAt map[string]time.Time
	// Position and next start of the search for idle token accounts; both may be lost.
	closeCursor idleAccount
	nextCloseAt time.Time
}

// New makes the Sweeper of a chain.
func New(
	db *pg.DB, ch chain.Chain, wallets *wallet.Service, prices price.Source, conf Config, log *slog.Logger,
) *Sweeper {
	return &Sweeper{
		db: db, chain: ch, wallets: wallets, prices: prices, conf: conf.withDefaults(),
		log: log.With("chain", string(ch.Name)), retryAt: map[string]time.Time{},
	}
}

// Run plans until ctx ends.
func (s *Sweeper) Run(ctx context.Context) error {
	tick := time.NewTicker(s.conf.PollInterval)
	defer tick.Stop()
	for {
		if _, err := s.Plan(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("sweep plan", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Plan runs one round and returns how many rows it made or ended. Its steps are, in this order:
//
//   - recall the sweeps that the chain would revert;
//   - plan the sweeps that withdrawals wait for;
//   - plan the sweeps that are worth their fee;
//   - plan the top-ups that open sweeps wait for;
//   - plan the nonce accounts that treasuries lack;
//   - plan the token accounts that shared addresses lack;
//   - plan the consolidations that are worth their fee;
//   - plan the closes of idle token accounts.
//
// On a UTXO chain it only plans consolidations: a payment spends any output where it lies, and
// needs no gas at other addresses.
func (s *Sweeper) Plan(ctx context.Context) (made int, err error) {
	steps := []func(context.Context) (int, error){
		s.recallReverting, s.planOnDemand, s.planByValue, s.planTopUps, s.planNonceAccounts, s.planTokenAccounts,
		s.planAllowances,
		s.planConsolidations, s.planCloses,
	}
	if s.chain.Name.IsUTXO() {
		steps = []func(context.Context) (int, error){s.planConsolidations}
	}
	for _, step := range steps {
		n, e := step(ctx)
		made += n
		err = errors.Join(err, e)
	}
	return made, err
}

// recallReverting recalls the sweeps that have no slot and cannot get one at present, for example
// because the token blocks the address and they would revert. Their reserved amounts are not on their
// way, and no payment may count on them. They are tried again after a pause.
func (s *Sweeper) recallReverting(ctx context.Context) (int, error) {
	var sweepIDs []string
	err := s.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, `
			SELECT s.sweep_id FROM sweeps s JOIN dispatch_orders o ON o.order_id = s.sweep_id
			WHERE s.chain = $1 AND s.status = 'OPEN' AND o.status = 'QUEUED' AND o.waiting_for = ANY ($4) AND s.created_at <= $2
			ORDER BY s.sweep_id LIMIT $3`,
			s.chain.Name, tx.Now.Add(-s.conf.RetryAfterFail), s.conf.PlanMax, dispatch.ReasonsNotOnTheirWay())
		if err != nil {
			return err
		}
		sweepIDs, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("find the sweeps that would revert: %w", err)
	}
	made := 0
	for _, sweepID := range sweepIDs {
		err := s.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
			isRecalled, err := dispatch.Recall(ctx, tx, sweepID)
			if err != nil || !isRecalled {
				return err // it has a slot by now, which ends it
			}
			var m wallet.Movement
			if err := tx.QueryRow(
				ctx, `SELECT wallet_id, org_id, mint_id, amount FROM sweeps WHERE sweep_id = $1`, sweepID,
			).
				Scan(&m.WalletID, &m.OrgID, &m.MintID, &m.Minus); err != nil {
				return err
			}
			m.Part = wallet.Reserved
			return wallet.MoveFunds(ctx, tx, m)
		})
		if err != nil {
			return made, fmt.Errorf("abandon sweep %s: %w", sweepID, err)
		}
		s.log.Warn("sweep abandoned: the chain would revert it", "sweep", sweepID)
		made++
	}
	return made, nil
}

// retryFactorMax is the most times RetryAfterFail that the pause lasts.
const retryFactorMax = 8

// source is an address with an amount that may be moved.
type source struct {
	WalletID string
	OrgID    string
	MintID   int
	Movable  money.Amount
}

// selectSources selects the addresses that can be swept. Dust, which is not credited, stays at its
// address. Where the chain requires a minimum balance, dust of native coin alone may lie below it.
// Then the sweep leaves the missing amount with the dust, see chain.Chain.MinBalance.
const selectSources = `
	SELECT f.wallet_id, f.org_id, f.mint_id, f.credited - f.held - f.reserved - f.swept - stays AS movable
	FROM address_funds f
	JOIN wallets w ON w.wallet_id = f.wallet_id AND w.purpose <> 'TREASURY'
	JOIN mints m ON m.mint_id = f.mint_id AND m.chain = $1 AND m.quarantined_at IS NULL
	CROSS JOIN LATERAL (SELECT CASE WHEN m.contract = '' AND f.dust > 0 THEN greatest($6::numeric - f.dust, 0) ELSE 0 END AS stays) least
	WHERE f.credited - f.held - f.reserved - f.swept > 0 AND f.credited - f.held - f.reserved - f.swept > stays
	  AND NOT EXISTS (SELECT FROM sweeps s WHERE s.wallet_id = f.wallet_id AND s.mint_id = f.mint_id AND s.status = 'OPEN')
	  AND NOT EXISTS (SELECT FROM sweeps s
	      WHERE s.wallet_id = f.wallet_id AND s.mint_id = f.mint_id AND s.status = 'FAILED'
	        AND s.ended_at > coalesce((SELECT max(d.ended_at) FROM sweeps d
	            WHERE d.wallet_id = f.wallet_id AND d.mint_id = f.mint_id AND d.status = 'DONE'), '-infinity')
	      HAVING max(s.ended_at) + $4::bigint * least(2 ^ least(count(*) - 1, 30), $5::bigint)
	          * interval '1 microsecond' > $2)`

// loadSources returns the addresses that can be swept now, the largest amounts first: no open
// sweep, no recent failure, no quarantine. Each further failure in a row doubles the pause, up to
// retryFactorMax, because a token may block an address permanently. The exponent has a bound of its own: a power beyond
// every number is an error, and would end all planning after some months.
func (s *Sweeper) loadSources(ctx context.Context, tx pg.Tx, condition string, args ...any) ([]source, error) {
	args = append(
		[]any{
			s.chain.Name, tx.Now, s.conf.PlanMax, s.conf.RetryAfterFail.Microseconds(), retryFactorMax,
			s.chain.MinBalance,
		},
		args...,
	)
	rows, err := tx.Query(ctx, selectSources+condition+` ORDER BY movable DESC, f.wallet_id LIMIT $3`, args...)
	if err != nil {
		return nil, fmt.Errorf("find what can be swept: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[source])
	if err != nil {
		return nil, fmt.Errorf("find what can be swept: %w", err)
	}
	return found, nil
}

// planOnDemand plans sweeps for the payments that wait for funds. It sweeps the largest addresses
// of the organization first, until the missing amount is on its way.
func (s *Sweeper) planOnDemand(ctx context.Context) (made int, err error) {
	type key struct {
		org  string
		mint int
	}
	missing := map[key]money.Amount{}
	var order []key
	err = s.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		clear(missing)
		order = order[:0]
		underfunded, err := dispatch.ListUnderfunded(ctx, tx, s.chain.Name, dispatch.RemedySweep, s.conf.PlanMax)
		if err != nil {
			return err
		}
		for _, o := range underfunded {
			k := key{o.OrgID, o.MintID}
			if _, ok := missing[k]; !ok {
				order = append(order, k)
			}
			if missing[k], err = missing[k].Add(o.Missing); err != nil {
				return fmt.Errorf("read what %s lacks of mint %d: %w", k.org, k.mint, err)
			}
		}
		for k := range missing { // amounts on their way count already
			var incoming money.Amount
			// … but not those that get no slot, as from an address that the token has blocked: a payment
			// would wait for them without end.
			if err := tx.QueryRow(ctx, `
				SELECT coalesce(sum(s.amount), 0) FROM sweeps s JOIN dispatch_orders o ON o.order_id = s.sweep_id
				WHERE s.org_id = $1 AND s.mint_id = $2 AND s.status = 'OPEN'
				  AND o.status <> 'STUCK' AND coalesce(o.waiting_for, '') <> ALL ($3)`,
				k.org, k.mint, dispatch.ReasonsNotOnTheirWay()).Scan(&incoming); err != nil {
				return fmt.Errorf("read the open transfers to %s: %w", k.org, err)
			}
			missing[k] = money.SubOrZero(missing[k], incoming)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	for _, k := range order {
		if missing[k].IsZero() {
			continue
		}
		var sources []source
		readErr := s.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
			sources, err = s.loadSources(ctx, tx, ` AND f.org_id = $7 AND f.mint_id = $8`, k.org, k.mint)
			return err
		})
		if readErr != nil {
			return made, errors.Join(err, readErr)
		}
		for _, src := range sources {
			if missing[k].IsZero() {
				break
			}
			ok, e := s.openSweep(ctx, src, dispatch.TriggerDemand)
			err = errors.Join(err, e) // the other addresses need not wait for it
			if ok {
				made++
				missing[k] = money.SubOrZero(missing[k], src.Movable)
			}
		}
	}
	return made, err
}

// planByValue plans the sweeps that move at least MinFeeMultiple times their fee. Without a price
// for the mint and for the gas it cannot compare them, and the sweeps wait for demand.
func (s *Sweeper) planByValue(ctx context.Context) (made int, err error) {
	var (
		// By mint, so that small amounts of one mint do not hide large ones of another.
		sourcesByMint = map[int][]source{}
		mints         mint.Catalogue
		hasSources    bool
	)
	err = s.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		if mints, err = mint.LoadCatalogue(ctx, tx); err != nil {
			return err
		}
		for _, m := range mints.List(mint.Filter{Chain: s.chain.Name}) {
			if sourcesByMint[m.ID], err = s.loadSources(ctx, tx, ` AND f.mint_id = $7`, m.ID); err != nil {
				return err
			}
			hasSources = hasSources || len(sourcesByMint[m.ID]) > 0
		}
		return nil
	})
	if err != nil || !hasSources {
		return 0, err
	}
	worth, err := s.minWorth(ctx, mints)
	if err != nil {
		s.log.Info("cannot decide which sweeps are worth it", "err", err)
		return 0, nil
	}
	for _, m := range mints.List(mint.Filter{Chain: s.chain.Name}) {
		for _, src := range sourcesByMint[m.ID] {
			value, e := s.usdValue(ctx, m, src.Movable)
			if e != nil {
				s.log.Info("cannot decide whether a sweep is worth it", "mint", m.ID, "err", e)
				break
			}
			if value.Cmp(worth) < 0 {
				break // the largest come first
			}
			opened, e := s.openSweep(ctx, src, dispatch.TriggerValue)
			err = errors.Join(err, e)
			if opened {
				made++
			}
		}
	}
	return made, err
}

// transferCost returns the most that a usual transfer costs at present, in native units.
func (s *Sweeper) transferCost(ctx context.Context) (money.Amount, error) {
	fees, err := s.chain.Sender.TransferFees(ctx)
	if err != nil {
		return money.Zero, fmt.Errorf("ask what a transfer costs: %w", err)
	}
	return fees.Max()
}

// minWorth returns the value, in US dollars, from which a sweep is worth its fee.
func (s *Sweeper) minWorth(ctx context.Context, mints mint.Catalogue) (money.USD, error) {
	native, ok := mints.Native(s.chain.Name)
	if !ok {
		return money.USD{}, fmt.Errorf("native coin of %s is not in the catalogue", s.chain.Name)
	}
	cost, err := s.transferCost(ctx)
	if err != nil {
		return money.USD{}, err
	}
	if cost, err = cost.Mul(s.conf.MinFeeMultiple); err != nil {
		return money.USD{}, err
	}
	return s.usdValue(ctx, native, cost)
}

func (s *Sweeper) usdValue(ctx context.Context, m mint.Mint, a money.Amount) (money.USD, error) {
	q, err := s.prices.USD(ctx, m.ID)
	if err != nil {
		return money.USD{}, err
	}
	if err := price.CheckFresh(q, s.db.Clock()(), s.conf.PriceAgeMax); err != nil {
		return money.USD{}, err
	}
	return money.ValueOf(a, m.Decimals, q.Price)
}

// SweepWallet plans the sweep of everything that a wallet may give of a mint, because a person
// asked for it. It returns false if there is nothing to sweep, or if a sweep is open already.
func (s *Sweeper) SweepWallet(ctx context.Context, walletID string, mintID int) (bool, error) {
	var sources []source
	err := s.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		sources, err = s.loadSources(ctx, tx, ` AND f.wallet_id = $7 AND f.mint_id = $8`, walletID, mintID)
		return err
	})
	if err != nil || len(sources) == 0 {
		return false, err
	}
	return s.openSweep(ctx, sources[0], dispatch.TriggerPerson)
}

// SweepAll plans the sweep of everything that may be swept on the chain, at any value, and returns
// how many sweeps it made.
func (s *Sweeper) SweepAll(ctx context.Context) (made int, err error) {
	var sources []source
	err = s.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		sources, err = s.loadSources(ctx, tx, "")
		return err
	})
	if err != nil {
		return 0, err
	}
	for _, src := range sources {
		opened, e := s.openSweep(ctx, src, dispatch.TriggerPerson)
		err = errors.Join(err, e)
		if opened {
			made++
		}
	}
	return made, err
}

// openSweep reserves what a sweep moves and submits its order. It verifies first
// that both addresses are Coffer's: the source because its key has to sign, the treasury because it
// receives. Rule COIN-1.
func (s *Sweeper) openSweep(ctx context.Context, src source, trigger dispatch.Trigger) (bool, error) {
	treasury, err := s.wallets.Treasury(ctx, src.OrgID, s.chain.Name.Family())
	if err != nil {
		return false, fmt.Errorf("treasury of %s: %w", src.OrgID, err)
	}
	err = s.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		fromWallet, err := wallet.ByID(ctx, tx, src.WalletID)
		if err != nil {
			return err
		}
		if err := s.wallets.VerifyAttestation(fromWallet); err != nil {
			return err
		}
		mints, err := mint.LoadCatalogue(ctx, tx)
		if err != nil {
			return err
		}
		m, ok := mints.ByID(src.MintID)
		if !ok {
			return fmt.Errorf("mint %d is not in the catalogue", src.MintID)
		}
		o := dispatch.Order{
			ID: id.New("sw", tx.Now), OrgID: src.OrgID, Purpose: signer.Sweep, Chain: s.chain.Name, WalletID: fromWallet.ID,
			ToWalletID: treasury.ID, To: treasury.Address,
			MintID: m.ID, Contract: m.Contract, Amount: src.Movable, Trigger: trigger,
		}
		if s.chain.SeparateFeePayer {
			o.WalletID, o.FromWalletID = treasury.ID, fromWallet.ID
		}
		if err := submit(ctx, tx, o); err != nil {
			return err
		}
		err = wallet.MoveFunds(ctx, tx, wallet.Movement{
			WalletID: fromWallet.ID, OrgID: src.OrgID, MintID: m.ID, Part: wallet.Reserved, Plus: src.Movable,
		})
		if err != nil {
			return err
		}
		failpoint.Hit("S01")
		return nil
	})
	if pg.ViolatesConstraint(err, "sweeps_one_open") || errors.Is(err, wallet.ErrInsufficient) {
		return false, nil // another planner was first
	}
	if err != nil {
		return false, fmt.Errorf("sweep %s of mint %d: %w", src.WalletID, src.MintID, err)
	}
	s.log.Info(
		"sweep planned", "wallet", src.WalletID, "mint", src.MintID, "amount", src.Movable.String(),
		"why", string(trigger),
	)
	return true, nil
}

// submit submits an internal order and inserts the row that is its cause.
func submit(ctx context.Context, tx pg.Tx, o dispatch.Order) error {
	if err := dispatch.Submit(ctx, tx, o); err != nil {
		return err
	}
	return insertCause(ctx, tx, o, o.Trigger)
}

func insertCause(ctx context.Context, tx pg.Tx, o dispatch.Order, trigger dispatch.Trigger) error {
	_, err := tx.Exec(ctx, `INSERT INTO internal_orders (order_id, org_id, purpose, trigger) VALUES ($1, $2, $3, $4)`,
		o.ID, o.OrgID, o.Purpose, trigger)
	if err != nil {
		return fmt.Errorf("insert the cause of order %s: %w", o.ID, err)
	}
	return nil
}

// Listener handles the orders that close token accounts and consolidate outputs. It changes
// nothing: their state is the order's. Nothing else is held for them.
type Listener struct{}

// OnBroadcast implements dispatch.Listener.
func (Listener) OnBroadcast(context.Context, pg.Tx, dispatch.Order, chain.TxHash) error { return nil }

// OnIncluded implements dispatch.Listener.
func (Listener) OnIncluded(context.Context, pg.Tx, dispatch.Order, chain.TxHash) error { return nil }

// OnEnded posts nothing. The rent of a closed account is no part of what an address held in the
// books: the walk finds it at the treasury, like native coin from any sender. A consolidation
// changes nothing in the books but the fee.
func (Listener) OnEnded(context.Context, pg.Tx, dispatch.Order, dispatch.End) ([]ledger.Posting, error) {
	return nil, nil
}

// OnRefused changes nothing. The next plan decides whether to make another order.
func (Listener) OnRefused(context.Context, pg.Tx, dispatch.Order, *signer.Refusal) error { return nil }

// OnRecalled changes nothing.
func (Listener) OnRecalled(context.Context, pg.Tx, dispatch.Order, audit.Actor) error { return nil }

// OnRestored implements dispatch.RestoreListener. It inserts the causes that the backup lacks.
func (Listener) OnRestored(
	ctx context.Context, tx pg.Tx, orders []dispatch.RestoredOrder,
) ([]ledger.Posting, error) {
	for _, o := range orders {
		if !o.IsNew {
			continue
		}
		if err := insertCause(ctx, tx, o.Order, dispatch.TriggerRestore); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// SweepListener handles the orders of sweeps. Their end posts nothing, because the total of an
// organization's addresses does not change.
type SweepListener struct{ Listener }

// OnRefused releases what the sweep reserved.
func (SweepListener) OnRefused(ctx context.Context, tx pg.Tx, o dispatch.Order, _ *signer.Refusal) error {
	return wallet.MoveFunds(ctx, tx, wallet.Movement{
		WalletID: o.SourceWalletID(), OrgID: o.OrgID, MintID: o.MintID, Part: wallet.Reserved, Minus: o.Amount,
	})
}

// OnRecalled releases what the sweep reserved.
func (s SweepListener) OnRecalled(ctx context.Context, tx pg.Tx, o dispatch.Order, _ audit.Actor) error {
	return s.OnRefused(ctx, tx, o, nil)
}

var (
	_ dispatch.Listener        = Listener{}
	_ dispatch.RestoreListener = Listener{}
)
