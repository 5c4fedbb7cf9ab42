package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/checkout/outcome"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/http/api"
	"github.com/cofferpay/coffer/internal/http/payerpages"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/journal"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/seal"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/service"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/keys"
	"github.com/cofferpay/coffer/internal/signer/local"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/webhook"
)

const (
	checkoutsDefault = 1_000_000
	checkoutToken    = 1
	checkoutCoin     = 2

	createdGoal       = 2_000 // checkouts a second
	openedGoal        = 300   // options a second
	payerPagesOpened  = 400   // pages whose option is open, among those that are timed
	payerPagesCounted = 2_000
	payerPageTarget   = 15 * time.Millisecond // p99 on the server
	payerVisitMax     = 40 << 10              // bytes of a first visit: HTML with its QR code, style sheet and script
	payerStreams      = 10_000
	payerStreamsMax   = 400 << 20
	completions       = 60
	completionTarget  = 750 * time.Millisecond // p99
	fewPages          = 4                      // visitors at once
)

// checkoutEnv is the service with a product, on a simulated chain, with the interface and the pages of payers.
type checkoutEnv struct {
	*service.Service
	db        *pg.DB
	signer    *local.Signer
	net       *sim.Chain
	changes   *audit.Follower
	org       string
	key       seal.Secret
	productID string
	api       *httptest.Server
	pages     *httptest.Server
	made      atomic.Int64
}

// newCheckoutEnv starts it with a database and a journal of this name.
func (w *benchEnv) newCheckoutEnv(ctx context.Context, name string) (e *checkoutEnv, err error) {
	e = &checkoutEnv{net: sim.New(sim.Config{FinalityDepth: 1, BlockTime: time.Second, TracesOff: true})}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.closeAll())
		}
	}()
	if err := w.execAsSuperuser(ctx, "", `CREATE DATABASE `+name+` OWNER coffer_owner`); err != nil {
		return e, err
	}
	conf := pg.Config{URL: w.cluster.URL(name), OwnerURL: w.cluster.OwnerURL(name)}
	if err := pg.Migrate(ctx, conf); err != nil {
		return e, err
	}
	if e.db, err = pg.Open(ctx, conf, time.Now); err != nil {
		return e, err
	}
	token := mint.Mint{
		ID: checkoutToken, Chain: chain.Ethereum, Network: chain.Local, Kind: mint.Token, Contract: signertest.Token,
		Symbol: "USDC", Name: "USD Coin", Decimals: 6, DepositEnabled: true, WithdrawEnabled: true,
		MinDeposit: money.Units(1), MinWithdraw: money.Units(1), Finality: "FINALIZED",
	}
	coin := token
	coin.ID, coin.Kind, coin.Contract, coin.Symbol, coin.Name, coin.Decimals = checkoutCoin, mint.Native, "", "ETH",
		"Ether", 18
	if err := mint.Sync(ctx, e.db, []mint.Mint{token, coin}); err != nil {
		return e, err
	}
	made, key, err := org.Create(ctx, e.db, "shop")
	if err != nil {
		return e, err
	}
	e.org, e.key = made.ID, key
	if err := e.openService(ctx, w, name); err != nil {
		return e, err
	}
	d := checkout.NewDraft()
	d.Name, d.PriceType, d.Price = "Gold plan", checkout.FixedPrice, new("49.99")
	d.AcceptedMintIDs = []int{checkoutToken, checkoutCoin}
	product, _, err := e.Checkouts.Create(ctx, e.org, checkout.Request{Draft: d, Actor: audit.APIKey(e.org)})
	if err != nil {
		return e, err
	}
	e.productID = product.ID
	return e, nil
}

func (e *checkoutEnv) openService(ctx context.Context, w *benchEnv, name string) error {
	seed, err := keys.NewSeed()
	if err != nil {
		return err
	}
	seed = seed.ForNetwork(chain.Local)
	secret := sha256.Sum256([]byte(e.org))
	grants, err := signer.NewGrantKey(secret[:])
	if err != nil {
		return err
	}
	conf := local.Config{
		Journal: filepath.Join(w.dir, name+".journal"), Grants: grants, Policy: signertest.NewPolicy(),
	}
	if err := local.CreateJournal(conf, seed); err != nil {
		return err
	}
	if e.signer, err = local.Open(conf, seed); err != nil {
		return err
	}
	quiet, chains := slog.New(slog.DiscardHandler), chain.Chains{chain.Ethereum: e.net.ToChain()}
	prices := price.Fixed{Prices: map[int]money.USD{
		checkoutToken: money.MustParseUSD("1"), checkoutCoin: money.MustParseUSD("2000"),
	}}
	start := uint64(0)
	e.Service = service.New(service.Config{
		Environment: webhook.Test,
		Chains:      map[chain.Name]service.ChainConfig{chain.Ethereum: {Start: &start, ScanInterval: idlePause}},
		IsPegged:    func(mintID int) bool { return mintID == checkoutToken },
	}, service.Parts{
		DB: e.db, Signer: e.signer, AttestKey: seed.AttestKey().PublicKey(), Grants: grants, Chains: chains,
		Prices: prices, Log: quiet,
	})
	if err := journal.Import(ctx, e.db, e.signer, e.Wallets); err != nil {
		return err
	}
	e.api = httptest.NewServer(api.New(api.Config{
		DB: e.db, Chains: chains, Checkouts: e.Checkouts, Prices: prices,
		CursorKey: []byte("the key of this run's cursors"), BaseURL: "http://bench/v1", Log: quiet,
	}))
	e.changes = audit.NewFollower(e.db, quiet)
	source := payerpages.Source{Service: e.Checkouts, Chains: chains, IsLocal: true, Clock: time.Now, Log: quiet}
	e.pages = httptest.NewServer(payerpages.New(payerpages.Config{
		Checkouts: source, Links: source, Changes: e.changes, Log: quiet,
	}))
	return nil
}

func (e *checkoutEnv) closeAll() error {
	for _, server := range []*httptest.Server{e.api, e.pages} {
		if server != nil {
			server.CloseClientConnections()
			server.Close()
		}
	}
	if e.db != nil {
		e.db.Close()
	}
	if e.signer != nil {
		return e.signer.Close()
	}
	return nil
}

// benchCheckouts measures what payers and shops ask for: creation, opening, the page with a million checkouts, how
// soon a paid page says so, and what open pages cost.
func benchCheckouts(ctx context.Context, w *benchEnv) (err error) {
	count, err := countOfEnv("BENCH_CHECKOUTS", checkoutsDefault)
	if err != nil {
		return err
	}
	e, err := w.newCheckoutEnv(ctx, "checkouts")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.closeAll()) }()
	for _, measure := range []func(context.Context, *checkoutEnv) error{
		w.benchCheckoutCreation, w.benchOptions, w.benchCompletions,
		func(ctx context.Context, e *checkoutEnv) error { return w.benchPayerPages(ctx, e, count) },
		w.benchPayerStreams,
	} {
		if err := measure(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

func (w *benchEnv) benchCheckoutCreation(ctx context.Context, e *checkoutEnv) error {
	callers := make([]*httpCaller, connections)
	defer func() {
		for _, c := range callers {
			if c != nil {
				_ = c.conn.Close()
			}
		}
	}()
	for i := range callers {
		var err error
		address := e.api.Listener.Addr().String()
		if callers[i], err = dialCaller(ctx, address, e.key, fmt.Sprint("sale-", i), &e.made); err != nil {
			return err
		}
	}
	post := func(_ context.Context, i int) error {
		return callers[i].post("/v1/checkouts", map[string]any{
			"productId": e.productID, "quantity": 1, "idempotencyKey": callers[i].nextKey(),
			"customerId": "customer-" + fmt.Sprint(i), "reference": "order-" + fmt.Sprint(callers[i].n),
		})
	}
	// The plans of an empty table are those of a shop that opened this minute.
	if _, _, err := runCallers(ctx, connections, w.duration/5, post); err != nil {
		return err
	}
	if err := w.execAsSuperuser(ctx, "checkouts", `VACUUM ANALYZE`); err != nil {
		return err
	}
	e.made.Store(0)
	workBefore := w.readWork()
	took, n, err := runCallers(ctx, connections, w.duration, post)
	if err != nil {
		return err
	}
	spent := w.readWork().subtract(workBefore)
	w.table.addRow(row{
		figure: fmt.Sprintf("POST /checkouts, %d connections", connections),
		result: fmt.Sprintf("%.0f/s, p50 %s, p99 %s", n, formatDuration(took.percentile(0.5)),
			formatDuration(took.percentile(0.99))),
		compared: joinParts(formatRatio(n, w.table.tpcb8, "pgbench at 8 clients"),
			spent.formatEach(int(e.made.Load()))),
		target: formatTarget(n >= createdGoal, fmt.Sprintf("%d/s", createdGoal)),
	})
	return nil
}

// create makes a checkout.
func (e *checkoutEnv) create(ctx context.Context) (checkout.Checkout, error) {
	c, _, err := e.Checkouts.CreateCheckout(ctx, e.org, checkout.CheckoutRequest{
		Items: []checkout.ItemRequest{{ProductID: e.productID, Quantity: 1}}, Actor: audit.APIKey(e.org),
	})
	return c, err
}

// benchOptions opens an option of a checkout of its own each time, which issues an address.
func (w *benchEnv) benchOptions(ctx context.Context, e *checkoutEnv) error {
	addresses, err := countFor(ctx, w.duration/2, func(ctx context.Context, n int64) error {
		_, err := e.Wallets.Address(ctx, signer.WalletRef{
			OrgID: e.org, Family: chain.EVM, Purpose: wallet.CustomerDeposit, Subject: fmt.Sprint("issued ", n),
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("issue addresses: %w", err)
	}
	var waiting []string
	err = e.db.ReadOrg(ctx, e.org, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, `SELECT checkout_id FROM checkouts ORDER BY checkout_id`)
		if err != nil {
			return err
		}
		waiting, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err != nil {
		return err
	}
	opened, err := countFor(ctx, w.duration/2, func(ctx context.Context, n int64) error {
		if n > int64(len(waiting)) {
			return fmt.Errorf("all %d checkouts are open; measure for a shorter time", len(waiting))
		}
		_, err := e.Checkouts.OpenOption(ctx, e.org, waiting[n-1], checkoutToken)
		return err
	})
	if err != nil {
		return fmt.Errorf("open options: %w", err)
	}
	disk := "the disk was not measured"
	if w.table.syncMedian > 0 {
		disk = fmt.Sprintf("the signer's disk makes a page durable in %s", formatDuration(w.table.syncMedian))
	}
	w.table.addRow(row{
		figure: fmt.Sprintf("options opened by %d callers, each with an address of its checkout", swapCallers),
		result: fmt.Sprintf("%.0f/s", opened),
		compared: fmt.Sprintf("%s, %.0f/s; %s", formatRatio(opened, addresses, "addresses issued in the same run"),
			addresses, disk),
		target: formatTarget(opened >= openedGoal, fmt.Sprintf("%d/s", openedGoal)),
	})
	return nil
}

// startLoops runs what settles checkouts and tells open pages, until stop is called.
func (e *checkoutEnv) startLoops(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var loops sync.WaitGroup
	for _, run := range []func(context.Context) error{
		e.Checkouts.Run, e.changes.Run, (&audit.Sealer{DB: e.db}).Run,
	} {
		loops.Go(func() {
			if err := run(ctx); err != nil && ctx.Err() == nil {
				printProgress("a loop ended: %v", err)
			}
		})
	}
	return func() { cancel(); loops.Wait() }
}

// makeBlocks makes blocks and reads them.
func (e *checkoutEnv) makeBlocks(ctx context.Context, blocks int) error {
	e.net.Mine(blocks)
	walker := e.Walker(chain.Ethereum)
	for _, step := range []func(context.Context) (bool, error){walker.StepHead, walker.StepFinal} {
		for hasMore := true; hasMore; {
			var err error
			if hasMore, err = step(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// benchCompletions pays checkouts one by one and times each from the commit of its credit to the page that says that it
// is completed.
func (w *benchEnv) benchCompletions(ctx context.Context, e *checkoutEnv) error {
	stop := e.startLoops(ctx)
	defer stop()
	payer := sim.Address("a payer")
	e.net.Mint(payer, signertest.Token, money.MustParse("1000000000000"))
	e.net.Mint(payer, "", money.MustParse("1000000000000000000000"))
	var heard, shown durations
	for range completions {
		c, err := e.create(ctx)
		if err != nil {
			return err
		}
		if c, err = e.Checkouts.OpenOption(ctx, e.org, c.ID, checkoutToken); err != nil {
			return err
		}
		page, err := openPayerStream(ctx, e.pages, c.ID)
		if err != nil {
			return err
		}
		e.net.Pay(payer, c.Options[0].Wallet.Address, signertest.Token, 49_990_000)
		if err := errors.Join(e.makeBlocks(ctx, 4), ctx.Err()); err != nil {
			return err
		}
		if _, err := e.Deposits.CreditWaiting(ctx); err != nil {
			return err
		}
		credited := time.Now()
		for {
			if err := page.waitForNews(); err != nil {
				return fmt.Errorf("the page of %s: %w", c.ID, err)
			}
			heardAt := time.Now()
			if c, err = e.Checkouts.CheckoutByID(ctx, e.org, c.ID); err != nil {
				return err
			}
			if c.Status != outcome.Completed {
				continue
			}
			if _, err := e.load(ctx, c.ID); err != nil {
				return err
			}
			heard, shown = append(heard, heardAt.Sub(credited)), append(shown, time.Since(credited))
			break
		}
		_ = page.conn.Close()
		sleepContext(ctx, changePause/2) // no divisor of an interval
	}
	p99 := shown.percentile(0.99)
	w.table.addRow(row{
		figure: "from the commit of a credit to COMPLETED on an open page",
		result: fmt.Sprintf("p50 %s, p99 %s", formatDuration(shown.percentile(0.5)), formatDuration(p99)),
		compared: fmt.Sprintf("to the stream p50 %s; the log is sealed and read every 250 ms, checkouts are settled "+
			"every 200 ms", formatDuration(heard.percentile(0.5))),
		target: formatTarget(p99 < completionTarget, "p99 < 750 ms"),
	})
	return nil
}

// payerStream is an open live page, without buffers of its own.
type payerStream struct {
	conn net.Conn
	rest []byte
}

// openPayerStream opens the stream of a page that shows the present version.
func openPayerStream(ctx context.Context, pages *httptest.Server, checkoutID string) (*payerStream, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", pages.Listener.Addr().String())
	if err != nil {
		return nil, err
	}
	s := &payerStream{conn: conn}
	if _, err := fmt.Fprintf(conn, "GET /c/%s/live HTTP/1.1\r\nHost: bench\r\n\r\n", checkoutID); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if err := s.waitForNews(); err != nil { // the version at the beginning
		return nil, errors.Join(err, conn.Close())
	}
	return s, nil
}

// waitForNews reads until the stream names a version.
func (s *payerStream) waitForNews() error {
	mark, buffer := []byte("event: change"), make([]byte, 512)
	if err := s.conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		return err
	}
	for {
		if i := bytes.Index(s.rest, mark); i >= 0 {
			s.rest = append([]byte(nil), s.rest[i+len(mark):]...)
			return nil
		}
		n, err := s.conn.Read(buffer)
		if err != nil {
			return fmt.Errorf("read %.200q: %w", s.rest, err)
		}
		s.rest = append(s.rest, buffer[:n]...)
	}
}

// chosenOption follows the id of a checkout in the path of its page.
var chosenOption = fmt.Sprint("?mint=", checkoutCoin)

// load reads the page of a checkout.
func (e *checkoutEnv) load(ctx context.Context, path string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, e.pages.URL+payerpages.Prefix+path, nil)
	if err != nil {
		return nil, err
	}
	return answered(http.DefaultClient, r)
}

// fillCheckouts copies a checkout until there are as many as asked for, and returns ids of some.
func (w *benchEnv) fillCheckouts(ctx context.Context, e *checkoutEnv, count int) (sampled []string, err error) {
	model, err := e.create(ctx)
	if err != nil {
		return nil, err
	}
	conn, err := pgx.Connect(ctx, w.cluster.SuperURL("checkouts"))
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var columns []string
	rows, err := conn.Query(ctx, `
		SELECT column_name FROM information_schema.columns
		WHERE table_name = 'checkouts' AND is_generated = 'NEVER' ORDER BY ordinal_position`)
	if err != nil {
		return nil, err
	}
	if columns, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
		return nil, err
	}
	chosen := make([]string, len(columns))
	for i, name := range columns {
		switch name {
		case "checkout_id":
			chosen[i] = "'co_' || n.checkout_id"
		case "expires_at": // none expires while it is measured
			chosen[i] = "c.expires_at + interval '1 day'"
		default:
			chosen[i] = "c." + name
		}
	}
	const chunk = 50_000
	for made := 0; made < count; made += chunk {
		ids := make([]string, min(chunk, count-made))
		for i := range ids {
			checkoutID := id.New("co", time.Now())
			ids[i] = strings.TrimPrefix(checkoutID, "co_")
			if (made+i)%max(1, count/payerStreams) == 0 {
				sampled = append(sampled, checkoutID)
			}
		}
		_, err := conn.Exec(ctx, fmt.Sprintf(`
			INSERT INTO checkouts (%s) SELECT %s FROM checkouts c, unnest($2::text[]) AS n (checkout_id)
			WHERE c.checkout_id = $1`, strings.Join(columns, ", "), strings.Join(chosen, ", ")), model.ID, ids)
		if err != nil {
			return nil, fmt.Errorf("copy checkouts: %w", err)
		}
		if (made+chunk)%(10*chunk) == 0 {
			printProgress("      %d of %d checkouts written", made+chunk, count)
		}
	}
	_, err = conn.Exec(ctx, `VACUUM ANALYZE checkouts`)
	return sampled, err
}

var payerAsset = regexp.MustCompile(`(?:href|src)="([^"]*/assets/[^"]*\.(?:css|js))"`)

// benchPayerPages loads pages of a million checkouts, of which some have an open option with its QR code.
func (w *benchEnv) benchPayerPages(ctx context.Context, e *checkoutEnv, count int) error {
	printProgress("      write %d checkouts", count)
	sampled, err := w.fillCheckouts(ctx, e, count)
	if err != nil {
		return err
	}
	for i := range min(payerPagesOpened, len(sampled)) {
		if _, err := e.Checkouts.OpenOption(ctx, e.org, sampled[i], checkoutCoin); err != nil {
			return err
		}
	}
	var lookUps durations
	for range pageWarm + pageCounted {
		began := time.Now()
		err := e.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
			var name string
			return tx.QueryRow(ctx, `SELECT name FROM organizations WHERE org_id = $1`, e.org).Scan(&name)
		})
		if err != nil {
			return err
		}
		lookUps = append(lookUps, time.Since(began))
	}
	var mu sync.Mutex
	var open, closed durations
	var loads atomic.Int64
	_, _, err = runCallers(ctx, fewPages, w.duration, func(ctx context.Context, _ int) error {
		i := int(loads.Add(1)) % min(len(sampled), payerPagesCounted)
		began := time.Now()
		path := sampled[i]
		if i < payerPagesOpened {
			path += chosenOption
		}
		if _, err := e.load(ctx, path); err != nil {
			return err
		}
		took := time.Since(began)
		mu.Lock()
		defer mu.Unlock()
		if i < payerPagesOpened {
			open = append(open, took)
		} else {
			closed = append(closed, took)
		}
		return nil
	})
	if err != nil {
		return err
	}
	p99 := max(open.percentile(0.99), closed.percentile(0.99))
	lookUp := lookUps[pageWarm:].percentile(0.5)
	w.table.addRow(row{
		figure: fmt.Sprintf("page of a payer, %d visitors at once, with %d checkouts", fewPages, count),
		result: fmt.Sprintf("with an open option p50 %s, p99 %s; before a choice p50 %s, p99 %s",
			formatDuration(open.percentile(0.5)), formatDuration(open.percentile(0.99)),
			formatDuration(closed.percentile(0.5)), formatDuration(closed.percentile(0.99))),
		compared: fmt.Sprintf("p50 %.1f times a look-up by key, %s", float64(open.percentile(0.5))/float64(lookUp),
			formatDuration(lookUp)),
		target: formatTarget(p99 < payerPageTarget, "p99 < 15 ms"),
	})
	return w.measureFirstVisit(ctx, e, sampled[0])
}

// measureFirstVisit adds up what a phone loads for a page with a QR code.
func (w *benchEnv) measureFirstVisit(ctx context.Context, e *checkoutEnv, checkoutID string) error {
	page, err := e.load(ctx, checkoutID+chosenOption)
	if err != nil {
		return err
	}
	if !bytes.Contains(page, []byte(`class="qr"`)) {
		return errors.New("the page has no QR code")
	}
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	if _, err := writer.Write(page); err != nil {
		return err
	}
	if err := writer.Close(); err != nil {
		return err
	}
	total := packed.Len()
	for _, found := range payerAsset.FindAllSubmatch(page, -1) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, e.pages.URL+string(found[1]), nil)
		if err != nil {
			return err
		}
		r.Header.Set("Accept-Encoding", "gzip") // the client then leaves the body as it is
		asset, err := answered(http.DefaultClient, r)
		if err != nil {
			return err
		}
		total += len(asset)
	}
	w.table.addRow(row{
		figure: "first visit of a payer: page with its QR code, style sheet, script",
		result: fmt.Sprintf("%.1f KB compressed, of which the page %.1f KB", float64(total)/1024,
			float64(packed.Len())/1024),
		compared: fmt.Sprintf("%.1f KB of HTML", float64(len(page))/1024),
		target:   formatTarget(total < payerVisitMax, "40 KB"),
	})
	return nil
}

// filesOfOthers are what the process opens besides streams, each of which has two ends in it.
const filesOfOthers = 1_000

// countStreams returns how many of the ten thousand streams the machine lets one process have both ends of.
func countStreams() (int, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("read how many files may be open: %w", err)
	}
	if limit.Cur >= 2*payerStreams+filesOfOthers {
		return payerStreams, nil
	}
	return max(1, (int(limit.Cur)-filesOfOthers)/2), nil
}

// benchPayerStreams opens ten thousand live pages, each of a checkout of its own.
func (w *benchEnv) benchPayerStreams(ctx context.Context, e *checkoutEnv) error {
	stop := e.startLoops(ctx)
	defer stop()
	wanted, err := countStreams()
	if err != nil {
		return err
	}
	var ids []string
	err = e.db.ReadOrg(ctx, e.org, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, `
			SELECT checkout_id FROM checkouts WHERE status = 'OPEN' ORDER BY checkout_id DESC LIMIT $1`, wanted)
		if err != nil {
			return err
		}
		ids, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err != nil {
		return err
	}
	before := measureMemory()
	idle := w.readWork()
	sleepContext(ctx, w.duration/3)
	idleWork := w.readWork().subtract(idle)
	streams := make([]*payerStream, 0, len(ids))
	defer func() {
		for _, s := range streams {
			_ = s.conn.Close()
		}
	}()
	began := time.Now()
	for _, checkoutID := range ids {
		s, err := openPayerStream(ctx, e.pages, checkoutID)
		if err != nil {
			return fmt.Errorf("stream %d: %w", len(streams)+1, err)
		}
		streams = append(streams, s)
	}
	opened := time.Since(began)
	busy := w.readWork()
	sleepContext(ctx, w.duration/3)
	work := w.readWork().subtract(busy).subtract(idleWork)
	memory := max(0, measureMemory()-before)
	seconds := (w.duration / 3).Seconds()
	w.table.addRow(row{
		figure: fmt.Sprintf("%d open pages of payers", len(streams)),
		result: fmt.Sprintf("%.1f MB, %.1f KB each; opened in %s", float64(memory)/(1<<20),
			float64(memory)/float64(len(streams))/1024, formatDuration(opened)),
		compared: fmt.Sprintf("CPU of all in a second: %s here, %s in the database",
			formatDuration(time.Duration(float64(max(0, work.process))/seconds)),
			formatDuration(time.Duration(float64(max(0, work.database))/seconds))),
		target: formatTarget(memory < payerStreamsMax/payerStreams*int64(len(streams)),
			"40 KB each, which is 400 MB for 10,000"),
	})
	return nil
}

// measureMemory returns what the process has in use after a collection.
func measureMemory() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
