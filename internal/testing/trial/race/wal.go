package race

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// walTail reads the server's own log of commits, and has the balances after every commit, in the
// order of the commits. It reads no table and uses no code of the service: it sees what the server
// would recover after a crash.
type walTail struct {
	conn      *pgx.Conn
	isSpender map[string]bool // by account: whether it is one of those whose sum never changes

	balances      map[string]*big.Int // by account, as of the last commit
	touched       bool                // the current transaction has changed the spender's balance
	inTransaction bool
	kinds         map[uint32]relation

	commits uint64 // commits that changed the spender's balance
	moves   uint64 // balances that these and other commits wrote
	lowest  *big.Int
	wrong   []string
}

type relation struct {
	name    string
	columns []string
}

// The limits of reading the log.
const (
	walSlot  = "race"
	walPiece = 200_000 // changes that are read at once, and then the end of their transaction
	// Each read starts some seconds back, at the last position at which the server can begin.
	walPollInterval = 10 * time.Second
	walWrongMax     = 10
	balancesName    = "ledger_balances"
)

// openWAL starts to read before the first commit that matters.
func openWAL(ctx context.Context, superURL string) (*walTail, error) {
	conn, err := pgx.Connect(ctx, superURL)
	if err != nil {
		return nil, err
	}
	w := &walTail{
		conn: conn, balances: map[string]*big.Int{}, isSpender: map[string]bool{}, kinds: map[uint32]relation{},
	}
	for _, sql := range []string{
		`CREATE PUBLICATION race FOR TABLE ` + balancesName,
		`SELECT pg_create_logical_replication_slot('` + walSlot + `', 'pgoutput')`,
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return nil, errors.Join(fmt.Errorf("prepare to read the log: %w", err), conn.Close(ctx))
		}
	}
	rows, err := conn.Query(ctx, `SELECT account_id::text, balance::text FROM ledger_balances`)
	if err != nil {
		return nil, err
	}
	var account, units string
	_, err = pgx.ForEachRow(rows, []any{&account, &units}, func() error {
		n, ok := new(big.Int).SetString(units, 10)
		if !ok {
			return fmt.Errorf("balance %q of account %s", units, account)
		}
		w.balances[account] = n
		return nil
	})
	if err != nil {
		return nil, err
	}
	for account := range w.balances {
		if err := w.classifyAccount(ctx, account); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// classifyAccount finds out whether an account is the spender's.
func (w *walTail) classifyAccount(ctx context.Context, account string) error {
	if _, classified := w.isSpender[account]; classified {
		return nil
	}
	var isSpender bool
	err := w.conn.QueryRow(
		ctx, `SELECT subject = $2 FROM ledger_accounts WHERE account_id = $1::text::bigint`, account, spender,
	).Scan(&isSpender)
	w.isSpender[account] = isSpender
	return err
}

// followLog reads until stop is closed, and then the remaining log.
func (w *walTail) followLog(ctx context.Context, stop <-chan struct{}) error {
	for {
		last := false
		select {
		case <-stop:
			last = true
		case <-time.After(walPollInterval):
		}
		for {
			n, err := w.readPiece(ctx)
			if err != nil {
				return fmt.Errorf("read the log: %w", err)
			}
			if n < walPiece {
				break
			}
		}
		if last {
			return w.conn.Close(ctx)
		}
	}
}

// readPiece reads what has been committed since, whole transactions at a time.
func (w *walTail) readPiece(ctx context.Context) (n int, err error) {
	rows, err := w.conn.Query(ctx, `
		SELECT data FROM pg_logical_slot_get_binary_changes($1, NULL, $2, 'proto_version', '1', 'publication_names', 'race')`,
		walSlot, walPiece)
	if err != nil {
		return 0, err
	}
	messages, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
	if err != nil {
		return 0, err
	}
	for _, m := range messages {
		if err := w.applyMessage(ctx, m); err != nil {
			return 0, err
		}
	}
	return len(messages), nil
}

// The letters of the messages that are read.
const (
	walBegin    = 'B'
	walCommit   = 'C'
	walRelation = 'R'
	walInsert   = 'I'
	walUpdate   = 'U'
	walText     = 't' // a column as text
	walNew      = 'N' // the row after the change
)

var errTorn = errors.New("a message of the log ends too soon")

// applyMessage applies one message.
func (w *walTail) applyMessage(ctx context.Context, m []byte) error {
	if len(m) == 0 {
		return errTorn
	}
	r := reader{remaining: m[1:]}
	switch m[0] {
	case walBegin:
		w.inTransaction, w.touched = true, false
	case walCommit:
		w.inTransaction = false
		w.checkBalances()
	case walRelation:
		id := r.takeUint32()
		_, name := r.takeString(), r.takeString()
		r.skipBytes(1)
		rel := relation{name: name}
		for range r.takeUint16() {
			r.skipBytes(1)
			rel.columns = append(rel.columns, r.takeString())
			r.skipBytes(8)
		}
		w.kinds[id] = rel
	case walInsert, walUpdate:
		rel := w.kinds[r.takeUint32()]
		if len(r.remaining) == 0 || r.remaining[0] != walNew {
			return fmt.Errorf("the log has a change of %s with more than its new row", rel.name)
		}
		r.skipBytes(1)
		row := map[string]string{}
		for i := range r.takeUint16() {
			if len(r.remaining) == 0 || r.remaining[0] != walText || int(i) >= len(rel.columns) {
				return fmt.Errorf("the log has a column of %s that is not text", rel.name)
			}
			r.skipBytes(1)
			row[rel.columns[i]] = string(r.takeBytes(int(r.takeUint32())))
		}
		n, ok := new(big.Int).SetString(row["balance"], 10)
		if !ok || rel.name != balancesName || !w.inTransaction {
			return fmt.Errorf("the log has %v of %s", row, rel.name)
		}
		if err := w.classifyAccount(ctx, row["account_id"]); err != nil {
			return err
		}
		w.balances[row["account_id"]] = n
		w.touched = w.touched || w.isSpender[row["account_id"]]
		w.moves++
	default:
		if !slices.Contains([]byte{'O', 'Y'}, m[0]) { // an origin, a type
			return fmt.Errorf("the log has a message %q of an unexpected kind", m[0])
		}
	}
	if r.torn {
		return errTorn
	}
	return nil
}

// checkBalances checks every balance after a commit.
func (w *walTail) checkBalances() {
	sum := new(big.Int)
	for account, b := range w.balances {
		if w.lowest == nil || b.Cmp(w.lowest) < 0 {
			w.lowest = b
		}
		if b.Sign() < 0 {
			w.addComplaint("account %s has %v after a commit", account, b)
		}
		if w.isSpender[account] {
			sum.Add(sum, b)
		}
	}
	if w.touched {
		w.commits++
	}
	if sum.Cmp(big.NewInt(balance)) != 0 {
		w.addComplaint("the spender has %v in total after a commit, of %d", sum, balance)
	}
}

func (w *walTail) addComplaint(format string, args ...any) {
	if len(w.wrong) < walWrongMax {
		w.wrong = append(w.wrong, "log: "+fmt.Sprintf(format, args...))
	}
}

// reader reads the fields of a message.
type reader struct {
	remaining []byte
	torn      bool
}

// takeBytes returns the next n bytes, or zeros if there are fewer.
func (r *reader) takeBytes(n int) []byte {
	if n < 0 || n > len(r.remaining) {
		r.torn, r.remaining = true, nil
		return make([]byte, 4)
	}
	b := r.remaining[:n]
	r.remaining = r.remaining[n:]
	return b
}

func (r *reader) skipBytes(n int)    { r.takeBytes(n) }
func (r *reader) takeUint32() uint32 { return binary.BigEndian.Uint32(r.takeBytes(4)) }
func (r *reader) takeUint16() uint16 { return binary.BigEndian.Uint16(r.takeBytes(2)) }

func (r *reader) takeString() string {
	i := slices.Index(r.remaining, 0)
	if i < 0 {
		r.torn, r.remaining = true, nil
		return ""
	}
	s := string(r.remaining[:i])
	r.remaining = r.remaining[i+1:]
	return s
}
